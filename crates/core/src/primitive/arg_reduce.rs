//! The index of the extreme along an axis: a place has no derivative.
pub(super) use super::no_flow::{gradient, reads, tangent};
use super::{Batching, Body, Stacks};
use crate::{Op, Result, op::ArgOp, schedule::lower};

type Fields<'a> = (&'a ArgOp, &'a u8);

pub(super) fn batched((op, axis): Fields<'_>, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_first(Op::ArgReduce { op: *op, axis: axis + 1 })
}
pub(super) fn body((op, axis): Fields<'_>) -> Option<Body> {
    let (op, axis) = (*op, *axis);
    Some(Box::new(move |x| Ok(vec![lower::arg_reduce::body(op, axis, &x[0])])))
}
