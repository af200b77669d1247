//! Autograd: the tape and the walk back over it. A tape node holds its op, its parents and the values its rule
//! declares to read; nothing else, so a live `loss` pins nothing once `backward` has released them.
use crate::{
    Arg, Cell, Error, ErrorKind, Meta, Op, Origin, Result, Tensor,
    composite::InTensors,
    composite::Keyed,
    composite::{Cotangents, RuleArgs},
    hash::Folded,
    op::View,
    primitive,
    record::{context, with_switch},
    recycle::{self, Shared, SpareLists},
    scope,
    value::{Kept, Other},
};
use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use std::{
    cell::RefCell,
    collections::{BinaryHeap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

mod checkpoint;
mod gathered;
mod hooks;
mod marks;
mod of_leaves;
mod region;
mod tape;
use checkpoint::run_again;
pub use checkpoint::{checkpoint, is_for_backward};
use gathered::{Gathered, Slab, both};
pub use hooks::{HookHandle, depends_on_hooks, hooks_changed, tap};
pub use marks::{mark, with_marks};
pub use of_leaves::{GradOptions, gradients};
pub(crate) use region::{Region, alias, outside, pull_to, tape_mark};
use tape::{NEXT, Saved};
pub(crate) use tape::{Parent, Tape, TapeKind, leaf, record};

/// Runs `f` without recording gradients.
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    with_grad(false, f)
}
/// Runs `f` with gradients recorded or not. Where they are not, no tangent of a transform around it flows either.
pub fn with_grad<R>(on: bool, f: impl FnOnce() -> R) -> R {
    crate::transform::with_tangents(on, || with_tape(on, f))
}
/// As [`with_grad`], of the tape alone.
pub(crate) fn with_tape<R>(on: bool, f: impl FnOnce() -> R) -> R {
    with_switch(|c| &c.grad_off, !on, f)
}
/// Are gradients being recorded?
pub fn grad_enabled() -> bool {
    !context(|c| c.grad_off.get())
}

/// Runs `f`; walks back in it give leaves of 16 bits gradients of f32, which were not rounded where a product or a sum made them, and are added
/// up in f32. For optimizers whose formula runs in f32 whatever the weights are.
///
/// ```
/// # use adamant_core::{DType, Tensor, grad::with_wide_gradients};
/// # adamant_core::Device::reference().make_current();
/// let w = Tensor::full([1, 1], 0.5, DType::BF16).tracked();
/// let loss = Tensor::from_vec(vec![1.0f32, 256.0, 2.0], [3, 1]).cast(DType::BF16).matmul(&w).sum(..);
/// assert_eq!(loss.backward_keep()?.get(&w).unwrap().item::<f32>()?, 260.0); // in bf16
/// assert_eq!(with_wide_gradients(|| loss.backward())?.get(&w).unwrap().item::<f32>()?, 259.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn with_wide_gradients<R>(f: impl FnOnce() -> R) -> R {
    with_switch(|c| &c.wide_leaves, true, f)
}

/// Gradients by leaf. A leaf that was not reached has none.
#[derive(Clone)]
pub struct Grads {
    by_leaf: ByLeaf,
}
type ByLeaf = HashMap<u64, Tensor, Folded>;
thread_local! {
    static BY_LEAF: SpareLists<ByLeaf> = const { RefCell::new(Vec::new()) };
}
impl Default for Grads {
    fn default() -> Grads {
        Grads { by_leaf: recycle::take(&BY_LEAF) }
    }
}
impl Drop for Grads {
    fn drop(&mut self) {
        recycle::give_back(&BY_LEAF, std::mem::take(&mut self.by_leaf));
    }
}
impl Grads {
    /// The gradient for a tensor made by [`Tensor::tracked`], read from a trainable cell, or [retained](Tensor::retain_grad).
    pub fn get(&self, leaf: &Tensor) -> Option<&Tensor> {
        let (node, output) = leaf.tape()?;
        self.by_leaf.get(&hooks::key(node.id, *output))
    }
    /// The gradient for a trainable cell.
    pub fn of(&self, cell: &Cell) -> Option<&Tensor> {
        self.by_leaf.get(&cell.leaf()?.id)
    }
    /// Takes the gradient for a trainable cell out.
    pub fn take(&mut self, cell: &Cell) -> Option<Tensor> {
        self.by_leaf.remove(&cell.leaf()?.id)
    }
    /// Replaces the gradient for a trainable cell (clipping, averaging).
    pub fn set(&mut self, cell: &Cell, gradient: Tensor) {
        if let Some(leaf) = cell.leaf() {
            self.by_leaf.insert(leaf.id, gradient);
        }
    }
    /// How many leaves were reached.
    pub fn len(&self) -> usize {
        self.by_leaf.len()
    }
    /// Was no leaf reached?
    pub fn is_empty(&self) -> bool {
        self.by_leaf.is_empty()
    }
    /// All gradients, in no particular order.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.by_leaf.values()
    }
    fn add(&mut self, id: u64, g: Tensor) {
        match self.by_leaf.remove(&id) {
            Some(sum) => self.by_leaf.insert(id, both(&sum, &g)),
            None => self.by_leaf.insert(id, g),
        };
    }
}

/// How a walk back is done.
#[derive(Clone, Copy)]
struct TapeWalk {
    keep: bool,
    /// Leave the tape on while rules run, so that the gradients can be differentiated.
    graph: bool,
    /// Below this number only leaves may be reached (inside a checkpoint).
    floor: u64,
    /// It is a pass's own, and not one inside a rule: it comes by marks.
    is_whole: bool,
}

impl Tensor {
    /// Gradients of this single number for every leaf it depends on. The saved values are released, and what the
    /// gradients need is computed, once, at the end.
    ///
    /// # Errors
    /// The error this tensor carries; more than one element; no leaf; saved values that are gone already.
    #[track_caller]
    pub fn backward(&self) -> Result<Grads> {
        self.backward_from(None, TapeWalk { keep: false, graph: false, floor: 0, is_whole: true }, true)
    }
    /// As [`Tensor::backward`], keeping the saved values for another walk.
    ///
    /// # Errors
    /// As [`Tensor::backward`].
    #[track_caller]
    pub fn backward_keep(&self) -> Result<Grads> {
        self.backward_from(None, TapeWalk { keep: true, graph: false, floor: 0, is_whole: true }, true)
    }
    /// As [`Tensor::backward_keep`], and the gradients are on the tape themselves: for higher order.
    ///
    /// # Errors
    /// As [`Tensor::backward`].
    #[track_caller]
    pub fn backward_graph(&self) -> Result<Grads> {
        self.backward_from(None, TapeWalk { keep: true, graph: true, floor: 0, is_whole: true }, false)
    }
    /// Gradients of `sum(self * cotangent)`.
    ///
    /// # Errors
    /// As [`Tensor::backward`]; a cotangent of another shape or dtype.
    #[track_caller]
    pub fn backward_with(&self, cotangent: &Tensor) -> Result<Grads> {
        self.backward_from(Some(cotangent), TapeWalk { keep: false, graph: false, floor: 0, is_whole: true }, true)
    }
    #[track_caller]
    fn backward_from(&self, cotangent: Option<&Tensor>, walk: TapeWalk, flush: bool) -> Result<Grads> {
        let here = Origin::here();
        if let Some(e) = self.error() {
            return Err(e);
        }
        let error = |kind| Error::at("backward", kind, here);
        let meta = self.meta();
        let seed = match cotangent {
            None if meta.shape.elements() != 1 => {
                return Err(error(ErrorKind::Backward(format!(
                    "only a single number has a gradient, not a tensor of shape {}; reduce it or use backward_with",
                    meta.shape
                ))));
            }
            None => self.detach().ones_like(),
            Some(c) => {
                let c = c.clone().ok()?;
                if c.meta().shape != meta.shape {
                    return Err(error(ErrorKind::ShapeMismatch {
                        left: meta.shape,
                        right: c.meta().shape,
                        axes: None,
                        expected: "a cotangent has the shape of its tensor",
                    }));
                }
                if c.meta().dtype != meta.dtype {
                    return Err(error(ErrorKind::DtypeMismatch { left: meta.dtype, right: c.meta().dtype }));
                }
                c
            }
        };
        let Some((root, output)) = self.tape() else {
            return Err(error(ErrorKind::Backward("the tensor depends on no tracked tensor or trainable parameter".into())));
        };
        let mut grads = Grads::default();
        {
            let _state = WalkState::enter(walk.graph);
            pull([(root.clone(), *output, seed)], &mut grads, walk, &Region::ALL, here)?;
            marks::come_by(0, &mut grads)?;
            hooks::run_at_ends(&mut grads, &[])?;
        }
        if flush && !context(|c| c.capturing()) {
            crate::flush()?;
        }
        Ok(grads)
    }
}

/// Bytes that the tape behind a tensor keeps in memory and nobody else does: each buffer once, whatever views of it
/// are saved. What is only a recipe counts as what the recipe reads. A buffer counts as the size class that was asked for, so the
/// number depends on the program alone; where the pool had only a larger block to spare, that lies there.
pub fn saved_bytes(t: &Tensor) -> usize {
    let mut seen_nodes = std::collections::HashSet::new();
    let mut buffers: HashMap<usize, usize> = HashMap::new();
    let mut todo: Vec<Shared<Tape>> = t.tape().map(|t| t.0.clone()).into_iter().collect();
    while let Some(node) = todo.pop() {
        if !seen_nodes.insert(node.id) {
            continue;
        }
        let mut values: Vec<Kept> = match &*node.saved.lock() {
            Some(s) => s.inputs.iter().chain(&s.outputs).flatten().cloned().collect(),
            None => Vec::new(),
        };
        while let Some(v) = values.pop() {
            if let Some(s) = v.stored() {
                if crate::value::users(&v) == 0 {
                    buffers.insert(Arc::as_ptr(&s.buffer) as usize, s.buffer.asked_bytes());
                }
            } else if let Other::Deferred(r) = &*v.other() {
                values.extend(r.inputs.iter().cloned());
            }
        }
        todo.extend(node.parents.iter().filter_map(|p| if let Parent::Node(node, _) = p { Some(node.clone()) } else { None }));
    }
    buffers.values().sum()
}

/// Gradients of `sum_k sum(outputs[k] * cotangents[k])` for every leaf, in one walk. `graph` leaves the gradients on the
/// tape (for higher order); saved values are kept.
///
/// # Errors
/// As [`Tensor::backward`].
#[track_caller]
pub fn backward_many(outputs: &[(&Tensor, &Tensor)], graph: bool) -> Result<Grads> {
    let here = Origin::here();
    let mut roots = Vec::new();
    for (y, g) in outputs {
        let (y, g) = ((*y).clone().ok()?, (*g).clone().ok()?);
        if y.meta().shape != g.meta().shape {
            return Err(Error::at(
                "backward",
                ErrorKind::ShapeMismatch { left: y.meta().shape, right: g.meta().shape, axes: None, expected: "a cotangent has the shape of its tensor" },
                here,
            ));
        }
        if let Some((t, k)) = y.tape() {
            roots.push((t.clone(), *k, g));
        }
    }
    let mut grads = Grads::default();
    let _state = WalkState::enter(graph);
    pull(roots, &mut grads, TapeWalk { keep: true, graph, floor: 0, is_whole: false }, &Region::ALL, here)?;
    hooks::run_at_ends(&mut grads, &[])?;
    Ok(grads)
}

/// The thread's state while rules run: tape off (or on), longer windows, origins inherited.
struct WalkState {
    grad_off: bool,
    inherit: Option<Origin>,
}
impl WalkState {
    fn enter(graph: bool) -> WalkState {
        context(|c| {
            c.hold.set(c.hold.get() + 1);
            c.below_interceptors.set(c.below_interceptors.get() + 1);
            WalkState { grad_off: c.grad_off.replace(!graph), inherit: scope::inherited() }
        })
    }
}
impl Drop for WalkState {
    fn drop(&mut self) {
        context(|c| {
            c.hold.set(c.hold.get() - 1);
            c.below_interceptors.set(c.below_interceptors.get() - 1);
            c.grad_off.set(self.grad_off);
        });
        scope::inherit(self.inherit);
    }
}

/// Where a walk begins: an output of a node, and its cotangent.
type Root = (Shared<Tape>, u8, Tensor);
/// A node in the heap, ordered by number.
struct ByNumber(Shared<Tape>);
impl PartialEq for ByNumber {
    fn eq(&self, other: &ByNumber) -> bool {
        self.0.id == other.0.id
    }
}
impl Eq for ByNumber {}
impl PartialOrd for ByNumber {
    fn partial_cmp(&self, other: &ByNumber) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for ByNumber {
    fn cmp(&self, other: &ByNumber) -> std::cmp::Ordering {
        self.0.id.cmp(&other.0.id)
    }
}
/// Nodes that a walk has reached, and what has come to each so far.
struct Reached {
    nodes: BinaryHeap<ByNumber>,
    waiting: Waiting,
    /// where the walk ends
    ends: Vec<(Shared<Tape>, Gathered)>,
}
/// By the node's number.
type Waiting = HashMap<u64, SmallVec<[Gathered; 3]>, Folded>;
thread_local! {
    static NODES: SpareLists<Vec<ByNumber>> = const { RefCell::new(Vec::new()) };
    static WAITING: SpareLists<Waiting> = const { RefCell::new(Vec::new()) };
}
impl Reached {
    fn new() -> Reached {
        Reached { nodes: recycle::take(&NODES).into(), waiting: recycle::take(&WAITING), ends: Vec::new() }
    }
    /// Adds a cotangent of a node's output.
    fn give(&mut self, node: &Shared<Tape>, output: u8, g: Tensor) {
        let Some(meta) = node.outputs.get(output as usize) else { return };
        if let Some(gathered) = self.at(node).get_mut(output as usize) {
            gathered.add(g, meta);
        }
    }
    /// Adds a cotangent of a slice of a node's output.
    fn give_slab(&mut self, node: &Shared<Tape>, output: u8, slab: Slab) {
        if let Some(gathered) = self.at(node).get_mut(output as usize) {
            gathered.add_slab(slab);
        }
    }
    /// What has come to a node at which the walk ends; it has one output.
    fn at_end(&mut self, node: &Shared<Tape>) -> &mut Gathered {
        let known = self.ends.iter().position(|(end, _)| end.id == node.id);
        let at = known.unwrap_or_else(|| {
            self.ends.push((node.clone(), Gathered::default()));
            self.ends.len() - 1
        });
        &mut self.ends[at].1
    }
    fn at(&mut self, node: &Shared<Tape>) -> &mut [Gathered] {
        self.waiting.entry(node.id).or_insert_with(|| {
            self.nodes.push(ByNumber(node.clone()));
            node.outputs.iter().map(|_| Gathered::default()).collect()
        })
    }
    /// The node that was recorded last, and all that came to it: nothing more will.
    fn next(&mut self) -> Option<(Shared<Tape>, Cotangents)> {
        let ByNumber(node) = self.nodes.pop()?;
        let gathered = self.waiting.remove(&node.id)?;
        let cotangents = gathered.into_iter().zip(&node.outputs).map(|(gathered, meta)| gathered.total(meta)).collect();
        Some((node, cotangents))
    }
}
impl Drop for Reached {
    fn drop(&mut self) {
        recycle::give_back(&NODES, std::mem::take(&mut self.nodes).into_vec());
        recycle::give_back(&WAITING, std::mem::take(&mut self.waiting));
    }
}

/// The axis and the start of a slice of neighbours.
fn slice_of(kind: &TapeKind) -> Option<(usize, usize)> {
    match kind {
        TapeKind::Op(Op::View(View::Slice { axis, len: 1.., step: 1 }), Arg::Start(start)) => Some((*axis as usize, *start)),
        _ => None,
    }
}
fn pull(roots: impl IntoIterator<Item = Root>, grads: &mut Grads, walk: TapeWalk, region: &Region<'_>, here: Origin) -> Result<()> {
    let wide_leaves = context(|c| c.wide_leaves.get());
    let of_leaf = |g: Tensor| if wide_leaves { g.widened() } else { g };
    let mut reached = Reached::new();
    let give = |reached: &mut Reached, t: &Shared<Tape>, k: u8, g: Tensor| match t.outputs.first() {
        Some(meta) if region.ends_at(t.id) => reached.at_end(t).add(g, meta),
        _ => reached.give(t, k, g),
    };
    for (t, k, g) in roots {
        give(&mut reached, &t, k, g);
    }
    while let Some((t, mut cotangents)) = reached.next() {
        if walk.is_whole {
            marks::come_by(t.id, grads)?;
        }
        scope::inherit(Some(t.origin.in_this_range()));
        if let TapeKind::Leaf = t.kind {
            if let Some(g) = cotangents.first_mut().and_then(Option::take) {
                grads.add(t.id, of_leaf(g));
            }
            continue;
        }
        if t.id < walk.floor {
            return Err(Error::at("checkpoint", ErrorKind::CheckpointCapture, t.origin));
        }
        if hooks::any() {
            hooks::run_at(&t, &mut cotangents, grads)?;
        }
        // Filled where they lie: there are some for each op.
        let (mut inputs, mut outputs) = (Cotangents::new(), Cotangents::new());
        {
            let mut saved = t.saved.lock();
            let Some(s) = &*saved else { return Err(Error::at("backward", ErrorKind::TapeReleased, here)) };
            // While the tape is on, what is saved must lead back to its own leaves.
            for (k, v) in s.inputs.iter().enumerate() {
                inputs.push(v.as_ref().map(|v| Tensor::from_value((**v).clone()).with_tape(t.place_of_input(k, walk))));
            }
            for (k, reading) in &s.readings {
                inputs[*k] = Some(reading.again().with_tape(t.place_of_input(*k, walk)));
            }
            for (k, v) in s.outputs.iter().enumerate() {
                let place = |v: &Kept| if walk.graph && v.meta.dtype.is_float() { Some((t.clone(), k as u8)) } else { None };
                outputs.push(v.as_ref().map(|v| Tensor::from_value((**v).clone()).with_tape(place(v))));
            }
            if !walk.keep {
                *saved = None;
            }
        }
        if let (Some((axis, start)), Some(Parent::Node(node, output))) = (slice_of(&t.kind), t.parents.first())
            && region.wants(&t.parents[0])
        {
            if let Some(cotangent) = cotangents.first_mut().and_then(Option::take) {
                let slab = Slab { axis, start, cotangent };
                if region.ends_at(node.id) { reached.at_end(node).add_slab(slab) } else { reached.give_slab(node, *output, slab) }
            }
            continue;
        }
        let needs: SmallVec<[bool; 8]> = t.parents.iter().map(|p| region.wants(p)).collect();
        let wide: SmallVec<[bool; 8]> = t.parents.iter().map(|p| p.takes_wide(wide_leaves)).collect();
        let args = RuleArgs { inputs: &inputs, outputs: &outputs, metas: &t.metas, cotangents: &cotangents, needs: &needs, takes_wide: &wide };
        let mut results = match &t.kind {
            TapeKind::Alias => cotangents.clone(),
            TapeKind::Tap(tap) => tap.pulled(&cotangents)?,
            TapeKind::Op(op, arg) => cotangents_of(op, *arg, &t.outputs, &args, walk)?,
            TapeKind::Checkpoint(redo) => run_again(redo, &args, grads, walk, t.origin)?,
            TapeKind::Leaf => continue,
        };
        drop(cotangents);
        for (k, g) in results.iter_mut().enumerate().filter(|(k, _)| needs.get(*k) == Some(&true)) {
            match (g.take(), t.parents.get(k)) {
                (Some(g), Some(Parent::Leaf(id))) => grads.add(*id, of_leaf(g).ok()?),
                (Some(g), Some(Parent::Node(node, output))) => give(&mut reached, node, *output, g.ok()?),
                _ => {}
            }
        }
    }
    for (end, gathered) in reached.ends.drain(..) {
        if let Some(g) = end.outputs.first().and_then(|meta| gathered.total(meta)) {
            grads.add(end.id, g.ok()?);
        }
    }
    Ok(())
}

/// The gradient of a composite without a rule: that of its body, on fresh leaves.
fn differentiate_body(c: &Keyed, args: &RuleArgs<'_>, walk: TapeWalk) -> Result<Cotangents> {
    if c.is_host() {
        return Err(Error::new(c.name(), ErrorKind::Unsupported { backend: "any".into(), what: format!("the gradient of {}", c.name()) }));
    }
    let inputs: Vec<Tensor> = (0..args.metas.len()).map(|k| args.input(k).cloned()).collect::<Result<_>>()?;
    // With the tape on, the body is recorded on the real inputs and walked with the graph kept; else on fresh leaves.
    let floor = NEXT.load(Relaxed);
    let tracked: Vec<Tensor> =
        inputs.iter().map(|x| if x.meta().dtype.is_float() { if walk.graph { identity_node(x) } else { x.tracked() } } else { x.clone() }).collect();
    let outputs = with_tape(true, || c.body(&tracked))?;
    let roots = outputs.iter().zip(args.cotangents).filter_map(|(y, g)| Some((y.tape()?.0.clone(), y.tape()?.1, g.clone()?))).collect();
    let mut inner = Grads::default();
    let _ = floor;
    let origin = scope::inherited();
    pull_until(roots, &mut inner, TapeWalk { is_whole: false, ..walk }, &tracked)?;
    scope::inherit(origin);
    Ok(tracked.iter().zip(args.needs).map(|(x, need)| if *need { x.tape().and_then(|t| inner.by_leaf.remove(&t.0.id)) } else { None }).collect())
}
/// A leaf for the inner walk that, with the tape on, still leads back to its tensor: the inner walk stops at it by number.
fn identity_node(x: &Tensor) -> Tensor {
    match x.tape() {
        None => x.tracked(),
        Some(_) => {
            let tape = Shared::new(Tape {
                id: NEXT.fetch_add(1, Relaxed),
                kind: TapeKind::Op(Op::Cast(x.meta().dtype), Arg::None),
                parents: smallvec::smallvec![Parent::of(x)],
                metas: SmallVec::from_elem(x.meta(), 1),
                outputs: SmallVec::from_elem(x.meta(), 1),
                saved: Mutex::new(Some(Saved { inputs: SmallVec::from_elem(None, 1), outputs: SmallVec::from_elem(None, 1), readings: Vec::new() })),
                origin: Origin::here(),
                hooked: AtomicBool::new(false),
            });
            x.clone().with_tape(Some((tape, 0)))
        }
    }
}
/// A value that is a cast of `x`, at a place on the tape as if it had just been made of it.
pub(crate) fn as_cast_of(x: &Tensor, cast: Tensor) -> Tensor {
    if x.tape().is_none() || context(|c| c.grad_off.get()) {
        return cast;
    }
    let none = || SmallVec::from_elem(None, 1);
    let tape = Tape {
        id: NEXT.fetch_add(1, Relaxed),
        kind: TapeKind::Op(Op::Cast(cast.meta().dtype), Arg::None),
        parents: smallvec![Parent::of(x)],
        metas: SmallVec::from_elem(x.meta(), 1),
        outputs: SmallVec::from_elem(cast.meta(), 1),
        saved: Mutex::new(Some(Saved { inputs: none(), outputs: SmallVec::from_elem(None, 1), readings: Vec::new() })),
        origin: Origin::here(),
        hooked: AtomicBool::new(false),
    };
    cast.with_tape(Some((Shared::new(tape), 0)))
}
/// Walks back as far as the given tensors and collects what arrives there.
fn pull_until(roots: Vec<Root>, grads: &mut Grads, walk: TapeWalk, stops: &[Tensor]) -> Result<()> {
    let stop: Vec<u64> = stops.iter().filter_map(|t| t.tape().map(|t| t.0.id)).collect();
    let mut reached = Reached::new();
    let give = |reached: &mut Reached, grads: &mut Grads, t: &Shared<Tape>, k: u8, g: Tensor| {
        if stop.contains(&t.id) { grads.add(t.id, g) } else { reached.give(t, k, g) }
    };
    for (t, k, g) in roots {
        give(&mut reached, grads, &t, k, g);
    }
    while let Some((t, cotangents)) = reached.next() {
        let TapeKind::Op(op, arg) = &t.kind else { continue };
        let saved = t.saved.lock();
        let Some(s) = &*saved else { continue };
        let mut inputs: Vec<Option<Tensor>> =
            s.inputs.iter().enumerate().map(|(k, v)| v.as_ref().map(|v| Tensor::from_value((**v).clone()).with_tape(t.place_of_input(k, walk)))).collect();
        for (k, reading) in &s.readings {
            inputs[*k] = Some(reading.again().with_tape(t.place_of_input(*k, walk)));
        }
        let outputs: Vec<Option<Tensor>> = s
            .outputs
            .iter()
            .enumerate()
            .map(|(k, v)| {
                v.as_ref()
                    .map(|v| Tensor::from_value((**v).clone()).with_tape(if walk.graph && v.meta.dtype.is_float() { Some((t.clone(), k as u8)) } else { None }))
            })
            .collect();
        drop(saved);
        let needs: Vec<bool> = t.parents.iter().map(|p| p.is_some()).collect();
        let args = RuleArgs { inputs: &inputs, outputs: &outputs, metas: &t.metas, cotangents: &cotangents, needs: &needs, takes_wide: &[] };
        let results = cotangents_of(op, *arg, &t.outputs, &args, walk)?;
        for (k, g) in results.into_iter().enumerate() {
            match (g, t.parents.get(k)) {
                (Some(g), Some(Parent::Leaf(id))) if stop.contains(id) => grads.add(*id, g.ok()?),
                (Some(g), Some(Parent::Node(node, output))) => give(&mut reached, grads, node, *output, g.ok()?),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Cotangents of an op's inputs: by its rule, or by the body of a composite that brings none.
fn cotangents_of(op: &Op, arg: Arg, outputs: &[Meta], args: &RuleArgs<'_>, walk: TapeWalk) -> Result<Cotangents> {
    match op {
        Op::Composite(c) if c.saves().is_some() => c.rule(args),
        Op::Composite(c) => differentiate_body(c, args, walk),
        op => primitive::cotangents(op, arg, outputs, args),
    }
}
