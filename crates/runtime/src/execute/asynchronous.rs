//! A run that nobody looks at while it is under way. Each step that may find bad data has a word on the device; steps that write
//! cells where the old values lie are left out by the device if a word is raised that forbids it; a cell that got memory of its
//! own gets a predicated copy of the old bits behind them. So whatever was found, each cell's new value lies in its memory,
//! or the old one does, and the next run may go on. The host learns which when somebody reads what may be spoiled
//! ([`Taint`]).
//!
//! Which word forbids what: a group of writes depends on every seed behind one of its values. What a step that writes cells
//! leaves unwritten spoils what reads that memory.
use super::{
    Buffers, Dependence, Exchanges, Failed, New, Old, Outcome, Replay, RunFaults, Write, WriteFate,
    dependence::{AwaitedInput, From},
    frozen::FrozenTurn,
    suppressed_writes,
};
use crate::{
    Error, ErrorKind, Layout, Shape, Stored, Taint, TensorType,
    backend::{Asynchronous, Event, Guard, Inherited, Queue, Refused, When, Words},
    buffer::{Buffer, Events, also},
    kernel::{FaultWord, Kernel, KernelKind, Operand, Step},
    plan::PlanStorage,
    taint::{Awaited, Faults, Seed, Seeds, TaintSource},
};
use smallvec::SmallVec;
use std::{
    borrow::Cow,
    cell::Cell,
    collections::HashMap,
    sync::{Arc, LazyLock},
};

/// What steps have to do with the run's words.
pub(super) struct Guards {
    pub words: Arc<dyn Words>,
    pub dependence: Arc<Dependence>,
    pub rules: Arc<WriteRules>,
}
impl Guards {
    pub fn of(&self, step: usize) -> Guard<'_> {
        let forbidden = self.rules.forbidden.get(step).map_or(&[][..], |words| words);
        let when = if forbidden.is_empty() { When::Always } else { When::Clean(forbidden) };
        Guard { words: Some(&self.words), reports: self.dependence.reports[step], when }
    }
}
/// What the device still looks for when a run returns.
pub(super) struct Awaiting {
    faults: Arc<Faults>,
    dependence: Arc<Dependence>,
    rules: Arc<WriteRules>,
    /// by write
    pub written: Vec<WriteFate>,
}
/// What the writes of a run have to do with its seeds: worked out once for runs that write alike.
pub(super) struct WriteRules {
    /// how they write
    kinds: Vec<WriteKind>,
    /// by value that is written: what leaves its group out
    groups: Vec<(Option<u32>, Seeds)>,
    /// by step: the words that forbid it
    forbidden: Vec<Vec<u32>>,
    /// by memory of the plan's own: what leaves it unwritten
    unwritten: Vec<Seeds>,
    /// by write: what leaves it out
    seeds: Vec<Seeds>,
    /// by write: does its value lie in memory of the run's own that no other value is read from afterwards?
    is_its_own: Vec<bool>,
}
/// What of a write says how it depends on the others: cells and groups by their first write.
#[derive(Clone, Copy, PartialEq, Eq)]
struct WriteKind {
    value: Option<u32>,
    cell: u32,
    group: u32,
    old: Option<u32>,
}
fn kinds_of(writes: &[Write]) -> Vec<WriteKind> {
    let mut cells: HashMap<u64, u32> = HashMap::with_capacity(writes.len());
    let mut groups: SmallVec<[(u64, u32); 4]> = SmallVec::new();
    let kind = |(k, w): (usize, &Write)| {
        let k = k as u32;
        let cell = *cells.entry(w.cell).or_insert(k);
        let group = groups.iter().find(|g| g.0 == w.group).map(|g| g.1).unwrap_or_else(|| {
            groups.push((w.group, k));
            k
        });
        WriteKind { value: w.value(), cell, group, old: if let Old::Value(v) = w.old { Some(v) } else { None } }
    };
    writes.iter().enumerate().map(kind).collect()
}
/// So many ways to write are remembered of a dependence.
const MOST_RULES: usize = 4;
impl Awaiting {
    /// Why a write is not made. Waits for the device.
    pub fn fault_of(&self, write: usize) -> Option<Error> {
        let (_, seeds) = self.rules.groups.get(write)?;
        Taint::Awaited(Box::new(Awaited { faults: self.faults.clone(), seeds: seeds.clone() })).told()
    }
    pub fn taint(&self, value: u32, own: Option<u32>) -> Option<Taint> {
        let mut seeds = self.dependence.of[value as usize].clone();
        if let Some(unwritten) = own.and_then(|m| self.rules.unwritten.get(m as usize)) {
            seeds.extend(unwritten);
        }
        self.rules.groups.iter().filter(|(v, _)| *v == Some(value)).for_each(|(_, group)| seeds.extend(group));
        (!seeds.is_empty()).then(|| Taint::Awaited(Box::new(Awaited { faults: self.faults.clone(), seeds })))
    }
}

thread_local! {
    /// The last work that a run handed over.
    static LAST: Cell<Event> = const { Cell::new(Event::DONE) };
}
/// Hands steps to the compute queue, behind what wrote their inputs and what uses their outputs.
pub(super) fn hand_over(device: &dyn Asynchronous, steps: &[Step<'_>]) -> Result<(), Refused> {
    let mut after = Events::new();
    for step in steps {
        step.inputs.iter().for_each(|o| also(&mut after, o.buffer.uses().written()));
        step.outputs.iter().flat_map(|o| o.buffer.uses().all()).for_each(|event| also(&mut after, event));
    }
    let event = device.submit(Queue::Compute, steps, &after)?;
    if !event.is_done() {
        for step in steps {
            step.inputs.iter().for_each(|o| o.buffer.uses().read_by(event));
            step.outputs.iter().for_each(|o| o.buffer.uses().written_by(event));
        }
        LAST.set(event);
    }
    Ok(())
}

impl Replay<'_> {
    /// Is anything to be found out while it runs?
    pub(super) fn is_to_await(&self) -> bool {
        for input in self.inputs {
            if let Some(Taint::Awaited(a)) = &input.taint {
                a.faults.bound();
            }
        }
        self.plan.faultable || self.inputs.iter().any(|s| s.taint.as_ref().is_some_and(|t| t.known().is_none()))
    }
    /// As `run`, on a device that looks for faults itself.
    pub(super) fn run_asynchronous(&self, device: &dyn Asynchronous, own: Buffers) -> Result<Outcome, Failed> {
        // What is known already is as on any device. It is asked for last: what another thread finds out in between is then
        // looked for by both.
        let (awaited, inherited) = self.awaited();
        let taints = self.inputs.iter().any(|s| s.known_fault().is_some()).then(|| self.taints(&[]));
        let (suppressed, skip) = taints.as_ref().map_or_else(Default::default, |taints| self.suppressed(&own, taints));
        let dependence = self.plan.dependence(&awaited);
        let here = |kind| self.anywhere(kind);
        let writes = self.caller.writes();
        let rules = self.rules(&dependence, &writes);
        let known = taints.as_ref().map(|taints| suppressed_writes(&writes, taints));
        let bad: Vec<u64> = writes.iter().filter(|w| w.value().is_some_and(|v| known.as_ref().is_some_and(|bad| bad[v as usize]))).map(|w| w.group).collect();
        let seeds: Cow<'_, [Seeds]> = match bad.is_empty() {
            true => Cow::Borrowed(&rules.seeds),
            false => writes.iter().zip(&rules.seeds).map(|(w, seeds)| if bad.contains(&w.group) { Seeds::default() } else { seeds.clone() }).collect(),
        };
        LAST.set(Event::DONE);
        let turn = if own.is_frozen && taints.is_none() { self.frozen_turn(device, &dependence, &rules)? } else { None };
        let own = if own.is_frozen && turn.is_none() { self.reserve_plain()? } else { own };
        let (written, back, guards) = match turn {
            Some(turn) => self.run_frozen(turn, &own, (&writes, &seeds), &inherited, (&dependence, &rules))?,
            None => {
                let words = device.words(dependence.words).map_err(here)?;
                for i in &inherited {
                    LAST.set(device.inherit(&words, i.number, i.from, &i.of, &[i.after]).map_err(here)?);
                }
                let guards = Guards { words, dependence: dependence.clone(), rules: rules.clone() };
                let (written, back) = self.takes_back(&own, &writes, &seeds, &dependence, &rules)?;
                let mut exchanges = Exchanges::default();
                let run = RunFaults { words: &[], skip: &skip, guards: Some(&guards) };
                self.submit(0..self.plan.late, &own, &run, &mut exchanges)?;
                exchanges.wait_for_all(self)?;
                self.submit(self.plan.late..self.plan.steps.len(), &own, &run, &mut exchanges).map_err(Failed::late)?;
                exchanges.finish(self).map_err(Failed::late)?;
                (written, back, guards)
            }
        };
        self.copy_all(&back, Some(&guards))?;
        let mut suppresses = Seeds::default();
        seeds.iter().for_each(|seeds| suppresses.extend(seeds));
        let Guards { words, .. } = guards;
        let after = LAST.get();
        let reading = device.read_words(&words, after).map_err(here)?;
        let is_outstanding = !suppresses.is_empty();
        let faults = Faults::new(words, after, self.seeds(&dependence), suppresses, reading);
        if is_outstanding {
            self.device.outstanding().add(faults.clone());
        }
        Ok(Outcome { own, suppressed, taints, awaited: Some(Awaiting { faults, dependence, rules, written }) })
    }
    /// The inputs of which nobody knows yet, and what their words come from.
    fn awaited(&self) -> (SmallVec<[AwaitedInput; 4]>, SmallVec<[Inherited<'_>; 4]>) {
        let (mut inputs, mut inherited): (SmallVec<[AwaitedInput; 4]>, SmallVec<[Inherited<'_>; 4]>) = Default::default();
        let mut of: SmallVec<[&Awaited; 4]> = SmallVec::new();
        for (input, stored) in (0..).zip(self.inputs) {
            let Some(Taint::Awaited(a)) = stored.taint.as_ref().filter(|t| t.known().is_none()) else { continue };
            let known = of.iter().position(|o| Arc::ptr_eq(&o.faults, &a.faults) && o.seeds == a.seeds);
            let word = known.unwrap_or_else(|| {
                inherited.push(Inherited { number: of.len() as u32, from: &a.faults.words, of: a.faults.words_of(&a.seeds), after: a.faults.after });
                of.push(a);
                of.len() - 1
            });
            inputs.push(AwaitedInput { input, word: word as u32 });
        }
        (inputs, inherited)
    }
    /// The same by frozen steps.
    fn run_frozen(
        &self,
        turn: FrozenTurn<'_>,
        own: &Buffers,
        (writes, seeds): (&[Write], &[Seeds]),
        inherited: &[Inherited<'_>],
        (dependence, rules): (&Arc<Dependence>, &Arc<WriteRules>),
    ) -> Result<(Vec<WriteFate>, Vec<Copy>, Guards), Failed> {
        let (written, back) = self.takes_back(own, writes, seeds, dependence, rules)?;
        let failed = |kind| Failed::from(self.anywhere(kind)).late();
        let (event, words) = turn.run(self, own, inherited).map_err(failed)?;
        if !event.is_done() {
            LAST.set(event);
        }
        let words = words.ok_or_else(|| failed(ErrorKind::Internal("a frozen run that tells of no fault".into())))?;
        Ok((written, back, Guards { words, dependence: dependence.clone(), rules: rules.clone() }))
    }
    /// A frozen run in which nothing bad can be found. Did it run?
    pub(super) fn run_clean_frozen(&self, own: &Buffers) -> Result<bool, Failed> {
        let Some(device) = self.device.asynchronous().filter(|_| self.untainted()) else { return Ok(false) };
        let dependence = self.plan.dependence(&[]);
        let rules = self.rules(&dependence, &[]);
        let Some(turn) = self.frozen_turn(device, &dependence, &rules)? else { return Ok(false) };
        let (event, _) = turn.run(self, own, &[]).map_err(|kind| Failed::from(self.anywhere(kind)).late())?;
        if !event.is_done() {
            LAST.set(event);
        }
        Ok(true)
    }
    /// The rules for these writes.
    fn rules(&self, dependence: &Arc<Dependence>, writes: &[Write]) -> Arc<WriteRules> {
        let kinds = kinds_of(writes);
        let mut known = dependence.rules.lock();
        if let Some(found) = known.iter().find(|r| r.kinds == kinds) {
            return found.clone();
        }
        if known.len() >= MOST_RULES {
            known.remove(0);
        }
        let groups: Vec<(Option<u32>, Seeds)> = writes.iter().map(|w| (w.value(), group_of(writes, w.group, dependence))).collect();
        let (forbidden, unwritten) = self.forbidden(dependence, &groups, self.plan.own.len());
        let seeds = groups.iter().map(|(v, seeds)| self.left_out(*v, seeds, &unwritten)).collect();
        let is_its_own = (0..writes.len()).map(|k| writes[k].value().is_some_and(|v| self.is_its_own(writes, k, v))).collect();
        let new = Arc::new(WriteRules { kinds, groups, forbidden, unwritten, seeds, is_its_own });
        known.push(new.clone());
        new
    }
    /// An error of no step in particular: it is told of the first.
    pub(super) fn anywhere(&self, kind: ErrorKind) -> Error {
        match self.plan.steps.first() {
            Some(step) => self.failed(step, kind),
            None => Error::new("run", kind),
        }
    }
    /// By step, the words that forbid it; by memory, the seeds that leave it unwritten.
    fn forbidden(&self, dependence: &Dependence, groups: &[(Option<u32>, Seeds)], memories: usize) -> (Vec<Vec<u32>>, Vec<Seeds>) {
        let (plan, g) = (self.plan, &self.plan.graph);
        let mut by_value = vec![Seeds::default(); g.vals.len()];
        groups.iter().filter_map(|(v, seeds)| Some((v.as_ref()?, seeds))).for_each(|(v, seeds)| by_value[*v as usize].extend(seeds));
        let mut unwritten = vec![Seeds::default(); memories];
        let mut forbidden = vec![Vec::new(); plan.steps.len()];
        for (at, s) in plan.steps.iter().enumerate() {
            let memory = |v: u32| if let PlanStorage::Own(m) = plan.storage[v as usize] { Some(m as usize) } else { None };
            // What has memory of its own may be written in any case: the old bits are copied behind it.
            let overwrites = s.outputs.iter().filter_map(|o| memory(o.value(g))).any(|m| plan.own[m].taken.is_some());
            if at < plan.late && !overwrites {
                continue;
            }
            let mut seeds = Seeds::default();
            for v in s.outputs.iter().chain(&s.inputs).map(|u| u.value(g)) {
                seeds.extend(&by_value[v as usize]);
                if let Some(m) = memory(v) {
                    seeds.extend(&unwritten[m]);
                }
            }
            if seeds.is_empty() {
                continue;
            }
            s.outputs.iter().filter_map(|o| memory(o.value(g))).for_each(|m| unwritten[m].extend(&seeds));
            forbidden[at] = words_of(dependence, &seeds);
        }
        (forbidden, unwritten)
    }
    /// What leaves out a write: its group's seeds, and those of a step that makes others too.
    fn left_out(&self, value: Option<u32>, group: &Seeds, unwritten: &[Seeds]) -> Seeds {
        let mut seeds = group.clone();
        if let Some(PlanStorage::Own(m)) = value.map(|v| self.plan.storage[v as usize]) {
            seeds.extend(&unwritten[m as usize]);
        }
        seeds
    }
    /// What each seed is to tell.
    fn seeds(&self, dependence: &Dependence) -> Vec<Seed> {
        let g = &self.plan.graph;
        let what = |from: From| match from {
            From::Input(k) => self.inputs.get(k as usize).and_then(|s| s.taint.clone()).map(TaintSource::Input),
            From::Step { step, node } => {
                let record = g.nodes[node as usize].record;
                let index = self.sized.steps[step as usize].index_of(&self.plan.steps[step as usize].kernel.kind);
                Some(TaintSource::Op { op: self.caller.op(record), origin: self.caller.origin(record), index })
            }
        };
        dependence.sources.iter().filter_map(|s| Some(Seed { word: s.word, what: what(s.from)? })).collect()
    }
    /// What the cells hold behind the run, and the copies that see to it: of the new bits where the value is not the run's own,
    /// of the old bits where the new value has memory of its own. Old bits that a step may overwrite meanwhile are saved first.
    fn takes_back(
        &self,
        own: &Buffers,
        writes: &[Write],
        seeds: &[Seeds],
        dependence: &Dependence,
        rules: &WriteRules,
    ) -> Result<(Vec<WriteFate>, Vec<Copy>), Failed> {
        let (mut written, mut copies, mut saves) = (Vec::new(), Vec::new(), Vec::new());
        for (k, (w, seeds)) in writes.iter().zip(seeds).enumerate() {
            if seeds.is_empty() {
                written.push(WriteFate::Known);
                continue;
            }
            // What an earlier write of this cell left.
            let is_first = rules.kinds.get(k).is_some_and(|kind| kind.cell as usize == k);
            let before = if is_first { None } else { writes[..k].iter().zip(&written).rev().find(|(other, _)| other.cell == w.cell) };
            let before = before.and_then(|(_, left)| if let WriteFate::Left(stored) = left { Some(stored.clone()) } else { None });
            let is_saved = before.is_some();
            let Some(mut old) = before.or_else(|| self.old_of(own, &w.old)) else {
                written.push(WriteFate::Unknown);
                continue;
            };
            let (ty, computed, given) = match &w.new {
                New::Value(v) => {
                    let place = self.place_of(own, *v);
                    let is_own = rules.is_its_own.get(k).is_some_and(|own| *own);
                    // The plan's own graph is of the sizes that it was made for.
                    let Some(shape) = self.shape_of(*v) else {
                        written.push(WriteFate::Unknown);
                        continue;
                    };
                    let ty = TensorType { shape, dtype: self.plan.graph.vals[*v as usize].meta.dtype };
                    (ty, place.clone().filter(|_| is_own), place.filter(|_| !is_own))
                }
                New::Stored(ty, stored) => (*ty, None, Some(stored.clone())),
                New::Absent => {
                    written.push(WriteFate::Unknown);
                    continue;
                }
            };
            let words = words_of(dependence, seeds);
            let new = match (computed, given) {
                (Some(computed), _) => computed,
                (None, Some(given)) => {
                    let new = Stored::dense(self.spare(ty.shape.elements() * ty.dtype.size())?);
                    copies.push(Copy { from: given, to: new.clone(), ty, words: Vec::new(), value: w.value() });
                    new
                }
                (None, None) => {
                    written.push(WriteFate::Unknown);
                    continue;
                }
            };
            // Where it lies where the old value lies, that is left as it was.
            if !Arc::ptr_eq(&new.buffer, &old.buffer) || new.layout(&ty.shape) != old.layout(&ty.shape) {
                if matches!(w.old, Old::Stored(_)) && !is_saved && self.is_taken(own, &old) {
                    let saved = Stored { buffer: self.spare(old.buffer.bytes())?, ..old.clone() };
                    saves.push(Copy { from: old, to: saved.clone(), ty, words: Vec::new(), value: w.value() });
                    old = saved;
                }
                copies.push(Copy { from: old, to: new.clone(), ty, words, value: w.value() });
            }
            written.push(WriteFate::Left(Stored { taint: None, ..new }));
        }
        self.copy_all(&saves, None)?;
        Ok((written, copies))
    }
    /// Does the value of write number k lie in memory of the run's own that no other value is read from afterwards?
    fn is_its_own(&self, writes: &[Write], k: usize, value: u32) -> bool {
        let memory = self.plan.storage[value as usize];
        let is_there = |v: u32| self.plan.storage[v as usize] == memory;
        let others = writes.iter().enumerate().filter(|(other, _)| *other != k);
        let is_read = |w: &Write| w.value().is_some_and(is_there) || (w.cell != writes[k].cell && matches!(w.old, Old::Value(v) if is_there(v)));
        matches!(memory, PlanStorage::Own(_))
            && !others.into_iter().any(|(_, w)| is_read(w))
            && !self.plan.publish.iter().any(|(_, v)| *v != value && is_there(*v))
    }
    fn spare(&self, bytes: usize) -> Result<Arc<Buffer>, Failed> {
        self.device.pool().take(self.device, bytes).map_err(|kind| self.anywhere(kind).into())
    }
    /// Is this the memory of an input that a value of the plan took over?
    fn is_taken(&self, own: &Buffers, old: &Stored) -> bool {
        self.plan.own.iter().zip(own.iter()).any(|(o, buffer)| o.taken.is_some() && Arc::ptr_eq(buffer, &old.buffer))
    }
    /// Hands the copies over together.
    fn copy_all(&self, copies: &[Copy], guards: Option<&Guards>) -> Result<(), Failed> {
        static NO_FAULT: FaultWord = FaultWord::none();
        static COPY: LazyLock<Kernel> = LazyLock::new(|| Kernel::new(KernelKind::Copy));
        let Some(first) = copies.first() else { return Ok(()) };
        let layouts: Vec<[Layout; 2]> = copies.iter().map(|c| [&c.from, &c.to].map(|s| s.layout(&c.ty.shape))).collect();
        let operands: Vec<[Operand<'_>; 2]> = copies
            .iter()
            .zip(&layouts)
            .map(|(c, [from, to])| {
                let TensorType { shape, dtype } = c.ty;
                [(&c.from, from), (&c.to, to)].map(|(s, layout)| Operand {
                    buffer: &s.buffer,
                    shape,
                    offset: layout.offset,
                    strides: &layout.strides,
                    dtype,
                    dense: s.is_dense(&shape),
                })
            })
            .collect();
        let steps = copies.iter().zip(&operands).map(|(c, [from, to])| {
            let when = if c.words.is_empty() { When::Always } else { When::Raised(&c.words) };
            let guard = guards.map_or(Guard::NONE, |guards| Guard { words: Some(&guards.words), reports: None, when });
            let (inputs, outputs) = (std::slice::from_ref(from), std::slice::from_ref(to));
            let kernel = guards.map_or(&*COPY, |guards| &guards.dependence.copy);
            Step { kernel, space: c.ty.shape, inputs, outputs, args: &[], fault: &NO_FAULT, guard }
        });
        let steps: Vec<Step<'_>> = steps.collect();
        self.hand_over(&steps).map_err(|Refused { step, kind }| match step.and_then(|k| copies.get(k)).unwrap_or(first).value {
            Some(v) => {
                let record = self.plan.graph.node_of(v).record;
                Error::at(self.caller.op(record).name, kind, self.caller.origin(record)).into()
            }
            None => self.anywhere(kind).into(),
        })
    }
    /// The shape in this run of a value that is handed out.
    fn shape_of(&self, value: u32) -> Option<Shape> {
        self.plan.publish.iter().position(|(_, v)| *v == value).map(|k| self.sized.shapes[k])
    }
    /// Where a value of the plan lies.
    fn place_of(&self, own: &Buffers, value: u32) -> Option<Stored> {
        let k = self.plan.publish.iter().position(|(_, v)| *v == value)?;
        let (place, shape) = (&self.sized.published[k], &self.sized.shapes[k]);
        let (buffer, input): (&Arc<Buffer>, _) = match self.plan.storage[value as usize] {
            PlanStorage::Own(m) => (own.get(m as usize)?, None),
            PlanStorage::Input(i) => self.inputs.get(i as usize).map(|s| (&s.buffer, Some(*s)))?,
            PlanStorage::None => return None,
        };
        Some(Stored::new(buffer.clone(), shape, self.offset(place, input), &place.layout.strides, None))
    }
    fn old_of(&self, own: &Buffers, old: &Old) -> Option<Stored> {
        match old {
            Old::Value(v) => self.place_of(own, *v),
            Old::Stored(stored) => Some(stored.clone()),
            Old::Absent => None,
        }
    }
}
/// A copy for the sake of a cell; with words: only if one of them is raised.
struct Copy {
    from: Stored,
    to: Stored,
    ty: TensorType,
    words: Vec<u32>,
    value: Option<u32>,
}
/// What a group depends on: all that one of its values does.
fn group_of(writes: &[Write], group: u64, dependence: &Dependence) -> Seeds {
    let mut seeds = Seeds::default();
    writes.iter().filter(|w| w.group == group).filter_map(Write::value).for_each(|v| seeds.extend(&dependence.of[v as usize]));
    seeds
}
fn words_of(dependence: &Dependence, seeds: &Seeds) -> Vec<u32> {
    let mut words: Vec<u32> = seeds.iter().filter_map(|seed| dependence.sources.get(seed)).map(|s| s.word).collect();
    words.dedup();
    words
}
