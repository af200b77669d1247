//! Circular and hyperbolic functions and their inverses, by the rules of [`super::elementary`].
#![allow(clippy::excessive_precision, reason = "split constants are written as the sources print them")]

use super::{
    coefficients::{ASIN_F32, ASIN_F64, ATAN_F32, ATAN_F64},
    elementary::{by_width, c, exp_series, expm1, is_single, keep_nan, log, log1p, polynomial, reduce_exp, scale, to_int},
};
use crate::simd::{Arithmetic, Integer};

/// Up to this magnitude [`sin`] and [`cos`] reduce their argument exactly enough.
pub(super) const TRIGONOMETRIC_LIMIT: f64 = 1e5;

/// The sine and the cosine of what x, |x| ≤ [`TRIGONOMETRIC_LIMIT`], is from the nearest multiple of a quarter turn, and which that is.
#[inline(always)]
fn quarter_turns<V: Arithmetic>(x: V) -> (V, V, V::Int) {
    let n = x.mul(c(std::f64::consts::FRAC_2_PI)).round();
    let part = |single: f64, double: f64| by_width::<V>(single, double);
    let high = c::<V>(std::f64::consts::FRAC_PI_2);
    let middle = part(-4.371_138_828_673_793e-8, 6.123_233_995_736_766e-17);
    let low = part(-1.715_124_510_837_667_2e-15, -1.497_384_904_859_169_8e-33);
    let minus = n.neg();
    let first = minus.mul_add(high, x);
    // The middle product is subtracted with its rounding error kept: near a zero of the result it is all there is.
    let product = n.mul(middle);
    let product_error = n.mul_add(middle, product.neg());
    let r = first.sub(product);
    let dropped = first.sub(r).sub(product);
    let rest = dropped.sub(product_error).sub(n.mul(low));
    let r_full = r.add(rest);
    let rest = r.sub(r_full).add(rest);
    let r = r_full;
    let z = r.mul(r);
    const SINE: [f64; 8] = [
        -1.0 / 6.0,
        1.0 / 120.0,
        -1.0 / 5040.0,
        1.0 / 362_880.0,
        -1.0 / 39_916_800.0,
        1.0 / 6_227_020_800.0,
        -1.0 / 1_307_674_368_000.0,
        1.0 / 355_687_428_096_000.0,
    ];
    const SINE_SINGLE: [f64; 4] = [SINE[0], SINE[1], SINE[2], SINE[3]];
    const COSINE: [f64; 8] = [
        1.0 / 24.0,
        -1.0 / 720.0,
        1.0 / 40320.0,
        -1.0 / 3_628_800.0,
        1.0 / 479_001_600.0,
        -1.0 / 87_178_291_200.0,
        1.0 / 20_922_789_888_000.0,
        -1.0 / 6_402_373_705_728_000.0,
    ];
    const COSINE_SINGLE: [f64; 4] = [COSINE[0], COSINE[1], COSINE[2], COSINE[3]];
    let single = is_single::<V>();
    let sine_tail = if single { polynomial(z, &SINE_SINGLE) } else { polynomial(z, &SINE) };
    let cosine_tail = if single { polynomial(z, &COSINE_SINGLE) } else { polynomial(z, &COSINE) };
    let sine = r.mul(z).mul_add(sine_tail, rest).add(r);
    let half = z.mul(c(0.5));
    let lead = c::<V>(1.0).sub(half);
    let cosine_error = c::<V>(1.0).sub(lead).sub(half);
    let cosine = lead.add(z.mul(z).mul_add(cosine_tail, cosine_error.sub(r.mul(rest))));
    (sine, cosine, to_int(n))
}

/// sin(x + quarter π/2) for |x| ≤ [`TRIGONOMETRIC_LIMIT`].
#[inline(always)]
fn sine_of<V: Arithmetic>(x: V, quarter: i64) -> V {
    let (sine, cosine, quadrant) = quarter_turns(x);
    let quadrant = quadrant.add(V::Int::constant(quarter));
    let odd = quadrant.and(V::Int::constant(1)).eq(V::Int::constant(1));
    by_half_turns(V::select(odd, cosine, sine), quadrant)
}
/// Of the other sign in the third and the fourth quadrant.
#[inline(always)]
fn by_half_turns<V: Arithmetic>(value: V, quadrant: V::Int) -> V {
    let sign = quadrant.and(V::Int::constant(2)).shl(if is_single::<V>() { 30 } else { 62 });
    V::from_bits(value.to_bits().xor(sign))
}

/// The sine and the cosine for |x| ≤ [`TRIGONOMETRIC_LIMIT`], beyond which they are no numbers.
#[inline(always)]
pub(super) fn sin_cos<V: Arithmetic>(x: V) -> (V, V) {
    let (sine, cosine, quadrant) = quarter_turns(x);
    let one = V::Int::constant(1);
    let odd = quadrant.and(one).eq(one);
    let (sine, cosine) = (by_half_turns(V::select(odd, cosine, sine), quadrant), by_half_turns(V::select(odd, sine, cosine), quadrant.add(one)));
    let is_near = x.abs().le(c(TRIGONOMETRIC_LIMIT));
    (V::select(is_near, sine, c(f64::NAN)), V::select(is_near, cosine, c(f64::NAN)))
}

#[inline(always)]
pub(super) fn sin<V: Arithmetic>(x: V) -> V {
    // Keeps -0, which the reduction would lose.
    V::select(x.eq(c(0.0)), x, sine_of(x, 0))
}

#[inline(always)]
pub(super) fn cos<V: Arithmetic>(x: V) -> V {
    sine_of(x, 1)
}

#[inline(always)]
pub(super) fn tan<V: Arithmetic>(x: V) -> V {
    let (sine, cosine, quadrant) = quarter_turns(x);
    let odd = quadrant.and(V::Int::constant(1)).eq(V::Int::constant(1));
    let ratio = V::select(odd, cosine.neg(), sine).div(V::select(odd, sine, cosine));
    V::select(x.eq(c(0.0)), x, ratio)
}

/// π/2 and π/4 less their roundings.
#[inline(always)]
pub(super) fn half_pi_low<V: Arithmetic>() -> V {
    by_width(-4.371_138_828_673_793e-8, 6.123_233_995_736_766e-17)
}

/// atan is odd, and of a large number what is left to a right angle; in between it is 45 degrees and a small angle.
#[inline(always)]
pub(super) fn atan<V: Arithmetic>(x: V) -> V {
    let a = x.abs();
    let (near, far) = (a.lt(c(0.414_213_562_373_095)), c::<V>(2.414_213_562_373_095).lt(a));
    let one = c::<V>(1.0);
    let top = V::select(near, a, V::select(far, one.neg(), a.sub(one)));
    let bottom = V::select(near, one, V::select(far, a, a.add(one)));
    let t = top.div(bottom);
    let zero = c::<V>(0.0);
    let high = V::select(near, zero, V::select(far, c(std::f64::consts::FRAC_PI_2), c(std::f64::consts::FRAC_PI_4)));
    let low = V::select(near, zero, V::select(far, half_pi_low(), half_pi_low::<V>().mul(c(0.5))));
    let z = t.mul(t);
    let tail = if is_single::<V>() { polynomial(z, &ATAN_F32) } else { polynomial(z, &ATAN_F64) };
    keep_nan(x, high.add(t.mul(z).mul_add(tail, low).add(t)).copysign(x))
}

/// (asin(t) - t) / t for t² = z ≤ ¼.
#[inline(always)]
fn asin_tail<V: Arithmetic>(z: V) -> V {
    z.mul(if is_single::<V>() { polynomial(z, &ASIN_F32) } else { polynomial(z, &ASIN_F64) })
}

/// asin(√z) for z = (1 - a) / 2 ≤ ¼, a the magnitude of an argument of ½ or more.
#[inline(always)]
fn asin_of_root<V: Arithmetic>(a: V) -> V {
    let z = c::<V>(1.0).sub(a).mul(c(0.5));
    let root = z.sqrt();
    // What the root's rounding lost.
    let lost = root.neg().mul_add(root, z).div(root.add(root));
    let lost = V::select(root.eq(c(0.0)), c(0.0), lost);
    root.mul_add(asin_tail(z), lost).add(root)
}

#[inline(always)]
pub(super) fn asin<V: Arithmetic>(x: V) -> V {
    let a = x.abs();
    let small = a.mul_add(asin_tail(a.mul(a)), a);
    let part = asin_of_root(a);
    let large = c::<V>(std::f64::consts::FRAC_PI_2).sub(part.add(part).sub(half_pi_low()));
    V::select(a.lt(c(0.5)), small, large).copysign(x)
}

#[inline(always)]
pub(super) fn acos<V: Arithmetic>(x: V) -> V {
    let a = x.abs();
    let small = c::<V>(std::f64::consts::FRAC_PI_2).sub(x.sub(half_pi_low::<V>().sub(x.mul(asin_tail(x.mul(x))))));
    let part = asin_of_root(a);
    let twice = part.add(part);
    let behind = c::<V>(std::f64::consts::PI).sub(twice.sub(half_pi_low::<V>().add(half_pi_low())));
    V::select(a.lt(c(0.5)), small, V::select(x.lt(c(0.0)), behind, twice))
}

/// e^a / 2 and e^-a / 2 for a ≥ 0.
#[inline(always)]
fn halved_exponentials<V: Arithmetic>(a: V) -> (V, V) {
    let limit = if is_single::<V>() { 95.0 } else { 720.0 };
    let (n, r) = reduce_exp(c::<V>(limit).min(a));
    let p = exp_series(r);
    (scale(p, n.sub(c(1.0))), scale(c::<V>(0.5).div(p), n.neg()))
}

#[inline(always)]
pub(super) fn sinh<V: Arithmetic>(x: V) -> V {
    let a = x.abs();
    let (grown, shrunk) = halved_exponentials(a);
    let t = expm1(c::<V>(2.0).min(a));
    let small = t.add(t.div(t.add(c(1.0)))).mul(c(0.5));
    keep_nan(x, V::select(a.lt(c(1.0)), small, grown.sub(shrunk)).copysign(x))
}

#[inline(always)]
pub(super) fn cosh<V: Arithmetic>(x: V) -> V {
    let (grown, shrunk) = halved_exponentials(x.abs());
    keep_nan(x, grown.add(shrunk))
}

/// Beyond this 1 is nothing beside a square.
#[inline(always)]
fn vast<V: Arithmetic>() -> V {
    by_width(1e6, 1e10)
}

#[inline(always)]
pub(super) fn asinh<V: Arithmetic>(x: V) -> V {
    let a = x.abs();
    let b = vast::<V>().min(a);
    let square = b.mul(b);
    let small = log1p(square.div(square.add(c(1.0)).sqrt().add(c(1.0))).add(b));
    let large = log(a).add(c(std::f64::consts::LN_2));
    keep_nan(x, V::select(a.lt(vast()), small, large).copysign(x))
}

#[inline(always)]
pub(super) fn acosh<V: Arithmetic>(x: V) -> V {
    let t = vast::<V>().min(x).sub(c(1.0));
    let small = log1p(t.add(t.mul_add(t, t.add(t)).sqrt()));
    let large = log(x).add(c(std::f64::consts::LN_2));
    let result = V::select(x.lt(vast()), small, large);
    keep_nan(x, V::select(x.lt(c(1.0)), c(f64::NAN), result))
}

#[inline(always)]
pub(super) fn atanh<V: Arithmetic>(x: V) -> V {
    let a = x.abs();
    keep_nan(x, log1p(a.add(a).div(c::<V>(1.0).sub(a))).mul(c(0.5)).copysign(x))
}
