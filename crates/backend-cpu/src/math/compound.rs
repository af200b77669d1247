//! Functions that are made of others, by the rules of [`super::elementary`].
use super::{
    circular::sin,
    coefficients::{TANHSHRINK_F32, TANHSHRINK_F64},
    elementary::{by_width, c, exp, exp_parts, is_single, keep_nan, log, log1p, no_product, polynomial, scale},
};
use crate::simd::{Arithmetic, Mask};

/// x n / (n + 2) with n = e^x (e^x + 2); below zero as x e^x less a share of it, which has fewer roundings.
#[inline(always)]
pub(super) fn mish<V: Arithmetic>(x: V) -> V {
    let (limit, one, two) = (by_width::<V>(20.0, 40.0), c::<V>(1.0), c::<V>(2.0));
    let bounded = limit.min(x);
    let (p, m) = exp_parts(bounded);
    let e = scale(p, m);
    let n = e.mul(e.add(two));
    let above = bounded.mul(n.div(n.add(two)));
    let share = e.mul(e.add(one)).div(n.add(two));
    // x e^x is scaled last, so that it keeps its digits where e^x has none left.
    let below = scale(c::<V>(-1000.0).max(bounded).mul(p).mul(one.sub(share)), m);
    let result = V::select(x.lt(c(0.0)), below, above);
    no_product(x, V::select(limit.lt(x), x, result))
}
/// ln(x / (1 - x)); near one half as ln(1 + (2x - 1) / (1 - x)), where 2x - 1 is exact.
#[inline(always)]
pub(super) fn logit<V: Arithmetic>(x: V) -> V {
    let rest = c::<V>(1.0).sub(x);
    let is_near = c::<V>(0.3).lt(x).and(x.lt(c(0.7)));
    let near = log1p(x.add(x).sub(c(1.0)).div(rest));
    keep_nan(x, V::select(is_near, near, log(x.div(rest))))
}
/// -x ln x; 0 at 0, -inf below.
#[inline(always)]
pub(super) fn entr<V: Arithmetic>(x: V) -> V {
    let zero = c::<V>(0.0);
    let result = V::select(x.lt(zero), c(f64::NEG_INFINITY), x.neg().mul(log(x)));
    keep_nan(x, V::select(x.eq(zero), zero, result))
}
/// sin(πx) / (πx), 1 at 0. The angle is reduced before π is multiplied in.
#[inline(always)]
pub(super) fn sinc<V: Arithmetic>(x: V) -> V {
    let halved = x.mul(c(0.5));
    let part = halved.sub(halved.round());
    // Of a whole turn -1 .. 1, folded to a quarter on either side.
    let part = part.add(part);
    let a = part.abs();
    let folded = V::select(c::<V>(0.5).lt(a), c::<V>(1.0).sub(a), a).copysign(part);
    let angle = x.mul(c(std::f64::consts::PI));
    let result = sin(folded.mul(c(std::f64::consts::PI))).div(angle);
    let tiny = x.abs().lt(by_width(1e-5, 1e-9));
    let result = V::select(tiny, c(1.0), result);
    // In f32 the angle of a vast number is infinite, as in PyTorch.
    if is_single::<V>() { V::select(angle.abs().eq(c(f64::INFINITY)), c(f64::NAN), result) } else { result }
}
/// x / (1 + |x|)
#[inline(always)]
pub(super) fn softsign<V: Arithmetic>(x: V) -> V {
    x.div(x.abs().add(c(1.0)))
}
/// x - tanh(x) = x - 1 + 2 / (e^2x + 1); below 1, where little would be left of that, as x³ times a polynomial.
#[inline(always)]
pub(super) fn tanhshrink<V: Arithmetic>(x: V) -> V {
    let (one, a) = (c::<V>(1.0), x.abs());
    let square = a.mul(a);
    let ratio = if is_single::<V>() { polynomial(square, &TANHSHRINK_F32) } else { polynomial(square, &TANHSHRINK_F64) };
    let cube = square.mul(a);
    // What both roundings of it lost.
    let lost = a.mul_add(a, square.neg()).mul_add(a, square.mul_add(a, cube.neg()));
    let small = cube.mul_add(ratio, lost.mul(ratio));
    let large = a.sub(one).add(c::<V>(2.0).div(exp(a.add(a)).add(one)));
    keep_nan(x, V::select(a.lt(one), small, large).copysign(x))
}
