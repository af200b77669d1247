//! What runs of `causes` are made of: data that can be learned, layers one by one, and how they are trained.
use adamant::{
    Result, Tensor,
    data::{DataLoader, TensorDataset},
    functional::{CrossEntropyOptions, cross_entropy},
    nn::{
        Activation, BatchNorm2d, Conv2d, ConvOptions, Dropout, Embedding, Flatten, Gelu, Gru, LayerNorm, LeakyRelu, Linear, Lstm, Module, Param,
        RecurrentOptions, Relu, Sequential, Sigmoid, Site, Softmax, Tanh, TransformerEncoderLayer, TransformerOptions, Walk, manual_seed,
    },
    optim::{AdamW, ClippingOptions, Optimizer, Sgd, UpdateRule, schedule::LinearLr},
};
use adamant_conformance::random::Random;
use adamant_train::{CheckpointPlan, Failure, HandlingType, NanOptions, Precision, PrecisionMode, ScalerOptions, Trainer};
use serde_json::Value;
use std::{path::Path, sync::Arc};

/// What is learned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskKind {
    /// classes of rows of numbers
    Rows,
    /// classes of images
    Images,
    /// a class at each place of a sequence of rows
    Sequences,
    /// the class of each symbol
    Symbols,
    /// a number
    Numbers,
}
/// What is done to the data.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct DataFault {
    /// inputs are x · scale + offset; none: as they are
    pub inputs: Option<(f64, f64)>,
    /// targets are y · scale
    pub targets: Option<f64>,
    /// labels stand beside other records
    pub shuffled: bool,
    /// one record, and a number that stands in its first place, or in all of them
    pub record: Option<(usize, f64, bool)>,
}
/// The data of a run.
#[derive(Clone, Debug)]
pub struct TaskData {
    pub kind: TaskKind,
    pub seed: u64,
    pub rows: usize,
    /// features, symbols or channels
    pub width: usize,
    pub classes: usize,
    pub fault: DataFault,
}
/// Places of a sequence, and the side of an image.
const PLACES: usize = 6;
const SIDE: usize = 8;
impl TaskData {
    fn inner(&self) -> Vec<usize> {
        match self.kind {
            TaskKind::Rows | TaskKind::Numbers => vec![self.width],
            TaskKind::Images => vec![1, SIDE, SIDE],
            TaskKind::Sequences => vec![PLACES, self.width],
            TaskKind::Symbols => vec![PLACES],
        }
    }
    /// The part that is learned from, or another one of the same kind.
    fn drawn(&self, learned: bool) -> Result<TensorDataset> {
        let mut random = Random::new(self.seed);
        let (rows, inner) = (if learned { self.rows } else { 256 }, self.inner());
        let size: usize = inner.iter().product();
        let templates: Vec<Vec<f64>> = (0..self.classes).map(|_| (0..size).map(|_| normal(&mut random)).collect()).collect();
        let mut symbols: Vec<usize> = (0..self.width).collect();
        (1..symbols.len()).rev().for_each(|k| symbols.swap(k, random.below(k + 1)));
        let mut random = random.part(if learned { 1 } else { 2 });
        let (mut x, mut y) = (Vec::with_capacity(rows * size), Vec::new());
        for _ in 0..rows {
            let class = random.below(self.classes);
            let noise = |random: &mut Random| (0..size).map(|_| normal(random)).collect::<Vec<f64>>();
            match self.kind {
                TaskKind::Rows | TaskKind::Images | TaskKind::Sequences => {
                    x.extend(noise(&mut random).iter().zip(&templates[class]).map(|(e, t)| (e + t) / 2f64.sqrt()));
                    y.extend(std::iter::repeat_n(class as f64, if self.kind == TaskKind::Sequences { PLACES } else { 1 }));
                }
                TaskKind::Symbols => {
                    let drawn: Vec<usize> = (0..size).map(|_| random.below(self.width)).collect();
                    y.extend(drawn.iter().map(|s| (symbols[*s] % self.classes) as f64));
                    x.extend(drawn.iter().map(|s| *s as f64));
                }
                TaskKind::Numbers => {
                    let row = noise(&mut random);
                    let of = |t: &[f64]| t.iter().zip(&row).map(|(a, b)| a * b).sum::<f64>() / (size as f64).sqrt();
                    y.push(of(&templates[0]) + of(&templates[1]).tanh());
                    x.extend(row);
                }
            }
        }
        let fault = self.fault;
        if let Some((scale, offset)) = fault.inputs {
            x.iter_mut().for_each(|v| *v = *v * scale + offset);
        }
        if let Some(scale) = fault.targets {
            y.iter_mut().for_each(|v| *v *= scale);
        }
        if let (Some((at, value, all)), true) = (fault.record, learned) {
            let row = &mut x[at * size..(at + 1) * size];
            if all { row.iter_mut().for_each(|v| *v = if value == 0.0 { 0.0 } else { *v * value }) } else { row[0] = value }
        }
        if fault.shuffled {
            (1..y.len()).rev().for_each(|k| y.swap(k, random.below(k + 1)));
        }
        let dims = |inner: &[usize]| [&[rows], inner].concat();
        let inputs = if self.kind == TaskKind::Symbols {
            Tensor::from_vec(x.iter().map(|v| *v as i64).collect::<Vec<_>>(), dims(&inner))
        } else {
            Tensor::from_vec(x.iter().map(|v| *v as f32).collect::<Vec<_>>(), dims(&inner))
        };
        let targets = match self.kind {
            TaskKind::Numbers => Tensor::from_vec(y.iter().map(|v| *v as f32).collect::<Vec<_>>(), [rows, 1]),
            TaskKind::Sequences | TaskKind::Symbols => Tensor::from_vec(y.iter().map(|v| *v as i64).collect::<Vec<_>>(), [rows, PLACES]),
            TaskKind::Rows | TaskKind::Images => Tensor::from_vec(y.iter().map(|v| *v as i64).collect::<Vec<_>>(), [rows]),
        };
        TensorDataset::new(&[&inputs, &targets])
    }
}
/// A number of the normal distribution.
pub fn normal(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}

/// A layer of one's own, as people write them: with a fault that shows for some record, and mended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnOp {
    /// log |x|
    Log,
    /// x · sqrt(sum of x²)
    Norm,
    /// x / sqrt(sum of x²)
    Normalize,
    /// x · 1 / mean |x|
    Inverse,
    /// sqrt(x + 8)
    Root,
    /// exp(x), scaled back
    Exp,
    /// x · softmax(x where it is not 0)
    Masked,
    /// x · 1e5
    Large,
}
#[derive(Module)]
struct OwnLayer {
    site: Site,
    #[module(skip)]
    op: OwnOp,
    #[module(skip)]
    mended: bool,
}
impl Module for OwnLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = self.site.enter();
        let norm = |x: &Tensor| x.square().sum_keepdim(-1);
        match (self.op, self.mended) {
            (OwnOp::Log, false) => x.abs().log().ok(),
            (OwnOp::Log, true) => x.abs().clamp_min(1e-7).log().ok(),
            (OwnOp::Norm, false) => (x * norm(x).sqrt()).ok(),
            (OwnOp::Norm, true) => (x * (norm(x) + 1e-12).sqrt()).ok(),
            (OwnOp::Normalize, false) => (x / norm(x).sqrt().detach()).ok(),
            (OwnOp::Normalize, true) => (x / (norm(x).sqrt().detach() + 1e-6)).ok(),
            (OwnOp::Inverse, false) => (x.tanh() + 0.1 / x.abs().mean_keepdim(-1).detach()).ok(),
            (OwnOp::Inverse, true) => (x.tanh() + 0.1 / (x.abs().mean_keepdim(-1).detach() + 1e-2)).ok(),
            (OwnOp::Root, false) => (x + 8.0).sqrt().ok(),
            (OwnOp::Root, true) => (x + 8.0).clamp_min(1e-3).sqrt().ok(),
            (OwnOp::Exp, false) => (x.exp() * 0.3).ok(),
            (OwnOp::Exp, true) => (x.clamp_max(5.0).exp() * 0.3).ok(),
            (OwnOp::Masked, mended) => {
                let hidden = if mended { -1e9 } else { f64::NEG_INFINITY };
                let seen = x.masked_fill(&x.eq(0.0), hidden).softmax(-1);
                (x * seen * 4.0).ok()
            }
            (OwnOp::Large, _) => (x * 1e5).ok(),
        }
    }
}
/// A layer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum NetLayer {
    Linear(usize, usize),
    Unbiased(usize, usize),
    Conv(usize, usize),
    BatchNorm(usize),
    Norm(usize),
    Relu,
    LeakyRelu,
    Gelu,
    Tanh,
    Sigmoid,
    Softmax,
    Dropout(f64),
    Flatten,
    Lstm(usize, usize),
    Gru(usize, usize),
    Embedding(usize, usize),
    Encoder(usize),
    Own(OwnOp, bool),
}
impl NetLayer {
    fn push(self, net: Sequential) -> Result<Sequential> {
        let recurrent = || RecurrentOptions { batch_first: true, ..Default::default() };
        let own = |op, mended| OwnLayer { site: Site::new("Own"), op, mended };
        Ok(match self {
            NetLayer::Linear(a, b) => net.add(Linear::new(a, b)?),
            NetLayer::Unbiased(a, b) => net.add(Linear::no_bias(a, b)?),
            NetLayer::Conv(a, b) => net.add(Conv2d::with(a, b, 3, ConvOptions { padding: 1.into(), ..Default::default() })?),
            NetLayer::BatchNorm(n) => net.add(BatchNorm2d::new(n)?),
            NetLayer::Norm(n) => net.add(LayerNorm::new([n])?),
            NetLayer::Relu => net.add(Relu::new()),
            NetLayer::LeakyRelu => net.add(LeakyRelu::new()),
            NetLayer::Gelu => net.add(Gelu::new()),
            NetLayer::Tanh => net.add(Tanh::new()),
            NetLayer::Sigmoid => net.add(Sigmoid::new()),
            NetLayer::Softmax => net.add(Softmax::new(-1)),
            NetLayer::Dropout(p) => net.add(Dropout::new(p)?),
            NetLayer::Flatten => net.add(Flatten::with(1, -1)),
            NetLayer::Lstm(a, b) => net.add(Lstm::with(a, b, recurrent())?),
            NetLayer::Gru(a, b) => net.add(Gru::with(a, b, recurrent())?),
            NetLayer::Embedding(n, d) => net.add(Embedding::new(n, d)?),
            NetLayer::Encoder(d) => {
                let options =
                    TransformerOptions { dim_feedforward: 2 * d, dropout: 0.0, activation: Activation::Gelu, batch_first: true, ..Default::default() };
                net.add(TransformerEncoderLayer::with(d, 2, options)?)
            }
            NetLayer::Own(op, mended) => net.add(own(op, mended)),
        })
    }
}
/// What is done to parameters before training.
#[derive(Clone, Debug)]
pub enum WeightEdit {
    /// times a number
    Scale(String, f64),
    /// normal numbers of this deviation
    Normal(String, f64),
    /// one number everywhere
    Fill(String, f64),
    /// a layer's parameters stay as they are
    Freeze(String),
    /// the optimizer does not get a layer's parameters
    LeaveOut(String),
}
/// How a run learns.
#[derive(Clone, Debug)]
pub struct TaskCourse {
    pub adam: bool,
    pub lr: f64,
    pub weight_decay: f64,
    pub clip: Option<f64>,
    pub warm_up: Option<u64>,
    pub batch: usize,
    pub steps: u64,
    pub mode: PrecisionMode,
    pub scaler: bool,
    /// the loss is this times what it should be
    pub loss_scale: f64,
    pub skips: bool,
}
/// A run.
#[derive(Clone, Debug)]
pub struct CauseRun {
    pub seed: u64,
    pub data: TaskData,
    pub layers: Vec<NetLayer>,
    pub edits: Vec<WeightEdit>,
    pub course: TaskCourse,
}
/// How a run ended.
pub struct EndedRun {
    /// the loss of the validation part, of a run that came to its end
    pub valid: Option<f64>,
    /// the loss of the first step, and then of each line of the log
    pub losses: Vec<f64>,
    pub failure: Option<String>,
}
impl EndedRun {
    /// Has it learned anything?
    pub fn has_learned(&self, run: &CauseRun) -> bool {
        self.valid.is_some_and(|valid| valid < 0.8 * run.untaught())
    }
    /// By how much the loss of the first fifth is above the first one.
    pub fn rises(&self) -> f64 {
        let early = self.losses.iter().take((self.losses.len() / 5).max(2));
        early.fold(0.0, |most: f64, loss| most.max(*loss)) / self.losses.first().copied().unwrap_or(f64::NAN)
    }
}
pub const LOOK_EVERY: u64 = 10;
/// Is a parameter the one of this path, or of the layer of this path?
fn is_of(name: &str, path: &str) -> bool {
    name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
impl CauseRun {
    fn net(&self) -> Result<Sequential> {
        manual_seed(self.seed);
        let net = self.layers.iter().try_fold(Sequential::new(), |net, layer| layer.push(net))?;
        let named = net.named_parameters();
        let of = |path: &String| -> Vec<Param> { named.iter().filter(|(name, _)| is_of(name, path)).map(|(_, p)| p.clone()).collect() };
        let mut random = Random::new(self.seed ^ 0xED17);
        for edit in &self.edits {
            match edit {
                WeightEdit::Scale(path, by) => of(path).iter().try_for_each(|p| p.set(&(p.detached() * *by)))?,
                WeightEdit::Fill(path, value) => of(path).iter().try_for_each(|p| p.set(&(p.detached() * 0.0 + *value)))?,
                WeightEdit::Normal(path, std) => {
                    for p in of(path) {
                        let shape = p.meta().shape;
                        let values: Vec<f32> = (0..shape.elements()).map(|_| (normal(&mut random) * std) as f32).collect();
                        p.set(&Tensor::from_vec(values, shape))?;
                    }
                }
                WeightEdit::Freeze(path) => of(path).iter().for_each(|p| p.set_frozen(true)),
                WeightEdit::LeaveOut(_) => {}
            }
        }
        Ok(net)
    }
    fn optimizer(&self, net: &Sequential) -> Box<dyn Optimizer> {
        let left_out = |name: &str| self.edits.iter().any(|e| matches!(e, WeightEdit::LeaveOut(path) if is_of(name, path)));
        let of: Vec<_> = net.named_parameters().into_iter().filter(|(name, p)| p.is_trainable() && !left_out(name)).map(|(_, p)| p).collect();
        let TaskCourse { lr, weight_decay, .. } = self.course;
        if self.course.adam {
            Box::new(AdamW::new(lr).weight_decay(weight_decay).over(of))
        } else {
            Box::new(Sgd::new(lr).momentum(0.9).weight_decay(weight_decay).over(of))
        }
    }
    /// Trains into a folder.
    pub fn run(&self, folder: &Path) -> std::result::Result<EndedRun, Failure> {
        let course = &self.course;
        let loader = |learned: bool| -> Result<DataLoader<TensorDataset>> {
            DataLoader::new(Arc::new(self.data.drawn(learned)?)).batch_size(if learned { course.batch } else { 64 }).build()
        };
        let net = self.net()?;
        let optimizer = self.optimizer(&net);
        let (kind, classes, scale) = (self.data.kind, self.data.classes, course.loss_scale);
        let loss = move |net: &Sequential, batch: &Vec<Tensor>| {
            let y = net.forward(&batch[0])?;
            let loss = match kind {
                TaskKind::Numbers => (y - &batch[1]).square().mean(..),
                _ => cross_entropy(&y.reshape([-1, classes as isize]), &batch[1].flatten(0, -1), &CrossEntropyOptions::default()),
            };
            if scale == 1.0 { loss.ok() } else { (loss * scale).ok() }
        };
        let handling = NanOptions { max_consecutive: 1000, ..NanOptions::from(if course.skips { HandlingType::Skip } else { HandlingType::Stop }) };
        let scaler = ScalerOptions { enabled: course.scaler, ..ScalerOptions::default() };
        let mut trainer = Trainer::new(net, optimizer, loss)
            .steps(course.steps)
            .log_every(5)
            .eval_every(course.steps / 3)
            .look_every(LOOK_EVERY)
            .stability(handling)
            .valid(loader(false)?)
            .checkpoints(CheckpointPlan { every: course.steps * 2, last: 1, best: 0, background: false, warn: false })
            .folder(folder);
        if course.mode != PrecisionMode::F32 {
            trainer = trainer.precision(Precision { scaler, ..Precision::of(course.mode) });
        }
        if let Some(max) = course.clip {
            trainer = trainer.clip(ClippingOptions::global_norm(max));
        }
        if let Some(steps) = course.warm_up {
            trainer = trainer.schedule(LinearLr { start_factor: 0.01, end_factor: 1.0, total_iters: steps });
        }
        let (valid, failure) = match trainer.fit(loader(true)?, &mut ()) {
            Ok(fitted) => (fitted.valid.map(|v| v.loss), None),
            Err(e @ (Failure::Diverged(_) | Failure::Run(_))) => (None, Some(e.to_string())),
            Err(e) => return Err(e),
        };
        let text = std::fs::read_to_string(folder.join("metrics.jsonl")).map_err(|e| Failure::Run(e.to_string()))?;
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let told = lines.filter(|line| line["kind"] == "step" || (line["kind"] == "layers" && line["step"] == 1));
        Ok(EndedRun { valid, losses: told.map(|line| line["loss"].as_f64().unwrap_or(f64::INFINITY)).collect(), failure })
    }
    /// The loss of who knows nothing but how often each answer is given.
    pub fn untaught(&self) -> f64 {
        let loss = if self.data.kind == TaskKind::Numbers { 1.4 } else { (self.data.classes as f64).ln() };
        loss * self.course.loss_scale
    }
}
