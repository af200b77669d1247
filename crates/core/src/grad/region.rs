//! Part of the tape: from some outputs back to chosen places and no further. What transforms differentiate by is an
//! [`alias`], a new place for a value, so that two derivatives by one value are told apart; a walk to it computes nothing
//! that does not lead there.
use super::{
    Grads, Root, Tape, TapeKind, TapeWalk, WalkState, hooks, pull,
    tape::{NEXT, Parent, Saved},
};
use crate::{Meta, Origin, Result, Tensor, hash::Folded, recycle::Shared};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::{
    collections::{BTreeMap, HashSet},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// Where a walk ends, and what leads there.
pub(crate) struct Region<'a> {
    ends: &'a [u64],
    /// the nodes by which an end is reached; `None`: all are walked
    leading: Option<HashSet<u64, Folded>>,
    /// Does something in it depend on what was on the tape before all of the ends?
    pub depends_on_older: bool,
}
impl<'a> Region<'a> {
    /// The whole tape.
    pub(super) const ALL: Region<'static> = Region { ends: &[], leading: None, depends_on_older: false };

    /// Up to some places, whatever leads elsewhere too.
    pub(super) fn until(ends: &'a [u64]) -> Region<'a> {
        Region { ends, leading: None, depends_on_older: false }
    }
    /// What leads from these outputs to the ends. Nodes that are older than all of these cannot.
    pub fn between<'t>(outputs: impl Iterator<Item = &'t Tensor>, ends: &'a [u64]) -> Region<'a> {
        let floor = ends.iter().copied().min().unwrap_or(0);
        let mut found: BTreeMap<u64, Shared<Tape>> = BTreeMap::new();
        let mut todo: Vec<Shared<Tape>> = outputs.filter_map(|t| t.tape().map(|(node, _)| node.clone())).collect();
        let mut depends_on_older = false;
        while let Some(node) = todo.pop() {
            if node.id < floor {
                depends_on_older = true;
                continue;
            }
            if found.contains_key(&node.id) {
                continue;
            }
            depends_on_older |= matches!(&node.kind, TapeKind::Checkpoint(redo) if redo.reads_parameters());
            for parent in &node.parents {
                match parent {
                    Parent::Node(parent, _) => todo.push(parent.clone()),
                    Parent::Leaf(id) => depends_on_older |= *id < floor,
                    Parent::None => {}
                }
            }
            found.insert(node.id, node);
        }
        let mut leading: HashSet<u64, Folded> = ends.iter().copied().collect();
        // Parents have smaller numbers.
        for (id, node) in &found {
            if node.parents.iter().any(|p| p.id().is_some_and(|p| leading.contains(&p))) {
                leading.insert(*id);
            }
        }
        Region { ends, leading: Some(leading), depends_on_older }
    }
    pub(super) fn ends_at(&self, id: u64) -> bool {
        self.ends.contains(&id)
    }
    /// Is a cotangent for this parent wanted?
    pub(super) fn wants(&self, parent: &Parent) -> bool {
        match &self.leading {
            None => parent.is_some(),
            Some(leading) => parent.id().is_some_and(|id| leading.contains(&id)),
        }
    }
    fn leads(&self, node: &Shared<Tape>) -> bool {
        self.leading.as_ref().is_none_or(|leading| leading.contains(&node.id))
    }
}

/// Nodes of the tape that are made from now on have this number or a greater one.
pub(crate) fn tape_mark() -> u64 {
    NEXT.load(Relaxed)
}
/// The same value at a new place of the tape, which leads on to its old one if `linked`.
#[track_caller]
pub(crate) fn alias(x: &Tensor, linked: bool) -> Tensor {
    let meta = x.meta();
    let parent = if linked { Parent::of(x) } else { Parent::None };
    let tape = Shared::new(Tape {
        id: NEXT.fetch_add(1, Relaxed),
        kind: TapeKind::Alias,
        parents: SmallVec::from_iter([parent]),
        metas: SmallVec::from_elem(meta, 1),
        outputs: SmallVec::from_elem(meta, 1),
        saved: Mutex::new(Some(Saved::default())),
        origin: Origin::here(),
        hooked: AtomicBool::new(false),
    });
    x.untaped().with_tape(Some((tape, 0)))
}
/// A value from outside as it stood on the tape before the number `mark`: without what code since has made a derivative by.
pub(crate) fn outside(t: &Tensor, mark: u64) -> Tensor {
    let meta: Meta = t.meta();
    let mut place = t.tape().cloned();
    while let Some((node, _)) = place.as_ref().filter(|(node, _)| node.id >= mark) {
        place = match &node.kind {
            TapeKind::Alias => node.parents.first().and_then(|parent| parent.place(meta, node.origin)),
            _ => None,
        };
    }
    t.untaped().with_tape(place)
}

/// Cotangents of the ends, where there are any. `graph` leaves them on the tape; without it and without `keep`, what the
/// walk has passed is released.
pub(crate) fn pull_to(roots: &[(&Tensor, Tensor)], region: &Region<'_>, graph: bool, keep: bool, here: Origin) -> Result<Vec<Option<Tensor>>> {
    let mut grads = Grads::default();
    let leading = roots.iter().filter_map(|(y, g)| {
        let (node, output) = y.tape()?;
        region.leads(node).then(|| -> Root { (node.clone(), *output, g.clone()) })
    });
    {
        let _state = WalkState::enter(graph);
        pull(leading, &mut grads, TapeWalk { keep: keep || graph, graph, floor: 0, is_whole: false }, region, here)?;
        hooks::run_at_ends(&mut grads, region.ends)?;
    }
    Ok(region.ends.iter().map(|end| grads.by_leaf.remove(end)).collect())
}
