//! Scan: running combinations along an axis, an invocation for each line.
use crate::{
    bindings::{Access, Bindings, Place},
    combine::Combine,
    copy::per_element,
    device::misshapen,
    frame::layout,
    launch::{Recorder, buffer},
    nest::{Group, Nest},
    pipeline::Key,
};
use adamant_core::{
    ErrorKind,
    kernel::Step,
    op::{ReduceOp, ScanOp},
};

/// Records a Scan step.
///
/// # Errors
/// Operands without memory; a text that cannot be compiled.
pub(crate) fn record<'a>(recorder: &mut Recorder<'a>, step: &Step<'a>, op: ScanOp, axis: usize, reverse: bool) -> Result<(), ErrorKind> {
    let [out] = step.outputs else { return Err(misshapen("scan")) };
    let gpu = recorder.gpu;
    let kept: Vec<usize> = (0..out.shape.rank()).filter(|&a| a != axis).collect();
    let lines: usize = kept.iter().map(|&a| out.shape[a]).product();
    let mut bindings = Bindings::default();
    let mut sources = Vec::new();
    for x in step.inputs {
        sources.push((bindings.bind(Place::Buffer(buffer(x)?), Access::Read), x.dtype));
    }
    let target = bindings.bind(Place::Buffer(buffer(out)?), Bindings::to_store(out.dtype.size()));
    let operands: Vec<_> = step.inputs.iter().chain(step.outputs).map(layout).collect();
    let mut nest = Nest::new(&out.shape, &kept, &[axis], &operands);
    let mut parameters = vec![lines as u32, out.shape[axis] as u32];
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.push(out.dtype as u8);
    key.extend(sources.iter().flat_map(|s| [s.0 as u8, s.1 as u8]));
    nest.describe(&mut key);
    let pipeline = gpu.pipeline(step.kernel, &key, &bindings.access, || {
        let (combine, next) = match op {
            ScanOp::Sum => (ReduceOp::Sum, None),
            ScanOp::Prod => (ReduceOp::Prod, None),
            ScanOp::Max => (ReduceOp::Max, None),
            ScanOp::Min => (ReduceOp::Min, None),
            ScanOp::LinearRecurrence => (ReduceOp::Sum, Some("v * total + w")),
        };
        let combine = Combine::new(combine, sources[0].1);
        let t = combine.type_name();
        let value = |k: usize| combine.widen(sources[k].1, &bindings.load(sources[k].0, sources[k].1, &format!("a{k}")));
        let second = if sources.len() > 1 { format!("let a1: u32 = {};\nlet w: {t} = {};\n", nest.at(1, "i"), value(1)) } else { String::new() };
        // An absent past adds nothing, even where the coefficient is infinite.
        let (first, next) = next.map_or_else(|| ("v", combine.of("total", "v")), |next| ("w", next.into()));
        let body = format!(
            "{}var total: {t} = {};
for (var s: u32 = 0u; s < p[1u]; s++) {{
let t: u32 = {};
{}let a0: u32 = {};
let v: {t} = {};
{second}if (s == 0u) {{ total = {first}; }} else {{ total = {next}; }}
let at: u32 = {};
{}
}}
",
            nest.coordinates(Group::Outer, "i"),
            combine.identity(),
            if reverse { "p[1u] - 1u - s" } else { "s" },
            nest.coordinates(Group::Inner, "t"),
            nest.at(0, "i"),
            value(0),
            nest.at(operands.len() - 1, "i"),
            bindings.store(target, out.dtype, "at", &combine.narrow(out.dtype, "total")),
        );
        Ok(bindings.module(gpu.dialect(), &per_element(&body)))
    })?;
    recorder.launch(pipeline, &bindings, &parameters, lines as u64);
    Ok(())
}
