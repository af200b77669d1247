//! Surrounding with a number; negative widths cut off.
use super::{Backward, Batching, Forward, Stacks, one};
use crate::{
    Op, Result, Tensor,
    composite::{Cotangents, Saves},
    op::PadSpec,
};

pub(super) fn reads(_: &PadSpec) -> Option<Saves> {
    Some(Saves::default())
}
pub(super) fn gradient(pad: &PadSpec, back: &Backward<'_>) -> Result<Cotangents> {
    one(back.cotangent.with_zeros(PadSpec { widths: pad.widths.iter().map(|(a, b)| (-a, -b)).collect() }))
}
pub(super) fn tangent(pad: &PadSpec, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    Ok(forward.tangent(0).map(|t| t.with_zeros(pad.clone())))
}
pub(super) fn batched(pad: &PadSpec, batch: &Batching<'_>) -> Result<Stacks> {
    let widths = std::iter::once((0, 0)).chain(pad.widths.iter().copied()).collect();
    batch.on_first(Op::Pad(Box::new(PadSpec { widths })))
}
