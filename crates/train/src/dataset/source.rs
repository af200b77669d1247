//! Where the data of each kind lie. What a section says is read first ([`Source::of`]), every key of it, then the files
//! ([`Source::read`]): so a description can be checked where its data are not.
use crate::{Failure, config::Section, evaluate::Show};
use adamant_data::{
    CsvOptions, Dataset, Examples, Facts, Idx, ImageFolder, ImageOptions, Labelled, Permutation, Rows, Scale, Table, Tokens, examples, split_by_rule,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The kinds of data.
pub(super) const KINDS: [&str; 5] = ["csv", "idx", "images", "text", "permutation"];

/// Training part, test part, and how a person sees an input.
type Read = (Examples, Examples, Show);

/// What a section says of its data.
pub(super) enum Source {
    Csv { path: PathBuf, header: bool, scale: Scale, learned: Learned, rule: Rule },
    Idx { train: [Named; 2], test: [Named; 2], classes: usize, scale: Scale },
    Images { path: PathBuf, test: Option<PathBuf>, rule: Option<Rule>, options: ImageOptions },
    Text { path: PathBuf, context: usize, share: f64, bytes: bool },
    Permutation { classes: usize, rows: usize, seed: u64 },
}
/// What is learned from a table: a class, by its column, or numbers.
pub(super) enum Learned {
    Class { label: usize, classes: usize },
    Numbers(Vec<usize>),
}
/// Row i belongs to the test part if (i / divide) mod modulo = equals.
pub(super) struct Rule {
    divide: usize,
    modulo: usize,
    equals: usize,
}
/// A file that may be gzipped under its name with `.gz`.
pub(super) struct Named(String);
impl Named {
    fn find(&self, folder: &Path) -> PathBuf {
        let (plain, zipped) = (folder.join(&self.0), folder.join(format!("{}.gz", self.0)));
        if !plain.exists() && zipped.exists() { zipped } else { plain }
    }
}

impl Source {
    /// Asks for every key of the kind; no file is opened.
    pub fn of(s: &Section<'_>) -> Result<Source, Failure> {
        match s.kind(&KINDS)? {
            "csv" => csv(s),
            "idx" => idx(s),
            "images" => images(s),
            "text" => text(s),
            _ => permutation(s),
        }
    }
    /// Is it text?
    pub fn is_text(&self) -> bool {
        matches!(self, Source::Text { .. })
    }
    /// Are numbers learned, rather than classes?
    pub fn numbers(&self) -> bool {
        matches!(self, Source::Csv { learned: Learned::Numbers(_), .. })
    }
    /// The files and folders that are read.
    pub fn paths(&self, folder: &Path) -> Vec<PathBuf> {
        match self {
            Source::Csv { path, .. } | Source::Text { path, .. } => vec![folder.join(path)],
            Source::Idx { train, test, .. } => train.iter().chain(test).map(|n| n.find(folder)).collect(),
            Source::Images { path, test, .. } => [Some(path), test.as_ref()].into_iter().flatten().map(|p| folder.join(p)).collect(),
            Source::Permutation { .. } => Vec::new(),
        }
    }
    /// Numbers that stand for those that follow from the data.
    pub fn words(&self) -> Vec<(&'static str, usize)> {
        let features = ("features", 1);
        match self {
            Source::Csv { learned: Learned::Numbers(_), .. } => vec![features],
            Source::Csv { learned: Learned::Class { classes, .. }, .. } | Source::Idx { classes, .. } | Source::Permutation { classes, .. } => {
                vec![("classes", *classes), features]
            }
            Source::Images { .. } => vec![("classes", 2), features],
            Source::Text { context, .. } => vec![("vocabulary", 256), ("features", *context)],
        }
    }
    /// Reads the files.
    ///
    /// # Errors
    /// Files that cannot be read, or that the section does not fit, with its line.
    pub fn read(&self, s: &Section<'_>, folder: &Path) -> Result<Read, Failure> {
        match self {
            Source::Csv { path, header, scale, learned, rule } => {
                let path = folder.join(path);
                let table = Table::read_csv_with(&path, &CsvOptions { header: *header, ..CsvOptions::default() })?;
                let there = |key: &str, column: usize| match column >= table.width() {
                    true => Err(s.wrong_key(key, format!("there is no column {column} among {}", table.width()))),
                    false => Ok(()),
                };
                let whole = match learned {
                    Learned::Class { label, classes } => {
                        there("label", *label)?;
                        examples(table.classification(*label, *classes, *scale)?)
                    }
                    Learned::Numbers(targets) => {
                        targets.iter().try_for_each(|c| there("targets", *c))?;
                        examples(table.regression(targets, *scale)?)
                    }
                };
                let (train, test) = rule.split(whole)?;
                Ok((train, test, Show::Nothing))
            }
            Source::Idx { train, test, classes, scale } => {
                let (train, size) = idx_part(train, folder, *classes, *scale)?;
                let (test, _) = idx_part(test, folder, *classes, *scale)?;
                Ok((train, test, Show::Image(size)))
            }
            Source::Images { path, test, rule, options } => {
                let open = |sub: &Path| -> Result<Examples, Failure> { Ok(examples(ImageFolder::open(folder.join(sub), *options)?)) };
                let (train, test) = match (test, rule) {
                    (Some(test), _) => (open(path)?, open(test)?),
                    (None, Some(rule)) => rule.split(open(path)?)?,
                    (None, None) => return Err(s.missing(&["test_path", "test"], "`data.test_path` is missing, or a rule `data.test`")),
                };
                let show = match train.describe().inputs.map(|f| f.shape) {
                    Some(shape) if shape.rank() == 3 => Show::Image([shape[0], shape[1], shape[2]]),
                    _ => Show::Nothing,
                };
                Ok((train, test, show))
            }
            Source::Text { path, context, share, bytes } => {
                let path = folder.join(path);
                let tokens = if *bytes { Tokens::read_bytes(&path)? } else { Tokens::read_characters(&path)? };
                let vocabulary = tokens.vocabulary().clone();
                let (train, test) = tokens.split_tail(*share)?;
                // Training draws windows anywhere; the test reads each token of its part once.
                Ok((examples(train.windows(*context)?), examples(test.windows(*context)?.stride(*context)?), Show::Text(vocabulary)))
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
                Ok((part((0..*rows).map(|k| k % classes).collect())?, part((0..*classes).collect())?, Show::Nothing))
            }
        }
    }
}
impl Rule {
    fn of(rule: &Section<'_>) -> Result<Rule, Failure> {
        let divide = rule.size("divide")?.unwrap_or(1);
        let modulo = rule.need("modulo", rule.size("modulo")?)?;
        let equals = rule.need("equals", rule.size("equals")?)?;
        let wrong = [("divide", divide == 0), ("modulo", modulo == 0), ("equals", equals >= modulo)].into_iter().find(|(_, wrong)| *wrong);
        if let Some((key, _)) = wrong {
            return Err(rule.wrong_key(key, "rows are tested if (i / divide) mod modulo = equals: divide is at least 1, and equals below modulo"));
        }
        rule.finish()?;
        Ok(Rule { divide, modulo, equals })
    }
    fn split(&self, whole: Examples) -> Result<(Examples, Examples), Failure> {
        let (train, test) = split_by_rule(whole, self.divide, self.modulo, self.equals)?;
        Ok((Arc::new(train), Arc::new(test)))
    }
}

/// How numbers of a file become inputs.
pub(super) fn scale(s: &Section<'_>) -> Result<Scale, Failure> {
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
/// The same for bytes of pixels, which become 0 to 1 unless the section says otherwise.
pub(super) fn pixels(s: &Section<'_>) -> Result<Scale, Failure> {
    Ok(Scale { divide: s.number("divisor")?.unwrap_or(255.0) as f32, ..scale(s)? })
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
fn csv(s: &Section<'_>) -> Result<Source, Failure> {
    let path = s.need("path", s.text("path")?)?.into();
    let (header, scale) = (s.flag("header")?.unwrap_or(false), scale(s)?);
    let classes = s.size("classes")?;
    let learned = match (s.size("label")?, s.sizes("targets")?) {
        (Some(label), None) => Learned::Class { label, classes: s.need("classes", classes)? },
        (None, Some(targets)) => Learned::Numbers(targets),
        (None, None) => return Err(s.missing(&["label", "targets"], "`data.label` is missing: the column of the class (or `targets`, the columns of numbers to be predicted)")),
        (Some(_), Some(_)) => return Err(s.wrong_key("targets", "there is `label` too; say one of them")),
    };
    let rule = Rule::of(&s.need("test", s.section("test")?)?)?;
    Ok(Source::Csv { path, header, scale, learned, rule })
}
fn idx(s: &Section<'_>) -> Result<Source, Failure> {
    let file = |key: &'static str, usual: &str| -> Result<Named, Failure> { Ok(Named(s.text(key)?.unwrap_or(usual).to_string())) };
    Ok(Source::Idx {
        classes: s.size("classes")?.unwrap_or(10),
        scale: pixels(s)?,
        train: [file("train_images", "train-images-idx3-ubyte")?, file("train_labels", "train-labels-idx1-ubyte")?],
        test: [file("test_images", "t10k-images-idx3-ubyte")?, file("test_labels", "t10k-labels-idx1-ubyte")?],
    })
}
fn idx_part([images, labels]: &[Named; 2], folder: &Path, classes: usize, scale: Scale) -> Result<(Examples, [usize; 3]), Failure> {
    let path = images.find(folder);
    let images = Idx::read(&path)?.into_rows()?;
    let Some(Facts { shape, .. }) = images.describe().inputs else { return Err(Failure::Input(format!("{}: images of no shape", path.display()))) };
    let size = match *shape {
        [height, width] => [1, height, width],
        [channels, height, width] => [channels, height, width],
        _ => return Err(Failure::Input(format!("{}: images are [height, width] or [channels, height, width], not {shape}", path.display()))),
    };
    let images = images.shaped(size)?.scaled(scale)?;
    Ok((examples(Labelled::new(images, Idx::read(labels.find(folder))?.into_classes(classes)?)?), size))
}
fn images(s: &Section<'_>) -> Result<Source, Failure> {
    let options = image_options(s)?;
    let path = s.text("path")?.unwrap_or("").into();
    let test: Option<PathBuf> = s.text("test_path")?.map(PathBuf::from);
    let rule = if test.is_some() { None } else { Some(Rule::of(&s.need("test", s.section("test")?)?)?) };
    Ok(Source::Images { path, test, rule, options })
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
