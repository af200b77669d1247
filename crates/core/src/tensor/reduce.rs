//! Reductions. `sum`, `amax`, ... drop the reduced axes; the `_keepdim` forms keep them with size 1.
//! Means and variances of 16-bit floats run in f32 and are rounded once.
use super::{
    Tensor,
    compose::{compose1, on_an_axis, refuse, two_forms},
};
use crate::{
    Arg, AxisSet, DType, ErrorKind, Op, Origin, Shape,
    composite::logsumexp::LogSumExp,
    op::{ArgOp, ReduceOp},
    scope::call,
    shape::{Axes, Axis},
};

/// A reduction and its form that keeps the axes.
macro_rules! reductions {
    ($($(#[$doc:meta])+ $name:ident $keepdim:ident ($($arg:ident: $t:ty),*) = |$x:ident, $axes:ident, $keep:ident| $body:expr;)*) => {
        impl Tensor { $(
            $(#[$doc])+
            #[track_caller]
            pub fn $name(&self, axes: impl Axes $(, $arg: $t)*) -> Tensor {
                let $keep = false;
                compose1(stringify!($name), self, |$x| { let $axes = axes.to_axes(&$x.meta().shape)?; $body })
            }
            #[doc = concat!("As [`Tensor::", stringify!($name), "`], keeping the axes with size 1.")]
            #[track_caller]
            pub fn $keepdim(&self, axes: impl Axes $(, $arg: $t)*) -> Tensor {
                let $keep = true;
                compose1(stringify!($keepdim), self, |$x| { let $axes = axes.to_axes(&$x.meta().shape)?; $body })
            }
        )* }
    };
}

reductions! {
    /// The product over the axes (`..` for all). Of bool and integers: i64.
    prod prod_keepdim() = |x, axes, keep| Ok(x.reduce(ReduceOp::Prod, axes, keep));
    /// The maximum over the axes; NaN if any is NaN. Equal maxima share the gradient. An empty axis is an error.
    amax amax_keepdim() = |x, axes, keep| Ok(x.reduce(ReduceOp::Max, axes, keep));
    /// The minimum over the axes; NaN if any is NaN. Equal minima share the gradient. An empty axis is an error.
    amin amin_keepdim() = |x, axes, keep| Ok(x.reduce(ReduceOp::Min, axes, keep));
    /// The mean over the axes; NaN of nothing. Integers are averaged as f32.
    mean mean_keepdim() = |x, axes, keep| {
        let wide = x.wide();
        Ok((wide.reduce(ReduceOp::Sum, axes, keep) / count(&x.meta().shape, axes) as f64).cast(x.meta().dtype.to_float()))
    };
    /// The variance over the axes, divided by `n - correction` (1: unbiased). Two passes: the mean first.
    var var_keepdim(correction: f64) = |x, axes, keep| Ok(x.moments(axes, correction, keep).0);
    /// The standard deviation over the axes. Its gradient where the variance is 0 is 0.
    std std_keepdim(correction: f64) = |x, axes, keep| {
        let dtype = x.meta().dtype.to_float();
        Ok(x.wide().deviation(axes, correction, keep).0.cast(dtype))
    };
    /// log(sum(exp(x))) over the axes, without overflow; -inf of nothing.
    logsumexp logsumexp_keepdim() = |x, axes, keep| {
        let sum = Tensor::composite1(LogSumExp { axes }, &[&x.cast(x.meta().dtype.to_float())]);
        Ok(sum.drop(axes, keep))
    };
    /// Are all elements along the axes not zero? bool (of u8: u8, as PyTorch). Of nothing: true.
    all all_keepdim() = |x, axes, keep| Ok(x.truth(ReduceOp::Min, axes, keep));
    /// Is any element along the axes not zero? bool (of u8: u8, as PyTorch). Of nothing: false.
    any any_keepdim() = |x, axes, keep| Ok(x.truth(ReduceOp::Max, axes, keep));
    /// How many elements along the axes are not zero, i64.
    count_nonzero count_nonzero_keepdim() = |x, axes, keep| Ok(x.nonzero_mask().reduce(ReduceOp::Sum, axes, keep));
    /// The sum of what is not NaN.
    nansum nansum_keepdim() = |x, axes, keep| Ok(x.without_nan().reduce(ReduceOp::Sum, axes, keep));
    /// The mean of what is not NaN; NaN where nothing is left.
    nanmean nanmean_keepdim() = |x, axes, keep| {
        let (dtype, wide) = (x.meta().dtype.to_float(), x.wide());
        let left = wide.isnan().logical_not().reduce(ReduceOp::Sum, axes, keep).cast(wide.meta().dtype);
        Ok((wide.without_nan().reduce(ReduceOp::Sum, axes, keep) / left).cast(dtype))
    };
}

two_forms! {
    /// Variance and mean over the axes.
    var_mean var_mean_keepdim(axes: impl Axes, correction: f64) -> (Tensor, Tensor) = |x, keepdim| {
        compose1("var_mean", x, |x| Ok(x.moments(axes.to_axes(&x.meta().shape)?, correction, keepdim)))
    };
    /// Standard deviation and mean over the axes.
    std_mean std_mean_keepdim(axes: impl Axes, correction: f64) -> (Tensor, Tensor) = |x, keepdim| compose1("std_mean", x, |x| {
        let dtype = x.meta().dtype.to_float();
        let (std, mean) = x.wide().deviation(axes.to_axes(&x.meta().shape)?, correction, keepdim);
        Ok((std.cast(dtype), mean.cast(dtype)))
    });
    /// Minimum and maximum over the axes.
    aminmax aminmax_keepdim(axes: impl Axes) -> (Tensor, Tensor) = |x, keepdim| compose1("aminmax", x, |x| {
        let axes = axes.to_axes(&x.meta().shape)?;
        Ok((x.reduce(ReduceOp::Min, axes, keepdim), x.reduce(ReduceOp::Max, axes, keepdim)))
    });
    /// The index (i64) of the first maximum along an axis, NaN counting as one; with `..` its place among all elements in row-major
    /// order.
    argmax argmax_keepdim(axis: impl Axes) -> Tensor = |x, keepdim| x.arg_extreme(ArgOp::Max, axis, keepdim);
    /// The index (i64) of the first minimum along an axis, NaN counting as one; with `..` its place among all elements in row-major
    /// order.
    argmin argmin_keepdim(axis: impl Axes) -> Tensor = |x, keepdim| x.arg_extreme(ArgOp::Min, axis, keepdim);
    /// The maximum along an axis and its index. The gradient goes to that element alone.
    max_dim max_dim_keepdim(axis: impl Axis) -> (Tensor, Tensor) = |x, keepdim| x.extreme_along("max_dim", ArgOp::Max, axis, keepdim);
    /// The minimum along an axis and its index. The gradient goes to that element alone.
    min_dim min_dim_keepdim(axis: impl Axis) -> (Tensor, Tensor) = |x, keepdim| x.extreme_along("min_dim", ArgOp::Min, axis, keepdim);
}

impl Tensor {
    #[track_caller]
    pub(crate) fn reduce(&self, op: ReduceOp, axes: impl Axes, keep: bool) -> Tensor {
        let origin = Origin::here();
        if self.error().is_some() {
            return self.clone();
        }
        let shape = self.meta().shape;
        let name = Op::Reduce { op, axes: AxisSet(0) }.name();
        let axes = match axes.to_axes(&shape) {
            Ok(a) => a,
            Err(kind) => return Tensor::failed(crate::Error::at(name, kind, origin).given([self.meta().ty()])),
        };
        let of_one = axes.0 != 0 && axes.iter().all(|axis| shape[axis] == 1);
        // What is combined of one float is that float.
        let kept = if of_one && self.meta().dtype.is_float() { self.clone() } else { Tensor::apply_at(Op::Reduce { op, axes }, Arg::None, &[self], origin) };
        if keep || axes.0 == 0 || kept.error().is_some() { kept } else { kept.reshape(drop_axes(&shape, axes)) }
    }
    /// Summed to a shape that broadcasts to this tensor's: what a gradient of a broadcast value is. Sums of bool and integers are i64.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(Tensor::ones([4, 2, 3]).sum_to_size([2, 1]).to_vec::<f32>()?, [12.0, 12.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: a shape that does not broadcast to this one.
    ///
    /// Source: `torch.Tensor.sum_to_size`.
    #[track_caller]
    pub fn sum_to_size(&self, shape: impl crate::shape::ToShape) -> Tensor {
        let shape = shape.to_shape();
        compose1("sum_to_size", self, |_| {
            let (own, shape) = (self.meta().shape, shape?);
            if shape.broadcast(&own) != Some(own) {
                return Err(ErrorKind::ShapeMismatch { left: own, right: shape, axes: None, expected: "a shape that broadcasts to the tensor's" }.into());
            }
            let more = own.rank() - shape.rank();
            let over: Vec<isize> = (0..own.rank()).filter(|&k| k < more || (shape[k - more] == 1 && own[k] != 1)).map(|k| k as isize).collect();
            Ok(if over.is_empty() { self.clone() } else { self.sum_keepdim(&over[..]) }.reshape(shape))
        })
    }
    /// The sum over the axes (`..` for all). Of bool and integers: i64.
    #[track_caller]
    pub fn sum(&self, axes: impl Axes) -> Tensor {
        self.reduce(ReduceOp::Sum, axes, false)
    }
    /// As [`Tensor::sum`], keeping the axes with size 1.
    #[track_caller]
    pub fn sum_keepdim(&self, axes: impl Axes) -> Tensor {
        let _call = call("sum_keepdim");
        self.reduce(ReduceOp::Sum, axes, true)
    }
    /// The sum in another dtype: elements are cast first.
    #[track_caller]
    pub fn sum_dtype(&self, axes: impl Axes, dtype: DType) -> Tensor {
        let _call = call("sum_dtype");
        self.cast(dtype).sum(axes).cast(dtype)
    }
    /// The mean in another dtype: elements are cast first.
    #[track_caller]
    pub fn mean_dtype(&self, axes: impl Axes, dtype: DType) -> Tensor {
        let _call = call("mean_dtype");
        if !dtype.is_float() && self.error().is_none() {
            return Tensor::fail("mean_dtype", ErrorKind::Dtype(format!("a mean is a float, not {dtype}")));
        }
        self.cast(dtype).mean(axes)
    }
    /// The largest element of all; NaN if any is NaN. [`Tensor::amax`] takes axes, [`Tensor::max_dim`] gives indices too.
    #[track_caller]
    #[must_use]
    pub fn max(&self) -> Tensor {
        let _call = call("max");
        self.amax(..)
    }
    /// The smallest element of all; NaN if any is NaN. [`Tensor::amin`] takes axes, [`Tensor::min_dim`] gives indices too.
    #[track_caller]
    #[must_use]
    pub fn min(&self) -> Tensor {
        let _call = call("min");
        self.amin(..)
    }
    /// The sum of the main diagonal of a matrix.
    #[track_caller]
    #[must_use]
    pub fn trace(&self) -> Tensor {
        compose1("trace", self, |x| {
            if x.rank() != 2 {
                return Err(ErrorKind::Shape { shape: x.meta().shape, expected: "a matrix".into() }.into());
            }
            Ok(x.diagonal(0, 0, 1).sum(0))
        })
    }

    #[track_caller]
    fn arg_extreme(&self, op: ArgOp, axes: impl Axes, keepdim: bool) -> Tensor {
        let name = if op == ArgOp::Max { "argmax" } else { "argmin" };
        compose1(name, self, |x| {
            let (x, scalar) = on_an_axis(x);
            let shape = x.meta().shape;
            let axes = axes.to_axes(&shape)?;
            if shape.rank() > 1 && axes == AxisSet::all(shape.rank()) {
                let at = x.ravel().arg_extreme(op, 0, false);
                return Ok(if keepdim { at.reshape(vec![1usize; shape.rank()]) } else { at });
            }
            let Some(axis) = axes.iter().next().filter(|_| axes.iter().count() == 1) else {
                return refuse(format!("{name} goes along one axis, or along all of them (`..`), not along {}", axes.iter().count()));
            };
            let at = Tensor::apply(Op::ArgReduce { op, axis: axis as u8 }, Arg::None, &[&x]);
            Ok(if scalar { at.reshape(()) } else { at.drop(AxisSet::one(axis), keepdim) })
        })
    }
    #[track_caller]
    fn extreme_along(&self, name: &'static str, op: ArgOp, axis: impl Axis, keepdim: bool) -> (Tensor, Tensor) {
        compose1(name, self, |x| {
            let (x, scalar) = on_an_axis(x);
            let axis = x.meta().shape.axis(axis.to_axis())?;
            let at = x.detach().arg_extreme(op, axis, true).ok()?;
            let best = x.gather(axis, &at);
            let drop = |t: &Tensor| if scalar { t.reshape(()) } else { t.drop(AxisSet::one(axis), keepdim) };
            Ok((drop(&best), drop(&at)))
        })
    }
    /// (variance, mean), computed in the wide dtype and rounded to this one's float.
    fn moments(&self, axes: AxisSet, correction: f64, keep: bool) -> (Tensor, Tensor) {
        let (meta, wide) = (self.meta(), self.wide());
        let n = count(&meta.shape, axes) as f64;
        let mean = wide.reduce(ReduceOp::Sum, axes, true) / n;
        let squares = (wide - &mean).square().reduce(ReduceOp::Sum, axes, true);
        let var = squares / (n - correction).max(0.0);
        let dtype = meta.dtype.to_float();
        (var.drop(axes, keep).cast(dtype), mean.drop(axes, keep).cast(dtype))
    }
    /// Standard deviation and mean: a norm of what is left without the mean, so that neither sum nor square overflows.
    fn deviation(&self, axes: AxisSet, correction: f64, keep: bool) -> (Tensor, Tensor) {
        let n = count(&self.meta().shape, axes) as f64;
        let mean = self.reduce(ReduceOp::Sum, axes, true) / n;
        if n == 1.0 && correction >= 1.0 {
            // Of one element there is none, and no gradient either.
            return ((&mean * f64::NAN).drop(axes, keep), mean.drop(axes, keep));
        }
        let scale = if n == 0.0 { mean.full_like(1.0) } else { super::distance::power_of_two_near(&self.detach().abs().reduce(ReduceOp::Max, axes, true)) };
        let scaled = self / &scale;
        let apart = &scaled - scaled.reduce(ReduceOp::Sum, axes, true) / n;
        let size = super::distance::euclidean(&apart, axes) * scale;
        ((size / (n - correction).max(0.0).sqrt()).drop(axes, keep), mean.drop(axes, keep))
    }
    fn truth(&self, op: ReduceOp, axes: AxisSet, keep: bool) -> Tensor {
        let meta = self.meta();
        let flags = self.detach().nonzero_mask();
        let found = if count(&meta.shape, axes) == 0 {
            let shape = axes.iter().fold(meta.shape, |s, a| s.with(a, 1));
            Tensor::full_on(shape, op == ReduceOp::Min, DType::Bool, meta.device).drop(axes, keep)
        } else {
            flags.reduce(op, axes, keep)
        };
        if meta.dtype == DType::U8 { found.cast(DType::U8) } else { found }
    }
    /// Where the element is not zero (NaN is not).
    pub(super) fn nonzero_mask(&self) -> Tensor {
        if self.meta().dtype == DType::Bool { self.clone() } else { self.cast(DType::Bool) }
    }
    fn without_nan(&self) -> Tensor {
        if self.meta().dtype.is_float() { self.isnan().where_(0.0, self) } else { self.clone() }
    }
    /// In the dtype in which means are taken: f32 for 16-bit floats, bool and integers.
    pub(super) fn wide(&self) -> Tensor {
        match self.meta().dtype {
            DType::F32 | DType::F64 => self.clone(),
            _ => self.cast(DType::F32),
        }
    }
    /// Without the axes, which have size 1, unless they are to be kept.
    pub(super) fn drop(&self, axes: AxisSet, keep: bool) -> Tensor {
        if keep || self.error().is_some() { self.clone() } else { self.reshape(drop_axes(&self.meta().shape, axes)) }
    }
    /// The square root whose gradient at 0 is 0 (PyTorch's convention for std and norms).
    pub(super) fn sqrt_flat_at_zero(&self) -> Tensor {
        let zero = self.eq(0.0);
        zero.where_(0.0, zero.where_(1.0, self).sqrt())
    }
}
/// The shape without the axes.
pub(crate) fn drop_axes(shape: &Shape, axes: AxisSet) -> Shape {
    (0..shape.rank()).rev().filter(|&a| axes.has(a)).fold(*shape, |s, a| s.without(a))
}
/// How many elements are combined into one.
pub(super) fn count(shape: &Shape, axes: AxisSet) -> usize {
    axes.iter().filter(|&a| a < shape.rank()).map(|a| shape[a]).product()
}
