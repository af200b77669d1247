//! Composites on this backend: those defined on the host, and the kernels that claim one by name.
use crate::{
    device::CpuKernel,
    linalg::FactorKernel,
    operand::{In, Out, internal},
};
use adamant_runtime::{
    Composite, ErrorKind, HostArray,
    kernel::{Fault, FaultWord},
};
use std::{collections::HashMap, sync::Arc};

/// The kernels that this crate brings.
pub(crate) fn own() -> HashMap<&'static str, Arc<dyn CpuKernel>> {
    let mut all = crate::fused::kernels();
    let factor: Arc<dyn CpuKernel> = Arc::new(FactorKernel);
    all.extend(FactorKernel::NAMES.map(|name| (name, factor.clone())));
    all
}
/// Runs a composite by its host function. Bad values give zeros and a fault.
///
/// # Errors
/// It has no host function, or that one failed for another reason than its data.
pub(crate) fn host(composite: &dyn Composite, inputs: &[In<'_>], outputs: &mut [Out<'_>], fault: &FaultWord) -> Result<(), ErrorKind> {
    let arrays: Vec<HostArray> = inputs
        .iter()
        .map(|i| {
            let size = i.dtype.size();
            if !i.is_dense {
                return Err(internal("a dense operand was promised"));
            }
            // A view of nothing may start anywhere.
            let start = if i.shape.elements() == 0 { 0 } else { i.layout.offset * size };
            let bytes = i.bytes.get(start..start + i.shape.elements() * size).ok_or_else(|| internal("an operand leaves its buffer"))?;
            Ok(HostArray::from_bytes(i.shape, i.dtype, bytes))
        })
        .collect::<Result<_, _>>()?;
    let results = match composite.host(&arrays) {
        Some(Ok(results)) => results,
        Some(Err(ErrorKind::Index { index, bound, position, .. })) => {
            return zeros(outputs, fault, Fault::Index { index, bound, position: position.unwrap_or(0) });
        }
        Some(Err(ErrorKind::Domain(s))) => return zeros(outputs, fault, Fault::Domain(s)),
        Some(Err(e)) => return Err(e),
        None => return Err(ErrorKind::Unsupported { backend: "cpu".into(), what: composite.name().into() }),
    };
    if results.len() < outputs.len() {
        return Err(ErrorKind::Internal(format!("{} gave {} results, {} were declared", composite.name(), results.len(), outputs.len())));
    }
    for (o, a) in outputs.iter_mut().zip(&results) {
        let bytes = a.to_bytes();
        let to = o.dense_bytes()?;
        if to.len() != bytes.len() {
            return Err(ErrorKind::Internal(format!("{} gave {} of {}, declared was {} of {}", composite.name(), a.shape, a.dtype, o.shape, o.dtype)));
        }
        to.copy_from_slice(&bytes);
    }
    Ok(())
}
/// Gives zeros and reports what was found.
pub(crate) fn zeros(outputs: &mut [Out<'_>], fault: &FaultWord, found: Fault) -> Result<(), ErrorKind> {
    fault.set(found);
    for o in outputs {
        o.dense_bytes()?.fill(0);
    }
    Ok(())
}
