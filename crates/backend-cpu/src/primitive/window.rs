//! Sliding windows over the trailing axes: maxima with their places, sums, and the transposed sum.
use super::Call;
pub(super) use super::computes as supports;
use crate::{
    device::Runtime,
    element::{Number, Wide, with_number},
    operand::{In, Out, internal},
    order::{OrderKey, Ordered},
    scratch::filled,
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
/// The taps of one row of windows beside each other, in row-major order: `f(windows, place, tap)` for every tap that falls inside
/// for the `windows` (a range along the row); `place` is where it falls for the first of these, and the next are `stride` apart.
/// The last axis' taps come in descending order if `reverse`.
#[inline(always)]
fn walk_row(axes: &[WindowAxis; 3], row: usize, reverse: bool, mut f: impl FnMut(Range<usize>, usize)) {
    let [d, h, w] = axes;
    let (d0, d1, od) = d.taps(row / h.narrow);
    let (h0, h1, oh) = h.taps(row % h.narrow);
    for p in d0..d1 {
        let plane = (od + (p * d.dilation) as isize) as usize * h.wide;
        for q in h0..h1 {
            let line = (plane + (oh + (q * h.dilation) as isize) as usize) * w.wide;
            for r in 0..w.size {
                let r = if reverse { w.size - 1 - r } else { r };
                let windows = w.windows(r);
                if !windows.is_empty() {
                    let first = windows.start * w.stride + r * w.dilation - w.before;
                    f(windows, line + first);
                }
            }
        }
    }
}
fn max<T: Ordered>(runtime: &Runtime, axes: [WindowAxis; 3], x: &[T], out: &mut [T], at: &mut [i64]) -> Result<(), ErrorKind> {
    let (wide, narrow, taps) = sizes(&axes);
    let group = planes(narrow * taps);
    let parts = out.chunks_mut(narrow * group).zip(at.chunks_mut(narrow * group));
    runtime.threads.try_for_parts(parts, |task, (out, at)| {
        let (mut keys, mut best) = (filled(T::Key::SMALLEST, wide)?, filled(T::Key::SMALLEST, axes[2].narrow)?);
        for (p, (out, at)) in out.chunks_mut(narrow).zip(at.chunks_mut(narrow)).enumerate() {
            let x = &x[(task * group + p) * wide..][..wide];
            dispatch(runtime.isa, WindowMaxima { axes: &axes, x, keys: &mut keys, out, at, best: &mut best });
        }
        Ok(())
    })
}
/// The maxima of one plane, row of windows by row, the first of equals winning.
struct WindowMaxima<'a, T: Ordered> {
    axes: &'a [WindowAxis; 3],
    x: &'a [T],
    out: &'a mut [T],
    at: &'a mut [i64],
    /// those of the plane's elements
    keys: &'a mut [T::Key],
    /// the largest key of each window of a row
    best: &'a mut [T::Key],
}
impl<T: Ordered> SimdKernel for WindowMaxima<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let WindowMaxima { axes, x, out, at, keys, best } = self;
        for (key, v) in keys.iter_mut().zip(x) {
            *key = v.key();
        }
        let [_, _, w] = axes;
        let rows = out.chunks_exact_mut(w.narrow).zip(at.chunks_exact_mut(w.narrow));
        for (row, (out, at)) in rows.enumerate() {
            best.fill(T::Key::SMALLEST);
            // No place yet.
            at.fill(-1);
            walk_row(axes, row, false, |windows, first| {
                let (best, at) = (&mut best[windows.clone()], &mut at[windows]);
                let keys = &keys[first..][..(best.len() - 1) * w.stride + 1];
                match w.stride {
                    1 => better::<T, 1>(keys, 1, first as i64, best, at),
                    2 => better::<T, 2>(keys, 2, first as i64, best, at),
                    3 => better::<T, 3>(keys, 3, first as i64, best, at),
                    stride => better::<T, 0>(keys, stride, first as i64, best, at),
                }
            });
            for (o, at) in out.iter_mut().zip(at) {
                // A window wholly in the padding: of floats -inf, of integers 0.
                (*o, *at) = match usize::try_from(*at) {
                    Ok(from) => (x[from], *at),
                    Err(_) if T::HAS_NAN => (T::narrow(T::Wide::LOWEST), 0),
                    Err(_) => (T::narrow(T::Wide::ZERO), 0),
                };
            }
        }
    }
}
/// Takes what beats the best so far. A stride that is not 0 is the one that `stride` says.
#[inline(always)]
fn better<T: Ordered, const STRIDE: usize>(keys: &[T::Key], stride: usize, first: i64, best: &mut [T::Key], at: &mut [i64]) {
    let stride = if STRIDE == 0 { stride } else { STRIDE };
    for k in 0..best.len() {
        let key = keys[k * stride];
        let wins = (key > best[k]) | (at[k] < 0);
        best[k] = if wins { key } else { best[k] };
        at[k] = if wins { first + (k * stride) as i64 } else { at[k] };
    }
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
            walk_row(axes, row, false, |windows, first| {
                let acc = &mut acc[windows];
                let x = &x[first..][..(acc.len() - 1) * w.stride + 1];
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
            walk_row(axes, row, true, |windows, first| {
                let x = &x[windows];
                let acc = &mut acc[first..][..(x.len() - 1) * w.stride + 1];
                match w.stride {
                    1 => (0..x.len()).for_each(|k| acc[k] = acc[k].plus(x[k].wide())),
                    2 => (0..x.len()).for_each(|k| acc[2 * k] = acc[2 * k].plus(x[k].wide())),
                    stride => (0..x.len()).for_each(|k| acc[k * stride] = acc[k * stride].plus(x[k].wide())),
                }
            });
        }
    }
}
