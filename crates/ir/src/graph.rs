//! The graph of a function: its ops as a flat list in static single assignment form, composites whole. It is data: nothing is
//! run to get it and nothing runs it here, so a summary or an export sees what a model would do without memory for doing it.
//!
//! A value is a number from 0 on. It is defined once: as an input, as a constant, as what a cell holds when the function is
//! entered, or as an output of a node; nodes stand in the order they were applied. Effects keep their order: collectives by
//! that of the nodes, writes of cells by that of [`Graph::writes`], which all happen behind the last node.
//!
//! Structure is what [`Op`], its attributes, the types and the cells say. Argument is what [`Arg`] holds: a number beside a
//! tensor, the start of a slice; two calls that differ in arguments alone have one [`Graph::structure`].
//!
//! Devices, groups of ranks and composites are named here and known elsewhere: what the verifier, the text and the passes
//! must know of them, they ask an [`Environment`]. Nothing here knows tensors.
use crate::{Arg, DeviceId, ErrorKind, Op, PlacedType, scope::ScopeId};
use smallvec::SmallVec;
use std::{any::Any, collections::BTreeMap, fmt, ops::Range, panic::Location, sync::Arc};

mod environment;
mod fault;
mod form;
mod hash;
mod lex;
mod number;
mod parse;
mod pass;
mod rewrite;
mod text;
mod verify;

pub use crate::TensorType as Type;
pub use environment::Environment;
pub use fault::{GraphError, Invalid, TextError, Why, nearest};
pub use parse::Reading;
pub use pass::{PASSES, Pass, Ran};
pub use text::Written;

/// Where a node comes from.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum At {
    /// nobody knows
    #[default]
    Nowhere,
    /// the line of the program that applied the op
    Code(&'static Location<'static>),
    /// the line of the text that it was read from
    Line(u32),
}
impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Nowhere => Ok(()),
            At::Code(at) => write!(f, "{}:{}", at.file(), at.line()),
            At::Line(line) => write!(f, "line {line}"),
        }
    }
}

/// One op of a graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// the op
    pub op: Op,
    /// what changes from call to call
    pub arg: Arg,
    /// the values it reads
    pub inputs: SmallVec<[u32; 4]>,
    /// the values it makes
    pub outputs: Range<u32>,
    /// the layer it was applied in
    pub scope: ScopeId,
    /// where it was applied
    pub at: At,
}
/// What holds the elements of a constant, or a cell, on behalf of a program that runs the graph.
pub trait HoldsElements: Any + Send + Sync {
    /// The elements in row-major order.
    ///
    /// # Errors
    /// They cannot be had.
    fn bytes(&self) -> Result<Arc<[u8]>, ErrorKind>;
}
/// The elements of a constant.
#[derive(Clone)]
pub enum Data {
    /// in row-major order, the lowest byte of each first
    Bytes(Arc<[u8]>),
    /// where the program has them, fetched when they are asked for
    Held(Arc<dyn HoldsElements>),
}
impl Data {
    /// The elements.
    ///
    /// # Errors
    /// They cannot be had.
    pub fn bytes(&self) -> Result<Arc<[u8]>, ErrorKind> {
        match self {
            Data::Bytes(bytes) => Ok(bytes.clone()),
            Data::Held(held) => held.bytes(),
        }
    }
}
impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Data::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Data::Held(_) => f.write_str("held"),
        }
    }
}
/// A value that the function brings along.
#[derive(Clone, Debug)]
pub struct Constant {
    /// the value
    pub value: u32,
    /// its elements
    pub data: Data,
}
/// A cell that the function reads or writes.
#[derive(Clone)]
pub struct State {
    /// the cell's number in the program that captured it; 0 in a graph that was read
    pub id: u64,
    /// its name, where the caller gave one: the path of a parameter
    pub name: Option<Arc<str>>,
    /// what it holds
    pub ty: Type,
    /// where it lives
    pub place: DeviceId,
    /// do gradients flow to it?
    pub trainable: bool,
    /// the value that it holds when the function is entered, if that is read
    pub read: Option<u32>,
    /// the cell itself, if it is bound to one
    pub held: Option<Arc<dyn Any + Send + Sync>>,
}
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}, read {:?}", self.name, self.ty, self.read)
    }
}
/// A write of a cell, behind the last node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// which of [`Graph::cells`]
    pub cell: u32,
    /// its new value
    pub value: u32,
    /// writes of one group commit together; groups commit in order
    pub group: u32,
}
/// A captured function.
#[derive(Clone, Debug)]
pub struct Graph {
    /// where its values live, unless [`Graph::places`] says otherwise
    pub home: DeviceId,
    /// shape and dtype of each value
    pub values: Vec<Type>,
    /// where each value lives
    pub places: Vec<DeviceId>,
    /// the names of those values that have one: inputs, and all values of a graph that was read
    pub names: BTreeMap<u32, Arc<str>>,
    /// the ops in order
    pub nodes: Vec<Node>,
    /// the values that were passed in
    pub inputs: Vec<u32>,
    /// the values that the function brought along
    pub constants: Vec<Constant>,
    /// the cells that it touches, in the order of the first time
    pub cells: Vec<State>,
    /// what it writes to cells, in order
    pub writes: Vec<Write>,
    /// the values that were returned
    pub outputs: Vec<u32>,
}

impl Graph {
    /// A graph of nothing.
    pub fn new(home: impl Into<DeviceId>) -> Graph {
        Graph {
            home: home.into(),
            values: vec![],
            places: vec![],
            names: BTreeMap::new(),
            nodes: vec![],
            inputs: vec![],
            constants: vec![],
            cells: vec![],
            writes: vec![],
            outputs: vec![],
        }
    }
    /// Shape and dtype of a value, and where it lives.
    pub fn placed(&self, value: u32) -> PlacedType {
        PlacedType { ty: self.values[value as usize], place: self.places[value as usize] }
    }
    /// Appends a value, which whoever appends it defines.
    pub fn add_value(&mut self, ty: Type, place: impl Into<DeviceId>) -> u32 {
        self.values.push(ty);
        self.places.push(place.into());
        self.values.len() as u32 - 1
    }
    /// Appends an input.
    pub fn add_input(&mut self, name: Option<&str>, ty: Type, place: impl Into<DeviceId>) -> u32 {
        let value = self.add_value(ty, place);
        self.inputs.push(value);
        if let Some(name) = name {
            self.names.insert(value, name.into());
        }
        value
    }
    /// Appends a constant.
    pub fn add_constant(&mut self, ty: Type, place: impl Into<DeviceId>, data: Data) -> u32 {
        let value = self.add_value(ty, place);
        self.constants.push(Constant { value, data });
        value
    }
    /// Appends a cell that is neither read nor written yet.
    pub fn add_cell(&mut self, name: Option<&str>, ty: Type, place: impl Into<DeviceId>, trainable: bool) -> u32 {
        self.cells.push(State { id: 0, name: name.map(Into::into), ty, place: place.into(), trainable, read: None, held: None });
        self.cells.len() as u32 - 1
    }
    /// The value that a cell holds when the function is entered.
    pub fn add_read(&mut self, cell: u32) -> u32 {
        let state = &self.cells[cell as usize];
        if let Some(value) = state.read {
            return value;
        }
        let value = self.add_value(state.ty, state.place);
        self.cells[cell as usize].read = Some(value);
        value
    }
    /// Appends a node that makes values of these types, which are not looked at.
    pub fn add_node<T: Into<PlacedType>>(&mut self, op: Op, arg: Arg, inputs: &[u32], made: impl IntoIterator<Item = T>, scope: ScopeId, at: At) -> Range<u32> {
        let first = self.values.len() as u32;
        for value in made {
            let PlacedType { ty, place } = value.into();
            self.add_value(ty, place);
        }
        let outputs = first..self.values.len() as u32;
        self.nodes.push(Node { op, arg, inputs: SmallVec::from_slice(inputs), outputs: outputs.clone(), scope, at });
        outputs
    }
    /// Appends an op, whose outputs follow from its inputs. One that reads nothing is at home.
    ///
    /// # Errors
    /// It does not take these inputs.
    pub fn apply(&mut self, op: Op, arg: Arg, inputs: &[u32], scope: ScopeId, at: At, environment: &dyn Environment) -> Result<Range<u32>, GraphError> {
        let read: SmallVec<[PlacedType; 4]> = inputs.iter().map(|&v| self.placed(v)).collect();
        match verify::infer(&op, &read, self.home, environment) {
            Ok(outputs) => Ok(self.add_node(op, arg, inputs, outputs, scope, at)),
            Err(kind) => {
                let (node, scope) = (Some(self.nodes.len()), crate::scope::path(scope));
                Err(Invalid { node, op: op.name().into(), at, scope, why: Why::Op(Box::new(kind)) }.into())
            }
        }
    }
    /// Which node makes each value; `None`: it is an input, a constant or read from a cell.
    pub fn makers(&self) -> Vec<Option<u32>> {
        let mut makers = vec![None; self.values.len()];
        for (k, node) in self.nodes.iter().enumerate() {
            node.outputs.clone().for_each(|v| makers[v as usize] = Some(k as u32));
        }
        makers
    }
    /// How often each value is read: by nodes, by writes, as an output.
    pub fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.values.len()];
        let of_nodes = self.nodes.iter().flat_map(|n| n.inputs.iter().copied());
        for v in of_nodes.chain(self.writes.iter().map(|w| w.value)).chain(self.outputs.iter().copied()) {
            uses[v as usize] += 1;
        }
        uses
    }
}
