//! What is to be started, and what is wrong with it.
use super::RankBinding;
use std::{ffi::OsString, io, path::PathBuf, time::Duration};

/// A job: so many ranks of one program.
#[derive(Clone, Debug)]
pub struct LaunchPlan {
    /// how many ranks
    pub ranks: usize,
    /// the program: a path, or a name that is looked up in PATH
    pub program: OsString,
    /// its arguments
    pub arguments: Vec<OsString>,
    /// variables that all ranks get besides those of the launcher
    pub environment: Vec<(OsString, OsString)>,
    /// the engine by name; none: it is chosen
    pub engine: Option<String>,
    /// the hosts, if this one is not meant alone: for `mpi`
    pub hosts: Vec<HostSlots>,
    /// how often the job is started again after a failure
    pub max_restarts: u32,
    /// so long before the first restart; twice as long before each further one, up to a minute
    pub restart_delay: Duration,
    /// so long ranks wait for each other; none: as the engine does
    pub timeout: Option<Duration>,
    /// whether ranks are bound to cores
    pub binding: RankBinding,
    /// a folder that gets what each rank writes, as `rank-0.log`
    pub log_folder: Option<PathBuf>,
    /// between the signal that asks a rank to end and the one that ends it
    pub grace: Duration,
    /// do ranks go on without those that are lost?
    pub elastic: Option<ElasticPlan>,
}
/// How many ranks a job may have that goes on without those that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElasticPlan {
    /// with fewer it does not go on
    pub least: usize,
    /// it never has more
    pub most: usize,
    /// a rank that fails so often within this time is not started again
    pub left_out: (usize, Duration),
}
impl ElasticPlan {
    /// Reads `MIN:MAX`; none: it is none.
    pub fn parse(text: &str) -> Option<ElasticPlan> {
        let (least, most) = text.split_once(':')?;
        let (least, most) = (least.parse().ok()?, most.parse().ok()?);
        (least > 0 && least <= most).then_some(ElasticPlan { least, most, left_out: (3, Duration::from_secs(60)) })
    }
}
/// A host, and how many ranks it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSlots {
    /// its name
    pub host: String,
    /// how many; none: its share
    pub ranks: Option<usize>,
}
impl HostSlots {
    /// Reads `HOST` or `HOST:RANKS`; none: it is neither.
    pub fn parse(text: &str) -> Option<HostSlots> {
        let (host, ranks) = match text.rsplit_once(':') {
            Some((host, ranks)) => (host, Some(ranks.parse().ok().filter(|ranks| *ranks > 0)?)),
            None => (text, None),
        };
        // It becomes part of another program's command line.
        let is_name = !host.is_empty() && !host.starts_with('-') && host.bytes().all(|c| c.is_ascii_alphanumeric() || b".-_".contains(&c));
        is_name.then(|| HostSlots { host: host.into(), ranks })
    }
}
/// The most ranks that one launcher starts on a host.
pub const MOST_RANKS: usize = 4096;

/// Why a job could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The plan makes no sense.
    #[error("{0}")]
    Plan(String),
    /// The program is not there.
    #[error("`{program}` is not there: looked for it {looked}; no rank was started")]
    NotFound {
        /// its name
        program: String,
        /// where it was looked for
        looked: String,
    },
    /// The program is there, but cannot be run.
    #[error("`{program}` cannot be run: {reason}; no rank was started")]
    NotExecutable {
        /// its path
        program: String,
        /// why
        reason: String,
    },
    /// Something else that the job needs is not there.
    #[error("{what} is not there: {looked}; {install}")]
    Missing {
        /// what
        what: String,
        /// what was looked for
        looked: String,
        /// what to do
        install: String,
    },
    /// The system starts no more ranks; those that were started are ended.
    #[error("rank {rank} could not be started: {error}; the others were ended")]
    Start {
        /// which
        rank: usize,
        /// why
        error: io::Error,
    },
    /// Something that the launcher needs of the system.
    #[error("{what}: {error}")]
    System {
        /// what
        what: &'static str,
        /// why
        error: io::Error,
    },
    /// A log file cannot be made.
    #[error("{}: {error}", path.display())]
    Log {
        /// which
        path: PathBuf,
        /// why
        error: io::Error,
    },
}
impl LaunchError {
    /// The exit code of a launcher that ends so.
    pub fn exit_code(&self) -> u8 {
        match self {
            LaunchError::Plan(_) => 2,
            LaunchError::NotFound { .. } => 127,
            LaunchError::NotExecutable { .. } => 126,
            LaunchError::Missing { .. } => 9,
            LaunchError::Start { .. } | LaunchError::System { .. } => 1,
            LaunchError::Log { .. } => 6,
        }
    }
}

impl LaunchPlan {
    /// So many ranks of a program, with what is usual for the rest.
    pub fn new(ranks: usize, program: impl Into<OsString>) -> LaunchPlan {
        LaunchPlan {
            ranks,
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            engine: None,
            hosts: Vec::new(),
            max_restarts: 3,
            restart_delay: Duration::from_secs(1),
            timeout: None,
            binding: RankBinding::Auto,
            log_folder: None,
            grace: Duration::from_secs(5),
            elastic: None,
        }
    }
    /// Are ranks started by `mpirun`? Where hosts are named and no engine is, they are.
    pub fn is_mpi(&self) -> bool {
        match self.engine.as_deref() {
            Some("mpi") => true,
            None | Some("auto") => !self.hosts.is_empty(),
            Some(_) => false,
        }
    }
    /// Does the plan make sense?
    ///
    /// # Errors
    /// It does not.
    pub fn check(&self) -> Result<(), LaunchError> {
        let wrong = |text: String| Err(LaunchError::Plan(text));
        if self.ranks == 0 || self.ranks > MOST_RANKS {
            return wrong(format!("{} ranks: a job has 1 to {MOST_RANKS}", self.ranks));
        }
        if self.program.is_empty() {
            return wrong("no program is named".into());
        }
        if let Some(engine) = self.engine.as_deref().filter(|name| !name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_".contains(&c)) || name.is_empty()) {
            return wrong(format!("`{engine}` is no engine's name; there are auto, local, mpi"));
        }
        if !self.hosts.is_empty() && !self.is_mpi() {
            let engine = self.engine.as_deref().unwrap_or_default();
            return wrong(format!("engine {engine} is one host; install openmpi-bin on all hosts and use --engine mpi"));
        }
        if let Some(ElasticPlan { least, most, left_out }) = self.elastic {
            let engine = self.engine.as_deref().unwrap_or("auto");
            if self.is_mpi() || !["auto", "local"].contains(&engine) {
                let engine = if self.is_mpi() { "mpi" } else { engine };
                return wrong(format!(
                    "engine {engine} is not elastic: the end of a rank ends its groups for good; leave --elastic out and go on from the newest checkpoint                      (--max-restarts, --resume auto), or use the engine local"
                ));
            }
            if self.ranks < least || self.ranks > most {
                return wrong(format!("{} ranks are started, which is not within --elastic {least}:{most}", self.ranks));
            }
            if left_out.0 == 0 || left_out.1.is_zero() {
                return wrong("a rank is left out after one failure at least, within a time above 0".into());
            }
        }
        self.host_ranks().map(drop)
    }
    /// How many ranks each host gets: what it was given, or as many as the others, the first ones one more.
    ///
    /// # Errors
    /// Numbers that are not those of the job.
    pub fn host_ranks(&self) -> Result<Vec<(&str, usize)>, LaunchError> {
        let wrong = |text: String| Err(LaunchError::Plan(text));
        let given: usize = self.hosts.iter().filter_map(|host| host.ranks).sum();
        let open = self.hosts.iter().filter(|host| host.ranks.is_none()).count();
        if self.hosts.is_empty() {
            return Ok(Vec::new());
        }
        if open == 0 && given != self.ranks {
            return wrong(format!("the hosts get {given} ranks, but the job has {}", self.ranks));
        }
        if given + open > self.ranks {
            return wrong(format!("{} ranks are too few for these {} hosts", self.ranks, self.hosts.len()));
        }
        let rest = self.ranks - given;
        let mut shared = (0..open).map(|k| rest / open.max(1) + usize::from(k < rest % open.max(1)));
        Ok(self.hosts.iter().map(|host| (host.host.as_str(), host.ranks.or_else(|| shared.next()).unwrap_or(0))).collect())
    }
}
