//! What a look at layers and parameters says, against the same numbers in plain f64 from layers that are run one by one; and that looking changes
//! nothing.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{Device, Tensor, compile};
use adamant_nn::{BatchNorm2d, Conv2d, Flatten, Linear, Lstm, Module, Relu, Sequential, Sigmoid, Site, Tanh, Walk, manual_seed};
use adamant_optim::{AdamW, Optimizer, UpdateRule};
use adamant_stability::{LayerLook, LayerNames, LookedNumbers};
use std::cell::RefCell;

/// A random net over images, and which of its layers has bounds.
fn net(random: &mut Random) -> (Sequential, &'static str) {
    let channels = random.between(1, 4);
    let mut net = Sequential::new().add(Conv2d::new(2, channels, 3).unwrap());
    if random.one_in(2) {
        net = net.add(BatchNorm2d::new(channels).unwrap());
    }
    net = net.add(Relu::new()).add(Flatten::new()).add(Linear::new(channels * 9, 6).unwrap());
    let (net, bounded) = match random.below(3) {
        0 => (net.add(Tanh::new()), "Tanh"),
        1 => (net.add(Sigmoid::new()), "Sigmoid"),
        _ => (net.add(Relu::new()), "none"),
    };
    (net.add(Linear::new(6, 3).unwrap()), bounded)
}
fn images(random: &mut Random) -> Tensor {
    let rows = random.between(1, 5);
    Tensor::from_vec((0..rows * 50).map(|_| (random.unit() * 6.0 - 3.0) as f32).collect::<Vec<_>>(), [rows, 2, 5, 5])
}
fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-5 * (1.0 + b.abs())
}
fn values(x: &Tensor) -> Vec<f64> {
    x.detach().to_vec_as::<f64>().unwrap()
}
fn norm(x: &Tensor) -> f64 {
    values(x).iter().map(|v| v * v).sum::<f64>().sqrt()
}
/// The numbers of a layer's result, in plain f64.
fn brute(x: &Tensor, kind: &str) -> (f64, f64, f64, f64, Option<f64>) {
    let (all, shape) = (values(x), x.shape().unwrap());
    let n = all.len() as f64;
    let share = |is: &dyn Fn(f64) -> bool| all.iter().filter(|v| is(**v)).count() as f64 / n;
    let units = if shape.rank() == 4 { shape[1] } else { shape[shape.rank() - 1] };
    let inner = if shape.rank() == 4 { shape[2] * shape[3] } else { 1 };
    let is_dead = |unit: &usize| all.iter().enumerate().all(|(k, v)| k / inner % units != *unit || *v == 0.0);
    let dead = (0..units).filter(is_dead).count() as f64 / units as f64;
    let saturated = match kind {
        "Tanh" => Some(share(&|v| v.abs() > 0.99)),
        "Sigmoid" => Some(share(&|v| !(0.01..=0.99).contains(&v))),
        _ => None,
    };
    (all.iter().fold(0.0, |most, v| v.abs().max(most)), all.iter().map(|v| v.abs()).sum::<f64>() / n, share(&|v| v == 0.0), dead, saturated)
}
/// One step, looked at or not.
fn stepped(net: &Sequential, x: &Tensor, optimizer: &mut dyn Optimizer, looks: bool) -> Option<LookedNumbers> {
    let mut look = LayerLook::new();
    look.batch(&[x, &Tensor::from_vec(vec![1i64, 2], [2])]);
    let forward = || net.forward(x).unwrap();
    let y = if looks { look.forward(forward) } else { forward() };
    let grads = y.square().mean(..).backward().unwrap();
    if looks {
        look.gradients(&grads, &net.named_parameters()).unwrap();
    }
    optimizer.step(&grads).unwrap();
    looks.then(|| {
        let (numbers, names) = look.finish(&net.named_parameters()).unwrap();
        names.read(&numbers).unwrap()
    })
}
#[test]
fn numbers_of_a_step_that_are_not_those_of_its_layers() {
    Device::cpu().unwrap().scoped(|| {
        let (mut dead, mut saturated) = (0, 0);
        for seed in 0..60u64 {
            let mut random = Random::new(seed);
            manual_seed(seed);
            let (net, bounded) = net(&mut random);
            let bounded_at = net.len() - 2;
            // Some of its units die, some of its results are far out.
            for (name, p) in net.named_parameters() {
                if random.one_in(2) {
                    let by = if name.ends_with("bias") { -4.0 * random.unit() } else { 1.0 + 8.0 * random.unit() };
                    p.set(&(p.detached() * by.abs() + if name.ends_with("bias") { by } else { 0.0 })).unwrap();
                }
            }
            let x = images(&mut random);
            // The layers one by one, on weights as they are before the step. The statistics of BatchNorm are those of the batch.
            let mut outputs = Vec::new();
            let mut at = x.clone();
            for (k, (path, layer)) in net.layers().enumerate() {
                at = layer.forward(&at).unwrap();
                outputs.push((path.to_string(), if k == bounded_at { bounded } else { "none" }, at.clone()));
            }
            let before: Vec<Tensor> = net.named_parameters().iter().map(|(_, p)| p.detached()).collect();
            let grads = at.square().mean(..).backward().unwrap();
            let LookedNumbers { batch, layers, parameters } = stepped(&net, &x, &mut AdamW::new(0.01).over(net.parameters()), true).unwrap();
            let told = format!("seed {seed}: {layers:?} {parameters:?}");
            let (largest, mean, zeros, ..) = brute(&x, "none");
            assert!(batch.len() == 1 && batch[0].tensor == 0 && near(batch[0].largest, largest) && near(batch[0].mean, mean) && near(batch[0].zeros, zeros));
            let named: Vec<&str> = layers.iter().map(|l| l.layer.as_str()).collect();
            // A layer that only moves numbers gives what it was given.
            assert_eq!(named, outputs.iter().map(|(path, ..)| path.as_str()).collect::<Vec<_>>(), "{told}");
            for (got, (_, kind, output)) in layers.iter().zip(&outputs) {
                let (largest, mean, zeros, of_dead, of_saturated) = brute(output, kind);
                assert!(near(got.largest, largest) && near(got.mean, mean) && near(got.zeros, zeros), "{told}\n{kind}: {largest} {mean} {zeros}");
                assert!(got.dead.is_some_and(|dead| near(dead, of_dead)), "{told}\n{kind}: {of_dead}");
                assert!(got.saturated.is_some() == of_saturated.is_some() && near(got.saturated.unwrap_or(0.0), of_saturated.unwrap_or(0.0)), "{told}\n{kind}");
                dead += usize::from(of_dead > 0.0);
                saturated += usize::from(of_saturated.is_some_and(|s| s > 0.0));
            }
            for (got, ((name, p), before)) in parameters.iter().zip(net.named_parameters().iter().zip(&before)) {
                assert_eq!(&got.parameter, name);
                assert!(near(got.gradient.unwrap(), norm(grads.of(&p.cell()).unwrap())) && near(got.weight, norm(before)), "{told}");
                let all = values(before);
                let range = all.iter().copied().fold(f64::MIN, f64::max) - all.iter().copied().fold(f64::MAX, f64::min);
                assert!(got.shape[..] == before.shape().unwrap()[..] && near(got.range.unwrap(), range), "{told}");
                assert!(near(got.update, norm(&(p.detached() - before))) && got.update > 0.0, "{told}");
            }
        }
        assert!(dead > 20 && saturated > 10, "{dead} {saturated}");
    });
}
#[test]
fn a_look_that_changes_a_bit() {
    Device::cpu().unwrap().scoped(|| {
        for seed in 0..10u64 {
            let ends = |looks: bool| {
                let mut random = Random::new(seed);
                manual_seed(seed);
                let (net, _) = net(&mut random);
                let mut optimizer = AdamW::new(0.01).over(net.parameters());
                for _ in 0..4 {
                    stepped(&net, &images(&mut random), &mut optimizer, looks);
                }
                net.state_dict().iter().chain(&optimizer.state_dict()).map(|(_, t)| t.to_bytes().unwrap()).collect::<Vec<_>>()
            };
            assert!(ends(true) == ends(false), "seed {seed}");
        }
    });
}
#[test]
fn a_captured_step_that_has_other_numbers() {
    Device::cpu().unwrap().scoped(|| {
        manual_seed(1);
        let (net, _) = net(&mut Random::new(3));
        let (x, names) = (images(&mut Random::new(4)), RefCell::new(LayerNames::default()));
        let numbers = |x: &Tensor| {
            let mut look = LayerLook::new();
            let grads = look.forward(|| net.forward(x))?.square().mean(..).backward()?;
            look.gradients(&grads, &net.named_parameters())?;
            let (numbers, of) = look.finish(&net.named_parameters())?;
            *names.borrow_mut() = of;
            Ok(numbers)
        };
        let of_one = numbers(&x).unwrap();
        assert!(LayerNames::default().read(&of_one).unwrap_err().to_string().contains("are not those of 0 layers"));
        let by_op = names.borrow().read(&of_one).unwrap();
        let captured = compile(|x: &[Tensor]| Ok(vec![numbers(&x[0])?]));
        for _ in 0..3 {
            let got = captured.call(&[&x]).unwrap();
            assert_eq!(names.borrow().read(&got[0]).unwrap(), by_op);
        }
    });
}
/// A gate is judged rather than what it lets through.
#[test]
fn gates_that_are_not_seen() {
    Device::cpu().unwrap().scoped(|| {
        manual_seed(2);
        let lstm = Lstm::new(3, 4).unwrap();
        let x = Tensor::from_vec((0..30).map(|k| (k % 7) as f32 / 7.0).collect::<Vec<_>>(), [2, 5, 3]);
        let seen = || {
            let site = Site::new("net");
            let mut look = LayerLook::new();
            let y = look.forward(|| {
                let _scope = site.enter();
                lstm.forward(&x)
            });
            let grads = y.unwrap().sum(..).backward().unwrap();
            look.gradients(&grads, &lstm.named_parameters()).unwrap();
            let (numbers, names) = look.finish(&lstm.named_parameters()).unwrap();
            names.read(&numbers).unwrap().layers
        };
        assert!(seen().iter().any(|l| l.saturated == Some(0.0)), "{:?}", seen());
        for (name, p) in lstm.named_parameters() {
            if name.contains("bias_ih") {
                p.set(&(p.detached() * 0.0 + 20.0)).unwrap();
            }
        }
        assert!(seen().iter().any(|l| l.saturated == Some(1.0)), "{:?}", seen());
    });
}
