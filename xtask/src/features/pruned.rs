//! Rows about what leaves a model: channels with all that belongs to them, and what looks as if it could go.
use super::{
    CheckCost, Checked, RowCheck, Seen,
    digits::{self, Digits},
    plant, planted,
    timing::least_of_two,
};
use crate::{quant::described::SilentWatch, workspace};
use adamant::{
    Result, Tensor,
    formats::safetensors,
    grad::no_grad,
    nn::{BatchNorm2d, Conv2d, ConvOptions, Linear, Module, Walk, init, manual_seed},
    quant::prune::{SignalLimits, StructuredPruner, StructuredReport},
};
use adamant_train::{Document, Run, pruned::signals};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S1.32",
        target: "StructuredPruner(0.5) of a trained net with a residual sum, norms and a concatenation: filters leave with all that belongs to them, outputs are the masked model's, 1.8 times faster, 1 point lost at most behind a little training",
        cost: CheckCost::Clocked,
        check: structured,
        plants: &[
            plant("an eighth of the channels", "1.8 times faster"),
            plant("a mask of other channels", "the masked model's outputs"),
            plant("a head that is drawn anew", "1 point"),
            plant("a norm that keeps its channels", "with all that belongs to them"),
        ],
    },
    RowCheck {
        id: "B2.21",
        target: "what `adamant doctor --prune` says of a run: units that are dead, static and redundant, a weight of low rank and one that 3 bits hold, each where it was planted, and none in a layer without",
        cost: CheckCost::Cheap,
        check: told_signals,
        plants: &[
            plant("a unit that is not dead", "dead"),
            plant("a unit that moves", "static"),
            plant("a unit of its own", "redundant"),
            plant("a weight of full rank", "low rank"),
            plant("a weight between the steps", "quantizable"),
            plant("a dead unit in the sound layer", "none elsewhere"),
        ],
    },
];

/// A residual block and two branches that are joined.
#[derive(Module)]
struct JoinedNet {
    stem: Conv2d,
    stem_norm: BatchNorm2d,
    inner: Conv2d,
    inner_norm: BatchNorm2d,
    outer: Conv2d,
    outer_norm: BatchNorm2d,
    left: Conv2d,
    right: Conv2d,
    last: Conv2d,
    last_norm: BatchNorm2d,
    head: Linear,
}
impl Module for JoinedNet {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.reshape([-1, 1, 8, 8]);
        let x = self.stem_norm.forward(&self.stem.forward(&x)?)?.relu();
        let y = self.inner_norm.forward(&self.inner.forward(&x)?)?.relu();
        let x = (x + self.outer_norm.forward(&self.outer.forward(&y)?)?).relu();
        let both = Tensor::cat(&[self.left.forward(&x)?.relu(), self.right.forward(&x)?.relu()], 1);
        let x = self.last_norm.forward(&self.last.forward(&both)?)?.relu();
        self.head.forward(&x.mean([2, 3]))
    }
}
fn joined() -> Result<JoinedNet> {
    let conv = |from, to, bias| Conv2d::with(from, to, 3, ConvOptions { padding: 1.into(), bias, ..Default::default() });
    Ok(JoinedNet {
        stem: conv(1, 64, false)?,
        stem_norm: BatchNorm2d::new(64)?,
        inner: conv(64, 64, false)?,
        inner_norm: BatchNorm2d::new(64)?,
        outer: conv(64, 64, false)?,
        outer_norm: BatchNorm2d::new(64)?,
        left: conv(64, 32, true)?,
        right: conv(64, 32, true)?,
        last: conv(64, 64, false)?,
        last_norm: BatchNorm2d::new(64)?,
        head: Linear::new(64, 10)?,
    })
}
/// The model with the parameters of what has left at zero.
fn masked(model: &JoinedNet, report: &StructuredReport) -> Result<()> {
    let leaves = model.leaves();
    for ((path, axis), gone) in &report.removed {
        let Some((_, p)) = leaves.iter().find(|(p, _)| p == path) else { continue };
        let (shape, mut values) = (p.meta().shape, p.detached().to_vec::<f32>()?);
        let inner: usize = shape[axis + 1..].iter().product();
        let gone: Vec<usize> = if planted("a mask of other channels") { gone.iter().map(|k| (k + 1) % shape[*axis]).collect() } else { gone.clone() };
        values.iter_mut().enumerate().filter(|(at, _)| gone.contains(&(at / inner % shape[*axis]))).for_each(|(_, v)| *v = 0.0);
        p.set(&Tensor::from_vec(values, shape))?;
    }
    Ok(())
}
fn structured() -> Checked {
    manual_seed(32);
    let (digits, model) = (Digits::read()?, joined()?);
    digits::train(&model, &digits.train, 3, 3e-3)?;
    let before = digits::accuracy(&model, &digits.test)?;
    let (whole, zeroed) = (model.deep_copy()?, model.deep_copy()?);
    whole.eval();
    let pruner = StructuredPruner::new(if planted("an eighth of the channels") { 0.125 } else { 0.5 })?;
    let importance = pruner.compute_importance(&model, &digits.test.images.narrow(0, 0, 2))?;
    let report = pruner.prune(&model, &importance)?;
    masked(&zeroed, &report)?;
    zeroed.eval();
    let (wanted, got) = (no_grad(|| zeroed.forward(&digits.test.images))?, no_grad(|| model.forward(&digits.test.images))?);
    let apart = (&got - &wanted).abs().max().item::<f32>()? / wanted.abs().max().item::<f32>()?;
    // Every weight and every statistic that has the channels of a filter that left.
    let shapes: Vec<(String, Vec<usize>)> = model.leaves().into_iter().map(|(path, p)| (path, p.meta().shape.to_vec())).collect();
    let size = |path: &str, axis: usize| shapes.iter().find(|(p, _)| p == path).and_then(|(_, s)| s.get(axis).copied()).unwrap_or(0);
    let kept_norm = if planted("a norm that keeps its channels") { 64 } else { size("stem_norm.running_var", 0) };
    let belongs = size("stem.weight", 0) == kept_norm
        && [("outer.weight", 0), ("outer_norm.weight", 0), ("inner.weight", 1), ("left.weight", 1), ("right.weight", 1)]
            .iter()
            .all(|(p, axis)| size(p, *axis) == kept_norm)
        && size("last.weight", 1) == size("left.weight", 0) + size("right.weight", 0)
        && size("head.weight", 1) == size("last_norm.bias", 0)
        && kept_norm < 64;
    digits::train(&model, &digits.train, 2, 1e-3)?;
    if planted("a head that is drawn anew") {
        let weight = &model.head.weight;
        weight.set(&init::normal(weight.meta().shape, 0.0, 1.0)?)?;
    }
    let after = digits::accuracy(&model, &digits.test)?;
    let (mut fast, mut speeds) = (true, Vec::new());
    for batch in [1usize, 64] {
        let x = digits.test.images.narrow(0, 0, batch).ok()?;
        x.materialize()?;
        let once = |net: &JoinedNet| drop(no_grad(|| net.forward(&x).and_then(|y| y.materialize())));
        let (slow, quick) = least_of_two(30, || once(&whole), || once(&model));
        fast &= slow >= 1.8 * quick;
        speeds.push(format!("{:.2} times as fast of {batch}", slow / quick));
    }
    Ok(Seen::all(
        &[
            ("1.8 times faster", fast),
            ("the masked model's outputs", apart <= 1e-5),
            ("1 point", before >= 90.0 && before - after <= 1.0),
            ("with all that belongs to them", belongs),
        ],
        format!(
            "{} of {} elements, {apart:.1e} from the masked model, {}, {before:.2} -> {after:.2} %",
            report.elements_after,
            report.elements_before,
            speeds.join(", ")
        ),
    ))
}

/// A run whose weights are exchanged: the hidden layer `0` has a unit of each kind, `2` is of rank 2, `4` lies on 7 steps, `6` is sound.
fn told_signals() -> Checked {
    let (folder, data) = (tempfile::tempdir()?, workspace::root().join("examples/digits"));
    let told = |e: adamant_train::Failure| e.to_string();
    let mut document = Document::read(&data.join("digits.toml")).map_err(told)?;
    let linear = |from: usize, to: usize| format!("{{ kind = \"Linear\", in_features = {from}, out_features = {to} }}");
    let layers = [linear(64, 24), linear(24, 24), linear(24, 24), linear(24, 10)].join(", { kind = \"ReLU\" }, ");
    let kept = format!("weights={:?}", folder.path().join("digits.safetensors"));
    for assignment in ["epochs=1".to_string(), format!("model.layers=[{layers}]"), kept] {
        document.set(&assignment).map_err(told)?;
    }
    let run = folder.path().join("run");
    Run::new(&document).data(&data).folder(&run).train(&mut SilentWatch).map_err(told)?;
    let file = run.join("weights.safetensors");
    let mut state = safetensors::load(&file)?;
    manual_seed(21);
    for (name, tensor) in &mut state {
        let shape = tensor.shape()?;
        let mut values = init::normal(shape, 0.0, 1.0)?.to_vec::<f32>()?;
        let columns = shape.get(1).copied().unwrap_or(1);
        let mut row = |k: usize, of: &dyn Fn(usize, &[f32]) -> f32| {
            let old = values.clone();
            (0..columns).for_each(|c| values[k * columns + c] = of(c, &old));
        };
        match name.as_str() {
            // Unit 3 never says anything, unit 5 always 2, unit 9 twice what unit 8 says. The others are for differences of pixels, which
            // are positive for some images.
            "0.weight" => {
                (0..24).for_each(|k| row(k, &|c, old| old[k * columns + c] - old[k * columns..(k + 1) * columns].iter().sum::<f32>() / columns as f32));
                row(3, &|_, _| 0.0);
                row(5, &|c, _| if planted("a unit that moves") && c % 7 == 0 { 1.0 } else { 0.0 });
                if !planted("a unit of its own") {
                    row(9, &|c, old| 2.0 * old[8 * columns + c]);
                }
            }
            "0.bias" => {
                values.iter_mut().for_each(|v| *v = 0.1);
                (values[3], values[5], values[9]) = (if planted("a unit that is not dead") { 1.0 } else { -1.0 }, 2.0, 0.2);
            }
            "2.weight" if !planted("a weight of full rank") => {
                let old = values.clone();
                values
                    .iter_mut()
                    .enumerate()
                    .for_each(|(at, v)| *v = old[at / columns] * old[100 + at % columns] + old[200 + at / columns] * old[300 + at % columns]);
            }
            "4.weight" if !planted("a weight between the steps") => values.iter_mut().for_each(|v| *v = (*v * 1.5).round().clamp(-3.0, 3.0)),
            "4.bias" => values.iter_mut().for_each(|v| *v = 0.5),
            _ => {}
        }
        *tensor = Tensor::from_vec(values, shape);
    }
    if planted("a dead unit in the sound layer") {
        for (_, tensor) in state.iter_mut().filter(|(name, _)| name.starts_with("6.")) {
            let shape = tensor.shape()?;
            let mut values = tensor.to_vec::<f32>()?;
            let row = values.len() / shape[0];
            values[..row].iter_mut().for_each(|v| *v = 0.0);
            *tensor = Tensor::from_vec(values, shape);
        }
    }
    safetensors::save(&file, state, &Default::default())?;
    let found = signals(&run, &data, 512, SignalLimits::default()).map_err(told)?;
    let layer = |path: &str| found.layers.iter().find(|l| l.path == path).ok_or_else(|| format!("`{path}` is not in the report"));
    let (hidden, thin, steps, sound) = (layer("0")?, layer("2")?, layer("4")?, layer("6")?);
    let redundant: Vec<(usize, usize)> = hidden.redundant.iter().map(|(k, of, _)| (*k, *of)).collect();
    let none_in = sound.dead.is_empty() && sound.constant.is_empty() && sound.redundant.is_empty() && !sound.low_rank;
    Ok(Seen::all(
        &[
            ("dead", hidden.dead == [3]),
            ("static", hidden.constant == [5]),
            ("redundant", redundant == [(9, 8)]),
            ("low rank", thin.low_rank && thin.rank == 2 && !steps.low_rank && !hidden.low_rank),
            ("quantizable", steps.bits == Some(3) && sound.bits != Some(3)),
            ("none elsewhere", none_in),
        ],
        format!(
            "dead {:?}, static {:?}, redundant {redundant:?}, rank {} of {}, bits {:?} and {:?}, {} layers",
            hidden.dead,
            hidden.constant,
            thin.rank,
            thin.full_rank,
            steps.bits,
            sound.bits,
            found.layers.len()
        ),
    ))
}
