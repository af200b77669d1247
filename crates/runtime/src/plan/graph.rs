//! What a plan is made for: one flat list of primitives, and of the composites that the device claims. All decisions are made
//! on this list.
use super::view_layout;
use crate::{
    ErrorKind, Meta, Op, Shape, Stored,
    backend::ROW_ALIGNMENT,
    composite::OperandSet,
    hash::mix,
    op::{Arg, View},
    shape::Layout,
};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Where an argument is read when the plan is replayed.
#[derive(Clone, Copy, Debug)]
pub enum ArgFrom {
    /// From the record: new at every replay.
    Record(u32),
    /// Written by a composite's body: part of the structure.
    Body(Arg),
}
/// A primitive (or a claimed composite) with its inputs as values.
pub struct Node {
    /// the op
    pub op: Op,
    /// its argument
    pub arg: ArgFrom,
    /// the values it reads
    pub inputs: SmallVec<[u32; 3]>,
    /// Its outputs are the values `first..first + outputs`.
    pub first: u32,
    /// how many values it makes
    pub outputs: u32,
    /// The record it comes from: where faults and times are charged.
    pub record: u32,
}
/// A value.
pub struct Val {
    /// shape, dtype and device
    pub meta: Meta,
    /// the node that makes it
    pub node: u32,
}
/// A flat list of ops in SSA form.
#[derive(Default)]
pub struct Graph {
    /// in the order of application
    pub nodes: Vec<Node>,
    /// what they make, in the same order
    pub vals: Vec<Val>,
    /// The value of each slot of the window.
    pub of_slot: Vec<u32>,
    /// The values that are inputs, in order, and where their memory comes from.
    pub inputs: Vec<(u32, Source)>,
    /// Is the value row-major without gaps, as far as structure tells?
    pub dense: Vec<bool>,
    /// The layouts of inputs that come from the window, and of values that their kernels make in another order of axes.
    pub layouts: HashMap<u32, Layout>,
    /// A hash of the whole structure, bodies included.
    pub hash: u64,
}
/// Where an input's memory comes from.
#[derive(Clone)]
pub enum Source {
    /// A slot of the window.
    Slot(u32),
    /// A tensor that a composite's body made from host data.
    Constant(Stored),
}
/// No value.
pub const NONE: u32 = u32::MAX;
/// An error that belongs to one record of the window.
pub type RecordError = (usize, ErrorKind);

impl Graph {
    /// Appends a node and returns its first value.
    pub fn node(&mut self, op: Op, arg: ArgFrom, inputs: SmallVec<[u32; 3]>, metas: impl Iterator<Item = Meta>, record: u32) -> u32 {
        let first = self.vals.len() as u32;
        let node = self.nodes.len() as u32;
        self.vals.extend(metas.map(|meta| Val { meta, node }));
        let mut h = mix(self.hash, op.structure());
        let out = self.vals.get(first as usize).map(|v| v.meta.shape);
        for v in &self.vals[first as usize..] {
            h = mix(h, (v.meta.dtype as u64) << 8 | v.meta.shape.rank() as u64);
        }
        for &i in &inputs {
            h = mix(h, i as u64);
            // Only element-wise ops are decided on by shapes that are equal or broadcast: sizes that meet by chance elsewhere
            // (a batch's tokens as many as a layer's features) are no structure.
            if let (Some(out), true) = (out, op.is_map()) {
                let d = &self.vals[i as usize].meta.shape;
                for k in 0..d.rank().min(out.rank()) {
                    h = mix(h, (d[d.rank() - 1 - k] == out[out.rank() - 1 - k]) as u64);
                }
            }
        }
        match arg {
            ArgFrom::Body(Arg::Scalar(s)) => h = mix(h, s.bits()),
            ArgFrom::Body(Arg::Start(s)) => h = mix(h, s as u64),
            _ => {}
        }
        let dense = match &op {
            Op::StopGrad | Op::View(View::Slice { axis: 0, step: 1, .. }) => self.dense[inputs[0] as usize],
            Op::View(View::Reshape(to)) => {
                self.dense[inputs[0] as usize] || {
                    let shares = self.shares(inputs[0], to);
                    // It depends on sizes, so it is structure.
                    h = mix(h, shares as u64);
                    !shares
                }
            }
            Op::View(_) => false,
            _ => true,
        };
        self.hash = h;
        self.dense.resize(self.vals.len(), dense);
        let outputs = self.vals.len() as u32 - first;
        self.nodes.push(Node { op, arg, inputs, first, outputs, record });
        first
    }
    /// Where a value lies, as far as structure and the sizes tell: the starts of slices are left out.
    pub fn layout(&self, v: u32) -> Layout {
        let x = self.node_of(v);
        if let Some(known) = self.layouts.get(&v) {
            *known
        } else if self.dense[v as usize] || !x.op.is_view() {
            Layout::dense(self.shape(v))
        } else {
            view_layout(&x.op, &self.layout(x.inputs[0]), self.shape(x.inputs[0]), self.shape(v))
        }
    }
    /// Of a value that has gaps or another order: may its elements stay where they are in this shape? To its own shape it is reshaped
    /// to be moved.
    fn shares(&self, source: u32, to: &Shape) -> bool {
        let from = self.shape(source);
        from != to && self.layout(source).reshape(from, to).is_some()
    }
    /// Lets a value that is reshaped have no copy made of it: of a value that a kernel makes as rows wherever they lie, it has the
    /// axes in another order, which the kernel then gives them in memory.
    pub fn make_in_order_of(&mut self, view: u32, rows_of: impl Fn(&Op) -> OperandSet) {
        let x = self.node_of(view);
        let (Op::View(View::Permute(order)), &[root]) = (&x.op, &x.inputs[..]) else { return };
        let number = root - self.node_of(root).first;
        let shape = *self.shape(view);
        let is_row = shape.rank() > 1 && order[shape.rank() - 1] as usize == shape.rank() - 1;
        if rows_of(&self.node_of(root).op).outputs >> number & 1 == 0 || !is_row || self.layouts.contains_key(&root) {
            return;
        }
        // Nobody has seen it as it was to lie.
        let (maker, viewer) = (self.vals[root as usize].node as usize, self.vals[view as usize].node as usize);
        let mut readers = self.nodes[maker..].iter().zip(maker..).filter(|(x, k)| *k != viewer && x.inputs.contains(&root));
        if readers.next().is_some() {
            return;
        }
        let dense = Layout::dense(&shape);
        let mut layout = dense;
        (0..shape.rank()).for_each(|k| layout.strides[order[k] as usize] = dense.strides[k]);
        if !self.is_aligned(root, &layout) {
            return;
        }
        self.layouts.insert(root, layout);
        (self.dense[root as usize], self.dense[view as usize]) = (false, true);
        self.hash = mix(self.hash, 1 + u64::from(root));
    }
    /// Do all rows of a value begin where kernels of rows take them?
    pub fn is_aligned(&self, v: u32, layout: &Layout) -> bool {
        let Meta { shape, dtype, .. } = &self.vals[v as usize].meta;
        let is_whole = |step: usize| (step * dtype.size()).is_multiple_of(ROW_ALIGNMENT);
        layout.rows(shape).is_some_and(|rows| [rows.row, rows.matrix, rows.group].into_iter().all(is_whole))
    }
    /// The node that makes a value.
    pub fn node_of(&self, v: u32) -> &Node {
        &self.nodes[self.vals[v as usize].node as usize]
    }
    /// Is the slot itself an input? (An op whose body returns its input has a slot of its own for the same value.)
    pub fn is_input_slot(&self, slot: u32, v: u32) -> bool {
        matches!(self.node_of(v).op, Op::Input) && self.inputs.iter().any(|(i, source)| *i == v && matches!(source, Source::Slot(s) if *s == slot))
    }
    /// The shape of a value.
    pub fn shape(&self, v: u32) -> &Shape {
        &self.vals[v as usize].meta.shape
    }
}
