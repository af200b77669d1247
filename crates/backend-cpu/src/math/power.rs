//! A number to the power of another, by the rules of [`super::elementary`].
//!
//! An error of the exponent `y log₂ x` is one of the power as many times larger as the exponent is, so the logarithm is a sum of
//! two numbers (Dekker's, 1971): the first term of its series beside 1 is added to twice the precision, the others are small.
use super::{
    elementary::{by_width, c, exp2_pair_parts, is_single, polynomial, scale, split},
    pairs::keep_either,
};
use crate::simd::{Arithmetic, Mask};

/// log₂(1 + f) for the split's range, as a sum of two numbers of which the second is small beside the first.
#[inline(always)]
fn log2_pair<V: Arithmetic>(f: V) -> (V, V) {
    // Of artanh: ln(1 + f) = 2s (1 + z (1/3 + z/5 + z²/7 + ..)) with s = f / (2 + f), z = s².
    const SINGLE: [f64; 5] = [1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0, 1.0 / 11.0, 1.0 / 13.0];
    const DOUBLE: [f64; 11] = [1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0, 1.0 / 11.0, 1.0 / 13.0, 1.0 / 15.0, 1.0 / 17.0, 1.0 / 19.0, 1.0 / 21.0, 1.0 / 23.0, 1.0 / 25.0];
    let two = c::<V>(2.0);
    let below = two.add(f);
    let below_low = f.sub(below.sub(two));
    let inverse = c::<V>(1.0).div(below);
    let s = f.mul(inverse);
    let s_low = s.neg().mul_add(below_low, s.neg().mul_add(below, f)).mul(inverse);
    let z = s.mul(s);
    let z_low = s.add(s).mul_add(s_low, s.mul_add(s, z.neg()));
    let tail = z.mul(if is_single::<V>() { polynomial(z, &SINGLE) } else { polynomial(z, &DOUBLE) });
    let third = c::<V>(1.0 / 3.0);
    let third_low = by_width::<V>(-9.934_107_462_565_105e-9, 1.850_371_707_708_594e-17);
    let p = third.add(tail);
    let p_low = third.sub(p).add(tail).add(third_low);
    let g = z.mul(p);
    let g_low = z.mul_add(p_low, z_low.mul_add(p, z.mul_add(p, g.neg())));
    let t = s.mul(g);
    let t_low = s.mul_add(g_low, s_low.mul_add(g, s.mul_add(g, t.neg())));
    let sum = s.add(t);
    let low = s.sub(sum).add(t).add(t_low.add(s_low));
    // Times 2 / ln 2.
    let high_factor = by_width::<V>(2.885_390_043_258_667, 2.0 * std::f64::consts::LOG2_E);
    let low_factor = by_width::<V>(3.851_925_982_253_235e-8, 4.071_054_748_186_206_6e-17);
    let log = sum.mul(high_factor);
    (log, low.mul_add(high_factor, sum.mul_add(low_factor, sum.mul_add(high_factor, log.neg()))))
}
/// |x|^y for |x| positive and finite.
#[inline(always)]
fn magnitude<V: Arithmetic>(a: V, y: V) -> V {
    let (e, f) = split(a);
    let (log, log_low) = log2_pair(f);
    // |e| is 0 or above |log|.
    let sum = e.add(log);
    let low = e.sub(sum).add(log).add(log_low);
    let product = y.mul(sum);
    let product_low = y.mul_add(low, y.mul_add(sum, product.neg()));
    let limit = by_width::<V>(160.0, 1100.0);
    let is_within = product.abs().lt(limit);
    let (p, n) = exp2_pair_parts(limit.min(limit.neg().max(product)), V::select(is_within, product_low, c(0.0)));
    scale(p, n)
}
/// x^y with C's meaning of what is no number, no whole number or without bounds. Squares and cubes are products.
#[inline(always)]
pub(super) fn pow<V: Arithmetic>(x: V, y: V) -> V {
    let (zero, one, infinite) = (c::<V>(0.0), c::<V>(1.0), c::<V>(f64::INFINITY));
    let a = x.abs();
    let power = V::select(a.eq(one), one, magnitude(a, y));
    let is_falling = y.lt(zero);
    let power = V::select(a.eq(zero), V::select(is_falling, infinite, zero), power);
    let power = V::select(a.eq(infinite), V::select(is_falling, zero, infinite), power);
    let half = y.mul(c(0.5));
    let is_whole = y.trunc().eq(y);
    let is_odd = is_whole.and(half.trunc().eq(half).not());
    let power = V::select(is_odd.and(one.copysign(x).lt(zero)), power.neg(), power);
    let has_none = x.lt(zero).and(a.lt(infinite)).and(is_whole.not());
    let power = keep_either(x, y, V::select(has_none, c(f64::NAN), power));
    let power = V::select(y.eq(zero).or(x.eq(one)), one, power);
    let square = x.mul(x);
    V::select(y.eq(c(2.0)), square, V::select(y.eq(c(3.0)), square.mul(x), power))
}
