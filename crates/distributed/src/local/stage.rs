//! How ranks take turns in shared memory.
//!
//! ```text
//! write own slot (stage k) -> publish k -> wait until all have published k -> read the others' slots -> write own other slot (stage k + 1) -> ...
//! ```
//!
//! A collective is one stage or several, the same on all ranks. Who publishes stage k + 1 has read all of stage k, and who writes its
//! slot again for stage k + 2 has seen everybody publish k + 1: so two slots are enough, and there is one wait in a stage.
//!
//! Before its first stage a call is put on a card: its fingerprint. All compare the cards before they read anything else. The words for
//! it are written when somebody needs them.
//!
//! Who waits long looks round: for ranks that are gone, for groups that ended, and for one that itself waits for this rank in something
//! else, which would last for ever.
use super::{
    LocalRank,
    layout::{LINE, RING, TEXT},
    ring::RingWords,
    segment::SegmentRing,
    word::{SharedWord, reached},
};
use crate::ErrorKind;
use adamant_runtime::communicator::CollectiveCall;
use parking_lot::MutexGuard;
use smallvec::SmallVec;
use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

/// So long a sleep lasts at most, so that nothing is missed for long.
const SLICE: Duration = Duration::from_millis(10);
/// Waits in which a core that was lent for long is not given away again.
const CROWDED: u32 = 256;
/// After so long a rank looks whether the others wait for it in something else.
const LOOKS_ROUND: Duration = Duration::from_secs(1);
/// After so long it is noted that a rank waits, or after half of the timeout.
const NOTED: Duration = Duration::from_secs(10);

/// What a rank counts of its calls.
#[derive(Default)]
pub(super) struct CallCounts {
    /// collectives that have begun
    pub(super) calls: u64,
    /// stages that were published
    pub(super) stage: u32,
    /// what was said to the others
    words: u64,
    /// waits in which the core is not given away: somebody else kept it for long
    crowded: u32,
    /// what ended the group on this rank
    pub(super) ended: Option<ErrorKind>,
}
/// What a rank waits in, as others see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waits {
    /// in a collective, by its number
    All(u64),
    /// for something to come
    Receives(usize),
    /// for space
    Sends(usize),
}
impl Waits {
    fn encode(self) -> u64 {
        match self {
            Waits::All(call) => 1 << 56 | call & 0xff_ffff_ffff_ffff,
            Waits::Receives(from) => 2 << 56 | from as u64,
            Waits::Sends(to) => 3 << 56 | to as u64,
        }
    }
    fn decode(word: u64) -> Option<Waits> {
        let (kind, told) = (word >> 56, word & 0xff_ffff_ffff_ffff);
        match kind {
            1 => Some(Waits::All(told)),
            2 => Some(Waits::Receives(told as usize)),
            3 => Some(Waits::Sends(told as usize)),
            _ => None,
        }
    }
}
/// One call of a rank that holds its turn.
pub(super) struct Stages<'a> {
    pub(super) on: &'a LocalRank,
    pub(super) counts: MutexGuard<'a, CallCounts>,
    pub(super) call: &'a CollectiveCall,
    is_compared: bool,
    /// when all ranks had come, where somebody wants to know
    pub(super) met: Option<Instant>,
}
/// How somebody waits, before it sleeps.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    spins: u32,
    yields: u32,
    /// a core that is given away and does not come back for so long belongs to somebody who computes
    lent: Duration,
}
impl Patience {
    /// Of so many ranks on so many cores: where each has one, nobody is kept from anything by one that spins for a moment.
    pub(super) fn of(ranks: usize, cores: usize) -> Patience {
        match ranks <= cores {
            true => Patience { spins: 400, yields: 100, lent: Duration::from_micros(200) },
            // It is the other ranks that have it meanwhile.
            false => Patience { spins: 20, yields: 60, lent: Duration::MAX },
        }
    }
}

impl<'a> Stages<'a> {
    /// A collective begins: its card is there before its first stage. `extra` is what must be the same too.
    pub(super) fn begin(on: &'a LocalRank, counts: MutexGuard<'a, CallCounts>, call: &'a CollectiveCall, extra: u64) -> Stages<'a> {
        let mut stages = Stages { on, counts, call, is_compared: false, met: None };
        stages.counts.calls += 1;
        let card = on.layout.card(on.rank, stages.counts.calls);
        on.segment.number(card + 8).store(call.fingerprint() ^ extra, Ordering::Relaxed);
        on.segment.number(card).store(stages.counts.calls, Ordering::Release);
        stages
    }
    /// Something between two ranks.
    pub(super) fn between(on: &'a LocalRank, counts: MutexGuard<'a, CallCounts>, call: &'a CollectiveCall) -> Stages<'a> {
        Stages { on, counts, call, is_compared: true, met: None }
    }
    /// Where this rank's slot for the next stage is.
    pub(super) fn own_slot(&self) -> usize {
        self.on.layout.slot(self.on.rank, self.counts.stage.wrapping_add(1))
    }
    /// Where a rank's slot of the last stage is.
    pub(super) fn slot(&self, rank: usize) -> usize {
        self.on.layout.slot(rank, self.counts.stage)
    }
    /// What this rank brings for another in the whole call, for it to compare.
    pub(super) fn brings(&self, to: usize, bytes: usize) {
        self.on.segment.number(self.on.layout.length(self.on.rank, self.counts.calls, to)).store(bytes as u64, Ordering::Relaxed);
    }
    pub(super) fn brought(&self, rank: usize, to: usize) -> u64 {
        self.on.segment.number(self.on.layout.length(rank, self.counts.calls, to)).load(Ordering::Relaxed)
    }
    /// This rank's slot is written; returns when those of all others are.
    ///
    /// # Errors
    /// A lost rank; one that calls something else; an end that somebody asked for; the timeout.
    pub(super) fn meet(&mut self) -> Result<(), ErrorKind> {
        let on = self.on;
        self.counts.stage = self.counts.stage.wrapping_add(1);
        let stage = self.counts.stage;
        on.segment.word(on.layout.stage(on.rank)).publish(stage);
        for k in 1..on.members.len() {
            let peer = (on.rank + k) % on.members.len();
            let word = on.segment.word(on.layout.stage(peer));
            self.wait(word, peer, Waits::All(self.counts.calls), |value| reached(value, stage))?;
        }
        if !self.is_compared {
            self.compare(|peer| peer != on.rank)?;
            self.is_compared = true;
        }
        self.all_have_come();
        Ok(())
    }
    fn all_have_come(&mut self) {
        if self.on.link.is_some() && self.met.is_none() {
            self.met = Some(Instant::now());
        }
    }
    /// Sleeps until a moment: the core is free. All that was awaited is there; so a rank that is lost meanwhile, or has done its work and ends, ends
    /// the sleep alone, and what is called next says it.
    ///
    /// # Errors
    /// An end that somebody asked for.
    pub(super) fn pass_time(&self, until: Instant) -> Result<(), ErrorKind> {
        let on = self.on;
        let (word, liveness) = (on.segment.word(on.layout.stage(on.rank)), on.reach.liveness());
        let known = liveness.version();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let news = || liveness.verdict_before(on.world(on.rank), &on.groups, &on.members, self.call, self.call.number);
            if liveness.version() != known {
                match news() {
                    Some(ErrorKind::PeerLost { .. }) => return Ok(()),
                    Some(ended) => return Err(ended),
                    None => {}
                }
            }
            // Only this rank raises its word: it sleeps until the time is over, or somebody's end wakes it.
            word.sleep(word.load(), left.min(SLICE));
        }
    }
    /// As [`Stages::meet`], and each rank is told of as soon as its slot is written, in the order in which they come.
    ///
    /// # Errors
    /// As there; what `came` gives.
    pub(super) fn meet_each(&mut self, mut came: impl FnMut(&Stages<'_>, usize) -> Result<(), ErrorKind>) -> Result<(), ErrorKind> {
        let on = self.on;
        self.counts.stage = self.counts.stage.wrapping_add(1);
        let stage = self.counts.stage;
        on.segment.word(on.layout.stage(on.rank)).publish(stage);
        let mut missing: SmallVec<[usize; 8]> = (1..on.members.len()).map(|k| (on.rank + k) % on.members.len()).collect();
        while let Some(first) = missing.first().copied() {
            let word = |peer: usize| on.segment.word(on.layout.stage(peer));
            let is_there = |peer: &usize| reached(word(*peer).load(), stage);
            let k = match missing.iter().position(is_there) {
                Some(k) => k,
                None => {
                    self.wait(word(first), first, Waits::All(self.counts.calls), |value| reached(value, stage))?;
                    0
                }
            };
            let peer = missing.remove(k);
            if !self.is_compared {
                self.compare(|other| other == peer)?;
            }
            came(self, peer)?;
        }
        self.is_compared = true;
        self.all_have_come();
        Ok(())
    }
    /// Waits until a word says what is hoped for. It is a rank's word, or one of a ring with it.
    pub(super) fn wait(&mut self, word: &SharedWord, peer: usize, waits: Waits, is_there: impl Fn(u32) -> bool) -> Result<(), ErrorKind> {
        let Patience { spins, yields, lent } = self.on.patience;
        for _ in 0..spins {
            if is_there(word.load()) {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        // Whoever gives its core to a thread that computes gets it back after that one's whole slice, and after a sleep at once.
        let yields = if self.counts.crowded > 0 { 0 } else { yields };
        self.counts.crowded = self.counts.crowded.saturating_sub(1);
        for _ in 0..yields {
            if is_there(word.load()) {
                return Ok(());
            }
            let since = Instant::now();
            thread::yield_now();
            if since.elapsed() > lent {
                self.counts.crowded = CROWDED;
                break;
            }
        }
        self.wait_long(word, peer, waits, &is_there)
    }
    #[cold]
    fn wait_long(&mut self, word: &SharedWord, peer: usize, waits: Waits, is_there: &dyn Fn(u32) -> bool) -> Result<(), ErrorKind> {
        let on = self.on;
        let since = Instant::now();
        let noted = NOTED.min(on.timeout / 2);
        let (mut is_told, mut is_noted, mut known) = (false, false, u64::MAX);
        let doing = on.segment.number(on.layout.doing(on.rank));
        let result = loop {
            let seen = word.load();
            if is_there(seen) {
                break Ok(());
            }
            let version = on.reach.liveness().version();
            if version != known && version > 0 || !self.is_compared {
                if let Err(kind) = self.look(word, peer, waits, is_there, version != known && version > 0) {
                    break Err(kind);
                }
                known = version;
            }
            let waited = since.elapsed();
            if waited >= on.timeout {
                let peer = self.silent_one(peer);
                break Err(self.lost(peer, self.too_long(peer)));
            }
            if waited >= LOOKS_ROUND.min(on.timeout / 4) {
                if !is_told {
                    self.tell();
                    doing.store(waits.encode(), Ordering::SeqCst);
                    is_told = true;
                } else if waited >= LOOKS_ROUND.min(on.timeout / 4) + SLICE && self.is_awaited_by(peer) && !is_there(word.load()) {
                    break Err(self.differs(peer, self.words_of(peer)));
                }
            }
            if waited >= noted && !is_noted {
                is_noted = true;
                let why = self.too_long(peer);
                tracing::warn!(target: "adamant::ranks", rank = on.world(on.rank), peer = on.world(peer), "waiting in {}: rank {}: {why}", self.call, on.world(peer));
            }
            word.sleep(seen, SLICE.min(on.timeout.saturating_sub(waited)));
        };
        if is_told {
            doing.store(0, Ordering::SeqCst);
        }
        result
    }
    /// Something became known, or cards may be there to compare.
    fn look(&mut self, word: &SharedWord, peer: usize, waits: Waits, is_there: &dyn Fn(u32) -> bool, is_news: bool) -> Result<(), ErrorKind> {
        if !self.is_compared {
            self.compare(|peer| peer != self.on.rank)?;
        }
        let on = self.on;
        // What is awaited may have come before the rank was gone.
        if !is_news || is_there(word.load()) {
            return Ok(());
        }
        let awaited: Vec<usize> = match waits {
            Waits::All(_) => {
                let is_missing = |rank: &usize| !reached(on.segment.word(on.layout.stage(*rank)).load(), self.counts.stage);
                (0..on.members.len()).filter(is_missing).map(|rank| on.world(rank)).collect()
            }
            Waits::Receives(_) | Waits::Sends(_) => vec![on.world(peer)],
        };
        let verdict = on.reach.liveness().verdict(on.world(on.rank), &on.groups, &on.members, &awaited, self.call, self.call.number);
        verdict.map_or(Ok(()), Err)
    }
    fn lost(&self, peer: usize, why: String) -> ErrorKind {
        ErrorKind::PeerLost { rank: self.on.world(peer), op: self.call.to_string(), seq: self.call.number, why }
    }
    /// Who is to be blamed for a wait that was too long: the awaited rank, unless it was heard as usual and another was not, for which
    /// it may wait itself.
    fn silent_one(&self, peer: usize) -> usize {
        let on = self.on;
        let is_silent = |rank: usize| rank != on.rank && on.reach.liveness().silence(on.world(rank)).is_some();
        if is_silent(peer) { peer } else { (0..on.members.len()).find(|rank| is_silent(*rank)).unwrap_or(peer) }
    }
    fn too_long(&self, peer: usize) -> String {
        let on = self.on;
        let silence = on.reach.liveness().silence(on.world(peer));
        silence.unwrap_or_else(|| "it is there, and did not come to this call".into())
    }
    /// Compares this call's card with those of the ranks that have one for it.
    fn compare(&mut self, with: impl Fn(usize) -> bool) -> Result<(), ErrorKind> {
        let on = self.on;
        let fingerprint = |rank: usize| {
            let card = on.layout.card(rank, self.counts.calls);
            let is_of_call = on.segment.number(card).load(Ordering::Acquire) == self.counts.calls;
            is_of_call.then(|| on.segment.number(card + 8).load(Ordering::Relaxed))
        };
        let own = fingerprint(on.rank);
        let other = (0..on.members.len()).find(|peer| with(*peer) && fingerprint(*peer).is_some_and(|theirs| Some(theirs) != own));
        let Some(peer) = other else { return Ok(()) };
        // The other sees the same and says what it calls; if it dies instead, that is not told.
        self.tell();
        let until = Instant::now() + LOOKS_ROUND / 2;
        let stamp = on.segment.number(on.layout.text_stamp(peer));
        while stamp.load(Ordering::Acquire) >> 32 != self.counts.calls & 0xffff_ffff && Instant::now() < until {
            thread::sleep(Duration::from_micros(100));
        }
        Err(self.differs(peer, self.words_of(peer)))
    }
    fn differs(&self, peer: usize, other: String) -> ErrorKind {
        let own = format!("{} as rank {}", self.call, self.on.world(self.on.rank));
        ErrorKind::RanksDiffer { seq: self.call.number, own, rank: self.on.world(peer), other }
    }
    /// Writes what this rank calls where the others can read it: the stamp holds the collective's number, and is 0 while they change.
    fn tell(&mut self) {
        let on = self.on;
        let text = self.call.to_string();
        let text = text.get(..text.floor_char_boundary(TEXT)).unwrap_or_default();
        let stamp = on.segment.number(on.layout.text_stamp(on.rank));
        self.counts.words += 1;
        stamp.store(0, Ordering::SeqCst);
        on.segment.write(on.layout.text(on.rank), text.as_bytes());
        on.segment.number(on.layout.text_length(on.rank)).store(text.len() as u64, Ordering::SeqCst);
        stamp.store((self.counts.calls & 0xffff_ffff) << 32 | (self.counts.words & 0x7fff_ffff) << 1 | 1, Ordering::SeqCst);
    }
    fn words_of(&self, peer: usize) -> String {
        let on = self.on;
        let stamp = on.segment.number(on.layout.text_stamp(peer));
        let before = stamp.load(Ordering::SeqCst);
        let length = on.segment.number(on.layout.text_length(peer)).load(Ordering::SeqCst) as usize;
        let text = String::from_utf8_lossy(on.segment.bytes(on.layout.text(peer), length.min(TEXT))).into_owned();
        if before == 0 || stamp.load(Ordering::SeqCst) != before { "something else".into() } else { text }
    }
    /// Does a rank wait for this one in something that this one does not do, and cannot come to?
    fn is_awaited_by(&self, peer: usize) -> bool {
        let on = self.on;
        let doing = on.segment.number(on.layout.doing(peer));
        let word = doing.load(Ordering::SeqCst);
        let awaits = match Waits::decode(word) {
            Some(Waits::All(call)) => call > self.counts.calls,
            Some(Waits::Receives(from)) => from == on.rank && ring(on, on.rank, peer).0.held() == 0,
            Some(Waits::Sends(to)) => to == on.rank && ring(on, peer, on.rank).0.held() >= RING,
            None => false,
        };
        awaits && doing.load(Ordering::SeqCst) == word
    }
}
/// The ring from one rank to another.
pub(super) fn ring(on: &LocalRank, from: usize, to: usize) -> (&RingWords, SegmentRing<'_>) {
    let place = on.layout.ring(from, to);
    (on.segment.ring_words(place), SegmentRing { segment: &on.segment, place: place + 2 * LINE, len: RING })
}
