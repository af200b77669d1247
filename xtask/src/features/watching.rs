//! Rows about watching a run: gradients, memory, events, and what to begin with.
use super::{CheckCost, Checked, Lacking, RowCheck, Seen, device, plant, planted};
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
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S0.21",
        target: "a planted gradient 100 times as large is reported at its step with name and norm; a healthy run reports none",
        cost: CheckCost::Cheap,
        check: gradients,
        plants: &[],
    },
    RowCheck { id: "S0.36", target: "the four rows; 50,000 parameters: 64, 0.003", cost: CheckCost::Cheap, check: sizes, plants: &[] },
    RowCheck {
        id: "S0.37",
        target: "the guide's four rows, with borders at 1K, 100K and 1M records, where memory does not decide; by RAM too; a streaming shuffle that follows its seed and covers each item once",
        cost: CheckCost::Cheap,
        check: strategy,
        plants: &[
            plant("a border at ten times as many records", "the borders"),
            plant("a strategy that does not look at memory", "memory decides first"),
            plant("a shuffle that loses an item", "each item once"),
        ],
    },
    RowCheck {
        id: "S0.38",
        target: "a table of 20 cases, powers of two from 16 to 512; no memory gives 16 without a panic",
        cost: CheckCost::Cheap,
        check: batch_size,
        plants: &[plant("a batch size that is one power too large", "the table")],
    },
    RowCheck { id: "S0.42", target: "resident and peak within one page of /proc", cost: CheckCost::Cheap, check: resident, plants: &[] },
    RowCheck { id: "S3.20", target: "those of a known graph within 1 %", cost: CheckCost::Cheap, check: profile, plants: &[] },
    RowCheck { id: "S4.05", target: "equal to /proc and the allocator", cost: CheckCost::Cheap, check: usage, plants: &[] },
    RowCheck {
        id: "S4.28",
        target: "event files in runs/... read by TensorBoard's own parser: every step and every value",
        cost: CheckCost::Cheap,
        check: tensorboard,
        plants: &[plant("losses that are 1 % too large", "the same values"), plant("a file that ends in the middle of a record", "TensorBoard's reader")],
    },
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
    let chosen = |len: usize, bytes: u64| {
        let len = if planted("a border at ten times as many records") { len / 10 } else { len };
        let bytes = if planted("a strategy that does not look at memory") { 20 * GIB } else { bytes };
        DataStrategy::with_memory(len, bytes, free)
    };
    // The guide's table: up to so many records, and what it says there. Around each border, from both sides.
    let guide = [(1_000, InMemory), (100_000, Batched), (1_000_000, Streaming), (usize::MAX, Distributed)];
    let mut wrong = Vec::new();
    for border in [1_000usize, 100_000, 1_000_000] {
        for len in [border / 2, border - 1, border, border + 1, border + border / 7, 2 * border] {
            let expected = guide.iter().find(|g| len <= g.0).map_or(Distributed, |g| g.1);
            // As large as leaves the choice to the number of records: few that can still be held, many that cannot.
            let bytes = if len <= 1_000 { 6 * GIB } else { 20 * GIB };
            let seen = chosen(len, bytes);
            if seen != expected {
                wrong.push(format!("{len} records of {} GiB: {seen:?}, the guide says {expected:?}", bytes / GIB));
            }
        }
    }
    // By memory: what is small is held, however many records it has; what is too large is not, however few.
    let by_memory = [
        (chosen(50_000_000, GIB), InMemory),
        (chosen(1_001, 4 * GIB), InMemory),
        (chosen(1_001, 4 * GIB + 1), Batched),
        (chosen(10, 100 * GIB), Batched),
        (DataStrategy::auto(900, 1 << 20), InMemory),
        (DataStrategy::auto(900, 1 << 60), Batched),
    ];
    let lost = usize::from(planted("a shuffle that loses an item"));
    let stream = |seed| shuffle_stream(0..10_000u32, 512, seed).skip(lost).collect::<Vec<_>>();
    let mut sorted = stream(1);
    sorted.sort_unstable();
    Ok(Seen::all(
        &[
            ("the borders", wrong.is_empty()),
            ("memory decides first", by_memory.iter().all(|(seen, expected)| seen == expected)),
            ("each item once", sorted == (0..10_000).collect::<Vec<_>>()),
            ("moved", stream(1) != sorted),
            ("the same seed", stream(1) == stream(1)),
            ("another seed", stream(1) != stream(2)),
        ],
        format!("18 sizes around 1K, 100K and 1M records, wrong: {wrong:?}; by memory {by_memory:?}; 10000 items once each"),
    ))
}
fn batch_size() -> Checked {
    // Bytes that an example takes, gigabytes that there are, and the batch that follows, worked out by hand.
    let table: [(u64, f64, usize); 20] = [
        (0, 0.0, 16),
        (0, 0.1, 512),
        (0, 4.0, 512),
        (0, 1e6, 512),
        (1_000_000, 0.0, 16),
        (1_000_000, 0.1, 64),
        (1_000_000, 0.3, 256),
        (1_000_000, 4.0, 512),
        (10_000_000, 0.0, 16),
        (10_000_000, 0.1, 16),
        (10_000_000, 0.7, 64),
        (10_000_000, 4.0, 256),
        (10_000_000, 1e6, 512),
        (1_000_000_000, 0.1, 16),
        (1_000_000_000, 40.0, 32),
        (1_000_000_000, 130.0, 128),
        (1_000_000_000, 1e6, 512),
        (u64::MAX, 0.0, 16),
        (u64::MAX, 4.0, 16),
        (u64::MAX, 1e6, 16),
    ];
    let larger = if planted("a batch size that is one power too large") { 2 } else { 1 };
    let seen: Vec<usize> = table.iter().map(|&(model, gb, _)| larger * adaptive_batch_size(model, gb)).collect();
    let wrong: Vec<String> = table.iter().zip(&seen).filter(|(row, seen)| row.2 != **seen).map(|(row, seen)| format!("{row:?}: {seen}")).collect();
    Ok(Seen::all(&[("the table", wrong.is_empty()), ("no memory gives 16", adaptive_batch_size(0, 0.0) == 16)], format!("{seen:?} {}", wrong.join("; "))))
}

/// A field of a file of `/proc`, in bytes, read independently of the code that is checked.
fn proc(file: &str, field: &str) -> Result<u64, Box<dyn Error>> {
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
        x.materialize()?;
        let y = x.matmul(&x);
        y.materialize()?;
        let z = y.matmul(&y);
        z.materialize()?;
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
    held.materialize()?;
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

/// How a Python with TensorBoard is had.
const TENSORBOARD: &str = "python3 -m venv DIR; DIR/bin/pip install tensorboard; ADAMANT_PYTHON=DIR/bin/python";
fn tensorboard() -> Checked {
    let folder = tempfile::tempdir()?;
    let events = folder.path().join("runs").join("first");
    let path = write_events(&events)?;
    let own = events::read(&path)?;
    let ours = own.iter().filter(|r| matches!(&r.payload, Payload::Scalar { tag, value } if tag == "train/loss" && *value == 1.0 / r.step as f32)).count();
    let parts = vec![("our reader", ours == 100)];
    if planted("a file that ends in the middle of a record") {
        let whole = fs::read(&path)?;
        fs::write(&path, &whole[..whole.len() / 2])?;
    }
    let python = std::env::var("ADAMANT_PYTHON").unwrap_or_else(|_| "python3".into());
    let script = workspace::root().join("crates/train/tests/python/read_events.py");
    let output = match Command::new(&python).arg(script).arg(&events).output() {
        Ok(output) if output.status.code() != Some(77) => output,
        Ok(output) => return Ok(unread(&parts, ours, String::from_utf8_lossy(&output.stderr).trim())),
        Err(e) => return Ok(unread(&parts, ours, &format!("{python}: {e}"))),
    };
    read_by_tensorboard(&output, parts, ours)
}
/// Our own reader alone shows nothing of TensorBoard's.
fn unread(parts: &[(&str, bool)], ours: usize, why: &str) -> Seen {
    Seen::all(parts, format!("{ours} of 100 scalars read by our own reader")).lacking([Lacking::new(format!("TensorBoard's parser ({why})"), TENSORBOARD)])
}
fn write_events(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let mut writer = EventWriter::create(folder)?;
    for step in 1..=100 {
        let off = if planted("losses that are 1 % too large") { 1.01 } else { 1.0 };
        writer.scalar("train/loss", step, off / step as f64)?;
    }
    writer.text("config", 0, "seed = 1")?;
    writer.flush()?;
    Ok(writer.path().to_path_buf())
}
fn read_by_tensorboard(output: &Output, mut parts: Vec<(&str, bool)>, ours: usize) -> Checked {
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("{e}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let scalars = found["scalars"]["train/loss"].as_array().cloned().unwrap_or_default();
    let is_right =
        |(k, pair): (usize, &serde_json::Value)| pair[0].as_u64() == Some(k as u64 + 1) && pair[1].as_f64().map(|v| v as f32) == Some(1.0 / (k + 1) as f32);
    parts.extend([
        ("TensorBoard's reader", scalars.len() == 100),
        ("the same values", scalars.iter().enumerate().all(is_right)),
        ("text", found["texts"]["config"][0][1] == "seed = 1" || scalars.len() < 100),
    ]);
    Ok(Seen::all(&parts, format!("{} of 100 scalars and a text read by TensorBoard's own parser, {ours} by our own", scalars.len())))
}
