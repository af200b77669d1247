//! Checkpoints on a real disk: what comes back, what is kept, what is damaged, who may write.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use adamant_core::{DType, Device, Tensor};
use adamant_formats::safetensors::SafeTensors;
use adamant_train::{
    checkpoint::{self, CheckpointError, Checkpoints, OnError, Retention, Snapshot, Writer},
    storage::{Disk, Storage, StorageErrorKind},
};
use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

const KEEP: Retention = Retention { last: 2, best: 0 };

fn on_reference(test: impl FnOnce()) {
    Device::reference().scoped(test);
}
fn snapshot(step: u64) -> Snapshot {
    let fill = step as f32;
    let weight = Tensor::from_vec((0..12).map(|i| fill + i as f32 / 3.0).collect(), [3, 4]);
    let bias = Tensor::from_vec(vec![fill; 3], [3]);
    let slots = Tensor::from_vec(vec![step as i64, -1], [2]);
    let tensors = BTreeMap::from([
        ("model".to_string(), vec![("layer.weight".to_string(), weight), ("layer.bias".to_string(), bias)]),
        ("optimizer".to_string(), vec![("steps".to_string(), slots), ("empty".to_string(), Tensor::from_vec(Vec::<f32>::new(), [0, 3]))]),
    ]);
    Snapshot { step, tensors, state: serde_json::json!({ "lr": 0.1f64 + 0.2, "key": u64::MAX, "step": step }) }
}
fn check(found: &Snapshot, step: u64) {
    let want = snapshot(step);
    assert_eq!((found.step, &found.state), (step, &want.state));
    assert_eq!(found.tensors.keys().collect::<Vec<_>>(), want.tensors.keys().collect::<Vec<_>>());
    for (stem, tensors) in &want.tensors {
        for (name, tensor) in tensors {
            let (_, found) = found.tensors[stem].iter().find(|(n, _)| n == name).expect(name);
            assert_eq!(found.try_meta().unwrap(), tensor.try_meta().unwrap(), "{name}");
            assert_eq!(found.to_bytes().unwrap(), tensor.to_bytes().unwrap(), "{name}");
        }
    }
}
fn open(folder: &Path) -> Checkpoints {
    Checkpoints::open(Arc::new(Disk), folder, KEEP).unwrap()
}
fn names(folder: &Path) -> Vec<String> {
    Disk.list(folder).unwrap().into_iter().map(|e| e.name.into_string().unwrap()).collect()
}
fn steps(checkpoints: &Checkpoints) -> Vec<u64> {
    checkpoints.list().unwrap().0.iter().map(|l| l.step).collect()
}

#[test]
fn a_checkpoint_that_comes_back_changed() {
    on_reference(|| {
        let run = tempfile::tempdir().unwrap();
        let folder = run.path().join("deep/checkpoints");
        let checkpoints = open(&folder);
        assert!(checkpoints.latest().unwrap().is_none());
        let saved = checkpoints.save(&snapshot(120), Some(0.5)).unwrap();
        assert_eq!(saved.folder, folder.join("step-00000120"));
        assert_eq!(names(&saved.folder), ["manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"]);
        let found = checkpoints.latest().unwrap().unwrap();
        check(&found.snapshot, 120);
        assert_eq!((found.score, found.warnings.len()), (Some(0.5), 0));
        check(&checkpoints.load(120).unwrap().snapshot, 120);
        // The model's file is one that any reader of the format reads.
        let file = SafeTensors::open(saved.folder.join("model.safetensors")).unwrap();
        assert_eq!(file.names(), ["layer.bias", "layer.weight"]);
        assert_eq!(file.meta("layer.weight").unwrap().0, DType::F32);
    });
}

#[test]
fn the_last_and_the_best_are_not_the_ones_that_are_kept() {
    on_reference(|| {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(Arc::new(Disk), run.path(), Retention { last: 2, best: 2 }).unwrap();
        for (step, score) in [(1, Some(0.1)), (2, Some(0.9)), (3, None), (4, Some(0.5)), (5, Some(f64::NAN)), (6, Some(0.9)), (7, Some(0.2))] {
            checkpoints.save(&snapshot(step), score).unwrap();
        }
        assert_eq!(steps(&checkpoints), [2, 6, 7]);
        // Who goes back trains on from there: what was saved last is the newest, whatever its step.
        let saved = checkpoints.save(&snapshot(3), None).unwrap();
        assert_eq!(saved.removed, Vec::<u64>::new());
        check(&checkpoints.latest().unwrap().unwrap().snapshot, 3);
        assert_eq!(steps(&checkpoints), [2, 6, 7, 3]);
        // The same step again takes the place of the first.
        checkpoints.save(&snapshot(3), Some(1.0)).unwrap();
        assert_eq!(steps(&checkpoints), [2, 7, 3]);
        assert_eq!(names(run.path()), [".lock", "step-00000002", "step-00000003", "step-00000007"]);
    });
}

#[test]
fn damage_that_is_not_named_or_an_older_checkpoint_that_is_not_used() {
    on_reference(|| {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = open(run.path());
        checkpoints.save(&snapshot(10), None).unwrap();
        checkpoints.save(&snapshot(20), None).unwrap();
        let newest = run.path().join("step-00000020");
        let flip = |file: &str, at: usize| {
            let mut bytes = fs::read(newest.join(file)).unwrap();
            bytes[at] ^= 4;
            fs::write(newest.join(file), bytes).unwrap();
        };
        let cases: [(&str, usize, Option<&str>); 5] = [
            ("model.safetensors", 0, None),
            ("model.safetensors", 30, None),
            ("model.safetensors", fs::metadata(newest.join("model.safetensors")).unwrap().len() as usize - 1, Some("layer.weight")),
            ("state.json", 5, None),
            ("manifest.json", 200, None),
        ];
        for (file, at, tensor) in cases {
            flip(file, at);
            let found = checkpoints.latest().unwrap().unwrap();
            check(&found.snapshot, 10);
            let [warning] = &found.warnings[..] else { panic!("{:?}", found.warnings) };
            let CheckpointError::Damaged(damage) = &warning.error else { panic!("{warning}") };
            assert_eq!((damage.file.file_name().unwrap().to_str().unwrap(), damage.tensor.as_deref()), (file, tensor));
            assert!(damage.offset <= at as u64);
            flip(file, at);
        }
        // Cut off, removed, in place of a file a folder.
        let model = newest.join("model.safetensors");
        let whole = fs::read(&model).unwrap();
        fs::write(&model, &whole[..whole.len() - 20]).unwrap();
        let text = checkpoints.load(20).unwrap_err().to_string();
        assert!(text.contains("model.safetensors is damaged in tensor `layer.weight`"), "{text}");
        fs::remove_file(&model).unwrap();
        assert!(checkpoints.load(20).unwrap_err().to_string().ends_with("it is not there"));
        fs::create_dir(&model).unwrap();
        assert_eq!(checkpoints.latest().unwrap().unwrap().snapshot.step, 10);
        // Nothing whole is left: that is no beginning from nothing.
        fs::remove_file(run.path().join("step-00000010").join("manifest.json")).unwrap();
        assert!(matches!(checkpoints.latest(), Err(CheckpointError::NoneWhole { warnings, .. }) if warnings.len() == 2));
    });
}

#[test]
fn a_checkpoint_of_a_later_version_is_passed_over_in_silence() {
    on_reference(|| {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = open(run.path());
        checkpoints.save(&snapshot(1), None).unwrap();
        let later = run.path().join("step-00000002");
        fs::create_dir(&later).unwrap();
        let body = r#"{"version":3,"anything":[]}"#;
        fs::write(later.join("manifest.json"), format!("{{\"blake3\":\"{}\",\"manifest\":{body}}}\n", blake3::hash(body.as_bytes()).to_hex())).unwrap();
        let error = checkpoints.latest().unwrap_err();
        assert!(matches!(error, CheckpointError::Version { found: 3, known: 2, .. }), "{error}");
        assert!(error.to_string().ends_with("step-00000002/manifest.json has format version 3; this program knows versions up to 2"), "{error}");
    });
}

#[test]
fn two_runs_write_into_one_folder_or_the_lock_of_a_dead_one_stays() {
    on_reference(|| {
        let run = tempfile::tempdir().unwrap();
        let first = open(run.path());
        let error = Checkpoints::open(Arc::new(Disk), run.path(), KEEP).unwrap_err();
        let CheckpointError::Storage(error) = error else { panic!("{error}") };
        assert_eq!(error.kind, StorageErrorKind::Locked(Some(std::process::id())));
        // Who reads is not kept out.
        first.save(&snapshot(1), None).unwrap();
        check(&checkpoint::latest(&Disk, run.path()).unwrap().unwrap().snapshot, 1);
        drop(first);
        // The file that a dead process leaves holds nobody up.
        fs::write(run.path().join(".lock"), "999999\n").unwrap();
        open(run.path());
        assert!(checkpoint::latest(&Disk, &run.path().join("nothing")).unwrap().is_none());
    });
}

#[test]
fn what_an_interrupted_process_left_stays_or_takes_a_good_one_with_it() {
    on_reference(|| {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = open(run.path());
        checkpoints.save(&snapshot(1), None).unwrap();
        checkpoints.save(&snapshot(2), None).unwrap();
        drop(checkpoints);
        let at = |name: &str| run.path().join(name);
        // A half written one, a half removed one, one that was to be replaced and never was, one that was; and the user's own.
        fs::create_dir(at(".tmp-step-00000003")).unwrap();
        fs::write(at(".tmp-step-00000003/model.safetensors"), "half").unwrap();
        fs::create_dir(at(".old-step-00000000")).unwrap();
        fs::rename(at("step-00000002"), at(".was-step-00000002")).unwrap();
        fs::create_dir(at(".was-step-00000001")).unwrap();
        fs::write(at("notes.txt"), "keep").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            fs::write(run.path().join(std::ffi::OsStr::from_bytes(b"\xff\xfe")), "keep").unwrap();
            std::os::unix::fs::symlink(at("step-00000001"), at(".tmp-link")).unwrap();
        }
        let checkpoints = open(run.path());
        assert_eq!(steps(&checkpoints), [1, 2]);
        check(&checkpoints.latest().unwrap().unwrap().snapshot, 2);
        check(&checkpoints.load(1).unwrap().snapshot, 1);
        let hidden = Disk.list(run.path()).unwrap().into_iter().filter(|e| e.name.as_encoded_bytes()[0] == b'.').count();
        assert_eq!(hidden, 1, "only the lock");
        assert!(at("notes.txt").exists());
    });
}

#[test]
fn a_name_or_a_tensor_that_cannot_be_saved_leaves_something_behind() {
    on_reference(|| {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = open(run.path());
        for name in ["", "../model", "a/b", ".hidden", "modèle"] {
            let bad = Snapshot { step: 1, tensors: BTreeMap::from([(name.to_string(), vec![])]), state: serde_json::Value::Null };
            assert!(matches!(checkpoints.save(&bad, None), Err(CheckpointError::Name(n)) if n == name));
        }
        let one = Tensor::from_vec(vec![1f32], [1]);
        let failed = one.reshape([7]);
        for tensors in [vec![("a".to_string(), failed)], vec![("a".to_string(), one.clone()), ("a".to_string(), one)]] {
            let bad = Snapshot { step: 1, tensors: BTreeMap::from([("model".to_string(), tensors)]), state: serde_json::Value::Null };
            assert!(matches!(checkpoints.save(&bad, None), Err(CheckpointError::Tensor(_))));
        }
        assert_eq!(names(run.path()), [".lock"]);
    });
}

#[test]
#[cfg(unix)]
fn a_link_through_which_somebody_elses_file_is_changed() {
    use std::os::unix::fs::symlink;
    on_reference(|| {
        let (run, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let precious = elsewhere.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        // As the lock.
        symlink(&precious, run.path().join(".lock")).unwrap();
        assert!(matches!(Checkpoints::open(Arc::new(Disk), run.path(), KEEP), Err(CheckpointError::Storage(e)) if e.kind == StorageErrorKind::InTheWay));
        fs::remove_file(run.path().join(".lock")).unwrap();
        let checkpoints = open(run.path());
        // As the folder that is written next, and as a file of it.
        symlink(elsewhere.path(), run.path().join(".tmp-step-00000001")).unwrap();
        checkpoints.save(&snapshot(1), None).unwrap();
        assert_eq!(names(elsewhere.path()), ["precious"]);
        assert!(matches!(Disk.create(&run.path().join("step-00000001/state.json")), Err(e) if e.kind == StorageErrorKind::InTheWay));
        // As a checkpoint that was moved to a larger disk: it is read, and where it is retired only the link goes.
        let moved = elsewhere.path().join("moved");
        fs::rename(run.path().join("step-00000001"), &moved).unwrap();
        symlink(&moved, run.path().join("step-00000001")).unwrap();
        check(&checkpoints.latest().unwrap().unwrap().snapshot, 1);
        checkpoints.save(&snapshot(2), None).unwrap();
        assert_eq!(checkpoints.save(&snapshot(3), None).unwrap().removed, [1]);
        assert_eq!(names(&moved).len(), 4);
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        // The whole folder on another disk.
        symlink(&moved, run.path().join("linked")).unwrap();
        drop(open(&run.path().join("linked")));
    });
}

#[test]
fn a_place_where_nothing_can_be_written_is_a_panic_or_an_error_without_its_name() {
    on_reference(|| {
        let run = tempfile::tempdir().unwrap();
        let file = run.path().join("file");
        fs::write(&file, "").unwrap();
        for folder in [file.clone(), file.join("below")] {
            let error = Checkpoints::open(Arc::new(Disk), &folder, KEEP).unwrap_err();
            assert!(matches!(&error, CheckpointError::Storage(e) if e.kind == StorageErrorKind::InTheWay), "{error}");
            assert!(error.to_string().contains("file"), "{error}");
        }
        // The folder is removed under a run: nothing is made in its place, where what it held is not.
        let folder = run.path().join("checkpoints");
        let checkpoints = open(&folder);
        checkpoints.save(&snapshot(1), None).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let gone = checkpoints.save(&snapshot(2), None).unwrap_err().to_string();
        assert!(gone.contains("checkpoints: it was deleted while it was written to") && !folder.exists(), "{gone}");
    });
}

#[test]
fn an_outcome_of_the_background_is_lost_or_comes_in_another_order() {
    on_reference(|| {
        let run = tempfile::tempdir().unwrap();
        let writer = Writer::new(Checkpoints::open(Arc::new(Disk), run.path(), Retention { last: 9, best: 0 }).unwrap()).unwrap();
        let mut outcomes = Vec::new();
        for step in 1..=5 {
            outcomes.extend(writer.save(snapshot(step), None).unwrap());
        }
        outcomes.extend(writer.flush());
        let (saved, errors) = OnError::Stop.sort(outcomes).unwrap();
        assert_eq!((saved.iter().map(|s| s.step).collect::<Vec<_>>(), errors.len()), (vec![1, 2, 3, 4, 5], 0));
        // The error of one comes with a later call; those after it are saved.
        let bad = Snapshot { step: 6, tensors: BTreeMap::from([("a b".to_string(), vec![])]), state: serde_json::Value::Null };
        let mut outcomes = writer.save(bad, None).unwrap();
        outcomes.extend(writer.save(snapshot(7), None).unwrap());
        outcomes.extend(writer.flush());
        assert!(OnError::Stop.sort(outcomes.clone()).is_err());
        let (saved, errors) = OnError::Warn.sort(outcomes).unwrap();
        assert_eq!((saved.len(), errors.len()), (1, 1));
        assert!(writer.flush().is_empty());
        // What was handed over before the end is saved.
        let _ = writer.save(snapshot(8), None).unwrap();
        drop(writer);
        check(&checkpoint::latest(&Disk, run.path()).unwrap().unwrap().snapshot, 8);
    });
}
