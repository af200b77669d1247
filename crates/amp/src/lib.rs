//! Mixed precision: products in 16 bits and what needs more in f32 ([`Autocast`]), and losses scaled so that gradients of 16 bits do
//! not vanish ([`GradScaler`]), without a word that the host waits for.
//!
//! Architecture invariant: backends are not known here; the optimizer is whatever has the trait.
#![forbid(unsafe_code)]

mod autocast;
mod classes;
mod fp8;
mod overflow;
mod precision;
mod scaler;
mod trainer;
mod underflow;

pub use autocast::{Autocast, autocast};
pub use classes::{PrecisionClass, PrecisionTable};
pub use fp8::{AmaxAlgorithm, BlockScaling, CurrentScaling, DelayedScaling, Fp8Recipe};
pub use overflow::{FallbackOptions, LayerFallback};
pub use precision::{AmpStats, Precision, PrecisionMode, ScheduleOn};
pub use scaler::{GradScaler, ScalerOptions, ScalerStats};
pub use trainer::MixedPrecisionTrainer;
pub use underflow::underflow_share;
