//! The blocks in which a plan's own memory lies.
use super::{NONE, Plan, PlanStorage, Use};
use crate::Op;

/// Temporaries share blocks as their lives allow: first come, smallest block that is large enough, or one that grows by an eighth at most.
pub(super) fn blocks(plan: &Plan, bytes: &[usize]) -> (Vec<u32>, Vec<(usize, u32)>) {
    let mut block = vec![NONE; bytes.len()];
    let (mut blocks, mut free_at): (Vec<(usize, u32)>, Vec<u32>) = (Vec::new(), Vec::new());
    let mut order: Vec<usize> = (0..bytes.len()).filter(|&m| plan.own[m].taken.is_none()).collect();
    order.sort_by_key(|&m| plan.own[m].first);
    for m in order {
        let o = &plan.own[m];
        let fits = |size: usize| size >= bytes[m] && size <= bytes[m].saturating_mul(2).max(4096);
        let grows = |size: usize| size < bytes[m] && bytes[m] - size <= size / 8;
        let free = |b: &usize| !o.escapes && free_at[*b] != NONE && free_at[*b] <= o.first;
        let shared = (0..blocks.len()).filter(free).filter(|&b| fits(blocks[b].0)).min_by_key(|&b| blocks[b].0);
        let shared = shared.or_else(|| (0..blocks.len()).filter(free).filter(|&b| grows(blocks[b].0)).max_by_key(|&b| blocks[b].0));
        let b = shared.unwrap_or_else(|| {
            blocks.push((bytes[m], o.value));
            free_at.push(0);
            blocks.len() - 1
        });
        blocks[b].0 = blocks[b].0.max(bytes[m]);
        // A collective has read its input when it is begun: what it gives may come to lie there.
        free_at[b] = if o.escapes { NONE } else { o.last + u32::from(!is_exchanged(plan, m)) };
        block[m] = b as u32;
    }
    let mut by_size: Vec<u32> = (0..blocks.len() as u32).collect();
    by_size.sort_by_key(|&b| std::cmp::Reverse(blocks[b as usize].0));
    let mut place = vec![0; blocks.len()];
    by_size.iter().enumerate().for_each(|(k, &b)| place[b as usize] = k as u32);
    block.iter_mut().filter(|b| **b != NONE).for_each(|b| *b = place[*b as usize]);
    (block, by_size.iter().map(|&b| blocks[b as usize]).collect())
}
/// Is some memory of the plan's own last used as what a collective reads?
fn is_exchanged(plan: &Plan, m: usize) -> bool {
    let Some(step) = plan.steps.get(plan.own[m].last as usize) else { return false };
    let lies_here = |u: &Use| plan.storage[u.value(&plan.graph) as usize] == PlanStorage::Own(m as u32);
    let is_collective = matches!(plan.graph.nodes[step.node as usize].op, Op::Collective { .. });
    is_collective && step.inputs.iter().any(lies_here) && !step.outputs.iter().any(lies_here)
}
