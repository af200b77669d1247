//! The numbers of windows.
use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

static EPOCHS: AtomicU32 = AtomicU32::new(1024);
/// A number that no other open window has; never 0. A thread takes them by the thousand.
pub(super) fn next_epoch() -> u32 {
    const BLOCK: u32 = 1024;
    thread_local! {
        static OWN: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    }
    // No destructor, so it is always there.
    OWN.with(|own| {
        let (mut next, mut end) = own.get();
        if next == end {
            next = EPOCHS.fetch_add(BLOCK, Relaxed);
            end = next.wrapping_add(BLOCK);
        }
        // A value that was never in a window has place 0.
        let epoch = next.max(1);
        own.set((next.wrapping_add(1), end));
        epoch
    })
}
