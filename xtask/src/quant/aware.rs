//! Quantization-aware training: each description is trained once in floats; its weights are then trained on with 4-bit weights and
//! 8-bit inputs in mind, and become codes. Judged are what that costs, and whether the model of codes is the one that was trained.
use super::{
    AccuracyOptions,
    accuracy::answers,
    described::{JudgedExample, SilentWatch, judge_all},
};
use crate::exit::Exit;
use adamant::{Device, Tensor, data::DataLoader};
use adamant_train::{Failure, Run, Trained};
use std::{fs, path::Path};

/// A model, and how its weights are trained on.
struct AwareCase {
    model: JudgedExample,
    set: &'static [&'static str],
}
const CASES: [AwareCase; 2] = [
    AwareCase {
        model: JudgedExample { name: "digits", text: include_str!("../../../examples/digits/digits.toml"), data: None },
        set: &["epochs=20", "optimizer.lr=1e-3", "quantize.freeze_observers_after=200"],
    },
    AwareCase {
        model: JudgedExample { name: "mnist", text: include_str!("../../../examples/mnist/mnist.toml"), data: Some("mnist-20k") },
        set: &["epochs=2", "schedule.max_lr=3e-4", "quantize.freeze_observers_after=200"],
    },
];
/// Percentage points of accuracy that may be lost.
const MOST_POINTS: f64 = 0.3;
/// The share of inputs whose class is that of the model that was trained.
const LEAST_ALIKE: f64 = 0.9995;
/// Rows that are answered at once.
const ROWS: usize = 200;

pub fn run(options: &AccuracyOptions) -> Result<Exit, String> {
    judge_all(options, &CASES, |case| &case.model, |case, data, seed, device| Ok(vec![judge(case, data, seed, &options.runs, device)?]))
}
fn judge(case: &AwareCase, data: &Path, seed: u64, runs: &Path, device: Device) -> Result<bool, Failure> {
    let (floats, aware) = (case.model.trained(data, seed, runs)?, runs.join(format!("{}-{seed}-aware", case.model.name)));
    let weights = floats.join("weights.safetensors");
    let mut document = case.model.document(seed)?;
    let before = answers(&floats, data, device)?;
    let init = format!("init_from.path='{}'", weights.display());
    for set in ["quantize.scheme=int8-static", "quantize.bits=4", init.as_str()].iter().chain(case.set) {
        document.set(set)?;
    }
    let _ = fs::remove_dir_all(&aware);
    Run::new(&document).data(data).folder(&aware).train(&mut SilentWatch)?;
    let codes = Trained::open(&aware.join("quantized"))?;
    let after = answers(&aware.join("quantized"), data, device)?;
    // Without the weights of floats a run is read from its last checkpoint, which has the model as it was trained.
    let of_floats = aware.join("weights.safetensors");
    fs::rename(&of_floats, aware.join("floats.safetensors")).map_err(|e| Failure::Input(format!("{}: {e}", of_floats.display())))?;
    let fake = Trained::open(&aware)?;
    let (_, parts) = codes.data(data)?;
    let (mut rows, mut alike, mut off) = (0, 0, 0f32);
    for batch in DataLoader::new(parts.test).batch_size(ROWS).build()?.epoch() {
        let (x, _) = batch?;
        let (a, b) = (fake.answer(&x)?, codes.answer(&x)?);
        off = off.max((&a - &b).abs().max().item::<f32>()?);
        let classes = |logits: &Tensor| logits.argmax(1).to_vec::<i64>();
        let (a, b) = (classes(&a)?, classes(&b)?);
        rows += a.len();
        alike += a.iter().zip(&b).filter(|(a, b)| a == b).count();
    }
    let points = 100.0 * (before.accuracy.unwrap_or(0.0) - after.accuracy.unwrap_or(0.0));
    let passed = points <= MOST_POINTS + 1e-9 && alike as f64 >= LEAST_ALIKE * rows as f64;
    println!(
        "{} {} seed {seed}: {points:+.2} points lost (at most {MOST_POINTS}), accuracy {:.2} -> {:.2} %; {alike} of {rows} classes as trained, logits {off:.4} off at most",
        if passed { "passed" } else { "failed" },
        case.model.name,
        100.0 * before.accuracy.unwrap_or(f64::NAN),
        100.0 * after.accuracy.unwrap_or(f64::NAN),
    );
    Ok(passed)
}
