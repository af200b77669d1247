//! The real disk, through std's files. It knows nothing of what the files hold.
use super::{Entry, Identity, Lock, NewFile, OpenFile, Operation, Result, Storage, StorageError, StorageErrorKind};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// The machine's file systems.
///
/// ```
/// use adamant_train::storage::{Disk, Storage};
/// let folder = tempfile::tempdir()?;
/// let mut file = Disk.create(&folder.path().join("a"))?;
/// file.write(b"abc")?;
/// file.sync()?;
/// Disk.sync_dir(folder.path())?;
/// assert_eq!(Disk.read(&folder.path().join("a"), 10)?, b"abc");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

/// The file in a folder that a lock is put on. It stays there: removing it would let two processes in.
const LOCK: &str = ".lock";

struct DiskFile {
    file: File,
    path: PathBuf,
}
struct DiskReader {
    file: File,
    path: PathBuf,
    bytes: u64,
}

/// Tries again as long as a signal came in between.
fn retried<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
/// The system's error as one of ours.
pub(crate) fn error(op: Operation, path: &Path, needed: u64, e: &io::Error) -> StorageError {
    let kind = match e.kind() {
        io::ErrorKind::StorageFull if free_inodes(path) == Some(0) => StorageErrorKind::NoInodes { free: free(path) },
        io::ErrorKind::StorageFull => StorageErrorKind::Full { needed, free: free(path) },
        io::ErrorKind::QuotaExceeded => StorageErrorKind::Quota { needed },
        io::ErrorKind::FileTooLarge => StorageErrorKind::TooLong,
        io::ErrorKind::NotFound => StorageErrorKind::NotFound,
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::DirectoryNotEmpty => {
            StorageErrorKind::InTheWay
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StorageErrorKind::Denied,
        _ => StorageErrorKind::Io(e.to_string()),
    };
    StorageError::new(op, path, kind)
}
/// Free bytes where a path is, or where the nearest folder above it is.
fn free(path: &Path) -> Option<u64> {
    or_above(path).find_map(|p| fs4::available_space(p).ok())
}
/// A path, and the folders above it.
fn or_above(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p })
}
/// Names that the file system has inodes for. Systems without a fixed number of them say that they have none at all.
#[cfg(unix)]
fn free_inodes(path: &Path) -> Option<u64> {
    or_above(path).find_map(|p| rustix::fs::statvfs(p).ok()).filter(|s| s.f_files > 0).map(|s| s.f_favail)
}
#[cfg(not(unix))]
fn free_inodes(_: &Path) -> Option<u64> {
    None
}

impl NewFile for DiskFile {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        // `write_all` tries again by itself after a signal.
        self.file.write_all(bytes).map_err(|e| error(Operation::Write, &self.path, bytes.len() as u64, &e))
    }
    fn sync(&mut self) -> Result<()> {
        retried(|| self.file.sync_all()).map_err(|e| error(Operation::Sync, &self.path, 0, &e))
    }
}
impl OpenFile for DiskReader {
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        retried(|| self.file.read(into)).map_err(|e| error(Operation::Read, &self.path, 0, &e))
    }
    fn skip(&mut self, bytes: u64) -> Result<()> {
        let far = i64::try_from(bytes).map_err(|e| error(Operation::Read, &self.path, 0, &io::Error::other(e)))?;
        retried(|| self.file.seek(SeekFrom::Current(far))).map(drop).map_err(|e| error(Operation::Read, &self.path, 0, &e))
    }
}

impl Storage for Disk {
    fn create_dir_all(&self, path: &Path) -> Result<()> {
        retried(|| fs::create_dir_all(path)).map_err(|e| error(Operation::CreateDir, path, 0, &e))
    }
    fn create(&self, path: &Path) -> Result<Box<dyn NewFile>> {
        let file = retried(|| OpenOptions::new().write(true).create_new(true).open(path)).map_err(|e| error(Operation::Create, path, 0, &e))?;
        Ok(Box::new(DiskFile { file, path: path.to_path_buf() }))
    }
    fn open(&self, path: &Path) -> Result<Box<dyn OpenFile>> {
        let opened = retried(|| {
            // What is no file is refused before it is opened: opening a pipe would wait for somebody to write.
            let kind = fs::metadata(path)?;
            if kind.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            if !kind.is_file() {
                return Err(io::Error::other("not a file"));
            }
            let file = File::open(path)?;
            let bytes = file.metadata()?.len();
            Ok((file, bytes))
        });
        let (file, bytes) = opened.map_err(|e| error(Operation::Read, path, 0, &e))?;
        Ok(Box::new(DiskReader { file, path: path.to_path_buf(), bytes }))
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        retried(|| fs::rename(from, to)).map_err(|e| error(Operation::Rename, from, 0, &e))
    }
    fn sync_dir(&self, path: &Path) -> Result<()> {
        // Elsewhere a folder cannot be opened as a file, and the system keeps its names by a journal of its own.
        #[cfg(unix)]
        retried(|| File::open(path)?.sync_all()).map_err(|e| error(Operation::SyncDir, path, 0, &e))?;
        #[cfg(not(unix))]
        let _ = path;
        Ok(())
    }
    fn list(&self, path: &Path) -> Result<Vec<Entry>> {
        let listed = retried(|| fs::read_dir(path)?.map(|e| e.and_then(|e| Ok(Entry { name: e.file_name(), is_dir: e.file_type()?.is_dir() }))).collect());
        let mut entries: Vec<Entry> = listed.map_err(|e| error(Operation::List, path, 0, &e))?;
        entries.sort();
        Ok(entries)
    }
    fn remove_file(&self, path: &Path) -> Result<()> {
        removed(path, retried(|| fs::remove_file(path)))
    }
    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        removed(path, retried(|| fs::remove_dir_all(path)))
    }
    fn free(&self, path: &Path) -> Option<u64> {
        free(path)
    }
    fn identity(&self, folder: &Path) -> Result<Option<Identity>> {
        Ok(Some(Identity::of(folder)?))
    }
    fn lock(&self, folder: &Path) -> Result<Lock> {
        let path = folder.join(LOCK);
        let fail = |e: &io::Error| error(Operation::Lock, &path, 0, e);
        // Its content is replaced below: what a link points at is somebody else's.
        if fs::symlink_metadata(&path).is_ok_and(|m| !m.is_file()) {
            return Err(StorageError::new(Operation::Lock, &path, StorageErrorKind::InTheWay));
        }
        // Not truncated: whoever holds the lock has written its process id into it.
        let mut file = retried(|| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)).map_err(|e| fail(&e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = Read::by_ref(&mut file).take(16).read_to_string(&mut holder);
                return Err(StorageError::new(Operation::Lock, &path, StorageErrorKind::Locked(holder.trim().parse().ok())));
            }
            Err(TryLockError::Error(e)) => return Err(fail(&e)),
        }
        // The id only serves the message that another process gets: a disk too full for it does not keep a run from going on.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Lock::new(file))
    }
}
fn removed(path: &Path, done: io::Result<()>) -> Result<()> {
    match done {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(error(Operation::Remove, path, 0, &e)),
        _ => Ok(()),
    }
}
