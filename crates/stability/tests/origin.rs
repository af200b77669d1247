//! A bad number is planted at a random place of a random net: the trace names the op, the layer, the line and the part of the step that made it, and
//! healthy nets have none.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{Device, Result, Tensor, functional};
use adamant_nn::{BatchNorm1d, Gelu, LayerNorm, Linear, Module, Relu, Sequential, Site, Tanh, Walk, manual_seed};
use adamant_optim::{Adam, GradientClipper, Optimizer, Sgd, UpdateRule};
use adamant_stability::{BadNumber, StepPhase, TraceOptions, trace, trace_with};

const WIDTH: usize = 5;
/// What a planted layer does.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Plant {
    /// 0 / 0 in one element
    Division,
    /// the logarithm of 0: -Inf
    Logarithm,
    /// the exponential of 1000
    Exponential,
    /// a finite result whose gradient is infinite
    RootAtZero,
    /// a softmax over a row that is masked whole
    MaskedRow,
    /// a mask that leaves something: healthy
    Mask,
}
#[derive(Module)]
struct Planted {
    site: Site,
    #[module(skip)]
    plant: Plant,
}
impl Planted {
    /// The op to be named, and its line.
    fn expected(plant: Plant) -> (&'static str, StepPhase, &'static str) {
        match plant {
            Plant::Division => ("div", StepPhase::Forward, "NaN"),
            Plant::Logarithm => ("log", StepPhase::Forward, "-Inf"),
            Plant::Exponential => ("exp", StepPhase::Forward, "+Inf"),
            Plant::RootAtZero => ("sqrt", StepPhase::Backward, "NaN"),
            Plant::MaskedRow | Plant::Mask => ("softmax", StepPhase::Forward, "NaN"),
        }
    }
}
impl Module for Planted {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        // 1 everywhere but in one element, where it is 0.
        let hole = Tensor::from_vec((0..WIDTH).map(|k| f32::from(u8::from(k != 2))).collect::<Vec<_>>(), [WIDTH]);
        let y = match self.plant {
            Plant::Division => (x * &hole) / &hole,
            Plant::Logarithm => (x.abs() * &hole).log(),
            Plant::Exponential => ((1.0 - hole) * 1000.0 + x).exp(),
            Plant::RootAtZero => (x.square() * &hole).sqrt(),
            Plant::MaskedRow => hole.gt(2.0).where_(x, f64::NEG_INFINITY).softmax(-1),
            Plant::Mask => hole.gt(0.5).where_(x, f64::NEG_INFINITY).softmax(-1),
        };
        call.end(y.ok()?)
    }
}
/// A random net with a planted layer at a random place.
fn net(random: &mut Random, plant: Option<Plant>) -> (Sequential, usize) {
    let layers = random.between(1, 5);
    let at = random.between(1, layers);
    // What is below a plant gets gradients of it.
    let mut net = Sequential::new().add(Linear::new(WIDTH, WIDTH).unwrap());
    for k in 1..=layers {
        if let (true, Some(plant)) = (k == at, plant) {
            net = net.add(Planted { site: Site::with_hooks("Planted"), plant });
        }
        net = match random.below(6) {
            0 => net.add(BatchNorm1d::new(WIDTH).unwrap()),
            1 => net.add(LayerNorm::new([WIDTH]).unwrap()),
            2 => net.add(Gelu::new()),
            3 => net.add(Tanh::new()),
            4 => net.add(Relu::new()),
            _ => net.add(Linear::new(WIDTH, WIDTH).unwrap()),
        };
    }
    (net.add(Linear::new(WIDTH, 3).unwrap()), at)
}
fn found(net: &Sequential, x: &Tensor, optimizer: &mut dyn Optimizer) -> Option<BadNumber> {
    let target = Tensor::from_vec((0..x.shape().unwrap()[0]).map(|k| (k % 3) as i64).collect::<Vec<_>>(), [x.shape().unwrap()[0]]);
    let mut named = vec![(StepPhase::Data, "batch".to_string(), x.clone())];
    named.extend(net.named_parameters().into_iter().map(|(name, p)| (StepPhase::Forward, name, p.detached())));
    let before = net.state_dict();
    let mut clipper = GradientClipper::new(adamant_optim::ClippingType::GlobalNorm).unwrap();
    let traced = trace(&named, |saw_loss| {
        let loss = StepPhase::Loss.run(|| functional::cross_entropy(&StepPhase::Forward.run(|| net.forward(x))?, &target, &Default::default()).ok())?;
        saw_loss(&loss);
        let mut grads = loss.backward()?;
        StepPhase::Clip.run(|| clipper.clip(&mut grads, &net.parameters()))?;
        StepPhase::Optimizer.run(|| optimizer.step(&grads))
    });
    let after = net.state_dict();
    assert!(before.iter().zip(&after).all(|((_, a), (_, b))| a.to_bytes().unwrap() == b.to_bytes().unwrap()), "a trace has changed something");
    traced.unwrap().bad
}
/// Does a step spoil a weight?
fn harmed(net: &Sequential, x: &Tensor) -> bool {
    let target = Tensor::from_vec((0..x.shape().unwrap()[0]).map(|k| (k % 3) as i64).collect::<Vec<_>>(), [x.shape().unwrap()[0]]);
    let loss = functional::cross_entropy(&net.forward(x).unwrap(), &target, &Default::default());
    let mut sgd = Sgd::new(0.1).over(net.parameters());
    let grads = loss.backward_keep().unwrap();
    sgd.step(&grads).unwrap();
    !loss.is_finite_all().unwrap() || net.state_dict().iter().any(|(_, t)| !t.is_finite_all().unwrap())
}
fn batch(random: &mut Random) -> Tensor {
    let rows = random.between(2, 6);
    Tensor::from_vec((0..rows * WIDTH).map(|_| (random.unit() as f32 - 0.5) * 2.0).collect::<Vec<_>>(), [rows, WIDTH])
}
#[test]
fn a_planted_number_whose_origin_is_not_found() {
    Device::cpu().unwrap().scoped(|| {
        let (mut right, mut all) = (0, 0);
        for seed in 0..150u64 {
            let mut random = Random::new(seed);
            manual_seed(seed);
            let plant = [Plant::Division, Plant::Logarithm, Plant::Exponential, Plant::RootAtZero, Plant::MaskedRow][seed as usize % 5];
            let (net, at) = net(&mut random, Some(plant));
            let x = batch(&mut random);
            let bad = found(&net, &x, &mut Sgd::new(0.1).over(net.parameters()));
            let (op, phase, kind) = Planted::expected(plant);
            // A layer above may have made it good again.
            let does_harm = harmed(&net, &x);
            assert_eq!(bad.is_some(), does_harm, "seed {seed}: {plant:?} in layer {at} of {}", net.len());
            let Some(bad) = bad else { continue };
            all += 1;
            let said = bad.to_string();
            let made = bad.op.as_ref().unwrap();
            let is =
                (made.op == op || made.called == Some(op)) && made.layer == at.to_string() && bad.phase == phase && made.line.file().ends_with("origin.rs");
            // A gradient of an infinity may be NaN or infinite.
            let is = is && (bad.kind() == kind || phase == StepPhase::Backward);
            if is {
                right += 1;
            } else {
                println!("seed {seed}: {plant:?} in layer {at}: {said}");
            }
        }
        println!("{right} of {all} origins");
        assert!(all > 100 && right * 100 >= all * 97, "{right} of {all}");
    });
}
#[test]
fn a_healthy_net_that_is_blamed() {
    Device::cpu().unwrap().scoped(|| {
        for seed in 0..60u64 {
            let mut random = Random::new(seed);
            manual_seed(seed);
            let (net, _) = net(&mut random, [None, Some(Plant::Mask)][seed as usize % 2]);
            let x = batch(&mut random);
            let bad = found(&net, &x, &mut Adam::new(0.01).over(net.parameters()));
            assert!(bad.is_none(), "seed {seed}: {}", bad.unwrap());
        }
    });
}
#[test]
fn what_was_bad_before_the_step_and_what_the_optimizer_makes() {
    Device::cpu().unwrap().scoped(|| {
        for seed in 0..30u64 {
            let mut random = Random::new(seed);
            manual_seed(seed);
            let (net, _) = net(&mut random, None);
            let mut x = batch(&mut random);
            let parameters = net.named_parameters();
            match seed % 3 {
                0 => {
                    let mut values = x.to_vec::<f32>().unwrap();
                    let at = random.below(values.len());
                    values[at] = f32::NAN;
                    x = Tensor::from_vec(values, x.shape().unwrap());
                    let bad = found(&net, &x, &mut Sgd::new(0.1).over(net.parameters())).unwrap();
                    assert_eq!((bad.phase, bad.place.as_deref(), bad.at), (StepPhase::Data, Some("batch"), vec![at / WIDTH, at % WIDTH]), "seed {seed}");
                }
                1 => {
                    let (name, p) = random.pick(&parameters);
                    p.set(&(p.detached() * f64::NAN)).unwrap();
                    let bad = found(&net, &x, &mut Sgd::new(0.1).over(net.parameters())).unwrap();
                    assert_eq!((bad.op.is_none(), bad.place.as_deref()), (true, Some(name.as_str())), "seed {seed}: {bad}");
                }
                _ => {
                    let bad = found(&net, &x, &mut Sgd::new(f64::from(f32::MAX)).momentum(0.9).weight_decay(3.0).over(net.parameters()));
                    let bad = bad.unwrap();
                    assert_eq!(bad.phase, StepPhase::Optimizer, "seed {seed}: {bad}");
                }
            }
        }
    });
}
/// A layer whose result is nearly its input's, and whose gradient is a million times what it was given.
#[derive(Module)]
struct Steep {
    site: Site,
}
impl Module for Steep {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = self.site.enter();
        let y = x * 1e6;
        (y.detach() * -1.0 + y + x.detach()).ok()
    }
}
#[test]
fn a_gradient_that_explodes_elsewhere() {
    Device::cpu().unwrap().scoped(|| {
        for seed in 0..40u64 {
            let mut random = Random::new(seed);
            manual_seed(seed);
            let layers = random.between(2, 5);
            let at = random.between(1, layers - 1);
            let mut net = Sequential::new();
            for k in 0..layers {
                net = if k == at { net.add(Steep { site: Site::new("Steep") }) } else { net.add(Linear::new(WIDTH, WIDTH).unwrap()) };
                net = net.add(Tanh::new());
            }
            let x = batch(&mut random);
            let step = |saw_loss: &mut dyn FnMut(&Tensor)| {
                let loss = net.forward(&x)?.square().mean(..);
                saw_loss(&loss);
                loss.backward().map(drop)
            };
            let looks_for = TraceOptions { explosion: true, ..TraceOptions::default() };
            let bad = trace_with(looks_for, &[], step).unwrap().bad.unwrap();
            let op = bad.op.as_ref().unwrap();
            assert_eq!(
                (bad.kind(), bad.phase, op.name(), op.layer.as_str()),
                ("explosion", StepPhase::Backward, "mul", format!("{}", 2 * at).as_str()),
                "{bad}"
            );
            assert!((bad.growth.unwrap() / 1e6 - 1.0).abs() < 1e-3, "{bad}");
            assert!(trace(&[], step).unwrap().bad.is_none());
        }
    });
}
