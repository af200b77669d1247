//! Reduce: a program over an index space, combined along some axes.
//!
//! Where the reduced axes lie innermost a workgroup combines one output: its invocations take every 256th element and a
//! tree joins them. Elsewhere an invocation combines one output, and neighbours read neighbours. Long reductions are cut
//! into pieces, whose results a second launch combines. Which element meets which follows from the sizes alone, so the
//! bits are the same from run to run.
use crate::{
    bindings::{Bindings, Place},
    combine::Combine,
    copy::per_element,
    gpu::internal,
    launch::{Recorder, buffer},
    nest::{Group, Nest},
    pipeline::Key,
    program::Program,
};
use adamant_core::{
    AxisSet, DType, ErrorKind,
    expr::{Expr, Reg},
    kernel::Step,
    op::ReduceOp,
};

/// Elements from which on a workgroup shares one output.
const SHARED: usize = 64;
/// The most elements of a piece, for a workgroup and for one invocation.
const PIECE: [usize; 2] = [64 * 1024, 1024];

/// How a launch shares the work out.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Workgroup,
    Invocation,
}
/// A reduction's pieces.
struct Cut {
    way: Way,
    pieces: usize,
    length: usize,
}
fn cut(outputs: usize, reduced: usize, innermost: bool) -> Cut {
    let way = if innermost && reduced >= SHARED { Way::Workgroup } else { Way::Invocation };
    let pieces = match way {
        // Few outputs leave most of a device idle.
        Way::Workgroup if outputs < 64 => reduced.div_ceil(4096).max(1),
        Way::Workgroup => reduced.div_ceil(PIECE[0]).max(1),
        Way::Invocation => (8192 / outputs.max(1)).clamp(1, reduced.div_ceil(64).max(1)).max(reduced.div_ceil(PIECE[1])).max(1),
    };
    let length = reduced.div_ceil(pieces).max(1);
    Cut { way, pieces: reduced.div_ceil(length).max(1), length }
}

/// Records a Reduce step.
///
/// # Errors
/// Operands without memory; a text that cannot be compiled.
pub(crate) fn record<'a>(recorder: &mut Recorder<'a>, step: &Step<'a>, expr: &Expr, value: Reg, op: ReduceOp, axes: AxisSet) -> Result<(), ErrorKind> {
    let [out] = step.outputs else { return Err(internal("a reduction has one output")) };
    let gpu = recorder.gpu;
    let (kept, reduced): (Vec<usize>, Vec<usize>) = (0..step.space.rank()).partition(|a| !axes.has(*a));
    let outputs: usize = kept.iter().map(|&a| step.space[a]).product();
    let count: usize = reduced.iter().map(|&a| step.space[a]).product();
    let innermost = (0..step.space.rank()).rev().find(|&a| step.space[a] != 1).is_none_or(|a| axes.has(a));
    let Cut { way, pieces, length } = cut(outputs, count, innermost);

    let mut bindings = Bindings::default();
    let mut program = Program::new(&mut bindings, expr, step)?;
    let combine = Combine::new(op, program.dtype(value));
    let target = if pieces == 1 { Target::output(&mut bindings, out)? } else { Target::scratch(&mut bindings, combine) };
    let mut nest = Nest::new(&step.space, &kept, &reduced, &program.operands(step));
    let report = program.report(recorder, step.fault);
    let mut parameters = vec![(outputs * pieces) as u32, report, outputs as u32, length as u32, count as u32, target.offset];
    program.place(&mut parameters, step);
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.extend([way as u8, (pieces > 1) as u8, target.dtype as u8, target.binding as u8]);
    program.describe(&mut key);
    nest.describe(&mut key);
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = gpu.pipeline(step.kernel, &key, &bindings.access, || {
        let element = format!(
            "fn value(o: u32, r: u32) -> {} {{\n{}{}{}return {};\n}}\n",
            combine.type_name(),
            nest.coordinates(Group::Outer, "o"),
            nest.coordinates(Group::Inner, "r"),
            program.body(gpu, &bindings, &nest, "o")?,
            combine.widen(program.dtype(value), &format!("r{value}"))
        );
        Ok(bindings.module(gpu.dialect(), &(element + &main(&bindings, combine, way, &target))))
    })?;
    launch(recorder, pipeline, &bindings, &parameters, way, outputs * pieces);
    if pieces == 1 {
        return Ok(());
    }

    // The pieces of an output, in order.
    let words = (outputs * pieces) as u64 * combine.dtype.size() as u64 / 4;
    recorder.scratch(words)?;
    let mut bindings = Bindings::default();
    let partial = Target::scratch(&mut bindings, combine);
    let target = Target::output(&mut bindings, out)?;
    let way = if pieces > 512 { Way::Workgroup } else { Way::Invocation };
    let parameters = [outputs as u32, 0, outputs as u32, pieces as u32, pieces as u32, target.offset];
    let mut key = Key::new();
    key.extend([2 + way as u8, target.dtype as u8]);
    let pipeline = gpu.pipeline(step.kernel, &key, &bindings.access, || {
        let element = format!(
            "fn value(o: u32, r: u32) -> {} {{\nlet at: u32 = r * p[2u] + o;\nreturn {};\n}}\n",
            combine.type_name(),
            bindings.load(partial.binding, combine.dtype, "at")
        );
        Ok(bindings.module(gpu.dialect(), &(element + &main(&bindings, combine, way, &target))))
    })?;
    launch(recorder, pipeline, &bindings, &parameters, way, outputs);
    Ok(())
}
fn launch(recorder: &mut Recorder<'_>, pipeline: std::sync::Arc<crate::pipeline::Pipeline>, bindings: &Bindings, parameters: &[u32], way: Way, results: usize) {
    match way {
        Way::Workgroup => recorder.launch_groups(pipeline, bindings, parameters, results as u64),
        Way::Invocation => recorder.launch(pipeline, bindings, parameters, results as u64),
    }
}
/// Where results go.
struct Target {
    binding: usize,
    dtype: DType,
    offset: u32,
}
impl Target {
    fn output(bindings: &mut Bindings, out: &adamant_core::kernel::Operand<'_>) -> Result<Target, ErrorKind> {
        let binding = bindings.bind(Place::Buffer(buffer(out)?), Bindings::to_store(out.dtype.size()));
        Ok(Target { binding, dtype: out.dtype, offset: out.offset as u32 })
    }
    fn scratch(bindings: &mut Bindings, combine: Combine) -> Target {
        Target { binding: bindings.bind(Place::Scratch, crate::bindings::Access::Write), dtype: combine.dtype, offset: 0 }
    }
}
/// The entry point, around `fn value(o, r)`: element r of output o.
fn main(bindings: &Bindings, combine: Combine, way: Way, target: &Target) -> String {
    let (t, identity) = (combine.type_name(), combine.identity());
    let piece = "let o: u32 = i % p[2u];
let begin: u32 = (i / p[2u]) * p[3u];
let end: u32 = min(begin + p[3u], p[4u]);
";
    let store = format!("let at: u32 = p[5u] + i;\n{}\n", bindings.store(target.binding, target.dtype, "at", &combine.narrow(target.dtype, "total")));
    match way {
        Way::Invocation => per_element(&format!(
            "{piece}var total: {t} = {identity};
for (var r: u32 = begin; r < end; r++) {{ total = {}; }}
{store}",
            combine.of("total", "value(o, r)")
        )),
        Way::Workgroup => format!(
            "var<workgroup> partial: array<{t}, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
    let i: u32 = group.y * groups.x + group.x;
    if (i >= p[0u]) {{ return; }}
    {piece}
    var own: {t} = {identity};
    for (var r: u32 = begin + lane; r < end; r += 256u) {{ own = {}; }}
    partial[lane] = own;
    workgroupBarrier();
    for (var half: u32 = 128u; half > 0u; half >>= 1u) {{
        if (lane < half) {{ partial[lane] = {}; }}
        workgroupBarrier();
    }}
    if (lane == 0u) {{
        let total: {t} = partial[0];
        {store}
    }}
}}
",
            combine.of("own", "value(o, r)"),
            combine.of("partial[lane]", "partial[lane + half]")
        ),
    }
}
