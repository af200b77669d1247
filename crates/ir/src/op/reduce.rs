//! Combining all elements along axes, which keep size 1.
use super::{
    form,
    rules::{arity, axis_in, computes},
};
use crate::{Attrs, AxisSet, ErrorKind, HostArray, Op, Scalar, TensorType, cost::Cost, host::coordinates};
use smallvec::smallvec;

/// How a reduction combines. Sums of 16-bit floats run in f32 and round once; those of integers in i64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReduceOp {
    /// sum; of bool and integers: i64
    Sum,
    /// product; of bool and integers: i64
    Prod,
    /// maximum, NaN if any is NaN; empty is an error
    Max,
    /// minimum, NaN if any is NaN; empty is an error
    Min,
}

impl ReduceOp {
    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Prod => "prod",
            ReduceOp::Max => "max",
            ReduceOp::Min => "min",
        }
    }
}

/// The type of the result.
///
/// # Errors
/// Shapes, dtypes or axes that do not go together.
pub(super) fn infer(op: ReduceOp, axes: AxisSet, inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
    arity("reduce", 1, inputs)?;
    computes(inputs[0].dtype)?;
    let m = inputs[0];
    let mut shape = m.shape;
    for a in axes.iter() {
        axis_in(a as u8, &m.shape)?;
        if m.shape[a] == 0 && matches!(op, ReduceOp::Max | ReduceOp::Min) {
            return Err(ErrorKind::Shape { shape: m.shape, expected: format!("axis {a} is empty, and an extreme of nothing does not exist") });
        }
        shape = shape.with(a, 1);
    }
    let dtype = match op {
        ReduceOp::Sum | ReduceOp::Prod => m.dtype.sum_dtype(),
        _ => m.dtype,
    };
    Ok(TensorType { shape, dtype })
}

/// One operation for each element that is taken in.
pub(crate) fn cost(inputs: &[TensorType]) -> Cost {
    Cost::elementwise(inputs.first().map_or(0, |x| x.shape.elements()))
}

/// The result in plain f64.
pub(crate) fn run(op: ReduceOp, axes: AxisSet, x: &HostArray, ty: &TensorType) -> HostArray {
    let float = x.dtype.is_float();
    let identity = match op {
        ReduceOp::Sum => Scalar::Int(0),
        ReduceOp::Prod => Scalar::Int(1),
        _ => Scalar::Int(0),
    };
    let mut acc: Vec<Option<Scalar>> = vec![None; ty.shape.elements()];
    for i in coordinates(&x.shape) {
        let out: Vec<usize> = i.iter().enumerate().map(|(k, &v)| if axes.has(k) { 0 } else { v }).collect();
        let at = out.iter().zip(ty.shape.iter()).fold(0, |at, (&i, &d)| at * d + i);
        let v = x.scalar(x.at(&i));
        acc[at] = Some(match acc[at] {
            None => v,
            Some(a) => combine(op, a, v, float),
        });
    }
    HostArray::from_scalars(ty, acc.into_iter().map(|a| a.unwrap_or(identity)))
}

/// Two numbers combined.
pub(crate) fn combine(op: ReduceOp, a: Scalar, b: Scalar, float: bool) -> Scalar {
    if float {
        let (x, y) = (a.to_f64(), b.to_f64());
        return Scalar::Float(match op {
            ReduceOp::Sum => x + y,
            ReduceOp::Prod => x * y,
            ReduceOp::Max => {
                if x.is_nan() || y.is_nan() {
                    f64::NAN
                } else {
                    x.max(y)
                }
            }
            ReduceOp::Min => {
                if x.is_nan() || y.is_nan() {
                    f64::NAN
                } else {
                    x.min(y)
                }
            }
        });
    }
    let (x, y) = (a.to_i64(), b.to_i64());
    Scalar::Int(match op {
        ReduceOp::Sum => x.wrapping_add(y),
        ReduceOp::Prod => x.wrapping_mul(y),
        ReduceOp::Max => x.max(y),
        ReduceOp::Min => x.min(y),
    })
}

/// The attributes in a graph's text.
pub(crate) fn attributes((_, axes): (&ReduceOp, &AxisSet), _: &[TensorType], _: &mut form::FormContext<'_>) -> Attrs {
    smallvec![("axes", form::ints(axes.iter()))]
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers = &[
    ("sum", |m| Ok(Op::Reduce { op: ReduceOp::Sum, axes: m.axes()? })),
    ("prod", |m| Ok(Op::Reduce { op: ReduceOp::Prod, axes: m.axes()? })),
    ("amax", |m| Ok(Op::Reduce { op: ReduceOp::Max, axes: m.axes()? })),
    ("amin", |m| Ok(Op::Reduce { op: ReduceOp::Min, axes: m.axes()? })),
];
