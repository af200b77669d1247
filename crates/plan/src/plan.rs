//! All ways to share a run among so many ranks, beside each other: as a table, as JSON, and the best as a table of a description.
use crate::{
    cluster::PlannedCluster,
    forecast::{StepForecast, fits, forecast},
    load::RunLoad,
    quantity::QuantityUnit,
    strategy::{Infeasible, MeshStrategy},
};
use adamant_parallel::{MeshShape, tensor::ParallelStyle};
use serde_json::{Value, json};
use std::fmt::Write;

/// How the work grows with the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanScaling {
    /// not at all: the rows of a step are shared out
    Strong,
    /// with them: there are as many rows for each rank as the description has in a step
    Weak,
}
/// A way to share the run.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedMesh {
    /// how
    pub strategy: MeshStrategy,
    /// a step of the description's rows
    pub strong: Result<StepForecast, Infeasible>,
    /// a step of as many rows for each rank
    pub weak: Result<StepForecast, Infeasible>,
    /// how much of the ranks' time is worth as much as that of one alone, which is 1: with as many rows, and with as many for each rank
    pub efficiency: [Option<f64>; 2],
}
/// All of them.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// by the number of ranks, ascending; of each the best first, and what cannot be last
    pub meshes: Vec<(usize, Vec<PlannedMesh>)>,
    /// what steps are compared by
    pub scaling: PlanScaling,
    /// rows of a step
    pub rows: usize,
    load: RunLoad,
    cluster: PlannedCluster,
}
/// Which numbers of ranks a text means: `4`, `2,4,8`, or `1..1024`, the powers of two between two numbers and these numbers themselves.
///
/// ```
/// assert_eq!(adamant_plan::rank_counts("3..20,5").unwrap(), [3, 4, 5, 8, 16, 20]);
/// ```
///
/// # Errors
/// What is wrong, in words.
pub fn rank_counts(text: &str) -> Result<Vec<usize>, String> {
    let number = |text: &str| match text.trim().parse::<usize>() {
        Ok(n) if (1..=MOST_RANKS).contains(&n) => Ok(n),
        _ => Err(format!("`{}` is no number of ranks, from 1 to {MOST_RANKS}; write 4, 2,4,8 or 1..1024", text.trim())),
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => all.push(number(part)?),
            Some((from, to)) => {
                let (from, to) = (number(from)?, number(to.strip_prefix('=').unwrap_or(to))?);
                if from > to {
                    return Err(format!("{from}..{to} has no ranks in it"));
                }
                all.extend([from, to]);
                all.extend((0..usize::BITS).map(|k| 1usize << k).filter(|n| (from..=to).contains(n)));
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}
const MOST_RANKS: usize = 1 << 20;

/// Plans a run for each of these numbers of ranks.
pub fn plan(load: &RunLoad, cluster: &PlannedCluster, ranks: &[usize], scaling: PlanScaling) -> RunPlan {
    let alone = forecast(load, cluster, &MeshStrategy::data(1, 0), load.rows).ok().map(|step| step.seconds);
    let of = |ranks: usize| {
        let mut meshes: Vec<PlannedMesh> = MeshStrategy::all(ranks, load)
            .into_iter()
            .map(|strategy| {
                let step = |rows| forecast(load, cluster, &strategy, rows).and_then(|step| fits(&step, cluster, ranks).map(|()| step));
                let (strong, weak) = (step(load.rows), step(load.rows.saturating_mul(ranks)));
                let seconds = |step: &Result<StepForecast, Infeasible>| step.as_ref().ok().map(|s| s.seconds).filter(|s| *s > 0.0);
                let strongly = alone.zip(seconds(&strong)).map(|(one, many)| one / (many * ranks as f64));
                let weakly = alone.zip(seconds(&weak)).map(|(one, many)| one / many);
                PlannedMesh { strategy, strong, weak, efficiency: [strongly, weakly] }
            })
            .collect();
        // What shares less out is better where it takes as long.
        let key = |m: &PlannedMesh| m.step(scaling).map_or(f64::INFINITY, |s| s.seconds);
        meshes.sort_by(|a, b| key(a).total_cmp(&key(b)));
        (ranks, meshes)
    };
    RunPlan { meshes: ranks.iter().map(|n| of(*n)).collect(), scaling, rows: load.rows, load: load.clone(), cluster: cluster.clone() }
}
impl PlannedMesh {
    /// Its step, if it can be.
    pub fn step(&self, scaling: PlanScaling) -> Option<&StepForecast> {
        self.outcome(scaling).as_ref().ok()
    }
    fn outcome(&self, scaling: PlanScaling) -> &Result<StepForecast, Infeasible> {
        if scaling == PlanScaling::Strong { &self.strong } else { &self.weak }
    }
}
/// How many ways are shown of each number of ranks.
const SHOWN: usize = 4;

impl RunPlan {
    /// The best that can be: rows a second count, and the fewest ranks where it takes as long.
    pub fn best(&self) -> Option<&PlannedMesh> {
        let rows = |ranks: usize| if self.scaling == PlanScaling::Weak { ranks as f64 } else { 1.0 };
        let firsts = self.meshes.iter().filter_map(|(ranks, all)| {
            let first = all.first()?;
            Some((rows(*ranks) / first.step(self.scaling)?.seconds.max(1e-12), first))
        });
        firsts.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, mesh)| mesh)
    }
    /// The description's table for a way.
    pub fn table_of(&self, mesh: &PlannedMesh) -> String {
        let (mut text, s) = ("[distributed]\n".to_string(), mesh.strategy);
        let MeshShape { data, pipeline, tensor, .. } = s.mesh;
        let shards = self.load.shards.unwrap_or(data);
        let mut say = |line: String| writeln!(text, "{line}").unwrap_or_default();
        let mode = match (s.is_of_rows(), data) {
            (false, _) => "hybrid",
            (true, 1) => "auto",
            (true, _) => "distributed",
        };
        say(format!("mode = \"{mode}\""));
        if data > 1 {
            say(format!("shards = {shards}"));
            say(format!("bucket_mb = {}", (self.load.bucket_bytes / 1048576.0).round() as usize));
        }
        if s.is_of_rows() && data > 1 {
            say(format!("zero = {}", s.zero));
        }
        match self.load.compress {
            None => {}
            Some(adamant_train::GradientCompression::Bf16) => say("compress = \"bf16\"".into()),
            Some(adamant_train::GradientCompression::PowerSgd { rank }) => say(format!("compress = \"powersgd\"\ncompress_rank = {rank}")),
            Some(adamant_train::GradientCompression::TopK { share }) => say(format!("compress = \"topk\"\ncompress_share = {share:?}")),
        }
        if !s.is_of_rows() {
            say(format!("mesh = {{ data = {data}, pipeline = {pipeline}, tensor = {tensor} }}"));
        }
        if pipeline > 1 {
            say(format!("schedule = \"{}\"\nmicro_batches = {}", s.schedule, s.micro_batches));
        }
        if tensor > 1 {
            say("\n[distributed.tensor]".into());
            for (pattern, style) in self.load.styles() {
                let style = match style {
                    ParallelStyle::Row => "row",
                    ParallelStyle::Heads => "heads",
                    ParallelStyle::Vocabulary => "vocabulary",
                    // A head that is tied to a table: the loss sees all classes.
                    _ if self.load.is_tied(&pattern) => "column_gathered",
                    _ => "column",
                };
                say(format!("\"{pattern}\" = \"{style}\""));
            }
        }
        text
    }
    /// What a person reads: the best ways for each number of ranks, and the best of all as one writes it down.
    pub fn text(&self, how: &str) -> String {
        let mut text = format!("{how}\n");
        for line in self.cluster.lines() {
            writeln!(text, "  {line}").unwrap_or_default();
        }
        let word = if self.scaling == PlanScaling::Weak { " for each rank" } else { "" };
        writeln!(text, "{} parameters, {} rows in a step{word}", digits(self.load.parameters()), self.rows).unwrap_or_default();
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header(["ranks", "mesh", "step", "compute", "exposed", "bubble", "sent", "memory", "strong", "weak"]);
        for (ranks, meshes) in &self.meshes {
            let can: Vec<&PlannedMesh> = meshes.iter().filter(|m| m.step(self.scaling).is_some()).take(SHOWN).collect();
            for m in &can {
                let Some(step) = m.step(self.scaling) else { continue };
                let (time, bytes) = (QuantityUnit::Seconds, QuantityUnit::Bytes);
                let share = |part: Option<f64>| part.map_or("-".into(), |p| format!("{:.0} %", 100.0 * p));
                table.add_row([
                    ranks.to_string(),
                    m.strategy.to_string(),
                    time.show(step.seconds),
                    time.show(step.computing),
                    time.show(step.exposed),
                    share(Some(step.bubble)),
                    bytes.show(step.bytes),
                    bytes.show(step.memory.all()),
                    share(m.efficiency[0]),
                    share(m.efficiency[1]),
                ]);
            }
            if let (true, Some(first)) = (can.is_empty(), meshes.first()) {
                let why = first.outcome(self.scaling).as_ref().err().map_or(String::new(), ToString::to_string);
                table.add_row([ranks.to_string(), format!("{}: {why}", first.strategy)]);
            }
        }
        let lines: Vec<String> = table.to_string().lines().map(|line| line.trim_end().to_string()).collect();
        writeln!(text, "\n{}", lines.join("\n")).unwrap_or_default();
        for (reason, count) in self.reasons() {
            writeln!(text, "cannot be, {count} times: {reason}").unwrap_or_default();
        }
        match self.best() {
            None => writeln!(text, "\nnone of them can be").unwrap_or_default(),
            Some(best) => {
                writeln!(text, "\nbest: {} ranks, {}\n\n{}", best.strategy.mesh.ranks(), best.strategy, self.table_of(best)).unwrap_or_default();
            }
        }
        text
    }
    /// Why ways cannot be, without numbers, and how often.
    fn reasons(&self) -> Vec<(String, usize)> {
        let mut reasons: Vec<(String, usize)> = Vec::new();
        for why in self.meshes.iter().flat_map(|(_, all)| all).filter_map(|m| m.outcome(self.scaling).as_ref().err()) {
            let text = why.to_string();
            match reasons.iter_mut().find(|(known, _)| *known == text) {
                Some((_, n)) => *n += 1,
                None => reasons.push((text, 1)),
            }
        }
        reasons.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        reasons.truncate(SHOWN);
        reasons
    }
    /// The whole plan as one document.
    pub fn to_json(&self, how: &str) -> Value {
        let step = |outcome: &Result<StepForecast, Infeasible>| match outcome {
            Ok(s) => json!({
                "step_seconds": s.seconds, "compute_seconds": s.computing, "exposed_seconds": s.exposed, "bubble": s.bubble, "bytes_sent": s.bytes,
                "memory_bytes": s.memory.all(),
                "memory": { "parameters": s.memory.parameters, "gradients": s.memory.gradients, "slots": s.memory.slots,
                    "travelling": s.memory.travelling, "activations": s.memory.activations },
            }),
            Err(why) => json!({ "infeasible": why.to_string() }),
        };
        let mesh = |m: &PlannedMesh| {
            let s = m.strategy;
            json!({
                "ranks": s.mesh.ranks(), "data": s.mesh.data, "pipeline": s.mesh.pipeline, "tensor": s.mesh.tensor, "zero": s.zero,
                "schedule": (s.mesh.pipeline > 1).then(|| s.schedule.to_string()), "micro_batches": s.micro_batches,
                "strong": step(&m.strong), "weak": step(&m.weak), "strong_efficiency": m.efficiency[0], "weak_efficiency": m.efficiency[1],
            })
        };
        let best = self.best().map(|m| {
            let mut told = mesh(m);
            told["distributed"] = self.table_of(m).into();
            told
        });
        json!({
            "schema_version": 1, "cluster": { "from": how, "told": self.cluster.lines() }, "parameters": self.load.parameters(), "rows": self.rows,
            "scaling": if self.scaling == PlanScaling::Weak { "weak" } else { "strong" },
            "meshes": self.meshes.iter().flat_map(|(_, all)| all.iter().map(mesh)).collect::<Vec<_>>(), "best": best,
        })
    }
}
/// A count as a person reads it.
fn digits(count: f64) -> String {
    match count {
        n if n >= 1e9 => format!("{:.3} billion", n / 1e9),
        n if n >= 1e6 => format!("{:.2} million", n / 1e6),
        n => format!("{n:.0}"),
    }
}
