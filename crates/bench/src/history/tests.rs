//! Lines of records in any order, and change points of series whose truth is known.
use super::*;
use crate::{inputs::RandomWords, record::tests::example};

/// Times around 1 ms with so much noise; from `at` on they are `factor` as long.
fn series(seed: u64, n: usize, noise: f64, at: usize, factor: f64) -> Vec<f64> {
    let mut words = RandomWords::new(seed);
    let mut normal = || (0..12).map(|_| words.uniform() as f64).sum::<f64>() / 2.0;
    (0..n).map(|k| 1e6 * (1.0 + noise * normal()) * if k < at { 1.0 } else { factor }).collect()
}
fn found(times: &[f64]) -> Vec<Change> {
    changes(times, &vec![0.002; times.len()])
}

#[test]
fn a_change_that_is_not_there_or_is_not_seen() {
    let alarms = (0..200).filter(|&k| !found(&series(k, 8 + (k as usize % 5) * 10, 0.01, 0, 1.0)).is_empty()).count();
    assert!(alarms <= 6, "{alarms} of 200");
    for (n, at, factor) in [(30, 15, 1.06), (30, 27, 1.10), (30, 3, 0.90), (12, 6, 1.08)] {
        let hits = (0..100).filter(|&k| matches!(found(&series(500 + k, n, 0.01, at, factor))[..], [c] if c.at.abs_diff(at) <= 1)).count();
        assert!(hits >= 90, "{hits} of 100: {factor} from {at} of {n}");
    }
}
#[test]
fn two_changes_of_which_one_is_lost() {
    let mut times = series(1, 30, 0.005, 10, 1.2);
    times[20..].iter_mut().for_each(|x| *x /= 1.2);
    let [up, down] = found(&times)[..] else { panic!("{:?}", found(&times)) };
    assert_eq!((up.at, down.at), (10, 20));
    assert!((up.factor - 1.2).abs() < 0.02 && (down.factor - 1.0 / 1.2).abs() < 0.02);
}
#[test]
fn a_run_on_a_busy_machine_that_is_taken_for_a_change() {
    for at in [0, 7, 19] {
        let mut times = series(3, 20, 0.005, 0, 1.0);
        times[at] *= 1.6;
        assert_eq!(found(&times), [], "run {at}");
    }
    assert_eq!(found(&[1.0, 2.0, 3.0]), []);
    assert_eq!(found(&[]), []);
}
#[test]
fn a_line_that_loses_a_run_or_takes_another_machines() {
    let at = |label: &str, second: u32| Record { started: format!("2026-01-01T00:00:{second:02}Z"), ..example(label) };
    let mut last = at("one", 3);
    last.toolchain.rustc = "rustc 9".into();
    let tags = [("0123456789abcdef".to_string(), vec!["v1".to_string()])].into();
    let history = History::of(&[last, at("two", 2), at("one", 1)], &tags);
    assert_eq!(history.runs.iter().map(|r| r.column.as_str()).collect::<Vec<_>>(), ["cpu avx2 t2 @ one", "cpu avx2 t2 @ two", "cpu avx2 t2 @ one"]);
    assert_eq!(history.runs[2].changed.iter().map(|c| (c.0.as_str(), c.2.as_str())).collect::<Vec<_>>(), [("toolchain.rustc", "rustc 9")]);
    assert_eq!((history.runs[0].commit.as_deref(), &*history.runs[0].tags), (Some("0123456789ab+"), ["v1".to_string()].as_slice()));
    let lines: Vec<_> = history.lines.iter().map(|l| (l.workload.as_str(), l.points.iter().map(|p| p.run).collect::<Vec<_>>())).collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[0], ("gemm_f32_64", vec![0, 2]));
    let wrong = history.lines.iter().find(|l| l.workload == "softmax").unwrap();
    assert!(wrong.points.iter().all(|p| p.median_ns.is_none() && p.error.as_deref().is_some_and(|e| e.starts_with("wrong result"))));
    let small = Record { settings: crate::record::Settings { small: true, ..example("x").settings }, ..example("x") };
    assert!(History::of(&[small], &BTreeMap::new()).lines.iter().all(|l| l.timed().count() == 0 && l.points[0].error.is_some()));
}
#[test]
fn a_folder_whose_records_are_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a/b");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("one.jsonl"), "").unwrap();
    fs::write(folder.path().join("two.jsonl"), "").unwrap();
    fs::write(folder.path().join("page.html"), "").unwrap();
    let named = folder.path().join("gone");
    let found = files(&[folder.path().into(), named.clone(), deep.join("one.jsonl")]).unwrap();
    assert_eq!(found, [deep.join("one.jsonl"), named, folder.path().join("two.jsonl")]);
}
