//! Runs kernels over device memory, a warp at a time, and watches what they do.
//!
//! A module's text becomes a program once: instructions as functions over the rows of a warp's registers, labels as places.
//! A warp's lanes go together; those that part meet again at the lowest place (`warp`). Blocks go over the host's threads.
//! Each access to memory is checked for bounds, alignment and whether what it reads was written (`arena`), and for who else
//! was there with nothing between (`watch`).
//!
//! # What is wrong, and what is let pass
//!
//! Two accesses to the same byte, one of them a write, race unless something orders them: of lanes of a warp an instruction
//! that synchronises both (`bar.warp.sync`, `shfl.sync`, `vote.sync`, …), of warps a barrier, of blocks nothing. Atomics do
//! not race among each other, nor with volatile and relaxed accesses. Let pass are: lanes that write the same value by the
//! same instruction; and of blocks what one did before a fence, after which it changed a word by an atomic (or released it),
//! for another one that has read the word by an atomic (or acquired it). Bytes that an asynchronous copy is under way to may
//! not be touched before its wait, whenever it lands.
//!
//! A barrier for all threads that some have left for good is wrong here, though a card would go on: the language promises
//! nothing for it. So is a mask that names a lane that has left.
//!
//! A read of what nobody wrote is told at the end, if until then no race explains it: somebody may have been about to write.
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
    /// The matrix unit gives 0 for one element.
    pub wrong_matrices: bool,
}

impl Default for Conduct {
    fn default() -> Conduct {
        Conduct { seed: 0, threads: 1, budget: 1 << 30, wrong_matrices: false }
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
