//! Rows of classes that lie apart, as the pixels of pictures do: those side by side in memory go in vectors, each by the operations and
//! the tree of a row by itself.
use super::{
    super::{
        rows::StoredElement,
        side_by_side::{LEAST, LineFunction, OfLines, SideBySide, width},
    },
    LabelledRows, TargetClass,
};
use crate::{
    isa::Isa,
    operand::internal,
    reduce::tree::ReducedElement,
    scratch::{filled, list},
    simd::dispatch,
};
use adamant_runtime::ErrorKind;

/// Do the rows lie so?
pub(super) fn are(rows: &LabelledRows) -> bool {
    rows.inner >= LEAST && rows.classes > 0
}
/// Rows that go together, and where what is found of them goes.
pub(super) struct RowStrip<'o, M: StoredElement> {
    /// the number of the first
    first: usize,
    largest: &'o mut [M::Real],
    log_sums: &'o mut [M::Real],
    /// their elements of each class, if a gradient is asked for
    gradient: Vec<&'o mut [M]>,
}
/// All rows, in strips.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn strips<'o, M: StoredElement>(
    rows: &LabelledRows,
    largest: &'o mut [M::Real],
    log_sums: &'o mut [M::Real],
    gradient: Option<&'o mut [M]>,
) -> Result<Vec<RowStrip<'o, M>>, ErrorKind> {
    let (n, inner, width) = (rows.classes, rows.inner, width(rows.classes));
    let mut all = list(rows.count().div_ceil(inner) * inner.div_ceil(width))?;
    let mut blocks = gradient.map(|gradient| gradient.chunks_mut(n * inner));
    for (o, (largest, log_sums)) in largest.chunks_mut(inner).zip(log_sums.chunks_mut(inner)).enumerate() {
        let start = all.len();
        for (k, (largest, log_sums)) in largest.chunks_mut(width).zip(log_sums.chunks_mut(width)).enumerate() {
            all.push(RowStrip { first: o * inner + k * width, largest, log_sums, gradient: list(if blocks.is_some() { n } else { 0 })? });
        }
        for line in blocks.as_mut().and_then(Iterator::next).unwrap_or_default().chunks_mut(inner) {
            line.chunks_mut(width).zip(&mut all[start..]).for_each(|(part, strip)| strip.gradient.push(part));
        }
    }
    Ok(all)
}
impl<M: StoredElement> RowStrip<'_, M> {
    /// The largest and the logarithm of the sum of each row, unless they are `known`, and then its gradient, if asked for, by the factor of
    /// the row.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn run(self, isa: Isa, rows: &LabelledRows, x: &[M], known: bool, factor: impl Fn(usize) -> M::Real) -> Result<(), ErrorKind> {
        let RowStrip { first, largest, log_sums, mut gradient } = self;
        let (n, inner, width, zero) = (rows.classes, rows.inner, largest.len(), M::Real::ZERO);
        let (o, j) = (first / inner, first % inner);
        let x = SideBySide { x: &x[o * n * inner + j..], step: inner, n, width };
        let mut scratch = M::scratch_vec(width)?;
        let whole = !gradient.is_empty();
        let mut e = x.terms(whole)?;
        if !known {
            x.largest(isa, &mut scratch, largest);
        }
        let mut exponentials = |c: usize, out: &mut [M::Real]| {
            dispatch(isa, OfLines { f: LineFunction::Exponential, x: [x.line(isa, c, &mut scratch), &*largest], out });
        };
        if known {
            e.chunks_exact_mut(width).enumerate().for_each(|(c, e)| exponentials(c, e));
        } else {
            let mut sums = filled(zero, width)?;
            x.sums(isa, whole, &mut e, &mut sums, exponentials)?;
            dispatch(isa, OfLines { f: LineFunction::Logarithm, x: [&sums], out: &mut *log_sums });
        }
        if whole {
            if gradient.len() != n {
                return Err(internal("a gradient of other classes"));
            }
            let (mut share, mut factors) = (filled(zero, width)?, filled(zero, width)?);
            dispatch(isa, OfLines { f: LineFunction::Share, x: [&*log_sums], out: &mut share });
            let is_bad = |j: usize| matches!(rows.class(first + j), TargetClass::Bad(_));
            share.iter_mut().enumerate().filter(|(j, _)| is_bad(*j)).for_each(|(_, share)| *share = *share * zero);
            factors.iter_mut().enumerate().for_each(|(j, to)| *to = factor(first + j));
            for (e, out) in e.chunks_exact(width).zip(&mut gradient) {
                M::write(isa, out, &mut scratch, |out| dispatch(isa, OfLines { f: LineFunction::Product, x: [e, &share, &factors], out }));
            }
            for j in 0..width {
                if let TargetClass::At(class) = rows.class(first + j) {
                    let v = (e[class * width + j] * share[j] - M::Real::ONE) * factors[j];
                    M::write(isa, &mut gradient[class][j..j + 1], &mut [zero], |out| out[0] = v);
                }
            }
        }
        for j in (0..width).filter(|&j| rows.class(first + j) == TargetClass::Ignored) {
            if !known {
                (largest[j], log_sums[j]) = (zero, zero);
            }
            gradient.iter_mut().for_each(|line| line[j] = M::zeroed());
        }
        Ok(())
    }
}
