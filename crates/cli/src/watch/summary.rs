//! A run in words, or as a document, where there is no terminal to draw on.
use super::{
    curve::SeenCurve,
    link::LinkState,
    panels::incident_text,
    screen::StateShown,
    seen::{SeenRun, bytes_text, figure, valid_text},
};
use adamant_train::folder::{number, text_of};
use serde_json::{Value, json};

/// How many of the newest lines of the diary are told.
const NEWEST: usize = 5;

/// A few lines.
pub fn text(seen: &SeenRun, link: &LinkState) -> String {
    let (m, machine) = (&seen.metrics, &seen.machine);
    let shown = StateShown::of(seen, link);
    let step = link.status.as_ref().map_or(m.step, |status| status.step);
    let steps = link.status.as_ref().map(|status| status.steps).map_or_else(String::new, |steps| format!(" of {steps}"));
    let last = |curve: &SeenCurve| figure(curve.last().map(|(_, v)| v));
    let mut lines = vec![
        ("run", seen.folder.display().to_string()),
        ("state", shown.word),
        ("step", format!("{step}{steps}, epoch {}", link.status.as_ref().map_or(m.epoch, |status| status.epoch))),
        ("loss", last(if m.loss.last().is_some() { &m.loss } else { &m.epoch_loss })),
    ];
    lines.extend(m.last_valid.as_ref().map(|valid| ("valid", valid_text(valid))));
    lines.extend(m.test.as_ref().map(|test| ("test", valid_text(test))));
    lines.push(("rate", last(&m.rate)));
    lines.extend(machine.rows.last().map(|(_, v)| ("rows/s", figure(Some(v)))));
    lines.extend(machine.memory.last().map(|(_, v)| ("memory", bytes_text(v))));
    lines.extend(machine.checkpoint.map(|step| ("checkpoint", format!("of step {step}"))));
    lines.push(("incidents", seen.incidents.len().to_string()));
    lines.extend(seen.incidents.last().map(|incident| ("last", incident_text(incident).join(", "))));
    lines.extend(m.stopped.clone().map(|why| ("stopped", why)));
    let mut text: String = lines.iter().map(|(name, value)| format!("{name:<11}{value}\n")).collect();
    let skip = m.notes.len().saturating_sub(NEWEST);
    m.notes.iter().skip(skip).for_each(|note| text += &format!("{note}\n"));
    text.trim_end().to_string()
}
/// The same for programs.
pub fn document(seen: &SeenRun, link: &LinkState) -> Value {
    let (m, machine) = (&seen.metrics, &seen.machine);
    let last = |curve: &SeenCurve| curve.last().map(|(_, v)| number(v));
    json!({
        "run": text_of(&seen.folder), "state": StateShown::of(seen, link).word, "status": link.status,
        "step": link.status.as_ref().map_or(m.step, |status| status.step), "epoch": m.epoch,
        "loss": last(&m.loss), "epoch_loss": last(&m.epoch_loss), "valid": m.last_valid, "test": m.test, "lr": last(&m.rate),
        "rows_per_second": last(&machine.rows), "rss_bytes": last(&machine.memory), "loader_wait_seconds": last(&machine.wait),
        "checkpoint": machine.checkpoint, "incidents": seen.incidents.len(), "stopped": m.stopped,
    })
}
