//! The program that is tortured: `adamant train` on handwritten digits, a small model with dropout, shuffling, a schedule,
//! loader threads and frequent checkpoints. It is started as a user starts it.
use super::CaseDraw;
use crate::workspace;
use adamant_train::{checkpoint, storage::Disk};
use sha2::{Digest, Sha256};
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Everything that a run has to bring back: dropout (random counters), batch norm (running statistics), AdamW (slots), a
/// schedule, an order that is shuffled anew in each epoch.
const DESCRIPTION: &str = concat!(
    r#"
seed = 7
epochs = 40
batch = 32
log_every = 5

"#,
    digits_data!("data"),
    r#"workers = 2

[model]
layers = [
    { kind = "Linear", in_features = 64, out_features = 48 },
    { kind = "BatchNorm1d", num_features = 48 },
    { kind = "ReLU" },
    { kind = "Dropout", p = 0.3 },
    { kind = "Linear", in_features = 48, out_features = 10 },
]

[optimizer]
kind = "AdamW"
lr = 2e-3
weight_decay = 1e-2

[schedule]
kind = "CosineAnnealingLR"

[checkpoint]
every = 45
last = 3
best = 1
"#
);
/// Steps of a run, and between two checkpoints: 2.5 % of it. One interval may be lost and, while a checkpoint is being written,
/// the steps of another: a machine on which a write takes as long as 45 steps of a fifth of a millisecond still loses at most 5 %.
pub const STEPS: u64 = 1800;
pub const EVERY: u64 = 45;

/// What a tortured run computes in.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum TorturePrecision {
    /// with a scale that moves every few steps, far too large at the beginning
    F16,
    Bf16,
    /// with scales of earlier steps
    Fp8,
    /// bf16 weights, rounded by chance
    Stochastic,
    /// bf16 weights and what is beyond them
    Split,
}
impl TorturePrecision {
    fn values(self) -> Vec<String> {
        let all: &[&str] = match self {
            TorturePrecision::F16 => &["precision.mode=f16", "precision.scaler={ init_scale = 1e12, growth_interval = 3 }"],
            TorturePrecision::Bf16 => &["precision.mode=bf16"],
            TorturePrecision::Fp8 => &["precision.mode=fp8", "precision.fp8={ amax_history_len = 64 }"],
            TorturePrecision::Stochastic => &["precision.mode=bf16", "precision.master=none", "precision.update=stochastic"],
            TorturePrecision::Split => &["precision.mode=bf16", "precision.master=none", "precision.update=split"],
        };
        all.iter().map(ToString::to_string).collect()
    }
}
/// The program and what it is to do.
pub struct TrainingProgram {
    path: PathBuf,
    place: tempfile::TempDir,
    description: PathBuf,
    data: PathBuf,
    /// values that every run of it is given
    set: Vec<String>,
}
/// An undisturbed run: what all others must come to.
pub struct Undisturbed {
    /// the sha256 of its weights
    pub weights: String,
    /// the sha256 of its `metrics.jsonl`
    pub metrics: String,
}
/// How a run of the program ended.
pub struct Ended {
    pub code: Option<i32>,
    pub stderr: String,
    pub seconds: f64,
}
impl TrainingProgram {
    /// Builds the program, unless it is given, and writes its description.
    pub fn new(given: Option<&Path>) -> Result<TrainingProgram, String> {
        let program = TrainingProgram::on("torture.toml", &workspace::root().join("examples/digits"), given)?;
        fs::write(program.place.path().join("torture.toml"), DESCRIPTION).map_err(|e| e.to_string())?;
        Ok(program)
    }
    /// The same with another description and its data; what it writes goes to a temporary place all the same.
    pub fn on(description: impl AsRef<Path>, data: &Path, given: Option<&Path>) -> Result<TrainingProgram, String> {
        let path = match given {
            // It is started elsewhere.
            Some(path) => std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?,
            None => {
                eprintln!("building the program");
                workspace::program()?
            }
        };
        let place = tempfile::tempdir().map_err(|e| e.to_string())?;
        let description = place.path().join(description);
        let data = std::path::absolute(data).map_err(|e| format!("{}: {e}", data.display()))?;
        Ok(TrainingProgram { path, place, description, data, set: Vec::new() })
    }
    /// The same in another precision.
    pub fn in_precision(self, precision: Option<TorturePrecision>) -> TrainingProgram {
        TrainingProgram { set: precision.map_or_else(Vec::new, TorturePrecision::values), ..self }
    }
    /// A run folder that is not there yet.
    pub fn run(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
    /// Starts the program on a run folder, with some values set.
    pub fn start(&self, run: &Path, resume: bool, set: &[String]) -> Result<Child, String> {
        self.command(run, resume, set).spawn().map_err(|e| format!("{}: {e}", self.path.display()))
    }
    fn command(&self, run: &Path, resume: bool, set: &[String]) -> Command {
        let mut command = self.train(&self.description, &self.data, run, resume);
        self.set.iter().chain(set).for_each(|s| {
            command.args(["--set", s]);
        });
        command
    }
    /// The program on a description of its own, not started yet.
    pub fn train(&self, description: &Path, data: &Path, run: &Path, resume: bool) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("train").arg(description).current_dir(self.place.path());
        command.arg("--data").arg(data).arg("--run").arg(run).args(["--quiet", "--json"]);
        if resume {
            command.args(["--resume", "auto"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }
    /// Runs the program to its end on so many threads.
    pub fn on_threads(&self, run: &Path, threads: usize, set: &[String]) -> Result<Ended, String> {
        let begun = Instant::now();
        let child = self.command(run, false, set).args(["--threads", &threads.to_string()]).spawn();
        ended(child.map_err(|e| format!("{}: {e}", self.path.display()))?, begun)
    }
    /// Runs the program to its end.
    pub fn finish(&self, run: &Path, resume: bool, set: &[String]) -> Result<Ended, String> {
        ended(self.start(run, resume, set)?, Instant::now())
    }
}
/// Waits for the end of a process.
pub fn ended(child: Child, begun: Instant) -> Result<Ended, String> {
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_string();
    Ok(Ended { code: output.status.code(), stderr, seconds: begun.elapsed().as_secs_f64() })
}
impl Ended {
    /// It ended well, or else why not.
    pub fn well(self) -> Result<Ended, String> {
        match self.code {
            Some(0) => Ok(self),
            code => Err(format!("the program ended with {code:?}: {}", self.stderr)),
        }
    }
    /// The step that it said it goes on from.
    pub fn resumed(&self) -> Option<u64> {
        self.stderr.lines().find_map(|l| l.strip_prefix("resuming from step ")).and_then(|n| n.trim().parse().ok())
    }
}
/// The sha256 of a run's final weights.
pub fn weights(run: &Path) -> Result<String, String> {
    sha256(&run.join("weights.safetensors"))
}
/// The sha256 of a file.
pub fn sha256(path: &Path) -> Result<String, String> {
    fs::read(path).map(|bytes| sha256_of(&bytes)).map_err(|e| format!("{}: {e}", path.display()))
}
/// The sha256 of bytes.
pub fn sha256_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}
/// The step of the newest checkpoint, each byte of it checked; an error if any of them is damaged.
pub fn newest(run: &Path) -> Result<Option<u64>, String> {
    let found = checkpoint::latest(&Disk, &run.join("checkpoints")).map_err(|e| e.to_string())?;
    match found.as_ref().and_then(|f| f.warnings.first()) {
        Some(warning) => Err(warning.to_string()),
        None => Ok(found.map(|f| f.snapshot.step)),
    }
}
/// The highest step of a run's checkpoints by name, while it runs; 0 before the first.
fn reached(run: &Path) -> u64 {
    let entries = fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.strip_prefix("step-")?.parse().ok()).max().unwrap_or(0)
}
/// The last step that a run logged: it is at most four further.
pub fn logged(run: &Path) -> u64 {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default();
    let step = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["step"].as_u64();
    text.lines().rev().find_map(step).unwrap_or(0)
}
/// Is the process still there?
pub fn alive(child: &mut Child) -> Result<bool, String> {
    child.try_wait().map(|ended| ended.is_none()).map_err(|e| e.to_string())
}
/// Waits until a run is somewhere between its first step and its last, each time as likely as any other: until one of
/// its checkpoints is there, and a part of the time that passed between that one and the one before. The run's own pace
/// counts, not the clock's, because what else the machine does changes it from run to run. False if it has ended.
pub fn somewhere(child: &mut Child, run: &Path, draw: &mut CaseDraw) -> Result<bool, String> {
    let (goal, part) = (EVERY * draw.below(STEPS / EVERY), draw.unit());
    let (mut seen, mut since, mut between) = (0, Instant::now(), Duration::from_millis(20));
    while seen < goal {
        let now = reached(run);
        if now > seen {
            (between, since) = (since.elapsed(), Instant::now());
            seen = now;
        } else if !alive(child)? {
            return Ok(false);
        } else {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    std::thread::sleep(between.mul_f64(part));
    alive(child)
}
/// Names below a folder that only a write in progress may have.
pub fn temporaries(folder: &Path) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if [".tmp-", ".old-", ".was-"].iter().any(|p| name.starts_with(p)) || name.ends_with(".tmp") {
            left.push(entry.path());
        } else if entry.file_type().is_ok_and(|t| t.is_dir()) {
            left.extend(temporaries(&entry.path()));
        }
    }
    left
}
/// What must hold of a run that was disturbed and has ended: the weights, the lines of its log, the step it went on from, nothing left behind.
pub fn as_undisturbed(run: &Path, ended: &Ended, from: Option<u64>, want: &Undisturbed) -> Result<(), String> {
    if ended.resumed() != from {
        return Err(format!("it went on from {:?}, the newest checkpoint was {from:?}: {}", ended.resumed(), ended.stderr));
    }
    let left = temporaries(run);
    if !left.is_empty() {
        return Err(format!("left: {left:?}"));
    }
    for (what, got, want) in [("weights", weights(run)?, &want.weights), ("metrics.jsonl", sha256(&run.join("metrics.jsonl"))?, &want.metrics)] {
        if got != *want {
            return Err(format!("resumed from {from:?}: {what} {got}, of the undisturbed run {want}"));
        }
    }
    Ok(())
}
