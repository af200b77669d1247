//! `[alerts]`: rules on what a run logs, and who is told.
//!
//! ```toml
//! [alerts]
//! command = ["notify-send", "{name}", "{text}"]
//! every = 1000                   # steps within which a rule is counted and not told again
//! timeout = 10                   # seconds that the command may take
//! [[alerts.rule]]
//! name = "loss is high"
//! metric = "train/loss"          # or incident, failure, end, which take no `when`
//! when = "> 10"
//! for = 3                        # lines in a row
//! every = 100
//! mode = "min"                   # what is an improvement, where the metric's name does not tell
//! ```
use super::precision::word;
use crate::{
    Failure,
    alerts::{AlertRule, AlertWhen, Alerts},
    config::Section,
    failure::shown,
};
use adamant_optim::schedule::Goal;
use std::time::Duration;

/// Reads the section.
///
/// # Errors
/// A condition that there is not, a number that makes no sense, a name that there is twice, a command without a program.
pub(crate) fn alerts(root: &Section<'_>) -> Result<Alerts, Failure> {
    let mut alerts = Alerts::default();
    let Some(s) = root.section("alerts")? else { return Ok(alerts) };
    if let Some(command) = s.texts("command")? {
        if command.is_empty() && s.is_list("command") {
            return Err(s.wrong_key("command", "it is empty: write a program and its arguments, or leave it out"));
        }
        alerts.command = command;
    }
    alerts.every = s.count("every")?.unwrap_or(alerts.every);
    if let Some(seconds) = s.number("timeout")? {
        let timeout = Duration::try_from_secs_f64(seconds).ok().filter(|timeout| !timeout.is_zero());
        alerts.timeout = timeout.ok_or_else(|| s.wrong_key("timeout", format!("{seconds} is no number of seconds above 0")))?;
    }
    let mut commands = alerts.clone();
    commands.rules.clear();
    commands.check().map_err(|e| s.wrong(e.to_string().trim_start_matches("alerts: ")))?;
    for rule in s.sections("rule")?.unwrap_or_default() {
        let read = one(&rule)?;
        if alerts.rules.iter().any(|before| before.name == read.name) {
            return Err(rule.wrong_key("name", format!("two rules are called `{}`", shown(&read.name))));
        }
        alerts.rules.push(read);
    }
    s.finish()?;
    alerts.check().map_err(|e| s.wrong(e.to_string()))?;
    Ok(alerts)
}
fn one(s: &Section<'_>) -> Result<AlertRule, Failure> {
    let name = s.need("name", s.text("name")?)?;
    let metric = s.need("metric", s.text("metric")?)?;
    let when = s.text("when")?;
    let lasts = s.count("for")?.unwrap_or(1);
    let every = s.count("every")?;
    let goal = word(s, "mode", &[("min", Goal::Min), ("max", Goal::Max)])?;
    let when = when.map(str::parse::<AlertWhen>).transpose().map_err(|e| s.wrong_key("when", e))?;
    let rule = AlertRule { name: name.into(), metric: metric.into(), when, lasts, every, goal };
    rule.check().map_err(|what| s.wrong(what))?;
    s.finish()?;
    Ok(rule)
}
