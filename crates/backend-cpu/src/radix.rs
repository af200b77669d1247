//! Keys put in order by their digits: a stable sort that reads and writes them once for each digit in which they differ, where a
//! sort by comparisons does so for each bit of how many there are. Must not know what the keys are of.
use crate::scratch::{ScratchVec, filled, reserve};
use adamant_runtime::ErrorKind;

/// Up to so many are sorted by comparisons: to count digits takes longer.
const FEW: usize = 192;
/// From so many on digits are wide ones: fewer passes pay for more counters.
const MANY: usize = 8192;
/// The bits of the narrow and of the wide digits.
const WIDTHS: [u32; 2] = [8, 11];
/// The bits of a word below its key: the place.
const PLACE: u32 = u32::BITS;

/// Memory for the lines that a task sorts one after the other.
#[derive(Default)]
pub(crate) struct RadixSorter {
    words: ScratchVec<u64>,
    spare: ScratchVec<u64>,
    counts: ScratchVec<u32>,
}
impl RadixSorter {
    /// The places `0 .. n` in the order of their keys; equal keys stay in the order of their places.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn order(&mut self, n: u32, key: impl Fn(usize) -> u64) -> Result<impl Iterator<Item = usize>, ErrorKind> {
        let n = n as usize;
        let (mut least, mut most) = (u64::MAX, 0);
        for k in 0..n {
            let key = key(k);
            (least, most) = (least.min(key), most.max(key));
        }
        let bits = u64::BITS - most.saturating_sub(least).leading_zeros();
        // Of long keys the upper bits first; those that are equal in them are few, or their lower bits are looked at too.
        let lower = bits.saturating_sub(u64::BITS - PLACE);
        reserve(&mut self.words, n)?;
        self.words.clear();
        self.words.extend((0..n).map(|k| (key(k) - least >> lower) << PLACE | k as u64));
        if n <= FEW {
            self.words.sort_unstable();
        } else {
            self.by_digits(bits - lower)?;
        }
        if lower > 0 {
            for equal in self.words.chunk_by_mut(|a, b| a >> PLACE == b >> PLACE).filter(|equal| equal.len() > 1) {
                equal.sort_unstable_by_key(|word| (key(place(*word)), place(*word)));
            }
        }
        Ok(self.words.iter().map(|word| place(*word)))
    }
    /// Sorts the words by the `bits` above their places.
    fn by_digits(&mut self, bits: u32) -> Result<(), ErrorKind> {
        let n = self.words.len();
        let passes = bits.div_ceil(WIDTHS[(n >= MANY) as usize]);
        if passes == 0 {
            return Ok(());
        }
        let width = bits.div_ceil(passes);
        let (size, mask) = (1usize << width, (1u64 << width) - 1);
        self.counts = filled(0, passes as usize * size)?;
        for word in &self.words {
            for pass in 0..passes {
                let digit = word >> (PLACE + pass * width) & mask;
                self.counts[pass as usize * size + digit as usize] += 1;
            }
        }
        self.spare = filled(0, n)?;
        for (pass, counts) in self.counts.chunks_exact_mut(size).enumerate() {
            let shift = PLACE + pass as u32 * width;
            // All have the digit of the first: there is nothing to do.
            let Some(first) = self.words.first() else { continue };
            if counts[(first >> shift & mask) as usize] as usize == n {
                continue;
            }
            let mut before = 0;
            for count in counts.iter_mut() {
                before += std::mem::replace(count, before);
            }
            let spare = &mut self.spare[..n];
            for &word in &self.words {
                let next = &mut counts[(word >> shift & mask) as usize];
                spare[*next as usize] = word;
                *next += 1;
            }
            std::mem::swap(&mut self.words, &mut self.spare);
        }
        Ok(())
    }
}
fn place(word: u64) -> usize {
    word as u32 as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_width_and_skew_are_in_stable_order() {
        let mut state = 11u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        };
        let mut sorter = RadixSorter::default();
        for n in [0usize, 1, 2, FEW, FEW + 1, 1000, MANY - 1, MANY, 20_000] {
            for bits in [0, 1, 7, 8, 9, 11, 12, 22, 31, 32, 33, 40, 63, 64] {
                for base in [0, 1 << 40, u64::MAX] {
                    let key = |v: u64| {
                        let low = if bits == 0 { 0 } else { v >> (64 - bits) };
                        if base == u64::MAX { u64::MAX - low } else { low.saturating_add(base) }
                    };
                    // Some of them as often as all others together, and two that differ in their last bit alone.
                    let keys: Vec<u64> = (0..n).map(|k| key(if k % 2 == 0 { next() } else { k as u64 >> 1 & 1 })).collect();
                    let mut want: Vec<usize> = (0..n).collect();
                    want.sort_by_key(|&k| keys[k]);
                    let got: Vec<usize> = sorter.order(n as u32, |k| keys[k]).unwrap().collect();
                    assert!(got == want, "{n} keys of {bits} bits from {base} on");
                }
            }
        }
    }
}
