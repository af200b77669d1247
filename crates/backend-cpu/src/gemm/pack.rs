//! Brings pieces of A and B into the layouts that the tiles read, widening half precision on the way.
//!
//! Must not know block sizes, threads or C. A convolution brings packers of its own (the image gathered in place of a
//! matrix) through the same two traits.

use super::context::{GemmContext, MatrixElement};
use super::micro::{A_STRIDE, CHUNK};
use half::bf16;

/// A source of rows of A.
pub(crate) trait PackA<T> {
    /// `target[r * A_STRIDE + p] = A[row + r][k + p]`.
    fn pack(&self, context: &GemmContext<T>, row: usize, rows: usize, k: usize, length: usize, target: &mut [T]);

    /// How many tiles are best packed together.
    fn tiles_together(&self) -> usize {
        1
    }
}

/// A source of columns of B.
pub(crate) trait PackB<T> {
    /// `target[p * context.columns() + c] = B[k + p][column + c]`.
    fn pack(&self, context: &GemmContext<T>, column: usize, columns: usize, k: usize, length: usize, target: &mut [T]);

    /// How many steps of k of all panels are best packed before the next.
    fn depth(&self) -> usize {
        CHUNK
    }

    /// B where it lies, from (k, column) on, with the stride of its rows; if those are contiguous.
    fn in_place(&self, _column: usize, _k: usize) -> Option<(&[T], usize)> {
        None
    }
}

/// A matrix with any strides, inside a slice. Whoever makes one has checked that every element is inside.
#[derive(Clone, Copy)]
pub(crate) struct MatrixView<'a, E> {
    pub(crate) data: &'a [E],
    pub(crate) base: isize,
    pub(crate) row_stride: isize,
    pub(crate) column_stride: isize,
}

impl<E> MatrixView<'_, E> {
    /// Where an element is in the slice.
    #[inline(always)]
    pub(crate) fn index(&self, row: usize, column: usize) -> usize {
        (self.base + row as isize * self.row_stride + column as isize * self.column_stride) as usize
    }
}
impl<'a, E: MatrixElement> MatrixView<'a, E> {
    /// The same matrix, if its elements are bf16.
    pub(crate) fn as_bf16(&self) -> Option<MatrixView<'a, bf16>> {
        let MatrixView { base, row_stride, column_stride, .. } = *self;
        Some(MatrixView { data: E::as_bf16(self.data)?, base, row_stride, column_stride })
    }

    pub(crate) fn transposed(self) -> Self {
        MatrixView { row_stride: self.column_stride, column_stride: self.row_stride, ..self }
    }

    /// `target[r * target_stride + c] = self[row + r][column + c]`, widened.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn gather(
        &self,
        context: &GemmContext<E::Acc>,
        row: usize,
        rows: usize,
        column: usize,
        columns: usize,
        target: &mut [E::Acc],
        target_stride: usize,
    ) {
        if rows == 0 || columns == 0 {
            return;
        }
        let first = self.index(row, column);
        if self.column_stride == 1 && self.row_stride >= 0 {
            let stride = self.row_stride as usize;
            match E::as_acc(self.data) {
                Some(data) => context.copy(&data[first..], stride, target, target_stride, rows, columns),
                None => {
                    for r in 0..rows {
                        let source = &self.data[first + r * stride..][..columns];
                        E::widen(source, &mut target[r * target_stride..][..columns]);
                    }
                }
            }
        } else if self.row_stride == 1 && self.column_stride >= 0 {
            let stride = self.column_stride as usize;
            match E::as_acc(self.data) {
                Some(data) => context.transpose(&data[first..], stride, target, target_stride, columns, rows),
                None => {
                    let line = |c: usize, r: usize, out: &mut [E::Acc]| E::widen(&self.data[first + c * stride + r..][..out.len()], out);
                    transpose_made(context, [columns, rows], line, target, target_stride);
                }
            }
        } else {
            for r in 0..rows {
                for c in 0..columns {
                    let source = &self.data[self.index(row + r, column + c)..][..1];
                    E::widen(source, &mut target[r * target_stride + c..][..1]);
                }
            }
        }
    }
}

/// `target[c * stride + r]` of `rows` by `columns` numbers that are made while they are packed: `line(r, c, out)` makes those of
/// row r from column c on. Blocks of them are transposed in registers.
#[inline(always)]
pub(crate) fn transpose_made<T: Copy + Default>(
    context: &GemmContext<T>,
    [rows, columns]: [usize; 2],
    line: impl Fn(usize, usize, &mut [T]),
    target: &mut [T],
    stride: usize,
) {
    const SIDE: usize = 32;
    let mut block = [T::default(); SIDE * SIDE];
    for r in (0..rows).step_by(SIDE) {
        let high = SIDE.min(rows - r);
        for c in (0..columns).step_by(SIDE) {
            let wide = SIDE.min(columns - c);
            for (row, out) in block.chunks_exact_mut(SIDE).enumerate().take(high) {
                line(r + row, c, &mut out[..wide]);
            }
            context.transpose(&block, SIDE, &mut target[c * stride + r..], stride, high, wide);
        }
    }
}

impl<E: MatrixElement> PackA<E::Acc> for MatrixView<'_, E> {
    fn pack(&self, context: &GemmContext<E::Acc>, row: usize, rows: usize, k: usize, length: usize, target: &mut [E::Acc]) {
        self.gather(context, row, rows, k, length, target, A_STRIDE);
    }

    /// A line of an A stored by columns has elements of several tiles.
    fn tiles_together(&self) -> usize {
        if self.row_stride == 1 && self.column_stride != 1 { 4 } else { 1 }
    }
}

impl<E: MatrixElement> PackB<E::Acc> for MatrixView<'_, E> {
    fn pack(&self, context: &GemmContext<E::Acc>, column: usize, columns: usize, k: usize, length: usize, target: &mut [E::Acc]) {
        self.gather(context, k, length, column, columns, target, context.columns());
    }

    /// A row of k lies in one page, and is soon read to its end.
    fn depth(&self) -> usize {
        if self.column_stride == 1 { 16 } else { CHUNK }
    }

    fn in_place(&self, column: usize, k: usize) -> Option<(&[E::Acc], usize)> {
        if self.column_stride != 1 || self.row_stride < 0 {
            return None;
        }
        let data = E::as_acc(self.data)?;
        Some((&data[self.index(k, column)..], self.row_stride as usize))
    }
}

/// Copies a strided vector into contiguous memory.
pub(crate) fn gather_vector<E: Copy>(data: &[E], base: isize, stride: isize, target: &mut [E]) {
    for (i, value) in target.iter_mut().enumerate() {
        *value = data[(base + i as isize * stride) as usize];
    }
}
