//! `evaluation.json`: an evaluation as a person and a program read it, with the worst records as they look. Numbers that are
//! not finite are null in it. It is written from these structs and not from a tree of JSON values, which would be the most
//! memory that a small run ever holds.
use super::{ByClass, Evaluation, Unit, Worst};
use crate::Failure;
use adamant_core::{DType, Tensor, profile::record_function};
use adamant_data::{Dataset, Examples, Vocabulary};
use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::{Map, Value};
use std::borrow::Cow;

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
/// `evaluation.json`, to be written by `serde`.
#[derive(Serialize, Debug)]
pub struct Told<'a> {
    #[serde(flatten)]
    figures: Map<String, Value>,
    seconds: f64,
    classes: Option<&'a [String]>,
    confusion: Option<&'a [Vec<u64>]>,
    by_class: Option<Vec<OfClass<'a>>>,
    #[serde(rename = "macro")]
    mean: Option<ToldMean>,
    top_k: Option<ToldTopK>,
    targets: Option<Vec<OfTarget<'a>>>,
    worst: Vec<OfWorst<'a>>,
}
#[derive(Serialize, Debug)]
struct OfClass<'a> {
    class: Cow<'a, str>,
    #[serde(flatten)]
    figures: ToldMean,
    support: u64,
}
#[derive(Serialize, Debug)]
struct ToldMean {
    precision: f64,
    recall: f64,
    f1: f64,
}
#[derive(Serialize, Debug)]
struct ToldTopK {
    k: usize,
    accuracy: f64,
}
#[derive(Serialize, Debug)]
struct OfTarget<'a> {
    name: &'a str,
    mae: f64,
    rmse: f64,
    r2: Option<f64>,
    pairs: &'a [(f64, f64)],
}
#[derive(Serialize, Debug)]
struct OfWorst<'a> {
    index: usize,
    loss: f64,
    target: Option<Cow<'a, str>>,
    answer: Option<Cow<'a, str>>,
    probability: Option<f64>,
    numbers: Option<Vec<ToldGuess<'a>>>,
    inputs: Option<ToldInputs<'a>>,
    image: Option<ToldImage>,
    text: Option<String>,
}
#[derive(Serialize, Debug)]
struct ToldGuess<'a> {
    target: Option<&'a str>,
    truth: f64,
    prediction: f64,
    error: f64,
}
/// The numbers of a table's row, and the columns that they stand in.
#[derive(Debug)]
struct ToldInputs<'a>(&'a [Unit], Vec<f64>);
impl Serialize for ToldInputs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct ToldInput<'a> {
            name: &'a str,
            value: f64,
        }
        let told = self.0.len().min(MOST_COLUMNS);
        let mut inputs = serializer.serialize_seq(Some(told))?;
        for (column, v) in self.0.iter().zip(&self.1).take(told) {
            inputs.serialize_element(&ToldInput { name: &column.name, value: column.denormalise(*v) })?;
        }
        inputs.end()
    }
}
#[derive(Serialize, Debug)]
struct ToldImage {
    width: usize,
    height: usize,
    channels: usize,
    pixels: Vec<u8>,
}

/// `evaluation.json`, with the worst records as a person sees them.
///
/// # Errors
/// A record that cannot be read again.
pub fn document<'a>(evaluation: &'a Evaluation, data: &Examples, show: &Show) -> Result<Told<'a>, Failure> {
    let _range = record_function("report");
    let worst = evaluation.worst.iter().map(|w| one(evaluation, w, data, show)).collect::<Result<Vec<_>, _>>()?;
    let by_class = evaluation.by_class.as_ref();
    let of_class = |(k, c): (usize, &ByClass)| OfClass { class: name(evaluation, k), figures: ToldMean::of(c), support: c.support };
    let of_targets = |t: &'a super::Deviation| OfTarget { name: &t.name, mae: t.mae, rmse: t.rmse, r2: t.r2, pairs: &t.pairs };
    Ok(Told {
        figures: evaluation.to_json(),
        seconds: evaluation.seconds,
        classes: evaluation.classes.as_deref(),
        confusion: evaluation.confusion.as_deref(),
        by_class: by_class.filter(|c| c.each.len() <= MOST_TOLD).map(|c| c.each.iter().enumerate().map(of_class).collect()),
        mean: by_class.map(|c| ToldMean::of(&c.mean)),
        top_k: by_class.and_then(|c| c.top).map(|(k, accuracy)| ToldTopK { k, accuracy }),
        targets: evaluation.numbers.as_ref().map(|n| n.targets.iter().map(of_targets).collect()),
        worst,
    })
}
impl ToldMean {
    fn of(c: &ByClass) -> ToldMean {
        ToldMean { precision: c.precision, recall: c.recall, f1: c.f1 }
    }
}
/// The name of a class: its number where it has none.
fn name(evaluation: &Evaluation, class: usize) -> Cow<'_, str> {
    let named = evaluation.classes.as_ref().and_then(|c| c.get(class));
    named.map_or_else(|| class.to_string().into(), |n| n.as_str().into())
}
fn one<'a>(evaluation: &'a Evaluation, w: &Worst, data: &Examples, show: &Show) -> Result<OfWorst<'a>, Failure> {
    let record = data.read(w.index).map_err(|e| Failure::Input(e.to_string()))?;
    let (x, _) = data.collate(vec![record])?;
    let (inputs, image, text) = match show {
        Show::Nothing => (columns(&x, &evaluation.units.inputs)?, None, None),
        Show::Image(size) => (None, image(&x, *size)?, None),
        Show::Text(vocabulary) => (None, None, Some(spell(&x, vocabulary)?)),
    };
    let targets = evaluation.numbers.as_ref().map(|n| n.targets.as_slice()).unwrap_or_default();
    let guess = |(k, (truth, prediction)): (usize, &(f64, f64))| {
        let target = targets.get(k).map(|t| t.name.as_str());
        ToldGuess { target, truth: *truth, prediction: *prediction, error: prediction - truth }
    };
    Ok(OfWorst {
        index: w.index,
        loss: w.loss,
        target: w.classes.map(|(t, _)| name(evaluation, t)),
        answer: w.classes.map(|(_, a)| name(evaluation, a)),
        // The mean loss of classes is the logarithm of the (mean) probability of the truth; that of numbers is none.
        probability: evaluation.numbers.is_none().then(|| (-w.loss).exp()),
        numbers: (!w.numbers.is_empty()).then(|| w.numbers.iter().enumerate().map(guess).collect()),
        inputs,
        image,
        text,
    })
}
/// The numbers of a table's row as its file has them.
fn columns<'a>(x: &Tensor, columns: &'a [Unit]) -> Result<Option<ToldInputs<'a>>, Failure> {
    let values = if columns.is_empty() { Vec::new() } else { x.to_vec_as::<f64>()? };
    Ok((!values.is_empty() && values.len() == columns.len()).then_some(ToldInputs(columns, values)))
}
fn image(x: &Tensor, [channels, height, width]: [usize; 3]) -> Result<Option<ToldImage>, Failure> {
    let values = x.to_vec_as::<f64>()?;
    let (low, high) = values.iter().filter(|v| v.is_finite()).fold((0.0f64, f64::MIN_POSITIVE), |(l, h), v| (l.min(*v), h.max(*v)));
    let pixels: Vec<u8> = values.iter().map(|v| ((v - low) / (high - low) * 255.0).round() as u8).collect();
    Ok((pixels.len() == channels * height * width).then_some(ToldImage { width, height, channels, pixels }))
}
fn spell(x: &Tensor, vocabulary: &Vocabulary) -> Result<String, Failure> {
    let tokens = x.cast(DType::I64).to_vec::<i64>()?;
    Ok(vocabulary.decode(&tokens.into_iter().map(|t| u32::try_from(t).unwrap_or(u32::MAX)).collect::<Vec<_>>()))
}
