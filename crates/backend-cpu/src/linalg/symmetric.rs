//! Eigenvalues and eigenvectors of symmetric matrices: three diagonals, then QL steps with implicit shifts (Golub and Van Loan,
//! "Matrix Computations", 4th ed., section 8.3). The few numbers of the steps are f64 whatever the matrix is of. Without vectors
//! the steps need no roots (Pal, Walker and Kahan: Parlett, "The Symmetric Eigenvalue Problem", section 8.15).
use super::{
    Crew,
    reflect::columns_of,
    rotations::{RotatedRows, SweepDirection},
    tridiagonal::{Tridiagonal, tridiagonal},
    vector::FactorElement,
};
use crate::scratch::{ScratchVec, collected, filled};
use adamant_runtime::ErrorKind;

/// More steps for one eigenvalue than this mean that there is none.
const STEPS: usize = 60;

pub(super) fn stuck() -> ErrorKind {
    ErrorKind::Domain("the rotations do not converge; does the matrix hold NaN or infinite elements?".into())
}
/// A power of two that brings the largest magnitude near to 1: squares of what is far from it would overflow or vanish.
///
/// # Errors
/// Something is not finite.
pub(super) fn scale_of<T: FactorElement>(elements: impl Iterator<Item = T>) -> Result<f64, ErrorKind> {
    let largest = elements.fold(0.0f64, |m, v| if m.is_nan() || v.wide().abs() <= m { m } else { v.wide().abs() });
    if !largest.is_finite() {
        return Err(stuck());
    }
    Ok(if largest > 0.0 { (-largest.log2().floor().clamp(-1020.0, 1020.0)).exp2() } else { 1.0 })
}

/// Eigenvalues in ascending order of a symmetric matrix of n rows, of which the lower triangle is read, and eigenvectors as rows, if
/// they are wanted.
///
/// # Errors
/// The matrix is not finite; `OutOfMemory`.
pub(super) fn eigh<T: FactorElement>(crew: Crew<'_>, n: usize, a: &[T], values: &mut [T], vectors: bool) -> Result<Option<ScratchVec<T>>, ErrorKind> {
    let scale = scale_of(a.chunks_exact(n).enumerate().flat_map(|(i, row)| row[..=i].iter().copied()))?;
    let mut s = filled(T::ZERO, n * n)?;
    for (i, row) in a.chunks_exact(n).enumerate() {
        for (to, v) in s[i * n..].iter_mut().zip(&row[..=i]) {
            *to = T::nearest(v.wide() * scale);
        }
    }
    let Tridiagonal { mut diagonal, mut beside, lines, taus } = tridiagonal(crew, n, &mut s)?;
    drop(s);
    let mut rows = None;
    if vectors {
        let mut q = filled(T::ZERO, n * n)?;
        columns_of(crew, n, &lines, 1, &taus[..n.saturating_sub(2)], &mut q)?;
        let mut rotated = RotatedRows::new(crew, &q, n)?;
        turn(&mut diagonal, &mut beside, T::EPSILON, &mut rotated)?;
        rows = Some(rotated);
    } else {
        values_alone(&mut diagonal, &mut beside, T::EPSILON)?;
    }
    let mut order = collected(n, 0..n)?;
    order.sort_by(|&i, &j| diagonal[i].total_cmp(&diagonal[j]));
    for (value, &from) in values.iter_mut().zip(&order) {
        *value = T::nearest(diagonal[from] / scale);
    }
    rows.map(|rows| rows.finish(&order, |_| false)).transpose()
}
/// The first place from `l` on behind which nothing stands beside the diagonal.
fn end_of(d: &[f64], beside_is_small: impl Fn(usize) -> bool, l: usize) -> usize {
    (l..d.len() - 1).find(|&m| beside_is_small(m)).unwrap_or(d.len() - 1)
}
/// The eigenvalue of the leading 2 by 2 of a block that is nearer to its corner.
fn shift(d: &[f64], e: f64, l: usize) -> f64 {
    let g = (d[l + 1] - d[l]) / (2.0 * e);
    d[l] - e / (g + (g * g + 1.0).sqrt().copysign(g))
}
/// QL steps until nothing stands beside the diagonal; what they do to rows is done to `rows`.
fn turn<T: FactorElement>(d: &mut [f64], e: &mut [f64], epsilon: f64, rows: &mut RotatedRows<'_, T>) -> Result<(), ErrorKind> {
    for l in 0..d.len() {
        for step in 0.. {
            let m = end_of(d, |m| e[m].abs() <= 0.5 * epsilon * (d[m].abs() + d[m + 1].abs()), l);
            if m == l {
                break;
            }
            if step == STEPS {
                return Err(stuck());
            }
            rows.begin(m, SweepDirection::Up)?;
            let mut g = d[m] - shift(d, e[l], l);
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            let mut whole = true;
            for i in (l..m).rev() {
                let (f, b) = (s * e[i], c * e[i]);
                let square = f * f + g * g;
                let r = square.sqrt();
                e[i + 1] = r;
                if r == 0.0 {
                    d[i + 1] -= p;
                    e[m] = 0.0;
                    whole = false;
                    break;
                }
                // Where it can, the reciprocal does not wait for the root.
                let inverse = if square.is_normal() { r * (1.0 / square) } else { 1.0 / r };
                (s, c) = (f * inverse, g * inverse);
                let shifted = d[i + 1] - p;
                let t = (d[i] - shifted) * s + 2.0 * c * b;
                p = s * t;
                d[i + 1] = shifted + p;
                g = c * t - b;
                rows.rotate(c, s);
            }
            if whole {
                d[l] -= p;
                e[l] = g;
                e[m] = 0.0;
            }
        }
    }
    Ok(())
}
/// As [`turn`], of squares of what stands beside the diagonal, and without rows.
///
/// # Errors
/// The steps do not converge.
pub(super) fn values_alone(d: &mut [f64], e: &mut [f64], epsilon: f64) -> Result<(), ErrorKind> {
    e.iter_mut().for_each(|e| *e *= *e);
    let small = 0.25 * epsilon * epsilon;
    for l in 0..d.len() {
        for step in 0.. {
            let m = end_of(d, |m| e[m] <= small * (d[m] * d[m + 1]).abs() || e[m] < f64::MIN_POSITIVE, l);
            if m == l {
                break;
            }
            if step == STEPS {
                return Err(stuck());
            }
            let sigma = shift(d, e[l].sqrt(), l);
            let (mut c, mut s) = (1.0, 0.0);
            let mut gamma = d[m] - sigma;
            let mut p = gamma * gamma;
            for i in (l..m).rev() {
                let square = e[i];
                let r = p + square;
                if i + 1 < m {
                    e[i + 1] = s * r;
                }
                let (last_c, last_gamma) = (c, gamma);
                // 1 / c beside c: the one does not wait for the other.
                let (inverse, nothing) = (r / p, p == 0.0);
                (c, s) = (p / r, square / r);
                gamma = c * (d[i] - sigma) - s * last_gamma;
                d[i + 1] = last_gamma + (d[i] - gamma);
                p = if nothing { last_c * square } else { gamma * gamma * inverse };
            }
            e[l] = s * p;
            d[l] = sigma + gamma;
        }
    }
    Ok(())
}
