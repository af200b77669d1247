//! Small ops that are always read before anything else is recorded. A window gives such an op nothing to be fused with,
//! so once that has been seen often enough it runs as it is applied, by the plan that its windows had, and no window is
//! opened. The first result that goes into another op unread shows that the guess was wrong: the op is recorded again as
//! every other, until it has been read alone anew. What is computed is the same either way; only how long a result waits
//! for its reader changes.
//!
//! A place of the table holds one kind of op: the op, the metas of its inputs and which of them are the same value. That
//! tells its result's meta too, so for a known kind nothing is inferred.
use super::{Log, Record, RecordingStream, Stream, context, word};
use crate::{
    Arg, Meta, Op, Scalar, Tensor,
    error::Origin,
    hash::mix,
    recycle::Shared,
    schedule::{self, Direct, Recorded, watch},
    value::Value,
};
use smallvec::SmallVec;
use std::{
    cell::{Cell, RefCell},
    sync::atomic::Ordering::Relaxed,
};

/// So many times in a row an op is read alone before it runs ahead.
const SEEN: u8 = 8;
/// The most bytes of a result that is made ahead: of a larger one, memory and arithmetic outweigh the window.
const LARGEST: usize = 4096;
const PLACES: usize = 16;

/// What a thread knows about ops that are read alone.
#[derive(Default)]
pub(crate) struct Ahead {
    kinds: RefCell<[OpKind; PLACES]>,
    /// how many of the kinds run ahead
    ready: Cell<u32>,
    /// The mark of the result made ahead last, which nobody has read yet as far as is known, and its place; 0: none.
    unread: Cell<(u32, usize)>,
    marks: Cell<u32>,
}
#[derive(Default)]
struct OpKind {
    key: (u64, u64),
    /// how often it was read alone since it was last used unread
    seen: u8,
    known: Option<Box<Known>>,
}
/// How a kind is run.
struct Known {
    direct: Direct,
    /// the window it was recorded in, whose last argument is the call's
    records: Vec<Record>,
    /// which operand each input of the plan is
    operands: SmallVec<[u8; 4]>,
    meta: Meta,
    generation: u32,
}

/// Can the metas of such an op's inputs tell its result's?
fn is_told_by_inputs(op: &Op) -> bool {
    matches!(op, Op::Unary(_) | Op::Binary(_) | Op::BinaryScalar(..) | Op::Select | Op::Matmul | Op::Reduce { .. })
}
/// The key of an op on values that lie row-major without gaps; `None`: one of them does not.
fn key<'a>(op: &Op, arg: Arg, inputs: impl Iterator<Item = &'a Shared<Value>> + Clone) -> Option<(u64, u64)> {
    let kind = matches!(arg, Arg::Scalar(Scalar::Int(_))) as u64;
    let (mut structure, mut sizes) = (mix(op.structure(), kind), 0);
    for (k, v) in inputs.clone().enumerate() {
        if !v.is_dense() {
            return None;
        }
        let same = inputs.clone().take(k).position(|before| before.is_same(v)).map_or(0, |at| at as u64 + 1);
        structure = mix(structure, word(&v.meta) | same << 32 | u64::from(v.meta.device.index()) << 40);
        sizes = mix(sizes, v.meta.shape.hash());
    }
    Some((structure, sizes))
}
fn place((structure, sizes): (u64, u64)) -> usize {
    (structure ^ sizes) as usize % PLACES
}

impl Ahead {
    /// The result made ahead last goes into another op. Unless it was read meanwhile, the guess was wrong.
    pub fn judge(&self, inputs: &[&Tensor]) {
        let (mark, at) = self.unread.get();
        if mark != 0 {
            self.unread.set((0, 0));
            if inputs.iter().any(|t| t.value().mark() == mark) {
                self.forget(at);
            }
        }
    }
    #[cold]
    fn forget(&self, at: usize) {
        let kind = &mut self.kinds.borrow_mut()[at];
        kind.seen = 0;
        if kind.known.take().is_some() {
            self.ready.set(self.ready.get() - 1);
        }
    }
    /// A window of one kernel and one result has run; `direct` makes its plan the kind's own.
    pub fn learn(&self, log: &Log, direct: impl FnOnce() -> Direct) {
        let Some((last, inputs)) = log.records.split_last() else { return };
        let alone = inputs.len() <= 3 && inputs.iter().all(|r| matches!(r.op, Op::Input));
        let [value] = &log.values[last.first as usize..] else { return };
        if !alone || !is_told_by_inputs(&last.op) || value.meta.bytes() > LARGEST {
            return;
        }
        let Some(key) = key(&last.op, last.arg, last.inputs.iter().map(|&slot| &log.values[slot as usize])) else { return };
        let kind = &mut self.kinds.borrow_mut()[place(key)];
        if kind.key != key {
            if kind.known.is_some() {
                self.ready.set(self.ready.get() - 1);
            }
            *kind = OpKind { key, ..OpKind::default() };
        }
        kind.seen = kind.seen.saturating_add(1);
        if kind.seen < SEEN || kind.known.is_some() {
            return;
        }
        let direct = direct();
        let operand = |slot: u32| last.inputs.iter().position(|&i| i == slot).map(|k| k as u8);
        let Some(operands) = direct.slots().map(|slot| operand(slot?)).collect() else { return };
        let (records, generation) = (log.records.clone(), log.device.generation());
        kind.known = Some(Box::new(Known { direct, records, operands, meta: value.meta, generation }));
        self.ready.set(self.ready.get() + 1);
    }
}

/// Has this thread's own window no records?
fn is_closed(stream: &Stream) -> bool {
    if !stream.may_be_open.load(Relaxed) {
        return true;
    }
    // Whoever read it last may have been another thread.
    let log = stream.log.lock();
    let is_closed = log.records.is_empty();
    stream.may_be_open.store(!is_closed, Relaxed);
    is_closed
}
/// Runs an op at once, if it is of a kind that is always read alone and no window is open. `None`: it is to be recorded,
/// also where it could not be run, so that its reader learns why.
pub(crate) fn run(op: &Op, arg: Arg, inputs: &[&Tensor], origin: Origin) -> Option<Shared<Value>> {
    context(|c| {
        let ahead = &c.ahead;
        ahead.judge(inputs);
        if ahead.ready.get() == 0 || !is_told_by_inputs(op) || c.eager.get() || c.hold.get() != 0 || c.steps.get() != 0 {
            return None;
        }
        let key = key(op, arg, inputs.iter().map(|t| t.value()))?;
        let at = place(key);
        let mut kinds = ahead.kinds.try_borrow_mut().ok()?;
        let kind = &mut kinds[at];
        let known = kind.known.as_mut().filter(|_| kind.key == key)?;
        let device = known.meta.device;
        let RecordingStream::Thread(stream) = c.stream(device) else { return None };
        if known.generation != device.generation() || !is_closed(stream) {
            return None;
        }
        let _watched = watch::flush(known.records.len());
        known.records.last_mut()?.arg = arg;
        // A kind has three operands at most.
        let mut stored = [inputs.first()?.value().stored()?; 3];
        for (place, &k) in stored.iter_mut().zip(&known.operands) {
            *place = inputs.get(k as usize)?.value().stored()?;
        }
        let stored = stored.get(..known.operands.len())?;
        schedule::count(|s| {
            s.flushes += 1;
            s.hits += 1;
        });
        let result = known.direct.run(device, stored, &Recorded { records: &known.records, origin: &|_| origin, writes: &Vec::new }).ok()?;
        let mark = ahead.marks.get().wrapping_add(1).max(1);
        ahead.marks.set(mark);
        ahead.unread.set((mark, at));
        Some(Value::made_ahead(known.meta, origin, stream.id, result, mark))
    })
}
