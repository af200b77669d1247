//! What ranks do together.
//!
//! A value that differs from rank to rank is *varying*; one that all ranks hold alike is *replicated*. Where a collective makes a replicated
//! value, [`RankUse`] tells what becomes of it, which decides the gradient, so that none is added twice or not at all:
//!
//! | | what comes back | the gradient of an all-reduced sum | of an all-gather |
//! |---|---|---|---|
//! | `Alike` | the same cotangent on every rank | that cotangent | this rank's block of it |
//! | `Apart` | a cotangent of each rank's own | their sum over ranks | the sum over ranks of this rank's block |
use super::{
    ReduceOp, form,
    rules::{arity, computes},
};
use crate::{Attr, Attrs, ErrorKind, MAX_RANK, Op, Shape, TensorType};
use smallvec::smallvec;
use std::{any::Any, fmt, ops::Range, sync::Arc};

/// What becomes of a value that all ranks hold alike.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RankUse {
    /// All ranks go on with it alike, up to one loss that all of them have.
    Alike,
    /// Each rank uses it in its own way: what is learned from is the sum of the ranks' losses.
    Apart,
}
/// A collective operation. What is cut or joined is axis 0.
#[allow(missing_docs, reason = "a variant's line explains its fields")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CollectiveKind {
    /// the sum, maximum or minimum over ranks, on every rank; of `parts` > 0, over so many parts along one tree, whatever the number
    /// of ranks: then axis 0 of the input are the nodes of the tree that this rank holds whole
    AllReduce { reduce: ReduceOp, parts: u32, used: RankUse },
    /// the same, of which each rank gets its block of axis 0 (of `parts` > 0: of axis 1 of the input, behind that of the nodes)
    ReduceScatter { reduce: ReduceOp, parts: u32 },
    /// the tensors of all ranks, one behind the other, on every rank
    AllGather { used: RankUse },
    /// the tensor of one rank, on every rank
    Broadcast { root: usize, used: RankUse },
    /// each rank's blocks go to the ranks of their number; what came lies in the order of the ranks
    AllToAll,
    /// the input itself, which is also given to another rank
    Send { to: usize },
    /// what another rank sends: of the input, only shape and dtype count
    Receive { from: usize },
    /// the input itself, which all ranks hold alike and each uses in its own way: gradients are added over ranks
    Replicate,
    /// the input itself, once all ranks are there; an error where another rank has found bad data in what it computed before
    Barrier,
}

/// A group of ranks. How its ranks reach each other, only those know who made it.
#[derive(Clone)]
pub struct Group {
    /// Tells groups apart. Each rank's group is its own, also where ranks are threads of one process.
    pub id: u64,
    /// this rank
    pub rank: u32,
    /// how many there are
    pub size: u32,
    /// what carries it out
    pub handle: Arc<dyn Any + Send + Sync>,
}
impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size)
    }
}

impl CollectiveKind {
    /// The op's name.
    pub fn name(&self) -> &'static str {
        match self {
            CollectiveKind::AllReduce { .. } => "all_reduce",
            CollectiveKind::ReduceScatter { .. } => "reduce_scatter",
            CollectiveKind::AllGather { .. } => "all_gather",
            CollectiveKind::Broadcast { .. } => "broadcast",
            CollectiveKind::AllToAll => "all_to_all",
            CollectiveKind::Send { .. } => "send",
            CollectiveKind::Receive { .. } => "receive",
            CollectiveKind::Replicate => "replicate",
            CollectiveKind::Barrier => "barrier",
        }
    }
    /// What it makes of a tensor on this rank.
    ///
    /// # Errors
    /// A dtype that is only stored; a root or peer that is no rank; an axis 0 that is no whole number of blocks, or not as long as the
    /// nodes that this rank holds.
    pub fn infer(&self, group: &Group, given: &TensorType) -> Result<TensorType, ErrorKind> {
        let (rank, size) = (group.rank as usize, group.size as usize);
        let is_rank = |rank: usize| if rank < size { Ok(*given) } else { Err(ErrorKind::Argument(format!("there is no rank {rank} among {size}"))) };
        match *self {
            CollectiveKind::AllReduce { reduce, parts, .. } => {
                is_reduced(reduce, given)?;
                of_a_node(given, parts, (rank, size))
            }
            CollectiveKind::ReduceScatter { reduce, parts } => {
                is_reduced(reduce, given)?;
                with_first(&of_a_node(given, parts, (rank, size))?, |n| (n % size == 0).then_some(n / size), size)
            }
            CollectiveKind::AllToAll => with_first(given, |n| (n % size == 0).then_some(n), size),
            CollectiveKind::AllGather { .. } => with_first(given, |n| n.checked_mul(size), size),
            CollectiveKind::Broadcast { root, .. } => is_rank(root),
            CollectiveKind::Send { to: peer } | CollectiveKind::Receive { from: peer } if peer == rank => {
                Err(ErrorKind::Argument(format!("rank {rank} sends nothing to itself")))
            }
            CollectiveKind::Send { to: peer } | CollectiveKind::Receive { from: peer } => is_rank(peer),
            CollectiveKind::Replicate | CollectiveKind::Barrier => Ok(*given),
        }
    }
}
impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            CollectiveKind::AllReduce { reduce, parts: 0, .. } | CollectiveKind::ReduceScatter { reduce, parts: 0 } => write!(f, " ({})", reduce.word()),
            CollectiveKind::AllReduce { reduce, parts, .. } | CollectiveKind::ReduceScatter { reduce, parts } => {
                write!(f, " ({} of {parts} parts)", reduce.word())
            }
            CollectiveKind::Broadcast { root, .. } => write!(f, " from rank {root}"),
            CollectiveKind::Send { to } => write!(f, " to rank {to}"),
            CollectiveKind::Receive { from } => write!(f, " from rank {from}"),
            _ => Ok(()),
        }
    }
}
fn is_reduced(reduce: ReduceOp, given: &TensorType) -> Result<(), ErrorKind> {
    computes(given.dtype)?;
    match reduce {
        ReduceOp::Prod => Err(ErrorKind::Argument("ranks reduce by sum, maximum or minimum".into())),
        _ if given.dtype == crate::DType::Bool => Err(ErrorKind::Dtype("ranks do not reduce bool: cast it to an integer".into())),
        _ => Ok(()),
    }
}
/// What one node is of what a rank brings to a reduction over so many parts; of 0, all of it.
fn of_a_node(given: &TensorType, parts: u32, (rank, size): (usize, usize)) -> Result<TensorType, ErrorKind> {
    if parts == 0 {
        return Ok(*given);
    }
    if (parts as usize) < size {
        return Err(ErrorKind::Argument(format!("{parts} parts on {size} ranks: every rank holds one at least")));
    }
    let nodes = tree_nodes(parts as usize, rank, size).count();
    match given.shape.split_first() {
        Some((first, rest)) if *first == nodes => Ok(TensorType { shape: Shape::new(rest)?, ..*given }),
        _ => {
            let expected = format!("axis 0 are the {nodes} nodes that rank {rank} of {size} holds of {parts} parts");
            Err(ErrorKind::Shape { shape: given.shape, expected })
        }
    }
}
/// The type with another length of axis 0.
fn with_first(given: &TensorType, length: impl Fn(usize) -> Option<usize>, size: usize) -> Result<TensorType, ErrorKind> {
    let made = given.shape.first().and_then(|&n| length(n));
    let Some(made) = made else {
        return Err(ErrorKind::Shape { shape: given.shape, expected: format!("axis 0 is cut into {size} blocks of one size") });
    };
    let mut dims: smallvec::SmallVec<[usize; MAX_RANK]> = given.shape.iter().copied().collect();
    dims[0] = made;
    Ok(TensorType { shape: Shape::new(&dims)?, ..*given })
}
/// The parts that a rank holds.
pub fn rank_parts(parts: usize, rank: usize, size: usize) -> Range<usize> {
    // In 128 bits, as the product may be large.
    let bound = |rank: usize| (parts as u128 * rank as u128 / size.max(1) as u128) as usize;
    bound(rank)..bound(rank + 1)
}
/// The nodes of the tree over all parts that a rank holds whole, in order, each by the parts that it covers: the largest that lie in
/// what it holds. A node of level j covers 2^j parts that begin at a multiple of 2^j, fewer at the end of the tree.
pub fn tree_nodes(parts: usize, rank: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    let held = rank_parts(parts, rank, size);
    let mut at = held.start;
    std::iter::from_fn(move || {
        if at >= held.end {
            return None;
        }
        let mut width = 1usize;
        while at % (2 * width) == 0 && (at + 2 * width).min(parts) <= held.end && width < parts {
            width *= 2;
        }
        let node = at..(at + width).min(parts);
        at = node.end;
        Some(node)
    })
}
pub(super) fn infer((kind, group): (&CollectiveKind, &Group), inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
    arity(kind.name(), 1, inputs)?;
    computes(inputs[0].dtype)?;
    kind.infer(group, &inputs[0])
}

/// The attributes in a graph's text.
pub(crate) fn attributes((kind, group): (&CollectiveKind, &Group), _: &[TensorType], context: &mut form::FormContext<'_>) -> Attrs {
    let mut attrs: Attrs = smallvec![("group", Attr::Int(context.group(group)))];
    match *kind {
        CollectiveKind::AllReduce { reduce, parts, .. } | CollectiveKind::ReduceScatter { reduce, parts } => {
            attrs.push(("by", Attr::Text(reduce.word().into())));
            attrs.push(("parts", Attr::Int(i64::from(parts))));
        }
        CollectiveKind::Broadcast { root, .. } => attrs.push(("root", Attr::Int(root as i64))),
        CollectiveKind::Send { to: peer } | CollectiveKind::Receive { from: peer } => attrs.push(("peer", Attr::Int(peer as i64))),
        CollectiveKind::AllGather { .. } | CollectiveKind::AllToAll | CollectiveKind::Replicate | CollectiveKind::Barrier => {}
    }
    if let CollectiveKind::AllReduce { used, .. } | CollectiveKind::AllGather { used } | CollectiveKind::Broadcast { used, .. } = kind {
        attrs.push(("apart", Attr::Bool(*used == RankUse::Apart)));
    }
    attrs
}
fn group(m: &mut form::Made<'_>) -> form::FormResult<Group> {
    let group = m.given.size("group")?;
    m.context.groups.get(group).cloned().ok_or_else(|| ErrorKind::Argument(format!("group {group} was not given to the reader of the text")))
}
fn reduce(m: &mut form::Made<'_>) -> form::FormResult<ReduceOp> {
    let word = m.given.text("by")?;
    let found = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min].into_iter().find(|op| op.word() == word);
    found.ok_or_else(|| ErrorKind::Argument(format!("ranks reduce by \"sum\", \"max\" or \"min\", not by {word:?}")))
}
fn parts(m: &mut form::Made<'_>) -> form::FormResult<u32> {
    let parts = m.given.size("parts")?;
    u32::try_from(parts).map_err(|_| ErrorKind::Argument(format!("{parts} parts are too many")))
}
fn used(m: &mut form::Made<'_>) -> form::FormResult<RankUse> {
    Ok(if m.given.bool("apart")? { RankUse::Apart } else { RankUse::Alike })
}
fn made(m: &mut form::Made<'_>, kind: CollectiveKind) -> form::FormResult<Op> {
    let group = group(m)?;
    m.inputs.first().map_or(Ok(()), |given| kind.infer(&group, given).map(drop))?;
    Ok(Op::Collective { kind, group })
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers = &[
    ("all_reduce", |m| {
        let kind = CollectiveKind::AllReduce { reduce: reduce(m)?, parts: parts(m)?, used: used(m)? };
        made(m, kind)
    }),
    ("reduce_scatter", |m| {
        let kind = CollectiveKind::ReduceScatter { reduce: reduce(m)?, parts: parts(m)? };
        made(m, kind)
    }),
    ("all_gather", |m| {
        let kind = CollectiveKind::AllGather { used: used(m)? };
        made(m, kind)
    }),
    ("broadcast", |m| {
        let kind = CollectiveKind::Broadcast { root: m.given.size("root")?, used: used(m)? };
        made(m, kind)
    }),
    ("all_to_all", |m| made(m, CollectiveKind::AllToAll)),
    ("send", |m| {
        let kind = CollectiveKind::Send { to: m.given.size("peer")? };
        made(m, kind)
    }),
    ("receive", |m| {
        let kind = CollectiveKind::Receive { from: m.given.size("peer")? };
        made(m, kind)
    }),
    ("replicate", |m| made(m, CollectiveKind::Replicate)),
    ("barrier", |m| made(m, CollectiveKind::Barrier)),
];
