//! `cargo xtask late --seeds 5 --graphs 20000`: the CPU's kernels on a device that is late on purpose. For each seed of delays: the
//! suite of every backend, the training of a small CNN on handwritten digits with the losses and weights that the CPU gives,
//! random graphs, and random programs of ranks that exchange; then the mistakes that the runtime could make, each of which is to be
//! found. Fails at the first that is not as it should be. `--plant NAME` plants a fault where ranks work together.
use crate::{bench::models::ModelWeights, exit::Exit, fuzz_graphs};
use adamant::{
    Device, Result, Tensor,
    cpu::CpuBackend,
    functional::{ConvOptions, CrossEntropyOptions, MaxPoolOptions, cross_entropy, max_pool2d},
    optim::{AdamW, Optimizer, UpdateRule},
};
use adamant_conformance::{
    fuzz,
    late::{
        self, Options as Lateness,
        planted::{PLANTS, complaint},
    },
    ranks,
    share::CheckShare,
    suite::{self, Report},
};
use adamant_core::{backend::Backend, planted::Plant};
use std::{io::Read, time::Instant};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// How many seeds of delays
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Random graphs for each
    #[arg(long, default_value_t = 20_000)]
    graphs: usize,
    /// Passes over the digits
    #[arg(long, default_value_t = 1)]
    epochs: usize,
    /// Programs of several ranks for each
    #[arg(long, default_value_t = 500)]
    programs: u64,
    /// Leave the suite out
    #[arg(long)]
    no_suite: bool,
    /// Plant this fault, or all, where ranks work together, and find it
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,
}

fn cpu() -> std::result::Result<Box<dyn Backend>, String> {
    let backend = CpuBackend::builder().threads(1).build().map_err(|e| e.to_string())?;
    Ok(Box::new(backend))
}
fn device(seed: u64) -> std::result::Result<Device, String> {
    Ok(late::device(cpu()?, Lateness { seed, in_place: Some(seed % 2 == 1) }))
}
/// Runs all of it and reports.
pub fn run(options: &Options) -> Exit {
    if let Some(name) = &options.plant {
        return fuzz_graphs::chosen(name, &Plant::OF_RANKS).map_or_else(|exit| exit, |chosen| planted(options, &chosen));
    }
    let done = seeds(options).try_for_each(|seed| one(seed, options)).and_then(|()| plants());
    match done {
        Ok(()) => {
            println!("{} seeds, 0 failures, {} of {} mistakes found: passed", options.seeds, PLANTS.len(), PLANTS.len());
            Exit::Passed
        }
        Err(why) => {
            eprintln!("{why}\nFAILED");
            Exit::Failed
        }
    }
}
fn seeds(options: &Options) -> std::ops::Range<u64> {
    options.first..options.first.saturating_add(options.seeds)
}
/// One check of the suite.
type Check = (&'static str, fn(Device) -> Report);
const SUITE: [Check; 8] = [
    ("correctness", |d| suite::correctness(d, CheckShare::Whole)),
    ("errors", suite::errors),
    ("gradients", |d| suite::gradients(d, CheckShare::Whole)),
    ("special values", |d| suite::special_values(d, CheckShare::Whole)),
    ("faults", suite::faults),
    ("in place", suite::in_place),
    ("cuts", |d| suite::cuts(d, CheckShare::Whole)),
    ("threads", suite::threads),
];
fn one(seed: u64, options: &Options) -> std::result::Result<(), String> {
    let device = device(seed)?;
    let started = Instant::now();
    let seconds = || started.elapsed().as_secs_f64();
    let mut checks = 0;
    for (name, check) in SUITE.iter().filter(|_| !options.no_suite) {
        let report = check(device);
        checks += report.checks;
        if let Some(first) = report.complaints().first() {
            return Err(format!("seed {seed}, {name}: {first}"));
        }
    }
    println!("seed {seed}: {checks} checks of the suite, {:.1} s", seconds());
    let rows = digits().map_err(|e| format!("the digits: {e}"))?;
    let trained = |device: Device| device.scoped(|| train(&rows, options.epochs)).map_err(|e| format!("seed {seed}, digits: {e}"));
    let (ours, meant) = (trained(device)?, trained(Device::from_backend(cpu()?))?);
    if ours != meant {
        return Err(format!("seed {seed}, digits: other losses or weights than on the CPU"));
    }
    println!("seed {seed}: {} numbers of a training on digits are the CPU's, bit for bit, {:.1} s", ours.len(), seconds());
    let report = fuzz::run(device, &fuzz::Options { n: options.graphs, seed, failures: 1, shrink: true });
    if let Some(first) = report.failures.first() {
        return Err(format!("seed {seed}: {first}"));
    }
    println!(
        "seed {seed}: {} graphs, {} values compared, {} graphs with bad data, 0 failures, {:.1} s",
        report.graphs,
        report.compared,
        report.faulted,
        seconds()
    );
    exchanges(seed, options.programs, &|f| f()).map_err(|why| format!("seed {seed}: {why}"))?;
    println!("seed {seed}: {} programs of ranks that exchange end alike, {:.1} s", options.programs, seconds());
    Ok(())
}
/// Programs of ranks, each on a late device of its own, and whether they exchange while their device goes on.
fn exchanges(seed: u64, programs: u64, around: &ranks::Around<'_>) -> std::result::Result<(), String> {
    let late = device(seed)?;
    let mut overlap = Ok(());
    around(&mut || overlap = ranks::overlap(late));
    overlap?;
    (0..programs).try_for_each(|k| {
        let program = seed << 32 | k;
        ranks::program(program, &|rank| device(program * 8 + rank as u64), around)
    })
}
#[cfg(feature = "planted-faults")]
fn planted(options: &Options, chosen: &[Plant]) -> Exit {
    let find = |plant| seeds(options).find_map(|seed| exchanges(seed, options.programs, &|f| adamant_core::planted::with(plant, f)).err());
    let found = chosen.iter().filter(|&&plant| {
        let found = find(plant);
        println!("{plant:?}: {}", found.as_deref().map_or("NOT found", |why| why.lines().next().unwrap_or_default()));
        found.is_some()
    });
    let found = found.count();
    println!("{found} of {} faults found", chosen.len());
    if found == chosen.len() { Exit::Passed } else { Exit::Failed }
}
#[cfg(not(feature = "planted-faults"))]
fn planted(_: &Options, _: &[Plant]) -> Exit {
    fuzz_graphs::with_faults()
}
fn plants() -> std::result::Result<(), String> {
    if let Some(why) = complaint(cpu()?, Lateness::of(0), None) {
        return Err(format!("without a mistake: {why}"));
    }
    for plant in PLANTS {
        let found = (0..16).find_map(|seed| complaint(cpu().ok()?, Lateness { seed, in_place: Some(seed % 2 == 0) }, Some(plant)));
        println!("{plant:?}: {}", found.ok_or_else(|| format!("{plant:?} was not found"))?);
    }
    Ok(())
}
/// The rows of the example's table: 64 pixels and a digit.
fn digits() -> std::result::Result<Vec<[f32; 65]>, String> {
    let path = crate::workspace::root().join("examples/digits/data/digits.csv.gz");
    let file = std::fs::File::open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).map_err(|e| e.to_string())?;
    let row = |line: &str| {
        let numbers: Vec<f32> =
            line.split(',').map(|n| n.trim().parse().map_err(|_| format!("`{n}` is no number"))).collect::<std::result::Result<_, String>>()?;
        <[f32; 65]>::try_from(numbers).map_err(|n| format!("a row of {} numbers", n.len()))
    };
    text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).map(row).collect()
}
/// The bits of all losses and of the weights at the end.
fn train(rows: &[[f32; 65]], epochs: usize) -> Result<Vec<u32>> {
    const BATCH: usize = 64;
    let mut w = ModelWeights::default();
    let same = ConvOptions { padding: 1.into(), ..ConvOptions::default() };
    let (first, second) = (w.convolution(1, 8, 3, same.clone(), true)?, w.convolution(8, 16, 3, same, true)?);
    let (hidden, last) = (w.dense(256, 32, true)?, w.dense(32, 10, true)?);
    let parameters = w.parameters.clone();
    let mut optimizer = AdamW::new(2e-3).weight_decay(1e-2).over(w.parameters);
    let mut bits = Vec::new();
    for batch in (0..epochs).flat_map(|_| rows.chunks_exact(BATCH)) {
        let x = Tensor::from_vec(batch.iter().flat_map(|r| &r[..64]).map(|p| p / 16.0).collect(), [BATCH, 1, 8, 8]);
        let y = Tensor::from_vec(batch.iter().map(|r| r[64] as i64).collect(), [BATCH]);
        let h = second.of(&first.of(&x).relu()).relu();
        let h = max_pool2d(&h, &MaxPoolOptions::new(2)).0.reshape([BATCH, 256]);
        let loss = cross_entropy(&last.of(&hidden.of(&h).relu()), &y, &CrossEntropyOptions::default());
        optimizer.step(&loss.backward()?)?;
        bits.push(loss.item::<f32>()?.to_bits());
    }
    for p in &parameters {
        bits.extend(p.detached().to_vec::<f32>()?.into_iter().map(f32::to_bits));
    }
    Ok(bits)
}
