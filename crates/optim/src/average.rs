//! Running means of weights: what is trained jitters, its mean does not.
use crate::rules::{lerp, lerp_from, weight};
use adamant_core::{Cell, DType, Device, Error, ErrorKind, Result, Tensor, grad::with_grad, step};
use adamant_nn::Param;
use std::sync::Arc;

mod model;
mod statistics;
pub use model::AveragedModel;
pub use statistics::{update_bn, update_bn_by};

/// How weights are averaged.
#[derive(Clone)]
enum Mean {
    /// what is old counts less and less
    Exponential { decay: f64 },
    /// all steps count the same
    Equal,
    /// by a function of the mean, the weight and how many were averaged
    Own(AverageBy),
}
/// The new mean from the mean, the present weight and the number of weights in the mean, a 0-d tensor of the weight's dtype.
type AverageBy = Arc<dyn Fn(&Tensor, &Tensor, &Tensor) -> Tensor + Send + Sync>;
#[track_caller]
fn exponential(decay: f64) -> Result<Mean> {
    if !(0.0..1.0).contains(&decay) {
        return Err(Error::new("average", ErrorKind::Argument(format!("the decay is {decay}, it must be in [0, 1)"))));
    }
    Ok(Mean::Exponential { decay })
}
/// Moves each mean toward what is now, after `updates` such moves.
#[track_caller]
fn move_means<'c>(kind: &Mean, updates: &Tensor, all: impl Iterator<Item = (Tensor, &'c Cell)>) -> Result<()> {
    let mut shares: Vec<Share> = Vec::new();
    for (now, mean) in all {
        let meta = mean.meta();
        let k = match shares.iter().position(|s| s.device == meta.device && s.dtype == meta.dtype) {
            Some(k) => k,
            None => {
                shares.push(Share::of(kind, updates, meta.device, meta.dtype));
                shares.len() - 1
            }
        };
        mean.set(&shares[k].moved(&mean.detached(), &now.to(meta.device)))?;
    }
    Ok(())
}

/// A running mean of parameters, as `torch.optim.swa_utils.AveragedModel`: it begins as a copy of what the first update finds.
/// Buffers are not averaged; [`AveragedModel`] has them and a model of its own.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::Param;
/// # use adamant_optim::WeightAverage;
/// # adamant_core::Device::reference().make_current();
/// let weight = Param::new(&Tensor::zeros([2]))?;
/// let mut mean = WeightAverage::exponential(&[weight.clone()], 0.5)?;
/// for value in [4.0, 8.0] {
///     weight.set(&weight.detached().full_like(value))?;
///     mean.update()?;
/// }
/// mean.exchange()?; // evaluate with the mean ..
/// assert_eq!(weight.detached().to_vec::<f32>()?, [6.0, 6.0]);
/// mean.exchange()?; // .. and train on
/// assert_eq!(weight.detached().to_vec::<f32>()?, [8.0, 8.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct WeightAverage {
    kind: Mean,
    parameters: Vec<Param>,
    means: Vec<Cell>,
    /// updates made, u32: a cell, so that it follows the means wherever they go
    updates: Cell,
}
impl WeightAverage {
    /// `mean <- decay * mean + (1 - decay) * weight` (Polyak and Juditsky 1992; Tarvainen and Valpola 2017).
    ///
    /// # Errors
    /// A decay outside [0, 1), or no memory.
    #[track_caller]
    pub fn exponential(parameters: &[Param], decay: f64) -> Result<WeightAverage> {
        WeightAverage::new(parameters, exponential(decay)?)
    }
    /// The mean of all updates (Izmailov et al. 2018).
    ///
    /// # Errors
    /// No memory.
    #[track_caller]
    pub fn equal(parameters: &[Param]) -> Result<WeightAverage> {
        WeightAverage::new(parameters, Mean::Equal)
    }
    #[track_caller]
    fn new(parameters: &[Param], kind: Mean) -> Result<WeightAverage> {
        let means = parameters.iter().map(|p| Cell::new(&p.detached(), false)).collect::<Result<_>>()?;
        let device = parameters.first().map_or(Device::reference(), |p| p.meta().device);
        let updates = Cell::new(&Tensor::from_vec_on(vec![0u32], (), device), false)?;
        Ok(WeightAverage { kind, parameters: parameters.to_vec(), means, updates })
    }
    /// Updates made.
    ///
    /// # Errors
    /// A device that fails; a call in a function that is being captured.
    pub fn updates(&self) -> Result<u64> {
        self.updates.detached().item::<u32>().map(u64::from)
    }
    /// Takes the present weights in: call it after the optimizer's step. All means change or none. It may be part of a captured
    /// step.
    ///
    /// # Errors
    /// A weight that carries an error, or no memory.
    #[track_caller]
    pub fn update(&mut self) -> Result<()> {
        with_grad(false, || {
            step(|| {
                let before = self.updates.detached();
                self.updates.set(&(&before + 1u32))?;
                move_means(&self.kind, &before, self.parameters.iter().map(Param::detached).zip(&self.means))
            })
        })
    }
    /// Exchanges weights and means; twice, and all is as before. Before the first update nothing changes, for the means are the
    /// weights that there were.
    ///
    /// # Errors
    /// No memory; then nothing is exchanged.
    #[track_caller]
    pub fn exchange(&mut self) -> Result<()> {
        with_grad(false, || {
            step(|| {
                self.parameters.iter().zip(&self.means).try_for_each(|(p, mean)| {
                    let (weight, averaged) = (p.detached(), mean.detached());
                    p.set(&averaged)?;
                    mean.set(&weight)
                })
            })
        })
    }
    /// The means by the paths of their parameters; with [`WeightAverage::updates`] all of the state.
    pub fn state_dict(&self) -> Vec<(String, Tensor)> {
        self.parameters.iter().zip(&self.means).map(|(p, mean)| (p.path().to_string(), mean.detached())).collect()
    }
    /// Takes over means and the number of updates behind them.
    ///
    /// # Errors
    /// A parameter without a mean, or one of another shape. Then nothing has changed.
    #[track_caller]
    pub fn load_state_dict(&mut self, state: &[(String, Tensor)], updates: u64) -> Result<()> {
        let _call = adamant_core::scope::call("load_state_dict");
        let found = self.parameters.iter().map(|p| {
            let path = p.path();
            let mean = state.iter().find(|(name, _)| **name == *path).map(|(_, t)| t.clone());
            mean.ok_or_else(|| Error::new("WeightAverage", ErrorKind::Argument(format!("there is no mean of `{path}`"))))
        });
        let found = found.collect::<Result<Vec<Tensor>>>()?;
        let Ok(updates) = u32::try_from(updates) else {
            return Err(Error::new("WeightAverage", ErrorKind::Argument(format!("the state counts {updates} updates; nobody has made so many"))));
        };
        step(|| {
            self.updates.set(&Tensor::from_vec_on(vec![updates], (), self.updates.meta().device))?;
            self.means.iter().zip(&found).try_for_each(|(mean, value)| mean.set(&value.to(mean.meta().device)))
        })
    }
}
/// How much of a weight its mean takes in, for parameters of one dtype on one device.
struct Share {
    device: Device,
    dtype: DType,
    /// is it the first update, which copies?
    first: Tensor,
    by: By,
}
enum By {
    Decay(f64),
    Count(Tensor, Tensor),
    Own(AverageBy, Tensor),
    /// integers: the part by which the mean moves, in f32, cut off as PyTorch's copy does
    Whole(Tensor),
}
impl Share {
    #[track_caller]
    fn of(kind: &Mean, updates: &Tensor, device: Device, dtype: DType) -> Share {
        let updates = updates.to(device);
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let part = || (updates.cast(wide) + 1.0).reciprocal();
        let by = match kind {
            Mean::Own(f) => By::Own(f.clone(), updates.cast(if dtype.is_float() { dtype } else { wide })),
            Mean::Exponential { decay } if dtype.is_float() => By::Decay(*decay),
            Mean::Exponential { decay } => By::Whole(part().full_like(1.0 - decay)),
            Mean::Equal if dtype.is_float() => {
                let (near, from) = weight(&part());
                By::Count(near, from.cast(dtype))
            }
            Mean::Equal => By::Whole(part()),
        };
        Share { device, dtype, first: updates.eq(0), by }
    }
    #[track_caller]
    fn moved(&self, mean: &Tensor, now: &Tensor) -> Tensor {
        let moved = match &self.by {
            By::Decay(0.0) => return now.clone(),
            By::Decay(decay) => lerp(mean, now, 1.0 - decay),
            By::Count(near, from) => lerp_from((near, from), mean, now),
            By::Own(f, count) => f(mean, now, count).cast(self.dtype),
            By::Whole(part) => (mean.cast(DType::F32) + (now - mean).cast(DType::F32) * part).cast(self.dtype),
        };
        self.first.where_(now, moved)
    }
}
