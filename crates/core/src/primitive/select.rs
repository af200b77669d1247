//! condition ? a : b, broadcast.
use super::{Backward, Batching, Forward, Stacks, expand_to, sum_to};
use crate::{
    Arg, Op, Result, Tensor,
    composite::{Cotangents, Saves},
};
use smallvec::smallvec;

pub(super) fn reads((): ()) -> Option<Saves> {
    Some(Saves { inputs: 0b001, outputs: 0 })
}
pub(super) fn gradient((): (), back: &Backward<'_>) -> Result<Cotangents> {
    let (c, g) = (back.args.input(0)?, back.cotangent);
    let left = back.needs(1).then(|| sum_to(&c.where_(g, 0.0), &back.shape(1)));
    let right = back.needs(2).then(|| sum_to(&c.where_(0.0, g), &back.shape(2)));
    Ok(smallvec![None, left, right])
}
pub(super) fn tangent((): (), forward: &Forward<'_>) -> Result<Option<Tensor>> {
    let y = &forward.outputs[0];
    let side = |k: usize| forward.tangent(k).cloned().unwrap_or_else(|| Tensor::full_on((), 0, y.meta().dtype, y.meta().device));
    let chosen = Tensor::apply(Op::Select, Arg::None, &[forward.primal(0), &side(1), &side(2)]);
    Ok(Some(expand_to(&chosen, y)))
}
pub(super) fn batched((): (), batch: &Batching<'_>) -> Result<Stacks> {
    batch.broadcast()
}
