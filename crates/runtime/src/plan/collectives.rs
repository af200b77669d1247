//! Where collectives stand in a plan: each as soon as its input is ready, so that the steps behind it run while ranks
//! exchange. Among themselves they stay in the order in which they were recorded, which is what all ranks have in common.
use super::{Decisions, Graph, PlanStep};
use crate::{
    Op, communicator,
    planted::{Plant, is},
};

fn is_collective(g: &Graph, step: &PlanStep) -> bool {
    matches!(g.nodes[step.node as usize].op, Op::Collective { .. })
}
/// Moves collectives forward. One that writes a cell stays: that is done when no bad data can be found any more.
pub(super) fn begin_early(g: &Graph, d: &Decisions, mut steps: Vec<PlanStep>) -> Vec<PlanStep> {
    // Behind the collective before.
    let mut free = 0;
    for at in 0..steps.len() {
        if !is_collective(g, &steps[at]) {
            continue;
        }
        let touches = |step: &PlanStep| {
            let root = |v: u32| d.root[v as usize];
            let own: Vec<u32> = steps[at].inputs.iter().chain(&steps[at].outputs).map(|u| root(u.value(g))).collect();
            step.outputs.iter().any(|u| own.contains(&root(u.value(g))))
        };
        let ready = steps[..at].iter().rposition(touches).map_or(0, |writer| writer + 1).max(free);
        let ready = if steps[at].commits || is(Plant::ExchangeBegunLate) { at } else { ready };
        steps[ready..=at].rotate_right(1);
        free = ready + 1;
    }
    if is(Plant::ExchangeOutOfOrder) {
        exchange_two(g, &mut steps);
    }
    steps
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
