//! Element-wise functions of two tensors, broadcast.
use super::{Backward, Batching, Forward, Stacks, expand_to, rounded_once, sum, sum_to, unary::of_row};
use crate::{
    Result, Tensor,
    composite::{Cotangents, Saves},
    scalar::{Binary, BinaryRule, Saved, binary_gradients},
};
use smallvec::smallvec;

pub(super) fn reads(f: &Binary) -> Option<Saves> {
    f.row().differentiable.then(|| of_row(f.row().saves))
}
pub(super) fn gradient(f: &Binary, back: &Backward<'_>) -> Result<Cotangents> {
    let Some((left, right)) = binary_gradients(*f) else { return Ok(back.none()) };
    let (g, args, saves) = (back.cotangent, back.args, f.row().saves);
    let (x, y) = if matches!(saves, Saved::Input | Saved::Both) { (args.input(0)?, args.input(1)?) } else { (g, g) };
    let out = if matches!(saves, Saved::Output | Saved::Both) { args.output(0)? } else { g };
    let one_op = saves == Saved::Nothing || *f == Binary::Mul;
    let side = |k: usize, row: BinaryRule| {
        back.needs(k).then(|| sum_to(&expand_to(&rounded_once(one_op, [g, x, y, out], |[g, x, y, out]| row(g, x, y, out)), g), &back.shape(k)))
    };
    Ok(smallvec![side(0, left), side(1, right)])
}
pub(super) fn tangent(f: &Binary, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    let y = &forward.outputs[0];
    Ok(binary_gradients(*f).and_then(|(left, right)| {
        let side = |k: usize, row: BinaryRule| {
            let moved = |t| rounded_once(false, [t, forward.primal(0), forward.primal(1), y], |[t, a, b, y]| row(t, a, b, y));
            forward.tangent(k).map(|t| expand_to(&moved(t), y))
        };
        sum(side(0, left), side(1, right))
    }))
}
pub(super) fn batched(_: &Binary, batch: &Batching<'_>) -> Result<Stacks> {
    batch.broadcast()
}
