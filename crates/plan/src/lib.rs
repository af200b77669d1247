//! What a run that ranks share would cost, before it is started: for each way to share it the time of a step, what of that is waiting, bytes that
//! leave a rank, memory that a rank has, and how much faster so many ranks are.
//!
//! ```text
//! description -> RunLoad (load)  ┐
//! cluster file -> PlannedCluster ├-> StageProgram (program, exchange) -> simulate -> StepForecast (forecast, memory) -> RunPlan (plan)
//! ranks -> MeshStrategy          ┘
//! ```
//!
//! - Links cost α + bytes / β: R. Hockney, "The communication challenge for MPP" (1994).
//! - Collectives by their ways: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
//! - Pipelines and their bubbles: D. Narayanan et al., "Efficient large-scale language model training on GPU clusters" (2021).
//! - What `zero` leaves in memory: S. Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models" (2020).
//!
//! It stands above the trainer and `adamant-parallel`, which it asks for descriptions and schedules, and below programs alone.
//!
//! Architecture invariant: nothing is printed and no file is written; ranks of one stage are simulated once, so that the time a plan takes does
//! not grow with the number of ranks.
#![forbid(unsafe_code)]

mod cluster;
mod exchange;
mod forecast;
mod load;
mod measure;
mod memory;
mod plan;
mod program;
mod quantity;
mod simulate;
mod strategy;

pub use cluster::{ClusterLink, CollectivePaths, ComputeRates, PlannedCluster};
pub use exchange::{ExchangeCost, ExchangeGroup, ExchangeKind, send_cost};
pub use forecast::{StepForecast, fits, forecast};
pub use load::{LayerLoad, LayerPiece, MeasuredTimes, PassTimes, RunLoad};
pub use measure::{MeasureOptions, MeasuredMachine, TimedRun, fastest, measure, timed_rows};
pub use memory::{MemoryForecast, memory};
pub use plan::{PlanScaling, PlannedMesh, RunPlan, plan, rank_counts};
pub use program::programs;
pub use quantity::QuantityUnit;
pub use simulate::{BUFFERED, StageAct, StageProgram, StageTimes, simulate};
pub use strategy::{Infeasible, MeshStrategy};
