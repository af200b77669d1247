//! What only all ranks together have of a state, and no rank could write alone: what compressed gradients have not sent. Put together on the leader,
//! before its snapshot is taken.
use super::Session;
use crate::{Failure, trainer::Batch};
use adamant_nn::Walk;

impl<M: Walk, B: Batch> Session<M, B> {
    /// Puts together, on the leader, what [`Session::snapshot`] needs of the other ranks. All ranks call it, behind the same step.
    ///
    /// # Errors
    /// A lost peer; no memory.
    pub fn collect(&mut self) -> Result<(), Failure> {
        if let Some(meshed) = self.meshed.clone().filter(|meshed| !meshed.is_whole()) {
            return self.collect_parts(&meshed);
        }
        let Some(shared) = &self.shared else { return Ok(()) };
        let Some(compressed) = &shared.compressed else { return Ok(()) };
        let errors = compressed.collect()?;
        // Nothing is left in the window: the group's calls follow each other.
        adamant_core::flush()?;
        if shared.group().rank == 0 {
            compressed.keep_collected(errors);
        }
        Ok(())
    }
    /// Lets go of what was put together, where no snapshot was taken.
    pub fn let_go(&mut self) {
        self.shared.iter().filter_map(|shared| shared.compressed.as_ref()).for_each(|compressed| drop(compressed.take_collected()));
        self.collected = None;
    }
}
