//! Makes a failing program small: what can go goes, as long as it still fails.
use super::{
    check,
    coverage::Layout,
    program::{NodeKind, RandomProgram, Ref},
};
use crate::data::Spread;
use adamant_core::Device;

/// The smallest program found that still fails, and how it fails.
pub(super) fn shrink(device: Device, program: RandomProgram, window: usize, what: String) -> (RandomProgram, String) {
    let (mut best, mut what) = (program, what);
    let mut tries = 600;
    loop {
        let mut smaller = None;
        for candidate in candidates(&best) {
            if tries == 0 {
                return (best, what);
            }
            tries -= 1;
            if let Err(why) = check(device, &candidate, window) {
                smaller = Some((candidate, why));
                break;
            }
        }
        match smaller {
            Some((p, why)) => (best, what) = (p, why),
            None => return (best, what),
        }
    }
}
/// Programs that are a little less than this one.
fn candidates(p: &RandomProgram) -> Vec<RandomProgram> {
    let mut out = Vec::new();
    let mut with = |f: &dyn Fn(&mut RandomProgram)| {
        let mut q = p.clone();
        f(&mut q);
        out.push(without_dead(q));
    };
    if !p.loss.is_empty() {
        with(&|q| q.loss.clear());
        if p.loss.len() > 1 {
            for k in 0..p.loss.len() {
                with(&|q| {
                    q.loss.remove(k);
                });
            }
        }
    }
    if p.second_order {
        with(&|q| q.second_order = false);
    }
    for k in 0..p.writes.len() {
        with(&|q| {
            q.writes.remove(k);
        });
    }
    if p.rounds > 1 {
        with(&|q| q.rounds -= 1);
    }
    for k in (0..p.nodes.len()).rev() {
        let n = &p.nodes[k];
        if n.held {
            with(&|q| q.nodes[k].held = false);
        }
        if n.read_now {
            with(&|q| q.nodes[k].read_now = false);
        }
        if !matches!(n.kind, NodeKind::Leaf { .. }) && n.metas.len() == 1 && n.metas[0].1.computes() {
            with(&|q| {
                q.nodes[k].kind = NodeKind::Leaf { spread: Spread::Coarse, tracked: false, fresh: true };
                q.nodes[k].inputs.clear();
                q.nodes[k].layout = Layout::Dense;
            });
        }
        match n.kind {
            NodeKind::Leaf { tracked: true, .. } => with(&|q| {
                if let NodeKind::Leaf { tracked, .. } = &mut q.nodes[k].kind {
                    *tracked = false;
                }
            }),
            NodeKind::Leaf { fresh: true, .. } => with(&|q| {
                if let NodeKind::Leaf { fresh, .. } = &mut q.nodes[k].kind {
                    *fresh = false;
                }
            }),
            NodeKind::Leaf { spread: Spread::Special, .. } => with(&|q| {
                if let NodeKind::Leaf { spread, .. } = &mut q.nodes[k].kind {
                    *spread = Spread::Coarse;
                }
            }),
            _ => {}
        }
    }
    out
}
/// Without the lines nobody reads.
fn without_dead(mut p: RandomProgram) -> RandomProgram {
    let mut live = vec![false; p.nodes.len()];
    for r in p.loss.iter().chain(p.writes.iter().map(|(_, r)| r)) {
        live[r.node] = true;
    }
    for k in (0..p.nodes.len()).rev() {
        live[k] |= p.nodes[k].held || p.nodes[k].read_now;
        if live[k] {
            for r in p.nodes[k].inputs.clone() {
                live[r.node] = true;
            }
        }
    }
    let mut new = vec![usize::MAX; p.nodes.len()];
    let mut at = 0;
    for k in 0..p.nodes.len() {
        if live[k] {
            new[k] = at;
            at += 1;
        }
    }
    let mut k = 0;
    p.nodes.retain(|_| {
        k += 1;
        live[k - 1]
    });
    let moved = |r: &mut Ref| r.node = new[r.node];
    p.nodes.iter_mut().flat_map(|n| n.inputs.iter_mut()).for_each(moved);
    p.loss.iter_mut().for_each(moved);
    p.writes.iter_mut().for_each(|(_, r)| r.node = new[r.node]);
    p
}
