//! Several programs under test, sample by sample in turn.
//!
//! The unit is a *turn*: one sample of each program, in random order, so that whatever else the machine does in those
//! milliseconds meets all of them. Those whose turn it is not are stopped: threads that wait by spinning would take a core
//! from the one that is measured. Turns come in *rounds*: for each, all programs prepare the workload anew (those that
//! start quickly, in a new process), so that where memory happened to lie is part of the spread and not of the answer.
use crate::{
    child::{Child, ChildError, Subject},
    inputs::Words,
    protocol::{About, Answer, Ask},
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
    /// of the order within turns
    pub seed: u64,
}
/// Fewer turns than this show not even a large change of one case among twenty (the least p of their ranks).
const FEWEST_TURNS: usize = 14;
impl Default for Plan {
    fn default() -> Plan {
        Plan {
            budget: Duration::from_secs(2),
            precision: 0.005,
            rounds: 6,
            shortest: Duration::from_millis(1),
            settle: Duration::ZERO,
            small: false,
            fewest: FEWEST_TURNS,
            seed: 1,
        }
    }
}
/// How many turns there must be before a narrow interval ends the sampling.
const ENOUGH_TURNS: usize = 40;
/// The most.
const MOST_TURNS: usize = 2000;
/// A workload whose call takes longer than this part of the budget is prepared once.
const LONG: f64 = 1.0 / 40.0;
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
}
impl Sides {
    /// Programs that are not started yet.
    pub fn new(subjects: Vec<Subject>) -> Sides {
        Sides { running: subjects.iter().map(|_| None).collect(), subjects }
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
            self.running[k] = Some(Child::start(&self.subjects[k])?);
        }
        self.running[k].as_mut().ok_or_else(|| ChildError::Silent { name: self.subjects[k].name.clone(), seconds: 0, when: "after its start" })
    }
    /// Asks one. Whatever goes wrong is in the answer, and a program that is gone is started again for the next.
    pub fn ask(&mut self, k: usize, ask: &Ask) -> Answer {
        let answer = self.child(k).and_then(|child| child.ask(ask));
        answer.unwrap_or_else(|e| {
            self.running[k] = None;
            Answer { error: Some(e.to_string()), ..Answer::default() }
        })
    }
    /// Ends those that start quickly.
    fn renew(&mut self) {
        for (subject, running) in self.subjects.iter().zip(&mut self.running) {
            if subject.starts_quickly {
                *running = None;
            }
        }
    }
}

/// Measures one workload in all programs. `agree` compares, once all have prepared, and may withdraw some.
pub fn take(sides: &mut Sides, workload: &str, plan: &Plan, agree: impl FnOnce(&mut Sides, &mut [SideState])) -> Taken {
    let n = sides.subjects.len();
    let mut words = Words::new(plan.seed ^ workload.bytes().fold(0, |h: u64, b| h.wrapping_mul(31).wrapping_add(b.into())));
    let mut taken = Taken { workload: workload.into(), sides: vec![SideState::default(); n], turns: Vec::new() };
    let (mut rounds, mut agree) = (plan.rounds.max(1), Some(agree));
    let mut round = 0;
    while round < rounds {
        if round > 0 {
            sides.renew();
        }
        prepare(sides, &mut taken, plan, round, &mut words);
        if let Some(agree) = agree.take() {
            agree(sides, &mut taken.sides);
        }
        let slowest = warm(sides, &mut taken, plan, round, &mut words);
        if taken.sides.iter().all(|s| s.error.is_some()) {
            break;
        }
        if round == 0 && slowest > plan.budget.as_secs_f64() * LONG {
            rounds = 1;
        }
        let (start, share) = (Instant::now(), plan.budget / rounds as u32);
        let (enough, fewest) = (ENOUGH_TURNS.div_ceil(rounds), plan.fewest.div_ceil(rounds));
        for turn in 0..MOST_TURNS / rounds {
            let spent = start.elapsed() >= share;
            if turn >= fewest && (spent || (turn >= enough && turn % 8 == 0 && is_narrow(&taken, plan.precision))) {
                break;
            }
            take_turn(sides, &mut taken, plan, round, &mut words);
        }
        round += 1;
    }
    for k in 0..n {
        if taken.sides[k].error.is_none() {
            sides.ask(k, &Ask::Finish);
        }
    }
    taken
}
/// The programs that still have times, in random order.
fn order(taken: &Taken, words: &mut Words) -> Vec<usize> {
    let mut alive: Vec<usize> = (0..taken.sides.len()).filter(|&k| taken.sides[k].error.is_none()).collect();
    for k in (1..alive.len()).rev() {
        alive.swap(k, words.below(k + 1));
    }
    alive
}
fn withdraw(side: &mut SideState, answer: &Answer) -> bool {
    if let Some(error) = &answer.error {
        (side.error, side.unsupported) = (Some(error.clone()), answer.unsupported);
    }
    answer.error.is_some()
}
fn prepare(sides: &mut Sides, taken: &mut Taken, plan: &Plan, round: usize, words: &mut Words) {
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
fn warm(sides: &mut Sides, taken: &mut Taken, plan: &Plan, round: usize, words: &mut Words) -> f64 {
    let seconds = if round == 0 { 0.1 } else { 0.03 };
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
        // Programs that are about as fast make equal samples.
        let most = taken.sides.iter().map(|s| s.calls).max().unwrap_or(1);
        taken.sides.iter_mut().filter(|s| s.calls * 2 > most).for_each(|s| s.calls = most);
    }
    one.into_iter().filter(|x| x.is_finite()).fold(0.0, f64::max) * 1e-9
}
fn take_turn(sides: &mut Sides, taken: &mut Taken, plan: &Plan, round: usize, words: &mut Words) {
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
/// Are all ratios to the first program known to within `precision`?
fn is_narrow(taken: &Taken, precision: f64) -> bool {
    (1..taken.sides.len()).filter(|&k| taken.sides[k].error.is_none()).all(|k| {
        let mut ratios: Vec<f64> = taken.turns.iter().map(|t| (t.ns[k] / t.ns[0]).ln()).filter(|r| r.is_finite()).collect();
        ratios.sort_by(f64::total_cmp);
        let (low, high) = median_interval(&ratios);
        ratios.len() >= ENOUGH_TURNS && (high - low) / 2.0 <= precision
    })
}
