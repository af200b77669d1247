//! Cholesky's factor of a matrix stored by rows: a block of the diagonal is factored by one thread, the rows below it are solved
//! for, and their products are taken from what is left of the triangle, both shared out by rows.
use super::{
    Crew,
    product::{Onto, product, rows_of},
    triangle::{Substitute, Triangle, WIDE},
    vector::FactorElement,
};
use crate::{
    gemm::{micro::Block, pack::MatrixView},
    scratch::filled,
    simd::{Arithmetic, Float, Simd, SimdKernel, dispatch},
};
use adamant_runtime::ErrorKind;

/// Rows of a block of the diagonal.
const BLOCK: usize = 64;

/// The lower factor in place of a symmetric matrix of n rows, whose lower triangle is read; or the order of the leading minor that is
/// not positive. What is above the diagonal is left as it is.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn cholesky<T: FactorElement>(crew: Crew<'_>, n: usize, a: &mut [T]) -> Result<Result<(), usize>, ErrorKind> {
    let context = T::context(crew.isa);
    for from in (0..n).step_by(BLOCK) {
        let to = n.min(from + BLOCK);
        let (width, below) = (to - from, n - to);
        // The factor's transpose: its rows are columns of the factor.
        let mut upper = filled(T::ZERO, width * width)?;
        context.transpose(&a[from * n + from..], n, &mut upper, width, width, width);
        if let Some(at) = dispatch(crew.isa, DiagonalBlock { n: width, upper: &mut upper }) {
            return Ok(Err(from + at + 1));
        }
        for i in 0..width {
            for j in 0..=i {
                a[(from + i) * n + from + j] = upper[j * width + i];
            }
        }
        let rest = &mut a[to * n..];
        let share = crew.share(below, width * width, WIDE);
        crew.for_lines(rest, n, share, |_, rows| {
            let count = rows.len() / n;
            let wide = count.next_multiple_of(WIDE);
            let mut x = filled(T::ZERO, width * wide)?;
            context.transpose(&rows[from..], n, &mut x, wide, count, width);
            let of = Triangle { upper: false, unit: false };
            dispatch(crew.isa, Substitute { of, a: &upper, steps: [1, width], x: &mut x, width: wide });
            context.transpose(&x, wide, &mut rows[from..], n, width, count);
            Ok(())
        })?;
        if below == 0 {
            break;
        }
        let mut panel = filled(T::ZERO, width * below)?;
        context.transpose(&rest[from..], n, &mut panel, below, below, width);
        // Rows further down are longer: more shares than threads, so that these come out even.
        let share = crew.share(below, below * width / 2, 4 * WIDE);
        crew.for_lines(rest, n, share, |first, rows| {
            let count = rows.len() / n;
            let left = MatrixView { data: &panel[..], base: first as isize, row_stride: 1, column_stride: below as isize };
            let c = Block::new(&mut rows[to..], count, first + count, n);
            product(crew.isa, c, width, left, rows_of(&panel, 0, below), Onto::Minus)
        })?;
    }
    Ok(Ok(()))
}
/// The upper factor in place of the upper triangle of a small matrix; or the place of the first square that is not positive.
struct DiagonalBlock<'a, T> {
    n: usize,
    upper: &'a mut [T],
}
impl<T: FactorElement> SimdKernel for DiagonalBlock<'_, T> {
    type Output = Option<usize>;
    #[inline(always)]
    fn run<S: Simd>(self) -> Option<usize> {
        let DiagonalBlock { n, upper } = self;
        let lanes = <T::V<S> as Float>::LANES;
        for i in 0..n {
            let (above, own) = upper.split_at_mut(i * n);
            let own = &mut own[i..n];
            let mut at = 0;
            while at < own.len() {
                let count = lanes.min(own.len() - at);
                let mut sum = T::V::<S>::from_partial(&own[at..at + count]);
                for p in 0..i {
                    let row = &above[p * n + i..(p + 1) * n];
                    sum = T::V::<S>::splat(-row[0]).mul_add(T::V::<S>::from_partial(&row[at..at + count]), sum);
                }
                sum.write_partial(&mut own[at..at + count]);
                at += count;
            }
            let square = own[0];
            // NaN is not positive either.
            if square.partial_cmp(&T::ZERO) != Some(std::cmp::Ordering::Greater) {
                return Some(i);
            }
            let root = square.root();
            own[0] = root;
            for v in &mut own[1..] {
                *v = *v / root;
            }
        }
        None
    }
}
