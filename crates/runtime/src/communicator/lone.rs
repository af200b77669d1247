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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{CollectiveKind, RankUse, ReduceOp};
    use crate::{DType, HostArray, Shape, TensorType, communicator};

    fn call(group: &dyn Communicator) -> CollectiveCall {
        CollectiveCall::next(group, CollectiveKind::Barrier, TensorType { shape: Shape::new(&[2]).unwrap(), dtype: DType::F32 }, None)
    }
    #[test]
    fn every_collective_gives_back_what_one_rank_put_in() {
        let alone = Arc::new(LoneRank::default()) as Arc<dyn Communicator>;
        let group = communicator::group(&alone);
        let input = HostArray::from_bytes(Shape::new(&[2]).unwrap(), DType::F32, &[1.5f32, -2.0].map(f32::to_ne_bytes).concat());
        let kinds = [
            CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike },
            CollectiveKind::ReduceScatter { reduce: ReduceOp::Max, parts: 0 },
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
        let alone = LoneRank::default();
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
