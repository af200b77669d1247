//! What `adamant plan` predicts beside what ranks take: of a step the time, and what a rank has in memory at most. Each round measures this machine
//! anew, as `plan --measure` does, and then runs every way to share the model, so that what else the machine does falls on both; the medians of the
//! rounds count.
pub mod programs;

use super::rank::{RankStarter, reports};
use crate::{
    torture::{TortureClaim, claim},
    workspace,
};
use adamant::{
    Device,
    cpu::{Context, CpuBackend},
    parallel::{MeshShape, pipeline::PipelineSchedule},
};
use adamant_plan::{MeasureOptions, MeshStrategy, PlannedCluster, RunLoad, StepForecast, forecast, measure};
use adamant_train::{Document, Failure};
use programs::{PlannedReport, PlannedTask};
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// Options of `plan`.
#[derive(clap::Args)]
pub struct PlanOptions {
    /// The program, instead of building it
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// How many ranks
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8])]
    ranks: Vec<usize>,
    /// How wide a layer is
    #[arg(long, default_value_t = 512)]
    width: usize,
    /// How many pairs of layers
    #[arg(long, default_value_t = 4)]
    pairs: usize,
    /// Rows of a step for each rank
    #[arg(long, default_value_t = 64)]
    rows: usize,
    /// Steps that are timed
    #[arg(long, default_value_t = 7)]
    steps: usize,
    /// How often all of it is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}
/// No rank is waited for longer than that.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Micro-batches of a pipeline's step.
const MICROS: usize = 4;

/// Pairs of layers, which pieces and stages can share.
fn description(options: &PlanOptions) -> String {
    let (width, wide) = (options.width, 4 * options.width);
    let pair = |k: usize| {
        format!(
            "    {{ name = \"in{k}\", kind = \"Linear\", in_features = {width}, out_features = {wide} }},\n    {{ name = \"relu{k}\", kind = \"ReLU\" }},\n    {{ name = \"out{k}\", kind = \"Linear\", in_features = {wide}, out_features = {width} }},\n"
        )
    };
    let pairs: String = (0..options.pairs).map(pair).collect();
    format!(
        "seed = 1\niterations = 1\nbatch = {}\n[data]\nkind = \"permutation\"\nclasses = 64\nrows = {}\nworkers = 0\n[model]\nlayers = [\n    {{ name = \"table\", kind = \"Embedding\", num_embeddings = 64, embedding_dim = {width} }},\n{pairs}    {{ name = \"head\", kind = \"Linear\", in_features = {width}, out_features = 64 }},\n]\n[optimizer]\nkind = \"AdamW\"\nlr = 0.001\n",
        options.rows,
        4 * options.rows
    )
}
/// The ways that are compared, of so many ranks.
fn strategies(ranks: usize) -> Vec<(&'static str, MeshStrategy)> {
    let mesh = |tensor, pipeline| MeshShape { data: ranks / tensor / pipeline, pipeline, tensor, expert: 1 };
    let of = |mesh, micro_batches| MeshStrategy { mesh, zero: 0, schedule: PipelineSchedule::OneForwardOneBackward, micro_batches };
    let mut all = vec![("data", MeshStrategy::data(ranks, 0)), ("zero = 3", MeshStrategy::data(ranks, 3))];
    if ranks.is_multiple_of(2) {
        all.extend([("tensor 2", of(mesh(2, 1), 1)), ("pipeline 2", of(mesh(1, 2), MICROS))]);
    }
    all
}
/// What was predicted of a way, and what it took.
struct ComparedWay {
    ranks: usize,
    name: &'static str,
    rounds: Vec<ComparedRound>,
}
type ComparedRound = (StepForecast, PlannedReport);
fn device() -> Result<Device, Failure> {
    Ok(Context::new(CpuBackend::builder().threads(1))?.device())
}
/// One round: this machine, then all ways.
fn round(options: &PlanOptions, text: &str, all: &mut [ComparedWay]) -> Result<PlannedCluster, String> {
    let document = Document::parse("plan", text).map_err(|e| e.to_string())?;
    let mut load = RunLoad::of(&document, Path::new(""), None, None).map_err(|e| e.to_string())?;
    let devices = std::thread::available_parallelism().map_or(1, usize::from);
    let rows = vec![options.rows, 2 * options.rows, (2 * options.rows / MICROS).max(1)];
    let settings = MeasureOptions { steps: options.steps, devices, rows, program: true };
    let measured = measure(&document, Path::new(""), &load, &settings, &device).map_err(|e| e.to_string())?;
    load.times = Some(measured.times);
    for compared in all {
        let strategies = strategies(compared.ranks);
        let (_, strategy) = strategies.iter().find(|(name, _)| *name == compared.name).ok_or("a way that there is not")?;
        let step = forecast(&load, &measured.cluster, strategy, options.rows * compared.ranks).map_err(|why| why.to_string())?;
        let place = tempfile::tempdir().map_err(|e| e.to_string())?;
        let task = PlannedTask::of(strategy, text, options.rows * compared.ranks, options.steps, &load);
        let job = RankStarter::Local.start("plan", &task, compared.ranks, place.path(), TIMEOUT)?;
        for (rank, ended) in job.wait()?.into_iter().enumerate() {
            if ended.code != Some(0) {
                return Err(format!("{}, rank {rank} of {}: {}", compared.name, compared.ranks, ended.stderr.trim()));
            }
        }
        let told: Vec<PlannedReport> = reports(place.path(), compared.ranks)?;
        // All ranks end a step together; the rank with the most memory is the one that was predicted.
        let seconds = told.iter().map(|r| r.seconds).fold(0.0, f64::max);
        let cpu = told.iter().map(|r| r.cpu).sum::<f64>() / told.len().max(1) as f64;
        let peak = told.iter().map(|r| r.peak).max().unwrap_or(0);
        compared.rounds.push((step, PlannedReport { seconds, cpu, peak }));
    }
    Ok(measured.cluster)
}
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
impl ComparedWay {
    fn judge(&self, of: &dyn Fn(&ComparedRound) -> (f64, f64), by: f64, claim: &mut TortureClaim, unit: &str) {
        let pairs: Vec<(f64, f64)> = self.rounds.iter().map(of).collect();
        let (predicted, measured) = (median(pairs.iter().map(|p| p.0).collect()), median(pairs.iter().map(|p| p.1).collect()));
        let ratio = median(pairs.iter().map(|p| p.0 / p.1).collect());
        // By the time of processors what other programs take besides does not count, but what they do to caches and memory.
        let of_processors = median(self.rounds.iter().map(|(step, ran)| step.work / ran.cpu).collect());
        claim.see(serde_json::json!({ "predicted": predicted, "measured": measured, "unit": unit, "predicted / measured": ratio,
            "of rounds": pairs.iter().map(|p| p.0 / p.1).collect::<Vec<_>>(), "processors' time": (unit == "s").then_some(of_processors) }));
        claim.count(if (ratio - 1.0).abs() <= by { Ok(()) } else { Err(format!("{predicted} {unit} are predicted, {measured} measured: {ratio:.3} of it")) });
    }
}
/// All of `adamant plan`, from its start to its end.
fn thousand(options: &PlanOptions, text: &str) -> TortureClaim {
    claim("1 to 1,024 ranks are planned within 10 s", |claim| {
        let program = options.program.as_ref().map_or_else(workspace::program, |path| std::path::absolute(path).map_err(|e| e.to_string()))?;
        let place = tempfile::tempdir().map_err(|e| e.to_string())?;
        std::fs::write(place.path().join("run.toml"), text).map_err(|e| e.to_string())?;
        let begun = Instant::now();
        let ran = Command::new(program).args(["plan", "run.toml", "--ranks", "1..1024", "--scaling", "weak", "--json"]).current_dir(place.path()).output();
        let (ran, seconds) = (ran.map_err(|e| e.to_string())?, begun.elapsed().as_secs_f64());
        let told: serde_json::Value = serde_json::from_slice(&ran.stdout).map_err(|e| format!("{e}: {}", String::from_utf8_lossy(&ran.stderr)))?;
        let ways = told["meshes"].as_array().map_or(0, Vec::len);
        claim.see(serde_json::json!({ "seconds": seconds, "ways": ways }));
        claim.count(if ways > 100 && seconds <= 10.0 { Ok(()) } else { Err(format!("{ways} ways in {seconds:.1} s")) });
        Ok(())
    })
}
pub fn claims(options: &PlanOptions) -> Vec<TortureClaim> {
    let text = description(options);
    let ways = options.ranks.iter().flat_map(|ranks| strategies(*ranks).into_iter().map(|(name, _)| ComparedWay { ranks: *ranks, name, rounds: Vec::new() }));
    let mut all: Vec<ComparedWay> = ways.collect();
    let mut failed = None;
    let mut machine = Vec::new();
    for _ in 0..options.rounds.max(1) {
        match round(options, &text, &mut all) {
            Ok(cluster) => machine.push(
                serde_json::json!({ "crowding": cluster.crowding, "switching": cluster.switching, "alpha": cluster.inside.alpha, "beta": cluster.inside.beta }),
            ),
            Err(e) => failed = Some(e),
        }
    }
    let mut claims = vec![claim("every way to share the model runs, in every round", |claim| {
        claim.see(serde_json::json!(machine));
        claim.count(failed.map_or(Ok(()), Err));
        Ok(())
    })];
    for compared in all.iter().filter(|compared| !compared.rounds.is_empty()) {
        let ComparedWay { ranks, name, .. } = compared;
        claims.push(claim(&format!("{ranks} ranks, {name}: the predicted step within 15 % of what it takes"), |claim| {
            compared.judge(&|(step, ran)| (step.seconds, ran.seconds), 0.15, claim, "s");
            Ok(())
        }));
    }
    for compared in all.iter().filter(|compared| !compared.rounds.is_empty()) {
        let ComparedWay { ranks, name, .. } = compared;
        claims.push(claim(&format!("{ranks} ranks, {name}: the predicted memory within 5 % of what a rank has at most"), |claim| {
            compared.judge(&|(step, ran)| (step.memory.all() / 1e6, ran.peak as f64 / 1e6), 0.05, claim, "MB");
            Ok(())
        }));
    }
    claims.push(thousand(options, &text));
    claims
}
