//! The communicator: each function as a meeting of the ranks and streams of chunks between them.
//!
//! ```text
//! small: meet (the data lie behind the headers) -> added or copied
//! large: meet -> streams DATA (what is each rank's to add) -> added, chunk by chunk -> streams GATHERED -> copied
//! ```
use crate::{
    agree::{self, FRAME},
    frame::{CallHeader, HEADER, INLINE},
    lines::{GroupLines, tag},
    patience::MpiPatience,
    process::MpiProcess,
    transfer::{CHUNK, SpareBuffers, Transfer, settle},
    wire::PendingRequest,
};
use adamant_ir::{
    DType, ErrorKind,
    hash::{hash_of, mix},
    op::{ReduceOp, rank_parts},
};
use adamant_runtime::communicator::{CollectiveCall, Communicator, GroupState, ReductionTree};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    fmt,
    ops::Range,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::{Duration, Instant},
};

/// Sends that nobody has fetched yet, above which a further one waits.
const UNFETCHED: usize = 256 << 20;

/// What a group counts, for the thread that calls it.
#[derive(Default)]
struct MeetingCounts {
    meetings: u64,
    sent: Vec<u64>,
    received: Vec<u64>,
}
/// A group of ranks on MPI.
pub struct MpiCommunicator {
    pub(crate) lines: Arc<GroupLines>,
    process: &'static MpiProcess,
    counts: Mutex<MeetingCounts>,
    frames: SpareBuffers,
    chunks: SpareBuffers,
}
impl fmt::Debug for MpiCommunicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} on {}", self.lines.rank, self.lines.size, self.process.library())
    }
}
impl Drop for MpiCommunicator {
    fn drop(&mut self) {
        // The process' own thread tells who still waits for this rank, once what it sent has been fetched.
        self.lines.is_dropped.store(true, SeqCst);
        self.process.look_after(self.lines.comm, Vec::new(), 0);
    }
}
/// Ranges cut from bytes as they lie, one behind the other.
fn cut_mut<'b>(mut bytes: &'b mut [u8], ranges: &[Range<usize>]) -> Vec<&'b mut [u8]> {
    let cut = ranges.iter().map(|range| {
        let all = std::mem::take(&mut bytes);
        let (piece, rest) = all.split_at_mut(range.len().min(all.len()));
        bytes = rest;
        piece
    });
    cut.collect()
}
/// Each rank's piece of so many bytes: whole elements, about evenly.
fn pieces(bytes: usize, element: usize, size: usize) -> Vec<Range<usize>> {
    let elements = bytes / element.max(1);
    (0..size).map(|rank| rank_parts(elements, rank, size)).map(|piece| piece.start * element..piece.end * element).collect()
}
/// Ranges of a chunk each, or less at the end.
fn chunks_of(range: &Range<usize>, chunk: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let range = range.clone();
    range.clone().step_by(chunk.max(1)).map(move |at| at..(at + chunk).min(range.end))
}

impl MpiCommunicator {
    pub(crate) fn new(lines: GroupLines, process: &'static MpiProcess) -> Arc<MpiCommunicator> {
        let lines = Arc::new(lines);
        process.remember(&lines);
        let counts = MeetingCounts { meetings: 0, sent: vec![0; lines.size], received: vec![0; lines.size] };
        let (frames, chunks) = Default::default();
        Arc::new(MpiCommunicator { lines, process, counts: Mutex::new(counts), frames, chunks })
    }
    /// Carries a call out, if the group has not ended; by its error, it ends.
    fn call<T>(&self, call: &CollectiveCall, carry_out: impl FnOnce(&mut MpiPatience<'_>, &mut MeetingCounts) -> Result<T, ErrorKind>) -> Result<T, ErrorKind> {
        if let Some(ended) = self.lines.state.ended() {
            return Err(ended);
        }
        let mut counts = self.counts.lock();
        self.lines.in_call.store(true, SeqCst);
        let mut patience = MpiPatience::new(&self.lines, call.to_string(), call.number);
        let done = carry_out(&mut patience, &mut counts).map_err(|kind| self.lines.fail(kind));
        self.lines.in_call.store(false, SeqCst);
        done
    }
    /// All ranks meet: see [`agree::meet`].
    fn meet<'b>(
        &self,
        patience: &mut MpiPatience<'_>,
        counts: &mut MeetingCounts,
        fingerprint: u64,
        to: impl Fn(usize) -> (usize, &'b [u8]),
        expected: impl Fn(usize) -> usize,
    ) -> Result<Vec<agree::Inline>, ErrorKind> {
        let own = CallHeader { number: counts.meetings, fingerprint, bytes: 0, expects: 0, text: patience.text.clone() };
        counts.meetings += 1;
        agree::meet(&self.lines, &self.frames, patience, &own, to, expected)
    }
    fn check_lengths(&self, given: usize, what: &str) -> Result<(), ErrorKind> {
        let size = self.lines.size;
        (given == size).then_some(()).ok_or_else(|| ErrorKind::Internal(format!("{given} {what} for {size} ranks")))
    }

    /// Gives blocks to the ranks and gets theirs: what [`Communicator::all_gather`] and [`Communicator::all_to_all`] have in common.
    fn swap<'b>(&self, call: &CollectiveCall, to: impl Fn(usize) -> &'b [u8], from: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.check_lengths(from.len(), "blocks")?;
        let rank = self.lines.rank;
        let own = to(rank);
        if from[rank].len() != own.len() {
            return Err(ErrorKind::Internal(format!("this rank's block has {} bytes and its place {}", own.len(), from[rank].len())));
        }
        self.call(call, |patience, counts| {
            let inline = |rank: usize| if to(rank).len() <= INLINE { to(rank) } else { &[] };
            let lengths: Vec<usize> = from.iter().map(|block| block.len()).collect();
            let met = self.meet(patience, counts, call.fingerprint(), |rank| (to(rank).len(), inline(rank)), |rank| lengths[rank])?;
            from[rank].copy_from_slice(to(rank));
            let mut transfer = Transfer::new(&self.lines, &self.chunks);
            let mut filled = Vec::new();
            for peer in self.lines.peers() {
                let stream = transfer.stream(peer, tag::DATA, 0);
                if to(peer).len() > INLINE {
                    transfer.send(stream, to(peer));
                }
                match lengths[peer] {
                    n if n > INLINE => transfer.expect(stream, n),
                    n => from[peer].copy_from_slice(met[peer].bytes(n)),
                }
                filled.push((peer, 0));
            }
            agree::done_with(met, &self.frames);
            while let Some((stream, chunk)) = transfer.next(patience)? {
                let (peer, at) = &mut filled[stream];
                fill(from[*peer], at, chunk.bytes())?;
                transfer.done_with(stream, chunk);
            }
            Ok(())
        })
    }

    /// Adds along the tree each rank's piece of the nodes; with `others`, the pieces are given to all ranks.
    ///
    /// `own` are this rank's nodes, as long as all pieces together; `mine` is this rank's piece of the sum.
    fn reduce(
        &self,
        (call, fingerprint): (&CollectiveCall, u64),
        tree: &ReductionTree,
        own: &[u8],
        pieces: &[Range<usize>],
        mine: &mut [u8],
        mut others: Option<Vec<&mut [u8]>>,
    ) -> Result<(), ErrorKind> {
        let (rank, size) = (self.lines.rank, self.lines.size);
        let node = pieces.last().map_or(0, |piece| piece.end);
        let nodes: Vec<Vec<Range<usize>>> = (0..size).map(|rank| tree.nodes(rank).into_vec()).collect();
        let all: Vec<(usize, Range<usize>)> = nodes.iter().enumerate().flat_map(|(rank, of)| of.iter().map(move |n| (rank, n.clone()))).collect();
        // As many bytes of each node as stay in the cache together, whole elements; on all ranks alike.
        let chunk = (4 * CHUNK / all.len().max(4)).max(16 << 10) / 64 * 64;
        self.call(call, |patience, counts| {
            let given = |peer: usize| pieces[peer].len() * nodes[rank].len();
            let expected = |peer: usize| pieces[rank].len() * nodes[peer].len();
            let met = self.meet(patience, counts, fingerprint, |peer| (given(peer), &[]), expected)?;
            agree::done_with(met, &self.frames);
            let mut transfer = Transfer::new(&self.lines, &self.chunks);
            let peers: Vec<usize> = self.lines.peers().collect();
            let ranges: Vec<Range<usize>> = chunks_of(&pieces[rank], chunk).collect();
            for &peer in &peers {
                let stream = transfer.stream(peer, tag::DATA, 2 * nodes[peer].len());
                for range in chunks_of(&pieces[peer], chunk) {
                    (0..nodes[rank].len()).for_each(|k| transfer.send(stream, &own[k * node..][range.clone()]));
                }
                ranges.iter().for_each(|range| nodes[peer].iter().for_each(|_| transfer.expect(stream, range.len())));
            }
            for &peer in &peers {
                let stream = transfer.stream(peer, tag::GATHERED, 0);
                if others.is_some() {
                    chunks_of(&pieces[peer], chunk).for_each(|range| transfer.expect(stream, range.len()));
                }
            }
            let mut filled = vec![0; peers.len()];
            let mut queues: Vec<VecDeque<_>> = peers.iter().map(|_| VecDeque::new()).collect();
            let mut sums = mine.chunks_mut(chunk).zip(&ranges);
            while let Some((stream, came)) = transfer.next(patience)? {
                if let Some(gathered) = stream.checked_sub(peers.len()) {
                    if let Some(others) = &mut others {
                        fill(others[peers[gathered]], &mut filled[gathered], came.bytes())?;
                    }
                    transfer.done_with(stream, came);
                    continue;
                }
                queues[stream].push_back(came);
                while queues.iter().zip(&peers).all(|(queue, peer)| queue.len() >= nodes[*peer].len())
                    && let Some((sum, range)) = sums.next()
                {
                    let mut place = vec![0; size];
                    let bytes = all.iter().map(|(from, parts)| {
                        let k = place[*from];
                        place[*from] += 1;
                        let bytes: &[u8] = match peers.iter().position(|peer| peer == from) {
                            Some(stream) => queues[stream].get(k).map_or(&[], |chunk| chunk.bytes()),
                            None => &own[k * node..][range.clone()],
                        };
                        (parts.clone(), bytes)
                    });
                    tree.fold(&bytes.collect::<Vec<_>>(), sum)?;
                    for (stream, peer) in peers.iter().enumerate() {
                        for _ in 0..nodes[*peer].len() {
                            queues[stream].pop_front().into_iter().for_each(|chunk| transfer.done_with(stream, chunk));
                        }
                    }
                    let sum: &[u8] = sum;
                    if others.is_some() {
                        (0..peers.len()).for_each(|k| transfer.send(peers.len() + k, sum));
                    }
                }
            }
            Ok(())
        })
    }
    fn reduce_and_gather(&self, call: (&CollectiveCall, u64), tree: &ReductionTree, own: &[u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
        let pieces = pieces(sum.len(), tree.dtype.size(), self.lines.size);
        let mut places = cut_mut(sum, &pieces);
        let mine = std::mem::take(&mut places[self.lines.rank]);
        self.reduce(call, tree, own, &pieces, mine, Some(places))
    }
    /// Adds what lies behind the headers: each rank gives every other `given(rank)`, which has as many nodes of `sum`'s length as it holds.
    fn reduce_inline<'b>(&self, call: &CollectiveCall, tree: &ReductionTree, given: impl Fn(usize) -> &'b [u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
        let (rank, size) = (self.lines.rank, self.lines.size);
        let nodes: Vec<Vec<Range<usize>>> = (0..size).map(|rank| tree.nodes(rank).into_vec()).collect();
        self.call(call, |patience, counts| {
            let n = sum.len();
            let met = self.meet(patience, counts, call.fingerprint(), |peer| (given(peer).len(), given(peer)), |peer| nodes[peer].len() * n)?;
            if n > 0 {
                let blocks = (0..size).map(|from| if from == rank { given(rank) } else { met[from].bytes(nodes[from].len() * n) });
                let all: Vec<(Range<usize>, &[u8])> = nodes.iter().flatten().cloned().zip(blocks.flat_map(|block| block.chunks_exact(n))).collect();
                tree.fold(&all, sum)?;
            }
            agree::done_with(met, &self.frames);
            Ok(())
        })
    }
    /// The most bytes that a rank brings.
    fn most(tree: &ReductionTree, node: usize) -> usize {
        (0..tree.size).map(|rank| tree.nodes(rank).len()).max().unwrap_or(0).saturating_mul(node)
    }
    fn check_nodes(&self, tree: &ReductionTree, own: &[u8], node: usize) -> Result<(), ErrorKind> {
        let (rank, size) = (self.lines.rank, self.lines.size);
        let nodes = tree.nodes(rank).len();
        if tree.size != size || own.len() != nodes * node || node % tree.dtype.size() != 0 {
            let what = format!("{} bytes are not the {nodes} nodes of {node} bytes that rank {rank} of {size} holds of {tree:?}", own.len());
            return Err(ErrorKind::Internal(what));
        }
        // A dtype that is not reduced is an error before anything is sent.
        tree.fold(&[(0..tree.parts, &[])], &mut [])
    }

    /// The sum over ranks as MPI adds it, in an order of its own: as fast as MPI is, with bits that may change from run to run.
    /// None where MPI has no such sum: of halves, of anything but a sum; and of integers of 8 and 16 bits, which Open MPI adds with
    /// saturation where the processor has AVX (open-mpi/ompi#8045) and others modulo 2^n.
    fn sum_of_mpi(&self, call: &CollectiveCall, reduce: ReduceOp, dtype: DType, own: &[u8], sum: &mut [u8]) -> Option<Result<(), ErrorKind>> {
        let table = self.process.table();
        let number = table.number(dtype).filter(|_| reduce == ReduceOp::Sum && dtype.size() >= 4)?;
        if own.len() != sum.len() || own.len() % dtype.size() != 0 {
            return Some(Err(ErrorKind::Internal(format!("{} bytes are added into {}", own.len(), sum.len()))));
        }
        let fingerprint = mix(call.fingerprint(), hash_of(&"fast"));
        if self.lines.size == 2 && sum.len() > INLINE {
            // Of two there is one order, and `MPI_Iallreduce` is slower than our chunks (Open MPI 4 and 5, MPICH 5).
            return Some(self.reduce_and_gather((call, fingerprint), &ReductionTree::of_ranks(reduce, dtype, 2), own, sum));
        }
        Some(self.call(call, |patience, counts| {
            let met = self.meet(patience, counts, fingerprint, |_| (0, &[]), |_| 0)?;
            agree::done_with(met, &self.frames);
            let mut adding = Adding { lines: &self.lines, pending: VecDeque::new() };
            let mut to_add = own.chunks(self.process.fast_chunk());
            let mut sums = sum.chunks_mut(self.process.fast_chunk());
            loop {
                let mut done = None;
                {
                    let turn = self.lines.turn()?;
                    while adding.pending.len() < 2
                        && let Some(own) = to_add.next()
                    {
                        let begun = turn.begin_sum(self.lines.comm, own, number, dtype.size(), self.process.fast_buffers().take(own.len()));
                        adding.pending.push_back(begun.map_err(|why| ErrorKind::Internal(format!("MPI_Iallreduce: {why}")))?);
                    }
                    let Some(first) = adding.pending.front_mut() else { break };
                    match turn.is_done(first) {
                        Ok(true) => done = adding.pending.pop_front(),
                        Ok(false) => {}
                        Err(why) => {
                            drop(turn);
                            adding.pending.pop_front();
                            let all: Vec<usize> = self.lines.peers().collect();
                            return Err(patience.lost(self.lines.blame(&all), why));
                        }
                    }
                }
                match done.and_then(PendingRequest::into_buffer) {
                    Some(buffer) => {
                        if let Some(sum) = sums.next() {
                            sum.copy_from_slice(&buffer[..sum.len()]);
                        }
                        self.process.fast_buffers().give_back(buffer);
                        patience.came();
                    }
                    None => patience.nothing_came(|| self.lines.peers().collect())?,
                }
            }
            Ok(())
        }))
    }
    /// `MPI_Allreduce` itself, to measure by: waits inside MPI, without a timeout, and tells nobody of an error.
    ///
    /// # Errors
    /// MPI's; a dtype that MPI does not add; lengths that differ.
    pub fn raw_all_reduce(&self, dtype: DType, own: &[u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
        let number = self.process.table().number(dtype).ok_or_else(|| ErrorKind::Dtype(format!("MPI does not add {dtype}")))?;
        let turn = self.lines.turn()?;
        turn.sum(self.lines.comm, own, number, dtype.size(), sum).map_err(ErrorKind::Internal)
    }
    /// `MPI_Barrier` itself, to measure by.
    ///
    /// # Errors
    /// MPI's.
    pub fn raw_barrier(&self) -> Result<(), ErrorKind> {
        self.lines.turn()?.barrier(self.lines.comm).map_err(ErrorKind::Internal)
    }
    /// The library that carries it out: its path, and what it tells of itself.
    pub fn library(&self) -> String {
        self.process.library()
    }
}
/// Sums of MPI's on their way.
struct Adding<'g, 'b> {
    lines: &'g GroupLines,
    pending: VecDeque<PendingRequest<'b>>,
}
impl Drop for Adding<'_, '_> {
    fn drop(&mut self) {
        settle(self.lines, self.pending.drain(..).collect());
    }
}
/// Copies what came to where the last ended.
fn fill(block: &mut [u8], at: &mut usize, bytes: &[u8]) -> Result<(), ErrorKind> {
    let place = block.get_mut(*at..*at + bytes.len()).ok_or_else(|| ErrorKind::Internal("more came than was expected".into()))?;
    place.copy_from_slice(bytes);
    *at += bytes.len();
    Ok(())
}

impl Communicator for MpiCommunicator {
    fn engine(&self) -> &'static str {
        "mpi"
    }
    fn rank(&self) -> usize {
        self.lines.rank
    }
    fn size(&self) -> usize {
        self.lines.size
    }
    fn state(&self) -> &GroupState {
        &self.lines.state
    }
    fn all_gather(&self, call: &CollectiveCall, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.swap(call, |_| own, blocks)
    }
    fn all_to_all(&self, call: &CollectiveCall, to: &[&[u8]], from: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.check_lengths(to.len(), "blocks")?;
        self.swap(call, |rank| to[rank], from)
    }
    fn send(&self, call: &CollectiveCall, to: usize, bytes: &[u8]) -> Result<(), ErrorKind> {
        self.check_peer(to)?;
        self.call(call, |patience, counts| {
            patience.agreeing = false;
            while !self.process.has_capacity(self.lines.comm, bytes.len(), UNFETCHED) {
                patience.nothing_came(|| vec![to])?;
                self.lines.collect(&self.lines.turn()?);
            }
            let header =
                CallHeader { number: counts.sent[to], fingerprint: call.fingerprint(), bytes: bytes.len() as u64, expects: 0, text: patience.text.clone() };
            counts.sent[to] += 1;
            let inline = if bytes.len() <= INLINE { bytes } else { &[] };
            let (frame, n) = agree::framed(&header, &self.frames, inline);
            let turn = self.lines.turn()?;
            let mut begun = vec![turn.send_owned(self.lines.comm, to, tag::SEND_HEADER, frame, n)];
            if bytes.len() > INLINE {
                begun.extend(bytes.chunks(CHUNK).map(|chunk| turn.send_owned(self.lines.comm, to, tag::SEND_DATA, chunk.into(), chunk.len())));
            }
            drop(turn);
            let (begun, failed): (Vec<_>, Vec<_>) = begun.into_iter().partition(Result::is_ok);
            self.process.look_after(self.lines.comm, begun.into_iter().flatten().collect(), bytes.len());
            failed.into_iter().find_map(Result::err).map_or(Ok(()), |why| Err(patience.lost(to, why)))
        })
    }
    fn receive(&self, call: &CollectiveCall, from: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        self.check_peer(from)?;
        self.call(call, |patience, counts| {
            let own = CallHeader { number: counts.received[from], fingerprint: call.fingerprint(), bytes: 0, expects: 0, text: String::new() };
            counts.received[from] += 1;
            let mut arriving = Transfer::new(&self.lines, &self.frames);
            let stream = arriving.stream(from, tag::SEND_HEADER, 0);
            arriving.expect(stream, FRAME);
            let Some((_, frame)) = arriving.next(patience)? else { return Err(ErrorKind::Internal("a header that is not there".into())) };
            agree::compare(&own, bytes.len(), frame.bytes()).map_err(|other| patience.differ(from, other))?;
            patience.agreeing = false;
            if bytes.len() <= INLINE {
                bytes.copy_from_slice(&frame.bytes()[HEADER..HEADER + bytes.len()]);
                arriving.done_with(stream, frame);
                return Ok(());
            }
            arriving.done_with(stream, frame);
            let mut transfer = Transfer::new(&self.lines, &self.chunks);
            let stream = transfer.stream(from, tag::SEND_DATA, 0);
            transfer.expect(stream, bytes.len());
            let mut at = 0;
            while let Some((stream, chunk)) = transfer.next(patience)? {
                fill(bytes, &mut at, chunk.bytes())?;
                transfer.done_with(stream, chunk);
            }
            Ok(())
        })
    }
    fn broadcast(&self, call: &CollectiveCall, root: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        let (rank, size) = (self.lines.rank, self.lines.size);
        if root >= size {
            return Err(ErrorKind::Argument(format!("there is no rank {root} among {size}")));
        }
        self.call(call, |patience, counts| {
            let n = bytes.len();
            let inline: &[u8] = if rank == root && n <= INLINE { bytes } else { &[] };
            let to = |_| (if rank == root { n } else { 0 }, inline);
            let met = self.meet(patience, counts, call.fingerprint(), to, |peer| if peer == root { n } else { 0 })?;
            if n <= INLINE {
                if rank != root {
                    bytes.copy_from_slice(met[root].bytes(n));
                }
                agree::done_with(met, &self.frames);
                return Ok(());
            }
            agree::done_with(met, &self.frames);
            // The root gives each rank a piece; each gives its piece to all others.
            let pieces = pieces(n, 64, size);
            let pieces: Vec<Range<usize>> = pieces.iter().map(|piece| piece.start..if piece.end / 64 == n / 64 { n } else { piece.end }).collect();
            let mut transfer = Transfer::new(&self.lines, &self.chunks);
            let peers: Vec<usize> = self.lines.peers().collect();
            let streams: Vec<(usize, usize)> =
                peers.iter().map(|&peer| (transfer.stream(peer, tag::DATA, 0), transfer.stream(peer, tag::GATHERED, 0))).collect();
            if rank == root {
                let bytes: &[u8] = bytes;
                for (&peer, (data, gathered)) in peers.iter().zip(&streams) {
                    transfer.send(*data, &bytes[pieces[peer].clone()]);
                    transfer.send(*gathered, &bytes[pieces[root].clone()]);
                }
                return match transfer.next(patience)? {
                    None => Ok(()),
                    Some(_) => Err(ErrorKind::Internal("a root that receives".into())),
                };
            }
            let mut filled: Vec<usize> = vec![0; peers.len()];
            for (&peer, (data, gathered)) in peers.iter().zip(&streams) {
                transfer.expect(*gathered, pieces[peer].len());
                if peer == root {
                    transfer.expect(*data, pieces[rank].len());
                }
            }
            let mut places = cut_mut(bytes, &pieces);
            let mut mine = std::mem::take(&mut places[rank]).chunks_mut(CHUNK);
            while let Some((stream, chunk)) = transfer.next(patience)? {
                let Some(k) = streams.iter().position(|(data, gathered)| stream == *data || stream == *gathered) else { continue };
                if stream == streams[k].1 {
                    fill(places[peers[k]], &mut filled[k], chunk.bytes())?;
                } else if let Some(place) = mine.next() {
                    place.copy_from_slice(chunk.bytes());
                    let place: &[u8] = place;
                    let others = peers.iter().zip(&streams).filter(|(peer, _)| **peer != root);
                    others.for_each(|(_, (_, gathered))| transfer.send(*gathered, place));
                }
                transfer.done_with(stream, chunk);
            }
            Ok(())
        })
    }
    fn all_reduce(&self, call: &CollectiveCall, tree: &ReductionTree, own: &[u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
        self.check_nodes(tree, own, sum.len())?;
        if self.lines.size == 1 || Self::most(tree, sum.len()) <= INLINE {
            return self.reduce_inline(call, tree, |_| own, sum);
        }
        self.reduce_and_gather((call, call.fingerprint()), tree, own, sum)
    }
    fn reduce_scatter(&self, call: &CollectiveCall, tree: &ReductionTree, own: &[u8], block: &mut [u8]) -> Result<(), ErrorKind> {
        let (n, size) = (block.len(), self.lines.size);
        self.check_nodes(tree, own, n * size)?;
        let pieces: Vec<Range<usize>> = (0..size).map(|rank| rank * n..(rank + 1) * n).collect();
        if size == 1 || (n <= INLINE && tree.parts == size) {
            return self.reduce_inline(call, tree, |rank| &own[pieces[rank].clone()], block);
        }
        self.reduce((call, call.fingerprint()), tree, own, &pieces, block, None)
    }
    fn all_reduce_fast(&self, call: &CollectiveCall, reduce: ReduceOp, dtype: DType, own: &[u8], sum: &mut [u8]) -> Option<Result<(), ErrorKind>> {
        self.sum_of_mpi(call, reduce, dtype, own, sum)
    }
    fn split(&self, call: &CollectiveCall, members: &[usize]) -> Result<Option<Arc<dyn Communicator>>, ErrorKind> {
        let size = self.lines.size;
        if let Some(place) = (0..members.len()).find(|place| members[*place] >= size || members[..*place].contains(&members[*place])) {
            return Err(ErrorKind::Argument(format!("a group of {members:?} of {size} ranks: {} is none of them, or comes twice", members[place])));
        }
        self.call(call, |patience, counts| {
            patience.text = format!("split into {members:?}, {}", patience.text);
            let met = self.meet(patience, counts, mix(call.fingerprint(), hash_of(&members)), |_| (0, &[]), |_| 0)?;
            agree::done_with(met, &self.frames);
            let member = members.iter().position(|rank| *rank == self.lines.rank);
            // It waits inside MPI for ranks that are all in the call: on the process' own thread, as one may be lost just now.
            let end = Instant::now() + self.lines.timeout;
            let made = self.process.split(self.lines.comm, member);
            let made = loop {
                match made.recv_timeout(Duration::from_millis(1)) {
                    Ok(made) => break made.map_err(|why| ErrorKind::Internal(format!("MPI_Comm_split: {why}")))?,
                    Err(_) if Instant::now() > end => {
                        let peers: Vec<usize> = self.lines.peers().collect();
                        let lost = patience.lost(self.lines.blame(&peers), "MPI_Comm_split waits for it".into());
                        self.lines.wire.kill(&lost);
                        return Err(lost);
                    }
                    Err(_) => {}
                }
            };
            let Some(place) = member else { return Ok(None) };
            let in_job = members.iter().map(|rank| self.lines.in_job[*rank]).collect();
            let lines = GroupLines::new(self.lines.wire, made, (place, members.len()), in_job, (self.lines.timeout, self.lines.on_host));
            Ok(Some(MpiCommunicator::new(lines, self.process) as Arc<dyn Communicator>))
        })
    }
    fn abort(&self, why: &str) {
        let ended = self.lines.state.ended();
        let kind = ended.unwrap_or_else(|| ErrorKind::PeerFailed { rank: self.lines.rank, message: why.into() });
        self.lines.fail(kind);
    }
}
impl MpiCommunicator {
    fn check_peer(&self, peer: usize) -> Result<(), ErrorKind> {
        let (rank, size) = (self.lines.rank, self.lines.size);
        (peer < size && peer != rank).then_some(()).ok_or_else(|| ErrorKind::Argument(format!("rank {rank} of {size} sends nothing to rank {peer}")))
    }
}
