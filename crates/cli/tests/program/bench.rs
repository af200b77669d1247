//! `adamant bench` and `--profile`: what is told, and what a user can get wrong.
use super::{adamant, err, folder, out};
use adamant_bench::record::Record;
use serde_json::Value;

#[test]
fn a_table_that_calls_a_missed_target_met() {
    let folder = folder();
    // The plain interpreter is in time for a move, and for no gradient.
    let met = adamant(folder.path(), &["bench", "s0", "--only", "moved", "--seconds", "0", "--json"]);
    let missed = adamant(folder.path(), &["bench", "s0", "--only", "gradient", "--seconds", "0", "--json"]);
    let lines = |output| serde_json::from_str::<Vec<Value>>(&out(output)).unwrap();
    assert_eq!(lines(&met).len(), 1);
    let line = lines(&missed).remove(0);
    assert_eq!((missed.status.code(), line["passed"].as_bool(), line["n"].as_u64()), (Some(1), Some(false), Some(10)), "{}", err(&missed));
    assert!(err(&missed).contains("1 of 1 targets are missed: gradient"), "{}", err(&missed));
}
#[test]
fn percentiles_that_do_not_rise_or_a_model_that_is_not_timed() {
    let folder = folder();
    for arguments in [
        &["bench", "run.toml", "--latency", "--seconds", "0.05", "--json"][..],
        &["bench", "run.toml", "--input", "2", "--batch", "3", "--seconds", "0", "--json"],
    ] {
        let output = adamant(folder.path(), arguments);
        let told: Value = serde_json::from_str(&out(&output)).unwrap_or_else(|_| panic!("{}", err(&output)));
        let figures = ["min_us", "p50_us", "p99_us", "p999_us", "max_us"].map(|name| told[name].as_f64().unwrap());
        assert!(figures.is_sorted() && figures[0] > 0.0 && told["samples_per_second"].as_f64().unwrap() > 0.0, "{told}");
    }
    let text = out(&adamant(folder.path(), &["bench", "run.toml", "--latency", "--seconds", "0"]));
    assert!(text.contains("p99.9") && text.contains("samples/s") && text.contains("batch     1\n"), "{text}");
}
#[test]
fn a_report_that_is_no_record_or_lacks_a_line() {
    let folder = folder();
    let file = folder.path().join("deep/bundle.json");
    std::fs::create_dir(folder.path().join("deep")).unwrap();
    // The second takes the place of the first: a bundle is one document.
    for (arguments, names) in [
        (
            &["bench", "s0", "--only", "create", "--seconds", "0", "--report", "deep/bundle.json"][..],
            &["create 1000x1000, moved", "create 1000x1000, copied"][..],
        ),
        (&["bench", "run.toml", "--input", "2", "--batch", "3", "--seconds", "0.1", "--report", "deep/bundle.json", "--json"], &["run, forward, batch 3"]),
    ] {
        // A target that is missed on the plain interpreter is no reason to keep nothing.
        let output = adamant(folder.path(), arguments);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", err(&output));
        assert!(serde_json::from_str::<Value>(&std::fs::read_to_string(&file).unwrap()).unwrap().is_object());
        let record = Record::read(&file).unwrap().remove(0);
        assert_eq!(record.cases.iter().map(|c| &*c.workload).collect::<Vec<_>>(), names);
        assert!(record.cases.iter().all(|c| (10..=2000).contains(&c.samples_ns.len()) && c.summary.is_some()), "{:?}", record.cases);
        assert!(!record.machine.cpu.is_empty() && record.toolchain.rustc.starts_with("rustc") && record.settings.device == "reference");
    }
    // Before anything is measured, and nothing is left where nothing was.
    let output = adamant(folder.path(), &["bench", "s0", "--seconds", "100", "--report", "run.toml/x.json"]);
    assert!(output.status.code() == Some(6) && err(&output).contains("run.toml/x.json"), "{}", err(&output));
}
#[test]
fn a_question_without_sense_that_is_answered() {
    let folder = folder();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["bench", "s0", "--latency"], 2, "s0 has none"),
        (&["bench", "s0", "--only", "nothing"], 2, "softmax 1000x10000"),
        (&["bench", "run.toml", "--only", "x"], 2, "lines of s0"),
        (&["bench", "run.toml", "--batch", "0"], 2, "from 1 on"),
        (&["bench", "run.toml", "--seconds=-1"], 2, "from 0"),
        (&["bench", "run.toml", "--seconds", "nan"], 2, "from 0"),
        (&["bench", "absent.toml"], 4, "absent.toml"),
        (&["bench", "run.toml", "--input", "5", "--seconds", "0"], 1, "linear"),
        (&["bench", "points.csv"], 4, "points.csv"),
    ];
    for (arguments, code, said) in cases {
        let output = adamant(folder.path(), arguments);
        let text = err(&output);
        assert!(output.status.code() == Some(*code) && text.contains(said) && !text.contains("panicked"), "{arguments:?}: {:?} {text}", output.status.code());
    }
}
#[test]
fn a_phase_of_a_verb_that_is_not_in_the_table() {
    let folder = folder();
    let text = err(&adamant(folder.path(), &["summary", "run.toml", "--input", "2", "--profile"]));
    let names: Vec<&str> = text.lines().skip_while(|l| !l.starts_with("Phase")).take(8).filter_map(|l| l.split_whitespace().next()).collect();
    assert_eq!(names, ["Phase", "args", "parse", "shape", "plan", "run", "(outside)", "Wall"], "{text}");
}
