//! The wgpu backend of Adamant.
//!
//! # Design
//!
//! *Text.* Every kernel is WGSL written for its structure by a skeleton of `kernels`; this crate writes none. Sizes,
//! strides, offsets and scalar arguments are not structure; they are words of a parameter buffer, so a new size compiles
//! nothing. A pipeline is found by the kernel of core that it was made for, or by its text.
//!
//! *Launches.* A step becomes one launch, or a few; equal Maps that follow each other (an optimizer's step) share one, as
//! far as bindings reach. All steps of a submission are encoded into one command buffer, in order; wgpu puts a barrier
//! where one reads what another wrote. `submit` returns before they have run. Where a step can find bad data, its fault word
//! is on the device, and a step that bad data forbids is launched indirectly: a gate before it, of one invocation, looks at the
//! words and writes how many workgroups there are. The host waits where it reads, and nowhere else. wgpu orders all that is
//! done on one queue by itself, so every event of this device has passed when it is handed out.
//!
//! *Memory.* A tensor's buffer is an array of words. It is bound whole and elements are found by offsets in the
//! parameters, because a binding may only begin at coarse multiples. bool and 8- and 16-bit elements are packed into
//! words; an invocation computes whole words of a dense output, and where several share a word each changes its own bits
//! by atomic and/or, which no order can make differ. Index arithmetic is in 32 bits; a tensor larger than one binding is
//! refused by name.
//!
//! *Dtypes.* f64 is absent, by name. i64 needs the adapter's 64-bit integers (all desktop ones have them); where they
//! are missing, indices are still stored as i64 and read as two words, so that gather, scatter, argmax and sorting work,
//! and arithmetic on i64 is refused by name. f16 and bf16 are computed in f32 and rounded after each op.
//!
//! *Order.* No result depends on the order of invocations: reductions are fixed trees, products are split at fixed
//! places, scatters combine what meets in an order that the index fixes. What differs between adapters — subnormals, contraction, division — is
//! measured when a device is opened and told in `DeviceInfo::details`.
//!
//! *Cache.* Where the driver hands out what it compiled (Vulkan), it is kept on disk in `ADAMANT_CACHE_DIR`, else in the
//! user's directory for caches; set to nothing, the variable turns that off. `DeviceInfo::details` says what was found.
//!
//! *Loss.* wgpu's handlers record what went wrong and the next call returns it, as `DeviceLost` from a loss until
//! `Device::recover`; what was on the device before stays lost.
//!
//! Architecture invariant: this crate knows core's device contract and `kernels`, and nothing of autograd, layers or
//! other backends. It holds no unsafe code but the entry in core's list of backends and the call that takes the driver's
//! pipelines back from disk.
// Errors are core's own type, returned once per step.
#![allow(clippy::result_large_err)]

mod cache;
mod clock;
mod device;
mod gpu;
mod health;
mod launch;
mod memory;
mod pipeline;
mod probe;
mod registration;
mod words;

pub use device::WgpuBackend;
pub use registration::link;
