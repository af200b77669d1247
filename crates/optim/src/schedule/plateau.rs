//! A rate that falls when a measure stops getting better.
use crate::Optimizer;

/// What is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// less
    Min,
    /// more
    Max,
}
/// How much better counts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Threshold {
    /// by this part of the best
    Rel(f64),
    /// by this much
    Abs(f64),
}
/// Times `factor` when the measure has not improved for more than `patience` steps.
#[derive(Clone, Debug)]
pub struct ReduceLrOnPlateau {
    /// what is better
    pub goal: Goal,
    /// the factor
    pub factor: f64,
    /// steps without improvement that are borne
    pub patience: u64,
    /// what counts as improvement
    pub threshold: Threshold,
    /// steps after a change during which nothing is counted
    pub cooldown: u64,
    /// the rate goes no lower
    pub min_lr: f64,
    /// a smaller change is not made
    pub eps: f64,
    state: PlateauState,
}
/// What [`ReduceLrOnPlateau`] has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlateauState {
    /// the best measure
    pub best: Option<f64>,
    /// measures since without improvement
    pub bad: u64,
    /// measures during which nothing is counted yet
    pub cooling: u64,
}
impl ReduceLrOnPlateau {
    /// PyTorch's defaults.
    pub fn new(goal: Goal) -> ReduceLrOnPlateau {
        ReduceLrOnPlateau {
            goal,
            factor: 0.1,
            patience: 10,
            threshold: Threshold::Rel(1e-4),
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
            state: PlateauState::default(),
        }
    }
    /// What it has seen, to be saved.
    pub fn state(&self) -> PlateauState {
        self.state
    }
    /// Goes on from what [`ReduceLrOnPlateau::state`] gave.
    pub fn restore(&mut self, state: PlateauState) {
        self.state = state;
    }
    /// Notes the measure. `true`: it has stalled, the rate should fall.
    pub fn observe(&mut self, measure: f64) -> bool {
        let better = match (self.state.best, self.goal, self.threshold) {
            (None, ..) => !measure.is_nan(),
            (Some(best), Goal::Min, Threshold::Rel(t)) => measure < best * (1.0 - t),
            (Some(best), Goal::Min, Threshold::Abs(t)) => measure < best - t,
            (Some(best), Goal::Max, Threshold::Rel(t)) => measure > best * (1.0 + t),
            (Some(best), Goal::Max, Threshold::Abs(t)) => measure > best + t,
        };
        if better {
            self.state.best = Some(measure);
            self.state.bad = 0;
        } else {
            self.state.bad += 1;
        }
        if self.state.cooling > 0 {
            self.state.cooling -= 1;
            self.state.bad = 0;
        }
        if self.state.bad > self.patience {
            (self.state.cooling, self.state.bad) = (self.cooldown, 0);
            return true;
        }
        false
    }
    /// The rate after a reduction.
    pub fn reduced(&self, present: f64) -> f64 {
        let lower = (present * self.factor).max(self.min_lr);
        if present - lower > self.eps { lower } else { present }
    }
    /// Notes the measure and lowers the optimizer's rates if it has stalled.
    pub fn step(&mut self, measure: f64, optimizer: &mut dyn Optimizer) {
        if self.observe(measure) {
            let lrs: Vec<f64> = optimizer.lrs().into_iter().map(|lr| self.reduced(lr)).collect();
            optimizer.set_lrs(&lrs);
        }
    }
}
