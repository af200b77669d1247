//! Values that are there already and tensors filled with a number: nothing flows into them.
use super::{Backward, Batch, Forward, Stacks, form};
use crate::{
    Attrs, Op, Result, Tensor, TensorType,
    composite::{Cotangents, Saves},
};

pub(super) fn reads((): ()) -> Option<Saves> {
    None
}
pub(super) fn gradient((): (), back: &Backward<'_>) -> Result<Cotangents> {
    Ok(back.none())
}
pub(super) fn tangent((): (), _: &Forward<'_>) -> Result<Option<Tensor>> {
    Ok(None)
}
pub(super) fn batched((): (), batch: &Batch<'_>) -> Result<Stacks> {
    batch.no_input()
}
pub(super) fn attributes((): (), _: &[TensorType], _: &mut form::Context) -> Attrs {
    Attrs::new()
}
pub(super) const MAKERS: form::Makers = &[("full", |m| Ok(Op::Const(m.output.ty())))];
