//! Elements by index along an axis.
use super::{Backward, Batching, Body, Forward, MaybeBatched, Stacks, scatter::scatter};
use crate::{
    Arg, Op, Result, Tensor,
    composite::{Cotangents, Saves},
    op::ScatterMode,
    shape::MAX_RANK,
};
use smallvec::{SmallVec, smallvec};

pub(super) fn gather(axis: u8, x: &Tensor, index: &Tensor) -> Tensor {
    Tensor::apply(Op::Gather { axis }, Arg::None, &[x, index])
}
pub(super) fn reads(_: &u8) -> Option<Saves> {
    Some(Saves { inputs: 0b10, outputs: 0 })
}
pub(super) fn gradient(axis: &u8, back: &Backward<'_>) -> Result<Cotangents> {
    Ok(smallvec![Some(scatter(*axis, ScatterMode::Add, &back.zeros(0), back.args.input(1)?, back.cotangent)), None])
}
pub(super) fn tangent(axis: &u8, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    Ok(forward.tangent(0).map(|t| gather(*axis, t, forward.primal(1))))
}
/// A shared table is not repeated: the examples' indices are one longer list of indices.
pub(super) fn batched(axis: &u8, batch: &Batching<'_>) -> Result<Stacks> {
    let at = *axis as usize;
    let [MaybeBatched { tensor: table, batched: false }, MaybeBatched { tensor: index, batched: true }] = batch.lanes else {
        return batch.on_stacks(Op::Gather { axis: axis + 1 });
    };
    // [examples, .., n, ..] to [.., examples, n, ..] to [.., examples n, ..], and back.
    let shape = index.meta().shape;
    let mut order: SmallVec<[isize; MAX_RANK]> = (1..shape.rank() as isize).collect();
    order.insert(at, 0);
    let beside = index.permute(&order[..]);
    let apart = beside.meta().shape;
    let merged = beside.reshape(apart.without(at).with(at, shape[0] * shape[at + 1]));
    let mut back: SmallVec<[isize; MAX_RANK]> = (0..shape.rank() as isize).filter(|&k| k != at as isize).collect();
    back.insert(0, at as isize);
    Ok(smallvec![gather(*axis, table, &merged).reshape(apart).permute(&back[..])])
}
pub(super) fn body(_: &u8) -> Option<Body> {
    None
}
