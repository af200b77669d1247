//! What the files of a run folder say, as far as they are there.
//!
//! Reading forgives: a file that is missing, a line that was torn off when the power went, a number that is `null` are
//! each told in [`ReadRun::notes`], and the rest is used. Invariant: nothing but the folder's own files is read.
use super::model::{self, FileWeights};
use crate::analysis::ArchitecturePicture;
use serde::{Deserialize, Deserializer, de::MapAccess};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt, fs, io, path::Path};

/// Everything that is known of a run.
#[derive(Default)]
pub struct ReadRun {
    /// `config.toml`, as it is
    pub config: Option<String>,
    /// `environment.json`
    pub environment: Map<String, Value>,
    pub steps: Vec<ReadStep>,
    pub epochs: Vec<ReadEpoch>,
    pub test: Option<Test>,
    pub looks: Vec<ReadLook>,
    /// `incidents.jsonl`
    pub incidents: Vec<ReadIncident>,
    /// `failure.json`
    pub failure: Option<ReadFailure>,
    /// by step
    pub timing: Vec<Timing>,
    pub checkpoints: Vec<Checkpoint>,
    /// the steps that the run went on from
    pub resumes: Vec<u64>,
    pub evaluation: Option<ReadEvaluation>,
    /// `quantization_report.json`, of the run or of its folder `quantized`
    pub codes: Option<Value>,
    /// `weights.safetensors`
    pub weights: FileWeights,
    /// `architecture.json`
    pub architecture: Option<ArchitecturePicture>,
    /// what is missing or cannot be read
    pub notes: Vec<String>,
}
/// A line of `metrics.jsonl`.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum MetricsLine {
    Step(ReadStep),
    Epoch(ReadEpoch),
    Layers(ReadLook),
    Test(Test),
    /// Lines before this one were lost.
    Gap {
        step: u64,
    },
    #[serde(other)]
    Other,
}
/// A line of `timing.jsonl`.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Timed {
    Step(Timing),
    /// The same figures at the end of an epoch.
    Epoch(Timing),
    Checkpoint(Checkpoint),
    Resume {
        step: u64,
    },
    #[serde(other)]
    Other,
}
#[derive(Deserialize)]
#[serde(expecting = "struct Step")]
pub struct ReadStep {
    pub step: u64,
    pub loss: Option<f64>,
    pub lr: Option<f64>,
    pub grad_norm: Option<f64>,
    pub precision: Option<ReadPrecision>,
}
/// What mixed precision had done so far.
#[derive(Deserialize)]
#[serde(expecting = "struct Precision")]
pub struct ReadPrecision {
    pub mode: Option<String>,
    pub scale: Option<f64>,
    pub scale_least: Option<f64>,
    pub scale_most: Option<f64>,
    pub applied: Option<u64>,
    pub skipped: Option<u64>,
    pub underflow: Option<f64>,
    #[serde(default)]
    pub overflows: BTreeMap<String, u64>,
    #[serde(default)]
    pub fallbacks: Vec<String>,
}
#[derive(Deserialize)]
#[serde(expecting = "struct Epoch")]
pub struct ReadEpoch {
    pub step: u64,
    pub epoch: u64,
    pub loss: Option<f64>,
    pub lr: Option<f64>,
    #[serde(default)]
    pub grad_norms: Norms,
    pub valid: Option<Valid>,
}
/// What batch, layers and parameters were like in a step. A number that is not there was none, or is not finite.
#[derive(Deserialize)]
#[serde(expecting = "struct Look")]
pub struct ReadLook {
    pub step: u64,
    pub loss: Option<f64>,
    pub lr: Option<f64>,
    /// of each of the step's batches
    #[serde(default)]
    pub rows: Vec<usize>,
    #[serde(default)]
    pub batch: Vec<LookedBatch>,
    #[serde(default)]
    pub layers: Vec<LookedLayer>,
    #[serde(default)]
    pub parameters: Vec<LookedParameter>,
}
#[derive(Deserialize)]
pub struct LookedBatch {
    pub tensor: usize,
    pub largest: Option<f64>,
    pub mean: Option<f64>,
}
#[derive(Deserialize)]
pub struct LookedLayer {
    pub layer: String,
    pub op: String,
    pub largest: Option<f64>,
    pub mean: Option<f64>,
    pub zeros: Option<f64>,
    pub dead: Option<f64>,
    pub saturated: Option<f64>,
}
#[derive(Deserialize)]
pub struct LookedParameter {
    pub parameter: String,
    #[serde(default)]
    pub shape: Vec<usize>,
    pub gradient: Option<f64>,
    pub weight: Option<f64>,
    pub update: Option<f64>,
    pub range: Option<f64>,
}
/// Why a run failed, in the step that it names.
#[derive(Deserialize)]
#[serde(expecting = "struct Failure")]
pub struct ReadFailure {
    pub step: u64,
    pub error: ReadError,
}
#[derive(Deserialize)]
#[serde(expecting = "struct Error")]
pub struct ReadError {
    pub message: String,
}
/// A line of `incidents.jsonl`.
#[derive(Deserialize)]
#[serde(expecting = "struct Incident")]
pub struct ReadIncident {
    pub step: u64,
    pub origin: Option<ReadOrigin>,
    #[serde(default)]
    pub records: Vec<ReadRecord>,
}
#[derive(Deserialize)]
#[serde(expecting = "struct Origin")]
pub struct ReadOrigin {
    pub kind: String,
    pub phase: String,
    pub op: Option<ReadOp>,
    pub place: Option<String>,
    #[serde(default)]
    pub inputs: Vec<ReadNumbers>,
    /// the ops that handed it on, to what it was noticed in
    #[serde(default)]
    pub chain: Vec<ReadOp>,
}
#[derive(Deserialize)]
#[serde(expecting = "struct Op")]
pub struct ReadOp {
    pub op: String,
    pub called: Option<String>,
    #[serde(default)]
    pub layer: String,
    pub file: Option<String>,
    pub line: Option<u64>,
}
#[derive(Deserialize)]
#[serde(expecting = "struct Numbers")]
pub struct ReadNumbers {
    pub non_finite: usize,
    pub least: Option<f64>,
    pub most: Option<f64>,
}
#[derive(Deserialize)]
#[serde(expecting = "struct Record")]
pub struct ReadRecord {
    pub file: String,
    pub index: u64,
    pub finite: bool,
}
#[derive(Deserialize)]
pub struct Valid {
    pub loss: Option<f64>,
    pub accuracy: Option<f64>,
    pub mae: Option<f64>,
    pub r2: Option<f64>,
}
#[derive(Deserialize)]
pub struct Test {
    pub loss: Option<f64>,
    pub accuracy: Option<f64>,
    pub mae: Option<f64>,
    pub rmse: Option<f64>,
    pub r2: Option<f64>,
    pub rows: Option<u64>,
}
#[derive(Deserialize)]
pub struct Timing {
    pub step: u64,
    pub seconds: Option<f64>,
    pub rows_per_second: Option<f64>,
    pub rss_bytes: Option<f64>,
}
#[derive(Deserialize)]
pub struct Checkpoint {
    pub step: u64,
    pub stall_seconds: Option<f64>,
    pub write_seconds: Option<f64>,
}
#[derive(Deserialize)]
#[serde(expecting = "struct Evaluation")]
pub struct ReadEvaluation {
    pub loss: Option<f64>,
    pub accuracy: Option<f64>,
    pub rows: Option<u64>,
    pub classes: Option<Vec<String>>,
    /// rows = truth, columns = answer
    pub confusion: Option<Vec<Vec<u64>>>,
    pub by_class: Option<Vec<ReadByClass>>,
    /// of `macro`: means over the classes
    #[serde(rename = "macro")]
    pub mean: Option<ReadByClass>,
    pub top_k: Option<TopK>,
    /// of numbers: each that is predicted
    pub targets: Option<Vec<ReadTarget>>,
    #[serde(default)]
    pub worst: Vec<ReadWorst>,
}
#[derive(Deserialize)]
#[serde(expecting = "struct Worst")]
pub struct ReadWorst {
    pub index: Option<u64>,
    pub loss: Option<f64>,
    pub target: Option<String>,
    pub answer: Option<String>,
    pub probability: Option<f64>,
    pub numbers: Option<Vec<Guess>>,
    pub inputs: Option<Vec<Input>>,
    pub image: Option<Image>,
    pub text: Option<String>,
}
#[derive(Deserialize)]
#[serde(expecting = "struct ByClass")]
pub struct ReadByClass {
    pub class: Option<String>,
    pub precision: Option<f64>,
    pub recall: Option<f64>,
    pub f1: Option<f64>,
    pub support: Option<u64>,
}
#[derive(Deserialize)]
pub struct TopK {
    pub k: Option<u64>,
    pub accuracy: Option<f64>,
}
#[derive(Deserialize)]
#[serde(expecting = "struct Target")]
pub struct ReadTarget {
    pub name: Option<String>,
    pub mae: Option<f64>,
    pub rmse: Option<f64>,
    pub r2: Option<f64>,
    /// (truth, prediction)
    #[serde(default)]
    pub pairs: Vec<(Option<f64>, Option<f64>)>,
}
/// A number that was predicted for a record.
#[derive(Deserialize)]
pub struct Guess {
    pub target: Option<String>,
    pub truth: Option<f64>,
    pub prediction: Option<f64>,
    pub error: Option<f64>,
}
#[derive(Deserialize)]
pub struct Input {
    pub name: Option<String>,
    pub value: Option<f64>,
}
#[derive(Deserialize)]
pub struct Image {
    pub width: usize,
    pub height: usize,
    pub channels: usize,
    /// row-major, the channels of a pixel together
    pub pixels: Vec<u8>,
}
/// Norms by parameter, by layer: `2.weight` before `10.weight`.
#[derive(Default)]
pub struct Norms(pub Vec<(String, Option<f64>)>);
impl<'de> Deserialize<'de> for Norms {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Norms, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Norms;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("norms by parameter")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Norms, A::Error> {
                let mut norms = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    norms.push(entry);
                }
                norms.sort_by_cached_key(|(name, _): &(String, Option<f64>)| by_layer(name));
                Ok(Norms(norms))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// The parts of a parameter's name, numbers by their value: `2.weight` before `10.weight`.
pub fn by_layer(name: &str) -> Vec<(u64, String)> {
    name.split('.').map(|part| (part.parse::<u64>().unwrap_or(u64::MAX), part.to_string())).collect()
}

/// Reads a run folder.
pub fn read(folder: &Path) -> ReadRun {
    let mut run = ReadRun::default();
    run.config = text(folder, "config.toml", &mut run.notes);
    if let Some(environment) = whole(folder, "environment.json", &mut run.notes) {
        run.environment = environment;
    }
    for line in lines::<MetricsLine>(folder, "metrics.jsonl", &mut run.notes) {
        match line {
            // A resumed run does the steps after its checkpoint again: later lines replace earlier ones.
            MetricsLine::Step(step) => replace(&mut run.steps, step, |s| s.step),
            MetricsLine::Epoch(epoch) => replace(&mut run.epochs, epoch, |e| e.step),
            MetricsLine::Layers(look) => replace(&mut run.looks, look, |l| l.step),
            MetricsLine::Test(test) => run.test = Some(test),
            MetricsLine::Gap { step } => run.notes.push(format!("lines of metrics.jsonl up to step {step} were lost before the run went on from there")),
            MetricsLine::Other => {}
        }
    }
    for line in lines::<Timed>(folder, "timing.jsonl", &mut run.notes) {
        match line {
            // The step that ends an epoch says more than the epoch.
            Timed::Epoch(timing) if run.timing.last().is_some_and(|last| last.step == timing.step) => {}
            Timed::Step(timing) | Timed::Epoch(timing) => replace(&mut run.timing, timing, |t| t.step),
            Timed::Checkpoint(checkpoint) => run.checkpoints.push(checkpoint),
            Timed::Resume { step } => run.resumes.push(step),
            Timed::Other => {}
        }
    }
    if folder.join("incidents.jsonl").is_file() {
        run.incidents = lines(folder, "incidents.jsonl", &mut run.notes);
    }
    if folder.join("failure.json").is_file() {
        run.failure = whole(folder, "failure.json", &mut run.notes);
    }
    run.evaluation = whole(folder, "evaluation.json", &mut run.notes);
    // Runs of older versions have none.
    if folder.join("architecture.json").is_file() {
        run.architecture = whole::<ArchitecturePicture>(folder, "architecture.json", &mut run.notes).filter(ArchitecturePicture::is_sound);
    }
    let codes = [folder.to_path_buf(), folder.join("quantized")].into_iter().find(|place| place.join(crate::quantized::REPORT).is_file());
    run.codes = codes.and_then(|place| whole(&place, crate::quantized::REPORT, &mut run.notes));
    // They come at the end of a run: until then nothing is missing.
    let weights = folder.join("weights.safetensors");
    if weights.is_file() {
        run.weights = model::read(&weights).unwrap_or_else(|why| {
            run.notes.push(format!("weights.safetensors cannot be read: {why}"));
            FileWeights::default()
        });
    }
    run
}
fn replace<T>(list: &mut Vec<T>, new: T, step: impl Fn(&T) -> u64) {
    while list.last().is_some_and(|last| step(last) >= step(&new)) {
        list.pop();
    }
    list.push(new);
}
fn text(folder: &Path, name: &str, notes: &mut Vec<String>) -> Option<String> {
    match fs::read(folder.join(name)) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            notes.push(format!("{name} is not there"));
            None
        }
        Err(e) => {
            notes.push(format!("{name} cannot be read: {e}"));
            None
        }
    }
}
fn whole<T: for<'de> Deserialize<'de>>(folder: &Path, name: &str, notes: &mut Vec<String>) -> Option<T> {
    let text = text(folder, name, notes)?;
    serde_json::from_str(&text).map_err(|e| notes.push(format!("{name} cannot be read: {e}"))).ok()
}
/// The lines of a file that can be read.
fn lines<T: for<'de> Deserialize<'de>>(folder: &Path, name: &str, notes: &mut Vec<String>) -> Vec<T> {
    let Some(text) = text(folder, name, notes) else { return Vec::new() };
    let (mut read, mut wrong) = (Vec::new(), Vec::new());
    for (k, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str(line) {
            Ok(value) => read.push(value),
            Err(_) => {
                wrong.push(k + 1);
                // A run that went on writes behind the torn line of the one before it: what follows there is whole.
                read.extend(line.match_indices('{').skip(1).find_map(|(at, _)| serde_json::from_str(&line[at..]).ok()));
            }
        }
    }
    let torn = !text.ends_with('\n') && wrong.last() == Some(&text.lines().count());
    if torn {
        wrong.pop();
        notes.push(format!("the last line of {name} is torn off: the run was interrupted while it was written"));
    }
    if let Some(first) = wrong.first() {
        notes.push(format!("{} lines of {name} cannot be read, the first is line {first}", wrong.len()));
    }
    read
}
