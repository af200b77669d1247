//! The run itself: batches, steps, lines of the log, validation, checkpoints; then the test part, once.
//!
//! ```text
//! DataLoader -> group of batches -> Session::step -> every log_every: a line
//!                                                 -> end of epoch:    validation, a line
//!                                                 -> every so often:  snapshot -> Writer (its own thread) -> disk
//!                                                 -> interrupt asked: checkpoint, end
//! ```
//!
//! Invariant: what stands in `metrics.jsonl`, in the checkpoints and in the weights follows from description, data and
//! device alone. Nothing here asks the clock for anything but `timing.jsonl`.
mod learn;
mod safe;

use crate::{
    Document, Failure,
    checkpoint::OnError,
    dataset,
    evaluate::{self, EvaluateOptions, Evaluation},
    folder::{Mark, RunFolder, number, text_of},
    report,
    session::Session,
    setup::{Length, Setup},
    trained::Task,
    watch::{Interrupt, Plan, Rows, Watch},
};
use adamant_core::Device;
use adamant_data::Dataset;
use adamant_nn::Walk;
use learn::{Habits, Kept, Learning};
use safe::Safe;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
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
    /// where the weights are, if they were written
    pub weights: Option<PathBuf>,
}
impl Report {
    /// The report as a JSON document.
    pub fn to_json(&self) -> Value {
        let plan = &self.plan;
        json!({
            "metrics": {
                "test": { "accuracy": self.test.accuracy.map(number), "loss": number(self.test.loss), "rows": self.test.rows },
                "train": { "loss": self.losses.last().copied().map(number), "losses": self.losses.iter().copied().map(number).collect::<Vec<_>>(), "rows": plan.rows.train },
            },
            "seed": plan.seed,
            "epochs": plan.epochs,
            "batch": plan.batch,
            "accumulate": plan.accumulate,
            "steps": plan.steps,
            "parameters": plan.parameters,
            "optimizer": plan.optimizer,
            "clip": plan.clip.to_string(),
            "device": plan.device,
            "seconds": self.seconds,
            "resumed": self.resumed,
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
    interrupt: Interrupt,
    environment: Value,
}
impl<'a> Run<'a> {
    /// Of a description, on the current device, with data beside this program and no run folder.
    pub fn new(document: &'a Document) -> Run<'a> {
        Run { document, data: PathBuf::new(), folder: None, resume: false, interrupt: Interrupt::new(), environment: json!({}) }
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
    /// Trains, tests, writes what there is to write.
    ///
    /// # Errors
    /// See [`Failure`]; the state of the last checkpoint is on the disk.
    pub fn train(self, watch: &mut dyn Watch) -> Result<Report, Failure> {
        let device = Device::current()?;
        // What was learned of a table stays what it was, whatever has become of the file.
        let kept = self.folder.as_deref().filter(|_| self.resume).map(dataset::kept_columns).transpose()?.flatten();
        let setup = Setup::with(self.document, &self.data, kept.as_deref())?;
        let plan = plan(&setup, device, self.folder.clone());
        let habits = Habits::of(&setup);
        let Setup { document, model, objective, optimizer, schedule, clip, accumulate, checkpoint, parts, weights, .. } = setup;
        let mut session = Session::new(model, objective, optimizer, schedule, clip, accumulate, device)?;
        let mut safe = self.folder.as_deref().map(|f| Safe::open(f, checkpoint)).transpose()?;
        watch.begin(&plan);
        parts.notes.iter().for_each(|note| watch.warn(note));
        let (mut kept, mut resumed) = (Kept::default(), None);
        if let Some(safe) = &safe {
            match safe.latest(watch)? {
                None => {}
                Some(found) if self.resume => {
                    must_agree(self.folder.as_deref(), &document)?;
                    kept = Kept::read(session.restore(&found.snapshot)?)?;
                    resumed = Some(found.snapshot.step);
                    watch.resume(found.snapshot.step);
                }
                Some(found) => {
                    return Err(Failure::Usage(format!(
                        "{} has checkpoints of an earlier run: go on with `--resume auto`, or name another folder",
                        self.folder.as_deref().unwrap_or(&found.folder).display()
                    )));
                }
            }
        }
        let mut environment = self.environment.clone();
        if let Value::Object(facts) = &mut environment {
            facts.insert("parameters".into(), plan.parameters.into());
            facts.insert("train_rows".into(), plan.rows.train.into());
            facts.insert("test_rows".into(), plan.rows.test.into());
            facts.insert("seed".into(), plan.seed.into());
        }
        let on_error = safe.as_ref().map_or(OnError::Stop, |s| s.on_error);
        let mark = resumed.map(|step| Mark { metrics_bytes: kept.metrics_bytes, step });
        let mut folder = self.folder.as_deref().map(|f| RunFolder::open(f, &document, &environment, mark, on_error)).transpose()?;
        if let Some(folder) = &folder {
            Task::of(&parts.train.describe(), parts.vocabulary()).write(folder.path())?;
            parts.keep_columns(folder.path())?;
        }
        let mut learning = Learning { session: &mut session, habits, parts: &parts, folder: folder.as_mut(), safe: safe.as_mut(), kept, score: None, watch };
        learning.run(&self.interrupt)?;
        let kept = learning.kept;
        if let Some(safe) = &mut safe {
            safe.flush(watch)?;
        }

        let test = evaluate::evaluate(&session.model, &session.objective, &parts.test, device, &EvaluateOptions { worst: WORST, ..parts.evaluation() })?;
        let report = Report { plan, losses: kept.losses(), test, seconds: kept.seconds, resumed, weights };
        self.finish(&session, &parts, folder, report, watch)
    }
    /// Writes what stands at the end of a run.
    fn finish(
        &self,
        session: &Session,
        parts: &crate::dataset::Parts,
        folder: Option<RunFolder>,
        mut done: Report,
        watch: &mut dyn Watch,
    ) -> Result<Report, Failure> {
        // One text: the format does not order several, and equal runs give equal files.
        let texts = BTreeMap::from([("run".to_string(), format!("seed {}, {} steps", done.plan.seed, done.plan.steps))]);
        let save = |path: &Path| adamant_formats::safetensors::save(path, session.model.state_dict(), &texts).map_err(|e| Failure::Storage(e.to_string()));
        if let Some(path) = &done.weights {
            save(path)?;
        }
        let Some(mut folder) = folder else { return Ok(done) };
        let at = session.position();
        let mut line = json!({ "kind": "test", "step": at.step, "epoch": at.epoch.max(1), "loss": number(done.test.loss) });
        let mut scalars = BTreeMap::from([("test/loss".to_string(), done.test.loss)]);
        if let Some(accuracy) = done.test.accuracy {
            line["accuracy"] = number(accuracy);
            scalars.insert("test/accuracy".into(), accuracy);
        }
        line["rows"] = done.test.rows.into();
        folder.metric(&line)?;
        folder.scalars(at.step, &scalars)?;
        folder.document("evaluation.json", &evaluate::document(&done.test, &parts.test, &parts.show)?)?;
        folder.close()?;
        folder.take_warnings().iter().for_each(|w| watch.warn(w));
        let own = folder.path().join("weights.safetensors");
        save(&own)?;
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
/// Keys that may change from one start of a run to the next: they decide how long it is and what is written, not what a
/// step computes.
const FREE: [&str; 10] =
    ["epochs", "iterations", "checkpoint.", "log_every", "eval_every", "weights", "data.path", "data.workers", "data.prefetch_factor", "data.timeout"];
/// Refuses to go on under a description that computes something else.
fn must_agree(folder: Option<&Path>, document: &Document) -> Result<(), Failure> {
    let Some(path) = folder.map(|f| f.join("config.toml")).filter(|p| p.exists()) else { return Ok(()) };
    let before = Document::read(&path)?;
    let is_free = |key: &str| FREE.iter().any(|f| if f.ends_with('.') { key.starts_with(f) } else { key == *f });
    let changed: Vec<String> = document.difference(&before).into_iter().filter(|k| !is_free(k)).collect();
    if changed.is_empty() {
        return Ok(());
    }
    Err(Failure::Usage(format!("{} began with another description: {} changed; start a new run for that", path.display(), changed.join(", "))))
}
/// Runs a description on the current device, without a run folder. Paths of data are relative to `folder`.
///
/// # Errors
/// As [`Run::train`].
pub fn train(document: &Document, folder: &Path, watch: &mut dyn Watch) -> Result<Report, Failure> {
    Run::new(document).data(folder).train(watch)
}
fn plan(setup: &Setup, device: Device, folder: Option<PathBuf>) -> Plan {
    Plan {
        device: device.to_string(),
        parameters: setup.model.parameter_count(),
        rows: Rows { train: setup.parts.train.len(), valid: setup.parts.valid.as_ref().map_or(0, |p| p.len()), test: setup.parts.test.len() },
        epochs: if let Length::Epochs(n) = setup.length { Some(n) } else { None },
        batch: setup.batch,
        accumulate: setup.accumulate,
        steps: setup.steps(),
        seed: setup.seed,
        optimizer: setup.optimizer.name(),
        clip: setup.clip,
        folder,
    }
}
