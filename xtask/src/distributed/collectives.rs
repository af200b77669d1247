//! How fast ranks of one host add, beside the peers: the engine `local` by its tree and as pieces come, `MPI_Allreduce` of an MPI itself, the
//! engine `mpi` on it, and Gloo through PyTorch. All are there at once, each rank bound to a core alike; they are asked in turns, so that
//! what the machine does otherwise meets all of them; and each is judged before it is timed.
use super::{
    job::{JobMeeting, RankJob},
    rank::RankStarter,
};
use crate::torture::{CaseDraw, TortureClaim, claim};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// Options of `collectives`.
#[derive(clap::Args)]
pub struct CollectivesOptions {
    /// How many ranks
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4])]
    ranks: Vec<usize>,
    /// Lengths in KiB
    #[arg(long, value_delimiter = ',', default_values_t = [4, 1024, 8192, 65536])]
    kib: Vec<usize>,
    /// How often each is asked, in turns
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// How often a target that is missed is looked at again
    #[arg(long, default_value_t = 3)]
    retries: usize,
    /// The MPI that is measured: its launcher, or LAUNCHER=LIBRARY
    #[arg(long, default_value = "mpirun")]
    mpi: String,
    /// A Python with PyTorch, for Gloo
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// The program that ranks are, instead of building it: the example reduce_rank of adamant-engine-mpi
    #[arg(long, value_name = "PATH")]
    rank_program: Option<PathBuf>,
    /// One JSON document instead of text
    #[arg(long)]
    pub(super) json: bool,
}
const GLOO: &str = include_str!("collectives/gloo.py");
/// So long a rank may take for what it is asked, and to be there.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that are added in one go of a round, about.
const AT_ONCE: usize = 128 << 20;

/// One who adds: its ranks, each behind a connection.
struct Contestant {
    name: &'static str,
    ranks: Vec<BufReader<TcpStream>>,
    _job: RankJob,
}
/// A contestant and one of its ways.
type WayOf = (&'static str, &'static str);
const WAYS: [WayOf; 6] = [("local", "tree"), ("local", "fast"), ("mpi", "raw"), ("mpi", "fast"), ("mpi", "tree"), ("gloo", "gloo")];
/// Seconds of an all-reduce, by length and who added.
type Times = BTreeMap<(usize, WayOf), Vec<f64>>;

/// What is promised of lengths from one on to another: how often as fast one is as the fastest of others, at least.
struct SpeedTarget {
    text: &'static str,
    kib: std::ops::RangeInclusive<usize>,
    who: WayOf,
    than: &'static [WayOf],
    least: f64,
}
const TARGETS: [SpeedTarget; 7] = [
    SpeedTarget {
        text: "local in tree order, from 8 MiB: at least 2.5 times the bandwidth of MPI_Allreduce",
        kib: 8192..=usize::MAX,
        who: ("local", "tree"),
        than: &[("mpi", "raw")],
        least: 2.5,
    },
    SpeedTarget {
        text: "local in tree order, from 8 MiB: at least 1.5 times that of Gloo",
        kib: 8192..=usize::MAX,
        who: ("local", "tree"),
        than: &[("gloo", "gloo")],
        least: 1.5,
    },
    SpeedTarget {
        text: "local in tree order, 1 MiB: at least 1.3 times that of the better of both",
        kib: 1024..=1024,
        who: ("local", "tree"),
        than: &[("mpi", "raw"), ("gloo", "gloo")],
        least: 1.3,
    },
    SpeedTarget {
        text: "local in tree order, 4 KiB: at most the time of the better of both",
        kib: 4..=4,
        who: ("local", "tree"),
        than: &[("mpi", "raw"), ("gloo", "gloo")],
        least: 1.0,
    },
    SpeedTarget {
        text: "local in tree order: at most 1.1 times as long as adding what comes first",
        kib: 4..=usize::MAX,
        who: ("local", "tree"),
        than: &[("local", "fast")],
        least: 1.0 / 1.1,
    },
    SpeedTarget {
        text: "mpi, fast, from 8 MiB: at least 0.95 times the bandwidth of MPI_Allreduce",
        kib: 8192..=usize::MAX,
        who: ("mpi", "fast"),
        than: &[("mpi", "raw")],
        least: 0.95,
    },
    SpeedTarget {
        text: "mpi in tree order, from 8 MiB: at least 0.7 times that",
        kib: 8192..=usize::MAX,
        who: ("mpi", "tree"),
        than: &[("mpi", "raw")],
        least: 0.7,
    },
];

pub fn claims(options: &CollectivesOptions) -> Vec<TortureClaim> {
    let mut claims = Vec::new();
    for ranks in &options.ranks {
        claims.extend(of_ranks(options, *ranks));
    }
    claims
}
fn of_ranks(options: &CollectivesOptions, ranks: usize) -> Vec<TortureClaim> {
    let cores = cores();
    let shared = if ranks > cores.len() { format!(", which share {} cores", cores.len()) } else { String::new() };
    let mut ring = Vec::new();
    let mut skipped = Vec::new();
    let place = tempfile::tempdir();
    let there = claim(&format!("{ranks} ranks{shared}: every contestant adds right, in tree order to the bit"), |claim| {
        let place = place.as_ref().map_err(|e| e.to_string())?;
        let program = options.rank_program.clone().map_or_else(rank_program, Ok)?;
        for name in ["local", "mpi", "gloo"] {
            match Contestant::start(name, options, &program, ranks, &cores, place.path()) {
                Ok(contestant) => ring.push(contestant),
                Err(why) if name == "local" => return Err(why),
                Err(why) => skipped.push((name, why)),
            }
        }
        for kib in &options.kib {
            for (name, way) in WAYS {
                let Some(contestant) = ring.iter_mut().find(|c| c.name == name) else { continue };
                match contestant.ask(way, kib << 10, 0, *kib as u64) {
                    Ok(_) => claim.count(Ok(())),
                    Err(why) => claim.count(Err(format!("{name}, {way}, {kib} KiB: {why}"))),
                }
            }
        }
        claim.see(serde_json::json!({ "cores": cores, "skipped": skipped.iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>() }));
        Ok(())
    });
    let mut claims = vec![there];
    claims.extend(skipped.iter().map(|(name, why)| TortureClaim::skipped(&format!("{ranks} ranks: {name}"), why.clone())));
    let mut times = Times::new();
    for kib in &options.kib {
        if let Err(why) = sweep(&mut ring, *kib, options.rounds, &mut times) {
            claims.push(claim(&format!("{ranks} ranks, {kib} KiB"), |_| Err(why)));
            return claims;
        }
    }
    for target in &TARGETS {
        if !target.than.iter().chain([&target.who]).all(|(name, _)| ring.iter().any(|c| c.name == *name)) {
            continue;
        }
        claims.push(claim(&format!("{ranks} ranks{shared}: {}", target.text), |claim| {
            let mut seen = BTreeMap::new();
            for kib in options.kib.iter().filter(|kib| target.kib.contains(kib)) {
                let mut ratios = Vec::new();
                for attempt in 0..=options.retries {
                    if attempt > 0 {
                        // What else the machine does may have met one of them alone: all are looked at again.
                        let mut again = Times::new();
                        sweep(&mut ring, *kib, options.rounds, &mut again)?;
                        times.append(&mut again);
                    }
                    ratios.push((target.ratio(&times, *kib) * 100.0).round() / 100.0);
                    if ratios.last().is_some_and(|ratio| *ratio >= target.least) {
                        break;
                    }
                }
                let best = ratios.iter().copied().fold(0.0, f64::max);
                claim.count(if best >= target.least { Ok(()) } else { Err(format!("{kib} KiB: {ratios:?} times, not {:.2}", target.least)) });
                seen.insert(format!("{kib} KiB"), ratios);
            }
            if seen.is_empty() {
                claim.count(Ok(()));
            }
            claim.see(serde_json::json!(seen));
            Ok(())
        }));
    }
    claims.push(table(ranks, &times));
    claims
}
impl SpeedTarget {
    fn ratio(&self, times: &Times, kib: usize) -> f64 {
        let of = |who: WayOf| times.get(&(kib, who)).map_or(f64::NAN, |times| median(times));
        self.than.iter().map(|other| of(*other)).fold(f64::INFINITY, f64::min) / of(self.who)
    }
}
fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
/// What was seen, to be read: microseconds and GB/s of each.
fn table(ranks: usize, times: &Times) -> TortureClaim {
    claim(&format!("{ranks} ranks: what was measured, in microseconds and GB/s of the median"), |claim| {
        let mut seen = BTreeMap::new();
        for ((kib, (name, way)), times) in times {
            let seconds = median(times);
            let told = format!("{:.1} us, {:.2} GB/s", seconds * 1e6, (kib << 10) as f64 / seconds / 1e9);
            seen.insert(format!("{kib:>6} KiB {name} {way}"), told);
            claim.count(Ok(()));
        }
        claim.see(serde_json::json!(seen));
        Ok(())
    })
}
/// Asks all of them in turns, for one length.
fn sweep(ring: &mut [Contestant], kib: usize, rounds: usize, times: &mut Times) -> Result<(), String> {
    let bytes = kib << 10;
    let at_once = (AT_ONCE / bytes / 4).clamp(1, 400);
    let mut draw = CaseDraw::new(kib as u64);
    for _ in 0..rounds {
        // None is always behind the same one, which leaves it its own numbers in the cache, or its threads at work.
        let mut order = WAYS;
        (1..order.len()).for_each(|k| order.swap(k, draw.below(k as u64 + 1) as usize));
        for (name, way) in order {
            let Some(contestant) = ring.iter_mut().find(|c| c.name == name) else { continue };
            let seconds = contestant.ask(way, bytes, at_once, kib as u64).map_err(|e| format!("{name}, {way}: {e}"))?;
            times.entry((kib, (name, way))).or_default().push(seconds / at_once as f64);
        }
    }
    Ok(())
}
impl Contestant {
    /// Starts its ranks, which connect.
    fn start(name: &'static str, options: &CollectivesOptions, program: &Path, ranks: usize, cores: &[usize], place: &Path) -> Result<Contestant, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
        let port = listener.local_addr().map_err(|e| e.to_string())?.port().to_string();
        let cores = cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let mut job = RankJob::default();
        let meeting = JobMeeting::new(place, "local", PATIENCE)?;
        match name {
            "mpi" => {
                let mut command = RankStarter::mpi(&options.mpi)?.command(ranks).ok_or("no launcher")?;
                command.arg(program).args(["mpi", &port, &cores]);
                job.begin(command)?;
            }
            _ => {
                let script = place.join("gloo.py");
                if name == "gloo" {
                    std::fs::write(&script, GLOO).map_err(|e| e.to_string())?;
                    has_gloo(&options.python)?;
                }
                for rank in 0..ranks {
                    let mut command = if name == "gloo" { Command::new(&options.python) } else { Command::new(program) };
                    if name == "gloo" {
                        command.arg(&script)
                    } else {
                        command.arg("local")
                    };
                    command.args([&port, &cores]).envs(meeting.variables(rank, ranks)).env("OMP_NUM_THREADS", "1");
                    job.begin(command)?;
                }
            }
        }
        let ranks = connections(&listener, ranks, &mut job)?;
        Ok(Contestant { name, ranks, _job: job })
    }
    /// Seconds of so many sums on the slowest rank.
    fn ask(&mut self, way: &str, bytes: usize, rounds: usize, seed: u64) -> Result<f64, String> {
        for rank in &mut self.ranks {
            writeln!(rank.get_mut(), "{way} {bytes} {rounds} {seed}").map_err(|e| e.to_string())?;
        }
        let (mut slowest, mut failed) = (0.0f64, None);
        for (rank, stream) in self.ranks.iter_mut().enumerate() {
            let mut line = String::new();
            stream.read_line(&mut line).map_err(|e| format!("rank {rank} does not answer: {e}"))?;
            match line.trim().strip_prefix("ok ").and_then(|seconds| seconds.parse::<f64>().ok()) {
                Some(seconds) => slowest = slowest.max(seconds),
                None => failed = Some(format!("rank {rank}: {}", line.trim().trim_start_matches("error "))),
            }
        }
        failed.map_or(Ok(slowest), Err)
    }
}
fn has_gloo(python: &Path) -> Result<(), String> {
    let asked = Command::new(python).args(["-c", "import torch.distributed as d; assert d.is_gloo_available()"]).output();
    let is_there = asked.as_ref().is_ok_and(|output| output.status.success());
    if is_there { Ok(()) } else { Err(format!("{} has no PyTorch with Gloo: name one that has by --python", python.display())) }
}
/// The ranks that connect, in their order.
fn connections(listener: &TcpListener, ranks: usize, job: &mut RankJob) -> Result<Vec<BufReader<TcpStream>>, String> {
    listener.set_nonblocking(true).map_err(|e| e.to_string())?;
    let mut streams: BTreeMap<usize, BufReader<TcpStream>> = BTreeMap::new();
    let until = Instant::now() + PATIENCE;
    while streams.len() < ranks {
        match listener.accept() {
            Ok((stream, _)) => {
                let ready = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(PATIENCE))).and_then(|()| stream.set_nodelay(true));
                ready.map_err(|e| e.to_string())?;
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                stream.read_line(&mut line).map_err(|e| e.to_string())?;
                streams.insert(line.trim().parse().map_err(|e| format!("`{}` is no rank: {e}", line.trim()))?, stream);
            }
            Err(_) if (0..job.len()).any(|rank| job.is_over(rank)) => return Err(format!("a rank has ended: {}", job.last_words())),
            Err(_) if Instant::now() > until => return Err("the ranks do not come".into()),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    Ok(streams.into_values().collect())
}
/// The cores that this process may run on.
fn cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return vec![0] };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}
/// The ranks' program in release, built where cargo puts it.
fn rank_program() -> Result<PathBuf, String> {
    let mut command = chores::workspace::cargo(&["build", "--quiet", "--release", "--package", "adamant-engine-mpi", "--example", "reduce_rank"]);
    let status = command.status().map_err(|e| format!("cargo: {e}"))?;
    let path = chores::workspace::target().join("release/examples/reduce_rank");
    if status.success() && path.is_file() { Ok(path) } else { Err(format!("{} cannot be built", path.display())) }
}
