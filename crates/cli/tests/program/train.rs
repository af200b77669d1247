//! The command from outside: exit codes, the JSON line, and weights under PyTorch's names.

use super::{adamant, command, err, folder, out};
use adamant_formats::safetensors::SafeTensors;
use std::{path::Path, process::Output};

#[test]
fn a_last_line_that_is_no_document() {
    let folder = folder();
    let output = adamant(folder.path(), &["train", "run.toml", "--json", "--set", "weights=w.safetensors"]);
    let (out, err) = (out(&output), err(&output));
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
    // Each run has a folder of its own.
    for name in ["runs/run-1/report.html", "runs/run-2/weights.safetensors", "runs/run-2/metrics.jsonl"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
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
        (&["train", "run.toml", "--set", "optimizer.lr=1e38", "--set", "epochs=50"], 3, "diverged"),
    ] {
        let output = adamant(folder.path(), arguments);
        let err = err(&output);
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
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/digits.toml").canonicalize().unwrap();
    let results: Vec<[Vec<u8>; 2]> = ["1", "2", "4", "8"]
        .iter()
        .map(|threads| {
            let run = folder.path().join(threads);
            let arguments = ["train", "--quiet", "--device", "cpu", "--set", "epochs=1", "--threads", threads, "--run"];
            let output = command(folder.path(), &arguments).args([&run, &digits]).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", err(&output));
            ["weights.safetensors", "metrics.jsonl"].map(|name| std::fs::read(run.join(name)).unwrap())
        })
        .collect();
    assert!(results[0][0].len() > 151_306 * 4);
    assert!(results.windows(2).all(|w| w[0] == w[1]));
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| unreachable!("{e}: {} {}", out(output), err(output)))
}
#[test]
fn a_failure_that_a_program_cannot_read() {
    let folder = folder();
    let output = adamant(folder.path(), &["train", "run.toml", "--json", "--set", "optimizer.lr=1e38", "--set", "epochs=50"]);
    let error = &json(&output)["error"];
    assert_eq!((error["code"].as_u64(), error["kind"].as_str(), output.status.code()), (Some(3), Some("diverged"), Some(3)));
    assert!(error["help"].as_str().unwrap().contains("learning rate") && error["message"].as_str().unwrap().contains("step"), "{error}");
}
#[test]
fn a_trained_model_that_cannot_be_used() {
    let folder = folder();
    assert_eq!(adamant(folder.path(), &["train", "run.toml", "--quiet", "--run", "r"]).status.code(), Some(0));
    let trained = json(&adamant(folder.path(), &["train", "run.toml", "--quiet", "--json", "--run", "r", "--resume", "auto"]));
    let judged = json(&adamant(folder.path(), &["eval", "r", "--json"]));
    assert_eq!(judged["accuracy"], trained["metrics"]["test"]["accuracy"]);
    assert_eq!(judged["rows"], 4);
    std::fs::write(folder.path().join("new.csv"), "1,2\n3,0\n4,1\n").unwrap();
    let answers = json(&adamant(folder.path(), &["predict", "r", "new.csv", "--json", "--batch", "2"]));
    assert_eq!(answers.as_array().unwrap().len(), 3);
    let sum: f64 = answers[2]["probabilities"].as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-6 && answers[2]["row"] == 3);
    // Answers are counted as refusals are, and a line that is taken for names is told.
    let says = |text: &str, says: &str| {
        std::fs::write(folder.path().join("said.csv"), text).unwrap();
        let output = adamant(folder.path(), &["predict", "r", "said.csv"]);
        let said = [&output.stdout[..], &output.stderr].concat();
        assert!(String::from_utf8_lossy(&said).contains(says), "{text:?}: {}", String::from_utf8_lossy(&said));
    };
    says("1,2\n3,0\n", "said.csv:2  ");
    says("1,2\n3,x\n", "said.csv: row 2 (line 2)");
    says("a,b\n3,0\n4,1\n", "said.csv: its first line is taken for the names of the columns");
    for (arguments, code, says) in [
        (&["predict", "r", "gone.csv"][..], 4, "gone.csv"),
        (&["eval", "nowhere"], 4, "nowhere"),
        (&["eval", "r", "--part", "valid"], 2, "no validation part"),
        (&["generate", "r"], 2, "language model"),
        (&["report", "nowhere"], 4, "nowhere"),
    ] {
        let output = adamant(folder.path(), arguments);
        let err = err(&output);
        assert!(output.status.code() == Some(code) && err.contains(says), "{arguments:?}: {:?} {err}", output.status);
    }
}
#[test]
fn a_language_model_that_does_not_write() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("input.txt"), "the cat sat on the mat. ".repeat(40)).unwrap();
    let text = r#"
iterations = 30
batch = 8
[data]
kind = "text"
context = 8
[model]
layers = [
    { name = "wte", kind = "Embedding", num_embeddings = "$vocabulary", embedding_dim = 16 },
    { name = "wpe", kind = "PositionEmbedding", max_length = 8, features = 16 },
    { kind = "TransformerEncoderLayer", d_model = 16, nhead = 2, dim_feedforward = 32, is_causal = true, norm_first = true, dropout = 0.1 },
    { kind = "Linear", tied = "wte" },
]
[optimizer]
kind = "Adam"
lr = 0.01
"#;
    std::fs::write(folder.path().join("gpt.toml"), text).unwrap();
    assert_eq!(adamant(folder.path(), &["train", "gpt.toml", "--quiet"]).status.code(), Some(0));
    let write = |seed: &str| json(&adamant(folder.path(), &["generate", "runs/gpt-1", "--prompt", "the ", "--tokens", "20", "--seed", seed, "--json"]));
    let written = write("1")["text"].as_str().unwrap().to_string();
    assert_eq!(written.chars().count(), 20);
    assert_eq!(write("1")["text"], written.as_str());
    assert_ne!(write("2")["text"], written.as_str());
    // Within the context and behind it.
    let cached =
        |storage: &str| adamant(folder.path(), &["generate", "runs/gpt-1", "--prompt", "the ", "--tokens", "20", "--seed", "1", "--cache", storage, "--json"]);
    assert_eq!(json(&cached("float"))["text"], written.as_str());
    for storage in ["int8", "int4"] {
        assert_eq!(json(&cached(storage))["text"].as_str().unwrap().chars().count(), 20);
    }
    assert!(cached("int7").status.code() == Some(2));
    let output = adamant(folder.path(), &["generate", "runs/gpt-1", "--prompt", "Zebra", "--tokens", "5"]);
    assert!(output.status.code() == Some(2) && err(&output).contains("'Z'"));
}
#[test]
fn help_without_an_example() {
    let folder = tempfile::tempdir().unwrap();
    for verb in ["train", "eval", "predict", "generate", "summary", "info", "report", "suggest", "completions", "launch", "plan"] {
        let output = adamant(folder.path(), &[verb, "--help"]);
        let text = out(&output);
        assert!(output.status.success() && text.contains(&format!("adamant {verb}")) && text.contains("Example"), "{text}");
    }
    let bash = adamant(folder.path(), &["completions", "bash"]);
    assert!(out(&bash).contains("_adamant"));
}
#[test]
fn an_exit_code_that_the_help_does_not_tell() {
    let folder = tempfile::tempdir().unwrap();
    let help = out(&adamant(folder.path(), &["--help"]));
    let told = help.lines().skip_while(|l| !l.starts_with("Exit codes: ")).collect::<String>();
    for code in ["0", "1", "2", "3", "4", "5", "6", "9", "129", "130", "143", "152"] {
        assert!(told.split(|c: char| !c.is_ascii_digit()).any(|n| n == code), "{code}: {help}");
    }
    for signal in ["SIGHUP", "SIGINT", "SIGTERM", "SIGXCPU"] {
        assert!(told.contains(signal), "{signal}: {help}");
    }
}
/// One file, and each optimizer of the library by the command line.
#[test]
fn a_number_for_one_optimizer_that_ends_a_sweep_over_all() {
    let mut wrong = super::Wrong::default();
    let folder = folder();
    let text = super::RUN.replace("kind = \"SGD\"", "kind = \"AdamW\"\nweight_decay = 0.01\nbetas = [0.9, 0.99]");
    let text = text + "groups = [{ parameters = [\"*.bias\"], weight_decay = 0.0 }]\n";
    std::fs::write(folder.path().join("run.toml"), text).unwrap();
    for kind in adamant_train::OPTIMIZERS {
        let (set, run) = (format!("optimizer.kind={kind}"), format!("r-{kind}"));
        let output = adamant(folder.path(), &["train", "run.toml", "--quiet", "--set", &set, "--run", &run]);
        wrong.ends(kind, &output, 0, if kind == "Rprop" { "`optimizer.weight_decay` is left out: Rprop takes no such number" } else { "" });
        let told = err(&output).matches("is left out").count();
        let takes = ["AdamW", "Adam", "Adamax", "NAdam", "RAdam", "LAMB", "Lion"].contains(&kind);
        wrong.unless((told == 0) == takes, || format!("{kind}: {told} numbers are left out: {}", err(&output)));
        // What ran is what stands in the run, and can be asked.
        wrong.ends(kind, &adamant(folder.path(), &["eval", &run]), 0, "");
    }
    // A misspelling, and a number that the command line itself gives, are no such thing.
    for set in ["optimizer.weight_deca=0.1", "optimizer.weight_decay=0.1"] {
        let output = adamant(folder.path(), &["train", "run.toml", "--quiet", "--set", set, "--set", "optimizer.kind=Rprop"]);
        wrong.ends(set, &output, 2, "unknown key `optimizer.weight_deca");
    }
}
#[test]
fn a_device_of_the_description_that_is_not_opened() {
    let mut wrong = super::Wrong::default();
    let folder = folder();
    let device = |output: &Output| serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_default()["device"].as_str().map(str::to_string);
    std::fs::write(folder.path().join("run.toml"), format!("device = \"cpu\"\n{}", super::RUN)).unwrap();
    let own = adamant(folder.path(), &["train", "run.toml", "--json", "--run", "r"]);
    wrong.unless(device(&own).is_some_and(|d| d.starts_with("cpu")), || format!("{:?} {}", device(&own), err(&own)));
    let other = adamant(folder.path(), &["train", "run.toml", "--json", "--run", "r", "--resume", "auto", "--set", "epochs=3", "--device", "reference"]);
    wrong.unless(device(&other).as_deref() == Some("reference"), || format!("{:?} {}", device(&other), err(&other)));
    for (name, code, says) in [("cuda", 9, "cuda"), ("gpu", 2, "`device`: "), ("3", 2, "`device` takes a text")] {
        wrong.ends(name, &adamant(folder.path(), &["train", "run.toml", "--set", &format!("device={name}")]), code, says);
    }
}
