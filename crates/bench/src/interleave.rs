//! Several programs under test, sample by sample in turn.
//!
//! A *turn* is one sample of each program, in random order, so that whatever else the machine does in those milliseconds
//! meets all of them. Those whose turn it is not are stopped: threads that wait by spinning would take a core from the one
//! that is measured. Turns come in *rounds*: for each, all programs prepare the workload anew (those that start quickly, in
//! a new process), so that where memory happened to lie is part of the spread and not of the answer. A round goes over all
//! workloads before the next begins: the rounds of one are spread over the whole run, and with them what the machine does.
//!
//! Invariant: nothing but the program itself tells the sides apart. In a round all that have one thread run on the same
//! core; the next round takes the next of those that are quiet. The order is drawn by lot, and the order of starting is
//! reversed in every other round. Programs that are about as fast make equally long samples.
use crate::{
    child::{Child, ChildError, Subject},
    inputs::RandomWords,
    pin::{Core, quiet_cores},
    protocol::{About, Ask, ChildAnswer},
    sampler::calls_of_a_sample,
    stats::median_interval,
};
use std::time::{Duration, Instant};

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// time for samples of one workload, of all programs together
    pub budget: Duration,
    /// the half width of the ratios' 95 % interval, relative, that is narrow enough
    pub precision: f64,
    /// how often the workload is prepared anew
    pub rounds: usize,
    /// a sample takes at least so long
    pub shortest: Duration,
    /// pause between waking a program and its sample, for programs that differ in how their threads wait
    pub settle: Duration,
    /// small shapes
    pub small: bool,
    /// the fewest turns, whatever the budget
    pub fewest: usize,
    /// the most
    pub most: usize,
    /// a workload whose call is long is prepared once, for programs that take long to prepare
    pub long_once: bool,
    /// the result is checked again at the end of each round, which only programs of this project know
    pub check_again: bool,
    /// of the order within turns
    pub seed: u64,
}
/// The fewest turns of all rounds together.
const FEWEST_TURNS: usize = 14;
/// So many rounds show a change of one case among some hundreds: the least chance that ranks know of them.
pub const ROUNDS: usize = 16;
impl Default for Plan {
    fn default() -> Plan {
        Plan {
            budget: Duration::from_secs(2),
            precision: 0.005,
            rounds: ROUNDS,
            shortest: Duration::from_millis(1),
            settle: Duration::ZERO,
            small: false,
            fewest: FEWEST_TURNS,
            most: MOST_TURNS,
            long_once: false,
            check_again: false,
            seed: 1,
        }
    }
}
/// How many turns of a round there must be before a narrow interval ends it.
const ENOUGH_TURNS: usize = 8;
/// Which cores are quiet is asked anew after so many rounds.
const CORES_HOLD: usize = 4;
/// The environment of a process is longer by up to so many bytes.
const PADDING: usize = 4096;
/// The most turns of all rounds together.
const MOST_TURNS: usize = 2000;
/// A call that takes longer than this part of the budget is long.
const LONG: f64 = 1.0 / 40.0;
/// Programs of which none takes so many times as long as another.
const ABOUT_AS_FAST: u64 = 4;
/// Nanoseconds of a call that is made once more to wake cores.
const SHORT: f64 = 20e6;
/// A program that waited for a core for a larger share of a sample was disturbed.
pub const DISTURBED: f64 = 0.02;

/// One sample of each program.
#[derive(Clone, PartialEq, Debug)]
pub struct Turn {
    /// in which round
    pub round: usize,
    /// nanoseconds of one call, by program
    pub ns: Vec<f64>,
    /// the share of each sample in which the program waited for a core
    pub waited: Vec<f64>,
}
/// What the programs gave for one workload.
#[derive(Clone, Debug)]
pub struct Taken {
    /// the workload
    pub workload: String,
    /// one for each program: its worst error, or why it has no time
    pub sides: Vec<SideState>,
    /// the turns of the programs that have times; columns of the others are NaN
    pub turns: Vec<Turn>,
}
/// How a program came out of preparing.
#[derive(Clone, Default, Debug)]
pub struct SideState {
    /// why it has no time
    pub error: Option<String>,
    /// because a part is not there
    pub unsupported: bool,
    /// the worst error of its own check
    pub worst: Option<f64>,
    /// calls in one sample
    pub calls: u64,
    /// what the workload is, where it says so
    pub about: Option<About>,
}

/// The programs of a run. Each is started when it is first needed.
pub struct Sides {
    subjects: Vec<Subject>,
    running: Vec<Option<Child>>,
    /// the cores that take turns, and the one of this round
    quiet: Vec<Core>,
    core: Option<Core>,
    words: RandomWords,
}
impl Sides {
    /// Programs that are not started yet.
    pub fn new(subjects: Vec<Subject>) -> Sides {
        Sides { running: subjects.iter().map(|_| None).collect(), subjects, quiet: Vec::new(), core: None, words: RandomWords::new(0x1a70) }
    }
    /// How to start them.
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }
    /// One of them, started if it does not run, while all others rest.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn child(&mut self, k: usize) -> Result<&mut Child, ChildError> {
        for (j, running) in self.running.iter_mut().enumerate() {
            match running {
                Some(child) if j == k => child.wake(),
                Some(child) => child.rest(),
                None => {}
            }
        }
        if self.running[k].is_none() {
            let padding = self.words.below(PADDING);
            self.running[k] = Some(Child::start_on(&self.subjects[k], self.core, padding)?);
        }
        self.running[k].as_mut().ok_or_else(|| ChildError::Silent { name: self.subjects[k].name.clone(), seconds: 0, when: "after its start" })
    }
    /// Asks one. Whatever goes wrong is in the answer, and a program that is gone is started again for the next.
    pub fn ask(&mut self, k: usize, ask: &Ask) -> ChildAnswer {
        let answer = self.child(k).and_then(|child| child.ask(ask));
        answer.unwrap_or_else(|e| {
            self.running[k] = None;
            ChildAnswer { error: Some(e.to_string()), ..ChildAnswer::default() }
        })
    }
    /// Ends those that start quickly, and chooses the core on which the next of them run.
    fn renew(&mut self, round: usize) {
        for (subject, running) in self.subjects.iter().zip(&mut self.running) {
            if subject.starts_quickly {
                *running = None;
            }
        }
        // One that goes on stays where it is, and the others with it.
        let all = self.subjects.iter().all(|s| s.starts_quickly);
        if all && self.subjects.iter().any(|s| s.threads == 1) {
            if round % CORES_HOLD == 0 {
                self.quiet = quiet_cores();
            }
            self.core = self.quiet.get(round % self.quiet.len().max(1)).copied();
        }
    }
}

/// Measures one workload in all programs. `agree` compares, once all have prepared, and may withdraw some.
pub fn take(sides: &mut Sides, workload: &str, plan: &Plan, agree: impl FnMut(&mut Sides, &mut [SideState])) -> Taken {
    let nothing = || Taken { workload: workload.into(), sides: Vec::new(), turns: Vec::new() };
    take_all(sides, &[workload.to_string()], plan, agree, |_, _| false).pop().unwrap_or_else(nothing)
}
/// Measures workloads in all programs, round by round. `agree` is as above; `is_decided` is asked after each round of a
/// workload, with the number of its rounds, and says whether it needs no more.
pub fn take_all(
    sides: &mut Sides,
    workloads: &[String],
    plan: &Plan,
    mut agree: impl FnMut(&mut Sides, &mut [SideState]),
    is_decided: impl Fn(&Taken, usize) -> bool,
) -> Vec<Taken> {
    let nothing = |w: &String| Taken { workload: w.clone(), sides: vec![SideState::default(); sides.subjects.len()], turns: Vec::new() };
    let mut all: Vec<Taken> = workloads.iter().map(nothing).collect();
    let mut open: Vec<usize> = (0..all.len()).collect();
    let mut words = RandomWords::new(workloads.iter().flat_map(|w| w.bytes()).fold(plan.seed, |h, b| h.wrapping_mul(31).wrapping_add(b.into())));
    let mut started: Vec<usize> = (0..sides.subjects.len()).collect();
    for round in 0..plan.rounds.max(1) {
        sides.renew(round);
        // Who is started first meets another machine: in every other round the order is the other one.
        if round % 2 == 0 {
            shuffle(&mut started, &mut words)
        } else {
            started.reverse()
        }
        started.iter().for_each(|&k| drop(sides.child(k)));
        shuffle(&mut open, &mut words);
        open.retain(|&k| !take_round(sides, &mut all[k], plan, round, &mut words, &mut agree) && !is_decided(&all[k], round + 1));
        if open.is_empty() {
            break;
        }
    }
    for k in 0..sides.subjects.len() {
        if sides.running[k].is_some() {
            sides.ask(k, &Ask::Finish);
        }
    }
    all
}
/// One round of a workload. Is it the last, because no program has a time, or because its call is long?
fn take_round(
    sides: &mut Sides,
    taken: &mut Taken,
    plan: &Plan,
    round: usize,
    words: &mut RandomWords,
    agree: &mut impl FnMut(&mut Sides, &mut [SideState]),
) -> bool {
    prepare(sides, taken, plan, round, words);
    if round == 0 {
        agree(sides, &mut taken.sides);
    }
    let slowest = warm(sides, taken, plan, round, words);
    if taken.sides.iter().all(|s| s.error.is_some()) {
        return true;
    }
    let once = plan.long_once && round == 0 && slowest > plan.budget.as_secs_f64() * LONG;
    let rounds = if once { 1 } else { plan.rounds.max(1) };
    let (start, share) = (Instant::now(), plan.budget / rounds as u32);
    let (first, fewest) = (taken.turns.len(), plan.fewest.div_ceil(rounds));
    // Of the mean of all rounds less is asked than of one.
    let precision = plan.precision * (rounds as f64).sqrt();
    for turn in 0..(plan.most / rounds).max(1) {
        let narrow = || turn >= ENOUGH_TURNS && turn % 4 == 0 && is_narrow(&taken.turns[first..], &taken.sides, precision);
        if turn >= fewest && (start.elapsed() >= share || narrow()) {
            break;
        }
        take_turn(sides, taken, plan, round, words);
    }
    if plan.check_again {
        for k in order(taken, words) {
            let answer = sides.ask(k, &Ask::Check);
            if !withdraw(&mut taken.sides[k], &answer) {
                taken.sides[k].worst = taken.sides[k].worst.into_iter().chain(answer.worst).reduce(f64::max);
            }
        }
    }
    once
}
fn shuffle(places: &mut [usize], words: &mut RandomWords) {
    for k in (1..places.len()).rev() {
        places.swap(k, words.below(k + 1));
    }
}
/// The programs that still have times, in random order.
fn order(taken: &Taken, words: &mut RandomWords) -> Vec<usize> {
    let mut alive: Vec<usize> = (0..taken.sides.len()).filter(|&k| taken.sides[k].error.is_none()).collect();
    shuffle(&mut alive, words);
    alive
}
fn withdraw(side: &mut SideState, answer: &ChildAnswer) -> bool {
    if let Some(error) = &answer.error {
        (side.error, side.unsupported) = (Some(error.clone()), answer.unsupported);
    }
    answer.error.is_some()
}
fn prepare(sides: &mut Sides, taken: &mut Taken, plan: &Plan, round: usize, words: &mut RandomWords) {
    for k in order(taken, words) {
        let repeat = sides.subjects[k].repeat;
        // The result is checked once; later rounds build the same.
        let workload = format!("{}{}", taken.workload, sides.subjects[k].suffix);
        let ask = Ask::Prepare { workload, small: plan.small, check: round == 0, repeat };
        let answer = sides.ask(k, &ask);
        if !withdraw(&mut taken.sides[k], &answer) && round == 0 {
            (taken.sides[k].worst, taken.sides[k].about) = (answer.worst, answer.about);
        }
    }
}
/// Warms all up and chooses how many calls a sample has; seconds of the slowest call.
fn warm(sides: &mut Sides, taken: &mut Taken, plan: &Plan, round: usize, words: &mut RandomWords) -> f64 {
    let seconds = if round == 0 { 0.05 } else { 0.01 };
    let mut one = vec![f64::NAN; taken.sides.len()];
    for k in order(taken, words) {
        let answer = sides.ask(k, &Ask::Warm { seconds });
        if !withdraw(&mut taken.sides[k], &answer) {
            one[k] = answer.ns.unwrap_or(f64::NAN);
            if round == 0 {
                taken.sides[k].calls = calls_of_a_sample(one[k], plan.shortest);
            }
        }
    }
    if round == 0 {
        // Programs that are about as fast make equal samples: a longer one is interrupted more often.
        let most = taken.sides.iter().map(|s| s.calls).max().unwrap_or(1);
        taken.sides.iter_mut().filter(|s| s.calls * ABOUT_AS_FAST > most).for_each(|s| s.calls = most);
    }
    one.into_iter().filter(|x| x.is_finite()).fold(0.0, f64::max) * 1e-9
}
fn take_turn(sides: &mut Sides, taken: &mut Taken, plan: &Plan, round: usize, words: &mut RandomWords) {
    let n = taken.sides.len();
    let mut turn = Turn { round, ns: vec![f64::NAN; n], waited: vec![0.0; n] };
    for k in order(taken, words) {
        // Who cannot be started says so in its answer.
        let _ = sides.child(k);
        std::thread::sleep(plan.settle);
        let calls = taken.sides[k].calls;
        // What ran before has filled the caches and taught the branch predictor, and a core that waited wakes slowly: half
        // a sample's calls untimed, where they cost little. Of programs that differ in how their threads wait, those that
        // spin have a core that is awake: there a call is made before a sample of one call too.
        let is_short = taken.turns.last().is_none_or(|t| t.ns[k].is_nan() || t.ns[k] < SHORT);
        if calls > 1 || (!plan.settle.is_zero() && is_short) {
            let answer = sides.ask(k, &Ask::Sample { calls: calls.div_ceil(2) });
            withdraw(&mut taken.sides[k], &answer);
        }
        let answer = sides.ask(k, &Ask::Sample { calls });
        if !withdraw(&mut taken.sides[k], &answer) {
            (turn.ns[k], turn.waited[k]) = (answer.ns.unwrap_or(f64::NAN), answer.waited);
        }
    }
    taken.turns.push(turn);
}
/// Are all ratios to the first program known to within `precision` in this round? Of one program alone, its time.
fn is_narrow(turns: &[Turn], sides: &[SideState], precision: f64) -> bool {
    let known = |of: &dyn Fn(&Turn) -> f64| {
        let mut logs: Vec<f64> = turns.iter().map(|t| of(t).ln()).filter(|r| r.is_finite()).collect();
        logs.sort_by(f64::total_cmp);
        let (low, high) = median_interval(&logs);
        logs.len() >= ENOUGH_TURNS && (high - low) / 2.0 <= precision
    };
    if let [_] = sides {
        return known(&|t| t.ns[0]);
    }
    (1..sides.len()).filter(|&k| sides[k].error.is_none()).all(|k| known(&|t| t.ns[k] / t.ns[0]))
}
