//! The engine `local` with threads as ranks: every collective gives what was worked out elsewhere, to the bit.
mod common;
use adamant_distributed::local::{local_threads, local_threads_with};
use adamant_runtime::{
    DType, ErrorKind, bf16,
    communicator::{Communicator, ReductionTree},
    f16,
    op::{CollectiveKind, ReduceOp},
};
use common::*;
use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// Runs one function on each of so many ranks.
fn on_ranks(size: usize, run: impl Fn(&dyn Communicator) + Sync) {
    let ranks = local_threads(size).unwrap();
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = ranks.into_iter().map(|on| scope.spawn(move || run(&*on))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
const SIZES: [usize; 6] = [1, 2, 3, 4, 5, 8];
/// Elements of what is exchanged: nothing, one, odd, more than one stage.
const ELEMENTS: [usize; 4] = [0, 1, 7, 1003];

fn reductions<T: Number>(on: &dyn Communicator, seed: u64, long: usize) {
    let (rank, size) = (on.rank(), on.size());
    let mut seed = seed;
    for by in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min] {
        for elements in ELEMENTS.into_iter().chain((long > 0 && by == ReduceOp::Sum).then_some(long)) {
            for parts in [size, size + 1, 13].into_iter().filter(|parts| *parts >= size && (elements < 10_000 || *parts != size + 1)) {
                seed += 1;
                let r = Reduction { seed, by, elements, parts };
                let (tree, own) = (r.tree::<T>(size), r.own::<T>(rank, size));
                let mut sum = vec![0xa5; elements * T::DTYPE.size()];
                on.all_reduce(&call(on, r.kind(), T::DTYPE, elements), &tree, &own, &mut sum).unwrap();
                assert!(sum == r.all::<T>(), "{by:?} of {parts} parts of {elements} {} on {size} ranks: rank {rank}", T::DTYPE);
            }
            // A block for each rank.
            seed += 1;
            let r = Reduction { seed, by, elements: elements * size, parts: size };
            let mut block = vec![0xa5; elements * T::DTYPE.size()];
            let kind = CollectiveKind::ReduceScatter { reduce: by, parts: 0 };
            on.reduce_scatter(&call(on, kind, T::DTYPE, elements), &r.tree::<T>(size), &r.own::<T>(rank, size), &mut block).unwrap();
            let n = block.len();
            assert!(block == r.all::<T>()[rank * n..][..n], "{by:?} scattered, {elements} {} on {size} ranks: rank {rank}", T::DTYPE);
        }
    }
}
#[test]
fn a_reduction_whose_bits_are_not_those_of_the_tree() {
    for size in SIZES {
        on_ranks(size, |on| {
            reductions::<f32>(on, 1000, 200_001);
            reductions::<f64>(on, 2000, 0);
            reductions::<bf16>(on, 3000, 140_003);
            reductions::<f16>(on, 4000, 0);
            reductions::<i8>(on, 5000, 300_005);
            reductions::<i16>(on, 6000, 0);
            reductions::<i32>(on, 7000, 0);
            reductions::<i64>(on, 8000, 0);
            reductions::<u8>(on, 9000, 0);
            reductions::<u16>(on, 10_000, 0);
            reductions::<u32>(on, 11_000, 0);
            reductions::<u64>(on, 12_000, 0);
        });
    }
}
/// In whatever order pieces come, integers add up to the same, and floats about so; every rank has the same bits.
fn fast_sums<T: Number>(on: &dyn Communicator, seed: u64, is_near: &(dyn Fn(&[u8], &[u8]) -> bool + Sync)) {
    let (rank, size) = (on.rank(), on.size());
    for (k, elements) in ELEMENTS.into_iter().chain([20_001, 400_003]).enumerate() {
        for by in [ReduceOp::Sum, ReduceOp::Max] {
            let r = Reduction { seed: seed + k as u64, by, elements, parts: size };
            let mut sum = vec![0xa5; elements * T::DTYPE.size()];
            on.all_reduce_fast(&call(on, r.kind(), T::DTYPE, elements), by, T::DTYPE, &r.own::<T>(rank, size), &mut sum).unwrap().unwrap();
            assert!(is_near(&sum, &r.all::<T>()), "{by:?} of {elements} {} on {size} ranks: rank {rank}", T::DTYPE);
            let mut all = vec![vec![0; sum.len()]; size];
            on.all_gather(&call(on, GATHER, DType::U8, sum.len()), &sum, &mut all.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>()).unwrap();
            assert!(all.iter().all(|other| *other == sum), "{elements} {} on {size} ranks: not the same on all", T::DTYPE);
        }
    }
}
#[test]
fn a_fast_sum_that_misses_a_rank_or_differs_between_ranks() {
    for size in SIZES {
        on_ranks(size, |on| {
            fast_sums::<i32>(on, 100, &|a, b| a == b);
            fast_sums::<u8>(on, 200, &|a, b| a == b);
            let floats = |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|b| f32::from_ne_bytes(*b)).collect::<Vec<f32>>();
            fast_sums::<f32>(on, 300, &|a, b| floats(a).iter().zip(floats(b)).all(|(a, b)| (a - b).abs() < 0.05));
        });
    }
}
/// Lengths of the blocks of ranks: equal, different, nothing of some.
fn lengths(size: usize, case: usize) -> Vec<usize> {
    let of = |rank: usize| match case {
        0 => 0,
        1 => 1,
        2 => 1000 + 37 * rank,
        3 => {
            if rank % 2 == 0 {
                0
            } else {
                700_001
            }
        }
        4 => {
            if rank == size - 1 {
                1_300_000
            } else {
                3
            }
        }
        _ => 600_000 * (rank % 3),
    };
    (0..size).map(of).collect()
}
#[test]
fn blocks_that_do_not_come_to_whom_they_are_for() {
    for size in SIZES {
        on_ranks(size, |on| {
            let rank = on.rank();
            for case in 0..6 {
                let lengths = lengths(size, case);
                let seed = |from: usize, to: usize| (case * 10_000 + from * 100 + to) as u64;
                // Everybody's for everybody.
                let mut blocks: Vec<Vec<u8>> = lengths.iter().map(|n| vec![0; *n]).collect();
                let mut into: Vec<&mut [u8]> = blocks.iter_mut().map(Vec::as_mut_slice).collect();
                on.all_gather(&call(on, GATHER, DType::U8, case), &drawn_bytes(seed(rank, 0), lengths[rank]), &mut into).unwrap();
                for (from, block) in blocks.iter().enumerate() {
                    assert!(*block == drawn_bytes(seed(from, 0), lengths[from]), "gathered of {from}, case {case}, {size} ranks");
                }
                // One for each.
                let between = |from: usize, to: usize| lengths[(from + 2 * to) % size] / 2;
                let to: Vec<Vec<u8>> = (0..size).map(|to| drawn_bytes(seed(rank, to), between(rank, to))).collect();
                let to: Vec<&[u8]> = to.iter().map(Vec::as_slice).collect();
                let mut from: Vec<Vec<u8>> = (0..size).map(|from| vec![0; between(from, rank)]).collect();
                let mut into: Vec<&mut [u8]> = from.iter_mut().map(Vec::as_mut_slice).collect();
                on.all_to_all(&call(on, CollectiveKind::AllToAll, DType::U8, case), &to, &mut into).unwrap();
                for (of, block) in from.iter().enumerate() {
                    assert!(*block == drawn_bytes(seed(of, rank), between(of, rank)), "of {of} to {rank}, case {case}, {size} ranks");
                }
                // One's for all.
                for root in 0..size {
                    let n = lengths[root];
                    let mut bytes = if rank == root { drawn_bytes(seed(root, 7), n) } else { vec![0; n] };
                    let kind = CollectiveKind::Broadcast { root, used: adamant_runtime::op::RankUse::Alike };
                    on.broadcast(&call(on, kind, DType::U8, n), root, &mut bytes).unwrap();
                    assert!(bytes == drawn_bytes(seed(root, 7), n), "of root {root}, case {case}, {size} ranks");
                }
            }
        });
    }
}
#[test]
fn messages_that_come_out_of_order_or_torn() {
    for size in [2, 3, 5] {
        on_ranks(size, |on| {
            let (rank, size) = (on.rank(), on.size());
            let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
            for round in 0..40u64 {
                let n = |from: usize| (drawn(round, from as u64) % 90_000) as usize * usize::from(round % 3 > 0);
                on.send(&call(on, CollectiveKind::Send { to: next }, DType::U8, n(rank)), next, &drawn_bytes(round << 8 | rank as u64, n(rank))).unwrap();
                let mut came = vec![0; n(before)];
                on.receive(&call(on, CollectiveKind::Receive { from: before }, DType::U8, n(before)), before, &mut came).unwrap();
                assert!(came == drawn_bytes(round << 8 | before as u64, n(before)), "round {round}, rank {rank} of {size}");
            }
            // Larger than a ring: rank 0 begins, so that nobody waits for a sender that waits.
            let n = 3_000_001;
            let (send, receive) = (CollectiveKind::Send { to: next }, CollectiveKind::Receive { from: before });
            let mut came = vec![0; n];
            if rank == 0 {
                on.send(&call(on, send, DType::U8, n), next, &drawn_bytes(99, n)).unwrap();
                on.receive(&call(on, receive, DType::U8, n), before, &mut came).unwrap();
            } else {
                on.receive(&call(on, receive, DType::U8, n), before, &mut came).unwrap();
                on.send(&call(on, send, DType::U8, n), next, &came).unwrap();
            }
            assert!(came == drawn_bytes(99, n), "rank {rank} of {size}");
        });
    }
}
#[test]
fn a_group_of_some_ranks_that_is_not_a_group_of_its_own() {
    on_ranks(5, |on| {
        let split = |members: &[usize]| on.split(&call(on, CollectiveKind::Barrier, DType::U8, 0), members).unwrap();
        let (odd, even) = (split(&[3, 1]), split(&[4, 0, 2]));
        assert_eq!((odd.is_some(), even.is_some()), (on.rank() % 2 == 1, on.rank() % 2 == 0));
        let part: Arc<dyn Communicator> = odd.or(even).unwrap();
        let order: &[usize] = if on.rank() % 2 == 1 { &[3, 1] } else { &[4, 0, 2] };
        assert_eq!((order[part.rank()], part.size()), (on.rank(), order.len()));
        for round in 0..50u8 {
            let mut blocks = vec![[0; 2]; part.size()];
            let mut into: Vec<&mut [u8]> = blocks.iter_mut().map(|block| &mut block[..]).collect();
            part.all_gather(&call(&*part, GATHER, DType::U8, 2), &[on.rank() as u8, round], &mut into).unwrap();
            assert!(blocks.iter().zip(order).all(|(block, rank)| *block == [*rank as u8, round]), "{blocks:?}");
        }
        // Split again, and the whole group goes on as before.
        let pair = if part.size() == 3 { part.split(&call(&*part, CollectiveKind::Barrier, DType::U8, 0), &[2, 1]).unwrap() } else { None };
        assert_eq!(
            pair.map(|pair| (pair.rank(), pair.size())),
            match on.rank() {
                2 => Some((0, 2)),
                0 => Some((1, 2)),
                _ => None,
            }
        );
        let mut blocks = vec![[0; 1]; 5];
        on.all_gather(&call(on, GATHER, DType::U8, 1), &[7], &mut blocks.iter_mut().map(|block| &mut block[..]).collect::<Vec<_>>()).unwrap();
        assert_eq!(blocks, vec![[7]; 5]);
    });
    on_ranks(2, |on| {
        for members in [&[][..], &[0, 0], &[2]] {
            let made = on.split(&call(on, CollectiveKind::Barrier, DType::U8, 0), members);
            assert!(matches!(made, Err(ErrorKind::Argument(_))));
        }
    });
}
type Fails = fn(&dyn Communicator) -> Result<(), ErrorKind>;
/// What each of so many threads gets that calls its own.
fn outcomes(timeout: Duration, calls: &[Fails]) -> Vec<Result<(), ErrorKind>> {
    let ranks = local_threads_with(calls.len(), timeout).unwrap();
    let threads: Vec<_> = ranks.into_iter().zip(calls.to_vec()).map(|(on, run)| thread::spawn(move || run(&*on))).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}
fn gathers(on: &dyn Communicator) -> Result<(), ErrorKind> {
    let mut blocks = vec![[0; 4]; on.size()];
    on.all_gather(&call(on, GATHER, DType::U8, 4), &[1; 4], &mut blocks.iter_mut().map(|block| &mut block[..]).collect::<Vec<_>>())
}
fn gathers_others(on: &dyn Communicator) -> Result<(), ErrorKind> {
    let mut blocks = vec![[0; 4]; on.size()];
    on.all_gather(&call(on, GATHER, DType::F32, 1), &[1; 4], &mut blocks.iter_mut().map(|block| &mut block[..]).collect::<Vec<_>>())
}
fn adds<const N: usize>(on: &dyn Communicator) -> Result<(), ErrorKind> {
    let mut sum = vec![0; 4 * N];
    on.all_reduce(&call(on, SUM, DType::F32, N), &ReductionTree::of_ranks(ReduceOp::Sum, DType::F32, on.size()), &vec![0; 4 * N], &mut sum)
}
fn casts<const ROOT: usize>(on: &dyn Communicator) -> Result<(), ErrorKind> {
    let kind = CollectiveKind::Broadcast { root: ROOT, used: adamant_runtime::op::RankUse::Alike };
    on.broadcast(&call(on, kind, DType::U8, 100), ROOT, &mut [0; 100])
}
fn sends<const TO: usize>(on: &dyn Communicator) -> Result<(), ErrorKind> {
    on.send(&call(on, CollectiveKind::Send { to: TO }, DType::U8, 8), TO, &[0; 8])
}
fn sends_much<const TO: usize>(on: &dyn Communicator) -> Result<(), ErrorKind> {
    on.send(&call(on, CollectiveKind::Send { to: TO }, DType::U8, 1 << 20), TO, &vec![0; 1 << 20])
}
fn receives<const FROM: usize>(on: &dyn Communicator) -> Result<(), ErrorKind> {
    on.receive(&call(on, CollectiveKind::Receive { from: FROM }, DType::U8, 8), FROM, &mut [0; 8])
}
fn receives_less<const FROM: usize>(on: &dyn Communicator) -> Result<(), ErrorKind> {
    on.receive(&call(on, CollectiveKind::Receive { from: FROM }, DType::U8, 4), FROM, &mut [0; 4])
}
fn twice(on: &dyn Communicator) -> Result<(), ErrorKind> {
    gathers(on)?;
    gathers(on)
}
fn adds_then_gathers(on: &dyn Communicator) -> Result<(), ErrorKind> {
    adds::<4>(on)?;
    gathers(on)
}
fn gathers_then_adds(on: &dyn Communicator) -> Result<(), ErrorKind> {
    gathers(on)?;
    adds::<4>(on)
}
fn halts(on: &dyn Communicator) -> Result<(), ErrorKind> {
    on.abort("no memory");
    gathers(on)
}
fn goes(_: &dyn Communicator) -> Result<(), ErrorKind> {
    Ok(())
}
#[test]
fn ranks_that_differ_and_are_not_told_both_calls() {
    let cases: &[&[Fails]] = &[
        &[gathers, gathers_others],
        &[gathers, adds::<4>],
        &[adds::<4>, adds::<5>],
        &[adds::<4>, adds::<500_000>],
        &[casts::<0>, casts::<1>],
        &[adds_then_gathers, gathers_then_adds],
        &[gathers, gathers, gathers_others],
        &[gathers, gathers_others, gathers],
        &[receives::<1>, gathers],
        &[gathers, sends_much::<0>],
        &[receives::<1>, receives::<0>],
        &[receives_less::<1>, sends_much::<0>],
        &[sends_much::<1>, sends_much::<0>],
    ];
    for (k, calls) in cases.iter().enumerate() {
        let start = std::time::Instant::now();
        for (rank, outcome) in outcomes(Duration::from_secs(20), calls).into_iter().enumerate() {
            match outcome {
                Err(ErrorKind::RanksDiffer { own, rank: other, other: theirs, .. }) => {
                    let called = own.strip_suffix(&format!(" as rank {rank}")).unwrap_or_else(|| panic!("case {k}, rank {rank} does not name itself: {own}"));
                    assert!(other != rank && called != theirs || k == 12, "case {k}, rank {rank}: {own} and {theirs} of {other}");
                    assert!(theirs != "something else", "case {k}, rank {rank}");
                }
                outcome => panic!("case {k}, rank {rank}: {outcome:?}"),
            }
        }
        assert!(start.elapsed() < Duration::from_secs(10), "case {k}: {:?}", start.elapsed());
    }
}
#[test]
fn a_rank_that_left_failed_or_never_comes_and_others_that_wait_for_it() {
    let lost = |outcome: &Result<(), ErrorKind>, rank: usize, words: &str| match outcome {
        Err(ErrorKind::PeerLost { rank: of, why, op, .. }) => assert!(*of == rank && why.contains(words) && op.contains("all_gather"), "{outcome:?}"),
        outcome => panic!("{outcome:?}"),
    };
    // One call too many, or one too few.
    let told = outcomes(Duration::from_secs(20), &[twice, gathers, twice]);
    assert!(told[1].is_ok());
    [0, 2].iter().for_each(|rank| lost(&told[*rank], 1, "it left"));
    lost(&outcomes(Duration::from_secs(20), &[gathers, goes])[0], 1, "it left");
    // What was sent comes, though who sent it is gone.
    assert!(outcomes(Duration::from_secs(20), &[sends::<1>, receives::<0>]).iter().all(Result::is_ok));
    // A rank that ends the group.
    let told = outcomes(Duration::from_secs(20), &[gathers, halts, gathers]);
    for rank in [0, 2] {
        assert!(matches!(&told[rank], Err(ErrorKind::PeerFailed { rank: 1, message }) if message == "no memory"), "{:?}", told[rank]);
    }
    assert!(matches!(&told[1], Err(ErrorKind::PeerFailed { rank: 1, .. })), "{:?}", told[1]);
    // One that is there and does not come.
    let ranks = local_threads_with(2, Duration::from_millis(600)).unwrap();
    let start = std::time::Instant::now();
    lost(&gathers(&*ranks[0]), 1, "did not come");
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(600) && took < Duration::from_millis(700), "{took:?}");
    // The group has ended: at once, and for both.
    lost(&gathers(&*ranks[0]), 1, "did not come");
    assert!(matches!(gathers(&*ranks[1]), Err(ErrorKind::PeerFailed { rank: 0, .. })));
}

/// Keeps what is told.
struct Notes(Mutex<Vec<String>>);
static NOTES: Notes = Notes(Mutex::new(Vec::new()));
struct Message<'s>(&'s mut String);
impl tracing::field::Visit for Message<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            *self.0 = format!("{value:?}");
        }
    }
}
impl tracing::Subscriber for &'static Notes {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "adamant::ranks"
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut message = String::new();
        event.record(&mut Message(&mut message));
        self.0.lock().unwrap().push(message);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
#[test]
fn a_long_wait_that_nobody_is_told_of_or_is_told_twice() {
    tracing::subscriber::with_default(&NOTES, || {
        let ranks = local_threads_with(3, Duration::from_millis(500)).unwrap();
        // A barrier of ten bytes, so that this call is told from those of other tests.
        let mut blocks = [[0; 10]; 3];
        let told =
            ranks[2].all_gather(&call(&*ranks[2], GATHER, DType::U8, 10), &[1; 10], &mut blocks.iter_mut().map(|block| &mut block[..]).collect::<Vec<_>>());
        assert!(matches!(told, Err(ErrorKind::PeerLost { rank: 0, .. })), "{told:?}");
    });
    let notes = NOTES.0.lock().unwrap().clone();
    assert!(notes.len() == 1 && notes[0].contains("all_gather of u8 [10]") && notes[0].contains("rank 0"), "{notes:?}");
}
