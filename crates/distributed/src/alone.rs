//! The group of one rank: every collective is there already. It needs no engine, no socket and no token.
use adamant_runtime::{
    ErrorKind,
    communicator::{CollectiveCall, Communicator, GroupState},
};
use std::sync::Arc;

/// A group of one.
#[derive(Default)]
pub struct GroupOfOne {
    state: GroupState,
}
impl GroupOfOne {
    /// A group of one.
    pub fn open() -> Arc<dyn Communicator> {
        Arc::new(GroupOfOne::default())
    }
    fn check(&self) -> Result<(), ErrorKind> {
        self.state.ended().map_or(Ok(()), Err)
    }
}
fn copy(from: &[u8], to: &mut [u8]) -> Result<(), ErrorKind> {
    if from.len() != to.len() {
        return Err(ErrorKind::Internal(format!("{} bytes go into {}", from.len(), to.len())));
    }
    to.copy_from_slice(from);
    Ok(())
}
fn only<T>(of: Option<T>, blocks: usize) -> Result<T, ErrorKind> {
    of.filter(|_| blocks == 1).ok_or_else(|| ErrorKind::Internal(format!("{blocks} blocks in a group of one")))
}
fn nobody(rank: usize) -> ErrorKind {
    ErrorKind::Argument(format!("rank {rank} is no other rank of a group of one"))
}

impl Communicator for GroupOfOne {
    fn engine(&self) -> &'static str {
        "alone"
    }
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        1
    }
    fn state(&self) -> &GroupState {
        &self.state
    }
    fn all_gather(&self, _: &CollectiveCall, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.check()?;
        let count = blocks.len();
        copy(own, only(blocks.first_mut(), count)?)
    }
    fn all_to_all(&self, _: &CollectiveCall, to: &[&[u8]], from: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.check()?;
        let count = from.len();
        copy(only(to.first(), to.len())?, only(from.first_mut(), count)?)
    }
    fn send(&self, _: &CollectiveCall, to: usize, _: &[u8]) -> Result<(), ErrorKind> {
        Err(nobody(to))
    }
    fn receive(&self, _: &CollectiveCall, from: usize, _: &mut [u8]) -> Result<(), ErrorKind> {
        Err(nobody(from))
    }
    fn split(&self, _: &CollectiveCall, members: &[usize]) -> Result<Option<Arc<dyn Communicator>>, ErrorKind> {
        self.check()?;
        match members {
            [] => Ok(None),
            [0] => Ok(Some(GroupOfOne::open())),
            members => Err(ErrorKind::Argument(format!("a group of ranks {members:?} out of a group of one"))),
        }
    }
    fn abort(&self, why: &str) {
        self.state.end(&ErrorKind::PeerFailed { rank: 0, message: why.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant_ir::op::{CollectiveKind, RankUse, ReduceOp};
    use adamant_runtime::{DType, HostArray, Shape, TensorType, communicator};

    fn call(group: &dyn Communicator) -> CollectiveCall {
        CollectiveCall::next(group, CollectiveKind::Barrier, TensorType { shape: Shape::new(&[2]).unwrap(), dtype: DType::F32 }, None)
    }
    #[test]
    fn every_collective_gives_back_what_one_rank_put_in() {
        let alone = GroupOfOne::open();
        let group = communicator::group(&alone);
        let input = HostArray::from_bytes(Shape::new(&[2]).unwrap(), DType::F32, &[1.5f32, -2.0].map(f32::to_ne_bytes).concat());
        let kinds = [
            CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike },
            CollectiveKind::ReduceScatter { reduce: ReduceOp::Max },
            CollectiveKind::AllToAll,
            CollectiveKind::AllGather { used: RankUse::Alike },
            CollectiveKind::Broadcast { root: 0, used: RankUse::Apart },
            CollectiveKind::Replicate,
            CollectiveKind::Barrier,
        ];
        for kind in kinds {
            let got = communicator::exchange_array(kind, &group, &input, None).unwrap();
            assert_eq!(got.to_bytes(), input.to_bytes(), "{kind}");
        }
    }
    #[test]
    fn what_needs_a_second_rank_is_an_error() {
        let alone = GroupOfOne::default();
        let bytes = &mut [0u8; 4];
        assert!(matches!(alone.send(&call(&alone), 1, bytes), Err(ErrorKind::Argument(_))));
        assert!(matches!(alone.receive(&call(&alone), 0, bytes), Err(ErrorKind::Argument(_))));
        assert!(matches!(alone.split(&call(&alone), &[0, 1]), Err(ErrorKind::Argument(_))));
        assert!(alone.split(&call(&alone), &[]).unwrap().is_none());
        assert_eq!(alone.split(&call(&alone), &[0]).unwrap().unwrap().size(), 1);
        alone.abort("enough");
        assert!(matches!(alone.all_gather(&call(&alone), &[0; 4], &mut [bytes]), Err(ErrorKind::PeerFailed { .. })));
    }
}
