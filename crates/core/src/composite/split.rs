//! Equal parts along an axis. Each part is a view; a composite because the cotangents of all parts join into one tensor,
//! where those of slices would each be padded to the whole and added.
use super::{Attr, Attrs, Composite, RuleArgs, Saves, StackedInput, of_stacks};
use crate::{ErrorKind, Meta, Result, Tensor, composite::Cotangents, op::Metas};
use smallvec::{SmallVec, smallvec};

/// Input: a tensor whose axis `parts` divides. Outputs: its parts in order.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// which axis
    pub axis: usize,
    /// how many parts
    pub parts: usize,
}
impl Composite for Split {
    fn name(&self) -> &'static str {
        "adamant.split"
    }
    fn attrs(&self) -> Attrs {
        smallvec![("axis", Attr::Int(self.axis as i64)), ("parts", Attr::Int(self.parts as i64))]
    }
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        let shape = inputs[0].shape;
        if self.axis >= shape.rank() || self.parts == 0 || !shape[self.axis].is_multiple_of(self.parts) {
            return Err(ErrorKind::Shape { shape, expected: format!("an axis {} of {} equal parts", self.axis, self.parts) });
        }
        let part = Meta { shape: shape.with(self.axis, shape[self.axis] / self.parts), ..inputs[0] };
        Ok(smallvec![part; self.parts])
    }
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
