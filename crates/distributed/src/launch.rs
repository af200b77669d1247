//! Starts the ranks of a job, shows what they say, and ends them all when one fails.
//!
//! ```text
//! LaunchPlan -> check, find the program -> OrphanGuard (a process that outlives a launcher that is killed)
//!   each start of the job:
//!     a socket on 127.0.0.1, a fresh token -> every rank: variables, the token's descriptor; rank 0: the socket
//!     rank -> stdout, stderr -> lines -> LaunchOutput, log files            (one thread: launch/output.rs)
//!     rank -> its end, in the order in which they end -> the first cause    (this thread: launch/job.rs)
//!   a failure -> SIGTERM to the others, SIGKILL after the grace -> the next start, or LaunchEnded
//! ```
//!
//! What users of other launchers suffer from decided this:
//!
//! - *The port is in use.* A port that is looked for and then let go is somebody else's a moment later. Rank 0 inherits the socket
//!   itself, bound and listening, so `MASTER_PORT` is taken from before the first rank is there.
//! - *Processes are left.* Each rank leads a process group, so what it starts ends with it. Who kills the launcher, with SIGKILL too, ends
//!   all ranks: Linux kills a rank whose launcher is gone, and a guard process kills the groups. A rank that ended is not reaped
//!   before its group is killed: its number cannot be another's.
//! - *The wrong error.* One rank fails, the others fail because of it, and what is told is whichever was looked at first. Ends are taken in
//!   the order in which they happened; an exit code 7 (a peer is lost) is no first cause while there is another, nor is an end
//!   that was asked for. The last lines that the rank wrote to stderr stand with it. (What is left to chance: a process' sockets are closed
//!   some microseconds before it counts as ended, and another program's rank that fails within them comes first.)
//! - *Torn lines.* One thread writes whole lines.
//! - *Exit codes that say nothing.* The job's is that of the first cause; 128 + the signal where it was one.
//! - *Restarts that cannot help.* A program that is not there, a command line that makes no sense (exit code 2), an end that somebody
//!   asked for are not tried again.
//!
//! A job that is *elastic* has one start, in which ranks come and go: `launch/elastic.rs`.
//!
//! Nothing here knows what the program does, and no engine but by name; `mpi` is started through that system's own `mpirun`.
mod binding;
#[cfg(unix)]
mod elastic;
#[cfg(unix)]
mod epochs;
#[cfg(unix)]
mod exits;
#[cfg(unix)]
#[allow(unsafe_code, reason = "a process is forked that never returns to safe code")]
mod guard;
#[cfg(unix)]
mod job;
pub mod lines;
pub mod mpirun;
#[cfg(unix)]
mod output;
pub mod plan;
mod prefixed;
mod program;
#[cfg(unix)]
#[allow(unsafe_code, reason = "what a child does between fork and exec")]
mod start;

pub use binding::RankBinding;
pub use plan::{ElasticPlan, HostSlots, LaunchError, LaunchPlan};
pub use prefixed::PrefixedOutput;
pub use program::find_program;

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst},
    },
};

/// Which of its two streams a rank wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankStream {
    /// stdout
    Out,
    /// stderr
    Err,
}
/// Where the lines of the ranks go.
pub trait LaunchOutput: Send {
    /// A line of a rank, without its end; of no rank that is known, what `mpirun` itself says.
    ///
    /// # Errors
    /// It cannot be written. The job goes on, this stream is not asked again, and [`LaunchEnded::output`] tells.
    fn line(&mut self, rank: Option<usize>, stream: RankStream, line: &[u8]) -> io::Result<()>;
    /// Something that the launcher itself has to say.
    fn note(&mut self, text: &str);
}
/// Asks a launcher to end the job; its clones are one.
#[derive(Clone, Default)]
pub struct LaunchStop {
    inner: Arc<(AtomicI32, AtomicUsize)>,
}
impl LaunchStop {
    /// Nothing is asked for yet.
    pub fn new() -> LaunchStop {
        LaunchStop::default()
    }
    /// Passes a signal on to all ranks, which are killed after the grace; the second time they are killed at once.
    pub fn ask(&self, signal: i32) {
        let _ = self.inner.0.compare_exchange(0, signal, SeqCst, SeqCst);
        self.inner.1.fetch_add(1, SeqCst);
    }
    /// The first signal.
    pub fn asked(&self) -> Option<i32> {
        Some(self.inner.0.load(SeqCst)).filter(|signal| *signal != 0)
    }
    #[cfg_attr(not(unix), allow(dead_code))]
    fn times(&self) -> usize {
        self.inner.1.load(SeqCst)
    }
}

/// How a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankExit {
    /// by itself, with this code
    Code(i32),
    /// by this signal
    Signal(i32),
}
impl RankExit {
    /// What a shell makes of it: the code, or 128 + the signal.
    pub fn code(self) -> u8 {
        match self {
            RankExit::Code(code) => code as u8,
            RankExit::Signal(signal) => 128u8.wrapping_add(signal as u8),
        }
    }
    /// Did it fail?
    pub fn is_failure(self) -> bool {
        self != RankExit::Code(0)
    }
    /// Can another start of the job end otherwise? Not where the command line is wrong, or somebody wanted the end.
    #[cfg_attr(not(unix), allow(dead_code))]
    fn is_worth_a_restart(self) -> bool {
        !matches!(self, RankExit::Code(2 | 126 | 127 | 129 | 130 | 143) | RankExit::Signal(1 | 2 | 15))
    }
}
impl fmt::Display for RankExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RankExit::Code(code) => write!(f, "exit code {code}"),
            RankExit::Signal(signal) => write!(f, "signal {signal}{}", signal_name(*signal)),
        }
    }
}
fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL: killed from outside, or no memory was left)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}
/// Why a job failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstCause {
    /// the rank that failed first; none: `mpirun` did
    pub rank: Option<usize>,
    /// how it ended
    pub exit: RankExit,
    /// the last lines that it wrote to stderr
    pub words: Vec<String>,
}
impl fmt::Display for FirstCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rank {
            Some(rank) => write!(f, "rank {rank} failed first: {}", self.exit)?,
            None => write!(f, "mpirun failed: {}", self.exit)?,
        }
        if !self.words.is_empty() {
            f.write_str("; its last lines on stderr:")?;
        }
        self.words.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}
/// How a job ended.
#[derive(Debug)]
pub struct LaunchEnded {
    /// the exit code: 0, that of the first cause, or 128 + the signal that the launcher got
    pub code: u8,
    /// the signal that ended the job, if one did
    pub signal: Option<i32>,
    /// why the last start failed, if it did before it was told to end
    pub cause: Option<FirstCause>,
    /// how often the job was started
    pub starts: u64,
    /// what could not be written of the ranks' lines: the first such error. A reader that has left is none.
    pub output: Option<io::Error>,
}

/// Runs a job to its end, with its restarts.
///
/// Linux kills the ranks when the calling *thread* ends, so that it is to be one that lives as long as the program.
///
/// # Errors
/// A plan that makes no sense; a program that is not there, before any rank is started; a system that starts no more processes.
#[cfg(unix)]
pub fn run(plan: &LaunchPlan, output: Box<dyn LaunchOutput>, stop: &LaunchStop) -> Result<LaunchEnded, LaunchError> {
    job::run(plan, output, stop)
}
/// Runs a job to its end, with its restarts.
///
/// # Errors
/// Always: ranks are started on Linux and macOS.
#[cfg(not(unix))]
pub fn run(plan: &LaunchPlan, _: Box<dyn LaunchOutput>, _: &LaunchStop) -> Result<LaunchEnded, LaunchError> {
    plan.check()?;
    Err(LaunchError::Missing {
        what: "a launcher for this system".into(),
        looked: "ranks are started on Linux and macOS".into(),
        install: "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT by hand".into(),
    })
}

/// 256 random bits in hexadecimal.
///
/// # Errors
/// The system has none.
pub fn fresh_token() -> io::Result<String> {
    let mut bits = [0u8; 32];
    getrandom::fill(&mut bits).map_err(|e| io::Error::other(e.to_string()))?;
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}
