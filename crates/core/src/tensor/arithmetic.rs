//! Operators and element-wise functions that are composed without losing accuracy.
use super::{
    Operand, OperandRef, Tensor,
    compose::{Built, compose, compose1, refuse},
};
use crate::{
    Arg, DType, Op, Scalar,
    composite::wide::same_dtype,
    promotion::{alike, common},
    scalar::Binary,
};
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

macro_rules! operators {
    ($($tr:ident $method:ident $variant:ident),*) => { $(
        impl<R: Operand> $tr<R> for &Tensor { type Output = Tensor; #[track_caller] fn $method(self, other: R) -> Tensor { self.binary(Binary::$variant, other) } }
        impl<R: Operand> $tr<R> for Tensor { type Output = Tensor; #[track_caller] fn $method(self, other: R) -> Tensor { self.binary(Binary::$variant, other) } }
        operators!(@scalars $tr $method $variant: f64, i64);
    )* };
    (@scalars $tr:ident $method:ident $variant:ident: $($t:ty),*) => { $(
        impl $tr<&Tensor> for $t { type Output = Tensor; #[track_caller] fn $method(self, other: &Tensor) -> Tensor { other.binary_reversed(Binary::$variant, self) } }
        impl $tr<Tensor> for $t { type Output = Tensor; #[track_caller] fn $method(self, other: Tensor) -> Tensor { other.binary_reversed(Binary::$variant, self) } }
    )* };
}
// A number on the left is of one float type and one integer type: with two of a kind the type of `1.0` in `(1.0 - &x).exp()` would
// be open where the method is looked up (E0282), since a literal gets its default type only at the end of the function.
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Remainder);
impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(self)
    }
}
impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(&self)
    }
}

impl Tensor {
    /// This tensor (bool) picks: `then` where true, `otherwise` where false, broadcast. Either side may be a number; they meet in one
    /// dtype ([`promotion`](mod@crate::promotion)). PyTorch's `torch.where(condition, then, otherwise)`, which is no name in Rust.
    #[doc(alias = "where")]
    #[doc(alias = "mask_where")]
    #[track_caller]
    pub fn where_(&self, then: impl Operand, otherwise: impl Operand) -> Tensor {
        let sides = [then.operand(), otherwise.operand()];
        compose("where_", &tensors_of(self, &sides), || {
            let dtype = common(&sides)?;
            let [then, otherwise] = sides.each_ref().map(|side| match side {
                OperandRef::Tensor(t) => Ok(t.cast(dtype)),
                OperandRef::Scalar(s) => s.fit(dtype).map(|s| Tensor::full_on((), s, dtype, self.meta().device)),
            });
            Ok(Tensor::apply(Op::Select, Arg::None, &[self, &then?, &otherwise?]))
        })
    }
    /// The elements where the mask (bool) is false, `value` where it is true: a number that this tensor's dtype holds.
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, value: impl Into<Scalar>) -> Tensor {
        let value = value.into();
        compose("masked_fill", &[self, mask], || Ok(mask.where_(value.fit(self.meta().dtype)?, self)))
    }
}
/// The tensors among an op's sides, this one first.
fn tensors_of<'a>(first: &'a Tensor, sides: &'a [OperandRef<'a>]) -> smallvec::SmallVec<[&'a Tensor; 3]> {
    let tensors = sides.iter().filter_map(|side| if let OperandRef::Tensor(t) = side { Some(*t) } else { None });
    std::iter::once(first).chain(tensors).collect()
}
impl Tensor {
    /// Each element brought into `[min, max]` (numbers or tensors; of two dtypes, in that in which they meet). NaN stays NaN; if min > max, everything is max. The
    /// gradient passes between numbers, and is 0 at them and at NaN; of tensors it goes to the one that bounds; equal ones share it.
    #[track_caller]
    pub fn clamp(&self, min: impl Operand, max: impl Operand) -> Tensor {
        let (min, max) = (min.operand(), max.operand());
        clamped("clamp", self, [min, max], |x, [min, max]| match (min, max) {
            // Where x is no number is looked up once.
            (OperandRef::Scalar(min), OperandRef::Scalar(max)) => {
                let least = x.gt(min).where_(x, min);
                keep_nan(x, least.lt(max).where_(&least, max))
            }
            (min, max) => at_most(&at_least(x, min), max),
        })
    }
    /// As [`Tensor::clamp`] with the upper side open.
    #[track_caller]
    pub fn clamp_min(&self, min: impl Operand) -> Tensor {
        clamped("clamp_min", self, [min.operand()], |x, [min]| at_least(x, min))
    }
    /// As [`Tensor::clamp`] with the lower side open.
    #[track_caller]
    pub fn clamp_max(&self, max: impl Operand) -> Tensor {
        clamped("clamp_max", self, [max.operand()], |x, [max]| at_most(x, max))
    }
    /// NaN replaced by `nan`, the infinities by the numbers given or else the dtype's largest and smallest. Integers stay.
    #[track_caller]
    pub fn nan_to_num(&self, nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> Tensor {
        compose1("nan_to_num", self, |x| {
            let Some(largest) = x.meta().dtype.largest() else { return Ok(x.clone()) };
            let finite = x.isposinf().where_(posinf.unwrap_or(largest), x);
            let finite = x.isneginf().where_(neginf.unwrap_or(-largest), finite);
            Ok(x.isnan().where_(nan, finite))
        })
    }
    /// Rounded to a number of decimals, half to even as PyTorch does it: scaled, rounded, scaled back. Negative ones
    /// round to tens, hundreds, ...; integers stay.
    #[track_caller]
    pub fn round_with(&self, decimals: i32) -> Tensor {
        compose1("round", self, |x| {
            let scale = 10f64.powi(decimals.saturating_abs());
            Ok(match decimals {
                _ if !x.meta().dtype.is_float() => x.clone(),
                0 => x.round(),
                // What is scaled may be beyond 16 bits where the result is not.
                d if d > 0 => ((x.widened() * scale).round() / scale).cast(x.meta().dtype),
                _ => ((x.widened() / scale).round() * scale).cast(x.meta().dtype),
            })
        })
    }
    /// self + weight · (end - self), computed from the end that is nearer, so that weight 1 gives `end` exactly.
    #[track_caller]
    pub fn lerp(&self, end: &Tensor, weight: impl Operand) -> Tensor {
        compose("lerp", &[self, end], || {
            let (x, y) = (self.widened(), widened_as(self, end)?);
            let way = &y - &x;
            let between = match weight.operand() {
                OperandRef::Scalar(w) if w.to_f64().abs() < 0.5 => x + way * w,
                OperandRef::Scalar(w) => y - way * (1.0 - w.to_f64()),
                OperandRef::Tensor(w) => {
                    let w = widened_as(self, w)?;
                    w.abs().lt(0.5).where_(x + &way * &w, y - way * (1.0 - w))
                }
            };
            Ok(between.cast(self.meta().dtype))
        })
    }
    /// self + value · a · b, in the dtype in which the three meet.
    #[track_caller]
    pub fn addcmul(&self, a: &Tensor, b: &Tensor, value: impl Into<Scalar>) -> Tensor {
        let value = value.into();
        compose("addcmul", &[self, a, b], || {
            let ([x, a, b], dtype) = widened_alike([self, a, b])?;
            Ok((x + a * value * b).cast(dtype))
        })
    }
    /// self + value · a / b, in the dtype in which the three meet.
    #[track_caller]
    pub fn addcdiv(&self, a: &Tensor, b: &Tensor, value: impl Into<Scalar>) -> Tensor {
        let value = value.into();
        compose("addcdiv", &[self, a, b], || {
            if !a.meta().dtype.is_float() && !b.meta().dtype.is_float() {
                let dtype = b.meta().dtype;
                return Err(crate::ErrorKind::Dtype(format!("the quotient of integers ({dtype}) is a float here or is rounded: cast one of them")).into());
            }
            let ([x, a, b], dtype) = widened_alike([self, a, b])?;
            Ok((x + a * value / b).cast(dtype))
        })
    }
    /// Mantissa and exponent (i32) with `self = mantissa · 2^exponent`, the mantissa's size in [0.5, 1). Of 0, NaN and infinities the
    /// exponent is 0. The gradient of the mantissa is that of a product with a constant power.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// let (mantissa, exponent) = tensor![8.0, -0.75].frexp();
    /// assert_eq!((mantissa.to_vec::<f32>()?, exponent.to_vec::<i32>()?), (vec![0.5, -0.75], vec![4, 0]));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensors: no floats.
    ///
    /// Source: `torch.frexp`.
    #[track_caller]
    #[must_use]
    pub fn frexp(&self) -> (Tensor, Tensor) {
        compose1("frexp", self, |given| {
            crate::composite::wide::floats(&given.meta())?;
            let x = given.widened();
            let plain = x.detach().isfinite().logical_and(x.detach().ne(0.0));
            let size = plain.where_(x.detach().abs(), 1.0);
            // The logarithm is rounded: near a power of two it may name the neighbour.
            let near = size.log2().floor() + 1.0;
            let scaled = in_two_steps(&size, &near);
            let exponent = &near + scaled.ge(1.0).cast(near.meta().dtype) - scaled.lt(0.5).cast(near.meta().dtype);
            let exponent = plain.where_(exponent, 0.0);
            Ok((in_two_steps(&x, &exponent).cast(given.meta().dtype), exponent.cast(DType::I32)))
        })
    }
    /// bool: |self - other| <= atol + rtol · |other|, or equal (infinities), or both NaN if `equal_nan`.
    #[track_caller]
    pub fn isclose(&self, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Tensor {
        compose("isclose", &[self, other], || {
            same_dtype(&self.meta(), &other.meta())?;
            if !(rtol >= 0.0 && atol >= 0.0) {
                return refuse(format!("tolerances must not be negative: rtol {rtol}, atol {atol}"));
            }
            let float = |t: &Tensor| if t.meta().dtype.is_float() { t.clone() } else { t.cast(t.meta().device.widest_float()) };
            let (x, y) = (float(self), float(other));
            let distance = (&x - &y).abs();
            let near = distance.le(y.abs() * rtol + atol).logical_and(distance.isfinite());
            let close = self.eq(other).logical_or(near);
            Ok(if equal_nan { close.logical_or(x.isnan().logical_and(y.isnan())) } else { close })
        })
    }
}
/// x · 2^-exponent; the power alone may be beyond the dtype.
fn in_two_steps(x: &Tensor, exponent: &Tensor) -> Tensor {
    let half = (exponent * 0.5).floor();
    x.ldexp(&half - exponent).ldexp(half.neg())
}
/// A tensor and its bounds in the dtype in which they meet.
#[track_caller]
fn clamped<const N: usize>(op: &'static str, x: &Tensor, bounds: [OperandRef<'_>; N], f: impl FnOnce(&Tensor, [OperandRef<'_>; N]) -> Tensor) -> Tensor {
    compose(op, &tensors_of(x, &bounds), || {
        let sides: smallvec::SmallVec<[OperandRef<'_>; 3]> = std::iter::once(OperandRef::Tensor(x)).chain(bounds).collect();
        let dtype = common(&sides)?;
        Ok(f(&x.cast(dtype), bounds))
    })
}
// Against a number a selection, not `maximum`: at the bound no gradient passes. Against a tensor the two that are equal
// share it. Both as in PyTorch.
fn at_least(x: &Tensor, min: OperandRef<'_>) -> Tensor {
    match min {
        OperandRef::Tensor(min) => x.maximum(min),
        OperandRef::Scalar(min) => keep_nan(x, x.gt(min).where_(x, min)),
    }
}
fn at_most(x: &Tensor, max: OperandRef<'_>) -> Tensor {
    match max {
        OperandRef::Tensor(max) => x.minimum(max),
        OperandRef::Scalar(max) => keep_nan(x, x.lt(max).where_(x, max)),
    }
}
/// What bounds gave of x, or NaN where x is, to which no gradient flows.
fn keep_nan(x: &Tensor, bounded: Tensor) -> Tensor {
    if x.error().is_none() && x.meta().dtype.is_float() { x.isnan().where_(f64::NAN, bounded) } else { bounded }
}
/// Tensors in the dtype in which they meet, widened to compute, and that dtype.
fn widened_alike<const N: usize>(tensors: [&Tensor; N]) -> Built<([Tensor; N], DType)> {
    let tensors = alike(tensors)?;
    let dtype = tensors[0].meta().dtype;
    Ok((tensors.map(|t| t.widened()), dtype))
}
/// The other side in the dtype that a function of 16-bit floats computes in; two dtypes do not meet there either.
fn widened_as(x: &Tensor, other: &Tensor) -> Built<Tensor> {
    if let Some(error) = other.error() {
        return Err(error.into());
    }
    same_dtype(&x.meta(), &other.meta())?;
    Ok(other.widened())
}
