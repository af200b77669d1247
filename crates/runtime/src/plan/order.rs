//! The order of axes in memory of what a Map makes: that of its operands. `relu` of a transposed matrix is a transposed matrix, whose
//! elements lie as those of the operand do, and whoever makes it walks over memory and not across it. PyTorch's element-wise functions
//! keep strides for the same reason.
//!
//! It is decided with the sizes, for values that leave the plan and that nothing else in it looks at. What the step runs over is
//! the permuted space, so no backend knows of it.
use super::{PlanStorage, SizedOperand, SizedStep, Use};
use crate::{
    Shape,
    expr::Instr,
    kernel::KernelKind,
    plan::{Own, Plan},
    shape::{Layout, MAX_RANK},
};
use smallvec::SmallVec;

/// Axes, outermost first.
type AxisOrder = SmallVec<[usize; MAX_RANK]>;

impl Plan {
    /// Orders the axes of step `at` as its operands lie. The layouts that its outputs have then; `None`: they are row-major, and so the
    /// step stays.
    pub(super) fn order_axes(&self, at: usize, sized: &mut SizedStep) -> Option<Layout> {
        let order = order_of(&sized.space, &sized.inputs)?;
        if !self.may_be_reordered(at) {
            return None;
        }
        let space = sized.space;
        let permuted = order.iter().zip(0..).fold(space, |permuted, (&axis, k)| permuted.with(k, space[axis]));
        let dense = Layout::dense(&permuted);
        let mut layout = Layout::dense(&space);
        order.iter().enumerate().for_each(|(k, &axis)| layout.strides[axis] = dense.strides[k]);
        for operand in sized.inputs.iter_mut().chain(&mut sized.outputs) {
            let before = operand.place.layout.strides;
            order.iter().enumerate().for_each(|(k, &axis)| operand.place.layout.strides[k] = before[axis]);
            operand.shape = permuted;
            operand.dense = operand.place.layout.is_dense(&permuted);
        }
        for output in &mut sized.outputs {
            (output.place.layout, output.dense) = (dense, true);
        }
        sized.space = permuted;
        Some(layout)
    }
    /// Does the order of its axes not matter to a step, nor to anybody else in the plan?
    fn may_be_reordered(&self, at: usize) -> bool {
        let step = &self.steps[at];
        let KernelKind::Map { expr, .. } = &step.kernel.kind else { return false };
        let has_places = expr.instrs.iter().any(|i| matches!(i, Instr::Index(_) | Instr::Random(_)));
        !has_places && !step.commits && !step.faultable && step.outputs.iter().all(|o| self.leaves_unseen(at, o))
    }
    /// Does a value that a step makes leave the plan without anybody in it reading it, in memory that is its own?
    fn leaves_unseen(&self, at: usize, output: &Use) -> bool {
        let Use::Whole(v) = *output else { return false };
        let PlanStorage::Own(m) = self.storage[v as usize] else { return false };
        let Own { value, first, last, escapes, taken } = self.own[m as usize];
        let is_alone = value == v && (first as usize, last as usize) == (at, at) && escapes && taken.is_none();
        let others = self.root.iter().enumerate().any(|(of, &root)| root == v && of != v as usize);
        is_alone && !others && self.publish.iter().any(|p| p.1 == v)
    }
}

/// The order in which most bytes of the operands lie that have an element for each position. `None`: row-major, also where as much lies
/// that way as another.
fn order_of(space: &Shape, inputs: &[SizedOperand]) -> Option<AxisOrder> {
    let mut votes: SmallVec<[(AxisOrder, usize); 4]> = SmallVec::new();
    for operand in inputs.iter().filter(|i| i.shape == *space) {
        let Some(order) = descending(space, operand) else { continue };
        match votes.iter_mut().find(|(known, _)| *known == order) {
            Some((_, bytes)) => *bytes += operand.dtype.size(),
            None => votes.push((order, operand.dtype.size())),
        }
    }
    let is_row_major = |order: &AxisOrder| order.is_sorted();
    let (order, _) = votes.into_iter().rev().max_by_key(|(order, bytes)| (*bytes, is_row_major(order)))?;
    (!is_row_major(&order)).then_some(order)
}
/// The axes of an operand by their strides, the largest first. Axes of size 1 stay where they are. `None`: it is broadcast or
/// flipped.
fn descending(space: &Shape, operand: &SizedOperand) -> Option<AxisOrder> {
    let strides = &operand.place.layout.strides;
    let long: AxisOrder = (0..space.rank()).filter(|&axis| space[axis] != 1).collect();
    if long.iter().any(|&axis| strides[axis] <= 0) {
        return None;
    }
    let mut sorted = long.clone();
    sorted.sort_by_key(|&axis| std::cmp::Reverse(strides[axis]));
    let mut order: AxisOrder = (0..space.rank()).collect();
    long.iter().zip(sorted).for_each(|(&place, axis)| order[place] = axis);
    Some(order)
}
