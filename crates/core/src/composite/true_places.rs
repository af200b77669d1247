//! Where flags are true. A composite because a kernel counts and lists them, where the body moves every place to one of its own.
use super::{Compound, RuleArgs, Saves};
use crate::{DType, Result, Tensor, composite::Cotangents};
pub use adamant_ir::composite::true_places::*;
use smallvec::smallvec;

impl Compound for TruePlaces {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (flags, slots) = (&inputs[0], &inputs[1]);
        let (n, size, device) = (flags.meta().shape.elements(), slots.meta().shape.elements(), flags.meta().device);
        if n == 0 {
            return Ok(vec![slots.clone()]);
        }
        // Element k goes to the place that the running count gives it; all others to one place behind the end.
        let place = (flags.cumsum(0) - 1i64).minimum(size);
        let place = flags.where_(place, size as i64);
        let and_one = Tensor::cat(&[slots.clone(), Tensor::zeros_on([1], DType::I64, device)], 0);
        Ok(vec![and_one.scatter(0, &place, &Tensor::arange_on(0, n, 1, DType::I64, device)).narrow(0, 0, size)])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(0))
    }
    /// Places have no gradient.
    fn rule(&self, _: &RuleArgs<'_>) -> Result<Cotangents> {
        Ok(smallvec![None; 2])
    }
}
