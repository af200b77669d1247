//! Starts the cases under each MPI's launcher, and judges what the ranks say.
use std::{
    io::Read,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The variable that tells a rank what to do.
pub const CASE: &str = "ADAMANT_MPI_CASE";
/// The variable that names the MPIs.
const MPIS: &str = "ADAMANT_TEST_MPI";
/// So long a case may take.
const LIMIT: Duration = Duration::from_secs(100);

struct Mpi {
    launcher: PathBuf,
    library: Option<String>,
}
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}
impl Ended {
    /// What each rank said, in the order of the ranks.
    fn said(&self) -> Vec<(usize, String)> {
        let lines = self.out.lines().filter_map(|line| line.strip_prefix("RANK ")?.split_once(": "));
        let mut said: Vec<(usize, String)> = lines.filter_map(|(rank, what)| Some((rank.parse().ok()?, what.to_string()))).collect();
        said.sort();
        said
    }
}
/// A launcher whose ranks end with it.
struct Running(Child);
impl Drop for Running {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = Command::new("kill").args(["-TERM", "--", &group]).status();
            let end = Instant::now() + Duration::from_secs(3);
            while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < end {
                thread::sleep(Duration::from_millis(20));
            }
        }
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}
impl Mpi {
    fn run(&self, case: &str, ranks: usize, more: &[&str]) -> Ended {
        let mut command = Command::new(&self.launcher);
        let is_open_mpi = self.is_open_mpi();
        command.args(is_open_mpi.then_some("--oversubscribe")).args(more).args(["-n", &ranks.to_string()]);
        command.arg(std::env::current_exe().unwrap()).env(CASE, case).process_group(0);
        // Tests run as root in a container.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        if let Some(library) = &self.library {
            command.env("ADAMANT_MPI_LIBRARY", library);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running(command.spawn().unwrap());
        let read = |mut from: Box<dyn Read + Send>| {
            thread::spawn(move || {
                let mut text = Vec::new();
                let _ = from.read_to_end(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            })
        };
        let out = read(Box::new(running.0.stdout.take().unwrap()));
        let err = read(Box::new(running.0.stderr.take().unwrap()));
        let end = Instant::now() + LIMIT;
        let code = loop {
            match running.0.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if Instant::now() > end => break Some(124),
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        drop(running);
        Ended { code, out: out.join().unwrap(), err: err.join().unwrap() }
    }
    fn version(&self) -> String {
        let told = Command::new(&self.launcher).arg("--version").output();
        told.map_or(String::new(), |told| String::from_utf8_lossy(&told.stdout).into_owned())
    }
    fn is_open_mpi(&self) -> bool {
        self.version().contains("Open MPI")
    }
    /// The options that let ranks go on when one of them is dead. None of MPICH's: with `-disable-auto-cleanup` its launcher
    /// sends the others SIGUSR1, and at times fails itself (5.0.2).
    fn survivors_go_on(&self) -> Option<&'static [&'static str]> {
        let version = self.version();
        if version.contains("(Open MPI) 4") {
            return Some(&["--enable-recovery", "--mca", "orte_abort_on_non_zero_status", "0"]);
        }
        version.contains("Open MPI").then_some(&["--with-ft", "ulfm", "--enable-recovery"])
    }
}
fn mpis() -> Vec<Mpi> {
    let named = std::env::var(MPIS).unwrap_or_default();
    let named = named.split(';').filter(|mpi| !mpi.is_empty());
    let mut mpis: Vec<Mpi> = named
        .map(|mpi| match mpi.split_once('=') {
            Some((launcher, library)) => Mpi { launcher: launcher.into(), library: Some(library.into()) },
            None => Mpi { launcher: mpi.into(), library: None },
        })
        .collect();
    if mpis.is_empty() {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join("mpirun")).find(|file| file.is_file());
        mpis.extend(found.map(|launcher| Mpi { launcher, library: None }));
    }
    mpis
}

/// What the ranks of a case must say, where the last one is the one that does something else.
enum Expect {
    /// all say this, and the launcher ends with 0 and prints nothing of its own
    AllRight,
    /// each rank but those that end before they can says something with all of these words, within so many milliseconds
    Errors { words: fn(rank: usize, size: usize) -> Vec<String>, ms: (u128, u128), silent_last: bool },
    /// as errors, of survivors of a rank that was killed: under a launcher that lets them speak
    Survivors { words: fn(rank: usize, size: usize) -> Vec<String>, ms: (u128, u128) },
    /// the launcher's exit code
    Code(i32),
}
use Expect::{AllRight, Code, Errors, Survivors};
fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}
const SUM: &str = "all_reduce (sum) of f32 [100000]";
/// Both calls, whichever rank says it.
fn both(other: &'static str) -> Vec<String> {
    words(&["RanksDiffer", SUM, other])
}
/// The rank that is lost, on the others.
fn peer_lost(rank: usize, size: usize) -> Vec<String> {
    if rank + 1 == size { words(&["Err("]) } else { vec!["PeerLost".into(), format!("rank: {}", size - 1)] }
}
/// The cases: name, numbers of ranks, what is expected.
fn cases() -> Vec<(&'static str, &'static [usize], Expect)> {
    let differ = |words| Errors { words, ms: (0, 2_000), silent_last: false };
    vec![
        ("functions", &[1, 2, 3, 4], AllRight),
        ("again", &[1, 2, 3], AllRight),
        ("split", &[1, 2, 3, 4], AllRight),
        ("idle", &[2], AllRight),
        ("sent", &[2], AllRight),
        ("fails", &[2], Code(3)),
        ("differ-op", &[2, 3], differ(|_, _| both("all_gather of u8 [10]"))),
        ("differ-dtype", &[2, 3], differ(|_, _| both("all_reduce (sum) of i32 [100000]"))),
        ("differ-shape", &[2, 3], differ(|_, _| both("all_reduce (sum) of f32 [100001]"))),
        ("differ-order", &[2, 3], differ(|_, _| both("all_gather of u8 [10]"))),
        ("differ-root", &[2, 3], differ(|_, _| words(&["RanksDiffer", "broadcast from rank 0", "broadcast from rank 1"]))),
        ("differ-fast", &[2, 3], differ(|_, _| words(&["RanksDiffer", SUM]))),
        ("differ-length", &[2, 3], differ(|_, _| words(&["RanksDiffer", "all_gather of u8 [10]", "bytes where it"]))),
        ("differ-few", &[2, 3], Errors { words: |_, _| words(&["RanksDiffer", SUM, "let go of the group or ended"]), ms: (0, 2_000), silent_last: true }),
        ("differ-receive", &[2], differ(|_, _| words(&["RanksDiffer", SUM, "receive from rank 0 of u8 [10]"]))),
        ("sleep", &[2, 3], Errors { words: peer_lost, ms: (1_800, 2_200), silent_last: true }),
        ("stop", &[2, 3], Errors { words: peer_lost, ms: (1_800, 2_200), silent_last: true }),
        ("killed", &[2, 3], Survivors { words: peer_lost, ms: (0, 3_000) }),
        ("hook", &[2, 3], Errors { words: peer_lost, ms: (200, 500), silent_last: true }),
        ("abort", &[2, 3], Errors { words: |_, _| words(&["PeerFailed", "no memory on this rank"]), ms: (0, 500), silent_last: false }),
        ("abort-thread", &[2, 3], Errors { words: |_, _| words(&["PeerFailed", "stopped by the user"]), ms: (0, 500), silent_last: false }),
    ]
}
fn judged(ended: &Ended, expect: &Expect, ranks: usize) -> Result<(), String> {
    let said = ended.said();
    match expect {
        AllRight => {
            if ended.code != Some(0) {
                return Err(format!("exit code {:?}", ended.code));
            }
            if said != (0..ranks).map(|rank| (rank, "all right".to_string())).collect::<Vec<_>>() {
                return Err("not every rank says that it is all right".into());
            }
            (ended.err.trim().is_empty()).then_some(()).ok_or_else(|| "it is not quiet".into())
        }
        Code(code) => (ended.code == Some(*code)).then_some(()).ok_or_else(|| format!("exit code {:?}, not {code}", ended.code)),
        Errors { words, ms, silent_last } => {
            said_all(&said, ranks, ranks - usize::from(*silent_last), *words, *ms)?;
            (ended.code != Some(0)).then_some(()).ok_or_else(|| "it ended as if nothing had happened".into())
        }
        Survivors { words, ms } => said_all(&said, ranks, ranks - 1, *words, *ms),
    }
}
/// The first so many ranks say all words, within so many milliseconds.
fn said_all(said: &[(usize, String)], ranks: usize, first: usize, words: fn(usize, usize) -> Vec<String>, ms: (u128, u128)) -> Result<(), String> {
    for rank in 0..first {
        let (_, what) = said.iter().find(|(from, _)| *from == rank).ok_or_else(|| format!("rank {rank} says nothing"))?;
        let (took, error) = what.split_once(" ms: ").ok_or_else(|| format!("rank {rank} does not say how long it took"))?;
        let took: u128 = took.parse().map_err(|_| "no number of milliseconds".to_string())?;
        if !(ms.0..=ms.1).contains(&took) {
            return Err(format!("rank {rank} took {took} ms, not {} to {}", ms.0, ms.1));
        }
        if let Some(missing) = words(rank, ranks).iter().find(|word| !error.contains(*word)) {
            return Err(format!("rank {rank} does not say `{missing}`"));
        }
    }
    Ok(())
}
/// The library of another MPI under this launcher: how many were not refused.
fn under_another(mpi: &Mpi, mpis: &[Mpi], filters: &[String]) -> usize {
    if !(filters.is_empty() || filters.iter().any(|filter| "two".contains(filter.as_str()))) {
        return 0;
    }
    let others = mpis.iter().filter(|other| other.library.is_some() && other.is_open_mpi() != mpi.is_open_mpi());
    let mut failed = 0;
    for other in others {
        let ended = Mpi { launcher: mpi.launcher.clone(), library: other.library.clone() }.run("functions", 2, &[]);
        let said = ended.said();
        let refused = !said.is_empty() && said.iter().all(|(_, what)| what.contains("EngineAbsent") && what.contains("two MPIs"));
        let is_right = refused && ended.code == Some(9);
        println!("  {} under {}: {}", other.library.as_deref().unwrap_or_default(), mpi.launcher.display(), if is_right { "refused" } else { "FAILED" });
        if !is_right {
            failed += 1;
            println!("    exit code {:?}\n--- out\n{}\n--- err\n{}", ended.code, ended.out, ended.err);
        }
    }
    failed
}
/// Runs all cases whose names contain one of the filters.
pub fn all(filters: &[String]) {
    let mpis = mpis();
    if mpis.is_empty() {
        eprintln!("skipped: no MPI; install openmpi-bin (or name one by {MPIS}=LAUNCHER=LIBRARY)");
        return;
    }
    let mut failed = 0;
    for mpi in &mpis {
        failed += under_another(mpi, &mpis, filters);
        println!("{} {}", mpi.launcher.display(), mpi.library.as_deref().unwrap_or("(the library that is found)"));
        for (case, sizes, expect) in cases() {
            if !(filters.is_empty() || filters.iter().any(|filter| case.contains(filter.as_str()))) {
                continue;
            }
            let options = if matches!(expect, Survivors { .. }) { mpi.survivors_go_on() } else { Some(&[][..]) };
            let Some(options) = options else {
                println!("  {case}: skipped, this launcher ends the job when a rank is dead");
                continue;
            };
            for &ranks in sizes {
                let start = Instant::now();
                let ended = mpi.run(case, ranks, options);
                let verdict = judged(&ended, &expect, ranks);
                println!("  {case} on {ranks}: {} ({:.1} s)", if verdict.is_ok() { "ok" } else { "FAILED" }, start.elapsed().as_secs_f64());
                if let Err(why) = verdict {
                    failed += 1;
                    println!("    {why}\n--- out\n{}\n--- err\n{}", ended.out, ended.err);
                }
            }
        }
    }
    if failed > 0 {
        eprintln!("{failed} failed");
        std::process::exit(1);
    }
}
