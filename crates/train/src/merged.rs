//! One safetensors file of a checkpoint, however many files it consists of: what PyTorch and others read.
//!
//! Names are those of the model's state dict, which are PyTorch's. One tensor is in memory at a time. Must not know who wrote the checkpoint.
use crate::{
    Failure,
    checkpoint::{CheckpointError, CheckpointReader, Listed, TensorEntry, listed},
    folder::text_of,
    storage::{Disk, Operation, StorageError, check_output},
};
use adamant_core::{Device, Meta};
use adamant_formats::{safetensors::Layout, whole};
use serde_json::json;
use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
};

/// Which checkpoint of a run is merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeFrom {
    /// the newest that is whole
    #[default]
    Newest,
    /// the one with the highest score, of several the earliest
    Best,
    /// that of a step
    Step(u64),
}
/// What is merged, and into what.
#[derive(Clone, Debug, Default)]
pub struct MergeOptions {
    /// of which checkpoint
    pub from: MergeFrom,
    /// the file; none: `merged.safetensors` in the run's folder
    pub out: Option<PathBuf>,
    /// the optimizer's slots too, as `optimizer.NAME`, and the running means of the weights, as `ema.NAME`
    pub slots: bool,
    /// may a file that is there be replaced?
    pub force: bool,
}
/// What was merged.
#[derive(Clone, Debug)]
pub struct MergedEnd {
    /// the file
    pub out: PathBuf,
    /// the checkpoint's folder
    pub from: PathBuf,
    /// its step
    pub step: u64,
    /// the ranks that had written it together; none: one process
    pub ranks: Option<u64>,
    /// how many tensors there are
    pub tensors: usize,
    /// the file's bytes
    pub bytes: u64,
    /// newer checkpoints that could not be used, and why
    pub warnings: Vec<String>,
}
impl MergedEnd {
    /// As a JSON document.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "out": text_of(&self.out), "from": text_of(&self.from), "step": self.step, "ranks": self.ranks, "tensors": self.tensors, "bytes": self.bytes,
            "warnings": self.warnings,
        })
    }
}
/// Groups of tensors that are merged beside the model, which stand before their names.
const BESIDE: [&str; 2] = ["optimizer", "ema"];

/// Writes the weights (and slots) of a run's checkpoint into one file, whole or not at all.
///
/// # Errors
/// `Usage`: the file is there already, there is no such checkpoint; `Input`: it is damaged, with the file and the tensor; `Storage`.
///
/// ```
/// # use adamant_core::{Device, Tensor};
/// # use adamant_train::{checkpoint::{Checkpoints, Retention, Snapshot}, merged::{MergeOptions, merge}, storage::Disk};
/// # use std::{collections::BTreeMap, sync::Arc};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # Device::reference().scoped(|| -> Result<(), Box<dyn std::error::Error>> {
/// # let run = tempfile::tempdir()?;
/// # let checkpoints = Checkpoints::open(Arc::new(Disk), &run.path().join("checkpoints"), Retention { last: 2, best: 1 })?;
/// # let tensors = BTreeMap::from([("model".to_string(), vec![("weight".to_string(), Tensor::ones([2]))])]);
/// # checkpoints.save(&Snapshot { step: 120, tensors, state: serde_json::json!({}) }, None)?;
/// # let run = run.path();
/// let done = merge(run, &MergeOptions::default())?;
/// assert_eq!((done.step, done.tensors), (120, 1));
/// let weights = adamant_formats::safetensors::load(run.join("merged.safetensors"))?;
/// assert_eq!(weights[0].0, "weight");
/// assert!(merge(run, &MergeOptions::default()).is_err_and(|e| e.to_string().contains("is there already")));
/// # Ok(()) })
/// # }
/// ```
pub fn merge(run: &Path, options: &MergeOptions) -> Result<MergedEnd, Failure> {
    let out = options.out.clone().unwrap_or_else(|| run.join("merged.safetensors"));
    if out.exists() && !options.force {
        return Err(Failure::Usage(format!("{} is there already: name another file, or replace it by `--force`", out.display())));
    }
    check_output(&out)?;
    let mut warnings = Vec::new();
    for candidate in candidates(run, options.from, &mut warnings)? {
        match merged(&candidate.folder, &out, options) {
            Ok(done) => return Ok(MergedEnd { warnings, ..done }),
            Err(MergeStop::Checkpoint(e)) if e.is_damage() && options.from == MergeFrom::Newest => {
                warnings.push(format!("checkpoint {}: {e}", candidate.folder.display()));
            }
            Err(MergeStop::Checkpoint(e)) => return Err(e.into()),
            Err(MergeStop::Out(e)) => return Err(e),
        }
    }
    Err(Failure::Input(format!("no checkpoint in {} is whole: {}", run.display(), warnings.join("; "))))
}
/// Those that may be merged, in the order in which they are tried.
fn candidates(run: &Path, from: MergeFrom, warnings: &mut Vec<String>) -> Result<Vec<Listed>, Failure> {
    let folder = run.join("checkpoints");
    let (mut found, damaged) = match listed(&Disk, &folder) {
        Err(CheckpointError::Storage(e)) if e.is_not_found() => return Err(Failure::Input(format!("{} has no checkpoints", run.display()))),
        other => other?,
    };
    warnings.extend(damaged.iter().map(ToString::to_string));
    found.reverse();
    if found.is_empty() && warnings.is_empty() {
        return Err(Failure::Input(format!("{} has no checkpoints yet", run.display())));
    }
    let steps = || found.iter().rev().map(|l| l.step.to_string()).collect::<Vec<_>>().join(", ");
    let chosen = match from {
        MergeFrom::Newest => return Ok(found),
        MergeFrom::Step(step) => {
            found.iter().find(|l| l.step == step).ok_or_else(|| format!("there is no checkpoint of step {step}; there are those of {}", steps()))
        }
        MergeFrom::Best => {
            let scored = found.iter().filter_map(|l| Some((l.score?, l)));
            let best = scored.max_by(|(a, x), (b, y)| a.total_cmp(b).then(y.sequence.cmp(&x.sequence)));
            best.map(|(_, l)| l).ok_or_else(|| "no checkpoint has a score: nothing was validated in their steps; name one by its step".to_string())
        }
    };
    chosen.cloned().map(|one| vec![one]).map_err(|text| Failure::Usage(format!("{}: {text}", run.display())))
}
/// What a merge ends with.
enum MergeStop {
    Checkpoint(CheckpointError),
    Out(Failure),
}
fn merged(folder: &Path, out: &Path, options: &MergeOptions) -> Result<MergedEnd, MergeStop> {
    let mut reader = CheckpointReader::open(&Disk, folder).map_err(MergeStop::Checkpoint)?;
    let mut entries: BTreeMap<String, TensorEntry> = reader.entries("model").into_iter().map(|entry| (entry.name.clone(), entry)).collect();
    for group in BESIDE.iter().filter(|_| options.slots) {
        for entry in reader.entries(group) {
            let name = format!("{group}.{}", entry.name);
            if let Some(other) = entries.insert(name.clone(), entry) {
                return Err(MergeStop::Out(Failure::Usage(format!("two tensors would be called `{name}`, one of `{}`: leave out the slots", other.group))));
            }
        }
    }
    let metas = entries.iter().map(|(name, entry)| (name.clone(), Meta { dtype: entry.dtype, shape: entry.shape, device: Device::reference() }));
    let texts = BTreeMap::from([("format".to_string(), "pt".to_string())]);
    let layout = Layout::of(out, metas, &texts).map_err(|e| MergeStop::Out(e.into()))?;
    let io = |e: std::io::Error| MergeStop::Out(StorageError::of(Operation::Write, out, layout.bytes(), &e).into());
    whole::replace(out, io, |file| {
        file.write_all(layout.header()).map_err(io)?;
        for entry in layout.places().iter().filter_map(|place| entries.get(&place.name)) {
            let bytes = reader.bytes(&entry.group, &entry.name, 0..entry.shape.elements()).map_err(MergeStop::Checkpoint)?;
            file.write_all(&bytes).map_err(io)?;
        }
        Ok(())
    })?;
    Ok(MergedEnd {
        out: out.to_path_buf(),
        from: folder.to_path_buf(),
        step: reader.step(),
        ranks: reader.ranks(),
        tensors: entries.len(),
        bytes: layout.bytes(),
        warnings: Vec::new(),
    })
}
