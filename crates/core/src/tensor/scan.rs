//! Running combinations along an axis.
use super::{
    Tensor,
    compose::{compose, compose1, on_an_axis},
};
use crate::{Arg, DType, Op, op::ScanOp, shape::Axis};

impl Tensor {
    /// The sum of all elements up to each one along an axis. Of bool and integers: i64.
    #[track_caller]
    pub fn cumsum(&self, axis: impl Axis) -> Tensor {
        self.scanned("cumsum", ScanOp::Sum, axis, false)
    }
    /// The product of all elements up to each one along an axis. Of bool and integers: i64.
    #[track_caller]
    pub fn cumprod(&self, axis: impl Axis) -> Tensor {
        self.scanned("cumprod", ScanOp::Prod, axis, false)
    }
    /// The maximum of all elements up to each one, and the index (i64) of its last occurrence. NaN sticks.
    #[track_caller]
    pub fn cummax(&self, axis: impl Axis) -> (Tensor, Tensor) {
        self.running_extreme("cummax", ScanOp::Max, axis)
    }
    /// The minimum of all elements up to each one, and the index (i64) of its last occurrence. NaN sticks.
    #[track_caller]
    pub fn cummin(&self, axis: impl Axis) -> (Tensor, Tensor) {
        self.running_extreme("cummin", ScanOp::Min, axis)
    }
    /// log(cumsum(exp(x))) along an axis, without overflow or underflow: sums are kept relative to the running maximum.
    #[track_caller]
    pub fn logcumsumexp(&self, axis: impl Axis) -> Tensor {
        compose1("logcumsumexp", self, |x| {
            let dtype = x.meta().dtype.to_float();
            let (x, scalar) = on_an_axis(&x.wide());
            let shape = x.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            let n = shape[axis];
            if n == 0 {
                return Ok(x.cast(dtype));
            }
            // s[t] = s[t-1] * exp(m[t-1] - m[t]) + exp(x[t] - m[t]); an infinite maximum counts as 0.
            let top = x.detach().scanned("cummax", ScanOp::Max, axis, false);
            let finite = top.abs().eq(f64::INFINITY).select(0.0, &top);
            let before = Tensor::cat(&[finite.narrow(axis, 0, 1), finite.narrow(axis, 0, n - 1)], axis);
            let empty = top.eq(f64::NEG_INFINITY);
            let empty_before = Tensor::cat(&[empty.narrow(axis, 0, 1), empty.narrow(axis, 0, n - 1)], axis);
            let decay = empty_before.select(0.0, &(before - &finite).exp());
            let sums = decay.linear_recurrence(&(&x - &finite).exp(), axis, false);
            let out = (sums.log() + finite).cast(dtype);
            Ok(if scalar { out.reshape(()) } else { out })
        })
    }
    /// `h[t] = self[t] * h[t-1] + b[t]` along an axis, from `h[-1] = 0`; backwards if `reverse`.
    #[track_caller]
    pub fn linear_recurrence(&self, b: &Tensor, axis: impl Axis, reverse: bool) -> Tensor {
        compose("linear_recurrence", &[self, b], || {
            let axis = self.meta().shape.axis(axis.to_axis())?;
            Ok(Tensor::apply(Op::Scan { op: ScanOp::LinearRecurrence, axis: axis as u8, reverse }, Arg::None, &[self, b]))
        })
    }
    /// Differences of neighbours along an axis, `n` times over (of bool: whether they differ).
    #[track_caller]
    pub fn diff(&self, n: usize, axis: impl Axis) -> Tensor {
        compose1("diff", self, |x| {
            let axis = x.meta().shape.axis(axis.to_axis())?;
            let mut x = x.clone();
            for _ in 0..n {
                let size = x.meta().shape[axis];
                if size == 0 {
                    break;
                }
                let (late, early) = (x.narrow(axis, 1, size - 1), x.narrow(axis, 0, size - 1));
                x = if x.meta().dtype == DType::Bool { late.eq(early).logical_not() } else { late - early };
            }
            Ok(x)
        })
    }

    #[track_caller]
    fn scanned(&self, name: &'static str, op: ScanOp, axis: impl Axis, reverse: bool) -> Tensor {
        compose1(name, self, |x| {
            let (x, scalar) = on_an_axis(x);
            let axis = x.meta().shape.axis(axis.to_axis())?;
            let out = Tensor::apply(Op::Scan { op, axis: axis as u8, reverse }, Arg::None, &[&x]);
            Ok(if scalar { out.reshape(()) } else { out })
        })
    }
    #[track_caller]
    fn running_extreme(&self, name: &'static str, op: ScanOp, axis: impl Axis) -> (Tensor, Tensor) {
        compose1(name, self, |x| {
            let (x, scalar) = on_an_axis(x);
            let axis = x.meta().shape.axis(axis.to_axis())?;
            let values = x.scanned(name, op, axis, false);
            // Of equal elements the last sets the running extreme, and every NaN does.
            let plain = x.detach();
            let mut sets = plain.eq(values.detach());
            if x.meta().dtype.is_float() {
                sets = sets.logical_or(plain.isnan());
            }
            let at = sets.select(&plain.iota_like(axis, DType::I64), 0i64).scanned(name, ScanOp::Max, axis, false);
            Ok(if scalar { (values.reshape(()), at.reshape(())) } else { (values, at) })
        })
    }
}
