//! Runs a program here and compares it with what PyTorch answered, call by call.
//!
//! Each call gets the operands that PyTorch's call got: PyTorch's own results ([`compare`]). So a difference is of this call
//! alone, and the tolerance is that of one call. A second run lets our own results flow ([`flow`]).
use super::{
    Answered, ProgramArg, ProgramCall, ProgramItem, TorchAnswer, TorchOutput, TorchProgram,
    arguments::{self, Args, Value},
    differences::{self, Case},
    table::TorchFunction,
    weight,
};
use crate::data::{download, upload};
use adamant_core::{DType, Device, HostArray, Scalar, Tensor, grad, reference::HostData};
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// What a call gave here.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// results
    Given(Vec<HostArray>),
    /// an error: its kind's word and its text
    Refused(&'static str, String),
    /// a panic: never right
    Panicked,
}
/// Values of a program by where they come from.
#[derive(Clone, Debug, Default)]
pub struct ProgramValues {
    /// inputs
    pub inputs: Vec<HostArray>,
    /// results of calls
    pub results: Vec<Vec<Option<HostArray>>>,
}
/// An argument with its values on the host.
#[derive(Clone, Debug)]
pub enum ResolvedArg {
    /// a tensor
    Tensor(HostArray),
    /// several
    List(Vec<HostArray>),
    /// an index expression with its tensors
    Index(Vec<(ProgramItem, Option<HostArray>)>),
    /// what has no value in it
    Plain(ProgramArg),
}
impl ProgramValues {
    fn find(&self, at: &ProgramArg) -> Option<&HostArray> {
        match *at {
            ProgramArg::Input(k) => self.inputs.get(k),
            ProgramArg::Result(k, n) => self.results.get(k)?.get(n)?.as_ref(),
            _ => None,
        }
    }
    /// The arguments with their values; none, if one of them is not there.
    pub fn resolve(&self, args: &[ProgramArg]) -> Option<Vec<ResolvedArg>> {
        args.iter().map(|arg| self.resolved(arg)).collect()
    }
    fn resolved(&self, arg: &ProgramArg) -> Option<ResolvedArg> {
        Some(match arg {
            ProgramArg::Input(_) | ProgramArg::Result(..) => ResolvedArg::Tensor(self.find(arg)?.clone()),
            ProgramArg::List(all) => ResolvedArg::List(all.iter().map(|a| self.find(a).cloned()).collect::<Option<_>>()?),
            ProgramArg::Index(items) => ResolvedArg::Index(
                items
                    .iter()
                    .map(|item| match item {
                        ProgramItem::Value(at) => self.find(at).map(|a| (item.clone(), Some(a.clone()))),
                        _ => Some((item.clone(), None)),
                    })
                    .collect::<Option<_>>()?,
            ),
            plain => ResolvedArg::Plain(plain.clone()),
        })
    }
}
/// The tensors among arguments, in PyTorch's order of them.
pub fn tensors(args: &[ResolvedArg]) -> Vec<&HostArray> {
    let mut all = Vec::new();
    for arg in args {
        match arg {
            ResolvedArg::Tensor(a) => all.push(a),
            ResolvedArg::List(list) => all.extend(list),
            ResolvedArg::Index(_) | ResolvedArg::Plain(_) => {}
        }
    }
    all
}
/// Arguments on the current device; those of floats are leaves if gradients are wanted, and stand in the list, too.
fn lifted(args: &[ResolvedArg], tracked: bool) -> (Args, Vec<Tensor>) {
    let device = device();
    let mut leaves = Vec::new();
    let mut lift = |a: &HostArray| {
        let t = upload(a, device);
        if !(tracked && a.dtype.is_float()) {
            return t;
        }
        leaves.push(t.tracked());
        leaves[leaves.len() - 1].clone()
    };
    let values = args
        .iter()
        .map(|arg| match arg {
            ResolvedArg::Tensor(a) => Value::Tensor(lift(a)),
            ResolvedArg::List(list) => Value::Tensors(list.iter().map(&mut lift).collect()),
            ResolvedArg::Index(items) => {
                Value::Index(items.iter().filter_map(|(item, a)| arguments::item(item, a.as_ref().map(|a| upload(a, device)))).collect())
            }
            ResolvedArg::Plain(arg) => plain(arg),
        })
        .collect();
    (Args(values), leaves)
}
fn device() -> Device {
    Device::current().unwrap_or_else(|_| Device::reference())
}
fn plain(arg: &ProgramArg) -> Value {
    match arg {
        ProgramArg::Flag(b) => Value::Number(Scalar::Bool(*b)),
        ProgramArg::Int(n) => Value::Number(Scalar::Int(*n)),
        ProgramArg::Real(v) => Value::Number(Scalar::Float(*v)),
        ProgramArg::Ints(all) => Value::Ints(all.clone()),
        ProgramArg::Dtype(name) => Value::Dtype(name.parse().unwrap_or(DType::F32)),
        ProgramArg::Word(w) => Value::Word(w.clone()),
        _ => Value::All,
    }
}
/// Calls a function.
pub fn run(function: &TorchFunction, args: &[ResolvedArg]) -> Outcome {
    guarded(|| {
        let (args, _) = lifted(args, false);
        read(&function.call(&args))
    })
}
fn guarded(f: impl FnOnce() -> Outcome) -> Outcome {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(Outcome::Panicked)
}
fn read(outputs: &[Tensor]) -> Outcome {
    let mut arrays = Vec::new();
    for t in outputs {
        match download(t) {
            Ok(array) => arrays.push(array),
            Err(e) => return Outcome::Refused(e.kind().word(), e.to_string().lines().next().unwrap_or_default().to_owned()),
        }
    }
    Outcome::Given(arrays)
}
/// The shape that an index expression reads of a tensor.
pub fn read_shape(args: &[ResolvedArg]) -> Option<Vec<usize>> {
    let (args, _) = lifted(args, false);
    args.t(0).i(&args.index(1)[..]).shape().ok().map(|s| s.to_vec())
}
/// A call's results and the gradients of their weighted sum by each float argument.
fn differentiated(function: &TorchFunction, args: &[ResolvedArg]) -> Result<Vec<Option<HostArray>>, String> {
    catch_unwind(AssertUnwindSafe(|| {
        let (args, leaves) = lifted(args, true);
        by_leaves(&function.call(&args), &leaves)
    }))
    .unwrap_or_else(|_| Err("the gradient panicked".into()))
}
fn by_leaves(outputs: &[Tensor], leaves: &[Tensor]) -> Result<Vec<Option<HostArray>>, String> {
    let floats: Vec<&Tensor> = outputs.iter().filter(|y| y.is_tracked() && y.dtype().is_ok_and(DType::is_float)).collect();
    if floats.is_empty() {
        return Ok(vec![None; leaves.len()]);
    }
    let weights: Vec<Tensor> = floats
        .iter()
        .map(|y| {
            let meta = y.try_meta().map_err(|e| e.to_string())?;
            let weights = HostArray::floats(meta.shape, meta.dtype, (0..meta.shape.elements()).map(weight));
            Ok(upload(&weights, device()))
        })
        .collect::<Result<_, String>>()?;
    let pairs: Vec<(&Tensor, &Tensor)> = floats.into_iter().zip(&weights).collect();
    let grads = grad::backward_many(&pairs, false).map_err(|e| e.to_string())?;
    leaves.iter().map(|leaf| grads.get(leaf).map(|g| download(g).map_err(|e| e.to_string())).transpose()).collect()
}

/// How a difference shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ProgramDifference {
    /// refused here, and not there
    RefusedHere,
    /// refused there, and not here
    RefusedThere,
    /// another number of results
    Count,
    /// another shape
    Shape,
    /// another dtype
    Dtype,
    /// other values
    Values,
    /// another gradient
    Gradient,
    /// a panic, an internal error, or what no backend can do
    Broken,
}
/// A difference in full.
struct FoundDifference {
    difference: ProgramDifference,
    why: String,
    wrong: Vec<(f64, f64)>,
}
/// That it differs so, whatever the numbers are.
fn found(difference: ProgramDifference, why: String) -> Option<FoundDifference> {
    Some(FoundDifference { difference, why, wrong: Vec::new() })
}
/// Numbers that are wrong: where and how the first is, and what each is here and there.
struct WrongNumbers {
    first: String,
    pairs: Vec<(f64, f64)>,
}
/// How one call compares.
#[derive(Clone, Debug)]
pub enum CallVerdict {
    /// the same results
    Same,
    /// refused on both sides
    BothRefused,
    /// a value was not there
    Skipped,
    /// PyTorch has no such function, or this suite no longer
    Unknown,
    /// another answer, which is ours on purpose: the name of the difference, and how it shows
    Named(&'static str, ProgramDifference, String),
    /// another answer
    Differs(ProgramDifference, String),
}
/// Functions by name and spelling.
pub type Known<'a> = BTreeMap<(&'a str, &'a str), &'a TorchFunction>;
/// The functions, to be found.
pub fn known(functions: &[TorchFunction]) -> Known<'_> {
    functions.iter().map(|f| ((f.name.as_str(), f.torch.as_str()), f)).collect()
}
/// What a run of one program found.
#[derive(Clone, Debug, Default)]
pub struct ComparedProgram {
    /// a verdict for each call
    pub verdicts: Vec<CallVerdict>,
    /// gradients of single calls that were compared
    pub gradients: usize,
}
fn inputs_of(program: &TorchProgram) -> Vec<HostArray> {
    program.inputs.iter().filter_map(|s| s.array().ok()).collect()
}
/// Compares each call on the operands that PyTorch had.
pub fn compare(program: &TorchProgram, answer: &TorchAnswer, known: &Known<'_>) -> ComparedProgram {
    let mut values = ProgramValues { inputs: inputs_of(program), results: Vec::new() };
    let mut compared = ComparedProgram::default();
    for (call, answered) in program.calls.iter().zip(&answer.calls) {
        let verdict = match (known.get(&(call.name.as_str(), call.torch.as_str())), answered, values.resolve(&call.args)) {
            (_, Answered::Skipped, _) | (_, _, None) => CallVerdict::Skipped,
            (None, ..) | (_, Answered::Unknown, _) => CallVerdict::Unknown,
            (Some(function), answered, Some(args)) => one(call, function, &args, answered, &mut compared.gradients),
        };
        compared.verdicts.push(verdict);
        values.results.push(match answered {
            Answered::Given { outputs, .. } => outputs.iter().map(|o| o.value.array().ok()).collect(),
            _ => Vec::new(),
        });
    }
    compared
}
fn one(call: &ProgramCall, function: &TorchFunction, args: &[ResolvedArg], answered: &Answered, gradients: &mut usize) -> CallVerdict {
    let outcome = run(function, args);
    let found = judge(&outcome, answered).or_else(|| {
        let Answered::Given { gradients: wanted, .. } = answered else { return None };
        if wanted.iter().all(Option::is_none) {
            return None;
        }
        *gradients += 1;
        gradient(function, args, wanted)
    });
    match found {
        None if matches!(answered, Answered::Refused(_)) => CallVerdict::BothRefused,
        None => CallVerdict::Same,
        Some(FoundDifference { difference, why, wrong }) => match differences::name(&Case { call, args, difference, outcome: &outcome, answered, wrong }) {
            Some(name) => CallVerdict::Named(name, difference, why),
            None => CallVerdict::Differs(difference, why),
        },
    }
}
fn judge(outcome: &Outcome, answered: &Answered) -> Option<FoundDifference> {
    match (outcome, answered) {
        (Outcome::Panicked, _) => found(ProgramDifference::Broken, "it panicked".into()),
        (Outcome::Refused(word @ ("unsupported" | "internal" | "panic" | "backward" | "graph"), why), _) => {
            found(ProgramDifference::Broken, format!("{word}: {why}"))
        }
        (Outcome::Refused(..), Answered::Refused(_)) => None,
        (Outcome::Refused(word, why), _) => found(ProgramDifference::RefusedHere, format!("{word}: {why}")),
        (Outcome::Given(arrays), Answered::Refused(why)) => {
            found(ProgramDifference::RefusedThere, format!("{}; there {why}", arrays.iter().map(typed).collect::<Vec<_>>().join(", ")))
        }
        (Outcome::Given(arrays), Answered::Given { outputs, .. }) => results(arrays, outputs),
        _ => None,
    }
}
fn typed(a: &HostArray) -> String {
    format!("{} {}", a.dtype, a.shape)
}
fn results(got: &[HostArray], want: &[TorchOutput]) -> Option<FoundDifference> {
    if got.len() != want.len() {
        return found(ProgramDifference::Count, format!("{} results for {}", got.len(), want.len()));
    }
    let (mut first, mut pairs) = (None, Vec::new());
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        if got.shape[..] != want.value.shape[..] {
            return found(ProgramDifference::Shape, format!("result {k}: {} for {:?}", got.shape, want.value.shape));
        }
        if got.dtype.name() != want.value.dtype {
            return found(ProgramDifference::Dtype, format!("result {k}: {} for {}", got.dtype, want.value.dtype));
        }
        let Ok(array) = want.value.array() else { continue };
        if let Some(wrong) = elements(got, &array, want.spread().as_deref(), 1.0) {
            first.get_or_insert(format!("result {k}: {}", wrong.first));
            pairs.extend(wrong.pairs);
        }
    }
    Some(FoundDifference { difference: ProgramDifference::Values, why: first?, wrong: pairs })
}
/// The table of the goldens: rtol and atol.
pub fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F64 => (1e-7, 1e-9),
        DType::F32 => (1.3e-5, 1e-5),
        DType::F16 => (2e-3, 1e-4),
        _ => (1.6e-2, 1e-3),
    }
}
/// How often PyTorch's own distance from the same call in f64 a result may differ from PyTorch's.
const SPREADS: f64 = 4.0;
/// Where and how two arrays of one type differ.
fn elements(got: &HostArray, want: &HostArray, spread: Option<&[f64]>, scale: f64) -> Option<WrongNumbers> {
    let (HostData::Float(gs), HostData::Float(ws)) = (&got.data, &want.data) else {
        let at = (0..got.len()).find(|&k| got.int(k) != want.int(k))?;
        let pairs = (at..got.len()).filter(|&k| got.int(k) != want.int(k)).map(|k| (got.int(k) as f64, want.int(k) as f64)).collect();
        return Some(WrongNumbers { first: format!("{} for {} at {at}", got.int(at), want.int(at)), pairs });
    };
    let (rtol, atol) = tolerance(want.dtype);
    let wrong = |k: usize| {
        let (g, w) = (gs[k], ws[k]);
        if g == w || (g.is_nan() && w.is_nan()) {
            return false;
        }
        let slack = SPREADS * spread.and_then(|s| s.get(k)).copied().unwrap_or(0.0);
        // What is infinite or NaN in one precision only is at the end of the range: nothing can be said of it.
        if slack.is_infinite() || slack.is_nan() {
            return false;
        }
        let near = (g - w).abs() <= scale * (atol + rtol * w.abs()) + slack;
        !near
    };
    let at = (0..gs.len()).find(|&k| wrong(k))?;
    let pairs = (at..gs.len()).filter(|&k| wrong(k)).map(|k| (gs[k], ws[k])).collect();
    Some(WrongNumbers { first: format!("{:e} for {:e} at {at} of {} {}", gs[at], ws[at], want.dtype, want.shape), pairs })
}
/// How much more a gradient may differ than a value, as in the goldens.
const GRADIENT: f64 = 10.0;
fn gradient(function: &TorchFunction, args: &[ResolvedArg], wanted: &[Option<TorchOutput>]) -> Option<FoundDifference> {
    // A gradient goes back through steps in the operands' own dtypes: it is as exact as the narrowest.
    let narrowest = tensors(args).iter().map(|a| a.dtype).filter(|d| d.is_float()).max_by(|a, b| tolerance(*a).0.total_cmp(&tolerance(*b).0));
    let got = match differentiated(function, args) {
        Ok(got) => got,
        Err(why) => return found(ProgramDifference::Gradient, why),
    };
    let (mut first, mut pairs) = (None, Vec::new());
    for (k, (got, want)) in got.iter().zip(wanted).enumerate() {
        if let Some(wrong) = by_one(got.as_ref(), want.as_ref(), narrowest) {
            first.get_or_insert(format!("by float argument {k}: {}", wrong.first));
            pairs.extend(wrong.pairs);
        }
    }
    Some(FoundDifference { difference: ProgramDifference::Gradient, why: first?, wrong: pairs })
}
/// Nothing is as good as zeros.
fn by_one(got: Option<&HostArray>, want: Option<&TorchOutput>, narrowest: Option<DType>) -> Option<WrongNumbers> {
    let wrong = |first: String| Some(WrongNumbers { first, pairs: Vec::new() });
    let one_sided = |a: &HostArray, here: bool| -> Vec<(f64, f64)> {
        let all = (0..a.len()).map(|k| a.float(k)).filter(|&v| v != 0.0);
        all.map(|v| if here { (v, 0.0) } else { (0.0, v) }).collect()
    };
    let array = match want {
        Some(output) => output.value.array().ok()?,
        None => {
            let pairs = one_sided(got?, true);
            return (!pairs.is_empty()).then(|| WrongNumbers { first: "there is one, and there is none there".into(), pairs });
        }
    };
    let Some(got) = got else {
        let pairs = one_sided(&array, false);
        return (!pairs.is_empty()).then(|| WrongNumbers { first: "there is none".into(), pairs });
    };
    if got.shape != array.shape || got.dtype != array.dtype {
        return wrong(format!("{} for {}", typed(got), typed(&array)));
    }
    let scale = narrowest.map_or(1.0, |d| tolerance(d).0 / tolerance(array.dtype).0).max(1.0);
    elements(got, &array, want.and_then(TorchOutput::spread).as_deref(), GRADIENT * scale)
}

/// How a run with our own results compares.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flowed {
    /// results that are within the tolerance, which grows by each call
    pub near: usize,
    /// results that are not, or follow from one that is not: a rounding may turn a comparison, and all after it
    pub drifted: usize,
    /// gradients by inputs that are within the tolerance
    pub gradients: usize,
    /// gradients that are not
    pub wrong_gradients: usize,
}
/// How much the tolerance of a flowing result grows with each call that it went through.
const GROWTH: f64 = 4.0;
/// Runs the program with our own results as operands.
///
/// The gradient of a program of which a call differs by name is not compared: what differs flows on.
pub fn flow(program: &TorchProgram, answer: &TorchAnswer, known: &Known<'_>, compared: &ComparedProgram) -> Flowed {
    let sound = compared.verdicts.iter().all(|v| !matches!(v, CallVerdict::Named(..) | CallVerdict::Differs(..)));
    catch_unwind(AssertUnwindSafe(|| flowing(program, answer, known, sound))).unwrap_or_default()
}
/// A value on its way: the tensor, how many calls it went through, and whether it is still PyTorch's.
#[derive(Clone)]
struct Flowing {
    tensor: Tensor,
    depth: i32,
    near: bool,
}
fn flowing(program: &TorchProgram, answer: &TorchAnswer, known: &Known<'_>, sound: bool) -> Flowed {
    let mut flowed = Flowed::default();
    let device = device();
    let inputs: Vec<Flowing> = inputs_of(program)
        .iter()
        .map(|a| {
            let t = upload(a, device);
            let tensor = if a.dtype.is_float() && !program.backward.is_empty() { t.tracked() } else { t };
            Flowing { tensor, depth: 0, near: true }
        })
        .collect();
    let mut results: Vec<Vec<Flowing>> = Vec::new();
    for (call, answered) in program.calls.iter().zip(&answer.calls) {
        let function = known.get(&(call.name.as_str(), call.torch.as_str()));
        let (Some(function), Answered::Given { outputs, .. }, Some((args, depth, near))) = (function, answered, flowing_args(call, &inputs, &results)) else {
            results.push(Vec::new());
            continue;
        };
        let tensors = function.call(&args);
        let mut given = Vec::new();
        for (tensor, output) in tensors.iter().zip(outputs) {
            let scale = GROWTH.powi(depth);
            let same = match (download(tensor), output.value.array()) {
                (Ok(got), Ok(want)) => got.shape == want.shape && got.dtype == want.dtype && elements(&got, &want, output.spread().as_deref(), scale).is_none(),
                _ => false,
            };
            let near = near && same;
            if near {
                flowed.near += 1
            } else {
                flowed.drifted += 1
            }
            given.push(Flowing { tensor: tensor.clone(), depth: depth + 1, near });
        }
        results.push(given);
    }
    if sound {
        backward(program, answer, &inputs, &results, &mut flowed);
    }
    flowed
}
fn backward(program: &TorchProgram, answer: &TorchAnswer, inputs: &[Flowing], results: &[Vec<Flowing>], flowed: &mut Flowed) {
    let roots: Option<Vec<&Flowing>> = program.backward.iter().map(|&(k, n)| results.get(k)?.get(n)).collect();
    let Some(roots) = roots.filter(|r| !r.is_empty() && r.iter().all(|r| r.near)) else { return };
    let depth = roots.iter().map(|r| r.depth).max().unwrap_or(0);
    let tensors: Vec<Tensor> = roots.iter().map(|r| r.tensor.clone()).collect();
    let leaves: Vec<Tensor> = inputs.iter().map(|i| i.tensor.clone()).collect();
    let Ok(got) = by_leaves(&tensors, &leaves) else {
        flowed.wrong_gradients += 1;
        return;
    };
    for (got, want) in got.iter().zip(&answer.gradients) {
        let array = want.as_ref().and_then(|w| w.array().ok());
        let right = match (got, &array) {
            (Some(got), Some(want)) => got.shape == want.shape && got.dtype == want.dtype && elements(got, want, None, GRADIENT * GROWTH.powi(depth)).is_none(),
            (None, Some(zeros)) | (Some(zeros), None) => (0..zeros.len()).all(|k| zeros.float(k) == 0.0),
            (None, None) => continue,
        };
        if right { flowed.gradients += 1 } else { flowed.wrong_gradients += 1 }
    }
}
fn flowing_args(call: &ProgramCall, inputs: &[Flowing], results: &[Vec<Flowing>]) -> Option<(Args, i32, bool)> {
    let (mut depth, mut near) = (0, true);
    let mut find = |at: &ProgramArg| {
        let found = match *at {
            ProgramArg::Input(k) => inputs.get(k),
            ProgramArg::Result(k, n) => results.get(k)?.get(n),
            _ => None,
        }?;
        depth = depth.max(found.depth);
        near &= found.near;
        Some(found.tensor.clone())
    };
    let mut values = Vec::new();
    for arg in &call.args {
        values.push(match arg {
            ProgramArg::Input(_) | ProgramArg::Result(..) => Value::Tensor(find(arg)?),
            ProgramArg::List(all) => Value::Tensors(all.iter().map(&mut find).collect::<Option<_>>()?),
            ProgramArg::Index(items) => Value::Index(
                items
                    .iter()
                    .map(|item| {
                        let tensor = if let ProgramItem::Value(at) = item { Some(find(at)?.detach()) } else { None };
                        arguments::item(item, tensor)
                    })
                    .collect::<Option<_>>()?,
            ),
            other => plain(other),
        });
    }
    Some((Args(values), depth, near))
}
