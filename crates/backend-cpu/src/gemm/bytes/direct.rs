//! A few rows times a matrix of bytes that is read as it lies, at the speed of the memory: by lines in which K is contiguous, or
//! by rows in which the columns are.
//!
//! Where elements of A take a byte, that operand is packed as signed which is, and B is the other: no sums of columns are needed.
//! Must not know what the product is for.

use super::super::context::AlignedBuffer;
use super::micro::{ByteContext, DIRECT_ROWS, QUAD, Strided};
use super::{BytePart, PackScratch, SumsPart, pack, packed_stride};
use crate::scratch::filled;
use adamant_runtime::ErrorKind;

/// Columns whose sums are kept at a time: they stay in L1.
const STRETCH: usize = 2048;
/// Bytes of lines that all rows are multiplied with before the next.
const LINES_BYTES: usize = 8 << 10;
/// Rows from which on packing pays.
pub(crate) const MOST_LINE_ROWS: usize = 32;

/// Rows of A for products with a B that lies as it does, with zeros behind them.
#[derive(Clone, Copy)]
pub(crate) struct LineRows<'a> {
    pub(crate) a: Strided<'a, u8>,
    pub(crate) rows: usize,
    pub(crate) signed: bool,
}
impl<'a> LineRows<'a> {
    /// Of packed bytes, [`packed_stride`] apart and with zeros behind `k`; widened where the set needs it.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn new(
        context: &ByteContext,
        bytes: &'a [u8],
        rows: usize,
        k: usize,
        signed: bool,
        buffer: &'a mut AlignedBuffer<u8>,
    ) -> Result<LineRows<'a>, ErrorKind> {
        let stride = packed_stride(k);
        if context.width == 1 {
            return Ok(LineRows { a: Strided { data: bytes, stride }, rows, signed });
        }
        let target = buffer.take(2 * rows * stride)?;
        pack::widen(&bytes[..rows * stride], signed, target);
        Ok(LineRows { a: Strided { data: target, stride: 2 * stride }, rows, signed })
    }
    /// What B's bytes are xored with, and what the sum of a row of A is then multiplied by and added to the sums.
    pub(crate) fn flip(&self, context: &ByteContext, b_signed: bool) -> (u8, i32) {
        match (self.signed && context.width == 1, b_signed) {
            (true, true) => (0x80, -128),
            (false, false) => (0x80, 128),
            _ => (0, 0),
        }
    }
    /// The rows from `first` on.
    fn from(&self, first: usize) -> Strided<'a, u8> {
        Strided { data: &self.a.data[first * self.a.stride..], stride: self.a.stride }
    }
}

/// `sums[i][j] = Σ a[i][k] b[j][k]`, without corrections, of `columns` lines of `k` bytes.
#[allow(clippy::too_many_arguments)]
pub(crate) fn multiply_lines(context: &ByteContext, k: usize, a: &LineRows<'_>, b: Strided<'_, u8>, flip: u8, columns: usize, sums: &mut [i32], stride: usize) {
    let some = if a.rows <= context.line_rows { columns } else { (LINES_BYTES / k.max(1) / 4 * 4).max(4) };
    for j in (0..columns).step_by(some.max(1)) {
        let count = some.min(columns - j);
        let lines = Strided { data: &b.data[j * b.stride..], stride: b.stride };
        // Groups of rows that differ by one at most.
        let groups = a.rows.div_ceil(context.line_rows);
        for group in 0..groups {
            let i = a.rows * group / groups;
            let rows = a.rows * (group + 1) / groups - i;
            context.lines(a.signed, k, a.from(i), rows, lines, flip, count, &mut sums[i * stride + j..], stride);
        }
    }
}

/// Computes a part of few rows, if B can be read. How many of the columns were done.
///
/// # Errors
/// `OutOfMemory`; what is done with the sums.
pub(super) fn multiply(part: &mut BytePart<'_>, scratch: &mut PackScratch) -> Result<usize, ErrorKind> {
    let ([m, n], k, context) = (part.size(), part.k, part.context);
    let view = part.b.view;
    let by_lines = view.row_stride == 1 && view.column_stride >= 0 && m <= MOST_LINE_ROWS;
    let by_rows = !by_lines && view.column_stride == 1 && view.row_stride >= 0 && m <= DIRECT_ROWS;
    let done = if by_lines { n } else { n / context.woven() * context.woven() };
    if !(by_lines || by_rows) || done == 0 {
        return Ok(0);
    }
    let PackScratch { rows: buffer, widened, sums, .. } = scratch;
    let stride = packed_stride(k);
    let bytes = buffer.take(m * stride)?;
    pack::pack_rows(&part.a.view, 0, m, k, 0, bytes, stride);
    let signed = part.a.is_signed;
    let a = LineRows::new(context, bytes, m, k, signed, widened)?;
    let (flip, factor) = a.flip(context, part.b.is_signed);
    for j in (0..done).step_by(STRETCH) {
        let columns = STRETCH.min(done - j);
        let sums = sums.take(2 * m * columns)?;
        let (first, second) = sums.split_at_mut(m * columns);
        let data = &view.data[view.index(0, j)..];
        let sums = if by_lines {
            multiply_lines(context, k, &a, Strided { data, stride: view.column_stride as usize }, flip, columns, first, columns);
            first
        } else {
            let b = Strided { data, stride: view.row_stride as usize };
            multiply_streams(context, k, &a, b, flip, columns, first, second)?;
            second
        };
        for (row, sums) in sums.chunks_exact_mut(columns).enumerate() {
            if factor != 0 {
                let start = pack::row_sum(&bytes[row * stride..][..k], signed).wrapping_mul(factor);
                sums.iter_mut().for_each(|sum| *sum = sum.wrapping_add(start));
            }
            part.out.hand_on(SumsPart { row, column: j, rows: 1, columns, sums, stride: columns })?;
        }
    }
    Ok(done)
}
/// Sums of rows with rows of B, into `ordered`.
#[allow(clippy::too_many_arguments)]
fn multiply_streams(
    context: &ByteContext,
    k: usize,
    rows: &LineRows<'_>,
    b: Strided<'_, u8>,
    flip: u8,
    columns: usize,
    sums: &mut [i32],
    ordered: &mut [i32],
) -> Result<(), ErrorKind> {
    let LineRows { a, rows, signed } = *rows;
    let whole = k / QUAD * QUAD;
    context.streams(signed, whole, a, rows, b, flip, columns, sums);
    if whole == 0 {
        sums.fill(0);
    }
    if whole < k {
        // A has zeros where the last quad has no row.
        let mut last = filled(0u8, QUAD * columns)?;
        for (p, last) in (whole..k).zip(last.chunks_exact_mut(columns)) {
            last.copy_from_slice(&b.data[p * b.stride..][..columns]);
        }
        let of_last = Strided { data: &a.data[whole * context.width..], stride: a.stride };
        context.streams(signed, QUAD, of_last, rows, Strided { data: &last, stride: columns }, flip, columns, ordered);
        sums.iter_mut().zip(&*ordered).for_each(|(sum, &more)| *sum = sum.wrapping_add(more));
    }
    for (sums, to) in sums.chunks_exact(columns).zip(ordered.chunks_exact_mut(columns)) {
        for (four, to) in to.chunks_exact_mut(QUAD).enumerate() {
            to.copy_from_slice(&sums[context.ordered(four * QUAD)..][..QUAD]);
        }
    }
    Ok(())
}
