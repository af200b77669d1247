//! The data of a description: where it lies, how it is read, and how it falls into training, validation and test.
//!
//! `kind` is `csv`, `idx`, `images` (a folder for each class), `text`, `npy`, or `permutation` (each of so many tokens is followed
//! by one other, to be learned by heart). Beside it stand the loader's habits: `workers`, `prefetch_factor`, `timeout`,
//! `on_bad_record`.
mod arrays;
mod describe;
mod inputs;
mod source;
mod split;
mod table;

pub use describe::describe_table;
pub use inputs::Inputs;

use crate::{
    Failure,
    config::Section,
    evaluate::{EvaluateOptions, Show, Units},
    session::StepSharing,
};
use adamant_core::Tensor;
use adamant_data::{AnyDataset, Augment, Augmented, BadRecord, Columns, DataLoader, Dataset, Examples, Order, Policy, Vocabulary, examples};
use source::Source;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Rows that are evaluated at once.
const EVALUATION_BATCH: usize = 256;
/// Tokens that are evaluated at once.
const EVALUATION_TOKENS: usize = 16_384;

/// The parts of a run's data, and how they are read.
pub struct Parts {
    /// what the model learns from
    pub train: Examples,
    /// what it is judged by while it learns
    pub valid: Option<Examples>,
    /// what it is judged by once, after training
    pub test: Examples,
    /// how a person sees an input
    pub show: Show,
    /// what the columns of a table become, as it was learned from the training part
    pub columns: Option<Arc<Columns>>,
    /// what a person should know of the files
    pub notes: Vec<String>,
    habits: ReadingHabits,
}
/// How files are read.
struct Reading<'a> {
    /// the share of the training part that is held out
    valid: Option<f64>,
    /// decides which rows those are
    seed: u64,
    /// is a bad record an error
    fails: bool,
    /// what a run has kept of its columns, instead of what these files would tell
    kept: Option<&'a Columns>,
}
impl Reading<'_> {
    /// Where a bad record is an error, it is one before anything is trained: of records that are in memory.
    fn check<D: Dataset>(&self, set: &D, rows: Option<&[usize]>) -> Result<(), Failure> {
        let check = |row: usize| set.read(row).map(drop).map_err(|bad| refused(&bad));
        match rows {
            _ if !self.fails => Ok(()),
            Some(rows) => rows.iter().try_for_each(|row| check(*row)),
            None => (0..set.len()).try_for_each(check),
        }
    }
}
fn refused(bad: &BadRecord) -> Failure {
    Failure::Input(format!("{}: {}; `on_bad_record = \"skip\"` leaves such records out", bad.place.file.display(), bad.reason))
}
/// What became of a table's columns, in a run folder.
const TABLE: &str = "table.json";
/// What a run has kept of its table's columns; none if it learned from something else.
///
/// # Errors
/// `Input`: the file is there and is damaged.
pub fn kept_columns(run: &Path) -> Result<Option<Arc<Columns>>, Failure> {
    let path = run.join(TABLE);
    let failed = |e: &dyn std::fmt::Display| Failure::Input(format!("{}: {}", path.display(), adamant_formats::shown_reason(e.to_string())));
    if !path.exists() {
        return Ok(None);
    }
    let text = adamant_formats::regular::read_text(&path, MOST_TABLE).map_err(|e| failed(&e))?;
    let columns: Columns = serde_json::from_str(&text).map_err(|e| failed(&e))?;
    columns.check().map_err(|e| failed(&e))?;
    Ok(Some(Arc::new(columns)))
}
/// Bytes of what is kept of a table.
const MOST_TABLE: u64 = 1 << 30;
/// What a section says of data that were not read.
pub(crate) struct Unread {
    /// what a run would read
    pub paths: Vec<PathBuf>,
    /// stand-ins for `$classes`, `$vocabulary`, `$features`
    pub words: Vec<(&'static str, usize)>,
    /// are numbers to be predicted, rather than classes?
    pub numbers: bool,
}
#[derive(Clone, Debug)]
struct ReadingHabits {
    workers: usize,
    prefetch_factor: usize,
    timeout: Option<Duration>,
    policy: Policy,
    /// what is done to the images of the training part, and their size where the inputs do not tell it
    augment: Option<(Augment, Option<[usize; 3]>)>,
}
impl Parts {
    /// The data of a section. Paths are relative to `folder`; `seed` decides which rows validate.
    ///
    /// # Errors
    /// What makes no sense, with its line; files that cannot be read.
    pub fn of(s: Section<'_>, folder: &Path, seed: u64) -> Result<Parts, Failure> {
        Parts::with(s, folder, seed, None)
    }
    /// The same with what a run has kept of its table's columns, instead of what these files would tell.
    ///
    /// # Errors
    /// As [`Parts::of`].
    pub fn with(s: Section<'_>, folder: &Path, seed: u64, kept: Option<&Columns>) -> Result<Parts, Failure> {
        let (source, valid, habits) = Parts::said(&s, folder)?;
        let read = source.read(&s, folder, &Reading { valid, seed, fails: habits.policy == Policy::Fail, kept })?;
        let train = augmented(&s, read.train, habits.augment, &read.show)?;
        Ok(Parts { train, valid: read.valid, test: read.test, show: read.show, columns: read.columns, notes: read.notes, habits })
    }
    /// Keeps in a run folder what the columns of a table become: `table.json`.
    ///
    /// # Errors
    /// `Storage`.
    pub fn keep_columns(&self, run: &Path) -> Result<(), Failure> {
        let Some(columns) = &self.columns else { return Ok(()) };
        let text = serde_json::to_string_pretty(&**columns).map_err(|e| Failure::Run(e.to_string()))?;
        crate::folder::write(&run.join(TABLE), text.as_bytes())
    }
    /// What the section says, each of its keys asked for; no file is opened.
    fn said(s: &Section<'_>, folder: &Path) -> Result<(Source, Option<f64>, ReadingHabits), Failure> {
        let source = Source::of(s)?;
        let valid = match s.number("valid")? {
            Some(share) if !(share > 0.0 && share < 1.0) => {
                return Err(s.wrong_key("valid", format!("{share} of the training part cannot be held out; say a share between 0 and 1")));
            }
            share => share,
        };
        let habits = habits(s, folder)?;
        s.finish()?;
        Ok((source, valid, habits))
    }
    /// Checks a section without opening a file. Gives the files and folders that a run would read, and numbers that stand
    /// for those that follow from the data.
    ///
    /// # Errors
    /// What makes no sense, with its line.
    pub(crate) fn check(s: &Section<'_>, folder: &Path) -> Result<Unread, Failure> {
        let (source, ..) = Parts::said(s, folder)?;
        Ok(Unread { paths: source.paths(folder), words: source.words(), numbers: source.numbers() })
    }
    /// The training part in shuffled batches.
    ///
    /// # Errors
    /// Habits that make no sense.
    pub fn loader(&self, seed: u64, batch: usize, sharing: Option<&StepSharing>) -> Result<DataLoader<AnyDataset>, Failure> {
        let h = &self.habits;
        let mut builder = DataLoader::new(self.train.clone())
            .order(Order::Shuffle { seed })
            .batch_size(batch)
            .workers(h.workers)
            .prefetch_factor(h.prefetch_factor)
            .on_bad_record(h.policy.clone());
        if let Some(limit) = h.timeout {
            builder = builder.timeout(limit);
        }
        if let Some(sharing) = sharing {
            builder = builder.parts(sharing.held(), sharing.parts);
        }
        Ok(builder.build()?)
    }
    /// What the tokens stand for, where text is learned.
    pub fn vocabulary(&self) -> Option<&Vocabulary> {
        if let Show::Text(vocabulary) = &self.show { Some(vocabulary) } else { None }
    }
    /// How the parts are evaluated.
    pub fn evaluation(&self) -> EvaluateOptions {
        let tokens = self.test.describe().inputs.filter(|_| matches!(self.show, Show::Text(_))).map(|f| f.shape.elements().max(1));
        let batch = tokens.map_or(EVALUATION_BATCH, |n| (EVALUATION_TOKENS / n).max(1));
        let units = self.columns.as_deref().map(Units::of).unwrap_or_default();
        EvaluateOptions { batch, workers: self.habits.workers, worst: 0, policy: self.habits.policy.clone(), units: Arc::new(units), region: None }
    }
}
/// Rows of a batch, by its targets.
pub(crate) fn rows_of(targets: &Tensor) -> Result<usize, Failure> {
    let shape = targets.shape()?;
    Ok(if shape.rank() == 0 { 1 } else { shape[0] })
}
fn habits(s: &Section<'_>, folder: &Path) -> Result<ReadingHabits, Failure> {
    let at_most = s.size("at_most")?.unwrap_or(100);
    let quarantine = s.text("quarantine")?.map(PathBuf::from);
    let policy = match s.text("on_bad_record")? {
        None | Some("fail") => Policy::Fail,
        Some("skip") => Policy::Skip { at_most },
        Some("quarantine") => Policy::Quarantine { file: folder.join(quarantine.unwrap_or_else(|| "quarantine.jsonl".into())), at_most },
        Some(other) => return Err(s.wrong_key("on_bad_record", format!("there is no `{other}`; there are fail, skip, quarantine"))),
    };
    let timeout = match s.number("timeout")? {
        None => None,
        Some(seconds) if seconds > 0.0 && seconds < 1e9 => Some(Duration::from_secs_f64(seconds)),
        Some(seconds) => return Err(s.wrong_key("timeout", format!("{seconds} is no number of seconds to wait"))),
    };
    let augment = s.section("augment")?.map(|s| augment(&s)).transpose()?;
    let workers = s.size_in("workers", 0..=1024)?.unwrap_or(0);
    if timeout.is_some() && workers == 0 {
        return Err(s.wrong_key("timeout", "a record that hangs can be left only by a worker: say `workers` too"));
    }
    match s.size_in("prefetch_factor", 0..=1 << 16)? {
        Some(0) => Err(s.wrong_key("prefetch_factor", "at least one batch is read ahead")),
        factor => Ok(ReadingHabits { workers, prefetch_factor: factor.unwrap_or(2), timeout, policy, augment }),
    }
}
/// `[data.augment]`: what is done to images while they are learned from.
fn augment(s: &Section<'_>) -> Result<(Augment, Option<[usize; 3]>), Failure> {
    let share = |key: &'static str| -> Result<f64, Failure> {
        match s.number(key)?.unwrap_or(0.0) {
            p if (0.0..=1.0).contains(&p) => Ok(p),
            p => Err(s.wrong_key(key, format!("it is a probability from 0 to 1, as 0.5, not {p}"))),
        }
    };
    let (horizontal_flip, vertical_flip) = (share("horizontal_flip")?, share("vertical_flip")?);
    let rotate = s.number("rotate")?.unwrap_or(0.0);
    if !(0.0..=180.0).contains(&rotate) {
        return Err(s.wrong_key("rotate", "an image is rotated by at most so many degrees, from 0 to 180"));
    }
    let crop = s.size("crop")?.unwrap_or(0);
    let size = match s.sizes("shape")?.as_deref() {
        None => None,
        Some([channels, height, width]) => Some([*channels, *height, *width]),
        Some(other) => return Err(s.wrong_key("shape", format!("{} sizes; say channels, height and width, as [1, 8, 8]", other.len()))),
    };
    s.finish()?;
    Ok((Augment { horizontal_flip, vertical_flip, crop, rotate }, size))
}
/// The training part with its images changed as it is read.
fn augmented(s: &Section<'_>, train: Examples, augment: Option<(Augment, Option<[usize; 3]>)>, show: &Show) -> Result<Examples, Failure> {
    let Some((augment, size)) = augment else { return Ok(train) };
    let shape = train.describe().inputs.map(|f| f.shape);
    let seen = match (size, show, shape.as_deref()) {
        (Some(size), ..) => size,
        (None, Show::Image(size), _) => *size,
        (None, _, Some([channels, height, width])) => [*channels, *height, *width],
        _ => return Err(s.wrong_key("augment", "only images are changed so; `data.augment.shape = [channels, height, width]` says that the inputs are some")),
    };
    let largest = seen[1].max(seen[2]);
    if augment.crop >= largest.max(1) {
        return Err(s.wrong_key("augment", format!("a crop of {} pixels leaves nothing of images of {seen:?}", augment.crop)));
    }
    let images = Augmented::new(train, augment, seen).map_err(|e| s.wrong_key("augment", e.kind()))?;
    Ok(examples(images))
}
