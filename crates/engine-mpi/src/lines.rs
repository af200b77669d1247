//! A group's lines: its MPI communicator, what its ranks tell each other beside the data, and what ended it.
//!
//! A rank that waits longer than half a second tells the others what it waits for (again each half). So a rank that is in the call but
//! waits itself is not taken for the lost one, and two that wait for each other in different calls are told apart from a slow one.
use crate::{
    frame::{EndCause, NOTE, Note},
    wire::{MpiTurn, PendingRequest, Wire},
};
use adamant_ir::ErrorKind;
use adamant_runtime::communicator::GroupState;
use parking_lot::{Mutex, RwLock};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

/// Tags of the messages of a group.
pub(crate) mod tag {
    /// of calls of all ranks
    pub(crate) const HEADER: i32 = 1;
    /// of what is given first
    pub(crate) const DATA: i32 = 2;
    /// of what is given once something came
    pub(crate) const GATHERED: i32 = 3;
    /// of a send
    pub(crate) const SEND_HEADER: i32 = 4;
    /// of its data
    pub(crate) const SEND_DATA: i32 = 5;
    /// of notes
    pub(crate) const NOTE: i32 = 6;
}

/// Who tells of lost ranks: the rank in the job, and how it was seen.
pub type LostPeers = dyn Fn() -> Option<(usize, String)> + Send + Sync;
static LOST: RwLock<Option<Arc<LostPeers>>> = RwLock::new(None);
/// Has every waiting call ask `lost` about once a millisecond; what it tells ends the call, if the rank is one of its group.
///
/// MPI itself often does not tell that a rank is dead. Control connections between the ranks do, at once: whoever has them
/// gives their answer here, by the rank in the whole job.
pub fn watch_peers(lost: Arc<LostPeers>) {
    *LOST.write() = Some(lost);
}

/// What is known of a peer from its notes.
#[derive(Default)]
struct PeerNotes {
    waiting: Option<PeerWaiting>,
    failed: Option<(EndCause, String)>,
    left: Option<(Instant, u64)>,
    seen: Option<Instant>,
    is_ending: bool,
}
struct PeerWaiting {
    at: Instant,
    times: u32,
    agreeing: bool,
    missing: Vec<usize>,
    call: String,
}
#[derive(Default)]
struct Post {
    peers: Vec<PeerNotes>,
    sending: Vec<PendingRequest<'static>>,
    has_failed: bool,
    has_left: bool,
    is_ending: bool,
}
/// A group of ranks as this crate has it.
pub(crate) struct GroupLines {
    pub(crate) wire: &'static Wire,
    pub(crate) comm: usize,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    /// the members' ranks in the job
    pub(crate) in_job: Vec<usize>,
    pub(crate) timeout: Duration,
    /// how many ranks of the job run on this host
    pub(crate) on_host: usize,
    /// are there more ranks on this host than processors?
    pub(crate) shares_processors: bool,
    pub(crate) state: GroupState,
    /// is a thread in a call of it?
    pub(crate) in_call: AtomicBool,
    /// has nobody the communicator any more?
    pub(crate) is_dropped: AtomicBool,
    /// is something there that waiting calls have to see?
    is_ending: AtomicBool,
    post: Mutex<Post>,
}
impl GroupLines {
    pub(crate) fn new(wire: &'static Wire, comm: usize, (rank, size): (usize, usize), in_job: Vec<usize>, (timeout, on_host): (Duration, usize)) -> GroupLines {
        let shares_processors = std::thread::available_parallelism().is_ok_and(|n| n.get() < on_host);
        let post = Post { peers: (0..size).map(|_| PeerNotes::default()).collect(), ..Post::default() };
        let [in_call, is_dropped, is_ending] = [const { AtomicBool::new(false) }; 3];
        GroupLines {
            wire,
            comm,
            rank,
            size,
            in_job,
            timeout,
            on_host,
            shares_processors,
            state: GroupState::default(),
            in_call,
            is_dropped,
            is_ending,
            post: Mutex::new(post),
        }
    }
    /// The other ranks, from the next one on, so that not all begin with the same.
    pub(crate) fn peers(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, size) = (self.rank, self.size);
        (1..size).map(move |k| (rank + k) % size)
    }
    /// So long a rank waits before it tells the others.
    pub(crate) fn note_after(&self) -> Duration {
        Duration::from_millis(500).min(self.timeout / 8)
    }
    /// The right to call MPI.
    pub(crate) fn turn(&self) -> Result<MpiTurn, ErrorKind> {
        let stuck = || ErrorKind::Internal(format!("another thread has been inside MPI for {:?}", self.timeout));
        self.wire.turn(self.timeout)?.ok_or_else(stuck)
    }

    /// Ends the group by this, and tells the others once. Gives the error back.
    pub(crate) fn fail(&self, kind: ErrorKind) -> ErrorKind {
        let cause = match &kind {
            ErrorKind::RanksDiffer { .. } => EndCause::Differ,
            ErrorKind::PeerLost { rank, .. } => EndCause::Lost(*rank),
            _ => EndCause::Told,
        };
        let text = match &kind {
            ErrorKind::PeerLost { why, .. } => why.clone(),
            ErrorKind::PeerFailed { message, .. } => message.clone(),
            kind => kind.to_string(),
        };
        self.state.end(&kind);
        self.is_ending.store(true, SeqCst);
        let is_first = !std::mem::replace(&mut self.post.lock().has_failed, true);
        if is_first && let Ok(Some(turn)) = self.wire.turn(Duration::from_millis(200)) {
            self.tell(&turn, &Note::Failed { cause, text });
            // What is small is gone when MPI was asked a few times.
            let end = Instant::now() + Duration::from_millis(20);
            while !self.post_is_sent(&turn) && Instant::now() < end {
                std::thread::yield_now();
            }
        }
        kind
    }
    /// Ends it by what another rank told: nobody needs to be told again.
    pub(crate) fn end_as_told(&self, kind: ErrorKind) -> ErrorKind {
        self.state.end(&kind);
        self.post.lock().has_failed = true;
        self.is_ending.store(true, SeqCst);
        kind
    }
    /// Why the group has ended, for a call that waits.
    pub(crate) fn ended(&self) -> Option<ErrorKind> {
        self.is_ending.load(SeqCst).then(|| self.state.ended()).flatten()
    }

    /// Tells all other ranks.
    pub(crate) fn tell(&self, turn: &MpiTurn, note: &Note) {
        let mut post = self.post.lock();
        let is_last = matches!(note, Note::Left { .. } | Note::Ending);
        let to: Vec<usize> = self.peers().filter(|to| is_last || !post.peers[*to].is_ending).collect();
        post.sending.extend(to.into_iter().filter_map(|to| self.put(turn, to, note)));
    }
    fn put(&self, turn: &MpiTurn, to: usize, note: &Note) -> Option<PendingRequest<'static>> {
        let mut bytes = vec![0u8; NOTE].into_boxed_slice();
        note.write(&mut bytes);
        // Whom it does not reach, the timeout tells.
        turn.send_owned(self.comm, to, tag::NOTE, bytes, NOTE).ok()
    }
    /// Asks those whose programs have not ended whether they live.
    pub(crate) fn ask(&self, turn: &MpiTurn) {
        self.tell(turn, &Note::Ask);
    }
    /// How long nothing has been heard of one whose program has not ended, at most since then.
    pub(crate) fn silent_for(&self, start: Instant) -> Duration {
        let post = self.post.lock();
        let peers = self.peers().map(|rank| &post.peers[rank]).filter(|peer| !peer.is_ending);
        peers.map(|peer| peer.seen.map_or(start, |seen| seen.max(start)).elapsed()).max().unwrap_or_default()
    }
    /// Ends the group by what another rank told, if no call is there to see it. That ranks differ, the next call sees itself, and
    /// can say what it calls.
    pub(crate) fn hear_while_idle(&self) {
        if !self.in_call.load(SeqCst)
            && let Some((cause, kind)) = self.heard("no call", self.state.calls())
            && cause != EndCause::Differ
        {
            self.end_as_told(kind);
        }
    }
    /// Lets go of the notes that are gone; are all?
    pub(crate) fn post_is_sent(&self, turn: &MpiTurn) -> bool {
        let mut post = self.post.lock();
        post.sending.retain_mut(|pending| matches!(turn.is_done(pending), Ok(false)));
        post.sending.is_empty()
    }
    /// Says that this rank will call no more.
    pub(crate) fn leave(&self, turn: &MpiTurn) {
        if !std::mem::replace(&mut self.post.lock().has_left, true) {
            self.tell(turn, &Note::Left { calls: self.state.calls() });
        }
    }
    /// Reads the notes that are there.
    pub(crate) fn collect(&self, turn: &MpiTurn) {
        let mut bytes = [0u8; NOTE];
        while let Ok(Some(from)) = turn.take(self.comm, tag::NOTE, &mut bytes) {
            let (note, mut post, now) = (Note::read(&bytes), self.post.lock(), Instant::now());
            let Some(peer) = post.peers.get_mut(from) else { continue };
            peer.seen = Some(now);
            match note {
                Some(Note::Waiting { agreeing, missing, call }) => {
                    // Again in the same call, without a longer pause?
                    let before = peer.waiting.take().filter(|w| w.call == call && w.agreeing == agreeing && now - w.at < 3 * self.note_after());
                    let times = before.map_or(1, |w| w.times + 1);
                    peer.waiting = Some(PeerWaiting { at: now, times, agreeing, missing, call });
                }
                Some(Note::Failed { cause, text }) => drop(peer.failed.get_or_insert((cause, text))),
                Some(Note::Left { calls }) => peer.left = Some((now, calls)),
                Some(Note::Ending) => peer.is_ending = true,
                Some(Note::Ask) => {
                    let here = self.put(turn, from, &Note::Here);
                    post.sending.extend(here);
                }
                Some(Note::Here) => {}
                None => peer.failed = Some((EndCause::Told, "it sends notes of another version of this engine".into())),
            }
        }
        self.post_is_sent(turn);
    }

    /// What another rank told that ended the group: its error here, in a call of these words and this number.
    pub(crate) fn heard(&self, op: &str, seq: u64) -> Option<(EndCause, ErrorKind)> {
        let post = self.post.lock();
        let (from, (cause, text)) = post.peers.iter().enumerate().find_map(|(from, peer)| peer.failed.as_ref().map(|failed| (from, failed)))?;
        let kind = match *cause {
            EndCause::Lost(rank) if rank != self.rank => ErrorKind::PeerLost { rank, op: op.into(), seq, why: format!("{text} (told by rank {from})") },
            EndCause::Lost(_) => ErrorKind::PeerFailed { rank: from, message: format!("it took this rank for lost: {text}") },
            EndCause::Told | EndCause::Differ => ErrorKind::PeerFailed { rank: from, message: text.clone() },
        };
        Some((*cause, kind))
    }
    /// Ranks of these whose program has ended for more than a moment, and after how many calls.
    pub(crate) fn left(&self, of: &[usize]) -> Option<(usize, u64)> {
        let post = self.post.lock();
        let mut left = of.iter().filter_map(|rank| post.peers[*rank].left.map(|left| (*rank, left)));
        left.find(|(_, (at, _))| at.elapsed() > Duration::from_millis(5)).map(|(rank, (_, calls))| (rank, calls))
    }
    /// Says that this rank's program has ended.
    pub(crate) fn end(&self, turn: &MpiTurn) {
        self.leave(turn);
        if !std::mem::replace(&mut self.post.lock().is_ending, true) {
            self.tell(turn, &Note::Ending);
        }
    }
    /// Have the programs of all other ranks ended?
    pub(crate) fn all_ending(&self) -> bool {
        let post = self.post.lock();
        self.peers().all(|rank| post.peers[rank].is_ending)
    }
    /// A rank that control connections know to be lost.
    pub(crate) fn lost(&self) -> Option<(usize, String)> {
        let asked = LOST.read().clone()?;
        let (lost, why) = asked()?;
        self.in_job.iter().position(|rank| *rank == lost).filter(|rank| *rank != self.rank).map(|rank| (rank, why))
    }
    /// A rank that waits for this one in another call than `own`, though this one has waited for it since `since`: neither will come.
    pub(crate) fn waits_elsewhere(&self, missing: &[usize], own: &str, since: Instant) -> Option<(usize, String)> {
        let post = self.post.lock();
        let told_after = since + self.note_after();
        missing.iter().find_map(|rank| {
            let peer = &post.peers[*rank];
            let waiting = peer.waiting.as_ref().filter(|w| w.agreeing && w.call != own && w.missing.contains(&self.rank))?;
            // What it sent before its notes would be here. It may have come to the same conclusion first.
            let is_sure = matches!(peer.failed, Some((EndCause::Differ, _))) || (waiting.times >= 2 && waiting.at > told_after);
            is_sure.then(|| (*rank, waiting.call.clone()))
        })
    }
    /// Which of the missing is the lost one.
    pub(crate) fn blame(&self, missing: &[usize]) -> usize {
        let post = self.post.lock();
        let fresh = self.note_after() * 5 / 2;
        let waits = |rank: usize| post.peers.get(rank)?.waiting.as_ref().filter(|w| w.at.elapsed() < fresh).map(|w| w.missing.clone());
        blamed(self.rank, missing, &waits).unwrap_or((self.rank + 1) % self.size.max(1))
    }
}
/// Of ranks that are missing, the one that is lost: the lowest that does not say that it waits itself; if all do, the lowest such
/// of those that they wait for; else the lowest.
fn blamed(own: usize, missing: &[usize], waits: &dyn Fn(usize) -> Option<Vec<usize>>) -> Option<usize> {
    let silent = |ranks: &[usize]| ranks.iter().copied().filter(|rank| *rank != own && waits(*rank).is_none()).min();
    let named: Vec<usize> = missing.iter().filter_map(|rank| waits(*rank)).flatten().collect();
    silent(missing).or_else(|| silent(&named)).or_else(|| missing.iter().copied().min())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_itself_is_not_taken_for_the_lost_one() {
        for (missing, waiting, lost) in [
            (&[1, 2][..], &[][..], 1),
            // Rank 1 says that it waits for rank 2.
            (&[1, 2], &[(1, &[2][..])], 2),
            // Rank 1's data alone are missing, because rank 3 does not give it its own.
            (&[1], &[(1, &[3])], 3),
            (&[1, 2], &[(1, &[0, 3]), (2, &[3])], 3),
            // They wait for this rank, or for each other.
            (&[1], &[(1, &[0])], 1),
            (&[1, 2], &[(1, &[2]), (2, &[1])], 1),
        ] {
            let waits = |rank: usize| waiting.iter().find(|(from, _)| *from == rank).map(|(_, missing)| missing.to_vec());
            assert_eq!(blamed(0, missing, &waits), Some(lost), "missing {missing:?}, waiting {waiting:?}");
        }
    }
}
