//! Matrix products by the machine's BLAS, where the program was built with one: the only place that calls it.
//!
//! BLAS promises no order of summation, so a device that uses it makes no promise of equal bits. It has threads of its
//! own; they are told to be as many as the device's, which wait meanwhile. What BLAS cannot express (other dtypes,
//! strides on both axes) is left to the built-in kernels.

use super::MatRef;
use crate::threads::Threads;
use adamant_runtime::ErrorKind;

#[cfg(any(all(feature = "openblas", feature = "mkl"), all(feature = "openblas", feature = "accelerate"), all(feature = "mkl", feature = "accelerate")))]
compile_error!("choose one of the features `openblas`, `mkl` and `accelerate`: they define the same functions");
#[cfg(all(feature = "accelerate", not(target_vendor = "apple")))]
compile_error!("the feature `accelerate` needs Apple's Accelerate framework, which is part of macOS: use `openblas` or `mkl` elsewhere, or none");

/// Who computes products of f32 and f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blas {
    /// the built-in kernels
    Own,
    /// OpenBLAS (feature `openblas`, the system's library)
    OpenBlas,
    /// Intel's oneMKL (feature `mkl`)
    Mkl,
    /// Apple's Accelerate (feature `accelerate`)
    Accelerate,
}
impl Blas {
    /// What can be asked for, with the word for it.
    const ALL: [(Blas, &'static str); 4] = [(Blas::Own, "own"), (Blas::OpenBlas, "openblas"), (Blas::Mkl, "mkl"), (Blas::Accelerate, "accelerate")];

    /// The one that this program was built with, else [`Blas::Own`].
    pub fn built_in() -> Blas {
        if cfg!(feature = "openblas") {
            Blas::OpenBlas
        } else if cfg!(feature = "mkl") {
            Blas::Mkl
        } else if cfg!(feature = "accelerate") {
            Blas::Accelerate
        } else {
            Blas::Own
        }
    }
    /// Its word.
    pub fn name(self) -> &'static str {
        Blas::ALL.iter().find(|(blas, _)| *blas == self).map_or("own", |(_, name)| name)
    }
    /// The one that a word means.
    ///
    /// # Errors
    /// No such library, or one that this program was not built with.
    pub fn parse(word: &str) -> Result<Blas, ErrorKind> {
        let what = match Blas::ALL.iter().find(|(_, name)| *name == word) {
            Some((blas, _)) if *blas == Blas::Own || *blas == Blas::built_in() => return Ok(*blas),
            Some(_) => format!("{word} is not compiled in: build with adamant = {{ features = [\"{word}\"] }}, or use `own`"),
            None => format!("`{word}` is no matrix library; there are own, openblas, mkl and accelerate"),
        };
        Err(ErrorKind::Unsupported { backend: "cpu".into(), what })
    }
    /// `C[i] = A[i] · B[i]` as [`super::gemm`] does it, or false: BLAS cannot express it and has written nothing.
    ///
    /// # Errors
    /// An operand reaches outside its slice, or C's length is not `batch * m * n`.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn multiply<T: Copy + 'static>(
        self,
        threads: &Threads,
        batch: usize,
        m: usize,
        n: usize,
        k: usize,
        a: MatRef<'_, T>,
        b: MatRef<'_, T>,
        c: &mut [T],
    ) -> Result<bool, ErrorKind> {
        if self == Blas::Own || k == 0 || c.is_empty() {
            return Ok(false);
        }
        library::multiply(threads, batch, [m, n, k], a, b, c)
    }
}

#[cfg(not(any(feature = "openblas", feature = "mkl", feature = "accelerate")))]
mod library {
    use super::{ErrorKind, MatRef, Threads};

    pub(super) fn multiply<T>(_: &Threads, _: usize, _: [usize; 3], _: MatRef<'_, T>, _: MatRef<'_, T>, _: &mut [T]) -> Result<bool, ErrorKind> {
        Ok(false)
    }
}
#[cfg(any(feature = "openblas", feature = "mkl", feature = "accelerate"))]
mod library {
    use super::{ErrorKind, MatRef, Threads, tiles::BlasTiles};
    use cblas_sys::{CBLAS_LAYOUT, CBLAS_TRANSPOSE, cblas_dgemm, cblas_sgemm};
    use std::{any::TypeId, sync::Once};

    // Links the library; it has no items.
    extern crate blas_src as _;

    /// A matrix of `rows` and `columns` as BLAS takes it: transposed or not, with the stride of its lines.
    fn lines<T>(matrix: &MatRef<'_, T>, rows: usize, columns: usize) -> Option<(CBLAS_TRANSPOSE, i32)> {
        let stride = |stride: isize, lines: usize, length: usize| -> Option<i32> {
            let least = length.max(1);
            let stride = if lines == 1 { least } else { usize::try_from(stride).ok().filter(|s| *s >= least)? };
            i32::try_from(stride).ok()
        };
        if matrix.col_stride == 1 || columns == 1 {
            if let Some(ld) = stride(matrix.row_stride, rows, columns) {
                return Some((CBLAS_TRANSPOSE::CblasNoTrans, ld));
            }
        }
        if matrix.row_stride == 1 || rows == 1 {
            return Some((CBLAS_TRANSPOSE::CblasTrans, stride(matrix.col_stride, columns, rows)?));
        }
        None
    }
    pub(super) fn multiply<T: Copy + 'static>(
        threads: &Threads,
        batch: usize,
        sizes: [usize; 3],
        a: MatRef<'_, T>,
        b: MatRef<'_, T>,
        c: &mut [T],
    ) -> Result<bool, ErrorKind> {
        let [m, n, k] = sizes;
        let single = TypeId::of::<T>() == TypeId::of::<f32>();
        if !single && TypeId::of::<T>() != TypeId::of::<f64>() {
            return Ok(false);
        }
        let (Some((turn_a, lda)), Some((turn_b, ldb)), [Ok(_), Ok(i_n), Ok(ik)]) = (lines(&a, m, k), lines(&b, k, n), [m, n, k].map(i32::try_from)) else {
            return Ok(false);
        };
        if batch.checked_mul(m).and_then(|count| count.checked_mul(n)) != Some(c.len()) {
            return Err(ErrorKind::Internal(format!("gemm: C [{batch}, {m}, {n}] in a slice of {} elements", c.len())));
        }
        a.check("A", batch, m, k)?;
        b.check("B", batch, k, n)?;
        ONE_THREAD.call_once(set_one_thread);
        let tiles = BlasTiles::of(threads.count(), batch, sizes);
        let (a, b, c) = (Place::of(&a), Place::of(&b), Place { data: c.as_mut_ptr().cast_const(), batch: (m * n) as isize, rows: n as isize, columns: 1 });
        threads.for_parts(0..batch * tiles.count, |_, place| {
            let (index, tile) = (place / tiles.count, place % tiles.count);
            let (rows, columns) = (tiles.rows(tile, m), tiles.columns(tile, n));
            if rows.is_empty() || columns.is_empty() {
                return;
            }
            let (a, b) = (a.at(index, rows.start, 0), b.at(index, 0, columns.start));
            let c = c.at(index, rows.start, columns.start).cast_mut();
            let (layout, rows, columns) = (CBLAS_LAYOUT::CblasRowMajor, rows.len() as i32, columns.len() as i32);
            if single {
                // SAFETY: T is f32; `check` has shown that both matrices lie in their slices for these sizes and strides, and
                // no two tiles of c, which has batch * m * n elements of its own, share one.
                unsafe { cblas_sgemm(layout, turn_a, turn_b, rows, columns, ik, 1.0, a.cast(), lda, b.cast(), ldb, 0.0, c.cast(), i_n) }
            } else {
                // SAFETY: T is f64; else as above.
                unsafe { cblas_dgemm(layout, turn_a, turn_b, rows, columns, ik, 1.0, a.cast(), lda, b.cast(), ldb, 0.0, c.cast(), i_n) }
            }
        });
        Ok(true)
    }
    /// Where the elements of a matrix lie.
    struct Place<T> {
        data: *const T,
        batch: isize,
        rows: isize,
        columns: isize,
    }
    // SAFETY: it is read at places that do not overlap where anything is written.
    unsafe impl<T> Sync for Place<T> {}
    impl<T> Place<T> {
        fn of(matrix: &MatRef<'_, T>) -> Place<T> {
            let data = matrix.data.as_ptr().wrapping_offset(matrix.offset as isize);
            Place { data, batch: matrix.batch_stride, rows: matrix.row_stride, columns: matrix.col_stride }
        }
        fn at(&self, index: usize, row: usize, column: usize) -> *const T {
            self.data.wrapping_offset(index as isize * self.batch + row as isize * self.rows + column as isize * self.columns)
        }
    }
    static ONE_THREAD: Once = Once::new();
    #[cfg(any(feature = "openblas", feature = "mkl"))]
    fn set_one_thread() {
        unsafe extern "C" {
            #[cfg_attr(feature = "openblas", link_name = "openblas_set_num_threads")]
            #[cfg_attr(feature = "mkl", link_name = "MKL_Set_Num_Threads")]
            fn set_num_threads(count: std::ffi::c_int);
        }
        // SAFETY: the library's own function, which takes a number.
        unsafe { set_num_threads(1) }
    }
    /// Accelerate takes its threads from the system's own pool, which never runs more than there are cores.
    #[cfg(not(any(feature = "openblas", feature = "mkl")))]
    fn set_one_thread() {}
}
/// Tested whether a library is compiled in or not.
#[cfg(any(test, feature = "openblas", feature = "mkl", feature = "accelerate"))]
mod tiles {
    use std::ops::Range;

    /// How each product is cut for our threads: by rows of C or, where there are more of them, by columns. The library works on one
    /// thread in each: threads of its own beside ours would be more than there are cores.
    pub(super) struct BlasTiles {
        pub count: usize,
        by_rows: bool,
    }
    /// Multiplications below which a product is not cut.
    const WHOLE: usize = 1 << 18;
    impl BlasTiles {
        pub fn of(threads: usize, batch: usize, [m, n, k]: [usize; 3]) -> BlasTiles {
            let most = (m * n).saturating_mul(k) / WHOLE;
            let count = if batch >= threads { 1 } else { threads.div_ceil(batch.max(1)) };
            BlasTiles { count: count.min(most).min(m.max(n) / LEAST).max(1), by_rows: m >= n }
        }
        pub fn rows(&self, tile: usize, m: usize) -> Range<usize> {
            if self.by_rows { share(tile, self.count, m) } else { 0..m }
        }
        pub fn columns(&self, tile: usize, n: usize) -> Range<usize> {
            if self.by_rows { 0..n } else { share(tile, self.count, n) }
        }
    }
    /// The least rows or columns of a tile, and of what a tile has a multiple: the library's own tiles are at most as many.
    const LEAST: usize = 32;
    fn share(tile: usize, count: usize, all: usize) -> Range<usize> {
        let each = all.div_ceil(count).next_multiple_of(LEAST);
        (tile * each).min(all)..((tile + 1) * each).min(all)
    }
}

#[cfg(test)]
mod tests {
    use super::{tiles::BlasTiles, *};

    #[test]
    fn a_row_or_column_that_no_tile_or_two_tiles_have() {
        for threads in [1, 2, 3, 16] {
            for (batch, m, n) in [(1, 1000, 10), (1, 7, 3000), (2, 512, 512), (5, 64, 64), (1, 1, 1), (1, 33, 4000)] {
                let tiles = BlasTiles::of(threads, batch, [m, n, 1 << 14]);
                let mut seen = vec![0; m * n];
                for tile in 0..tiles.count {
                    for row in tiles.rows(tile, m) {
                        tiles.columns(tile, n).for_each(|column| seen[row * n + column] += 1);
                    }
                }
                assert!(seen.iter().all(|n| *n == 1), "{threads} threads, {m} x {n}: {} tiles", tiles.count);
            }
        }
    }
    #[test]
    fn a_word_gives_its_library_or_says_what_is_missing() {
        assert_eq!(Blas::parse("own"), Ok(Blas::Own));
        assert_eq!(Blas::parse(Blas::built_in().name()), Ok(Blas::built_in()));
        assert!(Blas::parse("atlas").unwrap_err().to_string().contains("openblas, mkl and accelerate"));
        let absent = if Blas::built_in() == Blas::Mkl { "openblas" } else { "mkl" };
        assert!(Blas::parse(absent).unwrap_err().to_string().contains("build with"));
    }
}
