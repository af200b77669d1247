//! The gamma function's derivatives and the Hurwitz zeta function.
use super::{
    pair::{DekkerPair, ONE, PI_PAIR},
    sin_pi,
};
use std::f64::consts::PI;

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;

/// Digamma's positive root as a sum of two f64, and the Taylor coefficients ψ⁽ᵏ⁾(root)/k! there, k ≥ 1.
const ROOT: (f64, f64) = (1.4616321449683622, 9.549995429965697e-17);
const AT_ROOT: [f64; 25] = [
    0.9676722454476212,
    -0.4427631689835921,
    0.258499760955651,
    -0.16394270544240652,
    0.10782405069126237,
    -0.07219956125645471,
    0.04880428816414311,
    -0.03316112647484736,
    0.022597648232218104,
    -0.01542476590494896,
    0.010538791616612175,
    -0.007204534386356869,
    0.004926781395729853,
    -0.003369801655439328,
    0.002305126326734928,
    -0.0015769367714301972,
    0.0010788252019162967,
    -0.0007380709389960052,
    0.000504953265834602,
    -0.0003454680251063077,
    0.00023635601564027053,
    -0.00016170622091974803,
    0.0001106337276874741,
    -7.569179582195066e-05,
    5.178575795222081e-05,
];
/// Bernoulli's numbers, divided: B₂ₖ / (2k)! for k from 1 on, the coefficients of Euler and Maclaurin's formula.
pub const BERNOULLI: [f64; 12] = [
    0.08333333333333333,
    -0.001388888888888889,
    3.306878306878307e-05,
    -8.267195767195768e-07,
    2.08767569878681e-08,
    -5.284190138687493e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.586062056277845e-15,
    -2.174868698558062e-16,
    5.5090028283602295e-18,
    -1.3954464685812522e-19,
];

/// ψ(x) = Γ'(x)/Γ(x): reflection (DLMF 5.5.4), recurrence (5.5.2) up to 10, asymptotic series (5.11.2); around its
/// root by Taylor's series. At 0: infinity of the other sign; NaN at negative integers.
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x == x.floor() {
            return f64::NAN;
        }
        let (other_side, cotangent) = (digamma(1.0 - x), PI * super::cos_pi(x) / sin_pi(x));
        let value = other_side - cotangent;
        return if value.abs() < 0.5 * other_side.abs() || value.abs() < 2.0 { digamma_near_root(x) } else { value };
    }
    if (1.2..1.75).contains(&x) {
        let d = (x - ROOT.0) - ROOT.1;
        return AT_ROOT.iter().rev().fold(0.0, |p, c| p * d + c) * d;
    }
    if x < 0.8 {
        // Here the pole is most of it: a sum of all steps would be rounded in its units.
        return if x < 1e-17 { -1.0 / x - EULER } else { digamma(x + 1.0) - 1.0 / x };
    }
    let (mut shifted, mut steps) = (x, 0.0);
    while shifted < 10.0 {
        steps += 1.0 / shifted;
        shifted += 1.0;
    }
    let r = 1.0 / (shifted * shifted);
    // B₂ₖ / 2k
    let series = [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0, -3617.0 / 8160.0];
    let value = shifted.ln() - 0.5 / shifted - r * series.iter().rev().fold(0.0, |p, c| p * r + c) - steps;
    if value.abs() < 1.0 { digamma_near_root(x) } else { value }
}
/// ψ by the same formulas in pairs: near a root little is left of any part.
fn digamma_near_root(x: f64) -> f64 {
    // (-1)ᵏ |B₂ₖ| / 2k as fractions
    const SERIES: [(f64, f64); 11] = [
        (1.0, 12.0),
        (-1.0, 120.0),
        (1.0, 252.0),
        (-1.0, 240.0),
        (1.0, 132.0),
        (-691.0, 32760.0),
        (1.0, 12.0),
        (-3617.0, 8160.0),
        (43867.0, 14364.0),
        (-174611.0, 6600.0),
        (854513.0, 3036.0),
    ];
    let (mut at, mut steps) = (if x < 0.0 { DekkerPair::sum(1.0, -x) } else { x.into() }, DekkerPair::from(0.0));
    while at.0 < 32.0 {
        steps = steps.plus(ONE.over(at));
        at = at.plus(ONE);
    }
    let r = ONE.over(at.times(at));
    let series = SERIES.iter().rev().fold(DekkerPair::from(0.0), |sum, &(p, q)| sum.plus(DekkerPair::from(p).over(q.into())).times(r));
    let other_side = at.ln().minus(DekkerPair::from(0.5).over(at)).minus(series).minus(steps);
    if x > 0.0 {
        return other_side.value();
    }
    let (sine, cosine) = DekkerPair::from(x - x.round()).sin_cos_pi();
    other_side.minus(PI_PAIR.times(cosine).over(sine)).value()
}
/// ψ'(x): reflection, recurrence up to 10, asymptotic series (DLMF 5.15.5, 5.15.6, 5.15.8).
pub fn trigamma(x: f64) -> f64 {
    if x <= 0.0 {
        let s = sin_pi(x);
        return if x == x.floor() { f64::INFINITY } else { (PI / s) * (PI / s) - trigamma(1.0 - x) };
    }
    let (mut shifted, mut steps) = (x, 0.0);
    while shifted < 10.0 {
        steps += 1.0 / (shifted * shifted);
        shifted += 1.0;
    }
    let r = 1.0 / (shifted * shifted);
    let series = [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0, -3617.0 / 510.0];
    steps + 1.0 / shifted + 0.5 * r + r / shifted * series.iter().rev().fold(0.0, |p, c| p * r + c)
}
/// ψ⁽ⁿ⁾(x) = (-1)ⁿ⁺¹ n! ζ(n+1, x) (DLMF 25.11.12). NaN unless n is a whole number ≥ 0.
pub fn polygamma(x: f64, n: f64) -> f64 {
    if n < 0.0 || n != n.trunc() || n.is_infinite() {
        return f64::NAN;
    }
    if n == 0.0 {
        return digamma(x);
    }
    if n == 1.0 {
        return trigamma(x);
    }
    let factorial = if n < 170.0 { (2..=n as u32).fold(1.0, |product, k| product * f64::from(k)) } else { libm::tgamma(n + 1.0) };
    let size = factorial * zeta(n + 1.0, x);
    if n % 2.0 == 0.0 { -size } else { size }
}
/// Hurwitz' ζ(s, q) = Σ (k + q)^-s for s > 1, by Euler and Maclaurin's formula (DLMF 25.11.28 for its terms). Of a
/// negative q, for whole s: the terms below zero are summed as the difference of two such series.
pub fn zeta(s: f64, q: f64) -> f64 {
    if s == 1.0 {
        return f64::INFINITY;
    }
    if s.is_nan() || q.is_nan() || s < 1.0 {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q == q.floor() {
            return f64::INFINITY;
        }
        if s != s.floor() {
            return f64::NAN;
        }
        let f = q - q.floor();
        let below = zeta(s, 1.0 - f) - zeta(s, 1.0 - q);
        return zeta(s, f) + if s % 2.0 == 0.0 { below } else { -below };
    }
    // From here on each of the formula's terms is at most a 36th of the one before. A place is a pair: s times what is rounded off
    // it is missing in its power.
    let power = |at: DekkerPair, n: f64| {
        let whole = at.0.powf(n);
        if at.1 == 0.0 { whole } else { whole + whole * (n * at.1 / at.0) }
    };
    let (mut at, mut sum) = (DekkerPair::from(q), DekkerPair::from(0.0));
    while at.0 < 12.0 + s {
        let term = power(at, -s);
        let next = sum.plus(term.into());
        if !next.0.is_finite() {
            return f64::INFINITY;
        }
        if term <= next.0 * 1e-18 {
            return next.value();
        }
        sum = next;
        at = at.plus(ONE);
    }
    let edge = power(at, -s);
    // Not edge · at, of which the first is 0 for a large number already.
    let rest = DekkerPair::from(power(at, 1.0 - s)).over((s - 1.0).into());
    // (s)₂ₖ₋₁ at^(1-s-2k), growing by two factors a step
    let (mut factor, mut series) = (edge * s / at.0, 0.5 * edge);
    for (k, b) in BERNOULLI.iter().enumerate() {
        let term = b * factor;
        series += term;
        if term.abs() < (sum.0 + rest.0) * 1e-18 {
            break;
        }
        let n = s + 2.0 * k as f64;
        factor *= (n + 1.0) * (n + 2.0) / (at.0 * at.0);
    }
    sum.plus(rest.plus(series.into())).value()
}
