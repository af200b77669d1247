//! A group of one rank, which needs no engine: what is given to all comes back.
use super::{CollectiveCall, Communicator, GroupState};
use crate::ErrorKind;
use std::sync::Arc;

/// One rank alone.
#[derive(Default)]
pub struct LoneRank(GroupState);

fn copied(from: &[u8], to: Option<&mut &mut [u8]>) -> Result<(), ErrorKind> {
    match to {
        Some(to) if to.len() == from.len() => {
            to.copy_from_slice(from);
            Ok(())
        }
        _ => Err(ErrorKind::Internal(format!("{} bytes that have no place in a group of one", from.len()))),
    }
}
impl LoneRank {
    fn nobody(call: &CollectiveCall) -> ErrorKind {
        ErrorKind::Argument(format!("{call} in a group of one"))
    }
    fn begin(&self) -> Result<(), ErrorKind> {
        self.0.ended().map_or(Ok(()), Err)
    }
}
impl Communicator for LoneRank {
    fn engine(&self) -> &'static str {
        "none"
    }
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        1
    }
    fn state(&self) -> &GroupState {
        &self.0
    }
    fn all_gather(&self, _: &CollectiveCall, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.begin()?;
        copied(own, blocks.first_mut())
    }
    fn all_to_all(&self, _: &CollectiveCall, to: &[&[u8]], from: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.begin()?;
        copied(to.first().copied().unwrap_or_default(), from.first_mut())
    }
    fn send(&self, call: &CollectiveCall, _: usize, _: &[u8]) -> Result<(), ErrorKind> {
        Err(LoneRank::nobody(call))
    }
    fn receive(&self, call: &CollectiveCall, _: usize, _: &mut [u8]) -> Result<(), ErrorKind> {
        Err(LoneRank::nobody(call))
    }
    fn split(&self, call: &CollectiveCall, members: &[usize]) -> Result<Option<Arc<dyn Communicator>>, ErrorKind> {
        match members {
            [] => Ok(None),
            [0] => Ok(Some(Arc::new(LoneRank::default()))),
            _ => Err(LoneRank::nobody(call)),
        }
    }
    fn abort(&self, why: &str) {
        self.0.end(&ErrorKind::PeerFailed { rank: 0, message: why.into() });
    }
}
