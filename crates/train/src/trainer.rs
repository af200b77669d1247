//! Training as a library: the loop, the run folder, checkpoints, resume and early stopping for modules of one's own.
//!
//! ```text
//! DataLoader -> group of batches -> Session::step -> every log_every: a line
//!                                                 -> end of epoch:    validation, a line, early stopping
//!                                                 -> every so often:  snapshot -> Writer (its own thread) -> disk
//!                                                 -> interrupt asked: checkpoint, end
//! ```
//!
//! A run that a description tells ([`crate::Run`]) is a client of the same loop. Invariant: what stands in `metrics.jsonl`, in the checkpoints and in the weights follows from description, data and
//! device alone. Nothing here asks the clock for anything but `timing.jsonl`.
mod alerted;
mod batch;
mod callback;
mod controlled;
mod debugged;
mod elastic;
mod handed;
mod judge;
mod learn;
mod profiled;
mod ranks;
mod restored;
mod resume;
mod safe;
mod saving;
mod start;
mod stopping;
mod together;
mod watched;

pub use batch::Batch;
pub use callback::{Callback, Control};
pub use elastic::{MetAgain, RankMeeting};
pub use stopping::{EarlyStopping, Monitor, Score};

pub(crate) use batch::group;
pub(crate) use callback::Steer;
pub(crate) use learn::{Judge, Pattern, told_precision};
pub(crate) use restored::HELD;
pub(crate) use resume::{Extended, OnLength};
pub(crate) use stopping::measure;

use crate::{
    Document, Failure,
    alerts::Alerts,
    control::ControlPlan,
    folder::{RunFolder, number, text_of},
    report,
    run::clip_text,
    session::{CompressionPlan, Course, Habits, LossOf, MeshedModel, Session, StepSharing, WholeModel, ZeroStage},
    setup::CheckpointPlan,
    storage,
    watch::{Interrupt, Plan, Rows, Watch},
};
use adamant_amp::{AmpStats, Autocast, Precision};
use adamant_core::{
    Device, Result as Computed, Tensor,
    communicator::{self, Communicator},
    time_block,
};
use adamant_data::{DataLoader, Dataset};
use adamant_nn::Walk;
use adamant_optim::{ClippingOptions, Optimizer, schedule::Schedule};
use adamant_parallel::{Mesh, MeshAxis, tensor::Sharding};
use adamant_stability::NanOptions;
use judge::score;
pub(crate) use ranks::{RunRanks, SaveVote};
use safe::Safe;
use serde_json::json;
pub(crate) use start::{Learned, Start, learn};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

/// A measure of one's own: the mean over the rows of a batch.
type MetricOf<M, B> = Box<dyn Fn(&M, &B) -> Computed<Tensor> + Send>;
/// How long a run is.
#[derive(Clone, Copy)]
enum RunLength {
    Epochs(u64),
    Steps(u64),
}

/// Trains a module of one's own, on batches of any number of tensors, in a run folder: metrics, events for TensorBoard, checkpoints,
/// a resume to the same bits, weights, report.
///
/// A regression with two inputs, each a table of its own:
///
/// ```
/// use adamant_core::{Result, Tensor};
/// use adamant_data::{BadRecord, DataLoader, Dataset};
/// use adamant_nn::{Linear, Module, Walk};
/// use adamant_optim::{AdamW, UpdateRule, schedule::CosineAnnealingLr};
/// use adamant_train::trainer::{EarlyStopping, Monitor, Trainer};
/// use std::sync::Arc;
///
/// #[derive(Module)]
/// struct Price { house: Linear, street: Linear, head: Linear }
/// impl Price {
///     fn forward(&self, house: &Tensor, street: &Tensor) -> Result<Tensor> {
///         self.head.forward(&(self.house.forward(house)? + self.street.forward(street)?).relu())
///     }
/// }
/// /// Houses of 3 numbers in streets of 2, and what they cost.
/// struct Houses(usize);
/// impl Dataset for Houses {
///     type Record = usize;
///     type Batch = (Tensor, Tensor, Tensor);
///     fn len(&self) -> usize { self.0 }
///     fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> { Ok(index) }
///     fn collate(&self, rows: Vec<usize>) -> Result<Self::Batch> {
///         let table = |width: usize, f: &dyn Fn(usize, usize) -> f32| {
///             let values: Vec<f32> = rows.iter().flat_map(|r| (0..width).map(move |c| f(*r, c))).collect();
///             Tensor::from_vec(values, [rows.len(), width])
///         };
///         let (house, street) = (|r: usize, c: usize| ((r * 7 + c * 3) % 11) as f32 / 11.0, |r: usize, c: usize| ((r * 5 + c) % 7) as f32 / 7.0);
///         Ok((table(3, &house), table(2, &street), table(1, &|r, _| 2.0 * house(r, 0) - street(r, 1))))
///     }
/// }
/// # adamant_core::Device::reference().scoped(|| -> std::result::Result<(), Box<dyn std::error::Error>> {
/// # let run = tempfile::tempdir()?;
/// adamant_nn::manual_seed(1);
/// let model = Price { house: Linear::new(3, 8)?, street: Linear::new(2, 8)?, head: Linear::new(8, 1)? };
/// let optimizer = AdamW::new(0.05).over(model.parameters());
/// let batches = DataLoader::new(Arc::new(Houses(60))).batch_size(20).shuffle(1).build()?;
/// let squares = |model: &Price, (house, street, price): &(Tensor, Tensor, Tensor)| (model.forward(house, street)? - price).square().mean(..).ok();
/// let fitted = Trainer::new(model, optimizer, squares)
///     .epochs(20)
///     .schedule(CosineAnnealingLr { t_max: 60, eta_min: 1e-3 })
///     .valid(DataLoader::new(Arc::new(Houses(77))).batch_size(77).build()?)
///     .metric("mae", |model: &Price, (house, street, price)| (model.forward(house, street)? - price).abs().mean(..).ok())
///     .early_stopping(EarlyStopping::new(Monitor::named("valid_mae"), 5))
///     .folder(run.path().join("houses"))
///     .resume(true) // after a kill: from the newest checkpoint, to the same bits
///     .fit(batches, &mut ())?;
/// assert!(fitted.losses.last() < fitted.losses.first());
/// assert!(fitted.valid.is_some_and(|v| v.metrics["mae"] < 0.5));
/// # Ok(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Trainer<M, B> {
    model: M,
    loss: LossOf<M, B>,
    habits: Habits,
    length: RunLength,
    log_every: u64,
    eval_every: Option<u64>,
    look_every: Option<u64>,
    judge: Option<Validation<M, B>>,
    metrics: Vec<(String, MetricOf<M, B>)>,
    stopping: Option<EarlyStopping>,
    callbacks: Vec<Box<dyn Callback<M>>>,
    folder: Option<PathBuf>,
    resume: bool,
    control: ControlPlan,
    interrupt: Interrupt,
    checkpoint: CheckpointPlan,
    alerts: Alerts,
    sharing: Option<StepSharing>,
    /// what of the model this rank has, if others have the rest
    meshed: Option<MeshedModel>,
    static_graph: bool,
    meeting: Option<Arc<dyn RankMeeting>>,
    notes: BTreeMap<String, String>,
}
/// Gives the batches of the validation part, one by one, and begins anew after the last.
type Validation<M, B> = (usize, Box<dyn FnMut(&M, &mut dyn FnMut(&M, B) -> Result<(), Failure>) -> Result<(), Failure>>);
/// What a [`Trainer`] leaves.
#[derive(Debug)]
pub struct Fitted<M> {
    /// the model with the weights that are to be kept: the best ones, their running mean, or the last ones
    pub model: M,
    /// the mean loss of each epoch
    pub losses: Vec<f64>,
    /// the last validation
    pub valid: Option<Score>,
    /// seconds of training, over all its starts
    pub seconds: f64,
    /// the step it went on from, if it did
    pub resumed: Option<u64>,
    /// why it ended before its last step, if it did
    pub stopped: Option<String>,
    /// where the weights are, if there is a run folder
    pub weights: Option<PathBuf>,
    /// what mixed precision did; none in f32
    pub amp: Option<AmpStats>,
}
impl<M: Walk + 'static, B: Batch> Trainer<M, B> {
    /// Trains a model by an optimizer over its parameters. `loss` is the mean loss over the rows of a batch, a 0-d tensor. One epoch,
    /// unless it is said otherwise.
    pub fn new(model: M, optimizer: impl Optimizer + 'static, loss: impl Fn(&M, &B) -> Computed<Tensor> + Send + Sync + 'static) -> Trainer<M, B> {
        Trainer {
            model,
            loss: Arc::new(loss),
            habits: Habits {
                optimizer: Box::new(optimizer),
                course: Course::Constant,
                clip: None,
                stability: Some(NanOptions::default()),
                accumulate: 1,
                ema: None,
                capture: true,
                precision: Precision::default(),
            },
            length: RunLength::Epochs(1),
            log_every: 10,
            eval_every: None,
            look_every: None,
            judge: None,
            metrics: Vec::new(),
            stopping: None,
            callbacks: Vec::new(),
            folder: None,
            resume: false,
            control: ControlPlan::default(),
            interrupt: Interrupt::new(),
            checkpoint: CheckpointPlan { every: 0, last: 3, best: 1, background: true, warn: false },
            alerts: Alerts::default(),
            sharing: None,
            meshed: None,
            static_graph: true,
            meeting: None,
            notes: BTreeMap::new(),
        }
    }
    /// So many passes over the data.
    #[must_use]
    pub fn epochs(self, epochs: u64) -> Self {
        Trainer { length: RunLength::Epochs(epochs), ..self }
    }
    /// So many steps.
    #[must_use]
    pub fn steps(self, steps: u64) -> Self {
        Trainer { length: RunLength::Steps(steps), ..self }
    }
    /// The course of the learning rate, by steps.
    #[must_use]
    pub fn schedule(mut self, schedule: impl Schedule + 'static) -> Self {
        self.habits.course = Course::Schedule(Box::new(schedule));
        self
    }
    /// A rate that falls when a measure stops getting better.
    #[must_use]
    pub fn reduce_on_plateau(mut self, rule: adamant_optim::schedule::ReduceLrOnPlateau, monitor: Monitor) -> Self {
        self.habits.course = Course::Plateau(rule, monitor);
        self
    }
    /// What is done to gradients before each step.
    #[must_use]
    pub fn clip(mut self, clip: impl Into<ClippingOptions>) -> Self {
        self.habits.clip = Some(clip.into());
        self
    }
    /// Batches in a step.
    #[must_use]
    pub fn accumulate(mut self, batches: usize) -> Self {
        self.habits.accumulate = batches;
        self
    }
    /// Keeps an exponential running mean of the weights: it is what is judged, and what is left in the end.
    #[must_use]
    pub fn ema(mut self, decay: f64) -> Self {
        self.habits.ema = Some(decay);
        self
    }
    /// Mixed precision: the loss (and with it the model's forward) and the metrics run in its region, and f16 with a scaler. f32, unless it is set.
    ///
    /// ```
    /// # use adamant_amp::{Precision, PrecisionMode};
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Linear, Module, Walk};
    /// # use adamant_optim::{Sgd, UpdateRule};
    /// # use adamant_train::Trainer;
    /// # adamant_core::Device::reference().make_current();
    /// # let model = Linear::new(2, 1)?;
    /// # let optimizer = Sgd::new(0.1).over(model.parameters());
    /// # let loss = |model: &Linear, (x, y): &(Tensor, Tensor)| (model.forward(x)? - y).square().mean(..).ok();
    /// let trainer = Trainer::new(model, optimizer, loss).precision(Precision::of(PrecisionMode::BF16));
    /// # let _ = trainer;
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Self {
        self.habits.precision = precision;
        self
    }
    /// Are steps captured where they can be ([`adamant_core::compile()`])? They are, unless it is said otherwise, and come to the same
    /// bits either way; where a step cannot be captured, the log and the run folder tell why. What the loss takes from Rust is what
    /// it was when the step was captured: a loss that does otherwise at the steps 2, 4, 8, ... is found, and runs op by op.
    #[must_use]
    pub fn capture(mut self, capture: bool) -> Self {
        self.habits.capture = capture;
        self
    }
    /// Steps between two lines of the log.
    #[must_use]
    pub fn log_every(self, steps: u64) -> Self {
        Trainer { log_every: steps.max(1), ..self }
    }
    /// Steps between two validations; unless it is set, at the end of each epoch.
    #[must_use]
    pub fn eval_every(self, steps: u64) -> Self {
        Trainer { eval_every: Some(steps.max(1)), ..self }
    }
    /// The validation part: judged by the loss and by each [`Trainer::metric`], in evaluation mode and without a graph.
    #[must_use]
    pub fn valid<D: Dataset<Batch = B> + ?Sized + 'static>(mut self, mut loader: DataLoader<D>) -> Self {
        let rows = loader.dataset().len();
        let pass = move |model: &M, each: &mut dyn FnMut(&M, B) -> Result<(), Failure>| {
            loader.start_epoch(0);
            loader.epoch().try_for_each(|batch| each(model, batch?))
        };
        self.judge = Some((rows, Box::new(pass)));
        self
    }
    /// A measure of one's own: the mean over the rows of a validation batch, a 0-d tensor; of the whole part, the mean over all rows.
    #[must_use]
    pub fn metric(mut self, name: impl Into<String>, of: impl Fn(&M, &B) -> Computed<Tensor> + Send + 'static) -> Self {
        self.metrics.push((name.into(), Box::new(of)));
        self
    }
    /// The run folder. Without one nothing is written.
    #[must_use]
    pub fn folder(self, folder: impl Into<PathBuf>) -> Self {
        Trainer { folder: Some(folder.into()), ..self }
    }
    /// Goes on from the newest checkpoint in the run folder, if there is one.
    #[must_use]
    pub fn resume(self, resume: bool) -> Self {
        Trainer { resume, ..self }
    }
    /// Who may ask for an early end.
    #[must_use]
    pub fn interrupt(self, interrupt: Interrupt) -> Self {
        Trainer { interrupt, ..self }
    }
    /// The ranks that share the run, of which this is one: each fits the same model to the same data. The rows of a step are cut into so
    /// many shards, at least one for each rank, and weights, slots and lines have the same bits on any number of ranks. The loader
    /// that [`Trainer::fit`] gets reads the shards that this rank holds ([`adamant_data::DataLoaderBuilder::parts`] of
    /// [`rank_parts`](adamant_core::op::rank_parts)). Rank 0 writes the folder; nothing is asked over a socket.
    #[must_use]
    pub fn ranks(self, group: &Arc<dyn Communicator>, shards: usize) -> Self {
        let sharing = StepSharing { group: communicator::group(group), parts: shards, bucket_bytes: 25 << 20, zero: ZeroStage::Off, compress: None };
        Trainer { sharing: Some(sharing), control: ControlPlan { opens: false, ..self.control }, ..self }
    }
    /// The ranks of a mesh that share rows and model, of which this is one: the model has pieces of layers, as
    /// [`parallelize`](adamant_parallel::tensor::parallelize) cut them, and the optimizer is over these. Ranks along `data` have other rows, as in
    /// [`Trainer::ranks`], and those along `tensor` the same. `whole` tells what the model was before ([`WholeModel::of`]); checkpoints and weights are of
    /// whole tensors, and go on with any mesh.
    #[must_use]
    pub fn mesh(self, mesh: &Mesh, sharding: Sharding, whole: WholeModel, shards: usize) -> Self {
        let group = mesh.group(MeshAxis::Data).clone();
        let sharing = StepSharing { group, parts: shards, bucket_bytes: 25 << 20, zero: ZeroStage::Off, compress: None };
        let meshed = Some(MeshedModel::new(mesh.clone(), sharding, whole));
        Trainer { sharing: Some(sharing), meshed, control: ControlPlan { opens: false, ..self.control }, ..self }
    }
    /// Have the same parameters gradients in every step? So it is, unless it is said: then ranks find it out before each step, which takes a pass more.
    #[must_use]
    pub fn static_graph(self, is: bool) -> Self {
        Trainer { static_graph: is, ..self }
    }
    /// What the ranks of [`Trainer::ranks`], called before, share out beside the rows.
    #[must_use]
    pub fn zero(mut self, stage: ZeroStage) -> Self {
        self.sharing.iter_mut().for_each(|sharing| sharing.zero = stage);
        self
    }
    /// How the ranks of [`Trainer::ranks`], called before, send gradients with fewer bytes.
    #[must_use]
    pub fn compress(mut self, plan: CompressionPlan) -> Self {
        self.sharing.iter_mut().for_each(|sharing| sharing.compress = Some(plan));
        self
    }
    /// Where the ranks meet again when one of them is lost: those who are left repeat the step, and a newcomer, whose trainer begins in a group
    /// with them, takes over their state. They all end in the bits of a run that nobody has disturbed.
    #[must_use]
    pub fn elastic(self, meeting: Arc<dyn RankMeeting>) -> Self {
        Trainer { meeting: Some(meeting), ..self }
    }
    /// When checkpoints are made and which are kept; unless it is set, 25 times in a run, the last three and the best one. `every: 0`
    /// stands for the former.
    #[must_use]
    pub fn checkpoints(self, plan: CheckpointPlan) -> Self {
        Trainer { checkpoint: plan, ..self }
    }
    /// A fact about the run for its `config.toml`, such as the width of a layer. A run goes on only under the same facts.
    #[must_use]
    pub fn note(mut self, name: impl Into<String>, value: impl std::fmt::Display) -> Self {
        self.notes.insert(name.into(), value.to_string());
        self
    }
    /// Trains, and writes what there is to write.
    ///
    /// # Errors
    /// See [`Failure`]; the state of the last checkpoint is on the disk.
    pub fn fit<D: Dataset<Batch = B> + ?Sized + 'static>(mut self, loader: DataLoader<D>, watch: &mut dyn Watch) -> Result<Fitted<M>, Failure> {
        let device = Device::current()?;
        if let Some(sharing @ StepSharing { group, parts, .. }) = &self.sharing {
            let held = sharing.held();
            if *parts < group.size as usize || loader.parts() != (held.clone(), *parts) {
                let told = format!("rank {} of {} holds the shards {held:?} of {parts}, and its loader reads {:?}", group.rank, group.size, loader.parts());
                return Err(Failure::Usage(told + ": build it with `.parts(rank_parts(shards, rank, ranks), shards)`"));
            }
        }
        let per_epoch = (loader.batches() as u64).div_ceil(self.habits.accumulate.max(1) as u64);
        let steps = match self.length {
            RunLength::Epochs(n) => n.saturating_mul(per_epoch),
            RunLength::Steps(n) => n,
        };
        let document = self.document(&loader)?;
        let rows = Rows { train: loader.dataset().len(), valid: self.judge.as_ref().map_or(0, |(rows, _)| *rows), test: 0 };
        let plan = Plan {
            device: device.to_string(),
            parameters: self.meshed.as_ref().map_or_else(|| self.model.parameter_count(), |meshed| meshed.whole().elements()),
            rows,
            epochs: if let RunLength::Epochs(n) = self.length { Some(n) } else { None },
            batch: loader.state().step,
            accumulate: self.habits.accumulate,
            steps,
            seed: 0,
            optimizer: self.habits.optimizer.name(),
            clip: clip_text(self.habits.clip.as_ref()),
            precision: self.habits.precision.to_string(),
            folder: self.folder.clone(),
        };
        let pattern =
            Pattern { accumulate: self.habits.accumulate, log_every: self.log_every, eval_every: self.eval_every, look_every: self.look_every, steps };
        let checkpoint = CheckpointPlan { every: if self.checkpoint.every == 0 { (steps / 25).max(1) } else { self.checkpoint.every }, ..self.checkpoint };
        let (loss, metrics, learned) = (self.loss.clone(), self.metrics, self.loss);
        // A loss of one's own does not tell where the model ends: both are the forward.
        let forward: LossOf<M, B> = Arc::new(move |model, batch| time_block!("forward", learned(model, batch)));
        let mut session = Session::new(self.model, forward, self.habits, device)?;
        let job = self.meshed.as_ref().map(|meshed| meshed.mesh().world().clone());
        if let Some(meshed) = self.meshed {
            session.have_part(Arc::new(meshed), None)?;
        }
        if !self.static_graph && self.sharing.is_some() {
            session.changes_graph();
        }
        let judge = self.judge.map(|(_, mut pass)| -> Judge<'static, M> {
            Box::new(move |model: &M, device: Device, region: Option<Autocast>| {
                let mut judge = || score(model, device, &mut *pass, &*loss, &metrics);
                match region {
                    Some(region) => region.run(judge),
                    None => judge(),
                }
            })
        });
        let learned = learn(
            Start {
                session: &mut session,
                loader,
                pattern,
                judge,
                stopping: self.stopping.as_mut(),
                callbacks: &mut self.callbacks,
                folder: self.folder.as_deref(),
                resume: self.resume,
                control: self.control,
                interrupt: &self.interrupt,
                checkpoint,
                alerts: &self.alerts,
                document: &document,
                environment: &json!({ "device": plan.device, "parameters": plan.parameters, "train_rows": rows.train }),
                plan: &plan,
                on_length: None,
                init: None,
                ranks: self.sharing.map(|sharing| {
                    let ranks = RunRanks::new(sharing, device, self.folder.as_deref()).elastic(self.meeting);
                    if let Some(job) = &job { ranks.over(job) } else { ranks }
                }),
                opened: Box::new(|_| Ok(())),
            },
            watch,
        )?;
        let Learned { losses, seconds, resumed, stopped, valid, folder, controls: _open, .. } = learned;
        let weights = folder.as_ref().map(|f| f.path().join("weights.safetensors"));
        let amp = session.amp_stats()?;
        let whole = session.whole_weights(session.model.state_dict())?;
        let fitted = Fitted { model: session.model, losses, valid, seconds, resumed, stopped, weights, amp };
        if let Some(folder) = folder {
            fitted.write(folder, whole, &plan, watch)?;
        }
        Ok(fitted)
    }
    /// What is known of the run, as a description: it is written to the folder, and a run goes on only under the same.
    fn document<D: Dataset<Batch = B> + ?Sized + 'static>(&self, loader: &DataLoader<D>) -> Result<Document, Failure> {
        let mut document = Document::parse("trainer", "")?;
        let text = |v: &str| serde_json::Value::from(v).to_string();
        let state = loader.state();
        let mut facts = vec![match self.length {
            RunLength::Epochs(n) => format!("epochs={n}"),
            RunLength::Steps(n) => format!("iterations={n}"),
        }];
        facts.push(format!("batch={}", state.step));
        facts.push(format!("accumulate={}", self.habits.accumulate));
        facts.push(format!("log_every={}", self.log_every));
        facts.extend(self.eval_every.map(|n| format!("eval_every={n}")));
        facts.push(format!("order={}", text(&format!("{:?}", state.order))));
        facts.push(format!("clip={}", text(&clip_text(self.habits.clip.as_ref()))));
        if self.habits.precision != Precision::default() {
            facts.push(format!("precision={}", text(&self.habits.precision.to_string())));
        }
        facts.extend(self.habits.ema.map(|decay| format!("ema.decay={decay:?}")));
        facts.push(format!("optimizer.kind={}", text(self.habits.optimizer.name())));
        for (k, group) in self.habits.optimizer.hyperparameters().iter().enumerate() {
            facts.extend(group.iter().map(|(name, v)| format!("optimizer.group{k}.{}={}", name.replace('.', "_"), text(&format!("{v:?}")))));
        }
        facts.extend(self.notes.iter().map(|(name, v)| format!("notes.{}={}", name.replace('.', "_"), text(v))));
        facts.iter().try_for_each(|fact| document.set(fact))?;
        Ok(document)
    }
}
impl<M: Walk> Fitted<M> {
    /// What stands in the folder at the end of a run.
    fn write(&self, mut folder: RunFolder, whole: Option<Vec<(String, Tensor)>>, plan: &Plan, watch: &mut dyn Watch) -> Result<(), Failure> {
        folder.close()?;
        let texts = BTreeMap::from([("run".to_string(), format!("{} steps", plan.steps))]);
        if let Some(path) = &self.weights {
            let needed = self.model.memory_usage() as u64;
            adamant_formats::safetensors::save(path, whole.unwrap_or_else(|| self.model.state_dict()), &texts)
                .map_err(|e| storage::written(path, needed, e))?;
        }
        let valid = self.valid.as_ref().map(|v| {
            let mut all = json!({ "loss": number(v.loss), "rows": v.rows });
            v.metrics.iter().for_each(|(name, m)| all[name] = number(*m));
            all
        });
        folder.document(
            "result.json",
            &json!({
                "metrics": {
                    "valid": valid,
                    "train": { "loss": self.losses.last().copied().map(number), "losses": self.losses.iter().copied().map(number).collect::<Vec<_>>(), "rows": plan.rows.train },
                },
                "epochs": plan.epochs, "batch": plan.batch, "accumulate": plan.accumulate, "steps": plan.steps, "parameters": plan.parameters,
                "optimizer": plan.optimizer, "clip": plan.clip, "precision": self.amp.as_ref().map(told_precision), "device": plan.device, "seconds": self.seconds,
                "resumed": self.resumed, "stopped": self.stopped, "run": text_of(folder.path()), "weights": self.weights.as_deref().map(text_of),
            }),
        )?;
        folder.take_warnings().iter().for_each(|w| watch.warn(w));
        if let Err(e) = report::write(folder.path()) {
            watch.warn(&format!("the report could not be written: {e}"));
        }
        Ok(())
    }
}
