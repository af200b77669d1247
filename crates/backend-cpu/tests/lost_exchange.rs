//! A collective that fails in a step: no cell of the step has changed, whichever of its collectives it was, and the step that is repeated ends as if
//! nothing had been.
#![allow(clippy::unwrap_used)]
use adamant_backend_cpu as _;
use adamant_core::{
    Arg, Cell, Device, ErrorKind, Op, Result as Computed, Tensor,
    communicator::{self, CollectiveCall, Communicator, GroupState},
    compile,
    op::{CollectiveKind, Group, RankUse, ReduceOp},
    step,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

/// One of two ranks that hold the same; it fails in the call of one number.
#[derive(Default)]
struct Failing {
    state: GroupState,
    at: AtomicU64,
}
impl Failing {
    fn may(&self, call: &CollectiveCall) -> Result<(), ErrorKind> {
        if call.number == self.at.load(SeqCst) {
            return Err(ErrorKind::PeerLost { rank: 1, op: call.to_string(), seq: call.number, why: "a test".into() });
        }
        Ok(())
    }
}
impl Communicator for Failing {
    fn engine(&self) -> &'static str {
        "failing"
    }
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        2
    }
    fn state(&self) -> &GroupState {
        &self.state
    }
    fn all_gather(&self, call: &CollectiveCall, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.may(call)?;
        // Of pieces that are shorter, what is there.
        blocks.iter_mut().for_each(|block| block.iter_mut().zip(own).for_each(|(to, from)| *to = *from));
        Ok(())
    }
    fn all_to_all(&self, call: &CollectiveCall, to: &[&[u8]], from: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.may(call)?;
        from.iter_mut().for_each(|block| block.iter_mut().zip(to[0]).for_each(|(to, from)| *to = *from));
        Ok(())
    }
    fn send(&self, call: &CollectiveCall, _: usize, _: &[u8]) -> Result<(), ErrorKind> {
        self.may(call)
    }
    fn receive(&self, call: &CollectiveCall, _: usize, _: &mut [u8]) -> Result<(), ErrorKind> {
        self.may(call)
    }
    fn split(&self, _: &CollectiveCall, _: &[usize]) -> Result<Option<Arc<dyn Communicator>>, ErrorKind> {
        Ok(None)
    }
    fn abort(&self, _: &str) {}
}
const COLLECTIVES: u64 = 3;
/// Two cells of floats that are updated in place, each by what one collective gives, and one of whole numbers that a third one gives.
fn one(cells: &[Cell; 3], group: &Group, x: &Tensor) -> Computed<Vec<Tensor>> {
    let all = |reduce, x: &Tensor| {
        Tensor::apply(Op::Collective { kind: CollectiveKind::AllReduce { reduce, parts: 0, used: RankUse::Alike }, group: group.clone() }, Arg::None, &[x])
    };
    let first = all(ReduceOp::Sum, &(x * cells[0].detached()));
    let second = all(ReduceOp::Sum, &(x + cells[1].detached()));
    let third = all(ReduceOp::Max, &(cells[2].detached() + 1));
    cells[0].set(&(cells[0].detached() - &first * 0.125))?;
    cells[1].set(&(cells[1].detached() - &second * 0.25))?;
    cells[2].set(&third)?;
    Ok(vec![first.sum(..)])
}
fn bits(cells: &[Cell; 3]) -> Vec<Vec<u8>> {
    cells.iter().map(|cell| cell.detached().to_bytes().unwrap()).collect()
}
#[test]
fn a_step_that_has_changed_something_though_it_failed() {
    Device::cpu().unwrap().scoped(|| {
        for captured in [false, true] {
            for failing in 0..COLLECTIVES {
                let numbers = |from: usize| Tensor::from_vec((0..5000).map(|k| ((k * 31 + from) % 97) as f32 - 40.0).collect::<Vec<_>>(), [5000]);
                let cells = || {
                    [
                        Cell::new(&numbers(3), false).unwrap(),
                        Cell::new(&numbers(50), false).unwrap(),
                        Cell::new(&Tensor::from_vec(vec![7i32; 40], [40]), false).unwrap(),
                    ]
                };
                let (disturbed, plain, x) = (cells(), cells(), numbers(11));
                let run = |cells: &[Cell; 3], fails: Option<(u64, u64)>, steps: u64| -> Vec<Computed<()>> {
                    let on = Arc::new(Failing { at: AtomicU64::new(u64::MAX), ..Failing::default() });
                    let group = communicator::group(&(on.clone() as Arc<dyn Communicator>));
                    let compiled = compile::captures();
                    let once = || match captured {
                        true => compiled.call_with(&[&x], &mut |inputs| one(cells, &group, &inputs[0])).map(drop),
                        false => step(|| one(cells, &group, &x)).map(drop),
                    };
                    let each = |k: u64| {
                        on.at.store(fails.filter(|(at, _)| *at == k).map_or(u64::MAX, |(_, call)| on.state.calls() + call), SeqCst);
                        let before = bits(cells);
                        let done = once();
                        assert!(done.is_ok() || bits(cells) == before, "collective {failing} failed, captured: {captured}");
                        // A group that has ended stays so: those who go on have another one. Here it is the same.
                        done
                    };
                    (0..steps).map(each).collect()
                };
                assert!(run(&plain, None, 4).iter().all(Computed::is_ok));
                let done = run(&disturbed, Some((2, failing)), 3);
                assert!(done[0].is_ok() && done[1].is_ok() && done[2].is_err(), "{done:?}");
                assert!(run(&disturbed, None, 2).iter().all(Computed::is_ok));
                assert!(bits(&disturbed) == bits(&plain), "collective {failing}, captured: {captured}");
            }
        }
    });
}
