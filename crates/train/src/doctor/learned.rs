//! Faults that show in nothing but how the loss goes: what is left where numbers are as they should be.
use super::{
    Finding, RootCause, RunRemedy,
    record::{RunRecord, mean, median},
};
use crate::report::files::ReadLook;

/// How far weights go within a run at least that learns: as a share of themselves, were all steps in one direction.
const SHORT_WAY: f64 = 0.03;
/// What a step should be.
const USUAL_STEP: f64 = 3e-3;
/// The share of the loss that is left where nothing was learned.
const UNLEARNED: f64 = 0.95;
/// Fewer lines than these tell nothing of how a loss goes.
const LINES: usize = 6;

/// What is left.
pub fn findings(record: &RunRecord) -> Vec<Finding> {
    let losses = record.losses();
    if losses.len() < LINES {
        return Vec::new();
    }
    let third = losses.len() / 3;
    let of = |part: &[(u64, f64)]| mean(&part.iter().map(|l| l.1).collect::<Vec<_>>()).unwrap_or(f64::NAN);
    let (begin, end) = (of(&losses[..third]), of(&losses[losses.len() - third..]));
    let step = median(record.looks.iter().filter_map(ReadLook::step_length).collect());
    let falls = end < UNLEARNED * begin;
    if let Some(step) = step.filter(|step| step * (record.last_step() as f64) < SHORT_WAY && !falls) {
        let rate = record.rate();
        let evidence = format!("a step changes weights by {step:.1e} of themselves at a rate of {rate:.1e}, and the loss stays at {end:.3}");
        let set = format!("optimizer.lr={:.1e}", rate * (USUAL_STEP / step.max(1e-9)));
        return vec![Finding { cause: RootCause::RateTooLow, layer: None, step: 1, evidence, remedy: RunRemedy::set("a higher rate", [set]) }];
    }
    let first = losses[0].1;
    let best = record.valid.iter().map(|v| v.1).reduce(f64::min);
    // Who knows nothing answers each class as often as any: initial weights may do worse.
    let classes = record.looks.first().filter(|look| look.batch.iter().all(|b| b.tensor == 0)).and_then(|look| Some(look.matrices().last()?.outputs));
    let untaught = classes.filter(|n| *n > 1.0).map_or(first, |n| n.ln().min(first));
    let unlearned = match best {
        // What was learned by heart does not count.
        Some(best) => best > UNLEARNED * untaught,
        None => !falls,
    };
    if unlearned && first.is_finite() {
        let judged = match best {
            Some(best) => format!("the loss of the validation part is {best:.3} at best, where it began at {first:.3}"),
            None => format!("the loss goes from {begin:.3} to {end:.3}"),
        };
        let evidence = format!("{judged}, while gradients, weights and steps are as they should be");
        let text = "see whether each record still has its own label: files that were sorted or shuffled apart, a join by a wrong key";
        return vec![Finding { cause: RootCause::ShuffledLabels, layer: None, step: 1, evidence, remedy: RunRemedy::of(text) }];
    }
    Vec::new()
}
