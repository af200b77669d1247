//! Ending a run that does not get better any more, and what is watched to tell.
use super::Trainer;
use crate::Failure;
use adamant_core::Tensor;
use adamant_optim::schedule::Goal;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// How good a model is on the validation part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// the mean loss of all targets
    pub loss: f64,
    /// other measures by name, such as `accuracy`
    pub metrics: BTreeMap<String, f64>,
    /// records
    pub rows: usize,
}

/// A measure that is watched: the mean loss of the epoch so far, the loss of the validation part, or one of its metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Monitor {
    /// the mean loss of the epoch so far
    TrainLoss,
    /// the loss of the validation part
    ValidLoss,
    /// a metric of the validation part
    Metric(String),
}
impl Monitor {
    /// From its name: `train_loss`, `valid_loss`, or `valid_` and the name of a metric (`valid_accuracy`).
    pub fn named(name: &str) -> Monitor {
        match name {
            "train_loss" => Monitor::TrainLoss,
            "valid_loss" => Monitor::ValidLoss,
            metric => Monitor::Metric(metric.strip_prefix("valid_").unwrap_or(metric).to_string()),
        }
    }
    /// Does it need a validation part?
    pub fn needs_validation(&self) -> bool {
        *self != Monitor::TrainLoss
    }
    /// What is better, where the name tells: less of a loss or an error, more of what is right.
    pub fn goal(&self) -> Option<Goal> {
        match self {
            Monitor::TrainLoss | Monitor::ValidLoss => Some(Goal::Min),
            Monitor::Metric(name) => match name.as_str() {
                "accuracy" | "r2" | "f1" | "precision" | "recall" | "auc" | "top_5" => Some(Goal::Max),
                "mae" | "mse" | "rmse" | "loss" => Some(Goal::Min),
                _ => None,
            },
        }
    }
    /// The measure; none where there is no such one.
    pub fn of(&self, train_loss: f64, valid: Option<&Score>) -> Option<f64> {
        match self {
            Monitor::TrainLoss => Some(train_loss),
            Monitor::ValidLoss => valid.map(|v| v.loss),
            Monitor::Metric(name) => valid.and_then(|v| v.metrics.get(name).copied()),
        }
    }
}
impl fmt::Display for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Monitor::TrainLoss => f.write_str("train_loss"),
            Monitor::ValidLoss => f.write_str("valid_loss"),
            Monitor::Metric(name) => write!(f, "valid_{name}"),
        }
    }
}

/// Ends a run when a measure has not improved for more than `patience` validations (or epochs, where there is no validation part),
/// as Keras's callback of that name (there: `patience` - 1).
#[derive(Clone, Debug)]
pub struct EarlyStopping {
    /// what is watched
    pub monitor: Monitor,
    /// what is better
    pub goal: Goal,
    /// validations without improvement that are borne
    pub patience: u64,
    /// a smaller change is no improvement
    pub min_delta: f64,
    /// end with the weights of the best validation, instead of the last ones?
    pub restore_best: bool,
    pub(crate) seen: Seen,
    /// the weights of the best validation
    pub(crate) best: Option<Vec<(String, Tensor)>>,
}
/// What was seen so far; floats by their bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seen {
    best: Option<u64>,
    /// the step of the best
    pub step: u64,
    bad: u64,
}
impl EarlyStopping {
    /// Watches a measure; bears `patience` validations without improvement.
    pub fn new(monitor: Monitor, patience: u64) -> EarlyStopping {
        let goal = monitor.goal().unwrap_or(Goal::Min);
        EarlyStopping { monitor, goal, patience, min_delta: 0.0, restore_best: false, seen: Seen::default(), best: None }
    }
    /// Ends with the weights of the best validation, instead of the last ones.
    #[must_use]
    pub fn restore_best(mut self, restore: bool) -> EarlyStopping {
        self.restore_best = restore;
        self
    }
    /// Notes a measure. Is it the best so far?
    pub(crate) fn observe(&mut self, measure: f64, step: u64) -> bool {
        let better = match (self.seen.best.map(f64::from_bits), self.goal) {
            (None, _) => !measure.is_nan(),
            (Some(best), Goal::Min) => measure < best - self.min_delta,
            (Some(best), Goal::Max) => measure > best + self.min_delta,
        };
        self.seen = if better { Seen { best: Some(measure.to_bits()), step, bad: 0 } } else { Seen { bad: self.seen.bad + 1, ..self.seen } };
        better
    }
    /// Why the run is over, if it is.
    pub(crate) fn over(&self) -> Option<String> {
        let best = self.seen.best.map_or_else(|| "never a number".to_string(), |b| format!("best {} at step {}", f64::from_bits(b), self.seen.step));
        (self.seen.bad > self.patience).then(|| format!("{} has not improved for {} validations: {best}", self.monitor, self.seen.bad))
    }
    /// The measure, or what there is instead.
    pub(crate) fn measure(&self, train_loss: f64, valid: Option<&Score>) -> Result<f64, Failure> {
        measure(&self.monitor, train_loss, valid)
    }
}
/// A measure that must be there.
pub(crate) fn measure(monitor: &Monitor, train_loss: f64, valid: Option<&Score>) -> Result<f64, Failure> {
    monitor.of(train_loss, valid).ok_or_else(|| match valid {
        None => Failure::Usage(format!("`{monitor}` is watched, and there is no validation part")),
        Some(v) => {
            let there = ["train_loss".to_string(), "valid_loss".into()].into_iter().chain(v.metrics.keys().map(|m| format!("valid_{m}")));
            Failure::Usage(format!("`{monitor}` is watched, and validation gives {}", there.collect::<Vec<_>>().join(", ")))
        }
    })
}
impl<M, B> Trainer<M, B> {
    /// Ends the run when a measure stops getting better.
    #[must_use]
    pub fn early_stopping(self, stopping: EarlyStopping) -> Self {
        Trainer { stopping: Some(stopping), ..self }
    }
}
