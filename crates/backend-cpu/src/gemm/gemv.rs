//! A vector times a matrix: the same sums in the same order as a row of a larger product, without packing.
//!
//! One lane is one output, so that the bits are those of the tiles. A matrix by rows of k is read in the order of
//! memory; one by columns is transposed in registers.
//! Must not know what the product is for.

use super::context::{Accumulator, GemmContext, GemmScratch};
use super::micro::CHUNK;
use super::pack::{MatrixView, gather_vector};
use crate::scratch::filled;
use crate::threads::Threads;
use adamant_runtime::ErrorKind;

/// Outputs done at a time with B by rows: their running sums stay in L1.
const BLOCK: usize = 2048;

/// Whether [`gemv`] can read the matrix.
pub(crate) fn is_readable<T>(b: &MatrixView<'_, T>) -> bool {
    by_rows(b) || (b.row_stride == 1 && b.column_stride >= 0)
}

/// `out[j] = Σ x[p] · B[p][j]`, with x at `x_base` and `x_stride` in `x`. `k` is not zero.
///
/// # Errors
/// `OutOfMemory` for the packed vector.
#[allow(clippy::too_many_arguments)]
pub(crate) fn gemv<T: Accumulator>(
    context: &GemmContext<T>,
    k: usize,
    x: &[T],
    x_base: isize,
    x_stride: isize,
    b: &MatrixView<'_, T>,
    out: &mut [T],
    scratch: &mut GemmScratch<T>,
) -> Result<(), ErrorKind> {
    // A vector that lies side by side is read there.
    let x_packed = if x_stride == 1 {
        &x[x_base as usize..][..k]
    } else {
        let packed = scratch.a.take(k)?;
        gather_vector(x, x_base, x_stride, packed);
        packed
    };
    let first = |k: usize, j: usize| (b.base + k as isize * b.row_stride + j as isize * b.column_stride) as usize;
    if !by_rows(b) {
        context.vector_by_columns(x_packed, &b.data[first(0, 0)..], b.column_stride as usize, out);
        return Ok(());
    }
    for (index, out) in out.chunks_mut(BLOCK).enumerate() {
        let j = index * BLOCK;
        for k0 in (0..k).step_by(CHUNK) {
            let x = &x_packed[k0..k.min(k0 + CHUNK)];
            let data = &b.data[first(k0, j)..];
            if k0 == 0 {
                context.vector_by_rows(x, data, b.row_stride as usize, out);
            } else {
                let chunk = scratch.c.take(out.len())?;
                context.vector_by_rows(x, data, b.row_stride as usize, chunk);
                for (total, &sum) in out.iter_mut().zip(&*chunk) {
                    *total = total.add(sum);
                }
            }
        }
    }
    Ok(())
}

/// Is the matrix stored by rows of k?
pub(crate) fn by_rows<T>(b: &MatrixView<'_, T>) -> bool {
    b.column_stride == 1 && b.row_stride >= 0
}

/// As [`gemv`] with B by rows, the chunks shared out: each thread reads one stretch of memory from end to end.
///
/// # Errors
/// `OutOfMemory` for the sums of the chunks.
pub(crate) fn by_chunks<T: Accumulator>(
    context: &GemmContext<T>,
    threads: &Threads,
    k: usize,
    x: &MatrixView<'_, T>,
    b: &MatrixView<'_, T>,
    out: &mut [T],
) -> Result<(), ErrorKind> {
    let (n, chunks) = (out.len(), k.div_ceil(CHUNK));
    let mut sums = filled(T::default(), chunks * n)?;
    let share = chunks.div_ceil(threads.count());
    threads.try_for_chunks_mut(&mut sums, share * n, |task, sums| {
        T::with_scratch(|scratch| {
            for (index, out) in sums.chunks_mut(n).enumerate() {
                let k0 = (task * share + index) * CHUNK;
                let x_packed = scratch.a.take(CHUNK.min(k - k0))?;
                gather_vector(x.data, x.base + k0 as isize * x.column_stride, x.column_stride, x_packed);
                for (index, out) in out.chunks_mut(BLOCK).enumerate() {
                    let first = b.base + k0 as isize * b.row_stride + (index * BLOCK) as isize;
                    context.vector_by_rows(x_packed, &b.data[first as usize..], b.row_stride as usize, out);
                }
            }
            Ok::<(), ErrorKind>(())
        })
    })?;
    let (head, rest) = sums.split_at(n);
    out.copy_from_slice(head);
    for chunk in rest.chunks_exact(n) {
        for (total, &sum) in out.iter_mut().zip(chunk) {
            *total = total.add(sum);
        }
    }
    Ok(())
}
