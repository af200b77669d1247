//! Files mapped into memory, for data that is larger than memory.
//!
//! Bytes are copied out, never lent, and after a budget of touched bytes the file is mapped anew: the pages that were
//! read leave the process (the system keeps them cached as long as it likes), so resident memory stays near the budget.
//!
//! Contract: the file must not change while it is mapped. Whoever shortens it makes the system stop the process at the
//! next read beyond its end (SIGBUS); no program can turn that into an error. Use it for files that you own.
use adamant_core::{Error, ErrorKind};
use memmap2::Mmap;
use std::{
    fmt,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Bytes that are touched before the file is mapped anew.
pub const RESIDENT_BUDGET: usize = 96 << 20;
/// What a read touches at least: the system maps cached neighbours of a page along with it.
const AROUND: usize = 64 << 10;

/// A file mapped for reading. Many threads may read at once.
pub struct MappedFile {
    path: PathBuf,
    file: File,
    map: RwLock<Arc<Mmap>>,
    len: usize,
    touched: AtomicUsize,
}
impl fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MappedFile({}, {} bytes)", self.path.display(), self.len)
    }
}
impl MappedFile {
    /// Maps a file as long as it is now. It must not change until the mapping is gone.
    ///
    /// # Errors
    /// `File`, if it cannot be opened or mapped.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<MappedFile, Error> {
        let path = path.as_ref();
        let open = || {
            let file = crate::regular::open(path)?;
            let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
            let map = RwLock::new(Arc::new(map(&file)?));
            Ok(MappedFile { path: path.to_path_buf(), file, map, len, touched: AtomicUsize::new(0) })
        };
        open().map_err(|e: io::Error| Error::new("mmap", ErrorKind::File { path: path.display().to_string(), reason: e.to_string() }))
    }
    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Bytes in the file.
    pub fn len(&self) -> usize {
        self.len
    }
    /// No bytes?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Copies the bytes from `offset` on over `out`, all or none.
    ///
    /// # Errors
    /// They reach beyond the end; the file could not be mapped anew.
    pub fn read_at(&self, offset: usize, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        let pages = out.len().next_multiple_of(AROUND);
        if self.touched.fetch_add(pages, Relaxed) >= RESIDENT_BUDGET {
            self.release()?;
        }
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner).clone();
        let bytes = map.get(offset..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }
    /// Maps the file anew; the old mapping goes when the last reader that holds it is done.
    fn release(&self) -> io::Result<()> {
        let mut current = self.map.write().unwrap_or_else(PoisonError::into_inner);
        // Others may have waited for the same.
        if self.touched.load(Relaxed) >= RESIDENT_BUDGET {
            let fresh = map(&self.file)?;
            if fresh.len() < self.len {
                return Err(io::Error::other(format!("the file has {} bytes where it had {} when it was mapped", fresh.len(), self.len)));
            }
            *current = Arc::new(fresh);
            self.touched.store(0, Relaxed);
        }
        Ok(())
    }
}
#[allow(unsafe_code)]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the map is only read, and only by copying bytes out of it while this module holds it; no reference leaves
    // the module. That nobody else writes to the file or shortens it is the contract of `MappedFile::open`.
    unsafe { Mmap::map(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_another_place_or_beyond_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.bin");
        std::fs::write(&path, (0..=255u8).collect::<Vec<_>>()).unwrap();
        let file = MappedFile::open(&path).unwrap();
        let mut out = [0; 4];
        file.read_at(250, &mut out).unwrap();
        assert_eq!((out, file.len()), ([250, 251, 252, 253], 256));
        for offset in [253, 256, usize::MAX] {
            assert!(file.read_at(offset, &mut out).is_err());
        }
        file.read_at(256, &mut []).unwrap();
        // Mapped anew, the bytes are the same.
        file.touched.store(RESIDENT_BUDGET, Relaxed);
        file.read_at(8, &mut out).unwrap();
        assert_eq!(out, [8, 9, 10, 11]);
        assert!(file.touched.load(Relaxed) < RESIDENT_BUDGET);
    }
    #[test]
    fn an_empty_or_missing_file_that_is_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty");
        std::fs::write(&path, []).unwrap();
        let empty = MappedFile::open(&path).unwrap();
        assert!(empty.is_empty() && empty.read_at(0, &mut [0]).is_err());
        assert!(MappedFile::open(folder.path().join("none")).unwrap_err().to_string().contains("none"));
    }
}
