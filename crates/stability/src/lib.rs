//! Numerical stability of training: what is not a number any more is found on the device, handled by a policy before it reaches a weight
//! ([`NanHandler`]), and traced to the op that made it ([`trace()`]).
//!
//! Data flow: a step runs inside of [`NanHandler::attempt`]. Loss and gradients are looked at before clipping, and changed where the policy says
//! so; what the step has written (weights, slots, running statistics) is looked at before it commits. Whether it commits follows from
//! tensors of no axes, so that the host waits for nothing; what happened is counted in cells, which somebody reads now and
//! then ([`NanHandler::look`]). A step that was suppressed has moved no cell, the generator's neither: run again, op by op, it comes to the same bits,
//! and [`trace()`] watches it.
//!
//! Under [`WatchMode::Full`] what each op of the step gives is looked at too, and what the walk back makes of it.
//!
//! [`visit_ops`] shows the ops of a step that runs, and may change what they give.
//!
//! [`LayerLook`] tells what layers and parameters are like in a step, in a few numbers of each.
//!
//! [`NumericalStabilityManager`] puts clipping, the policy, debugging and metrics around a training loop of one's own.
//!
//! Architecture invariant: no training loop is known here; a step is a closure. Optimizers are known to the manager alone; of
//! their crate the rest knows what the norm of tensors is.
#![forbid(unsafe_code)]

mod cells;
mod every;
mod handler;
mod kinds;
mod layers;
mod manager;
mod norms;
mod numbers;
mod options;
mod trace;
mod visit;

pub use cells::NanStats;
pub use handler::NanHandler;
pub use kinds::stability_score;
pub use layers::{BatchNumbers, LayerLook, LayerNames, LayerNumbers, LookedNumbers, ParameterNumbers};
pub use manager::{
    ClippingStats, NanStepStats, NumericalStabilityManager, StepMetrics, StepStability, TrainingWrapper,
    debug::{
        Anomaly, AnomalyMode, DebugInfo, DebugLevel, DebugOptions, DebugSummary, GradCheck, GradientStats, KernelTime, MemoryInfo, PhaseSeconds, SessionEnd,
    },
    history::{Histories, SavedHistories},
};
pub use numbers::NumberStats;
pub use options::{HandlingType, NanOptions, WatchMode};
pub use trace::{BadNumber, StepPhase, StepTrace, TraceOptions, TracedOp, trace, trace_with};
pub use visit::{OpVisitor, ValueChange, VisitedOp, VisitedValues, visit_ops};
