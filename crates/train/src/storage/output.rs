//! Files that a person asks for at a path of their own: weights, a trace. Whether they can be written is known before the
//! work begins whose result they are to hold.
use super::{Operation, Result, StorageError, StorageErrorKind, error};
use crate::Failure;
use adamant_core::ErrorKind;
use std::{fs::OpenOptions, io, path::Path};

/// Can a file be written at a path? Its folder must be there and take a new file; nothing but a file may stand at the path.
/// Nothing is left behind.
///
/// ```
/// use adamant_train::storage::check_output;
/// let folder = tempfile::tempdir()?;
/// check_output(&folder.path().join("w.safetensors"))?;
/// let failed = check_output(&folder.path().join("nofolder/w.safetensors"));
/// assert!(failed.is_err_and(|e| e.to_string().ends_with("there is no such folder")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// What stands in the way, with the folder or file.
pub fn check_output(path: &Path) -> Result<()> {
    let refuse = |at: &Path, why: &str| Err(StorageError::new(Operation::Write, at, StorageErrorKind::Io(why.into())));
    let is_folders = path.as_os_str().as_encoded_bytes().last().is_some_and(|b| std::path::is_separator(char::from(*b)));
    if path.file_name().is_none() || is_folders {
        return refuse(path, "it names a folder, and a file is written");
    }
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match std::fs::metadata(folder) {
        Ok(m) if !m.is_dir() => return refuse(path, &format!("{} is no folder", folder.display())),
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return refuse(path, "there is no such folder"),
        Err(e) => return Err(error(Operation::Write, path, 0, &e)),
    }
    match std::fs::metadata(path) {
        Ok(m) if m.is_dir() => return refuse(path, "a folder stands there"),
        Ok(m) if !m.is_file() => return refuse(path, "what stands there is no file"),
        _ => {}
    }
    // Permissions say little (root, read-only mounts, quotas): the folder is asked. The name is the one that a file has until
    // it is whole.
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = Path::new(&beside);
    match OpenOptions::new().write(true).create_new(true).open(beside) {
        Ok(_) => std::fs::remove_file(beside).map_err(|e| error(Operation::Write, path, 0, &e)),
        // Left by somebody who was killed: it will be written over.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && beside.is_file() => Ok(()),
        Err(e) => Err(error(Operation::Write, path, 0, &e)),
    }
}
/// What became of a file of tensors, of so many bytes, that was to be written: the disk's failure as such, anything else as it is.
pub fn written(path: &Path, needed: u64, e: adamant_core::Error) -> Failure {
    let ErrorKind::File { reason, .. } = e.kind() else { return e.into() };
    // The library has the system's error as a text; its number stands at the end.
    let number = reason.rsplit_once("(os error ").and_then(|(_, n)| n.trim_end_matches(')').parse().ok());
    let error = match number {
        Some(number) => error(Operation::Write, path, needed, &io::Error::from_raw_os_error(number)),
        None => StorageError::new(Operation::Write, path, StorageErrorKind::Io(reason.clone())),
    };
    error.into()
}
/// What became of an answer that was to be printed.
pub fn stdout_error(e: &io::Error, needed: u64) -> Failure {
    let mut error = error(Operation::Print, Path::new("stdout"), needed, e);
    // What is free in the folder that the program happens to be in says nothing of where the answer goes.
    if let StorageErrorKind::Full { free, .. } = &mut error.kind {
        *free = None;
    }
    error.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_path_that_cannot_be_written_and_is_found_out_after_the_work() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("file"), b"kept").unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        for (name, why) in [
            ("none/x", "there is no such folder"),
            ("file/x", "file is no folder"),
            ("folder", "a folder stands there"),
            ("new/", "it names a folder"),
            ("folder/..", "it names a folder"),
        ] {
            let told = check_output(&at(name)).unwrap_err().to_string();
            assert!(told.contains(why) && told.starts_with("cannot write "), "{name}: {told}");
        }
        if cfg!(unix) {
            for (path, why) in [("/dev/null", "no file"), ("/proc/x", "cannot write /proc/x"), ("", "it names a folder")] {
                assert!(check_output(Path::new(path)).unwrap_err().to_string().contains(why), "{path}");
            }
        }
        for name in ["file", "new", "folder/new"] {
            check_output(&at(name)).unwrap();
        }
        // Looked at, not touched.
        assert_eq!(std::fs::read(at("file")).unwrap(), b"kept");
        assert_eq!((std::fs::read_dir(place.path()).unwrap().count(), std::fs::read_dir(at("folder")).unwrap().count()), (2, 0));
    }
}
