//! What a table's columns become, learned from its training part: a scale and a stand-in for what is missing of numbers, a
//! column for each text of others, and the names of the classes. It is kept with a run, so that new rows become the same.
use crate::{Frame, Kind, Scale, file_error, frame::is_missing};
use adamant_core::{Result, Tensor};
use adamant_formats::shown;
use serde::{Deserialize, Serialize};

/// How the numbers of a column are brought to one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleBy {
    /// as they are
    #[default]
    None,
    /// mean 0, standard deviation 1
    Standard,
    /// from 0 to 1
    Minmax,
}
/// What is done about a value that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// its row is bad
    #[default]
    Fail,
    /// its row is left out
    Skip,
    /// a number becomes the column's mean, a text its most frequent one
    Mean,
    /// a number becomes the column's median, a text its most frequent one
    Median,
}
/// A column of inputs, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// its name: that of the header, or its number
    pub name: String,
    /// its number in the file that was learned from
    pub number: usize,
    /// what becomes of a field
    #[serde(flatten)]
    pub becomes: Becomes,
}
/// What becomes of a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Becomes {
    /// one number: `(v / divide - mean) / std`
    Number {
        /// the first divisor
        divide: f32,
        /// subtracted
        mean: f32,
        /// the last divisor
        std: f32,
        /// instead of one that is missing
        fill: Option<f32>,
    },
    /// 1 at the place of its text among the levels, 0 at the others
    Text {
        /// the texts of the training part, sorted
        levels: Vec<String>,
        /// instead of one that is missing: its place
        fill: Option<usize>,
    },
}
/// What is to be predicted from a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Answer {
    /// one of some classes
    Class {
        /// the column's name
        name: String,
        /// its number in the file
        number: usize,
        /// the classes, in order
        classes: Vec<String>,
    },
    /// numbers
    Values {
        /// the columns' names
        names: Vec<String>,
        /// their numbers in the file
        numbers: Vec<usize>,
        /// the scale of each: the model learns `(v - mean) / std`
        scale: TargetScale,
    },
}
/// How numbers that are to be predicted were scaled, column by column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetScale {
    /// subtracted from each column; empty if nothing was scaled
    pub mean: Vec<f32>,
    /// the divisor of each column
    pub std: Vec<f32>,
}
impl TargetScale {
    /// Is everything as it was?
    pub fn is_none(&self) -> bool {
        self.mean.is_empty()
    }
    /// Scaled numbers `[rows, columns]` in their own units again.
    ///
    /// # Errors
    /// Another number of columns.
    #[track_caller]
    pub fn restore(&self, scaled: &Tensor) -> Result<Tensor> {
        if self.is_none() {
            return Ok(scaled.clone());
        }
        let device = scaled.try_meta()?.device;
        let row = |v: &[f32]| Tensor::from_vec(v.to_vec(), [v.len()]).to(device);
        (scaled * row(&self.std) + row(&self.mean)).ok()
    }
}
/// All of it: what turns a row of a file into inputs and an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Columns {
    /// does the file name its columns
    pub header: bool,
    /// how many columns it has
    pub width: usize,
    /// what is learned from
    pub inputs: Vec<Column>,
    /// what is to be predicted
    pub answer: Answer,
    /// are texts that the training part does not have taken for none of them, rather than bad
    pub unknown_is_none: bool,
    /// do the answers stand in a file of their own
    pub apart: bool,
}
impl Columns {
    /// Whether it can be what was learned: it may come from a file that somebody else has written.
    ///
    /// # Errors
    /// What makes no sense in it.
    pub fn check(&self) -> std::result::Result<(), String> {
        let answers = if let Answer::Values { numbers, .. } = &self.answer { numbers.len() } else { 1 };
        let apart = if self.apart { 0 } else { answers };
        if self.inputs.is_empty() || self.inputs.iter().any(|c| c.number >= self.width) || apart >= self.width {
            return Err(format!("{} inputs and {answers} answers of {} columns make no sense", self.inputs.len(), self.width));
        }
        for column in &self.inputs {
            let fits = match &column.becomes {
                Becomes::Number { divide, mean, std, fill } => {
                    [*divide, *mean, *std, fill.unwrap_or(0.0)].iter().all(|v| v.is_finite()) && *divide != 0.0 && *std != 0.0
                }
                Becomes::Text { levels, fill } => levels.is_sorted() && fill.is_none_or(|f| f < levels.len()),
            };
            if !fits {
                return Err(format!("what becomes of column `{}` makes no sense", shown(&column.name)));
            }
        }
        match &self.answer {
            Answer::Class { classes, .. } if classes.is_empty() => Err("there are no classes".into()),
            Answer::Values { names, numbers, scale } => {
                let columns = [0, numbers.len()];
                let fits = columns.contains(&scale.mean.len()) && scale.mean.len() == scale.std.len() && names.len() == numbers.len();
                let finite = scale.mean.iter().chain(&scale.std).all(|v| v.is_finite()) && scale.std.iter().all(|v| *v != 0.0);
                if fits && finite { Ok(()) } else { Err("the scale of the answers makes no sense".into()) }
            }
            Answer::Class { .. } => Ok(()),
        }
    }
    /// Numbers of one input.
    pub fn features(&self) -> usize {
        self.inputs.iter().map(|c| if let Becomes::Text { levels, .. } = &c.becomes { levels.len() } else { 1 }).sum()
    }
    /// How the answers were scaled.
    pub fn target_scale(&self) -> Option<&TargetScale> {
        if let Answer::Values { scale, .. } = &self.answer { Some(scale).filter(|s| !s.is_none()) } else { None }
    }
    /// The columns of another file that are read to make inputs of its rows: by name, where both files name theirs; else by
    /// number, with the column of the answer or without.
    ///
    /// # Errors
    /// `File`: a column that is not there, by its name; another number of columns.
    #[track_caller]
    pub fn find(&self, path: &std::path::Path, header: bool, names: &[String]) -> Result<Vec<(usize, Kind)>> {
        let kind = |c: &Column| if matches!(c.becomes, Becomes::Text { .. }) { Kind::Text } else { Kind::Number };
        if names.is_empty() {
            return Err(file_error("columns", path, "it holds no rows"));
        }
        if self.header && header {
            let place = |c: &Column| match names.iter().position(|n| *n == c.name) {
                Some(number) => Ok((number, kind(c))),
                None => {
                    let there: Vec<String> = names.iter().take(20).map(shown).collect();
                    let what = format!("column `{}` is missing, which the model was trained with; there are {}", shown(&c.name), there.join(", "));
                    Err(file_error("columns", path, what))
                }
            };
            return self.inputs.iter().map(place).collect();
        }
        let answers: Vec<usize> = match &self.answer {
            _ if self.apart => Vec::new(),
            Answer::Class { number, .. } => vec![*number],
            Answer::Values { numbers, .. } => numbers.clone(),
        };
        let without = self.width - answers.len();
        let numbers: Vec<usize> = if names.len() == self.width {
            self.inputs.iter().map(|c| c.number).collect()
        } else if names.len() == without {
            self.inputs.iter().map(|c| c.number - answers.iter().filter(|a| **a < c.number).count()).collect()
        } else if names.len() == self.inputs.len() {
            (0..self.inputs.len()).collect()
        } else {
            let what = format!("it has {} columns; the model was trained on {} inputs of {} columns", names.len(), self.inputs.len(), self.width);
            return Err(file_error("columns", path, what));
        };
        Ok(numbers.into_iter().zip(&self.inputs).map(|(number, c)| (number, kind(c))).collect())
    }
}

/// What is asked of a column of inputs, before anything is learned.
#[derive(Clone, Copy, Debug)]
pub struct Habit {
    /// how numbers are scaled by what is learned
    pub by: ScaleBy,
    /// or by what was said
    pub fixed: Scale,
    /// what is done about what is missing
    pub missing: Missing,
}
/// Learns what becomes of one column, from some rows of a frame. `column` is its place among those that were read.
///
/// # Errors
/// `File`: not one of the rows has a value.
#[track_caller]
pub fn learn(frame: &Frame, column: usize, rows: impl Iterator<Item = usize> + Clone, habit: Habit) -> Result<Column> {
    let (number, kind) = frame.columns().get(column).copied().unwrap_or((0, Kind::Number));
    let good = rows.filter(|row| frame.bad(*row).is_none());
    let values = good.map(|row| frame.value(row, column)).filter(|v| !is_missing(*v));
    let named = |becomes| Column { name: frame.name(column).into(), number, becomes };
    let fills = matches!(habit.missing, Missing::Mean | Missing::Median) && frame.has_missing();
    let empty = || {
        let bad = frame.bad_rows().next().map_or_else(String::new, |(_, reason)| format!("; the first bad row: {reason}"));
        file_error("table", frame.path(), format!("column `{}` has no value in the training part{bad}", shown(frame.name(column))))
    };
    if kind != Kind::Number {
        let levels = frame.levels(column);
        let mut counts = vec![0usize; levels.len()];
        values.for_each(|v| counts[v as usize] += 1);
        let mut seen: Vec<(&String, usize)> = levels.iter().zip(counts).filter(|(_, n)| *n > 0).collect();
        seen.sort_unstable();
        let most = seen.iter().enumerate().max_by_key(|(k, (_, n))| (*n, std::cmp::Reverse(*k))).map(|(k, _)| k).ok_or_else(empty)?;
        return Ok(named(Becomes::Text { levels: seen.into_iter().map(|(l, _)| l.clone()).collect(), fill: fills.then_some(most) }));
    }
    let ColumnStatistics { mean, std, low, high } = ColumnStatistics::of(values.clone().filter(|v| v.is_finite())).ok_or_else(empty)?;
    let scale = match habit.by {
        ScaleBy::None => habit.fixed,
        ScaleBy::Standard => Scale { divide: 1.0, mean: mean as f32, std: divisor(std) },
        ScaleBy::Minmax => Scale { divide: 1.0, mean: low, std: divisor(f64::from(high) - f64::from(low)) },
    };
    let fill = match habit.missing {
        Missing::Mean if fills => Some(mean as f32),
        Missing::Median if fills => Some(median(values)),
        _ => None,
    };
    Ok(named(Becomes::Number { divide: scale.divide, mean: scale.mean, std: scale.std, fill }))
}
struct ColumnStatistics {
    mean: f64,
    std: f64,
    low: f32,
    high: f32,
}
impl ColumnStatistics {
    /// In two passes, in f64: what is taken away is the mean itself.
    fn of(values: impl Iterator<Item = f32> + Clone) -> Option<ColumnStatistics> {
        let (mut n, mut sum, mut low, mut high) = (0u64, 0.0f64, f32::INFINITY, f32::NEG_INFINITY);
        for v in values.clone() {
            (n, sum, low, high) = (n + 1, sum + f64::from(v), low.min(v), high.max(v));
        }
        let mean = if n == 0 { return None } else { sum / n as f64 };
        let squares: f64 = values.map(|v| (f64::from(v) - mean).powi(2)).sum();
        Some(ColumnStatistics { mean, std: (squares / n as f64).sqrt(), low, high })
    }
}
/// What a column is divided by; one of equal numbers by 1.
fn divisor(spread: f64) -> f32 {
    let spread = spread as f32;
    if spread.is_normal() { spread } else { 1.0 }
}
fn median(values: impl Iterator<Item = f32>) -> f32 {
    let mut all: Vec<f32> = values.collect();
    all.sort_unstable_by(f32::total_cmp);
    match all.len() {
        0 => 0.0,
        n if n % 2 == 1 => all[n / 2],
        n => (all[n / 2 - 1] + all[n / 2]) / 2.0,
    }
}
/// The classes of a column of labels, sorted: as numbers where all of them are, else as texts.
pub fn learn_classes(frame: &Frame, column: usize, rows: impl Iterator<Item = usize>) -> Vec<String> {
    let levels = frame.levels(column);
    let mut seen = vec![false; levels.len()];
    for row in rows.filter(|row| frame.bad(*row).is_none()) {
        let v = frame.value(row, column);
        if !is_missing(v) {
            seen[v as usize] = true;
        }
    }
    let mut classes: Vec<String> = levels.iter().zip(seen).filter(|(_, seen)| *seen).map(|(l, _)| l.clone()).collect();
    let numbers: Option<Vec<f64>> = classes.iter().map(|c| c.parse().ok()).collect();
    match numbers {
        Some(_) => classes.sort_by(|a, b| a.parse::<f64>().unwrap_or(0.0).total_cmp(&b.parse::<f64>().unwrap_or(0.0))),
        None => classes.sort_unstable(),
    }
    classes
}
