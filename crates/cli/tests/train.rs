//! The command from outside: exit codes, the JSON line, and weights under PyTorch's names.
#![allow(clippy::unwrap_used)]

use adamant_formats::safetensors::SafeTensors;
use std::{
    path::Path,
    process::{Command, Output},
};

const RUN: &str = r#"
seed = 1
epochs = 2
batch = 3
[data]
kind = "csv"
path = "points.csv"
label = 2
classes = 2
test = { divide = 2, modulo = 3, equals = 0 }
[model]
layers = [{ kind = "Linear", in_features = 2, out_features = 4 }, { kind = "Tanh" }, { kind = "Linear", in_features = 4, out_features = 2 }]
[optimizer]
kind = "SGD"
lr = 0.1
"#;

fn adamant(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_adamant")).current_dir(folder).env("ADAMANT_DEVICE", "reference").args(arguments).output().unwrap()
}
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("run.toml"), RUN).unwrap();
    let rows: String = (0..12).map(|k| format!("{},{},{}\n", k % 5, k % 3, k % 2)).collect();
    std::fs::write(folder.path().join("points.csv"), rows).unwrap();
    folder
}
#[test]
fn a_last_line_that_is_no_document() {
    let folder = folder();
    let output = adamant(folder.path(), &["train", "run.toml", "--json", "--set", "weights=w.safetensors"]);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{err}");
    let document: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let accuracy = document["metrics"]["test"]["accuracy"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&accuracy));
    assert_eq!((document["metrics"]["test"]["rows"].as_u64(), document["seed"].as_u64(), document["epochs"].as_u64()), (Some(4), Some(1), Some(2)));
    assert_eq!(document["clip"], "off");
    assert!(document["seconds"].as_f64().unwrap() > 0.0);
    assert!(err.contains("epoch   2/2  loss ") && err.contains("clipping off") && err.contains("test accuracy"), "{err}");
    let mut names = SafeTensors::open(folder.path().join("w.safetensors")).unwrap().names();
    names.sort();
    assert_eq!(names, ["0.bias", "0.weight", "2.bias", "2.weight"]);
    // Without a terminal there is no bar, and quiet says nothing.
    assert!(!err.contains('\u{1b}'));
    let quiet = adamant(folder.path(), &["train", "run.toml", "--quiet"]);
    assert_eq!((quiet.status.code(), quiet.stdout.len(), quiet.stderr.len()), (Some(0), 0, 0));
}
#[test]
fn an_exit_code_that_does_not_tell_what_happened() {
    let folder = folder();
    for (arguments, code, says) in [
        (&["train"][..], 2, "Usage"),
        (&["train", "run.toml", "--no-such-flag"], 2, "--no-such-flag"),
        (&["train", "gone.toml"], 4, "gone.toml"),
        (&["train", "run.toml", "--data", "elsewhere"], 4, "points.csv"),
        (&["train", "run.toml", "--set", "sed=1"], 2, "did you mean `seed`?"),
        (&["train", "run.toml", "--device", "nowhere"], 2, "nowhere"),
        (&["train", "run.toml", "--device", "cuda"], 9, "cuda"),
        (&["train", "run.toml", "--device", "cpu:x"], 2, "cpu:x"),
        (&["train", "run.toml", "--threads", "0"], 2, "--threads"),
        (&["train", "run.toml", "--set", "optimizer.lr=1e38", "--set", "epochs=50"], 1, "diverged"),
    ] {
        let output = adamant(folder.path(), arguments);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
    // Data may lie elsewhere.
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::rename(folder.path().join("points.csv"), elsewhere.join("points.csv")).unwrap();
    assert_eq!(adamant(folder.path(), &["train", "run.toml", "--quiet", "--data", "elsewhere"]).status.code(), Some(0));
}
#[test]
fn weights_that_depend_on_the_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/digits.toml");
    let weights: Vec<Vec<u8>> = ["1", "2", "4", "8"]
        .iter()
        .map(|threads| {
            let path = folder.path().join(threads);
            let set = format!("weights={}", path.display());
            let output = Command::new(env!("CARGO_BIN_EXE_adamant"))
                .args(["train", "--quiet", "--set", "epochs=1", "--set", &set, "--threads", threads])
                .arg(&digits)
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
            std::fs::read(path).unwrap()
        })
        .collect();
    assert!(weights[0].len() > 151_306 * 4);
    assert!(weights.windows(2).all(|w| w[0] == w[1]));
}
