//! The ranks whose calls are kept, because somebody wants a trace of them. Must not know: what becomes of it.
use adamant_distributed::{Communicator, RecordedGroup};
use std::{cell::RefCell, sync::Arc};

/// The ranks that a trace is of.
#[derive(Default)]
pub struct TracedRanks {
    wanted: bool,
    group: RefCell<Option<Arc<RecordedGroup>>>,
}
impl TracedRanks {
    /// Does anybody want a trace?
    #[cfg(feature = "profiling")]
    pub fn new(wanted: bool) -> TracedRanks {
        TracedRanks { wanted, group: RefCell::new(None) }
    }
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }
    /// The group, whose calls are kept if a trace is wanted.
    pub fn watch(&self, group: Arc<dyn Communicator>) -> Arc<dyn Communicator> {
        if !self.wanted {
            return group;
        }
        let recorded = Arc::new(RecordedGroup::new(group));
        *self.group.borrow_mut() = Some(recorded.clone());
        recorded
    }
    /// The group that was watched, if there was one.
    #[cfg(feature = "profiling")]
    pub fn group(&self) -> Option<Arc<RecordedGroup>> {
        self.group.borrow().clone()
    }
}
