//! A trained run as one whose weights are integer codes: a folder of its own that `eval`, `predict` and `generate` take as they take
//! the run's.
mod measured;

use crate::{
    Evaluation, Failure, Trained, evaluate, folder,
    trained::{PRUNING, SCALES},
};
use adamant_core::{Device, Tensor, no_grad};
use adamant_data::DataLoader;
use adamant_nn::{InputCodes, Sequential, Walk};
use adamant_quant::{
    FuseReport, LayerReport, NormOutcome, NormReport, Outcome, QuantizationReport, convert, fuse_modules_on, qat::remove_qat, quantize_model_with,
    save_quantized,
};
pub use adamant_quant::{QuantizationConfig, WeightMethod};
pub use measured::{BothWays, CodesReport, MeasuredLayer, REPORT, ReportPlan, report};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Rows that calibration runs at once.
const ROWS: usize = 64;
/// What of a run folder a trained model is read from, beside its weights.
const KEPT: [&str; 6] = ["config.toml", "task.json", "environment.json", "table.json", PRUNING, SCALES];

/// How the weights of a run become codes.
#[derive(Clone, Debug)]
pub struct QuantizePlan {
    /// which layers, and how
    pub config: QuantizationConfig,
    /// rows of the training part that inputs are looked at by, where the configuration asks for it
    pub rows: usize,
}
/// Reads a run's model, makes codes of its weights and writes the folder `out`: the model, its description, and what became of each
/// layer as `quantization.json`. The run's data are read for calibration alone, from `data`.
///
/// # Errors
/// `Usage`: `out` holds a model already, or a configuration that does not suit the model. `Input`: the run or its data cannot be
/// read. `Storage`: `out` cannot be written.
pub fn quantize(run: &Path, out: &Path, data: &Path, plan: &QuantizePlan) -> Result<QuantizationReport, Failure> {
    let weights = out.join("weights.safetensors");
    if weights.exists() {
        return Err(Failure::Usage(format!("{}: there is a model already", weights.display())));
    }
    let trained = Trained::open(run)?;
    let device = Device::current()?;
    let before = trained.model.memory_usage();
    let fused = if plan.config.fuses() { Some(fold(&trained, data, device)?) } else { None };
    let (mut failed, mut batches) = (None, None);
    let calibrate = || {
        let ran = no_grad(|| calibrate(&trained, data, plan.rows, device, &mut batches));
        ran.map_err(|failure| {
            // The error that the model carries is told as it is; another one is kept.
            let text = failure.to_string();
            failed = Some(failure);
            adamant_core::Error::new("calibrate", adamant_core::ErrorKind::Argument(text))
        })
    };
    let done = quantize_model_with(&trained.model, &plan.config.clone().fuse(false), calibrate);
    if let Some(failure) = failed {
        return Err(failure);
    }
    let mut report = done.map_err(|e| refused(&e))?;
    if plan.config.keeps_only_faster() && report.quantized().next().is_none() {
        return Err(Failure::Usage(format!(
            "{}: no layer is faster as codes on this machine, so nothing was written (without --only-faster all become codes)",
            run.display()
        )));
    }
    if fused.is_some() {
        (report.before, report.fused) = (before, fused);
    }
    keep(run, out, &trained.model, &report)?;
    Ok(report)
}
fn refused(e: &adamant_core::Error) -> Failure {
    Failure::Usage(e.kind().to_string() + &e.hint_text().map(|h| format!(" ({h})")).unwrap_or_default())
}
/// Folds the norms of a run's model, as its forward pass on a row of the training part says.
fn fold(trained: &Trained, data: &Path, device: Device) -> Result<FuseReport, Failure> {
    let batches = batches_of(trained, data, 1, device)?;
    let Some(row) = batches.first() else { return Err(Failure::Input(format!("{}: the training part is empty", data.display()))) };
    fuse_modules_on(&trained.model, row).map_err(|e| refused(&e))
}
/// Writes the folder of a model of codes, with what of its run's folder it is read by.
fn keep(run: &Path, out: &Path, model: &Sequential, report: &QuantizationReport) -> Result<(), Failure> {
    keep_description(run, out)?;
    let mut told = document(report);
    // Where a report finds the floats again.
    told["run"] = std::path::absolute(run).as_deref().map_or_else(|_| folder::text_of(run), folder::text_of).into();
    folder::write(&out.join("quantization.json"), format!("{told:#}\n").as_bytes())?;
    // The weights come last: with them the folder is a model.
    Ok(save_quantized(model, &out.join("weights.safetensors"))?)
}
/// Writes what of a run's folder a model is read by, but for its weights.
pub(crate) fn keep_description(run: &Path, out: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(out).map_err(|e| folder::broken(out, &e))?;
    for name in KEPT {
        let from = run.join(name);
        if from.exists() {
            let bytes = std::fs::read(&from).map_err(|e| Failure::Input(format!("{}: {e}", from.display())))?;
            folder::write(&out.join(name), &bytes)?;
        }
    }
    Ok(())
}
/// What a run whose description has `[quantize]` leaves beside its model of floats.
#[derive(Clone, Debug)]
pub struct QuantizedEnd {
    /// the folder of the model of codes
    pub folder: PathBuf,
    /// what became of each layer
    pub report: QuantizationReport,
    /// its figures on the test part
    pub test: Evaluation,
}
impl QuantizedEnd {
    /// Of the model that was trained; `judge` tests a model. It stays what it is.
    pub(crate) fn of(model: &Sequential, run: &Path, judge: impl FnOnce(&Sequential) -> Result<Evaluation, Failure>) -> Result<QuantizedEnd, Failure> {
        let (codes, folder) = (model.deep_copy()?, run.join("quantized"));
        let report = convert(&codes)?;
        let test = judge(&codes)?;
        keep(run, &folder, &codes, &report)?;
        Ok(QuantizedEnd { folder, report, test })
    }
    pub(crate) fn to_json(&self) -> Value {
        let mut told = document(&self.report);
        told["folder"] = folder::text_of(&self.folder).into();
        told["test"] = Value::Object(self.test.to_json());
        told
    }
}
/// The model of floats of one that was trained by `[quantize]`.
pub(crate) fn of_floats(model: &Sequential) -> Result<Sequential, Failure> {
    let floats = model.deep_copy()?;
    remove_qat(&floats)?;
    Ok(floats)
}
/// Runs the model on rows of the training part, which are read at the first call.
fn calibrate(trained: &Trained, data: &Path, rows: usize, device: Device, read: &mut Option<Vec<Tensor>>) -> Result<(), Failure> {
    let batches = match read {
        Some(batches) => batches,
        None => read.insert(batches_of(trained, data, rows, device)?),
    };
    batches.iter().try_for_each(|x| Ok(evaluate::answer(&trained.model, x, trained.region.as_ref())?.ok().map(drop)?))
}
/// So many rows of the training part, in an order of their own.
pub(crate) fn batches_of(trained: &Trained, data: &Path, rows: usize, device: Device) -> Result<Vec<Tensor>, Failure> {
    let (_, parts) = trained.data(data)?;
    let mut loader = DataLoader::new(parts.train).batch_size(ROWS).shuffle(0).build()?;
    let (mut left, mut batches) = (rows, Vec::new());
    for batch in loader.epoch() {
        if left == 0 {
            break;
        }
        let (x, _) = batch?;
        let n = x.shape()?.first().copied().unwrap_or(1).min(left);
        batches.push(x.narrow(0, 0, n).to(device).ok()?);
        left -= n;
    }
    Ok(batches)
}
/// What became of each layer, as JSON.
pub fn document(report: &QuantizationReport) -> Value {
    let layers: Vec<Value> = report.layers.iter().map(layer).collect();
    let mut told = json!({ "layers": layers, "bytes_before": report.before, "bytes": report.after, "ratio": folder::number(report.ratio()) });
    if let Some(fused) = &report.fused {
        told["norms"] = fused.norms.iter().map(norm).collect();
    }
    told
}
fn norm(of: &NormReport) -> Value {
    match &of.outcome {
        NormOutcome::Folded { layer } => json!({ "path": of.path, "layer": of.norm, "folded_into": layer }),
        NormOutcome::Left(why) => json!({ "path": of.path, "layer": of.norm, "left": why }),
    }
}
fn layer(of: &LayerReport) -> Value {
    let mut told = json!({ "path": of.path, "layer": of.layer });
    match &of.outcome {
        Outcome::Quantized { packing, scales, method, input, signal_to_noise, before, after } => {
            let input = match input {
                InputCodes::Given { scale, zero_point } => json!({ "scale": folder::number(f64::from(*scale)), "zero_point": zero_point }),
                other => other.activations().name().into(),
            };
            told["bits"] = packing.bits.into();
            told["group"] = packing.group.into();
            told["symmetric"] = packing.symmetric.into();
            told["scales"] = scales.to_string().into();
            told["method"] = method.name.into();
            if let Some(error) = method.relative_error {
                told["error_of_roundings"] = folder::number(error);
            }
            if let Some(note) = &method.note {
                told["note"] = note.as_str().into();
            }
            told["input"] = input;
            told["signal_to_noise_db"] = folder::number(*signal_to_noise);
            told["bytes_before"] = (*before).into();
            told["bytes"] = (*after).into();
        }
        Outcome::Tied(why) => told["tied"] = why.as_str().into(),
        Outcome::Left(why) => told["left"] = why.as_str().into(),
    }
    told
}
