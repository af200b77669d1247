//! What was decided from outside and changes the numbers of a run: `control.jsonl`, a line each with its step.
//!
//! A line is on the disk before it is done. A checkpoint knows how many lines are in its state; a run that goes on from it does those
//! behind them again, each at its step. A new one stands before those that are still to come: the order in the file is that of the steps.
use super::ElementPlace;
use crate::{
    Failure,
    failure::shown,
    folder,
    storage::{self, Disk, Operation, Storage},
};
use adamant_stability::VisitedValues;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The file's name in the run folder.
const FILE: &str = "control.jsonl";
/// The name of one that is not whole yet.
const BESIDE: &str = "control.jsonl.tmp";
/// The most lines that a run has, and the most bytes that are read of it.
const MOST: usize = 10_000;
const MOST_BYTES: u64 = 4 << 20;

/// A decision that changes the numbers of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(crate) enum ControlDecision {
    Rate { factor: f64 },
    StopAfterEpoch,
    Set(SetDecision),
}
/// Elements of a value that became another number: before a step, or within it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SetDecision {
    pub of: String,
    pub at: ElementPlace,
    #[serde(serialize_with = "write_number", deserialize_with = "read_number")]
    pub value: f64,
    /// where in the step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<SetInStep>,
}
/// Which values of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SetOf {
    Results,
    Gradients,
    InputGradients,
}
impl From<VisitedValues> for SetOf {
    fn from(shows: VisitedValues) -> SetOf {
        match shows {
            VisitedValues::Results => SetOf::Results,
            VisitedValues::Gradients => SetOf::Gradients,
            VisitedValues::InputGradients => SetOf::InputGradients,
        }
    }
}
/// Behind an op of the step, or in the walk back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SetInStep {
    /// the op's number in the step
    pub op: usize,
    /// which of its values
    pub of: SetOf,
    /// which of them
    pub value: usize,
}
fn write_number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    folder::any_number(*value).serialize(serializer)
}
fn read_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let value = Value::deserialize(deserializer)?;
    folder::read_number(&value).ok_or_else(|| serde::de::Error::custom("`value` is no number"))
}
/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct DecidedAt {
    /// steps that were done
    step: u64,
    #[serde(flatten)]
    decision: ControlDecision,
}
/// See the module's documentation.
pub(crate) struct ControlJournal {
    /// where lines are written
    disk: Arc<dyn Storage>,
    folder: PathBuf,
    lines: Vec<DecidedAt>,
    /// how many of them are done
    done: usize,
}
impl ControlJournal {
    /// Of a run that begins anew: what an earlier one in the folder was asked for is gone.
    ///
    /// # Errors
    /// `Storage`: the earlier file cannot be removed.
    pub fn begin(folder: &Path) -> Result<ControlJournal, Failure> {
        ControlJournal::begin_on(Arc::new(Disk), folder)
    }
    fn begin_on(disk: Arc<dyn Storage>, folder: &Path) -> Result<ControlJournal, Failure> {
        disk.remove_file(&folder.join(FILE))?;
        Ok(ControlJournal { disk, folder: folder.to_path_buf(), lines: Vec::new(), done: 0 })
    }
    /// Of a run that goes on, from a state that has so many lines in it.
    ///
    /// # Errors
    /// `Storage`: the file cannot be read. `Input`: a line of it cannot: the run would not be the one that it was.
    pub fn resume(folder: &Path, done: u64) -> Result<ControlJournal, Failure> {
        let path = folder.join(FILE);
        let fail = |e: &io::Error| storage::error(Operation::Read, &path, 0, e);
        let mut text = String::new();
        match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(fail(&e).into()),
            Ok(file) => match file.take(MOST_BYTES).read_to_string(&mut text) {
                Err(e) if e.kind() == io::ErrorKind::InvalidData => return Err(unfit(&path, 1, "no text")),
                read => read.map(drop).map_err(|e| fail(&e))?,
            },
        }
        let mut lines: Vec<DecidedAt> = Vec::new();
        for (k, line) in text.lines().enumerate() {
            let decided: DecidedAt = serde_json::from_str(line).map_err(|e| unfit(&path, k + 1, &shown(&e.to_string())))?;
            match decided.decision {
                ControlDecision::Rate { factor } if !(factor.is_finite() && factor > 0.0) => {
                    return Err(unfit(&path, k + 1, &format!("no rate can be multiplied by {factor}")));
                }
                _ if lines.last().is_some_and(|before| before.step > decided.step) => {
                    return Err(unfit(&path, k + 1, "its step is before that of the line above"));
                }
                _ if lines.len() == MOST => return Err(unfit(&path, k + 1, &format!("more than {MOST} lines"))),
                _ => lines.push(decided),
            }
        }
        let done = usize::try_from(done).map_or(lines.len(), |done| done.min(lines.len()));
        Ok(ControlJournal { disk: Arc::new(Disk), folder: folder.to_path_buf(), lines, done })
    }
    /// How many lines are done.
    pub fn done(&self) -> u64 {
        self.done as u64
    }
    /// The decisions that are still to be done again, with their steps.
    pub fn ahead(&self) -> impl Iterator<Item = (u64, &ControlDecision)> {
        self.lines.get(self.done..).unwrap_or_default().iter().map(|line| (line.step, &line.decision))
    }
    /// Is one of them to be done at this step?
    pub fn is_due(&self, step: u64) -> bool {
        self.lines.get(self.done).is_some_and(|line| line.step <= step)
    }
    /// The next one that is to be done at this step; it counts as done.
    pub fn next(&mut self, step: u64) -> Option<ControlDecision> {
        let decision = self.lines.get(self.done).filter(|line| line.step <= step)?.decision.clone();
        self.done += 1;
        Some(decision)
    }
    /// Writes a decision down, durably; it counts as done.
    ///
    /// # Errors
    /// `Storage`, `Usage` where there are too many: nothing was written, and it is not to be done.
    pub fn decide(&mut self, step: u64, decision: ControlDecision) -> Result<(), Failure> {
        if self.lines.len() >= MOST {
            return Err(Failure::Usage(format!("{} has {MOST} lines, and no more may be added", self.folder.join(FILE).display())));
        }
        let mut lines = self.lines.clone();
        lines.insert(self.done.min(lines.len()), DecidedAt { step, decision });
        let mut text = Vec::new();
        for line in &lines {
            serde_json::to_writer(&mut text, line).map_err(|e| Failure::Run(format!("{FILE}: {e}")))?;
            text.push(b'\n');
        }
        // A reader finds the old lines or the new ones, and the new ones are there before anything is done.
        let (path, beside) = (self.folder.join(FILE), self.folder.join(BESIDE));
        self.disk.remove_file(&beside)?;
        let mut file = self.disk.create(&beside)?;
        file.write(&text)?;
        file.sync()?;
        drop(file);
        self.disk.rename(&beside, &path)?;
        self.disk.sync_dir(&self.folder)?;
        (self.lines, self.done) = (lines, self.done + 1);
        Ok(())
    }
}
fn unfit(path: &Path, line: usize, why: &str) -> Failure {
    Failure::Input(format!(
        "{}: line {line} cannot be read: {why}; what a run was asked for is done again when it goes on: mend the line, or remove it to go on without",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::storage::simulated::{Fate, Simulated};

    const HALF: ControlDecision = ControlDecision::Rate { factor: 0.5 };

    #[test]
    fn a_decision_that_is_lost_or_done_twice_or_out_of_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = ControlJournal::begin(folder.path()).unwrap();
        first.decide(10, HALF).unwrap();
        first.decide(30, ControlDecision::StopAfterEpoch).unwrap();
        assert_eq!((first.done(), first.ahead().count(), first.is_due(u64::MAX)), (2, 0, false));
        // From a checkpoint between the two, and then another one is decided before the second comes again.
        let mut second = ControlJournal::resume(folder.path(), 1).unwrap();
        assert!(!second.is_due(29) && second.is_due(30) && second.next(29).is_none());
        second.decide(20, ControlDecision::Rate { factor: 3.0 }).unwrap();
        assert_eq!((second.next(30), second.next(30), second.done()), (Some(ControlDecision::StopAfterEpoch), None, 3));
        let text = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        let want = "{\"step\":10,\"action\":\"rate\",\"factor\":0.5}\n{\"step\":20,\"action\":\"rate\",\"factor\":3.0}\n{\"step\":30,\"action\":\"stop_after_epoch\"}\n";
        assert_eq!(text, want);
        let third = ControlJournal::resume(folder.path(), 0).unwrap();
        assert_eq!(third.ahead().map(|(step, _)| step).collect::<Vec<_>>(), [10, 20, 30]);
        // More than there are: the file was cut by somebody.
        assert_eq!(ControlJournal::resume(folder.path(), 9).unwrap().done(), 3);
        ControlJournal::begin(folder.path()).unwrap();
        assert!(!folder.path().join(FILE).exists());
    }
    #[test]
    fn a_decision_that_is_done_and_gone_when_the_power_goes_out() {
        let (folder, path) = (Path::new("/run"), Path::new("/run").join(FILE));
        let lines = |disk: &Simulated| {
            disk.read(&path, 1 << 20).map_or_else(|_| Vec::new(), |text| String::from_utf8(text).unwrap().lines().map(String::from).collect())
        };
        let mut lost = [0; 3];
        for (of, lie) in [None, Some(Operation::Sync), Some(Operation::SyncDir)].into_iter().enumerate() {
            for (fate, crash) in [Fate::Kept, Fate::Dropped].into_iter().chain((0..20).map(Fate::Torn)).flat_map(|fate| (0..40).map(move |crash| (fate, crash)))
            {
                let disk = Simulated::new();
                disk.create_dir_all(folder).unwrap();
                disk.sync_dir(Path::new("/")).unwrap();
                lie.into_iter().for_each(|lie| disk.lie_about(lie));
                let mut journal = ControlJournal::begin_on(Arc::new(disk.clone()), folder).unwrap();
                disk.crash_at(disk.history().len() as u64 + crash);
                // What is decided is done at once: it has to be found again.
                let done = (1..=5).take_while(|step| journal.decide(*step, HALF).is_ok()).count();
                let found: Vec<String> = lines(&disk.restarted(fate));
                let whole = found.iter().zip(1..).all(|(line, step)| *line == format!("{{\"step\":{step},\"action\":\"rate\",\"factor\":0.5}}"));
                if lie.is_none() {
                    assert!(whole && (done..=done + 1).contains(&found.len()), "{done} done, after a crash at {crash}, {fate:?}: {found:?}");
                }
                lost[of] += usize::from(!whole || found.len() < done);
            }
        }
        assert!(lost[0] == 0 && lost[1] > 0 && lost[2] > 0, "a disk that only says that it syncs is not noticed: {lost:?}");
    }
    #[test]
    fn a_line_that_is_no_decision_and_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let good = "{\"step\":10,\"action\":\"rate\",\"factor\":0.5}\n";
        for bad in [
            "{\"step\":10,\"action\":\"rate\",\"fac",
            "{\"step\":10,\"action\":\"rate\",\"factor\":0}",
            "{\"step\":10,\"action\":\"rate\",\"factor\":-1e300}",
            "{\"step\":9,\"action\":\"stop_after_epoch\"}",
            "{\"step\":10,\"action\":\"dance\"}",
            "{\"action\":\"stop_after_epoch\"}",
            "",
        ] {
            std::fs::write(folder.path().join(FILE), format!("{good}{bad}\n")).unwrap();
            let failure = ControlJournal::resume(folder.path(), 0).err().unwrap();
            assert!(failure.exit_code() == 4 && failure.to_string().contains("line 2 cannot be read"), "{bad}: {failure}");
        }
        std::fs::write(folder.path().join(FILE), good.repeat(MOST + 1)).unwrap();
        assert!(ControlJournal::resume(folder.path(), 0).err().unwrap().to_string().contains("more than"));
        std::fs::write(folder.path().join(FILE), [0xff, 0xfe]).unwrap();
        assert_eq!(ControlJournal::resume(folder.path(), 0).err().unwrap().exit_code(), 4);
        std::fs::write(folder.path().join(FILE), good.repeat(MOST)).unwrap();
        let mut full = ControlJournal::resume(folder.path(), 0).unwrap();
        assert!(full.decide(10, HALF).unwrap_err().to_string().contains("no more may be added"));
    }
}
