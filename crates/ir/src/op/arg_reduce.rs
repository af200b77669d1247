//! The first index of an extreme value along an axis.
use super::{
    form,
    rules::{arity, axis_in, computes},
};
use crate::{Attrs, DType, ErrorKind, HostArray, Op, Scalar, TensorType, host::map};
use smallvec::smallvec;

/// Which extreme an `Op::ArgReduce` finds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ArgOp {
    /// the largest
    Max,
    /// the smallest
    Min,
}

/// The type of the result.
///
/// # Errors
/// Shapes, dtypes or axes that do not go together.
pub(super) fn infer(axis: u8, inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
    arity("arg_reduce", 1, inputs)?;
    computes(inputs[0].dtype)?;
    let a = axis_in(axis, &inputs[0].shape)?;
    if inputs[0].shape[a] == 0 {
        return Err(ErrorKind::Shape { shape: inputs[0].shape, expected: format!("axis {a} is empty, and an extreme of nothing does not exist") });
    }
    Ok(TensorType { shape: inputs[0].shape.with(a, 1), dtype: DType::I64 })
}

/// The result in plain f64.
pub(crate) fn run(op: ArgOp, axis: u8, x: &HostArray, ty: &TensorType) -> HostArray {
    let a = axis as usize;
    map(ty, |i| {
        let mut from = i.to_vec();
        let mut best: Option<(usize, Scalar)> = None;
        for k in 0..x.shape[a] {
            from[a] = k;
            let v = x.scalar(x.at(&from));
            let better = match best {
                None => true,
                Some((_, b)) => beats(op == ArgOp::Max, v, b),
            };
            if better {
                best = Some((k, v));
            }
        }
        Scalar::Int(best.map_or(0, |b| b.0 as i64))
    })
}

/// Is v more extreme than b? NaN beats everything but NaN.
pub(crate) fn beats(max: bool, v: Scalar, b: Scalar) -> bool {
    if let (Scalar::Float(v), Scalar::Float(b)) = (v, b) {
        return !b.is_nan() && (v.is_nan() || if max { v > b } else { v < b });
    }
    if max { v.to_i64() > b.to_i64() } else { v.to_i64() < b.to_i64() }
}

/// The attributes in a graph's text.
pub(crate) fn attributes((_, axis): (&ArgOp, &u8), _: &[TensorType], _: &mut form::FormContext<'_>) -> Attrs {
    smallvec![form::axis(*axis)]
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers =
    &[("argmax", |m| Ok(Op::ArgReduce { op: ArgOp::Max, axis: m.axis()? })), ("argmin", |m| Ok(Op::ArgReduce { op: ArgOp::Min, axis: m.axis()? }))];
