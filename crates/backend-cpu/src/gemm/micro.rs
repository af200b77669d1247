//! The micro-kernels, written once over a vector type, and the checked doors to them.
//!
//! A tile of C is `ROWS` rows by `VECTORS` vectors, held in registers over one chunk of K: each lane is one output,
//! summed in the order of k by fma from zero. A comes as rows of constant stride [`A_STRIDE`], so that every row is at
//! an immediate offset; B as rows of k, each read as whole vectors.
//! Must not know matrices, packing policy or threads.

use std::marker::PhantomData;

use super::context::GemmContext;
use crate::simd::Float;

/// K is cut into chunks of this length, for every type, instruction set and shape: the bits depend on it.
pub(crate) const CHUNK: usize = 256;

/// Elements between two rows of a packed tile of A. Not a power of two, so that rows fall into different cache sets.
pub(crate) const A_STRIDE: usize = CHUNK + 16;

/// Computes one tile over one chunk of K: `(length, a, b, b_stride, c, c_stride, columns, accumulate)`.
pub(crate) type TileFn<T> = unsafe fn(usize, *const T, *const T, usize, *mut T, usize, usize, bool);

/// What a tile does with an element of A, a vector of B and the sums so far.
pub(crate) trait TileStep<V> {
    /// # Safety
    /// The CPU has the instructions of the set that the step is of.
    unsafe fn add(a: V, b: V, sum: V) -> V;
}
/// One product, rounded once together with the sum.
pub(crate) struct Fused;
impl<V: Float> TileStep<V> for Fused {
    #[inline(always)]
    unsafe fn add(a: V, b: V, sum: V) -> V {
        a.mul_add(b, sum)
    }
}

/// Moves a block: `(source, source_stride, target, target_stride, rows, columns)`.
pub(crate) type MoveFn<T> = unsafe fn(*const T, usize, *mut T, usize, usize, usize);

/// A vector-matrix product, by rows of one chunk: `(length, x, b, b_stride, out, columns)`.
pub(crate) type VectorFn<T> = unsafe fn(usize, *const T, *const T, usize, *mut T, usize);

/// A stretch of a gathered line: `length` elements from `source` on (relative to the line) go to `target` on.
#[derive(Clone, Copy, Default)]
pub(crate) struct Segment {
    pub(crate) target: usize,
    pub(crate) source: usize,
    pub(crate) length: usize,
}

/// Gathers lines: `(source, line offsets, lines, segments, count, target, target_stride)`.
pub(crate) type GatherFn<T> = unsafe fn(*const T, *const usize, usize, *const Segment, usize, *mut T, usize);

/// # Safety
/// `a` holds `ROWS` rows of `length` elements at stride [`A_STRIDE`]; `b` holds `length` rows of `VECTORS` vectors at
/// stride `b_stride`; `c` holds `ROWS` rows of `columns` elements at stride `c_stride`, and nothing else refers to
/// them; `columns` is at most `VECTORS` vectors and more than `VECTORS - 1`; the CPU has the instructions of the step.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn tile<V: Float, S: TileStep<V>, const ROWS: usize, const VECTORS: usize>(
    length: usize,
    a: *const V::Elem,
    b: *const V::Elem,
    b_stride: usize,
    c: *mut V::Elem,
    c_stride: usize,
    columns: usize,
    accumulate: bool,
) {
    let mut sums = [[V::splat(V::Elem::default()); VECTORS]; ROWS];
    let mut b_row = b;
    // SAFETY: all offsets stay within what the caller vouches for.
    unsafe {
        for p in 0..length {
            let mut columns_of_b = [V::splat(V::Elem::default()); VECTORS];
            for (v, column) in columns_of_b.iter_mut().enumerate() {
                *column = V::load(b_row.add(v * V::LANES));
            }
            for (r, row) in sums.iter_mut().enumerate() {
                let element = V::splat(*a.add(r * A_STRIDE + p));
                for (v, sum) in row.iter_mut().enumerate() {
                    *sum = S::add(element, columns_of_b[v], *sum);
                }
            }
            b_row = b_row.wrapping_add(b_stride);
        }
        if columns == VECTORS * V::LANES {
            for (r, row) in sums.iter().enumerate() {
                for (v, sum) in row.iter().enumerate() {
                    let at = c.add(r * c_stride + v * V::LANES);
                    let total = if accumulate { V::load(at).add(*sum) } else { *sum };
                    total.store(at);
                }
            }
        } else {
            let rest = columns - (VECTORS - 1) * V::LANES;
            for (r, row) in sums.iter().enumerate() {
                for (v, sum) in row.iter().enumerate() {
                    let at = c.add(r * c_stride + v * V::LANES);
                    let count = if v + 1 == VECTORS { rest } else { V::LANES };
                    let total = if accumulate { V::load_first(at, count).add(*sum) } else { *sum };
                    total.store_first(at, count);
                }
            }
        }
    }
}

/// Copies `rows` rows of `columns` elements.
///
/// # Safety
/// Both blocks lie within their allocations and do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy<V: Float>(source: *const V::Elem, source_stride: usize, target: *mut V::Elem, target_stride: usize, rows: usize, columns: usize) {
    // SAFETY: all offsets stay within the blocks.
    unsafe {
        if columns == 2 * V::LANES {
            for r in 0..rows {
                let (from, to) = (source.add(r * source_stride), target.add(r * target_stride));
                V::load(from).store(to);
                V::load(from.add(V::LANES)).store(to.add(V::LANES));
            }
            return;
        }
        for r in 0..rows {
            let (from, to) = (source.add(r * source_stride), target.add(r * target_stride));
            let mut c = 0;
            while c + V::LANES <= columns {
                V::load(from.add(c)).store(to.add(c));
                c += V::LANES;
            }
            if c < columns {
                V::load_first(from.add(c), columns - c).store_first(to.add(c), columns - c);
            }
        }
    }
}

/// Piece by piece, line by line: how much of a vector a piece fills is then decided once for all lines.
///
/// # Safety
/// Every segment of every line lies in the source, and its place in the target.
#[inline(always)]
pub(crate) unsafe fn gather<V: Float>(
    source: *const V::Elem,
    offsets: *const usize,
    lines: usize,
    segments: *const Segment,
    count: usize,
    target: *mut V::Elem,
    target_stride: usize,
) {
    // SAFETY: the caller's promise covers every address formed.
    unsafe {
        for index in 0..count {
            let Segment { target: to, source: from, length } = *segments.add(index);
            let mut done = 0;
            while done + V::LANES <= length {
                let (from, to) = (source.add(from + done), target.add(to + done));
                for line in 0..lines {
                    V::load(from.add(*offsets.add(line))).store(to.add(line * target_stride));
                }
                done += V::LANES;
            }
            if done < length {
                let (from, to, rest) = (source.add(from + done), target.add(to + done), length - done);
                for line in 0..lines {
                    let piece = V::load_first(from.add(*offsets.add(line)), rest);
                    piece.store_first(to.add(line * target_stride), rest);
                }
            }
        }
    }
}

/// `target[c][r] = source[r][c]`.
///
/// # Safety
/// The source block, and `columns` rows of `rows` elements of the target, lie within their allocations and do not
/// overlap.
#[inline(always)]
pub(crate) unsafe fn transpose<V: Float>(
    source: *const V::Elem,
    source_stride: usize,
    target: *mut V::Elem,
    target_stride: usize,
    rows: usize,
    columns: usize,
) {
    let lanes = V::LANES;
    let mut r = 0;
    while r < rows {
        let high = (rows - r).min(lanes);
        let mut c = 0;
        while c < columns {
            let wide = (columns - c).min(lanes);
            // SAFETY: the block of `high` by `wide` lies within the source, its turn within the target.
            unsafe {
                let (from, to) = (source.add(r * source_stride + c), target.add(c * target_stride + r));
                if high == lanes && wide == lanes {
                    V::transpose(from, source_stride, to, target_stride);
                } else {
                    let block = V::load_transposed(from, source_stride, high, wide);
                    for (i, vector) in block.iter().enumerate().take(wide) {
                        vector.store_first(to.add(i * target_stride), high);
                    }
                }
            }
            c += lanes;
        }
        r += lanes;
    }
}

/// `out = x · B` over one chunk, B stored by rows of k. Goes through B eight rows at a time, in the order of memory;
/// the running sums wait in `out`.
///
/// # Safety
/// `x` holds `length` elements, `b` `length` rows of `columns` elements, `out` `columns`, and `out` is not shared.
#[inline(always)]
pub(crate) unsafe fn vector_by_rows<V: Float>(length: usize, x: *const V::Elem, b: *const V::Elem, b_stride: usize, out: *mut V::Elem, columns: usize) {
    let zero = V::splat(V::Elem::default());
    let mut p = 0;
    while p < length {
        // SAFETY: all offsets stay within what the caller vouches for.
        unsafe {
            let rows = (length - p).min(8);
            let first = p == 0;
            let b = b.add(p * b_stride);
            let x = x.add(p);
            let mut c = 0;
            if rows == 8 {
                let mut factors = [zero; 8];
                for (i, factor) in factors.iter_mut().enumerate() {
                    *factor = V::splat(*x.add(i));
                }
                while c + 2 * V::LANES <= columns {
                    let (low, high) = (out.add(c), out.add(c + V::LANES));
                    let mut sums = if first { [zero; 2] } else { [V::load(low), V::load(high)] };
                    for (i, factor) in factors.iter().enumerate() {
                        let at = b.add(i * b_stride + c);
                        sums[0] = factor.mul_add(V::load(at), sums[0]);
                        sums[1] = factor.mul_add(V::load(at.add(V::LANES)), sums[1]);
                    }
                    sums[0].store(low);
                    sums[1].store(high);
                    c += 2 * V::LANES;
                }
            }
            while c < columns {
                let count = (columns - c).min(V::LANES);
                let mut sum = if first { zero } else { V::load_first(out.add(c), count) };
                for i in 0..rows {
                    sum = V::splat(*x.add(i)).mul_add(V::load_first(b.add(i * b_stride + c), count), sum);
                }
                sum.store_first(out.add(c), count);
                c += V::LANES;
            }
        }
        p += 8;
    }
}

/// Steps before the end of columns in which the beginnings of the next are asked for.
const HEAD_STEPS: usize = 8;
/// Asks for a line of memory. A hint: it reads nothing and cannot fail, wherever it points.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    // SAFETY: a prefetch has no effect but on the caches, at any address; SSE is part of x86-64.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast::<i8>());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Columns of B that are read side by side. Their sums are chains of which each waits for itself alone, so there must be more than
/// one where vectors are short.
const ABREAST: usize = 16;
/// Elements of a column that are read one after another. Where columns are a power of two apart, their lines meet in the same
/// places of the cache: each is read to its end before it goes.
const LINE: usize = 16;

/// `out = x · Bᵗ` over all chunks, B stored by columns (`b_stride` between two outputs, k contiguous): blocks of B are
/// transposed in registers, those of [`ABREAST`] outputs at a time.
///
/// # Safety
/// `x` holds `length` elements, `b` `columns` rows of `length` elements, `out` `columns`, and `out` is not shared.
#[inline(always)]
pub(crate) unsafe fn vector_by_columns<V: Float>(length: usize, x: *const V::Elem, b: *const V::Elem, b_stride: usize, out: *mut V::Elem, columns: usize) {
    let mut j = 0;
    while columns - j >= ABREAST {
        // SAFETY: as many columns are left.
        unsafe { columns_abreast::<V>(length, x, b.add(j * b_stride), b_stride, out.add(j), columns - j) };
        j += ABREAST;
    }
    while j < columns {
        let high = (columns - j).min(V::LANES);
        let mut total = V::splat(V::Elem::default());
        for first in (0..length).step_by(CHUNK) {
            let end = length.min(first + CHUNK);
            // SAFETY: all offsets stay within what the caller vouches for.
            let sum = unsafe { last_columns(first, end, x, b.add(j * b_stride), b_stride, high, V::splat(V::Elem::default())) };
            total = if first == 0 { sum } else { total.add(sum) };
        }
        // SAFETY: `high` outputs are left.
        unsafe { total.store_first(out.add(j), high) };
        j += V::LANES;
    }
}
/// The first [`ABREAST`] of `columns` outputs. What is read soon is asked for, and at their end the beginnings of the next.
///
/// # Safety
/// As [`vector_by_columns`], of at least as many columns.
#[inline(always)]
unsafe fn columns_abreast<V: Float>(length: usize, x: *const V::Elem, b: *const V::Elem, b_stride: usize, out: *mut V::Elem, columns: usize) {
    let lanes = V::LANES;
    // As many as there are blocks where a vector has one lane.
    let zero = [V::splat(V::Elem::default()); ABREAST];
    let mut totals = zero;
    for first in (0..length).step_by(CHUNK) {
        let end = length.min(first + CHUNK);
        let whole = first + (end - first) / LINE * LINE;
        let mut sums = zero;
        for p in (first..whole).step_by(LINE) {
            let left = (length - p).div_ceil(LINE);
            if left <= HEAD_STEPS {
                let share = ABREAST / HEAD_STEPS;
                let next = ABREAST + (HEAD_STEPS - left) * share;
                for column in next..(next + share).min(columns) {
                    for line in 0..4 {
                        prefetch(b.wrapping_add(column * b_stride + line * LINE));
                    }
                }
            }
            for (block, sum) in sums.iter_mut().enumerate().take(ABREAST / lanes) {
                for p in (p..p + LINE).step_by(lanes) {
                    // SAFETY: a whole block of what the caller vouches for.
                    *sum = unsafe { V::dot_rows(x.add(p), b.add(block * lanes * b_stride + p), b_stride, *sum) };
                }
            }
        }
        for (block, (total, sum)) in totals.iter_mut().zip(&sums).enumerate().take(ABREAST / lanes) {
            // SAFETY: as above.
            let sum = unsafe { last_columns(whole, end, x, b.add(block * lanes * b_stride), b_stride, lanes, *sum) };
            *total = if first == 0 { sum } else { total.add(sum) };
        }
    }
    for (block, total) in totals.iter().enumerate().take(ABREAST / lanes) {
        // SAFETY: the caller vouches for as many outputs.
        unsafe { total.store(out.add(block * lanes)) };
    }
}
/// `sum + Σ x[p] · b[j][p]` for p from `first` to `end` and `high` columns, of which there may be fewer than lanes.
///
/// # Safety
/// As [`vector_by_columns`], of `high` columns, as far as `end`.
#[inline(always)]
unsafe fn last_columns<V: Float>(first: usize, end: usize, x: *const V::Elem, b: *const V::Elem, b_stride: usize, high: usize, mut sum: V) -> V {
    for p in (first..end).step_by(V::LANES) {
        let wide = (end - p).min(V::LANES);
        // SAFETY: all offsets stay within what the caller vouches for.
        unsafe {
            let block = V::load_transposed(b.add(p), b_stride, high, wide);
            for (i, vector) in block.iter().enumerate().take(wide) {
                sum = V::splat(*x.add(p + i)).mul_add(*vector, sum);
            }
        }
    }
    sum
}

/// A rectangle of a row-major matrix, lent to one task. Rectangles cut from one matrix do not overlap, because the
/// only ways to make one are a unique slice and the cutting of another.
pub(crate) struct Block<'a, T> {
    at: *mut T,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    stride: usize,
    lent: PhantomData<&'a mut [T]>,
}

// SAFETY: a block is a unique borrow of its elements, like `&mut [T]`.
unsafe impl<T: Send> Send for Block<'_, T> {}

impl<'a, T> Block<'a, T> {
    /// The first `rows` rows of `columns` elements of a slice.
    pub(crate) fn new(data: &'a mut [T], rows: usize, columns: usize, stride: usize) -> Block<'a, T> {
        assert!(rows == 0 || columns == 0 || (rows - 1) * stride + columns <= data.len());
        assert!(rows <= 1 || columns <= stride);
        Block { at: data.as_mut_ptr(), rows, columns, stride, lent: PhantomData }
    }

    /// Cuts into rectangles of `rows` by `columns` (those at the rim may be smaller), row by row, each with its place.
    pub(crate) fn cut(self, rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize, Block<'a, T>)> + Send
    where
        T: Send,
    {
        let (rows, columns) = (rows.max(1), columns.max(1));
        let across = self.columns.div_ceil(columns);
        (0..self.rows.div_ceil(rows) * across).map(move |part| {
            let (i, j) = (part / across * rows, part % across * columns);
            // SAFETY: (i, j) is inside this block, and no two parts share an element.
            (i, j, unsafe { self.part(i, j, rows, columns) })
        })
    }
    /// The rectangle at (i, j) of at most `rows` by `columns`.
    ///
    /// # Safety
    /// (i, j) is inside the block; as long as the rectangle is used, no other use is made of its elements.
    unsafe fn part(&self, i: usize, j: usize, rows: usize, columns: usize) -> Block<'a, T> {
        // SAFETY: (i, j) is inside this block, which lies in one allocation.
        let at = unsafe { self.at.add(i * self.stride + j) };
        Block { at, rows: rows.min(self.rows - i), columns: columns.min(self.columns - j), stride: self.stride, lent: PhantomData }
    }

    /// The whole block as a slice, if its rows follow each other without gaps.
    pub(crate) fn contiguous(&mut self) -> Option<&mut [T]> {
        if self.rows > 1 && self.stride != self.columns {
            return None;
        }
        // SAFETY: the rows are adjacent, so the elements are one run, borrowed uniquely here.
        Some(unsafe { std::slice::from_raw_parts_mut(self.at, self.rows * self.columns) })
    }

    /// Do rows of so many elements follow each other without gaps?
    pub(crate) fn is_adjacent(&self, columns: usize) -> bool {
        columns == self.columns && self.stride == self.columns
    }

    /// Whole rows as a slice, if they are wanted whole and follow each other without gaps.
    pub(crate) fn rows(&mut self, i: usize, rows: usize, columns: usize) -> Option<&mut [T]> {
        assert!(i + rows <= self.rows);
        if !self.is_adjacent(columns) {
            return None;
        }
        // SAFETY: the rows are inside the block and adjacent, and the block is borrowed uniquely here.
        Some(unsafe { std::slice::from_raw_parts_mut(self.at.add(i * self.stride), rows * columns) })
    }

    /// Part of a row.
    pub(crate) fn row(&mut self, i: usize, j: usize, columns: usize) -> &mut [T] {
        assert!(i < self.rows && j + columns <= self.columns);
        // SAFETY: the elements are inside the block, which is borrowed uniquely here.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(i * self.stride + j), columns) }
    }
}

/// What a tile reads: a packed piece of A and a piece of B.
#[derive(Clone, Copy)]
pub(crate) struct TileOperands<'a, T> {
    pub(crate) length: usize,
    pub(crate) a: &'a [T],
    pub(crate) b: &'a [T],
    pub(crate) b_stride: usize,
}

impl<T: Copy> GemmContext<T> {
    /// Computes the tile of C at (i, j), `rows` by `columns`, over one chunk of K.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn run_tile(&self, operands: TileOperands<'_, T>, c: &mut Block<'_, T>, i: usize, rows: usize, j: usize, columns: usize, accumulate: bool) {
        let TileOperands { length, a, b, b_stride } = operands;
        let vectors = columns.div_ceil(self.lanes);
        assert!(rows >= 1 && rows <= self.rows && vectors >= 1 && vectors <= self.vectors);
        assert!(i + rows <= c.rows && j + columns <= c.columns);
        assert!(length >= 1 && (rows - 1) * A_STRIDE + length <= a.len());
        assert!((length - 1) * b_stride + vectors * self.lanes <= b.len());
        // SAFETY: the asserts are the conditions of `tile`; the context exists only where its instructions do.
        unsafe {
            let at = c.at.add(i * c.stride + j);
            let tile = self.tiles[(rows - 1) * self.vectors + vectors - 1];
            tile(length, a.as_ptr(), b.as_ptr(), b_stride, at, c.stride, columns, accumulate);
        }
    }

    /// Copies a block between slices.
    #[inline]
    pub(crate) fn copy(&self, source: &[T], source_stride: usize, target: &mut [T], target_stride: usize, rows: usize, columns: usize) {
        if rows == 0 || columns == 0 {
            return;
        }
        assert!((rows - 1) * source_stride + columns <= source.len());
        assert!((rows - 1) * target_stride + columns <= target.len());
        // SAFETY: both blocks lie inside their slices, as just asserted.
        unsafe { (self.copy)(source.as_ptr(), source_stride, target.as_mut_ptr(), target_stride, rows, columns) }
    }

    /// `target[c][r] = source[r][c]`.
    #[inline]
    pub(crate) fn transpose(&self, source: &[T], source_stride: usize, target: &mut [T], target_stride: usize, rows: usize, columns: usize) {
        if rows == 0 || columns == 0 {
            return;
        }
        assert!((rows - 1) * source_stride + columns <= source.len());
        assert!((columns - 1) * target_stride + rows <= target.len());
        // SAFETY: both blocks lie inside their slices, as just asserted.
        unsafe { (self.transpose)(source.as_ptr(), source_stride, target.as_mut_ptr(), target_stride, rows, columns) }
    }

    /// Copies `segments` of each line (one offset a line) into rows of the target.
    pub(crate) fn gather(&self, source: &[T], offsets: &[usize], segments: &[Segment], target: &mut [T], target_stride: usize) {
        if offsets.is_empty() || segments.is_empty() {
            return;
        }
        let farthest = offsets.iter().fold(0, |far, &offset| far.max(offset));
        let reach = segments.iter().fold(0, |far, segment| far.max(segment.source + segment.length));
        let extent = segments.iter().fold(0, |far, segment| far.max(segment.target + segment.length));
        assert!(farthest + reach <= source.len());
        assert!((offsets.len() - 1) * target_stride + extent <= target.len());
        // SAFETY: the asserts bound every read and every write.
        unsafe {
            let (to, count) = (target.as_mut_ptr(), segments.len());
            (self.gather)(source.as_ptr(), offsets.as_ptr(), offsets.len(), segments.as_ptr(), count, to, target_stride);
        }
    }

    /// `out[j] = Σ x[p] · b[p][j]` over one chunk, B by rows of k.
    #[inline]
    pub(crate) fn vector_by_rows(&self, x: &[T], b: &[T], b_stride: usize, out: &mut [T]) {
        if x.is_empty() || out.is_empty() {
            return;
        }
        assert!((x.len() - 1) * b_stride + out.len() <= b.len());
        // SAFETY: B has a row of `out.len()` elements for each element of x, as just asserted.
        unsafe { (self.vector_by_rows)(x.len(), x.as_ptr(), b.as_ptr(), b_stride, out.as_mut_ptr(), out.len()) }
    }

    /// `out[j] = Σ x[p] · b[j][p]` over all chunks, B by columns.
    #[inline]
    pub(crate) fn vector_by_columns(&self, x: &[T], b: &[T], b_stride: usize, out: &mut [T]) {
        if x.is_empty() || out.is_empty() {
            return;
        }
        assert!((out.len() - 1) * b_stride + x.len() <= b.len());
        // SAFETY: B has a row of `x.len()` elements for each output, as just asserted.
        unsafe { (self.vector_by_columns)(x.len(), x.as_ptr(), b.as_ptr(), b_stride, out.as_mut_ptr(), out.len()) }
    }
}
