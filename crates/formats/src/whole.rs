//! Files that appear whole or not at all, and errors that name them. Everything of Adamant that replaces a file does it here;
//! checkpoints, which are folders, have a way of their own.
use adamant_core::{Error, ErrorKind, Origin};
use std::{
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// Writes beside the file (its name and `.tmp`) and renames, so that whoever reads it finds the old one or the new one, never
/// a part. `io` makes the caller's error of the system's.
///
/// ```
/// use std::io::Write;
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("notes.txt");
/// adamant_formats::whole::replace(&path, |e| e, |file| file.write_all(b"all of it"))?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// What `write` came to, or the system's. Then the old file is as it was, and nothing is left of the new one.
pub fn replace<E>(path: &Path, io: impl Fn(io::Error) -> E, write: impl FnOnce(&mut BufWriter<fs::File>) -> Result<(), E>) -> Result<(), E> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    let attempt = || {
        let mut file = BufWriter::new(fs::File::create(&beside).map_err(&io)?);
        write(&mut file)?;
        file.flush().map_err(&io)?;
        let file = file.into_inner().map_err(|e| io(e.into_error()))?;
        file.sync_all().and_then(|()| fs::rename(&beside, path)).map_err(&io)
    };
    let done = attempt();
    if done.is_err() {
        // Best effort: what matters to the caller is the first error.
        let _ = fs::remove_file(&beside);
    }
    done
}
/// The reason as an error that names the file and the caller's line.
#[track_caller]
pub(crate) fn named<T>(op: &'static str, path: &Path, result: Result<T, String>) -> Result<T, Error> {
    let here = Origin::here();
    result.map_err(|reason| file_error(op, path, reason, here))
}
pub(crate) fn file_error(op: &'static str, path: &Path, reason: String, here: Origin) -> Error {
    Error::at(op, ErrorKind::File { path: path.display().to_string(), reason: crate::shown_reason(reason) }, here)
}
