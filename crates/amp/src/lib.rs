//! Mixed precision. So far the loss scaler: what keeps gradients of 16-bit floats from vanishing, without a word that the host
//! waits for.
//!
//! Architecture invariant: layers and backends are not known here; the optimizer is whatever has the trait.
#![forbid(unsafe_code)]

mod scaler;

pub use scaler::{GradScaler, ScalerOptions, ScalerStats};
