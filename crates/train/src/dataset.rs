//! The data of a description: where it lies, how it is read, and how it falls into training, validation and test.
//!
//! `kind` is `csv`, `idx`, `images` (a folder for each class), `text`, or `permutation` (each of so many tokens is followed
//! by one other, to be learned by heart). Beside it stand the loader's habits: `workers`, `prefetch_factor`, `timeout`,
//! `on_bad_record`.
mod source;

use crate::{
    Failure,
    config::Section,
    evaluate::{EvaluateOptions, Show},
};
use adamant_core::Tensor;
use adamant_data::{
    AnyDataset, CsvOptions, DataLoader, Dataset, Examples, Facts, Idx, ImageOptions, Order, Policy, Rows, Table, Vocabulary, is_image, random_split,
    read_image, split_tail,
};
use source::{Source, image_options, pixels, scale};
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
    habits: Habits,
}
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
struct Habits {
    workers: usize,
    prefetch_factor: usize,
    timeout: Option<Duration>,
    policy: Policy,
}
impl Parts {
    /// The data of a section. Paths are relative to `folder`; `seed` decides which rows validate.
    ///
    /// # Errors
    /// What makes no sense, with its line; files that cannot be read.
    pub fn of(s: Section<'_>, folder: &Path, seed: u64) -> Result<Parts, Failure> {
        let (source, valid, habits) = Parts::said(&s, folder)?;
        let (train, test, show) = source.read(&s, folder)?;
        let (train, valid) = match valid {
            None => (train, None),
            Some(share) => hold_out(train, share, seed, source.is_text())?,
        };
        Ok(Parts { train, valid, test, show, habits })
    }
    /// What the section says, each of its keys asked for; no file is opened.
    fn said(s: &Section<'_>, folder: &Path) -> Result<(Source, Option<f64>, Habits), Failure> {
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
    pub fn loader(&self, seed: u64, batch: usize) -> Result<DataLoader<AnyDataset>, Failure> {
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
        EvaluateOptions { batch, workers: self.habits.workers, worst: 0 }
    }
}
/// Rows of a batch, by its targets.
pub(crate) fn rows_of(targets: &Tensor) -> Result<usize, Failure> {
    let shape = targets.shape()?;
    Ok(if shape.rank() == 0 { 1 } else { shape[0] })
}
/// The next batches of the epoch, at most so many: fewer at its end, none after it.
pub(crate) fn group(loader: &mut DataLoader<AnyDataset>, most: usize) -> Result<Vec<(Tensor, Tensor)>, Failure> {
    // An epoch may be shorter than what is asked for, by any number.
    let mut group = Vec::new();
    while group.len() < most && (group.is_empty() || loader.state().batch < loader.batches()) {
        match loader.next_batch() {
            Some(batch) => group.push(batch?),
            None => break,
        }
    }
    Ok(group)
}
fn habits(s: &Section<'_>, folder: &Path) -> Result<Habits, Failure> {
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
    let workers = s.size_in("workers", 0..=1024)?.unwrap_or(0);
    if timeout.is_some() && workers == 0 {
        return Err(s.wrong_key("timeout", "a record that hangs can be left only by a worker: say `workers` too"));
    }
    match s.size_in("prefetch_factor", 0..=1 << 16)? {
        Some(0) => Err(s.wrong_key("prefetch_factor", "at least one batch is read ahead")),
        factor => Ok(Habits { workers, prefetch_factor: factor.unwrap_or(2), timeout, policy }),
    }
}
/// A share of the training part, held out: chosen at random, or the end of a text.
fn hold_out(train: Examples, share: f64, seed: u64, is_text: bool) -> Result<(Examples, Option<Examples>), Failure> {
    let (left, held) = if is_text {
        split_tail(train, share)?
    } else {
        let mut parts = random_split(train, &[1.0 - share, share], seed)?.into_iter();
        match (parts.next(), parts.next()) {
            (Some(left), Some(held)) => (left, held),
            _ => return Err(Failure::Run("a split of two parts".into())),
        }
    };
    Ok((Arc::new(left), Some(Arc::new(held))))
}
/// Inputs without targets, from a file, prepared as those of a run's data.
pub struct Inputs {
    rows: Rows,
}
impl Inputs {
    /// Those of a file: CSV without the class, IDX, npy, or one image.
    ///
    /// # Errors
    /// A file that cannot be read, or data of a kind that has no such inputs.
    pub fn of(s: &Section<'_>, path: &Path) -> Result<Inputs, Failure> {
        let kind = s.kind(&source::KINDS)?;
        let refuse = |what: &str| Failure::Usage(format!("{}: {what}", path.display()));
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        let rows = match kind {
            _ if extension == "npy" => Rows::from_tensor(&adamant_formats::npy::read_npy(path)?)?,
            "csv" => {
                let options = CsvOptions { header: s.flag("header")?.unwrap_or(false), ..CsvOptions::default() };
                let table = Table::read_csv_with(path, &options)?;
                let values: Vec<f32> = (0..table.len()).flat_map(|r| table.row(r).to_vec()).collect();
                Rows::new(values, [table.len(), table.width()])?.scaled(scale(s)?)?
            }
            "images" => Rows::from_tensor(&read_image(path, &image_options(s)?)?)?,
            "idx" if is_image(path) => Rows::from_tensor(&read_image(path, &ImageOptions { channels: 1, size: None, scale: pixels(s)? })?)?,
            "idx" => {
                let rows = Idx::read(path)?.into_rows()?;
                let Some(Facts { shape, .. }) = rows.describe().inputs else { return Err(refuse("inputs of no shape")) };
                let size = if shape.rank() == 2 { [1, shape[0], shape[1]] } else { return Err(refuse("images are [rows, height, width]")) };
                rows.shaped(size)?.scaled(pixels(s)?)?
            }
            "text" => return Err(refuse("the run's model continues text: use `adamant generate`")),
            _ => return Err(refuse("the run's data are made up; give an npy of tokens")),
        };
        Ok(Inputs { rows })
    }
    /// The inputs in batches of at most `batch` rows, in order.
    pub fn batches(&self, batch: usize) -> impl Iterator<Item = Result<Tensor, Failure>> {
        let n = self.rows.len();
        (0..n).step_by(batch.max(1)).map(move |from| Ok(self.rows.gather(&(from..n.min(from + batch)).collect::<Vec<_>>())?))
    }
}
