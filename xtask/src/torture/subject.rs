//! What is tortured: a small model with its optimizer's slots, in the state of a given step, and the check that what is
//! found again is that state to the last bit.
use adamant_core::{DType, Tensor};
use adamant_train::{
    checkpoint::{Checkpoints, Restored, Retention, Snapshot, Warning},
    storage::{Entry, Storage},
};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// Where the checkpoints are on a simulated disk.
pub const FOLDER: &str = "/run/checkpoints";

/// The state of a step; `flavour` tells two states of one step apart. About 6 KB in three files.
pub fn snapshot(step: u64, flavour: u64) -> Snapshot {
    let values = |n: usize, of: u64| (0..n).map(|i| ((i as u64 + 31 * step + 7 * flavour + of) % 251) as f32 / 8.0).collect::<Vec<f32>>();
    let tensor = |name: &str, shape: &[usize], of: u64| (name.to_string(), Tensor::from_vec(values(shape.iter().product(), of), shape));
    let shapes: [(&str, &[usize]); 4] = [("0.weight", &[16, 24]), ("0.bias", &[16]), ("2.weight", &[10, 16]), ("2.bias", &[10])];
    let model: Vec<(String, Tensor)> = shapes.iter().map(|(name, shape)| tensor(name, shape, 0)).collect();
    let slot = |slot: &'static str, of: u64| shapes.iter().map(move |(name, shape)| tensor(&format!("{name}.{slot}"), shape, of));
    let mut optimizer: Vec<(String, Tensor)> = slot("exp_avg", 1).chain(slot("exp_avg_sq", 2)).collect();
    // Lengths that are no multiple of anything.
    optimizer.push(("mask".to_string(), Tensor::from_vec(values(7, 3), [7]).cast(DType::U8)));
    optimizer.push(("steps".to_string(), Tensor::from_vec(vec![step as i64], [1])));
    let state = serde_json::json!({ "epoch": step / 10, "flavour": flavour, "lr": 0.1 / (step + 1) as f64, "rng": [u64::MAX - step, step] });
    Snapshot { step, tensors: BTreeMap::from([("model".to_string(), model), ("optimizer".to_string(), optimizer)]), state }
}
/// Is it that state, to the last bit?
pub fn same(found: &Snapshot, want: &Snapshot) -> Result<(), String> {
    let differs = |what: &str| Err(format!("step {} came back with another {what}", want.step));
    if (found.step, &found.state) != (want.step, &want.state) || found.tensors.len() != want.tensors.len() {
        return differs("state");
    }
    for (stem, tensors) in &want.tensors {
        let there: BTreeMap<&str, &Tensor> = found.tensors.get(stem).into_iter().flatten().map(|(n, t)| (n.as_str(), t)).collect();
        if there.len() != tensors.len() {
            return differs(stem);
        }
        for (name, tensor) in tensors {
            let Some(other) = there.get(name.as_str()) else { return differs(name) };
            let bytes = |t: &Tensor| t.to_bytes().map_err(|e| e.to_string());
            if other.try_meta().ok() != tensor.try_meta().ok() || bytes(other)? != bytes(tensor)? {
                return differs(name);
            }
        }
    }
    Ok(())
}
/// Opens the folder as a run does that keeps its last two.
pub fn open(storage: impl Storage + 'static, folder: &Path) -> Result<Checkpoints, String> {
    Checkpoints::open(Arc::new(storage), folder, Retention { last: 2, best: 0 }).map_err(|e| e.to_string())
}
/// The newest one; an error if there is none.
pub fn newest(checkpoints: &Checkpoints) -> Result<Restored, String> {
    checkpoints.latest().map_err(|e| e.to_string())?.ok_or_else(|| "no checkpoint is left".into())
}
/// No name that only a write in progress may have.
pub fn no_temporaries(storage: &dyn Storage, folder: &Path) -> Result<(), String> {
    let is_left = |e: &&Entry| e.name.as_encoded_bytes().first() == Some(&b'.') && e.name != ".lock";
    match storage.list(folder).map_err(|e| e.to_string())?.iter().find(is_left) {
        Some(left) => Err(format!("{} was left", left.name.display())),
        None => Ok(()),
    }
}
/// Warnings as one line.
pub fn told(warnings: &[Warning]) -> String {
    warnings.iter().map(Warning::to_string).collect::<Vec<_>>().join("; ")
}
