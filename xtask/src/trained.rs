//! `cargo xtask --emulated trained --device cuda`: trainings on a device beside the same trainings on the CPU. A net learns the
//! handwritten digits by the loop that `adamant train` runs: the losses of 50 steps and the accuracy are near those of the CPU, and
//! the bits are the same whether plans were frozen or not, whatever the order in which the card takes its work. A small GPT in
//! bf16 comes to the loss that it comes to in f32. And the card is lost in the middle of a step: the run that is resumed ends in
//! the bits of one that nothing befell, on the device that was opened anew and in a process that found it so.
//!
//! The emulator's seeds, and what is planted in it, need `--emulated`; without, those parts say `not run`.
use crate::{
    bench::models::{Gpt, GptSizes, ModelWeights, tokens},
    device,
    exit::Exit,
    workspace,
};
use adamant::{
    Device,
    amp::{Precision, PrecisionMode},
    functional::{CrossEntropyOptions, cross_entropy},
    optim::{AdamW, Optimizer, UpdateRule},
};
use adamant_bench::inputs::indices;
use adamant_train::{Document, Failure, Run, StepReport, Watch};
use std::{fs, path::Path};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// cuda:N or wgpu:N
    #[arg(long, default_value = "cuda")]
    device: String,
    /// Orders that the emulator draws
    #[arg(long, value_delimiter = ',', default_value = "1,2,3")]
    seeds: Vec<u64>,
    /// Only these parts
    #[arg(long, value_delimiter = ',', default_value = "digits,precision,loss", value_parser = ["digits", "precision", "loss"])]
    parts: Vec<String>,
    /// Steps of the small GPT
    #[arg(long, default_value_t = 40)]
    steps: usize,
    /// Errors of the driver that a step is lost by
    #[arg(long, value_delimiter = ',', default_value = "214,700,719")]
    codes: Vec<u32>,
}
/// One pass over the digits in 60 steps, each of which is in the log.
const DIGITS: &str = concat!(
    r#"seed = 3
epochs = 1
batch = 24
log_every = 1
checkpoint.every = 10
"#,
    digits_data!("data"),
    r#"[model]
layers = [
    { kind = "Linear", in_features = 64, out_features = 48 },
    { kind = "ReLU" },
    { kind = "Dropout", p = 0.1 },
    { kind = "Linear", in_features = 48, out_features = 10 },
]
[optimizer]
kind = "AdamW"
lr = 4e-3
weight_decay = 1e-2
[schedule]
kind = "CosineAnnealingLR"
"#
);
/// What a run came to.
struct TrainedDigits {
    losses: Vec<f64>,
    /// per cent of the test rows
    accuracy: f64,
    /// the newest checkpoint's weights, to the byte
    weights: Vec<u8>,
}
/// Notes the losses; at a step, does something once.
struct NotedLosses<'f> {
    losses: Vec<f64>,
    at: u64,
    act: Option<&'f dyn Fn()>,
}
impl Watch for NotedLosses<'_> {
    fn step(&mut self, step: u64) {
        if step == self.at
            && let Some(act) = self.act.take()
        {
            act();
        }
    }
    fn log(&mut self, report: &StepReport) {
        self.losses.push(report.loss);
    }
}
fn learn(device: Device, folder: &Path, resume: bool, at: u64, act: Option<&dyn Fn()>) -> Result<TrainedDigits, Failure> {
    let document = Document::parse("digits.toml", DIGITS)?;
    let mut watch = NotedLosses { losses: Vec::new(), at, act };
    let run = || Run::new(&document).data(workspace::root().join("examples/digits")).folder(folder).control(false).resume(resume).train(&mut watch);
    let report = device.scoped(run)?;
    let of = |e: std::io::Error| Failure::Run(format!("{}: {e}", folder.display()));
    let mut last = fs::read_dir(folder.join("checkpoints")).map_err(of)?.filter_map(Result::ok).map(|entry| entry.path()).collect::<Vec<_>>();
    last.sort();
    let newest = last.pop().ok_or_else(|| Failure::Run("a run without a checkpoint".into()))?;
    let weights = fs::read(newest.join("model.safetensors")).map_err(of)?;
    Ok(TrainedDigits { losses: watch.losses, accuracy: 100.0 * report.test.accuracy.unwrap_or(0.0), weights })
}
/// What was looked at, and whether it is as it should be.
#[derive(Default)]
struct TrainedFindings {
    wrong: usize,
    not_run: usize,
}
impl TrainedFindings {
    fn say(&mut self, what: &str, holds: bool) {
        self.wrong += usize::from(!holds);
        println!("{}  {what}", if holds { "passed" } else { "FAILED" });
    }
    fn not_run(&mut self, what: &str) {
        self.not_run += 1;
        println!("not run  {what}");
    }
}

/// Trains and compares.
pub fn run(options: &Options) -> Exit {
    let device = match device::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(e) => {
            eprintln!("no folder for runs: {e}");
            return Exit::Failed;
        }
    };
    let mut found = TrainedFindings::default();
    let wants = |part: &str| options.parts.iter().any(|p| p == part);
    let done = || -> Result<(), Failure> {
        if wants("digits") {
            digits(device, options, folder.path(), &mut found)?;
        }
        if wants("precision") {
            precision(device, options, &mut found)?;
        }
        if wants("loss") {
            loss(device, options, folder.path(), &mut found)?;
        }
        Ok(())
    }();
    if let Err(e) = done {
        found.say(&format!("a training ended: {e}"), false);
    }
    println!("{} wrong, {} not run", found.wrong, found.not_run);
    if found.wrong > 0 {
        Exit::Failed
    } else if found.not_run > 0 {
        Exit::Skipped
    } else {
        Exit::Passed
    }
}
fn digits(device: Device, options: &Options, folder: &Path, found: &mut TrainedFindings) -> Result<(), Failure> {
    let cpu: Device = "cpu".parse()?;
    let there = learn(cpu, &folder.join("cpu"), false, 0, None)?;
    let here = learn(device, &folder.join("first"), false, 0, None)?;
    let apart = there.losses.iter().zip(&here.losses).take(50).map(|(a, b)| (a - b).abs() / a.abs().max(1.0)).fold(0.0, f64::max);
    found.say(
        &format!("digits: {} losses, the first 50 at most {apart:.1e} from the CPU's", here.losses.len()),
        here.losses.len() >= 50 && here.losses.len() == there.losses.len() && apart <= 1e-4,
    );
    found.say(
        &format!("digits: {:.2} % right after one epoch, {:.2} % on the CPU", here.accuracy, there.accuracy),
        (here.accuracy - there.accuracy).abs() <= 0.5 && here.accuracy > 60.0,
    );
    if let Some(plain) = device::never_frozen(&options.device) {
        let plain = learn(plain, &folder.join("plain"), false, 0, None)?;
        found.say("digits: the same bits where no plan was frozen", plain.weights == here.weights && plain.losses == here.losses);
    } else {
        found.not_run("digits where no plan was frozen: the device freezes none");
    }
    let counted = |name: &str| device.counters().into_iter().find(|c| c.0 == name).map_or(0, |c| c.1);
    println!("        {} graphs, launched {} times", counted("graphs"), counted("replays"));
    for seed in &options.seeds {
        if !device::draw_order(*seed) {
            found.not_run("digits in other orders: the device is not emulated");
            break;
        }
        let other = learn(device, &folder.join(format!("seed{seed}")), false, 0, None)?;
        found.say(&format!("digits: the same bits in the order of seed {seed}"), other.weights == here.weights && other.losses == here.losses);
    }
    Ok(())
}
/// The mean loss of the last steps of a small GPT.
fn gpt(device: Device, mode: PrecisionMode, steps: usize) -> adamant::Result<f64> {
    device.scoped(|| {
        let (vocabulary, time, batch) = (33, 16, 4);
        let mut w = ModelWeights::default();
        let net = Gpt::new(&mut w, &GptSizes { vocabulary, context: time, layers: 2, heads: 2, width: 32, bias: false })?;
        let mut optimizer = AdamW::new(3e-3).weight_decay(0.1).over(w.parameters);
        let region = Precision::of(mode).region()?;
        let (x, y) = (tokens(batch, time, vocabulary), indices(&[batch * time], vocabulary));
        let forward = || cross_entropy(&net.of(&x, None)?.reshape([batch * time, vocabulary]), &y, &CrossEntropyOptions::default()).ok();
        let mut last = 0.0;
        for _ in 0..steps {
            let loss = match &region {
                None => forward()?,
                Some(region) => region.run(forward)?,
            };
            optimizer.step(&loss.backward()?)?;
            last = f64::from(loss.item::<f32>()?);
        }
        Ok(last)
    })
}
fn precision(device: Device, options: &Options, found: &mut TrainedFindings) -> Result<(), Failure> {
    let [wide, narrow] = [PrecisionMode::F32, PrecisionMode::BF16].map(|mode| gpt(device, mode, options.steps));
    let (wide, narrow) = (wide?, narrow?);
    let apart = (narrow - wide).abs() / wide.abs();
    found.say(
        &format!("a GPT of 2 layers after {} steps: loss {wide:.4} in f32, {narrow:.4} in bf16: {:.2} % apart", options.steps, 100.0 * apart),
        apart <= 0.01,
    );
    Ok(())
}
fn loss(device: Device, options: &Options, folder: &Path, found: &mut TrainedFindings) -> Result<(), Failure> {
    if !device::draw_order(1) {
        found.not_run("a card that is lost: the device is not emulated");
        return Ok(());
    }
    let whole = learn(device, &folder.join("whole"), false, 0, None)?;
    let mut device = device;
    for code in &options.codes {
        for heals in [true, false] {
            let way = if heals { "the device opened anew" } else { "a new process" };
            let name = folder.join(format!("lost{code}{heals}"));
            // In the middle of a step, behind which no checkpoint was written yet.
            let lost = learn(device, &name, false, 26, Some(&|| device::plant_loss(*code, heals)));
            let told = lost.as_ref().map_or_else(ToString::to_string, |_| "nothing was lost".into());
            found.say(&format!("error {code} in step 27: {}", told.lines().next().unwrap_or_default()), matches!(&lost, Err(Failure::Device(_))));
            match device.recover() {
                Ok(()) => found.say(&format!("error {code}: a reset brings the device back"), heals),
                Err(e) => {
                    found.say("where a reset does not help, the error says how a run goes on", !heals && e.to_string().contains("--resume auto"));
                    device = device::of_a_new_process().ok_or_else(|| Failure::Run("the emulator does not start anew".into()))?;
                }
            }
            let resumed = learn(device, &name, true, 0, None)?;
            found.say(&format!("error {code}: resumed on {way}, it ends in the bits of a run that nothing befell"), resumed.weights == whole.weights);
        }
    }
    Ok(())
}
