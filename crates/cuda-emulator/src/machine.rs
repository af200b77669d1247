//! Runs kernels over device memory, a warp at a time, and watches what they do.
//!
//! It knows PTX and memory; contexts, streams and queues are the driver's affair.

pub mod finding;

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
