//! A slow network that is rehearsed: the bits of the fast one, no sooner than the time that a closed form says, and not without end.
mod common;
use adamant_distributed::local::{LinkSpeed, local_threads_over};
use adamant_runtime::{
    DType, ErrorKind,
    communicator::Communicator,
    op::{CollectiveKind, ReduceOp},
};
use common::*;
use std::{
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

const WAITS: Duration = Duration::from_secs(60);
const LATE: Duration = Duration::from_secs(20);

/// Runs one function on each of so many ranks, between which there is a link; gives what each returns, in their order.
fn over<T: Send>(link: Option<LinkSpeed>, size: usize, run: impl Fn(&dyn Communicator) -> T + Sync) -> Vec<T> {
    let ranks = local_threads_over(link, size, WAITS).unwrap();
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = ranks.into_iter().map(|on| scope.spawn(move || run(&*on))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
/// One collective of each kind, of so many elements.
fn exchanged(on: &dyn Communicator, kind: &str, n: usize) -> Vec<u8> {
    let (rank, size) = (on.rank(), on.size());
    let r = Reduction { seed: 5, by: ReduceOp::Sum, elements: n, parts: size };
    let bytes = |of: usize| drawn_bytes(of as u64, 4 * n);
    match kind {
        "all-reduce" => {
            let mut sum = vec![0; 4 * n];
            on.all_reduce(&call(on, r.kind(), DType::F32, n), &r.tree::<f32>(size), &r.own::<f32>(rank, size), &mut sum).unwrap();
            sum
        }
        "fast" => {
            let (mut sum, own) = (vec![0; 4 * n], r.own::<i32>(rank, size));
            on.all_reduce_fast(&call(on, r.kind(), DType::I32, n), ReduceOp::Sum, DType::I32, &own, &mut sum).unwrap().unwrap();
            sum
        }
        "reduce-scatter" => {
            let (r, mut block) = (Reduction { elements: n * size, ..r }, vec![0; 4 * n]);
            let kind = CollectiveKind::ReduceScatter { reduce: ReduceOp::Sum, parts: 0 };
            on.reduce_scatter(&call(on, kind, DType::F32, n), &r.tree::<f32>(size), &r.own::<f32>(rank, size), &mut block).unwrap();
            block
        }
        "all-gather" => {
            let mut blocks = vec![vec![0; 4 * n]; size];
            on.all_gather(&call(on, GATHER, DType::F32, n), &bytes(rank), &mut blocks.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>()).unwrap();
            blocks.concat()
        }
        "all-to-all" => {
            let (own, mut from) = (bytes(rank), vec![vec![0; 4 * n]; size]);
            let to: Vec<&[u8]> = vec![&own; size];
            on.all_to_all(&call(on, CollectiveKind::AllToAll, DType::F32, n * size), &to, &mut from.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())
                .unwrap();
            from.concat()
        }
        "broadcast" => {
            let mut told = bytes(rank);
            let kind = CollectiveKind::Broadcast { root: size - 1, used: adamant_runtime::op::RankUse::Alike };
            on.broadcast(&call(on, kind, DType::F32, n), size - 1, &mut told).unwrap();
            told
        }
        "send" => {
            // Round in a ring, of which the last one begins.
            let mut came = vec![0; 4 * n];
            let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
            let send = |bytes: &[u8]| on.send(&call(on, CollectiveKind::Send { to }, DType::F32, n), to, bytes).unwrap();
            if rank + 1 == size {
                send(&bytes(rank));
            }
            on.receive(&call(on, CollectiveKind::Receive { from }, DType::F32, n), from, &mut came).unwrap();
            if rank + 1 != size {
                send(&came);
            }
            came
        }
        _ => {
            let mut nothing: Vec<&mut [u8]> = (0..size).map(|_| &mut [][..]).collect();
            on.all_gather(&call(on, CollectiveKind::Barrier, DType::F32, 0), &[], &mut nothing).unwrap();
            Vec::new()
        }
    }
}
const KINDS: [&str; 8] = ["all-reduce", "fast", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "send", "barrier"];
/// Seconds that the closed form says, of elements of 4 bytes.
fn meant(kind: &str, size: usize, n: usize, alpha: f64, beta: f64) -> f64 {
    let (others, bytes) = ((size - 1) as f64, 4.0 * n as f64);
    match kind {
        "all-reduce" | "fast" if bytes <= 16384.0 => others * (alpha + bytes / beta),
        "all-reduce" | "fast" => 2.0 * others * (alpha + (bytes / size as f64).floor() / beta),
        "reduce-scatter" | "all-gather" | "all-to-all" => others * (alpha + bytes / beta),
        "broadcast" => (size as f64).log2().ceil() * (alpha + bytes / beta),
        "send" => size as f64 * (alpha + bytes / beta),
        _ => others * alpha,
    }
}
#[test]
fn a_link_that_changes_bits_or_is_faster_than_it_says() {
    for size in [1, 2, 3, 5] {
        for (n, alpha, beta) in [(0, 3e-3, 1e9), (700, 1e-3, 1e6), (30_011, 2e-3, 20e6), (400_003, 0.0, 200e6)] {
            let link: LinkSpeed = format!("alpha={}us,beta={}B/s", alpha * 1e6, beta).parse().unwrap();
            for kind in KINDS.into_iter().filter(|kind| size > 1 || *kind != "send") {
                let plain = over(None, size, |on| exchanged(on, kind, n));
                let slow = over(Some(link), size, |on| {
                    // All begin together; what was before takes part in nothing.
                    exchanged(on, "barrier", 0);
                    let begun = Instant::now();
                    (exchanged(on, kind, n), begun.elapsed().as_secs_f64())
                });
                let least = if size > 1 { meant(kind, size, n, alpha, beta) } else { 0.0 };
                for (rank, ((bytes, took), want)) in slow.into_iter().zip(plain).enumerate() {
                    assert!(bytes == want, "{kind} of {n} on {size} ranks: other bits on rank {rank}");
                    // What comes last in a ring is what the first one waits for; the others have theirs sooner.
                    let part = if kind == "send" { (rank + 1) as f64 / size as f64 } else { 1.0 };
                    // A rank may come to the barrier's end a little later than another, whom the call counts from.
                    assert!(took >= 0.9 * least * part - 2e-3, "{kind} of {n} on {size} ranks: {took} s on rank {rank}, {least} s are meant");
                    assert!(took <= least + LATE.as_secs_f64(), "{kind} of {n} on {size} ranks: {took} s");
                }
            }
        }
    }
}
/// Groups that were split off go by the same link, and a sender goes on while its message travels.
#[test]
fn a_group_without_its_ranks_link_and_a_sender_that_waits() {
    let link: LinkSpeed = "alpha=40ms".parse().unwrap();
    let took = over(Some(link), 3, |on| {
        let two = on.split(&call(on, GATHER, DType::U8, 0), &[2, 0]).unwrap();
        let begun = Instant::now();
        if let Some(two) = &two {
            exchanged(&**two, "barrier", 0);
        }
        begun.elapsed()
    });
    assert!(took[0] >= Duration::from_millis(35) && took[2] >= Duration::from_millis(35) && took[1] < Duration::from_millis(35), "{took:?}");
    let came = Mutex::new(Vec::new());
    let took = over(Some("alpha=300ms".parse().unwrap()), 2, |on| {
        let begun = Instant::now();
        for k in 0..4u8 {
            let (to, from) = (CollectiveKind::Send { to: 1 }, CollectiveKind::Receive { from: 0 });
            let mut byte = [k];
            match on.rank() {
                0 => on.send(&call(on, to, DType::U8, 1), 1, &byte).unwrap(),
                _ => on.receive(&call(on, from, DType::U8, 1), 0, &mut byte).unwrap(),
            }
            came.lock().unwrap().push(byte[0]);
        }
        begun.elapsed()
    });
    // Four messages that leave one behind the other travel side by side.
    assert!(took[0] < Duration::from_millis(300) && took[1] >= Duration::from_millis(290), "{took:?}");
    assert!(took[1] < Duration::from_millis(1100), "{took:?}");
    assert_eq!(*came.lock().unwrap(), [0, 1, 2, 3, 0, 1, 2, 3]);
}
/// A rank that sleeps until its message is over hears that the group ends, and wakes.
#[test]
fn an_end_that_a_rank_sleeps_through() {
    let ranks = local_threads_over(Some("alpha=1000s".parse().unwrap()), 2, WAITS).unwrap();
    let begun = Instant::now();
    let ended: Vec<Result<(), ErrorKind>> = thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .iter()
            .map(|on: &Arc<dyn Communicator>| scope.spawn(move || on.all_gather(&call(&**on, GATHER, DType::U8, 1), &[1], &mut [&mut [0], &mut [0]])))
            .collect();
        // They are in the call, and most likely asleep; or on their way to it.
        while ranks.iter().any(|on| on.state().calls() == 0) {
            thread::yield_now();
        }
        (0..100_000).for_each(|_| thread::yield_now());
        ranks[0].abort("enough");
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (rank, done) in ended.into_iter().enumerate() {
        assert!(done.as_ref().is_err_and(|kind| kind.to_string().contains("enough")), "rank {rank}: {done:?}");
    }
    assert!(begun.elapsed() < LATE);
}
