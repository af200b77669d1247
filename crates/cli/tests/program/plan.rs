//! `plan`: what a run would cost on so many ranks.
use super::{adamant, err, folder, out};
use serde_json::Value;
use std::{fs, time::Instant};

/// Layers that can be cut, and data that are made up.
const PAIRS: &str = r#"
seed = 1
iterations = 4
batch = 64
[data]
kind = "permutation"
classes = 16
rows = 128
[model]
layers = [
    { name = "table", kind = "Embedding", num_embeddings = 16, embedding_dim = 16 },
    { name = "in", kind = "Linear", in_features = 16, out_features = 32 },
    { kind = "ReLU" },
    { name = "out", kind = "Linear", in_features = 32, out_features = 16 },
]
[optimizer]
kind = "AdamW"
lr = 0.01
"#;
fn pairs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("run.toml"), PAIRS).unwrap();
    folder
}
fn document(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {} {}", out(output), err(output)))
}

#[test]
fn a_thousand_ranks_that_take_too_long_or_a_way_that_is_missing() {
    let folder = pairs();
    let begun = Instant::now();
    let found = adamant(folder.path(), &["plan", "run.toml", "--ranks", "1..1024", "--scaling", "weak", "--json"]);
    assert!(found.status.success(), "{}", err(&found));
    // Not how fast it is, but that it does not grow with the ranks: a simulation of each would take hours.
    assert!(begun.elapsed().as_secs() < 60);
    let told = document(&found);
    assert_eq!((&told["schema_version"], &told["scaling"], &told["rows"]), (&1.into(), &"weak".into(), &64.into()), "{told}");
    assert!(told["cluster"]["from"].as_str().unwrap().contains("assumed, not measured"));
    let meshes = told["meshes"].as_array().unwrap();
    for n in (0..=10).map(|k| 1u64 << k) {
        let of = |key: &str, value: u64| meshes.iter().any(|m| m["ranks"] == n && m[key] == value);
        assert!(of("data", n) && (n < 2 || (of("zero", 3) && of("tensor", 2) && of("pipeline", 2))), "{n} ranks");
    }
    for m in meshes {
        let product = ["data", "pipeline", "tensor"].iter().map(|axis| m[*axis].as_u64().unwrap()).product::<u64>();
        assert_eq!(m["ranks"], product);
        assert!(m["weak"]["step_seconds"].as_f64() > Some(0.0) || m["weak"]["infeasible"].is_string(), "{m}");
    }
    // One rank has all rows, and nothing to wait for.
    let alone = meshes.iter().find(|m| m["ranks"] == 1).unwrap();
    assert_eq!((&alone["weak_efficiency"], &alone["strong"]["bytes_sent"], &alone["strong"]["exposed_seconds"]), (&1.0.into(), &0.0.into(), &0.0.into()));
    let listed = adamant(folder.path(), &["plan", "run.toml", "--ranks", "3..9,5", "--json"]);
    let counts: Vec<u64> = document(&listed)["meshes"].as_array().unwrap().iter().map(|m| m["ranks"].as_u64().unwrap()).collect();
    assert_eq!(counts.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>(), [3, 4, 5, 8, 9]);
}
/// What is printed is what `train` reads, and what a person is told.
#[test]
fn a_best_way_that_train_refuses() {
    let folder = pairs();
    let at = folder.path();
    // A cluster on which stages and pieces are hopeless: messages within a step cost a second.
    fs::write(at.join("cluster.toml"), "hosts = 1\ndevices = 4\n[inside]\nalpha = \"0us\"\nbeta = \"1MB/s\"\n").unwrap();
    let found = adamant(at, &["plan", "run.toml", "--ranks", "1..4", "--cluster", "cluster.toml", "--set", "distributed.compress=bf16"]);
    assert!(found.status.success(), "{}", err(&found));
    let text = out(&found);
    for word in ["cluster: cluster.toml", "ranks", "mesh", "step", "exposed", "bubble", "memory", "strong", "weak", "data 4", "best: "] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
    let json = document(&adamant(at, &["plan", "run.toml", "--ranks", "4", "--cluster", "cluster.toml", "--set", "distributed.compress=bf16", "--json"]));
    let table = json["best"]["distributed"].as_str().unwrap_or_default();
    fs::write(at.join("shared.toml"), format!("{PAIRS}\n{table}")).unwrap();
    let ran = adamant(at, &["launch", "-n", "4", "--", "adamant", "train", "shared.toml", "--run", "shared", "--quiet", "--no-control"]);
    let refused = err(&ran);
    assert!(table.contains("compress = \"bf16\"") && (ran.status.success() || cfg!(not(target_os = "linux"))), "{table}\n{refused}");
}
#[test]
fn a_measurement_that_is_not_taken() {
    let folder = pairs();
    let found = adamant(folder.path(), &["plan", "run.toml", "--ranks", "1,2", "--measure", "--steps", "2", "--json"]);
    assert!(found.status.success(), "{}", err(&found));
    let told = document(&found);
    assert_eq!(told["cluster"]["from"], "cluster: this machine, measured");
    let alone = &told["meshes"][0]["strong"];
    assert!(alone["step_seconds"].as_f64() > Some(0.0) && alone["memory_bytes"].as_f64() > Some(16.0 * 1072.0), "{alone}");
}
#[test]
fn a_command_line_that_says_nothing_of_what_is_wrong() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("bad.toml"), "hosts = 2\n[between]\nalpha = \"100\"\n").unwrap();
    for (arguments, code, text) in [
        (&["--ranks", "0"][..], 2, "--ranks 0: `0` is no number of ranks"),
        (&["--ranks", "8..2"], 2, "8..2 has no ranks in it"),
        (&["--ranks", "x"], 2, "write 4, 2,4,8 or 1..1024"),
        (&["--ranks", "9999999"], 2, "from 1 to 1048576"),
        (&[], 2, "--ranks"),
        (&["--ranks", "2", "--cluster", "none.toml"], 4, "none.toml"),
        (&["--ranks", "2", "--cluster", "bad.toml"], 4, "bad.toml:3: "),
        (&["--ranks", "2", "--cluster", "bad.toml", "--measure"], 2, "--measure"),
        (&["--ranks", "2", "--cpu"], 2, "--measure"),
        (&["--ranks", "2", "--measure", "--steps", "0"], 2, "--steps"),
        (&["--ranks", "2", "--steps", "3"], 2, "--measure"),
        (&["--ranks", "2", "--set", "distributed.zero=7"], 2, "zero"),
    ] {
        let refused = adamant(at, &[&["plan", "run.toml"], arguments].concat());
        assert!(refused.status.code() == Some(code) && err(&refused).contains(text), "{arguments:?}: {:?} {}", refused.status.code(), err(&refused));
    }
    // Nothing fits, which is an answer, with the reason.
    fs::write(at.join("small.toml"), "memory = \"100B\"\n").unwrap();
    let found = adamant(at, &["plan", "run.toml", "--ranks", "1,2", "--cluster", "small.toml"]);
    assert!(found.status.success() && out(&found).contains("memory: a rank needs ") && out(&found).contains("none of them can be"), "{}", out(&found));
}
