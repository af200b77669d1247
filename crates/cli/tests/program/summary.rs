//! `summary --measure` and `--picture`.
use super::{adamant, err, folder, out};
use std::fs;

#[cfg(feature = "profiling")]
#[test]
fn a_layer_that_was_not_timed_or_a_column_that_is_missing() {
    let folder = folder();
    let at = folder.path();
    let found = adamant(at, &["summary", "run.toml", "--measure", "--passes", "2", "--cpu", "--threads", "1"]);
    assert!(found.status.success(), "{}", err(&found));
    let text = out(&found);
    for word in
        ["Layer", "Output", "Parameters", "FLOPs", "Moved", "FLOP/B", "Time", "Share", "Bound", "0: Linear", "forward ", "GFLOP/s", "1. ", "memory, training"]
    {
        assert!(text.contains(word), "{word}\n{text}");
    }
    let found = adamant(at, &["summary", "run.toml", "--measure", "--passes", "2", "--input", "2", "--batch", "5", "--cpu", "--json"]);
    let table: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!((&table["parameters"], &table["rows"][0]["output"], &table["timing"]["passes"]), (&22.into(), &serde_json::json!([5, 4]), &2.into()), "{table}");
    assert!(table["rows"][0]["time_us"].as_f64() > Some(0.0) && table["rows"][0]["bound"].is_string(), "{table}");
    assert!(table["bottlenecks"][0]["share"].is_f64() && table["memory"]["inference"]["bytes"].is_u64() && table["roof"]["gflops"].is_f64(), "{table}");
    for (arguments, text) in [
        (&["--measure", "--passes", "0"][..], "--passes"),
        (&["--passes", "3"], "--measure"),
        (&["--cpu"], "--measure"),
        (&["--measure", "--input", "3"], "--input 3"),
    ] {
        let refused = adamant(at, &[&["summary", "run.toml"], arguments].concat());
        assert!(refused.status.code() == Some(2) && err(&refused).contains(text), "{arguments:?}: {}", err(&refused));
    }
}
#[test]
fn a_picture_that_is_not_what_its_file_is_called() {
    let folder = folder();
    let at = folder.path();
    for (file, begins, has) in [("net.svg", "<svg", "0: Linear"), ("net.mmd", "flowchart TB", "n0 --> n1"), ("net.dot", "digraph", "n0 -> n1;")] {
        let found = adamant(at, &["summary", "run.toml", "--picture", file]);
        assert!(found.status.success(), "{}", err(&found));
        let text = fs::read_to_string(at.join(file)).unwrap();
        assert!(text.starts_with(begins) && text.contains(has) && text.contains("[3, 4]"), "{text}");
    }
    for (file, code) in [("net.png", 2), ("net", 2), ("nowhere/net.svg", 6)] {
        let refused = adamant(at, &["summary", "run.toml", "--picture", file]);
        assert_eq!(refused.status.code(), Some(code), "{file}: {}", err(&refused));
    }
    // A run leaves one for its report.
    assert!(adamant(at, &["train", "run.toml", "--run", "run"]).status.success());
    let page = fs::read_to_string(at.join("run/report.html")).unwrap();
    assert!(page.contains("class=\"net\"") && page.contains("1: Tanh"), "{page}");
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"));
    // What somebody has put in its place is no picture and no markup.
    for text in [
        "{\"nodes\":[{\"name\":\"a\",\"kind\":\"<script>1\",\"shape\":[1],\"parameters\":0}],\"edges\":[[7,9]]}",
        "{\"nodes\":[],\"edges\":[[0,18446744073709551615]]}",
        "[",
    ] {
        fs::write(at.join("run/architecture.json"), text).unwrap();
        assert!(adamant(at, &["report", "run"]).status.success());
        let page = fs::read_to_string(at.join("run/report.html")).unwrap();
        assert!(!page.contains("class=\"net\"") && !page.contains("<script>1"));
    }
}
