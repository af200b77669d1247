//! Codes times codes whose weight has a scale for each group of columns, or fewer than 8 bits: bytes are unpacked for some rows and
//! columns of the weight at a time and multiplied by blocks. Each group's sums are exact; they are scaled in f32 and added by the
//! tree of reductions.
use super::{
    few,
    rows::{CodedRows, Coding, RowScale},
    weight::{CodedWeight, WeightPart},
};
use crate::{
    device::Runtime,
    gemm::{
        bytes::{
            self, ByteBlocks, ByteRows, PackScratch,
            groups::{self, CodedGroups, GroupScratch, GroupedBytes},
            micro::{BLOCK, ByteContext, QUAD},
            multiply_quads, packed_stride,
        },
        context::{Accumulator, AlignedBuffer},
        micro::Block,
    },
    isa::ByteIsa,
    reduce::{
        columns::ColumnTotals,
        tree::{self, ReducedElement, Sum},
    },
    scratch::{ScratchVec, collected, filled},
    simd::{Simd, SimdKernel, dispatch},
};
use adamant_runtime::{DType, ErrorKind};

/// Rows of x of a part.
const ROWS: usize = 48;
/// Results of a part: their lanes stay in the L2 cache.
const RESULTS: usize = 4096;
/// Columns of the weight that are unpacked at a time, or one group.
const STRIP: usize = 512;
/// Multiplications up to which a layer runs on the calling thread.
const SERIAL_WORK: usize = 1 << 18;

/// The product of codes, scaled group by group.
pub(super) struct GroupedProduct<'a> {
    runtime: &'a Runtime,
    context: &'static ByteContext,
    weight: &'a CodedWeight<'a>,
    rows: CodedRows<'a>,
    /// `Σ (code - zero)` of each row's groups
    sums: ScratchVec<i32>,
    /// the bytes that stand for zero in each row
    zeros: ScratchVec<i32>,
}
impl GroupedProduct<'_> {
    /// Into `[rows of x, rows of the weight]`.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn run(runtime: &Runtime, x: &[f32], by: RowScale, weight: &CodedWeight<'_>, out: &mut [f32]) -> Result<(), ErrorKind> {
        PackScratch::with(|scratch| GroupedProduct::by_parts(runtime, x, by, weight, &mut scratch.rows, out))
    }
    fn by_parts(runtime: &Runtime, x: &[f32], by: RowScale, weight: &CodedWeight<'_>, codes: &mut AlignedBuffer<u8>, out: &mut [f32]) -> Result<(), ErrorKind> {
        let context = bytes::context(ByteIsa::of(runtime.isa));
        let (n, k, size) = (weight.rows, weight.columns, weight.group());
        let m = x.len() / k;
        let rows = CodedRows::new(runtime, x, k, Coding { by, signed: false }, codes.take((m + 1) * packed_stride(k))?)?;
        let flip = if weight.signed() { 0x80 } else { 0 };
        let (isa, bits, base) = (ByteIsa::of(runtime.isa), weight.packing.bits as usize, weight.base_of_words());
        let of = CodedGroups::new(isa, weight.bytes, [weight.groups(), size], bits, flip, weight.stored_scales(), weight.zero_point, base);
        if let (Some(of), true) = (of, weight.groups() > 1) {
            return in_registers(runtime, &rows, weight, &of, out);
        }
        if few::takes(&weight.packing, weight.levels, k, m) {
            return few::of_codes(runtime, &rows, weight, out);
        }
        let (mut sums, mut zeros) = (filled(0i32, m * weight.groups())?, filled(0i32, m)?);
        let of_rows = rows.rows.iter().zip(rows.bytes.chunks_exact(rows.stride)).zip(sums.chunks_exact_mut(weight.groups()));
        for (((row, bytes), sums), zero) in of_rows.zip(zeros.iter_mut()) {
            *zero = row.zero;
            for (sum, codes) in sums.iter_mut().zip(bytes[..k].chunks_exact(size)) {
                *sum = codes.iter().map(|&code| i32::from(code)).sum::<i32>().wrapping_sub(row.zero.wrapping_mul(size as i32));
            }
        }
        let product = GroupedProduct { runtime, context, weight, rows, sums, zeros };
        let threads = &runtime.threads;
        let alone = threads.count() == 1 || m * n * k <= SERIAL_WORK;
        let most = if alone { n } else { n.div_ceil(2 * threads.count()) };
        let columns = (RESULTS / m.min(ROWS)).clamp(64, 256).min(most).next_multiple_of(BLOCK);
        let parts = Block::new(out, m, n, n).cut(ROWS, columns);
        let part = |(i, j, out): (usize, usize, Block<'_, f32>)| PackScratch::with(|scratch| product.part(scratch, i, j, out));
        if alone { { parts }.try_for_each(part) } else { threads.try_for_parts(parts, |_, at| part(at)) }
    }
    /// The rows of x from `first_row` on, and the weight's from `first` on.
    fn part(&self, scratch: &mut PackScratch, first_row: usize, first: usize, mut out: Block<'_, f32>) -> Result<(), ErrorKind> {
        let GroupedProduct { runtime, context, weight, rows, .. } = self;
        let (isa, m, n) = (runtime.isa, out.rows, out.columns);
        let (groups, size, k) = (weight.groups(), weight.group(), weight.columns);
        let mut scales = filled(0f32, n * groups)?;
        f32::context(isa).transpose(&weight.scale[first * groups..], groups, &mut scales, n, n, groups);
        let mut totals = ColumnTotals::<f32>::new(0.0, m * n, groups)?;
        let wide = n.next_multiple_of(BLOCK);
        let (mut terms, mut bases, mut column_sums) = (filled(0f32, m * n)?, filled(weight.base(first, 0), n)?, filled(0i32, wide)?);
        let (none, zeros) = (filled(0i32, m.max(n))?, &self.zeros[first_row..][..m]);
        let corrected = zeros.iter().any(|&zero| zero != 0);
        let PackScratch { rows: lines, blocks, sums, multiply, .. } = scratch;
        let (strip, slot) = ((STRIP / size).max(1) * size, size.div_ceil(QUAD));
        let ones = &rows.bytes[rows.rows.len() * rows.stride..];
        for column in (0..k).step_by(strip) {
            let part = WeightPart { row: first, rows: n, column, columns: strip.min(k - column), stretch: size };
            let blocks = part.pack(isa, weight, lines, blocks)?;
            for (index, g) in (column / size..(column + part.columns) / size).enumerate() {
                let quads = index * slot..(index + 1) * slot;
                let b = ByteBlocks { blocks, column_sums: &none, k: part.padded(), n };
                if corrected {
                    let row = ByteRows { bytes: ones, stride: rows.stride, rows: 1, starts: &[0], zeros: &[0] };
                    multiply_quads(context, row, ByteBlocks { column_sums: &none, ..b }, quads.clone(), &mut column_sums, multiply)?;
                }
                if weight.zero_point.is_some() {
                    bases.iter_mut().enumerate().for_each(|(j, base)| *base = weight.base(first + j, g));
                }
                let sums = sums.take(m * wide)?;
                let a = ByteRows { bytes: &rows.bytes[first_row * rows.stride + g * size..], stride: rows.stride, rows: m, starts: &none, zeros };
                multiply_quads(context, a, ByteBlocks { column_sums: &column_sums, ..b }, quads, sums, multiply)?;
                dispatch(isa, GroupTerms { product: self, first_row, group: g, sums, bases: &bases, scales: &scales[g * n..][..n], terms: &mut terms });
                if groups > 1 {
                    totals.add::<Sum>(isa, &terms, m * n);
                    if (g + 1).is_multiple_of(tree::BLOCK) || g + 1 == groups {
                        totals.end_block::<Sum>(isa);
                    }
                }
            }
        }
        let totals = totals.end::<Sum>();
        for (i, row) in rows.rows[first_row..][..m].iter().enumerate() {
            let (out, of_row) = (out.row(i, 0, n), i * n..(i + 1) * n);
            if groups == 1 {
                out.copy_from_slice(&terms[of_row]);
            } else {
                out.iter_mut().zip(&totals[of_row]).for_each(|(to, &total)| *to = <f32 as ReducedElement>::finish(total, DType::F32) * row.scale);
            }
            if let Some(bias) = weight.bias {
                out.iter_mut().zip(&bias[first..]).for_each(|(v, bias)| *v += bias);
            }
        }
        Ok(())
    }
}
/// Four rows of the weight at a time, whose groups are scaled as they are summed.
fn in_registers(runtime: &Runtime, x: &CodedRows<'_>, weight: &CodedWeight<'_>, of: &CodedGroups<'_>, out: &mut [f32]) -> Result<(), ErrorKind> {
    let (m, n, k, threads) = (x.rows.len(), weight.rows, weight.columns, &runtime.threads);
    let laid = GroupedBytes::new(of, x.bytes, x.stride, k, collected(m, x.rows.iter().map(|row| row.zero))?)?;
    let part = |first: usize, mut out: Block<'_, f32>| {
        GroupScratch::with(|scratch| {
            let mut totals = filled(0f32, m * groups::ROWS)?;
            for j in (0..out.columns).step_by(groups::ROWS) {
                groups::multiply_four(of, &laid, first + j, scratch, &mut totals)?;
                let columns = groups::ROWS.min(out.columns - j);
                for (i, (row, totals)) in x.rows.iter().zip(totals.chunks_exact(groups::ROWS)).enumerate() {
                    let to = out.row(i, j, columns);
                    to.iter_mut().zip(totals).for_each(|(to, total)| *to = total * row.scale);
                    if let Some(bias) = weight.bias {
                        to.iter_mut().zip(&bias[first + j..]).for_each(|(to, bias)| *to += bias);
                    }
                }
            }
            Ok(())
        })
    };
    let out = Block::new(out, m, n, n);
    if threads.count() == 1 || m * n * k <= SERIAL_WORK {
        return part(0, out);
    }
    let columns = n.div_ceil(4 * threads.count()).next_multiple_of(groups::ROWS);
    threads.try_for_parts(out.cut(m, columns), |_, (_, first, out)| part(first, out))
}
/// What a group adds to the results of a part, from its sums.
struct GroupTerms<'s> {
    product: &'s GroupedProduct<'s>,
    first_row: usize,
    group: usize,
    /// rows of whole blocks
    sums: &'s [i32],
    /// what codes of the weight count from
    bases: &'s [i32],
    scales: &'s [f32],
    terms: &'s mut [f32],
}
impl SimdKernel for GroupTerms<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let GroupTerms { product, first_row, group, sums, bases, scales, terms } = self;
        let groups = product.weight.groups();
        let n = scales.len();
        for (i, (sums, terms)) in sums.chunks(n.next_multiple_of(BLOCK)).zip(terms.chunks_mut(n)).enumerate() {
            let of_x = product.sums[(first_row + i) * groups + group];
            let exact = sums.iter().zip(bases).map(|(&all, &base)| all.wrapping_sub(of_x.wrapping_mul(base)) as f32);
            if groups == 1 {
                let step = product.rows.rows[first_row + i].scale;
                terms.iter_mut().zip(exact.zip(scales)).for_each(|(to, (sum, scale))| *to = sum * (step * scale));
            } else {
                terms.iter_mut().zip(exact.zip(scales)).for_each(|(to, (sum, scale))| *to = sum * scale);
            }
        }
    }
}
