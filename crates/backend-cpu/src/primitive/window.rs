//! Sliding windows over the trailing axes: maxima with their places, sums, and the transposed sum.
use super::Call;
pub(super) use super::computes as supports;
use crate::{
    device::Runtime,
    element::{Number, Wide, with_number},
    operand::{In, Out, internal},
    order::Ordered,
    scratch::{KeptElement, filled},
    simd::{Simd, SimdKernel, dispatch},
};
use adamant_runtime::{
    ErrorKind,
    op::{WindowOp, WindowSpec},
};
use std::ops::Range;

/// One spatial axis: three of them, the missing ones of size 1.
#[derive(Clone, Copy)]
struct WindowAxis {
    wide: usize,
    narrow: usize,
    size: usize,
    stride: usize,
    before: usize,
    dilation: usize,
}
impl WindowAxis {
    /// The taps of window `at` that fall inside: (first tap, last tap + 1, place of tap 0, which may be outside).
    fn taps(&self, at: usize) -> (usize, usize, isize) {
        let origin = (at * self.stride) as isize - self.before as isize;
        let first = if origin < 0 { origin.unsigned_abs().div_ceil(self.dilation) } else { 0 };
        let rest = self.wide as isize - origin;
        let end = if rest <= 0 { 0 } else { (rest as usize).div_ceil(self.dilation) };
        (first.min(self.size), end.min(self.size), origin)
    }
    /// A line's elements by phases of the stride: how many there are, and how many elements each has. Of a stride longer than the line
    /// every element is one.
    fn phases(&self) -> (usize, usize) {
        let count = self.stride.min(self.wide).max(1);
        (count, self.wide.div_ceil(count))
    }
    /// The windows whose tap `tap` falls inside.
    fn windows(&self, tap: usize) -> Range<usize> {
        let ahead = tap * self.dilation;
        let first = self.before.saturating_sub(ahead).div_ceil(self.stride);
        let end = (self.wide + self.before).saturating_sub(ahead).div_ceil(self.stride);
        first..end.min(self.narrow).max(first)
    }
}

/// Runs a Window step.
///
/// # Errors
/// Operands that do not fit.
pub(super) fn run(spec: &WindowSpec, call: &Call<'_>, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let ([x], Some((out, more))) = (inputs, outputs.split_first_mut()) else { return Err(internal("windows have one input and an output")) };
    let (runtime, s) = (call.runtime, spec.spatial());
    let transposed = spec.op == WindowOp::SumTransposed;
    let (wide, narrow) = if transposed { (out.shape, x.shape) } else { (x.shape, out.shape) };
    let lead = wide.rank().checked_sub(s).ok_or_else(|| internal("windows over more axes than there are"))?;
    let mut axes = [WindowAxis { wide: 1, narrow: 1, size: 1, stride: 1, before: 0, dilation: 1 }; 3];
    for k in 0..s {
        axes[3 - s + k] = WindowAxis {
            wide: wide[lead + k],
            narrow: narrow[lead + k],
            size: spec.size[k],
            stride: spec.stride[k],
            before: spec.padding[k].0,
            dilation: spec.dilation[k],
        };
    }
    if out.shape.elements() == 0 {
        return Ok(());
    }
    with_number!(x.dtype, T => match (spec.op, more) {
        (WindowOp::Max, [at]) => max::<T>(runtime, axes, x.dense()?, out.dense()?, at.dense()?),
        (WindowOp::Sum, []) => sum::<T>(runtime, axes, x.dense()?, out.dense()?),
        (WindowOp::SumTransposed, []) => transposed_sum::<T>(runtime, axes, x.dense()?, out.dense()?),
        _ => Err(internal("windows with another number of outputs")),
    })
}
/// How many planes make a task.
fn planes(work: usize) -> usize {
    (64 * 1024 / work.max(1)).max(1)
}
fn sizes(axes: &[WindowAxis; 3]) -> (usize, usize, usize) {
    (axes.iter().map(|a| a.wide).product(), axes.iter().map(|a| a.narrow).product(), axes.iter().map(|a| a.size).product())
}
/// The taps of one row of windows beside each other, in row-major order: `f(windows, line, column)` for every tap that falls inside
/// for the `windows` (a range along the row); it falls into a line of the plane, for the first of these at `column`, and for the next
/// `stride` further on. The last axis' taps come in descending order if `reverse`.
#[inline(always)]
fn walk_row(axes: &[WindowAxis; 3], row: usize, reverse: bool, mut f: impl FnMut(Range<usize>, usize, usize)) {
    let [d, h, w] = axes;
    let (d0, d1, od) = d.taps(row / h.narrow);
    let (h0, h1, oh) = h.taps(row % h.narrow);
    for p in d0..d1 {
        let plane = (od + (p * d.dilation) as isize) as usize * h.wide;
        for q in h0..h1 {
            let line = plane + (oh + (q * h.dilation) as isize) as usize;
            for r in 0..w.size {
                let r = if reverse { w.size - 1 - r } else { r };
                let windows = w.windows(r);
                if !windows.is_empty() {
                    let first = windows.start * w.stride + r * w.dilation - w.before;
                    f(windows, line, first);
                }
            }
        }
    }
}
fn max<T: Ordered>(runtime: &Runtime, axes: [WindowAxis; 3], x: &[T], out: &mut [T], at: &mut [i64]) -> Result<(), ErrorKind> {
    let (wide, _, _) = sizes(&axes);
    if i32::try_from(wide + axes[2].before + 1).is_ok() { max_by::<T, i32>(runtime, axes, x, out, at) } else { max_by::<T, i64>(runtime, axes, x, out, at) }
}
/// Maxima whose places in a plane are numbers of `P`.
fn max_by<T: Ordered, P: PlaneNumber>(runtime: &Runtime, axes: [WindowAxis; 3], x: &[T], out: &mut [T], at: &mut [i64]) -> Result<(), ErrorKind> {
    let (wide, narrow, taps) = sizes(&axes);
    let group = planes(narrow * taps);
    let parts = out.chunks_mut(narrow * group).zip(at.chunks_mut(narrow * group));
    let w = axes[2];
    let (phases, phase) = w.phases();
    let phased = wide / w.wide.max(1) * phases * phase;
    runtime.threads.try_for_parts(parts, |task, (out, at)| {
        let mut contenders = filled(T::WEAKEST, phased)?;
        let (mut best, mut places) = (filled(T::WEAKEST, w.narrow)?, filled(P::NONE, w.narrow)?);
        for (p, (out, at)) in out.chunks_mut(narrow).zip(at.chunks_mut(narrow)).enumerate() {
            let x = &x[(task * group + p) * wide..][..wide];
            dispatch(runtime.isa, WindowMaxima { axes: &axes, x, contenders: &mut contenders, out, at, best: &mut best, places: &mut places });
        }
        Ok(())
    })
}
/// A number of an element of a plane.
trait PlaneNumber: KeptElement + Ord + Send + Sync {
    /// Less than all.
    const NONE: Self;
    fn new(at: usize) -> Self;
    /// The number, or none.
    fn if_it(self, wins: bool) -> Self;
    fn get(self) -> i64;
}
macro_rules! plane_number {
    ($($t:ty),*) => { $(impl PlaneNumber for $t {
        const NONE: $t = 0;
        #[inline(always)]
        fn new(at: usize) -> $t {
            at as $t
        }
        #[inline(always)]
        fn if_it(self, wins: bool) -> $t {
            self & (wins as $t).wrapping_neg()
        }
        #[inline(always)]
        fn get(self) -> i64 {
            self as i64
        }
    })* };
}
plane_number!(i32, i64);
/// The maxima of one plane, row of windows by row, the first of equals winning.
struct WindowMaxima<'a, T: Ordered, P> {
    axes: &'a [WindowAxis; 3],
    x: &'a [T],
    out: &'a mut [T],
    at: &'a mut [i64],
    /// those of the plane's elements, each line's by phases: those that a stride's first steps reach, then those that are one
    /// further on, and so on
    contenders: &'a mut [T::Contender],
    /// the largest contender of each window of a row
    best: &'a mut [T::Contender],
    /// where it would lie for the first window of the row
    places: &'a mut [P],
}
impl<T: Ordered, P: PlaneNumber> SimdKernel for WindowMaxima<'_, T, P> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let WindowMaxima { axes, x, out, at, contenders, best, places } = self;
        let [_, _, w] = axes;
        let (phases, phase) = w.phases();
        for (line, to) in x.chunks_exact(w.wide.max(1)).zip(contenders.chunks_exact_mut((phases * phase).max(1))) {
            by_phases(line, phases, phase, to);
        }
        let rows = out.chunks_exact_mut(w.narrow).zip(at.chunks_exact_mut(w.narrow));
        for (row, (out, at)) in rows.enumerate() {
            best.fill(T::WEAKEST);
            places.fill(P::NONE);
            walk_row(axes, row, false, |windows, line, column| {
                // Counted from 1 on: what is in the padding before the line is not less.
                let place = P::new(line * w.wide + column + w.before + 1 - windows.start * w.stride);
                let from = (line * phases + column % phases) * phase + column / phases;
                let (best, places) = (&mut best[windows.clone()], &mut places[windows]);
                let contenders = &contenders[from..][..best.len()];
                for ((best, at), &contender) in best.iter_mut().zip(places).zip(contenders) {
                    let wins = T::beats(contender, *best);
                    // Places come in order: the larger one is the later one, and one instruction.
                    *at = (*at).max(place.if_it(wins));
                    *best = T::better(wins, contender, *best);
                }
            });
            let mut beaten = true;
            for (k, (at, place)) in at.iter_mut().zip(&*places).enumerate() {
                beaten &= *place != P::NONE;
                *at = place.get() + (k * w.stride) as i64 - (w.before + 1) as i64;
            }
            if beaten {
                for ((o, best), at) in out.iter_mut().zip(&*best).zip(at) {
                    *o = T::winner(*best, || x[*at as usize]);
                }
                continue;
            }
            for (k, ((o, at), place)) in out.iter_mut().zip(at).zip(&*places).enumerate() {
                let first = if *place == P::NONE { first_inside(axes, row, k) } else { Some(*at as usize) };
                // A window wholly in the padding: of floats -inf, of integers 0.
                (*o, *at) = match first {
                    Some(from) => (x[from], from as i64),
                    None if T::HAS_NAN => (T::narrow(T::Wide::LOWEST), 0),
                    None => (T::narrow(T::Wide::ZERO), 0),
                };
            }
        }
    }
}
/// The contenders of a line, by so many phases.
#[inline(always)]
fn by_phases<T: Ordered>(line: &[T], phases: usize, phase: usize, to: &mut [T::Contender]) {
    let whole = line.len() / phases;
    match phases {
        1 => line.iter().zip(to).for_each(|(v, to)| *to = v.contender()),
        2 => {
            let (first, second) = to.split_at_mut(phase);
            let (pairs, rest) = line.as_chunks::<2>();
            for (v, (first, second)) in pairs.iter().zip(first.iter_mut().zip(second)) {
                (*first, *second) = (v[0].contender(), v[1].contender());
            }
            rest.iter().for_each(|last| first[whole] = last.contender());
        }
        3 => {
            let (first, rest) = to.split_at_mut(phase);
            let (second, third) = rest.split_at_mut(phase);
            let (triples, rest) = line.as_chunks::<3>();
            for ((v, first), (second, third)) in triples.iter().zip(first.iter_mut()).zip(second.iter_mut().zip(third)) {
                (*first, *second, *third) = (v[0].contender(), v[1].contender(), v[2].contender());
            }
            rest.iter().zip([first, second]).for_each(|(last, to)| to[whole] = last.contender());
        }
        phases => {
            for (first, to) in to.chunks_exact_mut(phase).enumerate() {
                line[first..].iter().step_by(phases).zip(to).for_each(|(v, to)| *to = v.contender());
            }
        }
    }
}
/// Where the first tap inside the plane lies of a window of a row; `None`: it is wholly in the padding.
fn first_inside([d, h, w]: &[WindowAxis; 3], row: usize, column: usize) -> Option<usize> {
    let place = |axis: &WindowAxis, at: usize| {
        let (first, end, origin) = axis.taps(at);
        (first < end).then(|| (origin + (first * axis.dilation) as isize) as usize)
    };
    let (z, y, x) = (place(d, row / h.narrow)?, place(h, row % h.narrow)?, place(w, column)?);
    Some((z * h.wide + y) * w.wide + x)
}
fn sum<T: Number>(runtime: &Runtime, axes: [WindowAxis; 3], x: &[T], out: &mut [T]) -> Result<(), ErrorKind> {
    let (wide, narrow, taps) = sizes(&axes);
    let group = planes(narrow * taps);
    runtime.threads.try_for_chunks_mut(out, narrow * group, |task, out| {
        let mut acc = filled(T::Wide::ZERO, axes[2].narrow)?;
        for (p, out) in out.chunks_mut(narrow).enumerate() {
            let x = &x[(task * group + p) * wide..][..wide];
            dispatch(runtime.isa, WindowSums { axes: &axes, x, out, acc: &mut acc });
        }
        Ok(())
    })
}
/// The sums of one plane, row of windows by row: those of a row are added to tap by tap.
struct WindowSums<'a, T: Number> {
    axes: &'a [WindowAxis; 3],
    x: &'a [T],
    out: &'a mut [T],
    acc: &'a mut [T::Wide],
}
impl<T: Number> SimdKernel for WindowSums<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let WindowSums { axes, x, out, acc } = self;
        let [_, _, w] = axes;
        for (row, out) in out.chunks_exact_mut(w.narrow).enumerate() {
            acc.fill(T::Wide::ZERO);
            walk_row(axes, row, false, |windows, line, column| {
                let acc = &mut acc[windows];
                let x = &x[line * w.wide + column..][..(acc.len() - 1) * w.stride + 1];
                match w.stride {
                    1 => (0..acc.len()).for_each(|k| acc[k] = acc[k].plus(x[k].wide())),
                    2 => (0..acc.len()).for_each(|k| acc[k] = acc[k].plus(x[2 * k].wide())),
                    stride => (0..acc.len()).for_each(|k| acc[k] = acc[k].plus(x[k * stride].wide())),
                }
            });
            for (o, &v) in out.iter_mut().zip(acc.iter()) {
                *o = T::narrow(v);
            }
        }
    }
}
fn transposed_sum<T: Number>(runtime: &Runtime, axes: [WindowAxis; 3], x: &[T], out: &mut [T]) -> Result<(), ErrorKind> {
    let (wide, narrow, taps) = sizes(&axes);
    let group = planes(narrow * taps);
    runtime.threads.try_for_chunks_mut(out, wide * group, |task, out| {
        let mut acc = filled(T::Wide::ZERO, wide)?;
        for (p, out) in out.chunks_mut(wide).enumerate() {
            acc.fill(T::Wide::ZERO);
            if narrow > 0 {
                let x = &x[(task * group + p) * narrow..][..narrow];
                dispatch(runtime.isa, TransposedSums { axes: &axes, x, acc: &mut acc });
            }
            out.iter_mut().zip(acc.iter()).for_each(|(o, &v)| *o = T::narrow(v));
        }
        Ok(())
    })
}
/// Every window's value added to all places of it. A place meets its windows in their order: those of one row come from its last
/// tap to its first.
struct TransposedSums<'a, T: Number> {
    axes: &'a [WindowAxis; 3],
    x: &'a [T],
    acc: &'a mut [T::Wide],
}
impl<T: Number> SimdKernel for TransposedSums<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let TransposedSums { axes, x, acc } = self;
        let [_, _, w] = axes;
        for (row, x) in x.chunks_exact(w.narrow).enumerate() {
            walk_row(axes, row, true, |windows, line, column| {
                let x = &x[windows];
                let acc = &mut acc[line * w.wide + column..][..(x.len() - 1) * w.stride + 1];
                match w.stride {
                    1 => (0..x.len()).for_each(|k| acc[k] = acc[k].plus(x[k].wide())),
                    2 => (0..x.len()).for_each(|k| acc[2 * k] = acc[2 * k].plus(x[k].wide())),
                    stride => (0..x.len()).for_each(|k| acc[k * stride] = acc[k * stride].plus(x[k].wide())),
                }
            });
        }
    }
}
