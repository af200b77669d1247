//! Vectors on a diagonal of matrices. A composite because the cotangent is a view of that of the matrices, where those of the steps that put
//! elements among zeros would take it apart again, all of it.
use super::{Compound, RuleArgs, Saves, StackedInput, of_stacks};
use crate::{Result, Tensor, composite::Cotangents};
pub use adamant_ir::composite::on_diagonal::*;
use smallvec::smallvec;

impl Compound for OnDiagonal {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, shape) = (&inputs[0], inputs[0].meta().shape);
        let lead = shape.rank() - 1;
        let beside = self.offset.unsigned_abs();
        let size = shape[lead] + beside;
        // In the flattened matrix a diagonal is every (size + 1)-th element from its first one on.
        let start = if self.offset < 0 { size * beside } else { beside };
        let flat = x.dilated(lead, start, size + 1, size * size)?;
        Ok(vec![flat.reshape(shape[..lead].iter().copied().chain([size, size]).collect::<Vec<_>>())])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(0))
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        Ok(smallvec![args.cotangents[0].as_ref().map(|g| g.diagonal(self.offset, -2, -1))])
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        of_stacks(*self, inputs, examples)
    }
}
