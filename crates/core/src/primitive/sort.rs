//! Stable sorting along an axis: values and where they were.
use super::{Backward, Batching, Body, Forward, Stacks, gather::gather, one, scatter::scatter};
use crate::{
    Op, Result, Tensor,
    composite::{Cotangents, Saves},
    op::ScatterMode,
    schedule::lower,
};

type Fields<'a> = (&'a u8, &'a bool);

pub(super) fn reads(_: Fields<'_>) -> Option<Saves> {
    Some(Saves { inputs: 0, outputs: 0b10 })
}
pub(super) fn gradient((axis, _): Fields<'_>, back: &Backward<'_>) -> Result<Cotangents> {
    one(scatter(*axis, ScatterMode::Add, &back.zeros(0), back.args.output(1)?, back.cotangent))
}
pub(super) fn tangent((axis, _): Fields<'_>, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    Ok(forward.tangent(0).map(|t| gather(*axis, t, &forward.outputs[1])))
}
pub(super) fn batched((axis, descending): Fields<'_>, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_first(Op::Sort { axis: axis + 1, descending: *descending })
}
pub(super) fn body((axis, descending): Fields<'_>) -> Option<Body> {
    let (axis, descending) = (*axis, *descending);
    Some(Box::new(move |x| lower::sort::body(axis, descending, &x[0])))
}
