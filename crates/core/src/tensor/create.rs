//! Making tensors: filled, ranges, from slices, iterators and nested literals.
use super::Tensor;
use crate::{DType, Device, Element, ErrorKind, Scalar, shape::ToShape};

impl Tensor {
    /// A tensor that copies a slice.
    #[track_caller]
    pub fn from_slice<T: Element>(data: &[T], shape: impl ToShape) -> Tensor {
        Tensor::from_vec(data.to_vec(), shape)
    }
    /// f32 zeros on the current device.
    #[track_caller]
    pub fn zeros(shape: impl ToShape) -> Tensor {
        Tensor::full(shape, 0.0f32, DType::F32)
    }
    /// f32 ones on the current device.
    #[track_caller]
    pub fn ones(shape: impl ToShape) -> Tensor {
        Tensor::full(shape, 1.0f32, DType::F32)
    }
    /// One number in every element, on the current device.
    #[track_caller]
    pub fn full(shape: impl ToShape, value: impl Into<Scalar>, dtype: DType) -> Tensor {
        match Device::current() {
            Ok(device) => Tensor::full_on(shape, value, dtype, device),
            Err(e) => Tensor::failed(e),
        }
    }
}

/// A nested literal: what `tensor![[1.0, 2.0], [3.0, 4.0]]` and `Tensor::from_nested` take.
pub trait Nested {
    /// The element type.
    type Item: Element;
    /// Appends sizes (outermost first) and elements.
    ///
    /// # Errors
    /// Rows of different lengths, named by their index.
    fn flatten(&self, depth: usize, sizes: &mut Vec<usize>, data: &mut Vec<Self::Item>) -> Result<(), ErrorKind>;
}
