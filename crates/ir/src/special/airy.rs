//! Airy's function of the first kind and its derivative. Right of 1/2 by Bessel functions of orders 1/3 and 2/3 (DLMF 9.6.2 and
//! 9.6.3); to -9.5 by the Taylor series about the next whole number, whose coefficients follow from `y'' = x y`; left of
//! that by the asymptotic series (DLMF 9.7.9 and 9.7.10), whose error is then below exp(-39).
use super::bessel::k_scaled;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Ai and its derivative at 0, -1, .., -9.
const CENTERS: [(f64, f64); 10] = [
    (0.3550280538878172, -0.2588194037928068),
    (0.5355608832923521, -0.01016056711664521),
    (0.22740742820168558, 0.618259020741691),
    (-0.37881429367765806, 0.3145837692165988),
    (-0.07026553294928951, -0.7906285753685813),
    (0.35076100902411433, 0.32719281855444315),
    (-0.3291451736298231, 0.3459354872813429),
    (0.18428083525050565, -0.7710081684101265),
    (-0.0527050503563862, 0.9355609381983065),
    (-0.022133721547341403, -0.9756639809263316),
];
/// 2/3 x^(3/2) for x > 0 as a sum of two numbers: its rounding alone would be an error of so many units of the result.
fn exponent(x: f64) -> (f64, f64) {
    let root = x.sqrt();
    let root_low = (-root).mul_add(root, x) / (2.0 * root);
    let product = x * root;
    let product_low = x.mul_add(root, -product) + x * root_low;
    let high = product * 2.0 / 3.0;
    (high, (high.mul_add(-1.5, product) + product_low) * 2.0 / 3.0)
}
/// Value and derivative at x.
fn airy(x: f64) -> (f64, f64) {
    // From about 108 on it is below the smallest number; far to the left the phase would overflow.
    if x > 200.0 {
        return (0.0, -0.0);
    }
    if x < -1e200 {
        return (0.0, f64::NAN);
    }
    if x > 0.5 {
        let (zeta, low) = exponent(x);
        let shrunk = (-zeta).exp() * (1.0 - low);
        return (shrunk * (x / 3.0).sqrt() / PI * k_scaled(1.0 / 3.0, zeta), -shrunk * x / (PI * 3f64.sqrt()) * k_scaled(2.0 / 3.0, zeta));
    }
    if x <= -9.5 { far_left(-x) } else { near_center(x) }
}
fn near_center(x: f64) -> (f64, f64) {
    let center = x.round().min(0.0);
    // Of NaN it is 0, and what follows is NaN.
    let (value, slope) = CENTERS[(-center) as usize];
    let away = x - center;
    let (mut before, mut this, mut next) = (0.0, value, slope);
    let (mut sum, mut slopes, mut power) = (value + slope * away, slope, away);
    for n in 0..30 {
        let after = (center * this + before) / ((n + 1) * (n + 2)) as f64;
        slopes += (n + 2) as f64 * after * power;
        power *= away;
        sum += after * power;
        (before, this, next) = (this, next, after);
    }
    (sum, slopes)
}
/// At -z.
fn far_left(z: f64) -> (f64, f64) {
    let (zeta, low) = exponent(z);
    let (mut term, mut value, mut slope) = (1.0f64, [1.0, 0.0], [1.0, 0.0]);
    for k in 1..40 {
        let n = k as f64;
        let after = term * (6.0 * n - 5.0) * (6.0 * n - 3.0) * (6.0 * n - 1.0) / (216.0 * n * (2.0 * n - 1.0)) / zeta;
        if after.abs() > term.abs() || after.abs() < 1e-18 {
            break;
        }
        term = after;
        let signed = if k / 2 % 2 == 1 { -term } else { term };
        value[k % 2] += signed;
        slope[k % 2] -= signed * (6.0 * n + 1.0) / (6.0 * n - 1.0);
    }
    // Of the sum of both parts: far out even the lower one is many turns.
    let ((sine, cosine), (sine_low, cosine_low)) = (zeta.sin_cos(), low.sin_cos());
    let (sine, cosine) = (sine * cosine_low + cosine * sine_low, cosine * cosine_low - sine * sine_low);
    let (sine, cosine) = ((sine - cosine) * FRAC_1_SQRT_2, (sine + cosine) * FRAC_1_SQRT_2);
    let (fourth, scale) = (z.sqrt().sqrt(), 1.0 / PI.sqrt());
    (scale / fourth * (cosine * value[0] + sine * value[1]), scale * fourth * (sine * slope[0] - cosine * slope[1]))
}
/// Ai(x).
pub fn airy_ai(x: f64) -> f64 {
    airy(x).0
}
/// Ai'(x).
pub fn airy_ai_derivative(x: f64) -> f64 {
    airy(x).1
}
