//! Pinned memory of the host, through which all bytes go to a device and come from it: a copy from it runs when the stream comes
//! to it, and the host does not wait. A piece is used again when the copy that uses it has passed.
use crate::{
    driver::{self, Pinned},
    opened::{Context, Opened},
};
use adamant_runtime::{ErrorKind, backend::Event};
use parking_lot::Mutex;
use std::sync::Arc;

/// The smallest piece, and the largest that is kept for others.
const LEAST: usize = 64 * 1024;
const LARGEST: usize = 8 * 1024 * 1024;
/// The most bytes that are kept for others.
const KEPT: usize = 8 * LARGEST;
/// Bytes that one copy takes to the device.
pub(crate) const PIECE: usize = LARGEST;

/// Pieces that are not in use, or will not be when an event has passed.
pub(crate) struct Staging {
    free: Mutex<Vec<(Pinned, Event)>>,
    context: Arc<Context>,
}
impl Staging {
    pub fn new(context: &Arc<Context>) -> Staging {
        Staging { free: Mutex::default(), context: context.clone() }
    }
    /// A piece of at least so many bytes, which nobody uses.
    ///
    /// # Errors
    /// No memory; a lost device.
    pub fn take(&self, opened: &Opened, bytes: usize) -> Result<Pinned, ErrorKind> {
        let size = bytes.next_power_of_two().max(LEAST);
        if size <= LARGEST {
            let mut free = self.free.lock();
            let fits = |p: &Pinned| p.bytes == size;
            let ready = free.iter().position(|(p, after)| fits(p) && opened.is_done(*after));
            // With as many as are kept, the oldest is waited for.
            let kept: usize = free.iter().map(|(p, _)| p.bytes).sum();
            let waited = || (kept + size > KEPT).then(|| free.iter().position(|(p, _)| fits(p))).flatten();
            if let Some(at) = ready.or_else(waited) {
                let (piece, after) = free.remove(at);
                drop(free);
                return match opened.wait(after) {
                    Ok(()) => Ok(piece),
                    Err(e) => {
                        self.give(piece, after);
                        Err(e)
                    }
                };
            }
        }
        self.fresh(if size <= LARGEST { size } else { bytes })
    }
    /// A piece that was not there before.
    ///
    /// # Errors
    /// No memory; a lost device.
    pub fn fresh(&self, bytes: usize) -> Result<Pinned, ErrorKind> {
        self.context.call(|| driver::pin(bytes)).map_err(|kind| match kind {
            ErrorKind::OutOfMemory { .. } => ErrorKind::OutOfMemory { asked: bytes, in_use: 0, cap: None },
            other => other,
        })
    }
    /// A piece that nobody needs behind an event.
    pub fn give(&self, piece: Pinned, after: Event) {
        self.free.lock().push((piece, after));
    }
    /// Gives up what is beyond what is kept, and has passed.
    pub fn trim(&self, opened: &Opened) {
        let mut free = self.free.lock();
        let mut kept: usize = free.iter().map(|(p, _)| p.bytes).sum();
        let mut at = 0;
        while kept > KEPT && at < free.len() {
            if free[at].0.bytes > LARGEST && opened.is_done(free[at].1) {
                let (piece, _) = free.remove(at);
                kept -= piece.bytes;
                let _ = self.context.call(|| driver::unpin(&piece));
            } else {
                at += 1;
            }
        }
    }
}
impl Drop for Staging {
    fn drop(&mut self) {
        for (piece, _) in self.free.get_mut().drain(..) {
            let _ = self.context.call(|| driver::unpin(&piece));
        }
    }
}
