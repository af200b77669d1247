//! Compressed gradients: all ranks hold the same weights, what is not sent is not lost, and a run goes on with what was left over.
#![allow(clippy::unwrap_used)]

mod ranked;

use adamant_backend_cpu as _;
use adamant_train::{Failure, Report};
use std::{fs, path::Path};

const TEXT: &str = r#"
seed = 4
iterations = 60
batch = 24
log_every = 1
checkpoint = { every = 30 }
[data]
kind = "permutation"
classes = 12
rows = 240
workers = 0
[model]
layers = [
    { kind = "Embedding", num_embeddings = 12, embedding_dim = 40 },
    { kind = "Linear", in_features = 40, out_features = 40 },
    { kind = "ReLU" },
    { kind = "Linear", in_features = 40, out_features = 12 },
]
[optimizer]
kind = "SGD"
lr = 0.2
momentum = 0.9
"#;
fn train(ranks: usize, set: &[&str], folder: &Path, stop: Option<u64>) -> Vec<Result<Report, Failure>> {
    ranked::train(TEXT, ranks, &[&["distributed.shards=3"], set].concat(), folder, stop)
}
/// The losses of a run's steps.
fn losses(folder: &Path) -> Vec<f64> {
    let lines = fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.filter(|line| line["kind"] == "step").filter_map(|line| line["loss"].as_f64()).collect()
}
fn ended(ranks: usize, set: &[&str], folder: &Path) -> Vec<f64> {
    train(ranks, set, folder, None).into_iter().for_each(|done| drop(done.unwrap()));
    losses(folder)
}
fn tail(losses: &[f64]) -> f64 {
    losses[losses.len() - 6..].iter().sum::<f64>() / 6.0
}
#[test]
fn a_loss_that_compression_spoils() {
    let place = tempfile::tempdir().unwrap();
    let plain = ended(2, &[], &place.path().join("plain"));
    for (name, set, slack) in [
        ("bf16", vec!["distributed.compress=bf16"], 0.02),
        ("powersgd", vec!["distributed.compress=powersgd", "distributed.compress_rank=4"], 0.5),
        ("topk", vec!["distributed.compress=topk", "distributed.compress_share=0.2"], 0.5),
    ] {
        for ranks in [2, 3] {
            let got = ended(ranks, &set, &place.path().join(format!("{name}-{ranks}")));
            let (first, last) = (plain[0], tail(&got));
            assert!(last < tail(&plain) + slack * first, "{name} on {ranks}: {last}, plain {}", tail(&plain));
            // It is no run without compression.
            assert!(got != plain, "{name} on {ranks} changes nothing");
        }
    }
}
#[test]
fn everything_sent_is_what_would_have_been_sent() {
    let place = tempfile::tempdir().unwrap();
    let plain = ended(2, &["iterations=12"], &place.path().join("plain"));
    let all = ended(2, &["iterations=12", "distributed.compress=topk", "distributed.compress_share=1"], &place.path().join("all"));
    // Sums of two ranks are the same in either order.
    assert!(plain.iter().zip(&all).all(|(a, b)| (a - b).abs() < 1e-5 * a.abs().max(1.0)), "{plain:?}\n{all:?}");
}
#[test]
fn what_was_left_over_is_kept_in_a_checkpoint() {
    let place = tempfile::tempdir().unwrap();
    let topk = ["distributed.compress=topk", "distributed.compress_share=0.05"];
    let at = place.path().join("stopped");
    for done in train(3, &topk, &at, Some(30)) {
        assert!(matches!(done, Err(Failure::Interrupted { step: 30, .. })));
    }
    let errors = at.join("checkpoints").join("step-00000030").join("compressed.safetensors");
    let kept =
        adamant_formats::safetensors::load(&errors).unwrap_or_else(|e| panic!("{e}: {:?}", fs::read_dir(at.join("checkpoints")).unwrap().collect::<Vec<_>>()));
    assert!(kept.iter().any(|(name, t)| name.ends_with(".error") && t.abs().sum(..).item::<f32>().unwrap() > 0.0));
    // With it the run goes on as well as if it had not been stopped; the order of sums is another one.
    let gone_on = ended(2, &topk, &at);
    let undisturbed = ended(3, &topk, &place.path().join("undisturbed"));
    let (a, b) = (tail(&gone_on), tail(&undisturbed));
    assert!((a - b).abs() < 0.05 * undisturbed[0], "{a} and {b}");
}
#[test]
fn methods_that_there_are_not() {
    let place = tempfile::tempdir().unwrap();
    for (set, told) in [
        (vec!["distributed.compress=zip"], "there are none, bf16, powersgd, topk"),
        (vec!["distributed.compress=topk", "distributed.compress_share=0"], "above 0 and at most 1"),
        (vec!["distributed.compress=powersgd", "distributed.compress_rank=0"], "it is 1 at least"),
        (vec!["distributed.compress=bf16", "distributed.compress_rank=2"], "says nothing without its `compress`"),
        (vec!["distributed.compress=bf16", "distributed.zero=2"], "whole gradients"),
    ] {
        for done in train(2, &set, &place.path().join("refused"), None) {
            let error = done.unwrap_err().to_string();
            assert!(error.contains(told), "{set:?}: {error}");
        }
    }
}
