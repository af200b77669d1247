//! Gather: elements picked along an axis, bits as they are. An index may be of any integer dtype and is compared as
//! words, so that adapters without 64-bit integers take i64 indices too.
use crate::{
    bindings::{Access, Bindings, Place},
    dense::{Dense, REPORT},
    frame::per_element,
    launcher::{Array, Found, Key, LaunchTarget, Launcher, Work, misshapen},
    nest::AxisGroup,
    program::axes,
};
use adamant_ir::{DType, ErrorKind};

/// Text of the index at `at` as its low word and its high one, the sign carried on.
pub(crate) fn index_words(bindings: &Bindings, binding: usize, dtype: DType, at: &str) -> String {
    match dtype {
        DType::I64 | DType::U64 => bindings.bits(binding, 8, at),
        d if d.is_signed() => format!("index_of({})", bindings.load(binding, d, at)),
        d => format!("vec2<u32>({}, 0u)", bindings.bits(binding, d.size(), at)),
    }
}
/// What [`index_words`] calls.
pub(crate) const INDEX_OF: &str = "fn index_of(v: i32) -> vec2<u32> { return vec2<u32>(u32(v), u32(v >> 31u)); }\n";

/// Elements of any dtype are moved.
pub(super) fn supports(_: &u8, _: &LaunchTarget, _: &[DType]) -> bool {
    true
}
/// Records a Gather step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(super) fn record(axis: &u8, launcher: &mut dyn Launcher, work: &Work<'_>) -> Result<(), ErrorKind> {
    let axis = *axis as usize;
    let ([x, index], [out]) = (work.inputs, work.outputs) else { return Err(misshapen("gather")) };
    let size = x.dtype.size();
    let mut bindings = Bindings::new(launcher.target().dialect);
    let source = bindings.bind(x.place(), Access::Read);
    let indices = bindings.bind(index.place(), Access::Read);
    let faults = bindings.bind(Place::Faults, Access::Atomic);
    let mut dense = Dense::new(&mut bindings, &[(*out, out.place())]);
    // Along the axis the index tells where.
    let (offset, mut strides) = x.layout();
    let along = std::mem::take(&mut strides[axis]);
    let mut nest = launcher.nest(0, &bindings, &out.shape, [&axes(&out.shape), &[]], &[(offset, strides), index.layout()])?;
    let report = launcher.report(Found::Index(x.shape[axis]));
    let mut parameters = Vec::new();
    dense.place(&mut parameters, report);
    let own = parameters.len();
    parameters.extend([x.shape[axis] as u32, along as u32]);
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.extend([size as u8, index.dtype as u8, source as u8, indices as u8]);
    dense.describe(&mut key);
    nest.describe(&mut key);
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let zero = if size == 8 { "vec2<u32>(0u, 0u)" } else { "0u" };
        let t = if size == 8 { "vec2<u32>" } else { "u32" };
        let body = format!(
            "{}let a1: u32 = {};
let index: vec2<u32> = {};
var moved: {t} = {zero};
if (index.y == 0u && index.x < p[{own}u]) {{
    let a0: u32 = {} + index.x * p[{}u];
    moved = {};
}} else {{ {} }}
",
            nest.coordinates(AxisGroup::Outer, "i"),
            nest.at(1, "i"),
            index_words(&bindings, indices, index.dtype, "a1"),
            nest.at(0, "i"),
            own + 1,
            bindings.bits(source, size, "a0"),
            bindings.atomic_min(faults, REPORT, "i"),
        );
        dense.text(&bindings, INDEX_OF, &body, &["moved".into()])
    })?;
    launcher.launch(pipeline, &bindings, &parameters, dense.units());
    look_up(launcher, index, report)
}
/// Adds to a report the index that was found at its position.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(crate) fn look_up(launcher: &mut dyn Launcher, index: &Array, report: u32) -> Result<(), ErrorKind> {
    let mut bindings = Bindings::new(launcher.target().dialect);
    let indices = bindings.bind(index.place(), Access::Read);
    let faults = bindings.bind(Place::Faults, Access::Atomic);
    let mut nest = launcher.nest(1, &bindings, &index.shape, [&axes(&index.shape), &[]], &[index.layout()])?;
    let mut parameters = vec![1, report];
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.extend([0xFF, index.dtype as u8]);
    nest.describe(&mut key);
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let body = format!(
            "let position: u32 = {};
if (position != 0xffffffffu) {{
    {}let a0: u32 = {};
    let index: vec2<u32> = {};
    {}
    {}
}}
",
            bindings.word(faults, REPORT),
            nest.coordinates(AxisGroup::Outer, "position"),
            nest.at(0, "position"),
            index_words(&bindings, indices, index.dtype, "a0"),
            bindings.set_word(faults, &format!("{REPORT} + 1u"), "index.x"),
            bindings.set_word(faults, &format!("{REPORT} + 2u"), "index.y"),
        );
        per_element(&bindings, INDEX_OF, &body)
    })?;
    launcher.launch(pipeline, &bindings, &parameters, 1);
    Ok(())
}
