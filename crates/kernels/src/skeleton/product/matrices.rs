//! Tiles by the matrix unit of a warp: 16 x 8 x 16 elements by one instruction, factors of 16 bits, sums in f32. Factors lie
//! in the block's memory as they lie in their own, along K or across it, in pieces of 16 bytes that are swapped within their
//! rows so that eight rows of one piece lie in eight different banks; `ldmatrix` takes them out as the unit wants them, transposed
//! where they lie across.
//!
//! K is walked in slices of 32 in three stages: while one is multiplied, the next two are on their way. A factor whose pieces
//! are whole and aligned in memory is copied piece by piece without passing through registers (`cp.async`); any other is
//! gathered element by element, or by a type of the caller's that holds what it knows of a thread's rows or columns. Where a piece reaches over an edge the copy fills up with zeros.
use super::{ProductForm, tile_of};
use crate::{
    bindings::Bindings,
    frame::{KernelFrame, Numbering, SharedArray},
};
use adamant_ir::{DType, ErrorKind};

/// Slices of K.
const SLICE: usize = 32;
/// Elements of a piece of 16 bytes.
const PIECE: usize = 8;
const STAGES: usize = 3;

/// A factor as the unit's tiles take it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnitFactor {
    /// its binding
    pub binding: usize,
    /// which parameter is its step across the axis along which it lies; none where it is gathered
    pub across: Option<usize>,
    /// does it lie along K?
    pub along_depth: bool,
}
/// Both factors of a product for the matrix unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnitFactors {
    /// F16 or BF16
    pub dtype: DType,
    /// the left one and the right one
    pub sides: [UnitFactor; 2],
}
impl UnitFactors {
    /// What texts differ by.
    pub fn describe(&self, key: &mut crate::Key) {
        key.push(self.dtype as u8);
        key.extend(self.sides.iter().map(|s| u8::from(s.along_depth) | u8::from(s.across.is_some()) << 1));
    }
}
/// The tiles of a block: 128 x 128 by eight warps, or 64 x 64 by four.
pub(super) fn tile(is_large: bool) -> [usize; 2] {
    if is_large { [128, 128] } else { [64, 64] }
}
/// What a side is called.
const NAMES: [[&str; 4]; 2] = [["lefts", "left", "top", "p[0u]"], ["rights", "right", "edge", "p[1u]"]];

/// The entry point.
///
/// # Errors
/// As `KernelFrame::text`.
pub(super) fn text(
    bindings: &Bindings,
    functions: &str,
    gathers: &[Option<String>; 2],
    factors: &UnitFactors,
    is_large: bool,
    form: ProductForm,
) -> Result<String, ErrorKind> {
    let [rows, columns] = tile(is_large);
    // Warps down and across, and each one's part of the tile in units of 16 rows and 8 columns.
    let (down, across) = if is_large { (2, 4) } else { (2, 2) };
    let (tall, wide) = (rows / down / 16, columns / across / 8);
    let lanes = 32 * down * across;
    let extents = [rows, columns];
    let fills: Vec<String> = (0..2).map(|k| fill(factors, k, extents[k], lanes, gathers[k].is_some())).collect();
    let held: String = (0..2).filter_map(|k| gathers[k].as_ref().map(|of| holds(factors, k, extents[k], lanes, of))).collect();
    let fill_stage = |stage: &str, k0: &str| format!("{{ const uint32_t stage_ = {stage}, k0_ = {k0};\n{}{} }}\n", fills[0], fills[1]);
    let kind = if factors.dtype == DType::F16 { "f16" } else { "bf16" };
    let load = [loaded(factors, 0, rows, tall), loaded(factors, 1, columns, wide)];
    let verbatim = |text: String| bindings.dialect.verbatim(text);
    let bases: String =
        (0..2).filter(|k| factors.sides[*k].across.is_some()).map(|k| format!("let base_{name}: u32 = {name}_base(batch);\n", name = NAMES[k][1])).collect();
    let stores: String = (0..tall)
        .flat_map(|i| (0..wide).flat_map(move |j| (0..2).map(move |half| (i, j, half))))
        .map(|(i, j, half)| {
            let (at, row) = (2 * half, format!("row_ + {}u", 16 * i + 8 * half));
            let sums = [format!("sums[{i}][{j}][{at}]"), format!("sums[{i}][{j}][{}]", at + 1)];
            if form.paired {
                format!("put(batch, split, {row}, column_ + {}u, {}, {});\n", 8 * j, sums[0], sums[1])
            } else {
                (0..2).map(|q| format!("put(batch, split, {row}, column_ + {}u, {}, {});\n", 8 * j + q, sums[q], sums[q])).collect()
            }
        })
        .collect();
    let body = format!(
        "    {tile}{bases}{begin}{stores}",
        tile = tile_of([rows, columns]),
        begin = verbatim(format!(
            "if (split * p[3] >= ADM_MAX(p[2], 1u)) return;
const uint32_t warp = threadIdx.x / 32u, of_warp = threadIdx.x % 32u;
const uint32_t warp_row = warp / {across}u * {warp_rows}u, warp_column = warp % {across}u * {warp_columns}u;
const uint32_t row_ = top + warp_row + of_warp / 4u, column_ = edge + warp_column + of_warp % 4u * 2u;
{held}float sums[{tall}][{wide}][4];
for (int i = 0; i < {tall}; i++) for (int j = 0; j < {wide}; j++) for (int q = 0; q < 4; q++) sums[i][j][q] = 0.0f;
const uint32_t left_shared = (uint32_t)__cvta_generic_to_shared(lefts), right_shared = (uint32_t)__cvta_generic_to_shared(rights);
const uint32_t slices = (end - begin + {SLICE}u - 1u) / {SLICE}u;
for (uint32_t s = 0; s < {ahead}u; s++) {{
    if (s < slices) {first}
    asm volatile(\"cp.async.commit_group;\" ::: \"memory\");
}}
for (uint32_t slice = 0; slice < slices; slice++) {{
    asm volatile(\"cp.async.wait_group {waits};\" ::: \"memory\");
    __syncthreads();
    if (slice + {ahead}u < slices) {next}
    asm volatile(\"cp.async.commit_group;\" ::: \"memory\");
    const uint32_t held = slice % {STAGES}u;
#pragma unroll
    for (uint32_t k = 0; k < {SLICE}u; k += 16u) {{
        uint32_t a[{tall}][4], b[{wide}][2];
        {load_left}{load_right}
#pragma unroll
        for (int i = 0; i < {tall}; i++)
#pragma unroll
            for (int j = 0; j < {wide}; j++)
                asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};\"
                    : \"+f\"(sums[i][j][0]), \"+f\"(sums[i][j][1]), \"+f\"(sums[i][j][2]), \"+f\"(sums[i][j][3])
                    : \"r\"(a[i][0]), \"r\"(a[i][1]), \"r\"(a[i][2]), \"r\"(a[i][3]), \"r\"(b[j][0]), \"r\"(b[j][1]));
    }}
}}
",
            warp_rows = 16 * tall,
            warp_columns = 8 * wide,
            ahead = STAGES - 1,
            waits = STAGES - 2,
            first = fill_stage("s", &format!("begin + s * {SLICE}u")),
            next = fill_stage(&format!("(slice + {}u) % {STAGES}u", STAGES - 1), &format!("begin + (slice + {}u) * {SLICE}u", STAGES - 1)),
            load_left = load[0],
            load_right = load[1],
        )),
    );
    // Words: two elements each.
    let shared = (0..2).map(|k| SharedArray { name: NAMES[k][0], of: "u32", length: STAGES * extents[k] * SLICE / 2 }).collect();
    KernelFrame { bindings, lanes, numbered: Numbering::InWorkgroup, shared, functions, greedy: false, body }.text()
}
/// Where a piece lies in its stage, in elements: `row` along which it lies and its number there.
fn place(factor: &UnitFactor, extent: usize, row: &str, piece: &str) -> String {
    if factor.along_depth {
        format!("({row}) * {SLICE}u + (({piece}) ^ (({row}) / 2u % 4u)) * {PIECE}u")
    } else {
        format!("({row}) * {extent}u + (({piece}) ^ (({row}) % 8u)) * {PIECE}u")
    }
}
/// Pieces of a row: along K each of the extent's rows has four; across it each of K's 32 has as many as fill the extent.
fn of_row(factor: &UnitFactor, extent: usize) -> usize {
    let along = if factor.along_depth { SLICE } else { extent };
    along / PIECE
}
/// The declaration of what a thread holds of a factor: of its rows along K, or of its eight columns across it.
fn holds(factors: &UnitFactors, side: usize, extent: usize, lanes: usize, of: &str) -> String {
    let (factor, [_, name, from, bound], of_row) = (&factors.sides[side], NAMES[side], of_row(&factors.sides[side], extent));
    let held = |first: String| format!("{of}(p, b{}, batch, {from} + {first}, {bound})", factor.binding);
    if factor.along_depth {
        let rows: Vec<String> = (0..extent * SLICE / PIECE / lanes).map(|i| held(format!("threadIdx.x / {of_row}u + {}u", i * lanes / of_row))).collect();
        format!("const {of} {name}_held[{}] = {{{}}};\n", rows.len(), rows.join(", "))
    } else {
        format!("const {of} {name}_held = {};\n", held(format!("threadIdx.x % {of_row}u * {PIECE}u")))
    }
}
/// Statements by which all threads fill a stage of one factor: `stage_`, from `k0_` on.
fn fill(factors: &UnitFactors, side: usize, extent: usize, lanes: usize, is_held: bool) -> String {
    let (factor, [array, name, from, bound]) = (&factors.sides[side], NAMES[side]);
    let of_row = of_row(factor, extent);
    let pieces = extent * SLICE / PIECE;
    let to = place(factor, extent, "row", "piece");
    let (outer, inner, outer_end, inner_end) = if factor.along_depth {
        (format!("{from} + row"), format!("k0_ + piece * {PIECE}u"), bound, "end")
    } else {
        ("k0_ + row".to_string(), format!("{from} + piece * {PIECE}u"), "end", bound)
    };
    let moved = match factor.across {
        Some(step) => format!(
            "const uint32_t left_of = outer < {outer_end} && inner < {inner_end} ? ADM_MIN({inner_end} - inner, {PIECE}u) * 2u : 0u;
const uint16_t *const source = (const uint16_t *)b{binding} + base_{name} + (left_of ? (uint64_t)outer * p[{step}] + inner : 0ull);
asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" :: \"r\"({name}_shared + (stage_ * {size}u + to) * 2u), \"l\"(source), \"r\"(left_of) : \"memory\");",
            binding = factor.binding,
            size = extent * SLICE
        ),
        None if is_held => {
            let (held, k) = if factor.along_depth { (format!("{name}_held[n / {lanes}u]"), "inner") } else { (format!("{name}_held"), "outer") };
            format!(
                "uint32_t words[4] = {{0u, 0u, 0u, 0u}};
{held}.gather(words, {k}, end);
*(uint4 *)({array} + (stage_ * {size}u + to) / 2u) = make_uint4(words[0], words[1], words[2], words[3]);",
                size = extent * SLICE
            )
        }
        None => {
            let (at, k) = if factor.along_depth { ("outer", "inner + e") } else { ("inner + e", "outer") };
            let arguments = if side == 0 { format!("batch, {at}, {k}") } else { format!("batch, {k}, {at}") };
            let bits = if factors.dtype == DType::F16 { "adm_bits_of_f16" } else { "adm_bits_of_bf16" };
            format!(
                "uint32_t words[4] = {{0u, 0u, 0u, 0u}};
#pragma unroll
for (uint32_t e = 0; e < {PIECE}u; e++)
    if ({at} < {bound} && {k} < end) words[e / 2u] |= {bits}(ADM_OWN({name})(L, {arguments})) << (e % 2u * 16u);
*(uint4 *)({array} + (stage_ * {size}u + to) / 2u) = make_uint4(words[0], words[1], words[2], words[3]);",
                size = extent * SLICE
            )
        }
    };
    format!(
        "#pragma unroll
for (uint32_t n = threadIdx.x; n < {pieces}u; n += {lanes}u) {{
const uint32_t row = n / {of_row}u, piece = n % {of_row}u, to = {to};
const uint32_t outer = {outer}, inner = {inner};
{moved}
}}
"
    )
}
/// Statements that take the registers of all units of one factor out of the stage `held`, from `k` on.
fn loaded(factors: &UnitFactors, side: usize, extent: usize, units: usize) -> String {
    let (factor, name) = (&factors.sides[side], NAMES[side][1]);
    let (first, size) = (["warp_row", "warp_column"][side], extent * SLICE);
    let transposed = if factor.along_depth { "" } else { ".trans" };
    // The eight rows of each of four 8 x 8 matrices come from eight lanes: the left's are the two halves of its rows, then of K;
    // the right's the two halves of K, then of two units' columns.
    let (low, high) = ("of_warp % 8u", ["of_warp / 8u % 2u", "of_warp / 16u"]);
    let (of_extent, of_depth) = if side == 0 { (high[0], high[1]) } else { (high[1], high[0]) };
    let (row, piece) = if factor.along_depth {
        (format!("{first} + i * 16u + {low} + {of_extent} * 8u"), format!("k / {PIECE}u + {of_depth}"))
    } else {
        (format!("k + {low} + {of_depth} * 8u"), format!("({first} + i * 16u) / {PIECE}u + {of_extent}"))
    };
    let registers = if side == 0 {
        "\"=r\"(a[i][0]), \"=r\"(a[i][1]), \"=r\"(a[i][2]), \"=r\"(a[i][3])"
    } else {
        "\"=r\"(b[2 * i][0]), \"=r\"(b[2 * i][1]), \"=r\"(b[2 * i + 1][0]), \"=r\"(b[2 * i + 1][1])"
    };
    let count = if side == 0 { units } else { units / 2 };
    format!(
        "#pragma unroll
for (uint32_t i = 0; i < {count}u; i++) {{
const uint32_t row = {row}, piece = {piece}, at = {name}_shared + (held * {size}u + {}) * 2u;
asm volatile(\"ldmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16 {{%0, %1, %2, %3}}, [%4];\" : {registers} : \"r\"(at) : \"memory\");
}}
",
        place(factor, extent, "row", "piece")
    )
}
