//! Faults that show in what layers and parameters are like.
//!
//! Limits are apart from what healthy runs have: `cargo xtask causes` draws both kinds.
use super::{
    Finding, RootCause, RunRemedy,
    record::{LookedMatrix, RunRecord, layer_of, mean, median},
};
use crate::report::files::{LookedLayer, LookedParameter, ReadLook};

/// A mean size of inputs, or of targets, beyond which they were not scaled.
const UNSCALED_INPUT: f64 = 10.0;
const UNSCALED_TARGET: f64 = 30.0;
/// The gain of a layer: 0.6 to 1.7 by all usual ways to begin.
const LARGE_GAIN: f64 = 4.0;
const SMALL_GAIN: f64 = 0.01;
/// By how much numbers, or gradients, may grow over all layers, and gradients shrink.
const GROWN: f64 = 300.0;
const SHRUNK: f64 = 1e-4;
const USUAL_INIT: &str = "draw its weights with a deviation of about 1 / sqrt(inputs), as layers do unless told otherwise";
/// Fewer layers than these are not deep.
const DEEP: usize = 4;
/// The share of units, or of elements, from which on a layer is dead, or saturated.
const MOST_OF_A_LAYER: f64 = 0.9;
/// The share of what dropout is given that it may leave out.
const DROPPED: f64 = 0.8;
/// The share of gradient elements that f16 may lose.
const UNDERFLOW: f64 = 0.4;
/// A typical element of a gradient that f16 has next to no digits for.
const SMALL_IN_F16: f64 = 2e-7;
/// What a step of SGD is of rate times gradient where nothing is clipped away: 1.
const CLIPPED_AWAY: f64 = 0.02;
/// What decay may leave of weights where nothing is learned.
const DECAYED: f64 = 0.8;
/// The share of the first loss that is left where little was learned.
const UNLEARNED: f64 = 0.7;
/// A step as a share of the weights that it changes: healthy ones are between a ten-thousandth and a twentieth.
const LONG_STEP: f64 = 0.05;
const VERY_LONG_STEP: f64 = 0.2;
/// By how much of itself a loss differs from line to line that noise decides.
const NOISY: f64 = 0.4;
/// A step that is this small beside a number is lost in f32.
const LOST: f64 = 1e-6;
/// Rows of a step from which on it is no small one.
const FEW_ROWS: usize = 4;

/// What looks tell of.
pub fn findings(record: &RunRecord) -> Vec<Finding> {
    let rules: [fn(&RunRecord) -> Option<Finding>; 18] = [
        unscaled_input,
        unscaled_target,
        init_too_large,
        init_too_small,
        symmetric_init,
        exploding_depth,
        f16_overflow,
        f16_underflow,
        batch_norm_one_row,
        dropout_too_high,
        dead_relu,
        saturated_gates,
        softmax_twice,
        vanishing_depth,
        frozen_layer,
        clip_too_small,
        decay_too_large,
        rate,
    ];
    rules.iter().filter_map(|rule| rule(record)).collect()
}
/// The first look from which on something holds: to the end, or for a third of the run.
fn from<'a, T>(record: &'a RunRecord, seen: impl Fn(&'a ReadLook) -> Option<T>) -> Option<(u64, T)> {
    let long = (record.looks.len() / 3).max(3);
    let (mut since, mut looks) = (None, 0);
    for look in &record.looks {
        match seen(look) {
            Some(what) => {
                looks += 1;
                since.get_or_insert((look.step, what));
            }
            None if looks >= long => break,
            None => (since, looks) = (None, 0),
        }
    }
    // What shows at the very end alone may be over with the next step.
    since.filter(|_| looks >= record.looks.len().min(2))
}
/// What stands in the tensors of the batch that are inputs, or in the last one, which is what is to be learned.
fn size_of_batch(look: &ReadLook, targets: bool) -> Option<(f64, f64)> {
    let numbers = look.batch.iter().filter(|b| (b.tensor > 0) == targets).filter_map(|b| Some((b.mean?, b.largest.unwrap_or(f64::INFINITY))));
    numbers.reduce(|a, b| if a.0 > b.0 { a } else { b })
}
fn unscaled(record: &RunRecord, cause: RootCause, most: f64, remedy: impl Fn(f64) -> RunRemedy) -> Option<Finding> {
    let is_target = cause == RootCause::UnscaledTarget;
    let (step, (mean, largest)) = from(record, |look| size_of_batch(look, is_target).filter(|(mean, _)| *mean > most))?;
    let evidence = format!("their mean size is {mean:.3}, their largest {largest:.3}");
    Some(Finding { cause, layer: None, step, evidence, remedy: remedy(largest) })
}
fn unscaled_input(record: &RunRecord) -> Option<Finding> {
    unscaled(record, RootCause::UnscaledInput, UNSCALED_INPUT, |largest| {
        let set = match record.facts.data.as_str() {
            "csv" | "arrays" => vec!["data.scale=standard".to_string()],
            "idx" | "images" => vec![format!("data.divisor={largest}")],
            _ => Vec::new(),
        };
        RunRemedy::set("bring inputs to a mean of about 0 and a deviation of about 1", set)
    })
}
fn unscaled_target(record: &RunRecord) -> Option<Finding> {
    unscaled(record, RootCause::UnscaledTarget, UNSCALED_TARGET, |_| {
        let set = if record.facts.data == "csv" { vec!["data.target_scale=standard".to_string()] } else { Vec::new() };
        RunRemedy::set("learn (target - mean) / deviation, and undo it in what is predicted", set)
    })
}
fn in_layer(cause: RootCause, layer: &str, step: u64, evidence: String, remedy: &str) -> Option<Finding> {
    Some(Finding { cause, layer: Some(layer.to_string()), step, evidence, remedy: RunRemedy::of(remedy) })
}
fn init_too_large(record: &RunRecord) -> Option<Finding> {
    let look = record.looks.first()?;
    let all = look.matrices();
    let worst = all.iter().max_by(|a, b| a.gain().total_cmp(&b.gain())).filter(|m| m.gain() > LARGE_GAIN)?;
    let evidence = format!("the rows of its {:?} have norm {:.3}, where a layer keeps the size of its inputs at 0.6 to 1.7", worst.of.shape, worst.gain());
    in_layer(RootCause::InitTooLarge, worst.layer(), look.step, evidence, USUAL_INIT)
}
fn init_too_small(record: &RunRecord) -> Option<Finding> {
    let look = record.looks.first()?;
    let all = look.matrices();
    let small = all.iter().find(|m| m.gain() < SMALL_GAIN && m.of.range.is_none_or(|range| range > 0.0))?;
    let evidence = format!("the rows of its {:?} have norm {:.1e}", small.of.shape, small.gain());
    in_layer(RootCause::InitTooSmall, small.layer(), look.step, evidence, USUAL_INIT)
}
fn symmetric_init(record: &RunRecord) -> Option<Finding> {
    let look = record.looks.first()?;
    let all = look.matrices();
    // One alone (the last of a branch, set to 0) is told apart by those around it.
    let equal: Vec<_> = all.iter().filter(|m| m.of.range == Some(0.0)).collect();
    let first = equal.first().filter(|_| equal.len() > 1)?;
    let evidence = format!("all {} of its weights are {:.3e}, and so in {} layers", first.elements, first.weight / first.elements.sqrt(), equal.len());
    in_layer(RootCause::SymmetricInit, first.layer(), look.step, evidence, "draw weights at random: units that begin equal stay equal")
}
fn exploding_depth(record: &RunRecord) -> Option<Finding> {
    let look = record.looks.first()?;
    let all = look.matrices();
    let (first, last) = (all.first()?, all.last()?);
    if all.len() < DEEP {
        return None;
    }
    // From layer to layer, rather than in one of them: what a norm brings back has not grown.
    let sizes: Vec<f64> = all.iter().filter_map(|m| Some(look.layer(m.layer())?.mean.unwrap_or(f64::INFINITY))).filter(|mean| *mean > 0.0).collect();
    let steadily = sizes.windows(2).filter(|w| w[1] > 1.1 * w[0]).count() * 3 >= sizes.len().saturating_sub(1) * 2;
    let grown = if steadily { sizes.iter().copied().fold(0.0, f64::max) / sizes.first()? } else { 1.0 };
    let back = first.gradient()? / last.gradient()?.max(f64::MIN_POSITIVE);
    if grown.max(back) < GROWN {
        return None;
    }
    let evidence = format!("over {} layers numbers grow {grown:.1e} times, gradients {back:.1e} times", all.len());
    in_layer(
        RootCause::ExplodingDepth,
        first.layer(),
        look.step,
        evidence,
        "a LayerNorm between layers, or initial weights of gain 1 (`init::kaiming_normal` where ReLU follows)",
    )
}
fn f16_overflow(record: &RunRecord) -> Option<Finding> {
    if !record.is_f16() {
        return None;
    }
    let beyond = |l: &&LookedLayer| l.largest.is_none_or(|v| v > 6e4);
    let (step, layer) = from(record, |look| look.layers.iter().find(beyond))?;
    let evidence = format!("its results reach {}, and f16 ends at 65504", layer.largest.map_or("beyond f16".into(), |v| format!("{v:.3e}")));
    Some(Finding { cause: RootCause::F16Overflow, layer: Some(layer.layer.clone()), step, evidence, remedy: RunRemedy::wider() })
}
fn f16_underflow(record: &RunRecord) -> Option<Finding> {
    if !record.is_f16() {
        return None;
    }
    let last = record.steps.last()?.precision.as_ref()?;
    let scale = last.scale.unwrap_or(1.0);
    let share = median(record.steps.iter().filter_map(|s| s.precision.as_ref()?.underflow).collect()).unwrap_or(0.0);
    let (step, size) = from(record, |look| {
        let size = scale * median(look.matrices().iter().filter_map(|m| m.gradient()).collect())?;
        (size < SMALL_IN_F16 || share > UNDERFLOW).then_some(size)
    })?;
    let scaled = last.scale.map_or("no scaler".to_string(), |scale| format!("a scale of {scale}"));
    let evidence = format!("elements of gradients are about {size:.1e} with {scaled}, and f16 ends at 6e-8; {:.0} % of them come to 0", 100.0 * share);
    let text = "scale the loss (`precision.scaler`, on unless it is switched off), or compute in bf16";
    Some(Finding { cause: RootCause::F16Underflow, layer: None, step, evidence, remedy: RunRemedy::set(text, ["precision.mode=bf16".to_string()]) })
}
fn batch_norm_one_row(record: &RunRecord) -> Option<Finding> {
    let alone = |look: &&ReadLook| look.rows.contains(&1);
    let look = record.looks.iter().find(alone)?;
    let layer = look.layers.iter().find(|l| l.op.contains("batch_norm"))?;
    let all = record.looks.iter().filter(alone).count();
    let evidence =
        format!("{all} of {} steps that were looked at had a batch of one row, whose own statistics are taken for those of the data", record.looks.len());
    let set = if record.facts.batch == Some(1) { vec!["batch=32".to_string()] } else { Vec::new() };
    let text = "larger batches, and a last batch that is left out where it is short; GroupNorm or LayerNorm where rows come one by one";
    Some(Finding { cause: RootCause::BatchNormOneRow, layer: Some(layer.layer.clone()), step: look.step, evidence, remedy: RunRemedy::set(text, set) })
}
/// The layer before one, in the order of the model.
fn before<'a>(look: &'a ReadLook, layer: &LookedLayer) -> Option<&'a LookedLayer> {
    let at = look.layers.iter().position(|l| l.layer == layer.layer)?;
    look.layers.get(at.checked_sub(1)?)
}
fn dropout_too_high(record: &RunRecord) -> Option<Finding> {
    let dropped = |look: &ReadLook, l: &LookedLayer| -> Option<f64> {
        let kept_before = 1.0 - before(look, l).and_then(|b| b.zeros).unwrap_or(0.0);
        Some(1.0 - (1.0 - l.zeros?) / kept_before).filter(|share| kept_before > 0.0 && *share > DROPPED)
    };
    let (step, (layer, share)) =
        from(record, |look| look.layers.iter().filter(|l| l.op.contains("dropout")).find_map(|l| Some((&l.layer, dropped(look, l)?))))?;
    let evidence = format!("it leaves out {:.0} % of what it is given", 100.0 * share);
    in_layer(RootCause::DropoutTooHigh, layer, step, evidence, "a probability of 0.1 to 0.5")
}
fn dead_relu(record: &RunRecord) -> Option<Finding> {
    let is_rectifier = |l: &&LookedLayer| matches!(l.op.as_str(), "relu" | "relu6" | "hardtanh" | "threshold");
    let dead = |l: &LookedLayer| l.dead.filter(|share| *share >= MOST_OF_A_LAYER);
    // What follows a layer that is dead is given zeros.
    let (step, (layer, share)) = from(record, |look| look.layers.iter().filter(is_rectifier).find_map(|l| Some((&l.layer, dead(l)?))))?;
    let evidence = format!("{:.0} % of its units are 0 for every row: no gradient comes through them any more", 100.0 * share);
    in_layer(
        RootCause::DeadRelu,
        layer,
        step,
        evidence,
        "LeakyReLU or GELU in its place; biases before it that begin at 0; a lower rate where it died on the way",
    )
}
fn saturated_gates(record: &RunRecord) -> Option<Finding> {
    let saturated = |l: &LookedLayer| l.saturated.filter(|share| *share >= MOST_OF_A_LAYER);
    let (step, (layer, share)) = from(record, |look| look.layers.iter().find_map(|l| Some((&l.layer, saturated(l)?))))?;
    let evidence = format!("{:.0} % of its gates, or of what its tanh gives, are at an end: next to no gradient comes through", 100.0 * share);
    in_layer(
        RootCause::SaturatedGates,
        layer,
        step,
        evidence,
        "smaller biases and weights before it: biases that begin at 0 (1 for a forget gate), or a LayerNorm before it",
    )
}
fn softmax_twice(record: &RunRecord) -> Option<Finding> {
    let (step, (layer, classes)) = from(record, |look| {
        let last = look.layers.last().filter(|l| l.op.ends_with("softmax") && !l.op.ends_with("log_softmax"))?;
        let classes = look.matrices().last()?.outputs;
        look.batch.iter().all(|b| b.tensor == 0).then_some((&last.layer, classes))
    })?;
    // The least loss where what is taken for logits is between 0 and 1.
    let least = ((classes - 1.0) / std::f64::consts::E).ln_1p();
    let reached = record.losses().iter().map(|l| l.1).fold(f64::INFINITY, f64::min);
    if reached < 0.97 * least {
        return None;
    }
    let evidence = format!("the model ends in a softmax, and the loss stays above {least:.3}, which is its least for {classes} classes where it takes logits");
    in_layer(RootCause::SoftmaxTwice, layer, step, evidence, "leave the softmax out: cross entropy takes logits")
}
fn vanishing_depth(record: &RunRecord) -> Option<Finding> {
    let (step, (layer, share, many)) = from(record, |look| {
        let all = look.matrices();
        let most = all.iter().filter_map(|m| m.gradient()).fold(0.0, f64::max);
        let first = all.first().filter(|_| all.len() >= DEEP)?;
        let share = first.gradient()? / most;
        (most > 0.0 && share < SHRUNK).then_some((first.layer().to_string(), share, all.len()))
    })?;
    let evidence = format!("over {many} layers its gradient is {share:.1e} of the largest");
    in_layer(
        RootCause::VanishingDepth,
        &layer,
        step,
        evidence,
        "ReLU or GELU in the place of sigmoid and tanh, a norm between layers, or connections around them (x + f(x))",
    )
}
fn frozen_layer(record: &RunRecord) -> Option<Finding> {
    if record.facts.pretrained || record.looks.len() < 2 {
        return None;
    }
    let first = record.looks.first()?;
    // A gradient of 0 is another's fault, and so is a step that is lost beside the size of what it is added to.
    let adaptive = record.facts.is_adaptive();
    let would_move = |look: &ReadLook, p: &LookedParameter| match (p.gradient, p.weight, look.lr) {
        (Some(gradient), Some(weight), Some(rate)) => {
            let step = rate * if adaptive { p.elements().sqrt() } else { gradient };
            gradient > 0.0 && step > LOST * weight
        }
        (gradient, ..) => gradient.is_none(),
    };
    let stays = |layer: &str| {
        let all = record.looks.iter().flat_map(|look| look.parameters.iter().map(move |p| (look, p))).filter(|(_, p)| layer_of(&p.parameter) == layer);
        all.clone().count() > 0 && all.clone().all(|(_, p)| p.update == Some(0.0)) && all.clone().any(|(look, p)| would_move(look, p))
    };
    let moves = record.looks.iter().flat_map(|l| &l.parameters).any(|p| p.update.is_some_and(|u| u > 0.0));
    let frozen = first.parameters.iter().find(|p| moves && stays(layer_of(&p.parameter)))?;
    let layer = layer_of(&frozen.parameter);
    let why = match frozen.gradient {
        None => "it has no gradient: it is frozen, or not used",
        Some(_) => "it has a gradient, and the optimizer does not have it, or its rate is 0",
    };
    let evidence = format!("no step changes it: {why}");
    let text = "give it to the optimizer, and take it out of `freeze`; nothing is to be done where that is meant";
    let remedy = RunRemedy::set(text, ["freeze=[]".to_string()]);
    Some(Finding { cause: RootCause::FrozenLayer, layer: Some(layer.to_string()), step: first.step, evidence, remedy })
}
fn clip_too_small(record: &RunRecord) -> Option<Finding> {
    if record.facts.is_adaptive() {
        return None;
    }
    let look = record.looks.first()?;
    let rate = look.lr?;
    let shares = look.matrices().iter().filter_map(|m| Some(m.of.update? / (rate * m.of.gradient.filter(|g| *g > 0.0)?))).collect();
    let share = median(shares).filter(|share| *share < CLIPPED_AWAY)?;
    let evidence = format!("a step is {share:.1e} of rate times gradient: clipping takes the rest");
    let norm = record.steps.iter().filter_map(|s| s.grad_norm).collect();
    let limit = median(norm).map_or(1.0, |norm| (2.0 * norm).max(1.0));
    let set = format!("clip={{ kind = \"global_norm\", max_norm = {limit:.1} }}");
    Some(Finding { cause: RootCause::ClipTooSmall, layer: None, step: 1, evidence, remedy: RunRemedy::set("clip at a norm that most steps stay below", [set]) })
}
fn decay_too_large(record: &RunRecord) -> Option<Finding> {
    let (first, last) = (record.looks.first()?, record.looks.last()?);
    let decay = record.facts.weight_decay;
    let kept = |m: &LookedMatrix<'_>| Some(last.parameter(&m.of.parameter)?.weight? / m.weight);
    let share = median(first.matrices().iter().filter_map(kept).collect())?;
    let (began, ended) = record.began_and_ended()?;
    // What would be left without gradients: what decay takes within the run.
    let pull = decay * record.rate() * record.last_step() as f64;
    if pull < 1.0 || share > DECAYED || ended < UNLEARNED * began {
        return None;
    }
    let evidence = format!("with a weight decay of {decay} the weights of a typical layer are {share:.2} of what they were");
    let set = format!("optimizer.weight_decay={:.0e}", (decay * 1e-3).min(0.01));
    Some(Finding { cause: RootCause::DecayTooLarge, layer: None, step: 1, evidence, remedy: RunRemedy::set("a weight decay of 0 to 0.1", [set]) })
}
/// A rate at which steps undo each other, from the beginning on or in the first steps alone; or batches that are too small for it.
fn rate(record: &RunRecord) -> Option<Finding> {
    let losses = record.losses();
    let (first, end) = record.began_and_ended()?;
    let peak = losses.iter().map(|l| l.1).fold(0.0, f64::max);
    let ends_early = record.incidents.iter().any(|i| i.origin.as_ref().is_some_and(|o| o.phase != "data"));
    let rows = record.looks.first().map_or(usize::MAX, ReadLook::rows);
    let noise = noise(&losses);
    // What decay takes away is another's affair.
    let of_look = |look: &ReadLook| Some((look.step, look.lr?, look.step_length()? - look.lr? * record.facts.weight_decay));
    let steps: Vec<(u64, f64, f64)> = record.looks.iter().filter_map(of_look).collect();
    let longest = steps.iter().map(|s| s.2).fold(0.0, f64::max);
    // A step that is too long for a batch of a few rows is none to begin with.
    let drifts = longest > LONG_STEP && steps.first().is_some_and(|s| s.2 < VERY_LONG_STEP);
    if rows <= FEW_ROWS && (noise > NOISY || drifts) && end > 0.6 * first {
        let evidence = format!("a step has {rows} rows, and from one line of the log to the next the loss differs by {:.0} % of itself", 100.0 * noise);
        let set = if record.facts.batch.is_some() { vec![format!("batch={}", 16 * rows.max(2))] } else { Vec::new() };
        let remedy = RunRemedy::set("larger batches, or more of them in a step (`accumulate`)", set);
        return Some(Finding { cause: RootCause::SmallBatch, layer: None, step: 1, evidence, remedy });
    }
    let (step, rate, _) = *steps.iter().find(|(_, _, step)| *step > LONG_STEP)?;
    let late = median(steps[steps.len() / 2..].iter().map(|s| s.2).collect())?;
    let settles = end < 0.9 * first && late < 2.0 * LONG_STEP && longest < 1.0;
    if peak > 1.5 * first && settles && !ends_early && !record.warms_up() {
        let over = (record.last_step() / 5).max(10);
        let evidence =
            format!("the loss rises from {first:.3} to {peak:.3} before it falls, while a step changes weights by {:.0} % of themselves", 100.0 * longest);
        let set = format!("schedule={{ kind = \"LinearLR\", start_factor = 0.01, total_iters = {over} }}");
        return Some(Finding {
            cause: RootCause::NoWarmUp,
            layer: None,
            step: 1,
            evidence,
            remedy: RunRemedy::set("a rate that rises over the first steps", [set]),
        });
    }
    let is_drawn_anew = longest > 1.0 && (end > 0.6 * first || peak > 5.0 * first);
    let is_lost = !end.is_finite() || end > 1.5 * first || (end > 0.9 * first && longest > VERY_LONG_STEP) || is_drawn_anew;
    if ends_early || is_lost {
        let evidence = format!(
            "a step changes weights by up to {:.0} % of themselves at a rate of {rate}, and the loss goes from {first:.3} to {end:.3}",
            100.0 * longest
        );
        // What ended within its first steps was never seen at its worst.
        let usual = if ends_early { 0.001 } else { 0.01 };
        let set = format!("optimizer.lr={:.1e}", rate * (usual / longest).min(0.1));
        return Some(Finding { cause: RootCause::RateTooHigh, layer: None, step, evidence, remedy: RunRemedy::set("a lower rate", [set]) });
    }
    None
}
/// By how much of itself the loss differs from one line to the next, typically.
fn noise(losses: &[(u64, f64)]) -> f64 {
    let differs = |w: &[(u64, f64)]| 2.0 * (w[0].1 - w[1].1).abs() / (w[0].1 + w[1].1).max(1e-12);
    mean(&losses.windows(2).map(differs).collect::<Vec<_>>()).unwrap_or(0.0)
}
