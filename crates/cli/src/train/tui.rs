//! `train --tui`: the run in a thread of its own, and the viewer of `watch` in this one, in the same terminal.
//!
//! While the viewer is there nothing else is written to the terminal: warnings wait, and lines of progress are left out. When it leaves, because
//! somebody pressed `q` or because the run is over, plain lines come in its place, those that waited first. The viewer reads the folder and asks
//! over the socket, as that of another process does: the run has the same bits.
use crate::{out, progress, watch};
use adamant_train::{EpochReport, Failure, Plan, Report, StepReport, Watch};
use std::{
    io::IsTerminal,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// The stack of the run's thread: what the system gives to the first thread of a program.
const STACK: usize = 8 << 20;

/// Is there a terminal for it?
///
/// # Errors
/// `Usage`: there is none.
pub fn check() -> Result<(), Failure> {
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::Usage("--tui draws on a terminal, and stdin or stdout is none: leave it out, or look with `adamant watch` from a terminal".into()))
}
/// Trains, and shows the run in `folder` meanwhile.
pub fn run(folder: &Path, train: impl FnOnce(&mut dyn Watch) -> Result<Report, Failure> + Send) -> Result<Report, Failure> {
    let (shown, over) = (Arc::new(AtomicBool::new(true)), AtomicBool::new(false));
    let mut watch = QuietWhileShown { shown: shown.clone(), lines: progress::lines(), plan: None, kept: Vec::new() };
    thread::scope(|scope| {
        let over = &over;
        let trains = move || {
            let _ends = SetAtEnd(over);
            let done = train(&mut watch);
            (done, watch)
        };
        let run = thread::Builder::new().name("run".into()).stack_size(STACK).spawn_scoped(scope, trains);
        let run = run.map_err(|e| Failure::Run(format!("no thread for the run: {e}")))?;
        let viewed = watch::show(folder, over);
        shown.store(false, Ordering::Release);
        if let Err(failure) = viewed {
            out::note(format!("warning: {failure}; the run goes on with plain lines"));
        }
        match run.join() {
            Ok((done, mut watch)) => {
                watch.tell_kept();
                done
            }
            Err(panicked) => std::panic::resume_unwind(panicked),
        }
    })
}
/// Says that something is over, however it ends.
struct SetAtEnd<'a>(&'a AtomicBool);
impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
/// Writes nothing while the viewer is there.
struct QuietWhileShown {
    shown: Arc<AtomicBool>,
    lines: Box<dyn Watch + Send>,
    plan: Option<Plan>,
    kept: Vec<String>,
}
impl QuietWhileShown {
    /// Who writes lines, if anybody may.
    fn lines(&mut self) -> Option<&mut dyn Watch> {
        if self.shown.load(Ordering::Acquire) {
            return None;
        }
        self.tell_kept();
        Some(&mut *self.lines)
    }
    fn tell_kept(&mut self) {
        if let Some(plan) = self.plan.take() {
            self.lines.begin(&plan);
        }
        self.kept.drain(..).for_each(|text| self.lines.warn(&text));
    }
}
impl Watch for QuietWhileShown {
    fn begin(&mut self, plan: &Plan) {
        self.plan = Some(plan.clone());
        self.lines();
    }
    fn resume(&mut self, step: u64) {
        match self.lines() {
            Some(lines) => lines.resume(step),
            None => self.kept.push(format!("resuming from step {step}")),
        }
    }
    fn step(&mut self, step: u64) {
        self.lines().into_iter().for_each(|lines| lines.step(step));
    }
    fn log(&mut self, report: &StepReport) {
        self.lines().into_iter().for_each(|lines| lines.log(report));
    }
    fn epoch(&mut self, report: &EpochReport) {
        self.lines().into_iter().for_each(|lines| lines.epoch(report));
    }
    fn checkpoint(&mut self, path: &Path) {
        self.lines().into_iter().for_each(|lines| lines.checkpoint(path));
    }
    fn warn(&mut self, text: &str) {
        match self.lines() {
            Some(lines) => lines.warn(text),
            None => self.kept.push(text.into()),
        }
    }
}
