//! Inputs without targets, from a file: what a trained model is asked.
use super::{
    arrays::{Arrays, floats},
    habits, refused,
    source::{KINDS, image_options, pixels, scale},
    table::{TableSource, limits},
};
use crate::{Failure, config::Section};
use adamant_core::Tensor;
use adamant_data::{BadRecord, Columns, Dataset, Facts, Frame, FrameInputs, Idx, ImageOptions, Policy, Rows, Table as Numbers, is_image, read_image};
use adamant_formats::npy::Npy;
use std::{path::Path, sync::Arc};

/// Inputs without targets, from a file, prepared as those of a run's data.
pub struct Inputs {
    rows: AnyRows,
    good: Vec<usize>,
    left_out: Vec<BadRecord>,
}
enum AnyRows {
    Plain(Rows),
    Table(FrameInputs),
}
impl Inputs {
    /// Those of a file: CSV with or without the column that is predicted, IDX, npy, or one image. `kept` is what a run has
    /// kept of its table's columns.
    ///
    /// # Errors
    /// A file that cannot be read, or data of a kind that has no such inputs; a bad record, unless the section's
    /// `on_bad_record` says otherwise.
    pub fn of(s: &Section<'_>, path: &Path, kept: Option<&Arc<Columns>>) -> Result<Inputs, Failure> {
        let policy = habits(s, Path::new(""))?.policy;
        let rows = match read(s, path, kept) {
            Ok(rows) => rows,
            // A picture is one record.
            Err(Failure::Input(reason)) if policy != Policy::Fail && is_image(path) => {
                let place = adamant_data::Place { file: path.to_path_buf(), index: 0, offset: 0 };
                return Ok(Inputs {
                    rows: AnyRows::Plain(Rows::new(Vec::<f32>::new(), [0, 1])?),
                    good: Vec::new(),
                    left_out: vec![BadRecord::new(place, reason)],
                });
            }
            Err(e) => return Err(e),
        };
        let at_most = match policy {
            Policy::Fail => 0,
            Policy::Skip { at_most } | Policy::Quarantine { at_most, .. } => at_most,
        };
        let (mut good, mut left_out) = (Vec::new(), Vec::new());
        for row in 0..rows.len() {
            match rows.read(row) {
                Ok(row) => good.push(row),
                Err(bad) if left_out.len() >= at_most => return Err(refused(&bad)),
                Err(bad) => left_out.push(bad),
            }
        }
        Ok(Inputs { rows, good, left_out })
    }
    /// The records that are left out, as the run's `on_bad_record` says.
    pub fn left_out(&self) -> &[BadRecord] {
        &self.left_out
    }
    /// What was found out about the file, and may be wrong.
    pub fn notes(&self) -> Vec<String> {
        match &self.rows {
            AnyRows::Table(rows) if rows.frame().head().found && rows.frame().head().header => {
                vec![format!("{}: its first line is taken for the names of the columns", rows.frame().path().display())]
            }
            _ => Vec::new(),
        }
    }
    /// The inputs in batches of at most `batch` rows, in order, each with the numbers of its rows in the file.
    pub fn batches(&self, batch: usize) -> impl Iterator<Item = Result<(Vec<usize>, Tensor), Failure>> {
        self.good.chunks(batch.max(1)).map(|rows| Ok((rows.to_vec(), self.rows.collate(rows.to_vec())?)))
    }
}
impl AnyRows {
    fn len(&self) -> usize {
        match self {
            AnyRows::Plain(rows) => rows.len(),
            AnyRows::Table(rows) => rows.len(),
        }
    }
    fn read(&self, row: usize) -> Result<usize, BadRecord> {
        match self {
            AnyRows::Plain(rows) => rows.read(row),
            AnyRows::Table(rows) => rows.read(row),
        }
    }
    fn collate(&self, rows: Vec<usize>) -> adamant_core::Result<Tensor> {
        match self {
            AnyRows::Plain(all) => all.collate(rows),
            AnyRows::Table(all) => all.collate(rows),
        }
    }
}
fn read(s: &Section<'_>, path: &Path, kept: Option<&Arc<Columns>>) -> Result<AnyRows, Failure> {
    let kind = s.kind(&KINDS)?;
    let refuse = |what: &str| Failure::Usage(format!("{}: {what}", path.display()));
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    let rows = match kind {
        "npy" => {
            let file = Npy::open(path)?;
            match Arrays::of(s)?.inputs(file.elements()?, file.meta().1, path, kept)? {
                Ok(rows) => rows,
                Err(rows) => return Ok(AnyRows::Table(rows)),
            }
        }
        "csv" if extension == "npy" && kept.is_some() => {
            let file = Npy::open(path)?;
            let (shape, Some(columns)) = (file.meta().1, kept) else { return Err(refuse("nothing was kept of the run's table")) };
            if shape.rank() != 2 || shape[1] != columns.inputs.len() || shape[1] != columns.features() {
                let needed = columns.inputs.len();
                return Err(Failure::Input(format!("{}: its shape is {shape}; the model takes [rows, {needed}] of numbers, or a table", path.display())));
            }
            let frame = Frame::of_numbers(path, shape[1], floats(&file.elements()?), s.flag("allow_nonfinite")?.unwrap_or(false))?;
            return Ok(AnyRows::Table(FrameInputs::new(Arc::new(frame), columns.clone(), (0..shape[1]).collect())?));
        }
        _ if extension == "npy" => Rows::read_npy(path)?.finite(path),
        "csv" => match kept {
            Some(columns) => return Ok(AnyRows::Table(TableSource::of(s)?.inputs(path, columns)?)),
            // A run of an older version: what its description says is all there is.
            None => {
                let table = Numbers::read_csv(path)?;
                let values: Vec<f32> = (0..table.len()).flat_map(|r| table.row(r).to_vec()).collect();
                Rows::new(values, [table.len(), table.width()])?.finite(path).scaled(scale(s, true, true)?)?
            }
        },
        "images" => Rows::from_tensor(&read_image(path, &image_options(s)?)?)?,
        "idx" if is_image(path) => Rows::from_tensor(&read_image(path, &ImageOptions { channels: 1, size: None, scale: pixels(s)? })?)?,
        "idx" => {
            let rows = Idx::read_with(path, &limits(s)?)?.into_rows()?;
            let Some(Facts { shape, .. }) = rows.describe().inputs else { return Err(refuse("inputs of no shape")) };
            let size = if shape.rank() == 2 { [1, shape[0], shape[1]] } else { return Err(refuse("images are [rows, height, width]")) };
            rows.shaped(size)?.scaled(pixels(s)?)?
        }
        "text" => return Err(refuse("the run's model continues text: use `adamant generate`")),
        _ => return Err(refuse("the run's data are made up; give an npy of tokens")),
    };
    Ok(AnyRows::Plain(rows))
}
