//! What is computed, as data: dtypes and shapes, the table of scalar functions, the primitives, the compounds' specs, graphs
//! with their verifier, text and passes, kernels and their expressions, what they cost, and what all of it means in plain f64.
//!
//! Backends and the engine agree on this and on nothing else, so it depends on neither. Errors are here too, because
//! whoever infers a shape must be able to say what is wrong with it, and scopes, because an error names the layer.
//!
//! Architecture invariant: this crate knows no device, no tensor and no file; of threads only which layer one is in.
#![forbid(unsafe_code)]

pub mod composite;
pub mod cost;
pub mod dtype;
pub mod error;
pub mod expr;
pub mod fault;
pub mod graph;
pub mod hash;
mod host;
pub mod kernel;
pub mod op;
pub mod philox;
pub mod product;
pub mod reference;
pub mod scalar;
pub mod scope;
pub mod shape;
pub mod special;
mod tensor_type;

pub use composite::{Attr, Attrs, Composite};
pub use dtype::{DType, Element, HostVec, Scalar};
pub use dtype::{bf16_from_f64, f8_to_f32, f16_from_f64, f32_to_f8, round_to_odd};
pub use error::{Error, ErrorKind, Hint, Origin, Result};
pub use half::{bf16, f16};
pub use host::HostArray;
pub use op::{Arg, Op};
pub use shape::{Axes, Axis, AxisSet, Layout, MAX_RANK, Shape, ToShape, ToSizes};
pub use tensor_type::{DeviceId, PlacedType, TensorType, Types};
