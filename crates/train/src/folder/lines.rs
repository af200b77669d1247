//! A file that grows by whole records: lines of JSON, events for TensorBoard.
//!
//! What cannot be written stays in memory and is tried again with the next record; what was written of it is cut off, so that
//! a reader never finds half a record before the end. So a disk that is full for a while costs nothing.
use crate::storage::{Identity, Operation, Result, StorageError, StorageErrorKind, error};
use std::{
    fs::{File, OpenOptions},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// Bytes that may wait for space on the disk: 16 MiB, more than a hundred thousand lines.
const MOST: usize = 16 << 20;

/// See the module's documentation.
pub struct Lines {
    file: File,
    path: PathBuf,
    /// bytes of whole records in the file
    written: u64,
    waiting: Vec<u8>,
    /// of a file that was opened by its path
    identity: Option<Identity>,
}
impl Lines {
    /// Opens a file, made if need be, and cuts it to its first `keep` bytes (`None`: it is kept whole).
    ///
    /// # Errors
    /// It cannot be opened or cut.
    pub fn open(path: &Path, keep: Option<u64>) -> Result<Lines> {
        let fail = |e: std::io::Error| error(Operation::Write, path, 0, &e);
        let mut file = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(path).map_err(fail)?;
        if let Some(keep) = keep {
            file.set_len(keep).map_err(fail)?;
        }
        let written = file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(Lines { file, path: path.to_path_buf(), written, waiting: Vec::new(), identity: Some(Identity::of(path)?) })
    }
    /// Of a file that was just made.
    pub fn new(file: File, path: PathBuf) -> Lines {
        Lines { file, path, written: 0, waiting: Vec::new(), identity: None }
    }
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Is the file still the one that stands at its path?
    ///
    /// # Errors
    /// It was deleted, renamed or replaced: lines would go where nobody looks for them.
    pub fn check(&self) -> Result<()> {
        self.identity.as_ref().map_or(Ok(()), |identity| identity.check(Operation::Write))
    }
    /// Bytes of all records, those that wait among them.
    pub fn bytes(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }
    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
    /// Adds a record, to be written with the next [`Lines::flush`].
    ///
    /// # Errors
    /// So much waits already that memory would be the next to be full; the record is not added.
    pub fn add(&mut self, record: &[u8]) -> Result<()> {
        if self.waiting.len() + record.len() > MOST {
            let kind = StorageErrorKind::Io(format!("{} bytes wait for space on the disk, and no more may", self.waiting.len()));
            return Err(StorageError::new(Operation::Write, &self.path, kind));
        }
        self.waiting.extend_from_slice(record);
        Ok(())
    }
    /// Hands all records to the operating system.
    ///
    /// # Errors
    /// The disk's; then they wait for the next call.
    pub fn flush(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        if let Err(e) = self.file.write_all(&self.waiting) {
            // As far as the disk allows: if even this fails, the next attempt begins at the same place.
            let _ = self.file.set_len(self.written);
            let _ = self.file.seek(SeekFrom::Start(self.written));
            return Err(error(Operation::Write, &self.path, self.waiting.len() as u64, &e));
        }
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }
    /// What makes all that was written durable, on any thread.
    ///
    /// # Errors
    /// The system gives no second handle of the file.
    pub fn sync(&self) -> Result<impl FnOnce() -> Result<()> + Send + 'static> {
        let fail = |path: &Path, e: &std::io::Error| error(Operation::Sync, path, 0, e);
        let file = self.file.try_clone().map_err(|e| fail(&self.path, &e))?;
        let path = self.path.clone();
        Ok(move || file.sync_data().map_err(|e| fail(&path, &e)))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_record_that_is_lost_or_torn_where_the_disk_is_full_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut lines = Lines::open(&path, None).unwrap();
        lines.add(b"first\n").unwrap();
        lines.flush().unwrap();
        // The device that is always full, in the file's place.
        let good = std::mem::replace(&mut lines.file, OpenOptions::new().write(true).open("/dev/full").unwrap());
        lines.add(b"second\n").unwrap();
        let failed = lines.flush().unwrap_err();
        assert!(failed.is_full() && failed.path == path, "{failed}");
        assert_eq!((lines.waiting(), lines.bytes()), (7, 13));
        lines.file = good;
        lines.add(b"third\n").unwrap();
        lines.flush().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\nsecond\nthird\n");
        assert_eq!((lines.waiting(), lines.bytes()), (0, 19));
    }
    #[test]
    fn lines_that_wait_without_bound() {
        let folder = tempfile::tempdir().unwrap();
        let mut lines = Lines::open(&folder.path().join("lines"), None).unwrap();
        for _ in 0..16 {
            lines.add(&vec![b'x'; 1 << 20]).unwrap();
        }
        assert!(lines.add(b"x").unwrap_err().to_string().contains("wait for space"));
    }
}
