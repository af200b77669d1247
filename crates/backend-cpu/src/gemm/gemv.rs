//! A vector times a matrix: the same sums in the same order as a row of a larger product, without packing.
//!
//! One lane is one output, so that the bits are those of the tiles. A matrix by rows of k is read in the order of
//! memory; one by columns is turned in registers.
//! Must not know threads.

use super::context::{Accumulator, Context, Scratch};
use super::micro::CHUNK;
use super::pack::{View, gather_vector};

/// Outputs done at a time: with B by rows, their running sums stay in L1; with B by columns, few rows stream at once.
const BLOCK_BY_ROWS: usize = 2048;
const BLOCK_BY_COLUMNS: usize = 64;

/// Whether [`gemv`] can read the matrix.
pub(crate) fn is_readable<T>(b: &View<'_, T>) -> bool {
    (b.column_stride == 1 && b.row_stride >= 0) || (b.row_stride == 1 && b.column_stride >= 0)
}

/// `out[j] = Σ x[p] · B[p][j]`, with x at `x_base` and `x_stride` in `x`. `k` is not zero.
#[allow(clippy::too_many_arguments)]
pub(crate) fn gemv<T: Accumulator>(
    context: &Context<T>,
    k: usize,
    x: &[T],
    x_base: isize,
    x_stride: isize,
    b: &View<'_, T>,
    out: &mut [T],
    add: impl Fn(T, T) -> T,
    scratch: &mut Scratch<T>,
) {
    let x_packed = scratch.a.take(k);
    gather_vector(x, x_base, x_stride, x_packed);
    let by_rows = b.column_stride == 1 && b.row_stride >= 0;
    let block = if by_rows { BLOCK_BY_ROWS } else { BLOCK_BY_COLUMNS };
    for (index, out) in out.chunks_mut(block).enumerate() {
        let j = index * block;
        for k0 in (0..k).step_by(CHUNK) {
            let x = &x_packed[k0..k.min(k0 + CHUNK)];
            let first = (b.base + k0 as isize * b.row_stride + j as isize * b.column_stride) as usize;
            let data = &b.data[first..];
            let run = |out: &mut [T]| {
                if by_rows {
                    context.vector_by_rows(x, data, b.row_stride as usize, out);
                } else {
                    context.vector_by_columns(x, data, b.column_stride as usize, out);
                }
            };
            if k0 == 0 {
                run(out);
            } else {
                let chunk = scratch.c.take(out.len());
                run(chunk);
                for (total, &sum) in out.iter_mut().zip(&*chunk) {
                    *total = add(*total, sum);
                }
            }
        }
    }
}
