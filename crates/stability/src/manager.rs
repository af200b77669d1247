//! All of it in one place: a step with clipping, with a policy for bad numbers, with debugging, with metrics of performance, each only where it
//! is wanted ([`NumericalStabilityManager`]).
//!
//! Data flow: [`NumericalStabilityManager::step`] runs the loss, the walk back, the policy, the clipper and the optimizer as one attempt that
//! commits or does not. What came of it is computed on the device as tensors of no axes and read once, at the step's end
//! ([`StepStability`]); of each step a line is kept ([`history`]), which [`NumericalStabilityManager::save_histories`] writes. A debug session
//! ([`debug`]) looks closer for so many steps or so long.
//!
//! This file knows optimizers; what is beside it does not.
use crate::{HandlingType, NanHandler, NanOptions, StepPhase, StepTrace, TraceOptions, handler::StepKinds, stability_score, trace_with};
use adamant_core::{Error, ErrorKind, Grads, Result, Tensor, grad::with_grad, step};
use adamant_nn::{Param, Walk};
use adamant_optim::{ClippingOptions, GradientClipper, Optimizer, get_total_norm};
use std::path::{Path, PathBuf};

pub mod debug;
mod differences;
mod held;
pub mod history;
use debug::{DebugInfo, DebugOptions, DebugSession, DebugSummary, PhaseClock, SeenPhase};
use held::HeldState;
use history::{Histories, SavedHistories};

/// Where metrics of a step's performance come from: a monitor, a profiler, a clock. A closure is one.
///
/// ```
/// use adamant_stability::StepMetrics;
/// let started = std::time::Instant::now();
/// let mut clock = move |step: u64| vec![("seconds_per_step".to_string(), started.elapsed().as_secs_f64() / step as f64)];
/// assert_eq!(clock.metrics(1)[0].0, "seconds_per_step");
/// ```
pub trait StepMetrics {
    /// The metrics of a step that has just ended, by name. Steps are counted from 1.
    fn metrics(&mut self, step: u64) -> Vec<(String, f64)>;
}
impl<F: FnMut(u64) -> Vec<(String, f64)>> StepMetrics for F {
    fn metrics(&mut self, step: u64) -> Vec<(String, f64)> {
        self(step)
    }
}
/// What clipping did in a step.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct ClippingStats {
    /// the norm of all gradients before
    pub norm: f64,
    /// their norm behind it
    pub clipped_norm: f64,
    /// what the norm, or each element, was held to, for kinds with one threshold
    pub threshold: Option<f64>,
    /// by which share the norm became less: 0 where nothing was clipped, and where the norm is not finite
    pub ratio: f64,
}
/// What a step had of bad numbers, and what was done about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NanStepStats {
    /// Was there NaN in the loss, a gradient, or an activation where those are looked at?
    pub nan: bool,
    /// Was there an infinity?
    pub inf: bool,
    /// Was something beyond the threshold?
    pub overflow: bool,
    /// Have the gradients exploded?
    pub explosion: bool,
    /// Was something bad, also in what the step would have written?
    pub bad: bool,
    /// Did the step change anything?
    pub committed: bool,
    /// bad steps in a row up to now
    pub consecutive: u32,
    /// bad steps up to now
    pub total: u32,
    /// behind which step the state was that has been put back
    pub restored: Option<u64>,
}
/// What came of a step.
#[derive(Clone, Debug, serde::Serialize)]
pub struct StepStability {
    /// its number, from 1
    pub step: u64,
    /// its loss
    pub loss: f64,
    /// where there is clipping
    pub clipping_stats: Option<ClippingStats>,
    /// where there is a policy
    pub nan_stats: Option<NanStepStats>,
    /// 1 for a step without anything to say of it, less 0.3 for NaN, 0.2 for infinities, 0.1 for overflows, and a tenth of the share that was
    /// clipped away ([`ClippingStats::ratio`])
    pub stability_score: f64,
    /// while a debug session is under way
    pub debug_info: Option<DebugInfo>,
    /// where there is a source of them
    pub performance_metrics: Option<Vec<(String, f64)>>,
}
/// See [`StepStability::stability_score`].
fn score(nan: Option<&NanStepStats>, clipping: Option<&ClippingStats>) -> f64 {
    stability_score(nan.map_or([false; 3], |n| [n.nan, n.inf, n.overflow]), clipping.map_or(0.0, |c| c.ratio))
}

/// Clipping, a policy for bad numbers, debugging and metrics around the steps of a training loop of one's own. Each may be left out.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module, Walk};
/// # use adamant_optim::{ClippingOptions, Optimizer, Sgd, UpdateRule};
/// # use adamant_stability::{HandlingType, NumericalStabilityManager};
/// # adamant_core::Device::reference().make_current();
/// let model = Linear::new(2, 1)?;
/// let mut sgd = Sgd::new(0.1).over(model.parameters());
/// let mut manager = NumericalStabilityManager::new(Some(ClippingOptions::global_norm(0.5)), Some(HandlingType::Skip.into()), None, None)?;
/// for value in [10.0f32, f32::NAN, 1.0] {
///     let x = Tensor::from_vec(vec![value, 1.0], [1, 2]);
///     let report = manager.step(&model, || model.forward(&x)?.square().mean(..).ok(), &mut sgd)?;
///     let nan = report.nan_stats.unwrap();
///     assert_eq!((nan.nan, nan.committed), (value.is_nan(), !value.is_nan()));
///     assert!(report.stability_score < 1.0 || !value.is_nan());
/// }
/// assert!(model.parameters().iter().all(|p| p.detached().is_finite_all().unwrap()));
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct NumericalStabilityManager {
    clipper: Option<GradientClipper>,
    handler: Option<NanHandler>,
    debug: Option<DebugOptions>,
    session: Option<DebugSession>,
    performance: Option<Box<dyn StepMetrics>>,
    histories: Histories,
    step: u64,
    /// bad steps, and those in a row
    bad: (u32, u32),
    /// under restore
    held: Option<HeldState>,
    /// the one before it, until a step from it on was good
    held_before: Option<HeldState>,
}
#[track_caller]
fn refused<T>(text: String, hint: &'static str) -> Result<T> {
    Err(Error::new("NumericalStabilityManager", ErrorKind::Argument(text)).hint(hint))
}
/// What a step leaves to be read.
struct UnreadStep {
    loss: Tensor,
    /// the norms before and behind clipping, and the threshold
    clipped: Option<(Tensor, Tensor, Option<Tensor>)>,
}
impl NumericalStabilityManager {
    /// A manager of what is given. With `debug` a session begins at once.
    ///
    /// # Errors
    /// Numbers that make no sense: the error names the one.
    #[track_caller]
    pub fn new(
        clipping: Option<ClippingOptions>,
        nan: Option<NanOptions>,
        debug: Option<DebugOptions>,
        performance: Option<Box<dyn StepMetrics>>,
    ) -> Result<NumericalStabilityManager> {
        if let Some(skip) = nan.as_ref().map(|options| options.restore_skip).filter(|skip| *skip > 0) {
            return refused(
                format!("restore_skip is {skip}, and a manager is given its batches"),
                "leave batches out in the loop, where `nan_stats.restored` tells",
            );
        }
        let session = debug.as_ref().map(DebugSession::begin).transpose()?;
        Ok(NumericalStabilityManager {
            clipper: clipping.map(GradientClipper::new).transpose()?,
            handler: nan.map(NanHandler::new).transpose()?,
            debug,
            session,
            performance,
            histories: Histories::default(),
            step: 0,
            bad: (0, 0),
            held: None,
            held_before: None,
        })
    }
    /// One step: the loss, its gradients, what is to be done about bad ones, clipping, the optimizer. `loss` computes the loss of the batch; it
    /// is called again where a debug session looks for an origin or checks gradients, and must then come to the same.
    ///
    /// Whatever the policy suppresses has changed nothing: weights, slots, running statistics, the generator. The numbers of the report are
    /// read at the end, all at once: the call waits for the device.
    ///
    /// # Errors
    /// Those of `loss` and of the optimizer. Under [`Stop`](HandlingType::Stop), and after too many bad steps in a row, the steps behind a bad one
    /// change nothing either: `nan_stats` says so; put an earlier state back, then [`NumericalStabilityManager::reopen`]. Under
    /// [`Restore`](HandlingType::Restore) that is done here: weights, buffers, slots, the clipper's history and the generator are again those of
    /// the last state that was held, and that a good step has tried, at smaller rates, and the next step goes on from there. With `autograd_anomaly_mode` raise, a bad step is an error that names its origin.
    #[track_caller]
    pub fn step(&mut self, model: &(impl Walk + ?Sized), mut loss: impl FnMut() -> Result<Tensor>, optimizer: &mut dyn Optimizer) -> Result<StepStability> {
        self.step_dyn(&model.named_parameters(), &mut || model.leaves(), &mut loss, optimizer)
    }
    #[track_caller]
    fn step_dyn(
        &mut self,
        parameters: &[(String, Param)],
        leaves: &mut dyn FnMut() -> Vec<(String, Param)>,
        loss: &mut dyn FnMut() -> Result<Tensor>,
        optimizer: &mut dyn Optimizer,
    ) -> Result<StepStability> {
        let number = self.step + 1;
        let restores = self.handler.as_ref().map(|h| h.options()).filter(|o| o.handling_type == HandlingType::Restore);
        if let Some(options) = restores
            && self.held.as_ref().is_none_or(|held| number > held.since + u64::from(options.restore_every))
        {
            self.held_before = self.held.replace(HeldState::of(self.step, leaves(), optimizer, self.clipper.as_ref())?);
        }
        // One that has run out stays, to be stopped.
        let mut session = self.session.take();
        let looking = session.as_mut().and_then(|session| session.is_open().then_some(session));
        let result = self.tried(number, parameters, loss, optimizer, looking);
        self.session = session;
        let mut report = result?;
        self.step = number;
        if let Some(nan) = &mut report.nan_stats {
            self.put_back(nan, optimizer)?;
        }
        self.histories.note(&report);
        report.tell();
        Ok(report)
    }
    #[track_caller]
    fn tried(
        &mut self,
        number: u64,
        parameters: &[(String, Param)],
        loss: &mut dyn FnMut() -> Result<Tensor>,
        optimizer: &mut dyn Optimizer,
        mut session: Option<&mut DebugSession>,
    ) -> Result<StepStability> {
        let looks = session.as_ref().is_some_and(|session| session.looks_for_origins());
        let mut info = match &mut session {
            Some(session) => session.before(parameters, loss)?,
            None => DebugInfo::default(),
        };
        let NumericalStabilityManager { clipper, handler, .. } = self;
        let parts = parameters.iter().map(|(_, p)| p.clone()).collect();
        let mut run = StepRun { clipper, parameters: parts, loss, optimizer, clock: session.as_ref().map(|s| s.clock()), gradients: Vec::new() };
        // Before anything of a bad step is kept, its origin is looked for.
        let mut attempted = if looks { run.unless_bad(handler.as_mut())? } else { Some(run.attempt(handler.as_mut())?) };
        if let (None, Some(session)) = (&attempted, &session) {
            let looks_for = handler.as_ref().map(|handler| handler.options().traced()).unwrap_or_default();
            session.found(&mut info, &run.traced(parameters, looks_for)?)?;
            attempted = Some(run.attempt(handler.as_mut())?);
        }
        let Some((unread, kinds)) = attempted else { return refused("the step did not come to its end".into(), "") };
        let numbers = read(&unread, kinds.as_ref())?;
        let (gradients, seconds) = (std::mem::take(&mut run.gradients), run.clock.map(|clock| clock.seconds));
        let nan_stats = match numbers.kinds {
            Some(seen) => Some(self.told(seen, parameters, loss)?),
            None => None,
        };
        let mut debug_info = None;
        if let Some(session) = session {
            info.seconds = seconds.unwrap_or_default();
            session.after(number, &mut info, &gradients, parameters)?;
            debug_info = Some(info);
        }
        let performance_metrics = self.performance.as_mut().map(|source| source.metrics(number));
        Ok(StepStability {
            step: number,
            loss: numbers.loss,
            stability_score: score(nan_stats.as_ref(), numbers.clipping.as_ref()),
            clipping_stats: numbers.clipping,
            nan_stats,
            debug_info,
            performance_metrics,
        })
    }
    /// Under restore, what follows a bad step: unless there were too many in a row.
    #[track_caller]
    fn put_back(&mut self, nan: &mut NanStepStats, optimizer: &mut dyn Optimizer) -> Result<()> {
        let before = self.held_before.take();
        let Some(handler) = &mut self.handler else { return Ok(()) };
        let options = handler.options();
        if !nan.bad || nan.consecutive > options.max_consecutive {
            return Ok(());
        }
        // The first step from the held state on is bad: so may be the state.
        self.held = before.or(self.held.take());
        let Some(held) = &mut self.held else { return Ok(()) };
        held.put_back(optimizer, self.clipper.as_mut(), options.restore_lr_factor)?;
        nan.restored = Some(held.step);
        held.since = self.step;
        handler.reopen()
    }
    /// The kinds of a bad step: where the policy does not tell them apart, the step is run once more, and taken back.
    #[track_caller]
    fn told(&mut self, seen: SeenKinds, parameters: &[(String, Param)], loss: &mut dyn FnMut() -> Result<Tensor>) -> Result<NanStepStats> {
        let SeenKinds { good, mut nan, mut inf, mut overflow, mut explosion, committed } = seen;
        let (total, consecutive) = if good { (self.bad.0, 0) } else { (self.bad.0 + 1, self.bad.1 + 1) };
        self.bad = (total, consecutive);
        let is_told = nan || inf || overflow;
        if !good
            && !is_told
            && let Some(handler) = &self.handler
        {
            [nan, inf, overflow] = debug::kinds_of(parameters, loss, handler.options())?;
            // The norm of what is not finite says nothing.
            explosion &= !(nan || inf);
        }
        Ok(NanStepStats { nan, inf, overflow, explosion, bad: !good, committed, consecutive, total, restored: None })
    }
    /// A closure around the loss of a batch, with all of this around it: `wrapper.step(&model, &batch, &mut optimizer)` is
    /// [`NumericalStabilityManager::step`] of that batch, to the bit.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Linear, Module, Walk};
    /// # use adamant_optim::{ClippingOptions, Optimizer, Sgd, UpdateRule};
    /// # use adamant_stability::NumericalStabilityManager;
    /// # adamant_core::Device::reference().make_current();
    /// let model = Linear::new(2, 1)?;
    /// let mut sgd = Sgd::new(0.1).over(model.parameters());
    /// let manager = NumericalStabilityManager::new(Some(ClippingOptions::global_norm(1.0)), None, None, None)?;
    /// let mut wrapper = manager.create_training_wrapper(|x: &Tensor| model.forward(x)?.square().mean(..).ok());
    /// for k in 1..4 {
    ///     let batch = Tensor::from_vec(vec![k as f32, 1.0], [1, 2]);
    ///     assert_eq!(wrapper.step(&model, &batch, &mut sgd)?.step, k);
    /// }
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    pub fn create_training_wrapper<B: ?Sized, F: FnMut(&B) -> Result<Tensor>>(self, loss: F) -> TrainingWrapper<F, B> {
        TrainingWrapper { manager: self, loss, batch: std::marker::PhantomData }
    }
    /// Steps commit again, after an earlier state was put back: see [`NanHandler::reopen`].
    ///
    /// # Errors
    /// No memory.
    #[track_caller]
    pub fn reopen(&mut self) -> Result<()> {
        self.handler.as_mut().map_or(Ok(()), NanHandler::reopen)
    }
    /// Begins a debug session; one that is under way ends without its files.
    ///
    /// # Errors
    /// The manager was made without options for debugging.
    #[track_caller]
    pub fn start_debug_session(&mut self) -> Result<()> {
        let Some(options) = &self.debug else {
            return refused("there are no options for debugging".into(), "give them to `NumericalStabilityManager::new`");
        };
        self.session = Some(DebugSession::begin(options)?);
        Ok(())
    }
    /// Ends the debug session, also one that has run out, and writes its files where there is a folder for them.
    ///
    /// # Errors
    /// None is under way; a file that cannot be written.
    #[track_caller]
    pub fn stop_debug_session(&mut self) -> Result<DebugSummary> {
        match self.session.take() {
            Some(session) => session.end(),
            None => refused("no debug session is under way".into(), "begin one with `start_debug_session`"),
        }
    }
    /// What was kept of the steps.
    pub fn histories(&self) -> &Histories {
        &self.histories
    }
    /// Writes what was kept of the steps into a folder, which is made if it is not there: `clipping_history.json`, `nan_history.json`,
    /// `scores.json`, and `stability.html`, a page with the norms before and behind clipping, its ratio, the bad steps up to each step and
    /// what was done about them.
    ///
    /// # Errors
    /// A file that cannot be written.
    #[track_caller]
    pub fn save_histories(&self, folder: impl AsRef<Path>) -> Result<SavedHistories> {
        let handling = self.handler.as_ref().map(|handler| handler.options().handling_type);
        self.histories.save(folder.as_ref(), handling)
    }
    /// How bad numbers are handled, where they are.
    pub fn handling_type(&self) -> Option<HandlingType> {
        self.handler.as_ref().map(|handler| handler.options().handling_type)
    }
}
/// A training step of batches: [`NumericalStabilityManager::create_training_wrapper`].
pub struct TrainingWrapper<F, B: ?Sized> {
    manager: NumericalStabilityManager,
    loss: F,
    batch: std::marker::PhantomData<fn(&B)>,
}
impl<B: ?Sized, F: FnMut(&B) -> Result<Tensor>> TrainingWrapper<F, B> {
    /// One step on a batch.
    ///
    /// # Errors
    /// As [`NumericalStabilityManager::step`].
    #[track_caller]
    pub fn step(&mut self, model: &(impl Walk + ?Sized), batch: &B, optimizer: &mut dyn Optimizer) -> Result<StepStability> {
        let TrainingWrapper { manager, loss, .. } = self;
        manager.step(model, || loss(batch), optimizer)
    }
    /// The manager, for its histories and its debug sessions.
    pub fn manager(&mut self) -> &mut NumericalStabilityManager {
        &mut self.manager
    }
}

/// A step that can be run more than once.
struct StepRun<'a> {
    clipper: &'a mut Option<GradientClipper>,
    parameters: Vec<Param>,
    loss: &'a mut dyn FnMut() -> Result<Tensor>,
    optimizer: &'a mut dyn Optimizer,
    /// with a session
    clock: Option<PhaseClock>,
    /// before clipping, by the parameters' numbers, with a session
    gradients: Vec<(usize, Tensor)>,
}
type Attempted = (UnreadStep, Option<StepKinds>);
impl StepRun<'_> {
    #[track_caller]
    fn ended(&mut self, phase: SeenPhase, tensors: &[&Tensor]) -> Result<()> {
        self.clock.as_mut().map_or(Ok(()), |clock| clock.ended(phase, tensors))
    }
    #[track_caller]
    fn run(&mut self, handler: Option<&mut NanHandler>, saw_loss: &mut dyn FnMut(&Tensor)) -> Result<UnreadStep> {
        let loss = (self.loss)()?;
        saw_loss(&loss);
        self.ended(SeenPhase::Forward, &[&loss])?;
        let mut grads = loss.backward()?;
        let known = known(&grads, &self.parameters);
        self.ended(SeenPhase::Backward, &known.iter().map(|(_, g)| g).collect::<Vec<_>>())?;
        if self.clock.is_some() {
            self.gradients = known;
        }
        if let Some(handler) = handler {
            handler.handle(&loss, &mut grads, &self.parameters)?;
        }
        let clipped = match &mut *self.clipper {
            Some(clipper) => {
                let told = StepPhase::Clip.run(|| clipper.clip_for(&mut grads, &*self.optimizer))?;
                let behind: Vec<Tensor> = known_of(&grads, &self.parameters).collect();
                let behind = with_grad(false, || get_total_norm(&behind, 2.0, false))?;
                Some((told.norm, behind, told.threshold))
            }
            None => None,
        };
        self.ended(SeenPhase::Clip, &[])?;
        StepPhase::Optimizer.run(|| self.optimizer.step(&grads))?;
        self.ended(SeenPhase::Optimizer, &[])?;
        Ok(UnreadStep { loss: loss.detach(), clipped })
    }
    #[track_caller]
    fn attempt(&mut self, handler: Option<&mut NanHandler>) -> Result<Attempted> {
        match handler {
            Some(handler) => {
                let unread = handler.attempt(|handler| self.run(Some(handler), &mut |_| {}))?;
                Ok((unread, handler.last()))
            }
            None => Ok((step(|| self.run(None, &mut |_| {}))?, None)),
        }
    }
    /// The same, unless there is something bad in it: then it has changed nothing, and is none.
    #[track_caller]
    fn unless_bad(&mut self, handler: Option<&mut NanHandler>) -> Result<Option<Attempted>> {
        let mut is_bad = false;
        let attempted = step(|| {
            let attempted = match handler {
                Some(handler) => self.attempt(Some(handler))?,
                None => {
                    // Somebody has to look.
                    let mut looking = NanHandler::new(HandlingType::Skip)?;
                    let unread = looking.attempt(|handler| self.run(Some(handler), &mut |_| {}))?;
                    is_bad = matches!(looking.last(), Some(kinds) if !kinds.good.item::<bool>()?);
                    (unread, None)
                }
            };
            if let Some(kinds) = &attempted.1 {
                is_bad = !kinds.good.item::<bool>()?;
            }
            match is_bad {
                true => refused("a step with bad numbers is taken back".into(), ""),
                false => Ok(attempted),
            }
        });
        match attempted {
            Err(_) if is_bad => Ok(None),
            other => other.map(Some),
        }
    }
    /// Where the first bad number of the step comes from.
    #[track_caller]
    fn traced(&mut self, parameters: &[(String, Param)], looks_for: TraceOptions) -> Result<StepTrace> {
        let named: Vec<_> = parameters.iter().map(|(name, p)| (StepPhase::Forward, name.clone(), p.detached())).collect();
        trace_with(looks_for, &named, |saw_loss| self.run(None, saw_loss).map(|_| ()))
    }
}
/// The gradients that there are, by the parameters' numbers.
fn known(grads: &Grads, parameters: &[Param]) -> Vec<(usize, Tensor)> {
    parameters.iter().enumerate().filter_map(|(k, p)| grads.of(&p.cell()).map(|g| (k, g.detach()))).collect()
}
fn known_of<'g>(grads: &'g Grads, parameters: &'g [Param]) -> impl Iterator<Item = Tensor> + 'g {
    parameters.iter().filter_map(|p| grads.of(&p.cell()).map(Tensor::detach))
}
/// Kinds of a step as they were read.
struct SeenKinds {
    good: bool,
    nan: bool,
    inf: bool,
    overflow: bool,
    explosion: bool,
    committed: bool,
}
struct StepNumbers {
    loss: f64,
    clipping: Option<ClippingStats>,
    kinds: Option<SeenKinds>,
}
/// All numbers of a step, in one read.
#[track_caller]
fn read(step: &UnreadStep, kinds: Option<&StepKinds>) -> Result<StepNumbers> {
    let device = step.loss.try_meta()?.device;
    let dtype = device.widest_float();
    let absent = || Tensor::from_vec_on(vec![f32::NAN], (), device);
    let mut all = vec![step.loss.clone()];
    if let Some((before, behind, threshold)) = &step.clipped {
        all.extend([before.clone(), behind.clone(), threshold.clone().unwrap_or_else(absent)]);
    }
    if let Some(StepKinds { good, committed, kinds }) = kinds {
        let or_not = |kind: &Option<Tensor>| kind.clone().unwrap_or_else(|| Tensor::from_vec_on(vec![0f32], (), device));
        all.extend([good.clone(), committed.clone(), or_not(&kinds.nan), or_not(&kinds.inf), or_not(&kinds.overflow), or_not(&kinds.explosion)]);
    }
    let all: Vec<Tensor> = all.iter().map(|t| t.to(device).cast(dtype).reshape([1])).collect();
    let mut numbers = Tensor::cat(&all, 0).to_vec_as::<f64>()?.into_iter();
    let mut next = || numbers.next().unwrap_or(f64::NAN);
    let loss = next();
    let clipping = step.clipped.as_ref().map(|(.., threshold)| {
        let (norm, clipped_norm, limit) = (next(), next(), next());
        let ratio = if norm.is_finite() && norm > 0.0 { (1.0 - clipped_norm / norm).clamp(0.0, 1.0) } else { 0.0 };
        ClippingStats { norm, clipped_norm, threshold: threshold.as_ref().map(|_| limit), ratio }
    });
    let kinds = kinds.map(|_| {
        let mut is = || next() != 0.0;
        let (good, committed, nan, inf, overflow, explosion) = (is(), is(), is(), is(), is(), is());
        SeenKinds { good, nan, inf, overflow, explosion, committed }
    });
    Ok(StepNumbers { loss, clipping, kinds })
}
impl StepStability {
    /// Tells who listens to the crate `tracing`: one event for each step, another one for what went wrong.
    fn tell(&self) {
        #[cfg(feature = "tracing")]
        {
            let (clipped, bad) = (self.clipping_stats.as_ref(), self.nan_stats.as_ref());
            tracing::debug!(
                target: "adamant::stability",
                step = self.step,
                loss = self.loss,
                stability_score = self.stability_score,
                norm = clipped.map(|c| c.norm),
                clipped_norm = clipped.map(|c| c.clipped_norm),
                ratio = clipped.map(|c| c.ratio),
                "step"
            );
            if let Some(bad) = bad.filter(|bad| bad.bad) {
                tracing::warn!(
                    target: "adamant::stability",
                    step = self.step,
                    nan = bad.nan,
                    inf = bad.inf,
                    overflow = bad.overflow,
                    explosion = bad.explosion,
                    committed = bad.committed,
                    consecutive = bad.consecutive,
                    total = bad.total,
                    "bad numbers"
                );
            }
        }
    }
}
/// For files.
pub(crate) fn written(path: PathBuf, text: &str) -> Result<PathBuf> {
    match std::fs::write(&path, text) {
        Ok(()) => Ok(path),
        Err(e) => Err(Error::new("NumericalStabilityManager", ErrorKind::Argument(format!("{}: {e}", path.display())))),
    }
}
