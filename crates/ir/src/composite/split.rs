//! Equal parts along an axis.
use super::{Attr, Attrs, Composite};
use crate::{ErrorKind, TensorType, Types};
use smallvec::smallvec;

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
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let shape = inputs[0].shape;
        if self.axis >= shape.rank() || self.parts == 0 || !shape[self.axis].is_multiple_of(self.parts) {
            return Err(ErrorKind::Shape { shape, expected: format!("an axis {} of {} equal parts", self.axis, self.parts) });
        }
        let part = TensorType { shape: shape.with(self.axis, shape[self.axis] / self.parts), ..inputs[0] };
        Ok(smallvec![part; self.parts])
    }
}
