//! Rows about profiles: kernels, ranges, phases, operations.
use super::{Checked, Row, Seen};
use crate::workspace;
use adamant::{
    Tensor,
    nn::{Linear, Module, Relu, Sequential, Walk},
    optim::{Optimizer, Sgd, UpdateRule},
    profile::{GroupBy, PerformanceMonitor, Profile, Profiler, SortBy, record_function},
};
use std::{fs, hint::black_box, time::Instant};

pub const ROWS: &[Row] = &[
    Row { id: "S0.25", what: "operations by name", target: "nested and in threads; count, mean, std, p50, p99; at most 100 ns a call", check: operations },
    Row {
        id: "S1.02",
        what: "phases of a training step",
        target: "count, total and share of five phases, which add up to the wall clock within 2 %; nothing of it in a program without the feature",
        check: phases,
    },
    Row { id: "S3.17", what: "kernels with shapes, bytes and memory", target: "per op time, shapes, bytes; a Chrome trace that is JSON", check: kernels },
    Row { id: "S3.18", what: "a table by key", target: "sorted by time, memory and calls, so many rows", check: tables },
    Row { id: "S3.19", what: "ranges of one's own", target: "in the trace and in the table", check: ranges },
    Row { id: "S4.51", what: "profiling switched on and off", target: "events only in between", check: switched },
];

/// Training steps in their five phases.
fn trained(steps: usize) -> Result<Profile, adamant::Error> {
    let net = Sequential::new().add(Linear::new(256, 256)?).add(Relu::new()).add(Linear::new(256, 64)?);
    let mut optimizer = Sgd::new(1e-3).over(net.parameters());
    let mut step = || -> Result<(), adamant::Error> {
        let x = {
            let _range = record_function("data_loading");
            Tensor::from_vec((0..64 * 256).map(|k| (k % 17) as f32 * 0.1).collect(), [64, 256])
        };
        let y = {
            let _range = record_function("forward");
            net.forward(&x)?
        };
        let loss = {
            let _range = record_function("loss");
            y.square().mean(..)
        };
        let grads = {
            let _range = record_function("backward");
            loss.backward()?
        };
        let _range = record_function("optimizer_step");
        optimizer.step(&grads)
    };
    step()?;
    let recording = Profiler::new().record_shapes(true).profile_memory(true).start()?;
    (0..steps).try_for_each(|_| step())?;
    Ok(recording.stop())
}
fn operations() -> Checked {
    let monitor = PerformanceMonitor::new();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..1000).for_each(|_| monitor.time_operation("outer", || monitor.time_operation("inner", || _ = black_box(1)))));
        }
    });
    let report = monitor.report();
    let (Some(outer), Some(inner)) = (report.of("outer"), report.of("inner")) else { return Err("an operation is missing".into()) };
    let single = PerformanceMonitor::new();
    let cost = (0..20)
        .map(|_| {
            let begun = Instant::now();
            (0..10_000).for_each(|_| single.time_operation("nothing", || {}));
            begun.elapsed().as_nanos() as f64 / 10_000.0
        })
        .fold(f64::INFINITY, f64::min);
    let ordered = outer.p50 <= outer.p99 && inner.mean <= outer.mean;
    Ok(Seen::all(
        &[("counts", outer.count == 4000 && inner.count == 4000), ("order of the figures", ordered), ("at most 100 ns", cost <= 100.0)],
        format!("4,000 nested operations on 4 threads; a call costs {cost:.0} ns"),
    ))
}
fn phases() -> Checked {
    let phases = trained(50)?.phases();
    let sum: f64 = phases.rows.iter().map(|p| p.total().as_secs_f64()).sum();
    let off = (sum / phases.wall.as_secs_f64() - 1.0).abs();
    let names = ["data_loading", "forward", "loss", "backward", "optimizer_step"];
    let counted = names.iter().all(|n| phases.rows.iter().any(|p| &*p.name == *n && p.count == 50));
    // A program without the feature, and this one, which has it.
    let built = workspace::cargo(&["build", "--release", "--quiet", "--package", "adamant-core", "--example", "overhead"]).status()?.success();
    let symbol = b"adamant_core7profile";
    let holds = |file: &std::path::Path| -> Result<bool, std::io::Error> { Ok(fs::read(file)?.windows(symbol.len()).any(|w| w == symbol)) };
    let without = workspace::root().join("target/release/examples/overhead");
    let (here, there) = (holds(&std::env::current_exe()?)?, built && holds(&without)?);
    Ok(Seen::all(
        &[
            ("five phases, 50 times", counted),
            ("within 2 %", off <= 0.02),
            ("built without it", built),
            ("a symbol where it is", here),
            ("none where it is not", !there),
        ],
        format!("sum off the wall clock by {:.3} %", off * 100.0),
    ))
}
fn kernels() -> Checked {
    let profile = trained(3)?;
    let mut trace = Vec::new();
    profile.write_chrome_trace(&mut trace)?;
    let trace: serde_json::Value = serde_json::from_slice(&trace)?;
    let events = trace["traceEvents"].as_array().map_or(0, |e| e.iter().filter(|e| e["ph"] == "X").count());
    let product = profile.kernels.iter().find(|k| &*k.name == "adamant.linear").ok_or("no dense layer ran")?;
    let shapes: Vec<Vec<usize>> = product.inputs.iter().map(|m| m.shape.to_vec()).collect();
    let bytes = 4 * (64 * 256 + 256 * 256 + 256 + 64 * 256);
    Ok(Seen::all(
        &[
            ("events of the trace", events == profile.kernels.len() + profile.spans.len()),
            ("shapes", shapes == [vec![64, 256], vec![256, 256], vec![256]]),
            ("bytes", product.bytes == bytes),
            ("memory", profile.kernels.iter().all(|k| k.live_bytes.is_some_and(|b| b > 0))),
        ],
        format!("{} kernels, {events} events; the first layer reads {shapes:?} and moves {bytes} bytes in {:?}", profile.kernels.len(), product.time),
    ))
}
fn tables() -> Checked {
    let averages = trained(3)?.key_averages();
    let mut parts = Vec::new();
    for by in [SortBy::Total, SortBy::Mean, SortBy::Calls, SortBy::Flops, SortBy::Bytes, SortBy::Memory] {
        let table = averages.table(by, 2);
        // A header, two rows, the others, all.
        parts.push(table.lines().count() == 5 && table.contains("Held MB"));
    }
    // In the whole table, the numbers of the column that it is sorted by never rise. Names may hold spaces: from the end.
    let rows = averages.rows.len();
    let falls = |by, from_the_end: usize| {
        let table = averages.table(by, rows);
        let number = |line: &str| line.split_whitespace().rev().nth(from_the_end).and_then(|word| word.parse::<f64>().ok());
        let numbers: Vec<f64> = table.lines().skip(1).take(rows).filter_map(number).collect();
        numbers.len() == rows && numbers.is_sorted_by(|a, b| a >= b)
    };
    let sorted = [(SortBy::Calls, 8), (SortBy::Total, 7), (SortBy::Memory, 0)].map(|(by, column)| falls(by, column));
    Ok(Seen::all(
        &[("rows", parts.iter().all(|p| *p)), ("by calls", sorted[0]), ("by time", sorted[1]), ("by memory", sorted[2])],
        format!("{rows} groups of kernels"),
    ))
}
fn ranges() -> Checked {
    let profile = trained(3)?;
    let mut trace = Vec::new();
    profile.write_chrome_trace(&mut trace)?;
    let trace = String::from_utf8(trace)?;
    let table = profile.averages(GroupBy::Range).to_string();
    let in_table = ["forward", "backward", "optimizer_step"].iter().all(|r| table.contains(r));
    Ok(Seen::all(
        &[("trace", trace.contains("\"name\":\"backward\"") && trace.contains("\"range\":\"forward\"")), ("table", in_table)],
        "forward, backward, optimizer_step",
    ))
}
fn switched() -> Checked {
    let work = || Tensor::ones([4]).exp().eval();
    work()?;
    let recording = Profiler::new().profile_memory(true).start()?;
    work()?;
    let profile = recording.stop();
    work()?;
    let empty = Profiler::new().start()?.stop();
    let one = profile.kernels.len() == 1 && profile.kernels[0].live_bytes.is_some();
    Ok(Seen::all(&[("one kernel in between", one), ("none before", empty.kernels.is_empty())], "1 kernel of 3"))
}
