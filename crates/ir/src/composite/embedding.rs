//! Rows of a table, by index, and the gradient of the table.
use super::{Attr, Attrs, Composite};
use crate::{ErrorKind, Shape, TensorType, Types};
use smallvec::smallvec;

/// Where there is one.
fn padding(row: Option<usize>) -> Option<(&'static str, Attr)> {
    row.map(|r| ("padding_idx", Attr::Int(r as i64)))
}

/// Inputs: the table `[rows, ..features]` and integer indices of any shape; output `[..indices, ..features]`.
#[derive(Clone, Copy, Debug)]
pub struct Embedding {
    /// the row that gets no gradient
    pub padding_idx: Option<usize>,
}

/// Inputs: the cotangent of the output, and the indices; output: that of the table.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingBackward {
    /// how many rows the table has
    pub rows: usize,
    /// the row that gets no gradient
    pub padding_idx: Option<usize>,
}

impl Composite for Embedding {
    fn name(&self) -> &'static str {
        "adamant.embedding"
    }
    fn attrs(&self) -> Attrs {
        padding(self.padding_idx).into_iter().collect()
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let (table, ids) = (&inputs[0], &inputs[1]);
        if table.shape.rank() != 2 {
            return Err(ErrorKind::Shape { shape: table.shape, expected: "a table [rows, features]".into() });
        }
        if !ids.dtype.is_int() {
            return Err(ErrorKind::Dtype(format!("an index is an integer tensor, not {}", ids.dtype)));
        }
        if let Some(p) = self.padding_idx.filter(|&p| p >= table.shape[0]) {
            return Err(ErrorKind::Index { index: p as i64, axis: Some(0), bound: table.shape[0], position: None });
        }
        let shape = ids.shape.insert(ids.shape.rank(), table.shape[1])?;
        Ok(smallvec![TensorType { shape, ..*table }])
    }
    fn can_fault(&self) -> bool {
        true
    }
}

impl Composite for EmbeddingBackward {
    fn name(&self) -> &'static str {
        "adamant.embedding_backward"
    }
    fn attrs(&self) -> Attrs {
        [("rows", Attr::Int(self.rows as i64))].into_iter().chain(padding(self.padding_idx)).collect()
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let g = inputs[0];
        let features = g.shape[g.shape.rank() - 1];
        Ok(smallvec![TensorType { shape: Shape::new(&[self.rows, features])?, ..g }])
    }
    fn can_fault(&self) -> bool {
        true
    }
}
