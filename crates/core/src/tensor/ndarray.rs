//! Tensors from and to arrays of the crate ndarray (feature `ndarray`). An owned array in row-major order hands its
//! vector over in both directions; everything else is copied once.
use super::Tensor;
use crate::{Element, Error, ErrorKind, Origin, Result};
use ::ndarray::{Array, ArrayBase, ArrayD, Data, Dimension, IxDyn};

impl Tensor {
    /// A tensor from an array of any number of axes up to 8. An owned array in row-major order that holds all of its
    /// vector is adopted without a copy; views, shared and permuted arrays are copied.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// let a = ndarray::arr2(&[[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// let x = Tensor::from_ndarray(a.t());
    /// assert_eq!(x.dims::<2>()?, [3, 2]);
    /// assert_eq!(x.to_ndarray::<f32>()?, a.t().into_dyn());
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result is a failed tensor if the array has more axes than a tensor may have, or memory for the copy is missing.
    #[track_caller]
    pub fn from_ndarray<T: Element, S: Data<Elem = T>, D: Dimension>(array: ArrayBase<S, D>) -> Tensor {
        let shape = array.shape().to_vec();
        let data = if array.is_standard_layout() {
            // Owned arrays are moved here; only what is borrowed is copied.
            let (data, offset) = array.into_owned().into_raw_vec_and_offset();
            let n: usize = shape.iter().product();
            match offset.unwrap_or(0) {
                0 if data.len() == n => data,
                // A slice of a longer vector.
                start => data.get(start..start + n).unwrap_or_default().to_vec(),
            }
        } else {
            array.iter().copied().collect()
        };
        Tensor::from_vec(data, shape)
    }
    /// The elements as an array in row-major order.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    #[track_caller]
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        let (shape, here) = (self.shape()?, Origin::here());
        array(shape.to_vec(), self.to_vec()?, here)
    }
    /// As [`Tensor::to_ndarray`], but around the tensor's own vector where [`Tensor::into_vec`] gives it up.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    #[track_caller]
    pub fn into_ndarray<T: Element>(self) -> Result<ArrayD<T>> {
        let (shape, here) = (self.shape()?, Origin::here());
        array(shape.to_vec(), self.into_vec()?, here)
    }
}
fn array<T>(shape: Vec<usize>, data: Vec<T>, here: Origin) -> Result<ArrayD<T>> {
    Array::from_shape_vec(IxDyn(&shape), data).map_err(|e| Error::at("to_ndarray", ErrorKind::Internal(e.to_string()), here))
}
