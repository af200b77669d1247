//! The same values on another device.
use super::{Backward, Batching, Forward, Stacks, form, one};
use crate::{
    Attrs, DeviceId, Op, Result, Tensor, TensorType,
    composite::{Attr, Cotangents, Saves},
    graph::place,
};
use smallvec::smallvec;

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
pub(super) fn attributes(to: &DeviceId, _: &[TensorType], context: &mut form::FormContext) -> Attrs {
    smallvec![("device", Attr::Text(place::name_of(*to, context.home).into()))]
}
pub(super) const MAKERS: form::Makers = &[("to", |m| Ok(Op::Transfer(place::device(&m.given.text("device")?, m.context.home)?.id())))];
