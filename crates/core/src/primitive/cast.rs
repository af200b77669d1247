//! Conversion of values.
pub(super) use super::no_attributes as attributes;
use super::{Backward, Batching, Forward, Stacks, form, one};
use crate::{
    DType, Op, Result, Tensor,
    composite::{Cotangents, Saves},
};

pub(super) fn reads(to: &DType) -> Option<Saves> {
    to.is_float().then(Saves::default)
}
pub(super) fn gradient(_: &DType, back: &Backward<'_>) -> Result<Cotangents> {
    let from = back.args.metas[0].dtype;
    if from.is_float() { one(back.cotangent.cast(from)) } else { Ok(back.none()) }
}
pub(super) fn tangent(_: &DType, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    Ok(if forward.primal(0).meta().dtype.is_float() { forward.same() } else { None })
}
pub(super) fn batched(_: &DType, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_first(batch.op.clone())
}
pub(super) const MAKERS: form::Makers = &[("cast", |m| Ok(Op::Cast(m.output.dtype)))];
