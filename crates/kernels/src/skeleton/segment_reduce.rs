//! Combining runs of neighbours along an axis. Where segments begin and end is data, which only the device sees, so a line
//! is cut in blocks of one length: a first launch combines each block whole, a second one takes for each segment the blocks
//! that lie in it, after the elements beside them. So no invocation walks far, however long a segment is, and which element meets
//! which follows from the sizes and the offsets alone: the bits are the same from run to run.
//!
//! Offsets may be of any integer dtype and are compared as words. They may be wrong: no block is left out because they say
//! that nobody needs it.
use super::gather::{INDEX_OF, index_words, look_up};
use crate::{
    bindings::{Access, Bindings, Place},
    combine::Combine,
    dense::REPORT,
    launcher::{Array, CompiledText, Found, Key, LaunchTarget, Launcher, Work, misshapen},
    nest::AxisGroup,
    program::axes,
};
use adamant_ir::{
    DType, ErrorKind,
    op::{ReduceOp, SegmentOp},
};

type Fields<'a> = (&'a SegmentOp, &'a u8);

/// Elements of a line from which on it is cut in blocks.
const LONG: usize = 1024;
/// The least elements of a block.
const BLOCK: usize = 64;
/// Invocations that share a block, or a segment that is long on average, where few neighbours lie side by side.
const LANES: usize = 32;

/// What a segment's invocation finds out about its offsets.
const SEEN: &str = "    var is_right: bool = true;
    var is_empty: bool = false;
";

/// How lines are cut in blocks.
#[derive(Clone, Copy)]
struct LineBlocks {
    /// whole ones of a line: what is left behind the last is taken element by element
    count: usize,
    length: usize,
}
impl LineBlocks {
    /// A segment takes in fewer than `length` elements at either end and at most `count` blocks: together least where
    /// `length` is about the root of half of them.
    fn of(n: usize) -> LineBlocks {
        if n < LONG {
            return LineBlocks { count: 0, length: n + 1 };
        }
        let length = (n / 2).isqrt().next_power_of_two().max(BLOCK);
        LineBlocks { count: n / length, length }
    }
}
/// Is there arithmetic for it? Offsets are words.
pub(super) fn supports((op, _): Fields<'_>, target: &LaunchTarget, dtypes: &[DType]) -> bool {
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
/// What changes no number. A sum that begins with zero would make one of minus zeros.
fn neutral(combine: Combine) -> &'static str {
    match (combine.op, combine.dtype) {
        (ReduceOp::Sum, DType::F32 | DType::F64) => "-0.0",
        _ => combine.identity(),
    }
}
/// Records a SegmentReduce step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled; more scratch than there is.
pub(super) fn record((op, axis): Fields<'_>, launcher: &mut dyn Launcher, work: &Work<'_>) -> Result<(), ErrorKind> {
    let ([x, offsets], [out]) = (work.inputs, work.outputs) else { return Err(misshapen(op.name())) };
    let step = SegmentStep {
        op: *op,
        axis: *axis as usize,
        x,
        offsets,
        out,
        combine: Combine::new(op.of_two(), x.dtype),
        blocks: LineBlocks::of(x.shape[*axis as usize]),
    };
    // Shorter lines have no blocks; another batch may.
    let pipeline = step.compile_blocks(launcher)?;
    if step.blocks.count > 0 {
        let (pipeline, bindings, parameters, results) = pipeline;
        launcher.scratch((results * step.combine.dtype.size() / 4) as u64)?;
        launcher.launch(pipeline, &bindings, &parameters, (results * step.lanes(step.blocks.length)) as u64);
    }
    step.segments(launcher)
}
/// The operands of a step and how it is cut.
struct SegmentStep<'s> {
    op: SegmentOp,
    axis: usize,
    x: &'s Array,
    offsets: &'s Array,
    out: &'s Array,
    combine: Combine,
    blocks: LineBlocks,
}
impl SegmentStep<'_> {
    /// Elements that lie behind one place of the axis.
    fn inner(&self) -> usize {
        self.x.shape[self.axis + 1..].iter().product()
    }
    /// How many invocations share a result of about so many elements: where neighbouring results lie side by side, each has its own.
    fn lanes(&self, elements: usize) -> usize {
        if self.inner() < LANES && elements >= BLOCK { LANES } else { 1 }
    }
    /// The launch that combines the blocks: text, bindings, parameters, and how many results there are in scratch,
    /// `[lead.., blocks, rest..]`.
    ///
    /// # Errors
    /// A text that cannot be compiled.
    fn compile_blocks(&self, launcher: &mut dyn Launcher) -> Result<(CompiledText, Bindings, Vec<u32>, usize), ErrorKind> {
        let SegmentStep { axis, x, combine, blocks, .. } = *self;
        let mut bindings = Bindings::new(launcher.target().dialect);
        let source = bindings.bind(x.place(), Access::Read);
        let scratch = bindings.bind(Place::Scratch, Access::Write);
        let (from, mut strides) = x.layout();
        let along = std::mem::take(&mut strides[axis]);
        // One block would be no axis of the nest, and another text.
        let space = x.shape.with(axis, blocks.count.max(2));
        let mut nest = launcher.nest(2, &bindings, &space, [&axes(&space), &[]], &[(from, strides)])?;
        let results = x.shape.with(axis, blocks.count).elements();
        let mut parameters = [results, self.lanes(blocks.length), along as u32 as usize, blocks.length, blocks.count, self.inner()].map(|v| v as u32).to_vec();
        nest.place(&mut parameters);
        let mut key = Key::from_slice(&[0xF0, self.op as u8, x.dtype as u8, source as u8]);
        nest.describe(&mut key);
        key.extend(bindings.access.iter().map(|a| *a as u8));
        let pipeline = launcher.compile(&key, &bindings, &mut || {
            let own = format!(
                "let begin: u32 = ((i / p[5u]) % p[4u]) * p[3u];
{}let a0: u32 = {};
for (var k: u32 = begin + own_lane; k < begin + p[3u]; k += lanes) {{
    {}
}}
",
                nest.coordinates(AxisGroup::Outer, "i"),
                nest.at(0, "i"),
                self.take_in(&bindings, source, "p[2u]"),
            );
            let store = bindings.store(scratch, combine.dtype, "i", "total");
            self.combine.shared_totals(&bindings, "", ["p[0u]", "p[1u]"], neutral(self.combine), ["", &own, &store])
        })?;
        Ok((pipeline, bindings, parameters, results))
    }
    /// The launch that combines the segments, from the blocks in scratch.
    ///
    /// # Errors
    /// A text that cannot be compiled.
    fn segments(&self, launcher: &mut dyn Launcher) -> Result<(), ErrorKind> {
        let SegmentStep { op, axis, x, offsets, out, combine, blocks } = *self;
        let mut bindings = Bindings::new(launcher.target().dialect);
        let source = bindings.bind(x.place(), Access::Read);
        let cuts = bindings.bind(offsets.place(), Access::Read);
        let faults = bindings.bind(Place::Faults, Access::Atomic);
        let target = bindings.bind(out.place(), Bindings::to_store(out.dtype.size()));
        let scratch = bindings.bind(Place::Scratch, Access::Write);
        // Along the axis the offsets tell where; they are the same for what lies behind it.
        let ((from, mut strides), (first, steps)) = (x.layout(), offsets.layout());
        let along = std::mem::take(&mut strides[axis]);
        let mut nest = launcher.nest(0, &bindings, &out.shape, [&axes(&out.shape), &[]], &[(from, strides), (first, steps)])?;
        let (n, count) = (x.shape[axis], out.shape[axis]);
        let report = launcher.report(Found::Index(n + 1));
        let lanes = self.lanes(n / count.max(1));
        let results = out.shape.elements();
        let mut parameters = vec![results as u32, report];
        parameters.extend([lanes, out.offset, n, along as u32 as usize, steps[axis] as u32 as usize, count, self.inner()].map(|v| v as u32));
        parameters.extend([blocks.length, blocks.count].map(|v| v as u32));
        nest.place(&mut parameters);
        let mut key = Key::from_slice(&[0xF1, op as u8, x.dtype as u8, offsets.dtype as u8, source as u8, cuts as u8, target as u8]);
        nest.describe(&mut key);
        key.extend(bindings.access.iter().map(|a| *a as u8));
        let pipeline = launcher.compile(&key, &bindings, &mut || {
            let own = format!(
                "{}let a1: u32 = {};
let low: vec2<u32> = {};
let high: vec2<u32> = {};
let number: u32 = (i / p[8u]) % p[7u];
let line: u32 = i / (p[8u] * p[7u]);
let begins: bool = low.y == 0u && low.x <= p[4u] && (number > 0u || low.x == 0u);
let ends: bool = high.y == 0u && high.x <= p[4u] && high.x >= low.x && (number + 1u < p[7u] || high.x == p[4u]);
is_right = begins && ends;
if (is_right) {{
    is_empty = low.x == high.x;
    let a0: u32 = {};
    // The first whole block, and what is behind the last.
    let whole: u32 = (low.x + p[9u] - 1u) / p[9u];
    let last: u32 = high.x / p[9u];
    let edge: u32 = select(high.x, whole * p[9u], whole < last);
    let behind: u32 = select(high.x, last * p[9u], whole < last);
    let before: u32 = edge - low.x;
    let beside: u32 = before + (high.x - behind);
    for (var s: u32 = own_lane; s < beside; s += lanes) {{
        let k: u32 = select(behind + (s - before), low.x + s, s < before);
        {}
    }}
    for (var block: u32 = whole + own_lane; block < last; block += lanes) {{
        let at: u32 = (line * p[10u] + block) * p[8u] + i % p[8u];
        let v: {} = {};
        total = {};
    }}
}} else {{
    let wrong: u32 = line * (p[7u] + 1u) + number + select(0u, 1u, begins);
    {}
}}
",
                nest.coordinates(AxisGroup::Outer, "i"),
                nest.at(1, "i"),
                index_words(&bindings, cuts, offsets.dtype, "a1"),
                index_words(&bindings, cuts, offsets.dtype, "(a1 + p[6u])"),
                nest.at(0, "i"),
                self.take_in(&bindings, source, "p[5u]"),
                combine.type_name(),
                bindings.load(scratch, combine.dtype, "at"),
                combine.of("total", "v"),
                bindings.atomic_min(faults, REPORT, "wrong"),
            );
            let store = format!(
                "if (is_empty) {{ total = {}; }}
if (!is_right) {{ total = {}(0); }}
let at: u32 = p[3u] + i;
{}
",
                of_nothing(op, combine, x.dtype),
                combine.type_name(),
                bindings.store(target, out.dtype, "at", &combine.narrow(out.dtype, "total"))
            );
            self.combine.shared_totals(&bindings, INDEX_OF, ["p[0u]", "p[2u]"], neutral(self.combine), [SEEN, &own, &store])
        })?;
        launcher.launch(pipeline, &bindings, &parameters, (results * lanes) as u64);
        look_up(launcher, offsets, report)
    }
    /// Statements that take element `k` of a line into the total.
    fn take_in(&self, bindings: &Bindings, source: usize, along: &str) -> String {
        let (combine, dtype) = (self.combine, self.x.dtype);
        let element = combine.widen(dtype, &bindings.load(source, dtype, "at"));
        format!("let at: u32 = a0 + k * {along};\nlet v: {} = {element};\ntotal = {};", combine.type_name(), combine.of("total", "v"))
    }
}
