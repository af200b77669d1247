//! Calls about graphs.
use crate::driver::code::{Answer, CudaCode};
use crate::driver::entry::calls;
use crate::driver::graph::{ExecutableGraph, Graph, Program};
use crate::driver::pointer::OutPointer;
use crate::driver::queue::StreamWork;
use crate::driver::state::{DriverState, EmulatedLaunch};
use crate::emulator::EmulatedFault;
use crate::machine::finding::FindingKind;
use std::sync::Arc;

/// Memory freed at a launch, uploaded at once, launched by kernels, priorities of nodes.
const FLAGS: u64 = 0xf;
const BY_KERNELS: u64 = 4;

/// `CUgraphExecUpdateResultInfo`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Updated {
    result: u32,
    padding: u32,
    node: u64,
    from: u64,
}
/// The edges differ; a node is of another kind.
const TOPOLOGY_CHANGED: u32 = 2;
const KIND_CHANGED: u32 = 3;

calls! { exports, CudaCode;
    fn cuGraphCreate(state, graph: OutPointer<u64>, flags: u32) {
        graph.needed()?;
        state.ready()?;
        if flags != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        let made = state.keep_graph(Graph::default());
        graph.set(made)
    }
    fn cuGraphDestroy(state, graph: u64) {
        state.ready()?;
        let gone = state.graphs.remove(&graph).ok_or(CudaCode::INVALID_HANDLE)?;
        for node in gone.handles {
            state.nodes.remove(&node);
        }
        Ok(())
    }
    fn cuGraphClone(state, clone: OutPointer<u64>, graph: u64) {
        clone.needed()?;
        state.ready()?;
        let copy = state.graph(graph)?.clone();
        let made = state.keep_graph(copy);
        clone.set(made)
    }
    fn cuGraphGetNodes(state, graph: u64, nodes: OutPointer<u64>, count: OutPointer<usize>) {
        state.ready()?;
        let handles = state.graph(graph)?.handles.clone();
        let capacity = if nodes.is_null() { 0 } else { count.get()? };
        nodes.fill(capacity, &handles)?;
        for k in handles.len()..capacity.min(1 << 16) {
            nodes.moved(k).set(0)?;
        }
        count.set(if nodes.is_null() { handles.len() } else { handles.len().min(capacity) })
    }
    fn cuGraphNodeGetType(state, node: u64, kind: OutPointer<u32>) {
        state.ready()?;
        let (graph, number) = *state.nodes.get(&node).ok_or(CudaCode::INVALID_HANDLE)?;
        kind.set(state.graph(graph)?.nodes.get(number).ok_or(CudaCode::INVALID_HANDLE)?.kind())
    }
    fn cuGraphInstantiateWithFlags(state, executable: OutPointer<u64>, graph: u64, flags: u64) {
        executable.needed()?;
        let context = state.current()?;
        state.refuse_while_capturing()?;
        if flags & !FLAGS != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        if flags & BY_KERNELS != 0 {
            return Err(CudaCode::NOT_SUPPORTED);
        }
        let program = Arc::new(Program::new(&state.graph(graph)?.nodes));
        let handle = state.handle();
        state.executables.insert(handle, ExecutableGraph { context, program, last: None });
        executable.set(handle)
    }
    fn cuGraphExecDestroy(state, executable: u64) {
        state.ready()?;
        state.executables.remove(&executable).map(drop).ok_or(CudaCode::INVALID_HANDLE)
    }
    fn cuGraphExecUpdate_v2(state, executable: u64, graph: u64, updated: OutPointer<Updated>) {
        updated.needed()?;
        state.current()?;
        let nodes = state.graph(graph)?.nodes.clone();
        let handles = state.graph(graph)?.handles.clone();
        let known = state.executables.get(&executable).ok_or(CudaCode::INVALID_HANDLE)?;
        let old = &known.program.nodes;
        let same_edges = old.len() == nodes.len() && old.iter().zip(&nodes).all(|(a, b)| a.after == b.after);
        let changed = old.iter().zip(&nodes).position(|(a, b)| a.kind() != b.kind());
        let problem = if !same_edges { Some((TOPOLOGY_CHANGED, None)) } else { changed.map(|k| (KIND_CHANGED, handles.get(k).copied())) };
        if let Some((result, node)) = problem {
            updated.set(Updated { result, padding: 0, node: node.unwrap_or(0), from: 0 })?;
            return Err(CudaCode::GRAPH_EXEC_UPDATE_FAILURE);
        }
        if let Some(known) = state.executables.get_mut(&executable) {
            known.program = Arc::new(Program::new(&nodes));
        }
        updated.set(Updated { result: 0, padding: 0, node: 0, from: 0 })
    }
    fn cuGraphUpload(state, executable: u64, stream: u64) {
        let stream = state.stream(stream)?;
        state.executable(executable)?;
        state.refuse_capturing_stream(stream)?;
        state.enqueue(stream, StreamWork::Nothing)
    }
    fn cuGraphLaunch(state, executable: u64, stream: u64) {
        let stream = state.stream(stream)?;
        let known = state.executable(executable)?;
        let (program, last) = (known.program.clone(), known.last.clone());
        let gone = program.nodes.iter().find_map(|n| match &n.work {
            StreamWork::Launch(launch) if !state.functions.contains_key(&launch.function) => Some(launch.name.clone()),
            _ => None,
        });
        if let Some(name) = gone {
            state.find_of_call(FindingKind::UseAfterFree, "cuGraphLaunch", format!("the module of kernel `{name}` is unloaded"), None);
            return Err(CudaCode::INVALID_HANDLE);
        }
        if state.options.record {
            for node in &program.nodes {
                if let StreamWork::Launch(l) = &node.work {
                    let (grid, block, shared) = (l.grid, l.block, l.shared + l.own_shared);
                    state.launched(|| EmulatedLaunch { kernel: l.name.to_string(), grid, block, shared, stream, by_graph: true });
                }
            }
        }
        if last.is_some() && state.goes_wrong(EmulatedFault::StaleGraph) {
            return Ok(());
        }
        let before: Vec<u64> = last.iter().map(|(task, _)| *task).collect();
        state.enqueue_after(stream, StreamWork::Graph(program), &before, last.as_ref().map(|(_, clock)| (clock, 0.0)))?;
        let now = state.streams.get(&stream).and_then(|s| Some((s.last?, s.clock.clone())));
        if let Some(known) = state.executables.get_mut(&executable) {
            known.last = now;
        }
        Ok(())
    }
}

impl DriverState {
    fn executable(&self, handle: u64) -> Answer<&ExecutableGraph> {
        let current = self.current()?;
        self.executables.get(&handle).filter(|g| g.context == current).ok_or(CudaCode::INVALID_HANDLE)
    }
}
