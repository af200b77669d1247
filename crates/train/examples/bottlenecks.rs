//! Where the time of ResNet-18 goes, whether the layers' times add up to the pass, and whether a layer that was made slow comes first.
//!
//!     cargo run --release -p adamant-train --features profiling --example bottlenecks -- 1
//!
//! where the number is that of threads; without it, all.
#![allow(clippy::unwrap_used)]
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_core::{Device, Result, Tensor};
use adamant_nn::*;
use adamant_train::analysis::ModelAnalyzer;

#[path = "../tests/resnet/mod.rs"]
mod resnet;

/// A product with itself, so often.
#[derive(Module)]
struct Repeats {
    site: Site,
    inner: Linear,
    times: usize,
}
impl Module for Repeats {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = self.site.enter();
        let mut x = x.clone();
        for _ in 0..self.times {
            x = self.inner.forward(&x)?.tanh();
        }
        Ok(x)
    }
}
fn main() {
    // One thread waits for no other: on a machine that does other things besides, its passes are the ones to look at.
    let context = std::env::args().nth(1).map(|n| Context::new(CpuBackend::builder().threads(n.parse().unwrap())).unwrap());
    let device = context.map_or_else(|| Device::cpu().unwrap(), Context::device);
    device.make_current();
    let net = resnet::resnet18();
    net.eval();
    for side in [224, 64] {
        let x = Tensor::ones([1, 3, side, side]);
        let analysis = ModelAnalyzer::new().analyze(&net, &x).unwrap();
        println!("{analysis}\n");
        let timing = analysis.timing.unwrap();
        let share = |part: f64| 100.0 * part / timing.forward.as_secs_f64();
        println!(
            "{side}: layers {:.2} % of the forward pass, with what is between {:+.2} %\n",
            share(analysis.layer_time().as_secs_f64()),
            100.0 * analysis.excess().unwrap()
        );
    }
    let mut found = 0;
    const LAYERS: usize = 8;
    for slow in 0..LAYERS {
        let mut net = Sequential::new();
        for k in 0..LAYERS {
            let times = if k == slow { 4 } else { 1 };
            net.push(&k.to_string(), Box::new(Repeats { site: Site::new("Repeats"), inner: Linear::new(256, 256).unwrap(), times }));
        }
        let x = Tensor::ones([64, 256]);
        let analysis = ModelAnalyzer::new().analyze(&net, &x).unwrap();
        let first = &analysis.find_bottlenecks()[0];
        found += usize::from(first.layer.starts_with(&slow.to_string()));
        println!(
            "slow {slow}: first {} ({}), {:.1} %, {:?}, layers and between {:+.2} %",
            first.layer,
            first.kind,
            100.0 * first.share,
            first.bound,
            100.0 * analysis.excess().unwrap()
        );
    }
    println!("{found} of {LAYERS} slow layers come first");
}
