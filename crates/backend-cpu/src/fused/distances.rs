//! Distances of all pairs of rows. A panel of rows of the second operand is transposed, so that a vector holds one feature of many
//! rows; a few rows of the first go along a panel at a time, with their sums in registers. A sum goes through the features in
//! order, in runs of [`RUN`], so that its bits depend on its two rows alone.
use super::{known, rows::Summed};
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    isa::Isa,
    operand::internal,
    scratch::{KeptElement, filled},
    simd::{Float, Mask, Simd, SimdKernel, dispatch},
};
use adamant_runtime::{Composite, DType, ErrorKind, composite::distances::Distances, kernel::FaultWord};

pub(super) struct DistancesKernel;
/// Rows of the second operand in a panel: one vector of 16 lanes, two of 8, and so on.
const PANEL: usize = 16;
/// Rows of the first operand that go along a panel together.
const TOGETHER: usize = 4;
/// Features whose terms are summed before the sum goes to the total.
const RUN: usize = 128;
/// Rows of the first operand in a task.
const TASK: usize = 16;

/// The orders with a kernel; the others have the body.
#[derive(Clone, Copy, PartialEq)]
enum KernelOrder {
    NonZero,
    One,
    Two,
    Largest,
}
impl KernelOrder {
    fn of(ord: f64) -> Option<KernelOrder> {
        [(0.0, KernelOrder::NonZero), (1.0, KernelOrder::One), (2.0, KernelOrder::Two), (f64::INFINITY, KernelOrder::Largest)]
            .into_iter()
            .find(|(o, _)| *o == ord)
            .map(|(_, o)| o)
    }
}
impl CpuKernel for DistancesKernel {
    fn supports(&self, composite: &dyn Composite, dtypes: &[DType]) -> bool {
        known::<Distances>(composite).is_some_and(|d| KernelOrder::of(d.ord).is_some())
            && (dtypes.iter().all(|d| *d == DType::F32) || dtypes.iter().all(|d| *d == DType::F64))
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let distances = known::<Distances>(composite).ok_or_else(|| internal("distances of another make"))?;
        if operands.inputs.first().ok_or_else(|| internal("distances of nothing"))?.dtype == DType::F64 {
            all_pairs::<f64>(distances, operands, runtime)
        } else {
            all_pairs::<f32>(distances, operands, runtime)
        }
    }
}
/// What distances are of.
trait DistanceElement: Summed + KeptElement + bytemuck::Pod + Send + Sync {
    /// Sums of squares from here on are right if they are finite: what a smaller square lost is nothing beside them.
    const LEAST_SUM: f64;
}
impl DistanceElement for f32 {
    const LEAST_SUM: f64 = 1.0 / (1u128 << 100) as f64;
}
impl DistanceElement for f64 {
    const LEAST_SUM: f64 = 1e-280;
}
fn all_pairs<T: DistanceElement>(distances: &Distances, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime) -> Result<(), ErrorKind> {
    let order = KernelOrder::of(distances.ord).ok_or_else(|| internal("distances of an order without a kernel"))?;
    // Those among the rows of one operand are those of each row to the ones behind it.
    let among = distances.among;
    let (a, b) = (operands.shape(0)?, operands.shape(if among { 0 } else { 1 })?);
    let (x, y): (&[T], &[T]) = (operands.input(0)?, operands.input(if among { 0 } else { 1 })?);
    let (rows, others, features) = (a[a.rank() - 2], b[b.rank() - 2], a[a.rank() - 1]);
    let out: &mut [T] = operands.output(0)?;
    if out.is_empty() {
        return Ok(());
    }
    let (isa, each) = (runtime.isa, if among { rows * (rows - 1) / 2 } else { rows * others });
    let panels = others.div_ceil(PANEL);
    let mut transposed = filled(T::ZERO, panels * PANEL * features)?;
    for (batch, out) in out.chunks_exact_mut(each).enumerate() {
        let (x, y) = (&x[batch * rows * features..][..rows * features], &y[batch * others * features..][..others * features]);
        if features > 0 {
            runtime.threads.for_chunks_mut(&mut transposed, PANEL * features, |panel, transposed| turn(y, features, panel * PANEL, transposed));
        }
        let mut rest = out;
        let tasks = (0..rows).step_by(TASK).map_while(|first| {
            let count = TASK.min(rows - first);
            let len = (first..first + count).map(|i| if among { rows - 1 - i } else { others }).sum();
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(len);
            rest = behind;
            Some((first, count, part))
        });
        runtime.threads.for_parts(tasks, |_, (first, count, out)| {
            let rows = RowsOfPairs { isa, features, first, among, x: &x[first * features..][..count * features], y, transposed: &transposed, out };
            rows.measure(order);
        });
    }
    Ok(())
}
/// A panel of rows from `first` on: element k of all of them, then element k + 1. What is behind the last row stays.
fn turn<T: Copy>(y: &[T], features: usize, first: usize, transposed: &mut [T]) {
    for (r, row) in y.chunks_exact(features).skip(first).take(PANEL).enumerate() {
        for (v, to) in row.iter().zip(transposed[r..].iter_mut().step_by(PANEL)) {
            *to = *v;
        }
    }
}
/// The distances of a few rows to all others, or to those behind them.
struct RowsOfPairs<'a, T> {
    isa: Isa,
    features: usize,
    /// the number of the first row
    first: usize,
    among: bool,
    x: &'a [T],
    y: &'a [T],
    transposed: &'a [T],
    /// row by row
    out: &'a mut [T],
}
impl<T: DistanceElement> RowsOfPairs<'_, T> {
    fn measure(self, order: KernelOrder) {
        match order {
            KernelOrder::NonZero => dispatch(self.isa, Panels::<T, CountOfNonZero>(self, std::marker::PhantomData)),
            KernelOrder::One => dispatch(self.isa, Panels::<T, SumOfMagnitudes>(self, std::marker::PhantomData)),
            KernelOrder::Two => dispatch(self.isa, Panels::<T, RootOfSquares>(self, std::marker::PhantomData)),
            KernelOrder::Largest => dispatch(self.isa, Panels::<T, LargestMagnitude>(self, std::marker::PhantomData)),
        }
    }
}
/// How differences make a distance.
trait PairNorm {
    /// The total so far with one more difference.
    fn step<V: Float>(total: V, difference: V) -> V;
    /// Two totals together.
    fn join<V: Float>(a: V, b: V) -> V;
    /// The distance, and where it is not to be trusted.
    fn finish<T: DistanceElement, V: Float<Elem = T>>(total: V) -> (V, Option<V::Mask>);
}
struct CountOfNonZero;
struct SumOfMagnitudes;
struct RootOfSquares;
struct LargestMagnitude;
impl PairNorm for CountOfNonZero {
    #[inline(always)]
    fn step<V: Float>(total: V, difference: V) -> V {
        total.add(V::select(difference.eq(V::constant(0.0)), V::constant(0.0), V::constant(1.0)))
    }
    #[inline(always)]
    fn join<V: Float>(a: V, b: V) -> V {
        a.add(b)
    }
    #[inline(always)]
    fn finish<T: DistanceElement, V: Float<Elem = T>>(total: V) -> (V, Option<V::Mask>) {
        (total, None)
    }
}
impl PairNorm for SumOfMagnitudes {
    #[inline(always)]
    fn step<V: Float>(total: V, difference: V) -> V {
        total.add(difference.abs())
    }
    #[inline(always)]
    fn join<V: Float>(a: V, b: V) -> V {
        a.add(b)
    }
    #[inline(always)]
    fn finish<T: DistanceElement, V: Float<Elem = T>>(total: V) -> (V, Option<V::Mask>) {
        (total, None)
    }
}
impl PairNorm for RootOfSquares {
    #[inline(always)]
    fn step<V: Float>(total: V, difference: V) -> V {
        difference.mul_add(difference, total)
    }
    #[inline(always)]
    fn join<V: Float>(a: V, b: V) -> V {
        a.add(b)
    }
    #[inline(always)]
    fn finish<T: DistanceElement, V: Float<Elem = T>>(total: V) -> (V, Option<V::Mask>) {
        let sound = V::constant(T::LEAST_SUM).le(total).and(total.lt(V::constant(f64::INFINITY)));
        (total.sqrt(), Some(sound.not()))
    }
}
impl PairNorm for LargestMagnitude {
    #[inline(always)]
    fn step<V: Float>(total: V, difference: V) -> V {
        Self::join(total, difference.abs())
    }
    /// NaN is larger than all.
    #[inline(always)]
    fn join<V: Float>(a: V, b: V) -> V {
        V::select(b.le(a).or(a.is_nan()), a, b)
    }
    #[inline(always)]
    fn finish<T: DistanceElement, V: Float<Elem = T>>(total: V) -> (V, Option<V::Mask>) {
        (total, None)
    }
}
struct Panels<'a, T, N>(RowsOfPairs<'a, T>, std::marker::PhantomData<N>);
impl<T: DistanceElement, N: PairNorm> SimdKernel for Panels<'_, T, N> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let RowsOfPairs { features, first, among, x, y, transposed, out, .. } = self.0;
        let (count, others) = (x.len() / features.max(1), y.len() / features.max(1));
        if features == 0 {
            return out.fill(T::ZERO);
        }
        // Where the distances of each row begin, and to which row the first of them is.
        let mut starts = [(0, 0); TASK + 1];
        for i in 0..count {
            let from = if among { first + i + 1 } else { 0 };
            starts[i].1 = from;
            starts[i + 1].0 = starts[i].0 + others - from;
        }
        for (panel, transposed) in transposed.chunks_exact(PANEL * features).enumerate() {
            let (low, high) = (panel * PANEL, others.min((panel + 1) * PANEL));
            for i in (0..count).step_by(TOGETHER) {
                let some = TOGETHER.min(count - i);
                if high <= starts[i].1 {
                    continue;
                }
                // What is missing is the last row again.
                let mut together: [&[T]; TOGETHER] = [&[]; TOGETHER];
                for (r, row) in together.iter_mut().enumerate() {
                    *row = &x[(i + r.min(some - 1)) * features..][..features];
                }
                let (tile, doubtful) = tile::<T, T::V<S>, N>(together, transposed);
                for r in 0..some {
                    let (start, from) = starts[i + r];
                    let skipped = from.saturating_sub(low).min(high - low);
                    if skipped == high - low {
                        continue;
                    }
                    let place = start + low + skipped - from;
                    let out = &mut out[place..][..high - low - skipped];
                    out.copy_from_slice(&tile[r][skipped..high - low]);
                    if doubtful[r] {
                        for (o, y) in out.iter_mut().zip(y[(low + skipped) * features..].chunks_exact(features)) {
                            *o = exact(together[r], y, *o);
                        }
                    }
                }
            }
        }
    }
}
/// The distances of a few rows to those of a panel, and of which rows some are not to be trusted.
#[inline(always)]
fn tile<T: DistanceElement, V: Float<Elem = T>, N: PairNorm>(rows: [&[T]; TOGETHER], transposed: &[T]) -> ([[T; PANEL]; TOGETHER], [bool; TOGETHER]) {
    let zero = V::group(V::constant(0.0));
    let mut totals = [zero; TOGETHER];
    for (run, panel) in transposed.chunks(RUN * PANEL).enumerate() {
        let mut sums = [zero; TOGETHER];
        let len = panel.len() / PANEL;
        let mut part = rows;
        for row in &mut part {
            *row = &row[run * RUN..][..len];
        }
        let (pairs, last) = panel.as_chunks::<{ 2 * PANEL }>();
        for (k, pair) in pairs.iter().enumerate() {
            let (first, second) = pair.split_at(PANEL);
            let mut x = [(T::ZERO, T::ZERO); TOGETHER];
            for (x, row) in x.iter_mut().zip(&part) {
                *x = (row[2 * k], row[2 * k + 1]);
            }
            for r in 0..TOGETHER {
                let (a, b) = (V::splat(x[r].0), V::splat(x[r].1));
                for v in 0..PANEL / V::LANES {
                    let sum = &mut sums[r].as_mut()[v];
                    *sum = N::step(*sum, a.sub(V::from_slice(&first[v * V::LANES..])));
                    *sum = N::step(*sum, b.sub(V::from_slice(&second[v * V::LANES..])));
                }
            }
        }
        if !last.is_empty() {
            for r in 0..TOGETHER {
                let x = V::splat(part[r][len - 1]);
                for v in 0..PANEL / V::LANES {
                    let sum = &mut sums[r].as_mut()[v];
                    *sum = N::step(*sum, x.sub(V::from_slice(&last[v * V::LANES..])));
                }
            }
        }
        for r in 0..TOGETHER {
            for v in 0..PANEL / V::LANES {
                let total = &mut totals[r].as_mut()[v];
                *total = N::join(*total, sums[r].as_ref()[v]);
            }
        }
    }
    let (mut out, mut doubtful) = ([[T::ZERO; PANEL]; TOGETHER], [false; TOGETHER]);
    for r in 0..TOGETHER {
        for v in 0..PANEL / V::LANES {
            let (distance, doubt) = N::finish::<T, V>(totals[r].as_ref()[v]);
            distance.write(&mut out[r][v * V::LANES..]);
            if let Some(doubt) = doubt {
                doubtful[r] |= doubt.any();
            }
        }
    }
    (out, doubtful)
}
/// A Euclidean distance by differences that are divided by the largest of them, if squares of these are beyond the type.
#[cold]
fn exact<T: DistanceElement>(x: &[T], y: &[T], quick: T) -> T {
    let square = quick * quick;
    if square.wide() >= T::LEAST_SUM && square.wide() < f64::INFINITY {
        return quick;
    }
    let differences = || x.iter().zip(y).map(|(&x, &y)| (x - y).wide().abs());
    let largest = differences().fold(0.0, |a: f64, b| if b <= a || a.is_nan() { a } else { b });
    if largest == 0.0 || !largest.is_finite() {
        return T::nearest(largest);
    }
    T::nearest(differences().map(|d| (d / largest) * (d / largest)).sum::<f64>().sqrt() * largest)
}
