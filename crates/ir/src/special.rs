//! Special functions in f64 that neither std nor libm has, each with the source of its method. They are the exact
//! meaning of rows of the scalar table, so they aim at a few units in the last place and not at speed.
mod airy;
mod bessel;
mod error_function;
mod gamma;
mod gelu;
mod incomplete;
mod lgamma;
mod pair;

pub use airy::{airy_ai, airy_ai_derivative};
pub use bessel::{i0, i0e, i1, i1e, k0, k0e, k1, k1e, spherical_j0};
pub use error_function::{erfcinv, erfcx, erfinv, log_ndtr, ndtr, ndtri};
pub use gamma::{BERNOULLI, digamma, polygamma, trigamma, zeta};
pub use gelu::gelu;
pub use incomplete::{igamma, igammac};
pub use lgamma::lgamma;

use pair::{DekkerPair, LN_2_PAIR, ONE};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, PI};

/// √(2/π) and 0.044715 of the tanh form of gelu (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016).
pub const GELU_SCALE: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
/// The factor of the cube.
pub const GELU_CUBE: f64 = 0.044715;
/// 2 √(2/π) and the factor of the cube beyond their nearest f64.
const GELU_LINE_PAIR: DekkerPair = DekkerPair(2.0 * GELU_SCALE, -9.96930880911092e-17);
const GELU_CUBE_PAIR: DekkerPair = DekkerPair(GELU_CUBE, 2.1960211427085595e-18);
/// The tanh form of gelu: x σ(u), u = 2 √(2/π) (x + 0.044715 x³). For negative x an error of u is one of the result as
/// many times larger as |u|, so u is kept as a pair of numbers whose sum it is.
pub fn gelu_tanh(x: f64) -> f64 {
    // Beyond 30 the logistic is 0 or 1.
    if x.is_nan() || x.abs() > 30.0 {
        return if x == f64::NEG_INFINITY {
            f64::NAN
        } else if x < 0.0 {
            -0.0
        } else {
            x
        };
    }
    let square = DekkerPair::from(x).times(x.into());
    let DekkerPair(u, u_low) = ONE.plus(GELU_CUBE_PAIR.times(square)).times(GELU_LINE_PAIR.times(x.into()));
    if u < -700.0 {
        // e^u has few bits or none where the product still has some.
        let root = (u / 2.0).exp();
        return x * root * (1.0 + u_low) * root;
    }
    let rest = -u_low * u.signum();
    let first = (-u.abs()).exp();
    let e = first + first * rest;
    if x < -1.0 {
        // What the product and the quotient change is added last, so that little is lost by it.
        let DekkerPair(line, line_low) = DekkerPair::from(x).times(first.into());
        return line + (line_low + line * (rest - e / (1.0 + e)));
    }
    if x < 0.0 { x * e / (1.0 + e) } else { x / (1.0 + e) }
}

/// floor(x / y) as Python and PyTorch define it: exact where x / y rounds up to an integer that it is not.
pub fn floor_divide(x: f64, y: f64) -> f64 {
    if y == 0.0 {
        return x / y;
    }
    let rem = x % y;
    let mut div = (x - rem) / y;
    if rem != 0.0 && (y < 0.0) != (rem < 0.0) {
        div -= 1.0;
    }
    if div == 0.0 {
        0f64.copysign(x / y)
    } else {
        let f = div.floor();
        if div - f > 0.5 { f + 1.0 } else { f }
    }
}
/// x mod y with the sign of y.
pub fn remainder(x: f64, y: f64) -> f64 {
    let r = x % y;
    if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
}
/// floor(x / y) of integers; `None` for y = 0.
pub fn int_floor_divide(x: i64, y: i64) -> Option<i64> {
    // Not (x - remainder) / y, which overflows for the largest x.
    let inexact_below_zero = int_remainder(x, y)? != x.wrapping_rem(y);
    Some(x.wrapping_div(y) - inexact_below_zero as i64)
}
/// x mod y of integers, with the sign of y; `None` for y = 0.
pub fn int_remainder(x: i64, y: i64) -> Option<i64> {
    if y == 0 {
        return None;
    }
    let r = x.wrapping_rem(y);
    Some(if r != 0 && (r < 0) != (y < 0) { r + y } else { r })
}
/// Integer power by repeated squaring, wrapping; a negative exponent gives what 1 / x^|y| truncates to (0 for x = 0).
pub fn int_pow(x: i64, y: i64) -> i64 {
    if y < 0 {
        return match x {
            1 => 1,
            -1 => 1 - 2 * (y & 1),
            _ => 0,
        };
    }
    let (mut base, mut left, mut product) = (x, y, 1i64);
    while left > 0 {
        if left & 1 == 1 {
            product = product.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        left >>= 1;
    }
    product
}
/// The greatest common divisor, not negative (Euclid); gcd(0, 0) = 0.
pub fn gcd(x: i64, y: i64) -> i64 {
    let (mut a, mut b) = (x.unsigned_abs(), y.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i64
}
/// The least common multiple, not negative, wrapping; 0 if either is 0.
pub fn lcm(x: i64, y: i64) -> i64 {
    match gcd(x, y) as u64 {
        0 => 0,
        g => (x.unsigned_abs() / g).wrapping_mul(y.unsigned_abs()) as i64,
    }
}
/// x · 2ʸ of integers; 0 for y outside the width.
pub fn shift_left(x: i64, y: i64) -> i64 {
    if (0..64).contains(&y) { x << y } else { 0 }
}
/// x shifted right with its sign; for y outside the width only the sign stays.
pub fn shift_right(x: i64, y: i64) -> i64 {
    x >> if (0..64).contains(&y) { y } else { 63 }
}

/// 1 / (1 + exp(-x)), without overflow on either side.
pub fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}
/// x · sigmoid(x). Far below zero the power keeps digits that it would not have by itself until x has multiplied it.
///
/// ```
/// // By 60 digits of decimal arithmetic.
/// assert_eq!(adamant_ir::special::silu(-721.7009805705479), -2.676725580969264601397e-311);
/// ```
pub fn silu(x: f64) -> f64 {
    if x < -600.0 { x * (x + 100.0).exp() * (-100f64).exp() } else { x * sigmoid(x) }
}
/// ln(1 + exp(x)), without overflow.
pub fn softplus(x: f64) -> f64 {
    x.max(0.0) + if x.is_nan() { x } else { (-x.abs()).exp().ln_1p() }
}
/// x · tanh(softplus(x)) = x · n / (n + 2) with n = eˣ(eˣ + 2), which does not cancel anywhere.
pub fn mish(x: f64) -> f64 {
    if x > 40.0 {
        return x;
    }
    if x < -600.0 {
        // As in [`silu`], to which nothing else is left.
        return silu(x);
    }
    let e = x.exp();
    let n = e * (e + 2.0);
    // Below zero as x eˣ less a share of it, which has fewer roundings.
    if x < 0.0 { x * e * (1.0 - e * (e + 1.0) / (n + 2.0)) } else { x * (n / (n + 2.0)) }
}
/// ln(x / (1 - x)); near one half as ln(1 + (2x - 1) / (1 - x)), where 2x - 1 is exact.
pub fn logit(x: f64) -> f64 {
    if (0.3..0.7).contains(&x) { ((2.0 * x - 1.0) / (1.0 - x)).ln_1p() } else { x.ln() - (-x).ln_1p() }
}
/// ln(eˣ + eʸ), without overflow. Where the larger one is about minus what the other adds, both are pairs.
pub fn logaddexp(x: f64, y: f64) -> f64 {
    if x == y && x.is_infinite() {
        return x;
    }
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    let (top, less) = (x.max(y), x.min(y));
    let apart = DekkerPair::sum(less, -top);
    let power = apart.0.exp();
    // What the difference is rounded by is worth as much of the power.
    let more = power.ln_1p() + if apart.1.is_finite() { power / (1.0 + power) * apart.1 } else { 0.0 };
    let sum = top + more;
    if sum.abs() < 0.6 * (top.abs() + more) || less - top < -2.0 && more > 0.25 * top.abs() { log_one_and_power(apart).plus(top.into()).value() } else { sum }
}
/// log₂(2ˣ + 2ʸ), without overflow; pairs as in [`logaddexp`].
pub fn logaddexp2(x: f64, y: f64) -> f64 {
    if x == y && x.is_infinite() {
        return x;
    }
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    let (top, less) = (x.max(y), x.min(y));
    let apart = DekkerPair::sum(less, -top);
    let power = apart.0.exp2();
    let more = power.ln_1p() / LN_2 + if apart.1.is_finite() { power / (1.0 + power) * apart.1 } else { 0.0 };
    let sum = top + more;
    if sum.abs() < 0.6 * (top.abs() + more) || less - top < -2.0 && more > 0.25 * top.abs() {
        log_one_and_power(apart.times(LN_2_PAIR)).over(LN_2_PAIR).plus(top.into()).value()
    } else {
        sum
    }
}
/// ln(1 + e^x) for x ≤ 0. Far below zero by its series: of the power little would be left beside the 1.
fn log_one_and_power(x: DekkerPair) -> DekkerPair {
    if x.0 < -745.0 {
        return 0.0.into();
    }
    let (p, n) = x.exp();
    let power = DekkerPair(libm::scalbn(p.0, n), libm::scalbn(p.1, n));
    if x.0 < -14.0 { power.minus(power.times(power).times((0.5 - power.0 / 3.0).into())) } else { ONE.plus(power).ln() }
}
/// x - tanh(x). Near zero as (x·cosh x - sinh x) / cosh x, whose numerator is Σ x^(2k+1) · 2k / (2k+1)!, all of one sign; of its
/// first term what is rounded is kept.
pub fn tanhshrink(x: f64) -> f64 {
    if x.abs() >= 1.0 || x.is_nan() {
        return x - x.tanh();
    }
    let first = DekkerPair::from(x).times(x.into()).times(x.into()).over(3.0.into());
    let (mut power, mut sum) = (0.5 * first.0, first.1);
    for k in 2..13 {
        let n = 2.0 * k as f64;
        power *= x * x / (n * (n + 1.0));
        sum += n * power;
    }
    (first.0 + sum) / x.cosh()
}
/// sin(πx), exact at integers and half integers: the argument is reduced before π is multiplied in.
pub fn sin_pi(x: f64) -> f64 {
    let r = x % 2.0;
    let folded = if r > 1.5 {
        r - 2.0
    } else if r < -1.5 {
        r + 2.0
    } else if r > 0.5 {
        1.0 - r
    } else if r < -0.5 {
        -1.0 - r
    } else {
        r
    };
    (PI * folded).sin()
}
/// cos(πx), exact at integers and half integers.
pub fn cos_pi(x: f64) -> f64 {
    let r = (x % 2.0).abs();
    let r = if r > 1.0 { 2.0 - r } else { r };
    sin_pi(0.5 - r)
}
/// sin(πx) / (πx), 1 at 0.
pub fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { sin_pi(x) / (PI * x) }
}
/// The derivative of [`sinc`]: (cos πx - sinc x) / x, near zero by its Taylor series, where those two cancel.
pub fn sinc_derivative(x: f64) -> f64 {
    if x.abs() >= 0.5 || x.is_nan() {
        return (cos_pi(x) - sinc(x)) / x;
    }
    // π Σ (-1)^k 2k u^(2k-1) / (2k+1)!, u = πx
    let u = PI * x;
    let (mut term, mut sum) = (u, 0.0);
    for k in 1..13 {
        let n = 2.0 * k as f64;
        term *= -(if k == 1 { 1.0 } else { u * u }) / (n * (n + 1.0));
        sum += n * term;
    }
    PI * sum
}
/// x · 2ʸ. A whole y scales exactly, without the overflow or underflow of 2ʸ alone.
pub fn ldexp(x: f64, y: f64) -> f64 {
    if y == y.trunc() && y.abs() < 1e6 { libm::ldexp(x, y as i32) } else { x * y.exp2() }
}
