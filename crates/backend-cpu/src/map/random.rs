//! Philox bits for a run of elements, as integers or as numbers in [0, 1). The words of a block are used by four
//! neighbours, so dense runs compute each block once. Must not know tiles.
use super::loops::convert;
use crate::{
    isa::Isa,
    simd::{Arithmetic, Float, Halves, Integer, Kernel, Simd, dispatch, stream::Ahead},
};
use adamant_core::rng::element_bits;

/// `out[k]` = the bits of element `first + k * stride` under `key`.
pub(crate) fn fill(isa: Isa, key: [u32; 4], first: u64, stride: u64, out: &mut [i64]) {
    draw(isa, key, first, stride, out, &[], |bits| bits as i64);
}
/// The factor from 24 bits to a number in [0, 1).
pub(crate) const UNIT: f32 = 1.0 / 16_777_216.0;
/// What is made of 24 bits.
#[derive(Clone, Copy)]
pub(crate) enum Draw {
    /// they times [`UNIT`]
    Uniform,
    /// `yes` if they are fewer than `limit`, else `no`
    Either { limit: u32, yes: f32, no: f32 },
}
impl Draw {
    /// `yes` where a uniform number is below `limit`, else `no`.
    pub fn below(limit: f32, yes: f32, no: f32) -> Draw {
        // As many of the 2^24 numbers are below it; the scaling is exact, and a cast cuts off at 0, as for no number.
        Draw::Either { limit: (f64::from(limit) / f64::from(UNIT)).ceil() as u32, yes, no }
    }
    /// `out[k]` = what is made of the upper 24 bits of element `first + k * stride` under `key`. Meanwhile `soon` is asked for.
    pub fn fill(self, isa: Isa, key: [u32; 4], first: u64, stride: u64, out: &mut [f32], soon: &[Ahead<'_>]) {
        match self {
            // As signed integers, which every set converts; 24 bits are exact in f32.
            Draw::Uniform => draw(isa, key, first, stride, out, soon, |bits| (bits >> 8) as i32 as f32 * UNIT),
            Draw::Either { limit, yes, no } => {
                // By the bits: what looks like a branch would be one, taken at random.
                let (yes, no) = (yes.to_bits(), no.to_bits());
                draw(
                    isa,
                    key,
                    first,
                    stride,
                    out,
                    soon,
                    #[inline(always)]
                    move |bits| f32::from_bits(no ^ (no ^ yes) & u32::from(bits >> 8 < limit).wrapping_neg()),
                );
            }
        }
    }
}

/// Blocks that are computed at a time: what keeps the multiplier busy, in every set.
const BLOCKS: usize = 64;
fn draw<T>(isa: Isa, key: [u32; 4], first: u64, stride: u64, out: &mut [T], soon: &[Ahead<'_>], f: impl Fn(u32) -> T + Copy) {
    let each = |first: u64, out: &mut [T]| {
        for (k, o) in out.iter_mut().enumerate() {
            *o = f(element_bits(key, first.wrapping_add((k as u64).wrapping_mul(stride))));
        }
    };
    if stride != 1 {
        return each(first, out);
    }
    let lead = ((4 - first % 4) % 4).min(out.len() as u64) as usize;
    let (head, rest) = out.split_at_mut(lead);
    each(first, head);
    let (body, tail) = rest.split_at_mut(rest.len() / 4 * 4);
    let next = first + lead as u64;
    let mut blocks = [[0u64; 2]; BLOCKS];
    for (part, out) in body.chunks_mut(4 * BLOCKS).enumerate() {
        for ahead in soon {
            (0..size_of_val(out)).step_by(64).for_each(|_| ahead.fetch_line());
        }
        dispatch(isa, Blocks { key, first: next / 4 + (part * BLOCKS) as u64, out: &mut blocks });
        convert(
            isa,
            &bytemuck::cast_slice::<_, u32>(&blocks)[..out.len()],
            out,
            // Without references: a number that a write may change is read again for each element.
            #[inline(always)]
            move |word| f(u32::from_le(word)),
        );
    }
    each(next + body.len() as u64, tail);
}
/// The words of neighbouring blocks, little-endian.
struct Blocks<'a> {
    key: [u32; 4],
    first: u64,
    out: &'a mut [[u64; 2]; BLOCKS],
}
impl Kernel for Blocks<'_> {
    type Output = ();
    /// [`adamant_core::rng::philox`] with a word of 32 bits in each lane of 64, whose upper half is not cleaned: a product
    /// reads the lower one alone.
    #[inline(always)]
    fn run<S: Simd>(self) {
        type Int<S> = <<S as Simd>::F64 as Arithmetic>::Int;
        /// Vectors whose chains of products overlap.
        const TOGETHER: usize = 4;
        let splat = |word: u32| Int::<S>::splat(word.into());
        let lanes = <S::F64 as Float>::LANES;
        let (even, odd) = (splat(0xD251_1F53), splat(0xCD9E_8D57));
        // The block of a lane, so that pairs of lanes come out one block behind the other.
        let mut places = [0.0; 8];
        for (k, place) in places.iter_mut().enumerate().take(lanes) {
            *place = f64::from_bits((k / 2 + k % 2 * (lanes / 2)) as u64);
        }
        let places = S::F64::from_slice(&places).to_bits();
        // As wide as a lane, so that they are spread from memory, which costs the unit that shuffles nothing.
        let mut keys = [[0i64; 2]; 10];
        for (round, keys) in (0u32..).zip(&mut keys) {
            let step = |key: u32, by: u32| key.wrapping_add(by.wrapping_mul(round)).into();
            *keys = [step(self.key[0], 0x9E37_79B9), step(self.key[1], 0xBB67_AE85)];
        }
        let out: &mut [f64] = bytemuck::cast_slice_mut(self.out);
        let mut at = 0;
        while at < BLOCKS {
            let mut c = [[splat(0); 4]; TOGETHER];
            for (v, c) in c.iter_mut().enumerate() {
                let block = Int::<S>::splat(self.first.wrapping_add((at + v * lanes) as u64) as i64).add(places);
                *c = [block, block.upper(), splat(self.key[2]), splat(self.key[3])];
            }
            for keys in &keys {
                let keys = [Int::<S>::splat(keys[0]), Int::<S>::splat(keys[1])];
                for c in &mut c {
                    let (p0, p1) = (c[0].mul_halves(even), c[2].mul_halves(odd));
                    *c = [p1.upper().xor(c[1]).xor(keys[0]), p1, p0.upper().xor(c[3]).xor(keys[1]), p0];
                }
            }
            for (v, c) in c.iter().enumerate() {
                for (half, words) in c[0].join(c[1]).pairs(c[2].join(c[3])).into_iter().enumerate() {
                    S::F64::from_bits(words).write(&mut out[2 * (at + v * lanes) + half * lanes..]);
                }
            }
            at += TOGETHER * lanes;
        }
        self.out.iter_mut().flatten().for_each(|word| *word = word.to_le());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_bits_of_its_elements() {
        let key = [7, 9, 1, 3];
        for first in [0u64, 1, 2, 3, 4, 1000, (1 << 34) - 5] {
            for n in [0, 1, 3, 4, 5, 130, 1000] {
                for stride in [1, 3] {
                    let mut out = vec![0; n];
                    fill(Isa::detect(), key, first, stride, &mut out);
                    let want: Vec<i64> = (0..n as u64).map(|k| element_bits(key, first + k * stride) as i64).collect();
                    assert_eq!(out, want, "{first} {n} {stride}");
                    let mut numbers = vec![0.0; n];
                    Draw::Uniform.fill(Isa::detect(), key, first, stride, &mut numbers, &[]);
                    let want: Vec<f32> = want.iter().map(|bits| (bits >> 8) as f32 / 16_777_216.0).collect();
                    assert_eq!(numbers, want, "{first} {n} {stride}");
                    // A limit that is one of the numbers, one between two of them, and what no number is below.
                    for limit in [0.0, 0.1, want.first().copied().unwrap_or(0.5), 0.5, 1.0, 2.0, -1.0, f32::NAN] {
                        Draw::below(limit, 3.0, 4.0).fill(Isa::detect(), key, first, stride, &mut numbers, &[]);
                        let want: Vec<f32> = want.iter().map(|&u| if u < limit { 3.0 } else { 4.0 }).collect();
                        assert_eq!(numbers, want, "{first} {n} {stride} {limit}");
                    }
                }
            }
        }
    }
}
