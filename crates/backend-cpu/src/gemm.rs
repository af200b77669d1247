//! Matrix products: `C = A · B`, batched, with any strides of A and B.
//!
//! The promise (tested): K is cut into chunks of a constant length; in a chunk every output is one sum, in the order
//! of k, by fma from zero; chunk sums are added left to right. So the bits do not depend on threads, tiles, the
//! instruction set, the layout of A and B, or how many other rows are computed along.
//! Must not know tensors. Indices are checked against the slices once, here; below, packing still goes through
//! checked slices and the kernels through the checked doors of `micro`.

pub(crate) mod apart;
#[allow(unsafe_code)]
pub(crate) mod blas;
pub(crate) mod bytes;
pub(crate) mod context;
pub(crate) mod driver;
mod epilogue;
mod gemv;
pub(crate) mod halves;
mod instances;
#[allow(unsafe_code)]
pub(crate) mod micro;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod micro_avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod micro_avx512;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod micro_bf16;
#[allow(unsafe_code)]
mod micro_scalar;
pub(crate) mod pack;
pub(crate) mod pairs;
#[cfg(test)]
mod tests;
pub(crate) mod words;

pub use blas::Blas;
pub use context::{Accumulator, GemmElement, MatrixElement};
pub use epilogue::{Epilogue, NoEpilogue};

use crate::isa::Isa;
use crate::threads::Threads;
use adamant_runtime::ErrorKind;
use context::{GemmContext, GemmScratch};
use driver::{BLOCK_COLUMNS, PlainOutput, Size, Widened, multiply};
use halves::HalfLines;
use micro::{Block, CHUNK};
use pack::MatrixView;

/// A batch of matrices inside a slice. A stride counts elements and may be negative or zero (a broadcast).
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// Where element (0, 0) of the first matrix is.
    pub offset: usize,
    /// From a row to the next.
    pub row_stride: isize,
    /// From a column to the next.
    pub col_stride: isize,
    /// From a matrix to the next.
    pub batch_stride: isize,
}

impl<'a, T> MatRef<'a, T> {
    /// Row-major matrices of `columns` columns and `rows` rows, one after another.
    pub fn row_major(data: &'a [T], rows: usize, columns: usize) -> MatRef<'a, T> {
        MatRef { data, offset: 0, row_stride: columns as isize, col_stride: 1, batch_stride: (rows * columns) as isize }
    }

    /// The same matrices, transposed.
    pub fn transposed(self) -> MatRef<'a, T> {
        MatRef { row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }

    fn check(&self, name: &str, batch: usize, rows: usize, columns: usize) -> Result<(), ErrorKind> {
        let (mut low, mut high) = (self.offset as i128, self.offset as i128);
        let axes = [(batch, self.batch_stride), (rows, self.row_stride), (columns, self.col_stride)];
        for (extent, stride) in axes {
            let reach = (extent as i128 - 1) * stride as i128;
            low += reach.min(0);
            high += reach.max(0);
        }
        if low < 0 || high >= self.data.len() as i128 {
            return Err(ErrorKind::Internal(format!(
                "gemm: {name} [{batch}, {rows}, {columns}] at offset {} with strides [{}, {}, {}] reaches elements \
                 {low}..={high} of a slice of {}",
                self.offset,
                self.batch_stride,
                self.row_stride,
                self.col_stride,
                self.data.len()
            )));
        }
        Ok(())
    }

    /// One of the matrices.
    pub(crate) fn view(&self, batch: usize) -> MatrixView<'a, T> {
        MatrixView {
            data: self.data,
            base: self.offset as isize + batch as isize * self.batch_stride,
            row_stride: self.row_stride,
            column_stride: self.col_stride,
        }
    }
}

/// Products below this many multiplications run on the calling thread: waking another costs microseconds.
const SERIAL_WORK: usize = 1 << 20;

/// `C[i] = A[i] · B[i]` for each of `batch` matrices; C is `[batch, m, n]`, contiguous, overwritten; then `epilogue`
/// on the finished parts of C while they are in cache. `k = 0` gives zeros (and the epilogue of zeros).
///
/// # Errors
/// An operand reaches outside its slice, or C's length is not `batch * m * n`; memory for what is packed.
#[allow(clippy::too_many_arguments)]
pub fn gemm<T: GemmElement>(
    threads: &Threads,
    isa: Isa,
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    c: &mut [T],
    epilogue: &dyn Epilogue<T>,
) -> Result<(), ErrorKind> {
    let wanted = batch.checked_mul(m).and_then(|count| count.checked_mul(n));
    if wanted != Some(c.len()) {
        return Err(ErrorKind::Internal(format!("gemm: C [{batch}, {m}, {n}] in a slice of {} elements", c.len())));
    }
    if c.is_empty() {
        return Ok(());
    }
    if k == 0 {
        c.fill(T::default());
        return c.chunks_mut(m * n).enumerate().try_for_each(|(index, c)| epilogue.apply(index, 0, 0, c));
    }
    a.check("A", batch, m, k)?;
    b.check("B", batch, k, n)?;

    let job = Job { isa, context: T::Acc::context(isa), k, a, b, epilogue };
    let work = m.saturating_mul(n).saturating_mul(k).saturating_mul(batch);
    // A vector product is bound by memory, and memory has the second core's share to give early.
    let serial = if m == 1 || n == 1 { SERIAL_WORK / 8 } else { SERIAL_WORK };
    if threads.count() == 1 || work < serial {
        return job.run_all(0, c, m, n);
    }
    if batch == 1 && m == 1 && T::run_by_chunks(&job, threads, c)? {
        return Ok(());
    }
    if batch >= 2 * threads.count() {
        // Many matrices: whole ones, in runs, not one by one.
        let run = batch.div_ceil(threads.count() * 8);
        return threads.try_for_chunks_mut(c, run * m * n, |task, c| job.run_all(task * run, c, m, n));
    }
    let (rows, columns) = part_size(threads.count(), batch, m, n, job.context.rows, job.context.columns());
    let parts = c.chunks_mut(m * n).enumerate();
    let parts = parts.flat_map(|(index, c)| Block::new(c, m, n, n).cut(rows, columns).map(move |(i, j, block)| ProductPart { index, i, j, block }));
    threads.try_for_parts(parts, |_, part| job.run(part))
}

/// The rows and columns of a task. Columns are cut first (a task packs only its own columns of B), then rows.
pub(crate) fn part_size(threads: usize, batch: usize, m: usize, n: usize, tile_rows: usize, tile_columns: usize) -> (usize, usize) {
    let wanted = (2 * threads).div_ceil(batch);
    let column_parts = wanted.min(n.div_ceil(4 * tile_columns)).max(1);
    let row_parts = wanted.div_ceil(column_parts).min(m.div_ceil(tile_rows)).max(1);
    let columns = n.div_ceil(column_parts).next_multiple_of(tile_columns);
    let rows = m.div_ceil(row_parts).next_multiple_of(tile_rows);
    (rows, columns)
}

/// A checked product.
pub(crate) struct Job<'a, T: GemmElement> {
    isa: Isa,
    context: &'static GemmContext<T::Acc>,
    k: usize,
    a: MatRef<'a, T>,
    b: MatRef<'a, T>,
    epilogue: &'a dyn Epilogue<T>,
}

impl<'a, T: GemmElement> Job<'a, T> {
    fn operands(&self, index: usize, i: usize, j: usize) -> (MatrixView<'a, T>, MatrixView<'a, T>) {
        let (mut a, mut b) = (self.a.view(index), self.b.view(index));
        a.base += i as isize * a.row_stride;
        b.base += j as isize * b.column_stride;
        (a, b)
    }

    fn run(&self, part: ProductPart<'_, T>) -> Result<(), ErrorKind> {
        T::Acc::with_scratch(|scratch| T::run_part(self, part, scratch))
    }
    /// Computes whole matrices, `m` by `n`, from matrix `first` on.
    fn run_all(&self, first: usize, c: &mut [T], m: usize, n: usize) -> Result<(), ErrorKind> {
        c.chunks_mut(m * n).enumerate().try_for_each(|(k, c)| self.run(ProductPart { index: first + k, i: 0, j: 0, block: Block::new(c, m, n, n) }))
    }
}

/// A rectangle of one matrix of C, and its place.
pub(crate) struct ProductPart<'a, T> {
    index: usize,
    i: usize,
    j: usize,
    block: Block<'a, T>,
}

/// A vector times a matrix stored by rows of k, its chunks shared out; false if it is not that.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn run_by_chunks<T: Accumulator>(job: &Job<'_, T>, threads: &Threads, c: &mut [T]) -> Result<bool, ErrorKind> {
    let (a, b) = job.operands(0, 0, 0);
    if job.k <= CHUNK || !gemv::by_rows(&b) {
        return Ok(false);
    }
    gemv::by_chunks(job.context, threads, job.k, &a, &b, c)?;
    job.epilogue.apply(0, 0, 0, c)?;
    Ok(true)
}

/// A part whose type is its own accumulator.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn run_plain<T: Accumulator>(job: &Job<'_, T>, part: ProductPart<'_, T>, scratch: &mut GemmScratch<T>) -> Result<(), ErrorKind> {
    let ProductPart { index, i, j, mut block } = part;
    let (a, b) = job.operands(index, i, j);
    let size = Size { m: block.rows, n: block.columns, k: job.k };
    let at_once = if size.m == 1 && gemv::is_readable(&b) {
        Some((a, a.column_stride, b))
    } else if size.n == 1 && gemv::is_readable(&a.transposed()) {
        Some((b, b.row_stride, a.transposed()))
    } else {
        None
    };
    if let (Some((x, stride, matrix)), Some(out)) = (at_once, block.contiguous()) {
        gemv::gemv(job.context, job.k, x.data, x.base, stride, &matrix, out, scratch)?;
        // Adjacent rows are whole ones, or one of them is a part.
        return job.epilogue.apply(index, i, j, out);
    }
    let silent = job.epilogue.is_identity();
    let finish = |row: usize, column: usize, values: &mut [T]| if silent { Ok(()) } else { job.epilogue.apply(index, i + row, j + column, values) };
    let mut out = PlainOutput { block, finish };
    multiply(job.context, size, &a, &b, &mut out, false, &mut scratch.a, &mut scratch.b)
}

/// Rows of which the sums in a wider type are kept at a time.
const STRIP_ROWS: usize = 4096;

/// A part whose sums are kept in a wider type and rounded once.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn run_widened<T: GemmElement<Acc = f32>>(job: &Job<'_, T>, part: ProductPart<'_, T>, scratch: &mut GemmScratch<f32>) -> Result<(), ErrorKind> {
    let ProductPart { index, i, j, block } = part;
    let columns = block.columns;
    // Strips, so that the sums of a tall matrix need no more memory than those of a low one.
    block.cut(STRIP_ROWS, columns).try_for_each(|(down, _, block)| run_strip(job, ProductPart { index, i: i + down, j, block }, scratch))
}
fn run_strip<T: GemmElement<Acc = f32>>(job: &Job<'_, T>, part: ProductPart<'_, T>, scratch: &mut GemmScratch<f32>) -> Result<(), ErrorKind> {
    let ProductPart { index, i, j, mut block } = part;
    let (a, b) = job.operands(index, i, j);
    let size = Size { m: block.rows, n: block.columns, k: job.k };
    let sums = scratch.c.take(size.m * BLOCK_COLUMNS)?;
    let finish = |row: usize, column: usize, sums: &[f32]| {
        let values = block.row(row, column, sums.len());
        T::narrow(job.isa, sums, values);
        job.epilogue.apply(index, i + row, j + column, values)
    };
    let mut out = Widened { sums: Block::new(sums, size.m, BLOCK_COLUMNS, BLOCK_COLUMNS), finish };
    if halves::multiply_few(job.isa, size, &a, HalfLines::of(&b), &mut out, [&mut scratch.a, &mut scratch.b])? {
        return Ok(());
    }
    if let (Some(a), Some(b)) = (a.as_bf16(), b.as_bf16())
        && pairs::multiply_pairs(job.isa, size, a, b, &mut out, [&mut scratch.a, &mut scratch.b])?
    {
        return Ok(());
    }
    multiply(job.context, size, &a, &b, &mut out, false, &mut scratch.a, &mut scratch.b)
}
