//! A source written into a destination along an axis.
use super::{Backward, Batching, Forward, Stacks};
use crate::{
    Arg, Op, Result, Tensor,
    composite::{Cotangents, Saves},
};
use smallvec::smallvec;

pub(super) fn reads(_: &u8) -> Option<Saves> {
    Some(Saves::default())
}
pub(super) fn gradient(axis: &u8, back: &Backward<'_>) -> Result<Cotangents> {
    let (g, axis) = (back.cotangent, *axis as usize);
    let len = back.shape(1)[axis];
    let start = if let Arg::Start(start) = back.arg { start } else { 0 };
    let hole = back.zeros(1);
    let destination = back.needs(0).then(|| Tensor::apply(Op::UpdateSlice { axis: axis as u8 }, back.arg, &[g, &hole]));
    Ok(smallvec![destination, back.needs(1).then(|| g.narrow(axis, start, len))])
}
pub(super) fn tangent(_: &u8, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    Ok(Some(Tensor::apply(forward.op.clone(), forward.arg, &[&forward.moved(0), &forward.moved(1)])))
}
pub(super) fn batched(axis: &u8, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_stacks(Op::UpdateSlice { axis: axis + 1 })
}
