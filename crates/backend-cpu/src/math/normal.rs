//! The normal distribution's relatives of the error function, scaled and inverse, by the rules of [`super::elementary`].
use super::{
    coefficients::{
        ERFC_F32, ERFC_F64, ERFINV_DEEP_F64, ERFINV_FAR_F32, ERFINV_FAR_F64, ERFINV_MIDDLE_F32, ERFINV_MIDDLE_F64, ERFINV_NEAR_F32, ERFINV_NEAR_F64,
    },
    elementary::{by_width, c, erf_small, exp_pair_parts, is_single, keep_nan, log, log_parts, polynomial, polynomial_from, scale, split, square_pair},
};
use crate::simd::{Arithmetic, Mask};
use std::f64::consts::{FRAC_2_SQRT_PI, SQRT_2};

/// A polynomial as a sum of two numbers of which the second is small: its last product and sum lose nothing.
#[inline(always)]
fn polynomial_pair<V: Arithmetic, const N: usize>(x: V, coefficients: &[f64; N]) -> (V, V) {
    let (first, slope) = (c::<V>(coefficients[0]), polynomial_from(x, coefficients, 1));
    let product = x.mul(slope);
    let sum = first.add(product);
    // All of these are of one size or the first is larger.
    let back = sum.sub(first);
    let lost = first.sub(sum.sub(back)).add(product.sub(back));
    let first_low = c::<V>(if is_single::<V>() { coefficients[0] - coefficients[0] as f32 as f64 } else { 0.0 });
    (sum, x.mul_add(slope, product.neg()).add(lost).add(first_low))
}
/// One polynomial for f32, another for f64.
#[inline(always)]
fn pair_by_width<V: Arithmetic, const N: usize, const M: usize>(x: V, single: &[f64; N], double: &[f64; M]) -> (V, V) {
    if is_single::<V>() { polynomial_pair(x, single) } else { polynomial_pair(x, double) }
}
#[inline(always)]
fn select_pair<V: Arithmetic>(mask: V::Mask, yes: (V, V), no: (V, V)) -> (V, V) {
    (V::select(mask, yes.0, no.0), V::select(mask, yes.1, no.1))
}
/// erf⁻¹(x) / x by w = -ln(1 - x²), as in Giles' "Approximating the erfinv function" (2010): a polynomial of w, of √w beyond 5; as a
/// sum of two numbers. `far`: w may be above 17 in f32, above 37 in f64.
#[inline(always)]
fn inverse_ratio<V: Arithmetic>(w: V, far: bool) -> (V, V) {
    let near = pair_by_width(w.sub(c(2.5)).mul(c(0.4)), &ERFINV_NEAR_F32, &ERFINV_NEAR_F64);
    let is_near = w.lt(c(5.0));
    if !is_near.not().any() {
        return near;
    }
    let root = w.sqrt();
    let mut ratio = select_pair(is_near, near, pair_by_width(root.sub(c(3.2)), &ERFINV_MIDDLE_F32, &ERFINV_MIDDLE_F64));
    let single = is_single::<V>();
    let is_far = c::<V>(4.2).lt(root);
    if (far || !single) && is_far.any() {
        let there = pair_by_width(root.sub(c(7.3)).mul(c(1.0 / 3.1)), &ERFINV_FAR_F32, &ERFINV_FAR_F64);
        ratio = select_pair(is_far, there, ratio);
    }
    let is_deep = c::<V>(10.4).lt(root);
    if far && !single && is_deep.any() {
        ratio = select_pair(is_deep, polynomial_pair(root.sub(c(18.9)).mul(c(1.0 / 8.5)), &ERFINV_DEEP_F64), ratio);
    }
    ratio
}

/// The inverse of erf.
#[inline(always)]
pub(super) fn erfinv<V: Arithmetic>(x: V) -> V {
    let a = x.abs();
    let one = c::<V>(1.0);
    let inside = by_width::<V>(0.999_999_940_395_355_2, 0.999_999_999_999_999_9).min(a);
    // 1 - x² as a sum of two numbers.
    let square = inside.mul(inside);
    let rest = one.sub(square);
    let lost = one.sub(rest).sub(square).sub(inside.mul_add(inside, square.neg()));
    let share = rest.add(lost);
    let lost = rest.sub(share).add(lost);
    let (e, f) = split(share);
    let (high, low) = inverse_ratio(log_parts(e, f, lost.div(share)).neg(), false);
    let y = inside.mul_add(high, inside.mul(low));
    let y = V::select(a.eq(one), c(f64::INFINITY), V::select(one.lt(a), c(f64::NAN), y));
    keep_nan(x, y.copysign(x))
}

/// The inverse of the normal distribution function, -√2 erf⁻¹(1 - 2p).
#[inline(always)]
pub(super) fn ndtri<V: Arithmetic>(p: V) -> V {
    let (zero, one) = (c::<V>(0.0), c::<V>(1.0));
    let x = one.sub(p.add(p));
    // 1 - x²
    let share = p.mul(one.sub(p)).mul(c(4.0));
    let (high, low) = inverse_ratio(log(share).neg(), true);
    let root = c::<V>(-SQRT_2);
    let factor = x.mul(root);
    let factor_low = x.mul_add(by_width(SQRT_2 as f32 as f64 - SQRT_2, 9.667_293_313_452_913e-17), x.mul_add(root, factor.neg()));
    let y = factor.mul_add(high, factor.mul_add(low, factor_low.mul(high)));
    let infinite = c::<V>(f64::INFINITY);
    let y = V::select(p.eq(zero), infinite.neg(), V::select(p.eq(one), infinite, y));
    V::select(zero.le(p).and(p.le(one)), y, c(f64::NAN))
}

/// exp(x²) erfc(x): to the left of ¾ by the error function, to the right as [`super::elementary::erfc`] without the exponential, and
/// by the asymptotic series (DLMF 7.12.1) where that ends.
#[inline(always)]
pub(super) fn erfcx<V: Arithmetic>(x: V) -> V {
    const SERIES: [f64; 8] = [1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0, -135135.0];
    let a = x.abs();
    let single = is_single::<V>();
    let (low, high) = (c::<V>(0.75), by_width::<V>(11.0, 28.0));
    let bounded = low.max(high.min(a));
    let t = bounded.sub(c(2.0)).div(bounded.add(c(2.0)));
    let tail = if single { polynomial(t, &ERFC_F32) } else { polynomial(t, &ERFC_F64) };
    // The square of a vast number is infinite, and nothing is left of the series but its first term.
    let series = polynomial(c::<V>(0.5).div(a.mul(a)), &SERIES).mul(c(0.5 * FRAC_2_SQRT_PI));
    let right = V::select(high.lt(a), series, tail).div(a);
    let is_small = a.lt(low);
    let is_left = x.lt(c(0.0));
    if !is_small.or(is_left).any() {
        return keep_nan(x, right);
    }
    let (square, rest) = square_pair(x);
    let (p, n) = exp_pair_parts(square, rest);
    let grown = scale(p, n);
    let small = c::<V>(1.0).sub(erf_small(x)).mul(grown);
    keep_nan(x, V::select(is_small, small, V::select(is_left, grown.add(grown).sub(right), right)))
}
