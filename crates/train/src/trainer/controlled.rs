//! What a run is asked for from outside, between two steps ([`crate::control`]).
//!
//! Before anything is decided the loop looks whether all was well up to here: behind a look nothing is taken back, so that a decision
//! stands at the step that its line names, in this run as in one that goes on from an earlier checkpoint.
use super::{Batch, Trainer, debugged::ValuesBetween, learn::Learning, profiled::ProfileWish, restored::WentBack};
use crate::{
    Failure,
    checkpoint::step_of,
    control::{
        AskedRequest, ControlAnswer, ControlDecision, ControlDesk, ControlJournal, ControlPlan, ControlRequest, DebugState, DeskNews, RunPhase, RunSocket,
        RunStop, SetDecision,
    },
    folder::{any_number, number, text_of},
    watch::{Interrupt, Watch},
};
use adamant_data::Dataset;
use adamant_nn::Walk;
use serde_json::json;
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Why a run ended behind an epoch.
pub(super) const ASKED_TO_STOP: &str = "it was asked to stop behind the epoch";
/// The signal that a request to stop stands for.
const SIGTERM: i32 = 15;
/// How often a run that waits looks for a signal.
pub(super) const LOOK: Duration = Duration::from_millis(50);

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
        Trainer { control: ControlPlan { opens: control, ..self.control }, ..self }
    }
    /// Does the run wait before its first step, or before the first that it goes on with, until somebody resumes it over the socket: to set
    /// breakpoints, or to look at what it begins with?
    ///
    /// Without a socket `fit` refuses: nobody could resume it.
    #[must_use]
    pub fn begin_paused(self, paused: bool) -> Self {
        Trainer { control: ControlPlan { paused, ..self.control }, ..self }
    }
}

/// Where requests come from: the journal, which a run has to follow, and the socket. Of a run without a folder there is neither.
#[derive(Default)]
pub(crate) struct Controls {
    journal: Option<ControlJournal>,
    socket: Option<RunSocket>,
    /// no step has been, and none is to be yet
    begins_paused: bool,
    /// where somebody wants it to stop
    pub(super) debug: DebugState,
    /// is the next step to be recorded?
    #[cfg_attr(not(feature = "profiling"), expect(dead_code))]
    pub(super) profile: ProfileWish,
}
impl Controls {
    /// `resumes`: does the run go on, and from a state with how many lines of the journal? It is one of so many steps.
    ///
    /// # Errors
    /// `Usage`: it is to wait for somebody, and there is no socket.
    pub fn open(folder: Option<&Path>, (resumes, done): (bool, u64), plan: ControlPlan, steps: u64, watch: &mut dyn Watch) -> Result<Controls, Failure> {
        let nobody = || Failure::Usage("a run that begins paused waits for who asks it over its socket, and it has none".into());
        let Some(folder) = folder else { return if plan.paused { Err(nobody()) } else { Ok(Controls::default()) } };
        let journal = if resumes { ControlJournal::resume(folder, done)? } else { ControlJournal::begin(folder)? };
        let again: Vec<String> = journal.ahead().map(|(step, decision)| format!("{} after step {step}", told(decision))).collect();
        if !again.is_empty() {
            watch.warn(&format!("what the run was asked for is done again: {}", again.join(", ")));
        }
        let socket = if plan.opens { RunSocket::open(folder, steps, watch)? } else { None };
        if plan.paused && socket.is_none() {
            return Err(nobody());
        }
        Ok(Controls { journal: Some(journal), socket, begins_paused: plan.paused, debug: DebugState::default(), profile: ProfileWish::default() })
    }
    pub(super) fn desk(&mut self) -> Option<&mut ControlDesk> {
        self.socket.as_mut().map(|socket| &mut socket.desk)
    }
    pub(super) fn show_phase(&self, phase: RunPhase) {
        self.socket.iter().for_each(|socket| socket.desk.show_phase(phase));
    }
    /// How many lines of the journal are done.
    pub(super) fn done(&self) -> u64 {
        self.journal.as_ref().map_or(0, ControlJournal::done)
    }
    /// Writes down what is decided at this step.
    pub(super) fn decide(&mut self, step: u64, decision: &ControlDecision) -> Result<(), String> {
        if !self.debug.planned.is_empty() {
            return Err("values that were set in this step before are set in it again first: ask once more behind it".into());
        }
        let journal = self.journal.as_mut().ok_or("the run has no folder")?;
        journal.decide(step, decision.clone()).map_err(|e| e.to_string())
    }
    /// Is there anything to do at this step?
    fn is_due(&self, step: u64) -> bool {
        let asked = self.socket.as_ref().is_some_and(|socket| socket.desk.has_news());
        asked || self.begins_paused || self.journal.as_ref().is_some_and(|journal| journal.is_due(step)) || self.debug.stops_before(step + 1).is_some()
    }
    /// The steps are over.
    pub fn over(&mut self) {
        self.desk().into_iter().for_each(ControlDesk::over);
    }
}
fn told(decision: &ControlDecision) -> String {
    match decision {
        ControlDecision::Rate { factor } => format!("the rate × {factor}"),
        ControlDecision::StopAfterEpoch => "the end behind the epoch".into(),
        ControlDecision::Set(SetDecision { of, at, value, within: None }) => format!("`{of}[{at}]` = {value}"),
        ControlDecision::Set(SetDecision { of, at, value, within: Some(within) }) => format!("`{of}[{at}]` = {value} behind op {}", within.op),
    }
}
/// A run that waits between two steps.
#[derive(Clone, Copy)]
struct HaltedRun {
    since: Instant,
    /// where somebody debugs it; a pause is nobody's
    stop: Option<RunStop>,
}
fn done() -> ControlAnswer {
    ControlAnswer::Done(Vec::new())
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
        let mut halted: Option<HaltedRun> = None;
        if std::mem::take(&mut self.controls.begins_paused) {
            self.halt(&mut halted, None);
        }
        let waited = |halted: Option<HaltedRun>| halted.map_or(Duration::ZERO, |halted| halted.since.elapsed());
        loop {
            let next = match (self.controls.desk(), halted) {
                (None, _) => None,
                (Some(desk), None) => desk.next(),
                (Some(desk), Some(_)) => desk.next().or_else(|| desk.wait(LOOK)),
            };
            if let (Some(signal), Some(_)) = (interrupt.asked(), halted) {
                return Err(self.leave(signal, elapsed() - waited(halted).as_secs_f64())?);
            }
            let asked = match next {
                None if halted.is_some() => continue,
                None => match self.controls.debug.stops_before(at.step + 1) {
                    Some(stop) => {
                        self.halt(&mut halted, Some(stop));
                        continue;
                    }
                    None => break,
                },
                Some(DeskNews::Left(client)) => {
                    self.controls.debug.left(client);
                    if halted.is_some_and(|halted| halted.stop.is_some_and(|stop| stop.client == client)) {
                        break;
                    }
                    continue;
                }
                Some(DeskNews::Asked(asked)) => asked,
            };
            let answer = match &asked.request {
                ControlRequest::Pause => {
                    self.halt(&mut halted, None);
                    done()
                }
                ControlRequest::Resume | ControlRequest::Continue => {
                    self.controls.show_phase(RunPhase::Training);
                    self.answer(&asked, done());
                    match halted {
                        Some(_) => break,
                        None => continue,
                    }
                }
                ControlRequest::Next { of } => {
                    self.controls.debug.go_to(*of, asked.client);
                    self.controls.show_phase(RunPhase::Training);
                    self.answer(&asked, done());
                    break;
                }
                ControlRequest::Stop => {
                    let failure = self.leave(SIGTERM, elapsed() - waited(halted).as_secs_f64())?;
                    let checkpoint = if let Failure::Interrupted { checkpoint, .. } = &failure { checkpoint.as_deref().map(text_of) } else { None };
                    self.answer(&asked, ControlAnswer::Done(vec![("checkpoint", checkpoint.into())]));
                    return Err(failure);
                }
                ControlRequest::Checkpoint => self.checkpoint_now(elapsed() - waited(halted).as_secs_f64())?,
                ControlRequest::Rate { factor } => self.decide(ControlDecision::Rate { factor: *factor })?,
                ControlRequest::Profile => self.wish_profile(),
                ControlRequest::StopAfterEpoch => self.decide(ControlDecision::StopAfterEpoch)?,
                ControlRequest::Set { of, at, value } => {
                    self.decide(ControlDecision::Set(SetDecision { of: of.clone(), at: at.clone(), value: *value, within: None }))?
                }
                ControlRequest::Status => done(),
                _ => {
                    let values = ValuesBetween::of(&self.session.model, self.session.optimizer(), halted.map(|halted| halted.stop));
                    self.controls.debug.answer(&asked, &values).unwrap_or_else(done)
                }
            };
            self.answer(&asked, answer);
        }
        let waited = waited(halted);
        if halted.is_some() {
            self.controls.show_phase(RunPhase::Training);
            self.watch.warn(&format!("goes on after step {}, paused for {:.1} s", at.step, waited.as_secs_f64()));
            if let Some(folder) = &mut self.folder {
                folder.time(json!({ "kind": "pause", "step": at.step, "paused_seconds": number(waited.as_secs_f64()) }))?;
            }
        }
        Ok((WentBack::Not, waited))
    }
    /// The run waits from now on, if it does not already.
    fn halt(&mut self, halted: &mut Option<HaltedRun>, stop: Option<RunStop>) {
        let step = self.session.position().step;
        match stop {
            None => self.controls.show_phase(RunPhase::Paused),
            Some(_) => {
                self.controls.debug.stopped();
                self.controls.show_phase(RunPhase::Stopped);
            }
        }
        if halted.is_none() {
            let why = if stop.is_some() { "stopped after step {}, for who debugs it" } else { "paused after step {}, as somebody asked" };
            self.watch.warn(&why.replace("{}", &step.to_string()));
        }
        // A pause holds whoever leaves.
        *halted = Some(HaltedRun { since: halted.map_or_else(Instant::now, |halted| halted.since), stop });
    }
    fn answer(&mut self, to: &AskedRequest, answer: ControlAnswer) {
        let step = self.session.position().step;
        if let Some(desk) = self.controls.desk() {
            desk.answer(to, step, answer);
        }
    }
    /// Writes down what changes the run, and does it then. A disk that takes no line is no reason to end.
    fn decide(&mut self, decision: ControlDecision) -> Result<ControlAnswer, Failure> {
        let step = self.session.position().step;
        let mut more = Vec::new();
        match &decision {
            ControlDecision::StopAfterEpoch if self.kept.stops_after_epoch => return Ok(done()),
            ControlDecision::Rate { factor } if !self.session.can_scale_rates(*factor) => {
                return Ok(ControlAnswer::Refused(format!("the rate is {}: times {factor} it is no rate any more", self.session.lr())));
            }
            ControlDecision::Set(set) => match self.can_set(set) {
                Ok(elements) => more.push(("elements", json!(elements))),
                Err(why) => return Ok(ControlAnswer::Refused(why)),
            },
            _ => {}
        }
        if let Err(why) = self.controls.decide(step, &decision) {
            return Ok(ControlAnswer::Refused(why));
        }
        let sets_rate = matches!(decision, ControlDecision::Rate { .. });
        self.act(decision)?;
        more.extend(sets_rate.then(|| ("lr", number(self.session.lr()))));
        Ok(ControlAnswer::Done(more))
    }
    /// Does what stands in the journal.
    fn act(&mut self, decision: ControlDecision) -> Result<(), Failure> {
        let at = self.session.position();
        let mut line = json!({ "kind": "control", "step": at.step, "epoch": at.epoch + 1 });
        let says = told(&decision);
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
            ControlDecision::Set(set) if set.within.is_some() => {
                // In the step that comes; until then it is not done.
                self.controls.debug.planned.push(set);
                return Ok(());
            }
            ControlDecision::Set(set) => {
                self.set_value(&set).map_err(|why| Failure::Run(format!("{says} after step {}: {why}", at.step)))?;
                line["action"] = "set".into();
                (line["of"], line["at"], line["value"]) = (json!(set.of), json!(set.at), any_number(set.value));
            }
        }
        self.kept.controls = self.controls.done();
        self.watch.warn(&format!("{says} from step {} on, as somebody asked", at.step + 1));
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
    fn checkpoint_now(&mut self, seconds: f64) -> Result<ControlAnswer, Failure> {
        self.save_now(seconds)?;
        let Some(safe) = &mut self.safe else { return Ok(ControlAnswer::Refused("the run has no folder".into())) };
        safe.flush(self.watch)?;
        let step = self.session.position().step;
        Ok(match safe.newest.as_deref().filter(|path| path.file_name().and_then(step_of) == Some(step)) {
            Some(path) => ControlAnswer::Done(vec![("checkpoint", text_of(path).into())]),
            None => ControlAnswer::Refused("no checkpoint could be made; the run's warnings say why".into()),
        })
    }
    /// The end before the last step, with a checkpoint.
    fn leave(&mut self, signal: i32, seconds: f64) -> Result<Failure, Failure> {
        self.save_now(seconds)?;
        Ok(self.interrupted(signal))
    }
}
