//! Compounds of 16-bit floats compute in f32 and round once, at their end; wider floats compute as they are.
use crate::{DType, ErrorKind, Meta, Tensor};
pub use adamant_ir::composite::wide::wide;

impl Tensor {
    /// The same values in the dtype that a compound computes in.
    #[track_caller]
    pub(crate) fn widened(&self) -> Tensor {
        if self.error().is_some() { self.clone() } else { self.cast(wide(self.meta().dtype)) }
    }
    /// What was computed in the dtype of [`Tensor::widened`], rounded to the dtype of what it was computed of. An interceptor may
    /// have made less of it: that stays.
    #[track_caller]
    pub(crate) fn rounded(&self, dtype: DType) -> Tensor {
        let is_less = self.error().is_none() && dtype == wide(self.meta().dtype) && dtype != self.meta().dtype;
        if is_less { self.clone() } else { self.cast(dtype) }
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
    adamant_ir::composite::wide::floats(&m.ty()).map(|_| *m)
}
/// Are the dtypes equal? Where an interceptor around casts what it is given, the op is asked.
pub(crate) fn same_dtype(a: &Meta, b: &Meta) -> Result<(), ErrorKind> {
    match adamant_ir::composite::wide::same_dtype(&a.ty(), &b.ty()) {
        Err(_) if a.dtype.is_float() && b.dtype.is_float() && crate::intercept::casts() => Ok(()),
        told => told,
    }
}
