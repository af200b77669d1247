//! Weighted sums of a few elements along an axis, and their gradient: resampling.
use super::{Attr, Attrs, Composite, wide::floats};
use crate::{ErrorKind, Shape, TensorType, Types};
use smallvec::smallvec;

/// Inputs: x, indices and weights `[taps, to]`. Element t along the axis is `sum_k x[index[k, t]] weight[k, t]`.
#[derive(Clone, Copy, Debug)]
pub struct Taps {
    /// the axis
    pub axis: usize,
}
/// Inputs: the cotangent of the output, indices and weights; output: that of x.
#[derive(Clone, Copy, Debug)]
pub struct TapsBackward {
    /// the axis
    pub axis: usize,
    /// how many elements x has along it
    pub size: usize,
}
/// How many elements the axis has in the result; `inner`: in what is read there, where that is known.
fn check(axis: usize, inputs: &[TensorType]) -> Result<usize, ErrorKind> {
    let [x, index, weight] = inputs else { return Err(ErrorKind::Argument("taps have elements, indices and weights".into())) };
    floats(x)?;
    if axis >= x.shape.rank() {
        return Err(ErrorKind::Shape { shape: x.shape, expected: format!("an axis {axis}") });
    }
    if !index.dtype.is_int() {
        return Err(ErrorKind::Dtype(format!("an index is an integer tensor, not {}", index.dtype)));
    }
    if weight.dtype != x.dtype {
        return Err(ErrorKind::DtypeMismatch { left: x.dtype, right: weight.dtype });
    }
    if index.shape.rank() != 2 || index.shape[0] == 0 || index.shape != weight.shape {
        return Err(ErrorKind::ShapeMismatch { left: index.shape, right: weight.shape, axes: None, expected: "indices and weights are [taps, to]" });
    }
    Ok(index.shape[1])
}

impl Composite for Taps {
    fn name(&self) -> &'static str {
        "adamant.taps"
    }
    fn attrs(&self) -> Attrs {
        smallvec![("axis", Attr::Int(self.axis as i64))]
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let to = check(self.axis, inputs)?;
        Ok(smallvec![TensorType { shape: sized(&inputs[0].shape, self.axis, to)?, ..inputs[0] }])
    }
    fn can_fault(&self) -> bool {
        true
    }
}
impl Composite for TapsBackward {
    fn name(&self) -> &'static str {
        "adamant.taps_backward"
    }
    fn attrs(&self) -> Attrs {
        smallvec![("axis", Attr::Int(self.axis as i64)), ("size", Attr::Int(self.size as i64))]
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let to = check(self.axis, inputs)?;
        if inputs[0].shape[self.axis] != to {
            return Err(ErrorKind::ShapeMismatch {
                left: inputs[0].shape,
                right: inputs[1].shape,
                axes: None,
                expected: "a cotangent has as many elements along the axis as there are sums",
            });
        }
        Ok(smallvec![TensorType { shape: sized(&inputs[0].shape, self.axis, self.size)?, ..inputs[0] }])
    }
    fn can_fault(&self) -> bool {
        true
    }
}
/// A shape with another size of an axis, which may be too many elements.
fn sized(shape: &Shape, axis: usize, to: usize) -> Result<Shape, ErrorKind> {
    let dims: Vec<usize> = shape.iter().enumerate().map(|(a, &d)| if a == axis { to } else { d }).collect();
    Shape::new(&dims)
}
