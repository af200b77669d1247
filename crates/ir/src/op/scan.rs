//! Running combinations along an axis.
use super::{
    form,
    reduce::ReduceOp,
    reduce::combine,
    rules::{arity, axis_in, computes},
};
use crate::{Attr, Attrs, ErrorKind, HostArray, Op, Scalar, TensorType, cost::Cost, host::coordinates};
use smallvec::smallvec;

/// How a scan combines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScanOp {
    /// running sum
    Sum,
    /// running product
    Prod,
    /// running maximum (NaN sticks)
    Max,
    /// running minimum (NaN sticks)
    Min,
    /// (a, b): `h[t] = a[t] * h[t-1] + b[t]`, `h[-1] = 0`
    LinearRecurrence,
}

/// The type of the result.
///
/// # Errors
/// Shapes, dtypes or axes that do not go together.
pub(super) fn infer(op: ScanOp, axis: u8, inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
    arity("scan", if op == ScanOp::LinearRecurrence { 2 } else { 1 }, inputs)?;
    computes(inputs[0].dtype)?;
    axis_in(axis, &inputs[0].shape)?;
    let dtype = match op {
        ScanOp::Sum | ScanOp::Prod => inputs[0].dtype.sum_dtype(),
        _ => inputs[0].dtype,
    };
    if op == ScanOp::LinearRecurrence {
        if !dtype.is_float() {
            return Err(ErrorKind::Dtype(format!("a linear recurrence needs floats, not {dtype}")));
        }
        if inputs[1].dtype != dtype {
            return Err(ErrorKind::DtypeMismatch { left: dtype, right: inputs[1].dtype });
        }
        if inputs[0].shape != inputs[1].shape {
            return Err(ErrorKind::ShapeMismatch {
                left: inputs[0].shape,
                right: inputs[1].shape,
                axes: None,
                expected: "coefficients and inputs must have one shape",
            });
        }
    }
    Ok(TensorType { dtype, ..inputs[0] })
}

/// One operation for each element that is taken in, two of a recurrence.
pub(crate) fn cost(op: ScanOp, inputs: &[TensorType]) -> Cost {
    let n = inputs.first().map_or(0, |x| x.shape.elements());
    Cost::elementwise(if op == ScanOp::LinearRecurrence { 2 * n } else { n })
}

/// The result in plain f64.
pub(crate) fn run(op: ScanOp, axis: u8, reverse: bool, inputs: &[HostArray], ty: &TensorType) -> HostArray {
    let a = axis as usize;
    let x = &inputs[0];
    let n = x.shape[a];
    let mut out: Vec<Scalar> = vec![Scalar::Int(0); x.len()];
    let lines = x.shape.with(a, 1);
    for i in coordinates(&lines) {
        let mut from = i.clone();
        let mut acc: Option<Scalar> = None;
        for step in 0..n {
            from[a] = if reverse { n - 1 - step } else { step };
            let at = x.at(&from);
            let v = x.scalar(at);
            let next = match (op, acc) {
                (ScanOp::LinearRecurrence, acc) => {
                    let h = acc.map_or(0.0, Scalar::to_f64);
                    // An absent past adds nothing, even where the coefficient is infinite.
                    let past = if acc.is_none() { 0.0 } else { v.to_f64() * h };
                    Scalar::Float(past + inputs[1].float(at))
                }
                (_, None) => v,
                (ScanOp::Sum, Some(s)) => combine(ReduceOp::Sum, s, v, x.dtype.is_float()),
                (ScanOp::Prod, Some(s)) => combine(ReduceOp::Prod, s, v, x.dtype.is_float()),
                (ScanOp::Max, Some(s)) => combine(ReduceOp::Max, s, v, x.dtype.is_float()),
                (ScanOp::Min, Some(s)) => combine(ReduceOp::Min, s, v, x.dtype.is_float()),
            };
            acc = Some(next);
            out[at] = next;
        }
    }
    HostArray::from_scalars(ty, out.into_iter())
}

/// The attributes in a graph's text.
pub(crate) fn attributes((_, axis, reverse): (&ScanOp, &u8, &bool), _: &[TensorType], _: &mut form::FormContext<'_>) -> Attrs {
    smallvec![form::axis(*axis), ("reverse", Attr::Bool(*reverse))]
}
fn made(op: ScanOp, m: &mut form::Made<'_>) -> form::FormResult<Op> {
    Ok(Op::Scan { op, axis: m.axis()?, reverse: m.given.bool("reverse")? })
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers = &[
    ("cumsum", |m| made(ScanOp::Sum, m)),
    ("cumprod", |m| made(ScanOp::Prod, m)),
    ("cummax", |m| made(ScanOp::Max, m)),
    ("cummin", |m| made(ScanOp::Min, m)),
    ("linear_recurrence", |m| made(ScanOp::LinearRecurrence, m)),
];
