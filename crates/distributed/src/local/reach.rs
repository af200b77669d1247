//! How ranks of this host know of each other: threads by memory, processes by their control connections.
use super::{layout::Layout, segment::SharedSegment};
use crate::{
    ErrorKind,
    control::{
        RankControl,
        cause::FailureCause,
        liveness::{Liveness, PeerState},
    },
};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// What threads of one process share.
pub(super) struct ThreadRanks {
    liveness: Liveness,
    /// memory of groups that are being made
    offers: Mutex<HashMap<u64, Arc<SharedSegment>>>,
}
impl ThreadRanks {
    pub(super) fn new(size: usize) -> ThreadRanks {
        ThreadRanks { liveness: Liveness::still(size), offers: Mutex::default() }
    }
}
/// One rank that is a thread. When it is dropped, it has left.
pub(super) struct ThreadRank {
    pub(super) ranks: Arc<ThreadRanks>,
    pub(super) rank: usize,
}
impl Drop for ThreadRank {
    fn drop(&mut self) {
        self.ranks.liveness.set(self.rank, PeerState::Left);
    }
}
/// How a rank reaches the others.
#[derive(Clone)]
pub(super) enum Reach {
    Threads(Arc<ThreadRank>),
    Processes(Arc<RankControl>),
}
/// What a rank says of memory that it has made, so that others can open it.
pub(super) type Offer = [u8; 16];

impl Reach {
    pub(super) fn liveness(&self) -> &Liveness {
        match self {
            Reach::Threads(thread) => &thread.ranks.liveness,
            Reach::Processes(control) => control.liveness(),
        }
    }
    /// Tells all ranks.
    pub(super) fn end_group(&self, group: u64, cause: FailureCause) {
        match self {
            Reach::Threads(thread) => thread.ranks.liveness.fail(group, thread.rank, cause),
            Reach::Processes(control) => control.end_group(group, cause),
        }
    }
    /// Makes the memory of a group, for others to open.
    pub(super) fn offer(&self, group: u64, layout: Layout) -> Result<(Arc<SharedSegment>, Offer), ErrorKind> {
        match self {
            Reach::Threads(thread) => {
                let segment = SharedSegment::anonymous(layout.bytes())?;
                thread.ranks.offers.lock().insert(group, segment.clone());
                Ok((segment, offer_of(1, 0, 0)))
            }
            Reach::Processes(_) => shared(layout),
        }
    }
    /// Opens what another rank has made.
    pub(super) fn accept(&self, group: u64, layout: Layout, offer: &[u8]) -> Result<Arc<SharedSegment>, ErrorKind> {
        let words: [u32; 3] = std::array::from_fn(|k| offer.as_chunks::<4>().0.get(k).map_or(0, |bytes| u32::from_le_bytes(*bytes)));
        if words[0] == 0 {
            return Err(ErrorKind::Argument("the rank that was to make shared memory could not".into()));
        }
        match self {
            Reach::Threads(thread) => {
                let offered = thread.ranks.offers.lock().get(&group).cloned();
                offered.ok_or_else(|| ErrorKind::Internal("memory of a group that nobody offers".into()))
            }
            Reach::Processes(_) => opened(layout, words[1], words[2] as i32),
        }
    }
    /// All have opened it.
    pub(super) fn withdraw(&self, group: u64) {
        if let Reach::Threads(thread) = self {
            thread.ranks.offers.lock().remove(&group);
        }
    }
}
fn offer_of(is_there: u32, process: u32, descriptor: i32) -> Offer {
    let mut offer = Offer::default();
    let words = [is_there.to_le_bytes(), process.to_le_bytes(), descriptor.to_le_bytes()];
    offer[..12].copy_from_slice(words.as_flattened());
    offer
}
#[cfg(target_os = "linux")]
fn shared(layout: Layout) -> Result<(Arc<SharedSegment>, Offer), ErrorKind> {
    let segment = SharedSegment::shared(layout.bytes(), layout.always())?;
    let offer = offer_of(1, std::process::id(), segment.descriptor());
    Ok((segment, offer))
}
#[cfg(target_os = "linux")]
fn opened(layout: Layout, process: u32, descriptor: i32) -> Result<Arc<SharedSegment>, ErrorKind> {
    SharedSegment::open(process, descriptor, layout.bytes())
}
#[cfg(not(target_os = "linux"))]
fn shared(_: Layout) -> Result<(Arc<SharedSegment>, Offer), ErrorKind> {
    super::present().and(Err(ErrorKind::Internal("shared memory of processes".into())))
}
#[cfg(not(target_os = "linux"))]
fn opened(_: Layout, _: u32, _: i32) -> Result<Arc<SharedSegment>, ErrorKind> {
    super::present().and(Err(ErrorKind::Internal("shared memory of processes".into())))
}
