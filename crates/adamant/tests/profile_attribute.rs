//! `#[profile]` in a program that depends on the facade alone.
#![cfg(feature = "profiling")]
use adamant::{Device, Result, Tensor, profile, profile::Profiler, time_block};

#[profile]
fn forward(x: &Tensor) -> Result<Tensor> {
    let range = x.exp();
    range.materialize()?;
    Ok(range)
}
struct Net;
impl Net {
    #[profile("backward, by hand")]
    fn step<'a>(&self, x: &'a Tensor) -> &'a Tensor {
        if x.rank() == 0 {
            return x;
        }
        x
    }
}
#[test]
fn a_function_whose_calls_are_no_ranges() -> Result<()> {
    Device::reference().scoped(|| {
        let x = Tensor::ones([3]);
        let recording = Profiler::new().start()?;
        for _ in 0..3 {
            forward(&x)?;
        }
        time_block!("outer", Net.step(&x).materialize())?;
        let profile = recording.stop();
        let phases = profile.phases();
        let count = |name: &str| phases.rows.iter().find(|p| &*p.name == name).map(|p| p.count);
        assert_eq!([count("forward"), count("backward, by hand"), count("outer")], [Some(3), Some(1), Some(1)]);
        Ok(())
    })
}
