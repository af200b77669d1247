//! Data between ranks, in chunks: a few messages on their way in each direction, received into buffers of this crate.
//!
//! ```text
//! send(stream, &bytes) .. expect(stream, n) .. -> next() -> (stream, chunk) -> copied or added -> done_with(chunk)
//! ```
//!
//! A stream is a peer and a tag; what is sent on one arrives in the order of sending, so both ends cut in the same way. Chunks stay in
//! the cache between the receive and the copy, so the copy costs little, and no message is longer than MPI can count.
use crate::{
    functions::MpiResult,
    lines::GroupLines,
    patience::MpiPatience,
    wire::{MpiTurn, PendingRequest},
};
use adamant_ir::ErrorKind;
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Bytes of a chunk at most.
pub(crate) const CHUNK: usize = 256 << 10;
/// Messages on their way in one direction of a stream.
const WINDOW: usize = 2;
/// Bytes that a group keeps for the next call.
const SPARE: usize = 32 << 20;
/// So long a failed call waits for what MPI still holds of it.
const SETTLING: Duration = Duration::from_millis(20);

/// Buffers that are used again.
#[derive(Default)]
pub(crate) struct SpareBuffers {
    boxes: Mutex<Vec<Box<[u8]>>>,
}
impl SpareBuffers {
    /// A buffer of so many bytes at least.
    pub(crate) fn take(&self, n: usize) -> Box<[u8]> {
        let mut boxes = self.boxes.lock();
        // The one that was used last is likeliest to lie in the cache.
        match boxes.iter().rposition(|buffer| buffer.len() >= n) {
            Some(at) => boxes.swap_remove(at),
            None => vec![0; n.next_power_of_two()].into_boxed_slice(),
        }
    }
    pub(crate) fn give_back(&self, buffer: Box<[u8]>) {
        let mut boxes = self.boxes.lock();
        if boxes.iter().map(|kept| kept.len()).sum::<usize>() + buffer.len() <= SPARE {
            boxes.push(buffer);
        }
    }
}

/// A chunk that came.
pub(crate) struct Chunk {
    buffer: Box<[u8]>,
    n: usize,
}
impl Chunk {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.n]
    }
}
struct ChunkStream<'b> {
    peer: usize,
    tag: i32,
    /// how many chunks may lie here before more are fetched
    window: usize,
    to_send: VecDeque<&'b [u8]>,
    sending: VecDeque<PendingRequest<'b>>,
    expected: VecDeque<usize>,
    receiving: VecDeque<(PendingRequest<'static>, usize)>,
    held: usize,
}
impl ChunkStream<'_> {
    fn wants(&self) -> bool {
        !(self.expected.is_empty() && self.receiving.is_empty())
    }
    fn gives(&self) -> bool {
        !(self.to_send.is_empty() && self.sending.is_empty())
    }
    /// Asks after what is on its way, and begins more. Did anything happen?
    fn advance(&mut self, turn: &MpiTurn, comm: usize, spares: &SpareBuffers, arrived: &mut VecDeque<(usize, Chunk)>, index: usize) -> MpiResult<bool> {
        let mut any = false;
        while let Some(sending) = self.sending.front_mut()
            && turn.is_done(sending)?
        {
            self.sending.pop_front();
            any = true;
        }
        while self.sending.len() < WINDOW
            && let Some(bytes) = self.to_send.pop_front()
        {
            self.sending.push_back(turn.send(comm, self.peer, self.tag, bytes)?);
            any = true;
        }
        while let Some((receiving, _)) = self.receiving.front_mut()
            && turn.is_done(receiving)?
        {
            if let Some((done, n)) = self.receiving.pop_front()
                && let Some(buffer) = done.into_buffer()
            {
                self.held += 1;
                arrived.push_back((index, Chunk { buffer, n }));
            }
            any = true;
        }
        while self.receiving.len() + self.held < self.window
            && let Some(n) = self.expected.pop_front()
        {
            self.receiving.push_back((turn.receive(comm, self.peer, self.tag, spares.take(n), n)?, n));
            any = true;
        }
        Ok(any)
    }
}
/// What a call sends and receives.
pub(crate) struct Transfer<'g, 'b> {
    lines: &'g GroupLines,
    spares: &'g SpareBuffers,
    streams: Vec<ChunkStream<'b>>,
    arrived: VecDeque<(usize, Chunk)>,
}
impl<'g, 'b> Transfer<'g, 'b> {
    pub(crate) fn new(lines: &'g GroupLines, spares: &'g SpareBuffers) -> Transfer<'g, 'b> {
        Transfer { lines, spares, streams: Vec::new(), arrived: VecDeque::new() }
    }
    /// A new stream; `held` chunks may be kept by the caller at a time, beside those on their way.
    pub(crate) fn stream(&mut self, peer: usize, tag: i32, held: usize) -> usize {
        let window = WINDOW + held;
        let (to_send, sending, expected, receiving) = Default::default();
        self.streams.push(ChunkStream { peer, tag, window, to_send, sending, expected, receiving, held: 0 });
        self.streams.len() - 1
    }
    /// Sends bytes, in chunks.
    pub(crate) fn send(&mut self, stream: usize, bytes: &'b [u8]) {
        self.streams[stream].to_send.extend(bytes.chunks(CHUNK));
    }
    /// Expects as many bytes, in chunks.
    pub(crate) fn expect(&mut self, stream: usize, n: usize) {
        self.streams[stream].expected.extend((0..n).step_by(CHUNK).map(|at| CHUNK.min(n - at)));
    }
    /// The next chunk that has come, and its stream; none once all is sent and received.
    ///
    /// # Errors
    /// What ends the wait.
    pub(crate) fn next(&mut self, patience: &mut MpiPatience<'_>) -> Result<Option<(usize, Chunk)>, ErrorKind> {
        loop {
            if let Some(arrived) = self.arrived.pop_front() {
                return Ok(Some(arrived));
            }
            let (mut any, mut open) = (false, false);
            {
                let turn = self.lines.turn()?;
                for (index, stream) in self.streams.iter_mut().enumerate() {
                    let advanced = stream.advance(&turn, self.lines.comm, self.spares, &mut self.arrived, index);
                    let peer = stream.peer;
                    any |= match advanced {
                        Ok(any) => any,
                        Err(why) => {
                            drop(turn);
                            return Err(patience.lost(peer, why));
                        }
                    };
                    open |= stream.wants() || stream.gives();
                }
            }
            if any {
                patience.came();
            } else if !open && self.arrived.is_empty() {
                return Ok(None);
            } else {
                patience.nothing_came(|| self.missing())?;
            }
        }
    }
    /// Ranks whose data have not come; if all have, those that have not fetched theirs.
    fn missing(&self) -> Vec<usize> {
        let of = |open: &dyn Fn(&ChunkStream<'b>) -> bool| {
            let mut peers: Vec<usize> = self.streams.iter().filter(|stream| open(stream)).map(|stream| stream.peer).collect();
            peers.sort_unstable();
            peers.dedup();
            peers
        };
        let wanted = of(&|stream| stream.wants());
        if wanted.is_empty() { of(&|stream| stream.gives()) } else { wanted }
    }
    /// Gives a chunk's buffer back.
    pub(crate) fn done_with(&mut self, stream: usize, chunk: Chunk) {
        self.streams[stream].held -= 1;
        self.spares.give_back(chunk.buffer);
    }
}
impl Drop for Transfer<'_, '_> {
    /// Of a call that failed: takes back what MPI lets go of. What it keeps ends the wire.
    fn drop(&mut self) {
        let receiving = self.streams.iter_mut().flat_map(|stream| stream.receiving.drain(..)).map(|(pending, _)| pending);
        let received: Vec<PendingRequest<'_>> = receiving.collect();
        settle(self.lines, received.into_iter().chain(self.streams.iter_mut().flat_map(|stream| stream.sending.drain(..))).collect());
    }
}
/// Takes back what MPI lets go of, of requests of a call that failed.
pub(crate) fn settle(lines: &GroupLines, mut pending: Vec<PendingRequest<'_>>) {
    if pending.is_empty() {
        return;
    }
    let end = Instant::now() + SETTLING;
    if let Ok(Some(turn)) = lines.wire.turn(SETTLING) {
        pending.iter_mut().for_each(|pending| turn.cancel_receive(pending));
        while !pending.is_empty() {
            pending.retain_mut(|pending| matches!(turn.is_done(pending), Ok(false)));
            if Instant::now() > end {
                break;
            }
            std::thread::yield_now();
        }
    }
}
