//! Which tensors a manifest tells of, and which pieces of them lie where: each element of a tensor is in one piece.
//!
//! Groups of tensors are files: `optimizer.safetensors` holds whole ones, `optimizer.rank-3.safetensors` those that a rank has written,
//! whole or pieces of them.
use super::{
    CheckpointError, Result,
    manifest::{Manifest, Part},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::Path,
};

/// Between a group's name and the number of the rank that wrote the file.
const OF_RANK: &str = ".rank-";
/// How files of tensors end.
const ENDING: &str = ".safetensors";

/// The tensors of a checkpoint by group and name.
pub struct StoredTensors(pub BTreeMap<String, BTreeMap<String, StoredTensor>>);
/// A tensor, as the manifest tells.
pub struct StoredTensor {
    /// the whole one's, where it is in pieces; of one that is whole its file tells
    pub shape: Option<Vec<usize>>,
    /// in the order of their elements
    pub pieces: Vec<StoredPiece>,
}
/// Where a piece of a tensor lies.
pub struct StoredPiece {
    pub file: String,
    /// its place among the parts of the file
    pub part: usize,
    /// its elements in the whole tensor; none: all
    pub elements: Option<Range<usize>>,
}

/// The file in which a rank writes a group of tensors.
pub fn file_of_rank(group: &str, rank: usize) -> String {
    format!("{group}{OF_RANK}{rank}{ENDING}")
}
/// The group whose tensors a file holds; none of a file that holds none.
pub fn group_of(file: &str) -> Option<&str> {
    let stem = file.strip_suffix(ENDING)?;
    match stem.rsplit_once(OF_RANK) {
        Some((group, rank)) if rank.bytes().all(|b| b.is_ascii_digit()) => Some(group),
        _ => Some(stem),
    }
}

impl StoredTensors {
    /// Of a manifest, which is at a path.
    ///
    /// # Errors
    /// `Damaged`, with the file and the tensor: elements that two pieces hold, or none; pieces of tensors of other shapes.
    pub fn of(path: &Path, manifest: &Manifest) -> Result<StoredTensors> {
        let mut groups: BTreeMap<String, BTreeMap<String, StoredTensor>> = BTreeMap::new();
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut writers = BTreeSet::new();
        for (file, record) in &manifest.files {
            let Some(group) = group_of(file) else { continue };
            let damaged = |name: &str, part: &Part, reason: String| CheckpointError::damaged(&folder.join(file), Some(name), part.start, reason);
            writers.extend(file.strip_suffix(ENDING).and_then(|stem| stem.rsplit_once(OF_RANK)).and_then(|(_, rank)| rank.parse::<u64>().ok()));
            let tensors = groups.entry(group.to_string()).or_default();
            for (at, part) in record.parts.iter().enumerate() {
                let Some(name) = part.tensor.as_deref() else { continue };
                let shape = part.piece.as_ref().map(|piece| piece.shape.clone());
                let stored = tensors.entry(name.to_string()).or_insert_with(|| StoredTensor { shape: shape.clone(), pieces: Vec::new() });
                if stored.shape != shape {
                    return Err(damaged(name, part, "pieces of it are of tensors of other shapes".into()));
                }
                let elements = match (&part.piece, &shape) {
                    (Some(piece), Some(shape)) => {
                        let all = shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size));
                        if piece.from >= piece.to || all.is_none_or(|all| piece.to > all) {
                            return Err(damaged(name, part, format!("elements {} to {} of a tensor {shape:?}", piece.from, piece.to)));
                        }
                        Some(piece.from..piece.to)
                    }
                    _ => None,
                };
                stored.pieces.push(StoredPiece { file: file.clone(), part: at, elements });
            }
        }
        if let Some(rank) = writers.iter().find(|rank| manifest.ranks.is_none_or(|ranks| **rank >= ranks)) {
            return Err(CheckpointError::damaged(path, None, 0, format!("a file of rank {rank}, where {} ranks have written", manifest.ranks.unwrap_or(0))));
        }
        for (name, stored) in groups.values_mut().flatten() {
            stored.pieces.sort_by_key(|piece| piece.elements.as_ref().map_or(0, |elements| elements.start));
            each_element_once(path, name, stored)?;
        }
        Ok(StoredTensors(groups))
    }
}
fn each_element_once(path: &Path, name: &str, stored: &StoredTensor) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let wrong = |file: &Path, reason: String| Err(CheckpointError::damaged(file, Some(name), 0, reason));
    let Some(shape) = &stored.shape else {
        return match &stored.pieces[..] {
            [_, second, ..] => wrong(&folder.join(&second.file), "it is in another file too".into()),
            _ => Ok(()),
        };
    };
    let (mut at, mut last) = (0, None::<&str>);
    for piece in &stored.pieces {
        let elements = piece.elements.clone().unwrap_or_default();
        if elements.start > at {
            return wrong(path, format!("its elements {at} to {} are in no file", elements.start));
        }
        if elements.start < at {
            let before = last.unwrap_or_default();
            return wrong(&folder.join(&piece.file), format!("its elements {} to {} are in {before} too", elements.start, at.min(elements.end)));
        }
        (at, last) = (elements.end, Some(piece.file.as_str()));
    }
    let all: usize = shape.iter().product();
    if at < all { wrong(path, format!("its elements {at} to {all} are in no file")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::checkpoint::manifest::{BY_PIECES, FileRecord, PieceRecord};

    type PieceCase<'a> = (&'a str, &'a str, Option<(&'a [usize], usize, usize)>);
    fn check(pieces: &[PieceCase<'_>], ranks: Option<u64>) -> Result<StoredTensors> {
        let mut files: BTreeMap<String, FileRecord> = BTreeMap::new();
        for (file, tensor, piece) in pieces {
            let piece = piece.map(|(shape, from, to)| PieceRecord { shape: shape.to_vec(), from, to });
            let part = Part { tensor: Some(tensor.to_string()), start: 0, end: 0, blake3: String::new(), piece };
            files.entry(file.to_string()).or_insert(FileRecord { bytes: 0, blake3: String::new(), parts: Vec::new() }).parts.push(part);
        }
        let manifest = Manifest { version: BY_PIECES, step: 1, sequence: 0, score: None, finite: true, ranks, files };
        StoredTensors::of(Path::new("step/manifest.json"), &manifest)
    }
    #[test]
    fn elements_that_two_files_hold_or_none() {
        let (a, b, c) = ("model.rank-0.safetensors", "model.rank-1.safetensors", "model.rank-2.safetensors");
        let of: &[usize] = &[2, 5];
        let whole = check(&[(c, "w", Some((of, 7, 10))), (a, "w", Some((of, 0, 3))), (b, "w", Some((of, 3, 7))), (a, "n", None)], Some(3)).unwrap();
        let tensors = &whole.0["model"];
        assert_eq!(tensors["w"].pieces.iter().map(|p| p.file.as_str()).collect::<Vec<_>>(), [a, b, c]);
        assert!(tensors["n"].shape.is_none());
        for (pieces, ranks, says) in [
            (
                vec![(a, "w", Some((of, 0, 3))), (b, "w", Some((of, 3, 9)))],
                3,
                "manifest.json is damaged in tensor `w`, from byte 0: its elements 9 to 10 are in no file",
            ),
            (vec![(a, "w", Some((of, 0, 3))), (b, "w", Some((of, 4, 10)))], 3, "its elements 3 to 4 are in no file"),
            (
                vec![(a, "w", Some((of, 0, 6))), (b, "w", Some((of, 3, 10)))],
                3,
                "model.rank-1.safetensors is damaged in tensor `w`, from byte 0: its elements 3 to 6 are in model.rank-0.safetensors too",
            ),
            (vec![(a, "w", Some((of, 0, 3))), (b, "w", Some((&[10], 3, 10)))], 3, "pieces of it are of tensors of other shapes"),
            (vec![(a, "w", None), (b, "w", Some((of, 0, 10)))], 3, "pieces of it are of tensors of other shapes"),
            (vec![(a, "w", None), (b, "w", None)], 3, "it is in another file too"),
            (vec![(a, "w", Some((of, 0, 11)))], 3, "elements 0 to 11 of a tensor [2, 5]"),
            (vec![(a, "w", Some((of, 5, 3)))], 3, "elements 5 to 3"),
            (vec![(a, "w", Some((&[usize::MAX, 2], 0, 3)))], 3, "elements 0 to 3 of a tensor"),
            (vec![(a, "w", None), (c, "x", None)], 2, "a file of rank 2, where 2 ranks have written"),
        ] {
            let error = check(&pieces, Some(ranks)).err().unwrap();
            assert!(error.is_damage() && error.to_string().contains(says), "{error}");
        }
    }
    #[test]
    fn files_whose_group_is_mistaken() {
        for (file, group) in [
            ("model.safetensors", Some("model")),
            ("held-model.rank-12.safetensors", Some("held-model")),
            ("model.rank-.safetensors", Some("model")),
            ("state.json", None),
        ] {
            assert_eq!(group_of(file), group);
        }
        assert_eq!(group_of(&file_of_rank("optimizer", 7)), Some("optimizer"));
    }
}
