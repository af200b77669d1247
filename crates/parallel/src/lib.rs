//! Models that ranks share: what each of them holds, computes and exchanges.
//!
//! A [`Mesh`] numbers the ranks along the axes data, pipeline, tensor and expert. Everything is made of the collectives of core, whose
//! gradients tell partial from replicated values: [`tensor`] cuts layers of an ordinary model into pieces, [`pipeline`] puts
//! its layers one behind another, [`MixtureOfExperts`] shares out experts, [`SyncBatchNorm`] joins statistics, [`sum_gradients`] adds what ranks with other
//! rows have. [`DataParallel`] is several devices in one process.
//!
//! Architecture invariant: this crate names no backend and no engine, and writes no gradient; it composes functions of core and layers of
//! nn. It does not know how ranks are started.
#![forbid(unsafe_code)]

pub mod collective;
mod data_parallel;
mod gradients;
mod mesh;
mod mixture;
pub mod pipeline;
mod sync_batch_norm;
pub mod tensor;

pub use data_parallel::{DataParallel, DataParallelOptions};
pub use gradients::sum_gradients;
pub use mesh::{Mesh, MeshAxis, MeshPlace, MeshShape};
pub use mixture::{MixtureOfExperts, MixtureOptions, expert_parameters, with_balance_loss};
pub use sync_batch_norm::{SyncBatchNorm, convert_sync_batchnorm};
