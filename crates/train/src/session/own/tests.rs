//! A state that some ranks have saved, on other ranks that share out something else: the same bits, before any step. What is right is what one rank saves
//! that shares out nothing.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::{
    Document, Habits, Look, StepSharing,
    checkpoint::{CheckpointReader, Checkpoints, PieceFiles, Retention, write_pieces},
    optimizer,
    session::Course,
    storage::Disk,
};
use adamant_amp::Precision;
use adamant_conformance::ranks::group_of;
use adamant_core::{
    Device,
    communicator::{self, Communicator},
};
use adamant_nn::{BatchNorm1d, Linear, Module, Sequential, manual_seed};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

type Pairs = Session<Sequential, (Tensor, Tensor)>;
/// Parts of a step, at least one for each rank.
const PARTS: usize = 8;
const STEPS: u64 = 3;
/// Of a parameter that several ranks have, and of others that one has.
const WIDTH: usize = 4000;

fn session(kind: &str, seed: u64, width: usize) -> Pairs {
    let text = format!("[optimizer]\nkind = \"{kind}\"\nlr = 0.05\n");
    let document = Document::parse("run.toml", &text).unwrap();
    manual_seed(seed);
    let model = Sequential::new().add(Linear::new(5, width).unwrap()).add(BatchNorm1d::new(width).unwrap()).add(Linear::new(width, 2).unwrap());
    let habits = Habits {
        optimizer: optimizer(document.root().unwrap().section("optimizer").unwrap().unwrap(), model.parameters()).unwrap(),
        course: Course::Constant,
        clip: None,
        stability: None,
        accumulate: 1,
        ema: Some(0.8),
        capture: false,
        precision: Precision::default(),
    };
    let loss = |m: &Sequential, (x, y): &(Tensor, Tensor)| (m.forward(x)? - y).square().mean(..).ok();
    Session::new(model, Arc::new(loss), habits, Device::reference()).unwrap()
}
fn batch(step: u64, part: usize) -> (Tensor, Tensor) {
    let values = |n: u64, of: u64| (0..n).map(|i| ((i * 7 + step * 3 + part as u64 * 5 + of) % 11) as f32 / 5.0 - 1.0).collect::<Vec<f32>>();
    (Tensor::from_vec(values(10, 0), [2, 5]), Tensor::from_vec(values(4, 4), [2, 2]))
}
fn on_ranks<R: Send>(ranks: usize, run: impl Fn(usize, Arc<dyn Communicator>) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let run = &run;
        let started: Vec<_> =
            group_of(ranks).into_iter().enumerate().map(|(rank, group)| scope.spawn(move || Device::reference().scoped(|| run(rank, group)))).collect();
        started.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
fn shared(session: &mut Pairs, group: &Arc<dyn Communicator>, zero: usize) -> StepSharing {
    let zero = ZeroStage::from_number(zero).unwrap();
    let sharing = StepSharing { group: communicator::group(group), parts: PARTS, bucket_bytes: 1 << 14, zero, compress: None };
    session.share(sharing.clone()).unwrap();
    sharing
}
/// What of a session stands in a folder of checkpoints, written by all ranks or by the first.
fn write(session: &mut Pairs, rank: usize, checkpoints: &Checkpoints) -> Option<PieceFiles> {
    let snapshot = session.snapshot(serde_json::Value::Null).unwrap();
    snapshot.settle().unwrap();
    if session.shares_out() {
        return Some(write_pieces(&Disk, checkpoints.folder(), STEPS, rank, &session.share_of(&snapshot).unwrap()).unwrap());
    }
    if rank == 0 {
        checkpoints.save(&snapshot, None).unwrap();
    }
    None
}
fn finished(checkpoints: &Checkpoints, written: Vec<Option<PieceFiles>>, state: &serde_json::Value) -> PathBuf {
    if let Some(files) = written.into_iter().collect::<Option<Vec<_>>>() {
        checkpoints.finish_together(STEPS, state, None, files).unwrap();
    }
    checkpoints.folder().join("step-00000003")
}
fn open(folder: &Path) -> Checkpoints {
    let checkpoints = Checkpoints::open(Arc::new(Disk), folder, Retention { last: 1, best: 0 }).unwrap();
    checkpoints.begin_together(STEPS).unwrap();
    checkpoints
}
/// The bytes of all tensors.
fn all(folder: &Path) -> Vec<(TensorEntry, Vec<u8>)> {
    let mut reader = CheckpointReader::open(&Disk, folder).unwrap();
    let entries: Vec<_> = reader.groups().iter().flat_map(|group| reader.entries(group)).collect();
    entries.into_iter().map(|entry| (entry.clone(), reader.bytes(&entry.group, &entry.name, 0..entry.shape.elements()).unwrap())).collect()
}
/// Learns on so many ranks, and saves.
fn saved(kind: &str, (ranks, zero): (usize, usize), folder: &Path) -> PathBuf {
    let checkpoints = open(folder);
    let written = on_ranks(ranks, |rank, group| {
        let mut session = session(kind, 1, WIDTH);
        let sharing = shared(&mut session, &group, zero);
        for step in 0..STEPS {
            session.assign((0..sharing.held().len()).collect(), 1);
            let batches: Vec<_> = sharing.held().map(|part| batch(step, part)).collect();
            session.step(&batches, Look::default()).unwrap();
        }
        let state = session.snapshot(serde_json::Value::Null).unwrap().state;
        (write(&mut session, rank, &checkpoints), state)
    });
    let (written, states): (Vec<_>, Vec<_>) = written.into_iter().unzip();
    assert!(states.iter().all(|state| *state == states[0]));
    finished(&checkpoints, written, &states[0])
}
#[test]
fn a_state_that_is_another_one_on_other_ranks() {
    let place = tempfile::tempdir().unwrap();
    for (k, kind) in ["AdamW", "SGD"].into_iter().enumerate() {
        let at = |name: String| place.path().join(format!("{kind}-{name}"));
        let reference = saved(kind, (1, 0), &at("alone".into()));
        let want = all(&reference);
        let of: BTreeSet<&str> = want.iter().map(|(entry, _)| entry.group.as_str()).collect();
        assert!(["ema", "model", "optimizer"].iter().all(|group| of.contains(group)), "{of:?}");
        for from in 0..=3 {
            let folder = saved(kind, (4, from), &at(format!("zero-{from}")));
            assert!(all(&folder) == want, "{kind}: what 4 ranks save with zero = {from}");
            let pairs = [1, 2, 3, 8].into_iter().flat_map(|ranks| (0..=3).map(move |zero| (ranks, zero)));
            // All pairs of one, some of the other.
            for (ranks, zero) in pairs.filter(|(ranks, zero)| k == 0 || (ranks + zero + from) % 4 == 0) {
                let again = open(&at(format!("{from}-{zero}-on-{ranks}")));
                let written = on_ranks(ranks, |rank, group| {
                    let mut session = session(kind, 2, WIDTH);
                    shared(&mut session, &group, zero);
                    let reader = CheckpointReader::open(&Disk, &folder).unwrap();
                    let restored = reader.restore(session.device(), &*session.needs()).unwrap().snapshot;
                    if zero == 3 && ranks == 8 {
                        let elements: usize =
                            ["model", "optimizer"].iter().flat_map(|g| restored.tensors.get(*g)).flatten().map(|(_, t)| t.shape().unwrap().elements()).sum();
                        let most: usize = want.iter().filter(|(e, _)| e.group != "ema").map(|(e, _)| e.shape.elements()).sum();
                        // Chunks more or less, and buffers, which all have.
                        assert!(elements < most / 2, "rank {rank} has read {elements} of {most} elements");
                    }
                    session.restore(&restored).unwrap();
                    let state = session.snapshot(serde_json::Value::Null).unwrap().state;
                    (write(&mut session, rank, &again), state)
                });
                let (written, states): (Vec<_>, Vec<_>) = written.into_iter().unzip();
                let folder = finished(&again, written, &states[0]);
                assert!(all(&folder) == want, "{kind}: saved on 4 with zero = {from}, on {ranks} with zero = {zero}");
                let state = |folder: &Path| CheckpointReader::open(&Disk, folder).unwrap().state().unwrap();
                assert_eq!(state(&folder), state(&reference), "{from} to {zero} on {ranks}");
            }
        }
    }
}
#[test]
fn a_checkpoint_of_another_model() {
    let place = tempfile::tempdir().unwrap();
    let folder = saved("AdamW", (3, 3), &place.path().join("saved"));
    for zero in 0..=3 {
        for said in on_ranks(2, |_, group| {
            let mut session = session("AdamW", 1, WIDTH - 1);
            shared(&mut session, &group, zero);
            let restored = CheckpointReader::open(&Disk, &folder).unwrap().restore(session.device(), &*session.needs()).unwrap();
            session.restore(&restored.snapshot).unwrap_err().to_string()
        }) {
            assert!(said.contains("the checkpoint of step 3") && said.contains("shape"), "zero = {zero}: {said}");
        }
    }
}
