//! Sort: stable, by merging. Runs of doubling length are merged pairwise, each element finding its new place by a binary
//! search in the other run: a launch for each doubling, and no invocation waits for another. Only numbers of elements
//! move, between two halves of the scratch memory; values are written once, at the end.
use super::computes_first;
use crate::{
    bindings::{Access, Bindings, Place},
    combine::Combine,
    frame::per_element,
    launcher::{Key, LaunchTarget, Launcher, Work, misshapen},
    nest::AxisGroup,
};
use adamant_ir::{DType, ErrorKind, op::ReduceOp};

/// Is there arithmetic for it?
pub(super) fn supports(_: (&u8, &bool), target: &LaunchTarget, dtypes: &[DType]) -> bool {
    computes_first(target, dtypes)
}
/// Records a Sort step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled; more scratch than there is.
pub(super) fn record((axis, descending): (&u8, &bool), launcher: &mut dyn Launcher, work: &Work<'_>) -> Result<(), ErrorKind> {
    let (axis, descending) = (*axis as usize, *descending);
    let ([x], [values, order]) = (work.inputs, work.outputs) else { return Err(misshapen("sort")) };
    let (elements, n) = (x.shape.elements(), x.shape[axis]);
    let kept: Vec<usize> = (0..x.shape.rank()).filter(|&a| a != axis).collect();
    launcher.scratch(2 * elements as u64)?;
    let mut merging = Bindings::new(launcher.target().dialect);
    let source = merging.bind(x.place(), Access::Read);
    let numbers = merging.bind(Place::Scratch, Access::Write);
    let mut nest = launcher.nest(0, &merging, &x.shape, [&kept, &[axis]], &[x.layout(), values.layout(), order.layout()])?;
    let combine = Combine::new(ReduceOp::Max, x.dtype);
    let t = combine.type_name();
    // Is b to stand before a? NaN is the largest.
    let sign = if descending { ">" } else { "<" };
    let before = match (combine.dtype.is_float(), descending) {
        (false, _) => format!("b {sign} a"),
        (true, false) => "b < a || (adm_isnan(a) && !adm_isnan(b))".to_string(),
        (true, true) => "b > a || (adm_isnan(b) && !adm_isnan(a))".to_string(),
    };
    let mut run = 1;
    let (mut from, mut to) = (0, elements);
    while run < n {
        let mut parameters = vec![elements as u32, n as u32, run as u32, from as u32, to as u32];
        nest.place(&mut parameters);
        let mut key = Key::new();
        key.extend([(run == 1) as u8, x.dtype as u8]);
        nest.describe(&mut key);
        let pipeline = launcher.compile(&key, &merging, &mut || {
            // At first the numbers are in order.
            let number = |at: &str| if run == 1 { format!("({at})") } else { merging.word(numbers, &format!("p[3u] + line * p[1u] + {at}")) };
            let body = format!(
                "let line: u32 = i / p[1u];
let here: u32 = i % p[1u];
let own: u32 = {};
let v: {t} = value(line, own);
{}let place: u32 = p[4u] + line * p[1u] + rank;
{}
",
                number("here"),
                rank(&format!(
                    "let w: {t} = value(line, {});\n// Of equal elements those of the left run come first.\nlet passes: bool = select(!before(w, v), before(v, w), is_left);\n",
                    number("at")
                )),
                merging.set_word(numbers, "place", "own"),
            );
            let functions = combine.element(&merging, &nest, source, x.dtype) + &format!("fn before(a: {t}, b: {t}) -> bool {{ return {before}; }}\n");
            per_element(&merging, &functions, &body)
        })?;
        launcher.launch(pipeline, &merging, &parameters, elements as u64);
        std::mem::swap(&mut from, &mut to);
        run *= 2;
    }

    let mut bindings = merging.clone();
    let sorted = bindings.bind(values.place(), Bindings::to_store(values.dtype.size()));
    let places = bindings.bind(order.place(), Access::Write);
    let mut parameters = vec![elements as u32, n as u32, from as u32];
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.extend([2, x.dtype as u8, (n > 1) as u8]);
    nest.describe(&mut key);
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let size = x.dtype.size();
        let number = if n > 1 { bindings.word(numbers, "p[2u] + i") } else { "0u".to_string() };
        let body = format!(
            "let line: u32 = i / p[1u];
let own: u32 = {number};
let here: u32 = i % p[1u];
let a0: u32 = place_of(line, own);
{}{}let a1: u32 = {};
let a2: u32 = {};
{}
{}
",
            nest.coordinates(AxisGroup::Outer, "line"),
            nest.coordinates(AxisGroup::Inner, "here"),
            nest.at(1, "line"),
            nest.at(2, "line"),
            bindings.set_bits(sorted, size, "a1", &bindings.bits(source, size, "a0")),
            bindings.set_bits(places, 8, "a2", "vec2<u32>(own, 0u)"),
        );
        let place_of = format!(
            "fn place_of(o: u32, r: u32) -> u32 {{\n{}{}return {};\n}}\n",
            nest.coordinates(AxisGroup::Outer, "o"),
            nest.coordinates(AxisGroup::Inner, "r"),
            nest.at(0, "o")
        );
        per_element(&bindings, &place_of, &body)
    })?;
    launcher.launch(pipeline, &bindings, &parameters, elements as u64);
    Ok(())
}
/// Statements that name the `rank` of element `here` of a line of `p[1]`, where runs of `p[2]` elements are merged two by
/// two: its place in its own run and as many of the other one as come before it. `compare` names `passes`: does the
/// element at `at` of the other run, where `is_left` tells whether the own one is the first?
pub(crate) fn rank(compare: &str) -> String {
    format!(
        "let pair: u32 = here / (2u * p[2u]) * (2u * p[2u]);
let middle: u32 = min(pair + p[2u], p[1u]);
let is_left: bool = here < middle;
let other: u32 = select(pair, middle, is_left);
var low: u32 = other;
var high: u32 = select(middle, min(pair + 2u * p[2u], p[1u]), is_left);
while (low < high) {{
    let at: u32 = low + (high - low) / 2u;
    {compare}if (passes) {{ low = at + 1u; }} else {{ high = at; }}
}}
let rank: u32 = pair + (here - select(middle, pair, is_left)) + (low - other);
"
    )
}
