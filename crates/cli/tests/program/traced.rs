//! `--trace` of ranks that train together: one file of all.
use super::{adamant, command, err, folder};
use serde_json::Value;
use std::{collections::BTreeMap, fs};

const SHORT: &str = r#"
seed = 4
iterations = 12
batch = 8
log_every = 4
[data]
kind = "permutation"
classes = 12
rows = 96
workers = 0
[model]
layers = [
    { kind = "Embedding", num_embeddings = 12, embedding_dim = 8 },
    { kind = "Linear", in_features = 8, out_features = 12 },
]
[optimizer]
kind = "AdamW"
lr = 0.01
"#;
/// The complete events of a trace by process, and the names of its processes.
fn events(text: &str) -> (BTreeMap<u64, Vec<Value>>, BTreeMap<u64, String>) {
    let trace: Value = serde_json::from_str(text).unwrap();
    let (mut spans, mut names) = (BTreeMap::<u64, Vec<Value>>::new(), BTreeMap::new());
    for event in trace["traceEvents"].as_array().unwrap() {
        let pid = event["pid"].as_u64().unwrap();
        match (event["ph"].as_str().unwrap(), event["name"].as_str().unwrap()) {
            ("X", _) => spans.entry(pid).or_default().push(event.clone()),
            ("M", "process_name") => {
                names.insert(pid, event["args"]["name"].as_str().unwrap().to_string());
            }
            _ => {}
        }
    }
    (spans, names)
}
#[test]
fn a_trace_without_a_rank_or_of_clocks_that_differ() {
    let folder = folder();
    fs::write(folder.path().join("short.toml"), SHORT).unwrap();
    for ranks in [1u64, 2, 3] {
        let (count, run, trace) = (ranks.to_string(), format!("run-{ranks}"), format!("trace-{ranks}.json"));
        let train =
            ["adamant", "--trace", &trace, "train", "short.toml", "--run", &run, "--quiet", "--no-control", "--threads", "1", "--set", "distributed.shards=3"];
        let output = command(folder.path(), &[&["launch", "-n", &count, "--max-restarts", "0", "--"], &train[..]].concat());
        let output = { output }.envs([("ADAMANT_LINK", "alpha=2ms"), ("ADAMANT_DEVICE", "cpu")]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        // The bits are those of one rank, over a link or not.
        let weights = |run: &str| fs::read(folder.path().join(run).join("weights.safetensors")).unwrap();
        assert!(weights(&run) == weights("run-1"), "{ranks}");
        let (spans, names) = events(&fs::read_to_string(folder.path().join(&trace)).unwrap());
        if ranks == 1 {
            continue;
        }
        assert_eq!(names, (0..ranks).map(|rank| (rank, format!("rank {rank}"))).collect());
        let number = |event: &Value, key: &str| event[key].as_f64().unwrap();
        let called = |rank: u64| -> Vec<&Value> { spans[&rank].iter().filter(|event| event["cat"] == "collective").collect() };
        for rank in 0..ranks {
            assert!(spans[&rank].iter().all(|event| number(event, "ts") >= 0.0 && number(event, "dur") >= 0.0));
            assert!(spans[&rank].iter().any(|event| event["cat"] != "collective" && event["args"]["flops"].as_u64().is_some()), "no kernels on rank {rank}");
            let numbers: Vec<u64> = called(rank).iter().map(|event| event["args"]["seq"].as_u64().unwrap()).collect();
            assert!(numbers.len() > 12 && numbers.windows(2).all(|two| two[0] < two[1]), "{numbers:?}");
            // Each takes what the link takes.
            let exchanges = |event: &&&Value| event["name"].as_str().is_some_and(|name| name.contains("all_reduce"));
            assert!(called(rank).iter().filter(exchanges).all(|event| number(event, "dur") >= 2000.0 * (ranks - 1) as f64), "rank {rank}");
        }
        // On one clock no call ends on a rank before another has begun it: both are in it at once.
        for (k, first) in called(0).iter().enumerate() {
            for rank in 1..ranks {
                let other = called(rank)[k];
                assert_eq!((&first["name"], &first["args"]["made"]), (&other["name"], &other["args"]["made"]), "call {k} of rank {rank}");
                let ends = |event: &Value| number(event, "ts") + number(event, "dur");
                let slack = 300.0;
                assert!(number(first, "ts") <= ends(other) + slack && number(other, "ts") <= ends(first) + slack, "call {k}: {first} and {other}");
            }
        }
    }
    let output =
        adamant(folder.path(), &["launch", "-n", "2", "--elastic", "1:2", "--max-restarts", "0", "--", "adamant", "--trace", "t.json", "train", "short.toml"]);
    assert!(output.status.code() == Some(2) && err(&output).contains("--trace is of ranks that stay"), "{}", err(&output));
    let output = command(folder.path(), &["launch", "-n", "2", "--max-restarts", "0", "--", "adamant", "train", "short.toml"]);
    let output = { output }.env("ADAMANT_LINK", "beta=0MB/s").output().unwrap();
    assert!(output.status.code() == Some(2) && err(&output).contains("ADAMANT_LINK is `beta=0MB/s`"), "{}", err(&output));
}
