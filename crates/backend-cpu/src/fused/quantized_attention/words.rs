//! Products of few rows of floats with codes that are read four or eight at a time, as words: a lane holds the word of one token, or
//! one word of a token. What a code is as a float, less the code of 0, is found by its bits: a whole number below 2^23 under the
//! exponent of 2^23 is 2^23 and itself. All of it is exact; the sums are those of a product of matrices, in their order.
use super::{CHUNK, CodedRows};
use crate::simd::{Arithmetic, Float, Integer, Simd, SimdKernel};

/// Lanes of the widest vector.
const LANES: usize = 16;
/// 2^23, and its bits.
const BASE: f32 = 8_388_608.0;
const BASE_BITS: i64 = 0x4b00_0000;

/// How codes lie in words.
#[derive(Clone, Copy)]
struct CodeWords {
    bits: u32,
    /// what words are xored with, so that codes count from `offset`
    flip: i64,
    offset: i32,
}
impl CodeWords {
    fn of(rows: &CodedRows<'_>) -> CodeWords {
        let signed = rows.packing.bits == 8 && rows.packing.symmetric;
        CodeWords {
            bits: rows.packing.bits,
            flip: if signed { i64::from(0x8080_8080u32 as i32) } else { 0 },
            offset: if signed { 128 } else { rows.packing.offset() },
        }
    }
    /// Codes in a word.
    fn codes(self) -> usize {
        (32 / self.bits) as usize
    }
    /// What 2^23 and a code of a row count from.
    fn base(self, rows: &CodedRows<'_>, row: usize) -> f32 {
        BASE + rows.zero_point.map_or(self.offset, |zero| i32::from(zero[row])) as f32
    }
    /// The codes number `k` of words, less what they count from.
    #[inline(always)]
    fn code<S: Simd>(self, words: <S::F32 as Arithmetic>::Int, k: usize, base: S::F32) -> S::F32 {
        let mask = <S::F32 as Arithmetic>::Int::constant((1 << self.bits) - 1);
        let magic = <S::F32 as Arithmetic>::Int::constant(BASE_BITS);
        S::F32::from_bits(words.shr(self.bits * k as u32).and(mask).or(magic)).sub(base)
    }
}

/// `scores[j] = Σ q · codes of token j`.
pub(super) struct WordProducts<'a> {
    /// features in whole blocks of words, zeros behind them
    pub(super) q: &'a [f32],
    pub(super) rows: CodedRows<'a>,
    pub(super) scores: &'a mut [f32],
}
/// Features that `q` of [`WordProducts`] must have room for.
pub(super) fn padded(features: usize) -> usize {
    features.next_multiple_of(LANES * 8)
}
impl SimdKernel for WordProducts<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let WordProducts { q, rows, scores } = self;
        let words = CodeWords::of(&rows);
        if words.bits == 8 { products::<S, 4>(words, q, &rows, scores) } else { products::<S, 8>(words, q, &rows, scores) }
    }
}
#[inline(always)]
fn products<S: Simd, const CODES: usize>(words: CodeWords, q: &[f32], rows: &CodedRows<'_>, scores: &mut [f32]) {
    let lanes = S::F32::LANES;
    let length = rows.packing.row_bytes(rows.features);
    let tokens = scores.len();
    let zero = S::F32::splat(0.0);
    let flip = <S::F32 as Arithmetic>::Int::constant(words.flip);
    // Two chains of sums do not wait for each other.
    let mut first = 0;
    while first < tokens {
        let (mut bases, mut sums, mut totals) = ([zero; 2], [zero; 2], [zero; 2]);
        for g in 0..2 {
            let mut base = [BASE; LANES];
            for (l, base) in base.iter_mut().enumerate().take(lanes) {
                let row = first + g * lanes + l;
                if row < tokens {
                    *base = words.base(rows, row);
                }
            }
            bases[g] = S::F32::from_slice(&base);
        }
        let (mut at, mut feature) = (0, 0);
        while at < length {
            // Bytes of a block of words.
            let count = (length - at).min(4 * lanes);
            let mut blocks = [[zero; LANES]; 2];
            for (g, block) in blocks.iter_mut().enumerate() {
                let mut bytes = [[0f32; LANES]; LANES];
                for (l, to) in bytes.iter_mut().enumerate().take(lanes) {
                    let row = first + g * lanes + l;
                    if row < tokens {
                        bytemuck::cast_slice_mut::<f32, u8>(to)[..count].copy_from_slice(&rows.bytes[row * length + at..][..count]);
                    }
                }
                *block = S::F32::transposed(bytes.as_flattened(), LANES);
            }
            for w in 0..lanes {
                let codes = [blocks[0][w].to_bits().xor(flip), blocks[1][w].to_bits().xor(flip)];
                for k in 0..CODES {
                    let q = S::F32::splat(q[feature + w * CODES + k]);
                    for g in 0..2 {
                        sums[g] = q.mul_add(words.code::<S>(codes[g], k, bases[g]), sums[g]);
                    }
                }
            }
            at += 4 * lanes;
            feature += CODES * lanes;
            if feature.is_multiple_of(CHUNK) || at >= length {
                for g in 0..2 {
                    totals[g] = if feature <= CHUNK { sums[g] } else { totals[g].add(sums[g]) };
                    sums[g] = zero;
                }
            }
        }
        for total in totals {
            let end = tokens.min(first + lanes);
            if first < end {
                total.write_partial(&mut scores[first..end]);
            }
            first += lanes;
        }
    }
}

/// Adds weights times codes to sums, one token after the other.
pub(super) struct WeightedWords<'a> {
    pub(super) weights: &'a [f32],
    pub(super) rows: CodedRows<'a>,
    pub(super) sums: &'a mut [f32],
}
impl SimdKernel for WeightedWords<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let WeightedWords { weights, rows, sums } = self;
        let words = CodeWords::of(&rows);
        if words.bits == 8 { weighted::<S, 4>(words, weights, &rows, sums) } else { weighted::<S, 8>(words, weights, &rows, sums) }
    }
}
#[inline(always)]
fn weighted<S: Simd, const CODES: usize>(words: CodeWords, weights: &[f32], rows: &CodedRows<'_>, sums: &mut [f32]) {
    let lanes = S::F32::LANES;
    let length = rows.packing.row_bytes(rows.features);
    let flip = <S::F32 as Arithmetic>::Int::constant(words.flip);
    for (block, sums) in sums.chunks_mut(CODES * lanes).enumerate() {
        let at = 4 * lanes * block;
        let count = (length - at).min(4 * lanes);
        // Code k of word l is feature CODES · l + k.
        let mut apart = [[0f32; LANES]; CODES];
        for (c, sum) in sums.iter().enumerate() {
            apart[c % CODES][c / CODES] = *sum;
        }
        let mut all = [S::F32::splat(0.0); CODES];
        for k in 0..CODES {
            all[k] = S::F32::from_slice(&apart[k]);
        }
        let mut buffer = [0f32; LANES];
        for (row, &weight) in weights.iter().enumerate() {
            bytemuck::cast_slice_mut::<f32, u8>(&mut buffer)[..count].copy_from_slice(&rows.bytes[row * length + at..][..count]);
            let codes = S::F32::from_slice(&buffer).to_bits().xor(flip);
            let (weight, base) = (S::F32::splat(weight), S::F32::splat(words.base(rows, row)));
            for k in 0..CODES {
                all[k] = weight.mul_add(words.code::<S>(codes, k, base), all[k]);
            }
        }
        for k in 0..CODES {
            all[k].write(&mut apart[k]);
        }
        for (c, sum) in sums.iter_mut().enumerate() {
            *sum = apart[c % CODES][c / CODES];
        }
    }
}
