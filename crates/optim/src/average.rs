//! Running means of weights: what is trained jitters, its mean does not.
use adamant_core::{Cell, Error, ErrorKind, Result, Tensor, grad::with_grad, step};
use adamant_nn::Param;

/// How weights are averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mean {
    /// what is old counts less and less
    Exponential { decay: f64 },
    /// all steps count the same
    Equal,
}

/// A running mean of parameters, as `torch.optim.swa_utils.AveragedModel`: it begins as a copy of what the first update finds.
/// Buffers are not averaged.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::Param;
/// # use adamant_optim::WeightAverage;
/// # adamant_core::Device::reference().make_current();
/// let weight = Param::new(&Tensor::zeros([2]))?;
/// let mut mean = WeightAverage::exponential(&[weight.clone()], 0.5)?;
/// for value in [4.0, 8.0] {
///     weight.set(&weight.read().full_like(value))?;
///     mean.update()?;
/// }
/// mean.exchange()?; // evaluate with the mean ..
/// assert_eq!(weight.read().to_vec::<f32>()?, [6.0, 6.0]);
/// mean.exchange()?; // .. and train on
/// assert_eq!(weight.read().to_vec::<f32>()?, [8.0, 8.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct WeightAverage {
    kind: Mean,
    parameters: Vec<Param>,
    means: Vec<Cell>,
    updates: u64,
}
impl WeightAverage {
    /// `mean <- decay * mean + (1 - decay) * weight` (Polyak and Juditsky 1992; Tarvainen and Valpola 2017).
    ///
    /// # Errors
    /// A decay outside [0, 1), or no memory.
    #[track_caller]
    pub fn exponential(parameters: &[Param], decay: f64) -> Result<WeightAverage> {
        if !(0.0..1.0).contains(&decay) {
            return Err(Error::new("average", ErrorKind::Argument(format!("the decay is {decay}, it must be in [0, 1)"))));
        }
        WeightAverage::new(parameters, Mean::Exponential { decay })
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
        let means = parameters.iter().map(|p| Cell::new(&p.read(), false)).collect::<Result<_>>()?;
        Ok(WeightAverage { kind, parameters: parameters.to_vec(), means, updates: 0 })
    }
    /// Updates made.
    pub fn updates(&self) -> u64 {
        self.updates
    }
    /// Takes the present weights in: call it after the optimizer's step. All means change or none.
    ///
    /// # Errors
    /// A weight that carries an error, or no memory.
    #[track_caller]
    pub fn update(&mut self) -> Result<()> {
        let part = match self.kind {
            _ if self.updates == 0 => 1.0,
            Mean::Exponential { decay } => 1.0 - decay,
            Mean::Equal => 1.0 / (self.updates + 1) as f64,
        };
        with_grad(false, || {
            step(|| {
                self.parameters.iter().zip(&self.means).try_for_each(|(p, mean)| {
                    let (now, before) = (p.read(), mean.read());
                    mean.set(&if part == 1.0 { now } else { crate::rules::lerp(&before, &now, part) })
                })
            })
        })?;
        self.updates += 1;
        Ok(())
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
                    let (weight, averaged) = (p.read(), mean.read());
                    p.set(&averaged)?;
                    mean.set(&weight)
                })
            })
        })
    }
    /// The means by the paths of their parameters; with [`WeightAverage::updates`] all of the state.
    pub fn state_dict(&self) -> Vec<(String, Tensor)> {
        self.parameters.iter().zip(&self.means).map(|(p, mean)| (p.path().to_string(), mean.read())).collect()
    }
    /// Takes over means and the number of updates behind them.
    ///
    /// # Errors
    /// A parameter without a mean, or one of another shape. Then nothing has changed.
    #[track_caller]
    pub fn load_state_dict(&mut self, state: &[(String, Tensor)], updates: u64) -> Result<()> {
        let found = self.parameters.iter().map(|p| {
            let path = p.path();
            let mean = state.iter().find(|(name, _)| **name == *path).map(|(_, t)| t.clone());
            mean.ok_or_else(|| Error::new("average", ErrorKind::Argument(format!("there is no mean of `{path}`"))))
        });
        let found = found.collect::<Result<Vec<Tensor>>>()?;
        step(|| self.means.iter().zip(&found).try_for_each(|(mean, value)| mean.set(&value.to(mean.meta().device))))?;
        self.updates = updates;
        Ok(())
    }
}
