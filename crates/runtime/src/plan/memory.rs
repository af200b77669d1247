//! Which memory each value of a plan gets: that of an operand which ends where the value is made, or new. A cell's new value gets the
//! memory of its old one where that may be overwritten. Must not know: sizes, devices.
use super::{CellSlots, Decisions, Graph, InputHold, NONE, Own, PlanStep, PlanStorage, Space, Use};
use crate::{
    Op,
    kernel::KernelKind,
    planted::{Plant, is},
};

/// Moves steps that write cells, and whose results no step reads, behind all others: by then everybody has read what the cells held, and
/// its memory may be the new values'.
pub(super) fn overwrite_last(g: &Graph, d: &Decisions, steps: &mut Vec<PlanStep>) {
    let mut touched = vec![false; g.vals.len()];
    let mut is_last = vec![false; steps.len()];
    for (s, is_last) in steps.iter().zip(&mut is_last).rev() {
        let memories = |uses: &[Use]| -> Vec<usize> { uses.iter().map(|u| d.root[u.value(g) as usize] as usize).collect() };
        let (written, read) = (memories(&s.outputs), memories(&s.inputs));
        *is_last = s.commits && matches!(s.kernel.kind, KernelKind::Map { .. }) && !written.iter().any(|m| touched[*m]);
        written.into_iter().chain(read).for_each(|m| touched[m] = true);
    }
    let (last, first): (Vec<_>, Vec<_>) = steps.drain(..).zip(is_last).partition(|(_, is_last)| *is_last);
    steps.extend(first.into_iter().chain(last).map(|(step, _)| step));
}

/// What an input may not be overwritten before.
#[derive(Clone, Copy)]
pub(super) struct OverwriteOrder {
    pub faultable: bool,
    pub exchanges: bool,
    pub late: usize,
    pub asks_until: usize,
}
pub(super) struct MemoryPlan<'a> {
    g: &'a Graph,
    pub storage: Vec<PlanStorage>,
    pub own: Vec<Own>,
    /// last step that touches each root, and the first
    last: Vec<u32>,
    first: Vec<u32>,
    escapes: Vec<bool>,
    /// by root: the input that is the old value of the cell it goes to
    home: Vec<u32>,
}
impl<'a> MemoryPlan<'a> {
    pub fn new(g: &'a Graph, d: &Decisions, steps: &[PlanStep], writes: &[CellSlots]) -> MemoryPlan<'a> {
        let n = g.vals.len();
        let (mut first, mut last) = (vec![NONE; n], vec![0u32; n]);
        for (at, s) in steps.iter().enumerate() {
            for u in s.inputs.iter().chain(&s.outputs) {
                let r = d.root[u.value(g) as usize] as usize;
                first[r] = first[r].min(at as u32);
                last[r] = last[r].max(at as u32);
            }
        }
        let mut escapes = vec![false; n];
        for v in 0..n {
            if d.kept[v] {
                escapes[d.root[v] as usize] = true;
            }
        }
        let mut storage = vec![PlanStorage::None; n];
        for (k, (v, _)) in g.inputs.iter().enumerate() {
            storage[*v as usize] = PlanStorage::Input(k as u32);
        }
        let mut home = vec![NONE; n];
        for w in writes {
            let input = w.old.and_then(|old| g.inputs.iter().position(|(v, _)| *v == g.of_slot[old as usize]));
            if let Some(input) = input {
                home[d.root[g.of_slot[w.new as usize] as usize] as usize] = input as u32;
            }
        }
        MemoryPlan { g, storage, own: Vec::new(), last, first, escapes, home }
    }
    /// Gives every root that a step writes its memory: that of an operand that ends here where possible, else new.
    pub fn assign(&mut self, d: &Decisions, steps: &[PlanStep], holds: &[InputHold], order: OverwriteOrder) {
        let mut taken = vec![false; self.g.inputs.len()];
        for (at, s) in steps.iter().enumerate() {
            for (k, out) in s.outputs.iter().enumerate() {
                let o = d.root[out.value(self.g) as usize] as usize;
                if self.storage[o] != PlanStorage::None {
                    continue;
                }
                let donor = self.donor(d, s, k, at, o, holds, &taken, order);
                match donor {
                    Some(PlanStorage::Own(m)) => {
                        let m_at = m as usize;
                        self.own[m_at].last = self.own[m_at].last.max(self.last[o]);
                        self.own[m_at].escapes |= self.escapes[o];
                        self.storage[o] = PlanStorage::Own(m);
                    }
                    Some(PlanStorage::Input(i)) => {
                        taken[i as usize] = true;
                        self.storage[o] = PlanStorage::Own(self.own.len() as u32);
                        // From now on the input's own readers find it there as well.
                        self.own.push(Own { value: o as u32, first: self.first[o], last: self.last[o], escapes: self.escapes[o], taken: Some(i) });
                    }
                    _ => {
                        self.storage[o] = PlanStorage::Own(self.own.len() as u32);
                        self.own.push(Own { value: o as u32, first: self.first[o], last: self.last[o], escapes: self.escapes[o], taken: None });
                    }
                }
            }
        }
        // What is kept but no step writes (a view of an input) needs nothing.
        for v in 0..self.g.vals.len() {
            let r = d.root[v] as usize;
            if r != v {
                self.storage[v] = self.storage[r];
            }
        }
    }
    /// The memory of an operand that ends with this step and lies exactly where the output will: for a cell's new value that of
    /// its old one, if it can be had, and for no other output of the step.
    #[allow(clippy::too_many_arguments)]
    fn donor(
        &self,
        d: &Decisions,
        s: &PlanStep,
        k: usize,
        at: usize,
        o: usize,
        holds: &[InputHold],
        taken: &[bool],
        order: OverwriteOrder,
    ) -> Option<PlanStorage> {
        let home = |o: usize| PlanStorage::Input(self.home[o]);
        let donor = |is_meant: &dyn Fn(PlanStorage) -> bool| self.donor_among(d, s, k, at, o, holds, taken, order, is_meant);
        if self.home[o] != NONE
            && let Some(own) = donor(&|storage| storage == home(o))
        {
            return Some(own);
        }
        let others = || s.outputs.iter().map(|p| d.root[p.value(self.g) as usize] as usize).filter(|p| *p != o);
        donor(&|storage| !others().any(|p| self.home[p] != NONE && storage == home(p)))
    }
    #[allow(clippy::too_many_arguments)]
    fn donor_among(
        &self,
        d: &Decisions,
        s: &PlanStep,
        k: usize,
        at: usize,
        o: usize,
        holds: &[InputHold],
        taken: &[bool],
        OverwriteOrder { faultable, exchanges, late, asks_until }: OverwriteOrder,
        is_meant: &dyn Fn(PlanStorage) -> bool,
    ) -> Option<PlanStorage> {
        let g = self.g;
        // A product adds to what is there.
        let added = matches!(&s.kernel.kind, KernelKind::Product(p) if p.accumulate);
        let element_wise = added || matches!(s.kernel.kind, KernelKind::Map { .. });
        // The whole-tensor copy before an update or a scatter vanishes if the destination may be taken over.
        let whole_copy = matches!(s.kernel.kind, KernelKind::Copy)
            && matches!(g.nodes[s.node as usize].op, Op::UpdateSlice { .. } | Op::Scatter { .. })
            && matches!(s.outputs[0], Use::Whole(_));
        if !element_wise && !whole_copy {
            return None;
        }
        let out_meta = &g.vals[o].meta;
        let first = if added { s.inputs.len().saturating_sub(1) } else { 0 };
        for u in &s.inputs[first..] {
            let (Use::Whole(v) | Use::Broadcast(v)) = *u else { continue };
            // A random key: every element reads all of it.
            if element_wise && matches!(u, Use::Whole(_)) {
                continue;
            }
            let r = d.root[v as usize] as usize;
            if !is_meant(self.storage[r]) {
                continue;
            }
            let m = &g.vals[v as usize].meta;
            // The very tensor, not a view of it with other strides; equal shapes by construction of the space.
            if r != v as usize
                || m.dtype != out_meta.dtype
                || !same_space(g, s, v, o as u32)
                || !g.dense[v as usize]
                || (d.pinned[r] && !is(Plant::PinnedDonated))
                || d.constant[v as usize].is_some()
            {
                continue;
            }
            // Read through another view in the same step: an element would be overwritten before it is read.
            if s.inputs.iter().any(|w| w != u && d.root[w.value(g) as usize] as usize == r) {
                continue;
            }
            if (self.last[r] != at as u32 && !is(Plant::LostDonationCheck)) || self.escapes[r] {
                continue;
            }
            // One output per donor.
            if s.outputs[..k].iter().any(|p| self.storage[d.root[p.value(g) as usize] as usize] == self.storage[r] && self.storage[r] != PlanStorage::None) {
                continue;
            }
            match self.storage[r] {
                PlanStorage::Own(m) => return Some(PlanStorage::Own(m)),
                PlanStorage::Input(i) if !taken[i as usize] && (at >= asks_until || whole_copy) => match holds.get(i as usize) {
                    Some(InputHold::Held) if is(Plant::HeldInputDonated) => return Some(PlanStorage::Input(i)),
                    Some(InputHold::Free) if !faultable || whole_copy || at >= late => return Some(PlanStorage::Input(i)),
                    Some(InputHold::OldCell) if at >= late || (!faultable && !exchanges && whole_copy) => return Some(PlanStorage::Input(i)),
                    _ => continue,
                },
                _ => continue,
            }
        }
        None
    }
}
fn same_space(g: &Graph, s: &PlanStep, v: u32, o: u32) -> bool {
    match s.space {
        Space::Of(space) => g.shape(v) == g.shape(space) && g.shape(o) == g.shape(space),
        Space::Pad(_) => false,
    }
}
