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
    /// CUDA devices are played by the emulator, which needs no card: sm_75, sm_80, sm_90 or sm_120
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "sm_90")]
    emulated: Option<String>,
    #[command(subcommand)]
    chore: Chore,
}
#[derive(Subcommand)]
enum Chore {
    /// The workloads that other frameworks are measured with
    Bench(HandedWords),
    /// Training steps captured whole: the bits of the same steps op by op
    Captured(HandedWords),
    /// Faults planted into training runs: doctor names cause, layer and step, and its remedy ends them
    Causes(HandedWords),
    /// Everything a change must pass besides its tests: fmt, clippy, docs, tidy
    Check(check::Options),
    /// The suite that every backend passes, on one device
    Conformance(HandedWords),
    /// Runs that ranks share: bits, killed ranks, going on with others
    Distributed(HandedWords),
    /// Faults planted into kernels, into what is asked of the driver and into the backend's own texts: each found by the emulator
    Emulator(HandedWords),
    /// Extreme inputs against numbers of 320 bits: median and worst error of every function
    Extremes(extremes::Options),
    /// Bad numbers planted into training steps: found in their step, nothing kept of it, and traced to the op
    Faults(HandedWords),
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
    /// What the compiler makes of the CUDA backend's texts: registers, spills, shares of the matrix unit, widths
    Kernels(HandedWords),
    /// The suite, a training and random graphs on a device that is late on purpose, and the mistakes that it finds
    Late(HandedWords),
    /// What each training step of char-GPT asks of a device: launches, waits, plans, pipelines
    Launches(HandedWords),
    /// How much of the time of uploads lies under compute, on the emulator's virtual clock
    Overlap(HandedWords),
    /// PyTorch's names beside ours: the same, another, or left out with a reason
    Parity(parity::Options),
    /// The loops that the CPU backend compiles ahead
    Prefuse(HandedWords),
    /// Random products with what runs at their ends: fused = op by op, and integers exact
    Products(HandedWords),
    /// Random programs beside PyTorch, call by call
    Programs(HandedWords),
    /// What quantization, pruning and distillation promise: integers to the bit, files that others read, accuracy, ranges
    Quant(HandedWords),
    /// What the walk back keeps in 16 bits, the most of a step, casts of weights
    Saved(HandedWords),
    /// Crates in the tree, a C compiler or not, the time of a build from nothing, the size of a program
    Size(HandedWords),
    /// All tests of all packages
    Test(test::Options),
    /// The rules that no other tool checks: who knows whom, unsafe, file lengths, machine paths
    Tidy(tidy::Options),
    /// What a run survives: power cuts, kills, flipped bits, full disks
    Torture(HandedWords),
    /// Trainings on a device beside the CPU's: the losses, the bits whatever the order, and a card that is lost
    Trained(HandedWords),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return refused(&said),
    };
    let own = matches!(cli.chore, Chore::Check(_) | Chore::Extremes(_) | Chore::Parity(_) | Chore::Test(_) | Chore::Tidy(_));
    if let (Some(card), true) = (&cli.emulated, own) {
        eprintln!("--emulated={card}: this chore looks at no device; leave it out");
        return ExitCode::from(2);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    /// The names of the chores of the package `xtask`, as its program has them.
    fn handed_on() -> BTreeSet<String> {
        let text = std::fs::read_to_string(workspace::root().join("xtask/src/main.rs")).unwrap();
        let list = text.split_once("enum Chore {").unwrap().1.split_once("\n}\n").unwrap().0;
        let variants = list.lines().filter_map(|line| line.trim().split_once('(').filter(|_| !line.trim().starts_with("//")).map(|(name, _)| name.to_string()));
        let dashed = |name: String| {
            name.char_indices().flat_map(|(k, c)| (k > 0 && c.is_uppercase()).then_some('-').into_iter().chain(c.to_lowercase())).collect::<String>()
        };
        variants.map(dashed).collect()
    }
    #[test]
    fn a_chore_that_is_not_handed_on() {
        Cli::command().debug_assert();
        let known: BTreeSet<String> = Cli::command().get_subcommands().map(|c| c.get_name().to_string()).collect();
        let all = handed_on();
        assert!(all.len() > 20 && all.contains("fuzz-graphs"), "{all:?}");
        assert!(all.is_subset(&known), "not handed on: {:?}", all.difference(&known).collect::<Vec<_>>());
        for name in &all {
            for words in [vec!["xtask", name], vec!["xtask", "--emulated", name, "--device", "cuda"], vec!["xtask", "--emulated=sm_80", name, "--help"]] {
                assert!(Cli::try_parse_from(&words).is_ok(), "{words:?}");
            }
        }
        assert!(Cli::try_parse_from(["xtask", "no-such-chore"]).is_err());
    }
}
