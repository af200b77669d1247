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
#[serde(expecting = "struct AlertState")]
pub(crate) struct AlertState {
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
impl AlertState {
    pub(super) fn of(rule: &AlertRule) -> AlertState {
        AlertState { meaning: rule.meaning(), ..AlertState::default() }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn draw(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
    /// Does the last of the lines meet the condition? Told anew from all of them, by the words of the documentation.
    fn meets(when: AlertWhen, goal: Goal, lines: &[(u64, f64)]) -> bool {
        let (&(step, value), before) = lines.split_last().unwrap();
        let finite: Vec<f64> = before.iter().map(|(_, v)| *v).filter(|v| v.is_finite()).collect();
        let mean = |steps: u64| {
            let late: Vec<f64> = before.iter().filter(|(at, v)| v.is_finite() && step - at <= steps).map(|(_, v)| *v).collect();
            let late = &late[late.len().saturating_sub(MOST_LATE)..];
            (!late.is_empty()).then(|| late.iter().sum::<f64>() / late.len() as f64)
        };
        let least = finite.iter().copied().reduce(f64::min);
        let most = finite.iter().copied().reduce(f64::max);
        match when {
            AlertWhen::Above(x) => value > x,
            AlertWhen::AtLeast(x) => value >= x,
            AlertWhen::Below(x) => value < x,
            AlertWhen::AtMost(x) => value <= x,
            AlertWhen::NonFinite => value.is_nan() || value.is_infinite(),
            AlertWhen::Rises { percent, steps } => mean(steps).is_some_and(|m| value > m && value - m > percent / 100.0 * m.abs()),
            AlertWhen::Falls { percent, steps } => mean(steps).is_some_and(|m| value < m && m - value > percent / 100.0 * m.abs()),
            AlertWhen::AboveLeast { percent } => least.is_some_and(|l| value - l > percent / 100.0 * l.abs()),
            AlertWhen::BelowMost { percent } => most.is_some_and(|m| m - value > percent / 100.0 * m.abs()),
            AlertWhen::NoImprovement { steps } => {
                let is_best = |k: usize| {
                    let (_, v) = lines[k];
                    v.is_finite() && lines[..k].iter().filter(|(_, w)| w.is_finite()).all(|(_, w)| if goal == Goal::Min { v < *w } else { v > *w })
                };
                let last = (0..lines.len()).rev().find(|k| is_best(*k)).map_or(lines[0].0, |k| lines[k].0);
                step - last >= steps
            }
        }
    }
    #[test]
    fn a_rule_that_is_told_where_its_words_do_not_say_so() {
        let mut seed = 1;
        let mut met = 0;
        for round in 0..6000 {
            let percent = [1.0, 10.0, 50.0, 200.0][draw(&mut seed) as usize % 4];
            let steps = 1 + draw(&mut seed) % 40;
            let x = [0.0, -1.0, 1.0, 2.5][draw(&mut seed) as usize % 4];
            let when = match round % 10 {
                0 => AlertWhen::Above(x),
                1 => AlertWhen::AtLeast(x),
                2 => AlertWhen::Below(x),
                3 => AlertWhen::AtMost(x),
                4 => AlertWhen::NonFinite,
                5 => AlertWhen::Rises { percent, steps },
                6 => AlertWhen::Falls { percent, steps },
                7 => AlertWhen::AboveLeast { percent },
                8 => AlertWhen::BelowMost { percent },
                _ => AlertWhen::NoImprovement { steps },
            };
            assert_eq!(when.to_string().parse::<AlertWhen>().unwrap(), when, "{when}");
            let goal = [Goal::Min, Goal::Max][draw(&mut seed) as usize % 2];
            let (lasts, every) = (1 + draw(&mut seed) % 4, [0, 1, 10, 100][draw(&mut seed) as usize % 4]);
            let rule = AlertRule::new("rule", "own", when).lasting(lasts).goal(goal);
            rule.check().unwrap();
            let (mut state, mut lines, mut step) = (AlertState::of(&rule), Vec::new(), 0);
            let (mut row, mut told, mut not_told) = (0, None, 0);
            for _ in 0..60 {
                step += draw(&mut seed) % 5;
                let value = match draw(&mut seed) % 12 {
                    0 => f64::NAN,
                    1 => f64::INFINITY,
                    2 => f64::NEG_INFINITY,
                    3 => 0.0,
                    4 => 1e308,
                    5 => -1e308,
                    _ => (draw(&mut seed) % 64) as f64 / 16.0 - 1.5,
                };
                lines.push((step, value));
                row = if meets(when, goal, &lines) { row + 1 } else { 0 };
                let want = if row >= lasts && told.is_none_or(|told| step - told >= every) {
                    told = Some(step);
                    Some(std::mem::take(&mut not_told))
                } else {
                    not_told += u64::from(row >= lasts);
                    None
                };
                let got = state.meets(&rule, step, value).and_then(|_| state.tells(step, every));
                assert_eq!(got, want, "{when} for {lasts} every {every}, {goal:?}: {lines:?}");
                met += usize::from(got.is_some());
                // As through a checkpoint.
                if draw(&mut seed).is_multiple_of(3) {
                    state = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
                }
            }
        }
        assert!(met > 10_000, "{met}");
    }
    #[test]
    fn a_rule_that_makes_no_sense() {
        for text in ["", "10", "> ", "> x", "> nan", "> inf", ">> 1", "rises by 50 over 3 steps", "rises by 0% over 3 steps", "rises by -1% over 3 steps"] {
            assert!(text.parse::<AlertWhen>().is_err(), "{text}");
        }
        for text in
            ["rises by inf% over 3 steps", "rises by 5% over 0 steps", "no improvement for -1 steps", "no improvement for 1e3 steps", "5% above the most"]
        {
            assert!(text.parse::<AlertWhen>().is_err(), "{text}");
        }
        for (text, near) in
            [("nonfinit", "`nonfinite`"), ("raises by 50% over 100 steps", "`rises by 50%"), ("no improvements for 9 steps", "`no improvement for")]
        {
            let failure = text.parse::<AlertWhen>().unwrap_err().to_string();
            assert!(failure.contains(near), "{text}: {failure}");
        }
        let above = AlertWhen::Above(1.0);
        for (rule, says) in [
            (AlertRule::new("", "train/loss", above), "a rule has a name"),
            (AlertRule::new("a", " ", above), "`metric` is a name"),
            (AlertRule::new("a", "train/loss", above).lasting(0), "from 1 on"),
            (AlertRule::new("a", "end", above), "it takes no `when`"),
            (AlertRule::end("a").lasting(2), "it takes no `for`"),
            (AlertRule::new("a", "train/lr", AlertWhen::NoImprovement { steps: 3 }), "`train/lr` does not tell what is better"),
            (AlertRule::new("a", "train/lr", AlertWhen::Above(f64::NAN)), "not with NaN"),
        ] {
            assert!(rule.check().unwrap_err().contains(says), "{rule:?}");
        }
    }
}
