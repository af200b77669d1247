//! A tensor combined over all ranks of a group.
use super::{Backward, Batching, Forward, Stacks, form, one};
use crate::{
    Arg, Attrs, Error, ErrorKind, Op, Result, Tensor, TensorType, communicator,
    composite::{Attr, Cotangents, Saves},
    op::{CollectiveKind, Group},
};
use smallvec::smallvec;

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
pub(super) fn attributes((kind, group): Fields<'_>, _: &[TensorType], context: &mut form::FormContext) -> Attrs {
    let group = ("group", Attr::Int(context.group(group)));
    match kind {
        CollectiveKind::AllReduceSum => smallvec![group],
        CollectiveKind::Broadcast { root } => smallvec![group, ("root", Attr::Int(*root as i64))],
    }
}
fn group(m: &mut form::Made<'_>) -> form::FormResult<Group> {
    let group = m.given.size("group")?;
    m.context.groups.get(group).cloned().ok_or_else(|| ErrorKind::Argument(format!("group {group} was not given to the reader of the text")))
}
pub(super) const MAKERS: form::Makers = &[
    ("all_reduce", |m| Ok(Op::Collective { kind: CollectiveKind::AllReduceSum, group: group(m)? })),
    ("broadcast", |m| {
        let (group, root) = (group(m)?, m.given.size("root")?);
        let ranks = communicator::of(&group)?.size();
        if root >= ranks {
            return Err(ErrorKind::Argument(format!("there is no rank {root} among {ranks}")));
        }
        Ok(Op::Collective { kind: CollectiveKind::Broadcast { root }, group })
    }),
];
