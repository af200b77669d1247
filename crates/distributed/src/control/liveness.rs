//! What a rank knows of the others: who is there, who is gone, what ended. Must not know how it was learned.
//!
//! Those who wait look at [`Liveness::version`] (one load), and at the rest only when it has changed.
use super::{cause::FailureCause, silence::SilenceDetector};
use crate::ErrorKind;
use parking_lot::Mutex;
use std::{
    fmt,
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
struct ToldEnd {
    group: u64,
    from: usize,
    cause: FailureCause,
}
struct Views {
    states: Vec<PeerState>,
    /// none where ranks need not be heard: threads of one process
    heard: Vec<SilenceDetector>,
    told: Vec<ToldEnd>,
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
    /// A rank is gone, or left. What was first known stays. One that said before why everything ends is not lost: it has left.
    pub fn set(&self, rank: usize, state: PeerState) {
        let mut views = self.views.lock();
        let has_told = views.told.iter().any(|told| told.group == 0 && told.from == rank);
        match views.states.get_mut(rank) {
            Some(there) if *there == PeerState::There => *there = if has_told { PeerState::Left } else { state },
            _ => return,
        }
        drop(views);
        self.changed();
    }
    /// A group has ended on a rank.
    pub fn fail(&self, group: u64, from: usize, cause: FailureCause) {
        const MOST_TOLD: usize = 64;
        let mut views = self.views.lock();
        if views.told.len() >= MOST_TOLD || views.told.iter().any(|told| told.group == group && told.from == from) {
            return;
        }
        views.told.push(ToldEnd { group, from, cause });
        drop(views);
        self.changed();
    }
    fn changed(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.wakers.lock().retain(|wake| wake());
    }
    /// Why a call of rank `own` need not begin, if that is known. What was said of calls that differ is not: who comes to such a call
    /// sees both itself.
    pub fn verdict_before(&self, own: usize, groups: &[u64], members: &[usize], op: &dyn fmt::Display, seq: u64) -> Option<ErrorKind> {
        if self.version() == 0 {
            return None;
        }
        let views = self.views.lock();
        views.lost(own, members, op, seq).or_else(|| {
            let told = views.told_of(groups)?;
            let is_seen = matches!(told.cause, FailureCause::Differ { rank, .. } if rank != own) && told.from != own;
            (!is_seen).then(|| told.cause.error(own, told.from, &op.to_string(), seq))
        })
    }
    /// Why a call of rank `own` in a group cannot be done, if that is known: `groups` are the group and those that it was made of,
    /// `members` its ranks, `awaited` those of them that the call still needs.
    pub fn verdict(&self, own: usize, groups: &[u64], members: &[usize], awaited: &[usize], op: &dyn fmt::Display, seq: u64) -> Option<ErrorKind> {
        let views = self.views.lock();
        // A lost rank explains what the others say.
        if let Some(lost) = views.lost(own, members, op, seq) {
            return Some(lost);
        }
        if let Some(told) = views.told_of(groups) {
            return Some(told.cause.error(own, told.from, &op.to_string(), seq));
        }
        let left = awaited.iter().find(|rank| views.states.get(**rank) == Some(&PeerState::Left))?;
        Some(ErrorKind::PeerLost { rank: *left, op: op.to_string(), seq, why: "it left".into() })
    }
}
impl Views {
    fn lost(&self, own: usize, members: &[usize], op: &dyn fmt::Display, seq: u64) -> Option<ErrorKind> {
        members.iter().filter(|rank| **rank != own).find_map(|rank| match self.states.get(*rank) {
            Some(PeerState::Lost(why)) => Some(ErrorKind::PeerLost { rank: *rank, op: op.to_string(), seq, why: why.clone() }),
            _ => None,
        })
    }
    fn told_of(&self, groups: &[u64]) -> Option<&ToldEnd> {
        let of_group = || self.told.iter().filter(|told| groups.contains(&told.group));
        of_group().find(|told| matches!(told.cause, FailureCause::Lost { .. })).or_else(|| of_group().next())
    }
}
