//! Graphs: nodes with edges, made executable, launched as one piece of work of a stream.
use super::code::{Answer, CudaCode};
use super::queue::StreamWork;
use super::state::DriverState;
use std::sync::Arc;

/// A node: what it does, and the nodes that come before.
#[derive(Clone)]
pub(crate) struct GraphNode {
    pub work: StreamWork,
    pub after: Vec<usize>,
}
impl GraphNode {
    /// What it is, as `CUgraphNodeType`.
    pub fn kind(&self) -> u32 {
        match &self.work {
            StreamWork::Launch(_) | StreamWork::Product(_) => 0,
            StreamWork::Copy(_) => 1,
            StreamWork::Fill(_) => 2,
            StreamWork::Call(_) => 3,
            StreamWork::Graph(_) => 4,
            StreamWork::Nothing | StreamWork::Free(_) => 5,
            StreamWork::Record(_) => 7,
        }
    }
}
/// A graph; its nodes come after those that their edges come from.
#[derive(Clone, Default)]
pub(crate) struct Graph {
    pub nodes: Vec<GraphNode>,
    pub handles: Vec<u64>,
}
/// What a launch of a graph does.
pub(crate) struct Program {
    pub nodes: Vec<GraphNode>,
    /// For each node those that come before it, a bit each.
    pub ancestors: Vec<Vec<u64>>,
}
impl Program {
    pub fn new(nodes: &[GraphNode]) -> Program {
        let words = nodes.len().div_ceil(64);
        let mut ancestors: Vec<Vec<u64>> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let mut mine = vec![0; words];
            for before in &node.after {
                if let Some(theirs) = ancestors.get(*before) {
                    mine.iter_mut().zip(theirs).for_each(|(m, t)| *m |= t);
                }
                if let Some(word) = mine.get_mut(before / 64) {
                    *word |= 1 << (before % 64);
                }
            }
            ancestors.push(mine);
        }
        Program { nodes: nodes.to_vec(), ancestors }
    }
}
/// A graph that can be launched.
pub(crate) struct ExecutableGraph {
    pub context: u64,
    pub program: Arc<Program>,
    /// Its launch before: two launches of one graph do not run side by side.
    pub last: Option<(u64, super::order::VectorClock)>,
}

impl DriverState {
    /// A graph gets handles.
    pub fn keep_graph(&mut self, mut graph: Graph) -> u64 {
        let handle = self.handle();
        graph.handles = (0..graph.nodes.len()).map(|_| self.handle()).collect();
        for (k, node) in graph.handles.iter().enumerate() {
            self.nodes.insert(*node, (handle, k));
        }
        self.graphs.insert(handle, graph);
        handle
    }
    pub fn graph(&self, handle: u64) -> Answer<&Graph> {
        self.graphs.get(&handle).ok_or(CudaCode::INVALID_HANDLE)
    }
}
