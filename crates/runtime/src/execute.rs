//! Replaying a plan: memory is reserved, steps are handed to the device, faults are followed to what they spoiled. Where work
//! is done when `submit` returns, the host looks for faults before the steps that write cells; where it is not, the device
//! does (`asynchronous`). Collectives go on beside the steps (`exchange`).
use crate::{
    Arg, Device, Error, ErrorKind, Op, Origin, Scalar, Stored, Taint, TensorType,
    backend::{Guard, Refused},
    buffer::Buffer,
    kernel::{Culprit, FaultWord, KernelKind, Operand, Step, fault_error},
    plan::{ArgFrom, Place, Plan, PlanStep, PlanStorage, Sized, SizedOperand},
    planted::{Plant, is},
    recycle::{self, SpareList, SpareLists, emptied},
    stats::count,
    taint::positioned,
};
mod asynchronous;
mod dependence;
mod direct;
mod exchange;
mod frozen;
use asynchronous::{Awaiting, Guards};
pub(crate) use dependence::{Dependence, Known};
pub use direct::Direct;
use exchange::Exchanges;
pub use frozen::FrozenPlans;
pub(crate) use frozen::FrozenSlot;
use smallvec::{SmallVec, smallvec};
use std::{
    cell::RefCell,
    ops::{Deref, Range},
    sync::Arc,
};

/// What came out of a replay.
pub struct Outcome {
    own: Buffers,
    /// Which of the plan's own memory a skipped step did not write; empty if none was skipped.
    suppressed: Vec<bool>,
    /// the error found in data behind each value of the graph, if any was found at all
    pub taints: Option<Vec<Option<Error>>>,
    /// what the device still looks for
    awaited: Option<Awaiting>,
}
impl Outcome {
    fn is_suppressed(&self, own: usize) -> bool {
        self.suppressed.get(own).is_some_and(|w| *w)
    }
    /// What is known of the data behind a value in some memory of the plan's own.
    fn taint(&self, value: u32, own: Option<u32>) -> Option<Taint> {
        let known = self.taints.as_ref().and_then(|t| t[value as usize].clone()).map(Taint::Known);
        known.or_else(|| self.awaited.as_ref()?.taint(value, own))
    }
    /// What became of write number k.
    pub fn written(&self, write: usize) -> &WriteFate {
        self.awaited.as_ref().and_then(|a| a.written.get(write)).unwrap_or(&WriteFate::Known)
    }
    /// Why write number k is not made. Waits for the device.
    pub fn fault_of(&self, write: usize) -> Option<Error> {
        self.awaited.as_ref()?.fault_of(write)
    }
}
/// The memory of a replay.
pub struct Buffers {
    list: Vec<Arc<Buffer>>,
    /// Is it that of a run whose steps have memory of their own, and only what outlives it is here?
    is_frozen: bool,
}
impl Buffers {
    fn new() -> Buffers {
        Buffers { list: recycle::take(&BUFFERS), is_frozen: false }
    }
}
impl Deref for Buffers {
    type Target = [Arc<Buffer>];
    fn deref(&self) -> &[Arc<Buffer>] {
        &self.list
    }
}
impl Drop for Buffers {
    fn drop(&mut self) {
        self.list.drain(..).for_each(Buffer::release);
        recycle::give_back(&BUFFERS, std::mem::take(&mut self.list));
    }
}
/// Whether each step found a fault.
fn words(plan: &Plan) -> SpareList<Vec<FaultWord>> {
    let mut words = SpareList::take(&WORDS);
    words.resize_with(if plan.faultable { plan.steps.len() } else { 0 }, FaultWord::default);
    words
}
// The lists of a replay.
thread_local! {
    static BUFFERS: SpareLists<Vec<Arc<Buffer>>> = const { RefCell::new(Vec::new()) };
    static WORDS: SpareLists<Vec<FaultWord>> = const { RefCell::new(Vec::new()) };
    static OPERANDS: SpareLists<Vec<Operand<'static>>> = const { RefCell::new(Vec::new()) };
    static STEPS: SpareLists<Vec<Step<'static>>> = const { RefCell::new(Vec::new()) };
    static ARGS: SpareLists<Vec<Scalar>> = const { RefCell::new(Vec::new()) };
}
/// A run that failed.
pub struct Failed {
    /// why
    pub error: Error,
    /// the records of the steps that the device had at once, one of which it was; none where it was no step
    pub records: SmallVec<[usize; 4]>,
    /// It failed among the steps that write cells.
    pub is_late: bool,
}
impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed { error, records: SmallVec::new(), is_late: false }
    }
}
impl Failed {
    fn late(self) -> Failed {
        Failed { is_late: true, ..self }
    }
}
/// How many steps a device gets at once.
const BATCH: usize = 32;
/// What a run asks whoever has it run: records are known by their numbers alone here.
pub trait Caller {
    /// The argument of a record in this run.
    fn arg(&self, record: u32) -> Arg;
    /// The op that a record applied.
    fn op(&self, record: u32) -> Culprit;
    /// The line that a record was applied at.
    fn origin(&self, record: u32) -> Origin;
    /// The values that cells are written with, in order. Asked before the steps that do it, if an error was found in data or
    /// may yet be.
    fn writes(&self) -> Vec<Write> {
        Vec::new()
    }
    /// Is somebody to see each step by itself?
    fn is_watched(&self) -> bool {
        false
    }
    /// Hands steps to the device; `chosen` are their numbers in the plan. Who watches does it here.
    ///
    /// # Errors
    /// Those of the backend.
    fn submit(&self, replay: &Replay<'_>, steps: &[Step<'_>], _chosen: &[usize]) -> Result<(), Refused> {
        replay.hand_over(steps)
    }
}
/// A value that is to be a cell's. Writes of one group are all made or none.
pub struct Write {
    /// a number that tells cells apart
    pub cell: u64,
    /// the value
    pub new: New,
    /// with which others it is made or not
    pub group: u64,
    /// what the cell holds if it is not made
    pub old: Old,
}
/// Where the new value of a cell comes from.
pub enum New {
    /// a value of the plan's graph
    Value(u32),
    /// It was in memory before the run.
    Stored(TensorType, Stored),
    /// not in memory
    Absent,
}
impl Write {
    fn value(&self) -> Option<u32> {
        if let New::Value(v) = self.new { Some(v) } else { None }
    }
}
/// What became of a write.
pub enum WriteFate {
    /// It is made unless an error is known.
    Known,
    /// The device says. The cell holds what lies here, the new value or the old one.
    Left(Stored),
    /// The device says, and has no old value to go back to: the host has to look at the new value's taint.
    Unknown,
}
/// Where the old value of a cell is.
pub enum Old {
    /// a value of the plan's graph
    Value(u32),
    /// in memory
    Stored(Stored),
    /// not in memory
    Absent,
}
/// The values that may not be written because of an error behind one of their group.
fn suppressed_writes(writes: &[Write], taints: &[Option<Error>]) -> Vec<bool> {
    let bad = |w: &&Write| w.value().is_some_and(|v| taints.get(v as usize).is_some_and(Option::is_some));
    let groups: Vec<u64> = writes.iter().filter(bad).map(|w| w.group).collect();
    let mut suppressed = vec![false; taints.len()];
    for v in writes.iter().filter(|w| groups.contains(&w.group)).filter_map(Write::value) {
        suppressed[v as usize] = true;
    }
    suppressed
}

/// A plan bound to memory: one run of it.
pub struct Replay<'a> {
    /// what runs
    pub plan: &'a Arc<Plan>,
    /// its sizes
    pub sized: &'a Arc<Sized>,
    /// where the inputs lie; their strides are the plan's, by its key
    pub inputs: &'a [&'a Stored],
    /// where it runs
    pub device: Device,
    /// who has it run
    pub caller: &'a dyn Caller,
}

/// What a run's steps have to do with bad data.
#[derive(Clone, Copy, Default)]
struct RunFaults<'r> {
    /// by step: where it reports, if the host looks
    words: &'r [FaultWord],
    /// steps that are left out
    skip: &'r [usize],
    /// if the device looks
    guards: Option<&'r Guards>,
}
pub(super) static NO_FAULT: FaultWord = FaultWord::none();

impl Replay<'_> {
    /// Runs the steps in memory that was reserved.
    ///
    /// # Errors
    /// A lost device; memory that a step asked for itself. The inputs are as they were, but for [`Replay::overwritten`].
    pub fn run(&self, own: Buffers) -> Result<Outcome, Failed> {
        if let Some(device) = self.device.asynchronous()
            && self.is_to_await()
        {
            return self.run_asynchronous(device, own);
        }
        let own = match own.is_frozen {
            true => match self.run_clean_frozen(&own)? {
                true => return Ok(Outcome { own, suppressed: Vec::new(), taints: None, awaited: None }),
                false => self.reserve_plain()?,
            },
            false => own,
        };
        let words = &*words(self.plan);
        let mut exchanges = Exchanges::default();
        self.submit(0..self.plan.late, &own, &RunFaults { words, ..RunFaults::default() }, &mut exchanges)?;
        exchanges.wait_for_all(self)?;
        let spoiled = words.iter().any(|w| w.get().is_some()) || !self.untainted();
        let taints = spoiled.then(|| self.taints(words));
        let (suppressed, skip) = taints.as_ref().map_or_else(Default::default, |taints| self.suppressed(&own, taints));
        let run = RunFaults { words, skip: &skip, ..RunFaults::default() };
        self.submit(self.plan.late..self.plan.steps.len(), &own, &run, &mut exchanges).map_err(Failed::late)?;
        exchanges.finish(self).map_err(Failed::late)?;
        let late_fault = !spoiled && words.iter().any(|w| w.get().is_some());
        let taints = if late_fault { Some(self.taints(words)) } else { taints };
        Ok(Outcome { own, suppressed, taints, awaited: None })
    }
    /// Which memory stays unwritten for errors that are known, and which steps are left out for it.
    fn suppressed(&self, own: &[Arc<Buffer>], taints: &[Option<Error>]) -> (Vec<bool>, Vec<usize>) {
        let (mut suppressed, mut skip) = (vec![false; own.len()], Vec::new());
        {
            let bad = suppressed_writes(&self.caller.writes(), taints);
            for (at, s) in self.plan.steps.iter().enumerate().skip(self.plan.late) {
                let g = &self.plan.graph;
                let spoils = |v: u32| bad[v as usize] || matches!(self.plan.storage[v as usize], PlanStorage::Own(m) if suppressed[m as usize]);
                if s.outputs.iter().chain(&s.inputs).any(|u| spoils(u.value(g))) {
                    skip.push(at);
                    for o in &s.outputs {
                        if let PlanStorage::Own(m) = self.plan.storage[o.value(g) as usize] {
                            suppressed[m as usize] = true;
                        }
                    }
                }
            }
        }
        (suppressed, skip)
    }
    /// Hands steps to the device: on an asynchronous one behind the work that they wait for.
    ///
    /// # Errors
    /// Those of the backend.
    #[inline]
    pub fn hand_over(&self, steps: &[Step<'_>]) -> Result<(), Refused> {
        match self.device.asynchronous() {
            None => Ok(self.device.backend().submit(steps)?),
            Some(device) => asynchronous::hand_over(device, steps),
        }
    }
    /// The memory of published value number k; `None`: its step was suppressed.
    pub fn published(&self, outcome: &Outcome, k: usize) -> Option<Stored> {
        let (v, place) = (self.plan.publish[k].1 as usize, &self.sized.published[k]);
        let (buffer, input, own) = match self.plan.storage[v] {
            PlanStorage::Own(m) if !outcome.is_suppressed(m as usize) => (&outcome.own[m as usize], None, Some(m)),
            PlanStorage::Input(i) => self.inputs.get(i as usize).map(|b| (&b.buffer, Some(*b), None))?,
            _ => return None,
        };
        let taint = outcome.taint(v as u32, own);
        let shape = &self.sized.shapes[k];
        Some(Stored::new(buffer.clone(), shape, self.offset(place, input), &place.layout.strides, taint))
    }
    /// The inputs whose buffer now holds something else.
    pub fn taken<'b>(&'b self, outcome: &'b Outcome) -> impl Iterator<Item = u32> + 'b {
        self.plan.own.iter().enumerate().filter(|(m, _)| !outcome.is_suppressed(*m)).filter_map(|(_, o)| o.taken)
    }

    /// The inputs that a run which failed may have overwritten: destinations of updates, taken over; old values of cells that ranks
    /// update together.
    pub fn overwritten(&self, failed: &Failed) -> impl Iterator<Item = u32> + '_ {
        let is_late = failed.is_late && self.plan.exchanges_late;
        self.plan.own.iter().filter(move |o| is_late || (o.first as usize) < self.plan.asks_until).filter_map(|o| o.taken)
    }

    /// All memory before the first step: if it cannot be had, nothing has run.
    pub fn reserve(&self) -> Result<Buffers, Error> {
        match self.reserve_frozen()? {
            Some(own) => Ok(own),
            None => self.reserve_plain(),
        }
    }
    fn reserve_plain(&self) -> Result<Buffers, Error> {
        let mut blocks = Buffers::new();
        for &(bytes, value) in &self.sized.blocks {
            blocks.list.push(self.memory(bytes, value)?);
        }
        let mut own = Buffers::new();
        for (o, &block) in self.plan.own.iter().zip(&self.sized.block) {
            own.list.push(match o.taken {
                Some(i) => self.inputs[i as usize].buffer.clone(),
                None => blocks[block as usize].clone(),
            });
        }
        Ok(own)
    }
    /// The value of an argument in this run.
    #[inline]
    pub(super) fn argument(&self, from: ArgFrom) -> Arg {
        match from {
            ArgFrom::Record(r) => self.caller.arg(r),
            ArgFrom::Body(a) => a,
        }
    }
    /// New memory of the plan's own, number `m`.
    #[inline]
    pub(super) fn new_memory(&self, m: usize) -> Result<Arc<Buffer>, Error> {
        self.memory(self.sized.bytes[m], self.plan.own[m].value)
    }
    /// Memory for a value; that it cannot be had is told of the op that makes it.
    #[inline]
    fn memory(&self, bytes: usize, value: u32) -> Result<Arc<Buffer>, Error> {
        self.device.pool().take(self.device, bytes).map_err(|kind| {
            let record = self.plan.graph.node_of(value).record;
            Error::at(self.culprit(record).name, kind, self.caller.origin(record))
        })
    }
    /// What went wrong in a step.
    pub(super) fn failed(&self, step: &PlanStep, kind: ErrorKind) -> Error {
        let node = &self.plan.graph.nodes[step.node as usize];
        let kind = match kind {
            ErrorKind::OutOfMemory { asked, .. } => self.device.pool().shortage(asked),
            kind => kind,
        };
        Error::at(node.op.name(), kind, self.caller.origin(node.record))
    }
    /// As `failed`, of the last of some steps that the device had at once.
    pub(super) fn failed_among(&self, chosen: &[usize], last: usize, refused: Refused) -> Failed {
        let Refused { step, kind } = refused;
        // Where the device says which it was, it was that one.
        if let Some(&at) = step.and_then(|step| chosen.get(step)) {
            return Failed { error: self.failed(&self.plan.steps[at], kind), records: smallvec![self.record_of(&self.plan.steps[at])], is_late: false };
        }
        let records = chosen.iter().map(|&at| self.record_of(&self.plan.steps[at])).collect();
        Failed { error: self.failed(&self.plan.steps[last], kind), records, is_late: false }
    }
    fn record_of(&self, step: &PlanStep) -> usize {
        self.plan.graph.nodes[step.node as usize].record as usize
    }
    pub(super) fn no_memory(&self, step: &PlanStep) -> Error {
        self.failed(step, ErrorKind::Internal("a step without memory".into()))
    }
    /// Where the first element is: a place in an input is relative to where the input begins.
    #[inline]
    pub(super) fn offset(&self, place: &Place, input: Option<&Stored>) -> usize {
        let mut offset = place.layout.offset as isize;
        for (from, stride) in &place.moves {
            if let (Arg::Start(s), false) = (self.argument(*from), is(Plant::IgnoredOffset)) {
                offset += s as isize * stride;
            }
        }
        // Relative to an input the offset may be negative: a flip of a flipped one starts before it.
        (offset + input.map_or(0, |b| b.offset as isize)) as usize
    }
    #[inline]
    pub(super) fn operand<'b>(&'b self, o: &'b SizedOperand, own: &'b [Arc<Buffer>]) -> Option<Operand<'b>> {
        let (buffer, input): (&Buffer, _) = match o.storage {
            PlanStorage::Own(m) => (own.get(m as usize)?, None),
            PlanStorage::Input(i) => self.inputs.get(i as usize).map(|s| (&*s.buffer, Some(*s)))?,
            PlanStorage::None => return None,
        };
        Some(Operand { buffer, shape: o.shape, offset: self.offset(&o.place, input), strides: &o.place.layout.strides, dtype: o.dtype, dense: o.dense })
    }
    /// Hands the steps of the range to the device, some at a time: their operands are laid out side by side first.
    fn submit<'b>(&'b self, range: Range<usize>, own: &'b [Arc<Buffer>], run: &RunFaults<'_>, exchanges: &mut Exchanges<'b>) -> Result<(), Failed> {
        let mut from = range.start;
        while from < range.end {
            from = self.submit_some(from..range.end, own, run, exchanges, BATCH, &mut |steps, chosen| self.caller.submit(self, steps, chosen))?;
        }
        Ok(())
    }
    /// Submits steps from the start of the range; returns the first that is still to be run.
    fn submit_some<'b>(
        &'b self,
        range: Range<usize>,
        own: &'b [Arc<Buffer>],
        run: &RunFaults<'_>,
        exchanges: &mut Exchanges<'b>,
        most: usize,
        submit: &mut dyn FnMut(&[Step<'_>], &[usize]) -> Result<(), Refused>,
    ) -> Result<usize, Failed> {
        let mut operands: Vec<Operand<'b>> = emptied(recycle::take(&OPERANDS));
        let mut args = SpareList::take(&ARGS);
        let mut chosen: SmallVec<[usize; BATCH]> = SmallVec::new();
        let (mut next, mut fused, mut collective) = (range.start, 0, None);
        while next < range.end && chosen.len() < most {
            let (at, s, z) = (next, &self.plan.steps[next], &self.sized.steps[next]);
            next += 1;
            if run.skip.contains(&at) {
                continue;
            }
            let first = operands.len();
            for o in z.inputs.iter().chain(&z.outputs) {
                operands.push(self.operand(o, own).ok_or_else(|| self.no_memory(s))?);
            }
            if exchanges.are_awaited_by(&operands[first..]) {
                if !chosen.is_empty() {
                    // What comes before it goes first.
                    operands.truncate(first);
                    next = at;
                    break;
                }
                exchanges.wait_for(self, &operands[first..])?;
            }
            if let (KernelKind::Copy, [from, to]) = (&s.kernel.kind, &operands[first..]) {
                let op = &self.plan.graph.nodes[s.node as usize].op;
                // It copies nothing, also where what it gives comes to lie where its input lay.
                if let Op::Collective { kind, group } = op {
                    collective = Some((at, (*kind, group.clone()), *from, *to));
                    operands.truncate(first);
                    break;
                }
                if std::ptr::eq(from.buffer, to.buffer) && from.offset == to.offset && from.strides == to.strides {
                    // The destination of an update was taken over: nothing to copy.
                    count(|c| c.donated += 1);
                    operands.truncate(first);
                    continue;
                }
                if matches!(op, Op::UpdateSlice { .. } | Op::Scatter { .. }) && !s.updates {
                    count(|c| c.copies += 1);
                }
            }
            for (k, a) in s.args.iter().enumerate() {
                args.push(match self.argument(*a) {
                    Arg::Scalar(v) => crate::planted::stale(Arc::as_ptr(self.plan) as usize, at, k, v),
                    _ => Scalar::Int(0),
                });
            }
            fused += s.ops.saturating_sub(1) as u64;
            chosen.push(at);
        }
        if let Some(&last) = chosen.last() {
            let (mut operands, mut args) = (&*operands, &args[..]);
            let mut steps: Vec<Step<'_>> = emptied(recycle::take(&STEPS));
            for &at in &chosen {
                let (s, z) = (&self.plan.steps[at], &self.sized.steps[at]);
                let (inputs, rest) = operands.split_at(z.inputs.len());
                let (outputs, rest) = rest.split_at(z.outputs.len());
                let (own_args, rest_args) = args.split_at(s.args.len());
                (operands, args) = (rest, rest_args);
                let (fault, guard) = (run.words.get(at).unwrap_or(&NO_FAULT), run.guards.map_or(Guard::NONE, |g| g.of(at)));
                steps.push(Step { kernel: &s.kernel, space: z.space, inputs, outputs, args: own_args, fault, guard });
            }
            count(|c| {
                c.kernels += steps.len() as u64;
                c.fused += fused;
            });
            submit(&steps, &chosen).map_err(|k| self.failed_among(&chosen, last, k))?;
            recycle::give_back(&STEPS, emptied(steps));
        }
        if let Some((at, collective, from, to)) = collective {
            exchanges.begin(self, at, collective, (&from, to), run.words)?;
        }
        recycle::give_back(&OPERANDS, emptied(operands));
        Ok(next)
    }
    /// Follows every fault to the values computed from it. The slow path: only when something was found.
    fn taints(&self, words: &[FaultWord]) -> Vec<Option<Error>> {
        let g = &self.plan.graph;
        let mut taints: Vec<Option<Error>> = vec![None; g.vals.len()];
        for (k, (v, _)) in g.inputs.iter().enumerate() {
            taints[*v as usize] = self.inputs.get(k).and_then(|s| s.known_fault());
        }
        for ((s, z), w) in self.plan.steps.iter().zip(&self.sized.steps).zip(words) {
            if let Some(fault) = w.get().cloned().filter(|_| !is(Plant::LostFault)) {
                let fault = positioned(fault, z.index_of(&s.kernel.kind).as_ref());
                for (v, node) in self.plan.culprits(s) {
                    let x = &g.nodes[node as usize];
                    taints[v as usize] = Some(fault_error(self.culprit(x.record), fault.clone(), self.caller.origin(x.record)));
                }
            }
        }
        for x in &g.nodes {
            let from = x.inputs.iter().find_map(|&i| taints[i as usize].clone());
            if let Some(e) = from {
                for o in x.first..x.first + x.outputs {
                    taints[o as usize].get_or_insert_with(|| e.clone());
                }
            }
        }
        taints
    }
    /// What the user called: the op that was recorded, not those of its body.
    fn culprit(&self, record: u32) -> Culprit {
        self.caller.op(record)
    }
}
