//! A group that keeps when each of its calls began and ended, for a trace. Of any engine; what is exchanged is that of the group within.
//! Must not know: who looks at it.
use crate::ErrorKind;
use adamant_ir::{DType, op::ReduceOp};
use adamant_runtime::communicator::{CollectiveCall, Communicator, GroupState, ReductionTree};
use parking_lot::Mutex;
use std::{sync::Arc, time::Instant};

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct RecordedCall {
    /// what was called
    pub call: CollectiveCall,
    /// how many ranks the group has
    pub ranks: usize,
    /// that this rank brought
    pub bytes: usize,
    /// when the engine was asked: the others may not have come yet
    pub begin: Instant,
    /// when it was done
    pub end: Instant,
}
/// A group whose calls are kept, with those of the groups that are split off it.
pub struct RecordedGroup {
    inner: Arc<dyn Communicator>,
    calls: Arc<Mutex<Vec<RecordedCall>>>,
}
impl RecordedGroup {
    /// Around a group.
    pub fn new(inner: Arc<dyn Communicator>) -> RecordedGroup {
        RecordedGroup { inner, calls: Arc::default() }
    }
    /// The calls so far, in the order in which they ended; they are not kept any longer.
    pub fn take_calls(&self) -> Vec<RecordedCall> {
        std::mem::take(&mut *self.calls.lock())
    }
    /// The group within, whose calls nobody keeps.
    pub fn inner(&self) -> &dyn Communicator {
        &*self.inner
    }
    fn keeping<T>(&self, call: &CollectiveCall, bytes: usize, run: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let done = run();
        self.calls.lock().push(RecordedCall { call: *call, ranks: self.inner.size(), bytes, begin, end: Instant::now() });
        done
    }
}
impl Communicator for RecordedGroup {
    fn engine(&self) -> &'static str {
        self.inner.engine()
    }
    fn rank(&self) -> usize {
        self.inner.rank()
    }
    fn size(&self) -> usize {
        self.inner.size()
    }
    fn state(&self) -> &GroupState {
        self.inner.state()
    }
    fn all_gather(&self, call: &CollectiveCall, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.keeping(call, own.len(), || self.inner.all_gather(call, own, blocks))
    }
    fn all_to_all(&self, call: &CollectiveCall, to: &[&[u8]], from: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.keeping(call, to.iter().map(|block| block.len()).sum(), || self.inner.all_to_all(call, to, from))
    }
    fn send(&self, call: &CollectiveCall, to: usize, bytes: &[u8]) -> Result<(), ErrorKind> {
        self.keeping(call, bytes.len(), || self.inner.send(call, to, bytes))
    }
    fn receive(&self, call: &CollectiveCall, from: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        self.keeping(call, 0, || self.inner.receive(call, from, bytes))
    }
    fn broadcast(&self, call: &CollectiveCall, root: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        self.keeping(call, bytes.len(), || self.inner.broadcast(call, root, bytes))
    }
    fn all_reduce(&self, call: &CollectiveCall, tree: &ReductionTree, own: &[u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
        self.keeping(call, own.len(), || self.inner.all_reduce(call, tree, own, sum))
    }
    fn all_reduce_fast(&self, call: &CollectiveCall, reduce: ReduceOp, dtype: DType, own: &[u8], sum: &mut [u8]) -> Option<Result<(), ErrorKind>> {
        self.keeping(call, own.len(), || self.inner.all_reduce_fast(call, reduce, dtype, own, sum))
    }
    fn reduce_scatter(&self, call: &CollectiveCall, tree: &ReductionTree, own: &[u8], block: &mut [u8]) -> Result<(), ErrorKind> {
        self.keeping(call, own.len(), || self.inner.reduce_scatter(call, tree, own, block))
    }
    fn split(&self, call: &CollectiveCall, members: &[usize]) -> Result<Option<Arc<dyn Communicator>>, ErrorKind> {
        let made = self.keeping(call, 0, || self.inner.split(call, members))?;
        Ok(made.map(|inner| Arc::new(RecordedGroup { inner, calls: self.calls.clone() }) as Arc<dyn Communicator>))
    }
    fn abort(&self, why: &str) {
        self.inner.abort(why);
    }
}
