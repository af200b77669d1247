//! Figures are scikit-learn's: `goldens.json` is what `xtask/python/metrics.py` prints.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_backend_cpu as _;
use adamant_core::{Device, Tensor};
use adamant_metrics::*;
use serde_json::Value;

/// All numbers of nested lists; null is NaN.
fn numbers(v: &Value, into: &mut Vec<f64>) {
    match v {
        Value::Array(all) => all.iter().for_each(|v| numbers(v, into)),
        Value::Null => into.push(f64::NAN),
        v => into.push(v.as_f64().unwrap()),
    }
}
fn flat(v: &Value) -> Vec<f64> {
    let mut all = Vec::new();
    numbers(v, &mut all);
    all
}
/// The metric of an expectation's name.
fn metric(task: &str, classes: usize, name: &str) -> Box<dyn Metric> {
    let mut words = name.split(' ');
    let (what, how, zero) = (words.next().unwrap(), words.next().unwrap_or(""), words.next().map_or(0.0, |z| z.parse::<f64>().unwrap()));
    let of = match task {
        "binary" => Classification::binary(),
        "multilabel" => Classification::multilabel(classes),
        _ => Classification::multiclass(classes),
    };
    let averaging = match how {
        "micro" => Some(Averaging::Micro),
        "macro" => Some(Averaging::Macro),
        "weighted" => Some(Averaging::Weighted),
        "none" => Some(Averaging::None),
        _ => None,
    };
    let plain = of.clone().zero_division(zero);
    let of = averaging.map_or(plain.clone(), |a| plain.clone().averaging(a));
    match what {
        "accuracy" => Box::new(Accuracy::new(&of).unwrap()),
        "top" => Box::new(Accuracy::new(&of.top_k(how.parse().unwrap())).unwrap()),
        "precision" => Box::new(Precision::new(&of).unwrap()),
        "recall" => Box::new(Recall::new(&of).unwrap()),
        "f1" => Box::new(FBeta::f1(&of).unwrap()),
        "f2" => Box::new(FBeta::new(2.0, &of).unwrap()),
        "auroc" => Box::new(Auroc::new(&of).unwrap()),
        "average_precision" => Box::new(AveragePrecision::new(&of).unwrap()),
        "confusion" => {
            let shares = match how {
                "true" => ConfusionShares::Truth,
                "pred" => ConfusionShares::Predictions,
                "all" => ConfusionShares::All,
                _ => ConfusionShares::Counts,
            };
            Box::new(ConfusionMatrix::new(&plain, shares).unwrap())
        }
        "kappa" => {
            let weights = match how {
                "linear" => KappaWeights::Linear,
                "quadratic" => KappaWeights::Quadratic,
                _ => KappaWeights::Equal,
            };
            Box::new(CohenKappa::new(&plain, weights).unwrap())
        }
        "mcc" => Box::new(MatthewsCorrCoef::new(&plain).unwrap()),
        "mae" => Box::new(MeanAbsoluteError::new(classes).unwrap()),
        "mse" => Box::new(MeanSquaredError::new(classes).unwrap()),
        "rmse" => Box::new(MeanSquaredError::root(classes).unwrap()),
        "r2" => {
            let averaging = match how {
                "raw_values" => OutputAveraging::Raw,
                "variance_weighted" => OutputAveraging::Variance,
                _ => OutputAveraging::Uniform,
            };
            Box::new(R2Score::new(classes, averaging).unwrap())
        }
        other => panic!("no metric for {other}"),
    }
}
fn check(device: Device) -> usize {
    let goldens: Value = serde_json::from_str(include_str!("goldens.json")).unwrap();
    let mut checked = 0;
    for (k, case) in goldens["cases"].as_array().unwrap().iter().enumerate() {
        let task = case["task"].as_str().unwrap();
        let classes = case["classes"].as_u64().unwrap_or(1) as usize;
        let n = case["targets"].as_array().unwrap().len();
        let (scores, targets) = (flat(&case["scores"]), flat(&case["targets"]));
        let shape = |len: usize| if len == n && task != "multilabel" { vec![n] } else { vec![n, len / n] };
        let scores = Tensor::from_vec(scores.iter().map(|x| *x as f32).collect(), shape(scores.len()));
        let shape = shape(targets.len());
        let targets = match task {
            "regression" => Tensor::from_vec(targets.iter().map(|x| *x as f32).collect(), shape),
            _ => Tensor::from_vec(targets.iter().map(|x| *x as i64).collect(), shape),
        };
        for (name, expected) in case["expected"].as_object().unwrap() {
            let mut metric = metric(task, classes, name);
            // In two batches.
            for (from, len) in [(0, n / 3), (n / 3, n - n / 3)] {
                metric.update(&scores.narrow(0, from, len), &targets.narrow(0, from, len)).unwrap();
            }
            let (ours, theirs) = (metric.compute().unwrap().to_vec_as::<f64>().unwrap(), flat(expected));
            assert_eq!(ours.len(), theirs.len(), "case {k}, {task}: {name}");
            let same = ours.iter().zip(&theirs).all(|(a, b)| (a.is_nan() && b.is_nan()) || (a - b).abs() < 1e-13);
            assert!(same, "case {k}, {task} on {device}: {name}: {ours:?}, scikit-learn has {theirs:?}");
            checked += 1;
        }
    }
    checked
}
#[test]
fn figures_that_are_not_those_of_scikit_learn() {
    for device in [Device::reference(), Device::cpu().unwrap()] {
        let checked = device.scoped(|| check(device));
        assert!(checked > 400, "{checked} figures were compared");
    }
}
