//! Attention and its backward by the matrix unit of a warp, of 16-bit floats, with sums and softmax in f32; nothing of the
//! scores' size is written. Blocks of four warps keep rows of one side as the unit's left factor, in registers, and walk the
//! other side's in tiles, which `cp.async` brings to the block's memory while those before them are multiplied.
//!
//! *Scores* are the unit's results where they were made: a lane has two neighbours of two rows, so the largest of a row is found
//! among four lanes. Weights are powers of two, the scale being part of their exponent, and become the left factor of the
//! second product in the registers that they lie in.
//!
//! *Tiles that hide something*, by the causal order, by the sides' ends or by a mask, have code of their own; those that are
//! hidden whole are not walked, and long walks begin first.
//!
//! *The backward* has no atomics. Blocks of queries walk the keys twice: for the row sums of weights times their cotangents,
//! which the output, rounded to 16 bits, does not give where one key has all the weight, then for the cotangents of queries.
//! Blocks of keys walk the queries of all heads that share them, for those of keys and values: in one pass where registers hold
//! both, else in two. Features that registers do not hold are shared out over blocks, which form the scores again.
//!
//! | widest row | rows of a warp | far rows of a tile |
//! |---|---|---|
//! | 64 features | 32 (16 with a mask or dropout, or backward) | 32 |
//! | 128 | 16 | 32 (16 for cotangents with a mask or dropout) |
//! | 256 | 16, of which one side is read anew for each tile in the backward | 16 |
use super::{AttentionOperands, AttentionSizes, factor_of_kept, mask_nest, row_parameters};
use crate::{
    bindings::{Access, Bindings, Place},
    dialect::guarded,
    frame::{KernelFrame, Numbering, SharedArray},
    launcher::{Array, Key, LaunchTarget, Launcher},
    nest::AxisGroup,
};
use adamant_ir::{DType, ErrorKind, composite::attention::Attention};

/// Warps of a block.
const WARPS: usize = 4;
/// Features of one unit.
const OF_UNIT: usize = 16;
/// Elements of a piece of 16 bytes.
const PIECE: usize = 8;
/// The most features and values of a row.
const WIDEST: usize = 256;

/// Does the matrix unit take these operands? Else they are the plain kernel's: other dtypes, rows that are no whole pieces of
/// 16 bytes or are longer than registers hold, a scale that leaves no order among scores, a device without the unit.
pub(super) fn takes(target: &LaunchTarget, attention: &Attention, of: &AttentionOperands<'_>, outputs: &[Array]) -> bool {
    let dtype = of.q.dtype;
    let is_row = |columns: usize| columns > 0 && columns <= WIDEST && columns.is_multiple_of(PIECE);
    let copied = [Some(of.q), Some(of.k), Some(of.v), of.cotangent.map(|c| c[0])];
    let begin_at = |o: &Array, each: usize| {
        let whole = |step: usize| step.is_multiple_of(each);
        o.rows().is_some_and(|rows| [rows.offset, rows.row, rows.matrix, rows.group].into_iter().all(whole))
    };
    target.matrices
        && matches!(dtype, DType::F16 | DType::BF16)
        && copied.into_iter().flatten().all(|o| o.dtype == dtype && is_row(o.shape[o.shape.rank() - 1]) && begin_at(o, PIECE))
        && outputs.iter().all(|o| o.dtype.size() != 2 || o.dtype == dtype && begin_at(o, 2))
        && Measure::of(attention).size.is_normal()
}
/// The factor of the scores as kernels take it.
struct Measure {
    scale: f32,
    size: f32,
    /// of exponents of two
    unit: f32,
    /// the sign bits that rows kept take over
    flip: u32,
}
impl Measure {
    fn of(attention: &Attention) -> Measure {
        let scale = attention.scale as f32;
        let unit = (attention.scale.abs() * std::f64::consts::LOG2_E) as f32;
        Measure { scale, size: scale.abs(), unit, flip: if scale < 0.0 { 0x8000_8000 } else { 0 } }
    }
}
/// What blocks keep and what they make of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum AttentionPass {
    Forward,
    OfQueries,
    /// of keys and of values
    OfBoth,
    OfKeys,
    OfValues,
}
/// How a pass is cut, by what registers hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct AttentionTile {
    /// rows of a warp, in sixteens
    tall: usize,
    /// far rows of a tile
    far: usize,
    /// units of both sides' rows
    units: [usize; 2],
    /// are the rows of the second side held?
    held: bool,
    /// units of a result's rows that a block has, and how many blocks share a row
    out: usize,
    chunks: usize,
}
impl AttentionTile {
    fn of(pass: AttentionPass, widths: [usize; 2], is_heavy: bool) -> AttentionTile {
        let mut units = widths.map(|w| w.div_ceil(OF_UNIT));
        let widest = units[0].max(units[1]);
        let is_one_sided = matches!(pass, AttentionPass::Forward | AttentionPass::OfValues);
        let tall = if pass == AttentionPass::Forward && widest <= 4 && !is_heavy { 2 } else { 1 };
        let far = match widest {
            0..=4 if pass == AttentionPass::OfBoth && is_heavy => 16,
            0..=4 => 32,
            // As many as the block's memory has: what a tile costs beside its products is shared by more of them.
            5 if is_one_sided || !is_heavy => 64,
            6..=8 if is_one_sided || !is_heavy => 32,
            _ => 16,
        };
        let most = if is_one_sided {
            10
        } else if is_heavy {
            6
        } else {
            8
        };
        let side = usize::from(is_one_sided);
        let chunks = if pass == AttentionPass::OfBoth { 1 } else { units[side].div_ceil(most) };
        let out = units[side].div_ceil(chunks);
        if pass != AttentionPass::OfBoth {
            units[side] = out * chunks;
        }
        AttentionTile { tall, far, units, held: widest <= 8, out, chunks }
    }
    fn rows(&self) -> usize {
        WARPS * 16 * self.tall
    }
    /// Bytes of two stages.
    fn shared(&self, with_numbers: bool) -> usize {
        let row = (self.units[0] + self.units[1] + 1) * 32;
        2 * self.far * (row + if with_numbers { 8 } else { 0 })
    }
}
/// Records the launches.
///
/// # Errors
/// A text that cannot be compiled; more scratch than there is.
pub(super) fn record(launcher: &mut dyn Launcher, attention: &Attention, of: &AttentionOperands<'_>, outputs: &[Array]) -> Result<(), ErrorKind> {
    let last = of.q.shape.rank() - 1;
    let widths = [of.q.shape[last], of.v.shape[last]];
    let is_heavy = attention.mask || attention.dropout > 0.0;
    let mut pass = |pass: AttentionPass, outputs: &[Option<&Array>]| launch(launcher, attention, of, pass, AttentionTile::of(pass, widths, is_heavy), outputs);
    let outputs: Vec<Option<&Array>> = outputs.iter().map(Some).collect();
    match outputs[..] {
        [dq, dk, dv] => {
            pass(AttentionPass::OfQueries, &[dq])?;
            if widths[0].max(widths[1]) <= 4 * OF_UNIT {
                return pass(AttentionPass::OfBoth, &[dk, dv]);
            }
            pass(AttentionPass::OfKeys, &[dk, None])?;
            pass(AttentionPass::OfValues, &[None, dv])
        }
        _ => pass(AttentionPass::Forward, &outputs),
    }
}
/// The words of the sizes and of the scores' factors, with which the parameters begin.
const OWN: usize = 13;

fn launch(
    launcher: &mut dyn Launcher,
    attention: &Attention,
    of: &AttentionOperands<'_>,
    pass: AttentionPass,
    tile: AttentionTile,
    outputs: &[Option<&Array>],
) -> Result<(), ErrorKind> {
    let sizes = of.sizes();
    let AttentionSizes { heads, shared, queries, keys, features, values } = sizes;
    let keeps_queries = matches!(pass, AttentionPass::Forward | AttentionPass::OfQueries);
    let (kept, planes) = if keeps_queries { (queries, heads) } else { (keys, shared) };
    let tiles = kept.div_ceil(tile.rows());
    let measure = Measure::of(attention);
    let mut parameters: Vec<u32> = [queries, keys, features, values, sizes.ratio(), tiles, planes].map(|v| v as u32).to_vec();
    parameters.extend([measure.scale, measure.size, measure.unit].map(f32::to_bits));
    parameters.extend([measure.flip, (attention.dropout as f32).to_bits(), factor_of_kept(attention).to_bits()]);
    let mut bindings = Bindings::new(launcher.target().dialect);
    let mut arguments: Vec<String> = Vec::new();
    for o in [Some(of.q), Some(of.k), Some(of.v), of.cotangent.map(|c| c[0])].into_iter().flatten() {
        arguments.push(matrices(&mut bindings, &mut parameters, o, Access::Read, "const uint16_t")?);
    }
    if let Some([_, _, lse]) = of.cotangent {
        arguments.push(pointer(&mut bindings, &mut parameters, lse, Access::Read, "const float"));
        if pass == AttentionPass::OfQueries {
            let of_lse = of.of_lse.map(|o| pointer(&mut bindings, &mut parameters, o, Access::Read, "const float"));
            arguments.push(of_lse.unwrap_or_else(|| "(const float *)nullptr".into()));
        }
        let access = if pass == AttentionPass::OfQueries { Access::Write } else { Access::Read };
        arguments.push(format!("(float *)b{}", bindings.bind(Place::Scratch, access)));
        launcher.scratch((heads * queries) as u64)?;
    }
    for output in outputs {
        arguments.push(match output {
            Some(lse) if lse.dtype.size() != 2 => pointer(&mut bindings, &mut parameters, lse, Access::Write, "float"),
            Some(o) => matrices(&mut bindings, &mut parameters, o, Access::Write, "uint16_t")?,
            None => "adm_matrices<uint16_t>{nullptr, 0u, 0u, 0u, 1u}".into(),
        });
    }
    let draws = of.random.map(|o| pointer(&mut bindings, &mut parameters, o, Access::Read, "const uint32_t"));
    let mut mask = mask_nest(launcher, &bindings, of, &of.q.shape.with(of.q.shape.rank() - 1, keys))?;
    let masked = mask.as_mut().zip(of.mask).map(|((nest, rows, columns), array)| {
        nest.place(&mut parameters);
        parameters.extend([*rows, *columns]);
        (bindings.bind(array.place(), Access::Read), array.dtype, parameters.len() - 2)
    });
    let mut key = Key::from_slice(&[0xF1, pass as u8, of.q.dtype as u8, u8::from(attention.causal), u8::from(of.of_lse.is_some()), u8::from(draws.is_some())]);
    key.extend([tile.tall, tile.far, tile.units[0], tile.units[1], tile.out, tile.chunks].map(|v| v as u8));
    key.extend(bindings.places.iter().zip(&bindings.access).map(|(p, a)| *a as u8 | u8::from(*p == Place::Scratch) << 4));
    if let (Some((nest, ..)), Some((binding, dtype, _))) = (&mask, masked) {
        key.extend([binding as u8, dtype as u8]);
        nest.describe(&mut key);
    }
    // The same buffer may be bound for several arguments.
    key.extend(arguments.iter().chain(&draws).flat_map(|a| a.bytes().filter(u8::is_ascii_digit)));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let verbatim = |text: String| bindings.dialect.verbatim(text);
        let mut functions = verbatim(library(pass));
        if let (Some((nest, ..)), Some(_)) = (&mask, masked) {
            functions += &format!("fn mask_base(plane: u32) -> u32 {{\n{}return {};\n}}\n", nest.coordinates(AxisGroup::Outer, "plane"), nest.at(0, "plane"));
        }
        let body = verbatim(body(attention, of, pass, tile, &arguments, draws.as_deref(), masked));
        let shared = vec![SharedArray { name: "tiles", of: "u32", length: tile.shared(!keeps_queries) / 4 }];
        KernelFrame { bindings: &bindings, lanes: 32 * WARPS, numbered: Numbering::InWorkgroup, shared, functions: &functions, blocks: Some(1), body }.text()
    })?;
    launcher.launch_groups(pipeline, &bindings, &parameters, (tiles * tile.chunks * planes) as u64);
    Ok(())
}
/// An operand in the text: a pointer to its numbers.
fn pointer(bindings: &mut Bindings, parameters: &mut Vec<u32>, o: &Array, access: Access, of: &str) -> String {
    let binding = bindings.bind(o.place(), access);
    parameters.push(o.offset as u32);
    format!("({of} *)b{binding} + p[{}]", parameters.len() - 1)
}
/// An operand in the text: matrices, and where their rows lie.
fn matrices(bindings: &mut Bindings, parameters: &mut Vec<u32>, o: &Array, access: Access, of: &str) -> Result<String, ErrorKind> {
    let (binding, at) = (bindings.bind(o.place(), access), parameters.len());
    parameters.extend(row_parameters(o)?);
    let steps: Vec<String> = (at + 1..parameters.len()).map(|k| format!("p[{k}]")).collect();
    Ok(format!("adm_matrices<{of}>{{({of} *)b{binding} + p[{at}], {}}}", steps.join(", ")))
}
/// What the text of a pass calls.
fn library(pass: AttentionPass) -> String {
    let (name, code) = match pass {
        AttentionPass::Forward => ("adm_attention_forward", include_str!("matrices/forward.cuh")),
        AttentionPass::OfQueries => ("adm_attention_of_queries", include_str!("matrices/of_queries.cuh")),
        _ => ("adm_attention_of_keys", include_str!("matrices/of_keys.cuh")),
    };
    guarded("adm_attention", include_str!("matrices/tiles.cuh")) + "\n" + &guarded(name, code) + "\n"
}
/// The statements of a block; of `masked` the binding, the dtype and which parameters are its steps along queries and keys.
fn body(
    attention: &Attention,
    of: &AttentionOperands<'_>,
    pass: AttentionPass,
    tile: AttentionTile,
    arguments: &[String],
    draws: Option<&str>,
    masked: Option<(usize, DType, usize)>,
) -> String {
    let AttentionTile { tall, far, units: [features, values], held, out, chunks } = tile;
    let mask = match masked {
        None => 0,
        Some((_, DType::Bool, _)) => 1,
        Some((_, DType::F32, _)) => 2,
        Some(_) => 3,
    };
    let common = format!("{}, {mask}, {}", attention.causal, attention.dropout > 0.0);
    let sizes = format!("{}, {tall}, {far}, {features}, {values}", of.q.dtype == DType::F16);
    let call = match pass {
        AttentionPass::Forward => format!("adm_attention_forward<{sizes}, {out}, {common}>"),
        AttentionPass::OfQueries => format!("adm_attention_of_queries<{sizes}, {held}, {out}, {common}, {}>", of.of_lse.is_some()),
        AttentionPass::OfBoth => format!("adm_attention_of_keys<{sizes}, {held}, {features}, {values}, {common}>"),
        AttentionPass::OfKeys => format!("adm_attention_of_keys<{sizes}, {held}, {out}, 0, {common}>"),
        AttentionPass::OfValues => format!("adm_attention_of_keys<{sizes}, {held}, 0, {out}, {common}>"),
    };
    let keys: Vec<String> = (0..4).map(|k| draws.map_or_else(|| "0u".into(), |from| format!("({from})[{k}]"))).collect();
    let mask_of = match masked {
        Some((binding, _, steps)) => {
            format!("b{binding}, p[{steps}], p[{}]}};\nconst auto mask_of = [&](uint32_t plane) {{ return ADM_OWN(mask_base)(L, plane);", steps + 1)
        }
        None => "nullptr, 0u, 0u};\nconst auto mask_of = [](uint32_t) { return 0u;".into(),
    };
    // Of causal queries the last have the most to walk, of causal keys the first.
    let is_reversed = attention.causal && matches!(pass, AttentionPass::Forward | AttentionPass::OfQueries);
    let number = if is_reversed { "p[5] - 1u - number % p[5]" } else { "number % p[5]" };
    let factors: Vec<String> = [7, 8, 9].iter().map(|k| format!("adm_bits_f32(p[{k}])")).collect();
    format!(
        "const uint32_t number = group.y * groups.x + group.x, of_plane = p[5] * {chunks}u;
if (number >= of_plane * p[6]) return;
const uint32_t plane = number / of_plane, chunk = number / p[5] % {chunks}u, first = ({number}) * {}u;
const adm_attention of = {{p[0], p[1], p[2], p[3], {}, p[10], adm_bits_f32(p[11]), adm_bits_f32(p[12]), {{{}}}, {mask_of} }};
{call}(of, {}, (uint32_t)__cvta_generic_to_shared(tiles), first, chunk, plane, p[4], mask_of);
",
        tile.rows(),
        factors.join(", "),
        keys.join(", "),
        arguments.join(", "),
    )
}
const _: () = assert!(OWN == 13, "the text names its parameters by number");
