//! The run folder of ranks that go on when the one that writes it is lost: which lines may be missing, and who writes next.
use super::{EventWriter, FolderFiles, Identity, Lines, METRICS, RunFolder, TIMING, broken};
use crate::{Failure, checkpoint::OnError};
use serde_json::json;
use std::{collections::BTreeSet, path::Path, time::Instant};

/// What of `metrics.jsonl` may not be in the file, if the rank that writes it is lost now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// so many bytes are there for sure
    pub base: u64,
    /// the lines behind them
    pub lines: String,
}
impl Journal {
    /// The length of the file with all lines.
    pub fn bytes(&self) -> u64 {
        self.base + self.lines.len() as u64
    }
}
impl RunFolder {
    /// The folder that another rank writes, of which `metrics_bytes` are there. What is to be written goes nowhere but to the journal.
    pub(crate) fn of_another(path: &Path, metrics_bytes: u64, on_error: OnError, has_alerts: bool) -> RunFolder {
        let journal = Some(Journal { base: metrics_bytes, lines: String::new() });
        let (path, begun) = (path.to_path_buf(), Instant::now());
        RunFolder { path, files: None, journal, begun, on_error, troubled: BTreeSet::new(), warnings: Vec::new(), alerts: None, has_alerts }
    }
    /// Keeps a journal from here on; all ranks count from `metrics_bytes`.
    ///
    /// # Errors
    /// `Input`: lines that a checkpoint counts on are lost.
    pub(crate) fn keep_journal(&mut self, metrics_bytes: u64) -> Result<(), Failure> {
        let there = self.files.as_ref().map_or(metrics_bytes, |files| files.metrics.bytes());
        if there != metrics_bytes {
            let path = self.path.join(METRICS);
            return Err(Failure::Input(format!(
                "{}: it has lost lines, of which ranks that go on without each other cannot know: go on once without `--elastic`",
                path.display()
            )));
        }
        self.journal = Some(Journal { base: metrics_bytes, lines: String::new() });
        Ok(())
    }
    /// Does this rank write?
    pub(crate) fn is_written_here(&self) -> bool {
        self.files.is_some()
    }
    /// What may be missing.
    pub(crate) fn journal(&self) -> Journal {
        self.journal.clone().unwrap_or_default()
    }
    /// All lines up to here are in the file, whoever writes it.
    pub(crate) fn all_written(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.base = journal.bytes();
            journal.lines.clear();
        }
    }
    /// Goes on from the lines of another rank; where this one writes, the file becomes what they say.
    ///
    /// # Errors
    /// `Storage`: the file cannot be cut or written.
    pub(crate) fn take_journal(&mut self, journal: Journal) -> Result<(), Failure> {
        if let Some(files) = &mut self.files {
            files.metrics = lines_of(&self.path, &journal)?;
        }
        self.journal = Some(journal);
        Ok(())
    }
    /// Writes the folder from here on, behind this step. The rank that did so is lost.
    ///
    /// # Errors
    /// `Storage`: it cannot be written.
    pub(crate) fn lead(&mut self, step: u64) -> Result<(), Failure> {
        if self.files.is_some() {
            return Ok(());
        }
        let metrics = lines_of(&self.path, &self.journal())?;
        let timing = Lines::open(&self.path.join(TIMING), None)?;
        let events = EventWriter::resume(&self.path, step + 1).map_err(|e| broken(&self.path, &e))?;
        self.files = Some(FolderFiles { identity: Identity::of(&self.path)?, metrics, timing, events });
        if self.has_alerts {
            self.warnings.push("rules of alerts are not watched any more: what they had seen was lost with the rank that wrote the folder".into());
        }
        self.time(json!({ "kind": "lead", "step": step }))
    }
}
/// `metrics.jsonl`, with these lines at its end.
fn lines_of(folder: &Path, journal: &Journal) -> Result<Lines, Failure> {
    let path = folder.join(METRICS);
    let there = std::fs::metadata(&path).map_err(|e| broken(&path, &e))?.len();
    if there < journal.base {
        return Err(Failure::Input(format!("{}: {there} bytes are there, and {} were: somebody has cut the run's lines", path.display(), journal.base)));
    }
    let mut lines = Lines::open(&path, Some(journal.base))?;
    lines.add(journal.lines.as_bytes())?;
    lines.flush()?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Document;
    use serde_json::Value;

    /// The leader writes some lines more than it should, or half a line less than it should, and is lost; another one goes on.
    #[test]
    fn a_line_that_is_doubled_or_lost_where_another_rank_leads() {
        let document = Document::parse("x.toml", "").unwrap();
        let line = |k: u64| json!({ "kind": "step", "step": k, "loss": 0.5 });
        let whole: String = (1..=6).map(|k| format!("{}\n", line(k))).collect();
        // So many lines and bytes the leader has behind those that all know to be written.
        for (ahead, torn) in [(0, 0), (1, 0), (1, 7), (2, 0), (0, 9)] {
            let place = tempfile::tempdir().unwrap();
            let mut leader = RunFolder::open(place.path(), &document, &Value::Null, None, OnError::Stop).unwrap();
            leader.keep_journal(0).unwrap();
            let mut other = RunFolder::of_another(place.path(), 0, OnError::Stop, false);
            assert!(leader.is_written_here() && !other.is_written_here());
            for k in 1..=3 {
                [&mut leader, &mut other].into_iter().for_each(|folder| folder.metric(&line(k)).unwrap());
                [&mut leader, &mut other].into_iter().for_each(RunFolder::all_written);
            }
            (4..4 + ahead).for_each(|k| leader.metric(&line(k)).unwrap());
            drop(leader);
            let path = place.path().join(METRICS);
            let mut text = std::fs::read_to_string(&path).unwrap();
            text.push_str(&line(9).to_string()[..torn]);
            std::fs::write(&path, text).unwrap();
            // It is behind step 4 itself, and knows not whether that line is there.
            other.metric(&line(4)).unwrap();
            other.lead(4).unwrap();
            (5..=6).for_each(|k| other.metric(&line(k)).unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), whole, "{ahead} lines ahead, {torn} bytes");
            // A leader that was behind takes the lines of the one that was not.
            other.take_journal(Journal { base: 3 * line(1).to_string().len() as u64 + 3, lines: format!("{}\n", line(4)) }).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), whole.lines().take(4).map(|l| format!("{l}\n")).collect::<String>());
        }
    }
}
