//! `cargo xtask fuzz-graphs --n N --seed S`: random graphs run fused, in cut windows and op by op. Fails when bits differ,
//! when an op lies outside the published table, when too few graphs fuse, or when a cell of the table primitive x dtype
//! x layout stays empty in a run long enough to fill it. `--plant` shows that it finds faults planted into the scheduler.
use crate::exit::Exit;
use adamant_conformance::{fuzz, plain};
use adamant_core::{Device, planted::Plant};
use serde_json::json;
use std::time::Instant;

/// The least share of graphs that must contain a fused kernel.
const FUSED_SHARE: f64 = 0.6;

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// How many graphs
    #[arg(long, default_value_t = 20_000)]
    n: usize,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// cpu, cuda:N, wgpu:N, reference, or plain for the loops that come with the suite
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Plant this fault, or `all` one after the other, and show that it is found (on the plain loops)
    #[arg(long)]
    plant: Option<String>,
    /// Stop after so many failures
    #[arg(long, default_value_t = 10)]
    failures: usize,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the campaign and reports.
pub fn run(options: &Options) -> Exit {
    if let Some(plant) = &options.plant {
        let chosen = match chosen(plant, &Plant::ALL) {
            Ok(chosen) => chosen,
            Err(exit) => return exit,
        };
        return planted(options, &chosen);
    }
    let device = match open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    let started = Instant::now();
    let report = fuzz::run(device, &fuzz::Options { n: options.n, seed: options.seed, failures: options.failures, shrink: true });
    let seconds = started.elapsed().as_secs_f64();
    let missing = if report.must_fill() { report.coverage.missing() } else { Vec::new() };
    let (cells, filled) = report.coverage.filled();
    let enough = report.fused_share() >= FUSED_SHARE;
    let passed = report.failures.is_empty() && enough && missing.is_empty();
    if options.json {
        let failures: Vec<_> = report.failures.iter().map(|f| json!({ "graph": f.index, "what": f.what, "program": f.program.to_string() })).collect();
        println!(
            "{}",
            json!({
                "device": options.device, "seed": options.seed, "graphs": report.graphs, "seconds": seconds, "fused_share": report.fused_share(),
                "ops_checked": report.checked, "values_compared": report.compared, "faulted": report.faulted, "differentiated": report.differentiated,
                "cells": cells, "cells_filled": filled, "cells_missing": missing.iter().map(name_of).collect::<Vec<_>>(), "failures": failures, "passed": passed,
            })
        );
    } else {
        for f in &report.failures {
            println!("{f}");
        }
        for w in missing.iter().take(20) {
            println!("never occurred: {}", name_of(w));
        }
        println!(
            "{} graphs in {seconds:.1} s, {:.1} % with a fused kernel (at least {:.0} %)",
            report.graphs,
            100.0 * report.fused_share(),
            100.0 * FUSED_SHARE
        );
        println!(
            "{} ops compared with the reference, {} values compared bit for bit, {} graphs differentiated, {} with bad data",
            report.checked, report.compared, report.differentiated, report.faulted
        );
        println!("{filled} of {cells} cells of primitive x dtype x layout{}", if report.must_fill() { "" } else { " (too few graphs to fill all)" });
        println!("{} failures", report.failures.len());
    }
    if passed { Exit::Passed } else { Exit::Failed }
}
/// The fault of this name, or all of those.
pub fn chosen(name: &str, of: &[Plant]) -> Result<Vec<Plant>, Exit> {
    let chosen: Vec<Plant> = of.iter().copied().filter(|p| name == "all" || name == format!("{p:?}")).collect();
    if chosen.is_empty() {
        eprintln!("`{name}` is no such fault; there are {of:?} and all");
        return Err(Exit::Usage);
    }
    Ok(chosen)
}
fn name_of(w: &fuzz::coverage::Want) -> String {
    format!("{} on {} {:?}", w.primitive.name(), w.dtype, w.layout)
}
/// The device of this name.
pub fn open(name: &str) -> Result<Device, Exit> {
    if name == "plain" {
        return Ok(plain::device(2048, usize::MAX));
    }
    crate::device::open(name)
}

#[cfg(feature = "planted-faults")]
fn planted(options: &Options, chosen: &[Plant]) -> Exit {
    let mut lost = 0;
    let mut found = Vec::new();
    for &plant in chosen {
        // A device of its own: plans made under one fault must not serve another.
        let device = plain::device(2048, usize::MAX);
        let report = adamant_core::planted::with(plant, || fuzz::run(device, &fuzz::Options { n: options.n, seed: options.seed, failures: 1, shrink: true }));
        let first = report.failures.first();
        lost += first.is_none() as usize;
        if !options.json {
            match first {
                Some(f) => println!("{plant:?}: found in graph {} of {}: {}\n{}", f.index + 1, options.n, f.what, f.program),
                None => println!("{plant:?}: NOT found in {} graphs\n", options.n),
            }
        }
        found.push(json!({ "fault": format!("{plant:?}"), "graph": first.map(|f| f.index + 1), "what": first.map(|f| f.what.clone()) }));
    }
    if options.json {
        println!("{}", json!({ "n": options.n, "seed": options.seed, "faults": found, "not_found": lost, "passed": lost == 0 }));
    } else {
        println!("{} of {} faults found within {} graphs", chosen.len() - lost, chosen.len(), options.n);
    }
    if lost == 0 { Exit::Passed } else { Exit::Failed }
}
#[cfg(not(feature = "planted-faults"))]
fn planted(_: &Options, _: &[Plant]) -> Exit {
    with_faults()
}
/// Starts again as a program that has the faults.
#[cfg(not(feature = "planted-faults"))]
pub fn with_faults() -> Exit {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = std::process::Command::new(cargo)
        .args(["run", "--quiet", "--release", "--package", "xtask", "--features", "planted-faults", "--"])
        .args(std::env::args_os().skip(1))
        .status();
    match status.map(|s| s.code()) {
        Ok(Some(0)) => Exit::Passed,
        Ok(Some(2)) => Exit::Usage,
        Ok(_) => Exit::Failed,
        Err(e) => {
            eprintln!("cargo does not start: {e}");
            Exit::Failed
        }
    }
}
