//! Composites that have a kernel of their own here. Any other's body is inlined by core.
use crate::{launch::Recorder, rows};
use adamant_core::{Composite, DType, ErrorKind, kernel::Step};

/// Is there a kernel for it on these dtypes (inputs, then outputs)?
pub(crate) fn supports(composite: &dyn Composite, dtypes: &[DType]) -> bool {
    rows::supports(composite, dtypes)
}
/// Records a composite's step.
///
/// # Errors
/// Operands without memory; a text that cannot be compiled.
pub(crate) fn record<'a>(recorder: &mut Recorder<'a>, step: &Step<'a>, composite: &dyn Composite) -> Result<(), ErrorKind> {
    rows::record(recorder, step, composite)
}
