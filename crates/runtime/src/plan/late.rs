//! What is made last, when no bad data can be found any more: values that go into cells. A step that makes them may write where the
//! cell's old value lies, and may be left out.
//!
//! ```text
//! Map -> cell                                       its kernel
//! Map -> concat -> all_gather -> update -> cell     all of it, where nothing else reads what lies in between
//! ```
//!
//! The second is what ranks have together: each computes its piece, and all pieces come to where the old ones lay. There a collective
//! that fails midway has spoiled cells, which says so when they are read; elsewhere one that fails leaves them as they were.
use super::{decide::Decisions, graph::Graph};
use crate::{Op, op::CollectiveKind};

/// By value: is it made late?
pub(super) fn late_values(g: &Graph, d: &Decisions, written: &[bool]) -> Vec<bool> {
    let n = g.vals.len();
    let shared = shared_updates(g, d, written);
    let (mut early, mut late_out) = (vec![false; n], vec![false; n]);
    for v in (0..n).rev() {
        let x = g.node_of(v as u32);
        if !d.needed[v] {
            continue;
        }
        let late = x.op.is_map() && !early[v] && (written[v] || (!d.in_memory[v] && !d.kept[v]));
        late_out[v] = shared[v] || late && written[v];
        if !late && !shared[v] {
            for &i in &x.inputs {
                early[i as usize] = true;
                early[d.root[i as usize] as usize] = true;
            }
        }
    }
    late_out
}
/// Updates of cells by what ranks gather, and what is made for them alone. None where ranks have something else to do together behind
/// the first of them: collectives stay in the order in which they were recorded.
fn shared_updates(g: &Graph, d: &Decisions, written: &[bool]) -> Vec<bool> {
    let n = g.vals.len();
    let (mut shared, mut read_otherwise, mut leads_there) = (vec![false; n], vec![false; n], vec![false; n]);
    let is_gather = |op: &Op| matches!(op, Op::Collective { kind: CollectiveKind::AllGather { .. }, .. });
    if !g.nodes.iter().any(|x| is_gather(&x.op)) {
        return shared;
    }
    for x in g.nodes.iter().rev().filter(|x| !matches!(x.op, Op::Input)) {
        let at = x.first as usize;
        if !d.needed[at] {
            continue;
        }
        let is_free = !read_otherwise[at] && x.outputs == 1;
        let gathers = |v: u32| is_gather(&g.node_of(d.root[v as usize]).op);
        let is_update = is_free && written[at] && matches!(x.op, Op::UpdateSlice { .. }) && gathers(x.inputs[1]);
        let is_way = x.op.is_view() || x.op.is_map() || matches!(x.op, Op::Concat { .. }) || is_gather(&x.op);
        shared[at] = is_update || is_free && is_way && leads_there[at] && !d.kept[at] && !written[at] && !d.pinned[at];
        for (input, &i) in x.inputs.iter().enumerate() {
            match (is_update, shared[at] && !x.op.is_map()) {
                (true, _) if input == 1 => leads_there[i as usize] = true,
                (false, true) => leads_there[i as usize] = true,
                _ => read_otherwise[i as usize] = true,
            }
        }
    }
    let mut collectives = g.nodes.iter().filter(|x| matches!(x.op, Op::Collective { .. })).skip_while(|x| !shared[x.first as usize]);
    if collectives.all(|x| shared[x.first as usize]) { shared } else { vec![false; n] }
}
