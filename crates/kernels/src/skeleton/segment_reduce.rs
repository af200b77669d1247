//! Combining runs of neighbours along an axis: an invocation takes in one segment of one line, from its first element to its
//! last. Offsets may be of any integer dtype and are compared as words.
use super::gather::{INDEX_OF, index_words, look_up};
use crate::{
    bindings::{Access, Bindings, Place},
    combine::Combine,
    dense::{Dense, REPORT},
    launcher::{Found, Key, Launcher, Target, Work, misshapen},
    nest::Group,
    program::axes,
};
use adamant_ir::{DType, ErrorKind, op::SegmentOp};

type Fields<'a> = (&'a SegmentOp, &'a u8);

/// Is there arithmetic for it? Offsets are words.
pub(super) fn supports((op, _): Fields<'_>, target: &Target, dtypes: &[DType]) -> bool {
    dtypes.first().is_none_or(|d| target.computes(*d) && target.computes(Combine::new(op.of_two(), *d).dtype))
}
/// What a segment without elements gives, as the combining's own type has it.
fn of_nothing(op: SegmentOp, combine: Combine, dtype: DType) -> &'static str {
    match (op, dtype) {
        (SegmentOp::Max, DType::I8) => "-128i",
        (SegmentOp::Min, DType::I8) => "127i",
        (SegmentOp::Min, DType::U8) => "255u",
        _ => combine.identity(),
    }
}
/// Records a SegmentReduce step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(super) fn record((op, axis): Fields<'_>, launcher: &mut dyn Launcher, work: &Work<'_>) -> Result<(), ErrorKind> {
    let axis = *axis as usize;
    let ([x, offsets], [out]) = (work.inputs, work.outputs) else { return Err(misshapen(op.name())) };
    let mut bindings = Bindings::new(launcher.target().dialect);
    let source = bindings.bind(x.place(), Access::Read);
    let cuts = bindings.bind(offsets.place(), Access::Read);
    let faults = bindings.bind(Place::Faults, Access::Atomic);
    let mut dense = Dense::new(&mut bindings, &[(*out, out.place())]);
    // Along the axis the offsets tell where; they are the same for what lies behind it.
    let ((from, mut strides), (first, steps)) = (x.layout(), offsets.layout());
    let along = std::mem::take(&mut strides[axis]);
    let mut nest = launcher.nest(0, &bindings, &out.shape, [&axes(&out.shape), &[]], &[(from, strides), (first, steps)])?;
    let n = x.shape[axis];
    let inner: usize = out.shape[axis + 1..].iter().product();
    let report = launcher.report(Found::Index(n + 1));
    let mut parameters = Vec::new();
    dense.place(&mut parameters, report);
    let own = parameters.len();
    parameters.extend([n as u32, along as u32, steps[axis] as u32, out.shape[axis] as u32, inner as u32]);
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.extend([*op as u8, x.dtype as u8, offsets.dtype as u8, source as u8, cuts as u8]);
    dense.describe(&mut key);
    nest.describe(&mut key);
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let combine = Combine::new(op.of_two(), x.dtype);
        let t = combine.type_name();
        let [n, along, step, segments, inner] = [0, 1, 2, 3, 4].map(|k| format!("p[{}u]", own + k));
        let element = combine.widen(x.dtype, &bindings.load(source, x.dtype, "at"));
        let body = format!(
            "{}let a1: u32 = {};
let low: vec2<u32> = {};
let high: vec2<u32> = {};
let number: u32 = (i / {inner}) % {segments};
let position: u32 = (i / ({inner} * {segments})) * ({segments} + 1u) + number;
var total: {t} = {};
let begins: bool = low.y == 0u && low.x <= {n} && (number > 0u || low.x == 0u);
let ends: bool = high.y == 0u && high.x <= {n} && high.x >= low.x && (number + 1u < {segments} || high.x == {n});
if (begins && ends) {{
    let a0: u32 = {};
    for (var k: u32 = low.x; k < high.x; k++) {{
        let at: u32 = a0 + k * {along};
        let v: {t} = {element};
        if (k == low.x) {{ total = v; }} else {{ total = {}; }}
    }}
}} else {{
    total = {t}(0);
    let wrong: u32 = position + select(0u, 1u, begins);
    {}
}}
",
            nest.coordinates(Group::Outer, "i"),
            nest.at(1, "i"),
            index_words(&bindings, cuts, offsets.dtype, "a1"),
            index_words(&bindings, cuts, offsets.dtype, &format!("(a1 + {step})")),
            of_nothing(*op, combine, x.dtype),
            nest.at(0, "i"),
            combine.of("total", "v"),
            bindings.atomic_min(faults, REPORT, "wrong"),
        );
        let result = bindings.bits_of(out.dtype, &combine.narrow(out.dtype, "total"));
        dense.text(&bindings, INDEX_OF, &body, &[result])
    })?;
    launcher.launch(pipeline, &bindings, &parameters, dense.units());
    look_up(launcher, offsets, report)
}
