//! The loss scaler, with PyTorch's names and sequence ([`GradScaler`]). A small gradient of f16 is zero: so the loss is multiplied
//! by a large number before the walk back, and the gradients are divided by it after. Where the number was too large for them,
//! gradients are infinite or NaN: that step changes nothing, and the number is halved; after many good steps it is doubled.
//!
//! Data flow: the scale and all that is counted are cells on the losses' device ([`ScaleCells`]); whether gradients are
//! finite is a bool there, by which the optimizer's writes are selected ([`step_when`]). The host knows the order of the calls
//! ([`UnscaledGradients`]) and nothing else, so it waits for nothing, and the whole of a step may be captured by
//! [`compile`](adamant_core::compile()).
mod cells;

use adamant_core::{DType, Device, Error, ErrorKind, Grads, Result, Tensor, composite::finite::AllFinite, intercept::casting_once, step_when};
use adamant_nn::Param;
use adamant_optim::Optimizer;
use cells::{ScaleCells, Values};

/// The numbers of a [`GradScaler`]; the defaults are PyTorch's.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalerOptions {
    /// the first scale (65536)
    pub init_scale: f64,
    /// by what the scale is multiplied after `growth_interval` good steps in a row (2); more than 1
    pub growth_factor: f64,
    /// by what it is multiplied after a step whose gradients were not finite (0.5); between 0 and 1
    pub backoff_factor: f64,
    /// how many good steps in a row let it grow (2000)
    pub growth_interval: u32,
    /// it is never made smaller than this (the smallest normal f32)
    pub min_scale: f64,
    /// it never grows beyond this (infinity: it grows as long as it is finite)
    pub max_scale: f64,
    /// At the how manieth bad step it is made smaller (1): those before, with no good one between, only change nothing.
    pub hysteresis: u32,
    /// Without it every method is as if there were no scaler.
    pub enabled: bool,
}
impl Default for ScalerOptions {
    fn default() -> ScalerOptions {
        ScalerOptions {
            init_scale: 65536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
            min_scale: f32::MIN_POSITIVE.into(),
            max_scale: f64::INFINITY,
            hysteresis: 1,
            enabled: true,
        }
    }
}
impl ScalerOptions {
    #[track_caller]
    fn check(&self) -> Result<()> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let refused = if !positive(self.init_scale) {
            format!("init_scale is {}, it must be a positive number", self.init_scale)
        } else if !(self.growth_factor.is_finite() && self.growth_factor > 1.0) {
            format!("growth_factor is {}, it must be more than 1", self.growth_factor)
        } else if !(self.backoff_factor > 0.0 && self.backoff_factor < 1.0) {
            format!("backoff_factor is {}, it must lie between 0 and 1", self.backoff_factor)
        } else if self.growth_interval == 0 {
            "growth_interval is 0, it must be at least 1".into()
        } else if self.hysteresis == 0 {
            "hysteresis is 0, it must be at least 1".into()
        } else if !positive(self.min_scale) {
            format!("min_scale is {}, it must be a positive number", self.min_scale)
        } else if self.max_scale.is_nan() || self.max_scale < self.min_scale {
            format!("max_scale is {}, which is no number from min_scale ({}) on", self.max_scale, self.min_scale)
        } else if !(self.min_scale as f32..=self.max_scale as f32).contains(&(self.init_scale as f32)) {
            format!("init_scale is {}, outside of min_scale and max_scale ({} to {})", self.init_scale, self.min_scale, self.max_scale)
        } else {
            return Ok(());
        };
        Err(Error::new("GradScaler", ErrorKind::Argument(refused)))
    }
}

/// What a scaler has done, read from its cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScalerStats {
    /// updates whose gradients were finite
    pub applied: u32,
    /// updates whose gradients were not: these steps changed nothing
    pub skipped: u32,
    /// the scale now
    pub scale: f64,
    /// the smallest scale there was
    pub least: f64,
    /// the largest one
    pub most: f64,
}

/// How far an optimizer's gradients have come since the last [`GradScaler::update`].
struct UnscaledGradients {
    /// whose: its name and its first parameter
    optimizer: (&'static str, usize),
    /// were all of its gradients finite? A bool on the scale's device.
    finite: Tensor,
    stepped: bool,
}

/// Scales losses, so that gradients that f16 cannot hold survive, and withholds steps whose gradients overflowed, as
/// `torch.amp.GradScaler`.
///
/// ```
/// use adamant_amp::GradScaler;
/// use adamant_core::{DType, Tensor};
/// use adamant_nn::{Linear, Module, Walk};
/// use adamant_optim::{Optimizer, Sgd, UpdateRule, clip_grad_norm};
///
/// # adamant_core::Device::reference().make_current();
/// let model = Linear::new(4, 1)?;
/// let mut optimizer = Sgd::new(0.1).over(model.parameters());
/// let mut scaler = GradScaler::new();
/// for _ in 0..3 {
///     let loss = model.forward(&Tensor::ones([8, 4]))?.square().mean(..);
///     let mut grads = scaler.scale(&loss)?.backward()?;
///     // Only for those who look at gradients before the step:
///     scaler.unscale_(&mut grads, &optimizer)?;
///     clip_grad_norm(&mut grads, &model.parameters(), 1.0)?;
///     scaler.step(&mut optimizer, &mut grads)?;
///     scaler.update()?;
/// }
/// assert_eq!(scaler.get_scale()?, 65536.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// Nothing here is read by the host but in [`GradScaler::get_scale`], [`GradScaler::stats`] and [`GradScaler::state_dict`].
///
/// Several losses may be scaled before [`GradScaler::update`], and several optimizers stepped: each is suppressed by its own
/// gradients, and the scale follows from all. An accumulated gradient has one scale: call `update` once, after its step.
///
/// A step that is suppressed leaves weights and slots alone, and Adam's count of steps with them. What the *forward* wrote before
/// (running statistics of a BatchNorm) is kept out too inside of [`GradScaler::attempt`].
#[derive(Default)]
pub struct GradScaler {
    options: ScalerOptions,
    /// made where the first loss is
    cells: Option<ScaleCells>,
    /// loaded before there was a loss
    loaded: Option<Values>,
    stages: Vec<UnscaledGradients>,
    /// the number of losses scaled since the last update
    scaled: usize,
    /// inside of [`GradScaler::attempt`]?
    attempting: bool,
}
#[track_caller]
fn refused<T>(called: &'static str, text: &str, hint: &'static str) -> Result<T> {
    Err(Error::new(called, ErrorKind::Argument(text.into())).hint(hint))
}
fn identity_of(optimizer: &dyn Optimizer) -> (&'static str, usize) {
    (optimizer.name(), optimizer.parameters().first().map_or(0, Param::id))
}

impl GradScaler {
    /// A scaler with PyTorch's defaults.
    pub fn new() -> GradScaler {
        GradScaler::default()
    }
    /// A scaler with numbers of one's own.
    ///
    /// ```
    /// use adamant_amp::{GradScaler, ScalerOptions};
    /// let scaler = GradScaler::with(ScalerOptions { init_scale: 1024.0, growth_interval: 100, ..Default::default() })?;
    /// assert_eq!(scaler.get_scale()?, 1024.0);
    /// assert!(GradScaler::with(ScalerOptions { growth_factor: 1.0, ..Default::default() }).is_err());
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Numbers that make no sense: the error names the one.
    #[track_caller]
    pub fn with(options: ScalerOptions) -> Result<GradScaler> {
        options.check()?;
        Ok(GradScaler { options, ..GradScaler::default() })
    }
    /// The loss times the scale. What comes is f32 where the loss is of 16 bits, for f16 ends at 65504; else of the loss's dtype.
    ///
    /// # Errors
    /// A loss that carries an error, or is no float; [`GradScaler::step`] without [`GradScaler::update`] after it.
    #[track_caller]
    pub fn scale(&mut self, loss: &Tensor) -> Result<Tensor> {
        let ty = loss.try_meta()?;
        if !self.options.enabled {
            return Ok(loss.clone());
        }
        if !ty.dtype.is_float() {
            return Err(Error::new("scale", ErrorKind::Dtype(format!("a loss is a float, not {}", ty.dtype))));
        }
        let cells = match self.cells.take() {
            Some(cells) => cells,
            None => ScaleCells::new(ty.device, &self.values())?,
        };
        self.loaded = None;
        let wide = if ty.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let scaled = loss.cast(wide) * cells.scale().to(ty.device).cast(wide);
        self.cells = Some(cells);
        self.scaled += 1;
        scaled.ok()
    }
    /// Divides an optimizer's gradients by the scale, for who looks at them or clips them before the step; [`GradScaler::step`] does it
    /// itself where nobody did.
    ///
    /// # Errors
    /// A wrong order of calls; gradients of f16, which cannot hold what comes of it; none of the parameters has a gradient.
    #[track_caller]
    pub fn unscale_(&mut self, grads: &mut Grads, optimizer: &dyn Optimizer) -> Result<()> {
        if !self.options.enabled {
            return Ok(());
        }
        match self.stage_of(optimizer) {
            Some(stage) if stage.stepped => {
                return refused("unscale_", "the optimizer has stepped with these gradients already", "call `update` after each step");
            }
            Some(_) => {
                return refused(
                    "unscale_",
                    "the gradients of this optimizer were divided by the scale already",
                    "call it once for each optimizer between two calls of `update`",
                );
            }
            None => {}
        }
        self.look_at("unscale_", grads, optimizer).map(drop)
    }
    /// The optimizer's step, where all of its gradients are finite; where one is not, weights, slots and counts keep their bits. Divides the
    /// gradients by the scale first, unless [`GradScaler::unscale_`] did.
    ///
    /// # Errors
    /// A wrong order of calls; those of [`GradScaler::unscale_`] and of the optimizer's step: then nothing has changed.
    #[track_caller]
    pub fn step(&mut self, optimizer: &mut dyn Optimizer, grads: &mut Grads) -> Result<()> {
        if !self.options.enabled {
            return optimizer.step(grads);
        }
        let finite = match self.stage_of(optimizer) {
            Some(stage) if stage.stepped => {
                return refused("step", "the optimizer has stepped already since the scale was last updated", "call `update` after each step");
            }
            Some(stage) => stage.finite.clone(),
            None => self.look_at("step", grads, optimizer)?,
        };
        step_when(|| {
            optimizer.step(grads)?;
            Ok((finite, ()))
        })?;
        if let Some(stage) = self.stage_of(optimizer) {
            stage.stepped = true;
        }
        Ok(())
    }
    /// The scale of the next step: smaller where a gradient of any optimizer was not finite since the last call, larger after
    /// `growth_interval` good ones in a row.
    ///
    /// # Errors
    /// No gradient was divided by the scale since the last call; inside of [`GradScaler::attempt`], which does it itself.
    #[track_caller]
    pub fn update(&mut self) -> Result<()> {
        if !self.options.enabled {
            return Ok(());
        }
        if self.attempting {
            return refused("update", "the scale is updated by `attempt`, behind the step", "leave it out there");
        }
        let Some(cells) = &self.cells else {
            return refused("update", "no loss was scaled yet", "call `scale`, walk back, and `step` before it");
        };
        let Some(finite) = all(&self.stages, cells) else {
            return refused("update", "no gradients were looked at since the last call", "call `step` (or `unscale_`) of an optimizer before it");
        };
        cells.update(&finite, &self.options)?;
        self.begin_anew();
        Ok(())
    }
    /// Runs one attempt of a whole step: forward, [`GradScaler::scale`], the walk back, [`GradScaler::step`]. All cells that it wrote commit, or
    /// none where a gradient was not finite: running statistics that the forward wrote and the generator too. Then
    /// [`GradScaler::update`].
    ///
    /// ```
    /// # use adamant_amp::GradScaler;
    /// # use adamant_core::{Cell, DType, Tensor};
    /// # use adamant_nn::{Linear, Module, Walk};
    /// # use adamant_optim::{Sgd, UpdateRule};
    /// # adamant_core::Device::reference().make_current();
    /// let model = Linear::new(2, 1)?;
    /// let mut optimizer = Sgd::new(0.1).over(model.parameters());
    /// let seen = Cell::new(&Tensor::full([], 0.0, DType::F32), false)?;
    /// let mut scaler = GradScaler::new();
    /// for value in [1.0, f64::INFINITY, 2.0] {
    ///     scaler.attempt(|scaler| {
    ///         seen.set(&(seen.detached() + 1.0))?; // as a layer's running statistics
    ///         let loss = model.forward(&Tensor::full([4, 2], value, DType::F32))?.mean(..);
    ///         let mut grads = scaler.scale(&loss)?.backward()?;
    ///         scaler.step(&mut optimizer, &mut grads)
    ///     })?;
    /// }
    /// assert_eq!(seen.detached().item::<f32>()?, 2.0);
    /// assert_eq!(scaler.get_scale()?, 32768.0);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `f`, and no step inside of it: then nothing has changed.
    #[track_caller]
    pub fn attempt<R>(&mut self, f: impl FnOnce(&mut GradScaler) -> Result<R>) -> Result<R> {
        casting_once(|| self.attempt_once(f))
    }
    #[track_caller]
    fn attempt_once<R>(&mut self, f: impl FnOnce(&mut GradScaler) -> Result<R>) -> Result<R> {
        if !self.options.enabled {
            return adamant_core::step(|| f(self));
        }
        if self.attempting || !self.stages.is_empty() {
            return refused("attempt", "another step is under way", "end it by `update`");
        }
        self.attempting = true;
        let tried = step_when(|| {
            let result = f(self)?;
            match self.finite() {
                Some(finite) if self.stages.iter().any(|s| s.stepped) => Ok((finite, result)),
                _ => refused("attempt", "no optimizer has stepped in it", "call `step` of the scaler that it gives"),
            }
        });
        self.attempting = false;
        let ended = if tried.is_ok() { self.update() } else { Ok(()) };
        self.begin_anew();
        ended.and(tried)
    }
    /// Were all gradients that were looked at since the last [`GradScaler::update`] finite? A bool on the scale's device, of which the host waits for
    /// nothing; none where none was looked at.
    pub fn finite(&self) -> Option<Tensor> {
        self.cells.as_ref().and_then(|cells| all(&self.stages, cells))
    }
    /// The scale that losses are multiplied by now, of shape \[\], on its device; none before the first one and where the scaler is off.
    pub fn scale_tensor(&self) -> Option<Tensor> {
        self.cells.as_ref().map(ScaleCells::scale)
    }
    /// Makes its cells on a device now instead of where the first loss is: before a step is captured.
    ///
    /// # Errors
    /// No memory.
    #[track_caller]
    pub fn prepare(&mut self, device: Device) -> Result<()> {
        if self.options.enabled && self.cells.is_none() {
            self.cells = Some(ScaleCells::new(device, &self.values())?);
            self.loaded = None;
        }
        Ok(())
    }
    /// The scale now, which waits for the device; 1 where the scaler is off.
    ///
    /// # Errors
    /// A device that failed; inside of a function that is being captured, where nothing can be read.
    #[track_caller]
    pub fn get_scale(&self) -> Result<f64> {
        match &self.cells {
            _ if !self.options.enabled => Ok(1.0),
            Some(cells) => cells.scale().item::<f32>().map(f64::from),
            None => Ok(self.values().scale()),
        }
    }
    /// Sets the scale to a number, as `update(new_scale)`. What is counted stays.
    ///
    /// # Errors
    /// No positive number; between a step's first call and its [`GradScaler::update`].
    #[track_caller]
    pub fn set_scale(&mut self, scale: f64) -> Result<()> {
        self.between_steps("set_scale")?;
        let options = ScalerOptions { init_scale: scale, ..self.options.clone() };
        options.check()?;
        match &self.cells {
            Some(cells) => cells.set_scale(scale),
            None => {
                self.loaded = self.loaded.map(|values| values.with_scale(scale));
                self.options = options;
                Ok(())
            }
        }
    }
    /// Its numbers.
    pub fn options(&self) -> &ScalerOptions {
        &self.options
    }
    /// Is it on?
    pub fn is_enabled(&self) -> bool {
        self.options.enabled
    }
    /// Changes its numbers, but not the scale; a shorter `growth_interval` than the good steps that were counted already is
    /// reached, as in PyTorch, after the next bad one.
    ///
    /// # Errors
    /// Numbers that make no sense, or another `enabled`: then nothing has changed.
    #[track_caller]
    pub fn set_options(&mut self, options: ScalerOptions) -> Result<()> {
        self.between_steps("set_options")?;
        options.check()?;
        if options.enabled != self.options.enabled {
            return refused("set_options", "a scaler cannot be switched on or off while it runs", "make another one");
        }
        self.options = options;
        Ok(())
    }
    /// What it has done so far, which waits for the device.
    ///
    /// # Errors
    /// As [`GradScaler::get_scale`].
    #[track_caller]
    pub fn stats(&self) -> Result<ScalerStats> {
        match &self.cells {
            Some(cells) => cells.stats(),
            None => Ok(self.values().stats()),
        }
    }
    /// Scale, counts and numbers by name; nothing of a scaler that is off.
    ///
    /// # Errors
    /// As [`GradScaler::get_scale`].
    #[track_caller]
    pub fn state_dict(&self) -> Result<Vec<(String, Tensor)>> {
        if !self.options.enabled {
            return Ok(Vec::new());
        }
        let mut state = match &self.cells {
            Some(cells) => cells.state_dict(),
            None => ScaleCells::new(Device::current()?, &self.values())?.state_dict(),
        };
        state.extend(self.numbers().map(|(name, value)| (name.to_string(), Tensor::scalar(value))));
        Ok(state)
    }
    /// Takes over what [`GradScaler::state_dict`] gave: the same scales follow, to the bit.
    ///
    /// # Errors
    /// A name that is missing or unknown, a tensor that is no single number, numbers that make no sense; between a step's first call
    /// and its [`GradScaler::update`]. Then nothing has changed.
    #[track_caller]
    pub fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        if !self.options.enabled {
            return Ok(());
        }
        self.between_steps("load_state_dict")?;
        let of = |name| cells::number(state, name);
        let options = ScalerOptions {
            init_scale: of(cells::SCALE)?,
            growth_factor: of("growth_factor")?,
            backoff_factor: of("backoff_factor")?,
            growth_interval: cells::count(state, "growth_interval")?,
            min_scale: of("min_scale")?,
            max_scale: of("max_scale")?,
            hysteresis: cells::count(state, "hysteresis")?,
            enabled: true,
        };
        options.check()?;
        let values = Values::of(state)?;
        let known = |name: &str| cells::NAMES.contains(&name) || self.numbers().any(|(n, _)| n == name);
        if let Some((name, _)) = state.iter().find(|(name, _)| !known(name)) {
            return Err(Error::new("load_state_dict", ErrorKind::Argument(format!("a scaler has no `{name}`"))));
        }
        match &self.cells {
            Some(cells) => cells.load(&values)?,
            None => self.loaded = Some(values),
        }
        self.options = ScalerOptions { init_scale: self.options.init_scale, ..options };
        Ok(())
    }

    /// What its cells hold before there are any.
    fn values(&self) -> Values {
        self.loaded.unwrap_or_else(|| Values::first(&self.options))
    }
    /// The options that a state holds, by name.
    fn numbers(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let o = &self.options;
        [
            ("growth_factor", o.growth_factor),
            ("backoff_factor", o.backoff_factor),
            ("growth_interval", o.growth_interval.into()),
            ("min_scale", o.min_scale),
            ("max_scale", o.max_scale),
            ("hysteresis", o.hysteresis.into()),
        ]
        .into_iter()
    }
    fn stage_of(&mut self, optimizer: &dyn Optimizer) -> Option<&mut UnscaledGradients> {
        let identity = identity_of(optimizer);
        self.stages.iter_mut().find(|s| s.optimizer == identity)
    }
    fn begin_anew(&mut self) {
        self.stages.clear();
        self.scaled = 0;
    }
    #[track_caller]
    fn between_steps(&self, called: &'static str) -> Result<()> {
        if self.scaled == 0 && self.stages.is_empty() {
            return Ok(());
        }
        refused(called, "a loss was scaled by the scale as it is, and its step is not at an end", "call it behind `update`")
    }
    /// Divides the gradients by the scale, and remembers and gives whether all of them are finite then.
    #[track_caller]
    fn look_at(&mut self, called: &'static str, grads: &mut Grads, optimizer: &dyn Optimizer) -> Result<Tensor> {
        let Some(cells) = self.cells.as_ref().filter(|_| self.scaled > 0) else {
            return refused(called, "no loss was scaled since the last update", "walk back from what `scale` gives");
        };
        let inverse = cells.scale().reciprocal();
        let mut divided = Vec::new();
        let mut finite: Option<Tensor> = None;
        for p in optimizer.parameters() {
            let Some(g) = grads.of(&p.cell()) else { continue };
            let meta = g.try_meta()?;
            if meta.dtype == DType::F16 {
                let text = format!("the gradient of `{}` is of f16, where it is nothing once it is divided by the scale", p.path());
                return Err(Error::new(called, ErrorKind::Argument(text)).hint("keep weights in f32, and let products take them in f16"));
            }
            let wide = if meta.dtype == DType::F64 { DType::F64 } else { DType::F32 };
            let g = (g.detach().cast(wide) * inverse.to(meta.device).cast(wide)).cast(meta.dtype);
            let is = Tensor::composite1(AllFinite, &[&g]).to(cells.device());
            finite = Some(match finite {
                Some(all) => all.logical_and(is),
                None => is,
            });
            divided.push((p, g.ok()?));
        }
        let Some(finite) = finite else {
            return refused(called, "none of the optimizer's parameters has a gradient", "step an optimizer of what the loss depends on");
        };
        let finite = finite.ok()?;
        self.stages.push(UnscaledGradients { optimizer: identity_of(optimizer), finite: finite.clone(), stepped: false });
        divided.into_iter().for_each(|(p, g)| grads.set(&p.cell(), g));
        Ok(finite)
    }
}
/// Were the gradients of all optimizers finite?
fn all(stages: &[UnscaledGradients], cells: &ScaleCells) -> Option<Tensor> {
    stages.iter().map(|s| s.finite.to(cells.device())).reduce(|a, b| a.logical_and(b))
}
