//! Products of bytes, of either sign, summed in i32 modulo 2^32.
//!
//! Tiles multiply unsigned bytes of A by signed bytes of B. Operands of the other sign are packed with 128 added or taken away,
//! which sums of rows and columns make good: `Σ (a' - x)(b' + y) = Σ a' b' + y Σ a' - x Σ b' - k x y`. Wrapping sums have no
//! order, so the bits are the same on every set, for any threads and blocks.
//! Must not know what is done with the sums.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512;
pub(crate) mod direct;
#[allow(unsafe_code)]
pub(crate) mod groups;
mod instances;
#[allow(unsafe_code)]
pub(crate) mod micro;
pub(crate) mod pack;
#[allow(unsafe_code)]
mod scalar;
#[allow(unsafe_code)]
mod shuffle;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod vnni;
#[allow(unsafe_code)]
pub(crate) mod windows;

use super::apart::{Apart, HandOn, Matrices, WidenedElements};
use super::context::AlignedBuffer;
use super::micro::{Block, prefetch};
use super::pack::MatrixView;
use super::part_size;
use crate::isa::ByteIsa;
use crate::scratch::{ScratchVec, filled, with_buffer};
use crate::threads::Threads;
use adamant_runtime::ErrorKind;
use micro::{BLOCK, ByteContext, Corrections, LINE, QUAD, Strided};
use std::{cell::RefCell, ops::Range};

/// Rows of A that are packed at a time.
const GROUP_ROWS: usize = 48;
/// K is cut into chunks of this length, so that a tile's rows of A stay in L1.
const CHUNK: usize = 4096;
/// Products of up to this many multiplications run on the calling thread; of a vector, which are bound by memory, up to that many.
const SERIAL_WORK: usize = 1 << 22;
const SERIAL_VECTOR_WORK: usize = 1 << 20;

/// The kernels of a set, or of the plain one where the CPU lacks it.
pub(crate) fn context(isa: ByteIsa) -> &'static ByteContext {
    match isa {
        #[cfg(target_arch = "x86_64")]
        ByteIsa::Avx512Vnni if isa.is_available() => &vnni::BYTES,
        #[cfg(target_arch = "x86_64")]
        ByteIsa::Avx512 if isa.is_available() => &avx512::BYTES,
        #[cfg(target_arch = "x86_64")]
        ByteIsa::Avx2 if isa.is_available() => &avx2::BYTES,
        _ => &scalar::BYTES,
    }
}

/// Packed rows of A, unsigned. `stride` bytes apart, with at least the next multiple of 4 of K to read in each.
#[derive(Clone, Copy)]
pub(crate) struct ByteRows<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) stride: usize,
    pub(crate) rows: usize,
    /// what is added to the sums of a row
    pub(crate) starts: &'a [i32],
    /// the byte that stands for zero in a row
    pub(crate) zeros: &'a [i32],
}

/// B in blocks, signed: `[ceil(n / 16)][ceil(k / 4)][16][4]`, filled with zeros.
#[derive(Clone, Copy)]
pub(crate) struct ByteBlocks<'a> {
    pub(crate) blocks: &'a [i8],
    /// the sum of each column, over all of K
    pub(crate) column_sums: &'a [i32],
    pub(crate) k: usize,
    pub(crate) n: usize,
}

/// Finished sums: `rows` rows of `columns`, `stride` apart, from (`row`, `column`) of C on.
pub(crate) struct SumsPart<'s> {
    pub(crate) row: usize,
    pub(crate) column: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) sums: &'s mut [i32],
    pub(crate) stride: usize,
}

/// What is needed while blocks are multiplied.
#[derive(Default)]
pub(crate) struct BlockScratch {
    sums: AlignedBuffer<i32>,
    widened: AlignedBuffer<u8>,
}

/// Columns whose blocks are multiplied before the next: packed B stays in L2, or in L1 where few rows use it.
pub(crate) fn block_columns(m: usize, k: usize) -> usize {
    let bytes = if m <= GROUP_ROWS { 64 << 10 } else { 512 << 10 };
    (bytes / k.clamp(1, CHUNK) / 64 * 64).clamp(64, 512)
}

/// `starts[i] + Σ a[i][k] b[k][j] - zeros[i] Σ b[k][j]` of some columns, from a multiple of 16 on; `out` gets a few rows of them at
/// a time while they are in cache.
///
/// # Errors
/// An operand is too short; `OutOfMemory`; what `out` returns.
pub(crate) fn multiply_blocks(
    context: &ByteContext,
    a: ByteRows<'_>,
    b: ByteBlocks<'_>,
    columns: Range<usize>,
    scratch: &mut BlockScratch,
    out: &mut impl FnMut(SumsPart<'_>) -> Result<(), ErrorKind>,
) -> Result<(), ErrorKind> {
    let (quads, filled_columns) = (b.k.div_ceil(QUAD), b.n.next_multiple_of(BLOCK));
    let fits = b.blocks.len() >= filled_columns * quads * QUAD && b.column_sums.len() >= b.n && a.starts.len() >= a.rows && a.zeros.len() >= a.rows;
    let reaches = a.rows == 0 || (a.rows - 1) * a.stride + quads * QUAD <= a.bytes.len();
    if !fits || !reaches || !columns.start.is_multiple_of(BLOCK) || columns.end > b.n {
        return Err(ErrorKind::Internal("bytes: operands of a product are shorter than its sizes".into()));
    }
    let width = block_columns(usize::MAX, b.k);
    let step = a.rows.div_ceil(a.rows.div_ceil(context.rows).max(1));
    // One chunk: a tile's rows of sums are done before the next begin.
    let kept_rows = if quads * QUAD <= CHUNK { context.rows } else { GROUP_ROWS };
    let BlockScratch { sums, widened } = scratch;
    for j in columns.clone().step_by(width) {
        let count = width.min(columns.end - j);
        let wide = count.next_multiple_of(BLOCK);
        let sums = sums.take(kept_rows * wide)?;
        let mut filled_sums = [0i32; BLOCK];
        for group in (0..a.rows).step_by(GROUP_ROWS / step * step) {
            let rows = (GROUP_ROWS / step * step).min(a.rows - group);
            for q in (0..quads.max(1)).step_by(CHUNK / QUAD) {
                let chunk = (CHUNK / QUAD).min(quads - q);
                for i in (group..group + rows).step_by(step) {
                    let high = step.min(group + rows - i);
                    let from = Strided { data: &a.bytes[i * a.stride + q * QUAD..], stride: a.stride };
                    let at = if kept_rows == GROUP_ROWS { (i - group) * wide } else { 0 };
                    let tile = RowTile { context, quads: chunk, first: q, total: quads, rows: high, a: from, starts: &a.starts[i..], zeros: &a.zeros[i..] };
                    tile.multiply(&b, j..j + count, &mut sums[at..], wide, &mut filled_sums, widened)?;
                    if q + chunk == quads {
                        let sums = &mut sums[at..][..high * wide];
                        out(SumsPart { row: i, column: j, rows: high, columns: count, sums, stride: wide })?;
                    }
                }
            }
        }
    }
    Ok(())
}
/// As [`multiply_blocks`], of some quads alone, all sums at once: `a` begins with the first of the quads, `column_sums` are theirs,
/// and rows of `sums` hold whole blocks.
///
/// # Errors
/// An operand is too short; `OutOfMemory`.
pub(crate) fn multiply_quads(
    context: &ByteContext,
    a: ByteRows<'_>,
    b: ByteBlocks<'_>,
    quads: Range<usize>,
    sums: &mut [i32],
    scratch: &mut BlockScratch,
) -> Result<(), ErrorKind> {
    let (total, stride) = (b.k.div_ceil(QUAD), b.n.next_multiple_of(BLOCK));
    let reaches = a.rows == 0 || (a.rows - 1) * a.stride + quads.len() * QUAD <= a.bytes.len();
    if quads.end > total || b.blocks.len() < stride * total * QUAD || !reaches || sums.len() < a.rows * stride || b.column_sums.len() < b.n {
        return Err(ErrorKind::Internal("bytes: operands of some quads are shorter than their sizes".into()));
    }
    let step = a.rows.div_ceil(a.rows.div_ceil(context.rows).max(1)).max(1);
    let of_quads = ByteBlocks { blocks: &b.blocks[quads.start * LINE..], ..b };
    for i in (0..a.rows).step_by(step) {
        let from = Strided { data: &a.bytes[i * a.stride..], stride: a.stride };
        let rows = step.min(a.rows - i);
        let tile = RowTile { context, quads: quads.len(), first: 0, total, rows, a: from, starts: &a.starts[i..], zeros: &a.zeros[i..] };
        tile.multiply(&of_quads, 0..b.n, &mut sums[i * stride..], stride, &mut [0; BLOCK], &mut scratch.widened)?;
    }
    Ok(())
}
/// Rows of a tile, in one chunk of K.
struct RowTile<'a> {
    context: &'a ByteContext,
    quads: usize,
    first: usize,
    total: usize,
    rows: usize,
    a: Strided<'a, u8>,
    starts: &'a [i32],
    zeros: &'a [i32],
}
impl RowTile<'_> {
    /// Multiplies by blocks of B from `columns.start` on.
    fn multiply(
        &self,
        b: &ByteBlocks<'_>,
        columns: Range<usize>,
        sums: &mut [i32],
        stride: usize,
        last_sums: &mut [i32; BLOCK],
        widened: &mut AlignedBuffer<u8>,
    ) -> Result<(), ErrorKind> {
        let RowTile { context, quads, first, total, rows, mut a, starts, zeros } = *self;
        if quads == 0 {
            sums.chunks_mut(stride).zip(starts).take(rows).for_each(|(sums, &start)| sums.fill(start));
            return Ok(());
        }
        if context.width == 2 {
            let to = quads * QUAD * 2 + LINE;
            let target = widened.take(rows * to)?;
            for (r, target) in target.chunks_mut(to).enumerate() {
                pack::widen(&a.data[r * a.stride..][..quads * QUAD], false, target);
            }
            a = Strided { data: target, stride: to };
        }
        // Corrections are of all of K, and come with its first chunk.
        const NONE: [i32; GROUP_ROWS] = [0; GROUP_ROWS];
        let (starts, zeros) = if first == 0 { (starts, zeros) } else { (&NONE[..], &NONE[..]) };
        let blocks = &b.blocks[first * LINE..];
        let mut j = columns.start;
        while j < columns.end {
            // Whole vectors; those of 8 columns end with the block.
            let mut wide = context.columns().min((columns.end - j).next_multiple_of(BLOCK));
            let mut column_sums = &b.column_sums[j..];
            if column_sums.len() < wide {
                let whole = column_sums.len() / BLOCK * BLOCK;
                if whole > 0 {
                    wide = whole;
                } else {
                    last_sums[..column_sums.len()].copy_from_slice(column_sums);
                    // The last block may have been entered before.
                    column_sums = &last_sums[..];
                }
            }
            let target = &mut sums[j - columns.start..];
            let b = Strided { data: blocks, stride: total * LINE };
            context.tile(quads, a, rows, b, j, wide, target, stride, Corrections { starts, zeros, column_sums }, first > 0);
            j += wide;
        }
        Ok(())
    }
}

/// A matrix of bytes of one sign.
#[derive(Clone, Copy)]
struct ByteMatrix<'a> {
    view: MatrixView<'a, u8>,
    is_signed: bool,
}
impl<'a> ByteMatrix<'a> {
    fn new(matrices: &Matrices<'a>, index: usize) -> Option<ByteMatrix<'a>> {
        let (data, is_signed): (&[u8], bool) = match matrices.elements {
            WidenedElements::I8(data) => (bytemuck::cast_slice(data), true),
            WidenedElements::U8(data) => (data, false),
            _ => return None,
        };
        let base = matrices.offset as isize + index as isize * matrices.batch_stride;
        Some(ByteMatrix { view: MatrixView { data, base, row_stride: matrices.row_stride, column_stride: matrices.col_stride }, is_signed })
    }
    fn transposed(self) -> ByteMatrix<'a> {
        ByteMatrix { view: self.view.transposed(), ..self }
    }
    /// What its bytes are xored with, to be unsigned as A or signed as B.
    fn flip(&self, signed: bool) -> u8 {
        if self.is_signed == signed { 0 } else { 0x80 }
    }
}

/// Is a product of `m` rows too small to be shared out?
pub(crate) fn is_serial(m: usize, work: usize) -> bool {
    work <= if m == 1 { SERIAL_VECTOR_WORK } else { SERIAL_WORK }
}
/// Computes a product of bytes whose operands were checked; C is `[batch, m, n]` and not empty, `k` is not zero.
///
/// # Errors
/// Memory for what is packed; what `hand_on` returns.
pub(super) fn product(apart: &Apart<'_>, threads: &Threads, isa: ByteIsa, c: &mut [u8]) -> Result<(), ErrorKind> {
    let [mut m, mut n, k] = apart.size;
    // A product with one column is one with one row, of the transposed.
    let transposed = n == 1 && m > 1;
    if transposed {
        (m, n) = (1, m);
    }
    let context = context(isa);
    let (stored, plane) = (apart.stored, m * n * apart.stored);
    let work = m.saturating_mul(n).saturating_mul(k).saturating_mul(apart.batch);
    let alone = threads.count() == 1 || is_serial(m, work);
    let (rows, columns) = if alone { (m, n) } else { part_size(threads.count(), apart.batch, m, n, context.rows, 64) };
    let threads = if alone { Threads::alone() } else { threads };
    let parts = c.chunks_mut(plane).enumerate().flat_map(|(index, c)| {
        let whole = Block::new(c, m, n * stored, n * stored);
        whole.cut(rows, columns * stored).map(move |(i, j, block)| (index, i, j, block))
    });
    threads.try_for_parts(parts, |_, (index, i, j, out)| {
        let (Some(a), Some(b)) = (ByteMatrix::new(&apart.a, index), ByteMatrix::new(&apart.b, index)) else {
            return Err(ErrorKind::Internal("a product of bytes of something else".into()));
        };
        let (mut a, mut b) = if transposed { (b.transposed(), a.transposed()) } else { (a, b) };
        let j = j / stored;
        a.view.base += i as isize * a.view.row_stride;
        b.view.base += j as isize * b.view.column_stride;
        let waiting = WaitingBytes { first: (index * m + i) * n + j, columns: n, stored, out, hand_on: apart.hand_on };
        BytePart { context, k, a, b, out: waiting }.run()
    })
}

/// Where the sums of a part go.
struct WaitingBytes<'w> {
    /// the place of the part in C, and how long C's rows are
    first: usize,
    columns: usize,
    stored: usize,
    out: Block<'w, u8>,
    hand_on: HandOn<'w>,
}
impl WaitingBytes<'_> {
    fn hand_on(&mut self, part: SumsPart<'_>) -> Result<(), ErrorKind> {
        let SumsPart { row, column, rows, columns, sums, stride } = part;
        // The next rows are asked for, and come while their sums are made.
        for next in row + rows..self.out.rows.min(row + 2 * rows) {
            self.out.row(next, column * self.stored, columns * self.stored).chunks(64).for_each(|line| prefetch(line.as_ptr()));
        }
        let at = self.first + row * self.columns + column;
        if rows > 1
            && columns == self.columns
            && let Some(out) = self.out.rows(row, rows, columns * self.stored)
        {
            // Whole rows follow each other in C, and so do their sums then.
            for r in 1..rows {
                sums.copy_within(r * stride..r * stride + columns, r * columns);
            }
            return (self.hand_on)(at, bytemuck::cast_slice_mut(&mut sums[..rows * columns]), out);
        }
        for (r, sums) in sums.chunks_mut(stride).enumerate().take(rows) {
            let out = self.out.row(row + r, column * self.stored, columns * self.stored);
            (self.hand_on)(at + r * self.columns, bytemuck::cast_slice_mut(&mut sums[..columns]), out)?;
        }
        Ok(())
    }
}

/// A part of a product.
struct BytePart<'p> {
    context: &'static ByteContext,
    k: usize,
    a: ByteMatrix<'p>,
    b: ByteMatrix<'p>,
    out: WaitingBytes<'p>,
}
impl BytePart<'_> {
    fn size(&self) -> [usize; 2] {
        [self.out.out.rows, self.out.out.columns / self.out.stored]
    }
    fn run(mut self) -> Result<(), ErrorKind> {
        PackScratch::with(|scratch| {
            // What is read as it lies; the rest is packed.
            let done = direct::multiply(&mut self, scratch)?;
            self.packed(done, scratch)
        })
    }
    /// Computes the columns from `first` on.
    fn packed(&mut self, first: usize, scratch: &mut PackScratch) -> Result<(), ErrorKind> {
        let [m, n] = self.size();
        let (k, width) = (self.k, block_columns(m, self.k));
        let PackScratch { rows: row_buffer, blocks, multiply, .. } = scratch;
        for j in (first..n).step_by(width) {
            let columns = width.min(n - j);
            let blocks = blocks.take(columns.next_multiple_of(BLOCK) * k.next_multiple_of(QUAD))?;
            pack::pack_blocks(&self.b.view, j, columns, k, self.b.flip(true), blocks);
            let mut column_sums = filled(0i32, columns)?;
            if self.a.is_signed {
                sum_columns(self.context, blocks, k, &mut column_sums, multiply)?;
            }
            let b = ByteBlocks { blocks, column_sums: &column_sums, k, n: columns };
            for i in (0..m).step_by(GROUP_ROWS) {
                let count = GROUP_ROWS.min(m - i);
                let rows = if self.lies_ready() { PackedRows::in_place(self, i, count)? } else { PackedRows::new(self, i, count, row_buffer)? };
                let out = &mut self.out;
                multiply_blocks(self.context, rows.rows(), b, 0..columns, multiply, &mut |part| {
                    out.hand_on(SumsPart { row: part.row + i, column: part.column + j, ..part })
                })?;
            }
        }
        Ok(())
    }
    /// Can tiles read A where it lies?
    fn lies_ready(&self) -> bool {
        let view = &self.a.view;
        !self.a.is_signed && view.column_stride == 1 && view.row_stride >= 0 && self.k.is_multiple_of(QUAD)
    }
}
/// Bytes from a packed row to the next: not a power of two, so that rows fall into different cache sets.
pub(crate) fn packed_stride(k: usize) -> usize {
    k.next_multiple_of(LINE) + LINE
}
/// Rows of A, packed or as they lie, and what they are corrected by.
struct PackedRows<'a> {
    bytes: &'a [u8],
    stride: usize,
    starts: ScratchVec<i32>,
    zeros: ScratchVec<i32>,
}
impl<'a> PackedRows<'a> {
    fn in_place(part: &BytePart<'a>, row: usize, rows: usize) -> Result<PackedRows<'a>, ErrorKind> {
        let view = part.a.view;
        PackedRows::corrected(part, &view.data[view.index(row, 0)..], view.row_stride as usize, rows)
    }
    fn new(part: &BytePart<'_>, row: usize, rows: usize, buffer: &'a mut AlignedBuffer<u8>) -> Result<PackedRows<'a>, ErrorKind> {
        let stride = packed_stride(part.k);
        let target = buffer.take(rows * stride)?;
        pack::pack_rows(&part.a.view, row, rows, part.k, part.a.flip(false), target, stride);
        PackedRows::corrected(part, target, stride, rows)
    }
    fn corrected(part: &BytePart<'_>, bytes: &'a [u8], stride: usize, rows: usize) -> Result<PackedRows<'a>, ErrorKind> {
        let BytePart { k, a, b, .. } = part;
        let mut starts = filled(0i32, rows)?;
        if !b.is_signed {
            let of_both = (*k as i32).wrapping_mul(if a.is_signed { 128 * 128 } else { 0 });
            for (r, start) in starts.iter_mut().enumerate() {
                *start = pack::row_sum(&bytes[r * stride..][..*k], false).wrapping_mul(128).wrapping_sub(of_both);
            }
        }
        Ok(PackedRows { bytes, stride, starts, zeros: filled(if a.is_signed { 128 } else { 0 }, rows)? })
    }
    fn rows(&self) -> ByteRows<'_> {
        ByteRows { bytes: self.bytes, stride: self.stride, rows: self.starts.len(), starts: &self.starts, zeros: &self.zeros }
    }
}
/// Packing space of one thread.
#[derive(Default)]
pub(crate) struct PackScratch {
    pub(crate) rows: AlignedBuffer<u8>,
    pub(crate) widened: AlignedBuffer<u8>,
    pub(crate) blocks: AlignedBuffer<i8>,
    pub(crate) sums: AlignedBuffer<i32>,
    pub(crate) multiply: BlockScratch,
}
impl PackScratch {
    pub(crate) fn with<R>(f: impl FnOnce(&mut PackScratch) -> R) -> R {
        thread_local! {
            static KEPT: RefCell<Vec<PackScratch>> = const { RefCell::new(Vec::new()) };
        }
        with_buffer(&KEPT, f)
    }
}
/// The sums of the columns of blocks: their product with a row of ones.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn sum_columns(context: &ByteContext, blocks: &[i8], k: usize, sums: &mut [i32], scratch: &mut BlockScratch) -> Result<(), ErrorKind> {
    let n = sums.len();
    let (ones, none) = (filled(1u8, k.next_multiple_of(QUAD))?, filled(0i32, n)?);
    let row = ByteRows { bytes: &ones, stride: ones.len(), rows: 1, starts: &[0], zeros: &[0] };
    let b = ByteBlocks { blocks, column_sums: &none, k, n };
    multiply_blocks(context, row, b, 0..n, scratch, &mut |part| {
        sums[part.column..][..part.columns].copy_from_slice(&part.sums[..part.columns]);
        Ok(())
    })
}
