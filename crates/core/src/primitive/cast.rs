//! Conversion of values.
use super::{Backward, Batching, Forward, Stacks, one};
use crate::{
    DType, Result, Tensor,
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
