//! Rows about measuring: functions, parts of a program, runs and their records.
use super::{CheckCost, Checked, RowCheck, Seen, plant, planted, this_program};
use crate::workspace;
use adamant_bench::{
    comparison::Comparison,
    record::Record,
    timing::{Tracker, benchmark, compare},
    verdict::Verdict,
};
use serde_json::Value;
use std::{
    fs,
    hint::black_box,
    process::{Command, Output},
    time::{Duration, Instant},
};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S2.21",
        target: "mean, std, min and max over N runs are those of a clock of our own within half a percent",
        cost: CheckCost::Cheap,
        check: tracked,
        plants: &[
            plant("a mean that is 1 % too large", "the mean"),
            plant("a deviation that is 5 % too large", "the deviation"),
            plant("a largest that is the mean", "the least and the largest"),
        ],
    },
    RowCheck {
        id: "S2.22",
        target: "what warms up is discarded; the comparison gives the ratio with a 95 % interval that holds the true one and is narrow",
        cost: CheckCost::Clocked,
        check: functions,
        plants: &[
            plant("an interval that holds every ratio", "the interval is narrow"),
            plant("a function that is twice as slow as it was thought", "1.5 is in the interval"),
        ],
    },
    RowCheck {
        id: "S2.32",
        target: "adamant bench DESCRIPTION --report bundle.json: machine, versions and all numbers of a user's workflow in one file",
        cost: CheckCost::Long,
        check: bundle,
        plants: &[
            plant("a file without its samples", "all numbers"),
            plant("a file that does not name the machine", "the machine"),
            plant("a mean of other samples", "all numbers"),
        ],
    },
    RowCheck { id: "S2.33", target: "bench diff before after marks what changed, and only that", cost: CheckCost::Clocked, check: difference, plants: &[] },
];

/// Work that takes time in proportion to `n`.
fn work(n: u64) -> u64 {
    (0..black_box(n)).fold(1u64, |x, k| x.rotate_left(5) ^ k.wrapping_mul(x | 1))
}
fn tracked() -> Checked {
    let mut tracker = Tracker::default();
    let mut own = [Vec::new(), Vec::new()];
    for run in 0..20u64 {
        // Runs of different lengths, so that a deviation is there to be wrong.
        for (k, (name, n)) in [("short", 100_000), ("long", 600_000)].into_iter().enumerate().filter(|(k, _)| *k == 0 || run % 2 == 0) {
            own[k].push(tracker.track(name, || {
                let begun = Instant::now();
                black_box(work(n + n / 10 * (run * 7 % 20)));
                begun.elapsed().as_secs_f64() * 1e9
            }));
        }
    }
    let summary = tracker.summary();
    let (mut mean_right, mut std_right, mut ends_right, mut value) = (true, true, true, Vec::new());
    for (name, own) in ["short", "long"].into_iter().zip(&own) {
        let told = summary.get(name).ok_or("a part is missing")?;
        let mean = own.iter().sum::<f64>() / own.len() as f64;
        let std = (own.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / (own.len() - 1) as f64).sqrt();
        let (least, most) = own.iter().fold((f64::INFINITY, 0.0f64), |(a, b), t| (a.min(*t), b.max(*t)));
        let told_mean = told.mean_ns * if planted("a mean that is 1 % too large") { 1.01 } else { 1.0 };
        let told_std = told.std_ns * if planted("a deviation that is 5 % too large") { 1.05 } else { 1.0 };
        let told_most = if planted("a largest that is the mean") { told.mean_ns } else { told.max_ns };
        // Two readings of the clock lie between ours and the tracker's.
        let near = |told: f64, own: f64| (told - own).abs() <= 0.005 * mean + 150.0;
        mean_right &= near(told_mean, mean);
        std_right &= near(told_std, std);
        ends_right &= near(told.min_ns, least) && near(told_most, most);
        value.push(format!(
            "{name} {told_mean:.0} ± {told_std:.0} ns from {:.0} to {told_most:.0}, by our clock {mean:.0} ± {std:.0} from {least:.0} to {most:.0}",
            told.min_ns
        ));
    }
    Ok(Seen::all(
        &[
            ("20 and 10 runs", (tracker.runs("short"), tracker.runs("long")) == (20, 10)),
            ("the mean", mean_right),
            ("the deviation", std_right),
            ("the least and the largest", ends_right),
        ],
        value.join("; "),
    ))
}
fn functions() -> Checked {
    // A function that is slow when it is called first: what it takes then is in no sample.
    let mut first = true;
    let summary = benchmark(Duration::from_millis(100), || {
        if std::mem::take(&mut first) {
            std::thread::sleep(Duration::from_millis(200));
        }
        black_box(work(2_000));
    });
    let of = |n: u64| {
        move || {
            black_box(work(n));
        }
    };
    let slower = if planted("a function that is twice as slow as it was thought") { 300_000 } else { 150_000 };
    let compared = compare(Duration::from_millis(800), of(100_000), of(slower));
    let ([mut low, mut high], ratio) = (compared.interval.ok_or("no interval")?, compared.ratio.ok_or("no ratio")?);
    if planted("an interval that holds every ratio") {
        (low, high) = (0.01, 100.0);
    }
    Ok(Seen::all(
        &[
            ("warm-up discarded", summary.max_ns < 1e8),
            ("1.5 is in the interval", low <= 1.52 && high >= 1.48),
            ("the interval is narrow", high - low <= 0.3),
            ("slower", compared.verdict == Some(Verdict::Slower)),
        ],
        format!("ratio {ratio:.3} [{low:.3}, {high:.3}], {} pairs", compared.samples),
    ))
}
/// This program again, in a folder.
pub fn bench(folder: &std::path::Path, arguments: &str) -> std::io::Result<Output> {
    Command::new(this_program()?).arg("bench").args(arguments.split(' ')).current_dir(folder).output()
}
fn bundle() -> Checked {
    let (program, folder) = (workspace::program()?, tempfile::tempdir()?);
    let file = folder.path().join("bundle.json");
    let mut command = Command::new(program);
    command.current_dir(workspace::root()).args(["bench", "examples/digits/digits.toml", "--seconds", "0.5", "--report"]).arg(&file);
    let output = command.output()?;
    if !output.status.success() {
        return Ok(Seen::all(&[("it ran", false)], String::from_utf8_lossy(&output.stderr).trim()));
    }
    let mut all: Value = serde_json::from_slice(&fs::read(&file)?)?;
    if planted("a file that does not name the machine") {
        all["machine"] = Value::Null;
    }
    let mut found = Vec::new();
    samples(&all, &mut found);
    if planted("a file without its samples") {
        found.clear();
    }
    let off = if planted("a mean of other samples") { 1.1 } else { 1.0 };
    // Every summary beside samples must be that of the samples.
    let right =
        |(samples, mean): &(Vec<f64>, f64)| samples.len() >= 10 && (samples.iter().sum::<f64>() / samples.len() as f64 / (mean * off) - 1.0).abs() < 1e-6;
    let text = all.to_string();
    Ok(Seen::all(
        &[
            ("it ran", true),
            ("the machine", all["machine"]["cpu"].as_str().is_some_and(|cpu| !cpu.is_empty())),
            ("the versions", text.contains("\"rustc ") && text.contains(env!("CARGO_PKG_VERSION"))),
            ("all numbers", !found.is_empty() && found.iter().all(right)),
        ],
        format!(
            "{} bytes about {}: {} lists of samples, the first of {}",
            text.len(),
            all["machine"]["cpu"],
            found.len(),
            found.first().map_or(0, |f| f.0.len())
        ),
    ))
}
/// Lists of samples in a document, each with the mean that is told beside it.
fn samples(value: &Value, found: &mut Vec<(Vec<f64>, f64)>) {
    match value {
        Value::Object(fields) => {
            let list = fields.iter().find(|(name, v)| name.starts_with("samples") && v.is_array()).and_then(|(_, v)| v.as_array());
            let mean = |of: &Value| of.as_object().and_then(|o| o.iter().find(|(name, _)| name.starts_with("mean")).and_then(|(_, v)| v.as_f64()));
            if let Some(list) = list {
                let mean = mean(value).or_else(|| fields.get("summary").and_then(mean)).unwrap_or(f64::NAN);
                found.push((list.iter().filter_map(Value::as_f64).collect(), mean));
            }
            fields.values().for_each(|v| samples(v, found));
        }
        Value::Array(list) => list.iter().for_each(|v| samples(v, found)),
        _ => {}
    }
}
fn difference() -> Checked {
    let folder = tempfile::tempdir()?;
    bench(folder.path(), "run --only gemm_f32_64,gemm_f32_128 --budget 0.3 --precision 0 --record before.json")?;
    // After: the same samples, but for one case that takes three times as long: more than two moments may differ by.
    let text = fs::read_to_string(folder.path().join("before.json"))?;
    let mut record: Record = serde_json::from_str(&text)?;
    let changed = record.cases.pop().ok_or("no case")?;
    let samples = changed.samples_ns.iter().map(|x| x * 3.0).collect();
    let (waited, calls) = (changed.waited.clone(), changed.calls_per_sample);
    record.cases.push(changed.sampled(samples, waited, calls));
    record.append(&folder.path().join("after.json"))?;
    let out = bench(folder.path(), "diff before.json after.json --format json --out diff.json")?;
    let diff: Comparison = serde_json::from_str(&fs::read_to_string(folder.path().join("diff.json"))?)?;
    let verdicts: Vec<_> = diff.cases.iter().map(|c| (c.workload.as_str(), c.verdict.map(Verdict::word))).collect();
    let slower: Vec<_> = diff.cases.iter().filter(|c| c.verdict == Some(Verdict::Slower)).map(|c| c.workload.as_str()).collect();
    Ok(Seen::all(&[("ran", out.status.success()), ("one case changed", slower == ["gemm_f32_128"])], format!("{verdicts:?}")))
}
