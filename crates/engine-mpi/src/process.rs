//! MPI in this process: found and initialised once, ended once.
//!
//! ```text
//! the first open -> a library is found -> the keeper's thread: MPI_Init_thread -> looks after idle groups -> at the process' exit: MPI_Finalize
//! ```
//!
//! MPI cannot be initialised again once it has been ended, and ending it waits for all ranks. So it is ended when the process ends, by the
//! thread that initialised it, and only once every other rank has said that its program ends as well; a rank that was lost never
//! says so, and then this process ends without.
use crate::{
    abi::AbiTable,
    functions::{MpiResult, OpenedLibrary},
    group::MpiCommunicator,
    lines::GroupLines,
    select::{self, LibraryCandidate, MpiFamily},
    transfer::SpareBuffers,
    wire::{PendingRequest, Wire, at_exit},
};
use adamant_ir::ErrorKind;
use adamant_runtime::communicator::EngineRequest;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc, OnceLock,
        atomic::Ordering::SeqCst,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// Bytes that MPI adds at once.
const FAST_CHUNK: usize = 1 << 20;
/// How often idle groups are looked after, and how often while sends are on their way.
const IDLE: Duration = Duration::from_millis(50);
const SENDING: Duration = Duration::from_micros(200);
/// So long the end waits for other ranks, where a group has ended by an error that is not a lost rank.
const AFTER_ERROR: Duration = Duration::from_secs(2);
/// So long `MPI_Finalize` may take, once all ranks have left.
const FINALIZE: Duration = Duration::from_secs(10);

enum Job {
    Split { comm: usize, member: Option<usize>, made: Sender<MpiResult<usize>> },
    Look,
    Leave(Sender<LeaveStage>),
}
#[derive(PartialEq)]
enum LeaveStage {
    Finalizing,
    Done,
}
/// A send that nobody waits for.
struct Outgoing {
    comm: usize,
    bytes: usize,
    pending: PendingRequest<'static>,
}
/// MPI in this process.
pub(crate) struct MpiProcess {
    wire: &'static Wire,
    table: &'static AbiTable,
    library: String,
    rank_and_size: (usize, usize),
    /// Did this crate initialise it?
    ours: bool,
    jobs: Mutex<Sender<Job>>,
    groups: Mutex<Vec<Arc<GroupLines>>>,
    outgoing: Mutex<Vec<Outgoing>>,
    fast: SpareBuffers,
}
/// A library that can be used, before MPI is initialised.
struct FoundLibrary {
    wire: &'static Wire,
    table: &'static AbiTable,
    library: String,
}

/// The library that is taken, or why none is.
fn found() -> Result<&'static FoundLibrary, ErrorKind> {
    static FOUND: OnceLock<Result<FoundLibrary, ErrorKind>> = OnceLock::new();
    FOUND.get_or_init(|| find(&|name| std::env::var(name).ok())).as_ref().map_err(Clone::clone)
}
fn find(variable: &dyn Fn(&str) -> Option<String>) -> Result<FoundLibrary, ErrorKind> {
    let launched = select::launcher(variable);
    let mut looked_for = Vec::new();
    for candidate in select::candidates(variable) {
        let (opened, from) = match &candidate {
            LibraryCandidate::InProcess => (OpenedLibrary::open(None), "in the process".to_string()),
            LibraryCandidate::Library(path) => (OpenedLibrary::open(Some(path.as_os_str())), path.display().to_string()),
        };
        let opened = match opened {
            Ok(opened) => opened,
            // What is not there is the common case: only the name is told.
            Err(why) => {
                if candidate != LibraryCandidate::InProcess {
                    let why = if why.contains("No such file") || why.contains("no such file") { "not found".into() } else { why };
                    looked_for.push(format!("{from} ({why})"));
                }
                continue;
            }
        };
        // One that is there decides: another one beside it would be a second MPI.
        if let Some(conflict) = select::conflict(launched, MpiFamily::of(&opened.told), &from) {
            return Err(ErrorKind::EngineAbsent(conflict));
        }
        let told = opened.told.split([',', '\n']).next().unwrap_or_default().trim().to_string();
        let unusable = |why| ErrorKind::EngineAbsent(format!("the MPI library {from} cannot be used: {why}; {}", select::advice(launched)));
        let functions = opened.functions().map_err(unusable)?;
        let table = functions.table();
        let library = format!("{from} ({told}, {})", table.name);
        return Ok(FoundLibrary { wire: Box::leak(Box::new(Wire::new(functions))), table, library });
    }
    let looked_for = looked_for.join(", ");
    Err(ErrorKind::EngineAbsent(format!("no MPI library: looked for {looked_for}; {}", select::advice(launched))))
}
/// Is there a library that can be used here?
///
/// # Errors
/// None: what was looked for, and what to install.
pub fn present() -> Result<(), ErrorKind> {
    found().map(drop)
}

static PROCESS: OnceLock<MpiProcess> = OnceLock::new();
/// MPI, initialised.
fn process(timeout: Duration) -> Result<&'static MpiProcess, ErrorKind> {
    static ONE: Mutex<Option<ErrorKind>> = Mutex::new(None);
    let found = found()?;
    let mut failed = ONE.lock();
    if let Some(failed) = &*failed {
        return Err(failed.clone());
    }
    if let Some(process) = PROCESS.get() {
        return Ok(process);
    }
    let (ready, is_ready) = channel();
    let (jobs, to_do) = channel();
    let keeper = thread::Builder::new().name("adamant-mpi".into()).spawn(move || keep(found, &ready, jobs, &to_do));
    let answer = match keeper {
        Err(e) => Err(ErrorKind::EngineAbsent(format!("no thread for MPI: {e}"))),
        Ok(_) => match is_ready.recv_timeout(timeout) {
            Ok(answer) => answer.map_err(|why| ErrorKind::EngineAbsent(format!("the MPI library {} cannot be used: {why}", found.library))),
            Err(_) => {
                let what = "MPI_Init_thread has not returned, as if not all ranks had been started";
                Err(ErrorKind::EngineAbsent(format!("the MPI library {}: {what}, in {timeout:?}", found.library)))
            }
        },
    };
    if let Err(why) = &answer {
        *failed = Some(why.clone());
        found.wire.kill(why);
    }
    answer.and_then(|()| PROCESS.get().ok_or_else(|| ErrorKind::Internal("MPI is initialised and not there".into())))
}
/// A rank's group on MPI: all ranks of the job open it.
///
/// # Errors
/// [`ErrorKind::EngineAbsent`]: no library, another ABI, missing functions, a library of one MPI under the launcher of another, a process
/// that was not started as one of so many ranks; a rank that does not open it.
pub fn open_group(request: &EngineRequest) -> Result<Arc<MpiCommunicator>, ErrorKind> {
    let process = process(request.timeout)?;
    let (rank, size) = process.rank_and_size;
    if (rank, size) != (request.rank, request.size) {
        let hint = "start all ranks by the launcher of that MPI (mpirun, srun)";
        let what = format!("the MPI library {} says rank {rank} of {size}, and this is rank {} of {}", process.library, request.rank, request.size);
        return Err(ErrorKind::EngineAbsent(format!("{what}; {hint}")));
    }
    let lost = |why: String| ErrorKind::PeerLost { rank: usize::from(rank == 0), op: "open".into(), seq: 0, why };
    let stuck = || ErrorKind::Internal("another thread is inside MPI".into());
    let (mut made, end) = (None, Instant::now() + request.timeout);
    let comm = loop {
        let turn = process.wire.turn(request.timeout)?.ok_or_else(stuck)?;
        let mut pending = match made.take() {
            Some(pending) => pending,
            None => turn.begin_dup(None).map_err(lost)?,
        };
        if turn.is_done(&mut pending).map_err(lost)? {
            let comm = turn.dup_made(pending).ok_or_else(stuck)?;
            turn.errors_return(Some(comm)).map_err(lost)?;
            break comm;
        }
        made = Some(pending);
        drop(turn);
        if Instant::now() > end {
            return Err(lost(format!("not all ranks have opened the group in {:?}", request.timeout)));
        }
        thread::yield_now();
    };
    Ok(MpiCommunicator::new(GroupLines::new(process.wire, comm, (rank, size), (0..size).collect(), (request.timeout, request.local.0)), process))
}

impl MpiProcess {
    pub(crate) fn table(&self) -> &'static AbiTable {
        self.table
    }
    pub(crate) fn library(&self) -> String {
        self.library.clone()
    }
    pub(crate) fn fast_chunk(&self) -> usize {
        FAST_CHUNK
    }
    pub(crate) fn fast_buffers(&self) -> &SpareBuffers {
        &self.fast
    }
    /// Has its notes read while nobody calls it.
    pub(crate) fn remember(&self, lines: &Arc<GroupLines>) {
        self.groups.lock().push(lines.clone());
    }
    fn give(&self, job: Job) {
        // The keeper lives as long as the process.
        let _ = self.jobs.lock().send(job);
    }
    /// Makes a communicator, on the keeper's thread.
    pub(crate) fn split(&self, comm: usize, member: Option<usize>) -> Receiver<MpiResult<usize>> {
        let (made, receiver) = channel();
        self.give(Job::Split { comm, member, made });
        receiver
    }
    /// May so many more bytes be on their way?
    pub(crate) fn has_capacity(&self, comm: usize, bytes: usize, most: usize) -> bool {
        let outgoing = self.outgoing.lock();
        let under_way: usize = outgoing.iter().filter(|out| out.comm == comm).map(|out| out.bytes).sum();
        under_way == 0 || under_way + bytes <= most
    }
    /// Sends that nobody waits for.
    pub(crate) fn look_after(&self, comm: usize, begun: Vec<PendingRequest<'static>>, bytes: usize) {
        let each = bytes / begun.len().max(1);
        self.outgoing.lock().extend(begun.into_iter().map(|pending| Outgoing { comm, bytes: each, pending }));
        self.give(Job::Look);
    }
    fn is_sending(&self, comm: usize) -> bool {
        self.outgoing.lock().iter().any(|out| out.comm == comm)
    }
    /// Looks after sends and notes. Is anything on its way?
    fn look(&self) -> bool {
        let Ok(Some(turn)) = self.wire.turn(Duration::from_millis(1)) else { return false };
        self.outgoing.lock().retain_mut(|out| matches!(turn.is_done(&mut out.pending), Ok(false)));
        let groups = self.groups.lock().clone();
        for lines in groups {
            lines.collect(&turn);
            lines.hear_while_idle();
            if lines.is_dropped.load(SeqCst) && !self.is_sending(lines.comm) {
                lines.leave(&turn);
            }
        }
        !self.outgoing.lock().is_empty()
    }
    /// Leaves all groups, and waits until the programs of the other ranks have ended: may MPI be ended?
    fn leave(&self) -> bool {
        let groups = self.groups.lock().clone();
        let ended: Vec<ErrorKind> = groups.iter().filter_map(|lines| lines.state.ended()).collect();
        let in_call = || groups.iter().any(|lines| lines.in_call.load(SeqCst));
        if in_call() {
            for lines in groups.iter().filter(|lines| lines.in_call.load(SeqCst)) {
                lines.fail(ErrorKind::PeerFailed { rank: lines.rank, message: "its program ends".into() });
            }
        }
        let is_lost = ended.iter().any(|kind| matches!(kind, ErrorKind::PeerLost { .. }));
        let (start, mut asked) = (Instant::now(), Instant::now());
        let timeout = groups.iter().map(|lines| lines.timeout).max().unwrap_or_default();
        while !self.wire.is_dead() {
            self.look();
            let Ok(Some(turn)) = self.wire.turn(Duration::from_millis(100)) else { return false };
            for lines in groups.iter().filter(|lines| !self.is_sending(lines.comm)) {
                lines.end(&turn);
            }
            if groups.iter().all(|lines| lines.all_ending() && lines.post_is_sent(&turn)) && !in_call() && self.outgoing.lock().is_empty() {
                return true;
            }
            // Others may work on for long; who answers lives.
            if asked.elapsed() > (timeout / 4).min(Duration::from_secs(1)) {
                asked = Instant::now();
                groups.iter().for_each(|lines| lines.ask(&turn));
            }
            drop(turn);
            let silent = groups.iter().map(|lines| lines.silent_for(start)).max().unwrap_or_default();
            if is_lost || silent > timeout || (!ended.is_empty() && start.elapsed() > AFTER_ERROR) {
                return false;
            }
            thread::sleep(if start.elapsed() < Duration::from_millis(100) { SENDING } else { Duration::from_millis(5) });
        }
        false
    }
}
/// The life of the thread that initialises MPI and ends it.
fn keep(found: &'static FoundLibrary, ready: &Sender<MpiResult<()>>, jobs: Sender<Job>, to_do: &Receiver<Job>) {
    let begun = || {
        let turn = found.wire.turn(Duration::from_secs(1)).map_err(|kind| format!("{kind:?}"))?.ok_or("another thread is inside MPI")?;
        let ours = turn.init()?;
        if ours {
            turn.errors_return(None)?;
        }
        Ok((ours, turn.rank_and_size(None)?))
    };
    match begun() {
        Ok((ours, rank_and_size)) => {
            let process = MpiProcess {
                wire: found.wire,
                table: found.table,
                library: found.library.clone(),
                rank_and_size,
                ours,
                jobs: Mutex::new(jobs),
                groups: Mutex::default(),
                outgoing: Mutex::default(),
                fast: SpareBuffers::default(),
            };
            let process = PROCESS.get_or_init(|| process);
            if ours {
                at_exit(end_of_process);
            }
            let _ = ready.send(Ok(()));
            keep_on(process, to_do);
        }
        Err(why) => drop(ready.send(Err(why))),
    }
}
fn keep_on(process: &'static MpiProcess, to_do: &Receiver<Job>) {
    let mut pause = IDLE;
    loop {
        match to_do.recv_timeout(pause) {
            Ok(Job::Split { comm, member, made }) => {
                let turn = process.wire.turn(FINALIZE).ok().flatten();
                let split = turn.ok_or_else(|| "another thread is inside MPI".into()).and_then(|turn| turn.split(comm, member));
                let _ = made.send(split);
            }
            Ok(Job::Leave(told)) => {
                if process.ours && process.leave() {
                    let _ = told.send(LeaveStage::Finalizing);
                    if let Ok(Some(turn)) = process.wire.turn(Duration::from_millis(100)) {
                        // Nothing can be done about an error now.
                        let _ = turn.finalize();
                    }
                }
                let _ = told.send(LeaveStage::Done);
                return;
            }
            Ok(Job::Look) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        pause = if process.look() { SENDING } else { IDLE };
    }
}
extern "C" fn end_of_process() {
    let Some(process) = PROCESS.get() else { return };
    let (told, answers) = channel();
    process.give(Job::Leave(told));
    if answers.recv() == Ok(LeaveStage::Finalizing) {
        let _ = answers.recv_timeout(FINALIZE);
    }
}
