//! The few small blocks that a thread keeps at hand between giving one up and asking for the next, so that small eager
//! work does without the pool's lock. In the pool's books they stay live until the thread settles with it: when it asks
//! for the books, for memory of the system or for a trim, and when it ends. Another thread may thus see up to
//! [`BLOCKS`] blocks of [`LARGEST`] bytes too many as live for each thread, and no more.
use super::Pool;
use crate::{Device, backend::Memory};
use std::cell::RefCell;

const BLOCKS: usize = 4;
const LARGEST: usize = 4096;

struct Block {
    device: Device,
    bytes: usize,
    memory: Box<dyn Memory>,
}
#[derive(Default)]
struct AtHand {
    blocks: Vec<Block>,
    /// how often one was handed out since the last settlement, by device
    served: Vec<(Device, u64)>,
}
thread_local! {
    static AT_HAND: RefCell<AtHand> = RefCell::default();
}
impl AtHand {
    fn serve(&mut self, device: Device, bytes: usize) -> Option<Box<dyn Memory>> {
        let at = self.blocks.iter().rposition(|b| b.bytes == bytes && b.device == device)?;
        match self.served.iter_mut().find(|(d, _)| *d == device) {
            Some((_, n)) => *n += 1,
            None => self.served.push((device, 1)),
        }
        Some(self.blocks.swap_remove(at).memory)
    }
}
impl Drop for AtHand {
    fn drop(&mut self) {
        for b in self.blocks.drain(..) {
            b.device.pool().shelve(b.memory, b.bytes);
        }
        for (device, n) in self.served.drain(..) {
            device.pool().count_requests(n);
        }
    }
}

/// A block of exactly that size, if there is one at hand.
pub(super) fn take(device: Device, bytes: usize) -> Option<Box<dyn Memory>> {
    if bytes > LARGEST {
        return None;
    }
    // A thread that ends has nothing at hand any more.
    AT_HAND.try_with(|a| a.borrow_mut().serve(device, bytes)).ok().flatten()
}
/// Keeps a block at hand, or hands it back if it is too large or there are enough.
pub(super) fn keep(device: Device, bytes: usize, memory: Box<dyn Memory>) -> Option<Box<dyn Memory>> {
    if bytes > LARGEST {
        return Some(memory);
    }
    let mut block = Some(memory);
    let _ = AT_HAND.try_with(|a| {
        let blocks = &mut a.borrow_mut().blocks;
        if blocks.len() < BLOCKS {
            blocks.extend(block.take().map(|memory| Block { device, bytes, memory }));
        }
    });
    block
}
/// Gives everything that this thread has of a pool back to it.
pub(super) fn settle(pool: &Pool) {
    let ours = |device: &Device| std::ptr::eq(device.pool(), pool);
    let (blocks, served): (Vec<Block>, Vec<_>) = AT_HAND
        .try_with(|a| {
            let a = &mut *a.borrow_mut();
            (a.blocks.extract_if(.., |b| ours(&b.device)).collect(), a.served.extract_if(.., |(d, _)| ours(d)).collect())
        })
        .unwrap_or_default();
    for b in blocks {
        pool.shelve(b.memory, b.bytes);
    }
    for (_, n) in served {
        pool.count_requests(n);
    }
}
