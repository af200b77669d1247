//! The error function's relatives: scaled, inverse, and the normal distribution's.
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, PI, SQRT_2};

/// 1/√2 minus the f64 nearest to it.
const FRAC_1_SQRT_2_REST: f64 = -4.833646656726457e-17;

/// exp(x²) · erfc(x). Below 25 by its definition, with x² in two parts so that its rounding is not magnified; above by
/// the asymptotic series (DLMF 7.12.1).
pub fn erfcx(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 * exp_square(x) - erfcx(-x);
    }
    if x < 25.0 || x.is_nan() {
        return exp_square(x) * libm::erfc(x);
    }
    let r = 0.5 / (x * x);
    let series = 1.0 - r * (1.0 - 3.0 * r * (1.0 - 5.0 * r * (1.0 - 7.0 * r * (1.0 - 9.0 * r * (1.0 - 11.0 * r * (1.0 - 13.0 * r))))));
    series * (0.5 * FRAC_2_SQRT_PI) / x
}
/// exp(x²); the rounding error of x² enters as a factor.
fn exp_square(x: f64) -> f64 {
    let square = x * x;
    let e = square.exp();
    if e.is_infinite() { e } else { e * (1.0 + x.mul_add(x, -square)) }
}

/// The inverse of erf on (-1, 1): a first guess by Giles ("Approximating the erfinv function", GPU Computing Gems,
/// 2011), two steps of Halley on erf; beyond one half through [`erfcinv`], where 1 - |x| is exact.
pub fn erfinv(x: f64) -> f64 {
    if x.abs() > 0.5 {
        return erfcinv(1.0 - x.abs()).copysign(x);
    }
    let w = -((1.0 - x) * (1.0 + x)).ln() - 2.5;
    let guess = [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941];
    let mut y = guess.iter().fold(0.0, |p, c| p * w + c) * x;
    for _ in 0..2 {
        let step = (libm::erf(y) - x) / (FRAC_2_SQRT_PI * (-y * y).exp());
        y -= step / (1.0 + y * step);
    }
    y
}
/// The inverse of erfc on (0, 2). Below one half by Newton's method on ln erfc(y) = ln erfcx(y) - y², which is nearly
/// a parabola and does not underflow.
pub fn erfcinv(q: f64) -> f64 {
    if q.is_nan() || !(0.0..=2.0).contains(&q) {
        return f64::NAN;
    }
    if q > 1.0 {
        return -erfcinv(2.0 - q);
    }
    if q >= 0.5 {
        return erfinv(1.0 - q);
    }
    if q == 0.0 {
        return f64::INFINITY;
    }
    let l = -q.ln();
    let mut y = (l - 0.5 * (PI * l).ln()).max(0.2).sqrt();
    for _ in 0..6 {
        let e = erfcx(y);
        y += (e.ln() - y * y + l) * e / FRAC_2_SQRT_PI;
    }
    y
}

/// The normal distribution function erfc(-x/√2) / 2, with x/√2 in two parts: deep in the tail a rounding of the
/// argument would be magnified x² times.
pub fn ndtr(x: f64) -> f64 {
    let z = -x * FRAC_1_SQRT_2;
    let rest = (-x).mul_add(FRAC_1_SQRT_2, -z) - x * FRAC_1_SQRT_2_REST;
    let rest = if rest.is_finite() { rest } else { 0.0 };
    0.5 * (libm::erfc(z) - FRAC_2_SQRT_PI * (-z * z).exp() * rest)
}
/// ln of [`ndtr`]: in the left tail through [`erfcx`], elsewhere through the other side's small probability.
pub fn log_ndtr(x: f64) -> f64 {
    if x < -1.0 { erfcx(-x * FRAC_1_SQRT_2).ln() - LN_2 - 0.5 * x * x } else { (-ndtr(-x)).ln_1p() }
}
/// The inverse of [`ndtr`].
pub fn ndtri(p: f64) -> f64 {
    -SQRT_2 * erfcinv(2.0 * p)
}
