//! Rounding to the steps of an integer grid and back, as quantization-aware training needs it: the gradient passes
//! straight through where the value fits the grid (Jacob et al., "Quantization and Training", 2018).
use super::{Compound, RuleArgs, Saves, StackedInput, of_first};
use crate::{Result, Shape, Tensor, composite::Cotangents};
pub use adamant_ir::composite::quantize::*;
use smallvec::smallvec;

fn along(of: &FakeQuantize, t: &Tensor, x: &Tensor) -> Tensor {
    match of.axis {
        None => t.reshape(()),
        Some(axis) => {
            let shape = x.meta().shape;
            let dims = Shape::along(0, shape[axis], shape.rank() - axis);
            t.reshape(dims)
        }
    }
}
/// The step of each element, not yet bounded.
fn steps(of: &FakeQuantize, inputs: [&Tensor; 3]) -> Tensor {
    let [x, scale, zero] = inputs;
    (x.widened() * (1.0 / along(of, scale, x))).round() + along(of, zero, x)
}
impl Compound for FakeQuantize {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let x = &inputs[0];
        let steps = steps(self, [x, &inputs[1], &inputs[2]]).maximum(self.quant_min as f64).minimum(self.quant_max as f64);
        Ok(vec![((steps - along(self, &inputs[2], x)) * along(self, &inputs[1], x)).cast(x.meta().dtype)])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(3))
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let Some(g) = &args.cotangents[0] else { return Ok(smallvec![None; 3]) };
        let inputs: Vec<Tensor> = (0..3).map(|k| args.input(k).map(Tensor::detach)).collect::<Result<_>>()?;
        let steps = steps(self, [&inputs[0], &inputs[1], &inputs[2]]);
        let fits = steps.ge(self.quant_min as f64).logical_and(steps.le(self.quant_max as f64));
        Ok(smallvec![Some(fits.where_(g, 0.0)), None, None])
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        of_first(FakeQuantize { axis: self.axis.map(|a| a + 1), ..*self }, inputs)
    }
}
