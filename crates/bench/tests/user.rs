//! The verbs from outside, on the benchmarks of a user's crate (`examples/own_workload.rs`).
#![allow(clippy::unwrap_used, clippy::expect_used)]
use adamant_bench::{
    comparison::{Comparison, Evidence},
    gate::Decision,
    lines::Line,
    record::Record,
};
use common::{run, said};

mod common;

#[test]
fn a_workload_of_ones_own_that_is_not_run_or_a_wrong_one_that_has_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let out = run(folder.path(), "--bench run --json --budget 0.02 --record a.jsonl --machine here");
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    let lines: Vec<Line> = String::from_utf8(out.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.iter().map(|l| &*l.workload).collect::<Vec<_>>(), ["own_layer", "own_wrong"]);
    assert!(lines[0].median_ms.unwrap() > 0.0 && lines[0].extra.gflops.unwrap() > 0.0);
    assert!(lines[1].median_ms.is_none() && lines[1].error.as_deref().unwrap().contains("2 instead of 3"));
    let records = Record::read(&folder.path().join("a.jsonl")).unwrap();
    let (record, case) = (&records[0], &records[0].cases[0]);
    assert!(case.samples_ns.len() >= 5 && case.worst_error.unwrap() <= 1.0 && case.waited.len() == case.samples_ns.len());
    assert!(record.cases[1].samples_ns.is_empty() && record.ceilings.as_ref().unwrap().copy_gbps > 0.0);
    assert_eq!(record.settings.label, "here");
}
#[test]
fn records_that_are_not_merged_or_compared() {
    let folder = tempfile::tempdir().unwrap();
    for (label, file) in [("one", "a.jsonl"), ("two", "b.jsonl")] {
        let out = run(folder.path(), &format!("run --only own_layer --budget 0.02 --record {file} --machine {label}"));
        assert!(out.status.success(), "{}", said(&out));
    }
    let out = run(folder.path(), "merge a.jsonl b.jsonl --format markdown");
    let text = said(&out);
    assert!(text.starts_with("<!-- adamant-bench -->") && text.contains("one") && text.contains("two") && text.contains("own\\_layer"), "{text}");
    let out = run(folder.path(), "report a.jsonl b.jsonl --html page.html");
    assert!(out.status.success() && std::fs::read_to_string(folder.path().join("page.html")).unwrap().contains("own_layer"));
    for (arguments, code) in [
        ("compare a.jsonl b.jsonl", 0),
        ("diff a.jsonl b.jsonl", 0),
        ("compare a.jsonl self", 2),
        ("compare a.jsonl gone.jsonl", 4),
        ("gate a.jsonl a.jsonl", 10),
        ("gate a.jsonl a.jsonl --allow 900", 0),
        ("baseline save main a.jsonl", 0),
        ("gate baseline:main a.jsonl", 10),
        ("baseline list", 0),
        ("baseline rm main", 0),
        ("baseline rm main", 4),
        ("gate baseline:main a.jsonl", 4),
        ("list", 0),
        ("list --only nothing", 2),
        ("run --threads 0", 2),
        ("run --device gpu:9", 2),
        ("run --device cuda:0", 9),
    ] {
        let out = run(folder.path(), arguments);
        assert_eq!(out.status.code(), Some(code), "{arguments}: {}", said(&out));
    }
    // Another machine's record is compared only when told.
    let text = std::fs::read_to_string(folder.path().join("b.jsonl")).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["machine"]["microcode"] = "0xother".into();
    std::fs::write(folder.path().join("c.jsonl"), value.to_string()).unwrap();
    let out = run(folder.path(), "compare a.jsonl c.jsonl");
    assert!(out.status.code() == Some(2) && said(&out).contains("machine.microcode") && said(&out).contains("--across"), "{}", said(&out));
    assert_eq!(run(folder.path(), "compare a.jsonl c.jsonl --across").status.code(), Some(0));
}
#[test]
fn a_regression_that_passes_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    // Twice the same work against once: no machine is so busy that this is not seen.
    let out = run(folder.path(), "gate self self@repeat=2 --only own_layer --budget 0.3 --rounds 3 --allow 20 --format json --out c.json");
    assert_eq!(out.status.code(), Some(8), "{}", said(&out));
    let c: Comparison = serde_json::from_str(&std::fs::read_to_string(folder.path().join("c.json")).unwrap()).unwrap();
    let gated = c.cases[0].gate.unwrap();
    assert!(gated.decision == Decision::Slower && gated.at_least.unwrap() > 1.2 && gated.smallest_seen.unwrap() > 0.2, "{gated:?}");
    assert!(c.evidence == Evidence::Turns && c.cases[0].ratio.unwrap() > 1.5, "{c:?}");
    // What cannot be compared has not passed.
    let out = run(folder.path(), "gate self self --only own_wrong --budget 0.1");
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    let out = run(folder.path(), "compare self self@repeat=2 --only own_layer --budget 0.1 --rounds 3 --json");
    let lines: Vec<Line> = String::from_utf8(out.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.iter().map(|l| &*l.implementation).collect::<Vec<_>>(), ["self", "self@repeat=2"]);
}
/// By exit codes alone, as a workflow sees them, while another program keeps the last core busy.
#[test]
#[cfg(target_os = "linux")]
fn a_gate_beside_a_busy_neighbour_that_stops_equal_programs_or_lets_more_work_through() {
    let folder = tempfile::tempdir().unwrap();
    let out = run(folder.path(), "gate-selftest --gates 2 --planted 2 --only own_layer --budget 0.4 --busy --json");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let of = |kind: &str, end: &str| told[kind][end].as_u64().unwrap();
    let (equal, planted) = (of("equal", "passed") + of("equal", "undecided"), of("planted_10_percent", "slower") + of("planted_10_percent", "undecided"));
    assert!((equal, planted) == (2, 2) && told["busy_core"].is_number(), "{told} {}", said(&out));
}
