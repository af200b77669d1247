//! A `state.json` that somebody wrote by hand, with hashes that are right: whatever stands in it, a run that goes on from it
//! ends well or says that the file is wrong, and where.
#![allow(clippy::unwrap_used)]

use adamant_core::Device;
use adamant_train::{
    Document, Failure, Interrupt, Run, Watch,
    checkpoint::{Checkpoints, Retention, latest},
    storage::Disk,
};
use serde_json::{Value, json};
use std::{fs, path::Path, sync::Arc};

const RUN: &str = r#"
seed = 3
epochs = 3
batch = 7
log_every = 2
checkpoint = { every = 4, last = 9, background = false }
[data]
kind = "permutation"
classes = 12
rows = 30
[model]
layers = [{ kind = "Embedding", num_embeddings = 12, embedding_dim = 4 }, { kind = "Linear", in_features = 4, out_features = 12 }]
[optimizer]
kind = "Adam"
lr = 0.02
[schedule]
kind = "CosineAnnealingLR"
"#;
struct StopAt(u64, Interrupt);
impl Watch for StopAt {
    fn step(&mut self, step: u64) {
        if step == self.0 {
            self.1.ask(15);
        }
    }
}
/// Every place in a document where a value stands.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_string());
    match value {
        Value::Object(fields) => fields.iter().for_each(|(k, v)| places(v, &format!("{at}/{k}"), all)),
        Value::Array(items) => items.iter().enumerate().for_each(|(k, v)| places(v, &format!("{at}/{k}"), all)),
        _ => {}
    }
}
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
/// Without the value at a place: out of an object or a list.
fn without(state: &Value, place: &str) -> Value {
    let mut state = state.clone();
    let (parent, name) = place.rsplit_once('/').unwrap();
    match state.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.remove(name)),
        Some(Value::Array(items)) => drop(items.remove(name.parse::<usize>().unwrap())),
        _ => unreachable!("{place}"),
    }
    state
}

#[test]
fn a_forged_state_that_ends_the_run_as_if_it_had_failed() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("run");
    let document = Document::parse("run.toml", RUN).unwrap();
    let interrupt = Interrupt::new();
    let train = |at: &Path, interrupt: Interrupt, watch: &mut dyn Watch| {
        Device::reference().scoped(|| Run::new(&document).folder(at).resume(true).interrupt(interrupt).train(watch))
    };
    train(&run, interrupt.clone(), &mut StopAt(6, interrupt)).unwrap_err();
    let found = Device::reference().scoped(|| latest(&Disk, &run.join("checkpoints"))).unwrap().unwrap().snapshot;
    let mut all = Vec::new();
    places(&found.state, "", &mut all);
    let values = [
        json!(null),
        json!(-1),
        json!(u64::MAX),
        json!(1u64 << 40),
        json!(0.5),
        json!("x"),
        json!([]),
        json!({}),
        json!([[[1]]]),
        json!(true),
        json!("\u{1b}[31m"),
        json!("y".repeat(1 << 20)),
        json!(0x7ff8_0000_0000_0001u64),
    ];
    let forged = all.iter().flat_map(|at| {
        let written = values.iter().map(|value| {
            let mut state = found.state.clone();
            *state.pointer_mut(at).unwrap() = value.clone();
            state
        });
        let removed = (!at.is_empty()).then(|| without(&found.state, at));
        written.chain(removed).map(move |state| (at.clone(), state)).collect::<Vec<_>>()
    });
    let (mut tried, mut refused) = (0, 0);
    for (at, state) in forged {
        let forged = place.path().join("forged");
        let _ = fs::remove_dir_all(&forged);
        copy(&run, &forged);
        Device::reference().scoped(|| {
            let checkpoints = Checkpoints::open(Arc::new(Disk), &forged.join("checkpoints"), Retention { last: 9, best: 0 }).unwrap();
            let mut snapshot = found.clone();
            snapshot.state = state.clone();
            checkpoints.save(&snapshot, None).unwrap();
        });
        tried += 1;
        let Err(failure) = train(&forged, Interrupt::new(), &mut ()) else { continue };
        refused += 1;
        let text = failure.to_string();
        let shown = state.to_string();
        let told = format!("{at}: {:.300}: {text:.600}", shown);
        // Numbers that are in their places and make no sense are found out by what they lead to.
        let is_number = ["/hyperparameters", "/rates", "/schedule", "/loss"].iter().any(|p| at.starts_with(p));
        // A run that began with another number of steps is asked what becomes of its schedule.
        let is_length = at == "/run/reach" && matches!(failure, Failure::Usage(_));
        assert!(matches!(failure, Failure::Input(_)) || is_length || is_number && matches!(failure, Failure::Diverged(_)), "{} {told}", failure.kind());
        for debug in [" { ", "Some(", "None", "LoaderState", "Shuffle", "crates/"] {
            assert!(!text.contains(debug), "{debug} in {told}");
        }
        assert!(text.len() < 1000 && !text.contains('\u{1b}'), "{} bytes: {told}", text.len());
    }
    assert!(tried > 300 && refused > tried / 2, "{refused} of {tried}");
}
