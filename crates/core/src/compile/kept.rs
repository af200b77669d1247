//! The captures of a compiled function: found by the kind of a call, and no more of them than [`MOST_CAPTURES`].
use super::noted::CaptureGuards;
use crate::{
    Meta, Tensor,
    hash::mix,
    record::RecordingContext,
    schedule::captured::{Captured, MOST_CAPTURES},
};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// What a capture is good for: inputs like these, called where these things stand so.
pub(super) struct CallKind<'a> {
    pub inputs: &'a [&'a Tensor],
    pub grad: bool,
    pub ambient: u64,
}
impl<'a> CallKind<'a> {
    /// Of a call as things stand on the thread of this context.
    #[inline]
    pub fn now(inputs: &'a [&'a Tensor], c: &RecordingContext) -> CallKind<'a> {
        CallKind { inputs, grad: !c.grad_off.get(), ambient: crate::ambient::identity(c) }
    }
    pub fn metas(&self) -> impl ExactSizeIterator<Item = Meta> {
        self.inputs.iter().map(|t| t.meta())
    }
    pub fn hash(&self) -> u64 {
        self.metas().fold(mix(self.ambient, self.grad as u64), |hash, m| mix(hash ^ m.dtype as u64, m.shape.hash()))
    }
}
pub(super) struct GuardedCapture {
    pub metas: Vec<Meta>,
    pub grad: bool,
    pub ambient: u64,
    pub guards: CaptureGuards,
    pub captured: Captured,
}
impl GuardedCapture {
    #[inline]
    pub fn fits(&self, kind: &CallKind<'_>) -> bool {
        let inputs = || kind.inputs.iter().zip(&self.metas).all(|(t, meta)| t.value().meta == *meta);
        self.grad == kind.grad && self.ambient == kind.ambient && kind.inputs.len() == self.metas.len() && inputs() && self.guards.hold()
    }
}

/// How often a compiled function was captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Captures {
    /// structures: each has plans of its own
    pub structures: u64,
    /// Sizes, of whatever structure. The function was traced once for each; the plan of a known structure was used.
    pub sizes: u64,
    /// captures that had to go
    pub evicted: u64,
    /// captures that are there
    pub held: usize,
}
struct Entry {
    hash: u64,
    used: u64,
    capture: Arc<GuardedCapture>,
}
/// The captures beside the first, and the counts of all.
#[derive(Default)]
pub(super) struct Others {
    entries: Mutex<Vec<Entry>>,
    /// the structures that were met, of which each is counted once
    structures: Mutex<Vec<u64>>,
    clock: AtomicU64,
    evicted: AtomicU64,
    sizes: AtomicU64,
    met: AtomicU64,
}
impl Others {
    pub fn find(&self, kind: &CallKind<'_>) -> Option<Arc<GuardedCapture>> {
        let hash = kind.hash();
        let mut entries = self.entries.lock();
        let entry = entries.iter_mut().find(|e| e.hash == hash && e.capture.fits(kind))?;
        entry.used = self.clock.fetch_add(1, Relaxed);
        Some(entry.capture.clone())
    }
    pub fn keep(&self, hash: u64, capture: Arc<GuardedCapture>) {
        let mut gone = None;
        let mut entries = self.entries.lock();
        if entries.len() >= MOST_CAPTURES
            && let Some(oldest) = (0..entries.len()).min_by_key(|&k| entries[k].used)
        {
            gone = Some(entries.swap_remove(oldest));
            self.evicted.fetch_add(1, Relaxed);
        }
        entries.push(Entry { hash, used: self.clock.fetch_add(1, Relaxed), capture });
        drop(entries);
        // It holds cells and memory: let go of when nothing is locked.
        drop(gone);
    }
    /// A capture was made.
    pub fn count(&self, structure: u64) {
        let mut structures = self.structures.lock();
        if structures.contains(&structure) {
            self.sizes.fetch_add(1, Relaxed);
            return;
        }
        if structures.len() >= MOST_CAPTURES {
            structures.remove(0);
        }
        structures.push(structure);
        self.met.fetch_add(1, Relaxed);
        self.sizes.fetch_add(1, Relaxed);
    }
    pub fn captures(&self, first: bool) -> Captures {
        Captures {
            structures: self.met.load(Relaxed),
            sizes: self.sizes.load(Relaxed),
            evicted: self.evicted.load(Relaxed),
            held: self.entries.lock().len() + usize::from(first),
        }
    }
}
