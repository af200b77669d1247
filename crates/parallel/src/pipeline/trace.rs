//! When each stage did what: of a run, by a clock, or of lists of actions that are carried out in thought.
use super::schedule::PipelineAction;
use adamant_core::{Error, ErrorKind, Result};
use std::collections::{HashMap, VecDeque};

/// An action with its beginning and end, in seconds, or in whatever costs were given in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ActionSpan {
    /// what was done
    pub action: PipelineAction,
    /// when it began
    pub start: f64,
    /// when it was over
    pub end: f64,
}
/// What all stages did, each in its order.
#[derive(Clone, Debug, Default)]
pub struct PipelineTrace {
    /// by stage
    pub stages: Vec<Vec<ActionSpan>>,
}
impl PipelineTrace {
    /// From the first beginning of a computation to the last end of one.
    pub fn makespan(&self) -> f64 {
        let computed = || self.stages.iter().flatten().filter(|span| span.action.computes());
        let (first, last) = computed().fold((f64::INFINITY, f64::NEG_INFINITY), |(first, last), span| (first.min(span.start), last.max(span.end)));
        (last - first).max(0.0)
    }
    /// The share of the time of all stages in which they do not compute.
    pub fn bubble(&self) -> f64 {
        let busy: f64 = self.stages.iter().flatten().filter(|span| span.action.computes()).map(|span| span.end - span.start).sum();
        let all = self.makespan() * self.stages.len() as f64;
        if all > 0.0 { 1.0 - busy / all } else { 0.0 }
    }
    /// The most micro-batches of one chunk or another that a stage has taken forward and not yet back.
    pub fn in_flight(&self, stage: usize) -> usize {
        let mut now = 0usize;
        let mut most = 0;
        for span in self.stages.get(stage).into_iter().flatten() {
            match span.action {
                PipelineAction::Forward { .. } => now += 1,
                PipelineAction::Backward { .. } => now = now.saturating_sub(1),
                _ => {}
            }
            most = most.max(now);
        }
        most
    }
}
/// What actions cost in a dry run.
#[derive(Clone, Copy, Debug)]
pub struct PipelineCosts {
    /// of a chunk forward
    pub forward: f64,
    /// of a chunk backward
    pub backward: f64,
    /// of a transfer
    pub transfer: f64,
    /// Is a send over before it is received? Else both ends meet.
    pub buffered: bool,
}
/// Carries out lists of actions in thought, each stage one action behind another.
///
/// ```
/// use adamant_parallel::pipeline::{PipelineCosts, PipelineSchedule, pipeline_actions, dry_run};
///
/// let stages = pipeline_actions(PipelineSchedule::OneForwardOneBackward, 4, 8)?;
/// let trace = dry_run(&stages, PipelineCosts { forward: 1.0, backward: 1.0, transfer: 0.0, buffered: true })?;
/// assert_eq!((trace.makespan(), trace.in_flight(1)), (22.0, 3));
/// assert!((trace.bubble() - 3.0 / 11.0).abs() < 1e-12);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Lists that wait for each other, with what each stage waits in; something else received than was sent; a gradient before its forward pass.
#[track_caller]
pub fn dry_run(lists: &[Vec<PipelineAction>], costs: PipelineCosts) -> Result<PipelineTrace> {
    let refuse = |text: String| Err(Error::new("pipeline", ErrorKind::Argument(text)));
    let stages = lists.len();
    let mut trace = PipelineTrace { stages: vec![Vec::new(); stages] };
    let (mut at, mut free) = (vec![0usize; stages], vec![0.0f64; stages]);
    let mut forwarded: Vec<HashMap<(usize, usize), bool>> = vec![HashMap::new(); stages];
    // What is on its way from one stage to another, with the time at which it is there.
    let mut sent: HashMap<(usize, usize), VecDeque<(PipelineAction, f64)>> = HashMap::new();
    let peer = |action: PipelineAction| match action {
        PipelineAction::SendActivation { to, .. } | PipelineAction::SendGradient { to, .. } => Some((to, true)),
        PipelineAction::ReceiveActivation { from, .. } | PipelineAction::ReceiveGradient { from, .. } => Some((from, false)),
        _ => None,
    };
    loop {
        let mut moved = false;
        for stage in 0..stages {
            while let Some(&action) = lists[stage].get(at[stage]) {
                let start = free[stage];
                let end = match (action, peer(action)) {
                    (PipelineAction::Forward { micro, chunk }, _) => {
                        forwarded[stage].insert((micro, chunk), false);
                        start + costs.forward
                    }
                    (PipelineAction::Backward { micro, chunk }, _) => match forwarded[stage].insert((micro, chunk), true) {
                        Some(false) => start + costs.backward,
                        _ => return refuse(format!("stage {stage}: {action} without a forward pass of it")),
                    },
                    (_, Some((to, true))) if to >= stages || to == stage => return refuse(format!("stage {stage}: {action}: there is no such stage")),
                    (_, Some((to, true))) if costs.buffered => {
                        sent.entry((stage, to)).or_default().push_back((action, start + costs.transfer));
                        start
                    }
                    (_, Some((to, true))) => {
                        // Both ends meet: the other one has to stand at the receive.
                        let other = lists[to].get(at[to]).copied();
                        match other.and_then(peer) {
                            Some((from, false)) if from == stage => {
                                let start = start.max(free[to]);
                                let end = start + costs.transfer;
                                let receive = other.unwrap_or(action);
                                if !goes_together(action, receive) {
                                    return refuse(format!("stage {stage}: {action}; stage {to}: {receive}"));
                                }
                                trace.stages[to].push(ActionSpan { action: receive, start: free[to], end });
                                (at[to], free[to]) = (at[to] + 1, end);
                                end
                            }
                            _ => break,
                        }
                    }
                    (_, Some((from, false))) if costs.buffered => match sent.get_mut(&(from, stage)).and_then(VecDeque::pop_front) {
                        Some((other, there)) if goes_together(other, action) => start.max(there),
                        Some((other, _)) => return refuse(format!("stage {from}: {other}; stage {stage}: {action}")),
                        None => break,
                    },
                    _ => break,
                };
                trace.stages[stage].push(ActionSpan { action, start, end });
                (at[stage], free[stage]) = (at[stage] + 1, end);
                moved = true;
            }
        }
        if at.iter().zip(lists).all(|(k, list)| *k == list.len()) {
            return Ok(trace);
        }
        if !moved {
            let waiting = (0..stages).filter_map(|stage| Some(format!("stage {stage} in the {}", lists[stage].get(at[stage])?)));
            return refuse(format!("all wait for each other: {}", waiting.collect::<Vec<_>>().join("; ")));
        }
    }
}
/// Is what one stage sends what the other expects? Chunks are each stage's own.
fn goes_together(sent: PipelineAction, received: PipelineAction) -> bool {
    match (sent, received) {
        (PipelineAction::SendActivation { micro, .. }, PipelineAction::ReceiveActivation { micro: expected, .. }) => micro == expected,
        (PipelineAction::SendGradient { micro, .. }, PipelineAction::ReceiveGradient { micro: expected, .. }) => micro == expected,
        _ => false,
    }
}
