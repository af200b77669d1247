//! What a training step in its steady state asks memory for, counted by a global allocator (crate `dhat`) and by the
//! device's pool. One JSON document on stdout.
//!
//!     cargo run --release -p adamant --example allocations
//!     cargo run --release -p adamant --example allocations -- sites.json
//!
//! With a file, it writes which calls asked for what, as dhat's viewer reads it.
//!
//! The same model learns with batches of 64 and of 256 rows. Buffers of tensors come from the pool, or a step with larger
//! batches would ask the allocator for more: what it does ask for, small nodes of recorded ops, is the same for both.
use adamant::{
    Device, Result, Tensor,
    buffer::MemoryStats,
    cpu::{Context, CpuBackend},
    functional,
    nn::{Linear, Module, Relu, Sequential, Walk},
    optim::{Adam, Optimizer, UpdateRule},
};
use std::ffi::OsString;

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

/// Trains until the steady state, and hands over the device, its memory after the second step, and one more step.
fn in_steady_state<T>(batch: usize, measured: impl FnOnce(Device, MemoryStats, &mut dyn FnMut() -> Result<()>) -> Result<T>) -> Result<T> {
    // On one thread: what the allocator gives then is what this thread asks for.
    let device = Context::new(CpuBackend::builder().threads(1))?.device();
    device.scoped(|| {
        let model = Sequential::new().add(Linear::new(256, 256)?).add(Relu::new()).add(Linear::new(256, 64)?);
        let mut adam = Adam::new(1e-3).over(model.parameters());
        let x = Tensor::from_vec((0..batch * 256).map(|k| (k % 17) as f32 * 0.1).collect(), [batch, 256]);
        let y = Tensor::from_vec((0..batch).map(|k| (k % 64) as i64).collect(), [batch]);
        let mut step = || -> Result<()> {
            let loss = functional::cross_entropy(&model.forward(&x)?, &y, &Default::default());
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
fn counted(batch: usize) -> Result<Counted> {
    in_steady_state(batch, |device, two, step| {
        device.pool().reset_peak();
        // The books are asked first each time: a thread then has no small buffers of its own at hand.
        let (pool, heap) = (device.memory(), dhat::HeapStats::get());
        for _ in 0..STEPS {
            step()?;
        }
        let (now, heap_now) = (device.memory(), dhat::HeapStats::get());
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
fn sites(file: OsString) -> Result<()> {
    in_steady_state(64, |_, _, step| {
        let _profiler = dhat::Profiler::builder().file_name(file).trim_backtraces(None).build();
        (0..STEPS).try_for_each(|_| step())
    })
}
fn main() -> Result<()> {
    if let Some(file) = std::env::args_os().nth(1) {
        return sites(file);
    }
    let _profiler = dhat::Profiler::builder().testing().build();
    let told: Vec<String> = [64, 256]
        .into_iter()
        .map(|batch| {
            let c = counted(batch)?;
            Ok(format!(
                "{{\"batch\":{batch},\"steps\":{STEPS},\"heap_blocks\":{},\"heap_bytes\":{},\"pool_requests\":{},\"pool_system_allocations\":{},\
                 \"peak_buffer_bytes\":{},\"system_allocations_after_step_2\":{},\"heap_growth_bytes\":{}}}",
                c.blocks, c.bytes, c.requests, c.system, c.buffers, c.after_two, c.growth
            ))
        })
        .collect::<Result<_>>()?;
    println!("[{}]", told.join(","));
    Ok(())
}
