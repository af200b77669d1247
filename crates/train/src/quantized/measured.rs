//! What integer codes cost and save on this machine: of each layer how far its outputs are from those of the layer of floats, its
//! bytes, its time; of the model its file, its figures on the test part, how long an answer takes.
//!
//! Where norms were folded, the floats have theirs folded too. A layer of codes is given what the layer of floats was given, so what one layer loses is not charged to those behind it. Layers are
//! timed one by one, each to its end; a model that runs undisturbed is timed apart from that.
mod noise;
mod timed;
mod told;

use super::batches_of;
use crate::{Evaluation, Failure, Trained, evaluate, folder};
use adamant_core::{Device, Tensor, no_grad};
use adamant_formats::safetensors::SafeTensors;
use adamant_nn::{InputCodes, Submodule, Walk};
use noise::LayerNoise;
use serde_json::Value;
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    time::Instant,
};

/// The file of a report, beside the codes.
pub const REPORT: &str = "quantization_report.json";

/// What is measured, and how often.
#[derive(Clone, Debug)]
pub struct ReportPlan {
    /// the run of floats; none: the one that the codes were made of
    pub floats: Option<PathBuf>,
    /// rows of the training part that layers are compared on
    pub rows: usize,
    /// rows at once where layers are timed
    pub batch: usize,
    /// how often each time is taken; the mean of the faster half is told
    pub times: usize,
}
impl Default for ReportPlan {
    fn default() -> ReportPlan {
        ReportPlan { floats: None, rows: 256, batch: 64, times: 30 }
    }
}
/// Of codes, and of the floats that they were made of.
#[derive(Clone, Copy, Debug, Default)]
pub struct BothWays<T> {
    /// with codes
    pub codes: T,
    /// without
    pub floats: T,
}
impl<T> BothWays<T> {
    fn map<R>(&self, of: impl Fn(&T) -> R) -> BothWays<R> {
        BothWays { codes: of(&self.codes), floats: of(&self.floats) }
    }
}
/// One layer.
#[derive(Clone, Debug)]
pub struct MeasuredLayer {
    /// its path
    pub path: String,
    /// the name of its kind
    pub kind: &'static str,
    /// how its weights are held, or why they are floats
    pub what: String,
    /// are weights of its codes?
    pub has_codes: bool,
    /// of its outputs for the same inputs, in decibels; none: it has no codes, or hooks do not see it
    pub signal_to_noise: Option<f64>,
    /// of the row of its weights that lost most; none: it has no codes
    pub worst_row: Option<f64>,
    /// in the file
    pub bytes: BothWays<u64>,
    /// seconds of a run, without layers in it; none: hooks do not see it
    pub seconds: Option<BothWays<f64>>,
}
impl MeasuredLayer {
    /// What it is sorted by: the ratio of its outputs, or where a row is far worse than those (one wrong scale among many), the row's.
    fn loss(&self) -> f64 {
        let known = [self.signal_to_noise, self.worst_row.map(|row| row + OF_A_ROW)];
        known.into_iter().flatten().fold(f64::INFINITY, |least, v| if v.is_nan() { f64::NEG_INFINITY } else { least.min(v) })
    }
}
/// Decibels that the worst of many rows is below its layer without anything being wrong.
const OF_A_ROW: f64 = 6.0;
/// A model of codes beside the one of floats.
#[derive(Clone, Debug)]
pub struct CodesReport {
    /// the folder of the codes
    pub folder: PathBuf,
    /// every layer, the one that lost most first
    pub layers: Vec<MeasuredLayer>,
    /// bytes of the files of weights
    pub bytes: BothWays<u64>,
    /// rows that layers were timed on
    pub batch: usize,
    /// seconds of a run in which each layer is waited for
    pub seconds: BothWays<f64>,
    /// seconds of it that are spent in no layer
    pub rest: BothWays<f64>,
    /// seconds of an undisturbed run of one row, and of a batch
    pub latency: BothWays<[f64; 2]>,
    /// on the test part
    pub test: BothWays<Evaluation>,
}
impl CodesReport {
    /// Bytes of the files that are no layer's: names, shapes and schemes.
    pub fn bytes_of_rest(&self) -> BothWays<u64> {
        let of = |all: u64, each: fn(&BothWays<u64>) -> u64| all.saturating_sub(self.layers.iter().map(|l| each(&l.bytes)).sum());
        BothWays { codes: of(self.bytes.codes, |b| b.codes), floats: of(self.bytes.floats, |b| b.floats) }
    }
}

/// Where the codes lie, and the floats that they were made of.
fn folders(given: &Path, plan: &ReportPlan) -> Result<BothWays<PathBuf>, Failure> {
    let is_codes = |folder: &Path| {
        let file = folder.join("weights.safetensors");
        Ok::<bool, Failure>(file.is_file() && adamant_quant::is_quantized(&file)?)
    };
    let within = given.join("quantized");
    let codes = if is_codes(given)? {
        given.to_path_buf()
    } else if is_codes(&within)? {
        within
    } else {
        let text = format!("{}: its weights are floats, and it has no folder `quantized`", given.display());
        return Err(Failure::Usage(format!("{text}: make codes of them with `adamant quantize {} --scheme .. --out DIR`", given.display())));
    };
    let told = || Some(PathBuf::from(document(&codes)?["run"].as_str()?));
    let above = || codes.parent().filter(|_| codes.ends_with("quantized")).map(Path::to_path_buf);
    let floats = plan.floats.clone().or_else(told).filter(|run| run.is_dir()).or_else(above);
    match floats {
        Some(floats) if floats.is_dir() && !is_codes(&floats)? => Ok(BothWays { codes, floats }),
        Some(floats) => Err(Failure::Usage(format!("{}: it is no run of floats (--floats names the one that the codes were made of)", floats.display()))),
        None => Err(Failure::Usage(format!("{}: the run that the codes were made of is not known: --floats names it", codes.display()))),
    }
}
/// What became of each layer when the codes were made.
fn document(codes: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(codes.join("quantization.json")).ok()?).ok()
}
/// Measures the codes of a folder, or of the folder `quantized` of a run, and writes [`REPORT`] beside them. Data are read from `data`.
///
/// # Errors
/// `Usage`: no codes, or no run of floats, or one of another model. `Input`: a run or its data cannot be read. `Storage`.
pub fn report(given: &Path, data: &Path, plan: &ReportPlan) -> Result<CodesReport, Failure> {
    let places = folders(given, plan)?;
    let models = BothWays { codes: Trained::open(&places.codes)?, floats: Trained::open(&places.floats)? };
    // Layers are compared with what they were made of, and that did their norms' parts already.
    let folded = adamant_quant::folded_pairs(&models.codes.model);
    adamant_quant::fuse_modules(&models.floats.model, &folded).map_err(|e| Failure::Usage(e.kind().to_string()))?;
    let layers = layers(&models)?;
    let device = Device::current()?;
    let batches = batches_of(&models.floats, data, plan.rows.max(plan.batch).max(1), device)?;
    let Some(first) = batches.first() else { return Err(Failure::Input(format!("{}: the training part is empty", data.display()))) };
    let noise = no_grad(|| noise::of_layers(&models, &layers, &batches))?;
    let x = first.narrow(0, 0, plan.batch.clamp(1, first.shape()?.first().copied().unwrap_or(1))).ok()?;
    let seconds = no_grad(|| timed::by_layer(&models, &layers, &x, plan.times.max(3)))?;
    let latency = no_grad(|| latency(&models, &x, plan.times.max(3)))?;
    let bytes = BothWays { codes: FileBytes::of(&models.codes.weights, &layers)?, floats: FileBytes::of(&models.floats.weights, &layers)? };
    let whys = Reasons::of(&places.codes);
    let mut told: Vec<MeasuredLayer> = layers
        .iter()
        .enumerate()
        .map(|(k, layer)| {
            let LayerNoise { outputs, worst_row } = noise[k];
            MeasuredLayer {
                path: layer.path().into(),
                kind: layer.kind,
                what: whys.what(layer),
                has_codes: codes(layer).next().is_some(),
                signal_to_noise: outputs,
                worst_row,
                bytes: bytes.map(|b| b.layers[k]),
                seconds: seconds.layers[k],
            }
        })
        .collect();
    told.sort_by(|a, b| a.loss().total_cmp(&b.loss()).then_with(|| b.has_codes.cmp(&a.has_codes)));
    let report = CodesReport {
        layers: told,
        bytes: bytes.map(|b| b.file),
        batch: x.shape()?.first().copied().unwrap_or(1),
        seconds: seconds.whole,
        rest: seconds.rest,
        latency,
        test: BothWays { codes: judged(&models.codes, data, device)?, floats: judged(&models.floats, data, device)? },
        folder: places.codes,
    };
    folder::write(&report.folder.join(REPORT), format!("{:#}\n", report.to_json()).as_bytes())?;
    Ok(report)
}
fn judged(trained: &Trained, data: &Path, device: Device) -> Result<Evaluation, Failure> {
    let (objective, parts) = trained.data(data)?;
    let options = evaluate::EvaluateOptions { region: trained.region.clone(), ..parts.evaluation() };
    evaluate::evaluate(&trained.model, &objective, &parts.test, device, &options)
}
/// Layers of the model of codes that hold something or that nothing else lies in, those of floats at the same paths.
fn layers(models: &BothWays<Trained>) -> Result<Vec<Submodule>, Failure> {
    let all = models.codes.model.modules();
    let paths = |model: &adamant_nn::Sequential| model.modules().iter().map(|m| (m.path().to_string(), m.kind)).collect::<HashSet<_>>();
    if paths(&models.codes.model) != paths(&models.floats.model) {
        return Err(Failure::Usage("the codes are of another model than the run of floats".into()));
    }
    let holds: HashSet<String> = all.iter().flat_map(|m| above(m.path()).map(str::to_string).collect::<Vec<_>>()).collect();
    Ok(all.into_iter().filter(|m| !m.path().is_empty() && (!m.parameters.is_empty() || !holds.contains(m.path()))).collect())
}
/// The paths that a path lies in.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('.').map(|(at, _)| &path[..at])
}
/// The weights of a layer that are codes.
fn codes(layer: &Submodule) -> impl Iterator<Item = (&str, &adamant_nn::Param)> {
    layer.parameters.iter().filter(|(_, p)| p.packed().is_some()).map(|(name, p)| (name.as_str(), p))
}

/// What quantization said of layers.
struct Reasons(HashMap<String, String>);
impl Reasons {
    fn of(codes: &Path) -> Reasons {
        let document = document(codes).unwrap_or_default();
        let of = |layer: &Value| {
            let why = layer["left"].as_str().or(layer["tied"].as_str())?;
            Some((layer["path"].as_str()?.to_string(), why.to_string()))
        };
        Reasons(document["layers"].as_array().into_iter().flatten().filter_map(of).collect())
    }
    fn what(&self, layer: &Submodule) -> String {
        let of = |(_, param): (&str, &adamant_nn::Param)| {
            let packed = param.packed()?;
            let (weight, input) = (packed.weight().ok()?, packed.input().ok()?);
            let packing = weight.packing();
            let group = packing.group.map_or(String::new(), |g| format!(" in groups of {g}"));
            let affine = if packing.symmetric { "" } else { ", affine" };
            let input = match input {
                InputCodes::Float => "floats",
                InputCodes::PerToken { .. } => "codes by token",
                InputCodes::Given { .. } => "codes by one scale",
            };
            Some(format!("{} bits{group}{affine}, inputs {input}", packing.bits))
        };
        let tied = self.0.get(layer.path());
        match (codes(layer).find_map(of), tied) {
            (Some(_), Some(why)) if why.contains("weight is that of") => why.clone(),
            (Some(held), _) => held,
            (None, Some(why)) => why.clone(),
            (None, None) if layer.parameters.is_empty() => match layer.site().ok().and_then(|site| site.folded_into()) {
                Some(into) => format!("it is part of `{}`", into.path()),
                None => "it has no weights".into(),
            },
            (None, None) => "its parameters are no matrices, and stay floats".into(),
        }
    }
}

/// Bytes of a file of weights by layer.
struct FileBytes {
    layers: Vec<u64>,
    file: u64,
}
impl FileBytes {
    fn of(file: &Path, layers: &[Submodule]) -> Result<FileBytes, Failure> {
        let (read, places) = (SafeTensors::open(file)?, layers.iter().enumerate().map(|(k, l)| (l.path(), k)).collect::<HashMap<_, _>>());
        let mut all = FileBytes { layers: vec![0; layers.len()], file: 0 };
        all.file = std::fs::metadata(file).map_err(|e| Failure::Input(format!("{}: {e}", file.display())))?.len();
        for name in read.names() {
            let (dtype, shape) = read.meta(&name)?;
            // The innermost layer that the name lies in.
            let owner = above(&name).filter_map(|path| places.get(path)).last();
            if let Some(k) = owner {
                all.layers[*k] += (shape.elements() * dtype.size()) as u64;
            }
        }
        Ok(all)
    }
}
/// The numbers of the faster half of runs: the machine does other things too, which only adds.
fn faster_half(runs: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by(|a, b| runs[*a].total_cmp(&runs[*b]));
    order.truncate(runs.len().div_ceil(2));
    order
}
/// The mean of some of them.
fn mean(of: &[f64], chosen: &[usize]) -> f64 {
    chosen.iter().filter_map(|k| of.get(*k)).sum::<f64>() / chosen.len().max(1) as f64
}
fn run(trained: &Trained, x: &Tensor) -> Result<f64, Failure> {
    let begun = Instant::now();
    evaluate::answer(&trained.model, x, trained.region.as_ref())?.materialize()?;
    Ok(begun.elapsed().as_secs_f64())
}
/// Seconds of an undisturbed run of one row and of all, the two models in turn.
fn latency(models: &BothWays<Trained>, x: &Tensor, times: usize) -> Result<BothWays<[f64; 2]>, Failure> {
    let one = x.narrow(0, 0, 1).ok()?;
    let mut taken: [BothWays<Vec<f64>>; 2] = Default::default();
    for k in 0..times + WARM_UP {
        for (x, taken) in [&one, x].into_iter().zip(&mut taken) {
            let (codes, floats) = (run(&models.codes, x)?, run(&models.floats, x)?);
            if k >= WARM_UP {
                taken.codes.push(codes);
                taken.floats.push(floats);
            }
        }
    }
    let of = |runs: &[f64]| mean(runs, &faster_half(runs));
    let [one, all] = taken;
    Ok(BothWays { codes: [of(&one.codes), of(&all.codes)], floats: [of(&one.floats), of(&all.floats)] })
}
/// Runs that are not counted: memory is had and plans are made.
const WARM_UP: usize = 5;
