//! The state of a training run, and one step of it.
//!
//! Everything that the next step depends on is here or follows from it: parameters and buffers, the optimizer's slots and
//! numbers, the schedule's position, the running mean of the weights, the generator, and the losses of the epoch so far. The
//! position in the data is the loader's, and the run keeps it.
//! [`Session::snapshot`] takes all of it; a session of the same description that [`Session::restore`]s it goes on with
//! the same bits.
mod attempted;
mod brought;
mod captured;
mod collected;
mod compressed;
mod learned;
mod losses;
mod meshed;
mod own;
mod pieces;
mod saved;
mod scaled;
mod scattered;
mod sharded;
mod shared;
mod watched;

use crate::{
    Failure,
    checkpoint::{self, Snapshot},
    monitor,
    trainer::{Batch, Monitor, Score, Steer, measure},
};
use adamant_amp::{AmpStats, Autocast, Precision};
use adamant_core::{Device, Outputs, Result as Computed, Tensor, compile::Captures};
use adamant_nn::{Param, RngState, Walk, rng_state, set_rng_state};
use adamant_optim::{
    ClippingOptions, GradAccumulator, GradientClipper, Optimizer, WeightAverage,
    schedule::{ReduceLrOnPlateau, Schedule, Scheduler},
};
use adamant_stability::{LookedNumbers, NanHandler, NanOptions, OpVisitor, visit_ops};
use captured::CapturedStep;
pub use captured::OpByOp;
pub use compressed::{CompressionPlan, GradientCompression};
use losses::{Losses, UnreadLoss};
use meshed::CollectedModel;
pub use meshed::{MeshedModel, PassOf, WholeModel};
pub use pieces::UnitCuts;
use saved::{Saved, SavedPace};
use scaled::SteppedPrecision;
pub(crate) use scaled::{FP8, fallen};
use serde::{Deserialize, Serialize};
pub use sharded::ZeroStage;
use shared::SharedSteps;
pub(crate) use shared::gather;
pub use shared::{ALL_AT_ONCE, StepSharing, first_bucket};
use std::{collections::BTreeMap, sync::Arc};
pub(crate) use watched::LookedAt;
use watched::{SessionLooks, SteppedWatch};

/// Where a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// steps done
    pub step: u64,
    /// epochs done
    pub epoch: u64,
}
/// The tensors of a checkpoint with the norms that clipping remembers.
const CLIP: &str = "clip";
/// Those with what compressed gradients have not sent yet.
const COMPRESSED: &str = "compressed";
/// What decides the learning rate.
#[derive(Default)]
pub enum Course {
    /// it stays as it is
    #[default]
    Constant,
    /// the step
    Schedule(Box<dyn Schedule>),
    /// a measure that stops getting better
    Plateau(ReduceLrOnPlateau, Monitor),
}
/// A course that has begun.
enum BegunCourse {
    Constant,
    Schedule(Scheduler<Box<dyn Schedule>>),
    Plateau(ReduceLrOnPlateau, Monitor),
}
impl BegunCourse {
    fn of(course: Course, optimizer: &mut dyn Optimizer) -> BegunCourse {
        match course {
            Course::Constant => BegunCourse::Constant,
            Course::Schedule(schedule) => BegunCourse::Schedule(Scheduler::new(schedule, optimizer)),
            Course::Plateau(rule, monitor) => BegunCourse::Plateau(rule, monitor),
        }
    }
}

/// The mean loss of a batch.
pub type LossOf<M, B> = Arc<dyn Fn(&M, &B) -> Computed<Tensor> + Send + Sync>;
/// How a session learns, beside the loss.
pub struct Habits {
    /// what changes the weights
    pub optimizer: Box<dyn Optimizer>,
    /// what decides the learning rate
    pub course: Course,
    /// how gradients are limited, if they are
    pub clip: Option<ClippingOptions>,
    /// what is done about numbers that are not finite; none: nobody looks, and a loss that is no number ends the run
    pub stability: Option<NanOptions>,
    /// batches in a step
    pub accumulate: usize,
    /// the decay of a running mean of the weights, which is what is judged and kept in the end
    pub ema: Option<f64>,
    /// are steps captured where they can be? What comes out has the same bits
    pub capture: bool,
    /// what steps compute in
    pub precision: Precision,
}

/// A run's state. See the module's documentation.
pub struct Session<M, B> {
    /// the model
    pub model: M,
    loss: LossOf<M, B>,
    optimizer: Box<dyn Optimizer>,
    pace: BegunCourse,
    clipper: Option<GradientClipper>,
    accumulator: GradAccumulator,
    average: Option<WeightAverage>,
    parameters: Vec<(String, Param)>,
    device: Device,
    position: Position,
    losses: Losses,
    captured: CapturedStep,
    precision: SteppedPrecision,
    watched: SteppedWatch,
    looks: SessionLooks,
    shared: Option<SharedSteps>,
    /// what of the model this rank has, and how a step goes through all stages, where others have the rest
    meshed: Option<Arc<MeshedModel>>,
    pass: Option<PassOf<M, B>>,
    /// may other parameters have gradients in each step?
    graph_changes: bool,
    /// what all ranks together have, until a snapshot is taken
    collected: Option<CollectedModel>,
}
/// What a step leaves for those who watch it.
pub struct Stepped {
    /// the norm of all gradients before clipping, where it was asked for or needed anyway
    pub grad_norm: Option<Tensor>,
    /// the norm behind clipping, where `grad_norm` was asked for and there is clipping
    pub clipped_norm: Option<Tensor>,
    /// the norm of each parameter's gradient before clipping, where it was asked for
    pub norms: Vec<(String, f64)>,
    /// what layers and parameters were like, where that was asked for
    pub layers: Option<LookedNumbers>,
}
/// What is to be looked at in a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// the norm of all gradients
    pub norm: bool,
    /// the norm of each parameter's gradient: gradients that would never be memory become it for this
    pub each: bool,
    /// what each layer gave, and what became of each parameter
    pub layers: bool,
    /// what runs, by a profiler around the step: it is captured apart, so that its ranges are known
    pub recorded: bool,
}
/// What a step works on: all of it is cells and arguments, so a step is the same ops each time.
struct StepParts<'a, M, B> {
    model: &'a M,
    loss: &'a LossOf<M, B>,
    pass: Option<&'a PassOf<M, B>>,
    optimizer: &'a mut dyn Optimizer,
    clipper: Option<&'a mut GradientClipper>,
    accumulator: &'a mut GradAccumulator,
    average: Option<&'a mut WeightAverage>,
    parameters: &'a [(String, Param)],
    precision: &'a mut SteppedPrecision,
    handler: Option<&'a mut NanHandler>,
    looks: &'a mut SessionLooks,
    shared: Option<&'a SharedSteps>,
    device: Device,
}
impl<M: Walk, B: Batch> Session<M, B> {
    /// A session at its first step.
    ///
    /// # Errors
    /// `accumulate` is 0, a decay outside [0, 1), numbers of clipping that make no sense.
    pub fn new(model: M, loss: LossOf<M, B>, habits: Habits, device: Device) -> Result<Session<M, B>, Failure> {
        let Habits { mut optimizer, course, clip, stability, accumulate, ema, capture, precision } = habits;
        let precision = SteppedPrecision::new(precision, device)?;
        let pace = BegunCourse::of(course, &mut *optimizer);
        let parameters: Vec<_> = model.named_parameters().into_iter().filter(|(_, p)| p.is_trainable()).collect();
        let leaves = model.trainable_parameters();
        let average = ema.map(|decay| WeightAverage::exponential(&leaves, decay)).transpose()?;
        let mut clipper = clip.map(GradientClipper::new).transpose()?;
        clipper.as_mut().map(|clipper| clipper.prepare(device)).transpose()?;
        let accumulator = GradAccumulator::new(leaves, accumulate)?;
        model.train();
        let (position, losses) = (Position::default(), Losses::after(f64::NAN));
        let (captured, watched, looks) = (CapturedStep::new(capture, device), SteppedWatch::new(stability, device)?, SessionLooks::of(&model));
        Ok(Session {
            model,
            loss,
            optimizer,
            pace,
            clipper,
            accumulator,
            average,
            parameters,
            device,
            position,
            losses,
            captured,
            precision,
            watched,
            looks,
            shared: None,
            meshed: None,
            pass: None,
            graph_changes: false,
            collected: None,
        })
    }
    /// Where it is.
    pub fn position(&self) -> Position {
        self.position
    }
    /// The device.
    pub fn device(&self) -> Device {
        self.device
    }
    /// The learning rate of the next step.
    pub fn lr(&self) -> f64 {
        self.optimizer.lrs().first().copied().unwrap_or(0.0)
    }
    /// What changes the weights.
    pub fn optimizer(&self) -> &dyn Optimizer {
        &*self.optimizer
    }
    /// What changes the weights, to change its numbers: a captured step asks for them at each call.
    pub fn optimizer_mut(&mut self) -> &mut dyn Optimizer {
        &mut *self.optimizer
    }
    /// The parameters and their names.
    pub fn parameters(&self) -> &[(String, Param)] {
        &self.parameters
    }
    /// Why steps are not captured, if they are not.
    pub fn op_by_op(&self) -> Option<&OpByOp> {
        self.captured.off()
    }
    /// How often steps were captured.
    pub fn captures(&self) -> Captures {
        self.captured.captures()
    }
    /// As [`Session::op_by_op`], to be told once.
    pub(crate) fn take_op_by_op(&mut self) -> Option<OpByOp> {
        self.captured.news()
    }
    /// The region of mixed precision that the model's forward runs in now, without the layers that fell back; none in f32.
    pub fn region(&self) -> Option<Autocast> {
        self.precision.region()
    }
    /// What mixed precision did so far, which waits for the device; none in f32.
    ///
    /// # Errors
    /// A device that failed.
    pub fn amp_stats(&self) -> Result<Option<AmpStats>, Failure> {
        Ok(self.precision.stats()?)
    }
    /// The layers that fell back to f32 since this was asked last.
    pub(crate) fn take_fallbacks(&mut self) -> Vec<String> {
        self.precision.take_news()
    }
    /// One step on a group of batches: as many as are accumulated, or fewer at the end of an epoch.
    ///
    /// # Errors
    /// What the model, the loss or the optimizer came to; then no parameter has changed.
    pub fn step(&mut self, group: &[B], look: Look) -> Result<Stepped, Failure> {
        self.step_visited(group, look, None)
    }
    /// As [`Session::step`]; with a visitor it runs op by op, and each is shown.
    pub(crate) fn step_visited(&mut self, group: &[B], look: Look, visitor: Option<Arc<dyn OpVisitor>>) -> Result<Stepped, Failure> {
        if group.is_empty() && self.shared.is_none() {
            return Err(Failure::Run("a step without a batch".into()));
        }
        self.remember_numbers();
        let device = self.device;
        let batches: Vec<B> = group.iter().map(|b| b.to(device)).collect();
        self.agree_on_used(&batches)?;
        let Session { model, loss, pass, optimizer, clipper, accumulator, average, parameters, captured, precision, watched, looks, shared, .. } = self;
        let (shared, pass) = (shared.as_ref(), pass.as_ref());
        // Who looks into a step keeps more than the walk back does.
        let looks_in = visitor.is_some() || look.layers || watched.looks_at_ops();
        if let (true, Some(batch)) = (looks_in, batches.first()) {
            precision.measure_apart(|| loss(model, batch))?;
        }
        let by_op = precision.is_unmeasured() || visitor.is_some();
        let mut step = |batches: &[B]| {
            let (average, clipper, handler) = (average.as_mut(), clipper.as_mut(), watched.handler.as_mut());
            let mut parts = StepParts {
                model,
                loss,
                pass,
                optimizer: &mut **optimizer,
                clipper,
                accumulator,
                average,
                parameters,
                precision,
                handler,
                looks,
                shared,
                device,
            };
            parts.step(batches, look)
        };
        let captured = if by_op { None } else { captured.run(&batches, look, &mut step)? };
        let outputs = match (captured, visitor) {
            (Some(outputs), _) => outputs,
            (None, Some(visitor)) => Outputs::from_vec(visit_ops(visitor, || step(&batches))?),
            (None, None) => Outputs::from_vec(step(&batches)?),
        };
        // Parameters that were gathered are others now, also where a captured step has changed them.
        shared.iter().for_each(|shared| shared.sharded.forget());
        let mut outputs = outputs.into_iter();
        let loss = outputs.next().ok_or_else(|| Failure::Run("a step without a loss".into()))?;
        let verdict = if self.precision.scaler.is_enabled() { outputs.next() } else { None };
        let flags = if self.precision.fallback.is_some() { outputs.next() } else { None };
        let underflow = if look.norm && self.precision.region().is_some() { outputs.next() } else { None };
        let layers = match look.layers {
            true => Some(self.looks.names.read(&outputs.next_back().ok_or_else(|| Failure::Run("a step without numbers of layers".into()))?)?),
            false => None,
        };
        let norms = match look.each {
            true => {
                let norms = outputs.next_back().ok_or_else(|| Failure::Run("a step without norms".into()))?;
                match &self.meshed {
                    Some(meshed) => monitor::read_named(&norms, meshed.whole().trained())?,
                    None => monitor::read_norms(&norms, &self.parameters)?,
                }
            }
            false => Vec::new(),
        };
        self.position.step += 1;
        self.losses.unread.push(UnreadLoss { loss, verdict });
        flags.map(|flags| self.precision.observe(&flags)).transpose()?;
        underflow.map(|share| self.precision.look(&share)).transpose()?;
        if self.precision.counts_applied() {
            self.settle()?;
        }
        if let (BegunCourse::Schedule(scheduler), true) = (&mut self.pace, self.precision.counts_last()) {
            scheduler.step(&mut *self.optimizer);
        }
        let grad_norm = outputs.next();
        let clipped_norm = if look.norm && self.clipper.is_some() { outputs.next() } else { None };
        Ok(Stepped { grad_norm, clipped_norm, norms, layers })
    }
    /// Reads the losses of the steps so far.
    fn settle(&mut self) -> Result<(), Failure> {
        if let LookedAt::Latched { step } = self.look()? {
            return Err(Failure::Diverged(format!("numbers of step {step} are not finite: nothing of it was kept, and training has ended")));
        }
        self.losses.settle(self.position.step, &mut self.precision, self.watched.handler.is_some())
    }
    /// What was measured at the end of an epoch or at a validation, for a rate that falls when it stops getting better.
    ///
    /// # Errors
    /// `Usage`: what is watched was not measured.
    pub fn measured(&mut self, train_loss: f64, valid: Option<&Score>) -> Result<(), Failure> {
        if let BegunCourse::Plateau(rule, monitor) = &mut self.pace {
            rule.step(measure(monitor, train_loss, valid)?, &mut *self.optimizer);
        }
        Ok(())
    }
    /// Does the course of the learning rate depend on what is measured, and so on when it is?
    pub fn heeds_measures(&self) -> bool {
        matches!(self.pace, BegunCourse::Plateau(..))
    }
    /// Calls `f` with the weights that are judged: their running mean, where one is kept.
    ///
    /// # Errors
    /// Those of `f`; no memory.
    pub fn judged<R>(&mut self, f: impl FnOnce(&M) -> Result<R, Failure>) -> Result<R, Failure> {
        let Some(average) = &mut self.average else { return f(&self.model) };
        average.exchange()?;
        let seen = f(&self.model);
        average.exchange()?;
        seen
    }
    /// Puts the weights that are judged in the place of those that are trained, for good: the end of a run.
    ///
    /// # Errors
    /// No memory.
    pub fn settle_on_judged(&mut self) -> Result<(), Failure> {
        if let Some(mut average) = self.average.take() {
            average.exchange()?;
        }
        Ok(())
    }
    /// The loss of the last step that had one: NaN where the scaler has suppressed all, for losses that are no numbers.
    ///
    /// # Errors
    /// `Diverged` names the first step whose loss is no number.
    pub fn loss(&mut self) -> Result<f64, Failure> {
        self.settle()?;
        Ok(self.losses.last)
    }
    /// The mean loss of the epoch so far, of the steps that had one: NaN where the scaler has suppressed all, for losses that are no
    /// numbers.
    ///
    /// # Errors
    /// `Diverged` names the first step whose loss is no number.
    pub fn mean_loss(&mut self) -> Result<f64, Failure> {
        self.settle()?;
        Ok(self.losses.sum / self.losses.count as f64)
    }
    /// Goes to the start of the next epoch.
    ///
    /// # Errors
    /// `Diverged` names the first step whose loss is no number.
    pub fn end_epoch(&mut self) -> Result<(), Failure> {
        self.settle()?;
        self.position.epoch += 1;
        self.losses = Losses::after(self.losses.last);
        Ok(())
    }
    /// The learning rates of the first group from now to step `end`, as the schedule has them; none where something else decides.
    pub fn rates_to(&self, end: u64) -> Option<Vec<f64>> {
        let BegunCourse::Schedule(scheduler) = &self.pace else { return None };
        Some(scheduler.ahead(self.lr(), end.saturating_sub(self.position.step)))
    }
    /// Puts another schedule in the place of the present one, at the step where that one is and with the rates that it has there.
    ///
    /// # Errors
    /// There is no schedule.
    pub fn reschedule(&mut self, schedule: Box<dyn Schedule>) -> Result<(), Failure> {
        let BegunCourse::Schedule(scheduler) = &mut self.pace else { return Err(Failure::Run("there is no schedule".into())) };
        scheduler.replace(schedule);
        Ok(())
    }
    /// Sets the rates that the schedule has at the present step, whatever they are now.
    pub fn follow_schedule(&mut self) {
        if let BegunCourse::Schedule(scheduler) = &self.pace {
            scheduler.set_again(&mut *self.optimizer);
        }
    }
    /// All of the state, with what the run itself wants kept beside it; where ranks share it out, this rank's pieces of it.
    ///
    /// # Errors
    /// `Diverged`: a state that has diverged is not saved. Otherwise a device that fails.
    pub fn snapshot(&mut self, run: serde_json::Value) -> Result<Snapshot, Failure> {
        self.settle()?;
        let saved = Saved {
            position: self.position,
            loss_sum: self.losses.sum.to_bits(),
            loss_count: self.losses.count,
            loss_last: self.losses.last.to_bits(),
            rates: Vec::new(),
            hyperparameters: saved::by_bits(&self.optimizer.hyperparameters()),
            schedule: match &self.pace {
                BegunCourse::Constant => None,
                BegunCourse::Schedule(scheduler) => Some(SavedPace::of(&scheduler.state())),
                BegunCourse::Plateau(rule, _) => Some(SavedPace::of_plateau(&rule.state())),
            },
            averaged: self.average.as_ref().map(WeightAverage::updates).transpose()?,
            generator: rng_state(self.device)?.0,
            precision: self.precision.saved(),
            run,
        };
        let state = serde_json::to_value(saved).map_err(|e| Failure::Run(format!("the state cannot be written: {e}")))?;
        let parts = self.collected.take();
        if parts.is_none() && self.meshed.as_ref().is_some_and(|meshed| !meshed.is_whole()) {
            return Err(Failure::Run("the state of ranks that share the model was not put together: `collect` comes before `snapshot`".into()));
        }
        let errors = self.shared.as_ref().and_then(|shared| shared.compressed.as_ref()).map_or_else(Vec::new, |compressed| compressed.take_collected());
        let (model, slots, average) = match parts {
            Some(parts) => (parts.model, parts.slots, Some(parts.average)),
            None => (self.own_model()?, self.optimizer.state_dict(), None),
        };
        let mut tensors = BTreeMap::from([("model".to_string(), model), ("optimizer".to_string(), slots)]);
        tensors.extend((!errors.is_empty()).then(|| (COMPRESSED.to_string(), errors)));
        tensors.extend(self.precision.state()?);
        tensors.extend(self.watched.state().map(|state| (watched::STABILITY.to_string(), state)));
        tensors.extend(self.clipper.as_ref().map(|c| (CLIP.to_string(), c.state_dict())).filter(|(_, state)| !state.is_empty()));
        tensors.extend(self.average.as_ref().map(|a| ("ema".to_string(), average.unwrap_or_else(|| a.state_dict()))));
        Ok(Snapshot { step: self.position.step, tensors, state })
    }
    /// What was learnt up to a snapshot: weights, buffers, slots, the running mean, clipping, precision, the generator.
    fn restore_learnt(&mut self, from: &Snapshot, saved: &mut Saved) -> Result<(), Failure> {
        let refuse = |what: String| Failure::Input(format!("the checkpoint of step {}: {what}", from.step));
        let said = |e: adamant_core::Error| refuse(e.kind().to_string());
        let part = |name: &str| from.tensors.get(name).map(Vec::as_slice).ok_or_else(|| refuse(format!("it has no {name}")));
        match &self.meshed {
            Some(meshed) if !meshed.is_whole() => meshed.load_state(&self.model, part("model")?),
            _ => self.load_model(part("model")?),
        }
        .map_err(said)?;
        let slots = match &self.shared {
            Some(shared) if shared.sharded.stage() >= ZeroStage::Slots => shared.sharded.cut_slots(part("optimizer")?).map_err(said)?,
            _ => self.own_slots(part("optimizer")?).map_err(said)?,
        };
        self.optimizer.load_state_dict(&slots).map_err(said)?;
        let means = from.tensors.get("ema").map(|means| self.own_means(means)).transpose().map_err(said)?;
        match (&mut self.average, saved.averaged) {
            (None, None) => {}
            (Some(average), Some(updates)) => average.load_state_dict(means.as_deref().map_or_else(|| part("ema"), Ok)?, updates).map_err(said)?,
            _ => return Err(refuse("one of the two keeps a running mean of the weights, the other does not".into())),
        }
        if let Some(clipper) = &mut self.clipper {
            let remembered = if clipper.state_dict().is_empty() { &[][..] } else { part(CLIP)? };
            clipper.load_state_dict(remembered).map_err(said)?;
        }
        if let Some(compressed) = self.shared.as_ref().and_then(|shared| shared.compressed.as_ref()) {
            compressed.restore(from.tensors.get(COMPRESSED).map_or(&[][..], Vec::as_slice)).map_err(said)?;
        }
        self.precision.restore(saved.precision.take(), &from.tensors).map_err(said)?;
        set_rng_state(self.device, RngState(saved.generator))?;
        Ok(())
    }
    /// Goes on from a checkpoint; gives back what the run kept beside it.
    ///
    /// # Errors
    /// `Input`: a checkpoint of another model, or one that lacks something. Then the session is not to be used.
    pub fn restore(&mut self, from: &Snapshot) -> Result<serde_json::Value, Failure> {
        let refuse = |what: String| Failure::Input(format!("the checkpoint of step {}: {what}", from.step));
        let said = |e: adamant_core::Error| refuse(e.kind().to_string());
        let mut saved = saved_in(from)?;
        let Position { step, epoch } = saved.position;
        // Who can write the file can write its hash too: what is counted on from here is checked.
        if step != from.step || epoch > step.saturating_add(1) || saved.loss_count > step {
            let told = format!("state.json: {epoch} epochs and {} losses at step {step}, and the manifest says step {}", saved.loss_count, from.step);
            return Err(refuse(told));
        }
        self.restore_learnt(from, &mut saved)?;
        // The schedule first: a momentum that it cycles is set by it, and then all numbers become those of then.
        match (&mut self.pace, &saved.schedule) {
            (BegunCourse::Constant, None) => {}
            (BegunCourse::Schedule(scheduler), Some(pace)) => match pace.scheduler(&scheduler.state()) {
                Some(state) => scheduler.restore(&state, &mut *self.optimizer).map_err(said)?,
                None => return Err(refuse("it has another schedule".into())),
            },
            (BegunCourse::Plateau(rule, _), Some(pace)) => rule.restore(pace.plateau().ok_or_else(|| refuse("it has another schedule".into()))?),
            _ => return Err(refuse("it has another schedule".into())),
        }
        if saved.hyperparameters.is_empty() {
            // Written before all numbers were: rates alone, and the schedule has set the momentum.
            if saved.rates.len() != self.optimizer.lrs().len() {
                return Err(refuse("it has another optimizer".into()));
            }
            self.optimizer.set_lrs(&saved.rates.iter().map(|bits| f64::from_bits(*bits)).collect::<Vec<_>>());
        } else {
            self.optimizer.set_hyperparameters(&saved::from_bits(&saved.hyperparameters)).map_err(said)?;
        }
        self.watched.restore(from.tensors.get(watched::STABILITY).map_or(&[][..], Vec::as_slice), saved.position.step).map_err(said)?;
        self.position = saved.position;
        self.losses = Losses { sum: f64::from_bits(saved.loss_sum), count: saved.loss_count, last: f64::from_bits(saved.loss_last), unread: Vec::new() };
        Ok(saved.run)
    }
}
/// The part of a snapshot that is no tensor.
fn saved_in(from: &Snapshot) -> Result<Saved, Failure> {
    serde_json::from_value(from.state.clone()).map_err(|e| Failure::Input(format!("the checkpoint of step {}: {}", from.step, checkpoint::unfit(&e))))
}
impl<M: Walk, B: Batch> Steer<M> for Session<M, B> {
    fn model(&self) -> &M {
        &self.model
    }
    fn position(&self) -> Position {
        self.position
    }
    fn loss(&mut self) -> Result<f64, Failure> {
        Session::loss(self)
    }
    fn optimizer(&mut self) -> &mut dyn Optimizer {
        &mut *self.optimizer
    }
}
