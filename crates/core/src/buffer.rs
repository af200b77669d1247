//! Buffers: device memory with an owner, and the caching pool they come from and return to.
use crate::{
    Device, ErrorKind, HostVec,
    backend::{Backend, Memory},
};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

/// Memory of a device that tensors share. When the last holder goes it returns to the device's pool.
pub struct Buffer {
    memory: RwLock<Option<Box<dyn Memory>>>,
    bytes: usize,
    device: Device,
    pooled: bool,
}
impl Buffer {
    /// A buffer without memory: what the inputs of a capture have.
    pub(crate) fn empty(device: Device) -> Buffer {
        Buffer { memory: RwLock::new(None), bytes: 0, device, pooled: false }
    }
    /// Its device.
    pub fn device(&self) -> Device {
        self.device
    }
    /// Its size (a class of the pool; at least what was asked for).
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// The memory, for reading. Many readers at once.
    pub fn read(&self) -> RwLockReadGuard<'_, Option<Box<dyn Memory>>> {
        self.memory.read()
    }
    /// The memory, for writing.
    pub fn write(&self) -> RwLockWriteGuard<'_, Option<Box<dyn Memory>>> {
        self.memory.write()
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
impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes on {})", self.bytes, self.device)
    }
}
impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.get_mut().take() {
            self.device.pool().give(memory, self.bytes, self.pooled);
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
pub struct Pool {
    free: Mutex<BTreeMap<usize, Vec<Box<dyn Memory>>>>,
    live: AtomicUsize,
    peak: AtomicUsize,
    cached: AtomicUsize,
    system: AtomicU64,
    requests: AtomicU64,
    cap: AtomicUsize,
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
        let want = class(bytes);
        self.requests.fetch_add(1, Relaxed);
        let cached = {
            let mut free = self.free.lock();
            let exact = free.get_mut(&want).and_then(|blocks| blocks.pop()).map(|m| (m, want));
            let hit = exact.or_else(|| free.range_mut(want..=want.saturating_mul(2)).find_map(|(&size, blocks)| blocks.pop().map(|m| (m, size))));
            if let Some((_, size)) = &hit {
                self.cached.fetch_sub(*size, Relaxed);
            }
            hit
        };
        let (memory, size) = match cached {
            Some(hit) => hit,
            None => {
                let cap = self.cap.load(Relaxed);
                let over = |extra: usize| cap != 0 && self.live.load(Relaxed) + self.cached.load(Relaxed) + extra > cap;
                if over(want) {
                    self.trim();
                }
                let oom = || ErrorKind::OutOfMemory { asked: bytes, in_use: self.live.load(Relaxed), cap: (cap != 0).then_some(cap) };
                if over(want) {
                    return Err(oom());
                }
                self.system.fetch_add(1, Relaxed);
                let memory = match device.backend().alloc(want) {
                    Ok(m) => m,
                    Err(ErrorKind::OutOfMemory { .. }) => {
                        self.trim();
                        device.backend().alloc(want).map_err(|_| oom())?
                    }
                    Err(other) => return Err(other),
                };
                (memory, want)
            }
        };
        self.add_live(size);
        Ok(Arc::new(Buffer { memory: RwLock::new(Some(memory)), bytes: size, device, pooled: true }))
    }
    /// Takes over a host vector.
    ///
    /// # Errors
    /// As `take`.
    pub fn adopt(&self, device: Device, data: HostVec) -> Result<Arc<Buffer>, ErrorKind> {
        let memory = device.backend().adopt(data)?;
        let bytes = memory.bytes();
        self.add_live(bytes);
        Ok(Arc::new(Buffer { memory: RwLock::new(Some(memory)), bytes, device, pooled: false }))
    }
    fn add_live(&self, bytes: usize) {
        let now = self.live.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(now, Relaxed);
    }
    fn give(&self, memory: Box<dyn Memory>, bytes: usize, pooled: bool) {
        self.live.fetch_sub(bytes, Relaxed);
        if pooled {
            self.cached.fetch_add(bytes, Relaxed);
            self.free.lock().entry(bytes).or_default().push(memory);
        }
    }
    /// Gives everything that is cached back to the system.
    pub fn trim(&self) {
        let blocks = std::mem::take(&mut *self.free.lock());
        let bytes: usize = blocks.iter().map(|(size, b)| size * b.len()).sum();
        self.cached.fetch_sub(bytes, Relaxed);
    }
    /// Sets the largest number of bytes the pool may hold (0: no cap).
    pub fn set_cap(&self, bytes: usize) {
        self.cap.store(bytes, Relaxed);
    }
    /// What it has done.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            live_bytes: self.live.load(Relaxed),
            peak_bytes: self.peak.load(Relaxed),
            cached_bytes: self.cached.load(Relaxed),
            system_allocations: self.system.load(Relaxed),
            requests: self.requests.load(Relaxed),
        }
    }
    /// Starts a new peak from the present level.
    pub fn reset_peak(&self) {
        self.peak.store(self.live.load(Relaxed), Relaxed);
    }
}
impl dyn Backend {
    /// The backend as its own type.
    pub fn downcast<T: 'static>(&self) -> Option<&T> {
        self.as_any().downcast_ref()
    }
}
