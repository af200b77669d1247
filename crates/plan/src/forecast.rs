//! What a step of a strategy takes: time, by simulation; bytes that leave a rank; memory that a rank has at most.
use crate::{
    cluster::PlannedCluster,
    load::RunLoad,
    memory::{MemoryForecast, memory},
    program::programs,
    simulate::{StageAct, StageProgram, StageTimes, simulate},
    strategy::{Infeasible, MeshStrategy},
};

/// What a step takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepForecast {
    /// seconds of a step
    pub seconds: f64,
    /// seconds of a device of its own that a rank needs, at most
    pub work: f64,
    /// of a step a rank computes, on average
    pub computing: f64,
    /// of a step a rank does nothing but wait for what travels, or send
    pub exposed: f64,
    /// the share of a step in which stages wait for each other
    pub bubble: f64,
    /// bytes that leave the rank that sends most
    pub bytes: f64,
    /// memory of the rank that has most
    pub memory: MemoryForecast,
}
/// A step of so many rows, of all ranks together.
///
/// # Errors
/// Ranks cannot share it so, with the reason; too little memory is told by [`fits`].
pub fn forecast(load: &RunLoad, cluster: &PlannedCluster, strategy: &MeshStrategy, rows: usize) -> Result<StepForecast, Infeasible> {
    strategy.check(load, rows)?;
    let ranks = strategy.mesh.ranks();
    let of_host = cluster.ranks_of_host(ranks);
    let programs = programs(load, cluster, strategy, rows)?;
    let times = simulate(&programs, of_host, cluster).map_err(|_| Infeasible::Together("stages would wait for each other for ever"))?;
    let seconds = times.iter().map(|t| t.end).fold(0.0, f64::max);
    let mean = |of: &dyn Fn(&StageTimes) -> f64| times.iter().map(of).sum::<f64>() / times.len().max(1) as f64;
    let (computing, exposed) = (mean(&|t| t.computing), mean(&|t| t.exposed));
    // What a stage that is done waits for the last one counts too.
    let idle = mean(&|t| t.idle + seconds - t.end);
    let sent = |p: &StageProgram| {
        let sends = p.acts.iter().map(|act| if let StageAct::Send { cost, .. } = act { cost.bytes } else { 0.0 });
        p.exchanges.iter().map(|e| e.bytes).sum::<f64>() + sends.sum::<f64>()
    };
    let worked = |p: &StageProgram| {
        let acts = p.acts.iter().map(|act| match act {
            StageAct::Compute(seconds) => *seconds,
            StageAct::Send { cost, .. } => cost.carried,
            _ => 0.0,
        });
        p.exchanges.iter().map(|e| e.carried).sum::<f64>() + acts.sum::<f64>()
    };
    let work = programs.iter().map(worked).fold(0.0, f64::max);
    let bytes = programs.iter().map(sent).fold(0.0, f64::max);
    let bubble = if seconds > 0.0 && strategy.mesh.pipeline > 1 { idle / seconds } else { 0.0 };
    Ok(StepForecast { seconds, work, computing, exposed, bubble, bytes, memory: memory(load, strategy, rows) })
}
/// Has a rank memory for it?
///
/// # Errors
/// It has not: what it needs, and what it may have.
pub fn fits(step: &StepForecast, cluster: &PlannedCluster, ranks: usize) -> Result<(), Infeasible> {
    let (needed, available) = (step.memory.all(), cluster.memory_of_rank(ranks));
    if needed > available { Err(Infeasible::Memory { needed, available }) } else { Ok(()) }
}
