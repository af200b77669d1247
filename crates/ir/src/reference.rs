//! The reference interpreter: every primitive in plain f64 (integers in i64), one rounding to the dtype at the end.
//! It shares no code with rules, kernels or fusion, and is what they are compared with.
pub use crate::host::{HostArray, HostData, binary, round_float, unary, wrap_int};
use crate::{
    ErrorKind, Scalar, TensorType,
    composite::Composite,
    fault::Fault,
    host::map,
    op::{Arg, Op, arg_reduce, concat, conv, gather, map as elementwise, matmul, pad, reduce, scan, scatter, sort, update_slice, view, window},
};

/// Runs one primitive. Bad data (an index out of range) gives zero there and the first fault beside the result.
///
/// # Errors
/// An op that cannot run here.
pub fn run(op: &Op, arg: Arg, inputs: &[HostArray], types: &[TensorType]) -> Result<(Vec<HostArray>, Option<Fault>), ErrorKind> {
    let absent = || ErrorKind::Internal(format!("{} without its inputs or its type", op.name()));
    let ty = types.first().ok_or_else(absent)?;
    let input = |k: usize| inputs.get(k).ok_or_else(absent);
    let scalar = if let Arg::Scalar(s) = arg { s } else { Scalar::Int(0) };
    let start = if let Arg::Start(s) = arg { s } else { 0 };
    let one = |a: HostArray| Ok((vec![a], None));
    let faulty = |(a, fault): (HostArray, Option<Fault>)| Ok((vec![a], fault));
    match op {
        Op::Input => Err(ErrorKind::Internal("an input is never run".into())),
        op if op.is_map() => faulty(elementwise::run(op, arg, inputs, ty)?),
        Op::StopGrad | Op::Transfer(_) => one(input(0)?.clone()),
        Op::View(v) => one(view::run(v, start, input(0)?, ty)),
        Op::Pad(p) => one(pad::run(p, scalar, input(0)?, ty)),
        Op::Concat { axis } => one(concat::run(*axis, inputs, ty)),
        Op::UpdateSlice { axis } => one(update_slice::run(*axis, start, [input(0)?, input(1)?], ty)),
        Op::Reduce { op, axes } => one(reduce::run(*op, *axes, input(0)?, ty)),
        Op::ArgReduce { op, axis } => one(arg_reduce::run(*op, *axis, input(0)?, ty)),
        Op::Scan { op, axis, reverse } => one(scan::run(*op, *axis, *reverse, inputs, ty)),
        Op::Matmul => one(matmul::run([input(0)?, input(1)?], ty)),
        Op::Conv(spec) => one(conv::run(spec, inputs, ty)),
        Op::Window(spec) => Ok((window::run(spec, input(0)?, types), None)),
        Op::Gather { axis } => faulty(gather::run(*axis, [input(0)?, input(1)?], ty)),
        Op::Scatter { axis, mode } => faulty(scatter::run(*axis, *mode, [input(0)?, input(1)?, input(2)?], ty)),
        Op::Sort { axis, descending } => Ok((sort::run(*axis, *descending, input(0)?, types), None)),
        Op::Collective { .. } => Err(ErrorKind::Internal("what other ranks hold is not known here".into())),
        Op::Composite(c) => host(&**c, inputs, types),
        _ => Err(ErrorKind::Internal(format!("{} has no meaning here", op.name()))),
    }
}
/// A composite that is defined by a function of host arrays.
fn host(c: &dyn Composite, inputs: &[HostArray], types: &[TensorType]) -> Result<(Vec<HostArray>, Option<Fault>), ErrorKind> {
    let zeros = || types.iter().map(|ty| map(ty, |_| Scalar::Int(0))).collect();
    match c.host(inputs) {
        Some(Ok(out)) => Ok((out, None)),
        Some(Err(ErrorKind::Index { index, bound, position })) => Ok((zeros(), Some(Fault::Index { index, bound, position: position.unwrap_or(0) }))),
        Some(Err(ErrorKind::Domain(s))) => Ok((zeros(), Some(Fault::Domain(s)))),
        Some(Err(e)) => Err(e),
        None => Err(ErrorKind::Internal(format!("{} has neither a body that was inlined nor a host function", c.name()))),
    }
}
