//! The first index of the extreme value along an axis. NaN counts as extreme, as in PyTorch.
//!
//! Elements are compared as [keys](crate::order). Along an axis whose elements lie side by side the extreme of a block is found
//! first, and a place is looked for only in the block that has the extreme of the line; a long line is cut for the threads. Along
//! another axis the lines beside each other are walked together.
use super::Call;
pub(super) use super::computes as supports;
use crate::{
    device::Runtime,
    element::with_number,
    lines::AxisLines,
    operand::{In, Out, internal},
    order::{OrderKey, Ordered},
    scratch::filled,
    simd::{Simd, SimdKernel, dispatch},
};
use adamant_runtime::{ErrorKind, op::ArgOp};

type Fields<'a> = (&'a ArgOp, &'a u8);
/// How many elements one look finds the extreme of.
const BLOCK: usize = 1024;
/// How many elements make a task.
const TASK: usize = 64 * 1024;
/// How many lines beside each other are walked together: their extremes stay in cache.
const BESIDE: usize = 2048;

/// Runs an ArgReduce step.
///
/// # Errors
/// Operands that do not fit.
pub(super) fn run((op, axis): Fields<'_>, call: &Call<'_>, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let ([x], [out]) = (inputs, outputs) else { return Err(internal("an arg-reduction has one input and one output")) };
    let lines = AxisLines::new(call.space, *axis as usize, &[&x.layout.strides]);
    let out: &mut [i64] = out.dense()?;
    if out.is_empty() {
        return Ok(());
    }
    let base = x.layout.offset as isize;
    with_number!(x.dtype, T => {
        let x = x.elements::<T>()?;
        match op {
            ArgOp::Max => find::<T, true>(call.runtime, &lines, x, base, out),
            ArgOp::Min => find::<T, false>(call.runtime, &lines, x, base, out),
        }
    })
}
fn find<T: Ordered, const MAX: bool>(runtime: &Runtime, lines: &AxisLines, x: &[T], base: isize, out: &mut [i64]) -> Result<(), ErrorKind> {
    let (inner, n, step) = (lines.inner.len(), lines.n, lines.steps[0]);
    let places = lines.inner_offsets(0)?;
    let start = |o: usize| base + lines.outer.offset(0, o);
    let rows = inner == 1 && step == 1;
    if rows && out.len() < runtime.threads.count() && n >= 2 * TASK {
        let line = |o: usize| &x[start(o) as usize..][..n];
        return out.iter_mut().enumerate().try_for_each(|(o, out)| cut::<T, MAX>(runtime, line(o), out));
    }
    // Lines one behind the other take one call for all of a task.
    if rows && lines.outer.dims.len() == 1 && (1..=BLOCK).contains(&n) && lines.outer.innermost_stride(0) >= 0 {
        let apart = lines.outer.innermost_stride(0) as usize;
        let some = (TASK / n).max(1);
        runtime
            .threads
            .for_chunks_mut(out, some, |task, out| dispatch(runtime.isa, ShortLines::<T, MAX> { x: &x[base as usize + task * some * apart..], apart, n, out }));
        return Ok(());
    }
    let together = step > 0 && lines.inner.is_dense(0) && n <= i32::MAX as usize;
    let some = (TASK / n.max(1)).clamp(1, BESIDE);
    runtime.threads.try_for_chunks_mut(out, some, |task, mut out| {
        let mut best = filled(T::Key::SMALLEST, if together { some.min(inner) } else { 0 })?;
        let mut at = filled(0i32, best.len())?;
        let mut first = task * some;
        while !out.is_empty() {
            let (o, j) = (first / inner, first % inner);
            let count = (inner - j).min(out.len());
            let (now, rest) = std::mem::take(&mut out).split_at_mut(count);
            let from = start(o) + places[j];
            if rows {
                now[0] = dispatch(runtime.isa, Line::<T, MAX>(&x[from as usize..][..n])).1 as i64;
            } else if together {
                let (best, at) = (&mut best[..now.len()], &mut at[..now.len()]);
                dispatch(runtime.isa, BesideLines::<T, MAX> { x: &x[from as usize..], step: step as usize, n, best, at, out: now });
            } else {
                now.iter_mut().zip(&places[j..]).for_each(|(out, p)| *out = apart::<T, MAX>(x, start(o) + p, step, n) as i64);
            }
            first += now.len();
            out = rest;
        }
        Ok(())
    })
}
/// The place of the extreme of a line of elements that lie anywhere.
fn apart<T: Ordered, const MAX: bool>(x: &[T], start: isize, step: isize, n: usize) -> usize {
    let mut best = (T::Key::SMALLEST, 0);
    for k in 0..n {
        let key = x[(start + k as isize * step) as usize].extreme::<MAX>();
        if key > best.0 {
            best = (key, k);
        }
    }
    best.1
}
/// The place of the extreme of one long line, by all threads: of two pieces with one extreme, the earlier has it.
fn cut<T: Ordered, const MAX: bool>(runtime: &Runtime, line: &[T], out: &mut i64) -> Result<(), ErrorKind> {
    let mut found = filled(0u64, line.len().div_ceil(TASK))?;
    runtime.threads.for_parts(line.chunks(TASK).zip(found.iter_mut()), |_, (piece, found)| *found = dispatch(runtime.isa, Line::<T, MAX>(piece)).1 as u64);
    let places = found.iter().enumerate().map(|(piece, &at)| piece * TASK + at as usize);
    // Of several with the same key the first.
    *out = places.rev().max_by_key(|&at| line[at].extreme::<MAX>()).unwrap_or(0) as i64;
    Ok(())
}
/// The extreme of elements side by side, and the first place that has it.
struct Line<'a, T, const MAX: bool>(&'a [T]);
impl<T: Ordered, const MAX: bool> SimdKernel for Line<'_, T, MAX> {
    type Output = (T::Key, usize);
    #[inline(always)]
    fn run<S: Simd>(self) -> (T::Key, usize) {
        let (mut best, mut block) = (T::Key::SMALLEST, 0);
        for (k, elements) in self.0.chunks(BLOCK).enumerate() {
            let mut most = T::Key::SMALLEST;
            for v in elements {
                most = most.max(v.extreme::<MAX>());
            }
            if most > best {
                (best, block) = (most, k);
            }
        }
        let mut at = block * BLOCK;
        while at < self.0.len() && self.0[at].extreme::<MAX>() != best {
            at += 1;
        }
        (best, at)
    }
}
/// The places of the extremes of lines of at most a block, of which one begins `apart` from the one before.
struct ShortLines<'a, T, const MAX: bool> {
    x: &'a [T],
    apart: usize,
    n: usize,
    out: &'a mut [i64],
}
impl<T: Ordered, const MAX: bool> SimdKernel for ShortLines<'_, T, MAX> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let ShortLines { x, apart, n, out } = self;
        for (k, out) in out.iter_mut().enumerate() {
            let line = &x[k * apart..][..n];
            let mut most = T::Key::SMALLEST;
            for v in line {
                most = most.max(v.extreme::<MAX>());
            }
            // In vectors, too: no branch at the first that has it.
            let mut at = u32::MAX;
            for (j, v) in line.iter().enumerate() {
                at = at.min(if v.extreme::<MAX>() == most { j as u32 } else { u32::MAX });
            }
            *out = at.into();
        }
    }
}
/// The places of the extremes of lines beside each other.
struct BesideLines<'a, T: Ordered, const MAX: bool> {
    /// from the first element of the first line on
    x: &'a [T],
    step: usize,
    n: usize,
    best: &'a mut [T::Key],
    at: &'a mut [i32],
    out: &'a mut [i64],
}
impl<T: Ordered, const MAX: bool> SimdKernel for BesideLines<'_, T, MAX> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let BesideLines { x, step, n, best, at, out } = self;
        let count = out.len();
        let (best, at) = (&mut best[..count], &mut at[..count]);
        best.fill(T::Key::SMALLEST);
        at.fill(0);
        for k in 0..n {
            let row = &x[k * step..][..count];
            for j in 0..count {
                let key = row[j].extreme::<MAX>();
                let wins = key > best[j];
                best[j] = if wins { key } else { best[j] };
                at[j] = if wins { k as i32 } else { at[j] };
            }
        }
        for j in 0..count {
            out[j] = at[j] as i64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{gemm::Blas, isa::Isa, threads::Threads};

    #[test]
    fn the_first_of_equal_extremes_is_found_wherever_it_lies() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for len in [1, 5, BLOCK - 1, BLOCK, 3 * BLOCK + 7] {
                for at in [0, len / 3, len - 1] {
                    for (extreme, other) in [(2.0f32, 1.0), (f32::NAN, f32::INFINITY), (0.0, -1.0), (-1.0, f32::NEG_INFINITY)] {
                        let mut x = vec![other; len];
                        x[at] = extreme;
                        x[len - 1] = extreme;
                        assert_eq!(dispatch(isa, Line::<f32, true>(&x)).1, at, "{extreme} at {at} of {len}");
                        let negated: Vec<f32> = x.iter().map(|v| -v).collect();
                        assert_eq!(dispatch(isa, Line::<f32, false>(&negated)).1, at, "{extreme} at {at} of {len}");
                    }
                }
            }
            // Lines side by side, with a gap between, and one for all.
            for (n, apart, count) in [(1, 1, 40), (5, 5, 9), (37, 40, 6), (37, 0, 3), (BLOCK, BLOCK + 1, 2)] {
                let x: Vec<f32> = (0..count * apart + n).map(|k| if k % 29 == 7 { f32::NAN } else { (k * 37 % 11) as f32 }).collect();
                let mut out = vec![-1; count];
                dispatch(isa, ShortLines::<f32, true> { x: &x, apart, n, out: &mut out });
                let alone: Vec<i64> = (0..count).map(|k| apart_in_steps(&x[k * apart..][..n])).collect();
                assert_eq!(out, alone, "{n} elements, {apart} apart");
            }
            // Of the least there is nothing to be larger than.
            assert_eq!(dispatch(isa, Line::<i8, true>(&[i8::MIN; 3])).1, 0);
            assert_eq!(dispatch(isa, Line::<f32, false>(&[f32::INFINITY; 3])).1, 0);
        }
    }
    fn apart_in_steps(line: &[f32]) -> i64 {
        let first = line.iter().position(|v| v.is_nan());
        let largest = line.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        first.or_else(|| line.iter().position(|v| *v == largest)).unwrap() as i64
    }
    #[test]
    fn a_line_cut_for_threads_has_the_place_of_the_whole() {
        let runtime = Runtime { threads: Threads::new(3), isa: Isa::Scalar, blas: Blas::built_in() };
        let n = 5 * TASK + 3;
        for at in [0, TASK - 1, TASK, 3 * TASK + 9, n - 1] {
            let mut x = vec![0.0f64; n];
            x[at] = 1.0;
            x[n - 1] = 1.0;
            let mut out = -1;
            cut::<f64, true>(&runtime, &x, &mut out).unwrap();
            assert_eq!(out as usize, at);
        }
    }
}
