//! Reduce: a program over an index space, combined along some axes.
//!
//! Where the reduced axes lie innermost a workgroup combines one output: its invocations take every 256th element and a
//! tree joins them. Elsewhere an invocation combines one output, and neighbours read neighbours. Long reductions are cut
//! into pieces, whose results a second launch combines. Which element meets which follows from the sizes alone, so the
//! bits are the same from run to run. How many share an output, and whether there are pieces, are parameters of one text:
//! a batch of another size compiles nothing.
use crate::{
    bindings::{Access, Bindings, Place},
    combine::Combine,
    frame::per_element,
    launcher::{Array, Key, Launcher, Work, misshapen},
    nest::AxisGroup,
    program::Program,
};
use adamant_ir::{
    AxisSet, DType, ErrorKind,
    expr::{Expr, Reg},
    op::ReduceOp,
};

/// Elements from which on a workgroup shares one output.
const SHARED: usize = 64;
/// The most elements of a piece, for a workgroup and for one invocation.
const PIECE: [usize; 2] = [64 * 1024, 1024];

/// A reduction's pieces, and how many invocations share one.
struct ReductionCut {
    lanes: usize,
    pieces: usize,
    length: usize,
}
fn cut(outputs: usize, reduced: usize, innermost: bool) -> ReductionCut {
    let shared = innermost && reduced >= SHARED;
    let pieces = if !shared {
        (8192 / outputs.max(1)).clamp(1, reduced.div_ceil(64).max(1)).max(reduced.div_ceil(PIECE[1])).max(1)
    } else if outputs < 64 {
        // Few outputs leave most of a device idle.
        reduced.div_ceil(4096).max(1)
    } else {
        reduced.div_ceil(PIECE[0]).max(1)
    };
    let length = reduced.div_ceil(pieces).max(1);
    ReductionCut { lanes: if shared { 256 } else { 1 }, pieces: reduced.div_ceil(length).max(1), length }
}

/// Records a Reduce step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(crate) fn record(launcher: &mut dyn Launcher, work: &Work<'_>, expr: &Expr, value: Reg, op: ReduceOp, axes: AxisSet) -> Result<(), ErrorKind> {
    let [out] = work.outputs else { return Err(misshapen("reduce")) };
    let (kept, reduced): (Vec<usize>, Vec<usize>) = (0..work.space.rank()).partition(|a| !axes.has(*a));
    let outputs: usize = kept.iter().map(|&a| work.space[a]).product();
    let count: usize = reduced.iter().map(|&a| work.space[a]).product();
    let innermost = (0..work.space.rank()).rev().find(|&a| work.space[a] != 1).is_none_or(|a| axes.has(a));
    let ReductionCut { lanes, pieces, length } = cut(outputs, count, innermost);

    let mut bindings = Bindings::new(launcher.target().dialect);
    let mut program = Program::new(&mut bindings, expr, work);
    let combine = Combine::new(op, program.dtype(value));
    let target = To::output(&mut bindings, out);
    // Where pieces go. How many there are follows from the sizes, so one text does for one and for many, unless the
    // adapter binds too few buffers.
    let fits = bindings.access.len() + 2 <= launcher.target().buffers;
    let parts = if fits || pieces > 1 { Some(To::scratch(&mut bindings, combine)) } else { None };
    let mut nest = launcher.nest(0, &bindings, &work.space, [&kept, &reduced], &program.operands(work))?;
    let report = program.report(launcher);
    let mut parameters =
        vec![(outputs * pieces) as u32, report, outputs as u32, length as u32, count as u32, target.offset, lanes as u32, u32::from(pieces > 1)];
    program.place(&mut bindings, &mut parameters, work);
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.extend([innermost as u8, parts.is_some() as u8, target.dtype as u8, target.binding as u8]);
    program.describe(&mut key);
    nest.describe(&mut key);
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let element = format!(
            "fn value(o: u32, r: u32) -> {} {{\n{}{}{}return {};\n}}\n",
            combine.type_name(),
            nest.coordinates(AxisGroup::Outer, "o"),
            nest.coordinates(AxisGroup::Inner, "r"),
            program.body(&bindings, &nest, "o")?,
            combine.widen(program.dtype(value), &format!("r{value}"))
        );
        main(&bindings, &element, combine, innermost, &target, parts.as_ref())
    })?;
    launcher.launch(pipeline, &bindings, &parameters, (outputs * pieces * lanes) as u64);
    if parts.is_none() {
        return Ok(());
    }

    // The pieces of an output, in order.
    let mut bindings = Bindings::new(launcher.target().dialect);
    let partial = To::scratch(&mut bindings, combine);
    let target = To::output(&mut bindings, out);
    let lanes = if pieces > 512 { 256 } else { 1 };
    let parameters = [outputs as u32, 0, outputs as u32, pieces as u32, pieces as u32, target.offset, lanes as u32, 0];
    let key = Key::from_slice(&[2, target.dtype as u8]);
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let element = format!(
            "fn value(o: u32, r: u32) -> {} {{\nlet at: u32 = r * p[2u] + o;\nreturn {};\n}}\n",
            combine.type_name(),
            bindings.load(partial.binding, combine.dtype, "at")
        );
        main(&bindings, &element, combine, true, &target, None)
    })?;
    if pieces > 1 {
        launcher.scratch((outputs * pieces) as u64 * combine.dtype.size() as u64 / 4)?;
        launcher.launch(pipeline, &bindings, &parameters, (outputs * lanes) as u64);
    }
    Ok(())
}
/// Where results go.
struct To {
    binding: usize,
    dtype: DType,
    offset: u32,
    is_scratch: bool,
}
impl To {
    /// Where its first element is.
    fn place(&self) -> &'static str {
        if self.is_scratch { "0u" } else { "p[5u]" }
    }
    fn output(bindings: &mut Bindings, out: &Array) -> To {
        let binding = bindings.bind(out.place(), Bindings::to_store(out.dtype.size()));
        To { binding, dtype: out.dtype, offset: out.offset as u32, is_scratch: false }
    }
    fn scratch(bindings: &mut Bindings, combine: Combine) -> To {
        To { binding: bindings.bind(Place::Scratch, Access::Write), dtype: combine.dtype, offset: 0, is_scratch: true }
    }
}
/// The entry point, around `fn value(o, r)`: element r of output o. `shared`: may several invocations share an output?
/// How many do is a parameter.
fn main(bindings: &Bindings, functions: &str, combine: Combine, shared: bool, target: &To, parts: Option<&To>) -> Result<String, ErrorKind> {
    let (t, identity) = (combine.type_name(), combine.identity());
    let piece = "let o: u32 = i % p[2u];
let begin: u32 = (i / p[2u]) * p[3u];
let end: u32 = min(begin + p[3u], p[4u]);
";
    let to = |target: &To| {
        format!("let at: u32 = {} + i;\n{}\n", target.place(), bindings.store(target.binding, target.dtype, "at", &combine.narrow(target.dtype, "total")))
    };
    let store = match parts {
        None => to(target),
        Some(parts) => format!("if (p[7u] == 1u) {{\n{}}} else {{\n{}}}\n", to(parts), to(target)),
    };
    if !shared {
        let body = format!(
            "{piece}var total: {t} = {identity};
for (var r: u32 = begin; r < end; r++) {{ total = {}; }}
{store}",
            combine.of("total", "value(o, r)")
        );
        return per_element(bindings, functions, &body);
    }
    let own = format!("{piece}for (var r: u32 = begin + own_lane; r < end; r += lanes) {{ total = {}; }}\n", combine.of("total", "value(o, r)"));
    combine.shared_totals(bindings, functions, ["p[0u]", "p[6u]"], identity, ["", &own, &store])
}
