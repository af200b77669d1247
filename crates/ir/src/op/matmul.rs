//! Batched matrix products.
use super::{
    form,
    rules::{arity, computes},
};
use crate::{DType, ErrorKind, HostArray, Op, Scalar, TensorType, cost::Cost, host::map};

/// The type of the result.
///
/// # Errors
/// Shapes, dtypes or axes that do not go together.
pub(super) fn infer(inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
    arity("matmul", 2, inputs)?;
    let (a, b) = (&inputs[0], &inputs[1]);
    if a.dtype != b.dtype {
        return Err(ErrorKind::DtypeMismatch { left: a.dtype, right: b.dtype });
    }
    computes(a.dtype)?;
    if a.dtype == DType::Bool {
        return Err(ErrorKind::Dtype("matmul is not defined for bool".into()));
    }
    let r = a.shape.rank();
    if r < 2 || b.shape.rank() != r {
        return Err(ErrorKind::ShapeMismatch { left: a.shape, right: b.shape, axes: None, expected: "both must be matrices, or batches of equal rank" });
    }
    if a.shape[r - 1] != b.shape[r - 2] {
        return Err(ErrorKind::ShapeMismatch { left: a.shape, right: b.shape, axes: Some((r - 1, r - 2)), expected: "inner sizes must be equal" });
    }
    if let Some(k) = (0..r - 2).find(|&k| a.shape[k] != b.shape[k]) {
        return Err(ErrorKind::ShapeMismatch { left: a.shape, right: b.shape, axes: Some((k, k)), expected: "batch sizes must be equal" });
    }
    Ok(TensorType { shape: a.shape.with(r - 1, b.shape[r - 1]), ..*a })
}

/// A multiply-add for each element of the result and each inner index.
pub(crate) fn cost(inputs: &[TensorType], made: &TensorType) -> Cost {
    Cost::product(&[made.shape.elements(), inputs.first().and_then(|a| a.shape.last().copied()).unwrap_or(0)])
}

/// The result in plain f64.
pub(crate) fn run([x, y]: [&HostArray; 2], ty: &TensorType) -> HostArray {
    let r = ty.shape.rank();
    let k = x.shape[r - 1];
    let int = !ty.dtype.is_float();
    map(ty, |i| {
        let (mut ia, mut ib) = (i.to_vec(), i.to_vec());
        let (mut sum, mut whole) = (0.0, 0i64);
        for p in 0..k {
            ia[r - 1] = p;
            ib[r - 2] = p;
            let (a, b) = (x.at(&ia), y.at(&ib));
            if int { whole = whole.wrapping_add(x.int(a).wrapping_mul(y.int(b))) } else { sum += x.float(a) * y.float(b) }
        }
        if int { Scalar::Int(whole) } else { Scalar::Float(sum) }
    })
}

pub(crate) use form::none as attributes;
/// How it is made of its form.
pub(crate) const MAKERS: form::Makers = &[("matmul", |_| Ok(Op::Matmul))];
