//! The same values on another device.
use super::{Backward, Batching, Forward, Stacks, one};
use crate::{
    DeviceId, Result, Tensor,
    composite::{Cotangents, Saves},
};

pub(super) fn reads(_: &DeviceId) -> Option<Saves> {
    Some(Saves::default())
}
pub(super) fn gradient(_: &DeviceId, back: &Backward<'_>) -> Result<Cotangents> {
    one(back.cotangent.to(back.args.metas[0].device))
}
pub(super) fn tangent(_: &DeviceId, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    Ok(forward.same())
}
pub(super) fn batched(_: &DeviceId, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_first(batch.op.clone())
}
