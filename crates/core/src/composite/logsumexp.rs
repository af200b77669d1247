//! The logarithm of a sum of exponentials. A composite for its gradient, `g exp(x - y)`, which reads input and output
//! and nothing between.
use super::{Compound, RuleArgs, Saves, StackedInput, of_stacks};
use crate::{AxisSet, Result, Tensor, composite::Cotangents, op::ReduceOp};
pub use adamant_ir::composite::logsumexp::*;
use smallvec::smallvec;

impl Compound for LogSumExp {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, shape) = (inputs[0].widened(), inputs[0].meta().shape);
        let dtype = inputs[0].meta().dtype;
        if self.axes.iter().any(|a| a < shape.rank() && shape[a] == 0) {
            return Ok(vec![x.exp().reduce(ReduceOp::Sum, self.axes, true).log().cast(dtype)]);
        }
        // An infinite maximum cannot be subtracted: inf - inf is NaN.
        let top = x.detach().reduce(ReduceOp::Max, self.axes, true);
        let top = top.isinf().where_(0.0, &top);
        Ok(vec![((x - &top).exp().reduce(ReduceOp::Sum, self.axes, true).log() + top).cast(dtype)])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves { inputs: 1, outputs: 1 })
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let Some(g) = &args.cotangents[0] else { return Ok(smallvec![None]) };
        let (x, y) = (args.input(0)?.widened(), args.output(0)?.widened());
        Ok(smallvec![Some((g.widened() * (x - y).exp()).cast(args.metas[0].dtype))])
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        of_stacks(LogSumExp { axes: AxisSet::of(self.axes.iter().map(|a| a + 1)) }, inputs, examples)
    }
}
