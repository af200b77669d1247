//! A run that a description tells: everything is made from it, learned by the loop of [`crate::trainer`], then tested once.
//!
//! Invariant: what stands in `metrics.jsonl`, in the checkpoints and in the weights follows from description, data and
//! device alone.
use crate::{
    Document, Failure,
    analysis::ArchitecturePicture,
    control::ControlPlan,
    dataset::{self, Parts},
    evaluate::{self, EvaluateOptions, Evaluation},
    folder::{self, RunFolder, number, text_of},
    model,
    objective::Objective,
    quantized::{self, QuantizedEnd},
    recipe::{self, OnExtend, SharingMode, Teaching},
    report,
    session::{Habits, Session, StepSharing},
    setup::{self, Length, ModelSharing, RunModel, Setup, StepPortions},
    storage, summary,
    trained::{self, Task},
    trainer::{Extended, Learned, Pattern, RankMeeting, RunRanks, Score, Start, learn, told_precision},
    watch::{Interrupt, Plan, Rows, Watch},
};
use adamant_amp::AmpStats;
use adamant_core::{
    Device, Tensor,
    communicator::{self, Communicator, LoneRank},
    time_block,
};
use adamant_data::Dataset;
use adamant_nn::{Module, Walk, init};
use adamant_optim::{ClippingOptions, schedule::Held};
use adamant_parallel::{Mesh, MeshAxis};
use adamant_stability::StepPhase;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How many of the worst test examples the report shows.
const WORST: usize = 32;

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// the plan
    pub plan: Plan,
    /// the mean loss of each epoch
    pub losses: Vec<f64>,
    /// the test part's figures
    pub test: Evaluation,
    /// seconds of training, without reading data and testing, over all its starts
    pub seconds: f64,
    /// the step it went on from, if it did
    pub resumed: Option<u64>,
    /// why it ended before its last step, if it did
    pub stopped: Option<String>,
    /// where the weights are, if they were written
    pub weights: Option<PathBuf>,
    /// what mixed precision did; none in f32
    pub amp: Option<AmpStats>,
    /// the model of codes, where the description has `[quantize]` and there is a run folder
    pub quantized: Option<QuantizedEnd>,
    /// did this rank write what there was to write? Of a run that nobody shares, always
    pub leads: bool,
}
impl Report {
    /// The report as a JSON document.
    pub fn to_json(&self) -> Value {
        let plan = &self.plan;
        json!({
            "metrics": {
                "test": self.test.to_json(),
                "train": { "loss": self.losses.last().copied().map(number), "losses": self.losses.iter().copied().map(number).collect::<Vec<_>>(), "rows": plan.rows.train },
            },
            "seed": plan.seed,
            "epochs": plan.epochs,
            "batch": plan.batch,
            "accumulate": plan.accumulate,
            "steps": plan.steps,
            "parameters": plan.parameters,
            "optimizer": plan.optimizer,
            "clip": plan.clip,
            "device": plan.device,
            "precision": self.amp.as_ref().map(told_precision),
            "seconds": self.seconds,
            "quantized": self.quantized.as_ref().map(QuantizedEnd::to_json),
            "resumed": self.resumed,
            "stopped": self.stopped,
            "run": plan.folder.as_deref().map(text_of),
            "weights": self.weights.as_deref().map(text_of),
        })
    }
}

/// A run that is to be made.
///
/// ```no_run
/// use adamant_train::{Document, Run};
/// use std::path::Path;
///
/// let document = Document::read(Path::new("examples/digits/digits.toml"))?;
/// let report = Run::new(&document).data("examples/digits").folder("runs/digits-1").train(&mut ())?;
/// println!("{:?}", report.test.accuracy);
/// # Ok::<(), adamant_train::Failure>(())
/// ```
pub struct Run<'a> {
    document: &'a Document,
    data: PathBuf,
    folder: Option<PathBuf>,
    resume: bool,
    control: ControlPlan,
    interrupt: Interrupt,
    environment: Value,
    group: Option<Arc<dyn Communicator>>,
    elastic: Option<(Arc<dyn RankMeeting>, usize)>,
}
impl<'a> Run<'a> {
    /// Of a description, on the current device, with data beside this program and no run folder.
    pub fn new(document: &'a Document) -> Run<'a> {
        Run {
            document,
            data: PathBuf::new(),
            folder: None,
            resume: false,
            control: ControlPlan::default(),
            interrupt: Interrupt::new(),
            environment: json!({}),
            group: None,
            elastic: None,
        }
    }
    /// The folder that paths of data are relative to.
    #[must_use]
    pub fn data(self, folder: impl Into<PathBuf>) -> Run<'a> {
        Run { data: folder.into(), ..self }
    }
    /// The run folder. Without one nothing is written but the weights, where the description says so.
    #[must_use]
    pub fn folder(self, folder: impl Into<PathBuf>) -> Run<'a> {
        Run { folder: Some(folder.into()), ..self }
    }
    /// Goes on from the newest checkpoint in the run folder, if there is one.
    #[must_use]
    pub fn resume(self, resume: bool) -> Run<'a> {
        Run { resume, ..self }
    }
    /// Does a socket in the run folder take requests ([`crate::control`])? It does, unless it is said otherwise.
    #[must_use]
    pub fn control(self, control: bool) -> Run<'a> {
        Run { control: ControlPlan { opens: control, ..self.control }, ..self }
    }
    /// Does the run wait before its first step, or before the first that it goes on with, until somebody resumes it over the socket: to set
    /// breakpoints, or to look at what it begins with? Without a socket it is refused.
    #[must_use]
    pub fn begin_paused(self, paused: bool) -> Run<'a> {
        Run { control: ControlPlan { paused, ..self.control }, ..self }
    }
    /// Who may ask for an early end.
    #[must_use]
    pub fn interrupt(self, interrupt: Interrupt) -> Run<'a> {
        Run { interrupt, ..self }
    }
    /// Facts about the machine and the command, for `environment.json`.
    #[must_use]
    pub fn environment(self, environment: Value) -> Run<'a> {
        Run { environment, ..self }
    }
    /// The ranks that share the run, of which this is one: each calls [`Run::train`] with the same description. Rank 0 writes the folder.
    #[must_use]
    pub fn ranks(self, group: Arc<dyn Communicator>) -> Run<'a> {
        Run { group: Some(group), ..self }
    }
    /// Where the ranks meet again when one of them is lost, and how many there are to be: those who are left repeat the step, and newcomers take
    /// over their state. They all end in the bits of a run that nobody has disturbed. A rank without a group is a newcomer: it makes
    /// itself ready, and meets the others then. The number decides how many shards there are, where nothing else does.
    #[must_use]
    pub fn elastic(self, meeting: Arc<dyn RankMeeting>, ranks: usize) -> Run<'a> {
        Run { elastic: Some((meeting, ranks)), ..self }
    }
    /// Trains, tests, writes what there is to write.
    ///
    /// # Errors
    /// See [`Failure`]; the state of the last checkpoint is on the disk.
    pub fn train(self, watch: &mut dyn Watch) -> Result<Report, Failure> {
        let device = Device::current()?;
        self.document.left_out().iter().for_each(|what| watch.warn(what));
        // What was learned of a table stays what it was, whatever has become of the file.
        let kept = self.folder.as_deref().filter(|_| self.resume).map(dataset::kept_columns).transpose()?.flatten();
        let SharedRun { document, sharing, model: model_sharing, static_graph, retries } = self.shared()?;
        let meeting = self.elastic.as_ref().map(|(meeting, _)| meeting.clone());
        let is_newcomer = meeting.is_some() && self.group.is_none();
        let ranks = sharing.map(|sharing| RunRanks::new(sharing, device, self.folder.as_deref()).elastic(meeting).newcomer(is_newcomer).retries(retries));
        let mesh = model_sharing.as_ref().and_then(|sharing| sharing.mesh.as_ref());
        let ranks = match mesh {
            Some((mesh, _)) => ranks.map(|ranks| ranks.over(mesh.world())),
            None => ranks,
        };
        let setup = Setup::shared(&document, &self.data, kept.as_deref(), model_sharing.as_ref());
        // Who fails while the model is shared out lets nobody wait.
        let setup = setup.inspect_err(|failure| ranks.iter().filter(|_| model_sharing.is_some()).for_each(|ranks| ranks.failed(failure)))?;
        let plan = plan(&setup, device, self.folder.clone());
        if let Some(ranks) = &ranks {
            let joins_norms = model_sharing.as_ref().is_some_and(|sharing| sharing.norms_over.is_some());
            let portions = StepPortions { sharing: ranks.sharing(), mesh: mesh.map(|(_, recipe)| recipe), steps: plan.steps, joins_norms };
            portions.are_enough(self.document, &setup)?;
        }
        let picture = picture(&setup);
        let Setup { document, seed, model, objective, optimizer, course, clip, stability, batch, accumulate, log_every, eval_every, look_every, .. } = setup;
        let Setup { checkpoint, parts, weights, mut stopping, ema, capture, precision, init_from, alerts, taught, meshed, .. } = setup;
        let habits = Habits { optimizer, course, clip, stability, accumulate, ema, capture, precision };
        let mut session = session(model, objective.clone(), taught, habits, device)?;
        if let Some((meshed, (mesh, recipe))) = meshed.zip(mesh) {
            let pass = (mesh.size(MeshAxis::Pipeline) > 1).then(|| setup::pass(objective.clone(), recipe));
            session.have_part(Arc::new(meshed), pass).inspect_err(|failure| ranks.iter().for_each(|ranks| ranks.failed(failure)))?;
        }
        if !static_graph && ranks.is_some() {
            session.changes_graph();
        }
        let mut environment = self.environment.clone();
        if let Value::Object(facts) = &mut environment {
            facts.insert("parameters".into(), plan.parameters.into());
            facts.insert("train_rows".into(), plan.rows.train.into());
            facts.insert("test_rows".into(), plan.rows.test.into());
            facts.insert("seed".into(), plan.seed.into());
        }
        let judge = parts.valid.as_ref().map(|valid| {
            let (objective, options) = (&objective, parts.evaluation());
            let judge = move |model: &RunModel, device, region| {
                Ok(score(&evaluate::evaluate(model, objective, valid, device, &EvaluateOptions { region, ..options.clone() })?))
            };
            Box::new(judge) as crate::trainer::Judge<'_, RunModel>
        });
        let steps = plan.steps;
        let reaches = document.root()?.section("schedule")?.map(|s| recipe::reaching(&s)).transpose()?.flatten();
        let on_length = reaches.map(|reaching| {
            let document = &document;
            Box::new(move |before| on_length(document, reaching, before, steps)) as crate::trainer::OnLength<'_>
        });
        let learned = learn(
            Start {
                session: &mut session,
                loader: parts.loader(seed, batch, ranks.as_ref().map(RunRanks::sharing))?,
                pattern: Pattern { accumulate, log_every, eval_every, look_every, steps },
                judge,
                stopping: stopping.as_mut(),
                callbacks: &mut [],
                folder: self.folder.as_deref(),
                resume: self.resume,
                control: if ranks.is_some() { ControlPlan { opens: false, ..self.control } } else { self.control },
                interrupt: &self.interrupt,
                checkpoint,
                alerts: &alerts,
                document: &document,
                environment: &environment,
                plan: &plan,
                on_length,
                ranks: ranks.clone(),
                init: init_from.map(|from| Box::new(move |model: &RunModel| from.apply(model, device)) as Box<dyn FnOnce(&RunModel) -> Result<(), Failure>>),
                opened: Box::new(|folder| {
                    Task::of(&parts.train.describe(), parts.vocabulary()).write(folder.path())?;
                    picture.as_ref().map_or(Ok(()), |text| folder::write(&folder.path().join("architecture.json"), text))?;
                    parts.keep_columns(folder.path())
                }),
            },
            watch,
        )?;
        let Learned { losses, seconds, resumed, stopped, folder, leads, controls: _open, .. } = learned;
        let whole = session.whole_weights(session.model.state_dict())?;
        let options = EvaluateOptions { worst: WORST, region: session.region(), ..parts.evaluation() };
        let test = evaluate::evaluate(&session.model, &objective, &parts.test, device, &options)?;
        if let Some(ranks) = ranks.as_ref().filter(|_| mesh.is_some()) {
            // Outputs of stages are on their way: whoever ended now would be missed by a rank that has not read them yet.
            ranks.gather(&[0])?;
        }
        let report = Report { plan, losses, test, seconds, resumed, stopped, weights, amp: session.amp_stats()?, quantized: None, leads };
        let judge =
            |model: &adamant_nn::Sequential| evaluate::evaluate(model, &objective, &parts.test, device, &EvaluateOptions { worst: 0, ..options.clone() });
        self.finish((&session, whole), &parts, folder, (report, &judge), watch)
    }
    /// The description with the number of parts that steps are cut into, and how they are shared; none where they are not.
    fn shared(&self) -> Result<SharedRun, Failure> {
        let root = self.document.root()?;
        let said = recipe::distributed(&root)?;
        let (static_graph, retries) = (said.static_graph, said.retries);
        let here = self.group.as_ref().map_or(1, |group| group.size());
        let size = self.elastic.as_ref().map_or(here, |(_, ranks)| here.max(*ranks));
        let wrong = |what: String| Err(Failure::Usage(format!("[distributed]: {what}")));
        match said.mode {
            SharingMode::None if size > 1 => return wrong(format!("`mode` is \"none\", and {size} ranks were started: start one, or leave it out")),
            SharingMode::Distributed | SharingMode::Hybrid if size < 2 => {
                let mode = if said.mode == SharingMode::Hybrid { "hybrid" } else { "distributed" };
                return wrong(format!("`mode` is \"{mode}\", and one rank was started: `adamant launch -n 2 -- ...` starts two"));
            }
            _ => {}
        }
        if let (Some(mesh), true) = (&said.mesh, self.elastic.is_some()) {
            let what = if mesh.shares_the_model() { "with a `mesh` a lost rank takes along what only it has" } else { "a `mesh` has as many ranks as it says" };
            return wrong(format!("{what}: ranks do not come and go then; leave out `--elastic`, and go on from the newest checkpoint by `--max-restarts`"));
        }
        if said.sync_bn && self.elastic.is_some() {
            return wrong("batch norms with `sync_bn` exchange with the ranks that there were: leave out `--elastic`".into());
        }
        let mesh = said.mesh.map(|recipe| {
            let section = root.need("distributed", root.section("distributed")?)?;
            recipe::goes_with_mesh(&root, &recipe)?;
            Ok::<_, Failure>((recipe.shape(&section, size)?, recipe))
        });
        let mesh = mesh.transpose()?;
        // Those along `data` share out the rows.
        let size = mesh.as_ref().map_or(size, |(shape, _)| shape.data);
        let shares_the_model = mesh.as_ref().is_some_and(|(_, recipe)| recipe.shares_the_model());
        // What a run began with it keeps, on however many ranks it goes on.
        let begun = self.folder.as_ref().filter(|_| self.resume).map(|folder| folder.join("config.toml")).filter(|path| path.exists());
        let begun = begun.map(|path| recipe::distributed(&Document::read(&path)?.root()?)).transpose()?.and_then(|before| before.shards);
        let shards = said.shards.or(begun).unwrap_or(size);
        if shards < size {
            return wrong(format!(
                "{shards} shards on {size} ranks{}: every rank holds one at least: `shards = {size}`",
                if mesh.is_some() { " along `data`" } else { "" }
            ));
        }
        let mut document = self.document.clone();
        let group = match &self.group {
            _ if shards == 1 && self.elastic.is_some() => {
                return wrong("one shard is one rank's, and nobody could go on without it: `--elastic` goes with two at least".into());
            }
            _ if shards == 1 && !shares_the_model => return Ok(SharedRun { document, sharing: None, model: None, static_graph, retries }),
            Some(group) => communicator::group(group),
            None => communicator::group(&(Arc::new(LoneRank::default()) as Arc<dyn Communicator>)),
        };
        if root.has("quantize") {
            return wrong("observers of `[quantize]` see one rank's inputs alone: codes are trained on one rank, with one shard".into());
        }
        if root.section("stability")?.is_some_and(|s| s.has("look_every")) {
            return wrong("`stability.look_every` looks at one rank's layers alone: it goes with one rank and one shard".into());
        }
        drop(root);
        document.set(&format!("distributed.shards={shards}"))?;
        let mesh = mesh.map(|(shape, recipe)| Ok::<_, Failure>((Mesh::new(&group, shape)?, recipe))).transpose()?;
        let group = mesh.as_ref().map_or(group, |(mesh, _)| mesh.group(MeshAxis::Data).clone());
        let norms_over = said.sync_bn.then(|| group.clone());
        let model = (mesh.is_some() || norms_over.is_some()).then_some(ModelSharing { mesh, norms_over, parts: shards });
        let sharing = StepSharing { group, parts: shards, bucket_bytes: said.bucket_bytes, zero: said.zero, compress: said.compress };
        Ok(SharedRun { document, sharing: Some(sharing), model, static_graph, retries })
    }
    /// Writes what stands at the end of a run.
    fn finish(
        &self,
        (session, whole): (&Session<RunModel, (Tensor, Tensor)>, Option<Vec<(String, Tensor)>>),
        parts: &Parts,
        folder: Option<RunFolder>,
        (mut done, judge): (Report, &dyn Fn(&adamant_nn::Sequential) -> Result<Evaluation, Failure>),
        watch: &mut dyn Watch,
    ) -> Result<Report, Failure> {
        // One text: the format does not order several, and equal runs give equal files.
        let texts = BTreeMap::from([("run".to_string(), format!("seed {}, {} steps", done.plan.seed, done.plan.steps))]);
        let layers = session.model.layers().filter(|_| self.document.root().is_ok_and(|root| root.has("quantize")));
        let floats = layers.map(quantized::of_floats).transpose()?;
        let state = match (&floats, whole) {
            (Some(floats), _) => floats.state_dict(),
            (None, Some(whole)) => whole,
            (None, None) => session.model.state_dict(),
        };
        let needed = session.model.memory_usage() as u64;
        let save = |path: &Path| adamant_formats::safetensors::save(path, state.clone(), &texts).map_err(|e| storage::written(path, needed, e));
        if let Some(path) = done.weights.as_ref().filter(|_| done.leads) {
            save(path)?;
        }
        let Some(mut folder) = folder else { return Ok(done) };
        let at = session.position();
        let mut line = json!({ "kind": "test", "step": at.step, "epoch": at.epoch.max(1), "loss": number(done.test.loss) });
        let mut scalars = BTreeMap::from([("test/loss".to_string(), done.test.loss)]);
        for (name, value) in done.test.figures() {
            line[name] = value.map_or(Value::Null, number);
            scalars.extend(value.map(|v| (format!("test/{name}"), v)));
        }
        line["rows"] = done.test.rows.into();
        folder.metric(&line)?;
        folder.scalars(at.step, &scalars)?;
        folder.document("evaluation.json", &evaluate::document(&done.test, &parts.test, &parts.show)?)?;
        folder.close()?;
        folder.take_warnings().iter().for_each(|w| watch.warn(w));
        let scales = session.region().map(|region| region.fp8_state_dict()).unwrap_or_default();
        if !scales.is_empty() {
            let path = folder.path().join(trained::SCALES);
            adamant_formats::safetensors::save(&path, scales, &texts).map_err(|e| storage::written(&path, 0, e))?;
        }
        let own = folder.path().join("weights.safetensors");
        save(&own)?;
        if let Some(layers) = layers {
            done.quantized = Some(QuantizedEnd::of(layers, folder.path(), judge)?);
        }
        done.weights.get_or_insert(own);
        folder.document("result.json", &done.to_json())?;
        folder.take_warnings().iter().for_each(|w| watch.warn(w));
        // The run is over and safe: a page that cannot be drawn is worth a word, no more.
        if let Err(e) = report::write(folder.path()) {
            watch.warn(&format!("the report could not be written: {e}"));
        }
        Ok(done)
    }
}
/// A run as its ranks share it.
struct SharedRun {
    document: Document,
    sharing: Option<StepSharing>,
    model: Option<ModelSharing>,
    static_graph: bool,
    retries: u32,
}
/// A session that learns pairs of inputs and targets, and what a teacher says of the inputs.
pub(crate) fn session(
    model: RunModel,
    objective: Objective,
    taught: Option<Teaching>,
    habits: Habits,
    device: Device,
) -> Result<Session<RunModel, (Tensor, Tensor)>, Failure> {
    let loss = move |model: &RunModel, (x, y): &(Tensor, Tensor)| {
        let outputs = time_block!("forward", StepPhase::Forward.run(|| model.forward(x)))?;
        let loss = || match &taught {
            Some(teaching) => teaching.loss(&objective, &outputs, x, y),
            None => objective.loss(&outputs, y),
        };
        time_block!("loss", StepPhase::Loss.run(loss))
    };
    Session::new(model, Arc::new(loss), habits, device)
}
/// What an evaluation says of the model, for those who decide by it.
fn score(seen: &Evaluation) -> Score {
    let metrics = seen.figures().into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect();
    Score { loss: seen.loss, metrics, rows: seen.rows }
}
/// What becomes of a schedule whose length follows from that of the run, when that is another than before.
fn on_length(document: &Document, (kind, key): (&str, &str), before: u64, now: u64) -> Result<Extended, Failure> {
    let root = document.root()?;
    let Some(s) = root.section("schedule")? else { return Ok(Extended::Stretched) };
    match OnExtend::of(&s)? {
        OnExtend::Refuse => Err(Failure::Usage(format!(
            "the run began with {before} steps and is now to have {now}, but `schedule` ({kind}) reaches over the steps of the run: they were made at the rates of \
             {before}. Give it a length of its own (`{key}`) in a new run; or say what becomes of it: `schedule.on_extend = \"stretch\"` goes on as if it had \
             been {now} long, `\"hold\"` keeps the {before}, and the rate at their end for what follows"
        ))),
        OnExtend::Stretch => Ok(Extended::Stretched),
        OnExtend::Hold => Ok(Extended::Held(Box::new(Held { schedule: recipe::schedule(s, before)?, until: before }))),
    }
}
/// So long a rank of a run waits for the others before it takes them for lost: `distributed.timeout`.
///
/// # Errors
/// A number that makes no sense.
pub fn rank_timeout(document: &Document) -> Result<Duration, Failure> {
    recipe::patience(&document.root()?)
}
/// Runs a description on the current device, without a run folder. Paths of data are relative to `folder`.
///
/// # Errors
/// As [`Run::train`].
pub fn train(document: &Document, folder: &Path, watch: &mut dyn Watch) -> Result<Report, Failure> {
    Run::new(document).data(folder).train(watch)
}
/// How gradients are limited, for those who watch.
pub(crate) fn clip_text(clip: Option<&ClippingOptions>) -> String {
    clip.map_or_else(|| "off".into(), ClippingOptions::to_string)
}
/// The model as boxes and arrows, for the report; none where the data do not tell the shape of an input.
fn picture(setup: &Setup) -> Option<Vec<u8>> {
    let facts = setup.parts.train.describe().inputs?;
    let shape = [&[setup.batch], &*facts.shape].concat();
    let looked = match setup.model.layers().filter(|_| setup.meshed.is_none()) {
        Some(model) => summary::look(model, &shape, facts.dtype).ok()?,
        // Ranks have pieces of it: the whole has no numbers here.
        None => {
            let root = setup.document.root().ok()?;
            let model = Device::reference().scoped(|| init::shapes_only(|| model::model(root.section("model").ok()??).ok()))?;
            Device::reference().scoped(|| summary::look(&model, &shape, facts.dtype)).ok()?
        }
    };
    serde_json::to_vec(&ArchitecturePicture::of(&looked)).ok()
}
fn plan(setup: &Setup, device: Device, folder: Option<PathBuf>) -> Plan {
    Plan {
        device: device.to_string(),
        parameters: setup.meshed.as_ref().map_or_else(|| setup.model.parameter_count(), |meshed| meshed.whole().elements()),
        rows: Rows { train: setup.parts.train.len(), valid: setup.parts.valid.as_ref().map_or(0, |p| p.len()), test: setup.parts.test.len() },
        epochs: if let Length::Epochs(n) = setup.length { Some(n) } else { None },
        batch: setup.batch,
        accumulate: setup.accumulate,
        steps: setup.steps(),
        seed: setup.seed,
        optimizer: setup.optimizer.name(),
        clip: clip_text(setup.clip.as_ref()),
        precision: setup.precision.to_string(),
        folder,
    }
}
