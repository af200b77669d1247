//! What a rank is to have in memory at most in a step. Ψ parameters of f32 with their gradients and the optimizer's numbers are, for a rank of n
//! that shares rows out (Rajbhandari et al. 2020, "ZeRO"), with two numbers a parameter as of AdamW:
//!
//! | `zero` | bytes |
//! |---|---|
//! | 0 | 16Ψ |
//! | 1 | 8Ψ + 8Ψ/n |
//! | 2 | 4Ψ + 12Ψ/n + 2 buckets |
//! | 3 | 16Ψ/n + 2 largest units + 2 buckets |
//!
//! Stages and pieces: 16Ψ of the rank's own, and the gradients that are added to others.
//!
//! Beside that: what the walk back reads, of each micro-batch that is in flight, and what a layer reads and makes while it works.
use crate::{
    load::RunLoad,
    program::{cut_blocks, unit_of},
    strategy::MeshStrategy,
};
use adamant_parallel::pipeline::PipelineSchedule;

/// Bytes of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryForecast {
    /// parameters, in 16 bits too where it is computed so
    pub parameters: f64,
    /// gradients
    pub gradients: f64,
    /// the optimizer's numbers
    pub slots: f64,
    /// buckets, and units that are gathered
    pub travelling: f64,
    /// what the walk back reads, and what a layer works on
    pub activations: f64,
}
impl MemoryForecast {
    /// All together.
    pub fn all(&self) -> f64 {
        self.parameters + self.gradients + self.slots + self.travelling + self.activations
    }
}
/// Elements of f32.
const ELEMENT: f64 = 4.0;

/// What the rank with the most has at most.
pub fn memory(load: &RunLoad, strategy: &MeshStrategy, rows: usize) -> MemoryForecast {
    if strategy.is_of_rows() {
        return of_rows(load, strategy, rows);
    }
    let (stages, chunks) = (strategy.mesh.pipeline, strategy.schedule.chunks());
    let stretches = cut_blocks(load, stages * if stages > 1 { chunks } else { 1 });
    let micro_rows = (rows as f64 / strategy.mesh.data as f64 / strategy.micro_batches as f64).ceil();
    let of_stage = |stage: usize| {
        let is_own = |block: usize| stretches.iter().position(|s| s.contains(&block)).is_some_and(|s| s % stages == stage);
        let own: Vec<_> = load.layers.iter().filter(|l| is_own(l.block)).collect();
        let share = |l: &&crate::load::LayerLoad| load.share(l, strategy.mesh.tensor);
        let parameters: f64 = own.iter().map(|l| l.parameters * share(l)).sum();
        let flights = in_flight(strategy, stage) as f64;
        let saved: f64 = own.iter().map(|l| l.saved * share(l)).sum();
        let largest = own.iter().map(|l| (l.ends[0] + l.ends[1]) * share(l)).fold(0.0, f64::max);
        let ends = load.ends[0] + if stage + 1 == stages { 2.0 * load.ends[1] } else { 0.0 };
        let activations = micro_rows * (flights * saved + largest + ends);
        let half = if load.half { 0.5 } else { 0.0 };
        // Gradients of a micro-batch beside the sum of those before it; then, where replicas add theirs, all of them one behind another, and their sums.
        let again = if strategy.micro_batches > 1 && stages > 1 { 1.0 } else { 0.0 };
        let replicas = if strategy.mesh.data > 1 { 2.0 } else { 0.0 };
        let travelling = ELEMENT * parameters * f64::max(again, replicas);
        MemoryForecast {
            parameters: ELEMENT * parameters * (1.0 + half),
            gradients: ELEMENT * parameters,
            slots: ELEMENT * load.slots as f64 * parameters,
            travelling,
            activations,
        }
    };
    (0..stages).map(of_stage).max_by(|a, b| a.all().total_cmp(&b.all())).unwrap_or_default()
}
/// Micro-batches of a stage that are forward and not yet back, chunks counted apart.
fn in_flight(strategy: &MeshStrategy, stage: usize) -> usize {
    let (p, m) = (strategy.mesh.pipeline, strategy.micro_batches);
    match strategy.schedule {
        _ if p == 1 => 1,
        PipelineSchedule::Gpipe => m,
        PipelineSchedule::OneForwardOneBackward => (p - stage).min(m),
        // By chunks, of which a stage has so many: the first ones, before it goes back.
        PipelineSchedule::Interleaved { chunks } => (2 * (p - stage - 1) + (chunks - 1) * p + 1).div_ceil(chunks).min(m),
    }
}
fn of_rows(load: &RunLoad, strategy: &MeshStrategy, rows: usize) -> MemoryForecast {
    let n = strategy.mesh.data as f64;
    let all = ELEMENT * load.parameters();
    let slots = load.slots as f64 * all;
    let mut units: Vec<f64> = Vec::new();
    let mut last = None;
    for l in load.layers.iter().filter(|l| l.parameters > 0.0) {
        let unit = unit_of(&l.path);
        if last == Some(unit) {
            units.iter_mut().last().into_iter().for_each(|u| *u += ELEMENT * l.parameters);
        } else {
            units.push(ELEMENT * l.parameters);
            last = Some(unit);
        }
    }
    let unit = units.iter().copied().fold(0.0, f64::max);
    // A bucket is full with the layer that fills it, and no fuller than all.
    let layer = load.layers.iter().map(|l| ELEMENT * l.parameters).fold(0.0, f64::max);
    let bucket = if layer > 0.0 { (load.bucket_bytes / layer).ceil().max(1.0) * layer } else { 0.0 }.min(all);
    let half = if load.half { 0.5 } else { 0.0 };
    let (parameters, gradients, slots, travelling) = match strategy.zero {
        _ if n <= 1.0 => (all, all, slots, 0.0),
        0 => (all, all, slots, 0.0),
        1 => (all, all, slots / n, 0.0),
        2 => (all, all / n, slots / n, 2.0 * bucket),
        _ => (all / n, all / n, slots / n, 2.0 * unit + 2.0 * unit.min(bucket)),
    };
    let shards = load.shards.unwrap_or(strategy.mesh.data).max(1);
    let part = (rows as f64 / shards as f64).ceil();
    let saved: f64 = load.layers.iter().map(|l| l.saved).sum();
    let largest = load.layers.iter().map(|l| l.ends[0] + l.ends[1]).fold(0.0, f64::max);
    let activations = part * (saved + largest + load.ends[0] + 2.0 * load.ends[1]);
    MemoryForecast { parameters: parameters * (1.0 + half), gradients, slots, travelling, activations }
}
