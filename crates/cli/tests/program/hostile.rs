//! What a user can get wrong, and what a machine can do to a command: a typed exit code, a message that says where, no panic.

use super::{command, err};
use std::{
    fs,
    process::{Output, Stdio},
};

fn folder() -> tempfile::TempDir {
    let folder = super::folder();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    put("not-utf8.toml", b"\xff\xfe = 1");
    put("empty.toml", b"");
    put("torn.toml", b"epochs = 2\n[data\n");
    put("twice.toml", b"epochs = 2\nepochs = 3\n");
    put("date.toml", b"epochs = 2024-01-01\n");
    put("letters.csv", b"1,2,x\n");
    put("ragged.csv", b"1,2,0\n1,2\n");
    put("classes.csv", b"1,2,7\n1,2,7\n1,1,1\n1,1,1\n");
    put("none.csv", b"");
    put("false.csv.gz", b"hello");
    put("wide.csv", b"1,2,3,4\n");
    put("file", b"x");
    fs::create_dir(folder.path().join("folder.toml")).unwrap();
    folder
}
fn told(output: &Output) -> String {
    let text = err(output);
    assert!(!text.contains("panicked") && output.status.code() != Some(101) && output.status.code() != Some(134), "{text}");
    text
}

#[test]
fn an_input_that_is_taken_silently_or_refused_without_saying_where() {
    let folder = folder();
    let at = folder.path();
    assert!(command(at, &["train", "run.toml", "--run", "good", "--quiet"]).output().unwrap().status.success());
    let cases: &[(&[&str], i32, &str)] = &[
        (&["train", "not-utf8.toml"], 4, "not-utf8.toml:1: byte 0 is no UTF-8"),
        (&["train", "empty.toml"], 4, "empty.toml:1: `epochs` is missing"),
        (&["train", "torn.toml"], 4, "torn.toml:2: "),
        (&["train", "twice.toml"], 4, "twice.toml:2: "),
        (&["train", "date.toml"], 4, "date.toml:1: "),
        (&["train", "folder.toml"], 4, "folder.toml: "),
        (&["train", "run.toml", "--set", "data.path=nowhere.csv"], 2, "`data.path`: nowhere.csv: No such file"),
        (&["train", "run.toml", "--set", "data.path=."], 4, "error: "),
        (&["train", "run.toml", "--set", "data.path=letters.csv"], 4, "`data.label`: there is no column `2`"),
        (&["train", "run.toml", "--set", "data.path=ragged.csv"], 4, "row 2 (line 2): 2 fields, and 3 were expected"),
        (&["train", "run.toml", "--set", "data.path=classes.csv"], 4, "row 1 (line 1), column `2`: 7 is none of 2 classes"),
        (&["train", "run.toml", "--set", "data.path=none.csv"], 4, "there is no column `2` among 0"),
        (&["train", "run.toml", "--set", "data.path=false.csv.gz"], 4, "false.csv.gz: "),
        (&["train", "run.toml", "--set", "model.layers.0.in_features=3"], 2, "`model.layers.0.in_features`: "),
        (&["train", "run.toml", "--set", "seed=-1"], 2, "not a negative integer"),
        (&["train", "run.toml", "--set", "batch=99999999999999999999"], 2, "is no integer of 64 bits"),
        (&["train", "run.toml", "--set", "optimizer.lr=nan"], 2, "`optimizer.lr` takes a finite number, not NaN"),
        (&["train", "run.toml", "--set", "epochs=0"], 2, "at least one epoch is needed"),
        (&["train", "run.toml", "--set", "iterations=5"], 2, "there is `epochs` too"),
        (&["train", "run.toml", "--set", "data.test.modulo=1"], 4, "no value in the training part"),
        (&["train", "run.toml", "--set", "=3"], 2, "write key=value"),
        (&["train", "run.toml", "--set", "a..b=3"], 2, "write key=value"),
        (&["train", "run.toml", "--set", "model.layers.9.p=1"], 2, "`9` is no element of a list of 3"),
        (&["train", "run.toml", "--set", "model.layers=[]"], 2, "at least one layer"),
        (&["train", "run.toml", "--set", "data.kind=cvs"], 2, "`cvs`"),
        (&["train", "run.toml", "--run", "good"], 2, "good has checkpoints of an earlier run: go on with `--resume auto`"),
        (&["train", "run.toml", "--run", "good", "--resume", "auto", "--set", "optimizer.lr=0.5"], 2, "optimizer.lr changed"),
        (&["train", "run.toml", "--resume", "nowhere"], 4, "nowhere: there is no such run"),
        (&["train", "run.toml", "--run", "file"], 6, "cannot create folder file/checkpoints"),
        (&["train", "run.toml", "--run", "/proc/nowhere"], 6, "cannot create folder /proc/nowhere"),
        (&["eval", "nowhere"], 4, "nowhere/config.toml"),
        (&["eval", "good", "--data", "nowhere"], 4, "nowhere/points.csv"),
        (&["eval", "good", "--part", "valid"], 2, "no validation part"),
        (&["predict", "good", "wide.csv"], 4, "wide.csv: "),
        (&["predict", "good", "nowhere.png"], 4, "nowhere.png"),
        (&["generate", "good"], 2, "only a language model generates"),
        (&["report", "nowhere"], 4, "no run folder"),
        (&["summary", "run.toml", "--input", "3"], 2, "--input 3: "),
        (&["config", "create", "tables"], 2, "table"),
        (&["config", "validate", "nowhere.toml"], 4, "nowhere.toml: "),
    ];
    let mut wrong = Vec::new();
    for (arguments, code, says) in cases {
        let output = command(at, arguments).arg("--json").output().unwrap();
        let text = told(&output);
        if output.status.code() != Some(*code) || !text.contains(says) {
            wrong.push(format!("{arguments:?}: {:?} and not {code}, or without {says:?}: {text}", output.status.code()));
            continue;
        }
        assert!(!text.contains("crates/"), "{arguments:?}: a line of our source says nothing to who uses the program: {text}");
        // The same for a program that reads (what the command line's parser refuses is text alone).
        if text.starts_with("error: ") && !text.contains("For more information") {
            let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(document["error"]["code"].as_i64(), Some(i64::from(*code)), "{document}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
#[test]
fn a_reader_that_leaves_or_a_disk_without_space_that_is_a_panic() {
    let folder = folder();
    let at = folder.path();
    for arguments in [
        &["train", "run.toml", "--json"][..],
        &["train", "run.toml"],
        &["info"],
        &["summary", "run.toml"],
        &["completions", "bash"],
        &["config", "create", "text"],
    ] {
        // A pipe whose reader has gone.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let gone = command(at, arguments).stdout(Stdio::from(writer)).output().unwrap();
        assert_eq!(gone.status.code(), Some(0), "{arguments:?}: {}", told(&gone));
        if cfg!(target_os = "linux") {
            let full = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
            let output = command(at, arguments).stdout(full()).output().unwrap();
            let text = told(&output);
            // A run's results are in its folder; only what was asked for on stdout is missed there.
            let code = if arguments == ["train", "run.toml"] { 0 } else { 6 };
            assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
            let silent = command(at, arguments).stderr(full()).output().unwrap();
            assert_eq!(silent.status.code(), Some(0), "{arguments:?}");
        }
    }
}
#[test]
fn a_path_that_is_not_ascii_or_not_text() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    let place = folder.path().join("дата ü \u{1F980}");
    fs::create_dir(&place).unwrap();
    fs::rename(folder.path().join("points.csv"), place.join("points.csv")).unwrap();
    // A name that is no UTF-8 at all.
    let run = folder.path().join(std::ffi::OsStr::from_bytes(b"l\xe4ufe"));
    let output = command(folder.path(), &["train", "run.toml", "--quiet", "--json"]).arg("--data").arg(&place).arg("--run").arg(&run).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(run.join("report.html").exists() && run.join("weights.safetensors").exists());
    let judged = command(folder.path(), &["eval", "--json"]).arg(&run).arg("--data").arg(&place).output().unwrap();
    assert_eq!(judged.status.code(), Some(0), "{}", told(&judged));
}
#[test]
fn colours_or_a_bar_where_nobody_sees_them() {
    let folder = folder();
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "3"), ("RUST_BACKTRACE", "1")] {
        let output = command(folder.path(), &["train", "run.toml"]).env(name, value).output().unwrap();
        let all = [output.stdout.clone(), output.stderr.clone()].concat();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        assert!(!all.contains(&0x1b) && !all.contains(&b'\r'), "{name}: {}", String::from_utf8_lossy(&all));
    }
}
