//! L U with row pivots of a matrix that is stored by columns. A panel of columns is factored by one thread, each of its columns by
//! those before it; what the panel has to do with the columns behind it is one product, shared out by columns.
//!
//! Inside a panel products are rounded before they are subtracted, as on the host: of a matrix of small whole numbers that is
//! singular the pivot is exactly zero.
use super::{
    Crew,
    product::{Onto, product, rows_of},
    triangle::{Substitute, Triangle, WIDE, solve},
    vector::FactorElement,
};
use crate::{
    gemm::{micro::Block, pack::MatrixView},
    scratch::{collected, filled},
    simd::{Arithmetic, Float, Simd, SimdKernel, dispatch},
};
use adamant_runtime::ErrorKind;

/// Columns of a panel.
const PANEL: usize = 32;

/// Both factors in place of a matrix of `rows` rows stored by columns, and which row changed places with each of the first rows.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn lu<T: FactorElement>(crew: Crew<'_>, rows: usize, a: &mut [T], pivots: &mut [usize]) -> Result<(), ErrorKind> {
    let columns = a.len() / rows;
    for first in (0..pivots.len()).step_by(PANEL) {
        let last = pivots.len().min(first + PANEL);
        let (panel, behind) = a[first * rows..].split_at_mut((last - first) * rows);
        let swaps = &mut pivots[first..last];
        dispatch(crew.isa, Panel { rows, first, columns: panel, pivots: swaps });
        let (panel, swaps) = (&*panel, &*swaps);
        let width = crew.share(columns - last, (rows - first) * (last - first), 8);
        crew.for_lines(behind, rows, width, |_, c| eliminate(crew, rows, first, panel, swaps, c))?;
    }
    // The columns of a panel have yet to follow the pivots of later ones.
    let pivots = &*pivots;
    let lower = a[..pivots.len().saturating_sub(1) / PANEL * PANEL * rows].chunks_exact_mut(rows).enumerate();
    for (j, column) in lower {
        let later = (j / PANEL + 1) * PANEL;
        (later..pivots.len()).for_each(|k| column.swap(k, pivots[k]));
    }
    Ok(())
}
/// Takes a panel out of columns behind it.
fn eliminate<T: FactorElement>(crew: Crew<'_>, rows: usize, first: usize, panel: &[T], pivots: &[usize], c: &mut [T]) -> Result<(), ErrorKind> {
    let (n, width) = (c.len() / rows, pivots.len());
    let last = first + width;
    for column in c.chunks_exact_mut(rows) {
        pivots.iter().enumerate().for_each(|(k, &pivot)| column.swap(first + k, pivot));
    }
    // Rows of the upper factor, as the columns of the panel solve for them.
    let wide = n.next_multiple_of(WIDE);
    let mut upper = filled(T::ZERO, width * wide)?;
    let context = T::context(crew.isa);
    context.transpose(&c[first..], rows, &mut upper, wide, n, width);
    let of = Triangle { upper: false, unit: true };
    dispatch(crew.isa, Substitute { of, a: &panel[first..], steps: [1, rows], x: &mut upper, width: wide });
    context.transpose(&upper, wide, &mut c[first..], rows, width, n);
    let left = MatrixView { data: &upper[..], base: 0, row_stride: 1, column_stride: wide as isize };
    product(crew.isa, Block::new(&mut c[last..], n, rows - last, rows), width, left, rows_of(panel, last, rows), Onto::Minus)
}

/// `y -= a x`, each product rounded.
#[inline(always)]
fn take_scaled<T: FactorElement>(y: &mut [T], a: T, x: &[T]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = *y - a * *x;
    }
}

/// A panel, from row `first` on. Its columns lie side by side.
struct Panel<'a, T> {
    rows: usize,
    first: usize,
    columns: &'a mut [T],
    pivots: &'a mut [usize],
}
impl<T: FactorElement> SimdKernel for Panel<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Panel { rows, first, columns, pivots } = self;
        for j in 0..columns.len() / rows {
            let (before, own) = columns.split_at_mut(j * rows);
            let own = &mut own[first..rows];
            for k in 0..j {
                own.swap(k, pivots[k] - first);
            }
            for k in 0..j {
                let (upper, lower) = own.split_at_mut(k + 1);
                take_scaled(&mut lower[..j - k - 1], upper[k], &before[k * rows + first + k + 1..][..j - k - 1]);
            }
            let (upper, lower) = own.split_at_mut(j);
            gather_out::<T, S>(lower, upper, before, rows, first + j);
            let pivot = j + T::largest(lower);
            pivots[j] = pivot + first;
            own.swap(j, pivot);
            let top = own[j];
            if top != T::ZERO {
                for v in &mut own[j + 1..] {
                    *v = *v / top;
                }
            }
            for column in before.chunks_exact_mut(rows) {
                column.swap(first + j, first + pivot);
            }
        }
    }
}
/// Takes `factors[k]` times column k, from a row on, out of a column: in registers from the first product to the last.
#[inline(always)]
fn gather_out<T: FactorElement, S: Simd>(own: &mut [T], factors: &[T], columns: &[T], rows: usize, from: usize) {
    let lanes = <T::V<S> as Float>::LANES;
    let n = own.len();
    let mut at = 0;
    while at + 4 * lanes <= n {
        let mut sums = [T::V::<S>::splat(T::ZERO); 4];
        for (v, sum) in sums.iter_mut().enumerate() {
            *sum = T::V::<S>::from_slice(&own[at + v * lanes..]);
        }
        for (k, factor) in factors.iter().enumerate() {
            let (factor, x) = (T::V::<S>::splat(*factor), &columns[k * rows + from + at..][..4 * lanes]);
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = sum.sub(factor.mul(T::V::<S>::from_slice(&x[v * lanes..])));
            }
        }
        for (v, sum) in sums.iter().enumerate() {
            sum.write(&mut own[at + v * lanes..]);
        }
        at += 4 * lanes;
    }
    while at < n {
        let count = lanes.min(n - at);
        let mut sum = T::V::<S>::from_partial(&own[at..at + count]);
        for (k, factor) in factors.iter().enumerate() {
            let x = &columns[k * rows + from + at..][..count];
            sum = sum.sub(T::V::<S>::splat(*factor).mul(T::V::<S>::from_partial(x)));
        }
        sum.write_partial(&mut own[at..at + count]);
        at += count;
    }
}

/// What the factors tell of the matrix.
pub(super) struct FactoredMatrix<'a, T> {
    pub rows: usize,
    pub factors: &'a [T],
    pub pivots: &'a [usize],
}
impl<T: FactorElement> FactoredMatrix<'_, T> {
    fn diagonal(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.pivots.len()).map(|k| self.factors[k * self.rows + k])
    }
    /// The first pivot that is zero, from 0 on.
    pub fn singular_at(&self) -> Option<usize> {
        self.diagonal().position(|d| d == T::ZERO)
    }
    /// -1 for an odd number of changes.
    fn sign(&self) -> f64 {
        if self.pivots.iter().enumerate().filter(|(k, p)| *k != **p).count() % 2 == 0 { 1.0 } else { -1.0 }
    }
    pub fn det(&self) -> f64 {
        self.diagonal().fold(self.sign(), |d, v| d * v.wide())
    }
    /// Sign and logarithm of the magnitude of the determinant.
    pub fn slogdet(&self) -> (f64, f64) {
        self.diagonal().fold((self.sign(), 0.0), |(s, l), d| (if d == T::ZERO { 0.0 } else { s * d.wide().signum() }, l + d.wide().abs().ln()))
    }
}
pub(super) fn singular(at: usize) -> ErrorKind {
    ErrorKind::Domain(format!("the matrix is singular: pivot {} is zero", at + 1))
}
impl<T: FactorElement> FactoredMatrix<'_, T> {
    /// a⁻¹ b of a square matrix without a pivot that is zero; `right(i, from, x)` gives row i of b from a column on.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn solve(&self, crew: Crew<'_>, columns: usize, right: impl Fn(usize, usize, &mut [T]) + Sync, out: &mut [T]) -> Result<(), ErrorKind> {
        let n = self.rows;
        // Which row of the matrix each row of the factors was.
        let mut order = collected(n, 0..n)?;
        for (k, &pivot) in self.pivots.iter().enumerate() {
            order.swap(k, pivot);
        }
        let factors = MatrixView { data: self.factors, base: 0, row_stride: 1, column_stride: n as isize };
        let triangles = [Triangle { upper: false, unit: true }, Triangle { upper: true, unit: false }];
        solve(crew, n, factors, &triangles, columns, |i, from, x| right(order[i], from, x), out)
    }
    /// Its inverse.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn invert(&self, crew: Crew<'_>, out: &mut [T]) -> Result<(), ErrorKind> {
        let unit = |row: usize, from: usize, x: &mut [T]| x.iter_mut().enumerate().for_each(|(j, x)| *x = if from + j == row { T::ONE } else { T::ZERO });
        self.solve(crew, self.rows, unit, out)
    }
}
