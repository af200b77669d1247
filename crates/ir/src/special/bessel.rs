//! Modified Bessel functions of the first kind. Up to 20 by the power series, whose terms all have one sign (DLMF
//! 10.25.2); above by the asymptotic series (DLMF 10.40.1), whose error is then below exp(-40).
use std::f64::consts::TAU;

const SWITCH: f64 = 20.0;

/// Σ (x²/4)^k / (k! (k+order)!), for order 0 and 1.
fn series(order: usize, x: f64) -> f64 {
    let q = 0.25 * x * x;
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..200 {
        term *= q / (k * (k + order)) as f64;
        sum += term;
        if term < sum * 1e-18 {
            break;
        }
    }
    sum
}
/// exp(-x) I(x) for large x.
fn scaled_asymptotic(order: usize, x: f64) -> f64 {
    let mu = 4.0 * (order * order) as f64;
    let (mut term, mut sum) = (1.0f64, 1.0f64);
    for k in 1..40 {
        let odd = (2 * k - 1) as f64;
        let next = -term * (mu - odd * odd) / (8.0 * k as f64 * x);
        if next.abs() > term.abs() || next.abs() < 1e-18 {
            break;
        }
        term = next;
        sum += term;
    }
    sum / (TAU * x).sqrt()
}
/// exp(a) · b, where exp(a) alone may overflow.
fn exp_times(a: f64, b: f64) -> f64 {
    let half = (0.5 * a).exp();
    half * b * half
}

/// I₀(x).
pub fn i0(x: f64) -> f64 {
    let a = x.abs();
    if a.is_infinite() {
        a
    } else if a > SWITCH {
        exp_times(a, scaled_asymptotic(0, a))
    } else {
        series(0, a)
    }
}
/// exp(-|x|) I₀(x).
pub fn i0e(x: f64) -> f64 {
    let a = x.abs();
    if a > SWITCH { scaled_asymptotic(0, a) } else { (-a).exp() * series(0, a) }
}
/// I₁(x).
pub fn i1(x: f64) -> f64 {
    let a = x.abs();
    if a.is_infinite() {
        x
    } else if a > SWITCH {
        exp_times(a, scaled_asymptotic(1, a)).copysign(x)
    } else {
        0.5 * x * series(1, a)
    }
}
/// exp(-|x|) I₁(x).
pub fn i1e(x: f64) -> f64 {
    let a = x.abs();
    if a > SWITCH { scaled_asymptotic(1, a).copysign(x) } else { 0.5 * x * (-a).exp() * series(1, a) }
}
