//! What is known of a tensor before it is anywhere: its shape and its dtype.
use crate::{DType, Shape};
use smallvec::SmallVec;
use std::fmt;

/// A shape and a dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// the shape
    pub shape: Shape,
    /// the dtype
    pub dtype: DType,
}
/// Types of an op's outputs.
pub type Types = SmallVec<[TensorType; 3]>;
impl TensorType {
    /// Bytes of its elements.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.shape.elements() * self.dtype.size()
    }
}
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// A type, and the device that holds the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacedType {
    /// shape and dtype
    pub ty: TensorType,
    /// where
    pub place: DeviceId,
}

/// The number that a device has in this process. What is behind it, the runtime knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeviceId(pub u32);
