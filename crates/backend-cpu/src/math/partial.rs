//! Functions of two numbers whose formulas leave some arguments out: there they give no number, and the exact meaning decides, one
//! by one. What divisions leave is computed in the numbers' own width, where it is exact; the rest in f64, where f32 has digits to
//! spare.
use super::{
    elementary::{c, exp, exp2, is_single, log1p, scale},
    special::{
        gamma::{polygamma, zeta},
        incomplete::incomplete,
    },
};
use crate::{
    isa::Isa,
    simd::{Arithmetic, Float, Mask, Simd, SimdKernel, dispatch, twice::Twice},
};
use std::f64::consts::LOG2_E;

/// A function of two numbers that is computed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartialFn {
    /// what a division leaves, with the sign of x
    Fmod,
    /// with the sign of y
    Remainder,
    /// the quotient, down to a whole number
    FloorDivide,
    /// ln(e^x + e^y)
    LogAddExp,
    /// log₂(2^x + 2^y)
    LogAddExp2,
    /// x 2^y
    Ldexp,
    /// Σ (k + y)^-x over k ≥ 0
    Zeta,
    /// the y-th derivative of digamma
    Polygamma,
    /// P(x, y), the regularized incomplete gamma function
    Igamma,
    /// 1 - P(x, y)
    Igammac,
}
impl PartialFn {
    /// All functions.
    #[cfg(test)]
    pub const ALL: [PartialFn; 10] = [
        PartialFn::Fmod,
        PartialFn::Remainder,
        PartialFn::FloorDivide,
        PartialFn::LogAddExp,
        PartialFn::LogAddExp2,
        PartialFn::Ldexp,
        PartialFn::Zeta,
        PartialFn::Polygamma,
        PartialFn::Igamma,
        PartialFn::Igammac,
    ];

    /// The function of this name in the table of scalar functions.
    pub fn named(name: &str) -> Option<PartialFn> {
        Some(match name {
            "fmod" => PartialFn::Fmod,
            "remainder" => PartialFn::Remainder,
            "floor_divide" => PartialFn::FloorDivide,
            "logaddexp" => PartialFn::LogAddExp,
            "logaddexp2" => PartialFn::LogAddExp2,
            "ldexp" => PartialFn::Ldexp,
            "zeta" => PartialFn::Zeta,
            "polygamma" => PartialFn::Polygamma,
            "igamma" => PartialFn::Igamma,
            "igammac" => PartialFn::Igammac,
            _ => return None,
        })
    }
    /// Are its numbers exact in their own width?
    fn divides(self) -> bool {
        matches!(self, PartialFn::Fmod | PartialFn::Remainder | PartialFn::FloorDivide)
    }
    /// Has its formula the digits of f64?
    pub fn is_double(self) -> bool {
        self.divides() || matches!(self, PartialFn::LogAddExp | PartialFn::LogAddExp2)
    }
}

/// |x| less the whole quotient's multiple of |y|, which is exact, and that quotient.
#[inline(always)]
fn divide<V: Arithmetic>(x: V, y: V) -> (V, V) {
    let (a, b, zero) = (x.abs(), y.abs(), c::<V>(0.0));
    let ratio = a.div(b);
    let quotient = ratio.trunc();
    let left = quotient.neg().mul_add(b, a);
    // A quotient just below a whole number may have been rounded up to it.
    let is_over = left.lt(zero);
    let left = V::select(is_over, left.add(b), left);
    let quotient = V::select(is_over, quotient.sub(c(1.0)), quotient);
    // A divisor of infinity leaves all.
    let left = V::select(quotient.eq(zero), a, left);
    let limit = if is_single::<V>() { 4_194_304.0 } else { 281_474_976_710_656.0 };
    (V::select(ratio.lt(c(limit)), left, c(f64::NAN)), quotient)
}
/// Are they on different sides of zero?
#[inline(always)]
fn is_across<V: Arithmetic>(x: V, y: V) -> V::Mask {
    let zero = c::<V>(0.0);
    x.lt(zero).and(zero.lt(y)).or(zero.lt(x).and(y.lt(zero)))
}
#[inline(always)]
fn fmod<V: Arithmetic>(x: V, y: V) -> V {
    divide(x, y).0.copysign(x)
}
#[inline(always)]
fn remainder<V: Arithmetic>(x: V, y: V) -> V {
    let left = fmod(x, y);
    V::select(is_across(left, y), left.add(y), left)
}
#[inline(always)]
fn floor_divide<V: Arithmetic>(x: V, y: V) -> V {
    let (left, quotient) = divide(x, y);
    let zero = c::<V>(0.0);
    let signed = quotient.copysign(x.div(y));
    let down = V::select(is_across(x, y).and(zero.lt(left)), signed.sub(c(1.0)), signed);
    V::select(left.is_nan(), left, down)
}

/// The logarithm of a sum of powers, of 2 if `BINARY`: the larger one and what the smaller one adds; where they cancel, no number.
#[inline(always)]
fn log_of_sum<V: Arithmetic, const BINARY: bool>(x: V, y: V, few_digits: bool) -> V {
    let (top, less, zero, one) = (x.max(y), x.min(y), c::<V>(0.0), c::<V>(1.0));
    // Equal infinities are not apart.
    let apart = V::select(x.eq(y), zero, less.sub(top));
    let power = if BINARY { exp2(apart) } else { exp(apart) };
    let more = log1p(power);
    let mut more = if BINARY { more.mul(c(LOG2_E)) } else { more };
    if !few_digits {
        // What the difference is rounded by is worth as much of the power.
        let back = apart.sub(less);
        let low = less.sub(apart.sub(back)).sub(top.add(back));
        let low = V::select(low.abs().lt(one), low, zero);
        more = power.div(power.add(one)).mul_add(low, more);
    }
    let sum = top.add(more);
    // Of f32, a millionth may be left.
    let share = if few_digits { 1e-6 } else { 0.6 };
    let is_enough = top.abs().add(more).mul(c(share)).le(sum.abs());
    V::select(is_enough.and(x.is_nan().or(y.is_nan()).not()), sum, c(f64::NAN))
}
#[inline(always)]
fn ldexp<V: Arithmetic>(x: V, y: V) -> V {
    // Of f32, nothing is left or all is infinite long before these.
    let bound = c::<V>(400.0);
    let whole = scale(x, bound.min(bound.neg().max(y)));
    let is_whole = y.trunc().eq(y).and(y.abs().lt(c(1e6)));
    V::select(is_whole, whole, x.mul(exp2(y)))
}

/// x and y, where what the function makes of them lies apart or in the place of x. Is there any that is no number?
struct PartialLoop<'a, T> {
    function: PartialFn,
    /// the numbers are of f32
    few_digits: bool,
    x: Option<&'a [T]>,
    y: &'a [T],
    out: &'a mut [T],
}
#[inline(always)]
fn each<V: Float>(x: Option<&[V::Elem]>, y: &[V::Elem], out: &mut [V::Elem], f: impl Fn(Twice<V>, Twice<V>) -> Twice<V>) -> bool {
    let lanes = Twice::<V>::LANES;
    let mut any = false;
    let mut at = 0;
    while at < out.len() {
        let end = out.len().min(at + lanes);
        let is_whole = end - at == lanes;
        let (first, second) = (x.map_or(&out[at..end], |x| &x[at..end]), &y[at..end]);
        let (first, second) =
            if is_whole { (Twice::from_slice(first), Twice::from_slice(second)) } else { (Twice::<V>::from_partial(first), Twice::from_partial(second)) };
        let value = f(first, second);
        any |= value.is_nan().any();
        if is_whole {
            value.write(&mut out[at..end]);
        } else {
            value.write_partial(&mut out[at..end]);
        }
        at = end;
    }
    any
}
macro_rules! apply {
    ($loop:ident, $vector:ty, |$x:ident, $y:ident| $formula:expr) => {
        each::<$vector>(
            $loop.x,
            $loop.y,
            $loop.out,
            #[inline(always)]
            |$x, $y| $formula,
        )
    };
}
impl SimdKernel for PartialLoop<'_, f32> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self) -> bool {
        match self.function {
            PartialFn::Fmod => apply!(self, S::F32, |x, y| fmod(x, y)),
            PartialFn::Remainder => apply!(self, S::F32, |x, y| remainder(x, y)),
            PartialFn::FloorDivide => apply!(self, S::F32, |x, y| floor_divide(x, y)),
            _ => true,
        }
    }
}
impl SimdKernel for PartialLoop<'_, f64> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self) -> bool {
        let few_digits = self.few_digits;
        match self.function {
            PartialFn::Fmod => apply!(self, S::F64, |x, y| fmod(x, y)),
            PartialFn::Remainder => apply!(self, S::F64, |x, y| remainder(x, y)),
            PartialFn::FloorDivide => apply!(self, S::F64, |x, y| floor_divide(x, y)),
            PartialFn::LogAddExp => apply!(self, S::F64, |x, y| log_of_sum::<_, false>(x, y, few_digits)),
            PartialFn::LogAddExp2 => apply!(self, S::F64, |x, y| log_of_sum::<_, true>(x, y, few_digits)),
            PartialFn::Ldexp => apply!(self, S::F64, |x, y| ldexp(x, y)),
            PartialFn::Zeta => apply!(self, S::F64, |x, y| zeta(x, y)),
            PartialFn::Polygamma => apply!(self, S::F64, |x, y| polygamma(x, y)),
            PartialFn::Igamma => apply!(self, S::F64, |x, y| incomplete::<_, false>(x, y)),
            PartialFn::Igammac => apply!(self, S::F64, |x, y| incomplete::<_, true>(x, y)),
        }
    }
}

/// Elements done at a time.
const PIECE: usize = 256;

/// `out[i] = function(x[i], y[i])`, where `exact` is its meaning.
pub(crate) fn partial_f32(isa: Isa, function: PartialFn, exact: fn(f64, f64) -> f64, x: &[f32], y: &[f32], out: &mut [f32]) {
    let mut buffers = [[0.0f64; PIECE]; 2];
    for ((x, y), out) in x.chunks(PIECE).zip(y.chunks(PIECE)).zip(out.chunks_mut(PIECE)) {
        let any = if function.divides() {
            dispatch(isa, PartialLoop { function, few_digits: true, x: Some(x), y, out: &mut *out })
        } else {
            let [wide_x, wide_y] = buffers.each_mut().map(|b| &mut b[..x.len()]);
            wide_x.iter_mut().zip(x).for_each(|(wide, &x)| *wide = x as f64);
            wide_y.iter_mut().zip(y).for_each(|(wide, &y)| *wide = y as f64);
            let any = dispatch(isa, PartialLoop { function, few_digits: true, x: None, y: wide_y, out: &mut *wide_x });
            out.iter_mut().zip(&*wide_x).for_each(|(out, &wide)| *out = wide as f32);
            any
        };
        if any {
            for ((out, &x), &y) in out.iter_mut().zip(x).zip(y).filter(|((out, _), _)| out.is_nan()) {
                *out = exact(x as f64, y as f64) as f32;
            }
        }
    }
}
/// `out[i] = function(x[i], y[i])`, where `exact` is its meaning.
pub(crate) fn partial_f64(isa: Isa, function: PartialFn, exact: fn(f64, f64) -> f64, x: &[f64], y: &[f64], out: &mut [f64]) {
    let any = !function.is_double() || dispatch(isa, PartialLoop { function, few_digits: false, x: Some(x), y, out: &mut *out });
    if any {
        for ((out, &x), &y) in out.iter_mut().zip(x).zip(y).filter(|((out, _), _)| out.is_nan() || !function.is_double()) {
            *out = exact(x, y);
        }
    }
}

#[cfg(test)]
mod tests;
