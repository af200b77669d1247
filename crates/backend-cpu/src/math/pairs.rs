//! Functions of two numbers on slices, by the rules of [`super::elementary`].
use super::{
    circular::{atan, half_pi_low},
    elementary::{by_width, c, keep_nan, log, log1p},
    power::pow,
};
use crate::{
    isa::Isa,
    simd::{Arithmetic, Float, Mask, Simd, SimdKernel, dispatch, twice::Twice},
};

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairFn {
    /// The angle of the point (y, x), y first.
    Atan2,
    /// √(x² + y²)
    Hypot,
    /// x ln y, 0 where x is 0
    Xlogy,
    /// x ln(1 + y), 0 where x is 0
    Xlog1py,
    /// x^y
    Pow,
}
impl PairFn {
    /// All functions.
    #[cfg(test)]
    pub const ALL: [PairFn; 5] = [PairFn::Atan2, PairFn::Hypot, PairFn::Xlogy, PairFn::Xlog1py, PairFn::Pow];
}

/// `result`, or NaN where x or y is.
#[inline(always)]
pub(super) fn keep_either<V: Arithmetic>(x: V, y: V, result: V) -> V {
    keep_nan(x, keep_nan(y, result))
}
/// By the angle of the smaller side over the larger one, which is at most 45 degrees, and the octant.
#[inline(always)]
fn atan2<V: Arithmetic>(y: V, x: V) -> V {
    let (high, wide) = (y.abs(), x.abs());
    let is_steep = wide.lt(high);
    let (less, most) = (V::select(is_steep, wide, high), V::select(is_steep, high, wide));
    let zero = c::<V>(0.0);
    let ratio = less.div(most);
    let ratio = V::select(less.eq(most), c(1.0), ratio);
    let angle = atan(V::select(most.eq(zero), zero, ratio));
    let low = half_pi_low::<V>();
    let angle = V::select(is_steep, c::<V>(std::f64::consts::FRAC_PI_2).sub(angle.sub(low)), angle);
    let is_left = c::<V>(1.0).copysign(x).lt(zero);
    let angle = V::select(is_left, c::<V>(std::f64::consts::PI).sub(angle.sub(low.add(low))), angle);
    keep_either(x, y, angle.copysign(y))
}
/// Squares neither overflow nor vanish: a power of two is taken out of both sides first.
#[inline(always)]
fn hypot<V: Arithmetic>(x: V, y: V) -> V {
    let (x, y) = (x.abs(), y.abs());
    let most = V::select(x.lt(y), y, x);
    let (large, small) = (by_width::<V>(1e18, 1e150), by_width::<V>(1e-12, 1e-130));
    let (up, down) =
        (by_width::<V>(1_208_925_819_614_629_174_706_176.0, 2f64.powi(600)), by_width::<V>(1.0 / 1_208_925_819_614_629_174_706_176.0, 2f64.powi(-600)));
    let (is_large, is_small) = (large.lt(most), most.lt(small));
    let one = c::<V>(1.0);
    let scale = V::select(is_large, down, V::select(is_small, up, one));
    let back = V::select(is_large, up, V::select(is_small, down, one));
    let (a, b) = (x.mul(scale), y.mul(scale));
    let length = a.mul_add(a, b.mul(b)).sqrt().mul(back);
    let infinite = c::<V>(f64::INFINITY);
    V::select(x.eq(infinite).or(y.eq(infinite)), infinite, keep_either(x, y, length))
}
#[inline(always)]
fn xlogy<V: Arithmetic>(x: V, y: V) -> V {
    let zero = c::<V>(0.0);
    keep_nan(y, V::select(x.eq(zero), zero, x.mul(log(y))))
}
#[inline(always)]
fn xlog1py<V: Arithmetic>(x: V, y: V) -> V {
    let zero = c::<V>(0.0);
    keep_nan(y, V::select(x.eq(zero), zero, x.mul(log1p(y))))
}

/// A function of two vectors.
pub(crate) fn meaning<V: Arithmetic>(function: PairFn, x: V, y: V) -> V {
    match function {
        PairFn::Atan2 => atan2(x, y),
        PairFn::Hypot => hypot(x, y),
        PairFn::Xlogy => xlogy(x, y),
        PairFn::Xlog1py => xlog1py(x, y),
        PairFn::Pow => pow(x, y),
    }
}

#[inline(always)]
fn each<V: Float>(x: &[V::Elem], y: &[V::Elem], out: &mut [V::Elem], f: impl Fn(Twice<V>, Twice<V>) -> Twice<V>) {
    let lanes = Twice::<V>::LANES;
    for ((x, y), out) in x.chunks(lanes).zip(y.chunks(lanes)).zip(out.chunks_mut(lanes)) {
        if out.len() == lanes {
            f(Twice::from_slice(x), Twice::from_slice(y)).write(out);
        } else {
            f(Twice::from_partial(x), Twice::from_partial(y)).write_partial(out);
        }
    }
}
#[inline(always)]
fn over<V: Float>(function: PairFn, x: &[V::Elem], y: &[V::Elem], out: &mut [V::Elem]) {
    // A function that is handed on as a value is called through the standard library, where it has not the instructions of the set:
    // what is handed on is a closure, which is inlined.
    macro_rules! each {
        ($meaning:ident) => {
            each::<V>(
                x,
                y,
                out,
                #[inline(always)]
                |x, y| $meaning(x, y),
            )
        };
    }
    match function {
        PairFn::Atan2 => each!(atan2),
        PairFn::Hypot => each!(hypot),
        PairFn::Xlogy => each!(xlogy),
        PairFn::Xlog1py => each!(xlog1py),
        PairFn::Pow => each!(pow),
    }
}
struct PairLoop<'a, T>(PairFn, &'a [T], &'a [T], &'a mut [T]);
impl SimdKernel for PairLoop<'_, f32> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        over::<S::F32>(self.0, self.1, self.2, self.3);
    }
}
impl SimdKernel for PairLoop<'_, f64> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        over::<S::F64>(self.0, self.1, self.2, self.3);
    }
}
/// `out[i] = function(x[i], y[i])`.
pub(crate) fn pair_f32(isa: Isa, function: PairFn, x: &[f32], y: &[f32], out: &mut [f32]) {
    dispatch(isa, PairLoop(function, x, y, out));
}
/// `out[i] = function(x[i], y[i])`.
pub(crate) fn pair_f64(isa: Isa, function: PairFn, x: &[f64], y: &[f64], out: &mut [f64]) {
    dispatch(isa, PairLoop(function, x, y, out));
}
