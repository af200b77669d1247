//! What ranks do together.
use super::form;
use crate::{
    Attr, Attrs, ErrorKind, HostArray, Op, Scalar, TensorType,
    host::{binary, map},
    scalar::Binary,
};
use smallvec::smallvec;
use std::{any::Any, sync::Arc};

/// A collective operation.
#[allow(missing_docs, reason = "a variant's line explains its fields")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CollectiveKind {
    /// the sum over ranks, on every rank, added in rank order
    AllReduceSum,
    /// the tensor of one rank, on every rank
    Broadcast { root: usize },
}

/// A group of ranks. What it is and how its ranks reach each other, only those know who made it.
#[derive(Clone)]
pub struct Group {
    /// Tells groups apart. Each rank's group is its own, also where ranks are threads of one process.
    pub id: u64,
    /// what carries it out
    pub handle: Arc<dyn Any + Send + Sync>,
}

/// What a collective returns, from the tensors of all ranks in their order.
///
/// # Errors
/// A root that is no rank; a group without ranks.
pub fn combine_ranks(kind: CollectiveKind, parts: &[HostArray]) -> Result<HostArray, ErrorKind> {
    let Some(first) = parts.first() else { return Err(ErrorKind::Internal("a group without ranks".into())) };
    match kind {
        CollectiveKind::Broadcast { root } => parts.get(root).cloned().ok_or_else(|| ErrorKind::Argument(format!("rank {root} does not exist"))),
        CollectiveKind::AllReduceSum => Ok(parts[1..].iter().fold(first.clone(), |sum, part| {
            let add = |i: &[usize]| binary(Binary::Add, sum.scalar(sum.at(i)), part.scalar(part.at(i)), sum.dtype).unwrap_or(Scalar::Int(0));
            map(&TensorType { shape: sum.shape, dtype: sum.dtype }, add)
        })),
    }
}

/// The attributes in a graph's text.
pub(crate) fn attributes((kind, group): (&CollectiveKind, &Group), _: &[TensorType], context: &mut form::FormContext<'_>) -> Attrs {
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
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers = &[
    ("all_reduce", |m| Ok(Op::Collective { kind: CollectiveKind::AllReduceSum, group: group(m)? })),
    ("broadcast", |m| {
        let (group, root) = (group(m)?, m.given.size("root")?);
        let ranks = m.context.environment.ranks(&group)?;
        if root >= ranks {
            return Err(ErrorKind::Argument(format!("there is no rank {root} among {ranks}")));
        }
        Ok(Op::Collective { kind: CollectiveKind::Broadcast { root }, group })
    }),
];
