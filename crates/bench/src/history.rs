//! Records over time: a line for each workload, implementation and machine, and the runs at which it changed for good.
//!
//! [`History::of`] orders records by their start and gives each case its [`HistoryLine`]. A line goes on where the environment
//! changes (another compiler, another kernel); what changed stands in the [`HistoryRun`]. [`changes`] finds change points.
//!
//! Invariant: a case without a time is in the history with its error; a time is a record's median and nothing else.
use crate::{
    machine::{Facts, differences},
    record::{Record, Summary},
    stats::median,
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// All of it.
#[derive(Clone, Serialize, Debug)]
pub struct History {
    /// in the order of their starts
    pub runs: Vec<HistoryRun>,
    /// in the order in which their workloads first appear
    pub lines: Vec<HistoryLine>,
}
/// One record.
#[derive(Clone, Serialize, Debug)]
pub struct HistoryRun {
    /// when, in UTC
    pub started: String,
    /// the sources, with `+` if files differed
    pub commit: Option<String>,
    /// names that the repository gives this commit
    pub tags: Vec<String>,
    /// `cpu avx2 t2 @ machine`
    pub column: String,
    /// the command line
    pub command: String,
    /// what else the machine did when the run began
    pub load: f64,
    /// what the environment says otherwise than in the run before in this column: name, before, now
    pub changed: Vec<(String, String, String)>,
}
/// One workload of one implementation on one machine.
#[derive(Clone, Serialize, Debug)]
pub struct HistoryLine {
    /// the workload
    pub workload: String,
    /// `adamant, cpu avx2 t2 @ machine`
    pub column: String,
    /// in the order of the runs
    pub points: Vec<HistoryPoint>,
    /// where it changed
    pub changes: Vec<Change>,
}
/// One case.
#[derive(Clone, Serialize, Debug)]
pub struct HistoryPoint {
    /// which of [`History::runs`]
    pub run: usize,
    /// the median, in nanoseconds
    pub median_ns: Option<f64>,
    /// its 95 % interval
    pub ci95_ns: Option<[f64; 2]>,
    /// why there is no time
    pub error: Option<String>,
}
/// A change for good.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Change {
    /// the first of [`HistoryLine::points`] after it
    pub at: usize,
    /// time after it over time before
    pub factor: f64,
}

impl History {
    /// Of records in any order, with the names of commits.
    pub fn of(records: &[Record], tags: &BTreeMap<String, Vec<String>>) -> History {
        let mut ordered: Vec<&Record> = records.iter().collect();
        ordered.sort_by(|a, b| a.started.cmp(&b.started));
        let mut history = History { runs: Vec::new(), lines: Vec::new() };
        let mut places: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut last: BTreeMap<String, Facts> = BTreeMap::new();
        for (run, record) in ordered.into_iter().enumerate() {
            let (column, facts) = (record.column(), record.environment());
            let changed = last.get(&column).map(|before| differences(before, &facts)).unwrap_or_default();
            let git = record.git.as_ref();
            for case in &record.cases {
                let of_case = format!("{}, {column}", case.implementation);
                let line = *places.entry((case.workload.clone(), of_case.clone())).or_insert_with(|| {
                    history.lines.push(HistoryLine { workload: case.workload.clone(), column: of_case, points: Vec::new(), changes: Vec::new() });
                    history.lines.len() - 1
                });
                let summary: Option<Summary> = case.summary.filter(|_| !record.settings.small);
                let why = || case.error.clone().unwrap_or_else(|| "small shapes: right, but not timed".into());
                let error = summary.is_none().then(why);
                history.lines[line].points.push(HistoryPoint { run, median_ns: summary.map(|s| s.median_ns), ci95_ns: summary.map(|s| s.ci95_ns), error });
            }
            history.runs.push(HistoryRun {
                started: record.started.clone(),
                commit: git.map(|g| format!("{:.12}{}", g.commit, if g.dirty { "+" } else { "" })),
                tags: git.and_then(|g| tags.get(&g.commit)).cloned().unwrap_or_default(),
                column: column.clone(),
                command: record.command.join(" "),
                load: record.load_before.one_minute,
                changed,
            });
            last.insert(column, facts);
        }
        history.lines.iter_mut().for_each(HistoryLine::find_changes);
        history
    }
}
impl HistoryLine {
    /// Points that have a time, with their places.
    pub fn timed(&self) -> impl Iterator<Item = (usize, f64, [f64; 2])> {
        self.points.iter().enumerate().filter_map(|(k, p)| Some((k, p.median_ns?, p.ci95_ns?)))
    }
    fn find_changes(&mut self) {
        let timed: Vec<_> = self.timed().collect();
        let medians: Vec<f64> = timed.iter().map(|t| t.1).collect();
        let halves: Vec<f64> = timed.iter().map(|t| (t.2[1] - t.2[0]) / 2.0 / t.1).collect();
        self.changes = changes(&medians, &halves).into_iter().map(|c| Change { at: timed[c.at].0, ..c }).collect();
    }
}

/// A level lasts at least so many runs.
const SHORTEST: usize = 3;
/// Smaller changes are not told.
const LEAST_CHANGE: f64 = 0.02;
/// Runs of an unchanged program differ by at least this share, whatever few of them show.
const LEAST_NOISE: f64 = 0.004;
/// Of the universal threshold √(2 ln n).
const FACTOR: f64 = 1.3;
/// Change points of times of runs, given the relative half widths of their intervals: binary segmentation (Vostrikova,
/// 1981) of logarithms by the largest standardised difference of means, with the threshold of Fryzlewicz (*Annals of
/// Statistics* 42, 2014). A run that stands alone is no change: medians of three neighbours are looked at.
pub fn changes(medians: &[f64], halves: &[f64]) -> Vec<Change> {
    let n = medians.len();
    if n < 2 * SHORTEST {
        return Vec::new();
    }
    let logs: Vec<f64> = medians.iter().map(|x| x.ln()).collect();
    let smooth: Vec<f64> = (0..n).map(|k| median(&logs[k.saturating_sub(1).min(n - 3)..][..3])).collect();
    // Neighbours differ by noise, but for the few that stand at a change.
    let steps: Vec<f64> = logs.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    let noise = (1.4826 * median(&steps) / 2f64.sqrt()).max(median(halves) / 1.96).max(LEAST_NOISE);
    let threshold = FACTOR * (2.0 * (n as f64).ln()).sqrt() * noise;
    let mut found = Vec::new();
    split(&smooth, 0, threshold, &mut found);
    found.sort_unstable();
    let bounds: Vec<usize> = [0].into_iter().chain(found.iter().copied()).chain([n]).collect();
    let level = |k: usize| median(&logs[bounds[k]..bounds[k + 1]]);
    found.iter().enumerate().map(|(k, &at)| Change { at, factor: (level(k + 1) - level(k)).exp() }).collect()
}
fn split(values: &[f64], offset: usize, threshold: f64, found: &mut Vec<usize>) {
    let n = values.len();
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let candidates = (SHORTEST..(n + 1).saturating_sub(SHORTEST)).map(|k| {
        let difference = (mean(&values[k..]) - mean(&values[..k])).abs();
        ((k as f64 * (n - k) as f64 / n as f64).sqrt() * difference, k)
    });
    let Some((size, k)) = candidates.max_by(|a, b| a.0.total_cmp(&b.0)) else { return };
    let apart = (median(&values[k..]) - median(&values[..k])).abs();
    if size > threshold && apart > LEAST_CHANGE {
        found.push(offset + k);
        split(&values[..k], offset, threshold, found);
        split(&values[k..], offset + k, threshold, found);
    }
}

/// Files of records below files and folders, sorted; links to folders are not followed.
///
/// # Errors
/// A folder cannot be read.
pub fn files(places: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for place in places {
        below(place, &mut found)?;
    }
    found.sort();
    found.dedup();
    Ok(found)
}
fn below(place: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if !place.is_dir() {
        // A file that was named is one of records, whatever it is called; if it is not there, reading it says so.
        found.push(place.into());
        return Ok(());
    }
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", place.display()));
    for entry in fs::read_dir(place).map_err(named)? {
        let entry = entry.map_err(named)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(named)?);
        if kind.is_dir() {
            below(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "jsonl") {
            found.push(path);
        }
    }
    Ok(())
}
/// Names of commits in the repository of the current folder; none outside of one.
pub fn tags() -> BTreeMap<String, Vec<String>> {
    let format = "--format=%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end) %(refname:short)";
    let said = Command::new("git").args(["for-each-ref", "refs/tags", format]).output();
    let text = said.ok().filter(|o| o.status.success()).map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let mut tags = BTreeMap::<String, Vec<String>>::new();
    for (commit, name) in text.lines().filter_map(|l| l.split_once(' ')) {
        tags.entry(commit.into()).or_default().push(name.into());
    }
    tags
}

#[cfg(test)]
#[path = "history/tests.rs"]
mod tests;
