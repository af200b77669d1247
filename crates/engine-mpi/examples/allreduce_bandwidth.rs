//! What sums over ranks cost on an MPI: our tree, MPI's sum in our fast mode, and `MPI_Allreduce` itself, in turns.
//!
//! `mpirun -n 2 allreduce_bandwidth` prints a line a length. Each is judged right before it is timed: the tree's sum to the bit, the
//! other two to rounding. A bandwidth is the tensor's bytes over the median time of the slowest rank.
use adamant_engine_mpi::{MpiCommunicator, open_group};
use adamant_ir::{
    DType, ErrorKind, Shape, TensorType,
    op::{CollectiveKind, RankUse, ReduceOp},
};
use adamant_runtime::communicator::{CollectiveCall, Communicator, EngineRequest, ReductionTree};
use std::time::{Duration, Instant};

const KIND: CollectiveKind = CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike };
/// How long a length is measured.
const SECONDS: f64 = 1.5;
const WAYS: [&str; 3] = ["tree", "fast", "raw"];

fn number(names: [&str; 2]) -> Option<usize> {
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}
/// An element that a rank brings: small integers and halves, whose sums are exact in any order.
fn element(rank: usize, i: usize) -> f32 {
    ((i * 7 + rank * 13) % 1001) as f32 * 0.5
}
fn run(on: &MpiCommunicator, way: usize, own: &[u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
    let made = TensorType { shape: Shape::new(&[own.len() / 4])?, dtype: DType::F32 };
    let call = CollectiveCall::next(on, KIND, made, None);
    match way {
        0 => on.all_reduce(&call, &ReductionTree::of_ranks(ReduceOp::Sum, DType::F32, on.size()), own, sum),
        1 => on.all_reduce_fast(&call, ReduceOp::Sum, DType::F32, own, sum).unwrap_or_else(|| Err(ErrorKind::Internal("no sum of f32".into()))),
        _ => on.raw_all_reduce(DType::F32, own, sum),
    }
}
/// The longest time that any rank took.
fn of_all(on: &MpiCommunicator, took: Duration) -> Result<f64, ErrorKind> {
    let made = TensorType { shape: Shape::new(&[8])?, dtype: DType::U8 };
    let call = CollectiveCall::next(on, CollectiveKind::AllGather { used: RankUse::Alike }, made, None);
    let mut times = vec![[0u8; 8]; on.size()];
    on.all_gather(&call, &took.as_secs_f64().to_ne_bytes(), &mut times.iter_mut().map(|t| &mut t[..]).collect::<Vec<_>>())?;
    Ok(times.into_iter().map(f64::from_ne_bytes).fold(0.0, f64::max))
}
fn measure(on: &MpiCommunicator, bytes: usize) -> Result<(), ErrorKind> {
    let own: Vec<u8> = (0..bytes / 4).flat_map(|i| element(on.rank(), i).to_ne_bytes()).collect();
    let mut sum = vec![0u8; bytes];
    for way in 0..WAYS.len() {
        sum.fill(0xee);
        run(on, way, &own, &mut sum)?;
        for (i, got) in sum.chunks_exact(4).enumerate() {
            let expected: f32 = (0..on.size()).map(|rank| element(rank, i)).sum();
            let got = got.try_into().map_or(f32::NAN, f32::from_ne_bytes);
            if got != expected {
                return Err(ErrorKind::Internal(format!("{}: element {i} is {got}, not {expected}", WAYS[way])));
            }
        }
    }
    let mut times = vec![Vec::new(); WAYS.len()];
    // All ranks know the same times, so they end in the same round.
    let (mut rounds, mut spent) = (0, 0.0);
    while rounds < 3 * WAYS.len() || (spent < SECONDS && rounds < 3_000) {
        let round = rounds;
        rounds += 1;
        // Each way is first as often as any other.
        for k in 0..WAYS.len() {
            let way = (round + k) % WAYS.len();
            on.raw_barrier()?;
            let start = Instant::now();
            run(on, way, &own, &mut sum)?;
            let took = of_all(on, start.elapsed())?;
            spent += took;
            times[way].push(took);
        }
    }
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect();
    if on.rank() == 0 {
        let told = WAYS.iter().zip(&medians).map(|(way, s)| format!("{way} {:9.1} us {:7.3} GB/s", s * 1e6, bytes as f64 / s / 1e9));
        let best: Vec<f64> = times.iter().map(|times| times.first().copied().unwrap_or_default()).collect();
        let ratios = |s: &[f64]| format!("tree/raw {:.2}, fast/raw {:.2}", s[2] / s[0], s[2] / s[1]);
        let ratios = format!("{}; of the best rounds {}", ratios(&medians), ratios(&best));
        println!("{:>9} B on {} ranks: {} | {ratios} ({rounds} rounds)", bytes, on.size(), told.collect::<Vec<_>>().join(", "));
    }
    Ok(())
}
fn main() -> Result<(), String> {
    let rank = number(["OMPI_COMM_WORLD_RANK", "PMI_RANK"]).unwrap_or(0);
    let size = number(["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]).unwrap_or(1);
    let timeout = Duration::from_secs(60);
    let request = EngineRequest { rank, size, local: (size, rank), epoch: 0, meeting: None, listener: None, token: None, bind: None, timeout };
    let on = open_group(&request).map_err(|e| format!("{e:?}"))?;
    if rank == 0 {
        println!("{}", on.library());
    }
    for bytes in [4 << 10, 1 << 20, 8 << 20, 64 << 20] {
        measure(&on, bytes).map_err(|e| format!("{e:?}"))?;
    }
    Ok(())
}
