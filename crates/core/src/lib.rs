//! The heart of Adamant: tensors, autograd, the graph and its scheduler.
//!
//! An op checks shapes and dtypes when it is called and records a node; it runs when somebody reads. What runs is
//! fused, planned and cached under its structure. Gradients are written once, in tensor code, for every backend.
//!
//! Architecture invariant: this crate knows no backend, no file format, no thread pool and no layer.
#![forbid(unsafe_code)]

mod ambient;
pub mod cell;
pub mod compile;
pub mod composite;
pub mod cost;
pub mod functional;
pub mod grad;
pub mod graph;
pub mod intercept;
mod measured;
mod primitive;
#[cfg_attr(not(feature = "profiling"), path = "profile/off.rs")]
pub mod profile;
pub mod promotion;
mod record;
pub mod rng;
pub mod scalar;
pub mod schedule;
mod specs;
pub mod tensor;
mod transfer;
pub mod transform;
mod value;

use adamant_ir::hash;
pub use adamant_ir::{Attr, Attrs, Composite, DeviceId, TensorType, Types};
pub use adamant_ir::{DType, Element, HostVec, Scalar, bf16_from_f64, f8_to_f32, f16_from_f64, f32_to_f8, round_to_odd};
pub use adamant_ir::{Error, ErrorKind, Hint, Origin, Result};
pub use adamant_ir::{HostArray, reference};
pub use adamant_ir::{dtype, error, expr, op, product, scope, shape, special};
use adamant_runtime::foreign;
pub use adamant_runtime::{Device, Meta, linkme, register_backend};
pub use adamant_runtime::{backend, buffer, communicator, kernel, memory, planted, recycle};
pub use ambient::{Ambient, AmbientGuard};
pub use cell::{Cell, CellSource, Snapshot, WrittenCell, consistent, step, step_reviewed, step_when};
pub use compile::{Compiled, Flag, compile, is_capturing};
pub use composite::Compound;
pub use grad::{Grads, checkpoint, no_grad};
pub use half::{bf16, f16};
pub use op::{Arg, Op};
#[allow(unused_imports, reason = "a primitive's file may have no type of its own")]
pub use primitive::types::*;
pub use record::{
    flush,
    switches::{with_eager, with_window},
};
pub use rng::Rng;
pub use shape::{Axes, Axis, AxisSet, Layout, MAX_RANK, Shape, ToShape, ToSizes};
pub(crate) use tensor::Operand;
pub use tensor::{Ellipsis, IndexItem, IndexSlice, NewAxis, Outputs, Reading, Tensor, ToIndex, ToIndexItem, stepped};

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
