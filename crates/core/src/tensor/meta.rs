//! What a tensor is, told without running anything, and the casts by PyTorch's names.
use super::Tensor;
use crate::{DType, Device, Error, ErrorKind, Meta, Origin, Result, Shape, shape::Axis};

impl Tensor {
    /// Shape, dtype and device.
    ///
    /// # Errors
    /// The error this tensor carries.
    pub fn try_meta(&self) -> Result<Meta> {
        self.error().map_or(Ok(self.value.meta), Err)
    }
    /// The shape.
    ///
    /// # Errors
    /// The error this tensor carries.
    pub fn shape(&self) -> Result<Shape> {
        Ok(self.try_meta()?.shape)
    }
    /// The sizes of exactly `N` axes.
    ///
    /// # Errors
    /// The error this tensor carries, or another number of axes.
    #[track_caller]
    pub fn dims<const N: usize>(&self) -> Result<[usize; N]> {
        let shape = self.shape()?;
        let here = Origin::here();
        <[usize; N]>::try_from(&*shape).map_err(|_| Error::at("dims", ErrorKind::Shape { shape, expected: format!("{N} axes") }, here))
    }
    /// How many elements it has.
    ///
    /// # Errors
    /// The error this tensor carries.
    #[doc(alias = "nelement")]
    pub fn numel(&self) -> Result<usize> {
        Ok(self.try_meta()?.shape.elements())
    }
    /// The size of an axis; negative ones count from the end.
    ///
    /// # Errors
    /// The error this tensor carries; no such axis.
    #[track_caller]
    pub fn size(&self, axis: impl Axis) -> Result<usize> {
        let (shape, here) = (self.shape()?, Origin::here());
        let axis = shape.axis(axis.to_axis()).map_err(|kind| Error::at("size", kind, here))?;
        Ok(shape[axis])
    }
    /// How many bytes its elements take.
    ///
    /// # Errors
    /// The error this tensor carries.
    pub fn nbytes(&self) -> Result<usize> {
        let meta = self.try_meta()?;
        Ok(meta.shape.elements() * meta.dtype.size())
    }
    /// The dtype.
    ///
    /// # Errors
    /// The error this tensor carries.
    pub fn dtype(&self) -> Result<DType> {
        Ok(self.try_meta()?.dtype)
    }
    /// The device.
    ///
    /// # Errors
    /// The error this tensor carries.
    pub fn device(&self) -> Result<Device> {
        Ok(self.try_meta()?.device)
    }
    /// Number of axes; 0 for a failed tensor.
    #[doc(alias = "ndim")]
    #[doc(alias = "dim")]
    pub fn rank(&self) -> usize {
        self.value.meta.shape.rank()
    }
    /// Converted to the dtype of another tensor.
    #[track_caller]
    pub fn type_as(&self, other: &Tensor) -> Tensor {
        if other.value.is_failed() { other.untaped() } else { self.cast(other.value.meta.dtype) }
    }
}
macro_rules! casts {
    ($($name:ident $dtype:ident $text:literal),*) => {
        /// [`Tensor::cast`] by PyTorch's names.
        impl Tensor { $(
            #[doc = concat!("Converted to ", $text, ".")]
            #[track_caller]
            #[must_use]
            pub fn $name(&self) -> Tensor {
                self.cast(DType::$dtype)
            }
        )* }
    };
}
casts!(
    float F32 "f32", double F64 "f64", half F16 "f16", bfloat16 BF16 "bf16",
    long I64 "i64", int I32 "i32", short I16 "i16", char I8 "i8", byte U8 "u8", bool Bool "bool: what is not zero is true"
);
