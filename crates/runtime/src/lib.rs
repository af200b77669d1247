//! How what is recorded runs: what a device must do, memory and its pool, plans (what is fused, what is kept, who shares whose
//! memory) and their execution.
//!
//! A plan is made from structure alone and bound to memory at each run. Faults that kernels find in data are followed to what
//! they spoiled; steps that write cells come last and are left out where what they would write is spoiled. On an asynchronous
//! device it is the device that leaves them out ([`backend::Asynchronous`]).
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
mod taint;

pub use adamant_ir::{
    Arg, Attr, Attrs, Composite, DType, DeviceId, Element, Error, ErrorKind, HostArray, HostVec, Op, Origin, PlacedType, Result, Scalar, TensorType,
};
pub use adamant_ir::{Axis, AxisSet, Layout, MAX_RANK, Shape, bf16, bf16_from_f64, f8_to_f32, f16, f16_from_f64, f32_to_f8, round_to_odd};
pub use adamant_ir::{composite, dtype, error, expr, hash, op, philox, primitives, product, scalar, scope, shape, special};
pub use device::{Device, Meta, Metas, RECORDERS, Recorder};
pub use linkme;
pub use stats::Stats;
pub use stored::Stored;
pub use taint::{Seeds, Taint};
