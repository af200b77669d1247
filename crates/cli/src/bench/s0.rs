//! The speed table: what the guide of the first of our predecessors promises for a machine of its day, and what we do.
use super::{clocked, report::Report, timed};
use crate::{device::one_thread, out};
use adamant::{
    Device, Rng, Tensor, functional,
    nn::{Embedding, Linear, Module, Param, Relu, Sequential, Walk},
    no_grad,
    optim::{Adam, Optimizer, UpdateRule},
};
use adamant_bench::record::Case;
use adamant_train::Failure;
use serde_json::{Value, json};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// A call, which tells how long it took.
type Call = Box<dyn FnMut() -> Result<Duration, Failure>>;
/// A line: its name, what the guide promises and what we do, in milliseconds, and how its call is prepared.
struct GuideLine {
    name: &'static str,
    guide_ms: f64,
    target_ms: f64,
    prepare: fn() -> Result<Call, Failure>,
    /// on one thread, whatever the device has
    one_thread: bool,
}
const LINES: &[GuideLine] = &[
    GuideLine { name: "create 1000x1000, moved", guide_ms: 5.0, target_ms: 0.01, prepare: moved, one_thread: false },
    GuideLine { name: "create 1000x1000, copied", guide_ms: 5.0, target_ms: 0.35, prepare: copied, one_thread: false },
    GuideLine { name: "matmul 1000x500 500x200, 1 thread", guide_ms: 50.0, target_ms: 1.0, prepare: matmul, one_thread: true },
    GuideLine { name: "gradient of relu(100x50 50x30)", guide_ms: 100.0, target_ms: 0.02, prepare: gradient, one_thread: false },
    GuideLine { name: "training step, 0.42M parameters", guide_ms: 500.0, target_ms: 0.8, prepare: step, one_thread: false },
    GuideLine { name: "softmax 1000x10000", guide_ms: 100.0, target_ms: 6.0, prepare: || softmax(10_000), one_thread: false },
    GuideLine { name: "softmax 1000x50000", guide_ms: 500.0, target_ms: 30.0, prepare: || softmax(50_000), one_thread: false },
    GuideLine { name: "linear 1000 to 1000, batch 32", guide_ms: 10.0, target_ms: 0.4, prepare: linear, one_thread: false },
    GuideLine { name: "Adam step, 0.61M parameters", guide_ms: 100.0, target_ms: 1.0, prepare: adam, one_thread: false },
];

/// Prints every line, and adds it to the report. Gives what is to be said of the targets that were missed.
pub fn table(device: Device, only: &str, budget: Duration, json: bool, mut report: Option<&mut Report>) -> Result<Option<String>, Failure> {
    let chosen: Vec<&GuideLine> = LINES.iter().filter(|l| l.name.contains(only)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = LINES.iter().map(|l| l.name).collect();
        return Err(Failure::Usage(format!("no line has `{only}` in its name; there are: {}", names.join("; "))));
    }
    if !json {
        out::line(format!("{:<34} {:>10} {:>10} {:>10} {:>8} {:>10} {:>10}", "", "mean ms", "std", "min", "n", "guide", "target"))?;
    }
    let (mut lines, mut missed) = (Vec::new(), Vec::new());
    for line in &chosen {
        let device = if line.one_thread { one_thread(device)? } else { device };
        let (seen, all) = device.scoped(|| timed(budget, (line.prepare)()?))?;
        if let Some(report) = &mut report {
            report.add(Case::new(line.name, "adamant"), &all);
        }
        let milli = |d: Duration| d.as_secs_f64() * 1e3;
        let passed = milli(seen.min) <= line.target_ms.min(line.guide_ms);
        if !passed {
            missed.push(format!("{}: {:.4} ms, not {}", line.name, milli(seen.min), line.target_ms));
        }
        if json {
            let [mean, std, min] = [seen.average_step_time, seen.std, seen.min].map(milli);
            lines.push(json!({
                "name": line.name, "n": seen.steps, "mean_ms": mean, "std_ms": std, "min_ms": min,
                "guide_ms": line.guide_ms, "target_ms": line.target_ms, "passed": passed,
            }));
        } else {
            let [mean, std, min] = [seen.average_step_time, seen.std, seen.min].map(milli);
            let (n, end) = (seen.steps, if passed { "" } else { "  MISSED" });
            out::line(format!("{:<34} {mean:>10.4} {std:>10.4} {min:>10.4} {n:>8} {:>10} {:>10}{end}", line.name, line.guide_ms, line.target_ms))?;
        }
    }
    if json {
        out::line(Value::from(lines))?;
    }
    Ok((!missed.is_empty()).then(|| format!("{} of {} targets are missed: {}", missed.len(), chosen.len(), missed.join("; "))))
}

fn random(shape: [usize; 2]) -> Result<Tensor, Failure> {
    let x = Tensor::randn(shape, &Rng::new(1)?);
    x.materialize()?;
    Ok(x)
}
fn moved() -> Result<Call, Failure> {
    Ok(Box::new(|| {
        let data = vec![0.5f32; 1_000_000];
        let begun = Instant::now();
        let x = Tensor::from_vec(data, [1000, 1000]);
        let time = begun.elapsed();
        x.ok()?;
        Ok(time)
    }))
}
fn copied() -> Result<Call, Failure> {
    let data = vec![0.5f32; 1_000_000];
    Ok(Box::new(move || clocked(|| Tensor::from_slice(&data, [1000, 1000]).ok())))
}
fn matmul() -> Result<Call, Failure> {
    let (a, b) = (random([1000, 500])?, random([500, 200])?);
    Ok(Box::new(move || clocked(|| a.matmul(&b).materialize())))
}
/// Forward and backward of the guide's test: the gradients of both matrices.
fn gradient() -> Result<Call, Failure> {
    let (x, w) = (Param::new(&random([100, 50])?)?, Param::new(&random([50, 30])?)?);
    Ok(Box::new(move || {
        clocked(|| {
            let grads = x.get().matmul(w.get()).relu().mean(..).backward()?;
            for cell in [x.cell(), w.cell()] {
                if let Some(gradient) = grads.of(&cell) {
                    gradient.materialize()?;
                }
            }
            Ok::<_, adamant::Error>(())
        })
    }))
}
fn step() -> Result<Call, Failure> {
    let model = Sequential::new().add(Embedding::new(1000, 128)?).add(Linear::new(128, 256)?).add(Relu::new()).add(Linear::new(256, 1000)?);
    let mut optimizer = Adam::new(1e-3).over(model.parameters());
    let mut n = 0i64;
    Ok(Box::new(move || {
        n += 1;
        let tokens = |shift: i64| (0..16).map(|k| (n * 31 + k * 67 + shift) % 1000).collect::<Vec<i64>>();
        let (x, y) = (tokens(0), tokens(1));
        clocked(|| {
            let logits = model.forward(&Tensor::from_vec(x, [16]))?;
            optimizer.step(&functional::cross_entropy(&logits, &Tensor::from_vec(y, [16]), &Default::default()).backward()?)
        })
    }))
}
fn softmax(width: usize) -> Result<Call, Failure> {
    let x = random([1000, width])?;
    Ok(Box::new(move || clocked(|| x.softmax(-1).materialize())))
}
fn linear() -> Result<Call, Failure> {
    let (layer, x) = (Linear::new(1000, 1000)?, random([32, 1000])?);
    Ok(Box::new(move || clocked(|| no_grad(|| black_box(layer.forward(&x)?).materialize()))))
}
fn adam() -> Result<Call, Failure> {
    let layer = Linear::new(780, 780)?;
    let mut optimizer = Adam::new(1e-3).over(layer.parameters());
    let grads = layer.forward(&random([8, 780])?)?.square().mean(..).backward()?;
    Ok(Box::new(move || clocked(|| optimizer.step(&grads))))
}
