//! A step that somebody debugs: it runs op by op, and stops behind ops.
//!
//! Data flow: the loop hands [`Controls`] to a visitor for as long as the step lasts ([`StepDebugger`]); the visitor sees each op and
//! each rule of the walk back, asks breakpoints whether it is meant, and where one is it serves the socket until it is told to go on. What is about
//! the run as a whole (a checkpoint, a rate, the end) is put off to the end of the step.
//!
//! Invariant: who only looks changes no bit: a step op by op has those of a captured one. A value that is set is in the journal before
//! it is set, with the number of the op; a run that goes on from an earlier checkpoint sets it again there.
use super::{
    Batch,
    controlled::{Controls, LOOK},
    learn::Learning,
    restored::WentBack,
};
use crate::{
    Failure,
    control::{AskedRequest, ControlAnswer, ControlDecision, ControlRequest, DebuggedValues, DeskNews, RunPhase, RunStop, SetDecision, SetInStep, named},
    session::{Look, Stepped},
    watch::Interrupt,
};
use adamant_core::{Meta, Tensor};
use adamant_data::Dataset;
use adamant_nn::{Param, Walk};
use adamant_optim::Optimizer;
use adamant_stability::{NumberStats, OpVisitor, ValueChange, VisitedOp, VisitedValues};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The prefix of an optimizer's slots.
const SLOTS: &str = "optimizer.";

/// Parameters and buffers by their paths.
fn paths(model: &dyn Walk) -> Vec<(String, Param)> {
    model.named_parameters().into_iter().chain(model.named_buffers()).collect()
}
fn param<'a>(all: &'a [(String, Param)], name: &str) -> Option<&'a Param> {
    all.iter().find(|(path, _)| path == name).map(|(_, param)| param)
}
/// What can be looked at between two steps.
pub(super) struct ValuesBetween {
    pub params: Vec<(String, Param)>,
    pub slots: Vec<(String, Tensor)>,
    pub stopped: bool,
    pub breakpoint: Option<u64>,
}
impl ValuesBetween {
    pub fn of(model: &dyn Walk, optimizer: &dyn Optimizer, halted: Option<Option<RunStop>>) -> ValuesBetween {
        let breakpoint = halted.flatten().and_then(|stop| stop.breakpoint);
        ValuesBetween { params: paths(model), slots: optimizer.state_dict(), stopped: halted.is_some(), breakpoint }
    }
}
impl DebuggedValues for ValuesBetween {
    fn place(&self) -> Vec<(&'static str, Value)> {
        vec![("stopped", json!(self.stopped)), ("breakpoint", json!(self.breakpoint))]
    }
    fn value(&self, name: &str) -> Option<Tensor> {
        let slot = || self.slots.iter().find(|(slot, _)| name.strip_prefix(SLOTS) == Some(slot)).map(|(_, value)| value.clone());
        param(&self.params, name).map(Param::detached).or_else(slot)
    }
    fn all(&self) -> Vec<(String, Meta)> {
        let slots = self.slots.iter().filter_map(|(name, value)| Some((format!("{SLOTS}{name}"), value.try_meta().ok()?)));
        self.params.iter().map(|(name, param)| (name.clone(), param.meta())).chain(slots).collect()
    }
}
/// What can be looked at behind an op.
struct ValuesBehind<'a> {
    seen: &'a VisitedOp,
    values: &'a [Option<Tensor>],
    params: &'a [(String, Param)],
    step: u64,
    stop: RunStop,
}
impl ValuesBehind<'_> {
    fn values_name(&self) -> &'static str {
        match self.seen.shows {
            VisitedValues::Results => "out",
            VisitedValues::Gradients => "grad",
            VisitedValues::InputGradients => "in_grad",
        }
    }
    /// Which of the op's values has this name?
    fn number(&self, name: &str) -> Option<usize> {
        let k = name.strip_prefix(self.values_name())?.strip_prefix('.')?.parse::<usize>().ok()?;
        self.values.get(k).is_some_and(Option::is_some).then_some(k)
    }
}
impl DebuggedValues for ValuesBehind<'_> {
    fn place(&self) -> Vec<(&'static str, Value)> {
        let op = &self.seen.op;
        vec![
            ("stopped", json!(true)),
            ("breakpoint", json!(self.stop.breakpoint)),
            ("in_step", json!(self.step)),
            ("phase", json!(op.phase.name())),
            ("op", json!(op.name())),
            ("called", json!(op.called)),
            ("layer", json!(op.layer)),
            ("line", json!(format!("{}:{}", op.line.file(), op.line.line()))),
            ("number", json!(self.seen.number)),
            ("shows", json!(self.seen.shows.name())),
        ]
    }
    fn value(&self, name: &str) -> Option<Tensor> {
        if let Some(k) = self.number(name) {
            return self.values.get(k).cloned().flatten();
        }
        let input = name.strip_prefix("in.").and_then(|k| self.seen.inputs.get(k.parse::<usize>().ok()?));
        input.cloned().or_else(|| param(self.params, name).map(Param::detached))
    }
    fn all(&self) -> Vec<(String, Meta)> {
        let inputs = self.seen.inputs.iter().enumerate().filter_map(|(k, x)| Some((format!("in.{k}"), x.try_meta().ok()?)));
        let values = self.values.iter().enumerate().filter_map(|(k, x)| Some((format!("{}.{k}", self.values_name()), x.as_ref()?.try_meta().ok()?)));
        inputs.chain(values).chain(self.params.iter().map(|(name, param)| (name.clone(), param.meta()))).collect()
    }
}

/// What is known while the step runs.
struct DebuggedStep {
    controls: Controls,
    interrupt: Interrupt,
    params: Vec<(String, Param)>,
    /// steps that were done
    done: u64,
    /// the layer of the op before
    before: Option<String>,
    /// nobody is waited for any more in this step
    goes_on: bool,
    waited: Duration,
    /// values that were set in it
    set: usize,
}
/// See the module's documentation.
pub(super) struct StepDebugger(Mutex<Option<DebuggedStep>>);
impl StepDebugger {
    fn take(&self) -> Option<DebuggedStep> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
impl OpVisitor for StepDebugger {
    fn visit(&self, seen: &VisitedOp) -> Vec<ValueChange> {
        // Where a gradient of an earlier step is computed later, there is nobody any more.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map_or_else(Vec::new, |step| step.visit(seen))
    }
}
/// A value that was set.
struct MadeChange {
    change: ValueChange,
    changed: Tensor,
    /// elements
    count: usize,
}
/// Sets elements of a value, of this number among those of its op; it is computed, so that what cannot be is known.
fn made(decision: &SetDecision, k: usize, value: &Tensor) -> Result<MadeChange, String> {
    let said = |e: adamant_core::Error| e.to_string();
    let placed = decision.at.within(value.shape().map_err(said)?)?;
    let change = ValueChange { value: k, mask: placed.mask(value).map_err(said)?, to: decision.value };
    let changed = change.of(value);
    changed.materialize().map_err(said)?;
    Ok(MadeChange { change, changed, count: placed.count() })
}
/// The values of an op while changes are made to them.
#[derive(Clone)]
struct ChangedValues {
    values: Vec<Option<Tensor>>,
    changes: Vec<ValueChange>,
}
impl ChangedValues {
    fn set(&mut self, k: usize, decision: &SetDecision) -> Result<usize, String> {
        let value = self.values.get(k).cloned().flatten().ok_or("there is no such value any more")?;
        let MadeChange { change, changed, count } = made(decision, k, &value)?;
        self.values[k] = Some(changed);
        self.changes.push(change);
        Ok(count)
    }
}
impl DebuggedStep {
    fn visit(&mut self, seen: &VisitedOp) -> Vec<ValueChange> {
        let mut values = ChangedValues { values: seen.values.clone(), changes: Vec::new() };
        for planned in &self.controls.debug.planned {
            if let Some(within) = planned.within.filter(|within| within.op == seen.number && within.of == seen.shows.into()) {
                // It could be done before, so it can be now; if not, the run is another one, and says so behind the step.
                self.set += usize::from(values.set(within.value, planned).is_ok());
            }
        }
        if !self.goes_on {
            let shown = values.values.clone();
            let mut figures: Option<Vec<NumberStats>> = None;
            let mut numbers = || {
                let of_all = || shown.iter().flatten().filter(|x| x.dtype().is_ok_and(|d| d.is_float())).filter_map(|x| NumberStats::of(x).ok()).collect();
                figures.get_or_insert_with(of_all).clone()
            };
            if let Some(stop) = self.controls.debug.stops_behind(self.done + 1, seen, self.before.as_deref(), &mut numbers) {
                self.before = Some(seen.op.layer.clone());
                self.stop(stop, seen, &mut values);
            }
        }
        self.before = Some(seen.op.layer.clone());
        values.changes
    }
    /// Serves the socket until the step goes on.
    fn stop(&mut self, stop: RunStop, seen: &VisitedOp, values: &mut ChangedValues) {
        let since = Instant::now();
        self.controls.debug.stopped();
        self.controls.show_phase(RunPhase::Stopped);
        loop {
            if self.interrupt.asked().is_some() {
                self.goes_on = true;
                break;
            }
            let Some(desk) = self.controls.desk() else { break };
            let asked = match desk.wait(LOOK) {
                None => continue,
                Some(DeskNews::Left(client)) => {
                    self.controls.debug.left(client);
                    if client == stop.client {
                        break;
                    }
                    continue;
                }
                Some(DeskNews::Asked(asked)) => asked,
            };
            let goes_on = match asked.request {
                ControlRequest::Continue | ControlRequest::Resume => true,
                ControlRequest::Next { of } => {
                    self.controls.debug.go_to(of, asked.client);
                    true
                }
                ControlRequest::Stop => {
                    desk.defer(asked);
                    self.goes_on = true;
                    break;
                }
                _ => false,
            };
            if goes_on {
                self.controls.show_phase(RunPhase::Training);
                self.answer(&asked, ControlAnswer::Done(Vec::new()));
                break;
            }
            self.serve(asked, stop, seen, values);
        }
        self.controls.show_phase(RunPhase::Training);
        self.waited += since.elapsed();
    }
    fn serve(&mut self, asked: AskedRequest, stop: RunStop, seen: &VisitedOp, values: &mut ChangedValues) {
        let shown = values.values.clone();
        let behind = ValuesBehind { seen, values: &shown, params: &self.params, step: self.done + 1, stop };
        let answer = match &asked.request {
            ControlRequest::Set { of, at, value } => match behind.number(of) {
                Some(k) => {
                    let within = SetInStep { op: seen.number, of: seen.shows.into(), value: k };
                    let decision = SetDecision { of: of.clone(), at: at.clone(), value: *value, within: Some(within) };
                    Some(self.controls.write_and_set(self.done, &decision, values).map(|count| vec![("elements", json!(count))]).into())
                }
                None => {
                    let name = behind.values_name();
                    let why = named(&behind, of)
                        .err()
                        .unwrap_or_else(|| format!("`{of}` cannot be set here, `{name}.K` can; parameters are set between two steps: `next` step"));
                    Some(ControlAnswer::Refused(why))
                }
            },
            _ => self.controls.debug.answer(&asked, &behind),
        };
        let set = matches!((&asked.request, &answer), (ControlRequest::Set { .. }, Some(ControlAnswer::Done(_))));
        self.set += usize::from(set);
        match answer {
            Some(answer) => self.answer(&asked, answer),
            None => {
                if let Some(desk) = self.controls.desk() {
                    desk.defer(asked);
                }
            }
        }
    }
    fn answer(&mut self, to: &AskedRequest, answer: ControlAnswer) {
        let done = self.done;
        if let Some(desk) = self.controls.desk() {
            desk.answer(to, done, answer);
        }
    }
}
impl<M: Walk, D: Dataset + ?Sized + 'static> Learning<'_, '_, M, D>
where
    D::Batch: Batch,
{
    /// A step, which is looked into where somebody debugs it.
    pub(super) fn stepped(&mut self, group: &[D::Batch], look: Look) -> Result<(Stepped, WentBack, Duration), Failure> {
        let done = self.session.position().step;
        if !self.controls.debug.looks_into(done + 1) {
            return Ok((self.profiled_step(group, look)?, WentBack::Not, Duration::ZERO));
        }
        let planned = self.controls.debug.planned.len();
        let (controls, interrupt) = (std::mem::take(&mut self.controls), self.interrupt.clone());
        let params = paths(&self.session.model);
        let debugged = DebuggedStep { controls, interrupt, params, done, before: None, goes_on: false, waited: Duration::ZERO, set: 0 };
        let debugger = Arc::new(StepDebugger(Mutex::new(Some(debugged))));
        let stepped = self.session.step_visited(group, look, Some(debugger.clone()));
        let Some(DebuggedStep { controls, waited, set, .. }) = debugger.take() else { return Err(Failure::Run("the debugger of a step is gone".into())) };
        self.controls = controls;
        self.controls.debug.planned.clear();
        let stepped = stepped?;
        if set < planned {
            self.watch.warn(&format!("of {planned} values that were set in step {} before, {set} could be set again: this is another run", done + 1));
        }
        if set > 0 {
            // A state before this step does not have what was set in it.
            if self.look()? == WentBack::To {
                self.kept.controls = self.controls.done();
                return Ok((stepped, WentBack::To, waited));
            }
            self.kept.controls = self.controls.done();
        }
        Ok((stepped, WentBack::Not, waited))
    }
    /// Sets elements of a parameter, a buffer or a slot.
    pub(super) fn set_value(&mut self, decision: &SetDecision) -> Result<usize, String> {
        let said = |e: adamant_core::Error| e.to_string();
        let values = ValuesBetween::of(&self.session.model, self.session.optimizer(), None);
        let MadeChange { changed, count, .. } = made(decision, 0, &named(&values, &decision.of)?)?;
        match param(&values.params, &decision.of) {
            Some(param) => param.set(&changed).map_err(said)?,
            None => {
                let replaced = |(name, old): (String, Tensor)| match decision.of.strip_prefix(SLOTS) == Some(&name) {
                    true => (name, changed.clone()),
                    false => (name, old),
                };
                let slots: Vec<(String, Tensor)> = values.slots.into_iter().map(replaced).collect();
                self.session.optimizer_mut().load_state_dict(&slots).map_err(said)?;
            }
        }
        Ok(count)
    }
    /// Can these elements be set between two steps?
    pub(super) fn can_set(&self, decision: &SetDecision) -> Result<usize, String> {
        let value = named(&ValuesBetween::of(&self.session.model, self.session.optimizer(), None), &decision.of)?;
        Ok(decision.at.within(value.shape().map_err(|e| e.to_string())?)?.count())
    }
}
impl Controls {
    /// Changes a value, and writes down that it was; what cannot be done is not written, and what cannot be written not done.
    fn write_and_set(&mut self, step: u64, decision: &SetDecision, values: &mut ChangedValues) -> Result<usize, String> {
        let before = values.clone();
        let within = decision.within.map_or(0, |within| within.value);
        let count = values.set(within, decision)?;
        self.decide(step, &ControlDecision::Set(decision.clone())).inspect_err(|_| *values = before).map(|()| count)
    }
}
