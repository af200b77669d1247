//! Modified Bessel functions. Those of the first kind up to 20 by the power series, whose terms all have one sign (DLMF
//! 10.25.2) and are pairs: rounded, the error of x² and of each term would be one of the sum several times larger; above by the
//! asymptotic series (DLMF 10.40.1), whose error is then below exp(-40). Those of the second kind up to 1 by
//! the power series (DLMF 10.31.1); above by the trapezoidal rule on the integral of DLMF 10.32.9, which converges
//! exponentially (Trefethen and Weideman, "The exponentially convergent trapezoidal rule", 2014). And the spherical one of order 0.
use super::pair::{DekkerPair, ONE, TAU_PAIR};
use std::f64::consts::{LN_2, TAU};

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

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;
/// exp(x) K(x) of any real order for x of at least about 0.2: the integral of exp(-x (cosh t - 1)) cosh(order t) over t from 0. The
/// integrand is entire, and the step so small that what the rule leaves out is below exp(-38).
pub(super) fn k_scaled(order: f64, x: f64) -> f64 {
    let step = 0.2f64.min(0.6 / x.sqrt());
    let mut sum = 0.5;
    // Fewer than 70 terms are not below the last place.
    for k in 1..100 {
        let t = step * k as f64;
        let lost = 2.0 * x * (0.5 * t).sinh().powi(2);
        let term = (-lost).exp() * (order * t).cosh();
        sum += term;
        if term < sum * 1e-18 {
            break;
        }
    }
    sum * step
}
/// What both orders are where there is nothing to compute: NaN below 0, infinite at 0, 0 at infinity.
fn k_edge(x: f64) -> Option<f64> {
    match x {
        x if x.is_nan() || x < 0.0 => Some(f64::NAN),
        0.0 => Some(f64::INFINITY),
        f64::INFINITY => Some(0.0),
        _ => None,
    }
}
/// K₀(x) for x up to 1: Σ q^k / k!² (ψ(k + 1) - ln(x/2)), q = x²/4.
fn k0_small(x: f64) -> f64 {
    let (q, log) = (0.25 * x * x, x.ln() - LN_2);
    let (mut term, mut psi, mut sum) = (1.0, -EULER, -EULER - log);
    for k in 1..20 {
        term *= q / (k * k) as f64;
        psi += 1.0 / k as f64;
        sum += term * (psi - log);
    }
    sum
}
/// K₁(x) for x up to 1: 1/x + x/2 Σ q^k / (k! (k+1)!) (ln(x/2) - (ψ(k + 1) + ψ(k + 2)) / 2).
fn k1_small(x: f64) -> f64 {
    let (q, log) = (0.25 * x * x, x.ln() - LN_2);
    let (mut term, mut psi) = (1.0, 0.5 - EULER);
    let mut sum = log - psi;
    for k in 1..20 {
        term *= q / (k * (k + 1)) as f64;
        psi += 0.5 / k as f64 + 0.5 / (k + 1) as f64;
        sum += term * (log - psi);
    }
    1.0 / x + 0.5 * x * sum
}
/// K₀(x).
pub fn k0(x: f64) -> f64 {
    k_edge(x).unwrap_or_else(|| if x > 1.0 { (-x).exp() * k_scaled(0.0, x) } else { k0_small(x) })
}
/// exp(x) K₀(x).
pub fn k0e(x: f64) -> f64 {
    k_edge(x).unwrap_or_else(|| if x > 1.0 { k_scaled(0.0, x) } else { x.exp() * k0_small(x) })
}
/// K₁(x).
pub fn k1(x: f64) -> f64 {
    k_edge(x).unwrap_or_else(|| if x > 1.0 { (-x).exp() * k_scaled(1.0, x) } else { k1_small(x) })
}
/// exp(x) K₁(x).
pub fn k1e(x: f64) -> f64 {
    k_edge(x).unwrap_or_else(|| if x > 1.0 { k_scaled(1.0, x) } else { x.exp() * k1_small(x) })
}
/// sin(x) / x.
pub fn spherical_j0(x: f64) -> f64 {
    if x == 0.0 {
        1.0
    } else if x.is_infinite() {
        0.0
    } else {
        x.sin() / x
    }
}
