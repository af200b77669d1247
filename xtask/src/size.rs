//! `cargo xtask size`: what depending on the project costs: crates in the tree, a C compiler or not, the time of a build
//! from nothing, the size of a stripped program.
use crate::{exit::Exit, workspace};
use serde::Serialize;
use std::{collections::BTreeSet, io::BufRead, path::PathBuf, process::Stdio, time::Instant};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// The library whose tree is counted, with its default features
    #[arg(long, default_value = "adamant")]
    library: String,
    /// The program that is built
    #[arg(long, default_value = "adamant-cli")]
    program: String,
    /// The most crates the library's tree may have
    #[arg(long, default_value_t = 60)]
    most: usize,
    /// Only count; build nothing
    #[arg(long)]
    count_only: bool,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
#[derive(Serialize)]
struct Report {
    library: String,
    crates: usize,
    most: usize,
    names: Vec<String>,
    /// crates that call a C compiler or another tool from outside
    native: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    build: Option<Build>,
    passed: bool,
}
#[derive(Serialize)]
struct Build {
    program: String,
    cold_build_s: f64,
    stripped_bytes: u64,
}

/// Build tools that need something from outside Rust.
const NATIVE: &[&str] = &["autotools", "bindgen", "cc", "cmake", "meson", "nasm-rs", "pkg-config", "vcpkg"];

/// Counts, builds, reports.
pub fn run(options: &Options) -> Exit {
    if let Err(text) = workspace::packages(&[&options.library, &options.program]) {
        eprintln!("{text}");
        return Exit::Usage;
    }
    match measure(options) {
        Ok(report) => {
            print(&report, options.json);
            if report.passed { Exit::Passed } else { Exit::Failed }
        }
        Err(text) => {
            eprintln!("{text}");
            Exit::Failed
        }
    }
}
fn measure(options: &Options) -> Result<Report, String> {
    let names = tree(&options.library, "normal")?;
    // A build script's tools do not count as crates of the library, but they may want a C compiler.
    let native: Vec<String> = tree(&options.library, "normal,build")?.into_iter().filter(|n| NATIVE.contains(&n.split(' ').next().unwrap_or(n))).collect();
    let build = if options.count_only { None } else { Some(build(&options.program)?) };
    let passed = names.len() <= options.most && native.is_empty();
    Ok(Report { library: options.library.clone(), crates: names.len(), most: options.most, names: names.into_iter().collect(), native, build, passed })
}
fn print(report: &Report, json: bool) {
    if json {
        println!("{}", serde_json::json!(report));
        return;
    }
    report.names.iter().for_each(|name| println!("  {name}"));
    println!("{}: {} crates (at most {})", report.library, report.crates, report.most);
    println!("needs a C compiler: {}", if report.native.is_empty() { "no".into() } else { report.native.join(", ") });
    if let Some(b) = &report.build {
        println!("{}: built from nothing in {:.1} s, {:.2} MB stripped", b.program, b.cold_build_s, b.stripped_bytes as f64 * 1e-6);
    }
}
/// `name version` of every crate in a tree.
fn tree(package: &str, edges: &str) -> Result<BTreeSet<String>, String> {
    let out = workspace::cargo(&["tree", "--package", package, "--edges", edges, "--prefix", "none", "--format", "{p}"]).output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into());
    }
    // A line is `name version [(where)] [(*)]`.
    let lines = String::from_utf8_lossy(&out.stdout).into_owned();
    Ok(lines.lines().map(|l| l.split(' ').take(2).collect::<Vec<_>>().join(" ")).filter(|l| !l.is_empty()).collect())
}
/// Builds a program in a folder of its own that is empty before and gone afterwards.
fn build(program: &str) -> Result<Build, String> {
    let folder = workspace::root().join("target").join("cold");
    let _ = std::fs::remove_dir_all(&folder);
    let start = Instant::now();
    let mut child = workspace::cargo(&["build", "--release", "--package", program, "--message-format", "json", "--config", "profile.release.strip=true"])
        .env("CARGO_TARGET_DIR", &folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|e| e.to_string())?;
    let mut made: Option<PathBuf> = None;
    if let Some(out) = child.stdout.take() {
        for line in std::io::BufReader::new(out).lines().map_while(Result::ok) {
            let message: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(path) = message["executable"].as_str() {
                made = Some(path.into());
            }
        }
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    let cold_build_s = start.elapsed().as_secs_f64();
    let stripped_bytes = made.as_ref().and_then(|path| path.metadata().ok()).map(|m| m.len());
    let _ = std::fs::remove_dir_all(&folder);
    match (status.success(), stripped_bytes) {
        (true, Some(stripped_bytes)) => Ok(Build { program: program.into(), cold_build_s, stripped_bytes }),
        (true, None) => Err(format!("{program} has no program in it")),
        (false, _) => Err(format!("{program} was not built ({status})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_is_none_and_is_built() {
        for (library, program) in [("nothing", "adamant-cli"), ("adamant", "nothing")] {
            let options = Options { library: library.into(), program: program.into(), most: 60, count_only: true, json: false };
            assert_eq!(run(&options), Exit::Usage, "{library} {program}");
        }
    }
}
