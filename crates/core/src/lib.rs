//! The heart of Adamant: tensors, autograd, the graph and its scheduler.
//!
//! An op checks shapes and dtypes when it is called and records a node; it runs when somebody reads. What runs is
//! fused, planned and cached under its structure. Gradients are written once, in tensor code, for every backend.
//!
//! Architecture invariant: this crate knows no backend, no file format, no thread pool and no layer.
#![forbid(unsafe_code)]

pub mod backend;
pub mod buffer;
pub mod cell;
mod compile;
pub mod composite;
pub mod cost;
mod device;
mod dtype;
mod error;
pub mod expr;
mod first_touch;
mod foreign;
pub mod functional;
pub mod grad;
pub mod graph;
mod hash;
pub mod intercept;
pub mod kernel;
pub mod memory;
pub mod op;
pub mod planted;
#[cfg_attr(not(feature = "profiling"), path = "profile/off.rs")]
pub mod profile;
mod record;
pub mod recycle;
pub mod reference;
pub mod rng;
pub mod scalar;
pub mod schedule;
pub mod scope;
pub mod shape;
pub mod special;
mod table;
pub mod tensor;
pub mod transform;
mod value;

pub use cell::{Cell, Snapshot, consistent, step};
pub use compile::{Compiled, Flag, compile, is_capturing};
pub use composite::{Attr, Attrs, Composite};
pub use device::{Device, Meta};
pub use dtype::{DType, Element, HostVec, Scalar};
pub use dtype::{bf16_from_f64, f8_to_f32, f16_from_f64, f32_to_f8, round_to_odd};
pub use error::{Error, ErrorKind, Origin, Result};
pub use grad::{Grads, checkpoint, no_grad};
pub use half::{bf16, f16};
pub use linkme;
pub use op::{Arg, Op};
pub use record::{flush, with_eager, with_window};
pub use reference::HostArray;
pub use rng::Rng;
pub use shape::{Axes, Axis, AxisSet, Layout, MAX_RANK, Shape, ToShape, ToSizes};
pub use tensor::{Outputs, Reading, Tensor};

/// Runs a block as a range of the profile and gives its value. Without the feature `profiling` it is the block alone.
///
/// ```
/// # use adamant_core::time_block;
/// let words = time_block!("tokenize", { "to be or not".split(' ').count() });
/// assert_eq!(words, 4);
/// ```
#[macro_export]
macro_rules! time_block {
    ($name:expr, $block:expr) => {{
        let _range = $crate::profile::record_function($name);
        $block
    }};
}
