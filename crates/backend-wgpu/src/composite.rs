//! Composites that have a kernel of their own here. Any other's body is inlined by core.
use crate::{
    attention,
    gpu::Gpu,
    launch::Recorder,
    rows::{entropy, norm, softmax},
};
use adamant_runtime::{Composite, DType, ErrorKind, kernel::Step};

type Supports = fn(&Gpu, &dyn Composite, &[DType]) -> bool;
type Record = for<'a> fn(&mut Recorder<'a>, &Step<'a>, &dyn Composite) -> Result<(), ErrorKind>;
const KERNELS: [(Supports, Record); 4] = [
    (|_, c, dtypes| softmax::supports(c, dtypes), softmax::record),
    (|_, c, dtypes| norm::supports(c, dtypes), norm::record),
    (|_, c, dtypes| entropy::supports(c, dtypes), entropy::record),
    (attention::supports, attention::record),
];

/// Is there a kernel for it on these dtypes (inputs, then outputs)?
pub(crate) fn supports(gpu: &Gpu, composite: &dyn Composite, dtypes: &[DType]) -> bool {
    KERNELS.iter().any(|(supports, _)| supports(gpu, composite, dtypes))
}
/// Records a composite's step.
///
/// # Errors
/// Operands without memory; a text that cannot be compiled.
pub(crate) fn record<'a>(recorder: &mut Recorder<'a>, step: &Step<'a>, composite: &dyn Composite) -> Result<(), ErrorKind> {
    let dtypes: Vec<DType> = step.inputs.iter().chain(step.outputs).map(|o| o.dtype).collect();
    let kernel = KERNELS.iter().find(|(supports, _)| supports(recorder.gpu, composite, &dtypes));
    kernel.map_or_else(|| Err(crate::device::misshapen(composite.name())), |(_, record)| record(recorder, step, composite))
}
