//! What a rank does in a case. Each prints what it saw, and ends with the exit code that a program would.
use crate::{
    data::{bytes, elements, tree_sum},
    functions::{self, barrier, call},
};
use adamant_engine_mpi::{MpiCommunicator, open_group, watch_peers};
use adamant_ir::{
    DType, ErrorKind,
    op::{CollectiveKind, RankUse, ReduceOp},
};
use adamant_runtime::communicator::{Communicator, EngineRequest, ReductionTree};
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// The rank and the number of ranks that the launcher tells.
pub fn place() -> (usize, usize) {
    let number = |names: [&str; 2]| names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok());
    (number(["OMPI_COMM_WORLD_RANK", "PMI_RANK"]).unwrap_or(0), number(["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]).unwrap_or(1))
}
fn request(timeout: Duration) -> EngineRequest {
    let (rank, size) = place();
    EngineRequest { rank, size, local: (size, rank), epoch: 0, meeting: None, listener: None, token: None, bind: None, timeout }
}
fn opened(timeout_ms: u64) -> Arc<MpiCommunicator> {
    match open_group(&request(Duration::from_millis(timeout_ms))) {
        Ok(group) => group,
        Err(kind) => {
            said(&format!("{kind:?}"));
            std::process::exit(9);
        }
    }
}
/// A line that the judge reads.
fn said(what: &str) {
    // In one piece: lines of several ranks come together.
    use std::io::Write;
    let line = format!("RANK {}: {}\n", place().0, what.replace('\n', " "));
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
    let _ = std::io::stdout().flush();
}
/// Says what became of a call, after how many milliseconds; exits with 7 where it failed.
fn told(start: Instant, done: Result<(), ErrorKind>) {
    said(&format!("{} ms: {done:?}", start.elapsed().as_millis()));
    if done.is_err() {
        std::process::exit(7);
    }
}
const SUM: CollectiveKind = CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike };

fn sum(on: &dyn Communicator, dtype: DType, n: usize) -> Result<(), ErrorKind> {
    let size = on.size();
    let part = |r: usize| elements(dtype, r as u64, n);
    let mut sum = vec![0xee; n * dtype.size()];
    on.all_reduce(&call(on, SUM, dtype, n), &ReductionTree::of_ranks(ReduceOp::Sum, dtype, size), &part(on.rank()), &mut sum)?;
    assert!(sum == tree_sum(dtype, &part, 0, size), "the sum of {dtype} [{n}]");
    Ok(())
}
fn gather(on: &dyn Communicator, n: usize) -> Result<(), ErrorKind> {
    let mut blocks = vec![vec![0; n]; on.size()];
    let mut blocks: Vec<&mut [u8]> = blocks.iter_mut().map(Vec::as_mut_slice).collect();
    on.all_gather(&call(on, CollectiveKind::AllGather { used: RankUse::Alike }, DType::U8, n), &bytes(1, n), &mut blocks)
}
fn broadcast(on: &dyn Communicator, root: usize) -> Result<(), ErrorKind> {
    let mut bytes = vec![1; 100_000];
    on.broadcast(&call(on, CollectiveKind::Broadcast { root, used: RankUse::Alike }, DType::U8, 100_000), root, &mut bytes)
}

pub fn run(case: &str) {
    let (rank, size) = place();
    let last = rank + 1 == size;
    match case {
        "functions" => {
            let on = opened(20_000);
            functions::all(&on);
            said("all right");
        }
        "again" => {
            // Opened twice, one after the other and side by side.
            drop(opened(20_000));
            let (a, b) = (opened(20_000), opened(20_000));
            let side = thread::spawn(move || (0..50).for_each(|i| sum(&*b, DType::F32, 1 + 3_000 * (i % 7)).unwrap()));
            (0..50).for_each(|i| sum(&*a, DType::F64, 1 + 2_000 * (i % 7)).unwrap());
            side.join().unwrap();
            said("all right");
        }
        "split" => split(&opened(20_000)),
        "idle" => {
            // A rank that works on for longer than the timeout while the others have left: they are still there at its end.
            let on = opened(4_000);
            let mut processes = vec![[0u8; 4]; size];
            let mut blocks: Vec<&mut [u8]> = processes.iter_mut().map(|id| &mut id[..]).collect();
            let gather = call(&*on, CollectiveKind::AllGather { used: RankUse::Alike }, DType::U8, 4);
            on.all_gather(&gather, &std::process::id().to_ne_bytes(), &mut blocks).unwrap();
            drop(on);
            if last {
                thread::sleep(Duration::from_millis(6_000));
                for id in processes {
                    let there = std::process::Command::new("kill").args(["-0", &u32::from_ne_bytes(id).to_string()]).status();
                    assert!(there.unwrap().success(), "a rank has ended before this one");
                }
            }
            said("all right");
        }
        "sent" => {
            // What was sent before a rank left is still received.
            let on = opened(20_000);
            if rank == 0 {
                on.send(&call(&*on, CollectiveKind::Send { to: 1 }, DType::U8, 5_000_000), 1, &bytes(3, 5_000_000)).unwrap();
            } else if rank == 1 {
                thread::sleep(Duration::from_millis(300));
                let mut got = vec![0; 5_000_000];
                on.receive(&call(&*on, CollectiveKind::Receive { from: 0 }, DType::U8, 5_000_000), 0, &mut got).unwrap();
                assert!(got == bytes(3, 5_000_000));
            }
            said("all right");
        }
        "fails" => {
            let on = opened(20_000);
            sum(&*on, DType::F32, 10).unwrap();
            std::process::exit(if last { 3 } else { 0 });
        }
        _ if case.starts_with("differ") => differ(case),
        _ => lost(case),
    }
}
/// Groups of some ranks, in another order, beside the whole; used by threads at once.
fn split(on: &Arc<MpiCommunicator>) {
    let (rank, size) = place();
    let whole = || call(&**on, CollectiveKind::Barrier, DType::U8, 0);
    assert!(matches!(on.split(&whole(), &[0, 0]), Err(ErrorKind::Argument(_))));
    assert!(matches!(on.split(&whole(), &[size]), Err(ErrorKind::Argument(_))));
    let backwards: Vec<usize> = (0..size).rev().collect();
    let back = on.split(&whole(), &backwards).unwrap().unwrap();
    assert_eq!((back.rank(), back.size()), (size - 1 - rank, size));
    functions::moved(&*back, 2);
    let odd: Vec<usize> = (0..size).filter(|r| r % 2 == 1).collect();
    let of_odd = on.split(&whole(), &odd).unwrap();
    assert_eq!(of_odd.is_some(), rank % 2 == 1);
    thread::scope(|scope| {
        if let Some(of_odd) = &of_odd {
            assert_eq!((of_odd.rank(), of_odd.size()), (rank / 2, odd.len()));
            scope.spawn(|| (0..20).for_each(|_| sum(&**of_odd, DType::BF16, 9_001).unwrap()));
        }
        scope.spawn(|| (0..20).for_each(|_| sum(&*back, DType::I32, 30_001).unwrap()));
        (0..20).for_each(|_| sum(&**on, DType::F32, 20_001).unwrap());
    });
    said("all right");
}
/// The last rank calls something else.
fn differ(case: &str) {
    let on = opened(10_000);
    barrier(&*on).unwrap();
    let (rank, size) = place();
    let last = rank + 1 == size;
    let start = Instant::now();
    let done = match case {
        "differ-op" if last => gather(&*on, 10),
        "differ-dtype" if last => sum(&*on, DType::I32, 100_000),
        "differ-shape" if last => sum(&*on, DType::F32, 100_001),
        "differ-order" => {
            if last {
                gather(&*on, 10).and_then(|()| sum(&*on, DType::F32, 100_000))
            } else {
                sum(&*on, DType::F32, 100_000).and_then(|()| gather(&*on, 10))
            }
        }
        "differ-root" => broadcast(&*on, usize::from(last)),
        "differ-fast" => {
            let mut sum = vec![0; 400_000];
            if last {
                on.all_reduce_fast(&call(&*on, SUM, DType::F32, 100_000), ReduceOp::Sum, DType::F32, &[0; 400_000], &mut sum).unwrap()
            } else {
                self::sum(&*on, DType::F32, 100_000)
            }
        }
        // One rank makes a call less, and its program ends in order.
        "differ-few" if last => return said("ended early"),
        "differ-receive" if last => on.receive(&call(&*on, CollectiveKind::Receive { from: 0 }, DType::U8, 10), 0, &mut [0; 10]),
        "differ-length" => {
            // The same call, for which a rank has a block longer than the others expect.
            let n = if last { 11 } else { 10 };
            let mut blocks = vec![vec![0; 10]; size - 1];
            blocks.push(vec![0; n]);
            let mut blocks: Vec<&mut [u8]> = blocks.iter_mut().map(Vec::as_mut_slice).collect();
            on.all_gather(&call(&*on, CollectiveKind::AllGather { used: RankUse::Alike }, DType::U8, 10), &vec![1; n], &mut blocks)
        }
        _ => sum(&*on, DType::F32, 100_000),
    };
    told(start, done);
}
/// Sends a signal to this process.
fn signal(which: &str) {
    let _ = std::process::Command::new("kill").args([which, &std::process::id().to_string()]).status();
    thread::sleep(Duration::from_secs(5));
}
/// The last rank does not come, or ends.
fn lost(case: &str) {
    let (rank, size) = place();
    let last = rank + 1 == size;
    let on = opened(if ["sleep", "stop", "killed"].contains(&case) { 2_000 } else { 10_000 });
    barrier(&*on).unwrap();
    sum(&*on, DType::F32, 200_000).unwrap();
    let start = Instant::now();
    match case {
        "sleep" if last => {
            thread::sleep(Duration::from_millis(4_000));
            told(start, sum(&*on, DType::F32, 200_000));
        }
        "stop" if last => signal("-STOP"),
        "hook" => {
            // Control connections would tell it; the rank itself sleeps.
            if last {
                thread::sleep(Duration::from_millis(1_500));
                std::process::exit(7);
            }
            let at = Instant::now() + Duration::from_millis(300);
            watch_peers(Arc::new(move || (Instant::now() > at).then(|| (size - 1, "its connection is closed".to_string()))));
            told(start, sum(&*on, DType::F32, 200_000));
        }
        "abort" if last => {
            thread::sleep(Duration::from_millis(300));
            on.abort("no memory on this rank");
            told(start, sum(&*on, DType::F32, 10));
        }
        "abort-thread" if last => {
            // From another thread, while this one is in a call that the others do not come to.
            let other = on.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(300));
                other.abort("stopped by the user");
            });
            told(start, barrier(&*on));
        }
        "abort-thread" => {
            // Idle when they are told; the next call fails.
            thread::sleep(Duration::from_millis(800));
            told(Instant::now(), sum(&*on, DType::F32, 10));
        }
        "killed" => {
            // In the midst of calls, without a word.
            for i in 0.. {
                if last && i == 3 {
                    signal("-KILL");
                }
                if let Err(kind) = sum(&*on, DType::F32, 200_000) {
                    // Not with an exit code of its own: Open MPI 5's launcher may end the other survivors at the first one.
                    said(&format!("{} ms: {:?}", start.elapsed().as_millis(), Err::<(), _>(kind)));
                    std::process::exit(0);
                }
            }
        }
        _ => told(start, sum(&*on, DType::F32, 200_000)),
    }
}
