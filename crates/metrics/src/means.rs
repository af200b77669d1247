//! Means over all that was seen: of numbers, and of the surprise at tokens.
use crate::{Metric, MetricState, state::holds_state};
use adamant_core::{DType, Error, ErrorKind, Result, Tensor};

/// The weighted mean of numbers, `Σ w x / Σ w` (torchmetrics' `MeanMetric`): of losses, say, weighted by the batches' sizes.
///
/// [`MeanMetric::push`] takes numbers alone; in [`Metric::update`] the targets are the weights, whose shape is that of the numbers or
/// broadcasts to it. Any dtype but bool. The figure is a number, f64 where the device has it, else f32; NaN where the weights sum to
/// 0. A NaN that was taken in stays (torchmetrics leaves it out).
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_metrics::{MeanMetric, Metric};
/// # Device::reference().make_current();
/// let mut loss = MeanMetric::new()?;
/// loss.update(&tensor![0.5], &tensor![32.0])?;
/// loss.update(&tensor![1.0], &tensor![96.0])?;
/// assert_eq!(loss.compute()?.item::<f64>()?, 0.875);
/// loss.reset()?;
/// loss.push(&tensor![1.0, 2.0])?;
/// assert_eq!(loss.compute()?.item::<f64>()?, 1.5);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct MeanMetric {
    state: MetricState,
}
impl MeanMetric {
    /// Nothing seen yet, on the current device.
    ///
    /// # Errors
    /// Memory.
    #[track_caller]
    pub fn new() -> Result<MeanMetric> {
        Ok(MeanMetric { state: MetricState::new("mean_metric")?.sum("sum", ())?.sum("weight", ())? })
    }
    /// Takes numbers in, each of weight 1.
    ///
    /// # Errors
    /// As [`Metric::update`].
    #[track_caller]
    pub fn push(&mut self, values: &Tensor) -> Result<()> {
        let one = Tensor::full_on((), 1.0, self.state.float(), self.state.device);
        self.update(values, &one)
    }
}
impl Metric for MeanMetric {
    holds_state!();
    #[track_caller]
    fn update(&mut self, values: &Tensor, weights: &Tensor) -> Result<()> {
        let _scope = self.state.enter();
        self.state.here([values, weights])?;
        let (left, right) = (values.shape()?, weights.shape()?);
        let float = self.state.float();
        let [values, weights] = [values, weights].map(|t| t.detach().cast(float));
        let weights = weights.expand(left);
        if weights.error().is_some() {
            let expected = "weights of the numbers' shape, or one that broadcasts to it";
            return Err(Error::new(self.state.name, ErrorKind::ShapeMismatch { left, right, axes: None, expected }));
        }
        self.state.add(&[(&values * &weights).sum(..), weights.sum(..)])
    }
    fn compute(&self) -> Result<Tensor> {
        let _scope = self.state.enter();
        (self.state.value("sum")? / self.state.value("weight")?).ok()
    }
}

/// The exponential of the mean negative log-likelihood of the targets, in nats (torchmetrics' `text.Perplexity`).
///
/// Predictions are logits `[.., vocabulary]`, floats; targets token numbers `[..]`, integers, of which `ignore_index` takes no part.
/// Likelihoods of a token are computed in f32 (of f64: f64) and summed in f64 where the device has it, else in f32. The figure is a
/// number of the latter; NaN where nothing was seen.
///
/// ```
/// # use adamant_core::{Device, Tensor};
/// use adamant_metrics::{Metric, Perplexity};
/// # Device::reference().make_current();
/// let mut perplexity = Perplexity::new(8, Some(-100))?;
/// perplexity.update(&Tensor::zeros([2, 3, 8]), &Tensor::from_vec(vec![0i64, 1, 2, 7, -100, -100], [2, 3]))?;
/// assert!((perplexity.compute()?.item::<f64>()? - 8.0).abs() < 1e-5);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct Perplexity {
    vocabulary: usize,
    ignore_index: Option<i64>,
    state: MetricState,
}
impl Perplexity {
    /// Nothing seen yet, on the current device.
    ///
    /// # Errors
    /// An empty vocabulary; memory.
    #[track_caller]
    pub fn new(vocabulary: usize, ignore_index: Option<i64>) -> Result<Perplexity> {
        let state = MetricState::new("perplexity")?.sum("negative_log_likelihood", ())?.count("tokens", ())?.refusing()?;
        if vocabulary == 0 {
            return Err(state.wrong("the vocabulary is empty".into()));
        }
        Ok(Perplexity { vocabulary, ignore_index, state })
    }
}
impl Metric for Perplexity {
    holds_state!();
    #[track_caller]
    fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        let _scope = self.state.enter();
        self.state.here([predictions, targets])?;
        let (left, right, dtype) = (predictions.shape()?, targets.shape()?, predictions.dtype()?);
        if left.rank() != right.rank() + 1 || left[..right.rank()] != right[..] || left[right.rank()] != self.vocabulary {
            let expected = "logits [.., vocabulary] and targets [..]";
            return Err(Error::new(self.state.name, ErrorKind::ShapeMismatch { left, right, axes: None, expected }));
        }
        if !dtype.is_float() {
            return Err(Error::new(self.state.name, ErrorKind::Dtype(format!("predictions are logits, floats, not {dtype}"))));
        }
        // Token numbers are class numbers, of which the last axis has one score each.
        let mut of = crate::Classification::multiclass(self.vocabulary);
        of.ignore_index = self.ignore_index;
        let truth = of.truth(&self.state, targets)?;
        if right.elements() == 0 {
            return Ok(());
        }
        let logits = predictions.detach().reshape([-1, self.vocabulary as isize]);
        let logits = if dtype == DType::F64 { logits } else { logits.cast(DType::F32) };
        let surprise = logits.logsumexp(-1) - logits.gather(1, &truth.class.unsqueeze(1)).squeeze(1);
        // Where a target takes no part, the logits may be infinite.
        let sum = truth.valid.where_(surprise.cast(self.state.float()), 0.0).sum(..);
        let tokens = truth.valid.cast(DType::I64).sum(..);
        let refused = truth.refused();
        self.state.add_unless(&refused, &[sum, tokens])
    }
    fn compute(&self) -> Result<Tensor> {
        let _scope = self.state.enter();
        let mean = self.state.value("negative_log_likelihood")? / self.state.number("tokens")?;
        self.state.unless_refused(mean.exp(), self.vocabulary)
    }
}
