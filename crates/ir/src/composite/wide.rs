//! Compounds of 16-bit floats compute in f32 and round once, at their end; wider floats compute as they are.
use crate::{DType, ErrorKind, TensorType};

/// The dtype that a compound computes in.
pub fn wide(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}
/// The type, if it is of a float dtype with arithmetic.
///
/// # Errors
/// Another dtype.
pub fn floats(m: &TensorType) -> Result<TensorType, ErrorKind> {
    if m.dtype.is_float() && m.dtype.computes() { Ok(*m) } else { Err(ErrorKind::Dtype(format!("floats are needed, not {}", m.dtype))) }
}
/// Are the dtypes equal?
///
/// # Errors
/// They are not.
pub fn same_dtype(a: &TensorType, b: &TensorType) -> Result<(), ErrorKind> {
    if a.dtype == b.dtype { Ok(()) } else { Err(ErrorKind::DtypeMismatch { left: a.dtype, right: b.dtype }) }
}
