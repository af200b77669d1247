//! Where generic addresses lie that are none of device memory: windows above all addresses that are given.
use crate::memory::END_OF_ADDRESSES;

/// Bytes of a window.
pub const WINDOW: u64 = 1 << 24;
/// A block's shared memory.
pub const SHARED: u64 = END_OF_ADDRESSES + (1 << 32);
/// A thread's local memory.
pub const LOCAL: u64 = END_OF_ADDRESSES + (2 << 32);
/// The kernel's parameters.
pub const PARAMETERS: u64 = END_OF_ADDRESSES + (3 << 32);
