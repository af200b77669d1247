//! Tensors that ranks exchange. All act on axis 0 alone, so that the examples of `vmap` are their last axis.
use super::{Backward, Batching, Forward, Stacks, one};
use crate::{
    Arg, Error, ErrorKind, Op, Result, Tensor,
    composite::{Cotangents, Saves},
    op::{CollectiveKind, Group, RankUse, ReduceOp},
};
use smallvec::smallvec;

type Fields<'a> = (&'a CollectiveKind, &'a Group);

fn collective(kind: CollectiveKind, group: &Group, x: &Tensor) -> Tensor {
    Tensor::apply(Op::Collective { kind, group: group.clone() }, Arg::None, &[x])
}
fn total(group: &Group, x: &Tensor) -> Tensor {
    collective(CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike }, group, x)
}
/// This rank's block of axis 0, of one for each rank.
fn own_block(group: &Group, x: &Tensor) -> Tensor {
    let block = x.meta().shape.first().copied().unwrap_or(0) / group.size.max(1) as usize;
    x.narrow(0, group.rank as usize * block, block)
}
/// What comes back to a value that all ranks hold alike.
fn back_to(used: RankUse, group: &Group, cotangent: &Tensor) -> Tensor {
    match used {
        RankUse::Alike => cotangent.clone(),
        RankUse::Apart => total(group, cotangent),
    }
}
fn is_extreme(kind: &CollectiveKind) -> bool {
    matches!(kind, CollectiveKind::AllReduce { reduce, .. } | CollectiveKind::ReduceScatter { reduce, .. } if *reduce != ReduceOp::Sum)
}
/// Each rank's share of an extreme: equal among all that have it. `None`: nobody can say who has it.
fn share(kind: &CollectiveKind, group: &Group, input: &Tensor, extreme: &Tensor) -> Option<Tensor> {
    let CollectiveKind::AllReduce { parts: 0, .. } = kind else { return None };
    // A NaN is the extreme of all that are NaN.
    let has = input.eq(extreme).logical_or(&input.isnan().logical_and(&extreme.isnan())).cast(input.meta().dtype);
    Some(&has / total(group, &has))
}
fn no_rule(kind: &CollectiveKind) -> Error {
    let what = match kind {
        CollectiveKind::Send { .. } | CollectiveKind::Receive { .. } => "has no gradient: what comes back is sent by another call, of its own",
        _ => "of an extreme has no gradient: reduce all of it on every rank, and take a block",
    };
    Error::new(kind.name(), ErrorKind::Transform(format!("{} {what}", kind.name())))
}

pub(super) fn reads((kind, _): Fields<'_>) -> Option<Saves> {
    Some(if is_extreme(kind) { Saves { inputs: 1, outputs: 1 } } else { Saves::default() })
}
pub(super) fn gradient((kind, group): Fields<'_>, back: &Backward<'_>) -> Result<Cotangents> {
    let cotangent = back.cotangent;
    one(match kind {
        CollectiveKind::AllReduce { used, .. } if is_extreme(kind) => {
            let share = share(kind, group, back.args.input(0)?, back.args.output(0)?).ok_or_else(|| no_rule(kind))?;
            back_to(*used, group, cotangent) * share
        }
        CollectiveKind::ReduceScatter { .. } if is_extreme(kind) => return Err(no_rule(kind)),
        CollectiveKind::AllReduce { parts: 0, used, .. } => back_to(*used, group, cotangent),
        // Each node is one term of the sum.
        CollectiveKind::AllReduce { used, .. } => back_to(*used, group, cotangent).unsqueeze(0).expand(back.shape(0)),
        CollectiveKind::ReduceScatter { parts, .. } => {
            let all = collective(CollectiveKind::AllGather { used: RankUse::Apart }, group, cotangent);
            if *parts == 0 { all } else { all.unsqueeze(0).expand(back.shape(0)) }
        }
        CollectiveKind::AllGather { used: RankUse::Alike } => own_block(group, cotangent),
        CollectiveKind::AllGather { used: RankUse::Apart } => collective(CollectiveKind::ReduceScatter { reduce: ReduceOp::Sum, parts: 0 }, group, cotangent),
        CollectiveKind::Broadcast { root, used } => {
            let sum = back_to(*used, group, cotangent);
            if group.rank as usize == *root { sum } else { sum.zeros_like() }
        }
        CollectiveKind::AllToAll => collective(CollectiveKind::AllToAll, group, cotangent),
        CollectiveKind::Replicate => total(group, cotangent),
        CollectiveKind::Barrier => cotangent.clone(),
        CollectiveKind::Send { .. } | CollectiveKind::Receive { .. } => return Err(no_rule(kind)),
    })
}
pub(super) fn tangent((kind, group): Fields<'_>, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    if !is_extreme(kind) {
        return Ok(forward.same());
    }
    let Some(moved) = forward.tangent(0) else { return Ok(None) };
    let share = share(kind, group, forward.primal(0), &forward.outputs[0]).ok_or_else(|| no_rule(kind))?;
    Ok(Some(total(group, &(moved * share))))
}
pub(super) fn batched((kind, group): Fields<'_>, batch: &Batching<'_>) -> Result<Stacks> {
    let stack = &batch.lanes[0].tensor;
    Ok(smallvec![collective(*kind, group, &stack.movedim(0, -1)).movedim(-1, 0)])
}
