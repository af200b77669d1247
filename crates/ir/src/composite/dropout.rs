//! Dropout.
use super::{Attr, Attrs, Composite, wide::floats};
use crate::{DType, ErrorKind, TensorType, Types};
use smallvec::smallvec;

/// Inputs: x, and the key `u32[4]` of an `Rng`.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// probability that an element is dropped
    pub p: f64,
}

impl Composite for Dropout {
    fn name(&self) -> &'static str {
        "adamant.dropout"
    }
    fn attrs(&self) -> Attrs {
        smallvec![("p", Attr::Float(self.p))]
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        if !(0.0..=1.0).contains(&self.p) {
            return Err(ErrorKind::Argument(format!("a probability lies between 0 and 1, not {}", self.p)));
        }
        if inputs[1].dtype != DType::U32 || *inputs[1].shape != [4] {
            return Err(ErrorKind::Shape { shape: inputs[1].shape, expected: "a random key is u32[4]".into() });
        }
        Ok(smallvec![floats(&inputs[0])?])
    }
}
