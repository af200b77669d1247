//! Checkpoints that ranks write together: each writes its own pieces, and nobody holds the whole.
//!
//! ```text
//! the leader     begin_together  -> .tmp-step-00000120/
//! each rank      write_pieces    -> .tmp-step-00000120/{model,optimizer,..}.rank-3.safetensors, synced     -> PieceFiles (hashes)
//! the leader     finish_together -> state.json, then manifest.json with all PieceFiles, synced; the folder gets its name
//! ```
//!
//! Between these steps ranks tell each other whether all went well; if not, the leader calls [`Checkpoints::give_up_together`], and nothing is left. As
//! with a checkpoint that one process writes, the folder has its name when all of it is on the disk and its manifest is the last file of it: what a
//! killed rank leaves has a temporary name, and goes at the next start.
//!
//! A piece is a row of consecutive elements of a tensor. The manifest tells of each: the tensor's name and shape, which elements, where they lie, their
//! hash. What has no pieces is whole in one rank's file. So a reader of another number of ranks finds what it needs by the elements alone
//! ([`super::CheckpointReader`]).
//!
//! Must not know: groups, how ranks talk.
use super::{
    CheckpointError, Checkpoints, Listed, MANIFEST, Manifest, Result, STATE, Saved, TEMPORARY, folder_name,
    manifest::{BY_PIECES, FileRecord, PieceRecord},
    read,
    save::{self, Planned},
    stored::file_of_rank,
};
use crate::storage::{Operation, Storage, StorageError, StorageErrorKind};
use adamant_core::{Shape, Tensor};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
    sync::PoisonError,
};

/// Which elements of which tensor a piece is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPiece {
    /// the shape of the whole tensor
    pub shape: Shape,
    /// consecutive elements in row-major order
    pub elements: Range<usize>,
}
/// What a rank writes of a tensor.
#[derive(Clone, Debug)]
pub struct PieceTensor {
    /// the tensor's name
    pub name: String,
    /// the elements, of one axis where they are a piece
    pub value: Tensor,
    /// which they are; none: all of them
    pub piece: Option<TensorPiece>,
}
/// What one rank writes of a state: pieces by the groups that [`super::Snapshot::tensors`] has.
pub type RankShare = BTreeMap<String, Vec<PieceTensor>>;

/// The files that a rank has written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PieceFiles {
    files: BTreeMap<String, FileRecord>,
    finite: bool,
}
impl PieceFiles {
    /// For the leader, on another rank.
    ///
    /// # Errors
    /// None that is known.
    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| CheckpointError::damaged(Path::new(MANIFEST), None, 0, e.to_string()))
    }
    /// What another rank has encoded.
    ///
    /// # Errors
    /// `Damaged`: it makes no sense.
    pub fn decode(bytes: &[u8]) -> Result<PieceFiles> {
        serde_json::from_slice(bytes).map_err(|e| CheckpointError::damaged(Path::new(MANIFEST), None, 0, format!("what a rank tells of its files: {e}")))
    }
}

fn temporary(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("{TEMPORARY}{}", folder_name(step)))
}
/// Writes what one rank has, into the checkpoint of a step that the leader has begun in a folder of checkpoints.
///
/// # Errors
/// `Storage` (for a full disk, with the bytes that all of this rank's pieces need), `Name`, `Tensor`. What was written stays until the leader gives up.
pub fn write_pieces(storage: &dyn Storage, checkpoints: &Path, step: u64, rank: usize, share: &RankShare) -> Result<PieceFiles> {
    let folder = temporary(checkpoints, step);
    let mut planned = Vec::new();
    for (group, pieces) in share.iter().filter(|(_, pieces)| !pieces.is_empty()) {
        save::must_name_a_file(group)?;
        planned.push((Planned::new(&folder, file_of_rank(group, rank), pieces.iter().map(|p| (p.name.as_str(), &p.value)))?, pieces));
    }
    let needed = planned.iter().map(|(file, _)| file.bytes()).sum();
    let mut written = PieceFiles { files: BTreeMap::new(), finite: save::is_finite(share.values().flatten().map(|p| &p.value))? };
    for (file, pieces) in planned {
        let of: BTreeMap<&str, Option<&TensorPiece>> = pieces.iter().map(|p| (p.name.as_str(), p.piece.as_ref())).collect();
        let mut record = save::write_tensors(storage, &folder.join(&file.name), &file).map_err(|e| save::of_all(e, needed, storage, checkpoints))?;
        for part in &mut record.parts {
            let piece = part.tensor.as_deref().and_then(|name| of.get(name).copied().flatten());
            part.piece = piece.map(|p| PieceRecord { shape: p.shape.to_vec(), from: p.elements.start, to: p.elements.end });
        }
        written.files.insert(file.name, record);
    }
    Ok(written)
}
impl Checkpoints {
    /// Begins a checkpoint that ranks write together: they may write now.
    ///
    /// # Errors
    /// `Storage`.
    pub fn begin_together(&self, step: u64) -> Result<()> {
        let _one = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        self.identity.as_ref().map_or(Ok(()), |identity| identity.check(Operation::Write))?;
        let temporary = temporary(&self.folder, step);
        self.storage.remove_dir_all(&temporary)?;
        self.storage.create_dir_all(&temporary)?;
        Ok(())
    }
    /// Takes away what was written of a checkpoint that does not come to be. What cannot be taken away goes at the next start.
    pub fn give_up_together(&self, step: u64) {
        let _ = self.storage.remove_dir_all(&temporary(&self.folder, step));
    }
    /// Ends a checkpoint that ranks have written together, then removes those that the retention does not keep. `of_ranks`: what each rank has
    /// written. When it returns, power may go out.
    ///
    /// # Errors
    /// `Damaged`: what ranks have written is no whole state (elements of a tensor that two have or none), or a file is not there as it was written.
    /// `Storage`. Then what was there before is as it was, and nothing is left of the attempt.
    pub fn finish_together(&self, step: u64, state: &serde_json::Value, score: Option<f64>, of_ranks: Vec<PieceFiles>) -> Result<Saved> {
        let _one = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        self.finished(step, state, score, of_ranks).inspect_err(|_| self.give_up_together(step))
    }
    fn finished(&self, step: u64, state: &serde_json::Value, score: Option<f64>, of_ranks: Vec<PieceFiles>) -> Result<Saved> {
        let storage = &*self.storage;
        self.identity.as_ref().map_or(Ok(()), |identity| identity.check(Operation::Write))?;
        let (temporary, place) = (temporary(&self.folder, step), self.folder.join(folder_name(step)));
        let (listed, warnings) = read::list(storage, &self.folder)?;
        let sequence = next_sequence(&listed);
        let (score, finite) = (score.filter(|s| s.is_finite()), of_ranks.iter().all(|rank| rank.finite));
        let mut manifest = Manifest { version: BY_PIECES, step, sequence, score, finite, ranks: Some(of_ranks.len() as u64), files: BTreeMap::new() };
        for (rank, written) in of_ranks.into_iter().enumerate() {
            for (name, record) in written.files {
                is_seen(storage, &temporary.join(&name), (rank, record.bytes))?;
                manifest.files.insert(name, record);
            }
        }
        let path = temporary.join(MANIFEST);
        let text = serde_json::to_vec_pretty(state).map_err(|e| CheckpointError::damaged(&place.join(STATE), None, 0, e.to_string()))?;
        manifest.files.insert(STATE.to_string(), save::write_bytes(storage, &temporary.join(STATE), &text)?);
        let bytes = manifest.encode(&path)?;
        // As a reader will see it: pieces that are no whole state are found while the state is still there.
        Manifest::decode(&path, &bytes)?;
        let known: BTreeSet<&str> = manifest.files.keys().map(String::as_str).chain([MANIFEST]).collect();
        let is_strange = |name: &std::ffi::OsString| name.to_str().is_none_or(|name| !known.contains(name));
        if let Some(stranger) = storage.list(&temporary)?.iter().find(|entry| is_strange(&entry.name)) {
            return Err(CheckpointError::damaged(&temporary.join(&stranger.name), None, 0, "no rank says that it has written it"));
        }
        save::write_bytes(storage, &path, &bytes)?;
        storage.sync_dir(&temporary)?;
        save::put(storage, &self.folder, &temporary, &place)?;
        let new = Listed { step, sequence, score, finite, bytes: manifest.bytes(), folder: place };
        Ok(self.kept((listed, warnings), new))
    }
}
/// The number of the next save.
pub(super) fn next_sequence(listed: &[Listed]) -> u64 {
    listed.iter().map(|l| l.sequence).max().map_or(0, |s| s.saturating_add(1))
}
/// Is a rank's file there, as long as it says?
fn is_seen(storage: &dyn Storage, path: &Path, (rank, bytes): (usize, u64)) -> Result<()> {
    let told = |what: &str| {
        let text = format!("{what}, and rank {rank} has written {bytes} bytes of it: all ranks need one file system for the run folder");
        CheckpointError::Storage(StorageError::new(Operation::Read, path, StorageErrorKind::Io(text)))
    };
    match storage.open(path) {
        Ok(file) if file.bytes() == bytes => Ok(()),
        Ok(file) => Err(told(&format!("it has {} bytes", file.bytes()))),
        Err(e) if e.is_not_found() => Err(told("it is not seen here")),
        Err(e) => Err(e.into()),
    }
}
