//! Rows about what a user sees of a program's time: one call, phases of a verb, pictures, metrics of steps.
use super::{CheckCost, Checked, RowCheck, Seen, plant, planted, this_program};
use crate::workspace;
use adamant::{
    Tensor, profile,
    profile::{PerformanceMonitor, Profiler},
    time_block,
};
use adamant_train::plot::{Plot, Series, Stroke};
use serde_json::Value;
use std::{
    error::Error,
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

pub const ROWS: &[RowCheck] = &[
    RowCheck { id: "B1.09", target: "xtask flame diff marks what has grown, and what has shrunk", cost: CheckCost::Cheap, check: difference, plants: &[] },
    RowCheck { id: "S1.01", target: "the example prints it, with the device's work in it", cost: CheckCost::Clocked, check: forward, plants: &[] },
    RowCheck {
        id: "S1.57",
        target: "xtask flame writes an SVG with kernels by name, folded stacks and a Chrome trace; programs keep symbols for perf",
        cost: CheckCost::Long,
        check: flame,
        plants: &[plant("a kernel that is in no phase and no layer", "folded stacks"), plant("a picture without its optimizer", "an SVG with kernels by name")],
    },
    RowCheck {
        id: "S2.19",
        target: "adamant --profile tells args, parse, shape, plan and run, which alone are at least 98 % of the wall clock, and that is the clock of who started it",
        cost: CheckCost::Long,
        check: verbs,
        plants: &[
            plant("a tenth of the run that is in no phase", "the five phases alone are 98 % of the wall clock"),
            plant("time that the program does not tell", "the wall clock is that of who started it"),
        ],
    },
    RowCheck { id: "S2.20", target: "each call is counted and timed under its name", cost: CheckCost::Cheap, check: macros, plants: &[] },
    RowCheck { id: "S4.27", target: "stored, queried, plotted", cost: CheckCost::Cheap, check: metrics, plants: &[] },
    RowCheck {
        id: "S4.31",
        target: "average step time and the other fields equal those of the raw log; a report of them",
        cost: CheckCost::Cheap,
        check: summary,
        plants: &[],
    },
];

/// Fails with what a program said where it did.
fn succeeded(output: Output) -> Result<Output, Box<dyn Error>> {
    if output.status.success() { Ok(output) } else { Err(String::from_utf8_lossy(&output.stderr).trim().into()) }
}
/// A number behind a name in a text.
fn figure(text: &str, name: &str) -> Result<f64, Box<dyn Error>> {
    let line = text.lines().find_map(|l| l.strip_prefix(name)).ok_or_else(|| format!("no `{name}` in {text}"))?;
    Ok(line.split_whitespace().next().ok_or("no number")?.parse()?)
}
fn forward() -> Checked {
    let output = succeeded(workspace::cargo(&["run", "--release", "--quiet", "--package", "adamant", "--example", "time_forward"]).output()?)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (recorded, done) = (figure(&text, "recorded only:")?, figure(&text, "forward, with sync:")?);
    Ok(Seen::all(
        &[("the device's work is in it", recorded > 0.0 && done > 2.0 * recorded)],
        format!("forward {done:.0} us; a clock that does not wait for the device shows {recorded:.1} us"),
    ))
}
/// A table and the description of a small net, for the program.
fn description(folder: &Path) -> Result<(), Box<dyn Error>> {
    let row = |k: usize| (0..16).map(|c| format!("{}", (k * 31 + c * 17) % 97)).collect::<Vec<_>>().join(",") + &format!(",{}\n", k % 10);
    fs::write(folder.join("table.csv"), (0..500).map(row).collect::<String>())?;
    let text = "epochs = 2\nbatch = 16\n[data]\nkind = \"csv\"\npath = \"table.csv\"\nlabel = 16\nclasses = 10\ntest = { modulo = 10, equals = 0 }\n\
         [model]\nlayers = [{ kind = \"Linear\", in_features = 16, out_features = 64 }, { kind = \"ReLU\" }, \
         { kind = \"Linear\", in_features = 64, out_features = 10 }]\n[optimizer]\nkind = \"Adam\"\nlr = 1e-3\n";
    Ok(fs::write(folder.join("net.toml"), text)?)
}
fn flame() -> Checked {
    let folder = tempfile::tempdir()?;
    description(folder.path())?;
    let file = |name: &str| folder.path().join(name);
    let mut command = Command::new(this_program()?);
    command.args(["flame", "run", "--out"]).arg(file("net.svg")).args(["--", "train"]).arg(file("net.toml")).args(["--quiet", "--run"]).arg(file("run"));
    succeeded(command.arg("--trace").arg(file("trace.json")).output()?)?;
    let (mut svg, mut folded) = (fs::read_to_string(file("net.svg"))?, fs::read_to_string(file("net.folded"))?);
    if planted("a kernel that is in no phase and no layer") {
        folded += "cast 12\n";
    }
    if planted("a picture without its optimizer") {
        svg = svg.replace("optimizer_step", "");
    }
    let trace: Value = serde_json::from_str(&fs::read_to_string(file("trace.json"))?)?;
    let kernels = ["matmul+add+relu", "forward", "backward", "optimizer_step"];
    let stacks = folded.lines().filter(|l| l.rsplit_once(' ').is_some_and(|(stack, us)| stack.contains(';') && us.parse::<u64>().is_ok())).count();
    let events = trace["traceEvents"].as_array().map_or(0, |e| e.iter().filter(|e| e["ph"] == "X" && e["dur"].is_number()).count());
    // perf and others name what the program's symbols name.
    let symbol = b"adamant_backend_cpu";
    let symbols = fs::read(workspace::program()?)?.windows(symbol.len()).filter(|w| w == symbol).count();
    Ok(Seen::all(
        &[
            ("an SVG with kernels by name", svg.starts_with("<?xml") && kernels.iter().all(|k| svg.contains(k))),
            ("folded stacks", stacks > 5 && stacks == folded.lines().count()),
            ("a Chrome trace", events > 100),
            ("symbols", symbols > 100),
        ],
        format!("a picture of {} bytes, {stacks} folded stacks, {events} events in the trace, {symbols} symbols of kernels", svg.len()),
    ))
}
fn difference() -> Checked {
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name);
    fs::write(file("before.folded"), "forward;encoder;matmul 1000\nforward;encoder;softmax 500\nbackward;encoder;add 500\n")?;
    fs::write(file("after.folded"), "forward;encoder;matmul 3000\nforward;encoder;softmax 500\nbackward;encoder;add 100\n")?;
    let mut command = Command::new(this_program()?);
    command.args(["flame", "diff"]).args([file("before.folded"), file("after.folded")]).arg("--out").arg(file("diff.svg"));
    succeeded(command.output()?)?;
    let svg = fs::read_to_string(file("diff.svg"))?;
    // The colour of the frame whose title begins with the name: red, green, blue.
    let colour = |name: &str| -> Option<[i32; 3]> {
        let at = svg.find(&format!("<title>{name} "))?;
        let fill = svg[at..].split_once("fill=\"rgb(")?.1.split_once(')')?.0;
        let parts: Vec<i32> = fill.split(',').filter_map(|c| c.trim().parse().ok()).collect();
        parts.try_into().ok()
    };
    let (Some(grown), Some(shrunk), Some(same)) = (colour("matmul"), colour("add"), colour("softmax")) else {
        return Err("a frame is not in the picture".into());
    };
    Ok(Seen::all(
        &[("red has grown", grown[0] > grown[2]), ("blue has shrunk", shrunk[2] > shrunk[0]), ("neither is the same", same[0] == same[2])],
        format!("matmul 1000 to 3000: {grown:?}; add 500 to 100: {shrunk:?}; softmax as it was: {same:?}"),
    ))
}
/// The rows of the first table of `--profile`: name, and milliseconds.
fn table(stderr: &str) -> Vec<(String, f64)> {
    let lines = stderr.lines().skip_while(|l| !l.starts_with("Phase")).skip(1).take_while(|l| !l.is_empty());
    let cells = lines.map(|l| l.split_whitespace().map(String::from).collect::<Vec<_>>());
    // The last row has no count.
    cells.filter_map(|c| Some((c[0].clone(), c.get(if c[0] == "Wall" { 1 } else { 2 })?.parse().ok()?))).collect()
}
fn verbs() -> Checked {
    let (program, folder) = (workspace::program()?, tempfile::tempdir()?);
    description(folder.path())?;
    // The table, and the milliseconds of the whole by the clock of who starts the program.
    let told = |arguments: &[&str]| -> Result<(Vec<(String, f64)>, f64), Box<dyn Error>> {
        let begun = Instant::now();
        let output = Command::new(&program).args(arguments).arg("--profile").current_dir(folder.path()).output()?;
        if planted("time that the program does not tell") {
            // On a busy machine the program takes longer, and so does what is not told.
            std::thread::sleep(begun.elapsed() / 2);
        }
        let outside = begun.elapsed().as_secs_f64() * 1e3;
        let mut rows = table(&String::from_utf8_lossy(&succeeded(output)?.stderr));
        if planted("a tenth of the run that is in no phase") {
            rows.iter_mut().filter(|r| r.0 == "run").for_each(|r| r.1 *= 0.9);
        }
        Ok((rows, outside))
    };
    // Long enough beside what the system takes to start and end a process.
    let (train, around) = told(&["train", "net.toml", "--quiet", "--set", "epochs=60"])?;
    let (summary, _) = told(&["summary", "net.toml", "--input", "16"])?;
    let names = |rows: &[(String, f64)]| rows.iter().map(|r| r.0.clone()).collect::<Vec<_>>();
    let of = |rows: &[(String, f64)], name: &str| rows.iter().find(|r| r.0 == name).map_or(0.0, |r| r.1);
    let expected = ["args", "parse", "shape", "plan", "run", "(outside)", "Wall"];
    // Of the five alone: with what is outside of them every sum is the wall clock.
    let share = |rows: &[(String, f64)]| expected[..5].iter().map(|n| of(rows, n)).sum::<f64>() / of(rows, "Wall");
    let (of_train, of_summary) = (share(&train), share(&summary));
    let (wall, rounding) = (of(&train, "Wall"), 0.005 / of(&summary, "Wall"));
    Ok(Seen::all(
        &[
            ("five phases", names(&train) == expected && names(&summary) == expected),
            ("each took its time", expected[..5].iter().all(|n| of(&train, n) > 0.0) && of(&summary, "shape") > 0.0),
            ("what runs nothing plans nothing", of(&summary, "plan") == 0.0),
            (
                "the five phases alone are 98 % of the wall clock",
                (0.98..=1.02).contains(&of_train) && (0.98 - rounding..=1.02 + rounding).contains(&of_summary),
            ),
            ("the wall clock is that of who started it", wall <= around && wall >= 0.8 * around - 20.0),
        ],
        format!(
            "train {:.2} % of {wall:.1} ms ({around:.1} from outside), summary {:.2} %: {}",
            of_train * 100.0,
            of_summary * 100.0,
            train.iter().map(|(name, ms)| format!("{name} {ms:.3} ms")).collect::<Vec<_>>().join(", ")
        ),
    ))
}

#[profile]
fn forward_pass(x: &Tensor) -> Result<(), adamant::Error> {
    x.exp().materialize()
}
#[profile("a pause")]
fn pause() {
    std::thread::sleep(Duration::from_millis(2));
}
fn macros() -> Checked {
    let x = Tensor::ones([1000]);
    x.materialize()?;
    let recording = Profiler::new().start()?;
    for _ in 0..5 {
        forward_pass(&x)?;
        pause();
    }
    let answer = time_block!("a block", (0..1000u64).sum::<u64>());
    let profile = recording.stop();
    let phases = profile.phases();
    let of = |name: &str| phases.rows.iter().find(|p| &*p.name == name);
    let (Some(forward), Some(pause), Some(block)) = (of("forward_pass"), of("a pause"), of("a block")) else { return Err("a range is missing".into()) };
    let kernels = profile.kernels.iter().filter(|k| k.range.as_deref() == Some("forward_pass")).count();
    Ok(Seen::all(
        &[
            ("counts", (forward.count, pause.count, block.count) == (5, 5, 1)),
            ("times", pause.total() >= Duration::from_millis(10)),
            ("kernels of the function", kernels == 5),
            ("the block's value", answer == 499_500),
        ],
        format!("forward_pass {} calls with {kernels} kernels, a pause {:?} in {} calls", forward.count, pause.total(), pause.count),
    ))
}
fn metrics() -> Checked {
    let monitor = PerformanceMonitor::new();
    for step in 1..=100 {
        monitor.record_metrics(step, [("loss", 1.0 / step as f64), ("grad_norm", 0.5 + step as f64)]);
    }
    let loss = monitor.metric("loss");
    let series = |name: &str, colour| Series {
        name: name.into(),
        points: monitor.metric(name).iter().map(|&(s, v)| (s as f64, v)).collect(),
        stroke: Stroke::Solid,
        colour,
    };
    let plot = Plot {
        title: "Metrics".into(),
        x_label: "step".into(),
        y_label: "value".into(),
        series: vec![series("loss", 0), series("grad_norm", 1)],
        ..Plot::default()
    };
    let picture = plot.document();
    Ok(Seen::all(
        &[
            ("stored", loss.len() == 100 && loss.iter().enumerate().all(|(k, p)| *p == (k as u64 + 1, 1.0 / (k + 1) as f64))),
            ("queried", monitor.metric_names() == ["grad_norm", "loss"] && monitor.metric("accuracy").is_empty()),
            ("plotted", picture.starts_with("<svg") && picture.contains("grad_norm") && plot.description().contains("loss: 100 points")),
        ],
        format!("2 metrics of 100 steps, loss of step 4 is {}, a picture of {} bytes", loss[3].1, picture.len()),
    ))
}
fn summary() -> Checked {
    let monitor = PerformanceMonitor::new();
    for step in 1..=50 {
        monitor.time_step(step, || Tensor::ones([256, 256]).exp().sum(..).materialize())?;
        monitor.record_metrics(step, [("loss", 1.0 / step as f64)]);
    }
    let (mut log, mut report) = (Vec::new(), Vec::new());
    monitor.write_log(&mut log)?;
    monitor.log_performance_report(&mut report)?;
    let lines = String::from_utf8(log)?.lines().map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>()?;
    let seconds: Vec<f64> = lines.iter().filter_map(|l| l["seconds"].as_f64()).collect();
    let losses: Vec<f64> = lines.iter().filter_map(|l| l["metrics"]["loss"].as_f64()).collect();
    let total: f64 = seconds.iter().sum();
    let (least, most) = seconds.iter().fold((f64::INFINITY, 0.0f64), |(a, b), s| (a.min(*s), b.max(*s)));
    let summary = monitor.performance_summary();
    let same = |a: Duration, b: f64| (a.as_secs_f64() - b).abs() <= 1e-9;
    let report = String::from_utf8(report)?;
    let fields = ["Steps", "Total ms", "Average step ms", "Least ms", "p50 ms", "p99 ms", "Most ms", "Steps a second", "loss"];
    let told = figure(&report, "Average step ms")?;
    Ok(Seen::all(
        &[
            ("50 steps", summary.steps == 50 && seconds.len() == 50),
            ("average", same(summary.average_step_time, total / 50.0) && (told - total / 50.0 * 1e3).abs() < 1e-3),
            ("total, least, most", same(summary.total, total) && same(summary.min, least) && same(summary.max, most)),
            ("rate", (summary.steps_per_second * total / 50.0 - 1.0).abs() < 1e-6),
            ("metrics", summary.metrics["loss"].mean == losses.iter().sum::<f64>() / 50.0 && summary.metrics["loss"].last == 0.02),
            ("a report", fields.iter().all(|f| report.contains(f))),
        ],
        format!("average {:.1} us of {} steps, {:.1} us by the raw log", summary.average_step_time.as_secs_f64() * 1e6, summary.steps, total / 50.0 * 1e6),
    ))
}
