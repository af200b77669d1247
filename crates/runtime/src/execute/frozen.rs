//! Plans that come again and again with their sizes, kept by the device as one piece ([`FrozenSteps`]) over memory of their own.
//!
//! What a run is frozen over: the plan's temporaries, in blocks that stay; inputs that lie where they lay, known by their address
//! (weights, the state of an optimizer: taken over and overwritten in place, as ever); for inputs that lie elsewhere at each
//! run (a batch) a place of their own, to which they are copied. Values that outlive the run are copied out of the blocks to
//! memory of the pool, for whoever holds them may hold them longer than until the next run. Arguments are handed on each time.
//!
//! One plan with its sizes has a [`FrozenSlot`]. Its runs differ in which data somebody still looks at and which cells are written
//! together, so a slot has a few variants over the same memory. Whatever does not fit runs as ever; what does so too often is
//! frozen anew, with a place for what had moved, or given up. A device that is short of memory gets the blocks back
//! ([`FrozenPlans`]).
//!
//! Must not know: what the device makes of the steps; cells.
use super::{Buffers, Dependence, Exchanges, Failed, Guards, Replay, RunFaults, asynchronous::WriteRules};
use crate::{
    Arg, ErrorKind, Scalar, Stored,
    backend::{Asynchronous, Event, FreezeRule, FrozenRun, FrozenSteps, Inherited, Memory, MemoryCopy, Words},
    buffer::{Buffer, Events, also},
    op::Op,
    plan::ArgFrom,
    stats::{count, stats},
};
use parking_lot::{Mutex, MutexGuard, RwLockReadGuard};
use smallvec::SmallVec;
use std::sync::{Arc, Weak};

/// What is frozen of a plan with its sizes.
#[derive(Default)]
pub(crate) struct FrozenSlot(Arc<Mutex<FrozenState>>);
#[derive(Default)]
pub(crate) struct FrozenState {
    /// runs so far, and where the inputs of the last one lay
    runs: u32,
    last: Vec<Option<u64>>,
    /// inputs that were not always where they had been
    moves: Vec<bool>,
    /// runs in a row that did not fit, and how often it was frozen
    unfit: u32,
    times: u32,
    is_off: bool,
    frozen: Option<FrozenPlan>,
}
/// A plan is frozen anew so often, because its inputs lie elsewhere or its device was opened again.
const MOST_TIMES: u32 = 4;
/// So many runs in a row that do not fit are too many.
const MOST_UNFIT: u32 = 3;
/// Runs of one plan over the same memory that differ in what their guards say.
const MOST_VARIANTS: usize = 4;
/// Plans of a device that keep memory; of more, the one that was frozen first goes.
const MOST_PLANS: usize = 8;

/// Memory that stays, and the steps over it.
struct FrozenPlan {
    generation: u32,
    inputs: Vec<FrozenInput>,
    blocks: Vec<Arc<Buffer>>,
    /// the starts of slices, which are in the steps, by record
    starts: Vec<(u32, Arg)>,
    variants: Vec<FrozenVariant>,
    /// the last run
    event: Event,
}
enum FrozenInput {
    /// where it lies always: its address and the element that it begins with
    At(u64, usize),
    /// It is copied here: so many bytes.
    Copied(Arc<Buffer>, usize),
}
struct FrozenVariant {
    dependence: Arc<Dependence>,
    rules: Arc<WriteRules>,
    /// by argument: the step and which of its arguments it is
    args: Vec<(usize, usize, ArgFrom)>,
    steps: Box<dyn FrozenSteps>,
    counts: [u64; 4],
}
impl Drop for FrozenPlan {
    fn drop(&mut self) {
        let places = self.inputs.iter().filter_map(|i| if let FrozenInput::Copied(place, _) = i { Some(place) } else { None });
        self.blocks.iter().chain(places).for_each(|buffer| buffer.uses().written_by(self.event));
    }
}
/// The frozen plans of a device.
#[derive(Default)]
pub struct FrozenPlans(Mutex<Vec<Weak<Mutex<FrozenState>>>>);
impl FrozenPlans {
    fn add(&self, slot: &FrozenSlot) {
        let mut all = self.0.lock();
        all.retain(|s| s.strong_count() > 0 && !std::ptr::eq(s.as_ptr(), Arc::as_ptr(&slot.0)));
        all.push(Arc::downgrade(&slot.0));
        if all.len() > MOST_PLANS
            && let Some(oldest) = all.remove(0).upgrade()
            && let Some(mut state) = oldest.try_lock()
        {
            state.thaw();
        }
    }
    /// Gives the memory of all of them back, but for one that is just running. Was there any?
    pub fn thaw(&self) -> bool {
        let all = std::mem::take(&mut *self.0.lock());
        let thaw = |slot: Weak<Mutex<FrozenState>>| slot.upgrade().is_some_and(|slot| slot.try_lock().is_some_and(|mut state| state.thaw()));
        all.into_iter().filter(|slot| thaw(slot.clone())).count() > 0
    }
}
impl FrozenState {
    /// Lets go of what is frozen: the next runs count anew. Was there anything?
    fn thaw(&mut self) -> bool {
        (self.runs, self.unfit) = (0, 0);
        self.frozen.take().is_some()
    }
    /// A run that is about to begin: is it to be a frozen one?
    fn is_due(&mut self, rule: FreezeRule, replay: &Replay<'_>) -> bool {
        if self.is_off {
            return false;
        }
        if let Some(frozen) = &self.frozen {
            if frozen.fits(replay) {
                self.unfit = 0;
                return true;
            }
            self.unfit += 1;
            if self.unfit < MOST_UNFIT && frozen.generation == replay.device.generation() {
                return false;
            }
            self.is_off = self.times >= MOST_TIMES;
            (self.frozen, self.runs, self.unfit) = (None, 0, 0);
        }
        let now: Vec<Option<u64>> = replay.inputs.iter().map(|s| address_of(s)).collect();
        if now.contains(&None) {
            return false;
        }
        self.moves.resize(now.len(), false);
        if self.last.len() == now.len() {
            self.moves.iter_mut().zip(self.last.iter().zip(&now)).for_each(|(moves, (last, now))| *moves |= last != now);
        }
        self.last = now;
        self.runs += 1;
        self.runs >= rule.run && !self.is_off
    }
}
/// Where a value's memory lies.
fn address_of(stored: &Stored) -> Option<u64> {
    stored.buffer.read().as_deref()?.address()
}
impl FrozenPlan {
    /// Do the inputs and the starts fit?
    fn fits(&self, replay: &Replay<'_>) -> bool {
        let fits = |(own, given): (&FrozenInput, &&Stored)| match own {
            FrozenInput::At(address, offset) => given.offset == *offset && address_of(given) == Some(*address),
            FrozenInput::Copied(_, bytes) => is_whole(given) && given.buffer.asked_bytes() == *bytes,
        };
        self.generation == replay.device.generation()
            && self.inputs.len() == replay.inputs.len()
            && self.inputs.iter().zip(replay.inputs).all(fits)
            && self.starts.iter().all(|(record, start)| matches!((replay.caller.arg(*record), start), (Arg::Start(a), Arg::Start(b)) if a == *b))
    }
    /// Memory for a plan. None: an input that moves cannot be copied.
    ///
    /// # Errors
    /// Memory that cannot be had.
    fn new(replay: &Replay<'_>, moves: &[bool]) -> Result<Option<FrozenPlan>, ErrorKind> {
        let (plan, device) = (replay.plan, replay.device);
        let mut inputs = Vec::with_capacity(replay.inputs.len());
        for (k, given) in replay.inputs.iter().enumerate() {
            let is_taken = plan.own.iter().any(|o| o.taken == Some(k as u32));
            inputs.push(match (moves.get(k).is_some_and(|m| *m), address_of(given)) {
                (false, Some(address)) => FrozenInput::At(address, given.offset),
                (true, Some(_)) if !is_taken && is_whole(given) => {
                    let bytes = given.buffer.asked_bytes();
                    FrozenInput::Copied(device.pool().take(device, bytes)?, bytes)
                }
                _ => return Ok(None),
            });
        }
        let blocks = replay.sized.blocks.iter().map(|(bytes, _)| device.pool().take(device, *bytes)).collect::<Result<_, _>>()?;
        let operands = replay.sized.steps.iter().flat_map(|s| s.inputs.iter().chain(&s.outputs)).map(|o| &o.place);
        let moved = operands.chain(&replay.sized.published).flat_map(|place| place.moves.iter().map(|m| m.0));
        // Those of a compound's body are the plan's own.
        let mut of: Vec<u32> = moved.filter_map(|from| if let ArgFrom::Record(r) = from { Some(r) } else { None }).collect();
        of.sort_unstable();
        of.dedup();
        let starts = of.into_iter().map(|r| (r, replay.caller.arg(r))).collect();
        Ok(Some(FrozenPlan { generation: device.generation(), inputs, blocks, starts, variants: Vec::new(), event: Event::DONE }))
    }
}
/// A copy between buffers whose memory stays where it is meanwhile.
struct LockedCopy<'b> {
    from: RwLockReadGuard<'b, Option<Box<dyn Memory>>>,
    to: RwLockReadGuard<'b, Option<Box<dyn Memory>>>,
    bytes: usize,
}
impl<'b> LockedCopy<'b> {
    fn new(from: &'b Buffer, to: &'b Buffer, bytes: usize) -> LockedCopy<'b> {
        LockedCopy { from: from.read(), to: to.read(), bytes }
    }
}
fn copies_of<'l>(locked: &'l [LockedCopy<'_>]) -> Result<SmallVec<[MemoryCopy<'l>; 4]>, ErrorKind> {
    let memory = |m: &'l Option<Box<dyn Memory>>| m.as_deref().ok_or_else(|| ErrorKind::Internal("a buffer without memory".into()));
    locked.iter().filter(|l| l.bytes > 0).map(|l| Ok(MemoryCopy { from: memory(&l.from)?, to: memory(&l.to)?, bytes: l.bytes })).collect()
}
/// Is it all of its memory, so that it can be copied byte for byte?
fn is_whole(stored: &Stored) -> bool {
    stored.offset == 0 && stored.strides.is_none()
}

/// The right to run what is frozen of a plan.
pub(super) struct FrozenTurn<'t> {
    state: MutexGuard<'t, FrozenState>,
    variant: usize,
}
impl Replay<'_> {
    fn freezes(&self) -> Option<FreezeRule> {
        let rule = self.device.asynchronous()?.freezes()?;
        let plan = self.plan;
        let exchanges = || plan.steps.iter().any(|s| matches!(plan.graph.nodes[s.node as usize].op, Op::Collective { .. }));
        (plan.steps.len() >= rule.steps && !self.caller.is_watched() && !exchanges()).then_some(rule)
    }
    /// Memory for a run that is to be a frozen one: what outlives it is the pool's. None: it is not to be.
    ///
    /// # Errors
    /// Memory that cannot be had.
    pub(super) fn reserve_frozen(&self) -> Result<Option<Buffers>, crate::Error> {
        let Some(rule) = self.freezes() else { return Ok(None) };
        {
            let slot = &self.sized.frozen;
            let mut state = slot.0.lock();
            if !state.is_due(rule, self) {
                return Ok(None);
            }
            if state.frozen.is_none() {
                match FrozenPlan::new(self, &state.moves) {
                    Ok(Some(frozen)) => {
                        (state.frozen, state.times) = (Some(frozen), state.times + 1);
                        drop(state);
                        self.device.frozen().add(slot);
                    }
                    // Without the memory for it, or where an input that is taken over moves, it runs as ever.
                    Ok(None) | Err(ErrorKind::OutOfMemory { .. }) => {
                        (state.runs, state.times) = (0, state.times + 1);
                        state.is_off = state.times >= MOST_TIMES;
                        return Ok(None);
                    }
                    Err(kind) => return Err(crate::Error::new("run", kind)),
                }
            }
        }
        let mut own = Buffers::new();
        own.is_frozen = true;
        for (m, o) in self.plan.own.iter().enumerate() {
            own.list.push(match o.taken {
                Some(i) => self.inputs[i as usize].buffer.clone(),
                None if o.escapes => self.new_memory(m)?,
                // Nobody looks at it: the frozen steps have their own.
                None => Arc::new(Buffer::empty(self.device)),
            });
        }
        Ok(Some(own))
    }
    /// The turn to run frozen steps with these guards, which are frozen now if they are not yet. None: they cannot be; the run
    /// goes on as ever.
    ///
    /// # Errors
    /// A lost device.
    pub(super) fn frozen_turn(
        &self,
        device: &dyn Asynchronous,
        dependence: &Arc<Dependence>,
        rules: &Arc<WriteRules>,
    ) -> Result<Option<FrozenTurn<'_>>, Failed> {
        let mut state = self.sized.frozen.0.lock();
        let Some(frozen) = state.frozen.as_mut().filter(|f| f.fits(self)) else { return Ok(None) };
        let known = |v: &FrozenVariant| Arc::ptr_eq(&v.dependence, dependence) && Arc::ptr_eq(&v.rules, rules);
        let variant = match frozen.variants.iter().position(known) {
            Some(variant) => variant,
            None if frozen.variants.len() >= MOST_VARIANTS => {
                state.thaw();
                return Ok(None);
            }
            None => match self.variant(device, frozen, dependence, rules) {
                Ok(made) => {
                    frozen.variants.push(made);
                    frozen.variants.len() - 1
                }
                Err(Failed { error, .. }) if matches!(error.kind(), ErrorKind::DeviceLost(_)) => return Err(error.into()),
                // What a device cannot keep runs as ever; so does what it has no memory for.
                Err(_) => {
                    state.is_off = true;
                    state.thaw();
                    return Ok(None);
                }
            },
        };
        Ok(Some(FrozenTurn { state, variant }))
    }
    /// Freezes the steps over the memory that stays.
    fn variant(&self, device: &dyn Asynchronous, frozen: &FrozenPlan, dependence: &Arc<Dependence>, rules: &Arc<WriteRules>) -> Result<FrozenVariant, Failed> {
        let words = if dependence.words > 0 { Some(device.words(dependence.words).map_err(|kind| self.anywhere(kind))?) } else { None };
        let guards = words.map(|words| Guards { words, dependence: dependence.clone(), rules: rules.clone() });
        let placed: Vec<Option<Stored>> =
            frozen.inputs.iter().map(|i| if let FrozenInput::Copied(place, _) = i { Some(Stored::dense(place.clone())) } else { None }).collect();
        let inputs: Vec<&Stored> = placed.iter().zip(self.inputs).map(|(place, given)| place.as_ref().unwrap_or(given)).collect();
        let own = self.plan.own.iter().zip(&self.sized.block).map(|(o, block)| match o.taken {
            Some(i) => inputs[i as usize].buffer.clone(),
            None => frozen.blocks[*block as usize].clone(),
        });
        let own: Vec<Arc<Buffer>> = own.collect();
        let over = Replay { plan: self.plan, sized: self.sized, inputs: &inputs, device: self.device, caller: self.caller };
        let (mut made, mut args) = (None, Vec::new());
        let before = stats();
        let run = RunFaults { words: &[], skip: &[], guards: guards.as_ref() };
        over.submit_some(0..self.plan.steps.len(), &own, &run, &mut Exchanges::default(), usize::MAX, &mut |steps, chosen| {
            for &at in chosen {
                args.extend(self.plan.steps[at].args.iter().enumerate().map(|(k, from)| (at, k, *from)));
            }
            made = Some(device.freeze(steps)?);
            Ok(())
        })?;
        // None of them has run yet.
        let after = stats();
        count(|c| *c = before);
        let counts = [after.kernels - before.kernels, after.fused - before.fused, after.donated - before.donated, after.copies - before.copies];
        let steps = made.ok_or_else(|| self.anywhere(ErrorKind::Internal("a plan without steps is frozen".into())))?;
        Ok(FrozenVariant { dependence: dependence.clone(), rules: rules.clone(), args, steps, counts })
    }
}
impl FrozenTurn<'_> {
    /// Runs the steps: the last event, and the words that tell what was found.
    ///
    /// # Errors
    /// A lost device.
    pub fn run(mut self, replay: &Replay<'_>, own: &Buffers, inherited: &[Inherited<'_>]) -> Result<(Event, Option<Arc<dyn Words>>), ErrorKind> {
        let Some(frozen) = self.state.frozen.as_mut() else { return Err(ErrorKind::Internal("nothing is frozen".into())) };
        let Some(variant) = frozen.variants.get(self.variant) else { return Err(ErrorKind::Internal("nothing is frozen".into())) };
        let plan = replay.plan;
        let args: SmallVec<[Scalar; 8]> = variant
            .args
            .iter()
            .map(|&(at, k, from)| match replay.argument(from) {
                Arg::Scalar(v) => crate::planted::stale(Arc::as_ptr(plan) as usize, at, k, v),
                _ => Scalar::Int(0),
            })
            .collect();
        let mut after = Events::new();
        inherited.iter().for_each(|i| also(&mut after, i.after));
        replay.inputs.iter().for_each(|s| also(&mut after, s.buffer.uses().written()));
        let taken = || plan.own.iter().filter_map(|o| Some(&replay.inputs.get(o.taken? as usize)?.buffer));
        taken().flat_map(|buffer| buffer.uses().all()).for_each(|event| also(&mut after, event));
        let given = frozen.inputs.iter().zip(replay.inputs).filter_map(|(own, given)| match own {
            FrozenInput::Copied(place, bytes) => Some(LockedCopy::new(&given.buffer, place, *bytes)),
            FrozenInput::At(..) => None,
        });
        let given: SmallVec<[LockedCopy<'_>; 4]> = given.collect();
        let is_kept = |m: &usize| plan.own[*m].escapes && plan.own[*m].taken.is_none();
        let kept = || (0..plan.own.len()).filter(is_kept);
        kept().flat_map(|m| own[m].uses().all()).for_each(|event| also(&mut after, event));
        let block = |m: usize| &frozen.blocks[replay.sized.block[m] as usize];
        let left: SmallVec<[LockedCopy<'_>; 4]> = kept().map(|m| LockedCopy::new(block(m), &own[m], replay.sized.bytes[m])).collect();
        let (first, last) = (copies_of(&given)?, copies_of(&left)?);
        let (event, words) = variant.steps.run(&FrozenRun { args: &args, copies: [&first, &last], inherited }, &after)?;
        drop((first, last));
        drop((given, left));
        if !event.is_done() {
            replay.inputs.iter().for_each(|s| s.buffer.uses().read_by(event));
            taken().for_each(|buffer| buffer.uses().written_by(event));
            kept().for_each(|m| own[m].uses().written_by(event));
        }
        let [kernels, fused, donated, copies] = variant.counts;
        count(|c| {
            (c.kernels, c.fused, c.donated, c.copies) = (c.kernels + kernels, c.fused + fused, c.donated + donated, c.copies + copies);
            c.frozen += 1;
        });
        frozen.event = event;
        Ok((event, words))
    }
}
