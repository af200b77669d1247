//! Who this process is among the ranks of a job: read from the variables that a launcher sets.
//!
//! ```text
//! variables -> the launcher that set them (place/launchers.rs) -> rank, size, local rank, local size
//!           -> ADAMANT_MEETING, MASTER_ADDR, MASTER_PORT (place/meeting.rs) -> where the ranks meet
//!           -> ADAMANT_TOKEN_*, ADAMANT_LISTENER_FD, ADAMANT_EPOCH, ADAMANT_TIMEOUT, ADAMANT_BIND -> EngineRequest
//!           -> ADAMANT_ENGINE -> open_group: an engine by name -> Communicator
//! ```
//!
//! **Which launcher is believed.** Several may have set their variables: `srun torchrun`, `mpirun` inside of a job of Slurm. The
//! innermost one is meant, so they are asked in this order, and the first that is there decides alone: RANK (`adamant launch`,
//! torchrun), Open MPI, MPICH's Hydra (and Intel MPI), PMIx, Slurm. What one launcher says is never mixed with what another
//! says, except where PMIx leaves the number of ranks to Slurm. None of them: one rank alone, whatever else is set.
//!
//! A shell inside of a job of Slurm is no rank, although `SLURM_PROCID` and `SLURM_NTASKS` are set in it: only a step that
//! `srun` began has `SLURM_STEP_NUM_TASKS`.
//!
//! Half of a launcher's variables, values that are no numbers, a rank beyond the ranks: an error that names the variable and its
//! value. A variable that is empty counts as not set. Nothing here opens a connection or knows an engine but by its name.
mod launchers;
mod meeting;

pub use launchers::StartedBy;
pub use meeting::MeetingPlace;

use crate::local::{LINK_VARIABLE, LinkSpeed};
use adamant_runtime::{
    ErrorKind,
    communicator::{Communicator, ENGINES, EngineRequest, JoinToken, LoneRank, engine_named},
};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// So long a rank waits for the others where nothing else is said.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Who this process is among the ranks of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// this rank
    pub rank: usize,
    /// how many there are
    pub size: usize,
    /// which it is of the ranks on this host
    pub local_rank: usize,
    /// how many ranks this host has
    pub local_size: usize,
    /// who told it
    pub started_by: StartedBy,
    /// where the ranks meet, if that is known
    pub meeting: Option<MeetingPlace>,
    /// what proves who may join
    pub token: Option<JoinToken>,
    /// a socket that listens at the meeting place and was inherited
    pub listener: Option<i32>,
    /// which start of the job this is, from 0
    pub epoch: u64,
    /// the engine by name; none: it is chosen
    pub engine: Option<String>,
    /// the address that other hosts may reach this rank at
    pub bind: Option<String>,
    /// so long it waits for the others
    pub timeout: Duration,
}

/// Variables that make no sense, alone or together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// A value that is none of the variable's.
    #[error("{variable} is `{value}`, but it should be {expected}")]
    Value {
        /// its name
        variable: String,
        /// its value
        value: String,
        /// what was expected
        expected: &'static str,
    },
    /// One variable is set, and another that belongs to it is not.
    #[error("{set} is `{value}`, but {missing} is not set; {hint}")]
    Half {
        /// the one that is set
        set: String,
        /// its value
        value: String,
        /// the one that is not
        missing: String,
        /// what to do
        hint: &'static str,
    },
    /// Two variables contradict each other.
    #[error("{first} is `{first_value}`, and {second} is `{second_value}`: {why}")]
    Contradiction {
        /// one of them
        first: String,
        /// its value
        first_value: String,
        /// the other one
        second: String,
        /// its value
        second_value: String,
        /// what does not go together
        why: &'static str,
    },
}
impl From<PlaceError> for ErrorKind {
    fn from(error: PlaceError) -> ErrorKind {
        ErrorKind::Argument(error.to_string())
    }
}

/// Variables by name: those of the process, or others.
pub(crate) type Variables<'v> = &'v dyn Fn(&str) -> Option<String>;

/// The value of a variable that is set and not empty.
pub(crate) fn value_of(variables: Variables<'_>, name: &str) -> Option<String> {
    variables(name).map(|value| value.trim().to_string()).filter(|value| !value.is_empty())
}
/// A number from a variable, where it is set.
pub(crate) fn number<T: std::str::FromStr>(variables: Variables<'_>, name: &str, expected: &'static str) -> Result<Option<T>, PlaceError> {
    let Some(value) = value_of(variables, name) else { return Ok(None) };
    value.parse().map(Some).map_err(|_| PlaceError::Value { variable: name.into(), value, expected })
}

impl RankPlace {
    /// From the variables of this process.
    ///
    /// # Errors
    /// Variables that make no sense.
    pub fn from_environment() -> Result<RankPlace, PlaceError> {
        // What is no text is no number either: it is shown as far as it can be.
        RankPlace::from_variables(&|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }
    /// From variables by name.
    ///
    /// ```
    /// use adamant_distributed::place::RankPlace;
    /// let set = [("RANK", "1"), ("WORLD_SIZE", "4")];
    /// let place = RankPlace::from_variables(&|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))?;
    /// assert_eq!((place.rank, place.size, place.local_rank, place.local_size), (1, 4, 1, 4));
    /// # Ok::<(), adamant_distributed::place::PlaceError>(())
    /// ```
    ///
    /// # Errors
    /// Variables that make no sense.
    pub fn from_variables(variables: &dyn Fn(&str) -> Option<String>) -> Result<RankPlace, PlaceError> {
        let Some(found) = launchers::find(variables)? else { return Ok(RankPlace::alone()) };
        let timeout = match value_of(variables, "ADAMANT_TIMEOUT") {
            Some(value) => parse_timeout(&value).ok_or_else(|| PlaceError::Value { variable: "ADAMANT_TIMEOUT".into(), value, expected: TIMEOUT_FORM })?,
            None => DEFAULT_TIMEOUT,
        };
        Ok(RankPlace {
            rank: found.rank,
            size: found.size,
            local_rank: found.local_rank,
            local_size: found.local_size,
            started_by: found.started_by,
            meeting: meeting::find(variables, found.started_by)?,
            token: token(variables)?,
            listener: descriptor(variables, "ADAMANT_LISTENER_FD")?,
            epoch: number(variables, "ADAMANT_EPOCH", "the number of a start of the job, from 0")?.unwrap_or(0),
            engine: value_of(variables, "ADAMANT_ENGINE").filter(|name| name != "auto"),
            bind: value_of(variables, "ADAMANT_BIND"),
            timeout,
        })
    }
    /// One rank that needs nobody.
    pub fn alone() -> RankPlace {
        RankPlace {
            rank: 0,
            size: 1,
            local_rank: 0,
            local_size: 1,
            started_by: StartedBy::Nobody,
            meeting: None,
            token: None,
            listener: None,
            epoch: 0,
            engine: None,
            bind: None,
            timeout: DEFAULT_TIMEOUT,
        }
    }
    /// The threads that each rank of this host should use, of so many cores: at least 1.
    pub fn threads(&self, cores: usize) -> usize {
        (cores / self.local_size.max(1)).max(1)
    }
    /// What an engine is asked for. A meeting by a file has no address until [`open_group`] has found it.
    pub fn to_request(&self) -> EngineRequest {
        let meeting = match &self.meeting {
            Some(MeetingPlace::At { host, port }) => Some((host.clone(), *port)),
            Some(MeetingPlace::File(_)) | None => None,
        };
        EngineRequest {
            rank: self.rank,
            size: self.size,
            local: (self.local_size, self.local_rank),
            epoch: self.epoch,
            meeting,
            listener: self.listener,
            token: self.token.clone(),
            bind: self.bind.clone(),
            timeout: self.timeout,
        }
    }
    /// The name of the engine: the one that is asked for; `mpi` where an MPI launcher started this process and that engine is
    /// linked into the program; else `local`.
    pub fn engine_name(&self) -> &str {
        let has_mpi = ENGINES.iter().any(|engine| engine.name == "mpi");
        match &self.engine {
            Some(name) => name,
            None if has_mpi && self.started_by.is_mpi() => "mpi",
            None => "local",
        }
    }
}

/// Makes the group that this process is a rank of. A rank of one has no engine, unless one is asked for by name.
///
/// # Errors
/// An engine that is not linked into the program, or that cannot be had here; ranks that do not come; an `ADAMANT_LINK` that names no link, or
/// with another engine than `local`; what else the engine says.
pub fn open_group(place: &RankPlace) -> Result<Arc<dyn Communicator>, ErrorKind> {
    if place.size == 1 && place.engine.is_none() {
        return Ok(Arc::new(LoneRank::default()));
    }
    let engine = engine_named(place.engine_name())?;
    (engine.present)()?;
    if engine.name != "local" && LinkSpeed::from_environment()?.is_some() {
        return Err(ErrorKind::Argument(format!("{LINK_VARIABLE} rehearses a link between ranks of `local`, and `{}` has its own: unset it", engine.name)));
    }
    let mut request = place.to_request();
    let Some(MeetingPlace::File(path)) = &place.meeting else { return (engine.open)(&request) };
    // What the file stands for lives until all have met.
    let met = meeting::by_file(path, &mut request)?;
    let group = (engine.open)(&request);
    drop(met);
    group
}

const TIMEOUT_FORM: &str = "a time above 0, as `60`, `60s` or `5m`";
/// A time as people write it, or seconds; none: it is neither, or no time at all.
pub fn parse_timeout(text: &str) -> Option<Duration> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.or_else(|| humantime::parse_duration(text).ok()).filter(|time| !time.is_zero())
}
fn descriptor(variables: Variables<'_>, name: &str) -> Result<Option<i32>, PlaceError> {
    let expected = "the number of an open descriptor";
    match number::<i32>(variables, name, expected)? {
        Some(fd) if fd < 0 => Err(PlaceError::Value { variable: name.into(), value: fd.to_string(), expected }),
        fd => Ok(fd),
    }
}
fn token(variables: Variables<'_>) -> Result<Option<JoinToken>, PlaceError> {
    let file = value_of(variables, "ADAMANT_TOKEN_FILE");
    match (descriptor(variables, "ADAMANT_TOKEN_FD")?, file) {
        (Some(fd), Some(file)) => Err(PlaceError::Contradiction {
            first: "ADAMANT_TOKEN_FD".into(),
            first_value: fd.to_string(),
            second: "ADAMANT_TOKEN_FILE".into(),
            second_value: file,
            why: "a job has one token",
        }),
        (Some(fd), None) => Ok(Some(JoinToken::Descriptor(fd))),
        (None, file) => Ok(file.map(|file| JoinToken::File(PathBuf::from(file)))),
    }
}
