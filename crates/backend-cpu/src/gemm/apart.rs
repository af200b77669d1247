//! Products whose sums are not what is stored: they are kept for a part of C at a time, in f32, and handed on with their
//! places. Operands may be of narrower types, each of its own, and are widened as they are packed.
//!
//! Products of bytes are summed in i32 by kernels of their own ([`super::bytes`]).
//! Must not know what is done with the sums.

use super::context::{GemmContext, MatrixElement};
use super::driver::{BLOCK_COLUMNS, Size, SumsOutput, TileOutput, multiply};
use super::halves::{HalfLines, multiply_few};
use super::micro::{Block, TileOperands};
use super::pack::{MatrixView, PackA, PackB};
use super::pairs::multiply_pairs;
use super::{Accumulator, MatRef, SERIAL_WORK, STRIP_ROWS, bytes, part_size};
use crate::isa::{ByteIsa, Isa};
use crate::scratch::filled;
use crate::threads::Threads;
use adamant_runtime::ErrorKind;
use half::{bf16, f16};

/// Elements that are widened to f32 without loss.
#[derive(Clone, Copy)]
pub(crate) enum WidenedElements<'a> {
    F32(&'a [f32]),
    BF16(&'a [bf16]),
    F16(&'a [f16]),
    I8(&'a [i8]),
    U8(&'a [u8]),
}
/// A batch of matrices of such elements, with strides as in [`MatRef`].
#[derive(Clone, Copy)]
pub(crate) struct Matrices<'a> {
    pub elements: WidenedElements<'a>,
    pub offset: usize,
    pub row_stride: isize,
    pub col_stride: isize,
    pub batch_stride: isize,
}
/// Calls generic code with the elements.
macro_rules! with_elements {
    ($elements:expr, $data:ident => $body:expr) => {
        match $elements {
            WidenedElements::F32($data) => $body,
            WidenedElements::BF16($data) => $body,
            WidenedElements::F16($data) => $body,
            WidenedElements::I8($data) => $body,
            WidenedElements::U8($data) => $body,
        }
    };
}
impl<'a> Matrices<'a> {
    fn check(&self, name: &str, batch: usize, rows: usize, columns: usize) -> Result<(), ErrorKind> {
        let Matrices { offset, row_stride, col_stride, batch_stride, .. } = *self;
        with_elements!(self.elements, data => MatRef { data, offset, row_stride, col_stride, batch_stride }.check(name, batch, rows, columns))
    }
    /// Matrix `index`, from an element on.
    fn corner(&self, index: usize, row: usize, column: usize) -> Corner<'a> {
        let base = self.offset as isize + index as isize * self.batch_stride + row as isize * self.row_stride + column as isize * self.col_stride;
        Corner { elements: self.elements, base, row_stride: self.row_stride, column_stride: self.col_stride }
    }
}
#[derive(Clone, Copy)]
struct Corner<'a> {
    elements: WidenedElements<'a>,
    base: isize,
    row_stride: isize,
    column_stride: isize,
}
impl<'a> Corner<'a> {
    fn of<E: MatrixElement>(&self, data: &'a [E]) -> MatrixView<'a, E> {
        MatrixView { data, base: self.base, row_stride: self.row_stride, column_stride: self.column_stride }
    }
}
impl PackA<f32> for Corner<'_> {
    fn pack(&self, context: &GemmContext<f32>, row: usize, rows: usize, k: usize, length: usize, target: &mut [f32]) {
        with_elements!(self.elements, data => PackA::pack(&self.of(data), context, row, rows, k, length, target))
    }

    fn tiles_together(&self) -> usize {
        with_elements!(self.elements, data => self.of(data).tiles_together())
    }
}
impl PackB<f32> for Corner<'_> {
    fn pack(&self, context: &GemmContext<f32>, column: usize, columns: usize, k: usize, length: usize, target: &mut [f32]) {
        with_elements!(self.elements, data => PackB::pack(&self.of(data), context, column, columns, k, length, target))
    }

    fn depth(&self) -> usize {
        with_elements!(self.elements, data => PackB::depth(&self.of(data)))
    }

    fn in_place(&self, column: usize, k: usize) -> Option<(&[f32], usize)> {
        let WidenedElements::F32(data) = self.elements else { return None };
        let at = self.base + k as isize * self.row_stride + column as isize * self.column_stride;
        (self.column_stride == 1 && self.row_stride >= 0).then(|| (&data[at as usize..], self.row_stride as usize))
    }
}

/// What is done with finished sums: `(place of the first in C, sums, their part of C)`. Sums are f32 or i32.
pub(crate) type HandOn<'h> = &'h (dyn Fn(usize, &mut [u8], &mut [u8]) -> Result<(), ErrorKind> + Sync);

/// What is added up in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SumKind {
    Floats,
    /// of operands that are bytes
    Integers,
}

/// A product whose sums are handed on.
pub(crate) struct Apart<'a> {
    pub batch: usize,
    pub size: [usize; 3],
    pub a: Matrices<'a>,
    pub b: Matrices<'a>,
    pub kept: SumKind,
    /// bytes of an element of C
    pub stored: usize,
    pub hand_on: HandOn<'a>,
}
impl Apart<'_> {
    /// Computes it; C is `[batch, m, n]`, without gaps.
    ///
    /// # Errors
    /// An operand reaches outside its slice; memory for what is packed; what `hand_on` returns.
    pub fn run(&self, threads: &Threads, isa: Isa, c: &mut [u8]) -> Result<(), ErrorKind> {
        let [m, n, k] = self.size;
        let plane = m * n * self.stored;
        if c.len() != self.batch * plane {
            return Err(ErrorKind::Internal(format!("gemm: C [{}, {m}, {n}] in {} bytes", self.batch, c.len())));
        }
        if c.is_empty() {
            return Ok(());
        }
        if k == 0 {
            let mut zeros = filled(0f32, n)?;
            return c.chunks_mut(n * self.stored).enumerate().try_for_each(|(row, c)| {
                zeros.fill(0.0);
                (self.hand_on)(row * n, bytemuck::cast_slice_mut(&mut zeros), c)
            });
        }
        self.a.check("A", self.batch, m, k)?;
        self.b.check("B", self.batch, k, n)?;
        if self.kept == SumKind::Integers {
            return bytes::product(self, threads, ByteIsa::of(isa), c);
        }
        let context = f32::context(isa);
        let work = m.saturating_mul(n).saturating_mul(k).saturating_mul(self.batch);
        let alone = threads.count() == 1 || work < SERIAL_WORK;
        let (rows, columns) = if alone { (m, n) } else { part_size(threads.count(), self.batch, m, n, context.rows, context.columns()) };
        let rows = rows.min(STRIP_ROWS);
        let threads = if alone { Threads::alone() } else { threads };
        let parts = c.chunks_mut(plane).enumerate().flat_map(|(index, c)| {
            let whole = Block::new(c, m, n * self.stored, n * self.stored);
            whole.cut(rows, columns * self.stored).map(move |(i, j, block)| (index, i, j, block))
        });
        threads.try_for_parts(parts, |_, (index, i, j, block)| self.part(isa, index, i, j / self.stored, block))
    }
    fn part(&self, isa: Isa, index: usize, i: usize, j: usize, out: Block<'_, u8>) -> Result<(), ErrorKind> {
        let [m, n, k] = self.size;
        let context = f32::context(isa);
        let size = Size { m: out.rows, n: out.columns / self.stored, k };
        let width = size.n.min(BLOCK_COLUMNS);
        f32::with_scratch(|scratch| {
            let buffer = scratch.c.take(size.m * width)?;
            let sums = Block::new(buffer, size.m, width, width);
            let mut out = WaitingSums { sums, out, stored: self.stored, first: (index * m + i) * n + j, columns: n, hand_on: self.hand_on };
            let (a, b) = (self.a.corner(index, i, 0), self.b.corner(index, 0, j));
            let lines = with_elements!(b.elements, data => HalfLines::of(&b.of(data)));
            if multiply_few(isa, size, &a, lines, &mut out, [&mut scratch.a, &mut scratch.b])? {
                return Ok(());
            }
            if let (WidenedElements::BF16(x), WidenedElements::BF16(y)) = (a.elements, b.elements)
                && multiply_pairs(isa, size, a.of(x), b.of(y), &mut out, [&mut scratch.a, &mut scratch.b])?
            {
                return Ok(());
            }
            multiply(context, size, &a, &b, &mut out, false, &mut scratch.a, &mut scratch.b)
        })
    }
}

/// Sums that wait for their last chunk.
struct WaitingSums<'w> {
    sums: Block<'w, f32>,
    out: Block<'w, u8>,
    stored: usize,
    /// the place of the part in C, and how long C's rows are
    first: usize,
    columns: usize,
    hand_on: HandOn<'w>,
}
impl TileOutput<f32> for WaitingSums<'_> {
    fn tile(&mut self, context: &GemmContext<f32>, operands: TileOperands<'_, f32>, i: usize, rows: usize, j: usize, columns: usize, accumulate: bool) {
        context.run_tile(operands, &mut self.sums, i, rows, j % BLOCK_COLUMNS, columns, accumulate);
    }

    fn finish(&mut self, i: usize, rows: usize, j: usize, columns: usize) -> Result<(), ErrorKind> {
        // Whole rows follow each other in both places.
        let together = if self.out.rows(i, rows, columns * self.stored).is_some() { rows } else { 1 };
        for row in (i..i + rows).step_by(together) {
            let at = self.first + row * self.columns + j;
            let from = bytemuck::cast_slice_mut(part(&mut self.sums, row, together, j % BLOCK_COLUMNS, columns));
            let to = part(&mut self.out, row, together, j * self.stored, columns * self.stored);
            (self.hand_on)(at, from, to)?;
        }
        Ok(())
    }
}
impl SumsOutput<f32> for WaitingSums<'_> {
    fn put(&mut self, i: usize, j: usize, sums: &[f32]) {
        self.sums.row(i, j % BLOCK_COLUMNS, sums.len()).copy_from_slice(sums);
    }
}
/// Part of a row, or several whole rows.
fn part<'b, T>(block: &'b mut Block<'_, T>, row: usize, rows: usize, column: usize, columns: usize) -> &'b mut [T] {
    if rows > 1 && block.is_adjacent(columns) { block.rows(row, rows, columns).unwrap_or_default() } else { block.row(row, column, columns) }
}
