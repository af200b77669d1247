//! What comes before what: a clock for each stream, and for each range of memory who wrote and read it last.
//!
//! Two pieces of work that touch one byte, one of them writing, must be ordered: by their stream, by an event that was
//! recorded and waited for, or by a host that waited in between. What is not is a fault under every seed, whether or not
//! this seed's order showed it.
use crate::machine::Serials;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// For each stream, how much of its work is known to come before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VectorClock(Vec<(u64, u64)>);

impl VectorClock {
    /// How much of `stream` comes before.
    pub fn of(&self, stream: u64) -> u64 {
        self.0.iter().find(|(s, _)| *s == stream).map_or(0, |(_, number)| *number)
    }
    fn raise(&mut self, stream: u64, to: u64) {
        match self.0.iter_mut().find(|(s, _)| *s == stream) {
            Some((_, number)) => *number = (*number).max(to),
            None => self.0.push((stream, to)),
        }
    }
    /// All that comes before `other` comes before this, too.
    pub fn join(&mut self, other: &VectorClock) {
        for (stream, number) in &other.0 {
            self.raise(*stream, *number);
        }
    }
    /// The next piece of work of `stream`.
    pub fn advance(&mut self, stream: u64) -> u64 {
        let next = self.of(stream) + 1;
        self.raise(stream, next);
        next
    }
}

/// A piece of work in the order: its place in its stream, and within a graph's launch its node.
#[derive(Debug, Clone)]
pub(crate) struct Stamp {
    pub stream: u64,
    pub number: u64,
    pub node: usize,
    /// What it was, for the report.
    pub what: Arc<str>,
}
/// The work that touches memory now.
pub(crate) struct WorkNow<'w> {
    pub stamp: Stamp,
    pub clock: &'w VectorClock,
    /// The nodes of its graph that come before it, a bit each.
    pub ancestors: &'w [u64],
    /// What locked memory held that it reads, when it was asked for, and how much work had run then.
    pub staged: Option<(u64, u64)>,
}
impl WorkNow<'_> {
    fn is_after(&self, other: &Stamp) -> bool {
        if other.stream == self.stamp.stream && other.number == self.stamp.number {
            let before = self.ancestors.get(other.node / 64).is_some_and(|bits| bits >> (other.node % 64) & 1 == 1);
            return other.node == self.stamp.node || before;
        }
        self.clock.of(other.stream) >= other.number
    }
}

/// Who touched a range last.
#[derive(Debug, Clone, Default)]
struct Touched {
    end: u64,
    writer: Option<Stamp>,
    readers: Vec<Stamp>,
}
/// Who touched what last, of a device's memory: by its places, which are the same wherever it is mapped.
#[derive(Default)]
pub(crate) struct Accesses(BTreeMap<u64, Touched>);

impl Accesses {
    /// Notes that `present` reads or writes; gives work that touched the same bytes and is not ordered with it.
    pub fn touch(&mut self, from: u64, bytes: u64, writes: bool, present: &WorkNow) -> Option<Stamp> {
        let to = from.saturating_add(bytes);
        self.split(from);
        self.split(to);
        let mut against = None;
        let mut at = from;
        while at < to {
            let next = self.0.range(at..to).next().map(|(start, touched)| (*start, touched.end));
            match next {
                Some((start, end)) if start == at => {
                    if let Some(touched) = self.0.get_mut(&start) {
                        against = against.or_else(|| touched.conflict(writes, present));
                        touched.note(writes, &present.stamp);
                    }
                    at = end;
                }
                next => {
                    let end = next.map_or(to, |(start, _)| start);
                    let mut touched = Touched { end, ..Touched::default() };
                    touched.note(writes, &present.stamp);
                    self.0.insert(at, touched);
                    at = end;
                }
            }
        }
        against
    }
    /// Memory that is gone.
    pub fn forget(&mut self, from: u64, bytes: u64) {
        let to = from.saturating_add(bytes);
        self.split(from);
        self.split(to);
        let gone: Vec<u64> = self.0.range(from..to).map(|(start, _)| *start).collect();
        for start in gone {
            self.0.remove(&start);
        }
    }
    /// All work so far comes before all that follows.
    pub fn clear(&mut self) {
        self.0.clear();
    }
    /// A range that spans `at` becomes two.
    fn split(&mut self, at: u64) {
        let Some((start, touched)) = self.0.range_mut(..at).next_back() else { return };
        if touched.end > at && *start < at {
            let behind = touched.clone();
            touched.end = at;
            self.0.insert(at, behind);
        }
    }
}
impl Touched {
    fn conflict(&self, writes: bool, present: &WorkNow) -> Option<Stamp> {
        let readers = if writes { self.readers.as_slice() } else { &[] };
        self.writer.iter().chain(readers).find(|other| !present.is_after(other)).cloned()
    }
    fn note(&mut self, writes: bool, stamp: &Stamp) {
        if writes {
            self.writer = Some(stamp.clone());
            self.readers.clear();
        } else {
            self.readers.retain(|r| r.stream != stamp.stream || r.number == stamp.number && r.node != stamp.node);
            self.readers.push(stamp.clone());
        }
    }
}

/// Bytes that work touched: where they begin, how many, whether it wrote.
pub(crate) type Range = (u64, u64, bool);
/// Work of one stream beyond which the oldest is forgotten.
const REMEMBERED: usize = 1 << 14;

/// Work that is done: what it touched is known by the marks its blocks left, or by ranges.
struct Done {
    stamp: Stamp,
    serials: Option<Serials>,
    ranges: Vec<Range>,
}
/// Work that is done, by its stream: kernels say what they touch only as they run, so each is held against what others did.
#[derive(Default)]
pub(crate) struct DoneLog(HashMap<u64, VecDeque<Done>>);
/// Work that is done and not ordered with some other: kernels by their marks, and ranges, each with what it was.
#[derive(Default)]
pub(crate) struct Unordered {
    pub launches: Vec<Serials>,
    pub names: Vec<Arc<str>>,
    pub ranges: Vec<(Range, Arc<str>)>,
}

impl DoneLog {
    /// What is not ordered with this work.
    pub fn unordered(&self, present: &WorkNow) -> Unordered {
        let mut found = Unordered::default();
        for (stream, done) in &self.0 {
            let mine = *stream == present.stamp.stream;
            // From the youngest back to what surely comes before: in its own stream all but nodes of the same launch.
            let before = if mine { present.stamp.number - 1 } else { present.clock.of(*stream) };
            for done in done.iter().rev().take_while(|d| d.stamp.number > before) {
                if present.is_after(&done.stamp) {
                    continue;
                }
                found.launches.extend(done.serials);
                found.ranges.extend(done.ranges.iter().map(|r| (*r, done.stamp.what.clone())));
                if done.serials.is_some() {
                    found.names.push(done.stamp.what.clone());
                }
            }
        }
        found
    }
    pub fn note(&mut self, stamp: &Stamp, serials: Option<Serials>, ranges: Vec<Range>) {
        if serials.is_none() && ranges.is_empty() {
            return;
        }
        let done = self.0.entry(stamp.stream).or_default();
        done.push_back(Done { stamp: stamp.clone(), serials, ranges });
        if done.len() > REMEMBERED {
            done.pop_front();
        }
    }
    /// What the host waited for comes before all that follows.
    pub fn forget(&mut self, known: &VectorClock) {
        for (stream, done) in &mut self.0 {
            while done.front().is_some_and(|d| d.stamp.number <= known.of(*stream)) {
                done.pop_front();
            }
        }
        self.0.retain(|_, done| !done.is_empty());
    }
    /// Memory that is gone.
    pub fn forget_range(&mut self, from: u64, bytes: u64) {
        for done in self.0.values_mut().flatten() {
            done.ranges.retain(|(start, length, _)| start + length <= from || *start >= from + bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(stream: u64, number: u64) -> Stamp {
        Stamp { stream, number, node: 0, what: "work".into() }
    }
    #[test]
    fn work_of_two_streams_conflicts_unless_a_clock_orders_it() {
        let clock = |parts: &[(u64, u64)]| VectorClock(parts.to_vec());
        // (first writes, second writes, overlap, second knows of the first) -> conflict
        for (first, second, from, known, conflict) in [
            (true, false, 0, false, true),
            (true, false, 96, false, true),
            (true, false, 100, false, false),
            (true, false, 0, true, false),
            (false, false, 0, false, false),
            (false, true, 50, false, true),
            (false, true, 50, true, false),
            (true, true, 99, false, true),
        ] {
            let mut accesses = Accesses::default();
            let one = WorkNow { stamp: stamp(1, 1), clock: &clock(&[(1, 1)]), ancestors: &[], staged: None };
            assert!(accesses.touch(0, 100, first, &one).is_none());
            let known = if known { clock(&[(2, 1), (1, 1)]) } else { clock(&[(2, 1)]) };
            let two = WorkNow { stamp: stamp(2, 1), clock: &known, ancestors: &[], staged: None };
            let found = accesses.touch(from, 50, second, &two).is_some();
            assert_eq!(found, conflict, "writes {first} then {second}, from {from}, {known:?}");
        }
    }
    #[test]
    fn nodes_of_one_launch_are_ordered_by_their_edges() {
        let clock = VectorClock(vec![(1, 1)]);
        let node = |node, ancestors| WorkNow { stamp: Stamp { node, ..stamp(1, 1) }, clock: &clock, ancestors, staged: None };
        let mut accesses = Accesses::default();
        assert!(accesses.touch(0, 8, true, &node(0, &[])).is_none());
        assert!(accesses.touch(0, 8, false, &node(1, &[1])).is_none());
        assert!(accesses.touch(4, 8, true, &node(2, &[1])).is_some(), "node 1 read it and does not come before");
    }
}
