//! How a call waits: asking MPI again and again, and seeing what else may have happened.
//!
//! A wait ends by what came, by the timeout (counted from what came last), by an abort, by a note of another rank that failed or has left,
//! or by control connections that know a rank to be lost.
use crate::{
    frame::{EndCause, Note},
    lines::GroupLines,
};
use adamant_ir::ErrorKind;
use std::time::{Duration, Instant};

/// So long a wait asks at once again, where each rank has a processor: who lets others run gets it back late.
const SPINNING: Duration = Duration::from_micros(300);
/// The same where ranks share processors: the one that is waited for may need this one.
const SPINNING_SHARED: Duration = Duration::from_micros(5);
/// From then on a wait sleeps between its turns.
const YIELDING: Duration = Duration::from_millis(5);
/// So long a rank that was told that ranks differ looks for the difference itself.
const OWN_LOOK: Duration = Duration::from_millis(300);

/// A call that may have to wait.
pub(crate) struct MpiPatience<'g> {
    lines: &'g GroupLines,
    /// the call in words
    pub(crate) text: String,
    seq: u64,
    /// Is it still open whether all call the same?
    pub(crate) agreeing: bool,
    /// when something came last
    since: Instant,
    turns: u32,
    next_note: Instant,
    next_look: Instant,
    told_to_differ: Option<(Instant, ErrorKind)>,
}
impl<'g> MpiPatience<'g> {
    pub(crate) fn new(lines: &'g GroupLines, text: String, seq: u64) -> MpiPatience<'g> {
        let now = Instant::now();
        MpiPatience { lines, text, seq, agreeing: true, since: now, turns: 0, next_note: now + lines.note_after(), next_look: now, told_to_differ: None }
    }
    /// Something came.
    pub(crate) fn came(&mut self) {
        if self.turns > 0 {
            (self.turns, self.since) = (0, Instant::now());
            self.next_note = self.since + self.lines.note_after();
        }
    }
    /// An error of MPI's in a message of a peer's.
    pub(crate) fn lost(&self, rank: usize, why: String) -> ErrorKind {
        self.lines.fail(ErrorKind::PeerLost { rank, op: self.text.clone(), seq: self.seq, why })
    }
    /// A rank that calls something else.
    pub(crate) fn differ(&self, rank: usize, other: String) -> ErrorKind {
        let own = format!("{} as rank {}", self.text, self.lines.rank);
        self.lines.fail(ErrorKind::RanksDiffer { seq: self.seq, own, rank, other })
    }
    /// Nothing came in this turn, of what these ranks are to send or to fetch.
    ///
    /// # Errors
    /// What ends the wait; the others have been told.
    pub(crate) fn nothing_came(&mut self, missing: impl Fn() -> Vec<usize>) -> Result<(), ErrorKind> {
        self.turns += 1;
        if let Some(ended) = self.lines.ended() {
            return Err(ended);
        }
        if self.turns == 1 {
            self.since = Instant::now();
            self.next_note = self.since + self.lines.note_after();
        }
        let now = Instant::now();
        let waited = now - self.since;
        if waited < if self.lines.shares_processors { SPINNING_SHARED } else { SPINNING } {
            std::hint::spin_loop();
            return Ok(());
        }
        if now >= self.next_look {
            self.next_look = now + Duration::from_millis(1);
            self.look(&missing(), now)?;
        }
        if now >= self.next_note {
            self.next_note = now + self.lines.note_after();
            let note = Note::Waiting { agreeing: self.agreeing, missing: missing(), call: self.text.clone() };
            self.lines.tell(&self.lines.turn()?, &note);
        }
        if waited >= self.lines.timeout {
            let phase = if self.agreeing { "has not come to it" } else { "has not sent or fetched its data" };
            return Err(self.lost(self.lines.blame(&missing()), format!("it {phase} in {:?}", self.lines.timeout)));
        }
        match waited {
            w if w < YIELDING => std::thread::yield_now(),
            w if w < Duration::from_secs(1) => std::thread::sleep(Duration::from_micros(100)),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
        Ok(())
    }
    fn look(&mut self, missing: &[usize], now: Instant) -> Result<(), ErrorKind> {
        self.lines.collect(&self.lines.turn()?);
        if let Some((rank, why)) = self.lines.lost() {
            return Err(self.lost(rank, why));
        }
        if self.agreeing
            && let Some((rank, other)) = self.lines.waits_elsewhere(missing, &self.text, self.since)
        {
            return Err(self.differ(rank, format!("{other}, and waits for this rank")));
        }
        if let Some((cause, kind)) = self.lines.heard(&self.text, self.seq) {
            // Whom the difference concerns sees it in the headers, and can say what it calls itself.
            let (from, kind) = self.told_to_differ.get_or_insert((now, kind));
            if cause != EndCause::Differ || !self.agreeing || now - *from > OWN_LOOK {
                return Err(self.lines.end_as_told(kind.clone()));
            }
        }
        if let Some((rank, calls)) = self.lines.left(missing) {
            return Err(self.differ(rank, format!("nothing more: its program has let go of the group or ended, after {calls} calls")));
        }
        Ok(())
    }
}
