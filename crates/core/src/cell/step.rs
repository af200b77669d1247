//! Steps: writes of cells that commit all or none. What an open step writes is kept beside the cells and seen by its thread
//! alone, so a step that returns an error or panics is forgotten and nothing has to be taken back. A step inside another
//! one hands its writes to that one when it succeeds, and takes only its own with it when it does not.
//!
//! The outermost step commits: its window, which is to compute the new values, is told which cells they go to, may put them
//! into the memory of the old ones, and is run, while nobody else gets to see these cells.
use super::{
    Cell, CellWrite, NEXT, commit,
    overlay::{self, Mark},
};
use crate::{
    Error, Result,
    hash::Folded,
    record::{Log, Stream, context, evaluate, streams},
    recycle::Shared,
    schedule,
    value::{Kept, Other, Value},
};
use parking_lot::MutexGuard;
use smallvec::SmallVec;
use std::{collections::HashMap, sync::atomic::Ordering::Relaxed};

/// What the steps that are open on a thread have written.
#[derive(Default)]
pub(crate) struct Open {
    writes: Vec<Write>,
    /// by cell: its last write
    latest: HashMap<u64, usize, Folded>,
    /// where the writes of the innermost step begin
    from: usize,
}
struct Write {
    cell: Cell,
    value: Shared<Value>,
    /// where the window that commits it computes it
    slot: Option<u32>,
    /// the write of an outer step that this one is seen instead of
    hides: Option<usize>,
    /// what it replaced, and since when that was there, while it is being committed
    previous: Option<(Kept, u64)>,
}
impl Open {
    pub(super) fn get(&self, cell: u64) -> Option<&Shared<Value>> {
        if self.writes.is_empty() {
            return None;
        }
        self.latest.get(&cell).and_then(|&k| self.writes.get(k)).map(|w| &w.value)
    }
    /// Gives the value that the same step wrote before.
    pub(super) fn write(&mut self, cell: &Cell, value: Shared<Value>) -> Option<Shared<Value>> {
        let hides = self.latest.get(&cell.id()).copied();
        if let Some(k) = hides.filter(|k| *k >= self.from) {
            return self.writes.get_mut(k).map(|w| std::mem::replace(&mut w.value, value));
        }
        self.latest.insert(cell.id(), self.writes.len());
        self.writes.push(Write { cell: cell.clone(), value, slot: None, hides, previous: None });
        None
    }
    /// Forgets the writes of the innermost step, which are given back to be dropped.
    fn forget(&mut self) -> Vec<Write> {
        if self.writes.len() == self.from {
            return Vec::new();
        }
        let gone = self.writes.split_off(self.from);
        for w in gone.iter().rev() {
            match w.hides {
                Some(k) => self.latest.insert(w.cell.id(), k),
                None => self.latest.remove(&w.cell.id()),
            };
        }
        gone
    }
    /// The last write of each cell, in order; the lists' memory is given back to the next step.
    fn take(&mut self) -> Vec<Write> {
        let mut writes = std::mem::take(&mut self.writes);
        let mut k = 0;
        writes.retain(|w| {
            k += 1;
            self.latest.get(&w.cell.id()) == Some(&(k - 1))
        });
        self.latest.clear();
        writes
    }
}

/// An open step. Dropped before it is [kept](Layer::keep), it leaves nothing behind.
struct Layer {
    /// where the writes of the step around it begin
    outer: usize,
    mark: Option<Mark>,
    kept: bool,
}
impl Layer {
    fn open() -> Layer {
        let outer = context(|c| {
            let mut open = c.open.borrow_mut();
            c.steps.set(c.steps.get() + 1);
            let from = open.writes.len();
            std::mem::replace(&mut open.from, from)
        });
        Layer { outer, mark: overlay::mark(), kept: false }
    }
    /// The writes go to the step around it. Where there is none, they are given back to be committed.
    fn keep(mut self) -> Option<Vec<Write>> {
        self.kept = true;
        context(|c| (c.steps.get() == 1).then(|| c.open.borrow_mut().take()))
    }
}
impl Drop for Layer {
    fn drop(&mut self) {
        let _gone = context(|c| {
            let mut open = c.open.borrow_mut();
            let gone = if self.kept { Vec::new() } else { open.forget() };
            open.from = self.outer;
            c.steps.set(c.steps.get() - 1);
            gone
        });
        if let Some(mark) = self.mark.take().filter(|_| !self.kept) {
            overlay::go_back(mark);
        }
    }
}

/// Runs `f`, whose cell writes commit all or none, and flushes once at its end. Until then this thread alone sees them; if `f`
/// returns an error or panics, nobody ever does. A step inside another one hands its writes on to that one, or takes them
/// back, and only these, if it fails.
///
/// ```
/// # use adamant_core::{Cell, Device, Error, ErrorKind, Tensor, step};
/// # Device::reference().make_current();
/// let [a, b] = [0.0f32, 1.0].map(|x| Cell::new(&Tensor::from_vec(vec![x], [1]), false).unwrap());
/// step(|| {
///     a.set(&(a.detached() + 10.0))?;
///     let tried = step(|| {
///         a.set(&(a.detached() * 100.0))?;
///         b.set(&(a.detached() / 0.0))?;
///         Err::<(), _>(Error::new("try", ErrorKind::Argument("changed its mind".into())))
///     });
///     assert!(tried.is_err());
///     b.set(&(b.detached() + a.detached()))
/// })?;
/// assert_eq!((a.detached().item::<f32>()?, b.detached().item::<f32>()?), (10.0, 11.0));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// On an asynchronous device ([`crate::Device::is_asynchronous`]) nothing waits at the end. Bad data is found by the
/// device, which leaves every cell of the step as it was, and the next step may go on with good data. Then `step` has returned
/// `Ok`, and the error, with its op and line, is told by whoever reads next what was spoiled: the loss, another value of the
/// step. Where nobody does, `Device::synchronize` tells, of several such steps the first. The cells themselves are good to read.
///
/// # Errors
/// Whatever `f` returns; memory that could not be had or a fault found in data: then no cell has changed.
#[track_caller]
pub fn step<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    context(|c| c.alive("step"))?;
    let layer = Layer::open();
    let result = f()?;
    close(layer).map(|()| result)
}
/// Commits what the outermost step has written.
// Apart from `step`: it is compiled once, and not for each function that is run in a step.
fn close(layer: Layer) -> Result<()> {
    let Some(mut writes) = layer.keep() else { return Ok(()) };
    if context(|c| c.capturing()) {
        return Ok(());
    }
    let committed = commit_all(&mut writes);
    // Their memory is the next step's.
    writes.clear();
    context(|c| {
        let mut open = c.open.borrow_mut();
        if open.writes.capacity() < writes.capacity() && open.writes.is_empty() {
            open.writes = writes;
        }
    });
    committed
}

/// The error of a value that no cell may get.
pub(super) fn fault(value: &Value) -> Option<Error> {
    if let Some(stored) = value.stored() {
        return stored.fault();
    }
    match &*value.other() {
        Other::Failed(e) => Some(e.clone()),
        Other::Donated => Some(Error::at("cell write", Value::was_donated(), value.origin)),
        Other::None | Other::Deferred(_) => None,
    }
}
/// Commits all of the writes or none, and runs what this thread has pending.
fn commit_all(writes: &mut [Write]) -> Result<()> {
    // One window computes values and puts them where the old ones lie. What several would compute is computed before.
    let device = writes.iter().find(|w| w.value.is_to_run()).map(|w| w.cell.meta().device);
    for s in streams() {
        let mut log = s.log.lock();
        if Some(log.device) != device {
            let n = log.records.len();
            schedule::flush(&mut log, n)?;
        }
    }
    let Some(device) = device else { return Commit::new(None, writes).run() };
    for w in writes.iter().filter(|w| w.cell.meta().device != device) {
        evaluate(&w.value)?;
    }
    let stream: &'static Stream = match streams().find(|s| s.log.lock().device == device) {
        Some(s) => s,
        // All was recorded by other threads.
        None => {
            writes.iter().try_for_each(|w| evaluate(&w.value))?;
            return Commit::new(None, writes).run();
        }
    };
    loop {
        let mut log = stream.log.lock();
        let mut elsewhere = None;
        for w in writes.iter_mut() {
            w.slot = if w.value.is_to_run() { log.slot_of(&w.value).ok() } else { None };
            if w.slot.is_none() && w.value.is_to_run() {
                elsewhere = Some(w.value.clone());
                break;
            }
        }
        match elsewhere {
            None => return Commit::new(Some(log), writes).run(),
            // Another thread runs it. Meanwhile this window may be run too.
            Some(value) => {
                drop(log);
                evaluate(&value)?;
            }
        }
    }
}

/// A commit at work. Dropped before it is done, also by a panic, all cells are as they were.
struct Commit<'a> {
    log: Option<MutexGuard<'a, Log>>,
    writes: &'a mut [Write],
    group: u64,
    done: bool,
}
impl<'a> Commit<'a> {
    fn new(log: Option<MutexGuard<'a, Log>>, writes: &'a mut [Write]) -> Commit<'a> {
        Commit { log, writes, group: NEXT.fetch_add(1, Relaxed), done: false }
    }
    fn run(mut self) -> Result<()> {
        if let Some(e) = self.writes.iter().find_map(|w| fault(&w.value)) {
            self.done = true;
            return Err(e);
        }
        self.claim();
        let outer = context(|c| c.committing.replace(self.group));
        let ran = match &mut self.log {
            Some(log) => {
                let n = log.records.len();
                schedule::flush(log, n)
            }
            None => Ok(()),
        };
        context(|c| c.committing.set(outer));
        ran?;
        if let Some(e) = schedule::take_suppressed(self.group) {
            return Err(e);
        }
        self.done = true;
        // The others are counted where they are run.
        self.writes.iter().filter(|w| w.previous.is_some()).for_each(|w| w.cell.committed());
        context(|c| self.writes.iter().for_each(|w| c.section.wrote(w.cell.id())));
        Ok(())
    }
    /// Puts the new values into the cells, of which nobody else sees anything until the commit is done.
    fn claim(&mut self) {
        let (log, group) = (&mut self.log, self.group);
        let cells: &[Write] = self.writes;
        // Few values are there before their step commits, such as a number.
        let mut previous: SmallVec<[(usize, Kept, u64); 2]> = SmallVec::new();
        commit::claim(cells.iter().map(|w| &w.cell), group, |k, value, since| {
            let w = &cells[k];
            let before = Kept::new(&std::mem::replace(value, w.value.clone()));
            match (w.slot.filter(|_| w.value.is_to_run()), log.as_mut()) {
                (Some(slot), Some(log)) => log.note_write(CellWrite { cell: w.cell.clone(), slot, group, previous: before, since }),
                (_, log) => {
                    // The device that may leave out the others leaves out this one too.
                    if let Some(log) = log.filter(|log| log.device.is_asynchronous()) {
                        log.beside.push(schedule::Beside { cell: w.cell.clone(), value: w.value.clone(), group, previous: before.clone(), since });
                    }
                    previous.push((k, before, since));
                }
            }
        });
        for (k, before, since) in previous {
            self.writes[k].previous = Some((before, since));
        }
    }
}
impl Drop for Commit<'_> {
    fn drop(&mut self) {
        if !self.done {
            let _ = schedule::take_suppressed(self.group);
            if let Some(log) = &mut self.log {
                withdraw_group(log, self.group);
            }
            for w in self.writes.iter_mut().rev() {
                if let Some((previous, since)) = w.previous.take() {
                    w.cell.withdraw(&w.value, &previous, since);
                }
            }
        }
        commit::release(self.writes.iter().map(|w| &w.cell), self.group);
    }
}
/// Takes back the writes of a step that did not run.
fn withdraw_group(log: &mut Log, group: u64) {
    let (gone, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut log.writes).into_iter().partition(|w| w.group == group);
    log.writes = stay;
    if gone.is_empty() {
        return;
    }
    for w in gone.iter().rev() {
        let written = log.values[w.slot as usize].clone();
        w.cell.withdraw(&written, &w.previous, w.since);
    }
    // The window's key no longer tells its writes: make it one of its own.
    log.structure = crate::hash::mix(log.structure, group);
    let structure = log.structure;
    if let Some(r) = log.records.last_mut() {
        r.structure = structure;
    }
}
