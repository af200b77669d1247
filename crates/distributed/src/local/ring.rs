//! Bytes from one rank to one other, in order: a ring of bounded size. It knows nothing of messages, ranks or where the bytes lie, so
//! that `loom` can try every order of events.
//!
//! `head` counts the bytes that were put in, `tail` those that were taken; both come round with 32 bits, so a ring is a power of two and
//! less than 2^31 bytes.
use super::word::SharedWord;

/// Where the bytes of a ring lie. An implementation writes and reads only where it is told, and nobody else does meanwhile: the two
/// numbers see to it.
pub(crate) trait RingBytes {
    /// how many: a power of two
    fn len(&self) -> usize;
    /// writes at a place, not beyond the end
    fn put(&self, at: usize, bytes: &[u8]);
    /// reads from a place, not beyond the end
    fn take(&self, at: usize, bytes: &mut [u8]);
}
/// The two numbers of a ring.
#[repr(C)]
pub(crate) struct RingWords {
    pub(crate) head: SharedWord,
    pub(crate) tail: SharedWord,
}
impl RingWords {
    /// How many bytes are in it.
    pub(crate) fn held(&self) -> usize {
        self.head.load().wrapping_sub(self.tail.load()) as usize
    }
    /// Puts in as many bytes as fit: how many. Only the sender does.
    pub(crate) fn put(&self, ring: &impl RingBytes, bytes: &[u8]) -> usize {
        let head = self.head.load();
        // Clamped, as the other side's number is the other side's to break.
        let held = (head.wrapping_sub(self.tail.load()) as usize).min(ring.len());
        let n = bytes.len().min(ring.len() - held);
        let at = head as usize & (ring.len() - 1);
        let (first, second) = bytes[..n].split_at(n.min(ring.len() - at));
        ring.put(at, first);
        ring.put(0, second);
        if n > 0 {
            self.head.publish(head.wrapping_add(n as u32));
        }
        n
    }
    /// Takes as many bytes as there are: how many. Only the receiver does.
    pub(crate) fn take(&self, ring: &impl RingBytes, bytes: &mut [u8]) -> usize {
        let tail = self.tail.load();
        let held = (self.head.load().wrapping_sub(tail) as usize).min(ring.len());
        let n = bytes.len().min(held);
        let at = tail as usize & (ring.len() - 1);
        let (first, second) = bytes[..n].split_at_mut(n.min(ring.len() - at));
        ring.take(at, first);
        ring.take(0, second);
        if n > 0 {
            self.tail.publish(tail.wrapping_add(n as u32));
        }
        n
    }
}
