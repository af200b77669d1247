//! The data of a description: where it lies, how it is read, and how it falls into training, validation and test.
//!
//! `kind` is `csv`, `idx`, `images` (a folder for each class), `text`, or `permutation` (each of so many tokens is followed
//! by one other, to be learned by heart). Beside it stand the loader's habits: `workers`, `prefetch_factor`, `timeout`,
//! `on_bad_record`.
use crate::{
    Failure,
    config::Section,
    evaluate::{EvaluateOptions, Show},
};
use adamant_core::Tensor;
use adamant_data::{
    AnyDataset, CsvOptions, DataLoader, Dataset, Examples, Facts, Idx, ImageFolder, ImageOptions, Labelled, Order, Permutation, Policy, Rows, Scale, Table,
    Tokens, examples, is_image, random_split, read_image, split_by_rule, split_tail,
};
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
        let kind = s.kind(&["csv", "idx", "images", "text", "permutation"])?;
        let (train, test, show) = match kind {
            "csv" => csv(&s, folder)?,
            "idx" => idx(&s, folder)?,
            "images" => images(&s, folder)?,
            "text" => text(&s, folder)?,
            _ => permutation(&s)?,
        };
        let (train, valid) = match s.number("valid")? {
            None => (train, None),
            Some(share) if share > 0.0 && share < 1.0 => hold_out(train, share, seed, kind == "text")?,
            Some(share) => return Err(s.wrong_key("valid", format!("{share} of the training part cannot be held out; say a share between 0 and 1"))),
        };
        let habits = habits(&s, folder)?;
        s.finish()?;
        Ok(Parts { train, valid, test, show, habits })
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
    /// The text of each token, where text is learned.
    pub fn tokens(&self) -> Option<&[String]> {
        if let Show::Text(tokens) = &self.show { Some(tokens) } else { None }
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
    let mut group = Vec::with_capacity(most);
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
    let workers = s.size("workers")?.unwrap_or(0);
    if timeout.is_some() && workers == 0 {
        return Err(s.wrong_key("timeout", "a record that hangs can be left only by a worker: say `workers` too"));
    }
    match s.size("prefetch_factor")? {
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
type Read = (Examples, Examples, Show);

fn scale(s: &Section<'_>) -> Result<Scale, Failure> {
    let number = |key: &'static str, usual: f32| -> Result<f32, Failure> { Ok(s.number(key)?.map_or(usual, |v| v as f32)) };
    let d = Scale::default();
    let scale = Scale { divide: number("divisor", d.divide)?, mean: number("mean", d.mean)?, std: number("std", d.std)? };
    for (key, v) in [("divisor", scale.divide), ("std", scale.std)] {
        if v == 0.0 || !v.is_finite() {
            return Err(s.wrong_key(key, "numbers cannot be divided by it"));
        }
    }
    Ok(scale)
}
fn columns(s: &Section<'_>, table: &Table, key: &'static str) -> Result<Option<Vec<usize>>, Failure> {
    let Some(columns) = s.sizes(key)? else { return Ok(None) };
    match columns.iter().find(|c| **c >= table.width()) {
        Some(c) => Err(s.wrong_key(key, format!("there is no column {c} among {}", table.width()))),
        None => Ok(Some(columns)),
    }
}
/// Row i belongs to the test part if (i / divide) mod modulo = equals.
fn by_rule(s: &Section<'_>, whole: Examples) -> Result<(Examples, Examples), Failure> {
    let rule = s.need("test", s.section("test")?)?;
    let divide = rule.size("divide")?.unwrap_or(1);
    let modulo = rule.need("modulo", rule.size("modulo")?)?;
    let equals = rule.need("equals", rule.size("equals")?)?;
    if divide == 0 || modulo == 0 || equals >= modulo {
        return Err(rule.wrong("rows are tested if (i / divide) mod modulo = equals: divide is at least 1, and equals below modulo"));
    }
    rule.finish()?;
    let (train, test) = split_by_rule(whole, divide, modulo, equals)?;
    Ok((Arc::new(train), Arc::new(test)))
}
fn csv(s: &Section<'_>, folder: &Path) -> Result<Read, Failure> {
    let path = folder.join(s.need("path", s.text("path")?)?);
    let options = CsvOptions { header: s.flag("header")?.unwrap_or(false), ..CsvOptions::default() };
    let scale = scale(s)?;
    let (label, classes) = (s.size("label")?, s.size("classes")?);
    let table = Table::read_csv_with(&path, &options)?;
    // A class that is none is the file's fault, and says so with the file's name.
    let named = |e: adamant_core::Error| Failure::Input(format!("{}: {}", path.display(), e.kind()));
    let whole = match (label, columns(s, &table, "targets")?) {
        (Some(label), None) => {
            if label >= table.width() {
                return Err(s.wrong_key("label", format!("there is no column {label} among {}", table.width())));
            }
            examples(table.classification(label, s.need("classes", classes)?, scale).map_err(named)?)
        }
        (None, Some(targets)) => examples(table.regression(&targets, scale).map_err(named)?),
        (None, None) => return Err(s.wrong("`data.label` is missing: the column of the class (or `targets`, the columns of numbers to be predicted)")),
        (Some(_), Some(_)) => return Err(s.wrong_key("targets", "there is `label` too; say one of them")),
    };
    let (train, test) = by_rule(s, whole)?;
    Ok((train, test, Show::Nothing))
}
fn idx(s: &Section<'_>, folder: &Path) -> Result<Read, Failure> {
    let classes = s.size("classes")?.unwrap_or(10);
    let scale = Scale { divide: s.number("divisor")?.unwrap_or(255.0) as f32, ..scale(s)? };
    let file = |key: &'static str, usual: &str| -> Result<PathBuf, Failure> {
        let name = s.text(key)?.unwrap_or(usual);
        let (plain, zipped) = (folder.join(name), folder.join(format!("{name}.gz")));
        Ok(if !plain.exists() && zipped.exists() { zipped } else { plain })
    };
    let part = |images: PathBuf, labels: PathBuf| -> Result<(Examples, [usize; 3]), Failure> {
        let images = Idx::read(images)?.into_rows()?;
        let Some(Facts { shape, .. }) = images.describe().inputs else { return Err(Failure::Input("images of no shape".into())) };
        let size = match *shape {
            [height, width] => [1, height, width],
            [channels, height, width] => [channels, height, width],
            _ => return Err(Failure::Input(format!("images are [height, width] or [channels, height, width], not {shape}"))),
        };
        let images = images.shaped(size)?.scaled(scale)?;
        Ok((examples(Labelled::new(images, Idx::read(labels)?.into_classes(classes)?)?), size))
    };
    let (train, size) = part(file("train_images", "train-images-idx3-ubyte")?, file("train_labels", "train-labels-idx1-ubyte")?)?;
    let (test, _) = part(file("test_images", "t10k-images-idx3-ubyte")?, file("test_labels", "t10k-labels-idx1-ubyte")?)?;
    Ok((train, test, Show::Image(size)))
}
fn image_options(s: &Section<'_>) -> Result<ImageOptions, Failure> {
    let size = match s.sizes("size")?.as_deref() {
        None => None,
        Some([side]) => Some((*side, *side)),
        Some([height, width]) => Some((*height, *width)),
        Some(other) => return Err(s.wrong_key("size", format!("{} sizes; say one side, or height and width", other.len()))),
    };
    Ok(ImageOptions { channels: s.size("channels")?.unwrap_or(3), size, scale: Scale { divide: s.number("divisor")?.unwrap_or(255.0) as f32, ..scale(s)? } })
}
fn images(s: &Section<'_>, folder: &Path) -> Result<Read, Failure> {
    let options = image_options(s)?;
    let open = |sub: &str| ImageFolder::open(folder.join(sub), options);
    let path = s.text("path")?.unwrap_or("");
    let (train, test) = match s.text("test_path")? {
        Some(test) => (examples(open(path)?), examples(open(test)?)),
        None => by_rule(s, examples(open(path)?))?,
    };
    let show = match train.describe().inputs.map(|f| f.shape) {
        Some(shape) if shape.rank() == 3 => Show::Image([shape[0], shape[1], shape[2]]),
        _ => Show::Nothing,
    };
    Ok((train, test, show))
}
fn text(s: &Section<'_>, folder: &Path) -> Result<Read, Failure> {
    let path = folder.join(s.text("path")?.unwrap_or("input.txt"));
    let context = s.need("context", s.size("context")?)?;
    let share = s.number("test")?.unwrap_or(0.1);
    if context == 0 {
        return Err(s.wrong_key("context", "a window has at least one token"));
    }
    if !(share > 0.0 && share < 1.0) {
        return Err(s.wrong_key("test", "the test part is a share of the text between 0 and 1: its end"));
    }
    let tokens = match s.text("tokens")? {
        None | Some("characters") => Tokens::read_characters(&path)?,
        Some("bytes") => Tokens::read_bytes(&path)?,
        Some(other) => return Err(s.wrong_key("tokens", format!("there is no `{other}`; there are characters, bytes"))),
    };
    let vocabulary = tokens.vocabulary().clone();
    let names = (0..vocabulary.len() as u32).map(|t| vocabulary.decode(&[t])).collect();
    let (train, test) = tokens.split_tail(share)?;
    // Training draws windows anywhere; the test reads each token of its part once.
    Ok((examples(train.windows(context)?), examples(test.windows(context)?.stride(context)?), Show::Text(names)))
}
fn permutation(s: &Section<'_>) -> Result<Read, Failure> {
    let classes = s.need("classes", s.size("classes")?)?;
    let rows = s.need("rows", s.size("rows")?)?;
    let seed = s.size("seed")?.unwrap_or(0) as u64;
    if classes == 0 {
        return Err(s.wrong_key("classes", "at least one is needed"));
    }
    let next = Permutation::new(classes as u64, seed, 0);
    let part = |tokens: Vec<usize>| -> Result<Examples, Failure> {
        let targets = tokens.iter().map(|t| next.at(*t as u64) as i64).collect();
        let inputs: Vec<i64> = tokens.into_iter().map(|t| t as i64).collect();
        let n = inputs.len();
        Ok(examples(Labelled::new(Rows::new(inputs, [n])?, Rows::classes(targets, classes)?)?))
    };
    // What is tested is what was to be learned by heart: every token once.
    Ok((part((0..rows).map(|k| k % classes).collect())?, part((0..classes).collect())?, Show::Nothing))
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
        let kind = s.kind(&["csv", "idx", "images", "text", "permutation"])?;
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
            "idx" if is_image(path) => {
                let scale = Scale { divide: s.number("divisor")?.unwrap_or(255.0) as f32, ..scale(s)? };
                Rows::from_tensor(&read_image(path, &ImageOptions { channels: 1, size: None, scale })?)?
            }
            "idx" => {
                let rows = Idx::read(path)?.into_rows()?;
                let Some(Facts { shape, .. }) = rows.describe().inputs else { return Err(refuse("inputs of no shape")) };
                let size = if shape.rank() == 2 { [1, shape[0], shape[1]] } else { return Err(refuse("images are [rows, height, width]")) };
                rows.shaped(size)?.scaled(Scale { divide: s.number("divisor")?.unwrap_or(255.0) as f32, ..scale(s)? })?
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
