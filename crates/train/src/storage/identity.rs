//! What a folder or file is, whatever it is called. A path may come to mean something else while a program works: the folder
//! is deleted, renamed, or another one is put in its place. Who writes by the path would then write beside what it had.
use super::{Operation, Result, StorageError, StorageErrorKind, error};
use std::{
    fmt,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What stood at a path when it was looked at.
#[derive(Clone, Debug)]
pub struct Identity {
    path: PathBuf,
    /// device and number of the file: no other one has them while this one is held open
    number: (u64, u64),
    /// keeps the number from being given to another one, and tells where a folder that was renamed is now
    held: Arc<File>,
}
/// What became of something that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vanished {
    /// where it is now, if it was renamed and the system tells
    pub now: Option<PathBuf>,
    /// does something else stand in its place?
    pub replaced: bool,
    /// of a run folder: its newest checkpoint, if there is one where it is now
    pub checkpoint: Option<PathBuf>,
}
impl fmt::Display for Vanished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.now {
            Some(now) => write!(f, "it was renamed while it was written to, and is now {}", now.display())?,
            None => f.write_str("it was deleted while it was written to, with all that it held")?,
        }
        f.write_str(if self.replaced { "; something else stands in its place, and was left alone" } else { "" })?;
        match (&self.checkpoint, &self.now) {
            (Some(path), Some(now)) => {
                write!(f, "; its newest checkpoint is {}: go on with `--resume {}`, steps after it are lost", path.display(), now.display())
            }
            _ => Ok(()),
        }
    }
}
impl Identity {
    /// What stands at a path.
    ///
    /// # Errors
    /// Nothing does, or it may not be looked at.
    pub fn of(path: &Path) -> Result<Identity> {
        let fail = |e: &std::io::Error| error(Operation::Read, path, 0, e);
        let held = File::open(path).map_err(|e| fail(&e))?;
        let number = number(&held.metadata().map_err(|e| fail(&e))?);
        Ok(Identity { path: path.to_path_buf(), number, held: Arc::new(held) })
    }
    /// Does it still stand there?
    ///
    /// # Errors
    /// [`StorageErrorKind::Vanished`], for the operation that it would have been looked at for; the disk's.
    pub fn check(&self, op: Operation) -> Result<()> {
        let replaced = match std::fs::metadata(&self.path) {
            Ok(there) if number(&there) == self.number => return Ok(()),
            Ok(_) => true,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => false,
            Err(e) => return Err(error(op, &self.path, 0, &e)),
        };
        Err(StorageError::new(op, &self.path, StorageErrorKind::Vanished(Vanished { now: self.now(), replaced, checkpoint: None })))
    }
    /// Where a thing is that was renamed.
    fn now(&self) -> Option<PathBuf> {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            let place = std::fs::read_link(format!("/proc/self/fd/{}", self.held.as_raw_fd())).ok()?;
            // Of what was deleted the system says another text; what it says is believed where it is so.
            std::fs::metadata(&place).is_ok_and(|there| number(&there) == self.number).then_some(place)
        }
        #[cfg(not(target_os = "linux"))]
        None
    }
}
#[cfg(unix)]
fn number(there: &std::fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (there.dev(), there.ino())
}
/// Elsewhere std tells no number: that something stands there must do.
#[cfg(not(unix))]
fn number(_: &std::fs::Metadata) -> (u64, u64) {
    (0, 0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    #[test]
    fn a_folder_that_is_gone_and_is_written_to_all_the_same() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("run"), place.path().join("other"));
        let lost = |identity: &Identity| match identity.check(Operation::Write).unwrap_err().kind {
            StorageErrorKind::Vanished(v) => v,
            other => unreachable!("{other}"),
        };
        fs::create_dir(&path).unwrap();
        let identity = Identity::of(&path).unwrap();
        identity.check(Operation::Write).unwrap();
        fs::rename(&path, &other).unwrap();
        assert_eq!(lost(&identity), Vanished { now: Some(other.clone()), replaced: false, checkpoint: None });
        fs::create_dir(&path).unwrap();
        assert_eq!(lost(&identity), Vanished { now: Some(other.clone()), replaced: true, checkpoint: None });
        // Back again, it is what it was.
        fs::remove_dir(&path).unwrap();
        fs::rename(&other, &path).unwrap();
        identity.check(Operation::Write).unwrap();
        fs::remove_dir(&path).unwrap();
        assert_eq!(lost(&identity), Vanished { now: None, replaced: false, checkpoint: None });
        // Another one of the same name has another number, as long as the first is remembered.
        for _ in 0..20 {
            fs::create_dir(&path).unwrap();
            assert!(lost(&identity).replaced);
            fs::remove_dir(&path).unwrap();
        }
        assert!(Identity::of(&path).unwrap_err().is_not_found());
    }
}
