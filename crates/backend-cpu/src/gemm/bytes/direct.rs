//! A few rows times a matrix of bytes that is read as it lies, at the speed of the memory: by lines in which K is contiguous, or
//! by rows in which the columns are.
//!
//! A signed A has a row of ones beneath it, whose sums are those of B's columns. Must not know what the product is for.

use super::micro::{DIRECT_ROWS, LINE, QUAD, Strided};
use super::{BytePart, PackScratch, PackedRows, SumsPart, pack};
use crate::scratch::filled;
use adamant_runtime::ErrorKind;

/// Columns whose sums are kept at a time: they stay in L1.
const STRETCH: usize = 2048;

/// Computes a part of fewer rows than [`DIRECT_ROWS`], if B can be read. How many of the columns were done.
///
/// # Errors
/// `OutOfMemory`; what is done with the sums.
pub(super) fn multiply(part: &mut BytePart<'_>, scratch: &mut PackScratch) -> Result<usize, ErrorKind> {
    let ([m, n], k, context) = (part.size(), part.k, part.context);
    let view = part.b.view;
    let by_lines = view.row_stride == 1 && view.column_stride >= 0;
    let by_rows = !by_lines && view.column_stride == 1 && view.row_stride >= 0;
    let done = if by_lines { n } else { n / context.woven() * context.woven() };
    if !(by_lines || by_rows) || done == 0 || m >= DIRECT_ROWS {
        return Ok(0);
    }
    let PackScratch { rows: buffer, blocks: widened, sums, .. } = scratch;
    let has_ones = part.a.is_signed;
    let rows = m + usize::from(has_ones);
    let stride = k.next_multiple_of(LINE) + LINE;
    let packed = PackedRows::new(part, 0, m, rows, buffer)?;
    let (starts, zeros) = (packed.starts, packed.zeros);
    let bytes = packed.bytes;
    let a = if context.width == 2 {
        let target = bytemuck::cast_slice_mut(widened.take(2 * rows * stride)?);
        pack::widen(bytes, target);
        Strided { data: &*target, stride: 2 * stride }
    } else {
        Strided { data: bytes, stride }
    };
    let flip = part.b.flip(true);
    let mut last = filled(0u8, if by_rows && !k.is_multiple_of(QUAD) { QUAD * STRETCH.min(done) } else { 0 })?;
    for j in (0..done).step_by(STRETCH) {
        let columns = STRETCH.min(done - j);
        let sums = sums.take(3 * rows * columns)?;
        let (raw, rest) = sums.split_at_mut(rows * columns);
        let (more, ordered) = rest.split_at_mut(rows * columns);
        if by_lines {
            let b = Strided { data: &view.data[view.index(0, j)..], stride: view.column_stride as usize };
            context.lines(k, a, rows, b, flip, raw, columns);
        } else {
            let whole = k / QUAD * QUAD;
            raw.fill(0);
            context.streams(whole, a, rows, Strided { data: &view.data[view.index(0, j)..], stride: view.row_stride as usize }, flip, raw, columns);
            if whole < k {
                for (p, last) in (whole..k).zip(last.chunks_exact_mut(columns)) {
                    last.copy_from_slice(&view.data[view.index(p, j)..][..columns]);
                }
                let of_rest = Strided { data: &a.data[whole * context.width..], stride: a.stride };
                context.streams(QUAD, of_rest, rows, Strided { data: &last, stride: columns }, flip, more, columns);
                raw.iter_mut().zip(&*more).for_each(|(sum, &more)| *sum = sum.wrapping_add(more));
            }
        }
        let raw = if by_lines {
            raw
        } else {
            for (raw, to) in raw.chunks_exact(columns).zip(ordered.chunks_exact_mut(columns)) {
                for (column, to) in to.chunks_exact_mut(QUAD).enumerate() {
                    to.copy_from_slice(&raw[context.ordered(column * QUAD)..][..QUAD]);
                }
            }
            ordered
        };
        let (raw, ones) = raw.split_at_mut(m * columns);
        for (row, sums) in raw.chunks_exact_mut(columns).enumerate() {
            let (start, zero) = (starts[row], zeros[row]);
            if has_ones {
                sums.iter_mut().zip(&*ones).for_each(|(sum, &of_column)| *sum = sum.wrapping_add(start).wrapping_sub(zero.wrapping_mul(of_column)));
            } else if start != 0 {
                sums.iter_mut().for_each(|sum| *sum = sum.wrapping_add(start));
            }
            part.out.hand_on(SumsPart { row, column: j, rows: 1, columns, sums, stride: columns })?;
        }
    }
    Ok(done)
}
