//! Weighted sums of a few elements along an axis, and their gradient. Where elements lie behind the axis whole rows of these are
//! added up in vectors; the last axis is walked element by element.
use super::{known, rows::Summed};
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    operand::{In, internal},
    scratch::{ScratchVec, collected},
    simd::{Arithmetic, Float, Simd, SimdKernel, dispatch},
};
use adamant_runtime::{
    Composite, DType, ErrorKind, Shape,
    composite::taps::{Taps, TapsBackward},
    kernel::{Fault, FaultWord},
};

/// Sums, and their gradient.
pub(super) struct TapsKernel;
/// How many elements make a task.
const TASK: usize = 32 * 1024;

impl CpuKernel for TapsKernel {
    fn supports(&self, _: &dyn Composite, dtypes: &[DType]) -> bool {
        matches!(dtypes, [DType::F32, DType::I32, DType::F32, DType::F32] | [DType::F64, DType::I32, DType::F64, DType::F64])
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, fault: &FaultWord) -> Result<(), ErrorKind> {
        let [x, index, _] = operands.inputs else { return Err(internal("taps have three inputs")) };
        let (axis, bound) = match (known::<Taps>(composite), known::<TapsBackward>(composite)) {
            (Some(taps), _) if taps.axis < x.shape.rank() => (taps.axis, x.shape[taps.axis]),
            (_, Some(back)) if back.axis < x.shape.rank() => (back.axis, back.size),
            _ => return Err(internal("taps of another make")),
        };
        let (forward, double) = (known::<Taps>(composite).is_some(), x.dtype == DType::F64);
        let places = places(index, bound);
        let Ok(places) = places? else {
            return bad(index, bound, fault, operands);
        };
        let shape = x.shape;
        match (forward, double) {
            (true, false) => sums::<f32>(runtime, axis, &shape, &places, operands),
            (true, true) => sums::<f64>(runtime, axis, &shape, &places, operands),
            (false, false) => back::<f32>(runtime, axis, &shape, &places, operands),
            (false, true) => back::<f64>(runtime, axis, &shape, &places, operands),
        }
    }
}
/// The indices, if all of them are inside.
fn places(index: &In<'_>, bound: usize) -> Result<Result<ScratchVec<usize>, ()>, ErrorKind> {
    let all: &[i32] = index.dense()?;
    let places = collected(all.len(), all.iter().map_while(|&i| usize::try_from(i).ok().filter(|&i| i < bound)))?;
    Ok(if places.len() == all.len() { Ok(places) } else { Err(()) })
}
/// Zeros, and the first index that is nowhere.
fn bad(index: &In<'_>, bound: usize, fault: &FaultWord, operands: &mut KernelOperands<'_, '_, '_>) -> Result<(), ErrorKind> {
    let all: &[i32] = index.dense()?;
    if let Some(position) = all.iter().position(|&i| usize::try_from(i).map_or(true, |i| i >= bound)) {
        fault.set(Fault::Index { index: all[position] as i64, bound, position });
    }
    operands.outputs.iter_mut().try_for_each(|o| o.dense_bytes().map(|b| b.fill(0)))
}
fn sums<T: Summed + bytemuck::Pod + Send + Sync>(
    runtime: &Runtime,
    axis: usize,
    shape: &Shape,
    places: &[usize],
    operands: &mut KernelOperands<'_, '_, '_>,
) -> Result<(), ErrorKind> {
    let (x, weights): (&[T], &[T]) = (operands.input(0)?, operands.input(2)?);
    let taps = operands.inputs[1].shape[0];
    let (from, inner): (usize, usize) = (shape[axis], shape[axis + 1..].iter().product());
    let to = places.len() / taps.max(1);
    let out: &mut [T] = operands.output(0)?;
    if out.is_empty() {
        return Ok(());
    }
    let isa = runtime.isa;
    if inner == 1 {
        let some = (TASK / to).max(1);
        runtime.threads.for_chunks_mut(out, some * to, |task, out| {
            for (r, out) in out.chunks_exact_mut(to).enumerate() {
                let x = &x[(task * some + r) * from..][..from];
                match taps {
                    2 => along::<T, 2>(x, places, weights, out),
                    4 => along::<T, 4>(x, places, weights, out),
                    _ => {
                        for (t, o) in out.iter_mut().enumerate() {
                            *o = (1..taps).fold(x[places[t]] * weights[t], |sum, k| sum + x[places[k * to + t]] * weights[k * to + t]);
                        }
                    }
                }
            }
        });
        return Ok(());
    }
    let some = (TASK / inner).max(1);
    runtime.threads.for_chunks_mut(out, some * inner, |task, out| {
        for (r, out) in out.chunks_exact_mut(inner).enumerate() {
            let (o, t) = ((task * some + r) / to, (task * some + r) % to);
            let x = &x[o * from * inner..][..from * inner];
            dispatch(isa, RowOfSums { x, places, weights, t, to, taps, out });
        }
    });
    Ok(())
}
/// Along the last axis, with as many taps as the compiler knows of.
fn along<T: Summed, const TAPS: usize>(x: &[T], places: &[usize], weights: &[T], out: &mut [T]) {
    let to = out.len();
    let mut rows = [(places, weights); TAPS];
    for (k, row) in rows.iter_mut().enumerate() {
        *row = (&places[k * to..][..to], &weights[k * to..][..to]);
    }
    for t in 0..to {
        let mut sum = x[rows[0].0[t]] * rows[0].1[t];
        for (places, weights) in &rows[1..] {
            sum = sum + x[places[t]] * weights[t];
        }
        out[t] = sum;
    }
}
/// A row of sums of rows.
struct RowOfSums<'a, T> {
    /// all rows of one outer index
    x: &'a [T],
    places: &'a [usize],
    weights: &'a [T],
    t: usize,
    to: usize,
    taps: usize,
    out: &'a mut [T],
}
impl<T: Summed> SimdKernel for RowOfSums<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let RowOfSums { x, places, weights, t, to, taps, out } = self;
        let (inner, lanes) = (out.len(), T::V::<S>::LANES);
        let mut j = 0;
        while j < inner {
            let count = lanes.min(inner - j);
            let mut sum = T::V::<S>::splat(T::ZERO);
            for k in 0..taps {
                let row = &x[places[k * to + t] * inner + j..][..count];
                let v = if count == lanes { T::V::<S>::from_slice(row) } else { T::V::<S>::from_partial(row) };
                let part = v.mul(T::V::<S>::splat(weights[k * to + t]));
                sum = if k == 0 { part } else { sum.add(part) };
            }
            if count == lanes {
                sum.write(&mut out[j..j + count]);
            } else {
                sum.write_partial(&mut out[j..j + count]);
            }
            j += count;
        }
    }
}
fn back<T: Summed + bytemuck::Pod + Send + Sync>(
    runtime: &Runtime,
    axis: usize,
    shape: &Shape,
    places: &[usize],
    operands: &mut KernelOperands<'_, '_, '_>,
) -> Result<(), ErrorKind> {
    let (g, weights): (&[T], &[T]) = (operands.input(0)?, operands.input(2)?);
    let taps = operands.inputs[1].shape[0];
    let (to, inner): (usize, usize) = (shape[axis], shape[axis + 1..].iter().product());
    let size = operands.outputs.first().ok_or_else(|| internal("a gradient without an output"))?.shape[axis];
    let out: &mut [T] = operands.output(0)?;
    let every = size * inner;
    if out.is_empty() || every == 0 {
        return Ok(());
    }
    let isa = runtime.isa;
    let some = (TASK / every).max(1);
    runtime.threads.for_chunks_mut(out, some * every, |task, out| {
        out.fill(T::ZERO);
        for (r, out) in out.chunks_exact_mut(every).enumerate() {
            let g = &g[(task * some + r) * to * inner..][..to * inner];
            for k in 0..taps {
                let (places, weights) = (&places[k * to..][..to], &weights[k * to..][..to]);
                if inner == 1 {
                    for t in 0..to {
                        out[places[t]] = out[places[t]] + g[t] * weights[t];
                    }
                    continue;
                }
                for t in 0..to {
                    let (row, g) = (&mut out[places[t] * inner..][..inner], &g[t * inner..][..inner]);
                    dispatch(isa, AddScaled { row, g, weight: weights[t] });
                }
            }
        }
    });
    Ok(())
}
/// Adds a multiple of a row.
struct AddScaled<'a, T> {
    row: &'a mut [T],
    g: &'a [T],
    weight: T,
}
impl<T: Summed> SimdKernel for AddScaled<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let AddScaled { row, g, weight } = self;
        let w = T::V::<S>::splat(weight);
        super::rows::update::<S, T, 1>(
            row,
            [g],
            #[inline(always)]
            |v, [g]| v.add(g.mul(w)),
        );
    }
}
