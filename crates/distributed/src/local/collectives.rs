//! The collectives, by stages.
//!
//! | | what a rank writes | what it reads |
//! |---|---|---|
//! | all-reduce, short | all of its own | all of the others', and adds it: every rank the same |
//! | all-reduce, long | by chunks: what the others add; what it has added of the chunk before | its piece of the others', which it adds; what they added |
//! | all-reduce, fast | as the long one; what comes first is added first | |
//! | reduce-scatter | by chunks: what the others add | its block of the others', which it adds |
//! | all-gather, broadcast | by chunks: its own | all of the others' |
//! | all-to-all | by chunks: a block for each | what the others have for it |
//!
//! Nothing that a rank only needs itself goes through shared memory. Additions are those of [`ReductionTree::fold`].
use super::{
    LocalRank,
    layout::{LINE, SLOT, whole_lines},
    stage::Stages,
};
use crate::ErrorKind;
use adamant_ir::{DType, op::ReduceOp};
use adamant_runtime::communicator::{ReductionTree, TreeNodes};
use smallvec::SmallVec;
use std::ops::Range;

/// An all-reduce of at most so many bytes a rank is one stage.
const SHORT: usize = 16 << 10;
/// Of a slot, what a chunk of an all-reduce takes; the rest are results.
const INPUTS: usize = SLOT / 2;

fn wrong(what: String) -> ErrorKind {
    ErrorKind::Internal(what)
}
/// The nodes that each rank brings, and the most that one does.
fn nodes_of(on: &LocalRank, tree: &ReductionTree) -> (SmallVec<[TreeNodes; 8]>, usize) {
    let nodes: SmallVec<[TreeNodes; 8]> = (0..on.members.len()).map(|rank| tree.nodes(rank)).collect();
    let most = nodes.iter().map(|nodes| nodes.len()).max().unwrap_or(0);
    (nodes, most)
}
/// Is a sum of so many bytes one stage, by which all goes to all?
pub(super) fn is_short(tree: &ReductionTree, bytes: usize) -> bool {
    let most = (0..tree.size).map(|rank| tree.nodes(rank).len()).max().unwrap_or(0);
    most * bytes <= SHORT
}
/// A node, and its bytes.
type Brought<'b> = SmallVec<[(Range<usize>, &'b [u8]); 8]>;

/// The sum over all parts, on every rank.
pub(super) fn all_reduce(stages: &mut Stages<'_>, tree: &ReductionTree, own: &[u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
    let on = stages.on;
    let (nodes, most) = nodes_of(on, tree);
    if own.len() != nodes[on.rank].len() * sum.len() || tree.size != on.members.len() {
        return Err(wrong(format!("{} bytes are not {} nodes of {} bytes", own.len(), nodes[on.rank].len(), sum.len())));
    }
    if most * sum.len() <= SHORT {
        return all_reduce_short(stages, tree, &nodes, own, sum);
    }
    let n = sum.len();
    let chunk = whole_lines(INPUTS / most);
    if chunk == 0 {
        return Err(wrong(format!("{most} nodes on one rank are too many")));
    }
    let chunks = n.div_ceil(chunk);
    let range = |k: usize| k * chunk..((k + 1) * chunk).min(n);
    // Of a chunk, each of this rank's nodes without this rank's own piece.
    let bring = |stages: &Stages<'_>, k: usize| {
        let (place, range) = (stages.own_slot(), range(k));
        let piece = on.layout.piece(on.rank, range.len());
        for (node, bytes) in own.chunks_exact(n).enumerate() {
            let bytes = &bytes[range.clone()];
            on.segment.write(place + node * chunk, &bytes[..piece.start]);
            on.segment.write(place + node * chunk + piece.end, &bytes[piece.end..]);
        }
    };
    bring(stages, 0);
    for k in 0..=chunks {
        stages.meet()?;
        if k < chunks {
            let range = range(k);
            let piece = on.layout.piece(on.rank, range.len());
            if !piece.is_empty() {
                let mut brought = Brought::new();
                for (rank, nodes) in nodes.iter().enumerate() {
                    for (node, parts) in nodes.iter().enumerate() {
                        let bytes = match rank == on.rank {
                            true => &own[node * n + range.start..][piece.clone()],
                            false => on.segment.bytes(stages.slot(rank) + node * chunk + piece.start, piece.len()),
                        };
                        brought.push((parts.clone(), bytes));
                    }
                }
                let added = &mut sum[range][piece];
                tree.fold(&brought, added)?;
                on.segment.write(stages.own_slot() + INPUTS, added);
            }
        }
        if k > 0 {
            let range = range(k - 1);
            for rank in (0..on.members.len()).filter(|rank| *rank != on.rank) {
                let piece = on.layout.piece(rank, range.len());
                let added = on.segment.bytes(stages.slot(rank) + INPUTS, piece.len());
                sum[range.clone()][piece].copy_from_slice(added);
            }
        }
        if k + 1 < chunks {
            bring(stages, k + 1);
        }
    }
    Ok(())
}
/// The sum of one tensor a rank, on every rank the same; pieces are added in the order in which they come, so that its bits may change from
/// run to run. What is short is added along the tree, which waits no longer.
pub(super) fn all_reduce_as_they_come(stages: &mut Stages<'_>, reduce: ReduceOp, dtype: DType, own: &[u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
    let (on, n, element) = (stages.on, sum.len(), dtype.size());
    let tree = ReductionTree::of_ranks(reduce, dtype, on.members.len());
    if own.len() != n || n % element != 0 {
        return Err(wrong(format!("{} bytes of {dtype} where {n} are to come", own.len())));
    }
    if n <= SHORT || on.members.len() == 1 {
        return all_reduce(stages, &tree, own, sum);
    }
    let pair = ReductionTree::of_ranks(reduce, dtype, 2);
    let chunk = whole_lines(INPUTS);
    let chunks = n.div_ceil(chunk);
    let range = |k: usize| k * chunk..((k + 1) * chunk).min(n);
    let bring = |stages: &Stages<'_>, k: usize| {
        let (place, bytes) = (stages.own_slot(), &own[range(k)]);
        let piece = on.layout.piece(on.rank, bytes.len());
        on.segment.write(place, &bytes[..piece.start]);
        on.segment.write(place + piece.end, &bytes[piece.end..]);
    };
    bring(stages, 0);
    let mut spare = Vec::new();
    for k in 0..=chunks {
        let added = if k < chunks { on.layout.piece(on.rank, range(k).len()) } else { 0..0 };
        let place = range(k.min(chunks - 1)).start;
        let mut is_first = true;
        stages.meet_each(|stages, peer| {
            if !added.is_empty() {
                let sum = &mut sum[place..][added.clone()];
                let theirs = on.segment.bytes(stages.slot(peer) + added.start, added.len());
                if std::mem::take(&mut is_first) {
                    pair.fold(&[(0..1, &own[place..][added.clone()]), (1..2, theirs)], sum)?;
                } else {
                    spare.clear();
                    spare.extend_from_slice(sum);
                    pair.fold(&[(0..1, &spare), (1..2, theirs)], sum)?;
                }
            }
            if k > 0 {
                let range = range(k - 1);
                let piece = on.layout.piece(peer, range.len());
                let came = on.segment.bytes(stages.slot(peer) + INPUTS, piece.len());
                sum[range][piece].copy_from_slice(came);
            }
            Ok(())
        })?;
        if !added.is_empty() {
            on.segment.write(stages.own_slot() + INPUTS, &sum[place..][added]);
        }
        if k + 1 < chunks {
            bring(stages, k + 1);
        }
    }
    Ok(())
}
fn all_reduce_short(stages: &mut Stages<'_>, tree: &ReductionTree, nodes: &[TreeNodes], own: &[u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
    let on = stages.on;
    on.segment.write(stages.own_slot(), own);
    stages.meet()?;
    let n = sum.len();
    if n == 0 {
        return Ok(());
    }
    let mut brought = Brought::new();
    for (rank, nodes) in nodes.iter().enumerate() {
        let bytes = if rank == on.rank { own } else { on.segment.bytes(stages.slot(rank), nodes.len() * n) };
        brought.extend(nodes.iter().cloned().zip(bytes.chunks_exact(n)));
    }
    tree.fold(&brought, sum)
}
/// The sum over all ranks, of which each gets its block.
pub(super) fn reduce_scatter(stages: &mut Stages<'_>, tree: &ReductionTree, own: &[u8], block: &mut [u8]) -> Result<(), ErrorKind> {
    let on = stages.on;
    let (size, n) = (on.members.len(), block.len());
    let (nodes, most) = nodes_of(on, tree);
    if own.len() != nodes[on.rank].len() * n * size || tree.size != size {
        return Err(wrong(format!("{} bytes are not {size} blocks of {n} bytes", own.len())));
    }
    // A slot has a place for each rank and node.
    let chunk = whole_lines(SLOT / size / most.max(1));
    if chunk == 0 {
        return Err(wrong(format!("{size} ranks of {most} nodes are too many for a slot")));
    }
    for k in 0..n.div_ceil(chunk).max(1) {
        let range = k * chunk..((k + 1) * chunk).min(n);
        let place = |rank: usize, node: usize| (rank * most + node) * chunk;
        for (node, bytes) in own.chunks_exact((n * size).max(1)).enumerate() {
            for rank in (0..size).filter(|rank| *rank != on.rank) {
                on.segment.write(stages.own_slot() + place(rank, node), &bytes[rank * n..][range.clone()]);
            }
        }
        stages.meet()?;
        if range.is_empty() {
            continue;
        }
        let mut brought = Brought::new();
        for (rank, nodes) in nodes.iter().enumerate() {
            for (node, parts) in nodes.iter().enumerate() {
                let bytes = match rank == on.rank {
                    true => &own[(node * size + rank) * n..][range.clone()],
                    false => on.segment.bytes(stages.slot(rank) + place(on.rank, node), range.len()),
                };
                brought.push((parts.clone(), bytes));
            }
        }
        tree.fold(&brought, &mut block[range])?;
    }
    Ok(())
}
/// Everybody's bytes for everybody: `lengths` are those of the ranks, and what came of a rank from a place on is given to `came`.
fn gather(stages: &mut Stages<'_>, own: &[u8], lengths: &[usize], mut came: impl FnMut(usize, usize, &[u8])) -> Result<(), ErrorKind> {
    let on = stages.on;
    stages.brings(0, own.len());
    let rounds = lengths.iter().max().map_or(0, |n| n.div_ceil(SLOT)).max(1);
    for k in 0..rounds {
        let range = |n: usize| (k * SLOT).min(n)..((k + 1) * SLOT).min(n);
        on.segment.write(stages.own_slot(), &own[range(own.len())]);
        stages.meet()?;
        for (rank, n) in lengths.iter().enumerate().filter(|(rank, _)| *rank != on.rank) {
            if k == 0 {
                is_as_long(on, rank, stages.brought(rank, 0), *n)?;
            }
            let range = range(*n);
            if !range.is_empty() {
                came(rank, range.start, on.segment.bytes(stages.slot(rank), range.len()));
            }
        }
    }
    Ok(())
}
fn is_as_long(on: &LocalRank, rank: usize, brought: u64, expected: usize) -> Result<(), ErrorKind> {
    if brought == expected as u64 {
        return Ok(());
    }
    Err(wrong(format!("rank {} brings {brought} bytes where rank {} expects {expected}", on.world(rank), on.world(on.rank))))
}
/// The block of each rank, on every rank.
pub(super) fn all_gather(stages: &mut Stages<'_>, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
    let on = stages.on;
    let lengths: SmallVec<[usize; 8]> = blocks.iter().map(|block| block.len()).collect();
    if blocks.len() != on.members.len() || lengths[on.rank] != own.len() {
        return Err(wrong(format!("{} blocks of {} ranks, or an own block of another length", blocks.len(), on.members.len())));
    }
    blocks[on.rank].copy_from_slice(own);
    gather(stages, own, &lengths, |rank, at, bytes| blocks[rank][at..at + bytes.len()].copy_from_slice(bytes))
}
/// The bytes of one rank, on every rank.
pub(super) fn broadcast(stages: &mut Stages<'_>, root: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
    let (rank, size) = (stages.on.rank, stages.on.members.len());
    if root >= size {
        return Err(ErrorKind::Argument(format!("there is no rank {root} among {size}")));
    }
    let mut lengths: SmallVec<[usize; 8]> = SmallVec::from_elem(0, size);
    lengths[root] = bytes.len();
    match rank == root {
        true => gather(stages, bytes, &lengths, |_, _, _| {}),
        false => gather(stages, &[], &lengths, |_, at, came| bytes[at..at + came.len()].copy_from_slice(came)),
    }
}
/// A block for each rank from each.
pub(super) fn all_to_all(stages: &mut Stages<'_>, to: &[&[u8]], from: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
    let on = stages.on;
    let size = on.members.len();
    if to.len() != size || from.len() != size || to[on.rank].len() != from[on.rank].len() {
        return Err(wrong(format!("{} and {} blocks of {size} ranks, or an own block of two lengths", to.len(), from.len())));
    }
    from[on.rank].copy_from_slice(to[on.rank]);
    let place = whole_lines(SLOT / size);
    if place < LINE {
        return Err(wrong(format!("{size} ranks are too many for a slot")));
    }
    to.iter().enumerate().for_each(|(rank, block)| stages.brings(rank, block.len()));
    let (mut k, mut rounds) = (0, 1);
    while k < rounds {
        let range = |n: usize| (k * place).min(n)..((k + 1) * place).min(n);
        for (rank, block) in to.iter().enumerate().filter(|(rank, _)| *rank != on.rank) {
            on.segment.write(stages.own_slot() + rank * place, &block[range(block.len())]);
        }
        stages.meet()?;
        if k == 0 {
            // The longest block of any two ranks, which may be none of this one's.
            let pairs = (0..size).flat_map(|rank| (0..size).map(move |to| (rank, to))).filter(|(rank, to)| rank != to);
            rounds = pairs.map(|(rank, to)| stages.brought(rank, to)).max().map_or(1, |n| (n as usize).div_ceil(place).max(1));
            for (rank, block) in from.iter().enumerate().filter(|(rank, _)| *rank != on.rank) {
                is_as_long(on, rank, stages.brought(rank, on.rank), block.len())?;
            }
        }
        for (rank, block) in from.iter_mut().enumerate().filter(|(rank, _)| *rank != on.rank) {
            let range = range(block.len());
            let came = on.segment.bytes(stages.slot(rank) + on.rank * place, range.len());
            block[range].copy_from_slice(came);
        }
        k += 1;
    }
    Ok(())
}
