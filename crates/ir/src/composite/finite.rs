//! Whether all elements are finite.
use super::{Composite, wide::floats};
use crate::{DType, ErrorKind, Shape, TensorType, Types};
use smallvec::smallvec;

/// Is every element finite? One bool.
#[derive(Clone, Copy, Debug)]
pub struct AllFinite;

impl Composite for AllFinite {
    fn name(&self) -> &'static str {
        "adamant.all_finite"
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        floats(&inputs[0])?;
        Ok(smallvec![TensorType { shape: Shape::SCALAR, dtype: DType::Bool }])
    }
}
