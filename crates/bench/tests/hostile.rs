//! The verbs as somebody uses them whose files are gone, cut off, of another version or in the wrong place: each ends with
//! the code that says what is wrong, says it, and leaves every record as it was.
#![allow(clippy::unwrap_used, clippy::expect_used)]
use adamant_bench::record::{Case, Record};
use common::{program, run, said};
use std::{
    fs,
    process::{Command, Stdio},
};

mod common;

/// A folder with the record `a.jsonl`, and its text.
fn recorded() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let out = run(folder.path(), "run --only own_layer --budget 0.02 --record a.jsonl --machine here");
    assert!(out.status.success(), "{}", said(&out));
    let text = fs::read_to_string(folder.path().join("a.jsonl")).unwrap();
    (folder, text)
}

#[test]
fn a_wrong_file_or_number_that_is_not_told() {
    let (folder, text) = recorded();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let changed = |name: &str, change: &dyn Fn(&mut Record)| {
        let mut record: Record = serde_json::from_str(&text).unwrap();
        change(&mut record);
        put(name, &serde_json::to_string(&record).unwrap());
    };
    put("empty.jsonl", "");
    put("cut.jsonl", &text[..text.len() / 2]);
    put("second_cut.jsonl", &(text.clone() + &text[..text.len() / 2]));
    put("text.jsonl", "hello\n");
    fs::write(folder.path().join("bytes.jsonl"), [0xffu8, 0, 1]).unwrap();
    put("old.jsonl", &text.replace("\"version\":2", "\"version\":1"));
    put("new.jsonl", &text.replace("\"version\":2", "\"version\":3"));
    put("word.jsonl", &text.replace("\"version\":2", "\"version\":\"2\""));
    changed("none.jsonl", &|r| r.cases.clear());
    changed("twice.jsonl", &|r| r.cases.push(r.cases[0].clone()));
    changed("mean.jsonl", &|r| r.cases[0].summary.as_mut().unwrap().mean_ns = -7.0);
    changed("interval.jsonl", &|r| r.cases[0].summary.as_mut().unwrap().ci95_ns = [5.0, 1.0]);
    changed("waited.jsonl", &|r| r.cases[0].waited[0] = -5.0);
    changed("date.jsonl", &|r| r.started = "yesterday".into());
    changed("other.jsonl", &|r| r.machine.microcode = Some("other".into()));
    changed("failed.jsonl", &|r| {
        for case in &mut r.cases {
            *case = Case { error: Some("broken".into()), ..Case::new(case.workload.clone(), case.implementation.clone()) };
        }
    });
    put("plain", "x");
    fs::create_dir(folder.path().join("folder.jsonl")).unwrap();
    for (arguments, code, what) in [
        ("merge empty.jsonl", 4, "no record in it"),
        ("merge a.jsonl cut.jsonl", 4, "cut.jsonl, line 1: EOF"),
        ("merge second_cut.jsonl", 4, "line 2: EOF"),
        ("report text.jsonl", 4, "text.jsonl, line 1"),
        ("compare a.jsonl bytes.jsonl", 4, "bytes.jsonl"),
        ("compare a.jsonl old.jsonl", 4, "version 1; this program reads version 2"),
        ("history new.jsonl", 4, "version 3; this program reads version 2"),
        ("baseline save main word.jsonl", 4, "its `version` is \"2\""),
        ("merge folder.jsonl", 4, "directory"),
        ("merge twice.jsonl", 4, "own_layer: it is there twice"),
        ("merge mean.jsonl", 4, "does not follow"),
        ("merge interval.jsonl", 4, "does not follow"),
        ("merge waited.jsonl", 4, "`waited`"),
        ("history date.jsonl", 4, "`yesterday`, no time"),
        ("gate none.jsonl a.jsonl", 1, "nothing to compare"),
        ("compare none.jsonl a.jsonl", 1, "nothing could be compared"),
        ("gate a.jsonl none.jsonl", 1, "could not be compared"),
        ("gate a.jsonl failed.jsonl", 1, "broken"),
        ("gate a.jsonl a.jsonl --only nothing", 1, "nothing to compare"),
        // With a limit that is no number nothing is ever too slow.
        ("gate a.jsonl a.jsonl --allow nan", 2, "percent"),
        ("gate a.jsonl a.jsonl --allow=-1", 2, "percent"),
        ("compare a.jsonl a.jsonl --threshold inf", 2, "percent"),
        ("run --only own_layer --budget 0.02 --against a.jsonl --allow nan", 2, "percent"),
        ("run --only own_layer --budget=-1", 2, "count from 0"),
        ("compare self self@device=cuda:0 --across", 9, "cuda"),
        ("gate self self --device cuda:0", 9, "cuda"),
        ("calibrate --device cuda:0", 9, "cuda"),
        ("compare self self@device=gpu --across", 2, "`gpu` is no device"),
        ("merge a.jsonl --out plain/x", 6, "plain/x"),
        ("compare a.jsonl a.jsonl --out folder.jsonl", 6, "folder.jsonl"),
        ("report a.jsonl --html plain/x.html", 6, "plain/x.html"),
        ("history a.jsonl --html plain/x.html", 6, "plain/x.html"),
        // Before anything is measured, or hours are lost.
        ("run --only own_layer --budget 100 --record plain/x.jsonl", 6, "plain/x.jsonl"),
        ("run --only own_layer --budget 100 --record a.jsonl --criterion gone", 4, "gone"),
        ("run --only own_layer --budget 100 --against other.jsonl", 2, "machine.microcode"),
        ("compare self self --only own_layer --budget 100 --out plain/x", 6, "plain/x"),
        ("calibrate --only own_layer --budget 100 --record gone.jsonl", 4, "gone.jsonl"),
    ] {
        let out = run(folder.path(), arguments);
        assert!(out.status.code() == Some(code) && said(&out).contains(what), "{arguments}: {:?} {}", out.status, said(&out));
    }
    assert_eq!(fs::read_to_string(folder.path().join("a.jsonl")).unwrap(), text);
    assert!(!folder.path().join("gone.jsonl").exists());
}
#[test]
fn a_record_that_is_not_kept_because_it_cannot_be_compared() {
    let (folder, text) = recorded();
    let mut other: Record = serde_json::from_str(&text).unwrap();
    other.machine.microcode = Some("other".into());
    fs::write(folder.path().join("other.jsonl"), serde_json::to_string(&other).unwrap()).unwrap();
    let out = run(folder.path(), "run --only own_layer --budget 0.02 --record kept.jsonl --against other.jsonl");
    assert!(out.status.code() == Some(2) && said(&out).contains("machine.microcode"), "{:?} {}", out.status, said(&out));
    let kept = Record::read(&folder.path().join("kept.jsonl")).unwrap();
    assert!(kept.len() == 1 && !kept[0].cases[0].samples_ns.is_empty());
}
#[test]
fn two_moments_that_a_gate_takes_for_two_programs_or_for_one() {
    let (folder, text) = recorded();
    let record: Record = serde_json::from_str(&text).unwrap();
    let rounds: std::collections::BTreeSet<u32> = record.cases[0].rounds.iter().copied().collect();
    assert_eq!(rounds.len(), 6, "a record has the spread between processes: {:?}", record.cases[0].rounds);
    // The same record at a moment in which everything took 1.5 times, or four times as long; and five such moments.
    let times = |factor: f64, seed: f64| {
        let mut record = record.clone();
        let case = &mut record.cases[0];
        let ns = (0..30).map(|k| 1e4 * factor * (1.0 + 0.001 * f64::from(k % 7) + 0.01 * seed)).collect();
        *case = Case { rounds: (0..30).map(|k| k / 5).collect(), ..case.clone().sampled(ns, vec![0.0; 30], 1) };
        record.git = Some(adamant_bench::machine::Git { commit: "c".into(), dirty: false });
        serde_json::to_string(&record).unwrap() + "\n"
    };
    let put = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    put("one.jsonl", times(1.0, 0.0));
    put("half.jsonl", times(1.5, 0.0));
    put("four.jsonl", times(4.0, 0.0));
    put("moments.jsonl", (0..5).map(|k| times(1.0, f64::from(k % 3))).collect());
    put("slower.jsonl", (0..5).map(|k| times(1.2, f64::from(k % 2))).collect());
    for (arguments, code, what) in [
        ("gate one.jsonl half.jsonl", 10, "of one moment each"),
        ("gate one.jsonl one.jsonl", 10, "may be slower by more than 5 %"),
        ("gate one.jsonl one.jsonl --allow 100", 0, "passed"),
        ("gate one.jsonl four.jsonl", 8, "slower"),
        ("compare one.jsonl half.jsonl", 0, "0 slower, 0 faster, 0 same, 1 noisy"),
        // Several moments have a spread of their own.
        ("gate moments.jsonl moments.jsonl", 0, "records of several moments"),
        ("gate moments.jsonl slower.jsonl", 8, "slower"),
        ("gate moments.jsonl one.jsonl", 10, "of one moment each"),
    ] {
        let out = run(folder.path(), arguments);
        assert!(out.status.code() == Some(code) && said(&out).contains(what), "{arguments}: {:?} {}", out.status, said(&out));
    }
}
#[test]
fn a_record_that_is_lost_to_a_name_in_the_wrong_place() {
    let (folder, text) = recorded();
    for arguments in [
        "merge a.jsonl --out a.jsonl",
        "merge a.jsonl --format json --out ./a.jsonl",
        "compare a.jsonl a.jsonl --out a.jsonl",
        "report a.jsonl --html a.jsonl",
        "history a.jsonl --html a.html --csv a.jsonl",
        "history a.jsonl --html a.html --json a.jsonl",
    ] {
        let out = run(folder.path(), arguments);
        assert!(out.status.code() == Some(2) && said(&out).contains("holds records"), "{arguments}: {:?} {}", out.status, said(&out));
    }
    // A baseline saved over itself, and by a file that is none.
    for (arguments, code) in [
        ("baseline save main a.jsonl", 0),
        ("baseline save main target/bench/baselines/main.jsonl", 0),
        ("baseline save main a.html", 4),
        ("gate baseline:main a.jsonl --allow 900", 0),
    ] {
        assert_eq!(run(folder.path(), arguments).status.code(), Some(code), "{arguments}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("a.jsonl")).unwrap(), text);
    // What is added to a file whose last line was cut off spoils neither that line nor itself.
    fs::write(folder.path().join("cut.jsonl"), text.trim_end()).unwrap();
    let record: Record = serde_json::from_str(&text).unwrap();
    record.append(&folder.path().join("cut.jsonl")).unwrap();
    assert_eq!(Record::read(&folder.path().join("cut.jsonl")).unwrap().len(), 2);
}
#[test]
fn a_reader_that_has_seen_enough_or_a_full_disk_that_ends_in_a_panic() {
    let (folder, _) = recorded();
    let to = |arguments: &str, stdout: Stdio, stderr: Stdio| {
        let mut child = Command::new(program()).args(arguments.split(' ')).current_dir(folder.path()).stdout(stdout).stderr(stderr).spawn().unwrap();
        drop(child.stdout.take());
        child.wait().unwrap().code()
    };
    assert_eq!(to("merge a.jsonl", Stdio::piped(), Stdio::null()), Some(0));
    // The same work twice is a regression, whoever reads of it.
    assert_eq!(to("gate self self@repeat=2 --only own_layer --budget 0.3 --rounds 3 --allow 20", Stdio::piped(), Stdio::null()), Some(8));
    if cfg!(target_os = "linux") {
        let full = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        assert_eq!(to("merge a.jsonl", full(), Stdio::null()), Some(6));
        assert_eq!(to("compare a.jsonl a.jsonl", full(), full()), Some(6));
        assert_eq!(to("merge gone.jsonl", Stdio::null(), full()), Some(4));
        // What was measured is kept all the same.
        assert_eq!(to("run --only own_layer --budget 0.02 --record b.jsonl", full(), full()), Some(6));
        assert_eq!(Record::read(&folder.path().join("b.jsonl")).unwrap()[0].cases.len(), 1);
    }
}
