//! Linear layers of 8-bit codes in one pass: each row of x becomes codes, codes are multiplied as bytes, and sums are scaled while
//! they are in cache. Sums are exact and the f32 steps are those of the body, in its order: the bits are the body's.
//!
//! Codes of the weight are read as they are stored: by lines for few rows of x, by blocks packed on the way for many.
//! Groups of columns, other numbers of bits and given scales have the body.
use super::known;
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    gemm::{
        bytes::{
            self, ByteBlocks, ByteRows, PackScratch, SumsPart,
            direct::{LineRows, MOST_LINE_ROWS, multiply_lines},
            micro::{BLOCK, ByteContext, QUAD, Strided},
            pack, packed_stride,
        },
        micro::Block,
        pack::MatrixView,
        part_size,
    },
    isa::ByteIsa,
    operand::internal,
    scratch::{few, filled},
    simd::{Simd, SimdKernel, dispatch},
    threads::Threads,
};
use adamant_runtime::{
    Composite, DType, ErrorKind,
    composite::packed::{Activations, QuantizedLinear},
    kernel::FaultWord,
};
use smallvec::SmallVec;

pub(super) struct QuantizedLinearKernel;
/// A row whose largest value is no larger than this counts as zeros: core's `SMALLEST_ROW`.
const SMALLEST_ROW: f32 = 1e-30;
/// Columns whose sums are kept at a time.
const STRETCH: usize = 1024;
/// Rows of x up to which the memory bounds a product.
const FEW_ROWS: usize = 4;
/// Elements of x that a task turns into codes.
const TASK: usize = 32 << 10;

/// Whether codes of x are signed, if the kernel takes the layer: sums of wide rows leave 32 bits.
fn symmetric(layer: &QuantizedLinear) -> Option<bool> {
    let Activations::PerToken { symmetric } = layer.activations else { return None };
    (layer.packing.bits == 8 && layer.packing.group.is_none() && !layer.wide).then_some(symmetric)
}
impl CpuKernel for QuantizedLinearKernel {
    fn supports(&self, composite: &dyn Composite, dtypes: &[DType]) -> bool {
        let Some(layer) = known::<QuantizedLinear>(composite).filter(|l| symmetric(l).is_some()) else { return false };
        let [inputs @ .., DType::F32] = dtypes else { return false };
        let Ok(of) = layer.roles(inputs) else { return false };
        *of.x == DType::F32 && *of.scale == DType::F32 && of.bias.is_none_or(|d| *d == DType::F32)
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let layer = known::<QuantizedLinear>(composite).ok_or_else(|| internal("a layer of codes of another make"))?;
        let symmetric = symmetric(layer).ok_or_else(|| internal("a layer of codes without a kernel"))?;
        let is_affine = !layer.packing.symmetric;
        let columns = operands.shape(0)?.last().copied().ok_or_else(|| internal("a layer of codes of a number"))?;
        let (x, codes, scale): (&[f32], &[u8], &[f32]) = (operands.input(0)?, operands.input(1)?, operands.input(2)?);
        let zero_point: Option<&[u8]> = if is_affine { Some(operands.input(3)?) } else { None };
        let bias: Option<&[f32]> = if layer.bias { Some(operands.input(3 + usize::from(is_affine))?) } else { None };
        let (n, out) = (scale.len(), operands.output::<f32>(0)?);
        if out.is_empty() || columns == 0 {
            return Ok(());
        }
        let m = x.len() / columns;
        if codes.len() != n * columns || out.len() != m * n || zero_point.is_some_and(|z| z.len() != n) || bias.is_some_and(|b| b.len() != n) {
            return Err(internal("a layer of codes whose operands do not fit"));
        }
        let weight = CodedWeight { codes, signed: !is_affine, scale, bias, columns, rows: n, from_zero_point: &[] };
        // What codes that were made signed are still away from their zero points.
        let by_lines = m <= MOST_LINE_ROWS;
        let base = if by_lines { 0 } else { 128 };
        let mut differences = filled(0i32, zero_point.map_or(0, <[u8]>::len))?;
        differences.iter_mut().zip(zero_point.unwrap_or_default()).for_each(|(to, &z)| *to = base - z as i32);
        let context = bytes::context(ByteIsa::of(runtime.isa));
        PackScratch::with(|scratch| {
            let stride = packed_stride(columns);
            // Signed codes need no sums of the weight's rows, but where bytes are not widened their products take a step more.
            let signed = symmetric && by_lines && (m <= FEW_ROWS || context.width == 2);
            let rows = CodedRows::new(runtime, x, columns, Coding { symmetric, by_lines, signed }, scratch.rows.take((m + 1) * stride)?)?;
            CodedProduct { runtime, context, weight: CodedWeight { from_zero_point: &differences, ..weight }, rows }.run(out)
        })
    }
}
/// How rows of x become codes.
#[derive(Clone, Copy)]
struct Coding {
    symmetric: bool,
    /// for a weight that is read by lines
    by_lines: bool,
    /// as signed bytes, else with 128 added; of those that are not symmetric, unsigned
    signed: bool,
}
/// What codes of a row stand for.
#[derive(Clone, Copy, Default)]
struct RowCode {
    scale: f32,
    zero: i32,
    /// `Σ (code - zero)`
    sum: i32,
}
/// The weight of the layer.
#[derive(Clone, Copy)]
struct CodedWeight<'a> {
    codes: &'a [u8],
    signed: bool,
    scale: &'a [f32],
    bias: Option<&'a [f32]>,
    columns: usize,
    rows: usize,
    /// of each row, where codes are affine
    from_zero_point: &'a [i32],
}
/// Codes of all rows of x, and a row of ones.
struct CodedRows<'a> {
    coding: Coding,
    bytes: &'a [u8],
    stride: usize,
    rows: SmallVec<[RowCode; 4]>,
}
impl<'a> CodedRows<'a> {
    fn new(runtime: &Runtime, x: &[f32], columns: usize, coding: Coding, bytes: &'a mut [u8]) -> Result<CodedRows<'a>, ErrorKind> {
        let (stride, m) = (packed_stride(columns), x.len() / columns);
        let mut rows = few(m)?;
        rows.resize(m, RowCode::default());
        let (codes, ones) = bytes.split_at_mut(m * stride);
        ones[..columns].fill(1);
        ones[columns..].fill(0);
        let some = (TASK / columns).max(1);
        let parts = rows.chunks_mut(some).zip(codes.chunks_mut(some * stride)).zip(x.chunks(some * columns));
        let threads = if x.len() <= TASK { Threads::alone() } else { &runtime.threads };
        threads.for_parts(parts, |_, ((rows, codes), x)| {
            for ((row, codes), x) in rows.iter_mut().zip(codes.chunks_mut(stride)).zip(x.chunks(columns)) {
                *row = dispatch(runtime.isa, RowOfCodes { x, coding, codes });
            }
        });
        Ok(CodedRows { coding, bytes, stride, rows })
    }
}
/// Turns a row into codes, and zeros behind them.
struct RowOfCodes<'a> {
    x: &'a [f32],
    coding: Coding,
    codes: &'a mut [u8],
}
/// Added to a number of less than 2^22, it rounds it to the nearest integer, ties to even, which the lowest bits then hold.
const ROUNDING: f32 = 12_582_912.0;
#[inline(always)]
fn rounded(v: f32) -> i32 {
    ((v + ROUNDING).to_bits() as i32).wrapping_sub(ROUNDING.to_bits() as i32)
}
/// Bits of floats as integers of the same order; a NaN is beyond all numbers.
#[inline(always)]
fn in_order(bits: i32) -> i32 {
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}
impl SimdKernel for RowOfCodes<'_> {
    type Output = RowCode;
    #[inline(always)]
    fn run<S: Simd>(self) -> RowCode {
        let RowOfCodes { x, coding, codes } = self;
        let (codes, behind) = codes.split_at_mut(x.len());
        behind.fill(0);
        let inverse = |largest: f32, steps: f32| if largest > SMALLEST_ROW { steps / largest } else { 0.0 };
        if coding.symmetric {
            // Magnitudes are in the order of their bits.
            let largest = f32::from_bits(x.iter().fold(0u32, |most, v| most.max(v.to_bits() & 0x7fff_ffff)));
            let inverse = inverse(largest, 127.0);
            let offset = if coding.signed { 0 } else { 128 };
            let row = RowCode { scale: largest / 127.0, zero: offset, sum: 0 };
            if !largest.is_finite() {
                codes.fill(offset as u8);
                return row;
            }
            let mut sum = 0i32;
            for (to, v) in codes.iter_mut().zip(x) {
                let code = rounded(v * inverse);
                sum = sum.wrapping_add(code);
                *to = (code + offset) as u8;
            }
            return RowCode { sum, ..row };
        }
        let bits = |v: &f32| in_order(v.to_bits() as i32);
        let (least, most) = x.iter().fold((0, 0), |(least, most): (i32, i32), v| (least.min(bits(v)), most.max(bits(v))));
        let (least, most) = (f32::from_bits(in_order(least) as u32), f32::from_bits(in_order(most) as u32));
        let range = most - least;
        let scale = range / 255.0;
        if !range.is_finite() {
            codes.fill(0);
            return RowCode { scale, zero: 0, sum: 0 };
        }
        let inverse = inverse(range, 255.0);
        let zero = rounded(-least * inverse);
        let mut sum = 0i32;
        for (to, v) in codes.iter_mut().zip(x) {
            let code = (rounded(v * inverse) + zero).clamp(0, 255);
            sum = sum.wrapping_add(code);
            *to = code as u8;
        }
        RowCode { scale, zero, sum: sum.wrapping_sub(zero.wrapping_mul(x.len() as i32)) }
    }
}

/// The product of codes, scaled.
struct CodedProduct<'a> {
    runtime: &'a Runtime,
    context: &'static ByteContext,
    weight: CodedWeight<'a>,
    rows: CodedRows<'a>,
}
impl CodedProduct<'_> {
    fn run(&self, out: &mut [f32]) -> Result<(), ErrorKind> {
        let (m, n, k) = (self.rows.rows.len(), self.weight.rows, self.weight.columns);
        let out = Block::new(out, m, n, n);
        let part = |scratch: &mut PackScratch, i: usize, j: usize, out: Block<'_, f32>| {
            if self.rows.coding.by_lines { self.by_lines(scratch, j, out) } else { self.by_blocks(scratch, i, j, out) }
        };
        let threads = &self.runtime.threads;
        if threads.count() == 1 || bytes::is_serial(m, m * n * k) {
            return PackScratch::with(|scratch| part(scratch, 0, 0, out));
        }
        let (rows, columns) = if self.rows.coding.by_lines {
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
        let (flip, factor) = a.flip(context, weight.signed);
        for j in (0..out.columns).step_by(STRETCH) {
            let columns = STRETCH.min(out.columns - j);
            let at = first + j;
            let sums = scratch.sums.take(all * columns)?;
            multiply_lines(context, k, &a, Strided { data: &weight.codes[at * k..], stride: k }, flip, columns, sums, columns);
            let (sums, ones) = sums.split_at_mut(m * columns);
            let of_ones = factor.wrapping_mul(k as i32);
            ones.iter_mut().for_each(|sum| *sum = sum.wrapping_add(of_ones));
            for (i, (sums, row)) in sums.chunks_exact_mut(columns).zip(&rows.rows).enumerate() {
                // Sums of codes themselves: those less the zero point, and as many zero points.
                let of_codes = row.sum.wrapping_add(row.zero.wrapping_mul(k as i32));
                let zeros = (row.zero != 0).then_some(&*ones);
                let out = out.row(i, j, columns);
                dispatch(self.runtime.isa, CodedSums { row, start: of_codes.wrapping_mul(factor), zeros, weight, at, sums, out });
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
        let lines = MatrixView { data: weight.codes, base: (first * k) as isize, row_stride: 1, column_stride: k as isize };
        let width = bytes::block_columns(m, k);
        for j in (0..out.columns).step_by(width) {
            let columns = width.min(out.columns - j);
            let blocks = scratch.blocks.take(columns.next_multiple_of(BLOCK) * k.next_multiple_of(QUAD))?;
            pack::pack_blocks(&lines, j, columns, k, if weight.signed { 0 } else { 0x80 }, blocks);
            let mut column_sums = filled(0i32, columns)?;
            bytes::sum_columns(context, blocks, k, &mut column_sums, &mut scratch.multiply)?;
            let b = ByteBlocks { blocks, column_sums: &column_sums, k, n: columns };
            bytes::multiply_blocks(context, a, b, 0..columns, &mut scratch.multiply, &mut |part: SumsPart<'_>| {
                for (i, sums) in part.sums.chunks_mut(part.stride).enumerate().take(part.rows) {
                    let (row, column) = (&codes[part.row + i], j + part.column);
                    let out = out.row(part.row + i, column, part.columns);
                    dispatch(self.runtime.isa, CodedSums { row, start: 0, zeros: None, weight, at: first + column, sums: &mut sums[..part.columns], out });
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
    weight: &'s CodedWeight<'s>,
    /// the first of the weight's rows
    at: usize,
    sums: &'s mut [i32],
    out: &'s mut [f32],
}
impl SimdKernel for CodedSums<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let CodedSums { row, start, zeros, weight, at, sums, out } = self;
        if let Some(zeros) = zeros {
            sums.iter_mut().zip(zeros).for_each(|(sum, &zero)| *sum = sum.wrapping_sub(row.zero.wrapping_mul(zero)));
        }
        if let Some(differences) = weight.from_zero_point.get(at..) {
            sums.iter_mut().zip(differences).for_each(|(sum, &difference)| *sum = sum.wrapping_add(row.sum.wrapping_mul(difference)));
        }
        let scaled = sums.iter().zip(&weight.scale[at..]).map(|(&sum, &scale)| sum.wrapping_add(start) as f32 * (row.scale * scale));
        match weight.bias {
            Some(bias) => out.iter_mut().zip(scaled.zip(&bias[at..])).for_each(|(to, (v, bias))| *to = v + bias),
            None => out.iter_mut().zip(scaled).for_each(|(to, v)| *to = v),
        }
    }
}
