//! `evaluation.json`: an evaluation as a person and a program read it, with the worst records as they look.
use super::{ByClass, Classes, Deviation, Evaluation, Unit, Worst};
use crate::{Failure, folder::number};
use adamant_core::{DType, Tensor};
use adamant_data::{Dataset, Examples, Vocabulary};
use serde_json::{Value, json};

/// Beyond this many classes only their means are told.
const MOST_TOLD: usize = 1000;
/// The most columns of a record that are told.
const MOST_COLUMNS: usize = 64;

/// How the inputs of a record are shown to a person.
#[derive(Clone, Debug, Default)]
pub enum Show {
    /// not at all, but for the numbers of a table whose columns are known
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
    let worst = evaluation.worst.iter().map(|w| one(evaluation, w, data, show)).collect::<Result<Vec<_>, _>>()?;
    let by_class = evaluation.by_class.as_ref().filter(|c| c.each.len() <= MOST_TOLD);
    let name = |k: usize| evaluation.classes.as_ref().and_then(|c| c.get(k).cloned()).unwrap_or_else(|| k.to_string());
    let top = evaluation.by_class.as_ref().and_then(|c: &Classes| c.top);
    let mut told = evaluation.to_json();
    let rest = json!({
        "seconds": number(evaluation.seconds),
        "classes": evaluation.classes,
        "confusion": evaluation.confusion,
        "by_class": by_class.map(|c| c.each.iter().enumerate().map(|(k, c)| of_class(c, &name(k))).collect::<Vec<_>>()),
        "macro": evaluation.by_class.as_ref().map(|c| json!({ "precision": number(c.mean.precision), "recall": number(c.mean.recall), "f1": number(c.mean.f1) })),
        "top_k": top.map(|(k, share)| json!({ "k": k, "accuracy": number(share) })),
        "targets": evaluation.numbers.as_ref().map(|n| n.targets.iter().map(of_target).collect::<Vec<_>>()),
        "worst": worst,
    });
    if let Value::Object(rest) = rest {
        told.extend(rest);
    }
    Ok(Value::Object(told))
}
fn of_class(c: &ByClass, name: &str) -> Value {
    json!({ "class": name, "precision": number(c.precision), "recall": number(c.recall), "f1": number(c.f1), "support": c.support })
}
fn of_target(t: &Deviation) -> Value {
    let pairs: Vec<Value> = t.pairs.iter().map(|(truth, predicted)| json!([number(*truth), number(*predicted)])).collect();
    json!({ "name": t.name, "mae": number(t.mae), "rmse": number(t.rmse), "r2": t.r2.map(number), "pairs": pairs })
}
fn one(evaluation: &Evaluation, w: &Worst, data: &Examples, show: &Show) -> Result<Value, Failure> {
    let name = |class: usize| evaluation.classes.as_ref().and_then(|c| c.get(class).cloned()).unwrap_or_else(|| class.to_string());
    let record = data.read(w.index).map_err(|e| Failure::Input(e.to_string()))?;
    let (x, _) = data.collate(vec![record])?;
    let (image, text) = match show {
        Show::Nothing => (Value::Null, Value::Null),
        Show::Image(size) => (image(&x, *size)?, Value::Null),
        Show::Text(vocabulary) => (Value::Null, Value::from(spell(&x, vocabulary)?)),
    };
    let inputs = match show {
        Show::Nothing => columns(&x, &evaluation.units.inputs)?,
        _ => Value::Null,
    };
    let numbers: Vec<Value> = (w.numbers.iter().enumerate())
        .map(|(k, (truth, predicted))| {
            let target = evaluation.numbers.as_ref().and_then(|n| n.targets.get(k)).map(|t| t.name.clone());
            json!({ "target": target, "truth": number(*truth), "prediction": number(*predicted), "error": number(predicted - truth) })
        })
        .collect();
    // The mean loss of classes is the logarithm of the (mean) probability of the truth; that of numbers is none.
    let probability = if evaluation.numbers.is_some() { Value::Null } else { number((-w.loss).exp()) };
    Ok(json!({
        "index": w.index,
        "loss": number(w.loss),
        "target": w.classes.map(|(t, _)| name(t)),
        "answer": w.classes.map(|(_, a)| name(a)),
        "probability": probability,
        "numbers": if numbers.is_empty() { Value::Null } else { numbers.into() },
        "inputs": inputs,
        "image": image,
        "text": text,
    }))
}
/// The numbers of a table's row as its file has them.
fn columns(x: &Tensor, columns: &[Unit]) -> Result<Value, Failure> {
    let values = if columns.is_empty() { Vec::new() } else { x.to_vec_as::<f64>()? };
    if values.is_empty() || values.len() != columns.len() {
        return Ok(Value::Null);
    }
    let told = columns.iter().zip(values).take(MOST_COLUMNS).map(|(c, v)| json!({ "name": c.name, "value": number(c.denormalise(v)) }));
    Ok(told.collect::<Vec<_>>().into())
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
