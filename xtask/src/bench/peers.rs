//! `cargo xtask bench peers`: this project and another program, workload by workload in turn, so that a busy machine
//! slows both; medians of the rounds, and their ratio.
use crate::exit::Exit;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// The program to compare with, or a folder with one program that prints the same lines
    #[arg(long)]
    dir: PathBuf,
    /// Only the workloads whose name matches one of these globs, separated by commas
    #[arg(long, default_value = "*")]
    only: String,
    /// Threads of both
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds of samples for each workload and round
    #[arg(long, default_value_t = 0.3)]
    budget: f64,
    /// How often each is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// One JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// What is read of a line.
#[derive(Deserialize)]
struct Line {
    workload: String,
    #[serde(rename = "impl")]
    implementation: String,
    median_ms: Option<f64>,
    error: Option<String>,
}
/// One workload of one program, over the rounds.
#[derive(Default)]
struct Measured {
    medians: Vec<f64>,
    error: Option<String>,
}
impl Measured {
    fn median(&self) -> Option<f64> {
        let mut sorted = self.medians.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}

/// Measures both and prints the ratios.
pub fn run(options: &Options) -> Exit {
    let compared = match compare(options) {
        Ok(rows) => rows,
        Err((exit, text)) => {
            eprintln!("{text}");
            return exit;
        }
    };
    let mut slower = Vec::new();
    let mut rows = Vec::new();
    for (name, ours, theirs, peer) in &compared {
        let ratio = ours.median().zip(theirs.median()).map(|(a, b)| a / b);
        if ratio.is_some_and(|r| r > 1.0) {
            slower.push(name.clone());
        }
        rows.push(serde_json::json!({
            "workload": name, "adamant_ms": ours.median(), "peer": peer, "peer_ms": theirs.median(), "ratio": ratio,
            "adamant_error": ours.error, "peer_error": theirs.error,
        }));
        if !options.json {
            let ms = |m: &Measured| m.median().map_or_else(|| "-".into(), |x| format!("{x:.6}"));
            let ratio = ratio.map_or_else(|| "-".into(), |r| format!("{r:.2}"));
            let why = ours.error.as_deref().map(|e| format!("  {e}")).unwrap_or_default();
            println!("{name:<34} {:>14} {:>14} {ratio:>8}{why}", ms(ours), ms(theirs));
        }
    }
    if options.json {
        println!("{}", serde_json::json!({ "threads": options.threads, "rounds": options.rounds, "rows": rows, "slower": slower }));
    } else {
        println!("slower than the peer: {}", if slower.is_empty() { "none".into() } else { slower.join(", ") });
    }
    if compared.iter().any(|(_, ours, ..)| ours.error.is_some()) { Exit::Failed } else { Exit::Passed }
}

type Row = (String, Measured, Measured, String);
fn compare(options: &Options) -> Result<Vec<Row>, (Exit, String)> {
    let peer = program(&options.dir).map_err(|text| (Exit::Unreadable, text))?;
    let own = std::env::current_exe().map_err(|e| (Exit::Unreadable, e.to_string()))?;
    let listed = Command::new(&own).args(["bench", "run", "--list", "--only", &options.only]).output().map_err(|e| (Exit::Unreadable, e.to_string()))?;
    if !listed.status.success() {
        return Err((Exit::Usage, String::from_utf8_lossy(&listed.stderr).into()));
    }
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut rows = Vec::new();
    for name in names.lines() {
        let (mut ours, mut theirs, mut called) = (Measured::default(), Measured::default(), String::new());
        for _ in 0..options.rounds.max(1) {
            take(&own, &["bench", "run", "--json"], name, options, &mut ours, &mut String::new());
            take(&peer, &[], name, options, &mut theirs, &mut called);
        }
        eprintln!("{name}: {} / {}", ours.median().unwrap_or(f64::NAN), theirs.median().unwrap_or(f64::NAN));
        rows.push((name.to_string(), ours, theirs, called));
    }
    Ok(rows)
}
/// The program itself, or the only program in a folder.
fn program(path: &Path) -> Result<PathBuf, String> {
    if path.is_file() {
        return Ok(path.into());
    }
    let listed = std::fs::read_dir(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut programs: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).filter(|p| is_program(p)).collect();
    match (programs.pop(), programs.is_empty()) {
        (Some(program), true) => Ok(program),
        (None, _) => Err(format!("{}: no program in it", path.display())),
        _ => Err(format!("{}: more than one program in it; name one", path.display())),
    }
}
#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0) && path.extension().is_none()
}
#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "exe")
}
/// One round of one program.
fn take(program: &Path, arguments: &[&str], name: &str, options: &Options, into: &mut Measured, called: &mut String) {
    let (threads, budget) = (options.threads.to_string(), options.budget.to_string());
    let mut command = Command::new(program);
    command.args(arguments).args(["--only", name, "--threads", &threads, "--budget", &budget]);
    command.env("RAYON_NUM_THREADS", &threads).stderr(Stdio::null());
    let out = match command.output() {
        Ok(out) => out,
        Err(e) => {
            into.error = Some(e.to_string());
            return;
        }
    };
    let mut by_name: BTreeMap<String, Line> =
        String::from_utf8_lossy(&out.stdout).lines().filter_map(|l| serde_json::from_str::<Line>(l).ok()).map(|l| (l.workload.clone(), l)).collect();
    match by_name.remove(name) {
        Some(Line { implementation, median_ms, error, .. }) => {
            *called = implementation;
            into.medians.extend(median_ms);
            into.error = error;
        }
        None => into.error = Some(format!("no line for it ({})", out.status)),
    }
}
