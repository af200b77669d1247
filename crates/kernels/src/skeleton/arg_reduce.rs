//! ArgReduce: where along an axis the first extreme value is. NaN counts as extreme.
use super::computes_first;
use crate::{
    bindings::{Access, Bindings},
    combine::Combine,
    frame::{GROUP, KernelFrame, Numbering, ROUNDS, SharedArray, per_element},
    launcher::{Array, Key, LaunchTarget, Launcher, Work, misshapen},
};
use adamant_ir::{
    DType, ErrorKind,
    op::{ArgOp, ReduceOp},
};

/// Is there arithmetic for it?
pub(super) fn supports(_: (&ArgOp, &u8), target: &LaunchTarget, dtypes: &[DType]) -> bool {
    computes_first(target, dtypes)
}
/// Records an ArgReduce step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(super) fn record((op, axis): (&ArgOp, &u8), launcher: &mut dyn Launcher, work: &Work<'_>) -> Result<(), ErrorKind> {
    let (op, axis) = (*op, *axis as usize);
    let ([x], [out]) = (work.inputs, work.outputs) else { return Err(misshapen("arg_reduce")) };
    let innermost = x.shape[axis + 1..].iter().all(|&d| d == 1);
    if innermost {
        // A longer or a shorter axis wants the other way.
        launcher.warm_up(&mut |other| [false, true].into_iter().try_for_each(|shared| launch(other, [x, out], op, axis, shared)))?;
    }
    launch(launcher, [x, out], op, axis, x.shape[axis] >= if innermost { 64 } else { ROUNDS })
}
/// `shared`: does a workgroup look for one extreme?
fn launch(launcher: &mut dyn Launcher, [x, out]: [&Array; 2], op: ArgOp, axis: usize, shared: bool) -> Result<(), ErrorKind> {
    let kept: Vec<usize> = (0..x.shape.rank()).filter(|&a| a != axis).collect();
    let (outputs, count) = (out.shape.elements(), x.shape[axis]);
    let mut bindings = Bindings::new(launcher.target().dialect);
    let source = bindings.bind(x.place(), Access::Read);
    let target = bindings.bind(out.place(), Access::Write);
    let mut nest = launcher.nest(0, &bindings, &x.shape, [&kept, &[axis]], &[x.layout()])?;
    let mut parameters = vec![outputs as u32, count as u32, out.offset as u32];
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.extend([shared as u8, x.dtype as u8]);
    nest.describe(&mut key);
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        // The type that an extreme is found in.
        let combine = Combine::new(ReduceOp::Max, x.dtype);
        let t = combine.type_name();
        let sign = if op == ArgOp::Max { ">" } else { "<" };
        let beats = if combine.dtype.is_float() { format!("!adm_isnan(b) && (adm_isnan(v) || v {sign} b)") } else { format!("v {sign} b") };
        let functions = combine.element(&bindings, &nest, source, x.dtype) + &format!("fn beats(v: {t}, b: {t}) -> bool {{ return {beats}; }}\n");
        let store = format!("let at: u32 = p[2u] + i;\n{}\n", bindings.set_bits(target, 8, "at", "vec2<u32>(first, 0u)"));
        if shared {
            let barrier = bindings.dialect.barrier();
            let body = format!(
                "    let i: u32 = group.y * groups.x + group.x;
    if (i >= p[0u]) {{ return; }}
    // A lane without elements of its own begins with the first of all.
    var own: u32 = select(0u, lane, lane < p[1u]);
    var best: {t} = value(i, own);
    for (var r: u32 = lane + 256u; r < p[1u]; r += 256u) {{
        let v: {t} = value(i, r);
        if (beats(v, best)) {{ best = v; own = r; }}
    }}
    bests[lane] = best;
    firsts[lane] = own;
    {barrier}
    for (var half: u32 = 128u; half > 0u; half >>= 1u) {{
        if (lane < half) {{
            let v: {t} = bests[lane + half];
            let first: u32 = firsts[lane + half];
            if (beats(v, bests[lane]) || (!beats(bests[lane], v) && first < firsts[lane])) {{ bests[lane] = v; firsts[lane] = first; }}
        }}
        {barrier}
    }}
    if (lane == 0u) {{
        let first: u32 = firsts[0];
        {store}
    }}
"
            );
            let shared = vec![SharedArray { name: "bests", of: t, length: GROUP as usize }, SharedArray { name: "firsts", of: "u32", length: GROUP as usize }];
            KernelFrame { bindings: &bindings, lanes: GROUP as usize, numbered: Numbering::InWorkgroup, shared, functions: &functions, blocks: None, body }
                .text()
        } else {
            let body = format!(
                "var first: u32 = 0u;
var best: {t} = value(i, 0u);
for (var r: u32 = 1u; r < p[1u]; r++) {{
    let v: {t} = value(i, r);
    if (beats(v, best)) {{ best = v; first = r; }}
}}
{store}"
            );
            per_element(&bindings, &functions, &body)
        }
    })?;
    if shared {
        launcher.launch_groups(pipeline, &bindings, &parameters, outputs as u64);
    } else {
        launcher.launch(pipeline, &bindings, &parameters, outputs as u64);
    }
    Ok(())
}
