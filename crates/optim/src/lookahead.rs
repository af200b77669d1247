//! Lookahead: any optimizer explores, and slow weights follow it.
use crate::{Hyperparameters, Optimizer, Rates, WeightUpdate};
use adamant_core::{Cell, DType, Device, Error, ErrorKind, Grads, Result, Tensor, grad::with_grad, step};
use adamant_nn::Param;
use std::sync::Arc;

/// An optimizer whose weights are drawn back: every `k` steps slow weights go the part `alpha` of the way to the fast ones, which then
/// begin again from there (Zhang et al. 2019, algorithm 1). What runs fast is any optimizer, and its state stays as it is.
///
/// The slow weights begin as what the weights are when it is made, so load weights before. It may be part of a captured step.
///
/// Slow weights are of the weights' dtype, and so is the way that they go. What the fast optimizer keeps beside weights of 16 bits
/// ([`WeightUpdate`]) stays where a slow weight takes the weight's place: it is less than a unit of it.
///
/// ```
/// # use adamant_core::{Grads, Tensor};
/// # use adamant_nn::Param;
/// # use adamant_optim::{Lookahead, Optimizer, Sgd, UpdateRule};
/// # adamant_core::Device::reference().make_current();
/// let weight = Param::new(&Tensor::zeros([1]))?;
/// let mut optimizer = Lookahead::new(Sgd::new(1.0).over([weight.clone()]).ok()?, 2, 0.5)?;
/// let mut grads = Grads::default();
/// grads.set(&weight.cell(), Tensor::from_vec(vec![-1.0f32], [1]));
/// let mut visited = Vec::new();
/// for _ in 0..4 {
///     optimizer.step(&grads)?;
///     visited.push(weight.detached().item::<f32>()?);
/// }
/// assert_eq!(visited, [1.0, 1.0, 2.0, 2.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct Lookahead<O> {
    fast: O,
    k: u32,
    alpha: f64,
    parameters: Vec<Param>,
    slow: Vec<Cell>,
    /// steps made, u32: a cell, so that it follows the weights wherever they go
    count: Cell,
}
/// Names in a state, beside the slots of the fast optimizer.
const SLOW: &str = "slow";
const COUNT: &str = "slow_step";

#[track_caller]
fn refused(text: String) -> Error {
    Error::new("lookahead", ErrorKind::Argument(text))
}
impl<O: Optimizer> Lookahead<O> {
    /// Slow weights that take the part `alpha` of `k` steps. The paper has `k` of 5 and `alpha` of 0.5.
    ///
    /// # Errors
    /// `k` is 0, `alpha` is outside (0, 1], the optimizer has no parameters, or there is no memory.
    #[track_caller]
    pub fn new(fast: O, k: u32, alpha: f64) -> Result<Lookahead<O>> {
        if k == 0 {
            return Err(refused("slow weights follow every k steps, and k is 0".into()));
        }
        if !(alpha > 0.0 && alpha <= 1.0) {
            return Err(refused(format!("alpha is {alpha}, it must be in (0, 1]")));
        }
        let parameters = fast.parameters();
        let Some(device) = parameters.first().map(|p| p.meta().device) else {
            return Err(refused(format!("{} has no parameters", fast.name())));
        };
        let slow = parameters.iter().map(|p| Cell::new(&p.detached(), false)).collect::<Result<_>>()?;
        let count = Cell::new(&Tensor::from_vec_on(vec![0u32], (), device), false)?;
        Ok(Lookahead { fast, k, alpha, parameters, slow, count })
    }
    /// The optimizer that runs fast.
    pub fn fast(&self) -> &O {
        &self.fast
    }
    #[track_caller]
    fn follow(&self) -> Result<()> {
        let count = self.count.detached() + 1u32;
        let due = count.remainder(self.k).eq(0u32);
        self.count.set(&count)?;
        self.parameters.iter().zip(&self.slow).filter(|(p, _)| p.is_trainable()).try_for_each(|(p, slow)| {
            let (fast, old) = (p.detached(), slow.detached());
            let due = due.to(p.meta().device);
            let next = &old + (&fast - &old) * self.alpha;
            slow.set(&due.where_(&next, &old))?;
            p.set(&due.where_(&next, &fast))
        })
    }
}
impl<O: Optimizer> Optimizer for Lookahead<O> {
    fn name(&self) -> &'static str {
        self.fast.name()
    }
    fn step(&mut self, grads: &Grads) -> Result<()> {
        step(|| {
            self.fast.step(grads)?;
            with_grad(false, || self.follow())
        })
    }
    fn lrs(&self) -> Vec<f64> {
        self.fast.lrs()
    }
    fn set_lrs(&mut self, lrs: &[f64]) {
        self.fast.set_lrs(lrs);
    }
    fn rates(&self) -> Arc<dyn Rates> {
        self.fast.rates()
    }
    fn set_momentum(&mut self, momentum: f64) {
        self.fast.set_momentum(momentum);
    }
    fn hyperparameters(&self) -> Vec<Hyperparameters> {
        self.fast.hyperparameters()
    }
    fn set_hyperparameters(&mut self, groups: &[Hyperparameters]) -> Result<()> {
        self.fast.set_hyperparameters(groups)
    }
    fn parameters(&self) -> Vec<Param> {
        self.fast.parameters()
    }
    fn parameter_groups(&self) -> Vec<Vec<Param>> {
        self.fast.parameter_groups()
    }
    /// The fast optimizer's slots, and `slow` and `slow_step` of each parameter.
    fn state_dict(&self) -> Vec<(String, Tensor)> {
        let mut all = self.fast.state_dict();
        let count = self.count.detached().to(Device::reference()).cast(DType::F64);
        for (p, slow) in self.parameters.iter().zip(&self.slow) {
            all.push((format!("{}.{SLOW}", p.path()), slow.detached()));
            all.push((format!("{}.{COUNT}", p.path()), count.clone()));
        }
        all
    }
    fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        let own = |name: &str| name.rsplit('.').next().is_some_and(|slot| slot == SLOW || slot == COUNT);
        let find = |name: String| match state.iter().find(|(n, _)| *n == name) {
            Some((_, t)) => Ok(t.clone()),
            None => Err(refused(format!("there is no `{name}`"))),
        };
        let mut slow = Vec::with_capacity(self.slow.len());
        for p in &self.parameters {
            let (value, meta) = (find(format!("{}.{SLOW}", p.path()))?.ok()?, p.meta());
            if value.shape()? != meta.shape {
                return Err(refused(format!("`{}.{SLOW}` has shape {}, the parameter {}", p.path(), value.shape()?, meta.shape)));
            }
            slow.push(value.cast(meta.dtype).to(meta.device));
        }
        let count = match self.parameters.first() {
            Some(first) => find(format!("{}.{COUNT}", first.path()))?.item::<f64>()?,
            None => 0.0,
        };
        if count < 0.0 || count.fract() != 0.0 || count > f64::from(u32::MAX) {
            return Err(refused(format!("{count} is no count of steps")));
        }
        let rest: Vec<(String, Tensor)> = state.iter().filter(|(name, _)| !own(name)).cloned().collect();
        self.fast.load_state_dict(&rest)?;
        step(|| {
            self.count.set(&Tensor::from_vec_on(vec![count as u32], (), self.count.meta().device))?;
            self.slow.iter().zip(&slow).try_for_each(|(cell, value)| cell.set(value))
        })
    }
    fn set_weight_update(&mut self, by: WeightUpdate) -> Result<()> {
        self.fast.set_weight_update(by)
    }
    fn set_slot_dtype(&mut self, dtype: DType) -> Result<()> {
        self.fast.set_slot_dtype(dtype)
    }
    fn adopt_masters(&mut self, masters: &[(Param, Tensor)]) -> Result<()> {
        self.fast.adopt_masters(masters)
    }
}
