//! What A and B of a comparison may be:
//!
//! - `self`: this program; `path/to/program`: another one that has these verbs;
//! - a git revision: its worktree is built under `target/bench/revisions` and kept for the next time;
//! - `records.jsonl`, `baseline:NAME`: a record;
//! - any program with `@isa=avx2,precision=bf16,threads=1,device=cuda:0,NAME=VALUE` behind it: settings and variables of its
//!   environment; `isa=avx2` alone is `self@isa=avx2`.
use super::{Ended, Exit, baseline, ended, out::note, run::is_record};
use crate::{
    child::Subject,
    serve::{PRECISION, STABILITY},
    suite::Suite,
    workload::WorkloadForm,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A side of a comparison.
#[derive(Debug)]
pub enum ComparedOperand {
    /// a program to start
    Program(Box<Subject>),
    /// a file of records
    Record(PathBuf),
}

/// Reads a side; builds a revision if it is one.
///
/// # Errors
/// It is none of the above, or cannot be built.
pub fn operand(text: &str, threads: usize, device: &str, suite: &Suite) -> Result<ComparedOperand, Ended> {
    if let Some(name) = text.strip_prefix("baseline:") {
        return Ok(ComparedOperand::Record(baseline::path(name)?));
    }
    let (target, settings) = match text.split_once('@') {
        // A revision may hold an @ of its own: `HEAD@{1}`.
        Some((target, settings)) if !settings.starts_with('{') => (target, settings),
        None if text.contains('=') && !Path::new(text).exists() => ("self", text),
        _ => (text, ""),
    };
    if is_record(Path::new(target)) {
        return if settings.is_empty() {
            Ok(ComparedOperand::Record(target.into()))
        } else {
            Err((Exit::Usage, format!("{target} is a record: it has no settings")))
        };
    }
    let mut subject = if target == "self" {
        Subject::own(threads, device).map_err(|e| ended(Exit::Failed)(&e))?
    } else if Path::new(target).is_file() {
        let program = fs::canonicalize(target).map_err(|e| ended(Exit::Unreadable)(&format!("{target}: {e}")))?;
        Subject::program(program, threads, device)
    } else {
        Subject::program(build(target, suite)?, threads, device)
    };
    subject.name = text.into();
    for setting in settings.split(',').filter(|s| !s.is_empty()) {
        let (name, value) = setting.split_once('=').ok_or_else(|| (Exit::Usage, format!("`{setting}` is no NAME=VALUE")))?;
        set(&mut subject, name, value)?;
    }
    Ok(ComparedOperand::Program(Box::new(subject)))
}
fn set(subject: &mut Subject, name: &str, value: &str) -> Result<(), Ended> {
    let usage = || (Exit::Usage, format!("`{name}={value}` is no setting"));
    match name {
        "threads" => {
            subject.threads = value.parse::<u16>().ok().filter(|n| *n > 0).ok_or_else(usage)?.into();
            subject.chosen.extend(["threads", "device.threads", "machine.cores"].map(String::from));
        }
        "device" => {
            subject.device = value.into();
            subject.chosen.extend(["device", "device_name"].map(String::from));
        }
        "isa" => {
            subject.variables.push(("ADAMANT_ISA".into(), value.into()));
            subject.chosen.push("device.isa".into());
        }
        PRECISION => {
            chosen_form(subject, WorkloadForm::Precision(super::precision(value).map_err(|said| (Exit::Usage, said))?))?;
            subject.chosen.push(PRECISION.into());
        }
        STABILITY => {
            chosen_form(subject, super::stability(value).map_err(|said| (Exit::Usage, said))?)?;
            subject.chosen.push(STABILITY.into());
        }
        "repeat" => subject.repeat = value.parse::<usize>().ok().filter(|n| *n > 0).ok_or_else(usage)?,
        _ if !is_variable(name) => return Err(usage()),
        _ => subject.variables.push((name.into(), value.into())),
    }
    Ok(())
}
/// A program has one form.
fn chosen_form(subject: &mut Subject, form: WorkloadForm) -> Result<(), Ended> {
    match std::mem::replace(&mut subject.form, form) {
        WorkloadForm::Plain => Ok(()),
        _ => Err((Exit::Usage, format!("`{PRECISION}` and `{STABILITY}` are two forms of a workload; choose one"))),
    }
}
fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The program at a revision, built in a worktree of its own.
fn build(revision: &str, suite: &Suite) -> Result<PathBuf, Ended> {
    let git = |arguments: &[&str]| {
        let out = Command::new("git").args(arguments).output().map_err(|e| (Exit::Failed, format!("git: {e}")))?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
        if out.status.success() { Ok(said(&out.stdout)) } else { Err((Exit::Usage, said(&out.stderr))) }
    };
    // What begins with a dash would be an option of git.
    let commit = if revision.starts_with('-') { None } else { git(&["rev-parse", "--verify", "--quiet", &format!("{revision}^{{commit}}")]).ok() };
    let commit = commit.ok_or_else(|| (Exit::Usage, format!("`{revision}` is neither a program, nor a file of records, nor a git revision")))?;
    let root = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
    let folder = root.join("target/bench/revisions").join(&commit);
    let kept = folder.join(format!("program{}", std::env::consts::EXE_SUFFIX));
    if kept.is_file() {
        return Ok(kept);
    }
    let tree = folder.join("tree");
    if !tree.is_dir() {
        git(&["worktree", "prune"])?;
        git(&["worktree", "add", "--detach", &tree.to_string_lossy(), &commit])?;
    }
    note(format_args!("building {revision} ({commit})"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(&suite.build).args(["--message-format", "json-render-diagnostics"]).current_dir(&tree);
    let out = command.env("CARGO_TARGET_DIR", root.join("target/bench/build")).stderr(Stdio::inherit()).output();
    let out = out.map_err(|e| (Exit::Failed, format!("cargo: {e}")))?;
    let made = String::from_utf8_lossy(&out.stdout).lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    match (out.status.success(), made) {
        (true, Some(program)) => {
            fs::copy(&program, &kept).map_err(|e| (Exit::Failed, format!("{}: {e}", kept.display())))?;
            git(&["worktree", "remove", "--force", &tree.to_string_lossy()])?;
            Ok(kept)
        }
        _ => Err((Exit::Failed, format!("{revision} cannot be built: cargo {}", suite.build.join(" ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::WatchKind;
    use adamant::DType;

    fn suite() -> Suite {
        Suite::new("tested", Vec::new, &["build"])
    }
    fn program(text: &str) -> Subject {
        match operand(text, 2, "cpu", &suite()) {
            Ok(ComparedOperand::Program(subject)) => *subject,
            other => panic!("{other:?}"),
        }
    }
    #[test]
    fn settings_that_are_lost() {
        for text in ["isa=avx2,threads=1,OMP=x=y", "self@isa=avx2,threads=1,OMP=x=y"] {
            let s = program(text);
            assert_eq!((s.threads, s.repeat, &*s.name), (1, 1, text));
            assert_eq!(s.variables, [("ADAMANT_ISA".into(), "avx2".into()), ("OMP".into(), "x=y".into())]);
            assert!(s.chosen.contains(&"threads".into()) && s.chosen.contains(&"device.isa".into()));
        }
        assert_eq!(program("self").threads, 2);
    }
    #[test]
    fn a_precision_that_is_lost_or_not_known() {
        for (name, dtype) in [("f32", DType::F32), ("bf16", DType::BF16), ("f16", DType::F16)] {
            let s = program(&format!("self@isa=avx2,precision={name}"));
            assert_eq!((s.form, s.variables.len()), (WorkloadForm::Precision(dtype), 1));
            assert!(s.chosen.contains(&PRECISION.to_string()));
        }
        assert_eq!(program("self").form, WorkloadForm::Plain);
        for name in ["fp16", "f64", "BF16", ""] {
            let (exit, said) = operand(&format!("self@precision={name}"), 1, "cpu", &suite()).unwrap_err();
            assert_eq!((exit, said), (Exit::Usage, format!("there is no precision `{name}`; there are f32, bf16, f16")));
        }
    }
    #[test]
    fn a_watch_that_is_lost_or_not_known() {
        for kind in WatchKind::ALL {
            let s = program(&format!("self@stability={}", kind.name()));
            assert!(s.form == WorkloadForm::Watched(kind) && s.variables.is_empty() && s.chosen.contains(&STABILITY.to_string()));
        }
        for (text, want) in [
            ("self@stability=all", "there is no watch `all`; there are watch, layers, full"),
            ("self@stability=watch,precision=bf16", "`precision` and `stability` are two forms of a workload; choose one"),
        ] {
            assert_eq!(operand(text, 1, "cpu", &suite()).unwrap_err(), (Exit::Usage, want.to_string()));
        }
    }
    #[test]
    fn an_operand_that_is_none_and_is_started_all_the_same() {
        for text in
            ["self@threads=0", "self@threads", "self@=1", "no-such-revision", "--upload-pack=x", "-x", "self@repeat=0", "a.jsonl@isa=avx2", "baseline:../x"]
        {
            let (exit, said) = operand(text, 1, "cpu", &suite()).unwrap_err();
            assert_eq!(exit, Exit::Usage, "{text}: {said}");
        }
        assert!(matches!(operand("gone.jsonl", 1, "cpu", &suite()), Ok(ComparedOperand::Record(_))));
    }
}
