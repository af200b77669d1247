//! A symmetric matrix by reflections to three diagonals, of which the lower triangle is read and written. What a reflection does to
//! the matrix waits until the next one is known: then one pass over what is left does the one and multiplies by the other.
use super::{
    Crew,
    reflect::reflector,
    vector::{FactorElement, add_scaled, dot, splats},
};
use crate::{
    scratch::{ScratchVec, filled},
    simd::{Arithmetic, Float, Simd, SimdKernel, dispatch, fold},
};
use adamant_runtime::ErrorKind;

/// Rows whose products are summed by themselves, on whatever thread.
const ROWS: usize = 128;

/// The three diagonals, and the reflections.
pub(super) struct Tridiagonal<T: FactorElement> {
    pub diagonal: ScratchVec<f64>,
    /// element k stands between k and k + 1; the last is zero
    pub beside: ScratchVec<f64>,
    /// vectors by lines: that of line k begins at element k + 1
    pub lines: ScratchVec<T>,
    pub taus: ScratchVec<T>,
}
/// Of the lower triangle of a matrix of n rows.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn tridiagonal<T: FactorElement>(crew: Crew<'_>, n: usize, a: &mut [T]) -> Result<Tridiagonal<T>, ErrorKind> {
    let (mut diagonal, mut beside) = (filled(0.0, n)?, filled(0.0, n)?);
    let (mut lines, mut taus) = (filled(T::ZERO, n * n)?, filled(T::ZERO, n)?);
    // What waits: v wᵀ + w vᵀ are to be taken from the matrix.
    let (mut v, mut w, mut next) = (filled(T::ZERO, n)?, filled(T::ZERO, n)?, filled(T::ZERO, n)?);
    let mut sums = filled(T::ZERO, n.div_ceil(ROWS) * n)?;
    for k in 0..n {
        let line = &mut lines[k * n..(k + 1) * n];
        for i in k..n {
            line[i] = a[i * n + k] - v[i] * w[k] - w[i] * v[k];
        }
        diagonal[k] = line[k].wide();
        let from = k + 1;
        if from == n {
            break;
        }
        let tau = reflector(&mut line[from..]);
        (beside[k], taus[k]) = (line[from].wide(), tau);
        next[from..].copy_from_slice(&line[from..]);
        next[from] = T::ONE;
        let left = n - from;
        let pass = |task: usize, (rows, sums): (&mut [T], &mut [T])| {
            let waiting = SymmetricPass { n, from, first: from + task * ROWS, rows, v: &v, w: &w, x: &next, sums: &mut sums[..left] };
            dispatch(crew.isa, waiting);
        };
        let parts = a[from * n..].chunks_mut(ROWS * n).zip(sums.chunks_mut(n));
        if left * left * 2 < super::ALONE {
            parts.enumerate().for_each(|(task, part)| pass(task, part))
        } else {
            crew.threads.for_parts(parts, pass)
        }
        std::mem::swap(&mut v, &mut next);
        dispatch(crew.isa, Ways { n, tau, v: &v[from..], sums: &sums[..left.div_ceil(ROWS) * n], w: &mut w[from..] });
    }
    Ok(Tridiagonal { diagonal, beside, lines, taus })
}
/// w = p - (τ / 2) (pᵀ v) v with p = τ a v, of whose parts the sums are given.
struct Ways<'a, T> {
    n: usize,
    tau: T,
    v: &'a [T],
    sums: &'a [T],
    w: &'a mut [T],
}
impl<T: FactorElement> SimdKernel for Ways<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Ways { n, tau, v, sums, w } = self;
        w.fill(T::ZERO);
        for sums in sums.chunks_exact(n) {
            w.iter_mut().zip(sums).for_each(|(w, s)| *w = *w + *s);
        }
        w.iter_mut().for_each(|w| *w = *w * tau);
        let share = T::nearest(-0.5) * tau * dot::<T, S>(w, v);
        add_scaled::<T, S>(w, share, v);
    }
}
/// Does to rows what waits for them, and multiplies them and their mirror images by the next vector.
struct SymmetricPass<'a, T> {
    n: usize,
    /// the first column that is left
    from: usize,
    first: usize,
    rows: &'a mut [T],
    v: &'a [T],
    w: &'a [T],
    x: &'a [T],
    sums: &'a mut [T],
}
impl<T: FactorElement> SimdKernel for SymmetricPass<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let SymmetricPass { n, from, first, rows, v, w, x, sums } = self;
        sums.fill(T::ZERO);
        let mut i = first;
        let mut pairs = rows.chunks_exact_mut(2 * n);
        for pair in &mut pairs {
            let (a, b) = pair.split_at_mut(n);
            // What both have before the diagonal, then the second's element below the first's diagonal, then the diagonals.
            let all = [&w[from..i], &v[from..i], &x[from..i]];
            let factors = [[-v[i], -w[i], x[i]], [-v[i + 1], -w[i + 1], x[i + 1]]];
            let own = pass_rows::<T, S, 2>([&mut a[from..i], &mut b[from..i]], factors, all, &mut sums[..i - from]);
            let between = b[i] - v[i + 1] * w[i] - w[i + 1] * v[i];
            b[i] = between;
            let corners = [taken(a, v, w, i), taken(b, v, w, i + 1)];
            sums[i - from] = sums[i - from] + own[0] + between * x[i + 1] + corners[0] * x[i];
            sums[i + 1 - from] = sums[i + 1 - from] + own[1] + between * x[i] + corners[1] * x[i + 1];
            i += 2;
        }
        let rest = pairs.into_remainder();
        if !rest.is_empty() {
            let own = pass_rows::<T, S, 1>([&mut rest[from..i]], [[-v[i], -w[i], x[i]]], [&w[from..i], &v[from..i], &x[from..i]], &mut sums[..i - from]);
            sums[i - from] = sums[i - from] + own[0] + taken(rest, v, w, i) * x[i];
        }
    }
}
/// The element of a row on the diagonal, after what waits for it.
#[inline(always)]
fn taken<T: FactorElement>(row: &mut [T], v: &[T], w: &[T], i: usize) -> T {
    row[i] = row[i] - v[i] * w[i] - w[i] * v[i];
    row[i]
}
/// `row += factors[0] w + factors[1] v` and `sums += factors[2] row` for each row, and its product with x.
#[inline(always)]
fn pass_rows<T: FactorElement, S: Simd, const N: usize>(rows: [&mut [T]; N], factors: [[T; 3]; N], [w, v, x]: [&[T]; 3], sums: &mut [T]) -> [T; N] {
    let lanes = <T::V<S> as Float>::LANES;
    let n = x.len();
    let zero = T::V::<S>::group(T::V::<S>::splat(T::ZERO));
    let mut products = [zero; N];
    let factors = splats::<T, S, N>(factors);
    let mut at = 0;
    while at < n {
        for k in 0..16 / lanes {
            let from = at + k * lanes;
            if from + lanes <= n {
                let (w, v, x) = (T::V::<S>::from_slice(&w[from..]), T::V::<S>::from_slice(&v[from..]), T::V::<S>::from_slice(&x[from..]));
                let mut sum = T::V::<S>::from_slice(&sums[from..]);
                for r in 0..N {
                    let row = &mut rows[r][from..];
                    let new = factors[r][1].mul_add(v, factors[r][0].mul_add(w, T::V::<S>::from_slice(row)));
                    new.write(row);
                    sum = factors[r][2].mul_add(new, sum);
                    let product = &mut products[r].as_mut()[k];
                    *product = new.mul_add(x, *product);
                }
                sum.write(&mut sums[from..]);
            } else if from < n {
                let (w, v, x) = (T::V::<S>::from_partial(&w[from..n]), T::V::<S>::from_partial(&v[from..n]), T::V::<S>::from_partial(&x[from..n]));
                let mut sum = T::V::<S>::from_partial(&sums[from..n]);
                for r in 0..N {
                    let row = &mut rows[r][from..n];
                    let new = factors[r][1].mul_add(v, factors[r][0].mul_add(w, T::V::<S>::from_partial(row)));
                    new.write_partial(row);
                    sum = factors[r][2].mul_add(new, sum);
                    let product = &mut products[r].as_mut()[k];
                    *product = new.mul_add(x, *product);
                }
                sum.write_partial(&mut sums[from..n]);
            }
        }
        at += 16;
    }
    let mut out = [T::ZERO; N];
    for r in 0..N {
        let mut all = [T::ZERO; 16];
        for k in 0..16 / lanes {
            products[r].as_ref()[k].write(&mut all[k * lanes..]);
        }
        out[r] = fold(all, |a, b| a + b);
    }
    out
}
