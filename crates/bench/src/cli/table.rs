//! `merge` and `report`: records as one table, or as one page.
use super::{
    Ended, Exit, ended,
    out::{OutStream, note, write},
};
use crate::{
    merge::{MergedTable, merge as merged},
    record::Record,
    render::{Format, table as rendered},
};
use clap::Args;
use std::path::PathBuf;

/// What is merged.
#[derive(Args, Debug)]
pub struct Options {
    /// Files of records, of one machine or several
    #[arg(required = true)]
    records: Vec<PathBuf>,
    /// terminal, markdown (one comment of a pull request), csv, json or html
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    /// Write to a file instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}
/// What is reported.
#[derive(Args, Debug)]
pub struct ReportOptions {
    /// Files of records, of one machine or several
    #[arg(required = true)]
    records: Vec<PathBuf>,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "target/bench/report.html")]
    html: PathBuf,
}
fn read(files: &[PathBuf]) -> Result<MergedTable, Ended> {
    let mut records = Vec::new();
    for file in files {
        records.extend(Record::read(file).map_err(|e| ended(Exit::Unreadable)(&e))?);
    }
    Ok(merged(&records))
}
pub(super) fn merge(options: &Options) -> Result<Exit, Ended> {
    let (table, mut out) = (read(&options.records)?, OutStream::default());
    write(&rendered(&table, options.format), options.out.as_deref(), &mut out)?;
    out.end(Exit::Passed)
}
pub(super) fn report(options: &ReportOptions) -> Result<Exit, Ended> {
    let table = read(&options.records)?;
    write(&rendered(&table, Format::Html), Some(&options.html), &mut OutStream::default())?;
    note(options.html.display());
    Ok(Exit::Passed)
}
