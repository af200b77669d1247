//! A rank's group of one epoch. Whoever still holds it when the epoch is over (plans that were made for it do) holds no connection and no
//! shared memory: those end with the epoch.
use crate::ErrorKind;
use adamant_ir::DType;
use adamant_runtime::{
    communicator::{CollectiveCall, Communicator, GroupState, ReductionTree},
    op::ReduceOp,
};
use parking_lot::Mutex;
use std::sync::Arc;

/// See the module's documentation.
pub struct ElasticRank {
    state: GroupState,
    place: (usize, usize),
    epoch: u64,
    inner: Mutex<Option<Arc<dyn Communicator>>>,
}
impl ElasticRank {
    /// The group of an epoch.
    pub fn new(epoch: u64, group: Arc<dyn Communicator>) -> Arc<ElasticRank> {
        Arc::new(ElasticRank { state: GroupState::default(), place: (group.rank(), group.size()), epoch, inner: Mutex::new(Some(group)) })
    }
    /// The epoch is over: the others are told that this rank has left.
    pub fn retire(&self) {
        // Not under the lock: farewells take a moment.
        let gone = self.inner.lock().take();
        drop(gone);
    }
    fn group(&self) -> Result<Arc<dyn Communicator>, ErrorKind> {
        let over = || ErrorKind::PeerFailed { rank: self.place.0, message: format!("its group of epoch {} is over", self.epoch) };
        self.inner.lock().clone().ok_or_else(over)
    }
}
impl Communicator for ElasticRank {
    fn engine(&self) -> &'static str {
        "local"
    }
    fn rank(&self) -> usize {
        self.place.0
    }
    fn size(&self) -> usize {
        self.place.1
    }
    fn state(&self) -> &GroupState {
        &self.state
    }
    fn all_gather(&self, call: &CollectiveCall, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.group()?.all_gather(call, own, blocks)
    }
    fn all_to_all(&self, call: &CollectiveCall, to: &[&[u8]], from: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.group()?.all_to_all(call, to, from)
    }
    fn send(&self, call: &CollectiveCall, to: usize, bytes: &[u8]) -> Result<(), ErrorKind> {
        self.group()?.send(call, to, bytes)
    }
    fn receive(&self, call: &CollectiveCall, from: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        self.group()?.receive(call, from, bytes)
    }
    fn broadcast(&self, call: &CollectiveCall, root: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        self.group()?.broadcast(call, root, bytes)
    }
    fn all_reduce(&self, call: &CollectiveCall, tree: &ReductionTree, own: &[u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
        self.group()?.all_reduce(call, tree, own, sum)
    }
    fn all_reduce_fast(&self, call: &CollectiveCall, reduce: ReduceOp, dtype: DType, own: &[u8], sum: &mut [u8]) -> Option<Result<(), ErrorKind>> {
        self.group().map_or_else(|kind| Some(Err(kind)), |group| group.all_reduce_fast(call, reduce, dtype, own, sum))
    }
    fn reduce_scatter(&self, call: &CollectiveCall, tree: &ReductionTree, own: &[u8], block: &mut [u8]) -> Result<(), ErrorKind> {
        self.group()?.reduce_scatter(call, tree, own, block)
    }
    fn split(&self, call: &CollectiveCall, members: &[usize]) -> Result<Option<Arc<dyn Communicator>>, ErrorKind> {
        self.group()?.split(call, members)
    }
    fn abort(&self, why: &str) {
        if let Ok(group) = self.group() {
            group.abort(why);
        }
    }
}
