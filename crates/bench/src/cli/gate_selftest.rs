//! `gate-selftest`: the gate judged from outside, by the exit codes of gates that are programs of their own. Equal programs
//! must not end with 8, and programs that do 10 % more of the same work must end with 8, or with 10, which is *could not
//! tell*; all of it beside a busy loop on one core, if that is asked for.
use super::{
    Chosen, Ended, Exit, WhereToRun, end_with_parent, ended,
    out::{OutStream, note},
    some,
};
use crate::{
    pin::{Core, OneCore, cores},
    suite::Suite,
};
use clap::Args;
use std::{
    process::{Child, Command, Stdio},
    time::Instant,
};

/// What is tested.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    at: WhereToRun,
    /// Gates of equal programs
    #[arg(long, default_value_t = 200)]
    gates: usize,
    /// Gates of programs of which one does 10 % more; else half as many as of equal ones
    #[arg(long)]
    planted: Option<usize>,
    /// Seconds of samples for each workload of a gate, if it takes all of them
    #[arg(long, default_value_t = 0.8)]
    budget: f64,
    /// A slowdown that a gate allows, in percent
    #[arg(long, default_value_t = 5.0)]
    allow: f64,
    /// Keep a core busy meanwhile: the last, or the one that is named
    #[arg(long, value_name = "CORE", num_args = 0..=1)]
    busy: Option<Option<Core>>,
    /// Of the first gate; each has its own
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
/// What runs where no workloads are named: small work, which a neighbour disturbs the most.
const SMALL: &str = "gemm_f32_256,gemm_f32_128,small_add4_grad";
/// Of 200 gates of equal programs at most two may end with 8.
const MOST_ALARMS: f64 = 0.01;
/// Of the planted ones so many must not pass.
const FOUND: f64 = 0.95;
/// How often A and B repeat a call: 10 % more of the same work.
const PLANTED: [usize; 2] = [10, 11];

/// How gates of one kind ended.
#[derive(Clone, Default, Debug, serde::Serialize)]
struct GateEnds {
    gates: usize,
    passed: usize,
    slower: usize,
    undecided: usize,
    failed: usize,
    seconds: f64,
}
impl GateEnds {
    fn add(&mut self, code: Option<i32>) {
        self.gates += 1;
        *match code {
            Some(0) => &mut self.passed,
            Some(8) => &mut self.slower,
            Some(10) => &mut self.undecided,
            _ => &mut self.failed,
        } += 1;
    }
}
/// Is that what a gate promises? `[equal, planted]`.
fn holds([equal, planted]: &[GateEnds; 2]) -> bool {
    let few = |alarms: usize, gates: usize| alarms as f64 <= (MOST_ALARMS * gates as f64).floor();
    let found = planted.slower + planted.undecided;
    equal.failed + planted.failed == 0 && few(equal.slower, equal.gates) && found as f64 >= FOUND * planted.gates as f64
}

/// A busy loop, which ends with its value.
struct Busy(Child);
impl Drop for Busy {
    fn drop(&mut self) {
        // It holds nothing that outlives it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
fn own(arguments: &[&str]) -> Result<Command, Ended> {
    let program = std::env::current_exe().map_err(|e| ended(Exit::Failed)(&e))?;
    let mut command = Command::new(program);
    command.arg("bench").args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    Ok(command)
}
fn busy(core: Core) -> Result<Busy, Ended> {
    let mut command = own(&["spin"])?;
    let _there = OneCore::enter(Some(core));
    command.stderr(Stdio::null()).spawn().map(Busy).map_err(|e| (Exit::Failed, format!("the busy loop: {e}")))
}
/// Keeps its core busy for ever.
pub(super) fn spin() -> Result<Exit, Ended> {
    end_with_parent();
    loop {
        std::hint::spin_loop();
    }
}

pub(super) fn run(options: &Options, suite: &Suite) -> Result<Exit, Ended> {
    let mut chosen = options.chosen.clone();
    let small = Chosen { only: SMALL.split(',').map(String::from).collect(), ..chosen.clone() };
    if chosen.only == ["*"] && some(&small, suite).is_ok() {
        chosen = small;
    }
    let names: Vec<String> = some(&chosen, suite)?.into_iter().map(|w| w.name).collect();
    let core = match (options.busy, cores().last()) {
        (Some(Some(core)), _) if !cores().contains(&core) => return Err((Exit::Usage, format!("core {core} is none that this program may use"))),
        (Some(Some(core)), _) | (Some(None), Some(&core)) => Some(core),
        (Some(None), None) => return Err((Exit::Usage, "this system does not tell its cores".into())),
        (None, _) => None,
    };
    let _busy = core.map(busy).transpose()?;
    let planted = options.planted.unwrap_or(options.gates.div_ceil(2));
    let mut ends = [GateEnds::default(), GateEnds::default()];
    // Both kinds in turn, so that they meet the same machine.
    for k in 0..options.gates.max(planted) {
        for (kind, wanted) in [options.gates, planted].into_iter().enumerate() {
            if k < wanted {
                let begun = Instant::now();
                let (code, said) = gate(options, &chosen, &names, kind == 1, options.seed + k as u64)?;
                ends[kind].add(code);
                ends[kind].seconds += begun.elapsed().as_secs_f64();
                if code != Some(0) && (kind == 0 || code != Some(8)) {
                    note(format_args!("{} gate, --seed {}: {code:?}\n{said}", ["equal", "planted"][kind], options.seed + k as u64));
                }
            }
        }
    }
    let mut out = OutStream::default();
    let passed = holds(&ends);
    if options.json {
        out.say(serde_json::json!({ "passed": passed, "busy_core": core, "workloads": names, "equal": ends[0], "planted_10_percent": ends[1] }));
    } else {
        out.say(format_args!("{}; {}", names.join(", "), core.map_or("no busy loop".into(), |c| format!("a busy loop on core {c}"))));
        for (kind, e) in ["equal", "10 % more"].iter().zip(&ends) {
            out.say(format_args!(
                "{kind}: {} gates, {} passed (0), {} slower (8), {} could not tell (10), {} failed, {:.1} s each",
                e.gates,
                e.passed,
                e.slower,
                e.undecided,
                e.failed,
                e.seconds / e.gates.max(1) as f64
            ));
        }
        out.say(if passed { "passed" } else { "FAILED: of equal ones at most 1 of 100 may end with 8, of the others at least 95 must not pass" });
    }
    out.end(if passed { Exit::Passed } else { Exit::Failed })
}
/// One gate: its exit code, and what it said.
fn gate(options: &Options, chosen: &Chosen, names: &[String], planted: bool, seed: u64) -> Result<(Option<i32>, String), Ended> {
    // Both sides repeat calls in both kinds: what is repeated has no part in what differs.
    let sides = [PLANTED[0], if planted { PLANTED[1] } else { PLANTED[0] }].map(|times| format!("self@repeat={times}"));
    let [budget, allow, seed, threads] = [options.budget.to_string(), options.allow.to_string(), seed.to_string(), options.at.threads.to_string()];
    let only = names.iter().map(|name| globset::escape(name)).collect::<Vec<_>>().join(",");
    let group = clap::ValueEnum::to_possible_value(&chosen.group).map_or_else(|| "main".into(), |v| v.get_name().to_string());
    let arguments = ["gate", &sides[0], &sides[1], "--only", &only, "--group", &group, "--budget", &budget, "--allow", &allow, "--seed", &seed];
    let mut command = own(&arguments)?;
    let output = command.args(["--threads", &threads, "--device", &options.at.device]).output().map_err(|e| ended(Exit::Failed)(&e))?;
    Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).trim().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_break_the_promise_and_pass() {
        let ends = |codes: &[(i32, usize)]| {
            let mut ends = GateEnds::default();
            codes.iter().for_each(|(code, times)| (0..*times).for_each(|_| ends.add(Some(*code))));
            ends
        };
        for (equal, planted, held) in [
            (&[(0, 198), (8, 2)][..], &[(8, 95), (0, 5)][..], true),
            (&[(0, 197), (8, 3)], &[(8, 100)], false),
            (&[(10, 200)], &[(10, 100)], true),
            (&[(0, 20)], &[(8, 18), (0, 2)], false),
            (&[(0, 19), (8, 1)], &[(8, 20)], false),
            (&[(0, 199), (1, 1)], &[(8, 100)], false),
            (&[(0, 200)], &[(8, 99), (9, 1)], false),
        ] {
            assert_eq!(holds(&[ends(equal), ends(planted)]), held, "{equal:?} {planted:?}");
        }
    }
}
