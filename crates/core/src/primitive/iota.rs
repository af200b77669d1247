//! 0, 1, 2, ... along an axis: nothing flows into it.
use super::{Backward, Batch, Forward, Stacks, form};
use crate::{
    Attrs, Op, Result, Tensor, TensorType,
    composite::{Cotangents, Saves},
};
use smallvec::smallvec;

pub(super) fn reads(_: &u8) -> Option<Saves> {
    None
}
pub(super) fn gradient(_: &u8, back: &Backward<'_>) -> Result<Cotangents> {
    Ok(back.none())
}
pub(super) fn tangent(_: &u8, _: &Forward<'_>) -> Result<Option<Tensor>> {
    Ok(None)
}
pub(super) fn batched(_: &u8, batch: &Batch<'_>) -> Result<Stacks> {
    batch.no_input()
}
pub(super) fn attributes(axis: &u8, _: &[TensorType], _: &mut form::Context) -> Attrs {
    smallvec![form::axis(*axis)]
}
pub(super) const MAKERS: form::Makers = &[("iota", |m| Ok(Op::Iota { axis: m.axis()?, ty: m.output.ty() }))];
