//! Writing by non-temporal stores: a large result is not read into them only to be overwritten, which saves a third of the
//! traffic of an addition. And reading ahead of use. Must not know what is written or read.

use super::{Float, Simd, SimdKernel, dispatch};
use crate::{
    isa::Isa,
    scratch::{KeptElement, ScratchVec, filled},
};
use adamant_runtime::ErrorKind;
use bytemuck::{NoUninit, Pod};
use std::cell::Cell;

/// Results of so many bytes are written by non-temporal stores: five times what a core's own cache holds, so that little of
/// them would be left there for their reader, and from where on writing by non-temporal stores and reading again took less
/// time in all than writing into them. A choice of speed alone; the bytes are the same.
pub(crate) const STREAMED: usize = 10 << 20;

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Copies `from` to `to`, of equal length, by non-temporal stores; for each line that is written, a line of each of `soon` is
/// asked for, into the nearest cache, so that memory is read and written at once: it is read when the copy is done, and from the
/// cache behind, a loop of narrow vectors waits for each. [`publish`] comes before anybody else may read it.
pub(crate) fn copy(from: &[u8], to: &mut [u8], soon: &[ReadAhead<'_>]) {
    struct StreamedCopy<'a>(&'a [u8], &'a mut [u8], &'a [ReadAhead<'a>]);
    impl SimdKernel for StreamedCopy<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self) {
            let StreamedCopy(from, to, soon) = self;
            copy_and::<S>(
                from,
                to,
                #[inline(always)]
                |_| {
                    for soon in soon {
                        soon.fetch_near();
                    }
                },
            );
        }
    }
    dispatch(Isa::current(), StreamedCopy(from, to, soon));
}
/// Copies by non-temporal stores, and does something for each line, behind so many others. The wider the vectors the better: what
/// waits to be written, and so how far the processor goes on meanwhile, is counted in stores.
#[inline(always)]
fn copy_and<S: Simd>(from: &[u8], to: &mut [u8], each: impl Fn(usize)) {
    let head = to.as_ptr().align_offset(LINE).min(to.len());
    let (first, rest) = from.split_at(head);
    let (to_first, to_rest) = to.split_at_mut(head);
    to_first.copy_from_slice(first);
    let (lines, last) = rest.as_chunks::<LINE>();
    let (to_lines, to_last) = to_rest.as_chunks_mut::<LINE>();
    for (k, (line, to)) in lines.iter().zip(to_lines).enumerate() {
        each(k * LINE);
        if S::F32::LANES == 1 {
            *to = *line;
            continue;
        }
        for at in (0..LINE).step_by(size_of::<S::F32>()) {
            // SAFETY: both have a line of 64 bytes, which is a multiple of every vector's size, and `to` begins at a
            // multiple of 64. A vector may be read from any address and is only moved.
            unsafe { S::F32::load(line.as_ptr().add(at).cast()).store_past(to.as_mut_ptr().add(at).cast()) };
        }
    }
    to_last.copy_from_slice(last);
}

/// Equally long lines, one after another.
pub(crate) struct EqualLines<'a, T> {
    pub from: &'a [T],
    /// from the beginning of one to that of the next
    pub step: usize,
    pub length: usize,
    pub count: usize,
}
/// Copies lines by non-temporal stores to places of `to` that lie `stride` elements apart. For each cache line that is written
/// one is asked for that will be read `soon`: that of the same number in a block of such lines, which begins at an
/// address and whose lines have a stride of their own. [`publish`] comes before anybody else may read what is written.
pub(crate) fn lines<T: Pod>(lines: EqualLines<'_, T>, to: &mut [T], stride: usize, soon: (*const T, isize)) {
    struct CopyLines<'a, T>(EqualLines<'a, T>, &'a mut [T], usize, (*const T, isize));
    impl<T: Pod> SimdKernel for CopyLines<'_, T> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self) {
            let CopyLines(EqualLines { from, step, length, count }, to, stride, soon) = self;
            for k in 0..count {
                let line: &[u8] = bytemuck::cast_slice(&from[k * step..][..length]);
                let at = soon.0.wrapping_offset(k as isize * soon.1).cast::<u8>();
                copy_and::<S>(
                    line,
                    bytemuck::cast_slice_mut(&mut to[k * stride..][..length]),
                    #[inline(always)]
                    |done| hint_outer(at.wrapping_add(done)),
                );
            }
        }
    }
    dispatch(Isa::current(), CopyLines(lines, to, stride, soon));
}
/// Bytes that will be read soon: asked for line by line while something else is computed.
pub(crate) struct ReadAhead<'a> {
    bytes: &'a [u8],
    asked: Cell<usize>,
}
impl<'a> ReadAhead<'a> {
    pub(crate) fn of<T: NoUninit>(soon: &'a [T]) -> ReadAhead<'a> {
        ReadAhead { bytes: bytemuck::cast_slice(soon), asked: Cell::new(0) }
    }
    /// Asks for all that is left.
    pub(crate) fn fetch_all(&self) {
        while self.asked.get() < self.bytes.len() {
            self.fetch_line();
        }
    }
    /// Asks for the next line, if there is one more.
    #[inline(always)]
    pub(crate) fn fetch_line(&self) {
        self.next_line(hint_outer);
    }
    /// As [`ReadAhead::fetch_line`], into the nearest cache: for what is read at once.
    #[inline(always)]
    fn fetch_near(&self) {
        self.next_line(hint);
    }
    #[inline(always)]
    fn next_line(&self, ask: impl Fn(*const u8)) {
        let at = self.asked.get();
        self.asked.set(at + LINE);
        if at < self.bytes.len() {
            ask(self.bytes.as_ptr().wrapping_add(at));
        }
    }
}

macro_rules! hints {
    ($($(#[$doc:meta])* $name:ident $hint:ident;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name<T>(line: *const T) {
            // SAFETY: a prefetch has no effect but on the caches, at any address; SSE is part of x86-64.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::$hint }>(line.cast::<i8>());
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = line;
        }
    )* };
}
hints! {
    /// Asks for the line at an address, into the nearest cache. It reads nothing and cannot fail, wherever it points.
    hint _MM_HINT_T0;
    /// As [`hint`], into the cache behind the nearest: for what is read later.
    hint_outer _MM_HINT_T1;
}

/// How far ahead of its use a loop that computes much asks for memory, in bytes.
const DISTANCE: usize = 4096;
/// Asks for the line so far behind one that is read now.
#[inline(always)]
pub(crate) fn hint_ahead<T>(now: *const T) {
    hint(now.cast::<u8>().wrapping_add(DISTANCE));
}

/// Orders what this thread has copied by non-temporal stores before all that it writes from now on, as ordinary writes are
/// ordered by themselves.
pub(crate) fn publish() {
    // SAFETY: SSE is part of x86-64.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Rows of a result on their way by non-temporal stores, if it is that large. When this goes, all that was written by it is
/// there for everybody.
pub(crate) struct StreamedRows<T: KeptElement> {
    /// where a row is written before it is copied; nothing for a result that is written where it belongs
    line: ScratchVec<T>,
}
impl<T: Pod + KeptElement> StreamedRows<T> {
    /// Of `n` elements each, of a result of `bytes` in all.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn new(n: usize, bytes: usize) -> Result<StreamedRows<T>, ErrorKind> {
        Ok(StreamedRows { line: filled(T::zeroed(), if bytes >= STREAMED { n } else { 0 })? })
    }
    /// Lets `f` write a row of `n` elements.
    pub(crate) fn write(&mut self, out: &mut [T], f: impl FnOnce(&mut [T])) {
        if self.line.is_empty() {
            return f(out);
        }
        let line = &mut self.line[..out.len()];
        f(line);
        copy(bytemuck::cast_slice(line), bytemuck::cast_slice_mut(out), &[]);
    }
}
impl<T: KeptElement> Drop for StreamedRows<T> {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            publish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_lost_at_the_rim_of_a_copy() {
        let from: Vec<u8> = (0..200u8).collect();
        for start in 0..70 {
            for length in [0, 1, 15, 16, 17, 33, 64, 100, 190] {
                let mut to = [255u8; 300];
                copy(&from[3..3 + length], &mut to[start..start + length], &[ReadAhead::of(&from)]);
                publish();
                assert_eq!(to[start..start + length], from[3..3 + length]);
                assert!(to[..start].iter().chain(&to[start + length..]).all(|&b| b == 255), "{start} {length}");
            }
        }
    }
}
