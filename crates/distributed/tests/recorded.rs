//! What ranks tell of their calls, side by side: nothing left out, and each at its time on one clock.
mod common;
use adamant_distributed::{
    RecordedGroup, clock_offset,
    local::{local_threads, local_threads_over},
    told_to_first,
};
use adamant_runtime::{DType, communicator::Communicator, op::ReduceOp};
use common::*;
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

fn on_ranks<T: Send>(ranks: Vec<Arc<dyn Communicator>>, run: impl Fn(Arc<dyn Communicator>) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = ranks.into_iter().map(|on| scope.spawn(move || run(on))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
#[test]
fn clocks_that_are_not_aligned() {
    let link = "alpha=1ms".parse().unwrap();
    // A link delays both ways alike, which the half way between question and answer takes out.
    for (link, alike) in [(None, 0), (Some(link), 1_000_000)] {
        let begun = Instant::now();
        // Each rank has counted from another moment on, one of them from one to come.
        let ahead = |rank: usize| [0i64, 7_000_000, 123_456_789_000, 3_000][rank];
        let ranks = local_threads_over(link, 4, Duration::from_secs(60)).unwrap();
        let offsets = on_ranks(ranks, |on| {
            let now = || Duration::from_nanos((begun.elapsed().as_nanos() as i64 + ahead(on.rank()) + 1_000_000) as u64);
            (on.rank(), clock_offset(&*on, now).unwrap())
        });
        for (rank, offset) in &offsets {
            let want = ahead(2) - ahead(*rank);
            let wrong = (offset.ahead.as_nanos() as i64 - want).unsigned_abs();
            // The one that began first is known to its own bound.
            let bound = [offset.within, offsets[2].1.within].map(|within| within.as_nanos().saturating_sub(alike)).iter().sum::<u128>() + 1000;
            assert!(u128::from(wrong) <= bound, "rank {rank}: {offset:?}, and it is {want}");
        }
        assert!(offsets[2].1.ahead.is_zero() && offsets[0].1.within.is_zero());
    }
}
#[test]
fn words_for_the_first_rank_that_are_lost_or_mixed() {
    for lengths in [[0usize, 0, 0], [1, 5 << 20, 3], [4 << 20, 0, (8 << 20) + 1], [(4 << 20) + 5, 1, 0]] {
        let said = |rank: usize| drawn_bytes(rank as u64, lengths[rank]);
        let heard = on_ranks(local_threads(3).unwrap(), |on| {
            let mut heard = vec![Vec::new(); 3];
            told_to_first(&*on, &said(on.rank()), |rank, bytes| {
                heard[rank].extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
            heard
        });
        assert!((0..3).all(|rank| heard[0][rank] == said(rank)) && heard[1..].iter().flatten().all(Vec::is_empty), "{lengths:?}");
    }
}
#[test]
fn a_call_that_is_not_kept_or_is_another() {
    let seen = on_ranks(local_threads(2).unwrap(), |on| {
        let group = Arc::new(RecordedGroup::new(on));
        let (rank, begun) = (group.rank(), Instant::now());
        let r = Reduction { seed: 3, by: ReduceOp::Sum, elements: 30_000, parts: 2 };
        let mut sum = vec![0; 120_000];
        group.all_reduce(&call(&*group, r.kind(), DType::F32, 30_000), &r.tree::<f32>(2), &r.own::<f32>(rank, 2), &mut sum).unwrap();
        assert!(sum == r.all::<f32>());
        // A group that is split off tells the same list.
        let both = group.split(&call(&*group, GATHER, DType::U8, 0), &[1, 0]).unwrap().unwrap();
        both.all_gather(&call(&*both, GATHER, DType::U8, 3), &[1, 2, 3], &mut [&mut [0; 3], &mut [0; 3]]).unwrap();
        let calls = group.take_calls();
        assert!(group.take_calls().is_empty());
        assert!(calls.windows(2).all(|two| two[0].end <= two[1].begin) && calls.iter().all(|call| call.begin >= begun && call.begin <= call.end));
        calls.iter().map(|call| (call.call.kind, call.bytes, call.ranks)).collect::<Vec<_>>()
    });
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0].iter().map(|(_, bytes, ranks)| (*bytes, *ranks)).collect::<Vec<_>>(), [(120_000, 2), (0, 2), (3, 2)]);
    assert_eq!(seen[0][0].0, Reduction { seed: 3, by: ReduceOp::Sum, elements: 30_000, parts: 2 }.kind());
}
