//! A rule where a step finds its numbers: shared with the captures of steps, which ask for them at each call.
//!
//! Must not know parameters or slots.
use crate::UpdateRule;
use adamant_core::compile::decide;
use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The rule of a group.
pub(crate) struct Rule<R> {
    rule: RwLock<R>,
    /// how often it was changed
    edits: AtomicU64,
}
impl<R: UpdateRule> Rule<R> {
    pub fn new(rule: R) -> Rule<R> {
        Rule { rule: RwLock::new(rule), edits: AtomicU64::new(0) }
    }
    pub fn read<T>(&self, f: impl FnOnce(&R) -> T) -> T {
        f(&self.rule.read().unwrap_or_else(PoisonError::into_inner))
    }
    pub fn edit<T>(&self, f: impl FnOnce(&mut R) -> T) -> T {
        self.edits.fetch_add(1, Relaxed);
        f(&mut self.rule.write().unwrap_or_else(PoisonError::into_inner))
    }
    /// A capture is good while what it cannot ask for stands as it does now: whether its numbers make sense and which way it goes,
    /// or anything at all where the rule does not ask.
    pub fn watch(self: &Arc<Self>) {
        let rule = self.clone();
        if R::NUMBERS_ARE_ARGUMENTS {
            let ascends = rule.read(R::maximize);
            decide(move || rule.read(|r| r.check().is_ok() && r.maximize() == ascends));
        } else {
            let edits = rule.edits.load(Relaxed);
            decide(move || rule.edits.load(Relaxed) == edits);
        }
    }
}

/// The rates of an optimizer's groups, wherever the optimizer is.
pub trait Rates: Send + Sync {
    /// The learning rate of each group.
    fn lrs(&self) -> Vec<f64>;
    /// Changes the learning rate of each group.
    fn set_lrs(&self, lrs: &[f64]);
    /// Changes the momentum of all groups, where the rule has one.
    fn set_momentum(&self, momentum: f64);
}
impl<R: UpdateRule> Rates for Vec<Arc<Rule<R>>> {
    fn lrs(&self) -> Vec<f64> {
        self.iter().map(|rule| rule.read(R::lr)).collect()
    }
    fn set_lrs(&self, lrs: &[f64]) {
        self.iter().zip(lrs).for_each(|(rule, lr)| rule.edit(|r| r.set_lr(*lr)));
    }
    fn set_momentum(&self, momentum: f64) {
        self.iter().for_each(|rule| rule.edit(|r| r.set_momentum(momentum)));
    }
}
