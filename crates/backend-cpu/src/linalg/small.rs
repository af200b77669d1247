//! Many small matrices: sixteen beside each other, each in a lane, so that a step of elimination is one for all of them. Operations
//! and their order are those of `lu`, `triangle` and `cholesky`: a matrix has the same bits alone and among others.
use super::{Crew, lu::singular, triangle::Triangle, vector::FactorElement};
use crate::{
    scratch::{ScratchVec, filled},
    simd::{Arithmetic, Float, Mask, Simd, SimdKernel, dispatch},
};
use adamant_runtime::ErrorKind;

/// Matrices beside each other.
pub(super) const ABREAST: usize = 16;
/// Rows of the largest of them.
pub(super) const SMALL: usize = 8;

/// Matrices `[count, rows, columns]` as `[rows, columns, ABREAST]`.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn abreast<T: FactorElement>(crew: Crew<'_>, matrices: &[T], each: usize) -> Result<ScratchVec<T>, ErrorKind> {
    let mut out = filled(T::ZERO, each * ABREAST)?;
    T::context(crew.isa).transpose(matrices, each, &mut out, ABREAST, matrices.len() / each, each);
    Ok(out)
}
/// The other way round.
pub(super) fn one_by_one<T: FactorElement>(crew: Crew<'_>, x: &[T], out: &mut [T]) {
    let each = x.len() / ABREAST;
    T::context(crew.isa).transpose(x, ABREAST, out, each, each, out.len() / each);
}
/// Both factors in place of matrices, whose rows change places in `x` too; and the signs of these changes.
pub(super) fn eliminate<T: FactorElement>(crew: Crew<'_>, n: usize, a: &mut [T], x: &mut [T]) -> [T; ABREAST] {
    let mut signs = [T::ONE; ABREAST];
    dispatch(crew.isa, Elimination { n, a, x, signs: &mut signs });
    signs
}
/// The determinant of a lane.
pub(super) fn det<T: FactorElement>(n: usize, a: &[T], sign: T, lane: usize) -> f64 {
    (0..n).map(|k| a[(k * n + k) * ABREAST + lane].wide()).fold(sign.wide(), |d, v| d * v)
}
/// The first lane with a pivot that is zero.
///
/// # Errors
/// There is one.
pub(super) fn regular<T: FactorElement>(n: usize, a: &[T], count: usize) -> Result<(), ErrorKind> {
    let at = |lane: usize| (0..n).find(|&k| a[(k * n + k) * ABREAST + lane] == T::ZERO);
    (0..count).find_map(at).map_or(Ok(()), |at| Err(singular(at)))
}
/// Solves triangular systems in place.
pub(super) fn substitute<T: FactorElement>(crew: Crew<'_>, of: Triangle, n: usize, a: &[T], x: &mut [T]) {
    dispatch(crew.isa, Substitution { of, n, a, x });
}
/// The lower factors in place of lower triangles, and for each lane the order of the minor that is not positive, or 0.
pub(super) fn cholesky<T: FactorElement>(crew: Crew<'_>, n: usize, a: &mut [T]) -> [usize; ABREAST] {
    let mut bad = [0; ABREAST];
    dispatch(crew.isa, Roots { n, a, bad: &mut bad });
    bad
}

struct Elimination<'a, T> {
    n: usize,
    a: &'a mut [T],
    x: &'a mut [T],
    signs: &'a mut [T; ABREAST],
}
/// Where `mask`, two rows change places.
#[inline(always)]
fn swap<T: FactorElement, S: Simd>(rows: &mut [T], length: usize, [i, k]: [usize; 2], from: usize, mask: <T::V<S> as Arithmetic>::Mask) {
    for j in 0..length {
        let (upper, lower) = ((k * length + j) * ABREAST + from, (i * length + j) * ABREAST + from);
        let (p, q) = (T::V::<S>::from_slice(&rows[upper..]), T::V::<S>::from_slice(&rows[lower..]));
        T::V::<S>::select(mask, q, p).write(&mut rows[upper..]);
        T::V::<S>::select(mask, p, q).write(&mut rows[lower..]);
    }
}
impl<T: FactorElement> SimdKernel for Elimination<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Elimination { n, a, x, signs } = self;
        let (lanes, columns) = (<T::V<S> as Float>::LANES, x.len() / n / ABREAST);
        let zero = T::V::<S>::splat(T::ZERO);
        for from in (0..ABREAST).step_by(lanes) {
            let mut sign = T::V::<S>::splat(T::ONE);
            for k in 0..n {
                let at = |a: &[T], i: usize, j: usize| T::V::<S>::from_slice(&a[(i * n + j) * ABREAST + from..]);
                // Of equal ones the first; NaN is larger than all.
                let (mut best, mut row) = (at(a, k, k).abs(), T::V::<S>::constant(k as f64));
                for i in k + 1..n {
                    let other = at(a, i, k).abs();
                    let larger = best.lt(other).or(other.is_nan().and(best.is_nan().not()));
                    best = T::V::<S>::select(larger, other, best);
                    row = T::V::<S>::select(larger, T::V::<S>::constant(i as f64), row);
                }
                for i in k + 1..n {
                    let here = row.eq(T::V::<S>::constant(i as f64));
                    if here.any() {
                        swap::<T, S>(a, n, [i, k], from, here);
                        swap::<T, S>(x, columns, [i, k], from, here);
                        sign = T::V::<S>::select(here, sign.neg(), sign);
                    }
                }
                let top = at(a, k, k);
                let nothing = top.eq(zero);
                for i in k + 1..n {
                    let below = at(a, i, k);
                    let factor = T::V::<S>::select(nothing, below, below.div(top));
                    factor.write(&mut a[(i * n + k) * ABREAST + from..]);
                    for j in k + 1..n {
                        let left = at(a, i, j).sub(factor.mul(at(a, k, j)));
                        left.write(&mut a[(i * n + j) * ABREAST + from..]);
                    }
                }
            }
            sign.write(&mut signs[from..]);
        }
    }
}
struct Substitution<'a, T> {
    of: Triangle,
    n: usize,
    a: &'a [T],
    x: &'a mut [T],
}
impl<T: FactorElement> SimdKernel for Substitution<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Substitution { of, n, a, x } = self;
        let (lanes, columns) = (<T::V<S> as Float>::LANES, x.len() / n / ABREAST);
        for from in (0..ABREAST).step_by(lanes) {
            for step in 0..n {
                let i = if of.upper { n - 1 - step } else { step };
                let known = if of.upper { i + 1..n } else { 0..i };
                for c in 0..columns {
                    let own = (i * columns + c) * ABREAST + from;
                    let mut sum = T::V::<S>::from_slice(&x[own..]);
                    for p in known.clone() {
                        let factor = T::V::<S>::from_slice(&a[(i * n + p) * ABREAST + from..]).neg();
                        sum = factor.mul_add(T::V::<S>::from_slice(&x[(p * columns + c) * ABREAST + from..]), sum);
                    }
                    if !of.unit {
                        sum = sum.div(T::V::<S>::from_slice(&a[(i * n + i) * ABREAST + from..]));
                    }
                    sum.write(&mut x[own..]);
                }
            }
        }
    }
}
struct Roots<'a, T> {
    n: usize,
    a: &'a mut [T],
    bad: &'a mut [usize; ABREAST],
}
impl<T: FactorElement> SimdKernel for Roots<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Roots { n, a, bad } = self;
        let lanes = <T::V<S> as Float>::LANES;
        for from in (0..ABREAST).step_by(lanes) {
            for i in 0..n {
                let place = |r: usize, c: usize| (r * n + c) * ABREAST + from;
                for j in i..n {
                    let mut sum = T::V::<S>::from_slice(&a[place(j, i)..]);
                    for p in 0..i {
                        let factor = T::V::<S>::from_slice(&a[place(i, p)..]).neg();
                        sum = factor.mul_add(T::V::<S>::from_slice(&a[place(j, p)..]), sum);
                    }
                    sum.write(&mut a[place(j, i)..]);
                }
                for lane in from..from + lanes {
                    let square = a[place(i, i) - from + lane];
                    // NaN is not positive either.
                    if bad[lane] == 0 && square.partial_cmp(&T::ZERO) != Some(std::cmp::Ordering::Greater) {
                        bad[lane] = i + 1;
                    }
                }
                let root = T::V::<S>::from_slice(&a[place(i, i)..]).sqrt();
                root.write(&mut a[place(i, i)..]);
                for j in i + 1..n {
                    T::V::<S>::from_slice(&a[place(j, i)..]).div(root).write(&mut a[place(j, i)..]);
                    // What is above the diagonal is zero.
                    T::V::<S>::splat(T::ZERO).write(&mut a[place(i, j)..]);
                }
            }
        }
    }
}
