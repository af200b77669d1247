//! Whether all elements are finite: what is not has an exponent of ones alone. One read of the data as integers, at the
//! memory's speed; a part that finds one ends the others.
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    isa::Isa,
    operand::internal,
    simd::{Simd, SimdKernel, dispatch},
    threads::Threads,
};
use adamant_runtime::{Composite, DType, ErrorKind, kernel::FaultWord};
use std::{
    ops::BitAnd,
    sync::atomic::{AtomicBool, Ordering},
};

pub(super) struct AllFiniteKernel;
/// The least bytes of a part, so that asking for the next costs nothing. Data that are larger have this many parts for each
/// thread: a processor reads ahead along what it reads, and begins anew with each part.
const PART: usize = 512 << 10;
const PARTS: usize = 16;
/// Bytes between two looks at whether another part has found one. At its end a stretch waits for its last elements.
const STRETCH: usize = 128 << 10;

impl CpuKernel for AllFiniteKernel {
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
fn search<T: BitWord>(threads: &Threads, isa: Isa, words: &[T], mask: T) -> bool {
    let found = AtomicBool::new(false);
    let part = words.len().div_ceil(threads.count() * PARTS).next_multiple_of(STRETCH / size_of::<T>()).max(PART / size_of::<T>());
    threads.for_parts(words.chunks(part), |_, part| {
        for words in part.chunks(STRETCH / size_of::<T>()) {
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
trait BitWord: Copy + Default + Ord + BitAnd<Output = Self> + Send + Sync {}
impl BitWord for u16 {}
impl BitWord for u32 {}
impl BitWord for u64 {}
/// Has any of the words all bits of the mask?
struct Any<'a, T> {
    words: &'a [T],
    mask: T,
}
impl<T: BitWord> SimdKernel for Any<'_, T> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self) -> bool {
        // The largest exponent of all, which the compiler keeps in vectors: no way out in between, and no list of lanes, which
        // it would write back to memory after each step.
        self.words.iter().fold(T::default(), |most, word| most.max(*word & self.mask)) == self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_not_found_at_some_place_of_some_part() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for threads in [Threads::new(1), Threads::new(3)] {
                for len in [0, 1, 7, 100, STRETCH / 4 + 3, (PART + STRETCH) / 4 + 5, 17 * PART / 4 + 7] {
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
