//! The few small buffers that a thread keeps at hand between giving one up and asking for the next, so that small eager
//! work does without the pool's lock. In the pool's books they stay live until the thread settles with it: when it asks
//! for the books, for memory of the system or for a trim, and when it ends. Another thread may thus see up to
//! [`BUFFERS`] buffers of [`LARGEST`] bytes too many as live for each thread, and no more.
use super::{Buffer, Pool};
use crate::Device;
use std::{cell::RefCell, sync::Arc};

const BUFFERS: usize = 16;
pub(super) const LARGEST: usize = 4096;

struct AtHand {
    /// Held by nobody else.
    buffers: Vec<Arc<Buffer>>,
    /// how often one was handed out since the last settlement, by device
    served: Vec<(Device, u64)>,
}
thread_local! {
    static AT_HAND: RefCell<AtHand> = const { RefCell::new(AtHand { buffers: Vec::new(), served: Vec::new() }) };
}
impl AtHand {
    fn serve(&mut self, device: Device, bytes: usize) -> Option<Arc<Buffer>> {
        let at = self.buffers.iter().rposition(|b| b.bytes == bytes && b.device == device && !b.is_of_before())?;
        match self.served.iter_mut().find(|(d, _)| *d == device) {
            Some((_, n)) => *n += 1,
            None => self.served.push((device, 1)),
        }
        Some(self.buffers.swap_remove(at))
    }
}
impl Drop for AtHand {
    fn drop(&mut self) {
        hand_back(self.buffers.drain(..), self.served.drain(..));
    }
}
fn hand_back(buffers: impl IntoIterator<Item = Arc<Buffer>>, served: impl IntoIterator<Item = (Device, u64)>) {
    for buffer in buffers {
        buffer.device.pool().shelve(buffer);
    }
    for (device, n) in served {
        device.pool().count_requests(n);
    }
}

/// A buffer of exactly that size, if there is one at hand.
pub(super) fn take(device: Device, bytes: usize) -> Option<Arc<Buffer>> {
    if bytes > LARGEST {
        return None;
    }
    // A thread that ends has nothing at hand any more.
    AT_HAND.try_with(|a| a.borrow_mut().serve(device, bytes)).ok().flatten()
}
/// Keeps a small buffer that nobody else holds at hand, or gives it back where there is no space for one more.
#[inline]
pub(super) fn keep(buffer: Arc<Buffer>) -> Option<Arc<Buffer>> {
    let mut buffer = Some(buffer);
    let _ = AT_HAND.try_with(|a| {
        let buffers = &mut a.borrow_mut().buffers;
        if buffers.len() < BUFFERS {
            buffers.extend(buffer.take());
        }
    });
    buffer
}
/// Gives everything that this thread has of a pool back to it.
pub(super) fn settle(pool: &Pool) {
    let ours = |device: &Device| std::ptr::eq(device.pool(), pool);
    let (buffers, served): (Vec<Arc<Buffer>>, Vec<_>) = AT_HAND
        .try_with(|a| {
            let a = &mut *a.borrow_mut();
            (a.buffers.extract_if(.., |b| ours(&b.device)).collect(), a.served.extract_if(.., |(d, _)| ours(d)).collect())
        })
        .unwrap_or_default();
    hand_back(buffers, served);
}
