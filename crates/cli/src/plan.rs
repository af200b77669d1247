//! `adamant plan`: what a description's run would cost on so many ranks, each way to share it, before it is started.
use crate::{
    device::{DeviceOptions, one_thread},
    out,
    verbs::DescribedModel,
};
use adamant_plan::{MeasureOptions, PlanScaling, PlannedCluster, RunLoad, measure, plan, rank_counts};
use adamant_train::{Document, Failure};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Options of `plan`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  adamant plan run.toml --ranks 1..1024 --cluster cluster.toml\n  adamant plan run.toml --ranks 2,4,8 --measure\n  adamant plan \
examples/chargpt/chargpt.toml --input 64:i64 --ranks 16 --scaling weak --json\n\nA file of a cluster (whatever it does not say is assumed):\n  hosts = 4\n  devices = 8\n  \
memory = \"16GiB\"\n  bandwidth = \"20GB/s\"\n  compute = { f32 = \"200GFLOP/s\", half = \"400GFLOP/s\" }\n  inside = { alpha = \"2us\", beta = \"8GB/s\" }\n  between = { alpha = \
\"20us\", beta = \"1.25GB/s\" }"
)]
pub struct Options {
    #[command(flatten)]
    described: DescribedModel,
    /// a value in place of the file's
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// how many ranks: 4, or 2,4,8, or 1..1024, the powers of two between two numbers and these two
    #[arg(long, value_name = "N")]
    ranks: String,
    /// what ranks run on, in TOML
    #[arg(long, value_name = "FILE", conflicts_with = "measure")]
    cluster: Option<PathBuf>,
    /// measures this machine with the description's own model, and plans for ranks on it
    #[arg(long)]
    measure: bool,
    /// how many steps of each sort are timed
    #[arg(long, value_name = "N", default_value_t = 7, requires = "measure")]
    steps: usize,
    /// strong: the rows of a step are shared out; weak: each rank has as many as the description has in a step
    #[arg(long, value_enum, default_value = "strong")]
    scaling: Scaling,
    #[command(flatten)]
    device: DeviceOptions,
    /// prints one JSON document
    #[arg(long)]
    pub json: bool,
}
#[derive(Clone, Copy, ValueEnum)]
enum Scaling {
    Strong,
    Weak,
}
pub fn run(o: &Options) -> Result<(), Failure> {
    let ranks = rank_counts(&o.ranks).map_err(|what| Failure::Usage(format!("--ranks {}: {what}", o.ranks)))?;
    if !o.measure && o.device.is_given() {
        return Err(Failure::Usage("--device, --cpu and --threads are for --measure: else nothing runs".into()));
    }
    if o.measure && o.steps == 0 {
        return Err(Failure::Usage("--steps counts from 1".into()));
    }
    let scaling = match o.scaling {
        Scaling::Strong => PlanScaling::Strong,
        Scaling::Weak => PlanScaling::Weak,
    };
    let mut document = Document::read(&o.described.config)?;
    for assignment in &o.set {
        document.set(assignment)?;
    }
    let cluster = o.cluster.as_deref().map(PlannedCluster::read).transpose()?;
    let mut load = RunLoad::of(&document, &o.described.data(), o.described.input()?, o.described.batch)?;
    let (cluster, how) = match (cluster, &o.cluster) {
        (Some(cluster), Some(path)) => (cluster, format!("cluster: {}", path.display())),
        _ if o.measure => {
            let found = measured(o, &document, &load, &ranks)?;
            load.times = Some(found.times);
            (found.cluster, "cluster: this machine, measured".to_string())
        }
        _ => (PlannedCluster::default(), "cluster: assumed, not measured (--cluster FILE says what it is, --measure measures this machine)".to_string()),
    };
    let planned = plan(&load, &cluster, &ranks, scaling);
    if o.json { out::line(planned.to_json(&how)) } else { out::write(&out::plain(&planned.text(&how))) }
}
/// This machine with the model, for as many rows as ranks get.
fn measured(o: &Options, document: &Document, load: &RunLoad, ranks: &[usize]) -> Result<adamant_plan::MeasuredMachine, Failure> {
    let device = o.device.open_for(document)?;
    let devices = if device.info().backend == "cpu" { std::thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    let mut rows: Vec<usize> = ranks.iter().map(|n| load.rows.div_ceil(*n)).collect();
    rows.sort_unstable();
    rows.dedup();
    // What lies between is on the line between the nearest.
    if rows.len() > MOST_SIZES {
        let last = rows.len() - 1;
        rows = (0..MOST_SIZES).map(|k| rows[k * last / (MOST_SIZES - 1)]).collect();
    }
    let options = MeasureOptions { steps: o.steps, devices, rows, program: true };
    measure(document, &o.described.data(), load, &options, &|| one_thread(device))
}
const MOST_SIZES: usize = 4;
