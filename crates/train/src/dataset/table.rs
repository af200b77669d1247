//! Tables: `kind = "csv"`. Columns are found by name or number; what they become is learned from the rows of the training
//! part that are left when the validation part is held out, and kept with the run.
use super::{
    Reading,
    source::{GivenClasses, Read, classes, scale},
    split::{self, Tested},
};
use crate::{Failure, config::Section, evaluate::Show};
use adamant_data::{
    Answer, Becomes, Column, Columns, CsvOptions, Delimiter, Examples, Frame, FrameAnswers, FrameFile, FrameInputs, FrameOptions, Habit, Head, Kind, Labelled,
    Limits, Missing, Pick, Scale, ScaleBy, Subset, TargetScale, examples, learn, learn_classes,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Fields that stand for a missing value where nothing else is said.
pub(in crate::dataset) const MISSING: [&str; 9] = ["", "NA", "N/A", "?", "null", "NULL", "None", "nan", "NaN"];

/// What a section says of a table.
pub(in crate::dataset) struct TableSource {
    pub path: PathBuf,
    /// the answers, where they stand in a file of their own
    pub target_path: Option<PathBuf>,
    pub tested: Tested,
    csv: CsvOptions,
    learned: LearnedTarget,
    columns: Option<Vec<String>>,
    ignore: Vec<String>,
    categorical: Vec<String>,
    habit: Habit,
    /// by input, where each was given its own
    means: Option<Vec<f64>>,
    stds: Option<Vec<f64>>,
    allow_nonfinite: bool,
    unknown_is_none: bool,
}
/// What is to be predicted.
pub(in crate::dataset) enum LearnedTarget {
    /// a class, by its column, and how many there are or their names
    /// without classes: those of the training part, sorted
    Class { label: Option<String>, classes: Option<GivenClasses> },
    /// numbers, by their columns
    Numbers { targets: Option<Vec<String>>, scaled: bool },
}

impl TableSource {
    /// Asks for every key; no file is opened.
    pub fn of(s: &Section<'_>) -> Result<TableSource, Failure> {
        let path = s.need("path", s.text("path")?)?.into();
        let target_path: Option<PathBuf> = s.text("target_path")?.map(PathBuf::from);
        let classes = classes(s)?;
        let (label, targets) = (s.columns("label")?, s.columns("targets")?);
        let scaled = match s.text("target_scale")? {
            None | Some("none") => false,
            Some("standard") => true,
            Some(other) => return Err(s.wrong_key("target_scale", format!("there is no `{other}`; there are none, standard"))),
        };
        let learned = match (label, targets) {
            (Some(label), None) => match <[String; 1]>::try_from(label) {
                Ok([label]) => LearnedTarget::Class { label: Some(label), classes },
                Err(_) => return Err(s.wrong_key("label", "one column holds the class")),
            },
            (None, Some(targets)) => LearnedTarget::Numbers { targets: Some(targets), scaled },
            (None, None) if target_path.is_some() => match classes {
                Some(_) => LearnedTarget::Class { label: None, classes },
                None => LearnedTarget::Numbers { targets: None, scaled },
            },
            (None, None) => {
                return Err(s.missing(
                    &["label", "targets"],
                    "`data.label` is missing: the column of the class (or `targets`, the columns of numbers to be predicted)",
                ));
            }
            (Some(_), Some(_)) => return Err(s.wrong_key("targets", "there is `label` too; say one of them")),
        };
        if scaled && matches!(learned, LearnedTarget::Class { .. }) {
            return Err(s.wrong_key("target_scale", "a class is no number to be scaled; it goes with `targets`"));
        }
        let missing = one_of(s, "missing", &[("fail", Missing::Fail), ("skip", Missing::Skip), ("mean", Missing::Mean), ("median", Missing::Median)])?;
        let by = one_of(s, "scale", &[("none", ScaleBy::None), ("standard", ScaleBy::Standard), ("minmax", ScaleBy::Minmax)])?;
        let list = |key: &'static str| -> Result<Option<Vec<f64>>, Failure> { if s.is_list(key) { s.numbers(key) } else { Ok(None) } };
        let (means, stds) = (list("mean")?, list("std")?);
        if let Some(std) = stds.iter().flatten().find(|v| **v == 0.0 || !v.is_finite()) {
            return Err(s.wrong_key("std", format!("numbers cannot be divided by {std}")));
        }
        let fixed = scale(s, means.is_none(), stds.is_none())?;
        if by != ScaleBy::None && (fixed != Scale::default() || means.is_some() || stds.is_some()) {
            return Err(s.wrong_key("scale", "it is learned from the training part; `divisor`, `mean` and `std` are said instead of it"));
        }
        let unknown = one_of(s, "unknown", &[("fail", Some(false)), ("zero", Some(true))])?;
        Ok(TableSource {
            path,
            target_path,
            tested: Tested::of(s)?,
            csv: csv(s)?,
            learned,
            columns: s.columns("columns")?,
            ignore: s.columns("ignore")?.unwrap_or_default(),
            categorical: s.columns("categorical")?.unwrap_or_default(),
            habit: Habit { by, fixed, missing },
            means,
            stds,
            allow_nonfinite: s.flag("allow_nonfinite")?.unwrap_or(false),
            unknown_is_none: unknown.unwrap_or(false),
        })
    }
    /// Are numbers learned, rather than classes?
    pub fn numbers(&self) -> bool {
        matches!(self.learned, LearnedTarget::Numbers { .. })
    }
    /// How many classes there are, if that is known.
    pub fn classes(&self) -> Option<usize> {
        match &self.learned {
            LearnedTarget::Class { classes, .. } => Some(classes.as_ref().map_or(2, GivenClasses::len)),
            LearnedTarget::Numbers { .. } => None,
        }
    }
    /// The files that are read.
    pub fn paths(&self, folder: &Path) -> Vec<PathBuf> {
        let tested = if let Tested::Apart(path) = &self.tested { Some(path) } else { None };
        [Some(&self.path), self.target_path.as_ref(), tested].into_iter().flatten().map(|p| folder.join(p)).collect()
    }
    /// Reads the files, learns what becomes of the columns, or takes what a run has kept.
    pub fn read(&self, s: &Section<'_>, folder: &Path, how: &Reading<'_>) -> Result<Read, Failure> {
        let path = folder.join(&self.path);
        let opened = FrameFile::open(&path, &self.csv)?;
        let mut notes = Vec::new();
        if opened.head().found && opened.head().header {
            notes.push(format!("{}: its first line is taken for the names of the columns (say `header` to be sure)", path.display()));
        }
        let chosen = self.choose(s, opened.head())?;
        let frame = Arc::new(opened.read(&self.frame_options(&chosen))?);
        let apart = self.apart(s, folder, &frame)?;
        let (answers, places) = match &apart {
            Some((frame, places)) => (frame.clone(), places.clone()),
            None => (frame.clone(), (chosen.inputs..frame.columns().len()).collect()),
        };
        // Rows in which something is missing are left out before anything is divided.
        let whole = if self.habit.missing == Missing::Skip && (frame.has_missing() || answers.has_missing()) {
            Some((0..frame.len()).filter(|row| !frame.row_has_missing(*row) && !answers.row_has_missing(*row)).collect::<Arc<[usize]>>())
        } else {
            None
        };
        let of = |set: Examples| -> Result<Examples, Failure> {
            match &whole {
                Some(rows) => Ok(Arc::new(Subset::new(set, Pick::List(rows.clone()))?)),
                None => Ok(set),
            }
        };
        let label = |row: usize| {
            let value = answers.value(row, places[0]);
            (value >= 0.0).then_some(value as usize)
        };
        let class = |k: usize| label(whole.as_ref().map_or(k, |rows| rows[k]));
        let cut = |set: Examples| -> Result<(Examples, Option<Examples>, Option<Examples>), Failure> {
            let (train, test) = match &self.tested {
                Tested::Split(split) => {
                    let class: &dyn Fn(usize) -> Option<usize> = if self.numbers() { &|_| None } else { &class };
                    let (train, test) = split.cut(&of(set)?, class)?;
                    (train, Some(test))
                }
                Tested::Apart(_) => (of(set)?, None),
            };
            let (train, valid) = split::hold_out(train, how.valid, how.seed)?;
            Ok((train, valid, test))
        };
        let columns = match how.kept {
            Some(kept) => Arc::new(kept.clone()),
            None => {
                let rows = split::rows(&cut(split::count(frame.len()))?.0);
                Arc::new(self.learn(s, &frame, &chosen, &answers, &places, &rows)?)
            }
        };
        let set = Labelled::new(
            FrameInputs::new(frame.clone(), columns.clone(), (0..chosen.inputs).collect())?,
            FrameAnswers::new(answers.clone(), columns.clone(), places.clone())?,
        )?;
        how.check(&set, whole.as_deref())?;
        let (train, valid, test) = cut(examples(set))?;
        let test = match (&self.tested, test) {
            (_, Some(test)) => test,
            (Tested::Apart(path), None) => self.test(folder.join(path), &columns, how)?,
            (Tested::Split(_), None) => return Err(Failure::Run("a split without a test part".into())),
        };
        Ok(Read { train, valid, test, show: Show::Nothing, columns: Some(columns), notes })
    }
    /// The test part from a file of its own, of the same columns.
    fn test(&self, path: PathBuf, columns: &Arc<Columns>, how: &Reading<'_>) -> Result<Examples, Failure> {
        if columns.apart {
            return Err(Failure::Usage("`data.test_path`: with `target_path` the test part comes from the same two files; say `test`".into()));
        }
        let opened = FrameFile::open(&path, &self.csv)?;
        let mut picked = columns.find(&path, opened.head().header, &opened.head().names)?;
        let inputs = picked.len();
        let answers: Vec<(usize, &String)> = match &columns.answer {
            Answer::Class { number, name, .. } => vec![(*number, name)],
            Answer::Values { numbers, names, .. } => numbers.iter().copied().zip(names).collect(),
        };
        for (number, name) in answers {
            let there = if columns.header && opened.head().header { opened.head().names.iter().position(|n| n == name) } else { Some(number) };
            let number = there.filter(|n| *n < opened.head().names.len());
            let number =
                number.ok_or_else(|| Failure::Input(format!("{}: column `{}` is missing, which is tested", path.display(), adamant_data::shown(name))))?;
            picked.push((number, self.answer_kind()));
        }
        let options = FrameOptions { columns: picked, missing_is_bad: self.habit.missing == Missing::Fail, allow_nonfinite: self.allow_nonfinite };
        let frame = Arc::new(opened.read(&options)?);
        let places = (inputs..frame.columns().len()).collect();
        let set = Labelled::new(
            FrameInputs::new(frame.clone(), columns.clone(), (0..inputs).collect())?,
            FrameAnswers::new(frame.clone(), columns.clone(), places)?,
        )?;
        let rows = (self.habit.missing == Missing::Skip && frame.has_missing())
            .then(|| (0..frame.len()).filter(|row| !frame.row_has_missing(*row)).collect::<Arc<[usize]>>());
        how.check(&set, rows.as_deref())?;
        Ok(match rows {
            Some(rows) => Arc::new(Subset::new(examples(set), Pick::List(rows))?),
            None => examples(set),
        })
    }
    fn frame_options(&self, chosen: &ChosenColumns) -> FrameOptions {
        FrameOptions { columns: chosen.columns.clone(), missing_is_bad: self.habit.missing == Missing::Fail, allow_nonfinite: self.allow_nonfinite }
    }
    fn answer_kind(&self) -> Kind {
        match &self.learned {
            LearnedTarget::Class { classes: Some(GivenClasses::Count(_)), .. } | LearnedTarget::Numbers { .. } => Kind::Number,
            LearnedTarget::Class { .. } => Kind::Label,
        }
    }
    /// The columns that are read: first the inputs, then the answers.
    fn choose(&self, s: &Section<'_>, head: &Head) -> Result<ChosenColumns, Failure> {
        let find = |key: &str, names: &[String]| -> Result<Vec<usize>, Failure> {
            names.iter().map(|name| head.find(name).map_err(|what| s.wrong_key(key, what))).collect()
        };
        let answers = match &self.learned {
            _ if self.target_path.is_some() => Vec::new(),
            LearnedTarget::Class { label, .. } => find("label", label.as_slice())?,
            LearnedTarget::Numbers { targets, .. } => find("targets", targets.as_deref().unwrap_or_default())?,
        };
        if self.target_path.is_none() && answers.is_empty() {
            return Err(s.wrong_key("targets", "at least one column is needed"));
        }
        let (ignored, categorical) = (find("ignore", &self.ignore)?, find("categorical", &self.categorical)?);
        let inputs = match &self.columns {
            Some(columns) => find("columns", columns)?,
            None => (0..head.names.len()).filter(|c| !answers.contains(c) && !ignored.contains(c)).collect(),
        };
        if inputs.is_empty() {
            return Err(s.wrong(format!("of {} columns, none is left to learn from", head.names.len())));
        }
        if let Some(both) = inputs.iter().find(|c| answers.contains(c)) {
            return Err(s.wrong_key("columns", format!("column `{}` is to be predicted; it is no input", adamant_data::shown(&head.names[*both]))));
        }
        let kind = |column: usize| if categorical.contains(&column) { Kind::Text } else { Kind::Number };
        let count = inputs.len();
        let columns = inputs.into_iter().map(|c| (c, kind(c))).chain(answers.into_iter().map(|c| (c, self.answer_kind()))).collect();
        Ok(ChosenColumns { columns, inputs: count })
    }
    /// The answers from a file of their own: its frame, and the columns of it that are predicted.
    fn apart(&self, s: &Section<'_>, folder: &Path, inputs: &Frame) -> Result<Option<(Arc<Frame>, Vec<usize>)>, Failure> {
        let Some(path) = &self.target_path else { return Ok(None) };
        let path = folder.join(path);
        let csv = CsvOptions { header: None, delimiter: None, skip_rows: 0, ..self.csv.clone() };
        let opened = FrameFile::open(&path, &csv)?;
        let head = opened.head();
        let find = |key: &str, name: &String| head.find(name).map_err(|what| s.wrong_key(key, what));
        let columns: Vec<usize> = match &self.learned {
            LearnedTarget::Class { label: Some(label), .. } => vec![find("label", label)?],
            LearnedTarget::Class { label: None, .. } => vec![0],
            LearnedTarget::Numbers { targets: Some(targets), .. } => targets.iter().map(|t| find("targets", t)).collect::<Result<_, _>>()?,
            LearnedTarget::Numbers { targets: None, .. } => (0..head.names.len()).collect(),
        };
        let picked = columns.iter().map(|c| (*c, self.answer_kind())).collect();
        let options = FrameOptions { columns: picked, missing_is_bad: self.habit.missing == Missing::Fail, allow_nonfinite: self.allow_nonfinite };
        let frame = opened.read(&options)?;
        if frame.len() != inputs.len() {
            let what = format!("{} has {} rows, and {} has {}", path.display(), frame.len(), inputs.path().display(), inputs.len());
            return Err(Failure::Input(what));
        }
        Ok(Some((Arc::new(frame), (0..columns.len()).collect())))
    }
    fn learn(&self, s: &Section<'_>, frame: &Frame, chosen: &ChosenColumns, answers: &Frame, places: &[usize], rows: &[u32]) -> Result<Columns, Failure> {
        let rows = || rows.iter().map(|row| *row as usize);
        let mut inputs = Vec::with_capacity(chosen.inputs);
        for (key, given) in [("mean", &self.means), ("std", &self.stds)] {
            if let Some(given) = given.as_ref().filter(|given| given.len() != chosen.inputs) {
                return Err(s.wrong_key(key, format!("{} numbers for {} columns of inputs", given.len(), chosen.inputs)));
            }
        }
        for k in 0..chosen.inputs {
            let own = |given: &Option<Vec<f64>>, usual: f32| given.as_ref().map_or(usual, |v| v[k] as f32);
            let fixed = Scale { mean: own(&self.means, self.habit.fixed.mean), std: own(&self.stds, self.habit.fixed.std), ..self.habit.fixed };
            inputs.push(learn(frame, k, rows(), Habit { fixed, ..self.habit })?);
        }
        let (number, name) = (|p: usize| answers.columns()[p].0, |p: usize| answers.name(p).to_string());
        let answer = match &self.learned {
            LearnedTarget::Class { classes, .. } => {
                let classes = match classes {
                    Some(classes) => classes.names(),
                    None => learn_classes(answers, places[0], rows()),
                };
                if classes.is_empty() {
                    return Err(s.wrong_key("label", format!("column `{}` has no class in the training part", adamant_data::shown(name(places[0])))));
                }
                Answer::Class { name: name(places[0]), number: number(places[0]), classes }
            }
            LearnedTarget::Numbers { scaled, .. } => {
                let mut scale = TargetScale::default();
                for place in places.iter().filter(|_| *scaled) {
                    let habit = Habit { by: ScaleBy::Standard, fixed: Scale::default(), missing: Missing::Fail };
                    if let Column { becomes: Becomes::Number { mean, std, .. }, .. } = learn(answers, *place, rows(), habit)? {
                        scale.mean.push(mean);
                        scale.std.push(std);
                    }
                }
                Answer::Values { names: places.iter().map(|p| name(*p)).collect(), numbers: places.iter().map(|p| number(*p)).collect(), scale }
            }
        };
        Ok(Columns {
            header: frame.head().header,
            width: frame.head().names.len(),
            inputs,
            answer,
            unknown_is_none: self.unknown_is_none,
            apart: self.target_path.is_some(),
        })
    }
    /// New rows, from a file with the same columns: what a trained model answers.
    pub fn inputs(&self, path: &Path, columns: &Arc<Columns>) -> Result<FrameInputs, Failure> {
        // The lines that were left out before the training rows may not be there: they are, if the first is no row.
        let look = CsvOptions { skip_rows: 0, ..self.csv.clone() };
        let mut opened = FrameFile::open(path, &look)?;
        if self.csv.skip_rows > 0 && opened.head().title {
            opened = FrameFile::open(path, &self.csv)?;
        }
        let picked = columns.find(path, opened.head().header, &opened.head().names)?;
        let places = (0..picked.len()).collect();
        let options = FrameOptions { columns: picked, missing_is_bad: self.habit.missing == Missing::Fail, allow_nonfinite: self.allow_nonfinite };
        Ok(FrameInputs::new(Arc::new(opened.read(&options)?), columns.clone(), places)?)
    }
}
/// The columns of a file that are read.
struct ChosenColumns {
    columns: Vec<(usize, Kind)>,
    /// how many of them, the first, are inputs
    inputs: usize,
}
fn one_of<T: Copy + Default>(s: &Section<'_>, key: &'static str, values: &[(&str, T)]) -> Result<T, Failure> {
    let Some(given) = s.text(key)? else { return Ok(T::default()) };
    let known = || values.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    values.iter().find(|(name, _)| *name == given).map(|(_, v)| *v).ok_or_else(|| s.wrong_key(key, format!("there is no `{given}`; there are {}", known())))
}
/// How the file is cut into fields.
fn csv(s: &Section<'_>) -> Result<CsvOptions, Failure> {
    let header = match s.is_text("header") {
        true => match s.text("header")? {
            Some("auto") => None,
            _ => return Err(s.wrong_key("header", "true, false or \"auto\"")),
        },
        false => s.flag("header")?,
    };
    let delimiter = s.text("delimiter")?.map(|text| text.parse::<Delimiter>().map_err(|what| s.wrong_key("delimiter", what))).transpose()?;
    let byte = |key: &'static str| -> Result<Option<u8>, Failure> {
        match s.text(key)?.map(str::as_bytes) {
            None => Ok(None),
            Some([byte]) if byte.is_ascii_punctuation() => Ok(Some(*byte)),
            Some(_) => Err(s.wrong_key(key, "one character, as \"#\"")),
        }
    };
    let decimal_comma = match byte("decimal")? {
        None | Some(b'.') => false,
        Some(b',') => true,
        Some(_) => return Err(s.wrong_key("decimal", "numbers have a \".\" or a \",\"")),
    };
    let missing_values = s.texts("missing_values")?.unwrap_or_else(|| MISSING.map(String::from).to_vec());
    Ok(CsvOptions {
        header,
        delimiter,
        skip_rows: s.size("skip_rows")?.unwrap_or(0),
        comment: byte("comment")?,
        decimal_comma,
        columns: Vec::new(),
        missing_values,
        limits: limits(s)?,
    })
}
/// How much is read of a file at most.
pub(in crate::dataset) fn limits(s: &Section<'_>) -> Result<Limits, Failure> {
    let mut limits = Limits::default();
    let Some(s) = s.section("limits")? else { return Ok(limits) };
    for (key, limit) in [("inflated_bytes", &mut limits.inflated_bytes), ("inflate_ratio", &mut limits.inflate_ratio)] {
        *limit = s.size(key)?.map_or(*limit, |n| n as u64);
    }
    let sizes = [
        ("line_bytes", &mut limits.line_bytes),
        ("field_bytes", &mut limits.field_bytes),
        ("fields", &mut limits.fields),
        ("records", &mut limits.records),
        ("elements", &mut limits.elements),
        ("levels", &mut limits.levels),
        ("bad_records", &mut limits.bad_records),
    ];
    for (key, limit) in sizes {
        match s.size(key)? {
            // Rows are numbered by 32 bits, and a level by the whole numbers of an f32.
            Some(n) if n == 0 || (key == "records" && n > 1 << 32) || (key == "levels" && n > 1 << 24) => {
                return Err(s.wrong_key(key, format!("{n} is no limit that can be kept")));
            }
            given => *limit = given.unwrap_or(*limit),
        }
    }
    s.finish()?;
    Ok(limits)
}
