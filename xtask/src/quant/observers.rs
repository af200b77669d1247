//! Observers beside PyTorch's, NumPy's percentile and ONNX Runtime's entropy calibrator: the same values, inputs of layers of trained
//! models and drawn ones with outliers, are shown to both. What has no peer, the least squared error, is held against the best of
//! 1,000 thresholds.
use super::observed::{ObservedCase, counts, drawn, of_models};
use crate::exit::Exit;
use adamant::quant::observe::{ChannelObserver, CodeRange, Observation, Observer, entropy_threshold};
use adamant_conformance::random::Random;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

/// What is compared, and how much.
#[derive(clap::Args)]
pub struct ObserverOptions {
    /// A Python with PyTorch, NumPy and ONNX Runtime
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Folder of the real data sets
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Folder that trained models are kept in; they are trained where it lacks them
    #[arg(long, default_value = "target/quant")]
    pub runs: PathBuf,
    /// How many drawn sets of values
    #[arg(long, default_value_t = 84)]
    n: usize,
    /// The seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Change what our observers say, and show that each change is found
    #[arg(long)]
    plant: bool,
    /// Write small drawn cases with the peers' answers to a file, for tests that run without Python
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}
const SCRIPT: &str = include_str!("observers.py");
const PERCENTS: [f64; 4] = [90.0, 99.0, 99.9, 99.99];
const RATES: [f64; 3] = [0.01, 0.1, 0.5];
/// Of least squared errors, at most so many times the best of 1,000 thresholds'.
const WORSE: f64 = 1.01;
const CODES: [(&str, CodeRange); 4] = [
    ("u8", CodeRange::U8),
    ("i8", CodeRange::I8),
    ("i8-whole", CodeRange { low: -128, high: 127, symmetric: true }),
    ("i8-affine", CodeRange { low: -128, high: 127, symmetric: false }),
];
/// Divergences that lie no further apart differ by what f32 rounds: a sum of terms of which none is above 1.
const TIE: f64 = 2.5e-7;
/// Values of a drawn batch, at most, and of one that is recorded.
const MOST: usize = 4000;
const MOST_RECORDED: usize = 48;

/// What was compared under a name: how often, and what was wrong.
#[derive(Default)]
struct ObserverFigures {
    figures: usize,
    /// the largest difference, in the unit of the promise
    largest: f64,
    /// figures that differ by more, where the peer's own measure of them is the same up to rounding
    ties: usize,
    wrong: Vec<String>,
}
/// Everything, by what is promised.
struct ObserverComparison {
    plant: bool,
    by_name: BTreeMap<&'static str, ObserverFigures>,
}
impl ObserverComparison {
    fn note(&mut self, promise: &'static str, case: &str, off: f64, most: f64, told: impl FnOnce() -> String) {
        let of = self.by_name.entry(promise).or_default();
        of.figures += 1;
        of.largest = of.largest.max(off);
        if off.is_nan() || off > most {
            of.wrong.push(format!("{case}: {}", told()));
        }
    }
    /// Steps and codes of 0 are the same bits. The difference that is told is that of steps, in the last places of f32.
    fn same(&mut self, promise: &'static str, case: &str, ours: &[(f32, i32)], theirs: &Value) {
        let scales: Vec<f32> = theirs[0].as_array().into_iter().flatten().map(|v| v.as_f64().unwrap_or(f64::NAN) as f32).collect();
        let zeros: Vec<i64> = theirs[1].as_array().into_iter().flatten().map(|v| v.as_i64().unwrap_or(i64::MIN)).collect();
        if ours.len() != scales.len() {
            self.note(promise, case, f64::NAN, 0.0, || format!("{} steps, not {}", ours.len(), scales.len()));
        }
        let steps = ours.iter().zip(scales.iter().zip(zeros.iter().chain(std::iter::repeat(&0))));
        for ((scale, zero), (their_scale, their_zero)) in steps {
            let scale = if self.plant { f32::from_bits(scale.to_bits() + 1) } else { *scale };
            let off = (f64::from(scale.to_bits()) - f64::from(their_scale.to_bits())).abs();
            let off = if i64::from(*zero) == *their_zero { off } else { off.max(1.0) };
            self.note(promise, case, off, 0.0, || format!("{scale:e} and {zero}, not {their_scale:e} and {their_zero}"));
        }
    }
}

pub fn run(options: &ObserverOptions) -> Result<Exit, String> {
    let peers = Command::new(&options.python).args(["-c", "import torch, numpy, onnxruntime.quantization.calibrate"]).output();
    if !peers.is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: {} lacks PyTorch, NumPy or ONNX Runtime (--python names another)", options.python.display());
        return Ok(Exit::Skipped);
    }
    let random = Random::new(options.seed);
    if let Some(file) = &options.record {
        return record(options, file, &random);
    }
    let mut cases = of_models(options).map_err(|e| e.to_string())?;
    let real = cases.len();
    cases.extend((0..options.n).map(|k| drawn(k, &random, MOST)));
    let histograms = histograms(&cases, &random);
    let answers = asked(&options.python, &cases, &histograms)?;
    let mut comparison = ObserverComparison { plant: options.plant, by_name: BTreeMap::new() };
    for (case, theirs) in cases.iter().zip(list(&answers["cases"])) {
        compare(&mut comparison, case, theirs).map_err(|e| format!("{}: {e}", case.name))?;
    }
    for (histogram, theirs) in histograms.iter().zip(list(&answers["thresholds"])) {
        thresholds(&mut comparison, histogram, theirs);
    }
    println!("inputs of {real} layers of trained models, {} drawn sets of values, {} histograms", cases.len() - real, histograms.len());
    let mut passed = true;
    for (promise, ObserverFigures { figures, largest, ties, wrong }) in &comparison.by_name {
        let holds = wrong.is_empty() != options.plant;
        passed &= holds;
        let word = if holds { "passed" } else { "failed" };
        let ties = if *ties > 0 { format!(", {ties} as good as the peer's by its own measure") } else { String::new() };
        println!("{word} {promise}: {figures} figures, {} wrong{ties}, the largest difference {largest:.4}", wrong.len());
        wrong.iter().take(if holds { 1 } else { 5 }).for_each(|w| println!("  {w}"));
    }
    Ok(if passed { Exit::Passed } else { Exit::Failed })
}
fn list(of: &Value) -> &[Value] {
    of.as_array().map_or(&[], Vec::as_slice)
}

/// Counts, and how many steps codes have on them.
struct AskedHistogram {
    name: String,
    counts: Vec<u64>,
    codes: usize,
}
/// One of each case, of drawn numbers of bins.
fn histograms(cases: &[ObservedCase], random: &Random) -> Vec<AskedHistogram> {
    let of = |(k, case): (usize, &ObservedCase)| {
        let mut random = random.part(1_000_000 + k as u64);
        let bins = [128, 200, 513, 1024, 2001, 2048][random.below(6)];
        let codes = [64, 128, 128, 255, 256][random.below(5)].min(bins);
        AskedHistogram { name: format!("{}, {bins} bins, {codes} steps", case.name), counts: counts(case, bins), codes }
    };
    cases.iter().enumerate().map(of).collect()
}
fn asked(python: &Path, cases: &[ObservedCase], histograms: &[AskedHistogram]) -> Result<Value, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, bytes: &[u8]| std::fs::write(at(name), bytes).map_err(|e| e.to_string());
    let mut told = Vec::new();
    for (k, case) in cases.iter().enumerate() {
        let bytes: Vec<u8> = case.values().iter().flat_map(|v| v.to_le_bytes()).collect();
        write(&format!("{k}"), &bytes)?;
        let shapes: Vec<&[usize]> = case.batches.iter().map(|(shape, _)| shape.as_slice()).collect();
        told.push(json!({ "file": k.to_string(), "shapes": shapes, "axis": case.axis, "percents": PERCENTS, "rates": RATES }));
    }
    let counted: Vec<Value> = histograms.iter().map(|h| json!({ "counts": h.counts, "codes": h.codes })).collect();
    write("asked.json", json!({ "cases": told, "histograms": counted }).to_string().as_bytes())?;
    write("observers.py", SCRIPT.as_bytes())?;
    let output = Command::new(python).arg(at("observers.py")).arg(folder.path()).output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())
}

fn observer(how: Observation, case: &ObservedCase) -> adamant::Result<Observer> {
    let mut observer = Observer::new(how)?;
    case.batches.iter().try_for_each(|(_, values)| observer.see(values))?;
    Ok(observer)
}
fn compare(comparison: &mut ObserverComparison, case: &ObservedCase, theirs: &Value) -> adamant::Result<()> {
    let name = case.name.as_str();
    let mut hows = vec![("minmax".to_string(), "min-max = PyTorch's", "min-max by channel = PyTorch's", Observation::MinMax)];
    for rate in RATES {
        hows.push((format!("moving-{rate}"), "moving average = PyTorch's", "moving average by channel = PyTorch's", Observation::MovingAverage { rate }));
    }
    for (key, promise, by_channel, how) in hows {
        let whole = observer(how, case)?;
        let mut channels = ChannelObserver::new(how, case.channels())?;
        case.batches.iter().try_for_each(|(shape, values)| channels.see(values, shape, case.axis))?;
        for (of, codes) in CODES {
            comparison.same(promise, name, &[whole.codes(codes)?], &theirs[&key][of]);
            comparison.same(by_channel, name, &channels.codes(codes)?, &theirs[format!("{key}-channels")][of]);
        }
    }
    let histogram = observer(Observation::Histogram, case)?;
    for (of, codes) in CODES {
        comparison.same("histogram = PyTorch's", name, &[histogram.codes(codes)?], &theirs["histogram"][of]);
    }
    for (percent, ends) in PERCENTS.into_iter().zip(list(&theirs["percentiles"])) {
        let observer = observer(Observation::Percentile { percent }, case)?;
        let (range, bin) = (observer.range()?, observer.bin_width().unwrap_or(f64::NAN));
        for (ours, theirs) in [range.0, range.1].into_iter().zip(list(ends)) {
            let theirs = theirs.as_f64().unwrap_or(f64::NAN);
            let off = (ours - theirs).abs() / bin + if comparison.plant { 1.5 } else { 0.0 };
            comparison.note("percentile within a bin of NumPy's", name, off, 1.0, || format!("{percent} %: {ours:e}, not {theirs:e}, bins of {bin:e}"));
        }
    }
    let least = observer(Observation::Mse, case)?.range()?;
    let least = if comparison.plant { (least.0 * 0.8, least.1 * 0.8) } else { least };
    let (ours, best) = squared_errors(&case.values(), least);
    // Values that some codes stand for exactly have an error of what f32 rounds.
    let slack = rounding(&case.values());
    let off = if ours <= slack { 0.0 } else { ours / best.max(slack) };
    comparison.note("least squared error <= 1.01 of the best of 1,000 thresholds", name, off, WORSE, || format!("{ours:e} by {least:?}, best {best:e}"));
    Ok(())
}
fn rounding(values: &[f32]) -> f64 {
    values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() * f64::from(f32::EPSILON).powi(2)
}
/// The squared error of u8 codes that span a range, and the least of those of 1,000 thresholds in each of two ways: both ends drawn in
/// alike, and all beyond a distance from 0 cut off.
fn squared_errors(values: &[f32], range: (f64, f64)) -> (f64, f64) {
    let error = |(low, high): (f64, f64)| -> f64 {
        let (low, high) = (low.min(0.0) as f32, high.max(0.0) as f32);
        let scale = ((high - low) / 255.0).max(f32::EPSILON);
        let zero = (-low / scale).round_ties_even().clamp(0.0, 255.0);
        let of = |v: &f32| {
            let code = ((*v / scale).round_ties_even() + zero).clamp(0.0, 255.0);
            (f64::from(*v) - f64::from(code - zero) * f64::from(scale)).powi(2)
        };
        values.iter().map(of).sum()
    };
    let (low, high) = values.iter().fold((0f64, 0f64), |(l, h), v| (l.min(f64::from(*v)), h.max(f64::from(*v))));
    let most = high.max(-low);
    let shares = (1..=1000).map(|k| f64::from(k) / 1000.0);
    let tried = shares.flat_map(|share| [(low * share, high * share), (low.max(-most * share), high.min(most * share))]);
    (error(range), tried.map(error).fold(f64::INFINITY, f64::min))
}
fn thresholds(comparison: &mut ObserverComparison, histogram: &AskedHistogram, theirs: &Value) {
    let counts: Vec<f64> = histogram.counts.iter().map(|c| *c as f64).collect();
    let reach = entropy_threshold(&counts, histogram.codes) + if comparison.plant { 2 } else { 0 };
    let middle = counts.len() / 2;
    let ours = [middle as f64 - reach as f64, (middle + reach + 1).min(counts.len()) as f64];
    let divergences: Vec<f64> = list(&theirs["divergences"]).iter().map(|d| d.as_f64().unwrap_or(f64::INFINITY)).collect();
    let least = divergences.iter().copied().fold(f64::INFINITY, f64::min);
    let of_ours = divergences.get(reach - histogram.codes / 2).copied().unwrap_or(f64::INFINITY);
    let promise = "entropy's threshold within a bin of ONNX Runtime's";
    for (ours, theirs) in ours.into_iter().zip(list(&theirs["ends"])) {
        let theirs = theirs.as_f64().unwrap_or(f64::NAN);
        let off = (ours - theirs).abs();
        let is_tie = off > 1.0 && of_ours - least <= TIE && !comparison.plant;
        comparison.by_name.entry(promise).or_default().ties += usize::from(is_tie);
        comparison.note(promise, &histogram.name, if is_tie { 0.0 } else { off }, 1.0, || format!("bin {ours}, not {theirs}: {of_ours:e}, least {least:e}"));
    }
}

/// Small cases, and what the peers say of them.
fn record(options: &ObserverOptions, file: &Path, random: &Random) -> Result<Exit, String> {
    let cases: Vec<ObservedCase> = (0..28).map(|k| drawn(k, random, MOST_RECORDED)).collect();
    let bells: Vec<ObservedCase> = [0, 1, 3, 14, 15, 16].map(|k| drawn(k, random, MOST)).into();
    let counted = |(k, case): (usize, &ObservedCase)| {
        let bins = [256, 301, 512][k % 3];
        AskedHistogram { name: case.name.clone(), counts: counts(case, bins), codes: [64, 128][k % 2] }
    };
    let histograms: Vec<AskedHistogram> = bells.iter().enumerate().map(counted).collect();
    let answers = asked(&options.python, &cases, &histograms)?;
    let mut lines = Vec::new();
    for (case, theirs) in cases.iter().zip(list(&answers["cases"])) {
        let batches: Vec<Value> = case.batches.iter().map(|(shape, values)| json!({ "shape": shape, "values": values })).collect();
        lines.push(json!({ "name": case.name, "axis": case.axis, "percents": PERCENTS, "rates": RATES, "batches": batches, "answers": theirs }));
    }
    for (histogram, theirs) in histograms.iter().zip(list(&answers["thresholds"])) {
        lines.push(json!({ "name": histogram.name, "counts": histogram.counts, "codes": histogram.codes, "threshold": theirs["ends"] }));
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    println!("{} cases, {} histograms: {}", cases.len(), histograms.len(), file.display());
    Ok(Exit::Passed)
}
