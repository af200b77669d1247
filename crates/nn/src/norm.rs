//! Normalisation within a sample: layer, root mean square, group, local response.
use crate::{Module, Param, Site, init};
use adamant_core::{Error, ErrorKind, Result, Shape, Tensor, functional, shape::ToShape};

#[track_caller]
pub(crate) fn to_shape(op: &'static str, shape: impl ToShape) -> Result<Shape> {
    match shape.to_shape() {
        Ok(shape) => Ok(shape),
        Err(kind) => Err(Error::new(op, kind)),
    }
}

/// Options of layer normalisation.
#[derive(Clone, Copy, Debug)]
pub struct LayerNormOptions {
    /// added to the variance
    pub eps: f64,
    /// a trained scale (and shift) per element?
    pub elementwise_affine: bool,
    /// with a shift?
    pub bias: bool,
}
impl Default for LayerNormOptions {
    fn default() -> LayerNormOptions {
        LayerNormOptions { eps: 1e-5, elementwise_affine: true, bias: true }
    }
}
/// Layer normalisation (Ba et al. 2016) over the last axes, whose shape is `normalized_shape`.
#[derive(Clone, Module)]
pub struct LayerNorm {
    site: Site,
    /// the scale, of `normalized_shape`
    pub weight: Option<Param>,
    /// the shift, of `normalized_shape`
    pub bias: Option<Param>,
    #[module(skip)]
    normalized_shape: Shape,
    eps: f64,
}
impl LayerNorm {
    /// PyTorch's defaults.
    ///
    /// # Errors
    /// No such shape.
    #[track_caller]
    pub fn new(normalized_shape: impl ToShape) -> Result<LayerNorm> {
        LayerNorm::with(normalized_shape, LayerNormOptions::default())
    }
    /// With options.
    ///
    /// # Errors
    /// No such shape.
    #[track_caller]
    pub fn with(normalized_shape: impl ToShape, options: LayerNormOptions) -> Result<LayerNorm> {
        let shape = to_shape("layer_norm", normalized_shape)?;
        let weight = if options.elementwise_affine { Some(Param::new(&init::ones(shape)?)?) } else { None };
        let bias = if options.elementwise_affine && options.bias { Some(Param::new(&init::zeros(shape)?)?) } else { None };
        Ok(LayerNorm { site: Site::with_hooks("LayerNorm"), weight, bias, normalized_shape: shape, eps: options.eps })
    }
}
impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let (weight, bias) = (self.weight.as_ref().map(Param::get), self.bias.as_ref().map(Param::get));
        let y = functional::layer_norm(x, self.normalized_shape, weight.as_ref(), bias.as_ref(), self.eps).ok()?;
        call.end(y)
    }
}

/// What [`RmsNorm::with`] takes.
#[derive(Clone, Copy, Debug)]
pub struct RmsNormOptions {
    /// added to the mean square; `None`: the dtype's epsilon, as in PyTorch
    pub eps: Option<f64>,
    /// with a scale?
    pub elementwise_affine: bool,
}
impl Default for RmsNormOptions {
    fn default() -> RmsNormOptions {
        RmsNormOptions { eps: None, elementwise_affine: true }
    }
}
/// Root mean square normalisation (Zhang and Sennrich 2019) over the last axes.
#[derive(Clone, Module)]
pub struct RmsNorm {
    site: Site,
    /// the scale, of `normalized_shape`
    pub weight: Option<Param>,
    #[module(skip)]
    normalized_shape: Shape,
    eps: Option<f64>,
}
impl RmsNorm {
    /// With a scale, and the dtype's epsilon.
    ///
    /// # Errors
    /// No such shape.
    #[track_caller]
    pub fn new(normalized_shape: impl ToShape) -> Result<RmsNorm> {
        RmsNorm::with(normalized_shape, RmsNormOptions::default())
    }
    /// With options.
    ///
    /// # Errors
    /// No such shape.
    #[track_caller]
    pub fn with(normalized_shape: impl ToShape, options: RmsNormOptions) -> Result<RmsNorm> {
        let RmsNormOptions { eps, elementwise_affine } = options;
        let shape = to_shape("rms_norm", normalized_shape)?;
        let weight = if elementwise_affine { Some(Param::new(&init::ones(shape)?)?) } else { None };
        Ok(RmsNorm { site: Site::with_hooks("RMSNorm"), weight, normalized_shape: shape, eps })
    }
}
impl Module for RmsNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let y = functional::rms_norm(x, self.normalized_shape, self.weight.as_ref().map(Param::get).as_ref(), self.eps).ok()?;
        call.end(y)
    }
}

/// What [`GroupNorm::with`] takes.
#[derive(Clone, Copy, Debug)]
pub struct GroupNormOptions {
    /// added to the variance
    pub eps: f64,
    /// with scale and shift?
    pub affine: bool,
}
impl Default for GroupNormOptions {
    fn default() -> GroupNormOptions {
        GroupNormOptions { eps: 1e-5, affine: true }
    }
}
/// Group normalisation (Wu and He 2018) of an input `[batch, channels, ..]`.
#[derive(Clone, Module)]
pub struct GroupNorm {
    site: Site,
    /// the scale, `[channels]`
    pub weight: Option<Param>,
    /// the shift, `[channels]`
    pub bias: Option<Param>,
    num_groups: usize,
    num_channels: usize,
    eps: f64,
}
impl GroupNorm {
    /// With scale and shift, eps 1e-5.
    ///
    /// # Errors
    /// Groups that do not divide the channels.
    #[track_caller]
    pub fn new(num_groups: usize, num_channels: usize) -> Result<GroupNorm> {
        GroupNorm::with(num_groups, num_channels, GroupNormOptions::default())
    }
    /// With options.
    ///
    /// # Errors
    /// Groups that do not divide the channels.
    #[track_caller]
    pub fn with(num_groups: usize, num_channels: usize, options: GroupNormOptions) -> Result<GroupNorm> {
        let GroupNormOptions { eps, affine } = options;
        if num_groups == 0 || !num_channels.is_multiple_of(num_groups) {
            return Err(Error::new("group_norm", ErrorKind::Argument(format!("{num_groups} groups do not divide {num_channels} channels"))));
        }
        let weight = if affine { Some(Param::new(&init::ones(num_channels)?)?) } else { None };
        let bias = if affine { Some(Param::new(&init::zeros(num_channels)?)?) } else { None };
        Ok(GroupNorm { site: Site::with_hooks("GroupNorm"), weight, bias, num_groups, num_channels, eps })
    }
}
impl Module for GroupNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let shape = x.shape()?;
        // Of a group all channels stay or none: pruning leaves fewer groups.
        let channels = self.weight.as_ref().map_or(self.num_channels, Param::elements);
        if shape.rank() < 2 || shape[1] != channels {
            return Err(Error::new("group_norm", ErrorKind::Shape { shape, expected: format!("{channels} channels along axis 1") }));
        }
        let groups = if channels == self.num_channels { self.num_groups } else { channels * self.num_groups / self.num_channels };
        let (weight, bias) = (self.weight.as_ref().map(Param::get), self.bias.as_ref().map(Param::get));
        let y = functional::group_norm(x, groups, weight.as_ref(), bias.as_ref(), self.eps).ok()?;
        call.end(y)
    }
}

/// Local response normalisation (Krizhevsky et al. 2012) over neighbouring channels.
#[derive(Clone, Module)]
pub struct LocalResponseNorm {
    site: Site,
    size: usize,
    alpha: f64,
    beta: f64,
    k: f64,
}
impl LocalResponseNorm {
    /// PyTorch's defaults: alpha 1e-4, beta 0.75, k 1.
    pub fn new(size: usize) -> LocalResponseNorm {
        LocalResponseNorm::with(size, 1e-4, 0.75, 1.0)
    }
    /// With all constants.
    pub fn with(size: usize, alpha: f64, beta: f64, k: f64) -> LocalResponseNorm {
        LocalResponseNorm { site: Site::with_hooks("LocalResponseNorm"), size, alpha, beta, k }
    }
}
impl Module for LocalResponseNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let y = functional::local_response_norm(x, self.size, self.alpha, self.beta, self.k).ok()?;
        call.end(y)
    }
}

/// Local response normalisation with windows that reach as far to both sides: of an even size, one channel less than
/// [`LocalResponseNorm`]'s. The sum is divided by the size that was asked for.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{CrossMapLrn2d, Module};
/// # adamant_core::Device::reference().make_current();
/// let x = Tensor::ones([1, 6, 2, 2]);
/// assert_eq!(CrossMapLrn2d::new(4).forward(&x)?.dims()?, [1, 6, 2, 2]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// Source: `torch.nn.CrossMapLRN2d`, but for its windows: PyTorch 2.15 keeps channel 0 in all of them, and its gradient is that of
/// others.
#[derive(Clone, Module)]
pub struct CrossMapLrn2d {
    site: Site,
    size: usize,
    alpha: f64,
    beta: f64,
    k: f64,
}
impl CrossMapLrn2d {
    /// PyTorch's defaults: alpha 1e-4, beta 0.75, k 1.
    pub fn new(size: usize) -> CrossMapLrn2d {
        CrossMapLrn2d::with(size, 1e-4, 0.75, 1.0)
    }
    /// With all constants.
    pub fn with(size: usize, alpha: f64, beta: f64, k: f64) -> CrossMapLrn2d {
        CrossMapLrn2d { site: Site::with_hooks("CrossMapLRN2d"), size, alpha, beta, k }
    }
}
impl Module for CrossMapLrn2d {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let shape = x.shape()?;
        if shape.rank() != 4 || self.size == 0 {
            let expected = format!("[batch, channels, height, width], and a size of at least 1, not {}", self.size);
            return Err(Error::new("CrossMapLRN2d", ErrorKind::Shape { shape, expected }));
        }
        // As many channels before as behind.
        let window = 2 * ((self.size - 1) / 2) + 1;
        let alpha = self.alpha * window as f64 / self.size as f64;
        let y = functional::local_response_norm(x, window, alpha, self.beta, self.k).ok()?;
        call.end(y)
    }
}
