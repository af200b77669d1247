//! Saving in the background: training goes on while a thread writes.
//!
//! One snapshot is being written; who hands over the next waits until that one is on the disk. So no checkpoint is ever
//! skipped, memory holds at most one old state, and a disk that is slower than the steps between two checkpoints slows
//! training down to its own pace: what a power cut takes is the steps since the newest checkpoint and, while the next is
//! being written, those that were made meanwhile, never more than two gaps. A run that is to lose no more than one interval makes
//! a checkpoint each half of it.
use super::{CheckpointError, Checkpoints, Result, Saved, Snapshot, handover::Handover};
use crate::storage;
use std::{sync::Arc, thread::JoinHandle};

/// What came of one save.
pub type Outcome = Result<Saved>;

/// What a run does when a checkpoint cannot be saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// It ends.
    #[default]
    Stop,
    /// It goes on, and says so.
    Warn,
}
impl OnError {
    /// Sorts outcomes into those that were saved and those to warn of.
    ///
    /// # Errors
    /// The first error, where the policy is to stop.
    pub fn sort(self, outcomes: Vec<Outcome>) -> Result<(Vec<Saved>, Vec<CheckpointError>)> {
        let (mut saved, mut errors) = (Vec::new(), Vec::new());
        for outcome in outcomes {
            match (outcome, self) {
                (Ok(s), _) => saved.push(s),
                (Err(e), OnError::Stop) => return Err(e),
                (Err(e), OnError::Warn) => errors.push(e),
            }
        }
        Ok((saved, errors))
    }
}

/// What must be on the disk before a checkpoint that counts on it.
type Before = Box<dyn FnOnce() -> storage::Result<()> + Send>;
type Shared = Handover<(Before, Snapshot, Option<f64>), Outcome>;

/// A thread that saves snapshots. When it is dropped, it first saves what it was given; call [`Writer::flush`] before to
/// learn what came of it.
pub struct Writer {
    shared: Arc<Shared>,
    checkpoints: Arc<Checkpoints>,
    thread: Option<JoinHandle<()>>,
}
impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// `WriterGone`, if the system gives no thread.
    pub fn new(checkpoints: Checkpoints) -> Result<Writer> {
        let (shared, checkpoints) = (Arc::new(Shared::new()), Arc::new(checkpoints));
        let (its_shared, its_checkpoints) = (shared.clone(), checkpoints.clone());
        let ambient = adamant_core::Ambient::current();
        let work = move || {
            let _around = ambient.enter();
            let _leaving = LeavingWriter(&its_shared);
            while let Some((before, snapshot, score)) = its_shared.take() {
                let outcome = before().map_err(CheckpointError::from).and_then(|()| its_checkpoints.save(&snapshot, score));
                // All at once, and before the result is seen: a plan depends on which values somebody holds.
                drop(snapshot);
                its_shared.done(outcome);
            }
        };
        let thread = std::thread::Builder::new().name("checkpoints".into()).spawn(work).map_err(|_| CheckpointError::WriterGone)?;
        Ok(Writer { shared, checkpoints, thread: Some(thread) })
    }
    /// Where it saves.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }
    /// Hands over a snapshot, and returns what came of earlier ones since the last call, the oldest first. What is pending
    /// is computed here, so that the thread only reads; the bytes saved are those of this moment, whatever is written
    /// to cells later.
    ///
    /// # Errors
    /// `Tensor`: the snapshot holds a failed tensor and is not saved; outcomes wait for the next call.
    #[must_use = "errors of earlier saves are in it"]
    pub fn save(&self, snapshot: Snapshot, score: Option<f64>) -> Result<Vec<Outcome>> {
        self.save_after(|| Ok(()), snapshot, score)
    }
    /// As [`Writer::save`], once `before` has made durable what the snapshot counts on, such as lines of a log. If it
    /// cannot, nothing is saved.
    ///
    /// # Errors
    /// As [`Writer::save`].
    #[must_use = "errors of earlier saves are in it"]
    pub fn save_after(&self, before: impl FnOnce() -> storage::Result<()> + Send + 'static, snapshot: Snapshot, score: Option<f64>) -> Result<Vec<Outcome>> {
        snapshot.settle()?;
        let (mut outcomes, refused) = self.shared.give((Box::new(before), snapshot, score));
        if refused.is_some() {
            outcomes.push(Err(CheckpointError::WriterGone));
        }
        Ok(outcomes)
    }
    /// Waits until everything is saved, and returns what came of it since the last call.
    #[must_use = "errors of earlier saves are in it"]
    pub fn flush(&self) -> Vec<Outcome> {
        let (mut outcomes, all) = self.shared.flush();
        if !all {
            outcomes.push(Err(CheckpointError::WriterGone));
        }
        outcomes
    }
}
impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
/// Nobody waits for a thread that has ended, whatever ended it.
struct LeavingWriter<'a>(&'a Shared);
impl Drop for LeavingWriter<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}
