//! What the benchmarks share: a device of one thread, and inputs that are in memory before the clock starts.
//!
//! These compare a kernel with itself, run by run; comparisons with other frameworks are `cargo xtask bench`.
#![forbid(unsafe_code)]
use adamant::{
    DType, Device, Result, Tensor,
    cpu::{Context, CpuBackend},
};

/// The CPU with one thread: kernels are compared, not schedulers.
///
/// # Errors
/// `ADAMANT_ISA` asks for what the CPU lacks.
pub fn device() -> Result<Device> {
    Ok(Context::new(CpuBackend::builder().threads(1))?.device())
}
/// Numbers in [-0.5, 0.5), in memory.
///
/// # Errors
/// No memory.
pub fn numbers(shape: &[usize]) -> Result<Tensor> {
    let n = shape.iter().product::<usize>() as i64;
    let x = ((Tensor::arange(0, n, 1, DType::I64) * 7919i64).remainder(1009i64).cast(DType::F32) / 1009.0 - 0.5).reshape(shape);
    x.materialize()?;
    Ok(x)
}
