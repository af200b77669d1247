//! Clipping by a kind that is chosen by name ([`GradientClipper`]): limits that are given, and limits that follow from the norms of the
//! steps before.
//!
//! Data flow: what a kind remembers is in cells on the device of the first gradient ([`ClipHistory`]). A norm, the limit that
//! follows from it and the factor are 0-d tensors there, so that the host reads nothing, a step that is held back leaves the history alone, and
//! the whole may be captured.
use super::{
    history::ClipHistory,
    measure::{GradientMeasure, WholeGradients},
    scale_gradients,
};
use crate::Optimizer;
use adamant_core::{DType, Device, Error, ErrorKind, Grads, Result, Tensor, composite::wide::wide};
use adamant_nn::{Param, glob_matches};

/// How a [`GradientClipper`] limits gradients. All but [`Value`](ClippingType::Value) and [`Percentile`](ClippingType::Percentile) scale, and
/// keep the direction of what they scale.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ClippingType {
    /// Each group of parameters has a norm of its own, at most `max_norm`.
    Norm,
    /// The norm of all gradients together is at most `max_norm`.
    #[default]
    GlobalNorm,
    /// Every element is at most `max_value`, whatever its sign.
    Value,
    /// The norm is at most `adaptive_factor` times the mean of the last ten norms before it. The first step is not clipped.
    Adaptive,
    /// The gradients of each layer (the parameters that one module owns) together have a norm of at most the first threshold of
    /// `layer_norm_thresholds` whose glob meets the layer's path or a parameter's, else `max_norm`.
    LayerWise,
    /// Every element is at most the `percentile_threshold`-th percentile of all absolute values of this step.
    Percentile,
    /// The norm is at most t = αt + (1 - α)·norm with α = `exponential_alpha`, where t begins as `max_norm`; never limited to less than
    /// `exponential_min_threshold`.
    Exponential,
    /// Each row g of a gradient (what belongs to one output; a vector is one row) is at most max(‖w‖, `agc_eps`) · `agc_clipping`
    /// (Brock et al. 2021).
    Agc,
    /// A norm that is more than `z_threshold` standard deviations σ above the running mean μ, by z of them, is scaled to
    /// μ + `z_threshold`² σ / z (Kumar et al. 2025). Mean and variance are plain in the first `z_warm_up` steps, which are not clipped,
    /// and move by α = `z_alpha` after.
    ZClip,
}
impl ClippingType {
    /// All kinds.
    pub const ALL: [ClippingType; 9] = [
        ClippingType::Norm,
        ClippingType::GlobalNorm,
        ClippingType::Value,
        ClippingType::Adaptive,
        ClippingType::LayerWise,
        ClippingType::Percentile,
        ClippingType::Exponential,
        ClippingType::Agc,
        ClippingType::ZClip,
    ];
    /// The name in descriptions.
    pub fn name(self) -> &'static str {
        match self {
            ClippingType::Norm => "norm",
            ClippingType::GlobalNorm => "global_norm",
            ClippingType::Value => "value",
            ClippingType::Adaptive => "adaptive",
            ClippingType::LayerWise => "layer_wise",
            ClippingType::Percentile => "percentile",
            ClippingType::Exponential => "exponential",
            ClippingType::Agc => "agc",
            ClippingType::ZClip => "zclip",
        }
    }
    /// The kind of a name.
    ///
    /// ```
    /// use adamant_optim::ClippingType;
    /// assert_eq!(ClippingType::from_name("zclip")?, ClippingType::ZClip);
    /// assert!(ClippingType::from_name("percentil").is_err());
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no such kind.
    #[track_caller]
    pub fn from_name(name: &str) -> Result<ClippingType> {
        match ClippingType::ALL.into_iter().find(|kind| kind.name() == name) {
            Some(kind) => Ok(kind),
            None => Err(Error::new("ClippingType", ErrorKind::Argument(format!("gradients are not clipped by `{name}`")))
                .hint("there are norm, global_norm, value, adaptive, layer_wise, percentile, exponential, agc, zclip")),
        }
    }
}
impl std::fmt::Display for ClippingType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
/// The numbers of a [`GradientClipper`]. A kind reads those that its description names.
#[derive(Clone, Debug, PartialEq)]
pub struct ClippingOptions {
    /// how gradients are limited
    pub clipping_type: ClippingType,
    /// the largest norm (1)
    pub max_norm: f64,
    /// the largest element (1)
    pub max_value: f64,
    /// times the mean of the norms before (2)
    pub adaptive_factor: f64,
    /// globs of layers' or parameters' paths, and the largest norm there; the first that meets counts
    pub layer_norm_thresholds: Vec<(String, f64)>,
    /// which percentile, above 0 and up to 100 (95)
    pub percentile_threshold: f64,
    /// the share of the limit that stays (0.9), between 0 and 1
    pub exponential_alpha: f64,
    /// the least limit (0.1)
    pub exponential_min_threshold: f64,
    /// the largest ratio of a row's gradient to its weights (0.01)
    pub agc_clipping: f64,
    /// the least norm that weights are taken to have (0.001)
    pub agc_eps: f64,
    /// the share of mean and variance that stays (0.97), between 0 and 1
    pub z_alpha: f64,
    /// the number of standard deviations above which a norm is clipped (2.5)
    pub z_threshold: f64,
    /// the number of steps that are only looked at (25)
    pub z_warm_up: u32,
}
impl Default for ClippingOptions {
    fn default() -> ClippingOptions {
        ClippingOptions {
            clipping_type: ClippingType::GlobalNorm,
            max_norm: 1.0,
            max_value: 1.0,
            adaptive_factor: 2.0,
            layer_norm_thresholds: Vec::new(),
            percentile_threshold: 95.0,
            exponential_alpha: 0.9,
            exponential_min_threshold: 0.1,
            agc_clipping: 0.01,
            agc_eps: 1e-3,
            z_alpha: 0.97,
            z_threshold: 2.5,
            z_warm_up: 25,
        }
    }
}
impl From<ClippingType> for ClippingOptions {
    fn from(clipping_type: ClippingType) -> ClippingOptions {
        ClippingOptions { clipping_type, ..ClippingOptions::default() }
    }
}
impl ClippingOptions {
    /// All gradients together, at a norm of at most this.
    pub fn global_norm(max: f64) -> ClippingOptions {
        ClippingOptions { max_norm: max, ..ClippingType::GlobalNorm.into() }
    }
    /// Every element, at ± this.
    pub fn value(max: f64) -> ClippingOptions {
        ClippingOptions { max_value: max, ..ClippingType::Value.into() }
    }
    /// The numbers that its kind reads, by name. (The thresholds of layers are [`ClippingOptions::layer_norm_thresholds`].)
    ///
    /// ```
    /// use adamant_optim::{ClippingOptions, ClippingType};
    /// let mut options = ClippingOptions::from(ClippingType::Exponential);
    /// for (name, number) in options.numbers() {
    ///     if name == "exponential_alpha" {
    ///         *number = 0.8;
    ///     }
    /// }
    /// assert_eq!(options.to_string(), "exponential (max_norm 1, exponential_alpha 0.8, exponential_min_threshold 0.1)");
    /// ```
    pub fn numbers(&mut self) -> Vec<(&'static str, &mut f64)> {
        match self.clipping_type {
            ClippingType::Norm | ClippingType::GlobalNorm | ClippingType::LayerWise => vec![("max_norm", &mut self.max_norm)],
            ClippingType::Value => vec![("max_value", &mut self.max_value)],
            ClippingType::Adaptive => vec![("adaptive_factor", &mut self.adaptive_factor)],
            ClippingType::Percentile => vec![("percentile_threshold", &mut self.percentile_threshold)],
            ClippingType::Exponential => vec![
                ("max_norm", &mut self.max_norm),
                ("exponential_alpha", &mut self.exponential_alpha),
                ("exponential_min_threshold", &mut self.exponential_min_threshold),
            ],
            ClippingType::Agc => vec![("agc_clipping", &mut self.agc_clipping), ("agc_eps", &mut self.agc_eps)],
            ClippingType::ZClip => vec![("z_alpha", &mut self.z_alpha), ("z_threshold", &mut self.z_threshold)],
        }
    }
    /// Does it make sense?
    ///
    /// # Errors
    /// The first number that does not, by its name.
    #[track_caller]
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("max_norm", self.max_norm),
            ("max_value", self.max_value),
            ("adaptive_factor", self.adaptive_factor),
            ("exponential_min_threshold", self.exponential_min_threshold),
            ("agc_clipping", self.agc_clipping),
            ("agc_eps", self.agc_eps),
            ("z_threshold", self.z_threshold),
        ];
        let layers = self.layer_norm_thresholds.iter().map(|(glob, limit)| (&**glob, *limit));
        let refused = if let Some((name, x)) = positive.into_iter().chain(layers).find(|(_, x)| !(x.is_finite() && *x > 0.0)) {
            format!("{name} is {x}, it must be a positive number")
        } else if let Some((name, x)) =
            [("exponential_alpha", self.exponential_alpha), ("z_alpha", self.z_alpha)].into_iter().find(|(_, x)| !(*x > 0.0 && *x < 1.0))
        {
            format!("{name} is {x}, it must lie between 0 and 1")
        } else if !(self.percentile_threshold > 0.0 && self.percentile_threshold <= 100.0) {
            format!("percentile_threshold is {}, it must be above 0 and at most 100", self.percentile_threshold)
        } else if self.z_warm_up == 0 {
            "z_warm_up is 0, it must be at least 1".into()
        } else {
            return Ok(());
        };
        Err(Error::new("GradientClipper", ErrorKind::Argument(refused)))
    }
}
/// The kind and what it reads.
impl std::fmt::Display for ClippingOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut own = self.clone();
        let mut told: Vec<String> = own.numbers().into_iter().map(|(name, number)| format!("{name} {number}")).collect();
        match self.clipping_type {
            ClippingType::ZClip => told.push(format!("z_warm_up {}", self.z_warm_up)),
            ClippingType::LayerWise => told.extend(self.layer_norm_thresholds.iter().map(|(glob, max)| format!("{glob} {max}"))),
            _ => {}
        }
        write!(f, "{} ({})", self.clipping_type, told.join(", "))
    }
}

/// What a step's gradients were like, and where they were limited. Nothing is computed for it that is not read.
#[derive(Clone, Debug)]
pub struct Clipped {
    /// the norm of all gradients together before, of shape \[\]
    pub norm: Tensor,
    /// the limit of the norm or of each element, of shape \[\] (infinity where there is none yet); nothing where each group, layer or
    /// row has its own
    pub threshold: Option<Tensor>,
}

/// Limits gradients before a step, by one of nine kinds.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module, Walk};
/// # use adamant_optim::{ClippingOptions, ClippingType, GradientClipper, Optimizer, Sgd, UpdateRule};
/// # adamant_core::Device::reference().make_current();
/// let model = Linear::new(3, 2)?;
/// let mut sgd = Sgd::new(0.1).over(model.parameters());
/// let mut clipper = GradientClipper::new(ClippingOptions { adaptive_factor: 1.5, ..ClippingType::Adaptive.into() })?;
/// for size in [1.0, 1.0, 100.0] {
///     let loss = (model.forward(&Tensor::ones([1, 3]))? * size).sum(..);
///     let mut grads = loss.backward()?;
///     let told = clipper.clip(&mut grads, &model.parameters())?;
///     if size == 100.0 {
///         assert!(told.norm.item::<f32>()? > 100.0);
///         let after = adamant_optim::get_total_norm(model.parameters().iter().filter_map(|p| grads.of(&p.cell())), 2.0, false)?;
///         assert!(after.item::<f32>()? < 5.0);
///     }
///     sgd.step(&grads)?;
/// }
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// A norm is computed in f64 where the device has it. Where one is not finite, what would be scaled by it stays as it is, and the
/// history too: it is for others to suppress the step.
pub struct GradientClipper {
    options: ClippingOptions,
    /// made where the first gradient is
    history: Option<ClipHistory>,
    /// loaded before there was a gradient
    loaded: Vec<(String, Tensor)>,
}
impl GradientClipper {
    /// A clipper that has seen no gradient.
    ///
    /// # Errors
    /// Numbers that make no sense: the error names the one.
    #[track_caller]
    pub fn new(options: impl Into<ClippingOptions>) -> Result<GradientClipper> {
        let options = options.into();
        options.check()?;
        Ok(GradientClipper { options, history: None, loaded: Vec::new() })
    }
    /// Its numbers.
    pub fn options(&self) -> &ClippingOptions {
        &self.options
    }
    /// Makes its cells on a device now instead of where the first gradient is: before a step is captured.
    ///
    /// # Errors
    /// No memory.
    #[track_caller]
    pub fn prepare(&mut self, device: Device) -> Result<()> {
        begun(&mut self.history, &mut self.loaded, &self.options, device).map(drop)
    }
    /// Limits the gradients of the parameters, which are one group.
    ///
    /// # Errors
    /// Those of [`GradientClipper::clip_groups`].
    #[track_caller]
    pub fn clip(&mut self, grads: &mut Grads, parameters: &[Param]) -> Result<Clipped> {
        self.clip_groups(grads, &[parameters])
    }
    /// Limits the gradients of an optimizer's groups.
    ///
    /// # Errors
    /// Those of [`GradientClipper::clip_groups`].
    #[track_caller]
    pub fn clip_for(&mut self, grads: &mut Grads, optimizer: &dyn Optimizer) -> Result<Clipped> {
        self.clip_measured(grads, optimizer, &WholeGradients)
    }
    /// The same, where somebody else knows how long gradients are: of all ranks, of which each has a piece of them.
    ///
    /// # Errors
    /// Those of [`GradientClipper::clip_groups`]; a kind that looks at a gradient as a whole ([`ClippingType::Percentile`],
    /// [`ClippingType::Agc`]), where there are pieces.
    #[track_caller]
    pub fn clip_measured(&mut self, grads: &mut Grads, optimizer: &dyn Optimizer, measure: &dyn GradientMeasure) -> Result<Clipped> {
        let groups = match self.options.clipping_type {
            ClippingType::Norm => optimizer.parameter_groups(),
            _ => vec![optimizer.parameters()],
        };
        self.limit_groups(grads, &groups.iter().map(Vec::as_slice).collect::<Vec<_>>(), measure)
    }
    /// Limits the gradients of several groups of parameters: each by its own norm with [`ClippingType::Norm`], all together with the other
    /// kinds.
    ///
    /// # Errors
    /// None of the parameters has a gradient; a gradient that carries an error; a glob that meets nothing. Then nothing has changed.
    #[track_caller]
    pub fn clip_groups(&mut self, grads: &mut Grads, groups: &[&[Param]]) -> Result<Clipped> {
        self.limit_groups(grads, groups, &WholeGradients)
    }
    #[track_caller]
    fn limit_groups(&mut self, grads: &mut Grads, groups: &[&[Param]], measure: &dyn GradientMeasure) -> Result<Clipped> {
        if let (true, kind @ (ClippingType::Percentile | ClippingType::Agc)) = (measure.is_of_pieces(), self.options.clipping_type) {
            let told = format!("`{kind}` looks at gradients as a whole, of which each rank has a piece here");
            return Err(Error::new("GradientClipper", ErrorKind::Argument(told)).hint("clip by a norm or by value, or let each rank have all gradients"));
        }
        let parameters: Vec<Param> = groups.iter().flat_map(|g| g.iter()).filter(|p| measure.has(grads, p)).cloned().collect();
        let norm = measure.norm(grads, &parameters)?;
        let device = norm.0.try_meta()?.device;
        if parameters.is_empty() {
            return Err(Error::new("GradientClipper", ErrorKind::Argument("none of the parameters has a gradient".into())));
        }
        let GradientClipper { options, history, loaded } = self;
        let told = norm.0.cast(norm.1).ok()?;
        let threshold = match options.clipping_type {
            ClippingType::Norm => {
                for group in groups {
                    let group: Vec<Param> = group.iter().filter(|p| measure.has(grads, p)).cloned().collect();
                    limit(grads, &group, options.max_norm, measure)?;
                }
                None
            }
            ClippingType::LayerWise => {
                let layers = layers(&parameters, options)?;
                for (layer, max) in layers {
                    limit(grads, &layer, max, measure)?;
                }
                None
            }
            ClippingType::Agc => {
                parameters.iter().try_for_each(|p| limit_rows(grads, p, options))?;
                None
            }
            ClippingType::Value => Some(cut(grads, &parameters, &norm.0.full_like(options.max_value))?),
            ClippingType::Percentile => {
                let limit = percentile(grads, &parameters, options.percentile_threshold, &norm.0)?;
                Some(cut(grads, &parameters, &limit)?)
            }
            ClippingType::GlobalNorm => {
                let threshold = norm.0.full_like(options.max_norm);
                scale_to(grads, &parameters, &norm.0, &threshold)?;
                Some(threshold)
            }
            ClippingType::Adaptive | ClippingType::Exponential | ClippingType::ZClip => {
                let history = begun(history, loaded, options, device)?;
                let threshold = history.limit(&norm.0.to(history.device()), options)?.to(device);
                scale_to(grads, &parameters, &norm.0, &threshold)?;
                Some(threshold)
            }
        };
        Ok(Clipped { norm: told, threshold })
    }
    /// What it remembers, by name; empty for a kind that remembers nothing and before the first gradient.
    pub fn state_dict(&self) -> Vec<(String, Tensor)> {
        self.history.as_ref().map_or_else(|| self.loaded.clone(), ClipHistory::state_dict)
    }
    /// Takes over what [`GradientClipper::state_dict`] of a clipper of the same kind gave: the same limits follow, to the bit.
    ///
    /// # Errors
    /// A name that is missing or unknown, a tensor of another shape. Then nothing has changed.
    #[track_caller]
    pub fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        match &self.history {
            Some(history) if state.is_empty() => history.forget(&self.options),
            Some(history) => history.load(state),
            None => {
                if !state.is_empty() {
                    ClipHistory::new(&self.options, Device::reference())?.load(state)?;
                }
                self.loaded = state.to_vec();
                Ok(())
            }
        }
    }
}
/// The history, which begins on a device if it has not, with what was loaded.
#[track_caller]
fn begun<'h>(history: &'h mut Option<ClipHistory>, loaded: &mut Vec<(String, Tensor)>, options: &ClippingOptions, device: Device) -> Result<&'h ClipHistory> {
    let known = match history.take() {
        Some(known) => known,
        None => {
            let new = ClipHistory::new(options, device)?;
            if !loaded.is_empty() {
                new.load(loaded)?;
                loaded.clear();
            }
            new
        }
    };
    Ok(history.insert(known))
}
/// Scales what is longer than a limit down to it.
#[track_caller]
fn limit(grads: &mut Grads, parameters: &[Param], max: f64, measure: &dyn GradientMeasure) -> Result<()> {
    if parameters.is_empty() {
        return Ok(());
    }
    let (norm, _) = measure.norm(grads, parameters)?;
    scale_to(grads, parameters, &norm, &norm.full_like(max))
}
/// Scales gradients of a norm by min(1, threshold / (norm + 1e-6)).
#[track_caller]
fn scale_to(grads: &mut Grads, parameters: &[Param], norm: &Tensor, threshold: &Tensor) -> Result<()> {
    let scale = (threshold / (norm + 1e-6)).minimum(1.0);
    scale_gradients(grads, parameters, &norm.isfinite().where_(scale, 1.0))
}
/// Cuts every element off at ± a limit; gives the limit.
#[track_caller]
fn cut(grads: &mut Grads, parameters: &[Param], limit: &Tensor) -> Result<Tensor> {
    for p in parameters {
        let Some(g) = grads.of(&p.cell()) else { continue };
        let meta = g.try_meta()?;
        let dtype = wide(meta.dtype);
        let limit = limit.to(meta.device).cast(dtype);
        let clipped = g.cast(dtype).maximum(&limit.neg()).minimum(&limit).cast(meta.dtype).ok()?;
        grads.set(&p.cell(), clipped);
    }
    Ok(limit.clone())
}
/// A percentile of all absolute values, between two of them by their distance, as NumPy has it: in the dtype and on the device of `like`. Infinite
/// where elements that are not finite reach so far down.
#[track_caller]
fn percentile(grads: &Grads, parameters: &[Param], percent: f64, like: &Tensor) -> Result<Tensor> {
    let to = like.try_meta()?;
    let mut parts = Vec::new();
    for p in parameters {
        let Some(g) = grads.of(&p.cell()) else { continue };
        parts.push(g.abs());
    }
    // In the widest dtype that is there, so that f64 is needed where there is f64.
    let double = parts.iter().map(|g| g.try_meta()).collect::<Result<Vec<_>>>()?.iter().any(|m| m.dtype == DType::F64);
    let dtype = if double { DType::F64 } else { DType::F32 };
    let all: Vec<Tensor> = parts.iter().map(|g| g.cast(dtype).ravel().to(to.device).ok()).collect::<Result<_>>()?;
    let all = Tensor::cat(&all, 0).ok()?;
    let n = all.try_meta()?.shape.elements();
    if n == 0 {
        return like.full_like(f64::INFINITY).ok();
    }
    let rank = percent / 100.0 * (n - 1) as f64;
    let (below, above) = (rank.floor() as usize, rank.ceil() as usize);
    let low = all.kthvalue(below + 1, 0).0.cast(to.dtype);
    let value = if above == below { low } else { low.lerp(&all.kthvalue(above + 1, 0).0.cast(to.dtype), rank - below as f64) };
    value.isfinite().where_(&value, f64::INFINITY).ok()
}
/// Scales the rows of a gradient that are too long for the weights.
#[track_caller]
fn limit_rows(grads: &mut Grads, p: &Param, options: &ClippingOptions) -> Result<()> {
    let Some(g) = grads.of(&p.cell()) else { return Ok(()) };
    let meta = g.try_meta()?;
    let dtype = meta.device.widest_float();
    let rank = meta.shape.rank();
    let length = |x: &Tensor| {
        let x = x.cast(dtype);
        if rank < 2 { x.vector_norm(2.0, ..) } else { x.vector_norm_keepdim(2.0, (1..rank).collect::<Vec<usize>>()) }
    };
    let (is, of) = (length(g), length(&p.detached().to(meta.device)));
    let most = of.maximum(options.agc_eps) * options.agc_clipping;
    let scale = is.isfinite().logical_and(is.gt(&most)).where_(&most / is.maximum(1e-6), 1.0);
    let wide = wide(meta.dtype);
    let clipped = (g.cast(wide) * scale.cast(wide)).cast(meta.dtype).ok()?;
    grads.set(&p.cell(), clipped);
    Ok(())
}
/// The parameters by layer, each with its limit. A parameter without a path is a layer.
#[track_caller]
fn layers(parameters: &[Param], options: &ClippingOptions) -> Result<Vec<(Vec<Param>, f64)>> {
    let globs = &options.layer_norm_thresholds;
    let mut met = vec![false; globs.len()];
    let mut layers: Vec<(String, Vec<Param>, Option<f64>)> = Vec::new();
    for p in parameters {
        let path = p.path();
        let layer = path.rsplit_once('.').map_or(&*path, |(layer, _)| layer);
        let meets = |(glob, _): &(String, f64)| glob_matches(glob, layer) || glob_matches(glob, &path);
        globs.iter().zip(&mut met).filter(|(glob, _)| meets(glob)).for_each(|(_, met)| *met = true);
        let own = globs.iter().find(|glob| meets(glob)).map(|(_, limit)| *limit);
        match layers.iter_mut().find(|(name, ..)| !layer.is_empty() && name == layer) {
            Some((_, members, limit)) => {
                members.push(p.clone());
                *limit = limit.or(own);
            }
            None => layers.push((layer.to_string(), vec![p.clone()], own)),
        }
    }
    if let Some((glob, _)) = globs.iter().zip(&met).find(|(_, met)| !**met).map(|(glob, _)| glob) {
        let error = Error::new("GradientClipper", ErrorKind::Argument(format!("no layer with a gradient is met by `{glob}`")));
        return Err(error.hint("globs of `layer_norm_thresholds` are of paths, as `named_parameters` gives them, with or without the parameter's name"));
    }
    Ok(layers.into_iter().map(|(_, members, limit)| (members, limit.unwrap_or(options.max_norm))).collect())
}
