//! One rule: what it watches, when it is met, and what it remembers of the lines before.
use super::{AlertWhen, METRICS};
use crate::{failure::shown, trainer::Monitor};
use adamant_optim::schedule::Goal;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The most values that are remembered of the steps that a rule looks back over: the last ones.
pub(super) const MOST_LATE: usize = 1000;
/// The longest name of a rule or a metric, in bytes.
const LONGEST: usize = 500;
/// What happens to a run, under the names that stand in the place of a metric.
pub(super) const EVENTS: [&str; 3] = ["incident", "failure", "end"];

/// A rule on a metric, or on something that happens to a run.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertRule {
    pub(crate) name: String,
    pub(crate) metric: String,
    /// none of an event
    pub(crate) when: Option<AlertWhen>,
    pub(crate) lasts: u64,
    pub(crate) every: Option<u64>,
    pub(crate) goal: Option<Goal>,
}
impl AlertRule {
    /// On a metric by its name: `train/loss`, `train/lr`, `train/grad_norm`, `valid/loss`, a number that a callback logs.
    pub fn new(name: impl Into<String>, metric: impl Into<String>, when: AlertWhen) -> AlertRule {
        AlertRule { when: Some(when), ..AlertRule::event(name, metric) }
    }
    /// On each step whose numbers are not finite or too large, and that ends the run or is answered by an earlier state: a line of
    /// `incidents.jsonl`.
    pub fn incident(name: impl Into<String>) -> AlertRule {
        AlertRule::event(name, EVENTS[0])
    }
    /// On the failure of the run; an end that a signal asked for is none.
    pub fn failure(name: impl Into<String>) -> AlertRule {
        AlertRule::event(name, EVENTS[1])
    }
    /// On the end of a run that went well.
    pub fn end(name: impl Into<String>) -> AlertRule {
        AlertRule::event(name, EVENTS[2])
    }
    fn event(name: impl Into<String>, event: impl Into<String>) -> AlertRule {
        AlertRule { name: name.into(), metric: event.into(), when: None, lasts: 1, every: None, goal: None }
    }
    /// How many lines in a row have to meet it.
    #[must_use]
    pub fn lasting(self, lines: u64) -> AlertRule {
        AlertRule { lasts: lines, ..self }
    }
    /// Steps within which it is counted and not told again, other than [`super::Alerts::every`] says.
    #[must_use]
    pub fn every(self, steps: u64) -> AlertRule {
        AlertRule { every: Some(steps), ..self }
    }
    /// What is an improvement, where the metric's name does not tell.
    #[must_use]
    pub fn goal(self, goal: Goal) -> AlertRule {
        AlertRule { goal: Some(goal), ..self }
    }
    /// What is better: as it was said, or as the name tells.
    pub(super) fn better(&self) -> Option<Goal> {
        let (part, last) = self.metric.rsplit_once('/').unwrap_or(("", &self.metric));
        match (part, last) {
            _ if self.goal.is_some() => self.goal,
            ("throughput", _) => Some(Goal::Max),
            (_, "epoch_loss") => Some(Goal::Min),
            (_, last) => Monitor::Metric(last.into()).goal(),
        }
    }
    /// What is wrong with it?
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.name.trim().is_empty() || self.name.len() > LONGEST {
            return Err(format!("a rule has a name of at most {LONGEST} bytes"));
        }
        if self.metric.trim().is_empty() || self.metric.len() > LONGEST {
            return Err(format!("`metric` is a name, such as {}", METRICS[0]));
        }
        if self.lasts == 0 {
            return Err("`for` counts lines in a row, from 1 on".into());
        }
        let is_event = EVENTS.contains(&&*self.metric);
        match self.when {
            None if !is_event => Err(format!("`when` is missing: what of `{}` is told?", shown(&self.metric))),
            Some(_) if is_event => Err(format!("`{}` happens or does not: it takes no `when`", self.metric)),
            None if self.lasts != 1 => Err(format!("`{}` is no line of the log: it takes no `for`", self.metric)),
            Some(AlertWhen::NoImprovement { .. }) if self.better().is_none() => {
                Err(format!("`{}` does not tell what is better: say `mode = \"min\"` or `\"max\"`", shown(&self.metric)))
            }
            None => Ok(()),
            Some(when) => when.check(),
        }
    }
    /// What it decides by, in words: a state is one of these words alone.
    pub(super) fn meaning(&self) -> String {
        let when = self.when.map(|when| when.to_string()).unwrap_or_default();
        format!("{} {when} for {} {:?}", self.metric, self.lasts, self.better())
    }
}
/// What a rule remembers: part of each checkpoint. Floats by their bits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "struct RuleState")]
pub(crate) struct RuleState {
    /// what the rule decided by
    pub(super) meaning: String,
    /// lines in a row that met it
    #[serde(default, skip_serializing_if = "is_none_yet")]
    row: u64,
    /// step and value of lines of late
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    late: VecDeque<(u64, u64)>,
    /// the best, the least or the largest value so far
    #[serde(default, skip_serializing_if = "Option::is_none")]
    best: Option<u64>,
    /// its step; where there is none, that of the first line
    #[serde(default, skip_serializing_if = "Option::is_none")]
    best_step: Option<u64>,
    /// the step of the last alert that was told
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<u64>,
    /// how often it was met and not told since then
    #[serde(default, skip_serializing_if = "is_none_yet")]
    suppressed: u64,
    /// has its metric come?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) seen: bool,
}
fn is_none_yet(count: &u64) -> bool {
    *count == 0
}
impl RuleState {
    pub(super) fn of(rule: &AlertRule) -> RuleState {
        RuleState { meaning: rule.meaning(), ..RuleState::default() }
    }
    /// Takes a value of the rule's metric. Is the rule met, for long enough? `Some`: what the value was compared with, in words.
    pub(super) fn meets(&mut self, rule: &AlertRule, step: u64, value: f64) -> Option<String> {
        self.seen = true;
        let Some(when) = rule.when else { return Some(String::new()) };
        let (holds, with) = match when {
            AlertWhen::Above(x) => (value > x, None),
            AlertWhen::AtLeast(x) => (value >= x, None),
            AlertWhen::Below(x) => (value < x, None),
            AlertWhen::AtMost(x) => (value <= x, None),
            AlertWhen::NonFinite => (!value.is_finite(), None),
            AlertWhen::Rises { percent, steps } => self.against_mean(step, value, steps, |mean| value - mean > percent / 100.0 * mean.abs()),
            AlertWhen::Falls { percent, steps } => self.against_mean(step, value, steps, |mean| mean - value > percent / 100.0 * mean.abs()),
            AlertWhen::AboveLeast { percent } => {
                let least = self.best(Goal::Min, step, value);
                (least.is_some_and(|least| value - least > percent / 100.0 * least.abs()), least.map(|x| format!("the least is {x}")))
            }
            AlertWhen::BelowMost { percent } => {
                let most = self.best(Goal::Max, step, value);
                (most.is_some_and(|most| most - value > percent / 100.0 * most.abs()), most.map(|x| format!("the most is {x}")))
            }
            AlertWhen::NoImprovement { steps } => {
                self.best_step.get_or_insert(step);
                self.best(rule.better().unwrap_or(Goal::Min), step, value);
                let since = self.best_step.unwrap_or(step);
                let best = self.best.map_or_else(|| "no number yet".into(), |bits| format!("the best is {} of step {since}", f64::from_bits(bits)));
                (step.saturating_sub(since) >= steps, Some(best))
            }
        };
        self.row = if holds { self.row.saturating_add(1) } else { 0 };
        (self.row >= rule.lasts).then(|| with.unwrap_or_default())
    }
    /// Compares with the mean of the steps before, and remembers the value.
    fn against_mean(&mut self, step: u64, value: f64, steps: u64, holds: impl Fn(f64) -> bool) -> (bool, Option<String>) {
        self.late.retain(|(at, _)| at.saturating_add(steps) >= step);
        let sum: f64 = self.late.iter().map(|(_, bits)| f64::from_bits(*bits)).sum();
        let mean = Some(sum / self.late.len() as f64).filter(|_| !self.late.is_empty());
        if value.is_finite() {
            if self.late.len() == MOST_LATE {
                self.late.pop_front();
            }
            self.late.push_back((step, value.to_bits()));
        }
        (mean.is_some_and(holds), mean.map(|mean| format!("the mean is {mean}")))
    }
    /// The best finite value before this one, which takes its place where it is better.
    fn best(&mut self, goal: Goal, step: u64, value: f64) -> Option<f64> {
        let before = self.best.map(f64::from_bits);
        let better = value.is_finite()
            && before.is_none_or(|best| match goal {
                Goal::Min => value < best,
                Goal::Max => value > best,
            });
        if better {
            (self.best, self.best_step) = (Some(value.to_bits()), Some(step));
        }
        before
    }
    /// The rule is met: is it told, and how often was it not since the last time?
    pub(super) fn tells(&mut self, step: u64, every: u64) -> Option<u64> {
        if self.told.is_some_and(|told| step.saturating_sub(told) < every) {
            self.suppressed = self.suppressed.saturating_add(1);
            return None;
        }
        self.told = Some(step);
        Some(std::mem::take(&mut self.suppressed))
    }
}
