//! Attention and its backward without the matrix of scores, after Dao et al., "FlashAttention", 2022: a subgroup keeps a
//! few rows in registers and walks the other side's rows, one for each invocation. Factors are passed on within the
//! subgroup, so there is no memory of the workgroup and no barrier. Features beyond what registers hold are shared out
//! over subgroups, which form the scores again.
//!
//! Queries, keys, values, output and cotangents are rows of matrices wherever they lie ([`RowLayout`]), each with steps of its own.
//!
//! The backward is two launches: by queries for the cotangent of q (and the row sums that both need), by keys for those
//! of k and v. A mask that is added has one more (`of_mask.rs`), unless its loops are too long for who runs them.
mod matrices;
mod of_mask;

use super::{matmul::narrowed, rows::all_floats};
use crate::{
    Dialect, Subgroup,
    bindings::{Access, Bindings, Place},
    frame::{KernelFrame, MOST_ROUNDS, Numbering, OF_128_REGISTERS},
    launcher::{Array, Key, LaunchTarget, Launcher, Work, misshapen},
    nest::{AxisGroup, Nest},
};
use adamant_ir::{
    Composite, DType, ErrorKind, MAX_RANK, Shape,
    composite::attention::{Attention, AttentionBackward},
    shape::RowLayout,
};
use std::any::Any;

/// Rows that a subgroup keeps.
const ROWS: usize = 8;
/// Invocations of a workgroup: subgroups do not meet.
const LANES: usize = 64;
/// The most features of a row that an invocation holds.
const HELD: usize = 8;

fn known(composite: &dyn Composite) -> Option<(Attention, Option<AttentionBackward>)> {
    let any: &dyn Any = composite;
    any.downcast_ref::<Attention>().map(|a| (*a, None)).or_else(|| any.downcast_ref::<AttentionBackward>().map(|b| (b.forward, Some(*b))))
}
/// Is it attention or its backward, on these dtypes, on an adapter that has subgroups?
pub(crate) fn supports(target: &LaunchTarget, composite: &dyn Composite, dtypes: &[DType]) -> bool {
    let Some((attention, backward)) = known(composite) else { return false };
    let mask = 3 + usize::from(backward.is_some());
    let rest = mask + usize::from(attention.mask) + usize::from(attention.dropout > 0.0);
    let is_added = attention.mask && dtypes.get(mask) != Some(&DType::Bool);
    target.subgroup.is_some()
        && dtypes.len() > rest
        && all_floats(&dtypes[..mask])
        && all_floats(&dtypes[rest..])
        && !(is_added && backward.is_some() && target.on_host)
}

/// Does it take the operands of [`Composite::rows`] wherever their rows lie?
pub(crate) fn takes_rows(composite: &dyn Composite) -> bool {
    known(composite).is_some()
}

/// Which side's rows a subgroup keeps, and what it makes of them.
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
enum AttentionRole {
    Forward,
    /// keeps queries
    OfQueries,
    /// keeps keys
    OfKeys,
}
/// A step's operands by their roles.
struct AttentionOperands<'s> {
    q: &'s Array,
    k: &'s Array,
    v: &'s Array,
    mask: Option<&'s Array>,
    random: Option<&'s Array>,
    /// of the backward: the cotangent, the output, the rows' logarithms and, if it is given, their cotangent
    cotangent: Option<[&'s Array; 3]>,
    of_lse: Option<&'s Array>,
}
/// How much of everything there is.
struct AttentionSizes {
    /// matrices of queries, and of keys and values
    heads: usize,
    shared: usize,
    queries: usize,
    keys: usize,
    features: usize,
    values: usize,
}
impl AttentionSizes {
    /// Heads that share a matrix of keys.
    fn ratio(&self) -> usize {
        self.heads.checked_div(self.shared).unwrap_or(1)
    }
}
impl AttentionOperands<'_> {
    fn sizes(&self) -> AttentionSizes {
        let of = |o: &Array| {
            let [lead @ .., rows, columns] = &o.shape[..] else { return (1, 1, 1) };
            (lead.iter().product(), *rows, *columns)
        };
        let ((heads, queries, features), (shared, keys, values)) = (of(self.q), of(self.v));
        AttentionSizes { heads, shared, queries, keys, features, values }
    }
}
/// What the weights that are not dropped are multiplied by.
fn factor_of_kept(attention: &Attention) -> f32 {
    if attention.dropout < 1.0 { (1.0 / (1.0 - attention.dropout)) as f32 } else { 0.0 }
}
/// Records a step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled; more scratch than there is.
pub(crate) fn record(launcher: &mut dyn Launcher, work: &Work<'_>, composite: &dyn Composite) -> Result<(), ErrorKind> {
    let wrong = || misshapen(composite.name());
    let (attention, backward) = known(composite).ok_or_else(wrong)?;
    let mut inputs = work.inputs.iter();
    let mut next = || inputs.next().ok_or_else(wrong);
    let g = backward.map(|_| next()).transpose()?;
    let (q, k, v) = (next()?, next()?, next()?);
    let mask = attention.mask.then(&mut next).transpose()?;
    let random = (attention.dropout > 0.0).then(&mut next).transpose()?;
    let mut operands = AttentionOperands { q, k, v, mask, random, cotangent: None, of_lse: None };
    let Some((g, backward)) = g.zip(backward) else {
        if matrices::takes(&launcher.target(), &attention, &operands, work.outputs) {
            return matrices::record(launcher, &attention, &operands, work.outputs);
        }
        return launch(launcher, &attention, &operands, AttentionRole::Forward, work.outputs);
    };
    operands.cotangent = Some([g, next()?, next()?]);
    operands.of_lse = backward.with_lse.then(next).transpose()?;
    let [dq, dk, dv, of_mask @ ..] = work.outputs else { return Err(wrong()) };
    if matrices::takes(&launcher.target(), &attention, &operands, &work.outputs[..3]) {
        matrices::record(launcher, &attention, &operands, &work.outputs[..3])?;
    } else {
        launch(launcher, &attention, &operands, AttentionRole::OfQueries, &[*dq])?;
        launch(launcher, &attention, &operands, AttentionRole::OfKeys, &[*dk, *dv])?;
    }
    of_mask.first().map_or(Ok(()), |out| of_mask::record(launcher, &attention, &operands, out))
}
/// Words of the sizes at the beginning of the parameters.
const SIZES: [&str; 10] = ["heads", "queries", "keys", "features", "values", "ratio", "tiles", "chunks", "scale", "kept"];

fn launch(launcher: &mut dyn Launcher, attention: &Attention, of: &AttentionOperands<'_>, kind: AttentionRole, outputs: &[Array]) -> Result<(), ErrorKind> {
    let Some(size) = launcher.target().subgroup else { return Err(misshapen("attention")) };
    let sizes = of.sizes();
    let AttentionSizes { heads, shared, queries, keys, features, values } = sizes;
    let (kept, planes, wide) = match kind {
        AttentionRole::Forward => (queries, heads, values),
        AttentionRole::OfQueries => (queries, heads, features),
        AttentionRole::OfKeys => (keys, shared, features.max(values)),
    };
    may_walk(&launcher.target(), kind, size, &sizes)?;
    let sides = if kind == AttentionRole::OfKeys { 2 } else { 1 };
    let most = (launcher.target().dialect.most_sums() / (ROWS * sides)).max(1);
    let held = wide.div_ceil(size).next_power_of_two().min(HELD).min(most);
    let chunks = wide.div_ceil(size * held).max(1);
    let tiles = kept.div_ceil(ROWS);
    let scale = attention.scale as f32;
    let mut parameters: Vec<u32> = [heads, queries, keys, features, values, sizes.ratio(), tiles, chunks].map(|v| v as u32).to_vec();
    parameters.extend([scale.to_bits(), planes as u32, (attention.dropout as f32).to_bits(), factor_of_kept(attention).to_bits()]);
    let mut bindings = Bindings::new(launcher.target().dialect);
    let mut bound = Vec::new();
    let mut bind = |bindings: &mut Bindings, name: &'static str, o: &Array, access: Access| {
        bound.push(BoundOperand::new(bindings, name, o, access, &mut parameters)?);
        Ok::<(), ErrorKind>(())
    };
    for (name, o) in [("q", Some(of.q)), ("k", Some(of.k)), ("v", Some(of.v)), ("random", of.random)] {
        o.into_iter().try_for_each(|o| bind(&mut bindings, name, o, Access::Read))?;
    }
    if let Some([g, out, lse]) = of.cotangent {
        bind(&mut bindings, "g", g, Access::Read)?;
        bind(&mut bindings, "lse", lse, Access::Read)?;
        if kind == AttentionRole::OfQueries {
            bind(&mut bindings, "out", out, Access::Read)?;
            of.of_lse.into_iter().try_for_each(|o| bind(&mut bindings, "of_lse", o, Access::Read))?;
        }
    }
    let names: &[&'static str] = match kind {
        AttentionRole::Forward => &["y", "y_lse"],
        AttentionRole::OfQueries => &["y"],
        AttentionRole::OfKeys => &["y", "y_values"],
    };
    for (o, name) in outputs.iter().zip(names) {
        bind(&mut bindings, name, o, Bindings::to_store(o.dtype.size()))?;
    }
    let scratch =
        (kind != AttentionRole::Forward).then(|| bindings.bind(Place::Scratch, if kind == AttentionRole::OfQueries { Access::Write } else { Access::Read }));
    launcher.scratch(if scratch.is_some() { (heads * queries) as u64 } else { 0 })?;
    let scores = of.q.shape.with(of.q.shape.rank() - 1, keys);
    let mut nest = mask_nest(launcher, &bindings, of, &scores)?;
    nest.iter_mut().for_each(|(n, _, _)| n.place(&mut parameters));
    let mask = nest.as_ref().zip(of.mask);
    let masked = mask.map(|(_, m)| (bindings.bind(m.place(), Access::Read), m.dtype, parameters.len()));
    if let Some((_, rows, columns)) = &nest {
        parameters.extend([*rows, *columns]);
    }
    let mut key = Key::from_slice(&[0xF0, kind as u8, held as u8]);
    key.extend(bound.iter().flat_map(|b| [b.binding as u8, b.dtype as u8]));
    if let (Some((nest, _, _)), Some((binding, dtype, _))) = (&nest, masked) {
        key.extend([binding as u8, dtype as u8]);
        nest.describe(&mut key);
    }
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let mut functions: String = bound.iter().map(|b| b.functions(&bindings)).collect();
        functions += &score(attention, &bindings, &bound, nest.as_ref().zip(masked).map(|((n, _, _), m)| (n, m)));
        let store = |name: &str, value: &str| -> String {
            let found = bound.iter().find(|b| b.name == name);
            found.map_or_else(String::new, |b| {
                let begin = if b.is_rows { String::new() } else { format!("p[{}u] + ", b.at) };
                format!("let to_{name}: u32 = {begin}place;\n{}\n", bindings.store(b.binding, b.dtype, &format!("to_{name}"), &narrowed(b.dtype, value)))
            })
        };
        let writer = BodyWriter { dialect: bindings.dialect, size, held, store: &store };
        let body = match kind {
            AttentionRole::Forward => writer.forward(attention),
            AttentionRole::OfQueries => {
                let rounded = of.q.dtype.size() == 2;
                let sums = scratch.map_or_else(String::new, |s| bindings.store(s, DType::F32, "place", "delta"));
                writer.of_queries(attention, rounded, of.of_lse.is_some(), &sums)
            }
            AttentionRole::OfKeys => writer.of_keys(attention, &scratch.map_or_else(String::new, |s| bindings.load(s, DType::F32, "place"))),
        };
        let sizes = SIZES.iter().enumerate().map(|(k, name)| format!("let {name}: u32 = p[{k}u];\n"));
        let sizes: String = sizes.chain(bound.iter().map(BoundOperand::step)).collect();
        let body = format!(
            "{sizes}let number: u32 = (group.y * groups.x + group.x) * {}u + own;
if (number >= tiles * chunks * kept) {{ return; }}
let first: u32 = (number % tiles) * {ROWS}u;
let chunk: u32 = (number / tiles) % chunks;
let plane: u32 = number / (tiles * chunks);
{body}",
            LANES / size
        );
        KernelFrame {
            bindings: &bindings,
            lanes: LANES,
            numbered: Numbering::InSubgroup(size),
            shared: Vec::new(),
            functions: &functions,
            // Of as many features as an invocation holds the sums take half of them.
            blocks: Some(OF_128_REGISTERS / LANES / if held == HELD { 2 } else { 1 }),
            body,
        }
        .text()
    })?;
    launcher.launch_groups(pipeline, &bindings, &parameters, (tiles * chunks * planes).div_ceil(LANES / size) as u64);
    Ok(())
}
/// Whether one invocation may walk its rows: what it walks is not cut, for an error is better than a result of some of
/// the keys.
fn may_walk(target: &LaunchTarget, kind: AttentionRole, size: usize, sizes: &AttentionSizes) -> Result<(), ErrorKind> {
    let &AttentionSizes { queries, keys, features, values, .. } = sizes;
    let of_dots = |columns: usize| columns / size.min(8) + columns % size.min(8) + 2;
    let of_walk = 1 + of_dots(features) + if size > 8 { size / 8 + 1 } else { 0 };
    let rounds = match kind {
        AttentionRole::Forward => (keys.div_ceil(size) + 1) * of_walk,
        AttentionRole::OfQueries => 2 * (keys.div_ceil(size) + 1) * (of_walk + of_dots(values)),
        AttentionRole::OfKeys => sizes.ratio() * (queries.div_ceil(size) + 1) * (of_walk + of_dots(values)),
    };
    if target.on_host && rounds > MOST_ROUNDS {
        let what = format!("attention of {queries} queries to {keys} keys by a driver on the host's processor, whose loops end after {MOST_ROUNDS} rounds");
        return Err(target.dialect.lacks(what));
    }
    Ok(())
}
/// How the mask lies over the heads, and its steps along queries and keys.
fn mask_nest(launcher: &mut dyn Launcher, bindings: &Bindings, of: &AttentionOperands<'_>, scores: &Shape) -> Result<Option<(Nest, u32, u32)>, ErrorKind> {
    let Some(mask) = of.mask else { return Ok(None) };
    let (rank, own) = (scores.rank(), mask.shape.rank());
    let mut strides = [0; MAX_RANK];
    for axis in 0..own {
        if mask.shape[axis] != 1 {
            strides[rank - own + axis] = mask.strides[axis];
        }
    }
    let (rows, columns) = (strides[rank - 2] as u32, strides[rank - 1] as u32);
    strides[rank - 2] = 0;
    strides[rank - 1] = 0;
    let axes: Vec<usize> = (0..rank - 2).collect();
    Ok(Some((launcher.nest(0, bindings, scores, [&axes, &[]], &[(mask.offset, strides)])?, rows, columns)))
}
/// An operand with a name in the text, and its parameters: where it begins and, of one that is rows, the steps of its layout.
struct BoundOperand {
    name: &'static str,
    binding: usize,
    dtype: DType,
    /// the first of its parameters
    at: usize,
    is_rows: bool,
}
impl BoundOperand {
    /// What has an element for each row, or none.
    const NUMBERS: [&'static str; 4] = ["random", "lse", "of_lse", "y_lse"];
    fn new(bindings: &mut Bindings, name: &'static str, o: &Array, access: Access, parameters: &mut Vec<u32>) -> Result<BoundOperand, ErrorKind> {
        let (is_rows, at) = (!BoundOperand::NUMBERS.contains(&name), parameters.len());
        if is_rows {
            parameters.extend(row_parameters(o)?);
        } else {
            parameters.push(o.offset as u32);
        }
        Ok(BoundOperand { name, binding: bindings.bind(o.place(), access), dtype: o.dtype, at, is_rows })
    }
    /// Of rows: where matrix `plane` begins. Of what is read: an element, of rows by its place in the buffer, else by its number.
    fn functions(&self, bindings: &Bindings) -> String {
        let (name, at) = (self.name, self.at);
        let mut text = String::new();
        if self.is_rows {
            let [matrix, group, each] = [2, 3, 4].map(|k| at + k);
            text += &format!(
                "fn {name}_begin(plane: u32) -> u32 {{\nreturn p[{at}u] + plane / p[{each}u] * p[{group}u] + plane % p[{each}u] * p[{matrix}u];\n}}\n"
            );
        }
        if !name.starts_with('y') && name != "random" {
            let begin = if self.is_rows { String::new() } else { format!("p[{at}u] + ") };
            text += &format!("fn {name}_at(n: u32) -> f32 {{\nlet at: u32 = {begin}n;\nreturn {};\n}}\n", bindings.load(self.binding, self.dtype, "at"));
        }
        text
    }
    /// Of rows: the step from one to the next, as a variable.
    fn step(&self) -> String {
        if self.is_rows { format!("let {}_step: u32 = p[{}u];\n", self.name, self.at + 1) } else { String::new() }
    }
}
/// Where the rows of an operand lie, as kernels take it: the beginning and the steps of [`RowLayout`].
fn row_parameters(o: &Array) -> Result<[u32; 5], ErrorKind> {
    let RowLayout { offset, row, matrix, group, each } = o.rows().ok_or_else(|| misshapen("attention"))?;
    Ok([offset, row, matrix, group, each].map(|v| v as u32))
}
/// `score(head, query, key, dot)`, and `keep(head, query, key)` where weights are dropped.
fn score(attention: &Attention, bindings: &Bindings, bound: &[BoundOperand], mask: Option<(&Nest, (usize, DType, usize))>) -> String {
    let mut text = "var s: f32 = dot * bitcast<f32>(p[8u]);\n".to_string();
    if let Some((nest, (binding, dtype, steps))) = mask {
        text += &nest.coordinates(AxisGroup::Outer, "head");
        text += &format!("let at: u32 = {} + query * p[{steps}u] + key * p[{}u];\n", nest.at(0, "head"), steps + 1);
        let value = bindings.load(binding, dtype, "at");
        text += &if dtype == DType::Bool { format!("s = select(-adm_inf(), s, {value});\n") } else { format!("s = s + {value};\n") };
    }
    if attention.causal {
        text += "s = select(s, -adm_inf(), key > query);\n";
    }
    let mut functions = format!(
        "fn score(head: u32, query: u32, key: u32, dot: f32) -> f32 {{\nif (key >= p[2u] || query >= p[1u]) {{ return -adm_inf(); }}\n{text}return s;\n}}\n"
    );
    if let Some(&BoundOperand { binding, at: offset, .. }) = bound.iter().find(|b| b.name == "random") {
        let words: Vec<String> = (0..4).map(|k| bindings.word(binding, &format!("p[{offset}u] + {k}u"))).collect();
        functions += &format!(
            "// line * keys + key, which may be longer than a word.
fn element_of(line: u32, keys: u32, key: u32) -> vec2<u32> {{
let low: u32 = (line & 0xffffu) * (keys & 0xffffu);
let cross: u32 = (line & 0xffffu) * (keys >> 16u);
let middle: u32 = (line >> 16u) * (keys & 0xffffu) + (low >> 16u) + (cross & 0xffffu);
let carry: u32 = select(0u, 0x10000u, middle < (low >> 16u) + (cross & 0xffffu));
let word: u32 = line * keys;
let high: u32 = (line >> 16u) * (keys >> 16u) + (cross >> 16u) + (middle >> 16u) + carry;
return vec2<u32>(word + key, high + select(0u, 1u, word + key < word));
}}
fn keep(head: u32, query: u32, key: u32) -> f32 {{
let n: vec2<u32> = element_of(head * p[1u] + query, p[2u], key);
let bits: u32 = adm_random_bits({}, n.x, n.y);
return select(bitcast<f32>(p[11u]), 0.0, f32(bits >> 8u) * 5.9604644775390625e-8 < bitcast<f32>(p[10u]));
}}
",
            words.join(", ")
        );
    }
    functions
}
/// Writes the bodies for a subgroup's size and the features that an invocation holds.
struct BodyWriter<'w> {
    dialect: &'w dyn Dialect,
    size: usize,
    held: usize,
    /// statements that store a value at `place` of an output
    store: &'w dyn Fn(&str, &str) -> String,
}
impl BodyWriter<'_> {
    fn of_subgroup(&self, what: Subgroup<'_>, value: &str) -> String {
        self.dialect.subgroup(what, DType::F32, value)
    }
    fn rows(&self, f: impl Fn(usize) -> String) -> String {
        (0..ROWS).map(f).collect()
    }
    /// Of each row kept and each feature held.
    fn each(&self, f: impl Fn(usize, usize) -> String) -> String {
        (0..ROWS).flat_map(|i| (0..self.held).map(move |c| (i, c))).map(|(i, c)| f(i, c)).collect()
    }
    /// Where the rows kept begin in matrices of an operand, `<name>_row<i>`.
    fn near(&self, names: &[&str]) -> String {
        let of = |name: &&str| {
            format!("let {name}_plane: u32 = {name}_begin(plane);\n")
                + &self.rows(|i| format!("let {name}_row{i}: u32 = {name}_plane + row{i} * {name}_step;\n"))
        };
        names.iter().map(of).collect()
    }
    /// Where the matrices of the other side begin, `<name>_far`.
    fn far(&self, names: [&str; 2]) -> String {
        names.map(|name| format!("let {name}_far: u32 = {name}_begin(far_plane);\n")).concat()
    }
    /// The products `<name><i>` of the rows kept of one operand with this invocation's row `other` of another, of so many columns.
    fn dots(&self, name: &str, near: &str, [far, other]: [&str; 2], columns: &str) -> String {
        let passed = self.size.min(8);
        let begin = self.rows(|i| format!("var {name}{i}: f32 = 0.0;\n"));
        let near_of = |at: &str| self.rows(|i| format!("let l{i}: f32 = {near}_at({near}_row{i} + {at});\n"));
        let far_of: String = (0..passed).map(|e| format!("let f{e}: f32 = {far}_at(far_row + e + {e}u);\n")).collect();
        let products: String =
            (0..passed).map(|e| self.rows(|i| format!("{name}{i} += {} * f{e};\n", self.of_subgroup(Subgroup::Broadcast(e), &format!("l{i}"))))).collect();
        let last = self.rows(|i| format!("{name}{i} += l{i} * f;\n"));
        format!(
            "{begin}{{ var e: u32 = 0u;
let far_row: u32 = {far}_far + {other} * {far}_step;
for (; e + {passed}u <= {columns}; e += {passed}u) {{
{}{far_of}{products}}}
for (; e < {columns}; e++) {{
{}let f: f32 = {far}_at(far_row + e);
{last}}} }}
",
            near_of(&format!("e + lane % {passed}u")),
            near_of("e")
        )
    }
    /// Adds to `<sums><i>_<c>` the weights `<weight><i>` times the features of the other side's rows from `walk` on.
    fn weigh(&self, sums: &[[&str; 4]], count: &str) -> String {
        let mut text = String::new();
        // The invocation that a weight comes from must be known here, or be found as the kernel runs.
        let (unrolled, from) = if self.size <= 8 { (self.size, "") } else { (8, "base + ") };
        for k in 0..unrolled {
            for (n, [sum, weight, matrix, columns]) in sums.iter().enumerate() {
                let row = format!("{from}{k}u");
                text += &format!("{{ let other: u32 = walk + {row};\nlet other_row: u32 = {matrix}_far + other * {matrix}_step;\n");
                for c in 0..self.held {
                    text +=
                        &format!("var f{c}: f32 = 0.0;\nif (other < {count} && feature{c} < {columns}) {{ f{c} = {matrix}_at(other_row + feature{c}); }}\n");
                }
                let pass = |i: usize| self.of_subgroup(if from.is_empty() { Subgroup::Broadcast(k) } else { Subgroup::Shuffle(&row) }, &format!("{weight}{i}"));
                text += &self.rows(|i| format!("let o{n}_{i}: f32 = {};\n", pass(i)));
                text += &self.each(|i, c| format!("{sum}{i}_{c} += o{n}_{i} * f{c};\n"));
                text += "}\n";
            }
        }
        if from.is_empty() { text } else { format!("for (var base: u32 = 0u; base < {}u; base += 8u) {{\n{text}}}\n", self.size) }
    }
    /// The rows kept (no further than the last of `count`), the features held, and zero sums.
    fn begin(&self, count: &str, sums: &[&str]) -> String {
        let mut text = self.rows(|i| format!("let row{i}: u32 = min(first + {i}u, {count} - 1u);\nlet line{i}: u32 = plane * {count} + row{i};\n"));
        text += &(0..self.held).map(|c| format!("let feature{c}: u32 = (chunk * {}u + {c}u) * {}u + lane;\n", self.held, self.size)).collect::<String>();
        for sum in sums {
            text += &self.each(|i, c| format!("var {sum}{i}_{c}: f32 = 0.0;\n"));
        }
        text
    }
    /// Stores the sums of the rows that there are.
    fn stores(&self, count: &str, columns: &str, output: &str, value: impl Fn(usize, usize) -> String) -> String {
        let each = self.each(|i, c| {
            let store = (self.store)(output, &value(i, c));
            format!("if (first + {i}u < {count} && feature{c} < {columns}) {{\nlet place: u32 = {output}_row{i} + feature{c};\n{store}}}\n")
        });
        self.near(&[output]) + &each
    }
    fn forward(&self, attention: &Attention) -> String {
        let size = self.size;
        let end = if attention.causal { format!("min(keys, first + {ROWS}u)") } else { "keys".into() };
        let keep = |i: usize| if attention.dropout > 0.0 { format!(" * keep(plane, row{i}, key)") } else { String::new() };
        let state = self.rows(|i| format!("var most{i}: f32 = -adm_inf();\nvar sum{i}: f32 = 0.0;\n"));
        let dots = self.dots("d", "q", ["k", "min(key, keys - 1u)"], "features");
        // A row that is hidden so far has no largest score to subtract.
        let soften = self.rows(|i| {
            let scaled: String = (0..self.held).map(|c| format!("y{i}_{c} *= shrink{i};\n")).collect();
            format!(
                "let s{i}: f32 = score(plane, row{i}, key, d{i});
let top{i}: f32 = max(most{i}, {});
let base{i}: f32 = select(top{i}, 0.0, top{i} == -adm_inf());
let shrink{i}: f32 = adm_exp(most{i} - base{i});
most{i} = top{i};
let e{i}: f32 = adm_exp(s{i} - base{i});
sum{i} = sum{i} * shrink{i} + e{i};
{scaled}let w{i}: f32 = e{i}{};
",
                self.of_subgroup(Subgroup::Max, &format!("s{i}")),
                keep(i)
            )
        });
        let weigh = self.weigh(&[["y", "w", "v", "values"]], "keys");
        let finish = self.rows(|i| {
            let store = (self.store)("y_lse", &format!("least{i} + adm_log(total{i})"));
            format!(
                "let total{i}: f32 = {};
let least{i}: f32 = select(most{i}, 0.0, most{i} == -adm_inf());
let whole{i}: f32 = select(total{i}, 1.0, total{i} == 0.0);
if (chunk == 0u && lane == 0u && first + {i}u < queries) {{\nlet place: u32 = line{i};\n{store}}}
",
                self.of_subgroup(Subgroup::Sum, &format!("sum{i}"))
            )
        });
        format!(
            "{}{}let far_plane: u32 = plane / ratio;
{}{state}for (var walk: u32 = 0u; walk < {end}; walk += {size}u) {{
let key: u32 = walk + lane;
{dots}{soften}{weigh}}}
{finish}{}",
            self.begin("queries", &["y"]),
            self.near(&["q"]),
            self.far(["k", "v"]),
            self.stores("queries", "values", "y", |i, c| format!("y{i}_{c} / whole{i}"))
        )
    }
    fn of_queries(&self, attention: &Attention, rounded: bool, with_lse: bool, store_sum: &str) -> String {
        let size = self.size;
        let end = if attention.causal { format!("min(keys, first + {ROWS}u)") } else { "keys".into() };
        let keep = |i: usize| if attention.dropout > 0.0 { format!(" * keep(plane, row{i}, key)") } else { String::new() };
        let far = "min(key, keys - 1u)";
        // Where a row is hidden everywhere its logarithm is -inf, and exp(-inf - inf) the zero it must be.
        let state = self.rows(|i| format!("let lse{i}: f32 = select(lse_at(line{i}), adm_inf(), lse_at(line{i}) == -adm_inf());\nvar part{i}: f32 = 0.0;\n"));
        let both = self.dots("d", "q", ["k", far], "features") + &self.dots("t", "g", ["v", far], "values");
        let weights = self.rows(|i| {
            format!("let w{i}: f32 = adm_exp(score(plane, row{i}, key, d{i}) - lse{i});\nlet dw{i}: f32 = select(0.0, t{i}{}, key < keys);\n", keep(i))
        });
        let walk =
            |inside: &str| format!("for (var walk: u32 = 0u; walk < {end}; walk += {size}u) {{\nlet key: u32 = walk + lane;\n{both}{weights}{inside}}}\n");
        // The dot product of output and cotangent is that of weights and theirs, unless the output was rounded to 16 bits.
        let sums = if rounded {
            walk(&self.rows(|i| format!("part{i} += w{i} * dw{i};\n")))
        } else {
            let parts = self.rows(|i| format!("part{i} += g_at(g_row{i} + c) * out_at(out_row{i} + c);\n"));
            format!("for (var c: u32 = lane; c < values; c += {size}u) {{\n{parts}}}\n")
        };
        let deltas = self.rows(|i| {
            let own = if with_lse { format!(" - of_lse_at(line{i})") } else { String::new() };
            format!(
                "let delta{i}: f32 = {}{own};\nif (chunk == 0u && lane == 0u && first + {i}u < queries) {{\nlet place: u32 = line{i};\nlet delta: f32 = delta{i};\n{store_sum}\n}}\n",
                self.of_subgroup(Subgroup::Sum, &format!("part{i}"))
            )
        });
        let inside = self.rows(|i| format!("let ds{i}: f32 = w{i} * (dw{i} - delta{i}) * bitcast<f32>(scale);\n"))
            + &self.weigh(&[["y", "ds", "k", "features"]], "keys");
        format!(
            "{}{}let far_plane: u32 = plane / ratio;
{}{state}{sums}{deltas}{}{}",
            self.begin("queries", &["y"]),
            self.near(&["q", "g", "out"][..if rounded { 2 } else { 3 }]),
            self.far(["k", "v"]),
            walk(&inside),
            self.stores("queries", "features", "y", |i, c| format!("y{i}_{c}"))
        )
    }
    fn of_keys(&self, attention: &Attention, load_sum: &str) -> String {
        let size = self.size;
        let begin = if attention.causal { format!("first / {size}u * {size}u") } else { "0u".into() };
        let (line, far) = ("(far_plane * queries + min(query, queries - 1u))", "min(query, queries - 1u)");
        let both = self.dots("d", "k", ["q", far], "features") + &self.dots("t", "v", ["g", far], "values");
        let drop = attention.dropout > 0.0;
        let weights = self.rows(|i| {
            let (keep, times) =
                if drop { (format!("let kept{i}: f32 = keep(far_plane, query, row{i});\n"), format!(" * kept{i}")) } else { (String::new(), String::new()) };
            format!(
                "let s{i}: f32 = score(far_plane, query, row{i}, d{i});
let w{i}: f32 = select(0.0, adm_exp(s{i} - lse), query < queries);
{keep}let ds{i}: f32 = select(0.0, w{i} * (t{i}{times} - delta) * bitcast<f32>(scale), query < queries);
let dropped{i}: f32 = w{i}{times};
"
            )
        });
        let weigh = self.weigh(&[["y", "ds", "q", "features"], ["z", "dropped", "g", "values"]], "queries");
        format!(
            "{}{}for (var share: u32 = 0u; share < ratio; share++) {{
let far_plane: u32 = plane * ratio + share;
{}for (var walk: u32 = {begin}; walk < queries; walk += {size}u) {{
let query: u32 = walk + lane;
let place: u32 = {line};
let own_lse: f32 = lse_at(place);
let lse: f32 = select(own_lse, adm_inf(), own_lse == -adm_inf());
let delta: f32 = {load_sum};
{both}{weights}{weigh}}}
}}
{}{}",
            self.begin("keys", &["y", "z"]),
            self.near(&["k", "v"]),
            self.far(["q", "g"]),
            self.stores("keys", "features", "y", |i, c| format!("y{i}_{c}")),
            self.stores("keys", "values", "y_values", |i, c| format!("z{i}_{c}"))
        )
    }
}
