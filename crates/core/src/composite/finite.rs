//! Whether all elements are finite. A composite because a device that looks at exponents alone needs one read of the data,
//! and nothing of it in its registers.
use super::Compound;
use crate::{Result, Tensor};
pub use adamant_ir::composite::finite::*;

impl Compound for AllFinite {
    /// `0 * x` is zero where `x` is finite and NaN where it is not, so that the sum of all of them is zero or NaN. (A sum of
    /// the elements themselves may overflow.)
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let zero = (&inputs[0] * 0.0).sum(..);
        Ok(vec![zero.eq(0.0)])
    }
}
