//! A training loop that runs for long: the process does not grow, and a step asks the system for no tensor memory.
use adamant::{
    Device, Result, Tensor,
    cpu::{Context, CpuBackend},
    functional as f,
    nn::{Conv2d, Flatten, Linear, MaxPool2d, Module, Relu, Sequential, Walk},
    optim::{Adam, Optimizer, UpdateRule},
};

const STEPS: usize = 10_000;
const WARM_UP: usize = 500;

/// Bytes of this process that are in memory; `None` where the system does not tell.
fn resident() -> Option<usize> {
    let pages: usize = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}
/// A CNN so small that ten thousand steps take seconds; each step has a fresh batch from the host.
fn train(device: Device) -> Result<()> {
    device.scoped(|| {
        let model =
            Sequential::new().add(Conv2d::new(1, 4, 3)?).add(Relu::new()).add(MaxPool2d::new(2)).add(Flatten::with(1, -1)).add(Linear::new(4 * 3 * 3, 4)?);
        let mut adam = Adam::new(1e-3).over(model.parameters());
        let mut step = |k: usize| -> Result<f32> {
            let pixels: Vec<f32> = (0..4 * 64).map(|i| ((i * 7 + k * 13) % 17) as f32 / 17.0).collect();
            let x = Tensor::from_vec(pixels, [4, 1, 8, 8]);
            let y = Tensor::from_vec((0..4).map(|i| ((i + k) % 4) as i64).collect(), 4);
            let loss = f::cross_entropy(&model.forward(&x)?, &y, &Default::default());
            adam.step(&loss.backward()?)?;
            // A loop reads its loss now and then.
            if k.is_multiple_of(10) { loss.item() } else { Ok(0.0) }
        };
        for k in 0..WARM_UP {
            step(k)?;
        }
        let (warm, grown) = (device.memory(), resident());
        for k in 0..STEPS {
            assert!(step(k)?.is_finite());
        }
        let done = device.memory();
        assert_eq!(done.system_allocations, warm.system_allocations, "a steady step asks the system for tensor memory");
        assert_eq!((done.live_bytes, done.cached_bytes), (warm.live_bytes, warm.cached_bytes), "live or cached bytes creep up");
        assert!(done.requests > warm.requests + STEPS as u64, "the counters do not count");
        match (grown, resident()) {
            (Some(before), Some(after)) => {
                println!("resident: {before} bytes after {WARM_UP} steps, {after} after {STEPS} more");
                assert!(after.saturating_sub(before) <= 1 << 20, "the process has grown from {before} to {after} bytes");
            }
            _ => println!("this system does not tell how much of a process is in memory; only the counters were checked"),
        }
        Ok(())
    })
}
#[test]
fn ten_thousand_steps_that_grow_the_process() -> Result<()> {
    train(Context::new(CpuBackend::builder().threads(2))?.device())
}
