//! Buffers: device memory with an owner, and the caching pool they come from and return to.
use crate::{
    Device, ErrorKind, HostVec,
    backend::{Backend, Memory, ReadBack},
};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::{collections::BTreeMap, fmt, sync::Arc};

mod at_hand;

/// Memory of a device that tensors share. When the last holder goes it returns to the device's pool.
pub struct Buffer {
    memory: RwLock<Option<Box<dyn Memory>>>,
    bytes: usize,
    device: Device,
    pooled: bool,
    /// Which opening of the device its memory is of: that of an earlier one is lost and no use to the pool.
    opening: u32,
}
impl Buffer {
    /// A buffer without memory: what the inputs of a capture have.
    pub(crate) fn empty(device: Device) -> Buffer {
        Buffer { memory: RwLock::new(None), bytes: 0, device, pooled: false, opening: device.opening() }
    }
    /// Its device.
    pub fn device(&self) -> Device {
        self.device
    }
    /// Its size (a class of the pool; at least what was asked for).
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Is its memory a vector that was adopted, or the device's copy of one, and not the pool's?
    pub(crate) fn is_adopted(&self) -> bool {
        !self.pooled
    }
    /// Was its memory lost with the device, which is open again?
    pub(crate) fn is_of_before(&self) -> bool {
        self.opening != self.device.opening()
    }
    /// The memory, for reading. Many readers at once.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, Option<Box<dyn Memory>>> {
        self.memory.read()
    }
    /// The memory, for writing.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, Option<Box<dyn Memory>>> {
        self.memory.write()
    }
    /// The vector that was adopted, where it was one; else the buffer as it is.
    pub(crate) fn into_host(mut self) -> Result<HostVec, Buffer> {
        // An empty memory is left, which goes the way of all buffers.
        self.memory.get_mut().as_deref_mut().and_then(|m| m.take_host()).ok_or(self)
    }
    /// Copies `to.len()` bytes from `offset` on to the host.
    ///
    /// # Errors
    /// A lost device.
    pub fn download(&self, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        match self.read().as_deref() {
            Some(m) => self.device.backend().download(m, offset, to),
            None => Err(ErrorKind::Internal("a buffer without memory".into())),
        }
    }
}
impl Buffer {
    /// Begins to copy `bytes` from `offset` on to the host.
    ///
    /// # Errors
    /// A lost device.
    pub(crate) fn read_back(&self, offset: usize, bytes: usize) -> Result<Box<dyn ReadBack>, ErrorKind> {
        match self.read().as_deref() {
            Some(m) => self.device.backend().read_back(m, offset, bytes),
            None => Err(ErrorKind::Internal("a buffer without memory".into())),
        }
    }
}
impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes on {})", self.bytes, self.device)
    }
}
impl Buffer {
    fn of_pool(memory: Box<dyn Memory>, bytes: usize, device: Device, opening: u32) -> Buffer {
        Buffer { memory: RwLock::new(Some(memory)), bytes, device, pooled: true, opening }
    }
    /// One holder less. Where it was the last, a small buffer is kept as it is for the next who wants one.
    pub(crate) fn release(buffer: Arc<Buffer>) {
        // The only holder is the caller, so nobody else can get to it meanwhile.
        if buffer.pooled && buffer.bytes <= at_hand::LARGEST && Arc::strong_count(&buffer) == 1 {
            let mut buffer = Some(buffer);
            at_hand::keep(|| buffer.take());
            buffer.and_then(Arc::into_inner).into_iter().for_each(Buffer::shelve);
        }
    }
    /// Hands its memory over to the pool, past what a thread keeps at hand.
    fn shelve(mut self) {
        if let Some(memory) = self.memory.get_mut().take() {
            self.device.pool().shelve(memory, self.bytes, !self.is_of_before());
        }
    }
}
impl Drop for Buffer {
    fn drop(&mut self) {
        let mut memory = self.memory.get_mut().take();
        if memory.is_some() && !self.pooled {
            self.device.pool().0.lock().stats.live_bytes -= self.bytes;
            return;
        }
        if self.bytes <= at_hand::LARGEST {
            at_hand::keep(|| memory.take().map(|memory| Arc::new(Buffer::of_pool(memory, self.bytes, self.device, self.opening))));
        }
        if let Some(memory) = memory {
            self.device.pool().shelve(memory, self.bytes, !self.is_of_before());
        }
    }
}

/// What a pool has done, for tests and profiles. Bytes and counts since the device was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// bytes in buffers that somebody holds
    pub live_bytes: usize,
    /// the largest `live_bytes` since the last `reset_peak`
    pub peak_bytes: usize,
    /// bytes that wait in the pool
    pub cached_bytes: usize,
    /// how often memory was asked of the system
    pub system_allocations: u64,
    /// how often memory was asked of the pool
    pub requests: u64,
}

/// A caching pool: size classes, eight to each power of two, so that at most an eighth is wasted.
#[derive(Default)]
pub struct Pool(Mutex<Blocks>);
/// What a pool holds and has done. One lock covers all of it: a count costs nothing beside it.
#[derive(Default)]
struct Blocks {
    free: BTreeMap<usize, Vec<Box<dyn Memory>>>,
    stats: MemoryStats,
    cap: usize,
    /// peaks that somebody watches, each by its number
    watched: Vec<(u64, usize)>,
    /// how many were ever watched
    watches: u64,
}
impl Blocks {
    /// A cached block of at least `want` bytes and at most twice that.
    fn reuse(&mut self, want: usize) -> Option<(Box<dyn Memory>, usize)> {
        let exact = self.free.get_mut(&want).and_then(|blocks| blocks.pop()).map(|m| (m, want));
        let hit = exact.or_else(|| self.free.range_mut(want..=want.saturating_mul(2)).find_map(|(&size, blocks)| blocks.pop().map(|m| (m, size))))?;
        self.stats.cached_bytes -= hit.1;
        self.add_live(hit.1);
        Some(hit)
    }
    fn add_live(&mut self, bytes: usize) {
        self.stats.live_bytes += bytes;
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.stats.live_bytes);
        self.watched.iter_mut().for_each(|(_, peak)| *peak = self.stats.live_bytes.max(*peak));
    }
    /// Takes everything that is cached out, to be given back to the system.
    fn drain(&mut self) -> Vec<Box<dyn Memory>> {
        self.stats.cached_bytes = 0;
        std::mem::take(&mut self.free).into_values().flatten().collect()
    }
    fn is_over(&self, extra: usize) -> bool {
        self.cap != 0 && (self.stats.live_bytes + self.stats.cached_bytes).saturating_add(extra) > self.cap
    }
    fn out_of_memory(&self, asked: usize) -> ErrorKind {
        ErrorKind::OutOfMemory { asked, in_use: self.stats.live_bytes, cap: (self.cap != 0).then_some(self.cap) }
    }
}
fn class(bytes: usize) -> usize {
    let bytes = bytes.max(64);
    let step = (bytes.next_power_of_two() / 16).max(64);
    bytes.div_ceil(step).saturating_mul(step)
}
impl Pool {
    /// Memory for `bytes`, from the pool if it has a block of at most twice the size.
    ///
    /// # Errors
    /// `OutOfMemory` after everything cached was given back to the system and that did not help.
    pub fn take(&self, device: Device, bytes: usize) -> Result<Arc<Buffer>, ErrorKind> {
        let (want, opening) = (class(bytes), device.opening());
        if let Some(buffer) = at_hand::take(device, want) {
            return Ok(buffer);
        }
        let cached = {
            let mut blocks = self.0.lock();
            blocks.stats.requests += 1;
            blocks.reuse(want)
        };
        let (memory, size) = match cached {
            Some(hit) => hit,
            None => (self.ask_system(device, bytes, want)?, want),
        };
        Ok(Arc::new(Buffer::of_pool(memory, size, device, opening)))
    }
    /// New memory; it counts as live from before it is asked for, so that two threads do not pass the cap together.
    fn ask_system(&self, device: Device, asked: usize, want: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        at_hand::settle(self);
        {
            let mut blocks = self.0.lock();
            let mut unused = Vec::new();
            if blocks.is_over(want) {
                unused = blocks.drain();
            }
            if blocks.is_over(want) {
                return Err(blocks.out_of_memory(asked));
            }
            blocks.stats.system_allocations += 1;
            blocks.add_live(want);
            drop(blocks);
            drop(unused);
        }
        let memory = match device.backend().alloc(want) {
            Err(ErrorKind::OutOfMemory { .. }) => {
                self.trim();
                device.backend().alloc(want)
            }
            first => first,
        };
        memory.map_err(|kind| {
            let mut blocks = self.0.lock();
            blocks.stats.live_bytes -= want;
            if matches!(kind, ErrorKind::OutOfMemory { .. }) { blocks.out_of_memory(asked) } else { kind }
        })
    }
    /// Takes over a host vector.
    ///
    /// # Errors
    /// As `take`.
    pub fn adopt(&self, device: Device, data: HostVec) -> Result<Arc<Buffer>, ErrorKind> {
        let opening = device.opening();
        let memory = device.backend().adopt(data)?;
        let bytes = memory.bytes();
        self.0.lock().add_live(bytes);
        Ok(Arc::new(Buffer { memory: RwLock::new(Some(memory)), bytes, device, pooled: false, opening }))
    }
    /// Memory that holds a copy of `bytes`.
    ///
    /// # Errors
    /// As `take`; a lost device.
    pub(crate) fn copied(&self, device: Device, bytes: &[u8]) -> Result<Arc<Buffer>, ErrorKind> {
        let buffer = self.take(device, bytes.len())?;
        match buffer.write().as_deref_mut() {
            Some(memory) => device.backend().upload(memory, 0, bytes)?,
            None => return Err(ErrorKind::Internal("a buffer without memory".into())),
        }
        Ok(buffer)
    }
    /// Puts a block by for the next who wants one, if there is anything to be done with it.
    fn shelve(&self, memory: Box<dyn Memory>, bytes: usize, usable: bool) {
        let mut blocks = self.0.lock();
        blocks.stats.live_bytes -= bytes;
        if !usable {
            return;
        }
        blocks.stats.cached_bytes += bytes;
        match blocks.free.get_mut(&bytes) {
            Some(same) => same.push(memory),
            None => drop(blocks.free.insert(bytes, vec![memory])),
        }
    }
    fn count_requests(&self, n: u64) {
        self.0.lock().stats.requests += n;
    }
    /// Gives everything that is cached back to the system. Tells whether there was anything.
    pub fn trim(&self) -> bool {
        at_hand::settle(self);
        let unused = self.0.lock().drain();
        !unused.is_empty()
    }
    /// The error of memory that was asked for elsewhere than here.
    pub(crate) fn shortage(&self, asked: usize) -> ErrorKind {
        self.0.lock().out_of_memory(asked)
    }
    /// Sets the largest number of bytes the pool may hold (0: no cap).
    pub fn set_cap(&self, bytes: usize) {
        self.0.lock().cap = bytes;
    }
    /// What it has done.
    pub fn stats(&self) -> MemoryStats {
        at_hand::settle(self);
        self.0.lock().stats
    }
    /// Watches the peak from now on, whatever others watch or reset. Gives its number and the present level.
    pub(crate) fn watch(&self) -> (u64, usize) {
        at_hand::settle(self);
        let mut blocks = self.0.lock();
        let (watch, live) = (blocks.watches, blocks.stats.live_bytes);
        blocks.watches += 1;
        blocks.watched.push((watch, live));
        (watch, live)
    }
    /// Ends a watch: the present level, and the peak since it began.
    pub(crate) fn unwatch(&self, watch: u64) -> (usize, usize) {
        at_hand::settle(self);
        let mut blocks = self.0.lock();
        let live = blocks.stats.live_bytes;
        let at = blocks.watched.iter().position(|w| w.0 == watch);
        (live, at.map_or(live, |at| blocks.watched.swap_remove(at).1))
    }
    /// Starts a new peak from the present level.
    pub fn reset_peak(&self) {
        at_hand::settle(self);
        let mut blocks = self.0.lock();
        blocks.stats.peak_bytes = blocks.stats.live_bytes;
    }
}
impl dyn Backend {
    /// The backend as its own type.
    pub fn downcast<T: 'static>(&self) -> Option<&T> {
        self.as_any().downcast_ref()
    }
}
