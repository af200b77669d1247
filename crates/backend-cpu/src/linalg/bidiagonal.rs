//! A matrix by reflections from both sides to two diagonals (Golub and Van Loan, "Matrix Computations", 4th ed., section 5.4.8). What
//! a pair of reflections does to the matrix waits for the next: one pass over what is left does it and multiplies by the next vector
//! from the left, a second one multiplies by that from the right.
use super::{
    Crew,
    reflect::reflector,
    vector::{FactorElement, add_scaled, add_two, dot, dots, splats},
};
use crate::{
    scratch::{ScratchVec, filled},
    simd::{Arithmetic, Float, Simd, SimdKernel, dispatch},
};
use adamant_runtime::ErrorKind;

/// Rows whose products are summed by themselves, on whatever thread.
const ROWS: usize = 128;

/// The two diagonals, and the reflections.
pub(super) struct Bidiagonal<T: FactorElement> {
    pub diagonal: ScratchVec<f64>,
    /// element k stands above the diagonal, in column k + 1; the last is zero
    pub above: ScratchVec<f64>,
    /// vectors by lines: from the left that of line k begins at element k, from the right at k + 1
    pub left: ScratchVec<T>,
    pub left_taus: ScratchVec<T>,
    pub right: ScratchVec<T>,
    pub right_taus: ScratchVec<T>,
}
/// Of a matrix of at least as many rows as its n columns.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn bidiagonal<T: FactorElement>(crew: Crew<'_>, n: usize, a: &mut [T]) -> Result<Bidiagonal<T>, ErrorKind> {
    let m = a.len() / n;
    let (mut diagonal, mut above) = (filled(0.0, n)?, filled(0.0, n)?);
    let (mut left, mut right) = (filled(T::ZERO, n * m)?, filled(T::ZERO, n * n)?);
    let (mut left_taus, mut right_taus) = (filled(T::ZERO, n)?, filled(T::ZERO, n)?);
    // What waits: v zᵀ + x uᵀ are to be taken from the matrix.
    let (mut v, mut x) = (filled(T::ZERO, m)?, filled(T::ZERO, m)?);
    let (mut z, mut u) = (filled(T::ZERO, n)?, filled(T::ZERO, n)?);
    let (mut sums, mut next) = (filled(T::ZERO, m.div_ceil(ROWS) * n)?, filled(T::ZERO, m)?);
    for k in 0..n {
        let column = &mut left[k * m..(k + 1) * m];
        for i in k..m {
            column[i] = a[i * n + k] - v[i] * z[k] - x[i] * u[k];
        }
        let tau = reflector(&mut column[k..]);
        (diagonal[k], left_taus[k]) = (column[k].wide(), tau);
        let (own, below) = a[k * n..].split_at_mut(n);
        let behind = k + 1;
        if behind == n {
            break;
        }
        next[k..].copy_from_slice(&column[k..]);
        next[k] = T::ONE;
        // One pass: what waits, and the products with the column's vector.
        let cut = n - behind;
        let waiting = PendingUpdate { n, from: behind, z: &z, u: &u };
        dispatch(crew.isa, OwnRow { waiting, v: v[k], x: x[k], row: own });
        let rows = m - behind;
        let parts = below.chunks_mut(ROWS * n).zip(sums.chunks_mut(n));
        let pass = |task: usize, (rows, sums): (&mut [T], &mut [T])| {
            let first = behind + task * ROWS;
            dispatch(crew.isa, FirstPass { waiting, first, v: &v, x: &x, next: &next, rows, sums: &mut sums[..cut] });
        };
        let alone = rows * cut * 3 < super::ALONE;
        if alone {
            parts.enumerate().for_each(|(task, part)| pass(task, part))
        } else {
            crew.threads.for_parts(parts, pass)
        }
        let blocks = rows.div_ceil(ROWS);
        dispatch(crew.isa, ScaledSums { n, tau, own: &own[behind..], sums: &sums[..blocks * n], z: &mut z[behind..] });
        // What is left of the row.
        let row = &mut right[k * n..(k + 1) * n];
        for j in behind..n {
            row[j] = own[j] - z[j];
        }
        let right_tau = reflector(&mut row[behind..]);
        (above[k], right_taus[k]) = (row[behind].wide(), right_tau);
        u[behind..].copy_from_slice(&row[behind..]);
        u[behind] = T::ONE;
        std::mem::swap(&mut v, &mut next);
        // The second pass: x = τ (a - v zᵀ) u.
        let known = dispatch(crew.isa, DotProduct { z: &z[behind..], u: &u[behind..] });
        let pass = |task: usize, (rows, x): (&[T], &mut [T])| {
            let first = behind + task * ROWS;
            dispatch(crew.isa, SecondPass { n, from: behind, rows, u: &u, v: &v[first..], known, tau: right_tau, x });
        };
        let parts = below.chunks(ROWS * n).zip(x[behind..].chunks_mut(ROWS));
        if alone { parts.enumerate().for_each(|(task, part)| pass(task, part)) } else { crew.threads.for_parts(parts, pass) }
    }
    Ok(Bidiagonal { diagonal, above, left, left_taus, right, right_taus })
}
/// What waits for the columns of a matrix, from one on.
#[derive(Clone, Copy)]
struct PendingUpdate<'a, T> {
    n: usize,
    from: usize,
    z: &'a [T],
    u: &'a [T],
}
struct OwnRow<'a, T> {
    waiting: PendingUpdate<'a, T>,
    v: T,
    x: T,
    row: &'a mut [T],
}
impl<T: FactorElement> SimdKernel for OwnRow<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let PendingUpdate { from, z, u, .. } = self.waiting;
        add_two::<T, S>(&mut self.row[from..], [-self.v, -self.x], [&z[from..], &u[from..]]);
    }
}
/// Does to rows what waits for them, and sums them, each times an element of the next vector.
struct FirstPass<'a, T> {
    waiting: PendingUpdate<'a, T>,
    first: usize,
    v: &'a [T],
    x: &'a [T],
    next: &'a [T],
    rows: &'a mut [T],
    sums: &'a mut [T],
}
impl<T: FactorElement> SimdKernel for FirstPass<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let FirstPass { waiting: PendingUpdate { n, from, z, u }, first, v, x, next, rows, sums } = self;
        sums.fill(T::ZERO);
        let mut fours = rows.chunks_exact_mut(4 * n);
        let mut i = first;
        for four in &mut fours {
            let (a, b) = four.split_at_mut(2 * n);
            let ((a, b), (c, d)) = (a.split_at_mut(n), b.split_at_mut(n));
            let mut factors = [[T::ZERO; 3]; 4];
            for (r, factors) in factors.iter_mut().enumerate() {
                *factors = [-v[i + r], -x[i + r], next[i + r]];
            }
            pass_rows::<T, S, 4>([&mut a[from..], &mut b[from..], &mut c[from..], &mut d[from..]], factors, &z[from..], &u[from..], sums);
            i += 4;
        }
        for row in fours.into_remainder().chunks_exact_mut(n) {
            pass_rows::<T, S, 1>([&mut row[from..]], [[-v[i], -x[i], next[i]]], &z[from..], &u[from..], sums);
            i += 1;
        }
    }
}
/// `row += factors[0] z + factors[1] u`, and `sums += factors[2] row`, for each row.
#[inline(always)]
fn pass_rows<T: FactorElement, S: Simd, const N: usize>(rows: [&mut [T]; N], factors: [[T; 3]; N], z: &[T], u: &[T], sums: &mut [T]) {
    let lanes = <T::V<S> as Float>::LANES;
    let n = sums.len();
    let factors = splats::<T, S, N>(factors);
    let mut at = 0;
    while at + lanes <= n {
        let (z, u) = (T::V::<S>::from_slice(&z[at..]), T::V::<S>::from_slice(&u[at..]));
        let mut sum = T::V::<S>::from_slice(&sums[at..]);
        for r in 0..N {
            let row = &mut rows[r][at..];
            let new = factors[r][1].mul_add(u, factors[r][0].mul_add(z, T::V::<S>::from_slice(row)));
            new.write(row);
            sum = factors[r][2].mul_add(new, sum);
        }
        sum.write(&mut sums[at..]);
        at += lanes;
    }
    if at < n {
        let (z, u) = (T::V::<S>::from_partial(&z[at..n]), T::V::<S>::from_partial(&u[at..n]));
        let mut sum = T::V::<S>::from_partial(&sums[at..]);
        for r in 0..N {
            let row = &mut rows[r][at..n];
            let new = factors[r][1].mul_add(u, factors[r][0].mul_add(z, T::V::<S>::from_partial(row)));
            new.write_partial(row);
            sum = factors[r][2].mul_add(new, sum);
        }
        sum.write_partial(&mut sums[at..]);
    }
}
/// τ times the sums of all rows, that of the vector's leading 1 first.
struct ScaledSums<'a, T> {
    n: usize,
    tau: T,
    own: &'a [T],
    sums: &'a [T],
    z: &'a mut [T],
}
impl<T: FactorElement> SimdKernel for ScaledSums<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        self.z.copy_from_slice(self.own);
        for sums in self.sums.chunks_exact(self.n) {
            self.z.iter_mut().zip(sums).for_each(|(z, s)| *z = *z + *s);
        }
        self.z.iter_mut().for_each(|z| *z = *z * self.tau);
    }
}
struct DotProduct<'a, T> {
    z: &'a [T],
    u: &'a [T],
}
impl<T: FactorElement> SimdKernel for DotProduct<'_, T> {
    type Output = T;
    #[inline(always)]
    fn run<S: Simd>(self) -> T {
        dot::<T, S>(self.z, self.u)
    }
}
/// Rows times a vector.
struct SecondPass<'a, T> {
    n: usize,
    from: usize,
    rows: &'a [T],
    u: &'a [T],
    v: &'a [T],
    known: T,
    tau: T,
    x: &'a mut [T],
}
impl<T: FactorElement> SimdKernel for SecondPass<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let SecondPass { n, from, rows, u, v, known, tau, x } = self;
        let mut fours = rows.chunks_exact(4 * n);
        let mut at = 0;
        for four in &mut fours {
            let (a, b) = four.split_at(2 * n);
            let ((a, b), (c, d)) = (a.split_at(n), b.split_at(n));
            let products = dots::<T, S, 4>(&u[from..n], [&a[from..], &b[from..], &c[from..], &d[from..]]);
            x[at..at + 4].copy_from_slice(&products);
            at += 4;
        }
        for row in fours.remainder().chunks_exact(n) {
            x[at] = dot::<T, S>(&u[from..n], &row[from..]);
            at += 1;
        }
        // Of two products the first is rounded: so it is with every set of instructions.
        add_scaled::<T, S>(x, -known, &v[..x.len()]);
        x.iter_mut().for_each(|x| *x = *x * tau);
    }
}
