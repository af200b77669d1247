//! Bessel functions, in f64 for f32.
use super::{
    super::{
        circular::sin_cos,
        elementary::{c, exp, log, polynomial},
    },
    bessel_coefficients::*,
    covered,
};
use crate::simd::{Arithmetic, Mask};
use std::f64::consts::{FRAC_1_PI, FRAC_2_PI, LN_2};

/// I₀ or I₁, by polynomials in x² up to 8 and in 1/x beyond; `scaled` by exp(-|x|).
#[inline(always)]
pub(super) fn modified<V: Arithmetic, const ORDER: usize>(x: V, scaled: bool) -> V {
    let magnitude = x.abs();
    let is_large = c::<V>(8.0).lt(magnitude);
    let power = exp(if scaled { magnitude.neg() } else { magnitude });
    let small = {
        let t = magnitude.mul(magnitude).mul_add(c(1.0 / 32.0), c(-1.0));
        let even = polynomial(t, if ORDER == 0 { &BESSEL_I0_SMALL } else { &BESSEL_I1_SMALL });
        let value = if ORDER == 0 { even } else { even.mul(magnitude.mul(c(0.5))) };
        if scaled { value.mul(power) } else { value }
    };
    let value = if is_large.any() {
        let t = c::<V>(16.0).div(magnitude).sub(c(1.0));
        let value = polynomial(t, if ORDER == 0 { &BESSEL_I0_LARGE } else { &BESSEL_I1_LARGE }).div(magnitude.sqrt());
        V::select(is_large, if scaled { value } else { value.mul(power) }, small)
    } else {
        small
    };
    // Infinity is left to the meaning.
    covered(magnitude.lt(c(f64::INFINITY)), if ORDER == 0 { value } else { value.copysign(x) })
}

/// P and Q of Hankel's expansion (DLMF 10.17.3) for x ≥ 8, over √(πx), and the sine and the cosine of x.
#[inline(always)]
fn hankel<V: Arithmetic, const ORDER: usize>(x: V) -> [V; 4] {
    let inverse = c::<V>(1.0).div(x);
    let t = inverse.mul(inverse).mul_add(c(128.0), c(-1.0));
    let (p, q) = if ORDER == 0 { (polynomial(t, &BESSEL_P0), polynomial(t, &BESSEL_Q0)) } else { (polynomial(t, &BESSEL_P1), polynomial(t, &BESSEL_Q1)) };
    let size = inverse.mul(c(FRAC_1_PI)).sqrt();
    let (sine, cosine) = sin_cos(x);
    [p.mul(size), q.mul(size).mul(inverse), sine, cosine]
}
/// J₀ or J₁ for x ≤ 8.
#[inline(always)]
fn first_small<V: Arithmetic, const ORDER: usize>(x: V, t: V) -> V {
    if ORDER == 0 { polynomial(t, &BESSEL_J0_SMALL) } else { polynomial(t, &BESSEL_J1_SMALL).mul(x) }
}
/// J₀ or J₁.
#[inline(always)]
pub(super) fn first<V: Arithmetic, const ORDER: usize>(x: V) -> V {
    let a = x.abs();
    let small = first_small::<V, ORDER>(a, a.mul(a).mul_add(c(1.0 / 32.0), c(-1.0)));
    let is_large = c::<V>(8.0).lt(a);
    let mut value = small;
    if is_large.or(x.is_nan()).any() {
        let [p, q, sine, cosine] = hankel::<V, ORDER>(a);
        let (sum, difference) = (sine.add(cosine), sine.sub(cosine));
        let large = if ORDER == 0 { p.mul(sum).sub(q.mul(difference)) } else { p.mul(difference).add(q.mul(sum)) };
        value = V::select(is_large, large, small);
    }
    // Odd is that of order 1.
    if ORDER == 0 { value } else { V::select(c::<V>(1.0).copysign(x).lt(c(0.0)), value.neg(), value) }
}
/// Y₀ or Y₁, for x > 0.
#[inline(always)]
pub(super) fn second<V: Arithmetic, const ORDER: usize>(x: V) -> V {
    let t = x.mul(x).mul_add(c(1.0 / 32.0), c(-1.0));
    let regular = first_small::<V, ORDER>(x, t);
    let singular = if ORDER == 0 { log(x).mul(regular) } else { log(x).mul(regular).sub(c::<V>(1.0).div(x)) };
    let rest = if ORDER == 0 { polynomial(t, &BESSEL_Y0_SMALL) } else { polynomial(t, &BESSEL_Y1_SMALL).mul(x) };
    let small = singular.mul_add(c(FRAC_2_PI), rest);
    let is_large = c::<V>(8.0).lt(x);
    if !is_large.any() {
        return small;
    }
    let [p, q, sine, cosine] = hankel::<V, ORDER>(x);
    let (sum, difference) = (sine.add(cosine), sine.sub(cosine));
    let large = if ORDER == 0 { p.mul(difference).add(q.mul(sum)) } else { q.mul(difference).sub(p.mul(sum)) };
    V::select(is_large, large, small)
}
/// K₀ or K₁, for x > 0; `scaled` by exp(x). Up to 2 as their singular parts and a polynomial (DLMF 10.31).
#[inline(always)]
pub(super) fn modified_second<V: Arithmetic, const ORDER: usize>(x: V, scaled: bool) -> V {
    let is_large = c::<V>(2.0).lt(x);
    let square = x.mul(x).mul_add(c(0.5), c(-1.0));
    let log_half = log(x).sub(c(LN_2));
    let small = if ORDER == 0 {
        polynomial(square, &BESSEL_K0_SMALL).sub(log_half.mul(polynomial(square, &BESSEL_I0_TINY)))
    } else {
        let regular = log_half.mul(polynomial(square, &BESSEL_I1_TINY)).mul_add(c(0.5), polynomial(square, &BESSEL_K1_SMALL));
        regular.mul_add(x, c::<V>(1.0).div(x))
    };
    let small = if scaled { small.mul(exp(x)) } else { small };
    if !is_large.any() {
        return small;
    }
    let t = c::<V>(4.0).div(x).sub(c(1.0));
    let large = polynomial(t, if ORDER == 0 { &BESSEL_K0_LARGE } else { &BESSEL_K1_LARGE }).div(x.sqrt());
    V::select(is_large, if scaled { large } else { large.mul(exp(x.neg())) }, small)
}
/// sin(x) / x, 1 at 0.
#[inline(always)]
pub(super) fn spherical<V: Arithmetic>(x: V) -> V {
    V::select(x.eq(c(0.0)), c(1.0), sin_cos(x).0.div(x))
}
