//! One element: read from bytes and written back, and how two are combined. Floats are computed in f64 and integers in i64;
//! [`fitted`] rounds or wraps once to the dtype, which is what each op means.
use adamant_runtime::{
    DType, Scalar, bf16, bf16_from_f64, f8_to_f32, f16, f16_from_f64, f32_to_f8,
    op::ReduceOp,
    reference::{binary, round_float, wrap_int},
    scalar::Binary,
};

/// The element that lies at the start of the bytes.
pub fn decode(dtype: DType, b: &[u8]) -> Scalar {
    // They are there: every caller cuts its bytes by the dtype's size.
    macro_rules! read {
        ($t:ty) => {
            <$t>::from_ne_bytes(b.first_chunk().copied().unwrap_or_default())
        };
    }
    match dtype {
        DType::Bool | DType::U8 => Scalar::Int(read!(u8) as i64),
        DType::I8 => Scalar::Int(read!(i8) as i64),
        DType::U16 => Scalar::Int(read!(u16) as i64),
        DType::I16 => Scalar::Int(read!(i16) as i64),
        DType::U32 => Scalar::Int(read!(u32) as i64),
        DType::I32 => Scalar::Int(read!(i32) as i64),
        DType::U64 | DType::I64 => Scalar::Int(read!(i64)),
        DType::F16 => Scalar::Float(read!(f16).to_f64()),
        DType::BF16 => Scalar::Float(read!(bf16).to_f64()),
        DType::F32 => Scalar::Float(read!(f32) as f64),
        DType::F64 => Scalar::Float(read!(f64)),
        DType::F8E4M3 | DType::F8E5M2 => Scalar::Float(f8_to_f32(read!(u8), dtype) as f64),
    }
}
/// Appends the element's bytes.
pub fn encode(dtype: DType, v: Scalar, to: &mut Vec<u8>) {
    match dtype {
        DType::Bool => to.push((v.to_i64() != 0) as u8),
        DType::U8 | DType::I8 => to.push(v.to_i64() as u8),
        DType::U16 | DType::I16 => to.extend((v.to_i64() as u16).to_ne_bytes()),
        DType::U32 | DType::I32 => to.extend((v.to_i64() as u32).to_ne_bytes()),
        DType::U64 | DType::I64 => to.extend(v.to_i64().to_ne_bytes()),
        DType::F16 => to.extend(f16_from_f64(v.to_f64()).to_ne_bytes()),
        DType::BF16 => to.extend(bf16_from_f64(v.to_f64()).to_ne_bytes()),
        DType::F32 => to.extend((v.to_f64() as f32).to_ne_bytes()),
        DType::F64 => to.extend(v.to_f64().to_ne_bytes()),
        DType::F8E4M3 | DType::F8E5M2 => to.push(f32_to_f8(v.to_f64() as f32, dtype)),
    }
}
/// The number as the dtype holds it.
pub fn fitted(v: Scalar, dtype: DType) -> Scalar {
    if dtype.is_float() { Scalar::Float(round_float(v.to_f64(), dtype)) } else { Scalar::Int(wrap_int(v.to_i64(), dtype)) }
}
/// Sums, products and extremes; a NaN makes an extreme NaN.
pub fn combine(op: ReduceOp, a: Scalar, b: Scalar) -> Scalar {
    let f = match op {
        ReduceOp::Sum => Binary::Add,
        ReduceOp::Prod => Binary::Mul,
        ReduceOp::Max => Binary::Maximum,
        ReduceOp::Min => Binary::Minimum,
    };
    // None of these can fault.
    binary(f, a, b, DType::I64).unwrap_or(a)
}
