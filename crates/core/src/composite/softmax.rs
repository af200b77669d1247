//! Softmax and its logarithm along an axis. The maximum is subtracted first, so no finite row overflows; a row of
//! nothing but -inf gives NaN, as in PyTorch (attention has a policy of its own). Softmax's rule reads the output; that
//! of the logarithm reads the input, for a rounded logarithm of 16 bits would make the probabilities wrong by percents.
use super::{Compound, RuleArgs, Saves, StackedInput, of_stacks};
use crate::{Axis, AxisSet, Result, Tensor, composite::Cotangents, op::ReduceOp, tensor::compose::compose};
pub use adamant_ir::composite::softmax::*;
use smallvec::smallvec;

impl Compound for Softmax {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let x = &inputs[0];
        if x.meta().shape.elements() == 0 {
            return Ok(vec![x.clone()]);
        }
        let (axis, wide) = (AxisSet::one(self.axis), x.widened());
        let e = (&wide - wide.reduce(ReduceOp::Max, axis, true)).exp();
        Ok(vec![(&e / e.sum_keepdim(axis)).cast(x.meta().dtype)])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves { inputs: 0, outputs: 1 })
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let Some(g) = &args.cotangents[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(Tensor::composite1(SoftmaxBackward { axis: self.axis }, &[g, args.output(0)?]))])
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        of_stacks(Softmax { axis: self.axis + 1 }, inputs, examples)
    }
}
impl Compound for SoftmaxBackward {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (g, y) = (inputs[0].widened(), inputs[1].widened());
        let dot = (&g * &y).sum_keepdim(AxisSet::one(self.axis));
        Ok(vec![(y * (g - dot)).cast(inputs[0].meta().dtype)])
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        of_stacks(SoftmaxBackward { axis: self.axis + 1 }, inputs, examples)
    }
}
impl Compound for LogSoftmax {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let x = &inputs[0];
        if x.meta().shape.elements() == 0 {
            return Ok(vec![x.clone()]);
        }
        Ok(vec![log_softmax_of(&x.widened(), self.axis).cast(x.meta().dtype)])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(1))
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let Some(g) = &args.cotangents[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(Tensor::composite1(LogSoftmaxBackward { axis: self.axis }, &[g, args.input(0)?]))])
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        of_stacks(LogSoftmax { axis: self.axis + 1 }, inputs, examples)
    }
}
impl Compound for LogSoftmaxBackward {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let m = inputs[0].meta();
        if m.shape.elements() == 0 {
            return Ok(vec![inputs[0].clone()]);
        }
        let g = inputs[0].widened();
        let total = g.sum_keepdim(AxisSet::one(self.axis));
        Ok(vec![(g - log_softmax_of(&inputs[1].widened(), self.axis).exp() * total).cast(m.dtype)])
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        of_stacks(LogSoftmaxBackward { axis: self.axis + 1 }, inputs, examples)
    }
}
/// The logarithm of the softmax in plain ops, in the tensor's own dtype; it must have elements.
pub(crate) fn log_softmax_of(x: &Tensor, axis: usize) -> Tensor {
    let (shifted, [_, log_sum]) = shifted_of(x, axis);
    shifted - log_sum
}
/// `x - max(x)` along an axis; the largest, and the logarithm of the sum of `exp(x - max(x))`, both with the axis kept.
pub(crate) fn shifted_of(x: &Tensor, axis: usize) -> (Tensor, [Tensor; 2]) {
    let axis = AxisSet::one(axis);
    let most = x.reduce(ReduceOp::Max, axis, true);
    let shifted = x - &most;
    let log_sum = shifted.exp().sum_keepdim(axis).log();
    (shifted, [most, log_sum])
}

impl Tensor {
    /// `exp(x) / sum(exp(x))` along an axis; finite for any finite row, NaN for a row of nothing but -inf.
    /// 16-bit floats compute in f32 and round once.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// let y = Tensor::from_vec(vec![1e4f32, 1e4], [2]).softmax(-1);
    /// assert_eq!(y.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn softmax(&self, axis: impl Axis) -> Tensor {
        along(self, "softmax", axis, |x, axis| Tensor::composite1(Softmax { axis }, &[x]))
    }
    /// The logarithm of [`Tensor::softmax`], without forming it.
    #[track_caller]
    #[must_use]
    pub fn log_softmax(&self, axis: impl Axis) -> Tensor {
        along(self, "log_softmax", axis, |x, axis| Tensor::composite1(LogSoftmax { axis }, &[x]))
    }
    /// The softmax of the negative.
    #[track_caller]
    #[must_use]
    pub fn softmin(&self, axis: impl Axis) -> Tensor {
        let _call = crate::scope::call("softmin");
        self.neg().softmax(axis)
    }
}
/// Applies `f` along a resolved axis; a scalar has the axes 0 and -1, as in PyTorch.
#[track_caller]
fn along(x: &Tensor, op: &'static str, axis: impl Axis, f: impl FnOnce(&Tensor, usize) -> Tensor) -> Tensor {
    let axis = axis.to_axis();
    compose(op, &[x], || {
        if x.rank() == 0 && (axis == 0 || axis == -1) {
            return Ok(f(&x.reshape([1usize]), 0).reshape(()));
        }
        Ok(f(x, x.meta().shape.axis(axis)?))
    })
}
