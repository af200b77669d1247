//! Where the data of each kind lie. What a section says is read first ([`Source::of`]), every key of it, then the files
//! ([`Source::read`]): so a description can be checked where its data are not.
use super::{
    Reading,
    arrays::Arrays,
    split::{self, TestSplit, TestedFiles},
    table::{TableSource, limits},
};
use crate::{Failure, config::Section, evaluate::Show};
use adamant_data::{
    Columns, Dataset, Examples, Facts, Idx, ImageFolder, ImageOptions, Labelled, Limits, Permutation, Rows, Scale, Tokens, examples, split_tail,
};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The kinds of data.
pub(super) const KINDS: [&str; 6] = ["csv", "idx", "images", "text", "npy", "permutation"];

/// What came of the files.
pub(super) struct Read {
    pub train: Examples,
    pub valid: Option<Examples>,
    pub test: Examples,
    /// how a person sees an input
    pub show: Show,
    /// what a table's columns become
    pub columns: Option<Arc<Columns>>,
    /// what a person should know
    pub notes: Vec<String>,
}
impl Read {
    /// Parts without a validation part, which is held out of the first.
    fn of(train: Examples, test: Examples, show: Show, how: &Reading<'_>) -> Result<Read, Failure> {
        let (train, valid) = split::hold_out(train, how.valid, how.seed)?;
        Ok(Read { train, valid, test, show, columns: None, notes: Vec::new() })
    }
}

/// What a section says of its data.
pub(super) enum Source {
    Csv(Box<TableSource>),
    Idx { train: [NamedFile; 2], tested: TestedFiles, classes: GivenClasses, scale: Scale, limits: Limits },
    Images { path: PathBuf, test: Option<PathBuf>, split: Option<TestSplit>, options: ImageOptions },
    Text { path: PathBuf, context: usize, share: f64, bytes: bool },
    Arrays(Arrays),
    Permutation { classes: usize, rows: usize, seed: u64 },
}
/// A file that may be gzipped under its name with `.gz`.
pub(super) struct NamedFile(String);
impl NamedFile {
    fn find(&self, folder: &Path) -> PathBuf {
        let (plain, zipped) = (folder.join(&self.0), folder.join(format!("{}.gz", self.0)));
        if !plain.exists() && zipped.exists() { zipped } else { plain }
    }
}

impl Source {
    /// Asks for every key of the kind; no file is opened.
    pub fn of(s: &Section<'_>) -> Result<Source, Failure> {
        match s.kind(&KINDS)? {
            "csv" => Ok(Source::Csv(Box::new(TableSource::of(s)?))),
            "npy" => Ok(Source::Arrays(Arrays::of(s)?)),
            "idx" => idx(s),
            "images" => images(s),
            "text" => text(s),
            _ => permutation(s),
        }
    }
    /// Are numbers learned, rather than classes?
    pub fn numbers(&self) -> bool {
        match self {
            Source::Csv(table) => table.numbers(),
            Source::Arrays(arrays) => arrays.numbers(),
            _ => false,
        }
    }
    /// The files and folders that are read.
    pub fn paths(&self, folder: &Path) -> Vec<PathBuf> {
        match self {
            Source::Csv(table) => table.paths(folder),
            Source::Arrays(arrays) => arrays.paths(folder),
            Source::Text { path, .. } => vec![folder.join(path)],
            Source::Idx { train, tested, .. } => {
                let test = if let TestedFiles::Apart(files) = tested { &files[..] } else { &[] };
                train.iter().chain(test).map(|n| n.find(folder)).collect()
            }
            Source::Images { path, test, .. } => [Some(path), test.as_ref()].into_iter().flatten().map(|p| folder.join(p)).collect(),
            Source::Permutation { .. } => Vec::new(),
        }
    }
    /// Numbers that stand for those that follow from the data.
    pub fn words(&self) -> Vec<(&'static str, usize)> {
        let features = ("features", 1);
        let classes = |count: Option<usize>| count.map(|n| ("classes", n)).into_iter().chain([features]).collect();
        match self {
            Source::Csv(table) => classes(table.classes()),
            Source::Arrays(arrays) => classes(arrays.classes()),
            Source::Idx { classes: all, .. } => classes(Some(all.len())),
            Source::Permutation { classes: n, .. } => classes(Some(*n)),
            Source::Images { .. } => vec![("classes", 2), features],
            Source::Text { context, .. } => vec![("vocabulary", 256), ("features", *context)],
        }
    }
    /// Reads the files.
    ///
    /// # Errors
    /// Files that cannot be read, or that the section does not fit, with its line.
    pub fn read(&self, s: &Section<'_>, folder: &Path, how: &Reading<'_>) -> Result<Read, Failure> {
        match self {
            Source::Csv(table) => table.read(s, folder, how),
            Source::Arrays(arrays) => arrays.read(s, folder, how),
            Source::Idx { train, tested, classes, scale, limits } => {
                let part = |files: &[NamedFile; 2]| idx_part(files, folder, classes, *scale, limits, how);
                let (train, size) = part(train)?;
                let (train, test) = match tested {
                    TestedFiles::Apart(files) => (train, part(files)?.0),
                    TestedFiles::Split(split) => split.cut(&train, &|_| None)?,
                };
                Read::of(train, test, Show::Image(size), how)
            }
            Source::Images { path, test, split, options } => {
                let open = |sub: &Path| -> Result<Examples, Failure> { Ok(examples(ImageFolder::open(folder.join(sub), *options)?)) };
                let (train, test) = match (test, split) {
                    (Some(test), _) => (open(path)?, open(test)?),
                    (None, Some(split)) => split.cut(&open(path)?, &|_| None)?,
                    (None, None) => return Err(s.missing(&["test_path", "test"], "`data.test_path` is missing, or a rule `data.test`")),
                };
                let show = match train.describe().inputs.map(|f| f.shape) {
                    Some(shape) if shape.rank() == 3 => Show::Image([shape[0], shape[1], shape[2]]),
                    _ => Show::Nothing,
                };
                Read::of(train, test, show, how)
            }
            Source::Text { path, context, share, bytes } => {
                let path = folder.join(path);
                let tokens = match (*bytes, how.fails) {
                    (true, _) => Tokens::read_bytes(&path)?,
                    (false, true) => Tokens::read_characters(&path)?,
                    (false, false) => Tokens::read_characters_or_bad(&path)?,
                };
                let vocabulary = tokens.vocabulary().clone();
                let (train, test) = tokens.split_tail(*share)?;
                // Training draws windows anywhere; the test reads each token of its part once.
                let (train, test) = (examples(train.windows(*context)?), examples(test.windows(*context)?.stride(*context)?));
                let read = Read { valid: None, train, test, show: Show::Text(vocabulary), columns: None, notes: Vec::new() };
                // Windows that overlap are no validation: it is the end of the text.
                let Some(share) = how.valid else { return Ok(read) };
                let (left, held) = split_tail(read.train, share)?;
                Ok(Read { train: Arc::new(left), valid: Some(Arc::new(held)), ..read })
            }
            Source::Permutation { classes, rows, seed } => {
                let next = Permutation::new(*classes as u64, *seed, 0);
                let part = |tokens: Vec<usize>| -> Result<Examples, Failure> {
                    let targets = tokens.iter().map(|t| next.at(*t as u64) as i64).collect();
                    let inputs: Vec<i64> = tokens.into_iter().map(|t| t as i64).collect();
                    let n = inputs.len();
                    Ok(examples(Labelled::new(Rows::new(inputs, [n])?, Rows::classes(targets, *classes)?)?))
                };
                // What is tested is what was to be learned by heart: every token once.
                Read::of(part((0..*rows).map(|k| k % classes).collect())?, part((0..*classes).collect())?, Show::Nothing, how)
            }
        }
    }
}
/// How numbers of a file become inputs. A mean or a deviation that is a list is another's affair.
pub(super) fn scale(s: &Section<'_>, mean: bool, std: bool) -> Result<Scale, Failure> {
    let number =
        |key: &'static str, asked: bool, usual: f32| -> Result<f32, Failure> { Ok(if asked { s.number(key)? } else { None }.map_or(usual, |v| v as f32)) };
    let d = Scale::default();
    let scale = Scale { divide: number("divisor", true, d.divide)?, mean: number("mean", mean, d.mean)?, std: number("std", std, d.std)? };
    for (key, v) in [("divisor", scale.divide), ("std", scale.std)] {
        if v == 0.0 || !v.is_finite() {
            return Err(s.wrong_key(key, "numbers cannot be divided by it"));
        }
    }
    if !scale.mean.is_finite() {
        return Err(s.wrong_key("mean", "it is no number that can be subtracted"));
    }
    Ok(scale)
}
/// The most classes that data may have: each is given a name.
const MOST_CLASSES: usize = 1 << 20;
/// The classes that a description says there are.
#[derive(Clone)]
pub(super) enum GivenClasses {
    /// so many, called by their numbers from 0
    Count(usize),
    /// these, in order
    Named(Vec<String>),
}
impl GivenClasses {
    pub fn len(&self) -> usize {
        match self {
            GivenClasses::Count(n) => *n,
            GivenClasses::Named(names) => names.len(),
        }
    }
    /// Their names, where they have some beside their numbers.
    pub fn given(&self) -> Vec<String> {
        if let GivenClasses::Named(names) = self { names.clone() } else { Vec::new() }
    }
    pub fn names(&self) -> Vec<String> {
        match self {
            GivenClasses::Count(n) => (0..*n).map(|k| k.to_string()).collect(),
            GivenClasses::Named(names) => names.clone(),
        }
    }
}
/// `classes`: how many there are, or their names.
pub(super) fn classes(s: &Section<'_>) -> Result<Option<GivenClasses>, Failure> {
    if s.is_int("classes") {
        return Ok(s.size_in("classes", 1..=MOST_CLASSES)?.map(GivenClasses::Count));
    }
    let Some(names) = s.texts("classes")? else { return Ok(None) };
    if s.is_text("classes") {
        return Err(s.wrong_key("classes", "it takes a number, or a list of names; this is one text"));
    }
    let different: HashSet<&String> = names.iter().collect();
    if names.is_empty() || different.len() < names.len() {
        return Err(s.wrong_key("classes", "each class has a name of its own, and there is at least one"));
    }
    Ok(Some(GivenClasses::Named(names)))
}
/// The same for bytes of pixels, which become 0 to 1 unless the section says otherwise.
pub(super) fn pixels(s: &Section<'_>) -> Result<Scale, Failure> {
    Ok(Scale { divide: s.number("divisor")?.unwrap_or(255.0) as f32, ..scale(s, true, true)? })
}
/// How files become images.
pub(super) fn image_options(s: &Section<'_>) -> Result<ImageOptions, Failure> {
    let size = match s.sizes("size")?.as_deref() {
        None => None,
        Some(sides) if sides.iter().any(|side| !(1..=1 << 14).contains(side)) => {
            return Err(s.wrong_key("size", format!("a side has from 1 to {} pixels", 1 << 14)));
        }
        Some([side]) => Some((*side, *side)),
        Some([height, width]) => Some((*height, *width)),
        Some(other) => return Err(s.wrong_key("size", format!("{} sizes; say one side, or height and width", other.len()))),
    };
    Ok(ImageOptions { channels: s.size("channels")?.unwrap_or(3), size, scale: pixels(s)? })
}
fn idx(s: &Section<'_>) -> Result<Source, Failure> {
    let file = |key: &'static str, usual: &str| -> Result<NamedFile, Failure> { Ok(NamedFile(s.text(key)?.unwrap_or(usual).to_string())) };
    let test = [file("test_images", "t10k-images-idx3-ubyte")?, file("test_labels", "t10k-labels-idx1-ubyte")?];
    let tested = match TestSplit::of(s)? {
        None => TestedFiles::Apart(test),
        Some(_) if s.text("test_images")?.is_some() || s.text("test_labels")?.is_some() => {
            return Err(s.wrong_key("test", "there are `test_images` or `test_labels` too; say one of them"));
        }
        Some(split) => TestedFiles::Split(split),
    };
    Ok(Source::Idx {
        classes: classes(s)?.unwrap_or(GivenClasses::Count(10)),
        scale: pixels(s)?,
        train: [file("train_images", "train-images-idx3-ubyte")?, file("train_labels", "train-labels-idx1-ubyte")?],
        tested,
        limits: limits(s)?,
    })
}
fn idx_part(
    [images, labels]: &[NamedFile; 2],
    folder: &Path,
    classes: &GivenClasses,
    scale: Scale,
    limits: &Limits,
    how: &Reading<'_>,
) -> Result<(Examples, [usize; 3]), Failure> {
    let path = images.find(folder);
    let images = Idx::read_with(&path, limits)?.into_rows()?;
    let Some(Facts { shape, .. }) = images.describe().inputs else { return Err(Failure::Input(format!("{}: images of no shape", path.display()))) };
    let size = match *shape {
        [height, width] => [1, height, width],
        [channels, height, width] => [channels, height, width],
        _ => return Err(Failure::Input(format!("{}: images are [height, width] or [channels, height, width], not {shape}", path.display()))),
    };
    let images = images.shaped(size)?.scaled(scale)?;
    let labels = Idx::read_with(labels.find(folder), limits)?.into_classes(classes.len())?.class_names(classes.given());
    let set = Labelled::new(images, labels)?;
    how.check(&set, None)?;
    Ok((examples(set), size))
}
fn images(s: &Section<'_>) -> Result<Source, Failure> {
    let options = image_options(s)?;
    let path = s.text("path")?.unwrap_or("").into();
    let test: Option<PathBuf> = s.text("test_path")?.map(PathBuf::from);
    let split = if test.is_some() { None } else { Some(s.need("test", TestSplit::of(s)?)?) };
    Ok(Source::Images { path, test, split, options })
}
fn text(s: &Section<'_>) -> Result<Source, Failure> {
    let path = s.text("path")?.unwrap_or("input.txt").into();
    let context = s.need("context", s.size("context")?)?;
    let share = s.number("test")?.unwrap_or(0.1);
    if context == 0 {
        return Err(s.wrong_key("context", "a window has at least one token"));
    }
    if !(share > 0.0 && share < 1.0) {
        return Err(s.wrong_key("test", "the test part is a share of the text between 0 and 1: its end"));
    }
    let bytes = match s.text("tokens")? {
        None | Some("characters") => false,
        Some("bytes") => true,
        Some(other) => return Err(s.wrong_key("tokens", format!("there is no `{other}`; there are characters, bytes"))),
    };
    Ok(Source::Text { path, context, share, bytes })
}
fn permutation(s: &Section<'_>) -> Result<Source, Failure> {
    // All of it is made in memory.
    let classes = s.need("classes", s.size_in("classes", 1..=1 << 22)?)?;
    let rows = s.need("rows", s.size_in("rows", 1..=1 << 22)?)?;
    let seed = s.count("seed")?.unwrap_or(0);
    Ok(Source::Permutation { classes, rows, seed })
}
