//! A training step in its steady state asks the system's allocator for nothing, on as many threads as there are cores.
use adamant::Result;
use models::{MODELS, in_steady_state};

#[path = "../examples/allocations/models.rs"]
mod models;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

#[test]
fn a_steady_step_that_allocates() -> Result<()> {
    let _profiler = dhat::Profiler::builder().testing().build();
    for name in MODELS {
        let blocks = in_steady_state(name, |_, _, step| {
            // On several threads it depends on the system when each has first met what it keeps: five steps of ten times are free.
            let mut least = u64::MAX;
            for _ in 0..10 {
                let before = dhat::HeapStats::get().total_blocks;
                (0..5).try_for_each(|_| step())?;
                least = least.min(dhat::HeapStats::get().total_blocks - before);
            }
            Ok(least)
        })?;
        assert_eq!(blocks, 0, "{name}: `cargo run -p adamant --example allocations -- sites.json \"{name}\"` tells where");
    }
    Ok(())
}
