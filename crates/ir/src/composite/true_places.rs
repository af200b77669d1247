//! Where flags are true.
use super::{Attrs, Composite};
use crate::{DType, ErrorKind, TensorType, Types};
use smallvec::smallvec;

/// Inputs: flags (bool, `[n]`) and slots (i64, `[size]`). Output: the slots with the places of the first `size` true flags, in order, over
/// the front of them.
#[derive(Clone, Copy, Debug)]
pub struct TruePlaces;

impl Composite for TruePlaces {
    fn name(&self) -> &'static str {
        "adamant.true_places"
    }
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let (flags, slots) = (&inputs[0], &inputs[1]);
        if (flags.dtype, slots.dtype) != (DType::Bool, DType::I64) {
            return Err(ErrorKind::Dtype(format!("flags are bool and slots i64, not {} and {}", flags.dtype, slots.dtype)));
        }
        if let Some(other) = [flags, slots].into_iter().find(|t| t.shape.rank() != 1) {
            return Err(ErrorKind::Shape { shape: other.shape, expected: "one axis".into() });
        }
        Ok(smallvec![*slots])
    }
}
