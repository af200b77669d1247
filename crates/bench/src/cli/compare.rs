//! `compare`, `gate` and `calibrate`: two sides, sample by sample in turn.
use super::{
    Chosen, Ended, Exit, WhereToRun, ended, not_started,
    out::{self, OutStream, note},
    percent, some,
    subjects::{ComparedOperand, operand},
};
use crate::{
    agreement::{agree, apart_in},
    child::Subject,
    comparison::{ComparedSide, Comparison, Evidence},
    gate::{Decision, Gated, Looks},
    interleave::{Plan, ROUNDS, SideState, Sides, Taken, take_all},
    lines::{Extra, Line},
    record::{Case, Record},
    render::{Format, comparison as rendered},
    suite::Suite,
    verdict::{
        Compared, ENOUGH_PROCESSES, Pairs, judge,
        records::{ENOUGH_MOMENTS, Moments, judge_records},
    },
    workload::WorkloadForm,
};
use clap::Args;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// How two sides are compared.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What is compared with: self, a program, a git revision, baseline:NAME, records.jsonl, or settings as isa=avx2,precision=bf16
    a: String,
    /// What is judged
    b: String,
    #[command(flatten)]
    how: CompareHow,
}
/// What both verbs know.
#[derive(Args, Clone, Debug)]
struct CompareHow {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    at: WhereToRun,
    #[command(flatten)]
    sampling: Sampling,
    /// The smallest change worth telling, in percent
    #[arg(long, default_value_t = 1.0, value_parser = percent)]
    threshold: f64,
    /// Compare different environments; what differs is printed anyway
    #[arg(long)]
    across: bool,
    /// JSON lines of both sides instead of text
    #[arg(long)]
    json: bool,
    /// terminal, markdown (one comment of a pull request), csv, json or html
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    /// Write to a file instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}
/// How samples are taken in turn.
#[derive(Args, Clone, Debug)]
pub struct Sampling {
    /// Seconds of samples for each workload, of both sides together
    #[arg(long, default_value_t = 2.0)]
    pub budget: f64,
    /// Stop early when the ratio is known to within this share
    #[arg(long, default_value_t = 0.005)]
    pub precision: f64,
    /// How often each workload is prepared anew, in new processes: they are what counts
    #[arg(long, default_value_t = ROUNDS)]
    pub rounds: usize,
    /// Small shapes: shows that it works, not how fast anything is
    #[arg(long)]
    pub small: bool,
    /// Of the order of samples
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}
impl Sampling {
    /// As a plan.
    ///
    /// # Errors
    /// A number makes no sense.
    pub fn plan(&self) -> Result<Plan, Ended> {
        let (Ok(budget), true) = (Duration::try_from_secs_f64(self.budget), self.precision >= 0.0 && self.rounds > 0) else {
            return Err((Exit::Usage, "--budget and --precision count from 0, --rounds from 1".into()));
        };
        Ok(Plan { budget, precision: self.precision, rounds: self.rounds, small: self.small, seed: self.seed, ..Plan::default() })
    }
}
/// What `gate` knows beside.
#[derive(Args, Clone, Debug)]
pub struct GateOptions {
    #[command(flatten)]
    compare: Options,
    /// A slowdown that is certainly larger ends with 8, one that may be with 10, in percent
    #[arg(long, default_value_t = 5.0, value_parser = percent)]
    allow: f64,
}
/// How the noise is measured.
#[derive(Args, Clone, Debug)]
pub struct CalibrateOptions {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    at: WhereToRun,
    #[command(flatten)]
    sampling: Sampling,
    /// Write what is seen into the cases of the last record of this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

pub(super) fn compare(options: &Options, suite: &Suite) -> Result<Exit, Ended> {
    let comparison = compared(options, suite, None)?;
    let out = show(&comparison, options)?;
    let none = comparison.cases.iter().all(|c| c.verdict.is_none());
    if none {
        note("nothing could be compared");
    }
    out.end(if none { Exit::Failed } else { Exit::Passed })
}
pub(super) fn gate(options: &GateOptions, suite: &Suite) -> Result<Exit, Ended> {
    let comparison = compared(&options.compare, suite, Some(options.allow / 100.0))?;
    let shown = show(&comparison, &options.compare);
    // A regression is told whatever becomes of the text.
    match (passed(&comparison, options.allow), shown) {
        (Exit::Passed, shown) => shown?.end(Exit::Passed),
        (exit, Ok(out)) => out.end(exit),
        (exit, Err((_, text))) => {
            note(text);
            Ok(exit)
        }
    }
}
/// How a gate ends that allows so many percent. What gave no verdict has not passed.
pub(super) fn passed(comparison: &Comparison, allow: f64) -> Exit {
    let said = |case: &Compared| {
        let range = |g: Gated| match (g.at_least, g.at_most) {
            (Some(low), Some(high)) => format!("between {low:.3} and {high:.3}"),
            (None, Some(high)) => format!("at most {high:.3}"),
            _ => "nobody knows how many".into(),
        };
        let seen = case.smallest_visible.map_or_else(|| "none would have been seen".into(), |v| format!("{:.1} % would have been seen", v * 100.0));
        let times = case.gate.map(range).unwrap_or_default();
        note(format_args!("{}: {:.3} times as long, {times}; of slowdowns {seen}", case.workload, case.ratio.unwrap_or(f64::NAN)));
    };
    let (slower, unsure) = (comparison.gated(Decision::Slower).count(), comparison.gated(Decision::Undecided).count());
    if slower > 0 {
        comparison.gated(Decision::Slower).for_each(said);
        note(format_args!("{slower} cases are slower by more than {allow} %"));
        return Exit::Regression;
    }
    let failed = comparison.failures().count();
    if comparison.cases.is_empty() {
        note("there is nothing to compare");
        return Exit::Failed;
    }
    if failed > 0 {
        note(format_args!("{failed} cases could not be compared"));
        return Exit::Failed;
    }
    if unsure > 0 {
        comparison.gated(Decision::Undecided).for_each(said);
        let advice = match comparison.evidence {
            Evidence::Turns => "a larger --budget, more --rounds or a quieter machine tells more",
            Evidence::TwoMoments => "records of more moments tell more, and programs that are compared in turn the most",
            Evidence::ManyMoments => "records of more moments tell more",
        };
        note(format_args!("{unsure} cases may be slower by more than {allow} %, or not: {advice}"));
        return Exit::Undecided;
    }
    Exit::Passed
}
/// The comparison; of a gate that allows so much, with how it ends for each case.
fn compared(options: &Options, suite: &Suite, allow: Option<f64>) -> Result<Comparison, Ended> {
    let how = &options.how;
    out::writable(how.out.as_deref())?;
    let read = |text: &str| operand(text, how.at.threads.into(), &how.at.device, suite);
    match (read(&options.a)?, read(&options.b)?) {
        (ComparedOperand::Program(a), ComparedOperand::Program(b)) => programs(options, *a, *b, suite, allow),
        (ComparedOperand::Record(a), ComparedOperand::Record(b)) => {
            let mut comparison = records(options, &a, &b)?;
            allow.into_iter().for_each(|allow| gate_intervals(&mut comparison, allow));
            Ok(comparison)
        }
        _ => Err((Exit::Usage, "a record is compared with a record: `bench run --record FILE` makes one of a program".into())),
    }
}
fn command(options: &Options) -> String {
    format!("cargo xtask bench compare {} {} --only {} --threads {}", options.a, options.b, options.how.chosen.only.join(","), options.how.at.threads)
}
/// Stops where environments differ that nobody said may differ.
fn admit(comparison: &Comparison, chosen: &[String], across: bool) -> Result<(), Ended> {
    for (name, a, b) in &comparison.differences {
        note(format_args!("{name}: {a} | {b}"));
    }
    let unasked = comparison.unasked(chosen);
    if unasked.is_empty() || across {
        return Ok(());
    }
    let names: Vec<&str> = unasked.iter().map(|d| d.0.as_str()).collect();
    Err((Exit::Usage, format!("the environments differ ({}): say --across to compare them all the same", names.join(", "))))
}

/// How a gate ends that knows no more than the intervals.
pub(super) fn gate_intervals(comparison: &mut Comparison, allow: f64) {
    for case in &mut comparison.cases {
        if let (Some(ratio), Some(interval)) = (case.ratio, case.interval) {
            let gated = Gated::of_interval(allow, ratio, interval);
            (case.gate, case.smallest_visible) = (Some(gated), gated.smallest_seen);
        }
    }
}
fn programs(options: &Options, a: Subject, b: Subject, suite: &Suite, allow: Option<f64>) -> Result<Comparison, Ended> {
    let how = &options.how;
    let names: Vec<String> = some(&how.chosen, suite)?.into_iter().map(|w| w.name).collect();
    let chosen: Vec<String> = a.chosen.iter().chain(&b.chosen).cloned().collect();
    let plan = how.sampling.plan()?;
    let mut sides = Sides::new(vec![a, b]);
    let mut about = Vec::new();
    for k in 0..2 {
        let name = sides.subjects()[k].name.clone();
        let child = sides.child(k).map_err(|e| not_started(&e))?;
        about.push(ComparedSide { name, facts: child.hello.facts.clone() });
    }
    let [a, b] = about.try_into().map_err(|_| (Exit::Failed, "two sides".to_string()))?;
    let mut comparison = Comparison::between(a, b, Evidence::Turns, how.threshold / 100.0, command(options));
    admit(&comparison, &chosen, how.across)?;
    let Some(allow) = allow else {
        comparison.cases = judge(&measure(&mut sides, &names, &plan), comparison.threshold);
        return Ok(comparison);
    };
    let looks = Looks::new(names.len(), plan.rounds);
    // A budget is of all rounds; a gate that takes more of them than it was given has more of it.
    let budget = plan.budget.mul_f64(looks.rounds() as f64 / plan.rounds.max(1) as f64);
    let plan = Plan { rounds: looks.rounds(), budget, ..plan };
    let (decide, one_thread) = (|pairs: &Pairs| looks.decide(&pairs.of_processes(), allow), is_one_thread(&sides));
    let is_decided = |taken: &Taken, rounds: usize| looks.is_look(rounds) && decide(&Pairs::of(taken, 0, 1, one_thread)).decision != Decision::Undecided;
    let pairs = measure_until(&mut sides, &names, &plan, is_decided);
    comparison.cases = judge(&pairs, comparison.threshold);
    for case in &mut comparison.cases {
        let of_case = pairs.iter().find(|(name, _)| *name == case.workload).and_then(|(_, pairs)| pairs.as_ref().ok());
        if let (Some(pairs), Some(_)) = (of_case, case.verdict) {
            let gated = decide(pairs);
            (case.gate, case.smallest_visible) = (Some(gated), gated.smallest_seen);
        }
    }
    Ok(comparison)
}
fn is_one_thread(sides: &Sides) -> bool {
    sides.subjects().iter().all(|s| s.threads == 1)
}
/// Pairs of the first two programs, case by case, until their ratio is known as well as the plan asks.
pub(super) fn measure(sides: &mut Sides, names: &[String], plan: &Plan) -> Vec<(String, Result<Pairs, String>)> {
    let one_thread = is_one_thread(sides);
    measure_until(sides, names, plan, |taken, rounds| {
        rounds * 2 >= plan.rounds && rounds >= ENOUGH_PROCESSES && Pairs::of(taken, 0, 1, one_thread).is_narrow(plan.precision)
    })
}
/// Pairs of the first two programs, case by case; what neither has is left out.
fn measure_until(sides: &mut Sides, names: &[String], plan: &Plan, is_decided: impl Fn(&Taken, usize) -> bool) -> Vec<(String, Result<Pairs, String>)> {
    let one_thread = is_one_thread(sides);
    let mut cases = Vec::new();
    // What one side has not is no pair, however long the other goes on.
    let is_over = |taken: &Taken, rounds: usize| taken.sides.iter().any(|s| s.error.is_some()) || is_decided(taken, rounds);
    // What was chosen to round otherwise, or to be watched, must still give the same.
    let precisions: Vec<_> = sides.subjects().iter().map(|s| s.form.precision()).collect();
    let is_chosen = sides.subjects().iter().any(|s| s.form != WorkloadForm::Plain);
    let agree = |sides: &mut Sides, states: &mut [SideState]| {
        if is_chosen {
            agree(sides, states, |_| apart_in(&precisions), true);
        }
    };
    for (k, taken) in take_all(sides, names, plan, agree, is_over).into_iter().enumerate() {
        let skipped = |s: &SideState| if s.unsupported { "skipped: " } else { "" };
        let failed = taken.sides.iter().zip(sides.subjects()).filter_map(|(s, of)| Some(format!("{}{}: {}", skipped(s), of.name, s.error.as_ref()?)));
        let (name, failed) = (&taken.workload, failed.collect::<Vec<_>>());
        // What no side has is nothing to compare, and no failure; what was asked for in a form is told in its row.
        if !is_chosen && taken.sides.iter().all(|s| s.unsupported) {
            note(format_args!("{}/{} {name} is left out: {}", k + 1, names.len(), failed.join("; ")));
            continue;
        }
        let pairs = if failed.is_empty() { Ok(Pairs::of(&taken, 0, 1, one_thread)) } else { Err(failed.join("; ")) };
        let rounds = taken.turns.iter().map(|t| t.round + 1).max().unwrap_or(0);
        note(format_args!("{}/{} {name}: {} turns in {rounds} rounds", k + 1, names.len(), taken.turns.len()));
        cases.push((taken.workload, pairs));
    }
    cases
}
/// The last record of a file, and those before it that are other moments of the same program in the same environment.
pub(super) fn moments_of(file: &Path) -> Result<Vec<Record>, Ended> {
    let mut records = Record::read(file).map_err(|e| ended(Exit::Unreadable)(&e))?;
    let last = records.pop().ok_or_else(|| (Exit::Unreadable, format!("{}: no record", file.display())))?;
    // Two states of sources with changes may differ whatever their commit is.
    let same = |r: &Record| r.git == last.git && last.git.as_ref().is_some_and(|g| !g.dirty) && r.settings.small == last.settings.small;
    let environment = last.environment();
    records.retain(|r| same(r) && r.environment() == environment);
    records.push(last);
    Ok(records)
}
/// The records of two files.
fn records(options: &Options, a: &Path, b: &Path) -> Result<Comparison, Ended> {
    let how = &options.how;
    let (a, b) = (moments_of(a)?, moments_of(b)?);
    of_records((&options.a, &a), (&options.b, &b), &how.chosen.only, how.threshold / 100.0, how.across, command(options))
}
/// The records of two programs under their names, of several moments each. Cases are those of the last records, matched by
/// workload and implementation.
///
/// # Errors
/// The environments differ and nobody said that they may; a record of small shapes; no record.
pub(super) fn of_records(
    (name_a, a): (&str, &[Record]),
    (name_b, b): (&str, &[Record]),
    only: &[String],
    threshold: f64,
    across: bool,
    command: String,
) -> Result<Comparison, Ended> {
    let (Some(last_a), Some(last_b)) = (a.last(), b.last()) else { return Err((Exit::Unreadable, "no record".into())) };
    let mut comparison = beginning((name_a, last_a), (name_b, last_b), threshold, across, command)?;
    if a.len().min(b.len()) >= ENOUGH_MOMENTS {
        comparison.evidence = Evidence::ManyMoments;
    }
    let name = |c: &Case| if c.implementation == "adamant" { c.workload.clone() } else { format!("{} ({})", c.workload, c.implementation) };
    let only = suite_globs(only)?;
    let one_thread = last_a.settings.threads == 1 && last_b.settings.threads == 1;
    let moments = |records: &[Record], of: &Case| {
        let same = |c: &&Case| (&c.workload, &c.implementation) == (&of.workload, &of.implementation);
        Moments::of(records.iter().filter_map(|r| r.cases.iter().find(same)), one_thread)
    };
    let cases: Vec<_> = last_a
        .cases
        .iter()
        .filter(|x| only.is_match(&x.workload))
        .map(|x| {
            let of_b = last_b.cases.iter().find(|y| (&y.workload, &y.implementation) == (&x.workload, &x.implementation));
            let samples = match (of_b, &x.error) {
                (None, _) => Err(format!("not in {name_b}")),
                (Some(_), Some(e)) => Err(format!("{name_a}: {e}")),
                (Some(y), None) => y.error.as_ref().map_or_else(|| Ok([moments(a, x), moments(b, x)]), |e| Err(format!("{name_b}: {e}"))),
            };
            (name(x), samples)
        })
        .collect();
    comparison.cases = judge_records(&cases, comparison.threshold);
    Ok(comparison)
}
/// What two records are compared as, without a case yet.
fn beginning((name_a, a): (&str, &Record), (name_b, b): (&str, &Record), threshold: f64, across: bool, command: String) -> Result<Comparison, Ended> {
    let side = |r: &Record, name: &str| ComparedSide { name: name.into(), facts: r.environment() };
    let comparison = Comparison::between(side(a, name_a), side(b, name_b), Evidence::TwoMoments, threshold, command);
    admit(&comparison, &[], across)?;
    if a.settings.small || b.settings.small {
        return Err((Exit::Usage, "a record of small shapes has no times to compare".into()));
    }
    Ok(comparison)
}
/// Asks, before anything is measured, whether a record can be compared with another.
///
/// # Errors
/// As [`of_records`].
pub(super) fn comparable(base: &Record, begun: &Record) -> Result<(), Ended> {
    beginning(("a", base), ("b", begun), 0.0, false, String::new()).map(|_| ())
}
fn suite_globs(only: &[String]) -> Result<globset::GlobSet, Ended> {
    let mut set = globset::GlobSetBuilder::new();
    for glob in only {
        set.add(globset::Glob::new(glob).map_err(|e| ended(Exit::Usage)(&e))?);
    }
    set.build().map_err(|e| ended(Exit::Usage)(&e))
}
fn show(comparison: &Comparison, options: &Options) -> Result<OutStream, Ended> {
    let (how, mut out) = (&options.how, OutStream::default());
    if how.json {
        comparison.cases.iter().flat_map(|c| [line(c, &comparison.a, c.a_ns, how), line(c, &comparison.b, c.b_ns, how)]).for_each(|l| out.say(l));
    }
    if !how.json || how.out.is_some() {
        out::write(&rendered(comparison, how.format), how.out.as_deref(), &mut out)?;
    }
    Ok(out)
}
fn line(case: &Compared, side: &ComparedSide, ns: Option<f64>, how: &CompareHow) -> serde_json::Value {
    let extra = Extra { threads: how.at.threads.into(), samples: Some(case.quiet), small: how.sampling.small, ..Extra::default() };
    let median_ms = ns.map(|x| x * 1e-6);
    serde_json::json!(Line { workload: case.workload.clone(), implementation: side.name.clone(), median_ms, min_ms: None, error: case.error.clone(), extra })
}

/// This program against itself.
pub(super) fn calibrate(options: &CalibrateOptions, suite: &Suite) -> Result<Exit, Ended> {
    let names: Vec<String> = some(&options.chosen, suite)?.into_iter().map(|w| w.name).collect();
    let own = || Subject::own(options.at.threads.into(), &options.at.device).map_err(|e| ended(Exit::Failed)(&e));
    // Read first: whoever misnames it need not wait.
    let mut records = options.record.as_ref().map(|file| Record::read(file).map_err(|e| ended(Exit::Unreadable)(&e))).transpose()?;
    let mut sides = Sides::new(vec![own()?, own()?]);
    sides.child(0).map_err(|e| not_started(&e))?;
    let mut out = OutStream::default();
    let cases = judge(&measure(&mut sides, &names, &options.sampling.plan()?), 0.0);
    for case in &cases {
        match (&case.error, case.smallest_visible, case.ratio) {
            (None, Some(visible), Some(ratio)) => {
                let (percent, quiet, samples) = (visible * 100.0, case.quiet, case.samples);
                out.say(format_args!("{:<34} shows changes from {percent:.2} %  (itself: {ratio:.4}, {quiet} of {samples} pairs quiet)", case.workload));
            }
            (error, ..) => out.say(format_args!("{:<34} {}", case.workload, error.as_deref().unwrap_or("no samples"))),
        }
    }
    if let (Some(file), Some(records)) = (&options.record, &mut records) {
        if let Some(last) = records.last_mut() {
            for case in &mut last.cases {
                case.smallest_visible = cases.iter().find(|c| c.workload == case.workload).and_then(|c| c.smallest_visible).or(case.smallest_visible);
            }
        }
        rewrite(file, records)?;
    }
    out.end(if cases.iter().any(|c| c.error.is_some()) { Exit::Failed } else { Exit::Passed })
}
/// Writes all records anew, beside the file first, so that it is whole at any moment.
fn rewrite(file: &Path, records: &[Record]) -> Result<(), Ended> {
    let beside = file.with_extension("jsonl.new");
    let _ = std::fs::remove_file(&beside);
    let written = records.iter().try_for_each(|r| r.append(&beside)).map_err(|e| ended(Exit::Unwritable)(&e));
    let done = written.and_then(|()| std::fs::rename(&beside, file).map_err(|e| out::unwritable(file, &e)));
    if done.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    done
}
