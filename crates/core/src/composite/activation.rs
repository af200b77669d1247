//! Activation functions that are made of rows of the scalar table. Each computes in f32 for 16-bit floats and rounds
//! once, has PyTorch's gradient at its kinks, and never multiplies an infinite branch that was not taken by zero.
use crate::{
    AxisSet, DType, ErrorKind, Tensor,
    composite::wide::{floats, same_dtype},
    shape::Axis,
    tensor::compose::{Built, compose, refuse},
};

/// Computes in f32 where x is a 16-bit float; integers count as f32.
#[track_caller]
fn float_function(op: &'static str, x: &Tensor, f: impl FnOnce(&Tensor) -> Built<Tensor>) -> Tensor {
    compose(op, &[x], || {
        let dtype = x.meta().dtype.to_float();
        Ok(f(&x.cast(dtype).widened())?.cast(dtype))
    })
}
/// The number as one of an integer dtype, if it is one of it.
fn whole(dtype: DType, number: f64) -> Option<i64> {
    let (low, high) = dtype.int_range()?;
    let n = number as i64;
    (n as f64 == number && n < i64::MAX && (low..=high).contains(&n.into())).then_some(n)
}

impl Tensor {
    /// x where it is positive, else `negative_slope · x`. At 0 the gradient is the slope.
    #[track_caller]
    #[must_use]
    pub fn leaky_relu(&self, negative_slope: f64) -> Tensor {
        float_function("leaky_relu", self, |x| Ok(x.gt(0.0).where_(x, x * negative_slope)))
    }
    /// x where it is positive, else `weight · x`; one weight, or one for each channel (axis 1).
    #[track_caller]
    #[must_use]
    pub fn prelu(&self, weight: &Tensor) -> Tensor {
        compose("prelu", &[self, weight], || {
            let m = floats(&self.meta())?;
            same_dtype(&m, &weight.meta())?;
            let (shape, ws) = (m.shape, weight.meta().shape);
            let count = ws.elements();
            let channels = if shape.rank() > 1 { shape[1] } else { 1 };
            if ws.rank() > 1 || (count != 1 && count != channels) {
                return Err(ErrorKind::ShapeMismatch { left: shape, right: ws, axes: None, expected: "one weight, or one for each channel" }.into());
            }
            let mut dims = vec![1; shape.rank().saturating_sub(1)];
            if count != 1 {
                dims[0] = count;
            }
            let (x, w) = (self.widened(), weight.widened().reshape(dims));
            // The weight is chosen and not the product: 0 times an infinite one would be in the gradient.
            Ok((&x * x.gt(0.0).where_(1.0, w)).rounded(m.dtype))
        })
    }
    /// x where it is positive, else `alpha (exp(x) - 1)` (Clevert et al., 2016).
    #[track_caller]
    #[must_use]
    pub fn elu(&self, alpha: f64) -> Tensor {
        float_function("elu", self, |x| Ok(exponential_branch(x, 1.0, alpha)))
    }
    /// x where it is positive, else `alpha (exp(x / alpha) - 1)` (Barron, 2017).
    #[track_caller]
    #[must_use]
    pub fn celu(&self, alpha: f64) -> Tensor {
        float_function("celu", self, |x| if alpha == 0.0 { refuse("alpha is not 0") } else { Ok(exponential_branch(x, 1.0 / alpha, alpha)) })
    }
    /// The self-normalising ELU (Klambauer et al., 2017).
    #[track_caller]
    #[must_use]
    pub fn selu(&self) -> Tensor {
        const ALPHA: f64 = 1.673_263_242_354_377_2;
        const SCALE: f64 = 1.050_700_987_355_480_5;
        float_function("selu", self, |x| Ok(exponential_branch(x, 1.0, ALPHA) * SCALE))
    }
    /// `log(1 + exp(beta x)) / beta`, and x itself where `beta x` is above the threshold.
    #[track_caller]
    #[must_use]
    pub fn softplus_with(&self, beta: f64, threshold: f64) -> Tensor {
        float_function("softplus", self, |x| {
            let scaled = x * beta;
            Ok(scaled.gt(threshold).where_(x, scaled.softplus() / beta))
        })
    }
    /// x between two bounds; the gradient is 0 at the bounds themselves. Integers stay integers where the bounds are whole numbers.
    #[track_caller]
    #[must_use]
    pub fn hardtanh(&self, min: f64, max: f64) -> Tensor {
        if self.error().is_none()
            && let dtype = self.meta().dtype
            && let Some((low, high)) = dtype.int_range()
            // A bound beyond the dtype's own bounds nothing.
            && let (Some(least), Some(most)) = (whole(dtype, min.max(low as f64)), whole(dtype, max.min(high as f64)))
            && min.fract() == 0.0
            && max.fract() == 0.0
            && min <= max
        {
            return self.clamp(least, most);
        }
        float_function("hardtanh", self, |x| {
            if min > max { refuse(format!("the lower bound {min} is above the upper {max}")) } else { Ok(between(x, min, max, x)) }
        })
    }
    /// x between 0 and 6; integers stay integers.
    #[track_caller]
    #[must_use]
    pub fn relu6(&self) -> Tensor {
        if self.error().is_none() && self.meta().dtype.is_int() {
            return self.clamp(0, 6);
        }
        float_function("relu6", self, |x| Ok(between(x, 0.0, 6.0, x)))
    }
    /// `x / 6 + 1 / 2` between 0 and 1.
    #[track_caller]
    #[must_use]
    pub fn hardsigmoid(&self) -> Tensor {
        float_function("hardsigmoid", self, |x| Ok(x.le(-3.0).where_(0.0, x.ge(3.0).where_(1.0, x / 6.0 + 0.5))))
    }
    /// `x · hardsigmoid(x)` (Howard et al., 2019).
    #[track_caller]
    #[must_use]
    pub fn hardswish(&self) -> Tensor {
        float_function("hardswish", self, |x| {
            let moved = x + 3.0;
            Ok(x * between(&moved, 0.0, 6.0, &moved) / 6.0)
        })
    }
    /// 0 where `|x|` is at most lambda, else x.
    #[track_caller]
    #[must_use]
    pub fn hardshrink(&self, lambda: f64) -> Tensor {
        float_function("hardshrink", self, |x| Ok(x.ge(-lambda).logical_and(x.le(lambda)).where_(0.0, x)))
    }
    /// x moved toward 0 by lambda, 0 where `|x|` is at most lambda.
    #[track_caller]
    #[must_use]
    pub fn softshrink(&self, lambda: f64) -> Tensor {
        float_function("softshrink", self, |x| {
            if lambda.is_nan() || lambda < 0.0 {
                return refuse(format!("lambda is at least 0, not {lambda}"));
            }
            // NaN is neither above nor below and stays NaN.
            Ok(x.gt(lambda).where_(x - lambda, x.lt(-lambda).where_(x + lambda, x * 0.0)))
        })
    }
    /// x where it is above the threshold, else `value`. Integers stay integers where both are whole numbers that their dtype holds.
    #[track_caller]
    #[must_use]
    pub fn threshold(&self, threshold: f64, value: f64) -> Tensor {
        if self.error().is_none()
            && let dtype = self.meta().dtype
            && let (Some(threshold), Some(value)) = (whole(dtype, threshold), whole(dtype, value))
        {
            return compose("threshold", &[self], || Ok(self.le(threshold).where_(value, self)));
        }
        float_function("threshold", self, |x| Ok(x.le(threshold).where_(value, x)))
    }
    /// The first half along an axis times the sigmoid of the second (Dauphin et al., 2017).
    #[track_caller]
    #[must_use]
    pub fn glu(&self, axis: impl Axis) -> Tensor {
        halves("glu", self, axis, |a, b| a * b.sigmoid())
    }
    /// The SiLU of the first half of the last axis times the second (Shazeer, 2020).
    #[track_caller]
    #[must_use]
    pub fn swiglu(&self) -> Tensor {
        halves("swiglu", self, -1, |a, b| a.silu() * b)
    }
    /// The GELU of the first half of the last axis times the second (Shazeer, 2020).
    #[track_caller]
    #[must_use]
    pub fn geglu(&self) -> Tensor {
        halves("geglu", self, -1, |a, b| a.gelu() * b)
    }
    /// `log(x / (1 - x))` of x bounded to `eps..1 - eps`.
    #[track_caller]
    #[must_use]
    pub fn logit_with(&self, eps: f64) -> Tensor {
        // A NaN is no number that a bound has taken the place of: its gradient is NaN.
        float_function("logit", self, |x| Ok(x.isnan().where_(x, x.clamp(eps, 1.0 - eps)).logit()))
    }
    /// A soft choice among the last axis's classes: the softmax of the logits plus Gumbel noise, divided by `tau`;
    /// `hard` gives the one-hot choice with the soft one's gradient (Jang et al., 2017).
    #[track_caller]
    #[must_use]
    pub fn gumbel_softmax(&self, tau: f64, hard: bool, axis: impl Axis, rng: &crate::Rng) -> Tensor {
        let axis = axis.to_axis();
        compose("gumbel_softmax", &[self], || {
            let m = floats(&self.meta())?;
            let axis = m.shape.axis(axis)?;
            let x = self.widened();
            let wide = x.meta().dtype;
            // 1 - u is in (0, 1]; 2^-24 below 1 keeps the inner logarithm off 0.
            let uniform = (1.0f64 - rng.uniform(m.shape, wide)) * (1.0 - 2f64.powi(-23)) + 2f64.powi(-24);
            let noise = uniform.log().neg().log().neg();
            let soft = ((x + noise) / tau).softmax(axis);
            if !hard {
                return Ok(soft.cast(m.dtype));
            }
            let max = soft.reduce(crate::op::ReduceOp::Max, AxisSet::one(axis), true);
            let choice = soft.eq(&max).cast(wide).detach();
            Ok((choice - soft.detach() + soft).cast(m.dtype))
        })
    }
}
/// x where it is positive, else `alpha (exp(inner · x) - 1)`.
fn exponential_branch(x: &Tensor, inner: f64, alpha: f64) -> Tensor {
    let positive = x.gt(0.0);
    // Large x never reach the exponential, whose gradient would be infinite times zero.
    let below = positive.where_(0.0, x);
    positive.where_(x, (below * inner).expm1() * alpha)
}
/// `middle` where x lies strictly between the bounds, else the bound.
fn between(x: &Tensor, min: f64, max: f64, middle: &Tensor) -> Tensor {
    x.le(min).where_(min, x.ge(max).where_(max, middle))
}
#[track_caller]
fn halves(op: &'static str, x: &Tensor, axis: impl Axis, f: impl FnOnce(Tensor, Tensor) -> Tensor) -> Tensor {
    let axis = axis.to_axis();
    compose(op, &[x], || {
        let m = floats(&x.meta())?;
        let axis = m.shape.axis(axis)?;
        if !m.shape[axis].is_multiple_of(2) {
            return Err(ErrorKind::Shape { shape: m.shape, expected: format!("axis {axis} of an even size, to be halved") }.into());
        }
        let half = m.shape[axis] / 2;
        let wide = x.widened();
        Ok(f(wide.narrow(axis, 0, half), wide.narrow(axis, half, half)).cast(m.dtype))
    })
}
