//! Trained models before and after: each description is trained once, its run quantized by each scheme, and both are judged on the
//! same test part. A model that is worse than the promise fails.
use super::AccuracyOptions;
use crate::exit::Exit;
use adamant::Device;
use adamant_train::{
    Document, EvaluateOptions, Evaluation, Failure, Run, Trained, Watch, evaluate,
    quantized::{QuantizationConfig, QuantizePlan, quantize},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A description, where its data lie among the real data sets, and what may be lost.
struct Case {
    name: &'static str,
    text: &'static str,
    /// below the folder of data sets; `None`: beside the description
    data: Option<&'static str>,
    limits: &'static [(&'static str, Limit)],
}
/// What a scheme may cost.
#[derive(Clone, Copy)]
enum Limit {
    /// rows of the test part that are answered wrong more
    Rows(f64),
    /// percentage points of accuracy
    Points(f64),
    /// nats of loss
    Nats(f64),
}
const CASES: [Case; 4] = [
    Case {
        name: "digits",
        text: include_str!("../../../examples/digits/digits.toml"),
        data: None,
        limits: &[("int8-static", Limit::Rows(2.0)), ("int8-dynamic", Limit::Rows(2.0)), ("w8", Limit::Rows(2.0))],
    },
    Case {
        name: "mnist",
        text: include_str!("../../../examples/mnist/mnist.toml"),
        data: Some("mnist-20k"),
        limits: &[("int8-static", Limit::Points(0.2)), ("int8-dynamic", Limit::Points(0.1)), ("w8", Limit::Points(0.1))],
    },
    Case {
        name: "chargpt",
        text: include_str!("../../../examples/chargpt/chargpt.toml"),
        data: Some("tinyshakespeare"),
        limits: &[("int8-dynamic", Limit::Nats(0.005)), ("w8", Limit::Nats(0.002)), ("w4g32", Limit::Nats(0.03))],
    },
    Case {
        name: "charlstm",
        text: include_str!("charlstm.toml"),
        data: Some("tinyshakespeare"),
        limits: &[("int8-dynamic", Limit::Nats(0.01)), ("w8", Limit::Nats(0.01))],
    },
];
fn config(scheme: &str) -> QuantizationConfig {
    match scheme {
        "int8-static" => QuantizationConfig::int8(),
        "int8-dynamic" => QuantizationConfig::int8_dynamic(),
        "w8" => QuantizationConfig::weights(8),
        _ => QuantizationConfig::weights(4).group(Some(32)),
    }
}
pub(super) struct SilentWatch;
impl Watch for SilentWatch {}

pub fn run(options: &AccuracyOptions) -> Result<Exit, String> {
    let device = Device::current().map_err(|e| e.to_string())?;
    let (mut failed, mut skipped, mut judged) = (0, 0, 0);
    for case in CASES.iter().filter(|c| c.name.contains(&options.only)) {
        let data = match (case.data, &options.data) {
            (None, _) => crate::workspace::root().join("examples").join(case.name),
            (Some(name), Some(all)) => all.join(name),
            (Some(_), None) => {
                println!("skipped {}: --data names no folder of data sets", case.name);
                skipped += 1;
                continue;
            }
        };
        for seed in &options.seeds {
            for outcome in judge(case, &data, *seed, &options.runs, device).map_err(|e| format!("{}: {e}", case.name))? {
                judged += 1;
                failed += usize::from(!outcome);
            }
        }
    }
    println!("{judged} quantized models judged, {failed} worse than promised, {skipped} descriptions skipped");
    Ok(if failed > 0 {
        Exit::Failed
    } else if skipped > 0 || judged == 0 {
        Exit::Skipped
    } else {
        Exit::Passed
    })
}
fn judge(case: &Case, data: &Path, seed: u64, runs: &Path, device: Device) -> Result<Vec<bool>, Failure> {
    let run = runs.join(format!("{}-{seed}", case.name));
    let weights = run.join("weights.safetensors");
    if !weights.exists() {
        let mut document = Document::parse(case.name, case.text)?;
        document.set(&format!("seed={seed}"))?;
        println!("{}, seed {seed}: training", case.name);
        Run::new(&document).data(data).folder(&run).train(&mut SilentWatch)?;
    }
    let before = answers(&run, data, device)?;
    let size = |path: PathBuf| fs::metadata(path).map_or(0, |m| m.len());
    let mut outcomes = Vec::new();
    for (scheme, limit) in case.limits {
        let out = runs.join(format!("{}-{seed}-{scheme}", case.name));
        let _ = fs::remove_dir_all(&out);
        let report = quantize(&run, &out, data, &QuantizePlan { config: config(scheme), rows: 512 })?;
        let after = answers(&out, data, device)?;
        let ratio = size(weights.clone()) as f64 / size(out.join("weights.safetensors")).max(1) as f64;
        let points = 100.0 * (before.accuracy.unwrap_or(0.0) - after.accuracy.unwrap_or(0.0));
        let (lost, unit, most) = match limit {
            Limit::Rows(most) => (points / 100.0 * before.rows as f64, "rows", *most),
            Limit::Points(most) => (points, "points", *most),
            Limit::Nats(most) => (after.loss - before.loss, "nats", *most),
        };
        let passed = lost <= most + 1e-9;
        outcomes.push(passed);
        println!(
            "{} {} seed {seed} {scheme}: {lost:+.4} {unit} lost (at most {most}), accuracy {:.2} -> {:.2} %, loss {:.4} -> {:.4}, file {ratio:.2} times smaller, {} layers of codes",
            if passed { "passed" } else { "failed" },
            case.name,
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
