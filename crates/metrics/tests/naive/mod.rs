//! Figures from their definitions, sample by sample and pair by pair, on vectors of f64. Nothing here is shared with the metrics.

/// What was seen of one class or label: (score, was it the answer, was it true).
#[derive(Clone, Copy)]
pub struct Seen {
    pub score: f64,
    pub said: bool,
    pub so: bool,
}
pub fn tally(seen: &[Seen]) -> [f64; 4] {
    let count = |said: bool, so: bool| seen.iter().filter(|s| s.said == said && s.so == so).count() as f64;
    [count(true, true), count(true, false), count(false, true), count(false, false)]
}
/// The class of a row of scores: the truth if it is among the k first by falling score, lower classes first.
pub fn answer(scores: &[f64], truth: usize, k: usize) -> usize {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    if order[..k].contains(&truth) { truth } else { order[0] }
}
pub fn rate(what: &str, [tp, fp, missed, tn]: [f64; 4], multiclass: bool, zero: f64) -> f64 {
    let safe = |a: f64, b: f64| if b == 0.0 { zero } else { a / b };
    let f = |beta: f64| {
        // From precision and recall, whose own 0 / 0 only matters where both are.
        if tp + fp + missed == 0.0 {
            return zero;
        }
        if tp == 0.0 {
            return 0.0;
        }
        let (p, r) = (tp / (tp + fp), tp / (tp + missed));
        (1.0 + beta * beta) * p * r / (beta * beta * p + r)
    };
    match what {
        "accuracy" if multiclass => safe(tp, tp + missed),
        "accuracy" => safe(tp + tn, tp + tn + fp + missed),
        "precision" => safe(tp, tp + fp),
        "recall" => safe(tp, tp + missed),
        "specificity" => safe(tn, tn + fp),
        "f1" => f(1.0),
        _ => f(2.0),
    }
}
/// Figures of the classes as one, or as they are.
pub fn averaged(what: &str, averaging: &str, classes: &[Vec<Seen>], multiclass: bool, zero: f64) -> Vec<f64> {
    let each: Vec<[f64; 4]> = classes.iter().map(|c| tally(c)).collect();
    let figure = |t: &[f64; 4]| rate(what, *t, multiclass, zero);
    let mean = |weight: &dyn Fn(&[f64; 4]) -> f64| {
        let total: f64 = each.iter().filter(|t| !figure(t).is_nan()).map(weight).sum();
        if total == 0.0 {
            return vec![zero];
        }
        vec![each.iter().filter(|t| !figure(t).is_nan()).map(|t| weight(t) * figure(t)).sum::<f64>() / total]
    };
    match averaging {
        "none" => each.iter().map(figure).collect(),
        "micro" => {
            let all: Vec<Seen> = classes.iter().flatten().copied().collect();
            vec![figure(&tally(&all))]
        }
        "macro" => mean(&|t| if multiclass && t[0] + t[1] + t[2] == 0.0 { 0.0 } else { 1.0 }),
        _ => mean(&|t| t[0] + t[2]),
    }
}
/// How often a positive is above a negative, equal ones counting half.
pub fn auroc(seen: &[Seen]) -> f64 {
    let (mut above, mut pairs) = (0.0, 0.0);
    for a in seen.iter().filter(|s| s.so) {
        for b in seen.iter().filter(|s| !s.so) {
            pairs += 1.0;
            above += if a.score > b.score {
                1.0
            } else if a.score == b.score {
                0.5
            } else {
                0.0
            };
        }
    }
    above / pairs
}
/// Precision and recall at every threshold that is a score.
pub fn average_precision(seen: &[Seen]) -> f64 {
    let positives = seen.iter().filter(|s| s.so).count() as f64;
    if positives == 0.0 {
        return 0.0;
    }
    let mut thresholds: Vec<f64> = seen.iter().map(|s| s.score).collect();
    thresholds.sort_by(|a, b| b.total_cmp(a));
    thresholds.dedup();
    let (mut area, mut before) = (0.0, 0.0);
    for t in thresholds {
        let said = seen.iter().filter(|s| s.score >= t).count() as f64;
        let right = seen.iter().filter(|s| s.score >= t && s.so).count() as f64;
        area += (right / positives - before) * (right / said);
        before = right / positives;
    }
    area
}
/// Areas of the classes as one, or as they are; what has none does not count in a mean.
pub fn areas(area: fn(&[Seen]) -> f64, averaging: &str, classes: &[Vec<Seen>]) -> Vec<f64> {
    let each: Vec<f64> = classes.iter().map(|c| area(c)).collect();
    let weight = |c: &Vec<Seen>| if averaging == "weighted" { c.iter().filter(|s| s.so).count() as f64 } else { 1.0 };
    match averaging {
        "none" => each,
        "micro" => vec![area(&classes.concat())],
        _ => {
            let there = || each.iter().zip(classes).filter(|(v, _)| !v.is_nan());
            let total: f64 = there().map(|(_, c)| weight(c)).sum();
            if total == 0.0 {
                // No class has a positive.
                return vec![area(&[])];
            }
            vec![there().map(|(v, c)| v * weight(c)).sum::<f64>() / total]
        }
    }
}
/// The table of truth and answer, truth in rows, divided as said.
pub fn confusion(pairs: &[(usize, usize)], classes: usize, shares: &str) -> Vec<f64> {
    let mut table = vec![0.0; classes * classes];
    for &(truth, answer) in pairs {
        let of = match shares {
            "true" => pairs.iter().filter(|p| p.0 == truth).count(),
            "pred" => pairs.iter().filter(|p| p.1 == answer).count(),
            "all" => pairs.len(),
            _ => 1,
        };
        table[truth * classes + answer] += 1.0 / of as f64;
    }
    table
}
/// Mean disagreement against that of every truth with every answer.
pub fn kappa(pairs: &[(usize, usize)], weights: &str) -> f64 {
    let apart = |a: usize, b: usize| match weights {
        "linear" => a.abs_diff(b) as f64,
        "quadratic" => (a.abs_diff(b) as f64).powi(2),
        _ => f64::from(a != b),
    };
    let n = pairs.len() as f64;
    let seen: f64 = pairs.iter().map(|(t, a)| apart(*t, *a)).sum::<f64>() / n;
    let chance: f64 = pairs.iter().map(|(t, _)| pairs.iter().map(|(_, a)| apart(*t, *a)).sum::<f64>()).sum::<f64>() / (n * n);
    1.0 - seen / chance
}
/// Covariances of indicators, summed over the classes.
pub fn matthews(pairs: &[(usize, usize)], classes: usize) -> f64 {
    let n = pairs.len() as f64;
    let covariance = |x: &dyn Fn(&(usize, usize)) -> usize, y: &dyn Fn(&(usize, usize)) -> usize| -> f64 {
        (0..classes)
            .map(|c| {
                let mean = |f: &dyn Fn(&(usize, usize)) -> usize| pairs.iter().filter(|p| f(p) == c).count() as f64 / n;
                let (mx, my) = (mean(x), mean(y));
                pairs.iter().map(|p| (f64::from(x(p) == c) - mx) * (f64::from(y(p) == c) - my)).sum::<f64>()
            })
            .sum()
    };
    let one_class = |f: &dyn Fn(&(usize, usize)) -> usize| pairs.iter().all(|p| f(p) == f(&pairs[0]));
    let (truth, answer): (fn(&(usize, usize)) -> usize, fn(&(usize, usize)) -> usize) = (|p| p.0, |p| p.1);
    if one_class(&truth) || one_class(&answer) {
        return 0.0;
    }
    covariance(&truth, &answer) / (covariance(&truth, &truth) * covariance(&answer, &answer)).sqrt()
}
/// The exponential of the mean of `-ln p(target)`.
pub fn perplexity(rows: &[(Vec<f64>, usize)]) -> f64 {
    let surprise = |(logits, target): &(Vec<f64>, usize)| {
        let all: f64 = logits.iter().map(|x| x.exp()).sum();
        -(logits[*target].exp() / all).ln()
    };
    (rows.iter().map(surprise).sum::<f64>() / rows.len() as f64).exp()
}
/// `1 - residual / total`, by two passes.
pub fn r2(pairs: &[(f64, f64)]) -> f64 {
    if pairs.len() < 2 {
        return f64::NAN;
    }
    let (residual, total) = (pairs.iter().map(|(p, t)| (p - t).powi(2)).sum::<f64>(), spread(pairs));
    match total == 0.0 {
        true => f64::from(residual == 0.0),
        false => 1.0 - residual / total,
    }
}
/// Squares of the targets' distances from their mean.
pub fn spread(pairs: &[(f64, f64)]) -> f64 {
    let mean = pairs.iter().map(|(_, t)| t).sum::<f64>() / pairs.len() as f64;
    pairs.iter().map(|(_, t)| (t - mean).powi(2)).sum()
}
