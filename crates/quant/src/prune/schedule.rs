//! Pruning little by little while a model trains. Must not know what trains it.
use super::{PRUNE, PruneAmount, PrunedModel};
use crate::select::{check, refusal};
use adamant_core::{Grads, Result, Tensor};

/// How sparsity goes from the first to the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PruningCurve {
    /// The last from the first step on.
    Constant,
    /// In equal parts.
    Linear,
    /// `s_f + (s_i - s_f) (1 - t)³`: much at first, when much can be spared (Zhu and Gupta 2017, equation 1).
    Cubic,
}
/// Which sparsity a model has at which step.
///
/// ```
/// use adamant_quant::prune::{PruningCurve, PruningSchedule};
/// let schedule = PruningSchedule::new(PruningCurve::Cubic, 0.8).between(100, 200).every(10);
/// assert_eq!(schedule.sparsity_at(99), 0.0);
/// assert!((schedule.sparsity_at(150) - 0.7).abs() < 1e-12);
/// assert_eq!(schedule.sparsity_at(5000), 0.8);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct PruningSchedule {
    /// how it goes
    pub curve: PruningCurve,
    /// the sparsity at `begin`
    pub initial: f64,
    /// the sparsity from `end` on
    pub target: f64,
    /// the first step that prunes
    pub begin: u64,
    /// the last one
    pub end: u64,
    /// steps from one pruning to the next
    pub every: u64,
}
impl PruningSchedule {
    /// From nothing to a sparsity, all at the first step; see [`PruningSchedule::between`].
    pub fn new(curve: PruningCurve, target: f64) -> PruningSchedule {
        PruningSchedule { curve, initial: 0.0, target, begin: 0, end: 0, every: 1 }
    }
    /// Begins with a sparsity.
    #[must_use]
    pub fn from(self, initial: f64) -> PruningSchedule {
        PruningSchedule { initial, ..self }
    }
    /// Between two steps.
    #[must_use]
    pub fn between(self, begin: u64, end: u64) -> PruningSchedule {
        PruningSchedule { begin, end, ..self }
    }
    /// Every so many steps, and at the last.
    #[must_use]
    pub fn every(self, steps: u64) -> PruningSchedule {
        PruningSchedule { every: steps, ..self }
    }
    /// The sparsity at a step; before the first it is 0.
    pub fn sparsity_at(&self, step: u64) -> f64 {
        if step < self.begin {
            return 0.0;
        }
        let way = if step >= self.end { 1.0 } else { (step - self.begin) as f64 / (self.end - self.begin) as f64 };
        let left = match self.curve {
            _ if way == 1.0 => 0.0,
            PruningCurve::Constant => 0.0,
            PruningCurve::Linear => 1.0 - way,
            PruningCurve::Cubic => (1.0 - way).powi(3),
        };
        self.target + (self.initial - self.target) * left
    }
    fn is_due(&self, step: u64) -> bool {
        (self.begin..=self.end).contains(&step) && ((step - self.begin).is_multiple_of(self.every) || step == self.end)
    }
    #[track_caller]
    fn sense(&self) -> Result<()> {
        PruneAmount::Share(self.initial).sense()?;
        PruneAmount::Share(self.target).sense()?;
        check(PRUNE, self.initial <= self.target, || format!("the sparsity goes from {} to {}: what is masked stays masked", self.initial, self.target))?;
        check(PRUNE, self.begin <= self.end, || format!("the schedule begins at step {} and ends at {}", self.begin, self.end))?;
        check(PRUNE, self.every > 0, || "the schedule prunes every 0 steps: at least 1 is needed".into())
    }
}
/// Prunes a model by a schedule: call [`PruningScheduler::step`] behind each step of the optimizer.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module, Sequential};
/// # use adamant_quant::prune::{PruneImportance, Pruner, PruningCurve, PruningSchedule, PruningScheduler};
/// # adamant_core::Device::reference().make_current();
/// let model = Sequential::new().add(Linear::new(10, 10)?);
/// let pruned = Pruner::new(PruneImportance::Magnitude).prune(&model, 0.0)?;
/// let schedule = PruningSchedule::new(PruningCurve::Linear, 0.5).between(0, 10).every(5);
/// let mut scheduler = PruningScheduler::new(pruned, schedule)?;
/// for step in 0..20 {
///     // .. a step of the optimizer ..
///     if let Some(sparsity) = scheduler.step()? {
///         assert_eq!(sparsity, f64::from(step.min(10)) / 20.0);
///     }
/// }
/// assert_eq!(scheduler.pruned().report()?.sparsity(), 0.5);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct PruningScheduler {
    pruned: PrunedModel,
    schedule: PruningSchedule,
    position: u64,
}
/// The name of the position in a state dict.
const POSITION: &str = "position";
impl PruningScheduler {
    /// At its first step.
    ///
    /// # Errors
    /// A schedule that makes no sense.
    #[track_caller]
    pub fn new(pruned: PrunedModel, schedule: PruningSchedule) -> Result<PruningScheduler> {
        schedule.sense()?;
        Ok(PruningScheduler { pruned, schedule, position: 0 })
    }
    /// Counts a step, and prunes if it is one that does: then the sparsity it has pruned to.
    ///
    /// # Errors
    /// As [`PrunedModel::prune`]. Then nothing has changed, and the step is not counted.
    #[track_caller]
    pub fn step(&mut self) -> Result<Option<f64>> {
        self.count(None)
    }
    /// As [`PruningScheduler::step`], with the gradients of this step: for importance by gradients.
    ///
    /// # Errors
    /// As [`PrunedModel::prune_by`]. Then nothing has changed, and the step is not counted.
    #[track_caller]
    pub fn step_by(&mut self, grads: &Grads) -> Result<Option<f64>> {
        self.count(Some(grads))
    }
    #[track_caller]
    fn count(&mut self, grads: Option<&Grads>) -> Result<Option<f64>> {
        let due = self.schedule.is_due(self.position).then(|| self.schedule.sparsity_at(self.position));
        if let Some(sparsity) = due {
            self.pruned.further(PruneAmount::Share(sparsity), grads)?;
        }
        self.position += 1;
        Ok(due)
    }
    /// How many steps were counted.
    pub fn position(&self) -> u64 {
        self.position
    }
    /// The model it prunes.
    pub fn pruned(&self) -> &PrunedModel {
        &self.pruned
    }
    /// Ends the schedule and gives the model, to be reported on or made permanent.
    pub fn into_pruned(self) -> PrunedModel {
        self.pruned
    }
    /// Its position. The masks are in the model's own state dict.
    pub fn state_dict(&self) -> Vec<(String, Tensor)> {
        vec![(POSITION.into(), Tensor::from_vec(vec![self.position as i64], [1]))]
    }
    /// Goes on from the position that [`PruningScheduler::state_dict`] gave.
    ///
    /// # Errors
    /// Another state. Then nothing has changed.
    #[track_caller]
    pub fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        let [(name, value)] = state else { return Err(refusal(PRUNE, format!("the state of a schedule is its position alone, not {} tensors", state.len()))) };
        check(PRUNE, name == POSITION, || format!("the state of a schedule is `{POSITION}`, not `{name}`"))?;
        let position = value.reshape([1]).item::<i64>()?;
        self.position = u64::try_from(position).map_err(|_| refusal(PRUNE, format!("the position of a schedule is {position}")))?;
        Ok(())
    }
}
