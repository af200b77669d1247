//! Rows about measuring: functions, parts of a program, runs and their records.
use super::{Checked, Row, Seen};
use adamant_bench::{
    comparison::Comparison,
    record::Record,
    timing::{Tracker, benchmark, compare},
    verdict::Verdict,
};
use std::{
    fs,
    hint::black_box,
    process::{Command, Output},
    time::Duration,
};

pub const ROWS: &[Row] = &[
    Row { id: "S2.21", what: "times of named parts over many runs", target: "mean, std, min and max over N runs follow from the runs", check: tracked },
    Row {
        id: "S2.22",
        what: "a function under the clock, two against each other",
        target: "what warms up is discarded; the comparison gives the ratio with a 95 % interval that holds the true one",
        check: functions,
    },
    Row { id: "S2.32", what: "a run as a file to share", target: "machine, versions and all samples in one record, and a page of it", check: bundle },
    Row { id: "S2.33", what: "before and after", target: "bench diff before after marks what changed, and only that", check: difference },
];

/// Work that takes time in proportion to `n`.
fn work(n: u64) -> u64 {
    (0..black_box(n)).fold(1u64, |x, k| x.rotate_left(5) ^ k.wrapping_mul(x | 1))
}
fn tracked() -> Checked {
    let mut tracker = Tracker::default();
    for run in 0..20u64 {
        tracker.track("short", || black_box(work(20_000)));
        if run % 2 == 0 {
            tracker.track("long", || black_box(work(400_000)));
        }
    }
    let summary = tracker.summary();
    let (short, long) = (summary.get("short").ok_or("no short")?, summary.get("long").ok_or("no long")?);
    let ordered = [short, long].iter().all(|s| s.min_ns <= s.mean_ns && s.mean_ns <= s.max_ns && s.std_ns >= 0.0 && s.std_ns <= s.max_ns);
    Ok(Seen::all(
        &[
            ("20 and 10 runs", (tracker.runs("short"), tracker.runs("long")) == (20, 10)),
            ("min, mean, max", ordered),
            ("long > short", long.min_ns > 5.0 * short.min_ns),
        ],
        format!("short {:.0} ± {:.0} ns, long {:.0} ± {:.0} ns", short.mean_ns, short.std_ns, long.mean_ns, long.std_ns),
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
    let compared = compare(Duration::from_millis(800), of(100_000), of(150_000));
    let ([low, high], ratio) = (compared.interval.ok_or("no interval")?, compared.ratio.ok_or("no ratio")?);
    Ok(Seen::all(
        &[
            ("warm-up discarded", summary.max_ns < 1e8),
            ("1.5 is in the interval", low <= 1.52 && high >= 1.48),
            ("slower", compared.verdict == Some(Verdict::Slower)),
        ],
        format!("ratio {ratio:.3} [{low:.3}, {high:.3}], {} pairs", compared.samples),
    ))
}
/// This program again, in a folder.
fn bench(folder: &std::path::Path, arguments: &str) -> std::io::Result<Output> {
    Command::new(std::env::current_exe()?).arg("bench").args(arguments.split(' ')).current_dir(folder).output()
}
fn bundle() -> Checked {
    let folder = tempfile::tempdir()?;
    let ran = bench(folder.path(), "run --only gemm_f32_64,small_add4_nograd --budget 0.1 --record bundle.json")?;
    let report = bench(folder.path(), "report bundle.json --html page.html")?;
    let records = Record::read(&folder.path().join("bundle.json"))?;
    let record = records.first().ok_or("no record")?;
    let page = fs::read_to_string(folder.path().join("page.html"))?;
    Ok(Seen::all(
        &[
            ("ran", ran.status.success() && report.status.success()),
            ("machine and versions", !record.machine.cpu.is_empty() && record.toolchain.rustc.starts_with("rustc")),
            ("all samples", record.cases.len() == 2 && record.cases.iter().all(|c| c.samples_ns.len() >= 5 && c.worst_error.is_some())),
            ("a page", page.contains("gemm_f32_64") && page.contains("Roofline")),
        ],
        format!("{} cases on {}, a page of {} bytes", record.cases.len(), record.machine.short(), page.len()),
    ))
}
fn difference() -> Checked {
    let folder = tempfile::tempdir()?;
    bench(folder.path(), "run --only gemm_f32_64,gemm_f32_128 --budget 0.3 --precision 0 --record before.json")?;
    // After: the same samples, but for one case that takes half as long again.
    let text = fs::read_to_string(folder.path().join("before.json"))?;
    let mut record: Record = serde_json::from_str(&text)?;
    let changed = record.cases.pop().ok_or("no case")?;
    let samples = changed.samples_ns.iter().map(|x| x * 1.5).collect();
    let (waited, calls) = (changed.waited.clone(), changed.calls_per_sample);
    record.cases.push(changed.sampled(samples, waited, calls));
    record.append(&folder.path().join("after.json"))?;
    let out = bench(folder.path(), "diff before.json after.json --format json --out diff.json")?;
    let diff: Comparison = serde_json::from_str(&fs::read_to_string(folder.path().join("diff.json"))?)?;
    let verdicts: Vec<_> = diff.cases.iter().map(|c| (c.workload.as_str(), c.verdict.map(Verdict::word))).collect();
    let slower: Vec<_> = diff.cases.iter().filter(|c| c.verdict == Some(Verdict::Slower)).map(|c| c.workload.as_str()).collect();
    Ok(Seen::all(&[("ran", out.status.success()), ("one case changed", slower == ["gemm_f32_128"])], format!("{verdicts:?}")))
}
