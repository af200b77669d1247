//! Tensors of a checkpoint one by one, whole or some of their elements, whoever wrote them: one process whole ones, or ranks pieces.
//!
//! Each part that is read is checked against its hash, all of it, whatever is needed of it. What is not needed is passed over. Names are best asked for
//! in their order: a file is then read from its beginning to its end once.
use super::{
    CheckpointError, MANIFEST, Manifest, Restored, Result, STATE, Snapshot,
    read::{Checked, manifest_in, read_state},
    stored::{StoredTensor, StoredTensors, group_of},
};
use crate::storage::Storage;
use adamant_core::{DType, Device, Error, ErrorKind, Origin, Shape, Tensor};
use adamant_formats::safetensors::{Layout, Place};
use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
};

/// What a checkpoint holds, open to be read. Its manifest and the headers of its files are in memory, and were checked.
pub struct CheckpointReader<'s> {
    storage: &'s dyn Storage,
    folder: PathBuf,
    manifest: Manifest,
    tensors: BTreeMap<String, BTreeMap<String, KnownTensor>>,
    /// files that are being read
    open: BTreeMap<String, Checked>,
}
struct KnownTensor {
    dtype: DType,
    shape: Shape,
    stored: StoredTensor,
}
/// A tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorEntry {
    /// its group: `model`, `optimizer`
    pub group: String,
    /// its name in it
    pub name: String,
    /// its dtype
    pub dtype: DType,
    /// its shape, of the whole one
    pub shape: Shape,
}
/// What is needed of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeededElements {
    /// all
    Whole,
    /// some that follow each other in row-major order, as a tensor of one axis
    Range(Range<usize>),
    /// none: it is left out
    Nothing,
}
/// So many files are held open at a time.
const MOST_OPEN: usize = 64;

impl<'s> CheckpointReader<'s> {
    /// Opens the checkpoint in a folder, whatever the folder's name.
    ///
    /// # Errors
    /// `Damaged`, with the file and the tensor: a manifest or a header that is not as it was saved, a file that is not there or as long as another,
    /// pieces that overlap or lack elements. `Version`, `Storage`.
    ///
    /// ```
    /// use adamant_train::{checkpoint::{CheckpointReader, Checkpoints, Retention, Snapshot}, storage::Disk};
    /// use adamant_core::{Device, Tensor};
    /// use std::{collections::BTreeMap, sync::Arc};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let device = Device::reference();
    /// # device.scoped(|| -> Result<(), Box<dyn std::error::Error>> {
    /// let run = tempfile::tempdir()?;
    /// let checkpoints = Checkpoints::open(Arc::new(Disk), run.path(), Retention { last: 1, best: 0 })?;
    /// let weight = Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let tensors = BTreeMap::from([("model".to_string(), vec![("weight".to_string(), weight)])]);
    /// let saved = checkpoints.save(&Snapshot { step: 1, tensors, state: serde_json::json!({}) }, None)?;
    /// let mut reader = CheckpointReader::open(&Disk, &saved.folder)?;
    /// assert_eq!(reader.entries("model")[0].shape.to_vec(), [2, 2]);
    /// assert_eq!(reader.range("model", "weight", 1..3, device)?.to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok(()) })
    /// # }
    /// ```
    pub fn open(storage: &'s dyn Storage, folder: &Path) -> Result<CheckpointReader<'s>> {
        let manifest = manifest_in(storage, folder)?;
        let path = folder.join(MANIFEST);
        let stored = StoredTensors::of(&path, &manifest)?;
        let mut places: BTreeMap<&str, Vec<Place>> = BTreeMap::new();
        for (name, record) in &manifest.files {
            if group_of(name).is_none() {
                if name != STATE {
                    return Err(CheckpointError::damaged(&path, None, 0, format!("nobody knows what `{name}` is")));
                }
                continue;
            }
            let path = folder.join(name);
            let header = Checked::open(storage, &path, record)?.part(record, 0)?;
            let layout = Layout::parse(&path, header, record.bytes).map_err(|e| CheckpointError::damaged(&path, None, 0, e.kind().to_string()))?;
            for (place, part) in layout.places().iter().zip(record.parts.iter().skip(1)) {
                if part.tensor.as_deref() != Some(&place.name) || (part.start, part.end) != (place.range.start, place.range.end) {
                    return Err(CheckpointError::damaged(&path, Some(&place.name), place.range.start, "its header and the manifest differ"));
                }
            }
            if layout.places().len() + 1 != record.parts.len() {
                return Err(CheckpointError::damaged(&path, None, 0, "its header names other tensors than the manifest"));
            }
            places.insert(name, layout.places().to_vec());
        }
        let mut tensors: BTreeMap<String, BTreeMap<String, KnownTensor>> = BTreeMap::new();
        for (group, of_group) in stored.0 {
            let mut known = BTreeMap::new();
            for (name, stored) in of_group {
                known.insert(name.clone(), known_tensor(folder, &name, stored, &places)?);
            }
            tensors.insert(group, known);
        }
        Ok(CheckpointReader { storage, folder: folder.to_path_buf(), manifest, tensors, open: BTreeMap::new() })
    }
    /// The steps that were done.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }
    /// What it was saved with, higher is better.
    pub fn score(&self) -> Option<f64> {
        self.manifest.score
    }
    /// The ranks that have written it together; none: one process.
    pub fn ranks(&self) -> Option<u64> {
        self.manifest.ranks
    }
    /// The groups of tensors.
    pub fn groups(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }
    /// The tensors of a group, sorted by name; none if there is no such group.
    pub fn entries(&self, group: &str) -> Vec<TensorEntry> {
        let of = self.tensors.get(group).into_iter().flatten();
        of.map(|(name, known)| TensorEntry { group: group.into(), name: name.clone(), dtype: known.dtype, shape: known.shape }).collect()
    }
    /// What is no tensor.
    ///
    /// # Errors
    /// `Damaged`, `Storage`.
    pub fn state(&self) -> Result<serde_json::Value> {
        let path = self.folder.join(STATE);
        let record = self.manifest.files.get(STATE);
        let record = record.ok_or_else(|| CheckpointError::damaged(&self.folder.join(MANIFEST), None, 0, format!("{STATE} is not in it")))?;
        read_state(self.storage, &path, record)
    }
    /// A tensor on a device.
    ///
    /// # Errors
    /// As [`CheckpointReader::bytes`].
    pub fn tensor(&mut self, group: &str, name: &str, device: Device) -> Result<Tensor> {
        let (dtype, shape) = self.known(group, name).map(|known| (known.dtype, known.shape))?;
        let bytes = self.bytes(group, name, 0..shape.elements())?;
        self.made((name, dtype, shape), &bytes, device)
    }
    /// Some elements of a tensor in row-major order, as a tensor of one axis.
    ///
    /// # Errors
    /// As [`CheckpointReader::bytes`].
    pub fn range(&mut self, group: &str, name: &str, elements: Range<usize>, device: Device) -> Result<Tensor> {
        let dtype = self.known(group, name)?.dtype;
        let shape = Shape::new(&[elements.len()]).map_err(|kind| CheckpointError::from(Error::at("checkpoint", kind, Origin::here())))?;
        let bytes = self.bytes(group, name, elements)?;
        self.made((name, dtype, shape), &bytes, device)
    }
    /// The bytes of some elements of a tensor, little-endian. Memory: theirs, and those of the largest piece that has any of them.
    ///
    /// # Errors
    /// `Damaged`, with the file and the tensor: bytes that differ from their hash. `Argument` in `Tensor`: there is no such tensor, or it has not so many
    /// elements. `Storage`; no memory.
    pub fn bytes(&mut self, group: &str, name: &str, elements: Range<usize>) -> Result<Vec<u8>> {
        let known = self.known(group, name)?;
        let (size, all) = (known.dtype.size(), known.shape.elements());
        if elements.end > all || elements.start > elements.end {
            let told = format!("elements {} to {} of `{name}`, which has {all}", elements.start, elements.end);
            return Err(Error::at("checkpoint", ErrorKind::Argument(told), Origin::here()).into());
        }
        let pieces: Vec<(String, usize, Range<usize>)> =
            known.stored.pieces.iter().map(|p| (p.file.clone(), p.part, p.elements.clone().unwrap_or(0..all))).collect();
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(elements.len() * size).is_err() {
            let kind = ErrorKind::OutOfMemory { asked: elements.len() * size, in_use: 0, cap: None };
            return Err(Error::at("checkpoint", kind, Origin::here()).into());
        }
        for (file, part, of) in pieces {
            let (from, to) = (of.start.max(elements.start), of.end.min(elements.end));
            // An empty tensor has an empty part, which is checked too.
            if from < to || (all == 0 && of.is_empty()) {
                let own = self.part(&file, part)?;
                bytes.extend_from_slice(own.get((from - of.start) * size..(to - of.start) * size).unwrap_or_default());
            }
        }
        Ok(bytes)
    }
    /// All that it holds, on a device, as far as it is needed. What is a piece of a tensor has one axis.
    ///
    /// # Errors
    /// As [`CheckpointReader::bytes`].
    pub fn restore(mut self, device: Device, needs: &dyn Fn(&TensorEntry) -> NeededElements) -> Result<Restored> {
        let mut snapshot = Snapshot { step: self.step(), tensors: BTreeMap::new(), state: self.state()? };
        for group in self.groups() {
            let mut tensors = Vec::new();
            for entry in self.entries(&group) {
                let value = match needs(&entry) {
                    NeededElements::Whole => self.tensor(&group, &entry.name, device)?,
                    NeededElements::Range(elements) => self.range(&group, &entry.name, elements, device)?,
                    NeededElements::Nothing => continue,
                };
                tensors.push((entry.name, value));
            }
            snapshot.tensors.insert(group, tensors);
        }
        Ok(Restored { snapshot, score: self.score(), folder: self.folder, warnings: Vec::new() })
    }
    fn known(&self, group: &str, name: &str) -> Result<&KnownTensor> {
        let known = self.tensors.get(group).and_then(|tensors| tensors.get(name));
        let told = || format!("{} has no tensor `{name}` in `{group}`", self.folder.display());
        known.ok_or_else(|| Error::at("checkpoint", ErrorKind::Argument(told()), Origin::here()).into())
    }
    fn made(&self, (name, dtype, shape): (&str, DType, Shape), bytes: &[u8], device: Device) -> Result<Tensor> {
        let place = Place { name: name.into(), dtype, shape, range: 0..bytes.len() as u64 };
        Ok(place.tensor(&self.folder, bytes, device)?)
    }
    /// A part of a file, checked.
    fn part(&mut self, file: &str, part: usize) -> Result<Vec<u8>> {
        let path = self.folder.join(file);
        let Some(record) = self.manifest.files.get(file) else { return Err(CheckpointError::damaged(&path, None, 0, "it is not in the manifest")) };
        let start = record.parts.get(part).map_or(0, |part| part.start);
        if self.open.get(file).is_none_or(|open| open.at() > start) {
            if self.open.len() >= MOST_OPEN {
                self.open.clear();
            }
            self.open.insert(file.to_string(), Checked::open(self.storage, &path, record)?);
        }
        let Some(open) = self.open.get_mut(file) else { return Err(CheckpointError::damaged(&path, None, 0, "it is not there")) };
        open.skip_to(start)?;
        open.part(record, part)
    }
}
fn known_tensor(folder: &Path, name: &str, stored: StoredTensor, places: &BTreeMap<&str, Vec<Place>>) -> Result<KnownTensor> {
    let place = |piece: &super::stored::StoredPiece| -> Option<Place> { places.get(piece.file.as_str())?.get(piece.part.checked_sub(1)?).cloned() };
    let mut known = None;
    for piece in &stored.pieces {
        let wrong = |reason: String| CheckpointError::damaged(&folder.join(&piece.file), Some(name), 0, reason);
        let place = place(piece).ok_or_else(|| wrong("its header does not name it".into()))?;
        let dtype = *known.get_or_insert(place.dtype);
        if dtype != place.dtype {
            return Err(wrong(format!("it is of {} there, and another piece is of {dtype}", place.dtype)));
        }
        let Some(shape) = &stored.shape else { return Ok(KnownTensor { dtype, shape: place.shape, stored }) };
        let elements = piece.elements.clone().unwrap_or_default();
        if place.shape.elements() != elements.len() {
            return Err(wrong(format!(
                "it has {} elements there, and elements {} to {} of {shape:?} are to be",
                place.shape.elements(),
                elements.start,
                elements.end
            )));
        }
    }
    let shape = Shape::new(stored.shape.as_deref().unwrap_or_default())
        .map_err(|kind| CheckpointError::damaged(&folder.join(MANIFEST), Some(name), 0, kind.to_string()))?;
    Ok(KnownTensor { dtype: known.unwrap_or(DType::F32), shape, stored })
}
