//! The project's chores, one file each. What a chore promises (arguments, exit codes, the last line) stands in its file.
#![forbid(unsafe_code)]

mod bench;
mod check;
mod conformance;
mod device;
mod exit;
mod features;
mod flame;
mod fuzz_graphs;
mod goldens;
mod launches;
mod prefuse;
mod size;
mod test;
mod tidy;
mod torture;
mod workspace;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's chores", after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}
#[derive(Subcommand)]
enum Chore {
    /// The workloads that other frameworks are measured with
    Bench(bench::Options),
    /// Everything a change must pass besides its tests: fmt, clippy, docs, tidy
    Check(check::Options),
    /// The suite that every backend passes, on one device
    Conformance(conformance::Options),
    /// The promised features: one check for each row that has been asked for
    Features(features::Options),
    /// Flame graphs of kernels
    Flame(flame::Options),
    /// Random graphs: fused = op by op, bit for bit, and both within the published table of the reference
    FuzzGraphs(fuzz_graphs::Options),
    /// Compute the cases of a goldens folder, write the results, and compare them
    Goldens(goldens::Options),
    /// What each training step of char-GPT asks of a device: launches, waits, plans, pipelines
    Launches(launches::Options),
    /// The loops that the CPU backend compiles ahead
    Prefuse(prefuse::Options),
    /// Crates in the tree, a C compiler or not, the time of a build from nothing, the size of a program
    Size(size::Options),
    /// All tests of all packages
    Test(test::Options),
    /// The rules that no other tool checks: who knows whom, unsafe, file lengths, machine paths
    Tidy(tidy::Options),
    /// What a run survives: power cuts, kills, flipped bits, full disks
    Torture(torture::Options),
}

fn main() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return refused(&said),
    };
    match cli.chore {
        Chore::Bench(options) => bench::run(&options),
        Chore::Check(options) => check::run(&options),
        Chore::Conformance(options) => conformance::run(&options),
        Chore::Features(options) => features::run(&options),
        Chore::Flame(options) => flame::run(&options),
        Chore::FuzzGraphs(options) => fuzz_graphs::run(&options),
        Chore::Goldens(options) => goldens::run(&options),
        Chore::Launches(options) => launches::run(&options),
        Chore::Prefuse(options) => prefuse::run(&options),
        Chore::Size(options) => size::run(&options),
        Chore::Test(options) => test::run(&options),
        Chore::Tidy(options) => tidy::run(&options),
        Chore::Torture(options) => torture::run(&options),
    }
    .into()
}
/// What clap says instead of a chore: help, or what is wrong with the command line; with `--json` as one document, too.
fn refused(said: &clap::Error) -> std::process::ExitCode {
    let _ = said.print();
    if said.use_stderr() && std::env::args().take_while(|a| a != "--").any(|a| a == "--json") {
        let text = said.render().to_string();
        let (message, help) = text.trim().trim_start_matches("error: ").split_once("\n\n").unwrap_or((text.trim(), ""));
        println!("{}", serde_json::json!({ "error": { "code": 2, "kind": "usage", "message": message, "help": help, "context": {} } }));
    }
    u8::try_from(said.exit_code()).unwrap_or(2).into()
}
