//! Numerical stability of training: what is not a number any more is found on the device, handled by a policy before it reaches a weight
//! ([`NanHandler`]), and traced to the op that made it ([`trace()`]).
//!
//! Data flow: a step runs inside of [`NanHandler::attempt`]. Loss and gradients are looked at before clipping, and changed where the policy says
//! so; what the step has written (weights, slots, running statistics) is looked at before it commits. Whether it commits follows from
//! tensors of no axes, so that the host waits for nothing; what happened is counted in cells, which somebody reads now and
//! then ([`NanHandler::look`]). A step that was suppressed has moved no cell, the generator's neither: run again, op by op, it comes to the same bits,
//! and [`trace()`] watches it.
//!
//! Architecture invariant: no optimizer and no training loop is known here; a step is a closure.
#![forbid(unsafe_code)]

mod handler;
mod kinds;
mod options;
mod trace;

pub use handler::{NanHandler, NanStats};
pub use options::{HandlingType, NanOptions};
pub use trace::{BadNumber, NumberStats, StepPhase, StepTrace, TracedOp, trace};
