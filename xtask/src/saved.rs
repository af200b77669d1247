//! `cargo xtask saved`: memory of training steps of ResNet-18 and of char-GPT (`train_resnet18_b32`, `train_chargpt_b8` of the workloads) in f32 and
//! in 16 bits: bytes that the walk back keeps, as [`saved_bytes`] reports and as memory becomes free when the loss is let go of; those of the
//! weights' casts, which stay with the weights until these are written; the most of a steady step above its start; and how often a
//! step casts a weight, with one small batch and with four. It fails where a figure is above its bound, or a report is more than 1 % off.
use crate::{
    bench::train::{TASKS, TrainingTask},
    device,
    exit::Exit,
};
use adamant::{DType, Device, Result, grad::saved_bytes};
use adamant_bench::Scale;
use adamant_core::{Op, graph::Graph};
use serde::Serialize;
use std::collections::BTreeSet;

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// cpu, or another device
    #[arg(long, default_value = "cpu")]
    device: String,
    /// bf16 or f16
    #[arg(long, default_value = "bf16", value_parser = ["bf16", "f16"])]
    precision: String,
    /// Small shapes: shows that it works; the bounds are for the others
    #[arg(long)]
    small: bool,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
/// The most that 16 bits keep for the walk back, as a share of what f32 keeps, by workload.
const KEPT: [(&str, f64); 2] = [("train_resnet18_b32", 0.55), ("train_chargpt_b8", 0.58)];
/// The same of a steady step's most above its start.
const PEAK: f64 = 0.75;
/// How far a report may be from what was measured.
const OFF: f64 = 0.01;
/// Small batches of a step in which gradients are accumulated.
const ACCUMULATED: usize = 4;

/// One network in one precision.
#[derive(Serialize, Clone, Copy)]
struct StepMemory {
    /// what the tape keeps and nobody else does
    reported: usize,
    /// by how much live memory shrinks when a loss is let go of
    measured: usize,
    /// by how much more it grew in the forward pass: casts of weights
    held: usize,
    /// the most of a step above its start
    peak: usize,
    /// weights that a step casts, and its casts of them
    cast: usize,
    casts: usize,
    /// the casts where a step has [`ACCUMULATED`] small batches
    casts_accumulated: usize,
}
#[derive(Serialize)]
struct SavedRow {
    workload: &'static str,
    f32: StepMemory,
    low: StepMemory,
    kept: f64,
    peak: f64,
    faults: Vec<String>,
}

/// Measures and reports.
pub fn run(options: &Options) -> Exit {
    let device = match device::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    let precision = if options.precision == "f16" { DType::F16 } else { DType::BF16 };
    let scale = if options.small { Scale::SMALL } else { Scale::FULL };
    match device.scoped(|| KEPT.iter().map(|(name, bound)| row(device, scale, precision, name, *bound)).collect::<Result<Vec<_>>>()) {
        Ok(rows) => report(&rows, options),
        Err(e) => {
            eprintln!("{e}");
            Exit::Failed
        }
    }
}
fn row(device: Device, scale: Scale, precision: DType, workload: &'static str, bound: f64) -> Result<SavedRow> {
    let of = |dtype: DType| -> Result<StepMemory> {
        let (_, build) = TASKS.iter().find(|(name, _)| *name == workload).ok_or_else(|| crate::bench::models::missing(workload))?;
        memory(device, build(scale)?.in_precision(dtype)?, dtype)
    };
    let (wide, low) = (of(DType::F32)?, of(precision)?);
    let share = |of: fn(&StepMemory) -> usize| of(&low) as f64 / of(&wide).max(1) as f64;
    let (kept, peak) = (share(|m| m.measured), share(|m| m.peak));
    let mut faults = Vec::new();
    let mut unless = |right: bool, fault: String| faults.extend((!right).then_some(fault));
    if !scale.is_small() {
        unless(kept <= bound, format!("it keeps {kept:.3} of f32's bytes for the walk back, {bound} is asked for"));
        unless(peak <= PEAK, format!("its most above its start is {peak:.3} of f32's, {PEAK} is asked for"));
    }
    for (dtype, m) in [(DType::F32, &wide), (precision, &low)] {
        let off = m.reported as f64 / m.measured.max(1) as f64 - 1.0;
        unless(off.abs() <= OFF, format!("in {dtype} {} bytes are reported and {} measured ({:+.2} %)", m.reported, m.measured, 100.0 * off));
        unless(
            m.casts == m.cast && m.casts_accumulated == m.cast,
            format!("in {dtype} {} weights are cast {} and {} times", m.cast, m.casts, m.casts_accumulated),
        );
    }
    unless(low.cast > 0, "no weight is cast".into());
    Ok(SavedRow { workload, f32: wide, low, kept, peak, faults })
}
fn memory(device: Device, mut task: TrainingTask, dtype: DType) -> Result<StepMemory> {
    // Blocks that another precision left would be handed out for smaller ones.
    device.pool().trim();
    // Slots are made in the first step, plans in the first two.
    for _ in 0..3 {
        task.step()?;
    }
    device.synchronize()?;
    let live = || device.memory().live_bytes;
    let start = live();
    let loss = task.forward()?;
    loss.materialize()?;
    device.synchronize()?;
    // The loss itself is the caller's.
    let own = {
        let before = live();
        let one = (loss.detach() + 0.0).ok()?;
        one.materialize()?;
        live() - before
    };
    let (reported, most) = (saved_bytes(&loss), live());
    drop(loss);
    device.synchronize()?;
    let (measured, held) = (most.saturating_sub(live() + own), live().saturating_sub(start));
    let start = live();
    device.pool().reset_peak();
    task.step()?;
    device.synchronize()?;
    let peak = device.memory().peak_bytes.saturating_sub(start);
    let (cast, casts) = casts(device, &task, dtype, 1)?;
    let (_, casts_accumulated) = self::casts(device, &task, dtype, ACCUMULATED)?;
    Ok(StepMemory { reported, measured, held, peak, cast, casts, casts_accumulated })
}
/// Weights that a step casts to 16 bits, and how often it casts one.
fn casts(device: Device, task: &TrainingTask, dtype: DType, batches: usize) -> Result<(usize, usize)> {
    if dtype == DType::F32 {
        return Ok((0, 0));
    }
    let graph = Graph::capture(device, &[], |_| task.passes(batches))?;
    let read: BTreeSet<u32> = graph.cells.iter().filter(|cell| cell.trainable).filter_map(|cell| cell.read).collect();
    let of: Vec<u32> = graph.nodes.iter().filter(|n| matches!(n.op, Op::Cast(to) if to == dtype) && read.contains(&n.inputs[0])).map(|n| n.inputs[0]).collect();
    Ok((of.iter().collect::<BTreeSet<_>>().len(), of.len()))
}
fn report(rows: &[SavedRow], options: &Options) -> Exit {
    let passed = rows.iter().all(|row| row.faults.is_empty());
    if options.json {
        println!("{}", serde_json::json!({ "precision": options.precision, "rows": rows, "passed": passed }));
        return if passed { Exit::Passed } else { Exit::Failed };
    }
    for row in rows {
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        println!("{}", row.workload);
        for (dtype, m) in [("f32", &row.f32), (&*options.precision, &row.low)] {
            println!(
                "    {dtype:<5} kept for the walk back {:>8.2} MiB (reported {:>8.2}), with casts of weights {:>8.2}, a step's most above its start {:>8.2} MiB, {} weights cast {} times, with {ACCUMULATED} small batches {} times",
                mib(m.measured),
                mib(m.reported),
                mib(m.measured + m.held),
                mib(m.peak),
                m.cast,
                m.casts,
                m.casts_accumulated
            );
        }
        println!("    {} / f32: {:.3} kept, {:.3} at most", options.precision, row.kept, row.peak);
        row.faults.iter().for_each(|fault| println!("    FAILED: {fault}"));
    }
    if passed { Exit::Passed } else { Exit::Failed }
}
