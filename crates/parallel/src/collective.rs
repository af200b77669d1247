//! What ranks do with tensors together, along any axis: the ops of [`CollectiveKind`] with their gradients, as functions.
//!
//! In a group of one rank each of them gives its input back, and records nothing.
//!
//! Which [`RankUse`] a result has decides its gradient: [`RankUse::Alike`], where all ranks go on with it as one, up to one loss that all have;
//! [`RankUse::Apart`], where each goes on in its own way.
use adamant_core::{
    Arg, Error, ErrorKind, Op, Result, Tensor,
    op::{CollectiveKind, Group, RankUse, ReduceOp},
};

#[track_caller]
fn collective(kind: CollectiveKind, x: &Tensor, group: &Group) -> Tensor {
    if group.size <= 1 {
        return x.clone();
    }
    Tensor::apply(Op::Collective { kind, group: group.clone() }, Arg::None, &[x])
}
/// Collectives cut and join axis 0.
#[track_caller]
fn along(kind: CollectiveKind, x: &Tensor, axis: usize, group: &Group) -> Tensor {
    if axis == 0 || group.size <= 1 {
        return collective(kind, x, group);
    }
    collective(kind, &x.movedim(axis as isize, 0), group).movedim(0, axis as isize)
}
/// The sum over ranks, on all of them.
#[track_caller]
pub fn all_reduce(x: &Tensor, group: &Group, used: RankUse) -> Tensor {
    collective(CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used }, x, group)
}
/// The maximum over ranks, on all of them.
#[track_caller]
pub fn all_max(x: &Tensor, group: &Group, used: RankUse) -> Tensor {
    collective(CollectiveKind::AllReduce { reduce: ReduceOp::Max, parts: 0, used }, x, group)
}
/// The pieces of all ranks one behind another along an axis, which are of one length.
#[track_caller]
pub fn all_gather(x: &Tensor, axis: usize, group: &Group, used: RankUse) -> Tensor {
    along(CollectiveKind::AllGather { used }, x, axis, group)
}
/// The sum over ranks, of which each gets its block of an axis.
#[track_caller]
pub fn reduce_scatter(x: &Tensor, axis: usize, group: &Group) -> Tensor {
    along(CollectiveKind::ReduceScatter { reduce: ReduceOp::Sum, parts: 0 }, x, axis, group)
}
/// Blocks of axis 0, of which each rank gets that of its number from all.
#[track_caller]
pub fn all_to_all(x: &Tensor, group: &Group) -> Tensor {
    collective(CollectiveKind::AllToAll, x, group)
}
/// The value itself, which all ranks hold alike and each goes on with in its own way: what comes back is added over ranks.
#[track_caller]
pub fn replicate(x: &Tensor, group: &Group) -> Tensor {
    collective(CollectiveKind::Replicate, x, group)
}
/// This rank's block of an axis of a value that all hold alike.
///
/// # Errors
/// An axis that the ranks do not divide.
#[track_caller]
pub fn own_block(x: &Tensor, axis: usize, group: &Group) -> Result<Tensor> {
    let (shape, size) = (x.shape()?, group.size as usize);
    if size == 1 {
        return Ok(x.clone());
    }
    match shape.get(axis) {
        Some(n) if n % size == 0 => replicate(x, group).narrow(axis as isize, group.rank as usize * (n / size), n / size).ok(),
        _ => Err(Error::new("own_block", ErrorKind::Shape { shape, expected: format!("an axis {axis} of which each of {size} ranks gets as much") })),
    }
}
