//! What every backend must pass, as functions that return what failed, and the macro that makes tests of them.
use crate::{
    data::{Spread, download, draw, specials, upload},
    fuzz, gradcheck,
    kinks::{self, KINKS},
    random::Random,
    registry::{Entry, entries},
    tolerance,
};
use adamant_core::{
    Arg, Cell, DType, Device, HostArray, Op, Shape, Tensor,
    op::ScatterMode,
    reference::HostData,
    scalar::{Binary, Unary},
    schedule::take_stats,
    step, with_eager, with_window,
};
use std::{collections::BTreeMap, fmt};

/// One thing that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// the function or the check
    pub name: String,
    /// with what
    pub case: String,
    /// why
    pub why: String,
}
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]: {}", self.name, self.case, self.why)
    }
}
/// Whether a device runs a function on a dtype.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Support {
    /// it does, and the results are right
    Passed,
    /// it says that it does not
    Unsupported,
    /// the results are wrong
    Failed,
}
/// What a mode found.
#[derive(Default, Debug)]
pub struct Report {
    /// checks made
    pub checks: usize,
    /// what failed
    pub failures: Vec<Failure>,
    /// function → dtype → support
    pub support: BTreeMap<String, BTreeMap<DType, Support>>,
}
impl Report {
    fn note(&mut self, name: &str, case: impl Into<String>, result: Result<(), String>) {
        self.checks += 1;
        if let Err(why) = result {
            self.failures.push(Failure { name: name.into(), case: case.into(), why });
        }
    }
    /// Panics with everything that failed.
    #[track_caller]
    pub fn assert(&self) {
        let shown: Vec<String> = self.failures.iter().take(40).map(ToString::to_string).collect();
        assert!(self.failures.is_empty(), "{} of {} checks failed:\n{}", self.failures.len(), self.checks, shown.join("\n"));
    }
    /// The support table as Markdown.
    pub fn markdown(&self) -> String {
        let head: Vec<String> = DType::COMPUTE.iter().map(ToString::to_string).collect();
        let mut out = format!("| function | {} |\n|---|{}\n", head.join(" | "), "---|".repeat(head.len()));
        for (name, row) in &self.support {
            let cells: Vec<&str> = DType::COMPUTE
                .iter()
                .map(|d| match row.get(d) {
                    None => "",
                    Some(Support::Passed) => "yes",
                    Some(Support::Unsupported) => "no",
                    Some(Support::Failed) => "**wrong**",
                })
                .collect();
            out += &format!("| `{name}` | {} |\n", cells.join(" | "));
        }
        out
    }
}

/// Ways an input lies in memory.
const LAYOUTS: [&str; 4] = ["dense", "permuted", "strided", "flipped"];
/// The array on a device, lying in memory in one of [`LAYOUTS`].
fn lay(a: &HostArray, layout: &str, device: Device) -> Tensor {
    let rank = a.shape.rank();
    if rank == 0 || a.is_empty() {
        return upload(a, device);
    }
    let place = |shape: Shape, at: &dyn Fn(&[usize]) -> usize| -> HostArray {
        let mut from: Vec<usize> = vec![0; shape.elements()];
        for k in 0..a.len() {
            let (mut rest, mut index) = (k, vec![0; rank]);
            for axis in (0..rank).rev() {
                index[axis] = rest % a.shape[axis];
                rest /= a.shape[axis];
            }
            from[at(&index)] = k;
        }
        let data = match &a.data {
            HostData::Float(v) => HostData::Float(from.iter().map(|&k| v[k]).collect()),
            HostData::Int(v) => HostData::Int(from.iter().map(|&k| v[k]).collect()),
        };
        HostArray { shape, dtype: a.dtype, data }
    };
    let flat = |shape: &Shape, index: &mut dyn Iterator<Item = usize>| index.zip(shape.iter()).fold(0, |at, (i, &d)| at * d + i);
    match layout {
        "permuted" if rank >= 2 => {
            let dims: Vec<usize> = a.shape.iter().rev().copied().collect();
            let shape = Shape::new(&dims).unwrap_or(a.shape);
            upload(&place(shape, &|i| flat(&shape, &mut i.iter().rev().copied())), device).permute((0..rank as isize).rev().collect::<Vec<_>>())
        }
        "strided" => {
            let last = rank - 1;
            let shape = a.shape.with(last, a.shape[last] * 2);
            upload(&place(shape, &|i| flat(&shape, &mut i.iter().enumerate().map(|(k, &v)| if k == last { 2 * v } else { v }))), device).slice(
                last,
                0,
                a.shape[last] * 2,
                2,
            )
        }
        "flipped" => upload(&place(a.shape, &|i| flat(&a.shape, &mut i.iter().enumerate().map(|(k, &v)| a.shape[k] - 1 - v))), device).flip(..),
        _ => upload(a, device),
    }
}
type Values = Result<Vec<HostArray>, (&'static str, String)>;
fn call(entry: &Entry, inputs: &[HostArray], layout: &str, device: Device) -> Values {
    device.scoped(|| {
        let x: Vec<Tensor> = inputs.iter().map(|a| lay(a, layout, device)).collect();
        entry.function.call(&x).iter().map(download).collect::<Result<_, _>>().map_err(|e| (e.kind().word(), e.to_string()))
    })
}
fn drawn(entry: &Entry, dtype: DType, seed: u64) -> Vec<HostArray> {
    let random = Random::new(seed);
    entry.inputs.iter().enumerate().map(|(k, i)| i.draw(dtype, &mut random.part(k as u64))).collect()
}
/// A seed of its own for every sample.
fn seed_of(k: usize) -> u64 {
    0xC0F0 + k as u64
}

/// Every public function on every dtype and layout against the reference.
pub fn correctness(device: Device) -> Report {
    let mut report = Report::default();
    for (k, entry) in entries().iter().enumerate() {
        for &dtype in entry.dtypes.iter().filter(|d| device.info().dtypes.contains(d)) {
            let inputs = drawn(entry, dtype, seed_of(k));
            let want = call(entry, &inputs, "dense", Device::reference());
            let mut state = Support::Passed;
            for layout in LAYOUTS {
                if layout != "dense" && inputs.iter().all(|a| a.shape.rank() == 0 || a.is_empty()) {
                    continue;
                }
                let got = call(entry, &inputs, layout, device);
                let result = match (&got, &want) {
                    (Err(("unsupported", _)), _) => {
                        state = Support::Unsupported;
                        continue;
                    }
                    (Ok(g), Ok(w)) if g.len() == w.len() => {
                        g.iter().zip(w).enumerate().try_for_each(|(o, (g, w))| tolerance::composed(g, w).map_err(|e| format!("output {o}: {e}")))
                    }
                    (Ok(_), Ok(_)) => Err("another number of outputs than on the reference".into()),
                    // What no device can do is not registered: the reference decides.
                    (_, Err((_, e))) => Err(format!("the reference: {e}")),
                    (Err((_, e)), Ok(_)) => Err(e.clone()),
                };
                if result.is_err() {
                    state = Support::Failed;
                }
                report.note(&entry.name, format!("{dtype} {layout}"), result);
            }
            let cell = report.support.entry(entry.name.clone()).or_default().entry(dtype).or_insert(state);
            *cell = (*cell).max(state);
        }
    }
    report
}
/// Wrong calls give the kind of error that is registered for them, and name the op; nothing panics.
pub fn errors(device: Device) -> Report {
    let mut report = Report::default();
    for (k, entry) in entries().iter().enumerate() {
        let dtype = *entry.dtypes.first().unwrap_or(&DType::F32);
        let inputs = drawn(entry, dtype, seed_of(k));
        for (kind, wrong) in &entry.errors {
            let result = device.scoped(|| {
                let x: Vec<Tensor> = inputs.iter().map(|a| upload(a, device)).collect();
                match wrong(&x).iter().map(download).collect::<Result<Vec<_>, _>>() {
                    Ok(_) => Err(format!("no error where one of kind {kind} is due")),
                    Err(e) if e.kind().word() == *kind => Ok(()),
                    Err(e) => Err(format!("an error of kind {} where {kind} is due: {e}", e.kind().word())),
                }
            });
            report.note(&entry.name, *kind, result);
        }
    }
    report
}
/// Gradients of every rule and composite in f64, and the conventions at kinks.
pub fn gradients(device: Device) -> Report {
    let mut report = Report::default();
    for (k, entry) in entries().iter().enumerate().filter(|(_, e)| e.order > 0 && e.dtypes.contains(&DType::F64)) {
        let shapes: Vec<String> = entry.inputs.iter().map(|i| format!("{:?}", i.shape)).collect();
        report.note(&entry.name, shapes.join(", "), gradcheck::check(device, entry, seed_of(k)));
    }
    for kink in KINKS {
        report.note(kink.name, "kink", kinks::check(device, kink));
    }
    report
}
/// Every scalar function at the values where implementations differ: NaN, infinities, signed zeros, subnormals, extremes.
pub fn special_values(device: Device) -> Report {
    let mut report = Report::default();
    for dtype in DType::COMPUTE.into_iter().filter(|d| device.info().dtypes.contains(d)) {
        let points = specials(dtype);
        let all: Vec<(f64, f64)> = points.iter().flat_map(|&a| points.iter().map(move |&b| (a, b))).collect();
        let array = |values: Vec<f64>| {
            let shape = Shape::new(&[values.len()]).unwrap_or(Shape::SCALAR);
            if dtype.is_float() { HostArray::floats(shape, dtype, values) } else { HostArray::ints(shape, dtype, values.into_iter().map(|v| v as i64)) }
        };
        let mut check = |name: &str, op: Op, inputs: Vec<HostArray>| {
            let result = device.scoped(|| {
                let x: Vec<Tensor> = inputs.iter().map(|a| upload(a, device)).collect();
                let got = Tensor::apply(op.clone(), Arg::None, &x.iter().collect::<Vec<_>>());
                download(&got).map_err(|e| e.to_string()).and_then(|got| tolerance::check(&op, Arg::None, &inputs, &[got]))
            });
            report.note(name, format!("{dtype} special values"), result);
        };
        for &f in Unary::ALL.iter().filter(|f| f.infer(dtype).is_ok()) {
            check(f.name(), Op::Unary(f), vec![array(points.clone())]);
        }
        for &f in Binary::ALL.iter().filter(|f| f.infer(dtype).is_ok()) {
            // A whole number divided by zero is a fault, tested on its own.
            let pairs: Vec<(f64, f64)> = all.iter().copied().filter(|p| !f.can_fault(dtype) || p.1 != 0.0).collect();
            let (a, b) = pairs.into_iter().unzip();
            check(f.name(), Op::Binary(f), vec![array(a), array(b)]);
        }
    }
    report
}
/// Bad data becomes a typed error that names the op, spoils what was computed from it and nothing else, and leaves cells alone.
pub fn faults(device: Device) -> Report {
    let mut report = Report::default();
    let check = |kind: &str, y: Tensor, beside: Tensor| -> Result<(), String> {
        match y.eval() {
            Ok(()) => return Err(format!("no error of kind {kind}")),
            Err(e) if e.kind().word() != kind => return Err(format!("an error of kind {}: {e}", e.kind().word())),
            Err(_) => {}
        }
        beside.eval().map_err(|e| format!("what does not depend on the bad data is spoiled: {e}"))
    };
    let vector = |v: Vec<f32>| Tensor::from_vec_on(v, [3], device);
    let bad = |v: Vec<i64>| Tensor::from_vec_on(v, [3], device);
    let x = vector(vec![1.0, 2.0, 3.0]);
    for index in [vec![0, 3, 1], vec![0, -1, 1], vec![i64::MAX, 0, 0]] {
        let i = bad(index.clone());
        let gathered = Tensor::apply(Op::Gather { axis: 0 }, Arg::None, &[&x, &i]);
        report.note("gather", format!("{index:?}"), check("index", gathered * 2.0f32, &x + 1.0f32));
        for mode in [ScatterMode::Set, ScatterMode::Add, ScatterMode::Mul, ScatterMode::Max, ScatterMode::Min] {
            let scattered = Tensor::apply(Op::Scatter { axis: 0, mode }, Arg::None, &[&x, &i, &x]);
            report.note("scatter", format!("{mode:?} {index:?}"), check("index", scattered, &x + 1.0f32));
        }
    }
    let zero = bad(vec![1, 0, 2]);
    let y = bad(vec![5, 6, 7]);
    for &f in Binary::ALL.iter().filter(|f| f.can_fault(DType::I64)) {
        report.note(f.name(), "0", check("domain", y.binary(f, &zero) + 1, &y + 1));
    }
    let unchanged = || -> Result<(), String> {
        let text = |e: adamant_core::Error| e.to_string();
        let (a, b) = (Cell::new(&x, true).map_err(text)?, Cell::new(&(&x * 2.0f32), true).map_err(text)?);
        let wrong = step(|| {
            a.set(&(a.read() + 1.0f32))?;
            b.set(&(b.read() + Tensor::apply(Op::Gather { axis: 0 }, Arg::None, &[&x, &bad(vec![0, 9, 0])])))
        });
        match wrong {
            Ok(()) => return Err("a step on bad data succeeded".into()),
            Err(e) if e.kind().word() != "index" => return Err(e.to_string()),
            Err(_) => {}
        }
        let values = (a.read().to_vec::<f32>().map_err(text)?, b.read().to_vec::<f32>().map_err(text)?);
        if values != (vec![1.0, 2.0, 3.0], vec![2.0, 4.0, 6.0]) {
            return Err(format!("cells changed to {values:?}"));
        }
        step(|| a.set(&(a.read() + 1.0f32))).map_err(text)?;
        if a.read().to_vec::<f32>().map_err(text)? == [2.0, 3.0, 4.0] { Ok(()) } else { Err("the next step does not go on".into()) }
    };
    report.note("step", "bad data", unchanged());
    report
}
/// Cells are updated in the memory they have: a repeated step asks the system for nothing and reuses buffers.
pub fn in_place(device: Device) -> Report {
    let mut report = Report::default();
    let run = || -> Result<(), String> {
        let text = |e: adamant_core::Error| e.to_string();
        let c = Cell::new(&upload(&draw(Shape::new(&[64]).unwrap_or(Shape::SCALAR), DType::F32, Spread::Coarse, &mut Random::new(3)), device), true)
            .map_err(text)?;
        let once = |k: usize| step(|| c.set(&(c.read() * 0.5f32 + k as f32)));
        (0..3).try_for_each(once).map_err(text)?;
        let before = device.memory().system_allocations;
        take_stats();
        (0..10).try_for_each(once).map_err(text)?;
        let (stats, after) = (take_stats(), device.memory().system_allocations);
        if after != before {
            return Err(format!("{} allocations in ten steady steps", after - before));
        }
        if stats.donated < 10 {
            return Err(format!("{} of 10 updates were in place", stats.donated));
        }
        // A value that somebody holds is not overwritten.
        let old = c.read();
        let seen = old.to_vec::<f32>().map_err(text)?;
        once(7).map_err(text)?;
        if old.to_vec::<f32>().map_err(text)? == seen { Ok(()) } else { Err("a value that is held changed".into()) }
    };
    report.note("step", "in place", device.scoped(run));
    report
}
/// Every function op by op and in windows cut after 1, 3 and 7 ops: the bits of the whole window.
pub fn cuts(device: Device) -> Report {
    let mut report = Report::default();
    for (k, entry) in entries().iter().enumerate() {
        let dtype = if entry.dtypes.contains(&DType::F32) { DType::F32 } else { entry.dtypes[0] };
        let inputs = drawn(entry, dtype, seed_of(k));
        let whole = call(entry, &inputs, "dense", device);
        let mut same = |mode: &str, cut: Values| {
            let result = match (&whole, &cut) {
                (Ok(a), Ok(b)) if a.iter().zip(b).all(|(a, b)| crate::data::same_bits(a, b)) => Ok(()),
                (Err((a, _)), Err((b, _))) if a == b => Ok(()),
                (Err((_, e)), Ok(_)) | (Ok(_), Err((_, e))) => Err(e.clone()),
                _ => Err("other bits than in one window".into()),
            };
            report.note(&entry.name, mode, result);
        };
        same("op by op", with_eager(true, || call(entry, &inputs, "dense", device)));
        for window in [1, 3, 7] {
            same(&format!("window {window}"), with_window(window, || call(entry, &inputs, "dense", device)));
        }
    }
    report
}
/// Several threads on one device at once: each gets the bits it gets alone.
pub fn threads(device: Device) -> Report {
    let mut report = Report::default();
    let work = |seed: u64| -> Result<Vec<u8>, String> {
        device.scoped(|| {
            let shape = Shape::new(&[17, 33]).unwrap_or(Shape::SCALAR);
            let x = upload(&draw(shape, DType::F32, Spread::Within(-1.0, 1.0), &mut Random::new(seed)), device).tracked();
            let y = x.mt().matmul(&x).square().sum(1).exp().sum(..);
            let g = y.backward().map_err(|e| e.to_string())?;
            g.get(&x).ok_or("no gradient")?.to_bytes().map_err(|e| e.to_string())
        })
    };
    let alone: Vec<_> = (0..4).map(&work).collect();
    let together: Vec<_> = std::thread::scope(|s| {
        let handles: Vec<_> = (0..4).map(|k| s.spawn(move || work(k))).collect();
        handles.into_iter().map(|h| h.join().unwrap_or_else(|_| Err("a panic".into()))).collect()
    });
    for (k, (a, b)) in alone.iter().zip(&together).enumerate() {
        report.note(
            "threads",
            format!("thread {k}"),
            if a.is_ok() && a == b { Ok(()) } else { Err(format!("{:?} alone, {:?} beside others", a.as_ref().map(Vec::len), b.as_ref().map(Vec::len))) },
        );
    }
    report
}
/// A seeded slice of the fuzzer.
pub fn fuzzing(device: Device, n: usize) -> Report {
    let found = fuzz::run(device, &fuzz::Options { n, seed: 0x5EED, failures: 5, shrink: true });
    let mut report = Report { checks: found.checked + found.compared, ..Report::default() };
    for f in &found.failures {
        report.note("fuzz-graphs", format!("graph {}", f.index), Err(f.to_string()));
    }
    report
}

/// Writes the tests of a device: `adamant_conformance::suite!(|| device);`
#[macro_export]
macro_rules! suite {
    ($device:expr) => {
        #[test]
        fn every_function_is_right_on_every_dtype_and_layout() {
            $crate::suite::correctness($device()).assert();
        }
        #[test]
        fn wrong_calls_give_typed_errors() {
            $crate::suite::errors($device()).assert();
        }
        #[test]
        fn gradients_are_right_to_second_order() {
            $crate::suite::gradients($device()).assert();
        }
        #[test]
        fn special_values_follow_the_table() {
            $crate::suite::special_values($device()).assert();
        }
        #[test]
        fn bad_data_is_a_typed_error_and_leaves_cells_alone() {
            $crate::suite::faults($device()).assert();
        }
        #[test]
        fn cells_are_updated_in_place() {
            $crate::suite::in_place($device()).assert();
        }
        #[test]
        fn windows_and_fusion_change_no_bit() {
            $crate::suite::cuts($device()).assert();
        }
        #[test]
        fn threads_do_not_disturb_each_other() {
            $crate::suite::threads($device()).assert();
        }
        #[test]
        fn random_graphs_agree() {
            $crate::suite::fuzzing($device(), 500).assert();
        }
    };
}
