//! Elements by index along an axis.
use super::{form, rules::arity};
use crate::{Attrs, ErrorKind, HostArray, Op, Scalar, TensorType, fault::Fault, host::map};
use smallvec::smallvec;

/// The type of the result.
///
/// # Errors
/// Shapes, dtypes or axes that do not go together.
pub(super) fn infer(axis: u8, inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
    arity("gather", 2, inputs)?;
    index_shapes(axis, &inputs[0], &inputs[1])?;
    Ok(TensorType { shape: inputs[1].shape, ..inputs[0] })
}

/// Do an index and the tensor that it points into go together? (Of a scatter: index and destination.)
///
/// # Errors
/// They do not.
pub(super) fn index_shapes(axis: u8, x: &TensorType, index: &TensorType) -> Result<(), ErrorKind> {
    if !index.dtype.is_int() {
        return Err(ErrorKind::Dtype(format!("an index is an integer tensor, not {}", index.dtype)));
    }
    let a = axis as usize;
    if a >= x.shape.rank() {
        return Err(ErrorKind::Axis { axis: a as isize, rank: x.shape.rank() });
    }
    if index.shape.rank() != x.shape.rank() {
        return Err(ErrorKind::ShapeMismatch { left: x.shape, right: index.shape, axes: None, expected: "index and tensor must have the same number of axes" });
    }
    match (0..x.shape.rank()).find(|&k| k != a && index.shape[k] > x.shape[k]) {
        Some(k) if index.shape.elements() > 0 => Err(ErrorKind::ShapeMismatch {
            left: x.shape,
            right: index.shape,
            axes: Some((k, k)),
            expected: "the index may not be larger than the tensor on other axes",
        }),
        _ => Ok(()),
    }
}

/// The result in plain f64: zero where the index is out of range, and the first fault.
pub(crate) fn run(axis: u8, [x, index]: [&HostArray; 2], ty: &TensorType) -> (HostArray, Option<Fault>) {
    let mut fault = None;
    let a = axis as usize;
    let out = map(ty, |i| {
        let position = index.at(i);
        match in_range(index.int(position), x.shape[a], position, &mut fault) {
            Some(k) => {
                let mut from = i.to_vec();
                from[a] = k;
                x.scalar(x.at(&from))
            }
            None => Scalar::Int(0),
        }
    });
    (out, fault)
}

/// The index, if it is in range; else the first fault is noted.
pub(super) fn in_range(index: i64, bound: usize, position: usize, fault: &mut Option<Fault>) -> Option<usize> {
    match usize::try_from(index).ok().filter(|&i| i < bound) {
        Some(i) => Some(i),
        None => {
            fault.get_or_insert(Fault::Index { index, bound, position });
            None
        }
    }
}

/// The attributes in a graph's text.
pub(crate) fn attributes(axis: &u8, _: &[TensorType], _: &mut form::FormContext<'_>) -> Attrs {
    smallvec![form::axis(*axis)]
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers = &[("gather", |m| Ok(Op::Gather { axis: m.axis()? }))];
