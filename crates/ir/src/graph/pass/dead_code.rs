//! `dead_code`: drops nodes whose values nobody reads, constants and reads of cells likewise, and cells that are then neither
//! read nor written. Inputs stay, and so do effects with all that they read.
use super::super::{Graph, GraphError, Node};

pub(in super::super) fn run(graph: &mut Graph) -> Result<(), GraphError> {
    sweep(graph, |_| true);
    Ok(())
}
/// Drops what nobody reads, of the nodes only those that may go.
pub(super) fn sweep(graph: &mut Graph, may_go: impl Fn(&Node) -> bool) {
    let mut read = vec![false; graph.values.len()];
    graph.outputs.iter().copied().chain(graph.writes.iter().map(|w| w.value)).for_each(|v| read[v as usize] = true);
    let mut stays = vec![true; graph.nodes.len()];
    for (k, node) in graph.nodes.iter().enumerate().rev() {
        stays[k] = node.op.is_effect() || !may_go(node) || node.outputs.clone().any(|v| read[v as usize]);
        if stays[k] {
            node.inputs.iter().for_each(|&v| read[v as usize] = true);
        }
    }
    let written: Vec<bool> = {
        let mut written = vec![false; graph.cells.len()];
        graph.writes.iter().for_each(|w| written[w.cell as usize] = true);
        written
    };
    // Numbers again, without the gaps.
    const GONE: u32 = u32::MAX;
    let mut map = vec![GONE; graph.values.len()];
    let mut new = Graph::new(graph.home);
    for &v in &graph.inputs {
        map[v as usize] = new.add_input(None, graph.values[v as usize], graph.places[v as usize]);
    }
    for constant in graph.constants.iter().filter(|c| read[c.value as usize]) {
        let v = constant.value as usize;
        map[v] = new.add_constant(graph.values[v], graph.places[v], constant.data.clone());
    }
    let mut cells = vec![GONE; graph.cells.len()];
    for (k, cell) in graph.cells.iter().enumerate() {
        let value = cell.read.filter(|v| read[*v as usize]);
        if value.is_none() && !written[k] {
            continue;
        }
        cells[k] = new.cells.len() as u32;
        let mut state = cell.clone();
        state.read = None;
        new.cells.push(state);
        if let Some(v) = value {
            map[v as usize] = new.add_read(cells[k]);
        }
    }
    for (node, _) in graph.nodes.iter().zip(&stays).filter(|(_, stays)| **stays) {
        let inputs: Vec<u32> = node.inputs.iter().map(|&v| map[v as usize]).collect();
        let made: Vec<_> = node.outputs.clone().map(|v| graph.placed(v)).collect();
        let outputs = new.add_node(node.op.clone(), node.arg, &inputs, made, node.scope, node.at);
        node.outputs.clone().zip(outputs).for_each(|(old, new)| map[old as usize] = new);
    }
    new.writes = graph.writes.iter().map(|w| super::super::Write { cell: cells[w.cell as usize], value: map[w.value as usize], ..*w }).collect();
    new.outputs = graph.outputs.iter().map(|&v| map[v as usize]).collect();
    new.names = graph.names.iter().filter(|(v, _)| map[**v as usize] != GONE).map(|(v, name)| (map[*v as usize], name.clone())).collect();
    *graph = new;
}
