//! `cargo xtask check`: everything a change must pass besides its tests. All parts run, also after one has failed.
use crate::{tidy, workspace};
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

/// Folders of files that a macro makes modules (`primitives!`), which `cargo fmt` does not see.
const LISTED: &[&str] = &["crates/core/src/primitive", "crates/backend-cpu/src/primitive", "crates/kernels/src/skeleton"];

/// Are the files of these folders as rustfmt writes them?
fn are_formatted(folders: &[&str]) -> bool {
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(workspace::root().join(folder)).ok()).flatten().flatten();
    let files: Vec<_> = entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "rs")).collect();
    let mut command = std::process::Command::new("rustfmt");
    command.current_dir(workspace::root()).args(["--check", "--edition", "2024"]).args(&files).stdout(Stdio::null());
    let status = command.status().map_err(|e| eprintln!("rustfmt: {e}"));
    !files.is_empty() && status.is_ok_and(|s| s.success())
}

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
    eprintln!("check: fmt of listed files");
    results.push(("fmt of listed files", are_formatted(LISTED)));
    eprintln!("check: tidy");
    let complaints = tidy::complaints(&workspace::root());
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    results.push(("tidy", complaints.is_empty()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_no_formatter_sees_is_looked_at() {
        assert!(are_formatted(LISTED), "rustfmt --edition 2024 {}", LISTED.join("/*.rs "));
        // Nothing there is no pass, nor is a file that is written otherwise.
        assert!(!are_formatted(&["no/such/folder"]));
        let folder = std::env::temp_dir().join(format!("adamant-check-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.rs"), "fn  f( ){}").unwrap();
        assert!(!are_formatted(&[&folder.to_string_lossy()]));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
