//! Inputs of layers that are what their codes will stand for, and the range that codes span. All that is known of a range lies in
//! cells of the model, so that a captured step observes, and a run that goes on sees what the one before saw.
use super::{
    grid::{FakeQuantizer, LearnedStep},
    passes,
};
use adamant_core::{DType, Result, Shape, Tensor, composite::packed::SMALLEST_ROW, grad::no_grad};
use adamant_nn::{Copies, InputCodes, Param, Walk};

/// The largest unsigned code of 8 bits.
const LARGEST: f64 = 255.0;

/// What has a scale of its own where each token has one.
#[derive(Clone, Copy)]
pub(crate) enum TokenAxes {
    /// along the last axis
    Row,
    /// of a convolution over so many axes
    Sample { spatial: usize },
}
impl TokenAxes {
    /// The first axis of one in an input.
    fn first_axis(self, x: &Shape) -> usize {
        match self {
            TokenAxes::Row => x.rank().saturating_sub(1),
            // The batch may be missing.
            TokenAxes::Sample { spatial } => x.rank().saturating_sub(spatial + 1),
        }
    }
}
/// What becomes of an input.
#[derive(Clone)]
pub(crate) enum FakeQuantizedInput {
    Float,
    PerToken { symmetric: bool, token: TokenAxes },
    Ranged { range: InputRange, token: TokenAxes },
}
/// The range of values that was seen, and the step of the codes that span it.
#[derive(Clone)]
pub(crate) struct InputRange {
    /// forward passes of the layer in training, i64
    pub observed: Param,
    /// Behind so many of them the range stays what it is, and a learned step is trained.
    pub limit: Option<u64>,
    /// f32; above `high`: nothing was seen
    pub low: Param,
    pub high: Param,
    pub step: Option<Param>,
    /// what the newest batch counts; `None`: the extremes of all batches
    pub rate: Option<f64>,
}
impl InputRange {
    #[track_caller]
    pub fn new(observed: &Param, rate: Option<f64>, limit: Option<u64>, learned: bool) -> Result<InputRange> {
        let device = observed.meta().device;
        let number = |v: f64| Tensor::full_on((), v, DType::F32, device);
        let (low, high) = (Param::buffer(&number(1.0))?, Param::buffer(&number(0.0))?);
        let step = if learned { Some(Param::new(&number(1.0))?) } else { None };
        // A step that is learned begins with what was observed.
        let limit = if learned { Some(limit.unwrap_or(1)) } else { limit };
        Ok(InputRange { observed: observed.clone(), limit, low, high, step, rate })
    }
    fn is_frozen(&self) -> Option<Tensor> {
        Some(self.observed.detached().ge(passes(self.limit?)))
    }
    fn has_seen(&self) -> Tensor {
        self.low.detached().le(self.high.detached())
    }
    /// Moves the range toward that of x, or to it, if that is the first. Of values that are not finite nothing is learned.
    #[track_caller]
    fn observe(&self, x: &Tensor) -> Result<()> {
        let (least, most) = (x.amin(..), x.amax(..));
        let (low, high) = (self.low.detached().cast(DType::F32), self.high.detached().cast(DType::F32));
        let (first, fits) = (low.gt(&high), least.isfinite().logical_and(most.isfinite()));
        let (next_low, next_high) = match self.rate {
            Some(rate) => (&low + (&least - &low) * rate, &high + (&most - &high) * rate),
            None => (low.minimum(&least), high.maximum(&most)),
        };
        let moves = match self.is_frozen() {
            Some(frozen) => fits.logical_and(frozen.logical_not()),
            None => fits,
        };
        let moved = |old: &Tensor, new: &Tensor, next: Tensor| moves.where_(first.where_(new, next), old);
        self.low.set(&moved(&low, &least, next_low).cast(self.low.meta().dtype))?;
        self.high.set(&moved(&high, &most, next_high).cast(self.high.meta().dtype))
    }
    /// Scale and zero point of codes that span the range with 0 in it, as [`crate::observe::Observer::unsigned_codes`] has them.
    fn spanning(&self) -> (Tensor, Tensor) {
        let (low, high) = (self.low.detached().cast(DType::F32).minimum(0.0), self.high.detached().cast(DType::F32).maximum(0.0));
        let scale = ((high - &low) / LARGEST).maximum(f64::from(f32::EPSILON));
        let zero_point = (-low / &scale).round().maximum(0.0).minimum(LARGEST);
        (scale, zero_point)
    }
    /// Scale and zero point now.
    fn codes(&self) -> (Tensor, Tensor) {
        let (scale, zero_point) = self.spanning();
        match (&self.step, self.is_frozen()) {
            (Some(step), Some(frozen)) => (frozen.where_(step.detached().cast(DType::F32).abs().maximum(SMALLEST_ROW), scale), zero_point),
            _ => (scale, zero_point),
        }
    }
    #[track_caller]
    fn fake_quantized(&self, x: &Tensor, token: TokenAxes, training: bool) -> Result<Tensor> {
        let shape = x.shape()?;
        let features = shape[token.first_axis(&shape)..].iter().product();
        let (scale, zero_point) = no_grad(|| {
            if training {
                self.observe(&x.detach())?;
            }
            Ok::<_, adamant_core::Error>(self.codes())
        })?;
        let learned = self.step.as_ref().zip(self.is_frozen()).map(|(step, frozen)| {
            let step = frozen.where_(step.get().cast(DType::F32).abs(), &scale);
            LearnedStep { step, shared_by: features }
        });
        if let (true, Some(step)) = (training, &self.step) {
            no_grad(|| step.set(&scale.cast(step.meta().dtype)))?;
        }
        let in_steps = x.detach() * (1.0 / &scale);
        let grid = FakeQuantizer { scale, zero_point: Some(zero_point), low: 0.0, high: LARGEST };
        let numbers = grid.fake_quantized(x, &in_steps, learned.as_ref());
        // Before anything was seen there are no codes.
        if training { Ok(numbers) } else { self.has_seen().where_(numbers, x).ok() }
    }
    /// What becomes of inputs from now on; `None`: nothing was seen.
    ///
    /// # Errors
    /// A step or a range that cannot be read.
    #[track_caller]
    pub fn input_codes(&self) -> Result<Option<InputCodes>> {
        if !self.has_seen().item::<bool>()? {
            return Ok(None);
        }
        let (scale, zero_point) = no_grad(|| self.codes());
        Ok(Some(InputCodes::Given { scale: scale.item()?, zero_point: zero_point.cast(DType::I32).item()? }))
    }
}
/// Each token of x (f32), which is all axes from one on, as what its codes stand for by its own values, in the arithmetic of
/// [`adamant_core::functional::quantized_linear`].
fn by_token(x: &Tensor, first_axis: usize, symmetric: bool) -> Tensor {
    let axes: Vec<usize> = (first_axis..x.rank()).collect();
    let rows = x.detach();
    let inverse = |largest: &Tensor, steps: f64| largest.gt(SMALLEST_ROW).where_(steps / largest, 0.0);
    if symmetric {
        let largest = rows.abs().amax_keepdim(&axes[..]);
        let in_steps = &rows * inverse(&largest, 127.0);
        return FakeQuantizer { scale: largest / 127.0, zero_point: None, low: -128.0, high: 127.0 }.fake_quantized(x, &in_steps, None);
    }
    let least = rows.amin_keepdim(&axes[..]).minimum(0.0);
    let range = rows.amax_keepdim(&axes[..]).maximum(0.0) - &least;
    let inverse = inverse(&range, LARGEST);
    let zero_point = (-least * &inverse).round();
    let in_steps = &rows * &inverse;
    FakeQuantizer { scale: range / LARGEST, zero_point: Some(zero_point), low: 0.0, high: LARGEST }.fake_quantized(x, &in_steps, None)
}
impl FakeQuantizedInput {
    /// An input as what its codes stand for.
    #[track_caller]
    pub fn fake_quantized(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let meta = x.try_meta()?;
        if !meta.dtype.is_float() || meta.shape.elements() == 0 {
            return Ok(x.clone());
        }
        let numbers = x.cast(DType::F32);
        let numbers = match self {
            FakeQuantizedInput::Float => return Ok(x.clone()),
            FakeQuantizedInput::PerToken { symmetric, token } => by_token(&numbers, token.first_axis(&meta.shape), *symmetric),
            FakeQuantizedInput::Ranged { range, token } => range.fake_quantized(&numbers, *token, training)?,
        };
        numbers.cast(meta.dtype).ok()
    }
    #[track_caller]
    pub fn apart(&self, copies: &mut Copies) -> Result<FakeQuantizedInput> {
        let FakeQuantizedInput::Ranged { range, token } = self else { return Ok(self.clone()) };
        let range = InputRange {
            observed: range.observed.duplicate(copies)?,
            low: range.low.duplicate(copies)?,
            high: range.high.duplicate(copies)?,
            step: range.step.duplicate(copies)?,
            ..*range
        };
        Ok(FakeQuantizedInput::Ranged { range, token: *token })
    }
}
