//! A dry run: one batch of everything, to learn what the run will cost. Nothing is written.
use crate::{
    Document, Failure,
    analysis::ArchitecturePicture,
    evaluate::{self, EvaluateOptions},
    model, recipe,
    run::session,
    session::{Habits, Look},
    setup::{self, Prepared, RunModel, Setup},
    summary::Summary,
    trainer::group,
};
use adamant_amp::{Autocast, Precision};
use adamant_core::{DType, Device, Tensor};
use adamant_data::{Dataset, Examples, Pick, Subset};
use adamant_nn::{Sequential, Walk};
use serde_json::{Value, json};
use std::{fmt, path::Path, sync::Arc, time::Instant};

/// What a run will cost.
#[derive(Clone, Debug)]
pub struct DryRun {
    /// elements of all parameters
    pub parameters: usize,
    /// bytes of parameters and buffers
    pub model_bytes: usize,
    /// bytes of the optimizer's slots
    pub optimizer_bytes: usize,
    /// the most bytes of tensors at once in a step
    pub step_bytes: usize,
    /// the most bytes of tensors at once in an evaluation batch
    pub evaluation_bytes: usize,
    /// bytes of one checkpoint
    pub checkpoint_bytes: usize,
    /// steps of the run
    pub steps: u64,
    /// seconds of a step
    pub step_seconds: f64,
    /// the loss of the first step
    pub loss: f64,
    /// what steps compute in
    pub precision: Precision,
}
/// Steps whose plans are new and those that are timed.
const STEPS: (usize, usize) = (2, 3);

/// Makes a few steps and one evaluation batch.
///
/// # Errors
/// Everything that would stop the run itself at its start.
pub fn dry_run(document: &Document, folder: &Path) -> Result<DryRun, Failure> {
    let device = Device::current()?;
    let setup = Setup::of(document, folder)?;
    let (steps, batch) = (setup.steps(), setup.batch);
    let Setup { seed, model, objective, optimizer, course, clip, stability, accumulate, capture, ema, precision, parts, taught, .. } = setup;
    let (parameters, model_bytes) = (model.parameter_count(), model.memory_usage());
    let habits = Habits { optimizer, course, clip, stability, accumulate, ema, capture, precision: precision.clone() };
    let mut session = session(model, objective.clone(), taught, habits, device)?;
    let mut loader = parts.loader(seed, batch, None)?;
    let mut seconds = f64::INFINITY;
    let mut loss = f64::NAN;
    device.pool().reset_peak();
    for k in 0..STEPS.0 + STEPS.1 {
        let begun = Instant::now();
        let mut batches = group(&mut loader, accumulate)?;
        if batches.is_empty() {
            // The epoch is over; a step without any batch is refused.
            batches = group(&mut loader, accumulate)?;
        }
        session.step(&batches, Look::default())?;
        let now = session.loss()?;
        if k == 0 {
            loss = now;
        }
        if k >= STEPS.0 {
            seconds = seconds.min(begun.elapsed().as_secs_f64());
        }
    }
    let step_bytes = device.memory().peak_bytes;
    let snapshot = session.snapshot(Value::Null)?;
    let bytes = |part: &str| snapshot.tensors.get(part).into_iter().flatten().filter_map(|(_, t)| t.try_meta().ok()).map(|m| m.bytes()).sum::<usize>();
    let options = EvaluateOptions { region: session.region(), ..parts.evaluation() };
    let first = Pick::Range(0..options.batch.min(parts.test.len()));
    device.pool().reset_peak();
    evaluate::evaluate(&session.model, &objective, &(Arc::new(Subset::new(parts.test.clone(), first)?) as Examples), device, &options)?;
    Ok(DryRun {
        parameters,
        model_bytes,
        optimizer_bytes: bytes("optimizer"),
        step_bytes,
        evaluation_bytes: device.memory().peak_bytes,
        checkpoint_bytes: bytes("model") + bytes("optimizer"),
        steps,
        step_seconds: seconds,
        loss,
        precision,
    })
}
/// A model that was built to be looked at, and what it takes.
pub struct Sample {
    /// the model with its initial values
    pub model: Sequential,
    /// shape and dtype of one input, without the batch
    pub input: (Vec<usize>, DType),
    /// rows in a batch, as the description says; 1 where it does not
    pub batch: usize,
    /// what the description computes in
    pub precision: Precision,
    /// the region of mixed precision that the model runs in; none in f32
    pub region: Option<Autocast>,
}
impl Sample {
    fn new(model: Sequential, input: (Vec<usize>, DType), batch: usize, precision: Precision) -> Result<Sample, Failure> {
        let region = precision.region()?;
        Ok(Sample { model, input, batch, precision, region })
    }
    /// The outputs for a batch of inputs in the description's precision, f32 where the model gives 16 bits: the work of an answer.
    ///
    /// # Errors
    /// Those of the model.
    pub fn answer(&self, x: &Tensor) -> Result<Tensor, Failure> {
        evaluate::answer(&self.model, x, self.region.as_ref())
    }
}
/// Builds a description's model. `input` is the shape and dtype of one input; without it the data are asked.
///
/// # Errors
/// A description that makes no sense; data that cannot be read or do not tell.
pub fn sample(document: &Document, folder: &Path, input: Option<(Vec<usize>, DType)>) -> Result<Sample, Failure> {
    if let Some(input) = input {
        let (document, _) = for_input(document, folder, &input)?;
        let root = document.root()?;
        let model = model::model(root.need("model", root.section("model")?)?)?;
        return Sample::new(model, input, root.size("batch")?.unwrap_or(1), recipe::precision(&root)?);
    }
    let setup = Setup::of(document, folder)?;
    let facts = setup.parts.train.describe().inputs.ok_or_else(no_shape)?;
    let RunModel::Whole(model) = setup.model else { return Err(Failure::Run("a sample of a stage of a model".into())) };
    Sample::new(model, (facts.shape.to_vec(), facts.dtype), setup.batch, setup.precision)
}
fn no_shape() -> Failure {
    Failure::Usage("the data do not tell the shape of an input; give it by --input".into())
}
/// The description for inputs of a shape: `$features` is their number of elements; `$vocabulary` and `$classes` are what the
/// data section says, or else numbers that are assumed, which are told.
fn for_input(document: &Document, folder: &Path, (shape, _): &(Vec<usize>, DType)) -> Result<(Document, Vec<(&'static str, usize)>), Failure> {
    let unread = setup::keys(document, folder).unread;
    let mut words = setup::words(unread.as_ref());
    // Where nothing is said of the data, nothing is known of them.
    for (word, usual) in setup::words(None) {
        if words.iter().all(|(known, _)| *known != word) {
            words.push((word, usual));
        }
    }
    let features = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).ok_or_else(|| Failure::Usage("so many inputs do not fit into memory".into()))?;
    words.iter_mut().filter(|(word, _)| *word == "features").for_each(|(_, n)| *n = features);
    let assumed = words.iter().copied().filter(|(word, _)| *word != "features" && document.names(word)).collect();
    Ok((document.resolve(&words), assumed))
}
/// The layers of a description's model with what they cost, and what had to be assumed for it.
#[derive(Clone, Debug)]
pub struct Summarised {
    /// the layers and their totals
    pub summary: Summary,
    /// the layers as boxes and arrows
    pub picture: ArchitecturePicture,
    /// words of the description whose numbers follow from data that were not read, with the numbers that were taken
    pub assumed: Vec<(&'static str, usize)>,
}
/// The layers of a description's model with what they cost for a batch, without running it. `input` is as for [`sample`];
/// where it is given, no data are read.
///
/// # Errors
/// A description that makes no sense; `Run`: layers that do not take the input that was given.
pub fn summarise(document: &Document, folder: &Path, input: Option<(Vec<usize>, DType)>, batch: Option<usize>) -> Result<Summarised, Failure> {
    let Some(input) = input else {
        let (_, shapes) = Prepared::for_batch(document, folder, batch)?.looked_at.ok_or_else(no_shape)?;
        return Ok(Summarised { summary: shapes.summary, picture: shapes.picture, assumed: Vec::new() });
    };
    // A description of a model alone can be looked at; one of a run is to be right.
    if document.names_section("data")
        && let Some(fault) = setup::keys(document, folder).faults.into_iter().next()
    {
        return Err(fault);
    }
    let (document, assumed) = for_input(document, folder, &input)?;
    let root = document.root()?;
    let batch = batch.unwrap_or(root.size("batch")?.unwrap_or(1));
    let precision = recipe::precision(&root)?;
    let shapes = model::shapes(&root.need("model", root.section("model")?)?, &input.0, input.1, batch, &precision).map_err(|e| match e {
        // The description is right, as far as it goes: it does not take this input.
        Failure::Input(text) => Failure::Run(text),
        other => other,
    })?;
    Ok(Summarised { summary: shapes.summary, picture: shapes.picture, assumed })
}
impl DryRun {
    /// Seconds of all steps, at the pace of those that were timed.
    pub fn seconds(&self) -> f64 {
        self.steps as f64 * self.step_seconds
    }
    /// The figures as JSON; bytes and seconds.
    pub fn to_json(&self) -> Value {
        json!({
            "parameters": self.parameters, "model_bytes": self.model_bytes, "optimizer_bytes": self.optimizer_bytes,
            "step_bytes": self.step_bytes, "evaluation_bytes": self.evaluation_bytes, "checkpoint_bytes": self.checkpoint_bytes,
            "steps": self.steps, "step_seconds": self.step_seconds, "seconds": self.seconds(), "loss": crate::folder::number(self.loss), "precision": self.precision.to_string(),
        })
    }
}
impl fmt::Display for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: usize| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        writeln!(f, "parameters        {:>12}", self.parameters)?;
        writeln!(f, "precision         {:>12}", self.precision.to_string())?;
        writeln!(f, "model             {:>12}", mib(self.model_bytes))?;
        writeln!(f, "optimizer         {:>12}", mib(self.optimizer_bytes))?;
        writeln!(f, "tensors, a step   {:>12}  (at most, with model and optimizer)", mib(self.step_bytes))?;
        writeln!(f, "tensors, a test   {:>12}", mib(self.evaluation_bytes))?;
        writeln!(f, "a checkpoint      {:>12}", mib(self.checkpoint_bytes))?;
        writeln!(f, "a step            {:>9.2} ms", 1e3 * self.step_seconds)?;
        write!(f, "{:<17} {:>10.1} s", format!("{} steps", self.steps), self.seconds())
    }
}
