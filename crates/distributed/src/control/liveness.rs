//! What a rank knows of the others: who is there, who is gone, what ended. Must not know how it was learned.
//!
//! Those who wait look at [`Liveness::version`] (one load), and at the rest only when it has changed.
use super::{cause::FailureCause, silence::SilenceDetector};
use crate::ErrorKind;
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// Where a rank is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerState {
    /// there, as far as one knows
    There,
    /// it left on purpose
    Left,
    /// gone, and how that was seen
    Lost(String),
}
/// Wakes those who wait: `false` when nobody waits there any more.
pub type Waker = Box<dyn Fn() -> bool + Send + Sync>;
struct Told {
    group: u64,
    from: usize,
    cause: FailureCause,
}
struct Views {
    states: Vec<PeerState>,
    /// none where ranks need not be heard: threads of one process
    heard: Vec<SilenceDetector>,
    told: Vec<Told>,
}
/// So much about each rank of a job.
pub struct Liveness {
    version: AtomicU64,
    views: Mutex<Views>,
    wakers: Mutex<Vec<Waker>>,
}
impl Liveness {
    /// All are there.
    pub fn new(size: usize) -> Liveness {
        Liveness::of(size, vec![SilenceDetector::new(Instant::now()); size])
    }
    /// The same, of ranks that send no heartbeats.
    pub fn still(size: usize) -> Liveness {
        Liveness::of(size, Vec::new())
    }
    fn of(size: usize, heard: Vec<SilenceDetector>) -> Liveness {
        let views = Views { states: vec![PeerState::There; size], heard, told: Vec::new() };
        Liveness { version: AtomicU64::new(0), views: Mutex::new(views), wakers: Mutex::new(Vec::new()) }
    }
    /// Changes when something worse becomes known.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    /// Where a rank is.
    pub fn state(&self, rank: usize) -> PeerState {
        self.views.lock().states.get(rank).cloned().unwrap_or_else(|| PeerState::Lost("there is no such rank".into()))
    }
    /// A function that is called after each change, on the thread that learned of it.
    pub fn on_change(&self, waker: Waker) {
        self.wakers.lock().push(waker);
    }
    /// A heartbeat came.
    pub fn beat(&self, rank: usize) {
        if let Some(heard) = self.views.lock().heard.get_mut(rank) {
            heard.beat(Instant::now());
        }
    }
    /// How silent a rank is, in words; none where it was heard as usual.
    pub fn silence(&self, rank: usize) -> Option<String> {
        const SUSPECT: f64 = 8.0;
        let (views, now) = (self.views.lock(), Instant::now());
        let heard = views.heard.get(rank)?;
        let phi = heard.phi(now);
        (phi >= SUSPECT).then(|| format!("nothing was heard of it for {:.1} s (phi {phi:.0})", heard.silent(now).as_secs_f64()))
    }
    /// A rank is gone, or left. What was first known stays.
    pub fn set(&self, rank: usize, state: PeerState) {
        match self.views.lock().states.get_mut(rank) {
            Some(there) if *there == PeerState::There => *there = state,
            _ => return,
        }
        self.changed();
    }
    /// A group has ended on a rank.
    pub fn fail(&self, group: u64, from: usize, cause: FailureCause) {
        const MOST_TOLD: usize = 64;
        let mut views = self.views.lock();
        if views.told.len() >= MOST_TOLD || views.told.iter().any(|told| told.group == group && told.from == from) {
            return;
        }
        views.told.push(Told { group, from, cause });
        drop(views);
        self.changed();
    }
    fn changed(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.wakers.lock().retain(|wake| wake());
    }
    /// What rank `own` itself ended a group with: `groups` are the group and those that it was made of.
    pub fn ended_by(&self, own: usize, groups: &[u64]) -> Option<ErrorKind> {
        if self.version() == 0 {
            return None;
        }
        let views = self.views.lock();
        let told = views.told.iter().find(|told| told.from == own && groups.contains(&told.group))?;
        Some(told.cause.error(own, own, "what follows", 0))
    }
    /// Why a call of rank `own` in a group cannot be done, if that is known: `groups` are the group and those that it was made of,
    /// `members` its ranks, `awaited` those of them that the call still needs.
    pub fn verdict(&self, own: usize, groups: &[u64], members: &[usize], awaited: &[usize], op: &str, seq: u64) -> Option<ErrorKind> {
        let views = self.views.lock();
        let state = |rank: usize| views.states.get(rank);
        let lost = |rank: usize, why: &str| ErrorKind::PeerLost { rank, op: op.to_owned(), seq, why: why.to_owned() };
        let mut gone = members.iter().filter(|rank| **rank != own).filter_map(|rank| match state(*rank) {
            Some(PeerState::Lost(why)) => Some(lost(*rank, why)),
            _ => None,
        });
        // A lost rank explains what the others say.
        if let Some(gone) = gone.next() {
            return Some(gone);
        }
        let of_group = || views.told.iter().filter(|told| groups.contains(&told.group));
        let told = of_group().find(|told| matches!(told.cause, FailureCause::Lost { .. })).or_else(|| of_group().next());
        if let Some(told) = told {
            return Some(told.cause.error(own, told.from, op, seq));
        }
        let left = awaited.iter().find(|rank| state(**rank) == Some(&PeerState::Left))?;
        Some(lost(*left, "it left"))
    }
}
