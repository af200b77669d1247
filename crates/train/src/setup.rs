//! From a description to everything a run is made of: data, model, objective, optimizer, schedule, and its habits.
mod memory;
mod mesh;
mod portions;
mod validate;
mod weights;

pub use mesh::RunModel;
pub(crate) use mesh::{ModelSharing, pass};
pub(crate) use portions::StepPortions;
pub use validate::{Validation, validate};
pub(crate) use validate::{keys, words};

use crate::{
    Failure,
    alerts::Alerts,
    config::{Document, Section},
    dataset::Parts,
    evaluate::Show,
    model::{self, Shapes},
    objective::Objective,
    recipe::{self, InitFrom, Teaching},
    session::{Course, MeshedModel},
    trainer::EarlyStopping,
};
use adamant_amp::Precision;
use adamant_core::{DType, Device};
use adamant_data::{Columns, Dataset, Facts, Target};
use adamant_nn::{Walk, manual_seed};
use adamant_optim::{ClippingOptions, Optimizer};
use adamant_stability::NanOptions;
use mesh::CutPlace;
use std::path::{Path, PathBuf};

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// so many passes over the training part
    Epochs(u64),
    /// so many steps
    Iterations(u64),
}
/// When checkpoints are made and which are kept.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointPlan {
    /// steps between two
    pub every: u64,
    /// how many of the newest are kept
    pub last: usize,
    /// how many of the best on the validation part are kept
    pub best: usize,
    /// does training go on while one is written? Then they are made twice as often, so that no more than `every` steps are lost all
    /// the same
    pub background: bool,
    /// does a run go on whose checkpoint could not be written?
    pub warn: bool,
}
impl CheckpointPlan {
    /// Is one made after this step?
    ///
    /// One that is written while training goes on is not safe yet when the next steps are made. A kill then takes them and those since
    /// the one before, and who hands over the next waits until this one is safe: two gaps at the most. So with half the gap it is
    /// `every` steps again.
    pub(crate) fn is_due(&self, step: u64) -> bool {
        let within = step % self.every.max(1);
        within == 0 || (self.background && within == self.every / 2)
    }
    /// Must training wait for each?
    pub(crate) fn waits(&self) -> bool {
        !self.background || self.every < 2
    }
}
/// All that a description says, made real.
pub struct Setup {
    /// the description, with numbers that follow from the data in their places
    pub document: Document,
    /// where initial values, order and dropout come from
    pub seed: u64,
    /// how long the run is
    pub length: Length,
    /// rows in a batch
    pub batch: usize,
    /// batches in a step
    pub accumulate: usize,
    /// are steps captured where they can be?
    pub capture: bool,
    /// steps between two lines of the log
    pub log_every: u64,
    /// steps between two validations; none: at the end of each epoch
    pub eval_every: Option<u64>,
    /// how gradients are limited, if they are
    pub clip: Option<ClippingOptions>,
    /// what is done about numbers that are not finite; none: nobody looks
    pub stability: Option<NanOptions>,
    /// steps between two looks at layers
    pub look_every: Option<u64>,
    /// what is learned
    pub objective: Objective,
    /// training, validation and test
    pub parts: Parts,
    /// the model with its initial values, as far as this rank has it
    pub model: RunModel,
    /// what of it that is, where others have the rest
    pub(crate) meshed: Option<MeshedModel>,
    /// the optimizer over the model's parameters
    pub optimizer: Box<dyn Optimizer>,
    /// the learning rate's course
    pub course: Course,
    /// what ends the run early
    pub stopping: Option<EarlyStopping>,
    /// the decay of a running mean of the weights
    pub ema: Option<f64>,
    /// what steps compute in
    pub precision: Precision,
    /// where initial values come from
    pub(crate) init_from: Option<InitFrom>,
    /// what a student learns from
    pub(crate) taught: Option<Teaching>,
    /// checkpoints
    pub checkpoint: CheckpointPlan,
    /// what is told of the run while it lasts
    pub alerts: Alerts,
    /// where the final weights also go
    pub weights: Option<PathBuf>,
}
/// Steps from one line of the log to the next, where the description says nothing.
const LOG_EVERY: usize = 10;

impl Setup {
    /// Reads data and builds the model. Paths of data are relative to `folder`. Before a file is opened, every key is checked;
    /// before a number is drawn, the shapes of all layers and the memory that they need.
    ///
    /// # Errors
    /// What makes no sense, with its line; files that cannot be read; `Memory`: the model does not fit.
    pub fn of(document: &Document, folder: &Path) -> Result<Setup, Failure> {
        Setup::with(document, folder, None)
    }
    /// The same with what a run has kept of its table's columns, instead of what the files would tell.
    ///
    /// # Errors
    /// As [`Setup::of`].
    pub fn with(document: &Document, folder: &Path, kept: Option<&Columns>) -> Result<Setup, Failure> {
        Setup::shared(document, folder, kept, None)
    }
    /// The same of a model that ranks share, all of which call it.
    ///
    /// # Errors
    /// As [`Setup::of`]; what ranks cannot share, a lost peer.
    pub(crate) fn shared(document: &Document, folder: &Path, kept: Option<&Columns>, sharing: Option<&ModelSharing>) -> Result<Setup, Failure> {
        let prepared = Prepared::with(document, folder, None, kept)?;
        prepared.fits(Device::current()?)?;
        let Prepared { document, numbers, parts, objective, precision, looked_at } = prepared;
        let RootNumbers { seed, length, batch, accumulate, capture, log_every, eval_every, clip, watched, weights, alerts } = numbers;
        let root = document.root()?;
        RootNumbers::of(&root)?;
        // Before the seed: a model that is read draws numbers too.
        let description = parts.train.describe();
        let taught = recipe::distill(&root)?.map(|from| from.open(&root, &objective, description.inputs, description.targets.as_ref())).transpose()?;
        manual_seed(seed);
        let model = model::model(root.need("model", root.section("model")?)?)?;
        let total = steps(length, steps_per_epoch(parts.train.len(), batch, accumulate));
        recipe::freeze(&root, &model)?;
        let mut init_from = InitFrom::of(&root)?;
        let low = match precision.update {
            Some(_) => weights::store_low(&root, &model, &precision, looked_at.as_ref().map(|(_, shapes)| &*shapes.low_weights), &mut init_from)?,
            None => Vec::new(),
        };
        if let Some(training) = recipe::quantize(&root, accumulate)? {
            // Codes are found of the first weights.
            if let Some(from) = init_from.take() {
                from.apply(&model, Device::current()?)?;
            }
            training.prepare(&root, &model)?;
        }
        let names: Vec<String> = model.trainable_parameters().iter().map(|p| recipe::first_name(&p.path())).collect();
        let (model, meshed) = match sharing {
            None => (RunModel::Whole(model), None),
            Some(sharing) => {
                // Values from a file are whole tensors.
                if let Some(from) = init_from.take() {
                    from.apply(&model, Device::current()?)?;
                }
                sharing.cut(model, &CutPlace { root: &root, parts: &parts, objective: &objective, batch })?
            }
        };
        let section = root.need("optimizer", root.section("optimizer")?)?;
        let mut optimizer = recipe::optimizer_among(section, model.trainable_parameters(), &names)?;
        recipe::clipped_layers(&root, clip.as_ref(), &optimizer.parameters())?;
        weights::tell(&root, &mut *optimizer, &precision, &low)?;
        let course = recipe::course(&root, total, parts.valid.is_some())?;
        let stopping = recipe::early_stopping(&root, parts.valid.is_some())?;
        let ema = recipe::ema(&root)?;
        let checkpoint = checkpoint(&root, total)?;
        drop(root);
        Ok(Setup {
            document,
            seed,
            length,
            batch,
            accumulate,
            capture,
            log_every,
            eval_every,
            clip,
            stability: watched.handling,
            look_every: watched.look_every,
            objective,
            parts,
            model,
            meshed,
            optimizer,
            course,
            stopping,
            ema,
            precision,
            init_from,
            taught,
            checkpoint,
            alerts,
            weights,
        })
    }
    /// Steps in an epoch.
    pub fn steps_per_epoch(&self) -> u64 {
        steps_per_epoch(self.parts.train.len(), self.batch, self.accumulate)
    }
    /// Steps of the whole run.
    pub fn steps(&self) -> u64 {
        steps(self.length, self.steps_per_epoch())
    }
}
/// A description that was checked against its data; the model is known by its shapes alone.
pub(crate) struct Prepared {
    /// the description, with numbers that follow from the data in their places
    document: Document,
    numbers: RootNumbers,
    parts: Parts,
    objective: Objective,
    precision: Precision,
    /// what one input is, and what came of it; none where the data do not tell
    pub looked_at: Option<(Facts, Shapes)>,
}
impl Prepared {
    /// Checks the keys, reads the data, and looks at the model.
    ///
    /// # Errors
    /// What makes no sense, with its line; files that cannot be read.
    pub fn of(document: &Document, folder: &Path) -> Result<Prepared, Failure> {
        Prepared::with(document, folder, None, None)
    }
    /// The same for batches of another size than the description's.
    ///
    /// # Errors
    /// As [`Prepared::of`].
    pub fn for_batch(document: &Document, folder: &Path, batch: Option<usize>) -> Result<Prepared, Failure> {
        Prepared::with(document, folder, batch, None)
    }
    fn with(document: &Document, folder: &Path, batch: Option<usize>, kept: Option<&Columns>) -> Result<Prepared, Failure> {
        if let Some(fault) = keys(document, folder).faults.into_iter().next() {
            return Err(fault);
        }
        let root = document.root()?;
        let numbers = RootNumbers::of(&root)?;
        let data = || root.need("data", root.section("data")?);
        let read = Parts::with(data()?, folder, numbers.seed, kept);
        let mut parts = read.map_err(|e| data().map_or_else(|e| e, |section| section.blame(e)))?;
        let (train, test) = (parts.train.len(), parts.test.len());
        if train == 0 || test == 0 {
            let what = format!("{train} rows to train on and {test} to test on: both parts need some");
            let data = data()?;
            return Err(match data.size("context")? {
                Some(context) => {
                    data.wrong_key("context", format!("windows of {context} tokens leave {what}; each part has to hold more tokens than a window"))
                }
                None => root.wrong_key("data", what),
            });
        }
        let description = parts.train.describe();
        let objective = objective(&root, &parts)?;
        let document = document.resolve(&words_of(&parts));
        let root = document.root()?;
        if let (Show::Nothing, Some(size)) = (&parts.show, image_of(&root)?) {
            parts.show = Show::Image(size);
        }
        let precision = recipe::precision(&root)?;
        let section = root.need("model", root.section("model")?)?;
        let looked_at = match description.inputs {
            None => None,
            Some(facts) => {
                let shapes = model::shapes(&section, &facts.shape, facts.dtype, batch.unwrap_or(numbers.batch.min(train)), &precision)?;
                if let Some(targets) = &description.targets {
                    shapes.answer(&section, &objective, &facts, targets)?;
                }
                Some((facts, shapes))
            }
        };
        drop((section, root));
        Ok(Prepared { document, numbers, parts, objective, precision, looked_at })
    }
    /// Has the machine memory for the model on this device?
    fn fits(&self, device: Device) -> Result<(), Failure> {
        self.fits_into(memory::available(device))
    }
    /// Would so many bytes do for the model?
    fn fits_into(&self, bytes: Option<u64>) -> Result<(), Failure> {
        let Some((_, shapes)) = &self.looked_at else { return Ok(()) };
        let root = self.document.root()?;
        let slots = root.section("optimizer")?.map(|s| s.text("kind")).transpose()?.flatten().map_or(0, slots);
        shapes.fits(&root.need("model", root.section("model")?)?, slots, bytes)
    }
}
/// Numbers that an optimizer keeps for each parameter, at least.
fn slots(kind: &str) -> usize {
    match kind {
        "Adam" | "AdamW" | "Adamax" | "NAdam" | "RAdam" | "LAMB" | "Adadelta" | "Rprop" | "SparseAdam" => 2,
        "RMSprop" | "Adagrad" | "ASGD" | "Lion" => 1,
        _ => 0,
    }
}
/// What is learned from the parts, with weights that follow from how often each class occurs.
fn objective(root: &Section<'_>, parts: &Parts) -> Result<Objective, Failure> {
    let targets = parts.train.describe().targets;
    let objective = Objective::of(root, matches!(targets, Some(Target::Values(_))))?;
    let classes = match targets {
        Some(Target::Classes { count, .. }) => count,
        Some(Target::NextToken { vocabulary }) => vocabulary,
        _ => return Ok(objective),
    };
    if let Some(given) = objective.weighs().filter(|n| *n != classes) {
        return Err(root.wrong_key("class_weights", format!("{given} weights for {classes} classes")));
    }
    if objective.binary() && classes != 2 {
        return Err(root.wrong_key("loss", format!("it answers yes or no, and there are {classes} classes: cross_entropy is theirs")));
    }
    if !objective.counts_classes() {
        return Ok(objective);
    }
    let mut counts = vec![0; classes];
    for batch in parts.loader(0, COUNTED_AT_ONCE, None)?.epoch() {
        for class in batch?.1.cast(DType::I64).to_vec::<i64>()? {
            usize::try_from(class).ok().and_then(|c| counts.get_mut(c)).into_iter().for_each(|n| *n += 1);
        }
    }
    Ok(objective.balanced(&counts))
}
/// Records whose classes are counted at once.
const COUNTED_AT_ONCE: usize = 256;
fn steps_per_epoch(rows: usize, batch: usize, accumulate: usize) -> u64 {
    (rows.div_ceil(batch) as u64).div_ceil(accumulate as u64)
}
fn steps(length: Length, of_an_epoch: u64) -> u64 {
    match length {
        Length::Epochs(n) => n.saturating_mul(of_an_epoch),
        Length::Iterations(n) => n,
    }
}
/// What stands at the root and follows from nothing else.
struct RootNumbers {
    seed: u64,
    length: Length,
    batch: usize,
    accumulate: usize,
    capture: bool,
    log_every: u64,
    eval_every: Option<u64>,
    clip: Option<ClippingOptions>,
    watched: recipe::WatchedNumbers,
    weights: Option<PathBuf>,
    alerts: Alerts,
}
impl RootNumbers {
    fn of(root: &Section<'_>) -> Result<RootNumbers, Failure> {
        let seed = root.count("seed")?.unwrap_or(0);
        let length = match (root.count("epochs")?, root.count("iterations")?) {
            (Some(0), None) => return Err(root.wrong_key("epochs", "at least one epoch is needed")),
            (None, Some(0)) => return Err(root.wrong_key("iterations", "at least one step is needed")),
            (Some(n), None) => Length::Epochs(n),
            (None, Some(n)) => Length::Iterations(n),
            (None, None) => return Err(root.missing(&["epochs", "iterations"], "`epochs` is missing (or `iterations`)")),
            (Some(_), Some(_)) => return Err(root.wrong_key("iterations", "there is `epochs` too; say one of them")),
        };
        let positive = |key: &'static str, usual: Option<usize>, unit: &str| -> Result<usize, Failure> {
            match root.size(key)?.or(usual) {
                Some(0) => Err(root.wrong_key(key, format!("at least one {unit} is needed"))),
                Some(n) => Ok(n),
                None => root.need(key, None),
            }
        };
        let batch = positive("batch", None, "row")?;
        let accumulate = positive("accumulate", Some(1), "batch")?;
        let capture = root.flag("capture")?.unwrap_or(true);
        let log_every = positive("log_every", Some(LOG_EVERY), "step")? as u64;
        let eval_every = root.size("eval_every")?.map(|_| positive("eval_every", None, "step")).transpose()?.map(|n| n as u64);
        let weights = recipe::weights(root)?;
        let (clip, watched, alerts) = (recipe::clip(root)?, recipe::stability(root)?, recipe::alerts(root)?);
        // Who starts the run opens it, before anything is read.
        root.text("device")?;
        Ok(RootNumbers { seed, length, batch, accumulate, capture, log_every, eval_every, clip, watched, weights, alerts })
    }
}
/// Numbers that follow from the data: `$classes` or `$vocabulary`, and `$features` of an input.
fn words_of(parts: &Parts) -> Vec<(&'static str, usize)> {
    let facts = parts.train.describe();
    let mut words = Vec::new();
    match facts.targets {
        Some(Target::Classes { count, .. }) => words.push(("classes", count)),
        Some(Target::NextToken { vocabulary }) => words.push(("vocabulary", vocabulary)),
        Some(Target::Values(_)) | None => {}
    }
    words.extend(facts.inputs.map(|f| ("features", f.shape.elements())));
    words
}
/// What a person sees in a row of numbers that the first layer makes an image of.
fn image_of(root: &Section<'_>) -> Result<Option<[usize; 3]>, Failure> {
    let layers = root.section("model")?.map(|m| m.sections("layers")).transpose()?.flatten().unwrap_or_default();
    let Some(first) = layers.first().filter(|l| matches!(l.text("kind"), Ok(Some("Unflatten")))) else { return Ok(None) };
    Ok(first
        .ints("unflattened_size")?
        .and_then(|v| v.into_iter().map(|v| usize::try_from(v).ok()).collect::<Option<Vec<_>>>())
        .and_then(|sizes| sizes.try_into().ok())
        .filter(|size: &[usize; 3]| size[0] == 1 || size[0] == 3))
}
fn checkpoint(root: &Section<'_>, total: u64) -> Result<CheckpointPlan, Failure> {
    // No more than a twentieth of the run is lost, the steps among it that are made while a checkpoint is written.
    let usual = CheckpointPlan { every: (total / 25).max(1), last: 3, best: 1, background: true, warn: false };
    let Some(s) = root.section("checkpoint")? else { return Ok(usual) };
    let plan = CheckpointPlan {
        every: s.count("every")?.unwrap_or(usual.every),
        last: s.size("last")?.unwrap_or(usual.last),
        best: s.size("best")?.unwrap_or(usual.best),
        background: s.flag("background")?.unwrap_or(usual.background),
        warn: match s.text("on_error")? {
            None | Some("stop") => false,
            Some("warn") => true,
            Some(other) => return Err(s.wrong_key("on_error", format!("there is no `{other}`; there are stop, warn"))),
        },
    };
    if plan.every == 0 {
        return Err(s.wrong_key("every", "checkpoints are made every so many steps, at least one"));
    }
    if plan.last == 0 {
        return Err(s.wrong_key("last", "at least the last checkpoint is kept"));
    }
    s.finish()?;
    Ok(plan)
}
