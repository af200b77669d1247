//! What memory a piece of work takes: of a device, block by block ([`profile_memory`], [`MemoryTracker`]), and of the
//! process and the machine ([`memory_usage`]).
//!
//! A block's figures come from the device's pool, which counts in the ordinary course of its work: bytes at the
//! begin, at the end, and the most in between. Each block has a peak of its own, so blocks may lie inside each other, overlap,
//! and run on several threads; what other threads do on the device counts too. Bytes are those of the pool's size classes:
//! at most an eighth more than the elements (a 64th from 1 MiB on), and the same for sizes of 64 KiB that are a power of two.
//!
//! Ops run when somebody reads: evaluate in a block what belongs to it.
use crate::{Device, table::columns};
use parking_lot::Mutex;
use std::fmt;

mod system;
pub use system::{MemoryError, MemoryUsage, ProcessMemory, SystemMemory, memory_usage, process_memory, system_memory};

/// Bytes as 10^6 of them.
fn megabytes(bytes: usize) -> String {
    format!("{:.3}", bytes as f64 * 1e-6)
}

/// What a piece of work left behind on a device and needed at its height, in bytes above what was there before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryProfile {
    /// in buffers that somebody still holds
    pub current: usize,
    /// the most that was
    pub peak: usize,
}
impl fmt::Display for MemoryProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "current {} MB, peak {} MB", megabytes(self.current), megabytes(self.peak))
    }
}
/// Runs `f` and tells what it took of a device's memory.
///
/// ```
/// # use adamant_core::{Device, Tensor, memory::profile_memory};
/// # Device::reference().make_current();
/// let (kept, memory) = profile_memory(Device::current()?, || {
///     let x = Tensor::ones([250, 1000]);
///     x.materialize()?;
///     Ok::<_, adamant_core::Error>(x)
/// });
/// println!("{memory}"); // current 1.000 MB, peak 1.000 MB
/// assert!(kept?.dims::<2>()? == [250, 1000] && memory.peak >= memory.current && memory.current >= 1_000_000);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn profile_memory<R>(device: Device, f: impl FnOnce() -> R) -> (R, MemoryProfile) {
    let watch = PeakWatch::begin(device);
    let result = f();
    let (start, (end, peak)) = (watch.start, watch.end());
    (result, MemoryProfile { current: end.saturating_sub(start), peak: peak - start })
}

/// A peak that is watched. Dropped, it is forgotten.
struct PeakWatch {
    device: Device,
    number: u64,
    start: usize,
}
impl PeakWatch {
    fn begin(device: Device) -> PeakWatch {
        let (number, start) = device.pool().watch();
        PeakWatch { device, number, start }
    }
    /// Bytes now, and the most since the beginning.
    fn end(self) -> (usize, usize) {
        self.device.pool().unwatch(self.number)
    }
}
impl Drop for PeakWatch {
    fn drop(&mut self) {
        // Again, where `end` was called: then nothing is found.
        self.device.pool().unwatch(self.number);
    }
}

/// Bytes that tensors held on a device: when a block began, when it ended, and the most in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBlock {
    /// its name
    pub name: String,
    /// bytes when it began
    pub start: usize,
    /// bytes when it ended
    pub end: usize,
    /// the most that was
    pub peak: usize,
}
/// Keeps what named blocks took of a device's memory, in the order they ended. A block costs its name and three numbers.
///
/// ```
/// # use adamant_core::{Device, Tensor, memory::MemoryTracker};
/// # Device::reference().make_current();
/// let tracker = MemoryTracker::new(Device::current()?);
/// let x = tracker.track("input", || Tensor::from_vec(vec![0.5f32; 250_000], [250, 1000]));
/// {
///     let _block = tracker.begin("forward");
///     x.exp().sum(..).materialize()?;
/// }
/// println!("{tracker}");
/// let blocks = tracker.blocks();
/// assert!(blocks[0].end - blocks[0].start >= 1_000_000 && blocks[1].peak >= blocks[1].end);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct MemoryTracker {
    device: Device,
    blocks: Mutex<Vec<MemoryBlock>>,
}
impl MemoryTracker {
    /// One that has seen nothing.
    pub fn new(device: Device) -> MemoryTracker {
        MemoryTracker { device, blocks: Mutex::default() }
    }
    /// Runs `f` as a block.
    pub fn track<R>(&self, name: &str, f: impl FnOnce() -> R) -> R {
        let _block = self.begin(name);
        f()
    }
    /// Begins a block, which ends when the guard is dropped.
    pub fn begin(&self, name: &str) -> MemoryGuard<'_> {
        MemoryGuard { tracker: self, name: name.into(), watch: Some(PeakWatch::begin(self.device)) }
    }
    /// The blocks that have ended.
    pub fn blocks(&self) -> Vec<MemoryBlock> {
        self.blocks.lock().clone()
    }
    /// Forgets them.
    pub fn reset(&self) {
        self.blocks.lock().clear();
    }
}
impl fmt::Debug for MemoryTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTracker").field("device", &self.device).field("blocks", &*self.blocks.lock()).finish()
    }
}
impl fmt::Display for MemoryTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![["Block", "Start MB", "End MB", "Peak MB"].map(String::from).to_vec()];
        lines.extend(self.blocks.lock().iter().map(|b| vec![b.name.clone(), megabytes(b.start), megabytes(b.end), megabytes(b.peak)]));
        f.write_str(&columns(&lines))
    }
}
/// Ends its block when dropped.
#[must_use = "the block ends when the guard is dropped"]
pub struct MemoryGuard<'a> {
    tracker: &'a MemoryTracker,
    name: String,
    watch: Option<PeakWatch>,
}
impl Drop for MemoryGuard<'_> {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            let (start, (end, peak)) = (watch.start, watch.end());
            self.tracker.blocks.lock().push(MemoryBlock { name: std::mem::take(&mut self.name), start, end, peak });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{buffer::Buffer, reference::ReferenceBackend};
    use std::sync::Arc;

    const MIB: usize = 1 << 20;

    fn device() -> Device {
        Device::from_backend(Box::new(ReferenceBackend::new()))
    }
    fn held(device: Device, mib: usize) -> Arc<Buffer> {
        device.pool().take(device, mib * MIB).unwrap()
    }
    #[test]
    fn a_block_inside_another_that_takes_its_peak() {
        let device = device();
        let tracker = MemoryTracker::new(device);
        let (_, profile) = profile_memory(device, || {
            let outer = tracker.begin("outer");
            drop(held(device, 8));
            let kept = held(device, 1);
            tracker.track("inner", || {
                // Somebody else starts the device's own peak anew.
                device.pool().reset_peak();
                drop(held(device, 2));
            });
            drop(outer);
            drop(kept);
        });
        let block = |name: &str, start, end, peak| MemoryBlock { name: name.into(), start: start * MIB, end: end * MIB, peak: peak * MIB };
        assert_eq!(tracker.blocks(), [block("inner", 1, 1, 3), block("outer", 0, 1, 8)]);
        assert_eq!(profile, MemoryProfile { current: 0, peak: 8 * MIB });
        assert_eq!(profile.to_string(), "current 0.000 MB, peak 8.389 MB");
        assert_eq!(tracker.to_string().lines().count(), 3);
        tracker.reset();
        assert!(tracker.blocks().is_empty());
    }
    #[test]
    fn blocks_that_overlap_and_end_in_the_order_they_began() {
        let device = device();
        let tracker = MemoryTracker::new(device);
        let first = tracker.begin("first");
        let early = held(device, 4);
        let second = tracker.begin("second");
        drop(early);
        drop(first);
        let late = held(device, 6);
        drop(second);
        drop(late);
        let peaks: Vec<(usize, usize, usize)> = tracker.blocks().iter().map(|b| (b.start / MIB, b.end / MIB, b.peak / MIB)).collect();
        assert_eq!(peaks, [(0, 0, 4), (4, 6, 6)]);
    }
    #[test]
    fn a_watch_that_a_panic_leaves_behind() {
        let device = device();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| profile_memory(device, || assert!(device.index() == u32::MAX, "planted"))));
        assert!(ended.is_err());
        let (number, _) = device.pool().watch();
        // The one that the panic ended is the only one before it, and is gone.
        assert_eq!((number, device.pool().unwatch(number - 1)), (1, (0, 0)));
    }
}
