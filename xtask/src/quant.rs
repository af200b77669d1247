//! `cargo xtask quant PART`: what quantization promises, each part by one command. `integers`: products of codes and layers of
//! codes against integer arithmetic on the host, bit for bit. `storage`: files that NumPy reads without this library.
//! `accuracy`: trained models before and after. `aware`: models that were trained with codes in mind.
//! `observers`: ranges of values beside those of PyTorch, NumPy and ONNX Runtime. `fuzz`: mutated files
//! through every loader. `report`: what `adamant quant report` says of spoilt layers. `--plant` shows that a part finds faults.
mod accuracy;
mod aware;
mod described;
mod fuzz;
mod integers;
mod observed;
mod observers;
mod report;
mod storage;

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

/// Runs a part and reports.
pub fn run(options: &Options) -> Exit {
    let done = match &options.part {
        QuantPart::Integers(options) => integers::run(options),
        QuantPart::Storage(options) => storage::run(options),
        QuantPart::Accuracy(options) => accuracy::run(options),
        QuantPart::Aware(options) => aware::run(options),
        QuantPart::Observers(options) => observers::run(options),
        QuantPart::Fuzz(options) => fuzz::run(options),
        QuantPart::Report(options) => report::run(options),
    };
    done.unwrap_or_else(|text| {
        eprintln!("{text}");
        Exit::Failed
    })
}
