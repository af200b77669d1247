//! A connection to every other rank, over which ranks learn of each other's end.
//!
//! ```text
//! join -> connections -> monitor (a thread): closed -> lost; Goodbye -> left; Failed -> why a group ended; Beat -> not silent
//!                            v                                                            ^
//!                        Liveness -> wakers, verdicts for those who wait           RankControl::say_failed
//! ```
//!
//! No tensor travels here. Whoever moves tensors (shared memory, MPI) waits in its own way, with a time limit, and asks
//! [`Liveness::verdict`] whether what it waits for can still come. A connection that closes without a goodbye is a death: the system closes
//! it however the process ended. Silence alone decides nothing before the timeout, but is told.
mod beside;
pub mod cause;
pub mod liveness;
mod monitor;
pub mod silence;

use crate::{
    ErrorKind,
    join::{
        self,
        frame::{FRAME_CAP, FrameBody, FrameKind},
    },
};
use adamant_runtime::communicator::EngineRequest;
use cause::FailureCause;
use liveness::{Liveness, PeerState, Waker};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::HashMap,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// So long a rank that ends waits until its last words are on their way.
const FAREWELL: Duration = Duration::from_millis(200);

type Said = (Option<usize>, FrameKind, Vec<u8>);
#[derive(Default)]
struct Outbox {
    said: Vec<Said>,
    leaves: bool,
    /// how much was said so far, and how much of it is on its way
    count: u64,
    sent: u64,
}
#[derive(Default)]
struct Rounds {
    next: u64,
    came: HashMap<(u64, usize), Vec<u8>>,
}
pub(crate) struct ControlShared {
    rank: usize,
    liveness: Liveness,
    outbox: Mutex<Outbox>,
    outbox_sent: Condvar,
    rounds: Mutex<Rounds>,
    round_came: Condvar,
    poll: Option<mio::Waker>,
}
impl ControlShared {
    fn take(&self) -> (Vec<Said>, bool) {
        let mut outbox = self.outbox.lock();
        (std::mem::take(&mut outbox.said), outbox.leaves)
    }
    fn came(&self, rank: usize, round: u64, bytes: Vec<u8>) {
        self.rounds.lock().came.insert((round, rank), bytes);
        self.round_came.notify_all();
    }
    fn say(&self, to: Option<usize>, kind: FrameKind, body: Vec<u8>) -> u64 {
        let mut outbox = self.outbox.lock();
        outbox.said.push((to, kind, body));
        outbox.count += 1;
        let count = outbox.count;
        drop(outbox);
        self.wake();
        count
    }
    /// So much of what was said was given to the system.
    fn sent(&self, count: usize) {
        self.outbox.lock().sent += count as u64;
        self.outbox_sent.notify_all();
    }
    /// Waits, not for long, until what was said is on its way: the process may end behind it.
    fn wait_until_sent(&self, count: u64) {
        let until = Instant::now() + FAREWELL;
        let mut outbox = self.outbox.lock();
        while outbox.sent < count && !self.outbox_sent.wait_until(&mut outbox, until).timed_out() {}
    }
    fn wake(&self) {
        // It fails only where the poll is gone, and with it who would be woken.
        if let Some(poll) = &self.poll {
            let _ = poll.wake();
        }
    }
}

/// This rank's connections. When it is dropped, the others are told that the rank left on purpose.
pub struct RankControl {
    shared: Arc<ControlShared>,
    size: usize,
    timeout: Duration,
    monitor: Option<JoinHandle<()>>,
}
impl RankControl {
    /// Meets the other ranks. One rank alone meets nobody.
    ///
    /// # Errors
    /// A request that makes no sense; a rank that did not come in time or died; a refusal.
    pub fn join(request: &EngineRequest) -> Result<RankControl, ErrorKind> {
        RankControl::join_unless(request, None)
    }
    /// The same, unless it is called off meanwhile.
    pub(crate) fn join_unless(request: &EngineRequest, called_off: Option<join::CalledOff<'_>>) -> Result<RankControl, ErrorKind> {
        let (rank, size) = (request.rank, request.size);
        let broken = |e: std::io::Error| ErrorKind::Argument(format!("other ranks cannot be listened to: {e}"));
        let assembled = if size > 1 { Some(join::assemble(request, called_off)?) } else { None };
        let waker = mio::Token(usize::MAX);
        let poll = assembled.as_ref().map(|assembled| mio::Waker::new(assembled.poll.registry(), waker)).transpose().map_err(broken)?;
        let shared = ControlShared {
            rank,
            liveness: Liveness::new(size),
            outbox: Mutex::default(),
            outbox_sent: Condvar::new(),
            rounds: Mutex::default(),
            round_came: Condvar::new(),
            poll,
        };
        let shared = Arc::new(shared);
        let waiting = Arc::downgrade(&shared);
        shared.liveness.on_change(Box::new(move || {
            waiting.upgrade().is_some_and(|shared| {
                // Under the lock, or who has looked and does not wait yet would miss it.
                let _rounds = shared.rounds.lock();
                shared.round_came.notify_all();
                true
            })
        }));
        let monitor = assembled.map(|assembled| monitor::start(&shared, assembled)).transpose().map_err(broken)?;
        Ok(RankControl { shared, size, timeout: request.timeout, monitor })
    }
    /// This rank.
    pub fn rank(&self) -> usize {
        self.shared.rank
    }
    /// How many ranks.
    pub fn size(&self) -> usize {
        self.size
    }
    /// So long a rank waits for another.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }
    /// What is known of the others.
    pub fn liveness(&self) -> &Liveness {
        &self.shared.liveness
    }
    /// How a rank was lost, if it was.
    pub fn is_lost(&self, rank: usize) -> Option<String> {
        match self.liveness().state(rank) {
            PeerState::Lost(why) => Some(why),
            PeerState::There | PeerState::Left => None,
        }
    }
    /// A function that is called after each change of what is known of the others, on the thread that learned of it; no more once it
    /// gives `false`.
    pub fn on_change(&self, waker: Waker) {
        self.liveness().on_change(waker);
    }
    /// Tells the others that this rank failed: their calls in flight, and those that follow, fail.
    pub fn say_failed(&self, message: &str) {
        self.end_group(0, FailureCause::Said(message.to_owned()));
    }
    /// Tells the others that a group has ended on this rank: 0 is that of all ranks, and all that were made of it.
    pub fn end_group(&self, group: u64, cause: FailureCause) {
        let said = self.shared.say(None, FrameKind::Failed, cause.encode(group));
        self.liveness().fail(group, self.rank(), cause);
        if self.monitor.is_some() {
            self.shared.wait_until_sent(said);
        }
    }
    /// Why an operation of all ranks that waits for `awaited` cannot be done, if that is known.
    pub fn verdict(&self, awaited: &[usize], op: &str, seq: u64) -> Option<ErrorKind> {
        let all: Vec<usize> = (0..self.size).collect();
        self.liveness().verdict(self.rank(), &[0], &all, awaited, &op, seq)
    }
    /// Gives a few bytes to all ranks and gets theirs, by rank: for setting up what moves tensors. All ranks call it in one order.
    ///
    /// # Errors
    /// More bytes than a frame takes; a lost rank; the timeout.
    pub fn exchange_small(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, ErrorKind> {
        const OP: &str = "setting up";
        if own.len() + 8 > FRAME_CAP {
            return Err(ErrorKind::Argument(format!("{} bytes are too many for a control connection", own.len())));
        }
        let mut rounds = self.shared.rounds.lock();
        let round = rounds.next;
        rounds.next += 1;
        drop(rounds);
        self.shared.say(None, FrameKind::Small, FrameBody::default().number(round).bytes(own).0);
        let until = Instant::now() + self.timeout;
        let mut rounds = self.shared.rounds.lock();
        loop {
            let is_missing = |rank: &usize| *rank != self.rank() && !rounds.came.contains_key(&(round, *rank));
            let awaited: Vec<usize> = (0..self.size).filter(is_missing).collect();
            let Some(first) = awaited.first().copied() else {
                let all = (0..self.size).map(|rank| if rank == self.rank() { Some(own.to_vec()) } else { rounds.came.remove(&(round, rank)) });
                return Ok(all.map(Option::unwrap_or_default).collect());
            };
            if let Some(verdict) = self.verdict(&awaited, OP, round) {
                return Err(verdict);
            }
            if self.shared.round_came.wait_until(&mut rounds, until).timed_out() {
                let why = self.liveness().silence(first).unwrap_or_else(|| "it did not come to set up".into());
                return Err(ErrorKind::PeerLost { rank: first, op: OP.into(), seq: round, why });
            }
        }
    }
}
impl Drop for RankControl {
    fn drop(&mut self) {
        self.shared.outbox.lock().leaves = true;
        self.shared.wake();
        if let Some(monitor) = self.monitor.take() {
            // If it panicked, its sockets are closed as well.
            let _ = monitor.join();
        }
    }
}
