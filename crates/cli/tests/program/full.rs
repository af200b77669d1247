//! A disk on which files cannot grow beyond some length, as the system's own limit on file sizes makes it; and file systems that
//! have few bytes or few names, mounted for one command.

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
fn a_run_that_stops_for_space_and_does_not_come_to_the_same_end() {
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

/// The program under `arguments`, in a folder where `small` is a file system with those options; once more, with space for all, where
/// it did not come to its end. What it says stands in `said-0` and `said-1`, how it ended in `code-0` and `code-1`, its run in
/// `kept`. False where this user may not mount anything.
#[cfg(target_os = "linux")]
fn within(folder: &Path, options: &str, arguments: &str) -> bool {
    let script = format!(
        "mount -t tmpfs -o {options} tmpfs small || exit 77\n\
         for k in 0 1; do\n\
         \"$1\" train run.toml --json --resume auto {arguments} >said-$k 2>told-$k; echo $? >code-$k\n\
         [ $(cat code-$k) = 0 ] && break\n\
         mount -o remount,size=64m,nr_inodes=1000 tmpfs small\n\
         done\n\
         rm -rf kept; cp -r small/run kept"
    );
    fs::create_dir_all(folder.join("small")).unwrap();
    let mut command = Command::new("unshare");
    command.current_dir(folder).env("ADAMANT_DEVICE", "reference").args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    let done = command.arg(env!("CARGO_BIN_EXE_adamant")).output();
    match done {
        Ok(output) if output.status.code() != Some(77) && folder.join("code-0").exists() => true,
        Ok(output) => {
            eprintln!("SKIPPED: no file system of its own: {}", err(&output));
            false
        }
        Err(e) => {
            eprintln!("SKIPPED: unshare: {e}");
            false
        }
    }
}
/// What a command left in a file.
#[cfg(target_os = "linux")]
fn left(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default().trim().to_string()
}
#[cfg(target_os = "linux")]
const TINY: &str = "--run small/run --set epochs=4 --set checkpoint.every=4 --set checkpoint.last=1";

/// Names that are used up are no bytes that are.
#[test]
#[cfg(target_os = "linux")]
fn a_file_system_without_names_that_is_called_full_of_bytes() {
    let mut wrong = super::Wrong::default();
    let folder = folder();
    let at = folder.path();
    let (mut lacking, mut whole) = (0, Vec::new());
    for inodes in (2..44).step_by(3).rev() {
        if !within(at, &format!("size=64m,nr_inodes={inodes}"), TINY) {
            wrong.unless(true, String::new);
            return;
        }
        let weights = fs::read(at.join("kept/weights.safetensors")).unwrap_or_default();
        if left(at, "code-0") == "0" {
            whole = weights;
            continue;
        }
        lacking += 1;
        let said: serde_json::Value = serde_json::from_str(&left(at, "said-0")).unwrap_or_default();
        let (error, context) = (&said["error"], &said["error"]["context"]);
        let told = error["message"].as_str().is_some_and(|m| m.contains("no inodes are left") && !m.contains("disk is full"));
        let facts =
            (context["free_inodes"].as_u64(), context["free"].as_u64() > Some(1 << 20), context["path"].as_str().is_some_and(|p| p.starts_with("small/")));
        wrong.unless(left(at, "code-0") == "6" && told && facts == (Some(0), true, true), || format!("{inodes} inodes: {} {error}", left(at, "code-0")));
        let again = left(at, "code-1") == "0" && !weights.is_empty() && weights == whole;
        wrong.unless(again, || format!("{inodes} inodes, then enough: {} {}", left(at, "code-1"), left(at, "told-1")));
    }
    wrong.unless(lacking > 3 && !whole.is_empty(), || format!("{lacking} of 14 file systems had too few names"));
}
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_that_does_not_say_what_is_needed_free_or_where() {
    let mut wrong = super::Wrong::default();
    let folder = folder();
    let at = folder.path();
    let check = |wrong: &mut super::Wrong, case: &str, sizes: std::ops::Range<u64>| {
        let said: serde_json::Value = serde_json::from_str(&left(at, "said-0")).unwrap_or_default();
        let (error, context) = (&said["error"], &said["error"]["context"]);
        let (needed, free) = (&context["needed"], context["free"].as_u64());
        let is_needed = needed.is_null() || needed.as_u64().is_some_and(|n| sizes.contains(&n));
        let message = error["message"].as_str().unwrap_or_default();
        let right = message.contains("the disk is full") && !message.contains(" 0 bytes are needed") && is_needed && free.is_some();
        let named = context["path"].as_str().is_some_and(|p| p.starts_with("small/") && message.contains(p)) && context["operation"].is_string();
        wrong.unless(left(at, "code-0") == "6" && right && named, || format!("{case}: {} {error}", left(at, "code-0")));
    };
    let mut full = 0;
    for pages in (1..40).step_by(2) {
        if !within(at, &format!("size={}k", 4 * pages), TINY) {
            wrong.unless(true, String::new);
            return;
        }
        if left(at, "code-0") != "0" {
            full += 1;
            check(&mut wrong, &format!("{pages} pages"), 1..1 << 20);
            wrong.unless(left(at, "code-1") == "0", || format!("{pages} pages, then enough: {}", left(at, "told-1")));
        }
    }
    wrong.unless(full > 3, || format!("{full} of 20 disks were full"));
    // Weights at a place of their own, of which is known how long they are.
    let wide = "--run run --set weights=small/w.safetensors --set model.layers.0.out_features=4000 --set model.layers.2.in_features=4000";
    if within(at, "size=16k", wide) {
        check(&mut wrong, "weights", 80_000..81_000);
    }
}
