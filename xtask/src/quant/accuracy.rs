//! Trained models before and after: each description is trained once, its run quantized by each scheme, and both are judged on the
//! same test part. A model that is worse than the promise fails. Of three bits it is promised how much of what rounding loses a
//! method wins back.
use super::{
    AccuracyOptions,
    described::{JudgedExample, judge_all},
};
use crate::exit::Exit;
use adamant::{DType, Device};
use adamant_train::{
    EvaluateOptions, Evaluation, Failure, Trained, evaluate,
    quantized::{QuantizationConfig, QuantizePlan, WeightMethod, quantize},
};
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// A model, and what may be lost by each configuration.
struct Case {
    model: JudgedExample,
    trials: &'static [Trial],
}
/// A configuration, and what may be lost by it.
struct Trial {
    scheme: &'static str,
    group: Option<usize>,
    method: &'static str,
    limit: Limit,
}
impl Trial {
    const fn of(scheme: &'static str, limit: Limit) -> Trial {
        Trial { scheme, group: None, method: "rtn", limit }
    }
    const fn group(self, group: usize) -> Trial {
        Trial { group: Some(group), ..self }
    }
    const fn by(self, method: &'static str) -> Trial {
        Trial { method, ..self }
    }
    fn name(&self) -> String {
        let group = self.group.map_or(String::new(), |g| format!("-g{g}"));
        format!("{}{group}{}", self.scheme, if self.method == "rtn" { String::new() } else { format!("-{}", self.method) })
    }
    /// Weights of groups have scales of f16.
    fn config(&self) -> adamant::Result<QuantizationConfig> {
        let scales = if self.group.is_some() { DType::F16 } else { DType::F32 };
        Ok(QuantizationConfig::named(self.scheme)?.group(self.group).scales(scales).method(WeightMethod::named(self.method)?))
    }
}
/// What a trial may cost.
#[derive(Clone, Copy)]
enum Limit {
    /// nothing is promised: what it loses is what others win back
    Open,
    /// at least this share of the loss that rounding adds is won back
    WonBack(f64),
    /// rows of the test part that are answered wrong more
    Rows(f64),
    /// percentage points of accuracy
    Points(f64),
    /// nats of loss
    Nats(f64),
}
const CASES: [Case; 4] = [
    Case {
        model: JudgedExample { name: "digits", text: include_str!("../../../examples/digits/digits.toml"), data: None },
        trials: &[Trial::of("int8-static", Limit::Rows(2.0)), Trial::of("int8-dynamic", Limit::Rows(2.0)), Trial::of("w8", Limit::Rows(2.0))],
    },
    Case {
        model: JudgedExample { name: "mnist", text: include_str!("../../../examples/mnist/mnist.toml"), data: Some("mnist-20k") },
        trials: &[Trial::of("int8-static", Limit::Points(0.2)), Trial::of("int8-dynamic", Limit::Points(0.1)), Trial::of("w8", Limit::Points(0.1))],
    },
    Case {
        model: JudgedExample { name: "chargpt", text: include_str!("../../../examples/chargpt/chargpt.toml"), data: Some("tinyshakespeare") },
        trials: &[
            Trial::of("int8-dynamic", Limit::Nats(0.005)),
            Trial::of("w8", Limit::Nats(0.002)),
            Trial::of("w4", Limit::Nats(0.03)).group(32),
            Trial::of("w4", Limit::Nats(0.03)).group(32).by("gptq"),
            Trial::of("w4", Limit::Nats(0.03)).group(32).by("awq"),
            Trial::of("w3", Limit::Open),
            Trial::of("w3", Limit::WonBack(0.4)).by("gptq"),
            Trial::of("w3", Limit::WonBack(0.0)).by("awq"),
        ],
    },
    Case {
        model: JudgedExample { name: "charlstm", text: include_str!("charlstm.toml"), data: Some("tinyshakespeare") },
        trials: &[Trial::of("int8-dynamic", Limit::Nats(0.01)), Trial::of("w8", Limit::Nats(0.01))],
    },
];

pub fn run(options: &AccuracyOptions) -> Result<Exit, String> {
    judge_all(options, &CASES, |case| &case.model, |case, data, seed, device| judge(case, data, seed, &options.runs, device))
}
fn judge(case: &Case, data: &Path, seed: u64, runs: &Path, device: Device) -> Result<Vec<bool>, Failure> {
    let run = case.model.trained(data, seed, runs)?;
    let weights = run.join("weights.safetensors");
    let before = answers(&run, data, device)?;
    let size = |path: PathBuf| fs::metadata(path).map_or(0, |m| m.len());
    let mut outcomes = Vec::new();
    // What rounding adds to the loss, by scheme.
    let mut added: HashMap<&str, f64> = HashMap::new();
    for trial in case.trials {
        let name = trial.name();
        let out = runs.join(format!("{}-{seed}-{name}", case.model.name));
        let _ = fs::remove_dir_all(&out);
        let report = quantize(&run, &out, data, &QuantizePlan { config: trial.config()?, rows: 512 })?;
        let after = answers(&out, data, device)?;
        let ratio = size(weights.clone()) as f64 / size(out.join("weights.safetensors")).max(1) as f64;
        let points = 100.0 * (before.accuracy.unwrap_or(0.0) - after.accuracy.unwrap_or(0.0));
        let nats = after.loss - before.loss;
        let (lost, unit, most) = match trial.limit {
            Limit::Rows(most) => (points / 100.0 * before.rows as f64, "rows", most),
            Limit::Points(most) => (points, "points", most),
            Limit::Nats(most) => (nats, "nats", most),
            Limit::Open => (*added.entry(trial.scheme).or_insert(nats), "nats", f64::INFINITY),
            Limit::WonBack(share) => (nats, "nats", (1.0 - share) * added.get(trial.scheme).copied().unwrap_or(0.0)),
        };
        let passed = lost <= most + 1e-9;
        outcomes.push(passed);
        println!(
            "{} {} seed {seed} {name}: {lost:+.4} {unit} lost (at most {most:.4}), accuracy {:.2} -> {:.2} %, loss {:.4} -> {:.4}, file {ratio:.2} times smaller, {} layers of codes",
            if passed { "passed" } else { "failed" },
            case.model.name,
            100.0 * before.accuracy.unwrap_or(f64::NAN),
            100.0 * after.accuracy.unwrap_or(f64::NAN),
            before.loss,
            after.loss,
            report.quantized().count()
        );
    }
    Ok(outcomes)
}
pub(super) fn answers(run: &Path, data: &Path, device: Device) -> Result<Evaluation, Failure> {
    let trained = Trained::open(run)?;
    let (objective, parts) = trained.data(data)?;
    let options = EvaluateOptions { region: trained.region.clone(), ..parts.evaluation() };
    evaluate(&trained.model, &objective, &parts.test, device, &options)
}
