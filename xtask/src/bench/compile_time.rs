//! `cargo xtask bench compile-time`: how long somebody waits who has the sources and nothing built: for the first training
//! run, and for the chores; and how long behind a change in one kernel, and in what all others stand upon. The sources are
//! copied, with a target folder of their own that is empty before; both are gone afterwards. What is downloaded is there
//! before. The times stand in a record with the machine, in `docs/performance`, from which the page is made.
//!
//! With `--package` it is what a build of one costs: from nothing, and after a change in one file.
//!
//! A change is a line more at a file's head: its functions say other lines where they panic, so that all of them are compiled
//! again, and nothing else is different.
use super::performance::BUILDS;
use crate::{exit::Exit, workspace};
use adamant_bench::{
    cli::out::appendable,
    machine::Load,
    place::BenchPlace,
    record::{Case, Record},
    render::time,
};
use serde::Serialize;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Instant, SystemTime},
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// What cargo is told, timed from nothing; may be given again. Else the first run of a user, and the chores
    #[arg(long, value_name = "WORDS", conflicts_with = "package")]
    command: Vec<String>,
    /// Append the record to this file
    #[arg(long, value_name = "FILE", default_value = "docs/performance/builds.jsonl", conflicts_with = "package")]
    record: PathBuf,
    /// Time builds of this package instead: from nothing, after a change, without one
    #[arg(long)]
    package: Option<String>,
    /// The file that changes
    #[arg(long, default_value = "crates/core/src/lib.rs", requires = "package")]
    change: PathBuf,
    /// Optimised, as a release is
    #[arg(long, requires = "package")]
    release: bool,
    /// How often the build after a change is timed; the least counts
    #[arg(long, default_value_t = 3, requires = "package")]
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
/// What people type first.
const COLD: [&str; 2] = ["run --release -p adamant-cli -- train examples/digits/digits.toml", "xtask --help"];
/// What is built again behind a change in one of these: a kernel, and core.
const AGAIN: &str = "build --release -p adamant-cli";
const CHANGED: [&str; 2] = ["crates/backend-cpu/src/primitive/gather.rs", "crates/core/src/lib.rs"];
/// The copy of the sources and its target folder, below the project's.
const FOLDER: &str = "target/bench/compile-time";
type Ended = (Exit, String);

/// Sources to be changed, and what is built of them; gone in the end.
struct CopiedSources(PathBuf);
impl CopiedSources {
    /// Of all files that git knows or would take.
    fn new() -> Result<CopiedSources, Ended> {
        let (root, copy) = (workspace::root(), CopiedSources(workspace::root().join(FOLDER)));
        let _ = fs::remove_dir_all(&copy.0);
        let failed = |e: String| (Exit::Failed, format!("the sources cannot be copied: {e}"));
        let listed = Command::new("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(&root).output();
        let listed = listed.map_err(|e| failed(e.to_string()))?;
        if !listed.status.success() {
            return Err(failed(String::from_utf8_lossy(&listed.stderr).into_owned()));
        }
        for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| root.join(name).is_file()) {
            let to = copy.sources().join(name);
            let copied = fs::create_dir_all(to.parent().unwrap_or(&to)).and_then(|()| fs::copy(root.join(name), &to));
            copied.map_err(|e| failed(format!("{name}: {e}")))?;
        }
        Ok(copy)
    }
    fn sources(&self) -> PathBuf {
        self.0.join("sources")
    }
    fn target(&self) -> PathBuf {
        self.0.join("target")
    }
    /// Nanoseconds of a cargo command.
    fn time(&self, words: &str) -> Result<f64, Ended> {
        let mut words: Vec<String> = words.split_whitespace().map(String::from).collect();
        if words.iter().any(|w| w == "train") {
            // The run's folder goes with the target folder.
            words.extend(["--run".into(), self.target().join("run").to_string_lossy().into_owned()]);
        }
        let mut command = workspace::cargo(&words.iter().map(String::as_str).collect::<Vec<_>>());
        command.current_dir(self.sources()).env("CARGO_TARGET_DIR", self.target()).stdin(Stdio::null()).stdout(Stdio::null());
        let start = Instant::now();
        succeed(command).map(|()| start.elapsed().as_secs_f64() * 1e9)
    }
    /// The same where nothing is built.
    fn cold(&self, words: &str) -> Result<f64, Ended> {
        let _ = fs::remove_dir_all(self.target());
        self.time(words)
    }
    /// Puts a line more at a file's head.
    fn change(&self, file: &Path) -> Result<(), Ended> {
        let path = self.sources().join(file);
        let changed = fs::read_to_string(&path).and_then(|text| fs::write(&path, format!("// A line more.\n{text}")));
        changed.map_err(|e| (Exit::Unreadable, format!("{}: {e}", path.display())))
    }
}
impl Drop for CopiedSources {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Builds and reports.
pub fn run(options: &Options) -> Exit {
    let done = match &options.package {
        Some(package) => changed(options, package),
        None => cold(options),
    };
    done.map_or_else(
        |(exit, text)| {
            eprintln!("{text}");
            exit
        },
        |()| Exit::Passed,
    )
}

/// Times commands from nothing and records them.
fn cold(options: &Options) -> Result<(), Ended> {
    let file = workspace::root().join(&options.record);
    // Before builds that take minutes.
    appendable(&file)?;
    let commands: Vec<&str> = if options.command.is_empty() { COLD.to_vec() } else { options.command.iter().map(String::as_str).collect() };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let place = BenchPlace::open("cpu", threads).map_err(|e| (Exit::Failed, e.to_string()))?;
    let mut record = Record::begun(SystemTime::now(), place.settings(None, 0.0, 0.0, false));
    if options.command.is_empty() {
        are_there(&workspace::root())?;
        // A connection is no part of a build.
        succeed(workspace::cargo(&["fetch", "--quiet"]))?;
    }
    let copy = CopiedSources::new()?;
    let mut found = |what: String, ns: f64| {
        if !options.json {
            println!("cargo {what}: {}", time(ns));
        }
        record.cases.push(Case::new(format!("cargo {what}"), BUILDS).sampled(vec![ns], vec![0.0], 1));
    };
    for (k, words) in commands.into_iter().enumerate() {
        found(words.to_string(), copy.cold(words)?);
        if k == 0 && options.command.is_empty() {
            for file in CHANGED {
                copy.change(Path::new(file))?;
                found(format!("{AGAIN}, a line more in {file}"), copy.time(AGAIN)?);
            }
        }
    }
    record.load_after = Load::now();
    record.append(&file).map_err(|e| (Exit::Unwritable, e.to_string()))?;
    if options.json {
        let times: Vec<_> = record.cases.iter().map(|c| serde_json::json!({ "command": c.workload, "seconds": c.median_ns().map(|ns| ns * 1e-9) })).collect();
        println!("{}", serde_json::json!({ "machine": record.machine, "builds": times }));
    }
    Ok(())
}
/// Are the files there that are changed? Asked before builds that take minutes.
fn are_there(root: &Path) -> Result<(), Ended> {
    match CHANGED.iter().find(|file| !root.join(file).is_file()) {
        Some(file) => Err((Exit::Failed, format!("{file} is to be changed and is not there: {}", file!()))),
        None => Ok(()),
    }
}
fn succeed(mut command: Command) -> Result<(), Ended> {
    let status = command.status().map_err(|e| (Exit::Failed, format!("cargo: {e}")))?;
    let said = || command.get_args().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    if status.success() { Ok(()) } else { Err((Exit::Failed, format!("cargo {}: {status}", said()))) }
}

/// Builds of one package.
fn changed(options: &Options, package: &str) -> Result<(), Ended> {
    workspace::packages(&[package]).map_err(|text| (Exit::Usage, text))?;
    // Before the build from nothing, which takes minutes.
    let change = workspace::root().join(&options.change);
    if !change.is_file() {
        return Err((Exit::Unreadable, format!("{} is no file", change.display())));
    }
    let r = measure(options, package)?;
    if options.json {
        println!("{}", serde_json::json!(r));
        return Ok(());
    }
    let profile = if r.release { "release" } else { "dev" };
    println!(
        "{} ({profile}): {:.1} s from nothing, {:.1} s after a change, {:.2} s without one",
        r.package, r.from_nothing_s, r.after_a_change_s, r.without_a_change_s
    );
    Ok(())
}
fn measure(options: &Options, package: &str) -> Result<Report, Ended> {
    let copy = CopiedSources::new()?;
    let words = format!("build --quiet --package {package}{}", if options.release { " --release" } else { "" });
    let build = || copy.time(&words).map(|ns| ns * 1e-9);
    let from_nothing_s = copy.cold(&words)? * 1e-9;
    let mut after_a_change_s = f64::INFINITY;
    for _ in 0..options.rounds.max(1) {
        copy.change(&options.change)?;
        after_a_change_s = after_a_change_s.min(build()?);
    }
    let without_a_change_s = build()?;
    Ok(Report { package: package.into(), release: options.release, from_nothing_s, after_a_change_s, without_a_change_s })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }
    fn exit(words: &[&str]) -> Exit {
        run(&Line::parse_from(["compile-time"].iter().chain(words)).options)
    }
    #[test]
    fn a_build_of_minutes_before_a_wrong_name_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let inside_a_file = folder.path().join("x/builds.jsonl");
        std::fs::write(folder.path().join("x"), "").unwrap();
        for (words, want) in [
            (&["--package", "nothing"][..], Exit::Usage),
            (&["--package", "adamant", "--change", "crates/core/src/gone.rs"], Exit::Unreadable),
            (&["--record", inside_a_file.to_str().unwrap()], Exit::Unwritable),
        ] {
            assert_eq!(exit(words), want, "{words:?}");
        }
    }
    /// A program of one line, so that it is built in a moment.
    #[test]
    fn a_command_that_finds_something_built_or_is_not_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        put("Cargo.toml", "[package]\nname = \"tiny\"\nedition = \"2024\"\n[workspace]\n");
        put("src/main.rs", "fn main() { std::process::exit(std::env::args().count() as i32 - 1) }\n");
        // Tells each time that it is built.
        put(
            "build.rs",
            "use std::{fs::File, io::Write};\nfn main() { let mut f = File::options().create(true).append(true).open(\"built\").unwrap(); \
             writeln!(f, \"once\").unwrap(); println!(\"cargo:rerun-if-changed=build.rs\") }\n",
        );
        let (manifest, record) = (folder.path().join("Cargo.toml"), folder.path().join("builds.jsonl"));
        let words = |more: &str| format!("run --quiet --manifest-path {} {more}", manifest.display());
        let timed = |more: &str| exit(&["--record", record.to_str().unwrap(), "--command", &words(more), "--json"]);
        assert_eq!((timed(""), timed("")), (Exit::Passed, Exit::Passed));
        let records = Record::read(&record).unwrap();
        assert_eq!(records.len(), 2);
        for r in &records {
            assert!(r.cases[0].workload.starts_with("cargo run --quiet") && r.cases[0].samples_ns.len() == 1, "{:?}", r.cases);
            assert!(r.cases[0].implementation == BUILDS && !r.machine.cpu.is_empty());
        }
        let built = || std::fs::read_to_string(folder.path().join("built")).unwrap().lines().count();
        assert_eq!(built(), 2, "the second found what the first had built");
        assert!(!workspace::root().join(FOLDER).exists() && !folder.path().join("target").exists());
        // A command that fails has no time.
        assert_eq!(timed("-- failed"), Exit::Failed);
        assert_eq!(Record::read(&record).unwrap().len(), 2);
    }

    #[test]
    fn the_files_that_are_changed_lie_where_they_are_looked_for() {
        assert!(are_there(&workspace::root()).is_ok());
        assert!(are_there(Path::new("/nowhere")).is_err());
    }
}
