//! `selftest`: the tool judged by itself. Equal programs must give no alarm but by chance, and a slowdown that was planted
//! must be found. A slowdown is planted by doing more of the same work: B repeats a call 103 times where A repeats it 100.
use super::{
    Ended, Exit, WhereToRun,
    compare::{Sampling, measure},
    ended,
    out::{OutStream, note},
};
use crate::{
    child::Subject,
    interleave::{Plan, Sides},
    suite::Suite,
    verdict::{Compared, Verdict, judge},
    workload::Group,
};
use clap::{Args, ValueEnum};
use std::time::Instant;

/// What is tested.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Only this part
    #[arg(long, value_enum)]
    part: Option<SelftestPart>,
    #[command(flatten)]
    at: WhereToRun,
    #[command(flatten)]
    sampling: Sampling,
    /// Equal cases
    #[arg(long, default_value_t = 200)]
    cases: usize,
    /// Trials of each planted slowdown
    #[arg(long, default_value_t = 40)]
    trials: usize,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum SelftestPart {
    /// a program against itself
    Equal,
    /// 3 % more of a case that computes
    Compute,
    /// 8 % more of a case that moves memory
    Memory,
}
/// The smallest change worth telling in these tests.
const THRESHOLD: f64 = 0.01;
/// At most so many false alarms.
const MOST_ALARMS: usize = 1;
/// At least this share of the planted ones must be found.
const FOUND: f64 = 0.95;
/// The precision that a planted slowdown takes.
const PRECISION: f64 = 0.001;
/// The workload, how often A and B repeat its call: more of the same work by 3 and by 8 %.
const PLANTED: [(SelftestPart, &str, usize, usize); 2] =
    [(SelftestPart::Compute, "selftest_compute", 100, 103), (SelftestPart::Memory, "selftest_memory", 12, 13)];

/// What one part gave.
#[derive(serde::Serialize)]
struct Outcome {
    part: String,
    cases: usize,
    slower: usize,
    faster: usize,
    same: usize,
    noisy: usize,
    failed: usize,
    seconds: f64,
    passed: bool,
    alarms: Vec<String>,
}
impl Outcome {
    fn of(part: impl Into<String>, cases: &[Compared], seconds: f64, passed: impl Fn(usize, usize) -> bool) -> Outcome {
        let count = |v: Verdict| cases.iter().filter(|c| c.verdict == Some(v)).count();
        let (slower, faster) = (count(Verdict::Slower), count(Verdict::Faster));
        let alarms = cases.iter().filter(|c| matches!(c.verdict, Some(Verdict::Slower | Verdict::Faster)) || c.error.is_some());
        Outcome {
            part: part.into(),
            cases: cases.len(),
            slower,
            faster,
            same: count(Verdict::Same),
            noisy: count(Verdict::Noisy),
            failed: cases.iter().filter(|c| c.error.is_some()).count(),
            seconds,
            passed: passed(slower, faster) && cases.iter().all(|c| c.error.is_none()) && !cases.is_empty(),
            alarms: alarms.map(|c| format!("{} {:?} {:?} {}", c.workload, c.ratio, c.interval, c.error.as_deref().unwrap_or_default())).collect(),
        }
    }
}

pub(super) fn run(options: &Options, suite: &Suite) -> Result<Exit, Ended> {
    let plan = options.sampling.plan()?;
    let wanted = |part: SelftestPart| options.part.is_none_or(|p| p == part);
    let (mut outcomes, mut out) = (Vec::new(), OutStream::default());
    if wanted(SelftestPart::Equal) {
        outcomes.push(equal(options, suite, &plan)?);
        say(outcomes.last(), options.json, &mut out);
    }
    for (part, workload, a, b) in PLANTED.into_iter().filter(|p| wanted(p.0)) {
        outcomes.push(planted(options, &plan, part, workload, [a, b])?);
        say(outcomes.last(), options.json, &mut out);
    }
    if options.json {
        out.say(serde_json::json!(outcomes));
    }
    out.end(if outcomes.iter().all(|o| o.passed) { Exit::Passed } else { Exit::Failed })
}
fn say(outcome: Option<&Outcome>, json: bool, out: &mut OutStream) {
    let (Some(o), false) = (outcome, json) else { return };
    let end = if o.passed { "passed" } else { "FAILED" };
    out.say(format_args!(
        "{end} {}: {} cases, {} slower, {} faster, {} same, {} noisy, {} failed, {:.0} s",
        o.part, o.cases, o.slower, o.faster, o.same, o.noisy, o.failed, o.seconds
    ));
    if o.part == "equal" || o.failed > 0 {
        o.alarms.iter().for_each(|a| out.say(format_args!("    {a}")));
    }
}
fn own(options: &Options, repeat: usize) -> Result<Subject, Ended> {
    let own = Subject::own(options.at.threads.into(), &options.at.device).map_err(|e| ended(Exit::Failed)(&e))?;
    Ok(Subject { repeat, ..own })
}
/// This program against itself: sizes first, then the main workloads, from the beginning again if there are too few.
fn equal(options: &Options, suite: &Suite, plan: &Plan) -> Result<Outcome, Ended> {
    let of = |group| suite.chosen(group, &["*".into()]).unwrap_or_default();
    // What needs more than a call of some milliseconds takes long and shows nothing more.
    let names: Vec<String> = [of(Group::Sizes), of(Group::Selftest), of(Group::Main)].into_iter().flatten().map(|w| w.name).collect();
    if names.is_empty() {
        return Err((Exit::Usage, "this program has no workloads".into()));
    }
    let start = Instant::now();
    let mut sides = Sides::new(vec![own(options, 1)?, own(options, 1)?]);
    let mut cases = Vec::new();
    let mut again = 0;
    while cases.len() < options.cases {
        let plan = Plan { seed: plan.seed + again, ..*plan };
        let wanted: Vec<String> = names.iter().take(options.cases - cases.len()).cloned().collect();
        let measured = measure(&mut sides, &wanted, &plan);
        if measured.is_empty() {
            return Err((Exit::Failed, "this machine has none of the workloads".into()));
        }
        cases.extend(measured);
        again += 1;
    }
    Ok(Outcome::of("equal", &judge(&cases, THRESHOLD), start.elapsed().as_secs_f64(), |slower, faster| slower + faster <= MOST_ALARMS))
}
/// Trials of a planted slowdown, each by itself: one case, as one that looks for it would have.
fn planted(options: &Options, plan: &Plan, part: SelftestPart, workload: &str, [a, b]: [usize; 2]) -> Result<Outcome, Ended> {
    let start = Instant::now();
    // A narrow interval of pairs is not enough: rounds must agree, and each needs its pairs for that.
    let plan = &Plan { precision: plan.precision.min(PRECISION), ..*plan };
    let mut sides = Sides::new(vec![own(options, a)?, own(options, b)?]);
    let mut cases = Vec::new();
    for trial in 0..options.trials {
        let plan = Plan { seed: plan.seed + trial as u64, ..*plan };
        let compared = judge(&measure(&mut sides, &[workload.to_string()], &plan), THRESHOLD);
        for c in &compared {
            note(format_args!("{trial}: {:?} {:?} {:?}", c.verdict.map(Verdict::word), c.ratio, c.interval));
        }
        cases.extend(compared);
    }
    let wanted = (FOUND * options.trials as f64).ceil() as usize;
    let name = format!("{part:?}, {:.1} % more", (b as f64 / a as f64 - 1.0) * 100.0).to_lowercase();
    Ok(Outcome::of(name, &cases, start.elapsed().as_secs_f64(), |slower, faster| slower >= wanted && faster == 0))
}
