//! Device memory, and how bytes get there and back.
use crate::{
    driver::{self, Pinned},
    opened::{Opened, internal},
    stream::Waits,
};
use adamant_runtime::{
    ErrorKind,
    backend::{Event, HostBytes, Memory, Queue, ReadBack},
};
use std::{
    any::Any,
    slice,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

mod mapped;
mod pages;
mod pool;

pub(crate) use mapped::mapped_pages_differ;
pub(crate) use pages::LastTurns;
use pages::PageBlock;
pub use pool::{CudaMemoryStats, CudaShortage};
pub(crate) use pool::{CudaPool, addresses_for};

/// A piece of device memory as the driver gives it, given back when it is dropped.
pub(crate) struct DeviceBlock {
    pub address: u64,
    pub bytes: usize,
    pool: Arc<CudaPool>,
}
impl DeviceBlock {
    /// # Errors
    /// `OutOfMemory`; a lost device.
    pub fn new(opened: &Opened, bytes: usize) -> Result<DeviceBlock, ErrorKind> {
        let (pool, bytes) = (opened.pool.clone(), bytes.max(4));
        let address = pool.plain(bytes)?;
        opened.counts.allocated.fetch_add(bytes as u64, Relaxed);
        Ok(DeviceBlock { address, bytes, pool })
    }
    /// A block of at least so many bytes in the place of one that is too small. Whoever uses that one does so in earlier turns
    /// of the stream whose block it is, which the driver lets pass before it takes the memory back.
    ///
    /// # Errors
    /// As [`DeviceBlock::new`].
    pub fn grown(opened: &Opened, kept: &mut Option<DeviceBlock>, bytes: usize) -> Result<u64, ErrorKind> {
        if let Some(block) = kept.as_ref().filter(|b| b.bytes >= bytes) {
            return Ok(block.address);
        }
        let new = DeviceBlock::new(opened, bytes.next_power_of_two().max(4096))?;
        let address = new.address;
        *kept = Some(new);
        Ok(address)
    }
}
impl Drop for DeviceBlock {
    fn drop(&mut self) {
        self.pool.give_plain(self.address, self.bytes);
    }
}
/// A block of mapped pages, given back when it is dropped, while work may use it still.
struct MappedBlock {
    block: PageBlock,
    /// the last turn of the copy queue that uses it
    copied: AtomicU64,
    pool: Arc<CudaPool>,
}
impl MappedBlock {
    /// # Errors
    /// `OutOfMemory`; a lost device.
    fn new(opened: &Opened, bytes: usize) -> Result<MappedBlock, ErrorKind> {
        let pool = opened.pool.clone();
        let block = match pool.take_free(bytes as u64) {
            Some(block) => block,
            None => {
                opened.queues.iter().for_each(crate::stream::CudaStream::look_at_turns);
                let block = pool.take(bytes as u64)?;
                opened.counts.allocated.fetch_add(block.bytes, Relaxed);
                block
            }
        };
        Ok(MappedBlock { block, copied: AtomicU64::new(0), pool })
    }
}
impl Drop for MappedBlock {
    fn drop(&mut self) {
        // Which turns of the other queues use it is not noted: none that has not begun.
        let LastTurns([compute, _, communication]) = self.pool.marks.begun();
        self.pool.give(&self.block, LastTurns([compute, *self.copied.get_mut(), communication]));
    }
}
fn events_of(last: LastTurns) -> impl Iterator<Item = Event> {
    Queue::ALL.into_iter().zip(last.0).filter(|(_, number)| *number > 0).map(|(queue, number)| Event::new(queue, number))
}
/// How memory is had.
enum HeldMemory {
    Plain(DeviceBlock),
    Mapped(MappedBlock),
}
/// Memory of the CUDA backend.
pub(crate) struct CudaMemory {
    held: HeldMemory,
    bytes: usize,
}
impl CudaMemory {
    /// # Errors
    /// More than a kernel sees at once, by name; `OutOfMemory`; a lost device.
    pub fn new(opened: &Opened, bytes: usize) -> Result<CudaMemory, ErrorKind> {
        let largest = crate::opened::LARGEST;
        if bytes as u64 > largest {
            return Err(ErrorKind::Unsupported { backend: "cuda".into(), what: format!("{bytes} bytes in one piece: kernels see at most {largest} at once") });
        }
        let is_mapped = opened.pool.is_mapped();
        let held = if is_mapped { HeldMemory::Mapped(MappedBlock::new(opened, bytes)?) } else { HeldMemory::Plain(DeviceBlock::new(opened, bytes)?) };
        Ok(CudaMemory { held, bytes })
    }
    pub fn address(&self) -> u64 {
        match &self.held {
            HeldMemory::Plain(block) => block.address,
            HeldMemory::Mapped(block) => block.block.start,
        }
    }
    fn pool(&self) -> &CudaPool {
        match &self.held {
            HeldMemory::Plain(block) => &block.pool,
            HeldMemory::Mapped(block) => &block.pool,
        }
    }
    /// The work of those who had the memory before that may be under way still: the first to use it goes behind that.
    pub fn behind(&self) -> impl Iterator<Item = Event> {
        let last = match &self.held {
            HeldMemory::Mapped(block) if !block.block.behind.are_within(block.pool.marks.passed()) => block.block.behind,
            _ => LastTurns::default(),
        };
        events_of(last)
    }
    /// It is used by this work.
    fn used_by(&self, event: Event) {
        if let (HeldMemory::Mapped(block), Queue::Copy) = (&self.held, event.queue()) {
            block.copied.fetch_max(event.number(), Relaxed);
        }
    }
}
impl Memory for CudaMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn address(&self) -> Option<u64> {
        Some(self.address())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
/// The memory as ours.
///
/// # Errors
/// It is another backend's; it went with a device that was lost.
pub(crate) fn ours(memory: &dyn Memory) -> Result<&CudaMemory, ErrorKind> {
    let ours: &CudaMemory = memory.as_any().downcast_ref().ok_or_else(|| internal("memory of another backend"))?;
    ours.pool().context().lost().map_or(Ok(ours), Err)
}
/// Refuses what is not in the memory.
fn within(memory: &CudaMemory, offset: usize, bytes: usize) -> Result<(), ErrorKind> {
    if offset.checked_add(bytes).is_none_or(|end| end > memory.bytes) { Err(internal("bytes that are not in the memory")) } else { Ok(()) }
}
/// Bytes of a piece that the device does not use now.
fn bytes_of(piece: &mut Pinned, count: usize) -> &mut [u8] {
    // SAFETY: so many bytes are pinned, `staging` hands them to one owner, and no copy of the device is on its way.
    #[allow(unsafe_code)]
    unsafe {
        slice::from_raw_parts_mut(piece.start, count.min(piece.bytes))
    }
}
impl Opened {
    /// Has it passed?
    pub fn is_done(&self, event: Event) -> bool {
        event.is_done() || self.queue(event.queue()).has_passed(event.number())
    }
    /// Waits until it has passed.
    ///
    /// # Errors
    /// A lost device.
    pub fn wait(&self, event: Event) -> Result<(), ErrorKind> {
        if self.is_done(event) {
            return self.context.check();
        }
        self.counts.waits.fetch_add(1, Relaxed);
        self.queue(event.queue()).wait(event.number())
    }
    /// What a turn of a queue must wait for to be behind these events: its own queue runs in order.
    pub fn behind(&self, queue: Queue, events: &[Event]) -> Waits {
        let others = events.iter().filter(|e| !e.is_done() && e.queue() != queue && !self.is_done(**e));
        others.filter_map(|e| self.queue(e.queue()).event_of(e.number())).collect()
    }
    /// The events behind which everything is that was handed over.
    pub fn everything(&self) -> [Event; 3] {
        [self.queues[0].last(), self.queues[1].last(), self.queues[2].last()]
    }
    /// Copies host bytes to the device on a queue, behind events.
    ///
    /// # Errors
    /// A lost device; no memory to copy through.
    pub fn copy_in(&self, queue: Queue, to: u64, from: &[u8], behind: &[Event]) -> Result<Event, ErrorKind> {
        let (mut event, mut waits) = (Event::DONE, self.behind(queue, behind));
        for (k, bytes) in from.chunks(crate::staging::PIECE).enumerate() {
            let mut piece = self.staging.take(self, bytes.len())?;
            bytes_of(&mut piece, bytes.len()).copy_from_slice(bytes);
            self.counts.staged.fetch_add(bytes.len() as u64, Relaxed);
            let turn = self.queue(queue).turn(&waits)?;
            let copied = turn.call(|s| driver::to_device(to + (k * crate::staging::PIECE) as u64, &piece, bytes.len(), s));
            let after = turn.event();
            let ended = copied.and_then(|()| turn.end());
            self.staging.give(piece, after);
            event = ended?;
            waits.clear();
        }
        Ok(event)
    }
    /// Words in pinned memory. Inside a turn a piece is asked for `fresh`: to look which is free, others' turns are looked at.
    ///
    /// # Errors
    /// A lost device; no memory to copy through.
    pub fn pinned_words(&self, words: &[u32], fresh: bool) -> Result<Pinned, ErrorKind> {
        let bytes = words.len() * 4;
        let mut piece = if fresh { self.staging.fresh(bytes) } else { self.staging.take(self, bytes) }?;
        for (to, word) in bytes_of(&mut piece, bytes).as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        Ok(piece)
    }
    /// Begins to copy from the device to the host, behind events.
    ///
    /// # Errors
    /// A lost device; no memory to copy through.
    pub fn copy_out(self: &Arc<Opened>, queue: Queue, from: u64, bytes: usize, behind: &[Event]) -> Result<OnItsWay, ErrorKind> {
        let piece = self.staging.take(self, bytes)?;
        let turn = self.queue(queue).turn(&self.behind(queue, behind))?;
        let copied = if bytes == 0 { Ok(()) } else { turn.call(|s| driver::to_host(&piece, from, bytes, s)) };
        let event = turn.event();
        let ended = copied.and_then(|()| turn.end());
        let read = OnItsWay { opened: self.clone(), piece: Some(piece), bytes, event };
        ended.map(|_| read)
    }
    /// Copies host bytes into memory, behind everything that was handed over.
    ///
    /// # Errors
    /// A lost device; a range outside the memory.
    pub fn upload(&self, to: &CudaMemory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
        within(to, offset, from.len())?;
        let event = self.copy_in(Queue::Compute, to.address() + offset as u64, from, &self.everything())?;
        self.wait(event)
    }
    /// Copies host bytes to the beginning of memory, behind events: from where they lie, if that is pinned.
    ///
    /// # Errors
    /// As [`Opened::upload`].
    pub fn fill(&self, to: &CudaMemory, from: HostBytes, behind: &[Event]) -> Result<Event, ErrorKind> {
        let bytes = (*from).as_ref();
        within(to, 0, bytes.len())?;
        let behind: Vec<Event> = behind.iter().copied().chain(to.behind()).collect();
        let event = match self.staging.as_pinned(bytes) {
            None => self.copy_in(Queue::Copy, to.address(), bytes, &behind)?,
            Some(piece) => {
                let turn = self.queue(Queue::Copy).turn(&self.behind(Queue::Copy, &behind))?;
                let copied = turn.call(|s| driver::to_device(to.address(), &piece, piece.bytes, s));
                let event = turn.event();
                let ended = copied.and_then(|()| turn.end());
                // A copy whose end is not known may still be on its way.
                self.staging.hold(self, from, event);
                ended?
            }
        };
        to.used_by(event);
        Ok(event)
    }
    /// Begins to read memory, behind events.
    ///
    /// # Errors
    /// As [`Opened::upload`].
    pub fn begin(self: &Arc<Opened>, queue: Queue, from: &CudaMemory, offset: usize, bytes: usize, behind: &[Event]) -> Result<OnItsWay, ErrorKind> {
        within(from, offset, bytes)?;
        let read = self.copy_out(queue, from.address() + offset as u64, bytes, behind)?;
        from.used_by(read.event);
        Ok(read)
    }
}
/// A copy to the host that was begun. Dropped before it is there, it is given up.
pub(crate) struct OnItsWay {
    opened: Arc<Opened>,
    piece: Option<Pinned>,
    bytes: usize,
    pub event: Event,
}
impl OnItsWay {
    /// The bytes, when they are there.
    ///
    /// # Errors
    /// A lost device; another length.
    pub fn finish(mut self, to: &mut [u8]) -> Result<(), ErrorKind> {
        if to.len() != self.bytes {
            return Err(internal("a read of another length"));
        }
        self.opened.wait(self.event)?;
        if let Some(piece) = &mut self.piece {
            to.copy_from_slice(bytes_of(piece, to.len()));
        }
        Ok(())
    }
    /// Has it come, or will it never?
    pub fn is_settled(&self) -> bool {
        self.opened.is_done(self.event)
    }
}
impl Drop for OnItsWay {
    fn drop(&mut self) {
        if let Some(piece) = self.piece.take() {
            self.opened.staging.give(piece, self.event);
            self.opened.staging.trim(&self.opened);
        }
    }
}
impl ReadBack for OnItsWay {
    fn is_ready(&self) -> bool {
        self.is_settled()
    }
    fn wait(self: Box<Self>, to: &mut [u8]) -> Result<(), ErrorKind> {
        self.finish(to)
    }
}
