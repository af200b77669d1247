//! `cargo xtask products --n N --seed S`: random products and convolutions with what runs at their ends, fused and op by op.
//! Fails when bits differ (where a device promises none: when a result lies outside the table), when a product of integers
//! is not that of i64 arithmetic, and, on devices that claim ends, when too few cases fused. `--plant` shows that each fault
//! that a backend could make is found.
use crate::{device, exit::Exit};
use adamant_conformance::{
    plain::{self, EndFault},
    products,
};
use std::time::Instant;

/// The least share of cases with ends that must run in fewer kernels than op by op.
const FUSED_SHARE: f64 = 0.6;

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// How many cases
    #[arg(long, default_value_t = 20_000)]
    n: usize,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// cpu, cuda:N, wgpu:N, or plain for the loops that are their reference
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Plant the faults of a backend one after the other, and show that each is found
    #[arg(long)]
    plant: bool,
    /// Stop after so many failures
    #[arg(long, default_value_t = 10)]
    failures: usize,
    /// Do not ask how many cases fused: the device leaves ends apart
    #[arg(long)]
    apart: bool,
}

/// Runs the campaign and reports.
pub fn run(options: &Options) -> Exit {
    if options.plant {
        return planted(options);
    }
    let device = match options.device.as_str() {
        "plain" => plain::with_ends(None),
        name => match device::open(name) {
            Ok(device) => device,
            Err(exit) => return exit,
        },
    };
    let started = Instant::now();
    let report = products::run(device, options.n, options.seed, options.failures);
    for failure in &report.failures {
        println!("{failure}");
    }
    let enough = options.apart || report.fused as f64 >= FUSED_SHARE * report.with_ends as f64;
    let passed = report.failures.is_empty() && enough;
    println!(
        "{}: {} cases, {} with ends, {} of them in fewer kernels, {} of integers against i64, {} skipped, {} failures, {:.1} s",
        if passed { "passed" } else { "failed" },
        report.cases,
        report.with_ends,
        report.fused,
        report.integers,
        report.skipped,
        report.failures.len(),
        started.elapsed().as_secs_f64()
    );
    if passed { Exit::Passed } else { Exit::Failed }
}
fn planted(options: &Options) -> Exit {
    let mut all = true;
    for fault in EndFault::ALL {
        let report = products::run(plain::with_ends(Some(fault)), options.n, options.seed, 1);
        let found = !report.failures.is_empty();
        all &= found;
        println!("{fault:?}: {}", if found { format!("found at case {}", report.cases) } else { format!("not found in {} cases", report.cases) });
    }
    if all { Exit::Passed } else { Exit::Failed }
}
