//! What reads and writes of cells go through while code is run again or captured: the cells themselves stay as they are.
use super::{Cell, casts::CastsAside};
use crate::{Result, Tensor};
use std::{cell::RefCell, collections::HashMap};

/// A view of the cells that covers the one beneath it.
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
    /// Forgets what was written since a mark.
    fn go_back(&mut self, mark: Mark) -> HashMap<u64, Tensor> {
        let mut before = mark.values;
        for (cell, place) in &self.reads {
            before.entry(cell.id()).or_insert_with(|| place.clone());
        }
        self.written = mark.written;
        std::mem::replace(&mut self.values, before)
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
    static OVERLAYS: RefCell<Vec<Overlay>> = const { RefCell::new(Vec::new()) };
}
/// A thread that ends has none.
fn with_overlays<R: Default>(f: impl FnOnce(&mut Vec<Overlay>) -> R) -> R {
    OVERLAYS.try_with(|o| f(&mut o.borrow_mut())).unwrap_or_default()
}
/// Is any view over the cells?
pub(super) fn any() -> bool {
    with_overlays(|o| !o.is_empty())
}
/// Is what runs the first pass of what is run again later?
pub(crate) fn is_first_pass() -> bool {
    with_overlays(|o| o.iter().any(|o| o.kind == OverlayKind::Snapshot))
}

/// A view of the cells, until it is taken off: also by a panic.
pub(crate) struct OverlayGuard {
    is_on: bool,
    /// What stands for a cell's value beneath it is no value beside it.
    _casts: CastsAside,
}
impl OverlayGuard {
    pub fn push(overlay: Overlay) -> OverlayGuard {
        with_overlays(|o| o.push(overlay));
        OverlayGuard { is_on: true, _casts: CastsAside::new() }
    }
    pub fn pop(mut self) -> Option<Overlay> {
        self.is_on = false;
        with_overlays(Vec::pop)
    }
}
impl Drop for OverlayGuard {
    fn drop(&mut self) {
        if self.is_on {
            let _ = with_overlays(Vec::pop);
        }
    }
}

/// What the views show of a cell; `None`: the cell itself.
pub(super) fn read(cell: &Cell) -> Option<Tensor> {
    if !any() {
        return None;
    }
    let seen = || match cell.seen() {
        Ok(value) => Tensor::from_value(value),
        Err(e) => Tensor::failed(e),
    };
    with_overlays(|o| {
        for overlay in o.iter_mut().rev() {
            if let Some(t) = overlay.values.get(&cell.id()) {
                match overlay.kind {
                    OverlayKind::Snapshot => continue,
                    _ => return Some(t.clone()),
                }
            }
            overlay.touched.push(cell.clone());
            let shown = if overlay.kind == OverlayKind::Capture { Tensor::placeholder(cell.meta()) } else { seen() };
            overlay.values.insert(cell.id(), shown.clone());
            if overlay.kind == OverlayKind::Capture {
                overlay.reads.push((cell.clone(), shown.clone()));
            }
            if overlay.kind != OverlayKind::Snapshot {
                return Some(shown);
            }
        }
        None
    })
}
/// A cell without a value of its own is read: of what it is read from, the views know already.
pub(super) fn note(cell: &Cell) {
    if any() {
        with_overlays(|o| o.iter_mut().filter(|o| o.kind == OverlayKind::Snapshot).for_each(|o| o.touched.push(cell.clone())));
    }
}
/// Does a view take the write? Those that let it through remember what was there before the first one.
pub(super) fn write(cell: &Cell, value: &Tensor) -> Result<bool> {
    if !any() {
        return Ok(false);
    }
    let before = cell.seen()?;
    let (taken, _replaced) = with_overlays(|o| {
        let Some(overlay) = o.iter_mut().rev().find(|o| o.kind != OverlayKind::Snapshot) else {
            for overlay in o.iter_mut().filter(|o| !o.values.contains_key(&cell.id())) {
                overlay.touched.push(cell.clone());
                overlay.values.insert(cell.id(), Tensor::from_value(before.clone()));
            }
            return (false, None);
        };
        if !overlay.values.contains_key(&cell.id()) {
            overlay.touched.push(cell.clone());
        }
        if !overlay.written.contains(&cell.id()) {
            overlay.written.push(cell.id());
        }
        (true, overlay.values.insert(cell.id(), value.clone()))
    });
    Ok(taken)
}

/// What the view that takes writes showed when a step began, so that the step can be taken back.
pub(super) struct Mark {
    depth: usize,
    values: HashMap<u64, Tensor>,
    written: Vec<u64>,
}
pub(super) fn mark() -> Option<Mark> {
    with_overlays(|o| {
        let depth = o.iter().rposition(|o| o.kind != OverlayKind::Snapshot)?;
        o.get(depth).map(|o| Mark { depth, values: o.values.clone(), written: o.written.clone() })
    })
}
pub(super) fn go_back(mark: Mark) {
    let _gone = with_overlays(|o| o.get_mut(mark.depth).map(|o| o.go_back(mark)));
}
