//! Columns side by side, each of which is combined by the [`tree`](super::tree), as if it were a row. Must not know where
//! rows come from.
use super::tree::{BLOCK, CombineRule, LANES, ReducedElement, SEGMENT, TOGETHER};
use crate::{
    isa::Isa,
    scratch::{ScratchVec, filled},
    simd::{Simd, SimdKernel, dispatch},
};
use adamant_runtime::ErrorKind;
use std::marker::PhantomData;

/// What has been combined of each column so far.
pub(crate) struct ColumnTotals<T: ReducedElement> {
    width: usize,
    /// of the open block, lane by lane
    lanes: ScratchVec<T>,
    segments: ScratchVec<T::Wide>,
    totals: ScratchVec<T::Wide>,
    /// of the open segment
    blocks: usize,
    /// of the open block
    rows: usize,
}
impl<T: ReducedElement> ColumnTotals<T> {
    /// For no more than so many rows, of what changes nothing.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(identity: T, width: usize, rows: usize) -> Result<ColumnTotals<T>, ErrorKind> {
        let wide = || filled(identity.widen(), width);
        Ok(ColumnTotals { width, lanes: filled(identity, LANES.min(rows) * width)?, segments: wide()?, totals: wide()?, blocks: 0, rows: 0 })
    }
    /// Combines the next rows of the open block. One begins `stride` behind the one before it.
    pub fn add<C: CombineRule>(&mut self, isa: Isa, x: &[T], stride: usize) {
        dispatch(isa, AddRows::<T, C> { x, stride, row: self.rows, width: self.width, lanes: &mut self.lanes, mark: PhantomData });
        self.rows += x.len().div_ceil(stride);
    }
    /// Ends the open block, which may be a short one if it is the last.
    pub fn end_block<C: CombineRule>(&mut self, isa: Isa) {
        self.blocks += 1;
        dispatch(isa, EndBlock::<T, C> { columns: self, mark: PhantomData });
    }
    /// Ends the open segment, and with it all; the totals.
    pub fn end<C: CombineRule>(&mut self) -> &[T::Wide] {
        if std::mem::take(&mut self.blocks) > 0 {
            for (t, &s) in self.totals.iter_mut().zip(&self.segments) {
                *t = C::totals::<T>(*t, s);
            }
        }
        &self.totals
    }
}

/// Elements: how far behind those that are read now others are asked for, where rows are long; else the next row is.
const AHEAD: usize = 1024;
/// Combines rows with the lanes of their columns.
struct AddRows<'a, T, C> {
    x: &'a [T],
    stride: usize,
    row: usize,
    width: usize,
    lanes: &'a mut [T],
    mark: PhantomData<C>,
}
impl<T: ReducedElement, C: CombineRule> SimdKernel for AddRows<'_, T, C> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let AddRows { x, stride, row, width, lanes, .. } = self;
        let rows = x.len().div_ceil(stride);
        let ahead = if width > 2 * AHEAD { AHEAD } else { stride };
        for first in (0..rows).step_by(TOGETHER * LANES) {
            let end = rows.min(first + TOGETHER * LANES);
            for k in first..end.min(first + LANES) {
                // The last of the rows of this lane.
                let last = k + (end - 1 - k) / LANES * LANES;
                let x = &x[k * stride..x.len().min(last * stride + width)];
                let lane = (row + k) % LANES;
                T::add_rows::<S, C>(x, LANES * stride, ahead, &mut lanes[lane * width..][..width]);
            }
        }
    }
}
/// Folds the lanes and pushes the results.
struct EndBlock<'a, T: ReducedElement, C> {
    columns: &'a mut ColumnTotals<T>,
    mark: PhantomData<C>,
}
impl<T: ReducedElement, C: CombineRule> SimdKernel for EndBlock<'_, T, C> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let ColumnTotals { width, lanes, segments, totals, blocks, rows } = self.columns;
        let used = LANES.min(std::mem::take(rows));
        let lanes = &mut lanes[..used * *width];
        fold::<T, C>(lanes, *width);
        for (s, &l) in segments.iter_mut().zip(&lanes[..]) {
            *s = C::totals::<T>(*s, l.widen());
        }
        lanes.fill(C::identity::<T>());
        if *blocks == SEGMENT / BLOCK {
            for (t, s) in totals.iter_mut().zip(segments) {
                *t = C::totals::<T>(*t, *s);
                *s = C::identity::<T>().widen();
            }
            *blocks = 0;
        }
    }
}

/// Folds the lanes of `width` columns by halves, as the tree does those of a block. The results are in the first lane.
pub(crate) fn fold_columns<T: ReducedElement, C: CombineRule>(isa: Isa, lanes: &mut [T], width: usize) {
    dispatch(isa, FoldColumns::<T, C>(lanes, width, PhantomData));
}
struct FoldColumns<'a, T, C>(&'a mut [T], usize, PhantomData<C>);
impl<T: ReducedElement, C: CombineRule> SimdKernel for FoldColumns<'_, T, C> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        fold::<T, C>(self.0, self.1);
    }
}
/// Lanes at the end that nothing was combined with may be missing: they would change nothing.
#[inline(always)]
fn fold<T: ReducedElement, C: CombineRule>(lanes: &mut [T], width: usize) {
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(lanes.len().min(half * width));
        for (l, &h) in low.iter_mut().zip(&high[..high.len().min(half * width)]) {
            *l = C::lanes(*l, h);
        }
        half /= 2;
    }
}
