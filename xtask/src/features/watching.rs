//! Rows about watching a run: gradients, memory, events, and what to begin with.
use super::{Checked, Row, Seen, device};
use crate::workspace;
use adamant::{
    DType, Rng, Tensor,
    data::{DataStrategy, adaptive_batch_size, shuffle_stream},
    memory::{memory_usage, process_memory, profile_memory, system_memory},
    nn::{Linear, Module, Relu, Sequential, Walk},
    optim::{Optimizer, Sgd, UpdateRule},
};
use adamant_train::{
    events::{self, EventWriter, Payload},
    monitor::GradMonitor,
    suggest::suggest,
};
use std::{fs, process::Command};

pub const ROWS: &[Row] = &[
    Row {
        id: "S0.21",
        what: "gradients are watched",
        target: "a planted gradient 100 times as large is reported at its step with name and norm; a healthy run reports none",
        check: gradients,
    },
    Row { id: "S0.36", what: "batch and rate by model size", target: "the four rows; 50,000 parameters: 64, 0.003", check: sizes },
    Row {
        id: "S0.37",
        what: "how to hold a data set",
        target: "by records and memory, four answers; a streaming shuffle that follows its seed and gives each item once",
        check: strategy,
    },
    Row { id: "S0.38", what: "a batch size by memory", target: "20 cases, powers of two from 16 to 512, no memory gives 16", check: batch_size },
    Row { id: "S0.42", what: "resident memory", target: "resident and peak within one page of /proc", check: resident },
    Row { id: "S3.20", what: "current and peak memory of a piece of work", target: "those of a known graph within 1 %", check: profile },
    Row { id: "S4.05", what: "memory of machine, process and device", target: "equal to /proc and the allocator", check: usage },
    Row { id: "S4.28", what: "TensorBoard events", target: "read by TensorBoard's own parser", check: tensorboard },
];

fn gradients() -> Checked {
    const STEPS: usize = 20;
    const PLANTED: usize = 12;
    let model = Sequential::new().add(Linear::new(16, 32)?).add(Relu::new()).add(Linear::new(32, 4)?);
    let parameters = model.named_parameters();
    let mut optimizer = Sgd::new(0.01).over(model.parameters());
    let rng = Rng::new(3)?;
    let (x, y) = (Tensor::randn([64, 16], &rng), Tensor::randn([64, 4], &rng));
    let monitor = GradMonitor { threshold: 10.0 };
    let (mut reported, mut norm) = (Vec::new(), 0.0);
    for step in 1..=STEPS {
        let error = model.forward(&x)? - &y;
        let mut grads = (&error * &error).mean(..).backward()?;
        if step == PLANTED {
            let cell = parameters[2].1.cell();
            let healthy = grads.of(&cell).ok_or("no gradient")?.clone();
            norm = 100.0 * healthy.norm().item::<f64>()?;
            grads.set(&cell, healthy * 100.0);
        }
        reported.extend(monitor.watch(&grads, &parameters)?.into_iter().map(|large| (step, large)));
        if step != PLANTED {
            optimizer.step(&grads)?;
        }
    }
    let found = reported.first().ok_or("nothing was reported")?;
    Ok(Seen::all(
        &[
            ("one report", reported.len() == 1),
            ("its step", found.0 == PLANTED),
            ("its name", found.1.name == parameters[2].0),
            ("its norm", (found.1.norm / norm - 1.0).abs() < 1e-3),
        ],
        format!("step {}: {}", found.0, found.1),
    ))
}
fn sizes() -> Checked {
    let rows = [(5_000, 32, 0.01), (50_000, 64, 0.003), (500_000, 128, 0.001), (5_000_000, 256, 0.0003)];
    let right = rows.iter().all(|&(parameters, batch, lr)| (suggest(parameters).batch, suggest(parameters).lr) == (batch, lr));
    Ok(Seen::new(right, format!("50000 parameters: {}, {}", suggest(50_000).batch, suggest(50_000).lr)))
}
fn strategy() -> Checked {
    use DataStrategy::{Batched, Distributed, InMemory, Streaming};
    const GIB: u64 = 1 << 30;
    let free = 16 * GIB;
    let rows = [(900, GIB, InMemory), (50_000, 20 * GIB, Batched), (500_000, 20 * GIB, Streaming), (50_000_000, 2000 * GIB, Distributed)];
    let chosen: Vec<DataStrategy> = rows.iter().map(|&(len, bytes, _)| DataStrategy::with_memory(len, bytes, free)).collect();
    let stream = |seed| shuffle_stream(0..10_000u32, 512, seed).collect::<Vec<_>>();
    let mut sorted = stream(1);
    sorted.sort_unstable();
    Ok(Seen::all(
        &[
            ("four rows", rows.iter().zip(&chosen).all(|(row, chosen)| row.2 == *chosen)),
            ("this machine's memory", DataStrategy::auto(900, 1 << 20) == InMemory && DataStrategy::auto(900, 1 << 60) != InMemory),
            ("each item once", sorted == (0..10_000).collect::<Vec<_>>()),
            ("moved", stream(1) != sorted),
            ("the same seed", stream(1) == stream(1)),
            ("another seed", stream(1) != stream(2)),
        ],
        format!("{chosen:?}; 10000 items once each"),
    ))
}
fn batch_size() -> Checked {
    let mut seen = Vec::new();
    let mut wrong = Vec::new();
    for model in [0, 1_000_000, 10_000_000, 1_000_000_000, u64::MAX] {
        for gb in [0.0, 0.1, 4.0, 1e6] {
            let batch = adaptive_batch_size(model, gb);
            // The definition: the largest power of two that fits, from 16 to 512.
            let fits = |b: usize| b as f64 * model.max(1) as f64 <= gb * 1e9;
            let expected = [512, 256, 128, 64, 32].into_iter().find(|b| fits(*b)).unwrap_or(16);
            if batch != expected {
                wrong.push(format!("{model} bytes in {gb} GB: {batch}, not {expected}"));
            }
            seen.push(batch);
        }
    }
    let none = adaptive_batch_size(0, 0.0);
    Ok(Seen::all(
        &[("as defined", wrong.is_empty()), ("20 cases", seen.len() == 20), ("no memory gives 16", none == 16)],
        format!("{seen:?} {}", wrong.join("; ")),
    ))
}

/// A field of a file of `/proc`, in bytes, read independently of the code that is checked.
fn proc(file: &str, field: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let text = fs::read_to_string(file)?;
    let line = text.lines().find(|line| line.starts_with(&format!("{field}:"))).ok_or("no such field")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse::<u64>()? * 1024)
}
/// Is a figure within one page of what /proc said before and after?
fn within_a_page(figure: u64, before: u64, after: u64) -> bool {
    const PAGE: u64 = 4096;
    figure + PAGE >= before.min(after) && figure <= before.max(after) + PAGE
}
fn resident() -> Checked {
    let held = vec![1u8; 32 << 20];
    let status = "/proc/self/status";
    let (before, before_peak) = (proc(status, "VmRSS")?, proc(status, "VmHWM")?);
    let memory = process_memory()?;
    let (after, after_peak) = (proc(status, "VmRSS")?, proc(status, "VmHWM")?);
    drop(held);
    Ok(Seen::all(
        &[("resident", within_a_page(memory.resident, before, after)), ("peak", within_a_page(memory.peak, before_peak, after_peak))],
        format!("resident {} bytes (/proc: {before} and {after}), peak {} (/proc: {before_peak})", memory.resident, memory.peak),
    ))
}
fn profile() -> Checked {
    let device = device()?;
    // Three matrices of 4 MiB are there at once; one is gone at the end.
    let (kept, memory) = profile_memory(device, || -> Result<_, adamant::Error> {
        let x = Tensor::full_on([1024, 1024], 0.5, DType::F32, device);
        x.eval()?;
        let y = x.matmul(&x);
        y.eval()?;
        let z = y.matmul(&y);
        z.eval()?;
        Ok((y, z))
    });
    let kept = kept?;
    let mib = f64::from(1 << 20);
    let (current, peak) = (memory.current as f64 / mib, memory.peak as f64 / mib);
    drop(kept);
    Ok(Seen::all(
        &[("current", (current / 8.0 - 1.0).abs() <= 0.01), ("peak", (peak / 12.0 - 1.0).abs() <= 0.01)],
        format!("current {current:.3} MiB of 8, peak {peak:.3} MiB of 12"),
    ))
}
fn usage() -> Checked {
    let device = device()?;
    let held = Tensor::ones([1 << 20]);
    held.eval()?;
    let (before, rss_before) = (proc("/proc/meminfo", "MemAvailable")?, proc("/proc/self/status", "VmRSS")?);
    let usage = memory_usage(device)?;
    let (after, rss_after) = (proc("/proc/meminfo", "MemAvailable")?, proc("/proc/self/status", "VmRSS")?);
    let total = proc("/proc/meminfo", "MemTotal")?;
    // Other programs take and give memory while this reads: 1 % of the machine's.
    let slack = total / 100;
    let available = usage.system.available;
    let percent = 100.0 * (total - available) as f64 / total as f64;
    Ok(Seen::all(
        &[
            ("total", usage.system.total == total && system_memory()?.total == total),
            ("available", available + slack >= before.min(after) && available <= before.max(after) + slack),
            ("percent", (usage.system.percent() - percent).abs() < 1e-9),
            ("process", within_a_page(usage.process.resident, rss_before, rss_after)),
            ("device", usage.device == device.memory() && usage.device.live_bytes >= 4 << 20),
        ],
        format!("{:.1} % of {total} bytes in use, process {}, device {} live", usage.system.percent(), usage.process.resident, usage.device.live_bytes),
    ))
}

fn tensorboard() -> Checked {
    let folder = std::env::temp_dir().join(format!("adamant-features-{}", std::process::id()));
    let written = write_events(&folder);
    let seen = written.and_then(|path| read_events(&folder, &path));
    let _ = fs::remove_dir_all(&folder);
    seen
}
fn write_events(folder: &std::path::Path) -> Result<std::path::PathBuf, Box<dyn std::error::Error>> {
    let mut writer = EventWriter::create(folder)?;
    for step in 1..=100 {
        writer.scalar("train/loss", step, 1.0 / step as f64)?;
    }
    writer.text("config", 0, "seed = 1")?;
    writer.flush()?;
    Ok(writer.path().to_path_buf())
}
fn read_events(folder: &std::path::Path, path: &std::path::Path) -> Checked {
    let own = events::read(path)?;
    let ours = own.iter().filter(|r| matches!(&r.payload, Payload::Scalar { tag, value } if tag == "train/loss" && *value == 1.0 / r.step as f32)).count();
    let python = std::env::var("ADAMANT_PYTHON").unwrap_or_else(|_| "python3".into());
    let script = workspace::root().join("crates/train/tests/python/read_events.py");
    let output = Command::new(&python).arg(script).arg(folder).output();
    let absent = match &output {
        Err(error) => Some(error.to_string()),
        Ok(output) if output.status.code() == Some(77) => Some(String::from_utf8_lossy(&output.stderr).trim().to_string()),
        Ok(_) => None,
    };
    if let Some(why) = absent {
        eprintln!("*** S4.28: NOT READ by TensorBoard's own parser ({why}); set ADAMANT_PYTHON to a Python that has tensorboard ***");
        return Ok(Seen::new(ours == 100, format!("{ours} of 100 scalars read by our own reader; TensorBoard's parser is NOT on this machine ({why})")));
    }
    let output = output?;
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("{e}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let theirs = found["scalars"]["train/loss"].as_array().map_or(0, Vec::len);
    let same = found["scalars"]["train/loss"].as_array().is_some_and(|list| {
        list.iter().enumerate().all(|(k, pair)| pair[0].as_u64() == Some(k as u64 + 1) && pair[1].as_f64().map(|v| v as f32) == Some(1.0 / (k + 1) as f32))
    });
    Ok(Seen::all(
        &[
            ("our reader", ours == 100),
            ("TensorBoard's reader", theirs == 100),
            ("the same values", same),
            ("text", found["texts"]["config"][0][1] == "seed = 1"),
        ],
        format!("{theirs} of 100 scalars and a text read by TensorBoard's own parser"),
    ))
}
