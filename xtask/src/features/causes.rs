//! The row about what is wrong with a run: faults planted into training, which doctor must name and end.
use super::{CheckCost, Checked, RowCheck, Seen, plant, planted};
use crate::causes::{ALARMS, MENDED, NAMED, tally};

pub const ROWS: &[RowCheck] = &[RowCheck {
    id: "B2.20",
    target: "faults of 31 kinds planted into training runs: cause, layer and step right in 95 %, ended by the remedy in 90 %, alarms in 1 % of healthy runs",
    cost: CheckCost::Long,
    check: causes,
    plants: &[plant("runs without the faults", "named")],
}];
fn causes() -> Checked {
    let found = tally(3, 30, planted("runs without the faults"))?;
    let (named, mended) = (found.share(found.named), found.share(found.mended));
    let alarms = f64::from(found.alarms) / f64::from(found.healthy.max(1));
    Ok(Seen::all(
        &[("named", named >= NAMED && found.runs >= 60), ("ended", mended >= MENDED), ("alarms", alarms <= ALARMS)],
        format!(
            "{} causes, {} runs: {:.1} % named, {:.1} % ended; {} alarms in {} healthy runs",
            found.causes,
            found.runs,
            100.0 * named,
            100.0 * mended,
            found.alarms,
            found.healthy
        ),
    ))
}
