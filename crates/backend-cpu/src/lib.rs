//! The CPU backend of Adamant.
//!
//! Element-wise programs run tile by tile in the L1 cache, matrix products and convolutions in packed blocks,
//! everything on one thread pool that may be the user's. The same program gives the same bits for any number of
//! threads, any instruction set and any fusion.
//!
//! Architecture invariant: this crate knows core's device contract and nothing of autograd, layers or other backends.
//! Unsafe code is only in `simd`, `math`'s vectors, `gemm`'s micro-kernels, the calls of compiled loops in `jit`, the hand-over of
//! a loop in `threads` and the advice to the system in `memory`.
// Errors are core's own type, returned once per step.
#![allow(clippy::result_large_err)]

mod composite;
pub mod conv;
mod convolution;
mod copy;
mod device;
mod element;
mod ends;
mod fused;
pub mod gemm;
pub mod isa;
mod jit;
mod linalg;
mod lines;
mod map;
pub mod math;
mod matmul;
mod memory;
mod nest;
mod operand;
mod order;
mod primitive;
mod radix;
mod reduce;
mod registration;
mod scatter;
mod scratch;
#[allow(unsafe_code)]
pub mod simd;
pub mod threads;
pub mod trace;

pub use device::{Context, CpuBackend, CpuBuilder, CpuKernel, KernelOperands, Runtime};
pub use gemm::Blas;
pub use isa::Isa;
pub use map::prefused::signature;
pub use registration::link;
pub use threads::Threads;
