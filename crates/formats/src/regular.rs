//! Files that end: a device, a pipe or a folder in a file's place is refused before it is read, for it may never end, or
//! never begin.
use std::{
    fs::{self, File},
    io,
    path::Path,
};

/// Opens a file for reading, if it is one.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// assert!(adamant_formats::regular::open(folder.path()).unwrap_err().to_string().contains("a folder"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The system's; it is a folder, a device, a pipe or a socket.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    // Asked before opening: opening a pipe waits for somebody to write into it.
    must_be_regular(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    // And again of what was opened: the name may stand for another file by now.
    must_be_regular(&file.metadata()?)?;
    Ok(file)
}
/// A file's text.
///
/// # Errors
/// As [`open`]; more than `most` bytes; no UTF-8.
pub fn read_text(path: impl AsRef<Path>, most: u64) -> io::Result<String> {
    use io::Read;
    let mut text = String::new();
    open(path)?.take(most.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(text)
}
fn must_be_regular(facts: &fs::Metadata) -> io::Result<()> {
    match facts {
        facts if facts.is_file() => Ok(()),
        facts if facts.is_dir() => Err(io::Error::other("it is a folder, not a file")),
        _ => Err(io::Error::other("it is a device, a pipe or a socket; only files that end are read: write it to a file first")),
    }
}

#[cfg(all(test, unix))]
mod tests {
    #[test]
    fn a_file_without_an_end_that_is_read() {
        for path in ["/dev/zero", "/dev/null", "/dev"] {
            let error = super::open(path).unwrap_err().to_string();
            assert!(error.contains("not a file") || error.contains("only files that end"), "{path}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        if std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|s| s.success()) {
            assert!(super::open(&pipe).unwrap_err().to_string().contains("a pipe"));
        }
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(super::read_text(&path, 4).unwrap(), "four");
        assert!(super::read_text(&path, 3).unwrap_err().to_string().contains("more than 3 bytes"));
    }
}
