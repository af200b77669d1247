//! A CUDA device without a card.
//!
//! # Design
//!
//! *What is real.* Kernels are compiled by the real NVRTC, which needs no driver; what it gives for PTX is interpreted here,
//! instruction by instruction, a warp at a time. So the front end, the library of mathematical functions and the
//! optimiser's view of undefined behaviour are those of a card's user; only `ptxas` and the silicon are missing.
//!
//! *Who calls.* Programs call the driver through `cudarc`, unmodified. `Emulator::install` writes shared objects under
//! the driver's names, whose functions jump through a table that points into this crate, and opens them by path: whoever
//! opens `libcuda.so.1` afterwards is given them. Nothing outside the process changes.
//!
//! *Layers.* `memory` is the device's memory: addresses, what was written, what was freed. `ptx` reads a module's text and
//! checks it. `machine` runs a kernel over memory and watches: out of bounds, misaligned, read before written, races,
//! divergent barriers, lanes that a mask names and that are not there. `driver` is the driver's interface: contexts,
//! streams, events, captures, errors that stay. `library` stands in for cuBLASLt and NVML. `stub` writes shared objects.
//! `plants` are faults of kernels and of callers, each beside a sound twin, by which tests and chores show what is caught.
//!
//! *Detectors are always on.* A finding is an error of the launch, as a card's is (`CUDA_ERROR_ILLEGAL_ADDRESS`, …), and
//! a `Finding` that says which instruction, which thread, which address.
//!
//! *Order by seed.* Streams run nothing until somebody waits; then ready work runs in an order drawn from a seed, and so
//! do blocks, warps and copies that may land early or late. A program that is right is right under every seed.
//!
//! Architecture invariant: this crate knows nothing of Adamant: no tensor, no kernel's text, no backend.

mod driver;
mod emulator;
mod library;
pub mod machine;
pub mod memory;
pub mod plants;
pub mod ptx;
mod stub;

pub use driver::clock::{CardEngine, CardSpan};
pub use driver::profile::{CardProfile, PROFILES};
pub use driver::state::EmulatedLaunch;
pub use emulator::{EmulatedFault, Emulator, Options, TextRewriter};
pub use machine::finding::{Finding, FindingKind};
pub use stub::InstallError;
