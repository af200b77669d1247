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

#[cfg(test)]
mod tests {
    use super::*;

    fn said(cause: &str) -> FailureCause {
        FailureCause::Said(cause.into())
    }
    fn lost(rank: usize) -> FailureCause {
        FailureCause::Lost { rank, why: "gone".into() }
    }
    fn differ(rank: usize) -> FailureCause {
        FailureCause::Differ { seq: 4, own: "a".into(), rank, other: "b".into() }
    }
    /// What rank 0 of four is told that waits for ranks 1 and 3 in group 7, which was made of all.
    fn verdict(what: &[&dyn Fn(&Liveness)]) -> String {
        let liveness = Liveness::still(4);
        what.iter().for_each(|happens| happens(&liveness));
        let verdict = liveness.verdict(0, &[7, 0], &[0, 1, 3], &[1, 3], &"waiting", 5);
        verdict.map_or_else(String::new, |kind| kind.to_string())
    }
    #[test]
    fn a_cause_that_hides_behind_what_follows_from_it() {
        let gone = |rank: usize| move |l: &Liveness| l.set(rank, PeerState::Lost("gone".into()));
        let left = |rank: usize| move |l: &Liveness| l.set(rank, PeerState::Left);
        let fails = |group: u64, from: usize, cause: FailureCause| move |l: &Liveness| l.fail(group, from, cause.clone());
        let of_1 = "rank 1 is lost: gone, in call 5, waiting";
        assert_eq!(verdict(&[]), "");
        assert_eq!(verdict(&[&gone(1)]), of_1);
        // Of no member.
        assert_eq!(verdict(&[&gone(2), &left(2)]), "");
        assert_eq!(verdict(&[&fails(9, 2, said("x"))]), "");
        assert_eq!(verdict(&[&fails(7, 3, said("x"))]), "rank 3 failed: x");
        assert_eq!(verdict(&[&fails(0, 2, said("x"))]), "rank 2 failed: x");
        // A lost rank explains what another says, and that it ends itself.
        assert_eq!(verdict(&[&fails(0, 3, said("x")), &gone(1)]), of_1);
        assert_eq!(verdict(&[&fails(0, 3, lost(1)), &gone(3)]), "rank 1 is lost: gone (as rank 3 saw), in call 5, waiting");
        assert_eq!(verdict(&[&fails(0, 2, said("x")), &fails(0, 3, lost(1))]), "rank 1 is lost: gone (as rank 3 saw), in call 5, waiting");
        assert_eq!(verdict(&[&fails(0, 3, said("x")), &gone(3)]), "rank 3 failed: x");
        // What is first known stays.
        assert_eq!(verdict(&[&left(3), &gone(3)]), "rank 3 is lost: it left, in call 5, waiting");
        // This rank is the other one; or is given up.
        assert_eq!(verdict(&[&fails(0, 1, differ(0))]), "ranks differ in call 4: this one calls b as rank 0, rank 1 calls a");
        assert_eq!(verdict(&[&fails(0, 1, differ(3))]), "rank 1 failed: ranks differ in call 4: it calls a, rank 3 calls b");
        assert_eq!(verdict(&[&fails(0, 1, lost(0))]), "rank 1 failed: it gave up this rank: gone");
    }
    #[test]
    fn a_cause_that_is_other_after_its_way() {
        for (group, cause) in [(0, said("x")), (7, lost(3)), (u64::MAX, differ(2)), (1, said(""))] {
            let body = cause.encode(group);
            assert_eq!(FailureCause::decode(&body), Some((group, cause)));
            (0..body.len()).for_each(|n| assert_eq!(FailureCause::decode(&body[..n]), None));
        }
    }
    #[test]
    fn a_change_that_nobody_is_woken_by() {
        let liveness = Liveness::new(2);
        let woken = std::sync::Arc::new(AtomicU64::new(0));
        let count = woken.clone();
        // It wants to be woken twice.
        liveness.on_change(Box::new(move || count.fetch_add(1, Ordering::SeqCst) < 1));
        liveness.set(1, PeerState::Left);
        liveness.set(1, PeerState::Left);
        liveness.fail(0, 1, said("x"));
        liveness.fail(0, 1, said("y"));
        liveness.fail(1, 1, said("z"));
        assert_eq!((woken.load(Ordering::SeqCst), liveness.version()), (2, 3));
    }
}
