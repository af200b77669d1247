//! `cargo xtask conformance --device D`: the suite that every backend passes, run on one device: what each public function
//! gives on every dtype and layout, errors, gradients, special values, faults, updates in place, cut windows, threads and a
//! slice of the fuzzer. What a device says that it cannot do is listed and does not count as failed. The last line is
//! `N passed, M failed, K unsupported`; with `--json` it is one document.
use crate::exit::Exit;
use adamant_conformance::{
    share::CheckShare,
    suite::{self, FunctionSupport, Report},
};
use adamant_core::Device;
use serde_json::json;
use std::{path::PathBuf, time::Instant};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// cpu, cuda:N, wgpu:N, reference, or plain for the loops that come with the suite
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Only these modes: correctness, errors, gradients, special, faults, in-place, cuts, threads, fuzz
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Graphs of the fuzzer's slice
    #[arg(long, default_value_t = 2000)]
    graphs: usize,
    /// Write what the device does at the edges of arithmetic and the support table (function x dtype) as Markdown into this file
    #[arg(long)]
    table: Option<PathBuf>,
    /// One JSON document as the last line
    #[arg(long)]
    json: bool,
}
/// A mode's name, and how it runs on a device with so many graphs.
type Mode = (&'static str, fn(Device, usize) -> Report);
const MODES: [Mode; 9] = [
    ("correctness", |d, _| suite::correctness(d, CheckShare::Whole)),
    ("errors", |d, _| suite::errors(d)),
    ("gradients", |d, _| suite::gradients(d, CheckShare::Whole)),
    ("special", |d, _| suite::special_values(d, CheckShare::Whole)),
    ("faults", |d, _| suite::faults(d)),
    ("in-place", |d, _| suite::in_place(d)),
    ("cuts", |d, _| suite::cuts(d, CheckShare::Whole)),
    ("threads", |d, _| suite::threads(d)),
    ("fuzz", suite::fuzzing),
];
/// What the reference interpreter is not for: it reuses no memory.
const NOT_ON_THE_REFERENCE: &[&str] = &["in-place"];
/// Failures of one mode that are printed as text.
const SHOWN: usize = 20;

/// Runs the suite and reports.
pub fn run(options: &Options) -> Exit {
    if let Some(unknown) = options.only.iter().find(|name| !MODES.iter().any(|(n, _)| n == name)) {
        eprintln!("`{unknown}` is no mode; there are {}", MODES.map(|(n, _)| n).join(", "));
        return Exit::Usage;
    }
    let device = match crate::fuzz_graphs::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    if !options.json {
        println!("{device}: {}", device.info().name);
        device.info().details.iter().for_each(|(what, value)| println!("  {what}: {value}"));
    }
    let (mut checks, mut failed, mut unsupported, mut modes) = (0, 0, 0, Vec::new());
    let mut support = json!({});
    let chosen = |name: &str| options.only.is_empty() || options.only.iter().any(|o| o == name);
    let fits = |name: &str| device != Device::reference() || !NOT_ON_THE_REFERENCE.contains(&name);
    for (name, mode) in MODES.into_iter().filter(|(name, _)| chosen(name) && fits(name)) {
        let started = Instant::now();
        let report = mode(device, options.graphs);
        let seconds = started.elapsed().as_secs_f64();
        let bad = report.failures.len();
        (checks, failed, unsupported) = (checks + report.checks, failed + bad, unsupported + report.unsupported.len());
        if !options.json {
            for failure in report.failures.iter().take(SHOWN) {
                println!("{failure}");
            }
            for (function, why) in &report.unsupported {
                println!("unsupported: {function}: {why}");
            }
            println!("{name}: {} checks, {bad} failed, {} unsupported, {seconds:.1} s", report.checks, report.unsupported.len());
        }
        if name == "correctness" {
            support = table(&report);
            if let Some(path) = &options.table
                && let Err(e) = std::fs::write(path, facts(device) + &report.markdown())
            {
                eprintln!("{}: {e}", path.display());
                return Exit::Unreadable;
            }
        }
        let failures: Vec<_> = report.failures.iter().map(|f| json!({ "name": f.name, "case": f.case, "why": f.why })).collect();
        modes.push(json!({ "mode": name, "checks": report.checks, "failures": failures, "unsupported": report.unsupported, "seconds": seconds }));
    }
    let passed = checks - failed;
    if options.json {
        let counts = json!({ "passed": passed, "failed": failed, "unsupported": unsupported });
        let details: std::collections::BTreeMap<_, _> = device.info().details.iter().map(|(k, v)| (k, v)).collect();
        println!("{}", json!({ "device": options.device, "details": details, "counts": counts, "modes": modes, "support": support, "passed": failed == 0 }));
    } else {
        println!("{passed} passed, {failed} failed, {unsupported} unsupported");
    }
    if failed == 0 { Exit::Passed } else { Exit::Failed }
}
/// What the device says of itself: its dtypes, and what it keeps of NaN, infinities, -0 and subnormal numbers.
fn facts(device: Device) -> String {
    let info = device.info();
    let dtypes: Vec<String> = info.dtypes.iter().map(ToString::to_string).collect();
    let mut text = format!("{}: {}; dtypes {}\n\n| fact | |\n|---|---|\n", info.backend, info.name, dtypes.join(", "));
    for (what, value) in &info.details {
        text += &format!("| {what} | {value} |\n");
    }
    text + "\n"
}
fn table(report: &Report) -> serde_json::Value {
    let word = |s: &FunctionSupport| match s {
        FunctionSupport::Passed => "passed",
        FunctionSupport::Unsupported => "unsupported",
        FunctionSupport::Failed => "failed",
    };
    let row = |cells: &std::collections::BTreeMap<_, FunctionSupport>| {
        cells.iter().map(|(d, s): (&adamant_core::DType, _)| (d.to_string(), json!(word(s)))).collect()
    };
    serde_json::Value::Object(report.support.iter().map(|(name, cells)| (name.clone(), serde_json::Value::Object(row(cells)))).collect())
}
