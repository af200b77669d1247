//! Bad steps that are answered by an earlier state (`handling_type = "restore"`).
//!
//! Behind every so many steps a state is held: values that the cells share until their next write, and then the memory of it all. A bad
//! step has changed nothing; where the host finds it, what is learnt (weights, buffers, slots, clipping, precision, the generator) becomes that of
//! the held state, the batches of the bad step and some behind it are left out, and rates are multiplied. How far the run is stays: steps
//! that are left out count, so that epochs, the schedule and the lines of the log go on as they would have.
//!
//! A state may be spoiled already when it is held, by numbers that are finite: a rate that was far too large for a step. The step behind it
//! tells. Until that one was good, the state that was held before it is kept too, and answers ([`HeldStates`]).
//!
//! When the host looks decides nothing: it goes back to the bad step itself. A checkpoint keeps the held state beside its own, so that a
//! resumed run answers the next bad step as the other one would have.
use super::{Batch, learn::Learning};
use crate::{Failure, checkpoint::Snapshot, session::Stepped};
use adamant_data::Dataset;
use adamant_nn::Walk;
use adamant_stability::HandlingType;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What stands before the names of a held state's tensors in a checkpoint.
pub(crate) const HELD: &str = "held-";
/// Has a look put an earlier state back? Then the run is at another step than before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "behind an earlier state the step is another one"]
pub(super) enum WentBack {
    Not,
    To,
}
/// The states that can be put back.
#[derive(Default)]
pub(super) struct HeldStates {
    /// a step from it on was good
    tried: Option<Snapshot>,
    /// held since then: no step from it on is known to be good
    newest: Option<Snapshot>,
}
impl HeldStates {
    fn is_empty(&self) -> bool {
        self.tried.is_none() && self.newest.is_none()
    }
    fn has(&self, step: u64) -> bool {
        [&self.tried, &self.newest].into_iter().flatten().any(|held| held.step == step)
    }
    fn hold(&mut self, state: Snapshot) {
        if let Some(before) = self.newest.replace(state) {
            self.tried = Some(before);
        }
    }
    /// All steps up to this one were good.
    pub(super) fn went_to(&mut self, step: u64) {
        if self.newest.as_ref().is_some_and(|newest| newest.step < step) {
            self.tried = self.newest.take();
        }
    }
    /// Decides what answers a bad step: the newest that a good step before it has tried, or the only one that there is.
    fn settle(&mut self, bad: u64) {
        let newest = self.newest.take();
        if let Some(newest) = newest.filter(|newest| self.tried.is_none() || newest.step + 1 < bad) {
            self.tried = Some(newest);
        }
    }
}
/// What a run keeps of it in a checkpoint, beside the held tensors.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(expecting = "struct KeptRestores")]
pub(crate) struct KeptRestores {
    /// bad steps in a row up to the last one
    row: u32,
    /// the step behind those that it leaves out: another bad one there is one more in a row
    next: u64,
    /// steps that are still to be left out
    left_out: u64,
    /// the held state, unless it is that of the checkpoint
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<KeptHeld>,
}
impl KeptRestores {
    /// Bad steps in a row up to this one.
    fn row_before(&self, bad: u64) -> u32 {
        if self.next == bad { self.row } else { 0 }
    }
}
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(expecting = "struct KeptHeld")]
struct KeptHeld {
    step: u64,
    state: Value,
}
impl<M: Walk, D: Dataset + ?Sized + 'static> Learning<'_, '_, M, D>
where
    D::Batch: Batch,
{
    /// Before a step: holds the state, if it is time and all was well up to now.
    pub(super) fn hold(&mut self) -> Result<(), Failure> {
        let Some(every) = self.session.restoring().map(|options| u64::from(options.restore_every)) else { return Ok(()) };
        let step = self.session.position().step;
        let is_due = self.held.is_empty() || (step.is_multiple_of(every) && !self.held.has(step));
        if !is_due || self.look()? == WentBack::To {
            return Ok(());
        }
        self.held.hold(self.session.snapshot(Value::Null)?);
        self.kept.restored.get_or_insert_default();
        Ok(())
    }
    /// Is a bad step answered by the held state, or is it one too many in a row?
    pub(super) fn puts_back(&self, bad: u64) -> bool {
        let kept = self.kept.restored.as_ref();
        !self.held.is_empty() && self.session.restoring().is_some_and(|options| kept.map_or(0, |kept| kept.row_before(bad)) < options.max_consecutive)
    }
    /// Answers a bad step.
    pub(super) fn put_back(&mut self, bad: u64) -> Result<(), Failure> {
        let incident = self.investigated(bad)?;
        self.held.settle(bad);
        let (Some(held), Some(options)) = (&self.held.tried, self.session.restoring()) else { return Err(Failure::Run("no state is held".into())) };
        self.kept.since_line.of_incident(incident.kind());
        let (skip, factor) = (options.restore_skip, options.restore_lr_factor);
        self.session.put_back(held, factor)?;
        let kept = self.kept.restored.get_or_insert_default();
        let left_out = 1 + u64::from(skip);
        (kept.row, kept.left_out, kept.next) = (kept.row_before(bad) + 1, left_out, bad + left_out);
        let (to, lr) = (held.step, self.session.lr());
        self.watch.warn(&format!("{}; what was learnt is again that of step {to}, its batches are left out and the rate is {lr}", incident.text(None)));
        if let Some(folder) = &mut self.folder {
            folder.incident(&incident.to_json())?;
            folder.metric(&json!({
                "kind": "restore", "step": bad, "epoch": self.session.position().epoch + 1, "handling": HandlingType::Restore.name(), "to": to, "lr": lr, "left_out": left_out,
            }))?;
        }
        self.tell();
        Ok(())
    }
    /// Are the batches at hand left out?
    pub(super) fn leaves_out(&self) -> bool {
        self.kept.restored.as_ref().is_some_and(|kept| kept.left_out > 0)
    }
    /// The step of batches that are left out.
    pub(super) fn passed_over(&mut self) -> Result<Stepped, Failure> {
        if let Some(kept) = &mut self.kept.restored {
            kept.left_out -= 1;
        }
        self.session.pass_over()?;
        Ok(Stepped { grad_norm: None, clipped_norm: None, norms: Vec::new(), layers: None })
    }
    /// Takes the held state from a checkpoint.
    pub(super) fn restore_held(&mut self, from: &Snapshot) -> Result<(), Failure> {
        if self.session.restoring().is_none() {
            // The policy is another one now.
            self.kept.restored = None;
            return Ok(());
        }
        let Some(held) = self.kept.restored.as_mut().and_then(|kept| kept.held.take()) else { return Ok(()) };
        let own = |(name, tensors): (&String, &Vec<_>)| Some((name.strip_prefix(HELD)?.to_string(), tensors.clone()));
        let tensors = from.tensors.iter().filter_map(own).collect();
        self.held = HeldStates { tried: Some(Snapshot { step: held.step, tensors, state: held.state }), newest: None };
        Ok(())
    }
}
/// Puts the held state into a checkpoint, unless it is the same. (The newest is: behind all that was done, all was well.)
pub(super) fn save_held(held: &HeldStates, into: &mut Snapshot) {
    let Some(held) = held.tried.as_ref().filter(|held| held.step != into.step) else { return };
    into.tensors.extend(held.tensors.iter().map(|(name, tensors)| (format!("{HELD}{name}"), tensors.clone())));
    into.state["run"]["restored"]["held"] = json!({ "step": held.step, "state": held.state });
}
