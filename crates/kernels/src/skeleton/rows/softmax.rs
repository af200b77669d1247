//! Softmax, its logarithm, and their backwards, as row programs.
use super::{Pass, RowProgram, RowsLayout, all_floats, launch, pass};
use crate::launcher::{Launcher, Work, misshapen};
use adamant_ir::{
    Composite, DType, ErrorKind,
    composite::softmax::{LogSoftmax, LogSoftmaxBackward, Softmax, SoftmaxBackward},
    op::ReduceOp::{Max, Sum},
};
use std::any::Any;

/// The axis, the passes and the element of a composite, if it is one of these.
fn program(composite: &dyn Composite) -> Option<(usize, Vec<Pass>, &'static str)> {
    let any: &dyn Any = composite;
    let largest = |x| pass([(Max, x)], "let most: f32 = t0_0;\n");
    if let Some(c) = any.downcast_ref::<Softmax>() {
        return Some((c.axis, vec![largest("x0"), pass([(Sum, "adm_exp(x0 - most)")], "")], "adm_exp(x0 - most) / t1_0"));
    }
    if let Some(c) = any.downcast_ref::<LogSoftmax>() {
        let sum = pass([(Sum, "adm_exp(x0 - most)")], "let log_sum: f32 = adm_log(t1_0);\n");
        return Some((c.axis, vec![largest("x0"), sum], "(x0 - most) - log_sum"));
    }
    if let Some(c) = any.downcast_ref::<SoftmaxBackward>() {
        return Some((c.axis, vec![pass([(Sum, "x0 * x1")], "")], "x1 * (x0 - t0_0)"));
    }
    let c = any.downcast_ref::<LogSoftmaxBackward>()?;
    let sums = pass([(Sum, "adm_exp(x1 - most)"), (Sum, "x0")], "let log_sum: f32 = adm_log(t1_0);\n");
    Some((c.axis, vec![largest("x1"), sums], "x0 - adm_exp((x1 - most) - log_sum) * t1_1"))
}
/// Is there a row program for it, on these dtypes?
pub(crate) fn supports(composite: &dyn Composite, dtypes: &[DType]) -> bool {
    program(composite).is_some() && all_floats(dtypes)
}
/// Records a step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(crate) fn record(launcher: &mut dyn Launcher, work: &Work<'_>, composite: &dyn Composite) -> Result<(), ErrorKind> {
    let (Some((axis, passes, element)), Some(x), [out]) = (program(composite), work.inputs.first(), work.outputs) else {
        return Err(misshapen(composite.name()));
    };
    let program = RowProgram { full: work.inputs.to_vec(), passes, element: Some((*out, element.into())), ..RowProgram::default() };
    launch(launcher, &RowsLayout::along(x, axis), &program).map(drop)
}
