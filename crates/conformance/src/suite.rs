//! What every backend must pass, as functions that return what failed, and the macro that makes tests of them.
use crate::{
    data::{Spread, download, draw, specials, upload},
    fuzz, gradcheck,
    kinks::{self, KINKS},
    layouts::{LAYOUTS, lay},
    random::Random,
    registry::{Entry, Function, NO_GRADIENT, entries},
    share::{self, CheckShare},
    tolerance,
};
use adamant_core::{
    Arg, Cell, DType, Device, HostArray, Op, Shape, Tensor,
    backend::Determinism,
    compile,
    op::ScatterMode,
    promotion::strict,
    scalar::{Binary, Unary},
    schedule::take_stats,
    step, with_eager, with_window,
};
use std::{collections::BTreeMap, fmt};

/// One thing that failed.
#[derive(Clone, Debug)]
pub struct FailedCheck {
    /// the function or the check
    pub name: String,
    /// with what
    pub case: String,
    /// why
    pub why: String,
}
impl fmt::Display for FailedCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]: {}", self.name, self.case, self.why)
    }
}
/// What the error of a host function says on a device that does not run it.
const ON_THE_HOST: &str = "runs on the host";

/// Whether a device runs a function on a dtype.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FunctionSupport {
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
    pub failures: Vec<FailedCheck>,
    /// function → dtype → support
    pub support: BTreeMap<String, BTreeMap<DType, FunctionSupport>>,
    /// what the device says it cannot do, with its words
    pub unsupported: BTreeMap<String, String>,
}
impl Report {
    fn note(&mut self, name: &str, case: impl Into<String>, result: Result<(), String>) {
        self.checks += 1;
        if let Err(why) = result {
            self.failures.push(FailedCheck { name: name.into(), case: case.into(), why });
        }
    }
    /// Everything that failed, and what the device says without right that it cannot do: it need not do what is defined on
    /// the host, nor what asks for f64 where it has none and says so.
    pub fn complaints(&self) -> Vec<String> {
        let has_f64 = self.support.values().any(|row| row.contains_key(&DType::F64));
        let refused = self.unsupported.iter().filter(|(_, why)| !why.contains(ON_THE_HOST) && (has_f64 || !why.contains(DType::F64.name())));
        let refused = refused.map(|(name, why)| format!("{name} is unsupported: {why}"));
        self.failures.iter().map(ToString::to_string).chain(refused).collect()
    }
    /// Panics with all [`Report::complaints`].
    #[track_caller]
    pub fn assert(&self) {
        let shown = self.complaints();
        assert!(shown.is_empty(), "{} of {} checks failed:\n{}", shown.len(), self.checks, shown[..shown.len().min(40)].join("\n"));
    }
    /// As [`Report::assert`], for a device that does everything.
    #[track_caller]
    pub fn assert_complete(&self) {
        self.assert();
        assert!(self.unsupported.is_empty(), "unsupported: {:#?}", self.unsupported);
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
                    Some(FunctionSupport::Passed) => "yes",
                    Some(FunctionSupport::Unsupported) => "no",
                    Some(FunctionSupport::Failed) => "**wrong**",
                })
                .collect();
            out += &format!("| `{name}` | {} |\n", cells.join(" | "));
        }
        out
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
/// All samples with a seed of their own, which follows from the name: other entries change no draw.
fn seeded() -> Vec<(u64, Entry)> {
    let mut met = BTreeMap::<String, u64>::new();
    let with_seed = |entry: Entry| {
        let nth = met.entry(entry.name.clone()).or_default();
        *nth += 1;
        (share::hash(&entry.name) ^ *nth, entry)
    };
    entries().into_iter().map(with_seed).collect()
}

/// Every public function on every dtype and layout against the reference.
pub fn correctness(device: Device, share: CheckShare) -> Report {
    let mut report = Report::default();
    for (seed, entry) in &seeded() {
        for &dtype in entry.dtypes.iter().filter(|d| device.info().dtypes.contains(d)) {
            let layouts: Vec<&str> = LAYOUTS.into_iter().filter(|layout| share.takes(&format!("{} {seed} {dtype} {layout}", entry.name))).collect();
            if layouts.is_empty() {
                continue;
            }
            let inputs = drawn(entry, dtype, *seed);
            let want = call(entry, &inputs, "dense", Device::reference());
            let mut state = FunctionSupport::Passed;
            for layout in layouts {
                if layout != "dense" && inputs.iter().all(|a| a.shape.rank() == 0 || a.is_empty()) {
                    continue;
                }
                let got = call(entry, &inputs, layout, device);
                let result = match (&got, &want) {
                    (Err(("unsupported", why)), _) => {
                        state = FunctionSupport::Unsupported;
                        report.unsupported.insert(entry.name.clone(), why.clone());
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
                    state = FunctionSupport::Failed;
                }
                report.note(&entry.name, format!("{dtype} {layout}"), result);
            }
            let cell = report.support.entry(entry.name.clone()).or_default().entry(dtype).or_insert(state);
            *cell = (*cell).max(state);
        }
    }
    report
}
/// Wrong calls give the kind of error that is registered for them; nothing panics. For the rows of the scalar tables the
/// wrong calls follow by rule: shapes that do not broadcast, two dtypes, a dtype the row is not defined for.
pub fn errors(device: Device) -> Report {
    let mut report = Report::default();
    for (seed, entry) in &seeded() {
        let dtype = if entry.dtypes.contains(&DType::F32) { DType::F32 } else { *entry.dtypes.first().unwrap_or(&DType::F32) };
        let inputs = drawn(entry, dtype, *seed);
        let right = call(entry, &inputs, "dense", device);
        if let Err(("unsupported", why)) = &right {
            report.unsupported.insert(entry.name.clone(), why.clone());
            continue;
        }
        let mut expect = |kind: &str, wrong: &dyn Fn(&[Tensor]) -> Vec<Tensor>| {
            let result = device.scoped(|| {
                let x: Vec<Tensor> = inputs.iter().map(|a| upload(a, device)).collect();
                match wrong(&x).iter().map(download).collect::<Result<Vec<_>, _>>() {
                    Ok(_) => Err(format!("no error where one of kind {kind} is due")),
                    Err(e) if e.kind().word() == kind => Ok(()),
                    Err(e) => Err(format!("an error of kind {} where {kind} is due: {e}", e.kind().word())),
                }
            });
            report.note(&entry.name, kind, result);
        };
        for wrong in &entry.errors {
            expect(wrong.kind, &wrong.call);
        }
        match entry.function {
            Function::Binary(f) => {
                expect("shape", &|x| vec![x[0].expand([2, 3]).binary(f, &Tensor::zeros_on([7], dtype, device))]);
                let other = if dtype == DType::F32 { DType::F16 } else { DType::F32 };
                expect("dtype", &|x| vec![strict(|| x[0].binary(f, x[1].cast(other)))]);
                for &refused in DType::COMPUTE.iter().filter(|d| device.info().dtypes.contains(d) && !entry.dtypes.contains(d)) {
                    expect("dtype", &|x| vec![x[0].cast(refused).binary(f, x[1].cast(refused))]);
                }
            }
            Function::Unary(f) => {
                for &refused in DType::COMPUTE.iter().filter(|d| device.info().dtypes.contains(d) && !entry.dtypes.contains(d)) {
                    expect("dtype", &|x| vec![x[0].cast(refused).unary(f)]);
                }
            }
            Function::Call(_) | Function::Number(..) => {}
        }
    }
    report
}
/// The widest float that the device computes in.
pub(crate) fn widest_float(device: Device) -> DType {
    if device.info().dtypes.contains(&DType::F64) { DType::F64 } else { DType::F32 }
}
/// Gradients of every rule and composite in f64, the conventions at kinks, and the typed errors where there is no gradient.
/// A device without f64 must give the reference's gradients in f32: that the rules are right is shown elsewhere.
pub fn gradients(device: Device, share: CheckShare) -> Report {
    let mut report = Report::default();
    let widest = widest_float(device);
    let is_taken = |seed: u64, entry: &Entry| entry.order > 0 && entry.dtypes.contains(&widest) && share.takes(&format!("{} {seed}", entry.name));
    for (seed, entry) in seeded().iter().filter(|(seed, e)| widest != DType::F64 && is_taken(*seed, e)) {
        match gradcheck::against_reference(device, entry, widest, *seed) {
            Err(("unsupported", why)) => drop(report.unsupported.insert(entry.name.clone(), why)),
            other => report.note(&entry.name, widest.name(), other.map_err(|e| e.1)),
        }
    }
    for (seed, entry) in seeded().iter().filter(|(seed, e)| widest == DType::F64 && is_taken(*seed, e)) {
        let shapes: Vec<String> = entry.inputs.iter().map(|i| format!("{:?}", i.shape)).collect();
        if let Err(("unsupported", why)) = call(entry, &drawn(entry, DType::F64, *seed), "dense", device) {
            report.unsupported.insert(entry.name.clone(), why);
            continue;
        }
        report.note(&entry.name, shapes.join(", "), gradcheck::check(device, entry, *seed));
    }
    for kink in KINKS.iter().filter(|kink| share.takes(kink.name)) {
        report.note(kink.name, "kink", kinks::check(device, kink));
    }
    for &(name, operand) in NO_GRADIENT {
        let Some(f) = Binary::ALL.iter().find(|f| f.name() == name) else {
            report.note(name, "no gradient", Err("no row of the binary table".into()));
            continue;
        };
        let x = |k: usize| Tensor::full_on([2], 2.0 + k as f64, widest, device);
        let x = [0, 1].map(|k| if k == operand { x(k).tracked() } else { x(k) });
        report.note(
            name,
            format!("no gradient to operand {operand}"),
            match x[0].binary(*f, &x[1]).sum(..).backward() {
                Ok(_) => Err("a gradient where there is none".into()),
                Err(e) if e.kind().word() == "argument" && e.to_string().contains(name) => Ok(()),
                Err(e) => Err(format!("an error of kind {}: {e}", e.kind().word())),
            },
        );
    }
    report
}
/// Every scalar function at the values where implementations differ: NaN, infinities, signed zeros, subnormals, extremes.
pub fn special_values(device: Device, share: CheckShare) -> Report {
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
                download(&got).map_err(|e| e.to_string()).and_then(|got| tolerance::check_on(device, &op, Arg::None, &inputs, &[got]))
            });
            report.note(name, format!("{dtype} special values"), result);
        };
        let is_taken = |name: &str| share.takes(&format!("{name} {dtype}"));
        for &f in Unary::ALL.iter().filter(|f| f.infer(dtype).is_ok() && is_taken(f.name())) {
            // Far to the left the phase of these, 2/3 |x|^1.5, has more digits than a narrow device computes with.
            let is_known =
                |x: &f64| device.info().dtypes.contains(&DType::F64) || !matches!(f.name(), "airy_ai" | "airy_ai_derivative") || *x > -50.0 || x.is_infinite();
            check(f.name(), Op::Unary(f), vec![array(points.iter().copied().filter(is_known).collect())]);
        }
        for &f in Binary::ALL.iter().filter(|f| f.infer(dtype).is_ok() && is_taken(f.name())) {
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
        match y.materialize() {
            Ok(()) => return Err(format!("no error of kind {kind}")),
            Err(e) if e.kind().word() != kind => return Err(format!("an error of kind {}: {e}", e.kind().word())),
            Err(_) => {}
        }
        beside.materialize().map_err(|e| format!("what does not depend on the bad data is spoiled: {e}"))
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
    let text = |e: adamant_core::Error| e.to_string();
    let spoiled = || Tensor::apply(Op::Gather { axis: 0 }, Arg::None, &[&x, &bad(vec![0, 9, 0])]);
    let holds = |c: &Cell, want: [f32; 3]| -> Result<(), String> {
        let got = c.detached().to_vec::<f32>().map_err(text)?;
        if got == want { Ok(()) } else { Err(format!("the cell holds {got:?}, not {want:?}")) }
    };
    let is_index = |what: &str, result: Result<(), adamant_core::Error>| match result {
        Ok(()) => Err(format!("{what} succeeded")),
        Err(e) if e.kind().word() != "index" || !e.to_string().contains(file!()) => Err(format!("{what}: no index error with its line: {e}")),
        Err(_) => Ok(()),
    };
    // The first cell holds a value that is in memory, the second one that is pending when the step begins.
    let unchanged = |held: bool| -> Result<(), String> {
        let (a, b) = (Cell::new(&x, true).map_err(text)?, Cell::new(&(&x * 2.0f32), true).map_err(text)?);
        let old = held.then(|| (a.detached(), b.detached()));
        let mut new = Vec::new();
        let wrong = step(|| {
            new = vec![a.detached() + 1.0f32, b.detached() + spoiled()];
            a.set(&new[0])?;
            b.set(&new[1])
        });
        // An asynchronous device tells when it is waited for.
        is_index("a step on bad data", wrong.and_then(|()| device.synchronize()))?;
        holds(&a, [1.0, 2.0, 3.0])?;
        holds(&b, [2.0, 4.0, 6.0])?;
        for value in &new {
            is_index("reading a value that was suppressed", value.materialize())?;
        }
        step(|| a.set(&(a.detached() + 1.0f32))).map_err(text)?;
        holds(&a, [2.0, 3.0, 4.0])?;
        if let Some((a, b)) = old
            && (a.to_vec::<f32>().map_err(text)?, b.to_vec::<f32>().map_err(text)?) != (vec![1.0, 2.0, 3.0], vec![2.0, 4.0, 6.0])
        {
            return Err("old values that are held changed".into());
        }
        Ok(())
    };
    report.note("step", "bad data", unchanged(false));
    report.note("step", "bad data, old values held", unchanged(true));
    // A compiled function is a step too, also where it is only called: the same write is bad at one call and good at the next.
    let compiled = || -> Result<(), String> {
        let (a, b) = (Cell::new(&x, true).map_err(text)?, Cell::new(&(&x * 2.0f32), true).map_err(text)?);
        let (first, second, taken) = (a.clone(), b.clone(), x.clone());
        let f = compile(move |i: &[Tensor]| {
            first.set(&(first.detached() + 1.0f32))?;
            second.set(&(second.detached() + Tensor::apply(Op::Gather { axis: 0 }, Arg::None, &[&taken, &i[0]])))?;
            Ok(vec![])
        });
        let (good, wrong) = (bad(vec![2, 1, 0]), bad(vec![0, 9, 0]));
        f.call(&[&good]).map_err(text)?;
        holds(&b, [5.0, 6.0, 7.0])?;
        is_index("a compiled step on bad data", f.call(&[&wrong]).and_then(|_| device.synchronize()))?;
        holds(&a, [2.0, 3.0, 4.0])?;
        holds(&b, [5.0, 6.0, 7.0])?;
        f.call(&[&good]).map_err(text)?;
        holds(&a, [3.0, 4.0, 5.0])?;
        holds(&b, [8.0, 8.0, 8.0])
    };
    report.note("compile", "bad data", compiled());
    report.note("compile", "bad data, op by op", with_eager(true, compiled));
    // Without a step every write is a group of its own: those before the bad one stay.
    let one_by_one = || -> Result<(), String> {
        let c = Cell::new(&x, false).map_err(text)?;
        c.set(&(c.detached() + 1.0f32)).map_err(text)?;
        c.set(&(c.detached() * 2.0f32)).map_err(text)?;
        c.set(&(c.detached() + spoiled())).map_err(text)?;
        adamant_core::flush().map_err(text)?;
        holds(&c, [4.0, 6.0, 8.0])
    };
    report.note("cell", "a bad write after good ones", one_by_one());
    report
}
/// Cells are updated in the memory they have: a repeated step asks the system for nothing and reuses buffers.
pub fn in_place(device: Device) -> Report {
    let mut report = Report::default();
    let run = || -> Result<(), String> {
        let text = |e: adamant_core::Error| e.to_string();
        let c = Cell::new(&upload(&draw(Shape::new(&[64]).unwrap_or(Shape::SCALAR), DType::F32, Spread::Coarse, &mut Random::new(3)), device), true)
            .map_err(text)?;
        let once = |k: usize| step(|| c.set(&(c.detached() * 0.5f32 + k as f32)));
        // As many as a device may be behind.
        (0..20).try_for_each(once).map_err(text)?;
        let before = device.memory().system_allocations;
        take_stats();
        (0..10).try_for_each(once).map_err(text)?;
        let (stats, after) = (take_stats(), device.memory().system_allocations);
        if after != before {
            return Err(format!("{} allocations in ten steady steps", after - before));
        }
        if device.backend().updates_in_place() && stats.donated < 10 {
            return Err(format!("{} of 10 updates were in place", stats.donated));
        }
        // A value that somebody holds is not overwritten.
        let old = c.detached();
        let seen = old.to_vec::<f32>().map_err(text)?;
        once(7).map_err(text)?;
        if old.to_vec::<f32>().map_err(text)? == seen { Ok(()) } else { Err("a value that is held changed".into()) }
    };
    report.note("step", "in place", device.scoped(run));
    report
}
/// Of so many results one may have other bits where fusion is not promised to keep them.
const REWRITTEN: usize = 100;
/// Every function op by op and in windows cut after 1, 3 and 7 ops: the bits of the whole window. A device that promises
/// bits from run to run alone may have a driver that rewrites expressions (sums of `(1 - t) x + t z` on llvmpipe have other bits):
/// there few results may be others, within the table.
pub fn cuts(device: Device, share: CheckShare) -> Report {
    let mut report = Report::default();
    let promised = device.info().determinism == Determinism::Bitwise;
    let (mut compared, mut rewritten) = (0, Vec::new());
    for (seed, entry) in seeded().iter().filter(|(seed, entry)| share.takes(&format!("{} {seed}", entry.name))) {
        let dtype = if entry.dtypes.contains(&DType::F32) { DType::F32 } else { entry.dtypes[0] };
        let inputs = drawn(entry, dtype, *seed);
        let whole = call(entry, &inputs, "dense", device);
        let mut same = |mode: &str, cut: Values| {
            compared += 1;
            let result = match (&whole, &cut) {
                (Ok(a), Ok(b)) if a.iter().zip(b).all(|(a, b)| crate::data::same_bits(a, b)) => Ok(()),
                (Ok(a), Ok(b)) if !promised => {
                    rewritten.push(format!("{} [{mode}]", entry.name));
                    a.iter().zip(b).try_for_each(|(a, b)| tolerance::composed(a, b))
                }
                (Err((a, _)), Err((b, _))) if a == b => Ok(()),
                (Err((_, e)), Ok(_)) | (Ok(_), Err((_, e))) => Err(e.clone()),
                (Err((_, a)), Err((_, b))) => Err(format!("in one window `{a}`, cut `{b}`")),
                _ => Err("other bits than in one window".into()),
            };
            report.note(&entry.name, mode, result);
        };
        same("op by op", with_eager(true, || call(entry, &inputs, "dense", device)));
        for window in [1, 3, 7] {
            same(&format!("window {window}"), with_window(window, || call(entry, &inputs, "dense", device)));
        }
    }
    let few = if rewritten.len() * REWRITTEN <= compared {
        Ok(())
    } else {
        Err(format!("{} of {compared} have other bits: {}", rewritten.len(), rewritten.join(", ")))
    };
    report.note("fusion", "other bits", few);
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

/// A device, or none where the machine lacks it: then the tests say nothing of it.
pub trait Present {
    /// The device, if it is there.
    fn present(self) -> Option<Device>;
}
impl Present for Device {
    fn present(self) -> Option<Device> {
        Some(self)
    }
}
impl Present for Option<Device> {
    fn present(self) -> Option<Device> {
        self
    }
}
/// Writes the tests of a device: `adamant_conformance::suite!(|| device);`. With `, complete` at the end the device may
/// say of nothing that it is unsupported; with `, graphs = n` the fuzzer's slice has n graphs, and with `, one_of = k` behind
/// it about one of k checks of the long kinds is made ([`CheckShare::one_of`]). A function that gives an
/// `Option` of a device, and prints why there is none, leaves the tests empty on a machine without it.
#[macro_export]
macro_rules! suite {
    ($device:expr) => {
        $crate::suite!(@tests $device, assert, 2000, 1);
    };
    ($device:expr, complete) => {
        $crate::suite!(@tests $device, assert_complete, 2000, 1);
    };
    ($device:expr, graphs = $graphs:expr) => {
        $crate::suite!(@tests $device, assert, $graphs, 1);
    };
    ($device:expr, graphs = $graphs:expr, one_of = $one_of:expr) => {
        $crate::suite!(@tests $device, assert, $graphs, $one_of);
    };
    (@tests $device:expr, $assert:ident, $graphs:expr, $one_of:expr) => {
        fn on_the_device(check: impl FnOnce(adamant_core::Device) -> $crate::suite::Report) {
            if let Some(device) = $crate::suite::Present::present($device()) {
                check(device).$assert();
            }
        }
        #[test]
        fn every_function_is_right_on_every_dtype_and_layout() {
            on_the_device(|device| $crate::suite::correctness(device, $crate::share::CheckShare::one_of($one_of)));
        }
        #[test]
        fn wrong_calls_give_typed_errors() {
            on_the_device($crate::suite::errors);
        }
        #[test]
        fn gradients_are_right_to_second_order() {
            on_the_device(|device| $crate::suite::gradients(device, $crate::share::CheckShare::one_of($one_of)));
        }
        #[test]
        fn special_values_follow_the_table() {
            on_the_device(|device| $crate::suite::special_values(device, $crate::share::CheckShare::one_of($one_of)));
        }
        #[test]
        fn bad_data_is_a_typed_error_and_leaves_cells_alone() {
            on_the_device($crate::suite::faults);
        }
        #[test]
        fn cells_are_updated_in_place() {
            on_the_device($crate::suite::in_place);
        }
        #[test]
        fn windows_and_fusion_change_no_bit() {
            on_the_device(|device| $crate::suite::cuts(device, $crate::share::CheckShare::one_of($one_of)));
        }
        #[test]
        fn threads_do_not_disturb_each_other() {
            on_the_device($crate::suite::threads);
        }
        #[test]
        fn random_graphs_agree() {
            on_the_device(|device| $crate::suite::fuzzing(device, $graphs));
        }
    };
}
