//! The training loop, the only one: of runs that a description tells and of programs with modules of their own.
use super::{
    Batch, Callback, Control, EarlyStopping, RunRanks, Safe, SaveVote, Score,
    batch::{StepBatches, parts},
    controlled::{ASKED_TO_STOP, Controls},
    ranks::AskedOfAll,
    restored::{HeldStates, KeptRestores, WentBack},
    stopping::Seen,
    watched::layers_line,
};
use crate::{
    Failure,
    alerts::KeptAlerts,
    checkpoint::{self, Snapshot},
    folder::{RunFolder, number},
    incident::Incident,
    session::{Look, LookedAt, OpByOp, Position, Session, Stepped},
    setup::CheckpointPlan,
    watch::{EpochReport, Interrupt, StepReport, Watch},
};
use adamant_amp::{AmpStats, Autocast};
use adamant_core::{Device, Tensor, memory, profile::record_function, time_block};
use adamant_data::{DataLoader, Dataset, LoaderState};
use adamant_nn::Walk;
use adamant_optim::schedule::Goal;
use adamant_stability::{HandlingType, NanStats, stability_score};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    cell::Cell,
    collections::BTreeMap,
    rc::Rc,
    time::{Duration, Instant},
};

/// Numbers that the loop asks for.
#[derive(Clone, Copy)]
pub(crate) struct Pattern {
    pub accumulate: usize,
    pub log_every: u64,
    pub eval_every: Option<u64>,
    /// steps between two looks at layers, if there are any
    pub look_every: Option<u64>,
    pub steps: u64,
}
/// What the run keeps in a checkpoint beside the session's state.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(expecting = "struct Kept")]
pub(crate) struct RunKept {
    pub metrics_bytes: u64,
    pub(super) loader: Option<LoaderState>,
    /// bits of the mean loss of each epoch
    pub(super) losses: Vec<u64>,
    /// seconds of training so far, over all starts
    pub seconds: f64,
    /// the steps that the schedule reaches over
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<u64>,
    /// what the data are, as far as a few records tell
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stopping: Option<Seen>,
    /// why the run ended before its last step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) callbacks: BTreeMap<String, Value>,
    /// where bad steps are answered by an earlier state
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) restored: Option<KeptRestores>,
    /// lines of `control.jsonl` that are in this state
    #[serde(default, skip_serializing_if = "is_none_of_them")]
    pub controls: u64,
    /// does the run end behind this epoch, because somebody asked?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) stops_after_epoch: bool,
    /// what rules of alerts have seen
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) alerts: Option<KeptAlerts>,
    /// kinds of bad numbers behind the last line of the log
    #[serde(default, skip_serializing_if = "KindsSinceLine::is_clean")]
    pub(super) since_line: KindsSinceLine,
}
/// NaN, infinities, overflows: which of them steps had since the last line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct KindsSinceLine([bool; 3]);
impl KindsSinceLine {
    fn is_clean(&self) -> bool {
        *self == KindsSinceLine::default()
    }
    /// Those of bad steps. Where the policy does not tell kinds apart, the worst.
    fn of(&mut self, seen: &NanStats) {
        let told = [seen.nan, seen.inf, seen.overflow].map(|steps| steps > 0);
        let is_told = told.contains(&true) || seen.explosion > 0;
        self.0[0] |= !is_told;
        self.0.iter_mut().zip(told).for_each(|(is, told)| *is |= told);
    }
    /// That of a bad step that was looked into; the worst where its origin was not found.
    pub(super) fn of_incident(&mut self, kind: Option<&str>) {
        let kinds = [kind.is_none_or(|kind| kind == "NaN"), kind.is_some_and(|kind| kind.ends_with("Inf")), kind == Some("overflow")];
        self.0.iter_mut().zip(kinds).for_each(|(is, told)| *is |= told);
    }
}
fn is_none_of_them(count: &u64) -> bool {
    *count == 0
}
impl RunKept {
    pub fn read(value: Value) -> Result<RunKept, Failure> {
        serde_json::from_value(value).map_err(|e| Failure::Input(format!("the checkpoint's {}", checkpoint::unfit(&e))))
    }
    pub fn losses(&self) -> Vec<f64> {
        self.losses.iter().map(|bits| f64::from_bits(*bits)).collect()
    }
}
/// The tensors of a checkpoint with the weights of the best validation.
pub(super) const BEST: &str = "best";
/// What the clock saw since the last line of the log.
struct Since {
    time: Instant,
    rows: usize,
    waited: f64,
}
impl Since {
    fn now() -> Since {
        Since { time: Instant::now(), rows: 0, waited: 0.0 }
    }
}

/// How good the weights are that are judged, in the region that they are trained in.
pub(crate) type Judge<'j, M> = Box<dyn FnMut(&M, Device, Option<Autocast>) -> Result<Score, Failure> + 'j>;

/// A run while it learns.
pub(crate) struct Learning<'a, 'j, M: Walk, D: Dataset + ?Sized + 'static>
where
    D::Batch: Batch,
{
    pub session: &'a mut Session<M, D::Batch>,
    pub pattern: Pattern,
    pub loader: DataLoader<D>,
    pub judge: Option<Judge<'j, M>>,
    pub stopping: Option<&'a mut EarlyStopping>,
    pub callbacks: &'a mut [Box<dyn Callback<M>>],
    pub folder: Option<&'a mut RunFolder>,
    pub safe: Option<Safe>,
    pub kept: RunKept,
    /// the last validation: its step, and how good the model was (higher is better)
    pub score: Option<(u64, f64)>,
    /// what the last validation gave
    pub valid: Option<Score>,
    pub watch: &'a mut dyn Watch,
    /// where the loader was before each step since somebody looked at the session's numbers
    pub places: Vec<LoaderState>,
    /// the state that a bad step is answered by, where that is the policy
    pub held: HeldStates,
    /// the weights of the best validation as a whole, until a snapshot is taken, where this rank has a part of them
    pub best: Option<Vec<(String, Tensor)>>,
    /// what is asked for from outside
    pub controls: Controls,
    /// a request to end
    pub interrupt: &'a Interrupt,
    /// those who share the run
    pub ranks: Option<RunRanks>,
    /// the hash of its description
    pub described: [u8; 32],
    /// when checkpoints are made, by whoever leads
    pub checkpoint: CheckpointPlan,
    /// how long it was not training, but waiting for who looks at it
    pub paused: Rc<Cell<Duration>>,
}
impl<M: Walk, D: Dataset + ?Sized + 'static> Learning<'_, '_, M, D>
where
    D::Batch: Batch,
{
    /// Goes on from what a checkpoint kept.
    pub fn restore(&mut self, from: &Snapshot) -> Result<(), Failure> {
        self.restore_held(from)?;
        if let (Some(stopping), Some(seen)) = (&mut self.stopping, self.kept.stopping) {
            stopping.seen = seen;
            stopping.best = from.tensors.get(BEST).map(|best| self.session.own_weights(best)).transpose()?;
        }
        for callback in self.callbacks.iter_mut() {
            if let Some(state) = self.kept.callbacks.get(callback.name()) {
                callback.restore(state)?;
            }
        }
        if let Some(state) = self.kept.loader {
            let own = self.loader.state();
            // One ahead at most, and only in between: what is behind it is counted on.
            if state.epoch > self.session.position().epoch.saturating_add(1) {
                return Err(Failure::Input(format!("the checkpoint's state.json: the data are in epoch {}, the run is not: {own}", state.epoch)));
            }
            self.loader
                .restore(state)
                .map_err(|_| Failure::Input(format!("the checkpoint's state.json: it was made with other data or another order: {state}; now {own}")))?;
        }
        Ok(())
    }
    /// Steps until the run is as long as it was to be, or until somebody asks for an end.
    pub fn run(&mut self) -> Result<(), Failure> {
        let (begun, before, interrupt) = (Instant::now(), self.kept.seconds, self.interrupt);
        let paused = self.paused.clone();
        let elapsed = || before + begun.elapsed().saturating_sub(paused.get()).as_secs_f64();
        self.call(|callback, control| callback.on_train_begin(control))?;
        let mut since = Since::now();
        while self.session.position().step < self.pattern.steps && self.kept.stopped.is_none() {
            let (went, waited) = self.heed(interrupt, &elapsed)?;
            paused.set(paused.get() + waited);
            since.time += waited;
            if went == WentBack::To {
                continue;
            }
            self.hold()?;
            let waiting = Instant::now();
            let place = self.loader.state();
            let StepBatches { batches: group, of_part, taken } = time_block!("data_loading", self.group())?;
            since.waited += waiting.elapsed().as_secs_f64();
            let is_over = self.loader.state().batch >= self.loader.batches() || taken == 0;
            if taken > 0 {
                self.session.assign(of_part, taken);
                for batch in &group {
                    since.rows += batch.rows()?;
                }
                self.places.push(place);
                let before = self.session.position().step;
                match self.step(&group, is_over, &mut since, &elapsed) {
                    Err(failure) if self.repeats(before, &failure) => {
                        self.repeat(place, &failure)?;
                        since = Since::now();
                        continue;
                    }
                    Ok(WentBack::To) => continue,
                    went => _ = went?,
                }
            } else if self.loader.state().batch == 0 {
                // Nothing is left of the last batches: the epoch ended with the step before.
                self.epoch(&[], (true, false), &elapsed)?;
            }
            if is_over {
                if taken > 0 {
                    // The loader goes to its next epoch when it is asked past the end.
                    self.loader.next_batch().transpose()?;
                }
                self.session.end_epoch()?;
            }
            self.tell();
            self.kept.seconds = elapsed();
            self.kept.loader = Some(self.loader.state());
            let step = self.session.position().step;
            let ends = step == self.pattern.steps || self.kept.stopped.is_some();
            let vote = self.saves_at(step, ends);
            let AskedOfAll { signal: asked, called, saving } = self.asked_of_all(interrupt.asked(), vote)?;
            if saving == SaveVote::Due || saving == SaveVote::AtAnEnd && asked.is_some() {
                self.collect()?;
                if self.session.shares_out() {
                    self.save_together()?;
                }
            }
            // Who leads may be another one than before.
            match self.saves_at(step, ends) {
                _ if self.session.shares_out() => {}
                SaveVote::Due => self.save()?,
                SaveVote::AtAnEnd if asked.is_some() => self.save()?,
                _ => {}
            }
            self.session.let_go();
            match asked {
                Some(signal) if !ends => return Err(self.interrupted(signal)),
                None if called && !ends => self.meet_again(None)?,
                _ => {}
            }
        }
        self.call(|callback, control| callback.on_train_end(control))
    }
    /// Is there to be a checkpoint behind a step, with which the run ends or does not?
    fn saves_at(&self, step: u64, ends: bool) -> SaveVote {
        match self.safe.as_ref().filter(|safe| safe.at != Some(step)) {
            Some(safe) if safe.plan.is_due(step) || ends => SaveVote::Due,
            Some(_) => SaveVote::AtAnEnd,
            None => SaveVote::No,
        }
    }
    /// Calls each callback, and takes notice of what it asked for.
    pub(super) fn call(&mut self, mut f: impl FnMut(&mut dyn Callback<M>, &mut Control<'_, M>) -> Result<(), Failure>) -> Result<(), Failure> {
        let (mut stop, mut logged) = (None, Vec::new());
        for callback in self.callbacks.iter_mut() {
            let _range = record_function("callback");
            f(&mut **callback, &mut Control { session: &mut *self.session, stop: &mut stop, logged: &mut logged })?;
        }
        if let Some(folder) = self.folder.as_mut().filter(|_| !logged.is_empty()) {
            let at = self.session.position();
            let values: serde_json::Map<_, _> = logged.iter().map(|(name, v)| (name.clone(), number(*v))).collect();
            folder.metric(&json!({ "kind": "own", "step": at.step, "epoch": at.epoch + 1, "values": values }))?;
            folder.scalars(at.step, &logged.into_iter().collect())?;
        }
        if let Some(reason) = stop {
            self.stop(reason)?;
        }
        Ok(())
    }
    /// The run is over after this step.
    fn stop(&mut self, reason: String) -> Result<(), Failure> {
        if self.kept.stopped.is_none() {
            let at = self.session.position();
            if let Some(folder) = &mut self.folder {
                folder.metric(&json!({ "kind": "stop", "step": at.step, "epoch": at.epoch + 1, "reason": reason }))?;
            }
            self.kept.stopped = Some(reason);
        }
        Ok(())
    }
    /// What became of the folder's files, to who watches.
    pub(super) fn tell(&mut self) {
        for warning in self.folder.iter_mut().flat_map(|f| f.take_warnings()) {
            self.watch.warn(&warning);
        }
    }
    fn step(&mut self, group: &[D::Batch], is_over: bool, since: &mut Since, elapsed: &dyn Fn() -> f64) -> Result<WentBack, Failure> {
        let step = self.session.position().step + 1;
        let is_last = step == self.pattern.steps;
        let logs = step % self.pattern.log_every == 0 || is_last;
        let judges = is_over || is_last || self.pattern.eval_every.is_some_and(|n| step % n == 0);
        let layers = self.folder.is_some() && self.pattern.look_every.is_some_and(|n| step % n == 0 || step == 1);
        // The rate of this step: behind it there is the next one's.
        let lr = layers.then(|| self.session.lr());
        let look = Look { norm: logs, each: judges && self.folder.is_some(), layers, recorded: false };
        let (stepped, went, waited) = if self.leaves_out() { (self.passed_over()?, WentBack::Not, Duration::ZERO) } else { self.stepped(group, look)? };
        self.paused.set(self.paused.get() + waited);
        since.time += waited;
        if went == WentBack::To {
            return Ok(WentBack::To);
        }
        if let Some(OpByOp { reason, meant }) = self.session.take_op_by_op() {
            if !meant {
                self.watch.warn(&format!("steps run op by op from step {step} on, to the same bits: {reason}"));
            }
            if let Some(folder) = &mut self.folder {
                folder.time(json!({ "kind": "op_by_op", "step": step, "reason": reason }))?;
            }
        }
        self.fell_back(step)?;
        // Before anybody counts on the step; a checkpoint looks itself.
        if (logs || judges || layers || !self.callbacks.is_empty() || self.session.decides_by_steps()) && self.look()? == WentBack::To {
            return Ok(WentBack::To);
        }
        self.watch.step(step);
        if let (Some(seen), Some(lr), Some(folder)) = (&stepped.layers, lr, &mut self.folder) {
            let rows = group.iter().map(Batch::rows).collect::<Result<Vec<_>, _>>()?;
            folder.metric(&layers_line(self.session.position(), (self.session.loss()?, lr), &rows, seen))?;
        }
        if logs {
            self.log(&stepped, since)?;
        }
        self.call(|callback, control| callback.on_step_end(control))?;
        if judges {
            self.epoch(&stepped.norms, (is_over, is_last), elapsed)?;
            *since = Since::now();
        }
        Ok(WentBack::Not)
    }
    /// Looks at the session's numbers: bad steps are told, and one that ends the run ends it, or is answered by an earlier state.
    pub(super) fn look(&mut self) -> Result<WentBack, Failure> {
        let step = self.session.position().step;
        match self.session.look()? {
            LookedAt::Latched { step: bad } if self.puts_back(bad) => return self.put_back(bad).map(|()| WentBack::To),
            LookedAt::Latched { step: bad } => return Err(self.incident(bad)?),
            LookedAt::Went(seen) if seen.bad > 0 => {
                self.kept.since_line.of(&seen);
                let handling = self.session.handling().map_or("", HandlingType::name);
                let steps = if seen.bad == 1 { "a step" } else { "steps" };
                self.watch.warn(&format!("{} {steps} up to step {step} had numbers that are not finite or too large (handled by `{handling}`)", seen.bad));
            }
            LookedAt::Went(_) => {}
        }
        self.places.clear();
        self.held.went_to(step);
        Ok(WentBack::Not)
    }
    /// A bad step: goes back to before it, and finds where its numbers come from.
    pub(super) fn investigated(&mut self, bad: u64) -> Result<Incident, Failure> {
        let behind = self.session.position().step.saturating_sub(bad) as usize;
        let Some(place) = self.places.len().checked_sub(behind + 1).and_then(|at| self.places.get(at)).copied() else {
            return Err(Failure::Run(format!("the batches of step {bad} cannot be found again")));
        };
        self.session.rewind(bad - 1)?;
        self.loader.restore(place)?;
        let StepBatches { batches: group, of_part, taken } = parts(&mut self.loader, self.pattern.accumulate)?;
        self.session.assign(of_part, taken);
        self.loader.take_bad_records();
        let records: Vec<_> = (place.batch..self.loader.state().batch).map(|batch| self.loader.places_at(LoaderState { batch, ..place })).collect();
        let traced = self.session.trace(&group)?;
        let handling = self.session.handling().map_or("", HandlingType::name);
        let incident = Incident::of(Position { step: bad, ..self.session.position() }, handling, traced, &group, &records)?;
        self.loader.restore(place)?;
        self.kept.loader = Some(place);
        self.places.clear();
        Ok(incident)
    }
    /// A step that ends the run: a checkpoint of the step before is left.
    fn incident(&mut self, bad: u64) -> Result<Failure, Failure> {
        let incident = self.investigated(bad)?;
        // All ranks are here: a bad step is one on all of them.
        if self.session.meshed().is_some() {
            self.collect()?;
        }
        if self.session.shares_out() {
            self.save_together()?;
        } else if self.safe.as_ref().is_some_and(|s| s.at != Some(bad - 1)) {
            self.save()?;
        }
        let mut checkpoint = None;
        if let Some(safe) = &mut self.safe {
            safe.flush(self.watch)?;
            checkpoint = safe.newest.clone();
        }
        if let Some(folder) = &mut self.folder {
            folder.incident(&incident.to_json())?;
        }
        self.tell();
        if let (Some(ranks), true) = (&self.ranks, self.session.meshed().is_some()) {
            // Whoever ends first tells the others, which would lose their own reason, and the leader its checkpoint: all are here first.
            ranks.gather(&[0])?;
        }
        Ok(Failure::Diverged(incident.text(checkpoint.as_deref())))
    }
    /// Tells which layers run in f32 from the next step on.
    fn fell_back(&mut self, step: u64) -> Result<(), Failure> {
        for layer in self.session.take_fallbacks() {
            self.watch.warn(&format!("`{layer}` left the range of f16 too often: from step {} on it runs in f32", step + 1));
            if let Some(folder) = &mut self.folder {
                folder.metric(&json!({ "kind": "fallback", "step": step, "epoch": self.session.position().epoch + 1, "layer": layer }))?;
            }
        }
        Ok(())
    }
    /// The batches of one step: fewer at the end of an epoch, none after it.
    fn group(&mut self) -> Result<StepBatches<D::Batch>, Failure> {
        let group = parts(&mut self.loader, self.pattern.accumulate)?;
        for bad in self.loader.take_bad_records() {
            self.watch.warn(&format!("left out: {bad}"));
        }
        Ok(group)
    }
    fn log(&mut self, stepped: &Stepped, since: &mut Since) -> Result<(), Failure> {
        let at = self.session.position();
        let (loss, lr) = (self.session.loss()?, self.session.lr());
        let norm = time_block!("metrics", stepped.grad_norm.as_ref().map(|norm| norm.item::<f64>())).transpose()?;
        let clipped = time_block!("metrics", stepped.clipped_norm.as_ref().map(|norm| norm.item::<f64>())).transpose()?;
        let clipped = clipped.zip(norm).map(|(behind, before)| if before.is_finite() && before > 0.0 { (1.0 - behind / before).clamp(0.0, 1.0) } else { 0.0 });
        let score = (clipped.is_some() || self.session.handling().is_some()).then(|| stability_score(self.kept.since_line.0, clipped.unwrap_or(0.0)));
        self.kept.since_line = KindsSinceLine::default();
        let amp = time_block!("metrics", self.session.amp_stats())?;
        let seconds = since.time.elapsed().as_secs_f64();
        let report = StepReport { step: at.step, epoch: at.epoch + 1, loss, lr, rows_per_second: since.rows as f64 / seconds.max(1e-9) };
        self.watch.log(&report);
        if let Some(folder) = &mut self.folder {
            let mut line = json!({
                "kind": "step", "step": at.step, "epoch": at.epoch + 1,
                "loss": number(loss), "lr": number(lr), "grad_norm": norm.map(number),
            });
            clipped.into_iter().for_each(|share| line["clipped"] = number(share));
            score.into_iter().for_each(|score| line["stability_score"] = number(score));
            amp.as_ref().into_iter().for_each(|amp| line["precision"] = told_precision(amp));
            let seen = self.session.bad_steps();
            if seen.bad > 0 {
                line["bad_steps"] = json!({ "all": seen.bad, "nan": seen.nan, "inf": seen.inf, "overflow": seen.overflow, "explosion": seen.explosion });
            }
            folder.metric(&line)?;
            folder.time(json!({
                "kind": "step", "step": at.step, "rows_per_second": number(report.rows_per_second),
                "loader_wait_seconds": number(since.waited), "rss_bytes": memory::process_memory().ok().map(|m| m.resident),
            }))?;
            let mut scalars =
                BTreeMap::from([("train/loss".to_string(), loss), ("train/lr".into(), lr), ("throughput/rows_per_second".into(), report.rows_per_second)]);
            scalars.extend(norm.map(|n| ("train/grad_norm".to_string(), n)));
            scalars.extend(score.map(|score| ("stability/score".to_string(), score)));
            scalars.extend(amp.as_ref().and_then(|amp| amp.underflow).map(|share| ("precision/underflow".to_string(), share)));
            if let Some(scaler) = amp.and_then(|amp| amp.scaler) {
                scalars.extend([("precision/scale".to_string(), scaler.scale), ("precision/skipped".into(), scaler.skipped.into())]);
            }
            folder.scalars(at.step, &scalars)?;
        }
        *since = Since::now();
        Ok(())
    }
    /// The line of an epoch, or of a validation within one, or of the end of a run within one.
    fn epoch(&mut self, norms: &[(String, f64)], (is_over, is_last): (bool, bool), elapsed: &dyn Fn() -> f64) -> Result<(), Failure> {
        let at = self.session.position();
        let (loss, lr) = (self.session.mean_loss()?, self.session.lr());
        if is_over || is_last {
            self.kept.losses.push(loss.to_bits());
        }
        let (device, region) = (self.session.device(), self.session.region());
        let valid = match &mut self.judge {
            Some(judge) => Some(self.session.judged(|model| judge(model, device, region))?),
            None => None,
        };
        let told = valid.as_ref().map(|v| (v.loss, v.metrics.get("accuracy").copied()));
        let report = EpochReport { epoch: at.epoch + 1, step: at.step, loss, valid: told, lr, seconds: elapsed() };
        self.watch.epoch(&report);
        self.score = valid.as_ref().map(|v| (at.step, v.metrics.get("accuracy").copied().unwrap_or(-v.loss)));
        self.lines(loss, lr, norms, valid.as_ref())?;
        // A run that ends within an epoch may be made longer: what decides must not count the measure that its end asked for.
        let counts = is_over || self.pattern.eval_every.is_some_and(|n| at.step % n == 0);
        if counts {
            self.session.measured(loss, valid.as_ref())?;
        }
        let mut over = None;
        if let Some(stopping) = self.stopping.as_mut().filter(|_| counts) {
            let measure = stopping.measure(loss, valid.as_ref())?;
            if stopping.observe(measure, at.step) && stopping.restore_best {
                stopping.best = Some(self.session.judged(|model| Ok(model.state_dict()))?);
            }
            self.score = Some((at.step, if stopping.goal == Goal::Min { -measure } else { measure }));
            over = stopping.over();
        }
        if self.kept.stops_after_epoch && is_over {
            over.get_or_insert_with(|| ASKED_TO_STOP.into());
        }
        if let Some(reason) = over {
            self.stop(reason)?;
        }
        if let Some(score) = &valid {
            self.call(|callback, control| callback.on_validation_end(control, score))?;
        }
        self.valid = valid;
        if is_over {
            self.call(|callback, control| callback.on_epoch_end(control, loss))?;
        }
        Ok(())
    }
    /// What stands of an epoch, or of a validation within one, in the folder.
    fn lines(&mut self, loss: f64, lr: f64, norms: &[(String, f64)], valid: Option<&Score>) -> Result<(), Failure> {
        let at = self.session.position();
        let Some(folder) = &mut self.folder else { return Ok(()) };
        let mut line = json!({
            "kind": "epoch", "step": at.step, "epoch": at.epoch + 1, "loss": number(loss), "lr": number(lr),
            "grad_norms": norms.iter().map(|(name, v)| (name.clone(), number(*v))).collect::<serde_json::Map<_, _>>(),
        });
        let mut scalars: BTreeMap<String, f64> = norms.iter().map(|(name, v)| (format!("grad_norm/{name}"), *v)).collect();
        scalars.insert("train/epoch_loss".into(), loss);
        if let Some(v) = valid {
            line["valid"] = json!({ "loss": number(v.loss), "accuracy": Value::Null, "rows": v.rows });
            scalars.insert("valid/loss".into(), v.loss);
            for (name, value) in &v.metrics {
                line["valid"][name] = number(*value);
                scalars.insert(format!("valid/{name}"), *value);
            }
        }
        folder.metric(&line)?;
        folder.time(json!({ "kind": "epoch", "step": at.step, "epoch": at.epoch + 1, "rss_bytes": memory::process_memory().ok().map(|m| m.resident) }))?;
        folder.scalars(at.step, &scalars)
    }
    /// Leaves in the folder why the run has failed, for those who come later.
    pub(super) fn failed(&mut self, failure: &Failure) {
        let step = self.session.position().step + 1;
        if let Some(Err(e)) = self.folder.as_mut().map(|folder| folder.failed(step, failure)) {
            self.watch.warn(&e.to_string());
        }
        self.tell();
    }
    /// The end that somebody asked for. The checkpoint was handed over; here it is waited for.
    pub(super) fn interrupted(&mut self, signal: i32) -> Failure {
        let checkpoint = match &mut self.safe {
            None => self.ranks.as_ref().and_then(RunRanks::checkpoints),
            Some(safe) => match safe.flush(self.watch) {
                Ok(()) => safe.newest.clone(),
                Err(e) => return e,
            },
        };
        Failure::Interrupted { signal, step: self.session.position().step, checkpoint }
    }
}
/// What mixed precision did, for a line of metrics or a result.
pub(crate) fn told_precision(amp: &AmpStats) -> Value {
    let mut told = json!({ "mode": amp.mode.name() });
    if let Some(s) = &amp.scaler {
        told["scale"] = number(s.scale);
        told["scale_least"] = number(s.least);
        told["scale_most"] = number(s.most);
        told["applied"] = s.applied.into();
        told["skipped"] = s.skipped.into();
    }
    amp.saved_bytes.into_iter().for_each(|bytes| told["saved_bytes"] = bytes.into());
    amp.underflow.into_iter().for_each(|share| told["underflow"] = number(share));
    if !amp.overflows.is_empty() {
        told["overflows"] = json!(amp.overflows);
        told["fallbacks"] = json!(amp.fallbacks);
    }
    told
}
