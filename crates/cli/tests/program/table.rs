//! Every verb under every condition that a table can hold: one JSON document, a code that the kind goes with, no panic, nothing of
//! our sources in what is said, no order to the terminal.

use super::{Wrong, adamant, command, err, folder, out};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Output, Stdio},
};

const VERBS: [&str; 13] = ["train", "bench", "eval", "predict", "generate", "summary", "info", "config", "report", "suggest", "completions", "launch", "plan"];
/// What has a code has a kind.
const KINDS: [(i64, &str); 8] = [(1, "run"), (2, "usage"), (3, "diverged"), (4, "input"), (5, "memory"), (6, "storage"), (9, "device"), (130, "interrupted")];

/// Of a command that failed: what holds of all of them.
fn check(arguments: &[&str], output: &Output) -> Value {
    let (text, errors) = (out(output), err(output));
    for said in [&text, &errors] {
        let leak = ["crates/", ".rs:", "panicked", "RUST_BACKTRACE"].iter().find(|leak| said.contains(**leak));
        assert!(leak.is_none(), "{arguments:?}: {leak:?} in {said}");
        let order = said.chars().find(|c| c.is_control() && *c != '\n' && *c != '\t');
        assert!(order.is_none(), "{arguments:?}: {order:?} in {said:?}");
        assert!(said.len() < 20_000, "{arguments:?}: {} bytes are said", said.len());
    }
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|e| unreachable!("{arguments:?}: {e}: {text:?} {errors}"));
    let error = &document["error"];
    let code = error["code"].as_i64();
    assert_eq!(code, output.status.code().map(i64::from), "{arguments:?}: {document}");
    assert!(KINDS.iter().any(|(c, kind)| code == Some(*c) && error["kind"] == *kind), "{arguments:?}: {document}");
    assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()) && error["context"].is_object(), "{arguments:?}: {document}");
    document
}

#[test]
fn a_command_line_that_is_refused_without_a_document() {
    let folder = folder();
    let verbs = VERBS.iter().flat_map(|verb| {
        let bogus = vec![*verb, "--bogus", "--json"];
        [bogus, vec!["--json", *verb, "--bogus"], vec![*verb, "--json", "--set"], vec![*verb, "a", "b", "c", "--threads=x", "--json"]]
    });
    let others = [
        vec!["--json"],
        vec!["--bogus", "--json"],
        vec!["--json", "trian", "run.toml"],
        vec!["train", "--json"],
        vec!["eval", "--json"],
        vec!["predict", "r", "--json"],
        vec!["train", "run.toml", "--json", "--json"],
        vec!["train", "run.toml", "--threads", "many", "--json"],
        vec!["train", "run.toml", "--threads=-1", "--json"],
        vec!["train", "run.toml", "--cpu", "--device", "cpu", "--json"],
        vec!["eval", "r", "--part", "all", "--json"],
        vec!["generate", "r", "--tokens", "1e9", "--json"],
        vec!["config", "create", "tables", "--json"],
        vec!["config", "--json"],
        vec!["--json", "config", "create", "tables"],
        vec!["suggest", "--json"],
        vec!["suggest", "--params", "99999999999999999999999", "--json"],
        vec!["completions", "cmd", "--json"],
    ];
    let mut tried = 0;
    for arguments in verbs.chain(others) {
        let output = adamant(folder.path(), &arguments);
        let document = check(&arguments, &output);
        assert_eq!((output.status.code(), document["error"]["kind"].as_str()), (Some(2), Some("usage")), "{arguments:?}");
        assert!(document["error"]["help"].as_str().is_some_and(|h| !h.is_empty()), "{arguments:?}: {document}");
        tried += 1;
    }
    assert!(tried > 60);
    // The same order of words where nothing is wrong.
    let told = adamant(folder.path(), &["--json", "suggest", "--params", "1000"]);
    assert!(told.status.success() && serde_json::from_slice::<Value>(&told.stdout).unwrap()["batch"].is_number());
    assert!(adamant(folder.path(), &["--json", "--help"]).status.success() && adamant(folder.path(), &["--version"]).status.success());
}

/// A table, a run, and what is damaged or in the way.
fn hostile() -> tempfile::TempDir {
    let folder = folder();
    let at = folder.path();
    assert!(adamant(at, &["train", "run.toml", "--quiet", "--run", "r"]).status.success());
    let copy = |name: &str| {
        let (from, to) = (at.join("r"), at.join(name));
        fs::create_dir_all(&to).unwrap();
        for file in ["config.toml", "environment.json", "metrics.jsonl", "weights.safetensors", "task.json", "result.json"] {
            fs::copy(from.join(file), to.join(file)).unwrap();
        }
        to
    };
    fs::write(copy("no-weights").join("weights.safetensors"), "").unwrap();
    fs::write(copy("wide-weights").join("weights.safetensors"), [&8u64.to_le_bytes()[..], b"{\"a\":{}}"].concat()).unwrap();
    fs::write(copy("no-task").join("task.json"), "{").unwrap();
    fs::write(copy("no-config").join("config.toml"), "\u{1b}[31mx = ").unwrap();
    fs::write(at.join("escape.csv"), "1,\u{1b}[31m2\u{1b}]0;owned\u{7},0\n").unwrap();
    fs::write(at.join("long.csv"), format!("1,{},0\n", "9x".repeat(3 << 20))).unwrap();
    fs::write(at.join("long.toml"), format!("{} = 1\n", "k".repeat(1 << 20))).unwrap();
    fs::write(at.join("escape.toml"), "\"\\u001b[31m\" = 1\n[data]\nkind = \"\\u001b]0;owned\\u0007\"\n").unwrap();
    fs::write(at.join("file"), "").unwrap();
    folder
}
#[test]
fn a_verb_that_fails_otherwise_than_the_others() {
    let folder = hostile();
    let at = folder.path();
    let mut cases: Vec<Vec<&str>> = Vec::new();
    // Every verb that takes a description, on everything that is none.
    for description in ["nowhere.toml", "file", "r", "escape.toml", "long.toml", "points.csv", "/dev/null", "", "r/weights.safetensors"] {
        cases.extend([vec!["train", description], vec!["train", description, "--dry-run"], vec!["summary", description]]);
        // A run is measured too.
        cases.extend((description != "r").then(|| vec!["bench", description]));
    }
    // Every verb that takes a run, on everything that is none.
    for run in ["nowhere", "file", ".", "no-weights", "wide-weights", "no-task", "no-config", "", "/proc/self"] {
        cases.extend([
            vec!["eval", run],
            vec!["predict", run, "points.csv"],
            vec!["generate", run],
            vec!["train", "run.toml", "--resume", run, "--set", "batch=0"],
        ]);
    }
    for data in ["nowhere.csv", "escape.csv", "long.csv", "file", ".", "r/weights.safetensors", "/dev/null", ""] {
        cases.push(vec!["predict", "r", data]);
    }
    for (key, values) in [
        ("data.path", ["nowhere.csv", "escape.csv", "long.csv", "file", "."]),
        ("weights", ["nowhere/w", ".", "file/w", "r", "/proc/w"]),
        ("optimizer.kind", ["none", "3", "[]", "\"\\u001b[31m\"", "{}"]),
        ("optimizer.lr", ["nan", "inf", "-1", "\"x\"", "1e400"]),
        ("model.layers.0.out_features", ["3", "-1", "0.5", "\"x\"", "99999999999999"]),
    ] {
        for value in values {
            let set: &'static str = Box::leak(format!("{key}={value}").into_boxed_str());
            cases.push(vec!["train", "run.toml", "--set", set]);
        }
    }
    for (option, paths) in [
        ("--trace", ["nowhere/t", "r", "", "/dev/full/x"]),
        ("--folded", ["nowhere/t", "r", "", "/dev/full/x"]),
        ("--run", ["file", "file/x", "/proc/x", "/dev/null"]),
    ] {
        for path in paths {
            cases.push(vec!["train", "run.toml", option, path]);
        }
    }
    cases.extend([
        vec!["report", "nowhere"],
        vec!["report", "file"],
        vec!["config", "create", "table", "nowhere/x.toml"],
        vec!["config", "create", "table", "r"],
    ]);
    cases.extend([vec!["train", "run.toml", "--device", "cuda"], vec!["eval", "r", "--part", "valid"], vec!["predict", "r", "points.csv", "--batch", "0"]]);
    assert!(cases.len() > 110, "{}", cases.len());
    let runs = || fs::read_dir(at.join("runs")).map_or(0, Iterator::count);
    let mut failed = 0;
    for case in &cases {
        let arguments: Vec<&str> = case.iter().copied().chain(["--json"]).collect();
        let output = adamant(at, &arguments);
        // What a system takes (a description that is empty but for its name) is nobody's fault.
        assert!(!output.status.success(), "{arguments:?}: {}", out(&output));
        check(&arguments, &output);
        failed += 1;
        assert_eq!(runs(), 0, "{arguments:?} left a run folder");
    }
    assert_eq!(failed, cases.len());
}
#[test]
fn a_trace_or_weights_that_cannot_be_written_and_cost_a_training() {
    let mut wrong = Wrong::default();
    let folder = folder();
    for arguments in
        [&["--trace", "none/t"][..], &["--folded", "none/t"], &["--run", "run.toml"], &["--set", "weights=none/w"], &["--set", "weights=none/w", "--dry-run"]]
    {
        let output = command(folder.path(), &["train", "run.toml"]).args(arguments).output().unwrap();
        // The place of a value is said where it is one of the description.
        let code = if arguments.contains(&"weights=none/w") { 2 } else { 6 };
        let said = out(&output) + &err(&output);
        let right = output.status.code() == Some(code) && !said.contains("epoch ") && !said.contains("help:");
        wrong.unless(right, || format!("{arguments:?}: {:?} {said}", output.status));
    }
    assert!(!folder.path().join("runs").exists() || fs::read_dir(folder.path().join("runs")).unwrap().count() == 0);
}
#[test]
#[cfg(target_os = "linux")]
fn advice_that_goes_with_another_verb() {
    let folder = hostile();
    let full = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    for arguments in [
        &["info"][..],
        &["summary", "run.toml"],
        &["eval", "r"],
        &["predict", "r", "wide.csv"],
        &["suggest", "--params", "5"],
        &["completions", "bash"],
        &["--help"],
        &["--version"],
    ] {
        fs::write(folder.path().join("wide.csv"), "1,2\n").unwrap();
        let output = command(folder.path(), arguments).stdout(full()).output().unwrap();
        let text = err(&output);
        assert_eq!(output.status.code(), Some(6), "{arguments:?}: {text}");
        assert!(text.contains("cannot write to stdout: the disk is full") && !text.contains("--resume"), "{arguments:?}: {text}");
    }
}
#[test]
fn a_storage_failure_that_a_program_cannot_act_on() {
    let folder = folder();
    let told = |arguments: &[&str]| -> Value { serde_json::from_slice(&adamant(folder.path(), arguments).stdout).unwrap() };
    let error = told(&["train", "run.toml", "--json", "--trace", "none/w"])["error"].clone();
    assert_eq!((error["context"]["path"].as_str(), error["context"]["operation"].as_str()), (Some("none/w"), Some("write")), "{error}");
}
/// Warnings and answers, too.
#[test]
fn a_name_in_a_file_that_orders_the_terminal_about() {
    let folder = folder();
    let at: &Path = folder.path();
    assert!(adamant(at, &["train", "run.toml", "--quiet", "--run", "r"]).status.success());
    fs::write(at.join("r/task.json"), "{\"kind\":\"classes\",\"classes\":[\"\\u001b[31mone\\u0007\",\"\\u009b31mtwo\"]}").unwrap();
    fs::write(at.join("new.csv"), "1,2\n0,0\n").unwrap();
    for arguments in [&["predict", "r", "new.csv"][..], &["predict", "r", "new.csv", "--json"]] {
        let output = adamant(at, arguments);
        assert!(output.status.success(), "{}", err(&output));
        assert!(!out(&output).chars().any(|c| c.is_control() && c != '\n'), "{:?}", out(&output));
    }
}
