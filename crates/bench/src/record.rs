//! The record of a run: one JSON document in one line of a file, so that runs are appended. `docs/bench-record.md` is its
//! description for readers that are not this program.
//!
//! Invariant: a record of another version is refused, never half read; what is read has passed [`Record::validate`], so
//! that summaries follow from samples and every time is a positive number.
use crate::{
    ceilings::Ceilings,
    machine::{Facts, Git, Load, Machine, Toolchain, facts_of},
    protocol::About,
    stats::{bootstrap_median, median, median_absolute_deviation},
    workload::{Group, Rate},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// What every record calls itself.
pub const SCHEMA: &str = "adamant-bench";
/// The version that this program writes, and the only one it reads.
pub const VERSION: u32 = 2;
/// The seed of every interval, so that a record's summaries can be computed again.
pub const SEED: u64 = 0x5eed;

/// Why a record cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be read or written.
    #[error("{}: {source}", file.display())]
    File {
        /// the file
        file: PathBuf,
        /// the cause
        source: std::io::Error,
    },
    /// A line is no record.
    #[error("{}, line {line}: {what}", file.display())]
    Line {
        /// the file
        file: PathBuf,
        /// from 1
        line: usize,
        /// what is wrong
        what: String,
    },
    /// A line is a record of another version.
    #[error("{}, line {line}: a record of version {found}; this program reads version {VERSION}", file.display())]
    Version {
        /// the file
        file: PathBuf,
        /// from 1
        line: usize,
        /// what it says
        found: u64,
    },
    /// The file is empty.
    #[error("{}: no record in it", file.display())]
    Empty {
        /// the file
        file: PathBuf,
    },
}

/// One run.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`SCHEMA`]
    pub schema: String,
    /// [`VERSION`]
    pub version: u32,
    /// of Adamant; no fact of the environment, since the sources are what is compared
    #[serde(default)]
    pub adamant: String,
    /// when, in UTC
    pub started: String,
    /// the command line
    pub command: Vec<String>,
    /// where
    pub machine: Machine,
    /// built with what
    pub toolchain: Toolchain,
    /// from which sources
    pub git: Option<Git>,
    /// how
    pub settings: Settings,
    /// what else the machine did when the run began
    pub load_before: Load,
    /// and when it ended
    pub load_after: Load,
    /// what the machine can do at most
    pub ceilings: Option<Ceilings>,
    /// what was measured
    pub cases: Vec<Case>,
}
/// How a run measured.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// what tables call this machine
    pub label: String,
    /// the device
    pub device: String,
    /// what the hardware calls itself
    pub device_name: String,
    /// what was chosen at run time: the instruction set, the matrix library
    pub device_details: BTreeMap<String, String>,
    /// threads of the device
    pub threads: usize,
    /// seconds of samples for each case
    pub budget_s: f64,
    /// the relative half width of an interval that ended the sampling
    pub precision: f64,
    /// small shapes: times mean nothing
    pub small: bool,
}
impl Settings {
    /// The instruction set in use, where the device tells it.
    pub fn isa(&self) -> Option<&str> {
        self.device_details.get("isa").map(String::as_str)
    }
}
/// One workload of one implementation.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// the workload
    pub workload: String,
    /// who ran it
    #[serde(rename = "impl")]
    pub implementation: String,
    /// the group
    pub group: Group,
    /// of the operands
    pub dtype: String,
    /// elements of the largest operand, where time is plotted over sizes
    pub elements: Option<u64>,
    /// `flop`, `bytes` or `tokens`
    pub unit: Option<WorkUnit>,
    /// so many of them in one call
    pub amount: Option<f64>,
    /// operations for each byte of traffic, for the roofline
    pub intensity: Option<f64>,
    /// calls that a sample is the mean of
    pub calls_per_sample: u64,
    /// nanoseconds of one call, as they were taken
    pub samples_ns: Vec<f64>,
    /// for each sample, the share of it in which the process waited for a core
    pub waited: Vec<f64>,
    /// for each sample, the round in which it was taken: each prepares the workload anew; empty if there was one
    pub rounds: Vec<u32>,
    /// what follows from the samples
    pub summary: Option<Summary>,
    /// the worst error of the compared outputs, as a share of what is allowed; nothing if there was no comparison
    pub worst_error: Option<f64>,
    /// bytes by which the process grew over its level before the first call
    pub peak_growth_bytes: Option<u64>,
    /// from the third call on, the share of plans that were made before and found again
    pub plan_hits: Option<f64>,
    /// the smallest relative change that a comparison on this machine would see
    pub smallest_visible: Option<f64>,
    /// why there is no time
    pub error: Option<String>,
    /// that is because a part is not there
    pub unsupported: bool,
}
/// What one call does is counted in this.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum WorkUnit {
    /// operations
    Flop,
    /// bytes
    Bytes,
    /// tokens
    Tokens,
}
/// What follows from the samples.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// the median
    pub median_ns: f64,
    /// the median distance from it
    pub mad_ns: f64,
    /// a 95 % bootstrap interval of the median
    pub ci95_ns: [f64; 2],
    /// the smallest
    pub min_ns: f64,
    /// the mean
    pub mean_ns: f64,
    /// the standard deviation
    pub std_ns: f64,
    /// the largest
    pub max_ns: f64,
}
impl Summary {
    /// Of some samples; nothing of none.
    pub fn of(samples: &[f64]) -> Option<Summary> {
        let n = samples.len() as f64;
        if samples.is_empty() {
            return None;
        }
        let mean = samples.iter().sum::<f64>() / n;
        let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        let (low, high) = bootstrap_median(samples, SEED);
        Some(Summary {
            median_ns: median(samples),
            mad_ns: median_absolute_deviation(samples),
            ci95_ns: [low, high],
            min_ns: samples.iter().copied().fold(f64::INFINITY, f64::min),
            mean_ns: mean,
            std_ns: variance.sqrt(),
            max_ns: samples.iter().copied().fold(0.0, f64::max),
        })
    }
    /// The same but for the last digits, in which machines differ; and for how an interval was drawn, as long as it is one.
    fn is_close_to(&self, other: &Summary) -> bool {
        let figures = |s: &Summary| [s.median_ns, s.mad_ns, s.min_ns, s.mean_ns, s.std_ns, s.max_ns];
        let close = |(a, b): (f64, f64)| (a - b).abs() <= 1e-6 * other.median_ns;
        let [low, high] = self.ci95_ns;
        figures(self).into_iter().zip(figures(other)).all(close) && [self.min_ns, low, self.median_ns, high, self.max_ns].is_sorted()
    }
}
impl Case {
    /// A case without samples yet.
    pub fn new(workload: impl Into<String>, implementation: impl Into<String>) -> Case {
        Case {
            workload: workload.into(),
            implementation: implementation.into(),
            group: Group::Main,
            dtype: "f32".into(),
            elements: None,
            unit: None,
            amount: None,
            intensity: None,
            calls_per_sample: 1,
            samples_ns: Vec::new(),
            waited: Vec::new(),
            rounds: Vec::new(),
            summary: None,
            worst_error: None,
            peak_growth_bytes: None,
            plan_hits: None,
            smallest_visible: None,
            error: None,
            unsupported: false,
        }
    }
    /// With what its workload is.
    pub fn about(self, about: About) -> Case {
        let About { group, dtype, elements, unit, amount, intensity } = about;
        Case { group, dtype, elements, unit, amount, intensity, ..self }
    }
    /// What one call does.
    pub fn rate(&self) -> Option<Rate> {
        let amount = self.amount?;
        Some(match self.unit? {
            WorkUnit::Flop => Rate::Flop(amount),
            WorkUnit::Bytes => Rate::Bytes(amount),
            WorkUnit::Tokens => Rate::Tokens(amount),
        })
    }
    /// Takes its samples and summarises them.
    pub fn sampled(mut self, samples: Vec<f64>, waited: Vec<f64>, calls: u64) -> Case {
        self.summary = Summary::of(&samples);
        (self.samples_ns, self.waited, self.calls_per_sample) = (samples, waited, calls);
        self
    }
    /// The median.
    pub fn median_ns(&self) -> Option<f64> {
        self.summary.map(|s| s.median_ns)
    }
    /// The share of this machine's roofline: of its multiply-adds, or of its copies.
    pub fn of_roofline(&self, ceilings: &Ceilings, isa: Option<&str>) -> Option<f64> {
        let ns = self.median_ns()?;
        match self.rate()? {
            Rate::Flop(n) => Some(n / ns / ceilings.peak_gflops(isa, &self.dtype)?),
            Rate::Bytes(n) => Some(n / ns / ceilings.gbps()),
            Rate::Tokens(_) => None,
        }
    }
}

impl Record {
    /// A record of this program on this machine in which nothing is measured yet.
    pub fn begun(began: SystemTime, settings: Settings) -> Record {
        Record {
            schema: SCHEMA.into(),
            version: VERSION,
            adamant: env!("CARGO_PKG_VERSION").into(),
            started: humantime::format_rfc3339_seconds(began).to_string(),
            command: std::env::args().skip(1).collect(),
            machine: Machine::here(),
            toolchain: Toolchain::here(),
            git: Git::here(),
            settings,
            load_before: Load::now(),
            load_after: Load::default(),
            ceilings: None,
            cases: Vec::new(),
        }
    }
    /// Facts that two records must share to be compared: the machine, the toolchain, the settings; not the sources.
    pub fn environment(&self) -> Facts {
        let mut facts = Facts::new();
        for (name, value) in [("machine", serde_json::json!(self.machine)), ("toolchain", serde_json::json!(self.toolchain))] {
            facts_of(name, &value, &mut facts);
        }
        let s = &self.settings;
        facts.extend([("device".into(), s.device.clone()), ("device_name".into(), s.device_name.clone()), ("threads".into(), s.threads.to_string())]);
        facts.extend(s.device_details.iter().map(|(k, v)| (format!("device.{k}"), v.clone())));
        facts
    }
    /// What tables call the column: `device@label`, with the threads.
    pub fn column(&self) -> String {
        let isa = self.settings.isa().map(|isa| format!(" {isa}")).unwrap_or_default();
        format!("{}{isa} t{} @ {}", self.settings.device, self.settings.threads, self.settings.label)
    }
    /// Checks what types do not say.
    ///
    /// # Errors
    /// What is wrong.
    pub fn validate(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("its schema is `{}` instead of `{SCHEMA}`", self.schema));
        }
        if humantime::parse_rfc3339(&self.started).is_err() {
            return Err(format!("`started` is `{}`, no time", self.started));
        }
        if self.settings.threads == 0 {
            return Err("it has no threads".into());
        }
        let positive = |x: f64| x.is_finite() && x > 0.0;
        if let Some(c) = self.ceilings.as_ref().filter(|c| !c.gflops.values().copied().chain([c.copy_gbps, c.triad_gbps, c.handover_ns]).all(positive)) {
            return Err(format!("a ceiling is no positive number: {c:?}"));
        }
        let mut known = BTreeSet::new();
        for case in &self.cases {
            let wrong = |what: &str| Err(format!("{}: {what}", case.workload));
            if !known.insert((&case.workload, &case.implementation)) {
                return wrong("it is there twice");
            }
            if case.samples_ns.iter().any(|x| !positive(*x)) {
                return wrong("a sample is no positive number");
            }
            if case.waited.iter().any(|x| *x < 0.0) || case.calls_per_sample == 0 {
                return wrong("`waited` or `calls_per_sample` is no such number");
            }
            if case.waited.len() != case.samples_ns.len() {
                return wrong("`waited` has another length than `samples_ns`");
            }
            if !case.rounds.is_empty() && case.rounds.len() != case.samples_ns.len() {
                return wrong("`rounds` has another length than `samples_ns`");
            }
            if case.error.is_some() && !case.samples_ns.is_empty() {
                return wrong("it has an error and samples: a wrong result has no time");
            }
            if case.unit.is_some() != case.amount.is_some() {
                return wrong("`unit` and `amount` go together");
            }
            if case.amount.into_iter().chain(case.intensity).any(|x| !positive(x)) {
                return wrong("`amount` or `intensity` is no positive number");
            }
            match (case.summary, Summary::of(&case.samples_ns)) {
                (None, None) => {}
                (Some(s), Some(own)) if s.is_close_to(&own) => {}
                _ => return wrong("its summary does not follow from its samples"),
            }
        }
        Ok(())
    }
    /// Appends it to a file. Where that fails, the records that are there stay as they are.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&self, file: &Path) -> Result<(), RecordError> {
        let failed = |source| RecordError::File { file: file.into(), source };
        let mut line = serde_json::to_string(self).map_err(|e| failed(e.into()))?;
        line.push('\n');
        if let Some(folder) = file.parent().filter(|p| !p.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        add_line(file, &line).map_err(failed)
    }
    /// All records of a file.
    ///
    /// # Errors
    /// It cannot be read, a line is no record, or one of another version.
    pub fn read(file: &Path) -> Result<Vec<Record>, RecordError> {
        let text = fs::read_to_string(file).map_err(|source| RecordError::File { file: file.into(), source })?;
        let lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
        let records = lines.map(|(k, l)| Record::parse(l, file, k + 1)).collect::<Result<Vec<_>, _>>()?;
        if records.is_empty() { Err(RecordError::Empty { file: file.into() }) } else { Ok(records) }
    }
    fn parse(text: &str, file: &Path, line: usize) -> Result<Record, RecordError> {
        let wrong = |what: String| RecordError::Line { file: file.into(), line, what };
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        let none = |what: String| Err(wrong(format!("no record that this program reads: {what}; it reads `{SCHEMA}` of version {VERSION}")));
        match &value["schema"] {
            serde_json::Value::Null => return none("it has no `schema`".into()),
            schema if schema != SCHEMA => return none(format!("its `schema` is {schema}")),
            _ => {}
        }
        match (&value["version"], value["version"].as_u64()) {
            (_, Some(found)) if found != u64::from(VERSION) => return Err(RecordError::Version { file: file.into(), line, found }),
            (_, Some(_)) => {}
            (serde_json::Value::Null, _) => return none("it has no `version`".into()),
            (other, _) => return none(format!("its `version` is {other}")),
        }
        // From the text, not from the value: repeated keys are seen there.
        let record: Record = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        record.validate().map_err(wrong)?;
        Ok(record)
    }
}
/// Adds a line behind the last. A line that was cut off there (a full disk, a copy that was stopped) is not made longer,
/// and a line that does not fit is taken back.
fn add_line(file: &Path, line: &str) -> io::Result<()> {
    let mut f = fs::OpenOptions::new().create(true).read(true).append(true).open(file)?;
    let regular = f.metadata()?.is_file();
    let before = if regular { f.seek(SeekFrom::End(0))? } else { 0 };
    let mut last = [b'\n'];
    if before > 0 {
        f.seek(SeekFrom::End(-1))?;
        f.read_exact(&mut last)?;
    }
    let text = if last == [b'\n'] { line.to_string() } else { format!("\n{line}") };
    let added = f.write_all(text.as_bytes()).and_then(|()| f.flush());
    if added.is_err() && regular {
        let _ = f.set_len(before);
    }
    added
}
/// Does a file begin with a record, a whole one or not? What cannot be read holds none.
pub fn holds_records(file: &Path) -> bool {
    let mut start = Vec::new();
    let read = fs::File::open(file).and_then(|f| if f.metadata()?.is_file() { f.take(4096).read_to_end(&mut start) } else { Ok(0) });
    let text: String = String::from_utf8_lossy(&start).chars().filter(|c| !c.is_whitespace()).collect();
    read.is_ok() && text.starts_with('{') && text.contains(&format!("\"schema\":\"{SCHEMA}\""))
}

#[cfg(test)]
#[path = "record/tests.rs"]
pub mod tests;
