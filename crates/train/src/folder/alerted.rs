//! The folder of a run that has alerts: `alerts.jsonl`, and what becomes of the run, for the rules that wait for it.
use super::{FAILURE, Lines, RunFolder, broken, left};
use crate::{
    Failure,
    alerts::{AlertDesk, AlertEvent, Alerts, KeptAlerts},
};
use serde_json::Value;
use std::{io::Read, path::Path};

const ALERTS: &str = "alerts.jsonl";
/// Bytes behind a checkpoint that are looked through for what was told.
const MOST_AGAIN: u64 = 16 << 20;

impl RunFolder {
    /// Watches what is logged from here on. `kept`: what the checkpoint at this step has of alerts; none where the run begins.
    ///
    /// # Errors
    /// `Storage`: the file of an earlier start cannot be read, cut or removed.
    pub(crate) fn watch_for(&mut self, alerts: &Alerts, from: Option<(KeptAlerts, u64)>) -> Result<(), Failure> {
        let path = self.path.join(ALERTS);
        if from.is_none() {
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(broken(&path, &e)),
                _ => {}
            }
        }
        if alerts.is_empty() {
            return Ok(());
        }
        let (kept, step) = from.unwrap_or_default();
        let whole = left::lines(&path, kept.bytes)?.bytes;
        let again = read_from(&path, whole).map_err(|e| broken(&path, &e))?;
        let lines = Lines::open(&path, Some(whole))?;
        self.alerts = Some(AlertDesk::new(alerts, super::text_of(&self.path), lines, (kept, step), &again));
        Ok(())
    }
    /// What a checkpoint has of alerts.
    pub(crate) fn kept_alerts(&self) -> Option<KeptAlerts> {
        self.alerts.as_ref().map(AlertDesk::kept)
    }
    /// A step with bad numbers, as the line of `incidents.jsonl` has it.
    pub(super) fn alert_incident(&mut self, line: &Value) {
        let Some(alerts) = &mut self.alerts else { return };
        let step = line["step"].as_u64().unwrap_or(0);
        let origin = &line["origin"];
        let text = match (origin["kind"].as_str(), origin["op"]["op"].as_str(), origin["phase"].as_str()) {
            (Some(kind), Some(op), Some(phase)) => format!("step {step}: {kind}, made by {op} ({phase})"),
            (Some(kind), None, Some(phase)) => format!("step {step}: {kind} ({phase})"),
            _ => format!("step {step} has numbers that are not finite or too large"),
        };
        alerts.event(AlertEvent::Incident, step, &text);
    }
    /// Leaves why the run has failed in the folder, and tells who waits for it.
    ///
    /// # Errors
    /// `Storage`: the reason cannot be written.
    pub(crate) fn failed(&mut self, step: u64, failure: &Failure) -> Result<(), Failure> {
        if let (Some(alerts), false) = (&mut self.alerts, matches!(failure, Failure::Interrupted { .. })) {
            alerts.event(AlertEvent::Failure, step, &failure.to_string());
            alerts.finish();
            self.hear_alerts();
        }
        if !matches!(failure, Failure::Run(_) | Failure::Diverged(_) | Failure::Memory(_)) {
            return Ok(());
        }
        let mut told = failure.to_json();
        told["step"] = step.into();
        self.document(FAILURE, &told)
    }
    /// The run has ended well.
    pub(super) fn alert_end(&mut self) {
        if let Some(alerts) = &mut self.alerts {
            alerts.end();
            alerts.finish();
            self.hear_alerts();
        }
    }
    /// Takes over what alerts have to say.
    pub(super) fn hear_alerts(&mut self) {
        self.warnings.extend(self.alerts.iter_mut().flat_map(AlertDesk::take_warnings));
    }
}
/// The text of a file behind so many bytes; one that is not there is empty.
fn read_from(path: &Path, begin: u64) -> std::io::Result<String> {
    use std::io::{ErrorKind, Seek, SeekFrom};
    let mut file = match std::fs::File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(String::new()),
        file => file?,
    };
    file.seek(SeekFrom::Start(begin))?;
    let mut bytes = Vec::new();
    file.take(MOST_AGAIN).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
