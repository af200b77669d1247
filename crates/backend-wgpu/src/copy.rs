//! Copy: elements moved between two layouts, bits as they are.
use crate::{
    bindings::{Access, Bindings, Place},
    frame::{Frame, layout},
    launch::{Recorder, buffer},
    nest::Group,
    pipeline::Key,
    program::axes,
};
use adamant_runtime::{
    ErrorKind,
    kernel::{Operand, Step},
};

/// Records a Copy step.
///
/// # Errors
/// Operands without memory; a text that cannot be compiled.
pub(crate) fn record<'a>(recorder: &mut Recorder<'a>, step: &Step<'a>) -> Result<(), ErrorKind> {
    let ([from], [to]) = (step.inputs, step.outputs) else { return Err(crate::gpu::internal("a copy has one input and one output")) };
    // Elements that share words are written word by word where they lie in one piece, which a place in a larger tensor may
    // or may not do, as its sizes are.
    let in_words = from.dtype.size() < 4;
    if in_words {
        recorder.rehearse(step, |other| [true, false].into_iter().try_for_each(|dense| launch(other, step, from, &Operand { dense, ..*to })))?;
    }
    launch(recorder, step, from, &Operand { dense: in_words && to.dense, ..*to })
}
fn launch<'a>(recorder: &mut Recorder<'a>, step: &Step<'a>, from: &Operand<'a>, to: &Operand<'a>) -> Result<(), ErrorKind> {
    let gpu = recorder.gpu;
    let size = from.dtype.size();
    let mut bindings = Bindings::default();
    let source = bindings.bind(Place::Buffer(buffer(from)?), Access::Read);
    let (mut parameters, mut key) = (Vec::new(), Key::new());
    key.push(size as u8);
    if to.dense {
        let mut frame = Frame::new(&mut bindings, &[(*to, Place::Buffer(buffer(to)?))]);
        let mut nest = gpu.nest(step.kernel, 0, &bindings, &step.space, [&axes(&step.space), &[]], &[layout(from)])?;
        frame.place(&mut parameters, 0);
        nest.place(&mut parameters);
        frame.describe(&mut key);
        nest.describe(&mut key);
        key.extend(bindings.access.iter().map(|a| *a as u8));
        let pipeline = gpu.pipeline(step.kernel, &key, &bindings.access, || {
            let body = format!("{}let a0: u32 = {};\n", nest.coordinates(Group::Outer, "i"), nest.at(0, "i"));
            Ok(bindings.module(gpu.dialect(), &frame.main(&bindings, &body, &[bindings.bits(source, size, "a0")])))
        })?;
        recorder.launch(pipeline, &bindings, &parameters, frame.units());
        return Ok(());
    }
    let target = bindings.bind(Place::Buffer(buffer(to)?), Bindings::to_store(size));
    let mut nest = gpu.nest(step.kernel, 1, &bindings, &step.space, [&axes(&step.space), &[]], &[layout(from), layout(to)])?;
    parameters.push(step.space.elements() as u32);
    nest.place(&mut parameters);
    nest.describe(&mut key);
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = gpu.pipeline(step.kernel, &key, &bindings.access, || {
        let body = format!(
            "{}let a0: u32 = {};\nlet a1: u32 = {};\n{}\n",
            nest.coordinates(Group::Outer, "i"),
            nest.at(0, "i"),
            nest.at(1, "i"),
            bindings.set_bits(target, size, "a1", &bindings.bits(source, size, "a0"))
        );
        Ok(bindings.module(gpu.dialect(), &per_element(&body)))
    })?;
    recorder.launch(pipeline, &bindings, &parameters, step.space.elements() as u64);
    Ok(())
}
/// The entry point of a kernel that does `body` once for each `i` below the first parameter.
pub(crate) fn per_element(body: &str) -> String {
    format!(
        "@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
    let i: u32 = (group.y * groups.x + group.x) * 256u + lane;
    if (i >= p[0u]) {{ return; }}
{body}}}
"
    )
}
