//! Rows about the training program and what it is made of: evaluation, accumulation, memory of whole runs, verbs.
use super::{CheckCost, Checked, RowCheck, Seen, device, peak, plant, planted};
use crate::workspace;
use adamant::{
    DType, Rng, Tensor,
    cpu::{Context, CpuBackend},
    data::{BadRecord, Dataset, Description, Labelled, Place, Rows, examples, in_batches},
    functional,
    nn::{Linear, Module, Relu, Sequential, Walk, manual_seed},
    no_grad,
    optim::{GradAccumulator, Optimizer, Sgd, UpdateRule, clip_grad_norm},
};
use adamant_train::{EvaluateOptions, Objective, evaluate};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S0.28",
        target: "the most that a process ever held while it trained: 12, 16 and 60 MB for 10K, 100K and 1M parameters; a batch of 64 at most 20 MB more",
        cost: CheckCost::Long,
        check: memory,
        plants: &[plant("a net of twice the width", "the sizes of the row"), plant("a run that held 90 MB before its first line", "batch of 64")],
    },
    RowCheck {
        id: "S1.13",
        target: "accuracy, loss and throughput in one pass, no graph kept: accuracy and loss as computed by hand, each record read once and each batch run once",
        cost: CheckCost::Cheap,
        check: evaluation,
        plants: &[
            plant("a loss that is 1 % too large", "loss"),
            plant("an evaluation of two passes", "one pass"),
            plant("an accuracy of one answer more", "accuracy"),
            plant("an output that is kept with its graph", "nothing is kept"),
        ],
    },
    RowCheck {
        id: "S1.23",
        target: "8 x 16 equals 1 x 128 to 1e-6, a ragged last group too, clipping afterwards",
        cost: CheckCost::Cheap,
        check: accumulation,
        plants: &[],
    },
    RowCheck {
        id: "S1.41",
        target: "stack_samples and split: order kept, ragged last batch, at least 5 times the throughput of single samples for a small model",
        cost: CheckCost::Clocked,
        check: batched,
        plants: &[plant("batches of one sample", "five times the rate"), plant("answers in another order", "order and values")],
    },
    RowCheck { id: "S3.22", target: "no saved tensors", cost: CheckCost::Cheap, check: inference, plants: &[] },
    RowCheck {
        id: "S3.26",
        target: "the preset memory-constrained (64 features, 2 layers) trains with 40 MB resident at most, and under a ulimit -v",
        cost: CheckCost::Long,
        check: constrained,
        plants: &[plant("a model of 512 features", "40 MB at most"), plant("a limit of 20 MB of addresses", "it trains under the limit")],
    },
    RowCheck { id: "S4.23", target: "exactly k small batches for a step, k from 1 to 9", cost: CheckCost::Cheap, check: groups, plants: &[] },
    RowCheck {
        id: "B0.07",
        target: "train, test (eval), benchmark (bench), info and config create|validate, with --resume and --json; a description that is created trains",
        cost: CheckCost::Long,
        check: verbs,
        plants: &[],
    },
    RowCheck {
        id: "B0.11",
        target: "`adamant report` makes one HTML page, to be opened offline, with curves, the architecture, the features, and a dashboard of figures, all from the run's own files",
        cost: CheckCost::Long,
        check: report,
        plants: &[
            plant("a page without the last loss", "curves"),
            plant("a page of another model", "architecture"),
            plant("a page that wants the network", "offline"),
        ],
    },
];

fn json(output: &Output) -> Result<Value, Box<dyn Error>> {
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
/// A table of 64 numbers and a class.
fn table(folder: &Path) -> Result<(), Box<dyn Error>> {
    let row = |k: usize| (0..64).map(|c| format!("{}", (k * 31 + c * 17) % 97)).collect::<Vec<_>>().join(",") + &format!(",{}\n", k % 10);
    Ok(fs::write(folder.join("table.csv"), (0..1000).map(row).collect::<String>())?)
}
fn mlp(folder: &Path, hidden: usize, batch: usize) -> Result<PathBuf, Box<dyn Error>> {
    let text = format!(
        "epochs = 3\nbatch = {batch}\nlog_every = 1\n[data]\nkind = \"csv\"\npath = \"table.csv\"\nlabel = 64\nclasses = 10\ntest = {{ modulo = 10, equals = 0 }}\n\
         [model]\nlayers = [{{ kind = \"Linear\", in_features = 64, out_features = {hidden} }}, {{ kind = \"ReLU\" }}, \
         {{ kind = \"Linear\", in_features = {hidden}, out_features = {hidden} }}, {{ kind = \"ReLU\" }}, {{ kind = \"Linear\", in_features = {hidden}, out_features = 10 }}]\n\
         [optimizer]\nkind = \"Adam\"\nlr = 1e-3\n"
    );
    let path = folder.join(format!("mlp-{hidden}-{batch}.toml"));
    fs::write(&path, text)?;
    Ok(path)
}
fn memory() -> Checked {
    let (program, folder) = (workspace::program()?, tempfile::tempdir()?);
    table(folder.path())?;
    let mut seen = Vec::new();
    let wider = if planted("a net of twice the width") { 2 } else { 1 };
    // Hidden widths that make about 10K, 100K and 1M parameters.
    for (hidden, batch) in [(70, 16), (280, 16), (960, 16), (960, 64)] {
        let run = folder.path().join(format!("run-{hidden}-{batch}"));
        let mut command = Command::new(&program);
        if planted("a run that held 90 MB before its first line") && batch == 64 {
            // The process is the shell's until the program takes it over.
            command = Command::new("sh");
            command.args(["-c", "held=$(head -c 90000000 /dev/zero | tr '\\0' x); exec \"$0\" \"$@\""]).arg(&program);
        }
        command.arg("train").arg(mlp(folder.path(), wider * hidden, batch)?).args(["--quiet", "--json", "--run"]).arg(&run);
        let (output, mb) = peak::of(&mut command)?;
        let parameters = json(&output)?["parameters"].as_u64().ok_or("no parameters")?;
        seen.push((parameters as f64, mb));
    }
    let near = |(of, parameters): (&(f64, f64), f64)| (of.0 / parameters - 1.0).abs() <= 0.1;
    let parts = [
        ("the sizes of the row", seen.iter().zip([1e4, 1e5, 1e6, 1e6]).all(near)),
        ("10K parameters", seen[0].1 <= 12.0),
        ("100K parameters", seen[1].1 <= 16.0),
        ("1M parameters", seen[2].1 <= 60.0),
        ("batch of 64", seen[3].1 - seen[2].1 <= 20.0),
    ];
    Ok(Seen::all(&parts, seen.iter().map(|(p, mb)| format!("{p} parameters: {mb:.1} MB at most")).collect::<Vec<_>>().join(", ")))
}
/// Addresses that the preset for little memory gets, in KiB: its own, those of its threads' stacks, and those that the
/// system's allocator sets aside for each thread.
const ADDRESSES: u32 = 250_000;
fn constrained() -> Checked {
    let (program, folder) = (workspace::program()?, tempfile::tempdir()?);
    fs::write(folder.path().join("input.txt"), "Little memory goes a long way. ".repeat(400))?;
    let created = Command::new(&program).args(["config", "create", "memory-constrained", "small.toml", "--json"]).current_dir(folder.path()).output()?;
    json(&created)?;
    let preset = fs::read_to_string(folder.path().join("small.toml"))?;
    let is_the_row = preset.contains("embedding_dim = 64") && preset.contains("repeat = 2");
    if planted("a model of 512 features") {
        fs::write(folder.path().join("small.toml"), preset.replace("= 64", "= 512"))?;
    }
    let limit = if planted("a limit of 20 MB of addresses") { 20_000 } else { ADDRESSES };
    let line = format!("ulimit -v {limit}; exec \"{}\" train small.toml --quiet --json --run run --set iterations=30", program.display());
    let (output, mb) = peak::of(Command::new("sh").args(["-c", &line]).current_dir(folder.path()))?;
    let trained = json(&output);
    let told = trained.as_ref().map_or_else(|e| e.to_string(), |t| format!("{} parameters", t["parameters"]));
    Ok(Seen::all(
        &[("64 features, 2 layers", is_the_row), ("it trains under the limit", trained.is_ok()), ("40 MB at most", mb <= 40.0)],
        format!("{told}: {mb:.1} MB at most, under ulimit -v {limit}"),
    ))
}
fn network(rng: &Rng, from: usize, to: usize) -> Result<(Sequential, Tensor), Box<dyn Error>> {
    let net = Sequential::new().add(Linear::new(from, 32)?).add(Relu::new()).add(Linear::new(32, to)?);
    Ok((net, Tensor::randn([300, from], rng)))
}
/// A net that counts its calls, and keeps what it gave if it is told to.
#[derive(Module)]
struct CountingNet {
    net: Sequential,
    #[module(skip)]
    calls: AtomicUsize,
    #[module(skip)]
    kept: Mutex<Vec<Tensor>>,
}
impl Module for CountingNet {
    fn forward(&self, x: &Tensor) -> adamant::Result<Tensor> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let y = self.net.forward(x)?;
        if planted("an output that is kept with its graph") {
            self.kept.lock().push(y.clone());
        }
        Ok(y)
    }
}
/// Examples that count how often each is read.
struct CountedReads {
    inner: Labelled<Rows, Rows>,
    times: Arc<Mutex<Vec<u32>>>,
}
impl Dataset for CountedReads {
    type Record = <Labelled<Rows, Rows> as Dataset>::Record;
    type Batch = <Labelled<Rows, Rows> as Dataset>::Batch;
    fn len(&self) -> usize {
        self.inner.len()
    }
    fn read(&self, index: usize) -> Result<Self::Record, BadRecord> {
        self.times.lock()[index] += 1;
        self.inner.read(index)
    }
    fn collate(&self, records: Vec<Self::Record>) -> adamant::Result<Self::Batch> {
        self.inner.collate(records)
    }
    fn locate(&self, index: usize) -> Place {
        self.inner.locate(index)
    }
    fn describe(&self) -> Description {
        self.inner.describe()
    }
}
fn evaluation() -> Checked {
    const ROWS: usize = 300;
    let rng = Rng::new(1)?;
    let (net, x) = network(&rng, 8, 3)?;
    let logits: Vec<f32> = no_grad(|| net.forward(&x)?.to_vec())?;
    let answers = logits.chunks(3).map(|row| (0..3).fold(0, |best, k| if row[k] > row[best] { k } else { best }));
    // 30 of 300 are labelled wrong.
    let labels: Vec<i64> = answers.enumerate().map(|(k, l)| if k % 10 == 0 { (l as i64 + 1) % 3 } else { l as i64 }).collect();
    // The mean of -ln softmax(row)[label], in plain loops.
    let of_row = |(row, label): (&[f32], &i64)| {
        let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f64 = row.iter().map(|v| f64::from(v - top).exp()).sum();
        total.ln() - f64::from(row[*label as usize] - top)
    };
    let loss = logits.chunks(3).zip(&labels).map(of_row).sum::<f64>() / ROWS as f64;
    let times = Arc::new(Mutex::new(vec![0; ROWS]));
    let data = examples(CountedReads { inner: Labelled::new(Rows::from_tensor(&x)?, Rows::classes(labels, 3)?)?, times: times.clone() });
    let counted = CountingNet { net, calls: AtomicUsize::new(0), kept: Mutex::default() };
    let before = device()?.memory().live_bytes;
    let judge = || evaluate(&counted, &Objective::cross_entropy(0.0), &data, device()?, &EvaluateOptions { batch: 64, ..Default::default() });
    let seen = judge()?;
    if planted("an evaluation of two passes") {
        judge()?;
    }
    let (calls, times) = (counted.calls.load(Ordering::Relaxed), times.lock().clone());
    let told = seen.loss * if planted("a loss that is 1 % too large") { 1.01 } else { 1.0 };
    let accuracy = seen.accuracy.map(|a| if planted("an accuracy of one answer more") { a + 1.0 / ROWS as f64 } else { a });
    Ok(Seen::all(
        &[
            ("accuracy", accuracy == Some(0.9)),
            ("loss", (told / loss - 1.0).abs() <= 1e-5),
            ("throughput", seen.rows == ROWS && seen.seconds > 0.0 && (seen.rows_per_second() * seen.seconds / ROWS as f64 - 1.0).abs() < 1e-9),
            ("one pass", times.iter().all(|n| *n == 1) && calls == ROWS.div_ceil(64)),
            ("nothing is kept", device()?.memory().live_bytes == before),
        ],
        format!("accuracy {accuracy:?}, loss {told:.6} ({loss:.6} by hand), {:.0} rows/s, {calls} batches run", seen.rows_per_second()),
    ))
}
/// Weights after an epoch over 300 rows, by groups of `every` batches of `mini`.
fn accumulated(mini: usize, every: usize) -> Result<Vec<f32>, Box<dyn Error>> {
    manual_seed(2);
    let rng = Rng::new(7)?;
    let (net, x) = network(&rng, 8, 3)?;
    let y = Tensor::from_vec((0..300).map(|k| k % 3).collect::<Vec<i64>>(), [300]);
    let mut optimizer = Sgd::new(0.1).over(net.parameters());
    let mut accumulator = GradAccumulator::new(net.parameters(), every)?;
    let mut step = |mut grads: adamant::Grads| {
        clip_grad_norm(&mut grads, &net.parameters(), 0.1)?;
        optimizer.step(&grads)
    };
    for from in (0..300).step_by(mini) {
        let n = mini.min(300 - from);
        let loss = functional::cross_entropy(&net.forward(&x.narrow(0, from, n))?, &y.narrow(0, from, n), &Default::default());
        if let Some(grads) = accumulator.add(loss.backward()?, n)? {
            step(grads)?;
        }
    }
    if let Some(grads) = accumulator.finish()? {
        step(grads)?;
    }
    let mut weights = Vec::new();
    for p in net.parameters() {
        weights.extend(p.detached().to_vec::<f32>()?);
    }
    Ok(weights)
}
fn accumulation() -> Checked {
    let (small, large) = (accumulated(16, 8)?, accumulated(128, 1)?);
    let worst = small.iter().zip(&large).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    Ok(Seen::new(worst <= 1e-6, format!("weights differ by {worst:.1e} at most after steps of 128, 128 and 44 rows")))
}
fn groups() -> Checked {
    let rng = Rng::new(7)?;
    let (net, x) = network(&rng, 8, 3)?;
    let mut wrong = Vec::new();
    for every in 1..=9 {
        let mut accumulator = GradAccumulator::new(net.parameters(), every)?;
        for k in 1..=20 {
            let stepped = accumulator.add(net.forward(&x.narrow(0, k, 2))?.mean(..).backward()?, 2)?.is_some();
            if stepped != (k % every == 0) {
                wrong.push((every, k));
            }
        }
    }
    Ok(Seen::new(wrong.is_empty(), format!("k = 1 to 9, 20 batches each; wrong: {wrong:?}")))
}
fn batched() -> Checked {
    // One thread: what is gained is the batch's.
    Context::new(CpuBackend::builder().threads(1))?.device().scoped(|| {
        let rng = Rng::new(3)?;
        let (net, x) = network(&rng, 16, 4)?;
        let samples: Vec<Tensor> = (0..300).map(|k| x.narrow(0, k, 1).reshape([16])).collect();
        let answer = |batch: &Tensor| no_grad(|| net.forward(batch)).and_then(|t| t.ok());
        let size = if planted("batches of one sample") { 1 } else { 64 };
        let (mut many, mut alone) = (0.0f64, 0.0f64);
        let (mut together, mut singly) = (Vec::new(), Vec::new());
        // In turn, so that both meet the same machine.
        for _ in 0..20 {
            let begun = Instant::now();
            together.clear();
            for answer in &in_batches(&samples, size, answer)? {
                together.extend(answer.to_vec::<f32>()?);
            }
            many = many.max(300.0 / begun.elapsed().as_secs_f64());
            // One by one, as it is done without the feature.
            let begun = Instant::now();
            singly.clear();
            for s in &samples {
                singly.extend(answer(&s.unsqueeze(0))?.to_vec::<f32>()?);
            }
            alone = alone.max(300.0 / begun.elapsed().as_secs_f64());
        }
        if planted("answers in another order") {
            together.reverse();
        }
        let same = singly.len() == 1200 && singly.iter().map(|v| v.to_bits()).eq(together.iter().map(|v| v.to_bits()));
        Ok(Seen::all(
            &[("order and values", same), ("five times the rate", many >= 5.0 * alone)],
            format!("in_batches {many:.0} samples/s by 64, {alone:.0} one by one, {:.1} times; the last batch has 44", many / alone),
        ))
    })
}
fn inference() -> Checked {
    let rng = Rng::new(3)?;
    let (net, x) = network(&rng, 16, 4)?;
    let tracked = net.forward(&x)?;
    // What is not computed yet is kept as a recipe.
    tracked.materialize()?;
    let free = no_grad(|| net.forward(&x))?;
    let (kept, none) = (adamant::grad::saved_bytes(&tracked), adamant::grad::saved_bytes(&free));
    Ok(Seen::new(none == 0 && kept > 0 && free.dtype()? == DType::F32, format!("{none} bytes saved under no_grad, {kept} with gradients")))
}
fn verbs() -> Checked {
    let (program, folder) = (workspace::program()?, tempfile::tempdir()?);
    table(folder.path())?;
    let config = mlp(folder.path(), 32, 16)?;
    let run = folder.path().join("run");
    let call = |arguments: &[&str]| Command::new(&program).current_dir(folder.path()).args(arguments).output();
    let (config, run) = (config.to_string_lossy().into_owned(), run.to_string_lossy().into_owned());
    let first = json(&call(&["train", &config, "--quiet", "--json", "--run", &run, "--set", "epochs=2"])?)?;
    let longer = json(&call(&["train", &config, "--quiet", "--json", "--run", &run, "--resume", "auto"])?)?;
    let judged = json(&call(&["eval", &run, "--json"])?)?;
    let info = json(&call(&["info", "--json"])?)?;
    let bench = json(&call(&["bench", &config, "--input", "64", "--seconds", "0.1", "--json"])?)?;
    // A description that was made by the program: taken by it, and refused with its line once a key of it is misspelt.
    let created = json(&call(&["config", "create", "table", "made.toml", "--json"])?)?;
    let fits = ["--set", "data.label=64", "--set", "data.classes=10"];
    let valid = json(&call(&[&["config", "validate", "made.toml", "--json"], &fits[..]].concat())?)?;
    let dry = json(&call(&[&["train", "made.toml", "--dry-run", "--json"], &fits[..]].concat())?)?;
    let misspelt = fs::read_to_string(folder.path().join("made.toml"))?.replace("\nepochs = 30", "\nepoch = 30");
    fs::write(folder.path().join("misspelt.toml"), &misspelt)?;
    let line = 1 + misspelt.lines().position(|l| l.starts_with("epoch = ")).ok_or("no such line")?;
    let refused = call(&["config", "validate", "misspelt.toml"])?;
    let said = format!("misspelt.toml:{line}: unknown key `epoch`; did you mean `epochs`?");
    Ok(Seen::all(
        &[
            ("train", first["metrics"]["test"]["accuracy"].is_number()),
            ("resume", longer["resumed"] == first["steps"] && longer["steps"].as_u64() > first["steps"].as_u64()),
            ("eval", judged["accuracy"] == longer["metrics"]["test"]["accuracy"]),
            ("info", info.is_object()),
            ("bench", bench["samples_per_second"].as_f64().is_some_and(|rate| rate > 0.0)),
            ("config create", created["config"] == "made.toml" && dry["loss"].is_number()),
            ("config validate", valid["valid"] == true && refused.status.code() == Some(4) && String::from_utf8_lossy(&refused.stdout).contains(&said)),
        ],
        format!("trained {} steps, went on from there to {}; eval {}", first["steps"], longer["steps"], judged["accuracy"]),
    ))
}
fn report() -> Checked {
    let (program, folder) = (workspace::program()?, tempfile::tempdir()?);
    table(folder.path())?;
    let config = mlp(folder.path(), 32, 16)?;
    let run = folder.path().join("run");
    json(&Command::new(&program).arg("train").arg(&config).args(["--quiet", "--json", "--run"]).arg(&run).output()?)?;
    let made = Command::new(&program).arg("report").arg(&run).output()?;
    let mut page = fs::read_to_string(run.join("report.html"))?;
    let lines = fs::read_to_string(run.join("metrics.jsonl"))?;
    let steps: Vec<Value> = lines.lines().filter_map(|l| serde_json::from_str(l).ok()).filter(|l: &Value| l["kind"] == "step").collect();
    let (first, last) = (steps.first().ok_or("no steps")?, steps.last().ok_or("no steps")?);
    // What the page must tell of the run, as it rounds it.
    let shown = |step: &Value| step["loss"].as_f64().map(|v| format!("{v:.3}")).unwrap_or_default();
    if planted("a page without the last loss") {
        page = page.replace(&shown(last), "");
    }
    if planted("a page of another model") {
        page = page.replace("Linear", "Conv2d");
    }
    if planted("a page that wants the network") {
        page += "<script src=\"https://example.com/plot.js\"></script>";
    }
    let has = |words: &[&str]| words.iter().all(|w| page.contains(w));
    let outside = ["src=\"http", "href=\"http", "url(http", "@import"].iter().any(|mark| page.contains(mark));
    // 64 inputs to 32, 32 and 10: as many parameters as are counted by hand.
    let counts = [64 * 32 + 32, 32 * 32 + 32, 32 * 10 + 10].map(|n: usize| n.to_string());
    let plain = page.replace([',', '\u{202f}', '\u{a0}'], "");
    Ok(Seen::all(
        &[
            ("it was made", made.status.success()),
            ("curves", page.matches("<svg").count() >= 2 && has(&["<path", &shown(last)])),
            ("architecture", has(&["Linear", "ReLU"]) && counts.iter().all(|n| plain.contains(n.as_str()))),
            ("features", has(&["id=\"features\""])),
            ("a dashboard", has(&["steps", "accuracy"]) && page.to_lowercase().contains("memory")),
            ("offline", !outside),
        ],
        format!(
            "a page of {} bytes with {} pictures of {} steps, loss {} to {}",
            page.len(),
            page.matches("<svg").count(),
            steps.len(),
            shown(first),
            shown(last)
        ),
    ))
}
