//! What is planted, and the interceptor that does it: the op itself gives the bad number, or its rule a bad or far too large gradient.
use adamant::{Arg, DType, Device, Op, Outputs, Result, Tensor, stability::StepPhase};
use adamant_core::{Origin, grad::tap, intercept::Interceptor, scope};
use parking_lot::Mutex;
use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// What is planted.
#[derive(Clone, Copy)]
pub(super) enum Plant {
    /// one element becomes this
    Number(f64),
    /// a gradient grows by this
    Growth(f64),
}
/// The kinds of plants: those that f16 has come first.
pub(super) const KINDS: [(&str, Plant); 6] = [
    ("NaN", Plant::Number(f64::NAN)),
    ("+Inf", Plant::Number(f64::INFINITY)),
    ("-Inf", Plant::Number(f64::NEG_INFINITY)),
    ("explosion", Plant::Growth(1e6)),
    ("overflow", Plant::Number(3e20)),
    ("overflow", Plant::Number(-3e20)),
];
/// An op of a step: the part, and which of its ops. Those of the walk back are the ops whose rules it walks through.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct PlantedPlace {
    pub phase: StepPhase,
    pub op: usize,
}
/// What the planted op is.
#[derive(Clone, Debug)]
pub(super) struct PlantedOp {
    pub name: &'static str,
    pub layer: String,
    pub line: String,
}
/// Where a step's ops are counted, and where the number is put in.
pub(super) struct Planter {
    /// nothing is put in: ops are counted
    place: Option<PlantedPlace>,
    plant: Plant,
    /// of the result's elements, which one, as a share
    share: f64,
    pub state: Mutex<PlanterState>,
}
#[derive(Default)]
pub(super) struct PlanterState {
    pub met: BTreeMap<&'static str, usize>,
    /// Was anything put in? A rule that nobody walks through gives nothing.
    pub is_put: Arc<AtomicBool>,
    pub op: Option<PlantedOp>,
}
thread_local! {
    static PHASE: Cell<Option<StepPhase>> = const { Cell::new(None) };
}
pub(super) fn in_phase<R>(phase: StepPhase, f: impl FnOnce() -> R) -> R {
    let before = PHASE.replace(Some(phase));
    let result = phase.run(f);
    PHASE.set(before);
    result
}
impl Planter {
    pub fn new(place: Option<PlantedPlace>, plant: Plant, share: f64) -> Arc<Planter> {
        Arc::new(Planter { place, plant, share, state: Mutex::default() })
    }
    /// Counts anew: the step is run once more.
    pub fn restart(&self) {
        *self.state.lock() = PlanterState::default();
    }
    /// The number of an op in its phase, if it counts.
    fn number(&self, phase: StepPhase) -> usize {
        let mut state = self.state.lock();
        let met = state.met.entry(phase.name()).or_default();
        *met += 1;
        *met - 1
    }
}
/// The tensor with one element replaced, or grown.
pub(super) fn spoiled(x: &Tensor, plant: Plant, share: f64) -> Result<Tensor> {
    let meta = x.try_meta()?;
    let value = match plant {
        Plant::Number(value) => value,
        Plant::Growth(factor) => return (x.cast(DType::F32) * factor).cast(meta.dtype).ok(),
    };
    let n = meta.shape.elements();
    let at = ((share * n as f64) as usize).min(n.saturating_sub(1));
    let here = Tensor::from_vec_on((0..n).map(|k| k == at).collect::<Vec<bool>>(), meta.shape, meta.device);
    let value = Tensor::from_vec_on(vec![value], (), Device::reference()).cast(meta.dtype).to(meta.device);
    here.where_(value, x).ok()
}
pub(super) fn can_be_spoiled(x: &Tensor) -> bool {
    x.try_meta().is_ok_and(|meta| matches!(meta.dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64) && meta.shape.elements() > 0)
}
impl Interceptor for Planter {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
        let origin = Origin::here();
        let name = op.name();
        // What looks is no part of the step, and what moves numbers makes none.
        let passes = name == "adamant.all_finite" || matches!(op, Op::View(_) | Op::Const(_) | Op::StopGrad | Op::Transfer(_) | Op::Bitcast(_));
        let Some(phase) = PHASE.get().filter(|_| !passes && self.state.lock().op.is_none()) else { return next(op, arg, inputs) };
        let told = || PlantedOp { name, layer: scope::path(origin.scope), line: format!("{}:{}", origin.at.file(), origin.at.line()) };
        // Its rule gives the bad gradient.
        let is_walked = matches!(phase, StepPhase::Forward | StepPhase::Loss) && inputs.iter().any(|x| x.is_tracked() && can_be_spoiled(x));
        if is_walked && Some(PlantedPlace { phase: StepPhase::Backward, op: self.number(StepPhase::Backward) }) == self.place {
            let (plant, share, is_put) = (self.plant, self.share, self.state.lock().is_put.clone());
            let put_in = move |gradients: &[Option<Tensor>]| {
                is_put.store(true, Ordering::Relaxed);
                let first = gradients.iter().position(|g| g.as_ref().is_some_and(can_be_spoiled));
                let each = |(k, g): (usize, &Option<Tensor>)| match g {
                    Some(g) if Some(k) == first => spoiled(g, plant, share).map(Some),
                    g => Ok(g.clone()),
                };
                gradients.iter().enumerate().map(each).collect::<Result<Vec<_>>>().map(Some)
            };
            self.state.lock().op = Some(told());
            return match tap(inputs, put_in) {
                Ok(tapped) => next(op, arg, &tapped.iter().collect::<Vec<_>>()),
                Err(_) => next(op, arg, inputs),
            };
        }
        let outputs = next(op, arg, inputs);
        if !outputs.iter().any(can_be_spoiled) || Some(PlantedPlace { phase, op: self.number(phase) }) != self.place {
            return outputs;
        }
        {
            let mut state = self.state.lock();
            state.op = Some(told());
            state.is_put.store(true, Ordering::Relaxed);
        }
        let first = outputs.iter().position(can_be_spoiled);
        outputs
            .iter()
            .enumerate()
            .map(|(k, x)| if Some(k) == first { spoiled(x, self.plant, self.share).unwrap_or_else(|_| x.clone()) } else { x.clone() })
            .collect()
    }
}
