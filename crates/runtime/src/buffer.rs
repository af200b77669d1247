//! Buffers: device memory with an owner, and the caching pool they come from and return to. On an asynchronous device a buffer
//! knows which work uses it still ([`Uses`]): it comes and goes through the pool with that, and its memory is given back to the
//! device when the work is done.
use crate::{
    Device, ErrorKind, HostVec,
    backend::{Asynchronous, Backend, HostBytes, Memory, PinnedMemory, ReadBack},
    foreign::guarded,
};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

mod at_hand;
mod uses;
pub use uses::{Events, Uses, also};

/// Memory of a device that tensors share. When the last holder goes it returns to the device's pool.
pub struct Buffer {
    memory: RwLock<Option<Box<dyn Memory>>>,
    bytes: usize,
    /// what the holder of now asked for, as a class of the pool
    asked: AtomicUsize,
    device: Device,
    pooled: bool,
    /// Which generation of the device its memory is of: that of an earlier one is lost and no use to the pool.
    generation: u32,
    uses: Uses,
}
impl Buffer {
    /// A buffer without memory: what the inputs of a capture have.
    pub fn empty(device: Device) -> Buffer {
        Buffer {
            memory: RwLock::new(None),
            bytes: 0,
            asked: AtomicUsize::new(0),
            device,
            pooled: false,
            generation: device.generation(),
            uses: Uses::default(),
        }
    }
    /// Which work of an asynchronous device uses it still.
    #[inline]
    pub fn uses(&self) -> &Uses {
        &self.uses
    }
    /// Its device.
    #[inline]
    pub fn device(&self) -> Device {
        self.device
    }
    /// Its size (a class of the pool; at least what was asked for).
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// The size that a pool without spare blocks would have given: what it depends on is the program alone, and not what ran before.
    pub fn asked_bytes(&self) -> usize {
        self.asked.load(Relaxed)
    }
    /// Is its memory a vector that was adopted, or the device's copy of one, and not the pool's?
    pub fn is_adopted(&self) -> bool {
        !self.pooled
    }
    /// Was its memory lost with the device, which is open again?
    #[inline]
    pub fn is_of_before(&self) -> bool {
        self.generation != self.device.generation()
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
    pub fn into_host(mut self) -> Result<HostVec, Buffer> {
        // An empty memory is left, which goes the way of all buffers.
        self.memory.get_mut().as_deref_mut().and_then(|m| m.take_host()).ok_or(self)
    }
    /// Copies `to.len()` bytes from `offset` on to the host.
    ///
    /// # Errors
    /// A lost device.
    pub fn download(&self, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        if self.device.is_asynchronous() {
            return self.read_back(offset, to.len())?.wait(to);
        }
        match self.read().as_deref() {
            Some(m) => self.device.backend().download(m, offset, to),
            None => Err(without_memory()),
        }
    }
}
impl Buffer {
    /// Begins to copy `bytes` from `offset` on to the host.
    ///
    /// # Errors
    /// A lost device.
    pub fn read_back(&self, offset: usize, bytes: usize) -> Result<Box<dyn ReadBack>, ErrorKind> {
        let guard = self.read();
        let memory = guard.as_deref().ok_or_else(without_memory)?;
        let Some(device) = self.device.asynchronous() else { return self.device.backend().read_back(memory, offset, bytes) };
        let mut after = Events::new();
        also(&mut after, self.uses.written());
        let (event, read) = device.read_back(memory, offset, bytes, &after)?;
        self.uses.read_by(event);
        Ok(read)
    }
    /// Copies host bytes to its beginning; nobody needs what else is in it.
    ///
    /// # Errors
    /// A lost device.
    pub fn fill(&self, from: HostBytes) -> Result<(), ErrorKind> {
        match (self.device.asynchronous(), self.write().as_deref_mut()) {
            (_, None) => Err(without_memory()),
            (None, Some(memory)) => self.device.backend().upload(memory, 0, (*from).as_ref()),
            (Some(device), Some(memory)) => {
                self.uses.written_by(device.upload(memory, from, &self.uses.all())?);
                Ok(())
            }
        }
    }
}
fn without_memory() -> ErrorKind {
    ErrorKind::Internal("a buffer without memory".into())
}
impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes on {})", self.bytes, self.device)
    }
}
impl Buffer {
    fn of_pool(memory: Box<dyn Memory>, bytes: usize, device: Device, generation: u32, uses: Uses) -> Buffer {
        Buffer { memory: RwLock::new(Some(memory)), bytes, asked: AtomicUsize::new(bytes), device, pooled: true, generation, uses }
    }
    /// One holder less. Where it was the last, the buffer is kept as it is for the next who wants one.
    #[inline]
    pub fn release(buffer: Arc<Buffer>) {
        // The only holder is the caller, so nobody else can get to it meanwhile.
        if !buffer.pooled || Arc::strong_count(&buffer) != 1 {
            return;
        }
        let left = if buffer.bytes <= at_hand::LARGEST { at_hand::keep(buffer) } else { Some(buffer) };
        if let Some(buffer) = left {
            buffer.device.pool().shelve(buffer);
        }
    }
}
impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(memory) = self.memory.get_mut().take() else { return };
        if self.pooled {
            let uses = std::mem::take(&mut self.uses);
            Buffer::release(Arc::new(Buffer::of_pool(memory, self.bytes, self.device, self.generation, uses)));
        } else {
            self.device.pool().0.lock().stats.live_bytes -= self.bytes;
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

/// A caching pool: size classes, eight to each power of two, so that at most an eighth is wasted; from 1 MiB on 64, and a 64th.
#[derive(Default)]
pub struct Pool(Mutex<Blocks>);
/// What a pool holds and has done. One lock covers all of it: a count costs nothing beside it.
#[derive(Default)]
struct Blocks {
    /// by size; held by nobody else
    free: BTreeMap<usize, Vec<Arc<Buffer>>>,
    stats: MemoryStats,
    cap: usize,
    /// peaks that somebody watches, each by its number
    watched: Vec<(u64, usize)>,
    /// how many were ever watched
    watches: u64,
    /// memory for the device that work of it still uses
    leaving: Vec<Leaving>,
}
/// Memory, and what uses it last.
struct Leaving {
    #[allow(dead_code, reason = "it is held until the work is done")]
    memory: Box<dyn Memory>,
    until: Events,
    device: Device,
}
impl Leaving {
    fn asynchronous(&self) -> Option<&'static dyn Asynchronous> {
        self.device.asynchronous()
    }
    fn is_at_rest(&self) -> bool {
        self.asynchronous().is_none_or(|device| self.until.iter().all(|event| device.is_done(*event)))
    }
}
impl Blocks {
    /// A cached block of at least `want` bytes and at most twice that.
    fn reuse(&mut self, want: usize) -> Option<Arc<Buffer>> {
        let exact = self.free.get_mut(&want).and_then(Vec::pop);
        let hit = exact.or_else(|| self.free.range_mut(want..=want.saturating_mul(2)).find_map(|(_, blocks)| blocks.pop()))?;
        self.stats.cached_bytes -= hit.bytes;
        self.add_live(hit.bytes);
        Some(hit)
    }
    fn add_live(&mut self, bytes: usize) {
        self.stats.live_bytes += bytes;
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.stats.live_bytes);
        self.watched.iter_mut().for_each(|(_, peak)| *peak = self.stats.live_bytes.max(*peak));
    }
    /// Takes everything that is cached out, to be given back to the system.
    fn drain(&mut self) -> Vec<Leaving> {
        self.stats.cached_bytes = 0;
        let cached = std::mem::take(&mut self.free).into_values().flatten();
        let memory = |buffer: Arc<Buffer>| {
            let mut buffer = Arc::into_inner(buffer)?;
            Some(Leaving { memory: buffer.memory.get_mut().take()?, until: buffer.uses.all(), device: buffer.device })
        };
        cached.filter_map(memory).chain(std::mem::take(&mut self.leaving)).collect()
    }
    fn is_over(&self, extra: usize) -> bool {
        self.cap != 0 && (self.stats.live_bytes + self.stats.cached_bytes).saturating_add(extra) > self.cap
    }
    fn out_of_memory(&self, asked: usize) -> ErrorKind {
        ErrorKind::OutOfMemory { asked, in_use: self.stats.live_bytes, cap: (self.cap != 0).then_some(self.cap) }
    }
}
/// Beyond, what a class wastes counts more than that few sizes are asked for.
const LARGE: usize = 1 << 20;
fn class(bytes: usize) -> usize {
    let bytes = bytes.max(64);
    let power = bytes.next_power_of_two();
    let step = (power / if power > LARGE { 128 } else { 16 }).max(64);
    // A step is a power of two.
    bytes.saturating_add(step - 1) & !(step - 1)
}
impl Pool {
    /// Memory for `bytes`, from the pool if it has a block of at most twice the size.
    ///
    /// # Errors
    /// `OutOfMemory` after everything cached was given back to the system and that did not help.
    pub fn take(&self, device: Device, bytes: usize) -> Result<Arc<Buffer>, ErrorKind> {
        let want = class(bytes);
        let buffer = self.take_class(device, bytes, want)?;
        buffer.asked.store(want, Relaxed);
        Ok(buffer)
    }
    fn take_class(&self, device: Device, bytes: usize, want: usize) -> Result<Arc<Buffer>, ErrorKind> {
        if let Some(buffer) = at_hand::take(device, want) {
            return recycled(buffer);
        }
        let cached = {
            let mut blocks = self.0.lock();
            blocks.stats.requests += 1;
            blocks.reuse(want)
        };
        match cached {
            Some(buffer) => recycled(buffer),
            None => self.take_unpooled(device, bytes, want),
        }
    }
    /// What the thread has at hand in other sizes, else new memory.
    #[cold]
    fn take_unpooled(&self, device: Device, bytes: usize, want: usize) -> Result<Arc<Buffer>, ErrorKind> {
        let generation = device.generation();
        at_hand::settle(self);
        let settled = self.0.lock().reuse(want);
        match settled {
            Some(buffer) => recycled(buffer),
            None => Ok(Arc::new(Buffer::of_pool(self.ask_system(device, bytes, want)?, want, device, generation, Uses::default()))),
        }
    }
    /// Gives memory back to the system, behind the work that uses it.
    fn let_go(&self, memory: Vec<Leaving>) {
        let (at_rest, in_use): (Vec<Leaving>, Vec<Leaving>) = memory.into_iter().partition(Leaving::is_at_rest);
        drop(at_rest);
        if !in_use.is_empty() {
            self.0.lock().leaving.extend(in_use);
        }
    }
    /// As `let_go`, and waits for that work.
    fn let_go_now(memory: Vec<Leaving>) {
        for l in memory {
            if let Some(device) = l.asynchronous() {
                // A device that cannot be waited for does nothing any more.
                l.until.iter().for_each(|event| drop(device.wait(*event)));
            }
        }
    }
    /// New memory; it counts as live from before it is asked for, so that two threads do not pass the cap together.
    fn ask_system(&self, device: Device, asked: usize, want: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        {
            let mut blocks = self.0.lock();
            let mut unused = Vec::new();
            if blocks.is_over(want) {
                unused = blocks.drain();
            }
            if blocks.is_over(want) {
                // What frozen plans give back comes through this lock.
                drop(blocks);
                device.frozen().thaw();
                blocks = self.0.lock();
                unused.append(&mut blocks.drain());
            }
            if blocks.is_over(want) {
                return Err(blocks.out_of_memory(asked));
            }
            blocks.stats.system_allocations += 1;
            blocks.add_live(want);
            unused.append(&mut blocks.leaving);
            drop(blocks);
            self.let_go(unused);
        }
        let memory = match device.backend().alloc(want) {
            Err(ErrorKind::OutOfMemory { .. }) => {
                device.frozen().thaw();
                self.trim();
                device.backend().alloc(want)
            }
            first => first,
        };
        memory.map_err(|kind| {
            let mut blocks = self.0.lock();
            blocks.stats.live_bytes -= want;
            match (kind, blocks.out_of_memory(asked)) {
                // The device may have a cap of its own.
                (ErrorKind::OutOfMemory { cap: of_device, .. }, ErrorKind::OutOfMemory { asked, in_use, cap }) => {
                    ErrorKind::OutOfMemory { asked, in_use, cap: cap.or(of_device) }
                }
                (kind, _) => kind,
            }
        })
    }
    /// Takes over a host vector.
    ///
    /// # Errors
    /// As `take`.
    pub fn adopt(&self, device: Device, data: HostVec) -> Result<Arc<Buffer>, ErrorKind> {
        if device.is_asynchronous() {
            return self.filled(device, Box::new(Adopted(data)));
        }
        self.adopted(device, |backend| backend.adopt(data))
    }
    /// Takes over pinned memory of the host, which the device's memory must be.
    ///
    /// # Errors
    /// `Unsupported`: it is not.
    pub fn adopt_pinned(&self, device: Device, memory: Arc<dyn PinnedMemory>) -> Result<Arc<Buffer>, ErrorKind> {
        self.adopted(device, |backend| backend.adopt_pinned(memory))
    }
    fn adopted(&self, device: Device, take: impl FnOnce(&dyn Backend) -> Result<Box<dyn Memory>, ErrorKind>) -> Result<Arc<Buffer>, ErrorKind> {
        let generation = device.generation();
        let memory = take(device.backend())?;
        let bytes = guarded(|| format!("the {device} backend's `Memory::bytes`"), || memory.bytes())?;
        self.0.lock().add_live(bytes);
        Ok(Arc::new(Buffer {
            memory: RwLock::new(Some(memory)),
            bytes,
            asked: AtomicUsize::new(bytes),
            device,
            pooled: false,
            generation,
            uses: Uses::default(),
        }))
    }
    /// Memory that holds a copy of `bytes`.
    ///
    /// # Errors
    /// As `take`; a lost device.
    pub fn copied(&self, device: Device, bytes: &[u8]) -> Result<Arc<Buffer>, ErrorKind> {
        if device.is_asynchronous() {
            return self.filled(device, Box::new(bytes.to_vec()));
        }
        let buffer = self.take(device, bytes.len())?;
        match buffer.write().as_deref_mut() {
            Some(memory) => device.backend().upload(memory, 0, bytes)?,
            None => return Err(ErrorKind::Internal("a buffer without memory".into())),
        }
        Ok(buffer)
    }
    /// Memory that holds these bytes, which are let go when a device that goes on by itself has them.
    ///
    /// # Errors
    /// As `take`; a lost device.
    pub fn filled(&self, device: Device, bytes: HostBytes) -> Result<Arc<Buffer>, ErrorKind> {
        let buffer = self.take(device, (*bytes).as_ref().len())?;
        buffer.fill(bytes)?;
        Ok(buffer)
    }
    /// Puts a buffer that nobody else holds by for the next who wants one, if there is anything to be done with its memory.
    fn shelve(&self, buffer: Arc<Buffer>) {
        let bytes = buffer.bytes;
        let mut lost = None;
        {
            let mut blocks = self.0.lock();
            blocks.stats.live_bytes -= bytes;
            // Asked under the lock: who opens the device anew empties the pool behind that.
            if buffer.is_of_before() || buffer.device.backend().keeps_memory() {
                lost = Arc::into_inner(buffer).and_then(|mut b| b.memory.get_mut().take());
            } else {
                blocks.stats.cached_bytes += bytes;
                blocks.free.entry(bytes).or_default().push(buffer);
            }
        }
        drop(lost);
    }
    fn count_requests(&self, n: u64) {
        self.0.lock().stats.requests += n;
    }
    /// Gives everything that is cached back to the system. Tells whether there was anything.
    pub fn trim(&self) -> bool {
        at_hand::settle(self);
        let unused = self.0.lock().drain();
        let any = !unused.is_empty();
        Pool::let_go_now(unused);
        any
    }
    /// The error of memory that was asked for elsewhere than here.
    pub fn shortage(&self, asked: usize) -> ErrorKind {
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
    pub fn watch(&self) -> (u64, usize) {
        at_hand::settle(self);
        let mut blocks = self.0.lock();
        let (watch, live) = (blocks.watches, blocks.stats.live_bytes);
        blocks.watches += 1;
        blocks.watched.push((watch, live));
        (watch, live)
    }
    /// Ends a watch: the present level, and the peak since it began.
    pub fn unwatch(&self, watch: u64) -> (usize, usize) {
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
/// Pinned memory that a device copies from, and the buffer that it is: with two owners that buffer is nobody's to write.
struct PinnedBytes {
    memory: Arc<dyn PinnedMemory>,
    _owned: Arc<Buffer>,
}
impl AsRef<[u8]> for PinnedBytes {
    fn as_ref(&self) -> &[u8] {
        self.memory.bytes()
    }
}
/// All bytes of a buffer of pinned memory, where it is one; who has the answer keeps it from being written.
pub fn pinned_bytes(buffer: &Arc<Buffer>) -> Option<HostBytes> {
    let memory = buffer.read().as_deref()?.pinned()?;
    Some(Box::new(PinnedBytes { memory, _owned: buffer.clone() }))
}
/// A host vector that was handed to the device.
struct Adopted(HostVec);
impl AsRef<[u8]> for Adopted {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}
/// A buffer that had another owner: what is in it is nobody's any more.
#[inline]
fn recycled(buffer: Arc<Buffer>) -> Result<Arc<Buffer>, ErrorKind> {
    if buffer.device.is_asynchronous() { recycled_behind_uses(buffer) } else { Ok(buffer) }
}
#[cold]
fn recycled_behind_uses(buffer: Arc<Buffer>) -> Result<Arc<Buffer>, ErrorKind> {
    if let Some(device) = buffer.device.asynchronous() {
        let event = match buffer.read().as_deref() {
            Some(memory) => device.recycled(memory, &buffer.uses.all())?,
            None => return Err(without_memory()),
        };
        buffer.uses.written_by(event);
    }
    Ok(buffer)
}
impl dyn Backend {
    /// The backend as its own type.
    pub fn downcast<T: 'static>(&self) -> Option<&T> {
        self.as_any().downcast_ref()
    }
}
