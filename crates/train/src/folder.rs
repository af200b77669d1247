//! The run folder: what a run leaves behind, file by file.
//!
//! ```text
//! config.toml        the description as it ran            environment.json   machine, device, versions, command
//! metrics.jsonl      what the computation determines      timing.jsonl       what the machine determines
//! events.out.*       the same for TensorBoard             checkpoints/       one folder each, all or nothing
//! incidents.jsonl    steps whose numbers ended the run: where they came from, in which records
//! profiles.jsonl     steps that were recorded because somebody asked: kernels, moments, layers
//! alerts.jsonl       what rules of the description were met, where it has any
//! control.sock       while it runs: where it is asked   control.jsonl      what it was asked for that changes its numbers
//! architecture.json  the layers as boxes and arrows       task.json          what the outputs mean
//! weights.safetensors, evaluation.json, result.json, loss.svg, metric.svg, report.html: at the end; failure.json: why there was none
//! ```
//!
//! `metrics.jsonl` is the same, byte for byte, for any number of threads and however often the run was interrupted: a
//! checkpoint knows how long the file was, and a run that goes on cuts it back to there. Lines after that were of steps
//! that are made again.
//!
//! Where the policy is to warn ([`OnError::Warn`]), a disk that takes no line does not end the run: lines wait in memory, each
//! file is warned of once until it is whole again ([`RunFolder::take_warnings`]), and no checkpoint is made meanwhile that
//! would count on lines that are not there. A folder that is gone (deleted, renamed, replaced) ends the run in any case, at the
//! next line: nothing that is written by its path would be found where the rest of the run is, and nothing is made anew there.
mod alerted;
mod journal;
mod left;
mod lines;

pub use journal::Journal;
pub(crate) use lines::Lines;

use crate::{
    Document, Failure,
    alerts::AlertDesk,
    checkpoint::{self, OnError},
    events::EventWriter,
    storage::{self, Identity, Operation, StorageError, StorageErrorKind},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::{Path, PathBuf},
    time::Instant,
};

/// The file of what the computation determines.
const METRICS: &str = "metrics.jsonl";
const TIMING: &str = "timing.jsonl";
const INCIDENTS: &str = "incidents.jsonl";
const EVENTS: &str = "events.out.tfevents";
/// Steps that were recorded: times, of which nothing depends on.
pub(crate) const PROFILES: &str = "profiles.jsonl";
/// Why the run failed.
const FAILURE: &str = "failure.json";
/// What a run leaves when it ends.
const OF_THE_END: [&str; 9] =
    [FAILURE, "result.json", "evaluation.json", "report.html", "loss.svg", "metric.svg", "weights.safetensors", "quantized/weights.safetensors", PROFILES];

pub(crate) fn broken(path: &Path, e: &std::io::Error) -> Failure {
    match e.get_ref().and_then(|inner| inner.downcast_ref::<StorageError>()) {
        Some(known) => known.clone().into(),
        None => storage::error(Operation::Write, path, 0, e).into(),
    }
}
/// A number as JSON has it: what is not finite is null.
pub fn number(v: f64) -> Value {
    serde_json::Number::from_f64(v).map_or(Value::Null, Value::Number)
}
/// A number as JSON has it where nothing of it may be lost: NaN and infinities are texts.
pub(crate) fn any_number(v: f64) -> Value {
    match v {
        _ if v.is_finite() => number(v),
        _ if v.is_nan() => "nan".into(),
        _ if v > 0.0 => "inf".into(),
        _ => "-inf".into(),
    }
}
/// Reads what [`any_number`] wrote.
pub(crate) fn read_number(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => match text.as_str() {
            "nan" => Some(f64::NAN),
            "inf" => Some(f64::INFINITY),
            "-inf" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        value => value.as_f64(),
    }
}

/// A path as JSON has it: what is no text in it is replaced.
pub fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The files that grow.
struct FolderFiles {
    identity: Identity,
    metrics: Lines,
    timing: Lines,
    events: EventWriter,
}
/// An open run folder; or one that another rank writes, of which this one keeps the lines that may be missing there ([`Journal`]).
pub struct RunFolder {
    path: PathBuf,
    /// none: another rank writes them
    files: Option<FolderFiles>,
    journal: Option<Journal>,
    begun: Instant,
    on_error: OnError,
    /// files that were warned of and are not whole again
    troubled: BTreeSet<String>,
    warnings: Vec<String>,
    alerts: Option<AlertDesk>,
    /// rules of alerts that the rank watches which writes the folder
    has_alerts: bool,
}
/// The lines that a checkpoint counts on.
pub struct Settled {
    /// length of `metrics.jsonl`
    pub metrics_bytes: u64,
    /// makes them durable, on any thread
    pub sync: Box<dyn FnOnce() -> storage::Result<()> + Send>,
}
/// Where the lines of a run stood when a checkpoint was made.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// length of `metrics.jsonl`
    pub metrics_bytes: u64,
    /// the step
    pub step: u64,
}
impl RunFolder {
    /// Opens the folder for a run at its start, or for one that goes on from `mark`.
    ///
    /// # Errors
    /// `Storage`: it cannot be written, whatever the policy: nothing has been learned yet.
    pub fn open(path: &Path, document: &Document, environment: &Value, mark: Option<Mark>, on_error: OnError) -> Result<RunFolder, Failure> {
        std::fs::create_dir_all(path).map_err(|e| broken(path, &e))?;
        let metrics_path = path.join(METRICS);
        let metrics_bytes = mark.map_or(0, |m| m.metrics_bytes);
        // Lines are a report of the run and no part of its state: that some are lost does not keep it from going on.
        let left = left::lines(&metrics_path, metrics_bytes)?;
        let mut metrics = Lines::open(&metrics_path, Some(left.bytes))?;
        if let Some(mark) = mark.filter(|_| left.bytes < metrics_bytes) {
            metrics.add(format!("{}\n", json!({ "kind": "gap", "step": mark.step })).as_bytes())?;
            metrics.flush()?;
        }
        // Times are a diary: nothing is cut out of it when a run goes on.
        let timing = Lines::open(&path.join(TIMING), if mark.is_none() { Some(0) } else { None })?;
        for old in if mark.is_none() { &OF_THE_END[..] } else { &[FAILURE] } {
            // A file of an earlier run of the same name would be taken for this one's.
            match std::fs::remove_file(path.join(old)) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(broken(&path.join(old), &e)),
                _ => {}
            }
        }
        write(&path.join("config.toml"), document.to_toml().as_bytes())?;
        write(&path.join("environment.json"), format!("{environment:#}\n").as_bytes())?;
        let events = match mark {
            None => EventWriter::create(path),
            Some(mark) => EventWriter::resume(path, mark.step + 1),
        }
        .map_err(|e| broken(path, &e))?;
        let warnings = left.warnings(&metrics_path, metrics_bytes);
        let (path, identity, begun) = (path.to_path_buf(), Identity::of(path)?, Instant::now());
        let files = Some(FolderFiles { identity, metrics, timing, events });
        let mut folder = RunFolder { path, files, journal: None, begun, on_error, troubled: BTreeSet::new(), warnings, alerts: None, has_alerts: false };
        if let Some(mark) = mark {
            folder.time(json!({ "kind": "resume", "step": mark.step }))?;
        }
        Ok(folder)
    }
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// What a person should know of files that could not be written, since this was last asked.
    pub fn take_warnings(&mut self) -> Vec<String> {
        self.hear_alerts();
        std::mem::take(&mut self.warnings)
    }
    /// Is the folder still where it was, and its log in it?
    fn check(&self) -> Result<(), StorageError> {
        let Some(files) = &self.files else { return Ok(()) };
        files.identity.check(Operation::Write).map_err(|mut e| {
            if let StorageErrorKind::Vanished(v) = &mut e.kind {
                v.checkpoint = v.now.as_deref().and_then(|now| checkpoint::newest_name(&now.join("checkpoints")));
            }
            e
        })?;
        files.metrics.check()
    }
    /// What became of one of the folder's files, by the policy.
    fn sort(&mut self, name: &str, done: Result<(), Failure>) -> Result<(), Failure> {
        match (done, self.on_error) {
            (Ok(()), _) => {
                if self.troubled.remove(name) {
                    self.warnings.push(format!("{}: written again, nothing is missing", self.path.join(name).display()));
                }
                Ok(())
            }
            (Err(Failure::Storage(e)), OnError::Warn) if !matches!(e.kind, StorageErrorKind::Vanished(_)) => {
                if self.troubled.insert(name.to_string()) {
                    self.warnings.push(format!("{e}; the run goes on"));
                }
                Ok(())
            }
            (Err(e), _) => Err(e),
        }
    }
    /// A line of `metrics.jsonl`.
    ///
    /// # Errors
    /// `Storage`: the policy is to stop, or more lines wait for space than memory should hold.
    pub fn metric(&mut self, line: &Value) -> Result<(), Failure> {
        self.check()?;
        self.alerts.iter_mut().for_each(|alerts| alerts.note(line));
        let text = format!("{line}\n");
        self.journal.iter_mut().for_each(|journal| journal.lines.push_str(&text));
        let Some(files) = &mut self.files else { return Ok(()) };
        files.metrics.add(text.as_bytes())?;
        let done = files.metrics.flush();
        self.sort(METRICS, done.map_err(Failure::from))
    }
    /// A line of `incidents.jsonl`.
    ///
    /// # Errors
    /// `Storage`: the policy is to stop.
    pub fn incident(&mut self, line: &Value) -> Result<(), Failure> {
        self.check()?;
        if self.files.is_none() {
            return Ok(());
        }
        self.alert_incident(line);
        let path = self.path.join(INCIDENTS);
        let mut all = match std::fs::read(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return self.sort(INCIDENTS, Err(broken(&path, &e))),
            read => read.unwrap_or_default(),
        };
        all.extend_from_slice(format!("{line}\n").as_bytes());
        let done = write(&path, &all);
        self.sort(INCIDENTS, done)
    }
    /// A line of `timing.jsonl`, with the seconds since the run was opened.
    ///
    /// # Errors
    /// `Storage`: the policy is to stop.
    pub fn time(&mut self, mut line: Value) -> Result<(), Failure> {
        if let Value::Object(fields) = &mut line {
            fields.entry("seconds").or_insert_with(|| number(self.begun.elapsed().as_secs_f64()));
        }
        let Some(files) = &mut self.files else { return Ok(()) };
        let done = files.timing.add(format!("{line}\n").as_bytes()).and_then(|()| files.timing.flush());
        self.sort(TIMING, done.map_err(Failure::from))
    }
    /// Numbers for TensorBoard, and for rules of alerts.
    ///
    /// # Errors
    /// `Storage`: the policy is to stop.
    pub fn scalars(&mut self, step: u64, values: &BTreeMap<String, f64>) -> Result<(), Failure> {
        self.alerts.iter_mut().for_each(|alerts| alerts.scalars(step, values));
        let Some(files) = &mut self.files else { return Ok(()) };
        match values.iter().try_for_each(|(tag, value)| files.events.scalar(tag, step, *value)) {
            // Events are gathered: that one was added says nothing of the disk.
            Ok(()) => Ok(()),
            Err(e) => {
                let failed = broken(files.events.path(), &e);
                self.sort(EVENTS, Err(failed))
            }
        }
    }
    /// Hands all lines to the operating system, so that a checkpoint may count on them once they are synced.
    ///
    /// # Errors
    /// Some of `metrics.jsonl` still wait for space on the disk. What else waits is subject to the policy.
    pub fn settle(&mut self) -> Result<Result<Settled, StorageError>, Failure> {
        self.check()?;
        let Some(files) = &mut self.files else {
            return Ok(Ok(Settled { metrics_bytes: self.journal.as_ref().map_or(0, Journal::bytes), sync: Box::new(|| Ok(())) }));
        };
        let (events, metrics) = (files.events.flush().map_err(|e| broken(files.events.path(), &e)), files.metrics.flush());
        let settled = metrics.clone().and_then(|()| {
            let sync = files.metrics.sync()?;
            Ok(Settled { metrics_bytes: files.metrics.bytes(), sync: Box::new(sync) })
        });
        self.sort(EVENTS, events)?;
        self.sort(METRICS, metrics.map_err(Failure::from))?;
        Ok(settled)
    }
    /// Makes all lines durable; what still waits for space is told.
    ///
    /// # Errors
    /// `Storage`: the policy is to stop.
    pub fn close(&mut self) -> Result<(), Failure> {
        self.alert_end();
        let settled = self.settle()?;
        let timing = self.files.as_mut().map_or(Ok(()), |files| files.timing.flush());
        self.sort(TIMING, timing.map_err(Failure::from))?;
        let synced = settled.and_then(|s| (s.sync)());
        self.sort(METRICS, synced.map_err(Failure::from))?;
        let Some(FolderFiles { metrics, timing, events, .. }) = &self.files else { return Ok(()) };
        let files = [(metrics.path(), metrics.waiting()), (timing.path(), timing.waiting()), (events.path(), events.waiting())];
        for (path, waiting) in files.into_iter().filter(|(_, waiting)| *waiting > 0) {
            self.warnings.push(format!("{}: its last {waiting} bytes could not be written", path.display()));
        }
        Ok(())
    }
    /// A file of the end, whole or not at all.
    ///
    /// # Errors
    /// `Storage`: the policy is to stop.
    pub fn document(&mut self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
        self.check()?;
        if self.files.is_none() {
            return Ok(());
        }
        let mut text = serde_json::to_vec_pretty(value).map_err(|e| Failure::Run(format!("{name}: {e}")))?;
        text.push(b'\n');
        let done = write(&self.path.join(name), &text);
        self.sort(name, done)
    }
}
impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Failure {
        Failure::Storage(error)
    }
}
/// Writes a file so that a reader finds the old one or the new one whole.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let fail = |e: std::io::Error| storage::error(Operation::Write, path, bytes.len() as u64, &e);
    adamant_formats::whole::replace(path, fail, |file| file.write_all(bytes).map_err(fail))?;
    Ok(())
}
