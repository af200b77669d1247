//! Composites that have a skeleton of their own here. Any other's body is inlined by core.
use super::{
    attention,
    rows::{entropy, norm, softmax},
};
use crate::launcher::{LaunchTarget, Launcher, Work, misshapen};
use adamant_ir::{Composite, DType, ErrorKind};

type Supports = fn(&LaunchTarget, &dyn Composite, &[DType]) -> bool;
type Record = fn(&mut dyn Launcher, &Work<'_>, &dyn Composite) -> Result<(), ErrorKind>;
const KERNELS: [(Supports, Record); 4] = [
    (|_, c, dtypes| softmax::supports(c, dtypes), softmax::record),
    (|_, c, dtypes| norm::supports(c, dtypes), norm::record),
    (|_, c, dtypes| entropy::supports(c, dtypes), entropy::record),
    (attention::supports, attention::record),
];

/// Is there a kernel for it on these dtypes (inputs, then outputs)?
pub(crate) fn supports(target: &LaunchTarget, composite: &dyn Composite, dtypes: &[DType]) -> bool {
    KERNELS.iter().any(|(supports, _)| supports(target, composite, dtypes))
}
/// Records a composite's step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(crate) fn record(launcher: &mut dyn Launcher, work: &Work<'_>, composite: &dyn Composite) -> Result<(), ErrorKind> {
    let dtypes: Vec<DType> = work.inputs.iter().chain(work.outputs).map(|o| o.dtype).collect();
    let target = launcher.target();
    let kernel = KERNELS.iter().find(|(supports, _)| supports(&target, composite, &dtypes));
    kernel.map_or_else(|| Err(misshapen(composite.name())), |(_, record)| record(launcher, work, composite))
}
