//! Plans: the steps of one structure with their memory decided (who shares, who is updated in place), and their
//! sizes, worked out once per size.
mod blocks;
mod collectives;
mod decide;
mod ends;
mod fuse;
mod graph;
mod joined;
mod late;
mod memory;
mod order;
use blocks::blocks;
pub use decide::Owner;
use decide::{Decisions, decide};
use fuse::build;
pub use fuse::{PlanStep, Space, Use};
pub use graph::{ArgFrom, Graph, NONE, Node, RecordError, Source, Val};
use memory::{MemoryPlan, OverwriteOrder};

use crate::{
    DType, Op, Shape, execute,
    kernel::KernelKind,
    op::View,
    planted::{Plant, is},
    shape::{Layout, MAX_RANK},
};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::HashMap;

/// What the plan's key says of an input besides its structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum InputHold {
    /// somebody may read it later
    Held = 0,
    /// nobody will: its buffer may be reused
    Free = 1,
    /// it is the old value of a cell that this window writes, and nobody else's: reused only by a step that can be suppressed
    OldCell = 2,
}

/// A cell that a graph writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellSlots {
    /// the slot of its new value
    pub new: u32,
    /// the slot of its old value, where that is an input: its memory is the new one's first choice
    pub old: Option<u32>,
}
/// Where the memory of a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanStorage {
    /// nowhere
    None,
    /// input number k
    Input(u32),
    /// the plan's own memory number k
    Own(u32),
}
/// Memory of the plan's own.
pub struct Own {
    /// the value that needs the most of it (all users have its shape and a dtype of its size)
    pub value: u32,
    /// first and last step that use it
    pub first: u32,
    /// the last step that uses it
    pub last: u32,
    /// it outlives the plan
    pub escapes: bool,
    /// it is the buffer of input number k, taken over
    pub taken: Option<u32>,
}
/// The steps of one structure, with their memory decided.
pub struct Plan {
    /// the structure's hash
    pub hash: u64,
    /// what runs, in order
    pub steps: Vec<PlanStep>,
    /// steps from here on write cells
    pub late: usize,
    /// by value: where its memory is
    pub storage: Vec<PlanStorage>,
    /// by value: the value whose storage it shares; itself if it is no view
    pub root: Vec<u32>,
    /// values that are made inside what they are joined to
    joined: joined::JoinedPlaces,
    /// the plan's own memory
    pub own: Vec<Own>,
    /// (slot, value) that become ready
    pub publish: Vec<(u32, u32)>,
    /// the slots whose values stay recipes
    pub deferred: Vec<u32>,
    /// May a step find bad data?
    pub faultable: bool,
    /// Do ranks exchange something among the steps that write cells?
    pub exchanges_late: bool,
    /// Steps before this one may ask the system for memory: one that is refused it has left the inputs as they were, but
    /// for destinations of updates that were taken over.
    pub asks_until: usize,
    /// it may take the short way
    pub is_direct: bool,
    /// The structure it was made for: faults are followed along it.
    pub graph: Graph,
    /// what may be spoiled by what, once somebody asked
    pub(crate) dependences: Mutex<execute::Known>,
}

impl Plan {
    /// The names of the ops that run inside a step, in the order of the graph.
    #[cfg(any(feature = "profiling", feature = "tracing"))]
    pub fn ops_of(&self, step: &PlanStep) -> Vec<&'static str> {
        self.nodes_of(step).into_iter().map(|n| self.graph.nodes[n as usize].op.name()).collect()
    }
    /// The nodes whose ops run inside a step, in the order of the graph; without views, which move nothing there.
    #[cfg(any(feature = "profiling", feature = "tracing"))]
    pub fn nodes_of(&self, step: &PlanStep) -> Vec<u32> {
        let g = &self.graph;
        let mut todo = vec![step.node];
        todo.extend(step.outputs.iter().map(|o| g.vals[o.value(g) as usize].node));
        let mut nodes: Vec<u32> = Vec::new();
        while let Some(n) = todo.pop() {
            let node = &g.nodes[n as usize];
            if nodes.contains(&n) {
                continue;
            }
            nodes.push(n);
            if node.op.is_map() || matches!(node.op, Op::Reduce { .. } | Op::Matmul | Op::Conv(_)) || node.op.is_view() {
                let product = |v: u32| matches!(g.node_of(v).op, Op::Matmul | Op::Conv(_));
                let inside = |i: &&u32| (g.node_of(**i).op.is_map() || product(self.root[**i as usize])) && self.storage[**i as usize] == PlanStorage::None;
                todo.extend(node.inputs.iter().filter(inside).map(|&i| g.vals[i as usize].node));
            }
        }
        nodes.sort_unstable();
        nodes.retain(|&n| n == step.node || !g.nodes[n as usize].op.is_view());
        nodes
    }
    /// Decides what a graph needs on a device: `owners` and `holds` say who holds the values of its slots and its inputs,
    /// `writes` which go into cells.
    ///
    /// # Errors
    /// A record that the device cannot run.
    pub fn new(graph: Graph, owners: &[Owner], writes: &[CellSlots], holds: &[InputHold], device: crate::Device) -> Result<Plan, RecordError> {
        let g = &graph;
        let n = g.vals.len();
        let mut written = vec![false; n];
        for w in writes {
            written[g.of_slot[w.new as usize] as usize] = true;
        }
        let mut d = decide(g, owners, &written, ends::are_claimed(device));
        let ends = ends::find(g, &mut d, &written, device);
        let joined = joined::join_in_place(g, &mut d, &written, device);
        let mut steps = collectives::begin_early(g, &d, build(g, &d, &joined, &written, ends, device)?);
        memory::overwrite_last(g, &d, &mut steps);
        let late = steps.iter().position(|s| s.commits).unwrap_or(steps.len());
        let faultable = steps.iter().any(|s| s.faultable);
        // One that fails must find every cell as it was.
        let is_exchange = |s: &PlanStep| matches!(g.nodes[s.node as usize].op, Op::Collective { .. });
        let (exchanges, exchanges_late) = (steps.iter().any(is_exchange), steps[late..].iter().any(is_exchange));
        let asks_until = steps.iter().rposition(|s| s.kernel.kind.may_ask_for_memory()).map_or(0, |at| at + 1);
        let mut memory = MemoryPlan::new(g, &d, &steps, writes);
        memory.assign(&d, &steps, holds, OverwriteOrder { faultable, exchanges, late, asks_until });
        let publish = g
            .of_slot
            .iter()
            .enumerate()
            .filter(|(s, v)| **v != NONE && !g.is_input_slot(*s as u32, **v) && publishes(owners[*s], &d, **v))
            .map(|(s, v)| (s as u32, *v))
            .collect();
        let (storage, own) = (memory.storage, memory.own);
        let mut plan = Plan {
            hash: g.hash,
            late,
            storage,
            own,
            root: d.root,
            joined,
            publish,
            deferred: d.deferred,
            faultable,
            exchanges_late,
            asks_until,
            is_direct: false,
            steps,
            graph,
            dependences: Mutex::default(),
        };
        plan.is_direct = plan.can_be_direct();
        Ok(plan)
    }
}
fn publishes(h: Owner, d: &Decisions, v: u32) -> bool {
    // Nobody may hold it and yet a recipe read it.
    h == Owner::User || d.kept[v as usize]
}

/// A plan's sizes.
pub struct Sized {
    /// as the plan has them
    pub steps: Vec<SizedStep>,
    /// bytes of each of the plan's own memories
    pub bytes: Vec<usize>,
    /// the block each of them lies in: temporaries share, values that escape have one of their own, taken ones none
    pub block: Vec<u32>,
    /// bytes of each block, and the value that is told of where it cannot be had; the largest first, so that a small one never
    /// gets the pool's block that a large one of the same run needs
    pub blocks: Vec<(usize, u32)>,
    /// layouts and shapes of published values, in the plan's order
    pub published: Vec<Place>,
    /// the shape of each published value
    pub shapes: Vec<Shape>,
    /// which of them lie row-major without gaps from the beginning of their memory
    pub whole: Vec<bool>,
    /// what a device keeps of it
    pub(crate) frozen: execute::FrozenSlot,
}
/// Where a value lies in its storage: a layout, and starts read at replay.
#[derive(Clone, Debug)]
pub struct Place {
    /// how its elements lie, before the starts of slices
    pub layout: Layout,
    /// (argument, elements per unit)
    pub moves: SmallVec<[(ArgFrom, isize); 1]>,
}
/// A step with its sizes.
pub struct SizedStep {
    /// the index space
    pub space: Shape,
    /// what is read
    pub inputs: SmallVec<[SizedOperand; 4]>,
    /// what is written
    pub outputs: SmallVec<[SizedOperand; 2]>,
}
/// An operand with its sizes, not yet bound to memory.
pub struct SizedOperand {
    /// where its memory is
    pub storage: PlanStorage,
    /// its shape
    pub shape: Shape,
    /// its dtype
    pub dtype: DType,
    /// Is it row-major without gaps?
    pub dense: bool,
    /// where in that memory
    pub place: Place,
}

impl Sized {
    /// The sizes that `g`, a graph of the same structure, has.
    pub fn new(plan: &Plan, g: &Graph) -> Sized {
        let mut places = places(plan, g);
        let mut steps: Vec<SizedStep> = plan.steps.iter().map(|s| size_step(plan, g, &places, s)).collect();
        for (at, step) in steps.iter_mut().enumerate() {
            if let Some(layout) = plan.order_axes(at, step) {
                plan.steps[at].outputs.iter().for_each(|o| places[o.value(g) as usize].layout = layout);
            }
        }
        let bytes: Vec<usize> = plan.own.iter().map(|o| g.vals[o.value as usize].meta.bytes()).collect();
        let (block, blocks) = blocks(plan, &bytes);
        let published: Vec<Place> = plan.publish.iter().map(|&(_, v)| places[v as usize].clone()).collect();
        let shapes: Vec<Shape> = plan.publish.iter().map(|&(_, v)| g.vals[v as usize].meta.shape).collect();
        let whole = published.iter().zip(&shapes).map(|(p, shape)| p.layout == Layout::dense(shape) && p.moves.is_empty()).collect();
        Sized { steps, bytes, block, blocks, published, shapes, whole, frozen: execute::FrozenSlot::default() }
    }
}
/// The place of every value in its storage. Places in inputs are relative to the input's own layout's offset.
fn places(plan: &Plan, g: &Graph) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::with_capacity(g.vals.len());
    let strides: HashMap<u32, Layout> = g
        .inputs
        .iter()
        .filter_map(|(v, source)| match source {
            Source::Constant(stored) => Some((*v, stored.layout(&g.vals[*v as usize].meta.shape))),
            Source::Slot(_) => None,
        })
        .collect();
    for (v, val) in g.vals.iter().enumerate() {
        let x = &g.nodes[val.node as usize];
        let shape = &val.meta.shape;
        let mut place = Place { layout: Layout::dense(shape), moves: SmallVec::new() };
        place.layout.offset = joined::offset(&plan.joined, g, v as u32);
        if let Op::Input = x.op {
            if let Some(l) = g.layouts.get(&(v as u32)).or_else(|| strides.get(&(v as u32))) {
                place.layout = Layout { offset: 0, strides: l.strides };
            }
        } else if x.op.is_view() && plan.root[v] != v as u32 {
            let source = &places[x.inputs[0] as usize];
            let from = g.shape(x.inputs[0]);
            place.moves = source.moves.clone();
            place.layout = view_layout(&x.op, &source.layout, from, shape);
            if let Op::View(View::Slice { axis, .. }) = &x.op {
                place.moves.push((x.arg, source.layout.strides[*axis as usize]));
            }
        }
        places.push(place);
    }
    places
}
fn view_layout(op: &Op, l: &Layout, from: &Shape, to: &Shape) -> Layout {
    match op {
        Op::View(View::Permute(p)) => {
            let mut strides = [0; MAX_RANK];
            for k in 0..to.rank() {
                let from = if is(Plant::WrongPermutation) && k < 2 && from[k] == from[p[k] as usize] { k } else { p[k] as usize };
                strides[k] = l.strides[from];
            }
            Layout { offset: l.offset, strides }
        }
        Op::View(View::Expand(_)) => l.broadcast(from, to).unwrap_or(*l),
        Op::View(View::Slice { axis, step, .. }) => {
            let mut out = *l;
            out.strides[*axis as usize] *= *step as isize;
            out
        }
        Op::View(View::Flip(axes)) => {
            let mut out = *l;
            let mut offset = l.offset as isize;
            for a in axes.iter() {
                offset += if is(Plant::FlipForgotten) { 0 } else { l.strides[a] * (from[a].max(1) as isize - 1) };
                out.strides[a] = if is(Plant::FlipForgotten) { l.strides[a] } else { -l.strides[a] };
            }
            out.offset = offset as usize;
            out
        }
        Op::View(View::Diagonal(axes)) => {
            let mut strides = [0; MAX_RANK];
            let rest = (0..from.rank()).filter(|&a| !axes.has(a)).map(|a| l.strides[a]);
            let along = axes.iter().map(|a| l.strides[a]).sum();
            strides.iter_mut().zip(rest.chain([along])).for_each(|(to, stride)| *to = stride);
            Layout { offset: l.offset, strides }
        }
        Op::View(View::Windows { axis, step, .. }) => {
            let mut out = *l;
            let inside = l.strides[*axis as usize];
            out.strides[*axis as usize] *= *step as isize;
            out.strides[from.rank()] = inside;
            out
        }
        Op::View(View::Reshape(_)) => l.reshape(from, to).unwrap_or(Layout { offset: l.offset, strides: to.strides() }),
        _ => *l,
    }
}

fn size_step(plan: &Plan, g: &Graph, places: &[Place], s: &PlanStep) -> SizedStep {
    let space = match s.space {
        Space::Of(v) => *g.shape(v),
        Space::Pad(n) => pad_region(g, n).0,
    };
    let operand = |u: &Use| {
        let v = u.value(g);
        let meta = &g.vals[v as usize].meta;
        let mut place = places[v as usize].clone();
        let mut shape = meta.shape;
        match *u {
            Use::Whole(_) => {}
            Use::Broadcast(_) => {
                place.layout = place.layout.broadcast(&meta.shape, &space).unwrap_or(place.layout);
                if is(Plant::DroppedBroadcast) && meta.shape != space {
                    place.layout.strides = [0; MAX_RANK];
                }
                shape = space;
            }
            Use::Made { made, operand, .. } => {
                place.layout = made_layout(g, &place.layout, &meta.shape, made, operand);
                shape = *g.shape(operand);
            }
            Use::Dense(_) => {
                place = Place { layout: Layout::dense(&space), moves: SmallVec::new() };
                shape = space;
            }
            Use::PadSource(n) | Use::PadTarget(n) => {
                let (region, lows) = pad_region(g, n);
                let source = matches!(u, Use::PadSource(_));
                for (k, &lo) in lows.iter().enumerate() {
                    let skip = if source {
                        (-lo).max(0)
                    } else if is(Plant::PadShifted) {
                        0
                    } else {
                        lo.max(0)
                    };
                    place.layout.offset = (place.layout.offset as isize + skip * place.layout.strides[k]) as usize;
                }
                shape = region;
            }
            Use::ConcatTarget(n, k) => {
                let x = &g.nodes[n as usize];
                if let Op::Concat { axis } = x.op {
                    let k = if is(Plant::ConcatOverlaps) { 0 } else { k };
                    let before: usize = x.inputs[..k as usize].iter().map(|&i| g.shape(i)[axis as usize]).sum();
                    place.layout.offset += before * place.layout.strides[axis as usize] as usize;
                }
                shape = space;
            }
            Use::UpdateTarget(n) => {
                let x = &g.nodes[n as usize];
                if let Op::UpdateSlice { axis } = x.op {
                    let stride = place.layout.strides[axis as usize];
                    place.moves.push((x.arg, stride));
                }
                shape = space;
            }
        }
        if is(Plant::SkippedLastRow) && matches!(s.kernel.kind, KernelKind::Copy) && shape.first().is_some_and(|&rows| rows > 1) {
            shape = shape.with(0, shape[0] - 1);
        }
        let storage = plan.storage[v as usize];
        let dense = place.layout.is_dense(&shape);
        SizedOperand { storage, shape, dtype: meta.dtype, dense, place }
    };
    SizedStep { space, inputs: s.inputs.iter().map(operand).collect(), outputs: s.outputs.iter().map(operand).collect() }
}
/// The layout of what is loaded for an operand, as the operand sees it: broadcast, then viewed.
fn made_layout(g: &Graph, l: &Layout, from: &Shape, made: u32, operand: u32) -> Layout {
    if operand == made {
        return l.broadcast(from, g.shape(made)).unwrap_or(*l);
    }
    let x = g.node_of(operand);
    let source = x.inputs[0];
    view_layout(&x.op, &made_layout(g, l, from, made, source), g.shape(source), g.shape(operand))
}
/// What of the input stays inside a padded output, and the low widths.
fn pad_region(g: &Graph, n: u32) -> (Shape, SmallVec<[isize; MAX_RANK]>) {
    let x = &g.nodes[n as usize];
    let from = *g.shape(x.inputs[0]);
    match &x.op {
        Op::Pad(p) => {
            let mut region = from;
            for (k, &(lo, hi)) in p.widths.iter().enumerate() {
                let stays = from[k] as isize + lo.min(0) + hi.min(0);
                region = region.with(k, stays.max(0) as usize);
            }
            (region, p.widths.iter().map(|w| w.0).collect())
        }
        _ => (from, SmallVec::from_elem(0, from.rank())),
    }
}
