//! Products of integers, which wrap. Panels of columns of the second operand go along a few rows of the first, whose sums stay in
//! registers. Numbers of 64 bits that fit into 32 are kept as those: their product is one instruction.
use crate::{
    gemm::{MatRef, pack::MatrixView},
    isa::Isa,
    scratch::{KeptElement, collected, filled},
    simd::{Simd, SimdKernel, dispatch},
    threads::Threads,
};
use adamant_runtime::ErrorKind;

/// Rows whose sums are made together.
const ROWS: usize = 4;
/// Columns of a panel.
const COLUMNS: usize = 8;
/// Products of a task.
const TASK: usize = 128 * 1024;

/// Integers whose sums of products are their own.
pub(super) trait IntegerElement: bytemuck::Pod + KeptElement + Send + Sync {
    /// `out = a b` of `[rows, columns, depth]`.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn product(threads: &Threads, isa: Isa, sizes: [usize; 3], a: MatrixView<'_, Self>, b: MatrixView<'_, Self>, out: &mut [Self]) -> Result<(), ErrorKind>;
    /// The products of as many matrices as `out` holds. Small ones go to threads by several, of large ones the parts of each.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn products(threads: &Threads, isa: Isa, sizes: [usize; 3], a: MatRef<'_, Self>, b: MatRef<'_, Self>, out: &mut [Self]) -> Result<(), ErrorKind> {
        let one = |index: usize, out: &mut [Self]| Self::product(threads, isa, sizes, a.view(index), b.view(index), out);
        let [m, n, k] = sizes;
        let several = TASK / (m * n * k).max(1);
        if several < 2 {
            return out.chunks_mut(m * n).enumerate().try_for_each(|(index, out)| one(index, out));
        }
        threads.try_for_chunks_mut(out, several * m * n, |task, out| {
            out.chunks_mut(m * n).enumerate().try_for_each(|(index, out)| one(task * several + index, out))
        })
    }
}
impl IntegerElement for i32 {
    fn product(threads: &Threads, isa: Isa, sizes: [usize; 3], a: MatrixView<'_, i32>, b: MatrixView<'_, i32>, out: &mut [i32]) -> Result<(), ErrorKind> {
        blocked::<i32, i32, i32>(threads, isa, sizes, a, b, out, |v| v)
    }
}
impl IntegerElement for u32 {
    fn product(threads: &Threads, isa: Isa, sizes: [usize; 3], a: MatrixView<'_, u32>, b: MatrixView<'_, u32>, out: &mut [u32]) -> Result<(), ErrorKind> {
        // Their low bits are those of either sign.
        blocked::<u32, i32, i32>(threads, isa, sizes, a, b, bytemuck::cast_slice_mut(out), |v| v as i32)
    }
}
impl IntegerElement for i64 {
    fn product(threads: &Threads, isa: Isa, sizes: [usize; 3], a: MatrixView<'_, i64>, b: MatrixView<'_, i64>, out: &mut [i64]) -> Result<(), ErrorKind> {
        let [m, n, k] = sizes;
        let short = |matrix: &MatrixView<'_, i64>, rows: usize, columns: usize| {
            (0..rows).all(|i| (0..columns).fold(true, |all, j| all & i32::try_from(matrix.data[matrix.index(i, j)]).is_ok()))
        };
        if short(&a, m, k) && short(&b, k, n) {
            blocked::<i64, i32, i64>(threads, isa, sizes, a, b, out, |v| v as i32)
        } else {
            blocked::<i64, i64, i64>(threads, isa, sizes, a, b, out, |v| v)
        }
    }
}
/// A factor of sums of `W`.
trait IntegerFactor<W>: KeptElement + Default + Send + Sync {
    fn added(sum: W, a: Self, b: Self) -> W;
}
impl IntegerFactor<i32> for i32 {
    #[inline(always)]
    fn added(sum: i32, a: i32, b: i32) -> i32 {
        sum.wrapping_add(a.wrapping_mul(b))
    }
}
impl IntegerFactor<i64> for i32 {
    #[inline(always)]
    fn added(sum: i64, a: i32, b: i32) -> i64 {
        sum.wrapping_add(a as i64 * b as i64)
    }
}
impl IntegerFactor<i64> for i64 {
    #[inline(always)]
    fn added(sum: i64, a: i64, b: i64) -> i64 {
        sum.wrapping_add(a.wrapping_mul(b))
    }
}
fn blocked<T: Copy + Sync, F: IntegerFactor<W>, W: Copy + Default + Send>(
    threads: &Threads,
    isa: Isa,
    [m, n, k]: [usize; 3],
    a: MatrixView<'_, T>,
    b: MatrixView<'_, T>,
    out: &mut [W],
    factor: impl Fn(T) -> F + Sync,
) -> Result<(), ErrorKind> {
    if k == 0 {
        out.fill(W::default());
        return Ok(());
    }
    // Column by column of a panel, row behind row; what is missing is zero.
    let panel = COLUMNS * k;
    let mut panels = filled(F::default(), n.div_ceil(COLUMNS) * panel)?;
    let several = (TASK / panel).max(1);
    threads.for_chunks_mut(&mut panels, several * panel, |task, panels| {
        for (index, to) in panels.chunks_exact_mut(panel).enumerate() {
            let first = (task * several + index) * COLUMNS;
            for (p, to) in to.chunks_exact_mut(COLUMNS).enumerate() {
                to.iter_mut().zip(first..n).for_each(|(to, j)| *to = factor(b.data[b.index(p, j)]));
            }
        }
    });
    let rows = (TASK / (n * k)).max(1).next_multiple_of(ROWS);
    threads.try_for_chunks_mut(out, rows * n, |task, out| {
        for (some, out) in out.chunks_mut(ROWS * n).enumerate() {
            let first = task * rows + some * ROWS;
            // Rows that are missing are the last one again.
            let element = |p: usize, r: usize| factor(a.data[a.index((first + r).min(m - 1), p)]);
            let a = collected(ROWS * k, (0..k).flat_map(|p| (0..ROWS).map(move |r| (p, r))).map(|(p, r)| element(p, r)))?;
            dispatch(isa, IntegerRows { a: &a, panels: &panels, n, out });
        }
        Ok(())
    })
}
/// A few rows of the product.
struct IntegerRows<'a, F, W> {
    /// one of each row, then the next ones
    a: &'a [F],
    panels: &'a [F],
    /// columns
    n: usize,
    out: &'a mut [W],
}
impl<F: IntegerFactor<W>, W: Copy + Default> SimdKernel for IntegerRows<'_, F, W> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let IntegerRows { a, panels, n, out } = self;
        for (panel, first) in panels.chunks_exact(a.len() / ROWS * COLUMNS).zip((0..n).step_by(COLUMNS)) {
            let mut sums = [[W::default(); COLUMNS]; ROWS];
            for (a, b) in a.as_chunks::<ROWS>().0.iter().zip(panel.as_chunks::<COLUMNS>().0) {
                for r in 0..ROWS {
                    for j in 0..COLUMNS {
                        sums[r][j] = F::added(sums[r][j], a[r], b[j]);
                    }
                }
            }
            let count = COLUMNS.min(n - first);
            for (out, sums) in out.chunks_exact_mut(n).zip(&sums) {
                out[first..first + count].copy_from_slice(&sums[..count]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_and_size_of_number_wraps_as_it_should() {
        let mut state = 3u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 3) as i64
        };
        let threads = Threads::new(3);
        for (m, n, k) in [(1, 1, 1), (3, 5, 7), (4, 8, 16), (9, 17, 33), (130, 70, 40), (2, 3, 0)] {
            for shift in [0, 31, 32, 33, 58] {
                let (a, b): (Vec<i64>, Vec<i64>) = ((0..m * k).map(|_| next() >> shift).collect(), (0..k * n).map(|_| next() >> shift).collect());
                // The first by columns.
                let a_of = |i: usize, p: usize| a[p * m + i];
                let want: Vec<i64> =
                    (0..m * n).map(|at| (0..k).fold(0i64, |sum, p| sum.wrapping_add(a_of(at / n, p).wrapping_mul(b[p * n + at % n])))).collect();
                for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                    let (first, second) = (MatRef::row_major(&a, k, m).transposed(), MatRef::row_major(&b, k, n));
                    let mut out = vec![-1i64; m * n];
                    i64::products(&threads, isa, [m, n, k], first, second, &mut out).unwrap();
                    assert_eq!(out, want, "{m} {n} {k}, shifted by {shift}, {isa:?}");
                    let (a, b): (Vec<i32>, Vec<i32>) = (a.iter().map(|v| *v as i32).collect(), b.iter().map(|v| *v as i32).collect());
                    let (first, second) = (MatRef::row_major(&a, k, m).transposed(), MatRef::row_major(&b, k, n));
                    let mut out = vec![-1i32; m * n];
                    i32::products(&threads, isa, [m, n, k], first, second, &mut out).unwrap();
                    assert!(out.iter().zip(&want).all(|(got, want)| *got == *want as i32), "{m} {n} {k}, shifted by {shift}, {isa:?}");
                }
            }
        }
    }
}
