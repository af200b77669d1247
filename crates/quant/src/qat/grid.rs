//! Fake quantization: numbers that are what their codes stand for, with the gradient of a straight-through estimator. Must not know
//! where the step comes from.
use adamant_core::{Tensor, grad::grad_enabled};

/// Codes from the least to the largest, which stand for `(code - zero point) · scale`; f32, of shapes that broadcast.
pub(crate) struct FakeQuantizer {
    pub scale: Tensor,
    /// `None`: 0
    pub zero_point: Option<Tensor>,
    pub low: f64,
    pub high: f64,
}
/// A step that is trained, as the gradient reaches it.
pub(crate) struct LearnedStep {
    /// tracked, of the scale's shape
    pub step: Tensor,
    /// how many numbers share it
    pub shared_by: usize,
}
impl FakeQuantizer {
    fn offset(&self, steps: &Tensor) -> Tensor {
        if let Some(zero_point) = &self.zero_point { steps + zero_point } else { steps.clone() }
    }
    /// Codes, as whole numbers of f32, of numbers that are counted in steps.
    pub fn codes(&self, in_steps: &Tensor) -> Tensor {
        let codes = self.offset(&in_steps.round()).maximum(self.low).minimum(self.high);
        // The code 0 has no sign.
        if self.zero_point.is_none() { codes.eq(0.0).where_(0.0, codes) } else { codes }
    }
    /// What codes stand for.
    fn numbers(&self, codes: &Tensor) -> Tensor {
        let from_zero = if let Some(zero_point) = &self.zero_point { codes - zero_point } else { codes.clone() };
        from_zero * &self.scale
    }
    /// The numbers that the codes of x stand for; x is f32, and `in_steps` is x without a gradient, counted in steps.
    ///
    /// The gradient of x is that of the identity where its code lies in the range, 0 elsewhere. With a learned step, which has Esser
    /// et al.'s (2020, equations 2 and 5) times `1/√(n · Qp)`, x counts as within the range before it is rounded, as theirs.
    pub fn fake_quantized(&self, x: &Tensor, in_steps: &Tensor, learned: Option<&LearnedStep>) -> Tensor {
        let numbers = self.numbers(&self.codes(in_steps));
        if !grad_enabled() || !(x.is_tracked() || learned.is_some_and(|l| l.step.is_tracked())) {
            return numbers;
        }
        let through = match learned {
            None => {
                let steps = self.offset(&in_steps.round());
                steps.ge(self.low).logical_and(steps.le(self.high)).where_(x, 0.0)
            }
            Some(LearnedStep { step, shared_by }) => {
                let at = self.offset(in_steps);
                let inside = at.gt(self.low).logical_and(at.lt(self.high));
                let end = at.le(self.low).where_(self.low, self.high);
                let end = if let Some(zero_point) = &self.zero_point { end - zero_point } else { end };
                let slope = inside.where_(in_steps.round() - in_steps, end) / (*shared_by as f64 * self.high).sqrt();
                inside.where_(x, 0.0) + step * slope
            }
        };
        // The difference is 0 for every finite number: it brings a gradient and no value.
        numbers + (&through - through.detach())
    }
}
