//! What a compiled loop is called with: how many elements, where they lie, and the numbers that are the same for all of them; and
//! where it puts values for which it has no register.
use std::mem::MaybeUninit;

/// Streams of a loop, read and written.
pub(crate) const POINTERS: usize = 12;
/// Numbers of a loop.
pub(crate) const NUMBERS: usize = 24;
/// Values of a loop that wait in memory.
pub(super) const SPILLS: usize = 48;
/// Lanes in which the elements of a block are combined.
pub(crate) const LANES: usize = 16;
/// Bytes of the widest vector.
pub(super) const WIDEST: usize = 64;

/// A vector in memory.
type Spread = [u64; WIDEST / 8];

/// The memory that a loop reads it from.
#[repr(C, align(64))]
pub(super) struct LoopFrame {
    /// elements, a multiple of what the loop takes at a time
    pub count: usize,
    /// where blocks are combined: elements of one, and those between the end of one and the next
    pub block: usize,
    pub gap: usize,
    pub pointers: [*mut u8; POINTERS],
    numbers: [MaybeUninit<Spread>; NUMBERS],
    spills: [MaybeUninit<Spread>; SPILLS],
}
/// Where the pointer of stream `k` is in a frame, in bytes.
pub(super) const fn pointer_offset(k: usize) -> usize {
    std::mem::offset_of!(LoopFrame, pointers) + k * 8
}
/// Where the length of a block is in a frame, in bytes.
pub(super) const BLOCK_OFFSET: usize = std::mem::offset_of!(LoopFrame, block);
/// Where the gap between blocks is in a frame, in bytes.
pub(super) const GAP_OFFSET: usize = std::mem::offset_of!(LoopFrame, gap);
/// Where number `k` is in a frame, in bytes.
pub(super) const fn number_offset(k: usize) -> usize {
    std::mem::offset_of!(LoopFrame, numbers) + k * WIDEST
}
/// Where value `k` waits in a frame, in bytes.
pub(super) const fn spill_offset(k: usize) -> usize {
    std::mem::offset_of!(LoopFrame, spills) + k * WIDEST
}
impl LoopFrame {
    pub fn new() -> LoopFrame {
        LoopFrame {
            count: 0,
            block: 0,
            gap: 0,
            pointers: [std::ptr::null_mut(); POINTERS],
            numbers: [const { MaybeUninit::uninit() }; NUMBERS],
            spills: [const { MaybeUninit::uninit() }; SPILLS],
        }
    }
    /// Sets number `k` to these bits in every lane, of 64 bits or of 32.
    pub fn set_number(&mut self, k: usize, bits: u64, is_double: bool) {
        let bits = if is_double { bits } else { bits & u64::from(u32::MAX) | bits << 32 };
        self.numbers[k] = MaybeUninit::new([bits; WIDEST / 8]);
    }
}
