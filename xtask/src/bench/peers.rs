//! `cargo xtask bench peers`: this project, PyTorch, ONNX Runtime, JAX, Candle and Burn in one run, sample by sample in
//! turn, so that a busy machine slows all of them.
//!
//! Runners stand in `xtask/peers` and speak the protocol of `bench serve`. Where both sides show an output, some of its
//! elements are compared before anything is timed: all make their inputs from the same numbers. A peer that is not there
//! is named and skipped. Another program that prints lines ([`lines`]) is run case by case in turn.
pub mod calls;
mod found;
mod lines;

use super::{small::COMPILED, standing::standings};
use crate::exit::Exit;
use adamant_bench::{
    Group, Suite,
    agreement::agree,
    ceilings::Ceilings,
    child::{Child, Fresh, Subject},
    interleave::{Plan, SideState, Sides, Taken, take},
    lines::Line,
    machine::Load,
    place::BenchPlace,
    record::{Case, Record},
    render::{ratio, time},
    verdict::{Compared, Pairs, judge},
};
use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// A folder with runners (`peer-candle`, `peer_torch.py`), or with a Python that has the packages (`bin/python`), or a
    /// program that prints lines
    #[arg(long, default_value = "xtask/peers")]
    dir: PathBuf,
    /// The Python that has torch, onnxruntime or jax; else the folder's, else python3
    #[arg(long)]
    python: Option<PathBuf>,
    /// Only these peers, separated by commas: torch,torch-compile,torch-graphs,torch-cudnn,onnxruntime,jax,candle,burn
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// The device of all: cpu or cuda:N, which PyTorch alone has too
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Which group of workloads
    #[arg(long, value_enum, default_value_t = Group::Main)]
    group: Group,
    /// Only the workloads whose name matches one of these globs, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "*")]
    only: Vec<String>,
    /// Threads of all
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Seconds of samples for each workload, of all together
    #[arg(long, default_value_t = 3.0)]
    budget: f64,
    /// How often each workload is prepared anew
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Milliseconds between waking a program and its sample; the others are stopped meanwhile
    #[arg(long, default_value_t = 5)]
    settle: u64,
    /// The growth of memory too, of the workloads that train
    #[arg(long)]
    memory: bool,
    /// JSON lines instead of a table
    #[arg(long)]
    json: bool,
    /// Append the record of this run to a file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    calls: calls::Options,
}
type Ended = (Exit, String);

/// One workload in all programs.
struct MeasuredWorkload {
    taken: Taken,
    /// this project against each peer: time of ours over the peer's
    against: Vec<Option<Compared>>,
    /// growth of memory and plans found again, by program
    fresh: Vec<Fresh>,
}

/// Measures all and prints the ratios.
pub fn run(options: &Options, suite: &Suite) -> Exit {
    if options.calls.any() {
        return calls::run(&options.calls, options);
    }
    measure(options, suite).unwrap_or_else(|(exit, text)| {
        eprintln!("{text}");
        exit
    })
}
fn measure(options: &Options, suite: &Suite) -> Result<Exit, Ended> {
    let mut chosen = suite.chosen(options.group, &options.only).map_err(|e| (Exit::Usage, e.to_string()))?;
    // The compiled forms stand beside their workloads, as a program of their own.
    chosen.retain(|w| !w.name.ends_with(COMPILED));
    let budget = Duration::try_from_secs_f64(options.budget).map_err(|_| (Exit::Usage, "--budget counts from 0".to_string()))?;
    if chosen.is_empty() {
        return Err((Exit::Usage, "no workload matches; `cargo xtask bench list` names them".into()));
    }
    // A run of all peers takes hours: where its record goes is looked at first.
    options.record.as_deref().map_or(Ok(()), adamant_bench::cli::out::appendable)?;
    let own = Subject::own(options.threads.into(), &options.device).map_err(|e| (Exit::Failed, e.to_string()))?;
    if let Some(program) = found::prints_lines(&options.dir) {
        return lines::run(&own, &program, &chosen, options);
    }
    let compiled = Subject { name: "adamant-compile".into(), suffix: COMPILED.into(), ..own.clone() };
    let mut subjects = vec![Subject { name: "adamant".into(), ..own }, compiled];
    subjects.extend(found::peers(options)?);
    let mut sides = started(subjects)?;
    let plan = Plan { budget, rounds: options.rounds.max(1), settle: Duration::from_millis(options.settle), fewest: 5, long_once: true, ..Plan::default() };
    let (began, before) = (SystemTime::now(), Load::now());
    let mut all = Vec::new();
    for workload in &chosen {
        let taken = take(&mut sides, &workload.name, &plan, same);
        let fresh = |(subject, state): (&Subject, &SideState)| {
            let wanted = workload.memory && options.memory && state.error.is_none();
            if wanted { Fresh::of(subject, &workload.name, false) } else { Fresh::default() }
        };
        let fresh = sides.subjects().iter().zip(&taken.sides).map(fresh).collect();
        let against = against(&taken);
        let measured = MeasuredWorkload { taken, against, fresh };
        show(&measured, &sides, options);
        all.push(measured);
    }
    let cases: Vec<Case> = all.iter().flat_map(|m| cases(m, &sides)).collect();
    let failed = cases.iter().any(|c| c.implementation == "adamant" && c.error.is_some() && !c.unsupported);
    let record = record(options, began, before, cases)?;
    if !options.json {
        say_standings(&record);
    }
    if let Some(file) = &options.record {
        record.append(file).map_err(|e| (Exit::Unwritable, e.to_string()))?;
    }
    Ok(if failed { Exit::Failed } else { Exit::Passed })
}
/// All programs that can be started; the others are named.
fn started(subjects: Vec<Subject>) -> Result<Sides, Ended> {
    let mut present = Vec::new();
    for (k, subject) in subjects.into_iter().enumerate() {
        match Child::start(&subject) {
            Ok(child) => {
                eprintln!("{}: {} {}", subject.name, child.hello.implementation, child.hello.version);
                present.push(subject);
            }
            Err(e) if k < 2 => return Err((Exit::Failed, e.to_string())),
            Err(e) => eprintln!("skipped: {e}"),
        }
    }
    Ok(Sides::new(present))
}

/// How far outputs may be apart, as a share of the largest element, by dtype: what two orders of summation differ by.
const APART: &[(&str, f64)] = &[("f32", 1e-3), ("bf16", 2e-2), ("int8", 5e-2)];
/// Withdraws peers whose output is another one than this project's.
fn same(sides: &mut Sides, states: &mut [SideState]) {
    agree(sides, states, |about| APART.iter().find(|(dtype, _)| *dtype == about.dtype).map_or(1e-3, |x| x.1), false);
}
/// This project against each peer that has times. Of whole samples: a peer whose threads hand work to each other on one
/// core waits for them, and that is its own time.
fn against(taken: &Taken) -> Vec<Option<Compared>> {
    (0..taken.sides.len())
        .map(|k| {
            let both = k > 0 && taken.sides[0].error.is_none() && taken.sides[k].error.is_none();
            both.then(|| judge(&[(taken.workload.clone(), Ok(Pairs::of(taken, k, 0, false)))], 0.01).pop()).flatten()
        })
        .collect()
}
/// The peer that takes the least time, by the ratio to it.
fn best(m: &MeasuredWorkload) -> Option<(usize, &Compared)> {
    let compared = m.against.iter().enumerate().skip(2).filter_map(|(k, c)| Some((k, c.as_ref()?)));
    compared.max_by(|a, b| a.1.ratio.unwrap_or(0.0).total_cmp(&b.1.ratio.unwrap_or(0.0)))
}
fn show(m: &MeasuredWorkload, sides: &Sides, options: &Options) {
    let name = |k: usize| sides.subjects()[k].name.as_str();
    if options.json {
        for case in cases(m, sides).iter().filter(|c| !c.unsupported) {
            println!("{}", serde_json::json!(Line::of(case, options.threads.into(), &options.device, false)));
        }
        return;
    }
    let of = |c: &Compared| format!("{} {}", ratio(c.ratio.unwrap_or(f64::NAN), c.interval), c.verdict.map_or("", |v| v.word()));
    let ours = cases(m, sides).swap_remove(0);
    println!("{:<34} {}", m.taken.workload, ours.median_ns().map_or_else(|| ours.error.unwrap_or_default(), time));
    for k in 1..m.taken.sides.len() {
        let state = &m.taken.sides[k];
        match (&m.against[k], &state.error) {
            (Some(c), _) => {
                let checked = if state.worst.is_some() { "" } else { "  (output not compared)" };
                println!("    {:<16} {:>12}   ours / its: {}{checked}", name(k), time(c.a_ns.unwrap_or(f64::NAN)), of(c));
            }
            (None, Some(error)) if !state.unsupported => println!("    {:<16} {error}", name(k)),
            _ => {}
        }
    }
    for (k, fresh) in m.fresh.iter().enumerate() {
        if let Some(bytes) = fresh.growth {
            println!("    {:<16} {:>9.1} MB more at its peak than before its first step", name(k), bytes as f64 * 1e-6);
        }
        if let Some(hits) = fresh.plan_hits {
            println!("    {:<16} {:>9.1} % of its plans found again from its third step on", name(k), hits * 100.0);
        }
    }
    if let Some((k, c)) = best(m) {
        println!("    best: {:<10} ours / best: {}", name(k), of(c));
    }
}
/// One row for each workload: this project against the best peer, and what is asked of it.
fn say_standings(record: &Record) {
    let all = standings(record);
    let mut grid = comfy_table::Table::new();
    grid.load_style(comfy_table::presets::NOTHING).set_header(["workload", "this project", "against", "ratio [95 %]", "target", "met"]);
    for s in &all {
        let of = ratio(s.compared.ratio.unwrap_or(f64::NAN), s.compared.interval);
        let met = s.met().map_or("", |met| if met { "yes" } else { "NO" });
        grid.add_row([&s.workload, &s.ours, &s.peer, &of, &s.asked(), met]);
    }
    println!("{grid}");
    let missed: Vec<String> = all.iter().filter(|s| s.met() == Some(false)).map(|s| format!("{} ({})", s.workload, s.ours)).collect();
    println!("above their targets: {}", if missed.is_empty() { "none".into() } else { missed.join(", ") });
}
/// One case for each program.
fn cases(m: &MeasuredWorkload, sides: &Sides) -> Vec<Case> {
    let about = &m.taken.sides[0].about;
    let case = |k: usize| {
        let state = &m.taken.sides[k];
        let Fresh { growth, plan_hits } = m.fresh[k];
        let case = Case { peak_growth_bytes: growth, plan_hits, worst_error: state.worst, ..Case::new(&m.taken.workload, &sides.subjects()[k].name) };
        let case = match about.clone() {
            Some(about) => case.about(about),
            None => case,
        };
        if state.error.is_some() {
            return Case { error: state.error.clone(), unsupported: state.unsupported, ..case };
        }
        let turns: Vec<_> = m.taken.turns.iter().filter(|t| t.ns[k] > 0.0).collect();
        let (ns, waited) = turns.iter().map(|t| (t.ns[k], t.waited[k])).unzip();
        Case { rounds: turns.iter().map(|t| t.round as u32).collect(), ..case.sampled(ns, waited, state.calls) }
    };
    (0..m.taken.sides.len()).map(case).collect()
}
fn record(options: &Options, began: SystemTime, before: Load, cases: Vec<Case>) -> Result<Record, Ended> {
    let place = BenchPlace::open(&options.device, options.threads.into()).map_err(|e| (Exit::Failed, e.to_string()))?;
    let settings = place.settings(None, options.budget, 0.005, false);
    let load_after = Load::now();
    let ceilings = Some(Ceilings::measure(options.threads.into()));
    Ok(Record { load_before: before, load_after, ceilings, cases, ..Record::begun(began, settings) })
}
