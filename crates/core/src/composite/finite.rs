//! Whether all elements are finite. A composite because a device that looks at exponents alone needs one read of the data,
//! and nothing of it in its registers.
use super::{Composite, wide::floats};
use crate::{DType, ErrorKind, Meta, Result, Shape, Tensor, op::Metas};
use smallvec::smallvec;

/// Is every element finite? One bool.
#[derive(Clone, Copy, Debug)]
pub struct AllFinite;
impl Composite for AllFinite {
    fn name(&self) -> &'static str {
        "adamant.all_finite"
    }
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        Ok(smallvec![Meta { shape: Shape::SCALAR, dtype: DType::Bool, ..floats(&inputs[0])? }])
    }
    /// `0 * x` is zero where `x` is finite and NaN where it is not, so that the sum of all of them is zero or NaN. (A sum of
    /// the elements themselves may overflow.)
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let zero = (&inputs[0] * 0.0).sum(..);
        Ok(vec![zero.eq(0.0)])
    }
}
