//! What a small training step costs captured and op by op: a perceptron of 32, 64 and 10 features on batches of 8 rows, the two
//! in turn in one process. Prints the medians and their ratio, and ends with 1 if that is above the limit.
//!
//!     cargo run --release -p adamant --example captured_step
//!     cargo run --release -p adamant --example captured_step -- 0.5 profile
//!
//! With `profile` only the captured step runs, for ten seconds.
use adamant::nn::Walk;
use adamant::{
    Result, Tensor, compile,
    cpu::{Context, CpuBackend},
    functional,
    nn::{Linear, Module, Relu, Sequential, manual_seed},
    optim::{AdamW, Optimizer, Sgd, UpdateRule},
};
use std::{sync::Mutex, time::Instant};

/// Steps that are timed together.
const STEPS: usize = 200;
const ROUNDS: usize = 60;

fn net() -> Result<Sequential> {
    manual_seed(1);
    Ok(Sequential::new().add(Linear::new(32, 64)?).add(Relu::new()).add(Linear::new(64, 10)?))
}
fn step(net: &Sequential, optimizer: &mut dyn Optimizer, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let loss = functional::cross_entropy(&net.forward(x)?, y, &Default::default());
    optimizer.step(&loss.backward()?)?;
    loss.detach().ok()
}
fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
fn ratio(name: &str, make: fn(&Sequential) -> Box<dyn Optimizer>, profile: bool) -> Result<f64> {
    let x = Tensor::from_vec((0..8 * 32).map(|k| (k % 17) as f32 * 0.1 - 0.8).collect(), [8, 32]);
    let y = Tensor::from_vec((0..8).map(|k| k % 10).collect::<Vec<i64>>(), [8]);
    let (plain, whole) = (net()?, net()?);
    let mut optimizer = make(&plain);
    let other = Mutex::new(make(&whole));
    let captured = compile(|x: &[Tensor]| {
        let mut optimizer = other.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(vec![step(&whole, &mut **optimizer, &x[0], &x[1])?])
    });
    let mut seconds = [Vec::new(), Vec::new()];
    if profile {
        let begun = Instant::now();
        while begun.elapsed().as_secs() < 10 {
            captured.call(&[&x, &y])?;
        }
        return Ok(0.0);
    }
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for _ in 0..STEPS {
            step(&plain, &mut *optimizer, &x, &y)?;
        }
        seconds[0].push(begun.elapsed().as_secs_f64() / STEPS as f64);
        let begun = Instant::now();
        for _ in 0..STEPS {
            captured.call(&[&x, &y])?;
        }
        seconds[1].push(begun.elapsed().as_secs_f64() / STEPS as f64);
    }
    for (p, q) in plain.parameters().iter().zip(whole.parameters()) {
        assert_eq!(p.detached().to_bytes()?, q.detached().to_bytes()?, "the two differ");
    }
    let [plain, whole] = seconds.map(median);
    println!("{name}: {:.2} us op by op, {:.2} us captured: {:.3}", plain * 1e6, whole * 1e6, whole / plain);
    Ok(whole / plain)
}
fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let limit = arguments.next().and_then(|a| a.parse().ok()).unwrap_or(0.5);
    let profile = arguments.next().is_some();
    let device = Context::new(CpuBackend::builder().threads(1))?.device();
    device.scoped(|| {
        let sgd = ratio("SGD", |net| Box::new(Sgd::new(1e-3).over(net.parameters())), profile)?;
        let adamw = ratio("AdamW", |net| Box::new(AdamW::new(1e-3).over(net.parameters())), profile)?;
        if sgd.max(adamw) > limit {
            println!("above {limit}");
            std::process::exit(1);
        }
        Ok(())
    })
}
