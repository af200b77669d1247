//! Where things lie in a group's shared memory.
//!
//! ```text
//! headers: a rank each -- its word of stages | what it does | its card of this call, and of the one before | its words for it
//! lengths: a rank each, a call each -- what it brings for whom
//! slots:   a rank each, two -- what it brings in this stage, and in the one before
//! rings:   a pair each -- two words, bytes
//! ```
//!
//! A rank writes its own header, lengths and slots, and the heads of the rings that it sends by; of those that it receives by, the tails.
use std::ops::Range;

/// Of a rank's header.
const HEADER: usize = 1024;
/// A line of the cache, which two ranks should not write at once.
pub(super) const LINE: usize = 64;
/// What a rank brings in one stage: large enough that a stage is long beside the wait for it, and small enough to stay in a cache.
pub(super) const SLOT: usize = 1 << 20;
/// Of a ring.
pub(super) const RING: usize = 256 << 10;
/// The longest text of a call that others see.
pub(super) const TEXT: usize = 256;

/// The places of a group of so many ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) size: usize,
}
impl Layout {
    /// The number that a rank raises with each stage.
    pub(super) fn stage(self, rank: usize) -> usize {
        rank * HEADER
    }
    /// What a rank waits in.
    pub(super) fn doing(self, rank: usize) -> usize {
        rank * HEADER + LINE
    }
    /// Whether its words are whole, and which call they are for; how long they are.
    pub(super) fn text_stamp(self, rank: usize) -> usize {
        rank * HEADER + LINE + 8
    }
    pub(super) fn text_length(self, rank: usize) -> usize {
        rank * HEADER + LINE + 16
    }
    pub(super) fn text(self, rank: usize) -> usize {
        rank * HEADER + 4 * LINE
    }
    /// The call that a card is of, which is written last; its fingerprint follows.
    pub(super) fn card(self, rank: usize, call: u64) -> usize {
        rank * HEADER + (2 + (call & 1) as usize) * LINE
    }
    /// How many bytes a rank brings for another in a call.
    pub(super) fn length(self, rank: usize, call: u64, to: usize) -> usize {
        self.size * HEADER + ((rank * 2 + (call & 1) as usize) * self.size + to) * 8
    }
    fn slots(self) -> usize {
        (self.length(self.size, 0, 0)).next_multiple_of(4096)
    }
    /// What a rank brings in a stage.
    pub(super) fn slot(self, rank: usize, stage: u32) -> usize {
        self.slots() + (rank * 2 + (stage & 1) as usize) * SLOT
    }
    /// The words of the ring from one rank to another; its bytes follow.
    pub(super) fn ring(self, from: usize, to: usize) -> usize {
        self.slots() + self.size * 2 * SLOT + (from * self.size + to) * (2 * LINE + RING)
    }
    /// What is always used.
    pub(super) fn always(self) -> usize {
        self.ring(0, 0)
    }
    pub(super) fn bytes(self) -> usize {
        self.ring(self.size, 0)
    }
    /// Cuts bytes into pieces, one for each rank, which begin at lines of the cache.
    pub(super) fn piece(self, rank: usize, bytes: usize) -> Range<usize> {
        let piece = bytes.div_ceil(self.size).next_multiple_of(LINE);
        (rank * piece).min(bytes)..((rank + 1) * piece).min(bytes)
    }
}
/// The largest whole number of lines in so many bytes.
pub(super) fn whole_lines(bytes: usize) -> usize {
    bytes / LINE * LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_overlap_or_are_not_aligned() {
        for size in 1..=9 {
            let l = Layout { size };
            let mut places: Vec<Range<usize>> = Vec::new();
            let mut add = |at: usize, n: usize, align: usize| {
                assert_eq!(at % align, 0);
                places.push(at..at + n);
            };
            for rank in 0..size {
                add(l.stage(rank), LINE, LINE);
                add(l.doing(rank), 8, 8);
                add(l.text_stamp(rank), 8, 8);
                add(l.text_length(rank), 8, 8);
                add(l.text(rank), TEXT, 1);
                for call in 0..2 {
                    add(l.card(rank, call), 16, 8);
                    add(l.slot(rank, call as u32), SLOT, LINE);
                    (0..size).for_each(|to| add(l.length(rank, call, to), 8, 8));
                }
                (0..size).for_each(|to| add(l.ring(rank, to), 2 * LINE + RING, LINE));
            }
            places.sort_by_key(|place| place.start);
            assert!(places.windows(2).all(|two| two[0].end <= two[1].start), "{size}");
            assert!(places.last().unwrap().end <= l.bytes() && l.always() <= l.bytes());
        }
    }
    #[test]
    fn pieces_that_miss_bytes_or_cut_elements() {
        for (size, bytes) in [(1, 0), (2, 64), (3, 1000), (8, 40), (5, 512 << 10)] {
            let l = Layout { size };
            let mut end = 0;
            for rank in 0..size {
                let piece = l.piece(rank, bytes);
                assert_eq!(piece.start, end);
                assert!(piece.start % LINE == 0 || piece.is_empty());
                end = piece.end;
            }
            assert_eq!(end, bytes);
        }
    }
}
