//! `adamant bench`: the speed table on this machine, and how fast a model answers.
//!
//! Every call is timed by itself, by the clock, after a few that are not counted; what is told are the count, the mean with
//! its standard deviation, and the least. A target is met or missed by the least, because what else the machine does only adds.
mod report;
mod s0;

use crate::{
    device::DeviceOptions,
    out,
    verbs::{data_beside, data_of, input_size},
};
use adamant::{
    DType, Tensor,
    nn::Walk,
    no_grad,
    profile::{PerformanceMonitor, PerformanceSummary},
};
use adamant_bench::record::Case;
use adamant_train::{Document, Failure, Sample, Trained, sample};
use clap::Args;
use report::Report;
use serde_json::json;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// Options of `bench`.
#[derive(Args)]
#[command(after_help = "Examples:\n  adamant bench s0\n  adamant bench s0 --only softmax --json\n  \
adamant bench examples/mnist/mnist.toml --latency --input 1,28,28\n  adamant bench runs/mnist-1 --batch 64\n  \
adamant bench runs/mnist-1 --report bundle.json\n\n\
A target of the speed table that is missed ends with 1.")]
pub struct Bench {
    /// `s0`: the speed table; else a description in TOML, or the folder of a run
    what: PathBuf,
    /// only lines of the speed table with this in their name
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// one row at a time unless --batch says otherwise, with p50, p99 and p99.9
    #[arg(long)]
    latency: bool,
    /// rows at once; the description's batch unless it is given
    #[arg(long)]
    batch: Option<usize>,
    /// shape (and dtype) of one input without the batch: 1,28,28 or 64:i64; asked of the data unless it is given
    #[arg(long, value_name = "SHAPE[:DTYPE]")]
    input: Option<String>,
    /// where the data lies, instead of beside the description
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// seconds of calls for each line
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    #[command(flatten)]
    device: DeviceOptions,
    /// writes machine, versions, settings and all times to a file, as one JSON document (docs/bench-record.md)
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// prints one JSON document
    #[arg(long)]
    json: bool,
}
/// Calls that are not counted: memory is had and plans are made.
const WARM_UP: usize = 5;
/// Fewer calls say nothing.
const FEWEST: u64 = 10;
/// More say nothing new.
const MOST: u64 = 1_000_000;

/// Does it. Tells whether a failure is yet to be told as JSON: the speed table says itself what it has missed.
pub fn run(o: &Bench) -> (bool, Result<(), Failure>) {
    match measure(o) {
        Ok(None) => (o.json, Ok(())),
        Ok(Some(missed)) => (false, Err(Failure::Run(missed))),
        Err(e) => (o.json, Err(e)),
    }
}
fn measure(o: &Bench) -> Result<Option<String>, Failure> {
    let budget = Duration::try_from_secs_f64(o.seconds).map_err(|_| Failure::Usage("--seconds counts from 0".into()))?;
    if o.batch == Some(0) {
        return Err(Failure::Usage("--batch takes a number from 1 on".into()));
    }
    let device = o.device.open()?;
    let mut report = o.report.as_deref().map(|file| Report::begin(file, device, o.seconds)).transpose()?;
    let about_model = o.latency || o.batch.is_some() || o.input.is_some() || o.data.is_some();
    let done = match (o.what.as_os_str() == "s0", &o.only) {
        (true, _) if about_model => Err(Failure::Usage("--latency, --batch, --input and --data are about a model; s0 has none".into())),
        (true, only) => s0::table(device, only.as_deref().unwrap_or(""), budget, o.json, report.as_mut()),
        (false, Some(_)) => Err(Failure::Usage("--only is about the lines of s0".into())),
        (false, None) => device.scoped(|| model(o, budget, report.as_mut())).map(|()| None),
    }?;
    report.map_or(Ok(()), Report::write)?;
    Ok(done)
}
/// Times calls until the budget is used; each tells its own time. What they took together, and each.
fn timed(budget: Duration, mut call: impl FnMut() -> Result<Duration, Failure>) -> Result<(PerformanceSummary, Vec<Duration>), Failure> {
    for _ in 0..WARM_UP {
        call()?;
    }
    let (monitor, begun) = (PerformanceMonitor::new(), Instant::now());
    let (mut n, mut all) = (0, Vec::new());
    while n < FEWEST || (begun.elapsed() < budget && n < MOST) {
        let time = call()?;
        monitor.record_step(n, time);
        all.push(time);
        n += 1;
    }
    Ok((monitor.performance_summary(), all))
}
/// How long one call takes.
fn clocked<R, E: Into<Failure>>(f: impl FnOnce() -> Result<R, E>) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let result = f();
    let time = begun.elapsed();
    result.map_err(Into::into)?;
    Ok(time)
}

fn model(o: &Bench, budget: Duration, report: Option<&mut Report>) -> Result<(), Failure> {
    let input = o.input.as_deref().map(input_size).transpose()?;
    let sample = if o.what.is_dir() {
        let trained = Trained::open(&o.what)?;
        let found = sample(&trained.document, &data_of(&o.what, o.data.as_deref()), input)?;
        // Layers fell back and magnitudes were remembered while it was trained.
        Sample { model: trained.model, region: trained.region, ..found }
    } else {
        let folder = data_beside(&o.what, o.data.as_deref());
        sample(&Document::read(&o.what)?, &folder, input)?
    };
    let batch = o.batch.unwrap_or(if o.latency { 1 } else { sample.batch });
    sample.model.eval();
    let x = inputs(&[&[batch], &*sample.input.0].concat(), sample.input.1)?;
    let (seen, all) = timed(budget, || clocked(|| no_grad(|| Ok::<_, Failure>(sample.answer(&x)?.materialize()?))))?;
    let precision = sample.precision.to_string();
    if let Some(report) = report {
        let name = o.what.file_stem().map_or_else(|| o.what.to_string_lossy(), |s| s.to_string_lossy());
        report.add(Case { dtype: sample.precision.mode.name().into(), ..Case::new(format!("{name}, forward, batch {batch}"), "adamant") }, &all);
    }
    let rate = batch as f64 * seen.steps_per_second;
    let micro = |d: Duration| d.as_secs_f64() * 1e6;
    if o.json {
        return out::line(json!({
            "batch": batch, "precision": precision, "calls": seen.steps, "samples_per_second": rate, "mean_us": micro(seen.average_step_time), "std_us": micro(seen.std),
            "min_us": micro(seen.min), "p50_us": micro(seen.p50), "p99_us": micro(seen.p99), "p999_us": micro(seen.p999), "max_us": micro(seen.max),
        }));
    }
    out::line(format!("batch     {batch}\nprecision {precision}\ncalls     {}\nrate      {rate:.0} samples/s", seen.steps))?;
    out::line(format!("mean      {:.1} us (std {:.1}, least {:.1})", micro(seen.average_step_time), micro(seen.std), micro(seen.min)))?;
    if o.latency {
        out::line(format!("latency   p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us", micro(seen.p50), micro(seen.p99), micro(seen.p999)))?;
    }
    Ok(())
}
/// Numbers that any model takes: below one, and 0 where they are indices.
pub fn inputs(shape: &[usize], dtype: DType) -> Result<Tensor, Failure> {
    let n = i64::try_from(shape.iter().product::<usize>()).map_err(|_| Failure::Usage("so many inputs do not fit".into()))?;
    let x = (Tensor::arange(0, n, 1, DType::I64).remainder(97i64).cast(DType::F32) / 97.0).cast(dtype).reshape(shape);
    x.materialize()?;
    Ok(x)
}
