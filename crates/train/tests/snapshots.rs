//! A snapshot is of the moment it was taken, on the CPU backend, where steps write parameters in place.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// Linked for the device it registers.
use adamant_backend_cpu as _;
use adamant_core::{Device, Tensor};
use adamant_nn::{Linear, Module, Relu, Sequential, Walk, manual_seed};
use adamant_optim::{AdamW, Optimizer, UpdateRule, Updater};
use adamant_train::{
    checkpoint::{Checkpoints, OnError, Retention, Snapshot, Writer},
    storage::{Entry, Lock, NewFile, OpenFile, Result as Stored, Storage, simulated::Simulated},
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Condvar, Mutex},
};

/// A disk that makes no file until the gate is opened.
struct Gated {
    disk: Simulated,
    gate: Arc<(Mutex<bool>, Condvar)>,
}
impl Storage for Gated {
    fn create_dir_all(&self, path: &Path) -> Stored<()> {
        self.disk.create_dir_all(path)
    }
    fn create(&self, path: &Path) -> Stored<Box<dyn NewFile>> {
        let (open, changed) = &*self.gate;
        drop(changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
        self.disk.create(path)
    }
    fn open(&self, path: &Path) -> Stored<Box<dyn OpenFile>> {
        self.disk.open(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Stored<()> {
        self.disk.rename(from, to)
    }
    fn sync_dir(&self, path: &Path) -> Stored<()> {
        self.disk.sync_dir(path)
    }
    fn list(&self, path: &Path) -> Stored<Vec<Entry>> {
        self.disk.list(path)
    }
    fn remove_file(&self, path: &Path) -> Stored<()> {
        self.disk.remove_file(path)
    }
    fn remove_dir_all(&self, path: &Path) -> Stored<()> {
        self.disk.remove_dir_all(path)
    }
    fn free(&self, path: &Path) -> Option<u64> {
        self.disk.free(path)
    }
    fn lock(&self, folder: &Path) -> Stored<Lock> {
        self.disk.lock(folder)
    }
}

fn step(model: &Sequential, optimizer: &mut Updater<AdamW>) {
    let x = Tensor::from_vec((0..8 * 5).map(|i| (i % 7) as f32 - 3.0).collect(), [8, 5]);
    let loss = model.forward(&x).unwrap().square().mean(..);
    optimizer.step(&loss.backward().unwrap()).unwrap();
}
fn state(model: &Sequential, optimizer: &Updater<AdamW>) -> BTreeMap<String, Vec<(String, Tensor)>> {
    BTreeMap::from([("model".to_string(), model.state_dict()), ("optimizer".to_string(), optimizer.state_dict())])
}
fn bytes(tensors: &BTreeMap<String, Vec<(String, Tensor)>>) -> BTreeMap<String, Vec<u8>> {
    tensors.values().flatten().map(|(name, t)| (name.clone(), t.to_bytes().unwrap())).collect()
}

#[test]
fn a_step_after_the_call_that_changes_what_is_saved() {
    Device::cpu().unwrap().scoped(|| {
        manual_seed(1);
        let model = Sequential::new().add(Linear::new(5, 16).unwrap()).add(Relu::new()).add(Linear::new(16, 3).unwrap());
        let mut optimizer = AdamW::new(1e-2).over(model.parameters());
        let disk = Simulated::new();
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let storage = Arc::new(Gated { disk: disk.clone(), gate: gate.clone() });
        let writer = Writer::new(Checkpoints::open(storage, Path::new("/c"), Retention { last: 9, best: 0 }).unwrap()).unwrap();
        for _ in 0..3 {
            step(&model, &mut optimizer);
        }
        // Copies of the bytes are taken first, so that the snapshot below holds the same values as the cells do.
        let at_three = bytes(&state(&model, &optimizer));
        assert!(writer.save(Snapshot { step: 3, tensors: state(&model, &optimizer), state: serde_json::Value::Null }, None).unwrap().is_empty());
        for _ in 0..5 {
            step(&model, &mut optimizer);
        }
        let at_eight = bytes(&state(&model, &optimizer));
        assert_ne!(at_three, at_eight);
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        // The next one waits for the one before, and says what came of it.
        let mut outcomes = writer.save(Snapshot { step: 8, tensors: state(&model, &optimizer), state: serde_json::Value::Null }, None).unwrap();
        assert_eq!(outcomes.len(), 1);
        step(&model, &mut optimizer);
        outcomes.extend(writer.flush());
        let (saved, _) = OnError::Stop.sort(outcomes).unwrap();
        assert_eq!(saved.len(), 2);
        for (step, want) in [(3, at_three), (8, at_eight)] {
            assert_eq!(bytes(&writer.checkpoints().load(step).unwrap().snapshot.tensors), want, "step {step}");
        }
    });
}
