//! `quant`: what integer codes cost and save on this machine.
use crate::{device::DeviceOptions, out, verbs::data_of};
use adamant_train::{
    Failure,
    folder::text_of,
    quantized::{ReportPlan, report},
};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Options of `quant`.
#[derive(Args)]
pub struct Quant {
    #[command(subcommand)]
    part: QuantVerb,
}
#[derive(Subcommand)]
enum QuantVerb {
    /// Measures a model of codes beside its floats: each layer's outputs, bytes and time; file, figures and latency.
    Report(CodesReportOptions),
}
/// Options of `quant report`.
#[derive(Args)]
#[command(after_help = "Examples:\n  adamant quant report runs/mnist-int8\n  adamant quant report runs/mnist-qat --rows 512 --json\n\n\
The layer that lost most comes first. The folder's report.html has the figures too.")]
struct CodesReportOptions {
    /// the folder that `adamant quantize` wrote, or a run that was trained with `[quantize]`
    run: PathBuf,
    /// the run that the codes were made of, where it is not where it was
    #[arg(long, value_name = "RUN")]
    floats: Option<PathBuf>,
    /// where the data lies; where the run had it, unless it is named
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// rows of the training part that layers are compared on
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    /// rows at once where layers are timed, at most 64
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// how often each time is taken
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(3..))]
    times: u32,
    #[command(flatten)]
    device: DeviceOptions,
    /// prints one JSON document
    #[arg(long)]
    json: bool,
}
/// Does it, and says whether its answer is JSON.
pub fn run(o: &Quant) -> (bool, Result<(), Failure>) {
    let QuantVerb::Report(o) = &o.part;
    (o.json, reported(o))
}
fn reported(o: &CodesReportOptions) -> Result<(), Failure> {
    let plan = ReportPlan { floats: o.floats.clone(), rows: o.rows as usize, batch: o.batch as usize, times: o.times as usize };
    let device = o.device.open()?;
    let told = device.scoped(|| report(&o.run, &data_of(&o.run, o.data.as_deref()), &plan))?;
    // Of a folder of codes alone there are no curves, and the page has what there is.
    let page = adamant_train::report::write(&o.run).map_err(|e| Failure::Input(e.to_string()))?;
    if o.json {
        let mut document = told.to_json();
        document["report"] = text_of(&page).into();
        return out::line(document);
    }
    out::line(format!("{told}\nwritten to {}", page.display()))
}
