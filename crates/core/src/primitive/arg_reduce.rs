//! The index of the extreme along an axis: a place has no derivative.
pub(super) use super::no_flow::{gradient, reads, tangent};
use super::{Batching, Body, Stacks, form};
use crate::{Attrs, Op, Result, TensorType, op::ArgOp, schedule::lower};
use smallvec::smallvec;

type Fields<'a> = (&'a ArgOp, &'a u8);

pub(super) fn batched((op, axis): Fields<'_>, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_first(Op::ArgReduce { op: *op, axis: axis + 1 })
}
pub(super) fn attributes((_, axis): Fields<'_>, _: &[TensorType], _: &mut form::FormContext) -> Attrs {
    smallvec![form::axis(*axis)]
}
pub(super) const MAKERS: form::Makers =
    &[("argmax", |m| Ok(Op::ArgReduce { op: ArgOp::Max, axis: m.axis()? })), ("argmin", |m| Ok(Op::ArgReduce { op: ArgOp::Min, axis: m.axis()? }))];
pub(super) fn body((op, axis): Fields<'_>) -> Option<Body> {
    let (op, axis) = (*op, *axis);
    Some(Box::new(move |x| Ok(vec![lower::arg_reduce::body(op, axis, &x[0])])))
}
