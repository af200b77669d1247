//! `cargo xtask features`: every promised row, and what became of it: `passed`, `failed`, `skipped` where the machine lacks
//! what the check needs, `absent` where there is no check yet. A check computes what the row says through the public API
//! and compares it with the row's target.
//!
//! `--json` prints one document for each row, `{"id", "what", "state", "value", "target", "command", "machine"}`. The last
//! line is `N passed, N failed, N skipped, N absent` (on stderr with `--json`). Ends with 0 if something passed and nothing
//! failed or was skipped, 1 if a row failed, 11 if none failed but one was skipped or there was nothing to check, 2 for an
//! id that nothing was promised under.
//!
//! `--plant` plants faults into what the checks look at and wants each caught by the part of the check that is there for
//! it, which must be right without the fault. A check with a fault runs in a process of its own, which is ended when it
//! takes longer than any fault should. The last line is `N caught, N not caught, N skipped`; ends with 1 if one was not
//! caught.
//!
//! `--slice` takes the checks alone that take seconds and judge no times: what runs in CI.
mod adapters;
mod backends;
mod cards;
mod causes;
mod clipped;
mod codes;
mod create;
mod debugged;
mod devices;
mod digits;
mod fused;
mod gradients;
mod loading;
mod managed;
mod measuring;
mod memory;
mod meshed;
mod models;
mod peak;
mod plant;
mod probe;
mod profiling;
mod program;
mod promised;
mod pruned;
mod ranked;
mod reports;
mod row;
mod smaller;
mod speed;
mod stability;
mod taught;
mod timing;
mod training;
mod viewed;
mod watching;

use crate::exit::Exit;
use adamant::{
    Device,
    cpu::{Context, CpuBackend},
};
use adamant_bench::machine::Machine;
use plant::planted;
use promised::PROMISED;
use row::{CheckCost, Checked, Lacking, RowCheck, RowState, Seen, plant};
use serde_json::{Value, json};
use std::{
    error::Error,
    io::{self, Seek},
    os::unix::process::CommandExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// Only these rows, separated by commas: S0.01,S1.43
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only the checks that take seconds and judge no times
    #[arg(long)]
    slice: bool,
    /// Plant faults into what the checks look at: each must be caught
    #[arg(long)]
    plant: bool,
    /// JSON lines instead of text
    #[arg(long)]
    json: bool,
    /// Ids, what is promised and what must be seen; nothing is run
    #[arg(long)]
    list: bool,
    /// What this program says of itself when a check starts it again in another environment
    #[arg(long, hide = true)]
    probe: Option<String>,
    /// The fault that is planted into what the probe or the row looks at
    #[arg(long, hide = true)]
    planted: Option<String>,
    /// The row whose check says what it sees, as a document
    #[arg(long, hide = true)]
    see: Option<String>,
}

/// All checks, in the order of the table.
fn rows() -> Vec<&'static RowCheck> {
    let mut rows: Vec<&RowCheck> = [
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
        smaller::ROWS,
        speed::ROWS,
        stability::ROWS,
        causes::ROWS,
        codes::ROWS,
        fused::ROWS,
        pruned::ROWS,
        ranked::ROWS,
        meshed::ROWS,
        taught::ROWS,
        adapters::ROWS,
        debugged::ROWS,
        viewed::ROWS,
        managed::ROWS,
        cards::ROWS,
    ]
    .into_iter()
    .flatten()
    .collect();
    rows.sort_by_key(|r| PROMISED.iter().position(|p| p.0 == r.id));
    rows
}
/// A promised row and its check, if it has one.
struct AskedRow {
    id: &'static str,
    what: &'static str,
    row: Option<&'static RowCheck>,
}
/// The rows that the command line means.
fn asked(options: &Options) -> Result<Vec<AskedRow>, Exit> {
    let unknown: Vec<&String> = options.only.iter().filter(|id| !PROMISED.iter().any(|p| p.0 == **id)).collect();
    if !unknown.is_empty() {
        eprintln!("nothing is promised under {unknown:?}; `cargo xtask features --list` prints all ids");
        return Err(Exit::Usage);
    }
    let rows = rows();
    let all = PROMISED.iter().map(|&(id, what)| AskedRow { id, what, row: rows.iter().find(|r| r.id == id).copied() });
    let named = all.filter(|a| options.only.is_empty() || options.only.iter().any(|id| id == a.id));
    Ok(named.filter(|a| !options.slice || a.row.is_none_or(|r| r.cost == CheckCost::Cheap)).collect())
}

/// Runs the checks.
pub fn run(options: &Options) -> Exit {
    plant::set(options.planted.clone());
    if let Some(probe) = &options.probe {
        return probe::answer(probe);
    }
    if let Some(id) = &options.see {
        return told(id);
    }
    let asked = match asked(options) {
        Ok(asked) => asked,
        Err(exit) => return exit,
    };
    match (options.list, options.plant) {
        (true, _) => {
            list(&asked);
            Exit::Passed
        }
        (_, true) => plants(&asked, options.json),
        _ => states(&asked, options.json),
    }
}
fn list(asked: &[AskedRow]) {
    for AskedRow { id, what, row } in asked {
        match row {
            Some(row) => println!("{id:<6} {what}: {}", row.target),
            None => println!("{id:<6} {what} (absent)"),
        }
    }
}
fn states(asked: &[AskedRow], as_json: bool) -> Exit {
    let machine = Machine::here().short();
    let mut states = Vec::new();
    for AskedRow { id, what, row } in asked {
        let began = Instant::now();
        let (state, value) = row.map_or((RowState::Absent, String::new()), |row| {
            let seen = see(row);
            (seen.state(), seen.told())
        });
        took(id, began);
        states.push(state);
        let word = state.word();
        if as_json {
            let (value, target) = (row.map(|_| value), row.map(|r| r.target));
            println!("{}", json!({ "id": id, "what": what, "state": word, "value": value, "target": target, "command": command(id), "machine": machine }));
        } else if value.is_empty() {
            println!("{id:<6} {word:<7}  {what}");
        } else {
            println!("{id:<6} {word:<7}  {what}: {value}");
        }
    }
    let count = |state: RowState| states.iter().filter(|s| **s == state).count();
    conclude(&RowState::ALL.map(|s| format!("{} {}", count(s), s.word())).join(", "), as_json);
    match (count(RowState::Failed), count(RowState::Skipped), count(RowState::Passed)) {
        (0, 0, 1..) => Exit::Passed,
        (0, ..) => Exit::Skipped,
        _ => Exit::Failed,
    }
}
fn command(id: &str) -> String {
    format!("cargo xtask features --only {id}")
}
/// The last line, where it does not disturb who reads the others.
fn conclude(line: &str, as_json: bool) {
    if as_json { eprintln!("{line}") } else { println!("{line}") }
}
/// Plants every fault of every row that has some.
fn plants(asked: &[AskedRow], as_json: bool) -> Exit {
    let machine = Machine::here().short();
    let mut words = Vec::new();
    for AskedRow { id, what, row } in asked {
        let Some(row) = row.filter(|r| !r.plants.is_empty()) else { continue };
        let began = Instant::now();
        let healthy = see(row);
        took(id, began);
        for plant in row.plants {
            let began = Instant::now();
            let (word, value) = judged(&healthy, plant, || see_planted(row, plant.fault));
            took(plant.fault, began);
            words.push(word);
            if as_json {
                let command = command(id) + " --plant";
                let line: Value = json!({ "id": id, "what": what, "fault": plant.fault, "part": plant.part, "state": word, "value": value, "command": command, "machine": machine });
                println!("{line}");
            } else {
                println!("{id:<6} {word:<10}  {}: {value}", plant.fault);
            }
        }
    }
    let count = |word: &str| words.iter().filter(|w| **w == word).count();
    conclude(&format!("{} {CAUGHT}, {} {NOT_CAUGHT}, {} skipped", count(CAUGHT), count(NOT_CAUGHT), count("skipped")), as_json);
    match (count(NOT_CAUGHT), count(CAUGHT)) {
        (0, 1..) => Exit::Passed,
        (0, 0) => Exit::Skipped,
        _ => Exit::Failed,
    }
}
const CAUGHT: &str = "caught";
const NOT_CAUGHT: &str = "NOT caught";
/// What became of a fault: the part that is there for it must fail with it, and must not without it.
fn judged(healthy: &Seen, plant: &row::Plant, faulty: impl FnOnce() -> Seen) -> (&'static str, String) {
    let fails = |seen: &Seen| seen.failed.iter().any(|f| f == plant.part);
    if fails(healthy) {
        return (NOT_CAUGHT, format!("`{}` fails without it, too: {}", plant.part, healthy.told()));
    }
    let faulty = faulty();
    match faulty.missing[..] {
        _ if fails(&faulty) => (CAUGHT, faulty.told()),
        // The part may be what could not be looked at.
        [_, ..] => ("skipped", faulty.told()),
        [] => (NOT_CAUGHT, format!("`{}` does not fail: {}", plant.part, faulty.told())),
    }
}
/// What takes more than this is told on stderr.
const TOLD: Duration = Duration::from_secs(5);
fn took(what: &str, began: Instant) {
    if began.elapsed() > TOLD {
        eprintln!("{what} took {:.0} s", began.elapsed().as_secs_f64());
    }
}
/// The longest that a check with a fault may take: most of the long ones build other programs.
const LIMIT: Duration = Duration::from_secs(600);
/// What a check sees with a fault, in a process of its own: what the fault spoils ends with it, and one that hangs is ended.
fn see_planted(row: &RowCheck, fault: &str) -> Seen {
    limited(row.id, fault, LIMIT).unwrap_or_else(|e| Seen::all(&[("an error", false)], format!("error: {e}")))
}
/// This program, to be started again: the file that runs, even where a check has built another in its place.
fn this_program() -> io::Result<PathBuf> {
    let running = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    if running.exists() { Ok(running) } else { std::env::current_exe() }
}
fn limited(id: &str, fault: &str, limit: Duration) -> Result<Seen, Box<dyn Error>> {
    let mut out = tempfile::tempfile()?;
    let mut command = Command::new(this_program()?);
    // A card that is played here is played there.
    command.args(std::env::args().filter(|a| a.starts_with("--emulated")));
    command.args(["features", "--see", id, "--planted", fault]).stdout(out.try_clone()?);
    // With all that it starts.
    let mut child = command.process_group(0).spawn()?;
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() > limit {
            nix::sys::signal::killpg(nix::unistd::Pid::from_raw(child.id().try_into()?), nix::sys::signal::Signal::SIGKILL)?;
            child.wait()?;
            return Err(format!("not done after {} s", limit.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    out.rewind()?;
    Ok(serde_json::from_reader(out)?)
}
/// Says what the check of a row sees, as a document.
fn told(id: &str) -> Exit {
    let rows = rows();
    let Some(row) = rows.iter().find(|r| r.id == id) else {
        eprintln!("`{id}` has no check");
        return Exit::Usage;
    };
    println!("{}", json!(see(row)));
    Exit::Passed
}
/// Runs a check on a device of its own, so that counters of memory begin at nothing. A panic is a failed row.
fn see(row: &RowCheck) -> Seen {
    let failed = |why: String| Seen::all(&[("an error", false)], why);
    let checked = catch_unwind(AssertUnwindSafe(|| -> Checked {
        let device = Context::new(CpuBackend::builder())?.device();
        let seen = device.scoped(row.check);
        // Devices live as long as the program; what waits in their pools need not.
        device.pool().trim();
        seen
    }));
    match checked {
        Ok(Ok(seen)) => seen,
        Ok(Err(error)) => match error.downcast::<Lacking>() {
            Ok(missing) => Seen::all(&[], "").lacking([*missing]),
            Err(error) => failed(format!("error: {error}")),
        },
        Err(_) => failed("panicked".into()),
    }
}
/// The device of the check.
fn device() -> Result<Device, adamant::Error> {
    Device::current()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs, io::Write};

    #[test]
    fn a_row_that_had_a_check_and_is_absent() {
        let asked = "B0.03 B0.07 B1.09 B1.10 B1.11 S0.01 S0.02 S0.03 S0.05 S0.06 S0.07 S0.09 S0.10 S0.11 S0.12 S0.13 S0.15 S0.17 S0.19 S0.20 \
                     S0.21 S0.22 S0.23 S0.24 S0.25 S0.26 S0.27 S0.28 S0.30 S0.31 S0.32 S0.33 S0.35 S0.36 S0.37 S0.38 S0.42 S1.01 \
                     S1.02 S1.03 S1.08 S1.09 S1.10 S1.12 S1.13 S1.14 S1.15 S1.23 S1.24 S1.25 S1.26 S1.37 S1.41 S1.43 S1.44 S1.45 \
                     S1.53 S1.54 S1.55 S1.57 S1.58 S1.59 S2.01 S2.02 S2.03 S2.04 S2.05 S2.18 S2.19 S2.20 S2.21 S2.22 S2.23 S2.30 \
                     S2.32 S2.33 S3.13 S3.17 S3.18 S3.19 S3.20 S3.22 S3.26 S3.27 S4.05 S4.21 S4.23 S4.27 S4.28 S4.31 S4.48 S4.51 \
                     B0.11 S4.17 S1.11 S1.32 S1.33 S1.34 S1.38 S3.06 S3.31 B0.06 B2.21 B3.07 S3.14 S3.15 \
                     S1.50 B0.10 B1.04 B4.06 B4.08";
        let rows: Vec<&str> = rows().iter().map(|r| r.id).collect();
        let missing: Vec<&str> = asked.split_whitespace().filter(|id| !rows.contains(id)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
    #[test]
    fn a_check_of_what_was_never_promised_or_two_of_one_row() {
        let promised: BTreeSet<&str> = PROMISED.iter().map(|p| p.0).collect();
        assert_eq!(promised.len(), PROMISED.len());
        let rows: Vec<&str> = rows().iter().map(|r| r.id).collect();
        assert!(rows.iter().all(|id| promised.contains(id)), "{rows:?}");
        assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len());
    }
    #[test]
    fn a_promised_row_that_is_in_no_list() {
        let table = crate::workspace::root().join("../shared/FEATURES.md");
        let Ok(text) = fs::read_to_string(&table) else {
            // Not by a macro, whose text a test that passes keeps to itself.
            let _ = writeln!(std::io::stderr(), "SKIPPED: not compared with the table of promised features: {} is not there", table.display());
            return;
        };
        let is_id = |s: &str| s.len() == 5 && s.starts_with(['S', 'B']) && s[1..].chars().all(|c| c.is_ascii_digit() || c == '.');
        let first = |line: &str| line.strip_prefix("| ").and_then(|l| l.split(" | ").next()).filter(|id| is_id(id)).map(str::to_string);
        assert_eq!(PROMISED.iter().map(|p| p.0.to_string()).collect::<Vec<_>>(), text.lines().filter_map(first).collect::<Vec<_>>());
    }
    #[test]
    fn a_fault_that_counts_as_caught_without_its_part() {
        let plant = plant("slower", "the time");
        let failing = |parts: &[(&str, bool)]| Seen::all(parts, "");
        let (right, wrong, other) = ([("the time", true)], [("the time", false)], [("the time", true), ("the sum", false)]);
        let lacking = || failing(&right).lacking([Lacking::new("a clock", "a watchmaker")]);
        for (healthy, faulty, word) in [
            (failing(&right), failing(&wrong), CAUGHT),
            (failing(&other), failing(&wrong), CAUGHT),
            (failing(&right), failing(&right), NOT_CAUGHT),
            (failing(&right), failing(&other), NOT_CAUGHT),
            (failing(&wrong), failing(&wrong), NOT_CAUGHT),
            (failing(&right), lacking(), "skipped"),
        ] {
            assert_eq!(judged(&healthy, &plant, || faulty).0, word);
        }
    }
    #[test]
    fn what_a_check_saw_in_another_process() {
        let seen = Seen::all(&[("the time", false)], "3").lacking([Lacking::new("a clock", "a watchmaker")]);
        let back: Seen = serde_json::from_value(json!(seen)).unwrap();
        assert_eq!((back.state(), back.told()), (seen.state(), seen.told()));
    }
    #[test]
    fn a_fault_without_a_hook_or_of_no_name() {
        let (mut folders, mut source) = (vec![crate::workspace::root().join("xtask/src/features")], String::new());
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
                if path.is_dir() { folders.push(path) } else { source += &fs::read_to_string(path).unwrap() }
            }
        }
        let plants: Vec<&row::Plant> = rows().iter().flat_map(|r| r.plants).collect();
        for plant in &plants {
            assert!(source.contains(&format!("planted(\"{}\")", plant.fault)), "no check asks for `{}`", plant.fault);
        }
        assert!(plants.len() >= 30, "{}", plants.len());
    }
}
