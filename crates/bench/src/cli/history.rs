//! `history`: records of many runs as one page of lines, with the runs at which they changed.
use super::{
    Ended, Exit, ended,
    out::{OutStream, note, write},
};
use crate::{
    history::{History, files, tags},
    merge::merge,
    record::Record,
    render::history as rendered,
};
use clap::Args;
use std::path::PathBuf;

/// What is shown.
#[derive(Args, Debug)]
pub struct Options {
    /// Files of records, and folders below which `*.jsonl` are such files
    #[arg(required = true)]
    records: Vec<PathBuf>,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "target/bench/history.html")]
    html: PathBuf,
    /// One row for each case of each run, in nanoseconds
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// One JSON document: runs, and lines with points and changes
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}
pub(super) fn run(options: &Options) -> Result<Exit, Ended> {
    let unreadable = ended(Exit::Unreadable);
    let found = files(&options.records).map_err(|e| unreadable(&e))?;
    let mut records = Vec::new();
    for file in &found {
        records.extend(Record::read(file).map_err(|e| unreadable(&e))?);
    }
    if records.is_empty() {
        return Err((Exit::Unreadable, "no *.jsonl is there".into()));
    }
    let history = History::of(&records, &tags());
    let mut out = OutStream::default();
    write(&rendered::page(&history, &merge(&records)), Some(&options.html), &mut out)?;
    if let Some(file) = &options.csv {
        write(&rendered::csv(&history), Some(file), &mut out)?;
    }
    if let Some(file) = &options.json {
        write(&(serde_json::json!(history).to_string() + "\n"), Some(file), &mut out)?;
    }
    let changes: usize = history.lines.iter().map(|l| l.changes.len()).sum();
    note(format_args!("{}: {} runs, {} lines, {changes} changes", options.html.display(), history.runs.len(), history.lines.len()));
    out.end(Exit::Passed)
}
