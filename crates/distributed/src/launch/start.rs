//! Makes a process of a rank: its variables, what it inherits, and its ties to the launcher.
//!
//! | variable | what it says |
//! |---|---|
//! | RANK, WORLD_SIZE | which rank, of how many |
//! | LOCAL_RANK, LOCAL_WORLD_SIZE | the same on this host |
//! | MASTER_ADDR, MASTER_PORT | where rank 0 listens |
//! | ADAMANT_LISTENER_FD | rank 0 alone: the socket that does; of an elastic job all ranks, as each may come to lead |
//! | ADAMANT_ELASTIC_FD | of an elastic job: a socket to the launcher |
//! | ADAMANT_TOKEN_FD | a file without a name that holds the job's token |
//! | ADAMANT_EPOCH | which start of the job, from 0 |
//! | ADAMANT_ENGINE, ADAMANT_TIMEOUT | where the launcher was told |
//! | ADAMANT_NUM_THREADS, OMP_NUM_THREADS | cores / ranks, at least 1, where the user has not set them |
use super::{LaunchError, LaunchPlan, guard::OrphanGuard};
use crate::elastic::SEAT_FD;
#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::{
    fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
    io::{FdFlags, fcntl_setfd},
    process::{Pid, getpid, getppid},
};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::File,
    io::{self, Seek, Write},
    net::TcpListener,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// What all ranks of one start have in common.
pub(super) struct JobStart {
    pub(super) epoch: u64,
    listener: TcpListener,
    token: String,
}
impl JobStart {
    pub(super) fn new(epoch: u64) -> Result<JobStart, LaunchError> {
        let system = |what| move |error| LaunchError::System { what, error };
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(system("no port for the ranks to meet at"))?;
        let token = super::fresh_token().map_err(system("no random bytes for the job's token"))?;
        Ok(JobStart { epoch, listener, token })
    }
}
/// The variables of a rank that say nothing of descriptors.
pub(super) fn variables(plan: &LaunchPlan, rank: usize, epoch: u64, port: u16) -> Vec<(&'static str, String)> {
    let (rank, ranks) = (rank.to_string(), plan.ranks.to_string());
    let mut set = vec![
        ("RANK", rank.clone()),
        ("LOCAL_RANK", rank),
        ("WORLD_SIZE", ranks.clone()),
        ("LOCAL_WORLD_SIZE", ranks),
        ("MASTER_ADDR", "127.0.0.1".into()),
        ("MASTER_PORT", port.to_string()),
    ];
    set.extend(shared_variables(plan, epoch));
    set
}
/// Those of any rank, whoever starts it.
pub(super) fn shared_variables(plan: &LaunchPlan, epoch: u64) -> Vec<(&'static str, String)> {
    let mut set = vec![("ADAMANT_EPOCH", epoch.to_string())];
    set.extend(plan.engine.clone().map(|engine| ("ADAMANT_ENGINE", engine)));
    set.extend(plan.timeout.map(|timeout| ("ADAMANT_TIMEOUT", humantime::format_duration(timeout).to_string())));
    set
}
/// The variables that give each rank its share of the cores, where the user has not decided.
pub(super) fn thread_variables(cores: usize, local_ranks: usize, is_set: &dyn Fn(&str) -> bool) -> Vec<(&'static str, String)> {
    let share = (cores / local_ranks.max(1)).max(1).to_string();
    let mut set = Vec::new();
    // RAYON_NUM_THREADS counts where ADAMANT_NUM_THREADS is not set.
    if !is_set("ADAMANT_NUM_THREADS") && !is_set("RAYON_NUM_THREADS") {
        set.push(("ADAMANT_NUM_THREADS", share.clone()));
    }
    if !is_set("OMP_NUM_THREADS") {
        set.push(("OMP_NUM_THREADS", share));
    }
    set
}
/// Is a variable set for the ranks, by the plan or by the launcher's own variables?
fn is_set(plan: &LaunchPlan, name: &str) -> bool {
    let given = plan.environment.iter().any(|(n, value)| n == name && !value.is_empty());
    given || std::env::var_os(name).is_some_and(|value| !value.is_empty())
}
/// What the plan gives all ranks, and their share of the cores.
fn dress(command: &mut Command, plan: &LaunchPlan, local_ranks: usize) {
    command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
    command.envs(thread_variables(cores(), local_ranks, &|name| is_set(plan, name)));
}
/// The names of the variables that ranks on other hosts get too.
pub(super) fn exported(plan: &LaunchPlan, local_ranks: usize) -> Vec<String> {
    let given = plan.environment.iter().filter_map(|(name, _)| name.to_str());
    let mut names: BTreeSet<String> = given.map(String::from).collect();
    names.extend(shared_variables(plan, 0).into_iter().chain(thread_variables(cores(), local_ranks, &|name| is_set(plan, name))).map(|(name, _)| name.into()));
    let own = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.extend(own.filter(|name| name.starts_with("ADAMANT_") || ["OMP_NUM_THREADS", "RAYON_NUM_THREADS", "RUST_BACKTRACE"].contains(&name.as_str())));
    names.into_iter().collect()
}
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Starts a rank; in an elastic job with a socket to the launcher.
pub(super) fn rank(plan: &LaunchPlan, program: &Path, start: &JobStart, rank: usize, seat: Option<BorrowedFd<'_>>, guard: &OrphanGuard) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.arg0(&plan.program).args(&plan.arguments);
    dress(&mut command, plan, plan.ranks);
    // Those of a job that this launcher is itself a part of.
    for inherited in ["ADAMANT_LISTENER_FD", "ADAMANT_TOKEN_FILE", "ADAMANT_MEETING", SEAT_FD] {
        command.env_remove(inherited);
    }
    command.envs(variables(plan, rank, start.epoch, start.listener.local_addr()?.port()));
    let token = anonymous(&start.token)?;
    command.env("ADAMANT_TOKEN_FD", token.as_raw_fd().to_string());
    let mut kept = vec![token.as_raw_fd()];
    if let Some(seat) = seat {
        command.env(SEAT_FD, seat.as_raw_fd().to_string());
        kept.push(seat.as_raw_fd());
    }
    if rank == 0 || seat.is_some() {
        command.env("ADAMANT_LISTENER_FD", start.listener.as_raw_fd().to_string());
        kept.push(start.listener.as_raw_fd());
    }
    spawn(&mut command, guard, kept, ChildTies { dies_with_us: true, cores: bound_to(plan, rank) })
}
/// The cores that a rank is bound to, if it is.
#[cfg(target_os = "linux")]
fn bound_to(plan: &LaunchPlan, rank: usize) -> Option<CpuSet> {
    let there = sched_getaffinity(None).ok()?;
    let there: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| there.is_set(*core)).collect();
    let given = plan.environment.iter().find(|(name, _)| name == "ADAMANT_NUM_THREADS").map(|(_, value)| value.to_string_lossy().into_owned());
    let threads = given.or_else(|| std::env::var("ADAMANT_NUM_THREADS").ok()).and_then(|n| n.parse().ok());
    let mut set = CpuSet::new();
    plan.binding.cores_of(rank, plan.ranks, &there, threads)?.into_iter().for_each(|core| set.set(core));
    Some(set)
}
#[cfg(not(target_os = "linux"))]
type CpuSet = ();
#[cfg(not(target_os = "linux"))]
fn bound_to(_: &LaunchPlan, _: usize) -> Option<CpuSet> {
    None
}
/// What a child does before it becomes the program.
struct ChildTies {
    dies_with_us: bool,
    cores: Option<CpuSet>,
}
const KILL_AFTER: &str = "OMPI_MCA_odls_base_sigkill_timeout";
/// Starts `mpirun`, which starts the ranks.
pub(super) fn mpirun(plan: &LaunchPlan, program: &Path, arguments: &[OsString], epoch: u64, local_ranks: usize, guard: &OrphanGuard) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments);
    dress(&mut command, plan, local_ranks);
    command.envs(shared_variables(plan, epoch));
    // Open MPI 4 kills a rank so many seconds after it has asked it to end. (5 does after a quarter of one, whatever is said.)
    if !is_set(plan, KILL_AFTER) {
        command.env(KILL_AFTER, plan.grace.as_secs().max(1).to_string());
    }
    // It ends its ranks when it is asked to, which the guard does; not when it is killed, nor when it is asked twice.
    spawn(&mut command, guard, Vec::new(), ChildTies { dies_with_us: false, cores: None })
}
/// Starts a process that leads a group, which the guard knows from before the program begins.
fn spawn(command: &mut Command, guard: &OrphanGuard, kept: Vec<RawFd>, ties: ChildTies) -> io::Result<Child> {
    // A group in the background that reads from a terminal would be stopped.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let (launcher, guard_pipe) = (getpid(), guard.pipe().map(|pipe| pipe.as_raw_fd()));
    let tie = move || tie(launcher, guard_pipe, &kept, &ties);
    // SAFETY: `tie` makes system calls and asks for no memory.
    unsafe { command.pre_exec(tie) };
    command.spawn().inspect_err(|_| guard.forget_last())
}
/// In the child, before it becomes the program.
fn tie(launcher: Pid, guard: Option<RawFd>, kept: &[RawFd], ties: &ChildTies) -> io::Result<()> {
    if let Some(guard) = guard {
        // SAFETY: the launcher holds it open while it starts ranks, and this is its copy.
        let guard = unsafe { BorrowedFd::borrow_raw(guard) };
        rustix::io::write(guard, &getpid().as_raw_pid().to_ne_bytes())?;
    }
    #[cfg(target_os = "linux")]
    if let Some(cores) = &ties.cores {
        sched_setaffinity(None, cores)?;
    }
    #[cfg(target_os = "linux")]
    if ties.dies_with_us {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // It may have ended before that.
        if getppid() != Some(launcher) {
            return Err(io::ErrorKind::NotConnected.into());
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (launcher, ties.dies_with_us, &ties.cores, getppid());
    for fd in kept {
        // SAFETY: the launcher holds it open while it starts this rank.
        fcntl_setfd(unsafe { BorrowedFd::borrow_raw(*fd) }, FdFlags::empty())?;
    }
    Ok(())
}

/// A file without a name that holds a text, at its begin. Each rank gets one of its own: who reads one that is shared moves it for all.
fn anonymous(text: &str) -> io::Result<OwnedFd> {
    let mut file = without_name()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}
#[cfg(target_os = "linux")]
fn without_name() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(memfd_create("adamant-token", MemfdFlags::CLOEXEC)?.into())
}
#[cfg(not(target_os = "linux"))]
fn without_name() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let path = std::env::temp_dir().join(format!("adamant-{}", super::fresh_token()?));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_without_a_thread_or_with_the_threads_of_all() {
        for (cores, ranks, share) in [(16, 4, "4"), (7, 2, "3"), (2, 64, "1"), (1, 1, "1"), (8, 0, "8")] {
            let want = vec![("ADAMANT_NUM_THREADS", share.to_string()), ("OMP_NUM_THREADS", share.to_string())];
            assert_eq!(thread_variables(cores, ranks, &|_| false), want);
        }
        assert_eq!(thread_variables(8, 2, &|name| name == "OMP_NUM_THREADS"), [("ADAMANT_NUM_THREADS", "4".into())]);
        for decided in ["ADAMANT_NUM_THREADS", "RAYON_NUM_THREADS"] {
            assert_eq!(thread_variables(8, 2, &|name| name == decided), [("OMP_NUM_THREADS", "4".into())]);
        }
    }
}
