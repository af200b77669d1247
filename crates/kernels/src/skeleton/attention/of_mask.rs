//! The cotangent of a mask that is added: those of the scores, before their scale, added up over heads, queries and keys along
//! which the mask broadcasts. An invocation forms the scores of its element again, one after another; where there are many a
//! subgroup shares them. The row sums are those that the cotangent of queries has left.
use super::{AttentionOperands, AttentionSizes, BoundOperand, LANES, factor_of_kept, mask_nest, score};
use crate::{
    Subgroup,
    bindings::{Access, Bindings, Place},
    frame::{KernelFrame, Numbering},
    launcher::{Array, Key, Launcher, misshapen},
    nest::AxisGroup,
    skeleton::matmul::narrowed,
};
use adamant_ir::{DType, ErrorKind, MAX_RANK, composite::attention::Attention};

/// Words of the sizes at the beginning of the parameters; the scores' own are where `score` looks for them.
const SIZES: [&str; 16] = [
    "heads",
    "queries",
    "keys",
    "features",
    "values",
    "ratio",
    "elements",
    "rounds",
    "scale",
    "",
    "dropout",
    "kept",
    "mask_queries",
    "mask_keys",
    "walked_queries",
    "walked_keys",
];
/// Scores of an element from which on a subgroup shares them.
const MANY: usize = 32;

/// Records the launch.
///
/// # Errors
/// A text that cannot be compiled; an element of more scores than a word counts.
pub(super) fn record(launcher: &mut dyn Launcher, attention: &Attention, of: &AttentionOperands<'_>, out: &Array) -> Result<(), ErrorKind> {
    let wrong = || misshapen("attention");
    let (size, mask, [g, _, lse]) = (launcher.target().subgroup.ok_or_else(wrong)?, of.mask.ok_or_else(wrong)?, of.cotangent.ok_or_else(wrong)?);
    let rank = of.q.shape.rank();
    let sizes = of.sizes();
    let AttentionSizes { heads, queries, keys, features, values, .. } = sizes;
    let scores = of.q.shape.with(rank - 1, keys);
    let extent = |axis: usize| (axis + mask.shape.rank()).checked_sub(rank).map_or(1, |own| mask.shape[own]);
    let walked = |axis: usize| if extent(axis) == scores[axis] { 1 } else { scores[axis] };
    let (whole, broadcast): (Vec<usize>, Vec<usize>) = (0..rank - 2).partition(|a| extent(*a) == scores[*a]);
    let rounds: usize = (0..rank).map(walked).product();
    if u32::try_from(rounds).is_err() {
        return Err(launcher.target().dialect.lacks(format!("{rounds} scores for one element of a mask")));
    }
    let alone = rounds < MANY;
    let elements = mask.shape.elements();
    let mut parameters: Vec<u32> = [heads, queries, keys, features, values, sizes.ratio(), elements, rounds].map(|v| v as u32).to_vec();
    parameters.extend([(attention.scale as f32).to_bits(), 0, (attention.dropout as f32).to_bits(), factor_of_kept(attention).to_bits()]);
    parameters.extend([extent(rank - 2), extent(rank - 1), walked(rank - 2), walked(rank - 1)].map(|v| v as u32));
    let mut bindings = Bindings::new(launcher.target().dialect);
    let mut bound = Vec::new();
    for (name, o) in [("q", Some(of.q)), ("k", Some(of.k)), ("v", Some(of.v)), ("g", Some(g)), ("lse", Some(lse)), ("random", of.random)] {
        let Some(o) = o else { continue };
        bound.push(BoundOperand::new(&mut bindings, name, o, Access::Read, &mut parameters)?);
    }
    let (sums, target, to) = (bindings.bind(Place::Scratch, Access::Read), bindings.bind(out.place(), Bindings::to_store(out.dtype.size())), parameters.len());
    parameters.push(out.offset as u32);
    launcher.scratch((heads * queries) as u64)?;
    // Planes of scores by the mask's own heads, and by those along which it broadcasts.
    let mut planes = [0; MAX_RANK];
    (0..rank - 2).for_each(|a| planes[a] = scores[a + 1..rank - 2].iter().product::<usize>() as isize);
    let mut own = launcher.nest(1, &bindings, &scores, [&whole, &[]], &[(0, planes)])?;
    let mut others = launcher.nest(2, &bindings, &scores, [&broadcast, &[]], &[(0, planes)])?;
    own.place(&mut parameters);
    others.place(&mut parameters);
    let mut nest = mask_nest(launcher, &bindings, of, &scores)?;
    nest.iter_mut().for_each(|(n, ..)| n.place(&mut parameters));
    let masked = (bindings.bind(mask.place(), Access::Read), mask.dtype, parameters.len());
    parameters.extend(nest.iter().flat_map(|(_, rows, columns)| [*rows, *columns]));
    let mut key =
        Key::from_slice(&[0xF2, u8::from(alone), u8::from(attention.causal), sums as u8, target as u8, out.dtype as u8, masked.0 as u8, mask.dtype as u8]);
    key.extend(bound.iter().flat_map(|b| [b.binding as u8, b.dtype as u8]));
    key.extend(bindings.access.iter().map(|a| *a as u8));
    [&own, &others].into_iter().chain(nest.iter().map(|n| &n.0)).for_each(|n| n.describe(&mut key));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let mut functions: String = bound.iter().map(|b| b.functions(&bindings)).collect();
        for (name, nest) in [("own_plane", &own), ("other_plane", &others)] {
            functions += &format!("fn {name}(n: u32) -> u32 {{\n{}return {};\n}}\n", nest.coordinates(AxisGroup::Outer, "n"), nest.at(0, "n"));
        }
        functions += &score(attention, &bindings, &bound, nest.as_ref().map(|(n, ..)| (n, masked)));
        let sizes = SIZES.iter().enumerate().filter(|s| !s.1.is_empty()).map(|(k, name)| format!("let {name}: u32 = p[{k}u];\n"));
        let sizes: String = sizes.chain(bound.iter().map(BoundOperand::step)).collect();
        let (element, begin, step) = if alone { (format!("{LANES}u + lane"), "0u", 1) } else { (format!("{}u + own", LANES / size), "lane", size) };
        let sum = if alone { "sum".into() } else { bindings.dialect.subgroup(Subgroup::Sum, DType::F32, "sum") };
        let body = format!(
            "{sizes}let element: u32 = (group.y * groups.x + group.x) * {element};
if (element >= elements) {{ return; }}
let plane: u32 = own_plane(element / (mask_keys * mask_queries));
var sum: f32 = 0.0;
for (var round: u32 = {begin}; round < rounds; round += {step}u) {{
let key: u32 = element % mask_keys + round % walked_keys;
let query: u32 = (element / mask_keys) % mask_queries + (round / walked_keys) % walked_queries;
let head: u32 = plane + other_plane(round / (walked_keys * walked_queries));
let line: u32 = head * queries + query;
let far: u32 = head / ratio;
if ({seen}) {{
let q_row: u32 = q_begin(head) + query * q_step;
let k_row: u32 = k_begin(far) + key * k_step;
var dot: f32 = 0.0;
for (var c: u32 = 0u; c < features; c++) {{ dot += q_at(q_row + c) * k_at(k_row + c); }}
let g_row: u32 = g_begin(head) + query * g_step;
let v_row: u32 = v_begin(far) + key * v_step;
var d: f32 = 0.0;
for (var c: u32 = 0u; c < values; c++) {{ d += g_at(g_row + c) * v_at(v_row + c); }}
let logarithm: f32 = lse_at(line);
let weight: f32 = adm_exp(score(head, query, key, dot) - select(logarithm, adm_inf(), logarithm == -adm_inf()));
sum += weight * (d{keep} - {delta});
}}
}}
let total: f32 = {sum};
{first}let place: u32 = p[{to}u] + element;
{store}
{last}",
            seen = if attention.causal { "key <= query" } else { "true" },
            keep = if attention.dropout > 0.0 { " * keep(head, query, key)" } else { "" },
            delta = bindings.load(sums, DType::F32, "line"),
            first = if alone { "" } else { "if (lane == 0u) {\n" },
            last = if alone { "" } else { "}\n" },
            store = bindings.store(target, out.dtype, "place", &narrowed(out.dtype, "total")),
        );
        let numbered = if alone { Numbering::InWorkgroup } else { Numbering::InSubgroup(size) };
        KernelFrame { bindings: &bindings, lanes: LANES, numbered, shared: Vec::new(), functions: &functions, blocks: None, body }.text()
    })?;
    launcher.launch_groups(pipeline, &bindings, &parameters, elements.div_ceil(if alone { LANES } else { LANES / size }) as u64);
    Ok(())
}
