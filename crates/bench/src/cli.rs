//! The verbs of a benchmark program: of this project's `cargo xtask bench`, and of a user's own.
//!
//! Each verb is a file below; this one knows their arguments and the exit codes. Text for people goes to stdout unless
//! `--json` is given, which prints [lines](crate::lines), one for each workload and program, and nothing else.
pub mod baseline;
pub mod compare;
pub mod gate_selftest;
pub mod history;
pub mod out;
pub mod run;
pub mod selftest;
pub mod subjects;
pub mod table;

use crate::{
    child::ChildError,
    place::BenchPlace,
    suite::{Suite, registered},
    workload::{Group, WatchKind, WorkloadForm},
};
use adamant::DType;
use clap::{Args, Parser, Subcommand};
use out::OutStream;
use std::{ffi::OsString, fmt::Display, process::ExitCode};

/// How a verb ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// all is well; what is unsupported does not count against it
    Passed = 0,
    /// something failed, or is wrong
    Failed = 1,
    /// the arguments make no sense
    Usage = 2,
    /// a file that was named cannot be read, or is not what it should be
    Unreadable = 4,
    /// what was made cannot be written
    Unwritable = 6,
    /// slower than allowed
    Regression = 8,
    /// the device that was named is not there
    DeviceAbsent = 9,
    /// the samples cannot tell whether it is slower than allowed
    Undecided = 10,
    /// nothing failed, but not everything could be looked at: the machine lacks what it takes
    Skipped = 11,
}
impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
/// Why a verb ended early: the exit code and what to say.
pub type Ended = (Exit, String);
/// An error with the exit code that it stands for.
pub fn ended(exit: Exit) -> impl Fn(&dyn Display) -> Ended {
    move |e| (exit, e.to_string())
}
/// The end of a verb whose program under test does not start: it says itself that its device is absent, or that what it was
/// asked makes no sense.
pub fn not_started(e: &ChildError) -> Ended {
    let exit = match e.code() {
        Some(code) if code == Exit::DeviceAbsent as i32 => Exit::DeviceAbsent,
        Some(code) if code == Exit::Usage as i32 => Exit::Usage,
        _ => Exit::Failed,
    };
    (exit, e.to_string())
}
/// A share in percent, from 0.
///
/// # Errors
/// It is none: with NaN nothing would be slower than allowed.
fn percent(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0).ok_or_else(|| "a number of percent counts from 0".into())
}

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// The names of the workloads
    List(Chosen),
    /// Measure this program
    Run(run::Options),
    /// Two programs, revisions, settings or records against each other: which is faster, and is that sure?
    #[command(alias = "diff")]
    Compare(compare::Options),
    /// The same, and end with 8 if B is slower than allowed, with 10 if the samples cannot tell
    Gate(compare::GateOptions),
    /// Records to compare with later
    Baseline(baseline::Options),
    /// Records of several machines as one table
    Merge(table::Options),
    /// Records as one page that needs no network
    Report(table::ReportOptions),
    /// Records of many runs as one page: lines over time, and where they changed
    History(history::Options),
    /// This program against itself: how small a change can be seen, by case
    Calibrate(compare::CalibrateOptions),
    /// The tool judged by itself: equal programs, and slowdowns that were planted
    Selftest(selftest::Options),
    /// The gate judged by itself, beside a busy neighbour: equal programs, and slowdowns of 10 %
    GateSelftest(gate_selftest::Options),
    /// A loop that keeps a core busy until its parent ends
    #[command(hide = true)]
    Spin,
    /// What a record says of this machine, its load and its ceilings
    Env(run::EnvOptions),
    /// Answer another program that measures this one
    #[command(hide = true)]
    Serve(ServeOptions),
}
impl Verb {
    /// The device on which this program itself is to run, where the verb takes one.
    pub fn device(&self) -> Option<&str> {
        match self {
            Verb::Run(run::Options { at, .. }) | Verb::Env(run::EnvOptions { at, .. }) | Verb::Serve(ServeOptions { at, .. }) => Some(&at.device),
            _ => None,
        }
    }
}
/// Which workloads.
#[derive(Args, Clone, Debug)]
pub struct Chosen {
    /// Only the workloads whose name matches one of these globs, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "*")]
    pub only: Vec<String>,
    /// Which group of them
    #[arg(long, value_enum, default_value_t = Group::Main)]
    pub group: Group,
}
/// Where they run.
#[derive(Args, Clone, Debug)]
pub struct WhereToRun {
    /// Threads of the CPU device; the caller pins the process
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: u16,
    /// cpu, cuda:N, wgpu:N or reference
    #[arg(long, default_value = "cpu")]
    pub device: String,
}
impl WhereToRun {
    /// Opens the device and makes it the current one.
    ///
    /// # Errors
    /// It is not there.
    pub fn open(&self) -> Result<BenchPlace, Ended> {
        let place = BenchPlace::open(&self.device, self.threads.into()).map_err(|e| {
            let exit = if e.kind().word() == "device" { Exit::DeviceAbsent } else { Exit::Usage };
            (exit, e.to_string())
        })?;
        place.device.make_current();
        Ok(place)
    }
}

/// How a program answers another one.
#[derive(Args, Clone, Debug)]
pub struct ServeOptions {
    #[command(flatten)]
    at: WhereToRun,
    /// The precision of all workloads; what has no form in it is not run
    #[arg(long, value_parser = precision)]
    precision: Option<DType>,
    /// `watch`: all workloads with a watch over their numbers; `layers`: with statistics of layers in each step too; `full`: over what each op
    /// gives. What has no such form is not run
    #[arg(long, value_parser = stability, conflicts_with = "precision")]
    stability: Option<WorkloadForm>,
}
/// The precisions that workloads may have forms in.
const PRECISIONS: [DType; 3] = [DType::F32, DType::BF16, DType::F16];
/// A precision by its name.
///
/// # Errors
/// It is none, and those that are.
fn precision(name: &str) -> Result<DType, String> {
    let names = || PRECISIONS.map(|dtype| dtype.to_string()).join(", ");
    PRECISIONS.into_iter().find(|dtype| dtype.to_string() == name).ok_or_else(|| format!("there is no precision `{name}`; there are {}", names()))
}

/// The form that watches, by its name.
///
/// # Errors
/// There is no such form.
fn stability(name: &str) -> Result<WorkloadForm, String> {
    let names = || WatchKind::ALL.map(WatchKind::name).join(", ");
    let kind = WatchKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| format!("there is no watch `{name}`; there are {}", names()))?;
    Ok(WorkloadForm::Watched(kind))
}
/// Does what the command line asks for.
pub fn execute(verb: &Verb, suite: &Suite) -> Exit {
    let done = match verb {
        Verb::List(chosen) => list(chosen, suite),
        Verb::Run(options) => run::run(options, suite),
        Verb::Compare(options) => compare::compare(options, suite),
        Verb::Gate(options) => compare::gate(options, suite),
        Verb::Baseline(options) => baseline::run(options),
        Verb::Merge(options) => table::merge(options),
        Verb::Report(options) => table::report(options),
        Verb::History(options) => history::run(options),
        Verb::Calibrate(options) => compare::calibrate(options, suite),
        Verb::Selftest(options) => selftest::run(options, suite),
        Verb::GateSelftest(options) => gate_selftest::run(options, suite),
        Verb::Spin => gate_selftest::spin(),
        Verb::Env(options) => run::env(options),
        Verb::Serve(options) => serve(options, suite),
    };
    done.unwrap_or_else(|(exit, text)| {
        out::note(text);
        exit
    })
}
fn list(chosen: &Chosen, suite: &Suite) -> Result<Exit, Ended> {
    let mut out = OutStream::default();
    some(chosen, suite)?.iter().for_each(|w| out.say(&w.name));
    out.end(Exit::Passed)
}
/// The chosen workloads: at least one.
///
/// # Errors
/// None matches.
pub fn some(chosen: &Chosen, suite: &Suite) -> Result<Vec<crate::Workload>, Ended> {
    let workloads = suite.chosen(chosen.group, &chosen.only).map_err(|e| ended(Exit::Usage)(&e))?;
    if workloads.is_empty() {
        return Err((Exit::Usage, "no workload matches; `bench list` names them".into()));
    }
    Ok(workloads)
}
fn serve(options: &ServeOptions, suite: &Suite) -> Result<Exit, Ended> {
    end_with_parent();
    let place = options.at.open()?;
    let form = options.precision.map_or(options.stability.unwrap_or_default(), WorkloadForm::Precision);
    crate::serve::serve(suite, &place, form, std::io::stdin().lock(), std::io::stdout().lock()).map_err(|e| ended(Exit::Failed)(&e))?;
    Ok(Exit::Passed)
}

/// Who measures may be killed while this program is stopped, and nobody would wake it to see its input end. Where the system
/// declines, it would have to be ended by hand.
fn end_with_parent() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

#[cfg(test)]
#[path = "cli/tests.rs"]
mod tests;

#[derive(Parser)]
#[command(
    name = "bench",
    about = "Benchmarks",
    after_help = "Exit codes: 0 all is well, 1 something failed, 2 usage, 4 unreadable, 6 unwritable, 8 regression, 9 device absent, \
                  10 a gate could not tell"
)]
struct BenchProgram {
    #[command(subcommand)]
    verb: Verb,
}
/// The program of a user's benchmarks: `cargo bench --bench NAME -- run --json`. See [`bench_main!`](crate::bench_main).
pub fn main(crate_name: &str) -> ExitCode {
    // Cargo says `--bench`; whoever measures this program says `bench`.
    let mut arguments: Vec<OsString> = std::env::args_os().filter(|a| a != "--bench").collect();
    if arguments.get(1).is_some_and(|a| a == "bench") {
        arguments.remove(1);
    }
    if arguments.len() == 1 {
        arguments.push("run".into());
    }
    let suite = Suite::new("adamant", registered, &["bench", "--no-run", "--bench", crate_name]);
    execute(&BenchProgram::parse_from(arguments).verb, &suite).into()
}
/// `fn main` of a program that measures the workloads of [`workload!`](crate::workload!): the file of a `[[bench]]` with
/// `harness = false`.
#[macro_export]
macro_rules! bench_main {
    () => {
        fn main() -> ::std::process::ExitCode {
            $crate::cli::main(env!("CARGO_CRATE_NAME"))
        }
    };
}
