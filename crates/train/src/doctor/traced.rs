//! Faults that were traced: which op was given good numbers and made a bad one.
use super::{Finding, RootCause, RunRemedy, record::RunRecord};
use crate::report::files::{ReadFailure, ReadIncident, ReadNumbers, ReadOp, ReadOrigin};

/// The most records that a finding names.
const NAMED: usize = 3;
/// The largest number of f16.
const LARGEST_F16: f64 = 65504.0;

/// What incidents tell of.
pub fn findings(record: &RunRecord) -> Vec<Finding> {
    let failed = record.failure.as_ref().and_then(refused);
    record.incidents.iter().filter_map(|incident| of(record, incident)).chain(failed).collect()
}
/// What an op was given that it cannot compute with.
fn refused(failure: &ReadFailure) -> Option<Finding> {
    let text = &failure.error.message;
    let of_one_row = text.contains("batch_norm") && text.contains("more than one element per channel");
    let layer = text.split_once("in layer ").map(|(_, rest)| rest.split([' ', ',', ';', ':']).next().unwrap_or(rest).to_string());
    let remedy = RunRemedy::of("larger batches, and a last batch that is left out where it is short; LayerNorm or GroupNorm where rows come one by one");
    of_one_row.then(|| Finding { cause: RootCause::BatchNormOneRow, layer, step: failure.step, evidence: text.clone(), remedy })
}
fn of(record: &RunRecord, incident: &ReadIncident) -> Option<Finding> {
    let origin = incident.origin.as_ref()?;
    let finding = |cause: RootCause, evidence: String, remedy: RunRemedy| {
        let layer = origin.op.as_ref().map(|op| op.layer.clone()).filter(|layer| !layer.is_empty());
        Some(Finding { cause, layer, step: incident.step, evidence, remedy })
    };
    if origin.phase == "data" {
        let bad: Vec<_> = incident.records.iter().filter(|r| !r.finite).collect();
        let named: Vec<String> = bad.iter().take(NAMED).map(|r| format!("record {} of {}", r.index, r.file)).collect();
        let more = if bad.len() > NAMED { format!(" and {} more", bad.len() - NAMED) } else { String::new() };
        let evidence = format!("{} in the batch{}{}{more}", origin.kind, if named.is_empty() { "" } else { ": " }, named.join(", "));
        let text = "mend the records or take them out of the data; `stability.handling_type = \"skip\"` leaves their steps out";
        return finding(RootCause::NonFiniteInput, evidence, RunRemedy::set(text, ["stability.handling_type=skip".to_string()]));
    }
    let Some(op) = &origin.op else {
        let place = origin.place.as_deref().unwrap_or("a weight");
        let evidence = format!("{} in {place} before the step", origin.kind);
        let layer = super::record::layer_of(place).to_string();
        let remedy = RunRemedy::of("begin from weights that are finite: look at the file that they come from");
        return Some(Finding { cause: RootCause::NonFiniteWeight, layer: Some(layer), step: incident.step, evidence, remedy });
    };
    let (cause, remedy) = made(record, origin, op)?;
    let place = match (&op.file, op.line) {
        (Some(file), Some(line)) => format!(" ({file}:{line})"),
        _ => String::new(),
    };
    let called = op.called.as_ref().filter(|called| *called != name(op)).map(|called| format!(" of {called}")).unwrap_or_default();
    let inputs: Vec<String> = origin.inputs.iter().map(told).collect();
    let evidence = format!("{}{called}{place} made {} ({}) of {}", name(op), origin.kind, origin.phase, inputs.join(" and "));
    finding(cause, evidence, remedy)
}
/// The ops that a bad number went through.
pub fn chain(origin: &ReadOrigin) -> Vec<String> {
    let op = |op: &ReadOp| if op.layer.is_empty() { name(op).to_string() } else { format!("{} in {}", name(op), op.layer) };
    origin.chain.iter().map(op).collect()
}
fn told(of: &ReadNumbers) -> String {
    let range = match (of.least, of.most) {
        (Some(least), Some(most)) => format!("{least:.3e} to {most:.3e}"),
        _ => "nothing finite".into(),
    };
    if of.non_finite > 0 { format!("{range} with {} not finite", of.non_finite) } else { range }
}
/// The op without the family of a composite.
fn name(op: &ReadOp) -> &str {
    op.op.rsplit('.').next().unwrap_or(&op.op)
}
/// What an op's bad number comes of; none where it may be of anything: numbers have grown.
fn made(record: &RunRecord, origin: &ReadOrigin, op: &ReadOp) -> Option<(RootCause, RunRemedy)> {
    let named = |names: &[&str]| names.contains(&name(op)) || op.called.as_deref().is_some_and(|called| names.contains(&called));
    let (is_nan, is_back) = (origin.kind == "NaN", origin.phase == "backward");
    let holds_zero = |k: usize| origin.inputs.get(k).is_some_and(|x| x.least.is_some_and(|v| v <= 0.0) && x.most.is_some_and(|v| v >= 0.0));
    let goes_below = |limit: f64| origin.inputs.iter().any(|x| x.least.is_some_and(|v| v < limit));
    let has_infinite = origin.inputs.iter().any(|x| x.non_finite > 0);
    if named(&["softmax", "log_softmax", "scaled_dot_product_attention", "attention", "softmin"]) && is_nan && (has_infinite || is_back) {
        let text = "give each row something to look at: unmask one place, or take rows that are masked whole out of the loss; where they must stay, mask \
                    with a large negative number rather than with -Inf";
        return Some((RootCause::MaskedRow, RunRemedy::of(text)));
    }
    if named(&["log", "log2", "log10", "xlogy", "logit"]) && !(is_nan && !is_back && goes_below(0.0)) {
        let text = "keep the argument off 0: `x.clamp_min(1e-7).log()`, or a loss that takes logits";
        return Some((RootCause::LogOfZero, RunRemedy::of(text)));
    }
    if is_back && named(&["sqrt", "rsqrt", "pow", "norm", "std", "cdist", "hypot", "cosine_similarity", "pairwise_distance"]) {
        let text = "the slope of a root is infinite at 0: add a small number under it, `(x + 1e-12).sqrt()`";
        return Some((RootCause::RootOfZero, RunRemedy::of(text)));
    }
    if named(&["sqrt", "rsqrt", "log", "log2", "log10", "log1p", "pow", "asin", "acos", "atanh", "acosh", "logit"]) && is_nan {
        return Some((RootCause::OutOfDomain, RunRemedy::of(format!("keep the argument of {} where it is defined: `clamp` it before", name(op)))));
    }
    if named(&["div", "recip", "reciprocal", "rsqrt", "normalize", "remainder"]) {
        let by = if origin.inputs.len() > 1 { 1 } else { 0 };
        if is_nan && holds_zero(by) {
            let text = "add a small number to the divisor, or take rows of zeros out: `x / (norm + 1e-6)`";
            return Some((RootCause::ZeroOverZero, RunRemedy::of(text)));
        }
        if holds_zero(by) {
            return Some((RootCause::DivisionByZero, RunRemedy::of("keep the divisor off 0: add a small number to it, or `clamp_min` it")));
        }
    }
    let most = origin.inputs.iter().flat_map(|x| [x.least, x.most]).flatten().fold(0.0, |most: f64, v| most.max(v.abs()));
    if record.is_f16() && !is_nan && most <= LARGEST_F16 && !named(&["exp", "expm1"]) {
        return Some((RootCause::F16Overflow, RunRemedy::wider()));
    }
    if named(&["exp", "exp2", "expm1", "sinh", "cosh", "pow"]) && !is_nan {
        let text = "subtract the largest argument before the exponential (`logsumexp`, `softmax`), or `clamp_max` it";
        return Some((RootCause::ExpOverflow, RunRemedy::of(text)));
    }
    None
}
