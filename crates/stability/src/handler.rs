//! The policy at work: a step with bad numbers changes nothing, or is mended, without a word that the host waits for.
use crate::{
    NanOptions, NanStats, WatchMode,
    cells::NanCells,
    every::EveryOp,
    kinds::{BadKinds, are_finite, is_good, looks_at_exponents, mended, replaced},
    norms::StepNorm,
    trace::moves,
    visit::unseen,
    visit_ops,
};
use adamant_core::{
    Cell, DType, Device, Error, ErrorKind, Grads, Op, Outputs, Result, Tensor, WrittenCell,
    composite::wide::wide,
    grad::{grad_enabled, with_grad},
    intercept::{self, Interceptor},
    profile::record_function,
    step, step_reviewed,
};
use adamant_nn::Param;
use std::{cell::RefCell, sync::Arc};

/// What was found in the attempt under way.
#[derive(Default)]
struct Findings {
    good: Option<Tensor>,
    kinds: BadKinds,
    norm: Option<StepNorm>,
    handled: bool,
    /// results of the forward pass's ops
    activations: Vec<Tensor>,
    /// gradients that are looked at together with what the step writes, each with its weight
    gradients: Vec<(Cell, Tensor)>,
    /// where each op is looked at
    every: Option<Arc<EveryOp>>,
    /// Is the step applied? Where somebody else decides, too, one that is not is not bad.
    applied: Option<Tensor>,
    commits: Option<Tensor>,
}
/// The most tensors that are looked at in one pass: what they are made of must fit into one kernel.
const TOGETHER: usize = 5;
impl Findings {
    /// What a step writes, and the gradients that were left for now. What a rule writes for one weight, its slots, then the weight itself, is
    /// computed of the same tensors: one pass over those looks at all of it, and at the gradient, and leaves nothing in memory.
    fn look_at(&mut self, written: &[&WrittenCell], device: Device) {
        let mut together: Vec<Tensor> = Vec::new();
        let fits = |together: &[Tensor], x: &Tensor| {
            let place = |x: &Tensor| x.try_meta().map(|meta| (meta.device, meta.shape)).ok();
            together.len() < TOGETHER && together.first().is_none_or(|first| place(first) == place(x))
        };
        for w in written {
            let new = w.cell.detached();
            if !fits(&together, &new) {
                self.close(&mut together, device);
            }
            together.push(new);
            if let Some(k) = self.gradients.iter().position(|(cell, _)| cell.id() == w.cell.id()) {
                if fits(&together, &self.gradients[k].1) {
                    together.push(self.gradients.swap_remove(k).1);
                }
                self.close(&mut together, device);
            }
        }
        self.close(&mut together, device);
    }
    /// The gradients that were left for now, each on its own.
    fn look_at_gradients(&mut self, options: &NanOptions, device: Device) {
        for (_, g) in std::mem::take(&mut self.gradients) {
            self.and(is_good(&g, options, device));
        }
    }
    fn close(&mut self, together: &mut Vec<Tensor>, device: Device) {
        if let Some(good) = are_finite(together, device) {
            self.and(good);
        }
        together.clear();
    }
    /// What was found so far is not bad where the step is not applied.
    fn excuse(&mut self, applied: Tensor, options: &NanOptions, device: Device) {
        self.look_at_gradients(options, device);
        self.kinds = std::mem::take(&mut self.kinds).where_applied(Some(&applied));
        self.good = self.good.take().map(|good| good.logical_or(applied.logical_not()));
        self.applied = Some(applied);
    }
    /// What the ops so far gave: of which kinds it is comes with it, whatever the policy.
    fn look_at_ops(&mut self, options: &NanOptions, device: Device) {
        let Some(every) = &self.every else { return };
        let kinds = every.take(options, device).where_applied(self.applied.as_ref());
        self.kinds = std::mem::take(&mut self.kinds).or(kinds);
    }
    /// Would a bad number in it be known already?
    fn has_judged(&self, x: &Tensor, options: &NanOptions) -> bool {
        options.detect_nan && options.detect_inf && self.every.as_ref().is_some_and(|every| every.has_judged(x))
    }
    fn and(&mut self, good: Tensor) {
        self.good = Some(match self.good.take() {
            Some(before) => before.logical_and(&good),
            None => good,
        });
    }
}

/// Looks at the numbers of training steps, and handles bad ones by a policy.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module, Walk};
/// # use adamant_optim::{Optimizer, Sgd, UpdateRule};
/// # use adamant_stability::{HandlingType, NanHandler};
/// # adamant_core::Device::reference().make_current();
/// let model = Linear::new(2, 1)?;
/// let mut sgd = Sgd::new(0.1).over(model.parameters());
/// let mut handler = NanHandler::new(HandlingType::Skip)?;
/// for value in [1.0f32, f32::NAN, 2.0] {
///     handler.attempt(|handler| {
///         let loss = model.forward(&Tensor::from_vec(vec![value, 1.0], [1, 2]))?.square().mean(..);
///         let mut grads = loss.backward()?;
///         handler.handle(&loss, &mut grads, &model.parameters())?;
///         sgd.step(&grads)
///     })?;
/// }
/// assert!(model.parameters().iter().all(|p| p.detached().is_finite_all().unwrap()));
/// assert_eq!(handler.look()?.bad, 1);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// Under a policy that suppresses a step ([`Skip`](crate::HandlingType::Skip), [`Restore`](crate::HandlingType::Restore),
/// [`Stop`](crate::HandlingType::Stop)) everything that the step wrote keeps its bits: weights, slots, counts of steps, running statistics,
/// the generator. Under one that mends, elements that would not be finite keep what they were.
pub struct NanHandler {
    options: NanOptions,
    tells_kinds: bool,
    cells: Option<NanCells>,
    /// loaded before there was a step
    loaded: Vec<(String, Tensor)>,
    found: Option<Findings>,
    last: Option<StepKinds>,
    agree: Option<AgreedVerdict>,
}
/// What all ranks make of one rank's verdict: a bool of no axes.
type AgreedVerdict = Arc<dyn Fn(&Tensor) -> Tensor + Send + Sync>;
/// What was found in the last step, as bools of no axes.
#[derive(Clone)]
pub(crate) struct StepKinds {
    pub good: Tensor,
    /// Did it change anything?
    pub committed: Tensor,
    pub kinds: BadKinds,
}
#[track_caller]
fn refused<T>(text: &str, hint: &'static str) -> Result<T> {
    Err(Error::new("NanHandler", ErrorKind::Argument(text.into())).hint(hint))
}
impl NanHandler {
    /// A handler that has seen no step.
    ///
    /// # Errors
    /// Numbers that make no sense: the error names the one.
    #[track_caller]
    pub fn new(options: impl Into<NanOptions>) -> Result<NanHandler> {
        let options = options.into();
        options.check()?;
        let tells_kinds = options.handling_type.mends() || options.handling_type == crate::HandlingType::Detect;
        Ok(NanHandler { options, tells_kinds, cells: None, loaded: Vec::new(), found: None, last: None, agree: None })
    }
    /// Steps are good where all ranks find them good that share them: `agree` makes of this rank's verdict (a bool of no axes) that of all, and
    /// is asked once in each step. For ranks that look at different numbers, as pieces of gradients.
    pub fn agree_by(&mut self, agree: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static) {
        self.agree = Some(Arc::new(agree));
    }
    /// Counts NaN, infinities and overflows apart under every policy: a look more at each gradient. Policies that mend do so anyway.
    #[must_use]
    pub fn tell_kinds(mut self, tell: bool) -> NanHandler {
        self.tells_kinds |= tell;
        self
    }
    /// Its numbers.
    pub fn options(&self) -> &NanOptions {
        &self.options
    }
    /// Makes its cells on a device now instead of where the first loss is: before a step is captured.
    ///
    /// # Errors
    /// No memory.
    #[track_caller]
    pub fn prepare(&mut self, device: Device) -> Result<()> {
        if self.cells.is_none() {
            let cells = NanCells::new(device)?;
            if !self.loaded.is_empty() {
                cells.load(&self.loaded)?;
                self.loaded.clear();
            }
            self.cells = Some(cells);
        }
        Ok(())
    }
    /// Looks at a loss and at the parameters' gradients, which a policy that mends changes: to be called between the walk back and
    /// clipping.
    ///
    /// # Errors
    /// Outside of [`NanHandler::attempt`], or twice in it; a tensor that carries an error.
    #[track_caller]
    pub fn handle(&mut self, loss: &Tensor, grads: &mut Grads, parameters: &[Param]) -> Result<()> {
        match &self.found {
            None => return refused("no step is under way", "call it inside of `attempt`"),
            Some(found) if found.handled => return refused("the gradients of this step were handled already", "call it once for each `attempt`"),
            Some(_) => {}
        }
        let meta = loss.try_meta()?;
        self.prepare(meta.device)?;
        let (Some(cells), Some(found)) = (&self.cells, &mut self.found) else { return refused("no step is under way", "call it inside of `attempt`") };
        let (options, device) = (&self.options, cells.device);
        let _range = record_function("stability");
        found.handled = true;
        // The forward pass is over.
        found.activations = ACTIVATIONS.take().unwrap_or_default();
        let judge = || {
            found.look_at_ops(options, device);
            let mut looked: Vec<&Tensor> = Vec::new();
            looked.extend(options.loss_checking.then_some(loss));
            // They are looked at with what becomes of them.
            let later = options.parameter_checking && looks_at_exponents(options) && !self.tells_kinds;
            let known: Vec<&Param> = parameters.iter().filter(|p| grads.of(&p.cell()).is_some()).collect();
            if options.gradient_checking && later {
                let is_unknown = |g: &Tensor| g.dtype().is_ok_and(DType::is_float) && !found.has_judged(g, options);
                let unknown: Vec<_> = known.iter().filter_map(|p| Some((p.cell(), grads.of(&p.cell())?.detach()))).filter(|(_, g)| is_unknown(g)).collect();
                found.gradients.extend(unknown);
            } else if options.gradient_checking {
                looked.extend(known.iter().filter_map(|p| grads.of(&p.cell())));
            }
            for x in looked.into_iter().filter(|x| x.dtype().is_ok_and(DType::is_float)) {
                if found.has_judged(x, options) {
                    continue;
                }
                if self.tells_kinds {
                    found.kinds = std::mem::take(&mut found.kinds).or(BadKinds::of(x, options, device));
                } else {
                    found.and(is_good(x, options, device));
                }
            }
            if options.detect_explosion {
                let gradients: Vec<&Tensor> = known.iter().filter_map(|p| grads.of(&p.cell())).collect();
                found.norm = cells.norms.of(&gradients, options)?;
                // The norm of what is not finite says nothing.
                let exploded = |norm: &StepNorm| match found.kinds.not_finite() {
                    Some(bad) => norm.explodes.logical_and(bad.logical_not()),
                    None => norm.explodes.clone(),
                };
                found.kinds.explosion = found.norm.as_ref().map(exploded);
            }
            if !options.handling_type.mends() {
                return Ok(());
            }
            let factor = found.norm.as_ref().zip(found.kinds.explosion.as_ref()).map(|(norm, explodes)| norm.factor(explodes));
            for p in known {
                let Some(g) = grads.of(&p.cell()) else { continue };
                let mended = mended_gradient(g, &found.kinds, factor.as_ref(), options)?;
                grads.set(&p.cell(), mended);
            }
            Ok(())
        };
        unseen(|| with_grad(false, judge))
    }
    /// A step that somebody else holds back, a loss scaler, is not bad: to be called behind [`NanHandler::handle`] with a bool of no axes,
    /// whether the step is applied.
    ///
    /// # Errors
    /// Outside of [`NanHandler::attempt`].
    #[track_caller]
    pub fn excuse(&mut self, applied: &Tensor) -> Result<()> {
        let (Some(cells), Some(found)) = (&self.cells, &mut self.found) else { return refused("no step is under way", "call it inside of `attempt`") };
        let applied = applied.detach();
        unseen(|| found.excuse(applied, &self.options, cells.device));
        Ok(())
    }
    /// Runs one attempt of a whole step: forward, walk back, [`NanHandler::handle`], clipping, the optimizer's step. What it wrote commits
    /// as the policy says.
    ///
    /// # Errors
    /// Those of `f`, and no call of [`NanHandler::handle`] in it: then nothing has changed.
    #[track_caller]
    pub fn attempt<R>(&mut self, f: impl FnOnce(&mut NanHandler) -> Result<R>) -> Result<R> {
        if self.found.is_some() {
            return refused("another step is under way", "an attempt has no other one in it");
        }
        let watches = self.options.activation_checking;
        let every = (self.options.mode == WatchMode::Full).then(Arc::<EveryOp>::default);
        self.found = Some(Findings { every: every.clone(), ..Findings::default() });
        let tried = step(|| {
            let this = RefCell::new(&mut *self);
            let run = || {
                let mut this = this.borrow_mut();
                let run = || if watches { this.watched(f) } else { f(&mut this) };
                let result = match every.clone() {
                    Some(every) => visit_ops(every, run)?,
                    None => run()?,
                };
                this.join();
                Ok(result)
            };
            let result = step_reviewed(run, |_, written| {
                let _range = record_function("stability");
                with_grad(false, || this.borrow_mut().review(written))
            })?;
            let _range = record_function("stability");
            with_grad(false, || this.borrow().count())?;
            Ok(result)
        });
        let found = self.found.take();
        self.last = found.filter(|_| tried.is_ok()).and_then(|found| Some(StepKinds { good: found.good?, committed: found.commits?, kinds: found.kinds }));
        tried
    }
    /// Runs `f`, and notes the results of all ops of its forward pass that are floats.
    #[track_caller]
    fn watched<R>(&mut self, f: impl FnOnce(&mut NanHandler) -> Result<R>) -> Result<R> {
        struct Restore(Option<Vec<Tensor>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                ACTIVATIONS.set(self.0.take());
            }
        }
        let _restore = Restore(ACTIVATIONS.replace(Some(Vec::new())));
        intercept::with(Arc::new(ActivationWatch), || f(self))
    }
    fn join(&mut self) {
        let (Some(cells), Some(found)) = (&self.cells, &mut self.found) else { return };
        let _range = record_function("stability");
        found.look_at_ops(&self.options, cells.device);
        for x in std::mem::take(&mut found.activations) {
            if self.tells_kinds {
                let kinds = BadKinds::of(&x, &self.options, cells.device).where_applied(found.applied.as_ref());
                found.kinds = std::mem::take(&mut found.kinds).or(kinds);
            } else {
                let good = is_good(&x, &self.options, cells.device);
                found.and(match &found.applied {
                    Some(applied) => good.logical_or(applied.logical_not()),
                    None => good,
                });
            }
        }
    }
    /// What was written commits, or not, or is mended.
    #[track_caller]
    fn review(&mut self, written: &[WrittenCell]) -> Result<()> {
        let (Some(cells), Some(found)) = (&self.cells, &mut self.found) else { return unhandled() };
        if !found.handled {
            return unhandled();
        }
        let options = &self.options;
        let is_float = |w: &&WrittenCell| matches!(w.cell.meta().dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
        let device = cells.device;
        if options.parameter_checking {
            let is_unjudged = |w: &&WrittenCell| !found.has_judged(&w.cell.detached(), options);
            let unjudged: Vec<_> = written.iter().filter(is_float).filter(is_unjudged).collect();
            found.look_at(&unjudged, device);
        }
        found.every.iter().for_each(|every| every.forget());
        // Those of weights that were not written.
        found.look_at_gradients(options, device);
        if let Some(bad) = found.kinds.any() {
            found.and(bad.logical_not());
        }
        let good = match &found.good {
            Some(good) => good.clone(),
            None => cells.state.detached().ge(0u32),
        };
        let good = self.agree.as_ref().map_or(good.clone(), |agree| agree(&good));
        found.good = Some(good.clone());
        let policy = options.handling_type;
        if policy == crate::HandlingType::Detect {
            found.commits = Some(good.logical_or(true));
            return Ok(());
        }
        let open = cells.latches(&good, options).logical_not();
        let commits = if policy.mends() { open } else { open.logical_and(&good) };
        found.commits = Some(commits.clone());
        for w in written {
            let to = w.cell.meta().device;
            let commits = if to == device { commits.clone() } else { commits.to(to) };
            let mut new = w.cell.detached();
            if policy.mends() && options.parameter_checking && is_float(&w) {
                new = mended(&new, &w.before, options);
            }
            w.cell.set(&commits.where_(&new, &w.before))?;
        }
        Ok(())
    }
    /// What was found in the last attempt, where it came to its end.
    pub(crate) fn last(&self) -> Option<StepKinds> {
        self.last.clone()
    }
    /// Counts the step.
    #[track_caller]
    fn count(&self) -> Result<()> {
        let (Some(cells), Some(found)) = (&self.cells, &self.found) else { return unhandled() };
        let Some(good) = &found.good else { return unhandled() };
        if let Some(norm) = &found.norm {
            cells.norms.take_in(norm, &good.logical_and(cells.latched().logical_not()))?;
        }
        cells.count(good, &found.kinds, &self.options)
    }
    /// What was counted so far, which waits for the device.
    ///
    /// # Errors
    /// A device that failed; inside of a function that is being captured, where nothing can be read.
    #[track_caller]
    pub fn look(&self) -> Result<NanStats> {
        self.cells.as_ref().map_or_else(|| Ok(NanStats::default()), NanCells::look)
    }
    /// Steps commit again, and are counted from 0: after an earlier state was put back. How many bad ones there were in a row, and how many in
    /// all, is kept.
    ///
    /// # Errors
    /// No memory.
    #[track_caller]
    pub fn reopen(&mut self) -> Result<()> {
        match &self.cells {
            Some(cells) => step(|| cells.state.set(&cells.state.detached().zeros_like())),
            None => Ok(()),
        }
    }
    /// What it counts, by name: nothing before the first step.
    pub fn state_dict(&self) -> Vec<(String, Tensor)> {
        self.cells
            .as_ref()
            .map_or_else(|| self.loaded.clone(), |cells| vec![("counts".into(), cells.counts.detached()), ("norms".into(), cells.norms.detached())])
    }
    /// Takes over what [`NanHandler::state_dict`] gave; an empty state is that of a handler that has seen no step. Steps commit again.
    ///
    /// # Errors
    /// A name that is missing or unknown, a tensor of another shape. Then nothing has changed.
    #[track_caller]
    pub fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        match &self.cells {
            Some(cells) => cells.load(state),
            None => {
                if !state.is_empty() {
                    NanCells::new(Device::reference())?.load(state)?;
                }
                self.loaded = state.to_vec();
                Ok(())
            }
        }
    }
}
#[track_caller]
fn unhandled<T>() -> Result<T> {
    refused("the step did not hand over its gradients", "call `handle` of the handler that `attempt` gives, between `backward` and the optimizer's step")
}
/// A gradient under a policy that mends, by the kinds that the whole step has.
#[track_caller]
fn mended_gradient(g: &Tensor, kinds: &BadKinds, of_explosion: Option<&Tensor>, options: &NanOptions) -> Result<Tensor> {
    use crate::HandlingType::{Adaptive, GradientScaling, GradientZeroing};
    let meta = g.try_meta()?;
    let dtype = wide(meta.dtype);
    let there = |kind: &Option<Tensor>| kind.as_ref().map(|k| k.to(meta.device));
    let mut replaced = replaced(g, options);
    if let Some(factor) = of_explosion {
        replaced = (replaced.cast(dtype) * factor.to(meta.device).cast(dtype)).cast(meta.dtype).ok()?;
    }
    let scaled = |factor: Tensor| (replaced.cast(dtype) * factor).cast(meta.dtype);
    let zero = g.zeros_like();
    match options.handling_type {
        GradientZeroing => match there(&kinds.any()) {
            Some(bad) => bad.where_(zero, g).ok(),
            None => Ok(g.clone()),
        },
        Adaptive => {
            let weights = [(&kinds.nan, 1.0), (&kinds.inf, 0.7), (&kinds.overflow, 0.3)];
            let known = weights.into_iter().filter_map(|(kind, weight)| Some(there(kind)?.cast(dtype) * weight));
            let Some(severity) = known.reduce(|sum, of| sum + of) else { return Ok(g.clone()) };
            let half = scaled(severity.gt(0.0).where_(severity.full_like(0.5), 1.0));
            let mended = severity.ge(0.8).where_(&replaced, half);
            severity.ge(1.5).where_(zero, mended).ok()
        }
        GradientScaling => {
            let weights = [(&kinds.overflow, 0.7), (&kinds.inf, 0.3), (&kinds.nan, 0.1)];
            let mut factor: Option<Tensor> = None;
            for (kind, weight) in weights {
                let Some(kind) = there(kind) else { continue };
                let before = factor.take().unwrap_or_else(|| kind.cast(dtype).full_like(1.0));
                factor = Some(kind.where_(before.full_like(weight), before));
            }
            factor.map_or_else(|| Ok(g.clone()), |factor| scaled(factor).ok())
        }
        _ => replaced.ok(),
    }
}
thread_local! {
    static ACTIVATIONS: RefCell<Option<Vec<Tensor>>> = const { RefCell::new(None) };
}
/// Notes the results of ops whose gradients are recorded.
struct ActivationWatch;
impl Interceptor for ActivationWatch {
    fn intercept(&self, op: Op, arg: adamant_core::Arg, inputs: &[&Tensor], next: &dyn Fn(Op, adamant_core::Arg, &[&Tensor]) -> Outputs) -> Outputs {
        let moves = moves(&op);
        let outputs = next(op, arg, inputs);
        if !moves && grad_enabled() {
            let floats = outputs.iter().filter(|t| t.dtype().is_ok_and(DType::is_float));
            let _ = ACTIVATIONS.try_with(|seen| {
                if let Some(seen) = &mut *seen.borrow_mut() {
                    seen.extend(floats.map(Tensor::detach));
                }
            });
        }
        outputs
    }
}
