//! Distances of all pairs of rows.
use super::{Attr, Attrs, Composite, wide::floats};
use crate::{ErrorKind, TensorType, Types};
use smallvec::smallvec;

/// Inputs: x `[.., p, m]` and y `[.., r, m]` of one float dtype, with equal leading axes; output `[.., p, r]`: the `ord`-norm of
/// each row of x less each row of y. Of rows `among` themselves y is absent, x is a matrix, and the output is a vector: the
/// distances of row 0 to all behind it, then those of row 1, and so on.
#[derive(Clone, Copy, Debug)]
pub struct Distances {
    /// which norm, not negative; infinity: the largest magnitude
    pub ord: f64,
    /// of the rows of one matrix
    pub among: bool,
}
impl Composite for Distances {
    fn name(&self) -> &'static str {
        "adamant.distances"
    }
    fn attrs(&self) -> Attrs {
        smallvec![("ord", Attr::Float(self.ord)), ("among", Attr::Bool(self.among))]
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let x = inputs.first().ok_or_else(|| ErrorKind::Argument("distances are between rows".into()))?;
        floats(x)?;
        if self.ord.is_nan() || self.ord < 0.0 {
            return Err(ErrorKind::Argument(format!("distances of order {}: the order is not negative", self.ord)));
        }
        let rank = x.shape.rank();
        if self.among {
            if inputs.len() != 1 || rank != 2 {
                return Err(ErrorKind::Shape { shape: x.shape, expected: "a matrix of rows".into() });
            }
            let n = x.shape[0];
            let shape = crate::Shape::new(&[n.checked_sub(1).map_or(Some(0), |m| n.checked_mul(m)).ok_or_else(|| too_many(n))? / 2])?;
            return Ok(smallvec![TensorType { shape, ..*x }]);
        }
        let [_, y] = inputs else { return Err(ErrorKind::Argument("distances are between the rows of two operands".into())) };
        if y.dtype != x.dtype {
            return Err(ErrorKind::DtypeMismatch { left: x.dtype, right: y.dtype });
        }
        if rank < 2 || y.shape.rank() != rank || y.shape[rank - 1] != x.shape[rank - 1] || x.shape[..rank - 2] != y.shape[..rank - 2] {
            return Err(ErrorKind::ShapeMismatch {
                left: x.shape,
                right: y.shape,
                axes: None,
                expected: "rows of one length (the last axis) and equal leading axes are needed",
            });
        }
        let mut dims: Vec<usize> = x.shape[..rank - 1].to_vec();
        dims.push(y.shape[rank - 2]);
        Ok(smallvec![TensorType { shape: crate::Shape::new(&dims)?, ..*x }])
    }
}
fn too_many(rows: usize) -> ErrorKind {
    ErrorKind::Argument(format!("the pairs of {rows} rows are more than can be counted"))
}
