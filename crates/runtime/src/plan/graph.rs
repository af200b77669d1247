//! What a plan is made for: one flat list of primitives, and of the composites that the device claims. All decisions are made
//! on this list.
use super::view_layout;
use crate::{
    ErrorKind, Meta, Op, Shape, Stored,
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
    /// Is it a reshape of what lies so that its elements have to be moved?
    pub moves: Vec<bool>,
    /// The layouts of inputs that come from the window.
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
        let moves = self.is_moved(&op, &inputs);
        let dense = match &op {
            Op::StopGrad | Op::View(View::Slice { axis: 0, step: 1, .. }) => self.dense[inputs[0] as usize],
            Op::View(View::Reshape(_)) if !self.dense[inputs[0] as usize] => {
                h = mix(h, moves as u64);
                moves
            }
            Op::View(View::Reshape(_)) => true,
            Op::View(_) => false,
            _ => true,
        };
        self.hash = h;
        self.dense.resize(self.vals.len(), dense);
        self.moves.resize(self.vals.len(), moves);
        let outputs = self.vals.len() as u32 - first;
        self.nodes.push(Node { op, arg, inputs, first, outputs, record });
        first
    }
    /// Does an op reshape what lies so that no strides tell the new shape? Of one's own shape a reshape is asked for to move what has gaps.
    fn is_moved(&self, op: &Op, inputs: &[u32]) -> bool {
        let (Op::View(View::Reshape(to)), Some(&source)) = (op, inputs.first()) else { return false };
        let from = self.shape(source);
        !self.dense[source as usize] && (from == to || self.layout(source).reshape(from, to).is_none())
    }
    /// How a value lies in its storage, but for where that and slices begin.
    fn layout(&self, v: u32) -> Layout {
        let (x, shape) = (self.node_of(v), self.shape(v));
        match (&x.op, x.inputs.first()) {
            (Op::Input, _) => {
                let constant =
                    || self.inputs.iter().find_map(|(i, source)| if let (Source::Constant(stored), true) = (source, *i == v) { Some(stored) } else { None });
                self.layouts.get(&v).copied().or_else(|| constant().map(|stored| stored.layout(shape))).unwrap_or_else(|| Layout::dense(shape))
            }
            (op, Some(&source)) if op.is_view() && !self.moves[v as usize] => view_layout(op, &self.layout(source), self.shape(source), shape),
            _ => Layout::dense(shape),
        }
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
