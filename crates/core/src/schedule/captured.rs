//! A captured function and its replay: the window is recorded once and stays; only inputs, cells and outputs change.
use super::{
    decide::Holder,
    execute::Replay,
    expand::{Source, expand},
    plan::{InputHold, Plan, Sized},
};
use crate::{
    Device, Error, ErrorKind, Op, Origin, Result, Tensor,
    cell::{Cell, Overlay},
    op::{Arg, View, mix},
    record::{NoSlot, Stream, evaluate, ready},
    value::{Stored, Value},
};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// Where an input slot's memory comes from at a call.
#[derive(Clone, Copy)]
enum From {
    Argument(usize),
    Cell(usize),
    /// a tensor that the closure holds
    Constant,
}
pub(crate) struct Captured {
    stream: Arc<Stream>,
    /// by slot of the captured window
    sources: HashMap<u32, From>,
    cells: Vec<Cell>,
    outputs: Vec<u32>,
    /// (cell, slot): the cell's next value
    writes: Vec<(Cell, u32)>,
    plans: Mutex<HashMap<u64, super::Found>>,
}
pub(crate) struct Call<'a> {
    pub inputs: &'a [Tensor],
    pub device: Device,
    pub origin: Origin,
}

impl Captured {
    pub fn new(places: &[Tensor], outputs: &[Tensor], overlay: &Overlay, stream: Arc<Stream>) -> Result<Captured> {
        let mut log = stream.log.lock();
        let internal = |why: NoSlot| Error::new("compile", why.into());
        let mut slots = Vec::new();
        for t in outputs {
            slots.push(log.slot_of(t.value()).map_err(internal)?);
        }
        let mut writes = Vec::new();
        for cell in overlay.cells() {
            if let (true, Some(t)) = (overlay.written.contains(&cell.id()), overlay.values.get(&cell.id())) {
                writes.push((cell.clone(), log.slot_of(t.value()).map_err(internal)?));
            }
        }
        let mut sources = HashMap::new();
        for (k, t) in places.iter().enumerate() {
            if let Some(slot) = t.value().slot(log.epoch) {
                sources.insert(slot, From::Argument(k));
            }
        }
        let mut cells = Vec::new();
        for (cell, t) in &overlay.reads {
            if let Some(slot) = t.value().slot(log.epoch) {
                sources.insert(slot, From::Cell(cells.len()));
                cells.push(cell.clone());
            }
        }
        for r in &log.records {
            if matches!(r.op, Op::Input) {
                sources.entry(r.first).or_insert(From::Constant);
            }
        }
        drop(log);
        Ok(Captured { stream, sources, cells, outputs: slots, writes, plans: Mutex::new(HashMap::new()) })
    }

    /// Binds, replays, and gives the results out.
    pub fn call(&self, call: &Call<'_>) -> Result<Vec<Tensor>> {
        let arguments: Vec<Arc<Value>> = call.inputs.iter().map(dense_value).collect::<Result<_>>()?;
        let mut old: Vec<Arc<Value>> = Vec::with_capacity(self.cells.len());
        for c in &self.cells {
            let v = c.current();
            evaluate(&v)?;
            old.push(dense_value(&Tensor::from_value(v))?);
        }
        let log = self.stream.log.lock();
        // What is free: the old value of a cell that is written, if only the cell holds it (`old` is one more handle).
        let mut key = 0u64;
        let mut holds = Vec::new();
        for r in log.records.iter().filter(|r| matches!(r.op, Op::Input)) {
            let hold = match self.sources.get(&r.first) {
                Some(From::Cell(k)) if self.writes.iter().any(|(c, _)| c.id() == self.cells[*k].id()) && only_the_cell_holds(&old[*k]) => InputHold::OldCell,
                _ => InputHold::Held,
            };
            key = mix(key, hold as u64);
            holds.push(hold);
        }
        let known = self.plans.lock().get(&key).cloned();
        let planned = match known {
            Some(p) => {
                super::count(|s| s.hits += 1);
                p
            }
            None => {
                super::count(|s| s.misses += 1);
                let n = log.records.len();
                let fail = |(r, k): (usize, ErrorKind)| {
                    let r = &log.records[r];
                    Error::at(r.op.name(), k, log.values[r.first as usize].origin)
                };
                let graph = expand(&log, n).map_err(fail)?;
                let mut holders = vec![Holder::Nobody; log.values.len()];
                let written: Vec<u32> = self.writes.iter().map(|(_, s)| *s).collect();
                for s in self.outputs.iter().chain(&written) {
                    holders[*s as usize] = Holder::User;
                }
                let plan = Plan::new(graph, &holders, &written, &holds, call.device).map_err(fail)?;
                let sized = Sized::new(&plan, &plan.graph);
                let p = (Arc::new(plan), Arc::new(sized));
                self.plans.lock().insert(key, p.clone());
                p
            }
        };
        let (plan, sized) = &planned;
        let mut inputs: Vec<&Stored> = Vec::with_capacity(plan.graph.inputs.len());
        for (_, source) in &plan.graph.inputs {
            let bound = match source {
                Source::Constant(v) => v,
                Source::Slot(slot) => match self.sources.get(slot) {
                    Some(From::Argument(k)) => &arguments[*k],
                    Some(From::Cell(k)) => &old[*k],
                    _ => &log.values[*slot as usize],
                },
            };
            inputs.push(bound.stored().ok_or_else(|| Error::at("compile", ErrorKind::Internal("an input is not in memory".into()), call.origin))?);
        }
        let origin = |r: u32| log.values[log.records[r as usize].first as usize].origin;
        // All cells of one call commit together.
        let error_of = |taints: &[Option<Error>]| self.writes.iter().find_map(|(_, s)| taints[plan.graph.of_slot[*s as usize] as usize].clone());
        let bad = |taints: &[Option<Error>]| {
            let mut bad: Vec<Option<Error>> = vec![None; plan.graph.vals.len()];
            if let Some(e) = error_of(taints) {
                for (_, s) in &self.writes {
                    bad[plan.graph.of_slot[*s as usize] as usize] = Some(e.clone());
                }
            }
            bad
        };
        let _watched = super::watch::flush(log.records.len());
        let replay = Replay { plan, sized, records: &log.records, inputs: &inputs, device: call.device, origin: &origin, bad: &bad };
        let own = replay.reserve()?;
        let outcome = replay.run(own).inspect_err(|e| {
            for i in replay.overwritten() {
                if let Some((_, Source::Slot(slot))) = plan.graph.inputs.get(i as usize)
                    && let Some(From::Cell(k)) = self.sources.get(slot)
                {
                    old[*k].fail(e.clone());
                }
            }
        })?;
        for i in replay.taken(&outcome) {
            if let Some((_, Source::Slot(slot))) = plan.graph.inputs.get(i as usize)
                && let Some(From::Cell(k)) = self.sources.get(slot)
            {
                super::count(|s| s.donated += 1);
                old[*k].donate();
            }
        }
        let fault = outcome.taints.as_ref().and_then(|t| error_of(t));
        let mut by_slot: HashMap<u32, Tensor> = HashMap::new();
        for (k, (slot, _)) in plan.publish.iter().enumerate() {
            if let Some(stored) = replay.published(&outcome, k) {
                by_slot.insert(*slot, Tensor::from_value(ready(log.values[*slot as usize].meta, call.origin, stored)));
            }
        }
        // An output that is an input, as it stands.
        let result = |slot: &u32| -> Result<Tensor> {
            if let Some(t) = by_slot.get(slot) {
                return Ok(t.clone());
            }
            match self.sources.get(slot) {
                Some(From::Argument(k)) => Ok(call.inputs[*k].clone()),
                Some(From::Cell(k)) => Ok(Tensor::from_value(old[*k].clone())),
                Some(From::Constant) => Ok(Tensor::from_value(log.values[*slot as usize].clone())),
                None => Err(fault.clone().unwrap_or_else(|| Error::at("compile", ErrorKind::Internal("an output did not run".into()), call.origin))),
            }
        };
        if fault.is_none() {
            for (cell, slot) in &self.writes {
                cell.replace(result(slot)?.value().clone());
            }
        } else {
            super::count(|s| s.withheld += 1);
        }
        match fault {
            Some(e) => Err(e),
            None => self.outputs.iter().map(result).collect(),
        }
    }
}
/// Handles of a cell's value: the cell's own and ours.
fn only_the_cell_holds(v: &Arc<Value>) -> bool {
    v.users() == 2 && v.kept() == 0 && v.stored().is_some_and(|s| Arc::strong_count(&s.buffer) == 1 && s.offset == 0)
}
/// The value in memory without gaps, as the captured window assumes.
fn dense_value(t: &Tensor) -> Result<Arc<Value>> {
    evaluate(t.value())?;
    let meta = t.meta();
    match t.value().stored() {
        Some(s) if !s.is_dense(&meta.shape) => {
            let moved = Tensor::apply(Op::View(View::Reshape(meta.shape)), Arg::None, &[t]);
            evaluate(moved.value())?;
            Ok(moved.value().clone())
        }
        _ => Ok(t.value().clone()),
    }
}
