//! Arrays of NumPy: `kind = "npy"`. Inputs and targets are two npy files, or two arrays of an npz file.
use super::{
    Reading,
    source::{GivenClasses, Read, classes, scale},
    split::{self, TestSplit},
};
use crate::{Failure, config::Section, evaluate::Show};
use adamant_core::{DType, Element, HostVec, Shape};
use adamant_data::{Answer, Columns, Examples, Frame, FrameInputs, Habit, Labelled, Limits, Missing, Rows, Scale, ScaleBy, TargetScale, examples, learn};
use adamant_formats::{npy::Npy, npz::Npz};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What a section says of arrays.
pub(in crate::dataset) struct Arrays {
    /// an npz file, in which `inputs` and `targets` are names; else they are npy files
    path: Option<PathBuf>,
    inputs: String,
    targets: String,
    /// none where numbers are predicted
    classes: Option<GivenClasses>,
    split: TestSplit,
    by: ScaleBy,
    fixed: Option<Scale>,
    allow_nonfinite: bool,
}
impl Arrays {
    /// Asks for every key; no file is opened.
    pub fn of(s: &Section<'_>) -> Result<Arrays, Failure> {
        let by = match s.text("scale")? {
            None | Some("none") => ScaleBy::None,
            Some("standard") => ScaleBy::Standard,
            Some("minmax") => ScaleBy::Minmax,
            Some(other) => return Err(s.wrong_key("scale", format!("there is no `{other}`; there are none, standard, minmax"))),
        };
        let said = [s.number("divisor")?, s.number("mean")?, s.number("std")?].iter().any(Option::is_some);
        if said && by != ScaleBy::None {
            return Err(s.wrong_key("scale", "it is learned from the training part; `divisor`, `mean` and `std` are said instead of it"));
        }
        Ok(Arrays {
            path: s.text("path")?.map(PathBuf::from),
            inputs: s.need("inputs", s.text("inputs")?)?.into(),
            targets: s.need("targets", s.text("targets")?)?.into(),
            classes: classes(s)?,
            split: TestSplit::of(s)?
                .ok_or_else(|| s.missing(&["test"], "`data.test` is missing: the share of the rows that is tested on, as 0.25 (or a rule)"))?,
            by,
            fixed: if said { Some(scale(s, true, true)?) } else { None },
            allow_nonfinite: s.flag("allow_nonfinite")?.unwrap_or(false),
        })
    }
    /// Are numbers learned, rather than classes?
    pub fn numbers(&self) -> bool {
        self.classes.is_none()
    }
    /// How many classes there are.
    pub fn classes(&self) -> Option<usize> {
        self.classes.as_ref().map(GivenClasses::len)
    }
    /// The files that are read.
    pub fn paths(&self, folder: &Path) -> Vec<PathBuf> {
        match &self.path {
            Some(path) => vec![folder.join(path)],
            None => vec![folder.join(&self.inputs), folder.join(&self.targets)],
        }
    }
    fn array(&self, folder: &Path, name: &str) -> Result<(PathBuf, Shape, HostVec), Failure> {
        match &self.path {
            Some(path) => {
                let path = folder.join(path);
                let (_, shape, elements) = Npz::open(&path)?.elements(name)?;
                Ok((path, shape, elements))
            }
            None => {
                let path = folder.join(name);
                let file = Npy::open(&path)?;
                Ok((path, file.meta().1, file.elements()?))
            }
        }
    }
    /// Reads the files.
    pub fn read(&self, s: &Section<'_>, folder: &Path, how: &Reading<'_>) -> Result<Read, Failure> {
        let (path, shape, elements) = self.array(folder, &self.inputs)?;
        if shape.rank() == 0 {
            return Err(s.wrong_key("inputs", "an array without axes has no rows"));
        }
        let targets = self.targets(s, folder)?;
        let cut = |set: Examples| -> Result<(Examples, Option<Examples>, Examples), Failure> {
            let (train, test) = self.split.cut(&set, &|_| None)?;
            let (train, valid) = split::hold_out(train, how.valid, how.seed)?;
            Ok((train, valid, test))
        };
        if self.by == ScaleBy::None {
            let inputs = self.rows(elements, shape, &path)?;
            let set = Labelled::new(inputs, targets)?;
            how.check(&set, None)?;
            let (train, valid, test) = cut(examples(set))?;
            return Ok(Read { train, valid, test, show: Show::Nothing, columns: None, notes: Vec::new() });
        }
        if shape.rank() != 2 {
            return Err(s.wrong_key("scale", format!("columns are scaled of an array [rows, columns]; this one is {shape}")));
        }
        let frame = Arc::new(Frame::of_numbers(&path, shape[1], floats(&elements), self.allow_nonfinite)?);
        let columns = match how.kept {
            Some(kept) => Arc::new(kept.clone()),
            None => {
                let rows = split::rows(&cut(split::count(frame.len()))?.0);
                let habit = Habit { by: self.by, fixed: Scale::default(), missing: Missing::Fail };
                let inputs = (0..shape[1]).map(|k| learn(&frame, k, rows.iter().map(|r| *r as usize), habit)).collect::<Result<_, _>>()?;
                let answer = Answer::Values { names: Vec::new(), numbers: Vec::new(), scale: TargetScale::default() };
                Arc::new(Columns { header: false, width: shape[1], inputs, answer, unknown_is_none: false, apart: true })
            }
        };
        let set = Labelled::new(FrameInputs::new(frame, columns.clone(), (0..shape[1]).collect())?, targets)?;
        how.check(&set, None)?;
        let (train, valid, test) = cut(examples(set))?;
        Ok(Read { train, valid, test, show: Show::Nothing, columns: Some(columns), notes: Vec::new() })
    }
    fn targets(&self, s: &Section<'_>, folder: &Path) -> Result<Rows, Failure> {
        let (path, shape, elements) = self.array(folder, &self.targets)?;
        let Some(classes) = &self.classes else {
            if shape.rank() == 0 {
                return Err(s.wrong_key("targets", "an array without axes has no rows"));
            }
            return self.rows(elements, shape, &path);
        };
        if shape.rank() != 1 {
            return Err(s.wrong_key("targets", format!("one class for each row is an array of one axis; this one is {shape}")));
        }
        let count = classes.len();
        let (mut labels, mut bad) = (Vec::with_capacity(shape[0]), BTreeMap::new());
        for (row, v) in numbers(&elements).into_iter().enumerate() {
            let fits = v >= 0.0 && v.fract() == 0.0 && v < count as f64;
            labels.push(if fits { v as i64 } else { 0 });
            if !fits && bad.len() <= Limits::default().bad_records {
                bad.insert(row, format!("row {}: {v} is none of {count} classes", row + 1));
            }
        }
        Ok(Rows::classes(labels, count)?.class_names(classes.given()).with_bad(&path, bad))
    }
    /// Numbers as they come; those with a point become `f32`, and others too where a scale was said.
    fn rows(&self, elements: HostVec, shape: Shape, path: &Path) -> Result<Rows, Failure> {
        let is_float = matches!(elements.dtype(), DType::F16 | DType::BF16 | DType::F32 | DType::F64);
        let rows = Rows::of_elements(elements, shape)?;
        let rows = if is_float && !self.allow_nonfinite { rows.finite(path) } else { rows };
        match self.fixed {
            Some(fixed) => Ok(rows.scaled(fixed)?),
            None if is_float => Ok(rows.scaled(Scale::default())?),
            None => Ok(rows),
        }
    }
    /// New inputs for a trained model.
    pub fn inputs(&self, elements: HostVec, shape: Shape, path: &Path, kept: Option<&Arc<Columns>>) -> Result<Result<Rows, FrameInputs>, Failure> {
        match kept {
            Some(columns) if shape.rank() == 2 && shape[1] == columns.inputs.len() => {
                let frame = Arc::new(Frame::of_numbers(path, shape[1], floats(&elements), self.allow_nonfinite)?);
                Ok(Err(FrameInputs::new(frame, columns.clone(), (0..shape[1]).collect())?))
            }
            Some(columns) => {
                Err(Failure::Input(format!("{}: its shape is {shape}; the model was trained on [rows, {}]", path.display(), columns.inputs.len())))
            }
            None => Ok(Ok(self.rows(elements, shape, path)?)),
        }
    }
}
fn numbers(elements: &HostVec) -> Vec<f64> {
    macro_rules! each {
        ($($variant:ident),*) => { match elements { $(HostVec::$variant(v) => v.iter().map(|v| Element::to_f64(*v)).collect(),)* } };
    }
    each!(Bool, U8, I8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64)
}
/// As [`numbers`], in half the memory.
pub(super) fn floats(elements: &HostVec) -> Vec<f32> {
    macro_rules! each {
        ($($variant:ident),*) => { match elements { $(HostVec::$variant(v) => v.iter().map(|v| Element::to_f64(*v) as f32).collect(),)* } };
    }
    each!(Bool, U8, I8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64)
}
