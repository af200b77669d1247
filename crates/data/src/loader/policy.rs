//! What is done about bad records, when the batch they are missing from is handed out: in order, and once.
use crate::{BadRecord, wrong};
use adamant_core::{Error, ErrorKind, Origin, Result};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// What to do about a record that is damaged, panics or hangs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The first one is an error.
    #[default]
    Fail,
    /// Its batch is made without it.
    Skip {
        /// in an epoch; one more is an error
        at_most: usize,
    },
    /// As `Skip`, and each is named once in a file: one JSON object a line, with `file`, `index`, `offset`, `cause`,
    /// `reason`, and the `epoch` and `batch` in which it was met first. Lines that are there already are kept.
    Quarantine {
        /// where to
        file: PathBuf,
        /// in an epoch; one more is an error
        at_most: usize,
    },
}

/// One line of the quarantine file.
#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    record: BadRecord,
    epoch: u64,
    batch: usize,
}
type Name = (PathBuf, usize);

/// What has been done so far.
pub(crate) struct Ledger {
    policy: Policy,
    /// of this epoch
    count: usize,
    met: Vec<BadRecord>,
    /// the file, and who is named in it
    quarantine: Option<(File, HashSet<Name>)>,
}
impl Ledger {
    #[track_caller]
    pub fn new(policy: Policy) -> Result<Ledger> {
        let quarantine = match &policy {
            Policy::Quarantine { file, .. } => Some(open(file).map_err(|e| unwritable(file, &e, Origin::here()))?),
            Policy::Fail | Policy::Skip { .. } => None,
        };
        Ok(Ledger { policy, count: 0, met: Vec::new(), quarantine })
    }
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
    pub fn count(&self) -> usize {
        self.count
    }
    pub fn set_count(&mut self, count: usize) {
        self.count = count;
    }
    pub fn take(&mut self) -> Vec<BadRecord> {
        std::mem::take(&mut self.met)
    }
    /// Accounts for the records that are missing from a batch, in order.
    ///
    /// # Errors
    /// One is more than the policy allows, and nothing is counted; the quarantine file cannot be written.
    pub fn settle(&mut self, bad: Vec<BadRecord>, epoch: u64, batch: usize, here: Origin) -> Result<()> {
        let Some(last) = bad.last() else { return Ok(()) };
        let at_most = match &self.policy {
            Policy::Fail => return Err(refused(&bad[0], String::new(), here)),
            Policy::Skip { at_most } | Policy::Quarantine { at_most, .. } => *at_most,
        };
        if let Some((file, named)) = &mut self.quarantine {
            let new: Vec<&BadRecord> = bad.iter().filter(|r| named.insert((r.place.file.clone(), r.place.index))).collect();
            let mut lines = Vec::new();
            for record in new {
                let line = Line { record: record.clone(), epoch, batch };
                serde_json::to_writer(&mut lines, &line).map_err(|e| wrong("data_loader", e.to_string()))?;
                lines.push(b'\n');
            }
            if let (Policy::Quarantine { file: path, .. }, Err(e)) = (&self.policy, file.write_all(&lines)) {
                return Err(unwritable(path, &e, here));
            }
        }
        if self.count + bad.len() > at_most {
            let first_too_many = bad.get(at_most.saturating_sub(self.count)).unwrap_or(last);
            return Err(refused(first_too_many, format!(" (bad record number {} of this epoch; {at_most} are allowed)", at_most + 1), here));
        }
        self.count += bad.len();
        self.met.extend(bad);
        Ok(())
    }
}
fn refused(record: &BadRecord, more: String, here: Origin) -> Error {
    let kind = ErrorKind::File { path: record.place.file.display().to_string(), reason: record.text() + &more };
    Error::at("data_loader", kind, here)
}
fn unwritable(path: &Path, e: &std::io::Error, here: Origin) -> Error {
    Error::at("quarantine", ErrorKind::File { path: path.display().to_string(), reason: e.to_string() }, here)
}
/// Opens a quarantine file to go on with it. A last line that a crash cut off is removed.
fn open(path: &Path) -> std::io::Result<(File, HashSet<Name>)> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
    if whole < bytes.len() {
        file.set_len(whole as u64)?;
        file.seek(SeekFrom::End(0))?;
    }
    let lines = bytes[..whole].split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
    let named = lines.map(|line| (line.record.place.file, line.record.place.index)).collect();
    Ok((file, named))
}
