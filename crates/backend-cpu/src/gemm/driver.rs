//! The loops around the tiles: which piece of A and B is packed when, and in which order tiles are visited.
//!
//! Columns go in blocks that keep a chunk of packed B in the L2 cache; K goes in chunks, left to right; rows go in
//! tiles whose packed piece of A stays in L1 while B streams past. With few rows B is not kept: each panel is packed
//! (or read in place) just before its use. Neither order changes a bit of the result.
//! Must not know threads, strides, or what A and B are made of.

use super::context::{Accumulator, AlignedBuffer, GemmContext};
use super::micro::{A_STRIDE, Block, TileOperands};
use super::pack::{PackA, PackB};
use adamant_runtime::ErrorKind;

/// Columns of a block: a chunk of packed f32 B takes half of a 1 MiB L2 cache.
pub(crate) const BLOCK_COLUMNS: usize = 512;

/// Up to this many tiles of rows, all of A's chunk is packed at once and B goes panel by panel.
const FEW_TILES: usize = 4;

/// Where finished tiles go.
pub(crate) trait TileOutput<T> {
    /// Computes one tile over one chunk into the place of (i, j).
    #[allow(clippy::too_many_arguments)]
    fn tile(&mut self, context: &GemmContext<T>, operands: TileOperands<'_, T>, i: usize, rows: usize, j: usize, columns: usize, accumulate: bool);

    /// The rectangle has its last chunk and is still in cache.
    ///
    /// # Errors
    /// What is done with it does not fit.
    fn finish(&mut self, i: usize, rows: usize, j: usize, columns: usize) -> Result<(), ErrorKind>;
}

/// Where sums of all chunks may be put as well.
pub(crate) trait SumsOutput<T>: TileOutput<T> {
    /// Part of a row, from (i, j) on, of which `finish` hears later.
    fn put(&mut self, i: usize, j: usize, sums: &[T]);
}

/// The size of a product; of K, the packed numbers, of which one may hold two elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

/// `C = A · B`, or `C += A · B` if `accumulate`. `k` is not zero.
///
/// # Errors
/// `OutOfMemory` for what is packed.
#[allow(clippy::too_many_arguments)]
pub(crate) fn multiply<T: Accumulator>(
    context: &GemmContext<T>,
    size: Size,
    a: &impl PackA<T>,
    b: &impl PackB<T>,
    out: &mut impl TileOutput<T>,
    accumulate: bool,
    a_buffer: &mut AlignedBuffer<T>,
    b_buffer: &mut AlignedBuffer<T>,
) -> Result<(), ErrorKind> {
    let Size { m, n, k } = size;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let tiles = m.div_ceil(context.rows);
    let step = m.div_ceil(tiles);
    let width = context.columns();
    let few = tiles <= FEW_TILES;
    // B where it lies pays when it is used once or twice, or is small enough to stay in L1 anyway.
    let in_place = tiles <= 2 || (few || k * n * size_of::<T>() <= 64 << 10) && n <= 2 * BLOCK_COLUMNS / width * 4;
    let lanes = context.lanes;
    for j0 in (0..n).step_by(BLOCK_COLUMNS) {
        let block = BLOCK_COLUMNS.min(n - j0);
        for k0 in (0..k).step_by(context.chunk) {
            let length = context.chunk.min(k - k0);
            let add = accumulate || k0 > 0;
            let last = k0 + length == k;
            let direct = |j: usize, columns: usize| {
                if in_place && columns.is_multiple_of(lanes) { b.in_place(j, k0) } else { None }
            };
            if few {
                let tile_size = step * A_STRIDE;
                let a_packed = a_buffer.take(tiles * tile_size)?;
                let mut i = 0;
                while i < m {
                    let rows = step.min(m - i);
                    a.pack(context, i, rows, k0, length, &mut a_packed[i * A_STRIDE..]);
                    i += rows;
                }
                for j in (j0..j0 + block).step_by(width) {
                    let columns = width.min(j0 + block - j);
                    let (b_piece, b_stride) = match direct(j, columns) {
                        Some(piece) => piece,
                        None => {
                            let packed = b_buffer.take(length * width)?;
                            b.pack(context, j, columns, k0, length, packed);
                            (&*packed, width)
                        }
                    };
                    for i in (0..m).step_by(step) {
                        let rows = step.min(m - i);
                        let operands = TileOperands { length, a: &a_packed[i * A_STRIDE..], b: b_piece, b_stride };
                        out.tile(context, operands, i, rows, j, columns, add);
                    }
                }
                if last {
                    for i in (0..m).step_by(step) {
                        out.finish(i, step.min(m - i), j0, block)?;
                    }
                }
            } else {
                let panel = length * width;
                let b_packed = b_buffer.take(block.div_ceil(width) * panel)?;
                let depth = b.depth();
                for p in (0..length).step_by(depth) {
                    for (index, j) in (j0..j0 + block).step_by(width).enumerate() {
                        let columns = width.min(j0 + block - j);
                        if direct(j, columns).is_none() {
                            let target = &mut b_packed[index * panel + p * width..];
                            b.pack(context, j, columns, k0 + p, depth.min(length - p), target);
                        }
                    }
                }
                let together = a.tiles_together();
                let a_packed = a_buffer.take(together * step * A_STRIDE)?;
                for i in (0..m).step_by(step) {
                    let rows = step.min(m - i);
                    let place = i / step % together;
                    if place == 0 {
                        a.pack(context, i, (together * step).min(m - i), k0, length, a_packed);
                    }
                    let tile = &a_packed[place * step * A_STRIDE..];
                    for (index, j) in (j0..j0 + block).step_by(width).enumerate() {
                        let columns = width.min(j0 + block - j);
                        let (b_piece, b_stride) = direct(j, columns).unwrap_or((&b_packed[index * panel..][..panel], width));
                        let operands = TileOperands { length, a: tile, b: b_piece, b_stride };
                        out.tile(context, operands, i, rows, j, columns, add);
                    }
                    if last {
                        out.finish(i, rows, j0, block)?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// C is its own accumulator.
pub(crate) struct PlainOutput<'a, T, F> {
    pub(crate) block: Block<'a, T>,
    /// Called with (row, column, values) for finished parts of rows, or for several whole ones.
    pub(crate) finish: F,
}

impl<T: Accumulator, F: FnMut(usize, usize, &mut [T]) -> Result<(), ErrorKind>> TileOutput<T> for PlainOutput<'_, T, F> {
    fn tile(&mut self, context: &GemmContext<T>, operands: TileOperands<'_, T>, i: usize, rows: usize, j: usize, columns: usize, accumulate: bool) {
        context.run_tile(operands, &mut self.block, i, rows, j, columns, accumulate);
    }

    fn finish(&mut self, i: usize, rows: usize, j: usize, columns: usize) -> Result<(), ErrorKind> {
        if let Some(values) = self.block.rows(i, rows, columns) {
            return (self.finish)(i, j, values);
        }
        (i..i + rows).try_for_each(|row| (self.finish)(row, j, self.block.row(row, j, columns)))
    }
}

/// C is narrower than its sums: those wait in a block of [`BLOCK_COLUMNS`] columns and are handed on when complete.
pub(crate) struct Widened<'a, T, F> {
    pub(crate) sums: Block<'a, T>,
    /// Called with (row, column, sums) for finished parts of rows.
    pub(crate) finish: F,
}

impl<T: Accumulator, F: FnMut(usize, usize, &[T]) -> Result<(), ErrorKind>> TileOutput<T> for Widened<'_, T, F> {
    fn tile(&mut self, context: &GemmContext<T>, operands: TileOperands<'_, T>, i: usize, rows: usize, j: usize, columns: usize, accumulate: bool) {
        context.run_tile(operands, &mut self.sums, i, rows, j % BLOCK_COLUMNS, columns, accumulate);
    }

    fn finish(&mut self, i: usize, rows: usize, j: usize, columns: usize) -> Result<(), ErrorKind> {
        (i..i + rows).try_for_each(|row| (self.finish)(row, j, self.sums.row(row, j % BLOCK_COLUMNS, columns)))
    }
}
impl<T: Accumulator, F: FnMut(usize, usize, &[T]) -> Result<(), ErrorKind>> SumsOutput<T> for Widened<'_, T, F> {
    fn put(&mut self, i: usize, j: usize, sums: &[T]) {
        self.sums.row(i, j % BLOCK_COLUMNS, sums.len()).copy_from_slice(sums);
    }
}
