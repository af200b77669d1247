//! What the rules of shapes of several primitives ask.
use crate::{DType, ErrorKind, Shape, TensorType};

/// Are there as many inputs as the op takes?
pub(super) fn arity(name: &str, n: usize, inputs: &[TensorType]) -> Result<(), ErrorKind> {
    if inputs.len() == n { Ok(()) } else { Err(ErrorKind::Internal(format!("{name} takes {n} inputs, got {}", inputs.len()))) }
}
/// Has the dtype arithmetic?
pub(super) fn computes(d: DType) -> Result<(), ErrorKind> {
    if d.computes() { Ok(()) } else { Err(ErrorKind::Dtype(format!("{d} is a storage dtype; cast to a dtype with arithmetic first"))) }
}
/// The axis, if there is one.
pub(super) fn axis_in(axis: u8, shape: &Shape) -> Result<usize, ErrorKind> {
    if (axis as usize) < shape.rank() { Ok(axis as usize) } else { Err(ErrorKind::Axis { axis: axis as isize, rank: shape.rank() }) }
}
/// The broadcast shape, or an error that names the axes that differ.
pub fn broadcast(a: &Shape, b: &Shape) -> Result<Shape, ErrorKind> {
    a.broadcast(b).ok_or_else(|| {
        let axes = (1..=a.rank().min(b.rank())).map(|k| (a.rank() - k, b.rank() - k)).find(|&(i, j)| a[i] != b[j] && a[i] != 1 && b[j] != 1);
        ErrorKind::ShapeMismatch { left: *a, right: *b, axes, expected: "shapes do not broadcast" }
    })
}
