//! What can go wrong with checkpoints, as types: a caller tells a full disk from a damaged file from a later version.
use crate::storage::{StorageError, StorageErrorKind};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Where a checkpoint is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// the file
    pub file: PathBuf,
    /// the tensor whose bytes are concerned, if any are
    pub tensor: Option<String>,
    /// the first byte of the part of the file that is concerned, from its beginning
    pub offset: u64,
    /// what is wrong
    pub reason: String,
}
impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged", self.file.display())?;
        if let Some(tensor) = &self.tensor {
            write!(f, " in tensor `{tensor}`")?;
        }
        write!(f, ", from byte {}: {}", self.offset, self.reason)
    }
}

/// Why a checkpoint was not saved or not read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The disk.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Its bytes are not those that were saved.
    #[error("{0}")]
    Damaged(Damage),
    /// It was written by a later version of this program.
    #[error("{} has format version {found}; this program knows versions up to {known}", .file.display())]
    Version {
        /// its manifest
        file: PathBuf,
        /// the version that it says
        found: u64,
        /// the newest that is known here
        known: u64,
    },
    /// There are checkpoints, and none is whole.
    #[error("no checkpoint in {} is whole: {}", .folder.display(), .warnings.iter().map(|w| w.error.to_string()).collect::<Vec<_>>().join("; "))]
    NoneWhole {
        /// where they are
        folder: PathBuf,
        /// what is wrong with each
        warnings: Vec<Warning>,
    },
    /// A group of tensors has a name that is no name of a file.
    #[error("`{0}` cannot name a file of a checkpoint: letters, digits, `-` and `_` can")]
    Name(String),
    /// A tensor that cannot be computed, saved or made.
    #[error("{}", crate::failure::in_words(.0))]
    Tensor(#[from] adamant_core::Error),
    /// Another rank could not write or read its pieces.
    #[error("rank {rank}: {message}")]
    OfRank {
        /// which
        rank: usize,
        /// what it said
        message: String,
    },
    /// The thread that saves has ended before its time.
    #[error("the thread that saves checkpoints has stopped")]
    WriterGone,
}
impl CheckpointError {
    pub(super) fn damaged(file: &Path, tensor: Option<&str>, offset: u64, reason: impl Into<String>) -> CheckpointError {
        CheckpointError::Damaged(Damage { file: file.to_path_buf(), tensor: tensor.map(str::to_string), offset, reason: reason.into() })
    }
    /// Does it tell of bytes that are lost, so that an earlier checkpoint is the best there is? A sector that cannot be
    /// read is lost; a file that this user may not read is not.
    pub fn is_damage(&self) -> bool {
        match self {
            CheckpointError::Damaged(_) => true,
            CheckpointError::Storage(e) => matches!(e.kind, StorageErrorKind::NotFound | StorageErrorKind::InTheWay | StorageErrorKind::Io(_)),
            _ => false,
        }
    }
    /// Is the disk full?
    pub fn is_full(&self) -> bool {
        matches!(self, CheckpointError::Storage(e) if e.is_full())
    }
}

/// A checkpoint that was passed over, or could not be removed.
#[derive(Clone, Debug)]
pub struct Warning {
    /// its folder
    pub folder: PathBuf,
    /// why
    pub error: CheckpointError,
}
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint {}: {}", self.folder.display(), self.error)
    }
}
