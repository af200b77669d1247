//! What each stage of a pipeline does, as data: which micro-batch goes through which layers when, and what is sent and received in between.
//!
//! A schedule says in which order a stage computes. When what was computed travels follows from one clock for all stages: a transfer stands
//! in the lists of both its ends where the sum of all that happened stood, so that the lists are projections of one order of everything. Whoever carries
//! them out one action after another, the oldest transfer that is open can always be made, even if a send only returns once
//! it was received: no list waits for ever.
//!
//! Must not know tensors.
use adamant_core::{Error, ErrorKind, Result};
use std::{collections::HashSet, fmt, str::FromStr};

/// In which order a stage computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipelineSchedule {
    /// All micro-batches forward, then all back (Huang et al. 2019). Every stage keeps what all of them have saved.
    Gpipe,
    /// Forward and back in turns as soon as that can be (Narayanan et al. 2019): stage s of p keeps p - s micro-batches at most.
    OneForwardOneBackward,
    /// Each stage has several stretches of layers, so that a micro-batch comes by as often, and stages wait less (Narayanan et al. 2021). The
    /// micro-batches are a multiple of the stages.
    Interleaved {
        /// stretches of layers of each stage
        chunks: usize,
    },
}
impl PipelineSchedule {
    /// Stretches of layers of each stage.
    pub fn chunks(self) -> usize {
        match self {
            PipelineSchedule::Interleaved { chunks } => chunks,
            _ => 1,
        }
    }
}
impl fmt::Display for PipelineSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PipelineSchedule::Gpipe => f.write_str("gpipe"),
            PipelineSchedule::OneForwardOneBackward => f.write_str("1f1b"),
            PipelineSchedule::Interleaved { chunks } => write!(f, "interleaved:{chunks}"),
        }
    }
}
impl FromStr for PipelineSchedule {
    type Err = Error;
    /// `gpipe`, `1f1b`, `interleaved` (of 2 stretches) or `interleaved:N`.
    fn from_str(text: &str) -> Result<PipelineSchedule> {
        let unknown = || Error::new("pipeline", ErrorKind::Argument(format!("`{text}` is no schedule: there are gpipe, 1f1b, interleaved and interleaved:N")));
        match text.split_once(':') {
            None if text == "gpipe" => Ok(PipelineSchedule::Gpipe),
            None if text == "1f1b" => Ok(PipelineSchedule::OneForwardOneBackward),
            None if text == "interleaved" => Ok(PipelineSchedule::Interleaved { chunks: 2 }),
            Some(("interleaved", n)) => n.parse().map(|chunks| PipelineSchedule::Interleaved { chunks }).map_err(|_| unknown()),
            _ => Err(unknown()),
        }
    }
}

/// Something that a stage does. A chunk is one of its stretches of layers, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "a variant's line explains its fields")]
pub enum PipelineAction {
    /// computes a chunk for a micro-batch
    Forward { micro: usize, chunk: usize },
    /// computes the gradients of a chunk for a micro-batch
    Backward { micro: usize, chunk: usize },
    /// gives a chunk's output to the stage that goes on
    SendActivation { micro: usize, chunk: usize, to: usize },
    /// gets a chunk's input
    ReceiveActivation { micro: usize, chunk: usize, from: usize },
    /// gives the gradient of a chunk's input to the stage that it came from
    SendGradient { micro: usize, chunk: usize, to: usize },
    /// gets the gradient of a chunk's output
    ReceiveGradient { micro: usize, chunk: usize, from: usize },
}
impl PipelineAction {
    /// Is it computed, and not sent or received?
    pub fn computes(self) -> bool {
        matches!(self, PipelineAction::Forward { .. } | PipelineAction::Backward { .. })
    }
}
impl fmt::Display for PipelineAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PipelineAction::Forward { micro, chunk } => write!(f, "forward of micro-batch {micro}, chunk {chunk}"),
            PipelineAction::Backward { micro, chunk } => write!(f, "backward of micro-batch {micro}, chunk {chunk}"),
            PipelineAction::SendActivation { micro, chunk, to } => write!(f, "send of micro-batch {micro} behind chunk {chunk} to stage {to}"),
            PipelineAction::ReceiveActivation { micro, chunk, from } => write!(f, "receive of micro-batch {micro} before chunk {chunk} from stage {from}"),
            PipelineAction::SendGradient { micro, chunk, to } => write!(f, "send of the gradient of micro-batch {micro} before chunk {chunk} to stage {to}"),
            PipelineAction::ReceiveGradient { micro, chunk, from } => {
                write!(f, "receive of the gradient of micro-batch {micro} behind chunk {chunk} from stage {from}")
            }
        }
    }
}

/// What every stage does, one action behind another.
///
/// ```
/// use adamant_parallel::pipeline::{PipelineAction::*, PipelineSchedule, pipeline_actions};
///
/// let stages = pipeline_actions(PipelineSchedule::OneForwardOneBackward, 2, 2)?;
/// assert_eq!(stages[1][..4], [
///     ReceiveActivation { micro: 0, chunk: 0, from: 0 },
///     Forward { micro: 0, chunk: 0 },
///     ReceiveActivation { micro: 1, chunk: 0, from: 0 },
///     Backward { micro: 0, chunk: 0 },
/// ]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// No stages, micro-batches or chunks; micro-batches that are no multiple of the stages, where the schedule asks for it.
#[track_caller]
pub fn pipeline_actions(schedule: PipelineSchedule, stages: usize, micro_batches: usize) -> Result<Vec<Vec<PipelineAction>>> {
    let refuse = |text: String| Err(Error::new("pipeline", ErrorKind::Argument(text)));
    let chunks = schedule.chunks();
    if stages == 0 || micro_batches == 0 || chunks == 0 {
        return refuse(format!("{stages} stages, {micro_batches} micro-batches, {chunks} chunks: there is one of each at least"));
    }
    if chunks > 1 && !micro_batches.is_multiple_of(stages) {
        return refuse(format!("{schedule} takes micro-batches by as many as there are stages: {micro_batches} is no multiple of {stages}"));
    }
    let orders: Vec<Vec<PipelineAction>> = (0..stages).map(|stage| order(schedule, stages, micro_batches, stage)).collect();
    placed(&orders, stages, chunks)
        .ok_or_else(|| Error::new("pipeline", ErrorKind::Internal(format!("{schedule} of {micro_batches} micro-batches on {stages} stages"))))
}
/// In which order a stage computes.
fn order(schedule: PipelineSchedule, stages: usize, micro_batches: usize, stage: usize) -> Vec<PipelineAction> {
    let chunks = schedule.chunks();
    // By as many micro-batches as there are stages, each group through all chunks.
    let group = if chunks > 1 { stages } else { micro_batches };
    let mut forward = Vec::new();
    let mut backward = Vec::new();
    for first in (0..micro_batches).step_by(group) {
        let micros = first..(first + group).min(micro_batches);
        forward.extend((0..chunks).flat_map(|chunk| micros.clone().map(move |micro| PipelineAction::Forward { micro, chunk })));
        backward.extend((0..chunks).rev().flat_map(|chunk| micros.clone().map(move |micro| PipelineAction::Backward { micro, chunk })));
    }
    let behind = stages - stage - 1;
    let first = match schedule {
        PipelineSchedule::Gpipe => forward.len(),
        PipelineSchedule::OneForwardOneBackward => behind,
        PipelineSchedule::Interleaved { chunks: 1 } => behind,
        PipelineSchedule::Interleaved { .. } => 2 * behind + (chunks - 1) * stages,
    };
    let (mut forward, mut backward) = (forward.into_iter(), backward.into_iter());
    let mut order: Vec<PipelineAction> = forward.by_ref().take(first).collect();
    for next in forward {
        order.push(next);
        order.extend(backward.next());
    }
    order.extend(backward);
    order
}
/// Where a transfer that a computation leads to goes: the stage and its chunk.
pub(super) fn next_of(action: PipelineAction, stage: usize, stages: usize, chunks: usize) -> Option<(usize, usize)> {
    match action {
        PipelineAction::Forward { chunk, .. } if stage + 1 < stages => Some((stage + 1, chunk)),
        PipelineAction::Forward { chunk, .. } if chunk + 1 < chunks => Some((0, chunk + 1)),
        PipelineAction::Backward { chunk, .. } if stage > 0 => Some((stage - 1, chunk)),
        PipelineAction::Backward { chunk, .. } if chunk > 0 => Some((stages - 1, chunk - 1)),
        _ => None,
    }
}
/// The lists with sends and receives. All stages compute by one clock, of which each computation takes a beat.
fn placed(orders: &[Vec<PipelineAction>], stages: usize, chunks: usize) -> Option<Vec<Vec<PipelineAction>>> {
    let mut lists: Vec<Vec<PipelineAction>> = vec![Vec::new(); stages];
    let mut at = vec![0; stages];
    let mut arrived: HashSet<(usize, PipelineAction)> = HashSet::new();
    let mut done: HashSet<(usize, PipelineAction)> = HashSet::new();
    while at.iter().zip(orders).any(|(k, order)| *k < order.len()) {
        // What can be computed in this beat, by what had arrived before it.
        let ready = |stage: usize| {
            let next = *orders[stage].get(at[stage])?;
            is_ready(next, stage, stages, chunks, &arrived, &done).then_some((stage, next))
        };
        let beat: Vec<(usize, PipelineAction)> = (0..stages).filter_map(ready).collect();
        if beat.is_empty() {
            return None;
        }
        for &(stage, action) in &beat {
            lists[stage].push(action);
            at[stage] += 1;
            done.insert((stage, action));
        }
        for (stage, action) in beat {
            let Some((to, chunk)) = next_of(action, stage, stages, chunks) else { continue };
            let (goes_on, send, receive) = match action {
                PipelineAction::Forward { micro, chunk: own } => (
                    PipelineAction::Forward { micro, chunk },
                    PipelineAction::SendActivation { micro, chunk: own, to },
                    PipelineAction::ReceiveActivation { micro, chunk, from: stage },
                ),
                PipelineAction::Backward { micro, chunk: own } => (
                    PipelineAction::Backward { micro, chunk },
                    PipelineAction::SendGradient { micro, chunk: own, to },
                    PipelineAction::ReceiveGradient { micro, chunk, from: stage },
                ),
                _ => return None,
            };
            arrived.insert((to, goes_on));
            // What a stage leaves to itself needs no transfer.
            if to != stage {
                lists[stage].push(send);
                lists[to].push(receive);
            }
        }
    }
    Some(lists)
}
fn is_ready(
    action: PipelineAction,
    stage: usize,
    stages: usize,
    chunks: usize,
    arrived: &HashSet<(usize, PipelineAction)>,
    done: &HashSet<(usize, PipelineAction)>,
) -> bool {
    match action {
        PipelineAction::Forward { chunk, .. } => (stage == 0 && chunk == 0) || arrived.contains(&(stage, action)),
        PipelineAction::Backward { micro, chunk } => {
            let is_last = stage + 1 == stages && chunk + 1 == chunks;
            done.contains(&(stage, PipelineAction::Forward { micro, chunk })) && (is_last || arrived.contains(&(stage, action)))
        }
        _ => false,
    }
}
