//! Combining runs of neighbours along an axis: segments, which offsets cut and which may be empty.
use super::{
    form,
    reduce::{ReduceOp, combine},
    rules::{arity, computes},
};
use crate::{Attrs, DType, ErrorKind, HostArray, Op, Scalar, TensorType, cost::Cost, fault::Fault, host::coordinates};
use smallvec::smallvec;

/// How the elements of a segment combine. Sums run and widen as those of [`ReduceOp::Sum`] do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SegmentOp {
    /// sum; of bool and integers: i64; 0 of nothing
    Sum,
    /// maximum, NaN if any is NaN; the lowest number of nothing
    Max,
    /// minimum, NaN if any is NaN; the highest number of nothing
    Min,
}
impl SegmentOp {
    /// The op's name.
    pub fn name(self) -> &'static str {
        match self {
            SegmentOp::Sum => "segment_sum",
            SegmentOp::Max => "segment_max",
            SegmentOp::Min => "segment_min",
        }
    }
    /// How two elements combine.
    pub fn of_two(self) -> ReduceOp {
        match self {
            SegmentOp::Sum => ReduceOp::Sum,
            SegmentOp::Max => ReduceOp::Max,
            SegmentOp::Min => ReduceOp::Min,
        }
    }
    /// What a segment without elements gives.
    pub fn of_nothing(self, dtype: DType) -> Scalar {
        let highest = self == SegmentOp::Min;
        match dtype.int_range() {
            _ if self == SegmentOp::Sum => Scalar::Int(0),
            Some((low, high)) => Scalar::Int(if highest { high } else { low }.clamp(i64::MIN as i128, i64::MAX as i128) as i64),
            None if dtype == DType::Bool => Scalar::Bool(highest),
            None => Scalar::Float(if highest { f64::INFINITY } else { f64::NEG_INFINITY }),
        }
    }
}

/// Where a segment begins and ends, of `n` elements and `last` + 1 segments, or which of its two offsets (0 or 1) is wrong. The
/// first offset is 0, none is smaller than the one before, and the last is `n`.
///
/// # Errors
/// The number of the wrong one.
pub fn segment(offsets: [i64; 2], number: usize, last: usize, n: usize) -> Result<std::ops::Range<usize>, usize> {
    let inside = |offset: i64| usize::try_from(offset).ok().filter(|&o| o <= n);
    let from = inside(offsets[0]).filter(|&from| number > 0 || from == 0).ok_or(0usize)?;
    let to = inside(offsets[1]).filter(|&to| to >= from && (number < last || to == n)).ok_or(1usize)?;
    Ok(from..to)
}

/// The type of the result: data `[lead.., n, rest..]` and offsets `[lead.., segments + 1]` give `[lead.., segments, rest..]`.
///
/// # Errors
/// Shapes, dtypes or axes that do not go together.
pub(super) fn infer(op: SegmentOp, axis: u8, inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
    arity(op.name(), 2, inputs)?;
    let (data, offsets, axis) = (inputs[0], inputs[1], axis as usize);
    computes(data.dtype)?;
    if !offsets.dtype.is_int() {
        return Err(ErrorKind::Dtype(format!("offsets are an integer tensor, not {}", offsets.dtype)));
    }
    if axis >= data.shape.rank() {
        return Err(ErrorKind::Axis { axis: axis as isize, rank: data.shape.rank() });
    }
    if offsets.shape.rank() != axis + 1 || offsets.shape[..axis] != data.shape[..axis] {
        let expected = "offsets have the axes of the data up to the one that is cut";
        return Err(ErrorKind::ShapeMismatch { left: data.shape, right: offsets.shape, axes: None, expected });
    }
    match offsets.shape[axis].checked_sub(1) {
        None => Err(ErrorKind::Shape { shape: offsets.shape, expected: "offsets hold one number more than there are segments".into() }),
        Some(0) if data.shape[axis] > 0 => Err(ErrorKind::Shape { shape: data.shape, expected: "no element, as there is no segment".into() }),
        Some(segments) => {
            let dtype = if op == SegmentOp::Sum { data.dtype.sum_dtype() } else { data.dtype };
            Ok(TensorType { shape: data.shape.with(axis, segments), dtype })
        }
    }
}

/// One operation for each element that is taken in.
pub(crate) fn cost(inputs: &[TensorType]) -> Cost {
    Cost::elementwise(inputs.first().map_or(0, |x| x.shape.elements()))
}

/// The result in plain f64, zero where a segment is cut by wrong offsets, and the fault of the first wrong one.
pub(crate) fn run(op: SegmentOp, axis: u8, [x, offsets]: [&HostArray; 2], ty: &TensorType) -> (HostArray, Option<Fault>) {
    let (axis, float) = (axis as usize, x.dtype.is_float());
    let (n, segments) = (x.shape[axis], ty.shape[axis]);
    let mut wrong: Option<usize> = None;
    let out: Vec<Scalar> = coordinates(&ty.shape)
        .map(|i| {
            let (mut from, number) = (i.clone(), i[axis]);
            let at = offsets.at(&i[..=axis]);
            match segment([offsets.int(at), offsets.int(at + 1)], number, segments - 1, n) {
                Err(k) => {
                    wrong = Some(wrong.map_or(at + k, |w| w.min(at + k)));
                    Scalar::Int(0)
                }
                Ok(range) => {
                    let element = |k: usize| {
                        from[axis] = k;
                        x.scalar(x.at(&from))
                    };
                    range.map(element).reduce(|a, b| combine(op.of_two(), a, b, float)).unwrap_or_else(|| op.of_nothing(ty.dtype))
                }
            }
        })
        .collect();
    let fault = wrong.map(|position| Fault::Index { index: offsets.int(position), bound: n + 1, position });
    (HostArray::from_scalars(ty, out.into_iter()), fault)
}

/// The attributes in a graph's text.
pub(crate) fn attributes((_, axis): (&SegmentOp, &u8), _: &[TensorType], _: &mut form::FormContext<'_>) -> Attrs {
    smallvec![form::axis(*axis)]
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers = &[
    ("segment_sum", |m| Ok(Op::SegmentReduce { op: SegmentOp::Sum, axis: m.axis()? })),
    ("segment_max", |m| Ok(Op::SegmentReduce { op: SegmentOp::Max, axis: m.axis()? })),
    ("segment_min", |m| Ok(Op::SegmentReduce { op: SegmentOp::Min, axis: m.axis()? })),
];
