//! What the scheduler has done, counted per thread.
use std::cell::RefCell;

/// What the scheduler has done on this thread, for tests and profiles.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Stats {
    /// windows or parts of windows that ran
    pub flushes: u64,
    /// plans found by structure and sizes
    pub hits: u64,
    /// plans found by structure, sized anew
    pub resizes: u64,
    /// plans made
    pub misses: u64,
    /// kernels run
    pub kernels: u64,
    /// ops that ran inside a kernel of another op
    pub fused: u64,
    /// buffers reused in place
    pub donated: u64,
    /// copies made because a buffer was still held
    pub copies: u64,
    /// values computed again for the backward
    pub recomputed: u64,
    /// values that only the tape held and that were not written
    pub deferred: u64,
    /// groups of cell writes that were suppressed
    pub suppressed: u64,
    /// plans that ran as one piece that the device keeps
    pub frozen: u64,
}
impl Stats {
    /// Nothing done.
    const NONE: Stats =
        Stats { flushes: 0, hits: 0, resizes: 0, misses: 0, kernels: 0, fused: 0, donated: 0, copies: 0, recomputed: 0, deferred: 0, suppressed: 0, frozen: 0 };
}
thread_local! {
    static STATS: RefCell<Stats> = const { RefCell::new(Stats::NONE) };
}
/// Counts something.
#[inline]
pub fn count(f: impl FnOnce(&mut Stats)) {
    let _ = STATS.try_with(|s| f(&mut s.borrow_mut()));
}
/// The counters of this thread.
pub(crate) fn stats() -> Stats {
    STATS.try_with(|s| *s.borrow()).unwrap_or(Stats::NONE)
}
/// The counters of this thread since the last call, which are set back.
pub fn take_stats() -> Stats {
    STATS.try_with(|s| s.take()).unwrap_or(Stats::NONE)
}
