//! `cargo xtask bench run`: the workloads that other frameworks are measured with, by the same protocol, one JSON line
//! each: `{"workload", "impl", "median_ms", "min_ms", "extra": {"threads", "samples", ...}}`, or `{.., "error"}`.
//! Every workload's result is checked before it is timed; a wrong result prints an error line and no time.
mod conv;
mod elementwise;
mod gemm;
mod harness;
mod infer;
mod inputs;
mod models;
mod peers;
mod small;
mod train;

use crate::exit::Exit;
use adamant::{
    Device, Error,
    cpu::{Context, CpuBackend},
};
use globset::{Glob, GlobSet, GlobSetBuilder};
use harness::{Ending, Protocol, Workload};
use std::time::Duration;

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
}
#[derive(clap::Subcommand)]
enum Action {
    /// Measure this project
    Run(RunOptions),
    /// Measure this project and another program that prints the same lines, workload by workload in turn
    Peers(peers::Options),
}
#[derive(clap::Args)]
struct RunOptions {
    /// Only the workloads whose name matches one of these globs, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "*")]
    only: Vec<Glob>,
    /// Threads of the CPU device; the caller pins the process
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds of samples for each workload
    #[arg(long, default_value_t = 1.0)]
    budget: f64,
    /// cpu, cuda:N, wgpu:N or reference
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Small shapes: shows that the workloads run and are right, not how fast they are
    #[arg(long)]
    small: bool,
    /// Names of the workloads, nothing is run
    #[arg(long)]
    list: bool,
    /// JSON lines instead of text
    #[arg(long)]
    json: bool,
}

/// Runs what the command line asks for.
pub fn run(options: &Options) -> Exit {
    match &options.action {
        Action::Run(o) => measure(o),
        Action::Peers(o) => peers::run(o),
    }
}

/// Every workload, in the order of the document that defines them.
fn workloads() -> Vec<Workload> {
    let families = [gemm::workloads, conv::workloads, elementwise::workloads, small::workloads, train::workloads, infer::workloads];
    families.iter().flat_map(|family| family()).collect()
}

fn measure(options: &RunOptions) -> Exit {
    let Some(only) = globs(&options.only) else { return Exit::Usage };
    let wanted: Vec<Workload> = workloads().into_iter().filter(|w| only.is_match(&w.name)).collect();
    if wanted.is_empty() {
        eprintln!("no workload matches; `cargo xtask bench run --list` names them");
        return Exit::Usage;
    }
    if options.list {
        wanted.iter().for_each(|w| println!("{}", w.name));
        return Exit::Passed;
    }
    if options.threads == 0 || options.budget.is_nan() || options.budget < 0.0 {
        eprintln!("--threads counts from 1 and --budget from 0");
        return Exit::Usage;
    }
    let device = match open(&options.device, options.threads) {
        Ok(device) => device,
        Err(e) => {
            eprintln!("{e}");
            return if e.kind().word() == "device" { Exit::DeviceAbsent } else { Exit::Usage };
        }
    };
    device.make_current();
    let protocol = Protocol { threads: options.threads, budget: Duration::from_secs_f64(options.budget), small: options.small, device };
    let mut failed = false;
    for workload in wanted {
        let line = harness::measure(workload, &protocol);
        failed |= line.ending() == Ending::Failed;
        if options.json {
            println!("{}", serde_json::json!(line));
        } else {
            println!("{line}");
        }
    }
    if failed { Exit::Failed } else { Exit::Passed }
}

fn globs(patterns: &[Glob]) -> Option<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for glob in patterns {
        set.add(glob.clone());
    }
    set.build().inspect_err(|e| eprintln!("{e}")).ok()
}

/// The device under its name; the CPU with a pool of so many threads.
fn open(name: &str, threads: usize) -> Result<Device, Error> {
    if name == "cpu" {
        return Ok(Context::new(CpuBackend::builder().threads(threads))?.device());
    }
    name.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each workload builds, passes its own check and runs on the reference device at small shapes.
    #[test]
    fn every_workload_is_right_at_small_shapes() {
        Device::reference().scoped(|| {
            let protocol = Protocol { threads: 1, budget: Duration::ZERO, small: true, device: Device::reference() };
            for workload in workloads() {
                let name = workload.name.clone();
                let line = harness::measure(workload, &protocol);
                assert_ne!(line.ending(), Ending::Failed, "{name}: {line}");
            }
        });
    }
    #[test]
    fn names_are_unique() {
        let mut names: Vec<String> = workloads().into_iter().map(|w| w.name).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
