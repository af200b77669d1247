//! The only door to the disk for checkpoints: [`Storage`], with [`Disk`] behind it in a run, and
//! [`Simulated`](simulated::Simulated) in tests, which forgets, keeps or tears what was not synced when it crashes.
//!
//! What the trait promises is what a POSIX file system does: a file's content is safe after [`NewFile::sync`], a name
//! (created, renamed, removed) after [`Storage::sync_dir`] of the folder that holds it, and a rename is atomic.
//!
//! Invariant: nothing here panics on what a disk, a path or another process does; every failure is a [`StorageError`]
//! with the operation and the path.

mod disk;
mod identity;
mod output;
pub mod simulated;

pub use disk::Disk;
pub(crate) use disk::error;
pub use identity::{Identity, Vanished};
pub use output::{check_output, stdout_error, written};

use std::{
    any::Any,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

/// What was asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// make a folder and those above it
    CreateDir,
    /// make a new file
    Create,
    /// append to a new file
    Write,
    /// make a file's content durable
    Sync,
    /// open or read a file
    Read,
    /// give a file or folder another name
    Rename,
    /// make the names in a folder durable
    SyncDir,
    /// list a folder
    List,
    /// remove a file, or a folder with what is in it
    Remove,
    /// keep other processes out of a folder
    Lock,
    /// write an answer to who called the program
    Print,
}
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::CreateDir => "create folder",
            Operation::Create => "create",
            Operation::Write => "write",
            Operation::Sync => "sync",
            Operation::Read => "read",
            Operation::Rename => "rename",
            Operation::SyncDir => "sync folder",
            Operation::List => "list",
            Operation::Remove => "remove",
            Operation::Lock => "lock",
            Operation::Print => "write to",
        })
    }
}

/// Why it was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageErrorKind {
    /// The disk or the user's share of it is full.
    Full {
        /// bytes that were to be written; 0 where that is not known, as of a folder's name
        needed: u64,
        /// bytes that are free, where the system says so
        free: Option<u64>,
    },
    /// The user's share of the disk is used up, whatever else is free on it.
    Quota {
        /// bytes that were to be written
        needed: u64,
    },
    /// The file system takes no more files and folders, whatever bytes are free.
    NoInodes {
        /// bytes that are free, where the system says so
        free: Option<u64>,
    },
    /// A file would become longer than the process or the file system allows.
    TooLong,
    /// There is no such file or folder.
    NotFound,
    /// The name is taken, or a file stands where a folder is needed (or a folder where a file is).
    InTheWay,
    /// No permission, or a read-only file system.
    Denied,
    /// Another process, by its id where known, works in this folder.
    Locked(Option<u32>),
    /// What was opened stands there no more: it was deleted, renamed, or something else was put in its place.
    Vanished(Vanished),
    /// Anything else, in the system's words.
    Io(String),
}
impl fmt::Display for StorageErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorageErrorKind::Full { needed: 0, free: Some(free) } => write!(f, "the disk is full: {free} bytes are free, and more are needed"),
            StorageErrorKind::Full { needed: 0, free: None } => f.write_str("the disk is full"),
            StorageErrorKind::Quota { needed: 0 } => f.write_str("your quota on this disk is used up"),
            StorageErrorKind::Full { needed, free: Some(free) } => write!(f, "the disk is full: {needed} bytes are needed, {free} are free"),
            StorageErrorKind::Full { needed, free: None } => write!(f, "the disk is full: {needed} bytes are needed"),
            StorageErrorKind::Quota { needed } => write!(f, "your quota on this disk is used up: {needed} bytes are needed"),
            StorageErrorKind::NoInodes { free: Some(free) } => {
                write!(f, "no inodes are left: this file system takes no more files, though {free} bytes are free; remove some files")
            }
            StorageErrorKind::NoInodes { free: None } => f.write_str("no inodes are left: this file system takes no more files; remove some"),
            StorageErrorKind::TooLong => f.write_str("the file would be longer than is allowed here (`ulimit -f`, or the file system's own limit)"),
            StorageErrorKind::Vanished(vanished) => vanished.fmt(f),
            StorageErrorKind::NotFound => f.write_str("not found"),
            StorageErrorKind::InTheWay => f.write_str("something else stands there"),
            StorageErrorKind::Denied => f.write_str("permission denied or read-only"),
            StorageErrorKind::Locked(Some(id)) => write!(f, "in use by process {id}"),
            StorageErrorKind::Locked(None) => f.write_str("in use by another process"),
            StorageErrorKind::Io(text) => f.write_str(text),
        }
    }
}

/// A failure of a disk, with what was tried and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {op} {}: {kind}", .path.display())]
pub struct StorageError {
    /// what was asked
    pub op: Operation,
    /// where
    pub path: PathBuf,
    /// why it was not done
    pub kind: StorageErrorKind,
}
impl StorageError {
    pub(crate) fn new(op: Operation, path: &Path, kind: StorageErrorKind) -> StorageError {
        StorageError { op, path: path.to_path_buf(), kind }
    }
    /// Of the system's error. `needed`: the bytes that were to be written.
    ///
    /// ```
    /// use adamant_train::storage::{Operation, StorageError};
    /// let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    /// let error = StorageError::of(Operation::Write, std::path::Path::new("a.toml"), 10, &full);
    /// assert!(error.is_full() && error.to_string().starts_with("cannot write a.toml: "));
    /// ```
    pub fn of(op: Operation, path: &Path, needed: u64, e: &std::io::Error) -> StorageError {
        error(op, path, needed, e)
    }
    /// Is there no space: for bytes, for the user's share of them, or for names?
    pub fn is_full(&self) -> bool {
        matches!(self.kind, StorageErrorKind::Full { .. } | StorageErrorKind::Quota { .. } | StorageErrorKind::NoInodes { .. })
    }
    /// What a program can act on: operation, path, and where the disk is full the bytes that are free and those that were needed, if
    /// somebody knows.
    pub fn to_json(&self) -> serde_json::Value {
        let mut told = serde_json::json!({ "operation": self.op.to_string(), "path": self.path.to_string_lossy() });
        let known = |needed: u64| Some(needed).filter(|n| *n > 0);
        match &self.kind {
            StorageErrorKind::Full { needed, free } => (told["needed"], told["free"]) = (known(*needed).into(), (*free).into()),
            StorageErrorKind::Quota { needed } => told["needed"] = known(*needed).into(),
            StorageErrorKind::NoInodes { free } => (told["free"], told["free_inodes"]) = ((*free).into(), 0.into()),
            StorageErrorKind::Locked(process) => told["process"] = (*process).into(),
            StorageErrorKind::Vanished(v) => told["now"] = v.now.as_ref().map(|p| p.to_string_lossy().into_owned()).into(),
            _ => {}
        }
        told
    }
    /// Is there nothing at the path?
    pub fn is_not_found(&self) -> bool {
        self.kind == StorageErrorKind::NotFound
    }
}

/// What a disk answers.
pub type Result<T> = std::result::Result<T, StorageError>;

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// the name, without the folder's; it need not be UTF-8
    pub name: OsString,
    /// a folder itself (a link to one is none)
    pub is_dir: bool,
}

/// A lock on a folder, held until it is dropped. A lock of a process that died holds nobody up.
pub struct Lock {
    _held: Box<dyn Any + Send + Sync>,
}
impl Lock {
    /// A lock that lasts as long as `held` does, for implementations of [`Storage`].
    pub fn new(held: impl Any + Send + Sync) -> Lock {
        Lock { _held: Box::new(held) }
    }
}
impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock")
    }
}

/// A file that is being written from its beginning to its end.
pub trait NewFile: Send {
    /// Appends bytes.
    ///
    /// # Errors
    /// The disk's; how much of the bytes was written is then open.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    /// Makes the content durable. The file's name is so after [`Storage::sync_dir`].
    ///
    /// # Errors
    /// The disk's; whether anything that was written will be found again is then open.
    fn sync(&mut self) -> Result<()>;
}

/// A file that is being read from its beginning to its end.
pub trait OpenFile: Send {
    /// The length in bytes when it was opened.
    fn bytes(&self) -> u64;
    /// Reads up to `into.len()` bytes, and returns how many; 0 at the end.
    ///
    /// # Errors
    /// The disk's.
    fn read(&mut self, into: &mut [u8]) -> Result<usize>;
    /// Passes over so many bytes; at the end it stays there.
    ///
    /// # Errors
    /// The disk's.
    fn skip(&mut self, bytes: u64) -> Result<()> {
        let (mut left, mut passed) = (bytes, vec![0; (bytes.min(1 << 16)) as usize]);
        while left > 0 {
            let most = passed.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match self.read(&mut passed[..most])? {
                0 => break,
                n => left -= n as u64,
            }
        }
        Ok(())
    }
}

/// A disk. Each method is one operation between which the power may go out.
pub trait Storage: Send + Sync {
    /// Makes a folder and those above it; one that is there is fine.
    ///
    /// # Errors
    /// The disk's; a file stands in the way.
    fn create_dir_all(&self, path: &Path) -> Result<()>;
    /// Makes a new, empty file. It never writes to what is there: a name that is taken, by a link too, is an error.
    ///
    /// # Errors
    /// The disk's; the name is taken.
    fn create(&self, path: &Path) -> Result<Box<dyn NewFile>>;
    /// Opens a file to read it.
    ///
    /// # Errors
    /// The disk's.
    fn open(&self, path: &Path) -> Result<Box<dyn OpenFile>>;
    /// Gives a file or folder another name in the same folder, atomically.
    ///
    /// # Errors
    /// The disk's; a folder with something in it has that name.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// The disk's.
    fn sync_dir(&self, path: &Path) -> Result<()>;
    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// The disk's; there is no such folder.
    fn list(&self, path: &Path) -> Result<Vec<Entry>>;
    /// Removes a file, or a link itself; none there is fine.
    ///
    /// # Errors
    /// The disk's.
    fn remove_file(&self, path: &Path) -> Result<()>;
    /// Removes a folder with what is in it, without following links; none there is fine.
    ///
    /// # Errors
    /// The disk's.
    fn remove_dir_all(&self, path: &Path) -> Result<()>;
    /// The bytes that are free where `path` is, if the disk says so.
    fn free(&self, path: &Path) -> Option<u64>;
    /// What a folder is, whatever it is called: so that somebody who has it open notices that it was deleted, renamed or
    /// replaced. None where the disk does not tell.
    ///
    /// # Errors
    /// The disk's; there is no such folder.
    fn identity(&self, _folder: &Path) -> Result<Option<Identity>> {
        Ok(None)
    }
    /// Keeps other processes out of a folder, through a file `.lock` in it, until the lock is dropped. It is an agreement:
    /// only those who lock are kept out.
    ///
    /// # Errors
    /// [`StorageErrorKind::Locked`], if somebody holds it; the disk's.
    fn lock(&self, folder: &Path) -> Result<Lock>;

    /// A whole file, if it has at most `most` bytes.
    ///
    /// # Errors
    /// The disk's; a longer file; memory for it.
    fn read(&self, path: &Path, most: u64) -> Result<Vec<u8>> {
        let fail = |text: String| StorageError::new(Operation::Read, path, StorageErrorKind::Io(text));
        let mut file = self.open(path)?;
        if file.bytes() > most {
            return Err(fail(format!("{} bytes, where at most {most} are expected", file.bytes())));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(file.bytes() as usize).map_err(|e| fail(e.to_string()))?;
        bytes.resize(file.bytes() as usize, 0);
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read(&mut bytes[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_nobody_counted_and_a_person_is_told_of() {
        let told = |kind: StorageErrorKind| {
            let error = StorageError::new(Operation::CreateDir, Path::new("run"), kind);
            (error.to_string(), error.to_json())
        };
        for (kind, says) in [
            (StorageErrorKind::Full { needed: 0, free: Some(12) }, "the disk is full: 12 bytes are free, and more are needed"),
            (StorageErrorKind::Full { needed: 0, free: None }, "the disk is full"),
            (StorageErrorKind::Quota { needed: 0 }, "your quota on this disk is used up"),
        ] {
            let (text, document) = told(kind);
            assert_eq!(text, format!("cannot create folder run: {says}"));
            assert!(document["needed"].is_null() && document["path"] == "run" && document["operation"] == "create folder", "{document}");
        }
        let (text, document) = told(StorageErrorKind::Full { needed: 7, free: Some(5) });
        assert_eq!((text.as_str(), &document["needed"]), ("cannot create folder run: the disk is full: 7 bytes are needed, 5 are free", &7.into()));
    }
}
