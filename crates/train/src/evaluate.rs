//! How good a model is on data: loss, accuracy, confusion and the worst examples in one pass, without a graph.
use crate::{Failure, dataset, folder::number, objective::Objective};
use adamant_core::{DType, Device, Tensor, no_grad};
use adamant_data::{DataLoader, Dataset, Examples, Numbered, Policy, Target, Vocabulary};
use adamant_nn::Module;
use serde_json::{Value, json};
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
    /// the records with the largest loss, largest first
    pub worst: Vec<Worst>,
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
}
impl Evaluation {
    /// Records in a second.
    pub fn rows_per_second(&self) -> f64 {
        self.rows as f64 / self.seconds.max(1e-9)
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
}
impl Default for EvaluateOptions {
    fn default() -> EvaluateOptions {
        EvaluateOptions { batch: 256, workers: 0, worst: 0, policy: Policy::Fail }
    }
}

/// Evaluates a model in evaluation mode; its mode is as before afterwards. One pass, no graph is kept.
///
/// # Errors
/// A bad record, outputs that do not go with the targets, no memory.
pub fn evaluate(model: &dyn Module, objective: &Objective, data: &Examples, device: Device, options: &EvaluateOptions) -> Result<Evaluation, Failure> {
    let was_training = model.is_training();
    model.set_training(false);
    let result = no_grad(|| pass(model, objective, data, device, options));
    model.set_training(was_training);
    result
}
fn pass(model: &dyn Module, objective: &Objective, data: &Examples, device: Device, options: &EvaluateOptions) -> Result<Evaluation, Failure> {
    let begun = Instant::now();
    let classes = match data.describe().targets {
        Some(Target::Classes { count, names }) => Some((count, names)),
        _ => None,
    };
    let mut confusion = classes.as_ref().filter(|(n, _)| *n <= MOST_CLASSES).map(|(n, _)| vec![vec![0u64; *n]; *n]);
    let scale = data.describe().target_scale;
    let numbered = Arc::new(Numbered(data.clone()));
    let mut loader = DataLoader::new(numbered).batch_size(options.batch).workers(options.workers).on_bad_record(options.policy.clone()).build()?;
    let (mut sum, mut right, mut targets, mut rows) = (0.0, 0u64, 0usize, 0usize);
    let mut answered = false;
    let mut worst: Vec<Worst> = Vec::new();
    for batch in loader.epoch() {
        let (numbers, (x, y)) = batch?;
        let n = dataset::rows_of(&y)?;
        let (outputs, y) = (model.forward(&x.to(device))?, y.to(device));
        // Numbers that were scaled for the model are judged in their own units.
        let judged = match &scale {
            Some(scale) => objective.judge(&scale.restore(&outputs)?, &scale.restore(&y)?)?,
            None => objective.judge(&outputs, &y)?,
        };
        sum += judged.losses.iter().sum::<f64>();
        targets += judged.losses.len();
        if let Some(answers) = &judged.answers {
            answered = true;
            for (truth, answer) in judged.targets.iter().zip(answers) {
                right += u64::from(truth == answer);
                if let Some(cell) = confusion.as_mut().and_then(|c| c.get_mut(*truth as usize)).and_then(|row| row.get_mut(*answer as usize)) {
                    *cell += 1;
                }
            }
        }
        if options.worst > 0 && n > 0 {
            let each = judged.losses.len() / n;
            for (k, losses) in judged.losses.chunks(each.max(1)).enumerate() {
                let one = judged.answers.as_ref().filter(|_| each == 1).map(|a| (judged.targets[k] as usize, a[k] as usize));
                worst.push(Worst { index: numbers[k], loss: losses.iter().sum::<f64>() / losses.len() as f64, classes: one });
            }
            // A loss that is no number is the worst of all.
            worst.sort_by(|a, b| b.loss.total_cmp(&a.loss).then(a.index.cmp(&b.index)));
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
        worst,
    })
}

/// How the inputs of a record are shown to a person.
#[derive(Clone, Debug, Default)]
pub enum Show {
    /// not at all
    #[default]
    Nothing,
    /// as an image of these channels, rows and columns; the largest value is white
    Image([usize; 3]),
    /// as text
    Text(Vocabulary),
}
/// `evaluation.json`, with the worst records as a person sees them.
///
/// # Errors
/// A record that cannot be read again.
pub fn document(evaluation: &Evaluation, data: &Examples, show: &Show) -> Result<Value, Failure> {
    let mut worst = Vec::new();
    for w in &evaluation.worst {
        let name = |class: usize| evaluation.classes.as_ref().and_then(|c| c.get(class).cloned()).unwrap_or_else(|| class.to_string());
        let record = data.read(w.index).map_err(|e| Failure::Input(e.to_string()))?;
        let (x, _) = data.collate(vec![record])?;
        let (image, text) = match show {
            Show::Nothing => (Value::Null, Value::Null),
            Show::Image(size) => (image(&x, *size)?, Value::Null),
            Show::Text(vocabulary) => (Value::Null, Value::from(spell(&x, vocabulary)?)),
        };
        worst.push(json!({
            "index": w.index,
            "loss": number(w.loss),
            "target": w.classes.map(|(t, _)| name(t)),
            "answer": w.classes.map(|(_, a)| name(a)),
            "probability": number((-w.loss).exp()),
            "image": image,
            "text": text,
        }));
    }
    Ok(json!({
        "loss": number(evaluation.loss),
        "accuracy": evaluation.accuracy.map(number),
        "rows": evaluation.rows,
        "seconds": number(evaluation.seconds),
        "classes": evaluation.classes,
        "confusion": evaluation.confusion,
        "worst": worst,
    }))
}
fn image(x: &Tensor, [channels, height, width]: [usize; 3]) -> Result<Value, Failure> {
    let values = x.to_vec_as::<f64>()?;
    let (low, high) = values.iter().filter(|v| v.is_finite()).fold((0.0f64, f64::MIN_POSITIVE), |(l, h), v| (l.min(*v), h.max(*v)));
    let pixels: Vec<u8> = values.iter().map(|v| ((v - low) / (high - low) * 255.0).round() as u8).collect();
    if pixels.len() != channels * height * width {
        return Ok(Value::Null);
    }
    Ok(json!({ "width": width, "height": height, "channels": channels, "pixels": pixels }))
}
fn spell(x: &Tensor, vocabulary: &Vocabulary) -> Result<String, Failure> {
    let tokens = x.cast(DType::I64).to_vec::<i64>()?;
    Ok(vocabulary.decode(&tokens.into_iter().map(|t| u32::try_from(t).unwrap_or(u32::MAX)).collect::<Vec<_>>()))
}
