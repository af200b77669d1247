//! Householder's reflections `I - τ v vᵀ`, and products of many of them as `I - V T Vᵀ` (Schreiber and Van Loan, "A storage-efficient
//! WY representation for products of Householder transformations", 1989): they are applied by products of matrices.
//!
//! What they are applied to is stored by columns, so that a share of the columns is one stretch of memory; vectors lie side by side.
use super::{
    Crew,
    product::{Onto, product, rows_of},
    vector::{FactorElement, add_scaled, dots, squares},
};
use crate::{
    gemm::micro::Block,
    isa::Isa,
    scratch::{ScratchVec, filled},
    simd::{Simd, SimdKernel, dispatch},
};
use adamant_runtime::ErrorKind;

/// Reflections of a block.
const PANEL: usize = 32;
/// Up to so many of as many elements are not worth a block.
const FEW: usize = 16;

/// Makes a vector the first axis times what is returned: afterwards it holds v, whose leading 1 is not stored, behind that number.
/// Returns τ, which is 0 where there is nothing to reflect. Signs are LAPACK's.
#[inline(always)]
pub(super) fn reflector<T: FactorElement>(x: &mut [T]) -> T {
    let Some((first, rest)) = x.split_first_mut() else { return T::ZERO };
    let (mut norm, mut scale) = (squares(rest), 1.0);
    if !norm.is_normal() {
        // Squares have overflowed or vanished.
        let largest = rest.iter().fold(first.wide().abs(), |m, v| v.wide().abs().max(m));
        if rest.iter().all(|v| *v == T::ZERO) {
            return T::ZERO;
        }
        if largest.is_finite() {
            scale = (-largest.log2().floor().clamp(-1020.0, 1020.0)).exp2();
            norm = rest.iter().map(|v| (v.wide() * scale) * (v.wide() * scale)).sum();
        }
    }
    let alpha = first.wide() * scale;
    let beta = -alpha.signum() * (alpha * alpha + norm).sqrt();
    let by = 1.0 / (alpha - beta);
    for v in rest {
        *v = T::nearest(v.wide() * scale * by);
    }
    *first = T::nearest(beta / scale);
    T::nearest((beta - alpha) / beta)
}
/// Reflects a vector, of which the first element is apart: v has a leading 1 that is not stored.
#[inline(always)]
fn reflect<T: FactorElement, S: Simd, const N: usize>(v: &[T], tau: T, of: [&mut [T]; N]) {
    let mut rest: [&[T]; N] = [&[]; N];
    for n in 0..N {
        rest[n] = &of[n][1..];
    }
    let sums = dots::<T, S, N>(v, rest);
    for (x, sum) in of.into_iter().zip(sums) {
        let share = tau * (x[0] + sum);
        x[0] = x[0] - share;
        add_scaled::<T, S>(&mut x[1..], -share, v);
    }
}

/// The reflections that make a panel a triangle, one line a column, from element `first` of the first line on.
struct PanelReflections<'a, T> {
    stride: usize,
    first: usize,
    lines: &'a mut [T],
    taus: &'a mut [T],
}
impl<T: FactorElement> SimdKernel for PanelReflections<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let PanelReflections { stride, first, lines, taus } = self;
        for (j, tau) in taus.iter_mut().enumerate() {
            let from = first + j;
            let (own, later) = lines[j * stride..].split_at_mut(stride);
            *tau = reflector(&mut own[from..]);
            if *tau == T::ZERO {
                continue;
            }
            reflect_lines::<T, S>(&own[from + 1..], *tau, later, stride, from);
        }
    }
}
/// Reflects lines of `stride` elements from an element on.
#[inline(always)]
fn reflect_lines<T: FactorElement, S: Simd>(v: &[T], tau: T, lines: &mut [T], stride: usize, from: usize) {
    let mut fours = lines.chunks_exact_mut(4 * stride);
    for four in &mut fours {
        let (a, b) = four.split_at_mut(2 * stride);
        let ((a, b), (c, d)) = (a.split_at_mut(stride), b.split_at_mut(stride));
        reflect::<T, S, 4>(v, tau, [&mut a[from..], &mut b[from..], &mut c[from..], &mut d[from..]]);
    }
    for line in fours.into_remainder().chunks_exact_mut(stride) {
        reflect::<T, S, 1>(v, tau, [&mut line[from..]]);
    }
}
/// The few reflections of a small matrix, one by one.
struct OneByOne<'a, T> {
    stride: usize,
    lines: &'a [T],
    shift: usize,
    taus: &'a [T],
    c: &'a mut [T],
}
impl<T: FactorElement> SimdKernel for OneByOne<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let OneByOne { stride, lines, shift, taus, c } = self;
        for (k, &tau) in taus.iter().enumerate().rev() {
            let from = k + shift;
            reflect_lines::<T, S>(&lines[k * stride + from + 1..(k + 1) * stride], tau, c, stride, from);
        }
    }
}

/// A product of reflections.
struct BlockReflection<T: FactorElement> {
    /// where they begin
    from: usize,
    length: usize,
    width: usize,
    /// V by rows, and by columns
    rows: ScratchVec<T>,
    lines: ScratchVec<T>,
    /// T, the upper triangle
    inner: ScratchVec<T>,
}
impl<T: FactorElement> BlockReflection<T> {
    /// Of vectors in lines of `stride` elements; that of line 0 has its leading 1 at `from`, each other one element further on.
    fn new(isa: Isa, lines: &[T], stride: usize, from: usize, taus: &[T]) -> Result<BlockReflection<T>, ErrorKind> {
        let (width, length) = (taus.len(), stride - from);
        let (mut v, mut rows) = (filled(T::ZERO, width * length)?, filled(T::ZERO, width * length)?);
        for (j, v) in v.chunks_exact_mut(length).enumerate() {
            v[j] = T::ONE;
            v[j + 1..].copy_from_slice(&lines[j * stride + from + j + 1..][..length - j - 1]);
        }
        T::context(isa).transpose(&v, length, &mut rows, width, width, length);
        let (mut across, mut inner) = (filled(T::ZERO, width * width)?, filled(T::ZERO, width * width)?);
        product(isa, Block::new(&mut across, width, width, width), length, rows_of(&v, 0, length), rows_of(&rows, 0, width), Onto::Nothing)?;
        for i in 0..width {
            inner[i * width + i] = taus[i];
            for row in 0..i {
                let sum = (row..i).fold(T::ZERO, |sum, p| sum + inner[row * width + p] * across[p * width + i]);
                inner[row * width + i] = -taus[i] * sum;
            }
        }
        Ok(BlockReflection { from, length, width, rows, lines: v, inner })
    }
    /// Applies the product, or its transpose, to lines of `stride` elements.
    fn apply(&self, isa: Isa, transposed: bool, c: &mut [T], stride: usize) -> Result<(), ErrorKind> {
        let (count, width) = (c.len() / stride, self.width);
        let (mut across, mut small) = (filled(T::ZERO, count * width)?, filled(T::ZERO, count * width)?);
        product(isa, Block::new(&mut across, count, width, width), self.length, rows_of(c, self.from, stride), rows_of(&self.rows, 0, width), Onto::Nothing)?;
        let inner = rows_of(&self.inner, 0, width);
        let inner = if transposed { inner } else { inner.transposed() };
        product(isa, Block::new(&mut small, count, width, width), width, rows_of(&across, 0, width), inner, Onto::Nothing)?;
        let own = Block::new(&mut c[self.from..], count, self.length, stride);
        product(isa, own, width, rows_of(&small, 0, width), rows_of(&self.lines, 0, self.length), Onto::Minus)
    }
}

/// Makes a matrix of lines of `stride` elements, each a column, a triangle with the reflections' vectors below, and gives their τ.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn reflections<T: FactorElement>(crew: Crew<'_>, stride: usize, lines: &mut [T], taus: &mut [T]) -> Result<(), ErrorKind> {
    let columns = lines.len() / stride;
    for first in (0..taus.len()).step_by(PANEL) {
        let last = taus.len().min(first + PANEL);
        let (panel, behind) = lines[first * stride..].split_at_mut((last - first) * stride);
        let taus = &mut taus[first..last];
        dispatch(crew.isa, PanelReflections { stride, first, lines: panel, taus });
        if !behind.is_empty() {
            let block = BlockReflection::new(crew.isa, panel, stride, first, taus)?;
            let share = crew.share(columns - last, 2 * block.length * block.width, 8);
            crew.for_lines(behind, stride, share, |_, c| block.apply(crew.isa, true, c, stride))?;
        }
    }
    Ok(())
}
/// The first columns, as many as `q` has, of the product of reflections: that of line k begins at element k + `shift`.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn columns_of<T: FactorElement>(crew: Crew<'_>, stride: usize, lines: &[T], shift: usize, taus: &[T], q: &mut [T]) -> Result<(), ErrorKind> {
    q.fill(T::ZERO);
    for (k, column) in q.chunks_exact_mut(stride).enumerate() {
        column[k] = T::ONE;
    }
    // The first of these columns are axes that later reflections do not move.
    let all = q.len();
    apply_product(crew, stride, lines, shift, taus, q, |first| all.min((first + shift) * stride))
}
/// Applies the product of reflections to lines; of the block from `first` on, to those from `unmoved(first)` on.
fn apply_product<T: FactorElement>(
    crew: Crew<'_>,
    stride: usize,
    lines: &[T],
    shift: usize,
    taus: &[T],
    c: &mut [T],
    unmoved: impl Fn(usize) -> usize,
) -> Result<(), ErrorKind> {
    if stride <= FEW && taus.len() <= FEW {
        dispatch(crew.isa, OneByOne { stride, lines, shift, taus, c });
        return Ok(());
    }
    for first in (0..taus.len()).step_by(PANEL).rev() {
        let last = taus.len().min(first + PANEL);
        let block = BlockReflection::new(crew.isa, &lines[first * stride..], stride, first + shift, &taus[first..last])?;
        let moved = &mut c[unmoved(first)..];
        let share = crew.share(moved.len() / stride, 2 * block.length * block.width, 8);
        crew.for_lines(moved, stride, share, |_, c| block.apply(crew.isa, false, c, stride))?;
    }
    Ok(())
}
/// As [`columns_of`], applied to a matrix stored by columns.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn times<T: FactorElement>(crew: Crew<'_>, stride: usize, lines: &[T], shift: usize, taus: &[T], c: &mut [T]) -> Result<(), ErrorKind> {
    apply_product(crew, stride, lines, shift, taus, c, |_| 0)
}
