//! The project's chores that need Adamant, one file each. What a chore promises (arguments, exit codes, the last line) stands
//! in its file. `cargo xtask` starts the package `chores`, which has the others and hands these on.
#![forbid(unsafe_code)]

// Its macro is known to what follows.
#[macro_use]
mod digits;

mod bench;
mod captured;
mod causes;
mod conformance;
mod device;
mod distributed;
mod emulator;
mod exit;
mod faults;
mod features;
mod flame;
mod fuzz_graphs;
mod goldens;
mod gpu_pack;
mod kernels;
mod late;
mod launches;
mod overlap;
mod pictures;
mod prefuse;
mod products;
mod programs;
mod quant;
mod saved;
mod size;
mod torture;
mod trained;

use chores::{refusal::refused, workspace};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's chores", after_help = exit::HELP)]
struct Cli {
    /// CUDA devices are played by the emulator, which needs no card: sm_75, sm_80, sm_90 or sm_120
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "sm_90")]
    emulated: Option<String>,
    #[command(subcommand)]
    chore: Chore,
}
#[derive(Subcommand)]
enum Chore {
    /// The workloads that other frameworks are measured with
    Bench(bench::Options),
    /// Training steps captured whole: the bits of the same steps op by op
    Captured(captured::Options),
    /// Faults planted into kernels, into what is asked of the driver and into the backend's own texts: each found by the emulator
    Emulator(emulator::Options),
    /// Faults planted into training runs: doctor names cause, layer and step, and its remedy ends them
    Causes(causes::Options),
    /// The suite that every backend passes, on one device
    Conformance(conformance::Options),
    /// Bad numbers planted into training steps: found in their step, nothing kept of it, and traced to the op
    Faults(faults::Options),
    /// The promised features: one check for each row that has been asked for
    Features(features::Options),
    /// Flame graphs of kernels
    Flame(flame::Options),
    /// Random graphs: fused = op by op, bit for bit, and both within the published table of the reference
    FuzzGraphs(fuzz_graphs::Options),
    /// Compute the cases of a goldens folder, write the results, and compare them
    Goldens(goldens::Options),
    /// Programs and a script for a bare machine with a card: every figure, passed, failed or not run
    GpuPack(gpu_pack::Options),
    /// What the compiler makes of the CUDA backend's texts: registers, spills, shares of the matrix unit, widths
    Kernels(kernels::Options),
    /// What each training step of char-GPT asks of a device: launches, waits, plans, pipelines
    Launches(launches::Options),
    /// The suite, a training and random graphs on a device that is late on purpose, and the mistakes that it finds
    Late(late::Options),
    /// How much of the time of uploads lies under compute, on the emulator's virtual clock
    Overlap(overlap::Options),
    /// The loops that the CPU backend compiles ahead
    Prefuse(prefuse::Options),
    /// Random programs beside PyTorch, call by call
    Programs(programs::Options),
    /// Random products with what runs at their ends: fused = op by op, and integers exact
    Products(products::Options),
    /// What quantization promises: integers to the bit, files that others read, accuracy
    Quant(quant::Options),
    /// Runs that ranks share: bits, killed ranks, going on with others
    Distributed(distributed::Options),
    /// What the walk back keeps in 16 bits, the most of a step, casts of weights
    Saved(saved::Options),
    /// Crates in the tree, a C compiler or not, the time of a build from nothing, the size of a program
    Size(size::Options),
    /// What a run survives: power cuts, kills, flipped bits, full disks
    Torture(torture::Options),
    /// Trainings on a device beside the CPU's: the losses, the bits whatever the order, and a card that is lost
    Trained(trained::Options),
}

fn main() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return refused(&said),
    };
    // Two chores put an emulator of their own in its place.
    if let Some(card) = cli.emulated.as_ref().filter(|_| !matches!(cli.chore, Chore::Kernels(_) | Chore::Emulator(_)))
        && let Err(exit) = device::emulate(card)
    {
        return exit.into();
    }
    match cli.chore {
        Chore::Bench(options) => bench::run(&options),
        Chore::Captured(options) => captured::run(&options),
        Chore::Causes(options) => causes::run(&options),
        Chore::Conformance(options) => conformance::run(&options),
        Chore::Emulator(options) => emulator::run(&options),
        Chore::Faults(options) => faults::run(&options),
        Chore::Features(options) => features::run(&options),
        Chore::Flame(options) => flame::run(&options),
        Chore::FuzzGraphs(options) => fuzz_graphs::run(&options),
        Chore::Goldens(options) => goldens::run(&options),
        Chore::GpuPack(options) => gpu_pack::run(&options),
        Chore::Kernels(options) => kernels::run(&options),
        Chore::Late(options) => late::run(&options),
        Chore::Launches(options) => launches::run(&options),
        Chore::Overlap(options) => overlap::run(&options),
        Chore::Prefuse(options) => prefuse::run(&options),
        Chore::Products(options) => products::run(&options),
        Chore::Programs(options) => programs::run(&options),
        Chore::Quant(options) => quant::run(&options),
        Chore::Distributed(options) => distributed::run(&options),
        Chore::Saved(options) => saved::run(&options),
        Chore::Size(options) => size::run(&options),
        Chore::Torture(options) => torture::run(&options),
        Chore::Trained(options) => trained::run(&options),
    }
    .into()
}
