//! How many more records two ranks of one thread learn from than one: char-GPT, as many rows on each rank, in turns; and what the model of
//! communication says of more ranks.
//!
//! Each rank has a core of its own, the one alone too. What two processes that share nothing learn from at once is measured beside: more a machine
//! does not give.
use super::{
    CommonOptions,
    job::{RankedTraining, set},
    overlap::launch,
    timeline::median,
};
use crate::{
    torture::{TortureClaim, claim},
    workspace,
};
use adamant_core::{
    DType, Shape, TensorType,
    communicator::{CollectiveCall, Communicator, ReductionTree},
    op::{CollectiveKind, RankUse, ReduceOp},
};
use adamant_distributed::local::{LinkSpeed, local_threads_over};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Options of `scale`.
#[derive(clap::Args)]
pub struct ScaleOptions {
    #[command(flatten)]
    pub(super) common: CommonOptions,
    /// Rows of a step on each rank
    #[arg(long, default_value_t = 24)]
    rows: usize,
    /// Steps of a run
    #[arg(long, default_value_t = 60)]
    steps: usize,
    /// How often each is run, in turns
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}
/// The example, without its test part.
const GPT: &str = r#"
seed = 1
log_every = 10
checkpoint = { every = 1000000 }
clip = { kind = "norm", max_norm = 1.0 }
[data]
kind = "text"
path = "TEXT"
context = 64
test = 0.01
[model]
init = { kind = "normal", std = 0.02 }
layers = [
    { name = "wte", kind = "Embedding", num_embeddings = "$vocabulary", embedding_dim = 128 },
    { name = "wpe", kind = "PositionEmbedding", max_length = 64, features = 128 },
    { name = "blocks", repeat = 4, kind = "TransformerEncoderLayer", d_model = 128, nhead = 4, dim_feedforward = 512, activation = "gelu_tanh", norm_first = true, is_causal = true, dropout = 0.0 },
    { name = "lnf", kind = "LayerNorm", normalized_shape = 128 },
    { name = "head", kind = "Linear", tied = "wte" },
]
[optimizer]
kind = "AdamW"
lr = 1e-3
"#;
/// Bytes of its gradients, about: what a step exchanges.
const GRADIENTS: usize = 4 * 810_000;

struct ScaleRuns<'o> {
    options: &'o ScaleOptions,
    program: RankedTraining,
    description: PathBuf,
}
impl ScaleRuns<'_> {
    /// Records a second, of so many ranks: on cores of their own, or all on one.
    fn run(&self, name: &str, ranks: usize, core: Option<usize>) -> Result<f64, String> {
        let ScaleOptions { rows, steps, .. } = self.options;
        let run = self.program.place(name);
        let values = set(&[format!("batch={}", rows * ranks), format!("iterations={steps}"), format!("distributed.shards={ranks}")]);
        on_core(core, || launch(&self.program, ranks, &self.description, &run, &values, (None, None)))?;
        let rate = rate(&run, rows * ranks)?;
        fs::remove_dir_all(&run).map_err(|e| format!("{}: {e}", run.display()))?;
        Ok(rate)
    }
}
/// What is started meanwhile runs on one of the cores that this process has, by its number among them.
fn on_core<T>(core: Option<usize>, start: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let Some(core) = core else { return start() };
    let told = |e: rustix::io::Errno| e.to_string();
    let (before, mut one) = (sched_getaffinity(None).map_err(told)?, CpuSet::new());
    let found = (0..CpuSet::MAX_CPU).filter(|k| before.is_set(*k)).nth(core).ok_or_else(|| format!("there is no core {core} here"))?;
    one.set(found);
    sched_setaffinity(None, &one).map_err(told)?;
    let done = start();
    sched_setaffinity(None, &before).map_err(told)?;
    done
}
/// Records a second between the first and the last line of a run's times.
fn rate(run: &Path, batch: usize) -> Result<f64, String> {
    let path = run.join("timing.jsonl");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).filter(|line| line["kind"] == "step");
    let times: Vec<(f64, f64)> = lines.filter_map(|line| Some((line["step"].as_f64()?, line["seconds"].as_f64()?))).collect();
    match (times.first(), times.last()) {
        (Some(first), Some(last)) if last.0 > first.0 => Ok((last.0 - first.0) * batch as f64 / (last.1 - first.1)),
        _ => Err(format!("{}: {} lines of steps", path.display(), times.len())),
    }
}
impl<'o> ScaleRuns<'o> {
    fn new(options: &'o ScaleOptions) -> Result<ScaleRuns<'o>, String> {
        let text = workspace::root().join("../shared/data/tinyshakespeare/input.txt");
        let text = if text.is_file() { text } else { workspace::root().join("docs/architecture.md") };
        let program = RankedTraining::new(&options.common)?;
        let path = program.place("char-gpt.toml");
        fs::write(&path, GPT.replace("TEXT", &text.display().to_string())).map_err(|e| e.to_string())?;
        Ok(ScaleRuns { options, program, description: path })
    }
}
/// Records a second of one rank and of two, medians of three runs in turns; `crowded`: on one core.
///
/// # Errors
/// Runs that fail.
pub fn records_of_ranks(common: &CommonOptions, crowded: bool) -> Result<(f64, f64), String> {
    let common = CommonOptions { program: common.program.clone(), engine: common.engine.clone(), json: false };
    let options = ScaleOptions { common, rows: 24, steps: 60, rounds: 3 };
    let runs = ScaleRuns::new(&options)?;
    let turns = (0..options.rounds).map(|_| Ok((runs.run("one", 1, Some(0))?, runs.run("two", 2, crowded.then_some(0))?))).collect::<Result<Vec<_>, String>>();
    let (one, two): (Vec<f64>, Vec<f64>) = turns?.into_iter().unzip();
    Ok((median(one), median(two)))
}
pub fn claims(options: &ScaleOptions) -> Vec<TortureClaim> {
    let runs = match ScaleRuns::new(options) {
        Ok(runs) => runs,
        Err(e) => return vec![claim("the program and its description", |_| Err(e))],
    };
    let mut alone = f64::NAN;
    let scales = claim(&format!("char-GPT, {} rows a rank: 2 ranks of one thread learn from at least 1.9 times the records of one", options.rows), |claim| {
        let (mut one, mut two, mut apart) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            one.push(runs.run("one", 1, Some(0))?);
            two.push(runs.run("two", 2, None)?);
            apart.push(side_by_side(&runs)?);
        }
        let ratios: Vec<f64> = one.iter().zip(&two).map(|(one, two)| two / one).collect();
        alone = median(one.iter().copied());
        let (ratio, limit) = (median(ratios.iter().copied()), median(one.iter().zip(&apart).map(|(one, apart)| apart / one)));
        claim.see(serde_json::json!({
            "records/s of one": one, "of two": two, "ratios": ratios, "median": ratio, "two runs at once that share nothing": apart, "their median": limit,
        }));
        claim.count(if ratio >= 1.9 { Ok(()) } else { Err(format!("{ratio:.3} times; two that share nothing {limit:.3} times")) });
        Ok(())
    });
    vec![scales, model(options, alone)]
}
/// Records a second of two runs at once that share nothing, together.
fn side_by_side(runs: &ScaleRuns<'_>) -> Result<f64, String> {
    std::thread::scope(|scope| {
        let started = [("left", 0), ("right", 1)].map(|(name, core)| scope.spawn(move || runs.run(name, 1, Some(core))));
        started.into_iter().map(|run| run.join().unwrap_or_else(|_| Err("a run has panicked".into()))).sum()
    })
}
/// Seconds of an all-reduce of two ranks of this host.
fn reduce_seconds(bytes: usize) -> Result<f64, String> {
    let ranks = local_threads_over(None, 2, Duration::from_secs(60)).map_err(|kind| kind.to_string())?;
    let tree = ReductionTree::of_ranks(ReduceOp::Sum, DType::F32, 2);
    let one = |on: &dyn Communicator| -> Result<f64, String> {
        let made = TensorType { shape: Shape::new(&[bytes / 4]).map_err(|kind| kind.to_string())?, dtype: DType::F32 };
        let kind = CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike };
        let (own, mut sum) = (vec![0u8; bytes], vec![0u8; bytes]);
        let times = (0..50).map(|_| {
            let begun = Instant::now();
            on.all_reduce(&CollectiveCall::next(on, kind, made, None), &tree, &own, &mut sum).map_err(|kind| kind.to_string())?;
            Ok(begun.elapsed().as_secs_f64())
        });
        Ok(median(times.collect::<Result<Vec<_>, String>>()?))
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = ranks.iter().map(|on| scope.spawn(move || one(&**on))).collect();
        started.into_iter().map(|rank| rank.join().unwrap_or_else(|_| Err("a rank has panicked".into()))).try_fold(0.0f64, |most, time| Ok(most.max(time?)))
    })
}
/// What the model says: a step is what one rank computes, and an all-reduce of its gradients, 2 (n - 1) messages and 2 (n - 1)/n of the bytes.
/// Once as if all of it stood still, once as if all of it were hidden that two thirds of the step, the walk back, can hide.
fn model(options: &ScaleOptions, records: f64) -> TortureClaim {
    claim("what alpha and beta say of more ranks, as many rows on each: the share of the records of n ranks that is left", |claim| {
        let (short, long) = (reduce_seconds(4096)?, reduce_seconds(GRADIENTS)?);
        // Of two ranks a short one is a message, a long one two and its bytes.
        let here = LinkSpeed { alpha: Duration::from_secs_f64(short), beta: GRADIENTS as f64 / (long - 2.0 * short).max(1e-9) };
        let links = [("this host".to_string(), Ok(here)), named("alpha=50us,beta=10Gbit/s"), named("alpha=100us,beta=1Gbit/s")];
        let step = options.rows as f64 / records;
        let mut seen = BTreeMap::new();
        for (name, link) in links {
            let link = link?;
            let left = |n: usize| {
                let travels = link.time(2 * (n - 1), 2 * GRADIENTS / n * (n - 1)).as_secs_f64();
                let hidden = travels.min(step * 2.0 / 3.0);
                [travels, travels - hidden].map(|exposed| (step / (step + exposed) * 1000.0).round() / 1000.0)
            };
            let table: BTreeMap<String, [f64; 2]> = [2, 4, 8, 16, 32, 64, 128].map(|n| (format!("{n:>3} ranks"), left(n))).into();
            seen.insert(format!("{name}: {link}"), table);
        }
        claim.see(serde_json::json!({ "seconds a step of one": step, "[all of it stands still, hidden by the walk back]": seen }));
        claim.count(if step.is_finite() { Ok(()) } else { Err("one rank was not measured".into()) });
        Ok(())
    })
}
fn named(text: &str) -> (String, Result<LinkSpeed, String>) {
    (text.to_string(), text.parse::<LinkSpeed>().map_err(|e| e.to_string()))
}
