//! What is wrong with a description, section by section, without training and as far as possible without data.
use super::{Length, Prepared, RootNumbers, checkpoint, steps};
use crate::{
    Document, Failure,
    config::{Section, check::Check},
    dataset::{Parts, Unread},
    model,
    objective::Objective,
    recipe,
    session::Course,
};
use adamant_core::{Device, memory::system_memory};
use adamant_nn::{Walk, init};
use adamant_optim::schedule::Schedule;
use std::path::{Path, PathBuf};

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Validation {
    /// what is wrong, in the order of the file's lines: each with its line and what to try
    pub faults: Vec<Failure>,
    /// what this machine, with nothing else on it, lacks to train the model; another one may have it
    pub beyond: Option<Failure>,
    /// data that are not there, so that what follows from them (widths, classes, shapes) was not checked
    pub absent: Vec<PathBuf>,
}
/// Checks every key of a description. Each section is checked by itself, so that one fault does not hide those of the
/// others; nothing is drawn or computed for it, whatever sizes the description names. Where the data are there (paths are relative to `folder`), they are read, and the model is checked against them.
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
    let Keys { mut faults, unread } = keys(document, folder);
    let absent: Vec<PathBuf> = unread.map(|u| u.paths.into_iter().filter(|p| !p.exists()).collect()).unwrap_or_default();
    let mut beyond = None;
    if faults.is_empty() && absent.is_empty() {
        let prepared = Prepared::of(document, folder);
        match prepared.and_then(|prepared| prepared.fits_into(Some(ANY_MACHINE)).map(|()| prepared)) {
            Ok(prepared) => beyond = prepared.fits_into(system_memory().ok().map(|memory| memory.total)).err(),
            Err(fault) => faults.push(fault),
        }
    }
    Validation { faults, beyond, absent }
}
/// Bytes of memory that no machine has: a model that takes more is wrong wherever it is trained.
const ANY_MACHINE: u64 = 1 << 50;
/// What is wrong with the keys of a description, and what its data section says.
pub(crate) struct Keys {
    pub faults: Vec<Failure>,
    pub unread: Option<Unread>,
}
/// Checks the keys of all sections; no file is opened.
pub(crate) fn keys(document: &Document, folder: &Path) -> Keys {
    let checked = || -> Result<Keys, Failure> {
        let data = |check: &mut Check<'_>| check.needed("data", |s| Parts::check(&s, folder));
        let unread = data(&mut Check::new(document)?);
        // What follows from the data is taken for numbers that fit.
        let resolved = document.resolve(&words(unread.as_ref()));
        let mut check = Check::new(&resolved)?;
        let numbers = check.keys(RootNumbers::of);
        data(&mut check);
        let model = Device::reference().scoped(|| init::shapes_only(|| check.needed("model", model::model)));
        // Which parameters patterns mean is asked of the shapes; where there are none, the keys are known all the same.
        check.keys(|root| model.as_ref().map_or_else(|| root.texts("freeze").map(|_| ()), |model| recipe::freeze(root, model)));
        check.keys(|root| match (recipe::quantize(root, 1)?, &model) {
            (Some(training), Some(model)) => training.check(root, model),
            _ => Ok(()),
        });
        let parameters = model.as_ref().map_or_else(Vec::new, |m| m.trainable_parameters());
        check.needed("optimizer", |s| recipe::optimizer(s, parameters.clone()));
        if model.is_some() {
            let clip = numbers.as_ref().and_then(|n| n.clip.as_ref());
            check.keys(|root| recipe::clipped_layers(root, clip, &parameters));
        }
        let total = numbers.as_ref().map_or(1, |n| steps(n.length, if matches!(n.length, Length::Epochs(_)) { 100 } else { 1 }));
        let validates = resolved.root()?.section("data").ok().flatten().is_some_and(|s| s.has("valid"));
        let least = numbers.as_ref().map_or(1, |n| steps(n.length, 1));
        check.keys(|root| match (recipe::course(root, total, validates)?, root.section("schedule")?) {
            (Course::Schedule(schedule), Some(section)) => rates(&section, &*schedule, least),
            _ => Ok(()),
        });
        check.keys(|root| recipe::early_stopping(root, validates));
        check.keys(recipe::ema);
        check.keys(|root| match &model {
            Some(model) => recipe::precision_of(root, model),
            None => recipe::precision(root),
        });
        check.keys(recipe::InitFrom::of);
        check.keys(recipe::distill);
        check.keys(recipe::distributed);
        check.keys(|root| recipe::distributed(root)?.mesh.map_or(Ok(()), |mesh| recipe::goes_with_mesh(root, &mesh)));
        if let Some(model) = &model {
            check.keys(|root| recipe::patterns_fit(root, model));
        }
        check.keys(|root| checkpoint(root, total));
        let learns_numbers = unread.as_ref().is_some_and(|u| u.numbers);
        check.keys(|root| Objective::of(root, learns_numbers));
        Ok(Keys { faults: check.finish(), unread })
    };
    checked().unwrap_or_else(|failure| Keys { faults: vec![failure], unread: None })
}
/// Steps of a schedule that are looked at.
const LOOKED_AT: u64 = 1000;
/// Are the rates of a schedule's first steps rates?
fn rates(section: &Section<'_>, schedule: &dyn Schedule, least: u64) -> Result<(), Failure> {
    let rates = schedule.rates(1e-3, least.min(LOOKED_AT) as usize);
    let Some((step, rate)) = rates.into_iter().enumerate().find(|(_, rate)| !(rate.is_finite() && *rate >= 0.0)) else { return Ok(()) };
    let what = format!("the learning rate would be {rate} in step {}; it must be a number from 0 on", step + 1);
    Err(match section.negative() {
        Some(key) => section.wrong_key(key, what),
        None => section.wrong(what),
    })
}
/// Numbers that stand for those that follow from the data.
pub(crate) fn words(unread: Option<&Unread>) -> Vec<(&'static str, usize)> {
    unread.map_or_else(|| vec![("classes", 2), ("vocabulary", 256), ("features", 1)], |u| u.words.clone())
}
