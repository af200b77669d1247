//! Running combinations along an axis.
use super::{
    Operand, OperandRef, Tensor,
    compose::{Built, compose, compose1, on_an_axis, refuse},
};
use crate::{Arg, DType, ErrorKind, Op, op::ScanOp, shape::Axis};
use smallvec::SmallVec;

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
            let finite = top.abs().eq(f64::INFINITY).where_(0.0, &top);
            let before = Tensor::cat(&[finite.narrow(axis, 0, 1), finite.narrow(axis, 0, n - 1)], axis);
            let empty = top.eq(f64::NEG_INFINITY);
            let empty_before = Tensor::cat(&[empty.narrow(axis, 0, 1), empty.narrow(axis, 0, n - 1)], axis);
            let decay = empty_before.where_(0.0, &(before - &finite).exp());
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

    /// The integral along an axis by the trapezoidal rule. `spacing` is the distance of neighbours, or a tensor of the points
    /// themselves: a vector, or of a shape that broadcasts.
    #[doc(alias = "trapz")]
    #[track_caller]
    pub fn trapezoid(&self, spacing: impl Operand, axis: impl Axis) -> Tensor {
        compose("trapezoid", &of_spacing(self, &spacing.operand()), || {
            Ok(trapezoids(self, spacing.operand(), axis.to_axis())?.sum(axis.to_axis()).cast(self.meta().dtype.to_float()))
        })
    }
    /// The integrals up to each point along an axis, which becomes one shorter: as [`Tensor::trapezoid`].
    #[track_caller]
    pub fn cumulative_trapezoid(&self, spacing: impl Operand, axis: impl Axis) -> Tensor {
        let built = || Ok(trapezoids(self, spacing.operand(), axis.to_axis())?.cumsum(axis.to_axis()).cast(self.meta().dtype.to_float()));
        compose("cumulative_trapezoid", &of_spacing(self, &spacing.operand()), built)
    }
    /// The derivative along an axis by central differences of second order, and by differences of order 1 or 2 at the two ends
    /// (PyTorch's `gradient`; Fornberg, 1988). `spacing` is the distance of neighbours, or a vector of the points.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// let squares = Tensor::from_vec(vec![0.0f32, 1.0, 4.0, 9.0], [4]);
    /// assert_eq!(squares.gradient(1.0, 0, 1).to_vec::<f32>()?, [1.0, 2.0, 4.0, 5.0]);
    /// assert_eq!(squares.gradient(1.0, 0, 2).to_vec::<f32>()?, [0.0, 2.0, 4.0, 6.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    pub fn gradient(&self, spacing: impl Operand, axis: impl Axis, edge_order: usize) -> Tensor {
        compose("gradient", &of_spacing(self, &spacing.operand()), || {
            let shape = self.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            let n = shape[axis];
            if !matches!(edge_order, 1 | 2) {
                return refuse(format!("the order at the ends is 1 or 2, not {edge_order}"));
            }
            if n < edge_order + 1 {
                return Err(ErrorKind::Shape { shape, expected: format!("at least {} elements along axis {axis}", edge_order + 1) }.into());
            }
            let y = self.wide();
            let steps = steps(&y, spacing.operand(), axis)?;
            let along = |t: &Tensor, first: usize, count: usize| t.narrow(axis, first, count);
            let slopes = (along(&y, 1, n - 1) - along(&y, 0, n - 1)) / &steps;
            let of = |t: &Tensor, k: usize| along(t, k, 1);
            let (mut first, mut last) = (of(&slopes, 0), of(&slopes, n - 2));
            let mut parts = vec![];
            if n > 2 {
                // Slopes on both sides of a point, each weighted with the other's step.
                let (before, after) = (along(&steps, 0, n - 2), along(&steps, 1, n - 2));
                let both = &before + &after;
                let inner = (along(&slopes, 0, n - 2) * after + along(&slopes, 1, n - 2) * before) / both;
                if edge_order == 2 {
                    (first, last) = (first * 2.0 - of(&inner, 0), last * 2.0 - of(&inner, n - 3));
                }
                parts.push(inner);
            }
            parts.insert(0, first);
            parts.push(last);
            Ok(Tensor::cat(&parts, axis).cast(self.meta().dtype.to_float()))
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
            let at = sets.where_(&plain.iota_like(axis, DType::I64), 0i64).scanned(name, ScanOp::Max, axis, false);
            Ok(if scalar { (values.reshape(()), at.reshape(())) } else { (values, at) })
        })
    }
}

/// The tensors of a function of equal or given steps.
fn of_spacing<'a>(y: &'a Tensor, spacing: &OperandRef<'a>) -> SmallVec<[&'a Tensor; 2]> {
    let points = if let OperandRef::Tensor(t) = spacing { Some(*t) } else { None };
    std::iter::once(y).chain(points).collect()
}
/// The distances of neighbours along an axis, `[.., n - 1, ..]` of full rank.
#[track_caller]
fn steps(y: &Tensor, spacing: OperandRef<'_>, axis: usize) -> Built<Tensor> {
    let (shape, n) = (y.meta().shape, y.meta().shape[axis]);
    let points = match spacing {
        OperandRef::Scalar(step) => {
            let mut sizes = vec![1; shape.rank()];
            sizes[axis] = n.saturating_sub(1);
            return Ok(Tensor::full_on(sizes, step, y.meta().dtype, y.meta().device));
        }
        OperandRef::Tensor(points) => points,
    };
    let along = if points.rank() == 1 {
        let mut sizes = vec![1; shape.rank()];
        sizes[axis] = points.meta().shape[0];
        points.reshape(sizes)
    } else {
        points.clone()
    };
    match along.meta().shape {
        s if s.rank() == shape.rank() && s[axis] == n => Ok(along.diff(1, axis)),
        right => Err(ErrorKind::ShapeMismatch { left: shape, right, axes: None, expected: "one point for each element along the axis" }.into()),
    }
}
/// The areas between neighbours along an axis.
#[track_caller]
fn trapezoids(y: &Tensor, spacing: OperandRef<'_>, axis: isize) -> Built<Tensor> {
    let axis = y.meta().shape.axis(axis)?;
    let y = y.wide();
    let n = y.meta().shape[axis].saturating_sub(1);
    let sums = y.narrow(axis, y.meta().shape[axis] - n, n) + y.narrow(axis, 0, n);
    Ok(sums * steps(&y, spacing, axis)? * 0.5)
}
