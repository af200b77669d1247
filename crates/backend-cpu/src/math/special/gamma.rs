//! The gamma function's logarithm and its derivatives, and Hurwitz' zeta function, in f64 for f32.
use super::{
    super::{
        coefficients::LGAMMA_NEAR,
        elementary::{c, exp, log, polynomial},
    },
    covered,
};
use crate::simd::{Arithmetic, Mask};
use adamant_runtime::special::BERNOULLI;
use std::f64::consts::PI;

/// Is it positive and finite?
#[inline(always)]
fn is_positive<V: Arithmetic>(x: V) -> V::Mask {
    c::<V>(0.0).lt(x).and(x.lt(c(f64::INFINITY)))
}
/// From here on the asymptotic series of the gamma function are used.
const SHIFT: usize = 6;
/// What the recurrences of the gamma function make of x below [`SHIFT`], to x + `SHIFT`: the product of x, x + 1, .. and its
/// derivative.
#[inline(always)]
fn rising<V: Arithmetic>(x: V) -> (V, V) {
    let (mut product, mut derivative) = (x, c::<V>(1.0));
    for k in 1..SHIFT {
        let next = x.add(c(k as f64));
        derivative = derivative.mul_add(next, product);
        product = product.mul(next);
    }
    (product, derivative)
}
/// Recurrence (DLMF 5.5.2) and asymptotic series (5.11.2), for x > 0.
#[inline(always)]
pub(super) fn digamma<V: Arithmetic>(x: V) -> V {
    // B₂ₖ / 2k
    const SERIES: [f64; 7] = [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0];
    let is_low = x.lt(c(SHIFT as f64));
    let (product, derivative) = rising(x);
    let product = V::select(is_low, product, c(1.0));
    let z = V::select(is_low, x.add(c(SHIFT as f64)), x);
    // One division for both quotients.
    let square = z.mul(z);
    let both = c::<V>(1.0).div(product.mul(square));
    let (steps, r) = (V::select(is_low, derivative.mul(square).mul(both), c(0.0)), product.mul(both));
    let series = polynomial(r, &SERIES).mul(r);
    let value = log(z).sub(c::<V>(0.5).mul(z).mul(r)).sub(series).sub(steps);
    // At the positive root little is left of its parts.
    covered(is_positive(x).and(c::<V>(1e-4).lt(x.sub(c(1.461_632_144_968_362_2)).abs())), value)
}
/// Around both roots by a polynomial, else recurrence (DLMF 5.5.1) and asymptotic series (5.11.1), for x > 0.
#[inline(always)]
pub(super) fn lgamma<V: Arithmetic>(x: V) -> V {
    // B₂ₖ / (2k (2k - 1))
    const SERIES: [f64; 6] = [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360360.0];
    // The sum with zero is there for the sign of the root at 1.
    let near = polynomial(x.sub(c(1.6)).mul(c(1.0 / 0.75)), &LGAMMA_NEAR).mul(x.sub(c(1.0))).mul_add(x.sub(c(2.0)), c(0.0));
    let is_near = c::<V>(0.85).le(x).and(x.le(c(2.35)));
    if !is_near.not().any() {
        return near;
    }
    let is_low = x.lt(c(SHIFT as f64));
    let z = V::select(is_low, x.add(c(SHIFT as f64)), x);
    let inverse = c::<V>(1.0).div(z);
    let series = polynomial(inverse.mul(inverse), &SERIES).mul(inverse);
    let half_log_tau = 0.5 * (2.0 * PI).ln();
    let mut far = z.sub(c(0.5)).mul_add(log(z), series.add(c(half_log_tau)).sub(z));
    if is_low.any() {
        far = far.sub(log(V::select(is_low, rising(x).0, c(1.0))));
    }
    covered(is_positive(x), V::select(is_near, near, far))
}
/// Recurrence and asymptotic series (DLMF 5.15.5, 5.15.8), for x > 0.
#[inline(always)]
pub(super) fn trigamma<V: Arithmetic>(x: V) -> V {
    // B₂ₖ
    const SERIES: [f64; 7] = [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0];
    let one = c::<V>(1.0);
    let is_low = x.lt(c(SHIFT as f64));
    let z = V::select(is_low, x.add(c(SHIFT as f64)), x);
    let inverse = one.div(z);
    let square = inverse.mul(inverse);
    let series = polynomial(square, &SERIES).mul(square).mul(inverse);
    let mut value = inverse.add(c::<V>(0.5).mul(square)).add(series);
    if is_low.any() {
        let mut steps = c::<V>(0.0);
        for k in 0..SHIFT {
            let next = one.div(x.add(c(k as f64)));
            steps = next.mul_add(next, steps);
        }
        value = V::select(is_low, value.add(steps), value);
    }
    covered(is_positive(x), value)
}
/// at^-s
#[inline(always)]
fn falling<V: Arithmetic>(at: V, s: V) -> V {
    exp(s.neg().mul(log(at)))
}
/// Hurwitz' ζ(s, q) for s > 1 and q > 0 by Euler and Maclaurin's formula (DLMF 25.11.28 for its terms), whose terms fall from where
/// the sum is cut off.
#[inline(always)]
pub(in super::super) fn zeta<V: Arithmetic>(s: V, q: V) -> V {
    let (zero, one) = (c::<V>(0.0), c::<V>(1.0));
    // Beyond these bounds it is one power, or has very many terms.
    let inside = one.lt(s).and(s.le(c(40.0))).and(c::<V>(1e-6).le(q)).and(q.le(c(1e12)));
    let (s, mut at) = (V::select(inside, s, c(2.0)), V::select(inside, q, one));
    let bound = s.mul_add(c(0.5), c(6.0));
    let mut sum = zero;
    let mut is_before = at.lt(bound);
    while is_before.any() {
        sum = V::select(is_before, sum.add(falling(at, s)), sum);
        at = V::select(is_before, at.add(one), at);
        is_before = at.lt(bound);
    }
    let edge = falling(at, s);
    let inverse = one.div(at);
    let square = inverse.mul(inverse);
    let mut factor = edge.mul(s).mul(inverse);
    let mut series = edge.mul(c(0.5));
    for (k, b) in BERNOULLI.iter().enumerate() {
        series = factor.mul_add(c(*b), series);
        let n = s.add(c(2.0 * k as f64));
        factor = factor.mul(n.add(one)).mul(n.add(c(2.0))).mul(square);
    }
    covered(inside, sum.add(edge.mul(at).div(s.sub(one)).add(series)))
}
/// The n-th derivative of digamma, n from 1 to 30: (-1)ⁿ⁺¹ n! ζ(n + 1, x) (DLMF 25.11.12).
#[inline(always)]
pub(in super::super) fn polygamma<V: Arithmetic>(x: V, n: V) -> V {
    let one = c::<V>(1.0);
    let inside = n.trunc().eq(n).and(one.le(n)).and(n.le(c(30.0)));
    let mut factorial = one;
    let mut k = c::<V>(2.0);
    let mut is_factor = k.le(n).and(inside);
    while is_factor.any() {
        factorial = V::select(is_factor, factorial.mul(k), factorial);
        k = k.add(one);
        is_factor = k.le(n).and(inside);
    }
    let half = n.mul(c(0.5));
    let size = factorial.mul(zeta(n.add(one), x));
    covered(inside, V::select(half.trunc().eq(half), size.neg(), size))
}
