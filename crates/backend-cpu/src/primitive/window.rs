//! Sliding windows over the trailing axes: maxima with their places, sums, and the transposed sum.
use super::Call;
pub(super) use super::computes as supports;
use crate::{
    device::Runtime,
    element::{Number, Wide, with_number},
    operand::{In, Out, internal},
    scratch::filled,
    simd::{Simd, SimdKernel, dispatch},
};
use adamant_runtime::{
    ErrorKind,
    op::{WindowOp, WindowSpec},
};

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
/// Calls `f(window, place of a tap)` for every window and every tap of it that falls inside, in row-major order.
#[inline(always)]
fn walk(axes: &[WindowAxis; 3], mut f: impl FnMut(usize, usize)) {
    let [d, h, w] = axes;
    let mut at = 0;
    for i in 0..d.narrow {
        let (d0, d1, od) = d.taps(i);
        for j in 0..h.narrow {
            let (h0, h1, oh) = h.taps(j);
            for k in 0..w.narrow {
                let (w0, w1, ow) = w.taps(k);
                for p in d0..d1 {
                    let plane = (od + (p * d.dilation) as isize) as usize * h.wide;
                    for q in h0..h1 {
                        let row = (plane + (oh + (q * h.dilation) as isize) as usize) * w.wide;
                        for r in w0..w1 {
                            f(at, row + (ow + (r * w.dilation) as isize) as usize);
                        }
                    }
                }
                at += 1;
            }
        }
    }
}
fn max<T: Number>(runtime: &Runtime, axes: [WindowAxis; 3], x: &[T], out: &mut [T], at: &mut [i64]) -> Result<(), ErrorKind> {
    let (wide, narrow, taps) = sizes(&axes);
    let group = planes(narrow * taps);
    let parts = out.chunks_mut(narrow * group).zip(at.chunks_mut(narrow * group));
    // No window reaches past an end: whole rows of windows are compared tap by tap.
    let inside = wide < i32::MAX as usize && axes.iter().all(|a| a.before == 0 && (a.narrow - 1) * a.stride + (a.size - 1) * a.dilation < a.wide);
    runtime.threads.try_for_parts(parts, |task, (out, at)| {
        let mut best = filled(0i32, if inside { axes[2].narrow } else { 0 })?;
        for (p, (out, at)) in out.chunks_mut(narrow).zip(at.chunks_mut(narrow)).enumerate() {
            let x = &x[(task * group + p) * wide..][..wide];
            if inside {
                dispatch(runtime.isa, WindowMaxima { axes: &axes, x, out, at, best: &mut best });
                continue;
            }
            at.fill(-1);
            out.fill(T::narrow(T::Wide::LOWEST));
            walk(&axes, |o, from| {
                if at[o] < 0 || x[from].wide().beats(out[o].wide(), true) {
                    (out[o], at[o]) = (x[from], from as i64);
                }
            });
            for (o, at) in out.iter_mut().zip(at.iter_mut()) {
                if *at < 0 {
                    // A window wholly in the padding: of floats -inf, of integers 0.
                    *at = 0;
                    if T::Wide::LOWEST.plus(T::Wide::ONE) > T::Wide::LOWEST {
                        *o = T::narrow(T::Wide::ZERO);
                    }
                }
            }
        }
        Ok(())
    })
}
/// The maxima of one plane, row of windows by row, the first of equals winning.
struct WindowMaxima<'a, T> {
    axes: &'a [WindowAxis; 3],
    x: &'a [T],
    out: &'a mut [T],
    at: &'a mut [i64],
    /// the best tap of each window of a row, relative to the window's first
    best: &'a mut [i32],
}
impl<T: Number> SimdKernel for WindowMaxima<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let WindowMaxima { axes: [d, h, w], x, out, at, best } = self;
        let rows = out.chunks_exact_mut(w.narrow).zip(at.chunks_exact_mut(w.narrow));
        for (row, (out, at)) in rows.enumerate() {
            let (i, j) = (row / h.narrow, row % h.narrow);
            let first = ((i * d.stride) * h.wide + j * h.stride) * w.wide;
            let mut begun = false;
            for p in 0..d.size {
                for q in 0..h.size {
                    for r in 0..w.size {
                        let tap = (p * d.dilation * h.wide + q * h.dilation) * w.wide + r * w.dilation;
                        let x = &x[first + tap..][..(w.narrow - 1) * w.stride + 1];
                        if begun {
                            for (k, (o, b)) in out.iter_mut().zip(best.iter_mut()).enumerate() {
                                let v = x[k * w.stride];
                                let wins = v.wide().beats(o.wide(), true);
                                *o = if wins { v } else { *o };
                                *b = if wins { tap as i32 } else { *b };
                            }
                        } else {
                            out.iter_mut().enumerate().for_each(|(k, o)| *o = x[k * w.stride]);
                            best.fill(tap as i32);
                            begun = true;
                        }
                    }
                }
            }
            for (k, (at, &b)) in at.iter_mut().zip(best.iter()).enumerate() {
                *at = (first + k * w.stride) as i64 + b as i64;
            }
        }
    }
}
fn sum<T: Number>(runtime: &Runtime, axes: [WindowAxis; 3], x: &[T], out: &mut [T]) -> Result<(), ErrorKind> {
    let (wide, narrow, taps) = sizes(&axes);
    let group = planes(narrow * taps);
    runtime.threads.try_for_chunks_mut(out, narrow * group, |task, out| {
        let mut acc = filled(T::Wide::ZERO, narrow)?;
        for (p, out) in out.chunks_mut(narrow).enumerate() {
            let x = &x[(task * group + p) * wide..][..wide];
            acc.fill(T::Wide::ZERO);
            walk(&axes, |o, from| acc[o] = acc[o].plus(x[from].wide()));
            out.iter_mut().zip(&acc).for_each(|(o, &v)| *o = T::narrow(v));
        }
        Ok(())
    })
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
                walk(&axes, |from, to| acc[to] = acc[to].plus(x[from].wide()));
            }
            out.iter_mut().zip(&acc).for_each(|(o, &v)| *o = T::narrow(v));
        }
        Ok(())
    })
}
