//! What observers are shown: inputs of layers of trained models, and values of drawn kinds with outliers planted among them.
use super::{described::JudgedExample, observers::ObserverOptions};
use adamant::{
    Device,
    data::DataLoader,
    nn::{Module, Walk},
};
use adamant_conformance::random::Random;
use adamant_train::{Failure, Trained};
use std::sync::{Arc, Mutex, PoisonError};

/// Batches of values, and along which of their axes channels lie.
pub struct ObservedCase {
    pub name: String,
    pub batches: Vec<(Vec<usize>, Vec<f32>)>,
    pub axis: usize,
}
impl ObservedCase {
    pub fn values(&self) -> Vec<f32> {
        self.batches.iter().flat_map(|(_, values)| values.iter().copied()).collect()
    }
    pub fn channels(&self) -> usize {
        self.batches.first().map_or(0, |(shape, _)| shape[self.axis])
    }
}
/// Values of a batch of a layer's inputs, at most: whole rows.
const MOST_VALUES: usize = 60_000;
const BATCHES: usize = 4;
const ROWS: usize = 64;
const MODELS: [JudgedExample; 2] = [
    JudgedExample { name: "digits", text: include_str!("../../../examples/digits/digits.toml"), data: None },
    JudgedExample { name: "mnist", text: include_str!("../../../examples/mnist/mnist.toml"), data: Some("mnist-20k") },
];

/// Inputs of every layer with a weight of the models whose data there are.
pub fn of_models(options: &ObserverOptions) -> Result<Vec<ObservedCase>, Failure> {
    let mut all = Vec::new();
    for model in &MODELS {
        match model.data(options.data.as_deref()) {
            Some(data) => all.extend(of_model(model, &data, options)?),
            None => println!("skipped {}: --data names no folder of data sets", model.name),
        }
    }
    Ok(all)
}
fn of_model(model: &JudgedExample, data: &std::path::Path, options: &ObserverOptions) -> Result<Vec<ObservedCase>, Failure> {
    let trained = Trained::open(&model.trained(data, 1, &options.runs)?)?;
    let (_, parts) = trained.data(data)?;
    let device = Device::current()?;
    let mut cases = Vec::new();
    let mut hooks = Vec::new();
    for layer in trained.model.modules().into_iter().filter(|layer| layer.parameters.iter().any(|(name, _)| name == "weight")) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = seen.clone();
        hooks.push(layer.site()?.register_forward_pre_hook(move |_, inputs| {
            if let Some(x) = inputs.first() {
                let shape = x.shape()?;
                let rows = (MOST_VALUES * shape[0] / shape.elements().max(1)).clamp(1, shape[0]);
                let some = x.detach().narrow(0, 0, rows);
                into.lock().unwrap_or_else(PoisonError::into_inner).push((some.shape()?.to_vec(), some.to_vec::<f32>()?));
            }
            Ok(None)
        })?);
        cases.push((format!("{} {} `{}`", model.name, layer.kind, layer.path()), seen));
    }
    let mut loader = DataLoader::new(parts.train).batch_size(ROWS).shuffle(options.seed).build()?;
    for batch in loader.epoch().take(BATCHES) {
        let (x, _) = batch?;
        adamant::no_grad(|| trained.model.forward(&x.to(device)))?.materialize()?;
    }
    hooks.iter().for_each(|hook| hook.remove());
    let taken = |seen: Arc<Mutex<Vec<_>>>| std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(cases.into_iter().map(|(name, seen)| ObservedCase { name, batches: taken(seen), axis: 1 }).collect())
}

/// How values are drawn.
const KINDS: [&str; 14] = [
    "normal",
    "laplace",
    "cauchy",
    "uniform",
    "zeros and positives",
    "negatives",
    "a constant",
    "zeros",
    "a negative constant",
    "steps",
    "lognormal",
    "two bells",
    "far from zero",
    "few",
];
fn bell(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}
fn value(kind: &str, random: &mut Random) -> f64 {
    match kind {
        "laplace" => -(1.0 - random.unit()).ln() * if random.one_in(2) { 1.0 } else { -1.0 },
        "cauchy" => (std::f64::consts::PI * (random.unit() - 0.5)).tan().clamp(-1e6, 1e6),
        "uniform" => random.unit() * 2.0 - 0.7,
        "zeros and positives" => bell(random).max(0.0),
        "negatives" => -bell(random).abs(),
        "a constant" => 2.75,
        "zeros" => 0.0,
        "a negative constant" => -0.3,
        "steps" => (random.below(17) as f64 / 16.0 - 0.1307) / 0.3081,
        "lognormal" => (1.5 * bell(random)).exp(),
        "two bells" => bell(random) * 0.1 + if random.one_in(5) { 6.0 } else { -1.0 },
        "far from zero" => 100.0 + bell(random),
        "few" => [-1.5, 0.25, 4.0][random.below(3)],
        _ => bell(random),
    }
}
/// A case by its number: every kind comes in turn, each second time with outliers.
pub fn drawn(k: usize, random: &Random, most: usize) -> ObservedCase {
    let mut random = random.part(k as u64);
    let kind = KINDS[k % KINDS.len()];
    let is_constant = matches!(kind, "a constant" | "zeros" | "a negative constant");
    let outliers = if (k / KINDS.len()).is_multiple_of(2) { 0 } else { 1 + random.below(5) };
    // Sizes of numbers that f32 has, and batches of which each may reach farther than those before.
    let size = if is_constant || random.one_in(2) { 1.0 } else { 10f64.powf(random.unit() * 12.0 - 6.0) };
    let growth = [1.0, 1.0, 1.3, 3.0][random.below(4)];
    let channels = 1 + random.below(6);
    let batches = (0..1 + random.below(6))
        .map(|batch| {
            let rows = 1 + random.below(most / channels);
            let scale = size * f64::powi(if is_constant { 1.0 } else { growth }, batch as i32);
            let mut values: Vec<f32> = (0..rows * channels).map(|_| (value(kind, &mut random) * scale) as f32).collect();
            for _ in 0..outliers {
                let (at, far) = (random.below(values.len()), 10f64.powf(random.unit() * 3.0) * if random.one_in(2) { 1.0 } else { -1.0 });
                values[at] = (far * scale) as f32;
            }
            (vec![rows, channels], values)
        })
        .collect();
    ObservedCase { name: format!("{kind}{}, {k}", if outliers > 0 { " with outliers" } else { "" }), batches, axis: 1 }
}
/// Counts of a case's values in bins about 0.
pub fn counts(case: &ObservedCase, bins: usize) -> Vec<u64> {
    let values = case.values();
    let reach = values.iter().fold(f32::MIN_POSITIVE, |m, v| m.max(v.abs()));
    let mut counts = vec![0u64; bins];
    for v in values {
        let bin = (f64::from(v + reach) / (2.0 * f64::from(reach)) * bins as f64) as usize;
        counts[bin.min(bins - 1)] += 1;
    }
    counts
}
