//! What a run with rules has open: each rule's state, `alerts.jsonl`, and who is told.
use super::{AlertRule, Alerts, command::AlertCommands, rule::AlertState, rule::EVENTS};
use crate::folder::{Lines, number};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The longest text of an alert, in characters.
const LONGEST: usize = 1000;

/// A line of `alerts.jsonl`.
#[derive(Clone, Debug)]
pub(super) struct AlertLine {
    pub step: u64,
    pub epoch: u64,
    pub rule: String,
    pub metric: String,
    pub value: Option<f64>,
    pub text: String,
    pub suppressed: u64,
}
impl AlertLine {
    pub fn to_json(&self) -> Value {
        json!({
            "step": self.step, "epoch": self.epoch, "rule": self.rule, "metric": self.metric, "value": self.value.map_or(Value::Null, number),
            "text": self.text, "suppressed": self.suppressed,
        })
    }
}
/// What happens to a run, for rules that wait for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AlertEvent {
    Incident,
    Failure,
    End,
}
impl AlertEvent {
    fn name(self) -> &'static str {
        EVENTS[self as usize]
    }
}
/// What a checkpoint has of alerts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(expecting = "struct KeptAlerts")]
pub(crate) struct KeptAlerts {
    /// length of `alerts.jsonl`
    pub bytes: u64,
    /// by the rules' names
    rules: BTreeMap<String, AlertState>,
}
/// See the module's documentation.
pub(crate) struct AlertDesk {
    rules: Vec<(AlertRule, AlertState)>,
    every: u64,
    /// where lines go
    pub lines: Lines,
    /// what lines behind the checkpoint have told: how often a rule, and at which step
    told: BTreeMap<(String, u64), u64>,
    commands: Option<AlertCommands>,
    warnings: Vec<String>,
    /// of the last line of the log
    step: u64,
    epoch: u64,
    stopped: Option<String>,
}
impl AlertDesk {
    /// Of a run in a folder. `kept`: what the checkpoint has that it goes on from, with its step. `again`: the lines behind it, which it will
    /// come to again.
    pub fn new(alerts: &Alerts, run: String, lines: Lines, (kept, step): (KeptAlerts, u64), again: &str) -> AlertDesk {
        let mut kept = kept.rules;
        let mut state = |rule: &AlertRule| {
            let fresh = AlertState::of(rule);
            // A rule that means something else now begins anew.
            kept.remove(&rule.name).filter(|state| state.meaning == fresh.meaning).unwrap_or(fresh)
        };
        let rules = alerts.rules.iter().map(|rule| (rule.clone(), state(rule))).collect();
        let mut told = BTreeMap::new();
        for line in again.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            // A failure that comes again is news: somebody has started the run since.
            let is_failure = line["metric"] == AlertEvent::Failure.name();
            if let (Some(rule), Some(step), false) = (line["rule"].as_str(), line["step"].as_u64(), is_failure) {
                *told.entry((rule.to_string(), step)).or_insert(0) += 1;
            }
        }
        let commands = (!alerts.command.is_empty()).then(|| AlertCommands::start(&alerts.command, run, alerts.timeout));
        AlertDesk { rules, every: alerts.every, lines, told, commands, warnings: Vec::new(), step, epoch: 1, stopped: None }
    }
    /// A line of the log: where the run is, and whether it has ended early.
    pub fn note(&mut self, line: &Value) {
        self.step = line["step"].as_u64().unwrap_or(self.step);
        self.epoch = line["epoch"].as_u64().unwrap_or(self.epoch);
        if line["kind"] == "stop" {
            self.stopped = line["reason"].as_str().map(String::from);
        }
    }
    /// Numbers that the run logs.
    pub fn scalars(&mut self, step: u64, values: &BTreeMap<String, f64>) {
        let epoch = self.epoch;
        let mut met = Vec::new();
        for (rule, state) in self.rules.iter_mut().filter(|(rule, _)| rule.when.is_some()) {
            let Some(value) = values.get(&rule.metric) else { continue };
            let Some(with) = state.meets(rule, step, *value) else { continue };
            let Some(suppressed) = state.tells(step, rule.every.unwrap_or(self.every)) else { continue };
            let when = rule.when.map(|when| when.to_string()).unwrap_or_default();
            let with = if with.is_empty() { with } else { format!("; {with}") };
            let text = format!("{} is {value} in step {step} ({when}{with})", rule.metric);
            met.push((rule.name.clone(), rule.metric.clone(), Some(*value), text, suppressed));
        }
        for (rule, metric, value, text, suppressed) in met {
            self.tell(AlertLine { step, epoch, rule, metric, value, text: text.chars().take(LONGEST).collect(), suppressed });
        }
    }
    /// Something that has happened, at a step.
    pub fn event(&mut self, event: AlertEvent, step: u64, text: &str) {
        let epoch = self.epoch;
        let mut met = Vec::new();
        for (rule, state) in self.rules.iter_mut().filter(|(rule, _)| rule.when.is_none() && rule.metric == event.name()) {
            state.meets(rule, step, f64::NAN);
            if let Some(suppressed) = state.tells(step, rule.every.unwrap_or(self.every)) {
                met.push((rule.name.clone(), suppressed));
            }
        }
        for (rule, suppressed) in met {
            let text = text.chars().take(LONGEST).collect();
            self.tell(AlertLine { step, epoch, rule, metric: event.name().into(), value: None, text, suppressed });
        }
    }
    /// The run has ended well.
    pub fn end(&mut self) {
        let reason = self.stopped.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        self.event(AlertEvent::End, self.step, &format!("the run has ended after step {}{reason}", self.step));
        let never = self.rules.iter().filter(|(rule, state)| rule.when.is_some() && !state.seen);
        let never =
            never.map(|(rule, _)| format!("the alert `{}`: `{}` was never logged", crate::failure::shown(&rule.name), crate::failure::shown(&rule.metric)));
        self.warnings.extend(never);
    }
    /// Nothing more will come; commands are waited for, no longer than one may take.
    pub fn finish(&mut self) {
        self.commands.iter_mut().for_each(AlertCommands::finish);
    }
    fn tell(&mut self, alert: AlertLine) {
        // A disk that takes no line keeps nobody from hearing of it; lines that wait are written with the next.
        if let Err(e) = self.lines.add(format!("{}\n", alert.to_json()).as_bytes()).and_then(|()| self.lines.flush()) {
            self.warnings.push(format!("{e}; the run goes on"));
        }
        if let Some(times) = self.told.get_mut(&(alert.rule.clone(), alert.step)).filter(|times| **times > 0) {
            *times -= 1;
            return;
        }
        let before = if alert.suppressed > 0 { format!(", {} times more since it was told last", alert.suppressed) } else { String::new() };
        self.warnings.push(format!("alert `{}`: {}{before}", crate::failure::shown(&alert.rule), alert.text));
        if let Some(commands) = &mut self.commands {
            commands.call(&alert);
        }
    }
    /// What who watches has not heard yet.
    pub fn take_warnings(&mut self) -> Vec<String> {
        self.warnings.extend(self.commands.as_mut().and_then(AlertCommands::warning));
        std::mem::take(&mut self.warnings)
    }
    /// What a checkpoint has of it.
    pub fn kept(&self) -> KeptAlerts {
        KeptAlerts { bytes: self.lines.bytes(), rules: self.rules.iter().map(|(rule, state)| (rule.name.clone(), state.clone())).collect() }
    }
}
