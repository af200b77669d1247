//! Calls drawn from the registry of public functions, by a seed: function, dtype, shapes, layouts, axes, options, with a
//! gradient or without, and chains of several.
//!
//! Nothing here knows a function: a call is drawn small, by the kinds of its arguments (as random programs are), and then
//! grown. Which sizes of which inputs go together is found by asking: a size is multiplied, and the call is made on tensors
//! that have shapes and no data. All functions come in turn, in an order of the seed, so that none is rare. In every fourth
//! turn a call goes on as a chain.
mod grown;

use super::{CallCase, CallInput, CallLayout, CallStep, Fill, spelled};
use adamant::{DType, Device};
use adamant_conformance::{
    data::Spread,
    programs::{
        ProgramArg, ProgramItem, draw, registered,
        table::{ArgKind, Callee, Seen, TorchFunction},
    },
    random::Random,
    registry::{self, Elements, Entry, SampleInput},
};
use std::collections::{BTreeMap, BTreeSet};

/// In one turn of so many, calls become chains.
const CHAINS: usize = 4;
/// The most steps of a chain.
const LONGEST: usize = 6;
/// How often a call is drawn again whose arguments do not go together.
const TRIES: usize = 200;
/// What values are of.
const DTYPES: [DType; 8] = [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::I32, DType::U8, DType::Bool];
/// Functions that divide whole numbers: PyTorch's process ends where one of them is zero.
const DIVIDES: [&str; 5] = ["floor_divide", "remainder", "fmod", "div_trunc", "div"];

/// Rows of the binary table that take a number there too.
const NUMBERS: [&str; 14] = ["add", "sub", "mul", "div", "pow", "remainder", "fmod", "floor_divide", "eq", "ne", "lt", "le", "gt", "ge"];
/// Functions of how a tensor lies in memory, which is nothing that ours has.
const STRIDED: &str = "as_strided";

/// What is drawn from.
struct CallPool {
    functions: Vec<TorchFunction>,
    names: Vec<Vec<usize>>,
    entries: BTreeMap<String, Vec<Entry>>,
}
impl CallPool {
    fn new() -> CallPool {
        let functions = spelled::functions();
        let names = draw::by_name(&functions);
        let mut entries: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        registry::entries().into_iter().for_each(|e| entries.entry(e.name.clone()).or_default().push(e));
        CallPool { functions, names, entries }
    }
    /// Which name stands at a place of the endless list of a seed.
    fn name(&self, seed: u64, index: usize) -> usize {
        let (turn, place) = (index / self.names.len(), index % self.names.len());
        let mut random = Random::new(seed).part(turn as u64).part(1);
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        for k in (1..order.len()).rev() {
            order.swap(k, random.below(k + 1));
        }
        order[place]
    }
    fn called(&self, name: usize) -> &str {
        &self.functions[self.names[name][0]].name
    }
    fn is_chain(&self, index: usize) -> bool {
        index / self.names.len() % CHAINS == CHAINS - 1
    }
}
/// So many turns that some of them, this many, are no chains.
pub fn turns(each: usize) -> usize {
    (0..).filter(|t| t % CHAINS != CHAINS - 1).take(each).last().map_or(0, |t| t + 1)
}
/// Those of some turns of a seed, each in sizes from the smallest, and at most so many.
pub fn cases(seed: u64, turns: std::ops::Range<usize>, most: usize, keep: impl Fn(&str) -> bool) -> Vec<Vec<CallCase>> {
    let pool = CallPool::new();
    let n = pool.names.len();
    let mut never = BTreeSet::new();
    let mut all = Vec::new();
    for turn in turns {
        let before = all.len();
        let mut seen = 0;
        for index in (turn * n..(turn + 1) * n).filter(|&k| keep(pool.called(pool.name(seed, k)))) {
            if all.len() >= most {
                break;
            }
            seen += 1;
            match sized(&pool, seed, index) {
                Some(sized) => all.push(sized),
                None => drop(never.insert(pool.called(pool.name(seed, index)).to_string())),
            }
        }
        // Where nothing that is kept can be drawn there is no end.
        if all.len() >= most || (all.len() == before && seen > 0 && turn > 20) || (seen == 0 && all.is_empty()) {
            break;
        }
    }
    if !never.is_empty() {
        eprintln!("once without arguments that go together: {}", never.into_iter().collect::<Vec<_>>().join(" "));
    }
    all
}
/// The call that was printed as `SEED:INDEX` or `SEED:INDEX.SIZE`.
pub fn again(name: &str) -> Result<Vec<CallCase>, String> {
    let wrong = || format!("{name} is no SEED:INDEX or SEED:INDEX.SIZE");
    let (seed, rest) = name.split_once(':').ok_or_else(wrong)?;
    let (index, size) = rest.split_once('.').map_or((rest, None), |(i, s)| (i, Some(s)));
    let (seed, index) = (seed.parse().map_err(|_| wrong())?, index.parse().map_err(|_| wrong())?);
    let sized = sized(&CallPool::new(), seed, index).ok_or_else(|| format!("{name}: no arguments were found that go together"))?;
    match size {
        None => Ok(sized),
        Some(size) => size.parse().ok().and_then(|k: usize| sized.get(k).cloned()).map(|case| vec![case]).ok_or_else(wrong),
    }
}
/// Prints what takes part, and what does not with the reason.
pub fn say_names() {
    let pool = CallPool::new();
    println!("drawn: {}", (0..pool.names.len()).map(|k| pool.called(k)).collect::<Vec<_>>().join(" "));
    for (name, why) in absent() {
        println!("not drawn: {name}: {why}");
    }
}
/// Functions of the registry that are not drawn, and why.
fn absent() -> Vec<(String, String)> {
    let why = |reason: Option<&str>| reason.unwrap_or("PyTorch's words for it are not known").to_string();
    let known: BTreeSet<String> = spelled::functions().into_iter().map(|f| f.name).collect();
    let unspelled = registered::untranslated().into_iter().filter(|(name, _)| !known.contains(name)).map(|(name, reason)| (name, why(reason)));
    spelled::LEFT_OUT.iter().map(|(name, why)| (name.to_string(), why.to_string())).chain(unspelled).collect()
}
/// A call on its way: inputs whose sizes may grow, and steps.
#[derive(Clone)]
struct CallDraft {
    inputs: Vec<CallInput>,
    steps: Vec<DraftStep>,
}
#[derive(Clone)]
struct DraftStep {
    function: usize,
    args: Vec<ProgramArg>,
}
fn sized(pool: &CallPool, seed: u64, index: usize) -> Option<Vec<CallCase>> {
    let device: Device = "cpu".parse().ok()?;
    let before = std::panic::take_hook();
    // A call whose arguments do not go together may panic; then it is drawn again.
    std::panic::set_hook(Box::new(|_| {}));
    let sized = device.scoped(|| drawn(pool, seed, index));
    std::panic::set_hook(before);
    sized
}
fn drawn(pool: &CallPool, seed: u64, index: usize) -> Option<Vec<CallCase>> {
    let name = pool.name(seed, index);
    for attempt in 0..TRIES {
        let mut drawing =
            CallDrawing { pool, random: Random::new(seed).part(index as u64).part(attempt as u64), draft: CallDraft { inputs: Vec::new(), steps: Vec::new() } };
        let function = *drawing.random.pick(&pool.names[name]);
        let Some(dtype) = drawing.dtype(function) else { continue };
        drawing.step(function, dtype, None);
        let stream = drawing.random.bits();
        let Some(mut given) = grown::given(pool, &drawing.draft, stream) else { continue };
        if pool.is_chain(index) {
            given = drawing.chain(given, stream);
        }
        drop(given);
        let grad = drawing.grad();
        drawing.lay_out();
        let target = 10f64.powf(1.2 + 5.4 * drawing.random.unit());
        let drafts = grown::grown(pool, &drawing.draft, stream, target, &mut drawing.random);
        let case = |(k, draft): (usize, &CallDraft)| drawing.case(draft, stream, format!("{seed}:{index}.{k}"), grad);
        return Some(drafts.iter().enumerate().map(case).collect());
    }
    None
}
struct CallDrawing<'a> {
    pool: &'a CallPool,
    random: Random,
    draft: CallDraft,
}
impl CallDrawing<'_> {
    fn entries(&self, function: usize) -> &[Entry] {
        self.pool.entries.get(&self.pool.functions[function].name).map_or(&[], Vec::as_slice)
    }
    /// Mostly f32, else any that the registry names.
    fn dtype(&mut self, function: usize) -> Option<DType> {
        let allowed: Vec<DType> = DTYPES.into_iter().filter(|d| self.entries(function).iter().any(|e| e.dtypes.contains(d))).collect();
        let allowed = if allowed.is_empty() { vec![DType::F32] } else { allowed };
        let usual = allowed.contains(&DType::F32) && !self.random.one_in(3);
        Some(if usual { DType::F32 } else { *self.random.pick(&allowed) })
    }
    /// Differentiated where every step can be, in a third of the calls.
    fn grad(&mut self) -> bool {
        let smooth = self.draft.steps.iter().all(|s| self.entries(s.function).iter().any(|e| e.order > 0));
        smooth && self.draft.inputs.iter().any(|i| i.leaf) && self.random.one_in(3)
    }
    fn lay_out(&mut self) {
        if self.draft.steps.iter().any(|s| self.pool.functions[s.function].name.contains(STRIDED)) {
            return;
        }
        for k in 0..self.draft.inputs.len() {
            // Of a symmetric matrix its memory is symmetric, too.
            if self.draft.inputs[k].fill == Fill::Definite {
                continue;
            }
            let rank = self.draft.inputs[k].shape.len();
            self.draft.inputs[k].layout = match self.random.below(8) {
                0 | 1 if rank >= 2 => CallLayout::Transposed,
                2 if rank >= 1 => CallLayout::Sliced,
                _ => CallLayout::Contiguous,
            };
        }
    }
    /// Goes on from the first result, up to the most steps; what the last step gives.
    fn chain(&mut self, mut given: grown::CallResults, stream: u64) -> grown::CallResults {
        let steps = self.random.between(2, LONGEST);
        for _ in 0..8 * LONGEST {
            if self.draft.steps.len() >= steps {
                break;
            }
            let function = *{
                let name = self.random.below(self.pool.names.len());
                self.random.pick(&self.pool.names[name])
            };
            let goes_on = matches!(
                self.pool.functions[function].kinds.first(),
                Some(ArgKind::Any | ArgKind::Float | ArgKind::Sample(SampleInput { elements: Elements::Drawn(Spread::Within(..)), .. }))
            );
            let smooth = self.entries(function).iter().any(|e| e.order > 0);
            let Some((shape, dtype)) = given.first().cloned() else { break };
            if !goes_on || !smooth || !dtype.is_float() || shape.is_empty() {
                continue;
            }
            let before = self.draft.clone();
            let last = self.draft.steps.len() - 1;
            self.step(function, dtype, Some((ProgramArg::Result(last, 0), shape)));
            match grown::given(self.pool, &self.draft, stream).filter(|g| g.first().is_some_and(|y| y.1.is_float() && y.0.iter().product::<usize>() > 1)) {
                Some(next) => given = next,
                None => self.draft = before,
            }
        }
        given
    }
    /// One more step, small.
    fn step(&mut self, function: usize, dtype: DType, first: Option<(ProgramArg, Vec<usize>)>) {
        let kinds = self.pool.functions[function].kinds.clone();
        let (mut args, mut shapes) = (Vec::new(), Vec::new());
        for (k, kind) in kinds.iter().enumerate() {
            if let (0, Some((arg, shape))) = (k, &first) {
                args.push(arg.clone());
                shapes.push(shape.clone());
                continue;
            }
            let tensors = args.iter().filter(|a| matches!(a, ProgramArg::Input(_) | ProgramArg::Result(..))).count();
            let arg = self.argument(kind, &shapes, &args, (function, tensors, dtype));
            let of = |k: usize| self.draft.inputs[k].shape.clone();
            shapes.push(match &arg {
                ProgramArg::Input(k) => of(*k),
                ProgramArg::List(all) => all.first().map(|a| if let ProgramArg::Input(k) = a { of(*k) } else { Vec::new() }).unwrap_or_default(),
                _ => Vec::new(),
            });
            args.push(arg);
        }
        self.draft.steps.push(DraftStep { function, args });
    }
    fn input(&mut self, shape: Vec<usize>, dtype: DType, fill: Fill, leaf: bool) -> ProgramArg {
        let leaf = leaf && dtype.is_float();
        let seed = 1 + self.draft.inputs.len() as u64;
        self.draft.inputs.push(CallInput { shape, dtype: dtype.name().into(), layout: CallLayout::Contiguous, fill, seed, leaf });
        ProgramArg::Input(self.draft.inputs.len() - 1)
    }
    fn shape(&mut self) -> Vec<usize> {
        let axes = *self.random.pick(&[1, 2, 2, 2, 3, 3, 4]);
        (0..axes).map(|_| *self.random.pick(&[2, 3, 4, 5, 6])).collect()
    }
    fn fitting(&mut self, shape: &[usize]) -> Vec<usize> {
        match self.random.below(4) {
            0 if !shape.is_empty() => shape[self.random.below(shape.len())..].to_vec(),
            1 => shape.iter().map(|&n| if self.random.one_in(3) { 1 } else { n }).collect(),
            _ => shape.to_vec(),
        }
    }
    /// What the elements of the tensor at a place are, by the registry's own samples.
    fn fill(&self, (function, place, dtype): (usize, usize, DType)) -> Fill {
        let f = &self.pool.functions[function];
        let short = f.name.rsplit("::").next().unwrap_or_default();
        let inside = |(low, high): (f64, f64)| Fill::Within(low + (high - low) * 0.05, high - (high - low) * 0.05);
        let fill = match f.callee {
            Callee::Unary(f) => inside(f.row().domain),
            Callee::Binary(f) => inside(if place == 0 { f.row().domain.0 } else { f.row().domain.1 }),
            _ => self.entries(function).first().and_then(|e| e.inputs.get(place)).map_or(Fill::Within(-2.0, 2.0), |s| elements(&s.elements)),
        };
        let fill = if place == 1 && DIVIDES.contains(&short) && !dtype.is_float() { Fill::Within(1.0, 9.0) } else { fill };
        whole(fill, dtype)
    }
    fn argument(&mut self, kind: &ArgKind, shapes: &[Vec<usize>], args: &[ProgramArg], of: (usize, usize, DType)) -> ProgramArg {
        let seen = Seen { shapes, args };
        let first = seen.shape(0).to_vec();
        let rank = first.len();
        let dtype = of.2;
        let f = &self.pool.functions[of.0];
        let takes_number = matches!(f.callee, Callee::Row(_)) || NUMBERS.contains(&f.name.rsplit("::").next().unwrap_or_default());
        let random = &mut self.random;
        match kind {
            ArgKind::Any | ArgKind::Float => {
                let shape = self.shape();
                self.input(shape, dtype, self.fill(of), true)
            }
            ArgKind::Operand if takes_number && random.one_in(4) => {
                if dtype.is_float() {
                    ProgramArg::Real(1.5)
                } else {
                    ProgramArg::Int(3)
                }
            }
            ArgKind::Fits | ArgKind::Operand => {
                let shape = self.fitting(&first);
                self.input(shape, dtype, self.fill(of), true)
            }
            ArgKind::Mask => {
                let shape = self.fitting(&first);
                self.input(shape, DType::Bool, Fill::Whole(0, 1), false)
            }
            ArgKind::Shaped(shape) => {
                let shape = shape(&seen, random);
                self.input(shape, dtype, self.fill(of), true)
            }
            ArgKind::Indices(shape) => {
                let (shape, bound) = shape(&seen, random);
                self.input(shape, DType::I64, Fill::Below(bound), false)
            }
            ArgKind::Sample(sample) => {
                let dtype = sample.dtype.unwrap_or(dtype);
                let fill = whole(elements(&sample.elements), dtype);
                self.input(sample.shape.clone(), dtype, fill, sample.differentiable)
            }
            ArgKind::List => {
                let shape = self.shape();
                let count = self.random.between(2, 3);
                ProgramArg::List((0..count).map(|_| self.input(shape.clone(), dtype, self.fill(of), true)).collect())
            }
            ArgKind::Number if dtype.is_float() => ProgramArg::Real(*random.pick(&[-0.5, 0.5, 1.5, 2.0])),
            ArgKind::Number => ProgramArg::Int(*random.pick(&[0, 1, 2, 3])),
            ArgKind::Axis => ProgramArg::Int(random.below(2 * rank.max(1)) as i64 - rank.max(1) as i64),
            ArgKind::NewAxis => ProgramArg::Int(random.below(rank + 1) as i64),
            ArgKind::Axes if random.one_in(4) => ProgramArg::All,
            ArgKind::Axes | ArgKind::AxisList => {
                let some: Vec<i64> = (0..rank as i64).filter(|_| random.one_in(2)).collect();
                ProgramArg::Ints(if some.is_empty() { vec![random.below(rank.max(1)) as i64] } else { some })
            }
            ArgKind::Flag => ProgramArg::Flag(random.one_in(2)),
            ArgKind::Int(low, high) => ProgramArg::Int(low + random.below((high - low + 1) as usize) as i64),
            // Those that follow from shapes are drawn for each size.
            ArgKind::IntOf(f) => ProgramArg::Int(f(&seen, random)),
            ArgKind::Ints(f) => ProgramArg::Ints(f(&seen, random)),
            ArgKind::Real(of) => ProgramArg::Real(*random.pick(of)),
            ArgKind::Dtype => ProgramArg::Dtype(random.pick(&DTYPES).name().into()),
            ArgKind::Word(of) => ProgramArg::Word((*random.pick(of)).into()),
            ArgKind::Index => self.index(&first),
            ArgKind::Written => {
                if dtype.is_float() {
                    ProgramArg::Real(0.5)
                } else {
                    ProgramArg::Int(1)
                }
            }
        }
    }
    fn index(&mut self, shape: &[usize]) -> ProgramArg {
        let items = shape.iter().take(2).map(|&n| match self.random.below(5) {
            0 => ProgramItem::At(self.random.below(n.max(1)) as i64),
            1 => ProgramItem::Slice(Some(1), None, 1),
            2 => ProgramItem::Slice(None, None, 2),
            3 => ProgramItem::Slice(None, Some(-1), 1),
            _ => ProgramItem::Slice(None, None, 1),
        });
        let mut items: Vec<ProgramItem> = items.collect();
        if let (Some(&n), true) = (shape.first(), self.random.one_in(3)) {
            items[0] = ProgramItem::Value(self.input(vec![3], DType::I64, Fill::Below(n), false));
        }
        ProgramArg::Index(items)
    }
    fn case(&self, draft: &CallDraft, stream: u64, name: String, grad: bool) -> CallCase {
        let args = grown::arguments(self.pool, draft, stream);
        let step = |(s, args): (&DraftStep, Vec<ProgramArg>)| {
            let function = &self.pool.functions[s.function];
            CallStep { function: function.name.clone(), torch: function.torch.clone(), args }
        };
        let steps = draft.steps.iter().zip(args).map(step).collect();
        CallCase { name, steps, inputs: draft.inputs.clone(), grad, compared: true, setup: String::new() }
    }
}
fn elements(elements: &Elements) -> Fill {
    match elements {
        Elements::Drawn(Spread::Within(low, high)) => Fill::Within(*low, *high),
        Elements::Drawn(Spread::Below(n)) => Fill::Below(*n),
        Elements::Drawn(Spread::Coarse) => Fill::Whole(-4, 4),
        Elements::Drawn(_) => Fill::Within(-2.0, 2.0),
        // Edges and coordinates that rise must rise however many they become.
        Elements::Given(values) if values.len() > 2 && values.is_sorted() => Fill::Sorted,
        Elements::Given(values) => Fill::Given(values.clone()),
        Elements::Definite => Fill::Definite,
    }
}
/// The same for a dtype of whole numbers.
fn whole(fill: Fill, dtype: DType) -> Fill {
    match fill {
        _ if dtype == DType::Bool => Fill::Whole(0, 1),
        Fill::Within(low, high) if !dtype.is_float() => {
            let low = if dtype.is_signed() { low.ceil() as i64 } else { (low.ceil() as i64).max(0) };
            // A wide range of a function is more than a whole number needs.
            let (low, high) = (low.max(-9), (high.floor() as i64).min(9));
            if low <= high { Fill::Whole(low, high) } else { Fill::Whole(1, 3) }
        }
        Fill::Whole(low, high) if !dtype.is_float() && !dtype.is_signed() => Fill::Whole(low.max(0), high),
        fill => fill,
    }
}

#[cfg(test)]
#[path = "drawn/tests.rs"]
mod tests;
