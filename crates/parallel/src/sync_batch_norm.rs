//! Batch norms over the rows of all ranks.
//!
//! Each rank brings mean, sum of squared deviations and number of its rows, and joins those of all (Chan et al. 1979): one exchange forward
//! and one back, whatever the sizes are, also of ranks without rows. Gradients follow from the exchange's, as what all ranks get is used by
//! each in its own way.
use crate::collective::all_gather;
use adamant_core::{
    DType, Error, ErrorKind, Result, Shape, Tensor,
    op::{Group, RankUse},
};
use adamant_nn::{BatchNormOptions, Module, Param, Site, Submodule, Walk, counts_all_batches};

/// What a batch norm trains and keeps.
#[derive(Clone, Module)]
struct NormChannels {
    weight: Option<Param>,
    bias: Option<Param>,
    running_mean: Option<Param>,
    running_var: Option<Param>,
    num_batches_tracked: Option<Param>,
}
impl NormChannels {
    #[track_caller]
    fn new(features: usize, options: &BatchNormOptions) -> Result<NormChannels> {
        let filled = |value: f64| Tensor::full([features], value, DType::F32);
        let trained = |value: f64| if options.affine { Param::new(&filled(value)).map(Some) } else { Ok(None) };
        let kept = |value: &Tensor| if options.track_running_stats { Param::buffer(value).map(Some) } else { Ok(None) };
        Ok(NormChannels {
            weight: trained(1.0)?,
            bias: trained(0.0)?,
            running_mean: kept(&filled(0.0))?,
            running_var: kept(&filled(1.0))?,
            num_batches_tracked: kept(&Tensor::full((), 0, DType::I64))?,
        })
    }
    fn of(module: &Submodule) -> NormChannels {
        let named = |name: &str| module.parameter(name).cloned();
        NormChannels {
            weight: named("weight"),
            bias: named("bias"),
            running_mean: named("running_mean"),
            running_var: named("running_var"),
            num_batches_tracked: named("num_batches_tracked"),
        }
    }
    fn all(&self) -> impl Iterator<Item = &Param> {
        [&self.weight, &self.bias, &self.running_mean, &self.running_var, &self.num_batches_tracked].into_iter().flatten()
    }
    /// Normalises; in training by what all ranks bring, which moves the running statistics, alike on all of them.
    #[track_caller]
    fn normalize(&self, x: &Tensor, is_training: bool, options: NormNumbers, group: &Group) -> Result<Tensor> {
        let (shape, dtype) = (x.shape()?, x.dtype()?);
        let known = self.weight.as_ref().or(self.running_mean.as_ref()).map(|param| param.elements());
        let (Some(&features), true) = (shape.get(1), dtype.is_float()) else {
            return Err(Error::new("sync_batch_norm", ErrorKind::Shape { shape, expected: "floats, [batch, channels, ..]".into() }));
        };
        if known.is_some_and(|known| known != features) {
            return Err(Error::new("sync_batch_norm", ErrorKind::Shape { shape, expected: format!("{} channels along axis 1", known.unwrap_or(0)) }));
        }
        let wide = if dtype == DType::F64 { x.clone() } else { x.cast(DType::F32) };
        let y = match (is_training, &self.running_mean, &self.running_var) {
            (false, Some(mean), Some(var)) => self.by(&wide, &mean.detached(), &var.detached(), options.eps, shape),
            // Without running statistics a rank that evaluates has its own rows.
            _ => {
                let group = if is_training { group.clone() } else { crate::mesh::lone() };
                let statistics = RowStatistics::of(&wide, shape, &group)?;
                if is_training {
                    self.track(&statistics, options)?;
                }
                self.by(&wide, &statistics.mean, &statistics.var, options.eps, shape)
            }
        };
        y.cast(dtype).ok()
    }
    #[track_caller]
    fn by(&self, x: &Tensor, mean: &Tensor, var: &Tensor, eps: f64, shape: Shape) -> Tensor {
        let spread = |t: &Tensor| {
            let mut dims = vec![1; shape.rank()];
            dims[1] = shape[1];
            t.cast(x.dtype().unwrap_or(DType::F32)).reshape(dims)
        };
        let y = (x - spread(mean)) * (spread(var) + eps).rsqrt();
        let y = self.weight.as_ref().map_or_else(|| y.clone(), |weight| &y * spread(&weight.get()));
        self.bias.as_ref().map_or_else(|| y.clone(), |bias| &y + spread(&bias.get()))
    }
    #[track_caller]
    fn track(&self, of: &RowStatistics, options: NormNumbers) -> Result<()> {
        let (Some(running_mean), Some(running_var), Some(count)) = (&self.running_mean, &self.running_var, &self.num_batches_tracked) else { return Ok(()) };
        count.set(&(count.detached() + 1))?;
        let n = of.count.detach();
        let unbiased = of.var.detach() * (&n / (n.maximum(2.0) - 1.0));
        let momentum = if counts_all_batches() { None } else { options.momentum };
        for (running, new) in [(running_mean, of.mean.detach()), (running_var, unbiased)] {
            let old = running.detached();
            let new = new.cast(old.dtype()?);
            let moved = match momentum {
                Some(m) => old * (1.0 - m) + new * m,
                None => &old + (new - &old) / count.detached().cast(old.dtype()?),
            };
            running.set(&moved)?;
        }
        Ok(())
    }
}
#[derive(Clone, Copy)]
struct NormNumbers {
    eps: f64,
    momentum: Option<f64>,
}
/// Of all ranks' rows: mean and variance by channel, and how many elements a channel has.
struct RowStatistics {
    mean: Tensor,
    var: Tensor,
    count: Tensor,
}
impl RowStatistics {
    #[track_caller]
    fn of(x: &Tensor, shape: Shape, group: &Group) -> Result<RowStatistics> {
        let features = shape[1];
        let own = shape.elements() / features.max(1);
        if group.size == 1 && own == 1 {
            return Err(Error::new(
                "sync_batch_norm",
                ErrorKind::Shape { shape, expected: "more than one element per channel, to normalise by their variance".into() },
            ));
        }
        let others: Vec<usize> = (0..shape.rank()).filter(|axis| *axis != 1).collect();
        // A rank without rows brings zeros that count for nothing.
        let mean = x.sum_keepdim(others.as_slice()) / own.max(1) as f64;
        let deviations = (x - &mean).square().sum(others.as_slice());
        let number = Tensor::full_on([1], own as f64, x.dtype()?, x.device()?);
        let brought = Tensor::cat(&[mean.reshape([features]), deviations, number], 0).unsqueeze(0);
        let all = all_gather(&brought, 0, group, RankUse::Apart);
        let (means, deviations, counts) = (all.narrow(1, 0, features), all.narrow(1, features, features), all.narrow(1, 2 * features, 1).detach());
        let count = counts.sum(..);
        let mean = (&means * &counts).sum(0) / &count;
        let var = (deviations + counts * (means - mean.unsqueeze(0)).square()).sum(0) / &count;
        Ok(RowStatistics { mean, var, count })
    }
}

/// Batch normalisation over the rows of all ranks of a group: `[batch, channels, ..]`, of which each rank has other rows, as many as it likes. With one
/// rank it is `BatchNorm`. What is learned from is the sum of the ranks' losses.
///
/// ```
/// use adamant_core::Tensor;
/// use adamant_nn::{Module, Walk};
/// use adamant_parallel::{Mesh, SyncBatchNorm};
/// # adamant_core::Device::reference().make_current();
/// let norm = SyncBatchNorm::new(3, Mesh::alone().replicas())?;
/// assert_eq!(norm.forward(&Tensor::from_slice(&[1f32, 2.0, 3.0, 3.0, 2.0, 1.0], [2, 3]))?.dims()?, [2, 3]);
/// assert_eq!(norm.named_parameters()[0].0, "weight");
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// Source: `torch.nn.SyncBatchNorm`.
#[derive(Clone, Module)]
pub struct SyncBatchNorm {
    site: Site,
    #[module(flatten)]
    channels: NormChannels,
    #[module(skip)]
    options: BatchNormOptions,
    #[module(skip)]
    group: Group,
}
impl SyncBatchNorm {
    /// PyTorch's defaults.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(num_features: usize, group: &Group) -> Result<SyncBatchNorm> {
        SyncBatchNorm::with(num_features, BatchNormOptions::default(), group)
    }
    /// With options.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn with(num_features: usize, options: BatchNormOptions, group: &Group) -> Result<SyncBatchNorm> {
        let channels = NormChannels::new(num_features, &options)?;
        Ok(SyncBatchNorm { site: Site::with_hooks("SyncBatchNorm"), channels, options, group: group.clone() })
    }
}
impl Module for SyncBatchNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let numbers = NormNumbers { eps: self.options.eps, momentum: self.options.momentum };
        let y = self.channels.normalize(x, self.site.is_training(), numbers, &self.group)?;
        call.end(y)
    }
}
/// Has all batch norms of a model normalise over the rows of all ranks of a group, as [`SyncBatchNorm`], and says how many those are. Names and values
/// stay. A copy of the model ([`Walk::deep_copy`]) has ordinary batch norms.
///
/// ```
/// use adamant_core::Tensor;
/// use adamant_nn::{BatchNorm1d, Linear, Module, Sequential};
/// use adamant_parallel::{Mesh, convert_sync_batchnorm};
/// # adamant_core::Device::reference().make_current();
/// let model = Sequential::new().add(Linear::new(4, 3)?).add(BatchNorm1d::new(3)?);
/// assert_eq!(convert_sync_batchnorm(&model, Mesh::alone().replicas())?, 1);
/// assert_eq!(model.forward(&Tensor::zeros([2, 4]))?.dims()?, [2, 3]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A batch norm whose channels are not known yet. Then nothing has changed.
///
/// Source: `torch.nn.SyncBatchNorm.convert_sync_batchnorm`.
#[track_caller]
pub fn convert_sync_batchnorm(model: &(impl Walk + ?Sized), group: &Group) -> Result<usize> {
    let mut norms: Vec<(Site, NormChannels)> = Vec::new();
    for (path, module) in model.named_modules().into_iter().filter(|(_, module)| module.kind.starts_with("BatchNorm")) {
        let (site, channels) = (module.site()?.clone(), NormChannels::of(&module));
        if channels.all().any(Param::is_uninitialized) {
            let text = format!("`{path}` does not know its channels yet");
            return Err(Error::new("convert_sync_batchnorm", ErrorKind::Argument(text)).hint("run the model once on an example before"));
        }
        // A norm in two places is one.
        if site.folded_into().is_none() && !norms.iter().any(|(known, _)| known.same(&site)) {
            norms.push((site, channels));
        }
    }
    for (site, channels) in &norms {
        let (channels, group) = (channels.clone(), group.clone());
        site.register_forward_hook(move |site, _, outputs| {
            let numbers = NormNumbers { eps: site.eps().unwrap_or(1e-5), momentum: site.momentum() };
            // The norm has passed on what it was given.
            outputs.iter().map(|x| channels.normalize(x, site.is_training(), numbers, &group)).collect::<Result<Vec<_>>>().map(Some)
        })?;
        site.leave_to_hooks(true);
    }
    Ok(norms.len())
}
