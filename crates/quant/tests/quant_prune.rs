//! Masks: which elements, that they hold whatever trains, that they resume to the bit, and in files.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{DType, Result, Tensor};
use adamant_formats::safetensors;
use adamant_nn::{Conv2d, Flatten, Linear, Module, Relu, Sequential, Walk, init, manual_seed};
use adamant_optim::{Adam, AdamW, Lion, Optimizer, RmsProp, Sgd, UpdateRule, WeightUpdate};
use adamant_quant::{
    lora::LoraConfig,
    prune::{PruneAmount, PruneImportance, Pruner, PruningCurve, PruningSchedule, PruningScheduler, load_sparse, save_sparse, sparsity_report},
};

fn net() -> Sequential {
    manual_seed(1);
    Sequential::new().add(Linear::new(12, 20).unwrap()).add(Relu::new()).add(Linear::new(20, 4).unwrap())
}
fn drawn(shape: impl adamant_core::ToShape) -> Tensor {
    init::normal(shape, 0.0, 1.0).unwrap()
}
fn bits(state: &[(String, Tensor)]) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = state.iter().map(|(name, t)| (name.clone(), t.to_bytes().unwrap())).collect();
    all.sort();
    all
}
fn refused<T>(result: Result<T>, says: &[&str]) {
    let text = result.err().unwrap().to_string();
    for part in says {
        assert!(text.contains(part), "{text} lacks {part}");
    }
}
/// Every masked element of every weight is a zero of all bits, in the weight and in the state dict; gives how many there are.
fn masked_zeros(model: &impl Walk) -> usize {
    let state = model.state_dict();
    let mut count = 0;
    for (name, mask) in state.iter().filter(|(name, _)| name.ends_with(".0.mask")) {
        let original = &state.iter().find(|(n, _)| *n == name.replace(".0.mask", ".original")).unwrap().1;
        let values = original.to_vec_as::<f32>().unwrap();
        for (k, kept) in mask.to_vec::<bool>().unwrap().into_iter().enumerate() {
            assert!(kept || values[k].to_bits() == 0, "{name}: element {k} is {}", values[k]);
            count += usize::from(!kept);
        }
    }
    count
}
fn train(model: &Sequential, optimizer: &mut dyn Optimizer, x: &Tensor, target: &Tensor) -> adamant_core::Grads {
    let grads = (model.forward(x).unwrap() - target).square().mean(..).backward().unwrap();
    optimizer.step(&grads).unwrap();
    grads
}

#[test]
fn the_least_are_masked_by_layer_and_in_all() {
    let values = |k: usize, n: usize| (0..n).map(|i| (i + 1) as f32 * if k == 0 { 1.0 } else { -100.0 }).collect::<Vec<_>>();
    let small = || {
        let model = Sequential::new().add(Linear::no_bias(4, 2).unwrap()).add(Linear::no_bias(2, 2).unwrap());
        for (k, p) in model.parameters().iter().enumerate() {
            p.set(&Tensor::from_vec(values(k, p.elements()), p.meta().shape)).unwrap();
        }
        model
    };
    let zeros = |pruner: Pruner, share: f64| {
        let model = small();
        let report = pruner.prune(&model, share).unwrap().report().unwrap();
        (report.layers.iter().map(|l| l.zeros).collect::<Vec<_>>(), model)
    };
    let (by_layer, model) = zeros(Pruner::new(PruneImportance::Magnitude), 0.5);
    assert_eq!(by_layer, [4, 2]);
    let mut got = Vec::new();
    struct Weights<'a>(&'a mut Vec<Vec<f32>>);
    impl adamant_nn::Visit for Weights<'_> {
        fn parametrized(&mut self, _: &str, p: &adamant_nn::Param) {
            self.0.push(p.detached().to_vec().unwrap());
        }
    }
    model.visit(&mut Weights(&mut got));
    assert_eq!(got, [vec![0.0, 0.0, 0.0, 0.0, 5.0, 6.0, 7.0, 8.0], vec![0.0, 0.0, -300.0, -400.0]]);
    assert_eq!(zeros(Pruner::new(PruneImportance::Magnitude).global(), 0.75).0, [8, 1]);
    assert_eq!(zeros(Pruner::new(PruneImportance::Magnitude).targets(["1.weight"]), 0.25).0, [1]);
    // Of equals the first; a share is rounded.
    assert_eq!(zeros(Pruner::new(PruneImportance::Magnitude), 0.3).0, [2, 1]);
    let (random, other) = (zeros(Pruner::new(PruneImportance::Random(1)), 0.5), zeros(Pruner::new(PruneImportance::Random(2)), 0.5));
    assert_eq!(random.0, [4, 2]);
    assert_ne!(bits(&random.1.state_dict()), bits(&other.1.state_dict()));
    assert_eq!(bits(&random.1.state_dict()), bits(&zeros(Pruner::new(PruneImportance::Random(1)), 0.5).1.state_dict()));
}
#[test]
fn gradients_decide_where_they_are_asked() {
    let layer = Linear::no_bias(4, 1).unwrap();
    layer.weight.set(&Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [1, 4])).unwrap();
    let model = Sequential::new().add(layer);
    let x = Tensor::from_slice(&[8.0f32, -1.0, 0.5, 1.0], [1, 4]);
    let grads = model.forward(&x).unwrap().sum(..).backward().unwrap();
    let pruner = Pruner::new(PruneImportance::Gradient);
    refused(pruner.prune(&model, 0.5), &["needs gradients", "prune_by"]);
    // |w g| is 8, 2, 1.5, 4.
    let pruned = pruner.prune_by(&model, 0.5, &grads).unwrap();
    assert_eq!(model.state_dict()[0].1.to_vec::<f32>().unwrap(), [1.0, 0.0, 0.0, 4.0]);
    refused(pruned.prune_by(0.75, &grads), &["`0.weight` has no gradient"]);
    let grads = model.forward(&x).unwrap().sum(..).backward().unwrap();
    pruned.prune_by(0.75, &grads).unwrap();
    assert_eq!(model.state_dict()[0].1.to_vec::<f32>().unwrap(), [1.0, 0.0, 0.0, 0.0]);
}
#[test]
fn n_of_m_keeps_the_best_of_neighbours_along_inputs() {
    manual_seed(6);
    let model = Sequential::new().add(Conv2d::new(8, 6, 3).unwrap()).add(Flatten::new()).add(Linear::new(24, 16).unwrap());
    let dense: Vec<Vec<f32>> = model.parameters().iter().map(|p| p.detached().to_vec().unwrap()).collect();
    for (n, m) in [(2, 4), (4, 8)] {
        let copy = model.deep_copy().unwrap();
        let pruned = Pruner::new(PruneImportance::Magnitude).prune(&copy, PruneAmount::Keep { n, m }).unwrap();
        assert_eq!(pruned.report().unwrap().sparsity(), 0.5);
        pruned.remove().unwrap();
        for (k, shape) in [(0, [6, 8, 9]), (2, [16, 24, 1])] {
            let got: Vec<f32> = copy.parameters()[k].detached().to_vec().unwrap();
            for outer in 0..shape[0] {
                for group in 0..shape[1] / m {
                    for inner in 0..shape[2] {
                        let at = |i: usize| (outer * shape[1] + group * m + i) * shape[2] + inner;
                        let kept: Vec<usize> = (0..m).filter(|i| got[at(*i)] != 0.0).collect();
                        assert_eq!(kept.len(), n);
                        let least = kept.iter().map(|i| dense[k][at(*i)].abs()).fold(f32::MAX, f32::min);
                        assert!((0..m).filter(|i| !kept.contains(i)).all(|i| dense[k][at(i)].abs() <= least));
                        assert!(kept.iter().all(|i| got[at(*i)] == dense[k][at(*i)]));
                    }
                }
            }
        }
    }
    refused(Pruner::new(PruneImportance::Magnitude).prune(&net(), PruneAmount::Keep { n: 3, m: 5 }), &["`0.weight`", "[20, 12]", "3 of each 5"]);
}
#[test]
fn zeros_are_exact_after_every_step_of_every_optimizer() {
    let kinds: Vec<(&str, Box<dyn Fn(Vec<adamant_nn::Param>) -> Box<dyn Optimizer>>)> = vec![
        ("sgd", Box::new(|p| Box::new(Sgd::new(0.05).momentum(0.9).weight_decay(0.01).over(p)))),
        ("adam", Box::new(|p| Box::new(Adam::new(0.01).over(p)))),
        ("adamw", Box::new(|p| Box::new(AdamW::new(0.01).weight_decay(0.1).over(p)))),
        ("lion", Box::new(|p| Box::new(Lion::new(0.01).over(p)))),
        ("rmsprop", Box::new(|p| Box::new(RmsProp::new(0.01).momentum(0.9).over(p)))),
    ];
    for (name, kind) in kinds {
        let model = net();
        let pruned = Pruner::new(PruneImportance::Magnitude).prune(&model, 0.0).unwrap();
        let mut optimizer = kind(model.parameters());
        let (x, target) = (drawn([8, 12]), drawn([8, 4]));
        let mut seen = Vec::new();
        for step in 0..20 {
            // Masks grow while momentum of what they mask is there.
            if step % 5 == 2 {
                pruned.prune(0.2 * f64::from(step / 5 + 1)).unwrap();
            }
            train(&model, optimizer.as_mut(), &x, &target);
            seen.push(masked_zeros(&model));
        }
        assert_eq!((seen[1], seen[2], seen[19]), (0, (320f64 * 0.2) as usize, (320f64 * 0.8) as usize), "{name}");
        assert_eq!(sparsity_report(&model).unwrap().layers[0].zeros, 192, "{name}");
        // Gradients do not reach what is masked.
        let grads = train(&model, optimizer.as_mut(), &x, &target);
        let original = model.named_parameters().into_iter().find(|(n, _)| n == "0.parametrizations.weight.original").unwrap().1;
        let zeros = grads.of(&original.cell()).unwrap().eq(0.0).cast(DType::I64).sum(..).item::<i64>().unwrap();
        assert!(zeros >= 192, "{name}: {zeros}");
    }
}
#[test]
fn zeros_are_exact_in_16_bits_too() {
    for policy in [WeightUpdate::Split, WeightUpdate::Kahan, WeightUpdate::Stochastic { seed: 1 }] {
        let model = net();
        model.cast(DType::BF16).unwrap();
        let pruned = Pruner::new(PruneImportance::Magnitude).prune(&model, 0.0).unwrap();
        let mut optimizer = AdamW::new(0.01).over(model.parameters()).weight_update(policy).ok().unwrap();
        let (x, target) = (drawn([8, 12]).cast(DType::BF16), drawn([8, 4]).cast(DType::BF16));
        for step in 0..8 {
            if step == 3 {
                pruned.prune(0.5).unwrap();
            }
            train(&model, &mut optimizer, &x, &target);
        }
        assert_eq!(masked_zeros(&model), 160);
    }
}
/// A run of 30 steps, killed behind some, if it is: what it comes to.
fn run(killed_behind: Option<u64>, importance: PruneImportance) -> Vec<(String, Vec<u8>)> {
    let schedule = PruningSchedule::new(PruningCurve::Cubic, 0.8).between(3, 24).every(4);
    let begin = || {
        let model = net();
        let pruned = Pruner::new(importance)
            .global()
            .prune(&model, 0.0)
            .or_else(|_| Pruner::new(importance).global().prune_by(&model, 0.0, &model.forward(&Tensor::ones([1, 12]))?.sum(..).backward()?))
            .unwrap();
        let optimizer = AdamW::new(0.01).over(model.parameters()).ok().unwrap();
        (model, PruningScheduler::new(pruned, schedule.clone()).unwrap(), optimizer)
    };
    let (mut model, mut scheduler, mut optimizer) = begin();
    manual_seed(77);
    let (x, target) = (drawn([8, 12]), drawn([8, 4]));
    for step in 0..30 {
        if killed_behind == Some(step) {
            let saved = (model.state_dict(), scheduler.state_dict(), optimizer.state_dict(), optimizer.hyperparameters());
            (model, scheduler, optimizer) = begin();
            model.load_state_dict(&saved.0).unwrap();
            scheduler.load_state_dict(&saved.1).unwrap();
            optimizer.load_state_dict(&saved.2).unwrap();
            optimizer.set_hyperparameters(&saved.3).unwrap();
            assert_eq!(bits(&model.state_dict()), bits(&saved.0));
        }
        let grads = train(&model, &mut optimizer, &x, &target);
        let due = scheduler.step_by(&grads).unwrap();
        assert_eq!(due.is_some(), (3..=24).contains(&step) && (step % 4 == 3 || step == 24), "{step}");
        masked_zeros(&model);
    }
    assert_eq!(scheduler.pruned().report().unwrap().zeros(), 256);
    bits(&model.state_dict())
}
#[test]
fn a_run_that_was_killed_comes_to_the_same_bits() {
    for importance in [PruneImportance::Magnitude, PruneImportance::Gradient, PruneImportance::Random(3)] {
        let whole = run(None, importance);
        for behind in [2, 9, 16, 27] {
            assert!(run(Some(behind), importance) == whole, "{importance:?} killed behind {behind}");
        }
    }
}
#[test]
fn a_state_with_another_mask_is_loaded_whole() {
    let (one, two) = (net(), net());
    Pruner::new(PruneImportance::Random(1)).prune(&one, 0.5).unwrap();
    Pruner::new(PruneImportance::Random(2)).prune(&two, 0.7).unwrap();
    two.load_state_dict(&one.state_dict()).unwrap();
    assert_eq!(bits(&one.state_dict()), bits(&two.state_dict()));
    // A copy has masks of its own.
    let copy = one.deep_copy().unwrap();
    let mut optimizer = Sgd::new(0.1).momentum(0.9).over(copy.parameters());
    train(&copy, &mut optimizer, &drawn([4, 12]), &drawn([4, 4]));
    assert_eq!(masked_zeros(&copy), 160);
    for p in copy.parameters() {
        p.set(&p.detached().ones_like()).unwrap();
    }
    assert_eq!(masked_zeros(&copy), 160);
    assert_ne!(bits(&one.state_dict()), bits(&copy.state_dict()));
}
#[test]
fn schedules_are_the_formulas() {
    let at = |curve, step| PruningSchedule::new(curve, 0.8).from(0.2).between(10, 20).sparsity_at(step);
    for (curve, step, want) in [
        (PruningCurve::Constant, 10, 0.8),
        (PruningCurve::Linear, 9, 0.0),
        (PruningCurve::Linear, 10, 0.2),
        (PruningCurve::Linear, 15, 0.5),
        (PruningCurve::Cubic, 10, 0.2),
        (PruningCurve::Cubic, 12, 0.8 - 0.6 * 0.8f64.powi(3)),
        (PruningCurve::Cubic, 15, 0.725),
        (PruningCurve::Cubic, 20, 0.8),
        (PruningCurve::Cubic, 99, 0.8),
    ] {
        assert!((at(curve, step) - want).abs() < 1e-12, "{curve:?} at {step}: {} {want}", at(curve, step));
    }
    let scheduler = |schedule| PruningScheduler::new(Pruner::new(PruneImportance::Magnitude).prune(&net(), 0.0).unwrap(), schedule);
    let linear = PruningSchedule::new(PruningCurve::Linear, 0.5);
    refused(scheduler(linear.clone().every(0)), &["every 0 steps"]);
    refused(scheduler(linear.clone().between(5, 4)), &["begins at step 5 and ends at 4"]);
    refused(scheduler(linear.clone().from(0.6)), &["0.6 to 0.5"]);
    refused(scheduler(PruningSchedule::new(PruningCurve::Linear, 1.0)), &["sparsity is 1"]);
    refused(scheduler(linear).unwrap().load_state_dict(&[("step".into(), Tensor::ones([1]))]), &["`position`"]);
}
#[test]
fn what_cannot_be_pruned_is_told_and_nothing_changes() {
    let model = net();
    let before = bits(&model.state_dict());
    let pruner = Pruner::new(PruneImportance::Magnitude);
    refused(pruner.clone().targets(["0.wieght"]).prune(&model, 0.5), &["`0.wieght`", "0.weight"]);
    refused(pruner.prune(&model, 1.0), &["sparsity is 1"]);
    refused(pruner.prune(&model, PruneAmount::Keep { n: 5, m: 4 }), &["5 of each 4"]);
    refused(pruner.prune(&Relu::new(), 0.5), &["no Linear", "targets"]);
    refused(pruner.prune(&Linear::lazy(3).unwrap(), 0.5), &["no value yet"]);
    assert_eq!(bits(&model.state_dict()), before);
    let bad = net();
    bad.parameters()[2].set(&Tensor::full([4, 20], f64::NAN, DType::F32)).unwrap();
    refused(pruner.prune(&bad, 0.5), &["`2.weight`", "not finite", "element 0"]);
    assert_eq!(bad.named_parameters()[0].0, "0.weight");
    let pruned = pruner.prune(&model, 0.5).unwrap();
    refused(pruner.prune(&model, 0.5), &["computed", "PrunedModel::prune"]);
    refused(LoraConfig::new(2, 2.0, ["0"]).apply(&model), &["0.weight", "computed"]);
    let (zeros, state) = (pruned.report().unwrap(), bits(&model.state_dict()));
    pruned.prune(0.2).unwrap();
    assert!(bits(&model.state_dict()) == state, "masks do not shrink");
    assert!(zeros.to_string().contains("50.00 %"), "{zeros}");
    pruned.remove().unwrap();
    assert_eq!(model.named_parameters()[0].0, "0.weight");
    assert_eq!(sparsity_report(&model).unwrap().layers[0].zeros, 120);
}
#[test]
fn sparse_files_are_small_and_come_back_bit_by_bit() {
    for (dtype, limit) in [(DType::F32, 0.16), (DType::BF16, 0.16)] {
        let (folder, model) = (tempfile::tempdir().unwrap(), Sequential::new().add(Linear::no_bias(512, 256).unwrap()).add(Linear::no_bias(256, 128).unwrap()));
        model.cast(dtype).unwrap();
        let (dense, sparse) = (folder.path().join("dense"), folder.path().join("sparse"));
        safetensors::save(&dense, model.state_dict(), &Default::default()).unwrap();
        let pruned = Pruner::new(PruneImportance::Magnitude).prune(&model, 0.9).unwrap();
        let size = |path: &std::path::Path| std::fs::metadata(path).unwrap().len() as f64;
        // With masks, as training saves it.
        save_sparse(&sparse, &model.state_dict()).unwrap();
        let masked = size(&sparse) / size(&dense);
        assert_eq!(bits(&load_sparse(&sparse).unwrap()), bits(&model.state_dict()));
        pruned.remove().unwrap();
        save_sparse(&sparse, &model.state_dict()).unwrap();
        println!("{dtype}: {masked:.4} of dense with masks, {:.4} without", size(&sparse) / size(&dense));
        assert!(masked < limit && size(&sparse) / size(&dense) < limit);
        assert_eq!(bits(&load_sparse(&sparse).unwrap()), bits(&model.state_dict()));
    }
    // What is odd comes back too: -0, NaN, nothing kept, nothing masked, long gaps, kept zeros under a mask, numbers, no elements.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd");
    let mut far = vec![0.0f32; 5000];
    (far[255], far[256], far[1020], far[4999]) = (-0.0, f32::NAN, 1e-45, 2.0);
    let mut mask = vec![false; 64];
    (mask[3], mask[40]) = (true, true);
    let mut kept = vec![0.0f32; 64];
    kept[40] = 1.0;
    let state: Vec<(String, Tensor)> = vec![
        ("far".into(), Tensor::from_vec(far, [50, 100])),
        ("nothing".into(), Tensor::zeros([300])),
        ("all".into(), Tensor::ones([3])),
        ("empty".into(), Tensor::zeros([0, 4])),
        ("number".into(), Tensor::from_slice(&[7i64], [1]).sum(..)),
        ("a.original".into(), Tensor::from_vec(kept.clone(), [64])),
        ("a.0.mask".into(), Tensor::from_vec(mask.clone(), [64])),
        // Not what the mask says: it is stored on its own.
        ("b.original".into(), Tensor::ones([64])),
        ("b.0.mask".into(), Tensor::from_vec(mask, [64])),
    ];
    save_sparse(&path, &state).unwrap();
    assert_eq!(bits(&load_sparse(&path).unwrap()), bits(&state));
    safetensors::save(&path, state.clone(), &Default::default()).unwrap();
    assert_eq!(bits(&load_sparse(&path).unwrap()), bits(&state));
    // A file that lies is told.
    for (places, says) in [(vec![0u8; 3], "3 bytes of places"), (vec![255, 255, 255, 0, 0, 0, 0, 1], "8 bytes of float32 for")] {
        let text = r#"{"w":{"dtype":"float32","shape":[64],"places":"bitmap"}}"#.replace("float32", &DType::F32.to_string());
        let tensors = vec![("w.places".to_string(), Tensor::from_vec(places.clone(), [places.len()])), ("w.values".to_string(), Tensor::ones([2]))];
        safetensors::save(&path, tensors, &[("sparse".to_string(), text)].into()).unwrap();
        refused(load_sparse(&path), &["`w`", says.replace("float32", &DType::F32.to_string()).as_str()]);
    }
}
