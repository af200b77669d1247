//! Ranks as threads that meet at a barrier.
use adamant_core::{
    ErrorKind,
    communicator::{CollectiveCall, Communicator, GroupState},
};
use std::sync::{Arc, Barrier, Mutex};

type Blocks = Vec<Vec<u8>>;
pub struct Meeting {
    barrier: Barrier,
    /// by rank: what it brings to each
    slots: Mutex<Vec<Blocks>>,
}
pub struct MeetingRank {
    meeting: Arc<Meeting>,
    rank: usize,
    size: usize,
    state: GroupState,
}
/// So many ranks that belong together.
pub fn meeting(size: usize) -> Vec<Arc<dyn Communicator>> {
    let meeting = Arc::new(Meeting { barrier: Barrier::new(size), slots: Mutex::new(vec![vec![]; size]) });
    let rank = |rank| Arc::new(MeetingRank { meeting: meeting.clone(), rank, size, state: GroupState::default() }) as Arc<dyn Communicator>;
    (0..size).map(rank).collect()
}
impl MeetingRank {
    fn meet(&self, own: Blocks) -> Vec<Blocks> {
        self.meeting.slots.lock().unwrap()[self.rank] = own;
        self.meeting.barrier.wait();
        let all = self.meeting.slots.lock().unwrap().clone();
        self.meeting.barrier.wait();
        all
    }
}
impl Communicator for MeetingRank {
    fn engine(&self) -> &'static str {
        "a meeting"
    }
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.size
    }
    fn state(&self) -> &GroupState {
        &self.state
    }
    fn all_gather(&self, _: &CollectiveCall, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.meet(vec![own.to_vec()]).iter().zip(blocks).for_each(|(brought, block)| block.copy_from_slice(&brought[0]));
        Ok(())
    }
    fn all_to_all(&self, _: &CollectiveCall, to: &[&[u8]], from: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        let all = self.meet(to.iter().map(|block| block.to_vec()).collect());
        all.iter().zip(from).for_each(|(brought, block)| block.copy_from_slice(&brought[self.rank]));
        Ok(())
    }
    fn send(&self, _: &CollectiveCall, to: usize, bytes: &[u8]) -> Result<(), ErrorKind> {
        let mut own = vec![vec![]; self.size];
        own[to] = bytes.to_vec();
        self.meet(own);
        Ok(())
    }
    fn receive(&self, _: &CollectiveCall, from: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        let all = self.meet(vec![vec![]; self.size]);
        bytes.copy_from_slice(&all[from][self.rank]);
        Ok(())
    }
    fn split(&self, call: &CollectiveCall, _: &[usize]) -> Result<Option<Arc<dyn Communicator>>, ErrorKind> {
        Err(ErrorKind::Internal(call.to_string()))
    }
    fn abort(&self, _: &str) {}
}
