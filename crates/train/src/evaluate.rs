//! How good a model is on data: loss, accuracy, confusion and the figures of each class, or how far numbers are from the
//! truth, and the worst examples, in one pass, without a graph.
mod classes;
mod numbers;
mod told;

pub use classes::{ByClass, Classes};
pub use numbers::{Deviation, Numbers, Unit, Units};
pub use told::{Show, Told, document};

use crate::{Failure, dataset, folder::number, objective::Objective};
use adamant_amp::Autocast;
use adamant_core::{DType, Device, Tensor, no_grad, time_block};
use adamant_data::{DataLoader, Dataset, Examples, Numbered, Policy, Target};
use adamant_nn::{Module, Walk};
use serde_json::{Map, Value};
use std::{sync::Arc, time::Instant};

/// Beyond this many classes nobody reads a confusion matrix.
const MOST_CLASSES: usize = 64;

/// What came of a data set.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// the mean loss of all targets
    pub loss: f64,
    /// the share of right answers, from 0 to 1; none where numbers are learned
    pub accuracy: Option<f64>,
    /// records
    pub rows: usize,
    /// targets that were answered: as many as records, or more in sequences
    pub targets: usize,
    /// seconds for all of it
    pub seconds: f64,
    /// names of the classes
    pub classes: Option<Vec<String>>,
    /// how often truth (row) was answered by answer (column); none where there are too many classes
    pub confusion: Option<Vec<Vec<u64>>>,
    /// how well each class is found; none where numbers are learned, and for sequences
    pub by_class: Option<Classes>,
    /// how far numbers are from the truth, in the units of the data; none where classes are learned
    pub numbers: Option<Numbers>,
    /// the records that it did worst on: wrong answers first, then by their loss, largest first
    pub worst: Vec<Worst>,
    units: Arc<Units>,
}
/// A record that the model did badly on.
#[derive(Clone, Debug)]
pub struct Worst {
    /// its number in the data
    pub index: usize,
    /// its mean loss
    pub loss: f64,
    /// the truth and the answer, of a record with one target
    pub classes: Option<(usize, usize)>,
    /// (truth, prediction) of each target where numbers are learned, in the units of the data
    pub numbers: Vec<(f64, f64)>,
}
impl Worst {
    fn is_right(&self) -> bool {
        self.classes.is_some_and(|(truth, answer)| truth == answer)
    }
}
impl Evaluation {
    /// Records in a second.
    pub fn rows_per_second(&self) -> f64 {
        self.rows as f64 / self.seconds.max(1e-9)
    }
    /// The figures beside the loss, under the names that all files and documents have for them: `accuracy` where classes are
    /// learned; `mae`, `rmse` and `r2`, in the units of the data, where numbers are. A figure that has no value is none.
    pub fn figures(&self) -> Vec<(&'static str, Option<f64>)> {
        match &self.numbers {
            Some(n) => vec![("mae", Some(n.mae)), ("rmse", Some(n.rmse)), ("r2", n.r2)],
            None => vec![("accuracy", self.accuracy)],
        }
    }
    /// The loss, the figures and the number of records, as JSON has them; `accuracy` is there in any case, null for numbers.
    pub fn to_json(&self) -> Map<String, Value> {
        let head = [("loss", number(self.loss)), ("accuracy", self.accuracy.map_or(Value::Null, number)), ("rows", self.rows.into())];
        let figures = self.figures().into_iter().map(|(name, v)| (name, v.map_or(Value::Null, number)));
        head.into_iter().chain(figures).map(|(name, v)| (name.to_string(), v)).collect()
    }
}

/// What an evaluation does beside counting.
#[derive(Clone, Debug)]
pub struct EvaluateOptions {
    /// rows at once
    pub batch: usize,
    /// threads that read records
    pub workers: usize,
    /// how many of the worst records are remembered
    pub worst: usize,
    /// what is done about records that cannot be read
    pub policy: Policy,
    /// the names of columns, and what brings numbers back to the units of the data; where there are none for the targets, those
    /// that the data tell
    pub units: Arc<Units>,
    /// the region of mixed precision that the model runs in; none: f32
    pub region: Option<Autocast>,
}
impl Default for EvaluateOptions {
    fn default() -> EvaluateOptions {
        EvaluateOptions { batch: 256, workers: 0, worst: 0, policy: Policy::Fail, units: Arc::default(), region: None }
    }
}

/// Evaluates a model in evaluation mode; its mode is as before afterwards. One pass, no graph is kept.
///
/// # Errors
/// A bad record, outputs that do not go with the targets, no memory.
pub fn evaluate(model: &dyn Module, objective: &Objective, data: &Examples, device: Device, options: &EvaluateOptions) -> Result<Evaluation, Failure> {
    evaluating(model, || pass(model, objective, data, device, options))
}
/// Calls `f`, which judges the model: evaluation mode, no graph, and the phase `evaluation` in profiles. The mode is as before
/// afterwards. Whatever judges goes through here, so that no kernel of it is without a phase.
pub(crate) fn evaluating<M: Walk + ?Sized, R>(model: &M, f: impl FnOnce() -> R) -> R {
    let was_training = model.is_training();
    model.set_training(false);
    let seen = time_block!("evaluation", no_grad(f));
    model.set_training(was_training);
    seen
}
/// What a model gives in a region of mixed precision, f32 where that gives 16 bits.
///
/// # Errors
/// Those of the model.
pub(crate) fn answer(model: &dyn Module, x: &Tensor, region: Option<&Autocast>) -> Result<Tensor, Failure> {
    answer_by(region, || model.forward(x))
}
/// As [`answer`], of what is run in the region.
///
/// # Errors
/// Those of what is run.
pub(crate) fn answer_by(region: Option<&Autocast>, forward: impl FnOnce() -> adamant_core::Result<Tensor>) -> Result<Tensor, Failure> {
    let Some(region) = region else { return Ok(forward()?) };
    let outputs = region.run(forward)?;
    let is_low = matches!(outputs.dtype()?, DType::F16 | DType::BF16);
    Ok(if is_low { outputs.cast(DType::F32) } else { outputs })
}
fn pass(model: &dyn Module, objective: &Objective, data: &Examples, device: Device, options: &EvaluateOptions) -> Result<Evaluation, Failure> {
    let begun = Instant::now();
    let targets_are = data.describe().targets;
    let classes = match &targets_are {
        Some(Target::Classes { count, names }) => Some((*count, names.clone())),
        _ => None,
    };
    let units = match data.describe().target_scale {
        Some(scale) if options.units.targets.is_empty() => Arc::new(Units { inputs: options.units.inputs.clone(), targets: Units::scaled(&scale, &[]) }),
        _ => options.units.clone(),
    };
    // Answers of yes and no are judged as such, whatever they are learned from.
    let is_numbers = matches!(targets_are, Some(Target::Values(_))) && !objective.binary();
    let mut numbers = is_numbers.then(|| numbers::NumberCounter::new(units.clone(), data.len()));
    let mut by_class = classes.as_ref().map(|(n, _)| classes::ClassCounter::new(*n));
    let mut confusion = classes.as_ref().filter(|(n, _)| *n <= MOST_CLASSES).map(|(n, _)| vec![vec![0u64; *n]; *n]);
    let numbered = Arc::new(Numbered(data.clone()));
    let mut loader = DataLoader::new(numbered).batch_size(options.batch).workers(options.workers).on_bad_record(options.policy.clone()).build()?;
    let (mut sum, mut right, mut targets, mut rows) = (0.0, 0u64, 0usize, 0usize);
    let mut answered = false;
    let mut worst: Vec<Worst> = Vec::new();
    for batch in loader.epoch() {
        let (indices, (x, y)) = batch?;
        let n = dataset::rows_of(&y)?;
        let (outputs, y) = (answer(model, &x.to(device), options.region.as_ref())?, y.to(device));
        // The loss is that of training; figures are in the units of the data.
        let judged = objective.judge(&outputs, &y)?;
        sum += judged.losses.iter().sum::<f64>();
        targets += judged.losses.len();
        if let Some(answers) = &judged.answers {
            answered = true;
            for (truth, answer) in judged.targets.iter().zip(answers) {
                right += u64::from(truth == answer);
                if let Some(counter) = &mut by_class {
                    counter.add(*truth, *answer);
                }
                if let Some(cell) = confusion.as_mut().and_then(|c| c.get_mut(*truth as usize)).and_then(|row| row.get_mut(*answer as usize)) {
                    *cell += 1;
                }
            }
            if let Some(counter) = by_class.as_mut().filter(|c| c.ranks()) {
                let outputs = outputs.to_vec_as::<f64>()?;
                let width = outputs.len() / judged.targets.len().max(1);
                judged.targets.iter().zip(outputs.chunks(width.max(1))).for_each(|(truth, outputs)| counter.rank(*truth, outputs));
            }
        }
        let mut pairs = match &mut numbers {
            Some(counter) => pairs(counter, &if objective.predicts_logarithms() { outputs.exp() } else { outputs }, &y, n)?,
            None => Vec::new(),
        }
        .into_iter();
        if options.worst > 0 && n > 0 {
            let each = judged.losses.len() / n;
            for (k, losses) in judged.losses.chunks(each.max(1)).enumerate() {
                let one = judged.answers.as_ref().filter(|_| each == 1).map(|a| (judged.targets[k] as usize, a[k] as usize));
                let loss = losses.iter().sum::<f64>() / losses.len() as f64;
                worst.push(Worst { index: indices[k], loss, classes: one, numbers: pairs.next().unwrap_or_default() });
            }
            // A loss that is no number is the worst of all.
            worst.sort_by(|a, b| a.is_right().cmp(&b.is_right()).then(b.loss.total_cmp(&a.loss)).then(a.index.cmp(&b.index)));
            worst.truncate(options.worst);
        }
        rows += n;
    }
    if rows == 0 && !data.is_empty() {
        let first = loader.take_bad_records().into_iter().next().map_or_else(String::new, |bad| format!("; the first: {bad}"));
        return Err(Failure::Input(format!("none of {} records can be read{first}", data.len())));
    }
    Ok(Evaluation {
        loss: sum / targets.max(1) as f64,
        accuracy: answered.then(|| right as f64 / targets.max(1) as f64),
        rows,
        targets,
        seconds: begun.elapsed().as_secs_f64(),
        classes: classes.map(|(n, names)| if names.len() == n { names } else { (0..n).map(|k| k.to_string()).collect() }),
        confusion,
        by_class: by_class.filter(|_| answered).map(classes::ClassCounter::finish),
        numbers: numbers.and_then(numbers::NumberCounter::finish),
        worst,
        units,
    })
}
/// The (truth, prediction) of each target of each record of a batch.
fn pairs(counter: &mut numbers::NumberCounter, outputs: &Tensor, targets: &Tensor, rows: usize) -> Result<Vec<Vec<(f64, f64)>>, Failure> {
    let (predicted, truth) = (outputs.to_vec_as::<f64>()?, targets.to_vec_as::<f64>()?);
    if rows == 0 || truth.is_empty() || predicted.len() < truth.len() {
        return Ok(Vec::new());
    }
    // Outputs that say more than one number of each (its variance, too) say the number itself first.
    let (width, said) = (truth.len() / rows, predicted.len() / rows);
    Ok(truth.chunks(width).zip(predicted.chunks(said)).map(|(t, p)| counter.add(t, &p[..width])).collect())
}
