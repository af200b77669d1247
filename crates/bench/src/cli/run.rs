//! `run` and `env`: this program on this machine.
use super::{
    Chosen, Ended, Exit, WhereToRun, compare, ended,
    out::{self, OutStream, note},
    percent, some,
};
use crate::{
    ceilings::Ceilings,
    child::{Fresh, Subject},
    criterion,
    interleave::{Plan, Sides, Taken, take_all},
    lines::Line,
    machine::{Git, Load, Machine, Toolchain},
    record::{Case, Record},
    render::{Format, comparison as rendered},
    sampler::{Active, MOST_SAMPLES, SHORTEST_SAMPLE, StopRule},
    serve::about,
    suite::Suite,
    workload::{Scale, Workload},
};
use clap::Args;
use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// How the samples are taken.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    pub(super) at: WhereToRun,
    /// Seconds of samples for each workload
    #[arg(long, default_value_t = 1.0)]
    budget: f64,
    /// Stop early when the median is known to within this share
    #[arg(long, default_value_t = 0.002)]
    precision: f64,
    /// In how many new processes each workload is measured, where there is a record: it then has the spread between them
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Small shapes: shows that the workloads run and are right, not how fast they are
    #[arg(long)]
    small: bool,
    /// Names of the workloads, nothing is run
    #[arg(long)]
    list: bool,
    /// JSON lines instead of text
    #[arg(long)]
    json: bool,
    /// Append the record of this run to a file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Compare with the last record of a file, of this machine; a case that is certainly slower ends with 8, one that may be
    /// with 10. Two moments of a machine differ by much: to compare programs, `gate` takes turns
    #[arg(long, value_name = "FILE", conflicts_with = "small")]
    against: Option<PathBuf>,
    /// So much slower is allowed, in percent
    #[arg(long, default_value_t = 5.0, requires = "against", value_parser = percent)]
    allow: f64,
    /// What tables call this machine, instead of its processor's name
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Measure the growth of memory too, of the workloads that train (a record has it always)
    #[arg(long)]
    memory: bool,
    /// Read the samples that criterion left in this folder too (target/criterion)
    #[arg(long, value_name = "FOLDER")]
    criterion: Option<PathBuf>,
}
/// What `env` prints.
#[derive(Args, Clone, Debug)]
pub struct EnvOptions {
    #[command(flatten)]
    pub(super) at: WhereToRun,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// The smallest change worth telling of a run against a record.
const THRESHOLD: f64 = 0.01;

/// Measures and prints; ends with 1 if a result is wrong.
pub(super) fn run(options: &Options, suite: &Suite) -> Result<Exit, Ended> {
    let wanted = some(&options.chosen, suite)?;
    let mut out = OutStream::default();
    if options.list {
        wanted.iter().for_each(|w| out.say(&w.name));
        return out.end(Exit::Passed);
    }
    let (Ok(budget), true) = (Duration::try_from_secs_f64(options.budget), options.precision >= 0.0) else {
        return Err((Exit::Usage, "--budget and --precision count from 0".into()));
    };
    // Read first: whoever misnames a file need not wait, and loses no times.
    let base = options.against.as_deref().map(compare::moments_of).transpose()?;
    let of_criterion = options.criterion.as_deref().map(criterion::read).transpose().map_err(|e| ended(Exit::Unreadable)(&e))?;
    options.record.as_deref().map_or(Ok(()), out::appendable)?;
    let place = options.at.open()?;
    let stop = StopRule { budget, precision: options.precision };
    let mut record = Record::begun(SystemTime::now(), place.settings(options.machine.as_deref(), options.budget, options.precision, options.small));
    let refused = base.as_deref().and_then(<[Record]>::last).and_then(|base| compare::comparable(base, &record).err());
    match (refused.as_ref(), &options.record) {
        (Some(refused), None) => return Err(refused.clone()),
        // Who asked for a record gets it, whatever it is then compared with.
        (Some((_, why)), Some(file)) => note(format_args!("{why}; measured and kept in {} all the same", file.display())),
        _ => {}
    }
    if options.record.is_some() {
        record.ceilings = Some(Ceilings::measure(place.threads));
    }
    let line = |case: &Case| {
        let line = Line::of(case, place.threads, &record.settings.device, options.small);
        if options.json { serde_json::json!(line).to_string() } else { line.to_string() }
    };
    let mut cases = Vec::new();
    let mut by_processes = if options.record.is_some() || base.is_some() { in_processes(options, suite, &wanted, stop)? } else { Vec::new() };
    by_processes.reverse();
    for workload in &wanted {
        let mut case = by_processes.pop().unwrap_or_else(|| measure(suite.implementation, workload, stop, options.small));
        if workload.memory && case.error.is_none() && (options.memory || options.record.is_some()) {
            let own = Subject::own(options.at.threads.into(), &options.at.device).map_err(|e| ended(Exit::Failed)(&e))?;
            let fresh = Fresh::of(&own, &workload.name, options.small);
            (case.peak_growth_bytes, case.plan_hits) = (fresh.growth, fresh.plan_hits);
        }
        out.say(line(&case));
        if let (false, Some(bytes)) = (options.json, case.peak_growth_bytes) {
            out.say(format_args!("{:<34} {:>12.1} MB more at its peak than before its first call", "", bytes as f64 * 1e-6));
        }
        if let (false, Some(hits)) = (options.json, case.plan_hits) {
            out.say(format_args!("{:<34} {:>12.1} % of its plans found again from its third call on", "", hits * 100.0));
        }
        cases.push(case);
    }
    for case in of_criterion.into_iter().flatten() {
        out.say(line(&case));
        cases.push(case);
    }
    let failed = cases.iter().any(|c| c.error.is_some() && !c.unsupported);
    (record.cases, record.load_after) = (cases, Load::now());
    if let Some(file) = &options.record {
        record.append(file).map_err(|e| ended(Exit::Unwritable)(&e))?;
    }
    if let Some(refused) = refused {
        return Err(refused);
    }
    let exit = match (&base, failed) {
        (Some(base), false) => against(options, base, &record, &mut out)?,
        (_, failed) => {
            if failed {
                Exit::Failed
            } else {
                Exit::Passed
            }
        }
    };
    out.end(exit)
}
/// Cases of this program's workloads in new processes, round by round: samples of each are spread over the whole run and over
/// all of them, so that a record has the spread between processes and between the moments of its run.
fn in_processes(options: &Options, suite: &Suite, wanted: &[Workload], stop: StopRule) -> Result<Vec<Case>, Ended> {
    let own = Subject::own(options.at.threads.into(), &options.at.device).map_err(|e| ended(Exit::Failed)(&e))?;
    let plan = Plan {
        budget: stop.budget,
        precision: stop.precision,
        rounds: options.rounds.into(),
        shortest: SHORTEST_SAMPLE,
        most: MOST_SAMPLES,
        small: options.small,
        check_again: true,
        ..Plan::default()
    };
    let names: Vec<String> = wanted.iter().map(|w| w.name.clone()).collect();
    let taken = take_all(&mut Sides::new(vec![own]), &names, &plan, |_, _| (), |_, _| false);
    Ok(wanted.iter().zip(taken).map(|(workload, taken)| of_processes(suite.implementation, workload, &taken)).collect())
}
fn of_processes(implementation: &str, workload: &Workload, taken: &Taken) -> Case {
    let case = Case::new(&workload.name, implementation).about(about(workload));
    let Some(side) = taken.sides.first() else { return case };
    if let Some(error) = &side.error {
        return Case { error: Some(error.clone()), unsupported: side.unsupported, ..case };
    }
    let (ns, waited) = taken.turns.iter().map(|t| (t.ns[0], t.waited[0])).unzip();
    let rounds = taken.turns.iter().map(|t| t.round as u32).collect();
    Case { worst_error: side.worst, rounds, ..case }.sampled(ns, waited, side.calls.max(1))
}
/// This run against the moments of a record, of the cases that both have.
fn against(options: &Options, base: &[Record], record: &Record, out: &mut OutStream) -> Result<Exit, Ended> {
    let file = options.against.as_deref().map_or_else(String::new, |f| f.display().to_string());
    let both: Vec<String> = record.cases.iter().map(|c| globset::escape(&c.workload)).collect();
    let command = format!("cargo xtask bench run --against {file} --only {}", options.chosen.only.join(","));
    let this = std::slice::from_ref(record);
    let mut comparison = compare::of_records((&file, base), ("this run", this), &both, THRESHOLD, false, command)?;
    compare::gate_intervals(&mut comparison, options.allow / 100.0);
    let text = rendered(&comparison, Format::Terminal);
    // Lines for machines stand alone on stdout.
    if options.json {
        note(text)
    } else {
        out.say(text)
    }
    Ok(compare::passed(&comparison, options.allow))
}
/// Builds, checks and times one workload on the current device.
pub fn measure(implementation: &str, workload: &Workload, stop: StopRule, small: bool) -> Case {
    let case = Case::new(&workload.name, implementation).about(about(workload));
    let scale = if small { Scale::SMALL } else { Scale::FULL };
    let measured = Active::start(workload, scale).and_then(|mut active| {
        let (samples, calls) = active.measure(stop)?;
        Ok((samples, calls, active.worst))
    });
    match measured {
        Ok((samples, calls, worst_error)) => {
            let (ns, waited) = samples.iter().map(|s| (s.ns, s.waited)).unzip();
            Case { worst_error, ..case }.sampled(ns, waited, calls)
        }
        Err(problem) => Case { unsupported: problem.is_unsupported(), error: Some(problem.to_string()), ..case },
    }
}
/// Prints what a record would say of this machine.
pub(super) fn env(options: &EnvOptions) -> Result<Exit, Ended> {
    let (place, mut out) = (options.at.open()?, OutStream::default());
    let (load, git, ceilings) = (Load::now(), Git::here(), Ceilings::measure(place.threads));
    if options.json {
        let settings = place.settings(None, 0.0, 0.0, false);
        let document = serde_json::json!({ "machine": Machine::here(), "toolchain": Toolchain::here(), "git": git, "load": load,
            "settings": settings, "ceilings": ceilings });
        out.say(document);
        return out.end(Exit::Passed);
    }
    for (name, value) in place.facts() {
        out.say(format_args!("{name:<24} {value}"));
    }
    if let Some(git) = git {
        out.say(format_args!("{:<24} {}{}", "git", git.commit, if git.dirty { ", with changes" } else { "" }));
    }
    out.say(format_args!("{:<24} {}{}", "load", load.one_minute, load.celsius.map(|t| format!(", {t:.0} °C")).unwrap_or_default()));
    for (name, gflops) in &ceilings.gflops {
        out.say(format_args!("{:<24} {gflops:.1} GFLOP/s", format!("peak {name}")));
    }
    out.say(format_args!("{:<24} {:.1} GB/s, triad {:.1} GB/s", "copy", ceilings.copy_gbps, ceilings.triad_gbps));
    out.say(format_args!("{:<24} {:.0} ns", "hand-over of threads", ceilings.handover_ns));
    out.end(Exit::Passed)
}
/// Is it a file of records?
pub(super) fn is_record(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "jsonl" || e == "json")
}
