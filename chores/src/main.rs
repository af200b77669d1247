//! `cargo xtask`: the project's chores, one file each. Those that need Adamant are in the package `xtask` and are handed on
//! ([`handed`]), so that what needs nothing of it is built in seconds.
#![forbid(unsafe_code)]

mod check;
mod extremes;
mod handed;
mod parity;
mod test;
mod tidy;

use chores::{refusal::refused, workspace};
use clap::{Parser, Subcommand};
use handed::HandedWords;
use std::process::ExitCode;

/// What `--help` says of how chores end; more in `adamant_bench::cli::Exit`.
const CODES: &str = "Exit codes: 0 all passed, 1 something failed, 2 usage, 4 unreadable input, 6 unwritable output, 8 regression, 9 device absent, 10 a gate could not tell, 11 something was skipped";

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's chores", after_help = CODES)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}
#[derive(Subcommand)]
enum Chore {
    /// The workloads that other frameworks are measured with
    Bench(HandedWords),
    /// Training steps captured whole: the bits of the same steps op by op
    Captured(HandedWords),
    /// Everything a change must pass besides its tests: fmt, clippy, docs, tidy
    Check(check::Options),
    /// The suite that every backend passes, on one device
    Conformance(HandedWords),
    /// Extreme inputs against numbers of 320 bits: median and worst error of every function
    Extremes(extremes::Options),
    /// The promised features: one check for each row that has been asked for
    Features(HandedWords),
    /// Flame graphs of kernels
    Flame(HandedWords),
    /// Random graphs: fused = op by op, bit for bit, and both within the published table of the reference
    FuzzGraphs(HandedWords),
    /// Compute the cases of a goldens folder, write the results, and compare them
    Goldens(HandedWords),
    /// Programs and a script for a bare machine with a card: every figure, passed, failed or not run
    GpuPack(HandedWords),
    /// What each training step of char-GPT asks of a device: launches, waits, plans, pipelines
    Launches(HandedWords),
    /// The suite, a training and random graphs on a device that is late on purpose, and the mistakes that it finds
    Late(HandedWords),
    /// PyTorch's names beside ours: the same, another, or left out with a reason
    Parity(parity::Options),
    /// The loops that the CPU backend compiles ahead
    Prefuse(HandedWords),
    /// Random products with what runs at their ends: fused = op by op, and integers exact
    Products(HandedWords),
    /// What quantization, pruning and distillation promise: integers to the bit, files that others read, accuracy, ranges
    Quant(HandedWords),
    /// Crates in the tree, a C compiler or not, the time of a build from nothing, the size of a program
    Size(HandedWords),
    /// All tests of all packages
    Test(test::Options),
    /// The rules that no other tool checks: who knows whom, unsafe, file lengths, machine paths
    Tidy(tidy::Options),
    /// What a run survives: power cuts, kills, flipped bits, full disks
    Torture(HandedWords),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return refused(&said),
    };
    let passed = match cli.chore {
        Chore::Check(options) => check::run(&options),
        Chore::Extremes(options) => extremes::run(&options),
        Chore::Parity(options) => parity::run(&options),
        Chore::Test(options) => test::run(&options),
        Chore::Tidy(options) => tidy::run(&options),
        _ => return handed::run(),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
