//! Training steps: clear gradients (there are none to clear), forward, loss, backward, optimizer step, the loss read as
//! a number.
use super::{
    models::{Gpt, GptSizes, Lstm, ModelWeights, ResNet, tokens},
    precision::{near, region, run_in},
};
use adamant::{
    DType, Device, Result, Tensor,
    amp::{Autocast, GradScaler, ScalerOptions},
    functional::{ConvOptions, CrossEntropyOptions, MaxPoolOptions, cross_entropy, embedding, max_pool2d},
    nn::Param,
    optim::{Adam, AdamW, Optimizer, Sgd, UpdateRule},
    stability::{HandlingType, LayerLook, NanHandler, NanOptions, WatchMode},
};
use adamant_bench::{
    Checked, Prepared, Problem, Scale, WatchKind, Workload, ensure,
    inputs::{indices, tensor},
};
use adamant_core::intercept::casting_once;
use std::{cell::RefCell, hint::black_box, rc::Rc};

/// The networks by the names of their workloads.
pub const TASKS: [(&str, fn(Scale) -> Result<TrainingTask>); 5] =
    [("train_mlp_b128", mlp), ("train_lenet_b128", lenet), ("train_resnet18_b32", resnet), ("train_chargpt_b8", chargpt), ("train_lstm_b32", lstm)];
/// The family.
pub fn workloads() -> Vec<Workload> {
    TASKS.map(|(name, build)| train(name, build)).into()
}

/// A network with its data and its optimizer.
pub struct TrainingTask {
    parameters: Vec<Param>,
    loss: Box<dyn Fn() -> Result<Tensor>>,
    optimizer: Box<dyn Optimizer>,
    /// what forward and loss run in, where a precision was asked for
    region: Option<Autocast>,
    /// on in f16, as it is where somebody learns in f16
    scaler: GradScaler,
    /// looks at the numbers of each step, where that was asked for
    watch: Option<NanHandler>,
    /// whose layers are looked at in each step, where that was asked for
    looks: Option<Vec<(String, Param)>>,
}
impl TrainingTask {
    fn new(weights: ModelWeights, rule: impl UpdateRule + 'static, loss: impl Fn() -> Result<Tensor> + 'static) -> TrainingTask {
        let optimizer = Box::new(rule.over(weights.parameters.clone()));
        TrainingTask { optimizer, parameters: weights.parameters, loss: Box::new(loss), region: None, scaler: GradScaler::default(), watch: None, looks: None }
    }
    /// The same in a precision.
    pub fn in_precision(self, precision: DType) -> Result<TrainingTask> {
        // A scale at which no step is suppressed: each is the same work.
        let scaler = GradScaler::with(ScalerOptions { enabled: precision == DType::F16, init_scale: 1024.0, ..ScalerOptions::default() })?;
        Ok(TrainingTask { region: Some(region(precision)?), scaler, ..self })
    }
    /// The same under a watch, as it is by default where somebody trains, or one that looks at more.
    pub fn watched(self, kind: WatchKind) -> Result<TrainingTask> {
        let mode = if kind == WatchKind::Full { WatchMode::Full } else { WatchMode::Watch };
        let parameters = self.parameters.iter().enumerate().map(|(k, p)| (format!("parameter{k}"), p.clone()));
        let looks = (kind == WatchKind::Layers).then(|| parameters.collect());
        let options = NanOptions { mode, ..HandlingType::Stop.into() };
        Ok(TrainingTask { watch: Some(NanHandler::new(options)?), looks, ..self })
    }
    /// The loss of the batch.
    pub fn forward(&self) -> Result<Tensor> {
        run_in(self.region.as_ref(), &self.loss)
    }
    /// Losses of so many small batches of one step, and the gradients of each.
    pub fn passes(&self, batches: usize) -> Result<Vec<Tensor>> {
        casting_once(|| {
            let mut all = Vec::new();
            for _ in 0..batches {
                let loss = self.forward()?;
                let grads = loss.backward()?;
                all.extend([loss.detach()].into_iter().chain(self.parameters.iter().filter_map(|p| grads.of(&p.cell()).cloned())));
            }
            Ok(all)
        })
    }
    /// One step, and its loss.
    pub fn step(&mut self) -> Result<f32> {
        let TrainingTask { parameters, loss, optimizer, region, scaler, watch, looks } = self;
        if let Some(watch) = watch {
            let mut look = looks.as_ref().map(|_| LayerLook::new());
            let named = looks.as_deref().unwrap_or_default();
            let (loss, seen) = watch.attempt(|watch| {
                let forward = || run_in(region.as_ref(), loss);
                let loss = match &mut look {
                    Some(look) => look.forward(forward)?,
                    None => forward()?,
                };
                let mut grads = loss.backward()?;
                watch.handle(&loss, &mut grads, parameters)?;
                look.as_mut().map(|look| look.gradients(&grads, named)).transpose()?;
                optimizer.step(&grads)?;
                Ok((loss, look.map(|look| look.finish(named)).transpose()?))
            })?;
            if let Some((numbers, names)) = seen {
                black_box(names.read(&numbers)?);
            }
            return loss.item::<f32>();
        }
        if !scaler.is_enabled() {
            let loss = run_in(region.as_ref(), loss)?;
            let grads = loss.backward()?;
            optimizer.step(&grads)?;
            return loss.item::<f32>();
        }
        let loss = scaler.attempt(|scaler| {
            let loss = run_in(region.as_ref(), loss)?;
            let mut grads = scaler.scale(&loss)?.backward()?;
            scaler.step(&mut **optimizer, &mut grads)?;
            Ok::<_, adamant::Error>(loss)
        })?;
        loss.item::<f32>()
    }
}
fn train(name: &'static str, build: fn(Scale) -> Result<TrainingTask>) -> Workload {
    Workload::new(name, None, move |scale| {
        prepared(build(scale)?, move |task| {
            agree(build)?;
            slope(task)
        })
    })
    .with_precision(move |scale, precision| {
        prepared(build(scale)?.in_precision(precision)?, move |_| {
            // The slope along a gradient is lost in the rounding of 16 bits. The plain interpreter rounds at the same places.
            let small = || -> Result<Vec<f64>> {
                let all = build(Scale::SMALL)?.in_precision(precision)?.passes(1)?;
                Ok(all.iter().map(Tensor::to_vec_as::<f64>).collect::<Result<Vec<_>>>()?.concat())
            };
            near(precision, &small()?, &Device::reference().scoped(small)?)
        })
    })
    .with_watch(move |scale, kind| {
        prepared(build(scale)?.watched(kind)?, move |_| {
            let (watched, plain) = (losses(build(Scale::SMALL)?.watched(kind)?)?, losses(build(Scale::SMALL)?)?);
            ensure(watched == plain, || format!("the losses of three steps are {plain:?}, under the watch {watched:?}"))?;
            Ok(0.0)
        })
    })
    .with_memory()
}
fn prepared(task: TrainingTask, verify: impl Fn(&TrainingTask) -> Checked<f64> + 'static) -> Checked<Prepared> {
    let task = Rc::new(RefCell::new(task));
    let (checked, shown) = (task.clone(), task.clone());
    let step = move || {
        black_box(task.borrow_mut().step()?);
        Ok(())
    };
    // Once: after many steps the gradient is so small that its slope is rounding.
    Ok(Prepared::checked_once(step, move || verify(&checked.borrow()))
        // The losses of three steps: what forward, backward and the optimizer give, where others begin with the same weights.
        .showing(move || (0..3).map(|_| Ok(shown.borrow_mut().step()?)).collect()))
}
/// Of three steps.
fn losses(mut task: TrainingTask) -> Result<Vec<f64>> {
    (0..3).map(|_| Ok(task.step()?.into())).collect()
}
/// At small shapes three steps give the losses that the plain interpreter gives.
fn agree(build: fn(Scale) -> Result<TrainingTask>) -> Checked<()> {
    let small = || losses(build(Scale::SMALL)?);
    let (ours, exact) = (small()?, Device::reference().scoped(small)?);
    let same = ours.iter().zip(&exact).all(|(a, b)| (a - b).abs() <= 2e-3 * b.abs());
    ensure(same, || format!("at small shapes the losses of three steps are {ours:?}, on the reference {exact:?}"))
}
/// Along its gradient a loss changes by the gradient's square: the difference of two losses, to both sides. How far from
/// it, as a share of what is allowed.
fn slope(task: &TrainingTask) -> Checked<f64> {
    const ALLOWED: f64 = 0.1;
    let loss = (task.loss)()?;
    let grads = loss.backward()?;
    let start: Vec<(Tensor, Tensor)> = task
        .parameters
        .iter()
        .map(|p| Ok((p.detached(), grads.of(&p.cell()).cloned().ok_or_else(|| super::models::missing("a gradient"))?)))
        .collect::<Result<_>>()?;
    let square = start.iter().try_fold(0.0, |sum, (_, g)| Ok::<_, Problem>(sum + (g * g).sum(..).item::<f64>()?))?;
    // So far that the loss changes by 4 parts in 10,000: far above its rounding, and so near that few units of a
    // rectifier or a maximum switch over, of which each bends the line.
    let t = 2e-4 * loss.item::<f64>()? / square;
    let at = |sign: f64| -> Result<f64> {
        for (p, (w, g)) in task.parameters.iter().zip(&start) {
            p.set(&(w + g * (sign * t)))?;
        }
        (task.loss)()?.item::<f64>()
    };
    let measured = (at(1.0)? - at(-1.0)?) / (2.0 * t);
    for (p, (w, _)) in task.parameters.iter().zip(&start) {
        p.set(w)?;
    }
    adamant::flush()?;
    let error = (measured / square - 1.0).abs();
    ensure(error < ALLOWED, || format!("the loss grows by {measured} along the gradient, whose square is {square}"))?;
    Ok(error / ALLOWED)
}

fn entropy(logits: &Tensor, target: &Tensor) -> Result<Tensor> {
    cross_entropy(logits, target, &CrossEntropyOptions::default()).ok()
}
fn mlp(s: Scale) -> Result<TrainingTask> {
    let (batch, sizes) = (s.of(128, 5), [784, 512, 256, 10].map(|n| s.at_most(n, 12)));
    let mut w = ModelWeights::default();
    let layers = sizes.windows(2).map(|io| w.dense(io[0], io[1], true)).collect::<Result<Vec<_>>>()?;
    let (x, y) = (tensor(&[batch, sizes[0]], 1), indices(&[batch], sizes[3]));
    Ok(TrainingTask::new(w, Adam::new(1e-3), move || {
        let h = layers[0].of(&x).relu();
        let h = layers[1].of(&h).relu();
        entropy(&layers[2].of(&h), &y)
    }))
}
fn lenet(s: Scale) -> Result<TrainingTask> {
    let (batch, size) = (s.of(128, 3), s.of(28, 8));
    let (a, b, hidden) = (s.of(32, 3), s.of(64, 4), s.of(128, 9));
    let mut w = ModelWeights::default();
    let (c1, c2) = (w.convolution(1, a, 3, ConvOptions::default(), true)?, w.convolution(a, b, 3, ConvOptions::default(), true)?);
    let flat = b * ((size - 4) / 2).pow(2);
    let (f1, f2) = (w.dense(flat, hidden, true)?, w.dense(hidden, 10, true)?);
    let (x, y) = (tensor(&[batch, 1, size, size], 1), indices(&[batch], 10));
    let pool = MaxPoolOptions::new(2);
    Ok(TrainingTask::new(w, Adam::new(1e-3), move || {
        let h = c2.of(&c1.of(&x).relu()).relu();
        let h = max_pool2d(&h, &pool).0.reshape([batch, flat]);
        entropy(&f2.of(&f1.of(&h).relu()), &y)
    }))
}
fn resnet(s: Scale) -> Result<TrainingTask> {
    let (batch, size) = (s.of(32, 4), s.of(32, 16));
    let mut w = ModelWeights::default();
    let net = ResNet::eighteen(&mut w, s)?;
    let (x, y) = (tensor(&[batch, 3, size, size], 1), indices(&[batch], 10));
    Ok(TrainingTask::new(w, Sgd::new(0.1).momentum(0.9).weight_decay(5e-4), move || entropy(&net.of(&x, true)?, &y)))
}
fn chargpt(s: Scale) -> Result<TrainingTask> {
    let (batch, time, vocabulary) = (s.of(8, 2), s.of(256, 7), 65);
    let mut w = ModelWeights::default();
    let sizes = GptSizes { vocabulary, context: time, layers: s.of(6, 2), heads: s.of(6, 3), width: s.of(384, 12), bias: false };
    let net = Gpt::new(&mut w, &sizes)?;
    let (x, y) = (tokens(batch, time, vocabulary), indices(&[batch * time], vocabulary));
    Ok(TrainingTask::new(w, AdamW::new(1e-3).betas((0.9, 0.99)).weight_decay(0.1), move || entropy(&net.of(&x, None)?.reshape([batch * time, vocabulary]), &y)))
}
fn lstm(s: Scale) -> Result<TrainingTask> {
    let (batch, time, width, vocabulary) = (s.of(32, 3), s.of(64, 4), s.of(256, 6), 65);
    let mut w = ModelWeights::default();
    let table = w.table(vocabulary, width, 0.5)?;
    let layers = [Lstm::new(&mut w, width, width)?, Lstm::new(&mut w, width, width)?];
    let head = w.dense(width, vocabulary, true)?;
    let (x, y) = (tokens(batch, time, vocabulary), indices(&[batch * time], vocabulary));
    Ok(TrainingTask::new(w, Adam::new(1e-3), move || {
        let mut h = embedding(&x, &table.get(), None);
        for layer in &layers {
            h = layer.of(&h)?;
        }
        entropy(&head.of(&h).reshape([batch * time, vocabulary]), &y)
    }))
}
