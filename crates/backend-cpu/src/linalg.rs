//! Factorizations of matrices and what is made of them: the composites that core defines on the host in f64, computed in the
//! dtype of the matrices. Everything large is a product of matrices, by the tiles of `gemm`; what is left works on columns or rows
//! that lie side by side. What they mean, their errors and their signs are those of the host's functions, which they are tested
//! against.
//!
//! The promise: bits do not depend on threads or the set of instructions. Work is shared out by columns (or rows) that do not
//! look at each other, sums have the order of `gemm` or of [`vector`], and the sizes of blocks are constants.
//! Must not know tensors, strides of operands or gradients.
mod batch;
mod bidiagonal;
mod cholesky;
mod exponential;
mod kernel;
mod lu;
mod product;
mod reflect;
mod rotations;
mod singular;
mod small;
mod symmetric;
mod triangle;
mod tridiagonal;
mod vector;

pub(crate) use kernel::FactorKernel;

use crate::{device::Runtime, isa::Isa, threads::Threads};
use adamant_runtime::ErrorKind;
use parking_lot::Mutex;

/// Multiplications below this number are done on one thread: waking another costs microseconds.
const ALONE: usize = 1 << 19;

/// Who works at one matrix.
#[derive(Clone, Copy)]
struct Crew<'r> {
    isa: Isa,
    threads: &'r Threads,
}
impl Crew<'_> {
    /// Of `count` lines that need `work` multiplications each, how many make a task, in multiples of a number.
    fn share(&self, count: usize, work: usize, multiple: usize) -> usize {
        if self.threads.count() == 1 || count.saturating_mul(work) < ALONE {
            return count.max(1);
        }
        count.div_ceil(2 * self.threads.count()).next_multiple_of(multiple)
    }
    /// Runs `f(first line, lines)` on shares of lines of `stride` elements.
    fn for_lines<T: Send>(
        &self,
        lines: &mut [T],
        stride: usize,
        share: usize,
        f: impl Fn(usize, &mut [T]) -> Result<(), ErrorKind> + Sync,
    ) -> Result<(), ErrorKind> {
        self.threads.try_for_chunks_mut(lines, share * stride, |task, lines| f(task * share, lines))
    }
}

/// Cuts each of several slices into parts, of which it gives the next of all with each call.
fn cut<'a, T, const N: usize>(slices: [&'a mut [T]; N], sizes: [usize; N]) -> impl FnMut() -> [&'a mut [T]; N] {
    let mut k = 0;
    let mut parts = slices.map(|slice| {
        k += 1;
        slice.chunks_mut(sizes[k - 1].max(1))
    });
    move || parts.each_mut().map(|p| p.next().unwrap_or_default())
}
/// Runs `f(crew, index of the first, their parts of the outputs)` for each `together` matrices of a batch: many, or small ones, by
/// one thread each, few large ones by all threads. `work` is about how many multiplications a matrix needs.
///
/// # Errors
/// That of the first matrices that have one.
fn for_each<T: Send, const N: usize, const M: usize>(
    runtime: &Runtime,
    batch: usize,
    together: usize,
    work: usize,
    outputs: [&mut [T]; N],
    numbers: [&mut [i32]; M],
    f: impl Fn(Crew<'_>, usize, [&mut [T]; N], [&mut [i32]; M]) -> Result<(), ErrorKind> + Sync,
) -> Result<(), ErrorKind> {
    let threads = &runtime.threads;
    let sizes = outputs.each_ref().map(|o| o.len() / batch * together);
    let numbers_of = numbers.each_ref().map(|o| o.len() / batch * together);
    let few = batch < 2 * threads.count() && work >= ALONE;
    if few || threads.count() == 1 || batch.saturating_mul(work) < ALONE / 8 {
        let crew = Crew { isa: runtime.isa, threads };
        let (mut next, mut next_numbers) = (cut(outputs, sizes), cut(numbers, numbers_of));
        return (0..batch).step_by(together).try_for_each(|index| f(crew, index, next(), next_numbers()));
    }
    let run = batch.div_ceil(together).div_ceil(8 * threads.count());
    let (mut runs, mut numbers_in) = (cut(outputs, sizes.map(|s| s * run)), cut(numbers, numbers_of.map(|s| s * run)));
    let crew = Crew { isa: runtime.isa, threads: Threads::alone() };
    let failed: Mutex<Option<(usize, ErrorKind)>> = Mutex::new(None);
    let step = run * together;
    threads.for_parts((0..batch.div_ceil(step)).map(|_| (runs(), numbers_in())), |task, (outputs, numbers)| {
        let (mut next, mut next_numbers) = (cut(outputs, sizes), cut(numbers, numbers_of));
        for index in (task * step..batch.min(task * step + step)).step_by(together) {
            if let Err(e) = f(crew, index, next(), next_numbers()) {
                let mut failed = failed.lock();
                if failed.as_ref().is_none_or(|f| index < f.0) {
                    *failed = Some((index, e));
                }
                return;
            }
        }
    });
    failed.into_inner().map_or(Ok(()), |(_, e)| Err(e))
}
