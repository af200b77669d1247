//! The state of a training run, and one step of it.
//!
//! Everything that the next step depends on is here or follows from it: parameters and buffers, the optimizer's slots,
//! the schedule's position, the generator, and the losses of the epoch so far. The position in the data is the loader's, and the run keeps it.
//! [`Session::snapshot`] takes all of it; a session of the same description that [`Session::restore`]s it goes on with
//! the same bits.
use crate::{Failure, checkpoint::Snapshot, dataset, monitor, objective::Objective};
use adamant_core::{Device, Grads, Tensor, profile::record_function, time_block};
use adamant_nn::{Module, Param, RngState, Sequential, Walk, rng_state, set_rng_state};
use adamant_optim::{
    ClipPolicy, GradAccumulator, Optimizer, clip_grad_norm,
    schedule::{Schedule, Scheduler},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// steps done
    pub step: u64,
    /// epochs done
    pub epoch: u64,
}
/// Losses since the epoch began. A device is asked for them only where somebody wants to know.
#[derive(Default)]
struct Losses {
    sum: f64,
    count: u64,
    last: f64,
    unread: Vec<Tensor>,
}
impl Losses {
    /// Reads what was not read, in order: the same sum whenever it is asked for.
    fn settle(&mut self, step: u64) -> Result<(), Failure> {
        let first = step + 1 - self.unread.len() as u64;
        for (k, loss) in std::mem::take(&mut self.unread).into_iter().enumerate() {
            let value = loss.item::<f64>()?;
            if !value.is_finite() {
                return Err(Failure::Diverged(format!("the loss is {value} in step {}: training has diverged", first + k as u64)));
            }
            self.sum += value;
            self.count += 1;
            self.last = value;
        }
        Ok(())
    }
}
/// What is saved beside the tensors. Floats are kept by their bits: a run goes on with the same ones.
#[derive(Serialize, Deserialize)]
struct Saved {
    position: Position,
    loss_sum: u64,
    loss_count: u64,
    loss_last: u64,
    rates: Vec<u64>,
    schedule: Option<u64>,
    generator: [u32; 4],
    run: serde_json::Value,
}

/// The norm of all gradients together, not yet computed.
fn total_norm(grads: &Grads, parameters: &[Param]) -> Option<Tensor> {
    let squares = parameters.iter().filter_map(|p| grads.of(&p.cell())).map(|g| (g * g).sum(..));
    Some(squares.reduce(|sum, square| sum + square)?.sqrt())
}

/// A run's state. See the module's documentation.
pub struct Session {
    /// the model
    pub model: Sequential,
    /// what is learned
    pub objective: Objective,
    optimizer: Box<dyn Optimizer>,
    scheduler: Option<Scheduler<Box<dyn Schedule>>>,
    clip: ClipPolicy,
    accumulator: GradAccumulator,
    parameters: Vec<(String, Param)>,
    device: Device,
    position: Position,
    losses: Losses,
}
/// What a step leaves for those who watch it.
pub struct Stepped {
    /// the norm of all gradients before clipping, where it was asked for or needed anyway
    pub grad_norm: Option<Tensor>,
    /// the norm of each parameter's gradient before clipping, where it was asked for
    pub norms: Vec<(String, f64)>,
}
/// What is to be looked at in a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// the norm of all gradients
    pub norm: bool,
    /// the norm of each parameter's gradient: gradients that would never be memory become it for this
    pub each: bool,
}
impl Session {
    /// A session at its first step.
    ///
    /// # Errors
    /// `accumulate` is 0.
    pub fn new(
        model: Sequential,
        objective: Objective,
        mut optimizer: Box<dyn Optimizer>,
        schedule: Option<Box<dyn Schedule>>,
        clip: ClipPolicy,
        accumulate: usize,
        device: Device,
    ) -> Result<Session, Failure> {
        let scheduler = schedule.map(|s| Scheduler::new(s, &mut *optimizer));
        let parameters = model.named_parameters();
        let accumulator = GradAccumulator::new(model.parameters(), accumulate)?;
        model.train();
        Ok(Session { model, objective, optimizer, scheduler, clip, accumulator, parameters, device, position: Position::default(), losses: Losses::default() })
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
    /// The parameters and their names.
    pub fn parameters(&self) -> &[(String, Param)] {
        &self.parameters
    }
    /// One step on a group of batches: as many as are accumulated, or fewer at the end of an epoch.
    ///
    /// # Errors
    /// What the model, the loss or the optimizer came to; then no parameter has changed.
    pub fn step(&mut self, group: &[(Tensor, Tensor)], look: Look) -> Result<Stepped, Failure> {
        let (mut grads, mut loss, mut total) = (None, None::<Tensor>, 0);
        for (x, y) in group {
            let n = dataset::rows_of(y)?;
            let (x, y) = (x.to(self.device), y.to(self.device));
            let outputs = time_block!("forward", self.model.forward(&x))?;
            let mean = time_block!("loss", self.objective.loss(&outputs, &y))?;
            grads = self.accumulator.add(time_block!("backward", mean.backward())?, n)?;
            let weighted = if group.len() == 1 { mean.detach() } else { mean.detach() * n as f64 };
            loss = Some(loss.map_or_else(|| weighted.clone(), |sum| sum + &weighted));
            total += n;
        }
        let waiting = match grads {
            None => self.accumulator.finish()?,
            some => some,
        };
        let (Some(mut grads), Some(loss)) = (waiting, loss) else { return Err(Failure::Run("a step without a batch".into())) };
        let loss = if group.len() == 1 { loss } else { loss / total as f64 };
        let _range = record_function("optimizer_step");
        let leaves: Vec<Param> = self.parameters.iter().map(|(_, p)| p.clone()).collect();
        let norms = if look.each { monitor::grad_norms(&grads, &self.parameters)? } else { Vec::new() };
        let grad_norm = match self.clip {
            ClipPolicy::Norm(max) => Some(clip_grad_norm(&mut grads, &leaves, max)?),
            other => {
                let norm = if look.norm { total_norm(&grads, &leaves) } else { None };
                other.apply(&mut grads, &leaves)?;
                norm
            }
        };
        self.optimizer.step(&grads)?;
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.step(&mut *self.optimizer);
        }
        self.position.step += 1;
        self.losses.unread.push(loss);
        Ok(Stepped { grad_norm, norms })
    }
    /// The loss of the last step.
    ///
    /// # Errors
    /// `Diverged` names the first step whose loss is no number.
    pub fn loss(&mut self) -> Result<f64, Failure> {
        self.losses.settle(self.position.step)?;
        Ok(self.losses.last)
    }
    /// The mean loss of the epoch so far.
    ///
    /// # Errors
    /// `Diverged` names the first step whose loss is no number.
    pub fn mean_loss(&mut self) -> Result<f64, Failure> {
        self.losses.settle(self.position.step)?;
        Ok(self.losses.sum / self.losses.count.max(1) as f64)
    }
    /// Goes to the start of the next epoch.
    ///
    /// # Errors
    /// `Diverged` names the first step whose loss is no number.
    pub fn end_epoch(&mut self) -> Result<(), Failure> {
        self.losses.settle(self.position.step)?;
        self.position.epoch += 1;
        self.losses = Losses { last: self.losses.last, ..Losses::default() };
        Ok(())
    }
    /// All of the state, with what the run itself wants kept beside it.
    ///
    /// # Errors
    /// `Diverged`: a state that has diverged is not saved. Otherwise a device that fails.
    pub fn snapshot(&mut self, run: serde_json::Value) -> Result<Snapshot, Failure> {
        self.losses.settle(self.position.step)?;
        let saved = Saved {
            position: self.position,
            loss_sum: self.losses.sum.to_bits(),
            loss_count: self.losses.count,
            loss_last: self.losses.last.to_bits(),
            rates: self.optimizer.lrs().into_iter().map(f64::to_bits).collect(),
            schedule: self.scheduler.as_ref().map(Scheduler::steps),
            generator: rng_state(self.device)?.0,
            run,
        };
        let state = serde_json::to_value(saved).map_err(|e| Failure::Run(format!("the state cannot be written: {e}")))?;
        let tensors = BTreeMap::from([("model".to_string(), self.model.state_dict()), ("optimizer".to_string(), self.optimizer.state_dict())]);
        Ok(Snapshot { step: self.position.step, tensors, state })
    }
    /// Goes on from a checkpoint; gives back what the run kept beside it.
    ///
    /// # Errors
    /// `Input`: a checkpoint of another model, or one that lacks something. Then the session is not to be used.
    pub fn restore(&mut self, from: &Snapshot) -> Result<serde_json::Value, Failure> {
        let refuse = |what: String| Failure::Input(format!("the checkpoint of step {}: {what}", from.step));
        let part = |name: &str| from.tensors.get(name).map(Vec::as_slice).ok_or_else(|| refuse(format!("it has no {name}")));
        let saved: Saved = serde_json::from_value(from.state.clone()).map_err(|e| refuse(format!("state.json: {e}")))?;
        if saved.rates.len() != self.optimizer.lrs().len() || saved.schedule.is_some() != self.scheduler.is_some() {
            return Err(refuse("it has another optimizer or schedule".into()));
        }
        self.model.load_state_dict(part("model")?).map_err(|e| refuse(e.to_string()))?;
        self.optimizer.load_state_dict(part("optimizer")?).map_err(|e| refuse(e.to_string()))?;
        if let (Some(scheduler), Some(steps)) = (&mut self.scheduler, saved.schedule) {
            // The schedule's rates first (it may cycle the momentum too), then the very rates of then.
            scheduler.resume(steps);
        }
        self.optimizer.set_lrs(&saved.rates.iter().map(|bits| f64::from_bits(*bits)).collect::<Vec<_>>());
        set_rng_state(self.device, RngState(saved.generator))?;
        self.position = saved.position;
        self.losses = Losses { sum: f64::from_bits(saved.loss_sum), count: saved.loss_count, last: f64::from_bits(saved.loss_last), unread: Vec::new() };
        Ok(saved.run)
    }
}
