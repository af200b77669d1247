//! Kernels of sums of products of bytes, written once over a set of instructions, and the checked doors to them.
//!
//! One step of every set is a quad: four bytes that are adjacent in K, of A unsigned and of B signed, whose products are added to
//! an i32, which wraps. Sums are exact modulo 2^32, so their order is free and the bits are those of every set.
//! Must not know matrices, packing policy or threads.

use super::windows::WindowTileFn;

/// Columns of a block of B.
pub(crate) const BLOCK: usize = 16;
/// Bytes of a quad.
pub(crate) const QUAD: usize = 4;
/// Bytes of a quad of all columns of a block.
pub(crate) const LINE: usize = BLOCK * QUAD;
/// Lines of B that are read side by side where K is contiguous.
pub(super) const ABREAST: usize = 4;
/// Vectors that are interleaved from four rows of B.
const WOVEN: usize = 4;
/// Quads that are added before sums are stored, where B lies by rows of k.
const DEEP: usize = 4;

/// Instructions for products of bytes.
///
/// # Safety
/// All of its functions are called where the CPU has the set's instructions, and with addresses that can be read or written as
/// far as their types say.
pub(super) trait ByteSet {
    /// Bytes that an element of A takes where tiles read it: 1, or 2 where it is widened.
    const WIDTH: usize;
    /// Columns of a vector of sums.
    const COLUMNS: usize;
    /// A quad of A for every column.
    type Quad: Copy;
    /// A quad of B of each column.
    type Bytes: Copy;
    /// As many elements of A as `Bytes` has, from adjacent k.
    type Whole: Copy;
    type Sum: Copy;
    /// A sum along a line, in parts.
    type LineSum: Copy;
    /// An i32 of each column.
    type Lanes: Copy;
    unsafe fn zero() -> Self::Sum;
    unsafe fn quad(at: *const u8) -> Self::Quad;
    unsafe fn whole(at: *const u8) -> Self::Whole;
    unsafe fn load(at: *const i8) -> Self::Bytes;
    /// As `load`, each byte xor `flip`.
    unsafe fn load_flipped(at: *const u8, flip: u8) -> Self::Bytes;
    /// `4 * COLUMNS` columns of four rows, each byte xor `flip`: lane `l` of four columns of vector `v` has columns `16 l + 4 v` on.
    unsafe fn weave(rows: [*const u8; QUAD], flip: u8) -> [Self::Bytes; WOVEN];
    /// `SIGNED`: of signed A and unsigned B where elements take one byte, and of signed A where they take two.
    unsafe fn dot<const SIGNED: bool>(a: Self::Quad, b: Self::Bytes, sum: Self::Sum) -> Self::Sum;
    unsafe fn dot_whole<const SIGNED: bool>(a: Self::Whole, b: Self::Bytes, sum: Self::LineSum) -> Self::LineSum;
    unsafe fn line_zero() -> Self::LineSum;
    unsafe fn lanes(sum: Self::Sum) -> Self::Lanes;
    /// The sums of all parts of four lines.
    unsafe fn totals(sums: [Self::LineSum; ABREAST]) -> [i32; ABREAST];
    unsafe fn load_lanes(at: *const i32) -> Self::Lanes;
    unsafe fn store_lanes(lanes: Self::Lanes, at: *mut i32);
    unsafe fn add(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;
    /// `lanes + start - zero * sums`.
    unsafe fn correct(lanes: Self::Lanes, start: i32, zero: i32, sums: Self::Lanes) -> Self::Lanes;
}

/// `(quads, a, a_stride, b, block_stride, c, c_stride, [starts, zeros, column_sums], accumulate)`; strides of A and B in bytes.
pub(super) type ByteTileFn = unsafe fn(usize, *const u8, usize, *const i8, usize, *mut i32, usize, [*const i32; 3], bool);
/// `(length, a, a_stride, b, b_stride, flip, columns, out, out_stride)`.
pub(super) type ByteVectorFn = unsafe fn(usize, *const u8, usize, *const u8, usize, u8, usize, *mut i32, usize);

/// Kernels of one set.
pub(crate) struct ByteContext {
    /// Rows of the largest tile.
    pub(crate) rows: usize,
    /// Vectors of the largest tile.
    pub(super) vectors: usize,
    /// Columns of a vector.
    pub(super) lanes: usize,
    /// Bytes of an element of A in a tile.
    pub(crate) width: usize,
    /// `tiles[(rows - 1) * vectors + v - 1]`.
    pub(super) tiles: &'static [ByteTileFn],
    /// Likewise.
    pub(super) window_tiles: &'static [WindowTileFn],
    /// Rows of A that `lines` takes best together.
    pub(super) line_rows: usize,
    /// By the sign of A, then by its rows.
    pub(super) lines: [[ByteVectorFn; DIRECT_ROWS]; 2],
    pub(super) streams: [[ByteVectorFn; DIRECT_ROWS]; 2],
}
/// The most rows that products with a B that is not packed take together.
pub(crate) const DIRECT_ROWS: usize = 6;

/// `c[r][j] = starts[r] - zeros[r] * column_sums[j] + Σ a[r][k] b[k][j]`, or all of it added to c.
///
/// # Safety
/// `a` holds `ROWS` rows of `4 * quads` elements; `b` a quad's line of each block, `quads` of them; `c` holds `ROWS` rows, and with
/// `column_sums`, `VECTORS` vectors of columns; `starts` and `zeros` hold `ROWS` numbers; the CPU has the set's instructions.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn tile<S: ByteSet, const ROWS: usize, const VECTORS: usize>(
    quads: usize,
    a: *const u8,
    a_stride: usize,
    b: *const i8,
    block_stride: usize,
    c: *mut i32,
    c_stride: usize,
    [starts, zeros, column_sums]: [*const i32; 3],
    accumulate: bool,
) {
    // SAFETY: all offsets stay within what the caller vouches for.
    unsafe {
        let mut sums = [[S::zero(); VECTORS]; ROWS];
        for q in 0..quads {
            let at = b.add(q * LINE);
            let mut bytes = [S::load(at); VECTORS];
            for (v, bytes) in bytes.iter_mut().enumerate().skip(1) {
                let column = v * S::COLUMNS;
                *bytes = S::load(at.add(column / BLOCK * block_stride + column % BLOCK * QUAD));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let quad = S::quad(a.add(r * a_stride + q * QUAD * S::WIDTH));
                for (sum, bytes) in sums.iter_mut().zip(bytes) {
                    *sum = S::dot::<false>(quad, bytes, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let at = c.add(r * c_stride + v * S::COLUMNS);
                let of_columns = S::load_lanes(column_sums.add(v * S::COLUMNS));
                let sum = S::correct(S::lanes(*sum), *starts.add(r), *zeros.add(r), of_columns);
                S::store_lanes(if accumulate { S::add(S::load_lanes(at), sum) } else { sum }, at);
            }
        }
    }
}

/// `out[r][j] = Σ a[r][k] b[j][k]`, of lines of B in which K is contiguous.
///
/// # Safety
/// `a` holds `ROWS` rows of `length` elements, and zeros behind them up to a multiple of [`LINE`]; `b` holds `columns` lines of
/// `length` bytes; `out` holds `ROWS` rows of `columns` sums; the CPU has the set's instructions.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn lines<S: ByteSet, const SIGNED: bool, const ROWS: usize>(
    length: usize,
    a: *const u8,
    a_stride: usize,
    b: *const u8,
    b_stride: usize,
    flip: u8,
    columns: usize,
    out: *mut i32,
    out_stride: usize,
) {
    let some = columns / ABREAST * ABREAST;
    // SAFETY: all offsets stay within what the caller vouches for.
    unsafe {
        for j in (0..some).step_by(ABREAST) {
            some_lines::<S, SIGNED, ROWS, ABREAST>(length, a, a_stride, b.add(j * b_stride), b_stride, flip, out.add(j), out_stride);
        }
        for j in some..columns {
            some_lines::<S, SIGNED, ROWS, 1>(length, a, a_stride, b.add(j * b_stride), b_stride, flip, out.add(j), out_stride);
        }
    }
}
/// # Safety
/// As [`lines`], of `LINES` columns.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn some_lines<S: ByteSet, const SIGNED: bool, const ROWS: usize, const LINES: usize>(
    length: usize,
    a: *const u8,
    a_stride: usize,
    b: *const u8,
    b_stride: usize,
    flip: u8,
    out: *mut i32,
    out_stride: usize,
) {
    let step = S::COLUMNS * QUAD;
    let whole = length / step * step;
    // SAFETY: all offsets stay within what the caller vouches for; the last bytes are copied before they are read as a vector.
    unsafe {
        let mut sums = [[S::line_zero(); LINES]; ROWS];
        for p in (0..whole).step_by(step) {
            let mut bytes = [S::load_flipped(b.add(p), flip); LINES];
            for (l, bytes) in bytes.iter_mut().enumerate().skip(1) {
                *bytes = S::load_flipped(b.add(l * b_stride + p), flip);
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let factors = S::whole(a.add(r * a_stride + p * S::WIDTH));
                for (sum, bytes) in sums.iter_mut().zip(bytes) {
                    *sum = S::dot_whole::<SIGNED>(factors, bytes, *sum);
                }
            }
        }
        if whole < length {
            for l in 0..LINES {
                let mut last = [0u8; LINE];
                std::ptr::copy_nonoverlapping(b.add(l * b_stride + whole), last.as_mut_ptr(), length - whole);
                let bytes = S::load_flipped(last.as_ptr(), flip);
                for (r, sums) in sums.iter_mut().enumerate() {
                    sums[l] = S::dot_whole::<SIGNED>(S::whole(a.add(r * a_stride + whole * S::WIDTH)), bytes, sums[l]);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let totals = S::totals(std::array::from_fn(|l| if l < LINES { sums[l] } else { S::line_zero() }));
            std::ptr::copy_nonoverlapping(totals.as_ptr(), out.add(r * out_stride), LINES);
        }
    }
}

/// `out[r][j] = Σ a[r][k] b[k][j]`, of rows of B in which the columns are contiguous, in the order of [`ByteSet::weave`].
///
/// # Safety
/// `a` holds `ROWS` rows of `length` elements; `b` holds `length` rows, a multiple of 4, of `columns` bytes, a multiple of
/// `4 * COLUMNS`; `out` holds `ROWS` rows of `columns` sums; the CPU has the set's instructions.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn streams<S: ByteSet, const SIGNED: bool, const ROWS: usize>(
    length: usize,
    a: *const u8,
    a_stride: usize,
    b: *const u8,
    b_stride: usize,
    flip: u8,
    columns: usize,
    out: *mut i32,
    out_stride: usize,
) {
    let quads = length / QUAD;
    for first in (0..quads).step_by(DEEP) {
        for j in (0..columns).step_by(WOVEN * S::COLUMNS) {
            // SAFETY: all offsets stay within what the caller vouches for.
            unsafe {
                let mut sums = [[S::zero(); WOVEN]; ROWS];
                for q in first..quads.min(first + DEEP) {
                    let row = b.add(q * QUAD * b_stride + j);
                    let bytes = S::weave([row, row.add(b_stride), row.add(2 * b_stride), row.add(3 * b_stride)], flip);
                    for (r, sums) in sums.iter_mut().enumerate() {
                        let quad = S::quad(a.add(r * a_stride + q * QUAD * S::WIDTH));
                        for (sum, bytes) in sums.iter_mut().zip(bytes) {
                            *sum = S::dot::<SIGNED>(quad, bytes, *sum);
                        }
                    }
                }
                for (r, sums) in sums.iter().enumerate() {
                    for (v, sum) in sums.iter().enumerate() {
                        let at = out.add(r * out_stride + j + v * S::COLUMNS);
                        let sum = S::lanes(*sum);
                        S::store_lanes(if first > 0 { S::add(S::load_lanes(at), sum) } else { sum }, at);
                    }
                }
            }
        }
    }
}

/// What makes sums of packed bytes those of the operands.
#[derive(Clone, Copy)]
pub(crate) struct Corrections<'a> {
    /// of each row
    pub(crate) starts: &'a [i32],
    pub(crate) zeros: &'a [i32],
    /// of each column, also of those that fill the last block
    pub(crate) column_sums: &'a [i32],
}

/// Bytes with a distance between rows or blocks.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) stride: usize,
}

impl ByteContext {
    /// Columns of the largest tile.
    pub(crate) fn columns(&self) -> usize {
        self.vectors * self.lanes
    }

    /// Columns of B that [`ByteContext::streams`] takes together.
    pub(crate) fn woven(&self) -> usize {
        WOVEN * self.lanes
    }

    /// Computes a tile of `rows` rows from blocks of B, whose first column it is `first` columns behind; `columns` are whole vectors.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn tile(
        &self,
        quads: usize,
        a: Strided<'_, u8>,
        rows: usize,
        b: Strided<'_, i8>,
        first: usize,
        columns: usize,
        c: &mut [i32],
        c_stride: usize,
        corrections: Corrections<'_>,
        accumulate: bool,
    ) {
        let vectors = columns / self.lanes;
        assert!(rows >= 1 && rows <= self.rows && vectors >= 1 && vectors <= self.vectors && columns.is_multiple_of(self.lanes));
        assert!((rows - 1) * a.stride + quads * QUAD * self.width <= a.data.len());
        let last = first + columns - 1;
        assert!(quads > 0 && last / BLOCK * b.stride + (quads - 1) * LINE + (last % BLOCK + 1) * QUAD <= b.data.len());
        assert!(first.is_multiple_of(self.lanes) && (vectors == 1 || first.is_multiple_of(BLOCK)));
        assert!((rows - 1) * c_stride + columns <= c.len() && (rows == 1 || columns <= c_stride));
        let Corrections { starts, zeros, column_sums } = corrections;
        assert!(rows <= starts.len() && rows <= zeros.len() && columns <= column_sums.len());
        // SAFETY: the asserts are the conditions of `tile`; the context exists only where its instructions do.
        unsafe {
            let tile = self.tiles[(rows - 1) * self.vectors + vectors - 1];
            let at = b.data.as_ptr().add(first / BLOCK * b.stride + first % BLOCK * QUAD);
            let corrections = [starts.as_ptr(), zeros.as_ptr(), column_sums.as_ptr()];
            tile(quads, a.data.as_ptr(), a.stride, at, b.stride, c.as_mut_ptr(), c_stride, corrections, accumulate);
        }
    }

    /// Sums of a few rows with lines of `length` bytes of B, without corrections.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn lines(
        &self,
        signed: bool,
        length: usize,
        a: Strided<'_, u8>,
        rows: usize,
        b: Strided<'_, u8>,
        flip: u8,
        columns: usize,
        out: &mut [i32],
        stride: usize,
    ) {
        if length == 0 || columns == 0 {
            return;
        }
        assert!((1..=DIRECT_ROWS).contains(&rows) && (rows - 1) * a.stride + length.next_multiple_of(LINE) * self.width <= a.data.len());
        assert!((columns - 1) * b.stride + length <= b.data.len());
        assert!((rows - 1) * stride + columns <= out.len() && (rows == 1 || columns <= stride));
        let lines = self.lines[usize::from(signed)][rows - 1];
        // SAFETY: the asserts are the conditions of `lines`, but for zeros behind A, without which sums are others.
        unsafe { lines(length, a.data.as_ptr(), a.stride, b.data.as_ptr(), b.stride, flip, columns, out.as_mut_ptr(), stride) }
    }

    /// Sums of a few rows with rows of B, `length` of them, without corrections and in the order of [`ByteContext::ordered`].
    #[allow(clippy::too_many_arguments)]
    pub(super) fn streams(&self, signed: bool, length: usize, a: Strided<'_, u8>, rows: usize, b: Strided<'_, u8>, flip: u8, columns: usize, out: &mut [i32]) {
        if length == 0 || columns == 0 {
            return;
        }
        assert!((1..=DIRECT_ROWS).contains(&rows) && (rows - 1) * a.stride + length * self.width <= a.data.len());
        assert!(length.is_multiple_of(QUAD) && columns.is_multiple_of(self.woven()));
        assert!((length - 1) * b.stride + columns <= b.data.len() && rows * columns <= out.len());
        let streams = self.streams[usize::from(signed)][rows - 1];
        // SAFETY: the asserts are the conditions of `streams`.
        unsafe { streams(length, a.data.as_ptr(), a.stride, b.data.as_ptr(), b.stride, flip, columns, out.as_mut_ptr(), columns) }
    }

    /// Where the sums of four columns, from `column` on, are among those of [`ByteContext::streams`].
    pub(crate) fn ordered(&self, column: usize) -> usize {
        let (group, within) = (column / self.woven(), column % self.woven());
        group * self.woven() + within % BLOCK / QUAD * self.lanes + within / BLOCK * QUAD
    }
}
