//! Tiles by the matrix unit of a warp: 16 x 8 x 16 elements by one instruction, factors of 16 bits, sums in f32. Factors lie
//! in the block's memory as they lie in their own, along K or across it, in pieces of 16 bytes that are swapped within their
//! rows so that eight rows of one piece lie in eight different banks; `ldmatrix` takes them out as the unit wants them, transposed
//! where they lie across.
//!
//! K is walked in slices of 32 in three stages: while one is multiplied, the next two are on their way. A factor whose pieces
//! are aligned in memory is copied piece by piece without passing through registers (`cp.async`); any other is
//! gathered element by element, or by a type of the caller's that holds what it knows of a thread's rows or columns. Beyond an edge
//! there are zeros. What all slices have in common is computed before the first (`matrices/tiles.cuh`): the loop is products, what
//! takes their factors out, copies, and a few additions.
use super::{ProductForm, tile_of};
use crate::{
    bindings::Bindings,
    dialect::guarded,
    frame::{KernelFrame, Numbering, OF_128_REGISTERS, SharedArray},
};
use adamant_ir::{DType, ErrorKind};

/// Slices of K.
const SLICE: usize = 32;
/// Elements of a piece of 16 bytes.
const PIECE: usize = 8;
const STAGES: usize = 3;
/// What texts call.
const LIBRARY: &str = include_str!("matrices/tiles.cuh");

/// A factor as the unit's tiles take it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnitFactor {
    /// its binding
    pub binding: usize,
    /// which parameter is its step across the axis along which it lies; none where it is gathered
    pub across: Option<usize>,
    /// does no piece reach over an edge?
    pub whole: bool,
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
        key.extend(self.sides.iter().map(|s| u8::from(s.along_depth) | u8::from(s.across.is_some()) << 1 | u8::from(s.whole) << 2));
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
    let sides: String = [rows, columns].into_iter().enumerate().map(|(k, extent)| side(factors, k, extent, lanes, gathers[k].as_deref())).collect();
    let along = factors.sides.map(|s| s.along_depth);
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
float sums[{tall}][{wide}][4];
for (int i = 0; i < {tall}; i++) for (int j = 0; j < {wide}; j++) for (int q = 0; q < 4; q++) sums[i][j][q] = 0.0f;
const uint32_t left_shared = (uint32_t)__cvta_generic_to_shared(lefts), right_shared = (uint32_t)__cvta_generic_to_shared(rights);
{sides}adm_multiply_slices<{is_f16}, {tall}, {wide}, {rows}u, {columns}u, {}, {}>(
    sums, left, right, left_to, right_to, left_shared, right_shared, warp_row, warp_column, (end - begin + {SLICE}u - 1u) / {SLICE}u);
",
            along[0],
            along[1],
            warp_rows = 16 * tall,
            warp_columns = 8 * wide,
            is_f16 = factors.dtype == DType::F16,
        )),
    );
    let functions = verbatim(guarded("adm_product", LIBRARY) + "\n") + functions;
    // Words: two elements each.
    let shared = (0..2).map(|k| SharedArray { name: NAMES[k][0], of: "u32", length: STAGES * [rows, columns][k] * SLICE / 2 }).collect();
    // Elements that are stored one by one take more than 128 registers.
    let blocks = Some((OF_128_REGISTERS / lanes / if form.paired { 1 } else { 2 }).max(1));
    KernelFrame { bindings, lanes, numbered: Numbering::InWorkgroup, shared, functions: &functions, blocks, body }.text()
}
/// The declarations of what brings a side's pieces, by a thread that fills some of them in each stage, and of where they go.
fn side(factors: &UnitFactors, side: usize, extent: usize, lanes: usize, gather: Option<&str>) -> String {
    let (factor, [_, name, from, bound]) = (&factors.sides[side], NAMES[side]);
    let along = factor.along_depth;
    // Pieces of a row: along K each of the extent's rows has four; across it each of K's 32 has as many as fill the extent.
    let of_row = if along { SLICE } else { extent } / PIECE;
    let (count, apart) = (extent * SLICE / PIECE / lanes, lanes / of_row);
    let pieces = format!("{count}u, {apart}u, {}u", 2 * apart * if along { SLICE } else { extent });
    let begin = format!("{name}_row, {name}_piece, {from}, {bound}, begin, end");
    let held = match (factor.across, gather) {
        (Some(step), _) => {
            format!("adm_copied<{along}, {}, {pieces}> {name}((const uint16_t *)b{} + base_{name}, p[{step}], {begin});\n", factor.whole, factor.binding)
        }
        (None, Some(of)) => format!("{of}, {pieces}> {name}(p, b{}, batch, {begin});\n", factor.binding),
        (None, None) => {
            let bits = if factors.dtype == DType::F16 { "adm_bits_of_f16" } else { "adm_bits_of_bf16" };
            let at = if side == 0 { "at, k" } else { "k, at" };
            format!(
                "const auto {name}_of = [&](uint32_t at, uint32_t k) {{ return {bits}(ADM_OWN({name})(L, batch, {at})); }};
adm_elements<{along}, {pieces}, decltype({name}_of)> {name}({name}_of, {begin});
"
            )
        }
    };
    format!(
        "const uint32_t {name}_row = threadIdx.x / {of_row}u, {name}_piece = threadIdx.x % {of_row}u;
const uint32_t {name}_to = {name}_shared + adm_piece_at<{along}, {extent}u>({name}_row, {name}_piece);
{held}"
    )
}
