//! Runs kernels over device memory, a warp at a time, and watches what they do.
//!
//! A module's text becomes a program once: instructions as functions over the rows of a warp's registers, labels as places.
//! A warp's lanes go together; those that part meet again at the lowest place (`warp`). Blocks go over the host's threads.
//! Each access to memory is checked for bounds, alignment and whether what it reads was written (`arena`), and for who else
//! was there with nothing between (`watch`).
//!
//! It knows PTX and memory; contexts, streams and queues are the driver's affair.

mod access;
mod arena;
mod atomics;
mod bits;
mod block;
mod collective;
mod compare;
mod convert;
mod decode;
mod exact;
pub mod finding;
mod floats;
mod halves;
mod integers;
mod launch;
mod matrix;
mod module;
mod moves;
mod registers;
mod step;
mod warp;
mod watch;
mod windows;

pub use finding::{Finding, FindingKind, OtherParty};
pub use launch::run;
pub(crate) use launch::run_unordered;
pub use module::{Global, Kernel, LoadError, Loaded, Module, Parameter};
pub(crate) use watch::{Serials, next_serial, touched};

/// One launch of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'l> {
    /// The kernel's name.
    pub kernel: &'l str,
    /// Blocks of the grid: x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block: x, y, z.
    pub block: [u32; 3],
    /// Bytes of shared memory on top of what the kernel declares.
    pub dynamic_shared: u32,
    /// The kernel's parameters, each at its offset.
    pub parameters: &'l [u8],
}

/// How a launch is carried out where CUDA leaves it open.
#[derive(Debug, Clone, Copy)]
pub struct Conduct {
    /// Draws the order of blocks and warps, and when an asynchronous copy lands.
    pub seed: u64,
    /// Threads of the host that blocks are spread over; at least one is used.
    pub threads: usize,
    /// Instructions of warps that one block may execute before it counts as hung.
    pub budget: u64,
}

impl Default for Conduct {
    fn default() -> Conduct {
        Conduct { seed: 0, threads: 1, budget: 1 << 30 }
    }
}

/// What a launch that ended well did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ran {
    /// Instructions of warps that were executed.
    pub instructions: u64,
    /// Bytes that were read from and written to global memory.
    pub global_bytes: u64,
}
