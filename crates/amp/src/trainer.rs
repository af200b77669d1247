//! A model, its optimizer, a region and a scaler: a step of mixed precision as one call.
use crate::{Autocast, GradScaler};
use adamant_core::{DType, Result, Tensor};
use adamant_nn::{Module, Walk};
use adamant_optim::{GradientClipper, Optimizer};

/// Trains a model in mixed precision: its forward in a region of f16, its loss scaled, its weights in f32.
///
/// ```
/// use adamant_amp::MixedPrecisionTrainer;
/// use adamant_core::{Tensor, functional};
/// use adamant_nn::{Linear, Module, Walk};
/// use adamant_optim::{Adam, UpdateRule};
///
/// # adamant_core::Device::reference().make_current();
/// let model = Linear::new(4, 2)?;
/// let optimizer = Adam::new(1e-2).over(model.parameters());
/// let mut trainer = MixedPrecisionTrainer::new(model, optimizer);
/// let (x, target) = (Tensor::ones([8, 4]), Tensor::zeros([8, 2]));
/// let first = trainer.train_step(|model| Ok(functional::mse_loss(&model.forward(&x)?, &target, Default::default())))?;
/// // Or by hand:
/// let y = trainer.forward_fp16(&x)?;
/// let second = functional::mse_loss(&y.float(), &target, Default::default());
/// trainer.step(&second)?;
/// assert!(second.item::<f32>()? < first.item::<f32>()?);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct MixedPrecisionTrainer<M, O> {
    model: M,
    optimizer: O,
    region: Autocast,
    scaler: GradScaler,
    clipper: Option<GradientClipper>,
}
impl<M: Module + Walk, O: Optimizer> MixedPrecisionTrainer<M, O> {
    /// A region of f16, and a scaler with its defaults.
    pub fn new(model: M, optimizer: O) -> MixedPrecisionTrainer<M, O> {
        MixedPrecisionTrainer::with(model, optimizer, Autocast::of(DType::F16), GradScaler::new())
    }
    /// A region and a scaler of one's own: for bf16 one that is not enabled.
    pub fn with(model: M, optimizer: O, region: Autocast, scaler: GradScaler) -> MixedPrecisionTrainer<M, O> {
        MixedPrecisionTrainer { model, optimizer, region, scaler, clipper: None }
    }
    /// Clips gradients, as they are without the scale. What the clipper remembers is left alone by a step that is suppressed.
    #[must_use]
    pub fn clip(mut self, clipper: GradientClipper) -> MixedPrecisionTrainer<M, O> {
        self.clipper = Some(clipper);
        self
    }
    /// The model's answer, in the region. A layer that counts what it sees (a BatchNorm) counts it whether the step is suppressed or
    /// not: [`MixedPrecisionTrainer::train_step`] takes that back too.
    ///
    /// # Errors
    /// Those of the model.
    #[track_caller]
    pub fn forward_fp16(&self, x: &Tensor) -> Result<Tensor> {
        self.region.run(|| self.model.forward(x))
    }
    /// A step by a loss: scaled, walked back from, clipped, applied if every gradient is finite.
    ///
    /// # Errors
    /// Those of the walk back and of the optimizer: then nothing has changed.
    #[track_caller]
    pub fn step(&mut self, loss: &Tensor) -> Result<()> {
        self.attempt(|_, _| Ok(loss.clone())).map(drop)
    }
    /// A whole step: `f` computes the loss in the region. Gives the loss, of which the host waits for nothing.
    ///
    /// # Errors
    /// Those of `f`, of the walk back and of the optimizer: then nothing has changed.
    #[track_caller]
    pub fn train_step(&mut self, f: impl FnOnce(&M) -> Result<Tensor>) -> Result<Tensor> {
        self.attempt(|model, region| region.run(|| f(model)))
    }
    #[track_caller]
    fn attempt(&mut self, loss: impl FnOnce(&M, &Autocast) -> Result<Tensor>) -> Result<Tensor> {
        let MixedPrecisionTrainer { model, optimizer, region, scaler, clipper } = self;
        scaler.attempt(|scaler| {
            let loss = loss(model, region)?;
            let mut grads = scaler.scale(&loss)?.backward()?;
            if let Some(clipper) = clipper {
                scaler.unscale_(&mut grads, optimizer)?;
                clipper.clip_for(&mut grads, optimizer)?;
            }
            scaler.step(optimizer, &mut grads)?;
            loss.detach().ok()
        })
    }
    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }
    /// The optimizer.
    pub fn optimizer(&mut self) -> &mut O {
        &mut self.optimizer
    }
    /// What clips gradients, if anything does: its numbers, its state.
    pub fn clipper(&mut self) -> Option<&mut GradientClipper> {
        self.clipper.as_mut()
    }
    /// The scaler: its scale, what it did, its state.
    pub fn scaler(&mut self) -> &mut GradScaler {
        &mut self.scaler
    }
    /// The model and the optimizer.
    pub fn into_parts(self) -> (M, O) {
        (self.model, self.optimizer)
    }
}
