//! Files that appear whole or not at all, and errors that name them.
use adamant_core::{Error, ErrorKind, Origin};
use std::{
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// Writes beside the file and renames, so that whoever reads it finds the old one or the new one, never a part.
pub(crate) fn replace(op: &'static str, path: &Path, here: Origin, write: impl FnOnce(&mut BufWriter<fs::File>) -> Result<(), Error>) -> Result<(), Error> {
    let io = |e: io::Error| file_error(op, path, e.to_string(), here);
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    let attempt = || {
        let mut file = BufWriter::new(fs::File::create(&beside).map_err(io)?);
        write(&mut file)?;
        file.flush().map_err(io)?;
        let file = file.into_inner().map_err(|e| io(e.into_error()))?;
        file.sync_all().and_then(|()| fs::rename(&beside, path)).map_err(io)
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
    Error::at(op, ErrorKind::File { path: path.display().to_string(), reason }, here)
}
