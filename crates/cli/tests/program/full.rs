//! A disk on which files cannot grow beyond some length, as the system's own limit on file sizes makes it.

use super::{err, folder};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// Sixty epochs, with each step told and a checkpoint at each tenth.
const LONG: [&str; 8] = ["--set", "epochs=60", "--set", "log_every=1", "--set", "checkpoint.every=10", "--set", "checkpoint.last=2"];

/// Trains; with a limit, no file gets longer than 8 blocks of the shell's (4 or 8 KiB), and a write beyond is an error.
fn train(folder: &Path, limited: bool, arguments: &[&str]) -> Output {
    let limit = if limited { "trap '' XFSZ; ulimit -f 8; " } else { "" };
    let mut command = Command::new("sh");
    command.current_dir(folder).env("ADAMANT_DEVICE", "reference").args(["-c", &format!("{limit}exec \"$@\""), "sh"]);
    command.arg(env!("CARGO_BIN_EXE_adamant")).args(["train", "run.toml", "--quiet"]).args(LONG).args(arguments).output().unwrap()
}

#[test]
fn a_log_that_cannot_be_written_and_ends_a_run_that_was_to_go_on() {
    let folder = folder();
    let whole = train(folder.path(), false, &["--run", "whole"]);
    assert_eq!(whole.status.code(), Some(0), "{}", err(&whole));
    let warned = train(folder.path(), true, &["--run", "warned", "--set", "checkpoint.on_error=\"warn\""]);
    let said = err(&warned);
    assert_eq!(warned.status.code(), Some(0), "{said}");
    // Each file once, not each line; and each checkpoint.
    for name in ["metrics.jsonl", "timing.jsonl", "events.out.tfevents", "report.html"] {
        let told = said.lines().filter(|l| l.starts_with("warning: cannot write") && l.contains(name) && l.ends_with("; the run goes on")).count();
        assert!(told == 1 || name == "report.html" && said.contains(name), "{name}: {told} times: {said}");
    }
    assert!(said.contains("no checkpoint: cannot write warned/metrics.jsonl") && said.contains("bytes could not be written"), "{said}");
    let weights = |run: &str| fs::read(folder.path().join(run).join("weights.safetensors")).unwrap();
    assert_eq!(weights("warned"), weights("whole"));
    // What is there is the beginning of what should be, line by line.
    let lines = |run: &str| fs::read_to_string(folder.path().join(run).join("metrics.jsonl")).unwrap();
    let (short, long) = (lines("warned"), lines("whole"));
    assert!(short.ends_with('\n') && short.len() < long.len() && long.starts_with(&short), "{short}");
}
#[test]
fn a_run_that_stops_for_room_and_does_not_come_to_the_same_end() {
    let folder = folder();
    train(folder.path(), false, &["--run", "whole"]);
    let stopped = train(folder.path(), true, &["--run", "stopped", "--json"]);
    assert_eq!(stopped.status.code(), Some(6), "{}", err(&stopped));
    let document: serde_json::Value = serde_json::from_slice(&stopped.stdout).unwrap();
    assert_eq!((document["error"]["code"].as_u64(), document["error"]["kind"].as_str()), (Some(6), Some("storage")));
    assert!(document["error"]["message"].as_str().unwrap().starts_with("cannot write stopped/"), "{document}");
    let resumed = train(folder.path(), false, &["--run", "stopped", "--resume", "auto"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", err(&resumed));
    assert!(err(&resumed).contains("resuming from step "));
    for name in ["weights.safetensors", "metrics.jsonl"] {
        assert_eq!(fs::read(folder.path().join("stopped").join(name)).unwrap(), fs::read(folder.path().join("whole").join(name)).unwrap(), "{name}");
    }
}
