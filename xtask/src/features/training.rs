//! Rows about the trainer, which is run as `adamant train` runs it.
use super::{CheckCost, Checked, RowCheck, Seen};
use crate::workspace;
use adamant::Device;
use adamant_train::{Document, EpochReport, Report, Watch, train};
use std::error::Error;

pub const ROWS: &[RowCheck] = &[RowCheck {
    id: "S0.19",
    target: "adamant train on Embedding 1000x128, Linear 256, Linear 1000, batch 16: the loss falls, a step takes at most 1 ms",
    cost: CheckCost::Clocked,
    check: embedding_mlp,
    plants: &[],
}];

/// Seconds from the beginning of training to the end of each epoch.
#[derive(Default)]
struct EpochClock(Vec<f64>);
impl Watch for EpochClock {
    fn epoch(&mut self, report: &EpochReport) {
        self.0.push(report.seconds);
    }
}
/// A run of the embedding example with some values set, and the seconds of each epoch.
pub fn train_example(assignments: &[&str]) -> Result<(Report, Vec<f64>), Box<dyn Error>> {
    let path = workspace::root().join("benches/runs/embedding_mlp.toml");
    let mut document = Document::read(&path).map_err(|e| e.to_string())?;
    for assignment in assignments {
        document.set(assignment).map_err(|e| e.to_string())?;
    }
    let mut clock = EpochClock::default();
    let report = train(&document, path.parent().ok_or("no folder")?, &mut clock).map_err(|e| e.to_string())?;
    let starts = [0.0].into_iter().chain(clock.0.iter().copied());
    Ok((report, clock.0.iter().zip(starts).map(|(end, start)| end - start).collect()))
}
fn embedding_mlp() -> Checked {
    let (report, epochs) = train_example(&[])?;
    let (first, last) = (report.losses.first().ok_or("no losses")?, report.losses.last().ok_or("no losses")?);
    // What else the machine does only adds: the fastest epoch is the one that measures.
    let steps = report.plan.steps as f64;
    let (best, mean) = (epochs.iter().copied().fold(f64::INFINITY, f64::min) * epochs.len() as f64 / steps * 1e3, report.seconds / steps * 1e3);
    Ok(Seen::all(
        &[("batch 16", report.plan.batch == 16), ("the loss falls", last < &(first / 2.0)), ("at most 1 ms", best <= 1.0)],
        format!(
            "loss {first:.3} to {last:.4} over {} steps of {best:.3} ms in the fastest epoch, {mean:.3} ms on average ({} parameters, {} threads)",
            report.plan.steps,
            report.plan.parameters,
            Device::current()?.info().parallelism
        ),
    ))
}
