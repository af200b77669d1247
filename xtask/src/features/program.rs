//! Rows about the training program and what it is made of: evaluation, accumulation, memory of whole runs, verbs.
use super::{Checked, Row, Seen, device};
use crate::workspace;
use adamant::{
    DType, Rng, Tensor,
    data::{Labelled, Rows, examples, in_batches},
    functional,
    nn::{Linear, Module, Relu, Sequential, Walk, manual_seed},
    no_grad,
    optim::{ClipPolicy, GradAccumulator, Optimizer, Sgd, UpdateRule},
};
use adamant_train::{EvaluateOptions, Objective, evaluate};
use serde_json::Value;
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Instant,
};

pub const ROWS: &[Row] = &[
    Row {
        id: "S0.28",
        what: "memory of training",
        target: "resident at most 16, 24 and 80 MB for MLPs of 10K, 100K and 1M parameters; a batch of 64 at most 20 MB more",
        check: memory,
    },
    Row { id: "S1.13", what: "evaluate(&model, &data)", target: "accuracy, loss and throughput in one pass, no graph kept", check: evaluation },
    Row {
        id: "S1.23",
        what: "gradient accumulation",
        target: "8 x 16 equals 1 x 128 to 1e-6, a ragged last group too, clipping afterwards",
        check: accumulation,
    },
    Row {
        id: "S1.41",
        what: "batched inference",
        target: "order kept, a ragged last batch, at least 5 times the rate of single samples for a small model",
        check: batched,
    },
    Row { id: "S3.22", what: "no_grad inference", target: "no saved tensors", check: inference },
    Row {
        id: "S3.26",
        what: "a run in little memory",
        target: "64 features, 2 transformer layers: at most 40 MB resident, under ulimit -v",
        check: constrained,
    },
    Row { id: "S4.23", what: "accumulated steps", target: "exactly k small batches for a step, k from 1 to 9", check: groups },
    Row {
        id: "B0.07",
        what: "verbs of the program",
        target: "train, eval, info and config create|validate, with --resume and --json; a description that is created trains",
        check: verbs,
    },
];

fn json(output: &Output) -> Result<Value, Box<dyn Error>> {
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
/// The most resident bytes that a run logged.
fn resident(run: &Path) -> Result<f64, Box<dyn Error>> {
    let text = fs::read_to_string(run.join("timing.jsonl"))?;
    let bytes = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok()?["rss_bytes"].as_f64());
    bytes.reduce(f64::max).map(|b| b / 1e6).ok_or_else(|| "no line tells the memory".into())
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
    // Hidden widths that make about 10K, 100K and 1M parameters.
    for (hidden, batch) in [(70, 16), (280, 16), (960, 16), (960, 64)] {
        let run = folder.path().join(format!("run-{hidden}-{batch}"));
        let output = Command::new(&program).arg("train").arg(mlp(folder.path(), hidden, batch)?).args(["--quiet", "--json", "--run"]).arg(&run).output()?;
        let parameters = json(&output)?["parameters"].as_u64().ok_or("no parameters")?;
        seen.push((parameters, resident(&run)?));
    }
    let limits = [16.0, 24.0, 80.0];
    let parts: Vec<(&str, bool)> = ["10K", "100K", "1M"]
        .into_iter()
        .zip(seen.iter().zip(limits))
        .map(|(name, ((_, mb), limit))| (name, *mb <= limit))
        .chain([("batch of 64", seen[3].1 - seen[2].1 <= 20.0)])
        .collect();
    Ok(Seen::all(&parts, seen.iter().map(|(p, mb)| format!("{p} parameters: {mb:.1} MB")).collect::<Vec<_>>().join(", ")))
}
fn constrained() -> Checked {
    let (program, folder) = (workspace::program()?, tempfile::tempdir()?);
    fs::write(folder.path().join("input.txt"), "Little memory goes a long way. ".repeat(400))?;
    let text = "iterations = 30\nbatch = 8\nlog_every = 1\n[data]\nkind = \"text\"\ncontext = 32\n[model]\nlayers = [\
         { name = \"wte\", kind = \"Embedding\", num_embeddings = \"$vocabulary\", embedding_dim = 64 }, { kind = \"PositionEmbedding\", max_length = 32, features = 64 }, \
         { name = \"blocks\", repeat = 2, kind = \"TransformerEncoderLayer\", d_model = 64, nhead = 4, dim_feedforward = 256, is_causal = true, dropout = 0.0 }, { kind = \"Linear\", tied = \"wte\" }]\n\
         [optimizer]\nkind = \"AdamW\"\nlr = 1e-3\n";
    fs::write(folder.path().join("small.toml"), text)?;
    let line = format!("ulimit -v 500000; exec \"{}\" train small.toml --quiet --json --run run --threads 2", program.display());
    let output = Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output()?;
    json(&output)?;
    let mb = resident(&folder.path().join("run"))?;
    Ok(Seen::new(mb <= 40.0, format!("{mb:.1} MB resident, 500 MB of addresses")))
}
fn network(rng: &Rng, from: usize, to: usize) -> Result<(Sequential, Tensor), Box<dyn Error>> {
    let net = Sequential::new().add(Linear::new(from, 32)?).add(Relu::new()).add(Linear::new(32, to)?);
    Ok((net, Tensor::randn([300, from], rng)))
}
fn evaluation() -> Checked {
    let rng = Rng::new(1)?;
    let (net, x) = network(&rng, 8, 3)?;
    let labels: Vec<i64> = no_grad(|| net.forward(&x)?.argmax(-1).to_vec())?;
    // 30 of 300 are labelled wrong.
    let labels: Vec<i64> = labels.into_iter().enumerate().map(|(k, l)| if k % 10 == 0 { (l + 1) % 3 } else { l }).collect();
    let data = examples(Labelled::new(Rows::from_tensor(&x)?, Rows::classes(labels, 3)?)?);
    let before = device()?.memory().live_bytes;
    let seen = evaluate(&net, &Objective::Classes { label_smoothing: 0.0 }, &data, device()?, &EvaluateOptions { batch: 64, ..Default::default() })?;
    Ok(Seen::all(
        &[
            ("accuracy", seen.accuracy == Some(0.9)),
            ("loss", seen.loss.is_finite() && seen.loss > 0.0),
            ("throughput", seen.rows == 300 && seen.rows_per_second() > 0.0),
            ("nothing is kept", device()?.memory().live_bytes == before),
        ],
        format!("accuracy {:?}, loss {:.4}, {:.0} rows/s", seen.accuracy, seen.loss, seen.rows_per_second()),
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
        ClipPolicy::Norm(0.1).apply(&mut grads, &net.parameters())?;
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
        weights.extend(p.read().to_vec::<f32>()?);
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
    let rng = Rng::new(3)?;
    let (net, x) = network(&rng, 16, 4)?;
    let samples: Vec<Tensor> = (0..300).map(|k| x.narrow(0, k, 1).reshape([16])).collect();
    let answer = |batch: &Tensor| no_grad(|| net.forward(batch)).and_then(|t| t.ok());
    let rate = |size: usize| -> Result<(f64, Vec<f32>), Box<dyn Error>> {
        let mut best = f64::INFINITY;
        let mut values = Vec::new();
        for _ in 0..5 {
            let begun = Instant::now();
            let answers = in_batches(&samples, size, answer)?;
            values.clear();
            for a in &answers {
                values.extend(a.to_vec::<f32>()?);
            }
            best = best.min(begun.elapsed().as_secs_f64());
        }
        Ok((300.0 / best, values))
    };
    let ((one, singly), (many, together)) = (rate(1)?, rate(64)?);
    // What is measured is the model: each sample goes through it alone, or 64 together.
    let alone = {
        let begun = Instant::now();
        for s in &samples {
            answer(&s.unsqueeze(0))?.to_vec::<f32>()?;
        }
        300.0 / begun.elapsed().as_secs_f64()
    };
    let stacked = {
        let begun = Instant::now();
        for from in (0..300).step_by(64) {
            answer(&x.narrow(0, from, 64.min(300 - from)))?.to_vec::<f32>()?;
        }
        300.0 / begun.elapsed().as_secs_f64()
    };
    let same = singly.iter().zip(&together).all(|(a, b)| a.to_bits() == b.to_bits());
    Ok(Seen::all(
        &[("order and values", same && together.len() == 1200), ("five times the rate", stacked >= 5.0 * alone)],
        format!("{stacked:.0} samples/s in batches of 64, {alone:.0} one by one; through in_batches {many:.0} and {one:.0}"),
    ))
}
fn inference() -> Checked {
    let rng = Rng::new(3)?;
    let (net, x) = network(&rng, 16, 4)?;
    let tracked = net.forward(&x)?;
    // What is not computed yet is kept as a recipe.
    tracked.eval()?;
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
            ("config create", created["config"] == "made.toml" && dry["loss"].is_number()),
            ("config validate", valid["valid"] == true && refused.status.code() == Some(4) && String::from_utf8_lossy(&refused.stdout).contains(&said)),
        ],
        format!("trained {} steps, went on from there to {}; eval {}", first["steps"], longer["steps"], judged["accuracy"]),
    ))
}
