//! The graph of a function of tensors. The graph itself, as data, with its verifier, its text, its hashes and its passes, is
//! [`adamant_ir::graph::Graph`], which knows neither tensors nor devices. Here is what needs them: [`Graph::capture`] and
//! [`Graph::execute`], and the [`Environment`] that answers for the names of a graph: the devices of this program, its groups of
//! ranks, its composites with their bodies.
//!
//! [`Graph`] is a type of its own around that one, and is used as if it were it: `graph.nodes` are the nodes. With a trait of
//! extensions in its place, `Graph::capture` would be found only where a second name is imported, and each call that asks the
//! environment (`verify`, `text`, `hash`, `run`) would have to be given it. What a type of its own costs: two fields cannot be
//! borrowed at once through it, so whoever edits a graph takes `let graph: &mut ir::Graph = &mut graph` first.
use crate::{Arg, Device, ErrorKind, Meta, Op, primitive, scope::ScopeId};
use smallvec::SmallVec;
use std::ops::{Deref, DerefMut, Range};

mod capture;
mod environment;
mod eval;

/// The graph as data alone.
pub use adamant_ir::graph as ir;
pub(crate) use adamant_ir::graph::nearest;
pub use adamant_ir::graph::{
    At, Constant, Data, Environment, GraphError, HoldsElements, Invalid, Node, PASSES, Pass, Ran, Reading, State, TextError, Type, Why, Write, Written,
};
pub(crate) use capture::records_stops;
use environment::Program;

/// A captured function: a graph as data, whose devices, groups of ranks and composites are those of this program.
#[derive(Clone, Debug)]
pub struct Graph(ir::Graph);
impl Deref for Graph {
    type Target = ir::Graph;
    fn deref(&self) -> &ir::Graph {
        &self.0
    }
}
impl DerefMut for Graph {
    fn deref_mut(&mut self) -> &mut ir::Graph {
        &mut self.0
    }
}
impl From<ir::Graph> for Graph {
    fn from(graph: ir::Graph) -> Graph {
        Graph(graph)
    }
}
impl From<Graph> for ir::Graph {
    fn from(graph: Graph) -> ir::Graph {
        graph.0
    }
}

impl Graph {
    /// A graph of nothing.
    pub fn new(home: Device) -> Graph {
        Graph(ir::Graph::new(home))
    }
    /// Shape, dtype and device of a value.
    ///
    /// # Errors
    /// No device of this program has the number that the graph says.
    pub fn meta(&self, value: u32) -> Result<Meta, ErrorKind> {
        Ok(Meta::new(self.values[value as usize], Device::of_id(self.places[value as usize])?))
    }
    /// Appends an op, whose outputs follow from its inputs. One that reads nothing is at home.
    ///
    /// # Errors
    /// It does not take these inputs.
    pub fn apply(&mut self, op: Op, arg: Arg, inputs: &[u32], scope: ScopeId, at: At) -> Result<Range<u32>, GraphError> {
        self.0.apply(op, arg, inputs, scope, at, &Program)
    }
    /// Does the graph keep its rules? See [`adamant_ir::graph::Graph::verify`].
    ///
    /// ```
    /// # use adamant_core::{DType, Device, Meta, Shape, graph::Graph};
    /// let device = Device::reference();
    /// let x = Meta { shape: Shape::new(&[2, 3]).map_err(|e| e.to_string())?, dtype: DType::F32, device };
    /// let mut graph = Graph::capture(device, &[x], |x| Ok(vec![x[0].exp().sin()]))?;
    /// graph.verify()?;
    /// graph.nodes.swap(0, 1);
    /// assert!(graph.verify().unwrap_err().to_string().contains("is read before it is made"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The first rule that is broken, with the node, its op, and where it was applied or written.
    pub fn verify(&self) -> Result<(), GraphError> {
        self.0.verify(&Program)
    }
    /// The graph as text, which [`Graph::parse`] reads back.
    ///
    /// # Errors
    /// The elements of a constant cannot be had.
    pub fn text(&self) -> Result<Written, GraphError> {
        self.0.text(&Program)
    }
    /// Reads a graph from its text, and verifies it.
    ///
    /// ```
    /// # use adamant_core::{Device, graph::{Graph, Reading}};
    /// let text = "adamant graph 1\n\
    ///     input %x: f32[2, 3]\n\
    ///     %double: f32[2, 3] = mul(%x) {scalar: \"right\"} with 2.0\n\
    ///     return %double\n";
    /// let graph = Graph::parse(text, &Reading::new(Device::reference()))?;
    /// assert_eq!(graph.text()?.text, text);
    /// let wrong = Graph::parse(&text.replace("mul", "mull"), &Reading::new(Device::reference())).unwrap_err();
    /// assert_eq!(wrong.to_string(), "line 3, column 22: there is no op `mull`; did you mean `mul`?");
    /// # Ok::<(), adamant_core::graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// Text that is no graph, with line, column and what was meant; a graph that breaks a rule, with the line of the node.
    pub fn parse(text: &str, reading: &Reading<'_>) -> Result<Graph, GraphError> {
        ir::Graph::parse(text, reading, &Program).map(Graph)
    }
    /// A hash of what the graph computes: ops with attributes and arguments, types, constants by their elements, cells by their
    /// names. A text that is read back has the same one.
    ///
    /// # Errors
    /// The elements of a constant cannot be had.
    pub fn hash(&self) -> Result<u64, GraphError> {
        self.0.hash(&Program)
    }
    /// A hash of the structure: as [`Graph::hash`] without arguments and without the elements of constants. Graphs that are
    /// equal in it are one plan.
    pub fn structure(&self) -> u64 {
        self.0.structure(&Program)
    }
    /// Runs passes by name, in order, and tells what each did. See [`PASSES`] for their names; the graph stays as it was
    /// if one of them fails.
    ///
    /// ```
    /// # use adamant_core::{Device, DType, Meta, Shape, graph::Graph};
    /// let device = Device::reference();
    /// let x = Meta { shape: Shape::new(&[4]).map_err(|e| e.to_string())?, dtype: DType::F32, device };
    /// let mut graph = Graph::capture(device, &[x], |x| { let _unread = x[0].exp(); Ok(vec![x[0].sin() + x[0].sin()]) })?;
    /// let ran = graph.run(&["common_subexpressions", "dead_code"])?;
    /// assert_eq!(ran.iter().map(|r| (r.before, r.after)).collect::<Vec<_>>(), [(4, 3), (3, 2)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A name that no pass has, with the list; a graph that the verifier refuses.
    pub fn run<S: AsRef<str>>(&mut self, passes: &[S]) -> Result<Vec<Ran>, GraphError> {
        self.0.run(passes, &Program)
    }
}
/// Those of a node's inputs and outputs that its gradient reads; empty if no gradient flows through it.
pub fn saved(node: &Node) -> SmallVec<[u32; 2]> {
    let saves = primitive::reads(&node.op, node.inputs.len()).unwrap_or_default();
    let from_inputs = node.inputs.iter().enumerate().filter(|(k, _)| saves.has_input(*k)).map(|(_, v)| *v);
    let from_outputs = node.outputs.clone().enumerate().filter(|(k, _)| saves.has_output(*k)).map(|(_, v)| v);
    from_inputs.chain(from_outputs).collect()
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, DType, ErrorKind, Shape, Tensor};
    use adamant_runtime::reference::ReferenceBackend;

    fn meta(dims: &[usize]) -> Meta {
        Meta { shape: Shape::new(dims).unwrap(), dtype: DType::F32, device: Device::reference() }
    }

    #[test]
    fn a_capture_that_runs_something_or_changes_a_cell() {
        // Of its own: other tests ask the common one for memory meanwhile.
        let device = Device::from_backend(Box::new(ReferenceBackend::new()));
        let meta = |dims: &[usize]| Meta { device, ..meta(dims) };
        let cell = Cell::new(&Tensor::from_vec_on(vec![1f32; 3], [3], device), true).unwrap();
        cell.detached().materialize().unwrap();
        let (version, requests) = (cell.version(), device.memory().requests);
        let graph = Graph::capture(device, &[meta(&[2, 3])], |x| {
            let y = &x[0] * &cell.get();
            cell.set(&y.sum(0))?;
            Ok(vec![&y + &cell.get(), x[0].clone()])
        })
        .unwrap();
        assert_eq!((cell.version(), device.memory().requests), (version, requests));
        let names: Vec<_> = graph.nodes.iter().map(|n| n.op.name()).collect();
        assert_eq!((names.first(), names.last()), (Some(&"mul"), Some(&"add")));
        assert_eq!((graph.cells.len(), graph.writes.len(), graph.constants.len()), (1, 1, 0));
        graph.verify().unwrap();
        assert_eq!(graph.outputs[1], graph.inputs[0]);
        // A product keeps both sides, a sum keeps nothing.
        assert_eq!((&saved(&graph.nodes[0])[..], graph.nodes.last().map(|n| saved(n).len())), (&graph.nodes[0].inputs[..], Some(0)));
        assert_eq!(*graph.values[graph.outputs[0] as usize].shape, [2, 3]);
    }
    #[test]
    fn a_read_inside_that_gives_data_or_leaves_the_thread_capturing() {
        let device = Device::reference();
        let failed = Graph::capture(device, &[meta(&[2])], |x| {
            (&x[0] + 1.0).to_vec::<f32>()?;
            Ok(vec![])
        });
        assert_eq!(failed.unwrap_err().kind(), &ErrorKind::Capturing);
        let wrong = Graph::capture(device, &[meta(&[2]), meta(&[3])], |x| Ok(vec![&x[0] + &x[1]]));
        assert_eq!(wrong.unwrap_err().kind().word(), "shape");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Graph::capture(device, &[], |_| panic!("planted")).is_ok()));
        assert!(panicked.is_err());
        assert_eq!(device.scoped(|| Tensor::ones([2]).to_vec::<f32>()).unwrap(), [1.0, 1.0]);
    }
}
