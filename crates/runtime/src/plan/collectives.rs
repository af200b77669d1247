//! Where collectives stand in a plan: each as soon as its input is ready, so that the steps behind it run while ranks
//! exchange. Among themselves they stay in the order in which they were recorded, which is what all ranks have in common.
//!
//! What is only there to make the input of a collective (numbers that are weighed, joined, stacked) goes up with it: so gradients
//! travel, and their memory is free, while the walk back goes on, however late they were put together.
//!
//! What is gathered is larger than what it is gathered from, and is read once or a few times. So a gather begins when the one
//! before is read, and not before: there is the one that is read and the one that travels. What is gathered for cells alone does
//! not wait for them: one that fails finds every cell as it was.
use super::{Decisions, Graph, PlanStep};
use crate::{
    Op, communicator,
    kernel::KernelKind,
    op::CollectiveKind,
    planted::{Plant, is},
};

fn collective(g: &Graph, step: &PlanStep) -> Option<CollectiveKind> {
    match &g.nodes[step.node as usize].op {
        Op::Collective { kind, .. } => Some(*kind),
        _ => None,
    }
}
/// The storages that a step writes, and those that it reads or writes.
fn written<'s>(g: &'s Graph, d: &'s Decisions, step: &'s PlanStep) -> impl Iterator<Item = u32> + use<'s> {
    step.outputs.iter().map(|u| d.root[u.value(g) as usize])
}
fn read<'s>(g: &'s Graph, d: &'s Decisions, step: &'s PlanStep) -> impl Iterator<Item = u32> + use<'s> {
    step.inputs.iter().map(|u| d.root[u.value(g) as usize])
}
/// Moves collectives forward. One that writes a cell stays: that is done when no bad data can be found any more. A barrier stays: it
/// tells what was found before it.
pub(super) fn begin_early(g: &Graph, d: &Decisions, mut steps: Vec<PlanStep>) -> Vec<PlanStep> {
    // Behind the collective before.
    let mut free = 0;
    // Where the last gather put what came.
    let mut gathered = None;
    for at in 0..steps.len() {
        let Some(kind) = collective(g, &steps[at]) else { continue };
        if steps[at].commits || kind == CollectiveKind::Barrier || is(Plant::ExchangeBegunLate) {
            free = at + 1;
            continue;
        }
        let is_gather = matches!(kind, CollectiveKind::AllGather { .. });
        // A gather waits for the reader of the one before, and so does what makes its input.
        let reads = |steps: &[PlanStep], before| steps[..at].iter().position(|step| !step.commits && read(g, d, step).any(|root| root == before));
        let turn = |steps: &[PlanStep]| gathered.filter(|_| is_gather).and_then(|before| reads(steps, before)).unwrap_or(0);
        // What makes its input, each behind what it needs itself.
        for member in feeders(g, d, &steps, at) {
            let ready = ready(g, d, &steps, member).max(turn(&steps)).min(member);
            steps[ready..=member].rotate_right(1);
            // What it went before is one place further.
            free += usize::from(ready < free && member >= free);
        }
        let ready = ready(g, d, &steps, at).max(free).max(turn(&steps));
        if is_gather {
            gathered = written(g, d, &steps[at]).next();
        }
        steps[ready..=at].rotate_right(1);
        free = ready + 1;
    }
    if is(Plant::ExchangeOutOfOrder) {
        exchange_two(g, &mut steps);
    }
    steps
}
/// The first place at which a step could stand: behind all that write what it reads or writes.
fn ready(g: &Graph, d: &Decisions, steps: &[PlanStep], at: usize) -> usize {
    let own: Vec<u32> = read(g, d, &steps[at]).chain(written(g, d, &steps[at])).collect();
    steps[..at].iter().rposition(|step| written(g, d, step).any(|root| own.contains(&root))).map_or(0, |writer| writer + 1)
}
/// The steps before a collective, in order, that move and weigh numbers for it alone.
fn feeders(g: &Graph, d: &Decisions, steps: &[PlanStep], at: usize) -> Vec<usize> {
    let mut wanted: Vec<u32> = read(g, d, &steps[at]).collect();
    let mut members = Vec::new();
    for k in (0..at).rev() {
        let step = &steps[k];
        if !written(g, d, step).any(|root| wanted.contains(&root)) {
            continue;
        }
        let is_light = matches!(step.kernel.kind, KernelKind::Map { .. } | KernelKind::Copy) && collective(g, step).is_none();
        let is_free = !step.commits && !step.faultable && written(g, d, step).all(|root| wanted.contains(&root));
        let is_alone =
            |root: u32| !steps.iter().enumerate().any(|(j, other)| j != at && !members.contains(&j) && j != k && read(g, d, other).any(|r| r == root));
        if is_light && is_free && written(g, d, step).all(is_alone) {
            wanted.extend(read(g, d, step));
            members.push(k);
        } else {
            // Whatever else is made of that stays before it.
            let kept: Vec<u32> = written(g, d, step).collect();
            wanted.retain(|root| !kept.contains(root));
        }
    }
    members.reverse();
    members
}
/// A planted fault: on an odd rank the first collective of two that stand side by side comes second.
fn exchange_two(g: &Graph, steps: &mut [PlanStep]) {
    let is_odd = |step: &PlanStep| {
        let Op::Collective { group, .. } = &g.nodes[step.node as usize].op else { return false };
        communicator::of(group).is_ok_and(|group| group.rank() % 2 == 1)
    };
    if let Some(first) = steps.windows(2).position(|two| two.iter().all(is_odd)) {
        steps.swap(first, first + 1);
    }
}
