//! One call of a compiled loop over slices. Must not know instructions.
use super::{
    LoopCode, LoopEntry,
    frame::{LANES, LoopFrame, NUMBERS, POINTERS, WIDEST},
    graph::ElementFormat,
};
use std::marker::PhantomData;

/// LaneBlocks of elements, each of which is combined by itself.
#[derive(Clone, Copy)]
pub(crate) struct LaneBlocks {
    pub count: usize,
    /// elements of one, a multiple of [`LANES`]
    pub block: usize,
    /// from the beginning of one to that of the next
    pub step: usize,
}
impl LaneBlocks {
    /// Elements from the beginning of the first to the end of the last.
    pub fn span(&self) -> usize {
        self.count.saturating_sub(1) * self.step + self.block
    }
}

/// The slices and numbers of one call, in the order of the plan: first what is read, then what is written.
pub(crate) struct LoopCall<'a> {
    code: &'a LoopCode,
    n: usize,
    blocks: Option<LaneBlocks>,
    streams: [*mut u8; POINTERS],
    numbers: [u64; NUMBERS],
    read: usize,
    written: usize,
    numbered: usize,
    /// for each stream that is read where one is written the place of that one among the outputs, and 1
    outputs: [u8; POINTERS],
    slices: PhantomData<&'a mut [u8]>,
}
impl<'a> LoopCall<'a> {
    /// A call over `n` elements.
    pub fn new(code: &'a LoopCode, n: usize) -> LoopCall<'a> {
        LoopCall {
            code,
            n,
            blocks: None,
            streams: [std::ptr::null_mut(); POINTERS],
            numbers: [0; NUMBERS],
            read: 0,
            written: 0,
            numbered: 0,
            outputs: [0; POINTERS],
            slices: PhantomData,
        }
    }
    /// A call that combines the elements of blocks.
    pub fn over(code: &'a LoopCode, blocks: LaneBlocks) -> LoopCall<'a> {
        assert!(code.has_blocks && blocks.count > 0 && blocks.block > 0 && blocks.block.is_multiple_of(LANES), "blocks of {} elements", blocks.block);
        assert!(blocks.step >= blocks.block, "blocks of {} elements every {}", blocks.block, blocks.step);
        LoopCall { blocks: Some(blocks), ..LoopCall::new(code, blocks.span()) }
    }
    fn place(&mut self, k: usize, bytes: usize, format: ElementFormat, at: *mut u8) {
        let n = match self.blocks {
            Some(blocks) if k >= self.code.reads.len() => blocks.count * LANES,
            _ => self.n,
        };
        assert!(bytes >= n * format.size(), "a stream of {bytes} bytes for {n} elements");
        self.streams[k] = at;
    }
    /// The next stream that is read.
    pub fn read(&mut self, bytes: &'a [u8]) {
        let k = self.read;
        self.place(k, bytes.len(), self.code.reads[k], bytes.as_ptr().cast_mut());
        self.read += 1;
    }
    /// The next stream that is read is what output `k` holds before it is written; for what is set by [`LoopCall::write`] later.
    pub fn read_output(&mut self, k: usize) {
        assert_eq!(self.code.reads[self.read].size(), self.code.writes[k].size(), "an output of another size than what is read there");
        self.outputs[self.read] = k as u8 + 1;
        self.read += 1;
    }
    /// The next stream that is written.
    pub fn write(&mut self, bytes: &'a mut [u8]) {
        let k = self.written;
        self.place(self.code.reads.len() + k, bytes.len(), self.code.writes[k], bytes.as_mut_ptr());
        self.written += 1;
    }
    /// The next number, as the bits of a lane.
    pub fn number(&mut self, bits: u64) {
        self.numbers[self.numbered] = bits;
        self.numbered += 1;
    }
    /// Runs the loop.
    pub fn run(mut self) {
        let (code, n) = (self.code, self.n);
        let is_full = self.read == code.reads.len() && self.written == code.writes.len() && self.numbered == code.numbers;
        assert!(is_full, "a call without all of its streams");
        for k in 0..self.read {
            if let Some(output) = self.outputs[k].checked_sub(1) {
                self.streams[k] = self.streams[self.read + usize::from(output)];
            }
        }
        let mut frame = LoopFrame::new();
        for (k, bits) in self.numbers[..self.numbered].iter().enumerate() {
            frame.set_number(k, *bits, code.is_double);
        }
        assert!(code.has_blocks == self.blocks.is_some(), "a loop over blocks without any, or blocks without such a loop");
        if let Some(LaneBlocks { count, block, step }) = self.blocks {
            (frame.block, frame.gap) = (block, step - block);
            return self.whole(&mut frame, code.single, 0, count * step);
        }
        let head = if code.past_caches { self.head() } else { 0 };
        for at in (0..head).step_by(code.single.elements) {
            self.part(&mut frame, at, code.single.elements.min(head - at));
        }
        let mut done = head;
        for entry in [code.unrolled, code.single] {
            let whole = (n - done) / entry.elements * entry.elements;
            self.whole(&mut frame, entry, done, whole);
            done += whole;
        }
        let lanes = code.single.elements;
        if done == n {
        } else if n >= lanes && !code.past_caches && self.outputs == [0; POINTERS] {
            // What is only read may be read again: the last vector has some elements of the one before.
            self.whole(&mut frame, code.single, n - lanes, lanes);
        } else {
            self.part(&mut frame, done, n - done);
        }
    }
    fn formats(&self) -> impl Iterator<Item = ElementFormat> + use<'a> {
        self.code.reads.iter().chain(&self.code.writes).copied()
    }
    /// Elements before the first at which every plain output begins at a multiple of a vector; all of them where there is none.
    fn head(&self) -> usize {
        let first = self.code.reads.len();
        let before = |(k, f): (usize, &ElementFormat)| {
            let bytes = self.streams[first + k].addr().wrapping_neg() % self.code.width;
            bytes.is_multiple_of(f.size()).then_some(bytes / f.size())
        };
        let mut all = self.code.writes.iter().enumerate().filter(|(_, f)| f.is_plain()).map(before);
        let one = all.next().unwrap_or(Some(0));
        let head = if all.all(|other| other == one) { one } else { None };
        head.unwrap_or(self.n).min(self.n)
    }
    /// Whole iterations where the elements lie, from element `at` on.
    fn whole(&self, frame: &mut LoopFrame, entry: LoopEntry, at: usize, count: usize) {
        if count == 0 {
            return;
        }
        frame.count = count;
        for (k, format) in self.formats().enumerate() {
            frame.pointers[k] = self.streams[k].wrapping_add(at * format.size());
        }
        // SAFETY: every stream has n elements of its format, and lanes for each block: `read` and `write` have seen to it. Loops are made
        // where `is_on`.
        #[allow(unsafe_code)]
        unsafe {
            self.code.enter(entry, frame);
        }
    }
    /// Fewer elements than a vector has, by way of vectors of their own.
    fn part(&self, frame: &mut LoopFrame, at: usize, count: usize) {
        #[repr(C, align(64))]
        #[derive(Clone, Copy)]
        struct Padded([u8; WIDEST]);
        let mut padded = [Padded([0; WIDEST]); POINTERS];
        frame.count = self.code.single.elements;
        for ((k, format), padded) in self.formats().enumerate().zip(&mut padded) {
            frame.pointers[k] = padded.0.as_mut_ptr();
            if k < self.code.reads.len() {
                // SAFETY: the stream has n elements, `at + count` at most; a vector holds as many as it has lanes.
                #[allow(unsafe_code)]
                unsafe {
                    std::ptr::copy_nonoverlapping(self.streams[k].add(at * format.size()), padded.0.as_mut_ptr(), count * format.size());
                }
            }
        }
        // SAFETY: every stream has a vector.
        #[allow(unsafe_code)]
        unsafe {
            self.code.enter(self.code.single, frame);
        }
        for (k, format) in self.formats().enumerate().skip(self.code.reads.len()) {
            // SAFETY: as above.
            #[allow(unsafe_code)]
            unsafe {
                std::ptr::copy_nonoverlapping(padded[k].0.as_ptr(), self.streams[k].add(at * format.size()), count * format.size());
            }
        }
    }
}
