//! What is left of the lines that a checkpoint counts on. They report what was computed and are no part of the state, so a
//! run goes on without those that are lost, and says which.
use crate::storage::{Operation, Result, error};
use serde::Deserialize;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

/// The longest line that is looked into.
const LONGEST: u64 = 16 << 20;

/// See the module's documentation.
#[derive(Debug, Default, PartialEq)]
pub struct Left {
    /// bytes of whole lines
    pub bytes: u64,
    /// the step of the last line that can be read
    last: Option<u64>,
    /// how many lines among them cannot be read, and the number of the first, from 1
    unreadable: Option<(u64, u64)>,
}
#[derive(Deserialize)]
#[serde(expecting = "struct Step")]
struct LeftStep {
    step: u64,
}
/// Looks into the first `most` bytes of a file; one that is not there is empty.
///
/// # Errors
/// It cannot be read.
pub fn lines(path: &Path, most: u64) -> Result<Left> {
    let fail = |e: &io::Error| error(Operation::Read, path, 0, e);
    let mut left = Left::default();
    if most == 0 {
        return Ok(left);
    }
    let mut reader = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(left),
        file => BufReader::new(file.map_err(|e| fail(&e))?.take(most)),
    };
    let (mut line, mut number) = (Vec::new(), 1);
    loop {
        line.clear();
        let length = Read::by_ref(&mut reader).take(LONGEST).read_until(b'\n', &mut line).map_err(|e| fail(&e))? as u64;
        if line.last() != Some(&b'\n') {
            if length < LONGEST {
                // The end of the file, or what is there of a line that was cut.
                return Ok(left);
            }
            // No line of ours: what follows in it is passed over.
            let rest = reader.skip_until(b'\n').map_err(|e| fail(&e))? as u64;
            line.clear();
            left.bytes += rest;
        }
        left.bytes += length;
        match serde_json::from_slice::<LeftStep>(&line) {
            Ok(LeftStep { step }) => left.last = Some(step),
            Err(_) => left.unreadable = Some(left.unreadable.map_or((1, number), |(count, first)| (count + 1, first))),
        }
        number += 1;
    }
}
impl Left {
    /// What a person should know.
    pub fn warnings(&self, path: &Path, counted_on: u64) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.bytes < counted_on {
            let until = self.last.map_or_else(|| "none of its lines is left".into(), |step| format!("its last line is of step {step}"));
            warnings.push(format!(
                "{}: {} of the {counted_on} bytes that the checkpoint counts on are lost, {until}; the run goes on, and the log behind a line of kind `gap`",
                path.display(),
                counted_on - self.bytes
            ));
        }
        if let Some((count, first)) = self.unreadable {
            warnings.push(format!("{}: {count} lines cannot be read, the first is line {first}; they were left as they are", path.display()));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lines_that_are_lost_in_silence_or_cut_in_the_middle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let whole = "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n";
        for (text, most, bytes, last, unreadable, warns) in [
            (Some(whole), 33, 33, Some(3), None, 0),
            (Some(whole), 22, 22, Some(2), None, 0),
            (Some(whole), 30, 22, Some(2), None, 1),
            (Some(&whole[..25]), 33, 22, Some(2), None, 1),
            (Some("{\"step\":1}\n{\"s?ep\":2}\n\n{\"step\":3}\n"), 34, 34, Some(3), Some((2, 2)), 1),
            (Some(""), 33, 0, None, None, 1),
            (Some("\0\0\0\0"), 33, 0, None, None, 1),
            (None, 33, 0, None, None, 1),
            (None, 0, 0, None, None, 0),
        ] {
            let _ = std::fs::remove_file(&path);
            text.iter().for_each(|t| std::fs::write(&path, t).unwrap());
            let left = lines(&path, most).unwrap();
            assert_eq!(left, Left { bytes, last, unreadable }, "{text:?} {most}");
            assert_eq!(left.warnings(&path, most).len(), warns, "{text:?} {most}");
        }
        let long = [vec![b'x'; 40 << 20], b"\n{\"step\":7}\n".to_vec()].concat();
        std::fs::write(&path, &long).unwrap();
        assert_eq!(lines(&path, u64::MAX).unwrap(), Left { bytes: long.len() as u64, last: Some(7), unreadable: Some((1, 1)) });
        assert!(lines(folder.path(), 5).is_err());
    }
}
