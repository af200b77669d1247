//! `cargo xtask check`: everything a change must pass besides its tests. All parts run, also after one has failed.
use crate::{handed, tidy, workspace};
use std::{io::Write, process::Stdio};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// A part that is a cargo command: name, arguments, environment.
type Part = (&'static str, &'static [&'static str], Option<(&'static str, &'static str)>);
/// What a test may do that library code may not: stop at the first surprise, and compare as the case at hand needs.
const TESTS: &[&str] = &[
    "clippy",
    "--workspace",
    "--all-targets",
    "--",
    "-D",
    "warnings",
    "-A",
    "clippy::unwrap_used",
    "-A",
    "clippy::expect_used",
    "-A",
    "clippy::panic",
    "-A",
    "clippy::approx_constant",
    "-A",
    "clippy::neg_cmp_op_on_partial_ord",
    "-A",
    "clippy::cloned_ref_to_slice_refs",
    "-A",
    "clippy::err_expect",
];
const PARTS: &[Part] = &[
    ("fmt", &["fmt", "--all", "--", "--check"], None),
    ("clippy", &["clippy", "--workspace", "--lib", "--bins", "--examples", "--", "-D", "warnings"], None),
    ("clippy of tests", TESTS, None),
    ("docs", &["doc", "--workspace", "--no-deps", "--document-private-items"], Some(("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))),
];

/// Runs every part and names those that failed; whether none did.
pub fn run(options: &Options) -> bool {
    let mut results = Vec::new();
    for (name, arguments, environment) in PARTS {
        eprintln!("check: {name}");
        let mut command = workspace::cargo(arguments);
        command.envs(environment.iter().copied());
        if options.json {
            // Standard output holds the document alone.
            command.stdout(Stdio::null());
        }
        let passed = match command.status() {
            Ok(status) => status.success(),
            Err(e) => {
                eprintln!("cargo {}: {e}", arguments.join(" "));
                false
            }
        };
        results.push((*name, passed));
    }
    eprintln!("check: tidy");
    let complaints = tidy::complaints(&workspace::root());
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    results.push(("tidy", complaints.is_empty()));
    eprintln!("check: loops compiled ahead");
    results.push(("loops compiled ahead", handed::succeeds(&["prefuse", "--check"])));
    let failed: Vec<&str> = results.iter().filter(|(_, passed)| !passed).map(|(name, _)| *name).collect();
    if options.json {
        let parts: serde_json::Map<_, _> = results.iter().map(|(name, passed)| (name.to_string(), (*passed).into())).collect();
        println!("{}", serde_json::json!({ "passed": failed.is_empty(), "parts": parts }));
    } else {
        for (name, passed) in &results {
            println!("{name}: {}", if *passed { "passed" } else { "failed" });
        }
    }
    // Both streams may be one file: what was said last stands last.
    let _ = std::io::stdout().flush();
    failed.is_empty()
}
