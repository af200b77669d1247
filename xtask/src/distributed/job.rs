//! Ranks as processes, started one by one with the variables that a launcher would set: so that each can be killed, and the moment known at
//! which each of the others ends.
use super::CommonOptions;
use crate::{torture::CaseDraw, workspace};
use std::{
    fs,
    io::Read,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// The program, a place for what it writes, and the engine.
pub struct RankedTraining {
    path: PathBuf,
    place: tempfile::TempDir,
    engine: String,
}
/// Ranks that run.
#[derive(Default)]
pub struct RankJob {
    ranks: Vec<RunningRank>,
}
struct RunningRank {
    child: Child,
    ended: Option<(ExitStatus, Instant)>,
    stderr: Option<JoinHandle<String>>,
}
/// How a rank ended.
pub struct EndedRank {
    /// its exit code; none: a signal
    pub code: Option<i32>,
    pub at: Instant,
    pub stderr: String,
}
const SHORT_STEPS: &str = r#"
seed = 11
iterations = 3000
batch = 24
log_every = 50
[data]
kind = "permutation"
classes = 12
rows = 240
workers = 0
[model]
layers = [
    { kind = "Embedding", num_embeddings = 12, embedding_dim = 16 },
    { kind = "BatchNorm1d", num_features = 16 },
    { kind = "Dropout", p = 0.2 },
    { kind = "Linear", in_features = 16, out_features = 12 },
]
[optimizer]
kind = "AdamW"
lr = 0.01
[schedule]
kind = "CosineAnnealingLR"
[checkpoint]
every = 300
"#;
/// Values that a run is given, as arguments.
pub fn set<S: AsRef<str>>(values: &[S]) -> Vec<String> {
    values.iter().flat_map(|value| ["--set".to_string(), value.as_ref().to_string()]).collect()
}
/// No rank runs longer.
const DEADLINE: Duration = Duration::from_secs(300);

impl RankedTraining {
    pub fn new(options: &CommonOptions) -> Result<RankedTraining, String> {
        let path = match &options.program {
            Some(path) => std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?,
            None => {
                eprintln!("building the program");
                workspace::program()?
            }
        };
        Ok(RankedTraining { path, place: tempfile::tempdir().map_err(|e| e.to_string())?, engine: options.engine.clone() })
    }
    /// The program with a description of its own: a small model with batch norm and dropout, whose steps are short.
    pub fn with_short_steps(options: &CommonOptions) -> Result<(RankedTraining, PathBuf), String> {
        let program = RankedTraining::new(options)?;
        let path = program.place("short-steps.toml");
        fs::write(&path, SHORT_STEPS).map_err(|e| e.to_string())?;
        Ok((program, path))
    }
    /// The same with parameters of which several ranks have pieces, and fewer steps.
    pub fn with_wide_steps(options: &CommonOptions) -> Result<(RankedTraining, PathBuf), String> {
        let program = RankedTraining::new(options)?;
        let path = program.place("short-steps.toml");
        let text = SHORT_STEPS.replace(" = 16", " = 1500").replace("iterations = 3000", "iterations = 240").replace("every = 300", "every = 20\nlast = 100");
        fs::write(&path, text).map_err(|e| e.to_string())?;
        Ok((program, path))
    }
    /// The program's path.
    pub fn program(&self) -> &Path {
        &self.path
    }
    pub fn place(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
    /// Starts so many ranks of `adamant train` on a description; one rank alone needs nobody.
    pub fn start(&self, ranks: usize, description: &Path, run: &Path, arguments: &[String]) -> Result<RankJob, String> {
        self.start_with(ranks, description, run, arguments, Duration::from_secs(60))
    }
    /// The same with another patience.
    pub fn start_with(&self, ranks: usize, description: &Path, run: &Path, arguments: &[String], timeout: Duration) -> Result<RankJob, String> {
        let meeting = JobMeeting::new(self.place.path(), &self.engine, timeout)?;
        let mut job = RankJob::default();
        for rank in 0..ranks {
            let mut command = Command::new(&self.path);
            command.arg("train").arg(description).arg("--run").arg(run).args(["--quiet", "--no-control", "--resume", "auto"]).args(arguments);
            command.args(["--threads", "1"]).current_dir(self.place.path());
            if ranks > 1 {
                command.envs(meeting.variables(rank, ranks));
            }
            job.begin(command)?;
        }
        Ok(job)
    }
    /// Runs ranks to their end, which is a good one.
    pub fn finish(&self, ranks: usize, description: &Path, run: &Path, arguments: &[String]) -> Result<(), String> {
        for (rank, ended) in self.start(ranks, description, run, arguments)?.wait()?.into_iter().enumerate() {
            if ended.code != Some(0) {
                return Err(format!("rank {rank} of {ranks} ended with {:?}: {}", ended.code, ended.stderr.trim()));
            }
        }
        Ok(())
    }
    /// Runs ranks to their end under the launcher of an MPI, `LAUNCHER` or `LAUNCHER=LIBRARY`.
    pub fn finish_under(&self, launcher: &str, is_open_mpi: bool, ranks: usize, description: &Path, run: &Path, arguments: &[String]) -> Result<(), String> {
        let (launcher, library) = launcher.split_once('=').map_or((launcher, None), |(launcher, library)| (launcher, Some(library)));
        let mut command = Command::new(launcher);
        if is_open_mpi {
            command.arg("--oversubscribe").envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        }
        command.args(["-n", &ranks.to_string()]).arg(&self.path).arg("train").arg(description).arg("--run").arg(run);
        command.args(["--quiet", "--no-control", "--resume", "auto", "--threads", "1"]).args(arguments).current_dir(self.place.path());
        command.env("ADAMANT_ENGINE", "mpi").envs(library.map(|library| ("ADAMANT_MPI_LIBRARY", library)));
        let mut job = RankJob::default();
        job.begin(command)?;
        match job.wait()?.into_iter().next() {
            Some(EndedRank { code: Some(0), .. }) => Ok(()),
            Some(ended) => Err(format!("`{launcher} -n {ranks}` ended with {:?}: {}", ended.code, ended.stderr.trim())),
            None => Err("nothing was started".into()),
        }
    }
}
/// Reads all that a process says, beside it.
fn read_on(mut pipe: ChildStderr) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}
impl RankJob {
    /// Starts one more process, which says nothing but on stderr.
    pub fn begin(&mut self, mut command: Command) -> Result<(), String> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("{}: {e}", command.get_program().to_string_lossy()))?;
        let stderr = child.stderr.take().map(read_on);
        self.ranks.push(RunningRank { child, ended: None, stderr });
        Ok(())
    }
    pub fn id(&self, rank: usize) -> u32 {
        self.ranks[rank].child.id()
    }
    pub fn len(&self) -> usize {
        self.ranks.len()
    }
    /// Sends a signal to a rank.
    pub fn signal(&self, rank: usize, signal: nix::sys::signal::Signal) -> Result<(), String> {
        let id = nix::unistd::Pid::from_raw(self.id(rank) as i32);
        nix::sys::signal::kill(id, signal).map_err(|e| format!("rank {rank}: {e}"))
    }
    /// Has a rank ended?
    pub fn is_over(&mut self, rank: usize) -> bool {
        self.look();
        self.ranks[rank].ended.is_some()
    }
    fn look(&mut self) {
        for rank in self.ranks.iter_mut().filter(|rank| rank.ended.is_none()) {
            if let Ok(Some(status)) = rank.child.try_wait() {
                rank.ended = Some((status, Instant::now()));
            }
        }
    }
    /// What the first rank that has ended said.
    pub fn last_words(&mut self) -> String {
        let ended = self.ranks.iter_mut().find(|rank| rank.ended.is_some());
        ended.and_then(|rank| rank.stderr.take()).and_then(|thread| thread.join().ok()).unwrap_or_default().trim().into()
    }
    /// Waits for all ranks but those.
    pub fn wait_for_others(&mut self, but: &[usize]) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            self.look();
            let waiting = |(rank, running): (usize, &RunningRank)| running.ended.is_none() && !but.contains(&rank);
            match self.ranks.iter().enumerate().position(waiting) {
                None => return Ok(()),
                Some(rank) if begun.elapsed() > DEADLINE => return Err(format!("rank {rank} hangs")),
                Some(_) => std::thread::sleep(Duration::from_micros(500)),
            }
        }
    }
    /// How each rank ended.
    pub fn wait(mut self) -> Result<Vec<EndedRank>, String> {
        self.wait_for_others(&[])?;
        let ended = self.ranks.iter_mut().map(|rank| {
            let stderr = rank.stderr.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
            rank.ended.map(|(status, at)| EndedRank { code: status.code(), at, stderr }).ok_or_else(|| "a rank that never ended".to_string())
        });
        ended.collect()
    }
}
impl Drop for RankJob {
    fn drop(&mut self) {
        for rank in self.ranks.iter_mut().filter(|rank| rank.ended.is_none()) {
            let _ = rank.child.kill();
            let _ = rank.child.wait();
        }
    }
}
/// Where ranks that are started by hand meet, and what proves who they are.
pub struct JobMeeting {
    pub port: u16,
    pub token: PathBuf,
    engine: String,
    timeout: Duration,
}
impl JobMeeting {
    pub fn new(place: &Path, engine: &str, timeout: Duration) -> Result<JobMeeting, String> {
        let port = free_port()?;
        let token = place.join(format!("token-{port}"));
        write_token(&token)?;
        Ok(JobMeeting { port, token, engine: engine.into(), timeout })
    }
    /// The variables of a rank, as a launcher would set them.
    pub fn variables(&self, rank: usize, ranks: usize) -> Vec<(&'static str, String)> {
        let numbers = [("RANK", rank), ("WORLD_SIZE", ranks), ("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", ranks)].map(|(k, v)| (k, v.to_string()));
        let texts = [("MASTER_ADDR", "127.0.0.1".into()), ("MASTER_PORT", self.port.to_string()), ("ADAMANT_ENGINE", self.engine.clone())];
        let more = [("ADAMANT_TOKEN_FILE", self.token.display().to_string()), ("ADAMANT_TIMEOUT", format!("{}ms", self.timeout.as_millis()))];
        numbers.into_iter().chain(texts).chain(more).collect()
    }
}
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| e.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|e| e.to_string())
}
fn write_token(path: &Path) -> Result<(), String> {
    let mut draw = CaseDraw::new(std::process::id() as u64 ^ u64::from(path.as_os_str().len() as u32) << 32);
    let words: String = (0..4).map(|_| format!("{:016x}", draw.next())).collect();
    fs::write(path, words).map_err(|e| e.to_string())?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(|e| e.to_string())?;
    }
    Ok(())
}
