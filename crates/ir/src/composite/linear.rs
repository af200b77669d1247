//! A linear layer: a product with its bias.
use super::{Composite, wide::same_dtype};
use crate::{DType, ErrorKind, TensorType, Types};
use smallvec::smallvec;

/// Inputs: x `[.., in]`, weight `[out, in]`, and bias `[out]` if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Linear;

impl Composite for Linear {
    fn name(&self) -> &'static str {
        "adamant.linear"
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let (x, w) = (&inputs[0], &inputs[1]);
        let rank = x.shape.rank();
        if rank == 0 || w.shape.rank() != 2 {
            return Err(ErrorKind::ShapeMismatch { left: x.shape, right: w.shape, axes: None, expected: "an input [.., in] and a weight [out, in]" });
        }
        if x.shape[rank - 1] != w.shape[1] {
            return Err(ErrorKind::ShapeMismatch {
                left: x.shape,
                right: w.shape,
                axes: Some((rank - 1, 1)),
                expected: "the input's last axis must be the weight's last",
            });
        }
        same_dtype(x, w)?;
        if x.dtype == DType::Bool {
            return Err(ErrorKind::Dtype("linear is not defined for bool".into()));
        }
        if let Some(b) = inputs.get(2) {
            same_dtype(x, b)?;
            if *b.shape != [w.shape[0]] {
                return Err(ErrorKind::ShapeMismatch { left: w.shape, right: b.shape, axes: None, expected: "the bias has one element per row of the weight" });
            }
        }
        Ok(smallvec![TensorType { shape: x.shape.with(rank - 1, w.shape[0]), ..*x }])
    }
}
