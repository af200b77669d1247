//! Scales are PyTorch's: `torch.json` is what `xtask/python/scaler.py` prints.
#![allow(clippy::unwrap_used)]

use adamant_amp::{GradScaler, ScalerOptions};
use adamant_backend_cpu as _;
use adamant_core::{DType, Tensor};
use adamant_nn::Param;
use adamant_optim::{Sgd, UpdateRule};
use serde_json::Value;

fn numbers(v: &Value) -> Vec<f32> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

#[test]
fn scales_and_weights_are_those_of_pytorch() {
    let scripts: Vec<Value> = serde_json::from_str(include_str!("torch.json")).unwrap();
    assert!(scripts.len() > 40);
    for (number, script) in scripts.iter().enumerate() {
        let of = |name: &str| script[name].as_f64().unwrap();
        let interval = of("growth_interval") as u32;
        let options = ScalerOptions {
            init_scale: of("init_scale"),
            growth_factor: of("growth_factor"),
            backoff_factor: of("backoff_factor"),
            growth_interval: interval,
            ..ScalerOptions::default()
        };
        let mut scaler = GradScaler::with(options).unwrap();
        let wanted = script["weights"].as_array().unwrap();
        let weights: Vec<Param> = wanted.iter().map(|_| Param::new(&Tensor::ones([2])).unwrap()).collect();
        let mut optimizers: Vec<_> = weights.iter().map(|w| Sgd::new(0.25).over([w.clone()])).collect();
        let scales = numbers(&script["scales"]);
        assert_eq!(scaler.get_scale().unwrap() as f32, scales[0]);
        for (step, kinds) in script["steps"].as_array().unwrap().iter().enumerate() {
            if step == 25 && number % 4 == 0 {
                scaler.set_options(ScalerOptions { growth_interval: interval + 2, ..scaler.options().clone() }).unwrap();
            }
            for ((kind, weight), optimizer) in kinds.as_str().unwrap().chars().zip(&weights).zip(&mut optimizers) {
                let factor = match kind {
                    '.' => 0.5,
                    'i' => f32::INFINITY,
                    _ => f32::NAN,
                };
                let loss = (weight.get() * Tensor::from_vec(vec![0.5, factor], [2])).sum(..);
                let mut grads = scaler.scale(&loss).unwrap().backward().unwrap();
                scaler.step(optimizer, &mut grads).unwrap();
            }
            scaler.update().unwrap();
            assert_eq!(scaler.get_scale().unwrap() as f32, scales[step + 1], "script {number}, step {step}");
        }
        for (weight, wanted) in weights.iter().zip(wanted) {
            assert_eq!(weight.detached().to_vec::<f32>().unwrap(), numbers(wanted), "script {number}");
            assert_eq!(weight.meta().dtype, DType::F32);
        }
    }
}
