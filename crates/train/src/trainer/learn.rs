//! The training loop.
use super::Safe;
use crate::{
    Failure,
    dataset::{self, Parts},
    evaluate,
    folder::{RunFolder, number},
    session::{Look, Session, Stepped},
    setup::Setup,
    storage,
    watch::{EpochReport, Interrupt, StepReport, Watch},
};
use adamant_core::{Tensor, memory, time_block};
use adamant_data::{AnyDataset, DataLoader, LoaderState};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Instant};

/// Numbers of the description that the loop asks for.
#[derive(Clone, Copy)]
pub(super) struct Habits {
    seed: u64,
    batch: usize,
    accumulate: usize,
    log_every: u64,
    eval_every: Option<u64>,
    steps: u64,
}
impl Habits {
    pub fn of(setup: &Setup) -> Habits {
        let Setup { seed, batch, accumulate, log_every, eval_every, .. } = *setup;
        Habits { seed, batch, accumulate, log_every, eval_every, steps: setup.steps() }
    }
}
/// What the run keeps in a checkpoint beside the session's state.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Kept {
    pub metrics_bytes: u64,
    loader: Option<LoaderState>,
    /// bits of the mean loss of each epoch
    losses: Vec<u64>,
    /// seconds of training so far, over all starts
    pub seconds: f64,
}
impl Kept {
    pub fn read(value: Value) -> Result<Kept, Failure> {
        serde_json::from_value(value).map_err(|e| Failure::Input(format!("the checkpoint's state.json: {e}")))
    }
    pub fn losses(&self) -> Vec<f64> {
        self.losses.iter().map(|bits| f64::from_bits(*bits)).collect()
    }
}
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

/// A run while it learns.
pub(super) struct Learning<'a> {
    pub session: &'a mut Session,
    pub habits: Habits,
    pub parts: &'a Parts,
    pub folder: Option<&'a mut RunFolder>,
    pub safe: Option<&'a mut Safe>,
    pub kept: Kept,
    /// the last validation: its step, and how good the model was (higher is better)
    pub score: Option<(u64, f64)>,
    pub watch: &'a mut dyn Watch,
}
impl Learning<'_> {
    /// Steps until the run is as long as it was to be, or until somebody asks for an end.
    pub fn run(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        let (begun, before) = (Instant::now(), self.kept.seconds);
        let elapsed = || before + begun.elapsed().as_secs_f64();
        let mut loader = self.parts.loader(self.habits.seed, self.habits.batch)?;
        if let Some(state) = self.kept.loader {
            loader.restore(state)?;
        }
        let mut since = Since::now();
        while self.session.position().step < self.habits.steps {
            let waiting = Instant::now();
            let group = time_block!("data_loading", self.group(&mut loader))?;
            since.waited += waiting.elapsed().as_secs_f64();
            let is_over = loader.state().batch >= loader.batches() || group.is_empty();
            if !group.is_empty() {
                for (_, y) in &group {
                    since.rows += dataset::rows_of(y)?;
                }
                self.step(&group, is_over, &mut since, &elapsed)?;
            } else if loader.state().batch == 0 {
                // Nothing is left of the last batches: the epoch ended with the step before.
                self.epoch(&[], true, &elapsed)?;
            }
            if is_over {
                if !group.is_empty() {
                    // The loader goes to its next epoch when it is asked past the end.
                    loader.next_batch().transpose()?;
                }
                self.session.end_epoch()?;
            }
            self.tell();
            self.kept.seconds = elapsed();
            self.kept.loader = Some(loader.state());
            let asked = interrupt.asked();
            let step = self.session.position().step;
            let due = self.safe.as_ref().is_some_and(|s| s.at != Some(step) && (step % s.plan.every == 0 || step == self.habits.steps || asked.is_some()));
            if due {
                self.save()?;
            }
            if let (Some(signal), true) = (asked, step < self.habits.steps) {
                return Err(self.interrupted(signal));
            }
        }
        Ok(())
    }
    /// What became of the folder's files, to who watches.
    fn tell(&mut self) {
        for warning in self.folder.iter_mut().flat_map(|f| f.take_warnings()) {
            self.watch.warn(&warning);
        }
    }
    fn step(&mut self, group: &[(Tensor, Tensor)], is_over: bool, since: &mut Since, elapsed: &dyn Fn() -> f64) -> Result<(), Failure> {
        let step = self.session.position().step + 1;
        let is_last = step == self.habits.steps;
        let logs = step % self.habits.log_every == 0 || is_last;
        let judges = is_over || is_last || self.habits.eval_every.is_some_and(|n| step % n == 0);
        let stepped = self.session.step(group, Look { norm: logs, each: judges && self.folder.is_some() })?;
        self.watch.step(step);
        if logs {
            self.log(&stepped, since)?;
        }
        if judges {
            self.epoch(&stepped.norms, is_over || is_last, elapsed)?;
            *since = Since::now();
        }
        Ok(())
    }
    /// The batches of one step: fewer at the end of an epoch, none after it.
    fn group(&mut self, loader: &mut DataLoader<AnyDataset>) -> Result<Vec<(Tensor, Tensor)>, Failure> {
        let group = dataset::group(loader, self.habits.accumulate)?;
        for bad in loader.take_bad_records() {
            self.watch.warn(&format!("left out: {bad}"));
        }
        Ok(group)
    }
    fn log(&mut self, stepped: &Stepped, since: &mut Since) -> Result<(), Failure> {
        let at = self.session.position();
        let (loss, lr) = (self.session.loss()?, self.session.lr());
        let norm = stepped.grad_norm.as_ref().map(Tensor::item::<f64>).transpose()?;
        let seconds = since.time.elapsed().as_secs_f64();
        let report = StepReport { step: at.step, epoch: at.epoch + 1, loss, lr, rows_per_second: since.rows as f64 / seconds.max(1e-9) };
        self.watch.log(&report);
        if let Some(folder) = &mut self.folder {
            folder.metric(&json!({
                "kind": "step", "step": at.step, "epoch": at.epoch + 1,
                "loss": number(loss), "lr": number(lr), "grad_norm": norm.map(number),
            }))?;
            folder.time(json!({
                "kind": "step", "step": at.step, "rows_per_second": number(report.rows_per_second),
                "loader_wait_seconds": number(since.waited), "rss_bytes": memory::process_memory().ok().map(|m| m.resident),
            }))?;
            let mut scalars =
                BTreeMap::from([("train/loss".to_string(), loss), ("train/lr".into(), lr), ("throughput/rows_per_second".into(), report.rows_per_second)]);
            scalars.extend(norm.map(|n| ("train/grad_norm".to_string(), n)));
            folder.scalars(at.step, &scalars)?;
        }
        *since = Since::now();
        Ok(())
    }
    /// The line of an epoch, or of a validation within one.
    fn epoch(&mut self, norms: &[(String, f64)], is_over: bool, elapsed: &dyn Fn() -> f64) -> Result<(), Failure> {
        let at = self.session.position();
        let (loss, lr) = (self.session.mean_loss()?, self.session.lr());
        if is_over {
            self.kept.losses.push(loss.to_bits());
        }
        let valid = match &self.parts.valid {
            Some(part) => Some(evaluate::evaluate(&self.session.model, &self.session.objective, part, self.session.device(), &self.parts.evaluation())?),
            None => None,
        };
        let report = EpochReport { epoch: at.epoch + 1, step: at.step, loss, valid: valid.as_ref().map(|v| (v.loss, v.accuracy)), lr, seconds: elapsed() };
        self.watch.epoch(&report);
        self.score = valid.as_ref().map(|v| (at.step, v.accuracy.unwrap_or(-v.loss)));
        let Some(folder) = &mut self.folder else { return Ok(()) };
        let mut line = json!({
            "kind": "epoch", "step": at.step, "epoch": at.epoch + 1, "loss": number(loss), "lr": number(lr),
            "grad_norms": norms.iter().map(|(name, v)| (name.clone(), number(*v))).collect::<serde_json::Map<_, _>>(),
        });
        let mut scalars: BTreeMap<String, f64> = norms.iter().map(|(name, v)| (format!("grad_norm/{name}"), *v)).collect();
        scalars.insert("train/epoch_loss".into(), loss);
        if let Some(v) = &valid {
            line["valid"] = json!({ "loss": number(v.loss), "accuracy": v.accuracy.map(number), "rows": v.rows });
            scalars.insert("valid/loss".into(), v.loss);
            scalars.extend(v.accuracy.map(|a| ("valid/accuracy".to_string(), a)));
        }
        folder.metric(&line)?;
        folder.time(json!({ "kind": "epoch", "step": at.step, "epoch": at.epoch + 1, "rss_bytes": memory::process_memory().ok().map(|m| m.resident) }))?;
        folder.scalars(at.step, &scalars)
    }
    /// A checkpoint of now.
    fn save(&mut self) -> Result<(), Failure> {
        let Some(safe) = &mut self.safe else { return Ok(()) };
        let step = self.session.position().step;
        let mut before: Box<dyn FnOnce() -> storage::Result<()> + Send> = Box::new(|| Ok(()));
        if let Some(folder) = &mut self.folder {
            match folder.settle()? {
                Ok(settled) => (self.kept.metrics_bytes, before) = (settled.metrics_bytes, settled.sync),
                // A checkpoint would count on lines that are not there.
                Err(e) => return safe.without(step, e, self.watch),
            }
        }
        let kept = serde_json::to_value(&self.kept).map_err(|e| Failure::Run(format!("the state cannot be written: {e}")))?;
        let snapshot = self.session.snapshot(kept)?;
        let score = self.score.filter(|(at, _)| *at == step).map(|(_, score)| score);
        safe.save(before, snapshot, score, self.folder.as_deref_mut(), self.watch)
    }
    /// The end that somebody asked for. The checkpoint was handed over; here it is waited for.
    fn interrupted(&mut self, signal: i32) -> Failure {
        let checkpoint = match &mut self.safe {
            None => None,
            Some(safe) => match safe.flush(self.watch) {
                Ok(()) => safe.newest.clone(),
                Err(e) => return e,
            },
        };
        Failure::Interrupted { signal, step: self.session.position().step, checkpoint }
    }
}
