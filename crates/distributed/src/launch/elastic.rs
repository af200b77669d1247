//! The life of a job whose ranks come and go. What ranks and launcher say to each other, and why so: [`crate::elastic`].
//!
//! ```text
//! a rank ends --well--> over                                    (rank 0 of the epoch: the job is done, and nobody is started or met any more)
//!             --asked to (a signal)--> all end: who waits is told, the others see it in their step
//!             --exit 7, 2, 126, 127--> the job has failed: as in a job that is not elastic
//!             --else--> the others meet; a newcomer takes its place  --fails too often--> that place is left out
//! ```
//!
//! Exit code 7 ends the job: a rank says it where it did *not* get a group again, or where another rank failed and said so itself. What a rank says
//! of its own work (a full disk, a loss that is no number) would come again on any other one.
use super::{
    ElasticPlan, FirstCause, LaunchEnded, LaunchError, LaunchOutput, LaunchPlan, LaunchStop, RankExit, RankStream,
    epochs::{AfterFailure, SeatState, SlotFailures, is_called, who_meets},
    exits::Exits,
    guard::OrphanGuard,
    job::{LOOK, PEER_LOST, Process, SPEAK, is_of_the_file, log_file, note},
    output::{LineSource, OutputThread, RankPipe, SharedOutput},
    start::{self, JobStart},
};
use crate::elastic::words::{LauncherSays, SeatLines, SeatSays};
use parking_lot::Mutex;
use rustix::{fd::AsFd, process::Signal};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// A rank that another one has given up is killed after so long, if it has not seen by then that its group is over.
const GIVEN_UP: Duration = Duration::from_millis(250);
/// After an end that was asked for, ranks have so long to come to it in their step, before the launcher asks them itself.
const BY_THEMSELVES: Duration = Duration::from_secs(2);

/// A rank that lives, as the launcher sees it.
struct LivingRank {
    slot: usize,
    process: Process,
    stream: UnixStream,
    lines: SeatLines,
    state: SeatState,
    given_up: Option<Instant>,
    called: bool,
    /// since when it wants to meet
    wants: Instant,
}
impl LivingRank {
    fn say(&mut self, says: &LauncherSays) {
        // A rank that reads nothing any more is about to end, or is given up by the others.
        let _ = self.stream.write_all(says.to_line().as_bytes());
    }
    /// What it has said since this was last asked.
    fn hear(&mut self) -> Vec<SeatSays> {
        let mut all = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(n) if n > 0 => all.extend(self.lines.push(&buffer[..n]).into_iter().flatten().filter_map(|line| SeatSays::read(&line))),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => return all,
            }
        }
    }
}
/// Why the job is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JobEnding {
    /// the launcher was told to
    Told,
    /// a rank was, by this signal
    Asked(i32),
    /// a rank has failed as all would
    Failed,
    /// rank 0 is done
    Done,
}
/// A place among the ranks.
#[derive(Default)]
struct RankSlot {
    failures: SlotFailures,
    /// when it is to be started
    due: Option<Instant>,
    starts: u64,
}
struct ElasticJob<'j> {
    plan: &'j LaunchPlan,
    elastic: ElasticPlan,
    program: &'j Path,
    guard: &'j OrphanGuard,
    output: &'j SharedOutput,
    start: JobStart,
    exits: Exits,
    slots: Vec<RankSlot>,
    living: BTreeMap<u32, LivingRank>,
    lines: Vec<(usize, OutputThread)>,
    next: u32,
    /// the epoch of those who met last, and how many they were
    epoch: Option<u64>,
    word: Option<Vec<u8>>,
    restarts: u32,
    has_begun: bool,
    /// a rank has ended well: those who are left end as well, however few they are
    is_ending_well: bool,
    ending: Option<(JobEnding, Instant)>,
    was_asked: bool,
    ends: Vec<(usize, RankExit)>,
    nobody_comes: bool,
}

/// Runs a job to its end.
pub(super) fn run(
    plan: &LaunchPlan,
    elastic: ElasticPlan,
    program: &Path,
    output: Box<dyn LaunchOutput>,
    stop: &LaunchStop,
) -> Result<LaunchEnded, LaunchError> {
    let system = |what| move |error| LaunchError::System { what, error };
    if let Some(folder) = &plan.log_folder {
        fs::create_dir_all(folder).map_err(|error| LaunchError::Log { path: folder.clone(), error })?;
    }
    let output: SharedOutput = Arc::new(Mutex::new(output));
    let guard = OrphanGuard::start(plan.ranks, None).map_err(system("no process to watch over the ranks"))?;
    let mut job = ElasticJob {
        plan,
        elastic,
        program,
        guard: &guard,
        output: &output,
        start: JobStart::new(0)?,
        exits: Exits::new().map_err(system("the ends of ranks cannot be seen"))?,
        slots: (0..plan.ranks).map(|_| RankSlot { due: Some(Instant::now()), ..RankSlot::default() }).collect(),
        living: BTreeMap::new(),
        lines: Vec::new(),
        next: 0,
        epoch: None,
        word: None,
        restarts: 0,
        has_begun: false,
        is_ending_well: false,
        ending: None,
        was_asked: false,
        ends: Vec::new(),
        nobody_comes: false,
    };
    job.live(stop)?;
    Ok(job.ended(stop))
}
impl ElasticJob<'_> {
    /// Until no rank is left and none is to come.
    fn live(&mut self, stop: &LaunchStop) -> Result<(), LaunchError> {
        let mut heard = 0;
        loop {
            self.start_those_due()?;
            if self.living.is_empty() && self.slots.iter().all(|slot| slot.due.is_none()) {
                return Ok(());
            }
            let sockets: Vec<_> = self.living.values().map(|rank| rank.stream.as_fd()).collect();
            let seen = self.exits.wait_or(LOOK, &sockets);
            drop(sockets);
            let ended = seen.map_err(|error| LaunchError::System { what: "the ends of ranks cannot be seen", error })?;
            self.hear();
            for number in ended {
                self.rank_ended(number).map_err(|error| LaunchError::System { what: "the end of a rank cannot be seen", error })?;
            }
            if let Some(signal) = stop.asked().filter(|_| stop.times() > heard) {
                if heard == 0 {
                    self.end(JobEnding::Told);
                    self.signal(Signal::from_named_raw(signal).unwrap_or(Signal::TERM));
                }
                heard = stop.times();
            }
            self.look_after_ending(stop);
            if self.ending.is_none_or(|(ending, _)| matches!(ending, JobEnding::Told | JobEnding::Done)) {
                self.let_meet();
            }
        }
    }
    fn signal(&self, signal: Signal) {
        self.living.values().for_each(|rank| rank.process.signal(signal));
    }
    fn start_those_due(&mut self) -> Result<(), LaunchError> {
        let now = Instant::now();
        for slot in 0..self.slots.len() {
            if self.slots[slot].due.is_some_and(|due| due <= now) {
                self.slots[slot].due = None;
                self.start_rank(slot)?;
            }
        }
        self.has_begun = true;
        Ok(())
    }
    fn start_rank(&mut self, slot: usize) -> Result<(), LaunchError> {
        let number = self.next;
        self.next += 1;
        let failed = |error: io::Error| match is_of_the_file(&error) && number == 0 {
            true => LaunchError::NotExecutable { program: self.program.display().to_string(), reason: error.to_string() },
            false => LaunchError::Start { rank: slot, error },
        };
        let (stream, theirs) = UnixStream::pair().map_err(failed)?;
        let mut child = start::rank(self.plan, self.program, &self.start, slot, Some(theirs.as_fd()), self.guard).map_err(failed)?;
        drop(theirs);
        let pipes = (child.stdout.take(), child.stderr.take());
        let process = Process { rank: Some(slot), child, ended: None };
        let group = process.group();
        let mut rank =
            LivingRank { slot, process, stream, lines: SeatLines::default(), state: SeatState::Starting, given_up: None, called: false, wants: Instant::now() };
        let is_watched = rank.stream.set_nonblocking(true).and_then(|()| self.exits.watch(group, number));
        rank.say(&LauncherSays::Hello { word: self.word.clone() });
        self.living.insert(number, rank);
        is_watched.map_err(|error| LaunchError::Start { rank: slot, error })?;
        let starts = self.slots[slot].starts;
        self.slots[slot].starts += 1;
        let name = if starts == 0 { format!("rank-{slot}.log") } else { format!("rank-{slot}.restart-{starts}.log") };
        let log = self.plan.log_folder.as_ref().map(|folder| log_file(folder.join(name))).transpose()?;
        if let (Some(out), Some(err)) = pipes {
            let writer = LineSource::Rank(slot);
            let out = RankPipe { writer, which: RankStream::Out, from: out.into(), log: log.clone() };
            let err = RankPipe { writer, which: RankStream::Err, from: err.into(), log };
            let lines = OutputThread::start(vec![out, err], self.output.clone());
            self.lines.push((slot, lines.map_err(|error| LaunchError::System { what: "a rank's lines cannot be read", error })?));
        }
        Ok(())
    }
    /// What ranks have said.
    fn hear(&mut self) {
        let (mut accused, now) = (Vec::new(), Instant::now());
        for rank in self.living.values_mut() {
            for said in rank.hear() {
                match said {
                    SeatSays::Word(word) => self.word = Some(word),
                    SeatSays::Want { epoch, lost } => {
                        if let (SeatState::Member { epoch: own, .. }, Some(lost)) = (rank.state, lost)
                            && epoch == Some(own)
                        {
                            accused.push((own, lost));
                        }
                        let was = if let SeatState::Member { rank, .. } = rank.state { Some(rank) } else { None };
                        let before = if let SeatState::Wanting { was } = rank.state { was } else { None };
                        (rank.state, rank.given_up, rank.wants) = (SeatState::Wanting { was: was.or(before) }, None, now);
                    }
                }
            }
        }
        for (epoch, lost) in accused {
            for rank in self.living.values_mut().filter(|rank| rank.state == SeatState::Member { epoch, rank: lost }) {
                rank.given_up.get_or_insert(now);
            }
        }
        for rank in self.living.values_mut() {
            if rank.given_up.is_some_and(|since| now.saturating_duration_since(since) > GIVEN_UP) {
                rank.given_up = None;
                rank.process.signal(Signal::KILL);
                note(self.output, &format!("rank {} is killed: the others have given it up", rank.slot));
            }
        }
    }
    /// Lets those meet who are to.
    fn let_meet(&mut self) {
        let states: Vec<SeatState> = self.living.values().map(|rank| rank.state).collect();
        let may_come = states.contains(&SeatState::Starting) || self.slots.iter().any(|slot| slot.due.is_some());
        let enough = if self.is_ending_well { 1 } else { self.elastic.least };
        let begins = self.epoch.is_none() && self.has_begun;
        if let Some(places) = who_meets(&states, enough, begins) {
            let epoch = self.epoch.map_or(0, |epoch| epoch + 1);
            let size = places.len();
            let mut waited: Option<Duration> = None;
            let ranks: BTreeMap<usize, usize> = places.iter().enumerate().map(|(rank, place)| (*place, rank)).collect();
            for (place, living) in self.living.values_mut().enumerate() {
                if let Some(rank) = ranks.get(&place).copied() {
                    if living.state == (SeatState::Wanting { was: None }) {
                        waited = waited.max(Some(living.wants.elapsed()));
                    }
                    living.say(&LauncherSays::Meet { epoch, rank, size, word: self.word.clone() });
                    (living.state, living.called) = (SeatState::Member { epoch, rank }, false);
                }
            }
            if self.epoch.is_some() {
                let newcomers = waited.map(|waited| format!(", newcomers among them, who waited {} ms", waited.as_millis())).unwrap_or_default();
                note(self.output, &format!("{size} of {} ranks go on (epoch {epoch}){newcomers}", self.plan.ranks));
            }
            (self.epoch, self.nobody_comes) = (Some(epoch), false);
        } else if is_called(&states) {
            for rank in self.living.values_mut().filter(|rank| matches!(rank.state, SeatState::Member { .. }) && !rank.called) {
                rank.called = true;
                rank.say(&LauncherSays::Call);
            }
        } else if self.ending.is_none()
            && !may_come
            && !self.nobody_comes
            && !states.is_empty()
            && states.iter().all(|state| matches!(state, SeatState::Wanting { .. }))
        {
            self.nobody_comes = true;
            let why = format!("{} ranks are left, {} are needed, and no more are started", states.len(), enough);
            note(self.output, &why);
            self.living.values_mut().for_each(|rank| rank.say(&LauncherSays::None { why: why.clone() }));
        }
    }
    fn rank_ended(&mut self, number: u32) -> io::Result<()> {
        let Some(mut rank) = self.living.remove(&number) else { return Ok(()) };
        // What it said before it ended counts: a leader's word is with the launcher before any rank acts on it.
        for said in rank.hear() {
            if let SeatSays::Word(word) = said {
                self.word = Some(word);
            }
        }
        let exit = rank.process.reap(self.guard)?;
        self.ends.push((rank.slot, exit));
        let leads = matches!(rank.state, SeatState::Member { rank: 0, .. });
        if let SeatState::Member { epoch, rank: gone } = rank.state
            && exit.is_failure()
        {
            for other in self.living.values_mut().filter(|other| matches!(other.state, SeatState::Member { epoch: of, .. } if of == epoch)) {
                other.say(&LauncherSays::Stale { epoch, rank: gone });
            }
        }
        match exit {
            RankExit::Code(0) => {
                self.is_ending_well = true;
                if leads {
                    self.end(JobEnding::Done);
                }
            }
            _ if self.ending.is_some() => {}
            RankExit::Code(129 | 130 | 143) | RankExit::Signal(1 | 2 | 15) => self.end(JobEnding::Asked(i32::from(exit.code()) - 128)),
            exit if !exit.is_worth_a_restart() && self.slots[rank.slot].starts > 1 && !self.living.is_empty() => {
                note(self.output, &format!("rank {} is left out: the newcomer in its place ended with {exit}", rank.slot));
            }
            exit if exit == PEER_LOST || !exit.is_worth_a_restart() => self.end(JobEnding::Failed),
            exit => self.after_failure(rank.slot, exit),
        }
        Ok(())
    }
    fn after_failure(&mut self, slot: usize, exit: RankExit) {
        let left = self.plan.max_restarts.saturating_sub(self.restarts);
        let told = match self.slots[slot].failures.add(Instant::now(), &self.elastic, left) {
            AfterFailure::Again(pause) => {
                self.restarts += 1;
                self.slots[slot].due = Some(Instant::now() + pause);
                format!("a newcomer takes its place: restart {} of {}", self.restarts, self.plan.max_restarts)
            }
            AfterFailure::LeftOut => {
                let (times, window) = self.elastic.left_out;
                format!("it is left out: it failed {times} times within {}", humantime::format_duration(window))
            }
            AfterFailure::NoneLeft => format!("no newcomer takes its place: all {} restarts are used", self.plan.max_restarts),
        };
        note(self.output, &format!("rank {slot} failed: {exit}; {told}"));
    }
    fn end(&mut self, ending: JobEnding) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some((ending, Instant::now()));
        self.slots.iter_mut().for_each(|slot| slot.due = None);
        for rank in self.living.values_mut() {
            match (ending, rank.state) {
                (JobEnding::Asked(signal), _) => rank.say(&LauncherSays::End { signal }),
                // It has nothing that is not in the folder.
                (JobEnding::Done, SeatState::Starting | SeatState::Wanting { .. }) => rank.process.signal(Signal::KILL),
                _ => {}
            }
        }
    }
    /// Those who do not end by themselves are asked to, and killed then.
    fn look_after_ending(&mut self, stop: &LaunchStop) {
        let Some((ending, since)) = self.ending else { return };
        let (ask, kill) = match ending {
            JobEnding::Done => return,
            JobEnding::Told => (Duration::ZERO, self.plan.grace),
            JobEnding::Asked(_) => (BY_THEMSELVES, BY_THEMSELVES + self.plan.grace),
            JobEnding::Failed => (SPEAK, SPEAK + self.plan.grace),
        };
        if !self.was_asked && since.elapsed() >= ask {
            self.was_asked = true;
            // They had the signal that the launcher was told.
            if ending != JobEnding::Told {
                self.signal(Signal::TERM);
            }
        }
        if since.elapsed() >= kill || stop.times() > 1 {
            self.signal(Signal::KILL);
        }
    }
    /// What the job came to.
    fn ended(mut self, stop: &LaunchStop) -> LaunchEnded {
        let (mut output, mut words) = (None, BTreeMap::new());
        let since = Instant::now();
        for (slot, lines) in std::mem::take(&mut self.lines) {
            let mut read = lines.finish(&|| stop.asked().is_some() && since.elapsed() > SPEAK);
            output = output.or(read.failed);
            words.extend(read.last.remove(&Some(slot)).map(|last| (slot, Vec::from(last))));
        }
        let failures = || self.ends.iter().filter(|(_, exit)| exit.is_failure());
        let last = || failures().rev().find(|(_, exit)| *exit != PEER_LOST).or_else(|| failures().next_back());
        let cause = match self.ending {
            Some((JobEnding::Done | JobEnding::Told | JobEnding::Asked(_), _)) => None,
            // Earlier failures were gone on from.
            Some((JobEnding::Failed, _)) | None => last(),
        };
        let cause = cause.map(|(slot, exit)| FirstCause { rank: Some(*slot), exit: *exit, words: words.remove(slot).unwrap_or_default() });
        if let Some(cause) = &cause {
            note(self.output, &cause.to_string());
        }
        let code = match (stop.asked(), self.ending, &cause) {
            (Some(signal), ..) | (None, Some((JobEnding::Asked(signal), _)), _) => RankExit::Signal(signal).code(),
            (None, Some((JobEnding::Done, _)), _) => 0,
            (None, _, Some(cause)) => cause.exit.code(),
            (None, _, None) => 0,
        };
        LaunchEnded { code, signal: stop.asked(), cause, starts: 1 + u64::from(self.restarts), output }
    }
}
impl Drop for ElasticJob<'_> {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        for rank in self.living.values_mut() {
            let _ = rank.process.reap(self.guard);
        }
    }
}
