//! How a pass makes a graph anew: what it does not name is taken over as it is, values are numbered again, and names stay with
//! the values that they were given to.
use super::{At, Environment, Graph, GraphError, Node};
use crate::{Arg, Op, scope::ScopeId};
use std::ops::Range;

/// A graph on its way from an old one.
pub(super) struct Rewrite<'a> {
    from: &'a Graph,
    environment: &'a dyn Environment,
    pub to: Graph,
    /// the new value of each old one
    map: Vec<u32>,
}
const NONE: u32 = u32::MAX;

impl<'a> Rewrite<'a> {
    /// Begins with the inputs, the constants and the cells of a graph.
    pub fn begin(from: &'a Graph, environment: &'a dyn Environment) -> Rewrite<'a> {
        let mut rewrite = Rewrite { from, environment, to: Graph::new(from.home), map: vec![NONE; from.values.len()] };
        for &v in &from.inputs {
            let new = rewrite.to.add_input(None, from.values[v as usize], from.places[v as usize]);
            rewrite.replace(v, new);
        }
        for constant in &from.constants {
            let v = constant.value;
            let new = rewrite.to.add_constant(from.values[v as usize], from.places[v as usize], constant.data.clone());
            rewrite.replace(v, new);
        }
        for cell in &from.cells {
            let mut state = cell.clone();
            state.read = None;
            rewrite.to.cells.push(state);
            if let Some(v) = cell.read {
                let new = rewrite.to.add_read(rewrite.to.cells.len() as u32 - 1);
                rewrite.replace(v, new);
            }
        }
        rewrite
    }
    /// The new value of an old one.
    pub fn value(&self, old: u32) -> u32 {
        self.map[old as usize]
    }
    /// From here on the new value stands for the old one.
    pub fn replace(&mut self, old: u32, new: u32) {
        self.map[old as usize] = new;
    }
    /// Takes a node over, with other inputs, and gives its new outputs.
    pub fn copy(&mut self, node: &Node, inputs: &[u32]) -> Range<u32> {
        let made: Vec<_> = node.outputs.clone().map(|v| self.from.placed(v)).collect();
        self.to.add_node(node.op.clone(), node.arg, inputs, made, node.scope, node.at)
    }
    /// Takes a node over.
    pub fn keep(&mut self, node: &Node) {
        let inputs: Vec<u32> = node.inputs.iter().map(|&v| self.value(v)).collect();
        let outputs = self.copy(node, &inputs);
        node.outputs.clone().zip(outputs).for_each(|(old, new)| self.replace(old, new));
    }
    /// Appends an op with one output.
    ///
    /// # Errors
    /// It does not take these inputs.
    pub fn apply(&mut self, op: Op, arg: Arg, inputs: &[u32], scope: ScopeId, at: At) -> Result<u32, GraphError> {
        Ok(self.to.apply(op, arg, inputs, scope, at, self.environment)?.start)
    }
    /// The new graph, with the writes, the outputs and the names of the old one.
    pub fn finish(mut self) -> Graph {
        let map = |v: u32| self.map[v as usize];
        self.to.writes = self.from.writes.iter().map(|w| super::Write { value: map(w.value), ..*w }).collect();
        self.to.outputs = self.from.outputs.iter().map(|&v| map(v)).collect();
        for (&old, name) in self.from.names.iter().filter(|(old, _)| map(**old) != NONE) {
            // Of two values that became one, the first gives the name.
            self.to.names.entry(map(old)).or_insert_with(|| name.clone());
        }
        self.to
    }
}
