//! A call as this project runs it: inputs in memory, the call, and what it gave as one flat array.
//!
//! A sample makes each of its calls anew and waits for all that it gives: a result that nobody reads would not be computed.
use super::{CASES, CallCase, CallInput, CallLayout, Fill, StepCallee, ordinary, spelled};
use adamant::{DType, Tensor, no_grad};
use adamant_bench::{Call, Checked, Prepared, Problem, Workload, ensure, inputs::RandomWords};
use adamant_conformance::programs::{
    ProgramArg, ProgramItem,
    arguments::{Args, Value, item},
    replay,
};
use adamant_core::{Result, Scalar, grad};
use std::{
    hint::black_box,
    io::BufRead,
    rc::Rc,
    time::{Duration, Instant},
};

/// The dtypes by the numbers that stand for them in what is shown.
const CODES: [DType; 13] = [
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::U16,
    DType::U32,
    DType::U64,
];
/// Set by a test.
const PLANT: &str = "ADAMANT_PEER_CALLS_PLANT";
/// The seed of the weights of results whose sum is differentiated.
const WEIGHTS: u64 = 9001;

/// The calls of the file that the environment names, as workloads.
pub fn workloads() -> Vec<Workload> {
    let Some(path) = std::env::var_os(CASES) else { return Vec::new() };
    let Ok(file) = std::fs::File::open(path) else { return Vec::new() };
    let cases = std::io::BufReader::new(file).lines().map_while(std::io::Result::ok).filter_map(|l| serde_json::from_str::<CallCase>(&l).ok());
    cases.map(|case| Workload::new(case.name.clone(), None, move |_| prepared(&case))).collect()
}
pub fn dtype(code: f64) -> Option<DType> {
    CODES.get(code as usize).copied()
}
fn prepared(case: &CallCase) -> Checked<Prepared> {
    let (inputs, leaves) = inputs(case)?;
    let forward = Rc::new(forward(case, inputs)?);
    if !case.grad {
        let again = forward.clone();
        let call = move || no_grad(|| black_box(forward()).iter().try_for_each(Tensor::materialize));
        return Ok(timed(&case.name, call, move || Ok(no_grad(|| again()))));
    }
    // By their places among all outputs, as the other side counts them.
    let roots = |given: &[Tensor]| -> Vec<(usize, Tensor)> {
        given.iter().cloned().enumerate().filter(|(_, y)| y.is_tracked() && y.dtype().is_ok_and(DType::is_float)).collect()
    };
    let first = roots(&forward());
    ensure(!first.is_empty() && !leaves.is_empty(), || "nothing to differentiate".into())?;
    let weight = |(k, y): &(usize, Tensor)| {
        let (shape, dtype) = (y.shape()?, y.dtype()?);
        made(&CallInput {
            shape: shape.to_vec(),
            dtype: dtype.name().into(),
            layout: CallLayout::Contiguous,
            fill: Fill::Within(0.5, 1.5),
            seed: WEIGHTS + *k as u64,
            leaf: false,
        })
    };
    let weights = first.iter().map(weight).collect::<Result<Vec<Tensor>>>()?;
    drop(first);
    let both = Rc::new(move || -> Result<Vec<Tensor>> {
        let mut given = forward();
        let roots = roots(&given);
        let pairs: Vec<(&Tensor, &Tensor)> = roots.iter().map(|(_, y)| y).zip(&weights).collect();
        let grads = grad::backward_many(&pairs, false)?;
        given.extend(leaves.iter().map(|leaf| grads.get(leaf).cloned().unwrap_or_else(|| leaf.zeros_like())));
        Ok(given)
    });
    let again = both.clone();
    Ok(timed(&case.name, move || black_box(both()?).iter().try_for_each(Tensor::materialize), move || again()))
}
/// A call whose result PyTorch checks.
fn timed(name: &str, call: impl Fn() -> Result<()> + 'static, given: impl Fn() -> Result<Vec<Tensor>> + 'static) -> Prepared {
    let call: Call = Box::new(slowly(name, call));
    Prepared::from(call).showing(shown(name, given))
}
/// What a test plants in a call of this name: `slow NAME` and microseconds that each call takes more, or `wrong NAME`, by
/// which a value that is shown is off.
fn planted(what: &str, name: &str) -> Option<u64> {
    let text = std::env::var(PLANT).ok()?;
    let mut words = text.split(' ');
    (words.next() == Some(what) && words.next() == Some(name)).then(|| words.next().and_then(|n| n.parse().ok()).unwrap_or(1))
}
fn slowly(name: &str, call: impl Fn() -> Result<()> + 'static) -> impl FnMut() -> Result<()> + 'static {
    let longer = planted("slow", name).map(Duration::from_micros);
    move || {
        let done = call();
        if let Some(longer) = longer {
            let begun = Instant::now();
            while begun.elapsed() < longer {
                std::hint::spin_loop();
            }
        }
        done
    }
}
fn shown(name: &str, given: impl Fn() -> Result<Vec<Tensor>> + 'static) -> impl FnMut() -> Checked<Vec<f64>> + 'static {
    let wrong = planted("wrong", name).is_some();
    move || {
        let mut flat = flat(&given()?)?;
        if let Some(last) = flat.last_mut().filter(|_| wrong) {
            *last += 1.0;
        }
        Ok(flat)
    }
}
/// The inputs, and those by which is differentiated.
fn inputs(case: &CallCase) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let mut leaves = Vec::new();
    let mut all = Vec::new();
    for input in &case.inputs {
        let x = made(input)?;
        let is_leaf = case.grad && input.leaf;
        all.push(if is_leaf { x.tracked() } else { x });
        leaves.extend(all.last().filter(|_| is_leaf).cloned());
    }
    Ok((all, leaves))
}
/// An input in memory.
pub fn made(input: &CallInput) -> Result<Tensor> {
    let dtype: DType = input.dtype.parse()?;
    let mut shape = input.shape.clone();
    let n = shape.len();
    match input.layout {
        CallLayout::Transposed if n >= 2 => shape.swap(n - 1, n - 2),
        CallLayout::Sliced if n >= 1 => shape[n - 1] *= 2,
        _ => {}
    }
    let whole = numbers(&shape, &input.fill, input.seed, dtype)?;
    whole.materialize()?;
    Ok(match input.layout {
        CallLayout::Transposed if n >= 2 => whole.mt(),
        CallLayout::Sliced if n >= 1 => whole.slice(-1, 0, shape[n - 1], 2),
        _ => whole,
    })
}
/// As `fill` in `peer_calls.py`, bit for bit.
fn numbers(shape: &[usize], fill: &Fill, seed: u64, dtype: DType) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let mut words = RandomWords::new(seed);
    let mut part = || (words.word() >> 40) as f64 / (1u64 << 24) as f64;
    let whole = |all: Vec<i64>| Ok(Tensor::from_slice(&all, shape).cast(dtype));
    let real: Vec<f64> = match fill {
        Fill::Within(low, high) => (0..n).map(|_| low + (high - low) * part()).collect(),
        Fill::Given(values) => values.iter().copied().cycle().take(n).collect(),
        Fill::Sorted => (0..n).map(|k| k as f64 * (2.0 / n.max(1) as f64) - 1.0).collect(),
        Fill::Below(bound) => return whole((0..n).map(|_| (words.word() % (*bound).max(1) as u64) as i64).collect()),
        Fill::Whole(low, high) => return whole((0..n).map(|_| low + (words.word() % (high - low + 1) as u64) as i64).collect()),
        Fill::Order(step) => return whole((0..n as u64).map(|k| (k.wrapping_mul(*step) % n.max(1) as u64) as i64).collect()),
        Fill::Definite => {
            let size = shape.last().copied().unwrap_or(1);
            let a: Vec<f64> = (0..n).map(|_| part()).collect();
            let at = |k: usize| {
                let (matrix, i, j) = (k / (size * size), k / size % size, k % size);
                let other = a[matrix * size * size + j * size + i];
                (a[k] + other) / 2.0 / size as f64 + if i == j { 1.0 + i as f64 / size as f64 } else { 0.0 }
            };
            (0..n).map(at).collect()
        }
    };
    // In memory of the device. By way of f32, so that a narrower number is rounded from the same on both sides.
    Ok(if dtype == DType::F64 {
        Tensor::from_slice(&real, shape)
    } else {
        Tensor::from_slice(&real.iter().map(|&v| v as f32).collect::<Vec<_>>(), shape).cast(dtype)
    })
}
/// The call as a function of nothing.
fn forward(case: &CallCase, inputs: Vec<Tensor>) -> Checked<impl Fn() -> Vec<Tensor> + use<>> {
    let known = spelled::functions();
    let functions = replay::known(&known);
    let mut steps: Vec<(StepCallee, Args, Vec<(usize, usize, usize)>)> = Vec::new();
    for step in &case.steps {
        let callee: StepCallee = match functions.get(&(step.function.as_str(), step.torch.as_str())) {
            Some(function) => {
                let function = (*function).clone();
                Box::new(move |args| function.call(args))
            }
            None => ordinary::callee(&case.name, &step.function).ok_or_else(|| Problem::Wrong(format!("no function is called {}", step.function)))?,
        };
        // Which arguments a step before gives.
        let given = step.args.iter().enumerate().filter_map(|(k, a)| if let ProgramArg::Result(s, n) = a { Some((k, *s, *n)) } else { None });
        steps.push((callee, Args(step.args.iter().map(|a| value(a, &inputs)).collect()), given.collect()));
    }
    Ok(move || {
        if let [(callee, args, _)] = &steps[..] {
            return callee(args);
        }
        let mut results: Vec<Vec<Tensor>> = Vec::new();
        for (callee, args, given) in &steps {
            let mut args = Args(args.0.clone());
            for &(k, s, n) in given {
                args.0[k] = results.get(s).and_then(|r| r.get(n)).cloned().map_or(Value::All, Value::Tensor);
            }
            results.push(callee(&args));
        }
        results.pop().unwrap_or_default()
    })
}
/// An argument; of a step's result a place that is filled later.
pub fn value(arg: &ProgramArg, inputs: &[Tensor]) -> Value {
    let tensor = |a: &ProgramArg| if let ProgramArg::Input(k) = a { inputs.get(*k).cloned() } else { None };
    match arg {
        ProgramArg::Input(_) => tensor(arg).map_or(Value::All, Value::Tensor),
        ProgramArg::List(all) => Value::Tensors(all.iter().filter_map(tensor).collect()),
        ProgramArg::Index(items) => Value::Index(items.iter().filter_map(|i| item(i, if let ProgramItem::Value(a) = i { tensor(a) } else { None })).collect()),
        ProgramArg::Flag(b) => Value::Number(Scalar::Bool(*b)),
        ProgramArg::Int(n) => Value::Number(Scalar::Int(*n)),
        ProgramArg::Real(v) => Value::Number(Scalar::Float(*v)),
        ProgramArg::Ints(all) => Value::Ints(all.clone()),
        ProgramArg::Dtype(name) => Value::Dtype(name.parse().unwrap_or(DType::F32)),
        ProgramArg::Word(w) => Value::Word(w.clone()),
        ProgramArg::Result(..) | ProgramArg::All => Value::All,
    }
}
/// What a call gave, flat: the number of elements, no distances, dtype and shape of each result, and the elements.
fn flat(results: &[Tensor]) -> Checked<Vec<f64>> {
    let (mut head, mut all) = (Vec::new(), Vec::new());
    for y in results {
        let dtype = y.dtype()?;
        let shape = y.shape()?;
        head.push(CODES.iter().position(|d| *d == dtype).map_or(-1.0, |k| k as f64));
        head.push(shape.len() as f64);
        head.extend(shape.iter().map(|&n| n as f64));
        all.extend(y.detach().to_vec_as::<f64>()?.into_iter().map(said));
    }
    let mut flat = vec![3.0 + head.len() as f64, all.len() as f64, 0.0];
    flat.extend(head);
    flat.extend(all);
    Ok(flat)
}
/// What JSON has no numbers for, as numbers that nothing gives.
fn said(v: f64) -> f64 {
    if v.is_nan() { 1.7e308 } else { v.clamp(-1.6e308, 1.6e308) }
}
