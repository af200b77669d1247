//! Modified Bessel functions of the first kind. Up to 20 by the power series, whose terms all have one sign (DLMF
//! 10.25.2) and are pairs: rounded, the error of x² and of each term would be one of the sum several times larger; above by the asymptotic series (DLMF 10.40.1), whose error is then below exp(-40).
use super::pair::{DekkerPair, ONE, TAU_PAIR};
use std::f64::consts::TAU;

const SWITCH: f64 = 20.0;

/// Σ (x²/4)^k / (k! (k+order)!), for order 0 and 1.
fn series(order: usize, x: f64) -> f64 {
    let half = DekkerPair::from(0.5 * x);
    let q = half.times(half);
    let (mut term, mut sum) = (ONE, ONE);
    for k in 1..200 {
        term = term.times(q).over(DekkerPair::from((k * (k + order)) as f64));
        sum = sum.plus(term);
        if term.0 < sum.0 * 1e-18 {
            break;
        }
    }
    sum.value()
}
/// exp(-x) I(x) for large x.
fn scaled_asymptotic(order: usize, x: f64) -> f64 {
    let mu = 4.0 * (order * order) as f64;
    let (mut term, mut sum) = (1.0f64, ONE);
    for k in 1..40 {
        let odd = (2 * k - 1) as f64;
        let next = -term * (mu - odd * odd) / (8.0 * k as f64 * x);
        if next.abs() > term.abs() || next.abs() < 1e-18 {
            break;
        }
        term = next;
        sum = sum.plus(term.into());
    }
    if x > 1e300 { sum.0 / (TAU.sqrt() * x.sqrt()) } else { sum.over(TAU_PAIR.times(x.into()).sqrt()).value() }
}
/// exp(a) · b, where exp(a) alone may overflow.
fn exp_times(a: f64, b: f64) -> f64 {
    if a < 700.0 {
        return a.exp() * b;
    }
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
