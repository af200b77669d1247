//! `cargo xtask distributed PART`: what shared runs promise, each part by one command.
//!
//! | part | |
//! |---|---|
//! | `bits` | the same weights, slots and lines on any number of ranks, whatever they share out |
//! | `memory`, `compress` | what a rank has at most; what leaves it |
//! | `parallel` | models that ranks share |
//! | `plan` | what is predicted of a run, beside what it takes |
//! | `kill`, `elastic` | a rank that is killed or stopped, and what the others say; ranks that are lost are gone on without, and newcomers come |
//! | `resume` | ended on so many ranks, or on a mesh, gone on with on others; killed inside saves; one file of all pieces |
//! | `mismatch` | programs that differ between ranks, or fail on one |
//! | `join` | strangers who want in |
//! | `collectives` | how fast ranks add, beside the peers |
//! | `overlap`, `scale` | how much of the communication is hidden behind the walk back; what a second rank brings |
//! | `hosts` | two of them, and a cable between |
//! | `absent` | what is not installed |
//!
//! Ranks are processes, of `adamant train` or of this program, started as a user or a launcher starts them; of `memory`, `compress` and
//! `parallel` threads. No part can hang: every rank has a deadline.
mod absent;
mod bits;
mod collectives;
mod compress;
#[cfg(target_os = "linux")]
mod elastic;
mod hosts;
mod job;
mod join;
mod kill;
mod memory;
mod mismatch;
mod overlap;
mod parallel;
mod plan;
mod rank;
mod resume;
mod scale;
mod timeline;

pub use job::{RankedTraining, set};
pub use scale::records_of_ranks;

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
    /// Gradients that travel with fewer bytes: how many leave a rank, and what becomes of the loss
    Compress(compress::CompressOptions),
    /// What a rank has in memory at most, by what ranks share out
    Memory(memory::MemoryOptions),
    /// A GPT, a mixture of experts and batch norms that ranks share, as rows, stages, pieces and experts: the gradients of one process
    Parallel(ParallelOptions),
    /// What `adamant plan` predicts of steps and memory, beside what ranks take
    Plan(plan::PlanOptions),
    /// Runs that a signal to one rank ends, gone on with on other numbers of ranks
    Resume(ResumeOptions),
    /// Programs that differ between ranks, or fail on one of them: the right weights, or an error on all ranks
    Mismatch(mismatch::MismatchOptions),
    /// Strangers, crowds and noise where ranks meet: refused, no rank kept out, a run not disturbed
    Join(join::JoinOptions),
    /// All-reduces beside those of an MPI and of Gloo, in turns
    Collectives(collectives::CollectivesOptions),
    /// Gradients that travel over a slow link while the walk back goes on: how much of that stands still, from the trace
    Overlap(overlap::OverlapOptions),
    /// Records that two ranks of one thread learn from, beside one
    Scale(scale::ScaleOptions),
    /// Ranks on two hosts, which are network namespaces; and a cable that is pulled
    Hosts(hosts::HostsOptions),
    /// No library of MPI, another one, half of one, no launcher, no such engine
    Absent(absent::AbsentOptions),
    /// This program as a rank of a part
    #[command(hide = true)]
    Rank(rank::RankOptions),
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
    /// What ranks share out beside the rows: 1 slots, 2 gradients too, 3 parameters too
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3])]
    zero: Vec<usize>,
    /// On how many ranks each of that
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4])]
    zero_ranks: Vec<usize>,
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
/// Options of `parallel`: its ranks are threads of this process.
#[derive(clap::Args)]
pub(super) struct ParallelOptions {
    /// How many seeds
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// Milliseconds that a layer of the pipeline takes whose bubble is measured
    #[arg(long, default_value_t = 40)]
    pace: u64,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
/// Options of `resume`.
#[derive(clap::Args)]
pub(super) struct ResumeOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// How many runs are ended, each by a signal to a rank drawn at random
    #[arg(long, default_value_t = 12)]
    n: usize,
    /// How many of the 64 ways from 4 ranks with `zero` 0 to 3 to 1, 2, 3, 8 ranks with `zero` 0 to 3
    #[arg(long, default_value_t = 64)]
    pairs: usize,
    /// How often ranks are killed inside saves
    #[arg(long, default_value_t = 200)]
    kills: usize,
    /// Which Python reads a merged file
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
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
        DistributedPart::Parallel(options) => (parallel::claims(options), options.json),
        DistributedPart::Plan(options) => (plan::claims(options), options.json),
        DistributedPart::Compress(options) => (compress::claims(options), options.json),
        DistributedPart::Memory(options) => (memory::claims(options), options.json),
        DistributedPart::Resume(options) => (resume::claims(options), options.common.json),
        DistributedPart::Mismatch(options) => (mismatch::claims(options), options.json),
        DistributedPart::Join(options) => (join::claims(options), options.json),
        DistributedPart::Collectives(options) => (collectives::claims(options), options.json),
        DistributedPart::Overlap(options) => (overlap::claims(options), options.common.json),
        DistributedPart::Scale(options) => (scale::claims(options), options.common.json),
        DistributedPart::Hosts(options) => (hosts::claims(options), options.json),
        DistributedPart::Absent(options) => (absent::claims(options), options.json),
        DistributedPart::Rank(options) => return rank::run(options),
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
