//! The regularized incomplete gamma functions, in pairs of f64: their first factor is e to the power of a difference of large
//! numbers, their series and fractions are long. Must not know who asks.
use super::{
    lgamma::{ln_gamma_pair, stirling_rest},
    pair::{DekkerPair, ONE, TAU_PAIR},
};

/// a ln(a/x) + x - a without cancellation near x = a (Loader, "Fast and Accurate Computation of Binomial Probabilities", 2000).
fn deviance(a: DekkerPair, x: DekkerPair) -> DekkerPair {
    let apart = a.minus(x);
    if apart.0.abs() > 0.1 * (a.0 + x.0) {
        return a.times(a.over(x).ln()).minus(apart);
    }
    let v = apart.over(a.plus(x));
    let (square, mut sum, mut power) = (v.times(v), apart.times(v), a.times(v).times(2.0.into()));
    for k in 1..60 {
        power = power.times(square);
        let term = power.over(DekkerPair::from((2 * k + 1) as f64));
        sum = sum.plus(term);
        if term.0.abs() <= sum.0 * 1e-30 {
            break;
        }
    }
    sum
}
/// xᵃ e⁻ˣ / Γ(a+1) times a factor, by Loader's saddle point form where a is large; multiplied before the power is rounded, for
/// that may be denormal where the product is not.
fn weighted(a: f64, x: f64, factor: DekkerPair) -> f64 {
    let (a, x) = (DekkerPair::from(a), DekkerPair::from(x));
    let (log, factor) = if a.0 < 32.0 {
        (a.times(x.ln()).minus(x).minus(ln_gamma_pair(a.plus(ONE))), factor)
    } else {
        (stirling_rest(a).plus(deviance(a, x)).negative(), factor.over(TAU_PAIR.times(a).sqrt()))
    };
    if log.0 < -2000.0 {
        return 0.0;
    }
    let (p, n) = log.exp();
    libm::scalbn(p.times(factor).value(), n)
}
/// P by its series (DLMF 8.7.1 multiplied out), good for x < a + 1.
fn lower_series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (ONE, ONE, DekkerPair::from(a));
    let x_pair = DekkerPair::from(x);
    while term.0 > sum.0 * 1e-20 {
        n = n.plus(ONE);
        term = term.times(x_pair).over(n);
        sum = sum.plus(term);
    }
    weighted(a, x, sum)
}
/// Q by its continued fraction (DLMF 8.9.2), evaluated by Lentz's method, good for x > a + 1.
fn upper_fraction(a: f64, x: f64) -> f64 {
    let a_pair = DekkerPair::from(a);
    let mut b = DekkerPair::from(x).plus(ONE).minus(a_pair);
    let mut d = ONE.over(b);
    let (mut c, mut h) = (DekkerPair::from(1e300), d);
    for i in 1..100_000 {
        let i = DekkerPair::from(f64::from(i));
        let n = i.times(a_pair.minus(i));
        b = b.plus(2.0.into());
        d = ONE.over(n.times(d).plus(b));
        c = b.plus(n.over(c));
        let step = c.times(d);
        h = h.times(step);
        if step.minus(ONE).0.abs() < 1e-20 {
            break;
        }
    }
    weighted(a, x, a_pair.times(h))
}
/// Q for small x: 1 - xᵃ/Γ(1+a) · (1 + a Σ (-x)ⁿ / (n! (a+n))) without the cancellation at small a.
fn upper_series(a: f64, x: f64) -> f64 {
    let (x, a) = (DekkerPair::from(x), DekkerPair::from(a));
    let (mut power, mut sum) = (ONE, DekkerPair::from(0.0));
    for n in 1..60 {
        let n = DekkerPair::from(f64::from(n));
        power = power.times(x).over(n.negative());
        let term = power.over(a.plus(n));
        sum = sum.plus(term);
        if term.0.abs() < 1e-30 * sum.0.abs() {
            break;
        }
    }
    let log = a.times(x.ln()).minus(ln_gamma_1p(a));
    // e^log - 1 by its series where log is small.
    let minus_1 = if log.0.abs() < 0.3 {
        (2..=25).rev().fold(ONE, |s, k| ONE.plus(log.times(s).over(DekkerPair::from(f64::from(k))))).times(log)
    } else {
        let (p, n) = log.exp();
        DekkerPair(libm::scalbn(p.0, n), libm::scalbn(p.1, n)).minus(ONE)
    };
    minus_1.plus(minus_1.plus(ONE).times(a).times(sum)).negative().value()
}
/// ln Γ(1 + a), which is 0 at 0; below an eighth by Taylor's series, whose coefficients are -γ and ζ(k) (-1)ᵏ / k (DLMF 5.7.3).
fn ln_gamma_1p(a: DekkerPair) -> DekkerPair {
    const EULER: DekkerPair = DekkerPair(0.5772156649015329, -4.942915152430645e-18);
    if a.0 > 0.125 {
        return ln_gamma_pair(a.plus(ONE));
    }
    let sum = (2..40).rev().fold(0.0, |sum, k| super::zeta(f64::from(k), 1.0) / f64::from(k) - a.0 * sum);
    a.times(a.times(sum.into()).minus(EULER))
}
/// (P, Q) of an a so large that all happens beside x = a: Temme's uniform expansion (DLMF 8.12.3), of whose terms the first is left.
fn large(a: f64, x: f64) -> (f64, f64) {
    let r = x / a - 1.0;
    if r.abs() > 0.01 {
        return if r > 0.0 { (1.0, 0.0) } else { (0.0, 1.0) };
    }
    // r - ln(1 + r)
    let deviance = a * r * r * (0..12).rev().fold(0.0, |sum, k| 1.0 / f64::from(k + 2) - r * sum);
    let (side, rest) = (deviance.sqrt().copysign(r), (-deviance).exp() / (3.0 * (std::f64::consts::TAU * a).sqrt()));
    (0.5 * libm::erfc(-side) + rest, 0.5 * libm::erfc(side) - rest)
}
/// The values at the edges, as (P, Q): PyTorch's conventions.
fn edges(a: f64, x: f64) -> Option<(f64, f64)> {
    if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 {
        return Some((f64::NAN, f64::NAN));
    }
    if a == 0.0 {
        return Some(if x > 0.0 { (1.0, 0.0) } else { (f64::NAN, f64::NAN) });
    }
    if x == 0.0 {
        return Some((0.0, 1.0));
    }
    if a.is_infinite() {
        return Some(if x.is_infinite() { (f64::NAN, f64::NAN) } else { (0.0, 1.0) });
    }
    x.is_infinite().then_some((1.0, 0.0))
}
/// The regularized lower incomplete gamma function P(a, x).
pub fn igamma(a: f64, x: f64) -> f64 {
    if let Some((p, _)) = edges(a, x) {
        return p;
    }
    if a > 1e12 {
        return large(a, x).0;
    }
    if x < a + 1.0 { lower_series(a, x) } else { 1.0 - upper_fraction(a, x) }
}
/// The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x).
pub fn igammac(a: f64, x: f64) -> f64 {
    if let Some((_, q)) = edges(a, x) {
        return q;
    }
    if a > 1e12 {
        return large(a, x).1;
    }
    if x < 1.5 && a < 0.5 {
        upper_series(a, x)
    } else if x < a + 1.0 {
        1.0 - lower_series(a, x)
    } else {
        upper_fraction(a, x)
    }
}
