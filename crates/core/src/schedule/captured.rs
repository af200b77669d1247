//! A captured function and its replay: the window is recorded once and stays; only inputs, cells and outputs change.
use super::{Direct, Recorded, expand::expand, owners::needed};
use crate::{
    DType, Device, Error, ErrorKind, Meta, Op, Origin, Outputs, Result, Scalar, Tensor,
    cell::{self, Cell, Claim, Overlay},
    compile::noted::CallEvent,
    hash::mix,
    op::{Arg, View},
    planted::{Plant, is},
    record::{Log, NoSlot, Record, Stream, evaluate, ready},
    recycle::{self, Shared, SpareList, SpareLists, emptied},
    value::{Stored, Value},
};
use adamant_runtime::{
    backend::Refused,
    execute::{self, Caller, New, Replay, Write, WriteFate},
    kernel::Step,
    plan::{CellSlots, InputHold, Owner, Plan, Sized, Source},
};
use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use std::{
    borrow::Cow,
    cell::RefCell,
    collections::HashMap,
    sync::{Arc, OnceLock},
};

/// Where a value of the window is found at a call.
#[derive(Clone, Copy)]
enum Where {
    Argument(usize),
    Cell(usize),
    /// It is in the window: a tensor that the closure holds.
    Window(u32),
    /// A value that the plan publishes, by its place there.
    Published(usize),
    /// No step makes it.
    Nowhere,
}
/// A plan for the window, with all that a call would have to look up by slot.
struct Bound {
    plan: Arc<Plan>,
    sized: Arc<Sized>,
    /// by input of the plan's graph; `None`: a constant that the graph holds
    inputs: Vec<Option<Where>>,
    outputs: Vec<Where>,
    writes: Vec<Where>,
    /// The plan, where it is one kernel whose inputs are all arguments and whose result is the only output.
    direct: Option<Direct>,
}
/// The most captures that a compiled function keeps beside its first one; of more, the one that was not used for longest goes. A
/// size whose capture has gone is traced again; its plan is not made again while it is among as many.
pub const MOST_CAPTURES: usize = 64;
/// Plans of a compiled function, which captures of other sizes share: by the structure of the graph and by what was free.
#[derive(Default)]
pub(crate) struct Plans(Mutex<Vec<(PlanKey, Arc<Plan>)>>);
/// The capture's structure, the graph's, and which inputs the plan may take over.
type PlanKey = (u64, u64, u64);
/// What Rust does at a call, with the place of a number among those that are asked for.
enum AtCall {
    Number(Arc<dyn Fn() -> f64 + Send + Sync>),
    Effect(Arc<dyn Fn() + Send + Sync>),
}
// The lists of a call.
thread_local! {
    static SEEN: SpareLists<Vec<Shared<Value>>> = const { RefCell::new(Vec::new()) };
    static STORED: SpareLists<Vec<&'static Stored>> = const { RefCell::new(Vec::new()) };
    static NUMBERS: SpareLists<Vec<f64>> = const { RefCell::new(Vec::new()) };
    static HOLDS: SpareLists<Vec<InputHold>> = const { RefCell::new(Vec::new()) };
    static PUBLISHED: SpareLists<Vec<Option<Tensor>>> = const { RefCell::new(Vec::new()) };
}
/// What the cells held before a call.
struct OldValues {
    seen: SpareList<Vec<Shared<Value>>>,
    /// copies without gaps, of the few that had some
    moved: SmallVec<[(usize, Shared<Value>); 1]>,
}
impl OldValues {
    fn get(&self, k: usize) -> &Shared<Value> {
        self.moved.iter().find(|(cell, _)| *cell == k).map_or(&self.seen[k], |(_, moved)| moved)
    }
}
impl AtCall {
    fn act(&self) {
        if let AtCall::Effect(f) = self {
            f();
        }
    }
}
/// No number is asked for this record.
const FIXED: u16 = u16::MAX;
/// The records of a capture, some of whose arguments are asked for at each call.
struct AskedRecords<'a> {
    recorded: Recorded<'a>,
    /// by record
    of: &'a [u16],
    numbers: &'a [f64],
}
impl Caller for AskedRecords<'_> {
    fn arg(&self, record: u32) -> Arg {
        match self.of.get(record as usize).and_then(|&k| self.numbers.get(k as usize)) {
            Some(number) => Arg::Scalar(Scalar::Float(*number)),
            None => self.recorded.arg(record),
        }
    }
    fn op(&self, record: u32) -> super::Culprit {
        self.recorded.op(record)
    }
    fn origin(&self, record: u32) -> Origin {
        self.recorded.origin(record)
    }
    fn writes(&self) -> Vec<Write> {
        self.recorded.writes()
    }
    fn is_watched(&self) -> bool {
        self.recorded.is_watched()
    }
    fn submit(&self, replay: &Replay<'_>, steps: &[Step<'_>], chosen: &[usize]) -> std::result::Result<(), Refused> {
        self.recorded.submit(replay, steps, chosen)
    }
}
pub(crate) struct Captured {
    /// The window as it was recorded. Nothing is added to it.
    log: Log,
    /// by input of the window, in order
    sources: Vec<(u32, Where)>,
    cells: Vec<Cell>,
    /// by cell: is it written too?
    is_written: Vec<bool>,
    outputs: Vec<u32>,
    /// What Rust does at each call, in order, and how much of it before the plan runs: all up to the last number.
    events: Vec<AtCall>,
    before: usize,
    /// by record: which of the numbers is its argument; empty if none is asked for
    asked: Vec<u16>,
    shared: Arc<Plans>,
    /// (cell, slot): the cell's next value
    writes: Vec<(Cell, u32)>,
    /// The plan, where it does not depend on the call: found without a lock.
    only: OnceLock<Arc<Bound>>,
    /// Else the plans, by what was free at the call: see [`Captured::bound`].
    plans: Mutex<Vec<(u64, Arc<Bound>)>>,
}
pub(crate) struct CapturedCall<'a> {
    pub inputs: &'a [&'a Tensor],
    pub device: Device,
    pub origin: Origin,
}

impl Captured {
    pub fn new(
        places: &[Tensor],
        outputs: &[Tensor],
        overlay: &Overlay,
        stream: &Stream,
        device: Device,
        noted: Vec<CallEvent>,
        shared: Arc<Plans>,
    ) -> Result<Captured> {
        let mut log = std::mem::replace(&mut *stream.log.lock(), Log::new(device, true));
        let internal = |why: NoSlot| Error::new("compile", why.into());
        let mut slots = Vec::new();
        for t in outputs {
            slots.push(log.slot_of(t.value()).map_err(internal)?);
        }
        let mut writes: Vec<(Cell, u32)> = Vec::new();
        for cell in overlay.cells() {
            if let (true, Some(t)) = (overlay.written.contains(&cell.id()), overlay.values.get(&cell.id())) {
                writes.push((cell.clone(), log.slot_of(t.value()).map_err(internal)?));
            }
        }
        writes.retain(|(cell, _)| !is_frozen(cell));
        let mut of_slot: HashMap<u32, Where> = HashMap::new();
        for (k, t) in places.iter().enumerate() {
            if let Some(slot) = t.value().slot(log.epoch) {
                of_slot.insert(slot, Where::Argument(k));
            }
        }
        let mut cells = Vec::new();
        for (cell, t) in &overlay.reads {
            if let Some(slot) = t.value().slot(log.epoch) {
                of_slot.insert(slot, Where::Cell(cells.len()));
                cells.push(cell.clone());
            }
        }
        let inputs = log.records.iter().filter(|r| matches!(r.op, Op::Input));
        let sources = inputs.map(|r| (r.first, of_slot.get(&r.first).copied().unwrap_or(Where::Window(r.first)))).collect();
        let is_written = cells.iter().map(|cell| writes.iter().any(|(c, _): &(Cell, u32)| c.id() == cell.id())).collect();
        let (mut events, mut before, mut asked, mut numbers) = (Vec::with_capacity(noted.len()), 0, Vec::new(), 0);
        for event in noted {
            events.push(match event {
                CallEvent::Effect(f) => AtCall::Effect(f),
                CallEvent::Number(value, f) => {
                    // One that no op reads is in no window.
                    let Some(slot) = value.slot(log.epoch) else { continue };
                    let record = log.records.binary_search_by_key(&slot, |r| r.first);
                    let Some(record) = record.ok().filter(|&r| numbers < FIXED && matches!(log.records[r].op, Op::Const(_))) else {
                        return Err(Error::at("compile", ErrorKind::Internal("a number is no constant of the capture".into()), value.origin));
                    };
                    asked.resize(log.records.len(), FIXED);
                    asked[record] = numbers;
                    numbers += 1;
                    before = events.len() + 1;
                    AtCall::Number(f)
                }
            });
        }
        let (only, plans) = (OnceLock::new(), Mutex::new(Vec::new()));
        Ok(Captured { log, sources, cells, is_written, outputs: slots, events, before, asked, shared, writes, only, plans })
    }
    /// What captures of other sizes share with this one, if they are of the same structure.
    pub fn structure(&self) -> u64 {
        let outputs = self.outputs.iter().fold(self.log.structure, |hash, slot| mix(hash, u64::from(*slot)));
        self.writes.iter().fold(outputs, |hash, (cell, slot)| mix(mix(hash, cell.id()), u64::from(*slot)))
    }

    /// Where another trace of the function came out otherwise: another op, another number that is not asked for, another tensor
    /// that the function brought along.
    pub fn differs(&self, other: &Captured) -> Option<Origin> {
        let (mine, theirs) = (&self.log, &other.log);
        let at = |r: &Record| mine.values.get(r.first as usize).map_or_else(Origin::here, |v| v.origin);
        let asked = |k: usize| self.asked.get(k).is_some_and(|n| *n != FIXED);
        let brought = |r: &Record| matches!(r.op, Op::Input) && self.sources.iter().any(|(s, place)| *s == r.first && matches!(place, Where::Window(_)));
        let same = |a: &Shared<Value>, b: &Shared<Value>| {
            a.is_same(b) || matches!((Tensor::from_value(a.clone()).to_bytes(), Tensor::from_value(b.clone()).to_bytes()), (Ok(a), Ok(b)) if a == b)
        };
        for (k, (a, b)) in mine.records.iter().zip(&theirs.records).enumerate() {
            let differs = (a.structure, a.sizes) != (b.structure, b.sizes)
                || !asked(k) && !same_argument(a.arg, b.arg)
                || brought(a) && !same(&mine.values[a.first as usize], &theirs.values[b.first as usize]);
            if differs {
                return Some(at(a));
            }
        }
        (mine.records.len() != theirs.records.len() || self.structure() != other.structure()).then(|| mine.records.last().map_or_else(Origin::here, at))
    }
    /// Binds, replays, and gives the results out.
    pub fn call(&self, call: &CapturedCall<'_>) -> Result<Outputs> {
        if let Some(made) = self.only.get().and_then(|bound| self.call_direct(bound, call)) {
            return made;
        }
        let mut arguments: SmallVec<[Cow<'_, Shared<Value>>; 8]> = SmallVec::with_capacity(call.inputs.len());
        for t in call.inputs {
            arguments.push(dense(t.value())?);
        }
        // A step, a snapshot or code that is run again takes what is written; else it goes to the cells, of which nobody sees
        // anything from before they are read until they are written.
        let apart = self.writes.is_empty() || cell::is_apart();
        let mut old = OldValues { seen: SpareList::take(&SEEN), moved: SmallVec::new() };
        loop {
            old.seen.clear();
            old.moved.clear();
            for (k, c) in self.cells.iter().enumerate() {
                let value = c.detached().ok()?.value().clone();
                // Before the claim: under it, nothing is waited for.
                if let Cow::Owned(moved) = dense(&value)? {
                    old.moved.push((k, moved));
                }
                old.seen.push(value);
            }
            let claim = (!apart).then(|| Claim::of(&self.writes));
            if claim.is_none() || self.cells.iter().zip(&*old.seen).all(|(cell, value)| Claim::holds(cell, value)) {
                return self.run(call, &arguments, &old, claim);
            }
        }
    }
    fn run(&self, call: &CapturedCall<'_>, arguments: &[Cow<'_, Shared<Value>>], old: &OldValues, claim: Option<Claim<'_>>) -> Result<Outputs> {
        let bound = self.bound(old, claim.is_some() && call.device.backend().updates_in_place(), call.device)?;
        let (plan, sized) = (&bound.plan, &bound.sized);
        let log = &self.log;
        let mut inputs: Vec<&Stored> = emptied(recycle::take(&STORED));
        for ((_, source), place) in plan.graph.inputs.iter().zip(&bound.inputs) {
            let value = match (place, source) {
                (Some(Where::Argument(k)), _) => arguments[*k].stored(),
                (Some(Where::Cell(k)), _) => old.get(*k).stored(),
                (Some(Where::Window(slot)), _) => log.values[*slot as usize].stored(),
                (None, Source::Constant(stored)) => Some(stored),
                _ => None,
            };
            inputs.push(value.ok_or_else(|| Error::at("compile", ErrorKind::Internal("an input is not in memory".into()), call.origin))?);
        }
        let origin = |r: u32| log.values[log.records[r as usize].first as usize].origin;
        // All cells of one call commit together.
        let error_of = |taints: &[Option<Error>]| self.writes.iter().find_map(|(_, s)| taints[plan.graph.of_slot[*s as usize] as usize].clone());
        let before = |cell: &Cell| claim.as_ref().map_or(execute::Old::Absent, |_| super::old_of(&cell.claimed()));
        let written = || {
            self.writes
                .iter()
                .map(|(cell, s)| Write { cell: cell.id(), new: New::Value(plan.graph.of_slot[*s as usize]), group: 1, old: before(cell) })
                .collect()
        };
        let _watched = super::watch::flush(log.records.len());
        let (events, afterwards) = self.events.split_at(self.before);
        let mut numbers = SpareList::take(&NUMBERS);
        for event in events {
            match event {
                AtCall::Number(f) => numbers.push(f()),
                AtCall::Effect(f) => f(),
            }
        }
        let recorded = Recorded { records: &log.records, origin: &origin, writes: &written };
        let caller = AskedRecords { recorded, of: &self.asked, numbers: &numbers };
        let replay = Replay { plan, sized, inputs: &inputs, device: call.device, caller: &caller };
        let new = |k: usize, stored: Stored| Tensor::from_value(ready(log.values[plan.publish[k].0 as usize].meta, call.origin, stored));
        let result = |place: &Where, published: &[Option<Tensor>]| match *place {
            Where::Argument(k) => Some(call.inputs[k].detach()),
            Where::Cell(k) => Some(Tensor::from_value(old.get(k).clone())),
            Where::Window(slot) => Some(Tensor::from_value(log.values[slot as usize].clone())),
            Where::Published(k) => published.get(k).cloned().flatten(),
            Where::Nowhere => None,
        };
        let missing = || Error::at("compile", ErrorKind::Internal("an output did not run".into()), call.origin);
        if plan.is_direct && self.writes.is_empty() && replay.untainted() {
            let made = new(0, replay.run_direct().map_err(|failed| failed.error)?);
            let published = [Some(made)];
            let outputs = all(&bound.outputs, |place| result(place, &published).ok_or_else(missing));
            afterwards.iter().for_each(AtCall::act);
            return outputs;
        }
        let own = replay.reserve()?;
        // The cell of which the plan's input is the old value.
        let old_of = |input: u32| match bound.inputs.get(input as usize) {
            Some(Some(Where::Cell(k))) => Some(old.get(*k)),
            _ => None,
        };
        let outcome = replay.run(own).map_err(|failed| {
            replay.overwritten(&failed).filter_map(old_of).for_each(|value| value.fail(failed.error.clone()));
            failed.error
        })?;
        for value in replay.taken(&outcome).filter_map(old_of) {
            super::count(|s| s.donated += 1);
            value.donate();
        }
        let fault = outcome.taints.as_ref().and_then(|t| error_of(t));
        if let Some(e) = fault {
            super::count(|s| s.suppressed += 1);
            return Err(e);
        }
        let mut published = SpareList::take(&PUBLISHED);
        published.extend((0..plan.publish.len()).map(|k| replay.published(&outcome, k).map(|stored| new(k, stored))));
        let published = &*published;
        let is_there = |place: &Where| match place {
            Where::Published(k) => matches!(published.get(*k), Some(Some(_))),
            Where::Nowhere => false,
            _ => true,
        };
        if !bound.writes.iter().all(is_there) {
            return Err(missing());
        }
        let written = bound.writes.iter().filter_map(|place| result(place, published));
        match claim {
            Some(claim) => {
                // What the device left of each write; where it has no old value to go back to, the host looks.
                let left = |(k, t): (usize, Tensor)| match outcome.written(k) {
                    WriteFate::Left(stored) => ready(t.value().meta, call.origin, stored.clone()),
                    WriteFate::Unknown if t.value().stored().is_some_and(|s| s.fault().is_some()) => self.writes[k].0.claimed(),
                    _ => t.value().clone(),
                };
                claim.commit(written.enumerate().map(left));
            }
            None => crate::step(|| self.writes.iter().zip(written).try_for_each(|((cell, _), t)| cell.set(&t)))?,
        }
        afterwards.iter().for_each(AtCall::act);
        let outputs = all(&bound.outputs, |place| result(place, published).ok_or_else(missing));
        recycle::give_back(&STORED, emptied(inputs));
        outputs
    }

    /// As `call`, by the direct plan. `None`: there is none, or an argument is to be evaluated or moved first.
    fn call_direct(&self, bound: &Bound, call: &CapturedCall<'_>) -> Option<Result<Outputs>> {
        let direct = bound.direct.as_ref()?;
        let mut inputs: SmallVec<[&Stored; 4]> = SmallVec::new();
        for place in &bound.inputs {
            let Some(Where::Argument(k)) = place else { return None };
            let value = call.inputs[*k].value();
            value.is_read();
            inputs.push(value.dense()?);
        }
        let _watched = super::watch::flush(self.log.records.len());
        let meta = self.log.values[bound.plan.publish[0].0 as usize].meta;
        let origin = |r: u32| self.log.values[self.log.records[r as usize].first as usize].origin;
        super::count(|s| s.hits += 1);
        let made = direct.run(call.device, &inputs, &Recorded { records: &self.log.records, origin: &origin, writes: &Vec::new });
        Some(made.map_err(|failed| failed.error).map(|stored| smallvec![Tensor::from_value(ready(meta, call.origin, stored))]))
    }
    /// The plan for a call: it may take over the old value of a cell that is written, where only the cell holds it.
    fn bound(&self, old: &OldValues, in_place: bool, device: Device) -> Result<Cow<'_, Arc<Bound>>> {
        if let Some(bound) = self.only.get() {
            super::count(|s| s.hits += 1);
            return Ok(Cow::Borrowed(bound));
        }
        let hold = |(_, place): &(u32, Where)| match *place {
            Where::Cell(k) if in_place && self.is_written[k] && only_the_cell_holds(old.get(k)) => InputHold::OldCell,
            _ => InputHold::Held,
        };
        // Looked at once: other threads let go meanwhile, and a plan that takes what its key says is held would be kept.
        let mut holds = SpareList::take(&HOLDS);
        holds.extend(self.sources.iter().map(hold));
        let key = if self.writes.is_empty() { 0 } else { holds.iter().fold(0, |key, hold| mix(key, *hold as u64)) };
        if let Some((_, bound)) = self.plans.lock().iter().find(|(k, _)| *k == key) {
            super::count(|s| s.hits += 1);
            return Ok(Cow::Owned(bound.clone()));
        }
        let log = &self.log;
        let fail = |(r, k): (usize, ErrorKind)| {
            let r = &log.records[r];
            Error::at(r.op.name(), k, log.values[r.first as usize].origin)
        };
        let mut owners = vec![Owner::Nobody; log.values.len()];
        let written: Vec<u32> = self.writes.iter().map(|(_, s)| *s).collect();
        for s in self.outputs.iter().chain(&written) {
            owners[*s as usize] = Owner::User;
        }
        let graph = expand(log, log.records.len(), &needed(&log.records, &owners, std::iter::empty())).map_err(fail)?;
        if is(Plant::HoldsOfAnotherMoment) {
            holds.clear();
            holds.extend(self.sources.iter().map(hold));
        }
        let shared = (self.structure(), graph.hash, key);
        let known = self.shared.0.lock().iter().find(|(k, _)| *k == shared).map(|(_, plan)| plan.clone());
        let (plan, sized) = match known {
            Some(plan) => {
                super::count(|s| s.resizes += 1);
                let sized = Arc::new(Sized::new(&plan, &graph));
                (plan, sized)
            }
            None => {
                super::count(|s| s.misses += 1);
                let old = |cell: &Cell| self.sources.iter().find(|(_, place)| matches!(place, Where::Cell(k) if self.cells[*k].id() == cell.id()));
                let writes: Vec<CellSlots> = self.writes.iter().map(|(cell, new)| CellSlots { new: *new, old: old(cell).map(|(slot, _)| *slot) }).collect();
                let plan = Arc::new(Plan::new(graph, &owners, &writes, &holds, device).map_err(fail)?);
                let sized = Arc::new(Sized::new(&plan, &plan.graph));
                let mut plans = self.shared.0.lock();
                if plans.len() >= MOST_CAPTURES {
                    plans.remove(0);
                }
                plans.push((shared, plan.clone()));
                (plan, sized)
            }
        };
        let source_of = |slot: u32| self.sources.iter().find(|(s, _)| *s == slot).map(|(_, place)| *place);
        // What is published or, failing that, an input as it stands.
        let place_of = |slot: u32| match plan.publish.iter().position(|(s, _)| *s == slot) {
            Some(k) => Where::Published(k),
            None => source_of(slot).unwrap_or(Where::Nowhere),
        };
        let inputs = plan.graph.inputs.iter().map(|(_, source)| match source {
            Source::Slot(slot) => Some(source_of(*slot).unwrap_or(Where::Window(*slot))),
            Source::Constant(_) => None,
        });
        let inputs: Vec<Option<Where>> = inputs.collect();
        let outputs: Vec<Where> = self.outputs.iter().map(|s| place_of(*s)).collect();
        let writes = written.iter().map(|s| place_of(*s)).collect();
        let of_arguments =
            inputs.iter().all(|place| matches!(place, Some(Where::Argument(_)))) && self.cells.is_empty() && self.writes.is_empty() && self.events.is_empty();
        let direct = (plan.is_direct && of_arguments && matches!(outputs[..], [Where::Published(0)])).then(|| Direct::new(&plan, &sized));
        let bound = Arc::new(Bound { plan, sized, inputs, outputs, writes, direct });
        self.plans.lock().push((key, bound.clone()));
        if self.writes.is_empty() {
            // Nothing is ever free. Whoever came first made the same.
            let _ = self.only.set(bound.clone());
        }
        Ok(Cow::Owned(bound))
    }
}
/// As `collect` of results does, which knows no size before.
fn all(places: &[Where], f: impl Fn(&Where) -> Result<Tensor>) -> Result<Outputs> {
    let mut found = Outputs::with_capacity(places.len());
    for place in places {
        found.push(f(place)?);
    }
    Ok(found)
}
/// A count or a generator's key that a planted fault forgets to write.
fn is_frozen(cell: &Cell) -> bool {
    let Meta { shape, dtype, .. } = cell.meta();
    dtype == DType::U32 && (shape.rank() == 0 && is(Plant::FrozenCount) || shape.rank() == 1 && is(Plant::FrozenGenerator))
}
fn same_argument(a: Arg, b: Arg) -> bool {
    match (a, b) {
        (Arg::Scalar(a), Arg::Scalar(b)) => a.bits() == b.bits(),
        (Arg::Start(a), Arg::Start(b)) => a == b,
        (Arg::None, Arg::None) => true,
        _ => false,
    }
}
/// Handles of a cell's value: the cell's own and ours.
fn only_the_cell_holds(v: &Shared<Value>) -> bool {
    crate::value::reference_counts(v) == (2, 0) && v.stored().is_some_and(|s| Arc::strong_count(&s.buffer) == 1 && s.offset == 0)
}
/// The value in memory without gaps, as the captured window assumes: itself, or a copy.
fn dense(value: &Shared<Value>) -> Result<Cow<'_, Shared<Value>>> {
    evaluate(value)?;
    match value.stored() {
        Some(s) if !s.is_dense(&value.meta.shape) => {
            let moved = Tensor::apply(Op::View(View::Reshape(value.meta.shape)), Arg::None, &[&Tensor::from_value(value.clone())]);
            evaluate(moved.value())?;
            Ok(Cow::Owned(moved.value().clone()))
        }
        _ => Ok(Cow::Borrowed(value)),
    }
}
