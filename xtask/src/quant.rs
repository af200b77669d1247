//! `cargo xtask quant PART`: what quantization promises, each part by one command. `integers`: products of codes and layers of
//! codes against integer arithmetic on the host, bit for bit. `storage`: files that NumPy reads without this library.
//! `accuracy`: trained models before and after. `aware`: models that were trained with codes in mind. `observers`: ranges of values beside
//! those of PyTorch, NumPy and ONNX Runtime. `fuzz`: mutated files through every loader. `report`: what `adamant quant report` says of
//! spoilt layers. `lora`: adapters over codes. `prune`: models without channels and without weights. `distill`: a student with a teacher and
//! without. `cache`: keys and values of what a decoder has seen, as codes. `--plant` shows that a part finds faults.
mod accuracy;
mod aware;
mod cache;
pub mod described;
mod distill;
mod fuzz;
mod integers;
mod lora;
mod observed;
mod observers;
mod prune;
mod report;
mod storage;
mod tuned;

use crate::exit::Exit;
pub use integers::token;
use std::path::PathBuf;

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    part: QuantPart,
}
#[derive(clap::Subcommand)]
enum QuantPart {
    /// Products and layers of codes against integer arithmetic on the host
    Integers(CaseOptions),
    /// Files of quantized models, rebuilt by NumPy
    Storage(StorageOptions),
    /// Trained models before and after
    Accuracy(AccuracyOptions),
    /// Models that are trained with 4-bit weights and 8-bit inputs in mind, against floats and against what they were trained as
    Aware(AccuracyOptions),
    /// Adapters over bases of floats and of codes: what they learn, their gradients, the memory they need
    Lora(AccuracyOptions),
    /// Models without channels, against the same with these at zero; trained ones, their speed and accuracy; zeros that stay
    Prune(PruneOptions),
    /// A student with a teacher's outputs, against one with labels alone
    Distill(DistillOptions),
    /// Keys and values of a decoder as codes: bits, bytes, the time of attention, what a trained model loses
    Cache(cache::CacheOptions),
    /// Ranges of values beside those of PyTorch, NumPy and ONNX Runtime
    Observers(observers::ObserverOptions),
    /// Mutated files of codes, of sparse weights and of adapters through every loader
    Fuzz(fuzz::FuzzOptions),
    /// What `adamant quant report` says of trained models and of layers whose scales were spoilt
    Report(report::SpoiltReportOptions),
}
/// How many cases, and which.
#[derive(clap::Args)]
pub struct CaseOptions {
    /// How many random layers
    #[arg(long, default_value_t = 2000)]
    n: usize,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Plant faults into what is compared, and show that each is found
    #[arg(long)]
    plant: bool,
}
/// Which Python reads the files.
#[derive(clap::Args)]
pub struct StorageOptions {
    /// A Python with NumPy
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Change one code in each file behind its writer, and show that it is found
    #[arg(long)]
    plant: bool,
}
/// Which models.
#[derive(clap::Args)]
pub struct AccuracyOptions {
    /// Only descriptions whose path contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Folder of the real data sets
    #[arg(long)]
    data: Option<PathBuf>,
    /// Folder that trained models are kept in; they are trained where it lacks them
    #[arg(long, default_value = "target/quant")]
    runs: PathBuf,
    /// Seeds that models are trained with
    #[arg(long, default_value = "1", value_delimiter = ',')]
    seeds: Vec<u64>,
}

/// Which networks and models are pruned.
#[derive(clap::Args)]
pub struct PruneOptions {
    /// How many random networks
    #[arg(long, default_value_t = 500)]
    n: usize,
    /// The seed of the first
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only trained models whose name contains this: mnist, residual, unstructured, 2:4
    #[arg(long, default_value = "")]
    only: String,
    /// Folder of the real data sets
    #[arg(long)]
    data: Option<PathBuf>,
    /// Folder that trained models are kept in; they are trained where it lacks them
    #[arg(long, default_value = "target/quant")]
    runs: PathBuf,
    /// Plant faults into pruned networks, show that each is found, and fail as they do
    #[arg(long)]
    plant: bool,
}

/// Where the teacher and its data are.
#[derive(clap::Args)]
pub struct DistillOptions {
    /// Folder of the real data sets
    #[arg(long)]
    data: Option<PathBuf>,
    /// Folder that trained models are kept in; the teacher is trained where it lacks it
    #[arg(long, default_value = "target/quant")]
    runs: PathBuf,
    /// Seeds that students are trained with
    #[arg(long, default_value = "1,2,3", value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Tell what the teacher says of another image, and fail as nothing is won
    #[arg(long)]
    plant: bool,
}

/// Runs a part and reports.
pub fn run(options: &Options) -> Exit {
    let done = match &options.part {
        QuantPart::Integers(options) => integers::run(options),
        QuantPart::Storage(options) => storage::run(options),
        QuantPart::Accuracy(options) => accuracy::run(options),
        QuantPart::Aware(options) => aware::run(options),
        QuantPart::Lora(options) => lora::run(options),
        QuantPart::Prune(options) => prune::run(options),
        QuantPart::Distill(options) => distill::run(options),
        QuantPart::Cache(options) => cache::run(options),
        QuantPart::Observers(options) => observers::run(options),
        QuantPart::Fuzz(options) => fuzz::run(options),
        QuantPart::Report(options) => report::run(options),
    };
    done.unwrap_or_else(|text| {
        eprintln!("{text}");
        Exit::Failed
    })
}
