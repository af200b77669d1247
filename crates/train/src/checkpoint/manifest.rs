//! The manifest of a checkpoint: what its files are, with a hash for everything, itself too.
//!
//! It is one JSON document: `{"blake3":"<hash>","manifest":<body>}`. The hash is that of the body's bytes, and the frame
//! around them is compared byte by byte, so that no changed bit passes. The frame stays the same in all versions.
use super::{CheckpointError, Result, stored::StoredTensors};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};

/// The version of a checkpoint that one process has written: each tensor is whole.
pub const VERSION: u64 = 1;
/// The version of one that ranks have written together, in which tensors are cut into pieces.
pub const BY_PIECES: u64 = 2;
/// Manifests above this are refused.
pub const MAX_BYTES: u64 = 1 << 30;

const BEFORE_HASH: &[u8] = br#"{"blake3":""#;
const AFTER_HASH: &[u8] = br#"","manifest":"#;
const END: &[u8] = b"}\n";
const HASH_DIGITS: usize = 2 * blake3::OUT_LEN;

/// What a checkpoint consists of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub version: u64,
    pub step: u64,
    pub sequence: u64,
    pub score: Option<f64>,
    /// Are all numbers in it finite? Where it does not say, they are.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub finite: bool,
    /// how many ranks have written it, where several have
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u64>,
    pub files: BTreeMap<String, FileRecord>,
}
/// One file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    pub bytes: u64,
    pub blake3: String,
    /// its parts from its beginning to its end, without holes
    pub parts: Vec<Part>,
}
/// A tensor's bytes in a file, or the header before them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub tensor: Option<String>,
    pub start: u64,
    pub end: u64,
    pub blake3: String,
    /// which elements of the tensor these are; none: all
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<PieceRecord>,
}
/// Consecutive elements of a tensor, in row-major order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PieceRecord {
    /// the shape of the whole tensor
    pub shape: Vec<usize>,
    pub from: usize,
    pub to: usize,
}
fn yes() -> bool {
    true
}
fn is_yes(flag: &bool) -> bool {
    *flag
}
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

impl Manifest {
    pub fn bytes(&self) -> u64 {
        self.files.values().fold(0, |sum, f| sum.saturating_add(f.bytes))
    }
    /// The file's content.
    pub fn encode(&self, path: &Path) -> Result<Vec<u8>> {
        let body = serde_json::to_vec(self).map_err(|e| CheckpointError::damaged(path, None, 0, e.to_string()))?;
        let hash = blake3::hash(&body).to_hex();
        Ok([BEFORE_HASH, hash.as_bytes(), AFTER_HASH, &body, END].concat())
    }
    /// Reads and checks a file's content.
    pub fn decode(path: &Path, bytes: &[u8]) -> Result<Manifest> {
        let damaged = |offset: usize, reason: String| CheckpointError::damaged(path, None, offset as u64, reason);
        let start = BEFORE_HASH.len() + HASH_DIGITS + AFTER_HASH.len();
        let Some(end) = bytes.len().checked_sub(END.len()).filter(|end| *end >= start) else {
            return Err(damaged(bytes.len(), format!("{} bytes are too few", bytes.len())));
        };
        let (hash, body) = (&bytes[BEFORE_HASH.len()..BEFORE_HASH.len() + HASH_DIGITS], &bytes[start..end]);
        for (at, frame) in [(0, BEFORE_HASH), (BEFORE_HASH.len() + HASH_DIGITS, AFTER_HASH), (end, END)] {
            if bytes[at..at + frame.len()] != *frame {
                return Err(damaged(at, "this is no manifest, or cut off".into()));
            }
        }
        if blake3::hash(body).to_hex().as_bytes() != hash {
            return Err(damaged(BEFORE_HASH.len(), "it differs from its hash".into()));
        }
        let unreadable = |e: serde_json::Error| damaged(start, e.to_string());
        let Versioned { version } = serde_json::from_slice(body).map_err(unreadable)?;
        if version > BY_PIECES {
            return Err(CheckpointError::Version { file: path.to_path_buf(), found: version, known: BY_PIECES });
        }
        let manifest: Manifest = serde_json::from_slice(body).map_err(unreadable)?;
        // Whoever can write the file can write its hash too: what the reader relies on is checked.
        for (name, file) in &manifest.files {
            let mut at = 0;
            for part in &file.parts {
                if part.start != at || part.end < at {
                    return Err(damaged(start, format!("the parts of {name} do not follow each other")));
                }
                at = part.end;
            }
            if !file.parts.is_empty() && at != file.bytes {
                return Err(damaged(start, format!("the parts of {name} are not the whole of it")));
            }
            if name.contains(['/', '\\']) || name.starts_with('.') {
                return Err(damaged(start, format!("`{name}` is no name of a file in this folder")));
            }
        }
        StoredTensors::of(path, &manifest)?;
        Ok(manifest)
    }
}
