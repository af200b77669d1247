//! Normalisation by statistics of the batch or of each sample, with running statistics.
use crate::{Module, Param, Role, Site, init, site::LayerFacts};
use adamant_core::{DType, Error, ErrorKind, Result, Tensor, compile::decide, functional, grad::no_grad};
use std::cell::Cell;

/// Options of batch and instance normalisation.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormOptions {
    /// added to the variance
    pub eps: f64,
    /// weight of the newest batch in the running statistics; `None`: all batches count the same
    pub momentum: Option<f64>,
    /// a trained scale and shift per channel?
    pub affine: bool,
    /// keep running statistics, to be used in evaluation?
    pub track_running_stats: bool,
}
impl Default for BatchNormOptions {
    /// PyTorch's defaults for batch normalisation.
    fn default() -> BatchNormOptions {
        BatchNormOptions { eps: 1e-5, momentum: Some(0.1), affine: true, track_running_stats: true }
    }
}
impl BatchNormOptions {
    /// PyTorch's defaults for instance normalisation: neither affine nor tracking.
    pub fn instance() -> BatchNormOptions {
        BatchNormOptions { affine: false, track_running_stats: false, ..Default::default() }
    }
}
#[derive(Clone, Module)]
struct Channels {
    weight: Option<Param>,
    bias: Option<Param>,
    running_mean: Option<Param>,
    running_var: Option<Param>,
    num_batches_tracked: Option<Param>,
}
impl Channels {
    #[track_caller]
    fn new(features: usize, options: &BatchNormOptions) -> Result<Channels> {
        let (mut weight, mut bias, mut running_mean, mut running_var, mut num_batches_tracked) = (None, None, None, None, None);
        if options.affine {
            weight = Some(Param::new(&init::ones(features)?)?);
            bias = Some(Param::new(&init::zeros(features)?)?);
        }
        if options.track_running_stats {
            running_mean = Some(Param::buffer(&init::zeros(features)?)?);
            running_var = Some(Param::buffer(&init::ones(features)?)?);
            num_batches_tracked = Some(Param::buffer(&Tensor::full((), 0, DType::I64))?);
        }
        Ok(Channels { weight, bias, running_mean, running_var, num_batches_tracked })
    }
    /// Of a number of channels that the first input gives.
    #[track_caller]
    fn lazy(options: &BatchNormOptions) -> Result<Channels> {
        let of = |wanted: bool, role: Role| if wanted { Param::uninitialized(0, DType::F32, role).map(Some) } else { Ok(None) };
        let (affine, tracked) = (options.affine, options.track_running_stats);
        Ok(Channels {
            weight: of(affine, Role::Trainable)?,
            bias: of(affine, Role::Trainable)?,
            running_mean: of(tracked, Role::Buffer)?,
            running_var: of(tracked, Role::Buffer)?,
            num_batches_tracked: if tracked { Some(Param::buffer(&Tensor::full((), 0, DType::I64))?) } else { None },
        })
    }
    fn is_lazy(&self) -> bool {
        [&self.weight, &self.running_mean].into_iter().flatten().any(Param::is_uninitialized)
    }
    #[cold]
    #[track_caller]
    fn materialize(&self, features: usize) -> Result<()> {
        no_grad(|| {
            for ones in [&self.weight, &self.running_var].into_iter().flatten() {
                ones.materialize(&init::ones(features)?)?;
            }
            for zeros in [&self.bias, &self.running_mean].into_iter().flatten() {
                zeros.materialize(&init::zeros(features)?)?;
            }
            Ok(())
        })
    }
    /// How many channels the parameters are for; `None`: there are none, or they have no values yet.
    fn features(&self) -> Option<usize> {
        let known = self.weight.as_ref().or(self.running_mean.as_ref())?;
        if known.is_uninitialized() { None } else { known.meta().shape.first().copied() }
    }
    /// Moves the running statistics toward those of a batch: by `momentum`, or so that all batches count the same.
    #[track_caller]
    fn track(&self, mean: &Tensor, unbiased_var: &Tensor, momentum: Option<f64>) -> Result<()> {
        let (Some(running_mean), Some(running_var), Some(count)) = (&self.running_mean, &self.running_var, &self.num_batches_tracked) else { return Ok(()) };
        for (running, new) in [(running_mean, mean), (running_var, unbiased_var)] {
            let old = running.detached();
            let new = new.detach().cast(old.dtype()?);
            let moved = match momentum {
                Some(m) => old * (1.0 - m) + new * m,
                None => &old + (new - &old) / count.detached().cast(old.dtype()?),
            };
            running.set(&moved)?;
        }
        Ok(())
    }
}
/// Elements per channel and the correction n / (n - 1) that makes a variance unbiased.
fn unbiased(var: &Tensor, n: usize) -> Tensor {
    var * (n as f64 / (n.max(2) - 1) as f64)
}
#[track_caller]
fn check(op: &'static str, x: &Tensor, ranks: std::ops::RangeInclusive<usize>, channel_axis: usize, features: usize) -> Result<()> {
    let shape = x.shape()?;
    if !ranks.contains(&shape.rank()) {
        return Err(Error::new(op, ErrorKind::Shape { shape, expected: format!("{} to {} axes", ranks.start(), ranks.end()) }));
    }
    if shape[channel_axis] != features {
        return Err(Error::new(op, ErrorKind::Shape { shape, expected: format!("{features} channels along axis {channel_axis}") }));
    }
    Ok(())
}
/// The number of channels that a layer is for, which a lazy one learns from its first input.
#[track_caller]
fn known_features(
    op: &'static str,
    x: &Tensor,
    ranks: std::ops::RangeInclusive<usize>,
    channel_axis: usize,
    channels: &Channels,
    given: Option<usize>,
) -> Result<usize> {
    // The parameters know it best: a pruned layer has fewer than it was made for.
    let known = channels.features().or(given);
    let arrived = x.shape()?.get(channel_axis).copied().unwrap_or(0);
    check(op, x, ranks, channel_axis, known.unwrap_or(arrived))?;
    if channels.is_lazy() {
        channels.materialize(arrived)?;
    }
    Ok(known.unwrap_or(arrived))
}

/// Batch normalisation (Ioffe and Szegedy 2015) of an input `[batch, channels, ..]` with `N` spatial axes (`N` = 1: or none).
/// In training it uses the batch's statistics and moves the running ones; in evaluation it uses the running ones.
#[derive(Clone, Module)]
pub struct BatchNorm<const N: usize> {
    site: Site,
    #[module(flatten)]
    channels: Channels,
    num_features: Option<usize>,
    #[module(skip)]
    options: BatchNormOptions,
}
/// Over `[batch, channels]` or `[batch, channels, length]`.
pub type BatchNorm1d = BatchNorm<1>;
/// Over `[batch, channels, height, width]`.
pub type BatchNorm2d = BatchNorm<2>;
/// Over `[batch, channels, depth, height, width]`.
pub type BatchNorm3d = BatchNorm<3>;
impl<const N: usize> BatchNorm<N> {
    fn site(options: &BatchNormOptions) -> Site {
        let facts = LayerFacts { eps: Some(options.eps), momentum: options.momentum, ..LayerFacts::default() };
        Site::with_facts(["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"][(N - 1).min(2)], facts)
    }
    /// PyTorch's defaults.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(num_features: usize) -> Result<BatchNorm<N>> {
        BatchNorm::with(num_features, BatchNormOptions::default())
    }
    /// With options.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn with(num_features: usize, options: BatchNormOptions) -> Result<BatchNorm<N>> {
        let site = BatchNorm::<N>::site(&options);
        Ok(BatchNorm { site, channels: Channels::new(num_features, &options)?, num_features: Some(num_features), options })
    }
    /// Of as many channels as its first input has; see [`Linear::lazy`](crate::Linear::lazy).
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{BatchNorm1d, BatchNormOptions, Module, Walk};
    /// # adamant_core::Device::reference().make_current();
    /// let norm = BatchNorm1d::lazy(BatchNormOptions::default())?;
    /// norm.forward(&Tensor::ones([4, 3]))?;
    /// assert_eq!(norm.parameter_count(), 6);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no device.
    ///
    /// Source: `torch.nn.LazyBatchNorm1d`.
    #[track_caller]
    #[doc(alias = "LazyBatchNorm1d")]
    #[doc(alias = "LazyBatchNorm2d")]
    #[doc(alias = "LazyBatchNorm3d")]
    pub fn lazy(options: BatchNormOptions) -> Result<BatchNorm<N>> {
        let site = BatchNorm::<N>::site(&options);
        Ok(BatchNorm { site, channels: Channels::lazy(&options)?, num_features: None, options })
    }
    /// The running mean, if it is kept.
    pub fn running_mean(&self) -> Option<&Param> {
        self.channels.running_mean.as_ref().filter(|p| !p.is_given_up())
    }
    /// The running variance, if it is kept.
    pub fn running_var(&self) -> Option<&Param> {
        self.channels.running_var.as_ref().filter(|p| !p.is_given_up())
    }
}
impl<const N: usize> Module for BatchNorm<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let c = &self.channels;
        if c.running_mean.as_ref().is_some_and(Param::is_given_up) || self.site.is_left_to_hooks() {
            // The layer before it has done its part, or a hook will.
            let y = x.clone();
            return call.end(y);
        }
        let features = known_features("batch_norm", x, if N == 1 { 2..=3 } else { N + 2..=N + 2 }, 1, c, self.num_features)?;
        let (weight, bias) = (c.weight.as_ref().map(Param::get), c.bias.as_ref().map(Param::get));
        let training = self.site.is_training();
        if let (false, Some(mean), Some(var)) = (training, &c.running_mean, &c.running_var) {
            let y = functional::batch_norm_inference(x, &mean.detached(), &var.detached(), weight.as_ref(), bias.as_ref(), self.options.eps).ok()?;
            return call.end(y);
        }
        let shape = x.shape()?;
        let n = shape.elements() / features.max(1);
        if training && n == 1 {
            return Err(Error::new(
                "batch_norm",
                ErrorKind::Shape { shape, expected: "more than one element per channel, to normalise by their variance".into() },
            ));
        }
        let (y, mean, var) = functional::batch_norm_training(x, weight.as_ref(), bias.as_ref(), self.options.eps);
        let y = y.ok()?;
        if training {
            if let Some(count) = &c.num_batches_tracked {
                count.set(&(count.detached() + 1))?;
            }
            let momentum = if counts_all_batches() { None } else { self.options.momentum };
            c.track(&mean, &unbiased(&var, n), momentum)?;
        }
        call.end(y)
    }
}

/// Instance normalisation (Ulyanov et al. 2016) of an input `[batch, channels, ..]` with `N` spatial axes (the batch may
/// be missing): each channel of each sample by its own statistics.
#[derive(Clone, Module)]
pub struct InstanceNorm<const N: usize> {
    site: Site,
    #[module(flatten)]
    channels: Channels,
    num_features: Option<usize>,
    #[module(skip)]
    options: BatchNormOptions,
}
/// Over `[batch, channels, length]`.
pub type InstanceNorm1d = InstanceNorm<1>;
/// Over `[batch, channels, height, width]`.
pub type InstanceNorm2d = InstanceNorm<2>;
/// Over `[batch, channels, depth, height, width]`.
pub type InstanceNorm3d = InstanceNorm<3>;
impl<const N: usize> InstanceNorm<N> {
    /// PyTorch's defaults: nothing trained, nothing tracked.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(num_features: usize) -> Result<InstanceNorm<N>> {
        InstanceNorm::with(num_features, BatchNormOptions::instance())
    }
    /// With options. Without a momentum the running statistics stay as they are, as PyTorch's.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn with(num_features: usize, options: BatchNormOptions) -> Result<InstanceNorm<N>> {
        let site = Site::with_hooks(["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"][(N - 1).min(2)]);
        Ok(InstanceNorm { site, channels: Channels::new(num_features, &options)?, num_features: Some(num_features), options })
    }
    /// Of as many channels as its first input has; see [`Linear::lazy`](crate::Linear::lazy).
    ///
    /// # Errors
    /// There is no device.
    ///
    /// Source: `torch.nn.LazyInstanceNorm1d`.
    #[track_caller]
    #[doc(alias = "LazyInstanceNorm1d")]
    #[doc(alias = "LazyInstanceNorm2d")]
    #[doc(alias = "LazyInstanceNorm3d")]
    pub fn lazy(options: BatchNormOptions) -> Result<InstanceNorm<N>> {
        let site = Site::with_hooks(["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"][(N - 1).min(2)]);
        Ok(InstanceNorm { site, channels: Channels::lazy(&options)?, num_features: None, options })
    }
}
impl<const N: usize> Module for InstanceNorm<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let shape = x.shape()?;
        let batched = shape.rank() == N + 2;
        known_features("instance_norm", x, N + 1..=N + 2, batched as usize, &self.channels, self.num_features)?;
        let given = x;
        let mut dims = shape.to_vec();
        let single;
        let x = if batched {
            given
        } else {
            dims.insert(0, 1);
            single = given.reshape(dims);
            &single
        };
        let c = &self.channels;
        let (weight, bias) = (c.weight.as_ref().map(Param::get), c.bias.as_ref().map(Param::get));
        let training = self.site.is_training();
        let y = if let (false, Some(mean), Some(var)) = (training, &c.running_mean, &c.running_var) {
            functional::batch_norm_inference(x, &mean.detached(), &var.detached(), weight.as_ref(), bias.as_ref(), self.options.eps)
        } else if training && c.running_mean.is_some() {
            let (y, mean, var) = functional::instance_norm_statistics(x, weight.as_ref(), bias.as_ref(), self.options.eps);
            let [samples, channels] = mean.dims()?;
            let n = shape.elements() / (samples * channels).max(1);
            let over_samples = |t: &Tensor| t.detach().sum(0) / samples as f64;
            c.track(&over_samples(&mean), &over_samples(&unbiased(&var, n)), Some(self.options.momentum.unwrap_or(0.0)))?;
            y
        } else {
            functional::instance_norm(x, weight.as_ref(), bias.as_ref(), self.options.eps)
        };
        let y = y.reshape(shape).ok()?;
        call.end(y)
    }
}
thread_local! {
    static CUMULATIVE: Cell<bool> = const { Cell::new(false) };
}
/// Do running statistics count all batches alike here, whatever a norm's momentum is ([`with_cumulative_statistics`])? Asked so that a captured
/// function with the other answer is captured anew.
pub fn counts_all_batches() -> bool {
    decide(|| CUMULATIVE.get())
}
/// Runs `f`, in which the running statistics of batch norms count all batches alike, whatever their momentum is: how they are computed
/// anew for weights that nobody trained with (`update_bn` of the optimizers). It holds for layers that this thread applies.
pub fn with_cumulative_statistics<R>(f: impl FnOnce() -> R) -> R {
    struct CountedAlike(bool);
    impl Drop for CountedAlike {
        fn drop(&mut self) {
            CUMULATIVE.set(self.0);
        }
    }
    let _before = CountedAlike(CUMULATIVE.replace(true));
    f()
}
