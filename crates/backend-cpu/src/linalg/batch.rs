//! Factorizations of matrices that lie one after the other, and what is made of each.
use super::{
    Crew,
    cholesky::cholesky,
    exponential::exponential,
    for_each,
    lu::{FactoredMatrix, lu, singular},
    product::{Onto, product, rows_of},
    reflect::{columns_of, reflections},
    singular::{SingularVectors, svd},
    small::{self, ABREAST, SMALL, abreast, one_by_one},
    symmetric::eigh,
    triangle::{Triangle, solve},
    vector::FactorElement,
};
use crate::{
    device::Runtime,
    gemm::{micro::Block, pack::MatrixView},
    scratch::{ScratchVec, collected, filled},
};
use adamant_runtime::ErrorKind;

/// A matrix whose norm times that of its inverse is less than this is far from singular.
const FAR: f64 = 1e6;
/// Frobenius' norm squared.
fn total<T: FactorElement>(a: &[T]) -> f64 {
    a.iter().map(|v| v.wide() * v.wide()).sum()
}

/// Rows and columns of the matrices, and how many there are.
pub(super) struct MatrixBatch<'a, T> {
    pub runtime: &'a Runtime,
    pub count: usize,
    pub m: usize,
    pub n: usize,
    pub a: &'a [T],
}
impl<T: FactorElement> MatrixBatch<'_, T> {
    fn matrix(&self, index: usize) -> &[T] {
        &self.a[index * self.m * self.n..][..self.m * self.n]
    }
    /// By columns.
    fn columns(&self, crew: Crew<'_>, index: usize) -> Result<ScratchVec<T>, ErrorKind> {
        let mut columns = filled(T::ZERO, self.m * self.n)?;
        T::context(crew.isa).transpose(self.matrix(index), self.n, &mut columns, self.m, self.m, self.n);
        Ok(columns)
    }
    /// About how many multiplications a matrix needs.
    fn work(&self) -> usize {
        self.m * self.n * self.m.min(self.n)
    }
    /// Are there enough small matrices to compute them beside each other?
    fn is_small(&self) -> bool {
        self.n <= SMALL && self.count >= ABREAST / 2
    }
    /// Runs `f` on each matrix.
    fn each<const N: usize>(
        &self,
        work: usize,
        outputs: [&mut [T]; N],
        f: impl Fn(Crew<'_>, usize, [&mut [T]; N]) -> Result<(), ErrorKind> + Sync,
    ) -> Result<(), ErrorKind> {
        for_each(self.runtime, self.count, 1, work, outputs, [], |crew, index, outputs, []: [&mut [i32]; 0]| f(crew, index, outputs))
    }
    /// Eliminates small matrices beside each other, with the rows of what `x` makes, and hands on lanes and signs.
    fn eliminated<const N: usize>(
        &self,
        work: usize,
        outputs: [&mut [T]; N],
        x: impl Fn(Crew<'_>, &[usize; 2]) -> Result<ScratchVec<T>, ErrorKind> + Sync,
        f: impl Fn(Crew<'_>, [&[T]; 2], &mut [T], [&mut [T]; N]) -> Result<(), ErrorKind> + Sync,
    ) -> Result<(), ErrorKind> {
        let (n, each) = (self.n, self.n * self.n);
        for_each(self.runtime, self.count, ABREAST, work, outputs, [], |crew, first, outputs, []: [&mut [i32]; 0]| {
            let last = self.count.min(first + ABREAST);
            let (mut a, mut x) = (abreast(crew, &self.a[first * each..last * each], each)?, x(crew, &[first, last])?);
            let signs = small::eliminate(crew, n, &mut a, &mut x);
            f(crew, [&a, &signs], &mut x, outputs)
        })
    }
    /// Factors each matrix and hands on what is told of it.
    fn factored<const N: usize>(&self, outputs: [&mut [T]; N], f: impl Fn(&FactoredMatrix<'_, T>, [&mut [T]; N]) + Sync) -> Result<(), ErrorKind> {
        let (rows, k) = (self.m, self.m.min(self.n));
        self.each(self.work() / 3, outputs, |crew, index, outputs| {
            let (mut factors, mut pivots) = (self.columns(crew, index)?, filled(0usize, k)?);
            lu(crew, rows, &mut factors, &mut pivots)?;
            f(&FactoredMatrix { rows, factors: &factors, pivots: &pivots }, outputs);
            Ok(())
        })
    }
    pub fn det(&self, out: &mut [T]) -> Result<(), ErrorKind> {
        if self.is_small() {
            let nothing = |_: Crew<'_>, _: &[usize; 2]| Ok(ScratchVec::default());
            return self.eliminated(self.work() / 3, [out], nothing, |_, [a, signs], _, [out]| {
                out.iter_mut().enumerate().for_each(|(lane, out)| *out = T::nearest(small::det(self.n, a, signs[lane], lane)));
                Ok(())
            });
        }
        self.factored([out], |told, [out]| out[0] = T::nearest(told.det()))
    }
    pub fn slogdet(&self, sign: &mut [T], log: &mut [T]) -> Result<(), ErrorKind> {
        self.factored([sign, log], |told, [sign, log]| {
            let (s, l) = told.slogdet();
            (sign[0], log[0]) = (T::nearest(s), T::nearest(l));
        })
    }
    /// Both factors, pivots from 1 on, the order of rows, and the first pivot that is zero, which is an error if it is `checked`.
    pub fn lu_factor(&self, checked: bool, both: &mut [T], pivots: &mut [i32], order: &mut [i64], info: &mut [i32]) -> Result<(), ErrorKind> {
        let (m, n) = (self.m, self.n);
        for_each(self.runtime, self.count, 1, self.work() / 3, [both], [&mut *pivots, info], |crew, index, [both], [changed, info]| {
            let (mut factors, mut pivots) = (self.columns(crew, index)?, filled(0usize, changed.len())?);
            lu(crew, m, &mut factors, &mut pivots)?;
            let at = FactoredMatrix { rows: m, factors: &factors, pivots: &pivots }.singular_at();
            if let (true, Some(at)) = (checked, at) {
                return Err(singular(at));
            }
            info[0] = at.map_or(0, |at| at as i32 + 1);
            changed.iter_mut().zip(&pivots).for_each(|(to, p)| *to = *p as i32 + 1);
            T::context(crew.isa).transpose(&factors, m, both, n, n, m);
            Ok(())
        })?;
        for (order, pivots) in order.chunks_exact_mut(m).zip(pivots.chunks_exact(m.min(n))) {
            order.iter_mut().enumerate().for_each(|(k, o)| *o = k as i64);
            pivots.iter().enumerate().for_each(|(k, &with)| order.swap(k, with as usize - 1));
        }
        Ok(())
    }
    /// a⁻¹ b, or the inverse. A singular matrix is an error, or, if its first pivot that is zero is asked for, gives NaN.
    pub fn solve(&self, b: Option<&[T]>, out: &mut [T], info: Option<&mut [i32]>) -> Result<(), ErrorKind> {
        let n = self.n;
        let columns = out.len() / self.count / n;
        let work = self.work() / 3 + n * n * columns;
        if self.is_small() && columns <= ABREAST && info.is_none() {
            return self.solve_small(columns, work, b, out);
        }
        let told = info.is_some();
        let mut nowhere = if told { ScratchVec::default() } else { filled(0i32, self.count)? };
        let info = info.unwrap_or(&mut nowhere);
        for_each(self.runtime, self.count, 1, work, [out], [info], |crew, index, [out], [info]| {
            let (mut factors, mut pivots) = (self.columns(crew, index)?, filled(0usize, n)?);
            lu(crew, n, &mut factors, &mut pivots)?;
            let of = FactoredMatrix { rows: n, factors: &factors, pivots: &pivots };
            let at = of.singular_at();
            info[0] = at.map_or(0, |at| at as i32 + 1);
            match (at, b) {
                (Some(at), _) if !told => return Err(singular(at)),
                (Some(_), _) => out.fill(T::nearest(f64::NAN)),
                (None, Some(b)) => of.solve(crew, columns, |row, from, x| x.copy_from_slice(&b[(index * n + row) * columns + from..][..x.len()]), out)?,
                (None, None) => of.invert(crew, out)?,
            }
            Ok(())
        })
    }
    fn solve_small(&self, columns: usize, work: usize, b: Option<&[T]>, out: &mut [T]) -> Result<(), ErrorKind> {
        let (n, each) = (self.n, self.n * columns);
        let right = |crew: Crew<'_>, [first, last]: &[usize; 2]| match b {
            Some(b) => abreast(crew, &b[first * each..last * each], each),
            None => {
                let mut x = filled(T::ZERO, each * ABREAST)?;
                (0..n).for_each(|k| x[(k * n + k) * ABREAST..][..ABREAST].fill(T::ONE));
                Ok(x)
            }
        };
        self.eliminated(work, [out], right, |crew, [a, _], x, [out]| {
            small::regular(n, a, out.len() / each)?;
            for of in [Triangle { upper: false, unit: true }, Triangle { upper: true, unit: false }] {
                small::substitute(crew, of, n, a, x);
            }
            one_by_one(crew, x, out);
            Ok(())
        })
    }
    pub fn triangular(&self, of: Triangle, b: &[T], out: &mut [T]) -> Result<(), ErrorKind> {
        let n = self.n;
        let columns = out.len() / self.count / n;
        self.each(n * n * columns / 2, [out], |crew, index, [out]| {
            let a = MatrixView { data: self.a, base: (index * n * n) as isize, row_stride: n as isize, column_stride: 1 };
            let right = |i: usize, from: usize, x: &mut [T]| x.copy_from_slice(&b[(index * n + i) * columns + from..][..x.len()]);
            solve(crew, n, a, &[of], columns, right, out)
        })
    }
    /// The lower factor. A matrix that is not positive definite is an error, or, if the order of its first minor that is not positive
    /// is asked for, gives NaN.
    pub fn cholesky(&self, out: &mut [T], info: Option<&mut [i32]>) -> Result<(), ErrorKind> {
        let n = self.n;
        let bad = |order: usize| ErrorKind::Domain(format!("the matrix is not positive definite: its leading minor of order {order} is not positive"));
        if self.is_small() && info.is_none() {
            let each = n * n;
            return for_each(self.runtime, self.count, ABREAST, self.work() / 6, [out], [], |crew, first, [out], []: [&mut [i32]; 0]| {
                let mut a = abreast(crew, &self.a[first * each..][..out.len()], each)?;
                let orders = small::cholesky(crew, n, &mut a);
                if let Some(&order) = orders[..out.len() / each].iter().find(|o| **o > 0) {
                    return Err(bad(order));
                }
                one_by_one(crew, &a, out);
                Ok(())
            });
        }
        let told = info.is_some();
        let mut nowhere = if told { ScratchVec::default() } else { filled(0i32, self.count)? };
        let info = info.unwrap_or(&mut nowhere);
        for_each(self.runtime, self.count, 1, self.work() / 6, [out], [info], |crew, index, [out], [info]| {
            out.copy_from_slice(self.matrix(index));
            info[0] = 0;
            if let Err(order) = cholesky(crew, n, out)? {
                if !told {
                    return Err(bad(order));
                }
                info[0] = order as i32;
                out.fill(T::nearest(f64::NAN));
                return Ok(());
            }
            for (i, row) in out.chunks_exact_mut(n).enumerate() {
                row[i + 1..].fill(T::ZERO);
            }
            Ok(())
        })
    }
    /// R with the reflections' vectors below, and their factors.
    pub fn reflections(&self, packed: &mut [T], taus: &mut [T]) -> Result<(), ErrorKind> {
        let (m, n) = (self.m, self.n);
        self.each(2 * self.work(), [packed, taus], |crew, index, [packed, taus]| {
            let mut lines = self.columns(crew, index)?;
            reflections(crew, m, &mut lines, taus)?;
            T::context(crew.isa).transpose(&lines, m, packed, n, n, m);
            Ok(())
        })
    }
    pub fn qr(&self, q: &mut [T], r: &mut [T]) -> Result<(), ErrorKind> {
        let (m, n) = (self.m, self.n);
        let k = m.min(n);
        self.each(2 * self.work(), [q, r], |crew, index, [q, r]| {
            let context = T::context(crew.isa);
            let (mut packed, mut taus) = (self.columns(crew, index)?, filled(T::ZERO, k)?);
            reflections(crew, m, &mut packed, &mut taus)?;
            context.transpose(&packed, m, r, n, n, k);
            for (i, row) in r.chunks_exact_mut(n).enumerate() {
                row[..i].fill(T::ZERO);
            }
            let mut columns = filled(T::ZERO, m * k)?;
            columns_of(crew, m, &packed, 0, &taus, &mut columns)?;
            context.transpose(&columns, m, q, k, k, m);
            Ok(())
        })
    }
    pub fn eigh(&self, values: &mut [T], vectors: &mut [T]) -> Result<(), ErrorKind> {
        let n = self.n;
        self.each(4 * self.work(), [values, vectors], |crew, index, [values, vectors]| {
            if let Some(rows) = eigh(crew, n, self.matrix(index), values, true)? {
                T::context(crew.isa).transpose(&rows, n, vectors, n, n, n);
            }
            Ok(())
        })
    }
    pub fn eigenvalues(&self, values: &mut [T]) -> Result<(), ErrorKind> {
        self.each(self.work(), [values], |crew, index, [values]| eigh(crew, self.n, self.matrix(index), values, false).map(|_| ()))
    }
    pub fn svd(&self, u: &mut [T], s: &mut [T], vt: &mut [T]) -> Result<(), ErrorKind> {
        let (m, n) = (self.m, self.n);
        let k = m.min(n);
        self.each(8 * self.work(), [u, s, vt], |crew, index, [u, s, vt]| {
            if let Some(SingularVectors { left, right }) = svd(crew, n, self.matrix(index), s, true)? {
                T::context(crew.isa).transpose(&left, m, u, k, k, m);
                vt.copy_from_slice(&right);
            }
            Ok(())
        })
    }
    pub fn singular_values(&self, values: &mut [T]) -> Result<(), ErrorKind> {
        self.each(2 * self.work(), [values], |crew, index, [values]| svd(crew, self.n, self.matrix(index), values, false).map(|_| ()))
    }
    pub fn pinv(&self, rtol: f64, out: &mut [T]) -> Result<(), ErrorKind> {
        let (m, n) = (self.m, self.n);
        let k = m.min(n);
        self.each(8 * self.work(), [out], |crew, index, [out]| {
            let mut values = filled(T::ZERO, k)?;
            let Some(SingularVectors { left, mut right }) = svd(crew, n, self.matrix(index), &mut values, true)? else { return Ok(()) };
            let cutoff = rtol * values[0].wide();
            for (row, value) in right.chunks_exact_mut(n).zip(&values) {
                let inverse = if value.wide() > cutoff { T::nearest(1.0 / value.wide()) } else { T::ZERO };
                row.iter_mut().for_each(|v| *v = *v * inverse);
            }
            let share = crew.share(n, k * m, 8);
            crew.for_lines(out, m, share, |first, out| {
                let count = out.len() / m;
                let scaled = MatrixView { data: &right[..], base: first as isize, row_stride: 1, column_stride: n as isize };
                product(crew.isa, Block::new(out, count, m, m), k, scaled, rows_of(&left, 0, m), Onto::Nothing)
            })
        })
    }
    /// `det(a) a⁻ᵀ`, which exists for singular matrices too.
    pub fn cofactors(&self, out: &mut [T]) -> Result<(), ErrorKind> {
        let n = self.n;
        self.each(10 * self.work(), [out], |crew, index, [out]| {
            let (mut factors, mut pivots) = (self.columns(crew, index)?, filled(0usize, n)?);
            lu(crew, n, &mut factors, &mut pivots)?;
            let told = FactoredMatrix { rows: n, factors: &factors, pivots: &pivots };
            if told.singular_at().is_none() {
                let mut inverse = filled(T::ZERO, n * n)?;
                told.invert(crew, &mut inverse)?;
                let det = told.det();
                // Of a matrix that is far from singular this is the shorter way, and as exact.
                if det.is_normal() && total(self.matrix(index)) * total(&inverse) < FAR {
                    T::context(crew.isa).transpose(&inverse, n, out, n, n, n);
                    out.iter_mut().for_each(|v| *v = T::nearest(v.wide() * det));
                    return Ok(());
                }
            }
            let mut values = filled(T::ZERO, n)?;
            let Some(SingularVectors { mut left, right }) = svd(crew, n, self.matrix(index), &mut values, true)? else { return Ok(()) };
            let mut sign = 1.0f64;
            for vectors in [&left, &right] {
                let (mut factors, mut pivots) = (collected(n * n, vectors.iter().copied())?, filled(0usize, n)?);
                lu(crew, n, &mut factors, &mut pivots)?;
                sign *= FactoredMatrix { rows: n, factors: &factors, pivots: &pivots }.slogdet().0;
            }
            for (i, row) in left.chunks_exact_mut(n).enumerate() {
                let others = values.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, v)| v.wide());
                let factor = T::nearest(sign * others.product::<f64>());
                row.iter_mut().for_each(|v| *v = *v * factor);
            }
            let share = crew.share(n, n * n, 8);
            crew.for_lines(out, n, share, |first, out| {
                let scaled = MatrixView { data: &left[..], base: first as isize, row_stride: 1, column_stride: n as isize };
                product(crew.isa, Block::new(out, out.len() / n, n, n), n, scaled, rows_of(&right, 0, n), Onto::Nothing)
            })
        })
    }
    pub fn exponential(&self, out: &mut [T]) -> Result<(), ErrorKind> {
        self.each(8 * self.work(), [out], |crew, index, [out]| exponential(crew, self.n, self.matrix(index), out))
    }
}
