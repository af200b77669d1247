//! Vectors on a diagonal of matrices.
use super::{Attr, Attrs, Composite};
use crate::{ErrorKind, TensorType, Types};
use smallvec::smallvec;

/// Input: vectors `[.., n]`. Output: matrices `[.., size, size]` of `size = n + |offset|` with them on a diagonal, zeros elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct OnDiagonal {
    /// which diagonal: positive ones lie above the main one
    pub offset: isize,
}

impl Composite for OnDiagonal {
    fn name(&self) -> &'static str {
        "adamant.on_diagonal"
    }
    fn attrs(&self) -> Attrs {
        smallvec![("offset", Attr::Int(self.offset as i64))]
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let shape = inputs[0].shape;
        let Some(&n) = shape.last() else { return Err(ErrorKind::Shape { shape, expected: "at least one axis".into() }) };
        let (size, lead) = (n.saturating_add(self.offset.unsigned_abs()), shape.rank() - 1);
        let dims: Vec<usize> = shape[..lead].iter().copied().chain([size, size]).collect();
        Ok(smallvec![TensorType { shape: crate::Shape::new(&dims)?, ..inputs[0] }])
    }
}
