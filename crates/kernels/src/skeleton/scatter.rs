//! Scatter: elements written where an index says, in an order that the index fixes: no atomic sums.
//!
//! Lines along the axis never meet. Where there are many, an invocation takes a line and walks its index in order; few
//! long ones go by sorted indices. Sums and products of 16-bit floats run in f32: the destination is widened before and
//! rounded once after.
mod sorted;

use super::{
    gather::{INDEX_OF, index_words, look_up},
    matmul::narrowed,
};
use crate::{
    bindings::{Access, Bindings, Place},
    combine::Combine,
    dense::REPORT,
    frame::{ROUNDS, per_element},
    launcher::{Array, Found, Key, Launcher, Work, misshapen},
    nest::AxisGroup,
    program::axes,
};
use adamant_ir::{
    DType, ErrorKind,
    op::{ReduceOp, ScatterMode},
};

/// What is done with the elements of one place.
struct ScatterRule<'a> {
    index: &'a Array,
    source: &'a Array,
    out: &'a Array,
    /// `None`: the last one stays
    combine: Option<Combine>,
}
impl ScatterRule<'_> {
    /// Statements that combine a value with the element at `to` of the destination.
    fn store(&self, bindings: &Bindings, target: usize, value: &str) -> String {
        self.store_as(bindings, target, self.out.dtype, value)
    }
    /// As [`ScatterRule::store`], where the destination holds another dtype.
    fn store_as(&self, bindings: &Bindings, target: usize, held: DType, value: &str) -> String {
        let Some(combine) = self.combine else { return String::new() };
        let old = combine.widen(held, &bindings.load(target, held, "to"));
        bindings.store(target, held, "to", &combine.narrow(held, &combine.of(&old, value)))
    }
}
/// How two elements are combined; each step wraps as the sum of all would.
fn combine(mode: ScatterMode, dtype: DType) -> Option<Combine> {
    let op = reduction(mode)?;
    Some(if dtype.is_float() || matches!(op, ReduceOp::Max | ReduceOp::Min) {
        Combine::new(op, dtype)
    } else {
        Combine { op, ..Combine::new(ReduceOp::Max, dtype) }
    })
}
/// A statement that reports a position.
fn report_bad(bindings: &Bindings, faults: usize, position: &str) -> String {
    bindings.atomic_min(faults, REPORT, position)
}
/// Records a Scatter step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled; more scratch than there is.
pub(crate) fn record(launcher: &mut dyn Launcher, work: &Work<'_>, axis: usize, mode: ScatterMode) -> Result<(), ErrorKind> {
    let ([index, source], [out]) = (work.inputs, work.outputs) else { return Err(misshapen("scatter")) };
    let rule = ScatterRule { index, source, out, combine: combine(mode, out.dtype) };
    let lines = sorted::ScatterLines::new(index, axis);
    if lines.may_pay(&launcher.target()) {
        // Which of the two is better follows from the sizes.
        launcher.warm_up(&mut |other| {
            by_lines(other, axis, mode, &rule)?;
            sorted::record(other, axis, &rule, &lines)
        })?;
    }
    if lines.pay(&launcher.target()) { sorted::record(launcher, axis, &rule, &lines) } else { by_lines(launcher, axis, mode, &rule) }
}
/// An invocation for each line; a long one is walked by several launches, one after the other.
fn by_lines(launcher: &mut dyn Launcher, axis: usize, mode: ScatterMode, rule: &ScatterRule<'_>) -> Result<(), ErrorKind> {
    let ScatterRule { index, source, out, .. } = *rule;
    let wide = out.dtype.is_float() && out.dtype.size() == 2 && matches!(mode, ScatterMode::Add | ScatterMode::Mul);
    if wide {
        launcher.scratch(out.shape.elements() as u64)?;
        exchange(launcher, out, true)?;
    }
    let mut bindings = Bindings::new(launcher.target().dialect);
    let indices = bindings.bind(index.place(), Access::Read);
    let values = bindings.bind(source.place(), Access::Read);
    // In scratch the destination is dense, of f32.
    let held = if wide { DType::F32 } else { out.dtype };
    let place = if wide { Place::Scratch } else { out.place() };
    let target = bindings.bind(place, Bindings::to_store(held.size()));
    let faults = bindings.bind(Place::Faults, Access::Atomic);
    let (offset, mut strides) = if wide { (0, out.shape.strides()) } else { out.layout() };
    let along = std::mem::take(&mut strides[axis]);
    let kept: Vec<usize> = (0..index.shape.rank()).filter(|&a| a != axis).collect();
    let lines: usize = kept.iter().map(|&a| index.shape[a]).product();
    // The position in the index tensor, for the report.
    let number = (0, index.shape.strides());
    let mut nest = launcher.nest(2, &bindings, &index.shape, [&kept, &[axis]], &[index.layout(), source.layout(), (offset, strides), number])?;
    let report = launcher.report(Found::Index(out.shape[axis]));
    let n = index.shape[axis];
    let mut parameters = vec![lines as u32, report, 0, 0, out.shape[axis] as u32, along as u32];
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.extend([index.dtype as u8, out.dtype as u8, indices as u8, values as u8, target as u8]);
    nest.describe(&mut key);
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let size = out.dtype.size();
        let write = match rule.combine {
            None => bindings.set_bits(target, size, "to", &bindings.bits(values, size, "a1")),
            Some(combine) => rule.store_as(&bindings, target, held, &combine.widen(source.dtype, &bindings.load(values, source.dtype, "a1"))),
        };
        let body = format!(
            "{}for (var s: u32 = p[2u]; s < p[3u]; s++) {{
{}let a0: u32 = {};
let index: vec2<u32> = {};
if (index.y == 0u && index.x < p[4u]) {{
let a1: u32 = {};
let to: u32 = {} + index.x * p[5u];
{write}
}} else {{ {} }}
}}
",
            nest.coordinates(AxisGroup::Outer, "i"),
            nest.coordinates(AxisGroup::Inner, "s"),
            nest.at(0, "i"),
            index_words(&bindings, indices, index.dtype, "a0"),
            nest.at(1, "i"),
            nest.at(2, "i"),
            report_bad(&bindings, faults, &nest.at(3, "i")),
        );
        per_element(&bindings, INDEX_OF, &body)
    })?;
    for begin in (0..n).step_by(ROUNDS) {
        (parameters[2], parameters[3]) = (begin as u32, n.min(begin + ROUNDS) as u32);
        launcher.launch(pipeline, &bindings, &parameters, lines as u64);
    }
    if wide {
        exchange(launcher, out, false)?;
    }
    look_up(launcher, index, report)
}
fn reduction(mode: ScatterMode) -> Option<ReduceOp> {
    match mode {
        ScatterMode::Set => None,
        ScatterMode::Add => Some(ReduceOp::Sum),
        ScatterMode::Mul => Some(ReduceOp::Prod),
        ScatterMode::Max => Some(ReduceOp::Max),
        ScatterMode::Min => Some(ReduceOp::Min),
    }
}
/// Moves a destination of 16-bit floats into f32 in scratch (`widen`), or back.
fn exchange(launcher: &mut dyn Launcher, out: &Array, widen: bool) -> Result<(), ErrorKind> {
    let mut bindings = Bindings::new(launcher.target().dialect);
    let narrow = bindings.bind(out.place(), if widen { Access::Read } else { Access::Atomic });
    let wide = bindings.bind(Place::Scratch, Access::Write);
    let mut nest = launcher.nest(3, &bindings, &out.shape, [&axes(&out.shape), &[]], &[out.layout()])?;
    let mut parameters = vec![out.shape.elements() as u32];
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.extend([0xFD, widen as u8, out.dtype as u8]);
    nest.describe(&mut key);
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let moved = if widen {
            bindings.store(wide, DType::F32, "i", &bindings.load(narrow, out.dtype, "a0"))
        } else {
            bindings.store(narrow, out.dtype, "a0", &narrowed(out.dtype, &bindings.load(wide, DType::F32, "i")))
        };
        let body = format!("{}let a0: u32 = {};\n{moved}\n", nest.coordinates(AxisGroup::Outer, "i"), nest.at(0, "i"));
        per_element(&bindings, "", &body)
    })?;
    launcher.launch(pipeline, &bindings, &parameters, out.shape.elements() as u64);
    Ok(())
}
