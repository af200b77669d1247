//! `transpose_elimination`: a transpose waits until somebody needs its elements in their order. On the way it goes past element-wise
//! ops, meets other transposes and becomes one with them, and is gone where they cancel. It passes an op only if nobody else reads
//! what it passes, so the graph never grows.
use super::{
    super::{Environment, Graph, GraphError, Node, rewrite::Rewrite},
    dead_code,
};
use crate::{Arg, MAX_RANK, Op, op::View};
use std::collections::HashMap;

type Perm = [u8; MAX_RANK];
/// An old value as it will be made: this new value, transposed so.
#[derive(Clone, Copy)]
struct Waiting {
    base: u32,
    perm: Perm,
}

pub(in super::super) fn run(graph: &mut Graph, environment: &dyn Environment) -> Result<(), GraphError> {
    let uses = graph.uses();
    let mut rewrite = Rewrite::begin(graph, environment);
    let mut waiting: HashMap<u32, Waiting> = HashMap::new();
    for node in &graph.nodes {
        let rank = graph.values[node.outputs.start as usize].shape.rank();
        if let Op::View(View::Permute(perm)) = &node.op {
            let (v, out) = (node.inputs[0], node.outputs.start);
            let before = waiting.get(&v).copied().unwrap_or(Waiting { base: rewrite.value(v), perm: identity() });
            let mut together = identity();
            (0..rank).for_each(|k| together[k] = before.perm[perm[k] as usize]);
            if is_identity(&together, rank) {
                rewrite.replace(out, before.base);
            } else {
                waiting.insert(out, Waiting { base: before.base, perm: together });
            }
            continue;
        }
        match passing(graph, node, &waiting, &uses) {
            Some(perm) => {
                let inputs: Vec<u32> = node.inputs.iter().map(|v| waiting.get(v).map_or_else(|| rewrite.value(*v), |w| w.base)).collect();
                let base = rewrite.apply(node.op.clone(), node.arg, &inputs, node.scope, node.at)?;
                waiting.insert(node.outputs.start, Waiting { base, perm });
            }
            None => {
                for v in &node.inputs {
                    settle(&mut rewrite, &mut waiting, *v, node)?;
                }
                rewrite.keep(node);
            }
        }
    }
    let ends: Vec<u32> = graph.writes.iter().map(|w| w.value).chain(graph.outputs.iter().copied()).collect();
    if let Some(last) = graph.nodes.last() {
        for v in ends {
            settle(&mut rewrite, &mut waiting, v, last)?;
        }
    }
    let mut new = rewrite.finish();
    dead_code::sweep(&mut new, |node| matches!(node.op, Op::View(View::Permute(_))));
    *graph = new;
    Ok(())
}
/// The transpose that goes past an element-wise op: that of all its inputs which are no single numbers.
fn passing(graph: &Graph, node: &Node, waiting: &HashMap<u32, Waiting>, uses: &[u32]) -> Option<Perm> {
    if !matches!(node.op, Op::Unary(_) | Op::Binary(_) | Op::BinaryScalar(..) | Op::Select | Op::Cast(_) | Op::Bitcast(_) | Op::StopGrad) {
        return None;
    }
    let rank = graph.values[node.outputs.start as usize].shape.rank();
    let mut perm = None;
    for v in &node.inputs {
        let own = graph.values[*v as usize].shape.rank();
        if own == 0 {
            continue;
        }
        let w = waiting.get(v).filter(|_| own == rank && uses[*v as usize] == 1)?;
        if perm.is_some_and(|p: Perm| p[..rank] != w.perm[..rank]) {
            return None;
        }
        perm = Some(w.perm);
    }
    perm
}
/// Makes the value itself, where somebody needs it.
fn settle(rewrite: &mut Rewrite<'_>, waiting: &mut HashMap<u32, Waiting>, value: u32, reader: &Node) -> Result<(), GraphError> {
    if let Some(Waiting { base, perm }) = waiting.remove(&value) {
        let shape = rewrite.to.values[base as usize].shape;
        let mut written = [0; MAX_RANK];
        written[..shape.rank()].copy_from_slice(&perm[..shape.rank()]);
        let made = rewrite.apply(Op::View(View::Permute(written)), Arg::None, &[base], reader.scope, reader.at)?;
        rewrite.replace(value, made);
    }
    Ok(())
}
fn identity() -> Perm {
    [0, 1, 2, 3, 4, 5, 6, 7]
}
fn is_identity(perm: &Perm, rank: usize) -> bool {
    perm[..rank] == identity()[..rank]
}
