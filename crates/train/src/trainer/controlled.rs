//! What a run is asked for from outside, between two steps ([`crate::control`]).
//!
//! Before anything is decided the loop looks whether all was well up to here: behind a look nothing is taken back, so that a decision
//! stands at the step that its line names, in this run as in one that goes on from an earlier checkpoint.
use super::{Batch, Trainer, learn::Learning, profiled::ProfileWish, restored::WentBack};
use crate::{
    Failure,
    checkpoint::step_of,
    control::{AskedRequest, ControlDecision, ControlDesk, ControlJournal, ControlRequest, RunPhase, RunSocket},
    folder::{number, text_of},
    watch::{Interrupt, Watch},
};
use adamant_data::Dataset;
use adamant_nn::Walk;
use serde_json::{Value, json};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Why a run ended behind an epoch.
pub(super) const ASKED_TO_STOP: &str = "it was asked to stop behind the epoch";
/// The signal that a request to stop stands for.
const SIGTERM: i32 = 15;
/// How often a paused run looks for a signal.
const LOOK: Duration = Duration::from_millis(50);

impl<M, B> Trainer<M, B> {
    /// Does a socket in the run folder take requests ([`crate::control`])? It does, unless it is said otherwise.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Linear, Module, Walk};
    /// # use adamant_optim::{Sgd, UpdateRule};
    /// # use adamant_train::Trainer;
    /// # adamant_core::Device::reference().make_current();
    /// # let model = Linear::new(2, 1)?;
    /// # let optimizer = Sgd::new(0.1).over(model.parameters());
    /// # let loss = |model: &Linear, (x, y): &(Tensor, Tensor)| (model.forward(x)? - y).square().mean(..).ok();
    /// let trainer = Trainer::new(model, optimizer, loss).control(false);
    /// # let _ = trainer;
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[must_use]
    pub fn control(self, control: bool) -> Self {
        Trainer { control, ..self }
    }
}

/// Where requests come from: the journal, which a run has to follow, and the socket. Of a run without a folder there is neither.
#[derive(Default)]
pub(crate) struct Controls {
    journal: Option<ControlJournal>,
    socket: Option<RunSocket>,
    /// is the next step to be recorded?
    #[cfg_attr(not(feature = "profiling"), expect(dead_code))]
    pub(super) profile: ProfileWish,
}
impl Controls {
    /// `resumes`: does the run go on, and from a state with how many lines of the journal? With the steps of the run, a socket is opened.
    pub fn open(folder: &Path, (resumes, done): (bool, u64), steps: Option<u64>, watch: &mut dyn Watch) -> Result<Controls, Failure> {
        let journal = if resumes { ControlJournal::resume(folder, done)? } else { ControlJournal::begin(folder)? };
        let again: Vec<String> = journal.ahead().map(|(step, decision)| format!("{} after step {step}", told(decision))).collect();
        if !again.is_empty() {
            watch.warn(&format!("what the run was asked for is done again: {}", again.join(", ")));
        }
        let socket = steps.map(|steps| RunSocket::open(folder, steps, watch)).transpose()?.flatten();
        Ok(Controls { journal: Some(journal), socket, profile: ProfileWish::default() })
    }
    fn desk(&mut self) -> Option<&mut ControlDesk> {
        self.socket.as_mut().map(|socket| &mut socket.desk)
    }
    fn show_phase(&self, phase: RunPhase) {
        self.socket.iter().for_each(|socket| socket.desk.show_phase(phase));
    }
    /// Is there anything to do at this step?
    fn is_due(&self, step: u64) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.is_due(step)) || self.socket.as_ref().is_some_and(|socket| socket.desk.has_news())
    }
    /// The steps are over.
    pub fn over(&mut self) {
        self.desk().into_iter().for_each(ControlDesk::over);
    }
}
fn told(decision: ControlDecision) -> String {
    match decision {
        ControlDecision::Rate { factor } => format!("the rate × {factor}"),
        ControlDecision::StopAfterEpoch => "the end behind the epoch".into(),
    }
}
/// What comes of a request.
pub(super) enum Heeded {
    /// an answer, with more than that it was done
    Done(Vec<(&'static str, Value)>),
    Refused(String),
}

impl<M: Walk, D: Dataset + ?Sized + 'static> Learning<'_, '_, M, D>
where
    D::Batch: Batch,
{
    /// Before a step: does what was asked for, and waits while the run is paused. Gives the time that it waited.
    pub(super) fn heed(&mut self, interrupt: &Interrupt, elapsed: &dyn Fn() -> f64) -> Result<(WentBack, Duration), Failure> {
        let at = self.session.position();
        if let Some(desk) = self.controls.desk() {
            desk.show(at.step, at.epoch + 1);
            desk.show_phase(RunPhase::Training);
        }
        if !self.controls.is_due(at.step) {
            return Ok((WentBack::Not, Duration::ZERO));
        }
        if self.look()? == WentBack::To {
            return Ok((WentBack::To, Duration::ZERO));
        }
        while let Some(decision) = self.controls.journal.as_mut().and_then(|journal| journal.next(at.step)) {
            self.act(decision)?;
        }
        let mut paused: Option<Instant> = None;
        let waited = |paused: Option<Instant>| paused.map_or(Duration::ZERO, |since| since.elapsed());
        loop {
            let next = match (self.controls.desk(), paused) {
                (None, _) => None,
                (Some(desk), None) => desk.next(),
                (Some(desk), Some(_)) => desk.wait(LOOK),
            };
            if let (Some(signal), Some(_)) = (interrupt.asked(), paused) {
                return Err(self.leave(signal, elapsed() - waited(paused).as_secs_f64())?);
            }
            let Some(asked) = next else {
                if paused.is_some() {
                    continue;
                }
                break;
            };
            let heeded = match asked.request {
                ControlRequest::Pause => {
                    if paused.is_none() {
                        paused = Some(Instant::now());
                        self.watch.warn(&format!("paused after step {}, as somebody asked", at.step));
                    }
                    self.controls.show_phase(RunPhase::Paused);
                    Heeded::Done(Vec::new())
                }
                ControlRequest::Resume => {
                    self.controls.show_phase(RunPhase::Training);
                    self.answer(asked, Heeded::Done(Vec::new()));
                    match paused {
                        Some(_) => break,
                        None => continue,
                    }
                }
                ControlRequest::Stop => {
                    let failure = self.leave(SIGTERM, elapsed() - waited(paused).as_secs_f64())?;
                    let checkpoint = if let Failure::Interrupted { checkpoint, .. } = &failure { checkpoint.as_deref().map(text_of) } else { None };
                    self.answer(asked, Heeded::Done(vec![("checkpoint", checkpoint.into())]));
                    return Err(failure);
                }
                ControlRequest::Checkpoint => self.checkpoint_now(elapsed() - waited(paused).as_secs_f64())?,
                ControlRequest::Rate { factor } => self.decide(ControlDecision::Rate { factor })?,
                ControlRequest::Profile => self.wish_profile(),
                ControlRequest::StopAfterEpoch => self.decide(ControlDecision::StopAfterEpoch)?,
                ControlRequest::Status => Heeded::Done(Vec::new()),
            };
            self.answer(asked, heeded);
        }
        let waited = waited(paused);
        if paused.is_some() {
            self.watch.warn(&format!("goes on after step {}, paused for {:.1} s", at.step, waited.as_secs_f64()));
            if let Some(folder) = &mut self.folder {
                folder.time(json!({ "kind": "pause", "step": at.step, "paused_seconds": number(waited.as_secs_f64()) }))?;
            }
        }
        Ok((WentBack::Not, waited))
    }
    fn answer(&mut self, to: AskedRequest, heeded: Heeded) {
        let step = self.session.position().step;
        if let Some(desk) = self.controls.desk() {
            match heeded {
                Heeded::Done(more) => desk.answer(to, step, &more),
                Heeded::Refused(why) => desk.refuse(to, &why),
            }
        }
    }
    /// Writes down what changes the run, and does it then. A disk that takes no line is no reason to end.
    fn decide(&mut self, decision: ControlDecision) -> Result<Heeded, Failure> {
        let step = self.session.position().step;
        match decision {
            ControlDecision::StopAfterEpoch if self.kept.stops_after_epoch => return Ok(Heeded::Done(Vec::new())),
            ControlDecision::Rate { factor } if !self.session.can_scale_rates(factor) => {
                return Ok(Heeded::Refused(format!("the rate is {}: times {factor} it is no rate any more", self.session.lr())));
            }
            _ => {}
        }
        match self.controls.journal.as_mut().map(|journal| journal.decide(step, decision)) {
            Some(Ok(())) => {}
            Some(Err(e)) => return Ok(Heeded::Refused(e.to_string())),
            None => return Ok(Heeded::Refused("the run has no folder".into())),
        }
        self.act(decision)?;
        Ok(Heeded::Done(match decision {
            ControlDecision::Rate { .. } => vec![("lr", number(self.session.lr()))],
            ControlDecision::StopAfterEpoch => Vec::new(),
        }))
    }
    /// Does what stands in the journal.
    fn act(&mut self, decision: ControlDecision) -> Result<(), Failure> {
        let at = self.session.position();
        let mut line = json!({ "kind": "control", "step": at.step, "epoch": at.epoch + 1 });
        match decision {
            ControlDecision::Rate { factor } => {
                self.session.scale_rates(factor);
                (line["action"], line["factor"], line["lr"]) = ("rate".into(), number(factor), number(self.session.lr()));
            }
            ControlDecision::StopAfterEpoch => {
                self.kept.stops_after_epoch = true;
                line["action"] = "stop_after_epoch".into();
                self.controls.desk().iter().for_each(|desk| desk.show_stop());
            }
        }
        self.kept.controls = self.controls.journal.as_ref().map_or(0, ControlJournal::done);
        self.watch.warn(&format!("{} from step {} on, as somebody asked", told(decision), at.step + 1));
        if let Some(folder) = &mut self.folder {
            folder.metric(&line)?;
        }
        Ok(())
    }
    /// A checkpoint of this step, on the disk.
    fn save_now(&mut self, seconds: f64) -> Result<(), Failure> {
        self.kept.seconds = seconds;
        self.kept.loader = Some(self.loader.state());
        let step = self.session.position().step;
        if self.safe.as_ref().is_some_and(|safe| safe.at != Some(step)) {
            self.save()?;
        }
        Ok(())
    }
    fn checkpoint_now(&mut self, seconds: f64) -> Result<Heeded, Failure> {
        self.save_now(seconds)?;
        let Some(safe) = &mut self.safe else { return Ok(Heeded::Refused("the run has no folder".into())) };
        safe.flush(self.watch)?;
        let step = self.session.position().step;
        Ok(match safe.newest.as_deref().filter(|path| path.file_name().and_then(step_of) == Some(step)) {
            Some(path) => Heeded::Done(vec![("checkpoint", text_of(path).into())]),
            None => Heeded::Refused("no checkpoint could be made; the run's warnings say why".into()),
        })
    }
    /// The end before the last step, with a checkpoint.
    fn leave(&mut self, signal: i32, seconds: f64) -> Result<Failure, Failure> {
        self.save_now(seconds)?;
        Ok(self.interrupted(signal))
    }
}
