//! What is joined for a collective is made where it is joined. A bucket of gradients is one tensor of several; were each made in memory
//! of its own and copied there, a step would have all of them twice.
//!
//! ```text
//! a = matmul ..          -> at 0 of the bucket
//! b = reduce ..          -> behind it
//! concat(a, b)           -> nothing to be done
//! all_reduce             -> reads the bucket
//! ```
//!
//! Only along axis 0, where a part lies in one piece, of products and sums that nobody else reads. On a device that works behind the host it is not
//! done: its kernels are bound to where a buffer begins.
use super::{decide::Decisions, graph::Graph};
use crate::{Op, op::View};
use std::collections::HashMap;

/// Where values lie that are made inside a joined one: by value, the joining node and which of its inputs it is.
pub(super) type JoinedPlaces = HashMap<u32, (u32, u32)>;

/// Decides it, and gives such values the memory of what they are joined to.
pub(super) fn join_in_place(g: &Graph, d: &mut Decisions, written: &[bool], device: crate::Device) -> JoinedPlaces {
    let mut places = JoinedPlaces::new();
    if device.asynchronous().is_some() || !g.nodes.iter().any(|x| matches!(x.op, Op::Collective { .. })) {
        return places;
    }
    let readers = readers(g, d);
    let is_apart = |v: u32| {
        let at = v as usize;
        let is_own = d.root[at] == v && d.in_memory[at] && d.needed[at] && d.constant[at].is_none();
        let stays = d.kept[at] || d.pinned[at] || written[at];
        is_own && !stays && writes_anywhere(&g.node_of(v).op)
    };
    for (k, x) in g.nodes.iter().enumerate().rev() {
        let Op::Concat { axis: 0 } = x.op else { continue };
        let travels = match readers.get(&x.first).map_or(&[][..], Vec::as_slice) {
            [one] => matches!(g.nodes[*one as usize].op, Op::Collective { .. }) || places.contains_key(&x.first),
            _ => false,
        };
        if !travels {
            continue;
        }
        for (input, j) in x.inputs.iter().zip(0..) {
            let root = d.root[*input as usize];
            let is_alone = readers.get(&root).is_some_and(|nodes| nodes[..] == [k as u32]);
            if is_alone && is_apart(root) && is_reshaped(g, *input, root) {
                places.insert(root, (k as u32, j));
            }
        }
    }
    for at in 0..d.root.len() {
        while let Some((node, _)) = places.get(&d.root[at]) {
            d.root[at] = g.nodes[*node as usize].first;
        }
    }
    places
}
/// Does the kernel of an op write wherever its output begins, and nothing else? Others are copied; a kernel of Maps may have several outputs,
/// which do not lie in one buffer.
fn writes_anywhere(op: &Op) -> bool {
    matches!(op, Op::Matmul | Op::Reduce { .. })
}
/// The nodes that read each storage, once for each time they do; views that share it do not count.
fn readers(g: &Graph, d: &Decisions) -> HashMap<u32, Vec<u32>> {
    let mut readers: HashMap<u32, Vec<u32>> = HashMap::new();
    for (x, k) in g.nodes.iter().zip(0..) {
        for &i in &x.inputs {
            let root = d.root[i as usize];
            if !x.op.is_view() || d.root[x.first as usize] != root {
                readers.entry(root).or_default().push(k);
            }
        }
    }
    readers
}
/// Is it all of a storage, in other shapes at most?
fn is_reshaped(g: &Graph, mut v: u32, root: u32) -> bool {
    while v != root {
        let x = g.node_of(v);
        if !matches!(x.op, Op::View(View::Reshape(_))) {
            return false;
        }
        v = x.inputs[0];
    }
    true
}
/// The first element of a value that is made inside a joined one, from where that begins.
pub(super) fn offset(places: &JoinedPlaces, g: &Graph, mut v: u32) -> usize {
    let mut offset = 0;
    while let Some(&(node, j)) = places.get(&v) {
        let x = &g.nodes[node as usize];
        offset += x.inputs[..j as usize].iter().map(|&i| g.shape(i).elements()).sum::<usize>();
        v = x.first;
    }
    offset
}
