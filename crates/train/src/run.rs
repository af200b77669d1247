//! The run itself: shuffled batches, loss, backward, clipping, step, schedule; then the test part, once.
use crate::{
    Document, Failure,
    dataset::{Dataset, Part},
    model, recipe,
};
use adamant_core::{
    Device, Error, Tensor,
    functional::{self, CrossEntropyOptions},
    no_grad,
};
use adamant_data::create_batches;
use adamant_nn::{Module, Sequential, Walk, manual_seed};
use adamant_optim::{
    ClipPolicy, Optimizer,
    schedule::{Schedule, Scheduler},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Instant,
};

/// Rows that are evaluated at once.
const EVALUATION_BATCH: usize = 256;

/// What a run is going to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// the device's text
    pub device: String,
    /// elements of all parameters
    pub parameters: usize,
    /// rows of the training and of the test part
    pub rows: (usize, usize),
    /// passes over the training part
    pub epochs: usize,
    /// rows in a batch
    pub batch: usize,
    /// steps in an epoch
    pub steps: usize,
    /// where initial values, order and dropout come from
    pub seed: u64,
    /// the optimizer's name
    pub optimizer: &'static str,
    /// what is done to gradients
    pub clip: ClipPolicy,
}
/// An epoch that is over.
#[derive(Clone, Copy, Debug)]
pub struct EpochReport {
    /// which, from 1
    pub epoch: usize,
    /// the mean loss of its batches
    pub loss: f64,
    /// the learning rate at its end
    pub lr: f64,
    /// seconds since training began
    pub seconds: f64,
}
/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// the plan
    pub plan: Plan,
    /// the mean loss of each epoch
    pub losses: Vec<f64>,
    /// right answers among the rows of the test part, from 0 to 1
    pub test_accuracy: f64,
    /// mean cross entropy on the test part
    pub test_loss: f64,
    /// seconds of training, without reading data and testing
    pub seconds: f64,
    /// where the weights are, if they were written
    pub weights: Option<PathBuf>,
}
/// Somebody who watches a run.
pub trait Watch {
    /// Training begins.
    fn begin(&mut self, _plan: &Plan) {}
    /// A step is done.
    fn step(&mut self, _epoch: usize, _step: usize) {}
    /// An epoch is done.
    fn epoch(&mut self, _report: &EpochReport) {}
}
impl Watch for () {}

/// Runs a description on the current device. Paths of data are relative to `folder`.
///
/// # Errors
/// What the description asks for makes no sense, a file cannot be read, or training fails: see [`Failure`].
pub fn train(document: &Document, folder: &Path, watch: &mut dyn Watch) -> Result<Report, Failure> {
    let device = Device::current()?;
    let root = document.root()?;
    let seed = root.size("seed")?.unwrap_or(0) as u64;
    let epochs = root.need("epochs", root.size("epochs")?)?;
    let batch = root.need("batch", root.size("batch")?)?;
    if batch == 0 {
        return Err(root.wrong_key("batch", "at least one row is needed"));
    }
    let clip = match root.section("clip")? {
        None => ClipPolicy::Off,
        Some(s) => {
            let limit = |v: Option<f64>| s.need("max", v);
            let policy = match s.kind(&["off", "norm", "value"])? {
                "norm" => ClipPolicy::Norm(limit(s.number("max")?)?),
                "value" => ClipPolicy::Value(limit(s.number("max")?)?),
                _ => ClipPolicy::Off,
            };
            if matches!(policy, ClipPolicy::Norm(max) | ClipPolicy::Value(max) if max.is_nan() || max <= 0.0) {
                return Err(s.wrong_key("max", "gradients can be clipped only at a positive number"));
            }
            s.finish()?;
            policy
        }
    };
    let label_smoothing = root.number("label_smoothing")?.unwrap_or(0.0);
    let weights = root.text("weights")?.map(PathBuf::from);
    let dataset = Dataset::of(root.need("data", root.section("data")?)?, folder)?;
    if dataset.train.is_empty() || dataset.test.is_empty() {
        return Err(root.wrong_key("data", format!("{} rows to train on and {} to test on: both parts need some", dataset.train.len(), dataset.test.len())));
    }
    manual_seed(seed);
    let model = model::model(root.need("model", root.section("model")?)?)?;
    let steps = dataset.train.len().div_ceil(batch);
    let mut optimizer = recipe::optimizer(root.need("optimizer", root.section("optimizer")?)?, model.parameters())?;
    let schedule = root.section("schedule")?.map(|s| recipe::schedule(s, (epochs * steps) as u64)).transpose()?;
    root.finish()?;

    let plan = Plan {
        device: device.to_string(),
        parameters: model.parameter_count(),
        rows: (dataset.train.len(), dataset.test.len()),
        epochs,
        batch,
        steps,
        seed,
        optimizer: optimizer.name(),
        clip,
    };
    watch.begin(&plan);
    let begun = Instant::now();
    let losses = learn(&model, &mut *optimizer, schedule, &dataset.train, &plan, label_smoothing, device, watch)?;
    let seconds = begun.elapsed().as_secs_f64();
    let (test_accuracy, test_loss) = judge(&model, &dataset.test, device)?;
    if let Some(path) = &weights {
        // One text: the format does not order several, and equal runs give equal files.
        let texts = BTreeMap::from([("run".to_string(), format!("seed {seed}, {epochs} epochs"))]);
        adamant_formats::safetensors::save(path, model.state_dict(), &texts)?;
    }
    Ok(Report { plan, losses, test_accuracy, test_loss, seconds, weights })
}

#[allow(clippy::too_many_arguments)]
fn learn(
    model: &Sequential,
    optimizer: &mut dyn Optimizer,
    schedule: Option<Box<dyn Schedule>>,
    part: &Part,
    plan: &Plan,
    label_smoothing: f64,
    device: Device,
    watch: &mut dyn Watch,
) -> Result<Vec<f64>, Failure> {
    let mut scheduler = schedule.map(|s| Scheduler::new(s, optimizer));
    let parameters = optimizer.parameters();
    let options = CrossEntropyOptions { label_smoothing, ..Default::default() };
    let begun = Instant::now();
    let mut means = Vec::with_capacity(plan.epochs);
    model.train();
    for epoch in 0..plan.epochs {
        // Losses are read when the epoch is over: a read is a wait.
        let mut losses: Vec<Tensor> = Vec::with_capacity(plan.steps);
        for (step, rows) in create_batches(part.len(), plan.batch, plan.seed, epoch as u64).iter().enumerate() {
            let (x, y) = part.batch(rows, device)?;
            let loss = functional::cross_entropy(&model.forward(&x)?, &y, &options).ok()?;
            let mut grads = loss.backward()?;
            plan.clip.apply(&mut grads, &parameters)?;
            optimizer.step(&grads)?;
            if let Some(scheduler) = &mut scheduler {
                scheduler.step(optimizer);
            }
            losses.push(loss.detach());
            watch.step(epoch, step);
        }
        let values = losses.iter().map(Tensor::item::<f64>).collect::<Result<Vec<f64>, Error>>()?;
        let loss = values.iter().sum::<f64>() / values.len().max(1) as f64;
        if !loss.is_finite() {
            let first = values.iter().position(|v| !v.is_finite()).unwrap_or(0);
            return Err(Failure::Run(format!(
                "the loss is {loss} in epoch {}, first in step {}: training has diverged; try a lower learning rate or clip gradients",
                epoch + 1,
                first + 1
            )));
        }
        means.push(loss);
        watch.epoch(&EpochReport { epoch: epoch + 1, loss, lr: optimizer.lrs().first().copied().unwrap_or(0.0), seconds: begun.elapsed().as_secs_f64() });
    }
    Ok(means)
}

/// (accuracy, mean cross entropy) on a part, in evaluation mode.
fn judge(model: &Sequential, part: &Part, device: Device) -> Result<(f64, f64), Error> {
    model.eval();
    no_grad(|| {
        let rows: Vec<usize> = (0..part.len()).collect();
        let (mut right, mut loss) = (0, 0.0);
        for rows in rows.chunks(EVALUATION_BATCH) {
            let (x, y) = part.batch(rows, device)?;
            let logits = model.forward(&x)?;
            right += logits.argmax(-1).eq(&y).sum(..).item::<i64>()?;
            loss += functional::cross_entropy(&logits, &y, &CrossEntropyOptions::default()).item::<f64>()? * rows.len() as f64;
        }
        let n = part.len().max(1) as f64;
        Ok((right as f64 / n, loss / n))
    })
}
