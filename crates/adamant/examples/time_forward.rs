//! How long a forward pass takes. Ops are recorded when they are called and run when somebody reads, so a clock around
//! `forward` alone times the recording; `Device::timed` waits until the device is done.
//!
//!     cargo run --release -p adamant --example time_forward
use adamant::{
    Device, Result, Rng, Tensor,
    nn::{Linear, Module, Relu, Sequential},
    no_grad,
};
use std::time::{Duration, Instant};

const CALLS: usize = 20;

fn main() -> Result<()> {
    let device = Device::current()?;
    let model = Sequential::new().add(Linear::new(1024, 1024)?).add(Relu::new()).add(Linear::new(1024, 1024)?);
    let x = Tensor::randn([64, 1024], &Rng::new(1)?);
    // The first call has memory and plans to make.
    no_grad(|| model.forward(&x))?.materialize()?;

    let (mut recorded, mut done) = (Duration::MAX, Duration::MAX);
    for _ in 0..CALLS {
        let begun = Instant::now();
        let y = no_grad(|| model.forward(&x))?;
        recorded = recorded.min(begun.elapsed());
        drop(y);
        let (y, time) = device.timed(|| no_grad(|| model.forward(&x)))?;
        y?;
        done = done.min(time);
    }
    println!("recorded only:      {:>10.1} us", recorded.as_secs_f64() * 1e6);
    println!("forward, with sync: {:>10.1} us", done.as_secs_f64() * 1e6);
    Ok(())
}
