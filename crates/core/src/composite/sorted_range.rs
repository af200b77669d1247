//! A part of what a sort gives. A composite because a device need not sort a line to know its largest elements.
use super::{Compound, RuleArgs, Saves, StackedInput, of_stacks};
use crate::{Result, Tensor, composite::Cotangents};
pub use adamant_ir::composite::sorted_range::*;
use smallvec::smallvec;

impl Compound for SortedRange {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (values, at) = inputs[0].sort(self.axis, self.descending);
        Ok([values, at].map(|t| t.narrow(self.axis, self.start, self.len)).into())
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves { inputs: 0, outputs: 0b10 })
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let Some(g) = &args.cotangents[0] else { return Ok(smallvec![None]) };
        let m = args.metas[0];
        let zeros = Tensor::zeros_on(m.shape, g.meta().dtype, m.device);
        Ok(smallvec![Some(zeros.scatter_add(self.axis, args.output(1)?, g))])
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        of_stacks(SortedRange { axis: self.axis + 1, ..*self }, inputs, examples)
    }
}
