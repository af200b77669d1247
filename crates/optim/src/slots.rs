//! The running state of parameters: slots of a parameter's shape, and clocks. A clock counts the steps of the parameters that
//! made the same ones, and holds the running numbers that follow from the count; what depends on it alone (Adam's corrections)
//! is computed once in a step. All of it lies in cells: a step that is taken back takes its count with it, a captured step
//! counts on at each call, and a predicate holds counts as it holds weights.
use crate::{UpdateRule, rule::Rule, weights::StoredDtypes};
use adamant_core::{Cell, DType, Device, Error, ErrorKind, Grads, Meta, Result, Shape, Tensor, bf16, compile, f16};
use adamant_nn::Param;
use std::{any::TypeId, collections::BTreeMap, sync::Arc};

mod saved;
pub(crate) use saved::{dict, loaded};

/// Where a slot's value lies, and the dtype in which the formula sees it.
#[derive(Clone)]
struct StoredSlot {
    cell: Cell,
    dtype: DType,
}
impl StoredSlot {
    fn read(&self) -> Tensor {
        let value = self.cell.detached();
        if self.is_seen_as_stored() { value } else { value.cast(self.dtype) }
    }
    #[track_caller]
    fn set(&self, value: &Tensor) -> Result<()> {
        // A value of a third dtype is refused by the cell.
        if self.is_seen_as_stored() || value.dtype()? != self.dtype { self.cell.set(value) } else { self.cell.set(&value.cast(self.cell.meta().dtype)) }
    }
    fn is_seen_as_stored(&self) -> bool {
        self.cell.meta().dtype == self.dtype
    }
}
/// The state of one parameter.
#[derive(Clone, Default)]
pub(crate) struct ParameterState {
    cells: BTreeMap<&'static str, StoredSlot>,
    /// its place among the clocks
    clock: Option<usize>,
    /// loaded from a checkpoint and not asked for yet
    loaded: BTreeMap<String, Tensor>,
}
impl ParameterState {
    pub fn clock(&self) -> Option<usize> {
        self.clock
    }
    /// Was nothing stored, and nothing loaded but slots of these names?
    pub fn is_fresh_but_for(&self, names: &[&str]) -> bool {
        self.clock.is_none() && self.cells.is_empty() && self.loaded.keys().all(|name| names.contains(&name.as_str()))
    }
    /// What was loaded under a name and not asked for yet.
    pub fn loaded(&self, name: &str) -> Option<&Tensor> {
        self.loaded.get(name)
    }
    /// As if it had been loaded.
    pub fn load(&mut self, name: &str, value: Tensor) {
        self.loaded.insert(name.to_string(), value);
    }
    /// Has a step been made before it was loaded?
    pub fn has_stepped(&self) -> Result<bool> {
        Ok(self.loaded(STEP).map_or(Ok(0.0), Tensor::item::<f64>)? > 0.0)
    }
    /// What was loaded that may be a clock's: parameters of one clock have all of it in common.
    fn history(&self) -> Result<Vec<(String, u64)>> {
        let scalars = self.loaded.iter().filter(|(_, t)| t.rank() == 0);
        scalars.map(|(name, t)| Ok((name.clone(), t.item::<f64>()?.to_bits()))).collect()
    }
}
/// The parameters of a step: those that have a gradient. Looked for each time, for a steady step allocates nothing.
pub(crate) struct Concerned<'p> {
    pub parameters: &'p [Param],
    pub grads: &'p Grads,
}
impl<'p> Concerned<'p> {
    pub fn iter(&self) -> impl Iterator<Item = &'p Param> + use<'p> {
        let grads = self.grads;
        self.parameters.iter().filter(move |p| p.is_trainable() && grads.of(&p.cell()).is_some())
    }
}
/// The name of the count in a checkpoint.
const STEP: &str = "step";

/// A count of steps.
pub(crate) struct Clock {
    device: Device,
    /// u32: exact, and there on every device
    count: Cell,
    /// running numbers, f32 as PyTorch's
    numbers: BTreeMap<&'static str, Cell>,
    /// how many parameters go by it, and how many of them make the present step
    members: usize,
    steps_now: usize,
    /// the capture that advanced it last, 0: none
    advanced_in: u64,
    /// what was computed in the present step, by name and dtype
    once: Vec<(&'static str, DType, Tensor)>,
    /// what was decided in it, by the question
    decided: Vec<(TypeId, bool)>,
}
impl Clock {
    fn new(device: Device, count: u32) -> Result<Clock> {
        let count = Cell::new(&Tensor::from_vec_on(vec![count], (), device), false)?;
        Ok(Clock { device, count, numbers: BTreeMap::new(), members: 0, steps_now: 0, advanced_in: 0, once: Vec::new(), decided: Vec::new() })
    }
    /// Gives each of the parameters of a step a clock of which all parameters make the step, and advances these. Did any change its
    /// clock?
    #[track_caller]
    pub fn assign(clocks: &mut Vec<Clock>, states: &mut BTreeMap<usize, ParameterState>, concerned: &Concerned<'_>) -> Result<bool> {
        for clock in clocks.iter_mut() {
            clock.steps_now = 0;
            clock.forget();
        }
        let mut apart = false;
        for p in concerned.iter() {
            match states.entry(p.id()).or_default().clock.and_then(|k| clocks.get_mut(k)) {
                Some(clock) => clock.steps_now += 1,
                None => apart = true,
            }
        }
        let parts = apart || clocks.iter().any(|c| c.steps_now != 0 && c.steps_now != c.members);
        if parts {
            Clock::part(clocks, states, concerned)?;
        }
        for clock in clocks.iter_mut().filter(|c| c.steps_now != 0) {
            let next = clock.count.detached() + 1u32;
            // Of its own, which nothing else reads: it is written last, where the old count lies.
            clock.count.set(&(clock.count.detached() + 1u32))?;
            clock.once.push((STEP, DType::U32, next));
            clock.advanced_in = compile::capture_number();
        }
        Ok(parts)
    }
    /// Those that have no clock get one for each history; those that leave others behind get one of their own.
    #[track_caller]
    fn part(clocks: &mut Vec<Clock>, states: &mut BTreeMap<usize, ParameterState>, concerned: &Concerned<'_>) -> Result<()> {
        let mut fresh: Vec<(Device, Vec<(String, u64)>, usize)> = Vec::new();
        let mut parted: Vec<(usize, usize)> = Vec::new();
        for p in concerned.iter() {
            let device = p.meta().device;
            let Some(state) = states.get_mut(&p.id()) else { continue };
            let place = match state.clock {
                Some(k) if clocks[k].steps_now == clocks[k].members => continue,
                Some(k) => match parted.iter().find(|(from, _)| *from == k) {
                    Some((_, to)) => *to,
                    None => {
                        let own = clocks[k].copied()?;
                        clocks.push(own);
                        parted.push((k, clocks.len() - 1));
                        clocks.len() - 1
                    }
                },
                None => {
                    let history = state.history()?;
                    match fresh.iter().find(|(d, h, _)| *d == device && *h == history) {
                        Some((.., k)) => *k,
                        None => {
                            let steps = state.loaded.get(STEP).map_or(Ok(0.0), Tensor::item::<f64>)?;
                            clocks.push(Clock::new(device, steps as u32)?);
                            fresh.push((device, history, clocks.len() - 1));
                            clocks.len() - 1
                        }
                    }
                }
            };
            if let Some(old) = state.clock.replace(place).and_then(|k| clocks.get_mut(k)) {
                // Those it leaves behind make no step.
                old.members -= 1;
            }
            clocks[place].members += 1;
        }
        for (from, to) in parted {
            clocks[from].steps_now = 0;
            clocks[to].steps_now = clocks[to].members;
        }
        fresh.iter().for_each(|(.., k)| clocks[*k].steps_now = clocks[*k].members);
        Ok(())
    }
    /// Another clock that shows the same.
    #[track_caller]
    fn copied(&self) -> Result<Clock> {
        let capture = compile::capture_number();
        if capture != 0 && self.advanced_in == capture {
            let text = "other parameters have a gradient in this step than in an earlier one of the same captured function";
            return Err(Error::new("step", ErrorKind::Argument(text.into())).hint("take an optimizer for each, or step outside `compile`"));
        }
        // It begins with what was committed, and follows in this step: taken back, it shows what is true then.
        let twin = |cell: &Cell| {
            let own = Cell::new(&cell.committed_value(), false)?;
            if capture == 0 {
                own.set(&cell.detached())?;
            }
            Ok(own)
        };
        let numbers = self.numbers.iter().map(|(name, cell)| Ok((*name, twin(cell)?))).collect::<Result<_>>()?;
        Ok(Clock { device: self.device, count: twin(&self.count)?, numbers, members: 0, steps_now: 0, advanced_in: 0, once: Vec::new(), decided: Vec::new() })
    }
    /// Lets go of what was computed in a step.
    pub fn forget(&mut self) {
        self.once.clear();
        self.decided.clear();
    }
    /// A decision that all parameters of a step share. A question that holds nothing is known by its type.
    fn decide<R: UpdateRule, F: Fn(&R) -> bool + Send + Sync + 'static>(&mut self, rule: &Source<'_, R>, f: F) -> bool {
        let question = TypeId::of::<F>();
        if size_of::<F>() != 0 {
            return rule.decide(f);
        }
        if let Some((_, decided)) = self.decided.iter().find(|(q, _)| *q == question) {
            return *decided;
        }
        let decided = rule.decide(f);
        self.decided.push((question, decided));
        decided
    }
    fn known(&self, name: &str, dtype: DType) -> Option<&Tensor> {
        self.once.iter().find(|(n, d, _)| *n == name && *d == dtype).map(|(.., t)| t)
    }
}

/// How a rule's numbers are asked for.
type Ask<R> = Arc<dyn Fn(&mut dyn FnMut(&R)) + Send + Sync>;
/// A rule, or a part of one that is made of others.
enum Source<'a, R> {
    Rule(&'a Arc<Rule<R>>),
    Part(Ask<R>),
}
impl<R: UpdateRule> Source<'_, R> {
    fn ask(&self) -> Ask<R> {
        match self {
            Source::Rule(rule) => {
                let rule = Arc::clone(rule);
                Arc::new(move |f| rule.read(|r| f(r)))
            }
            Source::Part(ask) => ask.clone(),
        }
    }
    fn number(&self, dtype: DType, device: Device, f: impl Fn(&R) -> f64 + Send + Sync + 'static) -> Tensor {
        match self {
            Source::Rule(rule) => {
                let rule = Arc::clone(rule);
                compile::number(dtype, device, move || rule.read(&f))
            }
            Source::Part(ask) => {
                let ask = ask.clone();
                compile::number(dtype, device, move || of(&ask, &f))
            }
        }
    }
    fn decide(&self, f: impl Fn(&R) -> bool + Send + Sync + 'static) -> bool {
        match self {
            Source::Rule(rule) => {
                let rule = Arc::clone(rule);
                compile::decide(move || rule.read(&f))
            }
            Source::Part(ask) => {
                let ask = ask.clone();
                compile::decide(move || of(&ask, &f))
            }
        }
    }
    fn now(&self, f: impl Fn(&R) -> f64) -> f64 {
        match self {
            Source::Rule(rule) => rule.read(f),
            Source::Part(ask) => of(ask, f),
        }
    }
}
fn of<R, T: Default>(ask: &Ask<R>, f: impl Fn(&R) -> T) -> T {
    let mut found = T::default();
    ask(&mut |rule| found = f(rule));
    found
}

/// The running state of one parameter during one update, whatever the rule: compiled once for all of them.
pub(crate) struct Running<'a> {
    parameter: &'a Param,
    /// of what is changed: the parameter's, or that of a piece of it
    shape: Shape,
    state: &'a mut ParameterState,
    clock: &'a mut Clock,
    /// the dtype in which the formula runs
    dtype: DType,
    storage: &'a StoredDtypes,
}
impl Running<'_> {
    fn known(&self, name: &str) -> Option<Tensor> {
        self.clock.known(name, self.dtype).cloned()
    }
    /// The number of this step, from 1: u32 without axes.
    pub fn step(&self) -> Result<Tensor> {
        self.clock.known(STEP, DType::U32).cloned().ok_or_else(|| Error::new("step", ErrorKind::Internal("no step is counted".into())))
    }
    /// What was computed for all parameters of the clock, in the dtype in which the formula runs.
    #[track_caller]
    fn keep(&mut self, name: &'static str, made: Tensor) -> Result<Tensor> {
        let dtype = self.dtype;
        let made = if made.dtype()? == dtype { made } else { made.cast(dtype) }.ok()?;
        if made.rank() != 0 {
            let text = format!("`{name}` has shape {}; what all parameters share has no axes", made.shape()?);
            return Err(Error::new("step", ErrorKind::Argument(text)));
        }
        self.clock.once.push((name, dtype, made.clone()));
        Ok(made)
    }
    fn slot(&self, name: &str) -> Option<Tensor> {
        self.state.cells.get(name).map(StoredSlot::read)
    }
    #[track_caller]
    fn filled(&mut self, name: &'static str, shape: Shape, value: f64) -> Result<Tensor> {
        if let Some(value) = self.slot(name) {
            return Ok(value);
        }
        let seen = Meta { shape, dtype: self.dtype, device: self.parameter.meta().device };
        // In memory from the start: the first step is of the same structure as all that follow.
        self.begun(name, seen, |stored| Ok(in_memory(vec![value; shape.elements()], shape, stored, seen.device)))
    }
    #[track_caller]
    fn get_or(&mut self, name: &'static str, initial: &Tensor) -> Result<Tensor> {
        if let Some(value) = self.slot(name) {
            return Ok(value);
        }
        let seen = initial.try_meta()?;
        self.begun(name, seen, |stored| if stored == seen.dtype { Ok(initial.clone()) } else { moved(initial, Meta { dtype: stored, ..seen }) })
    }
    /// A slot of the rule's, which is stored as the optimizer says.
    #[track_caller]
    fn begun(&mut self, name: &'static str, seen: Meta, initial: impl FnOnce(DType) -> Result<Tensor>) -> Result<Tensor> {
        let stored = self.storage.slot(seen.dtype, seen.shape.rank() > 0 || seen.shape == self.shape);
        self.stored(name, seen, stored, || initial(stored))
    }
    /// A slot that is of its own dtype whatever the optimizer says; `initial` at first.
    #[track_caller]
    pub fn beside(&mut self, name: &'static str, initial: impl FnOnce() -> Tensor) -> Result<Tensor> {
        match self.slot(name) {
            Some(value) => Ok(value),
            None => {
                let initial = initial();
                let seen = initial.try_meta()?;
                self.stored(name, seen, seen.dtype, || Ok(initial))
            }
        }
    }
    #[track_caller]
    fn stored(&mut self, name: &'static str, seen: Meta, stored: DType, initial: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
        let want = Meta { dtype: stored, ..seen };
        let first = match self.state.loaded.remove(name) {
            Some(t) if t.shape()? != want.shape => {
                let text = format!("`{}.{name}` has shape {} in the checkpoint and {} here", self.parameter.path(), t.shape()?, want.shape);
                return Err(Error::new("step", ErrorKind::Argument(text)));
            }
            Some(t) if t.dtype()? == want.dtype && t.device()? == want.device => t,
            Some(t) => moved(&t, want)?,
            None => initial()?,
        };
        self.state.cells.insert(name, StoredSlot { cell: slot(&first)?, dtype: seen.dtype });
        self.slot(name).ok_or_else(|| Error::new("step", ErrorKind::Internal(format!("slot {name} is gone"))))
    }
    #[track_caller]
    pub fn set(&mut self, name: &'static str, value: &Tensor) -> Result<()> {
        if !self.state.cells.contains_key(name) {
            // A write like any other, so that it can be taken back.
            let meta = value.try_meta()?;
            self.get_or(name, &in_memory(vec![0.0; meta.shape.elements()], meta.shape, meta.dtype, meta.device))?;
        }
        self.state.cells.get(name).map_or(Ok(()), |slot| slot.set(value))
    }
}

/// The running state of one parameter during one update, and the numbers of the rule `R`.
pub struct Slots<'a, R> {
    rule: Source<'a, R>,
    running: Running<'a>,
}
impl<'a, R: UpdateRule> Slots<'a, R> {
    pub(crate) fn new(
        rule: &'a Arc<Rule<R>>,
        parameter: &'a Param,
        (shape, state): (Shape, &'a mut ParameterState),
        clock: &'a mut Clock,
        storage: &'a StoredDtypes,
    ) -> Slots<'a, R> {
        let dtype = storage.formula(parameter.meta().dtype);
        Slots { rule: Source::Rule(rule), running: Running { parameter, shape, state, clock, dtype, storage } }
    }
    pub(crate) fn running(&mut self) -> &mut Running<'a> {
        &mut self.running
    }
    /// The same state for a rule that this one is made of.
    pub fn part<Q: UpdateRule>(&mut self, part: fn(&R) -> &Q) -> Slots<'_, Q> {
        let ask = self.rule.ask();
        let rule = Source::Part(Arc::new(move |f: &mut dyn FnMut(&Q)| ask(&mut |rule| f(part(rule)))));
        let Running { parameter, shape, state, clock, dtype, storage } = &mut self.running;
        Slots { rule, running: Running { parameter, shape: *shape, state, clock, dtype: *dtype, storage } }
    }
    /// The parameter.
    pub fn parameter(&self) -> &Param {
        self.running.parameter
    }
    /// The dtype in which the formula runs, and `p`, `g` and the slots are given: the parameter's, or f32 where the optimizer has a
    /// [`WeightUpdate`](crate::WeightUpdate) and the parameter is of 16 bits.
    pub fn dtype(&self) -> DType {
        self.running.dtype
    }
    /// A number of the rule, or what Rust makes of several in f64: a 0-d tensor of [`Slots::dtype`], an argument of a captured
    /// step. The name tells it from others of the rule in the same step.
    ///
    /// # Errors
    /// A parameter that is of no float.
    #[track_caller]
    pub fn rate(&mut self, name: &'static str, f: impl Fn(&R) -> f64 + Send + Sync + 'static) -> Result<Tensor> {
        if let Some(known) = self.running.known(name) {
            return Ok(known);
        }
        let number = self.rule.number(wide(self.running.dtype), self.running.clock.device, f);
        self.running.keep(name, number)
    }
    /// What follows from the count of steps and from the rule's numbers alone: computed once in a step for all parameters that made
    /// the same steps. It is computed in f32, in f64 for parameters of f64, and given in [`Slots::dtype`].
    ///
    /// # Errors
    /// Those of `f`; what it gives has axes.
    #[track_caller]
    pub fn once(&mut self, name: &'static str, f: impl FnOnce(&mut Scalars<'_, R>) -> Result<Tensor>) -> Result<Tensor> {
        if let Some(known) = self.running.known(name) {
            return Ok(known);
        }
        let Running { state, clock, dtype, .. } = &mut self.running;
        let mut scalars = Scalars { rule: &self.rule, clock, loaded: &state.loaded, dtype: wide(*dtype) };
        let made = f(&mut scalars)?;
        self.running.keep(name, made)
    }
    /// Decides by the rule's numbers in Rust: where it would be decided otherwise, a captured step is captured anew.
    pub fn decide(&mut self, f: impl Fn(&R) -> bool + Send + Sync + 'static) -> bool {
        self.running.clock.decide(&self.rule, f)
    }
    /// The slot's value; zeros of the shape of what is changed at first: the parameter's, where it is not shared out.
    ///
    /// # Errors
    /// No memory, or a checkpoint whose slot has another shape.
    #[track_caller]
    pub fn zeros(&mut self, name: &'static str) -> Result<Tensor> {
        self.filled(name, self.running.shape, |_| 0.0)
    }
    /// The slot's value; at first of this shape, filled with a number of the rule.
    ///
    /// # Errors
    /// No memory, or a checkpoint whose slot has another shape.
    #[track_caller]
    pub fn filled(&mut self, name: &'static str, shape: Shape, f: impl Fn(&R) -> f64) -> Result<Tensor> {
        match self.running.slot(name) {
            Some(value) => Ok(value),
            None => self.running.filled(name, shape, self.rule.now(f)),
        }
    }
    /// The slot's value; `initial` at first.
    ///
    /// # Errors
    /// No memory; a checkpoint whose slot has another shape; an initial value that a function which is being captured computes.
    #[track_caller]
    pub fn get_or(&mut self, name: &'static str, initial: &Tensor) -> Result<Tensor> {
        self.running.get_or(name, initial)
    }
    /// Replaces a slot's value.
    ///
    /// # Errors
    /// Another shape or dtype than it began with, or a tensor that failed.
    #[track_caller]
    pub fn set(&mut self, name: &'static str, value: &Tensor) -> Result<()> {
        self.running.set(name, value)
    }
}

/// What parameters that made the same steps have in common: 0-d tensors.
pub struct Scalars<'a, R> {
    rule: &'a Source<'a, R>,
    clock: &'a mut Clock,
    loaded: &'a BTreeMap<String, Tensor>,
    dtype: DType,
}
impl<R: UpdateRule> Scalars<'_, R> {
    /// The dtype in which they are computed: f64 for parameters of f64, else f32.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// The number of this step, from 1.
    #[track_caller]
    pub fn step(&self) -> Tensor {
        match self.clock.known(STEP, DType::U32) {
            Some(count) => count.cast(self.dtype),
            None => Tensor::failed(Error::new("step", ErrorKind::Internal("no step is counted".into()))),
        }
    }
    /// A number of the rule.
    #[track_caller]
    pub fn rate(&self, f: impl Fn(&R) -> f64 + Send + Sync + 'static) -> Tensor {
        self.rule.number(self.dtype, self.clock.device, f)
    }
    /// As [`Slots::decide`].
    pub fn decide(&mut self, f: impl Fn(&R) -> bool + Send + Sync + 'static) -> bool {
        self.clock.decide(self.rule, f)
    }
    /// 1 - βᵗ after t steps, as -expm1(t ln β): exact to f32's last digits in f32, where βᵗ would be close to 1.
    #[track_caller]
    pub fn correction(&self, beta: impl Fn(&R) -> f64 + Send + Sync + 'static) -> Tensor {
        (self.step() * self.rate(move |r| beta(r).ln())).expm1().neg()
    }
    /// As [`Slots::once`], within another.
    ///
    /// # Errors
    /// Those of `f`.
    #[track_caller]
    pub fn once(&mut self, name: &'static str, f: impl FnOnce(&mut Self) -> Result<Tensor>) -> Result<Tensor> {
        if let Some(known) = self.clock.known(name, self.dtype) {
            return Ok(known.clone());
        }
        let made = f(self)?.ok()?;
        self.clock.once.push((name, self.dtype, made.clone()));
        Ok(made)
    }
    /// A running number that does not depend on data (a product of scheduled momenta), f32; `initial` at first.
    ///
    /// # Errors
    /// No memory.
    #[track_caller]
    pub fn number(&mut self, name: &'static str, initial: impl Fn(&R) -> f64) -> Result<Tensor> {
        if !self.clock.numbers.contains_key(name) {
            let first = match self.loaded.get(name) {
                Some(t) => t.item::<f64>()?,
                None => self.rule.now(initial),
            };
            self.clock.numbers.insert(name, Cell::new(&Tensor::from_vec_on(vec![first as f32], (), self.clock.device), false)?);
        }
        self.clock.numbers.get(name).map(Cell::detached).ok_or_else(|| Error::new("step", ErrorKind::Internal(format!("number {name} is gone"))))
    }
    /// Replaces a running number, which was asked for before.
    ///
    /// # Errors
    /// A tensor that failed or has axes.
    #[track_caller]
    pub fn set_number(&mut self, name: &'static str, value: &Tensor) -> Result<()> {
        match self.clock.numbers.get(name) {
            Some(cell) => cell.set(&value.cast(DType::F32)),
            None => Err(Error::new("step", ErrorKind::Argument(format!("the number {name} has no first value")))),
        }
    }
}

/// The dtype in which scalars are computed.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}
/// In another dtype or on another device. By the host, for ops may be part of a capture: each float is exact in f64.
#[track_caller]
fn moved(t: &Tensor, to: Meta) -> Result<Tensor> {
    let values = match t.dtype()? {
        DType::F32 => t.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
        DType::F16 => t.to_vec::<f16>()?.into_iter().map(f64::from).collect(),
        DType::BF16 => t.to_vec::<bf16>()?.into_iter().map(f64::from).collect(),
        _ => t.to_vec_as::<f64>()?,
    };
    Ok(in_memory(values, to.shape, to.dtype, to.device))
}
/// Numbers in memory: no op makes them.
fn in_memory(values: Vec<f64>, shape: Shape, dtype: DType, device: Device) -> Tensor {
    match dtype {
        DType::F64 => Tensor::from_vec_on(values, shape, device),
        DType::F32 => Tensor::from_vec_on(values.into_iter().map(|v| v as f32).collect(), shape, device),
        DType::F16 => Tensor::from_vec_on(values.into_iter().map(f16::from_f64).collect(), shape, device),
        DType::BF16 => Tensor::from_vec_on(values.into_iter().map(bf16::from_f64).collect(), shape, device),
        dtype => Tensor::from_vec_on(values, shape, Device::reference()).cast(dtype).to(device),
    }
}
/// A cell for a slot, which is written at every step.
#[track_caller]
fn slot(value: &Tensor) -> Result<Cell> {
    let cell = Cell::new(value, false)?;
    cell.align()?;
    Ok(cell)
}
