//! A part of what a sort gives.
use super::{Attr, Attrs, Composite};
use crate::{DType, ErrorKind, TensorType, Types};
use smallvec::smallvec;

/// Of each line along an axis the elements of ranks `start .. start + len` in sorted order, and where each came from (i64): the k
/// largest, the k-th, the middle one. Equal elements are in the order in which they lie; NaN is larger than every number.
#[derive(Clone, Copy, Debug)]
pub struct SortedRange {
    /// the axis
    pub axis: usize,
    /// from the largest down
    pub descending: bool,
    /// the first rank
    pub start: usize,
    /// how many
    pub len: usize,
}

impl Composite for SortedRange {
    fn name(&self) -> &'static str {
        "adamant.sorted_range"
    }
    fn attrs(&self) -> Attrs {
        let size = |v: usize| Attr::Int(v as i64);
        smallvec![("axis", size(self.axis)), ("descending", Attr::Bool(self.descending)), ("start", size(self.start)), ("len", size(self.len))]
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let x = inputs[0];
        if !x.dtype.computes() {
            return Err(ErrorKind::Dtype(format!("{} has no order", x.dtype)));
        }
        if self.axis >= x.shape.rank() {
            return Err(ErrorKind::Shape { shape: x.shape, expected: format!("an axis {} to sort along", self.axis) });
        }
        if self.start.checked_add(self.len).is_none_or(|end| end > x.shape[self.axis]) {
            return Err(ErrorKind::Argument(format!("{} elements from rank {} on, along an axis of size {}", self.len, self.start, x.shape[self.axis])));
        }
        let shape = x.shape.with(self.axis, self.len);
        Ok(smallvec![TensorType { shape, ..x }, TensorType { shape, dtype: DType::I64 }])
    }
}
