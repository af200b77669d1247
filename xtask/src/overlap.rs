//! `cargo xtask --emulated overlap --device cuda`: how much of the time that uploads take lies under compute, on the virtual clock of
//! the emulator, which computes times from sizes: the same program has the same times on every machine. A net is trained on batches
//! that a loader's workers make on the device ahead of the steps, op by op and captured; and by the loop that `adamant train` runs.
//! Losses are read at every eighth step, of the last at every 20th. Behind the first eight at least 80 % must lie under compute. With `--plant` the host waits
//! for the device before each batch, or makes batches itself when it wants them and reads each loss: then it must be less, or the
//! measure says nothing.
use crate::{device, exit::Exit, workspace};
use adamant::{
    Device, Result, Tensor, compile,
    data::{DataLoader, TensorDataset},
    functional::{CrossEntropyOptions, cross_entropy},
    optim::{AdamW, Optimizer, UpdateRule},
};
use adamant_train::{Document, Failure, Run, StepReport, Watch};
use std::sync::Arc;

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// cuda:N
    #[arg(long, default_value = "cuda")]
    device: String,
    /// Only these parts
    #[arg(long, value_delimiter = ',', default_value = "loader,captured,trainer", value_parser = ["loader", "captured", "trainer"])]
    parts: Vec<String>,
    /// Steps
    #[arg(long, default_value_t = 24)]
    steps: usize,
    /// What keeps uploads from compute: a wait before each batch, or batches that nobody makes ahead
    #[arg(long, value_parser = ["synchronisation", "no-prefetch"])]
    plant: Option<String>,
}
/// The part of upload time that must lie under compute.
pub const WANTED: f64 = 0.8;
/// A loss is read at each step of such a number. The first of them is where looking begins: by then plans are made.
const READ: usize = 8;
/// Steps of one pass over the digits.
const STEPS: usize = 58;
/// One pass over the digits.
const DIGITS: &str = concat!(
    r#"seed = 3
epochs = 1
batch = 24
log_every = 20
checkpoint.every = 1000
"#,
    digits_data!("data"),
    r#"workers = 2
prefetch_factor = 3
[model]
layers = [
    { kind = "Linear", in_features = 64, out_features = 48 },
    { kind = "ReLU" },
    { kind = "Linear", in_features = 48, out_features = 48 },
    { kind = "LayerNorm", normalized_shape = [48] },
    { kind = "ReLU" },
    { kind = "Linear", in_features = 48, out_features = 48 },
    { kind = "LayerNorm", normalized_shape = [48] },
    { kind = "ReLU" },
    { kind = "Linear", in_features = 48, out_features = 10 },
]
[optimizer]
kind = "AdamW"
lr = 4e-3
"#
);
/// Time on the card, in nanoseconds from the one to the other.
pub type CardTime = (f64, f64);
/// What a training took on the virtual clock.
#[derive(Default)]
pub struct CardTimes {
    /// of copies to the card
    pub uploads: Vec<CardTime>,
    /// of kernels and copies within the card
    pub compute: Vec<CardTime>,
}
impl CardTimes {
    /// Seconds of uploads, and the part of them during which something was computed.
    pub fn hidden(&mut self) -> (f64, f64) {
        self.compute.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut busy: Vec<CardTime> = Vec::new();
        for &(start, end) in &self.compute {
            match busy.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => busy.push((start, end)),
            }
        }
        let (mut all, mut under) = (0.0, 0.0);
        for &(start, end) in &self.uploads {
            all += end - start;
            under += busy.iter().map(|b| (b.1.min(end) - b.0.max(start)).max(0.0)).sum::<f64>();
        }
        (all * 1e-9, if all > 0.0 { under / all } else { 0.0 })
    }
}

/// Trains, and looks at the clock.
pub fn run(options: &Options) -> Exit {
    let device = match device::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    if device::take_times().is_none() {
        eprintln!("only a card that is emulated has a virtual clock: give `--emulated` too");
        return Exit::Usage;
    }
    let mut is_hidden = Vec::new();
    for part in &options.parts {
        let times = match part.as_str() {
            "trainer" => by_trainer(device, options).map_err(|e| e.to_string()),
            part => device.scoped(|| by_loader(device, part == "captured", options.steps, options.plant.as_deref())).map_err(|e| e.to_string()),
        };
        let (seconds, under) = match times {
            Ok(mut times) => times.hidden(),
            Err(e) => {
                eprintln!("{part}: {e}");
                return Exit::Failed;
            }
        };
        is_hidden.push(under >= WANTED);
        let verdict = if under >= WANTED { "passed" } else { "FAILED" };
        println!("{verdict}  {part}: {:.1} µs of uploads, {:.1} % of them under compute (at least {:.0} %)", seconds * 1e6, under * 100.0, WANTED * 100.0);
    }
    match &options.plant {
        None if is_hidden.iter().all(|h| *h) => Exit::Passed,
        None => Exit::Failed,
        Some(plant) => {
            let is_seen = !is_hidden.iter().any(|h| *h);
            println!("{plant}: {}", if is_seen { "seen" } else { "NOT SEEN" });
            if is_seen { Exit::Passed } else { Exit::Failed }
        }
    }
}
/// Pictures of 3 x 32 x 32 numbers, and a net so deep that a step of it takes longer than its batch needs to arrive.
///
/// # Errors
/// What a step comes to.
pub fn by_loader(device: Device, is_captured: bool, steps: usize, plant: Option<&str>) -> Result<CardTimes> {
    let (features, hidden, classes, batch, layers) = (3 * 32 * 32, 32, 10, 64, 8);
    let steps = steps + READ;
    let numbers = |n: usize| (0..n).map(|k| ((k * 7919) % 1009) as f32 / 1009.0 - 0.5).collect::<Vec<f32>>();
    let cpu = Device::cpu()?;
    let x = Tensor::from_vec_on(numbers(steps * batch * features), [steps * batch, features], cpu);
    let y = Tensor::from_vec_on((0..(steps * batch) as i64).map(|k| k % classes as i64).collect(), [steps * batch], cpu);
    let loader = DataLoader::new(Arc::new(TensorDataset::new(&[&x, &y])?)).batch_size(batch).device(device);
    let mut loader = if plant == Some("no-prefetch") { loader.workers(0) } else { loader.workers(1).prefetch_factor(3) }.build()?;
    let mut w = crate::bench::models::ModelWeights::default();
    let first = w.table(features, hidden, 0.02)?;
    let between = (0..layers).map(|_| w.table(hidden, hidden, 0.2)).collect::<Result<Vec<_>>>()?;
    let last = w.table(hidden, classes, 0.1)?;
    let mut optimizer = AdamW::new(1e-3).over(w.parameters);
    let mut training = |given: &[Tensor]| {
        let [x, y] = given else { return Ok(Vec::new()) };
        let x = between.iter().fold(x.matmul(first.get()).relu(), |x, w| (x.matmul(w.get()) + &x).tanh());
        let loss = cross_entropy(&x.matmul(last.get()), y, &CrossEntropyOptions::default()).ok()?;
        optimizer.step(&loss.backward()?)?;
        Ok(vec![loss])
    };
    let captures = compile::captures();
    let mut at = 0;
    while let Some(given) = loader.next_batch().transpose()? {
        if plant == Some("synchronisation") {
            device.synchronize()?;
        }
        let outputs = match given.as_slice() {
            [x, y] if is_captured => captures.call_with(&[x, y], &mut training)?.into_vec(),
            given => training(given)?,
        };
        at += 1;
        if at % READ == 0 || plant == Some("no-prefetch") {
            outputs.first().map(|loss| loss.item::<f32>()).transpose()?;
        }
        if at == READ {
            device.synchronize()?;
            device::take_times();
        }
    }
    device.synchronize()?;
    Ok(device::take_times().unwrap_or_default())
}
/// Looks at the clock from a step on, up to another.
struct Clocked {
    device: Device,
    waits: bool,
    until: u64,
    times: Option<CardTimes>,
}
impl Watch for Clocked {
    fn step(&mut self, step: u64) {
        let is_looked_at = step == READ as u64 || step == self.until;
        if self.waits || is_looked_at {
            // A device that is lost is told of by the step.
            let _ = self.device.synchronize();
        }
        if is_looked_at {
            let times = device::take_times();
            self.times = if step == self.until { times } else { None };
        }
    }
    fn log(&mut self, _: &StepReport) {}
}
fn by_trainer(device: Device, options: &Options) -> std::result::Result<CardTimes, Failure> {
    let text = match options.plant.as_deref() {
        Some("no-prefetch") => DIGITS.replace("workers = 2\nprefetch_factor = 3\n", "").replace("log_every = 20", "log_every = 1"),
        _ => DIGITS.into(),
    };
    let document = Document::parse("digits.toml", &text)?;
    let folder = tempfile::tempdir().map_err(|e| Failure::Run(format!("no folder for runs: {e}")))?;
    let until = (READ + (2 * options.steps).min(STEPS - READ)) as u64;
    let mut watch = Clocked { device, waits: options.plant.as_deref() == Some("synchronisation"), until, times: None };
    let run = || Run::new(&document).data(workspace::root().join("examples/digits")).folder(folder.path()).control(false).train(&mut watch);
    device.scoped(run)?;
    watch.times.ok_or_else(|| Failure::Run(format!("the run ended before step {until}")))
}
