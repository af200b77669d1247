//! Singular values and vectors: two diagonals, then QR steps with implicit shifts, without a shift where a value is near to zero
//! (Demmel and Kahan, "Accurate singular values of bidiagonal matrices", 1990). Of a tall matrix the triangle of its QR is taken first.
//! The few numbers of the steps are f64 whatever the matrix is of.
use super::{
    Crew,
    bidiagonal::{Bidiagonal, bidiagonal},
    reflect::{columns_of, reflections, times},
    rotations::{RotatedRows, SweepDirection},
    symmetric::{scale_of, stuck, values_alone},
    vector::FactorElement,
};
use crate::scratch::{ScratchVec, collected, filled};
use adamant_runtime::ErrorKind;

/// More steps than this for each value, on average, mean that there is none.
const STEPS: usize = 60;

/// The vectors that belong to singular values, as rows: `k` of `m` elements from the left, `k` of `n` from the right.
pub(super) struct SingularVectors<T: FactorElement> {
    pub left: ScratchVec<T>,
    pub right: ScratchVec<T>,
}
/// Singular values in descending order of a matrix of n columns, and their vectors, if they are wanted.
///
/// # Errors
/// The matrix is not finite; `OutOfMemory`.
pub(super) fn svd<T: FactorElement>(crew: Crew<'_>, n: usize, a: &[T], values: &mut [T], vectors: bool) -> Result<Option<SingularVectors<T>>, ErrorKind> {
    let m = a.len() / n;
    if m < n {
        let mut transposed = filled(T::ZERO, m * n)?;
        T::context(crew.isa).transpose(a, n, &mut transposed, m, m, n);
        let found = svd(crew, m, &transposed, values, vectors)?;
        return Ok(found.map(|SingularVectors { left, right }| SingularVectors { left: right, right: left }));
    }
    let scale = scale_of(a.iter().copied())?;
    let mut own = filled(T::ZERO, m * n)?;
    own.iter_mut().zip(a).for_each(|(to, v)| *to = T::nearest(v.wide() * scale));
    // Twice the work on the triangle is less than all of it on the whole.
    let mut first = None;
    if 2 * m > 3 * n {
        let context = T::context(crew.isa);
        let (mut lines, mut taus) = (filled(T::ZERO, m * n)?, filled(T::ZERO, n)?);
        context.transpose(&own, n, &mut lines, m, m, n);
        reflections(crew, m, &mut lines, &mut taus)?;
        own.truncate(n * n);
        context.transpose(&lines, m, &mut own, n, n, n);
        own.chunks_exact_mut(n).enumerate().for_each(|(i, row)| row[..i].fill(T::ZERO));
        first = Some((lines, taus));
    }
    let rows = own.len() / n;
    let Bidiagonal { mut diagonal, mut above, left, left_taus, right, right_taus } = bidiagonal(crew, n, &mut own)?;
    drop(own);
    let mut rotated = None;
    if vectors {
        let (mut u, mut v) = (filled(T::ZERO, n * rows)?, filled(T::ZERO, n * n)?);
        columns_of(crew, rows, &left, 0, &left_taus, &mut u)?;
        columns_of(crew, n, &right, 1, &right_taus[..n - 1], &mut v)?;
        rotated = Some([RotatedRows::new(crew, &u, rows)?, RotatedRows::new(crew, &v, n)?]);
    }
    // The squares of values of f32 are eigenvalues that f64 holds well enough, and those need no roots.
    if !vectors && T::EPSILON > f64::EPSILON {
        squares(&mut diagonal, &mut above)?;
    } else {
        converge(&mut diagonal, &mut above, T::EPSILON, &mut rotated)?;
    }
    let mut order = collected(n, 0..n)?;
    order.sort_by(|&i, &j| diagonal[j].abs().total_cmp(&diagonal[i].abs()));
    for (value, &from) in values.iter_mut().zip(&order) {
        *value = T::nearest(diagonal[from].abs() / scale);
    }
    let Some([u, v]) = rotated else { return Ok(None) };
    let mut left = u.finish(&order, |_| false)?;
    if let Some((lines, taus)) = first {
        let mut long = filled(T::ZERO, n * m)?;
        for (long, short) in long.chunks_exact_mut(m).zip(left.chunks_exact(n)) {
            long[..n].copy_from_slice(short);
        }
        times(crew, m, &lines, 0, &taus, &mut long)?;
        left = long;
    }
    Ok(Some(SingularVectors { left, right: v.finish(&order, |k| diagonal[k] < 0.0)? }))
}
/// Singular values by the eigenvalues of `bᵀ b`.
fn squares(d: &mut [f64], e: &mut [f64]) -> Result<(), ErrorKind> {
    let mut before = 0.0;
    for (d, e) in d.iter_mut().zip(e.iter_mut()) {
        let (own, above) = (*d, *e);
        (*d, *e) = (own * own + before * before, own * above);
        before = above;
    }
    values_alone(d, e, f64::EPSILON.sqrt())?;
    d.iter_mut().for_each(|d| *d = d.max(0.0).sqrt());
    Ok(())
}
/// Cosine and sine of the rotation that makes `(f, g)` `(r, 0)`, and r.
#[inline(always)]
fn rotation(f: f64, g: f64) -> (f64, f64, f64) {
    if g == 0.0 {
        return (1.0, 0.0, f);
    }
    let square = f * f + g * g;
    if square.is_normal() {
        // The reciprocal does not wait for the root.
        let r = square.sqrt();
        let inverse = r * (1.0 / square);
        return (f * inverse, g * inverse, r);
    }
    let r = f.hypot(g);
    (f / r, g / r, r)
}
/// The smaller singular value of `[[f, g], [0, h]]`.
fn smaller_value(f: f64, g: f64, h: f64) -> f64 {
    let (f, g, h) = (f.abs(), g.abs(), h.abs());
    let sum = ((f + h).hypot(g) + (f - h).hypot(g)) / 2.0;
    if sum == 0.0 { 0.0 } else { f / sum * h }
}
/// Rows from the left and from the right, where vectors are wanted.
type RotatedSides<'r, T> = Option<[RotatedRows<'r, T>; 2]>;

/// QR steps until nothing stands above the diagonal.
fn converge<T: FactorElement>(d: &mut [f64], e: &mut [f64], epsilon: f64, rows: &mut RotatedSides<'_, T>) -> Result<(), ErrorKind> {
    let n = d.len();
    let norm = d.iter().chain(&*e).fold(0.0f64, |m, v| m.max(v.abs()));
    // What is beside the norm less than a rounding error is none of a value's.
    let (tolerance, noise) = (0.5 * epsilon, 0.02 * epsilon * norm);
    let mut last = n - 1;
    let small = |d: &[f64], e: &[f64], k: usize| e[k].abs() <= noise || e[k].abs() <= tolerance * (d[k].abs() + d[k + 1].abs());
    for _ in 0..STEPS * n {
        while last > 0 && small(d, e, last - 1) {
            e[last - 1] = 0.0;
            last -= 1;
        }
        if last == 0 {
            return Ok(());
        }
        let first = (0..last - 1).rev().find(|&k| small(d, e, k)).map_or(0, |k| k + 1);
        if let Some(rows) = rows {
            rows[0].begin(first, SweepDirection::Down)?;
            rows[1].begin(first, SweepDirection::Down)?;
        }
        let (d, e) = (&mut d[first..=last], &mut e[first..last]);
        let k = d.len() - 1;
        let shift = smaller_value(d[k - 1], e[k - 1], d[k]);
        let least = d.iter().fold(f64::INFINITY, |m, v| m.min(v.abs()));
        let ratio = shift / d[0];
        if least <= noise || ratio * ratio < 0.1 * epsilon { unshifted(d, e, rows) } else { shifted(d, e, shift, rows) }
    }
    Err(stuck())
}
fn unshifted<T: FactorElement>(d: &mut [f64], e: &mut [f64], rows: &mut RotatedSides<'_, T>) {
    let (mut c, mut left_c, mut left_s) = (1.0, 1.0, 0.0);
    for i in 0..e.len() {
        let (right_c, right_s, r) = rotation(d[i] * c, e[i]);
        if i > 0 {
            e[i - 1] = left_s * r;
        }
        (left_c, left_s, d[i]) = rotation(left_c * r, d[i + 1] * right_s);
        c = right_c;
        record(rows, [left_c, left_s], [right_c, right_s]);
    }
    let h = d[e.len()] * c;
    d[e.len()] = h * left_c;
    e[e.len() - 1] = h * left_s;
}
fn shifted<T: FactorElement>(d: &mut [f64], e: &mut [f64], shift: f64, rows: &mut RotatedSides<'_, T>) {
    let mut f = (d[0].abs() - shift) * (1.0f64.copysign(d[0]) + shift / d[0]);
    let mut g = e[0];
    for i in 0..e.len() {
        let (right_c, right_s, r) = rotation(f, g);
        if i > 0 {
            e[i - 1] = r;
        }
        f = right_c * d[i] + right_s * e[i];
        e[i] = right_c * e[i] - right_s * d[i];
        g = right_s * d[i + 1];
        d[i + 1] *= right_c;
        let (left_c, left_s, r) = rotation(f, g);
        d[i] = r;
        f = left_c * e[i] + left_s * d[i + 1];
        d[i + 1] = left_c * d[i + 1] - left_s * e[i];
        if i + 1 < e.len() {
            g = left_s * e[i + 1];
            e[i + 1] *= left_c;
        }
        record(rows, [left_c, left_s], [right_c, right_s]);
    }
    e[e.len() - 1] = f;
}
#[inline(always)]
fn record<T: FactorElement>(rows: &mut RotatedSides<'_, T>, left: [f64; 2], right: [f64; 2]) {
    if let Some([u, v]) = rows {
        u.rotate(left[0], left[1]);
        v.rotate(right[0], right[1]);
    }
}
