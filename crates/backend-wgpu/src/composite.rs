//! Composites that have a kernel of their own here. Any other's body is inlined by core.
use crate::{device::misshapen, launch::Recorder};
use adamant_core::{Composite, DType, ErrorKind, kernel::Step};

/// Is there a kernel for it on these dtypes (inputs, then outputs)?
pub(crate) fn supports(_composite: &dyn Composite, _dtypes: &[DType]) -> bool {
    false
}
/// Records a composite's step.
///
/// # Errors
/// It was not claimed.
pub(crate) fn record(_recorder: &mut Recorder<'_>, _step: &Step<'_>, composite: &dyn Composite) -> Result<(), ErrorKind> {
    Err(misshapen(composite.name()))
}
