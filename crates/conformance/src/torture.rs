//! What programs do to a device that they should not: they panic and fail in the middle of steps, read while others write,
//! read while their thread ends, call kernels that panic. Each part is a function of a seed that returns what it saw, so that
//! a test takes a few cases and `cargo xtask torture` thousands.
pub mod broken;
pub mod endings;
pub mod readers;
pub mod sharing;
pub mod steps;
