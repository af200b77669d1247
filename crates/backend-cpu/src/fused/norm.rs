//! The norms: of layers, RMS and groups here, of batches in its own file. Rows that are normalised one by one, and the cotangents
//! of weight and bias as sums over the rows. A group's row is some channels, each with a weight and a bias.
use super::{
    batch_norm, known, one_float_or_wide,
    rows::{StoredElement, Summed, all, map, rows_of_a_task, sum},
};
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    element::with_float,
    map::load,
    map::loops::Real,
    operand::{In, internal},
    reduce::{
        columns::fold_columns,
        tree::{BLOCK, LANES, ReducedElement, Sum, Total},
    },
    scratch::filled,
    simd::{
        Arithmetic, Float, Simd, SimdKernel, dispatch,
        stream::{self, ReadAhead},
    },
};
use adamant_runtime::{
    Composite, DType, ErrorKind,
    composite::norm::{Norm, NormBackward, Over},
    kernel::FaultWord,
};

/// Every norm.
pub(super) struct NormForwardKernel;
/// Its backward.
pub(super) struct NormBackwardKernel;

/// Elements of a row: the last axes.
fn row_length(norm: &Norm, x: &In<'_>) -> Result<usize, ErrorKind> {
    match norm.over {
        Over::Layer { axes } | Over::Rms { axes } if axes <= x.shape.rank() => Ok(x.shape[x.shape.rank() - axes..].iter().product()),
        Over::Group { groups } if groups > 0 && x.shape.rank() >= 2 => Ok(x.shape[1] / groups * x.shape[2..].iter().product::<usize>()),
        _ => Err(internal("a norm over other axes")),
    }
}
/// A normalised element.
#[inline(always)]
fn hat<V: Float>(x: V, mean: V, rstd: V, centered: bool) -> V {
    if centered { x.sub(mean).mul(rstd) } else { x.mul(rstd) }
}

/// The cotangent times the weight. A missing weight is a factor of one, which changes no bit.
#[inline(always)]
fn weighted<V: Float>(g: V, weight: V, has_weight: bool) -> V {
    if has_weight { g.mul(weight) } else { g }
}

struct NormRow<'a, T> {
    x: &'a [T],
    /// The row that comes next, asked for while this one is written.
    next: ReadAhead<'a>,
    weight: Option<&'a [T]>,
    bias: Option<&'a [T]>,
    centered: bool,
    eps: T,
    out: &'a mut [T],
}
impl<T: Summed> SimdKernel for NormRow<'_, T> {
    /// The mean, and 1 / the standard deviation.
    type Output = (T, T);
    #[inline(always)]
    fn run<S: Simd>(self) -> (T, T) {
        let NormRow { x, next, weight, bias, centered, eps, out } = self;
        let count = T::nearest(x.len() as f64);
        let mean = if centered {
            T::nearest(sum::<S, T, 1>(
                [x],
                #[inline(always)]
                |[x]| x,
            )) / count
        } else {
            T::ZERO
        };
        let m = T::V::<S>::splat(mean);
        let squares = if centered {
            sum::<S, T, 1>(
                [x],
                #[inline(always)]
                |[x]| {
                    let c = x.sub(m);
                    c.mul(c)
                },
            )
        } else {
            sum::<S, T, 1>(
                [x],
                #[inline(always)]
                |[x]| x.mul(x),
            )
        };
        let variance = [T::nearest(squares) / count + eps];
        let mut deviation = [T::ZERO];
        map::<S, T, 1>(
            &mut deviation,
            [&variance],
            #[inline(always)]
            |[v]| v.sqrt(),
        );
        let rstd = T::ONE / deviation[0];
        let r = T::V::<S>::splat(rstd);
        match (weight, bias) {
            (None, None) => map::<S, T, 1>(
                out,
                [x],
                #[inline(always)]
                |[x]| {
                    next.fetch_line();
                    hat(x, m, r, centered)
                },
            ),
            (Some(w), None) => map::<S, T, 2>(
                out,
                [x, w],
                #[inline(always)]
                |[x, w]| {
                    next.fetch_line();
                    hat(x, m, r, centered).mul(w)
                },
            ),
            (None, Some(b)) => map::<S, T, 2>(
                out,
                [x, b],
                #[inline(always)]
                |[x, b]| {
                    next.fetch_line();
                    hat(x, m, r, centered).add(b)
                },
            ),
            (Some(w), Some(b)) => map::<S, T, 3>(
                out,
                [x, w, b],
                #[inline(always)]
                |[x, w, b]| {
                    next.fetch_line();
                    hat(x, m, r, centered).mul(w).add(b)
                },
            ),
        }
        (mean, rstd)
    }
}

/// The channels that one row is made of, side by side: each of its elements times a weight, plus a bias.
struct RowOfChannels<'a, T> {
    row: &'a mut [T],
    weight: Option<&'a [T]>,
    bias: Option<&'a [T]>,
    channels: usize,
}
impl<T: Summed> SimdKernel for RowOfChannels<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let RowOfChannels { row, weight, bias, channels } = self;
        let inner = row.len() / channels;
        for (c, row) in row.chunks_exact_mut(inner).enumerate() {
            let (w, b) = (T::V::<S>::splat(weight.map_or(T::ONE, |w| w[c])), T::V::<S>::splat(bias.map_or(T::ZERO, |b| b[c])));
            match (weight, bias) {
                (None, None) => {}
                (Some(_), None) => super::rows::update::<S, T, 0>(
                    row,
                    [],
                    #[inline(always)]
                    |v, []| v.mul(w),
                ),
                (None, Some(_)) => super::rows::update::<S, T, 0>(
                    row,
                    [],
                    #[inline(always)]
                    |v, []| v.add(b),
                ),
                (Some(_), Some(_)) => super::rows::update::<S, T, 0>(
                    row,
                    [],
                    #[inline(always)]
                    |v, []| v.mul(w).add(b),
                ),
            }
        }
    }
}

fn forward<M: StoredElement>(norm: &Norm, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime) -> Result<(), ErrorKind>
where
    M::Real: load::Decode,
{
    let inputs = operands.inputs;
    let n = row_length(norm, &inputs[0])?;
    let mut params = inputs[1..].iter().map(|i| all::<M::Real>(runtime.isa, i));
    let weight = if norm.weight { params.next().transpose()? } else { None };
    let bias = if norm.bias { params.next().transpose()? } else { None };
    let centered = norm.centered();
    // Groups and the channels of each; else weight and bias have a row's length.
    let grouped = match norm.over {
        Over::Group { groups } => Some((groups, inputs[0].shape[1] / groups)),
        _ => None,
    };
    let Some((y, statistics)) = operands.outputs.split_first_mut() else { return Err(internal("a norm without outputs")) };
    let x: &[M] = inputs[0].dense()?;
    let y: &mut [M] = y.dense()?;
    let bytes = size_of_val(y);
    let (means, rstds): (&mut [M::Real], &mut [M::Real]) = match statistics {
        [mean, rstd] if centered => (mean.dense()?, rstd.dense()?),
        [rstd] if !centered => (&mut [], rstd.dense()?),
        _ => return Err(internal("a norm with other statistics")),
    };
    if n == 0 {
        // Means of nothing: 0 / 0.
        means.fill(M::Real::nearest(f64::NAN));
        rstds.fill(M::Real::nearest(f64::NAN));
        return Ok(());
    }
    let rows = rows_of_a_task(&runtime.threads, rstds.len(), n);
    let mut means = means.chunks_mut(rows);
    let parts = y.chunks_mut(rows * n).zip(rstds.chunks_mut(rows)).map(|(y, rstds)| (y, means.next().unwrap_or_default(), rstds));
    let (weight, bias, eps) = (weight.as_deref().map(Vec::as_slice), bias.as_deref().map(Vec::as_slice), M::Real::nearest(norm.eps));
    let isa = runtime.isa;
    let (row_weight, row_bias) = if grouped.is_some() { (None, None) } else { (weight, bias) };
    runtime.threads.try_for_parts(parts, |task, (y, means, rstds)| {
        let (mut scratch, mut result, mut past) = (M::scratch_vec(n)?, M::scratch_vec(n)?, stream::StreamedRows::new(n, bytes)?);
        for (k, (y, rstd)) in y.chunks_exact_mut(n).zip(rstds).enumerate() {
            let at = (task * rows + k) * n;
            let next = &x[at + n..x.len().min(at + 2 * n)];
            let x = M::read(isa, &x[at..at + n], &mut scratch);
            let mut mean = M::Real::ZERO;
            past.write(y, |y| {
                M::write(isa, y, &mut result, |out| {
                    (mean, *rstd) = dispatch(isa, NormRow { x, next: ReadAhead::of(next), weight: row_weight, bias: row_bias, centered, eps, out });
                    if let Some((groups, channels)) = grouped {
                        let first = (task * rows + k) % groups * channels;
                        dispatch(
                            isa,
                            RowOfChannels {
                                row: out,
                                weight: weight.map(|w| &w[first..first + channels]),
                                bias: bias.map(|b| &b[first..first + channels]),
                                channels,
                            },
                        );
                    }
                });
            });
            if let Some(m) = means.get_mut(k) {
                *m = mean;
            }
        }
        Ok(())
    })
}

struct RowBackward<'a, T> {
    g: &'a [T],
    x: &'a [T],
    weight: Option<&'a [T]>,
    mean: Option<T>,
    rstd: T,
    dx: &'a mut [T],
    /// lanes of the sums for weight and bias that this row belongs to
    weight_lane: Option<&'a mut [T]>,
    bias_lane: Option<&'a mut [T]>,
}
impl<T: Summed> SimdKernel for RowBackward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let RowBackward { g, x, weight, mean, rstd, dx, weight_lane, bias_lane } = self;
        let count = T::nearest(x.len() as f64);
        let r = T::V::<S>::splat(rstd);
        let m = T::V::<S>::splat(mean.unwrap_or(T::ZERO));
        let centered = mean.is_some();
        let w = weight.unwrap_or(g);
        let has_weight = weight.is_some();
        let along = T::nearest(sum::<S, T, 3>(
            [g, x, w],
            #[inline(always)]
            |[g, x, w]| weighted(g, w, has_weight).mul(hat(x, m, r, centered)),
        )) / count;
        let a = T::V::<S>::splat(along);
        if centered {
            let shift = T::nearest(sum::<S, T, 2>(
                [g, w],
                #[inline(always)]
                |[g, w]| weighted(g, w, has_weight),
            )) / count;
            let s = T::V::<S>::splat(shift);
            map::<S, T, 3>(
                dx,
                [g, x, w],
                #[inline(always)]
                |[g, x, w]| weighted(g, w, has_weight).sub(hat(x, m, r, centered).mul(a)).sub(s).mul(r),
            );
        } else {
            map::<S, T, 3>(
                dx,
                [g, x, w],
                #[inline(always)]
                |[g, x, w]| weighted(g, w, has_weight).sub(hat(x, m, r, centered).mul(a)).mul(r),
            );
        }
        if let Some(lane) = weight_lane {
            super::rows::update::<S, T, 2>(
                lane,
                [g, x],
                #[inline(always)]
                |l, [g, x]| l.add(g.mul(hat(x, m, r, centered))),
            );
        }
        if let Some(lane) = bias_lane {
            super::rows::update::<S, T, 1>(
                lane,
                [g],
                #[inline(always)]
                |l, [g]| l.add(g),
            );
        }
    }
}
fn backward<M: StoredElement>(norm: &Norm, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime) -> Result<(), ErrorKind>
where
    M::Real: load::Decode,
{
    let inputs = operands.inputs;
    let n = row_length(norm, &inputs[1])?;
    let centered = norm.centered();
    let weight = if norm.weight { Some(all::<M::Real>(runtime.isa, &inputs[2])?) } else { None };
    let (g, x): (&[M], &[M]) = (inputs[0].dense()?, inputs[1].dense()?);
    let (means, rstds): (&[M::Real], &[M::Real]) = match &inputs[2 + norm.weight as usize..] {
        [mean, rstd] if centered => (mean.dense()?, rstd.dense()?),
        [rstd] if !centered => (&[], rstd.dense()?),
        _ => return Err(internal("a norm with other statistics")),
    };
    let Some((dx, params)) = operands.outputs.split_first_mut() else { return Err(internal("the backward of a norm without outputs")) };
    let dx: &mut [M] = dx.dense()?;
    let bytes = size_of_val(dx);
    let isa = runtime.isa;
    let wanted = params.len();
    // A task is one block of the tree by which the rows' shares of weight and bias are added.
    let blocks = if n == 0 { 0 } else { rstds.len().div_ceil(BLOCK) };
    let mut sums = filled(M::Real::ZERO, blocks * wanted * n)?;
    let weight = weight.as_deref().map(Vec::as_slice);
    let mut shares = sums.chunks_mut((wanted * n).max(1));
    let parts = dx.chunks_mut((BLOCK * n).max(1)).map(|dx| (dx, shares.next().unwrap_or_default()));
    runtime.threads.try_for_parts(parts, |block, (dx, sums)| -> Result<(), ErrorKind> {
        let (mut g_scratch, mut x_scratch, mut result) = (M::scratch_vec(n)?, M::scratch_vec(n)?, M::scratch_vec(n)?);
        let mut past = stream::StreamedRows::new(n, bytes)?;
        let mut lanes = filled(M::Real::ZERO, wanted * LANES * n)?;
        for (k, dx) in dx.chunks_exact_mut(n).enumerate() {
            let row = block * BLOCK + k;
            let g = M::read(isa, &g[row * n..][..n], &mut g_scratch);
            let x = M::read(isa, &x[row * n..][..n], &mut x_scratch);
            let (weight_lanes, bias_lanes) = lanes.split_at_mut(if norm.weight { LANES * n } else { 0 });
            let lane = |lanes: &'_ mut [M::Real]| -> Option<std::ops::Range<usize>> { (!lanes.is_empty()).then_some(k % LANES * n..(k % LANES + 1) * n) };
            let (weight_range, bias_range) = (lane(weight_lanes), lane(bias_lanes));
            let (weight_lane, bias_lane) = (weight_range.map(|r| &mut weight_lanes[r]), bias_range.map(|r| &mut bias_lanes[r]));
            let mean = if centered { means.get(row).copied() } else { None };
            past.write(dx, |dx| {
                M::write(isa, dx, &mut result, |dx| dispatch(isa, RowBackward { g, x, weight, mean, rstd: rstds[row], dx, weight_lane, bias_lane }));
            });
        }
        for (lanes, sums) in lanes.chunks_exact_mut((LANES * n).max(1)).zip(sums.chunks_exact_mut(n.max(1))) {
            fold_columns::<M::Real, Sum>(isa, lanes, n);
            sums.copy_from_slice(&lanes[..n]);
        }
        Ok(())
    })?;
    for (k, out) in params.iter_mut().enumerate() {
        let totals = (0..n).map(|c| {
            let mut total = Total::<M::Real>::new::<Sum>();
            (0..blocks).for_each(|b| total.push::<Sum>(sums[(b * wanted + k) * n + c]));
            M::Real::nearest(total.value::<Sum>())
        });
        super::rows::store_all(isa, totals, out)?;
    }
    Ok(())
}

impl CpuKernel for NormForwardKernel {
    fn supports(&self, _: &dyn Composite, dtypes: &[DType]) -> bool {
        one_float_or_wide(dtypes)
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let norm = known::<Norm>(composite).ok_or_else(|| internal("a norm of another make"))?;
        with_float!(operands.inputs[0].dtype, M => match norm.over {
            Over::Batch => batch_norm::forward::<M>(norm, operands, runtime),
            _ => forward::<M>(norm, operands, runtime),
        })
    }
}
impl CpuKernel for NormBackwardKernel {
    fn supports(&self, _: &dyn Composite, dtypes: &[DType]) -> bool {
        one_float_or_wide(dtypes)
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let NormBackward(norm) = known::<NormBackward>(composite).ok_or_else(|| internal("the backward of a norm of another make"))?;
        if operands.inputs[0].dtype != operands.inputs[1].dtype {
            return Err(internal("a cotangent of another dtype"));
        }
        with_float!(operands.inputs[1].dtype, M => match norm.over {
            Over::Batch => batch_norm::backward::<M>(norm, operands, runtime),
            _ => backward::<M>(norm, operands, runtime),
        })
    }
}
