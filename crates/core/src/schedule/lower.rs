//! What a backend need not do: scans, sorts, indices of extremes, convolutions and sliding windows, said with maps, copies,
//! reductions and matrix products. A device that does not claim one of these families gets its body here in its place, as a
//! composite that it does not claim gets its own. A body costs more than the kernel would, by a factor that its file names;
//! its meaning is the op's. Must not know who asks.
use crate::{
    DType, Device, Op,
    backend::Support,
    primitive::{self, Body},
};

pub(crate) mod arg_reduce;
mod conv;
pub(crate) mod scan;
mod slide;
pub(crate) mod sort;
pub(crate) mod window;

/// The op's results from ops that every backend does, if the device has no kernel for it on these dtypes and there is such a
/// body. Its inputs have passed the op's inference.
pub(super) fn body(op: &Op, device: Device, dtypes: &[DType]) -> Option<Body> {
    if op.is_map() || op.is_view() || matches!(op, Op::Composite(_)) {
        return None;
    }
    let kernel = op.kernel()?;
    if device.backend().supports(&kernel, dtypes) != Support::No {
        return None;
    }
    match op {
        Op::Conv(spec) => {
            let spec = spec.clone();
            Some(Box::new(move |x| Ok(vec![conv::body(&spec, &x[0], &x[1])?])))
        }
        op => primitive::body(op),
    }
}
