//! A scatter by sorted indices: what goes to one place lies side by side, is combined in pieces of fixed lengths, and
//! only runs that cross pieces are combined by a second launch. The sort is stable, so the order — and with it every
//! bit — follows from the index alone. Lines that share one index (rows of a table) share its sort.
use super::{ScatterRule, report_bad};
use crate::{
    bindings::{Access, Bindings, Place},
    frame::{GROUP, KernelFrame, Numbering, SharedArray, per_element},
    launcher::{Array, Found, Key, LaunchTarget, Launcher},
    nest::{AxisGroup, Nest},
    skeleton::{
        gather::{INDEX_OF, index_words, look_up},
        sort::rank,
    },
};
use adamant_ir::ErrorKind;

/// Elements that a workgroup sorts.
const BLOCK: usize = 256;
/// The key of a bad index, behind all others.
const BAD: &str = "0xffffffffu";

/// The axes and sizes of a scatter by sorted indices.
pub(super) struct ScatterLines {
    /// axes with an index of their own, then those that share one
    own: Vec<usize>,
    shared: Vec<usize>,
    indices: usize,
    features: usize,
    length: usize,
}
impl ScatterLines {
    /// The lines of an index along an axis.
    pub fn new(index: &Array, axis: usize) -> ScatterLines {
        let (shared, own): (Vec<usize>, Vec<usize>) = (0..index.shape.rank()).filter(|&a| a != axis).partition(|&a| index.strides[a] == 0);
        let product = |axes: &[usize]| axes.iter().map(|&a| index.shape[a]).product::<usize>();
        ScatterLines { indices: product(&own), features: product(&shared), length: index.shape[axis], own, shared }
    }
    /// Can sorting be worth it, with more or fewer lines? A driver on the host's processor has few invocations to gain: there
    /// the sort must be shared (64 features of 2,048 rows take 9 ms instead of 13 on llvmpipe, a line of 100,000 takes 98 ms
    /// instead of 10).
    pub fn may_pay(&self, target: &LaunchTarget) -> bool {
        self.features >= if target.on_host { 32 } else { 1 }
    }
    /// Is sorting worth it? Not where lines alone fill a device, nor where they are short.
    pub fn pay(&self, target: &LaunchTarget) -> bool {
        // Keys and positions twice, and two parts of 8 bytes for every 32 elements.
        let scratch = (16 * self.indices + self.indices * self.features / 2 + 1) as u64 * self.length as u64 + (1 << 20);
        self.may_pay(target) && self.length >= BLOCK && self.indices * self.features < 8192 && scratch <= target.largest
    }
}
/// Records the step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled; more scratch than there is.
pub(super) fn record(launcher: &mut dyn Launcher, axis: usize, rule: &ScatterRule<'_>, lines: &ScatterLines) -> Result<(), ErrorKind> {
    let ScatterRule { index, out, .. } = *rule;
    let (n, all) = (lines.length, lines.indices * lines.length);
    let piece = (all * lines.features / 32_768).max(32);
    let pieces = n.div_ceil(piece);
    let results = lines.indices * pieces * lines.features;
    let words = rule.combine.map_or(0, |c| c.dtype.size() / 4);
    launcher.scratch((4 * all + 2 * results * words) as u64)?;
    let report = launcher.report(Found::Index(out.shape[axis]));

    // Blocks, each in one workgroup.
    let mut bindings = Bindings::new(launcher.target().dialect);
    let indices = bindings.bind(index.place(), Access::Read);
    let scratch = bindings.bind(Place::Scratch, Access::Write);
    let faults = bindings.bind(Place::Faults, Access::Atomic);
    let mut nest = launcher.nest(4, &bindings, &index.shape, [&lines.own, &[axis]], &[index.layout(), (0, index.shape.strides())])?;
    let blocks = n.div_ceil(BLOCK);
    let mut parameters = vec![(lines.indices * blocks) as u32, report, n as u32, blocks as u32, out.shape[axis] as u32, all as u32];
    nest.place(&mut parameters);
    let mut key = Key::from_slice(&[0xE0, index.dtype as u8]);
    nest.describe(&mut key);
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let load = format!(
            "{}{}let a0: u32 = {};
let index: vec2<u32> = {};
let a1: u32 = {};
if (index.y == 0u && index.x < p[4u]) {{ own = index.x; }} else {{ {} }}
",
            nest.coordinates(AxisGroup::Outer, "line"),
            nest.coordinates(AxisGroup::Inner, "here"),
            nest.at(0, "line"),
            index_words(&bindings, indices, index.dtype, "a0"),
            nest.at(1, "line"),
            report_bad(&bindings, faults, "a1"),
        );
        block(&bindings, scratch, &load)
    })?;
    launcher.launch_groups(pipeline, &bindings, &parameters, (lines.indices * blocks) as u64);

    // Runs of doubling length are merged, from one half of the scratch memory to the other.
    let mut bindings = Bindings::new(launcher.target().dialect);
    let scratch = bindings.bind(Place::Scratch, Access::Write);
    let (mut run, mut from, mut to) = (BLOCK, 0, 2 * all);
    // Compiled for one block too: a larger batch will want it.
    let pipeline = launcher.compile(&Key::from_slice(&[0xE1]), &bindings, &mut || merge(&bindings, scratch))?;
    while run < n {
        launcher.launch(pipeline, &bindings, &[all, n, run, from, to].map(|v| v as u32), all as u64);
        std::mem::swap(&mut from, &mut to);
        run *= 2;
    }

    // Values go where their keys say.
    let mut bindings = Bindings::new(launcher.target().dialect);
    let values = bindings.bind(rule.source.place(), Access::Read);
    let target = bindings.bind(out.place(), Bindings::to_store(out.dtype.size()));
    let scratch = bindings.bind(Place::Scratch, Access::Write);
    let (offset, mut strides) = out.layout();
    let along = std::mem::take(&mut strides[axis]);
    let outer: Vec<usize> = lines.own.iter().chain(&lines.shared).copied().collect();
    let mut nest = launcher.nest(5, &bindings, &index.shape, [&outer, &[axis]], &[rule.source.layout(), (offset, strides)])?;
    let mut parameters = [0, n, lines.features, pieces, piece, from, from + all, 4 * all, 4 * all + results * words].map(|v| v as u32).to_vec();
    parameters.push(along as u32);
    nest.place(&mut parameters);
    let mut passes = vec![(SortedPass::Last, all * lines.features)];
    if rule.combine.is_some() {
        passes = vec![(SortedPass::Pieces, results), (SortedPass::Across, results)];
    }
    for (pass, units) in passes {
        parameters[0] = units as u32;
        let mut key = Key::from_slice(&[0xE2 + pass as u8, out.dtype as u8, values as u8, target as u8]);
        nest.describe(&mut key);
        key.extend(bindings.access.iter().map(|a| *a as u8));
        let pipeline = launcher.compile(&key, &bindings, &mut || apply(rule, &bindings, &nest, [values, target, scratch], pass))?;
        launcher.launch(pipeline, &bindings, &parameters, units as u64);
    }
    look_up(launcher, index, report)
}
/// Which of the equal keys are looked at.
#[derive(Clone, Copy, PartialEq)]
enum SortedPass {
    /// the last of each run is what stays
    Last,
    /// each piece, whose runs at both ends may be parts
    Pieces,
    /// the parts of a run, from the piece where it begins
    Across,
}
/// Sorts blocks of keys with their positions. `load` sets `own`, the key of element `here` of `line`.
fn block(bindings: &Bindings, scratch: usize, load: &str) -> Result<String, ErrorKind> {
    let barrier = bindings.dialect.barrier();
    let body = format!(
        "let number: u32 = group.y * groups.x + group.x;
if (number >= p[0u]) {{ return; }}
let line: u32 = number / p[3u];
let here: u32 = (number % p[3u]) * 256u + lane;
var own: u32 = {BAD};
if (here < p[2u]) {{
{load}}}
var place: u32 = here;
var rank: u32 = lane;
var half: u32 = 0u;
keys[lane] = own;
places[lane] = here;
{barrier}
for (var run: u32 = 1u; run < 256u; run <<= 1u) {{
    own = keys[half + lane];
    place = places[half + lane];
    let pair: u32 = lane / (2u * run) * (2u * run);
    let middle: u32 = pair + run;
    let is_left: bool = lane < middle;
    let other: u32 = select(pair, middle, is_left);
    var low: u32 = other;
    var high: u32 = other + run;
    while (low < high) {{
        let at: u32 = low + (high - low) / 2u;
        let k: u32 = keys[half + at];
        // Of equal keys those of the left run come first.
        if (k < own || (k == own && !is_left)) {{ low = at + 1u; }} else {{ high = at; }}
    }}
    rank = pair + (lane - select(middle, pair, is_left)) + (low - other);
    half = 256u - half;
    keys[half + rank] = own;
    places[half + rank] = place;
    {barrier}
}}
if (here < p[2u]) {{
    let key_at: u32 = line * p[2u] + here;
    let place_at: u32 = p[5u] + key_at;
    {}
    {}
}}
",
        bindings.set_word(scratch, "key_at", "keys[half + lane]"),
        bindings.set_word(scratch, "place_at", "places[half + lane]")
    );
    let shared = vec![SharedArray { name: "keys", of: "u32", length: 2 * BLOCK }, SharedArray { name: "places", of: "u32", length: 2 * BLOCK }];
    KernelFrame { bindings, lanes: GROUP as usize, numbered: Numbering::InWorkgroup, shared, functions: INDEX_OF, blocks: None, body }.text()
}
/// Merges neighbouring runs. Positions lie behind the keys.
fn merge(bindings: &Bindings, scratch: usize) -> Result<String, ErrorKind> {
    let word = |at: &str| bindings.word(scratch, at);
    let body = format!(
        "let base: u32 = p[3u] + i / p[1u] * p[1u];
let here: u32 = i % p[1u];
let own: u32 = {};
{}let to: u32 = p[4u] + i / p[1u] * p[1u] + rank;
let place_to: u32 = to + p[0u];
let place: u32 = {};
{}
{}
",
        word("base + here"),
        rank(&format!("let k: u32 = {};\nlet passes: bool = k < own || (k == own && !is_left);\n", word("base + at"))),
        word("base + here + p[0u]"),
        bindings.set_word(scratch, "to", "own"),
        bindings.set_word(scratch, "place_to", "place"),
    );
    per_element(bindings, "", &body)
}
fn apply(rule: &ScatterRule<'_>, bindings: &Bindings, nest: &Nest, [values, target, scratch]: [usize; 3], pass: SortedPass) -> Result<String, ErrorKind> {
    let word = |at: &str| bindings.word(scratch, at);
    let mut functions = format!(
        "fn key_of(n: u32) -> u32 {{ return {}; }}
fn source_at(line: u32, n: u32) -> u32 {{
let s: u32 = {};
{}{}return {};
}}
fn target_at(line: u32, key: u32) -> u32 {{
{}return {} + key * p[9u];
}}
",
        word("p[5u] + n"),
        word("p[6u] + n"),
        nest.coordinates(AxisGroup::Outer, "line"),
        nest.coordinates(AxisGroup::Inner, "s"),
        nest.at(0, "line"),
        nest.coordinates(AxisGroup::Outer, "line") + &nest.coordinates(AxisGroup::Inner, "0u"),
        nest.at(1, "line"),
    );
    let Some(combine) = rule.combine else {
        let size = rule.out.dtype.size();
        let body = format!(
            "let feature: u32 = i % p[2u];
let n: u32 = i / p[2u];
let line: u32 = n / p[1u] * p[2u] + feature;
let key: u32 = key_of(n);
if (key == {BAD} || (n % p[1u] + 1u < p[1u] && key_of(n + 1u) == key)) {{ return; }}
let own: u32 = source_at(line, n);
let to: u32 = target_at(line, key);
{}
",
            bindings.set_bits(target, size, "to", &bindings.bits(values, size, "own"))
        );
        return per_element(bindings, &functions, &body);
    };
    let t = combine.type_name();
    functions += &format!(
        "fn value(line: u32, n: u32) -> {t} {{
let own: u32 = source_at(line, n);
return {};
}}
fn put(line: u32, key: u32, total: {t}) {{
let to: u32 = target_at(line, key);
{}
}}
",
        combine.widen(rule.source.dtype, &bindings.load(values, rule.source.dtype, "own")),
        rule.store(bindings, target, "total")
    );
    let body = if pass == SortedPass::Pieces {
        format!(
            "var current: u32 = key_of(base + begin);
var is_head: bool = begin > 0u && key_of(base + begin - 1u) == current;
var total: {t} = {};
for (var s: u32 = begin; s < end; s++) {{
    let key: u32 = key_of(base + s);
    if (s > begin && key != current) {{
        if (is_head) {{ {head} }} else {{ put(line, current, total); }}
        is_head = false;
    }}
    if (key == {BAD}) {{ return; }}
    let v: {t} = value(line, base + s);
    if (s == begin || key != current) {{ total = v; }} else {{ total = {}; }}
    current = key;
}}
if (is_head) {{ {head} return; }}
if (end < p[1u] && key_of(base + end) == current) {{ {tail} return; }}
put(line, current, total);
",
            combine.identity(),
            combine.of("total", "v"),
            head = bindings.store(scratch, combine.dtype, "head", "total"),
            tail = bindings.store(scratch, combine.dtype, "tail", "total"),
        )
    } else {
        format!(
            "let last: u32 = key_of(base + end - 1u);
if (last == {BAD} || end == p[1u] || key_of(base + end) != last) {{ return; }}
if (begin > 0u && key_of(base + begin) == last && key_of(base + begin - 1u) == last) {{ return; }}
var total: {t} = {};
for (var next: u32 = piece + 1u; next < p[3u]; next++) {{
    let part: u32 = head + (next - piece) * p[2u];
    let v: {t} = {};
    total = {};
    let stop: u32 = (next + 1u) * p[4u];
    if (stop >= p[1u] || key_of(base + stop) != last) {{ break; }}
}}
put(line, last, total);
",
            bindings.load(scratch, combine.dtype, "tail"),
            bindings.load(scratch, combine.dtype, "part"),
            combine.of("total", "v"),
        )
    };
    let scale = combine.dtype.size() / 4;
    // Offsets are in words, elements of 8 bytes are two.
    let body = format!(
        "let feature: u32 = i % p[2u];
let piece: u32 = (i / p[2u]) % p[3u];
let own: u32 = i / p[2u] / p[3u];
let line: u32 = own * p[2u] + feature;
let base: u32 = own * p[1u];
let begin: u32 = piece * p[4u];
let end: u32 = min(begin + p[4u], p[1u]);
let head: u32 = p[7u] / {scale}u + i;
let tail: u32 = p[8u] / {scale}u + i;
{body}"
    );
    per_element(bindings, &functions, &body)
}
