//! The loop's side of the socket: requests come in, answers go out, and neither waits for the other.
#![cfg_attr(not(unix), allow(dead_code))]
use super::{ControlRequest, RunStatus};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
        mpsc::{Receiver, Sender},
    },
    time::Duration,
};

/// What a run is at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunPhase {
    Beginning,
    Training,
    Paused,
    Stopped,
    Ending,
}
const PHASES: [(RunPhase, &str); 5] = [
    (RunPhase::Beginning, "beginning"),
    (RunPhase::Training, "training"),
    (RunPhase::Paused, "paused"),
    (RunPhase::Stopped, "stopped"),
    (RunPhase::Ending, "ending"),
];

/// What the loop shows and everybody may read. Each number stands for itself: no order between them is counted on.
#[derive(Default)]
pub(super) struct ShownRun {
    /// news that were handed in so far
    pub asked: AtomicU64,
    pub step: AtomicU64,
    pub epoch: AtomicU64,
    pub steps: u64,
    phase: AtomicU8,
    stops_after_epoch: AtomicBool,
    /// the socket is closed
    pub closed: AtomicBool,
}
impl ShownRun {
    pub fn of(steps: u64) -> ShownRun {
        ShownRun { steps, epoch: AtomicU64::new(1), ..ShownRun::default() }
    }
    pub fn phase(&self) -> RunPhase {
        PHASES.get(usize::from(self.phase.load(Ordering::Relaxed))).map_or(RunPhase::Ending, |(phase, _)| *phase)
    }
    pub fn status(&self) -> RunStatus {
        let phase = self.phase();
        RunStatus {
            step: self.step.load(Ordering::Relaxed),
            steps: self.steps,
            epoch: self.epoch.load(Ordering::Relaxed),
            state: PHASES.iter().find(|(p, _)| *p == phase).map_or("", |(_, name)| name).into(),
            stops_after_epoch: self.stops_after_epoch.load(Ordering::Relaxed),
            pid: std::process::id(),
        }
    }
}
/// A request, and who waits for its answer.
#[derive(Clone, Debug)]
pub(crate) struct AskedRequest {
    pub request: ControlRequest,
    pub client: u64,
}
/// What comes of a request.
pub(crate) enum ControlAnswer {
    /// an answer, with more than that it was done
    Done(Vec<(&'static str, Value)>),
    Refused(String),
}
impl From<Result<Vec<(&'static str, Value)>, String>> for ControlAnswer {
    fn from(answer: Result<Vec<(&'static str, Value)>, String>) -> ControlAnswer {
        match answer {
            Ok(more) => ControlAnswer::Done(more),
            Err(why) => ControlAnswer::Refused(why),
        }
    }
}
/// What comes from clients.
pub(crate) enum DeskNews {
    Asked(AskedRequest),
    /// a client that debugged the run is not there any more
    Left(u64),
}
/// See the module's documentation.
pub(crate) struct ControlDesk {
    pub(super) shown: Arc<ShownRun>,
    pub(super) asked: Receiver<DeskNews>,
    /// what is to be done behind the step that is running
    pub(super) deferred: VecDeque<AskedRequest>,
    pub(super) answers: Sender<(u64, Value)>,
    /// lets the thread know that there is an answer
    pub(super) wake: Box<dyn Fn() + Send>,
    /// news taken so far
    pub(super) taken: u64,
}
impl ControlDesk {
    /// Shows where the run is.
    pub fn show(&self, step: u64, epoch: u64) {
        self.shown.step.store(step, Ordering::Relaxed);
        self.shown.epoch.store(epoch, Ordering::Relaxed);
    }
    /// Shows what it is at.
    pub fn show_phase(&self, phase: RunPhase) {
        let at = PHASES.iter().position(|(p, _)| *p == phase).unwrap_or(0);
        self.shown.phase.store(at as u8, Ordering::Relaxed);
    }
    /// Shows that it ends behind this epoch.
    pub fn show_stop(&self) {
        self.shown.stops_after_epoch.store(true, Ordering::Relaxed);
    }
    /// Has anybody asked? What has not arrived yet is there at the next step.
    pub fn has_news(&self) -> bool {
        !self.deferred.is_empty() || self.shown.asked.load(Ordering::Relaxed) != self.taken
    }
    /// The next news, if there are any; what was put off comes first.
    pub fn next(&mut self) -> Option<DeskNews> {
        if let Some(asked) = self.deferred.pop_front() {
            return Some(DeskNews::Asked(asked));
        }
        let news = self.asked.try_recv().ok()?;
        self.taken += 1;
        Some(news)
    }
    /// The next that come; waits for them.
    pub fn wait(&mut self, most: Duration) -> Option<DeskNews> {
        let news = self.asked.recv_timeout(most).ok()?;
        self.taken += 1;
        Some(news)
    }
    /// Puts a request off to the end of the step.
    pub fn defer(&mut self, asked: AskedRequest) {
        self.deferred.push_back(asked);
    }
    /// Answers, after so many steps.
    pub fn answer(&self, to: &AskedRequest, step: u64, answer: ControlAnswer) {
        self.send(
            to,
            match answer {
                ControlAnswer::Done(more) => {
                    let mut answer = json!({ "ok": true, "step": step });
                    more.into_iter().for_each(|(name, value)| answer[name] = value);
                    answer
                }
                ControlAnswer::Refused(why) => json!({ "ok": false, "error": why }),
            },
        );
    }
    fn send(&self, to: &AskedRequest, answer: Value) {
        // Without the thread there is nobody to tell.
        let _ = self.answers.send((to.client, answer));
        (self.wake)();
    }
    /// The steps are over: who still waits is told so.
    pub fn over(&mut self) {
        self.show_phase(RunPhase::Ending);
        while let Some(news) = self.next() {
            if let DeskNews::Asked(asked) = news {
                self.answer(&asked, 0, ControlAnswer::Refused(OVER.into()));
            }
        }
    }
}
/// What is said where nothing can be done any more.
pub(super) const OVER: &str = "the steps of the run are over, and what stands at its end is being made";
