//! What an op that cannot be applied answers with.
use super::{Outputs, Tensor};
use crate::{Error, ErrorKind, Op, Origin};

/// The error of an op that its inputs do not fit.
#[cold]
pub(super) fn refused(op: &Op, kind: ErrorKind, inputs: &[&Tensor], origin: Origin) -> Error {
    Error::at(op.name(), kind, origin).given(inputs.iter().map(|t| t.value.meta.ty()))
}
pub(super) fn fail_all(op: &Op, e: Error) -> Outputs {
    (0..failures(op)).map(|_| Tensor::failed(e.clone())).collect()
}
/// How many outputs an op that cannot be applied answers with.
pub(super) fn failures(op: &Op) -> usize {
    // Callers take what they need; a failed composite answers every output with its error.
    op.outputs().unwrap_or(8)
}
