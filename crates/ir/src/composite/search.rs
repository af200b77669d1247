//! Places in sorted rows.
use super::{Attr, Attrs, Composite};
use crate::{DType, ErrorKind, TensorType, Types};
use smallvec::smallvec;

/// Inputs: sorted rows (the last axis) and values; a vector of rows serves values of any shape, rows go with values of the same
/// leading sizes. Output (i64): how many elements of its row stand before a value: those that are less and, if `right`, those that
/// are equal.
#[derive(Clone, Copy, Debug)]
pub struct SearchSorted {
    /// behind equal elements
    pub right: bool,
}

impl Composite for SearchSorted {
    fn name(&self) -> &'static str {
        "adamant.search_sorted"
    }
    fn attrs(&self) -> Attrs {
        smallvec![("right", Attr::Bool(self.right))]
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let (rows, values) = (&inputs[0], &inputs[1]);
        if rows.dtype != values.dtype {
            return Err(ErrorKind::DtypeMismatch { left: rows.dtype, right: values.dtype });
        }
        if !rows.dtype.computes() {
            return Err(ErrorKind::Dtype(format!("{} has no order", rows.dtype)));
        }
        let (rank, v) = (rows.shape.rank(), values.shape);
        let leads = rank == 1 || (rank == v.rank() && rank > 0 && rows.shape[..rank - 1] == v[..rank - 1]);
        if !leads {
            return Err(ErrorKind::ShapeMismatch {
                left: rows.shape,
                right: v,
                axes: None,
                expected: "sorted rows and values must have the same leading sizes",
            });
        }
        Ok(smallvec![TensorType { shape: v, dtype: DType::I64 }])
    }
}
