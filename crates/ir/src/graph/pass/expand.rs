//! `expand`: composites are replaced by their bodies, and those in the bodies by theirs, until only primitives are left and what
//! is defined on the host. The bodies come from the environment: they are tensor code.
use super::super::{Environment, Graph, GraphError, Invalid, Node, Why, rewrite::Rewrite};
use crate::{ErrorKind, Op, PlacedType, composite::Keyed, scope};

pub(in super::super) fn run(graph: &mut Graph, environment: &dyn Environment) -> Result<(), GraphError> {
    let mut rewrite = Rewrite::begin(graph, environment);
    for (k, node) in graph.nodes.iter().enumerate() {
        let Op::Composite(composite) = &node.op else {
            rewrite.keep(node);
            continue;
        };
        if composite.is_host() {
            rewrite.keep(node);
            continue;
        }
        let inputs: Vec<u32> = node.inputs.iter().map(|&v| rewrite.value(v)).collect();
        let at_node = |kind| Invalid { node: Some(k), op: node.op.name().into(), at: node.at, scope: scope::path(node.scope), why: Why::Op(Box::new(kind)) };
        let outputs = inline(&mut rewrite.to, node, composite, &inputs, environment, 0).map_err(at_node)?;
        node.outputs.clone().zip(outputs).for_each(|(old, new)| rewrite.replace(old, new));
    }
    *graph = rewrite.finish();
    Ok(())
}
/// Bodies inside bodies; one that holds itself has no end.
const DEEPEST: usize = 32;
/// Appends the body of a composite that stands for a node, and gives the values of its outputs.
fn inline(to: &mut Graph, node: &Node, composite: &Keyed, inputs: &[u32], environment: &dyn Environment, depth: usize) -> Result<Vec<u32>, ErrorKind> {
    let name = composite.name();
    if depth == DEEPEST {
        return Err(ErrorKind::Internal(format!("bodies of composites are nested more than {DEEPEST} deep at {name}")));
    }
    let placed: Vec<PlacedType> = inputs.iter().map(|&v| to.placed(v)).collect();
    let graph = environment.body(composite, &placed)?;
    if !graph.cells.is_empty() {
        return Err(ErrorKind::Internal(format!("the body of {name} reads or writes a cell")));
    }
    let mut map = vec![u32::MAX; graph.values.len()];
    graph.inputs.iter().zip(inputs).for_each(|(&v, &given)| map[v as usize] = given);
    for constant in &graph.constants {
        let v = constant.value as usize;
        map[v] = to.add_constant(graph.values[v], graph.places[v], constant.data.clone());
    }
    for inner in &graph.nodes {
        let inputs: Vec<u32> = inner.inputs.iter().map(|&v| map[v as usize]).collect();
        let outputs = match &inner.op {
            Op::Composite(c) if !c.is_host() => inline(to, node, c, &inputs, environment, depth + 1)?,
            op => to.add_node(op.clone(), inner.arg, &inputs, inner.outputs.clone().map(|v| graph.placed(v)), node.scope, node.at).collect(),
        };
        inner.outputs.clone().zip(outputs).for_each(|(v, new)| map[v as usize] = new);
    }
    Ok(graph.outputs.iter().map(|&v| map[v as usize]).collect())
}
