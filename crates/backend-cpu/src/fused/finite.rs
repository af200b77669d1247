//! Whether all elements are finite: what is not has an exponent of ones alone. One read of the data as integers, at the
//! memory's speed; a part that finds one ends the others.
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    isa::Isa,
    operand::internal,
    simd::{Kernel, Simd, dispatch},
    threads::Threads,
};
use adamant_runtime::{Composite, DType, ErrorKind, kernel::FaultWord};
use std::{
    ops::BitAnd,
    sync::atomic::{AtomicBool, Ordering},
};

pub(super) struct AllFinite;
/// Elements of a part: many enough that asking for the next costs nothing.
const PART: usize = 1 << 17;
/// Elements between two looks at whether another part has found one.
const STRETCH: usize = 1 << 13;
/// Elements that are looked at side by side.
const LANES: usize = 64;

impl CpuKernel for AllFinite {
    fn supports(&self, _: &dyn Composite, dtypes: &[DType]) -> bool {
        dtypes.first().is_some_and(|d| exponent(*d).is_some())
    }
    fn run(&self, _: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let dtype = operands.inputs.first().ok_or_else(|| internal("a search through nothing"))?.dtype;
        let mask = exponent(dtype).ok_or_else(|| internal("a search through elements without an exponent"))?;
        let (threads, isa) = (&runtime.threads, runtime.isa);
        let finite = match dtype.size() {
            8 => search(threads, isa, operands.input::<u64>(0)?, mask),
            4 => search(threads, isa, operands.input::<u32>(0)?, mask as u32),
            _ => search(threads, isa, operands.input::<u16>(0)?, mask as u16),
        };
        operands.output::<u8>(0)?.fill(u8::from(finite));
        Ok(())
    }
}
/// The bits of a dtype's exponent.
fn exponent(dtype: DType) -> Option<u64> {
    match dtype {
        DType::F64 => Some(0x7ff0_0000_0000_0000),
        DType::F32 => Some(0x7f80_0000),
        DType::F16 => Some(0x7c00),
        DType::BF16 => Some(0x7f80),
        _ => None,
    }
}
fn search<T: Word>(threads: &Threads, isa: Isa, words: &[T], mask: T) -> bool {
    let found = AtomicBool::new(false);
    threads.for_parts(words.chunks(PART), |_, part| {
        for words in part.chunks(STRETCH) {
            if found.load(Ordering::Relaxed) {
                return;
            }
            if dispatch(isa, Any { words, mask }) {
                found.store(true, Ordering::Relaxed);
            }
        }
    });
    !found.into_inner()
}
/// Bits of an element.
trait Word: Copy + Default + Ord + BitAnd<Output = Self> + Send + Sync {}
impl Word for u16 {}
impl Word for u32 {}
impl Word for u64 {}
/// Has any of the words all bits of the mask?
struct Any<'a, T> {
    words: &'a [T],
    mask: T,
}
impl<T: Word> Kernel for Any<'_, T> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self) -> bool {
        // The largest exponent of each lane: no way out in between, so that the compiler makes vectors of it.
        let mut most = [T::default(); LANES];
        let (blocks, rest) = self.words.as_chunks::<LANES>();
        for block in blocks {
            for (most, word) in most.iter_mut().zip(block) {
                *most = (*most).max(*word & self.mask);
            }
        }
        most.contains(&self.mask) || rest.iter().any(|w| *w & self.mask == self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_not_found_at_some_place_of_some_part() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for threads in [Threads::new(1), Threads::new(3)] {
                for len in [0, 1, 7, 100, STRETCH + 3, PART + STRETCH + 5] {
                    let mut words = vec![f32::MAX.to_bits(); len];
                    assert!(search(&threads, isa, &words, 0x7f80_0000), "{len}");
                    for at in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|at| *at < len) {
                        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                            words[at] = bad.to_bits();
                            assert!(!search(&threads, isa, &words, 0x7f80_0000), "{bad} at {at} of {len}");
                        }
                        words[at] = 1;
                    }
                }
            }
        }
    }
}
