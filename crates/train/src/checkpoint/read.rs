//! Reading checkpoints: each byte goes through its hash before anything is made of it.
use super::{
    CheckpointError, CheckpointReader, Listed, MANIFEST, Manifest, NeededElements, Restored, Result, STATE, Snapshot, Warning, manifest,
    manifest::{BY_PIECES, FileRecord},
    step_of,
};
use crate::storage::{OpenFile, Storage, StorageErrorKind};
use adamant_core::{Device, Error, ErrorKind, Origin, Tensor};
use adamant_formats::safetensors::Layout;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The checkpoints in a folder whose manifests are whole, in the order in which they were saved, and the others.
pub fn list(storage: &dyn Storage, folder: &Path) -> Result<(Vec<Listed>, Vec<Warning>)> {
    let (mut listed, mut warnings) = (Vec::new(), Vec::new());
    for entry in storage.list(folder)? {
        let Some(step) = step_of(&entry.name) else { continue };
        let folder = folder.join(&entry.name);
        match manifest_in(storage, &folder) {
            Ok(m) if m.step == step => listed.push(Listed { step, sequence: m.sequence, score: m.score, finite: m.finite, bytes: m.bytes(), folder }),
            Ok(m) => {
                let error = CheckpointError::damaged(&folder.join(MANIFEST), None, 0, format!("it is of step {}: the folder was renamed", m.step));
                warnings.push(Warning { folder, error });
            }
            // A run that is writing has just retired it.
            Err(_) if is_gone(storage, &folder) => {}
            Err(error) => warnings.push(Warning { folder, error }),
        }
    }
    listed.sort_by_key(|l| (l.sequence, l.step));
    Ok((listed, warnings))
}
/// Is a folder that was listed no longer there?
pub fn is_gone(storage: &dyn Storage, folder: &Path) -> bool {
    storage.list(folder).is_err_and(|e| e.is_not_found())
}
pub(super) fn manifest_in(storage: &dyn Storage, folder: &Path) -> Result<Manifest> {
    let path = folder.join(MANIFEST);
    let bytes = storage.read(&path, manifest::MAX_BYTES).map_err(|e| lost(&path, None, 0, e.into()))?;
    Manifest::decode(&path, &bytes)
}

/// Reads one checkpoint from its folder, on the current device, whatever the folder's name. Each byte is checked.
///
/// # Errors
/// `Damaged`, with the file, the tensor and the offset; `Version`, `Storage`, or `Tensor` if memory runs out.
pub fn read(storage: &dyn Storage, folder: &Path) -> Result<Restored> {
    let device = Device::current()?;
    let manifest = manifest_in(storage, folder)?;
    if manifest.version == BY_PIECES {
        return CheckpointReader::open(storage, folder)?.restore(device, &|_| NeededElements::Whole);
    }
    let mut snapshot = Snapshot { step: manifest.step, tensors: BTreeMap::new(), state: serde_json::Value::Null };
    let mut state = None;
    for (name, record) in &manifest.files {
        let path = folder.join(name);
        match name.strip_suffix(".safetensors") {
            Some(stem) => {
                snapshot.tensors.insert(stem.to_string(), read_tensors(storage, &path, record, device)?);
            }
            None if name == STATE => state = Some(read_state(storage, &path, record)?),
            None => return Err(CheckpointError::damaged(&folder.join(MANIFEST), None, 0, format!("nobody knows what `{name}` is"))),
        }
    }
    snapshot.state = state.ok_or_else(|| CheckpointError::damaged(&folder.join(MANIFEST), None, 0, format!("{STATE} is not in it")))?;
    Ok(Restored { snapshot, score: manifest.score, folder: folder.to_path_buf(), warnings: Vec::new() })
}

/// A file that is read part by part, each checked against its hash.
pub(super) struct Checked {
    path: PathBuf,
    file: Box<dyn OpenFile>,
    /// the next byte
    at: u64,
    /// of all bytes so far
    hash: blake3::Hasher,
}
impl Checked {
    pub fn open(storage: &dyn Storage, path: &Path, record: &FileRecord) -> Result<Checked> {
        let file = storage.open(path).map_err(|e| lost(path, None, 0, e.into()))?;
        let (is, should) = (file.bytes(), record.bytes);
        if is != should {
            // Named: the first tensor that is not all there.
            let cut = record.parts.iter().find(|p| p.end > is);
            let tensor = cut.and_then(|p| p.tensor.as_deref());
            return Err(CheckpointError::damaged(path, tensor, is.min(should), format!("it has {is} bytes and had {should}")));
        }
        Ok(Checked { path: path.to_path_buf(), file, at: 0, hash: blake3::Hasher::new() })
    }
    /// The next byte that is read.
    pub fn at(&self) -> u64 {
        self.at
    }
    /// Passes over bytes up to a place behind. What all bytes are is not known then.
    pub fn skip_to(&mut self, to: u64) -> Result<()> {
        let bytes = to.saturating_sub(self.at);
        if bytes > 0 {
            self.file.skip(bytes).map_err(|e| lost(&self.path, None, self.at, e.into()))?;
            self.at = to;
        }
        Ok(())
    }
    /// The bytes of the next part, which lie at `index`.
    pub fn part(&mut self, record: &FileRecord, index: usize) -> Result<Vec<u8>> {
        let Some(part) = record.parts.get(index) else {
            return Err(CheckpointError::damaged(&self.path, None, record.bytes, "it has fewer parts than its header names"));
        };
        let tensor = part.tensor.as_deref();
        let len = part.end - part.start;
        let mut bytes = Vec::new();
        // At most the file's own length, which was checked.
        if bytes.try_reserve_exact(len as usize).is_err() {
            let kind = ErrorKind::OutOfMemory { asked: len as usize, in_use: 0, cap: None };
            return Err(Error::at("checkpoint", kind, Origin::here()).into());
        }
        bytes.resize(len as usize, 0);
        let mut filled = 0;
        while filled < bytes.len() {
            let n = self.file.read(&mut bytes[filled..]).map_err(|e| lost(&self.path, tensor, part.start + filled as u64, e.into()))?;
            if n == 0 {
                return Err(CheckpointError::damaged(&self.path, tensor, part.start + filled as u64, "it ends there"));
            }
            filled += n;
        }
        self.at = part.end;
        self.hash.update(&bytes);
        if blake3::hash(&bytes).to_hex().as_str() != part.blake3 {
            return Err(CheckpointError::damaged(&self.path, tensor, part.start, format!("its {len} bytes differ from their hash")));
        }
        Ok(bytes)
    }
    fn finish(self, record: &FileRecord) -> Result<()> {
        if self.hash.finalize().to_hex().as_str() != record.blake3 {
            return Err(CheckpointError::damaged(&self.path, None, 0, "it differs from its hash"));
        }
        Ok(())
    }
}
pub(super) fn read_state(storage: &dyn Storage, path: &Path, record: &FileRecord) -> Result<serde_json::Value> {
    let mut file = Checked::open(storage, path, record)?;
    let bytes = file.part(record, 0)?;
    file.finish(record)?;
    serde_json::from_slice(&bytes).map_err(|e| CheckpointError::damaged(path, None, 0, e.to_string()))
}
fn read_tensors(storage: &dyn Storage, path: &Path, record: &FileRecord, device: Device) -> Result<Vec<(String, Tensor)>> {
    let mut file = Checked::open(storage, path, record)?;
    let header = file.part(record, 0)?;
    let layout = Layout::parse(path, header, record.bytes).map_err(|e| CheckpointError::damaged(path, None, 0, e.kind().to_string()))?;
    let mut tensors = Vec::with_capacity(layout.places().len());
    for (k, place) in layout.places().iter().enumerate() {
        let bytes = file.part(record, k + 1)?;
        let part = &record.parts[k + 1];
        if part.tensor.as_deref() != Some(&place.name) || (part.start, part.end) != (place.range.start, place.range.end) {
            return Err(CheckpointError::damaged(path, Some(&place.name), place.range.start, "its header and the manifest differ"));
        }
        tensors.push((place.name.clone(), place.tensor(path, &bytes, device)?));
    }
    file.finish(record)?;
    Ok(tensors)
}
/// A disk's error as damage at a place, if it is one that tells of lost bytes.
fn lost(path: &Path, tensor: Option<&str>, offset: u64, error: CheckpointError) -> CheckpointError {
    match error {
        CheckpointError::Storage(e) if CheckpointError::Storage(e.clone()).is_damage() => {
            let reason = if e.kind == StorageErrorKind::NotFound { "it is not there".to_string() } else { e.kind.to_string() };
            CheckpointError::damaged(path, tensor, offset, reason)
        }
        other => other,
    }
}
