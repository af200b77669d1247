//! `cargo xtask torture keys`: every key of every description wrong, one at a time, given to the program as a user gives it.
//! However wrong it is, the program neither crashes nor takes its time or memory, and says where the fault is and what
//! was probably meant.
//!
//! Time is the processor's, of the child alone: what else the machine does is not counted.
mod cases;
mod outcome;
mod subjects;

use super::{CaseDraw, TortureClaim, claim, report};
use crate::{exit::Exit, workspace};
use cases::{Case, Wrong};
use outcome::{Measured, Outcome};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use subjects::KeySubject;

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// How many descriptions are tried; there are more to choose from
    #[arg(long, default_value_t = 4000)]
    n: usize,
    /// Which are chosen
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program; built in release unless it is given
    #[arg(long)]
    program: Option<PathBuf>,
    /// The most seconds of the processor that a check of a description may take: more for a program that is not optimised
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// One JSON document
    #[arg(long)]
    json: bool,
}
/// The most bytes that it may take.
const BYTES: u64 = 200_000_000;
/// Parameters of an accepted model, and floating-point operations of its batch, beyond which its dry run, which trains it, takes
/// what such a model takes.
const LIGHT: (u64, u64) = (5_000_000, 8_000_000_000);
/// The share of misspellings that the program has to see through.
const SEEN_THROUGH: f64 = 0.95;

/// Tries the cases.
pub fn run(options: &Options) -> Exit {
    let Some(program) = &options.program else { return again(options) };
    match tried(options, program) {
        Ok(claims) => report(options.json, &claims),
        Err(e) => {
            eprintln!("{e}");
            Exit::Failed
        }
    }
}
/// Builds the program and starts this chore again: the memory of children is counted for a process as a whole, and cargo's are
/// larger than any that is looked for.
fn again(options: &Options) -> Exit {
    eprintln!("building the program");
    let built = workspace::program().and_then(|program| Ok((program, std::env::current_exe().map_err(|e| e.to_string())?)));
    let ended = built.and_then(|(program, this)| {
        let mut command = Command::new(this);
        command
            .args(["torture", "keys", "--n", &options.n.to_string(), "--seed", &options.seed.to_string(), "--seconds", &options.seconds.to_string()])
            .arg("--program")
            .arg(program);
        if options.json {
            command.arg("--json");
        }
        command.status().map_err(|e| e.to_string())
    });
    match ended {
        Ok(status) if status.success() => Exit::Passed,
        Ok(_) => Exit::Failed,
        Err(e) => {
            eprintln!("{e}");
            Exit::Failed
        }
    }
}

/// The verbs that look at a description.
const VERBS: [&[&str]; 3] = [&["config", "validate"], &["summary"], &["train", "--dry-run"]];

fn tried(options: &Options, program: &Path) -> Result<Vec<TortureClaim>, String> {
    let program = std::path::absolute(program).map_err(|e| e.to_string())?;
    let place = tempfile::tempdir().map_err(|e| e.to_string())?;
    let subjects = subjects::all(&program, place.path())?;
    let mut cases: Vec<Case> = subjects.iter().flat_map(cases::of).collect();
    let there = cases.len();
    shuffle(&mut cases, options.seed);
    cases.truncate(options.n);
    let mut whole = TortureClaim::new("the descriptions themselves are taken");
    let mut measured = Measured::new();
    for subject in &subjects {
        let text = subject.text();
        for verb in VERBS {
            let outcome = attempt(&program, subject, &text, verb, &mut measured)?;
            whole.count(if outcome.code == Some(0) { Ok(()) } else { Err(format!("{} {}: {}", verb.join(" "), subject.name, outcome.stderr)) });
        }
    }
    let mut survived = TortureClaim::new("no crash, nothing over its time or 200 MB, one document, and where the fault is");
    let mut seen_through = (0, 0);
    let mut missed: Vec<String> = Vec::new();
    let (mut refused, mut accepted, mut heavy) = (0, 0, 0);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let claim = claim("", |_| {
        for case in &cases {
            let subject = &subjects[case.subject];
            *kinds.entry(case.wrong.kind()).or_default() += 1;
            let mut told = None;
            for verb in VERBS {
                if told == Some(true) && verb.contains(&"--dry-run") {
                    heavy += 1;
                    continue;
                }
                let outcome = attempt(&program, subject, &case.text, verb, &mut measured)?;
                if outcome.code == Some(0) {
                    accepted += 1;
                } else {
                    refused += 1;
                }
                told = told.or_else(|| outcome.costs().map(|(parameters, flops)| parameters > LIGHT.0 || flops > LIGHT.1));
                survived.count(
                    judge(case, &outcome, options.seconds)
                        .map_err(|e| format!("{} ({}) {}: {e}", subject.name, verb.join(" "), case.wrong.describe(&case.path))),
                );
                if verb[0] == "config"
                    && let Some(right) = meant(case, &outcome)
                {
                    seen_through.1 += 1;
                    if right {
                        seen_through.0 += 1;
                    } else {
                        missed.push(format!("{} {}: {}", subject.name, case.wrong.describe(&case.path), outcome.told()));
                    }
                }
            }
        }
        Ok(())
    });
    survived.seconds = claim.seconds;
    survived.seen = serde_json::json!({
        "descriptions": cases.len(), "of": there, "refused": refused, "accepted": accepted, "dry_runs_of_large_models_left_out": heavy, "kinds": kinds,
        "most_seconds": measured.most_seconds, "most_bytes": measured.most_bytes,
    });
    survived.failures.extend(claim.failures);
    let mut misspellings = TortureClaim::new("what a misspelt key was meant to be, in 95 of 100");
    let enough = seen_through.1 == 0 || seen_through.0 as f64 >= SEEN_THROUGH * seen_through.1 as f64;
    misspellings.tried = seen_through.1.max(1);
    misspellings.held = if enough { misspellings.tried } else { seen_through.0 };
    misspellings.seen = serde_json::json!({ "seen_through": seen_through.0, "misspelt": seen_through.1 });
    missed.truncate(super::TOLD);
    misspellings.failures = missed;
    Ok(vec![whole, survived, misspellings])
}
fn shuffle(cases: &mut [Case], seed: u64) {
    let mut draw = CaseDraw(seed);
    for k in (1..cases.len()).rev() {
        cases.swap(k, draw.below(k as u64 + 1) as usize);
    }
}
fn attempt(program: &Path, subject: &KeySubject, text: &str, verb: &[&str], measured: &mut Measured) -> Result<Outcome, String> {
    let file = subject.folder.join(subjects::FILE);
    fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    measured.run(program, &subject.folder, verb)
}

/// What is wrong with how the program took a case.
fn judge(case: &Case, outcome: &Outcome, seconds: f64) -> Result<(), String> {
    if let Some(how) = outcome.crashed() {
        return Err(format!("{how}: {}", outcome.stderr));
    }
    if outcome.seconds > seconds {
        return Err(format!("{:.1} s of the processor", outcome.seconds));
    }
    if outcome.bytes > BYTES {
        return Err(format!("{} MB", outcome.bytes / 1_000_000));
    }
    let document: serde_json::Value =
        serde_json::from_str(&outcome.stdout).map_err(|e| format!("stdout is not one JSON document: {e}: {:?}", outcome.stdout))?;
    // A loss that is no number is no matter of the description: that is what a learning rate of 10^9 does.
    if matches!(outcome.code, Some(0 | 3)) {
        return Ok(());
    }
    let told = outcome::messages(&document);
    if told.is_empty() {
        return Err(format!("a refusal without a message: {document}"));
    }
    let names = |message: &String| {
        let line = message.strip_prefix(&format!("{}:", subjects::FILE)).and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
        line.is_some_and(|line| line >= 1 && line <= case.text.lines().count()) && case.is_named_by(message)
    };
    if told.iter().any(names) { Ok(()) } else { Err(format!("names no line or not the key: {told:?}")) }
}
/// Whether the program saw what a misspelt key was meant to be; none where nothing was misspelt.
fn meant(case: &Case, outcome: &Outcome) -> Option<bool> {
    let Wrong::Spelling(_) = &case.wrong else { return None };
    let meant = format!("did you mean `{}`?", case.path.last().cloned().unwrap_or_default());
    Some(outcome.told().contains(&meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(wrong: Wrong) -> Case {
        Case { subject: 0, path: vec!["optimizer".into(), "lr".into()], wrong, text: "epochs = 1\n[optimizer]\nlr = -1\n".into() }
    }
    fn good() -> Outcome {
        let message = format!("{}:3: `optimizer.lr`: it must be a number from 0 on", subjects::FILE);
        let stdout = serde_json::json!({ "error": { "message": message } }).to_string();
        Outcome { code: Some(4), signal: None, stdout, stderr: String::new(), seconds: 0.1, bytes: 1 << 20 }
    }
    #[test]
    fn a_fault_of_the_program_that_is_let_pass() {
        let value = || case(Wrong::Value("-1".into()));
        assert_eq!(judge(&value(), &good(), 2.0), Ok(()));
        let says = |message: &str| serde_json::json!({ "error": { "message": message } }).to_string();
        let file = subjects::FILE;
        let planted = [
            ("a panic", Outcome { code: Some(101), ..good() }),
            ("an abort", Outcome { code: None, signal: Some(6), ..good() }),
            ("an abort that a shell tells", Outcome { code: Some(134), ..good() }),
            ("too long", Outcome { seconds: 2.5, ..good() }),
            ("too large", Outcome { bytes: 300_000_000, ..good() }),
            ("no document", Outcome { stdout: String::new(), ..good() }),
            ("two documents", Outcome { stdout: format!("{0}\n{0}", good().stdout), ..good() }),
            ("no message", Outcome { stdout: "{}".into(), ..good() }),
            ("no line", Outcome { stdout: says("`optimizer.lr`: it is wrong"), ..good() }),
            ("a line that is not there", Outcome { stdout: says(&format!("{file}:99: `optimizer.lr`: it is wrong")), ..good() }),
            ("no key", Outcome { stdout: says(&format!("{file}:3: something is wrong")), ..good() }),
            ("another key", Outcome { stdout: says(&format!("{file}:1: `epochs`: it is wrong")), ..good() }),
        ];
        for (what, outcome) in planted {
            assert!(judge(&value(), &outcome, 2.0).is_err(), "{what}");
        }
        assert_eq!(judge(&value(), &Outcome { code: Some(0), ..good() }, 2.0), Ok(()), "what is accepted need not name anything");
    }
    #[test]
    fn a_suggestion_that_is_wrong_and_counts() {
        let misspelt = || case(Wrong::Spelling("lrr".into()));
        let says = |message: &str| Outcome { stdout: serde_json::json!({ "error": { "message": message } }).to_string(), ..good() };
        assert_eq!(meant(&misspelt(), &says("x.toml:3: unknown key `optimizer.lrr`; did you mean `lr`?")), Some(true));
        assert_eq!(meant(&misspelt(), &says("x.toml:3: unknown key `optimizer.lrr`; did you mean `betas`?")), Some(false));
        assert_eq!(meant(&misspelt(), &says("x.toml:2: `optimizer.lr` is missing")), Some(false));
        assert_eq!(meant(&case(Wrong::Absent), &good()), None);
    }
}
