//! The tape: a node for each op that a gradient flows through, with its parents and the values its rule declares to read.
use super::{
    TapeWalk,
    checkpoint::Redo,
    hooks::{self, Tap},
};
use crate::{
    Arg, DType, Meta, Op, Origin, Tensor,
    cell::{SavedReading, reading_of},
    op::View,
    primitive,
    recycle::{self, Recycled, Shared, SpareLists, Spares},
    value::{Kept, Value},
};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

pub(super) static NEXT: AtomicU64 = AtomicU64::new(1);

/// A node of the tape. Numbers grow from parents to children, also across threads, so the walk back goes by number.
pub(crate) struct Tape {
    pub(super) id: u64,
    pub(super) kind: TapeKind,
    pub(super) parents: Parents,
    pub(super) metas: SmallVec<[Meta; 4]>,
    pub(super) outputs: SmallVec<[Meta; 3]>,
    pub(super) saved: Mutex<Option<Saved>>,
    pub(super) origin: Origin,
    /// Does any of its outputs have hooks?
    pub(super) hooked: AtomicBool,
}
pub(super) type Parents = SmallVec<[Parent; 4]>;
/// Where the gradient for an input goes.
#[derive(Default)]
pub(crate) enum Parent {
    /// Nowhere.
    #[default]
    None,
    /// To the leaf with this number, of which a walk needs nothing else.
    Leaf(u64),
    /// To an output of a node.
    Node(Shared<Tape>, u8),
}
impl Parent {
    pub fn of(x: &Tensor) -> Parent {
        match x.tape() {
            None => Parent::None,
            Some((leaf, _)) if matches!(leaf.kind, TapeKind::Leaf) => Parent::Leaf(leaf.id),
            Some((node, output)) => Parent::Node(node.clone(), *output),
        }
    }
    pub fn is_some(&self) -> bool {
        !matches!(self, Parent::None)
    }
    /// Is it a cast of f32 to 16 bits, or another view of one, that nobody looks at? Then a gradient may come to it in f32: it goes on as
    /// such. A leaf takes it if it is told to.
    pub fn takes_wide(&self, leaves: bool) -> bool {
        let mut parent = self;
        while let Parent::Node(node, _) = parent {
            let TapeKind::Op(op, _) = &node.kind else { return false };
            if node.hooked.load(Relaxed) {
                return false;
            }
            parent = match (op, node.parents.first()) {
                (Op::Cast(DType::F16 | DType::BF16), _) => return node.metas.first().is_some_and(|m| m.dtype == DType::F32),
                (Op::View(View::Reshape(_) | View::Permute(_)), Some(viewed)) => viewed,
                _ => return false,
            };
        }
        leaves && matches!(parent, Parent::Leaf(_))
    }
    /// The number of the node, if there is one.
    pub fn id(&self) -> Option<u64> {
        match self {
            Parent::None => None,
            Parent::Leaf(id) => Some(*id),
            Parent::Node(node, _) => Some(node.id),
        }
    }
    /// The place on the tape of the input, whose meta this is.
    pub(super) fn place(&self, meta: Meta, origin: Origin) -> Option<(Shared<Tape>, u8)> {
        match self {
            Parent::None => None,
            // Leaves are told apart by their numbers alone.
            Parent::Leaf(id) => Some((leaf_of(*id, meta, origin), 0)),
            Parent::Node(node, output) => Some((node.clone(), *output)),
        }
    }
}
pub(crate) enum TapeKind {
    Leaf,
    Op(Op, Arg),
    Checkpoint(Redo),
    /// The same value at a new place, at which a walk can end.
    Alias,
    /// The same values, whose gradients a function sees.
    Tap(Tap),
}
#[derive(Default)]
pub(super) struct Saved {
    pub inputs: SmallVec<[Option<Kept>; 4]>,
    pub outputs: SmallVec<[Option<Kept>; 3]>,
    /// inputs that are read again instead, by their places
    pub readings: Vec<(usize, SavedReading)>,
}
impl Tape {
    /// Its number.
    pub fn number(&self) -> u64 {
        self.id
    }
    /// What it is.
    pub fn kind(&self) -> &TapeKind {
        &self.kind
    }
    /// What leads back from it.
    pub fn parents(&self) -> &[Parent] {
        &self.parents
    }
    /// The place on the tape of an input that a rule reads: only where the walk itself is to be differentiated.
    pub(super) fn place_of_input(&self, k: usize, walk: TapeWalk) -> Option<(Shared<Tape>, u8)> {
        if walk.graph { self.parents.get(k)?.place(*self.metas.get(k)?, self.origin) } else { None }
    }
    /// Moves the nodes that it leads to.
    fn leave(&mut self, nodes: &mut Vec<Shared<Tape>>) {
        let left = self.parents.drain(..).filter_map(|parent| if let Parent::Node(node, _) = parent { Some(node) } else { None });
        nodes.extend(left);
    }
}
thread_local! {
    static SPARES: RefCell<Vec<triomphe::Arc<Tape>>> = const { RefCell::new(Vec::new()) };
    static LEFT: SpareLists<Vec<Shared<Tape>>> = const { RefCell::new(Vec::new()) };
}
impl Recycled for Tape {
    const MOST: usize = 2048;
    #[inline]
    fn spares() -> &'static Spares<Tape> {
        &SPARES
    }
    fn clear(&mut self) {
        if std::mem::take(self.hooked.get_mut()) {
            hooks::forget(self.id, self.outputs.len());
        }
        // Without recursion: a chain of a million ops drops on a small stack.
        if self.parents.iter().any(|parent| matches!(parent, Parent::Node(..))) {
            let mut left = recycle::take(&LEFT);
            self.leave(&mut left);
            while let Some(mut node) = left.pop() {
                if let Some(last) = node.get_mut() {
                    last.leave(&mut left);
                }
            }
            recycle::give_back(&LEFT, left);
        }
        (self.parents, self.metas, self.outputs) = Default::default();
        self.kind = TapeKind::Leaf;
        *self.saved.get_mut() = None;
    }
    type New = Tape;
    fn make(new: Tape) -> Tape {
        new
    }
    fn remake(&mut self, new: Tape) {
        *self = new;
    }
}
impl Drop for Tape {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A new leaf.
pub(crate) fn leaf(meta: Meta, origin: Origin) -> Shared<Tape> {
    leaf_of(NEXT.fetch_add(1, Relaxed), meta, origin)
}
fn leaf_of(id: u64, meta: Meta, origin: Origin) -> Shared<Tape> {
    Shared::new(Tape {
        id,
        kind: TapeKind::Leaf,
        parents: SmallVec::new(),
        metas: SmallVec::new(),
        outputs: SmallVec::from_elem(meta, 1),
        saved: Mutex::new(Some(Saved::default())),
        origin,
        hooked: AtomicBool::new(false),
    })
}

/// Puts an applied op on the tape. `None`: no gradient flows through it.
pub(crate) fn record(op: Op, arg: Arg, inputs: &[&Tensor], outputs: &[Shared<Value>], origin: Origin) -> Option<Shared<Tape>> {
    if !outputs.iter().any(|v| v.meta.dtype.is_float()) {
        return None;
    }
    let saves = primitive::reads(&op, inputs.len())?;
    let mut saved = Saved::default();
    let (mut parents, mut metas, mut results) = (SmallVec::new(), SmallVec::new(), SmallVec::new());
    for (k, t) in inputs.iter().enumerate() {
        let reading = if saves.has_input(k) { reading_of(t) } else { None };
        saved.inputs.push((saves.has_input(k) && reading.is_none()).then(|| Kept::new(t.value())));
        saved.readings.extend(reading.map(|reading| (k, reading)));
        parents.push(Parent::of(t));
        metas.push(t.meta());
    }
    for (k, v) in outputs.iter().enumerate() {
        saved.outputs.push(saves.has_output(k).then(|| Kept::new(v)));
        results.push(v.meta);
    }
    let saved = Mutex::new(Some(saved));
    Some(Shared::new(Tape {
        id: NEXT.fetch_add(1, Relaxed),
        kind: TapeKind::Op(op, arg),
        parents,
        metas,
        outputs: results,
        saved,
        origin,
        hooked: AtomicBool::new(false),
    }))
}
