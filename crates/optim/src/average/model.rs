//! A model beside the one that is trained, whose weights are the mean of the other's.
use super::{Mean, exponential, move_means};
use adamant_core::{Cell, Error, ErrorKind, Result, Tensor, grad::no_grad, step};
use adamant_nn::{Module, Param, Role, Walk, Walker};
use std::sync::Arc;

/// A model whose weights are a running mean of another one's, as `torch.optim.swa_utils.AveragedModel`: to evaluate with, or as the
/// teacher beside the student. The first update copies; until then it has the weights that the other had when it was made.
///
/// Weights are shared by clones here, so it wants a second model of the same structure, whose weights it overwrites. No gradients flow
/// to it. Buffers (running statistics) follow the other model's as they are; [`AveragedModel::use_buffers`] averages them too, and
/// [`update_bn`](crate::update_bn) computes them from data. Parts and names are PyTorch's: `module.*` and `n_averaged` (i64).
///
/// ```
/// # use adamant_nn::{Linear, Module, Walk};
/// # use adamant_core::Tensor;
/// # use adamant_optim::{AveragedModel, Optimizer, Sgd, UpdateRule};
/// # adamant_core::Device::reference().make_current();
/// let (model, x) = (Linear::new(3, 1)?, Tensor::ones([4, 3]));
/// let mut optimizer = Sgd::new(0.1).over(model.parameters()).ok()?;
/// let mut averaged = AveragedModel::ema(Linear::new(3, 1)?, &model, 0.99)?;
/// for _ in 0..3 {
///     optimizer.step(&model.forward(&x)?.square().sum(..).backward()?)?;
///     averaged.update_parameters()?;
/// }
/// assert_eq!(averaged.forward(&x)?.shape()?, model.forward(&x)?.shape()?);
/// assert_eq!(averaged.n_averaged()?, 3);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct AveragedModel<M> {
    module: M,
    n_averaged: Param,
    kind: Mean,
    use_buffers: bool,
    /// the other model's leaf and the mean's
    parameters: Vec<(Param, Param)>,
    buffers: Vec<(Param, Param)>,
}
impl<M: Walk> AveragedModel<M> {
    /// `mean <- decay * mean + (1 - decay) * weight` (Polyak and Juditsky 1992), PyTorch's `get_ema_multi_avg_fn`.
    ///
    /// # Errors
    /// A decay outside [0, 1); `module` has other parts than the model; no memory.
    #[doc(alias = "get_ema_multi_avg_fn")]
    #[doc(alias = "get_ema_avg_fn")]
    #[track_caller]
    pub fn ema(module: M, model: &(impl Walk + ?Sized), decay: f64) -> Result<AveragedModel<M>> {
        AveragedModel::new(module, model, exponential(decay)?)
    }
    /// The mean of all updates alike (Izmailov et al. 2018), PyTorch's default and `get_swa_multi_avg_fn`.
    ///
    /// # Errors
    /// `module` has other parts than the model; no memory.
    #[doc(alias = "get_swa_multi_avg_fn")]
    #[doc(alias = "get_swa_avg_fn")]
    #[track_caller]
    pub fn swa(module: M, model: &(impl Walk + ?Sized)) -> Result<AveragedModel<M>> {
        AveragedModel::new(module, model, Mean::Equal)
    }
    /// By a function of the mean, the present weight, and how many weights are in the mean (a 0-d tensor of the weight's dtype),
    /// PyTorch's `avg_fn`. The function is no part of the state.
    ///
    /// # Errors
    /// `module` has other parts than the model; no memory.
    #[track_caller]
    pub fn by(
        module: M,
        model: &(impl Walk + ?Sized),
        avg_fn: impl Fn(&Tensor, &Tensor, &Tensor) -> Tensor + Send + Sync + 'static,
    ) -> Result<AveragedModel<M>> {
        AveragedModel::new(module, model, Mean::Own(Arc::new(avg_fn)))
    }
    #[track_caller]
    fn new(module: M, model: &(impl Walk + ?Sized), kind: Mean) -> Result<AveragedModel<M>> {
        let (parameters, buffers) = pairs(&module.leaves(), &model.leaves())?;
        step(|| parameters.iter().chain(&buffers).try_for_each(|(from, to)| to.set(&from.detached().to(to.meta().device))))?;
        module.freeze();
        let device = parameters.first().or(buffers.first()).map_or(adamant_core::Device::reference(), |(_, to)| to.meta().device);
        let n_averaged = Param::buffer(&Tensor::from_vec_on(vec![0i64], (), device))?;
        Ok(AveragedModel { module, n_averaged, kind, use_buffers: false, parameters, buffers })
    }
    /// Are buffers averaged as parameters are? Otherwise they are copied at each update.
    #[must_use]
    pub fn use_buffers(mut self, averaged: bool) -> AveragedModel<M> {
        self.use_buffers = averaged;
        self
    }
    /// The model with the mean weights.
    pub fn module(&self) -> &M {
        &self.module
    }
    /// Updates made.
    ///
    /// # Errors
    /// A device that fails; a call in a function that is being captured.
    pub fn n_averaged(&self) -> Result<u64> {
        Ok(self.n_averaged.detached().item::<i64>()?.max(0) as u64)
    }
    /// Takes the present weights in: call it after the optimizer's step. All changes commit or none; it may be part of a captured step.
    ///
    /// # Errors
    /// A weight that carries an error, or no memory.
    #[track_caller]
    pub fn update_parameters(&mut self) -> Result<()> {
        no_grad(|| {
            step(|| {
                let before = self.n_averaged.detached();
                self.n_averaged.set(&(&before + 1i64))?;
                let (averaged, copied) = if self.use_buffers { (&self.buffers[..], &[][..]) } else { (&[][..], &self.buffers[..]) };
                let cells: Vec<(Tensor, Cell)> = self.parameters.iter().chain(averaged).map(|(from, to)| (from.detached(), to.cell())).collect();
                move_means(&self.kind, &before, cells.iter().map(|(now, cell)| (now.clone(), cell)))?;
                copied.iter().try_for_each(|(from, to)| to.set(&from.detached().to(to.meta().device)))
            })
        })
    }
}
/// The parameters and buffers of two models, one beside the other.
type Pairs = Vec<(Param, Param)>;
#[track_caller]
fn refused(text: String) -> Error {
    Error::new("average", ErrorKind::Argument(text)).hint("make a second model by the same code, and give it here")
}
#[track_caller]
fn pairs(own: &[(String, Param)], other: &[(String, Param)]) -> Result<(Pairs, Pairs)> {
    if own.len() != other.len() {
        return Err(refused(format!("the model has {} parameters and buffers, the one for its mean {}", other.len(), own.len())));
    }
    let (mut parameters, mut buffers) = (Vec::new(), Vec::new());
    for ((path, to), (of, from)) in own.iter().zip(other) {
        let (a, b) = (to.meta(), from.meta());
        if path != of || a.shape != b.shape || a.dtype != b.dtype || to.role() != from.role() {
            return Err(refused(format!("`{of}` is {} {} in the model, and beside it stands `{path}`, {} {}", b.dtype, b.shape, a.dtype, a.shape)));
        }
        if to.same(from) {
            return Err(refused(format!("`{of}` is the same parameter in both: a clone of a model shares its weights")));
        }
        if to.role() == Role::Trainable { &mut parameters } else { &mut buffers }.push((from.clone(), to.clone()));
    }
    Ok((parameters, buffers))
}
impl<M: Walk> Walk for AveragedModel<M> {
    fn walk(&self, walker: &mut Walker<'_>) {
        walker.child("n_averaged", &self.n_averaged);
        walker.child("module", &self.module);
    }
}
impl<M: Module> Module for AveragedModel<M> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.module.forward(x)
    }
}
