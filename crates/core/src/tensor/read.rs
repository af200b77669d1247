//! Reading and checking values: comparisons of whole tensors, the search for what is not finite, small safe forms.
use super::{
    Operand, Tensor,
    compose::{compose, compose1},
};
use crate::{DType, Element, Error, ErrorKind, Origin, Result};

impl Tensor {
    /// Are shapes equal and all elements within `atol + rtol * |other|`? NaN is close to nothing.
    ///
    /// # Errors
    /// The error one of them carries; two dtypes or devices.
    #[track_caller]
    pub fn allclose(&self, other: &Tensor, rtol: f64, atol: f64) -> Result<bool> {
        compose("allclose", &[self, other], || {
            let (a, b) = (self.meta(), other.meta());
            if a.shape.broadcast(&b.shape).is_none() {
                return Err(ErrorKind::ShapeMismatch { left: a.shape, right: b.shape, axes: None, expected: "shapes do not broadcast" }.into());
            }
            if a.dtype != b.dtype {
                return Err(ErrorKind::DtypeMismatch { left: a.dtype, right: b.dtype }.into());
            }
            let wide = if a.dtype.is_float() { if a.dtype == DType::F64 { DType::F64 } else { DType::F32 } } else { DType::F64 };
            let (a, b) = (self.detach().cast(wide), other.detach().cast(wide));
            // Equal infinities are close: their difference is NaN.
            let near = (&a - &b).abs();
            let bound = b.abs() * rtol + atol;
            let apart = near.gt(&bound).logical_or(near.isnan()).logical_or(bound.eq(f64::INFINITY));
            Ok(Ok(!a.eq(&b).logical_not().logical_and(apart).any(..).item::<bool>()?))
        })
    }
    /// Are shape and all elements equal? NaN is equal to nothing.
    ///
    /// # Errors
    /// The error one of them carries; two dtypes or devices.
    #[track_caller]
    pub fn equal(&self, other: &Tensor) -> Result<bool> {
        compose("equal", &[self, other], || {
            if self.meta().shape != other.meta().shape { Ok(Ok(false)) } else { Ok(self.detach().eq(other.detach()).all(..).item::<bool>()) }
        })
    }
    /// Is every element finite? One fused pass: a sum of `0 * x` is NaN as soon as one element is NaN or infinite.
    ///
    /// # Errors
    /// As [`Tensor::eval`].
    #[track_caller]
    pub fn is_finite_all(&self) -> Result<bool> {
        if !self.dtype()?.is_float() {
            return Ok(true);
        }
        Ok(!(self.detach() * 0.0).sum(..).isnan().item::<bool>()?)
    }
    /// The index of the first element (in row-major order) that is NaN or infinite, and the element.
    ///
    /// # Errors
    /// As [`Tensor::eval`].
    #[track_caller]
    pub fn find_non_finite(&self) -> Result<Option<(Vec<usize>, f64)>> {
        let meta = self.try_meta()?;
        if meta.shape.elements() == 0 || self.is_finite_all()? {
            return Ok(None);
        }
        let flat = self.detach().ravel();
        let mut at = (&flat * 0.0).isnan().cast(DType::U8).argmax(0).item::<i64>()? as usize;
        let value = flat.narrow(0, at, 1).item::<f64>()?;
        let mut index = vec![0; meta.shape.rank()];
        for (k, &size) in meta.shape.iter().enumerate().rev() {
            index[k] = at % size;
            at /= size;
        }
        Ok(Some((index, value)))
    }
    /// The elements of a tensor of one axis, as an array.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`]; another shape than `[N]`.
    #[track_caller]
    pub fn to_array<T: Element, const N: usize>(&self) -> Result<[T; N]> {
        self.dims::<1>()?;
        let shape = self.shape()?;
        let here = Origin::here();
        self.to_vec::<T>()?.try_into().map_err(|_| Error::at("to_array", ErrorKind::Shape { shape, expected: format!("{N} elements") }, here))
    }
    /// The rows of a matrix.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`]; not two axes.
    #[track_caller]
    pub fn to_rows<T: Element>(&self) -> Result<Vec<Vec<T>>> {
        let [rows, columns] = self.dims::<2>()?;
        let data = self.to_vec::<T>()?;
        Ok((0..rows).map(|r| data[r * columns..(r + 1) * columns].to_vec()).collect())
    }
    /// log(x + 1e-8): finite, with a finite gradient, also at 0. `log_softmax` and the losses on logits are more exact.
    #[track_caller]
    #[must_use]
    pub fn safe_log(&self) -> Tensor {
        compose1("safe_log", self, |x| {
            let dtype = x.meta().dtype;
            // f16 cannot hold 1e-8: there the sum is made in f32.
            let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
            Ok((x.cast(wide) + 1e-8).log().cast(dtype.to_float()))
        })
    }
    /// Divided by a number.
    #[track_caller]
    pub fn div_scalar(&self, divisor: impl Operand) -> Tensor {
        self.div(divisor)
    }
}
