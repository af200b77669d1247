//! Products that are added to or taken from part of a matrix, by the tiles of `gemm`: bits do not depend on how a matrix is
//! shared out among threads.
use super::vector::FactorElement;
use crate::{
    gemm::{
        context::GemmContext,
        driver::{PlainOutput, Size, multiply},
        micro::{A_STRIDE, Block},
        pack::{MatrixView, PackA},
    },
    isa::Isa,
};
use adamant_runtime::ErrorKind;

/// What becomes of a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Onto {
    /// `c = a b`
    Nothing,
    /// `c -= a b`
    Minus,
}
/// A matrix with its sign changed as it is packed.
struct Negated<'a, T>(MatrixView<'a, T>);
impl<T: FactorElement> PackA<T> for Negated<'_, T> {
    fn pack(&self, context: &GemmContext<T>, row: usize, rows: usize, k: usize, length: usize, target: &mut [T]) {
        PackA::pack(&self.0, context, row, rows, k, length, target);
        for row in target.chunks_mut(A_STRIDE).take(rows) {
            row[..length].iter_mut().for_each(|v| *v = -*v);
        }
    }
    fn tiles_together(&self) -> usize {
        PackA::tiles_together(&self.0)
    }
}
/// Rows of `columns` elements, `stride` elements from one to the next.
pub(super) fn rows_of<T>(data: &[T], from: usize, stride: usize) -> MatrixView<'_, T> {
    MatrixView { data, base: from as isize, row_stride: stride as isize, column_stride: 1 }
}
/// The product of `[c.rows, k]` and `[k, c.columns]` into a part of a matrix, on this thread.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn product<T: FactorElement>(isa: Isa, c: Block<'_, T>, k: usize, a: MatrixView<'_, T>, b: MatrixView<'_, T>, onto: Onto) -> Result<(), ErrorKind> {
    if k == 0 || c.rows == 0 || c.columns == 0 {
        return Ok(());
    }
    let size = Size { m: c.rows, n: c.columns, k };
    let mut out = PlainOutput { block: c, finish: |_: usize, _: usize, _: &mut [T]| Ok(()) };
    let (context, add) = (T::context(isa), onto != Onto::Nothing);
    T::with_scratch(|scratch| match onto {
        Onto::Minus => multiply(context, size, &Negated(a), &b, &mut out, add, &mut scratch.a, &mut scratch.b),
        _ => multiply(context, size, &a, &b, &mut out, add, &mut scratch.a, &mut scratch.b),
    })
}
