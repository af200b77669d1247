//! The order of commits. Each has a number; a [`super::Snapshot`] is of one of them.
//!
//! A commit claims its cells all at once, so that who takes a snapshot before sees none of it and who takes one later sees
//! all of it; then it computes, which may overwrite the cells' memory, and lets go of them. Whoever wants the latest value of
//! a claimed cell waits for that, and no longer. One lock orders it all, and nothing is computed under it.
//!
//! Invariant: a thread that holds a claim waits for no window of another thread. A thread that commits a step holds its own
//! window while it waits for claims.
use super::{Cell, CellState, Inner, NEXT, Older};
use crate::{
    planted::{Plant, is},
    recycle::{self, Shared, SpareLists},
    value::Value,
};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{
    cell::RefCell,
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
};

/// Which commits there were, and which of them are still read.
pub(super) struct Commits {
    /// the number given out last
    last: u64,
    /// Commits that snapshots are of, in order, and how many are.
    readers: Vec<(u64, usize)>,
    /// cells with values of before
    old: Vec<Weak<Inner>>,
}
static COMMITS: Mutex<Commits> = Mutex::new(Commits { last: 0, readers: Vec::new(), old: Vec::new() });
static RELEASED: Condvar = Condvar::new();

impl Commits {
    /// A new value takes the place of this one. Where a snapshot reads it, it is kept.
    fn retire(&mut self, cell: &Cell, state: &mut CellState) {
        if self.readers.last().is_some_and(|(at, _)| *at >= state.since) && !is(Plant::SnapshotNotKept) {
            state.older.push(Older { value: state.value.clone(), since: state.since, until: self.last });
            self.old.push(Arc::downgrade(&cell.0));
        }
    }
    fn is_read(&self, older: &Older) -> bool {
        self.readers.iter().any(|(at, _)| (older.since..older.until).contains(at))
    }
}
fn is_claimed(cell: &Cell, own: u64) -> bool {
    let writer = cell.0.state.lock().writer;
    writer != 0 && writer != own
}
/// The order, once none of these cells is another's.
fn when_free<'c>(cells: impl Iterator<Item = &'c Cell> + Clone, own: u64) -> MutexGuard<'static, Commits> {
    let mut commits = COMMITS.lock();
    while cells.clone().any(|cell| is_claimed(cell, own)) {
        RELEASED.wait(&mut commits);
    }
    commits
}
/// Returns when the commit that has claimed the cell is done.
pub(super) fn wait_for(cell: &Cell) {
    drop(when_free(std::iter::once(cell), 0));
}

/// A commit of one value: what it replaces, and since when that was there.
pub(super) fn replace(cell: &Cell, value: Shared<Value>, own: u64) -> (Shared<Value>, u64) {
    let mut commits = when_free(std::iter::once(cell), own);
    commits.last += 1;
    let mut state = cell.0.state.lock();
    commits.retire(cell, &mut state);
    cell.moved();
    let since = std::mem::replace(&mut state.since, commits.last);
    (std::mem::replace(&mut state.value, value), since)
}
/// Claims cells for a commit, all at once, and puts new values in: `new` gives them, and gets what they replace with the
/// number of the commit that was of.
pub(super) fn claim<'c>(cells: impl Iterator<Item = &'c Cell> + Clone, by: u64, mut new: impl FnMut(usize, &mut Shared<Value>, u64)) {
    let mut commits = when_free(cells.clone(), by);
    commits.last += 1;
    for (k, cell) in cells.enumerate() {
        let mut state = cell.0.state.lock();
        commits.retire(cell, &mut state);
        state.writer = by;
        cell.moved();
        let since = std::mem::replace(&mut state.since, commits.last);
        new(k, &mut state.value, since);
    }
}
/// Lets go of the cells of a commit that is done.
pub(super) fn release<'c>(cells: impl Iterator<Item = &'c Cell>, by: u64) {
    let commits = COMMITS.lock();
    for cell in cells {
        let mut state = cell.0.state.lock();
        if state.writer == by {
            state.writer = 0;
        }
    }
    drop(commits);
    RELEASED.notify_all();
}

/// A snapshot begins: the number of the last commit.
pub(super) fn begin_reading() -> u64 {
    let mut commits = COMMITS.lock();
    let at = commits.last;
    match commits.readers.last_mut() {
        Some((last, n)) if *last == at => *n += 1,
        _ => commits.readers.push((at, 1)),
    }
    at
}
/// One more reads what another reads already.
pub(super) fn go_on_reading(at: u64) {
    if let Some((_, n)) = COMMITS.lock().readers.iter_mut().find(|(other, _)| *other == at) {
        *n += 1;
    }
}
/// A snapshot ends, and with it what was kept for it alone.
pub(super) fn end_reading(at: u64) {
    // Values and cells are let go of when nothing is locked: they give memory back to their pools.
    let mut gone: Vec<(Arc<Inner>, Vec<Older>)> = Vec::new();
    let mut commits = COMMITS.lock();
    let Some(k) = commits.readers.iter().position(|(other, _)| *other == at) else { return };
    commits.readers[k].1 -= 1;
    if commits.readers[k].1 > 0 {
        return;
    }
    commits.readers.remove(k);
    for cell in std::mem::take(&mut commits.old) {
        let Some(inner) = cell.upgrade() else { continue };
        let (unread, still_read) = {
            let mut state = inner.state.lock();
            let unread: Vec<Older> = state.older.extract_if(.., |older| !commits.is_read(older)).collect();
            (unread, !state.older.is_empty())
        };
        gone.push((inner, unread));
        if still_read {
            commits.old.push(cell);
        }
    }
    drop(commits);
}

thread_local! {
    static SINCE: SpareLists<Vec<u64>> = const { RefCell::new(Vec::new()) };
}
/// Cells that a compiled function writes, claimed from before it reads them until it has written them.
pub(crate) struct Claim<'a> {
    cells: &'a [(Cell, u32)],
    /// empty once they are written
    since: Vec<u64>,
    by: u64,
}
impl<'a> Claim<'a> {
    pub fn of(cells: &'a [(Cell, u32)]) -> Claim<'a> {
        let by = NEXT.fetch_add(1, Relaxed);
        let mut was = recycle::take(&SINCE);
        claim(cells.iter().map(|(cell, _)| cell), by, |_, _, since| was.push(since));
        Claim { cells, since: was, by }
    }
    /// Is this still what a cell holds?
    pub fn holds(cell: &Cell, value: &Shared<Value>) -> bool {
        cell.0.state.lock().value.is_same(value) || is(Plant::LostUpdate)
    }
    /// All of them have these values from now on.
    pub fn commit(mut self, values: impl Iterator<Item = Shared<Value>>) {
        self.since.clear();
        for ((cell, _), value) in self.cells.iter().zip(values) {
            let mut state = cell.0.state.lock();
            cell.moved();
            let before = std::mem::replace(&mut state.value, value);
            drop(state);
            drop(before);
            cell.committed();
        }
    }
}
impl Drop for Claim<'_> {
    fn drop(&mut self) {
        // Where nothing was written: the old values are of the commit that they were of.
        for ((cell, _), since) in self.cells.iter().zip(&self.since) {
            cell.0.state.lock().since = *since;
        }
        recycle::give_back(&SINCE, std::mem::take(&mut self.since));
        release(self.cells.iter().map(|(cell, _)| cell), self.by);
    }
}
