//! Joining along an axis.
use super::{form, rules::axis_in};
use crate::{Attrs, ErrorKind, HostArray, Op, Scalar, Shape, TensorType, host::map, shape::Dims};
use smallvec::smallvec;

/// The type of the result.
///
/// # Errors
/// Shapes, dtypes or axes that do not go together.
pub(super) fn infer(axis: u8, inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
    let first = inputs.first().ok_or_else(|| ErrorKind::Argument("nothing to concatenate".into()))?;
    let a = axis_in(axis, &first.shape)?;
    let mut total = 0usize;
    for m in inputs {
        if m.dtype != first.dtype {
            return Err(ErrorKind::DtypeMismatch { left: first.dtype, right: m.dtype });
        }
        if m.shape.rank() != first.shape.rank() {
            return Err(ErrorKind::ShapeMismatch { left: first.shape, right: m.shape, axes: None, expected: "ranks must be equal" });
        }
        if let Some(k) = (0..m.shape.rank()).find(|&k| k != a && m.shape[k] != first.shape[k]) {
            return Err(ErrorKind::ShapeMismatch {
                left: first.shape,
                right: m.shape,
                axes: Some((k, k)),
                expected: "sizes must be equal on all axes but the joined one",
            });
        }
        total = total.saturating_add(m.shape[a]);
    }
    let mut dims = Dims::from_slice(&first.shape);
    dims[a] = total;
    Ok(TensorType { shape: Shape::new(&dims)?, ..*first })
}

/// The result in plain f64.
pub(crate) fn run(axis: u8, inputs: &[HostArray], ty: &TensorType) -> HostArray {
    map(ty, |i| {
        let mut from = i.to_vec();
        for x in inputs {
            let n = x.shape[axis as usize];
            if from[axis as usize] < n {
                return x.scalar(x.at(&from));
            }
            from[axis as usize] -= n;
        }
        Scalar::Int(0)
    })
}

/// The attributes in a graph's text.
pub(crate) fn attributes(axis: &u8, _: &[TensorType], _: &mut form::FormContext<'_>) -> Attrs {
    smallvec![form::axis(*axis)]
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers = &[("concat", |m| Ok(Op::Concat { axis: m.axis()? }))];
