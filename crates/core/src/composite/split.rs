//! Equal parts along an axis. Each part is a view; a composite because the cotangents of all parts join into one tensor,
//! where those of slices would each be padded to the whole and added.
use super::{Compound, RuleArgs, Saves, StackedInput, of_stacks};
use crate::{Result, Tensor, composite::Cotangents};
pub use adamant_ir::composite::split::*;
use smallvec::{SmallVec, smallvec};

impl Compound for Split {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let len = inputs[0].meta().shape[self.axis] / self.parts;
        Ok((0..self.parts).map(|k| inputs[0].narrow(self.axis, k * len, len)).collect())
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(0))
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let Some(some) = args.cotangents.iter().flatten().next() else { return Ok(smallvec![None]) };
        let zeros = some.zeros_like();
        let parts: SmallVec<[&Tensor; 8]> = args.cotangents.iter().map(|g| g.as_ref().unwrap_or(&zeros)).collect();
        Ok(smallvec![Some(Tensor::cat(&parts, self.axis))])
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        of_stacks(Split { axis: self.axis + 1, ..*self }, inputs, examples)
    }
}
