//! Where a region holds: nested ones, other threads, captures, what is computed again, composites of a user's own.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use adamant_amp::{Autocast, GradScaler, MixedPrecisionTrainer, ScalerOptions, autocast};
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_core::{
    Ambient, Composite, Compound, DType, Device, ErrorKind, Op, Result, Tensor, TensorType, Types, compile,
    composite::{Cotangents, RuleArgs, Saves},
    functional, grad,
    graph::Graph,
    no_grad, step,
};
use adamant_nn::{
    BatchNorm1d, BatchNorm2d, Conv2d, ConvOptions, LayerNorm, Linear, Module, Param, Relu, Sequential, TransformerEncoderLayer, TransformerOptions, Walk,
    manual_seed,
};
use adamant_optim::{Adam, ClippingOptions, GradientClipper, Optimizer, Sgd, UpdateRule};
use std::sync::Arc;

fn f16() -> Autocast {
    Autocast::new(DType::F16).unwrap()
}
fn product() -> DType {
    let x = Tensor::ones([2, 2]);
    x.matmul(&x).dtype().unwrap()
}

#[test]
fn the_innermost_region_counts() {
    assert_eq!(product(), DType::F32);
    f16().run(|| {
        assert_eq!(product(), DType::F16);
        autocast(|| assert_eq!(product(), DType::BF16));
        f16().enabled(false).run(|| {
            assert_eq!(product(), DType::F32);
            autocast(|| assert_eq!(product(), DType::BF16));
            // Off is off: 16 bits that come in are as outside.
            let half = Tensor::ones([2, 2]).cast(DType::F16);
            assert_eq!(half.exp().dtype().unwrap(), DType::F16);
        });
        assert_eq!(product(), DType::F16);
        assert!(std::panic::catch_unwind(|| autocast(|| std::panic::resume_unwind(Box::new(1)))).is_err());
        assert_eq!(product(), DType::F16);
    });
    assert_eq!(product(), DType::F32);
    assert!(Autocast::new(DType::F32).unwrap_err().to_string().contains("a region is of f16 or bf16, not f32"));
}
#[test]
fn a_region_belongs_to_its_thread_and_is_taken_along() {
    f16().run(|| {
        assert_eq!(std::thread::spawn(product).join().unwrap(), DType::F32);
        let ambient = Ambient::current();
        let taken = std::thread::spawn(move || {
            let _around = ambient.enter();
            product()
        });
        assert_eq!(taken.join().unwrap(), DType::F16);
    });
}
#[test]
fn captures_are_of_their_region() {
    let f = compile(|x: &[Tensor]| Ok(vec![x[0].matmul(&x[0])]));
    let x = Tensor::from_vec(vec![1.0f32 / 3.0, 2.0, 0.1, 7.0], [2, 2]);
    for _ in 0..3 {
        for (region, dtype) in [(Some(f16()), DType::F16), (None, DType::F32), (Some(Autocast::new(DType::BF16).unwrap()), DType::BF16)] {
            let run = || f.call(&[&x]).unwrap()[0].clone();
            let y = region.map_or_else(run, |r| r.run(run));
            assert_eq!(y.dtype().unwrap(), dtype);
            let plain = x.cast(dtype).matmul(x.cast(dtype));
            assert_eq!(y.to_vec_as::<f64>().unwrap(), plain.to_vec_as::<f64>().unwrap());
        }
    }
}
#[test]
fn what_is_computed_again_is_computed_in_its_region() {
    let model = Arc::new(net_of(3));
    let x = Tensor::from_vec((0..24).map(|k| (k as f32 * 0.37).sin()).collect::<Vec<_>>(), [4, 6]);
    let gradients = |checkpointed: bool| {
        let loss = f16().run(|| {
            let y = if checkpointed {
                let model = model.clone();
                grad::checkpoint(&[&x], move |x| model.forward(&x[0])).unwrap()
            } else {
                model.forward(&x).unwrap()
            };
            y.square().mean(..)
        });
        // The walk back is outside of the region.
        let grads = loss.backward().unwrap();
        model.parameters().iter().map(|p| grads.of(&p.cell()).unwrap().to_vec::<f32>().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(gradients(true), gradients(false));
}
/// In four small batches, a tied use and a pass without gradients between: one cast of each weight, and the gradients of casts written out.
#[test]
fn a_weight_is_cast_once_a_step() {
    let (one, two) = (Linear::new(16, 16).unwrap(), Linear::new(16, 16).unwrap());
    let batches: Vec<Tensor> = (0..4).map(|k| Tensor::from_vec((0..48).map(|i| ((i * 7 + k) as f32 * 0.31).sin()).collect::<Vec<_>>(), [3, 16])).collect();
    let forward = |x: &Tensor| one.forward(&two.forward(&one.forward(x).unwrap()).unwrap()).unwrap();
    let mut sums: Vec<Vec<f32>> = Vec::new();
    let gradients = |loss: Tensor| {
        let grads = loss.backward().unwrap();
        [&one, &two].map(|l| grads.of(&l.weight.cell()).unwrap().to_vec::<f32>().unwrap())
    };
    let step = |each: &mut dyn FnMut(Tensor)| {
        let mut scaler = GradScaler::with(ScalerOptions { enabled: false, ..ScalerOptions::default() }).unwrap();
        let step = |_: &mut GradScaler| {
            for x in &batches {
                f16().run(|| no_grad(|| forward(x)));
                each(f16().run(|| forward(x).float().square().sum(..)));
            }
            Ok(())
        };
        scaler.attempt(step).unwrap();
    };
    step(&mut |loss| sums.extend(gradients(loss)));
    // Casts of what parameters hold: two matrices and two vectors.
    let graph = Graph::capture(Device::current().unwrap(), &[], |_| {
        let mut all = Vec::new();
        step(&mut |loss| all.push(loss));
        Ok(all)
    });
    let graph = graph.unwrap();
    let cells: Vec<u32> = graph.cells.iter().filter_map(|cell| cell.read).collect();
    assert_eq!(graph.nodes.iter().filter(|n| matches!(n.op, Op::Cast(DType::F16)) && cells.contains(&n.inputs[0])).count(), 4);
    // A plain program, with its casts written out.
    let low = |t: &Tensor| t.cast(DType::F16);
    let layer = |l: &Linear, x: &Tensor| functional::linear(&low(x), &low(&l.weight.get()), Some(&low(&l.bias.as_ref().unwrap().get())));
    let plain: Vec<Vec<f32>> = batches.iter().flat_map(|x| gradients(layer(&one, &layer(&two, &layer(&one, x))).float().square().sum(..))).collect();
    assert!(sums == plain);
}
/// Answers of a model whose weights stay: cast in the first pass, whichever region and thread the next one has, and again when a weight was
/// written, by whichever way.
#[test]
fn casts_stay_with_weights_that_stay() {
    // Of its own: other tests take memory of the common one meanwhile.
    let device = Context::new(CpuBackend::builder().threads(1)).unwrap().device();
    device.make_current();
    let model = Linear::new(64, 64).unwrap();
    let x = Tensor::ones([1, 64]);
    let answer = || f16().run(|| no_grad(|| model.forward(&x))).unwrap().float().to_vec::<f32>().unwrap();
    let plain = || {
        let low = |p: &Param| p.get().detach().cast(DType::F16);
        functional::linear(&x.cast(DType::F16), &low(&model.weight), Some(&low(model.bias.as_ref().unwrap()))).float().to_vec::<f32>().unwrap()
    };
    let cast_bytes = || {
        let before = device.memory().live_bytes;
        model.parameters().iter().for_each(|p| p.cell().forget_casts());
        before - device.memory().live_bytes
    };
    answer();
    let all = cast_bytes();
    assert!(all >= 2 * (64 * 64 + 64), "{all}");
    assert_eq!(cast_bytes(), 0);
    assert_eq!(answer(), plain());
    let elsewhere = std::thread::scope(|s| s.spawn(|| device.scoped(answer)).join().unwrap());
    assert_eq!(elsewhere, plain());
    let weight = model.weight.cell();
    // Set; written in a step that fails, and in one that does not; written where it lies by an optimizer.
    let mut optimizer = Sgd::new(0.5).over(model.parameters());
    let replayed = std::sync::Mutex::new(Sgd::new(0.5).over(model.parameters()));
    let captured = compile(|x: &[Tensor]| {
        let loss = f16().run(|| model.forward(&x[0]))?.float().square().sum(..);
        replayed.lock().unwrap().step(&loss.backward()?)?;
        Ok(vec![loss])
    });
    let ways: [&mut dyn FnMut(); 6] = [
        &mut || weight.set(&(Tensor::ones([64, 64]) * 0.1)).unwrap(),
        &mut || {
            let fails = || weight.set(&(Tensor::ones([64, 64]) * 0.3)).and_then(|()| Tensor::ones([2]).matmul(Tensor::ones([3, 3])).ok());
            step(fails).unwrap_err();
        },
        &mut || step(|| weight.set(&(Tensor::ones([64, 64]) * 0.7))).unwrap(),
        &mut || optimizer.step(&f16().run(|| model.forward(&x)).unwrap().float().square().sum(..).backward().unwrap()).unwrap(),
        // Captured, then replayed.
        &mut || captured.call(&[&x]).unwrap()[0].materialize().unwrap(),
        &mut || captured.call(&[&x]).unwrap()[0].materialize().unwrap(),
    ];
    for (k, way) in ways.into_iter().enumerate() {
        way();
        assert_eq!(answer(), plain(), "way {k}");
        assert_eq!(cast_bytes(), all, "way {k}: casts of two values, or of none");
        answer();
    }
}
/// Rows of a batch, alone and together: a transformer's layers, convolutions with their norms, and what lies between.
#[test]
fn answers_do_not_depend_on_who_is_beside() {
    manual_seed(7);
    let text = TransformerEncoderLayer::with(24, 3, TransformerOptions { dim_feedforward: 56, batch_first: true, ..TransformerOptions::default() }).unwrap();
    let (wide, strided) = (Conv2d::with(3, 10, 3, ConvOptions { padding: 1.into(), ..Default::default() }).unwrap(), Conv2d::new(10, 4, 2).unwrap());
    let norm = BatchNorm2d::new(10).unwrap();
    text.eval();
    norm.eval();
    let number = |k: usize| ((k * 37 % 101) as f32 - 50.0) / 29.0;
    let words = Tensor::from_vec((0..9 * 17 * 24).map(number).collect::<Vec<_>>(), [9, 17, 24]);
    let images = Tensor::from_vec((0..9 * 3 * 11 * 7).map(number).collect::<Vec<_>>(), [9, 3, 11, 7]);
    for dtype in [DType::BF16, DType::F16] {
        let region = Autocast::new(dtype).unwrap();
        let answer = |first: usize, rows: usize| -> Vec<Vec<f32>> {
            let (words, images) = (words.narrow(0, first, rows), images.narrow(0, first, rows));
            let both = || -> Result<[Tensor; 2]> {
                let seen = strided.forward(&norm.forward(&wide.forward(&images)?)?.relu())?.flatten(1, -1);
                Ok([text.forward(&words)?.flatten(1, -1), seen])
            };
            let [a, b] = region.run(|| no_grad(both)).unwrap().map(|t| t.float());
            let (a, b) = (a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
            a.chunks(a.len() / rows).zip(b.chunks(b.len() / rows)).map(|(a, b)| [a, b].concat()).collect()
        };
        let together = answer(0, 9);
        assert!(together.iter().flatten().all(|x| x.is_finite()) && together[0] != together[1]);
        for (first, rows) in [(0, 1), (1, 1), (8, 1), (2, 2), (3, 5), (1, 8)] {
            assert!(answer(first, rows) == together[first..first + rows], "rows {first} to {} in {dtype}", first + rows);
        }
    }
}
/// A weight that changes between two uses in one region.
#[test]
fn a_weight_that_was_written_is_cast_again() {
    let model = Linear::new(4, 3).unwrap();
    let x = Tensor::ones([2, 4]);
    let mut optimizer = Sgd::new(0.5).over(model.parameters());
    let seen: Vec<Vec<f32>> = f16().run(|| {
        (0..3)
            .map(|_| {
                let y = model.forward(&x).unwrap();
                optimizer.step(&y.sum(..).backward().unwrap()).unwrap();
                y.float().to_vec().unwrap()
            })
            .collect()
    });
    for k in 0..2 {
        seen[k].iter().zip(&seen[k + 1]).for_each(|(a, b)| assert!((a - b - 0.5 * 10.0).abs() < 0.02, "{a} {b}"));
    }
}
/// The gradient of a weight is summed in f32 and stays that: sums beyond 65504 and digits beyond f16's reach it.
#[test]
fn gradients_of_weights_are_not_rounded_to_16_bits() {
    let model = Linear::new(2, 1).unwrap();
    let x = Tensor::from_vec((0..400).map(|k| 1000.0 + (k % 7) as f32).collect::<Vec<_>>(), [200, 2]);
    for dtype in [DType::F16, DType::BF16] {
        let region = Autocast::new(dtype).unwrap();
        let loss = region.run(|| model.forward(&x)).unwrap().float().sum(..);
        let grads = loss.backward().unwrap();
        let rounded = x.cast(dtype).float().sum(0).to_vec::<f32>().unwrap();
        assert_eq!(grads.of(&model.weight.cell()).unwrap().to_vec::<f32>().unwrap(), rounded);
        assert!(rounded.iter().all(|g| *g > 65504.0));
        assert_eq!(grads.of(&model.bias.as_ref().unwrap().cell()).unwrap().to_vec::<f32>().unwrap(), [200.0]);
        let kernel = Tensor::from_vec(vec![0.5f32], [1, 1, 1]).tracked();
        let long = Tensor::full([1, 1, 300], 999.0, DType::F32);
        let y = region.run(|| functional::conv1d(&long, &kernel, None, &Default::default()));
        assert_eq!(y.dtype().unwrap(), dtype);
        let sum = long.cast(dtype).float().sum(..).item::<f32>().unwrap();
        assert_eq!(y.float().sum(..).backward().unwrap().get(&kernel).unwrap().to_vec::<f32>().unwrap(), [sum]);
    }
}
fn net_of(seed: u64) -> Sequential {
    manual_seed(seed);
    Sequential::new().add(Linear::new(6, 16).unwrap()).add(LayerNorm::new([16]).unwrap()).add(Relu::new()).add(Linear::new(16, 2).unwrap())
}
#[test]
fn a_pass_without_gradients_loses_none_of_the_next() {
    let model = Linear::new(3, 2).unwrap();
    let x = Tensor::ones([4, 3]);
    autocast(|| {
        no_grad(|| model.forward(&x)).unwrap();
        let loss = model.forward(&x).unwrap().sum(..);
        assert_eq!(loss.dtype().unwrap(), DType::F32);
        assert_eq!(loss.backward().unwrap().of(&model.weight.cell()).unwrap().to_vec::<f32>().unwrap(), [4.0; 6]);
    });
}
#[test]
fn layers_and_functions_are_kept_by_name() {
    let model = Arc::new(net_of(3));
    let x = Tensor::ones([4, 6]);
    model.parameters();
    let dtype = |region: &Autocast| region.run(|| model.forward(&x)).unwrap().dtype().unwrap();
    assert_eq!(dtype(&f16()), DType::F16);
    assert_eq!(dtype(&f16().keep(["3"])), DType::F32);
    assert_eq!(dtype(&f16().keep(["0"])), DType::F16);
    assert_eq!(dtype(&f16().keep(["lin*"])), DType::F32);
}

/// `x w`, whose body is a product.
#[derive(Clone, Copy, Debug)]
struct Mixed {
    has_rule: bool,
}
impl Composite for Mixed {
    fn name(&self) -> &'static str {
        "example.mixed"
    }
    fn attrs(&self) -> adamant_core::composite::Attrs {
        [("has_rule", adamant_core::composite::Attr::Bool(self.has_rule))].into_iter().collect()
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        Ok(vec![inputs[0]].into())
    }
}
impl Compound for Mixed {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].matmul(&inputs[1])])
    }
    fn saves(&self) -> Option<Saves> {
        self.has_rule.then(|| Saves::inputs(2))
    }
    fn rule(&self, _: &RuleArgs<'_>) -> Result<Cotangents> {
        Ok([None, None].into_iter().collect())
    }
}
#[test]
fn the_body_of_a_composite_decides_unless_it_has_a_gradient_of_its_own() {
    let x = Tensor::ones([2, 2]).tracked();
    f16().run(|| {
        let y = Tensor::composite1(Mixed { has_rule: false }, &[&x, &x]);
        assert_eq!(y.dtype().unwrap(), DType::F16);
        assert_eq!(y.sum(..).backward().unwrap().get(&x).unwrap().to_vec::<f32>().unwrap(), [4.0; 4]);
        assert_eq!(Tensor::composite1(Mixed { has_rule: true }, &[&x, &x]).dtype().unwrap(), DType::F32);
    });
}
#[test]
fn probabilities_are_refused_and_f64_is_left_alone() {
    let p = Tensor::full([2], 0.5, DType::F32);
    f16().run(|| {
        let loss = functional::binary_cross_entropy(&p, &p, None, functional::Reduction::Mean);
        let told = loss.error().unwrap().to_string();
        assert!(told.contains("refused inside of autocast") && told.contains("binary_cross_entropy_with_logits"), "{told}");
        let wide = Tensor::ones([2, 2]).cast(DType::F64);
        assert_eq!(wide.matmul(&wide).exp().dtype().unwrap(), DType::F64);
        // A cast of the user's own.
        assert_eq!(p.cast(DType::BF16).dtype().unwrap(), DType::BF16);
        assert_eq!(p.cast(DType::F16).float().dtype().unwrap(), DType::F32);
    });
}
/// Running statistics are of f32 whatever the activations are: the variance of these is beyond f16.
#[test]
fn running_statistics_are_not_rounded() {
    let x: Vec<f32> = (0..60).map(|k| ((k * 37 % 101) as f32 - 50.0) * 10.0).collect();
    let x = Tensor::from_vec(x, [20, 3]).cast(DType::F16);
    let moved = |region: Option<Autocast>| {
        let norm = BatchNorm1d::new(3).unwrap();
        let y = match region {
            Some(region) => region.run(|| norm.forward(&x)).unwrap(),
            None => norm.forward(&x.cast(DType::F32)).unwrap(),
        };
        let of = |p: Option<&Param>| p.unwrap().detached().to_vec::<f32>().unwrap();
        (y.dtype().unwrap(), of(norm.running_mean()), of(norm.running_var()))
    };
    let (dtype, mean, var) = moved(Some(f16()));
    let (_, plain_mean, plain_var) = moved(None);
    assert_eq!((dtype, mean, var.clone()), (DType::F16, plain_mean, plain_var));
    assert!(var.iter().any(|v| *v > 7e3));
}
/// The losses of some steps on a small problem, the loss multiplied by a tiny number.
fn trained(region: Option<&Autocast>, scaler: Option<GradScaler>, factor: f64) -> (f32, f32) {
    let model = net_of(11);
    let x = Tensor::from_vec((0..64 * 6).map(|k| ((k * 37 % 101) as f32 - 50.0) / 50.0).collect::<Vec<_>>(), [64, 6]);
    let y = Tensor::stack(&[x.sum(-1), x.square().sum(-1)], 1);
    let mut optimizer = Sgd::new(0.05 / factor).over(model.parameters());
    let mut scaler = scaler;
    let loss = || model.forward(&x).unwrap().sub(&y).square().mean(..);
    let (mut first, mut last) = (0.0, 0.0);
    for step in 0..60 {
        let run = || {
            // In 16 bits, as the loss of a network that ends in them.
            let logits = model.forward(&x).unwrap();
            (logits.cast(DType::F32) - &y).square().mean(..) * factor
        };
        let small = region.map_or_else(run, |r| r.run(run));
        match &mut scaler {
            Some(scaler) => {
                let mut grads = scaler.scale(&small).unwrap().backward().unwrap();
                scaler.step(&mut optimizer, &mut grads).unwrap();
                scaler.update().unwrap();
            }
            None => optimizer.step(&small.backward().unwrap()).unwrap(),
        }
        if step == 0 {
            first = loss().item::<f32>().unwrap();
        }
        last = loss().item::<f32>().unwrap();
    }
    (first, last)
}
#[test]
fn tiny_losses_are_learned_in_f16_with_a_scaler_alone() {
    let (_, full) = trained(None, None, 1.0);
    let (start, without) = trained(Some(&f16()), None, 1e-7);
    let (_, with) = trained(Some(&f16()), Some(GradScaler::new()), 1e-7);
    assert!(full < 0.3 * start, "{start} {full}");
    assert!(without > 0.9 * start, "without a scaler: {start} to {without}");
    assert!((with / full - 1.0).abs() < 0.01, "{with} is not {full}");
}
#[test]
fn the_trainer_reaches_the_loss_of_f32_in_both_dtypes() {
    let x = Tensor::from_vec((0..64 * 6).map(|k| ((k * 37 % 101) as f32 - 50.0) / 50.0).collect::<Vec<_>>(), [64, 6]);
    let y = Tensor::stack(&[x.sum(-1), x.square().sum(-1)], 1);
    let run = |region: Autocast, enabled: bool, clip: Option<ClippingOptions>| {
        let model = net_of(21);
        let optimizer = Adam::new(3e-3).over(model.parameters());
        let scaler = GradScaler::with(ScalerOptions { enabled, ..ScalerOptions::default() }).unwrap();
        let mut trainer = MixedPrecisionTrainer::with(model, optimizer, region, scaler);
        if let Some(clip) = clip {
            trainer = trainer.clip(GradientClipper::new(clip).unwrap());
        }
        let mut losses = Vec::new();
        for step in 0..200 {
            let loss = trainer.train_step(|model| {
                // One batch overflows.
                let scale = if step == 100 && enabled { f64::INFINITY } else { 1.0 };
                Ok(functional::mse_loss(&model.forward(&x)?, &y, functional::Reduction::Mean) * scale)
            });
            losses.push(loss.unwrap());
        }
        let all = Tensor::stack(&losses, 0).to_vec::<f32>().unwrap();
        (all[0], all[199], trainer.scaler().stats().unwrap())
    };
    for clip in [None, Some(ClippingOptions::global_norm(1.0))] {
        let (first, full, _) = run(f16().enabled(false), false, clip.clone());
        let (_, half, stats) = run(f16(), true, clip.clone());
        let (_, brain, _) = run(Autocast::new(DType::BF16).unwrap(), false, clip);
        assert!(full < first / 4.0, "{first} to {full}");
        assert!((half / full - 1.0).abs() < 0.03, "f16 {half}, f32 {full}");
        assert!((brain / full - 1.0).abs() < 0.03, "bf16 {brain}, f32 {full}");
        // The first scale may be too large for this loss; the planted step is skipped in any case.
        assert_eq!(stats.applied + stats.skipped, 200);
        assert!((1..=4).contains(&stats.skipped), "{stats:?}");
        assert_eq!(stats.scale, 65536.0 / f64::from(1 << stats.skipped));
        println!("f32 {full}, f16 {half}, bf16 {brain}");
    }
}
