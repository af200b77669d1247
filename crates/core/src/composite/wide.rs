//! Compounds of 16-bit floats compute in f32 and round once, at their end; wider floats compute as they are.
use crate::{DType, ErrorKind, Meta, Tensor};

/// The dtype that a compound computes in.
pub fn wide(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}
impl Tensor {
    /// The same values in the dtype that a compound computes in.
    #[track_caller]
    pub(crate) fn widened(&self) -> Tensor {
        if self.error().is_some() { self.clone() } else { self.cast(wide(self.meta().dtype)) }
    }
    /// The mean over the axes, which keep size 1, of a float tensor.
    #[track_caller]
    pub(crate) fn mean_of(&self, axes: crate::AxisSet) -> Tensor {
        let n: usize = axes.iter().map(|a| self.meta().shape[a]).product();
        self.sum_keepdim(axes) / n as f64
    }
}

/// The meta, if it is of a float dtype with arithmetic.
pub(crate) fn floats(m: &Meta) -> Result<Meta, ErrorKind> {
    if m.dtype.is_float() && m.dtype.computes() { Ok(*m) } else { Err(ErrorKind::Dtype(format!("floats are needed, not {}", m.dtype))) }
}
/// Are all inputs on one device? Composites are asked before their bodies are, which would find out too late.
pub(crate) fn one_device(inputs: &[Meta]) -> Result<(), ErrorKind> {
    match inputs.iter().find(|m| m.device != inputs[0].device) {
        Some(m) => Err(ErrorKind::DeviceMismatch { left: inputs[0].device.to_string(), right: m.device.to_string() }),
        None => Ok(()),
    }
}
/// Are the dtypes equal?
pub(crate) fn same_dtype(a: &Meta, b: &Meta) -> Result<(), ErrorKind> {
    if a.dtype == b.dtype { Ok(()) } else { Err(ErrorKind::DtypeMismatch { left: a.dtype, right: b.dtype }) }
}
