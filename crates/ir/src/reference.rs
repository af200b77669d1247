//! The reference interpreter: every primitive in plain f64 (integers in i64), one rounding to the dtype at the end.
//! It shares no code with rules, kernels or fusion, and is what they are compared with.
pub use crate::host::{HostArray, HostData, binary, round_float, unary, wrap_int};
use crate::{
    ErrorKind, Scalar, TensorType,
    composite::Composite,
    fault::Fault,
    host::map,
    op::{Arg, Op},
};

/// Runs one primitive. Bad data (an index out of range) gives zero there and the first fault beside the result.
///
/// # Errors
/// An op that cannot run here.
pub fn run(op: &Op, arg: Arg, inputs: &[HostArray], types: &[TensorType]) -> Result<(Vec<HostArray>, Option<Fault>), ErrorKind> {
    match op {
        Op::Composite(c) => host(&**c, inputs, types),
        op => op.run(arg, inputs, types),
    }
}
/// A composite that is defined by a function of host arrays.
fn host(c: &dyn Composite, inputs: &[HostArray], types: &[TensorType]) -> Result<(Vec<HostArray>, Option<Fault>), ErrorKind> {
    let zeros = || types.iter().map(|ty| map(ty, |_| Scalar::Int(0))).collect();
    match c.host(inputs) {
        Some(Ok(out)) => Ok((out, None)),
        Some(Err(ErrorKind::Index { index, bound, position, .. })) => Ok((zeros(), Some(Fault::Index { index, bound, position: position.unwrap_or(0) }))),
        Some(Err(ErrorKind::Domain(s))) => Ok((zeros(), Some(Fault::Domain(s)))),
        Some(Err(e)) => Err(e),
        None => Err(ErrorKind::Internal(format!("{} has neither a body that was inlined nor a host function", c.name()))),
    }
}
