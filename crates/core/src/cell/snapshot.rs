//! Snapshots: cells as of one commit, while others go on writing them.
use super::commit;
use crate::record::context;
use std::cell::{Cell as Local, RefCell};

/// All cells as of one commit: what is read by [`Snapshot::read`], on any number of threads, is of that commit, whatever is
/// written meanwhile. Taking one costs a lock that is held for nanoseconds, and nothing is copied then or while it lives; a
/// cell that is written meanwhile gets its new value in memory of its own, and the old one lives as long as a snapshot that
/// reads it. So writers wait for no reader; a reader that comes while a commit is at work on a cell waits until that is done.
///
/// # A server
/// Each request is computed with one version of the weights, while another thread loads or trains:
///
/// ```
/// # use adamant_core::{Cell, Device, Result, Tensor, consistent, step};
/// let device = Device::reference();
/// let vector = |x: f32| Tensor::from_vec_on(vec![x], [1], device);
/// // A model of two parameters. Each version that is loaded has both equal.
/// let (weight, bias) = (Cell::new(&vector(1.0), true)?, Cell::new(&vector(1.0), true)?);
/// let forward = |x: &Tensor| weight.get() * x + bias.get();
///
/// std::thread::scope(|threads| {
///     let server = threads.spawn(|| -> Result<()> {
///         for _ in 0..100 {
///             let x = vector(10.0);
///             let y = consistent(|| forward(&x)).item::<f32>()?; // one request
///             assert_eq!(y % 11.0, 0.0, "weight and bias were of two versions");
///         }
///         Ok(())
///     });
///     for version in 2..100 {
///         let value = vector(version as f32);
///         step(|| weight.set(&value).and_then(|()| bias.set(&value)))?;
///     }
///     server.join().expect("the server panicked")
/// })
/// # ?; Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Snapshot {
    at: u64,
}
impl Snapshot {
    /// Cells as they are now.
    pub fn now() -> Snapshot {
        Snapshot { at: commit::begin_reading() }
    }
    /// Runs `f`, in which this thread reads cells as they were when the snapshot was taken: weights, running statistics,
    /// counters, through whatever layers. What `f` itself writes it sees. Threads that `f` starts are not in it; they may
    /// enter the same snapshot themselves.
    pub fn read<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Leave(u64, Vec<u64>);
        impl Drop for Leave {
            fn drop(&mut self) {
                context(|c| c.section.put(self.0, std::mem::take(&mut self.1)));
            }
        }
        let (outer, written) = context(|c| c.section.put(self.at, Vec::new()));
        let _leave = Leave(outer, written);
        f()
    }
}
impl Clone for Snapshot {
    fn clone(&self) -> Snapshot {
        commit::go_on_reading(self.at);
        Snapshot { at: self.at }
    }
}
impl Drop for Snapshot {
    fn drop(&mut self) {
        commit::end_reading(self.at);
    }
}
/// Runs `f`, in which this thread reads all cells as of one commit: see [`Snapshot`]. Inside another such section it is part
/// of that one.
pub fn consistent<R>(f: impl FnOnce() -> R) -> R {
    if context(|c| c.section.is_open()) { f() } else { Snapshot::now().read(f) }
}

/// The snapshot that a thread reads.
pub(crate) struct ReadSection {
    at: Local<u64>,
    /// Cells that were written inside: of these it sees what is there.
    written: RefCell<Vec<u64>>,
}
/// No commit has this number yet.
pub(super) const LATEST: u64 = u64::MAX;
impl ReadSection {
    pub const fn none() -> ReadSection {
        ReadSection { at: Local::new(LATEST), written: RefCell::new(Vec::new()) }
    }
    pub fn is_open(&self) -> bool {
        self.at.get() != LATEST
    }
    /// As of which commit a cell is seen.
    pub fn at(&self, cell: u64) -> u64 {
        let at = self.at.get();
        if at != LATEST && self.written.borrow().contains(&cell) { LATEST } else { at }
    }
    pub fn wrote(&self, cell: u64) {
        if self.is_open() && !self.written.borrow().contains(&cell) {
            self.written.borrow_mut().push(cell);
        }
    }
    fn put(&self, at: u64, written: Vec<u64>) -> (u64, Vec<u64>) {
        (self.at.replace(at), self.written.replace(written))
    }
}
