//! The loop: small batches, accumulation, clipping, a step, a line now and then, and the state of a run in a file.
use crate::{
    corpus::Corpus,
    options::{Options, wrong},
    pace::Pace,
};
use adamant::{
    Device, Result, Tensor,
    amp::{Autocast, GradScaler, Precision},
    compile, formats,
    functional::{CrossEntropyOptions, cross_entropy},
    models::Gpt2LmHead,
    nn,
    nn::{Module, Param, Walk},
    optim::{
        AdamW, GradAccumulator, Optimizer, UpdateRule, Updater, clip_grad_norm,
        schedule::{LambdaLr, Schedule, Scheduler, SchedulerState},
    },
};
use std::{collections::BTreeMap, path::Path, time::Instant};

/// Steps that are not timed: kernels are compiled in them, and plans are frozen.
const WARM: u64 = 4;

/// What a run came to.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Outcome {
    /// the loss of each step that was told, by its number from 1
    pub losses: Vec<(u64, f64)>,
    /// the norm of the gradients of these steps, before they were clipped
    pub norms: Vec<f64>,
    /// of the steps behind the first four; none of a run that has no more
    pub tokens_per_second: Option<f64>,
    pub mfu: Option<f64>,
}

/// Trains, and says how it goes.
///
/// # Errors
/// Options that make no sense, a device that is not there, a file that cannot be read or written, memory.
pub fn run(options: &Options) -> Result<Outcome> {
    options.check()?;
    #[cfg(feature = "emulated")]
    if let Some(card) = &options.emulated {
        use adamant_cuda_emulator::{Emulator, Options as Emulated};
        if let Err(e) = Emulator::install(Emulated::of(card)) {
            return wrong(e.to_string(), "see --emulated");
        }
    }
    let device: Device = options.device.parse()?;
    device.scoped(|| train(options, device))
}
/// A network, what trains it, and where it is.
pub(crate) struct Learner {
    pub net: Gpt2LmHead,
    pub optimizer: Updater<AdamW>,
    schedule: Scheduler<Box<dyn Schedule>>,
    region: Option<Autocast>,
    scaler: GradScaler,
}
impl Learner {
    pub fn new(options: &Options) -> Result<Learner> {
        nn::manual_seed(options.seed);
        let net = Gpt2LmHead::new(options.network())?;
        // Biases and the gains of norms are not drawn towards 0.
        let (matrices, others): (Vec<Param>, Vec<Param>) = net.parameters().into_iter().partition(|p| p.meta().shape.rank() >= 2);
        let rule = AdamW::new(options.lr).betas((0.9, 0.95)).weight_decay(options.decay);
        let mut optimizer = rule.clone().over(matrices).group(rule.weight_decay(0.0), others).ok()?;
        let schedule = Scheduler::new(Box::new(LambdaLr(options.course())) as Box<_>, &mut optimizer);
        let precision = Precision::of(options.precision);
        Ok(Learner { net, optimizer, schedule, region: precision.region()?, scaler: GradScaler::with(precision.scaler)? })
    }
    /// One step of small batches, `x` and `y` of each in turn. Gives the mean loss and the norm of the gradients; nothing waits.
    fn step(&mut self, batches: &[Tensor], clip: f64) -> Result<Vec<Tensor>> {
        let Learner { net, optimizer, schedule, region, scaler } = self;
        let parameters = optimizer.parameters();
        let done = scaler.attempt(|scaler| {
            let mut accumulator = GradAccumulator::new(parameters.clone(), batches.len() / 2)?;
            let (mut whole, mut losses) = (None, Vec::new());
            for pair in batches.chunks_exact(2) {
                let forward = || next_token_loss(net, &pair[0], &pair[1]);
                let loss = region.as_ref().map_or_else(forward, |region| region.run(forward))?;
                whole = accumulator.add(scaler.scale(&loss)?.backward()?, pair[0].size(0)?)?;
                losses.push(loss.detach());
            }
            let mut grads = whole.unwrap_or_default();
            scaler.unscale_(&mut grads, optimizer)?;
            let norm = clip_grad_norm(&mut grads, &parameters, clip)?;
            scaler.step(optimizer, &mut grads)?;
            Ok(vec![Tensor::stack(&losses, 0).mean(..).ok()?, norm])
        })?;
        schedule.step(optimizer);
        Ok(done)
    }
    /// Writes weights and the optimizer's state.
    fn save(&self, path: &Path) -> Result<()> {
        let weights = self.net.state_dict().into_iter().map(|(name, t)| (format!("model.{name}"), t));
        let slots = self.optimizer.state_dict().into_iter().map(|(name, t)| (format!("optimizer.{name}"), t));
        let scales = self.scaler.state_dict()?.into_iter().map(|(name, t)| (format!("scaler.{name}"), t));
        let texts = BTreeMap::from([("steps".to_string(), self.schedule.steps().to_string())]);
        formats::safetensors::save(path, weights.chain(slots).chain(scales), &texts)
    }
    fn resume(&mut self, path: &Path) -> Result<()> {
        let texts = formats::safetensors::SafeTensors::open(path)?.texts();
        let Some(steps) = texts.get("steps").and_then(|text| text.parse().ok()) else {
            return wrong(format!("{} says nothing of steps", path.display()), "--resume takes what --save wrote");
        };
        let mut parts: BTreeMap<String, Vec<(String, Tensor)>> = BTreeMap::new();
        for (name, tensor) in formats::safetensors::load(path)? {
            let Some((part, name)) = name.split_once('.') else { continue };
            parts.entry(part.into()).or_default().push((name.into(), tensor));
        }
        let of = |part: &str| parts.get(part).map_or(&[][..], Vec::as_slice);
        self.net.load_state_dict(of("model"))?;
        self.optimizer.load_state_dict(of("optimizer"))?;
        self.scaler.load_state_dict(of("scaler"))?;
        self.schedule.restore(&SchedulerState { steps, ..self.schedule.state() }, &mut self.optimizer)?;
        self.schedule.set_again(&mut self.optimizer);
        Ok(())
    }
}
fn next_token_loss(net: &Gpt2LmHead, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let logits = net.forward(x)?;
    cross_entropy(&logits.flatten(0, 1), &y.flatten(0, 1), &CrossEntropyOptions::default()).ok()
}
fn train(options: &Options, device: Device) -> Result<Outcome> {
    let corpus = Corpus::open(options)?;
    let mut learner = Learner::new(options)?;
    let parameters = learner.net.parameter_count();
    if let Some(path) = &options.resume {
        learner.resume(path)?;
    }
    let pace = Pace {
        flops: Pace::flops(parameters, options.layers, options.features, options.context),
        peak: Pace::peak(options.peak_tflops, device, options.precision),
    };
    println!("{parameters} parameters on {device}, {}, {} tokens to learn from, {} of a step", device.info().name, corpus.len(), options.tokens_of_a_step());
    println!("{:.3e} operations of a token, {}", pace.flops, pace.peak.map_or_else(|| "peak unknown".into(), |peak| format!("at most {peak:.3e} in a second")));

    let (captures, mut outcome) = (compile::captures(), Outcome::default());
    let first = learner.schedule.steps();
    let (mut told_at, mut told, mut timed) = (Instant::now(), first, None);
    for step in first..options.steps {
        if step == first + WARM {
            device.synchronize()?;
            timed = Some((Instant::now(), step));
        }
        let batches: Vec<Tensor> = (0..options.accumulate as u64)
            .flat_map(|k| {
                let (x, y) = corpus.batch(options, step * options.accumulate as u64 + k);
                [x, y]
            })
            .collect();
        let lr = learner.optimizer.lrs().first().copied().unwrap_or_default();
        let mut one = |given: &[Tensor]| learner.step(given, options.clip);
        let out = if options.captured { captures.call_with(&batches.iter().collect::<Vec<_>>(), &mut one)?.into_vec() } else { one(&batches)? };
        let (done, last) = (step + 1, step + 1 == options.steps);
        if let ([loss, norm], true) = (&out[..], last || done == first + 1 || done.is_multiple_of(options.log_every)) {
            let (loss, norm) = (loss.item::<f64>()?, norm.item::<f64>()?);
            let speed = ((done - told) as usize * options.tokens_of_a_step()) as f64 / told_at.elapsed().as_secs_f64();
            println!("step {done:>5}/{}  loss {loss:.4}  norm {norm:.3}  lr {lr:.2e}  {}", options.steps, pace.told(speed));
            outcome.losses.push((done, loss));
            outcome.norms.push(norm);
            (told_at, told) = (Instant::now(), done);
        }
    }
    device.synchronize()?;
    if let Some((begun, from)) = timed {
        let speed = ((options.steps - from) as usize * options.tokens_of_a_step()) as f64 / begun.elapsed().as_secs_f64();
        (outcome.tokens_per_second, outcome.mfu) = (Some(speed), pace.mfu(speed));
        println!("{} steps behind the first {WARM}: {}", options.steps - from, pace.told(speed));
    }
    if let Some(path) = &options.save {
        learner.save(path)?;
    }
    Ok(outcome)
}
