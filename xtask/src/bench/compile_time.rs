//! `cargo xtask bench compile-time`: what a build costs: from nothing, and after a change in the crate that all others
//! know. A change is a new date of a file, so that sources stay as they are.
use crate::{exit::Exit, workspace};
use serde::Serialize;
use std::{
    fs::File,
    path::Path,
    time::{Instant, SystemTime},
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// The package that is built
    #[arg(long, default_value = "adamant")]
    package: String,
    /// The file that changes
    #[arg(long, default_value = "crates/core/src/lib.rs")]
    change: std::path::PathBuf,
    /// Optimised, as a release is
    #[arg(long)]
    release: bool,
    /// How often the build after a change is timed; the least counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
#[derive(Serialize)]
struct Report {
    package: String,
    release: bool,
    from_nothing_s: f64,
    after_a_change_s: f64,
    without_a_change_s: f64,
}

/// Builds and reports.
pub fn run(options: &Options) -> Exit {
    if let Err(text) = workspace::packages(&[&options.package]) {
        eprintln!("{text}");
        return Exit::Usage;
    }
    // Before the build from nothing, which takes minutes.
    let change = workspace::root().join(&options.change);
    if !change.is_file() {
        eprintln!("{} is no file", change.display());
        return Exit::Unreadable;
    }
    match measure(options) {
        Ok(report) if options.json => println!("{}", serde_json::json!(report)),
        Ok(r) => {
            let profile = if r.release { "release" } else { "dev" };
            println!(
                "{} ({profile}): {:.1} s from nothing, {:.1} s after a change, {:.2} s without one",
                r.package, r.from_nothing_s, r.after_a_change_s, r.without_a_change_s
            );
        }
        Err(text) => {
            eprintln!("{text}");
            return Exit::Failed;
        }
    }
    Exit::Passed
}
fn measure(options: &Options) -> Result<Report, String> {
    let folder = workspace::root().join("target/bench/compile-time");
    let _ = std::fs::remove_dir_all(&folder);
    let build = || build(options, &folder);
    let from_nothing_s = build()?;
    let path = workspace::root().join(&options.change);
    let mut after_a_change_s = f64::INFINITY;
    for _ in 0..options.rounds.max(1) {
        File::options().append(true).open(&path).and_then(|f| f.set_modified(SystemTime::now())).map_err(|e| format!("{}: {e}", path.display()))?;
        after_a_change_s = after_a_change_s.min(build()?);
    }
    let without_a_change_s = build()?;
    let _ = std::fs::remove_dir_all(&folder);
    Ok(Report { package: options.package.clone(), release: options.release, from_nothing_s, after_a_change_s, without_a_change_s })
}
/// Seconds of one build.
fn build(options: &Options, folder: &Path) -> Result<f64, String> {
    let start = Instant::now();
    let mut command = workspace::cargo(&["build", "--quiet", "--package", &options.package]);
    if options.release {
        command.arg("--release");
    }
    let status = command.env("CARGO_TARGET_DIR", folder).status().map_err(|e| format!("cargo: {e}"))?;
    if status.success() { Ok(start.elapsed().as_secs_f64()) } else { Err(format!("{} cannot be built", options.package)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_of_minutes_before_a_wrong_name_is_told() {
        let options = |package: &str, change: &str| Options { package: package.into(), change: change.into(), release: false, rounds: 1, json: false };
        assert_eq!(run(&options("nothing", "crates/core/src/lib.rs")), Exit::Usage);
        assert_eq!(run(&options("adamant", "crates/core/src/gone.rs")), Exit::Unreadable);
    }
}
