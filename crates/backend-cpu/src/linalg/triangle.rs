//! Triangular systems: columns of the right side are shared out among threads, and each thread solves its own from the first block
//! of rows to the last. What earlier blocks have to do with a block is one product; inside a block rows follow each other.
use super::{
    Crew,
    product::{Onto, product, rows_of},
    vector::FactorElement,
};
use crate::{
    gemm::{micro::Block, pack::MatrixView},
    scratch::filled,
    simd::{Arithmetic, Float, Simd, SimdKernel, dispatch},
};
use adamant_runtime::ErrorKind;

/// Rows of a block.
const ROWS: usize = 64;
/// Widths are multiples of this: no vector is longer.
pub(super) const WIDE: usize = 16;
/// The most columns of a right side that are solved together: they stay in a cache.
const TOGETHER: usize = 192;

/// Which triangle of a matrix counts, and whether its diagonal counts as ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Triangle {
    pub upper: bool,
    pub unit: bool,
}

/// Solves a block of rows of `width` elements by a triangle, of which element (i, p) stands at `i * steps[0] + p * steps[1]`.
pub(super) struct Substitute<'a, T> {
    pub of: Triangle,
    pub a: &'a [T],
    pub steps: [usize; 2],
    pub x: &'a mut [T],
    /// a multiple of [`WIDE`]
    pub width: usize,
}
impl<T: FactorElement> SimdKernel for Substitute<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let lanes = <T::V<S> as Float>::LANES;
        let mut c = 0;
        while c + 4 * lanes <= self.width {
            self.strip::<S, 4>(c);
            c += 4 * lanes;
        }
        while c < self.width {
            self.strip::<S, 1>(c);
            c += lanes;
        }
    }
}
impl<T: FactorElement> Substitute<'_, T> {
    /// As many vectors of each row, from a column on.
    #[inline(always)]
    fn strip<S: Simd, const N: usize>(&mut self, c: usize) {
        let lanes = <T::V<S> as Float>::LANES;
        let (width, n) = (self.width, self.x.len() / self.width);
        for step in 0..n {
            let i = if self.of.upper { n - 1 - step } else { step };
            let known = if self.of.upper { i + 1..n } else { 0..i };
            let mut sums = [T::V::<S>::splat(T::ZERO); N];
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = T::V::<S>::from_slice(&self.x[i * width + c + v * lanes..]);
            }
            for p in known {
                let factor = T::V::<S>::splat(-self.a[i * self.steps[0] + p * self.steps[1]]);
                let row = &self.x[p * width + c..][..N * lanes];
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = factor.mul_add(T::V::<S>::from_slice(&row[v * lanes..]), *sum);
                }
            }
            let diagonal = T::V::<S>::splat(if self.of.unit { T::ONE } else { self.a[i * (self.steps[0] + self.steps[1])] });
            for (v, sum) in sums.iter().enumerate() {
                let solved = if self.of.unit { *sum } else { sum.div(diagonal) };
                solved.write(&mut self.x[i * width + c + v * lanes..]);
            }
        }
    }
}

/// Solves for rows of `width` elements in place, on this thread; `width` is a multiple of [`WIDE`].
///
/// # Errors
/// `OutOfMemory`.
fn solve_rows<T: FactorElement>(crew: Crew<'_>, n: usize, a: MatrixView<'_, T>, of: Triangle, x: &mut [T], width: usize) -> Result<(), ErrorKind> {
    let blocks = n.div_ceil(ROWS);
    for step in 0..blocks {
        let block = if of.upper { blocks - 1 - step } else { step };
        let (from, to) = (block * ROWS, n.min(block * ROWS + ROWS));
        let (before, rest) = x.split_at_mut(from * width);
        let (own, after) = rest.split_at_mut((to - from) * width);
        let part = |row: usize, column: usize| MatrixView { base: a.base + row as isize * a.row_stride + column as isize * a.column_stride, ..a };
        let (known, k, column): (&[T], _, _) = if of.upper { (after, n - to, to) } else { (before, from, 0) };
        product(crew.isa, Block::new(own, to - from, width, width), k, part(from, column), rows_of(known, 0, width), Onto::Minus)?;
        let corner = part(from, from);
        let (a, steps) = (&corner.data[corner.base as usize..], [corner.row_stride as usize, corner.column_stride as usize]);
        dispatch(crew.isa, Substitute { of, a, steps, x: own, width });
    }
    Ok(())
}

/// x with `t[0]⁻¹ .. b` for triangles of one matrix, in this order; row i of the right side is row `order(i)` of b, which holds rows
/// of `columns` elements, as `out` does.
///
/// # Errors
/// `OutOfMemory`.
#[allow(clippy::too_many_arguments)]
pub(super) fn solve<T: FactorElement>(
    crew: Crew<'_>,
    n: usize,
    a: MatrixView<'_, T>,
    triangles: &[Triangle],
    columns: usize,
    right: impl Fn(usize, usize, &mut [T]) + Sync,
    out: &mut [T],
) -> Result<(), ErrorKind> {
    let fair = columns.div_ceil(crew.threads.count()).next_multiple_of(WIDE);
    let width = if n * n * columns < super::ALONE { columns.next_multiple_of(WIDE) } else { fair }.min(TOGETHER);
    let parts = Block::new(out, n, columns, columns).cut(n, width);
    crew.threads.try_for_parts(parts, |_, (_, from, mut part)| {
        let columns = part.columns;
        let wide = columns.next_multiple_of(WIDE);
        let mut x = filled(T::ZERO, n * wide)?;
        for (i, x) in x.chunks_exact_mut(wide).enumerate() {
            right(i, from, &mut x[..columns]);
        }
        for of in triangles {
            solve_rows(crew, n, a, *of, &mut x, wide)?;
        }
        for (i, x) in x.chunks_exact(wide).enumerate() {
            part.row(i, 0, columns).copy_from_slice(&x[..columns]);
        }
        Ok(())
    })
}
