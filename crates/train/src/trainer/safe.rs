//! Checkpoints of a run, made in the background.
use crate::{
    Failure,
    checkpoint::{CheckpointError, Checkpoints, OnError, Outcome, Restored, Retention, Snapshot, Writer, newest_name},
    folder::RunFolder,
    setup::CheckpointPlan,
    storage::{self, Disk, StorageError, StorageErrorKind},
    watch::Watch,
};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// A process that was killed lets go of its lock within this time, and it is looked so often whether it has.
const LETS_GO: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(1);

/// The run's checkpoints and their thread.
pub(crate) struct Safe {
    writer: Writer,
    pub plan: CheckpointPlan,
    pub on_error: OnError,
    /// the step of the last snapshot
    pub at: Option<u64>,
    /// the newest one on the disk
    pub newest: Option<PathBuf>,
}
impl Safe {
    pub fn open(run: &Path, plan: CheckpointPlan) -> Result<Safe, Failure> {
        let checkpoints = Checkpoints::open(Arc::new(Disk), &run.join("checkpoints"), Retention { last: plan.last, best: plan.best })?;
        let on_error = if plan.warn { OnError::Warn } else { OnError::Stop };
        Ok(Safe { writer: Writer::new(checkpoints)?, plan, on_error, at: None, newest: None })
    }
    /// Opens what another process had open, which is gone or about to be.
    pub fn take_over(run: &Path, plan: CheckpointPlan) -> Result<Safe, Failure> {
        let begun = Instant::now();
        loop {
            match Safe::open(run, plan) {
                Err(Failure::Storage(e)) if matches!(e.kind, StorageErrorKind::Locked(_)) && begun.elapsed() < LETS_GO => std::thread::sleep(LOOK),
                mut opened => {
                    if let Ok(safe) = &mut opened {
                        safe.newest = newest_name(&run.join("checkpoints"));
                    }
                    return opened;
                }
            }
        }
    }
    /// The newest that is whole; damaged ones are named.
    pub fn latest(&self, watch: &mut dyn Watch) -> Result<Option<Restored>, Failure> {
        let found = self.writer.checkpoints().latest()?;
        for warning in found.iter().flat_map(|f| &f.warnings) {
            watch.warn(&warning.to_string());
        }
        Ok(found)
    }
    /// Where checkpoints are written that ranks write together.
    pub fn checkpoints(&self) -> &Checkpoints {
        self.writer.checkpoints()
    }
    /// What came of a checkpoint that ranks wrote together, which took so long.
    pub fn together(&mut self, step: u64, outcome: Outcome, took: Duration, folder: Option<&mut RunFolder>, watch: &mut dyn Watch) -> Result<(), Failure> {
        self.at = Some(step);
        if let Some(folder) = folder {
            folder.time(json!({ "kind": "checkpoint", "step": step, "stall_seconds": took.as_secs_f64() }))?;
        }
        self.sort(vec![outcome], watch)
    }
    /// Hands a snapshot over. It is written, while training goes on unless the plan says that it waits, after `before` has
    /// made durable what it counts on.
    pub fn save(
        &mut self,
        before: impl FnOnce() -> storage::Result<()> + Send + 'static,
        snapshot: Snapshot,
        score: Option<f64>,
        folder: Option<&mut RunFolder>,
        watch: &mut dyn Watch,
    ) -> Result<(), Failure> {
        let (begun, step) = (Instant::now(), snapshot.step);
        let mut outcomes = self.writer.save_after(before, snapshot, score)?;
        if self.plan.waits() {
            outcomes.extend(self.writer.flush());
        }
        self.at = Some(step);
        let stall = begun.elapsed().as_secs_f64();
        if let Some(folder) = folder {
            folder.time(json!({ "kind": "checkpoint", "step": step, "stall_seconds": stall }))?;
        }
        self.sort(outcomes, watch)
    }
    /// A checkpoint of a step that cannot be made, by the policy.
    pub fn without(&mut self, step: u64, error: StorageError, watch: &mut dyn Watch) -> Result<(), Failure> {
        self.at = Some(step);
        self.sort(vec![Err(error.into())], watch)
    }
    /// Waits until all is on the disk.
    pub fn flush(&mut self, watch: &mut dyn Watch) -> Result<(), Failure> {
        let outcomes = self.writer.flush();
        self.sort(outcomes, watch)
    }
    fn sort(&mut self, outcomes: Vec<Outcome>, watch: &mut dyn Watch) -> Result<(), Failure> {
        let (saved, errors) = self.on_error.sort(outcomes)?;
        for error in errors {
            watch.warn(&format!("no checkpoint: {error}; the run goes on"));
        }
        for saved in saved {
            saved.warnings.iter().for_each(|w| watch.warn(&w.to_string()));
            watch.checkpoint(&saved.folder);
            self.newest = Some(saved.folder);
        }
        Ok(())
    }
}
impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Failure {
        match &error {
            // A disk that fails while it writes is no damaged input, though a failed read of a checkpoint is damage.
            CheckpointError::Storage(e) => e.clone().into(),
            CheckpointError::Damaged(_) | CheckpointError::NoneWhole { .. } | CheckpointError::Version { .. } => Failure::Input(error.to_string()),
            CheckpointError::Tensor(e) => e.clone().into(),
            CheckpointError::OfRank { .. } => Failure::PeerLost(error.to_string()),
            _ => Failure::Run(error.to_string()),
        }
    }
}
