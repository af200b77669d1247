//! What ranks do together.
use crate::{
    ErrorKind, HostArray, Scalar, TensorType,
    host::{binary, map},
    scalar::Binary,
};
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
