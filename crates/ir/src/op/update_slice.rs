//! One tensor written into another from a start on.
use super::{
    form,
    rules::{arity, axis_in},
};
use crate::{Attrs, ErrorKind, HostArray, Op, TensorType, host::map};
use smallvec::smallvec;

/// The type of the result.
///
/// # Errors
/// Shapes, dtypes or axes that do not go together.
pub(super) fn infer(axis: u8, inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
    arity("update_slice", 2, inputs)?;
    let (d, s) = (&inputs[0], &inputs[1]);
    if d.dtype != s.dtype {
        return Err(ErrorKind::DtypeMismatch { left: d.dtype, right: s.dtype });
    }
    let a = axis_in(axis, &d.shape)?;
    if d.shape.rank() != s.shape.rank() {
        return Err(ErrorKind::ShapeMismatch { left: d.shape, right: s.shape, axes: None, expected: "ranks must be equal" });
    }
    if let Some(k) = (0..d.shape.rank()).find(|&k| k != a && d.shape[k] != s.shape[k] || s.shape[k] > d.shape[k]) {
        return Err(ErrorKind::ShapeMismatch { left: d.shape, right: s.shape, axes: Some((k, k)), expected: "the source must fit into the destination" });
    }
    Ok(*d)
}

/// The result in plain f64.
pub(crate) fn run(axis: u8, start: usize, [d, s]: [&HostArray; 2], ty: &TensorType) -> HostArray {
    let a = axis as usize;
    map(ty, |i| match i[a].checked_sub(start).filter(|&k| k < s.shape[a]) {
        Some(k) => {
            let mut from = i.to_vec();
            from[a] = k;
            s.scalar(s.at(&from))
        }
        None => d.scalar(d.at(i)),
    })
}

/// The attributes in a graph's text.
pub(crate) fn attributes(axis: &u8, _: &[TensorType], _: &mut form::FormContext<'_>) -> Attrs {
    smallvec![form::axis(*axis)]
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers = &[("update_slice", |m| Ok(Op::UpdateSlice { axis: m.axis()? }))];
