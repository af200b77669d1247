//! Rows about profiles: kernels, ranges, phases, operations.
use super::{CheckCost, Checked, RowCheck, Seen, plant, planted, this_program};
use crate::workspace;
use adamant::{
    Tensor,
    nn::{Linear, Module, Relu, Sequential, Walk},
    optim::{Optimizer, Sgd, UpdateRule},
    profile::{GroupBy, PerformanceMonitor, Profile, Profiler, SortBy, record_function},
};
use std::{
    fs,
    hint::black_box,
    time::{Duration, Instant},
};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S0.25",
        target: "nested and in threads; count, mean, std, p50 and p99 are those of the calls; at most 100 ns a call",
        cost: CheckCost::Clocked,
        check: operations,
        plants: &[
            plant("a 99th percentile that is the median", "the figures follow from the calls"),
            plant("a mean that is 5 % too large", "the figures follow from the calls"),
        ],
    },
    RowCheck {
        id: "S1.02",
        target: "count, total and share of data_loading, forward, loss, backward and optimizer_step, which alone add up to the wall clock within 2 %; with the feature off 0 bytes of it in the program",
        cost: CheckCost::Long,
        check: phases,
        plants: &[
            plant("work outside of the phases", "the five phases alone are the wall clock within 2 %"),
            plant("a phase that is counted twice", "the five phases alone are the wall clock within 2 %"),
            plant("a step without its loss", "five phases, 50 times"),
            plant("a program with the feature in the place of the one without", "none where it is not"),
        ],
    },
    RowCheck { id: "S3.17", target: "per op time, shapes, bytes; a Chrome trace that is JSON", cost: CheckCost::Cheap, check: kernels, plants: &[] },
    RowCheck {
        id: "S3.18",
        target: "sorted by cpu_time or cuda_time (the time of the device that ran it), memory and calls, so many rows",
        cost: CheckCost::Cheap,
        check: tables,
        plants: &[],
    },
    RowCheck { id: "S3.19", target: "in the trace and in the table", cost: CheckCost::Cheap, check: ranges, plants: &[] },
    RowCheck { id: "S4.53", target: "as S3.17: per op time, shapes, bytes; a Chrome trace that is JSON", cost: CheckCost::Cheap, check: kernels, plants: &[] },
    RowCheck { id: "S4.51", target: "events only in between", cost: CheckCost::Cheap, check: switched, plants: &[] },
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
            let _range = (!planted("a step without its loss")).then(|| record_function("loss"));
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
    (0..steps).try_for_each(|_| {
        if planted("work outside of the phases") {
            std::thread::sleep(Duration::from_micros(100));
        }
        step()
    })?;
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
    // Calls of very different lengths, each also under a clock of our own within it.
    let varied = PerformanceMonitor::new();
    let mut own: Vec<f64> = (0..200)
        .map(|k: u64| {
            varied.time_operation("varied", || {
                let begun = Instant::now();
                black_box((0..black_box(20_000 + 2_000 * (k * 37 % 200))).fold(0u64, |x, n| x.rotate_left(5) ^ n));
                begun.elapsed().as_secs_f64()
            })
        })
        .collect();
    own.sort_by(f64::total_cmp);
    let report = varied.report();
    let told = report.of("varied").ok_or("an operation is missing")?;
    let mean = own.iter().sum::<f64>() / 200.0;
    let std = (own.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / 199.0).sqrt();
    let told_p99 = if planted("a 99th percentile that is the median") { told.p50 } else { told.p99 };
    let told_mean = told.mean.as_secs_f64() * if planted("a mean that is 5 % too large") { 1.05 } else { 1.0 };
    // What a call costs itself is in what is told; percentiles may take either neighbour.
    let near = |told: f64, least: f64, most: f64| told >= least * 0.97 - 1e-6 && told <= most * 1.03 + 1e-6;
    let follow = near(told_mean, mean, mean)
        && near(told.std.as_secs_f64(), std, std)
        && near(told.p50.as_secs_f64(), own[98], own[101])
        && near(told_p99.as_secs_f64(), own[196], own[199]);
    let value = format!(
        "4,000 nested operations on 4 threads; a call costs {cost:.0} ns; of 200 calls mean {:.1} us ({:.1} by our clock), std {:.1} ({:.1}), p50 {:.1} ({:.1}), p99 {:.1} ({:.1})",
        told_mean * 1e6,
        mean * 1e6,
        told.std.as_secs_f64() * 1e6,
        std * 1e6,
        told.p50.as_secs_f64() * 1e6,
        own[100] * 1e6,
        told_p99.as_secs_f64() * 1e6,
        own[198] * 1e6
    );
    Ok(Seen::all(
        &[
            ("counts", outer.count == 4000 && inner.count == 4000),
            ("order of the figures", ordered),
            ("the figures follow from the calls", follow),
            ("at most 100 ns", cost <= 100.0),
        ],
        value,
    ))
}
fn phases() -> Checked {
    let phases = trained(50)?.phases();
    let names = ["data_loading", "forward", "loss", "backward", "optimizer_step"];
    // The row for what is outside any range makes every sum the wall clock: it does not count.
    let of = |name: &str| phases.rows.iter().filter(|p| &*p.name == name).map(|p| p.total().as_secs_f64()).sum::<f64>();
    let twice = if planted("a phase that is counted twice") { of("backward") } else { 0.0 };
    let sum: f64 = names.iter().map(|n| of(n)).sum::<f64>() + twice;
    let share = sum / phases.wall.as_secs_f64();
    let counted = names.iter().all(|n| phases.rows.iter().any(|p| &*p.name == *n && p.count == 50));
    // A program without the feature, and this one, which has it.
    let built = workspace::cargo(&["build", "--release", "--quiet", "--package", "adamant-core", "--example", "overhead"]).status()?.success();
    let symbol = b"adamant_core7profile";
    let holds = |file: &std::path::Path| -> Result<bool, std::io::Error> { Ok(fs::read(file)?.windows(symbol.len()).any(|w| w == symbol)) };
    let here = this_program()?;
    let without = if planted("a program with the feature in the place of the one without") {
        here.clone()
    } else {
        workspace::target().join("release/examples/overhead")
    };
    let (here, there) = (holds(&here)?, built && holds(&without)?);
    Ok(Seen::all(
        &[
            ("five phases, 50 times", counted),
            ("the five phases alone are the wall clock within 2 %", (share - 1.0).abs() <= 0.02),
            ("built without it", built),
            ("a symbol where it is", here),
            ("none where it is not", !there),
        ],
        format!("the five phases are {:.2} % of the wall clock: {}", share * 100.0, names.map(|n| format!("{n} {:.2} ms", of(n) * 1e3)).join(", ")),
    ))
}
fn kernels() -> Checked {
    let profile = trained(3)?;
    let mut trace = Vec::new();
    profile.write_chrome_trace(&mut trace)?;
    let trace: serde_json::Value = serde_json::from_slice(&trace)?;
    let events = trace["traceEvents"].as_array().map_or(0, |e| e.iter().filter(|e| e["ph"] == "X").count());
    let product = profile.kernels.iter().find(|k| k.family == "matmul").ok_or("no dense layer ran")?;
    let shapes: Vec<Vec<usize>> = product.inputs.iter().map(|m| m.shape.to_vec()).collect();
    let bytes = 4 * (64 * 256 + 256 * 256 + 256 + 64 * 256);
    Ok(Seen::all(
        &[
            ("events of the trace", events == profile.kernels.len() + profile.spans.len()),
            ("shapes", shapes == [vec![64, 256], vec![256, 256], vec![1, 256]]),
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
    let work = || Tensor::ones([4]).exp().materialize();
    work()?;
    let recording = Profiler::new().profile_memory(true).start()?;
    work()?;
    let profile = recording.stop();
    work()?;
    let empty = Profiler::new().start()?.stop();
    let one = profile.kernels.len() == 1 && profile.kernels[0].live_bytes.is_some();
    Ok(Seen::all(&[("one kernel in between", one), ("none before", empty.kernels.is_empty())], "1 kernel of 3"))
}
