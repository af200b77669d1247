//! The text of kernels: every family of kernels as a skeleton that is written once, for every language that a device
//! compiles.
//!
//! # Design
//!
//! *Notation.* Helpers (erf, digamma, integer powers) and skeletons are written in the part of WGSL that translates to C
//! word by word (`notation.rs`). WGSL takes such a text as it is; C takes the translation, and the functions of
//! `<math.h>` where it has them. So what a C compiler can test on any machine is the arithmetic and the index arithmetic
//! that run on a GPU. Of f64, which WGSL has not, they are C (`wide.rs`).
//!
//! *Dialect.* What languages think of differently is a method of [`Dialect`]: the registers of a dtype, how an element
//! lies in memory (WGSL cuts 8 and 16 bits out of words, others have types for them), atomics, barriers, operations of a
//! subgroup, the entry point. [`Wgsl`] writes a shader for one launch. [`C`] writes a function that runs a launch as loops
//! over its workgroups and their invocations; one that waits for others is left there and taken up again. [`Cuda`] keeps C's
//! translation and has real threads.
//!
//! *Frame.* A [`KernelFrame`] is one kernel before it is text: its [`Bindings`] (buffers by number, with what is done to them),
//! invocations of a workgroup, the memory that they share, functions, the body. Parameters are the words of one more
//! buffer, and stand in no text: sizes, strides, offsets and scalar arguments are not structure, so a new size compiles
//! nothing.
//!
//! *Nest.* A [`Nest`] is the index arithmetic of a launch: axes merged where all operands step through them as one.
//!
//! *Skeletons.* `skeleton/` has a file for each family. A skeleton looks at the [`Work`] (tensors as layouts in numbered
//! buffers) and the [`LaunchTarget`] (what the device can do), decides on launches, and hands each to a [`Launcher`]: the
//! structure's key, the bindings, the parameters, how many workgroups, and a closure that writes the text if the key is
//! new. A backend implements `Launcher` with pipelines and buffers of its own; the tests implement it with a C compiler.
//!
//! | family | skeleton | how invocations work together |
//! |---|---|---|
//! | map, copy, gather, window | `map.rs`, `copy.rs`, `gather.rs`, `window.rs` | they do not |
//! | reduce, arg_reduce | `reduce.rs`, `arg_reduce.rs` | a tree in the workgroup's memory; pieces by a second launch |
//! | scan | `scan.rs` | pieces of a line in three launches |
//! | sort | `sort.rs` | a launch for each doubling of the runs |
//! | scatter | `scatter.rs`, `scatter/sorted.rs` | a line each, or sorted in blocks by a workgroup |
//! | matmul | `matmul.rs`, `product.rs` | tiles in the workgroup's memory, or passed on in subgroups |
//! | conv | `conv.rs`, `conv/matrices.rs` | nested loops, blocks in registers; or tiles of the matrix unit |
//! | rows (norms, softmax, cross entropy) | `rows.rs`, `rows/` | alone, by subgroup or by workgroup |
//! | attention | `attention.rs`, `attention/matrices.rs`, `attention/of_mask.rs` | subgroups; or tiles of the matrix unit |
//!
//! *Order.* No result depends on the order of invocations: reductions are fixed trees, products are split at fixed places,
//! scatters combine what meets in an order that the index fixes.
//!
//! ```
//! use adamant_kernels::{Access, Bindings, C, Dialect, Place, Wgsl, per_element};
//! # fn main() -> Result<(), adamant_ir::ErrorKind> {
//! let twice = |dialect: &'static dyn Dialect| {
//!     let mut bindings = Bindings::new(dialect);
//!     let x = bindings.bind(Place::Buffer(0), Access::Write);
//!     let body = format!("let v: u32 = {} * 2u;\n{}\n", bindings.word(x, "i"), bindings.set_word(x, "i", "v"));
//!     per_element(&bindings, "", &body)
//! };
//! assert!(twice(Wgsl::PLAIN)?.contains("b0[i] = v;"));
//! assert!(twice(&C)?.contains("adm_set_4(b0, i, v);"));
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: this crate knows no GPU's interface, no device, tensor or gradient: it sees kernels, their
//! expressions, scalars, shapes and dtypes alone.
#![forbid(unsafe_code)]
// Errors are core's own type, returned once per step.
#![allow(clippy::result_large_err)]

mod bindings;
mod combine;
mod dense;
mod dialect;
mod expression;
mod frame;
mod function;
mod kept;
mod launcher;
mod nest;
mod notation;
mod preambles;
mod prepared;
mod program;
pub mod skeleton;
mod wide;

pub use bindings::{Access, ArgumentPlace, Bindings, Place};
pub use dialect::{Atomic, C, CUDA_BUFFERS, CUDA_WORDS, Cuda, Dialect, Subgroup, Wgsl, entry_of, to_c};
pub use expression::{ExprText, Sources, write_expr};
pub use frame::{GROUP, KernelFrame, Numbering, SharedArray, per_element};
pub use function::{binary_text, unary_text};
pub use kept::{CACHE_DIRECTORY, cache_directory, own_directory};
pub use launcher::{Again, Array, CompiledText, Found, Key, LaunchTarget, Launcher, Work};
pub use nest::{AxisGroup, Form, Nest, Strides};
pub use preambles::preamble;
pub use prepared::{Forms, Prepared};
pub use program::argument_words;
