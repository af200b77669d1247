//! Rows about speed: this machine's ceilings, the speed table, latency, and the alarm when something gets slower.
use super::{CheckCost, Checked, RowCheck, Seen, measuring::bench, this_program, timing::least};
use crate::workspace;
use adamant::{DType, Device, Rng, Tensor};
use adamant_bench::{
    ceilings::Ceilings,
    record::{Record, Summary},
};
use serde_json::Value;
use std::{error::Error, fs, process::Command};

pub const ROWS: &[RowCheck] = &[
    RowCheck { id: "S0.05", target: "16M elements at 85 % of STREAM triad's bandwidth or more", cost: CheckCost::Clocked, check: element_wise, plants: &[] },
    RowCheck {
        id: "S0.13",
        target: "rows of 1e4, -1e4, -inf and equal numbers: finite, sum 1 within 2 ULP; masked rows as documented; 1000x10000 at most 1.3 of a copy's time",
        cost: CheckCost::Clocked,
        check: softmax,
        plants: &[],
    },
    RowCheck {
        id: "S0.24",
        target: "adamant bench s0: mean, std, min, n of each line; a missed target is an exit code",
        cost: CheckCost::Clocked,
        check: bench_s0,
        plants: &[],
    },
    RowCheck {
        id: "S0.27",
        target: "creation, matmul, gradient, step and softmax within the guide's number and ours",
        cost: CheckCost::Clocked,
        check: table,
        plants: &[],
    },
    RowCheck {
        id: "S0.31",
        target: "bench run --against base.json ends with 8 for a planted 2.1 times, bench gate for a planted 8 %; neither for none",
        cost: CheckCost::Clocked,
        check: regression,
        plants: &[],
    },
    RowCheck { id: "S1.53", target: "benches/model_forward.rs runs and gives times", cost: CheckCost::Clocked, check: criterion, plants: &[] },
    RowCheck { id: "S1.58", target: "adamant bench MODEL --latency: p50, p99, p99.9 and samples/s", cost: CheckCost::Clocked, check: latency, plants: &[] },
    RowCheck {
        id: "S2.18",
        target: "xtask bench dsl: a table of what passed and failed, and the time of all",
        cost: CheckCost::Clocked,
        check: language,
        plants: &[],
    },
];
/// How often ceilings and ours are measured in turn.
const ROUNDS: usize = 4;

fn threads() -> Result<usize, adamant::Error> {
    Ok(Device::current()?.info().parallelism)
}
fn element_wise() -> Checked {
    const N: usize = 16 << 20;
    let threads = threads()?;
    let (a, b) = (Tensor::full([N], 1.5, DType::F32), Tensor::full([N], 0.5, DType::F32));
    a.materialize()?;
    b.materialize()?;
    let run = |f: &dyn Fn() -> Tensor| -> Result<f64, adamant::Error> {
        f().materialize()?;
        Ok(least(8, || _ = f().materialize()))
    };
    let (mut triad, mut add, mut mul) = (0.0f64, f64::INFINITY, f64::INFINITY);
    // What neighbours leave of the memory's bandwidth changes from second to second: both shall meet the same share of it.
    for _ in 0..3 * ROUNDS {
        triad = triad.max(Ceilings::measure(threads).triad_gbps);
        add = add.min(run(&|| &a + &b)?);
        mul = mul.min(run(&|| &a * &b)?);
    }
    let gbps = |seconds: f64| 12.0 * N as f64 / seconds * 1e-9;
    let share = |seconds: f64| gbps(seconds) / triad;
    Ok(Seen::all(
        &[("add", share(add) >= 0.85), ("mul", share(mul) >= 0.85)],
        format!(
            "triad {triad:.1} GB/s on {threads} threads; add {:.1} ({:.0} %), mul {:.1} ({:.0} %)",
            gbps(add),
            share(add) * 100.0,
            gbps(mul),
            share(mul) * 100.0
        ),
    ))
}
fn softmax() -> Checked {
    const WIDTH: usize = 10_000;
    let rows: [(&str, fn(usize) -> f32); 5] = [
        ("1e4 and -1e4", |k| if k % 2 == 0 { 1e4 } else { -1e4 }),
        ("one 1e4 among -1e4", |k| if k == 17 { 1e4 } else { -1e4 }),
        ("-inf and numbers", |k| if k % 3 == 0 { f32::NEG_INFINITY } else { (k % 11) as f32 }),
        ("all equal", |_| 7.25),
        ("all 1e4", |_| 1e4),
    ];
    let mut wrong = Vec::new();
    let mut worst = 0.0f64;
    for (name, of) in rows {
        let y = Tensor::from_vec((0..WIDTH).map(of).collect::<Vec<f32>>(), [1, WIDTH]).softmax(-1).to_vec::<f32>()?;
        // The sum of what was computed, without the rounding of another sum.
        let off = (y.iter().map(|v| f64::from(*v)).sum::<f64>() - 1.0).abs() / f64::from(f32::EPSILON);
        worst = worst.max(off);
        if off > 2.0 || y.iter().any(|v| !v.is_finite() || *v < 0.0) {
            wrong.push(format!("{name}: {off:.2} ULP"));
        }
    }
    let masked = Tensor::full([2, 8], f64::NEG_INFINITY, DType::F32).softmax(-1).to_vec::<f32>()?;
    let x = Tensor::randn([1000, WIDTH], &Rng::new(1)?);
    x.softmax(-1).materialize()?;
    let (threads, mut copy, mut ours) = (threads()?, f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        copy = copy.min(8.0 * (1000 * WIDTH) as f64 / (Ceilings::measure(threads).copy_gbps * 1e9));
        ours = ours.min(least(8, || _ = x.softmax(-1).materialize()));
    }
    let ratio = ours / copy;
    Ok(Seen::all(
        &[
            ("finite, sum 1", wrong.is_empty()),
            ("a masked row is NaN, as documented", masked.iter().all(|v| v.is_nan())),
            ("at most 1.3 of a copy", ratio <= 1.3),
        ],
        format!("worst sum off by {worst:.2} ULP {}; {:.2} ms, a copy {:.2} ms, ratio {ratio:.2}", wrong.join("; "), ours * 1e3, copy * 1e3),
    ))
}

/// The lines of the speed table, and whether the program called it passed.
fn lines(arguments: &[&str]) -> Result<(Vec<Value>, bool), Box<dyn Error>> {
    let output = Command::new(workspace::program()?).args(["bench", "s0", "--json"]).args(arguments).output()?;
    let lines: Vec<Value> = serde_json::from_slice(&output.stdout).map_err(|e| format!("{e}: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
    match output.status.code() {
        Some(0) => Ok((lines, true)),
        Some(1) => Ok((lines, false)),
        other => Err(format!("it ended with {other:?}").into()),
    }
}
fn told(line: &Value) -> String {
    format!("{} {:.4} ms of {}", line["name"].as_str().unwrap_or("?"), line["min_ms"].as_f64().unwrap_or(f64::NAN), line["target_ms"])
}
fn bench_s0() -> Checked {
    let (all, passed) = lines(&["--seconds", "0.3"])?;
    let fields = ["mean_ms", "std_ms", "min_ms"];
    let whole = |l: &Value| {
        let [mean, std, min] = fields.map(|f| l[f].as_f64().unwrap_or(-1.0));
        l["n"].as_u64().is_some_and(|n| n >= 10) && min > 0.0 && min <= mean && std >= 0.0
    };
    let says = |l: &Value| l["passed"] == (l["min_ms"].as_f64() <= l["target_ms"].as_f64());
    // A device that cannot be in time.
    let (slow, slow_passed) = lines(&["--only", "gradient", "--device", "reference", "--seconds", "0"])?;
    let met = all.iter().filter(|l| l["passed"] == true).count();
    Ok(Seen::all(
        &[
            ("nine lines", all.len() == 9),
            ("mean, std, min, n", all.iter().all(whole)),
            ("passed follows from the figures", all.iter().all(says)),
            ("the exit code follows from the lines", passed == (met == all.len())),
            ("a target that cannot be met", slow.len() == 1 && slow[0]["passed"] == false && !slow_passed),
        ],
        format!("{met} of {} targets met; a device that is too slow ends with 1", all.len()),
    ))
}
fn table() -> Checked {
    let (all, _) = lines(&["--seconds", "2"])?;
    let wanted = ["create", "matmul", "gradient", "training step", "softmax 1000x10000"];
    let of = |prefix: &str| all.iter().filter(|l| l["name"].as_str().is_some_and(|n| n.starts_with(prefix))).collect::<Vec<_>>();
    let passed = |l: &&Value| l["min_ms"].as_f64().is_some_and(|min| Some(min) <= l["target_ms"].as_f64() && Some(min) <= l["guide_ms"].as_f64());
    let parts: Vec<(&str, bool)> = wanted.iter().map(|w| (*w, !of(w).is_empty() && of(w).iter().all(passed))).collect();
    Ok(Seen::all(&parts, wanted.iter().flat_map(|w| of(w)).map(told).collect::<Vec<_>>().join(", ")))
}
fn regression() -> Checked {
    let folder = tempfile::tempdir()?;
    let run = "run --only gemm_f32_128 --budget 0.5 --precision 0";
    let base = bench(folder.path(), &format!("{run} --record base.json"))?;
    if !base.status.success() {
        return Err(String::from_utf8_lossy(&base.stderr).trim().into());
    }
    // A past in which everything took less than half the time.
    let mut record: Record = serde_json::from_str(&fs::read_to_string(folder.path().join("base.json"))?)?;
    for case in &mut record.cases {
        case.samples_ns.iter_mut().for_each(|ns| *ns /= 2.1);
        case.summary = Summary::of(&case.samples_ns);
    }
    record.append(&folder.path().join("past.json"))?;
    let code = |arguments: &str| bench(folder.path(), arguments).map(|o| o.status.code());
    // Two moments of a machine may differ by 75 %, which is why nothing is said of less.
    let same = code(&format!("{run} --against base.json --allow 150"))?;
    let doubled = code(&format!("{run} --against past.json --allow 5"))?;
    // 8 % more of the same work, both sides in turn.
    let gate = "--only selftest_compute --group selftest --budget 6 --precision 0.001 --allow 5";
    let equal = code(&format!("gate self@repeat=50 self@repeat=50 {gate}"))?;
    let planted = code(&format!("gate self@repeat=50 self@repeat=54 {gate}"))?;
    Ok(Seen::all(
        &[
            ("2.1 times", doubled == Some(8)),
            ("8 %, in turn", planted == Some(8)),
            ("the same record", same == Some(0)),
            ("the same program", equal == Some(0)),
        ],
        format!("exit codes: 2.1 times {doubled:?}, 8 % {planted:?}; nothing planted {same:?} and {equal:?}"),
    ))
}
fn criterion() -> Checked {
    let arguments = ["bench", "--quiet", "--package", "adamant-benches", "--bench", "model_forward", "--", "--quick"];
    let output = workspace::cargo(&arguments).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names = ["mlp", "cnn"].iter().flat_map(|m| [1, 16, 128].map(|b| format!("model_forward/{m}/{b}")));
    let missing: Vec<String> = names.filter(|n| !text.contains(n.as_str())).collect();
    let times = text.matches("time:").count();
    Ok(Seen::all(
        &[("ran", output.status.success()), ("all models", missing.is_empty()), ("times", times == 6)],
        format!("{times} times; missing: {missing:?}"),
    ))
}
fn latency() -> Checked {
    let (program, folder) = (workspace::program()?, tempfile::tempdir()?);
    let text = "batch = 32\n[model]\nlayers = [{ kind = \"Linear\", in_features = 64, out_features = 128 }, { kind = \"ReLU\" }, \
         { kind = \"Linear\", in_features = 128, out_features = 10 }]\n";
    fs::write(folder.path().join("net.toml"), text)?;
    let of = |more: &[&str]| -> Result<Value, Box<dyn Error>> {
        let output =
            Command::new(&program).args(["bench", "net.toml", "--input", "64", "--json", "--seconds", "0.5"]).args(more).current_dir(folder.path()).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let (one, many) = (of(&["--latency"])?, of(&[])?);
    let number = |of: &Value, name: &str| of[name].as_f64().unwrap_or(f64::NAN);
    let rising = |v: &Value| ["min_us", "p50_us", "p99_us", "p999_us", "max_us"].map(|n| number(v, n)).is_sorted();
    let rate = |v: &Value| (number(v, "samples_per_second") * number(v, "mean_us") * 1e-6 / number(v, "batch") - 1.0).abs() < 0.01;
    Ok(Seen::all(
        &[
            ("batches", one["batch"] == 1 && many["batch"] == 32),
            ("percentiles rise", rising(&one) && rising(&many)),
            ("enough calls for p99.9", number(&one, "calls") >= 1000.0),
            ("samples/s", rate(&one) && rate(&many)),
        ],
        format!(
            "{} calls: p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us; {:.0} samples/s, {:.0} in batches of 32",
            one["calls"],
            number(&one, "p50_us"),
            number(&one, "p99_us"),
            number(&one, "p999_us"),
            number(&one, "samples_per_second"),
            number(&many, "samples_per_second")
        ),
    ))
}
fn language() -> Checked {
    let output = Command::new(this_program()?).args(["bench", "dsl"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(2) {
        return Err("there is no `xtask bench dsl`: the model language (crate lang), whose parser, shapes and code it times, is not built".into());
    }
    Ok(Seen::all(
        &[("all passed", output.status.success()), ("a table", text.contains("passed")), ("the time of all", text.contains("total"))],
        text.lines().last().unwrap_or_default().to_string(),
    ))
}
