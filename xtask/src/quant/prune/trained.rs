//! Models that were trained on real data, without channels and without weights.
use super::{
    super::{
        described::JudgedExample,
        tuned::{Tuning, interleaved},
    },
    PruneOptions,
};
use crate::exit::Exit;
use adamant::{
    DType, Device, Tensor,
    data::DataLoader,
    formats::safetensors,
    nn::{self, BatchNorm2d, Conv2d, ConvOptions, Linear, Module, Sequential, Walk, manual_seed},
    optim::{AdamW, Optimizer, UpdateRule},
    quant::prune::{PruneAmount, PruneImportance, Pruner, PruningCurve, PruningSchedule, PruningScheduler, StructuredPruner, load_sparse, save_sparse},
};
use adamant_train::{Document, Failure, Objective, Trained, dataset::Parts, evaluate};
use std::{fs, path::Path};

const MNIST: JudgedExample = JudgedExample { name: "mnist", text: include_str!("../../../../examples/mnist/mnist.toml"), data: Some("mnist-20k") };
/// Percentage points of accuracy that may be lost.
const MOST_POINTS: f64 = 1.0;
/// How many times faster a model with half of its channels is.
const LEAST_FASTER: f64 = 1.8;
/// The size of a file of 90 % zeros as a part of the dense one's.
const LARGEST_FILE: f64 = 0.16;
const EPOCHS: u64 = 2;
const ROUNDS: [(usize, usize); 2] = [(1, 300), (64, 30)];

/// A model, and what it is judged by.
struct PrunedTrial {
    name: &'static str,
    model: Sequential,
    objective: Objective,
    parts: Parts,
    device: Device,
}
impl PrunedTrial {
    fn accuracy(&self) -> Result<f64, Failure> {
        let seen = evaluate(&self.model, &self.objective, &self.parts.test, self.device, &self.parts.evaluation())?;
        Ok(100.0 * seen.accuracy.unwrap_or(f64::NAN))
    }
    fn rows(&self, count: usize) -> Result<Tensor, Failure> {
        let mut loader = DataLoader::new(self.parts.train.clone()).batch_size(count).build()?;
        let (x, _) = loader.epoch().next().ok_or_else(|| Failure::Input("there are no data".into()))??;
        Ok(x.to(self.device).ok()?)
    }
    fn tuning(&self, lr: f64) -> Tuning<'_> {
        Tuning { parts: &self.parts, objective: &self.objective, batch: 64, lr, epochs: EPOCHS, seed: 9 }
    }
}

pub fn run(options: &PruneOptions) -> Result<Exit, String> {
    let Some(data) = &options.data else {
        println!("skipped trained models: --data names no folder of data sets");
        return Ok(Exit::Skipped);
    };
    let device = Device::current().map_err(|e| e.to_string())?;
    let all: [(&str, fn(&Path, &PruneOptions, Device) -> Result<bool, Failure>); 4] =
        [("mnist", half_of_mnist), ("residual", half_of_residual), ("unstructured", unstructured), ("2:4", two_of_four)];
    let (mut judged, mut failed) = (0, 0);
    for (name, judge) in all.iter().filter(|(name, _)| name.contains(&options.only)) {
        manual_seed(options.seed);
        judged += 1;
        failed += usize::from(!judge(&data.join("mnist-20k"), options, device).map_err(|e| format!("{name}: {e}"))?);
    }
    println!("{judged} trained models judged, {failed} worse than promised");
    Ok(if failed > 0 { Exit::Failed } else { Exit::Passed })
}
fn word(passed: bool) -> &'static str {
    if passed { "passed" } else { "failed" }
}
/// The trained model, anew with each call.
fn mnist(data: &Path, options: &PruneOptions, device: Device) -> Result<PrunedTrial, Failure> {
    let trained = Trained::open(&MNIST.trained(data, 1, &options.runs)?)?;
    let (objective, parts) = trained.data(data)?;
    Ok(PrunedTrial { name: "mnist", model: trained.model, objective, parts, device })
}
/// Half of the channels leave; then it is trained a little.
fn half(trial: &PrunedTrial) -> Result<bool, Failure> {
    let (before, whole) = (trial.accuracy()?, trial.model.deep_copy()?);
    whole.eval();
    let pruner = StructuredPruner::new(0.5)?;
    let importance = pruner.compute_importance(&trial.model, &trial.rows(4)?)?;
    let report = pruner.prune(&trial.model, &importance)?;
    let raw = trial.accuracy()?;
    let tuning = trial.tuning(1e-3);
    let mut optimizer = AdamW::new(1e-3).over(trial.model.parameters()).ok()?;
    for epoch in 0..EPOCHS {
        tuning.epoch(&trial.model, &mut optimizer, epoch, usize::MAX, &mut || Ok(()))?;
    }
    let after = trial.accuracy()?;
    let mut passed = before - after <= MOST_POINTS + 1e-9;
    let mut speeds = Vec::new();
    for (batch, rounds) in ROUNDS {
        let x = trial.rows(batch)?;
        let [slow, fast] = interleaved(rounds, [&mut || whole.forward(&x), &mut || trial.model.forward(&x)])?;
        passed &= slow / fast >= LEAST_FASTER;
        speeds.push(format!("{:.2} times faster at batch {batch} ({:.3} and {:.3} ms)", slow / fast, 1e3 * slow, 1e3 * fast));
    }
    println!(
        "{} {} without half of the channels: {} of {} elements; {} (at least {LEAST_FASTER}); accuracy {before:.2} -> {raw:.2} -> {after:.2} % behind {EPOCHS} epochs (at most {MOST_POINTS} points lost)",
        word(passed),
        trial.name,
        report.elements_after,
        report.elements_before,
        speeds.join(", "),
    );
    Ok(passed)
}
fn half_of_mnist(data: &Path, options: &PruneOptions, device: Device) -> Result<bool, Failure> {
    half(&mnist(data, options, device)?)
}
fn half_of_residual(data: &Path, options: &PruneOptions, device: Device) -> Result<bool, Failure> {
    let document: Document = MNIST.document(1)?;
    let root = document.root()?;
    let parts = Parts::of(root.need("data", root.section("data")?)?, data, 1)?;
    let objective = Objective::of(&root, false)?;
    let trial = PrunedTrial { name: "residual", model: residual()?, objective, parts, device };
    let kept = options.runs.join("residual-1.safetensors");
    if kept.exists() {
        let file = safetensors::SafeTensors::open(&kept)?;
        let state: Vec<(String, Tensor)> = file.names().into_iter().map(|n| Ok((n.clone(), file.tensor(&n, device)?))).collect::<adamant::Result<_>>()?;
        trial.model.load_state_dict(&state)?;
        trial.model.eval();
    } else {
        println!("residual: training");
        let tuning = Tuning { epochs: 4, ..trial.tuning(3e-3) };
        let mut optimizer = AdamW::new(3e-3).over(trial.model.parameters()).ok()?;
        for epoch in 0..4 {
            tuning.epoch(&trial.model, &mut optimizer, epoch, usize::MAX, &mut || Ok(()))?;
        }
        fs::create_dir_all(&options.runs).map_err(|e| Failure::Input(format!("{}: {e}", options.runs.display())))?;
        safetensors::save(&kept, trial.model.state_dict(), &Default::default())?;
    }
    half(&trial)
}
/// A block of two convolutions beside what it is given, by a convolution of 1 x 1 where widths differ.
struct BlockWithShortcut {
    inner: Sequential,
    beside: Option<Conv2d>,
}
impl Walk for BlockWithShortcut {
    fn walk(&self, walker: &mut nn::Walker<'_>) {
        walker.child("inner", &self.inner);
        walker.child("beside", &self.beside);
    }
    fn duplicate(&self, copies: &mut nn::Copies) -> adamant::Result<BlockWithShortcut> {
        Ok(BlockWithShortcut { inner: self.inner.duplicate(copies)?, beside: self.beside.duplicate(copies)? })
    }
}
impl Module for BlockWithShortcut {
    fn forward(&self, x: &Tensor) -> adamant::Result<Tensor> {
        let beside = match &self.beside {
            Some(conv) => conv.forward(x)?,
            None => x.clone(),
        };
        (self.inner.forward(x)? + beside).relu().ok()
    }
}
fn residual() -> adamant::Result<Sequential> {
    let conv = |from, to, kernel: usize, stride: usize| {
        Conv2d::with(from, to, kernel, ConvOptions { stride: stride.into(), padding: (kernel / 2).into(), bias: false, ..Default::default() })
    };
    let block = |from, to, stride| -> adamant::Result<BlockWithShortcut> {
        let inner = Sequential::new().add(conv(from, to, 3, stride)?).add(BatchNorm2d::new(to)?).add(nn::Relu::new());
        let inner = inner.add(conv(to, to, 3, 1)?).add(BatchNorm2d::new(to)?);
        Ok(BlockWithShortcut { inner, beside: if from == to && stride == 1 { None } else { Some(conv(from, to, 1, stride)?) } })
    };
    let stem = Sequential::new().add(conv(1, 64, 3, 2)?).add(BatchNorm2d::new(64)?).add(nn::Relu::new());
    let body = stem.add(block(64, 64, 1)?).add(block(64, 128, 2)?).add(block(128, 128, 1)?);
    Ok(body.add(nn::AdaptiveAvgPool2d::new(1)).add(nn::Flatten::new()).add(Linear::new(128, 10)?))
}
fn zeros(model: &Sequential, paths: &[String]) -> Result<(usize, usize), Failure> {
    let (mut zeros, mut all) = (0, 0);
    for (_, t) in model.state_dict().into_iter().filter(|(name, _)| paths.contains(name)) {
        let values = t.to_vec_as::<f32>()?;
        zeros += values.iter().filter(|v| v.to_bits() == 0).count();
        all += values.len();
    }
    Ok((zeros, all))
}
/// 90 % of all weights go little by little, the least of all layers together: those of a small first layer are worth more. Between
/// the epochs everything is written, read into models of its own, and goes on.
fn unstructured(data: &Path, options: &PruneOptions, device: Device) -> Result<bool, Failure> {
    let trial = mnist(data, options, device)?;
    let (before, tuning) = (trial.accuracy()?, trial.tuning(1e-3));
    let steps = tuning.steps() as u64;
    let schedule = PruningSchedule::new(PruningCurve::Cubic, 0.9).between(0, steps + steps / 3).every(10);
    let begin = |model: &Sequential| -> Result<_, Failure> {
        let scheduler = PruningScheduler::new(Pruner::new(PruneImportance::Magnitude).global().prune(model, 0.0)?, schedule.clone())?;
        Ok((scheduler, AdamW::new(1e-3).weight_decay(5e-2).over(model.parameters()).ok()?))
    };
    let (mut scheduler, mut optimizer) = begin(&trial.model)?;
    tuning.epoch(&trial.model, &mut optimizer, 0, usize::MAX, &mut || scheduler.step().map(drop))?;
    let folder = tempfile::tempdir().map_err(|e| Failure::Input(e.to_string()))?;
    let file = folder.path().join("resumed.sparse");
    save_sparse(&file, &trial.model.state_dict())?;
    let (slots, position, rng) = (optimizer.state_dict(), scheduler.state_dict(), nn::rng_state(device)?);
    // A few steps of the first, which the second must repeat bit by bit.
    let bits =
        |model: &Sequential| -> Result<Vec<Vec<u8>>, Failure> { Ok(model.state_dict().iter().map(|(_, t)| t.to_bytes()).collect::<adamant::Result<_>>()?) };
    tuning.epoch(&trial.model, &mut optimizer, 1, 3, &mut || scheduler.step().map(drop))?;
    let first = bits(&trial.model)?;
    let second = mnist(data, options, device)?;
    let resume = |second: &PrunedTrial| -> Result<_, Failure> {
        let (mut scheduler, mut optimizer) = begin(&second.model)?;
        second.model.load_state_dict(&load_sparse(&file)?)?;
        optimizer.load_state_dict(&slots)?;
        scheduler.load_state_dict(&position)?;
        nn::set_rng_state(device, rng)?;
        Ok((scheduler, optimizer))
    };
    let (mut scheduler, mut optimizer) = resume(&second)?;
    tuning.epoch(&second.model, &mut optimizer, 1, 3, &mut || scheduler.step().map(drop))?;
    let is_same = first == bits(&second.model)?;
    let third = mnist(data, options, device)?;
    let (mut scheduler, mut optimizer) = resume(&third)?;
    tuning.epoch(&third.model, &mut optimizer, 1, usize::MAX, &mut || scheduler.step().map(drop))?;
    let pruned = scheduler.into_pruned();
    let sparsity = pruned.report()?.sparsity();
    let paths = pruned.paths();
    pruned.remove()?;
    let (exact, all) = zeros(&third.model, &paths)?;
    let after = third.accuracy()?;
    let (dense, sparse) = (folder.path().join("dense"), folder.path().join("sparse"));
    safetensors::save(&dense, third.model.state_dict(), &Default::default())?;
    save_sparse(&sparse, &third.model.state_dict())?;
    let size = |path: &Path| fs::metadata(path).map_or(f64::NAN, |m| m.len() as f64);
    let ratio = size(&sparse) / size(&dense);
    let passed = before - after <= MOST_POINTS + 1e-9 && ratio <= LARGEST_FILE && is_same && exact as f64 >= 0.899 * all as f64;
    println!(
        "{} mnist with {:.2} % of its weights at zero, cubic: {exact} of {all} exact zeros behind a resume {}; file {ratio:.4} of the dense (at most {LARGEST_FILE}); accuracy {before:.2} -> {after:.2} % (at most {MOST_POINTS} points lost)",
        word(passed),
        100.0 * sparsity,
        if is_same { "of the same bits" } else { "of OTHER bits" },
    );
    Ok(passed)
}
/// Two of four neighbours stay, of all weights with inputs enough, through an epoch with momentum and decay.
fn two_of_four(data: &Path, options: &PruneOptions, device: Device) -> Result<bool, Failure> {
    let trial = mnist(data, options, device)?;
    let before = trial.accuracy()?;
    let targets: Vec<String> = trial
        .model
        .named_parameters()
        .into_iter()
        .filter(|(_, p)| p.meta().shape.rank() >= 2 && p.meta().shape[1].is_multiple_of(4))
        .map(|(path, _)| path)
        .collect();
    let pruned = Pruner::new(PruneImportance::Magnitude).targets(targets.clone()).prune(&trial.model, PruneAmount::Keep { n: 2, m: 4 })?;
    let tuning = trial.tuning(5e-4);
    let mut optimizer = AdamW::new(5e-4).weight_decay(5e-2).over(trial.model.parameters()).ok()?;
    for epoch in 0..EPOCHS {
        tuning.epoch(&trial.model, &mut optimizer, epoch, usize::MAX, &mut || Ok(()))?;
    }
    pruned.remove()?;
    let after = trial.accuracy()?;
    let (mut blocks, mut broken) = (0usize, 0usize);
    for (_, t) in trial.model.state_dict().into_iter().filter(|(name, _)| targets.contains(name)) {
        let shape = t.shape()?;
        let values = t.cast(DType::F32).to_vec::<f32>()?;
        let inner: usize = shape[2..].iter().product();
        for outer in 0..shape[0] {
            for group in (0..shape[1]).step_by(4) {
                for at in 0..inner {
                    let kept = (group..group + 4).filter(|i| values[(outer * shape[1] + i) * inner + at] != 0.0).count();
                    blocks += 1;
                    broken += usize::from(kept > 2);
                }
            }
        }
    }
    let passed = broken == 0 && blocks > 0 && before - after <= MOST_POINTS + 1e-9;
    println!(
        "{} mnist with 2 of 4: {broken} of {blocks} blocks have more, of {}; accuracy {before:.2} -> {after:.2} % (at most {MOST_POINTS} points lost)",
        word(passed),
        targets.join(", "),
    );
    Ok(passed)
}
