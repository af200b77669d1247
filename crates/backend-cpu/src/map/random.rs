//! Philox bits for a run of elements, as integers or as numbers in [0, 1). The words of a block are used by four
//! neighbours, so dense runs compute each block once. Must not know tiles.
use super::loops::convert;
use crate::{
    isa::Isa,
    simd::{Float, Halves, Integer, Kernel, Simd, dispatch},
};
use adamant_core::rng::element_bits;

/// `out[k]` = the bits of element `first + k * stride` under `key`.
pub(crate) fn fill(isa: Isa, key: [u32; 4], first: u64, stride: u64, out: &mut [i64]) {
    draw(isa, key, first, stride, out, |bits| bits as i64);
}
/// The factor from 24 bits to a number in [0, 1).
pub(crate) const UNIT: f32 = 1.0 / 16_777_216.0;
/// `out[k]` = the upper 24 bits of element `first + k * stride` under `key`, times [`UNIT`].
pub(crate) fn uniform(isa: Isa, key: [u32; 4], first: u64, stride: u64, out: &mut [f32]) {
    // As signed integers, which every set converts; 24 bits are exact in f32.
    draw(isa, key, first, stride, out, |bits| (bits >> 8) as i32 as f32 * UNIT);
}

/// Blocks that are computed at a time: what keeps the multiplier busy, in every set.
const BLOCKS: usize = 64;
fn draw<T>(isa: Isa, key: [u32; 4], first: u64, stride: u64, out: &mut [T], f: impl Fn(u32) -> T + Copy) {
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
        dispatch(isa, Blocks { key, first: next / 4 + (part * BLOCKS) as u64, out: &mut blocks });
        convert(isa, &bytemuck::cast_slice::<_, u32>(&blocks)[..out.len()], out, |word| f(u32::from_le(word)));
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
        type Int<S> = <<S as Simd>::F64 as Float>::Int;
        /// Vectors whose chains of products overlap.
        const TOGETHER: usize = 4;
        let splat = |word: u64| Int::<S>::splat(word as i64);
        let (lanes, low) = (<S::F64 as Float>::LANES, splat(0xFFFF_FFFF));
        let (even, odd) = (splat(0xD251_1F53), splat(0xCD9E_8D57));
        let mut places = [0.0; 8];
        for (k, place) in places.iter_mut().enumerate() {
            *place = f64::from_bits(k as u64);
        }
        let places = S::F64::from_slice(&places).to_bits();
        let (mut low_words, mut high_words) = ([0.0; BLOCKS], [0.0; BLOCKS]);
        let mut at = 0;
        while at < BLOCKS {
            let mut c = [[splat(0); 4]; TOGETHER];
            for (v, c) in c.iter_mut().enumerate() {
                let block = splat(self.first.wrapping_add((at + v * lanes) as u64)).add(places);
                *c = [block, block.shr(32), splat(self.key[2] as u64), splat(self.key[3] as u64)];
            }
            let mut key = [self.key[0], self.key[1]];
            for _ in 0..10 {
                let keys = [splat(key[0] as u64), splat(key[1] as u64)];
                for c in &mut c {
                    let (p0, p1) = (c[0].mul_halves(even), c[2].mul_halves(odd));
                    *c = [p1.shr(32).xor(c[1]).xor(keys[0]), p1, p0.shr(32).xor(c[3]).xor(keys[1]), p0];
                }
                key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
            }
            for (v, c) in c.iter().enumerate() {
                let first = at + v * lanes;
                S::F64::from_bits(c[0].and(low).or(c[1].shl(32))).write(&mut low_words[first..]);
                S::F64::from_bits(c[2].and(low).or(c[3].shl(32))).write(&mut high_words[first..]);
            }
            at += TOGETHER * lanes;
        }
        for ((out, low), high) in self.out.iter_mut().zip(&low_words).zip(&high_words) {
            *out = [low.to_bits().to_le(), high.to_bits().to_le()];
        }
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
                    uniform(Isa::detect(), key, first, stride, &mut numbers);
                    let want: Vec<f32> = want.iter().map(|bits| (bits >> 8) as f32 / 16_777_216.0).collect();
                    assert_eq!(numbers, want, "{first} {n} {stride}");
                }
            }
        }
    }
}
