//! A tensor combined over all ranks of a group.
use super::{Backward, Batching, Forward, Stacks, one};
use crate::{
    Arg, Error, Op, Result, Tensor, communicator,
    composite::{Cotangents, Saves},
    op::{CollectiveKind, Group},
};

type Fields<'a> = (&'a CollectiveKind, &'a Group);

pub(super) fn reads(_: Fields<'_>) -> Option<Saves> {
    Some(Saves::default())
}
pub(super) fn gradient((kind, group): Fields<'_>, back: &Backward<'_>) -> Result<Cotangents> {
    let sum = Tensor::apply(Op::Collective { kind: CollectiveKind::AllReduceSum, group: group.clone() }, Arg::None, &[back.cotangent]);
    match kind {
        CollectiveKind::AllReduceSum => one(sum),
        CollectiveKind::Broadcast { root } => {
            let rank = communicator::of(group).map_err(|kind| Error::new("broadcast", kind))?.rank();
            one(if rank == *root { sum } else { sum.zeros_like() })
        }
    }
}
pub(super) fn tangent(_: Fields<'_>, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    Ok(forward.same())
}
pub(super) fn batched(_: Fields<'_>, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_first(batch.op.clone())
}
