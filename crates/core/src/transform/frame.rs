//! Frames: one for each transform that is at work on this thread, the innermost on top. A frame knows, of the values that
//! the code inside it sees, what stands for them below: of a differentiated value its tangent, of one example's value the
//! stack of all examples'. An op applied inside is interpreted by the innermost frame; what that applies goes to the frame
//! beneath, and beneath the last one it is recorded. Must not know any rule.
//!
//! Each level has its own place on the tape: a handle inside carries that of the code inside, the frame keeps that of
//! the code around it. So a gradient taken inside and one taken around do not meet.
use crate::{
    Arg, Error, ErrorKind, Meta, Op, Origin, Result, Tensor,
    composite::{InTensors, Keyed},
    grad::{Tape, outside, tape_mark},
    hash::Folded,
    primitive::{Dual, ExampleAxis, MaybeBatched},
    record::context,
    recycle::Shared,
    schedule::no_buffer,
    scope,
    value::{Kept, Stored, Value},
};
use adamant_runtime::Metas;
use smallvec::{SmallVec, smallvec};
use std::{
    cell::{Cell, Ref, RefCell},
    collections::HashMap,
    rc::Rc,
};

use super::{batch, jvp};

/// What a frame does.
#[derive(Clone, Copy)]
pub(super) enum LevelKind {
    /// carries tangents along
    Forward,
    /// runs all examples at once
    ExampleAxis(ExampleAxis),
}
/// A frame and the one beneath it.
pub(super) struct Level {
    pub kind: LevelKind,
    below: Option<Rc<Level>>,
    /// how many are beneath it
    depth: usize,
    /// what is on the tape from this number on was noted inside
    mark: u64,
    /// Is something of what it keeps on the tape of the code around it?
    tracked: Cell<bool>,
    entries: RefCell<HashMap<u64, KnownValue, Folded>>,
    /// what cells were written that only these examples see, by the cell's number
    cells: RefCell<HashMap<u64, Tensor>>,
    /// what cells held on the level beneath before all examples wrote them alike, where they may still write them apart
    before: RefCell<HashMap<u64, Tensor>>,
    applied: Cell<usize>,
    nowhere: RefCell<Option<Stored>>,
}
/// What a frame knows of a value.
struct KnownValue {
    value: Kept,
    below: Below,
    more: More,
}
/// What stands for a value on the level beneath.
enum Below {
    /// the same value, at this place of the tape
    Same(Option<(Shared<Tape>, u8)>),
    /// another one
    Other(HeldTensor),
}
enum More {
    Nothing,
    Tangent(HeldTensor),
    Batched,
}
/// A tensor that counts as held by somebody only while the value that it stands for is.
struct HeldTensor {
    value: Handle,
    tape: Option<(Shared<Tape>, u8)>,
}
enum Handle {
    User(Shared<Value>),
    Kept(Kept),
}
impl HeldTensor {
    fn new(t: &Tensor) -> HeldTensor {
        HeldTensor { value: Handle::User(t.value().clone()), tape: t.tape().cloned() }
    }
    fn tensor(&self) -> Tensor {
        let value = match &self.value {
            Handle::User(value) => value.clone(),
            Handle::Kept(kept) => (**kept).clone(),
        };
        Tensor::from_value(value).with_tape(self.tape.clone())
    }
    fn hold(&mut self, as_user: bool) {
        match (&self.value, as_user) {
            (Handle::User(value), false) => self.value = Handle::Kept(Kept::new(value)),
            (Handle::Kept(kept), true) => self.value = Handle::User((**kept).clone()),
            _ => {}
        }
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Level>>> = const { RefCell::new(None) };
    /// Is there one? Asked at every op.
    static ANY: Cell<bool> = const { Cell::new(false) };
    /// Frames with fewer beneath them carry no tangents: code inside says that it wants none.
    static CUT: Cell<usize> = const { Cell::new(0) };
}
/// Every so many ops, what nobody can name any more is let go of.
const SWEEP: usize = 32;

/// Is a transform at work on this thread?
pub(crate) fn any() -> bool {
    ANY.with(Cell::get)
}
fn current() -> Option<Rc<Level>> {
    if !any() {
        return None;
    }
    CURRENT.try_with(|c| c.borrow().clone()).ok().flatten()
}
/// Those of this thread, from the innermost outwards.
fn frames() -> impl Iterator<Item = Rc<Level>> {
    std::iter::successors(current(), |frame| frame.below.clone())
}
/// Runs `f` with this frame on top.
fn at<R>(frame: Option<Rc<Level>>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<Rc<Level>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let _gone = swap(self.0.take());
        }
    }
    fn swap(frame: Option<Rc<Level>>) -> Option<Rc<Level>> {
        ANY.with(|any| any.set(frame.is_some()));
        CURRENT.try_with(|c| c.replace(frame)).ok().flatten()
    }
    let _restore = Restore(swap(frame));
    f()
}
/// Runs `f` as if no transform were at work.
pub(crate) fn apart<R>(f: impl FnOnce() -> R) -> R {
    if any() { at(None, f) } else { f() }
}
/// Runs `f` with tangents of the transforms around it carried along or not.
pub(crate) fn with_tangents<R>(on: bool, f: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            CUT.with(|cut| cut.set(self.0));
        }
    }
    let depth = if on || !any() { 0 } else { current().map_or(0, |frame| frame.depth + 1) };
    // Nearly always there is no transform, and nothing to be put back.
    let _restore = (CUT.with(Cell::get) != depth).then(|| Restore(CUT.with(|cut| cut.replace(depth))));
    f()
}
/// Is something of what the transforms around this code keep on the tape of the code around them?
pub(super) fn is_tracked_below() -> bool {
    frames().any(|frame| frame.tracked.get())
}

/// A frame on top of those that are there, for as long as [`LevelGuard::run`] runs.
pub(super) struct LevelGuard(Rc<Level>);
impl LevelGuard {
    pub fn new(kind: LevelKind) -> LevelGuard {
        let below = current();
        let depth = below.as_ref().map_or(0, |b| b.depth + 1);
        LevelGuard(Rc::new(Level {
            kind,
            below,
            depth,
            mark: tape_mark(),
            tracked: Cell::new(false),
            entries: RefCell::default(),
            cells: RefCell::default(),
            before: RefCell::default(),
            applied: Cell::new(0),
            nowhere: RefCell::new(None),
        }))
    }
    /// What the code inside sees of a value with a tangent: the value under another identity.
    pub fn dual(&self, primal: &Tensor, tangent: Option<Tensor>) -> Tensor {
        let fresh = Tensor::apply(Op::View(crate::op::View::Reshape(primal.meta().shape)), Arg::None, &[primal]);
        if fresh.error().is_some() {
            return fresh;
        }
        self.0.keep_dual(Dual { primal: fresh.clone(), tangent });
        fresh.untaped()
    }
    /// What the code inside sees of one example of a stack.
    pub fn lane(&self, stacked: &Tensor, meta: Meta) -> Tensor {
        Tensor::from_value(self.0.keep_lane(&MaybeBatched { tensor: stacked.clone(), batched: true }, meta))
    }
    /// Runs code inside.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        at(Some(self.0.clone()), f)
    }
    /// What stands for a value on the level around, and its tangent.
    pub fn to_dual(&self, t: &Tensor) -> Dual {
        self.0.dual_of(t)
    }
    /// What stands for a value on the level around.
    pub fn to_lane(&self, t: &Tensor) -> MaybeBatched {
        self.0.lane_of(t)
    }
}

impl Level {
    fn keep(&self, value: &Shared<Value>, below: Below, more: More) {
        let entry = KnownValue { value: Kept::new(value), below, more };
        let _before = self.entries.borrow_mut().insert(value.address(), entry);
    }
    fn note(&self, t: &Tensor) {
        if t.is_tracked() {
            self.tracked.set(true);
        }
    }
    fn keep_dual(&self, dual: Dual) {
        self.note(&dual.primal);
        let more = match &dual.tangent {
            None if !dual.primal.is_tracked() => return,
            None => More::Nothing,
            Some(tangent) => {
                self.note(tangent);
                More::Tangent(HeldTensor::new(tangent))
            }
        };
        self.keep(dual.primal.value(), Below::Same(dual.primal.tape().cloned()), more);
    }
    /// The value that one example has inside.
    fn keep_lane(&self, lane: &MaybeBatched, meta: Meta) -> Shared<Value> {
        self.note(&lane.tensor);
        if !lane.batched {
            if lane.tensor.is_tracked() {
                self.keep(lane.tensor.value(), Below::Same(lane.tensor.tape().cloned()), More::Nothing);
            }
            return lane.tensor.value().clone();
        }
        let stored = self.nowhere.borrow().as_ref().filter(|s| s.buffer.device() == meta.device).cloned();
        let stored = stored.unwrap_or_else(|| {
            let stored = no_buffer(meta);
            *self.nowhere.borrow_mut() = Some(stored.clone());
            stored
        });
        let value = crate::record::ready(meta, Origin::here(), stored);
        self.keep(&value, Below::Other(HeldTensor::new(&lane.tensor)), More::Batched);
        value
    }
    /// What is known of a value.
    fn known(&self, value: &Shared<Value>) -> Option<Ref<'_, KnownValue>> {
        Ref::filter_map(self.entries.borrow(), |all| all.get(&value.address()).filter(|e| e.value.is_same(value))).ok()
    }
    /// What stands for a value beneath, and what else is known of it.
    fn find<R>(&self, t: &Tensor, of: impl Fn(Tensor, Option<&More>) -> R) -> R {
        match self.known(t.value()).as_deref() {
            None => of(outside(t, self.mark), None),
            Some(KnownValue { below: Below::Same(tape), more, .. }) => of(t.untaped().with_tape(tape.clone()), Some(more)),
            Some(KnownValue { below: Below::Other(held), more, .. }) => of(held.tensor(), Some(more)),
        }
    }
    fn dual_of(&self, t: &Tensor) -> Dual {
        if t.error().is_some() {
            return Dual { primal: t.untaped(), tangent: None };
        }
        self.find(t, |primal, more| Dual { primal, tangent: if let Some(More::Tangent(held)) = more { Some(held.tensor()) } else { None } })
    }
    fn lane_of(&self, t: &Tensor) -> MaybeBatched {
        if t.error().is_some() {
            return MaybeBatched { tensor: t.untaped(), batched: false };
        }
        self.find(t, |tensor, more| MaybeBatched { tensor, batched: matches!(more, Some(More::Batched)) })
    }
    fn is_batched(&self, value: &Shared<Value>) -> bool {
        self.known(value).is_some_and(|e| matches!(e.more, More::Batched))
    }
    /// Applies a composite that has no rule here by its body, op by op in this frame.
    fn by_body(&self, c: &Keyed, inputs: &[&Tensor]) -> Result<Values> {
        let inside: Vec<Tensor> = inputs.iter().map(|t| if self.known(t.value()).is_some() { t.untaped() } else { outside(t, self.mark) }).collect();
        Ok(whole(c.body(&inside)?)?.into_iter().map(|t| t.value().clone()).collect())
    }
    /// Lets go of what nobody can name any more. What only a tape remembers is held as a tape holds it.
    fn sweep(&self) {
        let mut gone: Vec<KnownValue> = Vec::new();
        let mut entries = self.entries.borrow_mut();
        let dead: Vec<u64> = entries
            .iter_mut()
            .filter_map(|(at, e)| {
                let (users, kept) = crate::value::reference_counts(&e.value);
                if users == 0 && kept <= 1 {
                    return Some(*at);
                }
                if let Below::Other(held) = &mut e.below {
                    held.hold(users > 0);
                }
                if let More::Tangent(held) = &mut e.more {
                    held.hold(users > 0);
                }
                None
            })
            .collect();
        gone.extend(dead.iter().filter_map(|at| entries.remove(at)));
        // What they hold goes while nothing is borrowed: it may be a user's, whose `Drop` does as it likes.
        drop(entries);
    }
}
/// Lets go of what nobody can name any more: asked before windows run, so that only what is needed gets memory.
pub(crate) fn sweep() {
    frames().for_each(|frame| frame.sweep());
}
/// How many values the innermost frame knows of.
#[cfg(test)]
pub(super) fn known() -> usize {
    current().map_or(0, |frame| frame.entries.borrow().len())
}
/// Why a value cannot be read: it is that of one example, of which there are many.
pub(crate) fn unreadable(value: &Shared<Value>) -> Option<ErrorKind> {
    frames().any(|frame| frame.is_batched(value)).then(|| {
        ErrorKind::Transform(
            "inside vmap a value stands for all examples at once and has no data to read; read what vmap returns, or decide with `select`".into(),
        )
    })
}

/// Values of an op's outputs, as the code inside sees them.
type Values = SmallVec<[Shared<Value>; 4]>;

/// Applies an op inside the innermost frame. The inputs carry no errors, and the outputs' metas are known.
///
/// # Errors
/// Whatever the rule's ops return; what has no rule.
pub(crate) fn apply(op: &Op, arg: Arg, inputs: &[&Tensor], outputs: &Metas, origin: Origin) -> Result<Values> {
    let Some(frame) = current() else { return Err(Error::at(op.name(), ErrorKind::Internal("no transform is at work".into()), origin)) };
    frame.applied.set(frame.applied.get() + 1);
    if frame.applied.get().is_multiple_of(SWEEP) {
        frame.sweep();
    }
    let _state = RuleState::enter(origin);
    match &frame.kind {
        LevelKind::Forward => forward(&frame, op, arg, inputs),
        LevelKind::ExampleAxis(batch) => batched(&frame, batch, op, arg, inputs, outputs),
    }
}
/// What a rule applies carries the user's line and is seen by no interceptor.
struct RuleState {
    inherit: Option<Origin>,
}
impl RuleState {
    fn enter(origin: Origin) -> RuleState {
        context(|c| c.below_interceptors.set(c.below_interceptors.get() + 1));
        RuleState { inherit: scope::inherit(Some(origin)) }
    }
}
impl Drop for RuleState {
    fn drop(&mut self) {
        context(|c| c.below_interceptors.set(c.below_interceptors.get() - 1));
        scope::inherit(self.inherit);
    }
}
fn whole(outputs: impl IntoIterator<Item = Tensor>) -> Result<SmallVec<[Tensor; 3]>> {
    outputs.into_iter().map(Tensor::ok).collect()
}
fn forward(frame: &Rc<Level>, op: &Op, arg: Arg, inputs: &[&Tensor]) -> Result<Values> {
    let cut = frame.depth < CUT.with(Cell::get);
    let mut duals: SmallVec<[Dual; 4]> = inputs.iter().map(|t| frame.dual_of(t)).collect();
    if cut {
        duals.iter_mut().for_each(|d| d.tangent = None);
    }
    let moves = duals.iter().any(|d| d.tangent.is_some());
    if let (Op::Composite(c), true) = (op, moves)
        && c.saves().is_none()
        && !c.is_host()
    {
        return frame.by_body(c, inputs);
    }
    let results = at(frame.below.clone(), || -> Result<SmallVec<[Dual; 3]>> {
        let primals: SmallVec<[&Tensor; 4]> = duals.iter().map(|d| &d.primal).collect();
        let outputs = whole(Tensor::apply_many(op.clone(), arg, &primals, Origin::here()))?;
        let tangents: SmallVec<[Option<Tensor>; 3]> = if moves { jvp::tangents(op, arg, &duals, &outputs)? } else { smallvec![None; outputs.len()] };
        outputs.into_iter().zip(tangents).map(|(primal, tangent)| Ok(Dual { primal, tangent: tangent.map(Tensor::ok).transpose()? })).collect()
    })?;
    let values = results.iter().map(|d| d.primal.value().clone()).collect();
    results.into_iter().for_each(|d| frame.keep_dual(d));
    Ok(values)
}
fn batched(frame: &Rc<Level>, batch: &ExampleAxis, op: &Op, arg: Arg, inputs: &[&Tensor], outputs: &Metas) -> Result<Values> {
    let lanes: SmallVec<[MaybeBatched; 4]> = inputs.iter().map(|t| frame.lane_of(t)).collect();
    let shared = !lanes.iter().any(|l| l.batched) && !batch.draws(op, inputs);
    let results = at(frame.below.clone(), || -> Result<Option<SmallVec<[MaybeBatched; 3]>>> {
        if shared {
            let lowered: SmallVec<[&Tensor; 4]> = lanes.iter().map(|l| &l.tensor).collect();
            let same = whole(Tensor::apply_many(op.clone(), arg, &lowered, Origin::here()))?;
            return Ok(Some(same.into_iter().map(|tensor| MaybeBatched { tensor, batched: false }).collect()));
        }
        let metas: SmallVec<[Meta; 8]> = inputs.iter().map(|t| t.meta()).collect();
        batch::outputs(batch, op, arg, &lanes, &metas, outputs)
    })?;
    let Some(lanes) = results else {
        let Op::Composite(c) = op else { return Err(Error::new(op.name(), ErrorKind::Internal("a primitive without a batching rule".into()))) };
        return frame.by_body(c, inputs);
    };
    lanes
        .iter()
        .zip(outputs)
        .map(|(lane, meta)| {
            lane.tensor.error().map_or(Ok(()), Err)?;
            Ok(frame.keep_lane(lane, *meta))
        })
        .collect()
}
/// What the frames show of a cell; `None`: what it holds.
pub(crate) fn read_cell(id: u64) -> Option<Tensor> {
    frames().find_map(|frame| frame.cells.borrow().get(&id).cloned())
}
/// What a cell that is written gets: the value beneath all frames, where it holds `held` now. `None`: the examples keep what they
/// wrote to themselves. What all of them wrote alike before they did goes with it: the cell gets what it held before.
///
/// # Errors
/// One value for each example, where the cell is shared.
pub(crate) fn written(id: u64, value: &Tensor, held: impl Fn() -> Tensor) -> Result<Option<Tensor>> {
    let mut value = value.clone();
    for (depth, frame) in frames().enumerate() {
        match &frame.kind {
            LevelKind::Forward => value = frame.dual_of(&value).primal,
            LevelKind::ExampleAxis(batch) => {
                let lane = frame.lane_of(&value);
                let own = frame.cells.borrow().contains_key(&id);
                if lane.batched && !batch.cells_per_example {
                    return Err(Error::new("cell write", ErrorKind::Transform(
                        "inside vmap each example has a value of its own, and the cell holds one; return the value instead, or let examples keep cells to themselves with `Vmap::cells`".into(),
                    )));
                }
                if lane.batched || own {
                    let _before = frame.cells.borrow_mut().insert(id, value);
                    let Some(before) = frame.before.borrow_mut().remove(&id) else { return Ok(None) };
                    value = before;
                    continue;
                }
                if batch.cells_per_example && !frame.before.borrow().contains_key(&id) {
                    let before = frames().skip(depth + 1).find_map(|beneath| beneath.cells.borrow().get(&id).cloned()).unwrap_or_else(&held);
                    frame.before.borrow_mut().insert(id, before);
                }
                value = lane.tensor;
            }
        }
    }
    Ok(Some(value.untaped()))
}
