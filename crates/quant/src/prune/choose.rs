//! Which elements are masked: scores, and the least of them. Must not know how a mask is kept.
use super::{PRUNE, PruneAmount, PruneImportance, PrunedWeight, Pruner};
use crate::select::{check, refusal};
use adamant_core::{DType, Grads, Result, Tensor};

/// A mask for each weight: true where it stays.
#[track_caller]
pub(super) fn masks(pruner: &Pruner, weights: &[PrunedWeight], amount: PruneAmount, grads: Option<&Grads>) -> Result<Vec<Vec<bool>>> {
    let scores = weights.iter().enumerate().map(|(k, w)| scores(pruner.importance, k, w, grads)).collect::<Result<Vec<_>>>()?;
    match amount {
        PruneAmount::Share(share) if pruner.global => {
            let mut all = least(&scores.concat(), share).into_iter();
            Ok(scores.iter().map(|of| all.by_ref().take(of.len()).collect()).collect())
        }
        PruneAmount::Share(share) => Ok(scores.iter().map(|of| least(of, share)).collect()),
        PruneAmount::Keep { n, m } => weights.iter().zip(&scores).map(|(weight, of)| of_each(weight, of, n, m)).collect(),
    }
}
/// What is masked already, and comes first.
const MASKED: f64 = -1.0;

/// What each element is worth, from 0 on.
#[track_caller]
fn scores(importance: PruneImportance, number: usize, weight: &PrunedWeight, grads: Option<&Grads>) -> Result<Vec<f64>> {
    let kept = weight.mask.detached().to_vec::<bool>()?;
    let raw: Vec<f64> = match importance {
        PruneImportance::Magnitude => numbers(&weight.original.detached())?.into_iter().map(f64::abs).collect(),
        PruneImportance::Gradient => {
            let Some(grads) = grads else {
                return Err(refusal(PRUNE, "importance by gradients needs gradients".into())
                    .hint("call `prune_by` (of a scheduler `step_by`) with what `backward` gave"));
            };
            let Some(gradient) = grads.of(&weight.original.cell()) else {
                return Err(refusal(PRUNE, format!("`{}` has no gradient among those given", weight.path))
                    .hint("they must be of a loss of this model, made after its last pruning began, and the weight not frozen"));
            };
            numbers(&weight.original.detached())?.into_iter().zip(numbers(gradient)?).map(|(w, g)| (w * g).abs()).collect()
        }
        PruneImportance::Random(seed) => (0..kept.len()).map(|k| drawn(seed, number as u64, k as u64)).collect(),
    };
    if let Some(at) = raw.iter().zip(&kept).position(|(score, kept)| *kept && !score.is_finite()) {
        let what = if importance == PruneImportance::Gradient { "or its gradient " } else { "" };
        return Err(refusal(PRUNE, format!("`{}` {what}has a number that is not finite, at element {at}", weight.path)));
    }
    Ok(raw.into_iter().zip(kept).map(|(score, kept)| if kept { score } else { MASKED }).collect())
}
#[track_caller]
fn numbers(t: &Tensor) -> Result<Vec<f64>> {
    match t.dtype()? {
        DType::F64 => t.to_vec::<f64>(),
        _ => Ok(t.to_vec_as::<f32>()?.into_iter().map(f64::from).collect()),
    }
}
/// A number in 0..1 of a counter (SplitMix64, Steele et al. 2014), so that no order depends on what was drawn before.
fn drawn(seed: u64, weight: u64, element: u64) -> f64 {
    let mixed = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let key = mixed(seed.wrapping_add(0x9E37_79B9_7F4A_7C15)) ^ mixed(weight.wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(3));
    (mixed(key.wrapping_add(element.wrapping_mul(0x9E37_79B9_7F4A_7C15))) >> 11) as f64 / (1u64 << 53) as f64
}
/// False at the least share, of equals at the first; at all that is masked already in any case.
fn least(scores: &[f64], share: f64) -> Vec<bool> {
    let masked = scores.iter().filter(|s| **s == MASKED).count();
    let count = ((share * scores.len() as f64).round() as usize).max(masked).min(scores.len());
    let mut order: Vec<usize> = (0..scores.len()).collect();
    if count > 0 && count < order.len() {
        order.select_nth_unstable_by(count, |a, b| scores[*a].total_cmp(&scores[*b]).then(a.cmp(b)));
    }
    let mut keep = vec![true; scores.len()];
    order[..count].iter().for_each(|k| keep[*k] = false);
    keep
}
/// True at the best `n` of each `m` neighbours along axis 1.
#[track_caller]
fn of_each(weight: &PrunedWeight, scores: &[f64], n: usize, m: usize) -> Result<Vec<bool>> {
    let shape = weight.mask.meta().shape;
    check(PRUNE, shape.rank() >= 2 && shape[1].is_multiple_of(m), || {
        format!("`{}` of shape {shape} has no axis 1 of a multiple of {m} elements, which {n} of each {m} needs", weight.path)
    })
    .map_err(|e| e.hint("leave it out by `.targets(..)`"))?;
    let (inputs, inner) = (shape[1], shape[2..].iter().product::<usize>());
    let mut keep = vec![false; scores.len()];
    for outer in 0..shape[0] {
        for group in (0..inputs).step_by(m) {
            for at in 0..inner {
                let mut places: Vec<usize> = (group..group + m).map(|i| (outer * inputs + i) * inner + at).collect();
                places.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
                places[..n].iter().for_each(|k| keep[*k] = scores[*k] != MASKED);
            }
        }
    }
    Ok(keep)
}
