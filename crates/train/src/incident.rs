//! A step that ended a run because numbers in it were not finite: what is known of it, in words and as a line of `incidents.jsonl`.
use crate::{
    Failure, Position,
    folder::{number, text_of},
    trainer::Batch,
};
use adamant_core::{DType, Result as Computed, Tensor};
use adamant_data::Place;
use adamant_stability::{BadNumber, NumberStats, StepPhase, StepTrace, TracedOp};
use serde_json::{Value, json};
use std::path::Path;

/// The most records that a text names.
const NAMED: usize = 5;

/// See the module's documentation.
pub(crate) struct Incident {
    /// the step that was not kept, and its epoch
    position: Position,
    handling: &'static str,
    bad: Option<BadNumber>,
    /// the records of the step, and whether numbers in them are not finite
    records: Vec<(Place, bool)>,
}
/// Was it applied by this crate, for a description?
fn is_own(op: &TracedOp) -> bool {
    let here = Path::new(file!()).parent();
    here.is_some_and(|here| Path::new(op.line.file()).starts_with(here))
}
/// Which rows of a batch have numbers that are not finite?
fn bad_rows<B: Batch>(batch: &B, rows: usize) -> Computed<Vec<bool>> {
    let mut bad = vec![false; rows];
    for tensor in batch.tensors() {
        let shape = tensor.shape()?;
        if !tensor.dtype()?.is_float() || shape.first() != Some(&rows) || shape.elements() == 0 || tensor.is_finite_all()? {
            continue;
        }
        let of_row = tensor.detach().reshape([rows, shape.elements() / rows]).isfinite().logical_not().cast(DType::U8).amax(1);
        bad.iter_mut().zip(Tensor::to_vec::<u8>(&of_row)?).for_each(|(bad, is)| *bad |= is != 0);
    }
    Ok(bad)
}
impl Incident {
    /// Of the step that was traced: its batches, and the places of their records.
    pub fn of<B: Batch>(position: Position, handling: &'static str, traced: StepTrace, group: &[B], places: &[Vec<Place>]) -> Result<Incident, Failure> {
        let mut records = Vec::new();
        for (batch, places) in group.iter().zip(places) {
            // Where records were left out, rows are not those of the places.
            let rows = batch.rows()?;
            let bad = if rows == places.len() { bad_rows(batch, rows)? } else { vec![false; places.len()] };
            records.extend(places.iter().cloned().zip(bad));
        }
        Ok(Incident { position, handling, bad: traced.bad, records })
    }
    fn bad_records(&self) -> impl Iterator<Item = &Place> {
        self.records.iter().filter(|(_, bad)| *bad).map(|(place, _)| place)
    }
    /// What the first bad number is; nothing where it was not found again.
    pub fn kind(&self) -> Option<&'static str> {
        self.bad.as_ref().map(BadNumber::kind)
    }
    /// What happened, where it came from, and where the state is.
    pub fn text(&self, checkpoint: Option<&Path>) -> String {
        let step = self.position.step;
        let mut text = match &self.bad {
            // The line of a description's layer is one of this crate, which tells nobody anything.
            Some(BadNumber { op: Some(op), phase, at, .. }) if is_own(op) => {
                format!("step {step}: {} at {at:?}, made by {op} ({phase})", self.bad.as_ref().map_or("NaN", BadNumber::kind))
            }
            Some(bad) => format!("step {step}: {bad}"),
            None => format!("step {step} has numbers that are not finite, but run op by op it has none"),
        };
        if self.bad.as_ref().is_some_and(|bad| bad.phase != StepPhase::Data) {
            text += ": training has diverged";
        }
        let bad: Vec<&Place> = self.bad_records().collect();
        if !bad.is_empty() {
            let named: Vec<String> = bad.iter().take(NAMED).map(|p| format!("record {} of {}", p.index, p.file.display())).collect();
            let more = if bad.len() > NAMED { format!(" and {} more", bad.len() - NAMED) } else { String::new() };
            text += &format!("; not finite in the batch: {}{more}", named.join(", "));
        }
        text += &match checkpoint {
            Some(path) => format!("; nothing of the step was kept: the state of step {} is in {}", step - 1, path.display()),
            None => "; nothing of the step was kept".into(),
        };
        text
    }
    /// The line of `incidents.jsonl`.
    pub fn to_json(&self) -> Value {
        let op = |op: &TracedOp| json!({ "op": op.op, "called": op.called, "layer": op.layer, "file": op.line.file(), "line": op.line.line(), "phase": op.phase.name() });
        let stats = |s: &NumberStats| json!({ "elements": s.elements, "non_finite": s.non_finite, "least": s.least.map(number), "most": s.most.map(number) });
        let bad = self.bad.as_ref().map(|bad| {
            json!({
                "kind": bad.kind(), "phase": bad.phase.name(), "op": bad.op.as_ref().map(op), "place": bad.place, "at": bad.at, "growth": bad.growth.map(number),
                "inputs": bad.inputs.iter().map(stats).collect::<Vec<_>>(), "chain": bad.chain.iter().map(op).collect::<Vec<_>>(),
            })
        });
        let place = |(p, bad): &(Place, bool)| json!({ "file": text_of(&p.file), "index": p.index, "finite": !bad });
        json!({
            "step": self.position.step, "epoch": self.position.epoch + 1, "handling": self.handling, "origin": bad,
            "records": self.records.iter().map(place).collect::<Vec<_>>(),
        })
    }
}
