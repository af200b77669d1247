//! What a training step in its steady state asks memory for, counted by a global allocator (crate `dhat`) and by the
//! device's pool. One JSON document on stdout.
//!
//!     cargo run --release -p adamant --example allocations
//!     cargo run --release -p adamant --example allocations -- sites.json encoder
//!
//!     cargo run --release -p adamant --example allocations -- count wasteful
//!
//! With a file and a model's name, it writes which calls asked for what, as dhat's viewer reads it; with `count`, it counts
//! for that model alone. The one called wasteful asks for memory in each step, so that a count of nothing can be trusted.
//!
//! A perceptron learns with batches of 64 and of 256 rows, then a convolutional net, a transformer's layer, and a regression
//! whose loss is composed op by op and read before `backward`.
mod models;

use adamant::{Error, ErrorKind, Result};
use models::{MODELS, WASTEFUL, in_steady_state};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const STEPS: u64 = 50;
/// How often [`STEPS`] steps are counted at most. A thread of several may meet late what it then keeps: a helper that a busy
/// machine kept away so far. The steady state has come when twice in a row nothing was asked for; the worse of
/// the last two is told.
const ROUNDS: usize = 6;

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

fn counted(name: &'static str) -> Result<Counted> {
    in_steady_state(name, |device, two, step| {
        let mut round = || -> Result<Counted> {
            device.pool().reset_peak();
            // What the books themselves take is not counted.
            let pool = device.memory();
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
        };
        let (mut last, mut rounds) = (round()?, 1);
        loop {
            let next = round()?;
            rounds += 1;
            if last.blocks + next.blocks == 0 || rounds >= ROUNDS {
                return Ok(if last.blocks > next.blocks { last } else { next });
            }
            last = next;
        }
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
    let mut models = MODELS.to_vec();
    if let Some(what) = args.next() {
        let wanted = args.next().unwrap_or_else(|| MODELS[0].into());
        let known = MODELS.into_iter().chain([WASTEFUL]).find(|m| *m == wanted);
        let known = known.ok_or_else(|| Error::new("allocations", ErrorKind::Argument(format!("no model {wanted:?} among {MODELS:?}"))))?;
        match &*what {
            "count" => models = vec![known],
            file => return sites(file.into(), known),
        }
    }
    let _profiler = dhat::Profiler::builder().testing().build();
    let told: Vec<String> = models
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
