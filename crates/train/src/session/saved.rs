//! What is saved of a session beside its tensors. Floats are kept by their bits: a run goes on with the same ones.
use super::{Position, scaled::SavedPrecision};
use adamant_optim::{
    Hyperparameters,
    schedule::{PlateauState, SchedulerState},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Serialize, Deserialize)]
pub(super) struct Saved {
    pub position: Position,
    pub loss_sum: u64,
    pub loss_count: u64,
    pub loss_last: u64,
    /// the learning rate of each group, in checkpoints that have nothing else of the optimizer's numbers
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<u64>,
    /// all numbers of each group
    #[serde(default)]
    pub hyperparameters: Vec<BTreeMap<String, u64>>,
    pub schedule: Option<SavedPace>,
    /// updates of the running mean of the weights
    #[serde(default)]
    pub averaged: Option<u64>,
    pub generator: [u32; 4],
    /// what mixed precision keeps beside the scaler's tensors
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<SavedPrecision>,
    pub run: serde_json::Value,
}
/// Where the course of the learning rate is.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum SavedPace {
    Schedule {
        steps: u64,
        bases: Vec<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale: Option<u64>,
    },
    Plateau {
        best: Option<u64>,
        bad: u64,
        cooling: u64,
    },
    /// in checkpoints that have nothing but the number of steps
    Steps(u64),
}
impl SavedPace {
    pub fn of(state: &SchedulerState) -> SavedPace {
        let scale = (state.scale != 1.0).then(|| state.scale.to_bits());
        SavedPace::Schedule { steps: state.steps, bases: state.bases.iter().map(|b| b.to_bits()).collect(), scale }
    }
    pub fn of_plateau(state: &PlateauState) -> SavedPace {
        SavedPace::Plateau { best: state.best.map(f64::to_bits), bad: state.bad, cooling: state.cooling }
    }
    /// As the state of a schedule that is at `fresh` when it begins.
    pub fn scheduler(&self, fresh: &SchedulerState) -> Option<SchedulerState> {
        match self {
            SavedPace::Schedule { steps, bases, scale } => {
                Some(SchedulerState { steps: *steps, bases: bases.iter().map(|b| f64::from_bits(*b)).collect(), scale: scale.map_or(1.0, f64::from_bits) })
            }
            SavedPace::Steps(steps) => Some(SchedulerState { steps: *steps, ..fresh.clone() }),
            SavedPace::Plateau { .. } => None,
        }
    }
    pub fn plateau(&self) -> Option<PlateauState> {
        match self {
            SavedPace::Plateau { best, bad, cooling } => Some(PlateauState { best: best.map(f64::from_bits), bad: *bad, cooling: *cooling }),
            _ => None,
        }
    }
}
pub(super) fn by_bits(groups: &[Hyperparameters]) -> Vec<BTreeMap<String, u64>> {
    groups.iter().map(|g| g.iter().map(|(name, v)| (name.clone(), v.to_bits())).collect()).collect()
}
pub(super) fn from_bits(groups: &[BTreeMap<String, u64>]) -> Vec<Hyperparameters> {
    groups.iter().map(|g| g.iter().map(|(name, bits)| (name.clone(), f64::from_bits(*bits))).collect()).collect()
}
