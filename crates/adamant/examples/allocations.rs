//! What a training step in its steady state asks memory for, counted by a global allocator (crate `dhat`) and by the
//! device's pool. One JSON document on stdout.
//!
//!     cargo run --release -p adamant --example allocations
//!     cargo run --release -p adamant --example allocations -- sites.json encoder
//!
//! With a file and a model's name, it writes which calls asked for what, as dhat's viewer reads it.
//!
//! A perceptron learns with batches of 64 and of 256 rows, then a convolutional net and a transformer's layer learn.
use adamant::{
    Device, Result, Tensor,
    buffer::MemoryStats,
    cpu::{Context, CpuBackend},
    functional,
    nn::{
        Activation, AvgPool2d, BatchNorm2d, Conv2d, Dropout, Flatten, LayerNorm, Linear, MaxPool2d, Module, Relu, Sequential, TransformerEncoderLayer,
        TransformerOptions, Walk,
    },
    optim::{Adam, Optimizer, UpdateRule},
};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const WARM_UP: usize = 20;
const STEPS: u64 = 50;

/// What was counted over [`STEPS`] steps.
struct Counted {
    /// blocks and bytes that the allocator gave
    blocks: u64,
    bytes: u64,
    /// how often the pool was asked, and how often it asked the system
    requests: u64,
    system: u64,
    /// bytes of buffers that a step holds at its height
    buffers: usize,
    /// how often the pool asked the system after the second step
    after_two: u64,
    /// growth of the bytes that the allocator has given and not got back
    growth: i64,
}

/// A model that sorts into 64 classes, and the shape of what it reads.
struct Learner {
    model: Sequential,
    input: Vec<usize>,
}
const MODELS: [&str; 5] = ["perceptron", "wide perceptron", "convolutional", "encoder", "regression"];
fn learner(name: &'static str) -> Result<Learner> {
    let (model, input) = match name {
        "convolutional" => {
            let features = Sequential::new().add(Conv2d::new(3, 16, 3)?).add(BatchNorm2d::new(16)?).add(Relu::new()).add(MaxPool2d::new(2));
            let model = features.add(Conv2d::new(16, 32, 3)?).add(Relu::new()).add(AvgPool2d::new(2)).add(Flatten::new(1, -1)).add(Linear::new(1152, 64)?);
            (model, vec![16, 3, 30, 30])
        }
        "encoder" => {
            let options = TransformerOptions {
                dim_feedforward: 128,
                activation: Activation::Gelu,
                batch_first: true,
                norm_first: true,
                is_causal: true,
                ..Default::default()
            };
            let model = Sequential::new().add(LayerNorm::new([64])?).add(TransformerEncoderLayer::new(64, 4, options)?).add(Dropout::new(0.1)?);
            (model.add(Linear::new(64, 64)?).add(Flatten::new(0, 1)), vec![4, 32, 64])
        }
        _ => {
            let model = Sequential::new().add(Linear::new(256, 256)?).add(Relu::new()).add(Linear::new(256, 64)?);
            (model, vec![if name == "perceptron" { 64 } else { 256 }, 256])
        }
    };
    Ok(Learner { model, input })
}
/// Trains until the steady state, and hands over the device, its memory after the second step, and one more step.
fn in_steady_state<T>(name: &'static str, measured: impl FnOnce(Device, MemoryStats, &mut dyn FnMut() -> Result<()>) -> Result<T>) -> Result<T> {
    // On one thread: what the allocator gives then is what this thread asks for.
    let device = Context::new(CpuBackend::builder().threads(1))?.device();
    device.scoped(|| {
        let Learner { model, input } = learner(name)?;
        let mut adam = Adam::new(1e-3).over(model.parameters());
        let x = Tensor::from_vec((0..input.iter().product()).map(|k: usize| (k % 17) as f32 * 0.1).collect(), input);
        let rows = model.forward(&x)?.shape()?[0];
        let y = Tensor::from_vec((0..rows).map(|k| (k % 64) as i64).collect(), [rows]);
        let mut step = || -> Result<()> {
            let out = model.forward(&x)?;
            let loss = match name {
                // Composed op by op, as a user would write it.
                "regression" => {
                    let gate = (&out * 0.5).tanh() * out.sigmoid();
                    let error = (&gate - &x.narrow(1, 0, 64)).abs();
                    (error.square() / (error + 0.1).sqrt()).mean(..)
                }
                _ => functional::cross_entropy(&out, &y, &Default::default()),
            };
            if name == "regression" {
                // What is read before `backward` is computed before it.
                loss.item::<f32>()?;
            }
            adam.step(&loss.backward()?)
        };
        step()?;
        step()?;
        let two = device.memory();
        for _ in 0..WARM_UP {
            step()?;
        }
        measured(device, two, &mut step)
    })
}
fn counted(name: &'static str) -> Result<Counted> {
    in_steady_state(name, |device, two, step| {
        device.pool().reset_peak();
        // What the books themselves take is not counted; a step more brings small buffers to hand again.
        let pool = device.memory();
        step()?;
        let heap = dhat::HeapStats::get();
        for _ in 0..STEPS {
            step()?;
        }
        let (heap_now, now) = (dhat::HeapStats::get(), device.memory());
        Ok(Counted {
            blocks: heap_now.total_blocks - heap.total_blocks,
            bytes: heap_now.total_bytes - heap.total_bytes,
            requests: now.requests - pool.requests,
            system: now.system_allocations - pool.system_allocations,
            buffers: now.peak_bytes,
            after_two: now.system_allocations - two.system_allocations,
            growth: heap_now.curr_bytes as i64 - heap.curr_bytes as i64,
        })
    })
}
/// Writes who asked for what in [`STEPS`] steps.
fn sites(file: String, name: &'static str) -> Result<()> {
    in_steady_state(name, |_, _, step| {
        let _profiler = dhat::Profiler::builder().file_name(file).trim_backtraces(None).build();
        (0..STEPS).try_for_each(|_| step())
    })
}
fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    if let Some(file) = args.next() {
        let wanted = args.next();
        return sites(file, MODELS.into_iter().find(|m| wanted.as_deref() == Some(*m)).unwrap_or(MODELS[0]));
    }
    let _profiler = dhat::Profiler::builder().testing().build();
    let told: Vec<String> = MODELS
        .into_iter()
        .map(|name| {
            let c = counted(name)?;
            Ok(format!(
                "{{\"model\":\"{name}\",\"steps\":{STEPS},\"heap_blocks\":{},\"heap_bytes\":{},\"pool_requests\":{},\"pool_system_allocations\":{},\
                 \"peak_buffer_bytes\":{},\"system_allocations_after_step_2\":{},\"heap_growth_bytes\":{}}}",
                c.blocks, c.bytes, c.requests, c.system, c.buffers, c.after_two, c.growth
            ))
        })
        .collect::<Result<_>>()?;
    println!("[{}]", told.join(","));
    Ok(())
}
