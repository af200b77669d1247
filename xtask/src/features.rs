//! `cargo xtask features`: one runnable check for each row of the table of promised features that has been asked for. A
//! check computes what the row says through the public API and compares it with the row's target.
//!
//! `--json` prints one document for each row, `{"id", "pass", "value", "target", "command"}`. Ends with 0 if all rows
//! passed, 1 if one failed, 2 for a row that is not here: a row without a check is no row that passed.
mod backends;
mod create;
mod devices;
mod gradients;
mod loading;
mod measuring;
mod memory;
mod models;
mod probe;
mod profiling;
mod program;
mod reports;
mod speed;
mod timing;
mod training;
mod watching;

use crate::exit::Exit;
use adamant::{
    Device,
    cpu::{Context, CpuBackend},
};
use serde_json::json;
use std::{
    error::Error,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// Only these rows, separated by commas: S0.01,S1.43
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// JSON lines instead of text
    #[arg(long)]
    json: bool,
    /// Ids and what the rows promise; nothing is run
    #[arg(long)]
    list: bool,
    /// What this program says of itself when a check starts it again in another environment
    #[arg(long, hide = true)]
    probe: Option<String>,
}

/// A row: its id, what is promised, what must be seen, and the check.
struct Row {
    id: &'static str,
    what: &'static str,
    target: &'static str,
    check: fn() -> Checked,
}
type Checked = Result<Seen, Box<dyn Error>>;
/// What a check saw, and whether it is what was promised.
struct Seen {
    pass: bool,
    value: String,
}
impl Seen {
    fn new(pass: bool, value: impl Into<String>) -> Seen {
        Seen { pass, value: value.into() }
    }
    /// Passes if all parts do; the parts that do not are named.
    fn all(parts: &[(&str, bool)], value: impl Into<String>) -> Seen {
        let failed: Vec<&str> = parts.iter().filter(|(_, pass)| !pass).map(|(name, _)| *name).collect();
        let value = value.into();
        if failed.is_empty() { Seen::new(true, value) } else { Seen::new(false, format!("{value}; not so: {}", failed.join("; "))) }
    }
}

fn rows() -> Vec<&'static Row> {
    let mut rows: Vec<&Row> = [
        backends::ROWS,
        create::ROWS,
        gradients::ROWS,
        models::ROWS,
        training::ROWS,
        devices::ROWS,
        loading::ROWS,
        program::ROWS,
        watching::ROWS,
        profiling::ROWS,
        measuring::ROWS,
        memory::ROWS,
        reports::ROWS,
        speed::ROWS,
    ]
    .into_iter()
    .flatten()
    .collect();
    rows.sort_by_key(|r| r.id);
    rows
}

/// Runs the checks.
pub fn run(options: &Options) -> Exit {
    if let Some(probe) = &options.probe {
        return probe::answer(probe);
    }
    let rows = rows();
    let unknown: Vec<&String> = options.only.iter().filter(|id| !rows.iter().any(|r| r.id == **id)).collect();
    if !unknown.is_empty() {
        eprintln!("no check for {unknown:?}; there are {}", rows.iter().map(|r| r.id).collect::<Vec<_>>().join(" "));
        return Exit::Usage;
    }
    let mut failed = 0;
    let chosen: Vec<&&Row> = rows.iter().filter(|r| options.only.is_empty() || options.only.iter().any(|id| id == r.id)).collect();
    for row in &chosen {
        if options.list {
            println!("{:<6} {}: {}", row.id, row.what, row.target);
            continue;
        }
        let seen = see(row);
        failed += usize::from(!seen.pass);
        let command = format!("cargo xtask features --only {}", row.id);
        if options.json {
            println!("{}", json!({ "id": row.id, "pass": seen.pass, "value": seen.value, "target": row.target, "command": command }));
        } else {
            println!("{:<6} {}  {}: {}", row.id, if seen.pass { "passed" } else { "FAILED" }, row.what, seen.value);
        }
    }
    if !options.list && !options.json {
        println!("{} passed, {failed} failed", chosen.len() - failed);
    }
    if failed == 0 { Exit::Passed } else { Exit::Failed }
}
/// Runs a check on a device of its own, so that counters of memory begin at nothing. A panic is a failed row.
fn see(row: &Row) -> Seen {
    let checked = catch_unwind(AssertUnwindSafe(|| -> Checked { Context::new(CpuBackend::builder())?.device().scoped(row.check) }));
    match checked {
        Ok(Ok(seen)) => seen,
        Ok(Err(error)) => Seen::new(false, format!("error: {error}")),
        Err(_) => Seen::new(false, "panicked"),
    }
}
/// The device of the check.
fn device() -> Result<Device, adamant::Error> {
    Device::current()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_asked_for_and_has_no_check() {
        let asked = "B0.03 B0.07 B1.09 B1.10 B1.11 S0.01 S0.02 S0.03 S0.05 S0.06 S0.07 S0.09 S0.10 S0.11 S0.12 S0.13 S0.15 S0.17 S0.19 S0.20 \
                     S0.21 S0.22 S0.23 S0.24 S0.25 S0.26 S0.27 S0.28 S0.30 S0.31 S0.32 S0.33 S0.35 S0.36 S0.37 S0.38 S0.42 S1.01 \
                     S1.02 S1.03 S1.08 S1.09 S1.10 S1.12 S1.13 S1.14 S1.15 S1.23 S1.24 S1.25 S1.26 S1.37 S1.41 S1.43 S1.44 S1.45 \
                     S1.53 S1.54 S1.55 S1.57 S1.58 S1.59 S2.01 S2.02 S2.03 S2.04 S2.05 S2.18 S2.19 S2.20 S2.21 S2.22 S2.23 S2.30 \
                     S2.32 S2.33 S3.13 S3.17 S3.18 S3.19 S3.20 S3.22 S3.26 S3.27 S4.05 S4.21 S4.23 S4.27 S4.28 S4.31 S4.48 S4.51";
        let rows: Vec<&str> = rows().iter().map(|r| r.id).collect();
        assert_eq!(rows, asked.split_whitespace().collect::<Vec<_>>());
    }
    #[test]
    fn a_failed_part_is_named() {
        let seen = Seen::all(&[("right", true), ("the count", false)], "3");
        assert_eq!((seen.pass, &*seen.value), (false, "3; not so: the count"));
    }
}
