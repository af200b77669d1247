//! The exponential of a matrix by scaling and squaring of Padé's approximant of degree 13 (Higham, "The scaling and squaring
//! method for the matrix exponential revisited", SIAM J. Matrix Anal. Appl. 26, 2005).
use super::{Matrix, lu};

/// Coefficients of the numerator.
const B: [f64; 14] = [
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
];
/// The norm to which the approximant is exact to the last place.
const THETA: f64 = 5.371920351148152;
/// A matrix of this norm has an exponential that is beyond f64 or is made of cancelled parts.
const MOST_SQUARINGS: f64 = 1100.0;

/// exp(a); `None`: the matrix is not finite.
pub(in super::super) fn exponential(a: &Matrix) -> Option<Matrix> {
    let n = a.rows;
    let norm = (0..n).map(|j| (0..n).map(|i| a.get(i, j).abs()).sum::<f64>()).fold(0.0, f64::max);
    if !norm.is_finite() || a.data.iter().any(|x| x.is_nan()) {
        return None;
    }
    let squarings = if norm > THETA { (norm / THETA).log2().ceil().min(MOST_SQUARINGS) as i32 } else { 0 };
    // In two steps: the power itself may be beyond the smallest number.
    let half = squarings / 2;
    let a = scaled(&scaled(a, 0.5f64.powi(half)), 0.5f64.powi(squarings - half));
    let a2 = a.times(&a);
    let a4 = a2.times(&a2);
    let a6 = a4.times(&a2);
    let powers = [&Matrix::identity(n), &a2, &a4, &a6];
    let odd = a.times(&plus(&a6.times(&sum(&powers[1..], &[B[9], B[11], B[13]])), &sum(&powers, &[B[1], B[3], B[5], B[7]])));
    let even = plus(&a6.times(&sum(&powers[1..], &[B[8], B[10], B[12]])), &sum(&powers, &[B[0], B[2], B[4], B[6]]));
    let mut result = lu(plus(&even, &scaled(&odd, -1.0))).solve(&plus(&even, &odd));
    for _ in 0..squarings {
        result = result.times(&result);
    }
    Some(result)
}
fn scaled(a: &Matrix, by: f64) -> Matrix {
    Matrix::new(a.rows, a.columns, a.data.iter().map(|x| x * by).collect())
}
fn plus(a: &Matrix, b: &Matrix) -> Matrix {
    Matrix::new(a.rows, a.columns, a.data.iter().zip(&b.data).map(|(x, y)| x + y).collect())
}
fn sum(of: &[&Matrix], by: &[f64]) -> Matrix {
    of.iter().zip(by).fold(Matrix::zeros(of[0].rows, of[0].columns), |all, (m, &factor)| plus(&all, &scaled(m, factor)))
}
