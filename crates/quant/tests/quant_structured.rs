//! Channels that have left: the model computes what it computes with their parameters at zero, whatever its layers are joined by.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{Result, Tensor, functional};
use adamant_nn::{
    BatchNorm2d, Conv1d, Conv2d, ConvOptions, ConvTranspose2d, ConvTransposeOptions, GroupNorm, LayerNorm, Linear, MaxPool2d, Module, MultiheadAttention, Role,
    Walk, init, manual_seed,
};
use adamant_optim::{AdamW, Optimizer, UpdateRule};
use adamant_quant::prune::{PruneImportance, Pruner, StructuredImportance, StructuredPruner, StructuredReport};

fn drawn(shape: impl adamant_core::ToShape) -> Tensor {
    init::normal(shape, 0.0, 1.0).unwrap()
}
fn conv(inputs: usize, outputs: usize, groups: usize) -> Conv2d {
    Conv2d::with(inputs, outputs, 3, ConvOptions { padding: 1.into(), groups, ..Default::default() }).unwrap()
}
fn transposed(inputs: usize, outputs: usize, groups: usize) -> ConvTranspose2d {
    let conv = functional::ConvTransposeOptions { stride: 2.into(), groups, ..Default::default() };
    ConvTranspose2d::with(inputs, outputs, 2, ConvTransposeOptions { conv, bias: true }).unwrap()
}
macro_rules! model {
    ($name:ident { $($field:ident: $type:ty),* } |$self:ident, $x:ident| $body:expr) => {
        #[derive(Module)]
        struct $name { $($field: $type),* }
        impl Module for $name {
            fn forward(&$self, $x: &Tensor) -> Result<Tensor> {
                $body.ok()
            }
        }
    };
}
model!(
    Residual { stem: Conv2d, norm: BatchNorm2d, one: Conv2d, inner: BatchNorm2d, two: Conv2d, last: BatchNorm2d, head: Linear } | self,
    x | {
        let x = self.norm.forward(&self.stem.forward(x)?)?.relu();
        let y = self.inner.forward(&self.one.forward(&x)?)?.sigmoid();
        let y = (x + self.last.forward(&self.two.forward(&y)?)?).relu();
        self.head.forward(&y.mean([2, 3]))?
    }
);
model!(
    Joined { one: Conv2d, two: Conv2d, three: Conv2d, head: Conv2d } | self,
    x | {
        let (a, b) = (self.one.forward(x)?.relu(), self.two.forward(x)?.tanh());
        let c = self.three.forward(&Tensor::cat(&[a.clone(), b.clone()], 1))?;
        self.head.forward(&Tensor::cat(&[c, a, x.clone()], 1))?
    }
);
model!(
    Depthwise { expand: Conv2d, norm: BatchNorm2d, depth: Conv2d, project: Conv2d } | self,
    x | {
        let x = self.norm.forward(&self.expand.forward(x)?)?.clamp(0.0, 6.0);
        self.project.forward(&self.depth.forward(&x)?.relu())?
    }
);
model!(Grouped { one: Conv2d, two: Conv2d, three: Conv2d } | self, x | self.three.forward(&self.two.forward(&self.one.forward(x)?.relu())?.relu())?);
model!(
    Upward { one: Conv2d, two: ConvTranspose2d, three: ConvTranspose2d, four: ConvTranspose2d, last: Conv2d } | self,
    x | {
        let x = self.two.forward(&self.one.forward(x)?.relu())?.relu();
        let x = self.four.forward(&self.three.forward(&x)?.relu())?;
        self.last.forward(&MaxPool2d::new(2).forward(&x)?)?
    }
);
model!(
    Flat { conv: Conv2d, hidden: Linear, head: Linear } | self,
    x | {
        let x = self.conv.forward(x)?.relu();
        let batch = x.shape()?[0];
        self.head.forward(&self.hidden.forward(&x.reshape([batch as isize, -1]))?.exp())?
    }
);
model!(
    Whole { hidden: Linear, norm: LayerNorm, attention: Attends, head: Linear } | self,
    x | {
        let x = self.norm.forward(&self.hidden.forward(x)?)?;
        self.head.forward(&self.attention.forward(&x)?)?
    }
);
model!(Attends { inner: MultiheadAttention } | self, x | self.inner.forward(x, x, x, &Default::default())?);
model!(
    Sequence { one: Conv1d, group: GroupNorm, two: Conv1d, three: Conv1d } | self,
    x | {
        let x = self.group.forward(&self.one.forward(x)?)?.relu();
        self.three.forward(&self.two.forward(&x)?.transpose(1, 2).relu().transpose(1, 2))?
    }
);

/// Running statistics, scales and shifts that say something.
fn stir(model: &impl Walk) {
    for (path, p) in model.leaves() {
        let meta = p.meta();
        let value = drawn(meta.shape);
        let value = if path.ends_with("running_var") { value.abs() + 0.3 } else { value * 0.5 };
        if meta.dtype.is_float() {
            p.set(&value).unwrap();
        }
    }
}
/// The parameters of what has left at zero.
fn mask(model: &impl Walk, report: &StructuredReport) {
    let leaves = model.leaves();
    for ((path, axis), gone) in &report.removed {
        let p = &leaves.iter().find(|(p, _)| p == path).unwrap().1;
        let (shape, mut values) = (p.meta().shape, p.detached().to_vec::<f32>().unwrap());
        let inner: usize = shape[axis + 1..].iter().product();
        values.iter_mut().enumerate().filter(|(at, _)| gone.contains(&(at / inner % shape[*axis]))).for_each(|(_, v)| *v = 0.0);
        p.set(&Tensor::from_vec(values, shape)).unwrap();
    }
}
fn differ(a: &Tensor, b: &Tensor) -> f64 {
    (a - b).abs().amax(..).item::<f32>().unwrap().into()
}
/// Prunes half; gives the shapes of parameters and the report.
fn check(name: &str, model: &impl Module, x: &Tensor, shapes: &[(&str, &[usize])]) -> StructuredReport {
    stir(model);
    model.eval();
    let masked = model.deep_copy().unwrap();
    let pruner = StructuredPruner::new(0.5).unwrap();
    let importance = pruner.compute_importance(model, x).unwrap();
    let report = pruner.prune(model, &importance).unwrap();
    let leaves = model.leaves();
    for (path, shape) in shapes {
        let got = leaves.iter().find(|(p, _)| p == path).unwrap().1.meta().shape;
        assert_eq!(*got, **shape, "{name}: {path}; {:?}", report.kept);
    }
    let whole = masked.forward(x).unwrap();
    whole.materialize().unwrap();
    mask(&masked, &report);
    let (small, large) = (model.forward(x).unwrap(), masked.forward(x).unwrap());
    let scale: f32 = large.abs().amax(..).item().unwrap();
    let apart = differ(&small, &large) / f64::from(scale.max(1.0));
    println!("{name}: {} of {} elements stay, {apart:e} apart of {scale}", report.elements_after, report.elements_before);
    assert!(apart < 1e-5, "{name}: {apart}");
    // What has left was not nothing.
    assert!(report.removed.is_empty() || differ(&whole, &large) > 1e-2, "{name}");
    // With another batch, and it trains.
    let mut optimizer = AdamW::new(1e-3).over(model.parameters()).ok().unwrap();
    model.train();
    let loss = model.forward(&Tensor::cat(&[x.clone(), x.clone()], 0)).unwrap().square().mean(..);
    optimizer.step(&loss.backward().unwrap()).unwrap();
    report
}
fn reason<'a>(report: &'a StructuredReport, path: &str, axis: usize) -> &'a str {
    &report.kept.iter().find(|k| (k.path.as_str(), k.axis) == (path, axis)).unwrap_or_else(|| unreachable!("{path} {axis}: {:?}", report.kept)).reason
}
fn residual() -> Residual {
    let norm = || BatchNorm2d::new(8).unwrap();
    Residual {
        stem: conv(3, 8, 1),
        norm: norm(),
        one: conv(8, 12, 1),
        inner: BatchNorm2d::new(12).unwrap(),
        two: conv(12, 8, 1),
        last: norm(),
        head: Linear::new(8, 5).unwrap(),
    }
}

#[test]
fn residual_sums_norms_and_means_over_places() {
    manual_seed(1);
    let shapes: [(&str, &[usize]); 8] = [
        ("stem.weight", &[4, 3, 3, 3]),
        ("norm.running_var", &[4]),
        ("one.weight", &[6, 4, 3, 3]),
        ("inner.bias", &[6]),
        ("two.weight", &[4, 6, 3, 3]),
        ("last.running_mean", &[4]),
        ("head.weight", &[5, 4]),
        ("head.bias", &[5]),
    ];
    let report = check("residual", &residual(), &drawn([2, 3, 6, 6]), &shapes);
    assert_eq!(report.pruned.len(), 2);
    assert_eq!(reason(&report, "head.weight", 0), "the model returns it");
    assert_eq!(reason(&report, "stem.weight", 1), "the model's input has them");
}
#[test]
fn joined_channels_keep_their_places() {
    manual_seed(2);
    let model = Joined { one: conv(3, 6, 1), two: conv(3, 4, 1), three: conv(10, 8, 1), head: conv(8 + 6 + 3, 2, 1) };
    check(
        "joined",
        &model,
        &drawn([2, 3, 5, 5]),
        &[("one.weight", &[3, 3, 3, 3]), ("two.weight", &[2, 3, 3, 3]), ("three.weight", &[4, 5, 3, 3]), ("head.weight", &[2, 10, 3, 3])],
    );
}
#[test]
fn depthwise_convolutions_lose_groups() {
    manual_seed(3);
    for multiplier in [1, 2] {
        let model =
            Depthwise { expand: conv(3, 8, 1), norm: BatchNorm2d::new(8).unwrap(), depth: conv(8, 8 * multiplier, 8), project: conv(8 * multiplier, 4, 1) };
        let shapes: [(&str, &[usize]); 4] = [
            ("expand.weight", &[4, 3, 3, 3]),
            ("norm.weight", &[4]),
            ("depth.weight", &[4 * multiplier, 1, 3, 3]),
            ("project.weight", &[4, 4 * multiplier, 3, 3]),
        ];
        check("depthwise", &model, &drawn([2, 3, 5, 5]), &shapes);
        // Another number of channels is refused still.
        assert!(model.depth.forward(&drawn([1, 8, 5, 5])).is_err());
    }
}
#[test]
fn groups_lose_the_same_channels() {
    manual_seed(4);
    let model = Grouped { one: conv(4, 8, 1), two: conv(8, 12, 2), three: conv(12, 4, 2) };
    check("grouped", &model, &drawn([2, 4, 5, 5]), &[("one.weight", &[4, 4, 3, 3]), ("two.weight", &[6, 2, 3, 3]), ("three.weight", &[4, 3, 3, 3])]);
}
#[test]
fn transposed_convolutions_of_all_groups() {
    manual_seed(5);
    let model = Upward { one: conv(3, 8, 1), two: transposed(8, 8, 1), three: transposed(8, 12, 2), four: transposed(12, 12, 12), last: conv(12, 2, 1) };
    let shapes: [(&str, &[usize]); 5] = [
        ("one.weight", &[4, 3, 3, 3]),
        ("two.weight", &[4, 4, 2, 2]),
        ("three.weight", &[4, 3, 2, 2]),
        ("four.weight", &[6, 1, 2, 2]),
        ("last.weight", &[2, 6, 3, 3]),
    ];
    check("transposed", &model, &drawn([2, 3, 4, 4]), &shapes);
}
#[test]
fn a_flattened_map_takes_its_places_along() {
    manual_seed(6);
    let model = Flat { conv: conv(2, 6, 1), hidden: Linear::new(6 * 12, 10).unwrap(), head: Linear::new(10, 3).unwrap() };
    check("flattened", &model, &drawn([2, 2, 3, 4]), &[("conv.weight", &[3, 2, 3, 3]), ("hidden.weight", &[5, 36]), ("head.weight", &[3, 5])]);
}
#[test]
fn what_is_needed_whole_stays_with_its_reason() {
    manual_seed(7);
    let model = Whole {
        hidden: Linear::new(4, 8).unwrap(),
        norm: LayerNorm::new([8]).unwrap(),
        attention: Attends { inner: MultiheadAttention::new(8, 2).unwrap() },
        head: Linear::new(8, 2).unwrap(),
    };
    let report = check(
        "whole",
        &model,
        &drawn([2, 5, 4]),
        &[("hidden.weight", &[8, 4]), ("norm.weight", &[8]), ("attention.inner.in_proj_weight", &[12, 8]), ("attention.inner.out_proj.weight", &[4, 4])],
    );
    assert!(reason(&report, "hidden.weight", 0).contains("in `norm` needs all of them"), "{:?}", report.kept);
    let conv1d = |inputs, outputs| Conv1d::new(inputs, outputs, 1).unwrap();
    let model = Sequence { one: conv1d(3, 8), group: GroupNorm::new(2, 8).unwrap(), two: conv1d(8, 6), three: conv1d(6, 2) };
    let report = check("sequence", &model, &drawn([2, 3, 9]), &[("one.weight", &[4, 3, 1]), ("two.weight", &[3, 4, 1]), ("three.weight", &[2, 3, 1])]);
    let of_group: Vec<_> = report.pruned.iter().filter(|p| p.parameters.contains(&("group.weight".to_string(), 0))).collect();
    assert_eq!((of_group.len(), of_group[0].channels), (1, 2), "a group goes whole: {:?}", report.pruned);
}
#[test]
fn importances_rank_as_their_formulas() {
    let model = || {
        manual_seed(8);
        let model = Grouped { one: conv(2, 4, 1), two: conv(4, 4, 1), three: conv(4, 2, 1) };
        for (k, value) in [(0usize, [1.0f32, 9.0, 3.0, 4.0]), (1, [2.0, 2.0, 8.0, 1.0])] {
            let p = [&model.one.weight, &model.two.weight][k];
            let shape = p.meta().shape;
            let per = p.elements() / 4;
            p.set(&Tensor::from_vec((0..p.elements()).map(|at| value[at / per]).collect(), shape)).unwrap();
        }
        model
    };
    let x = drawn([1, 2, 5, 5]);
    let removed = |importance| {
        let (model, pruner) = (model(), StructuredPruner::new(0.5).unwrap().importance(importance));
        let grads = model.forward(&x).unwrap().square().sum(..).backward().unwrap();
        let by_hand: Vec<f64> = {
            let p = &model.one.weight;
            let (w, g) = (p.detached().to_vec::<f32>().unwrap(), grads.of(&p.cell()).unwrap().to_vec::<f32>().unwrap());
            (0..4).map(|k| (0..18).map(|j| f64::from(w[k * 18 + j]) * f64::from(g[k * 18 + j])).sum::<f64>().abs()).collect()
        };
        let found = pruner.compute_importance_by(&model, &x, &grads).unwrap();
        let report = pruner.prune(&model, &found).unwrap();
        (report.removed[&("one.weight".to_string(), 0)].clone(), report.removed[&("two.weight".to_string(), 0)].clone(), by_hand)
    };
    for importance in [StructuredImportance::L1, StructuredImportance::L2] {
        let (one, two, _) = removed(importance);
        assert_eq!((one, two), (vec![0, 2], vec![0, 3]), "{importance:?}");
    }
    let (one, _, by_hand) = removed(StructuredImportance::Taylor);
    let mut order: Vec<usize> = (0..4).collect();
    order.sort_by(|a, b| by_hand[*a].total_cmp(&by_hand[*b]));
    let mut least = order[..2].to_vec();
    least.sort_unstable();
    assert_eq!(one, least);
    // Scales of norms: channels without one stay.
    let model = residual();
    model.inner.parameters()[0].set(&Tensor::from_vec((0..12).map(|k| if k % 2 == 0 { 0.1f32 } else { -1.0 }).collect(), [12])).unwrap();
    let pruner = StructuredPruner::new(0.5).unwrap().importance(StructuredImportance::NormScale);
    let report = pruner.prune(&model, &pruner.compute_importance(&model, &drawn([1, 3, 4, 4])).unwrap()).unwrap();
    assert_eq!(report.removed[&("one.weight".to_string(), 0)], [0, 2, 4, 6, 8, 10]);
}
#[test]
fn what_cannot_be_done_is_told_and_nothing_changes() {
    model!(Written { one: Linear, two: Linear } | self, x | self.two.forward(&(self.one.forward(x)?.reshape([-1, 6]) * Tensor::ones([6])))?);
    let pruner = StructuredPruner::new(0.5).unwrap();
    let model = Written { one: Linear::new(4, 6).unwrap(), two: Linear::new(6, 2).unwrap() };
    let before: Vec<_> = model.state_dict().into_iter().map(|(n, t)| (n, t.to_bytes().unwrap())).collect();
    let x = drawn([2, 4]);
    let found = pruner.compute_importance(&model, &x).unwrap();
    let report = pruner.prune(&model, &found).unwrap();
    assert!(report.pruned.is_empty() && reason(&report, "one.weight", 0).contains("written into `forward`"), "{report:?}");
    let after: Vec<_> = model.state_dict().into_iter().map(|(n, t)| (n, t.to_bytes().unwrap())).collect();
    assert_eq!(before, after);
    assert!(StructuredPruner::new(1.0).is_err());
    let taylor = pruner.clone().importance(StructuredImportance::Taylor);
    assert!(taylor.compute_importance(&residual(), &drawn([1, 3, 4, 4])).err().unwrap().to_string().contains("compute_importance_by"));
    let masked = residual();
    let pruned = Pruner::new(PruneImportance::Magnitude).prune(&masked, 0.5).unwrap();
    assert!(pruner.compute_importance(&masked, &drawn([1, 3, 4, 4])).err().unwrap().to_string().contains("`stem.weight` is computed"));
    pruned.remove().unwrap();
    // Twice: what is left is pruned again.
    let x = drawn([1, 3, 4, 4]);
    for _ in 0..5 {
        pruner.prune(&masked, &pruner.compute_importance(&masked, &x).unwrap()).unwrap();
    }
    assert_eq!(masked.named_buffers().iter().filter(|(_, p)| p.role() == Role::Buffer && p.elements() > 1).count(), 0, "one channel of each stays");
    assert_eq!(masked.forward(&x).unwrap().dims().unwrap(), [1, 5]);
}
