//! Discrete events: what each stage of a mesh does, one act behind another, beside a thread that carries its collectives in their order. Ranks
//! of one stage do the same at the same time, so that one of them stands for all.
//!
//! Between two events every stream of work (a stage's acts, what its device carries) goes on at one speed, which follows from how many there are
//! on a host: ranks that wait leave their device to others.
//!
//! Must not know models or how ranks are shared out.
use crate::{cluster::PlannedCluster, exchange::ExchangeCost};
use std::collections::VecDeque;

/// Something that a stage does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StageAct {
    /// works so many seconds of a device of its own
    Compute(f64),
    /// hands a collective over, which goes on beside
    Begin(usize),
    /// waits until it is done
    Wait(usize),
    /// gives something to another stage, which takes it when it comes to it
    Send {
        /// the stage
        to: usize,
        /// what that costs
        cost: ExchangeCost,
    },
    /// gets what another stage sends next
    Receive {
        /// the stage
        from: usize,
    },
}
/// What a stage does, and the collectives that it names.
#[derive(Clone, Debug, Default)]
pub struct StageProgram {
    /// one behind another
    pub acts: Vec<StageAct>,
    /// by number
    pub exchanges: Vec<ExchangeCost>,
}
/// How a stage spent a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageTimes {
    /// when it was done
    pub end: f64,
    /// it computed
    pub computing: f64,
    /// it waited for a collective, or sent
    pub exposed: f64,
    /// it waited for another stage
    pub idle: f64,
}
/// Sends of more wait until the other stage is there: what the engine `local` holds of a pair.
pub const BUFFERED: f64 = 262_144.0;

#[derive(Clone, Copy, PartialEq)]
enum StageDoing {
    Nothing,
    Compute,
    Wait(usize),
    /// copies what the other need not be there for, or both are there
    Send(usize),
    /// waits for the other to come to its receive
    Offer(usize),
    Receive(usize),
    Done,
}
struct RunningStage<'p> {
    program: &'p StageProgram,
    at: usize,
    doing: StageDoing,
    /// of what is done now: seconds beside work, and seconds of the device
    free: f64,
    carried: f64,
    queue: VecDeque<usize>,
    done: Vec<bool>,
    /// of the collective at the head of the queue
    head: Option<(f64, f64)>,
    /// by stage: what has arrived, and was not taken
    arrived: Vec<usize>,
    times: StageTimes,
}
/// A moment is over when so little is left.
const LEAST: f64 = 1e-15;

/// Runs a step of all stages, each of as many ranks, so many of all of them together on a host.
///
/// # Errors
/// Stages that wait for each other for ever, or name a collective that is not there: a fault of who made the programs.
pub fn simulate(programs: &[StageProgram], ranks_of_host: usize, cluster: &PlannedCluster) -> Result<Vec<StageTimes>, String> {
    let stages = programs.len();
    let mut all: Vec<RunningStage<'_>> = programs
        .iter()
        .map(|program| RunningStage {
            program,
            at: 0,
            doing: StageDoing::Nothing,
            free: 0.0,
            carried: 0.0,
            queue: VecDeque::new(),
            done: vec![false; program.exchanges.len()],
            head: None,
            arrived: vec![0; stages],
            times: StageTimes::default(),
        })
        .collect();
    let of_stage = ranks_of_host as f64 / stages.max(1) as f64;
    let mut now = 0.0;
    loop {
        while (0..stages).map(|s| advance(&mut all, s, now)).collect::<Result<Vec<_>, _>>()?.contains(&true) {}
        if all.iter().all(|s| s.doing == StageDoing::Done && s.head.is_none()) {
            return Ok(all.into_iter().map(|s| s.times).collect());
        }
        let streams: usize =
            all.iter().map(|s| usize::from(s.works()) + usize::from(s.head.is_some_and(|(free, carried)| free <= LEAST && carried > LEAST))).sum();
        let speed = cluster.speed(of_stage * streams as f64);
        let left = |free: f64, carried: f64| if free > LEAST { free } else { carried / speed };
        let mut step = f64::INFINITY;
        for s in &all {
            if matches!(s.doing, StageDoing::Compute | StageDoing::Send(_)) {
                step = step.min(left(s.free, s.carried));
            }
            if let Some((free, carried)) = s.head {
                step = step.min(left(free, carried));
            }
        }
        if !step.is_finite() {
            let waits = all.iter().enumerate().filter(|(_, s)| s.doing != StageDoing::Done).map(|(k, s)| format!("stage {k} at act {}", s.at));
            return Err(format!("all wait for each other: {}", waits.collect::<Vec<_>>().join("; ")));
        }
        now += step;
        for s in &mut all {
            s.pass(step, speed);
        }
    }
}
impl RunningStage<'_> {
    /// Does it use its device now?
    fn works(&self) -> bool {
        matches!(self.doing, StageDoing::Compute | StageDoing::Send(_)) && self.free <= LEAST && self.carried > LEAST
    }
    fn pass(&mut self, step: f64, speed: f64) {
        match self.doing {
            StageDoing::Compute => self.times.computing += step,
            StageDoing::Wait(_) | StageDoing::Send(_) => self.times.exposed += step,
            StageDoing::Offer(_) | StageDoing::Receive(_) => self.times.idle += step,
            StageDoing::Nothing | StageDoing::Done => {}
        }
        let less = |free: &mut f64, carried: &mut f64| match *free > LEAST {
            true => *free = if *free - step < LEAST { 0.0 } else { *free - step },
            false => *carried = if *carried - step * speed < 1e-12 * *carried + LEAST { 0.0 } else { *carried - step * speed },
        };
        if matches!(self.doing, StageDoing::Compute | StageDoing::Send(_)) {
            less(&mut self.free, &mut self.carried);
        }
        if let Some((free, carried)) = &mut self.head {
            less(free, carried);
        }
    }
    fn is_over(&self) -> bool {
        self.free <= LEAST && self.carried <= LEAST
    }
}
/// Goes on with a stage as far as nothing takes time. Has anything changed?
fn advance(all: &mut [RunningStage<'_>], k: usize, now: f64) -> Result<bool, String> {
    let mut changed = false;
    loop {
        // What is carried beside.
        let s = &mut all[k];
        if s.head.is_some_and(|(free, carried)| free <= LEAST && carried <= LEAST) {
            let id = s.queue.pop_front().unwrap_or_default();
            s.done[id] = true;
            s.head = None;
            changed = true;
        }
        if let (None, Some(&id)) = (s.head, s.queue.front()) {
            s.head = Some((s.program.exchanges[id].free, s.program.exchanges[id].carried));
            changed = true;
            continue;
        }
        // What is done now.
        if let StageDoing::Offer(to) = all[k].doing {
            if all[to].doing != StageDoing::Receive(k) {
                return Ok(changed);
            }
            all[k].doing = StageDoing::Send(to);
            changed = true;
            continue;
        }
        let s = &mut all[k];
        match s.doing {
            StageDoing::Compute if s.is_over() => s.doing = StageDoing::Nothing,
            StageDoing::Wait(id) if s.done[id] => s.doing = StageDoing::Nothing,
            StageDoing::Send(to) if s.is_over() => {
                s.doing = StageDoing::Nothing;
                all[to].arrived[k] += 1;
                return Ok(true);
            }
            StageDoing::Receive(from) if s.arrived[from] > 0 => {
                s.arrived[from] -= 1;
                s.doing = StageDoing::Nothing;
            }
            StageDoing::Nothing => {
                let Some(&act) = s.program.acts.get(s.at) else {
                    (s.doing, s.times.end) = (StageDoing::Done, now);
                    return Ok(true);
                };
                s.at += 1;
                match act {
                    StageAct::Compute(seconds) => (s.doing, s.free, s.carried) = (StageDoing::Compute, 0.0, seconds),
                    StageAct::Begin(id) if id < s.done.len() => s.queue.push_back(id),
                    StageAct::Wait(id) if id < s.done.len() => s.doing = StageDoing::Wait(id),
                    StageAct::Begin(id) | StageAct::Wait(id) => return Err(format!("stage {k}: there is no collective {id}")),
                    StageAct::Send { to, cost } => {
                        (s.free, s.carried) = (cost.free, cost.carried);
                        s.doing = if cost.bytes <= BUFFERED { StageDoing::Send(to) } else { StageDoing::Offer(to) };
                    }
                    StageAct::Receive { from } => s.doing = StageDoing::Receive(from),
                }
            }
            _ => return Ok(changed),
        }
        changed = true;
    }
}
