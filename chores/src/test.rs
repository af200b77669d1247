//! `cargo xtask test`: all tests of all packages, examples in the docs included.
use crate::workspace;

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// Only this package
    #[arg(long, short)]
    package: Option<String>,
    /// One JSON document as the last line
    #[arg(long)]
    json: bool,
    /// Passed on to the test programs
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Runs the tests; whether all passed.
pub fn run(options: &Options) -> bool {
    let scope = match &options.package {
        Some(package) => vec!["--package", package],
        None => vec!["--workspace"],
    };
    let mut arguments = vec!["test", "--no-fail-fast"];
    arguments.extend(scope);
    arguments.push("--");
    arguments.extend(options.rest.iter().map(String::as_str));
    let passed = match workspace::cargo(&arguments).status() {
        Ok(status) => status.success(),
        Err(e) => {
            eprintln!("cargo {}: {e}", arguments.join(" "));
            false
        }
    };
    if options.json {
        println!("{}", serde_json::json!({ "passed": passed }));
    }
    passed
}
