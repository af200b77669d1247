//! Checkpoints: all that a run needs to go on, saved as one atomic unit.
//!
//! A [`Snapshot`] is values in memory; [`Checkpoints::save`] writes it as a folder `step-00000120` with one safetensors
//! file for each group of tensors, `state.json`, and `manifest.json`, which holds the length and the BLAKE3 of each file
//! and of each tensor, and its own. The folder is written under another name, each file is synced, the manifest last,
//! then the folder is renamed: under its good name it is whole. [`Checkpoints::latest`] reads the newest one, checks
//! every byte against the manifest, and falls back to the one before it if something is damaged, saying what and where.
//! Ranks that share a state out write one together, each its pieces ([`write_pieces`]); [`CheckpointReader`] reads both kinds.
//!
//! Invariants: whatever happens between two operations of the disk, the newest checkpoint whose `save` returned is found
//! again; what is damaged is never given out; nothing depends on a clock. Of two checkpoints the one that was saved later
//! is newer, whatever their steps: who goes back to step 100 and trains on goes on from there.

mod error;
mod handover;
mod manifest;
mod pieces;
mod read;
mod reader;
mod retain;
mod save;
mod stored;
mod writer;

pub use error::{CheckpointError, Damage, Warning};
pub use pieces::{PieceFiles, PieceTensor, RankShare, TensorPiece, write_pieces};
pub use read::read;
pub use reader::{CheckpointReader, NeededElements, TensorEntry};
pub use retain::Retention;
pub use writer::{OnError, Outcome, Writer};

use crate::storage::{Identity, Lock, Operation, Storage, StorageError, StorageErrorKind};
use adamant_core::Tensor;
use manifest::Manifest;
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// What checkpoints answer.
pub type Result<T> = std::result::Result<T, CheckpointError>;

/// What is to be saved. Tensors are values and never change: later steps write new values into the cells, and leave the
/// memory of those alone that a snapshot holds.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// the steps that are done
    pub step: u64,
    /// tensors by the stem of their file (`model`, `optimizer`: letters, digits, `-` and `_`), with their names
    pub tensors: BTreeMap<String, Vec<(String, Tensor)>>,
    /// everything else: random states, positions, schedules. Numbers come back to the last bit; what is not finite
    /// becomes null, as JSON has no word for it.
    pub state: serde_json::Value,
}
impl Snapshot {
    /// Computes what is pending, on the thread that recorded it, so that another one only reads.
    ///
    /// # Errors
    /// The error that a tensor carries.
    #[track_caller]
    pub fn settle(&self) -> adamant_core::Result<()> {
        self.tensors.values().flatten().try_for_each(|(_, tensor)| tensor.materialize())
    }
}

/// A checkpoint that was saved.
#[derive(Clone, Debug)]
pub struct Saved {
    /// its step
    pub step: u64,
    /// its folder
    pub folder: PathBuf,
    /// bytes of its files
    pub bytes: u64,
    /// the steps of those that were removed because others are newer or better
    pub removed: Vec<u64>,
    /// what could not be removed, or is damaged among the others; the checkpoint itself is safe
    pub warnings: Vec<Warning>,
}
/// A checkpoint that is there. Its manifest is whole; its data are checked when they are read.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// its step
    pub step: u64,
    /// counts the saves of a run: the newest has the highest
    pub sequence: u64,
    /// what it was saved with, higher is better
    pub score: Option<f64>,
    /// are all of its numbers finite?
    pub finite: bool,
    /// bytes of its files, without the manifest
    pub bytes: u64,
    /// where it is
    pub folder: PathBuf,
}
/// A checkpoint that was read back, every byte checked.
#[derive(Clone, Debug)]
pub struct Restored {
    /// what was saved
    pub snapshot: Snapshot,
    /// what it was saved with
    pub score: Option<f64>,
    /// where it is
    pub folder: PathBuf,
    /// newer ones that could not be used, and why
    pub warnings: Vec<Warning>,
}

/// The checkpoints of one run, in one folder.
///
/// ```
/// use adamant_train::{checkpoint::{Checkpoints, Retention, Snapshot}, storage::Disk};
/// use adamant_core::Tensor;
/// use std::{collections::BTreeMap, sync::Arc};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = adamant_core::Device::reference();
/// # device.scoped(|| -> Result<(), Box<dyn std::error::Error>> {
/// let run = tempfile::tempdir()?;
/// let checkpoints = Checkpoints::open(Arc::new(Disk), &run.path().join("checkpoints"), Retention { last: 2, best: 1 })?;
/// let weight = Tensor::from_vec(vec![1f32, 2.0], [2]);
/// let tensors = BTreeMap::from([("model".to_string(), vec![("weight".to_string(), weight)])]);
/// checkpoints.save(&Snapshot { step: 120, tensors, state: serde_json::json!({ "epoch": 3 }) }, Some(0.98))?;
/// let found = checkpoints.latest()?.ok_or("one was saved")?;
/// assert_eq!(found.snapshot.step, 120);
/// assert_eq!(found.snapshot.tensors["model"][0].1.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok(()) })
/// # }
/// ```
pub struct Checkpoints {
    storage: Arc<dyn Storage>,
    folder: PathBuf,
    retention: Retention,
    /// The folder that was opened: whoever deletes or renames it finds none made anew in its place.
    identity: Option<Identity>,
    /// Saves follow each other.
    saving: Mutex<()>,
    _lock: Lock,
}
impl std::fmt::Debug for Checkpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checkpoints({})", self.folder.display())
    }
}

/// How often a reader begins anew while a run is writing.
const AGAIN: usize = 10;
const TEMPORARY: &str = ".tmp-";
const RETIRED: &str = ".old-";
const REPLACED: &str = ".was-";
const MANIFEST: &str = "manifest.json";
const STATE: &str = "state.json";

impl Checkpoints {
    /// Opens a folder of checkpoints for a run that writes them, and keeps other processes from doing the same. The
    /// folder is made if need be; what an interrupted process left half done is removed.
    ///
    /// # Errors
    /// `Storage`: the folder cannot be made, read or written; another process has it open.
    pub fn open(storage: Arc<dyn Storage>, folder: &Path, retention: Retention) -> Result<Checkpoints> {
        save::make_folder(&*storage, folder)?;
        let lock = storage.lock(folder)?;
        clean(&*storage, folder)?;
        let identity = storage.identity(folder)?;
        Ok(Checkpoints { storage, folder: folder.to_path_buf(), retention, identity, saving: Mutex::new(()), _lock: lock })
    }
    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    /// Saves a snapshot, then removes those that the retention does not keep. When it returns, power may go out.
    /// One of the same step is replaced. `score`: higher is better (negate a loss); what is not finite counts as none.
    ///
    /// # Errors
    /// `Storage` (for a full disk, with the bytes that the whole checkpoint needs), `Name` or `Tensor`. Then what was
    /// there before is as it was, and nothing is left of the attempt.
    pub fn save(&self, snapshot: &Snapshot, score: Option<f64>) -> Result<Saved> {
        let _one = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        self.identity.as_ref().map_or(Ok(()), |identity| identity.check(Operation::Write))?;
        let (listed, warnings) = read::list(&*self.storage, &self.folder)?;
        let score = score.filter(|s| s.is_finite());
        let new = save::save(&*self.storage, &self.folder, snapshot, score, pieces::next_sequence(&listed))?;
        Ok(self.kept((listed, warnings), new))
    }
    /// Removes those that the retention does not keep, beside a new one.
    fn kept(&self, (listed, warnings): (Vec<Listed>, Vec<Warning>), new: Listed) -> Saved {
        let mut saved = Saved { step: new.step, folder: new.folder.clone(), bytes: new.bytes, removed: Vec::new(), warnings };
        saved.warnings.retain(|w| w.folder != new.folder);
        let all: Vec<Listed> = listed.into_iter().filter(|l| l.folder != saved.folder).chain([new]).collect();
        for old in self.retention.superfluous(&all) {
            match save::retire(&*self.storage, &self.folder, &old.folder) {
                Ok(()) => saved.removed.push(old.step),
                Err(e) => saved.warnings.push(Warning { folder: old.folder.clone(), error: e.into() }),
            }
        }
        saved
    }
    /// The newest checkpoint that is whole, on the current device; none if there is none. Those that are damaged are
    /// passed over with a warning.
    ///
    /// # Errors
    /// `NoneWhole`, if there are some and all are damaged; `Version`, if the newest is of a later version of this program
    /// (an older one in its place would lose work silently); `Storage`, if it may not be read; `Tensor`, if memory runs out.
    pub fn latest(&self) -> Result<Option<Restored>> {
        latest(&*self.storage, &self.folder)
    }
    /// The checkpoint of a step, on the current device.
    ///
    /// # Errors
    /// As [`read()`].
    pub fn load(&self, step: u64) -> Result<Restored> {
        read(&*self.storage, &self.folder.join(folder_name(step)))
    }
    /// Those that are there, the oldest first, and what stands among them and cannot be used.
    ///
    /// # Errors
    /// `Storage`, if the folder cannot be read.
    pub fn list(&self) -> Result<(Vec<Listed>, Vec<Warning>)> {
        read::list(&*self.storage, &self.folder)
    }
}

/// Those that may be read, the oldest first, and what cannot be used.
///
/// # Errors
/// `Version`: one is of a later version: it cannot be placed among the others, and is taken for the newest. `Storage`.
pub(crate) fn listed(storage: &dyn Storage, folder: &Path) -> Result<(Vec<Listed>, Vec<Warning>)> {
    let (listed, warnings) = read::list(storage, folder)?;
    match warnings.iter().find(|w| matches!(w.error, CheckpointError::Version { .. })) {
        Some(later) => Err(later.error.clone()),
        None => Ok((listed, warnings)),
    }
}
/// As [`Checkpoints::latest`], for who only reads: nothing is locked or cleaned, a run may be writing meanwhile. No folder
/// is as good as an empty one.
///
/// # Errors
/// As [`Checkpoints::latest`].
pub fn latest(storage: &dyn Storage, folder: &Path) -> Result<Option<Restored>> {
    // A run that is writing may retire what was listed before it is read; then there are newer ones.
    for _ in 0..AGAIN {
        if let Some(found) = latest_of_now(storage, folder)? {
            return Ok(found);
        }
    }
    let path = folder.to_path_buf();
    Err(StorageError { op: Operation::Read, path, kind: StorageErrorKind::Io("checkpoints are removed faster than they can be read".into()) }.into())
}
/// None if a checkpoint vanished while it was read.
fn latest_of_now(storage: &dyn Storage, folder: &Path) -> Result<Option<Option<Restored>>> {
    let (candidates, mut warnings) = match listed(storage, folder) {
        Err(CheckpointError::Storage(e)) if e.is_not_found() => return Ok(Some(None)),
        other => other?,
    };
    for candidate in candidates.iter().rev() {
        match read(storage, &candidate.folder) {
            Ok(restored) => return Ok(Some(Some(Restored { warnings, ..restored }))),
            Err(_) if read::is_gone(storage, &candidate.folder) => return Ok(None),
            Err(error) if error.is_damage() => warnings.push(Warning { folder: candidate.folder.clone(), error }),
            Err(error) => return Err(error),
        }
    }
    if warnings.is_empty() { Ok(Some(None)) } else { Err(CheckpointError::NoneWhole { folder: folder.to_path_buf(), warnings }) }
}

/// Why `state.json` is none of this program's: as short as it is said, for it may quote the file.
pub(crate) fn unfit(e: &serde_json::Error) -> String {
    const LONGEST: usize = 300;
    // What a type is called here says nothing to who has the file.
    let text = e.to_string();
    let text = match text.split_once("struct ") {
        Some((before, after)) => format!("{before}a table{}", after.trim_start_matches(|c: char| c.is_alphanumeric())),
        None => text,
    };
    let end = text.char_indices().nth(LONGEST).map_or(text.len(), |(at, _)| at);
    format!("state.json: {}{}", &text[..end], if end < text.len() { " ..." } else { "" })
}
/// The newest checkpoint in a folder by its name, unread; for messages.
pub(crate) fn newest_name(folder: &Path) -> Option<PathBuf> {
    let steps = std::fs::read_dir(folder).ok()?.filter_map(|e| step_of(&e.ok()?.file_name()));
    Some(folder.join(folder_name(steps.max()?)))
}
/// Removes what an interrupted process left, and finishes what it had decided.
fn clean(storage: &dyn Storage, folder: &Path) -> Result<()> {
    let mut changed = false;
    let entries = storage.list(folder)?;
    for entry in &entries {
        let path = folder.join(&entry.name);
        let begins = |with: &str| entry.name.as_encoded_bytes().starts_with(with.as_bytes());
        let original = entry.name.to_str().and_then(|n| n.strip_prefix(REPLACED));
        match original {
            // The one that was to replace it did not come to be.
            Some(original) if !entries.iter().any(|e| e.name == original) => storage.rename(&path, &folder.join(original))?,
            _ if !(begins(TEMPORARY) || begins(RETIRED) || begins(REPLACED)) => continue,
            _ if entry.is_dir => storage.remove_dir_all(&path)?,
            _ => storage.remove_file(&path)?,
        }
        changed = true;
    }
    if changed {
        storage.sync_dir(folder)?;
    }
    Ok(())
}

/// `step-00000120`; more digits where they are needed.
pub(crate) fn folder_name(step: u64) -> String {
    format!("step-{step:08}")
}
/// The step of a folder's name, if it is one that [`folder_name`] gives.
pub(crate) fn step_of(name: &OsStr) -> Option<u64> {
    let name = name.to_str()?;
    let step = name.strip_prefix("step-")?.parse().ok()?;
    (folder_name(step) == name).then_some(step)
}
