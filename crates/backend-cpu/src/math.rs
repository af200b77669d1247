//! Elementary functions on slices, vectorised: the same bits on every instruction set and at every place of a slice.
//!
//! Errors against the exact value are asserted by the tests, in units in the last place. Inside a function
//! fma is used freely; user arithmetic never comes here.
//! Must not know tensors or threads.

mod circular;
mod coefficients;
mod compound;
pub(crate) mod elementary;
mod normal;
pub(crate) mod pairs;
pub(crate) mod partial;
mod power;
pub(crate) mod special;
#[cfg(test)]
mod tests;

use crate::isa::Isa;
use crate::simd::{Arithmetic, Float, Simd, SimdKernel, dispatch, twice::Twice};

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $meaning:ident,)*) => {
        /// A function of one number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum MathFn {
            $($(#[$doc])* $name,)*
        }

        impl MathFn {
            /// All functions.
            pub const ALL: &[MathFn] = &[$(MathFn::$name,)*];
        }

        /// A function of one vector.
        pub(crate) fn meaning<V: Arithmetic>(function: MathFn, x: V) -> V {
            match function {
                $(MathFn::$name => $meaning(x),)*
            }
        }

        /// Applies one function to a whole slice inside the set's target features: the choice of function is made
        /// once, outside the loop.
        #[inline(always)]
        fn over<V: Float>(function: MathFn, data: InAndOut<'_, V::Elem>) {
            match function {
                $(MathFn::$name => each::<V>(data, #[inline(always)] |x| $meaning(x)),)*
            }
        }
    };
}

functions! {
    /// e^x
    Exp = exp,
    /// 2^x
    Exp2 = exp2,
    /// e^x - 1
    Expm1 = expm1,
    /// Natural logarithm.
    Log = log,
    /// Logarithm to base 2.
    Log2 = log2,
    /// Logarithm to base 10.
    Log10 = log10,
    /// ln(1 + x)
    Log1p = log1p,
    /// Hyperbolic tangent.
    Tanh = tanh,
    /// 1 / (1 + e^-x)
    Sigmoid = sigmoid,
    /// x / (1 + e^-x)
    Silu = silu,
    /// x Φ(x), by erf.
    Gelu = gelu,
    /// The approximation of [`MathFn::Gelu`] by tanh.
    GeluTanh = gelu_tanh,
    /// The error function.
    Erf = erf,
    /// 1 - erf(x)
    Erfc = erfc,
    /// Sine.
    Sin = sin,
    /// Cosine.
    Cos = cos,
    /// Tangent.
    Tan = tan,
    /// Inverse sine.
    Asin = asin,
    /// Inverse cosine.
    Acos = acos,
    /// Inverse tangent.
    Atan = atan,
    /// Hyperbolic sine.
    Sinh = sinh,
    /// Hyperbolic cosine.
    Cosh = cosh,
    /// Inverse hyperbolic sine.
    Asinh = asinh,
    /// Inverse hyperbolic cosine.
    Acosh = acosh,
    /// Inverse hyperbolic tangent.
    Atanh = atanh,
    /// The distribution function of the standard normal.
    Ndtr = ndtr,
    /// The inverse of the error function.
    Erfinv = erfinv,
    /// The inverse of [`MathFn::Ndtr`].
    Ndtri = ndtri,
    /// e^x² erfc(x)
    Erfcx = erfcx,
    /// x - tanh(x)
    Tanhshrink = tanhshrink,
    /// x tanh(ln(1 + e^x))
    Mish = mish,
    /// ln(x / (1 - x))
    Logit = logit,
    /// -x ln x
    Entr = entr,
    /// sin(πx) / (πx)
    Sinc = sinc,
    /// x / (1 + |x|)
    Softsign = softsign,
    /// Square root.
    Sqrt = sqrt,
    /// 1 / √x, by a division.
    Rsqrt = rsqrt,
    /// 1 / x
    Reciprocal = reciprocal,
    /// ln(1 + e^x)
    Softplus = softplus,
    /// -ln(1 + e^-x)
    LogSigmoid = logsigmoid,
    /// max(x, 0); NaN stays NaN.
    Relu = relu,
}

use circular::{TRIGONOMETRIC_LIMIT, acos, acosh, asin, asinh, atan, atanh, cos, cosh, sin, sinh, tan};
use compound::{entr, logit, mish, sinc, softsign, tanhshrink};
use elementary::{erf, erfc, exp, exp2, expm1, gelu, gelu_tanh, log, log1p, log2, log10, logsigmoid, ndtr, sigmoid, silu, softplus, tanh};
use normal::{erfcx, erfinv, ndtri};

#[inline(always)]
fn sqrt<V: Arithmetic>(x: V) -> V {
    x.sqrt()
}

#[inline(always)]
fn rsqrt<V: Arithmetic>(x: V) -> V {
    V::constant(1.0).div(x.sqrt())
}

#[inline(always)]
fn reciprocal<V: Arithmetic>(x: V) -> V {
    V::constant(1.0).div(x)
}

#[inline(always)]
fn relu<V: Arithmetic>(x: V) -> V {
    V::select(x.le(V::constant(0.0)), V::constant(0.0), x)
}

/// What a function reads and writes: two slices of one length, or one in place.
enum InAndOut<'a, T> {
    Apart(&'a [T], &'a mut [T]),
    InPlace(&'a mut [T]),
}
impl<T> InAndOut<'_, T> {
    #[inline(always)]
    fn input(&self) -> &[T] {
        match self {
            InAndOut::Apart(x, _) => x,
            InAndOut::InPlace(x) => x,
        }
    }
    #[inline(always)]
    fn output(&mut self) -> &mut [T] {
        match self {
            InAndOut::Apart(_, out) => out,
            InAndOut::InPlace(x) => x,
        }
    }
}

/// One body for whole vectors and for what is left, in place or not: a formula is long, and is compiled for each width and
/// instruction set anyway.
#[inline(always)]
fn each<V: Float>(mut data: InAndOut<'_, V::Elem>, f: impl Fn(Twice<V>) -> Twice<V>) {
    let length = data.input().len().min(data.output().len());
    let mut i = 0;
    while i < length {
        let end = length.min(i + Twice::<V>::LANES);
        let is_whole = end - i == Twice::<V>::LANES;
        let x = &data.input()[i..end];
        let y = f(if is_whole { Twice::from_slice(x) } else { Twice::from_partial(x) });
        let out = &mut data.output()[i..end];
        if is_whole {
            y.write(out)
        } else {
            y.write_partial(out)
        }
        i = end;
    }
}

struct MathLoop<'a>(MathFn, InAndOut<'a, f32>);

impl SimdKernel for MathLoop<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        over::<S::F32>(self.0, self.1);
    }
}

struct Double<'a>(MathFn, InAndOut<'a, f64>);

impl SimdKernel for Double<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        over::<S::F64>(self.0, self.1);
    }
}

/// Recomputes the elements whose argument is beyond the vector reduction, one by one. A NaN is left as it is.
macro_rules! far_arguments {
    ($function:expr, $x:expr, $fix:expr, $limit:expr) => {
        let far: Option<fn(f64) -> f64> = match $function {
            MathFn::Sin => Some(f64::sin),
            MathFn::Cos => Some(f64::cos),
            MathFn::Tan => Some(f64::tan),
            _ => None,
        };
        if let Some(far) = far {
            for (index, &x) in $x.iter().enumerate() {
                if x.abs() > $limit {
                    $fix(index, far(f64::from(x)));
                }
            }
        }
    };
}

/// Elements done at a time where a second look at the arguments may be needed: they stay in L1.
const PIECE: usize = 1024;

macro_rules! entries {
    ($float:ident, $kernel:ident, $apart:ident, $in_place:ident, $($name:ident = $function:ident,)*) => {
        /// `out[i] = function(x[i])`, over the shorter of the two lengths.
        pub fn $apart(isa: Isa, function: MathFn, x: &[$float], out: &mut [$float]) {
            dispatch(isa, $kernel(function, InAndOut::Apart(x, &mut *out)));
            let length = x.len().min(out.len());
            far_arguments!(
                function,
                x[..length],
                |index: usize, value: f64| out[index] = value as $float,
                TRIGONOMETRIC_LIMIT as $float
            );
        }

        /// `x[i] = function(x[i])`.
        pub fn $in_place(isa: Isa, function: MathFn, x: &mut [$float]) {
            if !matches!(function, MathFn::Sin | MathFn::Cos | MathFn::Tan) {
                dispatch(isa, $kernel(function, InAndOut::InPlace(x)));
                return;
            }
            let mut arguments = [0.0; PIECE];
            for x in x.chunks_mut(PIECE) {
                let arguments = &mut arguments[..x.len()];
                arguments.copy_from_slice(x);
                $apart(isa, function, arguments, x);
            }
        }

        $(
            /// One function of [`MathFn`] over a slice.
            pub fn $name(isa: Isa, x: &[$float], out: &mut [$float]) {
                $apart(isa, MathFn::$function, x, out);
            }
        )*
    };
}

entries! {
    f32, MathLoop, unary_f32, unary_in_place_f32,
    exp_f32 = Exp, log_f32 = Log, tanh_f32 = Tanh, sigmoid_f32 = Sigmoid, silu_f32 = Silu, gelu_f32 = Gelu,
    erf_f32 = Erf, sin_f32 = Sin, cos_f32 = Cos,
}

entries! {
    f64, Double, unary_f64, unary_in_place_f64,
    exp_f64 = Exp, log_f64 = Log, tanh_f64 = Tanh, sigmoid_f64 = Sigmoid, silu_f64 = Silu, gelu_f64 = Gelu,
    erf_f64 = Erf, sin_f64 = Sin, cos_f64 = Cos,
}
