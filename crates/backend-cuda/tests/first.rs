//! The first light.
mod common;
use adamant_core::Tensor;
use adamant_cuda_emulator::Options;

#[test]
fn sums() {
    let Some(device) = common::device(Options { null: std::env::var_os("NULL").is_some(), ..Options::default() }) else { return };
    println!("{:?}", device.info());
    let a = device.scoped(|| Tensor::from_vec((0..1000).map(|x| x as f32).collect(), [10, 100]));
    let b = device.scoped(|| (&a * 2.0 + 1.0).exp().sum(..));
    println!("{:?}", b.item::<f32>());
    let c = device.scoped(|| (&a * 0.001).matmul(a.t()));
    println!("{:?}", c.sum(..).item::<f32>());
    println!("{:?}", device.counters());
    println!("{:?}", adamant_cuda_emulator::Emulator::installed().map(|e| (e.findings(), e.counts())));
}
