//! `bench peers --calls`, judged by calls of which what is wrong is known. This program stands for PyTorch too: behind a
//! script that starts it, as Python would be.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

const CALLS: [&str; 3] = ["exp", "sin", "tanh"];

fn case(function: &str) -> String {
    let torch = format!("named('{function}', x[0])");
    let input = r#"{"shape":[6,50],"dtype":"f32","layout":"transposed","fill":{"within":[-1.0,1.0]},"seed":1,"leaf":true}"#;
    format!(
        r#"{{"name":"{function}","steps":[{{"function":"Tensor::{function}","torch":"{torch}","args":[{{"input":0}}]}}],"inputs":[{input}],"grad":true,"compared":true}}"#
    )
}
/// What a run says, and its lines of JSON; `plant` is done to this project alone.
fn run(folder: &Path, plant: &str) -> (bool, String, Vec<serde_json::Value>) {
    let program = env!("CARGO_BIN_EXE_xtask");
    let (stub, calls, out) = (folder.join("python"), folder.join("calls.jsonl"), folder.join("out.jsonl"));
    let script = format!("#!/bin/sh\nunset ADAMANT_PEER_CALLS_PLANT\nexport ADAMANT_PEER_CALLS=\"$2\"\nexec '{program}' bench serve --threads 1\n");
    fs::write(&stub, script).unwrap();
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&calls, CALLS.map(case).join("\n")).unwrap();
    let mut command = Command::new(program);
    command.args(["bench", "peers", "--budget", "0.1", "--rounds", "2", "--settle", "0"]).env("ADAMANT_PEER_CALLS_PLANT", plant);
    command.arg("--calls").arg(&calls).arg("--out").arg(&out).arg("--python").arg(&stub);
    let done = command.output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    let lines = fs::read_to_string(&out).unwrap_or_default().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    (done.status.success(), text, lines)
}
#[test]
fn a_wrong_value_that_gets_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let (good, text, lines) = run(folder.path(), "wrong sin");
    assert!(!good && lines.len() == 3, "{text}");
    for line in lines {
        let is_wrong = line["name"] == "sin";
        assert_eq!((line["differs"].as_bool(), line["ratio"].is_null(), line["ours_ns"].is_null()), (Some(is_wrong), is_wrong, is_wrong), "{line}\n{text}");
    }
    assert!(text.contains("DIFFERS") && text.contains("1 differ"), "{text}");
}
#[test]
fn a_slow_function_that_is_not_the_first_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let (good, text, lines) = run(folder.path(), "slow tanh 2000");
    assert!(good && lines.len() == 3 && lines.iter().all(|l| l["worst"] == 0.0), "{text}");
    let table = text.split("by function").nth(1).unwrap();
    assert!(table.lines().nth(1).unwrap().ends_with("Tensor::tanh"), "{text}");
    let worst = text.split("the worst:").nth(1).unwrap();
    assert!(worst.lines().nth(1).unwrap().starts_with("tanh"), "{text}");
    let ratio = |name: &str| lines.iter().find(|l| l["name"] == name).and_then(|l| l["ratio"].as_f64()).unwrap();
    assert!(ratio("tanh") > 3.0 * ratio("exp").max(ratio("sin")), "{text}");
}
