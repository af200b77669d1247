//! Rows about ranks that share more than rows: modes, meshes, what is shared out, ranks that are lost; devices of one process.
use super::{CheckCost, Checked, RowCheck, Seen, device, plant, planted};
use crate::{
    distributed::{CommonOptions, RankedTraining, set},
    workspace,
};
use adamant::{
    Device, Tensor, communicator,
    functional::{CrossEntropyOptions, cross_entropy},
    nn::{Linear, Module, Sequential, Tanh, Walk, manual_seed},
    op::rank_parts,
    optim::{Sgd, UpdateRule},
    parallel::DataParallel,
};
use adamant_distributed::local::local_threads;
use adamant_train::{Course, Habits, Look, Session, StepSharing, ZeroStage};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S1.50",
        target: "DataParallel over cpu:0 to cpu:3: outputs, loss and gradients of one device to 1e-6, for every number of devices and of rows",
        cost: CheckCost::Cheap,
        check: devices,
        plants: &[plant("a batch without its last row", "the outputs"), plant("a loss that is counted twice", "the gradients")],
    },
    RowCheck {
        id: "B0.10",
        target: "a rank that is killed is missed within 3 heartbeats (1.5 s), the others go on in the same processes, and end in the bits of one that nobody disturbed",
        cost: CheckCost::Long,
        check: survived,
        plants: &[plant("a rank that is not killed", "missed within 3 heartbeats"), plant("a run of another seed", "the bits of the undisturbed run")],
    },
    RowCheck {
        id: "B1.04",
        target: "4 ranks that share out parameters, gradients and slots: the bits of one process; 2 stages of 2 pieces each: its weights to 1e-6; PowerSGD: the loss within 5 %; a parameter server and remote calls are refused, with the reason",
        cost: CheckCost::Long,
        check: shared_out,
        plants: &[
            plant("ranks of another seed", "the bits of one process"),
            plant("a mesh of another seed", "a mesh of 4"),
            plant("PowerSGD at ten times the rate", "PowerSGD"),
            plant("a mode that there is", "refused with the reason"),
        ],
    },
    RowCheck {
        id: "B4.06",
        target: "modes none, distributed, hybrid and auto of descriptions (dataparallel is S1.50); auto takes as many ranks as were started; batch norms of 4 ranks as of one batch to 1e-6; a job whose rank is killed is started again and ends in the undisturbed bits",
        cost: CheckCost::Long,
        check: modes,
        plants: &[
            plant("norms that see one rank's rows", "batch norms of all rows"),
            plant("auto with other rows", "auto"),
            plant("a mode that is allowed", "modes are refused where they do not fit"),
            plant("no start more", "started again"),
        ],
    },
    RowCheck {
        id: "B4.08",
        target: "k batches in a step, k from 1 to 4, 2 ranks: as many exchanges as for one batch, and the weights of one process",
        cost: CheckCost::Cheap,
        check: accumulated,
        plants: &[plant("a step for each batch", "exchanges"), plant("a batch of another rank", "the weights of one process")],
    },
];
type LabelledRows = (Tensor, Tensor);
/// Numbers from -1 to 1.
fn numbers(seed: usize, count: usize) -> Vec<f32> {
    let mixed = |k: usize| ((k + seed * 7919) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..count).map(|k| ((mixed(k) ^ (mixed(k) >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f32 / (1u64 << 23) as f32 - 1.0).collect()
}
fn rows(seed: usize, count: usize) -> LabelledRows {
    let targets = (0..count).map(|k| ((k * 5 + seed) % 4) as i64).collect::<Vec<_>>();
    (Tensor::from_vec(numbers(seed, count * 6), [count, 6]), Tensor::from_vec(targets, [count]))
}
fn model() -> Result<Sequential, adamant::Error> {
    manual_seed(3);
    Ok(Sequential::new().add(Linear::new(6, 8)?).add(Tanh::new()).add(Linear::new(8, 4)?))
}
fn loss(model: &dyn Module, (x, y): &LabelledRows) -> Result<Tensor, adamant::Error> {
    cross_entropy(&model.forward(x)?, y, &CrossEntropyOptions::default()).ok()
}
fn farthest(a: &[f32], b: &[f32]) -> f64 {
    if a.len() == b.len() { a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs())).fold(0f64, f64::max) } else { f64::INFINITY }
}
fn devices() -> Checked {
    let names = ["cpu:0", "cpu:1", "cpu:2", "cpu:3"];
    let (mut of_outputs, mut of_gradients, mut cases) = (0f64, 0f64, 0);
    // The first of the CPU's devices is where outputs are put together.
    Device::cpu()?.scoped(|| {
        for (count, n) in (1..=4).flat_map(|count| [1, 3, 4, 7, 12].map(|n| (count, n))) {
            let (x, y) = rows(count, n);
            let told = |model: &dyn Module, batch: &LabelledRows, times: f64| -> Result<(Vec<f32>, Vec<f32>), adamant::Error> {
                let outputs = model.forward(&batch.0)?.to_vec::<f32>()?;
                let grads = (loss(model, batch)? * times).backward()?;
                let all = model.parameters().into_iter().map(|p| grads.of(&p.cell()).map_or(Ok(Vec::new()), |g| g.to_vec::<f32>()));
                Ok((outputs, all.collect::<Result<Vec<_>, _>>()?.concat()))
            };
            let (outputs, gradients) = told(&model()?, &(x.clone(), y.clone()), 1.0)?;
            let short = if planted("a batch without its last row") && n > 1 { n - 1 } else { n };
            let times = if planted("a loss that is counted twice") { 2.0 } else { 1.0 };
            let split = DataParallel::new(model()?, &names[..count])?;
            let (got, of_split) = told(&split, &(x.narrow(0, 0, short), y.narrow(0, 0, short)), times)?;
            (of_outputs, of_gradients) = (of_outputs.max(farthest(&outputs, &got)), of_gradients.max(farthest(&gradients, &of_split)));
            cases += 1;
        }
        Ok::<(), adamant::Error>(())
    })?;
    let parts = [("the outputs", of_outputs <= 1e-6), ("the gradients", of_gradients <= 1e-6)];
    Ok(Seen::all(&parts, format!("{cases} cases, outputs off by {of_outputs:.1e}, gradients by {of_gradients:.1e}")))
}
/// Steps of so many batches each, of this rank's rows: the weights, and exchanges in the last step.
fn learned(on: Option<&Arc<dyn communicator::Communicator>>, k: usize) -> Result<(Vec<f32>, u64), Box<dyn Error + Send + Sync>> {
    let by_batch = planted("a step for each batch");
    let model = model()?;
    let optimizer = Box::new(Sgd::new(0.1).momentum(0.9).over(model.parameters()));
    let habits =
        Habits { optimizer, course: Course::Constant, clip: None, stability: None, accumulate: k, ema: None, capture: true, precision: Default::default() };
    let mut session = Session::new(model, Arc::new(|model: &Sequential, batch: &LabelledRows| loss(model, batch)), habits, device()?)?;
    if let Some(on) = on {
        session.share(StepSharing { group: communicator::group(on), parts: 2, bucket_bytes: 25 << 20, zero: ZeroStage::Off, compress: None })?;
    }
    let mut exchanged = 0;
    let now = |on: &Arc<dyn communicator::Communicator>| on.state().next();
    for step in 0..3 {
        let batches: Vec<LabelledRows> = (0..k).map(|b| rows(step * 10 + b, 8)).collect();
        let own = |(x, y): &LabelledRows| {
            let of = on.map_or(0..8, |on| rank_parts(8, on.rank(), on.size()));
            let start = if planted("a batch of another rank") { 0 } else { of.start };
            (x.narrow(0, start, of.len()), y.narrow(0, start, of.len()))
        };
        let own: Vec<LabelledRows> = batches.iter().map(own).collect();
        let before = on.map_or(0, now);
        for group in own.chunks(if by_batch { 1 } else { k }) {
            session.assign(vec![0; group.len()], group.len());
            session.step(group, Look::default())?;
        }
        session.loss()?;
        exchanged = on.map_or(0, now) - before;
    }
    let weights = session.model.parameters().into_iter().map(|p| p.detached().to_vec::<f32>()).collect::<Result<Vec<_>, _>>()?;
    Ok((weights.concat(), exchanged))
}
fn accumulated() -> Checked {
    let (mut exchanges, mut most) = (Vec::new(), 0f64);
    let device = device()?;
    for k in 1..=4 {
        let (alone, _) = device.scoped(|| learned(None, k)).map_err(|e| e.to_string())?;
        let groups = local_threads(2).map_err(|e| e.to_string())?;
        let of_ranks: Vec<_> = std::thread::scope(|scope| {
            let ranks: Vec<_> = groups.iter().map(|on| scope.spawn(move || device.scoped(|| learned(Some(on), k)))).collect();
            ranks.into_iter().map(|rank| rank.join().map_err(|_| "a rank panicked".to_string()).and_then(|done| done.map_err(|e| e.to_string()))).collect()
        });
        for done in of_ranks {
            let (weights, exchanged) = done?;
            most = most.max(farthest(&alone, &weights));
            exchanges.push(exchanged);
        }
    }
    let same = exchanges.iter().all(|n| *n == exchanges[0] && *n > 0);
    Ok(Seen::all(
        &[("exchanges", same), ("the weights of one process", most <= 1e-6)],
        format!("{} calls of each step, weights off by {most:.1e}", exchanges[0] - 1),
    ))
}
/// The digits, by a small network.
const RUN: &str = concat!(
    r#"
seed = SEED
iterations = 8
batch = 64
log_every = 2
"#,
    digits_data!("DATA"),
    r#"[model]
layers = [
    { kind = "Linear", in_features = 64, out_features = 32 },
NORM
    { kind = "Tanh" },
    { kind = "Linear", in_features = 32, out_features = 10 },
]
[optimizer]
kind = "SGD"
lr = 0.1
momentum = 0.9
"#
);
/// A place, the program, and descriptions there.
struct DigitRuns {
    program: RankedTraining,
    folder: tempfile::TempDir,
}
impl DigitRuns {
    fn new() -> Result<DigitRuns, Box<dyn Error>> {
        Ok(DigitRuns { program: RankedTraining::new(&CommonOptions::local())?, folder: tempfile::tempdir()? })
    }
    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn description(&self, seed: u64, norm: bool) -> Result<PathBuf, Box<dyn Error>> {
        let data = workspace::root().join("examples/digits/data");
        let path = self.at(&format!("{seed}-{norm}.toml"));
        let norm = if norm { "    { kind = \"BatchNorm1d\", num_features = 32 }," } else { "" };
        fs::write(&path, RUN.replace("SEED", &seed.to_string()).replace("DATA", &data.display().to_string()).replace("NORM", norm))?;
        Ok(path)
    }
    fn finish(&self, ranks: usize, description: &Path, name: &str, values: &[&str]) -> Result<(), Box<dyn Error>> {
        Ok(self.program.finish(ranks, description, &self.at(name), &set(values))?)
    }
    fn bytes(&self, name: &str) -> std::io::Result<Vec<u8>> {
        fs::read(self.at(name).join("weights.safetensors"))
    }
    fn apart(&self, a: &str, b: &str) -> Result<f64, Box<dyn Error>> {
        let read = |name: &str| adamant::formats::safetensors::load(&self.at(name).join("weights.safetensors"));
        let (a, b) = (read(a)?, read(b)?);
        let mut most = 0f64;
        for ((name, x), (other, y)) in a.iter().zip(&b) {
            let float = x.dtype()?.is_float();
            most = most.max(if name != other {
                f64::INFINITY
            } else if float {
                farthest(&x.to_vec::<f32>()?, &y.to_vec::<f32>()?)
            } else {
                0.0
            });
        }
        Ok(most)
    }
    /// Runs that end before they have begun: what they say.
    fn refused(&self, ranks: usize, description: &Path, values: &[&str]) -> Result<Vec<String>, Box<dyn Error>> {
        let ended = self.program.start(ranks, description, &self.at("refused"), &set(values))?.wait()?;
        Ok(ended.into_iter().map(|rank| if rank.code == Some(0) { String::new() } else { rank.stderr }).collect())
    }
}
fn shared_out() -> Checked {
    let runs = DigitRuns::new()?;
    let (plain, other) = (runs.description(1, false)?, runs.description(2, false)?);
    let of = |is_planted: bool| if is_planted { &other } else { &plain };
    runs.finish(1, &plain, "alone", &["distributed.shards=4"])?;
    runs.finish(4, of(planted("ranks of another seed")), "zero", &["distributed.zero=3"])?;
    let bits = runs.bytes("alone")? == runs.bytes("zero")?;
    runs.finish(1, &plain, "undivided", &[])?;
    let mesh = ["distributed.mesh={ pipeline = 2, tensor = 2 }", "distributed.tensor={ 0 = \"column_gathered\", 2 = \"row\" }", "distributed.micro_batches=4"];
    runs.finish(4, of(planted("a mesh of another seed")), "mesh", &mesh)?;
    let apart = runs.apart("undivided", "mesh")?;
    let longer = "iterations=120";
    let rate = if planted("PowerSGD at ten times the rate") { "optimizer.lr=3.0" } else { "optimizer.lr=0.1" };
    runs.finish(2, &plain, "plain", &[longer])?;
    runs.finish(2, &plain, "powersgd", &[longer, rate, "distributed.compress=powersgd"])?;
    let (want, got) = (test_loss(&runs.at("plain"))?, test_loss(&runs.at("powersgd"))?);
    let mut refused = true;
    for mode in ["parameter_server", "rpc"] {
        let mode = if planted("a mode that there is") { "auto" } else { mode };
        let told = runs.refused(2, &plain, &[&format!("distributed.mode={mode}"), "iterations=1"])?;
        let reason = if mode == "rpc" { "runs code that a peer sends" } else { "no two runs are alike" };
        refused &= told.iter().all(|text| text.contains(reason));
    }
    Ok(Seen::all(
        &[
            ("the bits of one process", bits),
            ("a mesh of 4", apart <= 1e-6),
            ("PowerSGD", (got - want).abs() <= 0.05 * want),
            ("refused with the reason", refused),
        ],
        format!("a mesh off by {apart:.1e} after 8 steps, test loss {want:.4}, with PowerSGD {got:.4}"),
    ))
}
fn test_loss(run: &Path) -> Result<f64, Box<dyn Error>> {
    let result: serde_json::Value = serde_json::from_str(&fs::read_to_string(run.join("result.json"))?)?;
    result["metrics"]["test"]["loss"].as_f64().ok_or_else(|| "a result without a loss".into())
}
fn modes() -> Checked {
    let runs = DigitRuns::new()?;
    let (plain, norm, other) = (runs.description(1, false)?, runs.description(1, true)?, runs.description(2, false)?);
    // Auto: alone, two, and two that share the model.
    runs.finish(1, &plain, "alone", &["distributed.shards=2"])?;
    let batch = if planted("auto with other rows") { "batch=62" } else { "batch=64" };
    runs.finish(2, &plain, "auto", &["distributed.mode=auto", batch])?;
    runs.finish(2, &plain, "distributed", &["distributed.mode=distributed"])?;
    let auto = runs.bytes("alone")? == runs.bytes("auto")? && runs.bytes("alone")? == runs.bytes("distributed")?;
    runs.finish(1, &plain, "undivided", &["distributed.mode=none"])?;
    runs.finish(2, &plain, "hybrid", &["distributed.mode=hybrid", "distributed.mesh={ tensor = 2 }", "distributed.tensor=auto"])?;
    let hybrid = runs.apart("undivided", "hybrid")?;
    let allowed = planted("a mode that is allowed");
    let mut refused = true;
    for (ranks, mode, told) in [
        (2, "none", "2 ranks were started"),
        (1, "distributed", "one rank was started"),
        (2, "hybrid", "`mesh`"),
        (2, "dataparallel", "DataParallel"),
        (2, "ring", "there are"),
    ] {
        let mode = if allowed { "auto" } else { mode };
        refused &= runs.refused(ranks, &plain, &[&format!("distributed.mode={mode}"), "iterations=1"])?.iter().all(|text| text.contains(told));
    }
    let sync = if planted("norms that see one rank's rows") { "distributed.sync_bn=false" } else { "distributed.sync_bn=true" };
    // The last batch of an epoch has a row for each rank.
    runs.finish(1, &norm, "one batch", &[])?;
    runs.finish(4, &norm, "four", &[sync])?;
    let norms = runs.apart("one batch", "four")?;
    let again = started_again(&runs, &other)?;
    Ok(Seen::all(
        &[
            ("auto", auto && hybrid <= 1e-6),
            ("modes are refused where they do not fit", refused),
            ("batch norms of all rows", norms <= 1e-6),
            ("started again", again),
        ],
        format!("two that share the model off by {hybrid:.1e}, batch norms of 4 ranks by {norms:.1e}"),
    ))
}
/// A launcher, its lines, and when they came.
struct WatchedLaunch {
    child: Child,
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
}
impl WatchedLaunch {
    fn start(runs: &DigitRuns, options: &[&str], description: &Path, name: &str, values: &[&str]) -> Result<WatchedLaunch, Box<dyn Error>> {
        let mut command = Command::new(runs.program.program());
        command.arg("launch").args(options).args(["--", "adamant", "train"]).arg(description).arg("--run").arg(runs.at(name));
        command.args(["--quiet", "--no-control", "--resume", "auto", "--threads", "1"]).args(set(values));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let lines = Arc::<Mutex<Vec<(Instant, String)>>>::default();
        let (to, from) = (lines.clone(), child.stderr.take());
        std::thread::spawn(move || {
            for line in from.into_iter().flat_map(|from| BufReader::new(from).lines().map_while(Result::ok)) {
                to.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), line));
            }
        });
        Ok(WatchedLaunch { child, lines })
    }
    /// A rank of it that trains, and does not write the run's lines.
    fn rank(&self, run: &Path) -> Option<i32> {
        let (own, metrics) = (self.child.id(), run.join("metrics.jsonl"));
        let is_rank = |id: &i32| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
            let trains = fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| line.split(|byte| *byte == 0).nth(1) == Some(b"train"));
            let leads = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == metrics));
            parent == Some(own) && trains && !leads
        };
        let all = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        all.into_iter().find(is_rank)
    }
    fn wait(&mut self, most: Duration) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < most {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }
}
impl Drop for WatchedLaunch {
    fn drop(&mut self) {
        // Its ranks go with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
/// So long a run has to have begun, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Kills a rank of a job that has learned some steps: when.
fn kill_one(job: &WatchedLaunch, run: &Path) -> Result<Option<Instant>, Box<dyn Error>> {
    let begun = Instant::now();
    while fs::metadata(run.join("metrics.jsonl")).map_or(0, |meta| meta.len()) < 2000 {
        if begun.elapsed() > PATIENCE {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let Some(rank) = job.rank(run) else { return Ok(None) };
    kill(Pid::from_raw(rank), Signal::SIGKILL)?;
    Ok(Some(Instant::now()))
}
/// Many short steps.
const LONGER: [&str; 3] = ["iterations=6000", "log_every=20", "checkpoint.every=500"];
fn started_again(runs: &DigitRuns, description: &Path) -> Result<bool, Box<dyn Error>> {
    runs.finish(1, description, "undisturbed", &[&LONGER[..], &["distributed.shards=2"]].concat())?;
    let restarts = if planted("no start more") { "0" } else { "3" };
    let mut job = WatchedLaunch::start(runs, &["-n", "2", "--max-restarts", restarts], description, "again", &LONGER)?;
    let killed = kill_one(&job, &runs.at("again"))?.is_some();
    let ended = job.wait(PATIENCE);
    Ok(killed && ended == Some(0) && runs.bytes("undisturbed")? == runs.bytes("again")?)
}
fn survived() -> Checked {
    let runs = DigitRuns::new()?;
    let (plain, other) = (runs.description(1, false)?, runs.description(2, false)?);
    let values = [&LONGER[..], &["distributed.shards=3"]].concat();
    runs.finish(1, if planted("a run of another seed") { &other } else { &plain }, "undisturbed", &values)?;
    let options = ["-n", "3", "--elastic", "2:3", "--max-restarts", "0", "--timeout", "20s"];
    let mut job = WatchedLaunch::start(&runs, &options, &plain, "elastic", &values)?;
    let killed = if planted("a rank that is not killed") { None } else { kill_one(&job, &runs.at("elastic"))? };
    let ended = job.wait(PATIENCE);
    let told = job.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|(_, line)| line.contains("ranks go on (epoch")).map(|(at, _)| *at);
    let missed = killed.zip(told).map(|(killed, told)| told.saturating_duration_since(killed));
    let bits = ended == Some(0) && runs.bytes("undisturbed")? == runs.bytes("elastic")?;
    Ok(Seen::all(
        &[("missed within 3 heartbeats", missed.is_some_and(|took| took <= Duration::from_millis(1500))), ("the bits of the undisturbed run", bits)],
        format!("the others went on after {} ms", missed.map_or(0, |took| took.as_millis())),
    ))
}
