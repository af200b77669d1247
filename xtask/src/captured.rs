//! `cargo xtask captured --steps N`: training steps captured whole against the same steps op by op, bit for bit: five models,
//! every optimizer of the registry, and with them in turn every schedule, clipping, accumulation, the running mean of the
//! weights, the watch over numbers, looks at layers, dropout, running statistics and a short last batch. `--plant` shows that frozen numbers, counts and generators are
//! found. Fails where a bit differs, where a step fell back, or where a changing rate made a capture anew.
use crate::{device, exit::Exit};
use adamant::{
    Device, Result, Tensor,
    functional::{CrossEntropyOptions, cross_entropy},
    nn::{
        Activation, AvgPool2d, BatchNorm2d, Conv2d, Dropout, Embedding, Flatten, LayerNorm, Linear, Lstm, MaxPool2d, Module, RecurrentOptions, Relu,
        Sequential, Site, TransformerEncoderLayer, TransformerOptions, Walk, manual_seed,
    },
    optim::{ClippingOptions, ClippingType},
    stability::{HandlingType, NanOptions, WatchMode},
};
use adamant_core::planted::Plant;
use adamant_train::{Document, Failure, Habits, Look, OPTIMIZERS, Precision, SCHEDULES, Session, course, optimizer};
use std::{sync::Arc, time::Instant};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// cpu, cuda:N or wgpu:N
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Steps of each run
    #[arg(long, default_value_t = 200)]
    steps: u64,
    /// Only models whose name contains this
    #[arg(long, default_value = "")]
    model: String,
    /// Only optimizers whose name contains this
    #[arg(long, default_value = "")]
    optimizer: String,
    /// Plant this fault, or `all` one after the other, and show that it is found
    #[arg(long)]
    plant: Option<String>,
}

type Pairs = Session<Sequential, (Tensor, Tensor)>;
/// A net that sorts rows into classes.
pub struct SortingTask {
    pub name: &'static str,
    pub input: &'static [usize],
    pub classes: usize,
    /// are the inputs numbers of symbols, each of which has a class?
    pub symbols: bool,
    /// has each place of the first axis after the rows a class?
    pub sequence: bool,
    pub net: fn() -> Result<Sequential>,
}
/// x + f(x)
#[derive(Module)]
struct ResidualLayer {
    site: Site,
    body: Sequential,
}
impl Module for ResidualLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = self.site.enter();
        (x + self.body.forward(x)?).ok()
    }
}
pub const TASKS: [SortingTask; 5] = [
    SortingTask { name: "digits CNN", input: &[1, 8, 8], classes: 10, symbols: false, sequence: false, net: cnn },
    SortingTask { name: "char-GPT", input: &[6], classes: 11, symbols: true, sequence: true, net: gpt },
    SortingTask { name: "LSTM", input: &[5, 4], classes: 3, symbols: false, sequence: true, net: lstm },
    SortingTask { name: "residual net", input: &[3, 6, 6], classes: 4, symbols: false, sequence: false, net: residual },
    SortingTask { name: "MLP", input: &[32], classes: 10, symbols: false, sequence: false, net: mlp },
];
fn cnn() -> Result<Sequential> {
    let features = Sequential::new().add(Conv2d::new(1, 4, 3)?).add(Relu::new()).add(MaxPool2d::new(2));
    Ok(features.add(Flatten::with(1, -1)).add(Linear::new(36, 10)?))
}
fn gpt() -> Result<Sequential> {
    let options = TransformerOptions {
        dim_feedforward: 16,
        dropout: 0.1,
        activation: Activation::Gelu,
        batch_first: true,
        norm_first: true,
        is_causal: true,
        ..Default::default()
    };
    let model = Sequential::new().add(Embedding::new(11, 8)?).add(TransformerEncoderLayer::with(8, 2, options)?);
    Ok(model.add(LayerNorm::new([8])?).add(Linear::new(8, 11)?))
}
fn lstm() -> Result<Sequential> {
    let options = RecurrentOptions { batch_first: true, ..Default::default() };
    Ok(Sequential::new().add(Lstm::with(4, 6, options)?).add(Linear::new(6, 3)?))
}
fn residual() -> Result<Sequential> {
    let body = Sequential::new().add(Conv2d::with(4, 4, 3, same())?).add(BatchNorm2d::new(4)?).add(Relu::new()).add(Dropout::new(0.2)?);
    let body = body.add(Conv2d::with(4, 4, 3, same())?).add(BatchNorm2d::new(4)?);
    let model = Sequential::new().add(Conv2d::with(3, 4, 3, same())?).add(ResidualLayer { site: Site::new("Residual"), body }).add(Relu::new());
    Ok(model.add(AvgPool2d::new(3)).add(Flatten::with(1, -1)).add(Linear::new(16, 4)?))
}
fn same() -> adamant::nn::ConvOptions {
    adamant::nn::ConvOptions { padding: 1.into(), ..Default::default() }
}
fn mlp() -> Result<Sequential> {
    Ok(Sequential::new().add(Linear::new(32, 64)?).add(Relu::new()).add(Dropout::new(0.1)?).add(Linear::new(64, 10)?))
}

/// A schedule's keys, so that its rate changes within a few steps.
fn schedule(kind: &str, steps: u64) -> String {
    match kind {
        "StepLR" => "step_size = 4".into(),
        "MultiStepLR" => "milestones = [3, 8]".into(),
        "ExponentialLR" => "gamma = 0.99".into(),
        "CosineAnnealingWarmRestarts" => "T_0 = 5".into(),
        "OneCycleLR" => "max_lr = 0.02".into(),
        "CyclicLR" => "base_lr = 0.001\nmax_lr = 0.02\nstep_size_up = 4".into(),
        "SequentialLR" => "milestones = [4]\nschedulers = [{ kind = \"LinearLR\" }, { kind = \"OneCycleLR\", max_lr = 0.02 }]".into(),
        "ChainedScheduler" => "schedulers = [{ kind = \"CyclicLR\", base_lr = 0.001, max_lr = 0.02, step_size_up = 3 }, { kind = \"ConstantLR\" }]".into(),
        "ReduceLROnPlateau" => "patience = 1\ncooldown = 1\nfactor = 0.5".into(),
        "CosineAnnealingLR" => format!("T_max = {steps}"),
        "SWALR" => "swa_lr = 0.002\nanneal_epochs = 3".into(),
        _ => String::new(),
    }
}
/// What a pair is run with, in turn over all of its kind.
struct Case<'a> {
    task: &'a SortingTask,
    optimizer: &'a str,
    turn: usize,
    steps: u64,
}
impl Case<'_> {
    fn schedule(&self) -> &'static str {
        SCHEDULES[self.turn % SCHEDULES.len()]
    }
    fn clip(&self) -> Option<ClippingOptions> {
        let kind = |k: usize| {
            let kind = ClippingType::ALL[k % ClippingType::ALL.len()];
            // Limits that are met within a few steps.
            ClippingOptions { max_norm: 0.5, max_value: 0.05, adaptive_factor: 0.8, z_warm_up: 2, z_threshold: 0.5, ..kind.into() }
        };
        match self.turn % 3 {
            0 if self.task.name != "MLP" => None,
            _ => Some(kind(self.turn)),
        }
    }
    /// Nobody looks, or a watch that finds nothing, one at each op, or one that suppresses steps whose gradients are a little larger than those before.
    fn stability(&self) -> Option<NanOptions> {
        let explosions = NanOptions { detect_explosion: true, explosion_factor: 1.2, max_consecutive: 1000, ..HandlingType::Skip.into() };
        let full = NanOptions { mode: WatchMode::Full, ..NanOptions::default() };
        [None, Some(NanOptions::default()), Some(explosions), Some(full)][self.turn / 3 % 4].clone()
    }
    fn accumulate(&self) -> usize {
        [1, 2, 1, 3][self.turn % 4]
    }
    fn ema(&self) -> Option<f64> {
        [None, Some(0.9), None, Some(0.3), None][self.turn % 5]
    }
    fn text(&self) -> String {
        let more = match self.optimizer {
            "SGD" => ["momentum = 0.9", "momentum = 0.9\nnesterov = true", "momentum = 0.5\ndampening = 0.2", "weight_decay = 0.01", ""][self.turn % 5],
            "Adam" | "AdamW" => ["weight_decay = 0.01", "amsgrad = true"][self.turn % 2],
            "RMSprop" => ["centered = true\nmomentum = 0.3", "weight_decay = 0.01"][self.turn % 2],
            "Adagrad" => "lr_decay = 0.01",
            "ASGD" => "t0 = 3",
            _ => "",
        };
        let schedule = schedule(self.schedule(), self.steps);
        format!("[optimizer]\nkind = \"{}\"\nlr = 0.004\n{more}\n[schedule]\nkind = \"{}\"\n{schedule}\n", self.optimizer, self.schedule())
    }
    fn session(&self, capture: bool, device: Device) -> std::result::Result<Pairs, Failure> {
        let document = Document::parse("case.toml", &self.text())?;
        let root = document.root()?;
        manual_seed(7 + self.turn as u64);
        let model = (self.task.net)()?;
        let optimizer = optimizer(root.need("optimizer", root.section("optimizer")?)?, model.trainable_parameters())?;
        let course = course(&root, self.steps, false)?;
        let habits = Habits {
            optimizer,
            course,
            clip: self.clip(),
            stability: self.stability(),
            accumulate: self.accumulate(),
            ema: self.ema(),
            capture,
            precision: Precision::default(),
        };
        let (classes, sequence) = (self.task.classes, self.task.sequence);
        let loss = move |m: &Sequential, (x, y): &(Tensor, Tensor)| {
            let out = m.forward(x)?;
            let (out, y) = if sequence { (out.reshape([y.shape()?.elements(), classes]), y.flatten(0, -1)) } else { (out, y.clone()) };
            cross_entropy(&out, &y, &CrossEntropyOptions::default()).ok()
        };
        Session::new(model, Arc::new(loss), habits, device)
    }
    /// The batches of a step: every fifth is short, every seventh has fewer of them.
    fn group(&self, step: u64, device: Device) -> Vec<(Tensor, Tensor)> {
        let many = if step % 7 == 6 { 1 } else { self.accumulate() };
        (0..many as u64).map(|k| self.batch(step * 8 + k, if step % 5 == 4 && k + 1 == many as u64 { 3 } else { 4 }, device)).collect()
    }
    fn batch(&self, k: u64, rows: usize, device: Device) -> (Tensor, Tensor) {
        let mut state = k.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (self.turn as u64) << 17;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let dims: Vec<usize> = std::iter::once(rows).chain(self.task.input.iter().copied()).collect();
        let n = dims.iter().product();
        let classes = self.task.classes as u64;
        let x = if self.task.symbols {
            Tensor::from_vec_on((0..n).map(|_| (next() % classes) as i64).collect(), dims.clone(), device)
        } else {
            Tensor::from_vec_on((0..n).map(|_| (next() % 2001) as f32 / 1000.0 - 1.0).collect(), dims.clone(), device)
        };
        let places = if self.task.sequence { vec![rows, dims[1]] } else { vec![rows] };
        let y = Tensor::from_vec_on((0..places.iter().product()).map(|_| (next() % classes) as i64).collect(), places, device);
        (x, y)
    }
    /// The bits of a step's loss and norm.
    fn step(&self, session: &mut Pairs, step: u64, device: Device) -> std::result::Result<Vec<u64>, Failure> {
        let look = Look { norm: step % 10 == 9, each: step % 20 == 19, layers: step % 20 == 4, ..Look::default() };
        let stepped = session.step(&self.group(step, device), look)?;
        // It gets better, then stalls.
        session.measured(if step < 3 { 1.0 / (step + 1) as f64 } else { 0.5 }, None)?;
        let mut bits = vec![session.loss()?.to_bits()];
        bits.extend(stepped.grad_norm.map(|n| n.item::<f64>()).transpose()?.map(f64::to_bits));
        bits.extend(stepped.norms.iter().map(|(_, norm)| norm.to_bits()));
        if let Some(seen) = &stepped.layers {
            let or_none = |x: Option<f64>| x.unwrap_or(-1.0);
            bits.extend(seen.batch.iter().flat_map(|b| [b.largest, b.mean, b.zeros]).map(f64::to_bits));
            bits.extend(seen.layers.iter().flat_map(|l| [l.largest, l.mean, l.zeros, or_none(l.dead), or_none(l.saturated)]).map(f64::to_bits));
            bits.extend(seen.parameters.iter().flat_map(|p| [or_none(p.gradient), p.weight, p.update, or_none(p.range)]).map(f64::to_bits));
        }
        Ok(bits)
    }
    /// What differs between a captured run and one op by op; else how often it was captured.
    fn compare(&self, device: Device) -> std::result::Result<std::result::Result<(u64, u64), String>, Failure> {
        let (mut whole, mut plain) = (self.session(true, device)?, self.session(false, device)?);
        // The two have a generator each: what one drew, the other draws too.
        let mut states = [adamant::nn::rng_state(device)?; 2];
        for step in 0..self.steps {
            let mut seen = Vec::new();
            for (session, state) in [&mut whole, &mut plain].into_iter().zip(&mut states) {
                adamant::nn::set_rng_state(device, *state)?;
                seen.push(self.step(session, step, device)?);
                *state = adamant::nn::rng_state(device)?;
            }
            if let Some(why) = whole.op_by_op() {
                return Ok(Err(format!("step {} ran op by op: {}", step + 1, why.reason)));
            }
            if seen[0] != seen[1] {
                let [a, b] = [0, 1].map(|k: usize| seen[k].iter().map(|bits| f64::from_bits(*bits)).collect::<Vec<_>>());
                return Ok(Err(format!("step {}: loss and norms {a:?} captured, {b:?} op by op", step + 1)));
            }
            if states[0] != states[1] {
                return Ok(Err(format!("step {}: the generators differ", step + 1)));
            }
        }
        let (a, b) = (whole.snapshot(serde_json::Value::Null)?, plain.snapshot(serde_json::Value::Null)?);
        if a.state != b.state {
            return Ok(Err(format!("the states differ: {} captured, {} op by op", a.state, b.state)));
        }
        for (part, tensors) in &a.tensors {
            for ((name, x), (other, y)) in tensors.iter().zip(b.tensors.get(part).into_iter().flatten()) {
                if name != other || x.to_bytes()? != y.to_bytes()? {
                    return Ok(Err(format!("{part}/{name} differs in the end")));
                }
            }
        }
        let captures = whole.captures();
        Ok(if captures.structures > 16 { Err(format!("captured {} times", captures.structures)) } else { Ok((captures.structures, captures.sizes)) })
    }
}

/// Runs the cases and reports.
pub fn run(options: &Options) -> Exit {
    if let Some(plant) = &options.plant {
        let chosen = match crate::fuzz_graphs::chosen(plant, &Plant::OF_CAPTURES) {
            Ok(chosen) => chosen,
            Err(exit) => return exit,
        };
        return planted(options, &chosen);
    }
    let device = match device::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    let begun = Instant::now();
    let (mut cases, mut wrong) = (0, 0);
    for (t, task) in TASKS.iter().enumerate().filter(|(_, t)| t.name.contains(&options.model)) {
        for (o, optimizer) in OPTIMIZERS.iter().enumerate().filter(|(_, o)| o.contains(&options.optimizer)) {
            // Coprime steps: with the models, each optimizer meets other schedules and habits.
            let case = Case { task, optimizer, turn: o + 5 * t, steps: options.steps };
            cases += 1;
            let with = format!(
                "{}, clip {}, accumulate {}, ema {:?}",
                case.schedule(),
                case.clip().map_or_else(|| "off".into(), |clip| clip.to_string()),
                case.accumulate(),
                case.ema()
            );
            match device.scoped(|| case.compare(device)) {
                Ok(Ok((structures, sizes))) => println!("{} with {optimizer} ({with}): the same bits; {structures} structures, {sizes} sizes", task.name),
                Ok(Err(what)) => {
                    wrong += 1;
                    println!("{} with {optimizer} ({with}): {what}", task.name);
                }
                Err(e) => {
                    wrong += 1;
                    println!("{} with {optimizer} ({with}): {e}", task.name);
                }
            }
        }
    }
    println!("{cases} pairs of {} steps on {device} in {:.1} s: {wrong} differ", options.steps, begun.elapsed().as_secs_f64());
    if wrong == 0 && cases > 0 { Exit::Passed } else { Exit::Failed }
}
#[cfg(feature = "planted-faults")]
fn planted(options: &Options, chosen: &[Plant]) -> Exit {
    use adamant::cpu::{Context, CpuBackend};
    let mut lost = 0;
    for &plant in chosen {
        // A device of its own: plans made under one fault must not serve another.
        let device = match Context::new(CpuBackend::builder()) {
            Ok(context) => context.device(),
            Err(e) => {
                eprintln!("{e}");
                return Exit::DeviceAbsent;
            }
        };
        let case = Case { task: &TASKS[4], optimizer: "AdamW", turn: 4, steps: options.steps.min(20) };
        match adamant_core::planted::with(plant, || device.scoped(|| case.compare(device))) {
            Ok(Err(what)) => println!("{plant:?}: found: {what}"),
            Ok(Ok(_)) => {
                lost += 1;
                println!("{plant:?}: NOT found");
            }
            Err(e) => println!("{plant:?}: found: {e}"),
        }
    }
    println!("{} of {} faults found", chosen.len() - lost, chosen.len());
    if lost == 0 { Exit::Passed } else { Exit::Failed }
}
#[cfg(not(feature = "planted-faults"))]
fn planted(_: &Options, _: &[Plant]) -> Exit {
    crate::fuzz_graphs::with_faults()
}
