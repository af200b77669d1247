//! Alerts: rules on what a run logs, told to who watches, to `alerts.jsonl`, and to a command.
//!
//! ```text
//! RunFolder: scalars, incidents, failure, end ──> AlertDesk (desk): each rule's state (rule, when)
//!                                                   │ holds, so many lines in a row, and not within `every` steps of the last
//!                                                   ├──> alerts.jsonl
//!                                                   ├──> Watch::warn
//!                                                   └──> AlertCommands (command): its own thread; a program, no shell
//! ```
//!
//! Whether a rule is met follows from the lines and their steps alone, and how far apart two alerts of a rule lie is counted in steps: no clock
//! decides anything. Each checkpoint has the rules' states and how long `alerts.jsonl` was. A run that goes on cuts the file back to there,
//! comes to the same alerts again and writes them again; what the lines that were cut off had told is not told a second time. A line is
//! written before it is told, so a kill between the two leaves an alert that stands in the file and was not told.
//!
//! Invariant: nothing that a run computes or writes elsewhere depends on its alerts, and nothing that a command does or leaves undone ends the run
//! or holds up its steps.
mod command;
mod desk;
mod rule;
mod when;

pub(crate) use desk::{AlertDesk, AlertEvent, KeptAlerts};
pub use rule::AlertRule;
pub use when::AlertWhen;

use crate::{Failure, config::check::nearest};
use std::time::Duration;

/// Steps between two alerts of a rule, where nothing else is said.
pub const EVERY: u64 = 1000;
/// How long a command may take, where nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most rules of a run.
const MOST_RULES: usize = 1000;

/// What a run is watched for, and who is told.
///
/// ```
/// use adamant_train::alerts::{AlertRule, AlertWhen, Alerts};
/// let alerts = Alerts::new()
///     .rule(AlertRule::new("loss is high", "train/loss", AlertWhen::Above(10.0)).lasting(3))
///     .rule(AlertRule::new("stuck", "valid/loss", "no improvement for 500 steps".parse()?))
///     .rule(AlertRule::end("done"))
///     .command(["notify-send", "{name}", "{text}"])
///     .every(200);
/// assert!(alerts.check().is_ok());
/// # Ok::<(), adamant_train::Failure>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Alerts {
    pub(crate) rules: Vec<AlertRule>,
    pub(crate) command: Vec<String>,
    pub(crate) every: u64,
    pub(crate) timeout: Duration,
}
impl Default for Alerts {
    fn default() -> Alerts {
        Alerts { rules: Vec::new(), command: Vec::new(), every: EVERY, timeout: TIMEOUT }
    }
}
impl Alerts {
    /// No rules yet.
    pub fn new() -> Alerts {
        Alerts::default()
    }
    /// One more rule.
    #[must_use]
    pub fn rule(mut self, rule: AlertRule) -> Alerts {
        self.rules.push(rule);
        self
    }
    /// A program and its arguments, started for each alert: without a shell, its stdin empty and what it prints thrown away. `{name}`, `{text}`,
    /// `{metric}`, `{value}`, `{step}`, `{epoch}` and `{run}` (the folder) in arguments are replaced; what stands in their places is never
    /// parsed. The line of `alerts.jsonl` is in the variable `ADAMANT_ALERT`.
    #[must_use]
    pub fn command(mut self, command: impl IntoIterator<Item = impl Into<String>>) -> Alerts {
        self.command = command.into_iter().map(Into::into).collect();
        self
    }
    /// Steps within which a rule that is met again is counted and not told; 1000 unless it is set. 0: each time is told.
    #[must_use]
    pub fn every(self, steps: u64) -> Alerts {
        Alerts { every: steps, ..self }
    }
    /// How long a command may take before it is killed; ten seconds unless it is set.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Alerts {
        Alerts { timeout, ..self }
    }
    /// Are there no rules?
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
    /// Do the rules make sense?
    ///
    /// # Errors
    /// `Usage`: a rule or the command does not, or two rules have one name.
    pub fn check(&self) -> Result<(), Failure> {
        let refuse = |what: String| Err(Failure::Usage(format!("alerts: {what}")));
        if self.rules.len() > MOST_RULES {
            return refuse(format!("{} rules; a run has at most {MOST_RULES}", self.rules.len()));
        }
        for (k, rule) in self.rules.iter().enumerate() {
            if let Err(what) = rule.check() {
                return refuse(format!("rule `{}`: {what}", crate::failure::shown(&rule.name)));
            }
            if self.rules.iter().take(k).any(|before| before.name == rule.name) {
                return refuse(format!("two rules are called `{}`", crate::failure::shown(&rule.name)));
            }
        }
        if let Err(what) = command::check(&self.command, self.timeout) {
            return refuse(what);
        }
        Ok(())
    }
    /// What a person should look at: names that nobody logs unless the program does, and that are nearly a known one.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let doubt = |rule: &AlertRule| {
            let near = nearest_metric(&rule.metric)?;
            let name = crate::failure::shown(&rule.name);
            Some(format!("the alert `{name}` waits for `{}`, which a run itself does not log; did you mean `{near}`?", crate::failure::shown(&rule.metric)))
        };
        self.rules.iter().filter_map(doubt).collect()
    }
}
/// Names that runs log, and the three events.
const METRICS: [&str; 27] = [
    "train/loss",
    "train/epoch_loss",
    "train/lr",
    "train/grad_norm",
    "throughput/rows_per_second",
    "precision/underflow",
    "precision/scale",
    "precision/skipped",
    "stability/score",
    "valid/loss",
    "valid/accuracy",
    "valid/precision",
    "valid/recall",
    "valid/f1",
    "valid/mae",
    "valid/rmse",
    "valid/r2",
    "test/loss",
    "test/accuracy",
    "test/precision",
    "test/recall",
    "test/f1",
    "test/mae",
    "test/rmse",
    "incident",
    "failure",
    "end",
];
/// The letters that may be wrong where a name is taken for a misspelt one.
const WRONG: usize = 2;
/// The known name that is nearly this one, and not this one.
fn nearest_metric(metric: &str) -> Option<&'static str> {
    if METRICS.contains(&metric) || metric.starts_with("grad_norm/") {
        return None;
    }
    nearest(metric, METRICS).filter(|near| strsim::osa_distance(metric, near) <= WRONG)
}
