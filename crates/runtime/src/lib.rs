//! How what is recorded runs: what a device must do, memory and its pool, plans (what is fused, what is kept, who shares whose
//! memory) and their execution.
//!
//! A plan is made from structure alone and bound to memory at each run. Faults that kernels find in data are followed to what
//! they spoiled; steps that write cells come last and are left out where what they would write is spoiled.
//!
//! Architecture invariant: this crate knows no tensor, no gradient and no layer.
#![forbid(unsafe_code)]

pub mod backend;
pub mod buffer;
pub mod communicator;
mod device;
pub mod execute;
pub mod first_touch;
pub mod foreign;
pub mod kernel;
pub mod memory;
pub mod plan;
pub mod planted;
pub mod recycle;
pub mod reference;
pub mod stats;
mod stored;
pub mod table;

pub use adamant_ir::{Arg, DType, DeviceId, Error, ErrorKind, HostArray, HostVec, Layout, Op, Origin, Result, Scalar, Shape, TensorType};
pub use adamant_ir::{expr, hash, op, scalar, scope, shape};
pub use device::{Device, Meta, Metas, RECORDERS, Recorder};
pub use linkme;
pub use stats::Stats;
pub use stored::Stored;
