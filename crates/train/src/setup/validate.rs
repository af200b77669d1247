//! What is wrong with a description, section by section, without training and as far as possible without data.
use super::{Length, Numbers, Setup, checkpoint, steps};
use crate::{Document, Failure, config::Section, dataset::Parts, model, objective::Objective, recipe, summary};
use adamant_data::Dataset;
use adamant_nn::Walk;
use std::path::{Path, PathBuf};

/// The keys of a description's root.
const KEYS: [&str; 16] = [
    "accumulate",
    "batch",
    "checkpoint",
    "clip",
    "data",
    "epochs",
    "eval_every",
    "iterations",
    "label_smoothing",
    "log_every",
    "loss",
    "model",
    "optimizer",
    "schedule",
    "seed",
    "weights",
];

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Validation {
    /// what is wrong, in the order of the file's sections: each with its line and what to try
    pub faults: Vec<Failure>,
    /// data that are not there, so that what follows from them (widths, classes, shapes) was not checked
    pub absent: Vec<PathBuf>,
}
impl Validation {
    /// Keeps a fault, once.
    fn keep<T>(&mut self, checked: Result<T, Failure>) -> Option<T> {
        match checked {
            Ok(value) => Some(value),
            Err(fault) => {
                if self.faults.iter().all(|f| f.to_string() != fault.to_string()) {
                    self.faults.push(fault);
                }
                None
            }
        }
    }
}

/// Checks every key of a description. Each section is checked by itself, so that one fault does not hide those of the
/// others. Where the data are there (paths are relative to `folder`), they are read, and the model is checked against them.
///
/// ```
/// use adamant_train::{Document, validate};
/// # adamant_core::Device::reference().scoped(|| {
/// let document = Document::parse("run.toml", "epoch = 3\nbatch = 0\n[optimiser]\nkind = \"SGD\"\n")?;
/// let faults: Vec<String> = validate(&document, "".as_ref()).faults.iter().map(|f| f.to_string()).collect();
/// assert!(faults.contains(&"run.toml:1: unknown key `epoch`; did you mean `epochs`?".to_string()));
/// assert!(faults.contains(&"run.toml:3: unknown key `optimiser`; did you mean `optimizer`?".to_string()));
/// # Ok::<(), adamant_train::Failure>(()) })?;
/// # Ok::<(), adamant_train::Failure>(())
/// ```
pub fn validate(document: &Document, folder: &Path) -> Validation {
    let mut found = Validation::default();
    let Some(root) = found.keep(document.root()) else { return found };
    let root_faults = {
        root.expect(&KEYS);
        root.unknown()
    };
    for fault in root_faults {
        found.keep(Err::<(), _>(fault));
    }
    let numbers = found.keep(Numbers::of(&root));
    let unread = found.keep(need(&root, "data").and_then(|s| Parts::check(&s, folder)));
    // What follows from data that cannot be found is taken for one that fits.
    let words = unread.as_ref().map_or_else(|| vec![("classes", 2), ("vocabulary", 256), ("features", 1)], |u| u.words.clone());
    let resolved = document.resolve(&words);
    let model = found.keep(resolved.root().and_then(|r| need(&r, "model").and_then(model::model)));
    let parameters = model.as_ref().map_or_else(Vec::new, |m| m.parameters());
    found.keep(need(&root, "optimizer").and_then(|s| recipe::optimizer(s, parameters)));
    let total = numbers.as_ref().map_or(1, |n| steps(n.length, if matches!(n.length, Length::Epochs(_)) { 100 } else { 1 }));
    found.keep(root.section("schedule").and_then(|s| s.map(|s| recipe::schedule(s, total)).transpose()));
    found.keep(checkpoint(&root, total));
    found.keep(Objective::of(&root, unread.as_ref().is_some_and(|u| u.numbers)));
    found.absent = unread.map(|u| u.paths.into_iter().filter(|p| !p.exists()).collect()).unwrap_or_default();
    if found.faults.is_empty() && found.absent.is_empty() {
        found.keep(shapes(document, folder));
    }
    found
}
fn need<'a>(root: &Section<'a>, key: &'static str) -> Result<Section<'a>, Failure> {
    root.need(key, root.section(key)?)
}
/// The model against the data: shapes of all layers, without running them.
fn shapes(document: &Document, folder: &Path) -> Result<(), Failure> {
    let setup = Setup::of(document, folder)?;
    let Some(facts) = setup.parts.train.describe().inputs else { return Ok(()) };
    summary::summary(&setup.model, &facts.shape, facts.dtype, setup.batch)?;
    Ok(())
}
