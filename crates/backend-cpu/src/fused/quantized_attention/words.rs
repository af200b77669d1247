//! Few queries times codes that are read as words: of keys a lane holds the word of one token ([`gemm::words`](crate::gemm::words)), of
//! values one word of a token. What a code is as a float, less the code of 0, is found by its bits, and exact; the sums are those of a
//! product of matrices, in their order.
use super::CodedTokens;
use crate::{
    gemm::{
        context::Accumulator,
        words::{CODE_BASE, FewVectors, Origins, REGION, RegionSum, SignedCodes, UnsignedCodes, WordNumbers, WordRows, multiply},
    },
    isa::Isa,
    simd::{Arithmetic, Float, Simd, SimdKernel},
};
use adamant_runtime::ErrorKind;

/// Lanes of the widest vector.
const LANES: usize = 16;

impl CodedTokens<'_> {
    fn signed(&self) -> bool {
        self.packing.bits == 8 && self.packing.symmetric
    }
    /// What codes of a row count from, as they are read.
    fn origin(&self, row: usize) -> f32 {
        let same = if self.signed() { 128 } else { self.packing.offset() };
        CODE_BASE + self.zero_point.map_or(same, |zero| i32::from(zero[row])) as f32
    }
}
/// `scores[i][j] = Σ q[i] · codes of token j`, of rows of q of as many features as codes.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn few_products(isa: Isa, q: &[f32], keys: CodedTokens<'_>, scores: &mut [f32]) -> Result<(), ErrorKind> {
    let (e, length) = (keys.features, keys.packing.row_bytes(keys.features));
    let x = FewVectors { data: q, stride: e, count: q.len() / e };
    let (seen, width) = (scores.len() / x.count, WordRows::width(isa, x.count));
    let rows = WordRows { bytes: keys.bytes, stride: length, length, rows: seen, bits: keys.packing.bits as usize };
    f32::with_scratch(|scratch| {
        let (space, origins) = scratch.b.take(WordRows::space(width) + width)?.split_at_mut(WordRows::space(width));
        let (totals, sums) = scratch.c.take(2 * x.count * width)?.split_at_mut(x.count * width);
        for first in (0..seen).step_by(width) {
            let n = width.min(seen - first);
            origins.iter_mut().enumerate().for_each(|(r, to)| *to = keys.origin((first + r).min(seen - 1)));
            for column in (0..e).step_by(REGION) {
                let columns = REGION.min(e - column);
                let words = rows.stage(isa, first, column, columns, width, space);
                let (region, to) = (RegionSum::Pieces(columns, Origins::Each(origins)), if column == 0 { &mut *totals } else { &mut *sums });
                match keys.packing.bits {
                    8 if keys.signed() => multiply::<SignedCodes>(isa, words, width, x, column, columns, region, to),
                    8 => multiply::<UnsignedCodes<8>>(isa, words, width, x, column, columns, region, to),
                    _ => multiply::<UnsignedCodes<4>>(isa, words, width, x, column, columns, region, to),
                }
                if column > 0 {
                    totals.iter_mut().zip(&*sums).for_each(|(total, sum)| *total += sum);
                }
            }
            for (totals, scores) in totals.chunks_exact(width).zip(scores.chunks_exact_mut(seen)) {
                scores[first..first + n].copy_from_slice(&totals[..n]);
            }
        }
        Ok(())
    })
}

/// Adds weights times codes to sums, one token after the other.
pub(super) struct WeightedWords<'a> {
    pub(super) weights: &'a [f32],
    pub(super) rows: CodedTokens<'a>,
    pub(super) sums: &'a mut [f32],
}
impl SimdKernel for WeightedWords<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let WeightedWords { weights, rows, sums } = self;
        match rows.packing.bits {
            8 if rows.signed() => weighted::<S, SignedCodes, 4>(weights, &rows, sums),
            8 => weighted::<S, UnsignedCodes<8>, 4>(weights, &rows, sums),
            _ => weighted::<S, UnsignedCodes<4>, 8>(weights, &rows, sums),
        }
    }
}
#[inline(always)]
fn weighted<S: Simd, N: WordNumbers, const CODES: usize>(weights: &[f32], rows: &CodedTokens<'_>, sums: &mut [f32]) {
    let lanes = S::F32::LANES;
    let length = rows.packing.row_bytes(rows.features);
    let stored: Option<&[f32]> = if length.is_multiple_of(4) { bytemuck::try_cast_slice(rows.bytes).ok() } else { None };
    for (block, sums) in sums.chunks_mut(CODES * lanes).enumerate() {
        let at = 4 * lanes * block;
        let count = (length - at).min(4 * lanes);
        // Code k of word l is feature CODES · l + k.
        let mut apart = [[0f32; LANES]; CODES];
        for (c, sum) in sums.iter().enumerate() {
            apart[c % CODES][c / CODES] = *sum;
        }
        let mut all = [S::F32::splat(0.0); CODES];
        for (all, apart) in all.iter_mut().zip(&apart) {
            *all = S::F32::from_slice(apart);
        }
        let mut buffer = [0f32; LANES];
        for (row, &weight) in weights.iter().enumerate() {
            let word = if let Some(stored) = stored {
                let words = &stored[(row * length + at) / 4..][..count / 4];
                if words.len() == lanes { S::F32::from_slice(words) } else { S::F32::from_partial(words) }
            } else {
                bytemuck::cast_slice_mut::<f32, u8>(&mut buffer)[..count].copy_from_slice(&rows.bytes[row * length + at..][..count]);
                S::F32::from_slice(&buffer)
            };
            let (weight, origin) = (S::F32::splat(weight), S::F32::splat(rows.origin(row)));
            for (k, all) in all.iter_mut().enumerate() {
                *all = weight.mul_add(N::number::<S::F32>(word.to_bits(), k).sub(origin), *all);
            }
        }
        for (all, apart) in all.iter().zip(&mut apart) {
            all.write(apart);
        }
        for (c, sum) in sums.iter_mut().enumerate() {
            *sum = apart[c % CODES][c / CODES];
        }
    }
}
