//! Cells: the only place where state lives. Parameters, running statistics, optimizer slots, random counters and
//! caches are cells. A cell accepts only its own shape, dtype and device; the writes of one step commit together.
//!
//! A thread reads, in this order: what an [`Overlay`] shows it (code that is run again or captured), what its own open
//! [`step()`] wrote, the version that its [`Snapshot`] is of, the last value that was committed. So what a step writes is
//! seen by nobody else before it commits, and a step that fails has nothing to take back.
use crate::{
    Error, ErrorKind, Meta, Operand, Result, Tensor, ToIndex,
    error::Origin,
    grad::Tape,
    planted::{Plant, is},
    record::{RecordingContext, context, evaluate},
    recycle::Shared,
    value::{Kept, Stored, Value},
};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
};

mod casts;
mod commit;
mod derived;
mod overlay;
mod snapshot;
mod source;
mod step;
mod when;
pub use casts::{cast_once, casting_once};
pub(crate) use commit::Claim;
pub(crate) use overlay::{Overlay, OverlayGuard, OverlayKind, is_first_pass};
use snapshot::LATEST;
pub(crate) use snapshot::ReadSection;
pub use snapshot::{Snapshot, consistent};
pub use source::CellSource;
pub(crate) use source::{SavedReading, reading_of};
pub(crate) use step::Open;
pub use step::step;
pub use when::{WrittenCell, step_reviewed, step_when};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A shared, mutable place for one tensor. Clones are the same cell.
#[derive(Clone)]
pub struct Cell(Arc<Inner>);
struct Inner {
    id: u64,
    meta: Meta,
    leaf: Option<Shared<Tape>>,
    state: Mutex<CellState>,
    version: AtomicU64,
    /// How often it came to hold another value, committed or not: counted while the state is locked, so that a number stands for one value.
    moves: AtomicU64,
    /// copies that follow from the value
    derived: Mutex<Vec<derived::Derived>>,
    /// casts of it, which gradients flow through
    casts: casts::HeldCasts,
    /// who has the value, where the cell has not
    source: source::HeldSource,
}
/// What a cell holds. The lock is held for the time of a copy of a handle, never while anything is computed.
struct CellState {
    value: Shared<Value>,
    /// the number of the commit that the value is of
    since: u64,
    /// The commit at work on it, 0: none. Until that is done the value is neither the old one nor the new one, and who
    /// wants the latest waits.
    writer: u64,
    /// values that snapshots still read
    older: Vec<Older>,
}
/// A value of before: what commits `since..until` saw.
struct Older {
    value: Shared<Value>,
    since: u64,
    until: u64,
}
/// A write that is recorded and not yet committed.
pub(crate) struct CellWrite {
    pub cell: Cell,
    pub slot: u32,
    pub group: u64,
    pub previous: Kept,
    /// the commit that the previous value is of
    pub since: u64,
}

/// Does this thread see cells otherwise than as they stand: inside a step, a snapshot or an overlay?
pub(crate) fn is_apart() -> bool {
    overlay::any() || context(|c| c.steps.get() != 0 || c.section.is_open())
}

impl Cell {
    /// A cell that holds `value`, which is evaluated when first needed. `trainable`: gradients flow to it.
    ///
    /// # Errors
    /// A failed tensor.
    #[track_caller]
    pub fn new(value: &Tensor, trainable: bool) -> Result<Cell> {
        let value = value.clone().ok()?;
        if context(RecordingContext::capturing) {
            // What a capture computes is there at no time.
            evaluate(value.value())?;
        }
        let meta = value.meta();
        let leaf = trainable.then(|| crate::grad::leaf(meta, Origin::here()));
        // Who has an older snapshot can only have got the cell since: for them it began like this.
        let state = CellState { value: value.value().clone(), since: 0, writer: 0, older: Vec::new() };
        Ok(Cell(Arc::new(Inner {
            id: NEXT.fetch_add(1, Relaxed),
            meta,
            leaf,
            state: Mutex::new(state),
            version: AtomicU64::new(0),
            moves: AtomicU64::new(0),
            derived: Mutex::default(),
            casts: casts::HeldCasts::default(),
            source: source::HeldSource::default(),
        })))
    }
    /// A number that tells cells apart.
    pub fn id(&self) -> u64 {
        self.0.id
    }
    /// Shape, dtype and device, fixed for the cell's life.
    pub fn meta(&self) -> Meta {
        self.0.meta
    }
    /// Do gradients flow to it?
    pub fn is_trainable(&self) -> bool {
        self.0.leaf.is_some()
    }
    /// Counts committed writes: what is derived from the value (a packed or cast copy) is kept by it.
    pub fn version(&self) -> u64 {
        self.0.version.load(Relaxed)
    }
    /// The present value, tracked if the cell is trainable.
    pub fn get(&self) -> Tensor {
        let tensor = self.detached();
        match &self.0.leaf {
            Some(leaf) if tensor.error().is_none() && !context(|c| c.grad_off.get()) => tensor.with_leaf(leaf.clone()),
            _ => tensor,
        }
    }
    /// The present value without a gradient: [`Cell::get`], detached.
    pub fn detached(&self) -> Tensor {
        if crate::transform::any()
            && let Some(own) = crate::transform::read_cell(self.0.id)
        {
            return own;
        }
        match self.source() {
            Some(source) => self.sourced(&*source),
            None => self.held(),
        }
    }
    /// What it holds beneath all transforms.
    fn held(&self) -> Tensor {
        if casts::is_active() {
            return self.held_and_noted();
        }
        overlay::read(self).unwrap_or_else(|| match self.seen() {
            Ok(value) => Tensor::from_value(value),
            Err(e) => Tensor::failed(e),
        })
    }
    /// The same, where a cast of it is made once. A value that this thread alone sees, or that an older snapshot has, is not noted: it may go
    /// while the cell stays.
    fn held_and_noted(&self) -> Tensor {
        let before = self.moves();
        let covered = overlay::read(self);
        let plain = context(|c| c.open.borrow().get(self.0.id).is_none() && !c.section.is_open());
        let is_captured = covered.is_some();
        let notes = if is_captured { context(RecordingContext::capturing) } else { plain };
        let tensor = covered.unwrap_or_else(|| self.seen().map_or_else(Tensor::failed, Tensor::from_value));
        // What came to be there meanwhile is another value, of another number.
        if notes && tensor.error().is_none() && (is_captured || self.number_of(tensor.value()) == Some(before)) {
            casts::note(self, before, &tensor, is_captured);
        }
        tensor
    }
    /// The number of a value that it holds now.
    fn number_of(&self, value: &Shared<Value>) -> Option<u64> {
        let state = self.0.state.lock();
        state.value.is_same(value).then(|| self.moves())
    }
    /// How often it came to hold another value, committed or not.
    pub(crate) fn moves(&self) -> u64 {
        self.0.moves.load(Acquire)
    }
    /// It holds another value from now on: casts of the one before go.
    fn moved(&self) {
        self.0.moves.fetch_add(1, AcqRel);
        self.0.casts.clear();
    }
    /// What this thread sees where no overlay shows it anything else.
    pub(crate) fn seen(&self) -> Result<Shared<Value>> {
        context(|c| {
            c.alive("cell read")?;
            if let Some(value) = c.open.borrow().get(self.0.id) {
                return Ok(value.clone());
            }
            Ok(self.as_of(c.section.at(self.0.id), c.committing.get()))
        })
    }
    /// The value as of a commit. The latest one is waited for while another thread's commit, which is not `own`, is at work
    /// on it.
    fn as_of(&self, at: u64, own: u64) -> Shared<Value> {
        self.as_of_commit(at, own).0
    }
    /// As [`Cell::as_of`], with the number of the commit that the value is of.
    fn as_of_commit(&self, at: u64, own: u64) -> (Shared<Value>, u64) {
        loop {
            {
                let state = self.0.state.lock();
                let older = if at < state.since { state.older.iter().find(|o| (o.since..o.until).contains(&at)) } else { None };
                if let Some(older) = older {
                    return (older.value.clone(), older.since);
                }
                if state.writer == 0 || state.writer == own || is(Plant::ClaimIgnored) {
                    return (state.value.clone(), state.since);
                }
            }
            commit::wait_for(self);
        }
    }
    /// The value as of a commit, with the number of the one that wrote it.
    fn version_of(&self, at: u64) -> (Shared<Value>, u64) {
        self.as_of_commit(at, 0)
    }
    /// The number of the commit that the latest value is of.
    fn since(&self) -> u64 {
        self.0.state.lock().since
    }
    /// The value that was committed last, whatever a step, a snapshot or a capture around the call shows.
    pub fn committed_value(&self) -> Tensor {
        Tensor::from_value(self.as_of(LATEST, context(|c| c.committing.get())))
    }
    /// Moves a value that is there into memory of the device's pool, if it lies in a vector that was adopted. A cell is written
    /// where it lies: if that is done at every step, as an optimizer does, and the vector begins between two lines of the cache,
    /// each load and store touches two. And where the first new value lies elsewhere, the pool gets memory back that the next
    /// step asks for, which a vector is not. The value and the cell's version stay.
    ///
    /// ```
    /// # use adamant_core::{Cell, Device, Tensor};
    /// # Device::reference().make_current();
    /// let cell = Cell::new(&Tensor::from_vec(vec![1.0f32; 5], [5]), false)?;
    /// cell.align()?;
    /// assert_eq!(cell.detached().to_vec::<f32>()?, [1.0; 5]);
    /// assert_eq!(cell.version(), 0);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Memory; then the value stays where it is.
    pub fn align(&self) -> Result<()> {
        let before = self.0.state.lock().value.clone();
        let Meta { shape, dtype, device } = self.0.meta;
        let aligned = before.stored().filter(|s| s.buffer.is_adopted() && s.is_clean() && s.is_dense(&shape)).and_then(|stored| {
            let memory = stored.buffer.read();
            let (from, bytes) = (stored.offset * dtype.size(), shape.elements() * dtype.size());
            let there = memory.as_deref()?.host()?.get(from..from + bytes)?;
            Some(Tensor::in_memory("cell", dtype, shape.elements(), shape, device, || device.pool().copied(device, there)).ok())
        });
        if let Some(aligned) = aligned {
            let aligned = aligned?;
            let mut state = self.0.state.lock();
            if state.writer == 0 && state.value.is_same(&before) {
                self.moved();
                state.value = aligned.value().clone();
            }
        }
        Ok(())
    }
    /// Replaces the value. Inside a [`step()`] the write commits together with the others of the step; until then only this
    /// thread sees it. Outside, it commits by itself when it has run without a fault.
    ///
    /// # Errors
    /// A failed tensor, or another shape, dtype or device than the cell's.
    #[track_caller]
    pub fn set(&self, value: &Tensor) -> Result<()> {
        when::note(self);
        self.moved();
        let value = value.detach().ok()?;
        let (meta, want) = (value.meta(), self.0.meta);
        if meta.dtype != want.dtype {
            return Err(Error::new("cell write", ErrorKind::DtypeMismatch { left: want.dtype, right: meta.dtype }));
        }
        if meta.shape != want.shape {
            return Err(Error::new(
                "cell write",
                ErrorKind::ShapeMismatch { left: want.shape, right: meta.shape, axes: None, expected: "a cell keeps its shape" },
            ));
        }
        if meta.device != want.device {
            return Err(Error::new("cell write", ErrorKind::DeviceMismatch { left: want.device.to_string(), right: meta.device.to_string() }));
        }
        if let Some(source) = self.source() {
            return source.write(self, &value);
        }
        let value = if crate::transform::any() {
            match crate::transform::written(self.0.id, &value, || self.held())? {
                Some(shared) => shared,
                None => return Ok(()),
            }
        } else {
            value
        };
        if overlay::write(self, &value)? {
            return Ok(());
        }
        if context(|c| c.steps.get() == 0 && value.value().is_pending() && c.stream(want.device).id != value.value().home) {
            // The window of another thread knows nothing of this cell, and would leave bad data in it.
            evaluate(value.value())?;
        }
        if let Some(fault) = value.value().stored().and_then(Stored::fault) {
            // It ran already, on bad data: the cell stays as it is.
            return Err(fault);
        }
        context(|c| {
            c.alive("cell write")?;
            if c.steps.get() == 0 {
                c.section.wrote(self.0.id);
                self.set_now(c, value.value());
                return Ok(());
            }
            // What it replaces goes while nothing is borrowed: a value may hold a user's composite, whose `Drop` does as it likes.
            let _before = c.open.borrow_mut().write(self, value.value().clone());
            Ok(())
        })
    }
    /// Replaces what stands at an index: `x[index] = values` of a cell, by [`Tensor::with_i`] and [`Cell::set`].
    ///
    /// # Errors
    /// As both.
    #[track_caller]
    #[doc(alias = "__setitem__")]
    pub fn set_i(&self, index: impl ToIndex, values: impl Operand) -> Result<()> {
        self.set(&self.detached().with_i(index, values))
    }
    /// A write outside of any step: a commit of its own.
    fn set_now(&self, c: &RecordingContext, value: &Shared<Value>) {
        let (previous, since) = commit::replace(self, value.clone(), c.committing.get());
        if value.is_to_run() {
            let s = c.stream(self.0.meta.device);
            let mut log = s.log.lock();
            let slot = if value.is_deferred() { log.slot_of(value).ok() } else { value.slot(log.epoch) };
            if let Some(slot) = slot.filter(|_| value.is_to_run()) {
                let previous = Kept::new(&previous);
                return log.note_write(CellWrite { cell: self.clone(), slot, group: NEXT.fetch_add(1, Relaxed), previous, since });
            }
        }
        // It was there, or another thread has run it meanwhile, which may have found it bad.
        match step::fault(value) {
            Some(_) => self.withdraw(value, &previous, since),
            None => self.committed(),
        }
    }
    pub(crate) fn committed(&self) {
        self.0.version.fetch_add(1, Relaxed);
    }
    /// Undoes a write that was suppressed, if nothing was written since.
    pub(crate) fn withdraw(&self, written: &Shared<Value>, previous: &Shared<Value>, since: u64) {
        let mut state = self.0.state.lock();
        if state.value.is_same(written) {
            self.moved();
            state.value = previous.clone();
            state.since = since;
        }
    }
    /// Its value, for whoever has claimed it.
    pub(crate) fn claimed(&self) -> Shared<Value> {
        self.0.state.lock().value.clone()
    }
    /// Where it holds this value, it holds the other, which is what the device left of a write.
    pub(crate) fn holds_instead(&self, written: &Shared<Value>, left: Shared<Value>) {
        let mut gone = Vec::new();
        {
            let mut state = self.0.state.lock();
            self.moved();
            if state.value.is_same(written) {
                gone.push(std::mem::replace(&mut state.value, left.clone()));
            }
            for older in state.older.iter_mut().filter(|older| older.value.is_same(written)) {
                gone.push(std::mem::replace(&mut older.value, left.clone()));
            }
        }
    }
    pub(crate) fn leaf(&self) -> Option<&Shared<Tape>> {
        self.0.leaf.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use adamant_runtime::reference::ReferenceBackend;

    #[test]
    fn an_adopted_vector_becomes_memory_of_the_pool() {
        let is_adopted = |t: &Tensor| t.value().stored().unwrap().buffer.is_adopted();
        // Of its own: other tests count what the reference's pool is asked for.
        let device = Device::from_backend(Box::new(ReferenceBackend::new()));
        for n in 1..200 {
            let adopted = Tensor::from_vec_on(vec![n as f32; n], [n], device);
            let cell = Cell::new(&adopted, true).unwrap();
            assert!(is_adopted(&adopted) && is_adopted(&cell.detached()));
            cell.align().unwrap();
            assert!(!is_adopted(&cell.detached()), "it is still where it was adopted");
            assert!(is_adopted(&adopted), "whoever else holds it sees what was there");
            assert_eq!((cell.detached().to_vec::<f32>().unwrap(), cell.version()), (vec![n as f32; n], 0));
        }
    }
}
