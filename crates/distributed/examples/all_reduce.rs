//! How long an all-reduce takes: `all_reduce RANKS`, of which each is a process that this one starts. Prints bytes and the shortest and
//! median time of a call on rank 0; `all_reduce RANKS threads` does it with threads. Where each rank can have a core (Linux), it is bound to
//! one, as `mpirun` does.
use adamant_distributed::local::{local_threads, open};
use adamant_runtime::{
    DType, Shape, TensorType,
    communicator::{CollectiveCall, Communicator, EngineRequest, ReductionTree},
    op::{CollectiveKind, RankUse, ReduceOp},
};
use std::{
    env,
    process::Command,
    thread,
    time::{Duration, Instant},
};

fn measure(on: &dyn Communicator) {
    let kind = CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike };
    let tree = ReductionTree::of_ranks(ReduceOp::Sum, DType::F32, on.size());
    for kib in [4usize, 64, 1024, 8192, 65536] {
        let n = kib << 10;
        let Ok(shape) = Shape::new(&[n / 4]) else { return };
        let own: Vec<u8> = (0..n / 4).flat_map(|k| (k as f32 + on.rank() as f32).to_ne_bytes()).collect();
        let mut sum = vec![0; n];
        let rounds = (400_000 / kib / on.size()).clamp(8, 20_000);
        let mut times = Vec::with_capacity(rounds);
        for round in 0..rounds + rounds / 10 {
            let call = CollectiveCall::next(on, kind, TensorType { shape, dtype: DType::F32 }, None);
            let start = Instant::now();
            if let Err(e) = on.all_reduce(&call, &tree, &own, &mut sum) {
                eprintln!("rank {}: {e}", on.rank());
                return;
            }
            if round >= rounds / 10 {
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
        times.sort_by(f64::total_cmp);
        if on.rank() == 0 {
            let median = times[times.len() / 2];
            println!("{kib:6} KiB: shortest {:9.2} us, median {median:9.2} us, {:6.2} GB/s", times[0], n as f64 / median / 1e3);
        }
    }
}
#[cfg(target_os = "linux")]
fn bind(rank: usize, size: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(all) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect();
    if size > cores.len() {
        return;
    }
    let mut own = CpuSet::new();
    own.set(cores[rank]);
    if let Err(e) = sched_setaffinity(None, &own) {
        eprintln!("rank {rank} is not bound: {e}");
    }
}
#[cfg(not(target_os = "linux"))]
fn bind(_: usize, _: usize) {}
fn main() {
    let given: Vec<String> = env::args().collect();
    let size: usize = given.get(1).and_then(|n| n.parse().ok()).unwrap_or(2);
    if given.get(2).is_some_and(|how| how == "threads") {
        match local_threads(size) {
            Ok(ranks) => thread::scope(|scope| ranks.into_iter().for_each(|on| _ = scope.spawn(move || measure(&*on)))),
            Err(e) => eprintln!("{e}"),
        }
        return;
    }
    if let Some(rank) = env::var("RANK").ok().and_then(|rank| rank.parse().ok()) {
        let port = env::var("MASTER_PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(29_541);
        let meeting = Some(("127.0.0.1".into(), port));
        let request =
            EngineRequest { rank, size, local: (size, rank), epoch: 0, meeting, listener: None, token: None, bind: None, timeout: Duration::from_secs(20) };
        bind(rank, size);
        match open(&request) {
            Ok(on) => measure(&*on),
            Err(e) => eprintln!("rank {rank}: {e}"),
        }
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    let ranks: Vec<_> = (0..size).filter_map(|rank| Command::new(&program).arg(size.to_string()).env("RANK", rank.to_string()).spawn().ok()).collect();
    for mut rank in ranks {
        if let Err(e) = rank.wait() {
            eprintln!("{e}");
        }
    }
}
