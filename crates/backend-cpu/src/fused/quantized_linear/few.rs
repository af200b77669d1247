//! A few rows of x times the codes of a weight as they are stored: codes become numbers in registers, so that memory gives the codes
//! alone, whatever their bits and groups.
//!
//! With numbers x, the products and sums are those of a matrix of the weight's numbers. With codes x, the sum of a group is exact in f32
//! as far as [`REGION`] columns go (255 · 255 · 256 is below 2^24), and of longer ones those are added as integers; groups are scaled and
//! added by the tree of reductions.
use super::{rows::CodedRows, weight::CodedWeight};
use crate::{
    device::Runtime,
    gemm::{
        MatrixElement,
        context::{Accumulator, AlignedBuffer},
        micro::Block,
        words::{CODE_BASE, FewVectors, Origins, REGION, RegionSum, ScaledGroups, SignedCodes, UnsignedCodes, WordRows, multiply},
    },
    isa::Isa,
    reduce::{
        columns::ColumnTotals,
        tree::{self, ReducedElement, Sum},
    },
    scratch::{filled, with_buffer},
    simd::{Simd, SimdKernel, dispatch},
};
use adamant_runtime::{
    DType, ErrorKind,
    composite::packed::{CodeLevels, Packing},
    f16,
};
use std::cell::RefCell;

/// Rows of x that are taken so.
pub(super) const MOST_ROWS: usize = 8;
/// Multiplications up to which a layer runs on the calling thread.
const SERIAL_WORK: usize = 1 << 17;

/// Are the codes of a group, whose levels are even, in words of their own?
pub(super) fn takes(packing: &Packing, levels: CodeLevels, columns: usize, rows: usize) -> bool {
    let (per, groups) = (if packing.bits == 8 { 4 } else { 8 }, packing.groups(columns));
    rows <= MOST_ROWS && levels == CodeLevels::Even && (groups == 1 || (columns / groups).is_multiple_of(per))
}

/// Rows of x, as numbers or as codes less their zero points.
#[derive(Clone, Copy)]
pub(super) struct FewRows<'a> {
    runtime: &'a Runtime,
    weight: &'a CodedWeight<'a>,
    x: FewVectors<'a>,
    /// of codes: what x is scaled by
    codes: Option<&'a CodedRows<'a>>,
}
/// What a thread needs on the way.
#[derive(Default)]
struct FewScratch {
    words: AlignedBuffer<f32>,
    scales: AlignedBuffer<f32>,
    widened: AlignedBuffer<f32>,
    origins: AlignedBuffer<f32>,
    sums: AlignedBuffer<f32>,
}
impl FewScratch {
    fn with<R>(f: impl FnOnce(&mut FewScratch) -> R) -> R {
        thread_local! {
            static KEPT: RefCell<Vec<FewScratch>> = const { RefCell::new(Vec::new()) };
        }
        with_buffer(&KEPT, f)
    }
}
/// `x numbersᵀ + bias`.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn of_numbers(runtime: &Runtime, x: &[f32], weight: &CodedWeight<'_>, out: &mut [f32]) -> Result<(), ErrorKind> {
    let x = FewVectors { data: x, stride: weight.columns, count: x.len() / weight.columns };
    FewRows { runtime, weight, x, codes: None }.run(out)
}
/// The same of codes, scaled.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn of_codes(runtime: &Runtime, codes: &CodedRows<'_>, weight: &CodedWeight<'_>, out: &mut [f32]) -> Result<(), ErrorKind> {
    let (k, m) = (weight.columns, codes.rows.len());
    let mut x = filled(0f32, m * k)?;
    for ((x, bytes), row) in x.chunks_exact_mut(k).zip(codes.bytes.chunks_exact(codes.stride)).zip(&codes.rows) {
        dispatch(runtime.isa, LessZero { bytes, zero: row.zero, x });
    }
    FewRows { runtime, weight, x: FewVectors { data: &x, stride: k, count: m }, codes: Some(codes) }.run(out)
}
struct LessZero<'a> {
    bytes: &'a [u8],
    zero: i32,
    x: &'a mut [f32],
}
impl SimdKernel for LessZero<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        self.x.iter_mut().zip(self.bytes).for_each(|(to, &byte)| *to = (i32::from(byte) - self.zero) as f32);
    }
}
impl FewRows<'_> {
    fn run(&self, out: &mut [f32]) -> Result<(), ErrorKind> {
        let (n, k, m) = (self.weight.rows, self.weight.columns, self.x.count);
        let (threads, width) = (&self.runtime.threads, WordRows::width(self.runtime.isa, m));
        let out = Block::new(out, m, n, n);
        if threads.count() == 1 || m * n * k < SERIAL_WORK {
            return self.part(0, out);
        }
        let columns = n.div_ceil(4 * threads.count()).next_multiple_of(width);
        threads.try_for_parts(out.cut(m, columns), |_, (_, first, out)| self.part(first, out))
    }
    /// Rows of the weight from `first` on.
    fn part(&self, first: usize, mut out: Block<'_, f32>) -> Result<(), ErrorKind> {
        let (weight, isa, m) = (self.weight, self.runtime.isa, self.x.count);
        let (width, groups) = (WordRows::width(isa, m), weight.groups());
        FewScratch::with(|FewScratch { words, scales, widened, origins, sums }| {
            let (words, scales) = (words.take(WordRows::space(width))?, scales.take(groups * width)?);
            let origins = origins.take(if weight.zero_point.is_some() { groups * width } else { 0 })?;
            let sums = sums.take(m * width * (REGION / 4 + 2))?;
            for j in (0..out.columns).step_by(width) {
                let rows = width.min(out.columns - j);
                let block = RowBlock { of: self, row: first + j, rows, width, isa };
                block.parameters(widened, scales, origins)?;
                let groups = ScaledGroups {
                    size: weight.group(),
                    scales,
                    origins: if origins.is_empty() { Origins::Same(CODE_BASE + weight.base_of_words() as f32) } else { Origins::Each(origins) },
                };
                let totals = match self.codes {
                    None => block.numbers(groups, words, sums)?,
                    Some(codes) => block.codes(codes, groups, words, sums)?,
                };
                for (i, totals) in totals.chunks_exact(width).enumerate() {
                    let out = out.row(i, j, rows);
                    match weight.bias {
                        Some(bias) => out.iter_mut().zip(totals.iter().zip(&bias[first + j..])).for_each(|(to, (total, bias))| *to = total + bias),
                        None => out.copy_from_slice(&totals[..rows]),
                    }
                }
            }
            Ok(())
        })
    }
}
/// Rows of the weight side by side.
struct RowBlock<'a> {
    of: &'a FewRows<'a>,
    row: usize,
    rows: usize,
    width: usize,
    isa: Isa,
}
impl RowBlock<'_> {
    /// Scales and, of affine codes, zero points: `[groups, width]`.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn parameters(&self, widened: &mut AlignedBuffer<f32>, scales: &mut [f32], origins: &mut [f32]) -> Result<(), ErrorKind> {
        let RowBlock { of: FewRows { weight, .. }, row, rows, width, isa } = *self;
        let groups = weight.groups();
        // Of rows that are not there, sums are not looked at.
        let stored = row * groups..(row + rows) * groups;
        let own = match weight.halves {
            Some(halves) => {
                let widened = widened.take(rows * groups)?;
                f16::widen(&halves[stored], widened);
                &*widened
            }
            None => &weight.scale[stored],
        };
        f32::context(isa).transpose(own, groups, scales, width, rows, groups);
        if let Some(zero_point) = weight.zero_point {
            for (g, origins) in origins.chunks_exact_mut(width).enumerate() {
                origins.iter_mut().enumerate().take(rows).for_each(|(r, to)| *to = CODE_BASE + f32::from(zero_point[(row + r) * groups + g]));
            }
        }
        Ok(())
    }
    fn staged<'s>(&self, column: usize, columns: usize, words: &'s mut [f32]) -> &'s [f32] {
        let weight = self.of.weight;
        let stride = weight.packing.row_bytes(weight.columns);
        let rows = WordRows { bytes: weight.bytes, stride, length: stride, rows: self.row + self.rows, bits: weight.packing.bits as usize };
        rows.stage(self.isa, self.row, column, columns, self.width, words)
    }
    fn multiply(&self, words: &[f32], column: usize, columns: usize, region: RegionSum<'_>, sums: &mut [f32]) {
        let FewRows { weight, x, .. } = *self.of;
        match weight.packing.bits {
            8 if weight.signed() => multiply::<SignedCodes>(self.isa, words, self.width, x, column, columns, region, sums),
            8 => multiply::<UnsignedCodes<8>>(self.isa, words, self.width, x, column, columns, region, sums),
            4 => multiply::<UnsignedCodes<4>>(self.isa, words, self.width, x, column, columns, region, sums),
            _ => multiply::<UnsignedCodes<3>>(self.isa, words, self.width, x, column, columns, region, sums),
        }
    }
    /// Sums of chunks, added in their order.
    fn numbers<'s>(&self, groups: ScaledGroups<'_>, words: &mut [f32], sums: &'s mut [f32]) -> Result<&'s [f32], ErrorKind> {
        let (k, length) = (self.of.weight.columns, self.of.x.count * self.width);
        let (totals, of_chunk) = sums.split_at_mut(length);
        let of_chunk = &mut of_chunk[..length];
        for column in (0..k).step_by(REGION) {
            let columns = REGION.min(k - column);
            let words = self.staged(column, columns, words);
            let to = if column == 0 { &mut *totals } else { &mut *of_chunk };
            self.multiply(words, column, columns, RegionSum::Numbers(Some(groups)), to);
            if column > 0 {
                totals.iter_mut().zip(&*of_chunk).for_each(|(total, sum)| *total += sum);
            }
        }
        Ok(totals)
    }
    /// Exact sums of groups, scaled.
    fn codes<'s>(&self, codes: &CodedRows<'_>, of: ScaledGroups<'_>, words: &mut [f32], sums: &'s mut [f32]) -> Result<&'s [f32], ErrorKind> {
        let RowBlock { of: FewRows { weight, x, .. }, width, isa, .. } = *self;
        let (groups, size, length) = (weight.groups(), of.size, x.count * width);
        let (result, terms) = sums.split_at_mut(length);
        let mut totals = ColumnTotals::<f32>::new(0.0, length, groups)?;
        let mut whole = filled(0i32, if size > REGION { length } else { 0 })?;
        let mut g = 0;
        while g < groups {
            let some = (REGION / size).max(1).min(tree::BLOCK - g % tree::BLOCK).min(groups - g);
            let terms = &mut terms[..some * length];
            let origins = match of.origins {
                Origins::Each(origins) => Origins::Each(&origins[g * width..]),
                same => same,
            };
            if size <= REGION {
                let words = self.staged(g * size, some * size, words);
                self.multiply(words, g * size, some * size, RegionSum::Pieces(size, origins), terms);
            } else {
                whole.fill(0);
                for column in (0..size).step_by(REGION) {
                    let columns = REGION.min(size - column);
                    let words = self.staged(g * size + column, columns, words);
                    self.multiply(words, g * size + column, columns, RegionSum::Pieces(columns, origins), terms);
                    whole.iter_mut().zip(&*terms).for_each(|(total, &sum)| *total = total.wrapping_add(sum as i32));
                }
                terms.iter_mut().zip(&whole[..]).for_each(|(to, &total)| *to = total as f32);
            }
            if groups == 1 {
                for ((result, terms), row) in result.chunks_exact_mut(width).zip(terms.chunks_exact(width)).zip(&codes.rows) {
                    result.iter_mut().zip(terms.iter().zip(of.scales)).for_each(|(to, (sum, scale))| *to = sum * (row.scale * scale));
                }
                return Ok(result);
            }
            dispatch(isa, ScaleTerms { terms, scales: &of.scales[g * width..], width, length });
            totals.add::<Sum>(isa, terms, length);
            g += some;
            if g.is_multiple_of(tree::BLOCK) || g == groups {
                totals.end_block::<Sum>(isa);
            }
        }
        let totals = totals.end::<Sum>();
        for ((result, totals), row) in result.chunks_exact_mut(width).zip(totals.chunks_exact(width)).zip(&codes.rows) {
            result.iter_mut().zip(totals).for_each(|(to, &total)| *to = <f32 as ReducedElement>::finish(total, DType::F32) * row.scale);
        }
        Ok(result)
    }
}
/// Multiplies sums of groups by their scales.
struct ScaleTerms<'a> {
    terms: &'a mut [f32],
    scales: &'a [f32],
    width: usize,
    length: usize,
}
impl SimdKernel for ScaleTerms<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for (terms, scales) in self.terms.chunks_exact_mut(self.length).zip(self.scales.chunks_exact(self.width)) {
            for terms in terms.chunks_exact_mut(self.width) {
                terms.iter_mut().zip(scales).for_each(|(term, scale)| *term *= scale);
            }
        }
    }
}
