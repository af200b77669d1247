//! Rounding to the steps of an integer grid and back, as quantization-aware training needs it: the gradient passes
//! straight through where the value fits the grid (Jacob et al., "Quantization and Training", 2018).
use super::{
    Attr, Attrs, Composite, RuleArgs, Saves, StackedInput, of_first,
    wide::{floats, one_device},
};
use crate::{ErrorKind, Meta, Result, Shape, Tensor, composite::Cotangents, op::Metas};
use smallvec::smallvec;

/// Inputs: x, scale and zero point (floats in the dtype x computes in): single numbers, or one per index of `axis`.
#[derive(Clone, Copy, Debug)]
pub struct FakeQuantize {
    /// smallest step of the grid
    pub quant_min: i64,
    /// largest step of the grid
    pub quant_max: i64,
    /// the axis that has its own scales
    pub axis: Option<usize>,
}
impl FakeQuantize {
    fn along(&self, t: &Tensor, x: &Tensor) -> Tensor {
        match self.axis {
            None => t.reshape(()),
            Some(axis) => {
                let shape = x.meta().shape;
                let dims = Shape::along(0, shape[axis], shape.rank() - axis);
                t.reshape(dims)
            }
        }
    }
    /// The step of each element, not yet bounded.
    fn steps(&self, inputs: [&Tensor; 3]) -> Tensor {
        let [x, scale, zero] = inputs;
        (x.widened() * (1.0 / self.along(scale, x))).round() + self.along(zero, x)
    }
}
impl Composite for FakeQuantize {
    fn name(&self) -> &'static str {
        "adamant.fake_quantize"
    }
    fn attrs(&self) -> Attrs {
        let range = [("quant_min", Attr::Int(self.quant_min)), ("quant_max", Attr::Int(self.quant_max))];
        range.into_iter().chain(self.axis.map(|a| ("axis", Attr::Int(a as i64)))).collect()
    }
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        one_device(inputs)?;
        let x = floats(&inputs[0])?;
        if self.quant_min > self.quant_max {
            return Err(ErrorKind::Argument(format!("quant_min {} is greater than quant_max {}", self.quant_min, self.quant_max)));
        }
        if self.axis.is_some_and(|a| a >= x.shape.rank()) {
            return Err(ErrorKind::Axis { axis: self.axis.map_or(0, |a| a as isize), rank: x.shape.rank() });
        }
        let wanted = self.axis.map_or(1, |a| x.shape[a]);
        for p in &inputs[1..] {
            if p.dtype != super::wide::wide(x.dtype) {
                return Err(ErrorKind::DtypeMismatch { left: super::wide::wide(x.dtype), right: p.dtype });
            }
            if p.shape.elements() != wanted || p.shape.rank() > 1 {
                return Err(ErrorKind::ShapeMismatch {
                    left: x.shape,
                    right: p.shape,
                    axes: None,
                    expected: "one scale and zero point, or one for each index of the axis",
                });
            }
        }
        Ok(smallvec![x])
    }
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let x = &inputs[0];
        let steps = self.steps([x, &inputs[1], &inputs[2]]).maximum(self.quant_min as f64).minimum(self.quant_max as f64);
        Ok(vec![((steps - self.along(&inputs[2], x)) * self.along(&inputs[1], x)).cast(x.meta().dtype)])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(3))
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let Some(g) = &args.cotangents[0] else { return Ok(smallvec![None; 3]) };
        let inputs: Vec<Tensor> = (0..3).map(|k| args.input(k).map(Tensor::detach)).collect::<Result<_>>()?;
        let steps = self.steps([&inputs[0], &inputs[1], &inputs[2]]);
        let fits = steps.ge(self.quant_min as f64).logical_and(steps.le(self.quant_max as f64));
        Ok(smallvec![Some(fits.select(g, 0.0)), None, None])
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        of_first(FakeQuantize { axis: self.axis.map(|a| a + 1), ..*self }, inputs)
    }
}
