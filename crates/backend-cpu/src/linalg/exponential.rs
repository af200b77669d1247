//! The exponential of a matrix by scaling and squaring of Padé's approximants (Higham, "The scaling and squaring method for the
//! matrix exponential revisited", SIAM J. Matrix Anal. Appl. 26, 2005): the lowest degree that is exact to the last place of the
//! dtype, so that a matrix of a small norm needs few products.
use super::{
    Crew,
    lu::{FactoredMatrix, lu},
    product::{Onto, product, rows_of},
    vector::FactorElement,
};
use crate::{
    gemm::micro::Block,
    scratch::{ScratchVec, filled},
};
use adamant_runtime::ErrorKind;

/// Degrees, and the norms up to which they are exact.
const OF_F32: [(usize, f64); 3] = [(3, 4.258730016922831e-1), (5, 1.880152677804762), (7, 3.92572478313866)];
const OF_F64: [(usize, f64); 5] =
    [(3, 1.495585217958292e-2), (5, 2.53939833006323e-1), (7, 9.504178996162932e-1), (9, 2.097847961257068), (13, 5.371920351148152)];
/// A matrix of this norm has an exponential that is beyond f64 or is made of cancelled parts.
const MOST_SQUARINGS: f64 = 1100.0;

/// exp(a) of a matrix of n rows; NaN of one that is not finite.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn exponential<T: FactorElement>(crew: Crew<'_>, n: usize, a: &[T], out: &mut [T]) -> Result<(), ErrorKind> {
    let mut sums = filled(0.0f64, n)?;
    for row in a.chunks_exact(n) {
        sums.iter_mut().zip(row).for_each(|(sum, v)| *sum += v.wide().abs());
    }
    let norm = sums.iter().fold(0.0f64, |m, &v| if v <= m { m } else { v });
    if !norm.is_finite() {
        out.fill(T::nearest(f64::NAN));
        return Ok(());
    }
    let degrees: &[(usize, f64)] = if T::EPSILON > 1e-10 { &OF_F32 } else { &OF_F64 };
    let (most, farthest) = degrees[degrees.len() - 1];
    let degree = degrees.iter().find(|d| norm <= d.1).map_or(most, |d| d.0);
    let squarings = if norm > farthest { (norm / farthest).log2().ceil().min(MOST_SQUARINGS) as i32 } else { 0 };
    // In two steps: the power itself may be beyond the smallest number.
    let half = squarings / 2;
    let (first, second) = (0.5f64.powi(half), 0.5f64.powi(squarings - half));
    let mut small = filled(T::ZERO, n * n)?;
    small.iter_mut().zip(a).for_each(|(s, v)| *s = T::nearest(v.wide() * first * second));
    let (even, odd) = approximant(crew, n, degree, &small)?;
    // (even - odd)⁻¹ (even + odd).
    let (mut below, mut above) = (small, even);
    for ((b, a), o) in below.iter_mut().zip(above.iter_mut()).zip(&odd) {
        (*b, *a) = (*a - *o, *a + *o);
    }
    let mut columns = odd;
    T::context(crew.isa).transpose(&below, n, &mut columns, n, n, n);
    let mut pivots = filled(0usize, n)?;
    lu(crew, n, &mut columns, &mut pivots)?;
    let told = FactoredMatrix { rows: n, factors: &columns, pivots: &pivots };
    told.solve(crew, n, |row, from, x| x.copy_from_slice(&above[row * n + from..][..x.len()]), out)?;
    for _ in 0..squarings {
        below.copy_from_slice(out);
        multiply(crew, n, &below, &below, out)?;
    }
    Ok(())
}
fn multiply<T: FactorElement>(crew: Crew<'_>, n: usize, a: &[T], b: &[T], out: &mut [T]) -> Result<(), ErrorKind> {
    let share = crew.share(n, n * n, 8);
    crew.for_lines(out, n, share, |first, out| {
        product(crew.isa, Block::new(out, out.len() / n, n, n), n, rows_of(a, first * n, n), rows_of(b, 0, n), Onto::Nothing)
    })
}
/// The even and the odd part of the numerator of a degree.
fn approximant<T: FactorElement>(crew: Crew<'_>, n: usize, degree: usize, a: &[T]) -> Result<(ScratchVec<T>, ScratchVec<T>), ErrorKind> {
    let times = |a: &[T], b: &[T]| {
        let mut out = filled(T::ZERO, n * n)?;
        multiply(crew, n, a, b, &mut out)?;
        Ok::<_, ErrorKind>(out)
    };
    // b[degree] = 1, and each from the one above it.
    let mut b = [0.0f64; 14];
    b[degree] = 1.0;
    for j in (1..=degree).rev() {
        b[j - 1] = b[j] * ((2 * degree - j + 1) * j) as f64 / (degree - j + 1) as f64;
    }
    // Even powers from the second on: all of them, or of the thirteenth degree the first three, whose sums the third multiplies.
    let all = if degree == 13 { 3 } else { degree / 2 };
    let mut powers = vec![times(a, a)?];
    while powers.len() < all {
        let next = times(&powers[powers.len() - 1], &powers[0])?;
        powers.push(next);
    }
    // `constant I + Σ factors[2 k] a^(2 k + 2)`.
    let sum = |constant: f64, factors: &[f64]| {
        let mut out = filled(T::ZERO, n * n)?;
        for (power, factor) in powers.iter().zip(factors.iter().step_by(2)) {
            let factor = T::nearest(*factor);
            out.iter_mut().zip(power).for_each(|(o, p)| *o = *o + factor * *p);
        }
        (0..n).for_each(|k| out[k * n + k] = out[k * n + k] + T::nearest(constant));
        Ok::<_, ErrorKind>(out)
    };
    let part = |parity: usize| {
        let mut low = sum(b[parity], &b[parity + 2..])?;
        if degree == 13 {
            let high = times(&powers[2], &sum(0.0, &b[parity + 8..])?)?;
            low.iter_mut().zip(&high).for_each(|(l, h)| *l = *l + *h);
        }
        Ok::<_, ErrorKind>(low)
    };
    let (even, inner) = (part(0)?, part(1)?);
    Ok((even, times(a, &inner)?))
}
