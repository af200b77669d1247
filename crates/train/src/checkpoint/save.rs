//! Writing a checkpoint: everything under a temporary name, synced, then the one rename that makes it count.
use super::{
    CheckpointError, Listed, MANIFEST, Manifest, REPLACED, RETIRED, Result, STATE, Snapshot, TEMPORARY, folder_name,
    manifest::{FileRecord, Part, VERSION},
};
use crate::storage::{self, NewFile, Storage, StorageErrorKind};
use adamant_core::{Tensor, profile::record_function};
use adamant_formats::safetensors::Layout;
use std::{collections::BTreeMap, path::Path};

/// Bytes that are handed to the disk at once: hashed while they are in the cache, and small beside a tensor.
const PIECE: usize = 1 << 20;

/// Makes a folder such that a crash does not take it away again.
pub fn make_folder(storage: &dyn Storage, folder: &Path) -> storage::Result<()> {
    let there = |path: &Path| !storage.list(path).is_err_and(|e| e.is_not_found());
    let missing: Vec<&Path> = folder.ancestors().take_while(|p| !p.as_os_str().is_empty() && !there(p)).collect();
    storage.create_dir_all(folder)?;
    missing.into_iter().rev().try_for_each(|made| storage.sync_dir(parent(made)))
}
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// What a hash takes in a manifest, before it is known.
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A file of tensors, before it is written.
pub(super) struct Planned<'a> {
    pub name: String,
    layout: Layout,
    tensors: BTreeMap<&'a str, &'a Tensor>,
}
impl<'a> Planned<'a> {
    /// A file with that name in a folder.
    pub fn new(folder: &Path, name: String, tensors: impl Iterator<Item = (&'a str, &'a Tensor)>) -> Result<Planned<'a>> {
        let tensors: Vec<(&str, &Tensor)> = tensors.collect();
        let metas = tensors.iter().map(|(name, tensor)| Ok((*name, tensor.try_meta()?))).collect::<adamant_core::Result<Vec<_>>>()?;
        let layout = Layout::of(&folder.join(&name), metas, &BTreeMap::new())?;
        Ok(Planned { name, layout, tensors: tensors.into_iter().collect() })
    }
    pub fn bytes(&self) -> u64 {
        self.layout.bytes()
    }
    fn record(&self) -> FileRecord {
        let header = (None, 0..self.layout.header().len() as u64);
        let parts = self.layout.places().iter().map(|p| (Some(p.name.clone()), p.range.clone()));
        let parts =
            [header].into_iter().chain(parts).map(|(tensor, range)| Part { tensor, start: range.start, end: range.end, blake3: NO_HASH.into(), piece: None });
        FileRecord { bytes: self.layout.bytes(), blake3: NO_HASH.into(), parts: parts.collect() }
    }
}
fn plan<'a>(folder: &Path, snapshot: &'a Snapshot) -> Result<Vec<Planned<'a>>> {
    let mut files = Vec::new();
    for (stem, tensors) in &snapshot.tensors {
        must_name_a_file(stem)?;
        files.push(Planned::new(folder, format!("{stem}.safetensors"), tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)))?);
    }
    Ok(files)
}
/// Can a group of tensors be called so?
pub(super) fn must_name_a_file(stem: &str) -> Result<()> {
    if stem.is_empty() || !stem.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
        return Err(CheckpointError::Name(stem.to_string()));
    }
    Ok(())
}

/// Writes a snapshot into a folder of checkpoints, whole or not at all.
pub fn save(storage: &dyn Storage, folder: &Path, snapshot: &Snapshot, score: Option<f64>, sequence: u64) -> Result<Listed> {
    let name = folder_name(snapshot.step);
    let (temporary, place) = (folder.join(format!("{TEMPORARY}{name}")), folder.join(&name));
    let files = plan(&place, snapshot)?;
    let state = serde_json::to_vec_pretty(&snapshot.state).map_err(|e| CheckpointError::damaged(&place.join(STATE), None, 0, e.to_string()))?;
    let finite = is_finite(snapshot.tensors.values().flatten().map(|(_, tensor)| tensor))?;
    let mut manifest = Manifest { version: VERSION, step: snapshot.step, sequence, score, finite, ranks: None, files: BTreeMap::new() };
    manifest.files.extend(files.iter().map(|f| (f.name.clone(), f.record())));
    let end = state.len() as u64;
    let of_state = Part { tensor: None, start: 0, end, blake3: NO_HASH.into(), piece: None };
    manifest.files.insert(STATE.to_string(), FileRecord { bytes: end, blake3: NO_HASH.into(), parts: vec![of_state] });
    // The manifest is as long with the hashes as without.
    let needed = manifest.bytes().saturating_add(manifest.encode(&place.join(MANIFEST))?.len() as u64);
    let mut attempt = || {
        storage.remove_dir_all(&temporary)?;
        storage.create_dir_all(&temporary)?;
        for file in &files {
            manifest.files.insert(file.name.clone(), write_tensors(storage, &temporary.join(&file.name), file)?);
        }
        manifest.files.insert(STATE.to_string(), write_bytes(storage, &temporary.join(STATE), &state)?);
        let path = temporary.join(MANIFEST);
        write_bytes(storage, &path, &manifest.encode(&path)?)?;
        storage.sync_dir(&temporary)?;
        put(storage, folder, &temporary, &place)?;
        Ok(Listed { step: snapshot.step, sequence, score, finite, bytes: manifest.bytes(), folder: place.clone() })
    };
    attempt().map_err(|error| {
        // Best effort: what matters to the caller is the first error, and the next start cleans again.
        let _ = storage.remove_dir_all(&temporary);
        of_all(error, needed, storage, folder)
    })
}
/// An error of a full disk with what all needed: the system counted one write, and who frees space wants to know of all.
pub(super) fn of_all(error: CheckpointError, needed: u64, storage: &dyn Storage, folder: &Path) -> CheckpointError {
    let CheckpointError::Storage(mut e) = error else { return error };
    match &mut e.kind {
        StorageErrorKind::Full { needed: of_one, free } => (*of_one, *free) = (needed.max(*of_one), storage.free(folder)),
        StorageErrorKind::Quota { needed: of_one } => *of_one = needed.max(*of_one),
        _ => {}
    }
    CheckpointError::Storage(e)
}
/// Are all numbers of tensors finite?
pub(super) fn is_finite<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> adamant_core::Result<bool> {
    let _range = record_function("checkpoint");
    for tensor in tensors {
        if !tensor.is_finite_all()? {
            return Ok(false);
        }
    }
    Ok(true)
}
/// Gives the finished folder its name. One of that name steps aside first, and comes back if the new one does not come.
pub(super) fn put(storage: &dyn Storage, folder: &Path, temporary: &Path, place: &Path) -> storage::Result<()> {
    let Some(name) = place.file_name() else { return Ok(()) };
    let aside = folder.join(prefixed(REPLACED, name));
    let replaces = storage.list(folder)?.iter().any(|e| e.name == name);
    if replaces {
        remove(storage, folder, &aside)?;
        storage.rename(place, &aside)?;
        // The two renames must not be found in the other order.
        storage.sync_dir(folder)?;
    }
    if let Err(e) = storage.rename(temporary, place) {
        if replaces {
            let _ = storage.rename(&aside, place);
        }
        return Err(e);
    }
    storage.sync_dir(folder)?;
    if replaces {
        remove(storage, folder, &aside)?;
    }
    Ok(())
}
/// Takes a checkpoint away: its good name first, so that half of one is never found under it.
pub fn retire(storage: &dyn Storage, folder: &Path, old: &Path) -> storage::Result<()> {
    let Some(name) = old.file_name() else { return Ok(()) };
    let aside = folder.join(prefixed(RETIRED, name));
    remove(storage, folder, &aside)?;
    storage.rename(old, &aside)?;
    storage.sync_dir(folder)?;
    remove(storage, folder, &aside)
}
/// Removes a folder, or a link to one, that may be there.
fn remove(storage: &dyn Storage, folder: &Path, path: &Path) -> storage::Result<()> {
    match storage.list(folder)?.iter().find(|e| Some(e.name.as_os_str()) == path.file_name()) {
        Some(entry) if entry.is_dir => storage.remove_dir_all(path),
        Some(_) => storage.remove_file(path),
        None => Ok(()),
    }
}
fn prefixed(prefix: &str, name: &std::ffi::OsStr) -> std::ffi::OsString {
    let mut whole = std::ffi::OsString::from(prefix);
    whole.push(name);
    whole
}

/// A file that is hashed while it is written.
struct Hashed {
    file: Box<dyn NewFile>,
    hash: blake3::Hasher,
    at: u64,
}
impl Hashed {
    fn create(storage: &dyn Storage, path: &Path) -> storage::Result<Hashed> {
        Ok(Hashed { file: storage.create(path)?, hash: blake3::Hasher::new(), at: 0 })
    }
    /// Writes one part of the file.
    fn part(&mut self, tensor: Option<&str>, bytes: &[u8]) -> storage::Result<Part> {
        let (start, mut of_part) = (self.at, blake3::Hasher::new());
        for piece in bytes.chunks(PIECE) {
            of_part.update(piece);
            self.hash.update(piece);
            self.file.write(piece)?;
        }
        self.at += bytes.len() as u64;
        Ok(Part { tensor: tensor.map(str::to_string), start, end: self.at, blake3: of_part.finalize().to_hex().to_string(), piece: None })
    }
    fn finish(mut self, parts: Vec<Part>) -> storage::Result<FileRecord> {
        self.file.sync()?;
        Ok(FileRecord { bytes: self.at, blake3: self.hash.finalize().to_hex().to_string(), parts })
    }
}
pub(super) fn write_bytes(storage: &dyn Storage, path: &Path, bytes: &[u8]) -> Result<FileRecord> {
    let mut file = Hashed::create(storage, path)?;
    let part = file.part(None, bytes)?;
    Ok(file.finish(vec![part])?)
}
/// Writes tensors in the order of the layout, one at a time in memory.
pub(super) fn write_tensors(storage: &dyn Storage, path: &Path, planned: &Planned<'_>) -> Result<FileRecord> {
    let mut file = Hashed::create(storage, path)?;
    let mut parts = vec![file.part(None, planned.layout.header())?];
    for place in planned.layout.places() {
        if let Some(tensor) = planned.tensors.get(place.name.as_str()) {
            parts.push(file.part(Some(&place.name), &tensor.to_bytes()?)?);
        }
    }
    Ok(file.finish(parts)?)
}
