//! The inverse of gather: elements written to where an index points.
use super::{
    form,
    gather::{in_range, index_shapes},
    reduce::ReduceOp,
    reduce::combine,
    rules::arity,
};
use crate::{Attr, Attrs, ErrorKind, HostArray, Op, Scalar, TensorType, cost::Cost, fault::Fault, host::coordinates};
use smallvec::smallvec;

/// What a scatter does where it writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterMode {
    /// overwrite; of equal indices the last wins
    Set,
    /// add, in index order
    Add,
    /// multiply, in index order
    Mul,
    /// maximum
    Max,
    /// minimum
    Min,
}

/// The type of the result.
///
/// # Errors
/// Shapes, dtypes or axes that do not go together.
pub(super) fn infer(axis: u8, inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
    arity("scatter", 3, inputs)?;
    index_shapes(axis, &inputs[0], &inputs[1])?;
    if inputs[0].dtype != inputs[2].dtype {
        return Err(ErrorKind::DtypeMismatch { left: inputs[0].dtype, right: inputs[2].dtype });
    }
    if inputs[1].shape != inputs[2].shape {
        return Err(ErrorKind::ShapeMismatch { left: inputs[1].shape, right: inputs[2].shape, axes: None, expected: "index and source must have one shape" });
    }
    Ok(inputs[0])
}

/// One operation for each element that is combined; overwriting costs none.
pub(crate) fn cost(mode: ScatterMode, inputs: &[TensorType]) -> Cost {
    if mode == ScatterMode::Set { Cost::default() } else { Cost::elementwise(inputs.get(2).map_or(0, |s| s.shape.elements())) }
}

/// The result in plain f64, and the first fault: what points out of range is left out.
pub(crate) fn run(axis: u8, mode: ScatterMode, [x, index, s]: [&HostArray; 3], ty: &TensorType) -> (HostArray, Option<Fault>) {
    let mut fault = None;
    let float = x.dtype.is_float();
    let mut out: Vec<Scalar> = (0..x.len()).map(|k| x.scalar(k)).collect();
    for i in coordinates(&index.shape) {
        let position = index.at(&i);
        let Some(k) = in_range(index.int(position), x.shape[axis as usize], position, &mut fault) else { continue };
        let mut to = i.clone();
        to[axis as usize] = k;
        let (to, v) = (x.at(&to), s.scalar(position));
        out[to] = match mode {
            ScatterMode::Set => v,
            ScatterMode::Add => combine(ReduceOp::Sum, out[to], v, float),
            ScatterMode::Mul => combine(ReduceOp::Prod, out[to], v, float),
            ScatterMode::Max => combine(ReduceOp::Max, out[to], v, float),
            ScatterMode::Min => combine(ReduceOp::Min, out[to], v, float),
        };
    }
    (HostArray::from_scalars(ty, out.into_iter()), fault)
}

/// How the modes are called.
const WORDS: [(&str, ScatterMode); 5] =
    [("set", ScatterMode::Set), ("add", ScatterMode::Add), ("mul", ScatterMode::Mul), ("max", ScatterMode::Max), ("min", ScatterMode::Min)];
/// The attributes in a graph's text.
pub(crate) fn attributes((axis, mode): (&u8, &ScatterMode), _: &[TensorType], _: &mut form::FormContext<'_>) -> Attrs {
    let word = WORDS.iter().find(|(_, m)| m == mode).map_or("", |(word, _)| *word);
    smallvec![form::axis(*axis), ("mode", Attr::Text(word.into()))]
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers = &[("scatter", |m| {
    let (axis, word) = (m.axis()?, m.given.text("mode")?);
    match WORDS.iter().find(|(w, _)| *w == word) {
        Some((_, mode)) => Ok(Op::Scatter { axis, mode: *mode }),
        None => Err(ErrorKind::Argument(format!("`mode` is none of {}, but `{word}`", WORDS.map(|(w, _)| w).join(", ")))),
    }
})];
