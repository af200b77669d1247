//! What ranks share out beside the rows changes no bit: runs of all optimizers, kinds of clipping and schedules end in the files of a run
//! that shares out nothing, on any number of ranks, and go on from each other's checkpoints.
#![allow(clippy::unwrap_used)]

mod ranked;
mod schedules;

use adamant_backend_cpu as _;
use adamant_train::{Failure, OPTIMIZERS, SCHEDULES, checkpoint::CheckpointReader, storage::Disk};
use ranked::train;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Weights, lines, and all tensors of the newest checkpoint, whoever wrote them.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = ["weights.safetensors", "metrics.jsonl"].map(|name| (name.to_string(), fs::read(folder.join(name)).unwrap())).to_vec();
    let newest = fs::read_dir(folder.join("checkpoints")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).max().unwrap();
    let mut reader = CheckpointReader::open(&Disk, &newest).unwrap();
    let entries: Vec<_> = reader.groups().iter().flat_map(|group| reader.entries(group)).collect();
    for entry in entries {
        let bytes = reader.bytes(&entry.group, &entry.name, 0..entry.shape.elements()).unwrap();
        all.push((format!("{}/{} {} {}", entry.group, entry.name, entry.dtype, entry.shape), bytes));
    }
    all
}
fn set(shards: usize, stage: usize, capture: bool, bucket: &str) -> Vec<String> {
    vec![
        format!("distributed.shards={shards}"),
        format!("distributed.zero={stage}"),
        format!("capture={capture}"),
        format!("distributed.bucket_mb={bucket}"),
        "checkpoint.every=4".into(),
    ]
}
/// Rules that look at a parameter as a whole.
const WHOLE: [&str; 4] = ["Adafactor", "LAMB", "Muon", "SparseAdam"];
/// Why a stage is refused for a description, if it is to be.
fn refusal(text: &str, stage: usize) -> Option<&'static str> {
    let kind = text.split("[optimizer]\nkind = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let clip = text.lines().find(|line| line.starts_with("clip = ")).unwrap_or_default();
    if stage > 0 && WHOLE.iter().any(|whole| kind.eq_ignore_ascii_case(whole)) {
        Some("looks at each parameter as a whole")
    } else if stage > 0 && kind == "LBFGS" {
        Some("has no `share_out`")
    } else if stage > 1 && (clip.contains("percentile") || clip.contains("agc")) {
        Some("looks at gradients as a whole")
    } else {
        None
    }
}
/// Parameters that are cut between ranks, beside small ones that are not.
fn wider(text: &str, k: usize) -> String {
    let width = [8, 700, 1500][k % 3];
    text.replace("embedding_dim = 8", &format!("embedding_dim = {width}"))
        .replace("num_features = 8", &format!("num_features = {width}"))
        .replace("in_features = 8", &format!("in_features = {width}"))
}
#[test]
fn bits_that_depend_on_what_is_shared_out() {
    let place = tempfile::tempdir().unwrap();
    let (mut shared, mut refused) = (0, 0);
    for k in 0..OPTIMIZERS.len().max(SCHEDULES.len()) {
        let text = wider(&schedules::drawn_run(k), k);
        let shards = if text.contains("BatchNorm") { 3 } else { [3, 4][k % 2] };
        let at = |name: &str| place.path().join(format!("{k}-{name}"));
        let end = |name: &str, ranks: usize, set: &[String]| {
            for (rank, done) in train(&text, ranks, set, &at(name), None).into_iter().enumerate() {
                done.unwrap_or_else(|e| panic!("rank {rank} of {ranks}, {set:?}: {e}\n{text}"));
            }
            files(&at(name))
        };
        let alone = end("alone", 1, &set(shards, 0, true, "25"));
        for stage in 1..=3 {
            let ranks = [2, 3][(k + stage) % 2];
            let set = set(shards, stage, (k + stage) % 3 != 0, ["1", "25"][k % 2]);
            let name = format!("zero {stage} on {ranks}");
            if let Some(told) = refusal(&text, stage) {
                for done in train(&text, ranks, &set, &at(&name), None) {
                    let error = done.expect_err(&text).to_string();
                    assert!(error.contains(told), "{error}\n{text}");
                }
                refused += 1;
                continue;
            }
            let ended = end(&name, ranks, &set);
            assert_eq!(alone.len(), ended.len(), "stage {stage} on {ranks} ranks saves other tensors, of\n{text}");
            for (want, got) in alone.iter().zip(&ended) {
                assert!(want == got, "{} of stage {stage} on {ranks} ranks, of\n{text}", want.0);
            }
            shared += 1;
        }
    }
    assert!(shared > 20 && refused > 3, "{shared} shared, {refused} refused");
}
#[test]
fn runs_go_on_from_each_others_checkpoints() {
    let place = tempfile::tempdir().unwrap();
    for k in [0, 1, 3, 4] {
        let text = wider(&schedules::drawn_run(k), k + 1);
        if (1..=3).any(|stage| refusal(&text, stage).is_some()) {
            continue;
        }
        let at = |name: &str| place.path().join(format!("{k}-{name}"));
        let shards = if text.contains("BatchNorm") { 3 } else { 4 };
        for done in train(&text, 1, &set(shards, 0, true, "25"), &at("alone"), None) {
            done.unwrap();
        }
        for (from, to) in [(0, 3), (3, 0), (1, 2), (2, 1), (3, 3), (2, 3)] {
            let name = format!("{from} to {to}");
            let ended = train(&text, 3, &set(shards, from, true, "1"), &at(&name), Some(5));
            assert!(ended.iter().all(|done| matches!(done, Err(Failure::Interrupted { step: 5, .. }))), "{name}: {ended:?}\n{text}");
            // A stage is part of how a run is carried out, not of what it computes.
            for done in train(&text, 2, &set(shards, to, false, "25"), &at(&name), None) {
                done.unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
            }
            let (want, got) = (files(&at("alone")), files(&at(&name)));
            assert!(want[..2] == got[..2], "{name}, of\n{text}");
        }
    }
}
/// The checkpoints of a run, the oldest first.
fn checkpoints(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder.join("checkpoints")).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = all.filter(|path| path.is_dir()).collect();
    all.sort();
    all
}
#[test]
fn a_damaged_piece_that_one_rank_alone_needs() {
    let place = tempfile::tempdir().unwrap();
    let text = wider(&schedules::drawn_run(0), 2);
    let at = |name: &str| place.path().join(name);
    let shards = if text.contains("BatchNorm") { 3 } else { 4 };
    let set = |zero: usize| [set(shards, zero, true, "1"), vec!["checkpoint.last=9".into(), "checkpoint.every=2".into()]].concat();
    for done in train(&text, 1, &set(0), &at("alone"), None) {
        done.unwrap();
    }
    for (k, (from, to)) in [(1, 2), (3, 3), (2, 0)].into_iter().enumerate() {
        let run = at(&format!("run-{k}"));
        let ended = train(&text, 3, &set(from), &run, Some(7));
        assert!(ended.iter().all(|done| matches!(done, Err(Failure::Interrupted { .. }))), "{ended:?}");
        let all = checkpoints(&run);
        // The last bytes of a rank's file: of a slot.
        let newest = fs::read_dir(all.last().unwrap()).unwrap().map(|e| e.unwrap().path());
        let file = newest.filter(|path| path.to_string_lossy().contains("optimizer.rank-")).max().unwrap();
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 64;
        fs::write(&file, bytes).unwrap();
        for done in train(&text, 2, &set(to), &run, None) {
            let report = done.unwrap_or_else(|e| panic!("{from} to {to}: {e}\n{text}"));
            let step: u64 = all[all.len() - 2].file_name().unwrap().to_string_lossy()["step-".len()..].parse().unwrap();
            assert_eq!(report.resumed, Some(step));
        }
        let (want, got) = (files(&at("alone")), files(&run));
        assert!(want[..2] == got[..2], "{from} to {to}, of\n{text}");
    }
    // None is whole: all ranks end, and nothing is learned.
    let run = at("none");
    train(&text, 2, &set(2), &run, Some(5));
    for folder in checkpoints(&run) {
        fs::remove_file(folder.join("state.json")).unwrap();
    }
    for done in train(&text, 2, &set(1), &run, None) {
        let error = done.unwrap_err().to_string();
        assert!(error.contains("state.json is damaged, from byte 0: it is not there"), "{error}");
    }
}
#[test]
fn stages_that_there_are_not() {
    let place = tempfile::tempdir().unwrap();
    for (set, told) in [
        (vec!["distributed.zero=4"], "it is 0, 1, 2 or 3"),
        (vec!["distributed.zero=-1"], "zero"),
        (vec!["distributed.zero=2", "stability.handling_type=replace"], "looks at gradients as a whole"),
    ] {
        let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
        for done in train(&schedules::drawn_run(0), 2, &set, &place.path().join("refused"), None) {
            let error = done.unwrap_err().to_string();
            assert!(error.contains(told), "{set:?}: {error}");
        }
    }
}
