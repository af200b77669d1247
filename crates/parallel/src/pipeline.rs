//! Layers one behind another on several ranks: each has a stretch of them, a *stage*, and micro-batches of rows go through all.
//!
//! ```text
//! layers -> layer_costs -> cut_by_cost -> stretches        pipeline_actions(schedule, stages, micro-batches) -> a list for each stage
//!                                         \-> Pipeline::step: forward, back, send, receive, as the list says <-/
//! ```
//!
//! A schedule is data ([`pipeline_actions`]), which [`dry_run`] carries out in thought and [`Pipeline::step`] in earnest. The gradients of
//! micro-batches are added in the order of their numbers, whenever they are there: by every schedule a step has the bits of one process
//! that takes the same micro-batches one by one and adds their gradients up.
mod cost;
mod run;
mod schedule;
mod shared;
mod trace;
mod transfer;

pub use cost::{cut_by_cost, layer_costs};
pub use run::{Pipeline, PipelineStep};
pub use schedule::{PipelineAction, PipelineSchedule, pipeline_actions};
pub use trace::{ActionSpan, PipelineCosts, PipelineTrace, dry_run};
