//! Reductions. `sum`, `amax`, ... drop the reduced axes; the `_keepdim` forms keep them with size 1.
use super::Tensor;
use crate::{Arg, AxisSet, Op, Origin, Shape, op::ReduceOp, shape::Axes};

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
            Err(kind) => return Tensor::failed(crate::Error::at(name, kind, origin)),
        };
        let kept = Tensor::apply_at(Op::Reduce { op, axes }, Arg::None, &[self], origin);
        if keep || axes.0 == 0 { kept } else { kept.reshape(drop_axes(&shape, axes)) }
    }
    /// The sum over the axes (`..` for all). Of bool and integers: i64.
    #[track_caller]
    pub fn sum(&self, axes: impl Axes) -> Tensor {
        self.reduce(ReduceOp::Sum, axes, false)
    }
    /// As [`Tensor::sum`], keeping the axes with size 1.
    #[track_caller]
    pub fn sum_keepdim(&self, axes: impl Axes) -> Tensor {
        self.reduce(ReduceOp::Sum, axes, true)
    }
}
/// The shape without the axes.
pub(crate) fn drop_axes(shape: &Shape, axes: AxisSet) -> Shape {
    axes.iter().collect::<Vec<_>>().into_iter().rev().fold(*shape, |s, a| s.without(a))
}
