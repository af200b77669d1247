//! Measures calls: values first, then time in turn between two or three living programs, and what was found in total.
use super::{
    CASES, CallCase,
    agreed::{NotTimed, agreed},
    drawn, ordinary, report,
};
use crate::{bench::peers::Options as Peers, exit::Exit};
use adamant_bench::{
    child::{Child, Subject},
    interleave::{Plan, SideState, Sides, Taken, Turn, take},
    protocol::Ask,
    stats::{bootstrap_ratio, median},
};
use chores::workspace;
use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

/// What the command line says of calls.
#[derive(clap::Args)]
#[group(id = "call_options")]
pub struct Options {
    /// So many calls drawn from the registry of public functions, instead of the workloads
    #[arg(long, value_name = "N")]
    random: Option<usize>,
    /// So many calls of each function
    #[arg(long, value_name = "K", conflicts_with = "random")]
    each: Option<usize>,
    /// The seed of what is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A list of calls instead: `ordinary`, or a file with a call in each line, as `--out` writes them
    #[arg(long, value_name = "ordinary|FILE")]
    calls: Option<String>,
    /// Only this drawn call, as it was printed: SEED:INDEX or SEED:INDEX.SIZE
    #[arg(long, value_name = "SEED:INDEX")]
    case: Option<String>,
    /// The instruction set of all: avx2
    #[arg(long, value_parser = ["avx2"])]
    isa: Option<String>,
    /// torch.compile, too
    #[arg(long)]
    compile: bool,
    /// Write a JSON line for each call
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print a table for docs/performance.md
    #[arg(long)]
    page: bool,
    /// What was drawn, and what is not drawn and why; nothing is measured
    #[arg(long)]
    names: bool,
}
impl Options {
    /// Is it about calls at all?
    pub fn any(&self) -> bool {
        self.random.is_some() || self.each.is_some() || self.calls.is_some() || self.case.is_some() || self.names
    }
}
type Ended = (Exit, String);

/// Nanoseconds that a call may take in the faster program.
const LONGEST: f64 = 50e6;
/// Nanoseconds of a call here at which no larger size is tried.
const FAR_LONGER: f64 = 400e6;
/// The seed of resamples.
const RESAMPLES: u64 = 7;

/// A program that waited for a core for a larger share of a sample was disturbed.
const DISTURBED: f64 = 0.05;
/// So often what has too few times is drawn again.
const AGAIN: usize = 3;
/// So many undisturbed turns are enough.
const ENOUGH: usize = 5;

/// What was found of one call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MeasuredCall {
    /// what says it again
    pub(super) name: String,
    /// our names of its functions
    pub(super) function: String,
    /// PyTorch's words, with the inputs
    pub(super) text: String,
    /// elements of the largest input
    pub(super) elements: usize,
    /// its dtype
    pub(super) dtype: String,
    /// steps
    pub(super) steps: usize,
    /// a gradient is part of it
    pub(super) grad: bool,
    /// threads, and the instruction set of all if one was asked for
    pub(super) threads: usize,
    pub(super) isa: Option<String>,
    /// nanoseconds here and in the others
    pub(super) ours_ns: Option<f64>,
    pub(super) torch_ns: Option<f64>,
    pub(super) compile_ns: Option<f64>,
    /// time here over that of the faster of the others, and its 95 % interval
    pub(super) ratio: Option<f64>,
    pub(super) interval: Option<[f64; 2]>,
    /// other programs took cores in most samples: of each side its quickest quarter counts
    pub(super) disturbed: bool,
    /// the worst distance of a value, as a share of what is allowed
    pub(super) worst: Option<f64>,
    /// why there is no time
    pub(super) error: Option<String>,
    /// the error is that values differ
    pub(super) differs: bool,
    /// the call itself
    pub(super) case: CallCase,
}

/// Measures what the command line asks for.
pub fn run(options: &Options, peers: &Peers) -> Exit {
    measure(options, peers).unwrap_or_else(|(exit, text)| {
        eprintln!("{text}");
        exit
    })
}
/// The sizes of each call, from the smallest.
type CallSizes = Vec<CallCase>;
fn measure(options: &Options, peers: &Peers) -> Result<Exit, Ended> {
    let only = globs(&peers.only)?;
    if options.names {
        drawn::say_names();
        return Ok(Exit::Passed);
    }
    let chosen = chosen(options, &only)?;
    if chosen.is_empty() {
        return Err((Exit::Usage, "no call matches".into()));
    }
    let mut out = options.out.as_deref().map(std::fs::File::create).transpose().map_err(unwritable)?;
    let mut all = batch(options, peers, &chosen, &mut out)?;
    // What PyTorch refused, or has not, is drawn again, so that no function is without a time for bad luck.
    let first = drawn::turns(options.each.unwrap_or(0));
    for turn in (first..first + AGAIN).filter(|_| options.each.is_some()) {
        let lacking = lacking(&all, options.each.unwrap_or(1));
        let more = drawn::cases(options.seed, turn..turn + 1, usize::MAX, |function| lacking.contains(function));
        if !more.is_empty() {
            all.extend(batch(options, peers, &more, &mut out)?);
        }
    }
    report::print(&all, options.page);
    Ok(if all.iter().any(|m| m.differs) { Exit::Failed } else { Exit::Passed })
}
/// Functions with fewer times than wanted.
fn lacking(all: &[MeasuredCall], wanted: usize) -> BTreeSet<String> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for m in all.iter().filter(|m| m.steps == 1) {
        *times.entry(&m.function).or_default() += m.ratio.is_some() as usize;
    }
    times.into_iter().filter(|(_, n)| *n < wanted).map(|(name, _)| name.to_string()).collect()
}
/// Measures some calls, in programs that are started for them.
fn batch(options: &Options, peers: &Peers, chosen: &[CallSizes], out: &mut Option<std::fs::File>) -> Result<Vec<MeasuredCall>, Ended> {
    let file = tempfile::NamedTempFile::new().map_err(unwritable)?;
    let mut writer = std::io::BufWriter::new(&file);
    for case in chosen.iter().flatten() {
        let line = serde_json::to_string(case).map_err(|e| (Exit::Failed, e.to_string()))?;
        writeln!(writer, "{line}").map_err(unwritable)?;
    }
    writer.flush().map_err(unwritable)?;
    drop(writer);
    let mut sides = Sides::new(subjects(options, peers, file.path())?);
    for k in 0..sides.subjects().len() {
        let name = sides.subjects()[k].name.clone();
        let child = sides.child(k).map_err(|e| (Exit::Failed, e.to_string()))?;
        eprintln!("{name}: {} {}", child.hello.version, facts(child));
    }
    let mut all = Vec::new();
    for sized in chosen {
        let measured = one(&mut sides, sized, options, peers);
        println!("{}", report::line(&measured));
        if let Some(out) = out {
            let line = serde_json::to_string(&measured).map_err(|e| (Exit::Failed, e.to_string()))?;
            writeln!(out, "{line}").map_err(unwritable)?;
        }
        all.push(measured);
    }
    Ok(all)
}
fn unwritable(e: std::io::Error) -> Ended {
    (Exit::Unwritable, e.to_string())
}
fn facts(child: &Child) -> String {
    let wanted = ["device_name", "device.isa", "device.instruction set", "threads"];
    wanted.iter().filter_map(|name| child.hello.facts.get(*name).map(|v| format!("{name} {v}"))).collect::<Vec<_>>().join(", ")
}
fn globs(only: &[String]) -> Result<GlobSet, Ended> {
    let mut set = GlobSetBuilder::new();
    for glob in only {
        set.add(Glob::new(glob).map_err(|e| (Exit::Usage, e.to_string()))?);
    }
    set.build().map_err(|e| (Exit::Usage, e.to_string()))
}
fn chosen(options: &Options, only: &GlobSet) -> Result<Vec<CallSizes>, Ended> {
    if let Some(name) = &options.case {
        return drawn::again(name).map(|sized| vec![sized]).map_err(|e| (Exit::Usage, e));
    }
    match options.calls.as_deref() {
        Some("ordinary") => Ok(ordinary::cases().into_iter().filter(|c| only.is_match(&c.name)).map(|c| vec![c]).collect()),
        Some(file) => of_file(Path::new(file)).map(|all| all.into_iter().filter(|c| only.is_match(c.functions())).map(|c| vec![c]).collect()),
        None => {
            let keep = |function: &str| only.is_match(function) || only.is_match(function.rsplit("::").next().unwrap_or(function));
            let turns = options.each.map_or(usize::MAX, drawn::turns);
            Ok(drawn::cases(options.seed, 0..turns, options.random.unwrap_or(usize::MAX), keep))
        }
    }
}
/// Calls of lines that were written before.
fn of_file(file: &Path) -> Result<Vec<CallCase>, Ended> {
    let text = std::fs::read_to_string(file).map_err(|e| (Exit::Unreadable, format!("{}: {e}", file.display())))?;
    let case = |line: &str| {
        let measured: Result<MeasuredCall, _> = serde_json::from_str(line);
        measured.map(|m| m.case).or_else(|_| serde_json::from_str(line)).map_err(|e| (Exit::Unreadable, format!("{}: {e}", file.display())))
    };
    text.lines().filter(|l| !l.is_empty()).map(case).collect()
}
/// This project first, then PyTorch.
fn subjects(options: &Options, peers: &Peers, file: &Path) -> Result<Vec<Subject>, Ended> {
    let threads = peers.threads.into();
    let own = Subject::own(threads, "cpu").map_err(|e| (Exit::Failed, e.to_string()))?;
    let mut variables = vec![(CASES.to_string(), file.display().to_string())];
    let script = workspace::root().join("xtask/peers/peer_calls.py");
    let python = peers.python.clone().unwrap_or_else(|| "python3".into());
    let mut theirs = vec![];
    if options.isa.is_some() {
        variables.push(("ADAMANT_ISA".into(), "avx2".into()));
        for (name, value) in [("ATEN_CPU_CAPABILITY", "avx2"), ("ONEDNN_MAX_CPU_ISA", "AVX2"), ("MKL_ENABLE_INSTRUCTIONS", "AVX2")] {
            theirs.push((name.to_string(), value.to_string()));
        }
    }
    let torch = |name: &str, more: Option<&str>| {
        let arguments = [OsString::from(&script), file.into()].into_iter().chain(more.map(OsString::from)).collect();
        Subject { name: name.into(), arguments, variables: theirs.clone(), starts_quickly: false, ..Subject::program(python.clone(), threads, "cpu") }
    };
    let mut all = vec![Subject { name: "adamant".into(), variables, starts_quickly: false, ..own }, torch("torch", None)];
    all.extend(options.compile.then(|| torch("torch-compile", Some("--compile"))));
    Ok(all)
}
/// One call at the largest size that is short enough: a drawn one, of which there are several.
fn one(sides: &mut Sides, sized: &[CallCase], options: &Options, peers: &Peers) -> MeasuredCall {
    let case = largest(sides, sized);
    let budget = Duration::from_secs_f64(peers.budget.clamp(0.05, 600.0));
    let settle = Duration::from_millis(peers.settle);
    let plan = Plan { budget, rounds: peers.rounds.max(1), settle, fewest: 6, most: 60, long_once: true, precision: 0.02, ..Plan::default() };
    let (mut worst, mut differs) = (None, false);
    let taken = take(sides, &case.name, &plan, |sides, states| compare(sides, states, case, (&mut worst, &mut differs)));
    found(&taken, case, options, peers, worst, differs)
}
/// Withdraws a program whose values are not ours, and ours where PyTorch's are others: what is wrong has no time.
fn compare(sides: &mut Sides, states: &mut [SideState], case: &CallCase, (worst, differs): (&mut Option<f64>, &mut bool)) {
    for k in 1..states.len() {
        if states[0].error.is_some() || states[k].error.is_some() {
            continue;
        }
        match agreed(sides, case, k) {
            Ok(share) => *worst = worst.iter().copied().chain([share]).reduce(f64::max),
            Err(why) => {
                let (why, is_other) = match why {
                    NotTimed::Differs(why) => (why, true),
                    NotTimed::Refused(why) => (why, false),
                };
                *differs |= is_other;
                states[k].error = Some(why.clone());
                // Eager PyTorch is what is compared with; a compiled form that differs is its own failure.
                if k == 1 {
                    states.iter_mut().for_each(|s| s.error = Some(why.clone()));
                }
            }
        }
    }
    // Without the other there is nothing to compare, and so nothing to time.
    let why = states.get(1).and_then(|s| s.error.clone()).or_else(|| states[0].error.clone());
    if let Some(why) = why {
        states.iter_mut().for_each(|s| s.error = Some(s.error.clone().unwrap_or_else(|| why.clone())));
    }
}
fn largest<'a>(sides: &mut Sides, sized: &'a [CallCase]) -> &'a CallCase {
    let mut chosen = &sized[0];
    for case in sized.iter().take(if sized.len() > 1 { sized.len() } else { 0 }) {
        let (torch, ours) = (once(sides, 1, case), once(sides, 0, case));
        let (Some(torch), Some(ours)) = (torch, ours) else { break };
        if torch.min(ours) > LONGEST || ours > FAR_LONGER {
            break;
        }
        chosen = case;
    }
    for k in 0..2 {
        sides.ask(k, &Ask::Finish);
    }
    chosen
}
/// Nanoseconds of a call, without a clock's care.
fn once(sides: &mut Sides, k: usize, case: &CallCase) -> Option<f64> {
    let prepare = Ask::Prepare { workload: case.name.clone(), small: false, check: false, repeat: 1 };
    sides.ask(k, &prepare).error.is_none().then_some(())?;
    sides.ask(k, &Ask::Sample { calls: 1 }).error.is_none().then_some(())?;
    sides.ask(k, &Ask::Sample { calls: 1 }).ns
}
fn found(taken: &Taken, case: &CallCase, options: &Options, peers: &Peers, worst: Option<f64>, differs: bool) -> MeasuredCall {
    let is_there = |k: usize| taken.sides.get(k).is_some_and(|s| s.error.is_none());
    let threads = usize::from(peers.threads);
    let alone = |k: usize| is_there(k).then(|| median(&times(taken, [k, k], threads).0)).filter(|ns| ns.is_finite());
    let (torch, compiled) = (alone(1), alone(2));
    let best = match (torch, compiled) {
        (Some(a), Some(b)) if b < a => Some(2),
        (Some(_), _) => Some(1),
        _ => None,
    };
    let pairs = best.filter(|_| is_there(0)).map(|k| times(taken, [k, 0], threads)).filter(|p| !p.0.is_empty());
    let interval = pairs.as_ref().map(|(a, b, is_quiet)| bootstrap_ratio(a, b, *is_quiet, RESAMPLES));
    let ours = alone(0);
    let error = taken.sides.iter().take(2).find_map(|s| s.error.clone());
    MeasuredCall {
        name: case.name.clone(),
        function: case.functions(),
        text: case.text(),
        elements: case.elements(),
        dtype: case.inputs.first().map(|i| i.dtype.clone()).unwrap_or_default(),
        steps: case.steps.len(),
        grad: case.grad,
        threads: peers.threads.into(),
        isa: options.isa.clone(),
        ours_ns: ours,
        torch_ns: torch,
        compile_ns: compiled,
        ratio: pairs.as_ref().map(|(a, b, _)| median(b) / median(a)),
        interval: interval.map(|(low, high)| [low, high]),
        disturbed: pairs.is_some_and(|p| !p.2),
        worst,
        error,
        differs,
        case: case.clone(),
    }
}
/// Nanoseconds of two programs by turns, and whether these were quiet. With one thread what counts is the time on a core; with
/// several, turns in which none waited for a core, or where these are few the quickest quarter of each side, which met others
/// least.
fn times(taken: &Taken, [a, b]: [usize; 2], threads: usize) -> (Vec<f64>, Vec<f64>, bool) {
    let whole: Vec<_> = taken.turns.iter().filter(|t| t.ns.get(a).is_some_and(|x| *x > 0.0) && t.ns.get(b).is_some_and(|x| *x > 0.0)).collect();
    let waited = |t: &Turn| t.waited[a].max(t.waited[b]);
    if threads == 1 {
        let on_core = |k: usize| whole.iter().map(|t| t.ns[k] * (1.0 - t.waited[k].min(0.9))).collect();
        return (on_core(a), on_core(b), true);
    }
    let quiet: Vec<_> = whole.iter().filter(|t| waited(t) < DISTURBED).collect();
    if quiet.len() >= ENOUGH {
        return (quiet.iter().map(|t| t.ns[a]).collect(), quiet.iter().map(|t| t.ns[b]).collect(), true);
    }
    let quickest = |k: usize| {
        let mut all: Vec<f64> = whole.iter().map(|t| t.ns[k]).collect();
        all.sort_by(f64::total_cmp);
        all.truncate(all.len().div_ceil(4));
        all
    };
    (quickest(a), quickest(b), false)
}
