//! A training step in its steady state asks the system's allocator for nothing.
use adamant::{Result, cpu::CpuBackend};
use models::{MODELS, in_steady_state, in_steady_state_on};

#[path = "../examples/allocations/models.rs"]
mod models;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The blocks that five steps ask for, of the least of so many times five.
fn blocks(step: &mut dyn FnMut() -> Result<()>, times: usize) -> Result<u64> {
    let mut least = u64::MAX;
    for _ in 0..times {
        let before = dhat::HeapStats::get().total_blocks;
        (0..5).try_for_each(|_| step())?;
        least = least.min(dhat::HeapStats::get().total_blocks - before);
    }
    Ok(least)
}
#[test]
fn a_steady_step_that_allocates() -> Result<()> {
    let _profiler = dhat::Profiler::builder().testing().build();
    let asks = |name: &str| format!("{name}: `cargo run -p adamant --example allocations -- sites.json \"{name}\"` tells where");
    for name in MODELS {
        let alone = in_steady_state_on(CpuBackend::builder().threads(1), name, |_, _, step| blocks(step, 1))?;
        assert_eq!(alone, 0, "on one thread, {}", asks(name));
        // On several it depends on the system when each has first met what it keeps: five steps of ten times are free.
        let together = in_steady_state(name, |_, _, step| blocks(step, 10))?;
        assert_eq!(together, 0, "on all cores, {}", asks(name));
    }
    Ok(())
}
