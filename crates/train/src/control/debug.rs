//! A run that is stopped to be looked into: who wants it to stop where, and what is answered about its values.
//!
//! Where the values come from is not known here: between two steps they are the session's, in a step those of an op ([`DebuggedValues`]).
use super::{AskedRequest, Breakpoint, ControlAnswer, ControlRequest, ElementPlace, MOST_ELEMENTS, NextStop, SetDecision};
use crate::{config::check::nearest, folder::any_number};
use adamant_core::{Meta, Tensor};
use adamant_stability::{NumberStats, VisitedOp};
use serde_json::{Value, json};

/// The most breakpoints at once.
const MOST_BREAKPOINTS: usize = 100;
/// The most values that are named in an answer.
const MOST_VALUES: usize = 2000;
/// Bars of a histogram.
const BARS: usize = 16;

/// What can be looked at where the run is.
pub(crate) trait DebuggedValues {
    /// Where that is.
    fn place(&self) -> Vec<(&'static str, Value)>;
    /// A value by its name, if there is one.
    fn value(&self, name: &str) -> Option<Tensor>;
    /// The names of all, and what they are.
    fn all(&self) -> Vec<(String, Meta)>;
}
/// Why a run has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunStop {
    /// for whom: it goes on when that client leaves
    pub client: u64,
    /// at which breakpoint; none: at what comes next
    pub breakpoint: Option<u64>,
}
struct PlacedBreakpoint {
    number: u64,
    client: u64,
    breakpoint: Breakpoint,
}
/// See the module's documentation.
#[derive(Default)]
pub(crate) struct DebugState {
    breakpoints: Vec<PlacedBreakpoint>,
    numbered: u64,
    next: Option<(NextStop, u64)>,
    /// what is set in the next step, since that was done in it before
    pub planned: Vec<SetDecision>,
}
impl DebugState {
    /// Must the ops of this step be looked at?
    pub fn looks_into(&self, step: u64) -> bool {
        let is_near = matches!(self.next, Some((NextStop::Op | NextStop::Layer, _)));
        is_near || !self.planned.is_empty() || self.breakpoints.iter().any(|placed| placed.breakpoint.looks_into(step))
    }
    /// Does the run stop before this step?
    pub fn stops_before(&self, step: u64) -> Option<RunStop> {
        if let Some((NextStop::Step, client)) = self.next {
            return Some(RunStop { client, breakpoint: None });
        }
        let placed = self.breakpoints.iter().find(|placed| placed.breakpoint.is_before(step))?;
        Some(RunStop { client: placed.client, breakpoint: Some(placed.number) })
    }
    /// Does it stop behind this op? `before` is the layer of the op before it.
    pub fn stops_behind(&self, step: u64, seen: &VisitedOp, before: Option<&str>, numbers: &mut dyn FnMut() -> Vec<NumberStats>) -> Option<RunStop> {
        let is_next = match self.next {
            Some((NextStop::Op, _)) => true,
            Some((NextStop::Layer, _)) => before != Some(&*seen.op.layer),
            _ => false,
        };
        if let (Some((_, client)), true) = (self.next, is_next) {
            return Some(RunStop { client, breakpoint: None });
        }
        let meets = |placed: &&PlacedBreakpoint| placed.breakpoint.looks_into(step) && placed.breakpoint.meets(seen, before, numbers);
        let placed = self.breakpoints.iter().find(meets)?;
        Some(RunStop { client: placed.client, breakpoint: Some(placed.number) })
    }
    /// It has stopped: what comes next is to be said anew.
    pub fn stopped(&mut self) {
        self.next = None;
    }
    /// It goes on to what comes next.
    pub fn go_to(&mut self, next: NextStop, client: u64) {
        self.next = Some((next, client));
    }
    /// A client is gone, and all that it wanted.
    pub fn left(&mut self, client: u64) {
        self.breakpoints.retain(|placed| placed.client != client);
        self.next = self.next.filter(|(_, of)| *of != client);
    }
    /// Answers what only looks, and what is about breakpoints. None: it is something else.
    pub fn answer(&mut self, asked: &AskedRequest, values: &dyn DebuggedValues) -> Option<ControlAnswer> {
        Some(match &asked.request {
            ControlRequest::Break(breakpoint) => self.add(breakpoint, asked.client).into(),
            ControlRequest::Unbreak { breakpoint } => self.remove(*breakpoint, asked.client).into(),
            ControlRequest::Where => {
                let mut all = values.all();
                let left_out = all.len().saturating_sub(MOST_VALUES);
                all.truncate(MOST_VALUES);
                let told = |(name, meta): &(String, Meta)| json!({ "name": name, "shape": &meta.shape[..], "dtype": meta.dtype.name() });
                let mut more = values.place();
                more.push(("values", all.iter().map(told).collect()));
                more.extend((left_out > 0).then(|| ("left_out", json!(left_out))));
                more.push(("breakpoints", self.breakpoints.iter().map(|p| json!({ "breakpoint": p.number, "text": p.breakpoint.to_string() })).collect()));
                ControlAnswer::Done(more)
            }
            ControlRequest::Look { of } => named(values, of).and_then(|x| figures(&x)).into(),
            ControlRequest::Slice { of, at } => named(values, of).and_then(|x| elements(&x, at)).into(),
            _ => return None,
        })
    }
    fn add(&mut self, breakpoint: &Breakpoint, client: u64) -> Result<Vec<(&'static str, Value)>, String> {
        if self.breakpoints.len() >= MOST_BREAKPOINTS {
            return Err(format!("there are {MOST_BREAKPOINTS} breakpoints: `unbreak` takes some away"));
        }
        self.numbered += 1;
        self.breakpoints.push(PlacedBreakpoint { number: self.numbered, client, breakpoint: breakpoint.clone() });
        Ok(vec![("breakpoint", json!(self.numbered))])
    }
    fn remove(&mut self, number: Option<u64>, client: u64) -> Result<Vec<(&'static str, Value)>, String> {
        let before = self.breakpoints.len();
        self.breakpoints.retain(|placed| match number {
            Some(number) => placed.number != number,
            None => placed.client != client,
        });
        match number {
            Some(number) if before == self.breakpoints.len() => Err(format!("there is no breakpoint {number}")),
            _ => Ok(Vec::new()),
        }
    }
}
/// A value by its name, or what to say where there is none.
pub(crate) fn named(values: &dyn DebuggedValues, name: &str) -> Result<Tensor, String> {
    values.value(name).ok_or_else(|| {
        let names: Vec<String> = values.all().into_iter().map(|(name, _)| name).collect();
        let hint = nearest(name, names.iter().map(String::as_str)).map_or_else(|| "`where` tells what there is".into(), |near| format!("is it `{near}`?"));
        format!("there is no value `{}` here: {hint}", crate::failure::shown(name))
    })
}
/// What the numbers of a value are like.
fn figures(x: &Tensor) -> Result<Vec<(&'static str, Value)>, String> {
    let meta = x.try_meta().map_err(|e| e.to_string())?;
    let all = x.detach().to_vec_as::<f64>().map_err(|e| e.to_string())?;
    let stats = NumberStats::of_numbers(&all);
    let figure = |value: Option<f64>| value.map_or(Value::Null, any_number);
    let bars = match (stats.least, stats.most) {
        (Some(least), Some(most)) => {
            let mut counts = [0u64; BARS];
            let width = (most / BARS as f64 - least / BARS as f64).max(f64::MIN_POSITIVE);
            for v in all.iter().filter(|v| v.is_finite()) {
                counts[(((v - least) / width) as usize).min(BARS - 1)] += 1;
            }
            json!({ "least": least, "most": most, "counts": counts })
        }
        _ => Value::Null,
    };
    Ok(vec![
        ("shape", json!(&meta.shape[..])),
        ("dtype", json!(meta.dtype.name())),
        ("elements", json!(stats.elements)),
        ("nan", json!(stats.nan)),
        ("inf", json!(stats.non_finite - stats.nan)),
        ("least", figure(stats.least)),
        ("most", figure(stats.most)),
        ("mean", figure(stats.mean)),
        ("std", figure(stats.std)),
        ("absmax", figure(stats.absmax())),
        ("zeros", json!(stats.zeros)),
        ("histogram", bars),
    ])
}
/// Elements of a value.
fn elements(x: &Tensor, at: &ElementPlace) -> Result<Vec<(&'static str, Value)>, String> {
    let placed = at.within(x.shape().map_err(|e| e.to_string())?)?;
    if placed.count() > MOST_ELEMENTS {
        return Err(format!("`{at}` names {} elements, and at most {MOST_ELEMENTS} are given at once", placed.count()));
    }
    let values = placed.read(x).map_err(|e| e.to_string())?;
    Ok(vec![("shape", json!(placed.shape())), ("values", values.into_iter().map(any_number).collect())])
}
