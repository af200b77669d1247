//! A rank that adds as it is told, of either engine: what `cargo xtask distributed collectives` starts and measures, beside the peers.
//!
//! `reduce_rank local|mpi PORT CORE` opens its group by the variables of a launcher, binds itself to the core, and connects to the port. It says its
//! number, and answers each line `WAY BYTES ROUNDS SEED` by one: `ok SECONDS` for all of the rounds together, or `error WHY`. The first time that a
//! way and a length are asked for, the sum is judged instead: in tree order to the bit, else to rounding; both against sums
//! that are worked out here. Ways: `tree`, `fast`, and under MPI `raw`.
use adamant_distributed::place::RankPlace;
use adamant_engine_mpi::{MpiCommunicator, open_group};
use adamant_ir::{
    DType, ErrorKind, Shape, TensorType,
    op::{CollectiveKind, RankUse, ReduceOp},
};
use adamant_runtime::communicator::{CollectiveCall, Communicator, ReductionTree};
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    sync::Arc,
    time::Instant,
};

const KIND: CollectiveKind = CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike };

/// A number that a rank brings: of many magnitudes, so that hardly any order of additions is like another.
fn element(rank: usize, k: usize, seed: u64) -> f32 {
    let mut x = (k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (rank as u64) << 32 ^ seed << 48;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    ((x >> 40) as f32 / (1 << 23) as f32 - 1.0) * (1u32 << (x % 12)) as f32
}
/// Added in halves, of which the left one is a power of two.
fn halved(values: &[f32]) -> f32 {
    if let [one] = values {
        return *one;
    }
    let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
    halved(left) + halved(right)
}
struct ReduceRank {
    on: Arc<dyn Communicator>,
    mpi: Option<Arc<MpiCommunicator>>,
    judged: BTreeSet<(String, usize)>,
    own: Vec<u8>,
    sum: Vec<u8>,
}
impl ReduceRank {
    fn add(&mut self, way: &str) -> Result<(), ErrorKind> {
        let ReduceRank { on, mpi, own, sum, .. } = self;
        let made = TensorType { shape: Shape::new(&[own.len() / 4])?, dtype: DType::F32 };
        let call = CollectiveCall::next(&**on, KIND, made, None);
        match (way, mpi) {
            ("tree", _) => on.all_reduce(&call, &ReductionTree::of_ranks(ReduceOp::Sum, DType::F32, on.size()), own, sum),
            ("raw", Some(mpi)) => mpi.raw_all_reduce(DType::F32, own, sum),
            ("fast", _) => {
                let none = || Err(ErrorKind::Unsupported { backend: on.engine().into(), what: "a sum of its own".into() });
                on.all_reduce_fast(&call, ReduceOp::Sum, DType::F32, own, sum).unwrap_or_else(none)
            }
            _ => Err(ErrorKind::Argument(format!("`{way}` is no way"))),
        }
    }
    fn fill(&mut self, bytes: usize, seed: u64) {
        if self.own.len() != bytes {
            let rank = self.on.rank();
            self.own = (0..bytes / 4).flat_map(|k| element(rank, k, seed).to_ne_bytes()).collect();
            self.sum = vec![0xee; bytes];
        }
    }
    fn judge(&mut self, way: &str, seed: u64) -> Result<(), String> {
        self.sum.fill(0xee);
        self.add(way).map_err(|e| e.to_string())?;
        for (k, got) in self.sum.as_chunks::<4>().0.iter().enumerate() {
            let brought: Vec<f32> = (0..self.on.size()).map(|rank| element(rank, k, seed)).collect();
            let (got, want) = (f32::from_ne_bytes(*got), halved(&brought));
            let scale: f32 = brought.iter().map(|x| x.abs()).sum();
            let is_right = if way == "tree" { got.to_bits() == want.to_bits() } else { (got - want).abs() <= 1e-6 * scale };
            if !is_right {
                return Err(format!("{way}: element {k} of {} is {got:?}, not {want:?}", self.sum.len() / 4));
            }
        }
        Ok(())
    }
    fn answer(&mut self, line: &str) -> Result<f64, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [way, bytes, rounds, seed] = words[..] else { return Err(format!("`{line}` is no task")) };
        let number = |text: &str| text.parse::<u64>().map_err(|e| format!("`{text}`: {e}"));
        let (bytes, rounds, seed) = (number(bytes)? as usize, number(rounds)?, number(seed)?);
        self.fill(bytes, seed);
        if self.judged.insert((way.into(), bytes)) {
            return self.judge(way, seed).map(|()| 0.0);
        }
        // All begin together, after a round that warms.
        self.add(way).map_err(|e| e.to_string())?;
        let start = Instant::now();
        for _ in 0..rounds {
            self.add(way).map_err(|e| e.to_string())?;
        }
        Ok(start.elapsed().as_secs_f64())
    }
}
#[cfg(target_os = "linux")]
fn bind(core: usize) {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut own = CpuSet::new();
    own.set(core);
    if let Err(e) = sched_setaffinity(None, &own) {
        eprintln!("not bound to core {core}: {e}");
    }
}
#[cfg(not(target_os = "linux"))]
fn bind(_: usize) {}
fn run() -> Result<(), String> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [engine, port, cores] = &given[..] else { return Err("reduce_rank local|mpi PORT CORES".into()) };
    let port: u16 = port.parse().map_err(|e| format!("{port}: {e}"))?;
    let place = RankPlace::from_environment().map_err(|e| e.to_string())?;
    let cores: Vec<usize> = cores.split(',').filter_map(|core| core.parse().ok()).collect();
    if let Some(core) = cores.get(place.rank % cores.len().max(1)) {
        bind(*core);
    }
    let request = place.to_request();
    let (on, mpi) = match engine.as_str() {
        "mpi" => {
            let mpi = open_group(&request).map_err(|e| e.to_string())?;
            (mpi.clone() as Arc<dyn Communicator>, Some(mpi))
        }
        _ => (adamant_distributed::local::open(&request).map_err(|e| e.to_string())?, None),
    };
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
    writeln!(stream, "{}", place.rank).map_err(|e| e.to_string())?;
    let mut rank = ReduceRank { on, mpi, judged: BTreeSet::new(), own: Vec::new(), sum: Vec::new() };
    for line in BufReader::new(stream.try_clone().map_err(|e| e.to_string())?).lines() {
        let said = match rank.answer(&line.map_err(|e| e.to_string())?) {
            Ok(seconds) => format!("ok {seconds:e}"),
            Err(why) => format!("error {why}"),
        };
        writeln!(stream, "{said}").map_err(|e| e.to_string())?;
    }
    Ok(())
}
fn main() {
    if let Err(e) = run() {
        eprintln!("{e}");
        std::process::exit(1);
    }
}
