//! Rows whose elements lie apart, and that lie side by side themselves: lines of one element of each row go in vectors, each row by the
//! operations and the tree of a row by itself. Must not know what is made of the rows.
use super::rows::{StoredElement, Summed, map, update};
use crate::{
    isa::Isa,
    map::loops::Real,
    math::elementary::{exp, log},
    reduce::{
        columns::ColumnTotals,
        tree::{BLOCK, ReducedElement, Sum},
    },
    scratch::{ScratchVec, filled},
    simd::{Arithmetic, Float, Simd, SimdKernel, dispatch},
};
use adamant_runtime::ErrorKind;

/// Fewer rows are not worth it.
pub(super) const LEAST: usize = 32;
/// Rows of `n` elements that go together: their numbers stay in the L2 cache.
pub(super) fn width(n: usize) -> usize {
    (64 * 1024 / n.max(1) / 16 * 16).clamp(32, 256)
}

/// The elements of `n` rows that lie side by side: line i begins at `i * step`.
#[derive(Clone, Copy)]
pub(super) struct SideBySide<'a, M> {
    pub x: &'a [M],
    pub step: usize,
    pub n: usize,
    pub width: usize,
}
impl<'a, M: StoredElement> SideBySide<'a, M> {
    /// One element of each row.
    pub fn line<'s>(&self, isa: Isa, i: usize, scratch: &'s mut [M::Real]) -> &'s [M::Real]
    where
        'a: 's,
    {
        M::read(isa, &self.x[i * self.step..][..self.width], scratch)
    }
    /// The largest of each row; a NaN counts as nothing.
    pub fn largest(&self, isa: Isa, scratch: &mut [M::Real], largest: &mut [M::Real]) {
        largest.fill(M::Real::LOWEST);
        (0..self.n).for_each(|i| dispatch(isa, LargestOfLines { x: self.line(isa, i, scratch), largest: &mut *largest }));
    }
    /// The sums over each row of what `term` gives for its lines, into `sums`; if `keeps`, `kept` then has all terms, else there is space for
    /// those of a block.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn sums(
        &self,
        isa: Isa,
        keeps: bool,
        kept: &mut [M::Real],
        sums: &mut [M::Real],
        mut term: impl FnMut(usize, &mut [M::Real]),
    ) -> Result<(), ErrorKind> {
        let mut totals = ColumnTotals::new(M::Real::ZERO, self.width, self.n)?;
        for block in (0..self.n).step_by(BLOCK) {
            let count = BLOCK.min(self.n - block);
            let terms = &mut kept[if keeps { block * self.width } else { 0 }..][..count * self.width];
            terms.chunks_exact_mut(self.width).enumerate().for_each(|(i, line)| term(block + i, line));
            totals.add::<Sum>(isa, terms, self.width);
            totals.end_block::<Sum>(isa);
        }
        sums.iter_mut().zip(totals.end::<Sum>()).for_each(|(to, &total)| *to = M::Real::nearest(total));
        Ok(())
    }
    /// Space for the terms of all lines, or of a block of them.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn terms(&self, keeps: bool) -> Result<ScratchVec<M::Real>, ErrorKind> {
        filled(M::Real::ZERO, if keeps { self.n } else { self.n.min(BLOCK) } * self.width)
    }
}

struct LargestOfLines<'a, T> {
    x: &'a [T],
    largest: &'a mut [T],
}
impl<T: Summed> SimdKernel for LargestOfLines<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        update::<S, T, 1>(
            self.largest,
            [self.x],
            #[inline(always)]
            |largest, [x]| x.max(largest),
        );
    }
}
/// `out` is a function of lines, element by element.
pub(super) struct OfLines<'a, T, const K: usize> {
    pub f: LineFunction,
    pub x: [&'a [T]; K],
    pub out: &'a mut [T],
}
/// What is made of elements of lines: a, b, c.
#[derive(Clone, Copy)]
pub(super) enum LineFunction {
    /// e^(a - b)
    Exponential,
    /// e^-a
    Share,
    /// a b c
    Product,
    /// a b
    Term,
    /// the logarithm of a
    Logarithm,
    /// a / b
    Quotient,
    /// a - b - c
    Difference,
    /// a (b - c)
    Softmax,
    /// a - e^(b - c - d) f
    LogSoftmax,
}
impl<T: Summed, const K: usize> SimdKernel for OfLines<'_, T, K> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let OfLines { f, x, out } = self;
        macro_rules! of {
            ($x:ident => $value:expr) => {
                map::<S, T, K>(
                    out,
                    x,
                    #[inline(always)]
                    |$x| $value,
                )
            };
        }
        let at = |k: usize| k.min(K - 1);
        let [b, c, d, e] = [at(1), at(2), at(3), at(4)];
        let minus = T::V::<S>::splat(-T::ONE);
        match f {
            LineFunction::Exponential => of!(x => exp(x[0].sub(x[b]))),
            LineFunction::Share => of!(x => exp(minus.mul(x[0]))),
            LineFunction::Product => of!(x => x[0].mul(x[b]).mul(x[c])),
            LineFunction::Term => of!(x => x[0].mul(x[b])),
            LineFunction::Logarithm => of!(x => log(x[0])),
            LineFunction::Quotient => of!(x => x[0].div(x[b])),
            LineFunction::Difference => of!(x => x[0].sub(x[b]).sub(x[c])),
            LineFunction::Softmax => of!(x => x[0].mul(x[b].sub(x[c]))),
            LineFunction::LogSoftmax => of!(x => x[0].sub(exp(x[b].sub(x[c]).sub(x[d])).mul(x[e]))),
        }
    }
}
