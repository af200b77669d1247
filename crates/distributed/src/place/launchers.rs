//! What each launcher calls a rank, and which of them has started this process.
use super::{PlaceError, Variables, number, value_of};

/// Who told a process which rank it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StartedBy {
    /// nobody: it is alone
    Nobody,
    /// RANK and WORLD_SIZE: `adamant launch`, torchrun, or a person
    Ranks,
    /// Open MPI's `mpirun`
    OpenMpi,
    /// MPICH's Hydra, or another one that speaks PMI
    Pmi,
    /// a runtime of PMIx, as `srun --mpi=pmix`
    Pmix,
    /// Slurm's `srun`
    Slurm,
}
impl StartedBy {
    /// Does it start programs of MPI?
    pub fn is_mpi(self) -> bool {
        matches!(self, StartedBy::OpenMpi | StartedBy::Pmi | StartedBy::Pmix)
    }
}

/// A launcher's names: of the rank, of how many there are, and of both on this host.
struct RankVariables {
    by: StartedBy,
    rank: &'static str,
    /// the first that is set counts
    size: &'static [&'static str],
    local_rank: &'static str,
    local_size: &'static str,
    /// one of rank and size without the other is a mistake, and this what to do; without it, it is another program's
    half: Option<&'static str>,
}
/// From the innermost to the outermost.
const LAUNCHERS: [RankVariables; 5] = [
    RankVariables {
        by: StartedBy::Ranks,
        rank: "RANK",
        size: &["WORLD_SIZE"],
        local_rank: "LOCAL_RANK",
        local_size: "LOCAL_WORLD_SIZE",
        half: Some("set both, or unset both for one rank alone"),
    },
    RankVariables {
        by: StartedBy::OpenMpi,
        rank: "OMPI_COMM_WORLD_RANK",
        size: &["OMPI_COMM_WORLD_SIZE"],
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
        half: Some("start the program through `mpirun`, which sets both"),
    },
    RankVariables {
        by: StartedBy::Pmi,
        rank: "PMI_RANK",
        size: &["PMI_SIZE"],
        local_rank: "MPI_LOCALRANKID",
        local_size: "MPI_LOCALNRANKS",
        half: Some("start the program through `mpiexec`, which sets both"),
    },
    RankVariables {
        by: StartedBy::Pmix,
        rank: "PMIX_RANK",
        size: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        local_rank: "SLURM_LOCALID",
        local_size: "",
        half: Some("nothing says how many ranks there are: set RANK and WORLD_SIZE as well"),
    },
    // Without a step it is a shell in which a job was begun: no rank.
    RankVariables { by: StartedBy::Slurm, rank: "SLURM_PROCID", size: &["SLURM_STEP_NUM_TASKS"], local_rank: "SLURM_LOCALID", local_size: "", half: None },
];
/// The most ranks that a job can have: what a message has space for.
const MOST: usize = u32::MAX as usize;
const RANK: &str = "the number of a rank, from 0";
const SIZE: &str = "a number of ranks, from 1";

/// A rank as its launcher told it.
#[derive(Debug)]
pub(super) struct FoundRank {
    pub(super) started_by: StartedBy,
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) local_rank: usize,
    pub(super) local_size: usize,
}

/// The innermost launcher that has set its variables.
pub(super) fn find(variables: Variables<'_>) -> Result<Option<FoundRank>, PlaceError> {
    for launcher in &LAUNCHERS {
        if let Some(found) = read(variables, launcher)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
fn read(variables: Variables<'_>, launcher: &RankVariables) -> Result<Option<FoundRank>, PlaceError> {
    let size_name = launcher.size.iter().copied().find(|name| value_of(variables, name).is_some());
    let rank_is_set = value_of(variables, launcher.rank).is_some();
    let (size_name, hint) = match (rank_is_set, size_name, launcher.half) {
        (true, Some(size), hint) => (size, hint),
        (false, None, _) | (_, _, None) => return Ok(None),
        // The size of PMIx is Slurm's, and says nothing alone.
        (false, Some(_), _) if launcher.by == StartedBy::Pmix => return Ok(None),
        (true, None, Some(hint)) => return Err(half(variables, launcher.rank, launcher.size[0], hint)),
        (false, Some(size), Some(hint)) => return Err(half(variables, size, launcher.rank, hint)),
    };
    let rank = number::<usize>(variables, launcher.rank, RANK)?.unwrap_or(0);
    let size = number::<usize>(variables, size_name, SIZE)?.unwrap_or(0);
    if size == 0 || size > MOST {
        return Err(PlaceError::Value { variable: size_name.into(), value: size.to_string(), expected: SIZE });
    }
    let contradiction = |first: &str, second: &str, why| PlaceError::Contradiction {
        first: first.into(),
        first_value: value_of(variables, first).unwrap_or_default(),
        second: second.into(),
        second_value: value_of(variables, second).unwrap_or_default(),
        why,
    };
    if rank >= size {
        return Err(contradiction(launcher.rank, size_name, "ranks are counted from 0, so the rank is to be less"));
    }
    let local_rank = number::<usize>(variables, launcher.local_rank, RANK)?;
    let (local_size, local_name) = match launcher.by {
        StartedBy::Pmix | StartedBy::Slurm => slurm_local_size(variables)?,
        _ => (number::<usize>(variables, launcher.local_size, SIZE)?, launcher.local_size),
    };
    let (local_rank, local_size) = match (local_rank, local_size) {
        (Some(rank), Some(size)) => (rank, size),
        // One host, if nothing else is said.
        (None, None) => (rank, size),
        (Some(_), None) if matches!(launcher.by, StartedBy::Ranks | StartedBy::OpenMpi) => {
            return Err(half(variables, launcher.local_rank, launcher.local_size, hint.unwrap_or_default()));
        }
        (None, Some(_)) if matches!(launcher.by, StartedBy::Ranks | StartedBy::OpenMpi) => {
            return Err(half(variables, launcher.local_size, launcher.local_rank, hint.unwrap_or_default()));
        }
        // Some that speak PMI tell only one of them.
        (Some(local), None) => (local, size - (rank - local.min(rank))),
        (None, Some(local)) => (rank % local.max(1), local),
    };
    if local_size == 0 {
        return Err(PlaceError::Value { variable: local_name.into(), value: value_of(variables, local_name).unwrap_or_default(), expected: SIZE });
    }
    if local_size > size {
        return Err(contradiction(local_name, size_name, "one host has no more ranks than all have together"));
    }
    if local_rank >= local_size {
        return Err(contradiction(launcher.local_rank, local_name, "ranks are counted from 0, so the rank is to be less"));
    }
    Ok(Some(FoundRank { started_by: launcher.by, rank, size, local_rank, local_size }))
}
fn half(variables: Variables<'_>, set: &str, missing: &str, hint: &'static str) -> PlaceError {
    PlaceError::Half { set: set.into(), value: value_of(variables, set).unwrap_or_default(), missing: missing.into(), hint }
}
/// How many tasks of a step of Slurm this host has, and the variable that says so: `2(x3),1` for each host in turn.
fn slurm_local_size(variables: Variables<'_>) -> Result<(Option<usize>, &'static str), PlaceError> {
    const PER_NODE: &str = "SLURM_STEP_TASKS_PER_NODE";
    let node = number::<usize>(variables, "SLURM_NODEID", "the number of a host, from 0")?;
    let (Some(list), Some(node)) = (value_of(variables, PER_NODE), node) else {
        return Ok((number(variables, "SLURM_NTASKS_PER_NODE", SIZE)?, "SLURM_NTASKS_PER_NODE"));
    };
    let mut at = node;
    for part in list.split(',') {
        let (tasks, times) = match part.split_once("(x") {
            Some((tasks, times)) => (tasks, times.trim_end_matches(')')),
            None => (part, "1"),
        };
        match (tasks.trim().parse::<usize>(), times.parse::<usize>()) {
            (Ok(tasks), Ok(times)) if at < times => return Ok((Some(tasks), PER_NODE)),
            (Ok(_), Ok(times)) => at -= times,
            _ => break,
        }
    }
    Err(PlaceError::Value { variable: PER_NODE.into(), value: list, expected: "the tasks of each host, this one's too, as `2(x3),1`" })
}
