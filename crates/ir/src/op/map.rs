//! Element-wise ops and the ops that make elements from nothing: what can live inside any fused kernel.
use super::{
    Arg, Op, Side,
    rules::{arity, axis_in, broadcast, computes},
};
use crate::{
    DType, ErrorKind, HostArray, Scalar, TensorType,
    fault::Fault,
    host::{binary, map, round_float, unary, wrap_int},
    philox,
};

/// The type of the result of an element-wise op.
///
/// # Errors
/// Shapes, dtypes or axes that do not go together; an op of another kind.
pub(super) fn infer(op: &Op, inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
    let arity = |n| arity(op.name(), n, inputs);
    match op {
        Op::Const(ty) => {
            arity(0)?;
            Ok(*ty)
        }
        Op::Iota { axis, ty } => {
            arity(0)?;
            computes(ty.dtype)?;
            axis_in(*axis, &ty.shape)?;
            Ok(*ty)
        }
        Op::RandomBits { shape } => {
            arity(1)?;
            if inputs[0].dtype != DType::U32 || *inputs[0].shape != [4] {
                return Err(ErrorKind::Shape { shape: inputs[0].shape, expected: "a random key is u32[4]".into() });
            }
            Ok(TensorType { shape: *shape, dtype: DType::U32 })
        }
        Op::Unary(u) => {
            arity(1)?;
            computes(inputs[0].dtype)?;
            Ok(TensorType { dtype: u.infer(inputs[0].dtype)?, ..inputs[0] })
        }
        Op::Binary(b) => {
            arity(2)?;
            let (l, r) = (&inputs[0], &inputs[1]);
            if l.dtype != r.dtype {
                return Err(ErrorKind::DtypeMismatch { left: l.dtype, right: r.dtype });
            }
            computes(l.dtype)?;
            let shape = broadcast(&l.shape, &r.shape)?;
            Ok(TensorType { shape, dtype: b.infer(l.dtype)? })
        }
        Op::BinaryScalar(b, _) => {
            arity(1)?;
            computes(inputs[0].dtype)?;
            Ok(TensorType { dtype: b.infer(inputs[0].dtype)?, ..inputs[0] })
        }
        Op::Select => {
            arity(3)?;
            if inputs[0].dtype != DType::Bool {
                return Err(ErrorKind::Dtype(format!("the condition of select is bool, not {}", inputs[0].dtype)));
            }
            if inputs[1].dtype != inputs[2].dtype {
                return Err(ErrorKind::DtypeMismatch { left: inputs[1].dtype, right: inputs[2].dtype });
            }
            let shape = broadcast(&broadcast(&inputs[0].shape, &inputs[1].shape)?, &inputs[2].shape)?;
            Ok(TensorType { shape, ..inputs[1] })
        }
        Op::Cast(d) => {
            arity(1)?;
            Ok(TensorType { dtype: *d, ..inputs[0] })
        }
        Op::Bitcast(d) => {
            arity(1)?;
            if d.size() != inputs[0].dtype.size() || *d == DType::Bool {
                return Err(ErrorKind::Dtype(format!("{} cannot be read as {d}: sizes differ or not every bit pattern is valid", inputs[0].dtype)));
            }
            Ok(TensorType { dtype: *d, ..inputs[0] })
        }
        _ => Err(ErrorKind::Internal(format!("{} is not element-wise", op.name()))),
    }
}

/// The result in plain f64, and the first fault: an integer divided by zero gives zero there.
///
/// # Errors
/// An op of another kind.
pub(crate) fn run(op: &Op, arg: Arg, inputs: &[HostArray], ty: &TensorType) -> Result<(HostArray, Option<Fault>), ErrorKind> {
    let mut fault = None;
    let scalar = if let Arg::Scalar(s) = arg { s } else { Scalar::Int(0) };
    let out = match op {
        Op::Const(_) => map(ty, |_| scalar),
        Op::Iota { axis, .. } => map(ty, |i| Scalar::Int(i[*axis as usize] as i64)),
        Op::RandomBits { .. } => {
            let key = [0, 1, 2, 3].map(|k| inputs[0].int(k) as u32);
            let mut k = 0;
            map(ty, |_| {
                k += 1;
                Scalar::Int(philox::element_bits(key, k - 1) as i64)
            })
        }
        Op::Unary(f) => map(ty, |i| unary(*f, inputs[0].scalar(inputs[0].at(i)), inputs[0].dtype)),
        Op::Binary(_) | Op::BinaryScalar(..) => {
            let dtype = inputs[0].dtype;
            map(ty, |i| {
                let (f, x, y) = match op {
                    Op::Binary(f) => (f, inputs[0].scalar(inputs[0].at_broadcast(i)), inputs[1].scalar(inputs[1].at_broadcast(i))),
                    Op::BinaryScalar(f, side) => {
                        let x = inputs[0].scalar(inputs[0].at(i));
                        let c =
                            if dtype.is_float() { Scalar::Float(round_float(scalar.to_f64(), dtype)) } else { Scalar::Int(wrap_int(scalar.to_i64(), dtype)) };
                        if *side == Side::Left { (f, c, x) } else { (f, x, c) }
                    }
                    _ => return Scalar::Int(0),
                };
                binary(*f, x, y, dtype).unwrap_or_else(|| {
                    fault.get_or_insert(Fault::DivisionByZero);
                    Scalar::Int(0)
                })
            })
        }
        Op::Select => map(ty, |i| {
            let k = if inputs[0].int(inputs[0].at_broadcast(i)) != 0 { 1 } else { 2 };
            inputs[k].scalar(inputs[k].at_broadcast(i))
        }),
        Op::Cast(d) => map(ty, |i| {
            let s = inputs[0].scalar(inputs[0].at(i));
            if *d == DType::Bool { Scalar::Int((s.to_f64() != 0.0) as i64) } else { s }
        }),
        Op::Bitcast(d) => HostArray::from_bytes(ty.shape, *d, &inputs[0].to_bytes()),
        _ => return Err(ErrorKind::Internal(format!("{} is not element-wise", op.name()))),
    };
    Ok((out, fault))
}
