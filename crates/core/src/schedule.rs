//! From a window to results: what must run is planned once per structure, sized once per size, and replayed.
use crate::{
    Arg, Error, ErrorKind, Meta, Op,
    buffer::Buffer,
    cell::{Cell, CellWrite},
    error::Origin,
    foreign::guarded,
    hash::Folded,
    kernel::Step,
    planted::{Plant, is},
    record::{Log, Record, context},
    recycle::{self, Shared, SpareLists, emptied},
    value::{Kept, Other, Recipe, Stored, Value},
};
use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use std::{
    cell::RefCell,
    collections::HashMap,
    sync::{Arc, LazyLock},
};

pub(crate) mod captured;
mod expand;
mod interpret;
mod join;
pub(crate) mod lower;
mod owners;
pub(crate) mod watch;
pub use adamant_runtime::{Stats, stats::take_stats};
use adamant_runtime::{
    backend::Refused,
    execute::{Caller, Failed, New, Old, Outcome, Replay, Write, WriteFate},
    plan::{CellSlots, Plan, Sized, Source},
};
pub(crate) use adamant_runtime::{
    execute::Direct,
    kernel::{Culprit, fault_error},
    stats::count,
};
pub(crate) use owners::Owners;

thread_local! {
    /// Why the step that is being committed was not, with its group.
    static SUPPRESSED: RefCell<Option<(u64, Error)>> = const { RefCell::new(None) };
}
/// The error for which a group of cell writes was suppressed.
pub(crate) fn take_suppressed(group: u64) -> Option<Error> {
    SUPPRESSED.try_with(|w| w.borrow_mut().take_if(|(of, _)| *of == group)).ok().flatten().map(|(_, e)| e)
}
pub(crate) fn suppress(group: u64, error: Error) {
    count(|s| s.suppressed += 1);
    // A write outside of any step has nobody who asks.
    if context(|c| c.committing.get() == group) {
        let _ = SUPPRESSED.try_with(|w| w.borrow_mut().get_or_insert((group, error)).0);
    }
}

/// A place without memory, for inputs of captures.
pub(crate) fn no_buffer(meta: Meta) -> Stored {
    static NONE: LazyLock<Mutex<HashMap<u32, Arc<Buffer>>>> = LazyLock::new(Default::default);
    let mut none = NONE.lock();
    let buffer = none.entry(meta.device.index()).or_insert_with(|| Arc::new(Buffer::empty(meta.device))).clone();
    Stored::dense(buffer)
}

/// Plans by structure and by who holds what; each with its sizes.
#[derive(Default)]
struct Entry {
    plans: Vec<Arc<Plan>>,
    sizes: HashMap<u64, Found, Folded>,
}
/// Device and its generation, structure, owners.
type Key = (u64, u64, u64);
static PLANS: LazyLock<Mutex<HashMap<Key, Entry, Folded>>> = LazyLock::new(Default::default);
type Found = (Arc<Plan>, Arc<Sized>);
/// The plans a stream replayed last: found without a lock.
#[derive(Default)]
pub(crate) struct Recent([Option<(Key, u64, Found)>; 16]);
impl Recent {
    fn place(key: Key, sizes: u64) -> usize {
        (key.1 ^ key.2 ^ sizes) as usize % 16
    }
    fn find(&self, key: Key, sizes: u64) -> Option<usize> {
        let place = Recent::place(key, sizes);
        matches!(&self.0[place], Some((k, s, _)) if *k == key && *s == sizes).then_some(place)
    }
    fn put(&mut self, key: Key, sizes: u64, found: Found) -> usize {
        let place = Recent::place(key, sizes);
        self.0[place] = Some((key, sizes, found));
        place
    }
    fn get(&self, place: usize) -> Option<&Found> {
        self.0[place].as_ref().map(|(_, _, found)| found)
    }
}
/// The most structures and the most sizes of one that are remembered; beyond that they are made again.
const MAX_PLANS: usize = 8192;
const MAX_SIZES: usize = 512;

/// Runs the first `cut` records of a window and starts it anew with the rest.
///
/// # Errors
/// Memory that cannot be had: then nothing has run and the window is as it was. A lost device.
pub(crate) fn flush(log: &mut Log, cut: usize) -> Result<(), Error> {
    if log.records.is_empty() || cut == 0 {
        return Ok(());
    }
    if log.device.is_reference() {
        count(|s| s.flushes += 1);
    }
    let mut trimmed = false;
    loop {
        let cut = cut.min(log.records.len());
        if cut == 0 {
            return Ok(());
        }
        let device = log.device;
        let place = || format!("the plan of a window on {device}");
        let stop = match guarded(place, || if device.is_reference() { interpret::window(log) } else { run_window(log, cut) }) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(stop)) => stop,
            // Nobody knows how far it came.
            Err(kind) => {
                let e = Error::at("read", kind, log.values.last().map_or_else(Origin::here, |v| v.origin));
                abandon(log, &e);
                return Err(e);
            }
        };
        match stop {
            // The window itself may hold memory that nothing needs any more: let go of it and try again.
            Stop::Reader(e) if matches!(e.kind(), ErrorKind::OutOfMemory { .. }) && prune(log) => continue,
            // A step may have been refused what the pool keeps for others.
            Stop::Reader(e) if matches!(e.kind(), ErrorKind::OutOfMemory { .. }) && !std::mem::replace(&mut trimmed, true) && log.device.pool().trim() => {
                continue;
            }
            Stop::Reader(e) | Stop::Spoiled(e, ..) if matches!(e.kind(), ErrorKind::DeviceLost(_)) => {
                // What was made before the device was opened again fails, with what depends on it; else the device is gone.
                let before = |r: &Record| matches!(r.op, Op::Input) && log.values[r.first as usize].stored().is_some_and(|s| s.buffer.is_of_before());
                match log.records.iter().position(before) {
                    Some(old) => poison(log, &[old], e.kind()),
                    None => {
                        abandon(log, &e);
                        return Err(e);
                    }
                }
            }
            Stop::Reader(e) => return Err(e),
            Stop::Spoiled(e, values, mut failed) => {
                let slots = values.iter().filter_map(|value| value.slot(log.epoch));
                failed.extend(slots.filter_map(|slot| log.records.iter().position(|r| r.first == slot)));
                poison(log, &failed, e.kind());
                return Err(e);
            }
            // Ops that cannot run at all: their values and what depends on them fail, the rest goes on.
            Stop::Records(failed, kind) => poison(log, &failed, &kind),
        }
    }
}
enum Stop {
    Reader(Error),
    /// These records failed midway, and these inputs may be overwritten.
    Spoiled(Error, Vec<Shared<Value>>, Failing),
    Records(Failing, ErrorKind),
}
/// Records of a window.
type Failing = SmallVec<[usize; 4]>;
impl Stop {
    /// A run of a plan failed. Memory may be had the next time, and a lost device has lost everything; what failed else
    /// would fail again, and may not stand before other work.
    fn of(failed: Failed, spoiled: Vec<Shared<Value>>) -> Stop {
        let Failed { error, records, .. } = failed;
        let passes = matches!(error.kind(), ErrorKind::OutOfMemory { .. } | ErrorKind::DeviceLost(_)) || records.is_empty();
        match (spoiled.is_empty(), passes) {
            (true, true) => Stop::Reader(error),
            (true, false) => Stop::Records(records, error.kind().clone()),
            (false, _) => Stop::Spoiled(error, spoiled, if passes { Failing::new() } else { records }),
        }
    }
}

fn run_window(log: &mut Log, cut: usize) -> Result<(), Stop> {
    let slots = log.records.get(cut).map_or(log.values.len(), |r| r.first as usize);
    Owners::look(log, cut, slots);
    if log.owners.nobody() && log.writes.is_empty() && !log.records[..cut].iter().any(|r| r.op.is_effect()) {
        restart(log, cut);
        return Ok(());
    }
    let _watched = watch::flush(cut);
    let last = &log.records[cut - 1];
    let (structure, sizes) = (last.structure, if is(Plant::StalePlanKey) { 0 } else { last.sizes });
    let key = (u64::from(log.device.generation()) << 32 | u64::from(log.device.index()), structure, log.owners.key);
    match log.recent.find(key, sizes) {
        Some(place) => {
            count(|s| {
                s.flushes += 1;
                s.hits += 1;
            });
            run_plan(log, slots, place)?;
        }
        None => {
            count(|s| s.flushes += 1);
            let found = find_plan(log, cut, key, sizes)?;
            let place = log.recent.put(key, sizes, found);
            run_plan(log, slots, place)?;
        }
    }
    restart(log, cut);
    Ok(())
}
/// What a plan is bound to.
struct Lists<'a> {
    inputs: Vec<&'a Stored>,
    writes: Vec<&'a CellWrite>,
}
thread_local! {
    static INPUTS: SpareLists<Vec<&'static Stored>> = const { RefCell::new(Vec::new()) };
    static WRITES: SpareLists<Vec<&'static CellWrite>> = const { RefCell::new(Vec::new()) };
}
impl Lists<'_> {
    fn take() -> Self {
        Lists { inputs: emptied(recycle::take(&INPUTS)), writes: emptied(recycle::take(&WRITES)) }
    }
}
impl Drop for Lists<'_> {
    fn drop(&mut self) {
        recycle::give_back(&INPUTS, emptied(std::mem::take(&mut self.inputs)));
        recycle::give_back(&WRITES, emptied(std::mem::take(&mut self.writes)));
    }
}
/// Binds the plan that was just found to the window's memory, replays it and gives its results out.
fn run_plan(log: &Log, slots: usize, place: usize) -> Result<(), Stop> {
    let internal = |what: &str| Stop::Reader(Error::new("read", ErrorKind::Internal(what.into())));
    let (plan, sized) = log.recent.get(place).ok_or_else(|| internal("a plan was lost"))?;
    let mut lists = Lists::take();
    let Lists { inputs, writes } = &mut lists;
    for (_, source) in &plan.graph.inputs {
        inputs.push(match source {
            // Slots are the same for every window of one structure.
            Source::Slot(slot) => log.values[*slot as usize].stored().ok_or_else(|| lost_input(log, *slot))?,
            Source::Constant(stored) => stored,
        });
    }
    let origin = |r: u32| log.values[log.records[r as usize].first as usize].origin;
    if plan.is_direct && log.writes.is_empty() && inputs.iter().all(|s| s.is_clean()) {
        let caller = Recorded { records: &log.records, origin: &origin, writes: &Vec::new };
        let replay = Replay { plan, sized, inputs, device: log.device, caller: &caller };
        let stored = replay.run_direct().map_err(|failed| Stop::of(failed, Vec::new()))?;
        log.values[plan.publish[0].0 as usize].store(stored);
        context(|c| c.ahead.learn(log, || Direct::new(plan, sized)));
        return Ok(());
    }
    writes.extend(log.writes.iter().filter(|w| (w.slot as usize) < slots));
    let written = || {
        let value = |slot: u32| plan.graph.of_slot[slot as usize];
        let old = |previous: &Value| match previous.slot(log.epoch).filter(|s| (*s as usize) < slots && previous.is_to_run()) {
            Some(slot) => Old::Value(value(slot)),
            None => old_of(previous),
        };
        let made = writes.iter().filter(|_| !is(Plant::CommitDespiteFault)).map(|w| Write {
            cell: w.cell.id(),
            new: New::Value(value(w.slot)),
            group: w.group,
            old: old(&w.previous),
        });
        made.chain(log.beside.iter().map(|b| b.write(old(&b.previous)))).collect()
    };
    let caller = Recorded { records: &log.records, origin: &origin, writes: &written };
    let replay = Replay { plan, sized, inputs, device: log.device, caller: &caller };
    let own = replay.reserve().map_err(Stop::Reader)?;
    let outcome = replay.run(own).map_err(|failed| {
        let slot = |i: u32| if let Some((_, Source::Slot(slot))) = plan.graph.inputs.get(i as usize) { Some(*slot) } else { None };
        let spoiled: Vec<Shared<Value>> = replay.overwritten(&failed).filter_map(slot).map(|s| log.values[s as usize].clone()).collect();
        Stop::of(failed, spoiled)
    })?;
    publish(log, &replay, &outcome, writes);
    Ok(())
}

/// An input was in memory when it was recorded and is not any more: what reads it fails, and the window is not stuck with it.
fn lost_input(log: &Log, slot: u32) -> Stop {
    let kind = match &*log.values[slot as usize].other() {
        Other::Failed(e) => e.kind().clone(),
        Other::Donated => Value::was_donated(),
        _ => ErrorKind::Internal("an input is not in memory".into()),
    };
    match log.records.iter().position(|r| r.first == slot) {
        Some(input) => Stop::Records(smallvec![input], kind),
        None => Stop::Reader(Error::new("read", kind)),
    }
}

/// What a cell holds that may not be written.
pub(crate) fn old_of(previous: &Value) -> Old {
    match previous.stored() {
        // What is bad itself is no value to go back to.
        Some(stored) if stored.fault().is_none() => Old::Stored(stored.clone()),
        _ => Old::Absent,
    }
}
/// What a run asks, told from records.
pub(crate) struct Recorded<'a> {
    pub records: &'a [Record],
    pub origin: &'a dyn Fn(u32) -> Origin,
    /// see [`Caller::writes`]
    pub writes: &'a dyn Fn() -> Vec<Write>,
}
impl Caller for Recorded<'_> {
    fn arg(&self, record: u32) -> Arg {
        self.records.get(record as usize).map_or(Arg::None, |r| r.arg)
    }
    fn op(&self, record: u32) -> Culprit {
        self.records.get(record as usize).map_or(Culprit { name: "run", axis: None }, |r| Culprit::of(&r.op))
    }
    fn origin(&self, record: u32) -> Origin {
        (self.origin)(record)
    }
    fn writes(&self) -> Vec<Write> {
        (self.writes)()
    }
    fn is_watched(&self) -> bool {
        watch::is_on()
    }
    fn submit(&self, replay: &Replay<'_>, steps: &[Step<'_>], chosen: &[usize]) -> std::result::Result<(), Refused> {
        watch::submit(replay, steps, chosen)
    }
}

fn find_plan(log: &Log, cut: usize, key: Key, sizes: u64) -> Result<Found, Stop> {
    if let Some(found) = PLANS.lock().get(&key).and_then(|e| e.sizes.get(&sizes).cloned()) {
        count(|s| s.hits += 1);
        return Ok(found);
    }
    let _watched = watch::plan(cut);
    let needed = owners::needed(&log.records[..cut], &log.owners.of, log.writes.iter().map(|w| w.slot));
    let graph = expand::expand(log, cut, &needed).map_err(|(r, k)| Stop::Records(smallvec![r], k))?;
    let known = PLANS.lock().get(&key).and_then(|e| e.plans.iter().find(|p| p.hash == graph.hash).cloned());
    let (plan, sized) = match known {
        Some(plan) => {
            count(|s| s.resizes += 1);
            let sized = Arc::new(Sized::new(&plan, &graph));
            (plan, sized)
        }
        None => {
            count(|s| s.misses += 1);
            let owners = &log.owners;
            let in_place = |w: &&CellWrite| (w.slot as usize) < owners.of.len() && !owners.chained.contains(&w.slot);
            let old = |w: &CellWrite| w.previous.slot(log.epoch).filter(|s| (*s as usize) < owners.of.len());
            let written: Vec<CellSlots> = log.writes.iter().filter(in_place).map(|w| CellSlots { new: w.slot, old: old(w) }).collect();
            let plan = Plan::new(graph, &owners.of, &written, &owners.inputs, log.device).map_err(|(r, k)| Stop::Records(smallvec![r], k))?;
            let sized = Sized::new(&plan, &plan.graph);
            (Arc::new(plan), Arc::new(sized))
        }
    };
    let mut plans = PLANS.lock();
    if plans.len() >= MAX_PLANS {
        plans.clear();
    }
    let entry = plans.entry(key).or_default();
    if entry.sizes.len() >= MAX_SIZES {
        entry.sizes.clear();
    }
    if !entry.plans.iter().any(|p| Arc::ptr_eq(p, &plan)) {
        entry.plans.push(plan.clone());
    }
    entry.sizes.insert(sizes, (plan.clone(), sized.clone()));
    Ok((plan, sized))
}

/// The groups of which a value is tainted, with the error.
fn bad_groups(writes: &[&CellWrite], taint: impl Fn(u32) -> Option<Error>) -> HashMap<u64, Error> {
    let mut bad = HashMap::new();
    for w in writes.iter().filter(|_| !is(Plant::CommitDespiteFault)) {
        if let Some(e) = taint(w.slot) {
            bad.entry(w.group).or_insert(e);
        }
    }
    bad
}

/// Values become ready, deferred ones recipes; cells commit group by group.
fn publish(log: &Log, replay: &Replay<'_>, outcome: &Outcome, writes: &[&CellWrite]) {
    let plan = replay.plan;
    let taint_of = |slot: u32| outcome.taints.as_ref().and_then(|t| t[plan.graph.of_slot[slot as usize] as usize].clone());
    let bad = if outcome.taints.is_some() { bad_groups(writes, taint_of) } else { HashMap::new() };
    for i in replay.taken(outcome) {
        if let Some((_, Source::Slot(slot))) = plan.graph.inputs.get(i as usize) {
            count(|s| s.donated += 1);
            log.values[*slot as usize].donate();
        }
    }
    for (k, (slot, _)) in plan.publish.iter().enumerate() {
        let value = &log.values[*slot as usize];
        match replay.published(outcome, k) {
            Some(stored) => value.store(stored),
            None => {
                let error = taint_of(*slot).or_else(|| bad.values().next().cloned());
                value.fail(error.unwrap_or_else(|| Error::at("read", ErrorKind::Internal("a value was suppressed without a reason".into()), value.origin)));
            }
        }
    }
    for &slot in &plan.deferred {
        let value = &log.values[slot as usize];
        let node = plan.graph.node_of(plan.graph.of_slot[slot as usize]);
        let r = &log.records[node.record as usize];
        let inputs = r.inputs.iter().map(|&i| Kept::new(&log.values[i as usize])).collect();
        count(|s| s.deferred += 1);
        value.defer(Recipe { op: r.op.clone(), arg: r.arg, inputs });
    }
    for (k, w) in writes.iter().enumerate().rev() {
        let value = &log.values[w.slot as usize];
        let withdraw = |e: &Error| {
            w.cell.withdraw(value, &w.previous, w.since);
            // Whether it lay in the cell's own memory or not: a value that was to be the cell's and is not is no value.
            value.fail(e.clone());
        };
        match bad.get(&w.group) {
            Some(e) => withdraw(e),
            None => match (outcome.written(k), value.stored()) {
                (WriteFate::Left(stored), _) => {
                    // Whoever holds the value reads an error if the device made no write; the cell has what was left.
                    w.cell.holds_instead(value, Value::ready(value.meta, value.origin, value.home, stored.clone()));
                    w.cell.committed();
                }
                // There is nothing that the device could go back to, so the host looks.
                (WriteFate::Unknown, Some(stored)) => match stored.fault() {
                    Some(e) => {
                        suppress(w.group, e.clone());
                        withdraw(&e);
                    }
                    None => w.cell.committed(),
                },
                _ => w.cell.committed(),
            },
        }
    }
    for (beside, k) in log.beside.iter().zip(writes.len()..) {
        let Beside { cell, value, group, previous, since } = beside;
        match outcome.written(k) {
            WriteFate::Left(stored) => cell.holds_instead(value, Value::ready(value.meta, value.origin, value.home, stored.clone())),
            WriteFate::Unknown => {
                if let Some(e) = outcome.fault_of(k) {
                    cell.withdraw(value, previous, *since);
                    suppress(*group, e);
                }
            }
            WriteFate::Known => {}
        }
    }
    for (group, e) in bad {
        suppress(group, e);
    }
}
/// A write of a value that was in memory before, which is made or not with others of its group that the window computes.
pub(crate) struct Beside {
    pub cell: Cell,
    pub value: Shared<Value>,
    pub group: u64,
    pub previous: Kept,
    /// the commit that the previous value is of
    pub since: u64,
}
impl Beside {
    fn write(&self, old: Old) -> Write {
        // What is deferred is computed elsewhere, and the host looks.
        let new = self.value.stored().map_or(New::Absent, |stored| New::Stored(self.value.meta.ty(), stored.clone()));
        Write { cell: self.cell.id(), new, group: self.group, old }
    }
}

/// Starts a new window with the records that stay open.
fn restart(log: &mut Log, cut: usize) {
    if cut >= log.records.len() {
        log.clear();
        return;
    }
    rerecord(log, cut, |_| true);
}
/// Records again what stays: records from `from` on for which `stays` holds.
fn rerecord(log: &mut Log, from: usize, stays: impl Fn(usize) -> bool) {
    let records = std::mem::take(&mut log.records);
    let values = std::mem::take(&mut log.values);
    let (writes, mut beside) = (std::mem::take(&mut log.writes), std::mem::take(&mut log.beside));
    log.clear();
    let mut map: HashMap<u32, u32> = HashMap::new();
    for (k, r) in records.iter().enumerate().skip(from) {
        if !stays(k) || matches!(r.op, Op::Input) {
            continue;
        }
        let mut inputs = SmallVec::new();
        let mut lost = None;
        for &i in &r.inputs {
            let new = match map.get(&i) {
                Some(&n) => Ok(n),
                None => log.slot_of(&values[i as usize]),
            };
            match new {
                Ok(n) => {
                    map.insert(i, n);
                    inputs.push(n);
                }
                Err(why) => lost = Some(ErrorKind::from(why)),
            }
        }
        let outs: Vec<Shared<Value>> = (0..r.outputs as usize).map(|o| values[r.first as usize + o].clone()).collect();
        if let Some(kind) = lost {
            for v in outs {
                let e = Error::at(r.op.name(), kind.clone(), v.origin);
                v.fail(e);
            }
            continue;
        }
        let first = log.push(r.op.clone(), r.arg, inputs, &outs);
        for o in 0..r.outputs as u32 {
            map.insert(r.first + o, first + o);
        }
    }
    for mut w in writes {
        if let Some(&slot) = map.get(&w.slot) {
            w.slot = slot;
            log.note_write(w);
        }
    }
    beside.retain(|b| log.writes.iter().any(|w| w.group == b.group));
    log.beside = beside;
}
/// Drops the records that nobody needs, and with them the inputs that only they read. Tells whether there were any.
fn prune(log: &mut Log) -> bool {
    let n = log.records.len();
    let slots = log.values.len();
    Owners::look(log, n, slots);
    let stays = owners::needed(&log.records, &log.owners.of, log.writes.iter().map(|w| w.slot));
    let gone = stays.contains(&false);
    if gone {
        rerecord(log, 0, |k| stays[k]);
    }
    gone
}
/// Ops that no plan can run: their values fail, and with them all that depend on them; their cell writes are taken back.
fn poison(log: &mut Log, records: &[usize], kind: &ErrorKind) {
    let mut failed: Vec<Option<Error>> = vec![None; log.values.len()];
    let mut gone = vec![false; log.records.len()];
    for (k, r) in log.records.iter().enumerate() {
        let own = records.contains(&k).then(|| Error::at(r.op.name(), kind.clone(), log.values[r.first as usize].origin));
        let error = own.or_else(|| r.inputs.iter().find_map(|&i| failed[i as usize].clone()));
        if let Some(e) = error {
            gone[k] = true;
            for o in 0..r.outputs as usize {
                failed[r.first as usize + o] = Some(e.clone());
                log.values[r.first as usize + o].fail(e.clone());
            }
        }
    }
    let bad: HashMap<u64, Error> = log.writes.iter().filter_map(|w| failed[w.slot as usize].clone().map(|e| (w.group, e))).collect();
    for w in log.writes.iter().rev() {
        if bad.contains_key(&w.group) {
            w.cell.withdraw(&log.values[w.slot as usize], &w.previous, w.since);
        }
    }
    log.writes.retain(|w| !bad.contains_key(&w.group));
    for (group, e) in bad {
        suppress(group, e);
    }
    rerecord(log, 0, |k| !gone[k]);
}
/// The device is lost: all that is pending on it fails, and no cell is written.
fn abandon(log: &mut Log, e: &Error) {
    for r in log.records.iter().filter(|r| !matches!(r.op, Op::Input)) {
        for value in &log.values[r.first as usize..][..r.outputs as usize] {
            value.fail(e.clone());
        }
    }
    for w in log.writes.iter().rev() {
        w.cell.withdraw(&log.values[w.slot as usize], &w.previous, w.since);
        suppress(w.group, e.clone());
    }
    log.clear();
}
