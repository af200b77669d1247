//! The numbers of a rule by name: what is saved and restored, and what makes no sense.
use crate::UpdateRule;
use adamant_core::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// The numbers of one group's rule by name.
pub type Hyperparameters = BTreeMap<String, f64>;
pub(crate) const LR: &str = "lr";

/// The state of another optimizer.
#[track_caller]
pub(crate) fn another(name: &str, wants: String) -> Error {
    Error::new("load_state_dict", ErrorKind::Argument(format!("the state is of another optimizer: {name} has {wants}")))
}

/// Are the numbers that are given those of this rule, by their names?
#[track_caller]
pub(crate) fn same_names(rule: &str, known: &Hyperparameters, given: &Hyperparameters) -> Result<()> {
    if known.keys().eq(given.keys()) {
        return Ok(());
    }
    let names = |of: &Hyperparameters| of.keys().cloned().collect::<Vec<_>>().join(", ");
    Err(another(rule, format!("{}, not {}", names(known), names(given))))
}
/// All numbers of a rule.
pub(crate) fn numbers(rule: &mut impl UpdateRule) -> Hyperparameters {
    let mut all = BTreeMap::from([(LR.to_string(), rule.lr())]);
    all.extend(rule.hyperparameters().into_iter().map(|(name, v)| (name, *v)));
    all
}
/// What `rule` says of its numbers, where a rate of exactly 0 is no fault: rules that refuse it from a caller have it
/// from a schedule that came to its end, and go on from there.
pub(crate) fn checked_behind_a_schedule<R: UpdateRule>(rule: &mut R) -> std::result::Result<(), String> {
    let lr = rule.lr();
    if lr == 0.0 {
        rule.set_lr(f64::MIN_POSITIVE);
    }
    let checked = rule.check();
    rule.set_lr(lr);
    checked
}
