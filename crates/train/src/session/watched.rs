//! The watch over a session's numbers: steps with bad ones are handled on the device, and found by the host when it looks.
//!
//! Data flow: the handler's cells tell up to which step all was well. Where a step has latched, none after it has changed anything on the
//! device, but the host has counted them: [`Session::rewind`] takes that back, from what the host's state was when it looked last.
use super::{BegunCourse, Look, Session, StepParts, saved_in};
use crate::{Failure, checkpoint::Snapshot, trainer::Batch};
use adamant_core::{Device, Result as Computed, Tensor};
use adamant_nn::{Param, Walk};
use adamant_optim::{Hyperparameters, schedule::SchedulerState};
use adamant_stability::{HandlingType, LayerLook, LayerNames, NanHandler, NanOptions, NanStats, StepPhase, StepTrace, WatchMode, trace_with};

/// The tensors of a checkpoint with what is counted of bad steps.
pub(super) const STABILITY: &str = "stability";

/// What the host finds when it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookedAt {
    /// so many bad steps since it looked last, which were handled
    Went(NanStats),
    /// a step that ends all: no step from it on has changed anything
    Latched { step: u64 },
}
/// What the host had of the optimizer's numbers when it looked last.
struct HostNumbers {
    step: u64,
    schedule: Option<SchedulerState>,
    hyperparameters: Vec<Hyperparameters>,
}
pub(super) struct SteppedWatch {
    pub handler: Option<NanHandler>,
    /// steps that were done when the handler began to count
    base: u64,
    /// what was counted when somebody looked last, and behind which step that was
    seen: NanStats,
    looked: Option<u64>,
    numbers: Option<HostNumbers>,
}
impl SteppedWatch {
    pub fn new(options: Option<NanOptions>, device: Device) -> Computed<SteppedWatch> {
        let mut handler = options.map(NanHandler::new).transpose()?;
        handler.as_mut().map(|handler| handler.prepare(device)).transpose()?;
        Ok(SteppedWatch { handler, base: 0, seen: NanStats::default(), looked: None, numbers: None })
    }
    /// Does each op have a look of its own?
    pub fn looks_at_ops(&self) -> bool {
        self.handler.as_ref().is_some_and(|handler| handler.options().mode == WatchMode::Full || handler.options().activation_checking)
    }
    /// What is kept of it; nothing where no step is judged by those before it.
    pub fn state(&self) -> Option<Vec<(String, Tensor)>> {
        let looks_back = |options: &NanOptions| !options.handling_type.latches() || options.detect_explosion;
        self.handler.as_ref().filter(|handler| looks_back(handler.options())).map(NanHandler::state_dict)
    }
    /// Goes on from a checkpoint.
    pub fn restore(&mut self, state: &[(String, Tensor)], step: u64) -> Computed<()> {
        let Some(handler) = &mut self.handler else { return Ok(()) };
        handler.load_state_dict(state)?;
        (self.base, self.looked, self.numbers) = (step, None, None);
        self.seen = handler.look()?;
        Ok(())
    }
}
/// What looks at layers are of.
pub(super) struct SessionLooks {
    /// all of the model's, those that are not learned too
    pub parameters: Vec<(String, Param)>,
    /// of the numbers of the last look
    pub names: LayerNames,
}
impl SessionLooks {
    pub fn of(model: &dyn Walk) -> SessionLooks {
        SessionLooks { parameters: model.named_parameters(), names: LayerNames::default() }
    }
    /// The numbers of a look, behind the optimizer's step.
    pub fn finish(&mut self, seen: LayerLook) -> Computed<Tensor> {
        let (numbers, names) = seen.finish(&self.parameters)?;
        self.names = names;
        Ok(numbers)
    }
}
impl<M: Walk, B: Batch> Session<M, B> {
    /// The bad steps of the run, as far as somebody has looked.
    pub(crate) fn bad_steps(&self) -> NanStats {
        self.watched.seen
    }
    /// How bad numbers are handled.
    pub(crate) fn handling(&self) -> Option<HandlingType> {
        self.watched.handler.as_ref().map(|handler| handler.options().handling_type)
    }
    /// Must somebody look after each step? What the host decides by steps is not taken back.
    pub(crate) fn decides_by_steps(&self) -> bool {
        self.precision.counts_applied() || self.precision.fallback.is_some()
    }
    /// Looks whether all was well up to now: waits for the device, once for each step.
    pub(crate) fn look(&mut self) -> Result<LookedAt, Failure> {
        let fine = LookedAt::Went(NanStats::default());
        let SteppedWatch { handler: Some(handler), base, seen, looked, numbers } = &mut self.watched else { return Ok(fine) };
        if *looked == Some(self.position.step) {
            return Ok(fine);
        }
        let now = handler.look()?;
        if now.latched {
            return Ok(LookedAt::Latched { step: *base + u64::from(now.steps) + 1 });
        }
        let before = std::mem::replace(seen, now);
        let since = |now: u32, before: u32| now.saturating_sub(before);
        (*looked, *numbers) = (Some(self.position.step), None);
        Ok(LookedAt::Went(NanStats {
            bad: since(now.bad, before.bad),
            nan: since(now.nan, before.nan),
            inf: since(now.inf, before.inf),
            overflow: since(now.overflow, before.overflow),
            explosion: since(now.explosion, before.explosion),
            ..now
        }))
    }
    /// Remembers the optimizer's numbers as they are, unless that was done since somebody looked: before a step.
    pub(super) fn remember_numbers(&mut self) {
        let latches_ever = self.handling().is_some_and(|policy| policy != HandlingType::Detect);
        if latches_ever && self.watched.numbers.is_none() {
            let schedule = if let BegunCourse::Schedule(scheduler) = &self.pace { Some(scheduler.state()) } else { None };
            self.watched.numbers = Some(HostNumbers { step: self.position.step, schedule, hyperparameters: self.optimizer.hyperparameters() });
        }
    }
    /// Takes back on the host the steps behind `to`, which have changed nothing on the device.
    pub(crate) fn rewind(&mut self, to: u64) -> Result<(), Failure> {
        let read = self.position.step - self.losses.unread.len() as u64;
        self.losses.unread.truncate(to.saturating_sub(read) as usize);
        self.position.step = to;
        if let Some(HostNumbers { step, schedule, hyperparameters }) = self.watched.numbers.take() {
            if let (BegunCourse::Schedule(scheduler), Some(state)) = (&mut self.pace, &schedule) {
                scheduler.restore(state, &mut *self.optimizer)?;
            }
            self.optimizer.set_hyperparameters(&hyperparameters)?;
            if let BegunCourse::Schedule(scheduler) = &mut self.pace {
                (step..to).for_each(|_| scheduler.step(&mut *self.optimizer));
            }
        }
        if let Some(handler) = &mut self.watched.handler {
            handler.reopen()?;
            (self.watched.base, self.watched.looked) = (to, Some(to));
            self.watched.seen = handler.look()?;
        }
        Ok(())
    }
    /// What is put back after a bad step, if that is what happens to one.
    pub(crate) fn restoring(&self) -> Option<&NanOptions> {
        self.watched.handler.as_ref().map(NanHandler::options).filter(|options| options.handling_type == HandlingType::Restore)
    }
    /// Puts an earlier state of what is learnt in the place of the present one: weights, buffers, slots, clipping, precision, the generator. How
    /// far the run is, and where its schedule is, stays; rates are multiplied.
    pub(crate) fn put_back(&mut self, held: &Snapshot, factor: f64) -> Result<(), Failure> {
        self.restore_learnt(held, &mut saved_in(held)?)?;
        self.scale_rates(factor);
        Ok(())
    }
    /// Multiplies all rates, and those that the schedule has from here on.
    pub(crate) fn scale_rates(&mut self, factor: f64) {
        match &mut self.pace {
            BegunCourse::Schedule(scheduler) => scheduler.scale(factor, &mut *self.optimizer),
            BegunCourse::Constant | BegunCourse::Plateau(..) => {
                let rates: Vec<f64> = self.optimizer.lrs().iter().map(|lr| lr * factor).collect();
                self.optimizer.set_lrs(&rates);
            }
        }
    }
    /// Would rates still be numbers, and those above 0 stay so?
    pub(crate) fn can_scale_rates(&self, factor: f64) -> bool {
        let stays = |rate: f64| (rate * factor).is_finite() && (rate == 0.0 || rate * factor != 0.0);
        let scale = if let BegunCourse::Schedule(scheduler) = &self.pace { scheduler.state().scale } else { 1.0 };
        stays(scale) && self.optimizer.lrs().into_iter().all(stays)
    }
    /// A step whose batches are left out: it changes nothing, and counts.
    pub(crate) fn pass_over(&mut self) -> Result<(), Failure> {
        self.settle()?;
        self.position.step += 1;
        // The handler has not seen it.
        self.watched.base += 1;
        (self.watched.looked, self.watched.numbers) = (Some(self.position.step), None);
        if let BegunCourse::Schedule(scheduler) = &mut self.pace {
            scheduler.step(&mut *self.optimizer);
        }
        Ok(())
    }
    /// Runs a step op by op and takes it back: where does its first bad number come from?
    pub(crate) fn trace(&mut self, group: &[B]) -> Result<StepTrace, Failure> {
        let device = self.device;
        let Session { model, loss, pass, optimizer, clipper, accumulator, average, parameters, precision, watched, looks, shared, .. } = self;
        let (shared, pass) = (shared.as_ref(), pass.as_ref());
        let batches: Vec<B> = group.iter().map(|b| b.to(device)).collect();
        let mut named = Vec::new();
        for (k, batch) in batches.iter().enumerate() {
            for (part, tensor) in batch.tensors().into_iter().enumerate() {
                named.push((StepPhase::Data, format!("batch {k}, tensor {part}"), tensor.clone()));
            }
        }
        named.extend(model.named_parameters().into_iter().map(|(name, p)| (StepPhase::Forward, name, p.detached())));
        named.extend(model.named_buffers().into_iter().map(|(name, p)| (StepPhase::Forward, name, p.detached())));
        let looks_for = watched.handler.as_ref().map(|handler| handler.options().traced()).unwrap_or_default();
        let traced = trace_with(looks_for, &named, |saw_loss| {
            let (average, clipper) = (average.as_mut(), clipper.as_mut());
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
                handler: None,
                looks,
                shared,
                device,
            };
            let outputs = parts.step(&batches, Look::default())?;
            if let Some(loss) = outputs.first() {
                saw_loss(loss);
            }
            Ok(())
        })?;
        Ok(traced)
    }
}
