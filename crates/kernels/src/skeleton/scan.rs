//! Scan: running combinations along an axis, an invocation for each line.
//!
//! Few long lines of a sum, maximum or minimum are cut into pieces: each piece is combined, the pieces of a line are
//! scanned, and each piece is walked again from what came before it. Products and recurrences are not cut: a piece alone
//! may overflow where the line does not. Where such a line is very long, several launches walk it one after the other, each from
//! what the one before has left.
use crate::{
    bindings::{Access, Bindings, Place},
    combine::Combine,
    frame::{ROUNDS, per_element},
    launcher::{Array, Key, LaunchTarget, Launcher, Work, misshapen},
    nest::AxisGroup,
};
use adamant_ir::{
    DType, ErrorKind,
    op::{ReduceOp, ScanOp},
};

/// Elements of a piece.
const PIECE: usize = 256;
/// Lines that keep a device busy as they are.
const MANY: usize = 1024;

/// The launches of a cut line.
#[derive(Clone, Copy, PartialEq)]
enum ScanPass {
    /// the line in one walk
    Whole,
    /// what each piece gives
    Pieces,
    /// each piece from what came before
    Again,
    /// a part of the line, from what came before to what is handed on
    Onward,
}

/// Is there arithmetic for it?
pub(super) fn supports(_: (&ScanOp, &u8, &bool), target: &LaunchTarget, dtypes: &[DType]) -> bool {
    dtypes.iter().all(|d| target.computes(*d))
}
/// Records a Scan step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(super) fn record((op, axis, reverse): (&ScanOp, &u8, &bool), launcher: &mut dyn Launcher, work: &Work<'_>) -> Result<(), ErrorKind> {
    let (op, axis, reverse) = (*op, *axis as usize, *reverse);
    let [out] = work.outputs else { return Err(misshapen("scan")) };
    let (lines, n) = (out.shape.elements() / out.shape[axis].max(1), out.shape[axis]);
    let may_cut = matches!(op, ScanOp::Sum | ScanOp::Max | ScanOp::Min);
    if may_cut {
        // Other lines may want the other way.
        launcher.warm_up(&mut |other| {
            walk(other, work, op, axis, reverse, (ScanPass::Whole, 0))?;
            in_pieces(other, work, op, axis, reverse)
        })?;
    }
    if may_cut && n >= 4 * PIECE && (lines < MANY || n > ROUNDS) && n.div_ceil(PIECE) <= ROUNDS {
        return in_pieces(launcher, work, op, axis, reverse);
    }
    if n <= ROUNDS {
        return walk(launcher, work, op, axis, reverse, (ScanPass::Whole, 0));
    }
    launcher.scratch((lines * combination(op, work.inputs[0].dtype).dtype.size() / 4) as u64)?;
    (0..n).step_by(ROUNDS).try_for_each(|begin| walk(launcher, work, op, axis, reverse, (ScanPass::Onward, begin)))
}
/// Lines in pieces of fixed lengths: what each gives, what comes before it, and each again from there.
fn in_pieces(launcher: &mut dyn Launcher, work: &Work<'_>, op: ScanOp, axis: usize, reverse: bool) -> Result<(), ErrorKind> {
    let out = &work.outputs[0];
    let (lines, n) = (out.shape.elements() / out.shape[axis].max(1), out.shape[axis]);
    let pieces = n.div_ceil(PIECE);
    walk(launcher, work, op, axis, reverse, (ScanPass::Pieces, 0))?;
    let combine = combination(op, work.inputs[0].dtype);
    launcher.scratch((lines * pieces * combine.dtype.size() / 4) as u64)?;
    let mut bindings = Bindings::new(launcher.target().dialect);
    let totals = bindings.bind(Place::Scratch, Access::Write);
    let pipeline = launcher.compile(&Key::from_slice(&[0xFB, combine.dtype as u8]), &bindings, &mut || {
        let body = format!(
            "var total: {} = {};
for (var piece: u32 = 0u; piece < p[1u]; piece++) {{
let at: u32 = i * p[1u] + piece;
let own: {} = {};
{}
total = {};
}}
",
            combine.type_name(),
            combine.identity(),
            combine.type_name(),
            bindings.load(totals, combine.dtype, "at"),
            bindings.store(totals, combine.dtype, "at", "total"),
            combine.of("total", "own"),
        );
        per_element(&bindings, "", &body)
    })?;
    launcher.launch(pipeline, &bindings, &[lines as u32, pieces as u32], lines as u64);
    walk(launcher, work, op, axis, reverse, (ScanPass::Again, 0))
}
fn combination(op: ScanOp, dtype: DType) -> Combine {
    let op = match op {
        ScanOp::Sum | ScanOp::LinearRecurrence => ReduceOp::Sum,
        ScanOp::Prod => ReduceOp::Prod,
        ScanOp::Max => ReduceOp::Max,
        ScanOp::Min => ReduceOp::Min,
    };
    Combine::new(op, dtype)
}
/// One launch over all lines, or all pieces of them; of an onward walk the part from an element on.
fn walk(launcher: &mut dyn Launcher, work: &Work<'_>, op: ScanOp, axis: usize, reverse: bool, (pass, first): (ScanPass, usize)) -> Result<(), ErrorKind> {
    let out = &work.outputs[0];
    let kept: Vec<usize> = (0..out.shape.rank()).filter(|&a| a != axis).collect();
    let (lines, n) = (out.shape.elements() / out.shape[axis].max(1), out.shape[axis]);
    let (pieces, length) = match pass {
        ScanPass::Whole => (1, n),
        ScanPass::Onward => (1, ROUNDS),
        ScanPass::Pieces | ScanPass::Again => (n.div_ceil(PIECE), PIECE),
    };
    let mut bindings = Bindings::new(launcher.target().dialect);
    let mut sources = Vec::new();
    for x in work.inputs {
        sources.push((bindings.bind(x.place(), Access::Read), x.dtype));
    }
    let target = bindings.bind(out.place(), if pass == ScanPass::Pieces { Access::Read } else { Bindings::to_store(out.dtype.size()) });
    let totals = if pass == ScanPass::Whole { None } else { Some(bindings.bind(Place::Scratch, Access::Write)) };
    let operands: Vec<_> = work.inputs.iter().chain(work.outputs).map(Array::layout).collect();
    let mut nest = launcher.nest(pass as u8, &bindings, &out.shape, [&kept, &[axis]], &operands)?;
    let mut parameters = vec![(lines * pieces) as u32, n as u32, pieces as u32, length as u32, first as u32];
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.extend([out.dtype as u8, pass as u8]);
    key.extend(sources.iter().flat_map(|s| [s.0 as u8, s.1 as u8]));
    nest.describe(&mut key);
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let combine = combination(op, sources[0].1);
        let t = combine.type_name();
        let value = |k: usize| combine.widen(sources[k].1, &bindings.load(sources[k].0, sources[k].1, &format!("a{k}")));
        let second = if sources.len() > 1 { format!("let a1: u32 = {};\nlet w: {t} = {};\n", nest.at(1, "line"), value(1)) } else { String::new() };
        // An absent past adds nothing, even where the coefficient is infinite.
        let (first, next) = if op == ScanOp::LinearRecurrence { ("w", "v * total + w".to_string()) } else { ("v", combine.of("total", "v")) };
        let store = |at: &str, total: &str| bindings.store(target, out.dtype, at, &combine.narrow(out.dtype, total));
        let each = format!("let at: u32 = {};\n{}\n", nest.at(operands.len() - 1, "line"), store("at", "total"));
        let past = |totals: usize, after: &str| format!("if ({after} > 0u) {{ total = {}; past = true; }}\n", bindings.load(totals, combine.dtype, "i"));
        let hand_on = |totals: usize| bindings.store(totals, combine.dtype, "i", "total");
        let (before, inside, after) = match (pass, totals) {
            (ScanPass::Pieces, Some(totals)) => (String::new(), String::new(), hand_on(totals)),
            (ScanPass::Again, Some(totals)) => (past(totals, "piece"), each, String::new()),
            (ScanPass::Onward, Some(totals)) => (past(totals, "p[4u]"), each, hand_on(totals)),
            _ => (String::new(), each, String::new()),
        };
        let body = format!(
            "let line: u32 = i / p[2u];
let piece: u32 = i % p[2u];
{}var total: {t} = {};
var past: bool = false;
{before}let begin: u32 = p[4u] + piece * p[3u];
let end: u32 = min(begin + p[3u], p[1u]);
for (var s: u32 = begin; s < end; s++) {{
let t: u32 = {};
{}let a0: u32 = {};
let v: {t} = {};
{second}if (past) {{ total = {next}; }} else {{ total = {first}; past = true; }}
{inside}}}
{after}
",
            nest.coordinates(AxisGroup::Outer, "line"),
            combine.identity(),
            if reverse { "p[1u] - 1u - s" } else { "s" },
            nest.coordinates(AxisGroup::Inner, "t"),
            nest.at(0, "line"),
            value(0),
        );
        per_element(&bindings, "", &body)
    })?;
    launcher.launch(pipeline, &bindings, &parameters, (lines * pieces) as u64);
    Ok(())
}
