//! The project's chores, one file each. What a chore promises (arguments, exit codes, the last line) stands in its file.
#![forbid(unsafe_code)]

mod exit;
mod goldens;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's chores", after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}
#[derive(Subcommand)]
enum Chore {
    /// Compute the cases of a goldens folder, write the results, and compare them
    Goldens(goldens::Options),
}

fn main() -> std::process::ExitCode {
    match Cli::parse().chore {
        Chore::Goldens(options) => goldens::run(&options),
    }
    .into()
}
