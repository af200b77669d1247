//! Reads a file of lines that grows while it is read, or is cut back and grows anew: a run that goes on does that.
//!
//! Only whole lines are given. Where the file is shorter than what was read, or has other bytes at its end, it is read from its
//! beginning.
use std::{
    fs::File,
    io::{self, ErrorKind, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// Bytes that are read at once; a longer line is passed over.
const MOST: usize = 4 << 20;
/// Bytes before the place that was read to, by which a file is known again.
const KNOWN: usize = 256;

/// See the module's documentation.
pub struct LineFollower {
    path: PathBuf,
    /// bytes of whole lines that were given
    read: u64,
    /// the last of them
    end: Vec<u8>,
    /// in the middle of a line that is too long
    skips: bool,
}
/// What has come.
#[derive(Default)]
pub struct Grown {
    /// what was given before stands no more: these are the first lines
    pub anew: bool,
    pub lines: Vec<Vec<u8>>,
    /// there is more to be read
    pub more: bool,
}
impl LineFollower {
    pub fn new(path: PathBuf) -> LineFollower {
        LineFollower { path, read: 0, end: Vec::new(), skips: false }
    }
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// The lines that have come since this was last called, of the next few MiB. A file that is not there has none.
    pub fn read_on(&mut self) -> io::Result<Grown> {
        let mut grown = Grown::default();
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                grown.anew = self.read > 0;
                self.forget();
                return Ok(grown);
            }
            Err(e) => return Err(e),
        };
        if self.read > 0 && !self.knows(&mut file)? {
            grown.anew = true;
            self.forget();
        }
        file.seek(SeekFrom::Start(self.read))?;
        let mut bytes = Vec::new();
        file.take(MOST as u64).read_to_end(&mut bytes)?;
        grown.more = bytes.len() == MOST;
        let whole = match bytes.iter().rposition(|b| *b == b'\n') {
            Some(last) => last + 1,
            None if bytes.len() == MOST => {
                self.skips = true;
                self.went(&bytes);
                return Ok(grown);
            }
            None => 0,
        };
        let bytes = bytes.get(..whole).unwrap_or_default();
        self.went(bytes);
        let mut lines = bytes.split(|b| *b == b'\n');
        if self.skips && !bytes.is_empty() {
            lines.next();
            self.skips = false;
        }
        grown.lines.extend(lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec));
        Ok(grown)
    }
    fn forget(&mut self) {
        (self.read, self.skips) = (0, false);
        self.end.clear();
    }
    fn went(&mut self, bytes: &[u8]) {
        self.read += bytes.len() as u64;
        self.end.extend_from_slice(bytes.get(bytes.len().saturating_sub(KNOWN)..).unwrap_or_default());
        self.end.drain(..self.end.len().saturating_sub(KNOWN));
    }
    /// Does the file still have what was read last?
    fn knows(&self, file: &mut File) -> io::Result<bool> {
        if file.metadata()?.len() < self.read {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(self.read - self.end.len() as u64))?;
        let mut there = vec![0; self.end.len()];
        match file.read_exact(&mut there) {
            Ok(()) => Ok(there == self.end),
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    #[test]
    fn a_line_that_is_torn_or_given_twice_or_lost_where_a_file_goes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut follower = LineFollower::new(path.clone());
        let mut read = || {
            let grown = follower.read_on().unwrap();
            let lines: Vec<String> = grown.lines.into_iter().map(|l| String::from_utf8(l).unwrap()).collect();
            (grown.anew, lines.join(" "))
        };
        let mut check = |content: Option<&str>, anew: bool, lines: &str| {
            match content {
                Some(text) => fs::write(&path, text).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            assert_eq!(read(), (anew, lines.to_string()), "{content:?}");
        };
        check(Some(""), false, "");
        check(Some("a"), false, "");
        check(Some("a\nb"), false, "a");
        check(Some("a\nb\n\nc\n"), false, "b c");
        check(Some("a\nb\n\nc\n"), false, "");
        // Cut back, and grown anew to more than there was.
        check(Some("a\nb\n"), true, "a b");
        check(Some("a\nb\nd\n"), false, "d");
        check(Some("a\nx\ny\nz\n"), true, "a x y z");
        check(Some("a\nx\ny"), true, "a x");
        check(None, true, "");
        check(Some("q\n"), false, "q");
    }
    #[test]
    fn a_line_that_is_larger_than_memory_should_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        fs::write(&path, [b"a\n".to_vec(), vec![b'x'; 3 * MOST], b"\nb\n".to_vec()].concat()).unwrap();
        let mut follower = LineFollower::new(path);
        let (mut lines, mut rounds) = (Vec::new(), 0);
        loop {
            let grown = follower.read_on().unwrap();
            lines.extend(grown.lines);
            rounds += 1;
            if !grown.more {
                break;
            }
        }
        assert!(rounds < 8 && lines == [b"a".to_vec(), b"b".to_vec()], "{rounds} {}", lines.len());
    }
}
