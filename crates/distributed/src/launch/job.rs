//! The life of a job: its starts, the ends of its ranks, and what follows from them.
//!
//! ```text
//! running --a rank fails--> hearing: the others may say what they saw --SPEAK--> asked: SIGTERM --grace--> killed: SIGKILL
//!    '-----the launcher is told to end: the signal is passed on-------------------^  (told twice: killed at once)
//! ```
use super::{
    FirstCause, LaunchEnded, LaunchError, LaunchOutput, LaunchPlan, LaunchStop, RankExit, RankStream, elastic,
    exits::Exits,
    guard::OrphanGuard,
    mpirun::{self, MpirunKind},
    output::{LineSource, OutputThread, RankPipe, SharedOutput},
    program::find_program,
    start::{self, JobStart},
};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::Child,
    sync::Arc,
    time::{Duration, Instant},
};

/// After a failure the other ranks have so long to see it and say so, before they are asked to end.
pub(super) const SPEAK: Duration = Duration::from_secs(1);
/// The launcher looks so often whether it was told to end.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// The exit code of a rank that lost another one: not what went wrong, but what follows from it.
pub(super) const PEER_LOST: RankExit = RankExit::Code(7);
/// The longest pause before a restart.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// `mpirun` gives its ranks the grace, and then has so long to end itself.
const AFTER_GRACE: Duration = Duration::from_secs(2);

/// What is started: found once, before the first start.
enum Program {
    Ranks(PathBuf),
    Mpirun { at: PathBuf, kind: MpirunKind, arguments: Vec<OsString>, local_ranks: usize },
}
/// How one start ended.
struct StartEnded {
    cause: Option<FirstCause>,
    output: Option<io::Error>,
}

pub(super) fn run(plan: &LaunchPlan, output: Box<dyn LaunchOutput>, stop: &LaunchStop) -> Result<LaunchEnded, LaunchError> {
    plan.check()?;
    let program = find(plan)?;
    if let (Some(elastic), Program::Ranks(at)) = (plan.elastic, &program) {
        return elastic::run(plan, elastic, at, output, stop);
    }
    if let Some(folder) = &plan.log_folder {
        fs::create_dir_all(folder).map_err(|error| LaunchError::Log { path: folder.clone(), error })?;
    }
    let output: SharedOutput = Arc::new(Mutex::new(output));
    let is_mpi = matches!(program, Program::Mpirun { .. });
    let guard = OrphanGuard::start(if is_mpi { 1 } else { plan.ranks }, is_mpi.then(|| plan.grace + AFTER_GRACE));
    let guard = guard.map_err(|error| LaunchError::System { what: "no process to watch over the ranks", error })?;
    let mut broken = None;
    let mut delay = plan.restart_delay;
    for epoch in 0.. {
        let ended = run_once(plan, &program, epoch, &guard, &output, stop)?;
        broken = broken.or(ended.output);
        let left = u64::from(plan.max_restarts).saturating_sub(epoch);
        let again = stop.asked().is_none() && left > 0 && ended.cause.as_ref().is_some_and(|cause| cause.exit.is_worth_a_restart());
        if let Some(cause) = &ended.cause {
            note(&output, &cause.to_string());
        }
        if again {
            let pause = humantime::format_duration(delay);
            note(&output, &format!("starting all {} ranks again in {pause}: restart {} of {}", plan.ranks, epoch + 1, plan.max_restarts));
            let until = Instant::now() + delay;
            while Instant::now() < until && stop.asked().is_none() {
                std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
            }
            delay = (delay * 2).min(LONGEST_DELAY);
            if stop.asked().is_none() {
                continue;
            }
        }
        let code = match (stop.asked(), &ended.cause) {
            (Some(signal), _) => RankExit::Signal(signal).code(),
            (None, Some(cause)) => cause.exit.code(),
            (None, None) => 0,
        };
        return Ok(LaunchEnded { code, signal: stop.asked(), cause: ended.cause, starts: epoch + 1, output: broken });
    }
    Err(LaunchError::Plan("a job of endless restarts".into()))
}
pub(super) fn note(output: &SharedOutput, text: &str) {
    // Whoever writes may wait for a terminal that takes nothing.
    if let Some(mut output) = output.try_lock_for(Duration::from_secs(1)) {
        output.note(text);
    }
}
fn find(plan: &LaunchPlan) -> Result<Program, LaunchError> {
    let given = plan.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let path = given.or_else(|| std::env::var_os("PATH"));
    let path: Option<&OsStr> = path.as_deref();
    let program = match find_program(&plan.program, path) {
        // It may be there on the other hosts alone.
        Err(LaunchError::NotFound { .. }) if plan.is_mpi() && !plan.hosts.is_empty() => PathBuf::from(&plan.program),
        found => found?,
    };
    if !plan.is_mpi() {
        return Ok(Program::Ranks(program));
    }
    let (at, kind) = mpirun::find_mpirun(path)?;
    let most = plan.host_ranks()?.into_iter().map(|(_, ranks)| ranks).max();
    let local_ranks = most.unwrap_or(plan.ranks);
    let exported = start::exported(plan, local_ranks);
    let exported: Vec<&str> = exported.iter().map(String::as_str).collect();
    let is_allotted = mpirun::is_allotted(&|name| std::env::var_os(name).is_some());
    let arguments = mpirun::mpirun_arguments(kind, plan, &program, &exported, is_allotted)?;
    Ok(Program::Mpirun { at, kind, arguments, local_ranks })
}

/// A process of the job: a rank, or `mpirun`.
pub(super) struct Process {
    pub(super) rank: Option<usize>,
    pub(super) child: Child,
    pub(super) ended: Option<RankExit>,
}
impl Process {
    pub(super) fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }
    /// While it is not reaped, its number is nobody else's.
    pub(super) fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            let _ = kill_process_group(self.group(), signal);
        }
    }
    /// It has ended: so does what it has left in its group.
    pub(super) fn reap(&mut self, guard: &OrphanGuard) -> io::Result<RankExit> {
        let _ = kill_process_group(self.group(), Signal::KILL);
        guard.forget(self.group());
        let status = self.child.wait()?;
        let exit = status.code().map(RankExit::Code).or(status.signal().map(RankExit::Signal)).unwrap_or(RankExit::Code(1));
        self.ended = Some(exit);
        Ok(exit)
    }
}
/// The processes of one start; dropped, none of them is left.
struct Processes<'g> {
    all: Vec<Process>,
    guard: &'g OrphanGuard,
}
impl Processes<'_> {
    fn signal(&self, signal: Signal) {
        self.all.iter().for_each(|process| process.signal(signal));
    }
    fn is_any_left(&self) -> bool {
        self.all.iter().any(|process| process.ended.is_none())
    }
}
impl Drop for Processes<'_> {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        for process in self.all.iter_mut().filter(|process| process.ended.is_none()) {
            let _ = process.reap(self.guard);
        }
    }
}

fn run_once(
    plan: &LaunchPlan,
    program: &Program,
    epoch: u64,
    guard: &OrphanGuard,
    output: &SharedOutput,
    stop: &LaunchStop,
) -> Result<StartEnded, LaunchError> {
    let system = |what| move |error| LaunchError::System { what, error };
    let mut processes = Processes { all: Vec::new(), guard };
    let mut streams = Vec::new();
    let mut exits = Exits::new().map_err(system("the ends of ranks cannot be seen"))?;
    let common = JobStart::new(epoch)?;
    let count = if let Program::Mpirun { .. } = program { 1 } else { plan.ranks };
    for number in 0..count {
        let failed = |error: io::Error| match (program, error.kind()) {
            // A script without an interpreter, a program for another machine: none was started, as this is the first.
            (Program::Ranks(at), _) if number == 0 && is_of_the_file(&error) => {
                LaunchError::NotExecutable { program: at.display().to_string(), reason: error.to_string() }
            }
            _ => LaunchError::Start { rank: number, error },
        };
        let (writer, child) = match program {
            Program::Ranks(at) => (LineSource::Rank(number), start::rank(plan, at, &common, number, None, guard)),
            Program::Mpirun { at, kind, arguments, local_ranks } => (LineSource::Mpirun(*kind), start::mpirun(plan, at, arguments, epoch, *local_ranks, guard)),
        };
        let rank = if let LineSource::Rank(rank) = writer { Some(rank) } else { None };
        let mut child = child.map_err(failed)?;
        let pipes = (child.stdout.take(), child.stderr.take());
        processes.all.push(Process { rank, child, ended: None });
        let process = processes.all.len() - 1;
        exits.watch(processes.all[process].group(), number as u32).map_err(|error| LaunchError::Start { rank: number, error })?;
        let log = plan.log_folder.as_ref().map(|folder| log_file(folder.join(log_name(rank, epoch)))).transpose()?;
        if let (Some(out), Some(err)) = pipes {
            streams.push(RankPipe { writer, which: RankStream::Out, from: out.into(), log: log.clone() });
            streams.push(RankPipe { writer, which: RankStream::Err, from: err.into(), log });
        }
    }
    // Rank 0 has the socket: when it is gone, who calls there is refused.
    drop(common);
    let lines = OutputThread::start(streams, output.clone()).map_err(system("the ranks' lines cannot be read"))?;
    let has_failed = || lines.has_told_of_a_failure();
    let mut ends = wait(plan, &mut processes, &mut exits, &has_failed, stop).map_err(system("the ends of ranks cannot be seen"))?;
    drop(processes);
    let since = Instant::now();
    let mut read = lines.finish(&|| stop.asked().is_some() && since.elapsed() > SPEAK);
    if stop.asked().is_some() {
        // What failed because it was told to end is no failure.
        ends.retain(|end| !end.asked);
    } else {
        // What its ranks say comes before what `mpirun` makes of it.
        ends.splice(0..0, read.ended.iter().map(|(rank, exit)| ProcessEnd { rank: Some(*rank), exit: *exit, asked: false }));
    }
    let cause =
        first_cause(&ends).map(|end| FirstCause { rank: end.rank, exit: end.exit, words: read.last.remove(&end.rank).map(Vec::from).unwrap_or_default() });
    Ok(StartEnded { cause, output: read.failed })
}
pub(super) fn is_of_the_file(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error();
    [Errno::NOEXEC, Errno::ACCESS, Errno::NOENT, Errno::TXTBSY, Errno::ISDIR, Errno::LOOP].iter().any(|of| Some(of.raw_os_error()) == code)
}
fn log_name(rank: Option<usize>, epoch: u64) -> String {
    let name = rank.map_or("mpirun".into(), |rank| format!("rank-{rank}"));
    if epoch == 0 { format!("{name}.log") } else { format!("{name}.restart-{epoch}.log") }
}
pub(super) fn log_file(path: PathBuf) -> Result<Arc<File>, LaunchError> {
    File::create(&path).map(Arc::new).map_err(|error| LaunchError::Log { path, error })
}

/// The end of a process of the job.
#[derive(Clone, Copy, Debug)]
struct ProcessEnd {
    rank: Option<usize>,
    exit: RankExit,
    /// after it was asked to
    asked: bool,
}
/// Waits until all have ended; their ends in the order in which they happened.
fn wait(plan: &LaunchPlan, processes: &mut Processes<'_>, exits: &mut Exits, has_failed: &dyn Fn() -> bool, stop: &LaunchStop) -> io::Result<Vec<ProcessEnd>> {
    let (mut ends, mut heard) = (Vec::new(), 0);
    let grace = plan.grace + if plan.is_mpi() { AFTER_GRACE } else { Duration::ZERO };
    let (mut ask_at, mut kill_at): (Option<Instant>, Option<Instant>) = (None, None);
    while processes.is_any_left() {
        for number in exits.wait(LOOK)? {
            let (process, guard) = (number as usize, processes.guard);
            let Some(one) = processes.all.get_mut(process).filter(|one| one.ended.is_none()) else { continue };
            let end = ProcessEnd { rank: one.rank, exit: one.reap(guard)?, asked: kill_at.is_some() };
            ends.push(end);
        }
        if ask_at.is_none() && (has_failed() || ends.iter().any(|end| end.exit.is_failure())) {
            ask_at = Some(Instant::now() + SPEAK);
        }
        let (now, times) = (Instant::now(), stop.times());
        if let Some(signal) = stop.asked().filter(|_| times > heard) {
            if heard == 0 {
                processes.signal(Signal::from_named_raw(signal).unwrap_or(Signal::TERM));
                kill_at = kill_at.or(Some(now + grace));
            }
            if times > 1 {
                kill_at = Some(now);
            }
            heard = times;
        }
        if kill_at.is_none() && ask_at.is_some_and(|at| now >= at) {
            processes.signal(Signal::TERM);
            kill_at = Some(now + grace);
        }
        if kill_at.is_some_and(|at| now >= at) {
            processes.signal(Signal::KILL);
        }
    }
    Ok(ends)
}
/// The failure that came first, and was neither asked for nor what follows from another one; if all are, the first of them.
fn first_cause(ends: &[ProcessEnd]) -> Option<ProcessEnd> {
    let was_ended = |end: &ProcessEnd| matches!(end.exit, RankExit::Code(143) | RankExit::Signal(9 | 15));
    let failures = || ends.iter().filter(|end| end.exit.is_failure());
    let own = failures().find(|end| !end.asked && end.exit != PEER_LOST);
    // One that takes long to end after it has told the others.
    let late = || failures().find(|end| end.asked && end.exit != PEER_LOST && !was_ended(end));
    own.or_else(late).or_else(|| failures().next()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_another_failure_hides() {
        let end = |rank, exit, asked| ProcessEnd { rank: Some(rank), exit, asked };
        let cases: [(&[(usize, RankExit, bool)], Option<usize>); 8] = [
            (&[], None),
            (&[(0, RankExit::Code(0), false)], None),
            (&[(0, RankExit::Code(0), false), (2, RankExit::Code(3), false), (1, RankExit::Code(1), false)], Some(2)),
            // Those that lost a peer end before the one that failed.
            (&[(0, PEER_LOST, false), (1, PEER_LOST, false), (2, RankExit::Signal(9), false)], Some(2)),
            (&[(0, PEER_LOST, false), (1, PEER_LOST, false), (2, RankExit::Signal(15), true)], Some(0)),
            (&[(0, PEER_LOST, false), (1, RankExit::Code(143), true), (2, RankExit::Code(5), true)], Some(2)),
            (&[(1, RankExit::Code(4), false), (0, RankExit::Signal(15), true), (2, RankExit::Code(1), true)], Some(1)),
            (&[(1, PEER_LOST, false), (0, RankExit::Signal(9), true)], Some(1)),
        ];
        for (ends, want) in cases {
            let ends: Vec<ProcessEnd> = ends.iter().map(|(rank, exit, asked)| end(*rank, *exit, *asked)).collect();
            assert_eq!(first_cause(&ends).and_then(|end| end.rank), want, "{ends:?}");
        }
    }
}
