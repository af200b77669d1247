//! A table as a data set: rows of a frame become inputs and answers as its columns say.
use crate::{
    Answer, BadRecord, Becomes, Columns, Dataset, Description, Facts, Frame, Kind, Labelled, Place, Rows, Scale, Target, dataset::row_of, file_error,
    frame::{is_missing, spelled},
    wrong,
};
use adamant_core::{DType, Result, Shape, Tensor};
use adamant_formats::shown;
use std::sync::Arc;

/// The inputs of a table's rows: `f32[batch, features]`.
#[derive(Clone, Debug)]
pub struct FrameInputs {
    frame: Arc<Frame>,
    columns: Arc<Columns>,
    /// by input, its place among the frame's columns
    places: Vec<usize>,
    /// by input, of texts: where each level of the frame stands among those that were learned
    levels: Vec<Vec<Option<usize>>>,
    features: usize,
}
impl FrameInputs {
    /// Of a frame, of which the column at `places[k]` becomes the input `k`.
    ///
    /// # Errors
    /// `File`: a column that the frame does not have, or of another kind.
    #[track_caller]
    pub fn new(frame: Arc<Frame>, columns: Arc<Columns>, places: Vec<usize>) -> Result<FrameInputs> {
        let fits = |(place, column): (&usize, &crate::Column)| {
            let kind = frame.columns().get(*place).map(|(_, kind)| *kind);
            kind.is_some_and(|k| (k == Kind::Number) == matches!(column.becomes, Becomes::Number { .. }))
        };
        if places.len() != columns.inputs.len() || !places.iter().zip(&columns.inputs).all(fits) {
            return Err(file_error("table", frame.path(), format!("its columns are not the {} that were learned", columns.inputs.len())));
        }
        let levels = places.iter().zip(&columns.inputs).map(|(place, column)| match &column.becomes {
            Becomes::Number { .. } => Vec::new(),
            Becomes::Text { levels, .. } => frame.levels(*place).iter().map(|own| levels.binary_search(own).ok()).collect(),
        });
        let levels = levels.collect();
        Ok(FrameInputs { features: columns.features(), frame, columns, places, levels })
    }
    /// The rows' table.
    pub fn frame(&self) -> &Arc<Frame> {
        &self.frame
    }
    /// Why a row cannot be used, if it cannot.
    fn bad(&self, row: usize) -> Option<BadRecord> {
        if let Some(bad) = self.frame.bad(row) {
            return Some(BadRecord::new(Place { offset: bad.offset, ..self.locate(row) }, bad.reason.clone()));
        }
        let values = self.frame.row(row);
        for ((place, levels), column) in self.places.iter().zip(&self.levels).zip(&self.columns.inputs) {
            let (v, fill) = match &column.becomes {
                Becomes::Number { fill, .. } => (values[*place], fill.is_some()),
                Becomes::Text { fill, .. } => (values[*place], fill.is_some()),
            };
            let what = if is_missing(v) && !fill {
                "nothing stands there, and the training part gave no stand-in; `missing` says what is done about that".to_string()
            } else if !is_missing(v) && !levels.is_empty() && !self.columns.unknown_is_none && levels.get(v as usize).is_none_or(Option::is_none) {
                let text = self.frame.level(row, *place).unwrap_or_default();
                format!("`{}` does not occur in the training part; `unknown = \"zero\"` takes it for none of its texts", shown(text))
            } else {
                continue;
            };
            return Some(BadRecord::new(self.locate(row), format!("{}: {what}", self.frame.place(row, *place))));
        }
        None
    }
    fn row_into(&self, row: usize, out: &mut Vec<f32>) {
        let values = self.frame.row(row);
        for ((place, levels), column) in self.places.iter().zip(&self.levels).zip(&self.columns.inputs) {
            let v = values.get(*place).copied().unwrap_or(f32::NAN);
            match &column.becomes {
                Becomes::Number { divide, mean, std, fill } => {
                    let v = if is_missing(v) { fill.unwrap_or(f32::NAN) } else { v };
                    out.push(Scale { divide: *divide, mean: *mean, std: *std }.apply(v));
                }
                Becomes::Text { levels: known, fill } => {
                    let start = out.len();
                    out.resize(start + known.len(), 0.0);
                    let place = if is_missing(v) { *fill } else { levels.get(v as usize).copied().flatten() };
                    if let Some(one) = place.and_then(|p| out.get_mut(start + p)) {
                        *one = 1.0;
                    }
                }
            }
        }
    }
}
impl Dataset for FrameInputs {
    type Record = usize;
    type Batch = Tensor;
    fn len(&self) -> usize {
        self.frame.len()
    }
    fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> {
        let index = row_of(self, index)?;
        self.bad(index).map_or(Ok(index), Err)
    }
    fn collate(&self, records: Vec<usize>) -> Result<Tensor> {
        let mut out = Vec::with_capacity(records.len() * self.features);
        records.iter().for_each(|row| self.row_into(*row, &mut out));
        Tensor::from_vec(out, [records.len(), self.features]).ok()
    }
    fn locate(&self, index: usize) -> Place {
        Place { file: self.frame.path().to_path_buf(), index, offset: self.frame.bad(index).map_or(0, |b| b.offset) }
    }
    fn describe(&self) -> Description {
        Shape::new(&[self.features]).map_or_else(|_| Description::default(), |shape| Description::of(shape, DType::F32))
    }
}

/// What is to be predicted from a table's rows: `i64[batch]` of classes, or `f32[batch, columns]`.
#[derive(Clone, Debug)]
pub struct FrameAnswers {
    frame: Arc<Frame>,
    columns: Arc<Columns>,
    places: Vec<usize>,
    /// of labels as texts: the class of each level
    classes: Vec<Option<usize>>,
}
impl FrameAnswers {
    /// Of a frame whose columns at `places` hold the answers.
    ///
    /// # Errors
    /// `File`: a column that the frame does not have.
    #[track_caller]
    pub fn new(frame: Arc<Frame>, columns: Arc<Columns>, places: Vec<usize>) -> Result<FrameAnswers> {
        if places.is_empty() || places.iter().any(|p| *p >= frame.columns().len()) {
            return Err(file_error("table", frame.path(), "the column of the answer is not there"));
        }
        let classes = match &columns.answer {
            Answer::Class { classes, .. } => frame.levels(places[0]).iter().map(|level| class_of(level, classes)).collect(),
            Answer::Values { .. } => Vec::new(),
        };
        Ok(FrameAnswers { frame, columns, places, classes })
    }
    /// The class of a row, or what stands there instead of one.
    fn class(&self, row: usize, count: usize) -> std::result::Result<i64, String> {
        let value = self.frame.value(row, self.places[0]);
        if is_missing(value) {
            return Err("it has no class".into());
        }
        if self.frame.columns()[self.places[0]].1 == Kind::Number {
            let fits = value >= 0.0 && value.fract() == 0.0 && value < count as f32;
            return if fits { Ok(value as i64) } else { Err(format!("{value} is none of {count} classes")) };
        }
        match self.classes.get(value as usize) {
            Some(Some(class)) => Ok(*class as i64),
            _ => Err(format!("`{}` is none of the {count} classes", shown(self.frame.level(row, self.places[0]).unwrap_or_default()))),
        }
    }
}
/// A label is the name of a class, or else its number from 0.
fn class_of(label: &str, classes: &[String]) -> Option<usize> {
    let by_name = classes.iter().position(|c| c == label).or_else(|| classes.iter().position(|c| spelled(c) == label));
    by_name.or_else(|| label.parse().ok().filter(|k| *k < classes.len()))
}
impl Dataset for FrameAnswers {
    type Record = usize;
    type Batch = Tensor;
    fn len(&self) -> usize {
        self.frame.len()
    }
    fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> {
        let index = row_of(self, index)?;
        if let Some(bad) = self.frame.bad(index) {
            return Err(BadRecord::new(Place { offset: bad.offset, ..self.locate(index) }, bad.reason.clone()));
        }
        let what = match &self.columns.answer {
            Answer::Class { classes, .. } => self.class(index, classes.len()).err().map(|what| (self.places[0], what)),
            Answer::Values { .. } => {
                let missing = self.places.iter().find(|p| is_missing(self.frame.value(index, **p)));
                missing.map(|p| (*p, "it has no value to be learned".into()))
            }
        };
        match what {
            None => Ok(index),
            Some((place, what)) => Err(BadRecord::new(self.locate(index), format!("{}: {what}", self.frame.place(index, place)))),
        }
    }
    fn collate(&self, records: Vec<usize>) -> Result<Tensor> {
        match &self.columns.answer {
            Answer::Class { classes, .. } => {
                let labels: std::result::Result<Vec<i64>, String> = records.iter().map(|row| self.class(*row, classes.len())).collect();
                Tensor::from_vec(labels.map_err(|what| wrong("table", what))?, [records.len()]).ok()
            }
            Answer::Values { scale, .. } => {
                let column = |k: usize, v: f32| if scale.is_none() { v } else { (v - scale.mean[k]) / scale.std[k] };
                let values = records.iter().flat_map(|row| self.places.iter().enumerate().map(|(k, p)| column(k, self.frame.value(*row, *p))));
                Tensor::from_vec(values.collect::<Vec<f32>>(), [records.len(), self.places.len()]).ok()
            }
        }
    }
    fn locate(&self, index: usize) -> Place {
        Place { file: self.frame.path().to_path_buf(), index, offset: self.frame.bad(index).map_or(0, |b| b.offset) }
    }
    fn describe(&self) -> Description {
        match &self.columns.answer {
            Answer::Class { classes, .. } => {
                Description { targets: Some(Target::Classes { count: classes.len(), names: classes.clone() }), ..Description::default() }
            }
            Answer::Values { scale, .. } => {
                let facts = Shape::new(&[self.places.len()]).ok().map(|shape| Target::Values(Facts { shape, dtype: DType::F32 }));
                Description { targets: facts, target_scale: (!scale.is_none()).then(|| Arc::new(scale.clone())), ..Description::default() }
            }
        }
    }
}
/// Inputs and answers of a table's rows.
pub type FrameSet = Labelled<FrameInputs, FrameAnswers>;

/// Rows of numbers that are in memory, those that are bad among them left to the policy of who reads them.
impl Rows {
    /// The same rows; those that are named are bad records, for the reason that stands there.
    #[must_use]
    pub fn with_bad(mut self, file: &std::path::Path, bad: std::collections::BTreeMap<usize, String>) -> Rows {
        self.file = Some(file.into());
        self.bad = (!bad.is_empty()).then(|| Arc::new(bad));
        self
    }
}
