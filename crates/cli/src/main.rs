//! `adamant train CONFIG.toml`: reads a description, trains with visible progress, tests once, writes the weights.
//!
//! Exit codes: 0 done, 1 the run failed, 2 usage, 4 unreadable input, 9 device absent.
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "the verb that prints it comes with the other verbs")]
mod info;
mod progress;

use adamant::Device;
use adamant_train::{Document, Failure, Report, Watch, train};
use clap::{Args, Parser, Subcommand};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Deep learning in Rust.
#[derive(Parser)]
#[command(name = "adamant", version)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}
#[derive(Subcommand)]
enum Verb {
    /// Trains a model from a description.
    Train(Train),
}
#[derive(Args)]
struct Train {
    /// the description, in TOML
    config: PathBuf,
    /// a value in place of the file's: seed=2, optimizer.lr=1e-3, model.layers.7.p=0.5
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// where the data lies, instead of beside the description
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// cpu, cuda:N, wgpu:N, auto or reference
    #[arg(long)]
    device: Option<String>,
    /// threads of the CPU, the caller's among them
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// ends with one JSON document on the last line of stdout
    #[arg(long)]
    json: bool,
    /// says nothing but errors (and the JSON)
    #[arg(long, short)]
    quiet: bool,
}

fn main() -> ExitCode {
    let Command { verb: Verb::Train(options) } = Command::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
fn run(options: &Train) -> Result<(), Failure> {
    let mut document = Document::read(&options.config)?;
    for assignment in &options.set {
        document.set(assignment)?;
    }
    let folder = options.data.clone().unwrap_or_else(|| options.config.parent().unwrap_or(Path::new("")).to_path_buf());
    let device = device(options)?;
    let mut watch: Box<dyn Watch> = if options.quiet { Box::new(()) } else { progress::watch(options.json) };
    let report = device.scoped(|| train(&document, &folder, &mut *watch))?;
    drop(watch);
    if !options.quiet {
        progress::say(options.json, &summary(&report));
    }
    if options.json {
        println!("{}", as_json(&report));
    }
    Ok(())
}
fn device(options: &Train) -> Result<Device, Failure> {
    let named = options.device.as_deref().map(str::parse::<Device>).transpose();
    let named = named.map_err(|e| if e.kind().word() == "argument" { Failure::Usage(e.to_string()) } else { Failure::Device(e.to_string()) })?;
    match (options.threads, named) {
        (None, Some(device)) => Ok(device),
        (None, None) => Device::current().map_err(|e| Failure::Device(e.to_string())),
        (Some(n), named) => threads(n, named),
    }
}
/// The CPU with a number of threads.
#[cfg(feature = "cpu")]
fn threads(n: usize, named: Option<Device>) -> Result<Device, Failure> {
    if n == 0 || named.is_some_and(|d| d.info().backend != "cpu") {
        return Err(Failure::Usage("--threads takes a number from 1 on, for the cpu".into()));
    }
    let context = adamant::cpu::Context::new(adamant::cpu::CpuBackend::builder().threads(n)).map_err(|e| Failure::Device(e.to_string()))?;
    Ok(context.device())
}
#[cfg(not(feature = "cpu"))]
fn threads(_: usize, _: Option<Device>) -> Result<Device, Failure> {
    Err(Failure::Usage("--threads needs the cpu backend, which is not compiled in".into()))
}

fn summary(report: &Report) -> String {
    let right = (report.test_accuracy * report.plan.rows.1 as f64).round();
    let mut text = format!(
        "test accuracy {:.2} % ({right} of {} rows), loss {:.4}; trained in {:.1} s",
        100.0 * report.test_accuracy,
        report.plan.rows.1,
        report.test_loss,
        report.seconds
    );
    if let Some(path) = &report.weights {
        text += &format!("; weights in {}", path.display());
    }
    text
}
fn as_json(report: &Report) -> serde_json::Value {
    let plan = &report.plan;
    json!({
        "metrics": {
            "test": { "accuracy": report.test_accuracy, "loss": report.test_loss, "rows": plan.rows.1 },
            "train": { "loss": report.losses.last(), "losses": report.losses, "rows": plan.rows.0 },
        },
        "seed": plan.seed,
        "epochs": plan.epochs,
        "batch": plan.batch,
        "steps": plan.epochs * plan.steps,
        "parameters": plan.parameters,
        "optimizer": plan.optimizer,
        "clip": plan.clip.to_string(),
        "device": plan.device,
        "seconds": report.seconds,
        "weights": report.weights,
    })
}
