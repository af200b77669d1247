//! Gather: elements picked along an axis, bits as they are. An index may be of any integer dtype and is compared as
//! words, so that adapters without 64-bit integers take i64 indices too.
use crate::{
    bindings::{Access, Bindings, Place},
    copy::per_element,
    frame::{Frame, REPORT, layout},
    gpu::internal,
    launch::{Found, Recorder, buffer},
    nest::Group,
    pipeline::Key,
    program::axes,
};
use adamant_runtime::{
    DType, ErrorKind,
    kernel::{Operand, Step},
};

/// Text of the index at `at` as its low word and its high one, the sign carried on.
pub(crate) fn index_words(bindings: &Bindings, binding: usize, dtype: DType, at: &str) -> String {
    match dtype {
        DType::I64 | DType::U64 => bindings.bits(binding, 8, at),
        d if d.is_signed() => format!("index_of({})", bindings.load(binding, d, at)),
        d => format!("vec2<u32>({}, 0u)", bindings.bits(binding, d.size(), at)),
    }
}
/// What [`index_words`] calls.
pub(crate) const INDEX_OF: &str = "fn index_of(v: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(v), bitcast<u32>(v >> 31u)); }\n";

/// Records a Gather step.
///
/// # Errors
/// Operands without memory; a text that cannot be compiled.
pub(crate) fn record<'a>(recorder: &mut Recorder<'a>, step: &Step<'a>, axis: usize) -> Result<(), ErrorKind> {
    let ([x, index], [out]) = (step.inputs, step.outputs) else { return Err(internal("a gather has two inputs and one output")) };
    let gpu = recorder.gpu;
    let size = x.dtype.size();
    let mut bindings = Bindings::default();
    let source = bindings.bind(Place::Buffer(buffer(x)?), Access::Read);
    let indices = bindings.bind(Place::Buffer(buffer(index)?), Access::Read);
    let faults = bindings.bind(Place::Faults, Access::Atomic);
    let mut frame = Frame::new(&mut bindings, &[(*out, Place::Buffer(buffer(out)?))]);
    // Along the axis the index tells where.
    let (offset, mut strides) = layout(x);
    let along = std::mem::take(&mut strides[axis]);
    let mut nest = gpu.nest(step.kernel, 0, &bindings, &out.shape, [&axes(&out.shape), &[]], &[(offset, strides), layout(index)])?;
    let report = recorder.report(step.fault, Found::Index(x.shape[axis]));
    let mut parameters = Vec::new();
    frame.place(&mut parameters, report);
    let own = parameters.len();
    parameters.extend([x.shape[axis] as u32, along as u32]);
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.extend([size as u8, index.dtype as u8, source as u8, indices as u8]);
    frame.describe(&mut key);
    nest.describe(&mut key);
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = gpu.pipeline(step.kernel, &key, &bindings.access, || {
        let zero = if size == 8 { "vec2<u32>(0u, 0u)" } else { "0u" };
        let t = if size == 8 { "vec2<u32>" } else { "u32" };
        let body = format!(
            "{}let a1: u32 = {};
let index: vec2<u32> = {};
var moved: {t} = {zero};
if (index.y == 0u && index.x < p[{own}u]) {{
    let a0: u32 = {} + index.x * p[{}u];
    moved = {};
}} else {{ atomicMin(&b{faults}[{REPORT}], i); }}
",
            nest.coordinates(Group::Outer, "i"),
            nest.at(1, "i"),
            index_words(&bindings, indices, index.dtype, "a1"),
            nest.at(0, "i"),
            own + 1,
            bindings.bits(source, size, "a0"),
        );
        Ok(bindings.module(gpu.dialect(), &format!("{INDEX_OF}{}", frame.main(&bindings, &body, &["moved".into()]))))
    })?;
    recorder.launch(pipeline, &bindings, &parameters, frame.units());
    look_up(recorder, step, index, report)
}
/// Adds to a report the index that was found at its position.
///
/// # Errors
/// Operands without memory; a text that cannot be compiled.
pub(crate) fn look_up<'a>(recorder: &mut Recorder<'a>, step: &Step<'a>, index: &Operand<'a>, report: u32) -> Result<(), ErrorKind> {
    let gpu = recorder.gpu;
    let mut bindings = Bindings::default();
    let indices = bindings.bind(Place::Buffer(buffer(index)?), Access::Read);
    let faults = bindings.bind(Place::Faults, Access::Atomic);
    let mut nest = gpu.nest(step.kernel, 1, &bindings, &index.shape, [&axes(&index.shape), &[]], &[layout(index)])?;
    let mut parameters = vec![1, report];
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.extend([0xFF, index.dtype as u8]);
    nest.describe(&mut key);
    let pipeline = gpu.pipeline(step.kernel, &key, &bindings.access, || {
        let body = format!(
            "let position: u32 = atomicLoad(&b{faults}[{REPORT}]);
if (position != 0xffffffffu) {{
    {}let a0: u32 = {};
    let index: vec2<u32> = {};
    atomicStore(&b{faults}[{REPORT} + 1u], index.x);
    atomicStore(&b{faults}[{REPORT} + 2u], index.y);
}}
",
            nest.coordinates(Group::Outer, "position"),
            nest.at(0, "position"),
            index_words(&bindings, indices, index.dtype, "a0"),
        );
        Ok(bindings.module(gpu.dialect(), &format!("{INDEX_OF}{}", per_element(&body))))
    })?;
    recorder.launch(pipeline, &bindings, &parameters, 1);
    Ok(())
}
