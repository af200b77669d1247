//! Where a bad number came from: a step is run once more, op by op, and looked at after each ([`trace()`]).
//!
//! Data flow: an interceptor sees each op that the step applies, has its results computed and looks at them ([`TracedStep::ops`]); on each of its
//! inputs it puts a tap, which sees in the walk back what the op's rule made of a gradient. The *symptom* is the first of what the
//! step is judged by: its loss, a gradient, what it wrote. From there the search goes back over inputs that are bad to the op whose
//! inputs were good ([`TracedStep::root`]). Infinities that are filled in on purpose (a mask) are bad only where they make NaN, and then it
//! is the op that makes it.
use crate::{kinds::overflows, numbers::NumberStats};
use adamant_core::{
    Arg, DType, Error, ErrorKind, Op, Origin, Outputs, Result, Shape, Tensor, WrittenCell,
    grad::{grad_enabled, tap},
    intercept::{self, Interceptor},
    scope, step_reviewed,
};
use parking_lot::Mutex;
use std::{cell::Cell, collections::HashMap, fmt, panic::Location, sync::Arc};

/// A part of a training step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StepPhase {
    /// the batch, as the loader gave it
    Data,
    /// the model
    Forward,
    /// from the model's outputs to the loss
    Loss,
    /// the walk back
    Backward,
    /// what is done to gradients
    Clip,
    /// the new weights
    Optimizer,
}
impl StepPhase {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            StepPhase::Data => "data",
            StepPhase::Forward => "forward",
            StepPhase::Loss => "loss",
            StepPhase::Backward => "backward",
            StepPhase::Clip => "clip",
            StepPhase::Optimizer => "optimizer",
        }
    }
}
impl fmt::Display for StepPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
thread_local! {
    /// none: nobody has said
    static PHASE: Cell<Option<StepPhase>> = const { Cell::new(None) };
}
impl StepPhase {
    /// Runs `f` as this part of a step, which a [`trace()`] around it tells of. Without one nothing changes.
    pub fn run<R>(self, f: impl FnOnce() -> R) -> R {
        in_phase(Some(self), f)
    }
}
fn in_phase<R>(phase: Option<StepPhase>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<StepPhase>);
    impl Drop for Restore {
        fn drop(&mut self) {
            PHASE.set(self.0);
        }
    }
    let _restore = Restore(PHASE.replace(phase));
    f()
}
/// An op of a traced step.
#[derive(Clone, Debug)]
pub struct TracedOp {
    /// its name; of a composite, the composite's
    pub op: &'static str,
    /// the function that applied it, where it is one of several ops
    pub called: Option<&'static str>,
    /// the path of the layer, empty outside of all
    pub layer: String,
    /// the user's line
    pub line: &'static Location<'static>,
    /// the part of the step
    pub phase: StepPhase,
}
impl TracedOp {
    /// An op that is applied here.
    pub(crate) fn here(op: &'static str, origin: Origin) -> TracedOp {
        let layer = scope::path(origin.scope);
        // Where nobody says where the loss begins: behind all layers.
        let behind = if layer.is_empty() { StepPhase::Loss } else { StepPhase::Forward };
        TracedOp { op, called: scope::called_name(origin.called), layer, line: origin.at, phase: PHASE.get().unwrap_or(behind) }
    }
    /// The op as its users know it: without the family of a composite.
    pub fn name(&self) -> &'static str {
        self.op.rsplit('.').next().unwrap_or(self.op)
    }
}
impl fmt::Display for TracedOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if let Some(called) = self.called.filter(|called| *called != self.name()) {
            write!(f, " of {called}")?;
        }
        if !self.layer.is_empty() {
            write!(f, " in {}", self.layer)?;
        }
        Ok(())
    }
}
/// The origin of a bad number.
#[derive(Clone, Debug)]
pub struct BadNumber {
    /// the part of the step that made it
    pub phase: StepPhase,
    /// the op that made it of good numbers; none where it was there before: in the data, or in a weight
    pub op: Option<TracedOp>,
    /// what it stands in, where no op made it: `input 0`, or a weight's path
    pub place: Option<String>,
    /// the first bad element, in row-major order
    pub at: Vec<usize>,
    /// that element
    pub value: f64,
    /// what the op was given
    pub inputs: Vec<NumberStats>,
    /// from the op to the symptom: those that handed it on
    pub chain: Vec<TracedOp>,
    /// of an explosion, how many times larger the norm of what the op's rule gave is than that of what it was given
    pub growth: Option<f64>,
}
impl BadNumber {
    /// NaN, an infinity with its sign, an overflow, or an explosion.
    pub fn kind(&self) -> &'static str {
        match self.value {
            _ if self.growth.is_some() => "explosion",
            v if v.is_nan() => "NaN",
            v if v.is_finite() => "overflow",
            v if v > 0.0 => "+Inf",
            _ => "-Inf",
        }
    }
}
impl fmt::Display for BadNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:?}", self.kind(), self.at)?;
        if let Some(growth) = self.growth {
            write!(f, ", {growth:.1e} times the gradient before")?;
        }
        match (&self.op, &self.place) {
            (Some(op), _) => write!(f, ", made by {op} ({}, {}:{})", self.phase, op.line.file(), op.line.line()),
            (None, Some(place)) => write!(f, " of {place} ({})", self.phase),
            (None, None) => write!(f, " ({})", self.phase),
        }
    }
}
/// What a trace came to.
pub struct StepTrace {
    /// where the bad number came from; none where there is none
    pub bad: Option<BadNumber>,
    /// ops that were looked at
    pub ops: usize,
}

/// What is wrong with a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct WrongKinds {
    nan: bool,
    inf: bool,
    /// finite, and beyond the threshold
    over: bool,
}
impl WrongKinds {
    fn of(x: &Tensor, threshold: Option<f64>) -> Result<WrongKinds> {
        let mut wrong = WrongKinds::default();
        if !x.dtype()?.is_float() {
            return Ok(wrong);
        }
        let x = x.detach();
        if !x.is_finite_all()? {
            (wrong.nan, wrong.inf) = (x.isnan().any(..).item::<bool>()?, x.isinf().any(..).item::<bool>()?);
        }
        if let Some(threshold) = threshold {
            wrong.over = overflows(&x, threshold).any(..).item::<bool>()?;
        }
        Ok(wrong)
    }
    fn any(self) -> bool {
        self.nan || self.inf || self.over
    }
}
/// The first element that is wrong, and its value.
fn first_wrong(x: &Tensor, threshold: Option<f64>) -> Result<Option<(Vec<usize>, f64)>> {
    if let Some(found) = x.find_non_finite()? {
        return Ok(Some(found));
    }
    let (all, shape) = (x.detach().to_vec_as::<f64>()?, x.shape()?);
    let beyond = |v: &f64| threshold.is_some_and(|threshold| v.abs() > threshold);
    Ok(all.iter().position(beyond).map(|k| (place_of(k, shape), all[k])))
}
/// The place of an element of this number, in row-major order.
fn place_of(mut k: usize, shape: Shape) -> Vec<usize> {
    let mut at = vec![0; shape.rank()];
    for axis in (0..shape.rank()).rev() {
        at[axis] = k % shape[axis];
        k /= shape[axis];
    }
    at
}
/// An op that was applied.
struct Applied {
    op: TracedOp,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    wrong: Vec<WrongKinds>,
    /// infinities that were asked for
    fills: bool,
    /// it makes no number: what is bad in it was there before, or was asked for
    moves: bool,
}
/// What the walk back made of a good gradient.
struct Pulled {
    by: usize,
    gradient: Tensor,
}
/// An op whose rule makes a gradient so many times larger is where one that left the range of its dtype has grown.
const STEEP: f64 = 1e3;
/// What the rule of an op made larger.
struct GrownGradient {
    by: usize,
    growth: f64,
    gradient: Tensor,
}
/// What a trace looks for, NaN and infinities apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TraceOptions {
    /// finite numbers beyond ± this are bad too
    pub threshold: Option<f64>,
    /// where there is no bad number: the op whose rule made a gradient grow most. For a step whose gradients have exploded.
    pub explosion: bool,
    /// what any op gave is bad, not only what reaches the loss, a gradient or a weight: for a step that is judged by all of them
    pub every_op: bool,
}
/// All that was seen of a step.
#[derive(Default)]
struct TracedStep {
    ops: Vec<Applied>,
    /// by a value's address, the op that made it and which of its results it is
    made: HashMap<u64, (usize, usize)>,
    pulled: Option<Pulled>,
    failed: Option<Error>,
    looks_for: TraceOptions,
    /// where explosions are looked for, by an op's number the norm of what its rule was given
    given: HashMap<usize, f64>,
    /// the rule that made a gradient grow most
    grown: Option<GrownGradient>,
    /// values that were there before
    named: Vec<Tensor>,
}
struct Tracer(Arc<Mutex<TracedStep>>);
impl Interceptor for Tracer {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
        let origin = Origin::here();
        let (name, fills, moves) = (op.name(), fills(&op, &arg), moves(&op));
        let number = self.0.lock().ops.len();
        let step = self.0.clone();
        let TraceOptions { threshold, explosion, .. } = self.0.lock().looks_for;
        // What the rule of this op makes of gradients, and of nothing else, passes here.
        let tapped = match grad_enabled() {
            true => tap(inputs, move |gradients| {
                let bad = gradients.iter().flatten().find(|g| WrongKinds::of(g, threshold).is_ok_and(WrongKinds::any));
                let mut step = step.lock();
                if let (Some(gradient), None) = (bad, &step.pulled) {
                    step.pulled = Some(Pulled { by: number, gradient: gradient.clone() });
                }
                if explosion && step.pulled.is_none() {
                    step.grew(number, gradients)?;
                }
                Ok(None)
            }),
            false => Ok(inputs.iter().map(|t| (*t).clone()).collect()),
        };
        let tapped = match tapped {
            Ok(tapped) => tapped,
            Err(_) => inputs.iter().map(|t| (*t).clone()).collect(),
        };
        let mut outputs = next(op, arg, &tapped.iter().collect::<Vec<_>>());
        if explosion && grad_enabled() {
            let step = self.0.clone();
            let given = tap(&outputs.iter().collect::<Vec<_>>(), move |gradients| {
                let norm = norm_of(gradients.iter().flatten())?;
                step.lock().given.insert(number, norm);
                Ok(None)
            });
            outputs = given.map_or(outputs, Outputs::from_iter);
        }
        let looked: Result<Vec<WrongKinds>> = outputs.iter().map(|x| WrongKinds::of(x, threshold)).collect();
        let mut step = self.0.lock();
        match looked {
            Err(e) => {
                step.failed.get_or_insert(e);
            }
            Ok(wrong) => {
                let op = TracedOp::here(name, origin);
                let at = step.ops.len();
                for (k, output) in outputs.iter().enumerate() {
                    step.made.insert(output.value_address(), (at, k));
                }
                let inputs = inputs.iter().map(|t| t.detach()).collect();
                step.ops.push(Applied { op, inputs, outputs: outputs.iter().map(Tensor::detach).collect(), wrong, fills, moves });
            }
        }
        outputs
    }
}
/// Does the op put an infinity where its caller wanted one?
pub(crate) fn fills(op: &Op, arg: &Arg) -> bool {
    matches!(op, Op::Const(_) | Op::Pad(_) | Op::BinaryScalar(..)) && matches!(arg, Arg::Scalar(s) if s.to_f64().is_infinite())
}
/// Does the op only move values, whose bits stay?
pub(crate) fn moves(op: &Op) -> bool {
    matches!(op, Op::View(_) | Op::Const(_) | Op::StopGrad | Op::Transfer(_) | Op::Concat { .. })
}
/// Where a search ended.
enum Root {
    Op(usize),
    /// a value that no op made
    Leaf(Tensor),
    /// infinities that were asked for
    Meant,
}
/// The Euclidean norm of all tensors together.
fn norm_of<'t>(tensors: impl Iterator<Item = &'t Tensor>) -> Result<f64> {
    let mut squares = 0.0;
    for x in tensors.filter(|x| x.dtype().is_ok_and(DType::is_float)) {
        squares += x.detach().to_vec_as::<f64>()?.iter().map(|v| v * v).sum::<f64>();
    }
    Ok(squares.sqrt())
}
impl TracedStep {
    /// A rule has made gradients: by how much are they larger than what it was given?
    fn grew(&mut self, by: usize, gradients: &[Option<Tensor>]) -> Result<()> {
        let Some(given) = self.given.get(&by).copied().filter(|given| *given > 0.0) else { return Ok(()) };
        for gradient in gradients.iter().flatten() {
            let growth = norm_of(std::iter::once(gradient))? / given;
            if growth.is_finite() && self.grown.as_ref().is_none_or(|grown| grown.growth < growth) {
                self.grown = Some(GrownGradient { by, growth, gradient: gradient.clone() });
            }
        }
        Ok(())
    }
    fn wrong(&self, x: &Tensor) -> WrongKinds {
        match self.made.get(&x.value_address()) {
            Some((at, k)) => self.ops[*at].wrong.get(*k).copied().unwrap_or_default(),
            None => WrongKinds::of(x, self.looks_for.threshold).unwrap_or_default(),
        }
    }
    /// What a tensor was cast from, if that was not seen: an interceptor casts below all others. It is the last one whose cast has these bits.
    fn cast_from(&self, x: &Tensor) -> Option<Tensor> {
        if self.made.contains_key(&x.value_address()) || self.named.iter().any(|n| n.value_address() == x.value_address()) {
            return None;
        }
        let (meta, bits) = (x.try_meta().ok()?, x.detach().to_bytes().ok()?);
        let is_it = |source: &&Tensor| {
            let same = source.try_meta().is_ok_and(|of| of.dtype.is_float() && of.dtype != meta.dtype && of.shape == meta.shape);
            same && source.detach().cast(meta.dtype).to_bytes().is_ok_and(|cast| cast == bits)
        };
        let made = self.ops.iter().rev().flat_map(|applied| &applied.outputs);
        made.chain(&self.named).find(is_it).cloned()
    }
    /// The op that made what is wrong in a tensor, and the ops between, nearest to the root first.
    fn root(&self, x: &Tensor) -> (Root, Vec<usize>) {
        let Some((at, k)) = self.made.get(&x.value_address()).copied() else {
            return match self.cast_from(x).filter(|source| self.wrong(source).any()) {
                Some(source) => self.root(&source),
                None => (Root::Leaf(x.clone()), Vec::new()),
            };
        };
        let applied = &self.ops[at];
        let wrong = applied.wrong.get(k).copied().unwrap_or_default();
        // NaN comes from NaN rather than from an infinity beside it.
        let mut candidates: Vec<(&Tensor, WrongKinds)> = applied.inputs.iter().map(|i| (i, self.wrong(i))).filter(|(_, w)| w.any()).collect();
        candidates.sort_by_key(|(_, w)| !(w.nan && wrong.nan));
        for (input, _) in candidates {
            // What was cast was good: in the cast it left the range of what this op is given.
            if self.cast_from(input).is_some_and(|source| !self.wrong(&source).any()) {
                return (Root::Op(at), Vec::new());
            }
            match self.root(input) {
                (Root::Meant, _) => {}
                (root, mut chain) => {
                    chain.push(at);
                    return (root, chain);
                }
            }
        }
        let only_infinite = wrong.inf && !wrong.nan;
        let was_meant = applied.fills || (only_infinite && applied.inputs.iter().any(|i| self.wrong(i).inf));
        match only_infinite && was_meant {
            true => (Root::Meant, Vec::new()),
            false => (Root::Op(at), Vec::new()),
        }
    }
    /// What the rule of an op made in the walk back.
    fn of_rule(&self, by: usize, (at, value): (Vec<usize>, f64), growth: Option<f64>) -> Result<BadNumber> {
        let applied = &self.ops[by];
        let inputs = applied.inputs.iter().map(NumberStats::of).collect::<Result<_>>()?;
        let op = TracedOp { phase: StepPhase::Backward, ..applied.op.clone() };
        Ok(BadNumber { phase: StepPhase::Backward, op: Some(op), place: None, at, value, inputs, chain: Vec::new(), growth })
    }
    /// The first op of the forward pass, or behind it, that gave a bad number, whoever reads it.
    fn first_bad(&self, are_forward: bool, names: &dyn Fn(&Tensor) -> Option<(StepPhase, String)>) -> Result<Option<BadNumber>> {
        let is_forward = |phase| matches!(phase, StepPhase::Forward | StepPhase::Loss);
        for applied in self.ops.iter().filter(|applied| !applied.moves && is_forward(applied.op.phase) == are_forward) {
            for (output, _) in applied.outputs.iter().zip(&applied.wrong).filter(|(_, wrong)| wrong.any()) {
                let (root, chain) = self.root(output);
                if let Some(bad) = self.told(root, &chain, output, names)? {
                    return Ok(Some(bad));
                }
            }
        }
        Ok(None)
    }
    fn told(&self, root: Root, chain: &[usize], symptom: &Tensor, names: &dyn Fn(&Tensor) -> Option<(StepPhase, String)>) -> Result<Option<BadNumber>> {
        let chain: Vec<TracedOp> = chain.iter().map(|k| self.ops[*k].op.clone()).collect();
        let first = |x: &Tensor| first_wrong(x, self.looks_for.threshold).map(|found| found.unwrap_or_else(|| (Vec::new(), f64::NAN)));
        match root {
            Root::Meant => Ok(None),
            Root::Op(at) => {
                let applied = &self.ops[at];
                let output = applied.outputs.iter().zip(&applied.wrong).find(|(_, w)| w.any()).map_or(symptom, |(output, _)| output);
                let (at, value) = first(output)?;
                let inputs = applied.inputs.iter().map(NumberStats::of).collect::<Result<_>>()?;
                Ok(Some(BadNumber { phase: applied.op.phase, op: Some(applied.op.clone()), place: None, at, value, inputs, chain, growth: None }))
            }
            Root::Leaf(x) => {
                let (at, value) = first(&x)?;
                let (phase, place) = names(&x).map_or((StepPhase::Forward, None), |(phase, name)| (phase, Some(name)));
                Ok(Some(BadNumber { phase, op: None, place, at, value, inputs: Vec::new(), chain, growth: None }))
            }
        }
    }
}
/// Runs a step op by op and takes back all that it wrote; tells where the first bad number came from. `f` is given the place for the loss.
/// `named` are values that are there before the step: the batch and the weights, with what to call them.
///
/// ```
/// # use adamant_core::{Cell, DType, Tensor};
/// # use adamant_stability::{StepPhase, trace};
/// # adamant_core::Device::reference().make_current();
/// let weight = Cell::new(&Tensor::full([2], -1.0, DType::F32), true)?;
/// let traced = trace(&[], |saw_loss| {
///     let loss = weight.get().sqrt().sum(..);
///     saw_loss(&loss);
///     let grads = loss.backward()?;
///     weight.set(&(weight.detached() - grads.of(&weight).unwrap()))
/// })?;
/// let bad = traced.bad.unwrap();
/// assert_eq!((bad.kind(), bad.op.unwrap().op, bad.at), ("NaN", "sqrt", vec![0]));
/// assert_eq!(weight.detached().to_vec::<f32>()?, [-1.0, -1.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Those of `f`, unless a bad number was found before; a device that failed; inside of a function that is being captured, where nothing can be read.
#[track_caller]
pub fn trace(named: &[(StepPhase, String, Tensor)], f: impl FnOnce(&mut dyn FnMut(&Tensor)) -> Result<()>) -> Result<StepTrace> {
    trace_with(TraceOptions::default(), named, f)
}
/// As [`trace()`], where other things are looked for too.
///
/// ```
/// # use adamant_core::{Cell, DType, Tensor};
/// # use adamant_stability::{TraceOptions, trace_with};
/// # adamant_core::Device::reference().make_current();
/// let weight = Cell::new(&Tensor::full([2], 0.5, DType::F32), true)?;
/// let looks_for = TraceOptions { explosion: true, ..TraceOptions::default() };
/// let traced = trace_with(looks_for, &[], |_| (weight.get() * 1e6).sin().mean(..).backward().map(drop))?;
/// let bad = traced.bad.unwrap();
/// assert_eq!((bad.kind(), bad.op.unwrap().op), ("explosion", "mul"));
/// assert!((bad.growth.unwrap() - 1e6).abs() < 1.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// As [`trace()`].
#[track_caller]
pub fn trace_with(looks_for: TraceOptions, named: &[(StepPhase, String, Tensor)], f: impl FnOnce(&mut dyn FnMut(&Tensor)) -> Result<()>) -> Result<StepTrace> {
    let step = Arc::new(Mutex::new(TracedStep { looks_for, named: named.iter().map(|(.., t)| t.detach()).collect(), ..TracedStep::default() }));
    let (mut loss, mut written) = (None, None::<Vec<Tensor>>);
    let mut review = |cells: &[WrittenCell]| -> Result<()> {
        written = Some(cells.iter().map(|w| w.cell.detached()).collect());
        Err(Error::new("trace", ErrorKind::Argument("the step is taken back".into())))
    };
    let ran = intercept::with(Arc::new(Tracer(step.clone())), || {
        in_phase(None, || step_reviewed(|| f(&mut |seen: &Tensor| loss = Some(seen.detach())), |(), cells| review(cells)))
    });
    let mut step = std::mem::take(&mut *step.lock());
    if let Some(e) = step.failed.take() {
        return Err(e);
    }
    let names = |x: &Tensor| named.iter().find(|(_, _, t)| t.value_address() == x.value_address()).map(|(phase, name, _)| (*phase, name.clone()));
    let ops = step.ops.len();
    let of_value = |symptom: &Tensor| -> Result<Option<BadNumber>> {
        if !step.wrong(symptom).any() {
            return Ok(None);
        }
        let (root, chain) = step.root(symptom);
        step.told(root, &chain, symptom, &names)
    };
    let of_ops = |are_forward: bool| if looks_for.every_op { step.first_bad(are_forward, &names) } else { Ok(None) };
    let mut bad = of_ops(true)?;
    if bad.is_none() {
        bad = loss.as_ref().map(of_value).transpose()?.flatten();
    }
    // What the walk back made comes before what follows from it.
    if let (None, Some(pulled)) = (&bad, &step.pulled) {
        let mut of_pulled = of_gradient(&step, pulled, &names)?;
        // One that grew too large to be a number has grown before.
        if let Some(grown) = step.grown.as_ref().filter(|grown| of_pulled.phase == StepPhase::Backward && grown.growth > STEEP && grown.by != pulled.by) {
            let chain = of_pulled.op.take().into_iter().collect();
            of_pulled = BadNumber { chain, ..of_growth(&step, grown)? };
        }
        bad = Some(of_pulled);
    }
    for symptom in written.iter().flatten() {
        if bad.is_none() {
            bad = of_value(symptom)?;
        }
    }
    if bad.is_none() {
        bad = of_ops(false)?;
    }
    if let (None, Some(grown)) = (&bad, &step.grown) {
        bad = Some(of_growth(&step, grown)?);
    }
    match ran {
        // It did not come to its end.
        Err(e) if bad.is_none() && written.is_none() => Err(e),
        _ => Ok(StepTrace { bad, ops }),
    }
}
/// A bad number that the rule of an op made in the walk back: of a value that was bad on the way there, if there is one.
fn of_gradient(step: &TracedStep, pulled: &Pulled, names: &dyn Fn(&Tensor) -> Option<(StepPhase, String)>) -> Result<BadNumber> {
    let applied = &step.ops[pulled.by];
    for value in applied.outputs.iter().chain(&applied.inputs).filter(|v| step.wrong(v).any()) {
        let (root, mut chain) = step.root(value);
        chain.push(pulled.by);
        if let Some(bad) = step.told(root, &chain, value, names)? {
            return Ok(bad);
        }
    }
    let (at, value) = first_wrong(&pulled.gradient, step.looks_for.threshold)?.unwrap_or_default();
    step.of_rule(pulled.by, (at, value), None)
}
/// The largest element of what a rule has made larger than any other did.
fn of_growth(step: &TracedStep, grown: &GrownGradient) -> Result<BadNumber> {
    let all = grown.gradient.detach().to_vec_as::<f64>()?;
    let largest = all.iter().map(|v| v.abs()).fold(0.0, f64::max);
    let k = all.iter().position(|v| v.abs() == largest).unwrap_or_default();
    let value = all.get(k).copied().unwrap_or_default();
    step.of_rule(grown.by, (place_of(k, grown.gradient.shape()?), value), Some(grown.growth))
}
