//! The CUDA backend of Adamant.
//!
//! # Design
//!
//! *Libraries.* Nothing of CUDA is needed to build, and nothing is opened before a CUDA device is asked for. Then `libraries`
//! looks whether the driver and the compiler are there with all that is called of them, and says what to install where not;
//! `driver` and `compiler` are the calls.
//!
//! *Text.* Every kernel is CUDA C++ written for its structure by a skeleton of `kernels`; this crate writes none. Sizes, strides,
//! offsets and scalar arguments are not structure; they are words of a block of parameters, so a new size compiles nothing.
//! NVRTC compiles a text once; it is kept on disk (`disk`).
//!
//! *Products.* Where cuBLASLt is installed (`blaslt`), a matrix product whose operands it can see (`products`) is its launch, with
//! a bias, an addend or an activation behind it where the library has that (`ends`); where it is absent, offers nothing or fails, the
//! product is a kernel of ours, on tensor cores for 16 bits.
//!
//! *Self-test.* What is fast has a plain twin (`paths`). At the first opening of a card with its driver and libraries each fast path
//! is held against the host (`selftest`), and one that differs is off.
//!
//! *Queues.* Each queue of the runtime is a stream (`stream`). Work is handed over in turns, each of which ends in an event of
//! the driver: a number of the runtime's. Uploads and reads go through pinned memory on the copy stream (`staging`) and wait
//! for, and are waited for by, the turns that the runtime names: the host waits where it reads, and nowhere else.
//!
//! *Memory.* Tensors lie in pages of the driver's, mapped where they are needed (`memory`): what is free in pieces is mapped anew
//! behind one another, and never stranded. Memory is handed on while work of its last owner is under way, with the turns behind
//! which it may be touched.
//!
//! *Graphs.* A plan that comes again over the same memory becomes a graph of the driver's (`graph`): one launch.
//!
//! *Bad data.* Where a step can find bad data its fault word is on the device (`words`). A step that bad data forbids is
//! launched all the same, with the address of a word that a gate before it has written; where that is zero, its blocks end at
//! once.
//!
//! *Order.* No result depends on the order of threads: reductions are fixed trees, products are split at fixed places, scatters
//! combine what meets in an order that the index fixes.
//!
//! *Loss.* An error that stays with the context (`DriverError::is_loss`) is a lost device: every later call says so until
//! `Device::recover`, which resets the device's own context; what was on the device before stays lost.
//!
//! Architecture invariant: this crate knows core's device contract and `kernels`, and nothing of autograd, layers or other
//! backends.
// Errors are core's own type, returned once per step.
#![allow(clippy::result_large_err)]

mod apart;
mod blaslt;
mod compiler;
mod device;
mod disk;
mod driver;
mod ends;
mod graph;
mod launch;
mod libraries;
mod memory;
mod nvml;
mod opened;
mod options;
mod paths;
mod products;
mod registration;
mod selftest;
mod staging;
mod stream;
mod times;
mod words;

pub use compiler::CompiledImage;
pub use device::CudaBackend;
pub use memory::{CudaMemoryStats, CudaShortage};
pub use nvml::CudaLoad;
pub use options::{CudaBuilder, CudaMemoryPool, CudaOptions};
pub use registration::link;
