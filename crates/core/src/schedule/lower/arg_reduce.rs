//! The index of an extreme: two reductions. The first finds the extreme, the second the least index that holds it.
use crate::{
    AxisSet, DType, Tensor,
    op::{ArgOp, ReduceOp},
};

pub(crate) fn body(op: ArgOp, axis: u8, x: &Tensor) -> Tensor {
    let along = AxisSet::one(axis as usize);
    let extreme = x.reduce(if op == ArgOp::Max { ReduceOp::Max } else { ReduceOp::Min }, along, true);
    // Where one element is NaN the extreme is, and equal to nothing: then the elements that are NaN are those that count.
    let hit = x.eq(&extreme).logical_or(x.ne(x));
    hit.where_(x.iota_like(axis, DType::I64), i64::MAX).reduce(ReduceOp::Min, along, true)
}
