//! Records: round trip, other versions, files that someone else wrote.
use super::*;

/// A record of three cases, one of them wrong.
pub fn example(label: &str) -> Record {
    let case = |name: &str, unit, amount: f64, ns: f64| {
        let samples: Vec<f64> = (0..20).map(|k| ns * (1.0 + 0.001 * (k % 7) as f64)).collect();
        let case = Case { unit: Some(unit), amount: Some(amount), intensity: Some(2.0), worst_error: Some(0.1), ..Case::new(name, "adamant") };
        case.sampled(samples, vec![0.0; 20], 3)
    };
    let wrong = Case { error: Some("wrong result: element 0 is 1 instead of 2".into()), ..Case::new("softmax", "adamant") };
    let mut machine = Machine::here();
    machine.cpu = label.into();
    let settings = Settings {
        label: label.into(),
        device: "cpu".into(),
        device_name: label.into(),
        device_details: [("isa".to_string(), "avx2".to_string())].into(),
        threads: 2,
        budget_s: 1.0,
        precision: 0.005,
        small: false,
    };
    Record {
        command: vec!["bench".into(), "run".into()],
        machine,
        git: Some(Git { commit: "0123456789abcdef".into(), dirty: true }),
        load_before: Load::default(),
        load_after: Load { one_minute: 0.5, celsius: Some(51.0) },
        ceilings: Some(Ceilings { threads: 2, gflops: [("avx2/f32".to_string(), 200.0)].into(), copy_gbps: 40.0, triad_gbps: 39.0, handover_ns: 5000.0 }),
        cases: vec![case("gemm_f32_64", WorkUnit::Flop, 524_288.0, 4000.0), case("ew_add", WorkUnit::Bytes, 12e6, 400_000.0), wrong],
        ..Record::begun(SystemTime::UNIX_EPOCH, settings)
    }
}
fn written(text: &str) -> Result<Vec<Record>, RecordError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    fs::write(&file, text).unwrap();
    Record::read(&file)
}

#[test]
fn a_record_that_is_not_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep/records.jsonl");
    let (a, b) = (example("one"), example("two"));
    a.append(&file).unwrap();
    b.append(&file).unwrap();
    assert_eq!(Record::read(&file).unwrap(), [a, b]);
}
#[test]
fn a_version_that_is_read_as_if_it_were_this_one() {
    let text = serde_json::to_string(&example("x")).unwrap();
    for (other, what) in [
        (text.replace("\"version\":2", "\"version\":1"), "of version 1; this program reads version 2"),
        (text.replace("\"version\":2,", ""), "no `version`"),
        (text.replace("\"version\":2", "\"version\":\"2\""), "its `version` is \"2\"; it reads `adamant-bench` of version 2"),
        (text.replace("\"version\":2", "\"version\":-2"), "its `version` is -2; it reads"),
        (text.replace("\"schema\":\"adamant-bench\"", "\"schema\":\"other\""), "its `schema` is \"other\"; it reads `adamant-bench` of version 2"),
        (text.replace("\"schema\":\"adamant-bench\"", "\"schema\":99"), "its `schema` is 99; it reads `adamant-bench` of version 2"),
        (text.replace("\"schema\":\"adamant-bench\"", "\"schema\":99").replace("\"version\":2", "\"version\":99"), "its `schema` is 99; it reads"),
        (text.replace("\"schema\":\"adamant-bench\",", ""), "no `schema`; it reads"),
        ("[]".into(), "no `schema`"),
        (text.replace("\"cases\":", "\"kases\":"), "unknown field `kases`"),
        (text[..text.len() / 2].into(), "EOF"),
        ("\n\n".into(), "no record"),
    ] {
        let said = written(&other).unwrap_err().to_string();
        assert!(said.contains(what), "{said}");
    }
}
#[test]
fn a_time_that_no_sample_gave() {
    let change = |f: fn(&mut Record)| {
        let mut record = example("x");
        f(&mut record);
        written(&serde_json::to_string(&record).unwrap()).map(|_| ()).unwrap_err().to_string()
    };
    for (said, what) in [
        (change(|r| r.cases[0].samples_ns[0] = -1.0), "no positive number"),
        (change(|r| r.cases[0].summary.as_mut().unwrap().median_ns = 1.0), "does not follow"),
        (change(|r| r.cases[0].summary = None), "does not follow"),
        (change(|r| r.cases[0].error = Some("wrong".into())), "no time"),
        (change(|r| r.cases[1].unit = None), "go together"),
        (change(|r| r.cases[1].amount = Some(0.0)), "no positive number"),
        (change(|r| r.settings.threads = 0), "no threads"),
        (change(|r| r.ceilings.as_mut().unwrap().copy_gbps = 0.0), "a ceiling is no positive number"),
        (change(|r| r.cases[1].waited.clear()), "another length"),
        (change(|r| r.cases[1].rounds = vec![0]), "another length"),
    ] {
        assert!(said.contains(what), "{said}");
    }
}
#[test]
fn a_share_of_a_roofline_of_another_kind() {
    let r = example("x");
    let c = r.ceilings.as_ref().unwrap();
    let share = |k: usize| r.cases[k].of_roofline(c, r.settings.isa());
    let near = |x: Option<f64>, want: f64| assert!((x.unwrap() - want).abs() < 0.01, "{x:?}");
    near(share(0), 524_288.0 / 4000.0 / 200.0);
    near(share(1), 12e6 / 400_000.0 / 40.0);
    assert_eq!(share(2), None);
    assert_eq!(r.column(), "cpu avx2 t2 @ x");
}
