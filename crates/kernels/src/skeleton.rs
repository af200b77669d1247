//! The families of kernels, each written once: which launches a kernel's work becomes, and the text of each.
mod attention;
mod boxes;
mod composite;
mod conv;
mod copy;
pub mod edges;
mod epilogue;
pub mod gate;
mod map;
mod matmul;
mod product;
mod reduce;
mod rows;
mod scatter;

pub use map::merged::{Mapped, record as record_together, together};

use crate::{
    launcher::{LaunchTarget, Launcher, Work},
    program,
};
use adamant_ir::{
    Composite, DType, ErrorKind, Op,
    kernel::KernelKind,
    op::{ReduceOp, ScatterMode},
    product::Sums,
};

/// Does the kernel of a composite take the operands of [`Composite::rows`] wherever their rows lie?
pub fn takes_rows(composite: &dyn Composite) -> bool {
    attention::takes_rows(composite)
}
/// Is there a kernel for it on these dtypes (inputs, then outputs), on this device?
pub fn supports(target: &LaunchTarget, kernel: &KernelKind, dtypes: &[DType]) -> bool {
    let computes = || dtypes.iter().all(|d| target.computes(*d));
    match kernel {
        KernelKind::Copy => true,
        KernelKind::Map { expr, .. } => computes() && program::check(target.dialect, expr).is_ok(),
        KernelKind::Reduce { expr, op, .. } => {
            let sums_integers = matches!(op, ReduceOp::Sum | ReduceOp::Prod) && dtypes.last() == Some(&DType::I64);
            computes() && program::check(target.dialect, expr).is_ok() && (!sums_integers || target.computes(DType::I64))
        }
        KernelKind::Matmul => computes(),
        KernelKind::Conv(_) => computes() && dtypes.iter().all(|d| d.is_float()),
        KernelKind::Primitive(op) => supports_primitive(target, op, dtypes),
        KernelKind::Product(product) => computes() && epilogue::is_supported(target, product, dtypes),
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
        KernelKind::Matmul => matmul::record(launcher, work),
        KernelKind::Conv(spec) => conv::record(launcher, work, spec),
        KernelKind::Product(product) => match &product.sums {
            Sums::Matmul => matmul::with_epilogue(launcher, work, product),
            Sums::Conv(spec) => conv::with_epilogue(launcher, work, spec, Some(product)),
        },
        KernelKind::Scatter { axis, mode } => scatter::record(launcher, work, *axis as usize, *mode),
        KernelKind::Primitive(op) => record_primitive(launcher, work, op),
        KernelKind::Composite(c) => composite::record(launcher, work, &**c),
    }
}

macro_rules! kernels {
    (planned $planned:tt kernels { $($module:ident: $op:pat => $fields:tt;)* }) => {
        $(mod $module;)*

        fn supports_primitive(target: &LaunchTarget, op: &Op, dtypes: &[DType]) -> bool {
            match op {
                $($op => $module::supports($fields, target, dtypes),)*
                _ => false,
            }
        }
        fn record_primitive(launcher: &mut dyn Launcher, work: &Work<'_>, op: &Op) -> Result<(), ErrorKind> {
            match op {
                $($op => $module::record($fields, launcher, work),)*
                op => Err(ErrorKind::Internal(format!("{} has no kernel of its own", op.name()))),
            }
        }
    };
}
adamant_ir::primitives!(kernels);

/// Is there arithmetic on the first input? Where i64 is only an index, it is stored as words.
fn computes_first(target: &LaunchTarget, dtypes: &[DType]) -> bool {
    dtypes.first().is_none_or(|d| target.computes(*d))
}
