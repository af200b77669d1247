//! Seeded random cases against the definitions: classes that never occur, equal scores, targets that take no part, axes behind the
//! classes, several updates against one, and parts merged in any order.
#![allow(clippy::unwrap_used, clippy::panic)]

mod naive;

use adamant_backend_cpu as _;
use adamant_core::{DType, Device, Tensor};
use adamant_metrics::*;
use naive::Seen;

/// Steele, Lea and Flood's SplitMix64 (2014).
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
type Batch = (Tensor, Tensor);
fn joined(batches: &[Batch]) -> Batch {
    let of = |f: fn(&Batch) -> &Tensor| Tensor::cat(&batches.iter().map(f).collect::<Vec<_>>(), 0);
    (of(|b| &b.0), of(|b| &b.1))
}
fn seen(make: &dyn Fn() -> Box<dyn Metric>, batches: &[Batch]) -> Box<dyn Metric> {
    let mut metric = make();
    batches.iter().for_each(|(p, t)| metric.update(p, t).unwrap());
    metric
}
fn figure(metric: &dyn Metric) -> Vec<f64> {
    metric.compute().unwrap().to_vec_as::<f64>().unwrap()
}
fn assert_near(what: &str, ours: &[f64], expected: &[f64], tolerance: f64) {
    let near = |a: &f64, b: &f64| (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + b.abs());
    assert_eq!(ours.len(), expected.len(), "{what}: {ours:?}, by definition {expected:?}");
    assert!(ours.iter().zip(expected).all(|(a, b)| near(a, b)), "{what}: {ours:?}, by definition {expected:?}");
}
/// The metric over all batches, over one of all, and merged of parts in a drawn order, is what it is by definition; `exact`: the
/// first three are equal to the bit.
fn check(random: &mut Random, what: &str, make: &dyn Fn() -> Box<dyn Metric>, batches: &[Batch], expected: &[f64], tolerance: f64, exact: bool) {
    let by_batches = figure(&*seen(make, batches));
    assert_near(&format!("{what}, batch by batch"), &by_batches, expected, tolerance);
    let at_once = figure(&*seen(make, &[joined(batches)]));
    let mut parts: Vec<Box<dyn Metric>> = batches.iter().map(|b| seen(make, std::slice::from_ref(b))).collect();
    parts.push(make());
    while parts.len() > 1 {
        let part = parts.swap_remove(random.below(parts.len()));
        let k = random.below(parts.len());
        parts[k].merge(&*part).unwrap();
    }
    let merged = figure(&*parts[0]);
    let tolerance = if exact { 0.0 } else { tolerance };
    assert_near(&format!("{what}, all at once"), &at_once, &by_batches, tolerance);
    assert_near(&format!("{what}, merged"), &merged, &by_batches, tolerance);
    // What was set back, and what was saved and loaded.
    let mut again = seen(make, &batches[..1]);
    again.load_state_dict(&parts[0].state_dict().unwrap()).unwrap();
    assert_near(&format!("{what}, loaded"), &figure(&*again), &merged, 0.0);
    again.reset().unwrap();
    batches.iter().for_each(|(p, t)| again.update(p, t).unwrap());
    assert_near(&format!("{what}, set back"), &figure(&*again), &by_batches, 0.0);
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Drawn {
    Binary,
    Multiclass,
    Multilabel,
}
const IGNORED: i64 = -7;
/// A case of classes: batches, and the same as lists.
struct Case {
    of: Classification,
    drawn: Drawn,
    classes: usize,
    batches: Vec<Batch>,
    /// of each class, with the answer by the first score
    seen: Vec<Vec<Seen>>,
    /// scores of the classes and truth, of several classes
    rows: Vec<(Vec<f64>, usize)>,
    /// (truth, answer), of several classes or of yes and no
    pairs: Vec<(usize, usize)>,
}
fn draw(random: &mut Random, drawn: Drawn) -> Case {
    let classes = if drawn == Drawn::Binary { 1 } else { 2 + random.below(6) };
    let (levels, ignoring, trailing) = (random.one_of(&[2, 5, 1000]), random.below(2) == 0, random.below(3));
    let of = match drawn {
        Drawn::Binary => Classification::binary(),
        Drawn::Multiclass => Classification::multiclass(classes),
        Drawn::Multilabel => Classification::multilabel(classes),
    };
    let of = if ignoring { of.ignore_index(IGNORED) } else { of };
    // The last classes may never occur.
    let occurring = 1 + random.below(classes);
    let mut case = Case { of, drawn, classes, batches: Vec::new(), seen: vec![Vec::new(); classes], rows: Vec::new(), pairs: Vec::new() };
    for _ in 0..1 + random.below(4) {
        let (n, inner) = (random.below(9), trailing.max(1));
        let mut scores = vec![0f32; n * classes * inner];
        let mut targets = Vec::new();
        scores.iter_mut().for_each(|s| *s = random.below(levels) as f32 / levels as f32);
        let row = |i: usize, k: usize| (0..classes).map(|c| scores[(i * classes + c) * inner + k] as f64).collect::<Vec<f64>>();
        if drawn == Drawn::Multiclass {
            for (i, k) in (0..n).flat_map(|i| (0..inner).map(move |k| (i, k))) {
                let ignored = ignoring && random.below(4) == 0;
                let truth = random.below(occurring);
                targets.push(if ignored { IGNORED } else { truth as i64 });
                if !ignored {
                    let row = row(i, k);
                    let answer = naive::answer(&row, truth, 1);
                    case.pairs.push((truth, answer));
                    (0..classes).for_each(|c| case.seen[c].push(Seen { score: row[c], said: answer == c, so: truth == c }));
                    case.rows.push((row, truth));
                }
            }
        } else {
            for (at, score) in scores.iter().enumerate() {
                let class = at / inner % classes;
                let ignored = ignoring && random.below(4) == 0;
                let so = class < occurring && random.below(2) == 0;
                targets.push(if ignored { IGNORED } else { so as i64 });
                if !ignored {
                    let said = *score > 0.5;
                    case.seen[class].push(Seen { score: *score as f64, said, so });
                    case.pairs.push((so as usize, said as usize));
                }
            }
        }
        let (mut of_scores, mut of_targets) = (vec![n], vec![n]);
        if drawn != Drawn::Binary {
            of_scores.push(classes);
        }
        if drawn == Drawn::Multilabel {
            of_targets.push(classes);
        }
        if trailing > 0 {
            [&mut of_scores, &mut of_targets].iter_mut().for_each(|s| s.push(inner));
        }
        case.batches.push((Tensor::from_vec(scores, of_scores), Tensor::from_vec(targets, of_targets)));
    }
    case
}
const AVERAGES: [(&str, Averaging); 4] =
    [("micro", Averaging::Micro), ("macro", Averaging::Macro), ("weighted", Averaging::Weighted), ("none", Averaging::None)];
fn rate(what: &str, of: &Classification) -> Box<dyn Metric> {
    match what {
        "accuracy" => Box::new(Accuracy::new(of).unwrap()),
        "precision" => Box::new(Precision::new(of).unwrap()),
        "recall" => Box::new(Recall::new(of).unwrap()),
        "specificity" => Box::new(Specificity::new(of).unwrap()),
        "f1" => Box::new(FBeta::f1(of).unwrap()),
        _ => Box::new(FBeta::new(2.0, of).unwrap()),
    }
}
fn rates(random: &mut Random, case: &Case) {
    let multiclass = case.drawn == Drawn::Multiclass;
    let zero = random.one_of(&[0.0, 1.0, f64::NAN]);
    let what = random.one_of(&["accuracy", "precision", "recall", "specificity", "f1", "f2"]);
    for (name, averaging) in AVERAGES {
        let k = if multiclass { 1 + random.below(case.classes) } else { 1 };
        let of = case.of.clone().averaging(averaging).zero_division(zero).top_k(k);
        let mut seen = case.seen.clone();
        for (i, (row, truth)) in case.rows.iter().enumerate().filter(|_| multiclass) {
            let answer = naive::answer(row, *truth, k);
            seen.iter_mut().enumerate().for_each(|(c, s)| s[i].said = answer == c);
        }
        let name = if case.drawn == Drawn::Binary { "micro" } else { name };
        let expected = naive::averaged(what, name, &seen, multiclass, zero);
        check(random, &format!("{what} {name} of {:?}, k {k}", case.drawn), &|| rate(what, &of), &case.batches, &expected, 1e-13, true);
    }
}
fn areas(random: &mut Random, case: &Case) {
    for (name, averaging) in AVERAGES {
        if averaging == Averaging::Micro && case.drawn == Drawn::Multiclass {
            continue;
        }
        let of = case.of.clone().averaging(averaging);
        let name = if case.drawn == Drawn::Binary { "none" } else { name };
        let expected = naive::areas(naive::auroc, name, &case.seen);
        check(random, &format!("auroc {name} of {:?}", case.drawn), &|| Box::new(Auroc::new(&of).unwrap()), &case.batches, &expected, 1e-13, true);
        let expected = naive::areas(naive::average_precision, name, &case.seen);
        let what = format!("average precision {name} of {:?}", case.drawn);
        check(random, &what, &|| Box::new(AveragePrecision::new(&of).unwrap()), &case.batches, &expected, 1e-13, true);
    }
}
fn tables(random: &mut Random, case: &Case) {
    let (of, classes) = (&case.of, if case.drawn == Drawn::Multiclass { case.classes } else { 2 });
    for (name, shares) in
        [("none", ConfusionShares::Counts), ("true", ConfusionShares::Truth), ("pred", ConfusionShares::Predictions), ("all", ConfusionShares::All)]
    {
        let expected = if case.drawn == Drawn::Multilabel {
            let pairs = |seen: &Vec<Seen>| seen.iter().map(|s| (s.so as usize, s.said as usize)).collect::<Vec<_>>();
            case.seen.iter().flat_map(|s| naive::confusion(&pairs(s), 2, name)).collect()
        } else {
            naive::confusion(&case.pairs, classes, name)
        };
        let what = format!("confusion {name} of {:?}", case.drawn);
        check(random, &what, &|| Box::new(ConfusionMatrix::new(of, shares).unwrap()), &case.batches, &expected, 1e-13, true);
    }
    if case.drawn == Drawn::Multilabel || case.pairs.is_empty() {
        return;
    }
    for (name, weights) in [("equal", KappaWeights::Equal), ("linear", KappaWeights::Linear), ("quadratic", KappaWeights::Quadratic)] {
        let expected = naive::kappa(&case.pairs, name);
        check(random, &format!("kappa {name}"), &|| Box::new(CohenKappa::new(of, weights).unwrap()), &case.batches, &[expected], 1e-12, true);
    }
    let expected = naive::matthews(&case.pairs, classes);
    check(random, "mcc", &|| Box::new(MatthewsCorrCoef::new(of).unwrap()), &case.batches, &[expected], 1e-12, true);
}
fn classes(device: Device, seeds: std::ops::Range<u64>, of: fn(&mut Random, &Case)) {
    device.scoped(|| {
        for seed in seeds {
            let mut random = Random(seed);
            let drawn = random.one_of(&[Drawn::Binary, Drawn::Multiclass, Drawn::Multilabel]);
            let case = draw(&mut random, drawn);
            of(&mut random, &case);
        }
    });
}
fn on_both(seeds: u64, of: fn(&mut Random, &Case)) {
    classes(Device::cpu().unwrap(), 0..seeds, of);
    classes(Device::reference(), seeds..seeds + seeds / 4, of);
}
#[test]
fn rates_that_are_not_their_definitions() {
    on_both(400, rates);
}
#[test]
fn areas_that_are_not_their_definitions() {
    on_both(200, areas);
}
#[test]
fn tables_that_are_not_their_definitions() {
    on_both(200, tables);
}

fn numbers(random: &mut Random) {
    let outputs = 1 + random.below(3);
    let (offset, flat) = (random.one_of(&[0.0, 1e6]), random.below(5) == 0);
    let (mut pairs, mut batches) = (vec![Vec::new(); outputs], Vec::new());
    for _ in 0..1 + random.below(4) {
        let n = random.below(12);
        let (mut p, mut t) = (Vec::new(), Vec::new());
        for at in 0..n * outputs {
            let truth = if flat && at % outputs == 0 { 3.0 } else { offset + random.below(1 << 20) as f64 / 65536.0 };
            let prediction = truth + (random.below(1 << 16) as f64 / 32768.0 - 1.0);
            pairs[at % outputs].push((prediction, truth));
            p.push(prediction);
            t.push(truth);
        }
        batches.push((Tensor::from_vec(p, [n, outputs]), Tensor::from_vec(t, [n, outputs])));
    }
    let n = pairs[0].len() as f64;
    let each = |f: &dyn Fn(&[(f64, f64)]) -> f64| pairs.iter().map(|p| f(p)).collect::<Vec<f64>>();
    let mae = each(&|p| p.iter().map(|(a, b)| (a - b).abs()).sum::<f64>() / n);
    let mse = each(&|p| p.iter().map(|(a, b)| (a - b).powi(2)).sum::<f64>() / n);
    let root: Vec<f64> = mse.iter().map(|v| v.sqrt()).collect();
    check(random, "mae", &|| Box::new(MeanAbsoluteError::new(outputs).unwrap()), &batches, &mae, 1e-13, false);
    check(random, "mse", &|| Box::new(MeanSquaredError::new(outputs).unwrap()), &batches, &mse, 1e-13, false);
    check(random, "rmse", &|| Box::new(MeanSquaredError::root(outputs).unwrap()), &batches, &root, 1e-13, false);
    let (scores, spreads) = (each(&naive::r2), each(&naive::spread));
    let mean = scores.iter().sum::<f64>() / outputs as f64;
    let total: f64 = spreads.iter().sum();
    let by_spread = if n < 2.0 {
        f64::NAN
    } else if total == 0.0 {
        mean
    } else {
        scores.iter().zip(&spreads).map(|(v, s)| v * s).sum::<f64>() / total
    };
    for (averaging, expected) in [(OutputAveraging::Raw, scores), (OutputAveraging::Uniform, vec![mean]), (OutputAveraging::Variance, vec![by_spread])] {
        check(random, "r2", &|| Box::new(R2Score::new(outputs, averaging).unwrap()), &batches, &expected, 1e-8, false);
    }
}
fn weighted_means(random: &mut Random) {
    let (mut sum, mut weights, mut batches) = (0.0, 0.0, Vec::new());
    for _ in 0..1 + random.below(4) {
        let n = 1 + random.below(9);
        let values: Vec<f32> = (0..n).map(|_| random.below(1000) as f32 / 8.0).collect();
        let of: Vec<f32> = (0..n).map(|_| random.below(4) as f32 / 4.0).collect();
        sum += values.iter().zip(&of).map(|(v, w)| (v * w) as f64).sum::<f64>();
        weights += of.iter().map(|w| *w as f64).sum::<f64>();
        batches.push((Tensor::from_vec(values, [n]), Tensor::from_vec(of, [n])));
    }
    check(random, "mean", &|| Box::new(MeanMetric::new().unwrap()), &batches, &[sum / weights], 1e-13, false);
}
fn perplexities(random: &mut Random) {
    let (vocabulary, ignore) = (2 + random.below(9), random.one_of(&[None, Some(-100), Some(0)]));
    let (mut rows, mut batches) = (Vec::new(), Vec::new());
    let time = random.below(4);
    for _ in 0..1 + random.below(4) {
        let n = random.below(5);
        let logits: Vec<f32> = (0..n * time * vocabulary).map(|_| random.below(1 << 12) as f32 / 512.0 - 4.0).collect();
        let mut targets = Vec::new();
        for row in logits.chunks(vocabulary) {
            let out = ignore.filter(|_| random.below(3) == 0);
            let target = out.unwrap_or(random.below(vocabulary) as i64);
            targets.push(target);
            if Some(target) != ignore {
                rows.push((row.iter().map(|x| *x as f64).collect::<Vec<f64>>(), target as usize));
            }
        }
        batches.push((Tensor::from_vec(logits, [n, time, vocabulary]), Tensor::from_vec(targets, [n, time])));
    }
    let expected = naive::perplexity(&rows);
    // Logarithms of sums are f32.
    check(random, "perplexity", &|| Box::new(Perplexity::new(vocabulary, ignore).unwrap()), &batches, &[expected], 1e-5, false);
}
fn on_seeds(seeds: u64, of: fn(&mut Random)) {
    for (device, seeds) in [(Device::cpu().unwrap(), 0..seeds), (Device::reference(), seeds..seeds + seeds / 4)] {
        device.scoped(|| seeds.for_each(|seed| of(&mut Random(seed))));
    }
}
#[test]
fn errors_of_numbers_that_are_not_their_definitions() {
    on_seeds(150, numbers);
}
#[test]
fn weighted_means_that_are_not_their_definitions() {
    on_seeds(100, weighted_means);
}
#[test]
fn perplexities_that_are_not_their_definitions() {
    on_seeds(150, perplexities);
}
/// Numbers that are drawn do not cover what one case does: labels as class numbers, of narrow dtypes and bool.
#[test]
fn answers_as_class_numbers_of_any_dtype() {
    Device::cpu().unwrap().scoped(|| {
        for dtype in [DType::I64, DType::I32, DType::U8, DType::U32] {
            let mut accuracy = Accuracy::new(&Classification::multiclass(4)).unwrap();
            let [answers, truth] = [vec![0i64, 1, 2, 3], vec![0i64, 1, 3, 3]].map(|v| Tensor::from_vec(v, [4]).cast(dtype));
            accuracy.update(&answers, &truth).unwrap();
            assert_eq!(figure(&accuracy), [0.75], "{dtype}");
        }
        let mut recall = Recall::new(&Classification::multilabel(2).averaging(Averaging::None)).unwrap();
        let [answers, truth] = [vec![true, false, true, true], vec![true, true, false, true]].map(|v| Tensor::from_vec(v, [2, 2]));
        recall.update(&answers, &truth).unwrap();
        assert_eq!(figure(&recall), [1.0, 0.5]);
    });
}
