//! `cargo xtask distributed PART`: what shared runs promise, each part by one command. `bits`: the same weights, slots and lines on any
//! number of ranks. `kill`: a rank that is killed or stopped, and what the others say. `resume`: ended on so many ranks, gone on with on
//! others. `elastic`: ranks that are lost are gone on without, and newcomers come. Ranks are processes of `adamant train`, started as a user or a launcher starts them. No part can hang: every rank has a
//! deadline.
mod bits;
#[cfg(target_os = "linux")]
mod elastic;
mod job;
mod kill;
mod resume;

pub use job::{RankedTraining, set};

use crate::{exit::Exit, torture::TortureClaim};
use std::path::PathBuf;

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    part: DistributedPart,
}
#[derive(clap::Subcommand)]
enum DistributedPart {
    /// A CNN with batch norms and dropout and a GPT, on 1, 2, 3, 4, 8 ranks: the same files
    Bits(BitsOptions),
    /// Ranks that are killed and stopped at random moments: the others end, soon, with what is said
    Kill(KillOptions),
    /// Ranks that are killed again and again while the others go on and newcomers come: the bits of the undisturbed run
    Elastic(ElasticOptions),
    /// Runs that a signal to one rank ends, gone on with on other numbers of ranks
    Resume(ResumeOptions),
}
/// What every part is told.
#[derive(clap::Args)]
pub struct CommonOptions {
    /// The program, instead of building it
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// The engine that carries what ranks tell each other
    #[arg(long, default_value = "local")]
    engine: String,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
impl CommonOptions {
    /// The program that is built here, on the engine of one host.
    pub fn local() -> CommonOptions {
        CommonOptions { program: None, engine: "local".into(), json: false }
    }
}
/// Options of `bits`.
#[derive(clap::Args)]
pub(super) struct BitsOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// Steps of each run
    #[arg(long, default_value_t = 60)]
    steps: u64,
    /// Into how many parts a step is cut
    #[arg(long, default_value_t = 8)]
    shards: usize,
    /// How many ranks
    #[arg(long, value_delimiter = ',', default_values_t = [2, 3, 4, 8])]
    ranks: Vec<usize>,
    /// The launchers of MPIs, each with the library where it is not found by itself: mpirun, or LAUNCHER=LIBRARY
    #[arg(long, value_delimiter = ';', default_values_t = ["mpirun".to_string()])]
    mpi: Vec<String>,
    /// How many ranks under each of them
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4])]
    mpi_ranks: Vec<usize>,
    /// Ranks that learn handwritten digits, one part each; 0: not
    #[arg(long, default_value_t = 64)]
    many: usize,
}
/// Options of `kill`.
#[derive(clap::Args)]
pub(super) struct KillOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// Runs of which a rank is killed
    #[arg(long, default_value_t = 200)]
    n: usize,
    /// Runs of which a rank is stopped
    #[arg(long, default_value_t = 50)]
    stops: usize,
    /// How many ranks
    #[arg(long, default_value_t = 3)]
    ranks: usize,
    /// Which moments
    #[arg(long, default_value_t = 1)]
    seed: u64,
}
/// Options of `elastic`.
#[derive(clap::Args)]
pub(super) struct ElasticOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// How many ranks are killed, over several runs
    #[arg(long, default_value_t = 100)]
    n: usize,
    /// How many ranks a run has
    #[arg(long, default_value_t = 4)]
    ranks: usize,
    /// Steps of a run
    #[arg(long, default_value_t = 12_000)]
    steps: u64,
    /// How many runs are ended by SIGTERM to one rank
    #[arg(long, default_value_t = 6)]
    terms: usize,
    /// Which moments
    #[arg(long, default_value_t = 1)]
    seed: u64,
}
/// Options of `resume`.
#[derive(clap::Args)]
pub(super) struct ResumeOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// How many runs are ended, each by a signal to a rank drawn at random
    #[arg(long, default_value_t = 12)]
    n: usize,
    /// Which moments
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs one part.
pub fn run(options: &Options) -> Exit {
    let (claims, json): (Vec<TortureClaim>, bool) = match &options.part {
        DistributedPart::Bits(options) => (bits::claims(options), options.common.json),
        DistributedPart::Kill(options) => (kill::claims(options), options.common.json),
        DistributedPart::Elastic(options) => (elastic_claims(options), options.common.json),
        DistributedPart::Resume(options) => (resume::claims(options), options.common.json),
    };
    crate::torture::report(json, &claims)
}

#[cfg(target_os = "linux")]
fn elastic_claims(options: &ElasticOptions) -> Vec<TortureClaim> {
    elastic::claims(options)
}
#[cfg(not(target_os = "linux"))]
fn elastic_claims(_: &ElasticOptions) -> Vec<TortureClaim> {
    vec![TortureClaim::skipped("ranks that come and go", "processes that share memory are Linux's")]
}
