//! What a backend need not do: scans, sorts, indices of extremes, convolutions and sliding windows, said with maps, copies,
//! reductions and matrix products. A device that does not claim one of these families gets its body here in its place, as a
//! composite that it does not claim gets its own. A body costs more than the kernel would, by a factor that its file names;
//! its meaning is the op's. Must not know who asks.
use crate::{Op, Result, Tensor, backend::Support, kernel::KernelKind};

mod arg_reduce;
mod conv;
mod scan;
mod slide;
mod sort;
mod window;

/// The kernel of an op that has a body here.
pub(super) fn kernel(op: &Op) -> Option<KernelKind> {
    Some(match op {
        Op::ArgReduce { op, axis } => KernelKind::ArgReduce { op: *op, axis: *axis },
        Op::Scan { op, axis, reverse } => KernelKind::Scan { op: *op, axis: *axis, reverse: *reverse },
        Op::Sort { axis, descending } => KernelKind::Sort { axis: *axis, descending: *descending },
        Op::Conv(spec) => KernelKind::Conv(spec.clone()),
        Op::Window(spec) => KernelKind::Window(spec.clone()),
        _ => return None,
    })
}
/// Does the device leave the op to its body?
pub(super) fn is_lowered(op: &Op, device: crate::Device, dtypes: &[crate::DType]) -> bool {
    kernel(op).is_some_and(|kind| device.backend().supports(&kind, dtypes) == Support::No)
}
/// The op's results from ops that every backend does. Inputs have passed the op's inference.
///
/// # Errors
/// A result too large for memory.
pub(super) fn body(op: &Op, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    match (op, inputs) {
        (Op::ArgReduce { op, axis }, [x]) => Ok(vec![arg_reduce::body(*op, *axis, x)]),
        (Op::Scan { op, axis, reverse }, _) => Ok(vec![scan::body(*op, *axis as usize, *reverse, inputs)]),
        (Op::Sort { axis, descending }, [x]) => sort::body(*axis, *descending, x),
        (Op::Conv(spec), [a, b]) => Ok(vec![conv::body(spec, a, b)?]),
        (Op::Window(spec), [x]) => window::body(spec, x),
        _ => Err(crate::Error::new(op.name(), crate::ErrorKind::Internal("there is no body for it".into()))),
    }
}
