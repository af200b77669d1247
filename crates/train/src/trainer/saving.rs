//! What a checkpoint of a run holds, and when it is made of it.
use super::{
    Batch,
    learn::{BEST, Learning},
    ranks::RunRanks,
    restored::{WentBack, save_held},
};
use crate::{Failure, checkpoint::Snapshot, storage};
use adamant_data::Dataset;
use adamant_nn::Walk;

impl<M: Walk, D: Dataset + ?Sized + 'static> Learning<'_, '_, M, D>
where
    D::Batch: Batch,
{
    /// Puts together, on the leader, what a snapshot needs of the other ranks. All ranks call it.
    pub(super) fn collect(&mut self) -> Result<(), Failure> {
        if self.session.meshed().is_some() {
            // Whoever writes looks before: with it do all, so that a bad step is found by all at once.
            let _went: WentBack = self.look()?;
        }
        self.session.collect()?;
        let best = self.stopping.as_ref().and_then(|s| s.best.clone());
        let best = best.filter(|_| self.session.meshed().is_some());
        self.best = best.map(|best| self.session.whole_weights(best)).transpose()?.flatten().filter(|_| self.ranks.as_ref().is_none_or(RunRanks::leads));
        Ok(())
    }
    /// A checkpoint of now.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        if self.safe.is_none() {
            return Ok(());
        }
        // Of wherever that leads to.
        let _went = self.look()?;
        self.call(|callback, control| callback.on_checkpoint(control))?;
        let Some(safe) = &mut self.safe else { return Ok(()) };
        let step = self.session.position().step;
        let mut before: Box<dyn FnOnce() -> storage::Result<()> + Send> = Box::new(|| Ok(()));
        if let Some(folder) = &mut self.folder {
            match folder.settle()? {
                Ok(settled) => (self.kept.metrics_bytes, before) = (settled.metrics_bytes, settled.sync),
                // A checkpoint would count on lines that are not there.
                Err(e) => return safe.without(step, e, self.watch),
            }
            self.kept.alerts = folder.kept_alerts();
        }
        let snapshot = self.snapshot()?;
        let score = self.score.filter(|(at, _)| *at == step).map(|(_, score)| score);
        let Some(safe) = &mut self.safe else { return Ok(()) };
        safe.save(before, snapshot, score, self.folder.as_deref_mut(), self.watch)
    }
    /// All that the next step depends on, and what of it the run keeps.
    pub(super) fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        self.kept.callbacks = self.callbacks.iter().map(|c| (c.name().to_string(), c.state())).filter(|(_, state)| !state.is_null()).collect();
        self.kept.stopping = self.stopping.as_ref().map(|s| s.seen);
        let kept = serde_json::to_value(&self.kept).map_err(|e| Failure::Run(format!("the state cannot be written: {e}")))?;
        let mut snapshot = self.session.snapshot(kept)?;
        let best = self.best.take().or_else(|| self.stopping.as_ref().and_then(|s| s.best.clone()));
        snapshot.tensors.extend(best.map(|weights| (BEST.to_string(), weights)));
        save_held(&self.held, &mut snapshot);
        Ok(snapshot)
    }
}
