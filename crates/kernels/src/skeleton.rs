//! The families of kernels, each written once: which launches a kernel's work becomes, and the text of each.
mod arg_reduce;
mod attention;
mod composite;
mod conv;
mod copy;
pub mod edges;
pub mod gate;
mod gather;
mod map;
mod matmul;
mod product;
mod reduce;
mod rows;
mod scan;
mod scatter;
mod sort;
mod window;

pub use map::merged::{Mapped, record as record_together, together};

use crate::{
    launcher::{Launcher, Target, Work},
    program,
};
use adamant_ir::{
    DType, ErrorKind,
    kernel::KernelKind,
    op::{ReduceOp, ScatterMode},
};

/// Is there a kernel for it on these dtypes (inputs, then outputs), on this device?
pub fn supports(target: &Target, kernel: &KernelKind, dtypes: &[DType]) -> bool {
    let computes = || dtypes.iter().all(|d| target.computes(*d));
    // Where i64 is only an index, it is stored as words.
    let values = |n: usize| dtypes.iter().take(n).all(|d| target.computes(*d));
    match kernel {
        KernelKind::Copy => true,
        KernelKind::Map { expr, .. } => computes() && program::check(target.dialect, expr).is_ok(),
        KernelKind::Reduce { expr, op, .. } => {
            let sums_integers = matches!(op, ReduceOp::Sum | ReduceOp::Prod) && dtypes.last() == Some(&DType::I64);
            computes() && program::check(target.dialect, expr).is_ok() && (!sums_integers || target.computes(DType::I64))
        }
        KernelKind::ArgReduce { .. } | KernelKind::Sort { .. } | KernelKind::Window(_) => values(1),
        KernelKind::Scan { .. } | KernelKind::Matmul => computes(),
        KernelKind::Conv(_) => computes() && dtypes.iter().all(|d| d.is_float()),
        KernelKind::Gather { .. } => true,
        KernelKind::Scatter { mode, .. } => *mode == ScatterMode::Set || dtypes.last().is_none_or(|d| target.computes(*d)),
        KernelKind::Composite(c) => composite::supports(target, &**c, dtypes),
    }
}
/// Records a kernel's work.
///
/// # Errors
/// Operands that the family does not have; a text that cannot be written or compiled; more scratch than there is.
pub fn record(launcher: &mut dyn Launcher, kernel: &KernelKind, work: &Work<'_>) -> Result<(), ErrorKind> {
    if work.outputs.iter().all(|o| o.shape.elements() == 0) {
        return Ok(());
    }
    match kernel {
        KernelKind::Map { expr, outputs } => map::record(launcher, work, expr, outputs),
        KernelKind::Copy => copy::record(launcher, work),
        KernelKind::Reduce { expr, value, op, axes } => reduce::record(launcher, work, expr, *value, *op, *axes),
        KernelKind::ArgReduce { op, axis } => arg_reduce::record(launcher, work, *op, *axis as usize),
        KernelKind::Scan { op, axis, reverse } => scan::record(launcher, work, *op, *axis as usize, *reverse),
        KernelKind::Matmul => matmul::record(launcher, work),
        KernelKind::Conv(spec) => conv::record(launcher, work, spec),
        KernelKind::Window(spec) => window::record(launcher, work, spec),
        KernelKind::Gather { axis } => gather::record(launcher, work, *axis as usize),
        KernelKind::Scatter { axis, mode } => scatter::record(launcher, work, *axis as usize, *mode),
        KernelKind::Sort { axis, descending } => sort::record(launcher, work, *axis as usize, *descending),
        KernelKind::Composite(c) => composite::record(launcher, work, &**c),
    }
}
