//! Who holds the values of a window when it closes, and which of its inputs may be reused: with the structure, the key of
//! a plan. The lists live as long as the stream, so that a window that repeats allocates nothing.
use crate::{
    cell::CellWrite,
    hash::mix,
    op::Op,
    record::{Log, Record},
    recycle::Shared,
    value::Value,
};
use adamant_runtime::plan::{InputHold, Owner};
use std::sync::Arc;

/// Who holds what.
#[derive(Default)]
pub(crate) struct Owners {
    /// by slot
    pub of: Vec<Owner>,
    /// what becomes of each input, in their order
    pub inputs: Vec<InputHold>,
    /// Slots of several writes to one cell, of which each may be suppressed by itself: they are not written in place, where
    /// one kernel makes all of them or none.
    pub chained: Vec<u32>,
    /// by slot: how many cells it was the old value of; empty if of none
    old_of: Vec<u8>,
    /// Is a value of the window a deferred one, which is computed again?
    pub recomputes: bool,
    /// May a cell's old value be overwritten?
    in_place: bool,
    /// a hash of all of it
    pub key: u64,
}

/// A hash of numbers of two bits, taken 31 at a time. Where the last word ends is told by the bit before it.
struct Key {
    hash: u64,
    word: u64,
}
impl Key {
    fn new(seed: u64) -> Key {
        Key { hash: seed, word: 1 }
    }
    fn push(&mut self, bits: u64) {
        self.word = self.word << 2 | bits;
        if self.word >> 62 != 0 {
            *self = Key::new(mix(self.hash, self.word));
        }
    }
    fn end(self) -> u64 {
        mix(self.hash, self.word)
    }
}

impl Owners {
    /// Does nobody hold any of the values?
    pub fn nobody(&self) -> bool {
        self.of.iter().all(|h| *h == Owner::Nobody)
    }
    /// Looks at the first `cut` records of a window and at the values of their `slots`.
    pub fn look(log: &mut Log, cut: usize, slots: usize) {
        let Log { owners, records, values, writes, beside, epoch, device, .. } = log;
        if owners.recomputes {
            // One that the window alone holds needs no recipe any more, and what its recipe reads is held by one less.
            values.iter().rev().for_each(crate::value::forget_recipe);
            owners.recomputes = cut < records.len();
        }
        owners.in_place = device.backend().updates_in_place();
        let (records, open) = records.split_at(cut);
        // What the device may have to go back to.
        let olds = beside.iter().filter_map(|b| b.previous.slot(*epoch).filter(|s| (*s as usize) < slots && b.previous.is_to_run()));
        owners.look_at(records, open, &values[..slots], writes, *epoch, olds);
    }
    fn look_at(&mut self, records: &[Record], open: &[Record], values: &[Shared<Value>], writes: &[CellWrite], epoch: u32, olds: impl Iterator<Item = u32>) {
        let slots = values.len();
        self.of.clear();
        self.of.extend(values.iter().map(|v| match crate::value::reference_counts(v) {
            // One of the users is the window.
            (0 | 1, 0) => Owner::Nobody,
            // Whoever keeps it has the recipe.
            (0 | 1, _) if v.is_deferred() => Owner::Nobody,
            (0 | 1, _) => Owner::Tape,
            _ => Owner::User,
        }));
        self.chained.clear();
        self.old_of.clear();
        if !writes.is_empty() {
            self.look_at_writes(records, values, writes, epoch);
        }
        olds.for_each(|slot| self.of[slot as usize] = Owner::User);
        // What the records that stay open read must be there for them.
        for &i in open.iter().flat_map(|r| &r.inputs) {
            if (i as usize) < slots {
                self.of[i as usize] = Owner::User;
            }
        }
        self.inputs.clear();
        let mut key = Key::new(records.len() as u64);
        for r in records.iter().filter(|r| matches!(r.op, Op::Input)) {
            let hold = self.input(r.first as usize, &values[r.first as usize]);
            self.inputs.push(hold);
            key.push(hold as u64);
        }
        for &owner in &self.of {
            key.push(owner as u64);
        }
        self.key = self.chained.iter().fold(key.end(), |key, &slot| mix(key, 0xC4A1 ^ (slot as u64) << 20));
    }
    fn input(&self, slot: usize, value: &Value) -> InputHold {
        if self.of[slot] != Owner::Nobody
            || !value.stored().is_some_and(|s| Arc::strong_count(&s.buffer) == 1 && s.offset == 0 && s.is_dense(&value.meta.shape))
        {
            return InputHold::Held;
        }
        match self.old_of.get(slot) {
            None | Some(0) => InputHold::Free,
            Some(_) if self.in_place => InputHold::OldCell,
            Some(_) => InputHold::Held,
        }
    }
    // Apart, so that the common case keeps its registers.
    #[inline(never)]
    fn look_at_writes(&mut self, records: &[Record], values: &[Shared<Value>], writes: &[CellWrite], epoch: u32) {
        let slots = values.len();
        // The old values of cells: an undo list refers to them too, which is nobody.
        for w in writes {
            if let Some(slot) = w.previous.slot(epoch).map(|s| s as usize).filter(|s| *s < slots) {
                self.old_of.resize(slots, 0);
                self.old_of[slot] += 1;
                if self.of[slot] == Owner::Tape && matches!(crate::value::reference_counts(&values[slot]), (0 | 1, kept) if kept <= self.old_of[slot] as u32) {
                    self.of[slot] = Owner::Nobody;
                }
            }
        }
        // A write that may yet be suppressed gives its cell back what it replaced.
        let mut faults = None;
        for w in writes {
            // A value that this window computes and that a later write replaces in its cell.
            let Some(old) = w.previous.slot(epoch).filter(|s| (*s as usize) < slots && w.previous.is_to_run()) else { continue };
            if w.slot as usize >= slots || *faults.get_or_insert_with(|| may_fault(records, values)) {
                self.of[old as usize] = Owner::User;
                self.chained.extend([old, w.slot]);
            }
        }
    }
}
/// Which records run: those with an effect, those somebody holds a value of or a cell is written with, and those they read.
pub(crate) fn needed(records: &[Record], of: &[Owner], written: impl Iterator<Item = u32>) -> Vec<bool> {
    let mut values: Vec<bool> = of.iter().map(|h| *h != Owner::Nobody).collect();
    for slot in written {
        if let Some(needed) = values.get_mut(slot as usize) {
            *needed = true;
        }
    }
    let mut out = vec![false; records.len()];
    for (k, r) in records.iter().enumerate().rev() {
        out[k] = r.op.is_effect() || values[r.first as usize..][..r.outputs as usize].contains(&true);
        if out[k] {
            for &i in &r.inputs {
                values[i as usize] = true;
            }
        }
    }
    out
}
/// Can a fault be found while these records run? What a composite's body does is not known here.
fn may_fault(records: &[Record], values: &[Shared<Value>]) -> bool {
    records.iter().any(|r| match &r.op {
        Op::Input => values[r.first as usize].stored().is_some_and(|s| !s.is_clean()),
        Op::Binary(f) | Op::BinaryScalar(f, _) => r.inputs.first().is_some_and(|&i| f.can_fault(values[i as usize].meta.dtype)),
        Op::Composite(_) => true,
        op => op.can_fault(),
    })
}
