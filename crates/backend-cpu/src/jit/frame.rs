//! What a compiled loop is called with: how many elements, where they lie, and the numbers that are the same for all of them.
use super::LANE_BYTES;

/// Streams of a loop, read and written.
pub(crate) const POINTERS: usize = 12;
/// Numbers of a loop.
pub(crate) const NUMBERS: usize = 24;

/// The memory that a loop reads it from.
#[repr(C)]
pub(super) struct LoopFrame {
    /// elements, a multiple of what a vector holds
    pub count: usize,
    pub pointers: [*mut u8; POINTERS],
    spare: [usize; 3],
    numbers: [[u64; LANE_BYTES / 8]; NUMBERS],
}
/// Where the pointer of stream `k` is in a frame, in bytes.
pub(super) const fn pointer_offset(k: usize) -> usize {
    std::mem::offset_of!(LoopFrame, pointers) + k * 8
}
/// Where number `k` is in a frame, in bytes.
pub(super) const fn number_offset(k: usize) -> usize {
    std::mem::offset_of!(LoopFrame, numbers) + k * LANE_BYTES
}
impl LoopFrame {
    pub fn new() -> LoopFrame {
        LoopFrame { count: 0, pointers: [std::ptr::null_mut(); POINTERS], spare: [0; 3], numbers: [[0; LANE_BYTES / 8]; NUMBERS] }
    }
    /// Sets number `k` to these bits in every lane, of 64 bits or of 32.
    pub fn set_number(&mut self, k: usize, bits: u64, is_double: bool) {
        self.numbers[k] = [if is_double { bits } else { bits & u64::from(u32::MAX) | bits << 32 }; LANE_BYTES / 8];
    }
}
