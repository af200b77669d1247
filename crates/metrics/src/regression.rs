//! How far numbers are from the truth.
use crate::{Metric, MetricState, state::holds_state};
use adamant_core::{DType, Error, ErrorKind, Result, Tensor};

/// Predictions and targets in the widest float, `[n, outputs]` where there are several; for one output `[n, 1]` of any shape.
#[track_caller]
fn pairs(state: &MetricState, outputs: usize, predictions: &Tensor, targets: &Tensor) -> Result<[Tensor; 2]> {
    state.here([predictions, targets])?;
    let (left, right) = (predictions.shape()?, targets.shape()?);
    if left != right {
        let expected = "predictions and targets of one shape";
        return Err(Error::new(state.name, ErrorKind::ShapeMismatch { left, right, axes: None, expected }));
    }
    if outputs > 1 && (left.rank() != 2 || left[1] != outputs) {
        return Err(Error::new(state.name, ErrorKind::Shape { shape: left, expected: format!("[batch, {outputs}]") }));
    }
    for t in [predictions, targets] {
        if t.dtype()? == DType::Bool {
            return Err(Error::new(state.name, ErrorKind::Dtype("predictions and targets are numbers, not bool".into())));
        }
    }
    let rows = [(left.elements() / outputs.max(1)) as isize, outputs as isize];
    Ok([predictions, targets].map(|t| t.detach().cast(state.float()).reshape(rows)))
}
/// Adds `f` of the differences, and how many rows there are, to a state of two sums.
#[track_caller]
fn add_errors(state: &mut MetricState, outputs: usize, predictions: &Tensor, targets: &Tensor, f: fn(&Tensor) -> Tensor) -> Result<()> {
    let _scope = state.enter();
    let [predictions, targets] = pairs(state, outputs, predictions, targets)?;
    let n = count(rows_of(&targets)?, state);
    state.add(&[f(&(predictions - targets)).sum(0), n])
}
/// One figure per output, as a number where there is one.
fn told(figure: Tensor, outputs: usize) -> Result<Tensor> {
    if outputs == 1 { figure.reshape(()) } else { figure }.ok()
}
#[track_caller]
fn errors_state(name: &'static str, sum: &'static str, outputs: usize) -> Result<MetricState> {
    let state = MetricState::new(name)?;
    if outputs == 0 {
        return Err(state.wrong("there is at least one output".into()));
    }
    state.sum(sum, [outputs])?.count("n", ())
}
/// A number of rows as a count.
fn count(n: usize, state: &MetricState) -> Tensor {
    // In memory: a recorded number would make a plan of its own for each size of a batch.
    Tensor::from_vec_on(vec![n as i64], (), state.device)
}
fn rows_of(t: &Tensor) -> Result<usize> {
    Ok(t.shape()?[0])
}

/// The mean of `|prediction - target|` (scikit-learn's `mean_absolute_error`, torchmetrics' `MeanAbsoluteError`).
///
/// Predictions and targets are of one shape, any number dtype: `[batch, outputs]` where there are several outputs, each of which has
/// its mean; else of any shape. Differences and sums are f64 where the device has it, else f32. The figure is a number, or
/// `[outputs]`; NaN where nothing was seen.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_metrics::{MeanAbsoluteError, Metric};
/// # Device::reference().make_current();
/// let mut error = MeanAbsoluteError::new(1)?;
/// error.update(&tensor![2.5, 0.0, 2.0, 8.0], &tensor![3.0, -0.5, 2.0, 7.0])?;
/// assert_eq!(error.compute()?.item::<f64>()?, 0.5);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct MeanAbsoluteError {
    outputs: usize,
    state: MetricState,
}
impl MeanAbsoluteError {
    /// Nothing seen yet, on the current device.
    ///
    /// # Errors
    /// No outputs; memory.
    #[track_caller]
    pub fn new(outputs: usize) -> Result<MeanAbsoluteError> {
        Ok(MeanAbsoluteError { outputs, state: errors_state("mean_absolute_error", "absolute_errors", outputs)? })
    }
}
impl Metric for MeanAbsoluteError {
    holds_state!();
    #[track_caller]
    fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        add_errors(&mut self.state, self.outputs, predictions, targets, Tensor::abs)
    }
    fn compute(&self) -> Result<Tensor> {
        let _scope = self.state.enter();
        told(self.state.value("absolute_errors")? / self.state.number("n")?, self.outputs)
    }
}
/// The mean of `(prediction - target)²`, or its root (scikit-learn's `mean_squared_error` and `root_mean_squared_error`, torchmetrics'
/// `MeanSquaredError` with `squared`).
///
/// Shapes, dtypes and the figure: as [`MeanAbsoluteError`].
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_metrics::{MeanSquaredError, Metric};
/// # Device::reference().make_current();
/// let mut error = MeanSquaredError::new(1)?;
/// let mut root = MeanSquaredError::root(1)?;
/// for metric in [&mut error, &mut root] {
///     metric.update(&tensor![1.0, 5.0], &tensor![1.0, 1.0])?;
/// }
/// assert_eq!((error.compute()?.item::<f64>()?, root.compute()?.item::<f64>()?), (8.0, 8f64.sqrt()));
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct MeanSquaredError {
    outputs: usize,
    root: bool,
    state: MetricState,
}
impl MeanSquaredError {
    /// Nothing seen yet, on the current device.
    ///
    /// # Errors
    /// No outputs; memory.
    #[track_caller]
    pub fn new(outputs: usize) -> Result<MeanSquaredError> {
        Ok(MeanSquaredError { outputs, root: false, state: errors_state("mean_squared_error", "squared_errors", outputs)? })
    }
    /// The root of the mean, of each output its own.
    ///
    /// # Errors
    /// As [`MeanSquaredError::new`].
    #[track_caller]
    pub fn root(outputs: usize) -> Result<MeanSquaredError> {
        Ok(MeanSquaredError { root: true, ..MeanSquaredError::new(outputs)? })
    }
}
impl Metric for MeanSquaredError {
    holds_state!();
    #[track_caller]
    fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        add_errors(&mut self.state, self.outputs, predictions, targets, Tensor::square)
    }
    fn compute(&self) -> Result<Tensor> {
        let _scope = self.state.enter();
        let mean = self.state.value("squared_errors")? / self.state.number("n")?;
        told(if self.root { mean.sqrt() } else { mean }, self.outputs)
    }
}

/// How the figures of several outputs become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputAveraging {
    /// their mean
    Uniform,
    /// their mean, weighted by the spread of each output's targets
    Variance,
    /// no mean: one figure for each output
    Raw,
}
/// The share of the targets' variance that is explained, `1 - Σ (y - ŷ)² / Σ (y - mean)²` (scikit-learn's `r2_score`, torchmetrics'
/// `R2Score`). Means and squares of batches are joined by Chan, Golub and LeVeque's formula (1979), which cancels nothing, where
/// torchmetrics takes the square of a sum from a sum of squares.
///
/// Predictions and targets are of one shape, any number dtype: `[batch, outputs]`, or of any shape for one output. The figure is a
/// number, or `[outputs]` for [`OutputAveraging::Raw`]; f64 where the device has it, else f32. Where targets are all equal it is 1
/// for a perfect prediction and else 0, as in scikit-learn; of fewer than two samples it is NaN.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_metrics::{Metric, OutputAveraging, R2Score};
/// # Device::reference().make_current();
/// let mut score = R2Score::new(1, OutputAveraging::Uniform)?;
/// score.update(&tensor![1.0, 2.0], &tensor![1.0, 3.0])?;
/// score.update(&tensor![5.0, 6.0], &tensor![5.0, 7.0])?;
/// assert_eq!(score.compute()?.item::<f64>()?, 0.9);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct R2Score {
    outputs: usize,
    averaging: OutputAveraging,
    state: MetricState,
}
impl R2Score {
    /// Nothing seen yet, on the current device.
    ///
    /// # Errors
    /// No outputs; memory.
    #[track_caller]
    pub fn new(outputs: usize, averaging: OutputAveraging) -> Result<R2Score> {
        let state = errors_state("r2_score", "residual", outputs)?.sum("mean", [outputs])?.sum("spread", [outputs])?;
        Ok(R2Score { outputs, averaging, state })
    }
    /// Joins residual, number, mean and spread of more samples.
    fn join(&mut self, more: &[Tensor]) -> Result<()> {
        let float = self.state.float();
        self.state.change(None, |now| {
            let ([residual, n, mean, spread], [add, m, of_more, their_spread]) = (now, more) else {
                return Err(Error::new("r2_score", ErrorKind::Internal("it has four accumulators".into())));
            };
            let all = n + m;
            let share = m.cast(float) / all.maximum(1i64).cast(float);
            let apart = of_more - mean;
            let between = &apart * &apart * (n.cast(float) * &share);
            Ok(vec![residual + add, all, mean + apart * share, spread + their_spread + between])
        })
    }
}
impl Metric for R2Score {
    holds_state!();
    #[track_caller]
    fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        let _scope = self.state.enter();
        let [predictions, targets] = pairs(&self.state, self.outputs, predictions, targets)?;
        let n = rows_of(&targets)?;
        if n == 0 {
            return Ok(());
        }
        let mean = targets.mean(0);
        let spread = (&targets - &mean).square().sum(0);
        let residual = (predictions - targets).square().sum(0);
        let n = count(n, &self.state);
        self.join(&[residual, n, mean, spread])
    }
    fn merge_state(&mut self, theirs: &[(String, Tensor)]) -> Result<()> {
        let (accumulators, _, _) = self.state.taken(theirs)?;
        self.join(&accumulators)
    }
    fn compute(&self) -> Result<Tensor> {
        let _scope = self.state.enter();
        let (residual, spread) = (self.state.value("residual")?, self.state.value("spread")?);
        let flat = spread.eq(0.0);
        let of_flat = residual.eq(0.0).cast(self.state.float());
        let each = flat.where_(of_flat, 1.0 - residual / &spread);
        let each = self.state.value("n")?.lt(2i64).where_(f64::NAN, each);
        let figure = match self.averaging {
            OutputAveraging::Raw => return told(each, self.outputs),
            OutputAveraging::Uniform => each.mean(..),
            OutputAveraging::Variance => {
                let total = spread.sum(..);
                // Where no target varies, all count the same, as in scikit-learn.
                total.eq(0.0).where_(each.mean(..), (&each * &spread).sum(..) / &total)
            }
        };
        figure.ok()
    }
}
