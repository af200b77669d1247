//! Codes times codes of 8 bits with one scale a row: sums of whole rows, by lines for few rows of x, by blocks packed on the way for
//! many, that are scaled while they are in cache.
use super::{
    rows::{CodedRows, RowCode},
    weight::CodedWeight,
};
use crate::{
    device::Runtime,
    gemm::{
        bytes::{
            self, ByteBlocks, ByteRows, PackScratch, SumsPart,
            direct::{LineRows, multiply_lines},
            micro::{BLOCK, ByteContext, QUAD, Strided},
            pack,
        },
        micro::Block,
        pack::MatrixView,
        part_size,
    },
    scratch::filled,
    simd::{Simd, SimdKernel, dispatch},
};
use adamant_runtime::ErrorKind;

/// Columns whose sums are kept at a time.
const STRETCH: usize = 1024;

/// The product of codes, scaled.
pub(super) struct CodedProduct<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) context: &'static ByteContext,
    pub(super) weight: &'a CodedWeight<'a>,
    /// of an affine weight's rows: what codes that were made signed are still away from their zero points
    pub(super) from_zero_point: &'a [i32],
    pub(super) rows: CodedRows<'a>,
    pub(super) by_lines: bool,
}
impl CodedProduct<'_> {
    /// Into `[rows of x, rows of the weight]`.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn run(&self, out: &mut [f32]) -> Result<(), ErrorKind> {
        let (m, n, k) = (self.rows.rows.len(), self.weight.rows, self.weight.columns);
        let out = Block::new(out, m, n, n);
        let part = |scratch: &mut PackScratch, i: usize, j: usize, out: Block<'_, f32>| {
            if self.by_lines { self.by_lines(scratch, j, out) } else { self.by_blocks(scratch, i, j, out) }
        };
        let threads = &self.runtime.threads;
        if threads.count() == 1 || bytes::is_serial(m, m * n * k) {
            return PackScratch::with(|scratch| part(scratch, 0, 0, out));
        }
        let (rows, columns) = if self.by_lines {
            (m, n.div_ceil(2 * threads.count()).next_multiple_of(BLOCK))
        } else {
            part_size(threads.count(), 1, m, n, self.context.rows, 64)
        };
        threads.try_for_parts(out.cut(rows, columns), |_, (i, j, out)| PackScratch::with(|scratch| part(scratch, i, j, out)))
    }
    /// All rows, and as many columns as the part has, from `first` on.
    fn by_lines(&self, scratch: &mut PackScratch, first: usize, mut out: Block<'_, f32>) -> Result<(), ErrorKind> {
        let CodedProduct { context, weight, rows, .. } = self;
        let (m, k) = (out.rows, weight.columns);
        // The row of ones gives the sums of the weight's rows, which zero points are multiplied by.
        let all = m + usize::from(!rows.coding.signed);
        let a = LineRows::new(context, rows.bytes, all, k, rows.coding.signed, &mut scratch.widened)?;
        let (flip, factor) = a.flip(context, weight.signed());
        for j in (0..out.columns).step_by(STRETCH) {
            let columns = STRETCH.min(out.columns - j);
            let at = first + j;
            let sums = scratch.sums.take(all * columns)?;
            multiply_lines(context, k, &a, Strided { data: &weight.bytes[at * k..], stride: k }, flip, columns, sums, columns);
            let (sums, ones) = sums.split_at_mut(m * columns);
            let of_ones = factor.wrapping_mul(k as i32);
            ones.iter_mut().for_each(|sum| *sum = sum.wrapping_add(of_ones));
            for (i, (sums, row)) in sums.chunks_exact_mut(columns).zip(&rows.rows).enumerate() {
                // Sums of codes themselves: those less the zero point, and as many zero points.
                let of_codes = row.sum.wrapping_add(row.zero.wrapping_mul(k as i32));
                let zeros = (row.zero != 0).then_some(&*ones);
                let out = out.row(i, j, columns);
                dispatch(self.runtime.isa, CodedSums { row, start: of_codes.wrapping_mul(factor), zeros, product: self, at, sums, out });
            }
        }
        Ok(())
    }
    /// The part at (`row`, `first`).
    fn by_blocks(&self, scratch: &mut PackScratch, row: usize, first: usize, mut out: Block<'_, f32>) -> Result<(), ErrorKind> {
        let CodedProduct { context, weight, rows, .. } = self;
        let (k, m) = (weight.columns, out.rows);
        let codes = &rows.rows[row..][..m];
        let (starts, mut zeros) = (filled(0i32, m)?, filled(0i32, m)?);
        zeros.iter_mut().zip(codes).for_each(|(to, row)| *to = row.zero);
        let a = ByteRows { bytes: &rows.bytes[row * rows.stride..], stride: rows.stride, rows: m, starts: &starts, zeros: &zeros };
        let lines = MatrixView { data: weight.bytes, base: (first * k) as isize, row_stride: 1, column_stride: k as isize };
        let width = bytes::block_columns(m, k);
        for j in (0..out.columns).step_by(width) {
            let columns = width.min(out.columns - j);
            let blocks = scratch.blocks.take(columns.next_multiple_of(BLOCK) * k.next_multiple_of(QUAD))?;
            pack::pack_blocks(&lines, j, columns, k, if weight.signed() { 0 } else { 0x80 }, blocks);
            let mut column_sums = filled(0i32, columns)?;
            bytes::sum_columns(context, blocks, k, &mut column_sums, &mut scratch.multiply)?;
            let b = ByteBlocks { blocks, column_sums: &column_sums, k, n: columns };
            bytes::multiply_blocks(context, a, b, 0..columns, &mut scratch.multiply, &mut |part: SumsPart<'_>| {
                for (i, sums) in part.sums.chunks_mut(part.stride).enumerate().take(part.rows) {
                    let (row, column) = (&codes[part.row + i], j + part.column);
                    let out = out.row(part.row + i, column, part.columns);
                    dispatch(
                        self.runtime.isa,
                        CodedSums { row, start: 0, zeros: None, product: self, at: first + column, sums: &mut sums[..part.columns], out },
                    );
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
/// Sums of a row of x with some rows of the weight, corrected and scaled.
struct CodedSums<'s> {
    row: &'s RowCode,
    start: i32,
    /// sums that the zero point of x is multiplied by and that are then taken away
    zeros: Option<&'s [i32]>,
    product: &'s CodedProduct<'s>,
    /// the first of the weight's rows
    at: usize,
    sums: &'s mut [i32],
    out: &'s mut [f32],
}
impl SimdKernel for CodedSums<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let CodedSums { row, start, zeros, product, at, sums, out } = self;
        if let Some(zeros) = zeros {
            sums.iter_mut().zip(zeros).for_each(|(sum, &zero)| *sum = sum.wrapping_sub(row.zero.wrapping_mul(zero)));
        }
        if let Some(differences) = product.from_zero_point.get(at..) {
            sums.iter_mut().zip(differences).for_each(|(sum, &difference)| *sum = sum.wrapping_add(row.sum.wrapping_mul(difference)));
        }
        let scaled = sums.iter().zip(&product.weight.scale[at..]).map(|(&sum, &scale)| sum.wrapping_add(start) as f32 * (row.scale * scale));
        match product.weight.bias {
            Some(bias) => out.iter_mut().zip(scaled.zip(&bias[at..])).for_each(|(to, (v, bias))| *to = v + bias),
            None => out.iter_mut().zip(scaled).for_each(|(to, v)| *to = v),
        }
    }
}
