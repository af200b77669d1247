//! Cells: the only place where state lives. Parameters, running statistics, optimizer slots, random counters and
//! caches are cells. A cell accepts only its own shape, dtype and device; the writes of one step commit together.
use crate::{
    Error, ErrorKind, Meta, Result, Tensor,
    backend::ALIGNMENT,
    error::Origin,
    grad::Tape,
    record::{CONTEXT, flush},
    recycle::Shared,
    value::{Kept, Value},
};
use parking_lot::Mutex;
use std::{
    cell::{Cell as Local, RefCell},
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A shared, mutable place for one tensor. Clones are the same cell.
#[derive(Clone)]
pub struct Cell(Arc<Inner>);
struct Inner {
    id: u64,
    meta: Meta,
    leaf: Option<Shared<Tape>>,
    current: Mutex<Shared<Value>>,
    version: AtomicU64,
}
/// A write that is recorded and not yet committed.
pub(crate) struct CellWrite {
    pub cell: Cell,
    pub slot: u32,
    pub group: u64,
    pub previous: Kept,
}

/// What reads and writes of cells go through while code is run again or captured.
pub(crate) struct Overlay {
    pub values: HashMap<u64, Tensor>,
    /// cells in the order of their first read or write
    pub touched: Vec<Cell>,
    pub written: Vec<u64>,
    /// what a capture read first, with the placeholder it got
    pub reads: Vec<(Cell, Tensor)>,
    pub kind: OverlayKind,
}
impl Overlay {
    pub fn new(kind: OverlayKind) -> Overlay {
        Overlay { values: HashMap::new(), touched: vec![], written: vec![], reads: vec![], kind }
    }
    /// The cells that were touched, once each.
    pub fn cells(&self) -> Vec<&Cell> {
        let mut seen = std::collections::HashSet::new();
        self.touched.iter().filter(|c| seen.insert(c.id())).collect()
    }
}
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverlayKind {
    /// Reads see the snapshot taken at entry; writes are seen by later reads and dropped at the end.
    Recompute,
    /// Reads and writes go through, but the value at first read is remembered.
    Snapshot,
    /// Reads become inputs of the captured graph, writes its outputs.
    Capture,
}
thread_local! {
    pub(crate) static OVERLAYS: RefCell<Vec<Overlay>> = const { RefCell::new(Vec::new()) };
    static GROUP: Local<u64> = const { Local::new(0) };
    /// Writes of this thread's step whose values had run before: (cell, new, previous). They too are taken back if it fails.
    static DIRECT: RefCell<Vec<(Cell, Shared<Value>, Kept)>> = const { RefCell::new(Vec::new()) };
}

impl Cell {
    /// A cell that holds `value`, which is evaluated when first needed. `trainable`: gradients flow to it.
    ///
    /// # Errors
    /// A failed tensor.
    #[track_caller]
    pub fn new(value: &Tensor, trainable: bool) -> Result<Cell> {
        let value = value.clone().ok()?;
        let meta = value.meta();
        let leaf = trainable.then(|| crate::grad::leaf(meta, Origin::here()));
        Ok(Cell(Arc::new(Inner { id: NEXT.fetch_add(1, Relaxed), meta, leaf, current: Mutex::new(value.value().clone()), version: AtomicU64::new(0) })))
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
        let tensor = self.read();
        match &self.0.leaf {
            Some(leaf) if !CONTEXT.with(|c| c.grad_off.get()) => tensor.with_leaf(leaf.clone()),
            _ => tensor,
        }
    }
    /// The present value without a gradient.
    pub fn read(&self) -> Tensor {
        OVERLAYS.with(|o| {
            for overlay in o.borrow_mut().iter_mut().rev() {
                if let Some(t) = overlay.values.get(&self.0.id) {
                    match overlay.kind {
                        OverlayKind::Snapshot => continue,
                        _ => return t.clone(),
                    }
                }
                overlay.touched.push(self.clone());
                let present = Tensor::from_value(self.0.current.lock().clone());
                let seen = if overlay.kind == OverlayKind::Capture { Tensor::placeholder(self.0.meta) } else { present };
                overlay.values.insert(self.0.id, seen.clone());
                if overlay.kind == OverlayKind::Capture {
                    overlay.reads.push((self.clone(), seen.clone()));
                }
                if overlay.kind != OverlayKind::Snapshot {
                    return seen;
                }
            }
            Tensor::from_value(self.0.current.lock().clone())
        })
    }
    /// Moves a value that is there into memory of the device's own, if it lies in a vector that was adopted and begins
    /// between two lines of the cache. A cell is written where it lies: if that is done at every step, as an optimizer does,
    /// each load and store would touch two lines. The value and the cell's version stay.
    ///
    /// ```
    /// # use adamant_core::{Cell, Device, Tensor};
    /// # Device::reference().make_current();
    /// let cell = Cell::new(&Tensor::from_vec(vec![1.0f32; 5], [5]), false)?;
    /// cell.align()?;
    /// assert_eq!(cell.read().to_vec::<f32>()?, [1.0; 5]);
    /// assert_eq!(cell.version(), 0);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Memory; then the value stays where it is.
    pub fn align(&self) -> Result<()> {
        let before = self.current();
        let Meta { shape, dtype, device } = self.0.meta;
        let aligned = before.stored().filter(|s| s.buffer.is_adopted() && s.taint.is_none() && s.is_dense(&shape)).and_then(|stored| {
            let memory = stored.buffer.read();
            let (from, bytes) = (stored.offset * dtype.size(), shape.elements() * dtype.size());
            let there = memory.as_deref()?.host()?.get(from..from + bytes)?;
            let between = !there.as_ptr().addr().is_multiple_of(ALIGNMENT);
            between.then(|| Tensor::in_memory("cell", dtype, shape.elements(), shape, device, || device.pool().copied(device, there)).ok())
        });
        if let Some(aligned) = aligned {
            let aligned = aligned?;
            let mut current = self.0.current.lock();
            if current.is_same(&before) {
                *current = aligned.value().clone();
            }
        }
        Ok(())
    }
    /// Replaces the value. The write commits when it has run without a fault, together with the others of its step.
    ///
    /// # Errors
    /// A failed tensor, or another shape, dtype or device than the cell's.
    #[track_caller]
    pub fn set(&self, value: &Tensor) -> Result<()> {
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
        let taken = OVERLAYS.with(|o| match o.borrow_mut().iter_mut().rev().find(|o| o.kind != OverlayKind::Snapshot) {
            Some(overlay) => {
                if !overlay.values.contains_key(&self.0.id) {
                    overlay.touched.push(self.clone());
                }
                overlay.values.insert(self.0.id, value.clone());
                if !overlay.written.contains(&self.0.id) {
                    overlay.written.push(self.0.id);
                }
                true
            }
            None => false,
        });
        if taken {
            return Ok(());
        }
        // Snapshots remember what was there before the first write.
        OVERLAYS.with(|o| {
            for overlay in o.borrow_mut().iter_mut() {
                if overlay.kind == OverlayKind::Snapshot && !overlay.values.contains_key(&self.0.id) {
                    overlay.touched.push(self.clone());
                    overlay.values.insert(self.0.id, Tensor::from_value(self.0.current.lock().clone()));
                }
            }
        });
        if let Some(fault) = value.value().stored().and_then(|s| s.taint.clone()) {
            // It ran already, on bad data: the cell stays as it is.
            return Err(fault);
        }
        let pending = value.value().is_pending() || value.value().is_deferred();
        let previous = std::mem::replace(&mut *self.0.current.lock(), value.value().clone());
        if pending {
            CONTEXT.with(|c| {
                let s = c.stream(meta.device);
                let mut log = s.log.lock();
                if value.value().slot(log.epoch).is_none() && value.value().is_deferred() {
                    let _ = log.slot_of(value.value());
                }
                match value.value().slot(log.epoch) {
                    Some(slot) => {
                        let group = if c.step_group.get() != 0 { c.step_group.get() } else { NEXT.fetch_add(1, Relaxed) };
                        log.note_write(CellWrite { cell: self.clone(), slot, group, previous: Kept::new(&previous) });
                    }
                    // It ran meanwhile, or is pending on another thread, which evaluates it when it is read.
                    None => self.committed(),
                }
            });
        } else {
            if CONTEXT.with(|c| c.step_group.get()) != 0 {
                DIRECT.with(|d| d.borrow_mut().push((self.clone(), value.value().clone(), Kept::new(&previous))));
            }
            self.committed();
        }
        Ok(())
    }
    pub(crate) fn committed(&self) {
        self.0.version.fetch_add(1, Relaxed);
    }
    /// Undoes a write that was withheld, if nothing was written since.
    pub(crate) fn withdraw(&self, written: &Shared<Value>, previous: &Shared<Value>) {
        let mut current = self.0.current.lock();
        if current.is_same(written) {
            *current = previous.clone();
        }
    }
    pub(crate) fn leaf(&self) -> Option<&Shared<Tape>> {
        self.0.leaf.as_ref()
    }
    /// Puts in a value that has run.
    pub(crate) fn replace(&self, value: Shared<Value>) {
        *self.0.current.lock() = value;
        self.committed();
    }
    pub(crate) fn current(&self) -> Shared<Value> {
        self.0.current.lock().clone()
    }
}

/// Runs `f`, whose cell writes commit all or none, and flushes once at its end.
///
/// # Errors
/// Whatever `f` returns; memory that could not be had or a fault found in data: then no cell has changed.
pub fn step<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    struct Restore(u64);
    impl Drop for Restore {
        fn drop(&mut self) {
            CONTEXT.with(|c| c.step_group.set(self.0));
        }
    }
    let group = NEXT.fetch_add(1, Relaxed);
    let outer = CONTEXT.with(|c| c.step_group.get());
    let result = {
        let _restore = Restore(CONTEXT.with(|c| c.step_group.replace(if outer != 0 { outer } else { group })));
        f()
    };
    if outer != 0 || CONTEXT.with(|c| c.capturing()) {
        return result;
    }
    let committed = result.and_then(|r| {
        flush()?;
        crate::schedule::take_withheld(group).map_or(Ok(r), Err)
    });
    let direct = DIRECT.with(|d| std::mem::take(&mut *d.borrow_mut()));
    if committed.is_err() {
        withdraw_group(group);
        for (cell, written, previous) in direct.iter().rev() {
            cell.withdraw(written, previous);
        }
    }
    committed
}
/// Takes back the writes of a step that did not run.
fn withdraw_group(group: u64) {
    for s in CONTEXT.with(|c| c.streams()) {
        let mut log = s.log.lock();
        let (gone, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut log.writes).into_iter().partition(|w| w.group == group);
        log.writes = stay;
        if gone.is_empty() {
            continue;
        }
        for w in gone.iter().rev() {
            let written = log.values[w.slot as usize].clone();
            w.cell.withdraw(&written, &w.previous);
        }
        // The window's key no longer tells its writes: make it one of its own.
        log.structure = crate::op::mix(log.structure, group);
        let structure = log.structure;
        if let Some(r) = log.records.last_mut() {
            r.structure = structure;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn an_adopted_vector_that_begins_between_lines() {
        let place = |t: &Tensor| {
            let stored = t.value().stored().unwrap();
            (stored.buffer.read().as_deref().and_then(|m| m.host()).unwrap().as_ptr().addr(), stored.buffer.is_adopted())
        };
        let held: Vec<Tensor> = (1..200).map(|n| Tensor::from_vec_on(vec![n as f32; n], [n], Device::reference())).collect();
        let between = held.iter().filter(|t| place(t).0 % ALIGNMENT != 0).count();
        assert!(between > 0, "every vector begins a line");
        for (n, t) in (1..).zip(&held) {
            let cell = Cell::new(t, true).unwrap();
            assert_eq!(place(&cell.read()), place(t));
            cell.align().unwrap();
            match place(t).0 % ALIGNMENT {
                0 => assert_eq!(place(&cell.read()), place(t)),
                _ => assert!(!place(&cell.read()).1, "it is still where it was adopted"),
            }
            assert_eq!(cell.read().to_vec::<f32>().unwrap(), vec![n as f32; n]);
            assert_eq!(cell.version(), 0);
        }
    }
}
