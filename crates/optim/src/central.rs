//! Gradients whose mean over each output is taken out before a rule sees them.
use crate::{Slots, UpdateRule};
use adamant_core::{Grads, Meta, Result, Tensor};
use adamant_nn::Param;

/// A rule that sees centralised gradients: of a parameter with at least two axes, the gradient less its mean over all axes but the
/// first (Yong et al. 2020, "Gradient Centralization"). Others, such as biases, are as they were.
///
/// ```
/// # use adamant_nn::{Linear, Module, Walk};
/// # use adamant_core::Tensor;
/// # use adamant_optim::{Centralized, Optimizer, Sgd, UpdateRule};
/// # adamant_core::Device::reference().make_current();
/// let model = Linear::new(2, 1)?;
/// let before = model.weight.detached().sum(..).item::<f32>()?;
/// let mut optimizer = Centralized(Sgd::new(0.1)).over(model.parameters()).ok()?;
/// let x = Tensor::from_vec(vec![1.0f32, 5.0], [1, 2]);
/// optimizer.step(&model.forward(&x)?.sum(..).backward()?)?;
/// // What a weight gains another one of the same output loses.
/// assert!((model.weight.detached().sum(..).item::<f32>()? - before).abs() < 1e-6);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Centralized<R>(pub R);
impl<R: UpdateRule> UpdateRule for Centralized<R> {
    const NUMBERS_ARE_ARGUMENTS: bool = R::NUMBERS_ARE_ARGUMENTS;
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn lr(&self) -> f64 {
        self.0.lr()
    }
    fn set_lr(&mut self, lr: f64) {
        self.0.set_lr(lr);
    }
    fn set_momentum(&mut self, momentum: f64) {
        self.0.set_momentum(momentum);
    }
    fn hyperparameters(&mut self) -> Vec<(String, &mut f64)> {
        self.0.hyperparameters()
    }
    fn maximize(&self) -> bool {
        self.0.maximize()
    }
    fn check(&self) -> std::result::Result<(), String> {
        self.0.check()
    }
    fn check_parameter(&self, meta: &Meta) -> std::result::Result<(), String> {
        self.0.check_parameter(meta)
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        self.0.update(p, &centralized(g), &mut slots.part(|r: &Self| &r.0))
    }
}
#[track_caller]
fn centralized(g: &Tensor) -> Tensor {
    match g.rank() {
        0 | 1 => g.clone(),
        rank => g - g.mean_keepdim((1..rank as isize).collect::<Vec<_>>()),
    }
}
/// Takes the mean over all axes but the first out of each gradient that has at least two axes, as [`Centralized`] does within a rule:
/// for who clips or looks at gradients in between.
///
/// # Errors
/// A gradient that carries an error.
#[track_caller]
pub fn centralize_gradients(grads: &mut Grads, parameters: &[Param]) -> Result<()> {
    for p in parameters {
        if let Some(g) = grads.of(&p.cell()) {
            let central = centralized(g).ok()?;
            grads.set(&p.cell(), central);
        }
    }
    Ok(())
}
