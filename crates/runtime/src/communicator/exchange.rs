//! A collective in blocks: what a rank gives to whom, and how what comes becomes the result.
use super::{CollectiveCall, Communicator, ReductionTree, tree::TreeNodes};
use crate::{
    ErrorKind, HostArray, Origin, TensorType,
    op::{CollectiveKind, Group, rank_parts},
};
use std::ops::Range;

/// The bytes of a result, row-major.
pub type Exchanged = Vec<u8>;

/// Carries out a collective of a group: `bytes` are what this rank puts in, row-major, of type `given`. Gives the result's bytes.
///
/// A failure ends the group: every later call gets it.
///
/// # Errors
/// A lost peer; a rank that calls something else; a group that has ended.
pub fn exchange(kind: CollectiveKind, group: &Group, bytes: &[u8], given: &TensorType, origin: Option<Origin>) -> Result<Exchanged, ErrorKind> {
    exchange_telling(kind, group, bytes, given, origin, None)
}
/// As [`exchange`]; at a barrier this rank tells the others of bad data that it has found. It goes on itself: its own error says more.
///
/// # Errors
/// As [`exchange`]; at a barrier `PeerFailed` with what another rank tells.
pub fn exchange_telling(
    kind: CollectiveKind,
    group: &Group,
    bytes: &[u8],
    given: &TensorType,
    origin: Option<Origin>,
    told: Option<&str>,
) -> Result<Exchanged, ErrorKind> {
    let made = kind.infer(group, given)?;
    let on = super::of(group)?;
    if let Some(ended) = on.state().ended() {
        return Err(ended);
    }
    let mut result = vec![0u8; made.shape.elements() * made.dtype.size()];
    let call = CollectiveCall::next(on, kind, made, origin);
    let done = match kind {
        CollectiveKind::Barrier => {
            result.copy_from_slice(bytes);
            barrier(on, &call, told.unwrap_or_default())
        }
        _ => carry_out(on, &call, given, bytes, &mut result).map(|()| None),
    };
    match done {
        Ok(None) => Ok(result),
        // All hear the same, and nobody needs to be told.
        Ok(Some(bad)) => {
            on.state().end(&bad);
            Err(bad)
        }
        Err(kind) => {
            on.state().end(&kind);
            on.abort(&format!("{call}: {kind}"));
            Err(kind)
        }
    }
}
/// The most that a rank tells of bad data, in bytes.
const TOLD: usize = 2048;
/// Waits until all ranks are there. What another one has found is an error, but for who has found something itself.
fn barrier(on: &dyn Communicator, call: &CollectiveCall, told: &str) -> Result<Option<ErrorKind>, ErrorKind> {
    let told = &told.as_bytes()[..told.floor_char_boundary(TOLD)];
    let gather = |call: &CollectiveCall, own: &[u8], lengths: &[usize]| {
        let mut all = vec![0u8; lengths.iter().sum()];
        on.all_gather(call, own, &mut blocks_mut(&mut all, lengths)).map(|()| all)
    };
    let lengths = gather(call, &(told.len() as u64).to_le_bytes(), &vec![size_of::<u64>(); on.size()])?;
    let lengths: Vec<usize> = lengths.chunks_exact(size_of::<u64>()).map(|n| n.try_into().map_or(0, u64::from_le_bytes) as usize).collect();
    if lengths.iter().all(|n| *n == 0) {
        return Ok(None);
    }
    if lengths.iter().any(|n| *n > TOLD) {
        return Err(ErrorKind::Internal("a rank tells more than it may".into()));
    }
    let all = gather(&CollectiveCall { number: on.state().next(), ..*call }, told, &lengths)?;
    let messages = blocks(&all, &lengths);
    let other = (0..).zip(&messages).find(|(_, message)| !message.is_empty());
    let bad = other.map(|(rank, message)| ErrorKind::PeerFailed { rank, message: String::from_utf8_lossy(message).into_owned() });
    Ok(bad.filter(|_| told.is_empty()))
}
/// The same on host arrays.
///
/// # Errors
/// As [`exchange`].
pub fn exchange_array(kind: CollectiveKind, group: &Group, input: &HostArray, origin: Option<Origin>) -> Result<HostArray, ErrorKind> {
    let given = TensorType { shape: input.shape, dtype: input.dtype };
    let made = kind.infer(group, &given)?;
    Ok(HostArray::from_bytes(made.shape, made.dtype, &exchange(kind, group, &input.to_bytes(), &given, origin)?))
}
fn carry_out(on: &dyn Communicator, call: &CollectiveCall, given: &TensorType, own: &[u8], result: &mut [u8]) -> Result<(), ErrorKind> {
    let (size, dtype) = (on.size(), given.dtype);
    let tree = |reduce, parts| ReductionTree { reduce, dtype, parts: if parts == 0 { size } else { parts as usize }, size };
    match call.kind {
        CollectiveKind::AllReduce { reduce, parts, .. } => on.all_reduce(call, &tree(reduce, parts), own, result),
        CollectiveKind::ReduceScatter { reduce, parts } => on.reduce_scatter(call, &tree(reduce, parts), own, result),
        CollectiveKind::AllGather { .. } => on.all_gather(call, own, &mut blocks_mut(result, &vec![own.len(); size])),
        CollectiveKind::AllToAll => {
            let lengths = vec![own.len() / size.max(1); size];
            on.all_to_all(call, &blocks(own, &lengths), &mut blocks_mut(result, &lengths))
        }
        CollectiveKind::Broadcast { root, .. } => {
            result.copy_from_slice(own);
            on.broadcast(call, root, result)
        }
        CollectiveKind::Send { to } => {
            result.copy_from_slice(own);
            on.send(call, to, own)
        }
        CollectiveKind::Receive { from } => on.receive(call, from, result),
        CollectiveKind::Replicate | CollectiveKind::Barrier => {
            result.copy_from_slice(own);
            Ok(())
        }
    }
}
/// Bytes cut into blocks of these lengths, one behind the other.
fn blocks<'b>(mut bytes: &'b [u8], lengths: &[usize]) -> Vec<&'b [u8]> {
    let cut = lengths.iter().map(|n| {
        let (block, rest) = bytes.split_at((*n).min(bytes.len()));
        bytes = rest;
        block
    });
    cut.collect()
}
fn blocks_mut<'b>(mut bytes: &'b mut [u8], lengths: &[usize]) -> Vec<&'b mut [u8]> {
    let cut = lengths.iter().map(|n| {
        let all = std::mem::take(&mut bytes);
        let cut = (*n).min(all.len());
        let (block, rest) = all.split_at_mut(cut);
        bytes = rest;
        block
    });
    cut.collect()
}
/// The bytes of each rank's piece of so many: whole elements, in the order of the ranks, about evenly.
fn pieces(bytes: usize, element: usize, size: usize) -> Vec<Range<usize>> {
    let elements = bytes / element.max(1);
    (0..size).map(|rank| rank_parts(elements, rank, size)).map(|piece| piece.start * element..piece.end * element).collect()
}
pub(super) fn broadcast<C: Communicator + ?Sized>(on: &C, call: &CollectiveCall, root: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
    let own = if on.rank() == root { bytes.to_vec() } else { Vec::new() };
    let mut lengths = vec![0; on.size()];
    lengths[root] = bytes.len();
    on.all_gather(call, &own, &mut blocks_mut(bytes, &lengths))
}
/// Adds this rank's piece of all that is reduced.
fn fold_piece<C: Communicator + ?Sized>(
    on: &C,
    call: &CollectiveCall,
    tree: &ReductionTree,
    own: &[u8],
    pieces: &[Range<usize>],
    node_bytes: usize,
    sum: &mut [u8],
) -> Result<(), ErrorKind> {
    let size = on.size();
    let nodes: Vec<TreeNodes> = (0..size).map(|rank| tree.nodes(rank)).collect();
    let mine = &nodes[on.rank()];
    if own.len() != mine.len() * node_bytes {
        return Err(ErrorKind::Internal(format!("{} bytes are not {} nodes of {node_bytes} bytes", own.len(), mine.len())));
    }
    // What rank r adds up: its piece of each of this rank's nodes.
    let packed: Vec<Vec<u8>> =
        pieces.iter().map(|piece| (0..mine.len()).flat_map(|k| own[k * node_bytes..][piece.clone()].iter().copied()).collect()).collect();
    let to: Vec<&[u8]> = packed.iter().map(Vec::as_slice).collect();
    let lengths: Vec<usize> = nodes.iter().map(|nodes| nodes.len() * sum.len()).collect();
    let mut came = vec![0u8; lengths.iter().sum()];
    on.all_to_all(call, &to, &mut blocks_mut(&mut came, &lengths))?;
    if sum.is_empty() {
        return Ok(());
    }
    let of_all: Vec<(Range<usize>, &[u8])> = nodes.into_iter().flatten().zip(came.chunks_exact(sum.len())).collect();
    tree.fold(&of_all, sum)
}
pub(super) fn all_reduce<C: Communicator + ?Sized>(on: &C, call: &CollectiveCall, tree: &ReductionTree, own: &[u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
    let pieces = pieces(sum.len(), tree.dtype.size(), on.size());
    let mut piece = vec![0u8; pieces[on.rank()].len()];
    fold_piece(on, call, tree, own, &pieces, sum.len(), &mut piece)?;
    let lengths: Vec<usize> = pieces.iter().map(Range::len).collect();
    on.all_gather(call, &piece, &mut blocks_mut(sum, &lengths))
}
pub(super) fn reduce_scatter<C: Communicator + ?Sized>(
    on: &C,
    call: &CollectiveCall,
    tree: &ReductionTree,
    own: &[u8],
    block: &mut [u8],
) -> Result<(), ErrorKind> {
    let (n, size) = (block.len(), on.size());
    let pieces: Vec<Range<usize>> = (0..size).map(|rank| rank * n..(rank + 1) * n).collect();
    fold_piece(on, call, tree, own, &pieces, n * size, block)
}
