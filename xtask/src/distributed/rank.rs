//! Ranks that are this program itself, started anew with a hidden subcommand: by hand with a launcher's variables, or under the launcher of
//! an MPI. What a rank has to say it leaves in a file of its own, as a launcher mixes what ranks print.
use super::{
    job::{JobMeeting, RankJob},
    join, mismatch, plan,
};
use crate::exit::Exit;
use adamant::ErrorKind;
use adamant_distributed::{
    Communicator,
    place::{RankPlace, open_group},
};
use adamant_engine_mpi as _;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// What a rank is told.
#[derive(clap::Args)]
pub struct RankOptions {
    #[command(subcommand)]
    role: RankRole,
}
#[derive(clap::Subcommand)]
enum RankRole {
    /// Trains under a planted fault
    Mismatch(RankTask),
    /// Meets the others, and leaves
    Join(RankTask),
    /// Takes steps of a model that ranks share in some way
    Plan(RankTask),
}
#[derive(clap::Args)]
struct RankTask {
    /// what is to be done, as JSON
    task: String,
    /// the folder that gets what the rank has to say
    reports: PathBuf,
}
/// Runs as a rank. What went wrong lies in its report; the process itself ends well, or a launcher would end the others.
pub fn run(options: &RankOptions) -> Exit {
    let done = match &options.role {
        RankRole::Mismatch(task) => task.with(mismatch::programs::run),
        RankRole::Join(task) => task.with(join::rank),
        RankRole::Plan(task) => task.with(plan::programs::run),
    };
    match done {
        Ok(()) => Exit::Passed,
        Err(e) => {
            eprintln!("{e}");
            Exit::Failed
        }
    }
}
impl RankTask {
    fn with<T: DeserializeOwned, R: Serialize>(&self, run: impl FnOnce(&T, &RankPlace) -> Result<R, String>) -> Result<(), String> {
        let task: T = serde_json::from_str(&self.task).map_err(|e| format!("the task: {e}"))?;
        let place = RankPlace::from_environment().map_err(|e| e.to_string())?;
        let report = run(&task, &place)?;
        let (path, text) = (report_path(&self.reports, place.rank), serde_json::to_vec(&report).map_err(|e| e.to_string())?);
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    }
}
fn report_path(folder: &Path, rank: usize) -> PathBuf {
    folder.join(format!("rank-{rank}.json"))
}
/// The rank's group.
pub fn opened(place: &RankPlace) -> Result<Arc<dyn Communicator>, ErrorKind> {
    open_group(place)
}
/// Now, in seconds, on a clock that all processes of this host have in common.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// How ranks are started.
#[derive(Clone, PartialEq)]
pub enum RankStarter {
    /// one by one, on the engine `local`
    Local,
    /// by the launcher of an MPI: its name, the library where it is not found by itself, and whether it is Open MPI's
    Mpi { launcher: String, library: Option<String>, is_open_mpi: bool },
}
impl RankStarter {
    pub fn name(&self) -> String {
        match self {
            RankStarter::Local => "local".into(),
            RankStarter::Mpi { launcher, library, .. } => format!("mpi under {launcher}{}", library.as_ref().map_or(String::new(), |l| format!(" with {l}"))),
        }
    }
    /// `LAUNCHER` or `LAUNCHER=LIBRARY`, where it is there.
    ///
    /// # Errors
    /// What to install.
    pub fn mpi(named: &str) -> Result<RankStarter, String> {
        let (launcher, library) = named.split_once('=').map_or((named, None), |(launcher, library)| (launcher, Some(library.to_string())));
        let said = Command::new(launcher).arg("--version").output().map_err(|e| format!("`{launcher}` is not there ({e}): install openmpi-bin"))?;
        let is_open_mpi = String::from_utf8_lossy(&said.stdout).contains("Open MPI");
        Ok(RankStarter::Mpi { launcher: launcher.into(), library, is_open_mpi })
    }
    /// Starts so many ranks of this program in a role. One job has several processes on `local`, one under a launcher.
    pub fn start(&self, role: &str, task: &impl Serialize, ranks: usize, place: &Path, timeout: Duration) -> Result<RankJob, String> {
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let task = serde_json::to_string(task).map_err(|e| e.to_string())?;
        let arguments = ["distributed", "rank", role, &task].map(String::from);
        let mut job = RankJob::default();
        match self {
            RankStarter::Local => {
                let meeting = JobMeeting::new(place, "local", timeout)?;
                for rank in 0..ranks {
                    let mut command = Command::new(&own);
                    command.args(&arguments).arg(place).envs(meeting.variables(rank, ranks)).env("ADAMANT_NUM_THREADS", "1");
                    job.begin(command)?;
                }
            }
            RankStarter::Mpi { .. } => {
                let mut command = self.command(ranks).ok_or("no launcher")?;
                command.arg(&own).args(&arguments).arg(place).env("ADAMANT_TIMEOUT", format!("{}ms", timeout.as_millis()));
                job.begin(command)?;
            }
        }
        Ok(job)
    }
    /// The launcher's command for so many ranks, without the program; none: there is no launcher.
    pub fn command(&self, ranks: usize) -> Option<Command> {
        let RankStarter::Mpi { launcher, library, is_open_mpi } = self else { return None };
        let mut command = Command::new(launcher);
        if *is_open_mpi {
            command.args(["--oversubscribe", "--bind-to", "none"]);
            command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        }
        command.args(["-n", &ranks.to_string()]).env("ADAMANT_ENGINE", "mpi").env("ADAMANT_NUM_THREADS", "1");
        command.envs(library.as_ref().map(|library| ("ADAMANT_MPI_LIBRARY", library)));
        Some(command)
    }
}
/// What each rank has left.
///
/// # Errors
/// A rank that left nothing.
pub fn reports<R: DeserializeOwned>(place: &Path, ranks: usize) -> Result<Vec<R>, String> {
    let one = |rank| {
        let text = std::fs::read(report_path(place, rank)).map_err(|e| format!("rank {rank} left no report: {e}"))?;
        serde_json::from_slice(&text).map_err(|e| format!("rank {rank}: {e}"))
    };
    (0..ranks).map(one).collect()
}
